# SPDX-License-Identifier: Apache-2.0
"""The baseline of the ceiling: what everybody else's data give away, by the best of several predictors."""

from __future__ import annotations

import math
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.stats import beta, binom
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens.channels import RandomizedResponse, simulate
from epsilens.risk import AttackStudy, inference_ceiling
from epsilens.risk.answer_inference import KnownColumns, best_guess, cross_fitted


def cars(n: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Crashes: a car has an airbag if it is new; the airbag says next to nothing about the outcome."""
    rng = np.random.default_rng(seed)
    year = rng.integers(1980, 2002, n)
    airbag = np.where(rng.random(n) < np.where(year >= 1993, 0.93, 0.08), "airbag", "none")
    speed = rng.normal(size=n)
    X = pd.DataFrame({"year": year, "speed": speed, "airbag": pd.Categorical(airbag)})
    y = pd.Series(pd.Categorical(speed + rng.logistic(size=n) > 1.5), name="dead")
    return X, y


def study_of(X: pd.DataFrame, y: pd.Series, n_train: int) -> AttackStudy:
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["airbag"]), (StandardScaler(), ["year", "speed"])
    )
    study = AttackStudy(make_pipeline(encode, LogisticRegression()))
    return study.fit(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def test_a_feature_that_follows_from_another_column_is_given_away():
    """The published model of the label knows nothing of it; whoever holds the randomised table does."""
    X, y = cars(2400)
    curve = study_of(X, y, 2000).estimate(protect="airbag", epsilon=[0.2, 1.0], shadow_models=64)
    truth = X["airbag"].cat.codes.to_numpy()[:2000].astype(np.int64)
    year = X["year"].to_numpy()[:2000]
    for cell in curve.document.cells:
        # What the published model gives away is the most common answer.
        assert cell.answer_inference_unseen < 0.6
        assert cell.answer_inference_baseline > 0.9
        assert cell.answer_inference_baseline < cell.answer_inference_baseline_high < 0.95
        reports = simulate(
            RandomizedResponse(2, cell.epsilon), truth, np.random.default_rng(5)
        ).astype(float)
        # The holder compares the reports of new and of old cars, and needs no true answer.
        by_year = np.array([reports[year == at].mean() for at in range(1980, 2002)])
        guess = by_year[year - 1980] > 0.5
        rate = np.mean(guess == truth)
        # That exceeds what follows from the published model's baseline, the most common answer.
        assert rate > inference_ceiling(max(truth.mean(), 1 - truth.mean()), cell.epsilon) + 0.05
        assert rate <= cell.answer_inference_ceiling
    assert curve.document.provenance.settings["baseline_predictor"] in {
        "boosted trees",
        "forest",
        "linear model",
    }


def test_the_label_is_known_unless_it_is_protected_too():
    rng = np.random.default_rng(4)
    label = rng.integers(0, 2, 600)
    answer = np.where(rng.random(600) < 0.95, label, 1 - label).astype(np.intp)
    table = pd.DataFrame({"noise": rng.normal(size=600), "answer": answer})
    told = KnownColumns.of(table, hidden={"answer"}, label=label)
    hidden = KnownColumns.of(table, hidden={"answer"}, label=None)
    assert max(cross_fitted(told, answer, rng).rates.values()) > 0.92
    assert max(cross_fitted(hidden, answer, rng).rates.values()) < 0.6


def test_a_label_that_is_no_line_is_found_by_trees():
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(1500, 2)), columns=["a", "b"])
    y = ((X["a"] * X["b"]) > 0).to_numpy().astype(np.intp)
    found = cross_fitted(KnownColumns.of(X, hidden=set(), label=None), y, rng).rates
    assert found["boosted trees"] > 0.9
    assert found["linear model"] < 0.6


def test_people_of_one_household_give_each_other_away():
    rng = np.random.default_rng(7)
    household = np.repeat(np.arange(700), 3)
    answer = np.repeat(rng.integers(0, 2, 700), 3)
    answer = np.where(rng.random(2100) < 0.95, answer, 1 - answer).astype(np.intp)
    names = pd.Series(household).map(lambda at: f"h{at}")
    for column in (household * 7919 % 1009, names):
        known = KnownColumns.of(pd.DataFrame({"household": column}), hidden=set(), label=None)
        assert known.shared.shape == (2100, 1)
        assert max(cross_fitted(known, answer, rng).rates.values()) > 0.85


def test_nobody_is_predicted_by_a_model_that_saw_them():
    """Answers without any rule, every person with a name of their own: nothing can be learnt."""
    rng = np.random.default_rng(8)
    n = 1200
    answer = rng.integers(0, 2, n).astype(np.intp)
    table = pd.DataFrame({"person": [f"p{i // 2}" for i in range(n)], "x": rng.normal(size=n)})
    found = cross_fitted(KnownColumns.of(table, hidden=set(), label=None), answer, rng).rates
    assert max(found.values()) < 0.5 + 4 * 0.5 / math.sqrt(n)


def test_several_answers_are_guessed_as_one():
    rng = np.random.default_rng(9)
    x = rng.integers(0, 6, 1200)
    known = KnownColumns.of(pd.DataFrame({"x": x}), hidden=set(), label=None)
    found = cross_fitted(known, x.astype(np.intp), rng).rates
    assert found["boosted trees"] > 0.98


@pytest.mark.parametrize("n_answers", [40, 300])
def test_many_answers_take_no_longer(n_answers):
    rng = np.random.default_rng(10)
    answer = rng.integers(0, n_answers, 3000).astype(np.intp)
    known = KnownColumns.of(pd.DataFrame({"x": rng.normal(size=3000)}), hidden=set(), label=None)
    started = time.process_time()
    assert max(cross_fitted(known, answer, rng).rates.values()) < 0.1
    assert time.process_time() - started < 20


def test_any_kind_of_column():
    rng = np.random.default_rng(11)
    n = 300
    answer = rng.integers(0, 2, n).astype(np.intp)
    table = pd.DataFrame(
        {
            "text": np.where(answer == 1, "yes", None),
            "empty": np.full(n, np.nan),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, n), unit="D"),
            "flag": rng.random(n) < 0.5,
            "large": np.where(rng.random(n) < 0.1, np.inf, 1.0),
        }
    )
    known = KnownColumns.of(table, hidden=set(), label=None)
    assert known.is_category.tolist() == [True, False, False, False, False]
    assert max(cross_fitted(known, answer, rng).rates.values()) == 1.0
    matrix = scipy.sparse.csr_array(np.column_stack([answer, rng.integers(0, 2, n)]))
    sparse = KnownColumns.of(matrix, hidden=set(), label=None)
    assert max(cross_fitted(sparse, answer, rng).rates.values()) == 1.0
    nothing = KnownColumns.of(table[[]], hidden=set(), label=None)
    assert cross_fitted(nothing, answer, rng).rates == {}
    assert cross_fitted(known, np.zeros(n, dtype=np.intp), rng).rates == {}


def test_the_bound_is_clopper_pearson_for_all_predictors_together():
    found = best_guess({"a": 0.62, "b": 0.7, "c": 0.55}, n_people=200)
    assert (found.rate, found.predictor) == (0.7, "b")
    assert found.high == pytest.approx(beta.ppf(1 - 0.05 / 3, 141, 60))
    assert best_guess({"a": 1.0}, n_people=50).high == 1.0
    assert best_guess({"a": 0.6}, n_people=10**6, at_least=0.9).high == 0.9


def test_the_bound_covers_the_best_predictor():
    """Three predictors with one true rate: the best looks better than it is, the bound does not."""
    n, rate = 150, 0.6
    draws = binom.rvs(n, rate, size=(2000, 3), random_state=0) / n
    below = np.mean(
        [
            best_guess(dict(zip("abc", map(float, row), strict=True)), n_people=n).high < rate
            for row in draws
        ]
    )
    assert below <= 0.05 / 3


def test_fifty_thousand_rows_take_seconds():
    rng = np.random.default_rng(12)
    X = pd.DataFrame(rng.normal(size=(50_000, 12))).add_prefix("x")
    y = (X["x0"] + rng.logistic(size=50_000) > 0).to_numpy().astype(np.intp)
    started = time.process_time()
    known = KnownColumns.of(X, hidden=set(), label=None)
    cross_fitted(known, y, rng)
    assert time.process_time() - started < 6
    assert known.n_training_rows < 50_000


def test_a_part_of_the_rows_is_said(monkeypatch):
    from epsilens.risk import answer_inference

    monkeypatch.setattr(answer_inference, "MOST_TRAINING_ROWS", 300)
    X, y = cars(500)
    curve = study_of(X, y, 400).estimate(protect="airbag", epsilon=[1.0], shadow_models=64)
    assert any("was learnt from 300 of the 400" in note for note in curve.document.warnings)


def test_many_columns_leave_trees_the_telling_ones():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(900, 300))
    y = (np.abs(X[:, 250]) > 0.7).astype(np.intp)
    X[:, 7] += 2.0 * y
    known = KnownColumns.of(X, hidden=set(), label=None)
    started = time.process_time()
    found = cross_fitted(known, y, rng).rates
    assert time.process_time() - started < 20
    assert found["boosted trees"] > 0.8


def best_of(table: pd.DataFrame, truth: np.ndarray) -> float:
    known = KnownColumns.of(table, hidden=set(), label=None)
    return max(cross_fitted(known, truth, np.random.default_rng(0)).rates.values())


def test_couples_give_each_other_away_though_most_values_are_seen_once():
    """Of couples and people who live alone, more than half of the households have one person."""
    rng = np.random.default_rng(0)
    home = np.r_[np.repeat(np.arange(400), 2), 400 + np.arange(500)]
    answer = rng.integers(0, 2, 900)[home]
    order = rng.permutation(len(home))
    table = pd.DataFrame({"home": home[order], "age": rng.normal(size=len(home))})
    # Whoever is one of a couple is known, whoever lives alone is guessed.
    assert best_of(table, answer[order]) >= 0.8


def test_a_place_is_a_street_and_a_number():
    rng = np.random.default_rng(1)
    street, number = rng.integers(0, 30, 1500), rng.integers(0, 12, 1500)
    answer = rng.integers(0, 2, (30, 12))[street, number]
    assert best_of(pd.DataFrame({"street": street, "number": number}), answer) >= 0.95


def test_fifty_answers_are_all_guessed():
    rng = np.random.default_rng(2)
    state = rng.integers(0, 50, 2000)
    table = pd.DataFrame({"zip": 1000 * state + rng.integers(0, 1000, 2000)})
    assert best_of(table, state) >= 0.9


def test_a_look_up_leaves_the_own_answer_out():
    """Pairs with opposite answers: with the own one every value would be a tie."""
    codes = np.repeat(np.arange(300), 2)
    answer = np.tile([0, 1], 300)
    table = pd.DataFrame({"pair": codes})
    rates = cross_fitted(
        KnownColumns.of(table, hidden=set(), label=None), answer, np.random.default_rng(0)
    ).rates
    assert rates["look-up 1"] == 0.0


def test_a_look_up_is_what_counting_by_hand_gives():
    rng = np.random.default_rng(3)
    codes, answer = rng.integers(0, 40, 300), rng.integers(0, 3, 300)
    right = 0
    shares = np.bincount(answer, minlength=3) / 301
    for i in range(300):
        beside = (codes == codes[i]) & (np.arange(300) != i)
        right += (np.bincount(answer[beside], minlength=3) + shares).argmax() == answer[i]
    known = KnownColumns.of(pd.DataFrame({"c": codes}), hidden=set(), label=None)
    rates = cross_fitted(known, answer, np.random.default_rng(0)).rates
    assert rates["look-up 1"] == pytest.approx(right / 300)
