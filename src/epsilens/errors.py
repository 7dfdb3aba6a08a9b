# SPDX-License-Identifier: Apache-2.0
"""Every public exception and warning of the package, and what may be told of any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "ApproximationWarning",
    "BudgetExceededError",
    "EstimateNotTrustworthyError",
    "InputError",
    "InputTypeError",
    "MissingAnswersError",
    "MissingExtraError",
    "PrivacyLeakWarning",
    "Remedy",
]


class InputError(ValueError):
    """An argument, a file or a column is not what was expected; the message says what to do."""


class InputTypeError(InputError, TypeError):
    """An argument is of the wrong type."""


@dataclass(frozen=True)
class Remedy:
    """A setting under which a table with missing answers is used: a policy, or a column left out.

    Parameters
    ----------
    missing : {"drop", "category"} or None
        What to do with missing answers.
    column : str or None
        The column to leave out.
    n_rows : int
        Rows that have missing answers.
    """

    missing: Literal["drop", "category"] | None
    column: str | None
    n_rows: int


class MissingAnswersError(InputError):
    """Too many rows have missing answers; `remedies` are the settings that go on from here."""

    def __init__(self, message: str, remedies: tuple[Remedy, ...]) -> None:
        super().__init__(message)
        self.remedies = remedies


class BudgetExceededError(InputError):
    """A release would spend more of a privacy budget than is left."""


class EstimateNotTrustworthyError(ArithmeticError):
    """No estimate can be given that would deserve belief, for instance on separable data."""


class MissingExtraError(ImportError):
    """An optional dependency is needed; the message has the command that installs it."""


class PrivacyLeakWarning(UserWarning):
    """The privacy guarantee is weaker than it looks."""


class ApproximationWarning(UserWarning):
    """A number is less certain than it looks."""


def place_of(error: BaseException) -> str:
    """Return where an error happened and its type, not its message, which may quote data.

    Parameters
    ----------
    error : BaseException
        Of another library, or a mistake of ours.

    Returns
    -------
    str
        A line for each place, and the type last.

    Examples
    --------
    >>> try:
    ...     raise ValueError("could not convert 'HIV+'")
    ... except ValueError as error:
    ...     "HIV" in place_of(error), place_of(error).splitlines()[-1]
    (False, 'ValueError')
    """
    import traceback

    places = [
        f'  File "{place.filename}", line {place.lineno}, in {place.name}'
        for place in traceback.extract_tb(error.__traceback__)
    ]
    return "\n".join([*places, type(error).__name__])
