# SPDX-License-Identifier: Apache-2.0
"""A contract made up from a table, for a study or as a draft that a person checks.

A real contract is agreed before anybody looks at data. One that is taken from data tells which
answers occur in them; the warning says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import bins_for
from epsilens.data import Column, Schema
from epsilens.errors import InputError, PrivacyLeakWarning, phrase, setting
from epsilens.federated.declaration import DEFAULT_LIMIT, DeclaredColumn, FederationSchema
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

LARGEST_NUMBER = 1e100


def declare(
    features: pd.DataFrame,
    schema: Schema,
    *,
    label: str,
    label_categories: Sequence[object],
    protect: Sequence[str],
    categories: Mapping[str, Sequence[object]] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
) -> FederationSchema:
    """Write the contract that a table suggests.

    Words become indicators, one for every answer but the first; numbers are centred and scaled by
    constants: declared ones, or of the table with two digits. A protected number must have few values or be in bins.

    Parameters
    ----------
    features : pandas.DataFrame
        The columns to learn from, already in bins where bins were asked for.
    schema : Schema
        What these columns hold.
    label : str
    label_categories : sequence
        Its values.
    protect : sequence of str
        Columns to be randomised.
    categories : mapping of str to sequence, optional
        All possible answers of protected columns; what is not named is taken from the data, with a
        `PrivacyLeakWarning`.
    scales : mapping of str to (float, float), optional
        Centre and scale of numbers; what is not named is taken from the data, likewise.

    Returns
    -------
    FederationSchema

    Raises
    ------
    InputError
        If a protected column is unknown, or a number with too many values.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import infer_schema
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"], "age": [31.5, 42.0, 57.0]})
    >>> contract = declare(frame, infer_schema(frame), label="smokes", label_categories=["no", "yes"],
    ...                    protect=["smokes"], categories={"smokes": ["no", "yes"]},
    ...                    scales={"age": (40.0, 10.0)})
    >>> [(column.name, column.encoding) for column in contract.columns]
    [('sex', 'one-hot'), ('age', 'number')]
    """
    given = {name: tuple(map(str, answers)) for name, answers in (categories or {}).items()}
    known = {name: schema[name] for name in features.columns}
    for name in protect:
        if name != label and name not in known:
            raise InputError(
                f"{setting('protect')} must name the label or a column that the model uses, "
                f"got {name!r}. There are: {', '.join((label, *known))}."
            )
    columns = tuple(
        _declared(known[name], features[name], given, scales or {}, is_protected=name in protect)
        for name in features.columns
    )
    numbers = {column.name for column in columns if column.encoding == "number"}
    if not set(scales or {}) <= numbers:
        raise InputError(
            f"{setting('scales')} must name numbers that are not protected, got another "
            f"column. There are: {', '.join(sorted(numbers)) or 'none'}."
        )
    answers = given.get(label) or tuple(map(str, label_categories))
    observed = [name for name in protect if name not in given]
    if observed:
        Note(
            "observed-domain",
            f"the possible answers of {', '.join(map(repr, observed))} are taken from the data, which "
            f"tells every party which answers occur. Declare them with {setting('categories')}.",
        ).warn(PrivacyLeakWarning, stacklevel=2)
    measured = [
        column.name
        for column in columns
        if column.encoding == "number" and column.name not in (scales or {})
    ]
    if measured:
        Note(
            "observed-scale",
            f"centre and scale of {', '.join(map(repr, measured))} are taken from the data, to two digits, "
            "which tells every party about where they lie. Declare them with "
            f"{phrase(setting('scales'), command='`epsilens federate schema --scale`')}.",
        ).warn(PrivacyLeakWarning, stacklevel=2)
    return FederationSchema(columns, DeclaredColumn(label, answers), tuple(protect))


def _declared(
    column: Column,
    values: pd.Series,
    given: Mapping[str, tuple[str, ...]],
    scales: Mapping[str, tuple[float, float]],
    *,
    is_protected: bool,
) -> DeclaredColumn:
    name = column.name
    if column.encoding == "one-hot":
        answers = given.get(name) or tuple(map(str, column.categories or ()))
        return DeclaredColumn(name, answers)
    numbers = values.to_numpy(dtype=np.float64)
    if not is_protected:
        centre, scale = scales[name] if name in scales else rounded_scale(numbers)
        return DeclaredColumn(name, encoding="number", centre=centre, scale=scale)
    if name not in given and not column.protectable:
        raise InputError(
            f"column {name!r} must have few different numbers to be protected, got "
            f"{column.n_distinct}. Put them into bins: {bins_for(name)}."
        )
    answers = given.get(name) or tuple(map(str, column.categories or ()))
    centre, scale = code_scale(len(answers))
    return DeclaredColumn(name, answers, "code", centre=centre, scale=scale)


def code_scale(n_answers: int) -> tuple[float, float]:
    """Return centre and scale for the positions of so many answers in their list.

    Equal steps, whatever the answers stand for: nothing of the data is in it.

    Examples
    --------
    >>> code_scale(4)
    (1.5, 1.0)
    """
    half = (n_answers - 1) / 2
    return half, max(round(half / 1.5, 2), 0.5)


def rounded_scale(values: FloatArray) -> tuple[float, float]:
    """Return a centre and a scale with two digits, for a contract that is made up from data.

    Examples
    --------
    >>> import numpy as np
    >>> rounded_scale(np.array([31.0, 42.0, 57.0]))
    (43.0, 11.0)
    """
    centre, largest = float(np.mean(values)), float(np.abs(values).max(initial=0.0))
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"a column of numbers must stay below {LARGEST_NUMBER:g}, but one does not. Rescale it."
        )
    spread = float(np.std(values))
    if spread <= 1e-9 * largest:
        spread = 1.0
    digits = 1 - math.floor(math.log10(spread))
    return round(centre, digits), round(spread, digits)


# --- A contract that several sites' own declarations lead to, for people to confirm ---


def agree(declarations: Mapping[str, FederationSchema]) -> FederationSchema:
    """Return the contract that covers what all sites declare.

    Possible answers are put together: whatever one site declares is possible for all. Columns, label,
    what is protected and how a column is seen by the model must be the same everywhere. Of the centres
    of a number the median is taken, of its scales the largest; they only keep numbers in a common range.

    Parameters
    ----------
    declarations : mapping of str to FederationSchema
        By the name of whoever declares it, which a refusal names.

    Returns
    -------
    FederationSchema

    Raises
    ------
    InputError
        If two declarations contradict each other.

    Examples
    --------
    >>> label = DeclaredColumn("smokes", ("no", "yes"))
    >>> north = FederationSchema((DeclaredColumn("town", ("Aa", "Bo")),), label, ("smokes",))
    >>> south = FederationSchema((DeclaredColumn("town", ("Bo", "Vik")),), label, ("smokes",))
    >>> agree({"north": north, "south": south}).columns[0].categories
    ('Aa', 'Bo', 'Vik')
    """
    if not declarations:
        raise InputError("at least one site must declare its columns, got none.")
    first, *_ = declarations
    common = declarations[first]
    for who, declared in declarations.items():
        _require_alike(first, common, who, declared)
    columns = tuple(
        _joined(
            {
                who: next(c for c in declared.columns if c.name == column.name)
                for who, declared in declarations.items()
            }
        )
        for column in common.columns
    )
    label = _joined({who: declared.label for who, declared in declarations.items()})
    return FederationSchema(columns, label, common.protected, common.intercept)


def _require_alike(
    first: str, common: FederationSchema, who: str, declared: FederationSchema
) -> None:
    """Refuse declarations that cannot be put together, by the first column in which they differ."""
    if declared.label.name != common.label.name:
        raise InputError(
            f"{who} must have the same label as {first}, {common.label.name!r}, got "
            f"{declared.label.name!r}. Agree on one."
        )
    names = [{column.name for column in schema.columns} for schema in (common, declared)]
    for name in sorted(names[0] ^ names[1]):
        lacking, having = (who, first) if name in names[0] else (first, who)
        raise InputError(
            f"{lacking} must declare the column {name!r}, as {having} does. Declare it, or let everybody "
            "leave it out."
        )
    for name in sorted(set(common.protected) ^ set(declared.protected)):
        lacking, having = (who, first) if name in common.protected else (first, who)
        raise InputError(
            f"{lacking} must protect the column {name!r}, as {having} does. Agree on what is protected."
        )
    if declared.intercept != common.intercept:
        raise InputError(f"{who} must have an intercept if {first} has one. Agree on it.")
    kinds = {column.name: column.encoding for column in (*common.columns, common.label)}
    for column in (*declared.columns, declared.label):
        if column.encoding != kinds[column.name]:
            raise InputError(
                f"{who} must declare the column {column.name!r} as {kinds[column.name]}, as {first} does, got "
                f"{column.encoding}."
            )


def _joined(parts: Mapping[str, DeclaredColumn]) -> DeclaredColumn:
    """Return one column that covers all declarations of it."""
    columns = list(parts.values())
    if all(column == columns[0] for column in columns):
        return columns[0]
    if columns[0].encoding == "number":
        return _number(columns)
    lists = {who: column.categories or () for who, column in parts.items()}
    if columns[0].encoding == "one-hot":
        answers = tuple(dict.fromkeys(answer for given in lists.values() for answer in given))
        return replace(columns[0], categories=answers)
    answers = _in_order(columns[0].name, lists)
    centre, scale = code_scale(len(answers))
    return replace(columns[0], categories=answers, centre=centre, scale=scale)


def _number(columns: Sequence[DeclaredColumn]) -> DeclaredColumn:
    centre = sorted(column.centre for column in columns)[len(columns) // 2]
    scale = max(column.scale for column in columns)
    if all(column.limit is None for column in columns):
        return replace(columns[0], centre=centre, scale=scale)
    reach = max(
        (DEFAULT_LIMIT if c.limit is None else c.limit) * c.scale + abs(c.centre - centre)
        for c in columns
    )
    return replace(columns[0], centre=centre, scale=scale, limit=float(math.ceil(reach / scale)))


def _in_order(name: str, lists: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Put answers together whose order means something: numbers by size, others if one list has all."""
    together = {answer for given in lists.values() for answer in given}
    try:
        return tuple(sorted(together, key=float))
    except ValueError:
        pass
    longest = max(lists.values(), key=len)
    for who, given in lists.items():
        if tuple(answer for answer in longest if answer in given) != given:
            raise InputError(
                f"{who} must name the answers of the column {name!r} in the order of the others, and one "
                "declaration must have them all: its order means something."
            )
    return longest
