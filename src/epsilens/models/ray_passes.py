# SPDX-License-Identifier: Apache-2.0
"""Passes on a Ray cluster: the same work on every piece, results in order, wherever it was done."""

from __future__ import annotations

import secrets
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from epsilens.errors import InputError
from epsilens.models.ray_task import Answer, Shipping, do_task

__all__ = ["RayPasses"]

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

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
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
        answer = self._wait(reference)
        if answer.error is not None:
            raise answer.error
        for category, text in answer.warnings:
            warnings.warn(text, category, stacklevel=3)
        return answer.result

    def _wait(self, reference: Any) -> Answer:
        from ray.exceptions import GetTimeoutError, RayError

        alone_since: float | None = None
        while True:
            try:
                answer: Answer = self._ray.get(reference, timeout=_SECONDS_BETWEEN_LOOKS)
                return answer
            except GetTimeoutError:
                now = time.monotonic()
                alone_since = (alone_since or now) if not self._has_processor() else None
                if alone_since is not None and now - alone_since > SECONDS_WITHOUT_NODE:
                    raise InputError(
                        "the cluster has had no processor to offer for "
                        f"{SECONDS_WITHOUT_NODE:.0f} seconds. Start its nodes again, or run without a "
                        "cluster."
                    ) from None
            except (RayError, ConnectionError) as error:
                raise _lost(error) from None

    def _has_processor(self) -> bool:
        return bool(self._ray.cluster_resources().get("CPU", 0) >= 1)


def _lost(error: Exception) -> InputError:
    return InputError(
        f"the cluster could not finish a task, tried up to {MOST_RETRIES + 1} times "
        f"({type(error).__name__}): its workers ended, mostly for lack of memory, or the connection "
        "was lost. Look at the cluster's logs, or run without a cluster."
    )
