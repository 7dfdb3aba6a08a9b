"""scikit-learn's contract for PrivateRidge."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from epsilens.errors import PrivacyLeakWarning
from epsilens.ridge import PrivateRidge

BOUNDS = {"x_bound": 10.0, "y_bound": 100.0, "coef_bound": 100.0, "alpha": 1.0}
# The checks set a seed, and a seed makes a simulation: that warning is meant.
pytestmark = [
    pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


@parametrize_with_checks(
    [
        PrivateRidge(rho=1.0, **BOUNDS),
        PrivateRidge(epsilon=2.0, delta=1e-6, fit_intercept=False, sensitivity="paper", **BOUNDS),
        PrivateRidge(rho=1.0, mechanism="adassp", adjacency="replace-one", **BOUNDS),
    ]
)
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:Can't instantiate")
def test_the_whole_check_passes_with_noise_of_the_operating_system():
    done = check_estimator(PrivateRidge(rho=1.0, **BOUNDS), on_fail=None)
    assert [entry["check_name"] for entry in done if entry["status"] == "failed"] == []


def test_a_seed_warns():
    with pytest.warns(PrivacyLeakWarning, match="simulation"):
        PrivateRidge(rho=1.0, random_state=0, **BOUNDS).fit([[1.0], [2.0]], [1.0, 2.0])
