from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.errors import InputError, PrivacyLeakWarning


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


def ask(study, groups, **more):
    return study.estimate(epsilon=1.0, method="influence", groups=groups, **more)


def test_masks_may_be_arrays_series_or_lists(study, survey):
    mask = survey.X["age"] < 40
    changes = [
        ask(study, {"young": given}).document.cells[0].loss_change
        for given in (mask, mask.to_numpy(), mask.tolist(), "age < 40")
    ]
    np.testing.assert_allclose(changes, changes[0], atol=1e-15)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.zeros(600, dtype=bool), "is empty"),
        (np.ones(10, dtype=bool), r"one entry per training row \(600\)"),
        (np.ones(600), "True and False"),
        ("age < -5", "is empty"),
        ("height < 5", "must name a column"),
        ("age <", "age <"),
    ],
    ids=["empty", "short", "numbers", "empty expression", "unknown column", "half"],
)
def test_bad_groups_get_one_clear_line(study, mask, words):
    with pytest.raises(InputError, match=words):
        ask(study, {"mine": mask})


@pytest.mark.parametrize("given", ["age < 40", np.arange(600) > 0], ids=["expression", "mask"])
def test_only_everybody_may_be_called_all(study, given):
    with pytest.raises(InputError, match=r"must have every training row, 600, .* another name"):
        ask(study, {"all": given})
    assert ask(study, {"all": np.ones(600, dtype=bool)}).document.cells[0].group == "all"


@pytest.mark.parametrize(
    "part", ["all of one answer", "half of one answer", "all but some", "nearly the answer"]
)
def test_a_group_that_gives_the_answer_away_is_refused(study, survey, part):
    yes = (survey.y == "yes").to_numpy()
    some = np.random.default_rng(1).random(600) < 0.5
    nearly = yes.copy()
    nearly[[0, 1]] ^= True
    mask = {
        "nearly the answer": nearly,
        "all of one answer": yes,
        "half of one answer": yes & some,
        "all but some": ~(yes & some),
    }
    with pytest.raises(InputError, match="depends on what it protects"):
        ask(study, {"mine": mask[part]})
    with pytest.warns(PrivacyLeakWarning, match="depends on what it protects"):
        result = ask(study, {"mine": mask[part]}, dependent_groups="warn")
    assert any("depends on" in text for text in result.document.warnings)
    with pytest.warns(PrivacyLeakWarning, match="depends on what it protects"):
        study.estimate(epsilon=1.0, method="paper", groups={"mine": mask[part]})


def test_a_small_group_of_one_answer_is_taken_for_chance(study, survey):
    mask = np.zeros(600, dtype=bool)
    mask[np.flatnonzero(survey.y == "yes")[:5]] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(study, {"two people": mask & (np.cumsum(mask) <= 2)})
    with pytest.warns(PrivacyLeakWarning, match="if only by chance"):
        ask(study, {"five people": mask})


@pytest.mark.parametrize("n_yes", [2, 5])
def test_a_group_that_is_the_answer_is_refused_however_small(n_yes):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) < n_yes
    study = WhatIf(LogisticRegression()).fit(X, y, X, y)
    with pytest.raises(InputError, match="depends on what it protects"):
        ask(study, {"mine": y}, categories={"label": [False, True]})


def test_an_expression_over_the_label_is_refused_even_if_mixed(survey, pipeline):
    X = survey.X.assign(smokes=survey.y)
    X_test = survey.X_test.assign(smokes=survey.y_test)
    study = WhatIf(pipeline()).fit(X, survey.y, X_test, survey.y_test)
    with pytest.raises(InputError, match="reads the protected column"):
        ask(study, {"mine": 'smokes == "yes" or age > 50'})


def test_names_need_not_be_text(study):
    result = ask(study, {3: pd.Series(np.arange(600) % 2 == 0)})
    assert result.document.cells[0].group == "3"


def test_names_that_look_alike_are_refused(study):
    mask = np.arange(600) % 2 == 0
    with pytest.raises(InputError, match="unique"):
        ask(study, {1: mask, "1": ~mask})
