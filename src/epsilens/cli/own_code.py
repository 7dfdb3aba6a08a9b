# SPDX-License-Identifier: Apache-2.0
"""Code of the user's own inside a command: where it is found, and where what it prints goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def only_standard_error() -> Iterator[None]:
    """Send to standard error what code of the user's own prints: standard output is the result's.

    Done for Python, and for the file that C code and other programs write to.
    """
    printed = sys.stdout
    if printed is not None:
        printed.flush()
    kept = -1
    try:
        elsewhere = os.dup(2)
    except OSError:  # a shell can close it: `2>&-`
        elsewhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # `>&-`
        kept = os.dup(1)
        os.dup2(elsewhere, 1)
    os.close(elsewhere)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            if printed is not None:
                printed.flush()
        if kept >= 0:
            _flush_c()
            os.dup2(kept, 1)
            os.close(kept)


def _flush_c() -> None:
    """Let C code that was loaded write out what it holds back, where the system has the means."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).fflush(None)


@contextmanager
def current_folder_first(*, is_needed: bool) -> Iterator[None]:
    """Let a module be found in the folder where the command was typed, as Python itself does."""
    before = list(sys.path)
    if is_needed:
        sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path[:] = before
