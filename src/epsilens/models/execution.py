# SPDX-License-Identifier: Apache-2.0
"""How work is spread over the cores of one machine.

The matrices here are small enough that a BLAS of several threads spends its time waiting, and on a busy
machine it becomes many times slower than one thread. So each worker gets a core and a BLAS of one
thread; the products release the interpreter, and whole cells run side by side.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["Workers", "n_cores", "one_blas_thread", "workers"]

Result = TypeVar("Result")

_PENDING_PER_WORKER = 3


class Workers:
    """Threads that take tasks; made by `workers`."""

    def __init__(self, pool: ThreadPoolExecutor, n_workers: int) -> None:
        self._pool = pool
        self.n_workers = n_workers
        self._most_pending = _PENDING_PER_WORKER * n_workers

    def run(self, tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the tasks in their order, while later ones are at work.

        Tasks are taken from the iterable only as room becomes free, so that what they hold does not
        pile up.
        """
        pending: deque[Future[Result]] = deque()
        for task in tasks:
            pending.append(self._pool.submit(task))
            while pending and (len(pending) >= self._most_pending or pending[0].done()):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def n_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _controller() -> ThreadpoolController:
    """Return the libraries of threads; looking for them takes milliseconds, so it is done once."""
    return ThreadpoolController()


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
