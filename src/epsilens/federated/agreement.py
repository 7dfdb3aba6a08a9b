# SPDX-License-Identifier: Apache-2.0
"""A contract that several sites' own declarations lead to, for people to confirm.

Each site drafts, from its own table or from none, which columns it has and which answers are possible. What
fits together is put together; what does not is refused, by site and column. No record is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from epsilens.errors import InputError
from epsilens.federated.declaration import DEFAULT_LIMIT, DeclaredColumn, FederationSchema
from epsilens.federated.declare import code_scale


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
