#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Randomised features, and features with the label, on ACS PubCov (P1 Fig. 2 left and right).

As P1's code: marriage and sex, or these and the label, of 75 % of the records; ε is the budget of a
record and is shared out evenly among its columns.

    python benchmarks/whatif_features.py [--data DIR] [--quick] [--repeats 10]
"""

from __future__ import annotations

import numpy as np

from measure import arguments, compare, markdown, run, write
from p1 import FIGURE_2, draw_groups, expected_changes, grid, pubcov_study

CASES = {"features": ("MAR", "SEX"), "both": ("MAR", "SEX", "PUBCOV")}


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rng = np.random.default_rng(settings.seed)
    epsilon = grid(settings)
    study, X = pubcov_study(settings, rng)
    (mask,) = draw_groups(len(X), np.arange(len(X)), ("75.00%",), rng).values()
    rows, seconds = [], {}
    for name, columns in CASES.items():
        each = epsilon / len(columns)
        found, seconds[name] = compare(
            study,
            {
                "protect": list(columns),
                "epsilon": each,
                "groups": {name: mask},
                "categories": {column: [0, 1] for column in columns},
            },
            block=name,
            changes=expected_changes({name: mask}, each, columns=len(columns)),
            repeats=settings.repeats,
            seed=settings.seed,
        )
        rows += found
    text = (
        f"PubCov, 75 % of the records. n = {len(X):,}, {study.baseline_.problem.n_parameters} "
        f"parameters, {len(epsilon)} ε of a record from 0.001 to 10, {settings.repeats} retrainings "
        "a cell.\n\n" + markdown(rows, quoted="P1 Fig. 2", paper=FIGURE_2)
    )
    write(
        "whatif-features",
        settings,
        text,
        rows,
        {
            "n_train": len(X),
            "n_parameters": study.baseline_.problem.n_parameters,
            "repeats": settings.repeats,
            "seed": settings.seed,
            "seconds": seconds,
        },
    )


if __name__ == "__main__":
    run(main)
