#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A client leaves a federation: what is left of it in the model, against training without it (P2 Eq. 27).

P2's own samples, each client leaving in turn, at every ε of P2. P2 prints the formula and does not try it;
its sign is wrong. The truth is the converged model of the clients that stay, on the same draws.

    python benchmarks/federated_remove.py --data DIR [--quick]
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from epsilens.federated import Objective
from federated_tables import table
from federations import (
    Ratio,
    arguments,
    by_scikit_learn,
    drawn,
    federate,
    ratio_of_means,
    together,
)
from measure import run, write
from p2 import DATA, LEVELS, N_ROUNDS, N_SITES, PENALTY, Sample, samples

PENALTIES = {"income": (PENALTY,), "pubcov": (PENALTY,), "glioma": (PENALTY, 0.01, 0.1)}
BAR = 0.25
ROUNDS = 500
"""Of federated averaging, ten local steps each, as `Coordinator.train` does by default; it is slow, so
one client of each round is enough."""
WAYS = (
    "printed, own H",
    "printed, global H",
    "sign corrected, global H",
    "newton",
    "exact",
    "averaging without it",
)


def removed(sample: Sample, client: int, epsilon: float, *, penalty: float, seed: int) -> dict:
    """Take one client out in every way; return distances to the model without it, and seconds."""
    key = [seed, sample.number, client, round(min(epsilon, 100.0) * 10), 6]
    coordinator = federate(sample, epsilon, penalty=penalty, seed=key)
    theta, sites = coordinator.theta, coordinator.parties.sites
    kept = together([part for i, part in enumerate(drawn(coordinator)) if i != client])
    truth = by_scikit_learn(sample.schema, kept, penalty=penalty)
    sums = {i: site.sums(theta) for i, site in sites.items()}
    n, leaving = sum(part.n for part in sums.values()), sums[client]
    whole = sum(part.hessian for part in sums.values()) / n + coordinator.penalty.hessian()
    own = Objective(theta, leaving, coordinator.penalty).curvature()
    pull = leaving.gradient / n
    models = {
        "nothing": theta,
        "printed, own H": theta - own.solve(pull),
        "printed, global H": theta - np.linalg.solve(whole, pull),
        "sign corrected, global H": theta + np.linalg.solve(whole, pull),
    }
    start = time.process_time()
    version = coordinator.remove([client])
    seconds = {"newton": time.process_time() - start}
    models["newton"] = version.theta
    other = federate(sample, epsilon, penalty=penalty, seed=key)
    start = time.process_time()
    models["exact"] = other.remove([client], rung="exact").theta
    seconds["exact"] = time.process_time() - start
    if client == sample.number % N_SITES:
        start = time.process_time()
        models["averaging without it"] = other.train(algorithm="fedavg", rounds=ROUNDS).theta
        seconds["averaging without it"] = time.process_time() - start
    return {
        "distance": {way: float(np.linalg.norm(m - truth)) for way, m in models.items()},
        "loss": {
            way: abs(float(sample.test(m)[0][0] - sample.test(truth)[0][0]))
            for way, m in models.items()
        },
        "seconds": seconds,
        "advice": version.advice,
        "predicted": float(version.predicted_error),
        "messages": version.messages,
        "bytes": version.bytes,
    }


def row_of(
    rounds: Sequence[Sample], epsilon: float, *, penalty: float, seed: int, clients: Sequence[int]
) -> dict:
    """Return the averages over rounds and clients."""
    found, owners = [], []
    for sample in rounds:
        for client in clients:
            found.append(removed(sample, client, epsilon, penalty=penalty, seed=seed))
            owners.append(sample.number)
    nothing = [one["distance"]["nothing"] for one in found]
    off = np.array([one["distance"]["newton"] for one in found])
    predicted = np.array([one["predicted"] for one in found])
    advice = [one["advice"] for one in found]
    return {
        "data": rounds[0].name,
        "penalty": penalty,
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "federations": len(found),
        "doing_nothing": float(np.mean(nothing)),
        "ratio": {way: _ratio(found, owners, way).pair for way in WAYS},
        "loss_difference": {
            way: _mean([one["loss"].get(way) for one in found]) for way in ("nothing", *WAYS)
        },
        "seconds": {
            way: _mean([one["seconds"].get(way) for one in found])
            for way in ("newton", "exact", "averaging without it")
        },
        "messages": found[0]["messages"],
        "bytes": found[0]["bytes"],
        "advice": {word: advice.count(word) for word in sorted(set(advice))},
        "predicted_over_actual": [
            float(q) for q in np.quantile(predicted / off, (0.05, 0.5, 0.95))
        ],
        "largest_exact": max(one["distance"]["exact"] for one in found),
    }


def _ratio(found: Sequence[dict], owners: Sequence[int], way: str) -> Ratio:
    """Return distances as a multiple of doing nothing, over the removals that the way was tried at."""
    tried = [
        (one["distance"][way], one["distance"]["nothing"], owner)
        for one, owner in zip(found, owners, strict=True)
        if way in one["distance"]
    ]
    return ratio_of_means(*zip(*tried, strict=True))


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def markdown(rows: Sequence[dict]) -> str:
    """Return the tables."""
    lines = []
    for row in rows:
        level = "∞" if row["epsilon"] == "inf" else f"{row['epsilon']:g}"
        ratios = []
        for way in WAYS:
            value, error = row["ratio"][way]
            spread = "" if math.isnan(error) else f" ± {error:.2f}"
            ratios.append("< 0.01" if value < 0.005 else f"{value:.2f}{spread}")
        low, middle, high = row["predicted_over_actual"]
        lines.append(
            [
                f"{DATA[row['data']]}, {row['penalty']:g}",
                level,
                f"{row['doing_nothing']:.3f}",
                *ratios,
                "met" if row["ratio"]["newton"][0] <= BAR else "missed",
                ", ".join(f"{word} {count}" for word, count in row["advice"].items()),
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
            ]
        )
    first = rows[0]
    faster = {
        way: seconds / first["seconds"]["newton"] for way, seconds in first["seconds"].items()
    }
    head = (
        "data, λ",
        "ε",
        "doing nothing",
        *WAYS,
        f"newton ≤ {BAR:g}",
        "advice",
        "predicted error over actual (5 to 95 %)",
    )
    return (
        f"{first['federations']} removals a line. Distance to the converged model of those who stay, as a "
        "multiple of what doing nothing leaves. Newton is ours: one step with the Hessian of those who stay, from "
        "sums that are known, and a second for which they are asked once, "
        f"{first['messages']} messages and {first['bytes']:,} bytes. Averaging without it is given "
        f"{ROUNDS} rounds of ten local steps from zeros, for one client of each round; with clients that hold one "
        "label it ends elsewhere.\n\n"
        + table(head, lines)
        + f"\n\nOf CPU time (first line), `exact` takes {faster['exact']:.0f} and averaging "
        f"{faster['averaging without it']:,.0f} times as much as the Newton step. The largest distance of "
        f"`exact` is {max(row['largest_exact'] for row in rows):.0e}."
    )


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    levels = (math.inf, 1.0) if settings.quick else LEVELS
    clients = (0, 1) if settings.quick else range(N_SITES)
    rows = []
    with threadpool_limits(1):
        for name in DATA:
            rounds = samples(name, settings.data, rounds=2 if settings.quick else N_ROUNDS)
            rows += [
                row_of(rounds, epsilon, penalty=penalty, seed=settings.seed, clients=clients)
                for penalty in PENALTIES[name]
                for epsilon in levels
            ]
    write(
        "federated-remove",
        settings,
        markdown(rows),
        rows,
        {"seed": settings.seed, "bar": BAR, "averaging_rounds": ROUNDS},
    )


if __name__ == "__main__":
    run(main)
