# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

import epsilens
from epsilens.errors import (
    COMMAND_LINE,
    PYTHON,
    ApproximationWarning,
    PrivacyLeakWarning,
    setting,
)
from epsilens.notes import NOTES, Note, distinct_notes, note_of_warning


def test_of_two_notes_of_one_fact_the_first_stays_whatever_their_words() -> None:
    observed = Note("observed-domain", f"observed. Declare it with {setting('categories')}.", "sex")
    again = Note("observed-domain", "taken from the data.", "sex")
    other = Note("observed-domain", "observed.", "age")
    dropped = Note("rows-dropped", "2 rows were dropped")
    assert distinct_notes([dropped, observed, again, other, dropped]) == [dropped, observed, other]


def test_notes_without_a_subject_are_one_only_if_they_say_the_same() -> None:
    first, second = Note("unclassified", "one"), Note("unclassified", "two")
    assert distinct_notes([first, second, first]) == [first, second]


def test_a_warning_becomes_the_note_that_it_came_from() -> None:
    note = Note("observed-domain", f"Declare it with {setting('categories')}.", "sex")
    with pytest.warns(PrivacyLeakWarning, match="Declare it with `categories`") as caught:
        note.warn(PrivacyLeakWarning)
    (one,) = caught
    assert one.filename == __file__
    assert note_of_warning(one.message) == note
    assert note_of_warning(one.message).subject == "sex"


def test_a_warning_without_a_code_is_unclassified() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("it is uncertain", ApproximationWarning, stacklevel=1)
    assert note_of_warning(caught[0].message) == Note("unclassified", "it is uncertain")


def test_a_note_is_written_in_the_terms_of_its_surface() -> None:
    note = Note("observed-domain", f"Declare it with {setting('categories')}.")
    assert note.render(PYTHON) == "Declare it with `categories`."
    assert note.render(COMMAND_LINE) == "Declare it with `--categories`."


@pytest.mark.parametrize(
    "sign", ["\ue000", "\ue000\ue001", "\ue003", "\ue004", "\ue005", "\ue003\ue004"]
)
def test_a_name_with_the_signs_of_marks_breaks_nothing(sign: str) -> None:
    note = Note("column-left-out", f"{sign}age: left out. Use {setting('drop')}.")
    assert "age: left out" in note.render(COMMAND_LINE)


def test_a_code_of_a_later_version_counts_as_a_warning() -> None:
    assert Note("not-yet-known", "text").severity == "warning"
    assert Note("not-yet-known", "text").has_names


def test_every_code_is_a_short_word_with_a_meaning() -> None:
    for code, kind in NOTES.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert kind.severity in {"warning", "note"}
        assert kind.meaning.endswith(".")
        assert kind.meaning[0].isupper()


def test_every_code_that_is_used_is_in_the_list_and_the_other_way_round() -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for path in Path(epsilens.__file__).parent.rglob("*.py")
        if path.name != "notes.py" or path.parent.name != "epsilens"
    ]
    used = {
        code
        for source in sources
        for code in re.findall(r"\b(?:Note|_warn_of)\(\s*\"([a-z-]+)\"", source)
    }
    assert used <= set(NOTES)
    unused = {code for code in NOTES if not any(f'"{code}"' in source for source in sources)}
    assert not unused
