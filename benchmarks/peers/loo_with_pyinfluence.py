# SPDX-License-Identifier: Apache-2.0
"""First-order scores of every training record with pyinfluence, in two ways."""

from __future__ import annotations

import numpy as np
from exchange import Method, main
from pyinfluence import FunctionalInfluence, InfluenceFunctions
from with_pyinfluence import MEAN_LOSS, Prepared, prepare


def own_scores(prepared: Prepared) -> np.ndarray:
    problem, model = prepared
    engine = FunctionalInfluence(MEAN_LOSS, damping=0.0)
    engine.fit(model, problem.X, problem.y)
    return np.asarray(engine.explain(problem.X_test, problem.y_test))[None, :]


def inverse_hessian(prepared: Prepared) -> np.ndarray:
    """Take only H⁻¹ from the library; the rest is two products by hand."""
    problem, model = prepared
    attributor = InfluenceFunctions(damping=0.0).fit(model, problem.X, problem.y)
    residual = 1.0 / (1.0 + np.exp(-problem.X_test @ problem.theta)) - problem.y_test
    v = attributor.H_inv_ @ (problem.X_test.T @ residual / len(residual))
    own = 1.0 / (1.0 + np.exp(-problem.X @ problem.theta)) - problem.y
    return ((problem.X @ v) * own / len(problem.y))[None, :]


if __name__ == "__main__":
    main(
        "pyinfluence",
        {
            "scores": Method("FunctionalInfluence.fit and .explain", prepare, own_scores),
            "inverse-hessian": Method(
                "InfluenceFunctions.fit, its H_inv_, products by hand", prepare, inverse_hessian
            ),
        },
    )
