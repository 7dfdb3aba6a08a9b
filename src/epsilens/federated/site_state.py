# SPDX-License-Identifier: Apache-2.0
"""What a site must not forget: its draws, what it has spent, what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from epsilens.channels import Budget
from epsilens.errors import InputError
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


# --- What a coordinator knows of each site's draw, so that a second one under the same number is counted too ---

LARGEST_VERSION = 2**31
"""A site that claims a later version of a model has never been notified of it."""
_NAME_LENGTH = 32


@dataclass(frozen=True)
class SiteDraw:
    """A site's draw, as its coordinator knows it.

    Parameters
    ----------
    name : str
        Random, made with the draw.
    earlier : int
        How many lines of the site's ledger are about earlier draws under the same number.
    version : int
        The last version of the model that the site has confirmed.

    Examples
    --------
    >>> SiteDraw("0f" * 16).earlier
    0
    """

    name: str
    earlier: int = 0
    version: int = -1


@dataclass(frozen=True)
class Standing:
    """Where a site stands, as it has said last.

    Parameters
    ----------
    n : int
        How many records it takes part with.
    budget : Budget
        The level of its present draw.
    anchored : bool
        Whether that is the last one from the true answers.
    version : int
        The last version of the model that it was notified of; −1: none.
    draw : str
        The name of its draw.
    insists : bool
        Whether it lets sums of its own leave under masks only.
    """

    n: int
    budget: Budget
    anchored: bool
    version: int
    draw: str
    insists: bool


def counted_on(
    earlier: Sequence[LedgerEntry], reported: Sequence[LedgerEntry]
) -> tuple[LedgerEntry, ...]:
    """Return a ledger in which what a site reports of its draw comes on top of what earlier draws spent.

    Draws that were made from the same answers independently of each other spend the sum (sequential
    composition).

    Parameters
    ----------
    earlier : sequence of LedgerEntry
        Entries of draws that the site no longer knows.
    reported : sequence of LedgerEntry
        Entries of the draw that it has.

    Examples
    --------
    >>> first = LedgerEntry(2, "train", None, 3.0, 6.0, 6.0, True)
    >>> [line.total_epsilon for line in counted_on([first], [first])]
    [6.0, 12.0]
    """
    if not earlier:
        return tuple(reported)
    last = earlier[-1]
    return (
        *earlier,
        *(
            replace(
                line,
                total_epsilon=last.total_epsilon + line.total_epsilon,
                private=last.private and line.private,
            )
            for line in reported
        ),
    )


def read_draw_name(text: str) -> str:
    """Return the name of a draw, if it is one.

    Examples
    --------
    >>> read_draw_name("0f" * 16)[:4]
    '0f0f'
    """
    if len(text) != _NAME_LENGTH or not set(text) <= set("0123456789abcdef"):
        raise InputError("the name of a draw must be 32 hexadecimal digits. Check the versions.")
    return text
