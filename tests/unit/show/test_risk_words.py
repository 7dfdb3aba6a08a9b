# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import math
import re
from types import ModuleType

import pytest
from rich.console import Console

from epsilens.document import EquivalentEpsilon, RiskCell, RiskDocument
from epsilens.document.sentences import holder_text
from epsilens.document.view import view
from epsilens.errors import InputError
from epsilens.notes import Note
from epsilens.show import document_table, risk_sentences
from epsilens.show.notebook import risk_html
from epsilens.show.risk import risk_panels, risk_rows

JUDGING = ("bad", "weak", "poor", "danger", "unsafe", "good", "red", "green")


def shown(thing: object, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(thing)
    return console.file.getvalue()


def titles(document: object) -> list[str]:
    return view(document).tables[0].titles


def test_randomised_response_leads_with_the_answer(build: ModuleType) -> None:
    document = build.make_risk()
    assert titles(document) == [
        *("ε", "reader guesses", "9 in 10 releases", "outside the data", "ceiling (proven)"),
        *("most exposed", "chance reaches", "p"),
    ]
    text = shown(document_table(document))
    assert "How often an attacker guesses the answer “affair”" in text
    assert "68.3%" in text
    assert "protects the answer, not membership" in " ".join(text.split())
    # Everything fits an ordinary terminal.
    assert "…" not in text


def test_noisy_training_leads_with_membership(build: ModuleType) -> None:
    document = build.make_risk(mechanism="dpsgd")
    assert titles(document) == [
        *("ε", "most exposed", "chance reaches", "p", "ceiling (proven)"),
        *("found at 1% false alarms", "ε at least (proven)", "accuracy"),
    ]
    text = shown(document_table(document))
    assert "(δ = 1e-5)" in text
    assert "…" not in text


def test_a_column_without_numbers_is_left_out(build: ModuleType) -> None:
    cell = RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.6)
    assert titles(build.make_risk(cells=[cell])) == ["ε", "most exposed"]


def test_a_long_grid_is_thinned_with_both_ends(build: ModuleType) -> None:
    document = build.make_risk(epsilons=[float(epsilon) for epsilon in range(1, 41)])
    table = document_table(document, max_rows=5)
    assert table.row_count == 5
    text = shown(table)
    assert "5 of 40 rows shown" in text
    assert re.search(r"\n +1 ", text)
    assert re.search(r"\n +40 ", text)
    with pytest.raises(InputError, match="max_rows"):
        document_table(document, max_rows=1)


def test_names_from_the_data_are_plain_text(build: ModuleType) -> None:
    document = build.make_risk(protect=["[red]hiv[/red]"])
    assert "“[red]hiv[/red]”" in shown(document_table(document))


def test_the_sentences_say_rate_range_baseline_and_ceiling(build: ModuleType) -> None:
    document = build.make_risk(epsilons=[0.1, 1.0, 10.0], leak=0.0)
    answer, ceiling, advantage, membership = risk_sentences(document)
    assert answer == (
        "At ε = 1 an attacker who sees only the published model and all other columns guesses the "
        "answer “affair” of 69.8% of the people in the data (measured; 9 in 10 releases: "
        "68.8–70.8%). Of people outside the training data the attack guesses 69.6% (measured)."
    )
    assert ceiling == (
        "From everybody else's data an attacker guesses up to 73.0% of the answers; with the person's "
        "own randomised answer at most 85.5% (proven given that baseline)."
    )
    assert advantage == (
        "Of the answers that the rest of the data do not give away, at most 46.3% become guessable "
        "(advantage, proven)."
    )
    assert membership.startswith(
        "Membership of the training data is not distinguishable from chance: the most exposed of "
        "4,774 records is recognised 61.5% of the time; chance alone reaches 63.3% (measured, p = 0.40)."
    )


def test_a_membership_that_shows_is_said_with_its_bound(build: ModuleType) -> None:
    said = risk_sentences(build.make_risk(leak=0.2), epsilon=10.0)[-1]
    assert "not distinguishable" not in said
    assert "chance alone reaches 63.3% (measured, p = 0.001)." in said
    assert "With 95 % confidence some record is recognised at least 7" in said
    # A bound below one half says nothing.
    cell = build.make_risk(leak=0.2).cells[-1].model_copy(update={"asr_max_lower_bound": 0.45})
    assert "confidence" not in risk_sentences(build.make_risk(cells=[cell]))[-1]


def test_without_a_p_value_the_floor_decides(build: ModuleType) -> None:
    for rate, words in ((0.6, "not distinguishable from chance:"), (0.7, "is recognised 70.0%")):
        cell = RiskCell(epsilon=1.0, mechanism="rr", asr_max=rate, asr_max_null_q95=0.63)
        (said,) = risk_sentences(build.make_risk(cells=[cell]))
        assert words in said
        assert "at ε = 1" in said


def test_a_ceiling_is_rounded_up_and_a_useless_one_is_called_so(build: ModuleType) -> None:
    changes = {"answer_inference_ceiling": 0.86201}
    cell = build.make_risk(epsilons=[1.0]).cells[0].model_copy(update=changes)
    assert "answer at most 86.3% (" in risk_sentences(build.make_risk(cells=[cell]))[1]
    assert risk_sentences(build.make_risk(epsilons=[math.inf]))[1] == (
        "Nothing is proven to stay hidden (the ceiling is 100.0%)."
    )


def test_noisy_training_in_words(build: ModuleType) -> None:
    said = risk_sentences(build.make_risk(mechanism="dpsgd"), epsilon=10.0)
    assert said[0].startswith("At ε = 10, δ = 1e-5, no attack can tell members")
    assert "ε is at least 2.2; the accounting proves that it is at most 10" in said[2]
    assert "predict 72.0% of the test rows correctly (measured; without privacy" in said[3]
    # At a small ε the attack proves nothing, and nothing is said of it.
    small = " ".join(risk_sentences(build.make_risk(mechanism="dpsgd"), epsilon=0.1))
    assert "ε is at least" not in small


def test_several_columns_and_their_sum(build: ModuleType) -> None:
    several = build.make_risk(epsilons=[1.0], protect=["a", "b"], record_factor=2.0)
    assert risk_sentences(several)[0].startswith(
        "At ε = 1 for each column (ε = 2 for a record) an attacker who sees only the published model "
        "and all other columns guesses the answers “a” and “b” at once of"
    )
    mapped = build.make_risk(epsilons=[None], protect=["a", "b"], record_factor=3.0)
    assert risk_sentences(mapped)[0].startswith("At ε = 3 for a record an attacker")
    assert titles(mapped)[0] == "ε of a record"


def test_two_tables_are_compared_in_words(build: ModuleType) -> None:
    def last(**found: float | None) -> str:
        item = EquivalentEpsilon(epsilon=1.0, **found)
        return risk_sentences(build.make_risk(epsilons=[1.0], equivalent_epsilon=[item]))[-1]

    assert last(equivalent=3.9, low=1.2, high=10.0) == (
        "ε = 3.9 exposes the most exposed record of the other table as much as ε = 1 exposes this one's "
        "(estimated; 1.2 to 10 cannot be told apart)."
    )
    assert "Some ε from 1.2 to 10 exposes" in last(equivalent=None, low=1.2, high=10.0)
    assert last(equivalent=None, low=None, high=None).startswith("No ε of the grid exposes")


def test_no_word_and_no_colour_judges_a_budget(build: ModuleType) -> None:
    for mechanism in ("rr", "dpsgd"):
        document = build.make_risk(mechanism=mechanism)
        words = " ".join(risk_sentences(document)) + shown(document_table(document))
        assert not set(words.lower().replace(".", " ").split()) & set(JUDGING)
        console = Console(
            file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor"
        )
        console.print(document_table(document))
        assert "\x1b[3" not in console.file.getvalue().replace("\x1b[3m", "")


def test_nothing_asked_nothing_said(build: ModuleType) -> None:
    assert risk_sentences(build.make_risk(cells=[])) == ["No budget was asked about."]
    assert document_table(build.make_risk(cells=[])).row_count == 0


def test_a_notebook_shows_the_same_rows(build: ModuleType) -> None:
    document = build.make_risk(protect=["<b>hiv</b>"], notes=[Note("unclassified", "take care")])
    page = risk_html(document)
    assert page.count("<tr>") == 11
    assert "<b>" not in page
    assert "&lt;b&gt;hiv" in page
    for row in view(document).tables[0].lines[3].rows:
        assert f">{row.text}<" in page
    assert "1 warning: read document.warnings" in page
    assert "not private itself" in page


def held(document: RiskDocument) -> RiskDocument:
    """The same risk, with what whoever holds the randomised answers guesses."""
    cells = [
        cell.model_copy(
            update={"holder_rate": 0.8, "holder_rate_low": 0.78, "holder_rate_high": 0.82}
        )
        for cell in document.cells
    ]
    return document.model_copy(update={"cells": cells})


def test_whoever_holds_the_randomised_answers_comes_first(build: ModuleType) -> None:
    document = held(build.make_risk())
    assert titles(document)[:3] == ["ε", "holder guesses", "reader guesses"]
    assert any(note.startswith("Holder: whoever holds") for note in view(document).notes)
    panel = risk_panels(document)[0]
    assert [line.field for line in panel.series[:2]] == ["holder_rate", "answer_inference_rate"]
    assert panel.series[0].band == ("holder_rate_low", "holder_rate_high")
    fields = [row["holder_rate"] for row in risk_rows(document)]
    assert fields == [80.0] * len(fields)


def test_both_attackers_have_a_sentence_of_at_most_25_words(build: ModuleType) -> None:
    for protect in (["smokes"], ["smokes", "drinks"]):
        document = held(build.make_risk()).model_copy(update={"protect": protect})
        first = risk_sentences(document)[0]
        holder, reader = re.split(r"(?<=\.) (?=[A-Z])", first)[:2]
        assert "the holder of the randomised answers guesses" in holder
        assert reader.startswith("A reader of the published model and all other columns guesses")
        for sentence in (holder, reader):
            assert len(sentence.split()) <= 25 + 3 * (len(protect) - 1)
    cell = document.cells[0]
    said = holder_text(build.make_whatif().cells[0], cell)
    assert (
        "guesses the answers of 80.0% of the people (measured; 9 in 10 releases: 78.0–82.0%" in said
    )
