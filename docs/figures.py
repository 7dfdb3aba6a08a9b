#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the documentation: `python docs/figures.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epsilens.cli.demo import survey_study
from epsilens.ridge import ridge_sensitivity
from epsilens.show import save_chart

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


COMPARED = ("randomised-response", "noisy-descent", "output-perturbation")


def draw_decision() -> None:
    """Write docs/images/decision.svg: cost above attack, where nobody is trusted with the answers."""
    decision = survey_study(seed=0).decide(
        max_loss_increase=0.01,
        max_attack_rate=0.95,
        method="exact",
        mechanisms="randomised-response",
    )
    # A browser may have wider letters than those that the chart was measured with: some room beside the numbers.
    chart = decision.plot().configure_axisY(titlePadding=12)
    save_chart(chart, IMAGES / "decision.svg")


def draw_mechanisms() -> None:
    """Write docs/images/mechanisms.svg: the mechanisms of a curator, compared."""
    decision = survey_study(seed=0).asking().decide(method="exact", mechanisms=COMPARED)
    save_chart(decision.plot(), IMAGES / "mechanisms.svg")


def main() -> None:
    """Draw them all."""
    IMAGES.mkdir(exist_ok=True)
    draw_decision()
    draw_mechanisms()
    draw_ridge_noise()


if __name__ == "__main__":
    main()
