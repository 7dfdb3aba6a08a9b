"""Attacks where every group is randomised at its own ε."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens.errors import InputError
from epsilens.influence.question import Question, read_question
from epsilens.risk import AttackStudy
from epsilens.risk.randomised_shadows import RandomisedShadows

N = 240
WOMEN = np.random.default_rng(5).random(N) < 0.5
GROUPS = {"women": WOMEN, "men": ~WOMEN}


@pytest.fixture(scope="module")
def study() -> AttackStudy:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N + 100, 3)), columns=["a", "b", "c"])
    X["town"] = rng.integers(0, 3, N + 100).astype(float)
    y = pd.Series(pd.Categorical(X["a"] + rng.logistic(size=N + 100) > 0), name="ill")
    return AttackStudy(LogisticRegression()).fit(X[:N], y[:N], X[N:], y[N:])


def test_every_record_reports_through_the_channel_of_its_group(study):
    question = Question(
        {"women": 0.5, "men": math.inf},
        ["ill", "town"],
        GROUPS,
        {"town": [0.0, 1.0, 2.0]},
        together=True,
    )
    asked = read_question(study.baseline_, question, columns=["a", "b", "c", "town"])
    shadows = RandomisedShadows(study.baseline_, asked, 64, 0, np.arange(N))
    values, codes = shadows.training.reports(0, range(64))
    truth, joint = asked.label.domain()[0], asked.alternatives.codes
    changed = codes != truth[:, None]
    assert not changed[~WOMEN].any()
    assert not (values != joint[:, None])[~WOMEN].any()
    expected = 1 / (1 + math.exp(0.5))
    error = 4 * math.sqrt(expected * (1 - expected) / changed[WOMEN].size)
    assert abs(changed[WOMEN].mean() - expected) < error
    flipped = 2 / (2 + math.exp(0.5))
    assert abs((values != joint[:, None])[WOMEN].mean() - flipped) < 2 * error


def test_one_group_of_everybody_is_the_plain_attack(study):
    plain = study.estimate(protect="ill", epsilon=[0.5, 2.0], shadow_models=48)
    joined = study.estimate(
        protect="ill",
        epsilon={"people": [0.5, 2.0]},
        groups={"people": np.ones(N, dtype=bool)},
        together=True,
        shadow_models=48,
    )
    for one, other in zip(plain.document.cells, joined.document.cells, strict=True):
        kept = {"group_epsilons": {"people": one.epsilon}}
        assert one.model_copy(update=kept) == other


def test_advantage_and_ceiling_are_those_of_the_least_protected(study):
    found = study.estimate(
        protect="ill",
        epsilon={"women": 0.5, "men": 2.0},
        groups=GROUPS,
        together=True,
        shadow_models=48,
    ).document
    (cell,) = found.cells
    assert cell.epsilon is None
    assert cell.record_epsilon == 2.0
    assert cell.group_epsilons == {"women": 0.5, "men": 2.0}
    assert cell.advantage == pytest.approx(math.tanh(1.0))
    women, men = found.group_cells
    assert women.advantage == pytest.approx(math.tanh(0.25))
    assert (women.epsilon, men.epsilon) == (0.5, 2.0)
    assert women.answer_inference_ceiling < men.answer_inference_ceiling
    assert women.holder_rate < men.holder_rate
    share = WOMEN.mean()
    mixed = share * women.holder_rate + (1 - share) * men.holder_rate
    assert cell.holder_rate == pytest.approx(mixed)
    assert found.provenance.settings["epsilon"] == {"women": [0.5], "men": [2.0]}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"groups": {"women": WOMEN}, "epsilon": {"women": 1.0}}, "everybody in a group"),
        ({"correction": "forward"}, "own ε"),
        ({"epsilon": {"women": 1.0}}, "has none for 'men'"),
    ],
)
def test_what_is_refused(study, more, words):
    question = {"protect": "ill", "epsilon": {"women": 1.0, "men": 2.0}, "groups": GROUPS}
    with pytest.raises(InputError, match=words):
        study.estimate(**(question | more), together=True, shadow_models=48)
