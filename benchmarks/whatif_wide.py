#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Wide models: one-hot columns of thousands of categories, with and without a matrix of the parameters.

100,000 records of five columns of categories, logistic and softmax; the labels of everybody randomised. Each
row is a process of its own, on one core: its CPU seconds, its peak memory beyond what it held before the model,
and how far its changes of loss are from those by a factorised Hessian, where that is tried.

    python benchmarks/whatif_wide.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from timing import keep

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse

N_COLUMNS = 5
EPSILONS = [0.5, 1.0, 2.0, 4.0]
LARGEST_FACTORISED = 3000
# Factorised, the noise of a run is a pass of n·p² for every cell.
LARGEST_EXACT = 1000
WAYS = {"factorised": 10**9, "conjugate gradient": 0}
"""From how many parameters on no matrix is formed."""
SINGLE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: the data are generated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def people(n: int, p: int, n_classes: int, seed: int) -> tuple[scipy.sparse.csr_array, pd.Series]:
    """Return one-hot rows of five columns, common and rare categories, and their labels."""
    import pandas as pd
    import scipy.sparse

    rng = np.random.default_rng([seed, n, p, n_classes])
    size = p // N_COLUMNS
    shares = 1.0 / (np.arange(size) + 10.0)
    codes = rng.choice(size, size=(n, N_COLUMNS), p=shares / shares.sum())
    places = codes + size * np.arange(N_COLUMNS)
    X = scipy.sparse.csr_array(
        (np.ones(places.size), places.ravel(), np.arange(0, places.size + 1, N_COLUMNS)),
        shape=(n, p),
    )
    effects = rng.normal(size=(p, n_classes)) * 0.7
    score = effects[places].sum(axis=1) + rng.gumbel(size=(n, n_classes))
    labels = pd.Categorical(score.argmax(axis=1), categories=range(n_classes))
    return X, pd.Series(labels, name="answer")


def peak_mb() -> float:
    """Return the largest memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(n: int, p: int, n_classes: int, way: str, seed: int) -> dict:
    """Fit and ask in this process."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    from epsilens import WhatIf
    from epsilens.influence import StochasticEstimation, wide

    wide.MOST_FACTORISED = WAYS[way]
    X, y = people(n + n // 50, p, n_classes, seed)
    data = (X[:n], y[:n], X[n:], y[n:].reset_index(drop=True))
    before = peak_mb()
    row: dict = {"n": n, "p": p, "n_classes": n_classes, "way": way}
    with threadpool_limits(limits=1):
        started = time.process_time()
        study = WhatIf(LogisticRegression()).fit(*data)
        row["fit_seconds"] = time.process_time() - started
        row["n_parameters"] = study.baseline_.problem.n_parameters
        row["condition"] = float(study.baseline_.curvature.condition)
        asked = {"first order": {"method": "influence"}}
        if way != "factorised" and n_classes == 2:
            # Large batches: a step costs more in Python than in records.
            solver = StochasticEstimation(tolerance=1e-3, batch_size=1024, random_state=seed)
            asked["stochastic"] = {"method": "influence", "inverse_hessian": solver}
        if n_classes == 2 and (way != "factorised" or p <= LARGEST_EXACT):
            asked["exact"] = {"method": "exact", "n_draws": 100, "epsilon": EPSILONS[1]}
        for name, keywords in asked.items():
            started = time.process_time()
            result = study.estimate(**{"epsilon": EPSILONS, **keywords})
            frame = result.to_frame()
            found = {
                "seconds": time.process_time() - started,
                "loss_change": frame["loss_change"].tolist(),
                "low": frame["loss_change_low"].tolist(),
                "high": frame["loss_change_high"].tolist(),
                "trusted": int(frame["trusted"].sum()),
                "peak_mb": peak_mb() - before,
            }
            used = result.document.provenance.settings.get("inverse_hessian")
            if isinstance(used, dict):
                found["solver"] = {
                    k: used[k]
                    for k in ("relative_residual", "n_passes", "converged", "loss_change_error")
                    if k in used
                }
            row[name] = found
    return row


def in_a_process(case: dict) -> dict:
    """Run one case in a process of its own, for its memory."""
    program = [sys.executable, __file__, "--one", json.dumps(case)]
    done = subprocess.run(
        program, capture_output=True, text=True, env={**os.environ, **SINGLE}, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"the case {case} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def largest_error(row: dict, reference: dict | None, name: str) -> float | None:
    """Return the largest difference of the changes, over the largest change."""
    if reference is None or name not in row or name not in reference:
        return None
    right = np.array(reference[name]["loss_change"])
    return float(np.abs(np.array(row[name]["loss_change"]) - right).max() / np.abs(right).max())


def markdown(rows: list[dict], n: int) -> str:
    lines = [
        f"n = {n:,} records of {N_COLUMNS} one-hot columns, sparse; C = 1; labels of everybody at {len(EPSILONS)} ε, exact at one. "
        "CPU seconds on one core; peak memory of the process beyond the data. **Left** is the error of the changes "
        "that the solver itself reports, over the largest change; **off** their largest distance from the factorised "
        "ones, the two fits included, which end at gradients of 1e-9.",
        "",
        "| classes | parameters | way | fit s | first order s | passes | left | off | stochastic s | off | exact s | off "
        "| peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        first = row["first order"]
        size = max(abs(change) for change in first["loss_change"])
        solver = first.get("solver", {})
        cells = [
            f"{row['n_classes']}",
            f"{row['n_parameters']:,}",
            row["way"],
            f"{row['fit_seconds']:.1f}",
            f"{first['seconds']:.1f}",
            f"{solver.get('n_passes', '')}",
            f"{solver.get('loss_change_error', 0.0) / size:.0e}",
            _off(row["off"].get("first order")),
        ]
        for name in ("stochastic", "exact"):
            cells.append(f"{row[name]['seconds']:.1f}" if name in row else "–")
            cells.append(_off(row["off"].get(name)))
        cells.append(f"{max(row[k]['peak_mb'] for k in row['asked']):,.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "A matrix of 10,000 parameters alone is 800 MB, and a factor as much again; a dense table of these records "
        f"would be {8 * n * 10_000 / 1e9:.1f} GB. The exact rung without a matrix takes the noise of a run from 100 drawn "
        "ones, where the factorised one has a trace: its changes differ by that.",
    ]
    return "\n".join(lines)


def _off(value: float | None) -> str:
    return "–" if value is None else f"{value:.0e}"


def main() -> None:
    settings = arguments()
    if settings.one:
        print(json.dumps(one(**json.loads(settings.one))))
        return
    n = 5_000 if settings.quick else 100_000
    sizes = [(200, 2), (400, 2), (200, 4)]
    if not settings.quick:
        sizes = [(1_000, 2), (3_000, 2), (10_000, 2), (1_000, 10)]
    rows, references = [], {}
    for p, n_classes in sizes:
        for way in WAYS:
            if way == "factorised" and (p + 1) * (n_classes if n_classes > 2 else 1) > (
                LARGEST_FACTORISED + n_classes
            ):
                continue
            case = {"n": n, "p": p, "n_classes": n_classes, "way": way, "seed": settings.seed}
            row = in_a_process(case)
            row["asked"] = [k for k in ("first order", "stochastic", "exact") if k in row]
            if way == "factorised":
                references[p, n_classes] = row
            reference = references.get((p, n_classes)) if way != "factorised" else None
            row["off"] = {
                "first order": largest_error(row, reference, "first order"),
                "exact": largest_error(row, reference, "exact"),
            }
            if reference is not None and "stochastic" in row:
                right = np.array(reference["first order"]["loss_change"])
                found = np.array(row["stochastic"]["loss_change"])
                row["off"]["stochastic"] = float(np.abs(found - right).max() / np.abs(right).max())
            rows.append(row)
            print(
                f"{n_classes} classes, {row['n_parameters']:,} parameters, {way}", file=sys.stderr
            )
    result = {"n": n, "epsilon": EPSILONS, "seed": settings.seed, "rows": rows}
    keep("whatif-wide", markdown(rows, n), result, is_quick=settings.quick)


if __name__ == "__main__":
    main()
