#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Labels, features, both, and corrected labels on ACS PubCov (P1 Fig. 2 and Table III).

The ten binarised features of P1's code; randomised are two of them (sex and disability), the label, or
all three, of 75 % of the records, at 30 ε from 0.001 to 10.

    python benchmarks/whatif_pubcov.py --data DIR [--quick] [--repeats 10]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from measure import arguments, compare, markdown, write

P1_FIGURE_2 = {"features": 0.0009, "labels": 0.0468, "both": 0.0407}


def load(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    raw = pd.read_csv(folder / "acs_pubcov" / "acs_pubcov_2018_1yr_14states.csv.gz")
    X = pd.DataFrame(
        {
            "AGEP": raw["AGEP"] > raw["AGEP"].mean(),
            "PINCP": raw["PINCP"] > raw["PINCP"].mean(),
            **{name: raw[name] == 1 for name in ("MAR", "SEX", "DIS", "RAC1P", "NATIVITY")},
            "CIT": raw["CIT"].isin([1, 3]),
            "MIL": raw["MIL"].isin([1, 2, 3]),
            "ESR": raw["ESR"].isin([1, 2, 4, 5]),
        }
    ).astype(int)
    y = (raw["PUBCOV"] == 1).astype(int).rename("PUBCOV")
    return X, y.astype("category")


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    grid = np.linspace(0.001, 10, 6 if settings.quick else 30)
    rng = np.random.default_rng(settings.seed)
    X, y = load(settings.data)
    held_out = rng.random(len(X)) < 0.2
    study = WhatIf(LogisticRegression()).fit(X[~held_out], y[~held_out], X[held_out], y[held_out])
    n = int((~held_out).sum())
    mask = rng.random(n) < 0.75
    cases = {
        "features": {"protect": ["SEX", "DIS"]},
        "labels": {"protect": ["PUBCOV"]},
        "both": {"protect": ["SEX", "DIS", "PUBCOV"]},
        "labels, corrected": {"protect": ["PUBCOV"], "correction": "forward"},
    }
    domains = {column: [0, 1] for column in ("SEX", "DIS", "PUBCOV")}
    rows, seconds = [], {}
    for name, case in cases.items():
        question = {
            **case,
            "epsilon": grid,
            "groups": {name: mask},
            "categories": {column: domains[column] for column in case["protect"]},
        }
        found, seconds[name] = compare(
            study,
            question,
            changes={name: mask.sum() / (1 + np.exp(grid))},
            repeats=settings.repeats,
            seed=settings.seed,
        )
        rows += found
    text = markdown(
        f"PubCov, n = {n:,}, {study.baseline_.problem.n_parameters} parameters, 75 % of the records, "
        f"{len(grid)} ε from 0.001 to 10, {settings.repeats} retrainings a cell. The last column is "
        "what P1 gives with its Fig. 2 on another sample of the survey.",
        rows,
        paper=P1_FIGURE_2,
    )
    write(
        "whatif-pubcov",
        settings,
        text,
        {"n_train": n, "repeats": settings.repeats, "seconds": seconds, "rows": rows},
    )


if __name__ == "__main__":
    main()
