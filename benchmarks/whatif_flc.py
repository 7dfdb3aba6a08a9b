#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Randomised labels with forward correction on Adult (P1 Table III right and Fig. 1, bottom).

As whatif_adult.py, with the group's labels trained on a loss that knows the channel; P1's formula is
Eq. 22 as printed.

    python benchmarks/whatif_flc.py [--data DIR] [--quick] [--repeats 10]
"""

from __future__ import annotations

import numpy as np

from measure import arguments, compare, markdown, run, write
from p1 import (
    ADULT_PENALTY,
    SIZES,
    adult_study,
    draw_groups,
    expected_changes,
    grid,
    table_3,
)


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rng = np.random.default_rng(settings.seed)
    sizes = ("7.44%", "30.00%") if settings.quick else SIZES
    epsilon = grid(settings)
    study, X = adult_study(settings, rng)
    rows, seconds, texts = [], {}, []
    for name, among in {
        "men": np.flatnonzero(X["sex"] == 1),
        "everybody": np.arange(len(X)),
    }.items():
        groups = draw_groups(len(X), among, sizes, rng)
        found, seconds[name] = compare(
            study,
            {
                "protect": "income",
                "epsilon": epsilon,
                "groups": groups,
                "correction": "forward",
            },
            block=name,
            changes=expected_changes(groups, epsilon),
            repeats=settings.repeats,
            seed=settings.seed,
        )
        rows += found
        texts.append(
            f"Adult, labels with forward correction, groups drawn from: {name}. n = {len(X):,}, "
            f"{study.baseline_.problem.n_parameters} parameters, ridge penalty {ADULT_PENALTY:g}, "
            f"{len(epsilon)} ε from 0.001 to 10, "
            f"{settings.repeats} retrainings a cell.\n\n"
            + markdown(found, quoted="P1 Table III", paper=table_3("adult", "corrected"))
        )
    write(
        "whatif-flc",
        settings,
        "\n\n".join(texts),
        rows,
        {
            "n_train": len(X),
            "n_parameters": study.baseline_.problem.n_parameters,
            "penalty": ADULT_PENALTY,
            "repeats": settings.repeats,
            "seed": settings.seed,
            "seconds": seconds,
        },
    )


if __name__ == "__main__":
    run(main)
