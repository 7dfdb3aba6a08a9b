# SPDX-License-Identifier: Apache-2.0
"""What every training record is worth, with epsilens: one number a record.

Training is left out; the Hessian is formed and factorised inside the time, as every peer has to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from exchange import Method, Problem, main
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens.models import factorise
from epsilens.valuation import Appraisal


def trained_logistic(problem: Problem) -> Appraisal:
    model = LogisticRegression(C=1 / (len(problem.y) * problem.penalty), fit_intercept=False)
    labels = problem.y.astype(int), problem.y_test.astype(int)
    return Appraisal.of(model, problem.X, labels[0], problem.X_test, labels[1])


def trained_linear(problem: Problem) -> Appraisal:
    model = Ridge(alpha=len(problem.y) * problem.penalty, fit_intercept=False)
    return Appraisal.of(model, problem.X, problem.y, problem.X_test, problem.y_test)


def scores(method: str) -> Callable[[Appraisal], np.ndarray]:
    def compute(appraisal: Appraisal) -> np.ndarray:
        base = appraisal.baseline
        again = replace(base, curvature=factorise(base.problem.hessian(base.theta)))
        return Appraisal(again).leave_one_out(method=method)[None, :]

    return compute


if __name__ == "__main__":
    main(
        "epsilens",
        {
            f"{kind}-{method}": Method(
                f'factorise, Appraisal.leave_one_out(method="{method}")', prepare, scores(method)
            )
            for kind, prepare in (("logistic", trained_logistic), ("linear", trained_linear))
            for method in ("first-order", "second-order", "newton", "exact")
        },
    )
