# SPDX-License-Identifier: Apache-2.0
"""The 300 cells with epsilens, in a process of its own like every peer.

`WhatIf.fit` trains and keeps the factorised Hessian. Where training is left out, that Hessian is
formed and factorised once more inside the time, as every peer has to.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from exchange import Method, Problem, main
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.influence import summarise_group, walk
from epsilens.models import factorise


@dataclass(frozen=True)
class Prepared:
    problem: Problem
    study: WhatIf
    labels: tuple[pd.Series, pd.Series]
    groups: dict[str, np.ndarray]
    seconds: dict[str, float] = field(default_factory=dict)


def _labels(y: np.ndarray) -> pd.Series:
    return pd.Series(y.astype(int), name="label").astype("category")


def _new_study(problem: Problem) -> WhatIf:
    return WhatIf(LogisticRegression(C=1 / (len(problem.y) * problem.penalty), fit_intercept=False))


def untrained(problem: Problem) -> Prepared:
    labels = _labels(problem.y), _labels(problem.y_test)
    groups = {f"group {k}": mask for k, mask in enumerate(problem.groups)}
    return Prepared(problem, _new_study(problem), labels, groups)


def _train(prepared: Prepared) -> None:
    problem = prepared.problem
    prepared.study.fit(problem.X, prepared.labels[0], problem.X_test, prepared.labels[1])


def trained(problem: Problem) -> Prepared:
    prepared = untrained(problem)
    _train(prepared)
    return prepared


def _factorise_again(prepared: Prepared) -> None:
    started = time.perf_counter()
    baseline = prepared.study.baseline_
    factorise(baseline.problem.hessian(baseline.theta))
    prepared.seconds["hessian_and_factor"] = time.perf_counter() - started


def _sums(prepared: Prepared) -> np.ndarray:
    started = time.perf_counter()
    table = prepared.study.point_table(protect="label")
    prepared.seconds["point_table"] = time.perf_counter() - started
    started = time.perf_counter()
    values = table.changes(prepared.problem.groups, prepared.problem.flip_probability)
    prepared.seconds["300_cells"] = time.perf_counter() - started
    return values


def point_table(prepared: Prepared) -> np.ndarray:
    _factorise_again(prepared)
    return _sums(prepared)


def point_table_and_training(prepared: Prepared) -> np.ndarray:
    _train(prepared)
    return _sums(prepared)


def _estimate(prepared: Prepared, method: str) -> np.ndarray:
    answer = prepared.study.estimate(
        protect="label",
        epsilon=prepared.problem.epsilon,
        groups=prepared.groups,
        method=method,
    )
    changes = answer.to_frame()["loss_change"].to_numpy()
    return changes.reshape(len(prepared.groups), -1)


def influence(prepared: Prepared) -> np.ndarray:
    _factorise_again(prepared)
    return _estimate(prepared, "influence")


def exact(prepared: Prepared) -> np.ndarray:
    return _estimate(prepared, "exact")


def exact_solver(prepared: Prepared) -> np.ndarray:
    """Only the minimisers and their test loss: no intervals, no accuracy; what refits give too."""
    problem, baseline = prepared.problem, prepared.study.baseline_
    codes, classes = baseline.label.domain()
    statistics = baseline.problem.loss.statistic(classes)
    keep = 1.0 - problem.flip_probability
    channels = np.array([[[k, 1.0 - k], [1.0 - k, k]] for k in keep])
    shifts = np.empty((len(channels), baseline.problem.n_parameters, len(problem.groups)))
    for group, mask in enumerate(problem.groups):
        noise = summarise_group(baseline.problem, codes, statistics, mask)
        for e, channel in enumerate(channels):
            shifts[e, :, group] = noise.shift(channel)
    values = np.empty((len(problem.groups), len(channels)))
    evaluation = baseline.evaluation
    for point in walk(
        baseline.problem, baseline.theta, baseline.curvature, baseline.linear, shifts
    ):
        predictor = evaluation.design.predict(point.theta)
        for group in range(len(problem.groups)):
            loss = evaluation.loss.value(predictor[:, :, group], evaluation.y)
            values[group, point.index] = evaluation.weights @ loss - baseline.outcomes.loss
    return values


def parts(prepared: Prepared) -> dict[str, object]:
    """Return the seconds of the last run's parts, and of one more group at one more ε."""
    rng = np.random.default_rng(0)
    table, seconds = prepared.study.point_table(protect="label"), []
    for _ in range(200):
        mask, epsilon = rng.random(len(prepared.problem.y)) < rng.random(), 10 * rng.random()
        started = time.perf_counter()
        table.change(mask, 1.0 / (1.0 + np.exp(epsilon)))
        seconds.append(time.perf_counter() - started)
    new = {"median": float(np.median(seconds)), "largest": max(seconds), "calls": len(seconds)}
    return {"seconds": dict(prepared.seconds), "new_cell_seconds": new}


if __name__ == "__main__":
    main(
        "epsilens",
        {
            "point-table": Method(
                "factorise, WhatIf.point_table, PointTable.change",
                trained,
                point_table,
                notes=parts,
            ),
            "point-table-and-training": Method(
                "WhatIf.fit, .point_table, PointTable.change",
                untrained,
                point_table_and_training,
                excluded="nothing",
            ),
            "influence": Method(
                'factorise, WhatIf.estimate(method="influence"): losses, accuracy, AUC',
                trained,
                influence,
            ),
            "exact": Method(
                'WhatIf.estimate(method="exact"): losses, accuracy, AUC, intervals', trained, exact
            ),
            "exact-solver": Method(
                "influence.summarise_group, influence.walk: losses", trained, exact_solver
            ),
        },
    )
