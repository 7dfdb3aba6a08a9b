# SPDX-License-Identifier: Apache-2.0
"""What `decide` and the demo print can be read: few words, short sentences, and plain ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_path = Path(__file__).with_name("readability.py")
_spec = importlib.util.spec_from_file_location("golden_readability", _path)
readability = sys.modules["golden_readability"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(readability)

EXPECTED = Path(__file__).parent / "expected"
NAMES = sorted(
    path.stem
    for path in (*EXPECTED.glob("decide*.txt"), EXPECTED / "demo.txt")
    if not path.stem.endswith("-json")
)
NOT_PARTED = ("demo", "decide-proven-only")
"""Outputs whose recommendation is not a block of its own: the demo tells a story first, and with --quiet no
picture stands between the recommendation and the facts."""
MOST_WORDS = 50
LONGEST_SENTENCE = 25
LEAST_EASE = 50.0


def stored(name: str) -> str:
    return (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_is_plain(name):
    """Numbers, commands, tables, pictures and names of columns are left out: see `readability`."""
    found = readability.read(readability.prose(stored(name)))
    assert len(found.longest) <= LONGEST_SENTENCE, " ".join(found.longest)
    assert found.ease >= LEAST_EASE


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_PARTED])
def test_a_recommendation_has_fifty_words_at_most(name):
    found = readability.read(readability.recommendation(stored(name)))
    assert 1 <= len(found.sentences) <= 4
    assert found.n_words <= MOST_WORDS


def test_words_and_sentences_are_counted_by_the_rule():
    text = (
        "Use ε = 2.04 (δ = 1e-5). At most 9.0% of “smokes” is lost; it's a well-known\nlimit: "
        "see `--table`. 3 more mistakes."
    )
    found = readability.read(text)
    assert found.sentences == (
        ("Use",),
        ("At", "most", "of", "is", "lost", "it's", "a", "well-known", "limit", "see"),
        ("more", "mistakes"),
    )
    assert found.longest == found.sentences[1]
    assert [readability.syllable_count(word) for word in ("well-known", "answer")] == [2, 2]


def test_tables_pictures_commands_and_files_are_no_prose():
    text = (
        "$ epsilens decide\nexit code 0\n\n--- standard output\nUse it.\nIt is\nsafe.\n\n"
        " more mistakes\n   │ R\n\nNext: epsilens train\nA title of a table\n\n 1  2\n\n"
        "Holder: whoever.\n\n--- report.html, its text\nNo.\n"
    )
    assert readability.prose(text) == "Use it. It is safe. Holder: whoever."
    assert readability.recommendation(text) == "Use it. It is safe."
