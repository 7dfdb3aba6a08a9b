# SPDX-License-Identifier: Apache-2.0
"""Taking sites out of a model: whose sums are needed, and the steps with the statement about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from epsilens.federated.aggregate import Objective, Penalty
from epsilens.federated.change import Step, Trust, judge, removal_step
from epsilens.federated.parties import TOGETHER, Parties
from epsilens.federated.sums import SiteSums, add_up
from epsilens.federated.versions import CoordinatorState


def known_apart(state: CoordinatorState, leaving: Sequence[int]) -> set[int]:
    """Return the sites whose sums are here for themselves, or for the leaving ones together."""
    begun, sums = state.intention, state.sums or {}
    if TOGETHER not in sums:
        return set(sums)
    is_begun = begun is not None and begun.operation == "remove" and begun.sites == leaving
    return set(leaving) if is_begun and leaving[0] in sums else set()


def sums_apart(
    state: CoordinatorState, present: Objective, leaving: Sequence[int], parties: Parties
) -> Mapping[int, SiteSums]:
    """Return the sums with those of the leaving sites for themselves; asked for if need be.

    Several who leave under secure aggregation stand together under the first of them.
    """
    if state.sums is not None and set(leaving) <= known_apart(state, leaving):
        return state.sums
    parts = parties.leaving_sums(present.theta, leaving)
    return {TOGETHER: present.sums.without(add_up(parts.values())), **parts}


def first_removal(
    present: Objective, sums: Mapping[int, SiteSums], leaving: Sequence[int]
) -> tuple[Step, Trust]:
    """Return the Newton step away from sites that leave, and the statement about it."""
    gone = [part for site, part in sums.items() if site in leaving]
    step = removal_step(present, gone)
    share = sum(part.n for part in gone) / present.sums.n
    return step, judge(step, present, share_changed=share, rung="newton")


def second_removal(
    first: Step, sums: Mapping[int, SiteSums], penalty: Penalty, share: float
) -> tuple[Step, Trust]:
    """Return another step, from the sums of those who stay at the model of the first one."""
    there = Objective(first.theta, add_up(sums.values()), penalty)
    curvature = there.curvature()
    second = Step(first.theta - curvature.solve(there.gradient), first.theta, curvature)
    trust = judge(second, there, share_changed=share, rung="newton")
    # Here the second step is what the first one left: no sign of a model that never converged.
    error = trust.predicted_error - trust.unconverged
    advice, reason = trust.advice, trust.reason
    if advice == "converge":
        advice, reason = "accept", ""
    whole = Step(second.theta, first.before, curvature)
    return whole, replace(
        trust, predicted_error=error, unconverged=0.0, advice=advice, reason=reason
    )
