# SPDX-License-Identifier: Apache-2.0
"""What travels between coordinator and sites, and what either side refuses to take.

Every message names the version of this protocol and the contract that it is about. Numbers travel as
float64, exactly; of a Hessian, which is symmetric, the upper half. Every array is a row of numbers that the
receiver has listed, no longer than listed; numpy's parser for files never sees what another party has sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from epsilens._types import FloatArray
from epsilens.errors import (
    COMMAND_LINE,
    BudgetExceededError,
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
    SiteError,
)
from epsilens.federated.sums import SiteSums, upper_half, whole_of
from epsilens.valuation.item_messages import MOST_ITEMS

Setting: TypeAlias = str | int | float | bool | bytes
_S = TypeVar("_S", str, int, float, bool, bytes)

PROTOCOL_VERSION = 1
LONGEST_WORD = 2000
"""Signs of a refusal that are shown."""
SETTINGS, ARRAYS = "settings", "arrays"
_SUMS = ("gradient", "hessian")
_MODEL_FOR_TESTER = ("theta", "scale")
_MODEL_FOR_PROVIDER = ("theta", "inverse_hessian", "penalty")
_ASKED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("sums", "steps", "difference", "settle", "masked", "value_submit"), ("theta",)
    ),
    **dict.fromkeys(("value_question", "value_scores"), _MODEL_FOR_TESTER),
    **dict.fromkeys(("value_reply", "value_move"), _MODEL_FOR_PROVIDER),
    "value_score": (*_MODEL_FOR_TESTER, "move"),
}
"""The arrays of a query; one that is not named has none."""
_ANSWERED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sums", "difference", "value_submit"), _SUMS),
    **dict.fromkeys(("value_scores", "value_score"), ("scores",)),
    "steps": ("theta",),
    "value_move": ("move",),
}
"""The arrays of its answer."""
_HEADER = 128
_ROW_OF_NUMBERS = re.compile(
    rb"\x93NUMPY\x01\x00v\x00\{'descr': '<f8', 'fortran_order': False, 'shape': \(([0-9]{1,15}),\), \} *\n"
)
"""The header that `numpy.save` gives a row of float64 numbers, whatever their number."""
_ERRORS: dict[str, type[InputError]] = {
    "BudgetExceededError": BudgetExceededError,
    "InputError": InputError,
}


@dataclass(frozen=True, repr=False)
class Content:
    """A message that was checked: settings, arrays of finite numbers, and who has sent it."""

    settings: Mapping[str, object]
    arrays: Mapping[str, FloatArray]
    sender: str

    def setting(self, name: str, kind: type[_S]) -> _S:
        """Return a setting of the expected type."""
        value = self.settings.get(name)
        if type(value) is not kind:
            raise InputError(
                f"{self.sender}: a message must have the setting {name!r} as {kind.__name__}, got "
                f"{'none' if value is None else type(value).__name__}. Check the versions."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(
                f"{self.sender}: a message must have the setting {name!r} as a finite number."
            )
        return value

    def vector(self, name: str, size: int) -> FloatArray:
        """Return an array of the expected length."""
        found = self.arrays.get(name)
        if found is None or found.shape != (size,):
            came = "none" if found is None else len(found)
            raise InputError(
                f"{self.sender}: a message must have the array {name!r} with {size} numbers, got {came}."
            )
        return found


def arrays_asked(query: str, n_parameters: int) -> dict[str, int]:
    """Return the arrays that a site may be sent with a query, and the most numbers of each.

    Examples
    --------
    >>> arrays_asked("sums", 3), arrays_asked("hello", 3)
    ({'theta': 3}, {})
    """
    return _sizes(_ASKED.get(query, ()), n_parameters)


def arrays_answered(query: str, n_parameters: int) -> dict[str, int]:
    """Return the arrays that a site may answer a query with, and the most numbers of each.

    Examples
    --------
    >>> arrays_answered("sums", 3), arrays_answered("prepare", 3)
    ({'gradient': 3, 'hessian': 6}, {})
    """
    return _sizes(_ANSWERED.get(query, ()), n_parameters)


def _sizes(names: tuple[str, ...], p: int) -> dict[str, int]:
    others = {
        "hessian": p * (p + 1) // 2,
        "inverse_hessian": p * (p + 1) // 2,
        "scores": MOST_ITEMS,
    }
    return {name: others.get(name, p) for name in names}


def pack(
    fingerprint: str, *, arrays: Mapping[str, FloatArray] | None = None, **settings: Setting
) -> RecordDict:
    """Put settings and arrays into a message.

    Parameters
    ----------
    fingerprint : str
        Fingerprint of the contract.
    arrays : mapping of str to array of float64, optional
    **settings : str, int, float, bool or bytes

    Returns
    -------
    flwr.app.RecordDict

    Examples
    --------
    >>> message = pack("0f3a", arrays={"theta": np.zeros(2)}, hessian=True)
    >>> unpack(message, "0f3a", sender="the coordinator", arrays={"theta": 2}).vector("theta", 2)
    array([0., 0.])
    """
    record = ArrayRecord()
    for name, array in (arrays or {}).items():
        record[name] = Array(np.ascontiguousarray(array, dtype=np.float64))
    head: dict[str, Setting] = {"protocol": PROTOCOL_VERSION, "contract": fingerprint}
    return RecordDict({SETTINGS: ConfigRecord({**head, **settings}), ARRAYS: record})


def unpack(
    content: RecordDict, fingerprint: str, *, sender: str, arrays: Mapping[str, int]
) -> Content:
    """Check a message and take it apart.

    Parameters
    ----------
    content : flwr.app.RecordDict
    fingerprint : str
        Fingerprint of the contract that the receiver has agreed to.
    sender : str
        Who has sent it, for a refusal: "the coordinator", "site 2".
    arrays : mapping of str to int
        The arrays that it may have, and the most numbers of each.

    Raises
    ------
    InputError
        If it is of another version or contract, has an array that is not listed or is longer than
        listed, or holds what is no finite number; and whatever the sender itself has refused, as it was
        said there.

    Examples
    --------
    >>> unpack(pack("0f3a"), "77b1", sender="site 2", arrays={})
    Traceback (most recent call last):
    epsilens.errors.InputError: site 2 has agreed to another contract than this one...
    """
    if set(content) != {SETTINGS, ARRAYS}:
        raise InputError(f"{sender} sent a message of an unknown form. Check the versions.")
    settings, record = content[SETTINGS], content[ARRAYS]
    if not isinstance(settings, ConfigRecord) or not isinstance(record, ArrayRecord):
        raise InputError(f"{sender} sent a message of an unknown form. Check the versions.")
    version = settings.get("protocol")
    if version != PROTOCOL_VERSION:
        raise InputError(
            f"{sender} speaks version {version!r} of the protocol, and here it is "
            f"{PROTOCOL_VERSION}. Install the same epsilens everywhere."
        )
    if "refused" in settings:
        kind = _ERRORS.get(str(settings.get("kind")), InputError)
        said = _plain(str(settings["refused"]))
        raise kind(said if settings.get("names_site") else f"{sender}: {said}")
    if settings.get("contract") != fingerprint:
        raise InputError(
            f"{sender} has agreed to another contract than this one. Compare the schema files."
        )
    if not set(record) <= set(arrays):
        raise InputError(
            f"{sender} must send the arrays that it was asked for, got another. Check that it runs the same "
            "epsilens."
        )
    found = {
        name: _checked(array, name, sender, most=arrays[name]) for name, array in record.items()
    }
    return Content(dict(settings), found, sender)


def _plain(text: str) -> str:
    """Return what another party says so that it can be printed: nothing in it commands a terminal.

    Examples
    --------
    >>> _plain(chr(27) + "[2Jall is" + chr(10) + "well")
    ' [2Jall is well'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text[:LONGEST_WORD])


def _checked(array: Array, name: str, sender: str, *, most: int) -> FloatArray:
    """Return the numbers of an array, for which no memory is reserved before its size is known."""
    data = array.data
    header = _ROW_OF_NUMBERS.fullmatch(data[:_HEADER])
    if header is None or int(header[1]) * 8 != len(data) - _HEADER:
        raise InputError(
            f"{sender} must send the array {name!r} as a row of float64 numbers, got something else. Check "
            "that it runs the same epsilens."
        )
    if int(header[1]) > most:
        raise InputError(
            f"{sender}: a message must have the array {name!r} with {most} numbers, got {int(header[1])}. "
            "Check that it runs the same epsilens."
        )
    values: FloatArray = np.frombuffer(data, dtype="<f8", offset=_HEADER).astype(np.float64)
    n_wild = int(np.count_nonzero(~np.isfinite(values)))
    if n_wild:
        raise InputError(
            f"{sender} must send finite numbers, but {n_wild} of {values.size} in the array {name!r} "
            "are not. Nothing was changed."
        )
    return values


def refusal(error: Exception) -> RecordDict:
    """Put into a message why something was refused.

    The text of our own errors holds no data value. That of any other error may, so its name alone
    travels.

    Parameters
    ----------
    error : Exception

    Returns
    -------
    flwr.app.RecordDict

    Examples
    --------
    >>> refusal(KeyError("a person's answer"))["settings"]["refused"]
    'failed with KeyError.'
    """
    if isinstance(error, InputError):
        kind = "BudgetExceededError" if isinstance(error, BudgetExceededError) else "InputError"
        names_site = isinstance(error, SiteError)
        return pack("", refused=error.render(COMMAND_LINE), kind=kind, names_site=names_site)
    if isinstance(error, EstimateNotTrustworthyError | MissingExtraError):
        return pack("", refused=error.render(COMMAND_LINE), kind="InputError")
    return pack("", refused=f"failed with {type(error).__name__}.", kind="InputError")


def pack_sums(fingerprint: str, sums: SiteSums) -> RecordDict:
    """Put a site's sums into a message.

    Examples
    --------
    >>> message = pack_sums("0f3a", SiteSums(9, 6.2, np.ones(2), np.eye(2)))
    >>> content = unpack(message, "0f3a", sender="site 0", arrays=arrays_answered("sums", 2))
    >>> content.arrays["hessian"], read_sums(content, 2, hessian=True).n
    (array([1., 0., 1.]), 9)
    """
    arrays = {"gradient": sums.gradient}
    if sums.hessian is not None:
        arrays["hessian"] = upper_half(sums.hessian)
    return pack(fingerprint, arrays=arrays, n=int(sums.n), loss=float(sums.loss))


def read_sums(content: Content, n_parameters: int, *, hessian: bool) -> SiteSums:
    """Take a site's sums out of a message.

    Parameters
    ----------
    content : Content
    n_parameters : int
    hessian : bool
        Whether one was asked for.

    Raises
    ------
    InputError
        If something has another shape, or a number is missing or not finite.
    """
    n, loss = content.setting("n", int), content.setting("loss", float)
    if n < 1:
        raise InputError(
            f"{content.sender}: a site's sums must be over at least one record, got {n}."
        )
    if not hessian and "hessian" in content.arrays:
        raise InputError(
            f"{content.sender} must send the arrays that it was asked for, got a Hessian too. Check that it "
            "runs the same epsilens."
        )
    gradient = content.vector("gradient", n_parameters)
    if not hessian:
        return SiteSums(n, loss, gradient, None)
    half = content.vector("hessian", n_parameters * (n_parameters + 1) // 2)
    return SiteSums(n, loss, gradient, whole_of(half, n_parameters))
