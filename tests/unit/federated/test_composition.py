# SPDX-License-Identifier: Apache-2.0
"""Every sequence of up to three changes of one answer, enumerated: no level is understated.

The true level of a set of draws is the largest log ratio of their joint probabilities between two
truths. The ledger must bound it for all draws ever made, given up or not; `model_epsilon` for those
that the model is a function of.
"""

from __future__ import annotations

import math

import pytest

from epsilens.channels import Budget, RandomizedResponse
from epsilens.federated import after_change, spend

LEVELS = (0.5, 2.0, 3.0)
STEPS = [
    *(
        (mode, level, rung)
        for mode in ("degrade", "redraw")
        for level in LEVELS
        for rung in ("one-message", "exact")
    ),
    *(("given up", level, "one-message") for level in LEVELS),
]


def level_of(joint: list[dict[tuple[int, ...], float]], kept: set[int]) -> float:
    table: dict[tuple[int, ...], list[float]] = {}
    for truth, chances in enumerate(joint):
        for draws, chance in chances.items():
            key = tuple(draws[i] for i in sorted(kept))
            table.setdefault(key, [0.0] * len(joint))[truth] += chance
    return max(math.log(max(row) / min(row)) for row in table.values())


def with_draw(joint, law):
    """Add a draw whose probabilities depend on the truth and the draws before."""
    return [
        {
            (*draws, value): chance * more
            for draws, chance in chances.items()
            for value, more in enumerate(law(truth, draws))
            if more > 0
        }
        for truth, chances in enumerate(joint)
    ]


def budget(level: float) -> Budget:
    return Budget({"answer": level})


@pytest.mark.parametrize(("k", "depth"), [(2, 3), (3, 2)])
def test_no_level_is_understated_after_any_sequence(k: int, depth: int) -> None:
    n_checked = n_tight = 0

    def go(joint, levels, anchor, current, spent, carried, model, left) -> None:
        nonlocal n_checked, n_tight
        if not left:
            return
        for mode, wanted, rung in STEPS:
            if mode == "degrade" and wanted > levels[current]:
                continue
            real = "redraw" if mode == "given up" else mode
            last, place = levels[anchor], len(levels)
            after = spend({"answer": spent}, mode=real, anchor=budget(last), wanted=budget(wanted))[
                "answer"
            ]
            claimed = after_change(
                budget(model),
                budget(levels[current]),
                budget(wanted),
                mode=real,
                rung=rung,
                preview=False,
                anchored=anchor == current,
            ).per_record
            new_anchor = place
            if mode == "degrade":
                noise = RandomizedResponse(k, levels[current]).degrade_to(wanted).matrix
                now = with_draw(joint, lambda u, t, m=noise: m[t[current]])
                new_anchor = anchor
            elif wanted < last:
                fresh = RandomizedResponse(k, wanted).matrix
                now = with_draw(joint, lambda u, t, m=fresh: m[u])
            else:
                # Together with the anchor, as `Site` draws; at the same level it is the anchor itself.
                fine, old = RandomizedResponse(k, wanted), RandomizedResponse(k, last).matrix
                noise = fine.degrade_to(last).matrix
                now = with_draw(
                    joint,
                    lambda u, t, f=fine.matrix, m=noise, o=old: (
                        f[u] * m[:, t[anchor]] / o[u, t[anchor]]
                    ),
                )
            levels_now = (*levels, wanted)
            assert level_of(now, set(range(place + 1))) <= after + 1e-9
            if mode == "given up":
                go(now, levels_now, new_anchor, current, after, carried, model, left - 1)
                continue
            in_model = {place} if rung == "exact" else {*carried, current, place}
            true = level_of(now, in_model)
            assert true <= claimed + 1e-9, (mode, wanted, rung, levels)
            n_checked += 1
            n_tight += claimed <= true + 1e-9
            go(now, levels_now, new_anchor, place, after, in_model, claimed, left - 1)

    for first in (1.0, 3.0):
        matrix = RandomizedResponse(k, first).matrix
        joint = [{(value,): matrix[truth, value] for value in range(k)} for truth in range(k)]
        go(joint, (first,), 0, 0, first, {0}, first, depth)
    assert n_checked > 100
    # Where it is not exact, it errs on the safe side; mostly it is exact.
    assert n_tight > 0.7 * n_checked
