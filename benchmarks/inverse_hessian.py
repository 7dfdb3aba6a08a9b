#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Three ways to the inverse Hessian (P1 Table I) on Adult and on MNIST: seconds, passes, errors.

Seconds are those of one product H⁻¹η from nothing, the Hessian's forming included; the error is the largest
difference of a first-order change of loss, over groups and ε, to that of the factorised Hessian.

    python benchmarks/inverse_hessian.py [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from epsilens import WhatIf
from epsilens.errors import ApproximationWarning
from epsilens.influence import (
    Cholesky,
    ConjugateGradient,
    HessianOperator,
    InverseHessian,
    StochasticEstimation,
)
from measure import arguments, run, write
from p1 import adult_study, draw_groups, grid
from whatif_mnist import EPSILONS, SIZES, mnist_study

SOLVERS = (Cholesky(), ConjugateGradient(), StochasticEstimation())


def on_adult(settings: argparse.Namespace, rng: np.random.Generator) -> tuple[str, WhatIf, dict]:
    study, X = adult_study(settings, rng)
    groups = draw_groups(len(X), np.arange(len(X)), SIZES, rng)
    return "Adult", study, {"protect": "income", "epsilon": grid(settings), "groups": groups}


def on_mnist(settings: argparse.Namespace, rng: np.random.Generator) -> tuple[str, WhatIf, dict]:
    study, n = mnist_study(settings, rng)
    groups = draw_groups(n, np.arange(n), SIZES, rng)
    return "MNIST 1, 3, 7, 8", study, {"protect": "digit", "epsilon": EPSILONS, "groups": groups}


def measured(name: str, study: WhatIf, question: dict) -> list[dict]:
    baseline = study.baseline_
    eta = baseline.evaluation.gradient(baseline.theta)
    rows, exact = [], np.zeros(0)
    for solver in SOLVERS:
        operator = HessianOperator(baseline.problem, baseline.theta)
        started = time.perf_counter()
        found = solver.solve(operator, eta, quiet=True)
        seconds = time.perf_counter() - started
        changes, whole, settings = asked(study, question, solver)
        exact = changes if isinstance(solver, Cholesky) else exact
        rows.append(
            {
                "data": name,
                "n_train": baseline.problem.n_rows,
                "n_parameters": baseline.problem.n_parameters,
                "solver": solver.name,
                "seconds": seconds,
                "estimate_seconds": whole,
                "n_passes": found.n_passes,
                "relative_residual": found.relative_residual,
                "converged": found.converged,
                "largest_change": float(np.abs(exact).max()),
                "error": float(np.abs(changes - exact).max()),
                "estimated_error": settings["loss_change_error"],
                "standard_error": settings.get("loss_change_standard_error"),
            }
        )
    return rows


def asked(study: WhatIf, question: dict, solver: InverseHessian) -> tuple[np.ndarray, float, dict]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        # A solver that does not converge says so; here that is a cell of the table.
        warnings.simplefilter("ignore", ApproximationWarning)
        result = study.estimate(**question, method="influence", inverse_hessian=solver)
    seconds = time.perf_counter() - started
    changes = result.to_frame()["loss_change"].to_numpy()
    return changes, seconds, result.document.provenance.settings["inverse_hessian"]


def markdown(rows: list[dict]) -> str:
    lines = [
        "First order by three solvers with their default settings; errors are in nats of test loss.",
        "",
        "| data | n | parameters | solver | s for H⁻¹η | s for all cells | passes | relative residual "
        "| converged | largest change | largest error | its estimate | standard error of the draws |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        se = row["standard_error"]
        cells = [
            row["data"],
            f"{row['n_train']:,}",
            f"{row['n_parameters']:,}",
            row["solver"],
            f"{row['seconds']:.2f}",
            f"{row['estimate_seconds']:.1f}",
            f"{row['n_passes']}",
            f"{row['relative_residual']:.0e}",
            "yes" if row["converged"] else "no",
            f"{row['largest_change']:.4f}",
            "–" if row["solver"] == "cholesky" else f"{row['error']:.0e}",
            f"{row['estimated_error']:.0e}",
            "–" if se is None else f"{se:.0e}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rng = np.random.default_rng(settings.seed)
    rows = []
    for make in (on_adult, on_mnist):
        rows += measured(*make(settings, rng))
    write("inverse-hessian", settings, markdown(rows), rows, {"seed": settings.seed})


if __name__ == "__main__":
    run(main)
