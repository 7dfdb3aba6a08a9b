"""The annexes repeat a decision: every number with its kind, nothing invented, nothing claimed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from epsilens.decision import Decision
from epsilens.document import (
    Alternative,
    AuditCheck,
    DecisionDocument,
    MechanismAudit,
    MechanismCell,
    MechanismCurve,
    Recommendation,
    anonymise,
    example_document,
)
from epsilens.document.annexes import Annexes, annexes
from epsilens.document.decision import ADDED, RANDOMISED, TITLES
from epsilens.document.wording import NOTHING

KINDS = {"proven", "proven given b", "measured", "estimated"}
FIELDS = {
    "basic": "name data_curators intended_use data_product_type data_product_region description "
    "publication_date data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details "
    "data_source_type access_type",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
}
"""Fields of schemas/deployments-schema.yaml of opendp/deployments-registry-data, in July 2026."""
CASES = [
    (mechanism, protects)
    for mechanism in TITLES
    for protects in ("answer", "record")
    if protects == "answer" or mechanism not in RANDOMISED
]


def made(mechanism: str, protects: str = "answer", **changes: Any) -> DecisionDocument:
    """Return a decision that recommends a mechanism at ε = 1."""
    is_local = mechanism in RANDOMISED
    trust, delta = ("nobody", 0.0) if is_local else ("curator", 1e-5)
    cell = MechanismCell(
        epsilon=1.0,
        record_epsilon=1.0 if is_local else None,
        delta=delta,
        advantage=0.125,
        attack_rate_ceiling=0.764,
        loss_change=0.0212,
        loss_change_low=0.0019,
        loss_change_high=0.0468,
        accuracy_change=-0.016,
        method="exact" if is_local else "simulation",
    )
    check = AuditCheck(
        kind="many-runs",
        protects=protects,
        epsilon=1.0,
        delta=1e-5,
        epsilon_lower_bound=0.2,
        n_runs=2000,
    )
    neighbours = "added or removed" if mechanism in ADDED else "replaced"
    audit = MechanismAudit(
        library="interpret-core 0.7.8", neighbours=neighbours, confidence=0.95, checks=[check]
    )
    curve = MechanismCurve(
        mechanism=mechanism,
        trust=trust,
        protects=protects,
        cells=[cell],
        audit=None if is_local else audit,
    )
    chosen = Recommendation(
        mechanism=mechanism,
        trust=trust,
        protects=protects,
        epsilon=1.0,
        delta=delta,
        holds=True,
        sentence=f"Use {TITLES[mechanism]} at ε = 1.",
        details=["It is the largest ε of the grid within your limit, an advantage of at most 0.3."],
        rule="max_advantage",
        confidence=0.9,
        advantage=0.125,
        attack_rate_ceiling=0.764,
        max_advantage=0.3,
    )
    return example_document(
        "decision", **{"recommendation": chosen, "mechanisms": [curve], **changes}
    )


def unmet() -> DecisionDocument:
    """Return a decision that recommends nothing."""
    chosen = made("noisy-descent").recommendation.model_copy(
        update={
            "epsilon": None,
            "holds": False,
            "advantage": None,
            "attack_rate_ceiling": None,
            "sentence": "No mechanism that was compared meets both limits.",
        }
    )
    return made("noisy-descent", recommendation=chosen)


def fields(found: Annexes) -> Any:
    return found.registry.to_dict()["deployment"]


def numbers(found: Annexes) -> list[Any]:
    content: Any = found.to_dict()
    return [
        number
        for name in ("assessment", "checklist")
        for item in content[name]["items"]
        for number in item["numbers"]
    ]


@pytest.mark.parametrize(("mechanism", "protects"), CASES)
class TestEveryMechanism:
    def test_trust_and_unit(self, mechanism: str, protects: str) -> None:
        found = annexes(made(mechanism, protects))
        deployment, text = fields(found), found.text
        is_local = mechanism in RANDOMISED
        assert deployment["deployment_model"]["model_name"] == ("Local" if is_local else "Central")
        assert ("nobody needs to be trusted" in text) is is_local
        assert ("the curator holds the true answers" in text) is not is_local
        is_record = protects == "record" or mechanism in ADDED
        unit = "One person's record" if is_record else "One person's protected answer"
        assert deployment["privacy_loss"]["privacy_unit"] == unit
        details = deployment["privacy_loss"]["privacy_unit_details"]
        assert ("added or removed" in details) is (mechanism in ADDED)
        assert details.startswith("Replace one") is (mechanism not in ADDED)
        assert TITLES[mechanism].lower() in text.lower()

    def test_the_guarantee(self, mechanism: str, protects: str) -> None:
        found = annexes(made(mechanism, protects))
        parameters = fields(found)["privacy_loss"]["privacy_parameters"]
        is_pure = mechanism in RANDOMISED
        assert parameters == {"epsilon": 1.0, "delta": None if is_pure else 1e-5, "rho": None}
        variant = fields(found)["dp_variant"]["variant_name"]
        assert variant == ("Pure DP" if is_pure else "Approximate DP")
        assert f"δ: {'0' if is_pure else '1e-5'} (proven)" in found.text
        assert "at most this share becomes guessable: 12.5% (proven)" in found.text
        assert "guessed by any attacker, at most: 76.4% (proven given b)" in found.text

    def test_the_cost(self, mechanism: str, protects: str) -> None:
        found = annexes(made(mechanism, protects))
        # The what-if is about randomised response: at ε = 1 it changes the loss by 0.04.
        change = "+0.0400" if mechanism == "randomised-response" else "+0.0212"
        assert f"change of test loss (nats): {change} (estimated)" in found.text

    def test_every_number_has_its_kind(self, mechanism: str, protects: str) -> None:
        found = annexes(made(mechanism, protects))
        assert numbers(found)
        for number in numbers(found):
            assert number["kind"] in KINDS
            assert number["text"] != NOTHING
        for annex in (found.assessment, found.checklist):
            for sentence in sentences(annex.text):
                if "%" in sentence:
                    assert re.search(r"proven|measured|estimated", sentence), sentence

    def test_no_sentence_is_long(self, mechanism: str, protects: str) -> None:
        found = annexes(made(mechanism, protects))
        for text in (found.assessment.text, found.checklist.text, found.registry.opening):
            for clause in clauses(text):
                assert len(clause.split()) <= 25, clause

    def test_attacks_are_those_on_this_mechanism(self, mechanism: str, protects: str) -> None:
        text = annexes(made(mechanism, protects)).text
        assert ("reader guesses: 72.0% (measured)" in text) is (mechanism == "randomised-response")
        assert ("holder guesses: 79.0% (measured)" in text) is (mechanism in RANDOMISED)
        said = "No attack was tried on a model of this mechanism" in text
        assert said is (mechanism != "randomised-response")

    def test_json_round_trip(self, mechanism: str, protects: str) -> None:
        found = annexes(made(mechanism, protects))
        assert json.loads(found.to_json()) == found.to_dict()
        assert found.to_dict()["recommended"] is True


def sentences(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in re.split(r"(?<=[.])\s", line)]


def clauses(text: str) -> list[str]:
    """Split into clauses of their own; a label in brackets is no part of the sentence."""
    plain = re.sub(r"\([^()]*\)", "", text)
    return [part for line in plain.splitlines() for part in re.split(r"[.;:](?:\s|$)", line)]


def test_the_schema_has_these_fields() -> None:
    found = annexes(made("noisy-descent"))
    assert {name: " ".join(value) for name, value in fields(found).items()} == FIELDS
    assert list(found.registry.to_dict()) == ["url_slug", "status", "tier", "deployment"]
    unknown = fields(found)["basic"]
    assert {name for name, value in unknown.items() if value is not None} == {"data_product_type"}
    assert fields(annexes(made("synthetic-aim")))["basic"]["data_product_type"] == "Synthetic data"
    # Whether the table or the model is published is not known.
    assert fields(annexes(made("randomised-response")))["basic"]["data_product_type"] is None


def test_the_entry_is_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    found = annexes(made("dp-ebm", "record")).registry
    assert yaml.safe_load(found.text) == json.loads(json.dumps(found.to_dict()))
    assert "interpret-core 0.7.8" in found.text


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_nothing_is_recommended(epsilon: float | None) -> None:
    document = unmet()
    chosen = document.recommendation.model_copy(update={"epsilon": epsilon})
    found = annexes(document.model_copy(update={"recommendation": chosen}))
    assert not found.is_recommended
    for annex in found:
        assert "Nothing is recommended." in annex.text
    assert "No mechanism that was compared meets both limits." in found.text
    assert not numbers(found)

    def leaves(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [leaf for part in value.values() for leaf in leaves(part)]
        return [value]

    assert set(leaves(fields(found))) == {None}
    for clause in clauses(found.assessment.text + found.checklist.text):
        assert len(clause.split()) <= 25, clause


def test_what_the_tool_does_not_know_is_left_open() -> None:
    found = annexes(made("noisy-descent"))
    assert "[purpose of the processing, to be completed]" in found.assessment.text
    assert "[legal basis, to be completed]" in found.assessment.text
    for title in ("Security", "Access control", "Side channels"):
        (item,) = [one for one in found.checklist.items if one.title == title]
        assert not item.is_covered
        assert "Not covered by this tool." in item.lines()
    headings = [item.title for item in found.checklist.items]
    for words in ("ε", "unit of privacy", "Utility", "Algorithms", "Bias", "Security", "exposure"):
        assert any(words in heading for heading in headings)
    assert not re.search(r"\bcompl(y|ies|iant|iance)\b|\bsatisf", found.text)


def test_the_paragraph_is_part_of_the_section() -> None:
    text = annexes(made("randomised-response"), data="survey.csv").assessment.text
    assert "A model trained on 75 records of survey.csv is to be used or published." in text
    assert "the odds between any two of their possible answers by a factor of at most 2.72" in text
    assert "This remains. Columns that are not randomised can still give an answer away." in text
    assert "not private themselves" in text
    assert "on 256 attacked models" in text


def test_several_columns_and_groups() -> None:
    base = made("randomised-response")
    cells = [
        cell.model_copy(update={"record_epsilon": 2 * cell.epsilon}) for cell in base.cost.cells
    ]
    risks = [
        cell.model_copy(update={"record_epsilon": 2 * cell.epsilon}) for cell in base.risk.cells
    ]
    two = base.model_copy(
        update={
            "cost": base.cost.model_copy(update={"cells": cells}),
            "risk": base.risk.model_copy(update={"protect": ["smokes", "sex"], "cells": risks}),
        }
    )
    found = annexes(two)
    assert "- ε of each column: 1 (proven)\n- ε of a record, at most: 2 (proven)" in found.text
    assert fields(found)["privacy_loss"]["privacy_parameters"]["epsilon"] == 2.0
    assert fields(found)["privacy_loss"]["privacy_unit"] == "One person's protected answers"
    assert "sum over its columns" in fields(found)["accounting"]["composition"]
    assert "people whose answers are all guessed" in found.text

    budgets = {"women": 0.5, "men": 1.0}
    joint = {"group_epsilons": budgets, "epsilon": None, "record_epsilon": 1.0}
    cost = base.cost.cells[0].model_copy(update={**joint, "group": "women + men"})
    risk = base.risk.cells[0].model_copy(update=joint)
    chosen = base.recommendation.model_copy(
        update={"group_epsilons": budgets, "sentence": "Randomise at women ε = 0.5, men ε = 1."}
    )
    groups = base.model_copy(
        update={
            "cost": base.cost.model_copy(update={"cells": [cost]}),
            "risk": base.risk.model_copy(update={"cells": [risk]}),
            "recommendation": chosen,
        }
    )
    text = annexes(groups).text
    assert "- ε: women 0.5, men 1 (proven)\n- ε of a record, at most: 1 (proven)" in text
    hidden = annexes(anonymise(groups)).text
    assert "women" not in hidden
    assert "group 1 0.5, group 2 1" in hidden


def test_gaps_of_groups_are_the_point_on_bias(build: Any) -> None:
    document = build.make_decision(groups=["all", "women"])
    (bias,) = [one for one in annexes(document).checklist.items if one.title == "Bias"]
    assert {row.key for row in bias.rows} == {"loss_gap_change", "accuracy_gap_change"}
    assert all("only the group “women” is randomised" in row.title for row in bias.rows)


def test_a_cost_that_failed_its_check_has_no_number(build: Any) -> None:
    document = build.make_decision(untrusted_below=20.0, max_loss_increase=None)
    found = annexes(document)
    assert found.to_dict()["recommended"] == document.recommendation.holds
    assert "change of test loss" not in found.text


@pytest.mark.parametrize("mechanism", ["randomised-response", "noisy-descent"])
def test_anonymous_has_no_name(mechanism: str) -> None:
    document = made(mechanism)
    command = document.recommendation.model_copy(
        update={"command": "epsilens train survey.csv --label smokes"}
    )
    document = document.model_copy(update={"recommendation": command})
    assert "smokes" in annexes(document).text
    hidden = annexes(anonymise(document))
    for text in (hidden.text, hidden.markdown, hidden.to_json()):
        assert "smokes" not in text
        assert "column 1" in text or mechanism == "noisy-descent"


def test_other_mechanisms_are_named_with_their_reason() -> None:
    other = Alternative(
        **made("output-perturbation").recommendation.model_dump(), reason="It costs more."
    )
    text = annexes(made("noisy-descent", alternatives=[other])).assessment.text
    assert "Not recommended: output perturbation at ε = 1. It costs more." in text


def test_a_decision_gives_its_annexes() -> None:
    document = made("noisy-descent")
    found = Decision(document, ()).annexes(data="survey.csv")
    assert found == annexes(document, data="survey.csv")
    assert [annex.name for annex in found] == ["assessment", "checklist", "registry"]
    assert found.markdown.count("\n## ") == 3
    assert "```yaml\nurl_slug: null\n" in found.markdown
