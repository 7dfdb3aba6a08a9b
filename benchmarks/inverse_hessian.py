#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Three ways to the inverse Hessian (P1 Table I) on Adult and on MNIST: seconds, passes, errors.

Seconds are those of one product H⁻¹η from nothing, the Hessian's forming included; the error is the largest
difference of a first-order change of loss, over groups and ε, to that of the factorised Hessian.

    python benchmarks/inverse_hessian.py --data DIR [--quick]
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.errors import ApproximationWarning
from epsilens.influence import (
    Cholesky,
    ConjugateGradient,
    HessianOperator,
    InverseHessian,
    StochasticEstimation,
)
from measure import arguments, write
from whatif_adult import load, study_of
from whatif_mnist import DIGITS, SHARES

SOLVERS = (Cholesky(), ConjugateGradient(), StochasticEstimation())


def adult(settings: object, rng: np.random.Generator) -> tuple[str, WhatIf, dict]:
    study, X = study_of(load(settings.data), rng)
    groups = {f"{share:.2%}": rng.random(len(X)) < share for share in SHARES}
    question = {"protect": "income", "epsilon": np.linspace(0.001, 10, 30), "groups": groups}
    return "Adult", study, question


def mnist(settings: object, rng: np.random.Generator) -> tuple[str, WhatIf, dict]:
    data = np.load(settings.data / "mnist" / "mnist.npz")
    parts = []
    for name in ("train", "test"):
        rows = np.flatnonzero(np.isin(data[f"y_{name}"], DIGITS))
        pixels = data[f"x_{name}"][rows].astype(float) / 255
        if settings.quick:
            pixels = pixels[:, ::4, ::4]
        labels = pd.Series(pd.Categorical(data[f"y_{name}"][rows], categories=DIGITS), name="digit")
        parts += [pixels.reshape(len(rows), -1), labels]
    study = WhatIf(LogisticRegression(C=0.01)).fit(*parts)
    n = len(parts[0])
    groups = {f"{share:.2%}": rng.random(n) < share for share in SHARES}
    question = {"protect": "digit", "epsilon": [0.001, 1.0, 2.0, 3.0, 5.0, 8.0], "groups": groups}
    return "MNIST 1, 3, 7, 8", study, question


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
    for make in (adult, mnist):
        rows += measured(*make(settings, rng))
    write("inverse-hessian", settings, markdown(rows), {"rows": rows})


if __name__ == "__main__":
    main()
