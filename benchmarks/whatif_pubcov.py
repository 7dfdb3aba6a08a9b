#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Randomised labels on ACS PubCov, with and without forward correction (P1 Table III, Fig. 2 middle).

P1's ten binary features, groups drawn from everybody as its code does: Table III's ten sizes, and the
75 % of Fig. 2. The people are of 14 other states than P1's.

    python benchmarks/whatif_pubcov.py [--data DIR] [--quick] [--repeats 10]
"""

from __future__ import annotations

import numpy as np

from measure import arguments, compare, markdown, run, write
from p1 import (
    FIGURE_2,
    SIZES,
    draw_groups,
    expected_changes,
    grid,
    pubcov_study,
    table_3,
)

LARGE = "75.00%"


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rng = np.random.default_rng(settings.seed)
    sizes = ("30.00%", LARGE) if settings.quick else (*SIZES, LARGE)
    epsilon = grid(settings)
    study, X = pubcov_study(settings, rng)
    groups = draw_groups(len(X), np.arange(len(X)), sizes, rng)
    paper = {
        "labels": {**table_3("acs_pubcov", "labels"), LARGE: FIGURE_2["labels"]},
        "labels, corrected": table_3("acs_pubcov", "corrected"),
    }
    rows, seconds, texts = [], {}, []
    for name, printed in paper.items():
        found, seconds[name] = compare(
            study,
            {
                "protect": "PUBCOV",
                "epsilon": epsilon,
                "groups": groups,
                "correction": None if name == "labels" else "forward",
            },
            block=name,
            changes=expected_changes(groups, epsilon),
            repeats=settings.repeats,
            seed=settings.seed,
        )
        rows += found
        texts.append(
            f"PubCov, {name}. n = {len(X):,}, {study.baseline_.problem.n_parameters} parameters, "
            f"{len(epsilon)} ε from 0.001 to 10, {settings.repeats} retrainings a cell.\n\n"
            + markdown(found, quoted="P1 Table III, Fig. 2", paper=printed)
        )
    write(
        "whatif-pubcov",
        settings,
        "\n\n".join(texts),
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
