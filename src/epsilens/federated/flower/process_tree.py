# SPDX-License-Identifier: Apache-2.0
"""Processes that were started for a simulation, and theirs: found by their ids and ended for sure.

Flower and Ray put some of theirs into sessions of their own, so no signal to a group reaches all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

from epsilens._processes import PROC, Process, running, send

_SECONDS_BETWEEN_LOOKS = 0.05


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
        self._known: dict[int, Process] = {}
        self._strangers: set[Process] = set()
        self.note()

    def note(self) -> None:
        """Look who is there now, while parents still are: later it may be too late."""
        now = {process.pid: process for process in running()}
        self._known = {
            pid: process
            for pid, process in self._known.items()
            if pid in now and now[pid].began == process.began
        }
        ours = {self._root.pid, *self._known}
        found = True
        while found:
            found = False
            for pid, process in now.items():
                if pid not in ours and (process.parent in ours or self._is_marked(process)):
                    ours.add(pid)
                    found = True
        self._known |= {pid: now[pid] for pid in ours if pid in now}
        self._known.pop(os.getpid(), None)

    def _is_marked(self, process: Process) -> bool:
        if process in self._strangers:
            return False
        try:
            environment = (PROC / str(process.pid) / "environ").read_bytes()
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
                    send(pid, number)
                    asked.add(pid)
            self._root.poll()
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._root.wait()
