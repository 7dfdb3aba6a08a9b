# SPDX-License-Identifier: Apache-2.0
"""Charts and words of an audit."""

from __future__ import annotations

import io
import math

from rich.console import Console

from epsilens.display import audit_chart, save_chart
from epsilens.document import AuditDocument, Provenance, anonymise
from epsilens.reporting import audit_sentence, audit_table


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
    assert {row["what"] for row in rows} == {"at least (95 % sure)", "claimed", "true"}
    assert {row["at"] for row in rows if "at" in row} == {4.0}
    assert {row["says"] for row in rows if "from" in row} == {"ε ≥ 1.23"}
    assert "no evidence of a breach" in chart["description"]


def test_what_is_not_known_is_not_drawn(tmp_path):
    alone = audit(claimed_epsilon=None, claimed_delta=None, true_epsilon=math.inf)
    chart = audit_chart(alone)
    assert {row["what"] for row in values(chart.to_dict())} == {"at least (95 % sure)"}
    assert save_chart(chart, tmp_path / "audit.svg").stat().st_size > 1000


def test_a_number_that_is_no_bound_is_called_so():
    rows = values(audit_chart(audit(is_confidence_bound=False)).to_dict())
    assert "as printed (no bound)" in {row["what"] for row in rows}


def test_the_table_and_the_sentence():
    text = io.StringIO()
    Console(file=text, width=100).print(audit_table(audit()))
    for word in ("1.23 (proven, 95 % confidence)", "74 right of 86, 1,000 canaries", "path"):
        assert word in text.getvalue()
    assert audit_sentence(audit()).endswith("a better attack may exist.")
    broken = audit(is_broken=True, verdict="the claim is broken: ε is at least 5.")
    assert audit_sentence(broken) == "The claim is broken: ε is at least 5."
    text = io.StringIO()
    Console(file=text, width=100).print(audit_table(audit(is_confidence_bound=False)))
    assert "no bound" in text.getvalue()


def test_an_own_mechanism_has_no_name_when_anonymous():
    hidden = anonymise(audit(mechanism="hiv_release"))
    assert hidden.mechanism == "withheld"
    assert anonymise(audit()).mechanism == "rr"
