# SPDX-License-Identifier: Apache-2.0
"""Run a command of Flower's from this environment: `python -m epsilens.federated.flower.launch NAME ...`.

With `--while-parent` first, it ends when whoever started it has ended, however that came about.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib.metadata import entry_points

WHILE_PARENT = "--while-parent"
_SECONDS_BETWEEN_LOOKS = 0.5


def main(arguments: list[str]) -> object:
    """Run the command that is named first, with the other arguments."""
    if arguments[0] == WHILE_PARENT:
        arguments = arguments[1:]
        end_with_parent()
    name, *rest = arguments
    (command,) = entry_points(group="console_scripts", name=name)
    sys.argv = [name, *rest]
    return command.load()()


def end_with_parent() -> None:
    """Let this process end when whoever started it has ended."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))  # type: ignore[arg-type]
