"""Models side by side against scikit-learn on each model's own records, one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, SGDClassifier

from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.influence import wide
from epsilens.risk import AttackStudy, randomised_shadows

N_MODELS = 5

MODELS = {
    "logistic": (LogisticRegression(C=0.7, tol=1e-12, max_iter=5000), 2),
    "softmax": (LogisticRegression(C=0.7, tol=1e-12, max_iter=5000), 3),
    "balanced": (
        LogisticRegression(C=0.7, tol=1e-12, max_iter=5000, class_weight="balanced"),
        2,
    ),
}


@pytest.mark.parametrize("protect", [["ill"], ["smokes"], ["town", "smokes", "ill"]])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_those_of_scikit_learn_on_their_own_records(name, protect, shadows_of):
    model, n_classes = MODELS[name]
    shadows = shadows_of(model, protect, n_classes=n_classes)
    asked, baseline = shadows.asked, shadows.baseline
    theta = shadows.training.train(0, range(N_MODELS), start=baseline.theta)
    values, codes = shadows.training.reports(0, range(N_MODELS))
    features = asked.alternatives
    for j in range(N_MODELS):
        rows = np.flatnonzero(shadows.members[:, j])
        reported = features.codes if values is None else values[:, j]
        seen = features.base.block(rows) + features.blocks[reported[rows]]
        # The design has the intercept as its last column; scikit-learn fits its own.
        label = asked.label.codes if codes is None else codes[:, j]
        scale = baseline.problem.design.scale[:-1]

        # Penalties are in the units of the features, the design is scaled: undo it.
        twin = type(model)(**model.get_params()).fit(seen[:, :-1] * scale, label[rows])
        ours = baseline.problem.design.predict(theta[:, j])
        theirs = twin.decision_function(baseline.problem.design.matrix[:, :-1] * scale)
        if n_classes > 2:
            ours = ours - ours.mean(axis=1, keepdims=True)
            theirs = theirs - theirs.mean(axis=1, keepdims=True)
        # scikit-learn's own tolerance leaves about 1e-6.
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, atol=2e-5)


def test_a_penalty_of_the_mean_shrinks_with_the_records(shadows_of):
    shadows = shadows_of(SGDClassifier(loss="log_loss", alpha=0.01, tol=None, max_iter=5), ["ill"])
    theta = shadows.training.train(0, range(N_MODELS), start=shadows.baseline.theta)
    _, codes = shadows.training.reports(0, range(N_MODELS))
    design = shadows.baseline.problem.design
    for j in range(N_MODELS):
        rows = np.flatnonzero(shadows.members[:, j])
        scale = design.scale[:-1]
        # alpha/2 of the mean is C = 1/(alpha·n) of the sum.
        twin = LogisticRegression(C=1 / (0.01 * len(rows)), tol=1e-12, max_iter=5000)
        twin.fit(design.matrix[rows, :-1] * scale, codes[rows, j])
        theirs = twin.decision_function(design.matrix[:, :-1] * scale)
        np.testing.assert_allclose(design.predict(theta[:, j])[:, 0], theirs, atol=2e-5)


def test_blocks_of_any_size_give_the_same_models(shadows_of):
    shadows = shadows_of(LogisticRegression(), ["town", "ill"])
    together = shadows.training.train(0, range(N_MODELS), start=shadows.baseline.theta)
    for j in range(N_MODELS):
        alone = shadows.training.train(0, range(j, j + 1), start=shadows.baseline.theta)
        np.testing.assert_allclose(alone[:, 0], together[:, j], atol=1e-7)


def test_models_share_a_block_only_as_far_as_their_hessians_fit_into_memory(
    shadows_of, monkeypatch
):
    shadows = shadows_of(LogisticRegression(), ["smokes", "ill"])
    start = shadows.baseline.theta
    together = shadows.training.train(0, range(N_MODELS), start=start)
    trained = []
    of_block = randomised_shadows.minimise

    def counted(objective, *others, **how):
        trained.append(objective.weights.shape[1])
        return of_block(objective, *others, **how)

    monkeypatch.setattr(randomised_shadows, "minimise", counted)
    monkeypatch.setattr(randomised_shadows, "_OWN_HESSIANS_BYTES", 16 * len(start) ** 2 * 2)
    apart = shadows.training.train(0, range(N_MODELS), start=start)
    assert max(trained) == 2
    assert sum(trained) == N_MODELS
    # Both are converged to a gradient of 1e-8.
    np.testing.assert_allclose(apart, together, atol=1e-6)


def test_an_attack_on_a_wide_model_is_refused_before_a_matrix_is_formed(shadows_of, monkeypatch):
    monkeypatch.setattr(wide, "MOST_FACTORISED", 3)
    with pytest.raises(InputError, match="an attack needs a matrix of parameters × parameters"):
        shadows_of(LogisticRegression(), ["ill"])


def test_without_noise_the_reports_are_the_truth(shadows_of):
    shadows = shadows_of(LogisticRegression(), ["town", "ill"], epsilon=np.inf)
    values, codes = shadows.training.reports(0, range(2))
    assert (values == shadows.asked.alternatives.codes[:, None]).all()
    assert (codes == shadows.asked.label.codes[:, None]).all()


def test_a_record_that_is_not_in_a_model_has_no_say_in_it(shadows_of):
    shadows = shadows_of(LogisticRegression(), ["ill"])
    before = shadows.training.train(0, range(1), start=shadows.baseline.theta)
    outside = ~shadows.members[:, 0]
    design = shadows.baseline.problem.design
    matrix = design.matrix.copy()
    matrix[outside, :-1] = 1.0
    design.matrix[:] = matrix
    after = shadows.training.train(0, range(1), start=shadows.baseline.theta)
    np.testing.assert_allclose(before, after, atol=1e-9)


def test_halves_that_are_separable_without_a_penalty_are_refused():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    y = pd.Series(X["a"] + 0.9 * rng.normal(size=60) > 0, name="y").astype("category")
    study = AttackStudy(LogisticRegression(C=np.inf)).fit(X[:12], y[:12], X[12:], y[12:])
    with pytest.raises(EstimateNotTrustworthyError, match=r"regularisation|too few"):
        study.estimate(protect="y", epsilon=[8.0], shadow_models=64)


@pytest.mark.parametrize("protect", [["ill"], ["smokes", "ill"]])
@pytest.mark.parametrize("name", MODELS)
def test_corrected_models_minimise_the_loss_that_knows_the_noise(name, protect, shadows_of):
    """−log (Pᵀh) of the reported label, written out, minimised by scipy from the same start."""
    model, n_classes = MODELS[name]
    plain = shadows_of(model, protect, n_classes=n_classes, epsilon=2.0)
    shadows = replace(plain, is_corrected=True)
    asked, baseline = shadows.asked, shadows.baseline
    theta = shadows.training.train(0, range(2), start=baseline.theta)
    values, codes = shadows.training.reports(0, range(2))
    channel, problem = asked.label_channels[0].matrix, baseline.problem
    penalty = problem.penalty_hessian()
    for j in range(2):
        rows = np.flatnonzero(shadows.members[:, j])
        reported = asked.alternatives.codes if values is None else values[:, j]
        X = asked.alternatives.base.block(rows) + asked.alternatives.blocks[reported[rows]]
        labels = codes[rows, j]
        weights = np.ones(len(rows))
        if name == "balanced":
            weights = len(rows) / (2 * np.bincount(labels))[labels]

        def objective(parameters, X=X, labels=labels, weights=weights):
            s = X @ parameters.reshape(-1, X.shape[1]).T
            h = softmax(np.column_stack([np.zeros(len(s)), s]) if s.shape[1] == 1 else s, axis=1)
            losses = -np.log((h @ channel)[np.arange(len(s)), labels])
            return weights @ losses / problem.n_rows + 0.5 * parameters @ penalty @ parameters

        found = objective(theta[:, j])
        best = optimize.minimize(objective, theta[:, j], method="BFGS", options={"gtol": 1e-9})
        assert found <= best.fun + 1e-10
        nearby = theta[:, [j]] + 1e-3 * np.random.default_rng(0).normal(size=(len(theta), 20))
        assert all(objective(column) > found for column in nearby.T)
        # It is another model than that of the uncorrected loss.
        usual = plain.training.train(0, range(j, j + 1), start=baseline.theta)
        assert objective(usual[:, 0]) > found + 1e-4


def test_a_correction_without_noise_is_none(shadows_of):
    shadows = shadows_of(LogisticRegression(), ["ill"], epsilon=np.inf)
    start = shadows.baseline.theta
    corrected = replace(shadows, is_corrected=True).training.train(0, range(3), start=start)
    np.testing.assert_allclose(
        corrected, shadows.training.train(0, range(3), start=start), atol=1e-6
    )
