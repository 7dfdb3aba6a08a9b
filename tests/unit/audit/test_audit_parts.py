"""Canaries, scores and ready-made mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from epsilens.audit import (
    AnswerMatch,
    Centred,
    EstimatorFit,
    GaussianSum,
    Gradient,
    InnerProduct,
    LinearMMSE,
    Loss,
    Mechanism,
    PrivateRidgeFit,
    RandomisedAnswers,
    answer_pairs,
    draw_inclusion,
    mislabelled_records,
    one_hot_directions,
    own_canaries,
    random_unit_vectors,
)
from epsilens.audit.own_code import load_callable
from epsilens.errors import InputError, InputTypeError


def test_unit_vectors_have_their_length():
    canaries = random_unit_vectors(700, 30, norm=2.0, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(canaries.vectors, axis=1), 2.0, rtol=1e-6)
    assert canaries.vectors.dtype == np.float32


def test_a_data_set_has_the_base_and_those_that_are_in():
    canaries = own_canaries(np.eye(3), base=np.full((2, 3), 7.0))
    data = canaries.dataset(np.array([False, True, False]))
    assert data.tolist() == [[7.0] * 3, [7.0] * 3, [0.0, 1.0, 0.0]]
    data[:] = 0.0
    assert canaries.vectors.sum() == 3.0
    assert canaries.base[0].sum() == 42.0


def test_a_data_set_of_two_kinds_of_numbers():
    canaries = own_canaries(np.eye(3, dtype=np.float32), base=np.full((1, 3), 1e-300))
    data = canaries.dataset(np.array([True, False, True]))
    assert data.dtype == np.float64
    assert data.tolist() == [[1e-300] * 3, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_large_sums_of_other_data_do_not_hide_canaries():
    # 32-bit numbers would keep 1e9 to within 64 only.
    canaries = own_canaries(np.eye(4, dtype=np.float32), base=np.full((1, 4), 1e9))
    output = canaries.dataset(np.array([True, False, True, False])).sum(axis=0)
    assert Centred()(output, canaries).tolist() == [0.5, -0.5, 0.5, -0.5]


def test_replaced_records():
    canaries = answer_pairs(50, k=4, random_state=1)
    included = np.arange(50) < 25
    data = canaries.dataset(included)
    assert (data[:25] == canaries.records[0][:25]).all()
    assert (data[25:] == canaries.left_out[0][25:]).all()


def test_mislabelled_records_all_have_a_wrong_label():
    rng = np.random.default_rng(0)
    features, labels = np.arange(40.0)[:, None], rng.integers(0, 3, 40)
    canaries = mislabelled_records(features, labels, 15, random_state=0)
    rows = canaries.records[0][:, 0].astype(int)
    assert (canaries.records[1] != labels[rows]).all()
    assert set(rows) | set(canaries.base[0][:, 0].astype(int)) == set(range(40))


def test_coins_are_fair_and_their_number_is_not_fixed():
    counts = [int(draw_inclusion(400, seed).sum()) for seed in range(200)]
    # Binomial(400, ½): mean 200, standard deviation 10; the mean of 200 has 0.7, the sd about 0.5.
    assert abs(np.mean(counts) - 200) < 3
    assert 8 < np.std(counts) < 12


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: one_hot_directions(5, 3), "at least the number of canaries"),
        (lambda: mislabelled_records(np.eye(3), [0, 0, 0], 1), "two different values"),
        (lambda: mislabelled_records(np.eye(3), [0, 1], 1), "one entry per row"),
        (lambda: mislabelled_records(np.eye(3), [0, 1, 0], 3), "below the number of records"),
        (lambda: own_canaries((np.eye(3), np.ones(2))), "same number of rows"),
        (lambda: own_canaries(np.eye(3), base=np.eye(2)), "columns of the canaries"),
        (lambda: own_canaries(np.eye(3), left_out=np.eye(3)[:2]), "one row per canary"),
        (lambda: own_canaries(np.array(["a", None], dtype=object)), "Encode text"),
    ],
)
def test_canaries_that_cannot_be(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(("n", "d"), [(20, 50), (50, 20)])
def test_linear_estimate_solves_its_system(n, d):
    rng = np.random.default_rng(5)
    vectors, output = rng.normal(size=(n, d)), rng.normal(size=d)
    canaries = own_canaries(vectors, base=np.ones((2, d)))
    system = vectors @ vectors.T / 4 + 0.3**2 * np.eye(n)
    expected = np.linalg.solve(system, vectors @ (output - vectors.sum(axis=0) / 2 - 2.0))
    np.testing.assert_allclose(LinearMMSE(0.3)(output, canaries), expected, rtol=1e-8)


def test_linear_estimate_finds_more_than_the_inner_product():
    rng = np.random.default_rng(6)
    canaries = random_unit_vectors(300, 300, random_state=rng)
    included = draw_inclusion(300, rng)
    output = canaries.dataset(included).sum(axis=0) + rng.normal(0, 0.2, 300)
    share = {}
    for score in (InnerProduct(), Centred(), LinearMMSE(0.2), LinearMMSE()):
        values = score(output, canaries)
        share[repr(score)] = ((values > np.median(values)) == included).mean()
    inner, centred, known, unknown = share.values()
    assert inner < centred < min(known, unknown)


def test_loss_and_gradient_find_what_a_model_has_learnt():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 60))
    labels = (rng.random(40) < 0.5).astype(float)
    canaries = own_canaries((features, labels))
    inside = np.arange(40) < 20
    classifier = LogisticRegression(C=100.0).fit(*canaries.dataset(inside))
    regression = LinearRegression().fit(*canaries.dataset(inside))
    for score, output in (
        (Loss(), classifier),
        (Loss(), regression),
        (Gradient("logistic"), classifier),
        (Gradient("squared"), regression.coef_),
    ):
        values = score(output, canaries)
        assert values[inside].mean() > values[~inside].mean()


@pytest.mark.parametrize(
    ("score", "output", "canaries", "words"),
    [
        (InnerProduct(), np.zeros(2), own_canaries(np.eye(3)), "one number per dimension"),
        (Loss(), np.zeros(3), own_canaries((np.eye(3), np.ones(3))), "fitted estimator"),
        (Loss(), np.zeros(3), own_canaries(np.eye(3)), "features and labels"),
        (Gradient(), np.zeros(2), own_canaries((np.eye(3), np.ones(3))), "one coefficient per"),
        (AnswerMatch(), np.zeros(3), own_canaries(np.zeros(3)), "one report per canary"),
    ],
)
def test_scores_say_what_they_need(score, output, canaries, words):
    with pytest.raises(InputError, match=words):
        score(output, canaries)


def test_gaussian_sum_clips_and_adds_the_noise_it_promises():
    mechanism = GaussianSum(1.0, 1e-6, dimension=20_000, generator=np.random.default_rng(0))
    rows = np.zeros((2, 20_000))
    rows[0, 0], rows[1, 1] = 5.0, 0.5
    output = mechanism(rows)
    # 20,000 draws: the standard deviation is known to 0.5 %.
    assert output.std() == pytest.approx(mechanism.noise_scale, rel=0.02)
    quiet = GaussianSum(1e5, 0.1, dimension=20_000)
    np.testing.assert_allclose(quiet(rows)[:2], [1.0, 0.5], atol=6 * quiet.noise_scale)
    assert mechanism.true_epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert mechanism.true_epsilon(0.0) == math.inf


def test_randomised_answers_know_their_level_at_a_delta():
    mechanism = RandomisedAnswers(1.0, k=3)
    assert mechanism.true_epsilon(0.0) == 1.0
    at = mechanism.true_epsilon(0.01)
    keep, lie = math.e / (math.e + 2), 1 / (math.e + 2)
    assert keep - math.exp(at) * lie == pytest.approx(0.01)
    assert mechanism.true_epsilon(0.99) == 0.0


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianSum(1.0, 1e-6, dimension=30),
        RandomisedAnswers(1.0),
        EstimatorFit(LinearRegression(), np.arange(60.0)[:, None], np.arange(60) % 2),
        PrivateRidgeFit(4.0, 1e-6, n_features=30),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_ready_made_mechanisms_keep_the_protocol(mechanism):
    assert isinstance(mechanism, Mechanism)
    rng = np.random.default_rng(0)
    canaries = mechanism.canaries(20, rng)
    output = mechanism(canaries.dataset(draw_inclusion(20, rng)))
    assert mechanism.score()(output, canaries).shape == (20,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GaussianSum(math.inf, 1e-6), "must be finite"),
        (lambda: GaussianSum(1e308, 1e-6), "`epsilon` must lie between 1e-12 and 1e\\+08"),
        (lambda: GaussianSum(1.0, 0.0), "no finite epsilon at delta 0. Use for instance 1e-6"),
        (lambda: GaussianSum(1.0, math.nan), "`delta` must be a finite number"),
        (lambda: PrivateRidgeFit(1.0, 0), "no finite epsilon at delta 0. Use for instance 1e-6"),
        (lambda: RandomisedAnswers(math.inf), "must be finite"),
        (lambda: random_unit_vectors(10**9, 10**4), "must fit into memory"),
        (lambda: one_hot_directions(10**8), "must fit into memory"),
        (lambda: answer_pairs(10**13, k=2), "must fit into memory"),
        (lambda: GaussianSum(1.0, 1e-6, noise="none"), "one of 'exact'"),
        (lambda: EstimatorFit(object(), [[1.0]], [1]), "method `fit`"),
        (lambda: PrivateRidgeFit(math.inf, 1e-6), "must be finite"),
        (lambda: PrivateRidgeFit(1.0, 1e-6, n_features=5).canaries(9, None), "at most the number"),
        (lambda: load_callable("nonsense"), "MODULE:CALLABLE"),
        (lambda: load_callable("no_such_module_at_all:f"), "can be imported"),
        (lambda: load_callable("math:no_such_name"), "has no 'no_such_name'"),
        (lambda: load_callable("math:pi"), "must name a callable"),
    ],
)
def test_mechanisms_that_cannot_be(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_types_are_refused_as_types():
    with pytest.raises(InputTypeError):
        GaussianSum("1", 1e-6)
