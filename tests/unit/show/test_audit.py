# SPDX-License-Identifier: Apache-2.0
"""Charts and words of an audit."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from epsilens.document import AuditDocument, Provenance, anonymise, view
from epsilens.show import audit_chart, document_table, save_chart


def audit(**changes):
    content = {
        "provenance": Provenance(method="approximate", settings={"mechanism": "rr"}),
        "mechanism": "rr",
        "epsilon_lower_bound": 1.239,
        "confidence": 0.95,
        "method": "approximate",
        "selection": "path",
        "is_confidence_bound": True,
        "assumptions": ["(epsilon, delta)-differential privacy"],
        "claimed_epsilon": 4.0,
        "claimed_delta": 1e-6,
        "true_epsilon": 4.0,
        "is_broken": False,
        "verdict": "no evidence of a breach: ε is at least 1.23.",
        "n_canaries": 1000,
        "n_guesses": 86,
        "n_correct": 74,
    }
    return AuditDocument(**{**content, **changes})


def values(chart):
    shared = [chart] if "data" in chart else []
    return [
        row
        for part in (*shared, *chart["layer"])
        if "data" in part
        for row in chart.get("datasets", {}).get(
            part["data"].get("name"), part["data"].get("values", [])
        )
    ]


def test_bound_claim_and_truth_are_drawn():
    chart = audit_chart(audit()).to_dict()
    rows = values(chart)
    assert {row["what"] for row in rows} == {"at least (95 % sure)", "claimed", "theoretical"}
    assert {row["at"] for row in rows if "at" in row} == {4.0}
    assert {row["says"] for row in rows if "from" in row} == {"ε ≥ 1.23"}
    assert "no evidence of a breach" in chart["description"]


def test_what_is_not_known_is_not_drawn(tmp_path):
    alone = audit(claimed_epsilon=None, claimed_delta=None, true_epsilon=math.inf)
    chart = audit_chart(alone)
    assert {row["what"] for row in values(chart.to_dict())} == {"at least (95 % sure)"}
    assert save_chart(chart, tmp_path / "audit.svg").stat().st_size > 1000


def test_a_number_that_is_no_bound_is_called_so():
    chart = audit_chart(audit(is_confidence_bound=False)).to_dict()
    rows = values(chart)
    assert "as printed (no bound)" in {row["what"] for row in rows}
    assert {row["says"] for row in rows if "from" in row} == {"1.23"}
    assert "bar" not in {layer["mark"]["type"] for layer in chart["layer"]}


def test_a_claim_at_the_start_of_the_axis_is_labelled_on_its_right():
    broken = audit(epsilon_lower_bound=6.3, claimed_epsilon=0.01, true_epsilon=None)
    assert {row["near"] for row in values(audit_chart(broken).to_dict()) if "at" in row} == {True}
    assert {row["near"] for row in values(audit_chart(audit()).to_dict()) if "at" in row} == {False}


@pytest.mark.parametrize(
    ("bound", "claim", "side"), [(3.9, 4.0, "right"), (4.1, 4.0, "left"), (0.1, 4.0, "left")]
)
def test_the_label_of_the_bound_lies_away_from_the_claim(bound, claim, side):
    chart = audit_chart(audit(epsilon_lower_bound=bound, claimed_epsilon=claim)).to_dict()
    labels = [part["mark"] for part in chart["layer"] if part["mark"]["type"] == "text"]
    assert labels[0]["align"] == side


def test_no_line_of_the_subtitle_is_a_single_word():
    long = audit(verdict="no evidence of a breach: " + "with many words more " * 4 + "is claimed.")
    lines = audit_chart(long).to_dict()["title"]["subtitle"]
    assert len(lines) == 2
    assert min(map(len, lines)) > 30


def test_the_label_of_a_bound_above_all_has_room():
    chart = audit_chart(audit(epsilon_lower_bound=6.3, claimed_epsilon=1.0)).to_dict()
    bar = next(row for row in values(chart) if "to" in row)
    assert bar["to"] >= 1.2 * bar["from"]  # 93 of 560 pixels, for a dozen letters of 7


def test_confidence_is_not_rounded_to_certainty():
    sure = audit(confidence=0.99999)
    assert "at least (99.999 % sure)" in {
        row["what"] for row in values(audit_chart(sure).to_dict())
    }
    text = io.StringIO()
    Console(file=text, width=100).print(document_table(sure))
    assert "99.999 % confidence" in text.getvalue()


def test_the_table_and_the_sentence():
    text = io.StringIO()
    Console(file=text, width=100).print(document_table(audit()))
    for word in ("1.23 (proven, 95 % confidence)", "74 right of 86, 1,000 canaries", "path"):
        assert word in text.getvalue()
    assert view(audit()).sentence.endswith("a better attack may exist.")
    broken = audit(is_broken=True, verdict="the claim is broken: ε is at least 5.")
    assert view(broken).sentence == "The claim is broken: ε is at least 5."
    text = io.StringIO()
    Console(file=text, width=100).print(document_table(audit(is_confidence_bound=False)))
    assert "as printed" in text.getvalue()
    assert "1.23 (no bound)" in text.getvalue()
    assert "ε is at least" not in text.getvalue()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon_lower_bound": 0.0}, "0 (nothing is proved)"),
        ({"method": "pure"}, "1.23 at δ = 0 (proven, 95 % confidence)"),
        ({"selection": "100"}, "100 on each side, fixed beforehand"),
        ({"claimed_delta": 1e-6}, "at δ = 1e-6"),
    ],
)
def test_the_table_says_what_a_number_is(changes, words):
    text = io.StringIO()
    Console(file=text, width=100).print(document_table(audit(**changes)))
    assert words in text.getvalue()


def test_an_own_mechanism_has_no_name_when_anonymous():
    hidden = anonymise(audit(mechanism="hiv_release"))
    assert hidden.mechanism == "withheld"
    assert anonymise(audit()).mechanism == "rr"
