# SPDX-License-Identifier: Apache-2.0
"""What a model by itself guarantees after a change (math.md 6, found by enumeration).

Only a model that is a function of the new draw alone is private at the new ε. A single step starts at
the old model, so what it gives still carries the old draw; whoever saw earlier messages stays at the
old ε in any case, and only the protected columns are covered at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from epsilens.channels import Budget, RandomizedResponse
from epsilens.federated.change import Rung
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.ledger import Mode
from epsilens.federated.randomisation import channels_between


def after_change(
    model: Budget | None,
    present: Budget,
    wanted: Budget,
    *,
    mode: Mode,
    rung: Rung,
    preview: bool,
    anchored: bool = False,
) -> Budget:
    """Return the level of a changing site's records in the new model, seen by itself.

    Parameters
    ----------
    model : Budget or None
        Their level in the model before.
    present, wanted : Budget
        Levels of the draw before and after.
    mode : {"degrade", "redraw", "as_printed"}
    rung : {"one-message", "newton", "exact"}
    preview : bool
        A preview takes the mean over the noise, so it is a function of the old draw.
    anchored : bool
        Whether the draw in use is known to be the last one from the true answers, with which a looser
        one is drawn together. Where it is not, the levels are added, which is never too little.

    Returns
    -------
    Budget

    Examples
    --------
    >>> three, one = Budget({"smokes": 3.0}), Budget({"smokes": 1.0})
    >>> after_change(three, three, one, mode="degrade", rung="one-message", preview=False).per_record
    3.0
    >>> after_change(three, three, one, mode="degrade", rung="exact", preview=False).per_record
    1.0
    """
    columns = wanted.per_column
    if mode == "as_printed":
        return Budget(dict.fromkeys(columns, math.inf))
    before = present if model is None else model
    if mode == "degrade":
        if rung == "exact":
            return present if preview else wanted
        return Budget({c: max(before.per_column[c], present.per_column[c]) for c in columns})
    if rung == "exact":
        return wanted
    # Old and new draw together: a stricter one is drawn afresh, a looser one with the old.
    levels = {}
    for column, epsilon in columns.items():
        old, last = before.per_column[column], present.per_column[column]
        is_coupled = anchored and epsilon >= last
        levels[column] = (
            max(old, old - last + epsilon) if is_coupled and last < math.inf else old + epsilon
        )
    return Budget(levels)


def after_exact(
    model: Mapping[int, Budget | None],
    levels: Mapping[int, Budget],
    *,
    mode: Mode,
    changed: Sequence[int],
) -> dict[int, Budget | None]:
    """Return the levels of all sites after rounds that began at zeros: those of their present draws.

    Parameters
    ----------
    model : mapping of site to Budget or None
        Before, and as `after_change` left it for the changing sites.
    levels : mapping of site to Budget
        Budgets of the draws that the rounds used.
    mode : {"degrade", "redraw", "as_printed"}
    changed : sequence of int
        The changing sites.

    Returns
    -------
    dict of site to Budget or None

    Examples
    --------
    >>> three, one = Budget({"smokes": 3.0}), Budget({"smokes": 1.0})
    >>> after_exact({0: three, 1: three}, {0: three, 1: one}, mode="degrade", changed=[1])
    {0: Budget({'smokes': 3.0}), 1: Budget({'smokes': 1.0})}
    """
    after = dict(model)
    for site, level in levels.items():
        if not (mode == "as_printed" and site in changed):
            after[site] = level
    return after


def budgets_after(
    model: Mapping[int, Budget | None],
    present: Mapping[int, Budget],
    wanted: Mapping[int, Budget],
    *,
    mode: Mode,
    rung: Rung,
    preview: bool,
    anchored: Mapping[int, bool],
) -> dict[int, Budget | None]:
    """Return the levels of all sites in the new model after some of them have changed.

    Parameters
    ----------
    model : mapping of site to Budget or None
        In the model before.
    present : mapping of site to Budget
        Budgets of the earlier draws, for every site that takes part.
    wanted : mapping of site to Budget
        Budgets of the changing sites' new draws.
    mode, rung, preview, anchored
        As `after_change` takes them.
    """
    after = dict(model)
    for site, budget in wanted.items():
        after[site] = after_change(
            after.get(site),
            present[site],
            budget,
            mode=mode,
            rung=rung,
            preview=preview,
            anchored=anchored.get(site, False),
        )
    if rung == "exact" and not preview:
        levels = {**present, **wanted}
        after = after_exact(after, levels, mode=mode, changed=tuple(wanted))
    return after


def share_of_records(
    schema: FederationSchema,
    records: Mapping[int, int],
    present: Mapping[int, Budget],
    wanted: Mapping[int, Budget],
    *,
    mode: Mode,
) -> float:
    """Return the share of all sites' records that a change is expected to alter."""
    changed = sum(
        records[site] * expected_share(schema, present[site], budget, mode=mode)
        for site, budget in wanted.items()
    )
    return changed / sum(records.values())


def expected_share(
    schema: FederationSchema, present: Budget, wanted: Budget, *, mode: Mode
) -> float:
    """Return the share of a site's records that a change is expected to alter; no data are needed.

    Parameters
    ----------
    schema : FederationSchema
    present, wanted : Budget
        Levels of the draw before and after.
    mode : {"degrade", "redraw", "as_printed"}

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> three, one = Budget({"smokes": 3.0}), Budget({"smokes": 1.0})
    >>> round(expected_share(schema, three, one, mode="degrade"), 3)
    0.245
    """
    kept = 1.0
    if mode == "degrade":
        for channel in channels_between(schema, present, wanted).values():
            kept *= channel.keep_probability
        return 1.0 - kept
    for name, k in schema.sizes.items():
        old = RandomizedResponse(k, present.per_column[name])
        new = RandomizedResponse(k, wanted.per_column[name])
        # Two reports of one truth agree if both tell it, or both tell the same lie.
        both_flip = (k - 1) * old.flip_probability * new.flip_probability
        kept *= old.keep_probability * new.keep_probability + both_flip
    return 1.0 - kept
