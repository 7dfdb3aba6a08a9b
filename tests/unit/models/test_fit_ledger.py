"""Budgets of several fits on the same records add up."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from epsilens.errors import BudgetExceededError, PrivacyLeakWarning
from epsilens.models.gaussian_release import FITS, FitLedger
from epsilens.ridge import PrivateRidge

BOUNDS = {"x_bound": 2.0, "y_bound": 3.0, "coef_bound": 1.5, "alpha": 20.0}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(100, 3))
    return X, X @ [0.5, -0.3, 0.2]


def test_cross_validation_spends_on_every_fold(table):
    model = PrivateRidge(rho=0.1, **BOUNDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(model, *table, cv=5)
        model.fit(*table)
    # Every record is in four of five folds.
    totals = [str(warning.message).partition("used in ")[2] for warning in caught]
    words = "{} fits of this process, so ρ adds up to {:g}."
    assert totals == [words.format(n, 0.1 * n) for n in (2, 3, 4, 4, 5)]
    assert model.rho_ == 0.1
    assert model.total_rho_ == pytest.approx(0.5)


def test_a_first_fit_and_a_fit_on_other_records_say_nothing(table):
    X, y = table
    first = PrivateRidge(rho=0.1, **BOUNDS).fit(X[:50], y[:50])
    other = PrivateRidge(rho=0.2, **BOUNDS).fit(X[50:], y[50:])
    assert (first.total_rho_, other.total_rho_) == (0.1, 0.2)
    with pytest.warns(PrivacyLeakWarning, match="adds up to 0.5"):
        assert PrivateRidge(rho=0.3, **BOUNDS).fit(X, y).total_rho_ == pytest.approx(0.5)


def test_a_simulation_does_not_count(table):
    with pytest.warns(PrivacyLeakWarning, match="simulation"):
        simulated = PrivateRidge(rho=0.1, random_state=0, max_total_rho=0.01, **BOUNDS).fit(*table)
    assert simulated.total_rho_ is None
    assert PrivateRidge(rho=0.1, **BOUNDS).fit(*table).total_rho_ == 0.1


@pytest.mark.parametrize("mechanism", ["output", "adassp"])
def test_a_fit_beyond_the_limit_is_refused_and_not_counted(table, mechanism):
    model = PrivateRidge(rho=0.1, max_total_rho=0.3, mechanism=mechanism, **BOUNDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for _ in range(3):
            model.fit(*table)
        published = model.coef_
        with pytest.raises(
            BudgetExceededError, match=r"`max_total_rho` = 0.3, but with ρ = 0.1 .* 0.4"
        ):
            model.fit(*table)
        assert model.coef_ is published
        assert model.set_params(max_total_rho=0.4).fit(*table).total_rho_ == pytest.approx(0.4)
    with pytest.raises(ValueError, match="`max_total_rho` must be finite and greater than 0"):
        PrivateRidge(rho=0.1, max_total_rho=0.0, **BOUNDS).fit(*table)


def test_a_fit_that_is_refused_spends_nothing(table):
    with pytest.raises(ValueError, match="must be given"):
        PrivateRidge(rho=0.1, alpha=1.0).fit(*table)
    assert PrivateRidge(rho=0.1, **BOUNDS).fit(*table).total_rho_ == 0.1


def test_totals_are_those_of_a_dictionary():
    rng, ledger = np.random.default_rng(0), FitLedger()
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    X[0], y[1] = -0.0, -0.0
    spent = dict.fromkeys(range(40), (0.0, 0))
    for _ in range(30):
        chosen = rng.choice(40, size=12)  # some of them twice, which counts once
        rho = float(rng.uniform(0.1, 1.0))
        found = ledger.enter(ledger.digests(X[chosen], y[chosen]), rho)
        for record in set(chosen.tolist()):
            spent[record] = (spent[record][0] + rho, spent[record][1] + 1)
        rho_spent, n_fits = max(spent[record] for record in chosen.tolist())
        assert found.rho == pytest.approx(rho_spent, rel=1e-12)
        assert found.n_fits == n_fits
    assert len(ledger.digests(X + 0.0, y + 0.0)) == 40
    assert math.isfinite(ledger.enter(ledger.digests(np.zeros((1, 2)), y[:1]), 1.0).rho)


def test_digests_depend_on_the_key_and_on_the_place_of_a_value():
    X, y = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([3.0, 3.0])
    one = FITS.digests(X, y)
    assert len(one) == 2
    assert not np.isin(one, FitLedger().digests(X, y)).any()
