# SPDX-License-Identifier: Apache-2.0
"""How a cell is put together from its expansion and its runs, linearised or solved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epsilens.influence import Evaluation, NoiseTerms, Outcomes
from epsilens.models import Design, LogisticLoss
from epsilens.whatif.cells import (
    ExpandedCell,
    QuadraticRuns,
    ends,
    finish_cell,
    shape_of_runs,
    unchanged,
)

BEFORE = Outcomes(loss=0.5, accuracy=0.8, auc=None, loss_gap=0.1)
N_DRAWS = 99


def test_a_new_run_falls_between_the_ends_nine_times_in_ten():
    # Of 20 runs in any order the last is outside the 19 others twice in twenty times.
    assert ends(np.arange(19.0)[::-1]) == (0.0, 18.0)
    assert ends(np.arange(1.0, 40.0)) == pytest.approx((2.0, 38.0))


def test_where_nothing_is_randomised_nothing_changes():
    found = unchanged(BEFORE, group_index=1, epsilon_index=0, n_draws=5)
    assert found.loss_change == found.loss_low == found.loss_high == 0.0
    assert found.intervals == {"accuracy": (0.0, 0.0), "loss_gap": (0.0, 0.0)}
    assert found.loss_runs.tolist() == [0.0] * 5


@pytest.fixture
def tested():
    rng = np.random.default_rng(3)
    design = Design.plain(np.column_stack([rng.normal(size=40), np.ones(40)]))
    y = (rng.random(40) < 0.5).astype(float)
    return Evaluation(design, y, np.full(40, 1 / 40), LogisticLoss(), is_classifier=True)


def expand(tested, *, size=0.2, **change):
    """Return a cell whose runs are scattered around θ = (1, 0)."""
    theta = np.array([1.0, 0.0])
    rng = np.random.default_rng(4)
    deviations = size * rng.normal(size=(2, N_DRAWS))
    gradient, hessian = tested.gradient(theta), tested.hessian(theta)
    cell = ExpandedCell(
        group_index=0,
        epsilon_index=2,
        theta=theta,
        before=tested.outcomes(np.zeros(2)),
        loss=tested.outcomes(theta).loss,
        quadratic=QuadraticRuns(
            first=gradient @ deviations,
            second=0.5 * np.einsum("pd,pq,qd->d", deviations, hessian, deviations),
            expected_first=0.0,
            expected_second=0.5 * size**2 * float(np.trace(hessian)),
            second_order=0.5 * size**2 * float(np.trace(hessian)),
        ),
        linearised=lambda n: deviations[:, :n],
        solve=None,
        untouched=np.zeros(N_DRAWS, dtype=bool),
        converged=True,
        condition=10.0,
        terms=NoiseTerms(0.0, np.zeros(2), 0.3, 0.0, largest_noise=0.3),
        n_solvable=N_DRAWS,
    )
    noise = {name: change.pop(name) for name in [*change] if hasattr(cell.terms, name)}
    return replace(cell, terms=replace(cell.terms, **noise), **change)


def answer(tested, cell):
    return finish_cell(cell, shape_of_runs(tested, cell, None))


def test_every_outcome_is_the_mean_over_the_runs_and_lies_in_its_interval(tested):
    cell = expand(tested)
    found = answer(tested, cell)
    thetas = cell.theta[:, None] + cell.linearised(N_DRAWS)
    runs = [tested.outcomes(theta) for theta in thetas.T]
    accuracy = np.array([run.accuracy for run in runs]) - cell.before.accuracy
    assert found.changes["accuracy"] == pytest.approx(accuracy.mean(), abs=1e-9)
    assert found.intervals["accuracy"] == pytest.approx(ends(accuracy), abs=1e-9)
    losses = np.array([run.loss for run in runs]) - cell.before.loss
    np.testing.assert_allclose(found.loss_runs, losses, atol=1e-6)
    # The mean of the quadratic is known exactly, so the estimate is nearer to the truth than the runs' mean.
    assert found.loss_change == pytest.approx(losses.mean(), abs=3 * losses.std() / N_DRAWS**0.5)
    assert found.loss_low <= found.loss_change <= found.loss_high
    assert found.trusted


def test_a_run_in_which_nothing_changes_costs_exactly_nothing(tested):
    untouched = np.arange(N_DRAWS) < 97
    found = answer(tested, expand(tested, untouched=untouched))
    assert (found.loss_runs[:97] == 0.0).all()
    assert found.loss_low <= 0.0 <= found.loss_high
    assert found.loss_low <= found.loss_change <= found.loss_high
    low, high = found.intervals["accuracy"]
    assert low <= found.changes["accuracy"] <= high


def test_runs_are_solved_where_that_moves_them(tested):
    asked = []

    def solve(first, start):
        asked.append((first, start.shape[1]))
        return start + np.array([[0.4], [0.0]]), np.ones(start.shape[1], dtype=bool)

    shape = shape_of_runs(tested, expand(tested, solve=solve), None)
    assert shape.is_solved
    assert asked == [(0, 24), (24, N_DRAWS - 24)]
    cell = expand(tested, solve=solve)
    moved = answer(tested, cell)
    thetas = cell.theta[:, None] + cell.linearised(N_DRAWS) + np.array([[0.4], [0.0]])
    losses = np.array([tested.outcomes(theta).loss for theta in thetas.T]) - cell.before.loss
    np.testing.assert_allclose(moved.loss_runs, losses, atol=1e-6)


def test_runs_are_not_solved_where_the_expansion_holds_or_noise_is_small(tested):
    asked = []

    def solve(first, start):
        asked.append(start.shape[1])
        return start, np.ones(start.shape[1], dtype=bool)

    shape = shape_of_runs(tested, expand(tested, solve=solve), None)
    assert not shape.is_solved
    assert asked == [24]
    quiet = expand(tested, solve=solve, logit_noise=0.05, largest_noise=0.1)
    assert shape_of_runs(tested, quiet, None).is_checked
    assert asked == [24]


def test_a_checked_cell_is_trusted_however_large_its_noise(tested):
    def solve(first, start):
        return start, np.ones(start.shape[1], dtype=bool)

    assert answer(tested, expand(tested, solve=solve, logit_noise=2.0)).trusted
    assert not answer(tested, expand(tested, logit_noise=2.0)).trusted


@pytest.mark.parametrize(("shift", "trusted"), [(0.01, True), (0.6, False)])
def test_solved_runs_decide_on_a_method_that_they_may_not_replace(tested, shift, trusted):
    def solve(first, start):
        return start + np.array([[shift], [0.0]]), np.ones(start.shape[1], dtype=bool)

    cell = expand(tested, solve=solve, may_replace=False)
    shape = shape_of_runs(tested, cell, None)
    assert not shape.is_solved
    assert finish_cell(cell, shape).trusted is trusted


@pytest.mark.parametrize(("elsewhere", "trusted"), [(0.0, True), (1.0, False)])
def test_a_loss_with_several_minima_is_not_believed(tested, elsewhere, trusted):
    """Whoever begins beside the expansion ends elsewhere."""
    start = np.array([-1.0, 0.0])

    def solve(first, begun):
        moved = np.where((begun == start[:, None]).all(axis=0), elsewhere, 0.0)
        near = expand(tested).linearised(begun.shape[1])
        return near + np.array([[1.0], [0.0]]) * moved, np.ones(begun.shape[1], dtype=bool)

    cell = expand(tested, solve=solve, start=start)
    assert answer(tested, cell).trusted is trusted


@pytest.mark.parametrize("doubt", [{"converged": False}, {"condition": 1e12}])
def test_a_checked_cell_may_still_fail(tested, doubt):
    def solve(first, start):
        return start, np.ones(start.shape[1], dtype=bool)

    assert not answer(tested, expand(tested, solve=solve, **doubt)).trusted


def test_a_run_without_a_minimum_is_a_reason_not_to_trust(tested):
    def solve(first, start):
        return start, np.arange(start.shape[1]) > 0

    assert not answer(tested, expand(tested, solve=solve)).trusted


@pytest.mark.parametrize("doubt", ["omitted", "undetermined_loss"])
def test_trust_bears_no_more_than_a_part_of_the_interval(tested, doubt):
    low, high = ends(answer(tested, expand(tested)).loss_runs)
    most = 0.6 * 0.5 * (high - low)
    assert answer(tested, expand(tested, **{doubt: 0.99 * most})).trusted
    assert not answer(tested, expand(tested, **{doubt: 1.01 * most})).trusted
