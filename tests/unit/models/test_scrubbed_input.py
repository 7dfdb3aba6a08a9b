"""No value of the data in a message, whatever is wrong with it."""

from __future__ import annotations

import traceback

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from epsilens.errors import InputError, InputTypeError
from epsilens.ridge import PrivateRidge, what_if_rho

# Several fits on the same records are meant here.
pytestmark = pytest.mark.filterwarnings("ignore:PrivateRidge. these records have been used")
SECRET = 7331.25
MODEL = {"rho": 1.0, "x_bound": 1.0, "y_bound": 1.0, "coef_bound": 1.0, "alpha": 1.0}
GOOD = np.array([[SECRET], [1.0], [2.0]])
TARGET = np.array([SECRET, 0.0, 1.0])


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([["HIV+"], ["no"], ["no"]], TARGET, "tables of numbers, got text"),
        (GOOD, ["HIV+", "no", "no"], "tables of numbers, got text"),
        (pd.DataFrame({"status": ["HIV+", "a", "b"]}), TARGET, "tables of numbers"),
        ([SECRET, 1.0, 2.0], TARGET, "Expected 2D array, got 1D array instead. Reshape"),
        (np.array([[SECRET], [np.nan], [1.0]]), TARGET, "contains NaN"),
        (np.array([[SECRET], [np.inf], [1.0]]), TARGET, "contains infinity"),
        (GOOD, [SECRET, np.nan, 1.0], "contains NaN"),
        (GOOD, [SECRET, 1.0], "inconsistent numbers of samples"),
        (GOOD, None, "requires y to be passed"),
        (scipy.sparse.csr_matrix(GOOD), TARGET, "Sparse data was passed"),
        (GOOD * 1j, TARGET, "Complex data not supported"),
        (GOOD + 0.1j, TARGET, "must be real numbers"),
        (GOOD, TARGET + 0.1j, "must be real numbers"),
        (np.array([[10**400], [1], [SECRET]], dtype=object), TARGET, "range of double precision"),
        (GOOD, np.array([10**400, 1, SECRET], dtype=object), "range of double precision"),
        (np.full((2, 2, 2), SECRET), TARGET[:2], "Found array with dim 3, while dim 2"),
        (pd.DataFrame({"a": [1.0, 2.0, 3.0], 7331: [1.0, 2.0, 3.0]}), TARGET, "column names of X"),
        (np.array([[{"diagnosis": "HIV+"}], [1], [2]], dtype=object), TARGET, "string or a number"),
        (GOOD, np.column_stack([TARGET, TARGET]), "y should be a 1d array"),
        (np.empty((0, 1)), np.empty(0), "0 sample"),
    ],
)
def test_messages_carry_no_value(X, y, words):
    with pytest.raises(InputError, match=words) as raised:
        PrivateRidge(**MODEL).fit(X, y)
    shown = "".join(traceback.format_exception(raised.value))
    assert "HIV+" not in shown
    assert "7331" not in shown.replace("SECRET", "")
    assert "\n" not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.mark.parametrize("which", range(4))
def test_the_what_if_carries_no_value_either(which):
    tables = [GOOD, TARGET, GOOD, TARGET]
    tables[which] = tables[which] + 0.1j
    with pytest.raises(InputError, match="must be real numbers") as raised:
        what_if_rho(PrivateRidge(**MODEL), *tables)
    assert "7331" not in str(raised.value)


def test_the_largest_numbers_of_both_signs_are_taken_without_a_warning():
    X = np.array([[1.7e308] * 8, [-1.7e308] * 8] * 8)
    assert PrivateRidge(**MODEL).fit(X, X[:, 0]).n_features_in_ == 8


def test_a_sentence_that_is_not_known_is_not_passed_on():
    class Spiteful:
        def __array__(self, dtype=None, copy=None):
            raise ValueError(f"Input X contains NaN and {SECRET}")

    with pytest.raises(InputError) as raised:
        PrivateRidge(**MODEL).fit(Spiteful(), TARGET)
    assert "7331" not in str(raised.value)


def test_another_table_at_prediction_is_refused_by_its_columns():
    X = pd.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]})
    model = PrivateRidge(**MODEL).fit(X, [0.0, 1.0])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(InputError, match="feature names should match"):
        model.predict(X.rename(columns={"b": "c"}))
    model.fit(X.to_numpy(), [0.0, 1.0])
    with pytest.raises(InputError, match="X has 1 features, but PrivateRidge is expecting 2"):
        model.predict(X[["a"]].to_numpy())


def test_a_wrong_kind_is_a_type_error_too():
    with pytest.raises(TypeError):
        PrivateRidge(**MODEL).fit(np.array([[{}], [1], [2]], dtype=object), TARGET)
    assert issubclass(InputTypeError, InputError)
