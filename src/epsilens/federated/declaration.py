# SPDX-License-Identifier: Apache-2.0
"""The contract of a federation: which columns, which answers are possible, what is protected.

It is public and agreed before anybody looks at data. Every site checks its own file against it, so no
category, no scale and no bound ever comes from the records of a site.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_finite, as_positive, require_unique
from epsilens.errors import InputError, InputTypeError
from epsilens.models.design import Design
from epsilens.models.problem import LogisticLoss, Loss, SoftmaxLoss

if TYPE_CHECKING:
    import pandas as pd


Encoding: TypeAlias = Literal["one-hot", "code", "number"]

_ENCODINGS = ("one-hot", "code", "number")
LARGEST_SCHEMA_FILE = 10 * 2**20
DEFAULT_LIMIT = 1000.0
"""Limit of numbers whose contract says nothing else, in units of their scale."""


@dataclass(frozen=True)
class DeclaredColumn:
    """What everybody may know of a column before seeing a record.

    Parameters
    ----------
    name : str
        As it stands in every site's file.
    categories : tuple of str, optional
        Every possible answer, as text; without it the column holds numbers.
    encoding : {"one-hot", "code", "number"}
        How the model sees it: an indicator for every answer but the first; the position of the answer
        in the list; the number itself.
    centre, scale : float
        What is subtracted from a code or a number, and what it is then divided by.
    limit : float, optional
        How far a number may be from the centre, in units of `scale`: secure aggregation refuses sums
        that others beyond it lead to. None: 1,000.

    Examples
    --------
    >>> DeclaredColumn("sex", ("f", "m")).width, DeclaredColumn("age", encoding="number").width
    (1, 1)
    """

    name: str
    categories: tuple[str, ...] | None = None
    encoding: Encoding = "one-hot"
    centre: float = 0.0
    scale: float = 1.0
    limit: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputTypeError("a declared column must have a name, got none.")
        if self.encoding not in _ENCODINGS:
            raise InputError(
                f"`encoding` of column {self.name!r} must be one of {', '.join(_ENCODINGS)}, "
                f"got {self.encoding!r}."
            )
        if (self.categories is None) != (self.encoding == "number"):
            raise InputError(
                f"column {self.name!r} must either name its `categories` or have the encoding "
                "`number`. Declare one of the two."
            )
        as_finite(self.centre, name=f"centre of column {self.name}")
        as_positive(self.scale, name=f"scale of column {self.name}")
        if self.limit is not None:
            as_positive(self.limit, name=f"limit of column {self.name}")
            if self.encoding != "number":
                raise InputError(
                    f"`limit` is for numbers, and column {self.name!r} has categories. Leave it out."
                )
        if self.categories is not None:
            texts = tuple(str(text).strip() for text in self.categories)
            if len(texts) < 2 or len(set(texts)) < len(texts) or "" in texts:
                raise InputError(
                    f"`categories` of column {self.name!r} must be at least two different answers. "
                    "Name each possible answer once."
                )
            object.__setattr__(self, "categories", texts)

    @property
    def size(self) -> int:
        """How many answers are possible; 0 for a number."""
        return 0 if self.categories is None else len(self.categories)

    @property
    def width(self) -> int:
        """How many columns of the design it fills."""
        return self.size - 1 if self.encoding == "one-hot" else 1

    @property
    def largest_feature(self) -> float:
        """The largest absolute value that the model may see."""
        if self.encoding == "one-hot":
            return 1.0
        if self.encoding == "number":
            return DEFAULT_LIMIT if self.limit is None else self.limit
        return max(abs(self.centre), abs(self.size - 1 - self.centre)) / self.scale

    def features(self, values: NDArray[np.int64] | FloatArray) -> FloatArray:
        """Return the columns of the design for codes or numbers (n,): (n, width)."""
        if self.encoding == "one-hot":
            return np.asarray(values[:, None] == np.arange(1, self.size), dtype=np.float64)
        return np.asarray((values - self.centre) / self.scale, dtype=np.float64)[:, None]

    def to_dict(self) -> dict[str, object]:
        """Return the column for JSON."""
        found: dict[str, object] = {
            "name": self.name,
            "categories": None if self.categories is None else list(self.categories),
            "encoding": self.encoding,
            "centre": self.centre,
            "scale": self.scale,
        }
        return found if self.limit is None else {**found, "limit": self.limit}


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Records:
    """Checked records of one site: codes of the declared answers, and numbers.

    Parameters
    ----------
    codes : array of int64, shape (n, columns with categories)
        In the order of the schema, the label last.
    numbers : array of float64, shape (n, columns with numbers)
    """

    codes: NDArray[np.int64]
    numbers: FloatArray

    @property
    def n(self) -> int:
        """How many records."""
        return len(self.codes)

    def with_codes(self, columns: Sequence[int], codes: NDArray[np.int64]) -> Records:
        """Return the records with some columns of codes replaced."""
        changed = self.codes.copy()
        changed[:, list(columns)] = codes
        return Records(changed, self.numbers)

    def take(self, rows: NDArray[np.intp] | BoolArray | slice) -> Records:
        """Return some of the records."""
        return Records(self.codes[rows], self.numbers[rows])


@dataclass(frozen=True)
class FederationSchema:
    """Columns, label and protected columns, as all parties have agreed on them.

    Parameters
    ----------
    columns : tuple of DeclaredColumn
        The features.
    label : DeclaredColumn
        What is predicted: a column with categories.
    protected : tuple of str
        The columns that are randomised, the label or features with categories.
    intercept : bool
        Whether the model has one; it is never penalised.

    Examples
    --------
    >>> schema = FederationSchema(
    ...     columns=(DeclaredColumn("sex", ("f", "m")), DeclaredColumn("age", encoding="number")),
    ...     label=DeclaredColumn("smokes", ("no", "yes")), protected=("smokes", "sex"))
    >>> schema.n_parameters, schema.loss.name, schema.sizes
    (3, 'logistic', {'smokes': 2, 'sex': 2})
    """

    columns: tuple[DeclaredColumn, ...]
    label: DeclaredColumn
    protected: tuple[str, ...]
    intercept: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "protected", tuple(self.protected))
        require_unique([c.name for c in (*self.columns, self.label)], what="declared columns")
        require_unique(self.protected, what="protected columns")
        if not self.columns:
            raise InputError("a schema must have at least one column beside the label, got none.")
        if self.label.categories is None:
            raise InputError(
                f"the label {self.label.name!r} must have `categories`. A federation predicts one of "
                "several answers."
            )
        coded = {c.name for c in self._coded}
        for name in self.protected:
            if name not in coded:
                raise InputError(
                    f"a protected column must be declared with its `categories`, but {name!r} is not. "
                    "Declare every possible answer, for numbers the middles of bins."
                )
        if not self.protected:
            raise InputError("a schema must name at least one protected column, got none.")

    @property
    def _coded(self) -> tuple[DeclaredColumn, ...]:
        return (*(c for c in self.columns if c.categories is not None), self.label)

    @property
    def _numeric(self) -> tuple[DeclaredColumn, ...]:
        return tuple(c for c in self.columns if c.categories is None)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The place of each column with categories among the codes."""
        return {column.name: place for place, column in enumerate(self._coded)}

    @property
    def sizes(self) -> dict[str, int]:
        """How many answers each protected column has."""
        coded = {c.name: c for c in self._coded}
        return {name: coded[name].size for name in self.protected}

    @property
    def n_features(self) -> int:
        """Columns of the design, the intercept included."""
        return sum(c.width for c in self.columns) + self.intercept

    @property
    def loss(self) -> Loss:
        """Logistic for two answers (one logit, never two outputs that move together), else softmax."""
        return LogisticLoss() if self.label.size == 2 else SoftmaxLoss(self.label.size)

    @property
    def n_parameters(self) -> int:
        """Coefficients of the model."""
        return self.n_features * self.loss.n_outputs

    @property
    def fingerprint(self) -> str:
        """A hash of the whole contract: two parties with the same one mean the same columns."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    # --- Records ---

    def encode(self, frame: pd.DataFrame) -> Records:
        """Check a table against the contract and return its records as codes and numbers.

        Raises
        ------
        InputError
            If a column is missing, an answer was not declared, or a value is missing; the message has
            counts, never values.

        Examples
        --------
        >>> import pandas as pd
        >>> schema = FederationSchema((DeclaredColumn("age", encoding="number"),),
        ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
        >>> schema.encode(pd.DataFrame({"age": [31, 42], "smokes": ["yes", "no"]})).codes.tolist()
        [[1], [0]]
        """
        from epsilens.channels.domain import domain_of

        require_unique([str(name) for name in frame.columns], what="columns of the table")
        columns: dict[str, NDArray[np.int64] | FloatArray] = {}
        for column in (*self.columns, self.label):
            if column.name not in frame.columns:
                raise InputError(
                    f"the table must have the declared column {column.name!r}, but has not. Check the "
                    "schema and the delimiter."
                )
            series = frame[column.name]
            n_missing = int(series.isna().sum())
            if n_missing:
                raise InputError(
                    f"column {column.name!r} must have no missing values, got {n_missing}. Leave those "
                    "rows out, or declare a category for them and fill it in."
                )
            if column.categories is None:
                columns[column.name] = _numbers(series)
                continue
            domain = domain_of(series, given=column.categories, bins=None, with_missing=False)
            columns[column.name] = domain.codes(series)
        if not len(frame):
            raise InputError("a site must have at least one record, got a table without rows.")
        codes = np.column_stack([columns[c.name] for c in self._coded]).astype(np.int64)
        numbers = np.empty((len(frame), len(self._numeric)))
        for place, column in enumerate(self._numeric):
            numbers[:, place] = columns[column.name]
        return Records(codes, numbers)

    def labels(self, records: Records) -> FloatArray:
        """Return the codes of the label as floats, as the losses want them: (n,)."""
        return records.codes[:, -1].astype(np.float64)

    def design(self, records: Records) -> Design:
        """Return the features of the records, the intercept last."""
        matrix = np.empty((records.n, self.n_features))
        start = coded = numeric = 0
        for column in self.columns:
            if column.categories is None:
                values: NDArray[np.int64] | FloatArray = records.numbers[:, numeric]
                numeric += 1
            else:
                values = records.codes[:, coded]
                coded += 1
            matrix[:, start : start + column.width] = column.features(values)
            start += column.width
        if self.intercept:
            matrix[:, -1] = 1.0
        p = self.n_features
        return Design(matrix, np.ones(p), np.arange(p), np.zeros(p))

    # --- As a file ---

    def to_dict(self) -> dict[str, object]:
        """Return the contract for JSON."""
        return {
            "columns": [column.to_dict() for column in self.columns],
            "label": self.label.to_dict(),
            "protected": list(self.protected),
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, object]) -> FederationSchema:
        """Return the contract that a mapping, such as a JSON file, describes.

        Examples
        --------
        >>> schema = FederationSchema((DeclaredColumn("age", encoding="number"),),
        ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
        >>> FederationSchema.from_dict(schema.to_dict()) == schema
        True
        """
        known = {"columns", "label", "protected", "intercept"}
        if not isinstance(given, Mapping) or not set(given) <= known or "label" not in given:
            raise InputError(
                "a schema must be an object with columns, label, protected and, if wanted, intercept."
            )
        columns, protected = given.get("columns"), given.get("protected")
        if not isinstance(columns, list) or not isinstance(protected, list):
            raise InputError("`columns` and `protected` of a schema must be lists.")
        intercept = given.get("intercept", True)
        if not isinstance(intercept, bool):
            raise InputTypeError("`intercept` of a schema must be true or false.")
        return cls(
            columns=tuple(_column(column) for column in columns),
            label=_column(given["label"]),
            protected=tuple(str(name) for name in protected),
            intercept=intercept,
        )

    @classmethod
    def read(cls, path: str | Path) -> FederationSchema:
        """Read the contract from a JSON file."""
        try:
            if Path(path).stat().st_size > LARGEST_SCHEMA_FILE:
                raise InputError("a schema file must be smaller than 10 MB, got more.")
            given = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"the schema must be a readable JSON file, got {type(error).__name__}. Write one with "
                "`epsilens federate schema`."
            ) from None
        return cls.from_dict(given)


def _column(given: object) -> DeclaredColumn:
    known = set(DeclaredColumn.__dataclass_fields__)
    if not isinstance(given, Mapping) or not set(given) <= known or "name" not in given:
        raise InputError(
            "a column of a schema must be an object with name and, if wanted, categories, encoding, "
            "centre, scale and limit."
        )
    categories = given.get("categories")
    if categories is not None and not isinstance(categories, list | tuple):
        raise InputError(f"`categories` of column {given['name']!r} must be a list.")
    kept = {key: value for key, value in given.items() if key != "categories"}
    if categories is None:
        kept.setdefault("encoding", "number")
    texts = None if categories is None else tuple(str(text) for text in categories)
    return DeclaredColumn(categories=texts, **kept)


def _numbers(series: pd.Series) -> FloatArray:
    from epsilens.channels.domain import floats_of

    try:
        numbers = floats_of(series)
    except (TypeError, ValueError):
        raise InputError(
            f"column {str(series.name)!r} was declared as a number, but holds something else. Declare "
            "its categories."
        ) from None
    n_wild = int(np.count_nonzero(~np.isfinite(numbers)))
    if n_wild:
        raise InputError(
            f"column {str(series.name)!r} must hold finite numbers, but {n_wild} of {len(numbers)} "
            "rows do not. Leave them out."
        )
    return numbers
