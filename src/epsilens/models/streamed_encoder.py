# SPDX-License-Identifier: Apache-2.0
"""The default model's encoder for a table that is too large for memory, fitted in one pass.

Categories are those that occur anywhere in the training rows, numbers are centred and scaled by the mean and
the variance of all of them: the same encoder that the table in memory would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens.data.columnar import frame_from_arrow
from epsilens.data.identifiers import ValueKind, Values, identifier_reason
from epsilens.data.parquet_pieces import Piece
from epsilens.data.schema import Category, Column, Schema, as_category, left_out
from epsilens.errors import InputError
from epsilens.models.default import default_estimator
from epsilens.models.execution import Progress
from epsilens.models.passes import Part, current_passes, reduce_pass
from epsilens.models.streamed_records import Reading, plain_column

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.pipeline import Pipeline

__all__ = ["streamed_estimator"]

_MOST_CATEGORIES = 1000
_ROWS_TO_FIT = 100
# Rows among which a repeat is looked for: 8 bytes for each, in a column whose values differ so far.
_MOST_COMPARED = 10_000_000

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class _ColumnWork:
    """Moments of the numbers and the different words of a piece."""

    reading: Reading
    numbers: tuple[str, ...]
    words: tuple[str, ...]
    suspects: tuple[str, ...]
    """Columns that are left out if all their values differ."""

    def __call__(self, piece: Piece) -> Part:
        total: Part = {}
        for _, table in self.reading.tables(piece):
            values = np.array(
                [plain_column(table, name).astype(np.float64) for name in self.numbers]
            ).reshape(len(self.numbers), -1)
            mean = values.mean(axis=1)
            # What overflows is refused when all pieces are joined.
            with np.errstate(over="ignore", invalid="ignore"):
                spread = np.square(values - mean[:, None]).sum(axis=1)
            low, high = values.min(axis=1), values.max(axis=1)
            part = {
                "moments": [(values.shape[1], mean, spread, low, high)],
                "words": {name: _different(plain_column(table, name)) for name in self.words},
                "marks": {name: _marks(table, name) for name in self.suspects},
            }
            total = _joined(total, part)
        return total


def _joined(left: Part, right: Part) -> Part:
    """Return two parts as one; a repeated mark, or too many words, ends the list."""
    if not left or not right:
        return left or right
    left["moments"] += right["moments"]
    for name, words in right["words"].items():
        known = left["words"][name]
        left["words"][name] = None if known is None or words is None else _few(known | words)
    for name, marks in right["marks"].items():
        known = left["marks"][name]
        if known is None or marks is None:
            left["marks"][name] = None
        elif sum(map(len, known)) < _MOST_COMPARED:
            known.extend(marks)
    return left


def _different(
    values: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
) -> frozenset[Category] | None:
    return _few(frozenset(as_category(value) for value in set(values.tolist())))


def _few(found: frozenset[Category]) -> frozenset[Category] | None:
    return found if len(found) <= _MOST_CATEGORIES else None


def _marks(table: pa.Table, name: str) -> list[NDArray[np.uint64]] | None:
    """Return 64 bits for every value, equal for equal values; None if one stands twice."""
    from pandas.util import hash_array

    values = plain_column(table, name)
    first = values[:1000].tolist()
    if len(set(first)) < len(first):
        return None
    marks = hash_array(values, categorize=False)
    return [marks] if _all_differ([marks]) else None


def _all_differ(marks: list[NDArray[np.uint64]]) -> bool:
    ordered = np.sort(np.concatenate(marks))
    return not (ordered[1:] == ordered[:-1]).any()


def streamed_estimator(
    reading: Reading,
    *,
    model: Literal["logistic", "ridge"],
    regularisation: float | None = None,
    categorical: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[Pipeline, Schema]:
    """Return the default model with its encoder fitted, and the columns it knows.

    Parameters
    ----------
    reading : Reading
        Of the training rows.
    model : {"logistic", "ridge"}
    regularisation : float, optional
    categorical : sequence of str
        Numeric columns whose numbers are codes.
    progress : callable, optional

    Returns
    -------
    Pipeline whose final step is not fitted, and Schema
    """
    numbers, words = _kinds(reading, categorical)
    suspects = _suspects(reading, numbers, words, categorical)
    part = reduce_pass(
        current_passes(),
        _ColumnWork(reading, tuple(numbers), tuple(words), suspects),
        reading.pieces,
        join=_joined,
        what="categories",
        progress=progress,
    )
    if not part:
        raise InputError(f"the {reading.what} data must have at least one row, got 0.")
    scales = _merged(part)
    described = {column.name: column for column in _described_numbers(numbers, part, scales[2])}
    for name in suspects:
        why = _identifier(name, part["marks"][name], scales[0], is_number=name in numbers)
        if why is not None:
            described[name] = left_out(Column(name, "numeric", 0, 0), "identifier", why)
    for name in words:
        if name not in described:
            described[name] = _described_words(name, part["words"][name])
    schema = Schema(tuple(described[name] for name in reading.features), n_rows=scales[0])
    pipeline = default_estimator(schema, model=model, regularisation=regularisation)
    encoder = pipeline[:-1]
    # Categories and scales are set by hand, so a few rows will do.
    first = reading.first_rows(_ROWS_TO_FIT).select(list(reading.features))
    encoder.fit(frame_from_arrow(first, name=reading.source.name))
    used = list(schema.encoded_as("number"))
    if used:
        scaler = encoder[0].named_transformers_["numbers"]
        places = [numbers.index(name) for name in used]
        scaler.mean_ = scales[1][places]
        scaler.var_ = scales[2][places] / scales[0]
        scaler.scale_ = np.sqrt(scaler.var_)
        scaler.n_samples_seen_ = scales[0]
    return pipeline, schema


def _kinds(reading: Reading, categorical: Sequence[str]) -> tuple[list[str], list[str]]:
    from pyarrow import types

    numbers, words = [], []
    for name in reading.features:
        kind = reading.source.schema.field(name).type
        is_number = types.is_integer(kind) or types.is_floating(kind)
        is_text = types.is_string(kind) or types.is_large_string(kind)
        if is_number and name not in categorical:
            numbers.append(name)
        elif is_number or is_text or types.is_boolean(kind):
            words.append(name)
        else:
            raise InputError(
                f"column {name!r} must hold numbers or words to be streamed, but it holds dates or "
                "something else. Drop it, or turn it into numbers."
            )
    return numbers, words


def _merged(part: Part) -> tuple[int, FloatArray, FloatArray]:
    """Return number, means and sums of squares around them, pieces joined in their order."""
    n, mean, spread = part["moments"][0][:3]
    for more, its_mean, its_spread, *_ in part["moments"][1:]:
        apart = its_mean - mean
        with np.errstate(over="ignore", invalid="ignore"):
            spread = spread + its_spread + apart**2 * (n * more / (n + more))
        mean = mean + apart * (more / (n + more))
        n += more
    return n, mean, spread


def _suspects(
    reading: Reading, numbers: list[str], words: list[str], categorical: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of whole numbers and of words, but for codes: an identifier may be among them."""
    from pyarrow import types

    kinds = {name: reading.source.schema.field(name).type for name in (*numbers, *words)}
    whole = [name for name in numbers if types.is_integer(kinds[name])]
    texts = [
        name
        for name in words
        if name not in categorical
        and (types.is_string(kinds[name]) or types.is_large_string(kinds[name]))
    ]
    return (*whole, *texts)


def _identifier(
    name: str, marks: list[NDArray[np.uint64]] | None, n_rows: int, *, is_number: bool
) -> str | None:
    """Say why a column is left out, if all its values differ."""
    if marks is None or not _all_differ(marks):
        return None
    n_compared = sum(map(len, marks))
    where = "" if n_compared == n_rows else f" in the first {n_compared:,} rows"
    kind: ValueKind = "whole number" if is_number else "text"
    return identifier_reason(Values(name, kind, n_compared, n_compared), where=where)


def _described_numbers(numbers: list[str], part: Part, spread: FloatArray) -> list[Column]:
    moments = part["moments"]
    columns = []
    for place, name in enumerate(numbers):
        low, high = (
            min(one[3][place] for one in moments),
            max(one[4][place] for one in moments),
        )
        column = Column(name, "numeric", 0, 0)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(
                f"column {name!r} must hold finite numbers, but some are missing (NaN) or infinite. "
                "Fill or drop them first, or read the table into memory."
            )
        if not np.isfinite(spread[place]):
            raise InputError(
                f"column {name!r} must hold numbers of a finite variance, but some are too large for "
                "that. Mend them, or `--drop` the column."
            )
        if low == high:
            column = left_out(column, "constant", "the same answer everywhere")
        columns.append(column)
    return columns


def _described_words(name: str, found: frozenset[Category] | None) -> Column:
    if found is None:
        raise InputError(
            f"column {name!r} must have at most {_MOST_CATEGORIES} categories to be streamed, but it has "
            "more. Drop it, or join categories."
        )
    if len({type(value) for value in found}) > 1:
        found = frozenset(float(value) for value in found)
    values = tuple(sorted(found))
    if len(values) < 2:
        base = Column(name, "numeric", len(values), 0)
        return left_out(base, "constant", "the same answer everywhere")
    kind: Literal["binary", "categorical"] = "binary" if len(values) == 2 else "categorical"
    return Column(
        name,
        kind,
        len(values),
        n_missing=0,
        categories=values,
        encoding="one-hot",
        protectable=True,
    )
