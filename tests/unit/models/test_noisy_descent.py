"""Noisy descent: nobody moves a sum of gradients further than stated, and simulated runs are real ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from epsilens.models.noisy_descent import (
    MOST_PREDICTOR,
    DescentPlan,
    descend,
    gradient_rounding,
    gradient_sensitivity,
    gradient_sum,
    loss_of,
    simulate_descents,
)
from epsilens.models.private_logistic import default_bounds, output_release, penalised_minimum

X_BOUND = 2.5


# --- The search for neighbours ---


def table(kind, rng, n, p, n_classes):
    """Return features and classes of a kind that might break a bound."""
    X = {
        "heavy tails": lambda: rng.standard_cauchy((n, p)) ** 3,
        "huge": lambda: rng.choice([-1e300, 1e300, 1.0], (n, p)),
        "duplicates": lambda: np.tile(rng.normal(size=(1, p)), (n, 1)),
        "one class": lambda: rng.normal(size=(n, p)),
        "tiny": lambda: 1e-300 * rng.normal(size=(n, p)),
    }[kind]()
    codes = rng.integers(n_classes, size=n)
    return X, np.zeros_like(codes) if kind == "one class" else codes


KINDS = ("heavy tails", "huge", "duplicates", "one class", "tiny")


def neighbours(rng, n_classes, protects, bounds, n=40, p=3):
    """Yield designs and codes of neighbouring tables, and a place to look at their gradients."""
    for kind in KINDS:
        for other in KINDS:
            X, codes = table(kind, rng, n, p, n_classes)
            Y, changed = X.copy(), codes.copy()
            changed[0] = (codes[0] + 1 + rng.integers(n_classes - 1)) % n_classes
            k = 1 if n_classes == 2 else n_classes
            theta = rng.normal(size=(p + 1, k)) * 10.0 ** rng.uniform(-2, 3)
            if protects == "record":
                Y[0] = table(other, rng, 1, p, n_classes)[0][0]
            # A place that is sure of the wrong class makes the longest gradients. For two records that nearly
            # point the same way a steep model can be wrong about both.
            if rng.random() < 0.5:
                along, across = 100.0 * np.linalg.qr(rng.normal(size=(p, 2)))[0].T
                theta[:] = 0.0
                theta[:p, -1] = 50.0 * across
                if k > 1:
                    theta[:p, 0] = -50.0 * across
                X[0], codes[0], changed[0] = along + 0.05 * across, 0, n_classes - 1
                Y[0] = along - 0.05 * across if protects == "record" else X[0]
            yield bounds(X), codes, bounds(Y), changed, theta


def furthest_gradients(seed, n_classes, protects, bounds):
    rng = np.random.default_rng(seed)
    return max(
        float(np.linalg.norm(gradient_sum(*one, theta) - gradient_sum(*two, theta)))
        for _ in range(12)
        for *pair, theta in neighbours(rng, n_classes, protects, bounds)
        for one, two in [(pair[:2], pair[2:])]
    )


@pytest.mark.parametrize("protects", ["answer", "record"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_neighbour_moves_a_sum_of_gradients_further_than_stated(n_classes, protects):
    k = 1 if n_classes == 2 else n_classes
    stated = gradient_sensitivity(X_BOUND, n_outputs=k, protects=protects)
    rounding = gradient_rounding(40, 4, k, X_BOUND)
    found = furthest_gradients(0, n_classes, protects, default_bounds(X_BOUND).rows)
    assert found <= stated + 2 * rounding
    assert rounding < 1e-8 * stated
    # The search is a search: it comes near what is stated.
    assert found > 0.9 * stated


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_search_catches_noise_for_an_answer_that_is_sold_for_a_record(n_classes):
    k = 1 if n_classes == 2 else n_classes
    sold = gradient_sensitivity(X_BOUND, n_outputs=k, protects="answer")
    found = furthest_gradients(1, n_classes, "record", default_bounds(X_BOUND).rows)
    assert found > 1.5 * sold


def test_the_search_catches_rows_that_are_not_clipped():
    def unclipped(X):
        return np.column_stack([np.clip(X, -1e100, 1e100), np.ones(len(X))])

    stated = gradient_sensitivity(X_BOUND, n_outputs=1, protects="record")
    with np.errstate(all="ignore"):
        assert furthest_gradients(2, 2, "record", unclipped) > 10 * stated


@pytest.mark.parametrize("protects", ["answer", "record"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_neighbour_moves_penalised_coefficients_further_than_stated(n_classes, protects):
    k = 1 if n_classes == 2 else n_classes
    rng, penalty = np.random.default_rng(3), 3.0
    stated = output_release(X_BOUND, k, protects, rho=1.0, penalty=penalty).sensitivity
    found = []
    for X, codes, Y, changed, _ in neighbours(
        rng, n_classes, protects, default_bounds(X_BOUND).rows
    ):
        pair = (
            penalised_minimum(rows, labels, k, penalty=penalty, x_bound=X_BOUND)
            for rows, labels in ((X, codes), (Y, changed))
        )
        found.append(float(np.linalg.norm(next(pair) - next(pair))))
    assert max(found) <= stated


def test_a_changed_answer_moves_penalised_coefficients_as_far_as_stated():
    rows = default_bounds(X_BOUND).rows(np.full((2, 3), 1e9))
    first, second = (
        penalised_minimum(rows, np.array(codes), 1, penalty=1e4, x_bound=X_BOUND)
        for codes in ([0, 1], [1, 1])
    )
    stated = output_release(X_BOUND, 1, "answer", rho=1.0, penalty=1e4).sensitivity
    assert np.linalg.norm(first - second) == pytest.approx(stated, rel=2e-3)
    assert np.linalg.norm(first - second) <= stated


# --- Rounding ---


@pytest.mark.parametrize("k", [1, 3])
def test_the_rounding_of_a_sum_is_within_its_bound(k):
    """Against extended precision, at coefficients as large as they may be."""
    rng = np.random.default_rng(4)
    design = default_bounds(X_BOUND).rows(rng.standard_cauchy((3000, 5)))
    codes = rng.integers(max(k, 2), size=len(design))
    bound = gradient_rounding(*design.shape, k, X_BOUND)
    for scale in (1e-3, 1.0, MOST_PREDICTOR / X_BOUND):
        theta = rng.normal(size=(design.shape[1], k))
        theta *= scale / np.linalg.norm(theta)
        wide = design.astype(np.longdouble)
        predictors = wide @ theta.astype(np.longdouble)
        if k == 1:
            chances = 1 / (1 + np.exp(-predictors))
            residuals = chances - codes[:, None]
        else:
            odds = np.exp(predictors - predictors.max(axis=1, keepdims=True))
            residuals = odds / odds.sum(axis=1, keepdims=True) - np.eye(k)[codes]
        error = np.linalg.norm(
            (wide.T @ residuals - gradient_sum(design, codes, theta)).astype(float)
        )
        assert error <= bound


# --- The plan ---

PLAN = DescentPlan(5000, 6, 1, X_BOUND, "record", 0.04, 120)


def test_all_steps_together_cost_the_budget():
    release = PLAN.release
    assert release.sigma == pytest.approx(release.sensitivity * math.sqrt(120) / PLAN.mu)
    assert PLAN.mu == pytest.approx(math.sqrt(0.08))


def test_half_the_noise_protects_an_answer():
    answer = replace(PLAN, protects="answer").release.sigma
    assert answer == pytest.approx(PLAN.release.sigma / 2, rel=1e-6)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("n_steps", [1, 8, 120, 1000])
@pytest.mark.parametrize("n_outputs", [1, 4])
def test_steps_are_stable_on_the_most_curved_table(rho, n_steps, n_outputs):
    """The two roots of the recursion lie inside the circle for every curvature up to the bound."""
    plan = replace(PLAN, rho=rho, n_steps=n_steps, n_outputs=n_outputs)
    assert plan.step > 0
    for share in (1e-3, 0.1, 0.5, 1.0):
        curved = plan.step * share * plan.curvature_bound
        roots = np.roots([1.0, -(1.0 + plan.momentum - curved), plan.momentum])
        assert np.abs(roots).max() < 1.0


@pytest.mark.parametrize("k", [1, 3])
def test_no_table_is_more_curved_than_the_bound(k):
    rng = np.random.default_rng(5)
    plan = replace(PLAN, n_records=50, n_outputs=k, n_columns=4)
    rows = default_bounds(X_BOUND).rows(np.full((50, 3), 1e6))
    for scale in (0.0, 0.1, 1.0):
        theta = scale * rng.normal(size=(4, k))
        curvature = loss_of(k).curvature(rows @ theta)
        hessian = np.einsum("nkl,nd,ne->kdle", curvature, rows, rows).reshape(4 * k, 4 * k)
        assert np.linalg.eigvalsh(hessian)[-1] <= plan.curvature_bound * (1 + 1e-12)


def test_units_of_the_features_do_not_matter():
    scaled = replace(PLAN, x_bound=1e3 * X_BOUND)
    assert scaled.momentum == pytest.approx(PLAN.momentum)
    assert scaled.step * 1e6 == pytest.approx(PLAN.step)


def test_coefficients_stay_in_the_ball():
    plan = replace(PLAN, n_steps=4)
    rows = default_bounds(X_BOUND).rows(np.ones((5000, 5)))
    found = descend(rows, np.zeros(5000, dtype=np.intp), plan, lambda total: total - 1e30)
    assert np.linalg.norm(found) * X_BOUND <= MOST_PREDICTOR


# --- Many runs side by side ---


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_members", [False, True])
def test_runs_side_by_side_are_runs_one_by_one_with_the_same_noise(n_classes, with_members):
    rng = np.random.default_rng(6)
    n, p, n_runs = 700, 3, 4
    k = 1 if n_classes == 2 else n_classes
    X = rng.standard_t(3, size=(n, p))
    codes = (X[:, 0] + rng.normal(size=n) > 0).astype(np.intp) + (n_classes == 3) * (X[:, 1] > 0)
    members = rng.random((n, n_runs)) < 0.5 if with_members else None
    rows = default_bounds(X_BOUND).rows(X)
    plans = [DescentPlan(n, p + 1, k, X_BOUND, "record", rho, 30) for rho in (0.02, 2.0)]
    fast = simulate_descents(
        rows, codes, plans, n_runs=n_runs, generator=np.random.default_rng(7), members=members
    )
    again = np.random.default_rng(7)
    noise = [
        again.standard_normal((p + 1, k, len(plans) * n_runs), dtype=np.float32).reshape(
            p + 1, k, len(plans), n_runs
        )
        for _ in range(30)
    ]
    for number, plan in enumerate(plans):
        for run in range(n_runs):
            chosen = slice(None) if members is None else members[:, run]
            drawn = iter(noise)
            slow = descend(
                rows[chosen],
                codes[chosen],
                plan,
                lambda total: total + plan.release.sigma * next(drawn)[:, :, number, run],  # noqa: B023
            )
            assert fast[number, run] == pytest.approx(slow, abs=2e-4 * np.abs(slow).max())
