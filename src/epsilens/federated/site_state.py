# SPDX-License-Identifier: Apache-2.0
"""What a site must not forget: its draws, what it has spent, what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from epsilens.channels import Budget
from epsilens.federated.declaration import Records
from epsilens.federated.ledger import LedgerEntry, Mode


@dataclass(frozen=True)
class Wish:
    """A change that a site asks for.

    Parameters
    ----------
    budget : Budget
        The ε wanted for each protected column.
    mode : {"degrade", "redraw", "as_printed"}
    """

    budget: Budget
    mode: Mode = "degrade"


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Draw:
    """Randomised records and the level they were drawn at."""

    records: Records
    budget: Budget


@dataclass(frozen=True, repr=False)
class Pending:
    """A change that was prepared; `as_printed` has no draw."""

    wish: Wish
    drawn: Draw | None


@dataclass(frozen=True, repr=False)
class SiteState:
    """Everything that a site must not forget, beside its contract and its true records.

    Parameters
    ----------
    number : int
        Its place in the federation, from 0.
    limit : float
        The most that a record may spend in all.
    seed : int or None
        None: operating-system randomness.
    draws : int
        How often it has drawn; with a seed, every draw has its own stream.
    anchor : Draw
        The last draw that was made from the true answers, in use or not.
    current : Draw
        The draw in use: such a draw, perhaps with noise added.
    spent : mapping of column to float
    ledger : tuple of LedgerEntry
    pending : Pending or None
    wish : Wish or None
        What it asks for.
    version : int
        The last version of the model that it was notified of.
    offered : int
        How many of its records, the last ones, are not in the model but on offer.
    submitted : bool
        Whether the coordinator has got the sums of these.
    preview : Wish or None
        What the sums are asked for in expectation.
    allows_as_printed : bool
        Whether the site lets the published message, which is not private, leave at all.
    insists_on_masks : bool
        Whether sums of its own leave under masks only.
    draw_name : str
        Random, made with the first draw: by it the coordinator knows whether it is still the same one.
    """

    number: int
    limit: float
    seed: int | None
    draws: int
    anchor: Draw
    current: Draw
    spent: Mapping[str, float]
    ledger: tuple[LedgerEntry, ...] = field(default=())
    pending: Pending | None = None
    wish: Wish | None = None
    version: int = -1
    offered: int = 0
    submitted: bool = False
    preview: Wish | None = None
    allows_as_printed: bool = False
    insists_on_masks: bool = False
    draw_name: str = ""
