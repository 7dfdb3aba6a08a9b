# SPDX-License-Identifier: Apache-2.0
"""`Study`: one table, one model, and cost, risk and decision from it."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens import Study, WhatIf
from epsilens.cli import main
from epsilens.data import load_survey, prepare, read_table
from epsilens.data.expressions import parse_expression
from epsilens.decision import decide
from epsilens.document import load_document, to_json
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning
from epsilens.models.scikit_learn import default_estimator
from epsilens.risk import AttackStudy

MODELS = 48
GRID = (0.5, 1.0, 2.0, 4.0)
ANSWERS = {"affair": ["no", "yes"]}
ONCE = {
    "prepare": "epsilens.data",
    "fit_baseline": "epsilens.influence.fitted",
    "fit_transformers": "epsilens.influence.baseline",
    "read_label": "epsilens.influence.baseline",
    "read_groups": "epsilens.influence.question",
    "parse_grid": "epsilens.channels",
    "schema_fingerprint": "epsilens.influence.fitted",
    "read_question": "epsilens.influence.fitted",
}


@pytest.fixture(scope="module")
def people():
    return load_survey().sample(600, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="module")
def study(people):
    return Study(people, label="affair", categories=ANSWERS)


@pytest.fixture
def calls(monkeypatch):
    """Count the calls of every stage."""
    counted = Counter()

    def counting(name, function):
        def call(*arguments, **named):
            counted[name] += 1
            return function(*arguments, **named)

        return call

    for name, module in ONCE.items():
        place = importlib.import_module(module)
        monkeypatch.setattr(place, name, counting(name, getattr(place, name)))
    # Where it is imported by name.
    question = importlib.import_module("epsilens.influence.question")
    monkeypatch.setattr(
        question, "parse_grid", importlib.import_module(ONCE["parse_grid"]).parse_grid
    )
    return counted


def test_a_decision_fits_one_model_and_reads_the_question_once(people, calls):
    study = Study(people, label="affair", categories=ANSWERS)
    assert not calls
    study.decide(
        mechanisms="randomised-response",
        epsilon="0.5:4:4",
        shadow_models=MODELS,
        max_loss_increase=0.05,
    )
    assert calls == dict.fromkeys(ONCE, 1)
    study.decide(mechanisms="randomised-response", max_attack_rate=0.9)
    assert calls == dict.fromkeys(ONCE, 1)


def test_the_command_fits_one_model_and_reads_the_question_once(people, calls, tmp_path, capsys):
    file = tmp_path / "people.csv"
    people.to_csv(file, index=False)
    options = ["--label", "affair", "--categories", "affair=no|yes", "--epsilon", "0.5:4:4"]
    assert main(["decide", str(file), *options, "--shadow-models", str(MODELS), "--json"]) == 0
    assert load_document(capsys.readouterr().out).kind == "decision"
    assert calls == dict.fromkeys(ONCE, 1)


def test_cost_and_risk_in_turn_share_the_model_and_the_question(people, calls):
    study = Study(people, label="affair", categories=ANSWERS)
    cost = study.cost(epsilon="0.5:4:4")
    risk = study.risk(shadow_models=MODELS)
    assert [c.epsilon for c in risk.document.cells] == [c.epsilon for c in cost.document.cells]
    assert calls["fit_baseline"] == calls["prepare"] == calls["parse_grid"] == 1
    assert calls["schema_fingerprint"] == calls["fit_transformers"] == 1


def test_the_numbers_are_those_of_its_parts(people, study):
    """The one fitted model gives to the last digit what each part gives with a fit of its own."""
    prepared = prepare(people, label="affair")
    parts = prepared.X_train, prepared.y_train, prepared.X_test, prepared.y_test
    model = default_estimator(prepared.schema)
    asked = {"protect": ["affair"], "epsilon": GRID, "categories": ANSWERS}
    cost = WhatIf(model).fit(*parts).estimate(**asked)
    risk = AttackStudy(model).fit(*parts).estimate(**asked, shadow_models=MODELS)
    found = study.decide(
        mechanisms="randomised-response", epsilon=GRID, shadow_models=MODELS, max_loss_increase=0.05
    )
    assert found.document.cost.cells == cost.document.cells
    assert found.document.risk.cells == risk.document.cells
    assert found.document.risk.baseline == risk.document.baseline
    expected = decide(cost, risk, max_loss_increase=0.05)
    assert found.recommendation == expected.recommendation
    assert (
        found.document.provenance.schema_fingerprint == cost.document.provenance.schema_fingerprint
    )


def test_a_decision_from_documents_is_that_from_results(study):
    cost, risk = study.cost(epsilon=GRID), study.risk(epsilon=GRID, shadow_models=MODELS)
    from_results = decide(cost, risk, max_loss_increase=0.05, max_attack_rate=0.9)
    loaded = [load_document(to_json(result.document)) for result in (cost, risk)]
    from_documents = decide(*loaded, max_loss_increase=0.05, max_attack_rate=0.9)
    assert from_documents.recommendation == from_results.recommendation
    assert from_documents.standings == pytest.approx(from_results.standings)


def test_every_result_has_a_document_a_frame_and_a_chart(study):
    decision = study.decide(
        mechanisms="randomised-response", epsilon=GRID, shadow_models=MODELS, max_loss_increase=0.05
    )
    for result in (study.cost(epsilon=GRID), decision):
        assert len(result.to_frame()) == len(GRID)
        assert result.document.kind in result.to_json()
        assert result.plot().to_dict()
    frame = decision.to_frame()
    assert frame["epsilon"].tolist() == list(GRID)
    assert frame.loc[frame["recommended"], "epsilon"].tolist() == [decision.recommendation.epsilon]
    assert frame["answer_inference_ceiling"].is_monotonic_increasing


def test_nothing_is_read_before_the_limits_are_checked(tmp_path):
    study = Study(tmp_path / "missing.csv", label="affair")
    for limits, words in (
        ({"max_attack_rate": 95}, "`max_attack_rate` must be greater than 0 and less than 1"),
        ({"max_loss_increase": -1}, "`max_loss_increase` must be a finite number of at least 0"),
        ({"max_attack_rate": 0.9, "max_advantage": 0.1}, "one limit on the attack, got two"),
        ({"measured": True, "proven_only": True}, "`measured` and `proven_only` contradict"),
        ({"confidence": 2}, "`confidence`"),
    ):
        with pytest.raises(InputError, match=words):
            study.decide(mechanisms="randomised-response", **limits)
    with pytest.raises(InputError, match=r"missing\.csv"):
        study.decide(mechanisms="randomised-response")


def test_arguments_are_checked_at_once():
    with pytest.raises(InputTypeError, match="`label` must be the name of a column"):
        Study("people.csv", label=3)
    with pytest.raises(InputError, match="`model` must be one of"):
        Study("people.csv", label="affair", model="forest")
    with pytest.raises(InputError, match="`identity` must be another column than `label`"):
        Study("people.csv", label="affair", identity="affair")


def test_an_attack_needs_probabilities(people):
    study = Study(people, label="age", model="ridge")
    with pytest.raises(InputError, match="`model` must be logistic for an attack"):
        study.decide(mechanisms="randomised-response")
    with pytest.raises(InputError, match="`model` must be logistic for an attack"):
        study.risk()


def test_settings_of_noisy_training_belong_to_it(study):
    with pytest.raises(InputError, match="`clip` belongs to `mechanism='dpsgd'`"):
        study.risk(clip=1.0)
    with pytest.raises(InputError, match="needs `delta`, well below 1/"):
        study.risk(mechanism="dpsgd", epsilon=2.0)


def test_a_column_that_the_model_does_not_see_cannot_be_protected(people):
    study = Study(people, label="affair", protect=["religious"], drop=["religious"])
    with pytest.raises(InputError, match="named in `drop` and cannot be named in `protect`"):
        study.cost(epsilon=GRID)


def test_groups_stand_beside_everybody_and_other_groups_need_no_other_model(people, calls):
    groups = {"unhappy": "rate_marriage <= 3"}
    study = Study(people, label="affair", categories=ANSWERS, groups=groups)
    names = [cell.group for cell in study.cost(epsilon=[1.0]).document.cells]
    assert names == ["all", "unhappy"]
    alone = study.cost(epsilon=[1.0], everybody=False)
    assert [cell.group for cell in alone.document.cells] == ["unhappy"]
    other = study.asking(groups=["older=age > 30"]).cost(epsilon=[1.0])
    assert [cell.group for cell in other.document.cells] == ["all", "older"]
    assert calls["fit_baseline"] == 1


def test_an_own_model_is_used(people):
    numbers = people[["age", "children", "affair"]]
    study = Study(numbers, label="affair", categories=ANSWERS, model=LogisticRegression(C=0.1))
    decision = study.decide(
        mechanisms="randomised-response", epsilon=GRID, shadow_models=MODELS, max_advantage=0.5
    )
    assert decision.document.cost.baseline.n_parameters == 3
    assert decision.recommendation.epsilon in GRID


def test_an_observed_domain_is_warned_of_once(people):
    study = Study(people, label="affair")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study.decide(mechanisms="randomised-response", epsilon=GRID, shadow_models=MODELS)
    leaks = [warning for warning in caught if issubclass(warning.category, PrivacyLeakWarning)]
    assert len(leaks) == 1


def test_what_was_done_to_the_table_is_noted_once(people):
    table = people.assign(person=[f"p{place}" for place in range(len(people))])
    study = Study(table, label="affair", categories=ANSWERS)
    decision = study.decide(mechanisms="randomised-response", epsilon=GRID, shadow_models=MODELS)
    for document in (study.cost(epsilon=GRID).document, decision.document):
        assert sum("person" in note.text for note in document.notes) == 1
    assert not any("person" in note.text for note in decision.document.cost.notes)


@pytest.mark.parametrize("kind", ["file", "table", "polars"])
def test_data_may_be_a_file_a_table_or_a_frame(people, study, tmp_path, kind):
    file = tmp_path / "people.csv"
    people.to_csv(file, index=False)
    if kind == "polars":
        data = pytest.importorskip("polars").from_pandas(people)
    else:
        data = str(file) if kind == "file" else read_table(file)
    found = Study(data, label="affair", categories=ANSWERS).cost(epsilon=GRID)
    expected = study.cost(epsilon=GRID)
    changes = [cell.loss_change for cell in found.document.cells]
    np.testing.assert_allclose(changes, [cell.loss_change for cell in expected.document.cells])
    frame = found.to_frame()
    assert isinstance(frame, type(data) if kind == "polars" else pd.DataFrame)


@pytest.mark.parametrize("kind", ["mask", "array", "list of masks", "masks in a list", "number"])
def test_groups_are_expressions_and_records_are_never_shown(people, kind):
    secret = people["affair"] == "yes"
    groups = {
        "mask": {"x": secret},
        "array": {"x": people["affair"].to_numpy()},
        "list of masks": [secret],
        "masks in a list": people["affair"],
        "number": 3,
    }[kind]
    with pytest.raises(InputTypeError, match="`groups` must be expressions such as") as caught:
        Study(people, label="affair", groups=groups)
    assert not any(word in str(caught.value) for word in ("True", "False", "yes"))
    assert len(str(caught.value)) < 200


def test_a_group_may_have_any_name_but_an_empty_one(people):
    groups = {"age = high": "age > 30", "b": parse_expression("age < 30")}
    study = Study(people, label="affair", categories=ANSWERS, groups=groups)
    cells = study.cost(epsilon=[1.0]).document.cells
    assert [cell.group for cell in cells] == ["all", "age = high", "b"]
    with pytest.raises(InputError, match="`groups` must be a name for every group, got an empty"):
        Study(people, label="affair", groups={" ": "age > 30"})
    with pytest.raises(InputTypeError, match="`groups` must be names in text"):
        Study(people, label="affair", groups={3: "age > 30"})


def test_a_study_does_not_change(people):
    study = Study(people, label="affair", categories=ANSWERS)
    before = study.cost(epsilon=GRID)
    for name, value in (("seed", 7), ("protect", "religious"), ("prepared", None), ("new", 1)):
        with pytest.raises(AttributeError, match="A study does not change: make a new one"):
            setattr(study, name, value)
    with pytest.raises(AttributeError, match="A study does not change"):
        del study.seed
    for other in (copy.deepcopy(study), pickle.loads(pickle.dumps(study)), copy.copy(study)):
        assert other.cost(epsilon=GRID).document.cells == before.document.cells
        with pytest.raises(AttributeError, match="A study does not change"):
            other.seed = 7


@pytest.fixture(scope="module")
def watched():
    """People whose height says who they are, and not what they answer."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(20), 20)
    table = pd.DataFrame({"who": [f"p{number}" for number in who]})
    table["height"] = (150 + 2 * who + rng.normal(0, 0.3, 400)).round(2)
    table["weight"] = rng.normal(0, 1, 400).round(3)
    likely = 1 / (1 + np.exp(-1.5 * table["weight"]))
    return table.assign(says=np.where(rng.random(400) < likely, "yes", "no"))


def test_without_the_masked_columns_the_same_is_asked(watched, monkeypatch):
    pytest.importorskip("shap")
    study = Study(watched, label="says", identity="who", categories={"says": ["no", "yes"]})
    study.cost(epsilon=[0.5, 1.0, 2.0], method="influence", n_draws=50)
    study.risk(epsilon=[1.0, 2.0], shadow_models=MODELS, confidence=0.9)
    monkeypatch.setattr(Study, "_masked_columns", lambda *_: ["height"])
    asked = {}

    def remembering(name, method):
        def call(self, **arguments):
            asked[name] = arguments
            return method(self, **arguments)

        return call

    for name in ("cost", "risk"):
        monkeypatch.setattr(Study, name, remembering(name, getattr(Study, name)))
    decision = study.decide(mechanisms="randomised-response", max_loss_increase=0.2)
    assert asked["cost"].items() >= {"method": "influence", "n_draws": 50}.items()
    assert list(asked["cost"]["epsilon"]) == [0.5, 1.0, 2.0]
    assert asked["risk"].items() >= {"shadow_models": MODELS, "confidence": 0.9}.items()
    assert list(asked["risk"]["epsilon"]) == [1.0, 2.0]
    assert decision.document.lever.masked == ["height"]


def test_cost_and_risk_without_a_common_budget_are_refused_before_the_long_work(
    watched, monkeypatch
):
    pytest.importorskip("shap")
    study = Study(watched, label="says", identity="who", categories={"says": ["no", "yes"]})
    study.cost(epsilon=[0.5])
    study.risk(epsilon=[2.0], shadow_models=MODELS)
    monkeypatch.setattr(Study, "_masked_columns", lambda *_: pytest.fail("too late"))
    with pytest.raises(InputError, match="must share at least one ε"):
        study.decide(mechanisms="randomised-response")


def test_a_cost_of_another_mechanism_is_named_before_the_long_work(people, monkeypatch):
    table = people.assign(region=np.arange(len(people)) % 3)
    names = {"region": ["0", "1", "2"]}
    study = Study(table, label="affair", protect="region", categorical=["region"], categories=names)
    study.cost(epsilon=1.0, mechanism="oue", seconds=1.0)
    monkeypatch.setattr(Study, "risk", lambda *_, **__: pytest.fail("the attack ran"))
    with pytest.raises(InputError, match=r"the cost is that of oue\. Ask both with"):
        study.decide(mechanisms="randomised-response")


@pytest.mark.parametrize("argument", ["test", "candidates"])
def test_another_file_that_is_not_there_is_named(people, tmp_path, argument):
    with pytest.raises(InputError, match=f"`{argument}` must be a file that exists"):
        Study(people, label="affair", **{argument: tmp_path / "no.csv"}).fitted()


def test_an_observed_domain_of_a_feature_is_noted_once_in_every_document(people):
    table = people.assign(sure=np.where(people["age"] > 30, "yes", "no"))
    study = Study(table, label="affair", protect="sure")
    with pytest.warns(PrivacyLeakWarning, match="the domain of 'sure'"):
        first = study.cost(epsilon=GRID)
    found = [first, study.cost(epsilon=GRID), study.risk(epsilon=GRID, shadow_models=MODELS)]
    for result in (*found, study.decide(mechanisms="randomised-response")):
        codes = [note.code for note in result.document.notes]
        assert codes.count("observed-domain") == 1
    declared = Study(table, label="affair", protect="sure", declared="sure")
    codes = [note.code for note in declared.cost(epsilon=GRID).document.notes]
    assert "observed-domain" not in codes


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("protect", 3, "`protect` must be the name of a column, or a list of names, got int"),
        ("protect", ["age", 3], "`protect` must be .*, got a list with int"),
        ("declared", {"affair": 1}, "`declared` must be .*, got dict"),
        ("bins", {"age": 2.5}, "`bins` must be a number of bins, .*, got float for 'age'"),
        ("bins", "age=10", "`bins` must be a number of bins, .*, got str"),
        ("bins", {"age": 1}, "`bins` must be at least 2, got 1"),
        ("seed", -1, "`seed` must be at least 0, got -1"),
        ("seed", None, "`seed` must be a whole number, got NoneType"),
        ("model", LogisticRegression, r"`model` must be .*, got the class LogisticRegression"),
        ("model", object(), "`model` must be .* estimator, got object"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named(argument, value, words):
    with pytest.raises(InputError, match=words):
        Study("people.csv", label="affair", **{argument: value})


def test_a_text_is_one_name(people):
    study = Study(people, label="affair", drop="age", declared="affair")
    assert "age" not in study.prepared.X_train
    assert study.declared == ("affair",)
    with pytest.raises(InputError, match="`declared` must name a column of the data, got 'affai'"):
        Study(people, label="affair", declared="affai").cost(epsilon=GRID)


def test_settings_without_what_they_belong_to_are_refused(people, study):
    with pytest.raises(InputError, match="`regularisation` belongs to the models logistic and"):
        Study(people, label="affair", model=LogisticRegression(), regularisation=2.0)
    with pytest.raises(InputError, match="`alpha` needs `identity`"):
        study.decide(mechanisms="randomised-response", alpha=7)
    with pytest.raises(TypeError, match="unexpected keyword argument 'banana'"):
        study.risk(banana=3)


@pytest.mark.parametrize("reason", ["weights-not-private", "too-large-to-preview"])
def test_what_cannot_be_previewed_is_noted(people, monkeypatch, reason):
    weight = None
    if reason == "weights-not-private":
        people, weight = people.assign(weight=1.0), "weight"
    else:
        monkeypatch.setattr("epsilens.study.MOST_NUMBERS", 100)
    study = Study(people, label="affair", categories=ANSWERS, weight=weight)
    found = study.decide(epsilon=[0.1, 1.0], shadow_models=MODELS)
    assert reason in {note.code for note in found.document.notes}
    assert {curve.trust for curve in found.document.mechanisms} == {"nobody"}
