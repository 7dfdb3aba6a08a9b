# SPDX-License-Identifier: Apache-2.0
"""Every classifier and regressor of scikit-learn works in a what-if study, or is refused in one clear line.

The list in docs/reference/estimators.md is made here: `python tests/estimator/test_all_classifiers.py --write`.
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

from epsilens import WhatIf
from epsilens.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "estimators.md"
N_TRAIN = 120
SMALL = {
    "n_estimators": 3,
    "hidden_layer_sizes": (3,),
    "thresholds": 5,
    "max_subpopulation": 30,
    "n_subsamples": 30,
    "n_restarts_optimizer": 0,
}
"""Settings that make a training short, where an estimator has them."""
SMALL_OF = {
    "HistGradientBoostingClassifier": {"max_iter": 3},
    "HistGradientBoostingRegressor": {"max_iter": 3},
    "LogisticRegressionCV": {"Cs": 3, "cv": 2},
    "TunedThresholdClassifierCV": {"cv": 2},
    "CalibratedClassifierCV": {"cv": 2},
    "StackingClassifier": {"cv": 2},
    "StackingRegressor": {"cv": 2},
    "ElasticNetCV": {"cv": 2, "eps": 0.1},
    "LassoCV": {"cv": 2, "eps": 0.1},
    "MLPClassifier": {"max_iter": 5},
    "MLPRegressor": {"max_iter": 5},
    "TheilSenRegressor": {"max_iter": 10},
}
KINDS = ("classifier", "regressor")
HEAD = """\
# Models of scikit-learn

Every classifier and regressor of scikit-learn {version}, as a study takes it. *exact*: the answer comes from the model's objective, without
training again. *trained again*: the method `curve` trains the whole model at a few ε ([how](../concepts/any-model.md)). *refused*: the study
raises the line beside it. A test makes this list with the default settings, on a small table with two classes, or with a number to predict and a
protected feature. Models that take another model inside have a linear model or a small tree there.
"""


def names(kind: str) -> list[str]:
    return [name for name, _ in all_estimators(type_filter=kind)]


def instance(name: str, kind: str) -> BaseEstimator:
    """Return an estimator with its defaults, small, and with a model inside where it needs one."""
    found = dict(all_estimators(type_filter=kind))[name]
    linear, tree = (
        (LogisticRegression(), DecisionTreeClassifier(max_depth=2, random_state=0))
        if kind == "classifier"
        else (Ridge(), DecisionTreeRegressor(max_depth=2, random_state=0))
    )
    try:
        made = found()
    except TypeError as error:
        inside = [("linear", linear), ("tree", tree)] if "estimators" in str(error) else linear
        made = found(inside)
    if name == "SelfTrainingClassifier":  # its default is no model
        made = found(linear)
    parameters = made.get_params(deep=False)
    small = {key: value for key, value in SMALL.items() if key in parameters}
    return made.set_params(**small, **SMALL_OF.get(name, {}))


def table(kind: str) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    n = N_TRAIN + 40
    X = pd.DataFrame(
        {
            "visits": rng.integers(0, 8, n).astype(float),
            "children": rng.integers(0, 5, n).astype(float),
            "hours": rng.random(n).round(3),
            "smokes": rng.integers(0, 2, n).astype(float),
        }
    )
    score = X["visits"] - 3.5 + X["smokes"]
    if kind == "regressor":
        return X, pd.Series(score + 5.0 + rng.random(n), name="cost")
    yes = rng.random(n) < 1.0 / (1.0 + np.exp(-score))
    return X, pd.Series(np.where(yes, "yes", "no"), name="answer", dtype="category")


def outcome(name: str, kind: str) -> tuple[str, str]:
    """Return what a study does with an estimator, and the line that refuses it."""
    X, y = table(kind)
    question: dict[str, object] = {"epsilon": [1.0, 4.0], "repeats": 2, "method": "auto"}
    if kind == "regressor":
        question |= {"protect": ["smokes"], "categories": {"smokes": [0.0, 1.0]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            study = WhatIf(instance(name, kind)).fit(
                X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]
            )
            frame = study.estimate(**question).to_frame()
        except InputError as error:
            refused = error
        else:
            refused = None
    if refused is not None:
        # No error of another library stands above the line.
        assert refused.__cause__ is None
        assert refused.__suppress_context__ or refused.__context__ is None
        return "refused", str(refused)
    assert frame["loss_change"].notna().all(), name
    (method,) = set(frame["method"])
    return {"exact": "exact", "curve": "trained again"}[method], ""


def listed() -> dict[tuple[str, str], tuple[str, str]]:
    """Return what the page says, by kind and name."""
    found, kind = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            kind = {"## Classifiers": "classifier", "## Regressors": "regressor"}[line]
        elif match := re.fullmatch(r"\| `(\w+)` \| ([\w ]+) \| ?(.*?) ?\|", line):
            found[kind, match[1]] = (match[2], match[3])
    return found


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def is_same_version() -> bool:
    made_with = re.search(r"scikit-learn (\d+\.\d+)", PAGE.read_text(encoding="utf-8"))
    return made_with is not None and made_with[1] == minor(sklearn.__version__)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in names(kind)])
def test_an_estimator_works_or_is_refused_in_one_line(kind, name):
    done, line = outcome(name, kind)
    if done == "refused":
        assert "\n" not in line
        assert len(re.findall(r"[.!?](?:\s|$)", line)) <= 2, line
        assert len(line) < 260
        assert name in line
        # The values of the table: answers, and numbers with three places.
        assert not re.search(r"\byes\b|0\.\d{3}", line)
    if is_same_version():
        assert (done, line) == listed()[kind, name], "run this file with --write"


def test_the_list_names_what_scikit_learn_has():
    if not is_same_version():
        pytest.skip("the list was made with another version of scikit-learn")
    assert list(listed()) == [(kind, name) for kind in KINDS for name in names(kind)]


def fitted(estimator: BaseEstimator) -> WhatIf:
    X, y = table("classifier")
    return WhatIf(estimator).fit(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:])


@pytest.mark.parametrize(
    "advised",
    [
        CalibratedClassifierCV(Perceptron(), cv=2),
        CalibratedClassifierCV(OneVsOneClassifier(LogisticRegression()), cv=2),
        VotingClassifier([("linear", LogisticRegression())], voting="soft"),
    ],
    ids=["calibrated", "calibrated-pairs", "soft-votes"],
)
def test_what_a_refusal_advises_works(advised):
    assert fitted(advised).baseline_.outcomes.accuracy > 0.5


def test_a_model_without_the_model_inside_is_refused():
    with pytest.raises(
        InputError, match="a complete estimator, got SelfTrainingClassifier without"
    ) as found:
        fitted(SelfTrainingClassifier())
    assert found.value.__suppress_context__


def test_an_encoder_that_draws_folds_gets_a_seed_too():
    study = fitted(make_pipeline(TargetEncoder(), DecisionTreeClassifier(random_state=0)))
    assert "not-deterministic" not in {note.code for note in study.baseline_.notes}
    assert study.baseline_.has_own_randomness


def write() -> None:
    """Write the list of the documentation."""
    lines = [HEAD.format(version=minor(sklearn.__version__))]
    for kind, title in zip(KINDS, ("Classifiers", "Regressors"), strict=True):
        lines += [f"## {title}\n", "| estimator | in a study | line |", "|---|---|---|"]
        for name in names(kind):
            done, line = outcome(name, kind)
            lines.append(f"| `{name}` | {done} | {line} |")
        lines.append("")
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/estimator/test_all_classifiers.py --write")
    write()
