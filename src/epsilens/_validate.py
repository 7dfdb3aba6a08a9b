# SPDX-License-Identifier: Apache-2.0
"""Every argument check in the package: what was expected, what came, what to do.

Inner functions trust their callers; public functions call these once. No message ever carries a
data value: names of columns, counts and the numbers the caller typed as settings only.
"""

from __future__ import annotations

import difflib
import importlib.util
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import InputError, InputTypeError, MissingExtraError, phrase, setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST_FINITE_EPSILON = 40.0
INFINITY = phrase("`math.inf`", command="`inf`")
# A study of the page is of finite budgets.
NO_PRIVACY = phrase("Use `math.inf` for no privacy.", command="Use `inf` for no privacy.", page="")


def bins_for(column: str) -> str:
    """Return how numbers of a column are put into bins, for use inside a message."""
    return phrase(
        f"`bins={{{column!r}: Bins(10, LOW, HIGH)}}`",
        command=setting("bins", f"{column}=LOW:HIGH:10"),
        page="“bins” such as 0:100:10",
    )


def leave_out(columns: str, *, begins: bool = False) -> str:
    """Return how columns are left out, for use inside a message or as the beginning of a sentence."""
    leave = "Leave" if begins else "leave"
    return phrase(
        f"{leave} out {columns} ({setting('drop')})",
        command=f"{setting('drop')} {columns}",
        page=f"{leave} out {columns}",
    )


def _as_real(
    value: object, *, name: str, expected: str, of: str | None = None, hint: str | None = None
) -> float:
    """Return a real number as a float; one too large for that is infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        came = type(value).__name__
        raise InputTypeError(argument=name, of=of, expected=expected, got=came, hint=hint)
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return -math.inf if value < 0 else math.inf


def as_epsilon(
    value: object, *, name: str = "epsilon", of: str | None = None, allow_zero: bool = False
) -> float:
    """Return a privacy budget as a float in (0, inf].

    Parameters
    ----------
    value : float in (0, inf]
        Infinity means no privacy.
    name : str
        The name the caller typed.
    of : str, optional
        Whose budget it is, such as "column age".
    allow_zero : bool
        Whether 0, pure noise, is meaningful here.
    """
    number = _as_real(value, name=name, of=of, expected="a number greater than 0", hint=NO_PRIVACY)
    # A whole number of hundreds of digits is finite, and asks for something else than no privacy.
    if number == math.inf != value:
        raise InputError(
            argument=name,
            of=of,
            expected="a number that 64 bits can hold",
            got="a larger one",
            hint=NO_PRIVACY,
        )
    too_small = number < 0 if allow_zero else number <= 0
    if math.isnan(number) or too_small:
        least = "at least 0" if allow_zero else "greater than 0"
        raise InputError(argument=name, of=of, expected=least, got=repr(number), hint=NO_PRIVACY)
    return number


def as_count(value: object, *, name: str, least: int = 1) -> int:
    """Return a whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputTypeError(argument=name, expected="a whole number", got=type(value).__name__)
    if int(value) < least:
        raise InputError(argument=name, expected=f"at least {least}", got=str(int(value)))
    return int(value)


def as_share(value: object, *, name: str) -> float:
    """Return a number strictly between 0 and 1."""
    number = _as_real(value, name=name, expected="a number between 0 and 1")
    if not 0.0 < number < 1.0:
        raise InputError(f"{setting(name)} must lie between 0 and 1, got {number!r}.")
    return number


def as_unit(value: object, *, name: str) -> float:
    """Return a number from 0 to 1, both allowed."""
    number = _as_real(value, name=name, expected="a number from 0 to 1")
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{setting(name)} must lie from 0 to 1, got {number!r}.")
    return number


def as_positive(value: object, *, name: str) -> float:
    """Return a finite number greater than 0."""
    number = _as_real(value, name=name, expected="a number greater than 0")
    if not (math.isfinite(number) and number > 0):
        raise InputError(argument=name, expected="finite and greater than 0", got=repr(number))
    return number


def as_finite(value: object, *, name: str) -> float:
    """Return a finite number of either sign."""
    number = _as_real(value, name=name, expected="a number")
    if not math.isfinite(number):
        raise InputError(argument=name, expected="a finite number", got=repr(number))
    return number


def as_at_least_zero(value: object, *, name: str, such_as: float = 20.0) -> float:
    """Return a finite number of at least 0."""
    number = _as_real(value, name=name, expected="a number")
    if not (math.isfinite(number) and number >= 0):
        raise InputError(
            argument=name,
            expected="a finite number of at least 0",
            got=f"{number:g}",
            hint=f"Use for instance {such_as:g}.",
        )
    return number


def as_delta(delta: object, *, name: str = "delta") -> float:
    """Return the δ of a privacy claim, in [0, 1).

    Examples
    --------
    >>> as_delta(1e-6)
    1e-06
    """
    number = _as_real(delta, name=name, expected="a number")
    if not 0.0 <= number < 1.0:
        raise InputError(
            argument=name,
            expected="at least 0 and below 1",
            got=repr(number),
            hint="Use for instance 1e-6.",
        )
    return number


def as_loss_limit(value: object, *, name: str = "max_loss_increase") -> float:
    """Return the largest acceptable increase of a loss: a finite number of at least 0."""
    return as_at_least_zero(value, name=name, such_as=0.01)


def as_between(value: object, least: float, most: float, *, name: str) -> float:
    """Return a number greater than 0 within limits that are themselves allowed."""
    number = as_positive(value, name=name)
    if not least <= number <= most:
        raise InputError(
            f"{setting(name)} must lie between {least:g} and {most:g}, got {number!r}. "
            "Beyond, double precision does not keep what is promised."
        )
    return number


def as_choice(value: object, choices: Sequence[str], *, name: str) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        came = repr(value) if isinstance(value, str) else type(value).__name__
        raise InputError(argument=name, expected=f"one of {listed}", got=came)
    return value


def require_column(
    name: str,
    columns: Iterable[str],
    *,
    argument: str,
    what: Literal["column", "protected column", "group"] = "column",
    advice: str = "",
) -> str:
    """Return `name` if it is a column; otherwise say which one was probably meant.

    Parameters
    ----------
    name : str
    columns : iterable of str
        Those that may be named.
    argument : str
        The name the caller typed.
    what : str
        What they are, where not every column may be named.
    advice : str
        What else can be done.
    """
    known = list(columns)
    if name in known:
        return name
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    place = {"column": " of the data", "group": " of the result"}.get(what, "")
    meant = f"Did you mean {close[0]!r}?" if close else f"The {what}s are: {', '.join(known[:20])}."
    raise InputError(
        f"{setting(argument)} must name a {what}{place}, got {name!r}.",
        hint=f"{meant} {advice}".rstrip(),
    )


def as_mask(value: BoolArray, *, name: str, n_rows: int) -> BoolArray:
    """Return a boolean mask over `n_rows` rows that selects at least one."""
    import numpy as np

    mask = np.asarray(value)
    if mask.dtype != np.bool_:
        raise InputTypeError(
            f"group {name!r} must be a mask of True and False, got values of type {mask.dtype}."
        )
    if mask.shape != (n_rows,):
        raise InputError(
            f"group {name!r} must have one entry per training row ({n_rows}), "
            f"got an array of shape {mask.shape}."
        )
    if not mask.any():
        raise InputError(f"group {name!r} is empty: it selects none of the {n_rows} training rows.")
    return mask


def require_unique(names: Iterable[str], *, what: str) -> None:
    """Raise if a name stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                f"{what} must be unique, but {name!r} stands more than once. Rename one."
            )
        seen.add(name)


def as_codes(value: object, *, n_categories: int, name: str = "codes") -> NDArray[np.int64]:
    """Return category codes 0..n_categories-1 as 64-bit integers, of any shape."""
    import numpy as np

    codes = np.asarray(value)
    if codes.size == 0:
        return np.zeros(codes.shape, dtype=np.int64)
    if not np.issubdtype(codes.dtype, np.integer):
        raise InputTypeError(
            argument=name,
            expected=f"whole numbers from 0 to {n_categories - 1}",
            got=f"values of type {codes.dtype}",
            hint="Turn the categories into codes first.",
        )
    n_outside = int(np.count_nonzero((codes < 0) | (codes > n_categories - 1)))
    if n_outside:
        raise InputError(
            f"{setting(name)} must be whole numbers from 0 to {n_categories - 1}, but "
            f"{n_outside} of {codes.size} lie outside. Check the number of categories and "
            "look for missing values."
        )
    return codes.astype(np.int64)


def as_counts(value: object, *, name: str, n: int, of: str, advice: str) -> FloatArray:
    """Return n numbers, one for each category or bit, as floats."""
    import numpy as np

    counts = np.asarray(value)
    if counts.shape != (n,):
        raise InputError(
            f"{setting(name)} must have one entry per {of} ({n}), got an array of shape "
            f"{counts.shape}. {advice}"
        )
    if not (np.issubdtype(counts.dtype, np.integer) or np.issubdtype(counts.dtype, np.floating)):
        raise InputTypeError(
            argument=name, expected="numbers", got=f"values of type {counts.dtype}"
        )
    return counts.astype(np.float64)


def as_channel_matrix(value: object, *, name: str = "matrix") -> FloatArray:
    """Return a square matrix with rows that are probabilities, as a read-only copy."""
    import numpy as np

    try:
        matrix = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            argument=name,
            expected="a square table of probabilities",
            got=f"{type(value).__name__} that is not a table of numbers",
            hint="Give one row per true category.",
        ) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError(
            argument=name,
            expected="square (k rows, k columns)",
            got=f"shape {matrix.shape}",
            hint="Give one row per true category and one column per reported one.",
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError(
            f"{setting(name)} must hold probabilities, got entries that are negative or not "
            "finite. Every entry must lie between 0 and 1."
        )
    largest_deviation = float(np.abs(matrix.sum(axis=1) - 1.0).max())
    if largest_deviation > 1e-12 * matrix.shape[0]:
        raise InputError(
            f"{setting(name)} must have rows that sum to 1, got a row that is off by "
            f"{largest_deviation:.3g}. Divide every row by its sum."
        )
    matrix.setflags(write=False)
    return matrix


def as_generator(value: object, *, name: str = "random_state") -> np.random.Generator:
    """Return a NumPy generator from a seed (whole number, at least 0) or a generator."""
    import numpy as np

    if isinstance(value, np.random.Generator):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputTypeError(
            argument=name,
            expected="a whole number or a numpy Generator",
            got=type(value).__name__,
            hint="Leave it out to draw from the operating system.",
        )
    return np.random.default_rng(as_count(value, name=name, least=0))


def require_extra(extra: str, purpose: str, *packages: str, otherwise: str = "") -> None:
    """Refuse, before any work, to go on without the packages of an extra; none is imported.

    Parameters
    ----------
    extra : str
        As pyproject.toml names it.
    purpose : str
        What needs the packages, in the words of whoever asks for it.
    *packages : str
        As they are imported.
    otherwise : str
        What can be done without them.

    Raises
    ------
    MissingExtraError

    Examples
    --------
    >>> require_extra("cluster", "a cluster", "json", "no_such_package")
    Traceback (most recent call last):
    epsilens.errors.MissingExtraError: a cluster needs no_such_package, which is not installed. Run: pip install "epsilens[cluster]"
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(
                f"{purpose} needs {package}, which is not installed. "
                f'Run: pip install "epsilens[{extra}]"{otherwise}'
            )
