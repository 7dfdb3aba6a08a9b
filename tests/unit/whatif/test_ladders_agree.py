"""The short road for labels and the general one must lead to the same place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens import WhatIf
from epsilens.influence import Cholesky, ConjugateGradient
from epsilens.influence.question import Question
from epsilens.whatif.general_method import general_cells
from epsilens.whatif.methods import as_question, compute_cells, solve_first_order

METHODS = ("influence", "newton", "exact")


def compute_general_cells(baseline, question, rung):
    """The general method, for a question that the one for labels would answer."""
    found = [cell for cells in general_cells(baseline, question, rung) for cell in cells]
    return sorted(found, key=lambda cell: cell.epsilon_index)


@pytest.fixture(scope="module", params=["two classes", "three classes", "a score"])
def case(request, survey, pipeline):
    columns = ["age", "income", "children"]
    weights = np.random.default_rng(5).uniform(0.5, 2.0, 600)
    if request.param == "two classes":
        study = WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test, weights)
    elif request.param == "three classes":
        study = WhatIf(LogisticRegression()).fit(
            survey.X[columns],
            survey.X["region"].astype("category"),
            survey.X_test[columns],
            survey.X_test["region"],
            weights,
        )
    else:
        study = WhatIf(Ridge()).fit(
            survey.X[columns[:2]],
            survey.X["children"].astype("category"),
            survey.X_test[columns[:2]],
            survey.X_test["children"],
            weights,
        )
    half = np.random.default_rng(6).random(600) < 0.5
    asked, baseline = study._ask(
        Question([0.3, 1.0, 4.0], groups={"half": half}, dependent_groups="warn"),
        study.baseline_,
    )
    return baseline, as_question(asked, corrected=False, n_draws=400, seed=0)


def along(case, inverse):
    baseline, question = case
    return baseline, replace(question, first_order=solve_first_order(baseline, inverse))


@pytest.mark.parametrize("rung", METHODS)
def test_both_roads_agree(case, rung):
    baseline, question = along(case, Cholesky())
    short = compute_cells(baseline, question, rung)
    general = compute_general_cells(baseline, question, rung)
    for one, other in zip(short, general, strict=True):
        width = one.loss_high - one.loss_low
        # Different draws of the same law: their ends differ by a part of their width, the means of
        # accuracy and the like by a twentieth of a standard deviation, and that of the loss, most of which
        # is no mean over draws, by less.
        drawn = 0.0 if rung == "influence" else 0.02 * width
        assert one.loss_change == pytest.approx(other.loss_change, abs=drawn + 1e-9)
        for name, value in one.changes.items():
            low, high = one.intervals.get(name, (0.0, 0.0))
            limit = 5 * 0.05 * np.sqrt(2) * (high - low) / 3.3 + 1e-6
            assert other.changes[name] == pytest.approx(value, abs=limit)
        assert abs(one.loss_low - other.loss_low) <= 0.3 * width
        assert abs(one.loss_high - other.loss_high) <= 0.3 * width


@pytest.mark.parametrize("compute", [compute_cells, compute_general_cells])
def test_conjugate_gradient_leads_where_the_factor_leads(case, compute):
    answers = [
        compute(*along(case, inverse), "influence")
        for inverse in (Cholesky(), ConjugateGradient(tolerance=1e-12))
    ]
    for one, other in zip(*answers, strict=True):
        # A relative residual of 1e-12, times a condition number below 1e3.
        assert other.loss_change == pytest.approx(one.loss_change, rel=1e-8, abs=1e-15)
        np.testing.assert_allclose(other.loss_runs, one.loss_runs, rtol=1e-5, atol=1e-9)
        assert other.solve_error.size < 1e-10 * (1.0 + abs(one.loss_change))
        for name, value in one.changes.items():
            assert other.changes[name] == pytest.approx(value, abs=1e-9)
