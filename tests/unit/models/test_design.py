from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from epsilens.errors import InputError
from epsilens.models import Design
from epsilens.models.design import empty_directions, independent_columns


@pytest.fixture
def features():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 6)) * np.array([1, 1e4, 1e-3, 1, 5, 1])
    X[rng.random(X.shape) < 0.6] = 0.0
    return X


@pytest.fixture(params=["dense", "sparse"])
def design(request, features):
    given = features if request.param == "dense" else scipy.sparse.csr_array(features)
    return Design.from_features(given)


def original(design, features):
    """The features, centred and scaled as the design says, with the intercept."""
    return (np.column_stack([features, np.ones(len(features))]) - design.offset) / design.scale


def test_columns_are_centred_where_dense_scaled_and_the_intercept_is_last(design, features):
    matrix = design.block(slice(None))
    np.testing.assert_allclose(np.sqrt(np.mean(matrix**2, axis=0)), 1.0)
    np.testing.assert_allclose(matrix, original(design, features), atol=1e-12)
    np.testing.assert_array_equal(matrix[:, -1], 1.0)
    mean = 0.0 if design.is_sparse else features.mean(axis=0)
    np.testing.assert_allclose(design.offset[:-1], mean, rtol=1e-9, atol=1e-12)


def test_products_equal_the_plain_ones(design, features):
    rng = np.random.default_rng(2)
    matrix = original(design, features)
    theta, rows, weights = rng.normal(size=(7, 3)), rng.normal(size=(700, 2)), rng.normal(size=700)
    middle = rng.normal(size=(7, 7))
    np.testing.assert_allclose(design.predict(theta)[:, 0], matrix @ theta, atol=1e-12)
    np.testing.assert_allclose(design.pull(rows[:, None, :]), matrix.T @ rows, atol=1e-10)
    for given in (weights, np.abs(weights)):
        gram = matrix.T @ (given[:, None] * matrix)
        np.testing.assert_allclose(design.gram(given), gram, atol=1e-10)
    quadratic = np.array([x @ middle @ x for x in matrix])
    np.testing.assert_allclose(
        design.quadratic(middle + middle.T)[:, 0, 0], 2 * quadratic, atol=1e-9
    )


def test_products_for_several_outputs_equal_the_kronecker_ones(design, features):
    rng = np.random.default_rng(5)
    matrix = original(design, features)
    K = 3
    wide = np.stack([np.kron(np.eye(K), x[None, :]) for x in matrix])  # (n, K, K·p)
    theta, rows = rng.normal(size=(K * 7, 2)), rng.normal(size=(700, K, 2))
    half = rng.normal(size=(700, K, K))
    weights = np.einsum("nkl,nml->nkm", half, half)
    M = rng.normal(size=(K * 7, K * 7))
    M = M + M.T
    np.testing.assert_allclose(
        design.predict(theta), np.einsum("nkq,qb->nkb", wide, theta), atol=1e-12
    )
    np.testing.assert_allclose(design.pull(rows), np.einsum("nkq,nkb->qb", wide, rows), atol=1e-10)
    expected = np.einsum("nkq,nkl,nlr->qr", wide, weights, wide, optimize=True)
    np.testing.assert_allclose(design.gram(weights), expected, atol=1e-8)
    expected = np.einsum("nkq,qr,nlr->nkl", wide, M, wide, optimize=True)
    np.testing.assert_allclose(design.quadratic(M), expected, atol=1e-9)


def test_a_wide_sparse_matrix_stays_sparse():
    rng = np.random.default_rng(3)
    wide = scipy.sparse.random(300, 1200, density=0.01, random_state=rng, format="csr")
    design = Design.from_features(wide, intercept=None)
    assert design.is_sparse
    weights = rng.random(300)
    dense = design.block(slice(None))
    np.testing.assert_allclose(
        design.gram(weights), dense.T @ (weights[:, None] * dense), atol=1e-9
    )


def test_test_rows_take_columns_offset_and_scale_from_the_training_rows(features):
    training = Design.from_features(features[:500])
    kept = np.array([0, 2, 6])
    testing = Design.from_features(features[500:], like=training.keep_columns(kept))
    expected = original(training, features[500:])[:, kept]
    np.testing.assert_allclose(testing.matrix, expected, atol=1e-12)


def test_dependent_columns_and_empty_directions_are_found(features):
    twice = np.column_stack([features, features[:, 0] + features[:, 4]])
    design = Design.from_features(twice, intercept=None)
    gram = design.gram(np.ones(700)) / 700
    kept = independent_columns(gram)
    assert len(kept) == 6
    assert np.linalg.matrix_rank(design.keep_columns(kept).matrix) == 6
    empty = empty_directions(gram, design.scale)
    assert empty.shape == (7, 1)
    # In the features' own units, column 0 + column 4 − the last is nothing.
    expected = np.array([1, 0, 0, 0, 1, 0, -1]) / np.sqrt(3)
    np.testing.assert_allclose(np.abs(empty[:, 0]), np.abs(expected), atol=1e-7)
    independent = Design.from_features(features)
    assert independent_columns(independent.gram(np.ones(700)) / 700) is None


def test_constant_huge_and_empty_columns_do_not_break_the_scale():
    X = np.column_stack(
        [np.zeros(4), np.full(4, 0.1), np.array([1e200, -1e200, 3e200, 0.0]), 1.7e9 + np.arange(4)]
    )
    design = Design.from_features(X)
    assert np.isfinite(design.matrix).all()
    np.testing.assert_array_equal(design.matrix[:, :2], 0.0)
    np.testing.assert_array_equal(design.scale[:2], 1.0)
    np.testing.assert_allclose(design.matrix[:, 3].std(), 1.0, rtol=1e-6)


def test_a_penalty_joins_the_scale():
    X = np.array([[1e-7], [-1e-7]])
    design = Design.from_features(X, ridge=0.01)
    np.testing.assert_allclose(design.scale[0], 0.1, rtol=1e-9)
    # A penalised intercept has a penalty to be scaled with too, and nothing is centred.
    design = Design.from_features(X + 5, intercept=3.0, is_free=False, ridge=16.0)
    np.testing.assert_allclose(design.scale[1], 5.0)
    np.testing.assert_array_equal(design.offset, 0.0)


def test_rows_that_lie_too_far_out_are_refused(design, features):
    assert design.refuse_far(what="test") is design
    far = features[:3].copy()
    far[1, 2] = 1e200
    given = far if isinstance(design.matrix, np.ndarray) else scipy.sparse.csr_array(far)
    other = Design.from_features(given, like=design)
    with pytest.raises(InputError, match="the test data must hold numbers like those"):
        other.refuse_far(what="test")
