# SPDX-License-Identifier: Apache-2.0
"""One pass over data that do not fit into memory: the same work on every piece, results in order.

All that a streamed study does is a *pass*: the same small function is applied to every piece of the data
(a description of where it stands, never the rows themselves), and what comes back, a few arrays of sums,
is joined in the order of the pieces. That order, and not who finished first, decides how numbers are
added, so the answer does not depend on how many workers there are, nor on where they run.

Whoever wants to carry passes elsewhere, onto a cluster for instance, implements `Passes`:

* `map(work, tasks)` yields `work(task)` for every task **in the order of the tasks**;
* `work` and every task can be pickled, are small, and are pure: a task that was lost with its worker is
  simply done again;
* only a bounded number of tasks is under way, so that finished parts do not pile up;
* an exception of `work` is raised where the results are read;
* nobody works on once the generator of the results is closed.

`use_passes` puts another implementation in the place of the local one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import threading
import time
import zipfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from epsilens._types import Progress
from epsilens.data.atomic import replacing
from epsilens.errors import InputError

# --- Finished blocks of models in a folder, so that a killed run goes on where it was ---

_HEAD = "run.json"
_BLOCK = re.compile(r"block-(\d{6})\.npz")
_PART = re.compile(r"\.block-.*\.part")
_FORMAT = 1


class BlockStore:
    """A folder of finished blocks.

    The blocks hold what the caller writes: parameters or scores of models, never a record. They are
    sensitive all the same, since membership can be read from them; the files can be read by their owner
    only. Delete the folder when the run is done.

    Parameters
    ----------
    path : str, Path or None
        The folder; made if it does not exist. None: nothing is kept.
    identity : mapping
        What must agree for blocks to be reused, as plain numbers, strings and lists: settings, seed,
        shapes.
    data : sequence of arrays
        What the run is about. Only a salted digest of it is kept, so that other data are noticed.

    Attributes
    ----------
    done : set of int
        The numbers of the blocks that are there and whole.

    Raises
    ------
    InputError
        If the folder belongs to another run, is no such folder, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> BlockStore(folder, {"seed": 1}).write(0, {"scores": np.arange(3.0)})
    >>> again = BlockStore(folder, {"seed": 1})
    >>> sorted(again.done), again.read(0)["scores"].tolist()
    ([0], [0.0, 1.0, 2.0])
    >>> BlockStore(folder, {"seed": 2})  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    epsilens.errors.InputError: the checkpoint ... belongs to another run ...
    """

    def __init__(
        self,
        path: str | Path | None,
        identity: Mapping[str, object],
        *,
        data: Sequence[NDArray[np.generic]] = (),
    ) -> None:
        self.path = None if path is None else Path(path)
        self.done: set[int] = set()
        if self.path is None:
            return
        head = self._open(self.path)
        if head is None:
            self._begin(identity, data)
            return
        salt = str(head.get("salt"))
        known = (head.get("identity"), head.get("digest"))
        # As JSON, since that turns tuples into lists.
        if known != (json.loads(json.dumps(dict(identity))), _digest(salt, data)):
            raise InputError(
                f"the checkpoint {self.path.name!r} belongs to another run (other data, settings or "
                "seed). Choose another folder, or delete it."
            )
        for file in self.path.iterdir():
            if _PART.fullmatch(file.name):
                file.unlink(missing_ok=True)  # what a killed run was writing: sensitive, and no use
                continue
            match = _BLOCK.fullmatch(file.name)
            # Names say that a block is there, the check sums that it is whole.
            if match and _is_whole(file):
                self.done.add(int(match[1]))

    def read(self, block: int) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of a finished block."""
        with np.load(self._file(block), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def write(self, block: int, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Keep the arrays of a block, on disk before returning."""
        if self.path is None:
            return
        named: dict[str, Any] = dict(arrays)
        with replacing(self._file(block), private=True) as scratch, scratch.open("wb") as file:
            np.savez(file, **named)
        self.done.add(block)

    def _file(self, block: int) -> Path:
        assert self.path is not None  # noqa: S101
        return self.path / f"block-{block:06d}.npz"

    def _open(self, path: Path) -> dict[str, object] | None:
        """Return what the first file says, or None if the folder is new or empty."""
        names = make_folder(path)
        if not any(not name.startswith(".") for name in names):
            return None
        try:
            head = json.loads((path / _HEAD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            head = None
        if not isinstance(head, dict) or head.get("epsilens_blocks") != _FORMAT:
            raise InputError(
                f"the folder {path.name!r} is not a checkpoint and is left alone. Choose another."
            )
        return head

    def _begin(self, identity: Mapping[str, object], data: Sequence[NDArray[np.generic]]) -> None:
        assert self.path is not None  # noqa: S101
        salt = secrets.token_hex(16)
        head = {
            "epsilens_blocks": _FORMAT,
            "salt": salt,
            "digest": _digest(salt, data),
            "identity": dict(identity),
        }
        with replacing(self.path / _HEAD, private=True) as scratch:
            scratch.write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")


def make_folder(path: Path) -> list[str]:
    """Make the folder of a checkpoint, if it is not there, and return the names in it.

    Raises
    ------
    InputError
        If it cannot be made or written.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        return [file.name for file in path.iterdir()]
    except OSError as error:
        raise InputError(
            f"the checkpoint {path.name!r} must be a folder that can be made and written, got "
            f"{type(error).__name__}. Choose another place."
        ) from None


def _digest(salt: str, data: Sequence[NDArray[np.generic]]) -> str:
    digest = hashlib.sha256(salt.encode())
    for array in data:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _is_whole(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as stored:
            return stored.testzip() is None
    except (OSError, zipfile.BadZipFile, EOFError):
        return False


# --- Finished passes in a folder, so that a killed run goes on where it was ---

_SECONDS_BETWEEN = 20.0


class PassStore:
    """The passes of one run.

    Parameters
    ----------
    path : str or Path
        A folder; made if it does not exist.
    identity : mapping
        What must agree for passes to be reused: files, settings, seed.

    Raises
    ------
    InputError
        If the folder belongs to another run, or is no such folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> PassStore(folder, {"seed": 1}).begin("fit", ()).keep({"total": np.ones(2)}, 3)
    >>> PassStore(folder, {"seed": 1}).begin("fit", ()).found
    ({'total': array([1., 1.])}, 3)
    """

    def __init__(self, path: str | Path, identity: Mapping[str, object]) -> None:
        self._blocks = BlockStore(path, identity)
        self._number = 0
        self.last_was_found = False

    def begin(self, what: str, asked: object) -> KeptPass:
        """Return the place of the next pass, with what is kept of it already."""
        self._number += 1
        kept = KeptPass(self._blocks, self._number, _digest_of_pass(what, asked))
        self.last_was_found = kept.found is not None
        return kept


class KeptPass:
    """One pass: what was kept of it, and where to keep more."""

    def __init__(self, blocks: BlockStore, number: int, digest: str) -> None:
        self._blocks, self._number, self._digest_of_pass = blocks, number, digest
        self._kept_at = time.monotonic()
        self.found: tuple[dict[str, Any], int] | None = None
        if number in blocks.done:
            stored: dict[str, Any] = dict(blocks.read(number))
            done, known = int(stored.pop(".done")), str(stored.pop(".digest"))
            if known == digest:
                self.found = stored, done

    def keep(self, total: Mapping[str, object], done: int) -> None:
        """Keep the sums of the first pieces, unless they hold single records."""
        if any(isinstance(value, list | dict) for value in total.values()):
            return
        arrays = {name: np.asarray(value) for name, value in total.items()}
        extra = {".done": np.array(done), ".digest": np.array(self._digest_of_pass)}
        self._blocks.write(self._number, {**arrays, **extra})
        self._kept_at = time.monotonic()

    def keep_sometimes(self, total: Mapping[str, object], done: int) -> None:
        """Keep them if the last time is long ago."""
        if time.monotonic() - self._kept_at > _SECONDS_BETWEEN:
            self.keep(total, done)


_stores: list[PassStore] = []


def current_store() -> PassStore | None:
    """Return where passes are kept now, if anywhere."""
    return _stores[-1] if _stores else None


@contextmanager
def keeping_passes(store: PassStore) -> Iterator[PassStore]:
    """Keep finished passes while this lasts, and take those that are kept."""
    _stores.append(store)
    try:
        yield store
    finally:
        _stores.remove(store)


def _digest_of_pass(what: str, asked: object) -> str:
    digest = hashlib.sha256(what.encode())

    def add(value: object) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, list | tuple):
            digest.update(f"({len(value)}".encode())
            for one in value:
                add(one)
        elif hasattr(value, "__dataclass_fields__"):
            digest.update(type(value).__name__.encode())
            for name in value.__dataclass_fields__:
                add(getattr(value, name))
        elif callable(value):
            digest.update(getattr(value, "__name__", type(value).__name__).encode())
        elif value is None or isinstance(value, str | int | float | bool | slice | np.generic):
            digest.update(repr(value).encode())
        else:
            # Frozen transformers and the like belong to the run's identity.
            digest.update(type(value).__name__.encode())

    add(asked)
    return digest.hexdigest()


# --- How work is spread over the cores of one machine ---


_PENDING_PER_WORKER = 3


@dataclass(frozen=True)
class Workers:
    """Threads that take tasks; made by `workers`."""

    pool: ThreadPoolExecutor
    n_workers: int

    def run(self, tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the tasks in their order, while later ones are at work.

        Tasks are taken from the iterable only as memory becomes free, so that what they hold does not
        pile up.
        """
        pending: deque[Future[Result]] = deque()
        most = _PENDING_PER_WORKER * self.n_workers
        for task in tasks:
            pending.append(self.pool.submit(task))
            while pending and (len(pending) >= most or pending[0].done()):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def n_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Looking for the libraries of threads takes milliseconds, so it is done once.
_controller = cache(ThreadpoolController)


def one_blas_thread() -> AbstractContextManager[object]:
    """Hold the BLAS at one thread, if this is the main thread.

    The number belongs to the whole process, and OpenBLAS lets only one thread change it: a second
    caller in another thread would undo, or keep, what the first has set. Elsewhere than in the main
    thread the BLAS is left as it is; the numbers are the same.
    """
    if threading.current_thread() is threading.main_thread():
        limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
        return limit
    return nullcontext()


@contextmanager
def workers(n_workers: int | None = None) -> Iterator[Workers]:
    """Give one worker per core, each with a BLAS of one thread if called from the main thread.

    Parameters
    ----------
    n_workers : int, optional
        Another number of workers.

    Examples
    --------
    >>> with workers() as team:
    ...     list(team.run((lambda k=k: k * k) for k in range(4)))
    [0, 1, 4, 9]
    """
    n = n_workers or n_cores()
    pool = ThreadPoolExecutor(max_workers=n, thread_name_prefix="epsilens")
    try:
        with one_blas_thread():
            yield Workers(pool, n)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


# --- One pass over data that do not fit into memory: the same work on every piece, results in order ---

Task = TypeVar("Task")
Result = TypeVar("Result")
Part = dict[str, Any]
"""What a piece gives: named arrays of sums, or lists of arrays, one behind the other."""


class Passes(Protocol):
    """Who applies a function to every piece; see the head of this file for what it promises."""

    @property
    def n_workers(self) -> int:
        """How many tasks are worked on at the same time."""
        ...

    def map(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Generator[Result, None, None]:
        """Yield `work(task)` for every task, in the order of the tasks."""
        ...


class LocalPasses:
    """Passes on the cores of this machine, one thread each.

    Decoding parquet, the products of matrices and the functions of arrays all let go of the
    interpreter, so threads keep both cores busy and nothing is copied between them.

    Parameters
    ----------
    n_workers : int, optional
        None: one for every core that this process may use.

    Examples
    --------
    >>> list(LocalPasses(2).map(lambda task: task * task, [1, 2, 3]))
    [1, 4, 9]
    """

    def __init__(self, n_workers: int | None = None) -> None:
        self.n_workers = n_workers or n_cores()

    def map(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Generator[Result, None, None]:
        """Yield `work(task)` for every task, in the order of the tasks."""
        with workers(self.n_workers) as team:
            yield from team.run(partial(work, task) for task in tasks)


_chosen: list[Passes] = [LocalPasses()]


def current_passes() -> Passes:
    """Return who carries passes now: this machine, unless `use_passes` says otherwise.

    Examples
    --------
    >>> current_passes().n_workers >= 1
    True
    """
    return _chosen[-1]


def place_of_work() -> dict[str, object]:
    """Return the statement of a result about where it was computed: on a cluster, never which.

    Examples
    --------
    >>> place_of_work()
    {}
    """
    return {} if isinstance(current_passes(), LocalPasses) else {"cluster": True}


@contextmanager
def use_passes(passes: Passes) -> Iterator[Passes]:
    """Let somebody else carry the passes while this lasts.

    Examples
    --------
    >>> with use_passes(LocalPasses(1)) as alone:
    ...     current_passes() is alone
    True
    """
    _chosen.append(passes)
    try:
        yield passes
    finally:
        _chosen.remove(passes)


def added(left: Part, right: Part) -> Part:
    """Return the sums of two parts, array by array; a part without arrays has no rows.

    Examples
    --------
    >>> import numpy as np
    >>> added({"total": np.ones(2)}, {"total": np.ones(2)})["total"]
    array([2., 2.])
    """
    if not left:
        return right
    for name, value in right.items():
        left[name] = left[name] + value
    return left


def largest(left: Part, right: Part) -> Part:
    """Return the larger of two parts, entry by entry.

    Examples
    --------
    >>> import numpy as np
    >>> largest({"reach": np.array([1.0, 4.0])}, {"reach": np.array([2.0, 3.0])})["reach"]
    array([2., 4.])
    """
    if not left:
        return right
    return {name: np.maximum(left[name], right[name]) for name in right} if right else left


def reduce_pass(
    work: Callable[[Task], Part],
    tasks: Sequence[Task],
    *,
    join: Callable[[Part, Part], Part] = added,
    what: str = "",
    progress: Progress | None = None,
) -> Part:
    """Apply `work` to every task and join what comes back, in the order of the tasks.

    Parameters
    ----------
    work : callable
        From a task to a part; can be pickled, and is pure.
    tasks : sequence
        At least one.
    join : callable
        From two parts to one; the first may be changed.
    what : str
        What the pass is for, as progress shows it.
    progress : callable, optional
        Called with (done, total, what).

    Examples
    --------
    >>> import numpy as np
    >>> int(reduce_pass(lambda task: {"n": np.array(task)}, [1, 2, 3])["n"])
    6
    """
    store = current_store()
    kept = None if store is None else store.begin(what, work)
    total, first = kept.found if kept is not None and kept.found is not None else ({}, 0)
    for done, part in enumerate(current_passes().map(work, tasks[first:]), start=first + 1):
        total = join(total, part)
        if progress is not None:
            progress(done, len(tasks), what)
        if kept is not None and done < len(tasks):
            kept.keep_sometimes(total, done)
    if kept is not None and first < len(tasks):
        kept.keep(total, len(tasks))
    return total


# --- Blocks of models that are trained wherever passes are carried, and kept where the caller is ---


def made_or_kept(
    store: BlockStore,
    work: Callable[[Task], NDArray[Any]],
    tasks: Mapping[int, Task],
    *,
    name: str,
) -> Iterator[NDArray[Any]]:
    """Yield the array of every block, in order: from the store where it is there, else made and kept.

    Blocks are made by whoever carries passes now, on this machine or on a cluster; files are written
    here only.

    Parameters
    ----------
    store : BlockStore
    work : callable
        From a task to the array of its block; can be pickled, and is pure.
    tasks : mapping of block number to task
    name : str
        Name of the array in the store.

    Examples
    --------
    >>> import numpy as np
    >>> store = BlockStore(None, {})
    >>> [made.tolist() for made in made_or_kept(store, np.arange, {0: 2, 1: 3}, name="numbers")]
    [[0, 1], [0, 1, 2]]
    """
    known = frozenset(store.done)
    todo = [task for number, task in tasks.items() if number not in known]
    with closing(current_passes().map(work, todo)) as fresh:
        for number in tasks:
            if number in known:
                yield store.read(number)[name]
            else:
                made = next(fresh)
                store.write(number, {name: made})
                yield made
