# SPDX-License-Identifier: Apache-2.0
"""How a command ends when it is told to: in order if it can, within seconds in any case.

Python runs the handler of a signal between two instructions of its own. A long call into a library delays
it, and a call that keeps the interpreter's lock delays every thread. So a small second process, the guard,
hears of the signal too: the system's own handler writes it to a pipe. If the command has not reacted in
time, the guard removes its scratch files, ends the processes that it started, and ends it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, ClassVar

from epsilens._scratch import listen_for_scratch

if TYPE_CHECKING:
    from epsilens._processes import Process


EXIT_BAD_INPUT = 2
EXIT_LIMIT_NOT_MET = 3
"""It ran, and a limit that was asked for, or a claim that was audited, does not hold."""
EXIT_BY_SIGNAL = 128
"""Plus the number of the signal, as shells count: 143 for SIGTERM."""
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

ENDED = "Stopped: nothing half-written was left behind."
INTERRUPTED = "Interrupted: nothing half-written was left behind."

SECONDS_TO_NOTICE = 2.0
"""Time for the command's own handler to run."""
SECONDS_TO_TIDY = 5.0
"""Time for the command to end in order once its handler has run."""
_SECONDS_APART = 0.5
"""Signals that come closer together are one: `timeout` and `make` pass on what the terminal has sent."""
_SECONDS_TO_EXIT = 0.5
_SECONDS_BETWEEN_LOOKS = 0.5

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_NOTICED, _DONE, _OTHERS, _SCRATCH = b"N", b"D", b"O", b"S"


class Ended(SystemExit):
    """The operating system asked this program to end."""


@contextmanager
def ends_when_told(say: Callable[[str], None], *, is_program: bool) -> Iterator[None]:
    """Let SIGTERM, a closed terminal and Ctrl-C end the command: scratch files go first.

    Parameters
    ----------
    say : callable
        Prints one line to standard error.
    is_program : bool
        Whether the command is all that this process does. Only then is it ended by force.

    Raises
    ------
    Ended
        In the main thread, at SIGTERM or SIGHUP.
    """
    heard: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if guard is not None:
            if len(heard) > 1:
                return  # the command is ending already; if that takes too long, the guard ends it
            guard.tell(_NOTICED)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Ended(EXIT_BY_SIGNAL + number)

    with ExitStack() as stack:
        guard = _Guard.start(say) if is_program else None
        if guard is not None:
            stack.callback(guard.dismiss)
            stack.enter_context(listen_for_scratch(guard.tell_scratch))
        for number in _SIGNALS:
            if number == signal.SIGINT and guard is None:
                continue
            before = signal.getsignal(number)
            # Whoever ignores it, as `nohup` does, has a reason.
            if before not in (signal.SIG_DFL, signal.default_int_handler):
                continue
            with suppress(ValueError):  # only a program's main thread may arrange that
                signal.signal(number, end)
                stack.callback(signal.signal, number, before)
        yield


def others_handle_signals() -> None:
    """Say that a library handles signals from now on: it gets the time to end in order that we get."""
    if _Guard.current is not None:
        _Guard.current.tell(_OTHERS)


@dataclass(frozen=True)
class _Guard:
    """The command's side of the guard.

    Parameters
    ----------
    pid : int
    alarms, notes : int
        Pipes to the guard: the numbers of signals, and what it must know.
    owner : int
        The command itself.
    """

    current: ClassVar[_Guard | None] = None

    pid: int
    alarms: int
    notes: int
    owner: int

    @classmethod
    def start(cls, say: Callable[[str], None]) -> _Guard | None:
        """Start the guard; None where there are no processes to be had, or this is no main thread."""
        if not hasattr(os, "fork") or threading.current_thread() is not threading.main_thread():
            return None
        alarms, notes, verdict = os.pipe(), os.pipe(), os.pipe()
        command = os.getpid()
        try:
            with warnings.catch_warnings():  # of threads, none of whose locks the guard needs
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError:
            for end in (*alarms, *notes, *verdict):
                os.close(end)
            return None
        if pid == 0:
            try:
                for end in (alarms[1], notes[1], verdict[0]):
                    os.close(end)
                _Watch(command, alarms[0], notes[0], verdict[1], say).run()
            finally:
                os._exit(0)
        for end in (alarms[0], notes[0], verdict[1]):
            os.close(end)
        os.set_blocking(alarms[1], False)
        guard = cls.current = cls(pid, alarms[1], notes[1], command)
        signal.set_wakeup_fd(alarms[1], warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=guard.forget)
        threading.Thread(target=_exit_when_told, args=(verdict[0],), daemon=True).start()
        return guard

    def tell(self, kind: bytes, content: bytes = b"") -> None:
        """Tell the guard something; whether it still listens does not matter to the command."""
        if os.getpid() == self.owner:
            with suppress(OSError):
                os.write(self.notes, kind + content + b"\0")

    def tell_scratch(self, path: Path) -> None:
        """Tell the guard what to remove if it must end the command."""
        self.tell(_SCRATCH, os.fsencode(path.absolute()))

    def dismiss(self) -> None:
        """Let the guard go: the command has ended in order."""
        _Guard.current = None
        self.tell(_DONE)
        signal.set_wakeup_fd(-1)
        os.close(self.alarms)
        os.close(self.notes)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def forget(self) -> None:
        """Leave the guard to the command, in a process that was forked from it."""
        if _Guard.current is not self:
            return
        _Guard.current = None
        with suppress(ValueError):  # forked outside the main thread
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                if getattr(signal.getsignal(number), "__module__", None) == __name__:
                    is_control_c = number == signal.SIGINT
                    usual = signal.default_int_handler if is_control_c else signal.SIG_DFL
                    signal.signal(number, usual)


def _exit_when_told(verdict: int) -> None:
    """End the process with the exit code that the guard gives, while the main thread is elsewhere."""
    code = os.read(verdict, 1)
    os.close(verdict)
    if code:
        os._exit(code[0])


class _Watch:
    """The guard's own side: it waits for signals, and for the command to end.

    Parameters
    ----------
    command : int
        The process that is guarded, which is the parent.
    alarms, notes, verdict : int
        Pipes from it and to it.
    say : callable
    """

    def __init__(
        self, command: int, alarms: int, notes: int, verdict: int, say: Callable[[str], None]
    ) -> None:
        self._command, self._alarms, self._notes, self._verdict = command, alarms, notes, verdict
        self._say = say
        self._scratch: set[bytes] = set()
        self._children: set[Process] = set()
        self._unread = b""
        self._told: int | None = None
        self._told_at = 0.0
        self._deadline: float | None = None
        self._others_handle = False
        self._is_done = self._is_gone = False

    def run(self) -> None:
        """Return once the command has ended, by itself or by force."""
        os.setsid()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):  # whoever reads what the command prints waits for nobody else
            os.dup2(nowhere, stream)
        while not self._is_done:
            self._listen()
            is_late = self._deadline is not None and time.monotonic() >= self._deadline
            if not self._is_done and (self._is_gone or is_late):
                self._end()
                return

    def _listen(self) -> None:
        left = _SECONDS_BETWEEN_LOOKS
        if self._deadline is not None:
            left = min(left, max(self._deadline - time.monotonic(), 0.0))
        ready, _, _ = select.select([self._alarms, self._notes], [], [], left)
        # In this order: a note that a signal was noticed follows its alarm.
        if self._alarms in ready:
            self._read_alarms()
        if self._notes in ready:
            self._read_notes()
        self._is_gone = self._is_gone or os.getppid() != self._command

    def _read_notes(self) -> None:
        found = os.read(self._notes, 65_536)
        if not found:
            self._is_gone = True
            return
        *notes, self._unread = (self._unread + found).split(b"\0")
        for note in notes:
            kind = note[:1]
            if kind == _SCRATCH:
                self._scratch.add(note[1:])
            elif kind == _OTHERS:
                self._others_handle = True
            elif kind == _NOTICED and self._told is not None:
                self._deadline = self._told_at + SECONDS_TO_TIDY
            elif kind == _DONE:
                self._is_done = True

    def _read_alarms(self) -> None:
        from epsilens._processes import descendants

        found = os.read(self._alarms, 64)
        ends = [number for number in found if number in _SIGNALS]
        if not ends:
            return
        now = time.monotonic()
        if self._told is None:
            self._told, self._told_at = ends[0], now
            self._deadline = now + (SECONDS_TO_TIDY if self._others_handle else SECONDS_TO_NOTICE)
            self._children = descendants(self._command)
        elif now - self._told_at > _SECONDS_APART:
            # A library that has ended in order may send the signal once more, to our handler.
            self._deadline = now + (_SECONDS_APART if self._others_handle else 0.0)

    def _end(self) -> None:
        """Clean up behind the command, and end it if it has not ended."""
        from epsilens._processes import descendants, running, send

        if not self._is_gone:
            self._children |= descendants(self._command)
        alive = {(process.pid, process.began) for process in running()}
        for process in () if self._others_handle else self._children:  # one may be a browser
            if process.pid != os.getpid() and (process.pid, process.began) in alive:
                send(process.pid, signal.SIGKILL)
        for path in self._scratch:
            _remove(os.fsdecode(path))
        if self._told is None:
            return
        with suppress(OSError):
            if sys.stderr.isatty():
                os.write(2, b"\r\033[K\033[?25h")  # a progress bar may have hidden the cursor
            self._say(INTERRUPTED if self._told == signal.SIGINT else ENDED)
        if self._is_gone:
            return
        os.write(self._verdict, bytes([EXIT_BY_SIGNAL + self._told]))
        until = time.monotonic() + _SECONDS_TO_EXIT
        while os.getppid() == self._command and time.monotonic() < until:
            time.sleep(0.01)
        if os.getppid() == self._command:  # it keeps the interpreter's lock
            send(self._command, signal.SIGKILL)


def _remove(path: str) -> None:
    import shutil

    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
