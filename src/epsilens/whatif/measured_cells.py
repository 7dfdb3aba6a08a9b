# SPDX-License-Identifier: Apache-2.0
"""Costs whose estimate failed its check, measured by training again."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

from epsilens._types import Progress
from epsilens.document import EVERYBODY, own_budget
from epsilens.errors import EstimateNotTrustworthyError, InputError, PrivacyLeakWarning
from epsilens.whatif.answer import untrusted_notes
from epsilens.whatif.result import INTERVAL_CONFIDENCE, LossChangeEstimate

__all__ = ["FEWEST_REPEATS", "measure_cell", "measure_untrusted"]

FEWEST_REPEATS = 20
"""Runs a cell: with 19 the largest is the upper end of a 5–95 % interval."""


class _OutOfTimeError(Exception):
    """The time for training again is over."""


def measure_cell(
    estimate: LossChangeEstimate,
    at: float,
    *,
    deadline: float,
    confidence: float = INTERVAL_CONFIDENCE,
    progress: Progress | None = None,
) -> LossChangeEstimate | None:
    """Train everybody's models again at one ε and put what they show in place of the estimate.

    Parameters
    ----------
    estimate : LossChangeEstimate
        Result of `WhatIf.estimate`, which knows how to train again.
    at : float
        The ε of the cell.
    deadline : float
        Time of `time.monotonic` at which nothing is begun any more.
    confidence : float in (0, 1)
        Confidence level that the number of runs must allow.
    progress : callable, optional
        Called with (done, total, what).

    Returns
    -------
    LossChangeEstimate or None
        None where there is no study or no time left, or where no model can be trained.
    """
    if estimate.again is None or time.monotonic() >= deadline:
        return None

    def told(done: int, total: int, what: str) -> None:
        if progress is not None:
            progress(done, total, what)
        if done < total and time.monotonic() >= deadline:
            raise _OutOfTimeError

    settings = estimate.document.provenance.settings
    asked = settings.get("epsilon")
    wanted = asked if isinstance(asked, dict) else [at]
    repeats = max(FEWEST_REPEATS, math.ceil(2.0 / (1.0 - confidence) - 1e-9))
    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            # The estimate has said it of the same columns.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            estimate.again(epsilon=wanted, repeats=1)
            # Runs side by side take less than one after the other.
            if time.monotonic() + (time.monotonic() - started) * repeats / 2 > deadline:
                return None
            found = estimate.again(epsilon=wanted, repeats=repeats, progress=told)
    except (_OutOfTimeError, EstimateNotTrustworthyError, InputError):
        return None
    old, (cell,) = estimate.document, found.document.cells
    is_it = [one.group == EVERYBODY and own_budget(one) == at for one in old.cells]
    cells = [cell if it else one for it, one in zip(is_it, old.cells, strict=True)]
    kept = [
        item for item in old.intervals if (item.group, item.epsilon) != (EVERYBODY, cell.epsilon)
    ]
    known = settings.get("repeats")
    before = untrusted_notes(old.cells, repeats=known if isinstance(known, int) else None)
    origin = old.provenance.model_copy(update={"settings": {**settings, "repeats": repeats}})
    document = old.model_copy(
        update={
            "cells": cells,
            "intervals": [*kept, *found.document.intervals],
            "warnings": [
                *(note for note in old.warnings if note not in before),
                *untrusted_notes(cells, repeats=repeats),
            ],
            "provenance": origin,
        }
    )
    draws = tuple(
        found.loss_draws[0] if it else runs
        for it, runs in zip(is_it, estimate.loss_draws, strict=True)
    )
    return replace(estimate, document=document, loss_draws=draws)


def measure_untrusted(
    estimate: LossChangeEstimate, *, seconds: float, progress: Progress | None = None
) -> LossChangeEstimate:
    """Measure every cost of everybody that failed its check, from the largest ε down, while time lasts."""
    deadline = time.monotonic() + seconds
    for cell in reversed(estimate.document.cells):
        if cell.group != EVERYBODY or cell.trusted:
            continue
        found = measure_cell(estimate, own_budget(cell), deadline=deadline, progress=progress)
        if found is None:
            break
        estimate = found
    return estimate
