"""PrivateRidge: what it fits, what it reports, what it refuses and what it warns of."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.models.private_ridge import exact_coefficients
from epsilens.ridge import PrivateRidge, RidgeBounds, epsilon_of_rho, rho_of_epsilon

# Several fits on the same records are meant here.
pytestmark = pytest.mark.filterwarnings("ignore:PrivateRidge. these records have been used")
BOUNDS = {"x_bound": 2.0, "y_bound": 3.0, "coef_bound": 1.5, "alpha": 2.0}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(300, 3))
    return X, X @ [0.5, -0.3, 0.2] + 0.4 + 0.2 * rng.standard_normal(300)


def simulated(**settings):
    return PrivateRidge(**{"random_state": 0, **BOUNDS, **settings})


def quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(X, y)


def test_without_an_intercept_and_almost_without_noise_it_is_scikit_learn_s_ridge(table):
    X, y = table
    model = quietly(simulated(rho=1e16, fit_intercept=False), X, y)
    plain = Ridge(alpha=2.0, fit_intercept=False).fit(X, y)
    # The noise is 1e-8.
    assert model.coef_ == pytest.approx(plain.coef_, abs=1e-7)
    assert model.intercept_ == 0.0
    assert model.predict(X) == pytest.approx(plain.predict(X), abs=1e-6)


def test_the_intercept_is_a_penalised_constant_column(table):
    X, y = table
    model = quietly(simulated(rho=1e16, intercept_constant=0.5), X, y)
    plain = Ridge(alpha=2.0, fit_intercept=False).fit(np.column_stack([X, np.full(300, 0.5)]), y)
    assert np.append(model.coef_, model.intercept_ / 0.5) == pytest.approx(plain.coef_, abs=1e-7)
    assert model.bounds_.feature_bound == pytest.approx(np.sqrt(4 - 0.25))


def test_features_are_clipped_in_fit_and_in_predict(table):
    X, y = table
    model = quietly(simulated(rho=1e16), X, y)
    direction = np.array([[3.0, -4.0, 12.0]]) / 13
    at_the_bound = model.predict(direction * model.bounds_.feature_bound)
    assert model.predict(direction * 1e300) == pytest.approx(at_the_bound)
    wild = np.vstack([X, direction * 1e300])
    tame = np.vstack([X, direction * model.bounds_.feature_bound])
    targets = np.append(y, 1e300)
    again = quietly(simulated(rho=1e16), wild, targets)
    other = quietly(simulated(rho=1e16), tame, np.append(y, 3.0))
    assert again.coef_ == pytest.approx(other.coef_, abs=1e-9)


@pytest.mark.slow
def test_the_noise_of_a_fit_is_the_stated_one(table):
    X, y = table
    model = PrivateRidge(rho=0.5, **BOUNDS)
    exact = quietly(simulated(rho=1e16), X, y)
    noise = []
    for _ in range(400):
        model.fit(X, y)
        noise += [*(model.coef_ - exact.coef_), (model.intercept_ - exact.intercept_) / 1.0]
        assert not model.simulated_
    # 1,600 draws of OpenDP: the standard deviation has a relative error of 1.8 %; five of them.
    # The constant is x_bound / 2 = 1, so the intercept has the same noise.
    assert np.std(noise) == pytest.approx(model.sigma_, rel=5 * 0.018)
    assert np.mean(noise) == pytest.approx(0.0, abs=5 * model.sigma_ / 40)


def test_the_budget_is_reported_both_ways(table):
    X, y = table
    model = PrivateRidge(epsilon=2.0, delta=1e-5, **BOUNDS).fit(X, y)
    assert model.rho_ == rho_of_epsilon(2.0, 1e-5)
    assert model.epsilon_ == pytest.approx(2.0, rel=1e-6)
    assert model.delta_ == 1e-5
    assert model.epsilon_at(1e-7) == epsilon_of_rho(model.rho_, 1e-7) > 2.0
    plain = PrivateRidge(rho=0.5, **BOUNDS).fit(X, y)
    assert plain.epsilon_ is None
    assert plain.delta_ is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "`rho`, or `epsilon` with `delta`, must be given, got neither"),
        ({"rho": 1.0, "epsilon": 1.0, "delta": 1e-6}, "got both"),
        ({"epsilon": 1.0}, "`epsilon` must come with `delta`"),
        ({"epsilon": 1.0, "delta": 0.0}, "`delta` must lie between 0 and 1"),
        ({"rho": -1.0}, "`rho` must be finite and greater than 0"),
        ({"rho": "1"}, "`rho` must be a number"),
        ({"rho": 1.0, "x_bound": None}, "`x_bound` must be given, from what is known"),
        ({"rho": 1.0, "x_bound": None, "coef_bound": None}, "`x_bound` and `coef_bound` must be"),
        ({"rho": 1.0, "alpha": None}, "`alpha` must be given"),
        ({"rho": 1.0, "alpha": 0.0}, "`alpha` must be finite and greater than 0"),
        ({"rho": 1.0, "intercept_constant": 2.0}, "below x_bound = 2, got 2"),
        ({"rho": 1.0, "mechanism": "laplace"}, "`mechanism` must be one of 'output', 'adassp'"),
        ({"rho": 1.0, "sensitivity": "loose"}, "`sensitivity` must be one of 'tight', 'paper'"),
        ({"rho": 1.0, "adjacency": "swap"}, "`adjacency` must be one of 'add-remove'"),
    ],
)
def test_what_is_refused_in_one_line(table, settings, words):
    with pytest.raises(InputError, match=words) as raised:
        PrivateRidge(**{**BOUNDS, **settings}).fit(*table)
    assert "\n" not in str(raised.value)


class Untouchable:
    """Features that fail the test when they are looked at."""

    def __array__(self, *arguments, **keywords):
        raise AssertionError("a row was touched")

    def __len__(self):
        raise AssertionError("a row was touched")


@pytest.mark.parametrize("mechanism", ["output", "adassp"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"x_bound": 1e100}, "`x_bound` must lie between 1e-30 and 1e"),
        ({"x_bound": 1e155}, "`x_bound` must lie between"),
        ({"x_bound": 1e-200}, "`x_bound` must lie between"),
        ({"x_bound": 10**400}, "`x_bound` must be finite"),
        ({"y_bound": 1e300}, "`y_bound` must lie between"),
        ({"coef_bound": 1e-300}, "`coef_bound` must lie between"),
        ({"intercept_constant": 1e-300}, "`intercept_constant` must lie between"),
        ({"rho": 1e308}, "`rho` must lie between 1e-12 and 1e"),
        ({"rho": 1e-320}, "`rho` must lie between"),
        ({"rho": None, "epsilon": 1e-300, "delta": 1e-9}, "`epsilon` must lie between"),
        ({"rho": None, "epsilon": 1e-9, "delta": 1e-9}, "`rho` must lie between"),
        ({"rho": 1.0, "delta": 2.0}, "`delta` must lie between 0 and 1"),
        ({"alpha": 1.8e-18}, "`alpha` must lie between 4e-06 and 4e"),
        ({"alpha": 1e300}, "`alpha` must lie between"),
        ({"random_state": "seed"}, "`random_state` must be"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_settings_are_refused_before_any_row_is_touched(mechanism, settings, words):
    with pytest.raises(InputError, match=words) as raised:
        PrivateRidge(**{"rho": 1.0, **BOUNDS, "mechanism": mechanism, **settings}).fit(
            Untouchable(), Untouchable()
        )
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("mechanism", ["output", "adassp"])
@pytest.mark.parametrize("x_bound", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("y_bound", [1e-30, 1e30])
@pytest.mark.parametrize("coef_bound", [1e-30, 1e30])
def test_the_corners_of_what_is_allowed_are_fitted(mechanism, x_bound, y_bound, coef_bound):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_cauchy((20, 2)), np.zeros((2, 2)), np.full((2, 2), 1e270)])
    y = np.append(rng.standard_cauchy(22), [1e270, -1e270])
    bounds = {"x_bound": x_bound, "y_bound": y_bound, "coef_bound": coef_bound}
    for rho, share, scale in [(1e-12, 1e-6, 1.0), (1e16, 1e20, 1e-30), (1.0, 1.0, x_bound)]:
        model = PrivateRidge(
            rho=rho, alpha=1.001 * share * x_bound**2, mechanism=mechanism, **bounds
        )
        if share == 1e20:
            model.set_params(alpha=0.999 * share * x_bound**2)
        model.fit(X * scale, y * scale)
        assert np.isfinite(model.coef_).all()
        assert all(0 < release.sigma < np.inf for release in model.releases_)


def test_many_records_need_a_larger_penalty_whatever_they_hold():
    n = 100_000
    model = PrivateRidge(rho=1.0, **BOUNDS | {"alpha": 4.1e-6})
    rng = np.random.default_rng(1)
    # Rows at the bound along one line: the other direction is held by the penalty alone.
    X = np.outer(rng.choice([-9.0, 9.0], n), [1.0, 1e-4])
    for y in (np.zeros(n), np.full(n, 9.0), 9.0 * np.sign(X[:, 0]), rng.standard_normal(n)):
        assert model.fit(X, y).n_features_in_ == 2
    few = RidgeBounds(x_bound=2.0, y_bound=3.0, coef_bound=1.5, constant=1.0)
    many = np.broadcast_to(np.zeros(2), (20_000_000, 2))
    with pytest.raises(InputError, match="`alpha` must be larger for so many records"):
        exact_coefficients(model, many, np.zeros(1), few)


@pytest.mark.parametrize(
    ("scale", "target"), [(1e200, 1.0), (1.0, 1e200), (1e-200, 1.0), (1e9, 1.0)]
)
def test_bounds_off_absurd_data_are_refused_without_a_number(table, scale, target):
    X, y = table
    model = PrivateRidge(rho=1.0, alpha=2.0, bounds_from_data=True)
    with pytest.warns(PrivacyLeakWarning), pytest.raises(InputError, match="got others") as raised:
        model.fit(X * scale, y * target)
    assert "\n" not in str(raised.value)


def test_warnings_point_at_the_line_of_the_user(table):
    X, y = table
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = PrivateRidge(rho=1.0, alpha=2.0, bounds_from_data=True, random_state=0).fit(X, y)
        model.clipped_share(X, y)
        model.expected_excess_risk(X)
        model.resolved_bounds(X, y)
    assert len(warned) == 5
    assert {one.filename for one in warned} == {__file__}


def test_bounds_are_read_off_the_data_only_when_asked_and_with_a_warning(table):
    X, y = table
    model = PrivateRidge(rho=1.0, alpha=2.0, y_bound=50.0, bounds_from_data=True)
    with pytest.warns(PrivacyLeakWarning, match="x_bound, coef_bound was read off the data"):
        model.fit(X, y)
    assert model.bounds_.y_bound == 50.0
    assert model.x_bound is None
    with pytest.warns(PrivacyLeakWarning, match="share of clipped records"):
        share = model.clipped_share(X, y)
    assert (share.rows, share.targets) == (0.0, 0.0)
    plain = Ridge(alpha=2.0, fit_intercept=False)
    design = np.column_stack([X, np.full(len(X), model.bounds_.constant)])
    assert model.bounds_.coef_bound == pytest.approx(np.linalg.norm(plain.fit(design, y).coef_))


@pytest.mark.parametrize(
    "settings", [{}, {"intercept_constant": 5.0}, {"fit_intercept": False}], ids=str
)
def test_bounds_off_the_data_clip_nobody(table, settings):
    model = PrivateRidge(rho=1.0, alpha=2.0, bounds_from_data=True, **settings)
    with pytest.warns(PrivacyLeakWarning, match="x_bound, y_bound, coef_bound was read"):
        model.fit(*table)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        share = model.clipped_share(*table)
    assert (share.rows, share.targets) == (0.0, 0.0)
    longest = np.linalg.norm(table[0], axis=1).max()
    assert model.bounds_.feature_bound == pytest.approx(longest)


def test_all_zero_data_give_bounds_too():
    model = PrivateRidge(rho=1.0, alpha=1.0, bounds_from_data=True)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(np.zeros((4, 1)), np.zeros(4))
    assert model.bounds_.feature_bound == pytest.approx(1.0)
    assert (model.bounds_.y_bound, model.bounds_.coef_bound) == (1.0, 1.0)


def test_the_share_of_clipped_records(table):
    X, y = table
    X, y = X.copy(), y.copy()
    X[:30] *= 1e6
    y[:60] = -40.0
    model = PrivateRidge(rho=1.0, **BOUNDS).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        share = model.clipped_share(X, y)
    assert share.rows == pytest.approx(0.1)
    assert share.targets == pytest.approx(0.2)


@pytest.mark.slow
def test_the_expected_excess_risk_is_what_many_releases_show(table):
    X, y = table
    model = simulated(rho=0.5)
    exact = quietly(simulated(rho=1e16), X, y)
    before = np.mean((exact.predict(X) - y) ** 2)
    excess = []
    for seed in range(2000):
        quietly(model.set_params(random_state=seed), X, y)
        excess.append(np.mean((model.predict(X) - y) ** 2) - before)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        expected = model.expected_excess_risk(X)
    # Four standard errors of 2,000 releases.
    assert np.mean(excess) == pytest.approx(expected, abs=4 * np.std(excess) / np.sqrt(2000))
    assert expected <= model.excess_risk_upper_bound_


def test_a_seed_is_a_simulation_that_repeats(table):
    with pytest.warns(PrivacyLeakWarning, match="simulation and protects nobody"):
        first = simulated(rho=1.0).fit(*table)
    second = quietly(simulated(rho=1.0, random_state=np.random.RandomState(0)), *table)
    third = quietly(simulated(rho=1.0, random_state=np.random.default_rng(0)), *table)
    assert first.simulated_
    assert second.simulated_
    assert np.array_equal(first.coef_, third.coef_)


def test_frames_are_taken(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PrivateRidge(rho=1.0, **BOUNDS).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.predict(frame).shape == (300,)
