# SPDX-License-Identifier: Apache-2.0
"""From a piece of a parquet table to checked arrays, in the same way at every pass.

What is needed for that (columns, classes, frozen transformers, groups, which rows are set aside) is a small
value that can be pickled; the rows themselves never leave the worker that reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.data.columnar import frame_from_arrow
from epsilens.data.encoding import as_model_input, check_categories
from epsilens.data.expressions import Expression
from epsilens.data.parquet_pieces import ParquetSource, Piece
from epsilens.data.schema import Schema
from epsilens.errors import InputError, setting
from epsilens.models.label import class_codes, numbers_of
from epsilens.models.scikit_learn import transform

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.pipeline import Pipeline


_ROWS_TO_LOOK_AT = 100


@dataclass(frozen=True)
class Coin:
    """Which rows are set aside for testing, decided by their position alone.

    Parameters
    ----------
    seed : int
    share : float in (0, 1)
        Share of the rows set aside, on average.
    aside : bool
        Whether the rows that are set aside are meant, or the others.

    Examples
    --------
    >>> int(Coin(0, 0.25, aside=True).chosen(np.arange(10_000)).sum())
    2569
    """

    seed: int
    share: float
    aside: bool

    def chosen(self, positions: NDArray[np.int64]) -> BoolArray:
        """Return which rows are meant, by their positions."""
        aside = uniform_at(positions, self.seed * 0xD1342543DE82EF95 + 1) < self.share
        return aside if self.aside else ~aside


def uniform_at(positions: NDArray[np.int64], key: int) -> FloatArray:
    """Return a number in [0, 1) for every position, the same whoever asks and in whatever order.

    For simulation only: splitmix64 is no cipher.

    Examples
    --------
    >>> import numpy as np
    >>> bool(uniform_at(np.arange(5), 1)[3] == uniform_at(np.array([3]), 1)[0])
    True
    """
    with np.errstate(over="ignore"):
        word = positions.astype(np.uint64)
        word += np.uint64(key % 2**64)
        word *= np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word ^= word >> np.uint64(31)
    number: FloatArray = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return number


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class StreamedRows:
    """Some rows as arrays.

    Attributes
    ----------
    features : array or CSR matrix of shape (c, n_features)
    y : array of shape (c,)
        As the loss sees it.
    codes : array of int, shape (c,)
        Labels as positions in the domain; all 0 if there is none.
    weights : array of shape (c,)
        Before any scaling.
    masks : tuple of arrays of bool, shape (c,)
        Who belongs to each group.
    piece : int
        The number of the piece that they come from.
    positions : array of int, shape (c,)
        Positions of these rows among all rows of the table.
    """

    features: FloatArray | scipy.sparse.csr_array
    y: FloatArray
    codes: NDArray[np.int64]
    weights: FloatArray
    masks: tuple[BoolArray, ...] = ()
    piece: int = 0
    positions: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def locked(self) -> StreamedRows:
        """Return these rows, whose arrays nobody can change from now on."""
        features = self.features
        numbers = features if isinstance(features, np.ndarray) else features.data
        for array in (numbers, self.y, self.codes, self.weights, *self.masks, self.positions):
            array.setflags(write=False)
        return self


@dataclass(frozen=True, repr=False)
class RowReading:
    """How rows are read.

    Attributes
    ----------
    source : ParquetSource
    features : tuple of str
        The columns to learn from, in order.
    label : str
    weight : str or None
    what : {"training", "test"}
        For messages.
    classes : tuple or None
        The label's classes in the user's own values; None for a regression.
    values : array of shape (k,) or None
        The domain as the loss sees it; None for a target without one.
    transformers : Pipeline or None
        Fitted and frozen; None: all columns are numbers.
    schema : Schema or None
        Schema of the default model's columns: what the encoder knows.
    groups : tuple of Expression or None
        None stands for everybody.
    coin : Coin or None
        Which rows belong; None: all.
    complete : tuple of str
        Columns in which some answers are missing; those rows do not belong either.
    width : int
        Numbers that the transformers make of a row; `with_width` finds out.
    own : tuple of str
        Features, label and weight.
    """

    source: ParquetSource
    features: tuple[str, ...]
    label: str
    weight: str | None
    what: str
    classes: tuple[object, ...] | None = None
    values: FloatArray | None = None
    transformers: Pipeline | None = None
    schema: Schema | None = None
    groups: tuple[Expression | None, ...] = ()
    coin: Coin | None = None
    complete: tuple[str, ...] = ()
    width: int = 0
    own: tuple[str, ...] = field(init=False, default=())
    _names: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        beside = {name for group in self.groups if group is not None for name in group.columns}
        weight = () if self.weight is None else (self.weight,)
        own = (*self.features, self.label, *weight)
        names = (*own, *sorted(beside), *self.complete)
        object.__setattr__(self, "own", own)
        object.__setattr__(self, "_names", tuple(dict.fromkeys(names)))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of the table."""
        return self.source.pieces

    def first_rows(self, n_rows: int) -> pa.Table:
        """Return a few rows of the beginning."""
        for piece in self.pieces:
            for _, table in self.tables(piece):
                return table.slice(0, n_rows)
        raise InputError(f"the {self.what} data must have at least one row, got 0.")

    def with_width(self) -> RowReading:
        """Return the same reading, which takes as many rows at a time as their encoded numbers allow."""
        if self.transformers is None:
            return self
        features = self.matrix(self.first_rows(_ROWS_TO_LOOK_AT))
        width = features.shape[1]
        if not isinstance(features, np.ndarray):
            # An entry and its place, and rows that are fuller than these.
            width = min(width, 4 * -(-features.nnz // features.shape[0]))
        return replace(self, width=width)

    def tables(self, piece: Piece) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
        """Yield the rows of a piece that belong, and where they stand, some at a time.

        Missing answers are refused.
        """
        source = self.source
        if self.transformers is not None:
            source = replace(source, width=self.width)
        for first, whole in source.batches(piece, self._names):
            table = whole
            positions = np.arange(first, first + whole.num_rows, dtype=np.int64)
            if self.coin is not None:
                chosen = self.coin.chosen(positions)
                table, positions = whole.filter(chosen), positions[chosen]
            if self.complete:
                lacking = [absent(table.column(name)) for name in self.complete]
                kept = ~np.logical_or.reduce(lacking)
                table, positions = table.filter(kept), positions[kept]
            if table.num_rows == 0:
                continue
            for name in self.own:
                if table.column(name).null_count:
                    raise InputError(
                        f"column {name!r} of the {self.what} data must have no missing values to be "
                        "streamed, but some are missing. Fill or drop them first, or read the table "
                        "into memory."
                    )
            yield positions, table

    def records(self, piece: Piece) -> Iterator[StreamedRows]:
        """Yield the rows of a piece as arrays, some at a time.

        A table that is no larger than one block is decoded and encoded once, not at every pass.
        """
        if not self._is_one_block:
            yield from self._read(piece)
            return
        if piece.first_row not in self._kept:
            self._kept[piece.first_row] = [rows.locked() for rows in self._read(piece)]
        else:
            self.source.check(piece)
        yield from self._kept[piece.first_row]

    @property
    def _is_one_block(self) -> bool:
        return self.source.fits_one_block(max(self.width, len(self._names)))

    @cached_property
    def _kept(self) -> dict[int, list[StreamedRows]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: rows never do."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}

    def _read(self, piece: Piece) -> Iterator[StreamedRows]:
        number = self.source.number_of(piece)
        for positions, table in self.tables(piece):
            y, codes = self.labels(table)
            yield StreamedRows(
                features=self.matrix(table),
                y=y,
                codes=codes,
                weights=self.weights(table),
                masks=self.masks(table),
                piece=number,
                positions=positions,
            )

    def matrix(self, table: pa.Table) -> FloatArray | scipy.sparse.csr_array:
        """Return the features that the linear model sees."""
        if self.transformers is None:
            matrix = np.empty((table.num_rows, len(self.features)))
            for place, name in enumerate(self.features):
                values = plain_column(table, name)
                if values.dtype.kind not in "biuf":
                    raise InputError(
                        f"the {self.what} features must be numbers, but column {name!r} is not. Put "
                        "a OneHotEncoder for it into a fitted Pipeline in front of the model."
                    )
                matrix[:, place] = values
            if not np.isfinite(matrix).all():
                raise InputError(
                    f"the {self.what} features must be finite, but some are missing (NaN) or "
                    "infinite. Impute or drop them first; nothing is filled in silently."
                )
            return matrix
        frame = frame_from_arrow(table.select(list(self.features)), name=self.source.name)
        if self.schema is not None:
            check_categories(self.schema, frame, what=f"{self.what} data")
            frame = as_model_input(frame, self.schema, {}, frame)
        return transform(self.transformers, frame, what=self.what)

    def labels(self, table: pa.Table) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the labels as the loss sees them, and as positions in the domain."""
        raw = plain_column(table, self.label)
        if self.classes is not None and self.values is not None:
            codes = class_codes(raw, self.classes, what=self.what)
            return self.values[codes], codes
        y = numbers_of(raw, what=self.what)
        if self.values is None:
            return y, np.zeros(len(y), dtype=np.int64)
        return y, np.searchsorted(self.values, y).astype(np.int64)

    def weights(self, table: pa.Table) -> FloatArray:
        """Return the rows' weights, 1 without any."""
        if self.weight is None:
            return np.ones(table.num_rows)
        raw = plain_column(table, self.weight)
        if raw.dtype.kind not in "iuf":
            raise InputError(
                f"{setting('weight')} must name a column of numbers, got {self.weight!r}, which "
                "is not."
            )
        weights = raw.astype(np.float64)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise InputError(
                f"weights must be finite and at least 0, but some in column {self.weight!r} are not. "
                "Fix or remove those rows."
            )
        return weights

    def masks(self, table: pa.Table) -> tuple[BoolArray, ...]:
        """Return who belongs to each group."""
        named = sorted({n for group in self.groups if group is not None for n in group.columns})
        frame = None
        if named:
            frame = frame_from_arrow(table.select(named), name=self.source.name)
        everybody = np.ones(table.num_rows, dtype=bool)
        return tuple(everybody if group is None else group.mask(frame) for group in self.groups)


def absent(column: pa.ChunkedArray) -> BoolArray:
    """Return which answers of a column are missing."""
    mask: BoolArray = column.is_null(nan_is_null=True).to_numpy()
    return mask


def plain_column(table: pa.Table, name: str) -> NDArray[np.generic]:
    """Return a column without missing values as an array: words as objects."""
    import pyarrow as pa

    column = table.column(name)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        values: NDArray[np.generic] = column.to_numpy()
        return values
    frame = frame_from_arrow(table.select([name]), name=name)
    return frame[name].to_numpy(dtype=object)
