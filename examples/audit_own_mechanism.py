# SPDX-License-Identifier: Apache-2.0
"""Two releases that claim ε = 1, one of which forgot most of its noise: an audit of one run tells them apart.

    python examples/audit_own_mechanism.py

Put your own function in the place of theirs: from rows to anything that is published.
"""

from __future__ import annotations

import numpy as np

from epsilens.audit import OneRunAudit, one_hot_directions

EPSILON, DELTA = 1.0, 1e-6
ENOUGH = np.sqrt(2 * np.log(1.25 / DELTA)) / EPSILON  # for rows of length at most 1


def honest(rows: np.ndarray) -> np.ndarray:
    """Add up the rows, with noise that keeps the claim."""
    return rows.sum(axis=0) + np.random.default_rng().normal(0, ENOUGH, rows.shape[1])


def careless(rows: np.ndarray) -> np.ndarray:
    """Add up the rows, with a twentieth of that noise."""
    return rows.sum(axis=0) + np.random.default_rng().normal(0, ENOUGH / 20, rows.shape[1])


def main() -> None:
    for release in (honest, careless):
        audit = OneRunAudit(
            release,
            canaries=one_hot_directions(1000),  # rows of the auditor's own, in or out by a coin
            claimed_epsilon=EPSILON,
            claimed_delta=DELTA,
            confidence=0.999,  # an honest release is called broken once in a thousand audits
        )
        print(f"{release.__name__}: {audit.run().verdict}")


if __name__ == "__main__":
    main()
