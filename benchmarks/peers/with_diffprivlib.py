# SPDX-License-Identifier: Apache-2.0
"""Private linear and logistic regression with diffprivlib: the test loss of many releases at every ε.

The problem is an .npz with X, y, X_test, y_test (features and targets in [−1, 1]), epsilon, repeats
and seed; the answer is JSON: version, a row of losses per ε, and the share of releases per ε whose noised
matrix XᵀX has a negative eigenvalue, so that the noised objective has no minimum.

With `norm` (longest row, the constant included) and `C` (several) in the problem y are classes 0 and 1: the
answer has the losses of logistic regression at the best C of each ε by test loss, and that C.

    python with_diffprivlib.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression


def released(problem: dict[str, np.ndarray]) -> tuple[list[list[float]], list[float]]:
    """Return the mean squared error on the test rows, a row an ε and a column a release, and the shares."""
    lower, upper = -np.ones(problem["X"].shape[1]), np.ones(problem["X"].shape[1])
    table, bottomless = [], []
    for epsilon in problem["epsilon"]:
        row, n_bottomless = [], 0
        for repeat in range(int(problem["repeats"])):
            model = LinearRegression(
                epsilon=float(epsilon),
                bounds_X=(lower, upper),
                bounds_y=(-1.0, 1.0),
                random_state=int(problem["seed"]) + repeat,
            ).fit(problem["X"], problem["y"])
            missed = model.predict(problem["X_test"]) - problem["y_test"]
            row.append(float(np.mean(missed**2)))
            # What it minimises, which no public name shows: it adds no penalty.
            n_bottomless += np.linalg.eigvalsh(model._obj_coefs[2])[0] < 0
        table.append(row)
        bottomless.append(n_bottomless / len(row))
    return table, bottomless


def classified(problem: dict[str, np.ndarray]) -> tuple[list[list[float]], list[float]]:
    """Return the log loss on the test rows, a row an ε and a column a release, and the best C of every ε."""
    y_test = problem["y_test"].astype(int)

    def loss(epsilon: float, C: float, seed: int) -> float:
        # The constant is a column of the rows, so that the norm covers it.
        model = LogisticRegression(
            epsilon=epsilon,
            data_norm=float(problem["norm"]),
            C=C,
            fit_intercept=False,
            max_iter=500,
            random_state=seed,
        ).fit(problem["X"], problem["y"].astype(int))
        z = problem["X_test"] @ model.coef_[0]
        return float(np.mean(np.logaddexp(0.0, z) - y_test * z))

    table, best = [], []
    first, repeats = int(problem["seed"]), int(problem["repeats"])
    for epsilon in map(float, problem["epsilon"]):

        def tried(C: float, epsilon: float = epsilon) -> float:
            return float(np.mean([loss(epsilon, C, first + k) for k in range(3)]))

        best.append(min(map(float, problem["C"]), key=tried))
        table.append([loss(epsilon, best[-1], first + 100 + k) for k in range(repeats)])
    return table, best


def main() -> None:
    parser = argparse.ArgumentParser(description="Private linear regression with diffprivlib.")
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    settings = parser.parse_args()
    with np.load(settings.problem) as arrays:
        problem = {name: arrays[name] for name in arrays.files}
    is_logistic = "norm" in problem
    losses, beside = classified(problem) if is_logistic else released(problem)
    answer = {
        "library": "diffprivlib",
        "version": version("diffprivlib"),
        "python": platform.python_version(),
        "losses": losses,
        "C" if is_logistic else "bottomless": beside,
    }
    settings.out.write_text(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
