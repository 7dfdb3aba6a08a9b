# SPDX-License-Identifier: Apache-2.0
"""Leave-one-out of a linear model without penalty with statsmodels: its leverages, and its pseudo-inverse.

Its own `OLSInfluence.dfbeta` fits every model again in a loop, half a minute a thousand records.
"""

from __future__ import annotations

import numpy as np
from exchange import Method, Problem, main
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.outliers_influence import OLSInfluence


def by_leverage(problem: Problem) -> np.ndarray:
    fitted = OLS(problem.y, problem.X).fit()
    leverage = OLSInfluence(fitted).hat_matrix_diag
    steps = fitted.model.pinv_wexog.T * (-fitted.resid / (1.0 - leverage))[:, None]
    residual = problem.X_test @ fitted.params - problem.y_test
    gradient = 2.0 * problem.X_test.T @ residual / len(residual)
    hessian = 2.0 * problem.X_test.T @ problem.X_test / len(residual)
    change = steps @ gradient + 0.5 * np.einsum("ij,ij->i", steps @ hessian, steps)
    return change[None, :]


if __name__ == "__main__":
    main(
        "statsmodels",
        {
            "leverage": Method(
                "OLS.fit (its pseudo-inverse), OLSInfluence.hat_matrix_diag, products by hand",
                lambda problem: problem,
                by_leverage,
                excluded="nothing",
            )
        },
    )
