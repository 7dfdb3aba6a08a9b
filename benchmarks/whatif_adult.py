#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The cost of randomised labels on Adult, estimated and measured (P1 Table III and Fig. 1, labels).

P1's coding, ten group sizes, 30 ε from 0.001 to 10 as printed. P1 says that groups are drawn from one
sex and its code draws from everybody: both are measured. A third block has an ordinary coding: whole
answers only, numbers as numbers, an intercept, scikit-learn's default penalty.

    python benchmarks/whatif_adult.py [--data DIR] [--quick] [--repeats 10]
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import datasets
from datasets import adult
from epsilens import WhatIf
from measure import arguments, compare, markdown, run, write
from p1 import (
    ADULT_PENALTY,
    SIZES,
    adult_study,
    draw_groups,
    expected_changes,
    fit_on_most,
    grid,
    table_3,
)


def ordinary_study(
    settings: argparse.Namespace, rng: np.random.Generator
) -> tuple[WhatIf, pd.DataFrame]:
    X, y = adult.ordinary(datasets.load("adult", folder=settings.data))
    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    numbers = [name for name in X if name not in words]
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), words), (StandardScaler(), numbers)
    )
    return fit_on_most(make_pipeline(encode, LogisticRegression()), X, y, rng)


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rng = np.random.default_rng(settings.seed)
    sizes = ("7.44%", "30.00%") if settings.quick else SIZES
    epsilon = grid(settings)
    rows, seconds, texts = [], {}, []
    study, X = adult_study(settings, rng)
    other, X_other = ordinary_study(settings, rng)
    blocks = {
        "men": (study, X, np.flatnonzero(X["sex"] == 1)),
        "everybody": (study, X, np.arange(len(X))),
        "men, ordinary coding": (other, X_other, np.flatnonzero(X_other["sex"] == "Male")),
    }
    for name, (whatif, features, among) in blocks.items():
        groups = draw_groups(len(features), among, sizes, rng)
        found, seconds[name] = compare(
            whatif,
            {"protect": "income", "epsilon": epsilon, "groups": groups},
            block=name,
            changes=expected_changes(groups, epsilon),
            repeats=settings.repeats,
            seed=settings.seed,
        )
        rows += found
        p = whatif.baseline_.problem.n_parameters
        penalty = f"ridge penalty {ADULT_PENALTY:g}, " if whatif is study else ""
        texts.append(
            f"Adult, labels, groups drawn from: {name}. n = {len(features):,}, {p} parameters, {penalty}"
            f"{len(epsilon)} ε from 0.001 to 10, {settings.repeats} retrainings a cell.\n\n"
            + markdown(found, quoted="P1 Table III", paper=table_3("adult", "labels"))
        )
    write(
        "whatif-adult",
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
