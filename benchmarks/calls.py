# SPDX-License-Identifier: Apache-2.0
"""A generated table like the calls of a bank that sells deposits: one answer in nine is yes.

A rare answer and predictors that nearly decide it are what a first-order estimate gets wrong: at small ε
it says that the loss falls where it rises.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

N_ROWS = 41_188
SHARE_OF_YES = 0.113
_MONTHS = ["may", "jul", "aug", "jun", "nov", "apr", "oct", "sep", "mar", "dec"]
_OF_MONTHS = [0.335, 0.174, 0.15, 0.129, 0.1, 0.064, 0.0175, 0.0138, 0.013, 0.0037]
_BY_MONTH = np.array([-0.8, -0.2, -0.1, 0.0, 0.2, 0.1, 1.0, 0.6, 1.6, 0.3])
_RATES = np.array([1.1, 1.1, 1.4, 1.4, -1.8, -1.8, -3.4, -1.1, -0.1, -0.2])


def make_calls(n_rows: int = N_ROWS, *, seed: int = 0) -> pd.DataFrame:
    """Return a table of calls with twenty columns and the answer `y`.

    Examples
    --------
    >>> calls = make_calls(5000)
    >>> calls.shape, float((calls["y"] == "yes").mean().round(2))
    ((5000, 21), 0.12)
    """
    rng = np.random.default_rng(seed)

    def kinds(name: str, shares: list[float]) -> tuple[np.ndarray, list[str]]:
        drawn = rng.choice(len(shares), n_rows, p=np.array(shares) / sum(shares))
        return drawn, [f"{name} {place}" for place in drawn]

    month = rng.choice(len(_MONTHS), n_rows, p=_OF_MONTHS)
    outcome, outcomes = kinds("outcome", [0.863, 0.104, 0.033])
    job, jobs = kinds("job", list(rng.dirichlet(np.full(12, 2.0))))
    school, schools = kinds("school", list(rng.dirichlet(np.full(8, 2.0))))
    contact, contacts = kinds("contact", [0.635, 0.365])
    rate = rng.choice(_RATES, n_rows)
    duration = rng.gamma(1.0, 258.0, n_rows).round()
    campaign = rng.geometric(0.4, n_rows)
    score = (
        0.0045 * duration
        + 2.0 * (outcome == 2)
        - 0.6 * (outcome == 1)
        - 0.45 * rate
        + _BY_MONTH[month]
        + rng.normal(0.0, 0.2, 12)[job]
        + rng.normal(0.0, 0.15, 8)[school]
        - 0.3 * contact
        - 0.05 * campaign
    )
    chance = 1.0 / (1.0 + np.exp(-(score + _intercept(score))))
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n_rows).clip(17, 98).round().astype(int),
            "job": jobs,
            "marital": kinds("status", [0.6, 0.28, 0.11, 0.01])[1],
            "education": schools,
            "default": kinds("default", [0.79, 0.2092, 0.0008])[1],
            "housing": kinds("housing", [0.52, 0.456, 0.024])[1],
            "loan": kinds("loan", [0.82, 0.156, 0.024])[1],
            "contact": contacts,
            "month": [_MONTHS[place] for place in month],
            "day": kinds("day", [0.2] * 5)[1],
            "duration": duration.astype(int),
            "campaign": campaign,
            "days_since": np.where(outcome == 2, rng.integers(0, 27, n_rows), 999),
            "previous": np.where(outcome == 0, 0, rng.integers(1, 4, n_rows)),
            "outcome": outcomes,
            "employment": rate,
            "prices": (93.5 + 0.3 * rate + rng.normal(0, 0.3, n_rows)).round(3),
            "confidence": rng.normal(-40, 4, n_rows).round(1),
            "interest": (3.6 + 0.8 * rate + rng.normal(0, 0.2, n_rows)).clip(0.6, 5.1).round(3),
            "employees": (5167 + 40 * rate + rng.normal(0, 10, n_rows)).round(),
            "y": np.where(rng.random(n_rows) < chance, "yes", "no"),
        }
    )


def _intercept(score: np.ndarray) -> float:
    """Return what makes the mean chance that of a rare yes, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        is_often = (1.0 / (1.0 + np.exp(-(score + middle)))).mean() > SHARE_OF_YES
        low, high = (low, middle) if is_often else (middle, high)
    return (low + high) / 2
