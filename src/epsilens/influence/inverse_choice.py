# SPDX-License-Identifier: Apache-2.0
"""Which way to the inverse Hessian: by name, or with settings of its own."""

from __future__ import annotations

from epsilens._validate import as_choice
from epsilens.influence.cholesky import Cholesky
from epsilens.influence.conjugate_gradient import ConjugateGradient
from epsilens.influence.inverse_hessian import InverseHessian
from epsilens.influence.stochastic_estimation import StochasticEstimation

__all__ = ["INVERSE_HESSIANS", "as_inverse_hessian"]

INVERSE_HESSIANS = ("cholesky", "cg", "stochastic")


def as_inverse_hessian(
    value: object, *, random_state: int = 0, name: str = "inverse_hessian"
) -> InverseHessian:
    """Return the solver that a caller asked for.

    Parameters
    ----------
    value : None, "cholesky", "cg", "stochastic" or a solver with its settings
        None: Cholesky.
    random_state : int
        Seed of a solver asked for by name.
    name : str
        The name the caller typed.

    Examples
    --------
    >>> as_inverse_hessian("cg")
    ConjugateGradient(tolerance=1e-08, max_iterations=1000)
    """
    if value is None:
        return Cholesky()
    if isinstance(value, InverseHessian) and not isinstance(value, type):
        return value
    choice = as_choice(value, INVERSE_HESSIANS, name=name)
    if choice == "cg":
        return ConjugateGradient()
    if choice == "stochastic":
        return StochasticEstimation(random_state=random_state)
    return Cholesky()
