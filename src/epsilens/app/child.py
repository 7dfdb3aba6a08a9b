# SPDX-License-Identifier: Apache-2.0
"""The server's side of a working process: starts it, asks it, ends it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from epsilens._types import Progress
from epsilens.app.uploads import TooLargeError
from epsilens.errors import InputError, MissingAnswersError, Remedy

COMMAND = [sys.executable, "-P", "-m", "epsilens.app.worker"]
LONGEST_ANSWER = 300.0
"""Seconds that somebody waits at the page before the work is given up."""


class StoppedError(RuntimeError):
    """The working process is gone before it answered."""


class WorkFault(RuntimeError):  # noqa: N818
    """The work went wrong through a fault of ours; where, is on the terminal."""


class Child:
    """One working process.

    Parameters
    ----------
    folder : Path
        Where it may write what it needs for a moment: in a folder of its own, which goes with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / secrets.token_hex(8)
        self._folder.mkdir(mode=0o700)
        # Libraries write into the folder of the system, where others may look, unless told.
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self._folder))
        self._process = subprocess.Popen(  # noqa: S603
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **places},
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
                if message["remedies"]:
                    remedies = tuple(Remedy(**found) for found in message["remedies"])
                    raise MissingAnswersError(message["refused"], remedies)
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
        if self._process.returncode is not None:
            return False
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        # A dead process keeps its number until it is collected, so that `kill` meets no stranger.
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._process.pid, how) is None
        except ChildProcessError:  # collected by another thread
            return False

    def kill(self) -> None:
        """End the process and all that it has started; whoever waits for it is told."""
        if self._process.returncode is None:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Helper:
    """A process that is kept for quick questions, one at a time; a new one follows a dead one.

    Parameters
    ----------
    folder : Path
        Where it may write for a moment.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._is_closed = False

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait no longer than somebody at the page would."""
        with self._lock:
            if self._is_closed:
                raise StoppedError("the server is ending")
            if self._child is not None and not self._child.is_alive:
                self._child.kill()
                self._child = None
            if self._child is None:
                self._child = Child(self._folder)
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
