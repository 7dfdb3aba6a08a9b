from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

IDENTIFYING = ["gait", "voice", "town"]
USEFUL = ["speed", "pulse"]


@dataclass(frozen=True)
class Planted:
    """Records whose features either recognise people or serve the task; one does neither."""

    X: pd.DataFrame
    y: np.ndarray
    who: np.ndarray

    def parts(self):
        half = len(self.y) // 2
        first, second = slice(0, half), slice(half, None)
        return (
            *(self.X[first], self.y[first], self.who[first]),
            *(self.X[second], self.y[second], self.who[second]),
        )


@pytest.fixture(scope="session")
def planted():
    rng = np.random.default_rng(0)
    n = 1200
    who, y = rng.integers(0, 5, n), rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "gait": who + 0.5 * rng.normal(size=n),
            "speed": 1.5 * y + rng.normal(size=n),
            "noise": rng.normal(size=n),
            "voice": 2.0 * (who % 2) + rng.normal(size=n),
            "pulse": 2.0 * (y == 1) + rng.normal(size=n),
            # A category, of two columns once encoded.
            "town": np.where(who == 3, "north", np.where(who == 4, "east", "west")),
        }
    )
    return Planted(X, np.array(["sits", "walks", "runs"])[y], who)
