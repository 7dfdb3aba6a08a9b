# SPDX-License-Identifier: Apache-2.0
"""Every public exception and warning of the package."""

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
