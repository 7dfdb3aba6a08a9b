"""First order by any solver of the inverse Hessian, asked for through the study."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens import WhatIf
from epsilens.errors import ApproximationWarning, InputError
from epsilens.influence import ConjugateGradient, StochasticEstimation


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


@pytest.mark.parametrize(
    "solver",
    ["cg", ConjugateGradient(tolerance=1e-10), StochasticEstimation(tolerance=1e-7)],
    ids=["cg", "cg with settings", "stochastic"],
)
def test_any_solver_gives_first_order(study, solver):
    question = {"epsilon": [0.5, 2.0], "groups": {"some": np.arange(600) % 3 == 0}}
    factor = study.estimate(**question, method="influence")
    found = study.estimate(**question, method="influence", inverse_hessian=solver)
    one, other = factor.to_frame(), found.to_frame()
    columns = ["loss_change", "loss_change_low", "loss_change_high"]
    # Relative residuals of 1e-7 and less, times a condition number below 1e3.
    np.testing.assert_allclose(other[columns], one[columns], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(other["accuracy_change"], one["accuracy_change"], atol=0.01)
    settings = found.document.provenance.settings["inverse_hessian"]
    assert settings["converged"]
    assert settings["relative_residual"] <= 1e-7
    assert abs(other["loss_change"] - one["loss_change"]).max() <= (
        2 * settings["loss_change_error"] + 1e-12
    )
    told = [note for note in found.document.warnings if "mini-batches" in note]
    assert len(told) == isinstance(solver, StochasticEstimation)


def test_the_solver_is_in_the_provenance_of_first_order_only(study):
    question = {"epsilon": [1.0]}
    first = study.estimate(**question, method="influence").document.provenance.settings
    assert first["inverse_hessian"]["solver"] == "cholesky"
    assert first["inverse_hessian"]["relative_residual"] < 1e-10
    assert "inverse_hessian" not in study.estimate(**question).document.provenance.settings


def test_a_solver_that_gives_up_is_said_and_not_trusted(study):
    with pytest.warns(ApproximationWarning, match="conjugate gradient used its 1 iterations"):
        result = study.estimate(
            epsilon=[1.0, 8.0],
            method="influence",
            inverse_hessian=ConjugateGradient(max_iterations=1),
        )
    assert any("used its 1 iterations" in note for note in result.document.warnings)
    assert not result.to_frame()["trusted"].any()
    settings = result.document.provenance.settings["inverse_hessian"]
    assert not settings["converged"]
    assert settings["relative_residual"] > 1e-8


@pytest.mark.parametrize("method", ["auto", "newton", "exact", "retrain"])
def test_a_solver_belongs_to_first_order(study, method):
    with pytest.raises(InputError, match="`inverse_hessian` is for `method='influence'`"):
        study.estimate(epsilon=1.0, method=method, inverse_hessian="cg")


def test_an_unknown_solver_is_refused(study):
    with pytest.raises(InputError, match="`inverse_hessian` must be one of 'cholesky', 'cg'"):
        study.estimate(epsilon=1.0, method="influence", inverse_hessian="lissa")


@pytest.mark.parametrize("protect", ["smokes", "region"])
def test_point_tables_of_all_solvers_agree(study, protect):
    question = {"protect": protect, "categories": {"region": ["north", "south", "east"]}}
    if protect == "smokes":
        question["categories"] = {}
    factor = study.point_table(**question)
    assert factor.solution.converged
    for solver in (ConjugateGradient(1e-12), StochasticEstimation(1e-8)):
        table = study.point_table(**question, inverse_hessian=solver)
        assert table.solution.relative_residual <= solver.tolerance
        np.testing.assert_allclose(
            table.contributions,
            factor.contributions,
            atol=1e-5 * np.abs(factor.contributions).max(),
        )


def test_first_order_without_a_factor_never_forms_a_matrix(study, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("a matrix of parameters × parameters was formed")

    monkeypatch.setattr("epsilens.models.problem.Problem.hessian", refuse)
    monkeypatch.setattr("epsilens.models.solver.Curvature.solve", refuse)
    monkeypatch.setattr("epsilens.models.design.Design.gram", refuse)
    monkeypatch.setattr("epsilens.models.design.Design.quadratic", refuse)
    question = {"epsilon": [0.5, 2.0], "method": "influence", "inverse_hessian": "cg"}
    assert study.estimate(**question).to_frame()["loss_change"].notna().all()
    region = {"region": ["north", "south", "east"]}
    result = study.estimate(protect="region", categories=region, **question)
    assert result.to_frame()["loss_change"].notna().all()


def test_trust_without_a_factor_is_that_with_one(study):
    groups = {"some": np.arange(600) % 20 == 0, "all": np.ones(600, dtype=bool)}
    question = {"epsilon": [0.01, 0.5, 3.0, 8.0], "groups": groups, "method": "influence"}
    factor = study.estimate(**question).to_frame()["trusted"].to_numpy()
    probed = study.estimate(**question, inverse_hessian="cg").to_frame()["trusted"].to_numpy()
    # Where a factor says no, draws may not say yes; where it says yes they may be in doubt.
    assert not (probed & ~factor).any()
    assert probed.sum() >= factor.sum() - 1
    assert 0 < factor.sum() < len(factor)


def test_noise_that_was_not_found_is_not_trusted(study, monkeypatch):
    """v and the steps are easy, the noise is not: one iteration is enough for none but a zero."""
    question = {"epsilon": [3.0, 8.0], "method": "influence"}
    assert study.estimate(**question, inverse_hessian="cg").to_frame()["trusted"].all()
    monkeypatch.setattr(
        ConjugateGradient, "loosened", lambda *_: ConjugateGradient(1e-8, max_iterations=1)
    )
    for protect in ("smokes", "region"):
        categories = {"region": ["north", "south", "east"]} if protect == "region" else None
        result = study.estimate(
            protect=protect, categories=categories, **question, inverse_hessian="cg"
        )
        assert not result.to_frame()["trusted"].any()
        assert any("did not reach its tolerance beside" in w for w in result.document.warnings)
