"""scikit-learn's contract for PrivateLogisticRegression."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from epsilens.private import PrivateLogisticRegression

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "x_bound": 10.0}
# The checks set a seed, and a seed makes a simulation; they name no classes: those warnings are meant.
pytestmark = [
    pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


@parametrize_with_checks(
    [
        PrivateLogisticRegression(n_steps=10, **BUDGET),
        PrivateLogisticRegression(
            mechanism="output-perturbation", protects="answer", fit_intercept=False, **BUDGET
        ),
    ]
)
def test_contract(estimator, check):
    check(estimator)
