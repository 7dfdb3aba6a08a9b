# SPDX-License-Identifier: Apache-2.0
"""Processes that were started for a simulation, and theirs: found by their ids and ended for sure.

Flower and Ray put some of theirs into sessions of their own, so no signal to a group reaches all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessTree"]

_PROC = Path("/proc")
_SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True)
class _Process:
    """A process; with its beginning, since ids are given out again."""

    pid: int
    parent: int
    began: str


class ProcessTree:
    """A process that we started, and all that came from it.

    Parameters
    ----------
    root : subprocess.Popen
        Started by us.
    mark : str
        `NAME=VALUE` in its environment, which all its children inherit: one that has lost its
        parents is known by it.
    """

    def __init__(self, root: subprocess.Popen[bytes], mark: str) -> None:
        self._root = root
        self._mark = mark.encode()
        self._known: dict[int, _Process] = {}
        self._strangers: set[_Process] = set()
        self.note()

    def note(self) -> None:
        """Look who is there now, while parents still are: later it may be too late."""
        running = {process.pid: process for process in _running()}
        self._known = {
            pid: process
            for pid, process in self._known.items()
            if pid in running and running[pid].began == process.began
        }
        ours = {self._root.pid, *self._known}
        found = True
        while found:
            found = False
            for pid, process in running.items():
                if pid not in ours and (process.parent in ours or self._is_marked(process)):
                    ours.add(pid)
                    found = True
        self._known |= {pid: running[pid] for pid in ours if pid in running}
        self._known.pop(os.getpid(), None)

    def _is_marked(self, process: _Process) -> bool:
        if process in self._strangers:
            return False
        try:
            environment = (_PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            environment = b""
        marked = self._mark in environment.split(b"\0")
        if environment and not marked:
            self._strangers.add(process)
        return marked

    @property
    def running(self) -> list[int]:
        """The ids of all that run now."""
        self.note()
        return sorted(self._known)

    def end(self, *, seconds: float = 2.0) -> None:
        """Ask all to end, and after some seconds make them; return when nobody is left.

        Parameters
        ----------
        seconds : float
            How long those have who were asked.
        """
        until = time.monotonic() + seconds
        asked: set[int] = set()
        while self.running:
            number = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
            for pid in self._known:
                if number == signal.SIGKILL or pid not in asked:
                    _send(pid, number)
                    asked.add(pid)
            self._root.poll()
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._root.wait()


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or its id was given to somebody else


def _running() -> Iterator[_Process]:
    """Look at all processes of the machine that have not ended."""
    if not (_PROC / "self" / "stat").exists():
        yield from _listed()
        return
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # The name in brackets may hold anything, brackets included.
        state, parent, *rest = text.rpartition(")")[2].split()
        if state not in "ZX":
            yield _Process(int(entry.name), int(parent), rest[17])


def _listed() -> Iterator[_Process]:
    """Look at them where there is no /proc, as on macOS."""
    done = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,stat=,lstart="],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        pid, parent, state, began = line.split(None, 3)
        if not state.startswith("Z"):
            yield _Process(int(pid), int(parent), began)
