from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from epsilens.errors import InputError, MissingExtraError, PrivacyLeakWarning
from epsilens.masking import FeatureMasker, explain_task
from epsilens.masking.importances import _is_linear
from epsilens.masking.records import random_halves

NAMES = ["gait", "speed", "noise", "voice", "pulse"]


@pytest.mark.parametrize("explainer", ["shap", "lime"])
def test_planted_features_are_told_apart(planted, explainer):
    """Identity and task rest on different features: the first go, the second stay."""
    X = planted.X[NAMES]
    masker = FeatureMasker(explainer=explainer, max_rows=90).fit(X, planted.y, identity=planted.who)
    # What does neither may go by chance: it serves nothing.
    assert masker.kept_[[0, 1, 3, 4]].tolist() == [False, True, False, True]
    assert masker.utility_kept_ == 1.0
    assert masker.privacy_kept_ < 0.1
    masked = masker.transform(X)
    assert (masked[:, ~masker.kept_] == 0).all()
    assert (masked[:, masker.kept_] == X.to_numpy()[:, masker.kept_]).all()


def test_what_only_one_person_has_identifies():
    """One of forty has a scar: over everybody that is within the noise, and it names them."""
    rng = np.random.default_rng(0)
    who, y = np.repeat(np.arange(40), 16), rng.integers(0, 2, 640)
    X = np.column_stack(
        [who % 8 + 0.3 * rng.normal(size=640), 2 * y + rng.normal(size=640), who == 7]
    )
    masker = FeatureMasker().fit(X, y, identity=who)
    assert masker.privacy_[2] > 0.1
    assert masker.kept_.tolist() == [False, True, False]


def test_shap_of_a_linear_model_is_its_formula(planted):
    X = planted.X[NAMES].to_numpy()
    model = LogisticRegression().fit(X, planted.y)
    found = explain_task(model, X, planted.y, standard_errors=0)
    codes = np.searchsorted(model.classes_, planted.y)
    values = model.coef_[codes] * (X - X.mean(axis=0))
    for code in range(3):
        expected = np.maximum(values[codes == code].mean(axis=0), 0)
        assert found.by_class[code] == pytest.approx(expected, abs=1e-9)
    assert found.n_explained == len(X)


def test_coefficients_are_believed_only_where_they_make_the_scores(planted):
    """A support vector machine has a row for each pair of classes: of three there are three."""
    X = planted.X[NAMES].to_numpy()[:200]
    machine = SVC(kernel="linear").fit(X, planted.y[:200])
    assert machine.coef_.shape == (3, 5)
    assert not _is_linear(machine, X)
    assert _is_linear(LogisticRegression().fit(X, planted.y[:200]), X)
    two = planted.y[:200] == "runs"
    assert _is_linear(LogisticRegression().fit(X, two), X)


def test_halves_are_random_and_have_everybody():
    """Records come before and after in turn: a split by position would part the two."""
    who, y = np.repeat(np.arange(30), 4), np.tile([0, 1], 60)
    first, second = random_halves(who, y, seed=0)
    assert sorted([*first, *second]) == list(range(120))
    for half in (first, second):
        assert np.bincount(who[half]).tolist() == [2] * 30
        assert np.bincount(y[half]).tolist() == [30, 30]
    assert (random_halves(who, y, seed=1)[0] != first).any()
    one, other = random_halves(np.repeat(np.arange(50), 2), np.tile([0, 1], 50), seed=0)
    assert 0 < (one % 2).sum() < 50
    assert (one // 2 == other // 2).all()


@pytest.mark.slow  # at night numba compiles what SHAP needs for it
def test_a_model_that_is_not_linear_is_explained_by_permutations(planted):
    X, half = planted.X[["gait", "speed"]].to_numpy(), 600
    forest = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X[:half], planted.y[:half])
    told = []
    found = explain_task(
        forest,
        X[half:],
        planted.y[half:],
        max_rows=12,
        progress=lambda done, total, what: told.append((done, total, what)),
    )
    assert found.overall[1] > 10 * found.overall[0]
    assert told[0] == (0, 12, "explaining the task")
    assert told[-1][:2] == (12, 12)


def test_records_are_drawn_from_every_class():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(400) < 8, "rare", "common")
    X = rng.normal(size=(400, 2)) + 3 * (y == "rare")[:, None]
    found = explain_task(LogisticRegression().fit(X, y), X, y, max_rows=16)
    assert found.shares.tolist() == [0.98, 0.02]
    assert (found.by_class[1] > 0).all()


def test_scopes_and_replacements(planted):
    X = planted.X[NAMES]
    masker = FeatureMasker(scope="identity", alpha=0.5, standard_errors=0, replacement="drop")
    # People may be of any type: names of some, numbers of others.
    who = np.array([f"p{k}" if k else 0.5 for k in planted.who], dtype=object)
    with pytest.warns(PrivacyLeakWarning, match="tells whose record it is"):
        masker.fit(X, planted.y, identity=who)
    with pytest.warns(PrivacyLeakWarning, match="tells whose record it is"):
        published = masker.transform_published(X, identity=who)
    for mask, person in zip(masker.person_masks_, masker.people_, strict=True):
        rows = published[who == person]
        assert (rows[:, ~mask] == 0).all()
        assert (rows[:, mask] != 0).all()
    assert list(masker.get_feature_names_out()) == [
        name for name, kept in zip(NAMES, masker.kept_, strict=True) if kept
    ]
    assert masker.transform(X).shape[1] == masker.kept_.sum()
    with pytest.raises(InputError, match="of whom 1200 are unknown"):
        masker.transform_published(X, identity=planted.who + 100)
    masker.set_params(scope="global").fit(X, planted.y, identity=planted.who + 0.5)
    with pytest.raises(InputError, match='need scope="identity"'):
        masker.transform_published(X, identity=who)
    with pytest.raises(InputError, match="must be chosen by `knapsack`, got 'random'"):
        masker.set_params(scope="identity", method="random").fit(X, planted.y, identity=who)


def test_without_an_identity_the_least_useful_go(planted):
    masker = FeatureMasker(alpha=0.6).fit(planted.X[NAMES], planted.y)
    assert masker.kept_.tolist() == [False, True, False, False, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": None}, "contains NaN"),
        ({"y": np.zeros(1200)}, "at least two different answers, got one class"),
        ({"identity": np.zeros(1200)}, "`identity` must have at least two different values"),
        ({"identity": np.arange(1200)}, "every record has a value of its own"),
        ({"identity": [1, 2]}, "one value for each of the 1200 records, got 2"),
        ({"alpha": -0.1}, "`alpha` must lie from 0 to 1"),
        ({"explainer": "guess"}, "`explainer` must be one of 'shap', 'lime'"),
        ({"replacement": "mean"}, "`replacement` must be one of"),
    ],
)
def test_bad_input_is_refused_in_one_line(planted, changes, words):
    X, y, identity = planted.X[NAMES], changes.pop("y", planted.y), planted.who
    identity = changes.pop("identity", identity)
    if "X" in changes:
        X = X.where(X["gait"] > 0)
        changes.pop("X")
    with pytest.raises(InputError, match=words) as caught:
        FeatureMasker(**changes).fit(X, y, identity=identity)
    assert "\n" not in str(caught.value)


def test_the_label_is_no_identity(planted):
    with pytest.raises(InputError, match="something else than the label"):
        FeatureMasker().fit(planted.X[NAMES], planted.y, identity=planted.y)


def test_a_constant_feature_is_kept_for_it_tells_nothing(planted):
    X = planted.X[["gait", "speed"]].assign(always=1.0)
    for explainer in ("shap", "lime"):
        masker = FeatureMasker(explainer=explainer, max_rows=30).fit(
            X, planted.y, identity=planted.who
        )
        assert masker.kept_.tolist() == [False, True, True]


@pytest.mark.parametrize("explainer", ["shap", "lime"])
def test_a_missing_extra_says_the_command(planted, explainer, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == explainer]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, explainer, None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[explain\]"'):
        FeatureMasker(explainer=explainer).fit(planted.X[NAMES], planted.y, identity=planted.who)
