# SPDX-License-Identifier: Apache-2.0
"""A page in a real browser that remembers what it said and what it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

import pytest

# What the benchmark of the page measures is measured here in the same way.
from chromium import handle_times, key_times, percentile_95


class Opened:
    """A page with what it said and what it asked for."""

    # Milliseconds. A busy machine is no failure; once something did not come, the rest is not waited for so long.
    PATIENCE, LITTLE_PATIENCE = 120_000, 8_000
    patience = PATIENCE
    pages: ClassVar[WeakSet[Opened]] = WeakSet()

    def __init__(self, browser: object, path: Path, **context: object) -> None:
        self.context = browser.new_context(locale="en-US", **context)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.set_default_timeout(Opened.patience)
        Opened.pages.add(self)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def open_parts(self) -> Opened:
        """Open every part of the page below the first screen."""
        self.page.evaluate(
            "for (const part of document.querySelectorAll('details.part')) part.open = true"
        )
        return self

    def text(self, name: str) -> str:
        return self.page.inner_text(f"#{name}")

    def line(self, chart: str = "chart") -> float:
        """Where the line of the chosen budget stands, in pixels from the left."""
        box = self.page.locator(f'#{chart} svg line[stroke="#1d5fa8"]').last.bounding_box()
        return box["x"] + box["width"] / 2

    def thumb(self) -> float:
        """Where the thumb of the slider stands, in pixels from the left."""
        low, high, value = (
            float(self.page.eval_on_selector("#slider", f"slider => slider.{name}"))
            for name in ("min", "max", "value")
        )
        box = self.page.locator("#slider").bounding_box()
        return box["x"] + 12 + (box["width"] - 24) * (value - low) / (high - low)

    def times(self, control: str = "slider", way: tuple[float, float] | None = None) -> list[float]:
        """Milliseconds to the next frame from each of sixty keys, or moves of a handle by so many pixels.

        Keys go across on the slider and up and down in a box.
        """
        if way is not None:
            return handle_times(self.page, control, way)
        keys = ("ArrowLeft", "ArrowRight") if control == "slider" else ("ArrowUp", "ArrowDown")
        return key_times(self.page, control, keys)

    def paint_p95(self, control: str = "slider", way: tuple[float, float] | None = None) -> float:
        """The 95th percentile of milliseconds from a key or a move to the next frame."""
        return percentile_95(self.times(control, way))

    def work_per_key(
        self, control: str = "slider", way: tuple[float, float] | None = None
    ) -> float:
        """Milliseconds that the page itself works for a key or a move, whatever else the machine does."""
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def worked() -> float:
            found = session.send("Performance.getMetrics")["metrics"]
            return next(one["value"] for one in found if one["name"] == "TaskDuration")

        before = worked()
        n_keys = len(self.times(control, way))
        return 1000 * (worked() - before) / n_keys

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=6)
        self.page.mouse.up()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Lose patience with the pages of this process after one of them did not do what was waited for."""
    report = yield
    if call.excinfo is not None and call.excinfo.typename == "TimeoutError":
        Opened.patience = Opened.LITTLE_PATIENCE
        for opened in Opened.pages:
            if not opened.page.is_closed():
                opened.page.set_default_timeout(Opened.patience)
    return report


@contextmanager
def opening(browser: object) -> Iterator[Callable[..., Opened]]:
    """Give what opens a file in the browser; the pages are closed afterwards."""
    pages: list[Opened] = []

    def open_(path: Path, **context: object) -> Opened:
        pages.append(Opened(browser, path, **context))
        return pages[-1]

    yield open_
    for page in pages:
        page.context.close()


@pytest.fixture
def open_page(browser: object) -> Iterator[Callable[..., Opened]]:
    """Return what opens a file for one test."""
    with opening(browser) as open_:
        yield open_


@pytest.fixture(scope="module")
def open_once(browser: object) -> Iterator[Callable[..., Opened]]:
    """Return what opens a file for all tests of a module that leave nothing for the next to stumble over."""
    with opening(browser) as open_:
        yield open_
