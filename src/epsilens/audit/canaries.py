# SPDX-License-Identifier: Apache-2.0
"""Canaries: records made to be found again, each put among the data by a coin of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_count, as_positive
from epsilens.audit.coins import own_stream
from epsilens.errors import InputError, InputTypeError, setting

Columns: TypeAlias = tuple[NDArray[np.generic], ...]
"""The parts of a table: features alone, or features and labels, with one row per record."""
Dataset: TypeAlias = "NDArray[np.generic] | Columns"
"""What a mechanism is given: one array, or features and labels."""

_ROWS_AT_ONCE = 512
_HELD = 2.5
"""How many times over an audit holds numbers of the canaries' size: data set and score."""


@dataclass(frozen=True, eq=False)
class Canaries:
    """Records whose presence an audit tries to tell from a mechanism's output.

    Attributes
    ----------
    records : tuple of arrays
        The canaries, one row each: features alone, or features and labels.
    base : tuple of arrays or None
        The records that are always there.
    left_out : tuple of arrays or None
        What stands in a canary's place when it is not in; None: nothing does. With it the audit is
        about replacing a record, without it about adding or removing one.

    Examples
    --------
    >>> import numpy as np
    >>> canaries = own_canaries(np.eye(3))
    >>> canaries.dataset(np.array([True, False, True])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """

    records: Columns
    base: Columns | None = None
    left_out: Columns | None = None

    def __post_init__(self) -> None:
        lengths = {len(part) for part in self.records}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                "canaries must have the same number of rows in every part and at least one, got "
                f"{sorted(lengths)}."
            )
        for name, other in (("base", self.base), ("left_out", self.left_out)):
            if other is not None and [part.shape[1:] for part in other] != [
                part.shape[1:] for part in self.records
            ]:
                raise InputError(f"{setting(name)} must have the columns of the canaries.")
        if self.left_out is not None and len(self.left_out[0]) != self.n_canaries:
            raise InputError(f"{setting('left_out')} must have one row per canary.")

    @property
    def n_canaries(self) -> int:
        """How many canaries there are."""
        return len(self.records[0])

    @property
    def vectors(self) -> FloatArray:
        """The canaries' features as numbers, one row each; 32-bit numbers stay as they are."""
        features = self.records[0]
        if features.dtype.kind != "f":
            features = features.astype(np.float64)
        return cast("FloatArray", features)

    def dataset(self, included: BoolArray) -> Dataset:
        """Return the data with these canaries in: a copy, which a mechanism may change.

        Examples
        --------
        >>> import numpy as np
        >>> answer_pairs(4, k=2, random_state=0).dataset(np.ones(4, dtype=bool)).shape
        (4,)
        """
        parts = []
        for place, part in enumerate(self.records):
            always = part[:0] if self.base is None else self.base[place]
            if self.left_out is None:
                parts.append(_stacked(always, part, np.flatnonzero(included)))
            else:
                rows = part.copy()
                rows[~included] = self.left_out[place][~included]
                parts.append(np.concatenate([always, rows]))
        return parts[0] if len(parts) == 1 else tuple(parts)


def random_unit_vectors(
    n_canaries: int,
    dimension: int,
    *,
    norm: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> Canaries:
    """Make canaries that point into random directions, as P3 does.

    Parameters
    ----------
    n_canaries, dimension : int, at least 1
        How many, and in how many dimensions.
    norm : float, greater than 0
        Their length. Larger than a mechanism's clipping bound tests whether it really clips.
    random_state : None, int or numpy.random.Generator
        Where the directions come from.

    Returns
    -------
    Canaries
        Canaries of 32-bit numbers: 16,384 canaries in 10,000 dimensions take 0.66 GB. The data beside them
        are one vector of zeros.

    Examples
    --------
    >>> random_unit_vectors(5, 100, random_state=0).vectors.shape
    (5, 100)
    """
    as_count(n_canaries, name="n_canaries")
    as_count(dimension, name="dimension")
    require_memory(n_canaries, 4 * dimension)
    generator = own_stream(random_state, purpose="canaries")
    vectors = np.empty((n_canaries, dimension), dtype=np.float32)
    for first in range(0, n_canaries, _ROWS_AT_ONCE):
        block = vectors[first : first + _ROWS_AT_ONCE]
        generator.standard_normal(out=block, dtype=np.float32)
        block *= (as_positive(norm, name="norm") / np.linalg.norm(block, axis=1))[:, None]
    return Canaries((vectors,), base=(np.zeros((1, dimension), dtype=np.float32),))


def one_hot_directions(
    n_canaries: int, dimension: int | None = None, *, norm: float = 1.0
) -> Canaries:
    """Make canaries with a direction of their own each, so that none hides another.

    Parameters
    ----------
    n_canaries : int, at least 1
        How many.
    dimension : int, at least `n_canaries`, optional
        As many as canaries by default.
    norm : float, greater than 0
        Their length.

    Returns
    -------
    Canaries
        Canary i is `norm` in coordinate i and 0 elsewhere.

    Raises
    ------
    InputError
        If there are fewer dimensions than canaries, or more than memory holds.

    Examples
    --------
    >>> one_hot_directions(2, 3).vectors.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    wide = as_count(n_canaries, name="n_canaries") if dimension is None else dimension
    if as_count(wide, name="dimension") < n_canaries:
        raise InputError(
            argument="dimension",
            expected=f"at least the number of canaries ({n_canaries}) for a direction each",
            got=str(wide),
            hint="Use fewer canaries or random directions.",
        )
    require_memory(n_canaries, 4 * wide)
    vectors = np.zeros((n_canaries, wide), dtype=np.float32)
    np.fill_diagonal(vectors, as_positive(norm, name="norm"))
    return Canaries((vectors,), base=(np.zeros((1, wide), dtype=np.float32),))


def mislabelled_records(
    features: ArrayLike,
    labels: ArrayLike,
    n_canaries: int,
    *,
    random_state: int | np.random.Generator | None = None,
) -> Canaries:
    """Take records from a table and give each a wrong label: a model must memorise them to fit.

    Parameters
    ----------
    features : array, (n, d)
        The table.
    labels : array, (n,)
        Its labels, of two kinds or more.
    n_canaries : int, below n
        How many records are taken; the others are always there.
    random_state : None, int or numpy.random.Generator
        Which ones, and which wrong label.

    Returns
    -------
    Canaries
        Features and labels.

    Raises
    ------
    InputError
        If features and labels do not fit each other, all labels are alike, or there are too few records.

    Examples
    --------
    >>> import numpy as np
    >>> canaries = mislabelled_records(np.eye(6), np.array([0, 1] * 3), 2, random_state=0)
    >>> canaries.n_canaries, canaries.base[0].shape
    (2, (4, 6))
    """
    table, given = np.asarray(features), np.asarray(labels)
    if given.ndim != 1 or len(table) != len(given):
        raise InputError(
            f"{setting('labels')} must have one entry per row of {setting('features')} "
            f"({len(table)}), got shape {given.shape}."
        )
    kinds, codes = np.unique(given, return_inverse=True)
    if kinds.size < 2:
        raise InputError(f"{setting('labels')} must have two different values or more, got one.")
    if as_count(n_canaries, name="n_canaries") >= len(given):
        raise InputError(
            argument="n_canaries",
            expected=f"below the number of records ({len(given)})",
            got=str(n_canaries),
        )
    generator = own_stream(random_state, purpose="canaries")
    taken = np.zeros(len(given), dtype=np.bool_)
    taken[generator.choice(len(given), n_canaries, replace=False)] = True
    shift = generator.integers(1, kinds.size, size=n_canaries)
    wrong = kinds[(codes[taken] + shift) % kinds.size]
    return Canaries((table[taken], wrong), base=(table[~taken], given[~taken]))


def answer_pairs(
    n_canaries: int, *, k: int, random_state: int | np.random.Generator | None = None
) -> Canaries:
    """Make people with one of two answers each, for mechanisms that randomise answers.

    The coin decides which of the two is a person's true answer.

    Parameters
    ----------
    n_canaries : int, at least 1
        How many people.
    k : int, at least 2
        How many answers are possible.
    random_state : None, int or numpy.random.Generator
        Which two answers.

    Returns
    -------
    Canaries
        `records` has the answer of a canary that is in, `left_out` the other one.

    Examples
    --------
    >>> canaries = answer_pairs(5, k=3, random_state=0)
    >>> bool((canaries.records[0] != canaries.left_out[0]).all())
    True
    """
    as_count(k, name="k", least=2)
    require_memory(as_count(n_canaries, name="n_canaries"), 4 * 8)
    generator = own_stream(random_state, purpose="canaries")
    one = generator.integers(0, k, size=n_canaries)
    other = (one + generator.integers(1, k, size=n_canaries)) % k
    return Canaries((one,), left_out=(other,))


def own_canaries(
    records: ArrayLike | tuple[ArrayLike, ...],
    *,
    base: ArrayLike | tuple[ArrayLike, ...] | None = None,
    left_out: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> Canaries:
    """Use canaries of one's own making.

    Parameters
    ----------
    records : array or tuple of arrays
        The canaries, one row each: features alone, or (features, labels).
    base : array or tuple of arrays, optional
        The records that are always there.
    left_out : array or tuple of arrays, optional
        What stands in a canary's place when it is not in.

    Returns
    -------
    Canaries
        To be given to `OneRunAudit`.

    Examples
    --------
    >>> import numpy as np
    >>> own_canaries((np.eye(3), np.array([0, 1, 0]))).n_canaries
    3
    """
    return Canaries(
        _as_columns(records, "records") or (),
        base=_as_columns(base, "base"),
        left_out=_as_columns(left_out, "left_out"),
    )


def _stacked(
    first: NDArray[np.generic], part: NDArray[np.generic], chosen: NDArray[np.intp]
) -> NDArray[np.generic]:
    """Return some rows and below them the chosen ones of another array, copied once."""
    kind = np.result_type(first, part)
    if kind != part.dtype:
        return np.concatenate([first, part[chosen]])
    rows = np.empty((len(first) + chosen.size, *part.shape[1:]), dtype=kind)
    rows[: len(first)] = first
    np.take(part, chosen, axis=0, out=rows[len(first) :], mode="clip")  # "raise" would buffer it
    return rows


def require_memory(n_canaries: int, bytes_each: int) -> None:
    """Refuse canaries for which this machine has not enough memory, before it comes to a stop.

    Parameters
    ----------
    n_canaries : int
        How many.
    bytes_each : int
        What one of them takes.

    Raises
    ------
    InputError
        If an audit of them needs more than the machine has.

    Examples
    --------
    >>> require_memory(1000, 40_000)
    """
    needed = _HELD * n_canaries * bytes_each
    try:
        there = float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not a question that every system answers
        there = float(2**47)
    if needed > there:
        raise InputError(
            f"{setting('n_canaries')} must fit into memory: {n_canaries} canaries of this size "
            f"need about {needed / 1000000000.0:,.0f} GB and this machine has "
            f"{there / 1000000000.0:,.0f}. Use fewer canaries or fewer dimensions."
        )


def _as_columns(value: ArrayLike | tuple[ArrayLike, ...] | None, name: str) -> Columns | None:
    if value is None:
        return None
    parts = tuple(np.asarray(part) for part in (value if isinstance(value, tuple) else (value,)))
    if not parts or any(part.ndim == 0 or part.dtype == np.object_ for part in parts):
        raise InputTypeError(
            argument=name,
            expected="an array, or a tuple of arrays, with one row per record",
            hint="Encode text and mixed columns as numbers first.",
        )
    return parts
