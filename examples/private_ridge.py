# SPDX-License-Identifier: Apache-2.0
"""A linear model that may be published: what each budget would cost, then the release itself.

    python examples/private_ridge.py

It predicts how the women of the bundled survey rate their marriage. All bounds come from the
questionnaire: read off the records, they would give something away.
"""

from __future__ import annotations

import math

import pandas as pd

from epsilens.data import load_survey
from epsilens.ridge import PrivateRidge, balanced_alpha, what_if_rho

RANGES = {
    "age": (15, 45),
    "yrs_married": (0, 25),
    "children": (0, 6),
    "religious": (1, 4),
    "educ": (9, 20),
}
TARGET, WORST, BEST = "rate_marriage", 1, 5
RHO = 1.0


def main() -> None:
    survey = load_survey().sample(frac=1, random_state=0, ignore_index=True)
    X = pd.DataFrame({name: _scaled(survey[name], *ends) for name, ends in RANGES.items()})
    y = _scaled(survey[TARGET], WORST, BEST)
    X, X_test, y, y_test = X[:5000], X[5000:], y[:5000], y[5000:]

    # Every feature is within [-1, 1], and so is the constant 1 of the intercept.
    bounds = {"x_bound": math.sqrt(len(RANGES) + 1), "y_bound": 1.0, "coef_bound": 1.0}
    alpha = balanced_alpha(n_records=len(X), rho=RHO, **bounds)
    model = PrivateRidge(rho=RHO, alpha=alpha, intercept_constant=1.0, **bounds)

    cost = what_if_rho(model, X, y, X_test, y_test, rho=[0.01, 0.1, 1.0, 10.0])
    print(cost.to_frame()[["epsilon", "loss_change", "loss_change_low", "loss_change_high"]])

    model.fit(X, y)  # the release: from here on the coefficients may be shown to anybody
    for name, coefficient in zip(RANGES, model.coef_, strict=True):
        print(f"{name:>12} {coefficient:+.3f}")
    print(f"noise of {model.sigma_:.3f} on each; ε = {model.epsilon_at(1e-6):.2f} at δ = 1e-6")


def _scaled(column: pd.Series, low: float, high: float) -> pd.Series:
    return 2 * (column - low) / (high - low) - 1


if __name__ == "__main__":
    main()
