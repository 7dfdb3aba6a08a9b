# SPDX-License-Identifier: Apache-2.0
"""The processes that run on this machine, and which of them came from a given one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PROC", "Process", "descendants", "running", "send"]

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process; with its beginning, since ids are given out again."""

    pid: int
    parent: int
    began: str


def running() -> Iterator[Process]:
    """Look at all processes of the machine that have not ended."""
    if not (PROC / "self" / "stat").exists():
        yield from _listed()
        return
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # The name in brackets may hold anything, brackets included.
        state, parent, *rest = text.rpartition(")")[2].split()
        if state not in "ZX":
            yield Process(int(entry.name), int(parent), rest[17])


def descendants(pid: int) -> set[Process]:
    """Return the processes that were started by a process or by one of its descendants."""
    children: dict[int, list[Process]] = {}
    for process in running():
        children.setdefault(process.parent, []).append(process)
    found: set[Process] = set()
    parents = [pid]
    while parents:
        for process in children.get(parents.pop(), []):
            found.add(process)
            parents.append(process.pid)
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or its id was given to somebody else


def _listed() -> Iterator[Process]:
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
            yield Process(int(pid), int(parent), began)
