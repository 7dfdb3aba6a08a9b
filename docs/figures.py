#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the documentation: `python docs/figures.py`."""

from __future__ import annotations

from pathlib import Path

from epsilens.cli.demo import GRID, LABEL, TOLERANCE, train_on_survey
from epsilens.display import cost_chart, save_chart

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Write docs/images/cost.svg, the chart of the demo."""
    prepared, study = train_on_survey(seed=0)
    everyone = prepared.y_train.notna().to_numpy()
    result = study.estimate(
        protect=LABEL,
        epsilon=GRID,
        groups={"all": everyone, **prepared.groups},
        method="exact",
    )
    IMAGES.mkdir(exist_ok=True)
    save_chart(cost_chart(result.document, max_loss_increase=TOLERANCE), IMAGES / "cost.svg")


if __name__ == "__main__":
    main()
