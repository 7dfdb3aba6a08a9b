"""Attacks on any classifier: shadow models that are known by what they predict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from epsilens import Study
from epsilens.errors import InputError
from epsilens.influence.any_model import any_model_of
from epsilens.risk import AttackStudy, models_needed
from epsilens.risk.answer_inference import Calibration
from epsilens.risk.any_shadows import StoredLikelihoods, plan_shadows

# Twenty models are few, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*too few models to be judged")

N = 200


def people(seed=0, n=N):
    rng = np.random.default_rng(seed)
    total = n + 200
    X = pd.DataFrame({"a": rng.normal(size=total), "b": rng.normal(size=total)})
    X["sex"] = rng.integers(0, 2, total)
    chance = 1 / (1 + np.exp(-X["a"] - X["sex"]))
    y = pd.Series(np.where(rng.random(total) < chance, "yes", "no"), name="smokes")
    return X[:n], y[:n].astype(pd.CategoricalDtype(["no", "yes"])), X[n:], y[n:]


DATA = people()


def test_guesses_equal_those_by_hand():
    rng = np.random.default_rng(0)
    stored = rng.normal(size=(4, 3, 50)).astype(np.float32)
    truth, shares = rng.integers(0, 3, 50), np.log(np.array([0.5, 0.3, 0.2]))
    attack = StoredLikelihoods(truth, shares, stored)
    found = attack.successes(np.array([2, 0]), Calibration(share=0.7, evidence=1.3))
    for column, model in enumerate((2, 0)):
        for row in range(50):
            belief = 1.3 * stored[model, :, row] + 0.7 * shares
            assert found[row, column] == (belief.argmax() == truth[row])


def test_a_logistic_model_is_attacked_alike_side_by_side_and_one_by_one():
    question = {"protect": "smokes", "epsilon": [1.0, 6.0], "shadow_models": 40}
    linear = AttackStudy(LogisticRegression()).fit(*DATA)
    side_by_side = linear.estimate(**question).document.cells
    whole = AttackStudy(LogisticRegression()).fit(*DATA)
    whole.baseline_ = any_model_of(linear.baseline_, LogisticRegression())
    one_by_one = whole.estimate(**question, seconds=float("inf")).document.cells
    for one, other in zip(side_by_side, one_by_one, strict=True):
        # 40 models on halves of 200 people, with other reports.
        assert one.answer_inference_rate == pytest.approx(other.answer_inference_rate, abs=0.05)
        assert one.asr_mean == pytest.approx(other.asr_mean, abs=0.03)
        assert one.accuracy == pytest.approx(other.accuracy, abs=0.03)
        assert one.advantage == other.advantage
        assert one.answer_inference_ceiling == pytest.approx(
            other.answer_inference_ceiling, abs=0.03
        )


def test_time_decides_how_many_models_are_attacked_and_that_is_said():
    attack = AttackStudy(GaussianNB()).fit(*DATA)
    curve = attack.estimate(protect="smokes", epsilon="0.1:10:12", seconds=1e-6)
    cells = curve.document.cells
    assert curve.document.n_models == 20
    assert [cell.asr_mean is not None for cell in cells] == [False] * 11 + [True]
    assert all(cell.holder_rate is not None and cell.advantage is not None for cell in cells)
    codes = {note.code for note in curve.document.notes}
    assert {"attack-power", "attacked-budgets"} <= codes
    assert plan_shadows(12, most_models=64, n_fits=np.inf).attacked == tuple(range(12))


def test_an_effect_chooses_the_models_or_is_refused():
    attack = AttackStudy(GaussianNB()).fit(*DATA)
    question, told = {"protect": "smokes", "epsilon": [2.0]}, []
    curve = attack.estimate(**question, detect=0.015, seconds=float("inf"), announce=told.append)
    assert curve.document.n_models == models_needed(0.015, N) > 20
    (note,) = (one for one in curve.document.notes if one.code == "attack-power")
    assert note.text.startswith(told[0])
    # A thousand trainings take longer than that.
    with pytest.raises(InputError, match="needs 861 shadow models, and"):
        attack.estimate(**question, detect=0.003, seconds=0.01)


def test_a_checkpoint_keeps_finished_models(tmp_path, monkeypatch):
    attack = AttackStudy(GaussianNB()).fit(*DATA)
    question = {"protect": "smokes", "epsilon": [2.0], "shadow_models": 20}
    one = attack.estimate(**question, seconds=float("inf"), checkpoint=tmp_path / "kept")
    monkeypatch.setattr(GaussianNB, "fit", lambda *_: pytest.fail("trained again"))
    other = attack.estimate(**question, seconds=float("inf"), checkpoint=tmp_path / "kept")
    assert one.document.cells == other.document.cells


def test_protected_features_are_guessed_together_with_the_label():
    attack = AttackStudy(GaussianNB()).fit(*DATA)
    (cell,) = attack.estimate(
        protect=["sex", "smokes"],
        epsilon=[3.0],
        categories={"sex": [0, 1]},
        shadow_models=20,
        seconds=float("inf"),
    ).document.cells
    assert 0.25 < cell.answer_inference_rate < 1.0
    assert cell.record_epsilon == 6.0


def test_a_forest_that_memorises_is_found_and_said_first():
    X, y, X_test, y_test = people(3)
    frame = pd.concat([X, X_test]).assign(smokes=pd.concat([y, y_test]).astype(str))
    study = Study(
        frame,
        label="smokes",
        categories={"smokes": ["no", "yes"]},
        model=RandomForestClassifier(20),
    )
    decision = study.decide(
        epsilon=[0.2, 8.0], mechanisms="randomised-response", shadow_models=24, seconds=90
    )
    cell = decision.document.risk.cells[-1]
    assert cell.asr_mean > 0.6
    assert 0.6 < cell.asr_mean_lower_bound < cell.asr_mean
    # Randomised answers hide some of it: both figures are told.
    assert decision.recommendation.epsilon == 0.2
    shares = [f"{100 * one.asr_mean:.1f}%" for one in decision.document.risk.cells]
    assert decision.recommendation.sentence.startswith(
        "This model gives away who was in its training data (measured). "
    )
    assert decision.recommendation.details[0] == (
        f"An attacker is right about {shares[1]} of the records at ε = 8, {shares[0]} at ε = 0.2, and 50% by "
        "guessing (measured)."
    )


def test_what_cannot_be_attacked_is_refused():
    X, _, X_test, _ = DATA
    with pytest.raises(InputError, match="an attack needs a classifier"):
        AttackStudy(HistGradientBoostingRegressor()).fit(X, X["a"], X_test, X_test["a"])
    attack = AttackStudy(GaussianNB()).fit(*DATA)
    with pytest.raises(InputError, match="trains a network of its own"):
        attack.estimate_dp_sgd(epsilon=1.0, delta=1e-5)
    linear = AttackStudy(LogisticRegression()).fit(*DATA)
    with pytest.raises(InputError, match="this one is linear"):
        linear.estimate(epsilon=1.0, seconds=3.0)
