# SPDX-License-Identifier: Apache-2.0
"""A privacy budget as a value: ε per column, their sum per record, and grids of ε."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from epsilens._validate import as_epsilon, require_unique
from epsilens.data.typed_names import split_typed
from epsilens.errors import InputError, InputTypeError, phrase, setting

LARGEST_GRID = 10_000


@dataclass(frozen=True)
class Budget:
    """How much may be learnt about each protected column of a person, and about the person in all.

    Each column has its own ε; what somebody who sees all columns can learn about one person is
    bounded by their sum. A budget is a value: adding two gives a third and changes neither.

    Parameters
    ----------
    per_column : mapping of str to float in (0, inf]
        ε of each protected column, in the order of the columns. Infinity means no privacy.

    Examples
    --------
    >>> from epsilens.channels import Budget
    >>> budget = Budget({"sex": 1.0, "income": 2.0})
    >>> budget.per_record
    3.0
    >>> (budget + Budget.uniform(["income"], 0.5)).per_column["income"]
    2.5
    """

    per_column: Mapping[str, float]

    def __post_init__(self) -> None:
        if not isinstance(self.per_column, Mapping):
            raise InputTypeError(
                f"{setting('per_column')} must map column names to epsilon, got "
                f"{type(self.per_column).__name__}. Use `Budget.uniform(columns, epsilon)`."
            )
        if not self.per_column:
            raise InputError(f"{setting('per_column')} must name at least one column, got none.")
        checked: dict[str, float] = {}
        for column, epsilon in self.per_column.items():
            if not isinstance(column, str) or not column:
                raise InputTypeError(
                    f"{setting('per_column')} must have column names as keys, got "
                    f"{'an empty name' if column == '' else type(column).__name__}."
                )
            checked[column] = as_epsilon(epsilon, of=f"column {column}")
        object.__setattr__(self, "per_column", MappingProxyType(checked))

    @classmethod
    def uniform(cls, columns: Iterable[str], epsilon: float) -> Budget:
        """Give every column the same ε.

        Parameters
        ----------
        columns : iterable of str
            The protected columns.
        epsilon : float in (0, inf]
            The budget of each one of them.

        Returns
        -------
        Budget
            Its `per_record` is ε times the number of columns.

        Examples
        --------
        >>> from epsilens.channels import Budget
        >>> Budget.uniform(["sex", "income"], 1.5).per_record
        3.0
        """
        if isinstance(columns, str):
            raise InputTypeError(argument="columns", expected="a list of column names", got="str")
        names = list(columns)
        require_unique(names, what="columns")
        checked = as_epsilon(epsilon)
        return cls(dict.fromkeys(names, checked))

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read a budget as it is typed on the command line: `sex=1,income=2`.

        Parameters
        ----------
        text : str
            `COLUMN=EPSILON` pairs with commas between them; a pair whose column name contains a
            comma stands in double quotes.

        Returns
        -------
        Budget
            In the order typed.

        Examples
        --------
        >>> from epsilens.channels import Budget
        >>> Budget.parse("sex=1, income=inf").to_dict()
        {'per_column': {'sex': 1.0, 'income': 'inf'}, 'per_record': 'inf'}
        """
        pairs: list[tuple[str, float]] = []
        for part in _split(text):
            column, sign, number = part.rpartition("=")
            if not sign or not column.strip():
                raise InputError(
                    f"epsilon per column must be typed COLUMN=EPSILON, got {part!r}. "
                    "For example: sex=1,income=2."
                )
            name = column.strip()
            pairs.append((name, _epsilon(number, of=f"column {name}")))
        require_unique([name for name, _ in pairs], what="columns with an epsilon")
        return cls(dict(pairs))

    @property
    def per_record(self) -> float:
        """The budget of a whole record: the sum over its columns; infinite if one of them is."""
        return math.fsum(self.per_column.values())

    def to_dict(self) -> dict[str, object]:
        """Return the budget for JSON, with infinity written as "inf".

        Returns
        -------
        dict
            With keys `per_column` and `per_record`.

        Examples
        --------
        >>> from epsilens.channels import Budget
        >>> Budget.uniform(["sex"], 1.0).to_dict()
        {'per_column': {'sex': 1.0}, 'per_record': 1.0}
        """
        return {
            "per_column": {name: _json(value) for name, value in self.per_column.items()},
            "per_record": _json(self.per_record),
        }

    def __add__(self, other: Budget) -> Budget:
        """Spend one budget after the other on the same people: ε adds up per column."""
        if not isinstance(other, Budget):
            return NotImplemented
        total = dict(self.per_column)
        for column, epsilon in other.per_column.items():
            total[column] = total.get(column, 0.0) + epsilon
        return Budget(total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Budget):
            return NotImplemented
        return dict(self.per_column) == dict(other.per_column)

    def __hash__(self) -> int:
        return hash(frozenset(self.per_column.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return (Budget, (dict(self.per_column),))

    def __repr__(self) -> str:
        return f"Budget({dict(self.per_column)!r})"


def parse_grid(text: str) -> tuple[float, ...]:
    """Read a list of ε values as it is typed on the command line.

    Parameters
    ----------
    text : str
        `0.1:10:30` is 30 values from 0.1 to 10, each the same factor above the one before;
        `lin:0.1:10:30` has them evenly spaced; `0.5,1,2,inf` is a list. Infinity, no privacy, may
        stand in a list only.

    Returns
    -------
    tuple of float
        Ascending, without duplicates.

    Raises
    ------
    InputError
        If a value is not a number greater than 0, or a count is not a whole number from 1 (2 if
        the ends differ) to 10000.

    Examples
    --------
    >>> from epsilens.channels import parse_grid
    >>> parse_grid("0.1:10:3")
    (0.1, 1.0, 10.0)
    >>> parse_grid("lin:1:2:3")
    (1.0, 1.5, 2.0)
    >>> parse_grid("2,inf,1,2")
    (1.0, 2.0, inf)
    """
    if not isinstance(text, str):
        raise InputTypeError(argument="epsilon", expected="typed as text", got=type(text).__name__)
    linear = text.strip().lower().startswith("lin:")
    body = text.strip()[4:] if linear else text.strip()
    if ":" not in body and not linear:
        return tuple(sorted({_epsilon(part) for part in _split(body)}))
    parts = body.split(":")
    if len(parts) != 3:
        form = "lin:START:STOP:COUNT" if linear else "START:STOP:COUNT"
        raise InputError(
            argument="epsilon",
            expected=f"a list such as 0.5,1,2 or {form}",
            got=repr(text),
            hint="For example: 0.1:10:30.",
        )
    start, stop = (_epsilon(part) for part in parts[:2])
    if math.isinf(start) or math.isinf(stop):
        raise InputError(
            f"{setting('epsilon')} must have finite ends in START:STOP:COUNT, got inf. Put inf in "
            "a list instead: 0.5,1,2,inf."
        )
    least = 2 if start != stop else 1
    try:
        count = int(parts[2])
    except ValueError:
        count = 0
    if not least <= count <= LARGEST_GRID:
        raise InputError(
            f"COUNT in START:STOP:COUNT must be a whole number from {least} to {LARGEST_GRID}, "
            f"got {parts[2]!r}. Both ends are always among the values."
        )
    spaced = np.linspace(start, stop, count) if linear else np.geomspace(start, stop, count)
    # Values between equal or neighbouring ends may round to just outside of them.
    inside = np.clip(spaced, min(start, stop), max(start, stop))
    return tuple(sorted({float(value) for value in inside}))


def _split(text: str) -> list[str]:
    if not isinstance(text, str):
        raise InputTypeError(argument="epsilon", expected="typed as text", got=type(text).__name__)
    if not text.strip():
        raise InputError(
            argument="epsilon", expected="a number or a list of numbers", got="nothing"
        )
    return split_typed(text)


def _epsilon(text: str, *, of: str | None = None) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InputError(
            argument="epsilon",
            of=of,
            expected="a number greater than 0",
            got=repr(text),
            hint=phrase("Use inf for no privacy.", page=""),
        ) from None
    return as_epsilon(number, of=of)


def _json(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
