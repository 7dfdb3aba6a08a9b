# SPDX-License-Identifier: Apache-2.0
"""The column to be predicted: one of two answers, or a number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epsilens.data.schema import Category, as_category
from epsilens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Labels", "read_labels", "read_numbers"]

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
    notes : tuple of str
        What was done, ready to be shown.
    joined : bool
        Whether all values but `positive` were joined into one.
    """

    values: pd.Series = field(repr=False)
    categories: tuple[Category, ...]
    positive: Category | None
    notes: tuple[str, ...] = ()
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
    categories = tuple(sorted({as_category(value) for value in column.unique()}, key=_order))
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
            f"`positive` must be a value of the label {name!r}, got {positive!r}, which stands in "
            "no row. Check the spelling."
        )
    if len(categories) == 2:
        return Labels(_plain_series(column), categories, matching[0])
    values = _joined(column, positive)
    kept = sorted({positive, _other_than(positive)})
    note = f"{name}: {len(categories) - 1} values were joined into {_other_than(positive)!r}"
    return Labels(values, tuple(kept), positive, (note,), joined=True)


def _fewer_values(column: pd.Series) -> str:
    """Say what to do about a label with too many values."""
    import pandas as pd

    one = "Use `--positive VALUE` for one value against the others, or "
    if pd.api.types.is_numeric_dtype(column.dtype):
        # Of the commands that share this message, these alone can do without classes.
        return (
            f"{one}put the numbers into classes; as numbers, `epsilens whatif` and `epsilens value "
            "local` predict them with `--model ridge`."
        )
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
            f"the label {name!r} must hold numbers for `--model ridge`, but it holds words. "
            "Use `--model logistic`."
        )
    numbers = column.to_numpy(np.float64)
    n_infinite = int((~np.isfinite(numbers)).sum())
    if n_infinite:
        raise InputError(
            f"the label {name!r} must hold finite numbers, but {n_infinite} are not. Mend them."
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


def _order(value: Category) -> tuple[bool, float, str]:
    return (isinstance(value, str), 0.0 if isinstance(value, str) else float(value), str(value))
