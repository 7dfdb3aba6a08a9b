# SPDX-License-Identifier: Apache-2.0
"""Refit every cell with scikit-learn: what an estimate saves.

A group's expected labels are given as weights: each of its records stands there twice, with weight
1 − q and its own label, and with weight q and the other one. A method's name says which cells are
refitted, by which solver and to which tolerance:

- `training`: no cell, the model of the true labels;
- `trial`: three cells, to choose solver and tolerance;
- `sampled`: three cells a group, every ε once in ten groups;
- `drawn`: the same cells, each on one randomised data set without weights, which is what somebody who
  tries an ε would train: fewer rows, and one draw instead of the expectation;
- `warm`: all ε of the middle group from large to small, each started from the one before.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from exchange import Method, Problem, main
from sklearn.linear_model import LogisticRegression

SOLVERS = ("newton-cholesky", "lbfgs", "newton-cg")
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)
KINDS = ("training", "trial", "sampled", "drawn", "warm")


def name_of(kind: str, solver: str, tolerance: float) -> str:
    return f"{kind}-{solver}-{tolerance:.0e}"


def chosen_cells(kind: str, n_groups: int, n_epsilon: int) -> list[list[int]]:
    """Return, for every group, the positions of the ε that are refitted."""
    if kind == "training":
        return [[] for _ in range(n_groups)]
    if kind == "trial":
        cells: list[list[int]] = [[] for _ in range(n_groups)]
        cells[0], cells[n_groups // 2], cells[-1] = [n_epsilon - 1], [n_epsilon // 3], [0]
        return cells
    if kind == "warm":
        cells = [[] for _ in range(n_groups)]
        cells[(n_groups - 1) // 2] = list(range(n_epsilon - 1, -1, -1))
        return cells
    step = max(n_epsilon // 3, 1)
    return [[(group + step * k) % n_epsilon for k in range(3)] for group in range(n_groups)]


def _test_loss(model: LogisticRegression, problem: Problem) -> float:
    s = model.decision_function(problem.X_test)
    return float(np.mean(np.logaddexp(0.0, s) - problem.y_test * s))


def refit(problem: Problem, *, kind: str, solver: str, tolerance: float) -> np.ndarray:
    """Return the change of the test loss in the cells of this kind, NaN elsewhere."""
    values = np.full((len(problem.groups), len(problem.epsilon)), np.nan)
    model = LogisticRegression(
        C=1 / (len(problem.y) * problem.penalty),
        fit_intercept=False,
        solver=solver,
        tol=tolerance,
        max_iter=10_000,
        warm_start=kind == "warm",
    )
    s = problem.X_test @ problem.theta
    before = float(np.mean(np.logaddexp(0.0, s) - problem.y_test * s))
    if kind == "training":
        values[:] = _test_loss(model.fit(problem.X, problem.y), problem) - before
        return values
    rng = np.random.default_rng(0)
    for group, cells in enumerate(chosen_cells(kind, *values.shape)):
        if not cells:
            continue
        mask = problem.groups[group]
        X = np.vstack([problem.X, problem.X[mask]])
        y = np.concatenate([problem.y, 1.0 - problem.y[mask]])
        if kind == "warm":
            model.coef_, model.intercept_ = problem.theta[None, :].copy(), np.zeros(1)
            model.classes_, model.n_features_in_ = np.array([0.0, 1.0]), X.shape[1]
        for cell in cells:
            q = problem.flip_probability[cell]
            if kind == "drawn":
                flipped = mask & (rng.random(len(mask)) < q)
                model.fit(problem.X, np.where(flipped, 1.0 - problem.y, problem.y))
            else:
                weights = np.concatenate([np.where(mask, 1.0 - q, 1.0), np.full(mask.sum(), q)])
                model.fit(X, y, sample_weight=weights)
            values[group, cell] = _test_loss(model, problem) - before
    return values


def _method(kind: str, solver: str, tolerance: float) -> Method:
    def compute(prepared: object) -> np.ndarray:
        assert isinstance(prepared, Problem)
        return refit(prepared, kind=kind, solver=solver, tolerance=tolerance)

    return Method(
        f"LogisticRegression(solver={solver!r}, tol={tolerance:.0e}).fit with sample_weight",
        lambda problem: problem,
        compute,
        excluded="nothing",
        notes=lambda prepared: {"solver": solver, "tolerance": tolerance},
    )


METHODS = {name_of(*choice): _method(*choice) for choice in product(KINDS, SOLVERS, TOLERANCES)}

if __name__ == "__main__":
    main("scikit-learn", METHODS)
