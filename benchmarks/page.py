#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Report and page in Chromium: milliseconds from an input to its paint, and bytes of reports.

Where mechanisms are compared, both limits are dragged in the chart, and the limit and the ε that is looked at are
stepped through by keys. Elsewhere it is the slider of ε. Beside it stands a page with a slider and nothing else:
what browser and machine take for themselves, about a frame. Reports are made by the commands that a user would type;
the served page is asked about a generated table, and measured while its attack is being computed and when all is
done. The first picture of the served page is timed from the upload.

    python benchmarks/page.py [--quick] [--rows 50000] [--turns 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from chromium import (
    CHROMIUM,
    ask,
    browsing,
    drag_times,
    handle_times,
    key_times,
    percentile_95,
    serving,
    wait_for_report,
)
from timing import keep

PAINT, BYTES = 50.0, 3_000_000
"""The bars: milliseconds at the 95th percentile, and bytes of a report."""
PATIENCE = 600_000
"""Milliseconds: a busy machine is slow, and not at fault."""
GRID = "0.1:10:30"
MODELS, MANY_MODELS = 20, 400
"""They decide how long an attack takes, not what a page draws; many are under way for minutes."""
WINDOW = {"width": 1000, "height": 900}
ARROWS = ("ArrowUp", "ArrowDown")
EMPTY = '<!doctype html><input type="range" id="slider" min="0" max="1" step="any" style="width: 600px">'
GROUPS = [f"age >= {age}" for age in range(20, 60, 5)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: the data are generated")
    parser.add_argument("--rows", type=int, default=50_000, help="of the generated table")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def make_table(path: Path, n_rows: int) -> Path:
    """Write a survey of who smokes."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n_rows)
    sex = rng.choice(["Female", "Male"], n_rows)
    chance = 1 / (1 + np.exp(2.5 - 0.04 * age - 0.8 * (sex == "Male")))
    pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "income": rng.normal(30, 10, n_rows).round(1),
            "smokes": np.where(rng.random(n_rows) < chance, "yes", "no"),
        }
    ).to_csv(path, index=False)
    return path


def make_reports(folder: Path, table: Path, *, is_quick: bool) -> dict[str, Path]:
    """Have reports written by the commands that a user would type."""
    asked = ["--label", "smokes", "--protect", "smokes", "--epsilon", GRID, "--quiet"]
    models = ["--shadow-models", str(MODELS)]
    groups = [part for group in GROUPS for part in ("--group", group)]
    commands = {
        "a decision": ["decide", str(table), *asked, *models, "--max-loss-increase", "0.01"],
    }
    if not is_quick:
        commands |= {
            "the cost of one group": ["whatif", str(table), *asked],
            f"the cost of {len(GROUPS)} groups": ["whatif", str(table), *asked, *groups],
            "the demonstration": ["demo", "--quiet"],
        }
    files = {}
    for name, command in commands.items():
        is_folder = command[0] == "demo"
        out = folder / (f"{len(files)}" if is_folder else f"{len(files)}.html")
        _epsilens(*command, "--out", str(out))
        files[name] = out / "report.html" if is_folder else out
    return files


def _epsilens(*arguments_: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "epsilens", *arguments_],
        capture_output=True,
        text=True,
        check=False,
    )
    # A limit that is not kept (3) makes a report as well.
    if done.returncode not in (0, 3):
        raise SystemExit(f"epsilens {' '.join(arguments_)}: {done.stderr.strip()}")


def measured(name: str, page: Any, shown: Any, turns: int) -> dict[str, Any]:
    """Drag and step through what the first screen offers, in turns; return the times of all of them."""
    compares = shown.query_selector("[data-grip=advantage]") is not None
    if compares:
        shown.wait_for_selector("html[data-mechanisms]")
    dragged, keys = [], []
    for _ in range(turns):
        if compares:
            ways = (("advantage", (200.0, 0.0)), ("cost", (0.0, 200.0)))
            dragged.append(
                [t for at, way in ways for t in handle_times(shown, f"[data-grip={at}]", way)]
            )
            boxes = ("feared", "look-epsilon")
            keys.append([t for box in boxes for t in key_times(shown, box, ARROWS)])
        else:
            dragged.append(drag_times(page, shown))
            keys.append(key_times(shown))
    row = {"name": name, "drag": _summary(dragged), "keys": _summary(keys)}
    print(f"{name}: dragged {_text(row['drag'])} ms, keys {_text(row['keys'])} ms", file=sys.stderr)
    return row


def _summary(turns: list[list[float]]) -> dict[str, Any]:
    every = [time for turn in turns for time in turn]
    return {
        "count": len(every),
        "median_ms": statistics.median(every),
        "p95_ms": percentile_95(every),
        "largest_ms": max(every),
        "p95_ms_of_turns": [percentile_95(turn) for turn in turns],
    }


def _text(found: dict[str, Any]) -> str:
    return f"{found['median_ms']:.1f}, {found['p95_ms']:.1f}, {found['largest_ms']:.1f}"


def measure_files(browser: Any, files: dict[str, Path], *, turns: int) -> list[dict[str, Any]]:
    """Measure reports that are opened as files, each in a window of its own."""
    rows = []
    for name, file in files.items():
        context = browser.new_context(locale="en-US", viewport=WINDOW)
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        row = measured(f"report: {name}", page, page, turns)
        rows.append({**row, "bytes": file.stat().st_size})
        context.close()
    return rows


def measure_nothing(browser: Any, *, turns: int) -> dict[str, Any]:
    """Measure a page that answers to nothing."""
    page = browser.new_page(viewport=WINDOW)
    page.set_content(EMPTY)
    row = measured("a slider and nothing else", page, page, turns)
    page.close()
    return row


def measure_served(
    browser: Any, table: Path, state: Path, *, at_work: bool, turns: int
) -> dict[str, Any]:
    """Measure the served page: with the cost there and the attack under way, or when all is done."""
    with serving(state) as link:
        context = browser.new_context(locale="en-US", viewport=WINDOW, accept_downloads=True)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(link)
        page.wait_for_selector("html[data-at]")
        begun = time.perf_counter()
        page.set_input_files("#file", table)
        page.wait_for_selector("#go", state="visible")
        read = time.perf_counter()
        first = ask(page, models=MANY_MODELS if at_work else MODELS, grid=GRID)
        first.wait_for_selector("#chart svg, #mechanism-chart svg")
        drawn = time.perf_counter()
        shown = wait_for_report(page, "cost" if at_work else "decision")
        name = f"served page, {'an attack under way' if at_work else 'all computed'}"
        row = measured(name, page, shown, turns)
        if at_work and not page.query_selector("#jobs li[data-kind=attack]"):
            raise SystemExit("the attack was done before it was measured: raise MANY_MODELS.")
        page.evaluate("scrollTo(0, 0)")
        with page.expect_download() as saved:
            page.click("#save-report")
        row["bytes"] = Path(saved.value.path()).stat().st_size
        row["first_picture"] = {"upload_s": read - begun, "picture_s": drawn - read}
        context.close()
    return row


def markdown(result: dict[str, Any]) -> str:
    lines = [
        f"Chromium {result['browser'].partition('.')[0]}, {result['rows_of_the_table']:,} rows (the demonstration: its "
        f"own survey), ε = {GRID}. Milliseconds from an input to its paint: median, 95th percentile, largest.",
        "",
        "| what | dragged | stepped by keys | bytes |",
        "|---|---|---|---|",
    ]
    for row in result["rows"]:
        size = f"{row['bytes']:,}" if "bytes" in row else "–"
        lines.append(f"| {row['name']} | {_text(row['drag'])} | {_text(row['keys'])} | {size} |")
    for row in result["rows"]:
        if (first := row.get("first_picture")) is not None:
            lines += [
                "",
                f"{row['name'].capitalize()}: the uploaded table was read and described after {first['upload_s']:.1f} s, and the "
                f"first picture was drawn {first['picture_s']:.1f} s after it had been asked for.",
            ]
    lines += [
        "",
        f"A screen shows a frame every 16.7 ms, and an input waits for the next. The machine has {result['cores']} cores; its "
        f"load was {result['load'][0]:.1f} at the beginning and {result['load'][1]:.1f} at the end.",
    ]
    return "\n".join(lines)


def main() -> None:
    settings = arguments()
    if CHROMIUM is None:
        raise SystemExit("Chromium must be installed: run tests/page/install-browser.")
    turns = 1 if settings.quick else settings.turns
    n_rows = min(settings.rows, 1_000) if settings.quick else settings.rows
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table = make_table(folder / "survey.csv", n_rows)
        files = make_reports(folder, table, is_quick=settings.quick)
        with browsing() as browser:
            rows = [
                measure_nothing(browser, turns=turns),
                *measure_files(browser, files, turns=turns),
            ]
            rows += [
                measure_served(browser, table, folder / name, at_work=at_work, turns=turns)
                for name, at_work in (("at-work", True), ("at-rest", False))
                if not (settings.quick and at_work)
            ]
            version = browser.version
    load.append(os.getloadavg()[0])
    result = {
        "browser": version,
        "rows_of_the_table": n_rows,
        "grid": GRID,
        "turns": turns,
        "cores": os.cpu_count(),
        "load": load,
        "bars": {"p95_ms": PAINT, "bytes": BYTES},
        "rows": rows,
    }
    keep("page", markdown(result), result, is_quick=settings.quick)


if __name__ == "__main__":
    main()
