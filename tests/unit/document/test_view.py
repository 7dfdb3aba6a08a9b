# SPDX-License-Identifier: Apache-2.0
"""A number is worded once: every surface shows the rows of the same view."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from epsilens.document import NUMBER_TYPES, View, view
from epsilens.document.wording import NOTHING
from epsilens.show import document_table
from epsilens.show.notebook import decision_html, risk_html, whatif_html
from epsilens.show.report_data import cell_data

EPSILONS = [0.5, 1.0, 2.0]


def printed(table: object) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


@pytest.fixture
def documents(build: ModuleType) -> list[Any]:
    return [
        build.make_whatif(epsilons=EPSILONS, groups=["all", "women"]),
        build.make_risk(epsilons=EPSILONS),
        build.make_risk(epsilons=EPSILONS, mechanism="dpsgd"),
        build.make_decision(epsilons=EPSILONS),
        build.make_release(),
        build.make_inspect(),
        build.make_value(),
        build.make_federation(),
    ]


def test_every_kind_has_a_view(documents: list[Any]) -> None:
    for document in documents:
        shown = view(document)
        assert isinstance(shown, View)
        assert shown.title
        assert shown.rows or shown.tables or shown.sentences
        for table in shown.tables:
            assert all(len(line.rows) == len(table.keys) for line in table.lines)
            assert all([row.key for row in line.rows] == table.keys for line in table.lines)


def test_a_row_has_a_text_and_a_kind_of_number(documents: list[Any]) -> None:
    for document in documents:
        shown = view(document)
        lines = [line.rows for table in shown.tables for line in table.lines]
        for row in (row for rows in [shown.rows, *lines] for row in rows):
            assert row.text or not row.is_number
            assert row.kind is None or row.kind in NUMBER_TYPES
            if row.number is None and row.is_number and row.key.endswith(("_change", "_rate")):
                assert row.text == NOTHING


def test_terminal_notebook_and_report_show_the_same_texts(build: ModuleType) -> None:
    document = build.make_decision(epsilons=EPSILONS)
    for cell, line in zip(document.cost.cells, view(document).tables[0].lines, strict=True):
        page = cell_data(document, cell)
        assert page["loss"] == line["loss_change"].text
        assert page["accuracy"] == line["accuracy_change"].text
        assert page["risk"]["guessed"] == line["answer_inference_rate"].text
        assert page["risk"]["ceiling"] == line["answer_inference_ceiling"].text
        for key in ("loss_change", "answer_inference_rate", "answer_inference_ceiling"):
            assert line[key].text in printed(document_table(document))
            assert f">{line[key].text}<" in decision_html(document)


def test_the_tables_of_a_what_if_and_of_a_risk_are_those_of_the_view(build: ModuleType) -> None:
    cost, risk = build.make_whatif(epsilons=EPSILONS), build.make_risk(epsilons=EPSILONS)
    for document, table, html in (
        (cost, document_table, whatif_html),
        (risk, document_table, risk_html),
    ):
        text, page = printed(table(document)), html(document)
        for line in view(document).tables[0].lines:
            for row in line.rows:
                if row.title in text:
                    assert row.text in text
                    assert f">{row.text}<" in page


def test_a_cost_that_failed_its_check_has_no_number(build: ModuleType) -> None:
    document = build.make_decision(untrusted_below=1.5, epsilons=EPSILONS)
    for shown in (view(document), view(document.cost)):
        for line in shown.tables[0].lines:
            is_known = line["trusted"].text == "yes"
            costs = [row for row in line.rows if row.key.startswith(("loss_", "accuracy_"))]
            assert is_known or all(row.number is None and row.text == NOTHING for row in costs)
            assert is_known == (line["loss_change"].number is not None)


def test_a_few_lines_are_shown_with_both_ends_and_the_recommended_one(build: ModuleType) -> None:
    epsilons = [0.1 * 1.2**k for k in range(40)]
    (table,) = view(build.make_decision(epsilons=epsilons)).tables
    few = table.thinned(5, "the file has")
    assert 5 <= len(few.lines) <= 6
    assert (few.lines[0], few.lines[-1]) == (table.lines[0], table.lines[-1])
    assert [line for line in table.lines if line.is_chosen] == [
        line for line in few.lines if line.is_chosen
    ]
    assert few.notes[-1] == f"{len(few.lines)} of 40 rows shown; the file has them all."
    assert table.thinned(40, "the file has") == table


def test_columns_without_any_number_are_left_out(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=EPSILONS)
    (table,) = view(document).tables[:1]
    assert "loss_gap_change" not in table.select(table.keys).keys
    named = table.select({"loss_change": "loss"})
    assert (named.keys, named.titles) == (["loss_change"], ["loss"])
