# SPDX-License-Identifier: Apache-2.0
"""Scratch files and folders of this process, announced so that a forced end can remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["announce_scratch", "listen_for_scratch", "scratch_folder"]

_listeners: list[Callable[[Path], None]] = []


def announce_scratch(path: Path) -> None:
    """Say that a path is scratch from now on; its name must never be used for anything else."""
    for listener in _listeners:
        listener(path)


@contextmanager
def listen_for_scratch(listener: Callable[[Path], None]) -> Iterator[None]:
    """Call a function with every scratch path that is announced within the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a private folder that is removed after the block, or at a forced end."""
    with TemporaryDirectory() as name:
        announce_scratch(Path(name))
        yield Path(name)
