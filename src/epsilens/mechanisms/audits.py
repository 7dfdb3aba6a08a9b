# SPDX-License-Identifier: Apache-2.0
"""What our own attacks on the mechanisms found, kept with the package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from epsilens.document.decision import MechanismAudit

STORED = Path(__file__).with_name("audits.json")
"""One entry a mechanism; written by benchmarks/frontier_audit.py."""


@cache
def stored_audit(name: str) -> MechanismAudit | None:
    """Return what our attacks on a mechanism found; None if there were none.

    Parameters
    ----------
    name : str
        Such as "dp-ebm".

    Examples
    --------
    >>> stored_audit("randomised-response") is None
    True
    """
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return MechanismAudit(**stored[name]) if name in stored else None
