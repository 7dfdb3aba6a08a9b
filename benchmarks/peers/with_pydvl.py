# SPDX-License-Identifier: Apache-2.0
"""The 300 cells with pyDVL's influence functions (PyTorch): direct solve and conjugate gradient."""

from __future__ import annotations

import logging

import numpy as np
from exchange import Method, main
from logistic_torch import Prepared, by_hand, mean_loss, prepare, test_gradient, whole
from pydvl.influence.torch import DirectInfluence
from pydvl.influence.torch.functional import hessian
from pydvl.influence.torch.operator import CgOperator, DirectSolveOperator, HessianOperator

logging.getLogger("pydvl").setLevel(logging.ERROR)
# Squared inside, twice over: this leaves a relative residual of about 1e-9.
TOLERANCE = 1e-4


def direct(prepared: Prepared) -> np.ndarray:
    """The class that its guide shows; the factors of the test records are averaged."""
    influence = DirectInfluence(
        prepared.model, mean_loss, regularization=prepared.problem.penalty
    ).fit(whole(prepared.X, prepared.y))
    factor = influence.influence_factors(prepared.X_test, prepared.y_test).mean(dim=0)[None, :]
    own, flipped = (
        influence.influences_from_factors(factor, prepared.X, y)[0].numpy()
        for y in (prepared.y, 1.0 - prepared.y)
    )
    return prepared.problem.cells((own - flipped) / len(own))


def direct_one_solve(prepared: Prepared) -> np.ndarray:
    """One right-hand side, the mean test gradient; slopes of the losses by forward mode."""
    matrix = hessian(prepared.model, mean_loss, whole(prepared.X, prepared.y))
    operator = DirectSolveOperator(matrix, regularization=prepared.problem.penalty)
    return by_hand(prepared, operator.apply(test_gradient(prepared)))


def conjugate_gradient(prepared: Prepared) -> np.ndarray:
    operator = CgOperator(
        HessianOperator(prepared.model, mean_loss, whole(prepared.X, prepared.y)),
        regularization=prepared.problem.penalty,
        rtol=TOLERANCE,
        atol=0.0,
    )
    return by_hand(prepared, operator.apply(test_gradient(prepared)))


if __name__ == "__main__":
    main(
        "pyDVL",
        {
            "direct": Method(
                "DirectInfluence.fit, .influence_factors, .influences_from_factors", prepare, direct
            ),
            "direct-one-solve": Method(
                "functional.hessian, DirectSolveOperator.apply, torch.func.jvp",
                prepare,
                direct_one_solve,
            ),
            "cg": Method(
                "CgOperator(HessianOperator).apply, torch.func.jvp",
                prepare,
                conjugate_gradient,
                notes=lambda prepared: {"relative_tolerance": TOLERANCE},
            ),
        },
    )
