"""Decisions where every group is randomised at its own ε: the positions of the lists are compared."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest

from epsilens import Study
from epsilens.document import anonymise, load_document, to_json, view
from epsilens.errors import InputError
from epsilens.show import document_chart
from epsilens.show.report_data import group_data

EPSILON = {"women": [0.5, 1.0, 2.0], "men": [1.0, 2.0, 4.0]}


def survey(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "income": rng.normal(size=n),
            "sex": rng.choice(["F", "M", "X"], n, p=[0.45, 0.45, 0.1]),
        }
    )
    chance = 1 / (1 + np.exp(-1.5 * table["age"] + table["income"]))
    table["smokes"] = np.where(rng.random(n) < chance, "yes", "no")
    return table


def study(groups=None) -> Study:
    return Study(
        survey(),
        label="smokes",
        groups=groups or {"women": 'sex == "F"', "men": 'sex != "F"'},
        categories={"smokes": ["no", "yes"]},
    )


@pytest.fixture(scope="module")
def decision():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            study()
            .decide(together=True, epsilon=EPSILON, max_advantage=0.8, shadow_models=24)
            .document
        )


def test_the_advantage_is_that_of_the_least_protected_group(decision):
    chosen = decision.recommendation
    # 2 is the largest ε of a man whose advantage, tanh(ε/2), is within 0.8.
    assert chosen.group_epsilons == {"women": 1.0, "men": 2.0}
    assert chosen.epsilon == 2.0
    assert chosen.advantage == pytest.approx(math.tanh(1.0))
    assert "Randomise the answers at women ε = 1, men ε = 2." in chosen.sentence
    assert "“women” at ε = 1: an advantage of 46.3% (proven)" in " ".join(chosen.details)
    assert "“men” at ε = 2: an advantage of 76.2% (proven)" in " ".join(chosen.details)


def test_every_view_names_the_groups(decision):
    (curve,) = decision.mechanisms
    assert [cell.group_epsilons for cell in curve.cells] == [
        {"women": one, "men": other} for one, other in zip(*EPSILON.values(), strict=True)
    ]
    texts = [line.rows[0].text for line in view(decision).tables[0].lines]
    assert texts == ["women 0.5, men 1", "women 1, men 2", "women 2, men 4"]
    assert [line.is_chosen for line in view(decision).tables[0].lines] == [False, True, False]
    drawn = json.dumps(document_chart(decision).to_dict(), ensure_ascii=False)
    assert "women 1, men 2" in drawn
    assert "become guessable" in drawn
    assert load_document(to_json(decision)) == decision
    assert "women" not in to_json(anonymise(decision))


def test_the_report_has_cost_and_risk_of_every_position(decision):
    (group,) = group_data(decision, {})
    assert group["name"] == "women + men"
    assert [row[0] for row in group["rows"]] == [
        "women 0.5, men 1",
        "women 1, men 2",
        "women 2, men 4",
    ]
    assert all(cell["risk"] is not None for cell in group["cells"])
    assert group["cells"][1]["spending"] == "women ε = 1, men ε = 2"


def test_cost_alone():
    found = study().cost(together=True, epsilon={"women": 1.0, "men": 3.0})
    (cell,) = found.document.cells
    assert cell.group == "women + men"
    assert cell.group_epsilons == {"women": 1.0, "men": 3.0}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"epsilon": None}, "an ε for each group"),
        ({"correction": "forward"}, "cannot be decided"),
        ({"epsilon": {"women": [0.5, 1.0], "men": 4.0}}, "another largest ε"),
    ],
)
def test_what_is_refused(more, words):
    with pytest.raises(InputError, match=words):
        study().decide(**({"epsilon": EPSILON} | more), together=True, shadow_models=20)


def test_people_in_no_group_are_refused():
    asked = study({"women": 'sex == "F"', "men": 'sex == "M"'})
    with pytest.raises(InputError, match="everybody in a group"):
        asked.decide(epsilon=EPSILON, together=True, shadow_models=20)
