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

from epsilens._validate import as_choice, require_column
from epsilens.channels.budget import Budget
from epsilens.channels.draw import released_words
from epsilens.channels.randomized_response import RandomizedResponse
from epsilens.data.binning import Bins
from epsilens.data.schema import infer_schema, is_date
from epsilens.errors import InputError, PrivacyLeakWarning

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DomainOrigin", "MissingAnswers", "Release", "release_table"]

MissingAnswers = Literal["error", "drop", "category"]
DomainOrigin = Literal["given", "declared", "observed", "bins"]


@dataclass(frozen=True)
class Release:
    """A released table and what it took.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with the protected columns randomised.
    kept : array of bool, shape (n_rows,)
        Which rows of the original table it has.
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
    simulated : bool
        Whether a seed was given.
    """

    frame: pd.DataFrame = field(repr=False)
    kept: NDArray[np.bool_] = field(repr=False)
    budget: Budget
    n_categories: Mapping[str, int]
    missing_is_category: tuple[str, ...]
    origin: Mapping[str, DomainOrigin]
    bins: Mapping[str, Bins]
    warnings: tuple[str, ...]
    simulated: bool


@dataclass(frozen=True)
class _Domain:
    """The values among which the answers of a column hide."""

    values: pd.Index = field(repr=False)
    origin: DomainOrigin
    with_missing: bool
    bins: Bins | None = None

    @property
    def size(self) -> int:
        return len(self.values) + self.with_missing


def release_table(
    frame: pd.DataFrame,
    *,
    budget: Budget,
    categories: Mapping[str, Sequence[str]] | None = None,
    bins: Mapping[str, Bins] | None = None,
    missing: MissingAnswers = "error",
    random_state: int | np.random.Generator | None = None,
) -> Release:
    """Randomise the columns that a budget names, and leave all other columns as they are.

    Each protected answer passes once through k-ary randomised response with its column's ε, drawn
    from the operating system's randomness. Values keep their type. The other columns are not
    protected.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with the true answers.
    budget : Budget
        ε of each column to be protected; at most 40, or infinite for no privacy.
    categories : mapping of str to sequence of str, optional
        The possible answers of a column, as text. Without it the categories that the column's
        type declares are used, or else the observed values, with a warning.
    bins : mapping of str to Bins, optional
        Numeric columns to be released as the middle of one of a few bins.
    missing : {"error", "drop", "category"}
        What to do with missing answers in protected columns: refuse, leave those rows out (which
        shows who answered), or treat "no answer" as one more answer. The last holds for every
        protected column whose domain is not taken from the data, whether or not somebody gave no
        answer: otherwise the release would show that.
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
        If domains or bounds come from the data, rows are left out, ε is infinite, or a
        `random_state` is given.

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
    as_choice(missing, get_args(MissingAnswers), name="missing")
    columns = list(budget.per_column)
    for name in columns:
        require_column(name, [str(column) for column in frame.columns], argument="protect")
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
    kept = _settle(frame, columns, missing, notes)
    table = frame.loc[kept]
    if table.empty:
        raise InputError("at least one row must have all protected answers, got none.")
    domains = {
        name: _domain(
            table[name],
            given=given.get(name),
            bins=binned.get(name),
            with_missing=missing == "category",
        )
        for name in columns
    }
    codes = {name: _codes(table[name], domain) for name, domain in domains.items()}
    notes.extend(_leaks(domains, budget))
    finite = [epsilon for epsilon in budget.per_column.values() if epsilon < math.inf]
    words = released_words(max(finite, default=math.inf), random_state)
    if random_state is not None:
        notes.append("The reports are simulated: a seed was given, so they protect nobody.")

    released = table.copy(deep=False)
    for name, domain in domains.items():
        channel = RandomizedResponse(domain.size, budget.per_column[name])
        released[name] = _decode(channel.draw(codes[name], words), domain, like=table[name])
    return Release(
        frame=released,
        kept=kept,
        budget=budget,
        n_categories={name: domain.size for name, domain in domains.items()},
        missing_is_category=tuple(name for name, d in domains.items() if d.with_missing),
        origin={name: domain.origin for name, domain in domains.items()},
        bins={name: domain.bins for name, domain in domains.items() if domain.bins is not None},
        warnings=tuple(notes),
        simulated=random_state is not None,
    )


def _settle(
    frame: pd.DataFrame, columns: list[str], missing: MissingAnswers, notes: list[str]
) -> NDArray[np.bool_]:
    counts = {name: int(frame[name].isna().sum()) for name in columns}
    counts = {name: count for name, count in counts.items() if count}
    everybody = np.ones(len(frame), dtype=np.bool_)
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
    kept: NDArray[np.bool_] = frame[columns].notna().all(axis=1).to_numpy(dtype=np.bool_)
    return kept


def _domain(
    series: pd.Series, *, given: Sequence[str] | None, bins: Bins | None, with_missing: bool
) -> _Domain:
    import pandas as pd

    name = str(series.name)
    # A domain taken from the data shows what occurs anyway, so "no answer" joins it if it occurs.
    occurs = with_missing and bool(series.isna().any())
    if bins is not None:
        is_number = pd.api.types.is_numeric_dtype(series.dtype)
        if not is_number or pd.api.types.is_bool_dtype(series.dtype):
            raise InputError(f"`bins` must name a numeric column, got {name!r}, which is not.")
        bounded = bins.bounded_by(_numbers(series))
        values = pd.Index(bounded.midpoints)
        if bins.low is None:
            return _Domain(values, "observed", occurs, bounded)
        return _Domain(values, "bins", with_missing, bounded)
    if given is not None:
        domain = _Domain(_given_values(series, given), "given", with_missing)
    elif isinstance(series.dtype, pd.CategoricalDtype):
        domain = _Domain(series.dtype.categories, "declared", with_missing)
    else:
        _require_protectable(series)
        domain = _Domain(pd.Index(series.dropna().unique()).sort_values(), "observed", occurs)
    if domain.size < 2:
        raise InputError(
            f"column {name!r} must have at least two possible answers, got {domain.size}. "
            f"Name all of them: `--categories {name}=A|B`."
        )
    return domain


def _given_values(series: pd.Series, given: Sequence[str]) -> pd.Index:
    import pandas as pd

    name = str(series.name)
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    texts = [str(text) for text in given]
    try:
        # Truths of which some are missing may come as objects.
        if pd.api.types.infer_dtype(series, skipna=True) == "boolean" or (
            pd.api.types.is_bool_dtype(dtype)
        ):
            truths = [{"true": True, "false": False}[text.lower()] for text in texts]
            values = pd.Index(truths, dtype=dtype)
        elif pd.api.types.is_numeric_dtype(dtype):
            # Through numbers first: "1.0" names the whole number 1.
            values = pd.Index(pd.to_numeric(texts)).astype(dtype)
            if (values.astype(np.float64) != pd.to_numeric(texts).astype(np.float64)).any():
                raise ValueError
        else:
            values = pd.Index(texts, dtype=dtype)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"`categories` of column {name!r} must be of the column's type ({dtype}), but some "
            "are not. Write them as they stand in the data."
        ) from None
    if values.has_duplicates or values.hasnans:
        raise InputError(
            f"`categories` of column {name!r} must be different answers, but one stands twice or "
            "is missing. Name each once."
        )
    return values


def _require_protectable(series: pd.Series) -> None:
    name = str(series.name)
    if is_date(series):
        raise InputError(
            f"column {name!r} must hold categories to be protected, but it holds dates. "
            "Turn them into periods first, or drop the column."
        )
    column = infer_schema(series.to_frame()).columns[0]
    if column.protectable or column.kind == "constant":
        return
    if column.kind == "identifier":
        raise InputError(
            f"column {name!r} must hold categories to be protected, but every value differs, as in "
            "an identifier. Remove it, or put a measurement into bins: "
            f"`--bins {name}=LOW:HIGH:10`."
        )
    raise InputError(
        f"column {name!r} must have at most 20 different numbers to be protected as it is, got "
        f"{column.n_distinct}. Put them into bins: `--bins {name}=LOW:HIGH:10`."
    )


def _numbers(series: pd.Series) -> NDArray[np.float64]:
    return series.to_numpy(dtype=np.float64, na_value=math.nan)


def _codes(series: pd.Series, domain: _Domain) -> NDArray[np.int64]:
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        of_category = domain.values.get_indexer(series.dtype.categories)
        codes = np.append(of_category, -1)[series.cat.codes.to_numpy()].astype(np.int64)
    else:
        answers = series if domain.bins is None else domain.bins.apply(_numbers(series))
        codes = domain.values.get_indexer(pd.Index(answers)).astype(np.int64)
    is_missing = series.isna().to_numpy(dtype=np.bool_)
    n_outside = int(np.count_nonzero((codes < 0) & ~is_missing))
    if n_outside:
        raise InputError(
            f"column {str(series.name)!r} must hold only the answers named in `categories`, but "
            f"{n_outside} of {len(series)} rows have another. Name every possible answer."
        )
    codes[is_missing] = len(domain.values)
    return codes


def _decode(codes: NDArray[np.int64], domain: _Domain, *, like: pd.Series) -> pd.Series:
    import pandas as pd

    positions = np.where(codes == len(domain.values), -1, codes)
    if isinstance(like.dtype, pd.CategoricalDtype):
        dtype = pd.CategoricalDtype(domain.values, ordered=like.dtype.ordered)
        return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype), index=like.index)
    if not domain.with_missing:
        return pd.Series(domain.values.take(positions), index=like.index, name=like.name)
    # Position -1 stands for no answer: reindexing makes it missing, and whole numbers and truths
    # need a type that knows "missing".
    values = pd.Series(domain.values)
    bits = 8 * getattr(values.dtype, "itemsize", 8)
    nullable = {"i": f"Int{bits}", "u": f"UInt{bits}", "b": "boolean"}
    kind = nullable.get(getattr(values.dtype, "kind", "O"))
    if kind is not None:
        values = values.astype(pd.api.types.pandas_dtype(kind))
    return pd.Series(values.reindex(positions).array, index=like.index, name=like.name)


def _leaks(domains: Mapping[str, _Domain], budget: Budget) -> list[str]:
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
