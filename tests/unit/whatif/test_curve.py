"""The method `curve`: any model, trained again at a few ε with shared randomness."""

from __future__ import annotations

import functools
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from epsilens import WhatIf
from epsilens.document import load_document, to_json
from epsilens.errors import ApproximationWarning, InputError, InputTypeError
from epsilens.influence.any_model import settings_digest
from epsilens.influence.shared_draws import draw_spread
from epsilens.risk import AttackStudy
from epsilens.whatif.curve import interpolate, interpolation_errors

N = 300


def people(seed=0, n=N, n_test=300):
    rng = np.random.default_rng(seed)
    total = n + n_test
    X = pd.DataFrame({"a": rng.normal(size=total), "b": rng.normal(size=total)})
    X["sex"] = rng.integers(0, 2, total)
    chance = 1 / (1 + np.exp(-1.5 * X["a"] - X["sex"] + 0.5))
    y = pd.Series(np.where(rng.random(total) < chance, "yes", "no"), name="smokes")
    y = y.astype(pd.CategoricalDtype(["no", "yes"]))
    return X[:n], y[:n], X[n:], y[n:]


DATA = people()


def study_of(estimator, data=DATA):
    return WhatIf(estimator).fit(*data)


@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingClassifier(max_iter=5),
        RandomForestClassifier(5),
        ExtraTreesClassifier(5),
        MLPClassifier((3,), max_iter=5),
        KNeighborsClassifier(),
        GaussianNB(),
        CalibratedClassifierCV(LinearSVC(), cv=2),
        StackingClassifier([("tree", DecisionTreeClassifier(max_depth=2))], cv=2),
        make_pipeline(SelectKBest(k=1), RandomForestClassifier(5)),
        LogisticRegression(solver="saga", l1_ratio=1.0, max_iter=50),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_classifier_is_trained_again(estimator):
    study = study_of(estimator)
    result = study.estimate(epsilon=[0.2, 1.0, 8.0], repeats=2)
    frame = result.to_frame()
    assert set(frame["method"]) == {"curve"}
    assert np.isfinite(frame["loss_change"]).all()
    assert result.document.baseline.n_parameters is None
    # One training a seed of the true answers, and two at each ε.
    assert result.n_fits in {7, 8}
    assert result.document.number_types["loss_change"] == "estimated"
    assert load_document(to_json(result.document)) == result.document


def test_a_support_vector_machine_with_probabilities_is_trained_again():
    machine = CalibratedClassifierCV(SVC(), ensemble=False, cv=2)
    assert study_of(machine).estimate(epsilon=[1.0], repeats=2).n_fits > 0


def test_nodes_equal_training_by_hand_on_the_same_draws():
    X, y, X_test, y_test = DATA
    result = study_of(GaussianNB()).estimate(epsilon=[0.3, 2.0], random_state=5)
    truth = (y == "yes").to_numpy().astype(int)
    draws = draw_spread([2], N, 5, np.random.SeedSequence([5, 0xC0]))
    clean = log_loss(y_test, GaussianNB().fit(X, y).predict_proba(X_test))
    runs = result.draws()
    for epsilon in (0.3, 2.0):
        a = np.tanh(epsilon / 2)
        for d, draw in enumerate(draws):
            told = np.where(draw.uniforms[0] > a, draw.categories[0], truth)
            model = GaussianNB().fit(X, np.array(["no", "yes"])[told])
            by_hand = log_loss(y_test, model.predict_proba(X_test)) - clean
            row = runs[(runs["epsilon"] == epsilon) & (runs["repeat"] == d)]
            assert row["loss_change"].item() == pytest.approx(by_hand, abs=1e-12)
    cell = result.document.cells[0]
    own = runs[runs["epsilon"] == 0.3]["loss_change"]
    half = 2.131846786 * own.std(ddof=1) * np.sqrt(1.2)  # t of 4 degrees of freedom, 95 %
    assert cell.loss_change == pytest.approx(own.mean())
    assert cell.loss_change_high - cell.loss_change == pytest.approx(half)
    assert cell.number_type == "measured"


def test_cells_between_nodes_are_estimated_and_their_variance_is_not_averaged_away():
    result = study_of(GaussianNB()).estimate(epsilon="0.1:10:30", seconds=0.001)
    cells = result.document.cells
    kinds = [cell.number_type for cell in cells]
    assert kinds.count("measured") == 6
    assert kinds[0] == kinds[-1] == "measured"
    nodes = [place for place, kind in enumerate(kinds) if kind == "measured"]
    half = np.array([cell.loss_change_high - cell.loss_change for cell in cells])
    for below, above in pairwise(nodes):
        least = min(half[below], half[above])
        assert (half[below : above + 1] >= least - 1e-12).all()


def test_refinement_adds_nodes_and_stops_at_the_error_asked_for():
    study = study_of(GaussianNB())
    few = study.estimate(epsilon="0.1:10:30", seconds=0.001)
    many = study.estimate(epsilon="0.1:10:30", seconds=60, max_error=1e-9)
    assert few.n_fits < many.n_fits == 1 + 30 * 5
    assert {cell.number_type for cell in many.document.cells} == {"measured"}


def test_curve_and_exact_agree_for_a_logistic_model_with_a_frozen_transformer():
    for seed in range(3):
        data = people(seed, n=800, n_test=500)
        model = make_pipeline(
            FrozenEstimator(StandardScaler().fit(data[0])), LogisticRegression(tol=1e-8)
        )
        study = study_of(model, data)
        epsilons = [0.3, 1.0, 3.0]
        curve = study.estimate(epsilon=epsilons, method="curve", repeats=40)
        exact = study.estimate(epsilon=epsilons, method="exact")
        for one, other, runs in zip(
            curve.document.cells,
            exact.document.cells,
            [curve.draws().query("epsilon == @at")["loss_change"] for at in epsilons],
            strict=True,
        ):
            error = runs.std(ddof=1) / np.sqrt(40)
            assert abs(one.loss_change - other.loss_change) < 4 * error + 1e-4
            width = other.loss_change_high - other.loss_change_low
            assert (one.loss_change_high - one.loss_change_low) / width == pytest.approx(
                1, abs=0.45
            )


@pytest.mark.slow
def test_nine_in_ten_fresh_runs_lie_in_the_interval():
    data = people(7, n=150, n_test=200)
    study = study_of(GaussianNB(), data)
    epsilons = [0.3, 0.7, 1.5, 3.0]
    inside = []
    for seed in range(40):
        curve = study.estimate(epsilon=epsilons, random_state=1000 + seed)
        fresh = study.retrain(epsilon=epsilons, repeats=1, random_state=seed)
        for cell, run in zip(curve.document.cells, fresh.document.cells, strict=True):
            inside.append(cell.loss_change_low <= run.loss_change <= cell.loss_change_high)
    # The four cells of a curve are not independent: 40 curves count.
    error = np.sqrt(0.9 * 0.1 / 40)
    assert 0.9 - 3 * error < np.mean(inside) < 0.95 + 3 * error


def test_a_checkpoint_keeps_finished_trainings(tmp_path, monkeypatch):
    study, file = study_of(GaussianNB()), tmp_path / "kept"
    one = study.estimate(epsilon=[0.5, 2.0], checkpoint=file)
    monkeypatch.setattr(GaussianNB, "fit", lambda *_: pytest.fail("trained again"))
    other = study.estimate(epsilon=[0.5, 2.0], checkpoint=file)
    assert one.document.cells == other.document.cells
    with pytest.raises(InputError, match="another study"):
        study.estimate(epsilon=[0.5, 2.0], checkpoint=file, random_state=1)


def test_a_feature_can_be_protected_for_a_classifier_and_a_regressor():
    X, _, X_test, _ = DATA
    boosted = HistGradientBoostingClassifier(max_iter=10)
    domain = {"sex": [0, 1]}
    both = study_of(boosted).estimate(
        protect=["sex", "smokes"], epsilon=[1.0, np.inf], categories=domain
    )
    assert both.document.cells[0].record_epsilon == 2.0
    assert both.document.cells[0].loss_change > 0
    assert both.document.cells[-1].loss_change == pytest.approx(0, abs=1e-12)
    target = X["a"] + 2.0 * X["sex"]
    test_target = X_test["a"] + 2.0 * X_test["sex"]
    study = WhatIf(HistGradientBoostingRegressor(max_iter=30)).fit(X, target, X_test, test_target)
    cells = study.estimate(protect="sex", epsilon=[0.5, 4.0], categories=domain).document.cells
    assert cells[0].loss_change > cells[1].loss_change
    assert cells[0].accuracy_change is None


def test_groups_have_gaps_and_their_own_curves():
    groups = {"women": "sex == 1", "all": np.ones(N, dtype=bool)}
    result = study_of(GaussianNB()).estimate(epsilon=[0.5], groups=groups)
    women, everybody = result.document.cells
    assert (women.group, everybody.group) == ("women", "all")
    assert women.loss_gap_change is not None
    assert everybody.loss_gap_change is None
    assert result.n_fits == 1 + 2 * 5


def test_groups_at_their_own_epsilon_are_randomised_at_once():
    women = (DATA[0]["sex"] == 1).to_numpy()
    groups = {"women": women, "men": ~women}
    study = study_of(GaussianNB())
    question = {"groups": groups, "together": True}
    (cell,) = study.estimate(
        epsilon={"women": 0.5, "men": 40.0}, repeats=40, **question
    ).document.cells
    alone = study.estimate(epsilon=[0.5], groups={"women": women}, repeats=40).document.cells[0]
    assert cell.group_epsilons == {"women": 0.5, "men": 40.0}
    assert cell.loss_change == pytest.approx(alone.loss_change, abs=0.01)
    truth = study.retrain(epsilon={"women": 0.5, "men": 1.0}, repeats=60, **question)
    (mixed,) = study.estimate(
        epsilon={"women": 0.5, "men": 1.0}, repeats=40, **question
    ).document.cells
    error = np.std(truth.loss_draws[0]) * np.sqrt(1 / 60 + 1 / 40)
    assert abs(mixed.loss_change - truth.document.cells[0].loss_change) < 4 * error


class Stubborn(ClassifierMixin, BaseEstimator):
    """Takes classes 0 and 1 only, as XGBoost does."""

    def fit(self, X, y):
        if set(np.unique(y)) - {0, 1}:
            raise ValueError("SECRET-7")
        self.classes_, self.share_ = np.array([0, 1]), float(np.mean(y))
        return self

    def predict_proba(self, X):
        return np.tile([1 - self.share_, self.share_], (len(X), 1))

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


class Restless(Stubborn):
    """Draws random numbers that no seed fixes."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.share_ = np.random.default_rng().random()
        return self


class NotCloned(Stubborn):
    def __init__(self, a=1):
        self.a = [a]


class Failing(Stubborn):
    def fit(self, X, y):
        raise ValueError("the value SECRET-7 is bad")


def test_an_estimator_that_wants_numbers_gets_the_numbers_of_the_classes():
    study = study_of(Stubborn())
    assert study.baseline_.takes_codes
    assert study.estimate(epsilon=[1.0], repeats=2).document.cells[0].loss_change is not None


class Gapless(ClassifierMixin, BaseEstimator):
    """Takes the classes 0, 1, … without a gap, as XGBoost does, and predicts their shares."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if self.classes_.tolist() != list(range(len(self.classes_))):
            raise ValueError("SECRET-7")
        self.shares_ = np.bincount(y) / len(y)
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (len(X), 1))


def test_a_class_of_which_no_record_is_left_has_probability_zero():
    y = np.array(["a", "b", "c"] * 100)
    X = np.zeros((300, 1))
    model = WhatIf(Gapless()).fit(X, y, X, y).baseline_
    assert model.takes_codes
    trained = model.train(np.array([0, 2] * 150), seed=0)
    assert model.predict(trained)[0].tolist() == [0.5, 0.0, 0.5]


class ThreeColumns(Stubborn):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


class Short(ThreeColumns):
    def predict_proba(self, X):
        return np.full((3, 2), 0.5)


class Certain(ThreeColumns):
    def predict_proba(self, X):
        return np.ones((len(X), 2))


class Negative(ThreeColumns):
    def predict_proba(self, X):
        return np.tile([3.0, -2.0], (len(X), 1))


class Renamed(Restless):
    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = np.array(["SECRET-7", "SECRET-8"])
        return self


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (
            ThreeColumns(),
            "ThreeColumns must predict one probability for each class a record, got 3",
        ),
        (Short(), "Short must predict as many records as it is given, 300, got 3"),
        (Certain(), "the probabilities of Certain must lie between 0 and 1 and add up to 1"),
        (Negative(), "the probabilities of Negative must lie between 0 and 1 and add up to 1"),
        (Renamed(), "the `classes_` of Renamed must be those of the labels"),
    ],
)
def test_predictions_that_do_not_fit_the_classes_are_refused_in_one_line(estimator, words):
    with pytest.raises(InputError, match=words) as caught:
        study_of(estimator)
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_a_sparse_table_says_the_same_as_a_dense_one(form):
    X, y, X_test, y_test = DATA
    dense, dense_test = X.to_numpy(float), X_test.to_numpy(float)
    asked = {"epsilon": [0.5, 2.0], "repeats": 2}
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    one = WhatIf(tree).fit(dense, y, dense_test, y_test).estimate(**asked)
    other = WhatIf(tree).fit(form(dense), y, form(dense_test), y_test).estimate(**asked)
    assert one.document.cells == other.document.cells


def test_a_constant_weight_of_a_linear_model_counts_beside_its_penalty():
    X, y, X_test, y_test = DATA
    linear = LogisticRegression(C=0.01, tol=1e-10, max_iter=1000)
    study = WhatIf(linear).fit(X, y, X_test, y_test, sample_weight=np.full(N, 5.0))
    model = study._whole_model()
    by_hand = linear.fit(X, y, sample_weight=np.full(N, 5.0)).predict_proba(X_test)
    assert model.predicted == pytest.approx(by_hand, abs=1e-6)
    assert model.outcomes.loss == pytest.approx(study.baseline_.outcomes.loss, abs=1e-6)


def test_a_checkpoint_of_other_settings_is_not_taken(tmp_path):
    kept = tmp_path / "kept.jsonl"
    asked = {"epsilon": [1.0], "repeats": 2, "checkpoint": kept}
    prior = np.full(2, 0.5)
    study_of(GaussianNB(priors=prior)).estimate(**asked)
    # The baseline is the same, the settings are not.
    with pytest.raises(InputError, match="checkpoint"):
        study_of(GaussianNB(priors=prior, var_smoothing=1.001e-9)).estimate(**asked)


def own(x, power=1):
    return x


def test_a_digest_of_settings_sees_every_value_and_no_address():
    long = np.zeros(5000)
    changed = long.copy()
    changed[2500] = 1.0
    assert settings_digest(GaussianNB(priors=long)) != settings_digest(GaussianNB(priors=changed))
    plain = [settings_digest(FunctionTransformer(kw_args={"a": one})) for one in (1, 2)]
    assert plain[0] != plain[1]


ELSEWHERE = """
import functools, sys
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from epsilens.influence.any_model import settings_digest
def own(x, power=1): return x
own.__module__ = sys.argv[1]
steps = [own, functools.partial(own, power=2), object()]
forest = RandomForestClassifier(random_state=np.random.RandomState(0))
for step in steps: print(settings_digest(make_pipeline(FunctionTransformer(step), forest)))
"""


def test_a_digest_of_settings_is_the_same_in_another_process():
    words = [sys.executable, "-c", ELSEWHERE, own.__module__]
    there = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    here = [
        settings_digest(
            make_pipeline(
                FunctionTransformer(step),
                RandomForestClassifier(random_state=np.random.RandomState(0)),
            )
        )
        for step in (own, functools.partial(own, power=2), object())
    ]
    assert there == here
    assert len(set(here)) == 3


@pytest.mark.parametrize("change", ["feature", "test", "weights"])
def test_a_checkpoint_of_other_records_is_not_taken(tmp_path, change):
    X, y, X_test, y_test = DATA
    kept = tmp_path / "kept.jsonl"
    asked = {"epsilon": [1.0], "repeats": 2, "checkpoint": kept}
    stump = DecisionTreeClassifier(max_depth=1, random_state=0)
    WhatIf(stump).fit(X, y, X_test, y_test).estimate(**asked)
    # The stump splits on another column, so the loss of the true answers is the same.
    X, X_test, weight = X.copy(), X_test.copy(), None
    if change == "feature":
        X["b"] = X["b"] * 2
    elif change == "test":
        X_test["b"] = X_test["b"] * 2
    else:
        weight = np.full(N, 2.0)
    with pytest.raises(InputError, match="belongs to another study"):
        WhatIf(stump).fit(X, y, X_test, y_test, sample_weight=weight).estimate(**asked)


def test_a_checkpoint_of_other_categories_is_not_taken(tmp_path):
    study = study_of(GaussianNB())
    asked = {"protect": ["sex"], "epsilon": [1.0], "repeats": 2, "checkpoint": tmp_path / "kept"}
    study.estimate(categories={"sex": [0, 1, 9]}, **asked)
    with pytest.raises(InputError, match="belongs to another study"):
        study.estimate(categories={"sex": [0, 1, -1]}, **asked)


def test_a_file_that_is_no_checkpoint_keeps_its_permissions(tmp_path):
    other = tmp_path / "table.csv"
    other.write_text("a,b\n1,2\n")
    other.chmod(0o644)
    with pytest.raises(InputError, match="left alone"):
        study_of(GaussianNB()).estimate(epsilon=[1.0], checkpoint=other)
    assert other.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "wrap",
    [
        FrozenEstimator,
        lambda tree: CalibratedClassifierCV(FrozenEstimator(tree)),
        lambda tree: StackingClassifier([("known", FrozenEstimator(tree))], cv="prefit"),
        lambda tree: VotingClassifier([("known", FrozenEstimator(tree))], voting="soft"),
        lambda tree: make_pipeline(
            SelectFromModel(FrozenEstimator(tree), prefit=True), GaussianNB()
        ),
        lambda tree: make_pipeline(FunctionTransformer(tree.predict_proba), GaussianNB()),
        lambda tree: make_pipeline(
            FunctionTransformer(functools.partial(tree.predict_proba)), LogisticRegression()
        ),
        lambda tree: make_pipeline(
            FrozenEstimator(SelectKBest(k=1).fit(DATA[0], DATA[1])), GaussianNB()
        ),
        lambda tree: make_pipeline(
            FrozenEstimator(VotingClassifier([("known", tree)]).fit(DATA[0], DATA[1])),
            LogisticRegression(),
        ),
    ],
)
def test_what_has_learnt_from_the_label_and_is_kept_is_refused(wrap):
    tree = DecisionTreeClassifier().fit(DATA[0], DATA[1])
    with pytest.raises(InputError, match=r"(has learnt from|looks at) the label") as caught:
        study_of(wrap(tree))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"(has learnt from|looks at) the label"):
        AttackStudy(wrap(tree)).fit(*DATA)


class Itself(Stubborn):
    def __sklearn_clone__(self):
        return self


def test_a_model_whose_copy_is_itself_is_refused():
    with pytest.raises(InputError, match="Itself is kept as it is"):
        study_of(Itself())


def test_a_frozen_step_without_the_label_is_welcome():
    scaler = FrozenEstimator(StandardScaler().fit(DATA[0]))
    assert study_of(make_pipeline(scaler, GaussianNB())).baseline_.n_rows == N


def test_errors_of_other_libraries_do_not_travel_along():
    with pytest.raises(InputError) as caught:
        study_of(Failing())
    found = caught.value
    while found is not None:
        assert "SECRET" not in str(found)
        found = found.__context__


class Talking(Stubborn):
    def fit(self, X, y):
        print("SECRET-7")
        print("SECRET-8", file=sys.stderr)
        return super().fit(X, y == "yes" if y.dtype == object else y)


def test_what_a_model_prints_is_kept_back_and_nothing_else(capsys):
    study = study_of(Talking())
    study.estimate(epsilon=[1.0], repeats=2, progress=lambda *told: print("told"))
    out, err = capsys.readouterr()
    assert "SECRET" not in out + err
    assert "told" in out
    print("after")
    assert capsys.readouterr().out == "after\n"


class Leaving(Stubborn):
    def fit(self, X, y):
        raise SystemExit("SECRET-7")


def test_a_model_that_ends_the_program_is_refused():
    with pytest.raises(InputError, match=r"could not train Leaving \(SystemExit"):
        study_of(Leaving())


def test_one_column_at_infinity_leaves_the_other_randomised():
    study = study_of(DecisionTreeClassifier(max_depth=3, random_state=0))
    asked = {"protect": ["sex", "smokes"], "categories": {"sex": [0, 1]}}
    one, other, none = (
        study.estimate(**asked, epsilon={"sex": sex, "smokes": smokes}).document.cells[0]
        for sex, smokes in ((0.3, np.inf), (0.3, 60.0), (np.inf, np.inf))
    )
    assert one.loss_change == pytest.approx(other.loss_change, abs=1e-12)
    assert one.loss_change != 0.0
    assert none.loss_change == 0.0


@pytest.mark.slow
def test_the_error_of_the_true_answers_model_is_part_of_the_interval():
    """One tree whose splits are drawn: its loss on the true answers varies more than what ε changes."""
    data = people(3, n=150, n_test=200)
    study = study_of(ExtraTreeClassifier(max_depth=4, min_samples_leaf=8), data)
    asked = {"epsilon": [0.5, 2.0]}
    truth = study.retrain(epsilon=[0.5, 2.0, np.inf], repeats=150)
    # The last ε changes nothing: seeds alone.
    assert abs(truth.document.cells[-1].loss_change) < 0.06
    inside = []
    for seed in range(50):
        curve = study.estimate(**asked, random_state=seed).document.cells
        for e, cell in enumerate(curve):
            run = truth.loss_draws[e][seed]
            inside.append(cell.loss_change_low <= run <= cell.loss_change_high)
    assert np.mean(inside) > 0.9 - 3 * np.sqrt(0.09 / 50)


def test_a_checkpoint_of_groups_at_their_own_epsilon_names_none(tmp_path):
    kept = tmp_path / "kept.jsonl"
    study_of(GaussianNB()).estimate(
        epsilon={"SECRET-7": 1.0, "others": 2.0},
        groups={"SECRET-7": "sex == 1", "others": "sex == 0"},
        together=True,
        repeats=2,
        checkpoint=kept,
    )
    assert "SECRET" not in kept.read_text()


class Copying(Stubborn):
    """Copies its list, as CatBoost does."""

    def __init__(self, columns=None):
        self.columns = None if columns is None else list(columns)


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: make_pipeline("passthrough", one)])
def test_a_model_that_copies_its_lists_is_copied(wrap):
    study = study_of(wrap(Copying(["a"])))
    copy = study.baseline_.estimator
    assert getattr(copy, "steps", [(0, copy)])[-1][1].columns == ["a"]
    assert study.estimate(epsilon=[1.0], repeats=2).n_fits == 3


def test_a_model_that_is_not_deterministic_is_said_to_be():
    with pytest.warns(ApproximationWarning, match="Restless is not deterministic"):
        study = study_of(Restless())
    assert "not-deterministic" in {note.code for note in study.baseline_.notes}


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LinearSVC(), r"predict_proba, got LinearSVC\. Write CalibratedClassifierCV"),
        (KMeans(2), "a classifier or a regressor, got KMeans"),
        (NotCloned(), "sklearn.base.clone can copy, got NotCloned"),
        (RandomForestClassifier, r"the class RandomForestClassifier\. Call it"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(estimator, words):
    with pytest.raises(InputTypeError, match=words) as caught:
        study_of(estimator)
    assert "\n" not in str(caught.value)


def test_words_of_other_libraries_are_withheld():
    with pytest.raises(InputError, match="could not train Failing") as caught:
        study_of(Failing())
    assert "SECRET-7" not in str(caught.value)


def test_what_needs_a_linear_model_is_refused_with_the_reason():
    study = study_of(GaussianNB())
    for method in ("exact", "newton", "influence", "paper"):
        with pytest.raises(InputError, match=r"needs a linear model.*method='curve'"):
            study.estimate(epsilon=1.0, method=method)
    with pytest.raises(InputError, match="needs a linear model"):
        study.point_table()
    with pytest.raises(InputError, match="needs a logistic model"):
        study.estimate(epsilon=1.0, correction="forward")
    with pytest.raises(InputError, match="reports bits"):
        study.estimate(protect="sex", epsilon=1.0, mechanism="oue", categories={"sex": [0, 1]})
    with pytest.raises(InputError, match="KNeighborsClassifier takes no weights"):
        WhatIf(KNeighborsClassifier()).fit(*DATA, np.ones(N))


def test_few_draws_state_no_interval():
    result = study_of(GaussianNB()).estimate(epsilon=[1.0], repeats=4)
    assert result.document.cells[0].loss_change_low is None
    assert "no-intervals" in {note.code for note in result.document.notes}
    assert result.choose(max_loss_increase=10.0).epsilon is None


def test_probabilities_of_zero_are_noted():
    study = study_of(DecisionTreeClassifier())
    assert "zero-probabilities" in {note.code for note in study.baseline_.notes}
    assert np.isfinite(study.baseline_.outcomes.loss)


def test_a_seed_that_the_user_fixed_stays():
    study = study_of(RandomForestClassifier(5, random_state=3))
    assert not study.baseline_.has_own_randomness
    result = study.estimate(epsilon=[np.inf])
    assert result.document.cells[0].loss_change_high == pytest.approx(0, abs=1e-12)
    free = study_of(RandomForestClassifier(5)).estimate(epsilon=[np.inf])
    assert free.document.cells[0].loss_change_high > 1e-3


def test_weights_reach_the_last_step_of_a_pipeline():
    weights = np.linspace(0.1, 3.0, N)
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2, random_state=0))
    study = WhatIf(model).fit(*DATA, weights)
    X, y, X_test, y_test = DATA
    by_hand = model.fit(X, y, decisiontreeclassifier__sample_weight=weights)
    loss = log_loss(y_test, by_hand.predict_proba(X_test))
    assert study.baseline_.outcomes.loss == pytest.approx(loss, abs=1e-9)


def test_errors_of_interpolation_are_those_that_were_seen():
    x = np.arange(9.0)
    runs = {e: np.array([[float(e)], [float(e)]]) for e in (0, 4, 8)}
    assert interpolation_errors(x, runs, {}) == [0.0] * 9
    runs[4] = np.array([[6.0], [6.0]])
    found = interpolation_errors(x, runs, {4: 2.0})
    assert found[4] == 0.0
    assert found[2] == found[6] == 0.5
    assert interpolate(x, {0: np.nan, 8: 1.0}).shape == (9,)
