# SPDX-License-Identifier: Apache-2.0
"""Every public exception and warning of the package, and what may be told of any other."""

from __future__ import annotations

__all__ = [
    "ApproximationWarning",
    "BudgetExceededError",
    "EstimateNotTrustworthyError",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "PrivacyLeakWarning",
]


class InputError(ValueError):
    """An argument, a file or a column is not what was expected; the message says what to do."""


class InputTypeError(InputError, TypeError):
    """An argument is of the wrong type."""


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
