# SPDX-License-Identifier: Apache-2.0
"""A real browser, the pages in it, and how long their slider takes from input to paint.

The tests of the page and the benchmark of it measure with the same lines. Time runs from the moment
at which the browser was given the input to the first moment after the frame that it led to.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_PAINTED = """(done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
})"""
"""A message that is sent while a frame is made arrives when the frame is painted."""

_BY_KEYS = f"""async ([control, back, forth]) => {{
    const painted = {_PAINTED};
    const box = document.getElementById(control);
    const times = [];
    for (let turn = 0; turn < 60; turn += 1) {{
        const key = turn % 40 < 20 ? back : forth;
        const start = performance.now();
        box.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }}));
        await new Promise(painted);
        times.push(performance.now() - start);
    }}
    return times;
}}"""

_BY_HANDLE = f"""async ([handle, x, y]) => {{
    const painted = {_PAINTED};
    const grip = document.querySelector(handle);
    const picture = grip.parentElement;
    const box = grip.getBoundingClientRect();
    const send = (kind, part) => grip.dispatchEvent(new PointerEvent(kind, {{
        bubbles: true, cancelable: true, pointerType: "mouse", pointerId: 1, button: 0, buttons: 1,
        isPrimary: true, clientX: box.x + 13 + part * x, clientY: box.y + 13 + part * y,
    }}));
    // No real pointer is there to be captured.
    picture.setPointerCapture = () => {{}};
    send("pointerdown", 0);
    const times = [];
    for (let turn = 0; turn < 60; turn += 1) {{
        const start = performance.now();
        send("pointermove", 1 - Math.abs(1 - turn / 30));
        await new Promise(painted);
        times.push(performance.now() - start);
    }}
    send("pointerup", 0);
    delete picture.setPointerCapture;
    return times;
}}"""

_WATCH_THE_MOUSE = f"""() => {{
    const isWatched = Boolean(window.paints);
    window.paints = [];
    if (isWatched) return;
    const painted = {_PAINTED};
    const slider = document.getElementById("slider");
    let moved = null;
    slider.addEventListener("pointermove", (event) => {{ moved = event.timeStamp; }}, true);
    slider.addEventListener("input", () => {{
        const start = moved;
        if (start !== null) painted(() => window.paints.push(performance.now() - start));
    }});
}}"""

_MOVES = 120


@contextmanager
def browsing() -> Iterator[Any]:
    """Start Chromium, and end it afterwards."""
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@contextmanager
def serving(state: Path, *arguments: str) -> Iterator[str]:
    """Start `epsilens serve`, give the link that it prints, and end it afterwards."""
    command = [sys.executable, "-m", "epsilens", "serve", "--no-browser", "--state", str(state)]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.wait()


def shown_report(page: Any) -> Any:
    """Return the report inside the served page; one that is still out of sight is not it."""
    return page.query_selector("#frames iframe:not(.coming)").content_frame()


def wait_for_report(page: Any, stage: str | None = None) -> Any:
    """Return the report of a study when it is shown: of a stage ("cost", "decision"), or the first."""
    page.wait_for_selector("html[data-stage]" if stage is None else f'html[data-stage="{stage}"]')
    return shown_report(page)


def ask(page: Any, *, models: int, grid: str) -> Any:
    """Ask the served page about the table that is chosen, and return the first report."""
    page.wait_for_selector("#go", state="visible")
    page.evaluate(
        """([models, grid]) => {
            document.getElementById("shadow-models").value = models;
            document.getElementById("epsilon").value = grid;
        }""",
        [models, grid],
    )
    page.click("#go")
    return wait_for_report(page)


def key_times(
    shown: Any, control: str = "slider", keys: tuple[str, str] = ("ArrowLeft", "ArrowRight")
) -> list[float]:
    """Step through a slider or a box by sixty keys; return milliseconds from each to its paint."""
    return [float(time) for time in shown.evaluate(_BY_KEYS, [control, *keys])]


def handle_times(shown: Any, handle: str, way: tuple[float, float]) -> list[float]:
    """Drag a handle of a chart there and back by sixty moves; return milliseconds from each to its paint."""
    return [float(time) for time in shown.evaluate(_BY_HANDLE, [handle, *way])]


def drag_times(page: Any, shown: Any) -> list[float]:
    """Drag a slider by the mouse to its ends; return milliseconds from a move to its paint.

    Parameters
    ----------
    page : playwright page
        Whose mouse is moved.
    shown : playwright page or frame
        Where the slider is: the page itself, or a frame in it.

    Returns
    -------
    list of float
        One for each move that the slider noticed.
    """
    slider = shown.locator("#slider")
    slider.scroll_into_view_if_needed()
    shown.evaluate(_WATCH_THE_MOUSE)
    box = slider.bounding_box()
    share = slider.evaluate("at => (at.value - at.min) / (at.max - at.min)")
    across, height = box["width"] - box["height"], box["y"] + box["height"] / 2
    left = box["x"] + box["height"] / 2
    page.mouse.move(left + share * across, height)
    page.mouse.down()
    for move in range(_MOVES + 1):
        # From the left end to the right end and back.
        there = 1 - abs(1 - 2 * move / _MOVES)
        page.mouse.move(left + there * across, height)
    page.mouse.up()
    shown.evaluate(f"() => new Promise({_PAINTED})")
    return [float(time) for time in shown.evaluate("window.paints")]


def percentile_95(times: Sequence[float]) -> float:
    """Return the smallest time that 95 in 100 do not exceed."""
    return sorted(times)[math.ceil(0.95 * len(times)) - 1]
