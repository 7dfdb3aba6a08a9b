# SPDX-License-Identifier: Apache-2.0
"""The truth for leave-one-out: models fitted again without each record, in three precisions."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression

__all__ = ["in_long_double", "test_loss", "without_each"]


def converged(model: object) -> object:
    """Return a fresh model that minimises to the end."""
    fresh = clone(model)
    if isinstance(fresh, LogisticRegression):
        fresh.set_params(solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return fresh


def test_loss(model: object, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean loss: nats, or squared error."""
    if is_classifier(model):
        s = model.decision_function(X)
        return float(np.mean(np.logaddexp(0, s) - (y == model.classes_[1]) * s))
    return float(np.mean((model.predict(X) - y) ** 2))


test_loss.__test__ = False  # its name is no test's


def without_each(
    model: object,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Return the influence of every record (or of some) by fitting again in double precision."""
    chosen = np.arange(len(y)) if rows is None else rows
    scores = np.empty(len(chosen))
    keep = np.ones(len(y), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last digits of a line search
        whole = test_loss(converged(model).fit(X, y), X_test, y_test)
        for number, row in enumerate(chosen):
            keep[row] = False
            scores[number] = test_loss(converged(model).fit(X[keep], y[keep]), X_test, y_test)
            keep[row] = True
    return scores - whole


def in_long_double(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> np.ndarray | None:
    """Return the influences of a LinearRegression in extended precision; None if there is none.

    Normal equations of the centred features in 64 bits of mantissa, one system a record, solved side
    by side by Gaussian elimination.
    """
    wide = np.longdouble
    if np.finfo(wide).eps > 1e-18:
        return None
    centre, size = X.mean(axis=0).astype(wide), X.std(axis=0).astype(wide)
    Z = np.column_stack([(X.astype(wide) - centre) / size, np.ones(len(X), dtype=wide)])
    Z_test = np.column_stack([(X_test.astype(wide) - centre) / size, np.ones(len(X_test), wide)])
    y, y_test = y.astype(wide), y_test.astype(wide)
    gram, side = Z.T @ Z, Z.T @ y
    systems = gram - Z[:, :, None] * Z[:, None, :]
    sides = side - Z * y[:, None]
    theta = _eliminate(np.concatenate([systems, gram[None]]), np.concatenate([sides, side[None]]))
    losses = np.array([np.mean((Z_test @ column - y_test) ** 2) for column in theta])
    return (losses[:-1] - losses[-1]).astype(float)


def _eliminate(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve many symmetric positive definite systems at once, without pivots."""
    p = A.shape[1]
    for k in range(p):
        factor = A[:, k + 1 :, k] / A[:, k, k][:, None]
        A[:, k + 1 :] -= factor[:, :, None] * A[:, None, k]
        b[:, k + 1 :] -= factor * b[:, k][:, None]
    for k in reversed(range(p)):
        b[:, k] = (b[:, k] - np.einsum("bj,bj->b", A[:, k, k + 1 :], b[:, k + 1 :])) / A[:, k, k]
    return b
