# SPDX-License-Identifier: Apache-2.0
"""Who is in which shadow model: every record by a fair coin of its own."""

from __future__ import annotations

import numpy as np

from epsilens._types import BoolArray

__all__ = ["draw_members", "model_generator"]

# Streams of one model that must not share random numbers.
_COINS, _REPORTS, _ATTACK = 0x51AD, 0x2E90, 0xA77C
STREAMS = {"coins": _COINS, "reports": _REPORTS, "attack": _ATTACK}


def model_generator(seed: int, model: int, stream: str) -> np.random.Generator:
    """Return the random numbers of one shadow model for one purpose.

    They depend on nothing else, so that models may be trained in any order and in blocks of any size.
    """
    return np.random.default_rng(np.random.SeedSequence([seed, STREAMS[stream], model]))


def draw_members(seed: int, models: range, n_records: int) -> BoolArray:
    """Return who is in which model, (n_records, models).

    Examples
    --------
    >>> draw_members(0, range(2, 4), 1000).mean(axis=0).round(1)
    array([0.5, 0.5])
    >>> bool((draw_members(0, range(4), 50)[:, 3] == draw_members(0, range(3, 4), 50)[:, 0]).all())
    True
    """
    columns = [
        model_generator(seed, model, "coins").integers(0, 2, n_records, dtype=np.int8)
        for model in models
    ]
    return np.stack(columns, axis=1).astype(bool)
