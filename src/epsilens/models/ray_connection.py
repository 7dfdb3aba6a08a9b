# SPDX-License-Identifier: Apache-2.0
"""The connection with a Ray cluster that is already there: made, checked, and left without a trace.

Nothing is started but tasks, and no address is guessed: Ray by itself would wait for minutes for
somebody who is not there, print its own lines, and take over the signals that end a program.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
import secrets
import signal
import socket
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsilens._foreign import (
    RAY_CLIENT_NOT_STARTED,
    RAY_OTHER_MACHINE,
    RAY_OTHER_VERSION,
    RAY_VERSIONS,
)
from epsilens._validate import require_extra
from epsilens.errors import ApproximationWarning, InputError, PrivacyLeakWarning
from epsilens.models.passes import one_blas_thread, use_passes

# --- What is sent to the workers of a cluster, and what they do with it ---

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


# --- Passes on a Ray cluster: the same work on every piece, results in order, wherever it was done ---

Task = TypeVar("Task")
Result = TypeVar("Result")

MOST_RETRIES = 5
"""How often a task is done again after its worker or its node was lost."""
SECONDS_WITHOUT_NODE = 60.0
"""How long a cluster may have no processor at all before we stop to wait for one."""

_PENDING_PER_WORKER = 3
_SECONDS_BETWEEN_LOOKS = 5.0


class RayPasses:
    """Passes on the cluster that Ray is connected with; made by `epsilens.cluster.use`.

    Every task takes one processor. A task whose worker or node is lost is done again elsewhere, the
    others are not; an exception of the work itself is raised here at once, as itself.
    """

    def __init__(self) -> None:
        import ray

        self._ray: Any = ray
        self._do: Any = ray.remote(num_cpus=1, max_retries=MOST_RETRIES, retry_exceptions=False)(
            do_task
        )
        self._shipping = Shipping(ray.put)

    @property
    def n_workers(self) -> int:
        """How many processors the cluster has now; at least one."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def map(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Generator[Result, None, None]:
        """Yield `work(task)` for every task, in the order of the tasks."""
        packed, arrays = self._shipping.pack(work)
        function = self._ray.put(packed)
        number = secrets.token_hex(8)
        most = _PENDING_PER_WORKER * self.n_workers
        waiting = iter(tasks)
        pending: deque[Any] = deque()
        # When this is left early, by an error or Ctrl-C, no more are begun. The few under way are not
        # cancelled: Ray's `cancel` can end this very process when a task finishes at the same moment. They
        # end with the connection, or by themselves.
        while True:
            for task in waiting:
                pending.append(self._do.remote(number, function, task, *arrays))
                if len(pending) >= most:
                    break
            if not pending:
                return
            yield self._result(pending.popleft())

    def _result(self, reference: Any) -> Any:
        """Wait for a task, and give what it gave; re-issue its warnings."""
        from ray.exceptions import GetTimeoutError, RayError

        alone_since: float | None = None
        answer: Answer | None = None
        while answer is None:
            try:
                answer = self._ray.get(reference, timeout=_SECONDS_BETWEEN_LOOKS)
            except GetTimeoutError:
                now = time.monotonic()
                has_processor = self._ray.cluster_resources().get("CPU", 0) >= 1
                alone_since = None if has_processor else alone_since or now
                if alone_since is not None and now - alone_since > SECONDS_WITHOUT_NODE:
                    raise InputError(
                        "the cluster has had no processor to offer for "
                        f"{SECONDS_WITHOUT_NODE:.0f} seconds. Start its nodes again, or run without a "
                        "cluster."
                    ) from None
            except (RayError, ConnectionError) as error:
                raise InputError(
                    f"the cluster could not finish a task, tried up to {MOST_RETRIES + 1} times "
                    f"({type(error).__name__}): its workers ended, mostly for lack of memory, or the "
                    "connection was lost. Look at the cluster's logs, or run without a cluster."
                ) from None
        if answer.error is not None:
            raise answer.error
        for warning in answer.warnings:
            warnings.warn(warning, stacklevel=3)
        return answer.result


# --- The connection with a Ray cluster that is already there: made, checked, and left without a trace ---

SECONDS_TO_REACH = 10.0
"""Within which somebody must answer at the address."""
SECONDS_TO_CHECK = 60.0
"""Within which a node must have answered the first task; one that has not is left to Ray."""

_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_SETTINGS = 4
_CLIENT = "ray://"
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Otherwise a program started by `uv run` sends its whole working folder to the cluster.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # The first failure is raised here; the others of the same pass need not be printed.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "RAY_DEDUP_LOGS": "0",
}

_open: list[Connection] = []
"""The connection that is open, if any: Ray has one a process."""


class Connection:
    """A cluster in use; leave it by `stop`, or at the end of a `with` block."""

    def __init__(self, ending: ExitStack) -> None:
        self._ending = ending

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Disconnect and let this machine do the work again; doing it twice does no harm."""
        if self in _open:
            _open.remove(self)
        self._ending.close()


def is_connected() -> bool:
    """Return whether passes go to a cluster now.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_connected()
    False
    """
    return bool(_open)


def open_connection() -> Connection | None:
    """Return the connection that is open, if any."""
    return _open[0] if _open else None


def connect(address: str) -> Connection:
    """Connect with a cluster, look whether its nodes can do our work, and let it carry the passes.

    Parameters
    ----------
    address : str
        `ray://HOST:PORT`, `HOST:PORT`, or `auto`.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    InputError
        If there is no such cluster, or its versions are others than ours.
    """
    require_extra("cluster", "a cluster", "ray")
    if _open:
        raise InputError(
            "a cluster is in use already. Leave it by `epsilens.cluster.stop()` before using another."
        )
    _require_somebody(_checked(address))
    with ExitStack() as ending:
        # What keeps Ray quiet, where the user has not said otherwise.
        for name in _QUIET.keys() - os.environ.keys():
            os.environ[name] = _QUIET[name]
            ending.callback(os.environ.pop, name, None)
        # Imported only now: Ray reads its settings when it is imported.
        import ray

        if ray.is_initialized():
            raise InputError(
                "Ray is connected in this process already, by other code. Call `ray.shutdown()` first."
            )
        # Ray prints to standard output, where our numbers go, that a node was lost, and has no setting for
        # that. A version of it that does this elsewhere is left as it is.
        from ray._private import worker

        prints = getattr(worker, "print_to_stdstream", None)
        if prints is not None:
            worker.print_to_stdstream = lambda *_, **__: None
            ending.callback(setattr, worker, "print_to_stdstream", prints)
        with _own_signals():
            _join(ray, address)
        ending.callback(_leave, ray)
        _check_nodes(ray)

        ending.enter_context(use_passes(RayPasses()))
        connection = Connection(ending.pop_all())
    _open.append(connection)
    return connection


# --- Reaching it ---


def _checked(address: str) -> str:
    plain = address.removeprefix(_CLIENT)
    host, _, port = plain.rpartition(":")
    is_place = bool(re.fullmatch(r"[\w.\-\[\]:%]+", host)) and port.isascii() and port.isdecimal()
    if address != "auto" and not (is_place and 0 < int(port) < 65536):
        raise InputError(
            "the address of a cluster must be `ray://HOST:10001`, `HOST:6379` or `auto`, got "
            f"{address!r}. Ask whoever runs the cluster."
        )
    return address


def _require_somebody(address: str) -> None:
    """Refuse an address where nobody answers as Ray does: Ray itself would take two minutes.

    Its servers speak HTTP/2, which begins with a frame of settings from each side.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "auto")
        if address == "auto":
            return  # Ray looks whether there is one on this machine, and says so at once
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    waited = False
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_REACH) as link:
            if os.environ.get("RAY_USE_TLS", "0") == "1":
                return
            link.settimeout(SECONDS_TO_REACH)
            link.sendall(_HTTP2_HELLO)
            said = link.recv(9)
    except (OSError, ValueError) as error:
        said, waited = b"", isinstance(error, TimeoutError)
    if len(said) < 4 or said[3] != _HTTP2_SETTINGS:
        raise _nobody(address, waited=waited)


def _nobody(address: str, *, waited: bool = False) -> InputError:
    # Who refuses does so at once, and Ray itself waits as long as it likes.
    within = f" within {SECONDS_TO_REACH:.0f} seconds" if waited else ""
    return InputError(
        f"no Ray cluster answers at {address}{within}. Check the address, or start a cluster."
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what the program has arranged for its end, which Ray overwrites."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _join(ray: Any, address: str) -> None:
    for is_last in (False, True):
        try:
            ray.init(address=address, logging_level="ERROR", log_to_driver=False)
            return
        except (ConnectionError, TimeoutError) as error:
            _leave(ray)
            if RAY_CLIENT_NOT_STARTED not in str(error):
                raise _nobody(address) from None
            # What serves a client is started for each, and on a busy machine sometimes fails to.
            if is_last:
                raise InputError(
                    "the cluster did not start what serves a client, tried twice. Try again, or run on "
                    "one of its nodes with `auto`."
                ) from None
        except (RuntimeError, ValueError) as error:
            _leave(ray)
            raise InputError(_refusal(str(error))) from None


def _refusal(said: str) -> str:
    """Return one line for what Ray says in many."""
    found = RAY_VERSIONS.findall(said)
    if RAY_OTHER_VERSION in said and len(found) == 4:
        theirs, ours = (", ".join(" ".join(pair) for pair in found[i : i + 2]) for i in (0, 2))
        return (
            f"the cluster runs {theirs}, and this program {ours}: they must be the same. Install the "
            "cluster's versions here."
        )
    if any(words in said for words in RAY_OTHER_MACHINE):
        return (
            "this machine is not a node of the cluster. Use its `ray://HOST:10001` address, or run on one "
            "of its nodes."
        )
    line = " ".join(said.split())
    return f"Ray could not connect ({line[:160]!r}). Check the address and the cluster's logs."


def _leave(ray: Any) -> None:
    with _own_signals():
        ray.shutdown()


# --- Whether its nodes can do our work ---


def _check_nodes(ray: Any) -> None:
    """Refuse a cluster with a node that lacks this package, or has another version of it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [
        node["NodeID"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    if not nodes:
        raise InputError("the cluster has no node with a processor to offer. Start one.")
    # Defined in a function, so that Ray sends it whole instead of asking for our package.
    look = ray.remote(num_cpus=0, max_retries=1)(_look_of_worker())
    asked = [
        look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        ).remote()
        for node in nodes
    ]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=SECONDS_TO_CHECK)
    if not answered:
        raise InputError(
            f"no node of the cluster began a task within {SECONDS_TO_CHECK:.0f} seconds. Look at the "
            "cluster's logs."
        )
    found = []
    for reference in answered:
        try:
            found.append(ray.get(reference))
        except ray.exceptions.RayError:
            continue  # the node was lost meanwhile, as nodes may be
    _require_package(found)


def _look_of_worker() -> Any:
    def look() -> str | None:
        try:
            import epsilens
        except ImportError:
            return None
        return str(epsilens.__version__)

    return look


def _require_package(found: list[str | None]) -> None:
    import epsilens

    ours = epsilens.__version__
    install = f'pip install "epsilens[cluster]=={ours}"'
    if None in found:
        raise InputError(
            f"{found.count(None)} of {len(found)} nodes of the cluster do not have epsilens. Run at every "
            f"node: {install}"
        )
    others = sorted({str(version) for version in found} - {ours})
    if others:
        raise InputError(
            f"nodes of the cluster have epsilens {', '.join(others)}, and this program {ours}. Run at "
            f"every node: {install}"
        )
