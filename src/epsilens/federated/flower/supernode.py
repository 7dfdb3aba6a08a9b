# SPDX-License-Identifier: Apache-2.0
"""Flower's SuperNode, looking for messages more often: `python -m epsilens.federated.flower.supernode ...`.

It looks every three seconds, and for its own answers every half; a training of ten rounds would spend
most of its time there. After a server's restart it tries again up to twenty seconds later. Flower has
no setting for either.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from flwr.supercore.retry import http_retry
from flwr.supernode import start_client_internal as engine
from flwr.supernode.cli import flower_supernode

from epsilens.federated.flower.launch import end_with_parent

SHORTEST, LONGEST, GROWTH = 0.1, 2.0, 1.15
"""Seconds between two looks for a message: short while messages come, longer in quiet times."""
SECONDS_FOR_AN_ANSWER = 0.02
SECONDS_BETWEEN_TRIES = 3
"""To reach a server that is away."""
_LONG_NAP = 1.0


class Naps:
    """Stands where Flower's node looks for `time`: shortens how long it sleeps.

    Examples
    --------
    >>> naps = Naps()
    >>> naps.next(3), naps.next(0.5), naps.next(3)
    (0.1, 0.02, 0.1)
    """

    def __init__(self) -> None:
        self._quiet = SHORTEST

    def next(self, seconds: float) -> float:
        """Return how long to sleep where Flower would have slept for so many seconds."""
        if seconds < _LONG_NAP:
            # It waits for its own answer, so a message has come.
            self._quiet = SHORTEST
            return min(seconds, SECONDS_FOR_AN_ANSWER)
        nap = min(self._quiet, seconds)
        self._quiet = min(self._quiet * GROWTH, LONGEST)
        return nap

    def sleep(self, seconds: float) -> None:
        """Sleep for a shorter while."""
        time.sleep(self.next(seconds))


def main(arguments: list[str]) -> None:
    """Run the SuperNode."""
    end_with_parent()
    engine.time = Naps()
    engine.pull_objects = partial(engine.pull_objects, initial_backoff=SHORTEST, backoff_cap=1.0)
    http_retry.MAX_RETRY_DELAY = SECONDS_BETWEEN_TRIES
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


if __name__ == "__main__":
    main(sys.argv[1:])
