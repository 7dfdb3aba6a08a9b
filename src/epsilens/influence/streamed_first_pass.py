# SPDX-License-Identifier: Apache-2.0
"""What must be known of a table before a model can be fitted to it: two passes, one of them short.

The first reads the label and the weights only: which classes there are, how many rows. The second gives the
columns' means and sizes, their products and the labels' pull, all at once: sums are taken in the
coordinates of a sample, where they lose no digits, and carried over to those of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import FloatArray, Progress
from epsilens.data.schema import LARGEST_NUMERIC_DOMAIN
from epsilens.errors import InputError, setting
from epsilens.models import Design, Loss, Problem
from epsilens.models.label import Label, refuse_missing, sorted_distinct
from epsilens.models.passes import Part, added, reduce_pass
from epsilens.models.scikit_learn import Specification
from epsilens.models.streamed_problem import StreamedProblem, TrainingRows
from epsilens.models.streamed_records import RowReading, StreamedRows, plain_column

_MOST_CLASSES = 1000
_SAMPLE_ROWS = 1 << 16
_SAMPLE_BYTES = 1 << 26
_SAMPLE_PLACES = 8
# Share of a table that is not large: a larger share would cost more than the passes that it saves.
_SAMPLE_SHARE = 1 / 4
_FEWEST_SAMPLED = 1 << 13


@dataclass(frozen=True, repr=False)
class LabelsSeen:
    """The labels of a table.

    Attributes
    ----------
    label : Label
        Distinct values only: `y` and `codes` have an entry for each.
    counts : array of int, shape (k,)
        How many rows have each; empty for a target without a domain.
    n_rows : int
    total_weight : float
    """

    label: Label
    counts: NDArray[np.int64]
    n_rows: int
    total_weight: float


@dataclass(frozen=True)
class _LabelWork:
    """Distinct labels of a piece, with how often each occurs, and the sum of its weights."""

    reading: RowReading

    def __call__(self, piece: object) -> Part:
        total: Part = {}
        for _, table in self.reading.tables(piece):  # type: ignore[arg-type]
            raw = plain_column(table, self.reading.label)
            refuse_missing(raw, what=self.reading.what)
            values, counts = distinct(raw)
            seen = dict(zip(values, counts.tolist(), strict=True))
            part = {
                "seen": [seen if len(seen) <= _MOST_CLASSES else None],
                "n_rows": len(raw),
                "weight": float(self.reading.weights(table).sum()),
            }
            total = added(total, part)
        return total


def distinct(raw: NDArray[np.generic]) -> tuple[list[object], NDArray[np.int64]]:
    """Return the distinct values of a column, sorted, and how often each occurs."""
    try:
        values, counts = np.unique(raw, return_counts=True)
    except TypeError:
        sorted_distinct(raw)  # says what is wrong with the labels
        raise
    return values.tolist(), counts.astype(np.int64)


def look_at_labels(
    reading: RowReading,
    *,
    specification: Specification,
    classes: tuple[object, ...] | None,
    progress: Progress | None,
) -> LabelsSeen:
    """Return the classes (or the distinct numbers) of the label, and how many rows there are.

    Parameters
    ----------
    reading : RowReading
    specification : Specification
        Specification of the model: a classifier, or not.
    classes : tuple, optional
        Those of an estimator that is fitted already.
    progress : callable, optional
    """
    narrow = replace(reading, features=(), transformers=None, schema=None, groups=())
    part = reduce_pass(_LabelWork(narrow), narrow.pieces, what="labels", progress=progress)
    if not part:
        raise InputError(f"the {reading.what} data must have at least one row, got 0.")
    seen: dict[object, int] | None = {}
    for one in part["seen"]:
        if one is None or seen is None or len(seen) > _MOST_CLASSES:
            seen = None
            break
        for value, count in one.items():
            seen[value] = seen.get(value, 0) + count
    if not part["weight"] > 0:
        raise InputError(f"{setting('sample_weight')} must not be 0 everywhere.")
    is_classifier = specification.is_classifier
    label, counts = _label(reading, seen, is_classifier=is_classifier, classes=classes)
    if specification.class_values is not None and label.n_classes == 2:
        label = label.with_values(specification.class_values)
    return LabelsSeen(label, counts, int(part["n_rows"]), float(part["weight"]))


def _label(
    reading: RowReading,
    seen: dict[object, int] | None,
    *,
    is_classifier: bool,
    classes: tuple[object, ...] | None,
) -> tuple[Label, NDArray[np.int64]]:
    none = np.zeros(0, dtype=np.int64)
    if is_classifier:
        if seen is None:
            raise InputError(
                f"the training labels must have at most {_MOST_CLASSES} classes, got more. Choose "
                "another label, or a regression."
            )
        if len(seen) < 2:
            raise InputError(
                "the training labels must have two classes, got 1. A model of one class has nothing "
                "to lose; choose another label."
            )
        domain = classes or tuple(sorted_distinct(_objects(list(seen))))
        if not set(seen) <= set(domain):
            raise InputError(
                f"the {reading.what} labels must be among the {len(domain)} classes of the training "
                "labels, but some are not. Check the label's spelling and type."
            )
        k = len(domain)
        counts = np.array([seen.get(value, 0) for value in domain], dtype=np.int64)
        codes = np.arange(k, dtype=np.int64)
        numbers = codes.astype(np.float64)
        label = Label(
            reading.label, numbers, domain, numbers, codes, origin="observed", n_classes=k
        )
        return label, counts
    if seen is None or not 2 <= len(seen) <= LARGEST_NUMERIC_DOMAIN:
        return Label(reading.label, np.zeros(0), None, None, None, origin="observed"), none
    if not all(isinstance(value, int | float) for value in seen):
        raise InputError(
            "the training labels of a regression must be numbers, got text. Use a classifier."
        )
    values = np.array(sorted(float(value) for value in seen))  # type: ignore[arg-type]
    by_value = {float(value): count for value, count in seen.items()}  # type: ignore[arg-type]
    counts = np.array([by_value[value] for value in values.tolist()], dtype=np.int64)
    codes = np.arange(len(values), dtype=np.int64)
    return (
        Label(reading.label, values, tuple(values.tolist()), values, codes, origin="observed"),
        counts,
    )


def _objects(values: list[object]) -> NDArray[np.generic]:
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and not kinds <= {str}:
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_sample(reading: RowReading, n_rows: int) -> StreamedRows:
    """Return some of the rows, from places all over the table, for a first look and a first fit."""
    pieces = reading.pieces
    places = np.unique(np.linspace(0, len(pieces) - 1, _SAMPLE_PLACES).round().astype(int))
    parts: list[StreamedRows] = []
    for place in places:
        n_read = 0
        for records in reading.records(pieces[place]):
            # A wide model gets fewer rows, but more than it has columns.
            p = records.features.shape[1]
            share = max(int(_SAMPLE_SHARE * n_rows), _FEWEST_SAMPLED)
            most = max(min(_SAMPLE_BYTES // (8 * p), share), 4 * p)
            enough = -(-min(_SAMPLE_ROWS, most) // len(places))
            kept = slice(enough - n_read)
            parts.append(
                StreamedRows(
                    records.features[kept],
                    records.y[kept],
                    records.codes[kept],
                    records.weights[kept],
                )
            )
            n_read += len(parts[-1].y)
            if n_read >= enough:
                break
    if not parts:
        raise InputError(f"the {reading.what} data must have at least one row, got 0.")
    stack = scipy.sparse.vstack if scipy.sparse.issparse(parts[0].features) else np.vstack
    return StreamedRows(
        features=stack([part.features for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        codes=np.concatenate([part.codes for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
    )


@dataclass(frozen=True, repr=False)
class Columns:
    """The columns of the whole table.

    Attributes
    ----------
    design : Design
        Without rows: offsets and scales.
    gram : array of shape (p, p)
        The mean of w xxᵀ in its coordinates, w of mean 1.
    linear : array of shape (K, p)
        The mean of w t(y) ⊗ x.
    """

    design: Design
    gram: FloatArray
    linear: FloatArray


def describe_columns(
    reading: RowReading,
    sample: StreamedRows,
    *,
    specification: Specification,
    loss: Loss,
    ridge: float,
    n_rows: int,
    weight_unit: float,
    progress: Progress | None,
) -> Columns:
    """Return offsets and scales by the rules of `Design`, and the sums that go with them: one pass.

    Parameters
    ----------
    reading : RowReading
    sample : StreamedRows
        In whose coordinates sums are taken.
    specification : Specification
    loss : Loss
    ridge : float
        The penalty of the mean objective.
    n_rows : int
    weight_unit : float
    progress : callable, optional
    """
    intercept, is_free = specification.intercept, not specification.intercept_is_penalised
    is_sparse = scipy.sparse.issparse(sample.features)
    rough = Design.from_features(
        sample.features, intercept=intercept, is_free=is_free, ridge=ridge
    ).without_rows()
    n_features = sample.features.shape[1]
    frame = Problem(rough, np.zeros(0), loss, np.zeros(rough.n_columns), looks_for_alike=False)
    rows = TrainingRows(reading, frame, intercept, weight_unit)
    part = StreamedProblem(rows, n_rows, progress).sum(_moments, join=_moments_join, what="columns")
    # From the sample's coordinates z to x = c + u z.
    first, second = part["first"] / n_rows, part["second"] / n_rows
    centre, unit = rough.offset[:n_features], rough.scale[:n_features]
    low, high = part["low"], part["high"]
    largest = np.maximum(np.abs(low), np.abs(high))
    if intercept is not None and is_free and not is_sparse:
        offset = centre + unit * first
        size = unit * np.sqrt(np.maximum(second - first**2, 0.0))
        constant = (low == high) | (size <= 8 * np.finfo(float).eps * largest)
        offset, size = np.where(constant, low, offset), np.where(constant, 0.0, size)
    else:
        offset = np.zeros(n_features)
        # Nothing was centred in the sample either, so the second moment is that of x/u.
        size = unit * np.sqrt(second)
    design = Design.scaled(offset, size, intercept=intercept, is_free=is_free, ridge=ridge)
    carry = np.zeros((design.n_columns, design.n_columns))
    place = np.arange(n_features)
    carry[place, place] = unit / design.scale[:n_features]
    if intercept is not None:
        at_one = intercept / rough.scale[-1]
        carry[place, -1] = (centre - offset) / design.scale[:n_features] / at_one
        carry[-1, -1] = intercept / design.scale[-1] / at_one
    gram = carry @ part["gram"] @ carry.T / n_rows
    linear = part["linear"].reshape(loss.n_outputs, -1) @ carry.T / n_rows
    return Columns(design, gram, linear)


def _moments(problem: Problem, records: StreamedRows) -> Part:
    features, n_features = records.features, records.features.shape[1]
    matrix = problem.design.matrix[:, :n_features]
    if isinstance(features, np.ndarray):
        low, high = features.min(axis=0), features.max(axis=0)
        first = matrix.sum(axis=0)
        second = np.einsum("ij,ij->j", matrix, matrix)
    else:
        low = high = np.zeros(n_features)
        first = np.asarray(matrix.sum(axis=0)).ravel()
        second = np.asarray(scipy.sparse.csr_array(matrix).power(2).sum(axis=0)).ravel()
    return {
        "low": low,
        "high": high,
        "first": first,
        "second": second,
        "gram": problem.design.gram(problem.weights),
        "linear": problem.linear_term(problem.loss.statistic(records.y)),
    }


def _moments_join(left: Part, right: Part) -> Part:
    if not left or not right:
        return left or right
    low = np.minimum(left.pop("low"), right.pop("low"))
    high = np.maximum(left.pop("high"), right.pop("high"))
    return {**added(left, right), "low": low, "high": high}
