# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import html
import math
from html.parser import HTMLParser
from types import ModuleType

import pytest

from epsilens.errors import InputError
from epsilens.show.notebook import decision_html, whatif_html
from epsilens.whatif import LossChangeEstimate


class Table(HTMLParser):
    """Collects the rows of a table, and every tag that was met."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= {"style", "scope"}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_a_result_shows_itself_in_a_notebook(build: ModuleType) -> None:
    result = LossChangeEstimate(build.make_whatif(epsilons=[0.5, 1.0, math.inf]), loss_draws=())
    table = Table(result._repr_html_())
    assert table.rows == [
        ["ε", "change of test loss (nats)", "9 in 10 runs", "accuracy (points)", "trusted"],
        ["0.5", "+0.0884", "+0.0540 to +0.1228", "−5.7 to −4.2", "yes"],
        ["1", "+0.0448", "+0.0204 to +0.0693", "−3.1 to −2.0", "yes"],
        ["∞", "0.0000", "0.0000 to 0.0000", "0.0 to 0.0", "yes"],
    ]


def test_one_line_sums_up(build: ModuleType) -> None:
    lines = whatif_html(build.make_whatif(groups=["all", "women"])).splitlines()
    assert lines[1] == (
        "<p>What a privacy budget costs (estimated); 2 groups, 30 budgets from ε = 0.1 to 10; "
        "before anything is randomised: test loss 0.5432 nats, accuracy 72.4%.</p>"
    )
    measured = whatif_html(build.make_whatif(epsilons=[1.0], method="retrain"))
    assert "costs (measured); ε = 1; before" in measured


def test_a_long_grid_is_thinned_and_keeps_its_ends(build: ModuleType) -> None:
    table = Table(whatif_html(build.make_whatif(groups=["a", "b"]), max_rows=6))
    assert [(row[0], row[1]) for row in table.rows[1:]] == [
        ("a", "0.1"),
        ("a", "0.924"),
        ("a", "10"),
        ("b", "0.1"),
        ("b", "0.924"),
        ("b", "10"),
    ]
    assert "6 of 60 rows shown; to_frame() has them all." in table.text


def test_everything_is_escaped(build: ModuleType) -> None:
    hostile = "<script>alert(1)</script>\"'&amp;<!--"
    document = build.make_whatif(groups=[hostile, "b"], epsilons=[1.0], warnings=[hostile])
    table = Table(whatif_html(document))
    assert table.rows[1][0] == hostile
    assert table.tags == {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "small"}


def test_failures_and_warnings_are_said(build: ModuleType) -> None:
    table = Table(
        whatif_html(
            build.make_whatif(epsilons=[0.1, 1.0], untrusted_below=0.5, warnings=["a", "b"])
        )
    )
    assert [row[-1] for row in table.rows[1:]] == ["no", "yes"]
    assert table.rows[1][1] == "–"
    assert "No estimate at ε ≤ 0.1: one run may move the predictions too far" in table.text
    assert "2 warnings: read document.warnings" in table.text
    assert "not private itself" in table.text


def test_gaps_are_shown_with_their_intervals(build: ModuleType) -> None:
    document = build.with_gap_intervals(build.make_whatif(groups=["all", "women"], epsilons=[1.0]))
    table = Table(whatif_html(document))
    assert table.rows[0][-3:] == ["loss gap (nats)", "accuracy gap (points)", "trusted"]
    assert table.rows[1][-3:] == ["–", "–", "yes"]
    assert table.rows[2][-3:] == ["−0.0128 to +0.0172", "−2.7 to +0.3", "yes"]


def test_columns_without_numbers_are_left_out(build: ModuleType) -> None:
    table = Table(whatif_html(build.make_whatif(regression=True, interval=False)))
    assert table.rows[0] == ["ε", "change of test loss (squared error)", "trusted"]
    assert "accuracy" not in table.text


def test_different_budgets_per_column_are_shown_by_record(build: ModuleType) -> None:
    table = Table(whatif_html(build.make_whatif(epsilons=[None])))
    assert table.rows[0][0] == "ε of a record"
    assert table.rows[1][0] == "2"


def test_without_cells_there_is_no_table(build: ModuleType) -> None:
    empty = build.make_whatif().model_copy(update={"cells": [], "intervals": []})
    assert Table(whatif_html(empty)).rows == []


def test_the_number_of_rows_must_be_positive(build: ModuleType) -> None:
    with pytest.raises(InputError, match="`max_rows` must be at least 1"):
        whatif_html(build.make_whatif(), max_rows=0)


def test_a_decision_leads_with_the_recommendation(build: ModuleType) -> None:
    document = build.make_decision()
    page = decision_html(document, max_rows=4)
    assert page.startswith(f"<div>\n<p><b>{html.escape(document.recommendation.sentence)}")
    # A head, four rows from end to end, and the recommended one.
    assert page.count("<tr>") == 6
    assert "1.49 (recommended)" in page
    assert "ceiling (proven)" in page
    assert "not private itself" in page
    assert "5 of 30 rows shown" in page


def test_a_decision_without_a_budget_recommends_none(build: ModuleType) -> None:
    page = decision_html(build.make_decision(max_attack_rate=0.5))
    assert "(recommended)" not in page
    assert "No ε of the grid keeps attackers within 50%" in page


def test_names_in_a_decision_are_escaped(build: ModuleType) -> None:
    document = build.make_decision(epsilons=[1.0, 2.0])
    chosen = document.recommendation.model_copy(update={"sentence": "<script>"})
    page = decision_html(document.model_copy(update={"recommendation": chosen}))
    assert "<script>" not in page
