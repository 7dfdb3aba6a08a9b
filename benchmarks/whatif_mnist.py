#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Labels of the digits 1, 3, 7 and 8 of MNIST, softmax (P1 Table III): 3 sizes × 6 ε.

P1 takes all of one digit for the group, which gives the label away whatever ε is; here the groups are
drawn at random, of the same sizes.

    python benchmarks/whatif_mnist.py --data DIR [--quick] [--repeats 10]
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from measure import arguments, compare, markdown, write

DIGITS = (1, 3, 7, 8)
SHARES = (0.01, 0.1711, 0.30)


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    data = np.load(settings.data / "mnist" / "mnist.npz")
    rng = np.random.default_rng(settings.seed)

    def part(name: str) -> tuple[np.ndarray, pd.Series]:
        x, y = data[f"x_{name}"], data[f"y_{name}"]
        rows = np.flatnonzero(np.isin(y, DIGITS))
        if settings.quick:
            rows = rng.choice(rows, 2000, replace=False)
        pixels = x[rows].astype(float) / 255
        if settings.quick:
            pixels = pixels[:, ::4, ::4]
        labels = pd.Series(pd.Categorical(y[rows], categories=DIGITS), name="digit")
        return pixels.reshape(len(rows), -1), labels

    X, y = part("train")
    X_test, y_test = part("test")
    study = WhatIf(LogisticRegression(C=0.01)).fit(X, y, X_test, y_test)
    grid = np.array([0.001, 1.0, 2.0, 3.0, 5.0, 8.0])
    groups = {f"{share:.2%}": rng.random(len(X)) < share for share in SHARES}
    rows, seconds = compare(
        study,
        {"protect": "digit", "epsilon": grid, "groups": groups},
        changes={name: mask.sum() * 3 / (3 + np.exp(grid)) for name, mask in groups.items()},
        rungs=("influence", "exact"),
        repeats=settings.repeats,
        seed=settings.seed,
    )
    p = study.baseline_.problem.n_parameters
    text = markdown(
        f"MNIST 1, 3, 7, 8, n = {len(X):,}, {p:,} parameters, labels, {len(grid)} ε from 0.001 to 8, "
        f"{settings.repeats} retrainings a cell.",
        rows,
        paper={"1.00%": 0.0009, "17.11%": 0.0082, "30.00%": 0.0283},
    )
    write(
        "whatif-mnist",
        settings,
        text,
        {
            "n_train": len(X),
            "n_parameters": p,
            "repeats": settings.repeats,
            "seconds": seconds,
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
