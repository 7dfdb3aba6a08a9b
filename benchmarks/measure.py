# SPDX-License-Identifier: Apache-2.0
"""What every what-if benchmark measures: rungs against converged retrainings.

For every group: the mean absolute error of each rung against the mean of the retrainings, the distance
between two halves of those retrainings (no estimator can be told apart below it), and the share of single
runs inside the 90 % prediction interval, over cells with at least 20 expected changes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from epsilens import WhatIf

RESULTS = Path(__file__).parent / "results"


def arguments(description: str, *, repeats: int = 10) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def compare(
    study: WhatIf,
    question: dict,
    *,
    changes: dict[str, np.ndarray],
    rungs: tuple[str, ...] = ("influence", "newton", "exact"),
    repeats: int,
    seed: int,
) -> tuple[list[dict], dict[str, float]]:
    """Return a row per group, and the seconds that each rung took.

    `changes` holds, per group, the expected number of changed values at every ε.
    """
    seconds, estimates = {}, {}
    for rung in rungs:
        started = time.perf_counter()
        estimates[rung] = study.estimate(**question, method=rung).to_frame()
        seconds[rung] = time.perf_counter() - started
    started = time.perf_counter()
    runs = study.retrain(**question, repeats=repeats, random_state=seed).draws()
    seconds["retrain"] = time.perf_counter() - started
    rows = []
    for name, expected in changes.items():
        table = runs[runs["group"] == name].pivot(
            index="epsilon", columns="repeat", values="loss_change"
        )
        values = table.to_numpy()
        truth, half = values.mean(axis=1), repeats // 2
        halves = np.abs(values[:, :half].mean(axis=1) - values[:, half:].mean(axis=1)).mean()
        error = {
            rung: float(np.abs(frame[frame["group"] == name]["loss_change"] - truth).mean())
            for rung, frame in estimates.items()
        }
        exact = estimates["exact"][estimates["exact"]["group"] == name]
        enough = expected >= 20
        inside = (values >= exact["loss_change_low"].to_numpy()[:, None]) & (
            values <= exact["loss_change_high"].to_numpy()[:, None]
        )
        spread = inside[enough].mean(axis=1)
        rows.append(
            {
                "group": name,
                "error": error,
                "halves": float(halves),
                "exact_over_halves": error["exact"] / float(halves),
                "coverage": float(spread.mean()) if len(spread) else None,
                "coverage_standard_error": float(spread.std(ddof=1) / np.sqrt(len(spread)))
                if len(spread) > 1
                else None,
                "covered_cells": int(enough.sum()),
                "trusted_cells": int(exact["trusted"].sum()),
                "cells": len(exact),
            }
        )
    return rows, seconds


def markdown(title: str, rows: list[dict], *, paper: dict[str, float] | None = None) -> str:
    """Return the table that the documentation includes."""
    lines = [
        title,
        "",
        "| group | first order | Newton | exact | two halves apart | exact / halves "
        "| 90 % interval covers | trusted cells |" + (" P1's error |" if paper else ""),
        "|---|---|---|---|---|---|---|---|" + ("---|" if paper else ""),
    ]
    for row in rows:
        error = row["error"]
        se = row["coverage_standard_error"]
        cover = "–" if row["covered_cells"] == 0 else f"{row['coverage']:.1%}"
        cover += "" if se is None else f" ± {se:.1%}"
        cells = [
            row["group"],
            *(f"{error[rung]:.6f}" if rung in error else "–" for rung in ("influence", "newton")),
            f"{error['exact']:.6f}",
            f"{row['halves']:.6f}",
            f"{row['exact_over_halves']:.2f}",
            cover,
            f"{row['trusted_cells']} of {row['cells']}",
        ]
        if paper:
            cells.append(f"{paper[row['group']]:.4f}" if row["group"] in paper else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(name: str, settings: argparse.Namespace, text: str, result: dict) -> None:
    """Print the table; keep it unless it was a quick run."""
    print(text)
    if not settings.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(
            json.dumps({"benchmark": name, **result}, indent=2) + "\n"
        )
        (RESULTS / f"{name}.md").write_text(text + "\n")
