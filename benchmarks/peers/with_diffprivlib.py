# SPDX-License-Identifier: Apache-2.0
"""Private linear regression with diffprivlib: the test loss of many releases at every ε.

The problem is an .npz with X, y, X_test, y_test (features and targets in [−1, 1]), epsilon, repeats
and seed; the answer is JSON: version, a row of losses per ε, and the share of releases per ε whose noised
matrix XᵀX has a negative eigenvalue, so that the noised objective has no minimum.

    python with_diffprivlib.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression


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


def main() -> None:
    parser = argparse.ArgumentParser(description="Private linear regression with diffprivlib.")
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    settings = parser.parse_args()
    with np.load(settings.problem) as arrays:
        problem = {name: arrays[name] for name in arrays.files}
    losses, bottomless = released(problem)
    answer = {
        "library": "diffprivlib",
        "version": version("diffprivlib"),
        "python": platform.python_version(),
        "losses": losses,
        "bottomless": bottomless,
    }
    settings.out.write_text(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
