# SPDX-License-Identifier: Apache-2.0
"""Every public exception and warning of the package, and what may be told of any other."""

from __future__ import annotations

import errno
import os
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


_REFUSALS = {
    errno.ENOSPC: ("no space is left on the disk", "Free some space, or choose another place."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space, or choose another place."),
    errno.EFBIG: ("the file would be larger than allowed", "Raise the limit with `ulimit -f`."),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter name."),
    errno.EROFS: ("the file system is read-only", "Choose another place."),
    errno.EACCES: ("permission is denied", "Change the permissions, or choose another place."),
    errno.EPERM: ("permission is denied", "Change the permissions, or choose another place."),
    errno.EISDIR: ("it is a folder", "Choose another name."),
    errno.ENOTDIR: ("a part of its path is no folder", "Choose another place."),
    errno.ENOENT: ("it does not exist", "Check the path."),
    errno.ELOOP: ("its links form a circle", "Choose another name."),
    errno.EMFILE: ("too many files are open", "Raise the limit with `ulimit -n`."),
    errno.ENFILE: ("too many files are open on this machine", "Try again later."),
    errno.EIO: ("the device failed", "Look at the disk."),
}
"""Why the operating system refuses, and what to do, by error number."""
_NAME_SHOWN = 60


def system_refusal(error: OSError, *, subject: str | None = None, must: str) -> InputError:
    """Return an error of the operating system as one line of ours.

    Parameters
    ----------
    error : OSError
        Its own text is not used: other libraries put more into it than is needed.
    subject : str, optional
        What the user asked for: a file's name is quoted. By default the file that the error names.
    must : str
        What was expected of it, after "must".

    Returns
    -------
    InputError
        To be raised or shown.

    Examples
    --------
    >>> full = OSError(errno.ENOSPC, "No space left on device")
    >>> str(system_refusal(full, subject="'answer.json'", must="be writable"))
    "'answer.json' must be writable, but no space is left on the disk. Free some space, or choose another place."
    """
    if error.errno is None:
        fallback = f"the operating system reports {type(error).__name__}"
    else:
        fallback = f"the operating system says {os.strerror(error.errno)!r}"
    reason, advice = _REFUSALS.get(error.errno or 0, (fallback, "Choose another place."))
    if subject is None:
        too_many = error.errno in {errno.EMFILE, errno.ENFILE}  # whichever file came last
        name = "" if too_many else os.path.basename(os.fsdecode(error.filename or ""))
        if not name and reason == fallback:
            return InputError(f"the command must be able to go on, but {reason}. Try again.")
        subject = repr(name) if name else "every file"
    if len(subject) > _NAME_SHOWN:
        subject = f"{subject[:_NAME_SHOWN]}…{subject[-1]}"
    return InputError(f"{subject} must {must}, but {reason}. {advice}")


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
