# SPDX-License-Identifier: Apache-2.0
"""The process that does the work: tasks come in as lines of JSON, answers go out as lines of JSON.

It prints nothing else: what libraries print may quote data. It ends when the server does, however
the server ends, because then its input does.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO, get_args

from epsilens.app.questions import JobKind
from epsilens.app.uploads import TooLargeError
from epsilens.errors import (
    EstimateNotTrustworthyError,
    InputError,
    MissingAnswersError,
    MissingExtraError,
    place_of,
)

SMALLEST_BOUND = 4 * 2**30
"""Bytes; on a smaller machine than this the system itself must see to it."""
_ROOM = 20
"""A table that is looked at may take so many times its file."""


def _silence() -> tuple[TextIO, TextIO]:
    """Keep the way to the server and to the terminal for ourselves; give libraries none."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    terminal = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    return answers, terminal


def bound_memory(files: int | None = None) -> None:
    """Ask the system to refuse more memory than the machine has; a table must not stop it.

    Parameters
    ----------
    files : int, optional
        Bytes of the tables that are looked at: nor may they take far more than they are.

    Notes
    -----
    Only where the system counts what a process may write (Linux): address space alone says little,
    because libraries for arithmetic reserve much more of it than they use.
    """
    if sys.platform != "linux":
        return
    import resource

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [max(machine, SMALLEST_BOUND)]
    bounds += [_GIVEN] if _GIVEN is not None else []
    bounds += [hard] if hard != resource.RLIM_INFINITY else []
    bounds += [SMALLEST_BOUND + _ROOM * files] if files is not None else []
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))


def _given_bound() -> int | None:
    """Return the bound that was set before we began, if there was one."""
    if sys.platform != "linux":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


_GIVEN = _given_bound()


def _size(path: str) -> int:
    """Return the bytes of a file, or of a folder of them; none of what is gone."""
    place = Path(path)
    files = place.rglob("*") if place.is_dir() else [place]
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total


def _leave(code: int) -> None:
    """End at once, with all that was started from here."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(code)


def main() -> None:
    """Answer tasks until there are no more."""
    os.umask(0o077)
    bound_memory()
    answers, terminal = _silence()
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            tasks.put(json.loads(line))
        _leave(0)

    threading.Thread(target=listen, daemon=True).start()

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    from epsilens.app.engine import Engine

    engine = Engine()
    sizes: dict[str, int] = {}
    while True:
        task = tasks.get()
        try:
            # Jobs train many models at once: they may take what there is.
            if "path" in task and task["task"] not in get_args(JobKind):
                for path in filter(None, (task["path"], task.get("test_path"))):
                    sizes[path] = _size(path)
                bound_memory(sum(sizes.values()))
            found = engine.answer(
                task, lambda done, total, what: say({"progress": [done, total, what]})
            )
        except (InputError, EstimateNotTrustworthyError, MissingExtraError) as error:
            remedies = error.remedies if isinstance(error, MissingAnswersError) else ()
            say(
                {
                    "refused": error.text,
                    "is_too_large": isinstance(error, TooLargeError),
                    "remedies": [asdict(found) for found in remedies],
                }
            )
        except MemoryError:
            # Whoever asked is told by our end, and the next process begins with nothing in it.
            _leave(1)
        except Exception as error:
            print(place_of(error), file=terminal, flush=True)
            say({"fault": type(error).__name__})
        else:
            say({"answer": found})


if __name__ == "__main__":
    main()
