# SPDX-License-Identifier: Apache-2.0
"""One canary in each of a thousand small runs of a library: writes scores.csv, which `epsilens audit scores` judges.

    python examples/audit_diffprivlib.py && epsilens audit scores scores.csv --epsilon 1

diffprivlib 0.6.5 takes the lower bound of a feature for both when it sets the noise of a sum of squares. For features
from 0 up that noise is 0, and the size of the coefficient gives away whether a long row was there.
Runs that have nothing in common are one mechanism with a canary each.
"""

from __future__ import annotations

import csv
import warnings

import numpy as np
from diffprivlib.models import LinearRegression

N_RUNS, HIGHEST = 1000, 100.0


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng()
    included = rng.random(N_RUNS) < 0.5  # a fair coin for every run, before it
    with open("scores.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["included", "score"])
        for is_in in included:
            X = np.full((50, 1), 0.01)
            X[0] = HIGHEST if is_in else 0.01
            model = LinearRegression(
                epsilon=1.0, bounds_X=(0.0, HIGHEST), bounds_y=(0.0, 1.0), fit_intercept=False
            ).fit(X, np.full(50, 0.5))
            table.writerow([int(is_in), -np.log(np.abs(model.coef_).ravel()[0])])


if __name__ == "__main__":
    main()
