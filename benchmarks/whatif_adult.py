#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The cost of randomised labels on Adult, estimated and measured (P1 Table III, labels).

Groups are drawn from the men, at shares of 1, 7.44, 17.11 and 30 %; ε is lin:0.001:10:30 as printed.

    python benchmarks/whatif_adult.py --data DIR [--quick] [--repeats 10]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens import WhatIf
from epsilens.data import read_table
from measure import arguments, compare, markdown, write

P1_TABLE_3 = {0.01: 0.0005, 0.0744: 0.0038, 0.1711: 0.0132, 0.30: 0.0292}


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
    settings = arguments(__doc__.splitlines()[0])
    shares = (0.0744, 0.30) if settings.quick else tuple(P1_TABLE_3)
    grid = np.linspace(0.001, 10, 10 if settings.quick else 30)
    rng = np.random.default_rng(settings.seed)
    study, X = study_of(load(settings.data), rng)
    men = np.flatnonzero(X["sex"] == "Male")
    groups = {}
    for share in shares:
        mask = np.zeros(len(X), dtype=bool)
        mask[rng.choice(men, int(share * len(men)), replace=False)] = True
        groups[f"{share:.2%}"] = mask
    rows, seconds = compare(
        study,
        {"protect": "income", "epsilon": grid, "groups": groups},
        changes={name: mask.sum() / (1 + np.exp(grid)) for name, mask in groups.items()},
        repeats=settings.repeats,
        seed=settings.seed,
    )
    p = study.baseline_.problem.n_parameters
    text = markdown(
        f"Adult, n = {len(X):,}, {p} parameters, labels of men, {len(grid)} ε from 0.001 to 10, "
        f"{settings.repeats} retrainings a cell.",
        rows,
        paper={f"{share:.2%}": value for share, value in P1_TABLE_3.items()},
    )
    result = {"n_train": len(X), "n_parameters": p, "repeats": settings.repeats, "seconds": seconds}
    write("whatif-adult", settings, text, {**result, "rows": rows})


if __name__ == "__main__":
    main()
