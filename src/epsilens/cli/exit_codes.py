# SPDX-License-Identifier: Apache-2.0
"""How a command ends, as a number: pipelines gate on it."""

from __future__ import annotations

__all__ = [
    "EXIT_BAD_INPUT",
    "EXIT_BROKEN_PIPE",
    "EXIT_BY_SIGNAL",
    "EXIT_INTERRUPTED",
    "EXIT_LIMIT_NOT_MET",
]

EXIT_BAD_INPUT = 2
EXIT_LIMIT_NOT_MET = 3
"""It ran, and a limit that was asked for, or a claim that was audited, does not hold."""
EXIT_BY_SIGNAL = 128
"""Plus the number of the signal, as shells count: 143 for SIGTERM."""
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
