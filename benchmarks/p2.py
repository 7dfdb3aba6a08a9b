# SPDX-License-Identifier: Apache-2.0
"""P2's experiments: its own samples as federations, its grid of ε, and the numbers it prints.

The samples come from a folder only (`--data DIR`): no public loader gives them in a form that can be
read safely. The bins behind their codes are not written down anywhere, so they cannot be made again from
the census tables either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import datasets
from epsilens.federated import DeclaredColumn, FederationSchema, Records

N_SITES, N_ROUNDS = 5, 6
PENALTY = 1e-4
"""λ. P2 trains without a penalty and stops early; a converged model needs one to exist."""
LEVELS = (math.inf, 5.0, 4.0, 3.0, 2.0, 1.0)
WANTED = (5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.1)
PAIRS = tuple((e, w) for e in LEVELS for w in sorted(WANTED) if w < e)
"""Every (ε, ε') of P2's Table 2."""
DATA = {"income": "Income", "pubcov": "PubCov", "glioma": "Glioma"}
_LABELS = {"income": "PINCP", "pubcov": "PUBCOV", "glioma": "Grade"}
_PROTECTED = {
    "income": ("RAC1P", "SEX", "PINCP"),
    "pubcov": ("AGEP", "SEX", "DIS", "PUBCOV"),
    "glioma": ("Age_at_diagnosis", "Race", "Grade"),
}
_FILES = {"income": "adult", "pubcov": "pubcov", "glioma": "glioma"}

# Quoted: P2 Table 2, (ALD, AAD in per cent, ED) for Income, PubCov and Glioma.
_TABLE_2 = {
    (math.inf, 0.1): ((-0.026, 1.69, 0.136), (-0.014, 2.19, 0.192), (0.096, -3.14, 1.462)),
    (math.inf, 0.5): ((-0.029, 3.39, 0.111), (-0.014, 1.81, 0.178), (0.066, -2.75, 1.321)),
    (math.inf, 1): ((-0.043, 4.94, 0.132), (-0.007, 2.42, 0.159), (0.044, -5.1, 1.211)),
    (math.inf, 2): ((-0.022, 4.25, 0.093), (0.005, 0.36, 0.106), (0.038, -1.96, 0.902)),
    (math.inf, 3): ((-0.012, 3.31, 0.044), (0.005, 0.17, 0.138), (0.009, 0, 0.471)),
    (math.inf, 4): ((-0.004, 1.39, 0.023), (0.001, 0.31, 0.057), (0.006, -1.18, 0.271)),
    (math.inf, 5): ((-0.001, 0.42, 0.012), (-0.001, 0.22, 0.02), (0.001, 0.39, 0.155)),
    (5, 0.1): ((-0.017, 1.58, 0.131), (-0.011, 1.92, 0.182), (0.087, -3.92, 1.6)),
    (5, 0.5): ((-0.025, 2.97, 0.108), (-0.01, 1.47, 0.165), (0.057, -0.39, 1.117)),
    (5, 1): ((-0.038, 4.97, 0.126), (-0.004, 1.83, 0.178), (0.035, -1.57, 1.107)),
    (5, 2): ((-0.022, 4.08, 0.083), (0.005, -0.17, 0.145), (0.021, -1.96, 0.8)),
    (5, 3): ((-0.01, 2.58, 0.044), (0.007, -0.22, 0.149), (0.002, -1.96, 0.457)),
    (5, 4): ((-0.002, 1.08, 0.025), (0.002, 0.42, 0.057), (-0.004, -0.78, 0.265)),
    (4, 0.1): ((-0.006, 1.33, 0.094), (-0.007, 1.25, 0.188), (0.075, -4.31, 1.768)),
    (4, 0.5): ((-0.012, 2.89, 0.081), (-0.008, 1.11, 0.157), (0.053, -1.18, 1.197)),
    (4, 1): ((-0.029, 3.83, 0.119), (-0.002, 1.36, 0.152), (0.028, -1.96, 1.055)),
    (4, 2): ((-0.012, 3, 0.086), (0.005, 0, 0.108), (0.009, 0.78, 0.723)),
    (4, 3): ((-0.008, 2.69, 0.044), (0.001, 0.08, 0.07), (-0.002, 0, 0.442)),
    (3, 0.1): ((0.006, 0.33, 0.107), (0.008, 0.67, 0.118), (0.06, -3.92, 1.47)),
    (3, 0.5): ((0.005, 1.39, 0.085), (0.005, -0.03, 0.105), (0.039, -3.14, 1.167)),
    (3, 1): ((-0.014, 2.94, 0.101), (0.004, -0.17, 0.162), (0.039, -3.92, 1.23)),
    (3, 2): ((-0.007, 1.72, 0.053), (0.01, -0.5, 0.123), (0.028, -3.92, 1.079)),
    (2, 0.1): ((0.017, -0.11, 0.072), (0.014, -1.36, 0.179), (0.031, -2.75, 1.295)),
    (2, 0.5): ((0.008, -0.17, 0.061), (0.012, -1.75, 0.252), (0.034, -5.1, 1.018)),
    (2, 1): ((-0.003, 1.53, 0.064), (0.005, -0.83, 0.184), (0.027, -4.71, 1.277)),
    (1, 0.1): ((0.01, 0.11, 0.054), (0.004, -0.78, 0.185), (-0.009, 1.96, 1.51)),
    (1, 0.5): ((0.002, 0.61, 0.049), (0.008, -0.58, 0.172), (-0.005, 0.39, 1.394)),
}  # fmt: skip
# Quoted: P2 Table 3, seconds of federated training and of one client's Eq. 14.
TABLE_3 = {"income": (1423.51, 8.24), "pubcov": (717.32, 87.40), "glioma": (49.41, 0.93)}
# Quoted: P2 5.3, Q4, the same trainings if the five clients had worked at once; a fifth of PubCov's is 143.46.
TABLE_3_AT_ONCE = {"income": 284.70, "pubcov": 143.64, "glioma": 9.88}
# Quoted: P2 5.3, Q2, AAD in per cent of Glioma when three clients change; the one number of Fig. 2 in words.
FIGURE_2_AAD = -17.5


@dataclass(frozen=True)
class Sample:
    """One round of P2's samples: what each client holds, and what the centre tests on."""

    name: str
    number: int
    schema: FederationSchema
    train: tuple[Records, ...]
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def n(self) -> int:
        """Training records of all clients."""
        return sum(part.n for part in self.train)

    def test(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return test loss and accuracy in per cent of models (m, p): two (m,)."""
        s = self.X_test @ np.atleast_2d(thetas).T
        loss = (np.logaddexp(0.0, s) - self.y_test[:, None] * s).mean(axis=0)
        right = (s > 0) == (self.y_test[:, None] == 1)
        return loss, 100.0 * right.mean(axis=0)


def table_2(name: str) -> dict[tuple[float, float], tuple[float, float, float]]:
    """Return what P2 prints for a data set: ALD, AAD and ED of every (ε, ε')."""
    place = list(DATA).index(name)
    return {(float(e), float(w)): row[place] for (e, w), row in _TABLE_2.items()}


def published(name: str, folder: Path | None) -> dict[tuple[float, float], float]:
    """Return P2's own update against doing nothing, from its published parameters.

    The mean distance of the updated parameters from the retrained ones over that of the parameters
    before, over the six rounds: below 1 the update is of use. The files have ε = 10 for ∞.
    """
    files, found = datasets.load("p2_results", folder=folder), {}
    kind = _FILES[name]
    for level in LEVELS:
        shown = 10.0 if level == math.inf else level
        result = files[f"{kind}/{kind}_data_{shown}_results.pkl"]
        before = np.array(result["normal_params"])
        for wanted, after in result["change_params"].items():
            updated = np.array(result["pert_params"][wanted])
            moved, left = (
                np.linalg.norm((start - np.array(after)).reshape(len(before), -1), axis=1).mean()
                for start in (before, updated)
            )
            found[level, float(wanted)] = float(left / moved)
    return found


def samples(name: str, folder: Path | None, *, rounds: int = N_ROUNDS) -> list[Sample]:
    """Return the rounds of a data set, coded as P2's models saw it: the code of an answer is its value."""
    table = datasets.load(f"p2_{name}", folder=folder)["clean"]
    label = _LABELS[name]
    places = ("round", "client", "split", "row", label)
    columns = tuple(
        DeclaredColumn(c, tuple(str(code) for code in range(int(table[c].max()) + 1)), "code")
        for c in table.columns
        if c not in places
    )
    schema = FederationSchema(
        columns, DeclaredColumn(label, ("0", "1")), _PROTECTED[name], intercept=False
    )
    return [sample_of(name, number, schema, table) for number in range(rounds)]


def sample_of(name: str, number: int, schema: FederationSchema, table: pd.DataFrame) -> Sample:
    """Return one round."""
    own = table[table["round"] == number]
    test = schema.encode(own[own["split"] == "test"])
    train = own[own["split"] == "train"]
    return Sample(
        name,
        number,
        schema,
        tuple(schema.encode(part) for _, part in train.groupby("client")),
        np.asarray(schema.design(test).matrix),
        schema.labels(test),
    )
