# SPDX-License-Identifier: Apache-2.0
"""One thing that a benchmark was asked to reach, and the word for whether it did."""

from __future__ import annotations

from dataclasses import dataclass

MET, REPORTED = "met", "reported"
MISSED = "**not\N{NO-BREAK SPACE}met**"
UNMEASURED = "**not\N{NO-BREAK SPACE}measured**"


@dataclass(frozen=True)
class Bar:
    """One thing that was asked for.

    Attributes
    ----------
    asked : str
    reached : str
        From the result.
    verdict : str
        `MET` or `MISSED` where a number decides, `REPORTED` where a report was asked for,
        `UNMEASURED` where there is no result.
    """

    asked: str
    reached: str
    verdict: str

    @classmethod
    def of(cls, asked: str, reached: str, is_met: bool) -> Bar:
        """Return a bar that a number decides."""
        return cls(asked, reached, MET if is_met else MISSED)
