"""Records that are alike count once, with the sum of their weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from epsilens.models import Design, LogisticLoss, Problem, SoftmaxLoss, SquaredLoss
from epsilens.models.design import distinct_rows


def problem_of(loss, *, sparse=False, alike=True):
    rng = np.random.default_rng(50)
    X = rng.integers(0, 2, size=(400, 5)).astype(float) if alike else rng.normal(size=(400, 5))
    matrix = scipy.sparse.csr_array(X) if sparse else X
    return Problem(Design.plain(matrix), rng.uniform(0.0, 2.0, 400), loss, np.full(5, 0.1))


def record_by_record(problem):
    """The same problem, forced to look at every record."""
    slow = replace(problem)
    slow.__dict__["distinct"] = (problem.design, problem.weights)
    return slow


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), SquaredLoss()])
def test_all_passes_equal_those_over_every_record(loss, sparse):
    problem = problem_of(loss, sparse=sparse)
    assert problem.distinct[0].n_rows <= 32
    slow = record_by_record(problem)
    rng = np.random.default_rng(51)
    size = problem.n_parameters
    theta, linear = rng.normal(size=(size, 3)), rng.normal(size=(size, 3))
    root = rng.normal(size=(size, 4))
    for one, other in (
        (problem.gradient(theta, linear), slow.gradient(theta, linear)),
        (problem.hessian(theta[:, 0]), slow.hessian(theta[:, 0])),
        (problem.objective(theta[:, 0], linear[:, 0]), slow.objective(theta[:, 0], linear[:, 0])),
        (problem.reach(theta), slow.reach(theta)),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    # Spreads are in single precision.
    np.testing.assert_allclose(
        problem.thirds(theta[:, :1], [root], are_roots=True),
        slow.thirds(theta[:, :1], [root], are_roots=True),
        rtol=1e-5,
        atol=1e-6,
    )


def test_rows_that_differ_are_kept_as_they_are():
    problem = problem_of(LogisticLoss(), alike=False)
    assert problem.distinct[0] is problem.design
    assert problem.distinct[1] is problem.weights


def test_rows_with_the_same_key_but_other_numbers_are_not_taken_for_alike(monkeypatch):
    class Zeros:
        def standard_normal(self, size):
            return np.zeros(size)

    X = np.arange(20.0)[:, None]
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zeros())
    assert distinct_rows(X) is None
    first, place = distinct_rows(np.ones((20, 1)))
    assert len(first) == 1
    assert (place == 0).all()
