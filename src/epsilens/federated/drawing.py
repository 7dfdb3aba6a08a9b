# SPDX-License-Identifier: Apache-2.0
"""How a site draws its protected answers: the first time, with more noise, or again from the true ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from epsilens.channels import Budget
from epsilens.errors import PrivacyLeakWarning, SiteBudgetError
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.ledger import Mode, spend
from epsilens.federated.randomisation import degrade, randomise, relax
from epsilens.federated.site_state import Draw, SiteState


def first_draw(
    records: Records, schema: FederationSchema, budget: Budget, *, seed: int | None, number: int
) -> Draw:
    """Return the draw with which a site begins.

    Parameters
    ----------
    records : Records
        The true ones.
    schema : FederationSchema
    budget : Budget
    seed : int or None
        None: operating-system randomness.
    number : int
        Number of the site.
    """
    with _quietly():
        drawn = randomise(records, schema, budget, random_state=_stream(seed, number, 0))
    return Draw(drawn, budget)


def degraded(state: SiteState, schema: FederationSchema, wanted: Budget) -> Draw:
    """Return the draw in use with noise added, so that it is distributed as one at a stricter level."""
    source = _stream(state.seed, state.number, state.draws)
    with _quietly():
        records = degrade(
            state.current.records, schema, state.current.budget, wanted, random_state=source
        )
    return Draw(records, wanted)


def redrawn(state: SiteState, schema: FederationSchema, truth: Records, wanted: Budget) -> Draw:
    """Draw from the true answers: afresh where stricter, together with the old draw where looser."""
    source = _stream(state.seed, state.number, state.draws)
    anchor = state.anchor
    levels = anchor.budget.per_column
    looser = {name: max(wanted.per_column[name], level) for name, level in levels.items()}
    with _quietly():
        fresh = randomise(truth, schema, wanted, random_state=source)
        coupled = relax(
            truth, anchor.records, schema, anchor.budget, Budget(looser), random_state=source
        )
    places = [
        schema.positions[name] for name, level in levels.items() if wanted.per_column[name] >= level
    ]
    records = fresh.with_codes(places, coupled.codes[:, places]) if places else fresh
    return Draw(records, wanted)


@contextmanager
def _quietly() -> Iterator[None]:
    """Draw without a warning: that a whole federation is simulated is said once, where it is shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield


def _stream(seed: int | None, number: int, draws: int) -> np.random.Generator | None:
    """Return the randomness of one draw of a simulated site; None: the operating system's."""
    return None if seed is None else np.random.default_rng([seed, number, draws])


def affordable(
    spent: Mapping[str, float],
    mode: Mode | None,
    anchor: Budget | None,
    wanted: Budget,
    *,
    number: int,
    limit: float,
) -> Mapping[str, float]:
    """Return what would be spent, or refuse what is above the limit."""
    after = spend(spent, mode=mode, anchor=anchor, wanted=wanted)
    total = math.fsum(after.values())
    # A budget that just fits must not fail by the rounding of a sum; what spends nothing never fails.
    if mode != "degrade" and total > limit * (1 + 1e-12):
        raise SiteBudgetError(
            number,
            f"would have spent epsilon = {total:g} a record, and its limit is {limit:g}. "
            "Use `degrade`, which spends nothing more, or raise the site's limit.",
        )
    return after
