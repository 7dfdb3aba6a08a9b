# SPDX-License-Identifier: Apache-2.0
"""Accepted records: the step that was announced, near to training again with them."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.federated import (
    Coordinator,
    LocalParties,
    Objective,
    Site,
    acceptance_step,
    accepted_sums,
    add_up,
    model_for_provider,
)
from epsilens.valuation import offer_batch

from .conftest import contract, make_sites, truth


@pytest.mark.parametrize("n_labels", [2, 3])
def test_acceptance_makes_the_move_that_was_scored_and_is_near_to_training_again(n_labels):
    schema = contract(n_labels)
    sites = make_sites(schema)
    leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    theta = leader.train().theta
    sums = add_up(site.sums(theta) for site in sites)
    present = Objective(theta, sums, leader.penalty)
    # The provider's records as they would be in the federation: drawn, not true.
    provider = Site(5, schema, truth(schema, 70, seed=50), epsilon=3.0, seed=7)
    records = provider.state.current.records
    model = model_for_provider(present)
    rows, labels = schema.design(records).matrix, schema.labels(records)
    announced = offer_batch(model, rows, labels, schema.loss)
    step, after = acceptance_step(present, [accepted_sums(records, schema, theta)])
    # The step also makes good what training left, a gradient below 1e-10.
    assert step.move == pytest.approx(announced.move, abs=1e-8)
    assert after.sums.n == present.sums.n + 70
    # The Hessian that is kept is the mean over all records, each by its own weight.
    assert after.sums.hessian == pytest.approx(sums.hessian + provider.sums(theta).hessian)

    together = Coordinator(
        schema, LocalParties([*make_sites(schema), provider]), regularisation=1e-2
    )
    retrained = together.train().theta
    # What one step leaves is of second order in the share of the new records, 70 of 520.
    assert np.linalg.norm(step.theta - retrained) < 0.2 * np.linalg.norm(theta - retrained)


def test_too_few_accepted_records_do_not_leave_the_provider():
    schema = contract()
    n = schema.n_parameters
    with pytest.raises(InputError, match=f"at least {n + 1} records .* got {n}"):
        accepted_sums(truth(schema, n, seed=1), schema, np.zeros(n))
    assert accepted_sums(truth(schema, n + 1, seed=1), schema, np.zeros(n)).n == n + 1
