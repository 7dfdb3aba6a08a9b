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


def test_who_has_left_stays_out_after_a_restart(schema: FederationSchema) -> None:
    sites = make_sites(schema)
    leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    leader.train()
    leader.remove([4])
    again = Coordinator(schema, LocalParties(sites), regularisation=1e-2, state=leader.state)
    assert again.parties.numbers == (0, 1, 2, 3)
    assert again.change({0: 1.0}, rung="exact").version == 2


def test_another_coordinator_goes_on_from_the_version_that_the_sites_have(
    schema: FederationSchema,
) -> None:
    sites = make_sites(schema)
    first = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    first.train()
    first.change({0: 2.0})
    second = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    second.train()
    second.change({0: 1.0}, rung="exact")
    assert [version.version for version in second.versions] == [2, 3]
    assert sites[0].budget.per_column["smokes"] == 1.0


def test_an_interrupted_removal_is_finished_first(schema: FederationSchema) -> None:
    line = Failing(LocalParties(make_sites(schema)))
    leader = Coordinator(schema, line, regularisation=1e-2)
    leader.train()
    line.calls_left = 2
    with pytest.raises(Stopped):
        leader.remove([3], rung="exact")
    line.calls_left = None
    with pytest.raises(ValueError, match="removal of site 3 was interrupted"):
        leader.change({0: 1.0})
    assert leader.resume().operation == "remove"
    assert leader.change({0: 1.0}).sites == (0,)


def test_what_a_site_has_spent_is_known_though_another_refuses(schema: FederationSchema) -> None:
    sites = make_sites(schema, limit=20.0)
    sites[1].allow(6.0)
    leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    leader.train()
    with pytest.raises(ValueError, match="its limit is 6"):
        leader.change({0: 1.0, 1: 1.0}, mode="redraw")
    assert leader.ledger == tuple(leader.parties.ledger())
    assert [e.total_epsilon for e in leader.ledger if e.site == 0] == [6.0, 8.0]
