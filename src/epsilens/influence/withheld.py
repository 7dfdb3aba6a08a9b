# SPDX-License-Identifier: Apache-2.0
"""What models print while they are trained is kept back: it may quote data, and would stand among our own output."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STREAMS = ("stdout", "stderr")
_lock = threading.Lock()
_silent: Counter[int] = Counter()
"""How often each thread has asked for silence."""


class _Filtered:
    """A stream that drops what silent threads write."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        if threading.get_ident() in _silent:
            return len(text)
        return int(self.stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def without_output() -> Iterator[None]:
    """Drop what this thread prints; other threads, and whoever waits for them, print as before.

    Examples
    --------
    >>> with without_output():
    ...     print("[LightGBM] [Info] Number of positive: 231")
    >>> print("after")
    after
    """
    own = threading.get_ident()
    with _lock:
        if not _silent:
            for name in _STREAMS:
                setattr(sys, name, _Filtered(getattr(sys, name)))
        _silent[own] += 1
    try:
        yield
    finally:
        with _lock:
            _silent[own] -= 1
            if not _silent[own]:
                del _silent[own]
            if not _silent:
                for name in _STREAMS:
                    # Whoever has put another stream in place meanwhile keeps it.
                    if isinstance(found := getattr(sys, name), _Filtered):
                        setattr(sys, name, found.stream)
