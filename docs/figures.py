#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the documentation: `python docs/figures.py`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from epsilens.cli.demo import LABEL, LIMITS, survey_study
from epsilens.ridge import ridge_sensitivity
from epsilens.show import save_chart, write_report

IMAGES = Path(__file__).parent / "images"


def draw_ridge_noise() -> None:
    """Write docs/images/ridge-noise.svg: P3's noise over the tight bound's, against the penalty."""
    import altair as alt

    bounds = {"x_bound": 1.0, "y_bound": 1.0, "coef_bound": 1.0}
    rows = [
        {
            "alpha": float(alpha),
            "shrinks": ridge_sensitivity(**bounds, alpha=alpha, bound="paper")
            / ridge_sensitivity(**bounds, alpha=alpha),
        }
        for alpha in np.geomspace(0.01, 100, 81)
    ]
    log = {"scale": alt.Scale(type="log", nice=False)}
    calm = {"domain": False, "ticks": False, "gridColor": "#e3e6ea", "format": "~g"}
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(color="#1f5fa8", strokeWidth=2)
        .encode(
            x=alt.X(
                "alpha:Q",
                axis=alt.Axis(title="penalty λ / R²", values=[0.01, 0.1, 1, 10, 100], **calm),
                **log,
            ),
            y=alt.Y(
                "shrinks:Q",
                axis=alt.Axis(title="times less noise", values=[1, 2, 5, 10, 20, 50, 100], **calm),
                **log,
            ),
        )
        .properties(
            width=520,
            height=260,
            title=alt.TitleParams(
                text="What the tight bound saves",
                subtitle="noise of P3's bound over that of the tight one, R = Y = B = 1",
                anchor="start",
            ),
        )
        .configure_view(stroke=None)
    )
    save_chart(chart, IMAGES / "ridge-noise.svg")


def draw_decision() -> None:
    """Write docs/images/decision.svg and report.png: the chart and the page of the demo."""
    decision = survey_study(seed=0).decide(**LIMITS, method="exact")
    # A browser may have wider letters than those that the chart was measured with: some room beside the numbers.
    chart = decision.plot().configure_axisY(titlePadding=12)
    save_chart(chart, IMAGES / "decision.svg")
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(
            decision.document,
            Path(folder) / "report.html",
            title="What hiding the answer costs, and what it buys",
            question={"label": LABEL, "data": "the bundled survey"},
        )
        photograph(page, IMAGES / "report.png")


def photograph(page: Path, target: Path) -> None:
    """Take a picture of the upper part of a report, in Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        opened = browser.new_page(
            locale="en-US", viewport={"width": 880, "height": 1500}, device_scale_factor=1
        )
        opened.goto(page.as_uri())
        opened.wait_for_selector("html[data-ready]")
        opened.screenshot(path=target)
        browser.close()


def main() -> None:
    """Draw them all."""
    IMAGES.mkdir(exist_ok=True)
    draw_decision()
    draw_ridge_noise()


if __name__ == "__main__":
    main()
