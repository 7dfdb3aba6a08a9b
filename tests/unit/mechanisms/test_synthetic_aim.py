# SPDX-License-Identifier: Apache-2.0
"""Synthetic tables by AIM: the budget as we account for it, records that the model can learn from."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant

from epsilens.mechanisms._advantage import zcdp_advantage
from epsilens.mechanisms.synthetic_aim import SyntheticAIM, estimate, synthetic_bins


def test_the_budget_of_a_replaced_record(small_task):
    task = small_task(50)
    for epsilon in (0.1, 1.0, 8.0, 50.0):
        plan = SyntheticAIM.plan(task, epsilon=epsilon, delta=1e-5, protects="record")
        kept = RdpAccountant().compose(ZCDpEvent(plan.rho)).get_epsilon(1e-5)
        assert 0.999 * epsilon < kept <= epsilon
        assert zcdp_advantage(plan.rho) <= plan.advantage <= min(1, 2 * zcdp_advantage(plan.rho))
    assert "encoded" in SyntheticAIM.refusal(dataclasses.replace(task, encode=None))


def test_a_large_budget_gives_everything_away():
    assert zcdp_advantage(36.0) < 1.0 + 1e-15
    assert zcdp_advantage(50.0) == 1.0


def test_counts_are_as_noisy_as_the_budget_asks(small_task):
    """Nine tenths of ρ are spent on counts, each of which a record moves by 1; six σ: 1 in 10⁷."""
    task = small_task(200)
    plan = SyntheticAIM.plan(task, epsilon=1.0, delta=1e-5, protects="record")
    bins = np.column_stack([task.table["age"] > 50, task.y]).astype(np.int64)
    kept = []

    def once(domain, measured, **settings):
        if not kept:
            kept.append(estimate(domain, measured, **settings))
        return kept[0]

    counted = plan.measurement([2, 2], 200, once)(bins).marginals.flatten()
    spent = sum(1 / (2 * one.stddev**2) for one in counted)
    assert 0.85 * plan.rho < spent <= 0.9 * plan.rho * (1 + 1e-9)
    for one in counted:
        columns = bins[:, [int(name) for name in one.clique]]
        exact = np.bincount(columns @ [2, 1][-columns.shape[1] :], minlength=2 ** columns.shape[1])
        assert (np.abs(np.asarray(one.noisy_measurement) - exact) < 6 * one.stddev).all()


def test_records_follow_the_fitted_distribution():
    """Counted pairs form a cycle and a chord, so that columns depend on more than they were counted with.

    Beside it all cells of the joint distribution one by one. A share of 40,000 records has a standard error
    of at most 0.0025; six of them: once in 10⁷ cells.
    """
    from mbi import CliqueVector, Domain, Factor, MarkovRandomField

    rng = np.random.default_rng(0)
    names, sizes = ("a", "b", "c", "d", "e"), (3, 2, 4, 2, 3)
    domain = Domain(names, sizes)
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "e"), ("d", "e")]
    factors = {
        pair: Factor(domain.project(pair), 2.0 * rng.normal(size=domain.project(pair).shape))
        for pair in pairs
    }
    potentials = CliqueVector(domain, pairs, factors)
    joint = np.zeros(sizes)
    for cell in itertools.product(*map(range, sizes)):
        at = dict(zip(names, cell, strict=True))
        joint[cell] = np.exp(sum(float(factors[p].values[at[p[0]], at[p[1]]]) for p in pairs))
    model = MarkovRandomField(potentials=potentials, marginals=potentials, total=40_000.0)
    table = SimpleNamespace(model=model, keys={name: None for name in names})
    drawn = synthetic_bins(table, 40_000, seed=0)

    shares = np.zeros(sizes)
    np.add.at(shares, tuple(drawn.T), 1 / 40_000)
    np.testing.assert_allclose(shares, joint / joint.sum(), atol=6 * 0.0025)
    np.testing.assert_array_equal(drawn, synthetic_bins(table, 40_000, seed=0))


@pytest.mark.nightly
def test_a_model_learns_from_a_synthetic_table(small_task):
    """At ε = 50 the counts of 800 records are nearly those of the table."""
    task = small_task(800)
    plans = [SyntheticAIM.plan(task, epsilon=50.0, delta=1e-5, protects="record")]
    found = SyntheticAIM.preview(task, plans, n_runs=2, generator=np.random.default_rng(0))[0]
    assert len(found.changes["loss"]) == 2
    assert found.cell.loss_change < 0.1
    assert found.cell.accuracy_change > -0.05
