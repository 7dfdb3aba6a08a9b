#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The cost of randomised labels on Adult, estimated and measured (P1 Table III, labels).

Groups are drawn from the men, at shares of 1, 7.44, 17.11 and 30 %; ε is lin:0.001:10:30 as printed.
For every share: the mean absolute error of each rung against converged retrainings, the distance between
two halves of those retrainings (no estimator can be told apart below it), and how many of the single
runs fall into the 90 % prediction interval, over cells with at least 20 expected changes.

    python benchmarks/whatif_adult.py --data DIR [--quick] [--repeats 10]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens import WhatIf
from epsilens.data import read_table

SHARES = (0.01, 0.0744, 0.1711, 0.30)
P1_TABLE_3 = {0.01: 0.0005, 0.0744: 0.0038, 0.1711: 0.0132, 0.30: 0.0292}
RESULTS = Path(__file__).parent / "results"


def load(folder: Path) -> pd.DataFrame:
    files = [folder / "adult" / f"adult_{part}.csv.gz" for part in ("train", "test")]
    table = pd.concat([read_table(file).frame for file in files], ignore_index=True)
    return table.drop(columns=["fnlwgt", "education", "native-country"]).dropna(ignore_index=True)


def study_of(table: pd.DataFrame, rng: np.random.Generator) -> tuple[WhatIf, pd.DataFrame]:
    X, y = table.drop(columns="income"), table["income"].astype("category")
    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    numbers = [name for name in X if name not in words]
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), words), (StandardScaler(), numbers)
    )
    held_out = rng.random(len(X)) < 0.2
    study = WhatIf(make_pipeline(encode, LogisticRegression())).fit(
        X[~held_out], y[~held_out], X[held_out], y[held_out]
    )
    return study, X[~held_out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with adult/")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two shares, ten ε, ten repeats")
    settings = parser.parse_args()
    shares = (0.0744, 0.30) if settings.quick else SHARES
    grid = np.linspace(0.001, 10, 10 if settings.quick else 30)

    rng = np.random.default_rng(settings.seed)
    study, X = study_of(load(settings.data), rng)
    men = np.flatnonzero(X["sex"] == "Male")
    groups = {}
    for share in shares:
        mask = np.zeros(len(X), dtype=bool)
        mask[rng.choice(men, int(share * len(men)), replace=False)] = True
        groups[f"{share:.2%}"] = mask
    question = {"protect": "income", "epsilon": grid, "groups": groups}
    seconds, estimates = {}, {}
    for rung in ("influence", "newton", "exact"):
        started = time.perf_counter()
        estimates[rung] = study.estimate(**question, method=rung).to_frame()
        seconds[rung] = time.perf_counter() - started
    started = time.perf_counter()
    runs = study.retrain(**question, repeats=settings.repeats, random_state=settings.seed).draws()
    seconds["retrain"] = time.perf_counter() - started

    rows = []
    for share, (name, mask) in zip(shares, groups.items(), strict=True):
        table = runs[runs["group"] == name].pivot(
            index="epsilon", columns="repeat", values="loss_change"
        )
        values = table.to_numpy()
        truth, half = values.mean(axis=1), settings.repeats // 2
        halves = np.abs(values[:, :half].mean(axis=1) - values[:, half:].mean(axis=1)).mean()
        error = {
            rung: float(np.abs(frame[frame["group"] == name]["loss_change"] - truth).mean())
            for rung, frame in estimates.items()
        }
        exact = estimates["exact"][estimates["exact"]["group"] == name]
        enough = mask.sum() / (1 + np.exp(grid)) >= 20
        inside = (values >= exact["loss_change_low"].to_numpy()[:, None]) & (
            values <= exact["loss_change_high"].to_numpy()[:, None]
        )
        rows.append(
            {
                "share": share,
                "error": error,
                "halves": float(halves),
                "exact_over_halves": error["exact"] / float(halves),
                "coverage": float(inside[enough].mean()),
                "coverage_standard_error": float(
                    inside[enough].mean(axis=1).std(ddof=1) / np.sqrt(enough.sum())
                ),
                "covered_cells": int(enough.sum()),
                "paper": P1_TABLE_3[share],
            }
        )
    result = {
        "benchmark": "whatif-adult",
        "quick": settings.quick,
        "seed": settings.seed,
        "n_train": len(X),
        "n_parameters": study.baseline_.problem.design.n_columns,
        "n_epsilon": len(grid),
        "repeats": settings.repeats,
        "seconds": seconds,
        "rows": rows,
    }
    lines = [
        f"Adult, n = {len(X):,}, {study.baseline_.problem.design.n_columns} parameters, labels of men, "
        f"{len(grid)} ε from 0.001 to 10, {settings.repeats} retrainings a cell.",
        "",
        "| share | first order | Newton | exact | two halves apart | exact / halves "
        "| 90 % interval covers | P1 Table III |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['share']:.2%} | {row['error']['influence']:.6f} | {row['error']['newton']:.6f} "
            f"| {row['error']['exact']:.6f} | {row['halves']:.6f} | {row['exact_over_halves']:.2f} "
            f"| {row['coverage']:.1%} ± {row['coverage_standard_error']:.1%} | {row['paper']:.4f} |"
        )
    print("\n".join(lines))
    if not settings.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "whatif-adult.json").write_text(json.dumps(result, indent=2) + "\n")
        (RESULTS / "whatif-adult.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
