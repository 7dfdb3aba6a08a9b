# SPDX-License-Identifier: Apache-2.0
"""The ledger: every release of every site, what it drew from, and what it has spent in all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from epsilens.channels import Budget

Mode: TypeAlias = Literal["degrade", "redraw", "as_printed"]
Operation: TypeAlias = Literal["train", "preview", "change", "remove", "value"]

Spent: TypeAlias = dict[str, float]
"""For each protected column, what all releases together have spent."""


@dataclass(frozen=True)
class LedgerEntry:
    """One release of one site.

    Parameters
    ----------
    site : int
        Numbered from 0.
    operation : {"train", "preview", "change", "remove", "value"}
    mode : {"degrade", "redraw", "as_printed"} or None
        Where the draw came from; None for the first draw, which comes from the true answers.
    epsilon : float or None
        The level of the draw per protected column; None if the columns differ.
    record_epsilon : float
        Its sum over the columns.
    total_epsilon : float
        What all releases of the site until now have spent of a record's budget, under composition.
    private : bool
        Whether any guarantee holds; False once something was computed from true answers without noise.

    Examples
    --------
    >>> LedgerEntry(0, "train", None, 3.0, 6.0, 6.0, True).total_epsilon
    6.0
    """

    site: int
    operation: Operation
    mode: Mode | None
    epsilon: float | None
    record_epsilon: float
    total_epsilon: float
    private: bool


def spend(
    spent: Mapping[str, float],
    *,
    mode: Mode | None,
    anchor: Budget | None,
    wanted: Budget,
) -> Spent:
    """Return what is spent after a release, column by column.

    Parameters
    ----------
    spent : mapping of column to float
        Before.
    mode : {"degrade", "redraw", "as_printed"} or None
        None: the first draw.
    anchor : Budget or None
        The level of the last draw that was made from the true answers.
    wanted : Budget
        The level of the new one.

    Returns
    -------
    dict of column to float

    Notes
    -----
    Noise added to a draw is post-processing and spends nothing. A fresh, stricter draw adds its ε
    (sequential composition). A looser one is drawn together with the old so that the pair spends the
    larger ε only (math.md 1). What is computed from the true answers themselves has no bound.

    Examples
    --------
    >>> three, one, five = (Budget({"smokes": e}) for e in (3.0, 1.0, 5.0))
    >>> spend({"smokes": 3.0}, mode="degrade", anchor=three, wanted=one)
    {'smokes': 3.0}
    >>> spend({"smokes": 3.0}, mode="redraw", anchor=three, wanted=one)
    {'smokes': 4.0}
    >>> spend({"smokes": 3.0}, mode="redraw", anchor=three, wanted=five)
    {'smokes': 5.0}
    """
    if mode == "degrade":
        return dict(spent)
    if mode == "as_printed":
        return dict.fromkeys(wanted.per_column, math.inf)
    after = {}
    for name, epsilon in wanted.per_column.items():
        before = spent.get(name, 0.0)
        last = None if anchor is None else anchor.per_column[name]
        if last is None or epsilon < last:
            after[name] = before + epsilon
        elif epsilon == last:
            after[name] = before
        else:
            after[name] = math.inf if epsilon == math.inf else before - last + epsilon
    return after


def entry_of(
    site: int, operation: Operation, mode: Mode | None, wanted: Budget, spent: Mapping[str, float]
) -> LedgerEntry:
    """Return the ledger's line for a release.

    Examples
    --------
    >>> entry_of(2, "change", "degrade", Budget({"smokes": 1.0}), {"smokes": 3.0}).total_epsilon
    3.0
    """
    total = math.fsum(spent.values())
    return LedgerEntry(
        site=site,
        operation=operation,
        mode=mode,
        epsilon=common_epsilon(wanted),
        record_epsilon=wanted.per_record,
        total_epsilon=total,
        # ε = ∞ was asked for as such; an unbounded message was not.
        private=mode != "as_printed" and total < math.inf,
    )


def common_epsilon(budget: Budget) -> float | None:
    """Return the ε that all columns have, or None if they differ.

    Examples
    --------
    >>> common_epsilon(Budget({"a": 1.0, "b": 1.0})), common_epsilon(Budget({"a": 1.0, "b": 2.0}))
    (1.0, None)
    """
    values = set(budget.per_column.values())
    return values.pop() if len(values) == 1 else None
