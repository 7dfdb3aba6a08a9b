from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from epsilens.models import Design
from epsilens.models.separation import runs_away


def mixed(n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features with a rare category, well-mixed classes, and parameters far out."""
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(200, 2)), np.arange(200) < 12, np.ones(200)]
    y = rng.integers(0, n_classes, 200).astype(float)
    return X, y, 40.0 * rng.normal(size=4 * (1 if n_classes == 2 else n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_only_a_direction_that_harms_nobody_counts(n_classes, wrap):
    X, y, theta = mixed(n_classes)
    y[:12] = 1.0
    y[:n_classes] = np.arange(n_classes)  # every answer is given in the category
    assert not runs_away(Design.plain(wrap(X)), y, theta)
    assert runs_away(Design.plain(wrap(X[1:])), y[1:], theta)


def test_huge_values_of_one_record_are_no_separation():
    X, y, theta = mixed(2)
    X[5, :2] *= 1e5
    assert not runs_away(Design.plain(X), y, theta)


def test_near_parameters_are_not_asked_about():
    X = np.c_[np.arange(4.0), np.ones(4)]
    y = (np.arange(4) > 1).astype(float)
    assert not runs_away(Design.plain(X), y, np.array([1.0, -1.5]))
    assert runs_away(Design.plain(X), y, np.array([20.0, -30.0]))
