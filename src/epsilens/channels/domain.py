# SPDX-License-Identifier: Apache-2.0
"""The values among which a released answer hides: where they come from, and how they are written.

Nothing about the released column may depend on the true answers beyond its domain: not its type,
not its spelling, not the order of its categories.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens._validate import bins_for
from epsilens.data.binning import Bins
from epsilens.data.schema import (
    ALL_DIFFER,
    LARGEST_NUMERIC_DOMAIN,
    Category,
    DomainOrigin,
    infer_schema,
    is_date,
)
from epsilens.errors import InputError, phrase, setting

if TYPE_CHECKING:
    import pandas as pd


_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ANY_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 400
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class Domain:
    """The values among which the answers of a column hide.

    Parameters
    ----------
    values : pandas.Index
        The possible answers, in the type in which they are released.
    origin : {"given", "declared", "observed", "bins"}
        Where they came from.
    with_missing : bool
        Whether "no answer" is one of the answers.
    bins : Bins or None
        The bins of a number, with their bounds.
    texts : tuple of str or None
        The possible answers as the user typed them.
    dtype : pandas.CategoricalDtype or None
        The type of the released column, if it is one that declares its categories.
    """

    values: pd.Index = field(repr=False)
    origin: DomainOrigin
    with_missing: bool
    bins: Bins | None = None
    texts: tuple[str, ...] | None = field(default=None, repr=False)
    dtype: pd.CategoricalDtype | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """How many answers are possible, "no answer" included where it is one."""
        return len(self.values) + self.with_missing

    def codes(self, series: pd.Series) -> NDArray[np.int64]:
        """Return the position of every answer in the domain; a missing one comes last.

        Parameters
        ----------
        series : pandas.Series
            True answers.

        Returns
        -------
        array of int64
            0..size-1.

        Raises
        ------
        InputError
            If there are other answers; the message has their count, not their values.

        Examples
        --------
        >>> import pandas as pd
        >>> answers = pd.Series(["1", "01", "1.0"], name="a")
        >>> domain_of(answers, given=["1", "2"], bins=None, with_missing=False).codes(answers)
        array([0, 0, 0])
        """
        import pandas as pd

        if self.bins is not None:
            codes = self.values.get_indexer(pd.Index(self.bins.apply(floats_of(series))))
        else:
            # By type as well: 1 equals True, and nobody's answer may decide what another's means.
            find = lru_cache(maxsize=None, typed=True)(self._finder())
            # As an array: a short float is then written 0.1, not 0.10000000149.
            codes = np.array([find(answer) for answer in np.asarray(series)], dtype=np.int64)
        codes = codes.astype(np.int64)
        is_missing = series.isna().to_numpy(dtype=np.bool_)
        n_outside = int(np.count_nonzero((codes < 0) & ~is_missing))
        if n_outside:
            raise InputError(
                f"column {str(series.name)!r} must hold only the answers named in "
                f"{setting('categories')}, but {n_outside} of {len(series)} rows have another. "
                "Name every possible answer."
            )
        codes[is_missing] = len(self.values)
        return codes

    def _finder(self) -> Callable[[object], int]:
        if self.texts is not None:
            return finder_by_text(self.texts)
        positions = {value: position for position, value in enumerate(self.values)}
        return lambda answer: positions.get(answer, -1)

    def decode(self, codes: NDArray[np.int64], *, index: pd.Index, name: str) -> pd.Series:
        """Return reports as a column whose type follows from the domain alone.

        Parameters
        ----------
        codes : array of int64
            Positions in the domain.
        index : pandas.Index
            The labels of the rows.
        name : str
            The column's name.

        Returns
        -------
        pandas.Series
            Values of the domain; missing where the report is "no answer".

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> domain = Domain(pd.Index([1, 2]), "given", with_missing=True)
        >>> domain.decode(np.array([0, 1]), index=pd.RangeIndex(2), name="a").dtype
        Int64Dtype()
        """
        import pandas as pd

        positions = np.where(codes == len(self.values), -1, codes)
        if self.dtype is not None:
            return pd.Series(
                pd.Categorical.from_codes(positions, dtype=self.dtype), index=index, name=name
            )
        values = pd.Series(self.values)
        if self.with_missing:
            # Whole numbers and truths need a type that knows "missing".
            bits = 8 * getattr(values.dtype, "itemsize", 8)
            nullable = {"i": f"Int{bits}", "u": f"UInt{bits}", "b": "boolean"}
            kind = nullable.get(getattr(values.dtype, "kind", "O"))
            if kind is not None:
                values = values.astype(pd.api.types.pandas_dtype(kind))
            # Position -1 is no label of `values`: reindexing makes it missing.
            return pd.Series(values.reindex(positions).array, index=index, name=name)
        return pd.Series(values.take(positions).array, index=index, name=name)

    def decode_texts(self, codes: NDArray[np.int64], *, index: pd.Index) -> pd.Series | None:
        """Return reports as the user typed the answers, or None if nobody typed them.

        Parameters
        ----------
        codes : array of int64
            Positions in the domain.
        index : pandas.Index
            The labels of the rows.

        Returns
        -------
        pandas.Series or None
            Text; empty where the report is "no answer".

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> domain = Domain(pd.Index([1.0, 2.5]), "given", with_missing=True, texts=("1", "2.5"))
        >>> domain.decode_texts(np.array([0, 2]), index=pd.RangeIndex(2)).tolist()
        ['1', '']
        """
        import pandas as pd

        if self.texts is None:
            return None
        written = np.array([*self.texts, ""], dtype=object)
        return pd.Series(written[codes], index=index, dtype=object)


def domain_of(
    series: pd.Series, *, given: Sequence[str] | None, bins: Bins | None, with_missing: bool
) -> Domain:
    """Say among which values the answers of a column hide.

    Parameters
    ----------
    series : pandas.Series
        The true answers.
    given : sequence of str, optional
        The possible answers, as the user typed them.
    bins : Bins, optional
        The bins into which a number is put.
    with_missing : bool
        Whether "no answer" may be an answer. It always is one then, except in a domain that is
        taken from the data, which shows what occurs anyway.

    Returns
    -------
    Domain
        The given answers; or the bins; or the categories that the column's type declares, sorted
        unless they have an order of their own; or else the observed values, sorted.

    Raises
    ------
    InputError
        If the column cannot be protected as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> domain = domain_of(pd.Series([2, 1, 2]), given=None, bins=None, with_missing=False)
    >>> domain.values.tolist(), domain.origin
    ([1, 2], 'observed')
    """
    import pandas as pd

    name = str(series.name)
    occurs = with_missing and bool(series.isna().any())
    if bins is not None:
        is_number = pd.api.types.is_numeric_dtype(series.dtype)
        if not is_number or pd.api.types.is_bool_dtype(series.dtype):
            raise InputError(
                f"{setting('bins')} must name a numeric column, got {name!r}, which is not."
            )
        bounded = bins.bounded_by(floats_of(series))
        values = pd.Index(bounded.midpoints)
        if bins.low is None:
            return Domain(values, "observed", occurs, bounded)
        return Domain(values, "bins", with_missing, bounded)
    dtype = series.dtype if isinstance(series.dtype, pd.CategoricalDtype) else None
    if given is not None:
        domain = _given_domain(name, given, dtype, with_missing=with_missing)
    elif dtype is not None:
        values = dtype.categories if dtype.ordered else _sorted(dtype.categories)
        domain = Domain(
            values,
            "declared",
            with_missing,
            dtype=pd.CategoricalDtype(values, ordered=dtype.ordered),
        )
    else:
        _require_protectable(series)
        domain = Domain(_observed(series), "observed", occurs)
    if domain.size < 2:
        answers = phrase(
            "Name all of them with `categories`",
            command=f"Name all of them: {setting('categories', f'{name}=A|B')}",
            page="Tick “everybody may know” at the column",
        )
        raise InputError(
            f"column {name!r} must have at least two possible answers, got {domain.size}. "
            f"{answers}."
        )
    return domain


def _given_domain(
    name: str, given: Sequence[str], dtype: pd.CategoricalDtype | None, *, with_missing: bool
) -> Domain:
    import pandas as pd

    texts = tuple(str(text).strip() for text in given)
    values = pd.Index(typed_categories(texts))
    if values.has_duplicates or len(set(texts)) < len(texts) or "" in texts:
        raise InputError(
            f"{setting('categories')} of column {name!r} must be different answers, but one "
            "stands twice or is empty. Name each once."
        )
    if dtype is not None:
        dtype = pd.CategoricalDtype(values, ordered=dtype.ordered)
    return Domain(values, "given", with_missing, texts=texts, dtype=dtype)


def typed_categories(texts: Sequence[str]) -> list[Category]:
    """Give typed categories the type that all of them have: truths, whole numbers, numbers, words.

    The type follows from what was typed alone. Were it taken from the data, it would show
    whether somebody gave an unusual answer.

    Parameters
    ----------
    texts : sequence of str
        The possible answers. Codes with leading zeros are words.

    Returns
    -------
    list of bool, int, float or str
        In the same order.

    Examples
    --------
    >>> typed_categories(["1", "2"]), typed_categories(["1", "1.5"]), typed_categories(["1", "no"])
    ([1, 2], [1.0, 1.5], ['1', 'no'])
    """
    if all(text.lower() in _TRUTHS for text in texts):
        return [_TRUTHS[text.lower()] for text in texts]
    if all(_WHOLE.fullmatch(text) for text in texts):
        return [int(text) for text in texts]
    if all(_NUMBER.fullmatch(text) and math.isfinite(float(text)) for text in texts):
        return [float(text) for text in texts]
    return list(texts)


def finder_by_text(texts: Sequence[str]) -> Callable[[object], int]:
    """Return what finds the typed answer that a true answer means: as text, truth or number."""
    by_text = {text: position for position, text in enumerate(texts)}
    lower = Counter(text.lower() for text in texts)
    by_truth = {
        _TRUTHS[text.lower()]: position
        for position, text in enumerate(texts)
        if text.lower() in _TRUTHS and lower[text.lower()] == 1
    }
    numbers = [_number(text) for text in texts]
    often = Counter(numbers)
    # 01 and 1 may both be codes: then only the spelling tells them apart.
    by_number = {
        number: position
        for position, number in enumerate(numbers)
        if number is not None and often[number] == 1
    }

    def find(answer: object) -> int:
        if isinstance(answer, bool | np.bool_):
            return by_truth.get(bool(answer), -1)
        text = str(answer).strip()
        if text in by_text:
            return by_text[text]
        if text.lower() in _TRUTHS:
            return by_truth.get(_TRUTHS[text.lower()], -1)
        number = _number(text)
        return -1 if number is None else by_number.get(number, -1)

    return find


def _number(text: str) -> int | float | None:
    """Return the number that a text is; whole ones exactly, however long."""
    if len(text) > _LONGEST_NUMBER or not _ANY_NUMBER.fullmatch(text):
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else number


def _sorted(values: pd.Index) -> pd.Index:
    try:
        return values.sort_values()
    except TypeError:
        return values.take(np.argsort([str(value) for value in values], kind="stable"))


def _observed(series: pd.Series) -> pd.Index:
    """Return the different answers, sorted, in a type that does not tell whether one is missing."""
    import pandas as pd

    values = _sorted(pd.Index(series.dropna().unique())).infer_objects()
    plain = getattr(values.dtype, "numpy_dtype", None)
    is_number = pd.api.types.is_numeric_dtype(values.dtype)
    return values.astype(plain) if plain is not None and is_number else values


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
    is_measured = column.kind == "numeric" and column.n_distinct > LARGEST_NUMERIC_DOMAIN
    if not is_measured:
        answers = phrase(
            "name all answers with `categories`",
            command=f"name all answers with {setting('categories', f'{name}=A|B')}",
            page="tick “everybody may know” at the column",
        )
        raise InputError(
            f"column {name!r} must hold categories to be protected, but "
            f"{column.identifies or ALL_DIFFER}. Remove it, "
            f"{answers}, or put a measurement into bins: {bins_for(name)}."
        )
    raise InputError(
        f"column {name!r} must have at most {LARGEST_NUMERIC_DOMAIN} different numbers to be "
        f"protected as it is, got {column.n_distinct}. Put them into bins: {bins_for(name)}."
    )


def floats_of(series: pd.Series) -> FloatArray:
    """Return a column as floating-point numbers, a missing one as NaN."""
    return series.to_numpy(dtype=np.float64, na_value=math.nan)
