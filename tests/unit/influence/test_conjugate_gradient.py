"""The conjugate gradient: when it stops, and what it says then."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.errors import ApproximationWarning, InputError
from epsilens.influence import Cholesky, ConjugateGradient, HessianOperator
from epsilens.models import Design, LogisticLoss, Problem, SquaredLoss


def diagonal_problem(values) -> HessianOperator:
    """H = diag(values) in a basis that hides it from the preconditioner."""
    p = len(values)
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(p, p)))
    X = np.sqrt(p / 2) * np.sqrt(values)[:, None] * basis.T
    return HessianOperator(
        Problem(Design.plain(X), np.ones(p), SquaredLoss(), np.zeros(p)), np.zeros(p)
    )


def test_three_eigenvalues_take_three_steps():
    operator = diagonal_problem(np.repeat([1.0, 3.0, 10.0], 4))
    # An even diagonal, so that preconditioning changes nothing.
    object.__setattr__(operator, "diagonal", np.ones(12))
    found = ConjugateGradient().solve(operator, np.ones(12))
    assert found.converged
    assert found.n_passes == 1 + 3 + 1  # the diagonal, three steps, the true residual
    assert found.n_products == 4


def test_a_block_drops_the_columns_that_are_done():
    operator = diagonal_problem(np.geomspace(1, 100, 12))
    H = operator.problem.hessian(operator.theta)
    _, vectors = np.linalg.eigh(H / operator.diagonal[:, None] ** 0.5 / operator.diagonal**0.5)
    easy = operator.diagonal**0.5 * vectors[:, 0]  # one step is enough
    right = np.column_stack([easy, np.ones(12)])
    found = ConjugateGradient().solve(operator, right)
    alone = ConjugateGradient().solve(operator, np.ones(12))
    assert found.converged
    assert found.n_passes == alone.n_passes
    assert found.n_products == alone.n_products + 2


def test_iterations_that_run_out_are_said():
    operator = diagonal_problem(np.geomspace(1e-6, 1, 30))
    with pytest.warns(
        ApproximationWarning, match="used its 5 iterations .* Raise `max_iterations`"
    ):
        found = ConjugateGradient(max_iterations=5).solve(operator, np.ones(30))
    assert not found.converged
    assert found.relative_residual > 1e-8
    true = np.linalg.norm(np.ones(30) - operator.product(found.vector)) / np.sqrt(30)
    assert found.relative_residual == pytest.approx(true, rel=1e-12)
    assert "left a relative residual" in found.note.text


def test_quiet_leaves_the_warning_to_the_caller():
    operator = diagonal_problem(np.geomspace(1e-6, 1, 30))
    found = ConjugateGradient(max_iterations=5).solve(operator, np.ones(30), quiet=True)
    assert not found.converged
    assert found.note


def test_a_limit_of_rounding_is_said():
    operator = diagonal_problem(np.geomspace(1e-9, 1, 20))
    # ‖H‖‖v‖/‖η‖ is about 1e8 here: rounding leaves residuals of 1e-8.
    with pytest.warns(ApproximationWarning, match="relative residual of .* above the tolerance"):
        found = ConjugateGradient(tolerance=1e-15).solve(operator, np.ones(20))
    assert not found.converged


def test_a_badly_conditioned_hessian_is_solved_or_said():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 8))
    X[:, 1] = X[:, 0] + 1e-5 * rng.normal(size=500)
    operator = HessianOperator(
        Problem(Design.plain(X), np.ones(500), LogisticLoss(), np.zeros(8)), np.zeros(8)
    )
    eta = rng.normal(size=8)
    found = ConjugateGradient().solve(operator, eta, quiet=True)
    factor = Cholesky().solve(operator, eta)
    error = np.linalg.norm(found.vector - factor.vector) / np.linalg.norm(factor.vector)
    assert error < 1e-4 or not found.converged


def test_a_singular_hessian_does_not_divide_by_zero():
    X = np.random.default_rng(5).normal(size=(50, 3))
    X[:, 2] = 0.0
    operator = HessianOperator(
        Problem(Design.plain(X), np.ones(50), SquaredLoss(), np.zeros(3)), np.zeros(3)
    )
    with pytest.warns(ApproximationWarning):
        found = ConjugateGradient().solve(operator, np.ones(3))
    assert not found.converged
    assert np.isfinite(found.vector).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": 0.0}, "`tolerance` must lie between 0 and 1, got 0.0"),
        ({"tolerance": "tight"}, "`tolerance` must be a number between 0 and 1, got str"),
        ({"max_iterations": 0}, "`max_iterations` must be at least 1, got 0"),
        ({"max_iterations": 2.5}, "`max_iterations` must be a whole number, got float"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments, words):
    with pytest.raises(InputError, match=words) as caught:
        ConjugateGradient(**arguments)
    assert "\n" not in str(caught.value)
