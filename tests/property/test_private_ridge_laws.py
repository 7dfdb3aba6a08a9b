"""P3 part 1, question by question, and the sensitivity against adversarial neighbours."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import norm

from epsilens.errors import PrivacyLeakWarning
from epsilens.models.gaussian_release import GaussianRelease
from epsilens.models.private_ridge import exact_coefficients
from epsilens.ridge import PrivateRidge, RidgeBounds, epsilon_of_rho, ridge_sensitivity

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.floats(0.05, 20.0)
# Where P3 speaks of exact algebra, 1e-8 relative is rounding at condition numbers up to about 1e6.
ROUNDING = 1e-8


@st.composite
def problems(draw):
    """X, y, a further record and λ, as P3 has them: nothing is clipped."""
    rng = np.random.default_rng(draw(SEEDS))
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    X = rng.standard_normal((n, d)) * draw(SIZES)
    y = rng.standard_normal(n) * draw(SIZES)
    return X, y, rng.standard_normal(d) * draw(SIZES), float(rng.standard_normal()), draw(SIZES)


def solve(X, y, penalty):
    H = X.T @ X + penalty * np.eye(X.shape[1])
    return np.linalg.solve(H, X.T @ y)


def objective(theta, X, y, penalty):
    return np.sum((X @ theta - y) ** 2) + penalty * theta @ theta


@given(problems(), SEEDS)
def test_question_1_1_the_minimiser_is_in_closed_form(problem, seed):
    X, y, _, _, penalty = problem
    theta = solve(X, y, penalty)
    slope = 2 * (X.T @ (X @ theta - y) + penalty * theta)
    scale = np.abs(X).sum() ** 2 + penalty + np.abs(X.T @ y).sum()
    assert np.linalg.norm(slope) <= ROUNDING * scale * (1 + np.linalg.norm(theta))
    step = np.random.default_rng(seed).standard_normal(len(theta))
    # A quadratic: away from the minimum the objective rises by exactly the quadratic part.
    rise = np.sum((X @ step) ** 2) + penalty * step @ step
    higher = objective(theta + step, X, y, penalty) - objective(theta, X, y, penalty)
    assert higher == pytest.approx(rise, rel=1e-6, abs=ROUNDING * objective(theta, X, y, penalty))


@given(problems())
def test_question_1_2_a_record_more_adds_to_both_sums(problem):
    X, y, record, target, penalty = problem
    more = solve(np.vstack([X, record]), np.append(y, target), penalty)
    H, b = X.T @ X + penalty * np.eye(len(record)), X.T @ y
    by_sums = np.linalg.solve(H + np.outer(record, record), b + target * record)
    assert more == pytest.approx(by_sums, rel=1e-6, abs=ROUNDING)


@given(problems())
def test_question_1_3_the_change_by_sherman_and_morrison(problem):
    X, y, record, target, penalty = problem
    theta = solve(X, y, penalty)
    more = solve(np.vstack([X, record]), np.append(y, target), penalty)
    H = X.T @ X + penalty * np.eye(len(record))
    along = np.linalg.solve(H, record)
    formula = along * (record @ theta - target) / (1 + record @ along)
    assert theta - more == pytest.approx(formula, rel=1e-6, abs=ROUNDING)


@given(problems())
def test_question_1_4_the_inverse_shortens_by_the_penalty(problem):
    X, _, record, _, penalty = problem
    along = np.linalg.solve(X.T @ X + penalty * np.eye(len(record)), record)
    assert np.linalg.norm(along) <= np.linalg.norm(record) / penalty * (1 + ROUNDING)


@given(problems())
def test_question_1_5_adding_moves_no_further_than_mr_over_lambda(problem):
    X, y, record, target, penalty = problem
    theta = solve(X, y, penalty)
    more = solve(np.vstack([X, record]), np.append(y, target), penalty)
    M, R = abs(record @ theta - target), np.linalg.norm(record)
    assert np.linalg.norm(more - theta) <= M * R / penalty * (1 + ROUNDING) + 1e-12


@given(problems())
def test_question_1_6_removing_moves_no_further_either(problem):
    # The same two data sets, named the other way round: M is now the residual at the minimum of
    # the larger set, and with H of the smaller one θ₋ − θ = H⁻¹x̃ (x̃ᵀθ − ỹ).
    X, y, record, target, penalty = problem
    theta = solve(np.vstack([X, record]), np.append(y, target), penalty)
    fewer = solve(X, y, penalty)
    H = X.T @ X + penalty * np.eye(len(record))
    residual = record @ theta - target
    formula = np.linalg.solve(H, record) * residual
    assert fewer - theta == pytest.approx(formula, rel=1e-6, abs=ROUNDING)
    M, R = abs(residual), np.linalg.norm(record)
    assert np.linalg.norm(fewer - theta) <= M * R / penalty * (1 + ROUNDING) + 1e-9


@given(problems())
def test_mr_over_lambda_is_attained_under_the_premise_of_p3(problem):
    # M is the residual at the minimum of the larger set, and no other record points along x̃.
    X, y, record, target, penalty = problem
    R = np.linalg.norm(record)
    X = X - np.outer(X @ record, record) / R**2
    theta = solve(np.vstack([X, record]), np.append(y, target), penalty)
    M = abs(record @ theta - target)
    moved = np.linalg.norm(solve(X, y, penalty) - theta)
    assert moved == pytest.approx(M * R / penalty, rel=1e-6, abs=ROUNDING)


@given(
    st.floats(0.1, 10),
    st.floats(0.1, 10),
    st.floats(0.01, 10),
    st.floats(0.01, 10),
    st.floats(1.01, 8),
)
def test_question_1_7_the_noise_gives_rho_at_every_order(M, R, penalty, rho, order):
    release = GaussianRelease("coefficients", M * R / penalty, rho)
    assert release.sigma**2 == pytest.approx(M**2 * R**2 / (2 * penalty**2 * rho))
    # The Rényi divergence of order α between N(0, σ²) and N(Δ, σ²), by numerical integration of
    # p^α q^(1−α); ρ-zCDP is that it is at most ρα. The grid is 1/200 σ wide: errors below 1e-9.
    shift = release.sensitivity / release.sigma
    z = np.arange(-40, 40 + order * shift, 0.005)
    log_ratio = order * norm.logpdf(z, shift) + (1 - order) * norm.logpdf(z)
    divergence = np.log(trapezoid(np.exp(log_ratio - log_ratio.max()), z)) + log_ratio.max()
    assert divergence / (order - 1) == pytest.approx(rho * order, rel=1e-6)


@given(st.floats(1e-3, 20), st.floats(1e-9, 1e-2))
def test_the_exact_conversion_is_never_worse_than_the_general_one(rho, delta):
    epsilon = epsilon_of_rho(rho, delta)
    assert 0 <= epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    # The definition: δ(ε) of two normals that lie μ apart.
    mu = math.sqrt(2 * rho)
    at = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert at == pytest.approx(delta, rel=1e-5) or (epsilon == 0 and at <= delta)


HEAVY = st.one_of(
    st.floats(-2, 2),
    st.sampled_from([0.0, 1e-300, 1e8, -1e8, 1e155, -1e300, 1.7e308, -1.7e308]),
)


@st.composite
def clipped_models(draw, **fixed):
    """A PrivateRidge with any bounds."""
    return PrivateRidge(
        rho=1.0,
        x_bound=draw(st.floats(0.1, 10)),
        y_bound=draw(st.floats(0.1, 10)),
        coef_bound=draw(st.floats(0.1, 10)),
        alpha=draw(st.one_of(st.floats(1e-4, 1e-2), st.floats(1e-3, 100))),
        fit_intercept=draw(st.booleans()),
        sensitivity=draw(st.sampled_from(["tight", "paper"])),
        **fixed,
    )


def minimiser(model, X, y):
    bounds = model.resolved_bounds(X, y)
    return exact_coefficients(model, bounds.rows(X), bounds.targets(y), bounds)


def claimed(model, X, y):
    return model.planned_release(model.resolved_bounds(X, y), rho=1.0).sensitivity


@settings(max_examples=300)
@given(clipped_models(), st.integers(2, 6), st.integers(1, 3), st.data())
def test_no_record_moves_the_minimiser_further_than_claimed(model, n, d, data):
    cells = st.lists(HEAVY, min_size=d, max_size=d)
    X = np.array(data.draw(st.lists(cells, min_size=n, max_size=n)))
    y = np.array(data.draw(st.lists(HEAVY, min_size=n, max_size=n)))
    moved = np.linalg.norm(minimiser(model, X, y) - minimiser(model, X[:-1], y[:-1]))
    assert moved <= claimed(model, X, y)


@settings(max_examples=200)
@given(clipped_models(adjacency="replace-one"), st.integers(1, 5), st.integers(1, 3), st.data())
def test_no_replaced_record_moves_it_further_than_claimed(model, n, d, data):
    cells = st.lists(HEAVY, min_size=d, max_size=d)
    X = np.array(data.draw(st.lists(cells, min_size=n + 1, max_size=n + 1)))
    y = np.array(data.draw(st.lists(HEAVY, min_size=n + 1, max_size=n + 1)))
    other = [*range(n - 1), n]
    moved = np.linalg.norm(minimiser(model, X[:n], y[:n]) - minimiser(model, X[other], y[other]))
    assert moved <= claimed(model, X, y)


def worst_pair(bounds: RidgeBounds, penalty: float, n: int = 4000):
    """Return a data set, and the record that moves its minimiser almost as far as anything can.

    docs/private-ridge.md, "Where it is attained". One direction is soft: only the penalty holds it.
    The others (a second feature, the intercept) are stiff. The record points along minus the
    coefficients, and √λ of it, or all if there is less, along the soft direction. It needs room in
    the ball: R(RB + Y) ≤ 4Bλ. Below that the ball's diameter 2B is the smaller bound.
    """
    R, Y, B, c = bounds.x_bound, bounds.y_bound, bounds.coef_bound, bounds.constant
    soft = min(math.sqrt(penalty), bounds.feature_bound)
    stiff = math.sqrt(max(0.0, R * R - soft * soft - c * c))
    record = np.array([soft, stiff, c])
    theta = -0.999 * B * record / np.linalg.norm(record)
    base = c * theta[2]
    pull = min(Y - abs(base), Y) * np.sign(theta[0])
    # Soft rows come in pairs ±h, so that they hold no other direction; Σ h t = λ θ_soft.
    h = penalty * abs(theta[0]) / (n * abs(pull))
    h = h / max(1e-12, 1 - h * abs(theta[0]) / abs(pull))
    half = n // 2
    soft_rows = np.column_stack([np.r_[np.full(half, h), np.full(half, -h)], np.zeros(2 * half)])
    soft_y = base + np.r_[np.full(half, pull), np.full(half, -pull)]
    g = bounds.feature_bound
    if abs(g * theta[1]) > Y - abs(base):
        g = (Y - abs(base)) / abs(theta[1])
    grow = 1 + penalty / (n * g * g)
    stiff_rows = np.column_stack([np.zeros(n), np.r_[np.full(half, g), np.full(half, -g)]])
    stiff_y = base + np.r_[np.full(half, g), np.full(half, -g)] * theta[1] * grow
    X = np.vstack([soft_rows, stiff_rows])
    y = np.r_[soft_y, stiff_y]
    return X, y, record[:2], Y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("alpha", "y_bound", "coef_bound"),
    [(0.5, 1, 1), (0.7, 1, 1), (1.0, 1, 1), (3.0, 1, 1), (1.0, 5, 4), (0.6, 1, 8), (0.35, 1, 5)],
)
def test_the_bound_is_nearly_reached(alpha, y_bound, coef_bound, fit_intercept):
    constant = 0.02 * y_bound / coef_bound if fit_intercept else 0.0
    model = PrivateRidge(
        rho=1.0,
        x_bound=1.0,
        y_bound=y_bound,
        coef_bound=coef_bound,
        alpha=alpha,
        fit_intercept=fit_intercept,
        intercept_constant=constant or None,
    )
    X, y, record, target = worst_pair(RidgeBounds(1.0, y_bound, coef_bound, constant), alpha)
    before = minimiser(model, X, y)
    after = minimiser(model, np.vstack([X, record]), np.append(y, target))
    share = np.linalg.norm(after - before) / claimed(model, X, y)
    # Short of 1 by the finite number of records and the last 0.1 % of the ball.
    assert 0.98 <= share <= 1.0


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("alpha", "coef_bound"), [(0.1, 1.0), (1e-3, 1.0), (1e-5, 3.0), (0.02, 0.5)]
)
def test_the_diameter_of_the_ball_is_reached(alpha, coef_bound, adjacency):
    model = PrivateRidge(
        rho=1.0,
        x_bound=1.0,
        y_bound=1.0,
        coef_bound=coef_bound,
        alpha=alpha,
        fit_intercept=False,
        adjacency=adjacency,
    )
    # Records with tiny entries pull the coefficient a little beyond −B; one record pulls it to +B.
    n = 4000
    tiny = 1.001 * alpha * coef_bound / n
    X, y = np.full((n, 1), tiny), np.full(n, -1.0)
    record = np.array([[math.sqrt(2 * alpha) * 1.01]])
    if adjacency == "replace-one":
        X, y = np.vstack([[[0.0]], X]), np.append(0.0, y)
    before = minimiser(model, X, y)
    kept = slice(1, None) if adjacency == "replace-one" else slice(None)
    after = minimiser(model, np.vstack([X[kept], record]), np.append(y[kept], 1.0))
    moved = np.linalg.norm(after - before)
    assert moved == pytest.approx(2 * coef_bound, rel=1e-9)
    assert moved <= claimed(model, X, y) <= 2 * coef_bound * (1 + 3e-5)


@given(clipped_models(), SEEDS)
@settings(max_examples=50)
def test_sensitivity_and_noise_do_not_depend_on_the_data(model, seed):
    rng = np.random.default_rng(seed)
    model.set_params(random_state=0)
    seen = set()
    for scale in (1e-6, 1.0, 1e6):
        n = int(rng.integers(1, 50))
        X, y = scale * rng.standard_cauchy((n, 2)), scale * rng.standard_cauchy(n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            model.fit(X, y)
        seen.add((model.sensitivity_, model.sigma_, model.rho_, model.excess_risk_upper_bound_))
    assert len(seen) == 1
    formula = ridge_sensitivity(
        x_bound=model.x_bound,
        y_bound=model.y_bound,
        coef_bound=model.coef_bound,
        alpha=model.alpha,
        bound=model.sensitivity,
    )
    # The solver's allowance of 1e-5 for each of two neighbours.
    assert model.sensitivity_ == pytest.approx(formula, rel=2.1e-5)
    assert model.sensitivity_ > formula
    assert model.sigma_ == pytest.approx(model.sensitivity_ / math.sqrt(2 * model.rho_))
