# SPDX-License-Identifier: Apache-2.0
"""What to do with people who have not answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from epsilens._types import BoolArray
from epsilens._validate import as_choice, leave_out
from epsilens.errors import InputError, MissingAnswersError, Remedy, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd


MissingPolicy = Literal["auto", "error", "category", "drop"]

LARGEST_DROPPED_SHARE = 0.05
"""`auto` drops at most this share of the rows."""

MISSING_CATEGORY = "(missing)"
"""The category that stands for no answer under the policy `category`."""


@dataclass(frozen=True)
class Settled:
    """A table in which every answer that matters is present.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows that were kept.
    kept : array of bool, shape (n_rows,)
        Which rows of the original table those are.
    notes : tuple of Note
        What was done, with counts, ready to be shown.
    """

    frame: pd.DataFrame = field(repr=False)
    kept: BoolArray = field(repr=False)
    notes: tuple[Note, ...] = ()


def settle_missing(
    frame: pd.DataFrame,
    *,
    policy: MissingPolicy = "auto",
    columns: Iterable[str] | None = None,
    required: Iterable[str] = (),
    categorical: Iterable[str] = (),
    where: str = "",
) -> Settled:
    """Drop rows with missing answers, make "missing" an answer of its own, or refuse.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    policy : {"auto", "error", "category", "drop"}
        `auto` drops up to 5 % of the rows and says so, and refuses beyond that; `drop` drops any
        number; `error` refuses any; `category` makes missing a category of its own.
    columns : iterable of str, optional
        The columns that matter; all by default. Others may have missing values.
    required : iterable of str
        Columns in which missing can be no category, such as the label and the weight: under
        `category` their rows are dropped as under `auto`.
    categorical : iterable of str
        Numeric columns whose numbers are codes: under `category` they become words.
    where : str
        Added to the notes, for instance "of the test data".

    Returns
    -------
    Settled
        The kept rows and what was done.

    Raises
    ------
    InputError
        If the policy forbids what would have to be done; the message has counts and choices.

    Examples
    --------
    >>> import pandas as pd
    >>> survey = pd.DataFrame({"age": [31.0, None, 42.0], "sex": ["F", "M", None]})
    >>> settled = settle_missing(survey, policy="drop")
    >>> len(settled.frame), settled.notes[0].text
    (1, '2 of 3 rows were dropped for missing values (age 1, sex 1)')
    """
    import numpy as np

    as_choice(policy, get_args(MissingPolicy), name="missing")
    names = [str(name) for name in (frame.columns if columns is None else columns)]
    must = [name for name in required if name in names]
    counts = {name: int(frame[name].isna().sum()) for name in names}
    counts = {name: count for name, count in counts.items() if count}
    place = f" {where}" if where else ""
    everybody = np.ones(len(frame), dtype=np.bool_)
    if not counts:
        return Settled(frame, everybody)
    notes: list[Note] = []
    if policy == "category":
        frame, made = _make_category(frame, counts, keep=must, codes=set(categorical))
        if made:
            said = f"missing values{place} became the category {MISSING_CATEGORY!r} ({listed_counts(made)})"
            notes.append(Note("missing-category", said))
        counts = {name: count for name, count in counts.items() if name in must}
        if not counts:
            return Settled(frame, everybody, tuple(notes))
    kept = frame[list(counts)].notna().all(axis=1).to_numpy(dtype=bool)
    n_rows, n_lost = len(frame), int((~kept).sum())
    listed = listed_counts(counts)
    found = _remedies(frame, counts, n_lost, required=must, codes=set(categorical))
    if policy == "error":
        raise MissingAnswersError(
            f"missing values are not allowed ({setting('missing', 'error')}), but {n_lost} of "
            f"{n_rows} rows{place} have some ({listed}). {_choices(found, counts, must)}",
            found,
        )
    if policy != "drop" and n_lost > LARGEST_DROPPED_SHARE * n_rows:
        raise MissingAnswersError(
            f"at most {LARGEST_DROPPED_SHARE:.0%} of the rows may have missing values, but "
            f"{n_lost} of {n_rows}{place} do ({listed}). {_choices(found, counts, must)}",
            found,
        )
    if n_lost == n_rows:
        raise InputError(
            f"at least one row{place} must be complete, but all {n_rows} have missing values "
            f"({listed}). {leave_out('the columns with most of them', begins=True)}."
        )
    said = f"{n_lost} of {n_rows} rows{place} were dropped for missing values ({listed})"
    notes.append(Note("rows-dropped", said))
    return Settled(frame.loc[kept], kept, tuple(notes))


def listed_counts(counts: dict[str, int]) -> str:
    """Name the columns with most missing values first, and not more than eight of them."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count}" for name, count in ordered[:8])
    return shown if len(ordered) <= 8 else f"{shown} and {len(ordered) - 8} more columns"


def _remedies(
    frame: pd.DataFrame,
    counts: dict[str, int],
    n_lost: int,
    *,
    required: list[str],
    codes: set[str],
) -> tuple[Remedy, ...]:
    """Return the settings that go on from here: none that would be refused in its turn."""
    optional = [name for name in counts if name not in required]
    found = []
    if n_lost < len(frame):
        found.append(Remedy("drop", None, n_lost))
    in_required = frame[[name for name in counts if name in required]].isna().any(axis=1)
    n_required = int(in_required.sum())
    is_settled = n_required <= LARGEST_DROPPED_SHARE * len(frame)
    if (
        optional
        and is_settled
        and all(name in codes or not _is_amount(frame[name]) for name in optional)
    ):
        found.append(Remedy("category", None, n_lost))
    if len(optional) == 1 and is_settled:
        found.append(Remedy(None, optional[0], n_lost))
    return tuple(found)


def _choices(remedies: tuple[Remedy, ...], counts: dict[str, int], required: list[str]) -> str:
    """Say in a sentence which settings go on from here."""
    choices = [setting("missing", found.missing) for found in remedies if found.missing]
    optional = [name for name in counts if name not in required]
    if optional:
        most = max(optional, key=lambda name: counts[name])
        left_out = "the column" if len(optional) == 1 else f"columns, {most!r} first"
        if not choices:
            return f"{leave_out(left_out, begins=True)}."
        choices.append(leave_out(left_out))
    if not choices:
        return "Complete these columns, or choose others."
    *others, last = choices
    return f"Choose {', '.join(others)}, or {last}." if others else f"Choose {last}."


def _is_amount(column: pd.Series) -> bool:
    """Say whether a column holds numbers or dates, among which missing is no answer."""
    import pandas as pd

    dtype = column.dtype
    number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    return number or pd.api.types.is_datetime64_any_dtype(dtype)


def _make_category(
    frame: pd.DataFrame, counts: dict[str, int], *, keep: list[str], codes: set[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    import pandas as pd

    made = {name: count for name, count in counts.items() if name not in keep}
    filled = frame.copy(deep=False)
    for name, count in made.items():
        column = frame[name]
        if name not in codes and _is_amount(column):
            raise InputError(
                f"{setting('missing', 'category')} needs words, but column {name!r} holds numbers "
                f"or dates and {count} are missing: a missing amount is no amount. Choose "
                f"{setting('missing', 'drop')}, {setting('drop', name)}, or name codes in "
                f"{setting('categorical')}."
            )
        if isinstance(column.dtype, pd.CategoricalDtype):
            words = column.cat.add_categories([MISSING_CATEGORY])
            filled[name] = words.fillna(MISSING_CATEGORY)
        else:
            words = column.astype(object).map(spelled, na_action="ignore")
            filled[name] = words.fillna(MISSING_CATEGORY)
    return filled, made


def spelled(value: object) -> str:
    """Spell an answer: the code 1 is "1", also where a gap has made it 1.0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
