# SPDX-License-Identifier: Apache-2.0
"""The server's side of a working process: starts it, asks it, ends it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from epsilens.app.uploads import TooLargeError
from epsilens.errors import InputError

__all__ = ["Child", "Helper", "StoppedError", "WorkFault"]

Progress = Callable[[int, int, str], None]
LONGEST_ANSWER = 300.0
"""Seconds that somebody waits at the page before the work is given up."""


class StoppedError(RuntimeError):
    """The working process is gone before it answered."""


class WorkFault(RuntimeError):  # noqa: N818
    """The work went wrong through a fault of ours; where, is on the terminal."""


class Child:
    """One working process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "epsilens.app.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Ctrl-C is for the server, which ends its processes itself.
            start_new_session=True,
        )

    def ask(self, task: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Give a task and wait for its answer.

        Raises
        ------
        InputError
            What the table or the question is refused for.
        StoppedError
            If the process ends before.
        WorkFault
            If the work fails through a fault of ours.
        """
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise StoppedError("the working process is gone") from None
        for message in self._messages():
            if "progress" in message:
                if progress is not None:
                    progress(*message["progress"])
            elif "refused" in message:
                kind = TooLargeError if message["is_too_large"] else InputError
                raise kind(message["refused"])
            elif "fault" in message:
                raise WorkFault(message["fault"])
            else:
                answer: dict[str, Any] = message["answer"]
                return answer
        raise StoppedError("the working process is gone")

    def _messages(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None  # noqa: S101
        while True:
            try:
                line = self._process.stdout.readline()
                if not line:
                    return
                message = json.loads(line)
            except ValueError:  # ended by us, perhaps in the middle of a line
                return
            yield message

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process now; whoever waits for it is told."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class Helper:
    """A process that is kept for quick questions, one at a time; a new one follows a dead one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._is_closed = False

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait no longer than somebody at the page would."""
        with self._lock:
            if self._is_closed:
                raise StoppedError("the server is ending")
            if self._child is None or not self._child.is_alive:
                self._child = Child()
            child = self._child
            alarm = threading.Timer(LONGEST_ANSWER, child.kill)
            alarm.daemon = True
            alarm.start()
            try:
                return child.ask(task)
            finally:
                alarm.cancel()

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        if self._child is not None:
            self._child.kill()
