# SPDX-License-Identifier: Apache-2.0
r"""From a table and what is declared of it to the rows that a private model is trained on.

The claim of a private model covers all that its file carries. Every step that could look at the data
is one of three kinds: it follows from the declaration, it looks at columns that are not protected, or it
is refused. With `protects="record"` every column is protected.

===============================  ==========================================================================
step                             why the claim covers it
===============================  ==========================================================================
delimiter, encoding              of the header line and UTF-8, or declared (`read_fields`)
columns, their order and kinds   names are public; a protected column is what its declaration says, others
                                 are described without looking at protected ones
categories                       declared; an answer that is none of them is encoded by zeros
means, scales, bounds            (x − middle)/(half width/√3) of the declared range, cut to it
missing values, words in a       the middle of the range, or zeros; of unprotected columns as
column of numbers                `missing` says, which leaves out rows by unprotected columns only
identifiers, constant columns    looked for among unprotected columns only; a declared column stays
rare categories                  never joined
classes of the label             declared; a missing or undeclared label counts as the first class. In a
                                 simulation of answers alone, which claims nothing, they may be observed,
                                 with a warning; then a missing label is refused
range of a number to predict     declared; a missing or unreadable one counts as the middle
number of rows                   public: neighbouring tables have equally many
refusals, messages, exit codes   follow from the declaration, the header, the number of rows and
                                 unprotected columns
===============================  ==========================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import require_column
from epsilens.channels.domain import typed_categories
from epsilens.data.binning import Bins
from epsilens.data.missing import MissingPolicy, settle_missing
from epsilens.data.parts import OTHER, read_labels
from epsilens.data.prepare import FEWEST_TRAINING_ROWS, observed_domain
from epsilens.data.schema import Category, infer_schema
from epsilens.errors import InputError, PrivacyLeakWarning, phrase, setting
from epsilens.models.table_encoder import (
    CategoryColumn,
    EncodedColumn,
    NumberColumn,
    category_codes,
    learnt_columns,
)
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What is known of a table without looking at its protected columns.

    Attributes
    ----------
    label : str
    protected : frozenset of str
        Names of the protected columns, the label among them.
    categories : mapping of str to sequence of str
        Possible answers, as typed.
    ranges : mapping of str to NumberColumn
    bins : mapping of str to Bins
    drop, categorical : tuple of str
    positive : str or None
        The label's value that counts as yes; all others are one class.
    missing : str
        What to do with missing values of unprotected columns.
    is_number : bool
        Whether the label is a number.
    """

    label: str
    protected: frozenset[str]
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranges: Mapping[str, NumberColumn] = field(default_factory=dict)
    bins: Mapping[str, Bins] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    positive: str | None = None
    missing: MissingPolicy = "auto"
    is_number: bool = False

    def check(self, names: Sequence[str]) -> None:
        """Refuse names that the table does not have, and columns that are declared twice."""
        given = {
            "label": [self.label],
            "protect": sorted(self.protected),
            "drop": self.drop,
            "categories": self.categories,
            "ranges": self.ranges,
            "bins": self.bins,
            "categorical": self.categorical,
        }
        for argument, columns in given.items():
            for name in columns:
                require_column(name, names, argument=argument)
        for name in self.drop:
            if name in self.protected and (name == self.label or len(self.protected) < len(names)):
                raise InputError(
                    f"{setting('drop')} must name columns that the model can do without, got {name!r}. "
                    "Leave it out of one of the two."
                )
        twice = [
            name
            for name in names
            if sum(name in one for one in (self.categories, self.ranges, self.bins)) > 1
        ]
        if twice:
            raise InputError(
                f"column {twice[0]!r} must be declared once: by {setting('categories')}, "
                f"{setting('ranges')} or {setting('bins')}."
            )
        if self.is_number and (self.label in self.categories or self.positive is not None):
            raise InputError(
                f"the label of {setting('model', 'ridge')} is a number: declare its "
                f"{setting('ranges')}, not its categories."
            )
        if not self.is_number and (self.label in self.ranges or self.label in self.bins):
            raise InputError(
                f"the label {self.label!r} is a class: declare its {setting('categories')}, not its range."
            )

    def undeclared(self, names: Sequence[str]) -> list[str]:
        """Return the protected columns of which it is not known what they can hold."""
        return [
            name
            for name in names
            if name in self.protected
            and name not in self.drop
            and not (name == self.label and self.positive is not None)
            and name not in self.categories
            and name not in self.ranges
            and self.column(name) is None
        ]

    def column(self, name: str) -> EncodedColumn | None:
        """Return the declared encoding of a column; None: it is not declared."""
        if name in self.ranges:
            return self.ranges[name]
        if name in self.categories:
            return CategoryColumn(name, _typed(name, self.categories[name]))
        bins = self.bins.get(name)
        if bins is not None and bins.low is not None and bins.high is not None:
            return NumberColumn.of_range(name, bins.low, bins.high, n_bins=bins.n_bins)
        return None


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class TrainingRows:
    """What a private model is trained on.

    Attributes
    ----------
    frame : pandas.DataFrame
        The features.
    columns : tuple of EncodedColumn
        How they are encoded.
    target : array of shape (n,)
        Classes, or numbers cut to their range.
    classes : tuple
        Possible classes in sorted order; empty for a number.
    notes : tuple of Note
        What was left out, all of unprotected columns.
    """

    frame: pd.DataFrame
    columns: tuple[EncodedColumn, ...]
    target: np.ndarray
    classes: tuple[Category, ...]
    notes: tuple[Note, ...]


def training_rows(
    frame: pd.DataFrame,
    written: pd.DataFrame,
    declaration: Declaration,
    *,
    decimal_comma: bool,
) -> TrainingRows:
    """Return features, their encoding and the target.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with columns of the types they seem to have. Protected columns are not read from it,
        but for a label whose classes are not declared.
    written : pandas.DataFrame
        The same table as it is written; `frame` itself where a file declares its types.
    declaration : Declaration
    decimal_comma : bool
        Whether 1,5 is a number.

    Raises
    ------
    InputError
        One line that depends on declarations, names, the number of rows and unprotected columns only.

    Warns
    -----
    PrivacyLeakWarning
        If the classes of the label are taken from the data.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": ["30", "old"] * 5, "smokes": ["no", "?"] * 5})
    >>> rows = training_rows(table, table, Declaration(
    ...     label="smokes", protected=frozenset({"smokes", "age"}),
    ...     categories={"smokes": ["no", "yes"]}, ranges={"age": NumberColumn.of_range("age", 20.0, 80.0)},
    ... ), decimal_comma=False)
    >>> rows.target.tolist()[:2], rows.classes, rows.frame["age"].tolist()[:2]
    (['no', 'no'], ('no', 'yes'), [30.0, nan])
    """
    label = declaration.label
    names = [str(name) for name in frame.columns]
    declaration.check(names)
    features = [name for name in names if name != label and name not in declaration.drop]
    declared = {name: column for name in features if (column := declaration.column(name))}
    open_names = [name for name in features if name not in declared]
    if protected := [name for name in open_names if name in declaration.protected]:
        raise InputError(f"protected columns must be declared, but {', '.join(protected)} are not.")
    kept, found, values, notes = _open_columns(frame[open_names], declaration)
    for name, column in declared.items():
        found[name] = column
        answers = written[name]
        if isinstance(column, NumberColumn):
            values[name] = column.numbers(_pointed(answers, decimal_comma))[kept]
        else:
            values[name] = answers.to_numpy(dtype=object)[kept]
    columns = tuple(found[name] for name in features if name in found)
    if not columns:
        raise InputError("at least one column must be left to learn from, got 0.")
    if len(kept) < FEWEST_TRAINING_ROWS:
        raise InputError(
            f"at least {FEWEST_TRAINING_ROWS} rows are needed, got {len(kept)}. Bring more rows."
        )
    target, classes = read_target(
        frame[label], written[label], declaration, decimal_comma=decimal_comma
    )
    import pandas as pd

    table = pd.DataFrame({column.name: values[column.name] for column in columns})
    return TrainingRows(table, columns, target[kept], classes, tuple(notes))


def _open_columns(
    frame: pd.DataFrame, declaration: Declaration
) -> tuple[np.ndarray, dict[str, EncodedColumn], dict[str, object], list[Note]]:
    """Return the rows that stay, and encodings and values of unprotected columns, which may be looked at."""
    if frame.shape[1] == 0:
        return np.arange(len(frame)), {}, {}, []
    bins = {name: b for name, b in declaration.bins.items() if name in frame.columns}
    codes = [name for name in declaration.categorical if name in frame.columns]
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind == "f" and np.isinf(column.to_numpy(np.float64)).any():
            raise InputError(f"column {name!r} must hold finite numbers. Fix or drop it.")
    first = infer_schema(frame, categorical=codes, bins=bins)
    useless = first.encoded_as("left out")
    notes = [Note("column-left-out", f"{name}: {first[name].note}", name) for name in useless]
    used = [name for name in frame.columns if name not in useless]
    settled = settle_missing(
        frame[used], policy=declaration.missing, columns=used, categorical=codes
    )
    notes += settled.notes
    kept = np.flatnonzero(settled.kept)
    table = settled.frame.reset_index(drop=True)
    schema = infer_schema(
        table,
        categorical=[name for name in codes if name in used],
        bins={name: b for name, b in bins.items() if name in used},
    )
    encoded = learnt_columns(table, schema, bins)
    return kept, {c.name: c for c in encoded}, {c.name: table[c.name] for c in encoded}, notes


def read_target(
    column: pd.Series, written: pd.Series, declaration: Declaration, *, decimal_comma: bool
) -> tuple[np.ndarray, tuple[Category, ...]]:
    """Return the label of every row, and its classes in order (none for a number)."""
    label = declaration.label
    if declaration.is_number:
        scale = declaration.column(label)
        if not isinstance(scale, NumberColumn) or scale.low is None or scale.high is None:
            raise InputError(
                f"the range of the label {label!r} must be declared for {setting('model', 'ridge')}: "
                f"the noise depends on it. Use {setting('ranges', f'{label}=LOW:HIGH')}."
            )
        found = scale.numbers(_pointed(written, decimal_comma))
        numbers: FloatArray = np.clip(found, scale.low, scale.high)
        return np.nan_to_num(numbers, nan=scale.centre), ()
    if declaration.positive is not None:
        yes = declaration.positive
        other = OTHER if yes != OTHER else f"not {OTHER}"
        classes: tuple[Category, ...] = tuple(sorted((yes, other)))
        is_yes = category_codes(written, [yes, other]) == 0
        return np.where(is_yes, yes, other).astype(object), classes
    if label in declaration.categories:
        typed = _typed(label, declaration.categories[label])
        codes = category_codes(written, typed)
        return class_array(typed)[np.maximum(codes, 0)], tuple(sorted(typed))
    if column.isna().any():
        raise InputError(
            f"the label {label!r} must be given in every row, but some lack it. Remove those rows, or "
            f"declare the classes with {setting('categories', f'{label}=A|B')}: other labels then count "
            "as the first class."
        )
    labels = read_labels(column, name=label)
    observed_domain(label).warn(PrivacyLeakWarning, stacklevel=3)
    return labels.values.to_numpy(), labels.categories


def parse_range(text: str, names: Sequence[str]) -> NumberColumn:
    """Read `COL=LOW:HIGH`, of numbers or of dates like 2024-01-31.

    Examples
    --------
    >>> parse_range("age=17:90", ["age"]).centre
    53.5
    """
    fitting = [name for name in names if text.startswith(f"{name}=")]
    name = max(fitting, key=len, default="")
    low, colon, high = text[len(name) + 1 :].partition(":")
    if not name or not colon:
        raise _no_range()
    return range_column(name, (low, high))


def range_column(name: str, ends: object) -> NumberColumn:
    """Return the column of a declared range of numbers, or of dates like 2024-01-31.

    Examples
    --------
    >>> range_column("age", (17, 90)).centre
    53.5
    """
    import pandas as pd

    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise _no_range()
    for is_date in (False, True):
        found = NumberColumn(name, 0.0, 1.0, is_date=is_date).numbers(
            pd.Series([str(end) for end in ends], dtype=object)
        )
        if np.isfinite(found).all():
            break
    if not (np.isfinite(found).all() and 0.0 < found[1] - found[0] < math.inf):
        raise _no_range()
    return NumberColumn.of_range(name, float(found[0]), float(found[1]), is_date=is_date)


def _no_range() -> InputError:
    said = phrase(
        "must have two ends for each column, such as {'age': (17, 90)}, the lower one first.",
        command="must look like COL=LOW:HIGH, with the name of a column and a lower bound below the "
        "upper one.",
    )
    return InputError(f"{setting('ranges')} {said}")


def _typed(name: str, texts: Sequence[str]) -> tuple[Category, ...]:
    """Return declared answers in the type that all of them have; refuse one that stands twice."""
    stripped = [text.strip() for text in texts]
    typed = tuple(typed_categories(stripped))
    if len(set(typed)) < len(typed) or "" in stripped:
        raise InputError(
            f"{setting('categories')} of column {name!r} must be different answers, but one stands "
            "twice or is empty. Name each once."
        )
    return typed


def class_array(values: Sequence[Category]) -> np.ndarray:
    """Return classes as an array that keeps their type."""
    is_text = any(isinstance(value, str) for value in values)
    return np.array(list(values), dtype=object if is_text else None)


def _pointed(column: pd.Series, decimal_comma: bool) -> pd.Series:
    """Return a column of text with 1,5 written as 1.5, if a comma may stand for a point."""
    import pandas as pd

    is_text = column.dtype == object or isinstance(column.dtype, pd.StringDtype)
    if not (decimal_comma and is_text):
        return column

    def pointed(text: object) -> object:
        is_number = isinstance(text, str) and _DECIMAL_COMMA.fullmatch(text.strip())
        return str(text).replace(",", ".") if is_number else text

    return column.astype(object).map(pointed)
