from __future__ import annotations

import numpy as np
import pytest

from epsilens.influence import Evaluation
from epsilens.models import Design, LogisticLoss, SquaredLoss
from epsilens.whatif.cells import fit_correction, quadratic_runs


@pytest.fixture(scope="module", params=["logistic", "squared"])
def case(request):
    rng = np.random.default_rng(30)
    m, p = 400, 4
    loss = {"logistic": LogisticLoss(), "squared": SquaredLoss()}[request.param]
    evaluation = Evaluation(
        Design.plain(rng.normal(size=(m, p))),
        rng.integers(0, 2, m).astype(float),
        np.full(m, 1 / m),
        loss,
        request.param == "logistic",
    )
    theta = rng.normal(size=p)
    root = rng.normal(size=(p, 3)) * 0.1
    bias = rng.normal(size=p) * 0.02
    standard = rng.standard_normal((3, 3000), dtype=np.float32)
    runs = quadratic_runs(
        evaluation.gradient(theta), evaluation.hessian(theta), bias, root, standard
    )
    full = evaluation.losses(theta[:, None] + bias[:, None] + root @ standard)
    return request.param, runs, full - evaluation.outcomes(theta).loss


def test_the_quadratic_is_exact_for_squared_error_and_close_for_the_logistic(case):
    name, runs, full = case
    left = full - runs.first - runs.second
    # Single precision in the draws; third order of a noise of 0.35 in the logits.
    limit = {"squared": 1e-6, "logistic": 0.05}[name] * full.std()
    assert np.sqrt(np.mean(left**2)) <= limit


def test_corrected_runs_have_the_quantiles_of_full_ones(case):
    _, runs, full = case
    correction = fit_correction(full[:100], runs)
    total = runs.total(correction)
    np.testing.assert_allclose(total[:100], full[:100], atol=1e-12)
    quantiles = [0.05, 0.5, 0.95]
    truth = np.quantile(full, quantiles)
    error = np.abs(np.quantile(total, quantiles) - truth)
    # What the fit leaves over is a hundredth of the spread.
    np.testing.assert_array_less(error, 0.01 * full.std())
    # The hundred draws by themselves know the ends far less well.
    alone = np.abs(np.quantile(full[:100], quantiles) - truth)
    assert error.max() < 0.1 * alone.max()
