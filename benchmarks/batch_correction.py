#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How much the sum of a batch's scores overstates the batch, beside D_b(k) (P4 Fig. 3).

Q = 500 records to begin with, batches of 30, 100 and 300 up to 1,500 records, 200 test records, linear
models, 10 trials. As in P4's derivation the first records have other labels than the batches and the
test set, given the same features: the sums over trials of the scores S and of the falls ΔR of the test
loss make one ratio a batch, with a jackknife standard error over the trials. The scores are exact;
P4's S is the slope of the risk, but first-order scores leave out the leverage and are too large.

    python benchmarks/batch_correction.py [--data DIR] [--quick] [--trials 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression

from epsilens.valuation import Appraisal, batch_correction
from measure import run as run_benchmark
from p4 import N_TEST, Table, air_quality, linear_generated, wine
from timing import keep

Q, TOTAL, SIZES = 500, 1500, (30, 100, 300)
SHIFT = 5.0
"""How far the first labels are off, in standard deviations of the labels."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def sources(folder: Path | None) -> dict[str, Callable[[np.random.Generator], Table]]:
    """Return what draws a table, by name; 1,500 records and the test records at least."""
    return {
        "linear generated": lambda rng: linear_generated(TOTAL + N_TEST, rng),
        "white wine": lambda rng: wine(folder, "white"),
        "air quality": lambda rng: air_quality(folder),
    }


def trial(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Return, for every batch size, S by slope, S exact and ΔR of every batch: (3, n_batches)."""
    order = rng.permutation(len(y))[: TOTAL + N_TEST]
    X, y = X[order], y[order].copy()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    direction = rng.normal(size=Z.shape[1])
    direction /= np.linalg.norm(direction)
    # Other labels, given the features, for the first records only.
    y[N_TEST : N_TEST + Q] += SHIFT * y.std() * (1.0 + Z[N_TEST : N_TEST + Q] @ direction)
    X_test, y_test = Z[:N_TEST], y[:N_TEST]
    X, y = Z[N_TEST:], y[N_TEST:]
    found = {}
    for size in SIZES:
        ends = range(Q + size, TOTAL + 1, size)
        sums = np.empty((3, len(ends)))
        models = [
            Appraisal.of(LinearRegression(), X[:n], y[:n], X_test, y_test) for n in (Q, *ends)
        ]
        losses = [model.baseline.outcomes.loss for model in models]
        for number, end in enumerate(ends):
            batch = slice(end - size, end)
            offer = (X[batch], y[batch])
            sums[0, number] = models[number].add_one(*offer, method="first-order").sum()
            sums[1, number] = models[number].add_one(*offer).sum()
            sums[2, number] = losses[number] - losses[number + 1]
        found[size] = sums
    return found


def ratios(trials: list[np.ndarray], kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ΣS/ΣΔR of every batch and its jackknife standard error over the trials."""
    stack = np.array(trials)[:, [kind, 2]]
    total = stack.sum(axis=0)
    n = len(stack)
    without = (total - stack)[:, 0] / (total - stack)[:, 1]
    error = np.sqrt((n - 1) / n * np.square(without - without.mean(axis=0)).sum(axis=0))
    return total[0] / total[1], error


def main() -> None:
    settings = arguments()
    n_trials = 3 if settings.quick else settings.trials
    by_size: dict[int, list[np.ndarray]] = {size: [] for size in SIZES}
    for number, draw in enumerate(sources(settings.data).values()):
        for repeat in range(n_trials):
            rng = np.random.default_rng([settings.seed, number, repeat])
            X, y = draw(rng)
            scale = y.std() ** 2  # so that every data set weighs alike
            for size, sums in trial(X, y, rng).items():
                by_size[size].append(sums / scale)
    rows = []
    for size, trials in by_size.items():
        (measured, error), (slope, _) = ratios(trials, 1), ratios(trials, 0)
        for k, (value, spread, first) in enumerate(
            zip(measured, error, slope, strict=True), start=1
        ):
            expected = batch_correction(Q, size, k)
            rows.append(
                {
                    "b": size,
                    "k": k,
                    "measured": float(value),
                    "standard_error": float(spread),
                    "with_first_order_scores": float(first),
                    "expected": expected,
                    "z": float((value - expected) / spread),
                }
            )
    z = np.array([row["z"] for row in rows])
    inside = float((np.abs(z) <= 2).mean())
    shown = [row for row in rows if row["b"] != 30 or row["k"] in (1, 2, 4, 8, 16, 24, 33)]
    text = [
        f"Sum of a batch's scores over the fall of the test loss, Q = {Q}, up to {TOTAL:,} records, "
        f"{n_trials} trials of each of three data sets together, beside D_b(k) (P4 section 5, Fig. 3).",
        "",
        "| b | batch k | measured | D_b(k) | difference in standard errors | with first-order scores |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['b']} | {row['k']} | {row['measured']:.3f} ± {row['standard_error']:.3f} "
            f"| {row['expected']:.3f} | {row['z']:+.1f} | {row['with_first_order_scores']:.3f} |"
            for row in shown
        ),
        "",
        f"Of all {len(rows)} batches {inside:.0%} lie within two standard errors of D_b(k), which is for "
        f"the slope: whole records make the ratio {1.5 / TOTAL:.1%} to {1.5 / Q:.1%} smaller.",
    ]
    keep(
        "batch-correction",
        "\n".join(text),
        {"q": Q, "trials": n_trials, "within_two_standard_errors": inside, "rows": rows},
        is_quick=settings.quick,
    )


if __name__ == "__main__":
    run_benchmark(main)
