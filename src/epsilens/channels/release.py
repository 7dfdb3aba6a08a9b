# SPDX-License-Identifier: Apache-2.0
"""The real release: named columns of a table randomised, everything else left as it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import LARGEST_FINITE_EPSILON, as_choice, require_column
from epsilens.channels.budget import Budget
from epsilens.channels.domain import Domain, domain_of
from epsilens.channels.draw import Words, released_words
from epsilens.channels.order import is_shown_by_order, numbering_columns, random_order
from epsilens.channels.randomized_response import RandomizedResponse
from epsilens.data.binning import Bins
from epsilens.data.schema import DomainOrigin
from epsilens.errors import InputError, PrivacyLeakWarning

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MissingAnswers", "Release", "release_table", "require_drawable"]

MissingAnswers = Literal["error", "drop", "category"]


@dataclass(frozen=True)
class Release:
    """A released table and what it took.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with the protected columns randomised.
    rows : array of int64
        Which row of the original table each row is. Never to be published.
    shuffled : bool
        Whether the rows were put in random order.
    as_typed : mapping of str to pandas.Series
        The reports of columns with given categories, spelled as these were typed.
    budget : Budget
        What was spent.
    n_categories : mapping of str to int
        Size of each protected column's domain, a missing answer included where it is one.
    missing_is_category : tuple of str
        The columns in whose domain "no answer" is one of the answers.
    origin : mapping of str to {"given", "declared", "observed", "bins"}
        Where each domain came from.
    bins : mapping of str to Bins
        Bins of the columns that were put into some, with their bounds.
    warnings : tuple of str
        Where the guarantee is weaker than it looks, one sentence each.
    remarks : tuple of str
        What else was done, one sentence each.
    simulated : bool
        Whether a seed was given.
    """

    frame: pd.DataFrame = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    shuffled: bool
    as_typed: Mapping[str, pd.Series] = field(repr=False)
    budget: Budget
    n_categories: Mapping[str, int]
    missing_is_category: tuple[str, ...]
    origin: Mapping[str, DomainOrigin]
    bins: Mapping[str, Bins]
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]
    simulated: bool


def release_table(
    frame: pd.DataFrame,
    *,
    budget: Budget,
    categories: Mapping[str, Sequence[str]] | None = None,
    bins: Mapping[str, Bins] | None = None,
    missing: MissingAnswers = "error",
    drop: Sequence[str] = (),
    keep_order: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> Release:
    """Randomise the columns that a budget names, and leave all other columns as they are.

    Each protected answer passes once through k-ary randomised response with its column's ε, drawn
    from the operating system's randomness. Type and spelling of a released column follow from its
    possible answers alone, never from the true ones. If the rows stand in an order that shows
    protected answers, or a column is left out by which they may be sorted, they are shuffled. The
    other columns are not protected.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with the true answers.
    budget : Budget
        ε of each column to be protected; at most 40, or infinite for no privacy.
    categories : mapping of str to sequence of str, optional
        The possible answers of a column, as text. The released column then has truths, whole
        numbers, numbers or words, as these are. Without it the categories that the column's type
        declares are used, sorted unless ordered, or else the observed values, with a warning.
    bins : mapping of str to Bins, optional
        Numeric columns to be released as the middle of one of a few bins.
    missing : {"error", "drop", "category"}
        What to do with missing answers in protected columns: refuse, leave those rows out (which
        shows who answered), or treat "no answer" as one more answer. The last holds for every
        protected column whose domain is not taken from the data, whether or not somebody gave no
        answer: otherwise the release would show that.
    drop : sequence of str
        Columns to leave out of the release; not protected ones.
    keep_order : bool
        Whether to keep the order of the rows even if it shows protected answers or what was left
        out, with a warning.
    random_state : None, int or numpy.random.Generator
        None: operating-system randomness. Anything else simulates, with a warning.

    Returns
    -------
    Release
        The table and what was spent.

    Raises
    ------
    InputError
        If a column is unknown or cannot be protected as it is; the message never has a value.

    Warns
    -----
    PrivacyLeakWarning
        If domains or bounds come from the data, rows are left out, ε is infinite, the order of
        the rows shows answers and is kept or can be restored, or a `random_state` is given.

    Notes
    -----
    Assumptions: one row per person, each released once; domains are public. Neighbouring tables
    differ in the protected answers of one row.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.channels import Budget
    >>> from epsilens.channels.release import release_table
    >>> survey = pd.DataFrame({"age": [31, 42, 58], "smokes": ["yes", "no", "no"]})
    >>> release = release_table(
    ...     survey, budget=Budget({"smokes": 1.0}), categories={"smokes": ["no", "yes"]}
    ... )
    >>> release.frame["age"].tolist(), release.n_categories["smokes"]
    ([31, 42, 58], 2)
    """
    require_drawable(budget)
    as_choice(missing, get_args(MissingAnswers), name="missing")
    columns = list(budget.per_column)
    for name in columns:
        require_column(name, [str(column) for column in frame.columns], argument="protect")
    for name in drop:
        require_column(name, [str(column) for column in frame.columns], argument="drop")
        if name in columns:
            raise InputError(
                f"`drop` must name columns that are not protected, got {name!r}. Leave it out of one of "
                "the two."
            )
    given, binned = dict(categories or {}), dict(bins or {})
    for argument, mapping in (("categories", given), ("bins", binned)):
        for name in mapping:
            if name not in columns:
                raise InputError(
                    f"`{argument}` must name protected columns, got {name!r}. "
                    "Protect it as well, or leave it out."
                )
    for name in set(given) & set(binned):
        raise InputError(f"column {name!r} must be named in `categories` or `bins`, not both.")

    notes: list[str] = []
    remarks: list[str] = []
    kept = _settle(frame, columns, missing, notes)
    table = frame.iloc[kept].drop(columns=list(drop))
    if table.empty:
        raise InputError("at least one row must have all protected answers, got none.")
    domains = {
        name: domain_of(
            table[name],
            given=given.get(name),
            bins=binned.get(name),
            with_missing=missing == "category",
        )
        for name in columns
    }
    codes = {name: domain.codes(table[name]) for name, domain in domains.items()}
    notes.extend(_leaks(domains, budget))
    finite = [epsilon for epsilon in budget.per_column.values() if epsilon < math.inf]
    words = released_words(max(finite, default=math.inf), random_state)
    if random_state is not None:
        notes.append("The reports are simulated: a seed was given, so they protect nobody.")

    shown = [
        name
        for name, epsilon in budget.per_column.items()
        if epsilon < math.inf and is_shown_by_order(codes[name])
    ]
    order = (
        _order(table, columns, shown, drop, words, notes, remarks, keep_order=keep_order)
        if shown or drop
        else None
    )
    released = table.copy(deep=False)
    as_typed: dict[str, pd.Series] = {}
    for name, domain in domains.items():
        channel = RandomizedResponse(domain.size, budget.per_column[name])
        reports = channel.draw(codes[name], words)
        released[name] = domain.decode(reports, index=table.index, name=name)
        texts = domain.decode_texts(reports, index=table.index)
        if texts is not None:
            as_typed[name] = texts
    if order is not None:
        # The old labels of the rows would show the old order.
        released = released.iloc[order].reset_index(drop=True)
        as_typed = {
            name: texts.iloc[order].reset_index(drop=True) for name, texts in as_typed.items()
        }
    return Release(
        frame=released,
        rows=kept if order is None else kept[order],
        shuffled=order is not None,
        as_typed=as_typed,
        budget=budget,
        n_categories={name: domain.size for name, domain in domains.items()},
        missing_is_category=tuple(name for name, d in domains.items() if d.with_missing),
        origin={name: domain.origin for name, domain in domains.items()},
        bins={name: domain.bins for name, domain in domains.items() if domain.bins is not None},
        warnings=tuple(notes),
        remarks=tuple(remarks),
        simulated=random_state is not None,
    )


def require_drawable(budget: Budget) -> None:
    """Refuse a budget that no draw can keep.

    Parameters
    ----------
    budget : Budget
        ε of each column.

    Raises
    ------
    InputError
        If a finite ε is above 40.

    Examples
    --------
    >>> from epsilens.channels import Budget
    >>> require_drawable(Budget({"smokes": 40.0}))
    """
    for name, epsilon in budget.per_column.items():
        if LARGEST_FINITE_EPSILON < epsilon < math.inf:
            raise InputError(
                f"`epsilon` of column {name!r} must be at most {LARGEST_FINITE_EPSILON:g} or "
                f"infinite for a draw, got {epsilon:g}. Such a level protects nobody; use inf and "
                "say so."
            )


def _settle(
    frame: pd.DataFrame, columns: list[str], missing: MissingAnswers, notes: list[str]
) -> NDArray[np.int64]:
    """Return the rows to release, and warn if some are left out."""
    counts = {name: int(frame[name].isna().sum()) for name in columns}
    counts = {name: count for name, count in counts.items() if count}
    everybody = np.arange(len(frame), dtype=np.int64)
    if not counts or missing == "category":
        return everybody
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    if missing == "error":
        raise InputError(
            f"protected columns must have no missing answers, but some do ({listed} of "
            f"{len(frame)} rows). Choose `--missing category` or `--missing drop`."
        )
    # The count is for the curator's eyes; the receipt, which travels, does not have it.
    warnings.warn(
        f"rows without a protected answer are left out ({listed} of {len(frame)}): who is missing "
        "from the file is visible and not protected.",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    notes.append(
        "Rows without a protected answer were left out: who is missing from the file is visible "
        "and not protected."
    )
    return np.flatnonzero(frame[columns].notna().all(axis=1)).astype(np.int64)


def _order(
    table: pd.DataFrame,
    columns: list[str],
    shown: Sequence[str],
    dropped: Sequence[str],
    words: Words,
    notes: list[str],
    remarks: list[str],
    *,
    keep_order: bool,
) -> NDArray[np.int64] | None:
    """Return a random order of the rows, or None if theirs is to be kept, and say which."""
    told = [f"true answers of {', '.join(shown)}"] if shown else []
    told += [f"what stood in {', '.join(dropped)}"] if dropped else []
    what = " and ".join(told)
    if keep_order:
        text = (
            f"The order of the rows is kept although it {'shows' if shown else 'may show'} {what}: "
            "equal answers stand together or take turns. These answers are not protected."
        )
        notes.append(text)
        warnings.warn(text, PrivacyLeakWarning, stacklevel=3)
        return None
    remarks.append(
        f"The rows were shuffled: their order in the data {'would' if shown else 'could'} have shown "
        f"{what}."
    )
    numbering = numbering_columns(table.drop(columns=columns))
    if numbering:
        text = (
            f"The rows were shuffled, but {', '.join(numbering)} restores their order and so "
            f"{'shows' if shown else 'may show'} {what}. Drop such a column before the release."
        )
        notes.append(text)
        warnings.warn(text, PrivacyLeakWarning, stacklevel=3)
    return random_order(len(table), words)


def _leaks(domains: Mapping[str, Domain], budget: Budget) -> list[str]:
    """Warn of what the release shows beside the reports, and return it for the receipt."""
    found: list[str] = []
    observed = [name for name, d in domains.items() if d.origin == "observed" and d.bins is None]
    ranges = [name for name, d in domains.items() if d.origin == "observed" and d.bins is not None]
    open_columns = [name for name, epsilon in budget.per_column.items() if epsilon == math.inf]
    if observed:
        found.append(
            f"The possible answers of {', '.join(observed)} were taken from the data: the release "
            "shows which answers occur. Name them with `--categories` to keep that private."
        )
    if ranges:
        found.append(
            f"The bounds of {', '.join(ranges)} were taken from the data: the release shows the "
            "smallest and the largest value. Name bounds with `--bins` to keep them private."
        )
    if open_columns:
        found.append(
            f"ε is infinite for {', '.join(open_columns)}: these answers are released as they are."
        )
    for text in found:
        warnings.warn(text, PrivacyLeakWarning, stacklevel=3)
    return found
