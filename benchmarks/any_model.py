#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The cost of ε for models without an exact answer: a few trainings with shared randomness against many without.

Three questions. Is the curve of two draws as close to the truth as half of a naive retraining, for an eighth of its
trainings? How many fresh runs lie in the interval of five draws? Does the curve agree with `exact` for logistic
regression? Finished parts are kept in a folder, so a run that was stopped goes on where it was.

    python benchmarks/any_model.py [--data DIR] [--quick] [--kept DIR] [--backwards] [--stored] [--only TABLE|MODEL]
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import datasets
from datasets import adult as adult_data
from epsilens import WhatIf
from epsilens.models.passes import LocalPasses, use_passes
from frontier import Kept, Work, collected
from frontier import generated as credits
from measure import FEWEST_CHANGES, halves_apart, run
from timing import HERE, RESULTS, keep

GRID = np.geomspace(0.1, 10.0, 30)
CURVE_DRAWS = 2
CURVES = 5
"""Curves with different seeds: the error of one is random."""
NAIVE_DRAWS = 6
REFERENCE_DRAWS = 40
REFERENCE_EVERY = 3
"""The reference is trained at every third ε, beginning with the second."""
MOST_FITS = len(GRID) * NAIVE_DRAWS // 8
ROWS, TEST_ROWS = 1_000, 1_000
LARGER = 12
"""How many times the records of the other tables a large one has."""
REPETITIONS, BLOCK = 200, 20
"""Repetitions of a whole curve for its coverage, and how many of them are one part."""
COVERAGE_ROWS, COVERAGE_TEST = 300, 500
CLEAN_RUNS = 100
FRESH = 9
"""Fresh runs that are compared with one curve, each at another ε."""
COVERED = (0.85, 0.95)
AGREEMENT_CURVES = 8
MANY_SECONDS = 1e6
_ROUNDING = 1e-9
KEPT = HERE / ".any-model"

# --- Tables ---


@dataclass(frozen=True)
class Table:
    """Training and test records with a label.

    Attributes
    ----------
    title : str
    X, X_test : DataFrame
    y, y_test : Series
        Categorical: the classes count as public.
    """

    title: str
    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series

    @property
    def text_columns(self) -> list[str]:
        return [name for name in self.X if not pd.api.types.is_numeric_dtype(self.X[name])]

    def study(self, model: BaseEstimator) -> WhatIf:
        return WhatIf(model).fit(self.X, self.y, self.X_test, self.y_test)

    def about(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "n_train": len(self.X),
            "n_test": len(self.X_test),
            "columns": self.X.shape[1],
            "classes": len(self.y.cat.categories),
        }


def split(
    title: str, X: pd.DataFrame, y: pd.Series, n: int | None, n_test: int, seed: int = 0
) -> Table:
    """Return some rows at random to train on, and others to test on; None: all others."""
    order = np.random.default_rng(seed).permutation(len(X))
    n = len(X) - n_test if n is None else n
    first, second = order[:n], order[n : n + n_test]
    y = y.astype("category")
    return Table(title, X.iloc[first], y.iloc[first], X.iloc[second], y.iloc[second])


def adult(folder: Path | None, n: int = ROWS, n_test: int = TEST_ROWS) -> Table:
    return split("Adult", *adult_data.ordinary(datasets.load("adult", folder=folder)), n, n_test)


def pubcov(folder: Path | None, n: int = ROWS, n_test: int = TEST_ROWS) -> Table:
    # A question that was not put counts as an answer, 0.
    raw = datasets.load("acs_pubcov", folder=folder).fillna(0)
    y = pd.Series(np.where(raw.pop("PUBCOV") == 1, "covered", "not covered"), name="PUBCOV")
    return split("PubCov", raw, y, n, n_test)


KINDS_OF_ACTIVITY = {
    "Walking": "level",
    "Jogging": "level",
    "Upstairs": "stairs",
    "Downstairs": "stairs",
    "Sitting": "still",
    "Standing": "still",
}


def wisdm(folder: Path | None, n: int = ROWS, n_test: int = TEST_ROWS) -> Table:
    raw = datasets.load("wisdm", folder=folder)
    y = raw["class"].map(KINDS_OF_ACTIVITY).rename("activity")
    X = raw.drop(columns=["UNIQUE_ID", "user", "class"]).dropna(axis=1)
    return split("WISDM, three kinds of activity", X, y, n, n_test)


def generated(folder: Path | None = None, n: int = ROWS, n_test: int = TEST_ROWS) -> Table:
    whole = credits(n, n_test)
    parts = (whole.train, whole.test)
    X, X_test = (part.drop(columns=whole.label) for part in parts)
    y, y_test = (part[whole.label].astype("category") for part in parts)
    return Table("generated, like German credit", X, y, X_test, y_test)


def large_adult(folder: Path | None, n: int = ROWS, n_test: int = TEST_ROWS) -> Table:
    return adult(folder, LARGER * n, LARGER // 3 * n_test)


TABLES: dict[str, Callable[..., Table]] = {
    "adult": adult,
    "pubcov": pubcov,
    "generated": generated,
    "wisdm": wisdm,
}
"""Every family is tried on these."""
LARGE_TABLES = {"large adult": large_adult}

# --- Models ---


def boosted_sklearn() -> BaseEstimator:
    return HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=15)


def forest() -> BaseEstimator:
    return RandomForestClassifier(20, min_samples_leaf=5)


def boosted_xgboost() -> BaseEstimator:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1)


def boosted_lightgbm() -> BaseEstimator:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=30, num_leaves=15, n_jobs=1, verbose=-1)


def network() -> BaseEstimator:
    return MLPClassifier((16,), max_iter=20)


FAMILIES: dict[str, Callable[[], BaseEstimator]] = {
    "HistGradientBoosting": boosted_sklearn,
    "RandomForest": forest,
    "XGBoost": boosted_xgboost,
    "LightGBM": boosted_lightgbm,
    "MLP": network,
}


def pipeline(family: str, table: Table) -> BaseEstimator:
    """Return a model of a family with the encoding that the table needs."""
    model, words = FAMILIES[family](), table.text_columns
    if family == "MLP":
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        return make_pipeline(
            make_column_transformer((one_hot, words), remainder=StandardScaler()), model
        )
    if not words:
        return model
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(make_column_transformer((codes, words), remainder="passthrough"), model)


# --- The curve against naive retraining ---


def losses(result: Any) -> np.ndarray:
    """Return the test loss of every run, (n_epsilon, repeats): infinity last."""
    runs = result.draws().pivot(index="epsilon", columns="repeat", values="loss_change")
    return runs.sort_index().to_numpy() + result.document.baseline.loss


def curves(
    study: WhatIf, question: Mapping[str, Any], seeds: Sequence[int], **settings: Any
) -> list[dict[str, Any]]:
    """Return a curve for every seed, with what it took."""
    found = []
    for seed in seeds:
        started = time.process_time()
        result = study.estimate(
            **question, method="curve", seconds=MANY_SECONDS, random_state=seed, **settings
        )
        seconds = time.process_time() - started
        frame = result.to_frame()
        found.append(
            {
                "change": frame["loss_change"].tolist(),
                "is_node": (frame["number_type"] == "measured").tolist(),
                "baseline": result.document.baseline.loss,
                "n_fits": result.n_fits,
                "seconds": seconds,
            }
        )
    return found


def retrained(study: WhatIf, question: Mapping[str, Any], repeats: int, seed: int) -> dict:
    """Return the losses of independent trainings at every ε, and the processor time they took."""
    started = time.process_time()
    found = losses(study.retrain(**question, repeats=repeats, random_state=seed))
    return {"losses": found.tolist(), "seconds": time.process_time() - started}


def compared(
    found: Sequence[Mapping[str, Any]],
    naive: Mapping[str, Any],
    reference: Mapping[str, Any],
    places: Sequence[int],
) -> dict[str, Any]:
    """Return the errors of some curves beside the distance of two halves of naive retrainings.

    Parameters
    ----------
    found : sequence
        Of `curves`.
    naive, reference : mapping
        Of `retrained`; the last ε of the reference is infinity.
    places : sequence of int
        The other ε of the reference, among those of the curve.
    """
    every, known = np.array(naive["losses"]), np.array(reference["losses"])
    runs = every[places]
    truth = known[:-1].mean(axis=1) - known[-1].mean()
    of_clean = known[-1].std(ddof=1) / math.sqrt(known.shape[1])
    spread = known[:-1].std(axis=1, ddof=1) / math.sqrt(known.shape[1])
    whole = np.array([one["change"] for one in found])
    changes = whole[:, places]
    errors = np.abs(changes - truth).mean(axis=1)
    is_node = np.array([one["is_node"] for one in found])[:, places]
    # The reference holds more sets of as many draws, whose halves lie apart by other distances.
    n = runs.shape[1]
    sets = [runs, *(known[:-1, at : at + n] for at in range(0, known.shape[1] - n + 1, n))]
    halves = np.array([halves_apart(one) for one in sets])
    error, error_se = _mean_and_error(errors)
    half, half_se = _mean_and_error(halves)
    ratio = error / half
    away = np.abs(changes - truth)
    return {
        "error": error,
        "error_standard_error": error_se,
        "errors": errors.tolist(),
        "error_at_nodes": _mean(away[is_node]),
        "error_between_nodes": _mean(away[~is_node]),
        "error_of_mean_curve": float(np.abs(changes.mean(axis=0) - truth).mean()),
        "halves": half,
        "halves_standard_error": half_se,
        "halves_of_naive": halves_apart(every),
        "ratio": ratio,
        "ratio_standard_error": ratio * math.hypot(error_se / error, half_se / half),
        "naive_error": float(np.abs(runs.mean(axis=1) - known[:-1].mean(axis=1)).mean()),
        "reference_standard_error": float(np.hypot(spread, of_clean).mean()),
        "n_fits": max(one["n_fits"] for one in found),
        "naive_fits": every.size,
        "seconds": float(np.mean([one["seconds"] for one in found])),
        "naive_seconds": naive["seconds"],
        "largest_change": float(np.abs(truth).max()),
        "curve": whole.mean(axis=0).tolist(),
        "reference": truth.tolist(),
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None


def _mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def expected_changes(grid: Sequence[float], n: int, k: int) -> np.ndarray:
    """Return how many of n answers out of k change at each ε, on average."""
    return n * (k - 1) / (np.exp(np.asarray(grid)) + k - 1)


# --- Coverage ---


@cache
def coverage_table() -> Table:
    X, y = make_classification(
        COVERAGE_ROWS + COVERAGE_TEST,
        n_features=6,
        n_informative=4,
        n_redundant=0,
        class_sep=0.8,
        flip_y=0.05,
        random_state=3,
    )
    columns = [f"x{number}" for number in range(X.shape[1])]
    label = pd.Series(np.where(y == 1, "yes", "no"), name="answer")
    return split(
        "generated, 300 records", pd.DataFrame(X, columns=columns), label, None, COVERAGE_TEST
    )


COVERAGE_MODELS: dict[str, Callable[[], BaseEstimator]] = {
    "RandomForest, a new seed every run": lambda: RandomForestClassifier(5, min_samples_leaf=5),
    "HistGradientBoosting, one seed": lambda: HistGradientBoostingClassifier(
        max_iter=8, max_leaf_nodes=7, random_state=0
    ),
}


def fresh_runs(
    study: WhatIf, seeds: Sequence[int], grid: Sequence[float], places: Sequence[int]
) -> list[dict[str, Any]]:
    """Return, for every seed, the intervals of a whole curve and one fresh run at each of some ε."""
    found = []
    for seed in seeds:
        result = study.estimate(
            epsilon=grid, method="curve", seconds=MANY_SECONDS, random_state=seed
        )
        frame = result.to_frame().iloc[list(places)]
        at = [grid[place] for place in places]
        again = study.retrain(epsilon=at, repeats=1, random_state=1_000_000 + seed)
        before, after = result.document.baseline, again.document.baseline
        runs = again.draws().sort_values("epsilon")
        accuracy = result.intervals()
        accuracy = (
            accuracy[accuracy["outcome"] == "accuracy"].sort_values("epsilon").iloc[list(places)]
        )
        found.append(
            {
                "low": frame["loss_change_low"].tolist(),
                "high": frame["loss_change_high"].tolist(),
                "baseline": before.loss,
                "fresh": (runs["loss_change"] + after.loss).tolist(),
                "accuracy_low": (accuracy["low"] + before.accuracy).tolist(),
                "accuracy_high": (accuracy["high"] + before.accuracy).tolist(),
                "accuracy_fresh": (runs["accuracy_change"] + after.accuracy).tolist(),
                "is_node": (frame["number_type"] == "measured").tolist(),
                "trusted": frame["trusted"].tolist(),
                "n_fits": result.n_fits,
            }
        )
    return found


def covered(
    found: Sequence[Mapping[str, Any]], clean_loss: float, changes: np.ndarray
) -> dict[str, Any]:
    """Return the share of fresh runs inside the intervals, with its error over whole repetitions.

    Parameters
    ----------
    found : sequence
        Of `fresh_runs`.
    clean_loss : float
        Mean loss of many models of the true answers. The first share takes the loss of a fresh run from the
        baseline that its curve states. The second takes it from this mean, so that the error of the curve's own
        baseline counts too.
    changes : array of shape (n_epsilon,)
        Expected number of changed answers. Where they are few, a run is one of two or three things that may happen.
    """

    def of(name: str) -> np.ndarray:
        return np.array([one[name] for one in found])

    def inside_of(change: np.ndarray, low: str, high: str) -> np.ndarray:
        # Where nothing changes all runs are alike, and rounding must not decide.
        return (change >= of(low) - _ROUNDING) & (change <= of(high) + _ROUNDING)

    change, nodes = of("fresh") - of("baseline")[:, None], of("is_node")
    inside = inside_of(change, "low", "high")
    inside_mean = inside_of(of("fresh") - clean_loss, "low", "high")
    inside_accuracy = inside_of(of("accuracy_fresh"), "accuracy_low", "accuracy_high")
    each, enough = inside.mean(axis=0), changes >= FEWEST_CHANGES
    many, many_error = _mean_and_error(inside[:, enough].mean(axis=1))
    share, error = _mean_and_error(inside.mean(axis=1))
    by_mean, mean_error = _mean_and_error(inside_mean.mean(axis=1))
    by_accuracy, accuracy_error = _mean_and_error(inside_accuracy.mean(axis=1))
    return {
        "repetitions": len(found),
        "coverage": share,
        "coverage_standard_error": error,
        "many_changes": many,
        "many_changes_standard_error": many_error,
        "cells_of_many_changes": int(enough.sum()),
        "few_changes": _mean(inside[:, ~enough]),
        "from_mean_baseline": by_mean,
        "from_mean_baseline_standard_error": mean_error,
        "at_nodes": _mean(inside[nodes]),
        "cells_at_nodes": int(nodes.sum()),
        "between_nodes": _mean(inside[~nodes]),
        "cells_between_nodes": int((~nodes).sum()),
        "by_epsilon": each.tolist(),
        "by_epsilon_from_mean_baseline": inside_mean.mean(axis=0).tolist(),
        "single_standard_error": math.sqrt(share * (1 - share) / len(found)),
        "lowest": float(each.min()),
        "highest": float(each.max()),
        "below": float((~inside & (change < of("low"))).mean()),
        "above": float((~inside & (change > of("high"))).mean()),
        "accuracy": by_accuracy,
        "accuracy_standard_error": accuracy_error,
        "trusted": float(of("trusted").mean()),
        "n_fits": float(of("n_fits").mean()),
        "width": float((of("high") - of("low")).mean()),
    }


# --- Agreement with `exact` ---


def _bundled(title: str, load: Callable[..., Any], *, halved: bool = False) -> Table:
    held = load(as_frame=True)
    y = held.target
    y = y > y.median() if halved else y
    names = pd.Series([f"class {int(value)}" for value in y], name="label")
    return split(title, held.data, names, None, len(held.data) // 3)


def _made(title: str, n: int, seed: int, **settings: Any) -> Table:
    X, y = make_classification(2 * n, random_state=seed, **settings)
    frame = pd.DataFrame(X, columns=[f"x{number}" for number in range(X.shape[1])])
    names = pd.Series([f"class {value}" for value in y], name="label")
    return split(title, frame, names, n, n)


AGREEMENT_TABLES: dict[str, Callable[[Path | None], Table]] = {
    "breast cancer": lambda folder: _bundled("breast cancer", load_breast_cancer),
    "wine": lambda folder: _bundled("wine", load_wine),
    "iris": lambda folder: _bundled("iris", load_iris),
    "diabetes": lambda folder: _bundled("diabetes, above the median", load_diabetes, halved=True),
    "generated": lambda folder: generated(None, 600, 1_000),
    "twenty columns": lambda folder: _made("two classes, 20 columns", 600, 4, n_features=20),
    "two classes": lambda folder: _made("two classes, 5 columns", 500, 1, n_features=5),
    "three classes": lambda folder: _made(
        "three classes, 8 columns", 800, 2, n_features=8, n_informative=5, n_classes=3
    ),
    "adult": lambda folder: adult(folder, 1_500, 1_500),
    "pubcov": lambda folder: pubcov(folder, 1_500, 1_500),
}
FROM_FILES = ("adult", "pubcov")


def frozen_logistic(table: Table) -> BaseEstimator:
    """Return a logistic regression on columns encoded once, as `exact` takes them."""
    words = table.text_columns
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_column_transformer((one_hot, words), remainder=StandardScaler()).fit(table.X)
    return make_pipeline(
        FrozenEstimator(encoder), LogisticRegression(C=0.1, tol=1e-7, max_iter=2_000)
    )


def agreement(table: Table, grid: Sequence[float], n_curves: int, seed: int) -> dict[str, Any]:
    """Return `exact`, and some curves with the standard errors of their means."""
    study = table.study(frozen_logistic(table))
    exact = study.estimate(epsilon=grid, method="exact").to_frame()
    found = []
    for number in range(n_curves):
        result = study.estimate(
            epsilon=grid, method="curve", seconds=MANY_SECONDS, random_state=seed + number
        )
        frame = result.to_frame()
        runs = result.draws().pivot(index="epsilon", columns="repeat", values="loss_change")
        square = runs.var(axis=1, ddof=1) / runs.shape[1]
        at = np.log(frame["epsilon"].to_numpy(dtype=float))
        errors = np.sqrt(np.interp(at, np.log(square.index.to_numpy(dtype=float)), square))
        found.append(
            {
                "change": frame["loss_change"].tolist(),
                "standard_error": errors.tolist(),
                "is_node": (frame["number_type"] == "measured").tolist(),
                "n_fits": result.n_fits,
            }
        )
    return {
        "exact": exact["loss_change"].tolist(),
        "expected_changes": expected_changes(
            grid, len(table.X), len(table.y.cat.categories)
        ).tolist(),
        "trusted": exact["trusted"].tolist(),
        "curves": found,
    }


def agreed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far curves and `exact` are apart, in standard errors of the curve's mean.

    Over the ε with enough expected changes: with few, all draws may be alike, and there is nothing to divide by.
    Differences of the mean curve in nats are over all ε.
    """
    enough = np.array(found["expected_changes"]) >= FEWEST_CHANGES
    everywhere = np.abs(
        np.mean([one["change"] for one in found["curves"]], axis=0) - np.array(found["exact"])
    )
    exact = np.array(found["exact"])[enough]
    changes, errors, nodes = (
        np.array([one[name] for one in found["curves"]])[:, enough]
        for name in ("change", "standard_error", "is_node")
    )
    apart = np.abs(changes - exact) / errors
    mean, spread = changes.mean(axis=0), changes.std(axis=0, ddof=1)
    of_mean = np.abs(mean - exact) / (spread / math.sqrt(len(changes)))
    return {
        "within_two": float((apart <= 2).mean()),
        "within_two_at_nodes": _mean(apart[nodes] <= 2),
        "worst": float(apart.max()),
        "worst_at_nodes": float(apart[nodes].max(initial=0.0)),
        "mean_within_two": float((of_mean <= 2).mean()),
        "mean_worst": float(of_mean.max()),
        "mean_difference": float(everywhere.mean()),
        "standard_error": float(errors.mean()),
        "largest_change": float(np.abs(exact).max()),
        # Draws that spread evenly: below 1 where the mean varies less than that of independent ones.
        "spread_of_curves": float(np.sqrt((spread**2).mean() / (errors**2).mean())),
        "largest_mean_difference": float(everywhere.max()),
        "exact_trusted": int(np.array(found["trusted"])[enough].sum()),
        "cells": len(exact),
        "curves": len(changes),
    }


# --- All of it ---


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes
    ----------
    grid : list of float
    curves, naive, reference : int
        Curves with different seeds; draws of naive retraining and of the reference.
    rows, test_rows : int
    repetitions, block, clean : int
        Repetitions of a whole curve, how many are one part, and models of the true answers.
    agreement_curves : int
    comparisons : tuple of (table, family, protected feature or "label")
    coverage, agreement : tuple of str
    reference_every : int
        The reference is trained at every n-th ε.
    """

    grid: list[float]
    curves: int
    naive: int
    reference: int
    rows: int
    test_rows: int
    repetitions: int
    block: int
    clean: int
    agreement_curves: int
    comparisons: tuple[tuple[str, str, str], ...]
    coverage: tuple[str, ...]
    agreement: tuple[str, ...]
    reference_every: int = 1

    @property
    def places(self) -> list[int]:
        """The ε of the reference among those of the grid."""
        return list(range(self.reference_every // 2, len(self.grid), self.reference_every))

    @property
    def fresh(self) -> list[int]:
        """The ε of fresh runs among those of the grid: the first nodes, and others between."""
        return sorted({*np.linspace(0, len(self.grid) - 1, FRESH).round().astype(int).tolist()})

    @property
    def known(self) -> list[float]:
        return [self.grid[place] for place in self.places]


FULL = Size(
    grid=GRID.tolist(),
    curves=CURVES,
    naive=NAIVE_DRAWS,
    reference=REFERENCE_DRAWS,
    rows=ROWS,
    test_rows=TEST_ROWS,
    repetitions=REPETITIONS,
    block=BLOCK,
    clean=CLEAN_RUNS,
    agreement_curves=AGREEMENT_CURVES,
    comparisons=(
        *((table, family, "label") for table in TABLES for family in FAMILIES),
        ("adult", "HistGradientBoosting", "sex"),
        ("large adult", "HistGradientBoosting", "label"),
    ),
    coverage=tuple(COVERAGE_MODELS),
    agreement=tuple(AGREEMENT_TABLES),
    reference_every=REFERENCE_EVERY,
)
QUICK = Size(
    grid=np.geomspace(0.1, 10.0, 8).tolist(),
    curves=2,
    naive=4,
    reference=8,
    rows=300,
    test_rows=300,
    repetitions=6,
    block=3,
    clean=4,
    agreement_curves=2,
    comparisons=(("generated", "RandomForest", "label"), ("generated", "LightGBM", "telephone")),
    coverage=tuple(COVERAGE_MODELS),
    agreement=("diabetes", "two classes"),
)


def planned(size: Size, folder: Path | None) -> list[Work]:
    """Return all parts."""
    table_of = cache(
        lambda name: {**TABLES, **LARGE_TABLES}[name](folder, size.rows, size.test_rows)
    )
    work: list[Work] = []
    for name, family, protected in size.comparisons:
        # Made when the first part of it is not there yet.
        study = cache(lambda n=name, f=family: table_of(n).study(pipeline(f, table_of(n))))
        model = repr(FAMILIES[family]().get_params())
        asked = {"epsilon": size.grid}
        if protected != "label":
            asked["protect"] = [protected]
        known = {**asked, "epsilon": [*size.known, math.inf]}
        for what, draws, make in (
            (
                "curves",
                size.curves,
                lambda s=study, a=asked: curves(s(), a, range(1, size.curves + 1), repeats=2),
            ),
            ("naive", size.naive, lambda s=study, a=asked: retrained(s(), a, size.naive, 100)),
            (
                "reference",
                size.reference,
                lambda s=study, a=known: retrained(s(), a, size.reference, 200),
            ),
        ):
            at = size.known if what == "reference" else size.grid
            about = {"model": model, "rows": [size.rows, size.test_rows], "grid": at}
            settings = {"what": what, "table": name, "family": family, "protected": protected}
            work.append(Work({**settings, "draws": draws, "about": about}, make))
    studies = {
        name: cache(lambda n=name: coverage_table().study(COVERAGE_MODELS[n]()))
        for name in size.coverage
    }
    for name, study in studies.items():
        model = repr(COVERAGE_MODELS[name]().get_params())
        about = {"model": model, "rows": [COVERAGE_ROWS, COVERAGE_TEST], "grid": size.grid}
        settings = {"family": name, "about": about}
        clean = {"what": "clean", **settings, "draws": size.clean}
        work.append(Work(clean, lambda s=study: clean_loss(s(), size.clean)))
    for first in range(0, size.repetitions, size.block):
        for name, study in studies.items():
            model = repr(COVERAGE_MODELS[name]().get_params())
            about = {"model": model, "rows": [COVERAGE_ROWS, COVERAGE_TEST], "grid": size.grid}
            about["fresh"] = size.fresh
            block = {"what": "coverage", "family": name, "about": about, "at": str(first)}
            seeds = range(first, first + size.block)
            work.append(
                Work(
                    {**block, "size": size.block},
                    lambda s=study, r=seeds: fresh_runs(s(), r, size.grid, size.fresh),
                )
            )
    for name in size.agreement:
        settings = {"what": "agreement", "table": name, "grid": size.grid}
        work.append(
            Work(
                {**settings, "curves": size.agreement_curves},
                partial(_agreement_of, name, folder, size.grid, size.agreement_curves),
            )
        )
    return work


def _agreement_of(name: str, folder: Path | None, grid: Sequence[float], n: int) -> dict[str, Any]:
    return agreement(AGREEMENT_TABLES[name](folder), grid, n, 1)


def clean_loss(study: WhatIf, repeats: int) -> float:
    """Return the mean loss of models of the true answers, each with a seed of its own."""
    return float(losses(study.retrain(epsilon=[math.inf], repeats=repeats)).mean())


def result_of(parts: Sequence[Mapping[str, Any]], size: Size) -> dict[str, Any]:
    """Return the whole result, of the parts that are there."""
    found = {
        (part["what"], part.get("table"), part.get("family"), part.get("protected")): part["found"]
        for part in parts
        if part["what"] not in ("coverage", "clean") and part["found"] is not None
    }
    rows, missing = [], []
    for comparison in size.comparisons:
        three = [found.get((what, *comparison)) for what in ("curves", "naive", "reference")]
        about = dict(zip(("table", "family", "protected"), comparison, strict=True))
        if any(one is None for one in three):
            missing.append(", ".join(comparison))
        else:
            rows.append({**about, **compared(*three, size.places)})
    clean = {part["family"]: part["found"] for part in parts if part["what"] == "clean"}
    coverage = {}
    for name in size.coverage:
        blocks = [
            part["found"] or []
            for part in parts
            if part["what"] == "coverage" and part["family"] == name
        ]
        runs = [one for block in blocks for one in block]
        if clean.get(name) is None or len(runs) < 2:
            missing.append(f"coverage of {name}")
            continue
        coverage[name] = covered(
            runs,
            clean[name],
            expected_changes([size.grid[e] for e in size.fresh], COVERAGE_ROWS, 2),
        )
        if len(runs) < size.repetitions:
            missing.append(f"{size.repetitions - len(runs)} repetitions of {name}")
    agreements = {}
    for name in size.agreement:
        held = found.get(("agreement", name, None, None))
        if held is None:
            missing.append(f"agreement on {name}")
        else:
            agreements[name] = agreed(held)
    return {
        "epsilon": size.grid,
        "curve_draws": CURVE_DRAWS,
        "curves": size.curves,
        "naive_draws": size.naive,
        "reference_draws": size.reference,
        "reference_epsilon": size.known,
        "most_fits": len(size.grid) * size.naive // 8,
        "rows_of_tables": [size.rows, size.test_rows],
        "fresh": [size.grid[e] for e in size.fresh],
        "coverage_rows": [COVERAGE_ROWS, COVERAGE_TEST],
        "models": {name: _model_words(make()) for name, make in FAMILIES.items()},
        "coverage": coverage,
        "agreement": agreements,
        "not_run": missing,
        "rows": rows,
    }


def with_stored(result: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with what it lacks taken from the stored one, if that was made under the same settings.

    The finished parts of a run may be gone, as after a move to another machine.
    """
    same = ("epsilon", "curve_draws", "curves", "naive_draws", "reference_draws", "rows_of_tables")
    same = (*same, "reference_epsilon", "coverage_rows", "fresh", "models")
    if any(result[name] != stored.get(name) for name in same):
        return result
    rows = {_about(row): row for row in (*stored["rows"], *result["rows"])}
    order = [*FULL.comparisons]
    return {
        **result,
        "rows": sorted(rows.values(), key=lambda row: order.index(_about(row))),
        "coverage": {**stored["coverage"], **result["coverage"]},
        "agreement": {**stored["agreement"], **result["agreement"]},
        "not_run": [name for name in result["not_run"] if name in stored["not_run"]],
    }


def _about(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["table"], row["family"], row["protected"]


def _model_words(model: BaseEstimator) -> str:
    """Return the settings of a model that are not its defaults."""
    with_names = {
        name: value
        for name, value in model.get_params().items()
        if name in _SHOWN and value is not None
    }
    return ", ".join(f"{name} {value}" for name, value in with_names.items())


_SHOWN = (
    *("max_iter", "max_leaf_nodes", "n_estimators", "min_samples_leaf"),
    *("max_depth", "num_leaves", "hidden_layer_sizes"),
)
_TITLES = {
    "adult": "Adult",
    "pubcov": "PubCov",
    "wisdm": "WISDM",
    "generated": "generated",
    "large adult": f"Adult, {LARGER * ROWS:,} records",
}


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def markdown(result: Mapping[str, Any]) -> str:
    """Return the tables."""
    n, n_test = result["rows_of_tables"]
    most, n_curves = result["most_fits"], result["curves"]
    lines = [
        f"**The mean curve.** {len(result['epsilon'])} ε from {result['epsilon'][0]:g} to {result['epsilon'][-1]:g}, "
        f"{n:,} records to train on, {n_test:,} to test on. *Error* is the mean absolute error of the change of test "
        f"loss over the ε, against a reference of {result['reference_draws']} independent draws at {len(result['reference_epsilon'])} of these ε; it is the "
        f"mean of {n_curves} curves of {result['curve_draws']} draws. *Halves* is the distance between two halves of "
        f"a naive retraining with {result['naive_draws']} draws at every ε, the mean of several retrainings. The bar: a "
        f"ratio of at most 1, with at most {most} trainings. Seconds are processor time.",
        "",
        "| table | protected | model | error | halves | ratio | error of the reference | trainings: curve, naive | "
        "seconds: curve, naive | within the bar |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        fits = row["n_fits"] <= most
        kept = row["ratio"] <= 1 and fits
        sure = abs(row["ratio"] - 1) > 2 * row["ratio_standard_error"]
        lines.append(
            f"| {_TITLES[row['table']]} | {row['protected']} | {row['family']} | "
            f"{row['error']:.5f} ± {row['error_standard_error']:.5f} | "
            f"{row['halves']:.5f} ± {row['halves_standard_error']:.5f} | "
            f"{row['ratio']:.2f} ± {row['ratio_standard_error']:.2f} | {row['reference_standard_error']:.5f} | "
            f"{row['n_fits']}, {row['naive_fits']} | {row['seconds']:.1f}, {row['naive_seconds']:.1f} | "
            f"{'yes' if kept else '**no**'}{'' if sure or not fits else ', within two standard errors of 1'} |"
        )
    if result["rows"]:
        kept = [row for row in result["rows"] if row["ratio"] <= 1 and row["n_fits"] <= most]
        ratios = [row["ratio"] for row in result["rows"]]
        lines += [
            "",
            f"Within the bar: {len(kept)} of {len(ratios)} rows; the mean ratio is {np.mean(ratios):.2f}, the largest "
            f"{max(ratios):.2f}.",
        ]
    if result["coverage"]:
        rows, tested = result["coverage_rows"]
        lines += [
            "",
            f"**The interval.** A generated table of {rows} records, {tested} to test on. A whole curve of five "
            f"draws is made again and again, each time with another seed, and one fresh run at each of {len(result['fresh'])} ε is compared "
            "with its 90 % interval. Errors are over whole repetitions. *Mean baseline* counts the change from the "
            "mean of many models of the true answers instead of the baseline of the curve. *Many changes* are the ε with at "
            f"least {FEWEST_CHANGES} expected changes of an answer. The bar: "
            f"{_percent(COVERED[0])} to {_percent(COVERED[1])}.",
            "",
            "| model | repetitions | inside | many changes, few | at trained ε | between | lowest, highest ε | mean baseline | accuracy inside |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for name, one in result["coverage"].items():
            lines.append(
                f"| {name} | {one['repetitions']} | {_percent(one['coverage'])} ± "
                f"{_percent(one['coverage_standard_error'])} | {_percent(one['many_changes'])} ± "
                f"{_percent(one['many_changes_standard_error'])}, "
                f"{_percent(one['few_changes'])} | "
                f"{_percent(one['at_nodes'])} | "
                f"{_percent(one['between_nodes'])} | {_percent(one['lowest'])}, {_percent(one['highest'])} "
                f"(each ± {_percent(one['single_standard_error'])}) | {_percent(one['from_mean_baseline'])} ± "
                f"{_percent(one['from_mean_baseline_standard_error'])} | {_percent(one['accuracy'])} ± "
                f"{_percent(one['accuracy_standard_error'])} |"
            )
    if result["agreement"]:
        lines += [
            "",
            "**Beside `exact`.** Logistic regression on columns that are encoded once; ε with at least "
            f"{FEWEST_CHANGES} expected changes. *Apart* is the distance of a "
            "curve of five draws from `exact`, in standard errors of its mean, taken as if its draws were independent. "
            "*Spread* is the real standard error over that one: the draws spread evenly, so it is smaller. *Mean* is "
            "the same for the mean of several curves, in standard errors from their own spread. Differences of the mean are in "
            "nats, over all ε.",
            "",
            "| table | curves | within two | worst apart | spread | mean within two | mean worst | difference of the mean: average, largest | "
            "largest change |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for name, one in result["agreement"].items():
            lines.append(
                f"| {name} | {one['curves']} | {_percent(one['within_two'])} | {one['worst']:.1f} | "
                f"{one['spread_of_curves']:.2f} | {_percent(one['mean_within_two'])} | {one['mean_worst']:.1f} | "
                f"{one['mean_difference']:.5f}, {one['largest_mean_difference']:.5f} | {one['largest_change']:.3f} |"
            )
    if result["not_run"]:
        lines += ["", f"Not run: {'; '.join(result['not_run'])}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder for finished parts")
    parser.add_argument("--stored", action="store_true", help="finished parts only, nothing is run")
    parser.add_argument(
        "--backwards",
        action="store_true",
        help="the last part first: beside a process that takes the first part first",
    )
    parser.add_argument(
        "--reference-every",
        type=int,
        default=REFERENCE_EVERY,
        help="train the reference at every n-th ε; 1: at every one",
    )
    parser.add_argument(
        "--only",
        help="make the comparisons on this table alone; the others are those that are stored",
    )
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    # Classes count as public here, and a network is trained briefly: both say so in warnings.
    warnings.simplefilter("ignore", UserWarning)
    size = QUICK if settings.quick else replace(FULL, reference_every=settings.reference_every)
    work = planned(size, settings.data)
    if settings.only is not None:
        work = [one for one in work if settings.only in one.settings.values()]
    with tempfile.TemporaryDirectory() as folder:
        kept = Kept(Path(folder) if settings.quick else settings.kept, settings.stored)
        with use_passes(LocalPasses(1)):
            if settings.backwards:
                collected(work[::-1], kept)
            result = result_of(collected(work, kept), size)
    if settings.only is not None:
        result = with_stored(result, json.loads((RESULTS / "any-model.json").read_text()))
    keep("any-model", markdown(result), result, is_quick=settings.quick)


if __name__ == "__main__":
    run(main)
