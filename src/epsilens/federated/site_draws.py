# SPDX-License-Identifier: Apache-2.0
"""What a coordinator knows of each site's draw, so that a second one under the same number is counted too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.ledger import LedgerEntry

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
