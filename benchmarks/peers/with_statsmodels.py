# SPDX-License-Identifier: Apache-2.0
"""The 300 cells with statsmodels: the Hessian and the scores of `Logit`, and `MLEInfluence`.

statsmodels' influence measures know no penalty, so it is added to the Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from exchange import Method, Problem, main
from statsmodels.discrete.discrete_model import Logit
from statsmodels.stats.outliers_influence import MLEInfluence


class PenalisedLogit(Logit):
    """A logit model whose curvature knows of a ridge penalty."""

    ridge = 0.0

    def hessian(self, params: np.ndarray) -> np.ndarray:
        return super().hessian(params) - self.ridge * np.eye(len(params))


@dataclass(frozen=True)
class Prepared:
    problem: Problem
    model: Logit
    test_model: Logit


def prepare(problem: Problem) -> Prepared:
    return Prepared(
        problem,
        Logit(problem.y, problem.X, check_rank=False),
        Logit(problem.y_test, problem.X_test, check_rank=False),
    )


def _test_gradient(prepared: Prepared) -> np.ndarray:
    return -prepared.test_model.score(prepared.problem.theta) / len(prepared.problem.y_test)


def score_obs(prepared: Prepared) -> np.ndarray:
    problem, theta = prepared.problem, prepared.problem.theta
    n, p = problem.X.shape
    hessian = -prepared.model.hessian(theta) / n + problem.penalty * np.eye(p)
    v = np.linalg.solve(hessian, _test_gradient(prepared))
    flipped = Logit(1.0 - problem.y, problem.X, check_rank=False)
    difference = flipped.score_obs(theta) - prepared.model.score_obs(theta)
    return problem.cells(difference @ v / n)


def mle_influence(prepared: Prepared) -> np.ndarray:
    """One-step changes of the parameters when a record is dropped, without the leverage."""
    problem, n = prepared.problem, len(prepared.problem.y)
    eta, effect = _test_gradient(prepared), []
    for labels in (problem.y, 1.0 - problem.y):
        model = PenalisedLogit(labels, problem.X, check_rank=False)
        model.ridge = n * problem.penalty
        fitted = model.fit(start_params=problem.theta, maxiter=0, disp=0, warn_convergence=False)
        influence = MLEInfluence(fitted, resid=np.zeros(n), hat_matrix_diag=np.zeros(n))
        along = influence.d_params @ eta
        # d_params are a step away from the sum of the other scores, which is not 0 under a penalty.
        effect.append(along - along.sum() / (n - 1))
    return problem.cells(effect[1] - effect[0])


if __name__ == "__main__":
    main(
        "statsmodels",
        {
            "score-obs": Method(
                "Logit.hessian and .score_obs, for the labels and the flipped labels",
                prepare,
                score_obs,
            ),
            "mle-influence": Method(
                "MLEInfluence.d_params, for the labels and the flipped labels",
                prepare,
                mle_influence,
            ),
        },
    )
