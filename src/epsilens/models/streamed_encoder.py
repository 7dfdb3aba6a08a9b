# SPDX-License-Identifier: Apache-2.0
"""The default model's encoder for a table that is too large for memory, fitted in one pass.

Categories are those that occur anywhere in the training rows, numbers are centred and scaled by the mean and
the variance of all of them: the same encoder that the table in memory would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from epsilens.data.columnar import frame_from_arrow
from epsilens.data.parquet_pieces import Piece
from epsilens.data.schema import Category, Column, Schema, plain_value
from epsilens.errors import InputError
from epsilens.models.default import default_estimator
from epsilens.models.passes import Part, PassProgress, added, current_passes, reduce_pass
from epsilens.models.streamed_records import Reading, plain_column

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["streamed_estimator"]

_MOST_CATEGORIES = 1000
_ROWS_TO_FIT = 100


@dataclass(frozen=True)
class _ColumnWork:
    """Moments of the numbers and the different words of a piece."""

    reading: Reading
    numbers: tuple[str, ...]
    words: tuple[str, ...]

    def __call__(self, piece: Piece) -> Part:
        total: Part = {}
        for _, table in self.reading.tables(piece):
            values = np.array(
                [plain_column(table, name).astype(np.float64) for name in self.numbers]
            ).reshape(len(self.numbers), -1)
            mean = values.mean(axis=1)
            spread = np.square(values - mean[:, None]).sum(axis=1)
            rising = (np.diff(values, axis=1) > 0).all(axis=1)
            edges = np.array([values[:, 0], values[:, -1]])
            low, high = values.min(axis=1), values.max(axis=1)
            part = {
                "moments": [(values.shape[1], mean, spread, low, high, rising, edges)],
                "words": [
                    {name: _different(plain_column(table, name), name) for name in self.words}
                ],
            }
            total = added(total, part)
        return total


def _different(
    values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], name: str
) -> set[Category]:
    found = {plain_value(value) for value in set(values.tolist())}
    if len(found) > _MOST_CATEGORIES:
        raise InputError(
            f"column {name!r} must have at most {_MOST_CATEGORIES} categories to be streamed, but it has "
            "more. Drop it, or join categories."
        )
    return found


def streamed_estimator(
    reading: Reading,
    *,
    model: Literal["logistic", "ridge"],
    regularisation: float | None = None,
    categorical: Sequence[str] = (),
    progress: PassProgress | None = None,
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
    work = _ColumnWork(reading, tuple(numbers), tuple(words))
    part = reduce_pass(current_passes(), work, reading.pieces, what="categories", progress=progress)
    if not part:
        raise InputError(f"the {reading.what} data must have at least one row, got 0.")
    described = {column.name: column for column in _described_numbers(numbers, part, reading)}
    scales = _merged(part)
    for name in words:
        found: set[Category] = set().union(*(one[name] for one in part["words"]))
        described[name] = _described_words(name, found)
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


def _merged(part: Part) -> tuple[int, np.ndarray, np.ndarray]:
    """Return number, means and sums of squares around them, pieces joined in their order."""
    n, mean, spread = part["moments"][0][:3]
    for more, its_mean, its_spread, *_ in part["moments"][1:]:
        apart = its_mean - mean
        spread = spread + its_spread + apart**2 * (n * more / (n + more))
        mean = mean + apart * (more / (n + more))
        n += more
    return n, mean, spread


def _described_numbers(numbers: list[str], part: Part, reading: Reading) -> list[Column]:
    from pyarrow import types

    moments = part["moments"]
    n_rows = sum(one[0] for one in moments)
    columns = []
    for place, name in enumerate(numbers):
        low, high = (
            min(one[3][place] for one in moments),
            max(one[4][place] for one in moments),
        )
        edges = [edge for one in moments for edge in one[6][:, place]]
        # Between batches too; a batch of one row meets itself.
        joined = all(a < b for a, b in zip(edges[1::2], edges[2::2], strict=False))
        rising = joined and all(one[5][place] for one in moments) and n_rows > 1
        column = Column(name, "numeric", 0, 0)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(
                f"column {name!r} must hold finite numbers, but some are missing (NaN) or infinite. "
                "Fill or drop them first, or read the table into memory."
            )
        if low == high:
            column = replace(
                column,
                kind="constant",
                note="left out: the same answer everywhere",
                encoding="left out",
            )
        elif rising and types.is_integer(reading.source.schema.field(name).type):
            column = replace(
                column,
                kind="identifier",
                note="left out: it rises from row to row, as a row's number does",
                encoding="left out",
            )
        columns.append(column)
    return columns


def _described_words(name: str, found: set[Category]) -> Column:
    if len({type(value) for value in found}) > 1:
        found = {float(value) for value in found}
    if len(found) > _MOST_CATEGORIES:
        _different(np.array(sorted(found), dtype=object), name)
    values = tuple(sorted(found))
    if len(values) < 2:
        note = "left out: the same answer everywhere"
        return Column(name, "constant", len(values), 0, note=note, encoding="left out")
    kind: Literal["binary", "categorical"] = "binary" if len(values) == 2 else "categorical"
    return Column(name, kind, len(values), 0, values, None, "one-hot", True)
