#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""300 what-if cells: how long ours, the peers and refitting take (P1 Table IV).

n = 35,000 records, p = 88 columns, 10 groups of 1 to 30 % of everybody, 30 ε from 0.001 to 10, labels
randomised. With --data, Adult as P1's code prepared it; with --generated Gaussian features, not written
down. The peers need `make peers`; one that is not there is reported as not available.

    python benchmarks/whatif_speed.py [--data DIR | --generated] [--quick] [--turns 5]
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

import datasets
from datasets import adult
from timing import (
    PEERS,
    Contestant,
    Record,
    as_json,
    keep,
    ratio,
    relative_difference,
    run,
    take_turns,
    versions,
)

from exchange import Problem  # isort: skip  # `timing` makes the peers' folder known
from with_scikit_learn import SOLVERS, TOLERANCES, name_of  # isort: skip

OURS = "epsilens, point table"
AGREEMENT = 1e-5
P1_TABLE_4 = {"initial training": 5.19, "inverse-Hessian product": 0.191, "one cell": 0.002}
P1_REFIT_SECONDS = 3.15
# The first row is ours; a quick run takes only these.
FIRST_ORDER = (
    Contestant(OURS, "with_epsilens", "point-table"),
    Contestant("pyinfluence, H⁻¹ only", "with_pyinfluence", "inverse-hessian", "science"),
    Contestant("statsmodels, Logit", "with_statsmodels", "score-obs", "science"),
    Contestant("pyDVL, conjugate gradient", "with_pydvl", "cg", "torch"),
    Contestant("dattri, ihvp_at_x_cg", "with_dattri", "cg-function", "torch"),
    Contestant("autograd as P1", "with_autograd", "autograd-as-p1", "torch"),
)
MORE_FIRST_ORDER = (
    Contestant("pyinfluence, its scores", "with_pyinfluence", "scores", "science"),
    Contestant("pyDVL, direct", "with_pydvl", "direct", "torch"),
    Contestant("dattri, explicit", "with_dattri", "explicit", "torch"),
    Contestant("epsilens, point table, two cores", "with_epsilens", "point-table", n_cores=2),
    Contestant("epsilens, estimate", "with_epsilens", "influence"),
    Contestant("statsmodels, MLEInfluence", "with_statsmodels", "mle-influence", "science"),
    Contestant("pyDVL, direct, one solve", "with_pydvl", "direct-one-solve", "torch"),
    Contestant("dattri, CG attributor", "with_dattri", "cg", "torch"),
    Contestant("dattri, ihvp_at_x_explicit", "with_dattri", "explicit-function", "torch"),
)
WITH_TRAINING = Contestant("epsilens with training", "with_epsilens", "point-table-and-training")
EXACT = Contestant("epsilens, exact", "with_epsilens", "exact")
SOLVER = Contestant("epsilens, every minimiser", "with_epsilens", "exact-solver")
EXACT_TWO = Contestant("epsilens, exact, two cores", "with_epsilens", "exact", n_cores=2)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--generated", action="store_true", help="Gaussian features in any case")
    parser.add_argument("--peers", type=Path, default=PEERS, help="folder that `make peers` made")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def adult_of_p1(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Adult as P1's code prepared it: 44,355 records, 88 columns of 0 and 1."""
    X, y = adult.as_p1(datasets.load("adult", folder=folder))
    return X.to_numpy(dtype=float), (y == y.cat.categories[-1]).to_numpy(dtype=float)


def gaussian(n: int, p: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, p))
    s = X @ rng.normal(size=p) / np.sqrt(p)
    return X, (rng.random(n) < 1 / (1 + np.exp(-s))).astype(float)


def build(settings: argparse.Namespace) -> tuple[Problem, str]:
    """Return the problem and what it is made of."""
    rng = np.random.default_rng(settings.seed)
    n_train, n_test = (4_000, 1_000) if settings.quick else (35_000, 9_000)
    if settings.generated:
        (X, y), source = gaussian(n_train + n_test, 88, rng), "Gaussian features, generated"
    else:
        (X, y), source = adult_of_p1(settings.data), "Adult as P1's code prepared it"
    order = rng.permutation(len(y))
    train, test = order[:n_train], order[n_train : n_train + n_test]
    X_train, y_train = np.ascontiguousarray(X[train]), y[train]
    groups = np.zeros((10, n_train), dtype=bool)
    for mask, share in zip(groups, np.linspace(0.01, 0.30, len(groups)), strict=True):
        mask[rng.choice(n_train, int(share * n_train), replace=False)] = True
    penalty = 1.0 / n_train  # scikit-learn's C = 1: every Hessian can be inverted
    problem = Problem(
        X=X_train,
        y=y_train,
        X_test=np.ascontiguousarray(X[test]),
        y_test=y[test],
        groups=groups,
        epsilon=np.linspace(0.001, 10, 30),
        penalty=penalty,
        theta=converged(X_train, y_train, penalty),
    )
    return problem, source


def converged(X: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """Return the trained model, by Newton's method to the last digits."""
    theta = np.zeros(X.shape[1])
    for _ in range(100):
        mean = 1.0 / (1.0 + np.exp(-X @ theta))
        gradient = X.T @ (mean - y) / len(y) + penalty * theta
        if np.abs(gradient).max() < 1e-13:
            break
        hessian = (X.T * (mean * (1 - mean))) @ X / len(y) + penalty * np.eye(len(theta))
        theta -= np.linalg.solve(hessian, gradient)
    return theta


def fastest_refit(
    problem: Path, settings: argparse.Namespace, *, accuracy: float = 1e-8
) -> tuple[str, float, list[dict]]:
    """Return solver and tolerance of the fastest refit whose test loss is converged to `accuracy`."""
    choices = [
        (solver, tolerance)
        for solver in SOLVERS
        for tolerance in TOLERANCES
        if not (settings.quick and (solver == "newton-cg" or tolerance not in (1e-4, 1e-6, 1e-10)))
    ]
    names = " ".join(name_of("trial", *choice) for choice in choices)
    trials = Contestant("scikit-learn, trials", "with_scikit_learn", names)
    answers = run(trials, problem, repeats=1 if settings.quick else 2)
    if isinstance(answers, str):
        raise SystemExit(f"the trials of scikit-learn's solvers failed: {answers}")
    reference = answers[choices.index((SOLVERS[0], TOLERANCES[-1]))].array
    tried = [
        {
            "solver": solver,
            "tolerance": tolerance,
            "cpu_seconds": min(answer.cpu_seconds),
            "largest_error": float(np.nanmax(np.abs(answer.array - reference))),
        }
        for (solver, tolerance), answer in zip(choices, answers, strict=True)
    ]
    enough = [row for row in tried if row["largest_error"] <= accuracy]
    best = min(enough, key=lambda row: row["cpu_seconds"])
    return best["solver"], best["tolerance"], tried


def _line(name: str, record: Record, ours: Record, *, difference: float | None) -> str:
    if record.reason is not None:
        return f"| {name} | – | not available | – | – | – | – |"
    first, cpu, wall = record.answers[0], record.seconds("cpu"), record.seconds("wall")
    clock = "cpu" if first.threads == 1 else "wall"
    times = "1" if record is ours else str(ratio(record.seconds(clock), ours.seconds(clock)))
    return (
        f"| {name} | {first.library} {first.version} | {1e3 * wall.min():,.1f} | "
        f"{1e3 * cpu.min():,.1f} ({1e3 * cpu.max():,.1f}) | {times} | "
        f"{max(a.peak_bytes for a in record.answers) / 2**20:,.0f} | "
        + ("–" if difference is None else f"{difference:.0e}")
        + " |"
    )


def main() -> None:
    settings = arguments()
    problem, source = build(settings)
    n, p = problem.X.shape
    turns, repeats = (1, 1) if settings.quick else (settings.turns, 3)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        problem.save(file)
        field = FIRST_ORDER + (() if settings.quick else MORE_FIRST_ORDER)
        solver, tolerance, tried = fastest_refit(file, settings)
        training = Contestant(
            "scikit-learn, training", "with_scikit_learn", name_of("training", solver, tolerance)
        )
        first = take_turns(
            (*field, WITH_TRAINING, training),
            file,
            turns=turns,
            repeats=repeats,
            peers=settings.peers,
        )
        refits = Contestant(
            "scikit-learn, refits", "with_scikit_learn", name_of("sampled", solver, tolerance)
        )
        drawn = Contestant(
            "scikit-learn, refits of one draw",
            "with_scikit_learn",
            name_of("drawn", solver, tolerance),
        )
        warm = Contestant(
            "scikit-learn, warm refits", "with_scikit_learn", name_of("warm", solver, tolerance)
        )
        long_turns = 1 if settings.quick else max(2, settings.turns // 2 + 1)
        exact = take_turns(
            (EXACT, SOLVER, refits)
            if settings.quick
            else (EXACT, refits, drawn, SOLVER, warm, EXACT_TWO),
            file,
            turns=long_turns,
            repeats=1,
            peers=settings.peers,
        )
    ours = first[OURS]
    if ours.reason is not None:
        raise SystemExit(f"our own program failed: {ours.reason}")
    reference = ours.answers[0].array
    lines, rows = [], []
    for contestant in field:
        record = first[contestant.name]
        difference = (
            None
            if record.reason is not None
            else relative_difference(record.answers[0].array, reference)
        )
        lines.append(_line(contestant.name, record, ours, difference=difference))
        more: dict[str, object] = {"name": contestant.name}
        if record.reason is None:
            more |= {
                "relative_difference": difference,
                "agrees": bool(difference is not None and difference <= AGREEMENT),
                "ratio_to_ours": {
                    clock: asdict(ratio(record.seconds(clock), ours.seconds(clock)))
                    for clock in ("cpu", "wall")
                },
            }
        rows.append(as_json(record, **more))
    text, summary = _summary(
        problem, source, lines, first, exact, training, refits, drawn, warm, rows
    )
    result = {
        "source": source,
        "n_train": n,
        "n_test": len(problem.y_test),
        "n_parameters": p,
        "cells": problem.n_cells,
        "turns": turns,
        "repeats_a_turn": repeats,
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.system(),
            "arch": platform.machine(),
        },
        "peers": versions(settings.peers),
        "refit_choice": {"solver": solver, "tolerance": tolerance, "tried": tried},
        "paper": {"P1 Table IV, seconds": P1_TABLE_4, "P1 refit, seconds": P1_REFIT_SECONDS},
        "summary": summary,
        "rows": rows
        + [as_json(first[c.name], name=c.name) for c in (WITH_TRAINING, training)]
        + [as_json(record, name=name) for name, record in exact.items()],
    }
    keep("whatif-speed", text, result, is_quick=settings.quick or settings.generated)


def _bar(value: float, bar: float) -> str:
    """Say whether a bar is met."""
    return f"the bar of {bar:g} is {'met' if value >= bar else 'not met'}"


def _summary(
    problem: Problem,
    source: str,
    lines: list[str],
    first: dict[str, Record],
    exact: dict[str, Record],
    training: Contestant,
    refits: Contestant,
    drawn: Contestant,
    warm: Contestant,
    rows: list[dict],
) -> tuple[str, dict]:
    """Return the Markdown and the figures that are asked about most."""
    ours = first[OURS]
    agreeing = [
        row for row in rows if row["available"] and row["agrees"] and row["library"] != "epsilens"
    ]
    summary: dict[str, object] = {}
    text = [
        f"{source}, n = {len(problem.y):,}, p = {len(problem.theta)}, {problem.n_cells} cells "
        f"(10 groups of 1 to 30 %, 30 ε from 0.001 to 10), labels. Double precision, one core; every "
        "method in a process of its own, in turns; training excluded, the Hessian included.",
        "",
        "| first order | library | wall, ms, best | CPU, ms, best (worst turn) | times ours "
        "| memory above data, MiB | largest relative difference |",
        "|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]
    if agreeing:
        best = min(agreeing, key=lambda row: row["ratio_to_ours"]["cpu"]["value"])
        times = ratio(first[best["name"]].seconds(), ours.seconds())
        summary["fastest_peer"] = {"name": best["name"], "ratio": asdict(times)}
        text.append(
            f"Fastest peer that agrees: {best['name']}, {times} times our CPU time "
            f"({_bar(times.value, 3.0)})."
        )
        own = [row for row in agreeing if "H⁻¹ only" not in row["name"]]
        if own:
            next_best = min(own, key=lambda row: row["ratio_to_ours"]["cpu"]["value"])
            text.append(
                f"Of those that compute scores themselves: {next_best['name']}, "
                f"{ratio(first[next_best['name']].seconds(), ours.seconds())} times."
            )
    whole, bare = first[WITH_TRAINING.name], first[training.name]
    if whole.reason is None and bare.reason is None:
        text.append(
            f"With training: ours {1e3 * whole.seconds().min():,.0f} ms (to a gradient of 1e-9); "
            f"scikit-learn's training alone {1e3 * bare.seconds().min():,.0f} ms."
        )
        if agreeing:
            peer = bare.seconds() + first[best["name"]].seconds()
            times = ratio(peer, whole.seconds())
            summary["fastest_peer_with_training"] = asdict(times)
            text.append(f"Training and {best['name']}: {times} times ours.")
    cells = [answer.notes["new_cell_seconds"] for answer in ours.answers]
    median = min(cell["median"] for cell in cells)
    summary["new_cell_seconds"] = {"median": median, "largest": max(c["largest"] for c in cells)}
    text.append(f"A further group at a further ε from the point table: {1e6 * median:,.0f} µs.")
    record, cold = exact[EXACT.name], exact[refits.name]
    if record.reason is None and cold.reason is None:
        n_refits = int(np.isfinite(cold.answers[0].array).sum())
        scale = problem.n_cells / n_refits
        times = ratio(scale * cold.seconds(), record.seconds())
        difference = np.nanmax(np.abs(cold.answers[0].array - record.answers[0].array))
        summary["refits_over_exact"] = {
            "ratio": asdict(times),
            "n_refits": n_refits,
            "largest_difference": float(difference),
        }
        choice = cold.answers[0].notes
        text += [
            "",
            f"{problem.n_cells} `exact` cells with intervals: {record.seconds().min():,.1f} s CPU; "
            f"{problem.n_cells} refits by {choice['solver']} (tol {choice['tolerance']:.0e}, the fastest "
            f"with a test loss within 1e-8): {scale * cold.seconds().min():,.1f} s CPU, measured on "
            f"{n_refits} of them. **{times} times.** Largest difference of the loss change: "
            f"{difference:.1e}, to which belongs what the noise of one run adds on average: ours includes it.",
        ]
        once = exact.get(drawn.name)
        if once is not None and once.reason is None:
            times = ratio(scale * once.seconds(), record.seconds())
            summary["refits_of_one_draw_over_exact"] = asdict(times)
            text.append(
                "Those refits stack the group a second time, as weights, for the expectation. One draw of the "
                f"labels instead, without weights: {scale * once.seconds().min():,.1f} s. **{times} times** "
                f"({_bar(times.value, 15.0)})."
            )
        solver = exact[SOLVER.name]
        if solver.reason is None:
            times = ratio(problem.n_cells / n_refits * cold.seconds(), solver.seconds())
            difference = np.nanmax(np.abs(cold.answers[0].array - solver.answers[0].array))
            summary["refits_over_solver_only"] = {
                "ratio": asdict(times),
                "largest_difference": float(difference),
            }
            text.append(
                f"Every minimiser by `influence.walk`, losses only: {solver.seconds().min():,.1f} s CPU, refits "
                f"{times} times; largest difference to the refits {difference:.0e}."
            )
        started = exact.get(warm.name)
        if started is not None and started.reason is None:
            scale = problem.n_cells / int(np.isfinite(started.answers[0].array).sum())
            times = ratio(scale * started.seconds(), record.seconds())
            summary["warm_refits_over_exact"] = asdict(times)
            text.append(
                f"Refits started from their neighbour: {scale * started.seconds().min():,.1f} s, "
                f"{times} times ours (measured on one group)."
            )
        both = exact.get(EXACT_TWO.name)
        if both is not None and both.reason is None:
            text.append(f"`exact` on two cores: {both.seconds('wall').min():,.1f} s wall.")
    text += [
        "",
        f"P1 Table IV, on a V100 (quoted): {P1_TABLE_4['inverse-Hessian product']} s for the "
        f"inverse-Hessian product and {P1_TABLE_4['one cell']} s a cell; {P1_REFIT_SECONDS} s a refit.",
        f"Memory: {ours.answers[0].memory}.",
    ]
    return "\n".join(text), summary


if __name__ == "__main__":
    main()
