# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import math
from types import ModuleType

import pytest
from rich.console import Console

from epsilens.document import view
from epsilens.errors import InputError
from epsilens.show import document_table, release_summary


def shown(renderable: object, width: int = 110) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(renderable)
    return stream.getvalue()


def test_a_long_grid_is_thinned_and_keeps_its_ends(build: ModuleType) -> None:
    text = shown(document_table(build.make_whatif()))
    rows = [line for line in text.splitlines() if " to " in line]
    assert len(rows) == 12
    assert rows[0].split()[0] == "0.1"
    assert rows[-1].split()[0] == "10"
    assert "12 of 30 rows shown" in text
    assert "estimated" in text.splitlines()[0]


def test_rows_are_shared_between_groups(build: ModuleType) -> None:
    table = document_table(build.make_whatif(groups=["a", "b", "c"]), max_rows=6)
    assert table.row_count == 6
    assert "group" in shown(table)


def test_a_short_grid_is_shown_whole(build: ModuleType) -> None:
    text = shown(document_table(build.make_whatif(epsilons=[0.5, 1.0, math.inf])))
    assert "rows shown" not in text
    assert "∞" in text
    assert "+0.0448" in text
    assert "−3.1 to −2.0" in text


def test_untrusted_rows_are_marked_in_words(build: ModuleType) -> None:
    text = shown(document_table(build.make_whatif(epsilons=[0.1, 1.0], untrusted_below=0.5)))
    assert text.splitlines()[4].split() == ["0.1", "–", "–", "–", "no"]


def test_columns_without_numbers_are_left_out(build: ModuleType) -> None:
    text = shown(document_table(build.make_whatif(regression=True, interval=False)))
    assert "accuracy" not in text
    assert "9 in 10" not in text
    assert "squared error" in text


def test_markup_in_names_is_only_text(build: ModuleType) -> None:
    text = shown(document_table(build.make_whatif(groups=["[red]a[/red]", "b"], epsilons=[1.0])))
    assert "[red]a[/red]" in text
    assert "[id]" in shown(document_table(build.make_inspect()))


def test_the_number_of_rows_must_be_positive(build: ModuleType) -> None:
    with pytest.raises(InputError, match="`max_rows` must be at least 1"):
        document_table(build.make_whatif(), max_rows=0)


def test_an_inspection_shows_what_can_be_protected(build: ModuleType) -> None:
    text = shown(document_table(build.make_inspect()))
    assert "6,366 rows, 3 columns" in text
    affair = next(line for line in text.splitlines() if "affair" in line)
    assert affair.split() == ["affair", "binary", "2", "–", "yes", "no,", "yes"]
    assert "left out: every value is different" in text


def test_a_release_states_its_budget(build: ModuleType) -> None:
    text = shown(release_summary(build.make_release()))
    assert "6,366 records released by randomised response." in text
    assert "smokes  ε = 1" in text
    assert "Budget spent by each record: ε = 1.5 (proven)." in text


def test_a_simulated_release_claims_no_proof(build: ModuleType) -> None:
    text = shown(release_summary(build.make_release(simulated=True)), width=200)
    assert "proven" not in text
    assert "Do not publish this file" in text


def test_an_infinite_budget_protects_nobody(build: ModuleType) -> None:
    document = build.make_release(record_epsilon=math.inf)
    assert "this release protects nobody" in shown(release_summary(document))


def test_gaps_have_a_table_that_fits_an_ordinary_terminal(build: ModuleType) -> None:
    document = build.make_whatif(groups=["all", "women"], epsilons=[0.5, 1.0])
    text = shown(document_table(build.with_gap_intervals(document), place=1), width=80)
    lines = [line for line in text.splitlines() if " to " in line and "yes" in line]
    assert [line.split()[0] for line in lines] == ["women", "1"]
    assert " ".join(lines[1].split()) == "1 −0.0128 to +0.0172 −2.7 to +0.3 yes"
    assert "…" not in text
    assert "A range holds 9 in 10 runs." in text
    assert "where it rises, the group falls behind" in " ".join(text.split())


def test_gaps_without_intervals_are_numbers(build: ModuleType) -> None:
    text = shown(document_table(build.make_whatif(groups=["women"], epsilons=[1.0]), place=1))
    assert "+0.0072" in text
    assert "9 in 10" not in text


def test_the_gaps_of_a_regression_are_of_loss_only(build: ModuleType) -> None:
    text = shown(
        document_table(build.make_whatif(groups=["women"], regression=True), place=1, max_rows=4)
    )
    assert "accuracy" not in text
    assert "loss gap (squared error)" in text
    assert "4 of 30 rows shown" in text


def test_without_gaps_there_is_no_table(build: ModuleType) -> None:
    assert len(view(build.make_whatif()).tables) == 1
