#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How the inverse-Hessian product grows with columns and records (P1 Table I), on one core.

P1 gives O(np² + p³) for the explicit way, O(np) for conjugate gradient and O(np + rtp) for stochastic
estimation; the last two leave out how many times. Here the passes over the records are counted, and
the seconds stand beside what the operations alone would give. Gaussian features, logistic loss at given
parameters, a penalty of 0.01; each product from nothing.

    python benchmarks/whatif_cost_growth.py [--quick] [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from epsilens.influence import (
    Cholesky,
    ConjugateGradient,
    HessianOperator,
    InverseHessian,
    StochasticEstimation,
)
from epsilens.models import Design, LogisticLoss, Problem
from timing import keep, slope

PENALTY = 0.01
SOLVERS: tuple[InverseHessian, ...] = (
    Cholesky(),
    ConjugateGradient(tolerance=1e-6),
    StochasticEstimation(tolerance=1e-2),
)
NAMES = {"cholesky": "Cholesky", "cg": "conjugate gradient", "stochastic": "stochastic estimation"}
THEORY = {"cholesky": "np² + p³/3", "cg": "np × passes", "stochastic": "np × passes"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: the data are generated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def question(n: int, p: int, seed: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return a problem, where its Hessian is taken, and the vector it is inverted on."""
    rng = np.random.default_rng([seed, n, p])
    problem = Problem(
        Design.plain(rng.normal(size=(n, p))), np.ones(n), LogisticLoss(), np.full(p, PENALTY)
    )
    return problem, rng.normal(size=p) / np.sqrt(p), rng.normal(size=p)


def operations(solver: str, n: int, p: int, passes: int) -> float:
    """Return what the product takes by counting, up to a factor."""
    return n * p**2 + p**3 / 3 if solver == "cholesky" else float(n * p * passes)


def measured(n: int, p: int, *, repeats: int, seed: int) -> list[dict]:
    """Return a row a solver; they take turns, and the best of their turns counts."""
    problem, theta, eta = question(n, p, seed)
    seconds: dict[str, list[float]] = {solver.name: [] for solver in SOLVERS}
    found = {}
    for _ in range(repeats + 1):
        for solver in SOLVERS:
            operator = HessianOperator(problem, theta)  # remembers nothing of the turn before
            started = time.process_time()
            found[solver.name] = solver.solve(operator, eta, quiet=True)
            seconds[solver.name].append(time.process_time() - started)
    return [
        {
            "solver": name,
            "n": n,
            "p": p,
            "cpu_seconds": min(taken[1:]),  # the first turn warms up
            "spread_seconds": max(taken[1:]) - min(taken[1:]),
            "passes": found[name].n_passes,
            "relative_residual": found[name].relative_residual,
            "converged": found[name].converged,
            "operations": operations(name, n, p, found[name].n_passes),
        }
        for name, taken in seconds.items()
    ]


def growth(rows: list[dict], along: str) -> list[dict]:
    """Return the slopes of every solver along "p" or "n", measured and counted."""
    result = []
    for solver in NAMES:
        own = [row for row in rows if row["solver"] == solver]
        sizes = [row[along] for row in own]
        seconds = [row["cpu_seconds"] for row in own]
        result.append(
            {
                "solver": solver,
                "along": along,
                "sizes": sizes,
                "slope": asdict(slope(sizes, seconds)),
                "slope_by_operations": slope(sizes, [row["operations"] for row in own]).value,
                "slope_a_pass": asdict(
                    slope(sizes, [s / row["passes"] for s, row in zip(seconds, own, strict=True)])
                ),
                "slope_last_doubling": slope(sizes[-2:], seconds[-2:]).value,
                "slope_text": str(slope(sizes, seconds)),
            }
        )
    return result


def markdown(tables: dict[str, list[dict]], slopes: list[dict]) -> str:
    lines = [
        "CPU milliseconds of one product H⁻¹η from nothing, one core, best of the turns; passes over the "
        "records in brackets.",
    ]
    for along, rows in tables.items():
        other = "n" if along == "p" else "p"
        lines += [
            "",
            f"Against {along}, {other} = {rows[0][other]:,}:",
            "",
            f"| {along} | " + " | ".join(NAMES.values()) + " |",
            "|---|" + "---|" * len(NAMES),
        ]
        for size in dict.fromkeys(row[along] for row in rows):
            cells = [
                f"{1e3 * row['cpu_seconds']:,.1f} ({row['passes']})"
                + ("" if row["converged"] else " not converged")
                for row in rows
                if row[along] == size
            ]
            lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Log-log slopes, and those of the operations counted:",
        "",
        "| solver | operations | slope in p | last doubling | counted | slope in n | last doubling | counted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for solver, name in NAMES.items():
        own = {row["along"]: row for row in slopes if row["solver"] == solver}
        cells = [name, THEORY[solver]]
        for along in ("p", "n"):
            cells += [
                own[along]["slope_text"],
                f"{own[along]['slope_last_doubling']:.2f}",
                f"{own[along]['slope_by_operations']:.2f}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "Counting leaves out what does not grow with p: a matrix product is faster the wider it is, and "
        "drawing a mini-batch costs the same for any p. The last doubling shows where it goes.",
    ]
    return "\n".join(lines)


def main() -> None:
    settings = arguments()
    repeats = 2 if settings.quick else settings.repeats
    many_p = (32, 64, 128) if settings.quick else (32, 64, 128, 256, 512, 1024)
    many_n = (2_000, 4_000, 8_000) if settings.quick else (5_000, 10_000, 20_000, 40_000, 80_000)
    n, p = (4_000, 64) if settings.quick else (20_000, 88)
    with threadpool_limits(limits=1):
        tables = {
            "p": [r for q in many_p for r in measured(n, q, repeats=repeats, seed=settings.seed)],
            "n": [r for m in many_n for r in measured(m, p, repeats=repeats, seed=settings.seed)],
        }
    slopes = [row for along, rows in tables.items() for row in growth(rows, along)]
    result = {
        "penalty": PENALTY,
        "repeats": repeats,
        "solvers": [solver.settings() for solver in SOLVERS],
        "slopes": slopes,
        "rows": tables,
    }
    keep("whatif-cost-growth", markdown(tables, slopes), result, is_quick=settings.quick)


if __name__ == "__main__":
    main()
