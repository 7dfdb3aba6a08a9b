#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Labels of the digits 1, 3, 7 and 8 of MNIST, softmax (P1 Table III): 3 sizes × 6 ε.

P1 takes all of one digit for the group, which gives the label away whatever ε is; here the groups are
drawn from everybody, of the same sizes.

    python benchmarks/whatif_mnist.py [--data DIR] [--quick] [--repeats 10]
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import datasets
from datasets import digits
from epsilens import WhatIf
from measure import arguments, compare, markdown, run, write
from p1 import draw_groups, table_3

SIZES = ("1.00%", "17.11%", "30.00%")
# First order by all three inverses of the Hessian (P1 Table I). Newton factorises 3,140 columns for every
# cell, and `exact` does better for less.
WAYS = {
    "paper": {"method": "paper"},
    "influence": {"method": "influence"},
    "by CG": {"method": "influence", "inverse_hessian": "cg"},
    "stochastic": {"method": "influence", "inverse_hessian": "stochastic"},
    "exact": {"method": "exact"},
}
EPSILONS = np.array([0.001, 1.0, 2.0, 3.0, 5.0, 8.0])


def mnist_study(settings: argparse.Namespace, rng: np.random.Generator) -> tuple[WhatIf, int]:
    """Return the fitted study and the number of training records."""
    raw = datasets.load("mnist", folder=settings.data)

    def part(name: str) -> tuple[np.ndarray, pd.Series]:
        X, y = digits.as_p1(raw, name)
        if settings.quick:
            rows = rng.choice(len(X), 2000, replace=False)
            X = X[rows].reshape(-1, 28, 28)[:, ::4, ::4].reshape(len(rows), -1)
            y = y[rows]
        return X, pd.Series(pd.Categorical(y, categories=digits.DIGITS_OF_P1), name="digit")

    X, y = part("train")
    X_test, y_test = part("test")
    return WhatIf(LogisticRegression(C=0.01)).fit(X, y, X_test, y_test), len(X)


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rng = np.random.default_rng(settings.seed)
    study, n = mnist_study(settings, rng)
    groups = draw_groups(n, np.arange(n), SIZES, rng)
    others = len(digits.DIGITS_OF_P1) - 1
    rows, seconds = compare(
        study,
        {"protect": "digit", "epsilon": EPSILONS, "groups": groups},
        block="everybody",
        changes={
            name: mask.sum() * others / (others + np.exp(EPSILONS)) for name, mask in groups.items()
        },
        ways=WAYS,
        repeats=settings.repeats,
        seed=settings.seed,
    )
    p = study.baseline_.problem.n_parameters
    text = (
        f"MNIST 1, 3, 7, 8, labels. n = {n:,}, {p:,} parameters, {len(EPSILONS)} ε from 0.001 to "
        f"8, {settings.repeats} retrainings a cell.\n\n"
        + markdown(rows, quoted="P1 Table III", paper=table_3("mnist", "labels"))
    )
    write(
        "whatif-mnist",
        settings,
        text,
        rows,
        {
            "n_train": n,
            "n_parameters": p,
            "repeats": settings.repeats,
            "seed": settings.seed,
            "seconds": seconds,
        },
    )


if __name__ == "__main__":
    run(main)
