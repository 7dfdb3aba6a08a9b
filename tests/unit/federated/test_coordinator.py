# SPDX-License-Identifier: Apache-2.0
"""A coordinator that stops at any point goes on without spending or applying anything twice."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.federated import Coordinator, CoordinatorState, FederationSchema, LocalParties

from .conftest import make_sites


class Stopped(BaseException):
    """The power has gone."""


class Failing:
    """The sites, behind a line that breaks after so many calls."""

    def __init__(self, parties: LocalParties) -> None:
        self.parties = parties
        self.calls_left = None

    def __getattr__(self, name: str):
        found = getattr(self.parties, name)
        if not callable(found):
            return found

        def call(*args, **options):
            if self.calls_left is not None:
                if self.calls_left == 0:
                    raise Stopped
                self.calls_left -= 1
            return found(*args, **options)

        return call


def story(leader: Coordinator, which: str) -> None:
    if which == "remove":
        leader.remove([3], rung="exact")
    elif which == "preview":
        leader.preview({1: 1.0, 2: 0.5})
    else:
        leader.change({1: 1.0, 2: 0.5}, mode=which, rung="newton")


@pytest.mark.parametrize("which", ["degrade", "redraw", "remove", "preview"])
def test_stopped_anywhere_it_goes_on_to_the_same_end(schema: FederationSchema, which: str) -> None:
    def begin() -> tuple[Failing, dict[str, CoordinatorState], Coordinator]:
        line = Failing(LocalParties(make_sites(schema, limit=50.0)))
        kept: dict[str, CoordinatorState] = {}
        leader = Coordinator(
            schema, line, regularisation=1e-2, keep=lambda state: kept.update(last=state)
        )
        leader.train()
        return line, kept, leader

    _, kept, leader = begin()
    story(leader, which)
    whole = leader
    stops = 0
    for calls in range(60):
        line, kept, leader = begin()
        line.calls_left = calls
        try:
            story(leader, which)
        except Stopped:
            stops += 1
        else:
            break
        line.calls_left = None
        again = Coordinator(
            schema,
            line,
            regularisation=1e-2,
            state=kept["last"],
            keep=lambda state, kept=kept: kept.update(last=state),
        )
        # Either the old version or the new one, never a third.
        assert len(again.versions) in (1, 2)
        again.resume()
        if len(again.versions) == 1:
            story(again, which)
        assert len(again.versions) == 2
        assert np.array_equal(again.theta, whole.theta)
        assert line.parties.ledger() == whole.parties.parties.ledger()
        assert again.ledger == tuple(line.parties.ledger())
        assert again.resume() is None
        levels = [site.budget.per_record for site in line.parties.sites.values()]
        assert levels == [site.budget.per_record for site in whole.parties.parties.sites.values()]
    assert stops >= 3


def test_a_refusal_leaves_nothing_to_take_up_again(schema: FederationSchema) -> None:
    leader = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    leader.train()
    with pytest.raises(ValueError, match="its limit is 6"):
        leader.change({0: 1.0}, mode="redraw")
    assert leader.state.intention is None
    assert leader.resume() is None
    assert leader.change({0: 1.0}).sites == (0,)
