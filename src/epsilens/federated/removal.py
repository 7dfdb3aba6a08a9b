# SPDX-License-Identifier: Apache-2.0
"""Taking sites out of a model, step by step, with the word on each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from epsilens.federated.aggregate import Objective, Penalty
from epsilens.federated.change import Step, Trust, judge, removal_step
from epsilens.federated.sums import SiteSums, add_up

__all__ = ["first_removal", "second_removal"]


def first_removal(
    present: Objective, sums: Mapping[int, SiteSums], leaving: Sequence[int]
) -> tuple[Step, Trust]:
    """Return the Newton step away from sites that leave, and the word on it."""
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
