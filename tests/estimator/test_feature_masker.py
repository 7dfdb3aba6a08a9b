"""scikit-learn's contract for FeatureMasker."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from epsilens.masking import FeatureMasker

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@parametrize_with_checks([FeatureMasker(), FeatureMasker(method="random", replacement="drop")])
def test_contract(estimator, check):
    check(estimator)
