# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import ModuleType

from epsilens.document import (
    Alternative,
    Provenance,
    anonymise,
    example_document,
    load_document,
    to_json,
)
from epsilens.document.anonymise import WITHHELD_WARNING
from epsilens.document.wording import budgets_text
from epsilens.notes import Note


def test_groups_get_numbers_in_their_order_and_keep_their_cells(build: ModuleType) -> None:
    document = build.make_whatif(groups=["hiv", "all", "aids"], epsilons=[1.0, 2.0])
    hidden = anonymise(document)
    names = [cell.group for cell in hidden.cells]
    assert names == ["group 1"] * 2 + ["all"] * 2 + ["group 2"] * 2
    assert {item.group for item in hidden.intervals} == {"group 1", "all", "group 2"}
    assert [cell.loss_change for cell in hidden.cells] == [
        cell.loss_change for cell in document.cells
    ]
    assert document.cells[0].group == "hiv"


def test_what_a_decision_was_asked_is_kept(build: ModuleType) -> None:
    """The report compares with it what is chosen on the page."""
    named = ["noisy-descent", "randomised-response"]
    document = build.make_comparison(named=named)
    asked = anonymise(document).provenance.settings
    assert (asked["trust"], asked["protects"], asked["mechanisms"]) == ("curator", "answer", named)


def test_no_name_is_left_anywhere(build: ModuleType) -> None:
    document = build.make_whatif(
        groups=['SECRET == "SECRET"', "SECRET2"],
        warnings=["`SECRET` was dropped", "nothing"],
        settings={
            "label": "SECRET",
            "protect": ["SECRET", "SECRETcolumn"],
            "groups": {"SECRET2": "SECRET > 3"},
            "group": ["SECRET2=SECRET > 3"],
            "positive": "SECRET",
            "categories": {"SECRET": ["SECRET"]},
            "bins": {"SECRET": 10},
            "epsilon": {"SECRET": 1.0},
            "keep_probability": {"SECRET": 0.7},
            "data": "SECRET.csv",
            "method": "exact",
            "repeats": 20,
        },
    )
    for hidden in (
        anonymise(document),
        anonymise(build.make_release(columns=["SECRET"], epsilon={"SECRET": 1.0})),
    ):
        assert "SECRET" not in to_json(hidden)
        assert load_document(to_json(hidden)) == hidden
    settings = anonymise(document).provenance.settings
    assert settings["label"] == settings["protect"][0] == "column 1"
    assert settings["epsilon"] == {"column 1": 1.0}
    assert settings["repeats"] == 20
    assert settings["method"] == "exact"
    assert anonymise(document).warnings == [WITHHELD_WARNING]
    assert anonymise(document).provenance.schema_fingerprint is None


def test_a_risk_loses_the_names_of_its_protected_columns(build: ModuleType) -> None:
    protect = ["SECRET", "SECRET2"]
    settings = {
        "mechanism": "rr",
        "epsilon": {"SECRET": 1.0, "SECRET2": 2.0},
        "protect": protect,
        "shadow_models": 256,
        "estimator": "Pipeline",
        "loss": "logistic",
    }
    document = build.make_risk(
        protect=protect,
        settings=settings,
        notes=[Note("observed-domain", "the domain of SECRET was observed")],
    )
    hidden = anonymise(document)
    assert "SECRET" not in to_json(hidden)
    assert hidden.protect == hidden.provenance.settings["protect"] == ["column 1", "column 2"]
    assert hidden.provenance.settings["epsilon"] == {"column 1": 1.0, "column 2": 2.0}
    assert hidden.provenance.settings["mechanism"] == "rr"
    assert hidden.cells == document.cells
    assert hidden.n_targets == document.n_targets
    assert document.protect == protect


def test_a_federation_loses_the_names_of_its_protected_columns(build: ModuleType) -> None:
    settings = {
        "label": "smokes",
        "protect": ["smokes", "region"],
        "mode": "degrade",
        "skew": "label",
    }
    told = build.make_federation(provenance=Provenance(method="newton", settings=settings))
    hidden = anonymise(told)
    assert hidden.protect == ["column 1", "column 2"]
    assert hidden.provenance.settings == {
        "label": "column 1",
        "protect": ["column 1", "column 2"],
        "mode": "degrade",
        "skew": "label",
    }
    assert (hidden.versions, hidden.ledger) == (told.versions, told.ledger)


def test_a_grid_of_budgets_stays(build: ModuleType) -> None:
    for grid in ("0.1:10:30", "lin:0.001:10:30", "0.5,1,inf"):
        document = build.make_whatif(settings={"epsilon": grid})
        assert anonymise(document).provenance.settings["epsilon"] == grid


def test_numbers_typed_for_a_column_keep_its_number(build: ModuleType) -> None:
    document = build.make_inspect()
    names = [column.name for column in document.columns]
    settings = {
        "bins": [f"{names[1]}=0:100:10", f"{names[0]}=4"],
        "epsilon": f"{names[0]}=1.5,{names[2]}=inf",
        "categorical": [names[2]],
    }
    provenance = document.provenance.model_copy(update={"settings": settings})
    hidden = anonymise(document.model_copy(update={"provenance": provenance}))
    assert hidden.provenance.settings == {
        "bins": ["column 2=0:100:10", "column 1=4"],
        "epsilon": "column 1=1.5,column 3=inf",
        "categorical": ["column 3"],
    }


def test_an_inspection_loses_names_categories_notes_and_suggestion(build: ModuleType) -> None:
    document = build.make_inspect()
    hidden = anonymise(document)
    assert [column.name for column in hidden.columns] == ["column 1", "column 2", "column 3"]
    assert hidden.columns[0].categories == ["category 1", "category 2"]
    assert hidden.columns[1].categories is None
    assert hidden.suggestion is None
    text = to_json(hidden)
    for name in ("affair", "age", "[id]", "survey", "left out"):
        assert name not in text
    assert hidden.rows == document.rows


def test_anonymising_twice_changes_nothing_more(build: ModuleType) -> None:
    for document in (
        build.make_whatif(groups=["b", "a"]),
        build.make_release(),
        build.make_inspect(),
        build.make_value(),
        build.make_risk(protect=["b", "a"]),
    ):
        once = anonymise(document)
        assert anonymise(once) == once


def test_a_decision_loses_the_names_in_what_was_compared() -> None:
    asked = {"protect": ["SECRET", "SECRET2"], "epsilon": {"SECRET": 1.0, "SECRET2": 2.0}}
    cost = example_document("whatif", provenance={"method": "exact", "settings": asked})
    named = budgets_text(cost)
    decision = example_document("decision", cost=cost)
    curve = decision.mechanisms[0]
    chosen = decision.recommendation.model_copy(update={"sentence": f"Use {named}."})
    other = Alternative(**chosen.model_dump(), reason=f"{named} costs more.")
    changes = {"mechanisms": [curve], "recommendation": chosen, "alternatives": [other]}
    hidden = anonymise(decision.model_copy(update=changes))
    assert "SECRET" not in to_json(hidden)
    assert hidden.mechanisms[0].cells == curve.cells
    assert hidden.alternatives[0].reason.endswith("costs more.")


def test_a_note_that_names_nothing_stays() -> None:
    note, other = Note("mask-not-private", "neither is private"), Note("rows-dropped", "SECRET 2")
    hidden = anonymise(example_document("mask", notes=[note, other]))
    assert [kept.code for kept in hidden.notes] == ["mask-not-private", "rows-dropped"]
    # What it is about is said without the names.
    assert hidden.notes[1].text == "Rows with missing values were dropped. Names are withheld here."
