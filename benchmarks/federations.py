# SPDX-License-Identifier: Apache-2.0
"""What the federated benchmarks share: federations, ways to follow a change, retrainings, ratios."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from epsilens.channels import Budget
from epsilens.errors import PrivacyLeakWarning
from epsilens.federated import (
    Coordinator,
    FederationSchema,
    LocalParties,
    Objective,
    Records,
    Site,
    Version,
    as_budget,
    channels_between,
    degrade,
    expected_sums,
    randomise,
)
from p2 import Sample

Changes = Mapping[int, float]
"""Site and the ε that it wants."""


def arguments(description: str) -> argparse.Namespace:
    """Read the command line of a federated benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with P2's samples; there is no public loader to download them with",
    )
    parser.add_argument(
        "--draws", type=int, default=10, help="retrainings of each kind a federation"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    # Every draw here is simulated, and that is the point.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    return parser.parse_args()


def federate(sample: Sample, epsilon: float, *, penalty: float, seed: Sequence[int]) -> Coordinator:
    """Return a trained federation of P2's clients; the same seed gives the same draws."""
    number = int(np.random.default_rng(list(seed)).integers(2**31))
    sites = [
        Site(i, sample.schema, records, epsilon=epsilon, seed=number)
        for i, records in enumerate(sample.train)
    ]
    coordinator = Coordinator(sample.schema, LocalParties(sites), regularisation=penalty)
    coordinator.train(rounds=60)
    return coordinator


def drawn(coordinator: Coordinator) -> list[Records]:
    """Return the records that every site trains on at present."""
    return [site.state.current.records for site in coordinator.parties.sites.values()]


def together(parts: Sequence[Records]) -> Records:
    """Return the records of several sites as one table."""
    return Records(
        np.vstack([part.codes for part in parts]), np.vstack([part.numbers for part in parts])
    )


def by_scikit_learn(schema: FederationSchema, records: Records, *, penalty: float) -> np.ndarray:
    """Return the converged model of some records by another hand."""
    peer = LogisticRegression(
        C=1.0 / (records.n * penalty),
        solver="newton-cholesky",
        fit_intercept=False,
        tol=1e-10,
        max_iter=1000,
    )
    return peer.fit(schema.design(records).matrix, schema.labels(records)).coef_[0]


def minimised(
    X: np.ndarray, y: np.ndarray, *, penalty: float, start: np.ndarray, tolerance: float = 1e-9
) -> np.ndarray:
    """Return the converged model of coded records: Newton's method in a few plain lines.

    Thousands of retrainings are wanted; where the plain step does not come down from `start`, the
    caller's start was bad, and it begins again at zeros with halved steps.
    """
    n, theta, scale = len(y), start.copy(), 1.0
    for trial in range(200):
        probability = expit(X @ theta)
        gradient = X.T @ (probability - y) / n + penalty * theta
        norm = np.linalg.norm(gradient)
        if norm <= tolerance:
            return theta
        if trial == 12:
            theta, scale = np.zeros_like(theta), 0.5
            continue
        weighted = X * (probability * (1.0 - probability))[:, None]
        hessian = X.T @ weighted / n + penalty * np.eye(len(theta))
        theta = theta - (1.0 if norm < 1e-3 else scale) * np.linalg.solve(hessian, gradient)
    raise RuntimeError("a retraining has not converged")


def retrainings(
    coordinator: Coordinator,
    sample: Sample,
    changes: Changes,
    *,
    source: str,
    draws: int,
    rng: np.random.Generator,
    start: np.ndarray,
) -> np.ndarray:
    """Return models of really changed records, (draws, p).

    Parameters
    ----------
    coordinator : Coordinator
        Before the change.
    sample : Sample
    changes : mapping of site to ε
    source : {"fresh", "degraded"}
        New draws from the true answers, as P2 retrains, or noise added to the draw that there is,
        as the site does.
    draws : int
    rng : numpy.random.Generator
    start : array of shape (p,)
        Where the solver begins; it runs until it has converged.
    """
    schema, parts = sample.schema, drawn(coordinator)
    budgets = coordinator.parties.budgets()
    stay = [part for i, part in enumerate(parts) if i not in changes]
    ordered = together([*stay, *(parts[i] for i in changes)])
    X, y = np.asarray(schema.design(ordered).matrix), schema.labels(ordered)
    first, found = sum(part.n for part in stay), []
    for _ in range(draws):
        changed = []
        for site, wanted in changes.items():
            budget = as_budget(schema, wanted)
            if source == "fresh":
                changed.append(randomise(sample.train[site], schema, budget, random_state=rng))
            else:
                changed.append(
                    degrade(parts[site], schema, budgets[site], budget, random_state=rng)
                )
        new = together(changed)
        X[first:], y[first:] = schema.design(new).matrix, schema.labels(new)
        found.append(minimised(X, y, penalty=coordinator.penalty.strength, start=start))
    return np.array(found)


WAYS = ("no update", "as printed", "global H, raw data", "one message", "newton", "exact")
"""Ways to follow a change without a draw. The first three are not ours."""


def followed(
    coordinator: Coordinator, sample: Sample, changes: Changes
) -> tuple[dict[str, np.ndarray], dict[str, Version]]:
    """Return the model of every way to preview a change, and what is said about ours."""
    theta = coordinator.theta
    sites = coordinator.parties.sites
    sums = {i: site.sums(theta) for i, site in sites.items()}
    schema, n = sample.schema, sum(part.n for part in sums.values())
    nothing = Budget.uniform(schema.protected, math.inf)
    whole = sum(part.hessian for part in sums.values()) / n + coordinator.penalty.hessian()
    printed, corrected = theta.copy(), theta.copy()
    for i, wanted in changes.items():
        # Eq. 14: from the true answers.
        channels = channels_between(schema, nothing, as_budget(schema, wanted))
        after = expected_sums(sample.train[i], schema, theta, channels, hessian=False)
        gradient = (after.gradient - sums[i].gradient) / n
        printed -= Objective(theta, sums[i], coordinator.penalty).curvature().solve(gradient)
        corrected -= np.linalg.solve(whole, gradient)
    models = {"no update": theta, "as printed": printed, "global H, raw data": corrected}
    said = {}
    for rung in ("one-message", "newton", "exact"):
        name = "one message" if rung == "one-message" else rung
        said[name] = coordinator.preview(changes, rung=rung)
        models[name] = said[name].theta
    return models, said


def apart(models: np.ndarray) -> float:
    """Return the mean distance between two of several models."""
    rows, columns = np.triu_indices(len(models), 1)
    return float(np.linalg.norm(models[rows] - models[columns], axis=1).mean())


@dataclass(frozen=True)
class Ratio:
    """A ratio of two means over federations, and its standard error."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        digits = 2 if self.value < 100 else 0
        return f"{self.value:.{digits}f} ± {self.standard_error:.{digits}f}"

    @property
    def pair(self) -> list[float]:
        """For JSON."""
        return [self.value, self.standard_error]


def jackknife(of: Callable[[np.ndarray], float], clusters: Sequence[int]) -> Ratio:
    """Return a statistic and its standard error, leaving out one of P2's rounds at a time.

    Parameters
    ----------
    of : callable
        Takes a mask of federations.
    clusters : sequence of int
        The round that each federation belongs to: its federations share their records.
    """
    owner = np.asarray(clusters)
    names = np.unique(owner)
    value = of(np.ones(len(owner), dtype=bool))
    if len(names) < 2:
        return Ratio(float(value), math.nan)
    without = np.array([of(owner != name) for name in names])
    g = len(names)
    error = math.sqrt((g - 1) / g * float(np.square(without - without.mean()).sum()))
    return Ratio(float(value), error)


def ratio_of_means(
    above: Sequence[float], below: Sequence[float], clusters: Sequence[int]
) -> Ratio:
    """Return Σ above / Σ below over federations."""
    up, down = np.asarray(above), np.asarray(below)
    return jackknife(lambda mask: float(up[mask].sum() / down[mask].sum()), clusters)


def mean_of(values: Sequence[float], clusters: Sequence[int]) -> Ratio:
    """Return a mean with the same kind of standard error."""
    kept = np.asarray(values, dtype=float)
    return jackknife(lambda mask: float(kept[mask].mean()), clusters)
