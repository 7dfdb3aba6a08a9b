"""The study: the same seed, a killed run, what is refused, and the noisy training."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier

from epsilens.channels import Channel, ProductChannel, RandomizedResponse
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.models.privacy_accounting import attack_ceiling
from epsilens.risk import AttackStudy, DPSGDSettings, RiskCurve, ShadowEnsemble, equivalent_epsilon
from epsilens.risk import study as study_module


@pytest.fixture(scope="module")
def study() -> AttackStudy:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(260, 3)), columns=["a", "b", "c"])
    X["town"] = rng.integers(0, 3, 260).astype(float)
    y = pd.Series(pd.Categorical(X["a"] + rng.logistic(size=260) > 0), name="ill")
    return AttackStudy(LogisticRegression()).fit(X[:160], y[:160], X[160:], y[160:])


def without_seconds(curve: RiskCurve) -> dict[str, object]:
    found = curve.to_dict()
    found["provenance"].pop("seconds")
    return found


def test_a_seed_repeats_the_curve(study):
    question = {"protect": "ill", "epsilon": [0.5, 2.0], "shadow_models": 40}
    first = study.estimate(**question, random_state=7)
    assert without_seconds(study.estimate(**question, random_state=7)) == without_seconds(first)
    other = study.estimate(**question, random_state=8)
    assert other.document.cells != first.document.cells


def test_the_document_is_of_its_kind(study):
    document = study.estimate(protect="ill", epsilon=[2.0, 0.5], shadow_models=40).to_dict()
    assert document["kind"] == "risk"
    assert [cell["epsilon"] for cell in document["cells"]] == [0.5, 2.0]
    cell = document["cells"][0]
    assert cell["mechanism"] == "rr"
    assert cell["epsilon_lower_bound"] is None  # randomised response does not hide membership
    assert cell["asr_ceiling"] is None
    b = cell["answer_inference_baseline_high"]
    assert b > cell["answer_inference_baseline"]
    assert cell["advantage"] == pytest.approx(math.tanh(0.25), abs=1e-12)
    ceiling = b + (1 - b) * math.tanh(0.25)
    assert cell["answer_inference_ceiling"] == pytest.approx(ceiling, abs=1e-12)
    assert document["number_types"]["answer_inference_ceiling"] == "proven given b"
    assert document["number_types"]["advantage"] == "proven"
    assert document["number_types"]["answer_inference_baseline_high"] == "measured"
    assert document["provenance"]["simulated"] is True


@pytest.mark.parametrize("noisy", [False, True])
def test_a_killed_run_goes_on_where_it_was(study, tmp_path, noisy):
    def ask(folder: object, **more: object) -> RiskCurve:
        if noisy:
            return study.estimate_dp_sgd(
                epsilon=[1.0, 4.0], delta=1e-4, epochs=2, batch=16, shadow_models=70,
                checkpoint=folder, **more,
            )  # fmt: skip
        return study.estimate(
            protect="ill", epsilon=[1.0, 4.0], shadow_models=70, checkpoint=folder, **more
        )

    whole = ask(None)
    seen = []

    def stop_soon(done: int, total: int, what: str) -> None:
        seen.append(done)
        if done > 70:
            raise KeyboardInterrupt

    folder = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        ask(folder, progress=stop_soon)
    blocks = len(list(folder.rglob("block-*.npz")))
    assert blocks >= 2
    assert without_seconds(ask(folder)) == without_seconds(whole)
    with pytest.raises(InputError, match="another run"):
        ask(folder, random_state=1)


def test_a_checkpoint_of_another_domain_or_table_is_refused(study, tmp_path):
    question = {"protect": "town", "epsilon": [1.0], "shadow_models": 48}
    folder = tmp_path / "kept"
    study.estimate(**question, categories={"town": [0.0, 1.0, 2.0]}, checkpoint=folder)
    with pytest.raises(InputError, match="another run"):
        study.estimate(**question, categories={"town": [0.0, 1.0, 2.0, 3.0]}, checkpoint=folder)


def test_what_a_killed_run_left_half_written_is_removed(study, tmp_path):
    question = {"protect": "ill", "epsilon": [1.0], "shadow_models": 48}
    folder = tmp_path / "kept"
    study.estimate(**question, checkpoint=folder)
    (folder / ".block-000001.npz.1234abcd.part").write_bytes(b"half")
    study.estimate(**question, checkpoint=folder)
    assert not list(folder.glob("*.part"))
    assert not list(folder.glob(".*.part"))


def test_weights_are_refused_by_noisy_training():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    y = pd.Series(pd.Categorical(rng.random(100) < 0.5), name="ill")
    weighted = AttackStudy(LogisticRegression()).fit(X, y, X, y, rng.random(100))
    balanced = AttackStudy(LogisticRegression(class_weight="balanced")).fit(X, y, X, y)
    for each in (weighted, balanced):
        with pytest.raises(InputError, match="no weights"):
            each.estimate_dp_sgd(epsilon=1.0, delta=1e-4, batch=16, shadow_models=20)


def test_training_that_diverges_says_so(study):
    for rate, hidden in ((1e20, (8,)), (1e30, ())):
        with pytest.raises(EstimateNotTrustworthyError, match="learning_rate"):
            study.estimate_dp_sgd(
                epsilon=1.0, delta=1e-4, batch=16, shadow_models=20, learning_rate=rate,
                hidden=hidden,
            )  # fmt: skip


def test_large_tables_attack_some_records(study, monkeypatch):
    monkeypatch.setattr(study_module, "MOST_TARGETS", 50)
    curve = study.estimate(protect="ill", epsilon=[1.0], shadow_models=40)
    assert curve.document.n_targets == 50
    assert any("50 of the 160" in note for note in curve.document.warnings)
    assert set(curve.most_exposed(5)["row"]) <= set(range(160))


def test_the_most_exposed_come_first(study):
    curve = study.estimate(protect="ill", epsilon=[1.0, 8.0], shadow_models=40)
    found = curve.most_exposed(10, epsilon=1.0)
    assert (found["asr"].diff().dropna() <= 0).all()
    assert found["asr"].iloc[0] == curve.document.cells[0].asr_max
    with pytest.raises(InputError, match="one of the 2"):
        curve.most_exposed(epsilon=3.0)


def test_budgets_per_column_add_up(study):
    curve = study.estimate(
        protect=["ill", "town"], epsilon={"ill": 1.0, "town": 0.5}, shadow_models=40,
        categories={"town": [0.0, 1.0, 2.0]},
    )  # fmt: skip
    (cell,) = curve.document.cells
    assert cell.epsilon is None
    assert cell.record_epsilon == 1.5
    b = cell.answer_inference_baseline_high
    joint = ProductChannel([RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.5)])
    assert cell.advantage == pytest.approx(Channel(joint.matrix).advantage)
    assert cell.answer_inference_ceiling == pytest.approx(
        min(b + (1 - b) * cell.advantage, b / (b + (1 - b) * math.exp(-1.5)))
    )


@pytest.mark.parametrize("model", [Ridge(), LinearRegression()])
def test_a_regression_is_refused(model):
    X = pd.DataFrame({"a": np.arange(20.0)})
    with pytest.raises(InputError, match="probabilities"):
        AttackStudy(model).fit(X, np.arange(20.0), X, np.arange(20.0))


def test_a_classifier_without_probabilities_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    words = "gives probabilities, got a model of squared loss. Use LogisticRegression"
    with pytest.raises(InputError, match=words):
        AttackStudy(RidgeClassifier()).fit(X, y, X, y)
    with pytest.raises(InputError, match=words):
        ShadowEnsemble(RidgeClassifier(), n_models=20).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shadow_models": 19}, "shadow_models"),
        ({"confidence": 1.0}, "confidence"),
        ({"epsilon": [0.0]}, "epsilon"),
        ({"epsilon": []}, "at least one value"),
        ({"protect": "nothing"}, "protect"),
    ],
)
def test_bad_questions_are_one_line(study, changes, words):
    with pytest.raises(ValueError, match=words) as caught:
        study.estimate(**{"protect": "ill", "epsilon": [1.0], **changes})
    assert "\n" not in str(caught.value)


def test_noisy_training_has_floor_bound_and_ceiling(study):
    curve = study.estimate_dp_sgd(
        epsilon=[1.0, 8.0, math.inf], delta=1e-4, epochs=3, batch=16, shadow_models=64
    )
    low, high, plain = curve.document.cells
    assert low.noise_multiplier > high.noise_multiplier > plain.noise_multiplier == 0.0
    assert 0.5 < low.asr_ceiling < high.asr_ceiling < plain.asr_ceiling == 1.0
    assert low.epsilon_lower_bound <= 1.0
    assert plain.epsilon == math.inf
    assert curve.to_dict()["cells"][2]["epsilon"] == "inf"
    settings = DPSGDSettings(epsilon=1.0, delta=1e-4, epochs=3, batch=16)
    assert low.asr_ceiling == attack_ceiling(settings.calibration(80))


def test_the_ceiling_is_that_of_one_noisy_sum():
    """Everybody in one batch: a Gaussian shift of 1/σ, whose best attack is known."""
    from scipy.stats import norm

    settings = DPSGDSettings(epsilon=2.0, delta=1e-4, epochs=1, batch=50)
    calibration = settings.calibration(50)
    truth = norm.cdf(0.5 / calibration.noise_multiplier)
    assert calibration.sampling_probability == 1.0
    assert truth <= attack_ceiling(calibration) <= truth + 1e-3


def test_equivalent_budgets_of_one_and_the_same_table(study):
    settings = {"delta": 1e-4, "epochs": 3, "batch": 16, "shadow_models": 64}
    grid = [0.5, 2.0, 8.0, math.inf]
    curve = study.estimate_dp_sgd(epsilon=grid, **settings)
    found = equivalent_epsilon(curve, curve)
    assert [item.epsilon for item in found] == grid
    for item in found:
        assert item.low <= item.epsilon <= item.high
    rr = study.estimate(protect="ill", epsilon=[1.0], shadow_models=40)
    with pytest.raises(InputError, match="one mechanism"):
        equivalent_epsilon(curve, rr)


def test_an_overfitted_model_is_found_out_and_strangers_are_not():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(80, 60)), rng.integers(0, 2, 80)
    ensemble = ShadowEnsemble(LogisticRegression(C=100.0), n_models=300).fit(X, y)
    found = ensemble.attack(online=True)
    assert found.asr_max_p_value < 1e-6
    assert found.asr_max_lower_bound > 0.6
    # Coins that the models never saw.
    ensemble.membership_ = rng.random(ensemble.membership_.shape) < 0.5
    assert ensemble.attack().asr_max_p_value > 0.01


@pytest.mark.slow
def test_what_an_attack_proves_is_rarely_above_what_is_accounted():
    """Worst-case records, each in a direction of its own, 100 audits of 64 models."""
    n = 40
    X, y = np.eye(n) * 3.0, np.arange(n) % 2
    settings = DPSGDSettings(epsilon=4.0, delta=1e-5, epochs=1, batch=20, learning_rate=1.0)
    bounds = np.array([
        ShadowEnsemble(settings, n_models=64, random_state=seed).fit(X, y).attack().epsilon_lower_bound
        for seed in range(100)
    ])  # fmt: skip
    assert np.mean(bounds > settings.calibration(n / 2).epsilon_pld) <= 0.05 + 2 * 0.0218
    # The attack is no dummy: it proves a part of the budget.
    assert np.median(bounds) > 0.8


def test_corrected_models_are_attacked_and_what_is_proven_stays(study):
    asked = {"protect": "ill", "epsilon": [1.0, 3.0], "shadow_models": 64}
    plain = study.estimate(**asked, correction="none").document
    corrected = study.estimate(**asked, correction="forward").document
    assert plain.provenance.settings["correction"] == "none"
    assert corrected.provenance.settings["correction"] == "forward"
    assert any(note.code == "correction-conditions" for note in corrected.notes)
    for one, other in zip(plain.cells, corrected.cells, strict=True):
        for name in ("advantage", "answer_inference_ceiling", "holder_rate"):
            assert getattr(one, name) == getattr(other, name)
        assert one.answer_inference_rate != other.answer_inference_rate
        assert other.answer_inference_low <= other.answer_inference_ceiling


def test_a_correction_needs_a_randomised_label(study):
    with pytest.raises(InputError, match="`correction` is for a randomised label"):
        study.estimate(
            protect="town", categories={"town": [0.0, 1.0, 2.0]}, epsilon=1.0, correction="forward"
        )
    with pytest.raises(InputError, match="`correction` must be"):
        study.estimate(epsilon=1.0, correction="backward")
