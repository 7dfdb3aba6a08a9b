# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from epsilens.document import load_document, to_dict
from epsilens.show import write_report
from epsilens.show.report_data import isolated, readable_document, undirected

TURNING = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))]


@pytest.mark.parametrize("character", TURNING)
def test_what_turns_a_text_is_shown_as_what_it_is(character: str) -> None:
    assert isolated(f"a{character}b") == f"a⟨U+{ord(character):04X}⟩b"
    # Two names that differ in nothing else stay two names.
    assert isolated(f"a{character}") != isolated("a")


def test_names_from_right_to_left_are_set_apart() -> None:
    assert (
        isolated("\u05e2\u05d9\u05e9\u05d5\u05df") == "\u2068\u05e2\u05d9\u05e9\u05d5\u05df\u2069"
    )
    assert isolated("Größe <b> & 5") == "Größe <b> & 5"
    # The end of an isolate inside the name does not end ours.
    assert isolated("\u05d0\u2069").count("\u2069") == 1
    assert undirected("\u05d0") == "\u05d0"


def test_only_names_change(build: ModuleType) -> None:
    document = build.make_decision(groups=["all", "women"], warnings=["take care"])
    assert to_dict(readable_document(document)) == to_dict(document)


def test_the_document_in_the_page_keeps_its_names(build: ModuleType, tmp_path: Path) -> None:
    name = "smo\u202ekes"
    document = build.make_whatif(groups=[name], settings={"protect": [name]}, warnings=[name])
    text = write_report(
        document, tmp_path / "r.html", question={"groups": {name: "women\u202e"}}
    ).read_text("utf-8")
    shown, _, embedded = text.partition('id="document">')
    assert "\u202e" not in shown
    assert "women⟨U+202E⟩" in shown
    assert load_document(embedded.partition("</script>")[0]) == document
