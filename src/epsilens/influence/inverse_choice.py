# SPDX-License-Identifier: Apache-2.0
"""Which way to the inverse Hessian: by name, or with settings of its own."""

from __future__ import annotations

from epsilens._validate import as_choice
from epsilens.influence.cholesky import Cholesky
from epsilens.influence.conjugate_gradient import ConjugateGradient
from epsilens.influence.inverse_hessian import InverseHessian
from epsilens.influence.stochastic_estimation import StochasticEstimation
from epsilens.influence.wide import is_wide, refuse_matrix

__all__ = ["INVERSE_HESSIANS", "as_inverse_hessian"]

INVERSE_HESSIANS = ("cholesky", "cg", "stochastic")


def as_inverse_hessian(
    value: object,
    *,
    random_state: int = 0,
    n_parameters: int = 0,
    name: str = "inverse_hessian",
) -> InverseHessian:
    """Return the solver that a caller asked for.

    Parameters
    ----------
    value : None, "cholesky", "cg", "stochastic" or a solver with its settings
        None: Cholesky, or conjugate gradient where the Hessian is too wide to be formed.
    random_state : int
        Seed of a solver asked for by name.
    n_parameters : int
        Of the model.
    name : str
        The name the caller typed.

    Returns
    -------
    InverseHessian

    Raises
    ------
    InputError
        If it is none of these, or would form a matrix that is too wide.

    Examples
    --------
    >>> as_inverse_hessian("cg")
    ConjugateGradient(tolerance=1e-08, max_iterations=1000)
    """
    if value is None:
        return ConjugateGradient() if is_wide(n_parameters) else Cholesky()
    if isinstance(value, InverseHessian) and not isinstance(value, type):
        if is_wide(n_parameters) and not value.is_matrix_free:
            raise refuse_matrix(n_parameters, f"{name}={value.name!r}", instead="Use 'cg'.")
        return value
    choice = as_choice(value, INVERSE_HESSIANS, name=name)
    if choice == "cg":
        return ConjugateGradient()
    if choice == "stochastic":
        return StochasticEstimation(random_state=random_state)
    if is_wide(n_parameters):
        raise refuse_matrix(n_parameters, f"{name}={choice!r}", instead="Use 'cg'.")
    return Cholesky()
