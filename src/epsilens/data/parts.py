# SPDX-License-Identifier: Apache-2.0
"""The rows of one file, treated in the same way whether they are trained on, tested on or on offer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import leave_out, require_column
from epsilens.data.binning import Bins
from epsilens.data.encoding import (
    as_model_input,
    check_categories,
    require_same_kinds,
    spelled_alike,
)
from epsilens.data.expressions import QUOTE_TEXT, Expression
from epsilens.data.missing import MissingPolicy, settle_missing
from epsilens.data.schema import Category, Schema, as_category
from epsilens.errors import InputError, phrase, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


# --- The column to be predicted: one of two answers, or a number ---

OTHER = "other"
MOST_CLASSES = 20
"""A label of more values is taken for a number or a text, not for a class."""


@dataclass(frozen=True)
class Labels:
    """The label of every row, and what its values are.

    Parameters
    ----------
    values : pandas.Series
        One value per row, none missing.
    categories : tuple
        The values in sorted order, as scikit-learn's `classes_`; empty for a number.
    positive : category or None
        The value that counts as "yes".
    notes : tuple of Note
        What was done, ready to be shown.
    joined : bool
        Whether all values but `positive` were joined into one.
    """

    values: pd.Series = field(repr=False)
    categories: tuple[Category, ...]
    positive: Category | None
    notes: tuple[Note, ...] = ()
    joined: bool = False

    def read_again(self, column: pd.Series, *, what: str) -> pd.Series:
        """Read the label of other rows in the same way.

        Parameters
        ----------
        column : pandas.Series
            The label of the other rows.
        what : str
            What those rows are called in a message.

        Returns
        -------
        pandas.Series
            Their labels.

        Raises
        ------
        InputError
            If a value is new; the message has the count, not the value.

        Examples
        --------
        >>> import pandas as pd
        >>> labels = read_labels(pd.Series(["no", "yes", "no"], name="smokes"), name="smokes")
        >>> labels.read_again(pd.Series(["yes"], name="smokes"), what="test data").tolist()
        ['yes']
        """
        name = str(column.name)
        if not self.categories:
            return read_numbers(column, name=name).values
        if self.joined:
            return _joined(column, str(self.positive))
        n_unknown = int((~column.isin(list(self.categories))).sum())
        if n_unknown:
            raise InputError(
                f"the label {name!r} of the {what} must have the values of the training data, but "
                f"{n_unknown} rows have another. Remove or recode them."
            )
        return _plain_series(column)


def read_labels(column: pd.Series, *, name: str, positive: str | None = None) -> Labels:
    """Read a label that has two answers, or a few.

    Parameters
    ----------
    column : pandas.Series
        The label, none missing.
    name : str
        Its name, for messages.
    positive : str, optional
        The value that counts as "yes". If there are more than two values, all others become
        "other". Without it the larger value, or the last in the alphabet, counts as "yes".

    Returns
    -------
    Labels
        In the original values wherever there are two.

    Raises
    ------
    InputError
        If there is one value only, or too many and no `positive`.

    Examples
    --------
    >>> import pandas as pd
    >>> answers = pd.Series(["never", "often", "daily"], name="smokes")
    >>> read_labels(answers, name="smokes", positive="daily").values.tolist()
    ['other', 'other', 'daily']
    """
    found = {as_category(value) for value in column.unique()}
    words = sorted(value for value in found if isinstance(value, str))
    numbers = [value for value in found if not isinstance(value, str)]
    categories = (*sorted(numbers, key=lambda value: (float(value), str(value))), *words)
    if len(categories) < 2:
        raise InputError(
            f"the label {name!r} must have two different values, got {len(categories)}. "
            "With one value there is nothing to learn: choose another column."
        )
    if positive is None:
        if len(categories) > MOST_CLASSES:
            raise InputError(
                f"the label {name!r} must have at most {MOST_CLASSES} different values, got "
                f"{len(categories)}. {_fewer_values(column)}"
            )
        yes = categories[1] if len(categories) == 2 else None
        return Labels(_plain_series(column), categories, yes)
    matching = [value for value in categories if _is_written(value, positive)]
    if not matching:
        raise InputError(
            argument="positive",
            expected=f"a value of the label {name!r}",
            got=f"{positive!r}, which stands in no row",
            hint="Check the spelling.",
        )
    if len(categories) == 2:
        return Labels(_plain_series(column), categories, matching[0])
    values = _joined(column, positive)
    kept = sorted({positive, _other_than(positive)})
    said = f"{name}: {len(categories) - 1} values were joined into {_other_than(positive)!r}"
    return Labels(values, tuple(kept), positive, (Note("label-joined", said),), joined=True)


def _fewer_values(column: pd.Series) -> str:
    """Say what to do about a label with too many values."""
    import pandas as pd

    positive = phrase(setting("positive", "VALUE"), page=setting("positive"))
    one = f"Use {positive} for one value against the others, or "
    if pd.api.types.is_numeric_dtype(column.dtype):
        # Among the commands that share this message, only these can do without classes.
        ridge = (
            "put the numbers into classes; as numbers, `epsilens whatif` and `epsilens value local` "
            f"predict them with {setting('model', 'ridge')}."
        )
        classes = "put the numbers into classes, or take them as numbers (task='regression')."
        return one + phrase(classes, command=ridge, page="predict the numbers.")
    return f"{one}join values in the file."


def read_numbers(column: pd.Series, *, name: str) -> Labels:
    """Read a label that is a number.

    Parameters
    ----------
    column : pandas.Series
        The label, none missing.
    name : str
        Its name, for messages.

    Returns
    -------
    Labels
        The numbers; there are no categories.

    Raises
    ------
    InputError
        If the label is not a finite number.

    Examples
    --------
    >>> import pandas as pd
    >>> read_numbers(pd.Series([1, 2], name="income"), name="income").values.tolist()
    [1.0, 2.0]
    """
    import numpy as np
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(
            f"the label {name!r} must hold numbers for a model that predicts numbers, but it holds "
            f"words. Use a classifier, such as {setting('model', 'logistic')}."
        )
    numbers = column.to_numpy(np.float64)
    n_infinite = int((~np.isfinite(numbers)).sum())
    if n_infinite:
        raise InputError(
            f"the label {name!r} must hold finite numbers, but {n_infinite} are not. Fix them."
        )
    return Labels(pd.Series(numbers, index=column.index, name=column.name), (), None)


def _plain_series(column: pd.Series) -> pd.Series:
    """Return the values as NumPy knows them: scikit-learn then takes them as they are."""
    import pandas as pd

    values = [as_category(value) for value in column]
    if all(isinstance(value, str) for value in values):
        return pd.Series(values, index=column.index, name=column.name, dtype=object)
    return pd.Series(values, index=column.index, name=column.name)


def _joined(column: pd.Series, positive: str) -> pd.Series:
    import pandas as pd

    other = _other_than(positive)
    values = [positive if _is_written(as_category(value), positive) else other for value in column]
    return pd.Series(values, index=column.index, name=column.name, dtype=object)


def _other_than(positive: str) -> str:
    return OTHER if positive != OTHER else f"not {OTHER}"


def _is_written(value: Category, text: str) -> bool:
    """Say whether `text`, typed by the user, means this value: 1, 1.0 and "1" are the same."""
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, str):
        return value == text
    try:
        return float(text) == float(value)
    except ValueError:
        return False


# --- The rows of one file, treated in the same way whether they are trained on, tested on or on offer ---

Task = Literal["classification", "regression", "any"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Part:
    """The rows of one file after the missing values are settled: not yet split.

    Attributes
    ----------
    X : pandas.DataFrame
        As the model takes it.
    y : pandas.Series
    sample_weight : array of shape (n_rows,) or None
    masks : dict of str to array of bool, shape (n_rows,)
        Who belongs to each group.
    rows : array of int, shape (n_rows,)
        Where in the file each stands, counted from 0.
    beside : pandas.DataFrame
        Columns that come along and that the model does not see.
    """

    X: pd.DataFrame
    y: pd.Series
    sample_weight: FloatArray | None
    masks: dict[str, BoolArray]
    rows: NDArray[np.intp]
    beside: pd.DataFrame


@dataclass(frozen=True)
class PartSettings:
    """What the caller asked for, applied in the same way to the data and to other files.

    The attributes are parameters of `prepare`, checked. In the columns that are required an answer cannot be
    missing.
    """

    label: str
    drop: tuple[str, ...]
    weight: str | None
    categorical: tuple[str, ...]
    bins: dict[str, Bins]
    missing: MissingPolicy
    groups: tuple[tuple[str, Expression], ...]
    beside: tuple[str, ...]
    required: tuple[str, ...]

    def check_against(self, frame: pd.DataFrame) -> None:
        """Refuse columns that do not exist, or that cannot be what they are named for."""
        columns = [str(name) for name in frame.columns]
        require_column(self.label, columns, argument="label")
        for argument, names in (
            ("drop", self.drop),
            ("weight", () if self.weight is None else (self.weight,)),
            ("categorical", self.categorical),
            ("bins", tuple(self.bins)),
            ("identity", self.beside),
        ):
            for name in names:
                require_column(name, columns, argument=argument)
                if name == self.label:
                    raise InputError(
                        f"column {name!r} is the label and cannot be named in {setting(argument)} "
                        "too. Name it in one of them."
                    )
        for argument, names in (("categorical", self.categorical), ("bins", tuple(self.bins))):
            for name in names:
                if name in self.drop or name == self.weight:
                    raise InputError(
                        f"column {name!r} is dropped or the weight, so {setting(argument)} cannot "
                        "name it."
                    )
        for _, expression in self.groups:
            for name in sorted(expression.columns):
                require_column(name, columns, argument="group", advice=QUOTE_TEXT)

    def features(self, frame: pd.DataFrame) -> list[str]:
        """Name the columns that the model may see."""
        out = {self.label, self.weight, *self.drop, *self.beside}
        return [str(name) for name in frame.columns if name not in out]

    def refuse_infinite(self, frame: pd.DataFrame, columns: Iterable[str]) -> None:
        """Refuse infinite numbers, but for those that go into bins."""
        import numpy as np
        import pandas as pd

        for name in columns:
            column = frame[name]
            if name in self.bins or not pd.api.types.is_numeric_dtype(column.dtype):
                continue
            n_infinite = int(np.isinf(column.to_numpy("float64", na_value=np.nan)).sum())
            if n_infinite:
                raise InputError(
                    f"column {name!r} must hold finite numbers, but {n_infinite} are infinite. "
                    f"Mark them as missing, or {leave_out('the column')}."
                )

    def part(
        self,
        frame: pd.DataFrame,
        answers: pd.DataFrame,
        schema: Schema,
        y: pd.Series,
        trained_on: pd.DataFrame,
        *,
        kept: BoolArray,
    ) -> Part:
        """Return complete rows as the model takes them.

        Parameters
        ----------
        frame, answers : pandas.DataFrame
            The rows with missing values settled, and as they came, for the groups.
        schema : Schema
        y : pandas.Series
        trained_on : pandas.DataFrame
            The training rows, whose smallest and largest values bound bins.
        kept : array of bool
            Which rows of the file these are.
        """
        import numpy as np

        used = [column.name for column in schema.columns if column.encoding != "left out"]
        if not used:
            raise InputError(
                "at least one column must be left to learn from, got 0. "
                "Check which columns were dropped, constant or identifiers."
            )
        return Part(
            as_model_input(frame[used], schema, self.bins, trained_on),
            y,
            None if self.weight is None else _weights(frame[self.weight], self.weight),
            {name: expression.mask(answers) for name, expression in self.groups},
            np.flatnonzero(kept),
            frame[list(self.beside)],
        )

    def other_part(
        self,
        frame: pd.DataFrame,
        schema: Schema,
        labels: Labels,
        trained_on: pd.DataFrame,
        *,
        what: str = "test data",
    ) -> tuple[Part, list[Note]]:
        """Return the rows of another file, read like the training data, and notes on what was dropped."""
        used = [column.name for column in schema.columns if column.encoding != "left out"]
        needed = {*used, *self.required}.union(*(e.columns for _, e in self.groups))
        lacking = sorted(needed - set(frame.columns))
        if lacking:
            raise InputError(
                f"the {what} must have the columns of the training data, but {len(lacking)} are "
                f"missing: {', '.join(lacking[:8])}. Add them."
            )
        self.refuse_infinite(frame, used)
        settled = settle_missing(
            frame,
            policy=self.missing,
            columns=[*used, *self.required],
            required=self.required,
            categorical=self.categorical,
            where=f"of the {what}",
        )
        answers = frame.loc[settled.kept].reset_index(drop=True)
        frame = settled.frame.reset_index(drop=True)
        if len(frame) == 0:
            raise InputError(f"the {what} must have at least one row, got 0.")
        frame = spelled_alike(frame, schema)
        require_same_kinds(frame, trained_on[used], what=what)
        check_categories(schema, frame, what=what)
        y = labels.read_again(frame[self.label], what=what)
        part = self.part(frame, answers, schema, y, trained_on, kept=settled.kept)
        return part, list(settled.notes)


def _weights(column: pd.Series, name: str) -> FloatArray:
    import numpy as np
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(
            f"{setting('weight')} must name a column of numbers, got {name!r}, which is not."
        )
    weights: FloatArray = column.to_numpy(np.float64)
    n_bad = int((~np.isfinite(weights) | (weights < 0)).sum())
    if n_bad:
        raise InputError(
            f"weights must be finite and at least 0, but {n_bad} of {len(weights)} in column "
            f"{name!r} are not. Fix or remove those rows."
        )
    if not weights.any():
        raise InputError(f"some weight must be greater than 0, but all in column {name!r} are 0.")
    return weights


def split_part(part: Part, *, share: float, seed: int, task: Task) -> tuple[Part, Part]:
    """Set a share of the rows aside, stratified by label; return those that stay and those aside."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    n_rows = len(part.y)
    n_test = int(np.ceil(share * n_rows))
    n_classes = part.y.nunique() if task == "classification" else 1
    fewest = int(part.y.value_counts().min()) if task == "classification" else n_rows
    if fewest < 2 or min(n_test, n_rows - n_test) < n_classes:
        others = f", or a test file with {setting('test')}"
        others = phrase(others, page="")  # a test file of its own is for the command line
        raise InputError(
            f"both parts of the data need rows of every label, but {n_rows} rows with {fewest} of "
            f"the rarest label cannot be split at {setting('test_share', share)}. Bring more rows"
            f"{others}."
        )
    train_rows, test_rows = train_test_split(
        np.arange(n_rows),
        test_size=share,
        random_state=seed,
        stratify=part.y.to_numpy() if task == "classification" else None,
    )

    kept, aside = (
        Part(
            part.X.iloc[chosen].reset_index(drop=True),
            part.y.iloc[chosen].reset_index(drop=True),
            None if part.sample_weight is None else part.sample_weight[chosen],
            {name: mask[chosen] for name, mask in part.masks.items()},
            part.rows[chosen],
            part.beside.iloc[chosen].reset_index(drop=True),
        )
        for chosen in (np.sort(train_rows), np.sort(test_rows))
    )
    return kept, aside
