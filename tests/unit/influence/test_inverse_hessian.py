"""H⁻¹η by three solvers, against a dense solve; H·V against the explicit Hessian."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from epsilens.errors import InputError
from epsilens.influence import (
    Cholesky,
    ConjugateGradient,
    HessianOperator,
    InverseHessian,
    InverseSolution,
    StochasticEstimation,
    as_inverse_hessian,
)
from epsilens.influence.first_order import FirstOrder, noise_bound
from epsilens.influence.label_noise import LabelNoise
from epsilens.models import Design, LogisticLoss, Problem, SoftmaxLoss, SquaredLoss

KINDS = ("logistic", "weights", "ridge", "softmax", "sparse", "sparse softmax", "wide sparse")


def make(kind: str, *, n: int = 700) -> HessianOperator:
    rng = np.random.default_rng(KINDS.index(kind))
    p = 1100 if kind == "wide sparse" else 6
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.1 * rng.normal(size=(p, p)) / np.sqrt(p))
    X[:, -1] = 1.0
    loss = {"ridge": SquaredLoss()}.get(kind, LogisticLoss())
    matrix = X
    if "softmax" in kind:
        loss = SoftmaxLoss(3)
    if "sparse" in kind:
        X[rng.random(X.shape) < 0.7] = 0.0
        matrix = scipy.sparse.csr_array(X)
    weights = np.ones(n) if kind == "logistic" else rng.uniform(0.2, 2.0, n)
    penalty = np.full(p, 0.3 if kind == "wide sparse" else 0.02)
    penalty[-1] = 0.0 if p == 6 else 0.3
    theta = 0.3 * rng.normal(size=loss.n_outputs * p) / np.sqrt(p)
    return HessianOperator(Problem(Design.plain(matrix), weights, loss, penalty), theta)


@pytest.fixture(scope="module", params=KINDS)
def operator(request):
    return make(request.param)


def dense(operator: HessianOperator) -> np.ndarray:
    return operator.problem.hessian(operator.theta)


def right_of(operator: HessianOperator, n_columns: int | None = None) -> np.ndarray:
    size = (operator.n_parameters,) if n_columns is None else (operator.n_parameters, n_columns)
    return np.random.default_rng(9).normal(size=size)


@pytest.mark.parametrize("n_columns", [None, 1, 5])
def test_the_product_is_that_of_the_explicit_hessian(operator, n_columns):
    V = right_of(operator, n_columns)
    np.testing.assert_allclose(operator.product(V), dense(operator) @ V, rtol=1e-11, atol=1e-12)


def test_the_diagonal_and_the_shares_are_those_of_the_explicit_hessian(operator):
    H, problem = dense(operator), operator.problem
    np.testing.assert_allclose(operator.diagonal, np.diag(H), rtol=1e-11)
    i = 17
    row = problem.design.take(np.array([i]))
    bend = problem.weights[i] * problem.loss.curvature(row.predict(operator.theta))
    own = np.trace(row.gram(bend) / operator.diagonal[:, None])
    assert operator.shares[i] == pytest.approx(own, rel=1e-10)


def test_a_batch_of_all_records_is_the_whole(operator):
    rows = np.arange(operator.n_rows)
    records = operator.gather(rows, np.ones(len(rows)))
    V = right_of(operator, 2)
    found = records.product(slice(0, len(rows)), V)
    np.testing.assert_allclose(found, operator.product(V), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n_columns", [None, 3])
@pytest.mark.parametrize(
    ("solver", "tolerance"),
    [(Cholesky(), 1e-12), (ConjugateGradient(1e-11), 1e-8), (StochasticEstimation(1e-6), 1e-3)],
    ids=["cholesky", "cg", "stochastic"],
)
def test_all_three_agree_with_a_dense_solve(operator, solver, tolerance, n_columns):
    if operator.n_parameters > 1000 and solver.name == "stochastic":
        solver = StochasticEstimation(1e-3)  # its digits cost a fixed factor of passes each
        tolerance = 1e-2
    right = right_of(operator, n_columns)
    found = solver.solve(operator, right)
    H = dense(operator)
    truth = np.linalg.solve(H, right)
    assert found.converged
    assert found.note is None
    assert found.vector.shape == right.shape
    # A relative residual, times a condition number below 1e3.
    assert np.linalg.norm(found.vector - truth) <= tolerance * np.linalg.norm(truth)
    np.testing.assert_allclose(found.residual, right - H @ found.vector, atol=1e-9)
    shares = np.linalg.norm(found.residual, axis=0) / np.linalg.norm(right, axis=0)
    assert found.relative_residual == pytest.approx(np.max(shares), rel=1e-6)
    assert isinstance(solver, InverseHessian)


@pytest.mark.parametrize("solver", [ConjugateGradient(), StochasticEstimation()])
def test_a_zero_right_hand_side_costs_no_product(solver):
    operator = make("logistic")
    found = solver.solve(operator, np.zeros((6, 2)))
    assert found.converged
    assert not found.vector.any()
    columns = np.column_stack([np.zeros(6), right_of(operator)])
    both = solver.solve(operator, columns)
    assert both.converged
    assert not both.vector[:, 0].any()


def test_no_matrix_is_formed_without_a_factor(monkeypatch):
    operator = make("sparse softmax")

    def refuse(*arguments):
        raise AssertionError("a matrix of parameters × parameters was formed")

    monkeypatch.setattr(Problem, "hessian", refuse)
    monkeypatch.setattr(Problem, "penalty_hessian", refuse)
    monkeypatch.setattr(Design, "gram", refuse)
    for solver in (ConjugateGradient(), StochasticEstimation(1e-2)):
        assert solver.is_matrix_free
        assert solver.solve(operator, right_of(operator)).converged
    with pytest.raises(AssertionError, match="was formed"):
        Cholesky().solve(operator, right_of(operator))


def test_a_known_factor_is_used(monkeypatch):
    operator = make("logistic")
    known = dataclasses.replace(operator, known=operator.factor)
    monkeypatch.setattr(Problem, "hessian", None)
    assert Cholesky().solve(known, right_of(operator)).converged


def test_the_weighted_residual_is_the_error_of_the_influence():
    operator = make("softmax")
    H = dense(operator)
    eta, gamma = right_of(operator, 2).T
    truth = gamma @ np.linalg.solve(H, eta)
    for solver in (ConjugateGradient(1e-3), StochasticEstimation(1e-2)):
        found = solver.solve(operator, eta)
        error = truth - gamma @ found.vector
        assert found.error_along(np.linalg.solve(H, gamma)) == pytest.approx(error, rel=1e-6)
        # With a step of the same solver what is missed is of second order.
        step = solver.solve(operator, gamma).vector
        assert found.error_along(step) == pytest.approx(error, abs=2e-2 * abs(gamma) @ abs(eta))


def test_standard_errors_belong_to_repeats():
    solution = InverseSolution(np.ones(2), np.zeros(2), 0.0, 1, 1, converged=True)
    assert solution.standard_error(np.ones(2)) is None
    repeated = dataclasses.replace(solution, repeats=np.array([[1.0, 0.0], [3.0, 0.0]]))
    assert repeated.standard_error(np.array([1.0, 5.0])) == pytest.approx(1.0)


def test_steps_of_one_direction_cost_one_solve():
    operator = make("logistic")
    eta = right_of(operator)
    counted = []

    class Counting(ConjugateGradient):
        def solve(self, operator, right, *, quiet=False):
            counted.append(right.shape)
            return super().solve(operator, right, quiet=quiet)

    first = FirstOrder.of(operator, Counting(1e-12), eta)
    shifts = np.outer(right_of(operator), [0.5, 0.1, 0.0])
    vectors, _ = first.steps(shifts)
    assert counted == [(6,), (6, 1)]
    np.testing.assert_allclose(vectors, np.linalg.solve(dense(operator), shifts), atol=1e-9)
    assert first.steps(np.zeros((6, 2)))[0].shape == (6, 2)


@given(
    q=st.lists(st.floats(0.01, 1.0), min_size=9, max_size=9),
    r=st.lists(st.floats(0.05, 1.0), min_size=9, max_size=9),
)
def test_the_bound_on_noise_holds_for_any_two_channels(q, r):
    channel, noisiest = (
        np.reshape(values, (3, 3)) / np.reshape(values, (3, 3)).sum(axis=1, keepdims=True)
        for values in (q, r)
    )
    noise = LabelNoise(
        np.ones(3, bool), np.arange(3), np.eye(3), np.ones((1, 3)), np.zeros((3, 0, 0))
    )
    bound = noise_bound(noise, channel, noisiest)
    left = bound * noise.variances(noisiest) - noise.variances(channel)
    assert np.linalg.eigvalsh(left).min() >= -1e-9


def test_solvers_are_asked_for_by_name_or_with_settings():
    assert as_inverse_hessian(None) == Cholesky()
    assert as_inverse_hessian("cholesky") == Cholesky()
    assert as_inverse_hessian("cg") == ConjugateGradient()
    assert as_inverse_hessian("stochastic", random_state=3).random_state == 3
    own = ConjugateGradient(tolerance=1e-4)
    assert as_inverse_hessian(own) is own
    for wrong in ("lissa", 3, ConjugateGradient):
        with pytest.raises(InputError, match="`inverse_hessian` must be one of 'cholesky', 'cg'"):
            as_inverse_hessian(wrong)


def test_settings_name_the_solver():
    assert Cholesky().settings() == {"solver": "cholesky"}
    assert ConjugateGradient().settings()["max_iterations"] == 1000
    assert StochasticEstimation().settings()["solver"] == "stochastic"
    assert ConjugateGradient(1e-1).loosened(1e-2).tolerance == 1e-1
    assert StochasticEstimation().loosened(1e-2).tolerance == 1e-2
    assert Cholesky().loosened(1e-2) == Cholesky()
