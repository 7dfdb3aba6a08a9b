# SPDX-License-Identifier: Apache-2.0
"""The 300 cells with pyinfluence: its closed-form Hessian, two ways to the scores."""

from __future__ import annotations

import warnings

import numpy as np
from exchange import Method, Problem, main
from pyinfluence import Functional, FunctionalInfluence, InfluenceFunctions
from sklearn.linear_model import LogisticRegression

Prepared = tuple[Problem, LogisticRegression]
MEAN_LOSS = Functional(
    fn=lambda losses, y: float(losses.mean()),
    grad=lambda losses, y: np.full(len(losses), 1.0 / len(losses)),
    of="losses",
)


def prepare(problem: Problem) -> Prepared:
    model = LogisticRegression(C=1 / (len(problem.y) * problem.penalty), fit_intercept=False)
    model.coef_, model.intercept_ = problem.theta[None, :], np.zeros(1)
    model.classes_, model.n_features_in_ = np.array([0.0, 1.0]), len(problem.theta)
    return problem, model


def scores(prepared: Prepared) -> np.ndarray:
    """Each point removed, minus the same point removed with its label flipped."""
    problem, model = prepared
    engine = FunctionalInfluence(MEAN_LOSS, damping=0.0)
    effect = []
    for labels in (problem.y, 1.0 - problem.y):
        with (
            warnings.catch_warnings()
        ):  # the flipped labels are not those of the training, of course
            warnings.simplefilter("ignore", UserWarning)
            engine.fit(model, problem.X, labels)
        effect.append(engine.explain(problem.X_test, problem.y_test))
    return problem.cells(effect[0] - effect[1])


def inverse_hessian(prepared: Prepared) -> np.ndarray:
    """Take only H⁻¹ from the library; the rest is two products by hand."""
    problem, model = prepared
    attributor = InfluenceFunctions(damping=0.0).fit(model, problem.X, problem.y)
    residual = 1.0 / (1.0 + np.exp(-problem.X_test @ problem.theta)) - problem.y_test
    v = attributor.H_inv_ @ (problem.X_test.T @ residual / len(residual))
    return problem.cells(-(problem.X @ v) * (2.0 * problem.y - 1.0) / len(problem.y))


if __name__ == "__main__":
    main(
        "pyinfluence",
        {
            "scores": Method(
                "FunctionalInfluence.fit and .explain, for the labels and the flipped labels",
                prepare,
                scores,
            ),
            "inverse-hessian": Method(
                "InfluenceFunctions.fit, its H_inv_, products by hand", prepare, inverse_hessian
            ),
        },
    )
