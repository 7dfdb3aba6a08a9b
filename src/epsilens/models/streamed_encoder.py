# SPDX-License-Identifier: Apache-2.0
"""The default model's encoder for a table that is too large for memory, fitted in one pass.

It is the encoder that the table in memory would give. Categories, constants and identifiers are those of
all rows of the file, also of rows that are set aside for testing. Means and variances of numbers are
those of the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, Progress, WordArray
from epsilens._validate import leave_out
from epsilens.data.columnar import frame_from_arrow
from epsilens.data.missing import LARGEST_DROPPED_SHARE, MissingPolicy, listed_counts
from epsilens.data.parquet_pieces import ParquetSource, Piece
from epsilens.data.schema import (
    NO_ANSWERS,
    Category,
    Column,
    Schema,
    ValueKind,
    Values,
    as_category,
    identifier_reason,
    is_date,
    is_identifier_name,
    left_out,
)
from epsilens.errors import InputError, setting
from epsilens.models.passes import Part, reduce_pass
from epsilens.models.scikit_learn import default_estimator
from epsilens.models.streamed_records import RowReading, absent, plain_column
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline


_MOST_CATEGORIES = 1000
_ROWS_TO_FIT = 100
_ROWS_TO_COMPARE = 1000
# Different values that are kept of a column to look for repeats, 8 bytes for each.
_MOST_COMPARED = 10_000_000


@dataclass(frozen=True)
class _ColumnWork:
    """Moments of the training numbers, and what differs among all rows of a piece."""

    reading: RowReading
    numbers: tuple[str, ...]
    words: tuple[str, ...]
    suspects: Mapping[str, ValueKind]
    """Columns that may be identifiers."""

    def __call__(self, piece: Piece) -> Part:
        total: Part = {}
        coin = self.reading.coin
        for positions, table in _all_rows(self.reading).tables(piece):
            columns = {name: plain_column(table, name) for name in (*self.numbers, *self.words)}
            values = np.empty((len(self.numbers), table.num_rows))
            for place, name in enumerate(self.numbers):
                values[place] = columns[name]
            trained = values if coin is None else values[:, coin.chosen(positions)]
            part = {
                "n_rows": table.num_rows,
                "moments": _moments(trained),
                "low": values.min(axis=1),
                "high": values.max(axis=1),
                "words": {
                    name: _few(frozenset(map(as_category, set(columns[name].tolist()))))
                    for name in self.words
                },
                "marks": {
                    name: _marks(
                        columns[name],
                        must_differ=kind != "text" and not is_identifier_name(name, kind),
                    )
                    for name, kind in self.suspects.items()
                },
            }
            total = _joined(total, part)
        return total


def _all_rows(reading: RowReading) -> RowReading:
    """Return the reading of the training rows together with those set aside from the same file."""
    return replace(reading, coin=None)


def _moments(values: FloatArray) -> list[tuple[int, FloatArray, FloatArray]]:
    """Return number, means and sums of squares around them; nothing for no rows."""
    if values.shape[1] == 0:
        return []
    mean = values.mean(axis=1)
    # What overflows is refused when all pieces are joined.
    with np.errstate(over="ignore", invalid="ignore"):
        return [(values.shape[1], mean, np.square(values - mean[:, None]).sum(axis=1))]


def _joined(left: Part, right: Part) -> Part:
    """Return two parts as one; marks that are not needed, or too many words, end the list."""
    if not left or not right:
        return left or right
    left["n_rows"] += right["n_rows"]
    left["moments"] += right["moments"]
    left["low"] = np.minimum(left["low"], right["low"])
    left["high"] = np.maximum(left["high"], right["high"])
    for name, words in right["words"].items():
        known = left["words"][name]
        left["words"][name] = None if known is None or words is None else _few(known | words)
    for name, marks in right["marks"].items():
        known = left["marks"][name]
        if known is None or marks is None:
            left["marks"][name] = None
        elif sum(map(len, known[1])) < _MOST_COMPARED:
            known[1].extend(marks[1])
            left["marks"][name] = known[0] + marks[0], known[1]
    return left


def _few(found: frozenset[Category]) -> frozenset[Category] | None:
    return found if len(found) <= _MOST_CATEGORIES else None


def _marks(values: NDArray[np.generic], *, must_differ: bool) -> tuple[int, list[WordArray]] | None:
    """Return the number of values, and 64 bits for every different one.

    None stands for a repeat in a column that is an identifier only if all its values differ.
    """
    from pandas import unique
    from pandas.util import hash_array

    first = values[:_ROWS_TO_COMPARE].tolist()
    if must_differ and len(set(first)) < len(first):
        return None
    different = unique(values)
    if must_differ and len(different) < len(values):
        return None
    return len(values), [hash_array(different, categorize=False)]


def streamed_estimator(
    reading: RowReading,
    *,
    model: Literal["logistic", "ridge"],
    regularisation: float | None = None,
    categorical: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[Pipeline, Schema]:
    """Return the default model with its encoder fitted, and the columns it knows.

    Parameters
    ----------
    reading : RowReading
        Settings for reading the training rows.
    model : {"logistic", "ridge"}
    regularisation : float, optional
    categorical : sequence of str
        Numeric columns whose numbers are codes.
    progress : callable, optional

    Returns
    -------
    Pipeline whose final step is not fitted, and Schema
    """
    numbers, words, suspects = _kinds(reading, categorical)
    part = reduce_pass(
        _ColumnWork(reading, tuple(numbers), tuple(words), suspects),
        reading.pieces,
        join=_joined,
        what="categories",
        progress=progress,
    )
    if not part or not part["moments"]:
        raise InputError(f"the {reading.what} data must have at least one row, got 0.")
    n_trained, mean, spread = _merged(part)
    described = {column.name: column for column in _described_numbers(numbers, part, spread)}
    first = _all_rows(reading).first_rows(_ROWS_TO_COMPARE).select(list(reading.features))
    sample = frame_from_arrow(first, name=reading.source.name)
    for name, kind in suspects.items():
        if is_date(sample[name]):
            raise _no_numbers_or_words(name)
        why = _identifier(name, kind, numbers, part, sample[name])
        if why is not None:
            described[name] = left_out(Column(name, "numeric", 0, 0), "identifier", why)
    for name in words:
        if name not in described:
            described[name] = _described_words(name, part["words"][name])
    schema = Schema(tuple(described[name] for name in reading.features), n_rows=part["n_rows"])
    pipeline = default_estimator(schema, model=model, regularisation=regularisation)
    encoder = pipeline[:-1]
    # Categories and scales are set by hand, so a few rows will do.
    first = reading.first_rows(_ROWS_TO_FIT).select(list(reading.features))
    encoder.fit(frame_from_arrow(first, name=reading.source.name))
    used = list(schema.encoded_as("number"))
    if used:
        scaler = encoder[0].named_transformers_["numbers"]
        places = [numbers.index(name) for name in used]
        scaler.mean_ = mean[places]
        scaler.var_ = spread[places] / n_trained
        # As scikit-learn does it: what is constant up to rounding is not scaled.
        rounding = n_trained * np.finfo(np.float64).eps
        is_constant = scaler.var_ <= rounding * scaler.var_ + (rounding * scaler.mean_) ** 2
        scaler.scale_ = np.where(is_constant, 1.0, np.sqrt(scaler.var_))
        scaler.n_samples_seen_ = n_trained
    return pipeline, schema


def _kinds(
    reading: RowReading, categorical: Sequence[str]
) -> tuple[list[str], list[str], dict[str, ValueKind]]:
    """Return the columns of numbers, those of words, and those that may be identifiers.

    Words and numbers may be identifiers, but for truths and codes.
    """
    from pyarrow import types

    numbers, words = [], []
    suspects: dict[str, ValueKind] = {}
    for name in reading.features:
        kind = reading.source.schema.field(name).type
        is_number = types.is_integer(kind) or types.is_floating(kind)
        is_text = types.is_string(kind) or types.is_large_string(kind)
        if is_number and name not in categorical:
            numbers.append(name)
        elif is_number or is_text or types.is_boolean(kind):
            words.append(name)
        else:
            raise _no_numbers_or_words(name)
        if name in categorical or types.is_boolean(kind):
            continue
        if types.is_integer(kind):
            suspects[name] = "whole number"
        elif is_text:
            suspects[name] = "text"
        elif is_identifier_name(name, "number"):
            suspects[name] = "number"
    return numbers, words, suspects


def _no_numbers_or_words(name: str) -> InputError:
    return InputError(
        f"column {name!r} must hold numbers or words to be streamed, but it holds dates or "
        "something else. Drop it, or turn it into numbers."
    )


def _merged(part: Part) -> tuple[int, FloatArray, FloatArray]:
    """Return number, means and sums of squares around them, pieces joined in their order."""
    n, mean, spread = part["moments"][0]
    for more, its_mean, its_spread in part["moments"][1:]:
        apart = its_mean - mean
        with np.errstate(over="ignore", invalid="ignore"):
            spread = spread + its_spread + apart**2 * (n * more / (n + more))
        mean = mean + apart * (more / (n + more))
        n += more
    return n, mean, spread


def _identifier(
    name: str, kind: ValueKind, numbers: list[str], part: Part, sample: pd.Series
) -> str | None:
    """Say why a column is left out as an identifier, if it is one."""
    if part["marks"][name] is None:
        return None
    n_compared, marks = part["marks"][name]
    n_different = len(np.unique(np.concatenate(marks)))
    values = Values(name, kind, n_different, n_compared)
    if kind == "text":
        first = Values.of_text(name, list(sample.unique()), n_compared)
        values = replace(first, n_distinct=n_different)
    elif kind == "whole number":
        place = numbers.index(name)
        n_possible = int(part["high"][place]) - int(part["low"][place]) + 1
        values = replace(values, n_possible=n_possible)
    where = "" if n_compared == part["n_rows"] else f" in the first {n_compared:,} rows"
    return identifier_reason(values, where=where)


def _described_numbers(numbers: list[str], part: Part, spread: FloatArray) -> list[Column]:
    columns = []
    for place, name in enumerate(numbers):
        low, high = part["low"][place], part["high"][place]
        column = Column(name, "numeric", 0, 0)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(
                f"column {name!r} must hold finite numbers, but some are missing (NaN) or infinite. "
                "Fill or drop them first, or read the table into memory."
            )
        if not np.isfinite(spread[place]):
            raise InputError(
                f"column {name!r} must hold numbers of a finite variance, but some are too large "
                f"for that. Fix them, or {leave_out('the column')}."
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


# --- Rows on disk with missing answers: counted in one pass over the columns that may have some ---


def settle_streamed(
    reading: RowReading,
    *,
    policy: MissingPolicy,
    where: str = "",
    progress: Progress | None = None,
) -> tuple[RowReading, list[Note]]:
    """Return a reading without the rows that lack an answer, and what was left out.

    A feature that nobody among the training rows has answered is left out itself, and costs no row.

    Parameters
    ----------
    reading : RowReading
    policy : {"auto", "error", "drop"}
        As in `settle_missing`.
    where : str
        Added to messages, for instance " of the test data".
    progress : callable, optional

    Returns
    -------
    reading : RowReading
    notes : list of Note

    Raises
    ------
    InputError
        If the policy forbids what would have to be done; the message has counts and choices.
    """
    columns = tuple(name for name in reading.own if reading.source.may_lack(name))
    if not columns:
        return reading, []
    part = reduce_pass(
        _MissingWork(reading.source, columns),
        reading.pieces,
        what="missing values",
        progress=progress,
    )
    n_lost, n_rows = int(part["lost"]), reading.source.n_rows
    found = {n: int(c) for n, c in zip(columns, part["counts"], strict=True) if c}
    if not found:
        return reading, []
    unanswered = [name for name in reading.features if found.get(name) == n_rows]
    if unanswered and reading.what == "training":
        answered = tuple(name for name in reading.features if name not in unanswered)
        if not answered:
            raise InputError(
                "at least one column must be left to learn from, got 0: none has any answer. Check that "
                "the table was saved completely."
            )
        rest, notes = settle_streamed(
            replace(reading, features=answered), policy=policy, where=where, progress=progress
        )
        left_out = [
            Note("column-left-out", f"{name}: left out: {NO_ANSWERS}", name) for name in unanswered
        ]
        return rest, [*notes, *left_out]
    listed = listed_counts(found)
    choice = leave_out("the columns with most of them", begins=n_lost == n_rows)
    if n_lost < n_rows:
        choice = f"Choose {setting('missing', 'drop')}, or {choice}"
    if policy == "error":
        raise InputError(
            f"missing values are not allowed ({setting('missing', 'error')}), but {n_lost} of "
            f"{n_rows} rows{where} have some ({listed}). {choice}."
        )
    if n_lost == n_rows or (policy != "drop" and n_lost > LARGEST_DROPPED_SHARE * n_rows):
        raise InputError(
            f"at most {LARGEST_DROPPED_SHARE:.0%} of the rows may have missing values, but {n_lost} of "
            f"{n_rows}{where} do ({listed}). {choice}."
        )
    said = f"{n_lost} of {n_rows} rows{where} were dropped for missing values ({listed})"
    return replace(reading, complete=tuple(found)), [Note("rows-dropped", said)]


@dataclass(frozen=True)
class _MissingWork:
    """How many rows of a piece lack each column, and any of them."""

    source: ParquetSource
    columns: tuple[str, ...]

    def __call__(self, piece: Piece) -> Part:
        counts, lost = np.zeros(len(self.columns), dtype=np.int64), 0
        for _, table in self.source.batches(piece, self.columns):
            masks = np.array([absent(table.column(name)) for name in self.columns])
            counts += masks.sum(axis=1)
            lost += int(masks.any(axis=0).sum())
        return {"counts": counts, "lost": np.array(lost)}
