# SPDX-License-Identifier: Apache-2.0
"""Every public exception and warning of the package, and what may be said about any other."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

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
    "SiteBudgetError",
    "SiteError",
    "Surface",
    "phrase",
    "render",
    "setting",
]

_OPEN, _BETWEEN, _CLOSE = "\ue000", "\ue001", "\ue002"
_FIRST, _NEXT, _LAST = "\ue003", "\ue004", "\ue005"
"""Marks of a setting and of a phrase: private code points, which no text of ours has otherwise."""

_Value = str | float | Sequence[str]


def setting(name: str, value: _Value | None = None) -> str:
    """Name a setting inside a message, so that each surface can write it in its own terms.

    Parameters
    ----------
    name : str
        Name of the argument in Python.
    value : str, number, bool or sequence of str, optional
        A value to be given to it.

    Returns
    -------
    str
        Text that `render` understands, for use inside an f-string.

    Examples
    --------
    >>> render(f"Use {setting('method', 'exact')} or leave {setting('seconds')} out.")
    "Use `method='exact'` or leave `seconds` out."
    """
    given = "" if value is None else _BETWEEN + json.dumps(value)
    return f"{_OPEN}{name}{given}{_CLOSE}"


def phrase(python: str, *, command: str | None = None, page: str | None = None) -> str:
    """Mark words that differ between the surfaces by more than the name of a setting.

    Parameters
    ----------
    python : str
        In Python, and where the others are not given. May contain settings, as the others may.
    command : str, optional
        On the command line.
    page : str, optional
        On the page; by default as on the command line.

    Examples
    --------
    >>> render("Bring more rows" + phrase(".", command=f", or use {setting('test')}."))
    'Bring more rows.'
    >>> render(phrase("Fit " + phrase("again", command="once more"), page="Ask again"), COMMAND_LINE)
    'Fit once more'
    """
    typed = python if command is None else command
    return f"{_FIRST}{python}{_NEXT}{typed}{_NEXT}{typed if page is None else page}{_LAST}"


class Surface(Protocol):
    """Where a message is read: it knows what a setting is called there."""

    @property
    def kind(self) -> Literal["python", "command", "page"]:
        """Which one it is."""

    def setting(self, name: str, value: _Value | None) -> str:
        """Write a setting, with its value if one is given."""


class _Python:
    """The Python interface: arguments in backticks."""

    kind: Literal["python", "command", "page"] = "python"

    def setting(self, name: str, value: _Value | None) -> str:
        if value is None:
            return f"`{name}`"
        return f"`{name}=math.inf`" if value in ("inf", float("inf")) else f"`{name}={value!r}`"


PYTHON: Surface = _Python()
_KINDS = ("python", "command", "page")

_OPTIONS = {
    "claimed_delta": "--delta",
    "claimed_epsilon": "--epsilon",
    "dependent_groups": "--allow-dependent-groups",
    "estimator": "--model",
    "groups": "--group",
    "n_canaries": "--canaries",
    "not_private": "--i-know-it-is-not-private",
    "random_state": "--seed",
    "ranges": "--range",
    "sample_weight": "--weight",
}
"""Arguments whose option has another name. All others are spelt with dashes: `max_rows`, `--max-rows`."""
_SWITCHES = frozenset({"dependent_groups", "not_private"})
"""Arguments whose option takes no value."""


def option_of(name: str) -> str:
    """Return the option that sets an argument on the command line."""
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


class _CommandLine:
    """The command line: options in backticks. A document names settings in this way too."""

    kind: Literal["python", "command", "page"] = "command"

    def setting(self, name: str, value: _Value | None) -> str:
        option = option_of(name)
        if value is None or value is True or name in _SWITCHES:
            return f"`{option}`"
        if value is False:
            return f"`--no-{option.removeprefix('--')}`"
        typed = str(value) if isinstance(value, str | int | float) else ",".join(value)
        return f"`{option} {typed}`"


COMMAND_LINE: Surface = _CommandLine()


def render(text: str, surface: Surface = PYTHON) -> str:
    """Write a text in the terms of a surface: its settings by the names that they have there.

    Parameters
    ----------
    text : str
        With marks made by `setting` and `phrase`, or without.
    surface : Surface, optional
        By default Python.

    Examples
    --------
    >>> class Shell:
    ...     kind = "command"
    ...     def setting(self, name, value):
    ...         return f"`--{name} {value}`"
    >>> render(f"Use {setting('method', 'exact')}.", Shell())
    'Use `--method exact`.'
    """
    # From the innermost: a phrase may stand inside another.
    while (start := text.rfind(_FIRST)) >= 0:
        choices, _, rest = text[start + 1 :].partition(_LAST)
        words = choices.split(_NEXT)
        # A name from the data may have such a sign: then it marks nothing.
        is_phrase = len(words) == len(_KINDS)
        chosen = words[_KINDS.index(surface.kind)] + rest if is_phrase else text[start + 1 :]
        text = text[:start] + chosen
    first, *others = text.split(_OPEN)
    parts = [first]
    for other in others:
        named, _, rest = other.partition(_CLOSE)
        name, has_value, value = named.partition(_BETWEEN)
        try:
            given = json.loads(value) if has_value else None
        except ValueError:
            parts.append(other)
            continue
        parts += [surface.setting(name, given), rest]
    return "".join(parts)


class InputError(ValueError):
    """An argument, a file or a column is not what was expected; the message says what to do.

    Parameters
    ----------
    message : str, optional
        The whole message, where the four parts below do not fit it.
    argument : str, optional
        Name of the argument in Python. Each surface shows it by its own name for it. By default the
        setting that the message begins with.
    of : str, optional
        Which part of the argument it is about, such as "column age".
    expected : str, optional
        What the argument must be, after "must be".
    got : str, optional
        What came instead, never a data value.
    hint : str, optional
        What to do, as a sentence.

    Examples
    --------
    >>> error = InputError(argument="epsilon", expected="greater than 0", got="-1.0",
    ...                    hint=f"Use {setting('epsilon', 'inf')} for no privacy.")
    >>> str(error)
    '`epsilon` must be greater than 0, got -1.0. Use `epsilon=math.inf` for no privacy.'
    >>> error.argument, InputError(f"{setting('label')} must be numbers.").argument
    ('epsilon', 'label')
    """

    def __init__(
        self,
        message: str = "",
        *,
        argument: str | None = None,
        of: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        begins = message[1:].partition(_CLOSE)[0].partition(_BETWEEN)[0]
        self.argument = begins if argument is None and message.startswith(_OPEN) else argument
        self.of = of
        self.expected = expected
        self.got = got
        self.hint = hint
        super().__init__(self.render(PYTHON))

    @property
    def text(self) -> str:
        """The message with its marks, to be part of another text."""
        parts = [self.message] if self.message else []
        if self.expected is not None:
            subject = "the input" if self.argument is None else setting(self.argument)
            subject += "" if self.of is None else f" of {self.of}"
            came = "" if self.got is None else f", got {self.got}"
            parts.append(f"{subject} must be {self.expected}{came}.")
        if self.hint:
            parts.append(self.hint)
        return " ".join(parts)

    def render(self, surface: Surface = PYTHON) -> str:
        """Write the message in the terms of a surface."""
        return render(self.text, surface).strip()

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.__dict__.copy(), self.args)


def _rebuilt(
    kind: type[InputError], state: dict[str, object], args: tuple[object, ...]
) -> InputError:
    """Make an error again in another process."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    error.args = args
    return error


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


class SiteError(InputError):
    """A site of a federation refuses what it is asked; its number begins the message."""

    def __init__(self, site: int, message: str) -> None:
        super().__init__(f"site {site} {message}")
        self.site = site


class SiteBudgetError(SiteError, BudgetExceededError):
    """A site of a federation would give more than it may."""


class _MarkedError(Exception):
    """A message of one text, which may name settings; `text` has their marks."""

    def __init__(self, message: str = "") -> None:
        self.text = message
        super().__init__(render(message, PYTHON))

    def render(self, surface: Surface = PYTHON) -> str:
        """Write the message in the terms of a surface."""
        return render(self.text, surface)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text,)


class EstimateNotTrustworthyError(_MarkedError, ArithmeticError):
    """No estimate can be given that would deserve belief, for instance on separable data."""


class MissingExtraError(_MarkedError, ImportError):
    """An optional dependency is needed; the message has the command that installs it."""


class _CodedWarning(_MarkedError, UserWarning):  # noqa: N818
    """A warning that documents hold as a note: its code says what it is about, whatever its words."""

    def __init__(
        self, message: str = "", *, code: str = "unclassified", subject: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.subject = subject

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text,), {"code": self.code, "subject": self.subject}


class PrivacyLeakWarning(_CodedWarning):
    """The privacy guarantee is weaker than it looks.

    Parameters
    ----------
    message : str
        The warning; it may name settings by `setting`.
    code : str
        What it is about: a key of `epsilens.notes.NOTES`.
    subject : str, optional
        The column, group or file it is about, where there can be several.
    """


class ApproximationWarning(_CodedWarning):
    """A number is less certain than it looks; the parameters are those of `PrivacyLeakWarning`."""


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
        Error of another library, or a mistake of ours.

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
