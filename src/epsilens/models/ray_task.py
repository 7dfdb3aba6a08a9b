# SPDX-License-Identifier: Apache-2.0
"""What is sent to the workers of a cluster, and what they do with it.

The function that is applied to every piece carries arrays with it: parameters, or the features that
shadow models are trained on. Large arrays travel apart from the rest, are known by their content, and so
travel once, however many tasks and passes use them.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilens.errors import ApproximationWarning, InputError, PrivacyLeakWarning
from epsilens.models.passes import one_blas_thread

LEAST_BYTES = 1 << 18
"""Size above which an array is sent on its own."""
PASSES_KEPT = 8
"""How long an array stays at the cluster that no pass has used any more."""

_Content = tuple[str, tuple[int, ...], bool, bytes]
"""What an array is known by: type, shape, order, and a digest of its numbers."""

_OWN_WARNINGS = (PrivacyLeakWarning, ApproximationWarning)

_NO_FILE = (
    "a worker of the cluster does not find the data: every node must see the same files under the same "
    "path. Use a shared folder, or run without a cluster."
)

_held: dict[str, Callable[[Any], Any]] = {}
"""The function that this worker has unpacked last, under the number of its pass."""


@dataclass(frozen=True)
class Answer:
    """What a worker sends back.

    Attributes
    ----------
    result : object
    warnings : tuple of Warning
        Our own, so that whoever asked sees them as if the work had been done at home.
    error : Exception, optional
        What the work has raised. It travels as a result: Ray would print it as well, and wrap it.
    """

    result: Any
    warnings: tuple[Warning, ...] = ()
    error: Exception | None = None


class Shipping:
    """Turns a function into bytes and the large arrays that belong to it.

    Parameters
    ----------
    put : callable
        Sends an array to the cluster and returns how it is known there.
    """

    def __init__(self, put: Callable[[NDArray[Any]], Any]) -> None:
        self._put = put
        self._sent: dict[_Content, Any] = {}
        self._last_used: dict[_Content, int] = {}
        self._n_passes = 0

    def pack(self, work: Callable[..., Any]) -> tuple[bytes, list[Any]]:
        """Return the function without its large arrays, and how these are known at the cluster."""
        from ray import cloudpickle  # reads lambdas and closures, as Ray itself does

        self._n_passes += 1
        places: list[Any] = []
        numbers: dict[int, int] = {}
        alive: list[NDArray[Any]] = []  # so that no id is given out again meanwhile

        class Packer(cloudpickle.CloudPickler):  # type: ignore[misc]
            def persistent_id(packer, thing: object) -> int | None:  # noqa: N805
                if type(thing) is not np.ndarray or thing.nbytes < LEAST_BYTES:
                    return None
                if thing.dtype.hasobject:
                    return None
                if id(thing) not in numbers:
                    numbers[id(thing)] = len(places)
                    alive.append(thing)
                    places.append(self._place(thing))
                return numbers[id(thing)]

        file = io.BytesIO()
        Packer(file, protocol=pickle.HIGHEST_PROTOCOL).dump(work)
        for key, last in list(self._last_used.items()):
            if last <= self._n_passes - PASSES_KEPT:
                del self._last_used[key], self._sent[key]
        return file.getvalue(), places

    def _place(self, array: NDArray[Any]) -> Any:
        """Send an array, unless the same numbers are there already.

        By content and not by identity: an array may have been written to since.
        """
        turned = array.T if array.flags.f_contiguous else array
        digest = hashlib.sha256(np.ascontiguousarray(turned).data).digest()
        key = (array.dtype.str, array.shape, array.flags.f_contiguous, digest)
        if key not in self._sent:
            self._sent[key] = self._put(array)
        self._last_used[key] = self._n_passes
        return self._sent[key]


def do_task(number: str, packed: bytes, task: Any, *arrays: NDArray[Any]) -> Answer:
    """Apply the function to one task, at a worker, with a BLAS of one thread.

    Parameters
    ----------
    number : str
        Identifier of the pass; a worker unpacks its function once.
    packed : bytes
    task : object
    *arrays : arrays
        The large ones; not to be written to.
    """
    with warnings.catch_warnings(record=True) as caught, one_blas_thread():
        warnings.simplefilter("ignore")
        for category in _OWN_WARNINGS:
            warnings.simplefilter("always", category=category)
        try:
            if number not in _held:
                _held.clear()
                _held[number] = _unpack(packed, arrays)
            result = _held[number](task)
        except FileNotFoundError:
            return Answer(None, error=InputError(_NO_FILE))
        except Exception as error:  # raised where the results are read
            return Answer(None, error=_can_travel(error))
    return Answer(result, tuple(one.message for one in caught if isinstance(one.message, Warning)))


def _can_travel(error: Exception) -> Exception:
    """Return an exception as it can be sent: with the place of a mistake of ours, without frames."""
    if not type(error).__module__.startswith("epsilens."):
        places = traceback.format_tb(error.__traceback__)
        error.add_note("At a worker of the cluster:\n" + "".join(places))
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (our own)
    except Exception:  # whatever keeps it from being read
        return RuntimeError(f"{type(error).__name__} at a worker of the cluster")
    return error


def _unpack(packed: bytes, arrays: tuple[NDArray[Any], ...]) -> Callable[[Any], Any]:
    class Unpacker(pickle.Unpickler):
        def persistent_load(self, number: int) -> NDArray[Any]:
            return arrays[number]

    try:
        work: Callable[[Any], Any] = Unpacker(io.BytesIO(packed)).load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"a worker of the cluster cannot read what was sent ({type(error).__name__}): its packages "
            "differ from those here. Install the same versions at every node."
        ) from None
    return work
