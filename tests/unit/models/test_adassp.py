"""AdaSSP: what one record can move, what is spent, and what it finds without noise."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.models.ball_ridge import _sums, adassp_releases, minimise_quadratic_in_ball
from epsilens.ridge import PrivateRidge

# Several fits on the same records are meant here.
pytestmark = pytest.mark.filterwarnings("ignore:PrivateRidge. these records have been used")
BOUNDS = {"x_bound": 1.5, "y_bound": 2.0, "coef_bound": 1.0, "alpha": 0.5}


@pytest.mark.parametrize("replaced", [False, True])
def test_no_record_moves_a_sum_further_than_claimed(replaced):
    rng = np.random.default_rng(3)
    plan = adassp_releases(x_bound=1.5, y_bound=2.0, rho=1.0, replaced=replaced)
    furthest = np.zeros(3)
    for _ in range(300):
        n, p = rng.integers(2, 6), rng.integers(1, 4)
        X = rng.standard_normal((n, p)) * 10.0 ** rng.integers(-3, 1)
        X = np.vstack([X, rng.standard_normal((2, p))])
        X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 1.5)
        X[-2:] *= 1.5 / np.linalg.norm(X[-2:], axis=1, keepdims=True)
        y = rng.choice([-2.0, 2.0], size=n + 2)
        other = [*range(n), n + 1] if replaced else [*range(n)]
        (A, b), (A2, b2) = _sums(X[: n + 1], y[: n + 1]), _sums(X[other], y[other])
        upper = np.triu_indices(p)
        moved = (
            abs(np.linalg.eigvalsh(A)[0] - np.linalg.eigvalsh(A2)[0]),
            np.linalg.norm(A[upper] - A2[upper]),
            np.linalg.norm(b - b2),
        )
        furthest = np.maximum(furthest, moved)
    limits = [
        release.sensitivity for release in (plan.least_eigenvalue, plan.products, plan.moments)
    ]
    assert np.all(furthest <= limits)
    if not replaced:  # all three are reached by one feature that is all of the record
        assert furthest == pytest.approx(limits, rel=1e-6)


def test_the_three_thirds_compose_to_the_budget():
    model = PrivateRidge(rho=0.9, delta=1e-6, mechanism="adassp", **BOUNDS)
    model.fit(np.eye(2), [1.0, 0.0])
    assert [release.rho for release in model.releases_] == [0.3, 0.3, 0.3]
    assert model.sensitivity_ is None
    assert model.sigma_ is None
    assert model.excess_risk_upper_bound_ is None
    # Gaussian mechanisms compose exactly: squared shifts in units of noise add up to 2ρ.
    shift = sum((release.sensitivity / release.sigma) ** 2 for release in model.releases_)
    assert shift == pytest.approx(2 * 0.9)
    assert model.epsilon_ == pytest.approx(
        PrivateRidge(rho=0.9, **BOUNDS).fit(np.eye(2), [1.0, 0.0]).epsilon_at(1e-6)
    )
    with pytest.raises(InputError, match="`mechanism='output'` only"):
        model.expected_excess_risk(np.eye(2))


def test_with_a_huge_budget_it_is_the_ridge_model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(500, 3))
    y = X @ [0.4, -0.2, 0.1] + 0.1 * rng.standard_normal(500)
    model = PrivateRidge(
        rho=1e14, mechanism="adassp", fit_intercept=False, random_state=0, **BOUNDS
    )
    with pytest.warns(PrivacyLeakWarning, match="simulation"):
        model.fit(X, y)
    plain = minimise_quadratic_in_ball(X.T @ X, X.T @ y, penalty=0.5, radius=1.0)
    # Noise of 4e-7 on sums of about 40.
    assert model.coef_ == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("n_records", [8, 400])
def test_the_penalty_makes_up_for_the_noise_step_by_step(n_records):
    """Wang (2018), Algorithm 2, written out: few records need a penalty, many have curvature enough."""
    data, seen = np.random.default_rng(1), np.random.default_rng(7)
    X = data.uniform(-0.7, 0.7, size=(n_records, 2))
    y = data.uniform(-1.0, 1.0, size=n_records)
    plan = adassp_releases(x_bound=1.0, y_bound=1.0, rho=3.0, replaced=False)
    found = plan.release(X, y, penalty=1e-3, radius=9.0, generator=np.random.default_rng(7))
    A, b, p, failure = X.T @ X, X.T @ y, 2, 0.05
    sigma = plan.products.sigma
    least = np.linalg.eigvalsh(A)[0] + plan.least_eigenvalue.sigma * seen.standard_normal()
    least -= plan.least_eigenvalue.sigma * np.sqrt(2 * np.log(1 / failure))
    needed = sigma * np.sqrt(p * np.log(2 * p**2 / failure)) - max(least, 0.0)
    penalty = max(1e-3, needed)
    assert (penalty > 1.0) == (n_records == 8)
    noise = sigma * seen.standard_normal(3)
    A = A + np.array([[noise[0], noise[1]], [noise[1], noise[2]]])
    b = b + plan.moments.sigma * seen.standard_normal(2)
    assert np.linalg.eigvalsh(A)[0] > 0
    assert found == pytest.approx(np.linalg.solve(A + penalty * np.eye(2), b), rel=1e-6)


def test_real_draws_stay_in_the_ball():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(20, 3)), rng.uniform(-1, 1, size=20)
    for _ in range(20):
        model = PrivateRidge(rho=0.01, mechanism="adassp", **BOUNDS).fit(X, y)
        theta = np.append(model.coef_, model.intercept_ / model.bounds_.constant)
        assert np.linalg.norm(theta) <= 1.0 + 1e-12
        assert not model.simulated_
