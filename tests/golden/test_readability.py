# SPDX-License-Identifier: Apache-2.0
"""What `decide`, the demo, the report and the served page say can be read: few words, short sentences, and plain
ones."""

from __future__ import annotations

import importlib.util
import sys
from importlib import resources
from pathlib import Path

import pytest

from epsilens.show import write_report

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


def documents(build):
    """Return a document of every kind of report, and of what is hard to say."""
    grid = build.geometric(0.1, 10, 6)
    asked = {"groups": ["all", "women"], "epsilons": grid}
    several = ["affair", "smokes", "income"]
    return {
        "comparison": build.make_comparison(**asked),
        "by rate": build.make_comparison(**asked, max_attack_rate=0.8, max_accuracy_loss=0.5),
        "no mechanism": build.make_comparison(max_accuracy_loss=0.01, max_advantage=0.001),
        "nobody": build.make_comparison(trust="nobody", untrusted_below=0.5),
        "records": build.make_comparison(mechanisms=build.ALL_OTHERS, protects="record"),
        "several": build.make_comparison(protect=several, epsilons=grid),
        "randomised": build.make_decision(**asked),
        "no ε": build.make_decision(epsilons=grid, max_attack_rate=0.5),
        "failed": build.make_decision(
            epsilons=grid, untrusted_below=0.4, max_loss_increase=None, max_attack_rate=0.75
        ),
        "what-if": build.make_whatif(**asked),
        "regression": build.make_whatif(epsilons=grid, regression=True),
    }


def require_plain(page):
    """Check the text of a page, what its program shows of other budgets, and texts to copy."""
    found = readability.Page.of(page)
    for kind in ("blocks", "data", "annexes"):
        if blocks := getattr(found, kind):
            every, prose = readability.read_blocks(blocks)
            assert len(every.longest) <= LONGEST_SENTENCE, f"{kind}: {' '.join(every.longest)}"
            assert prose.ease >= LEAST_EASE, kind
    return found


def test_reports_are_plain(build, tmp_path):
    for name, document in documents(build).items():
        path = write_report(document, tmp_path / "r.html", question={"data": "survey.csv"})
        found = require_plain(path.read_text(encoding="utf-8"))
        assert len(found.blocks) > 50, name
        assert found.data, name
        assert bool(found.annexes) == (name not in ("what-if", "regression"))
        if name not in ("what-if", "regression"):
            said = readability.read(document.recommendation.sentence)
            assert said.n_words <= MOST_WORDS, name


def test_the_served_page_is_plain():
    page = resources.files("epsilens") / "app" / "static" / "index.html"
    found = require_plain(page.read_text(encoding="utf-8"))
    assert len(found.blocks) > 50


def test_the_text_of_a_page_is_read_in_blocks():
    page = (
        '<h1>Protect <bdi>it</bdi> from <label class="unseen">Who</label><select><option>all</option>'
        "<option selected>most</option></select>: at most <input> more.</h1><style>p { x: y }</style>"
        '<svg aria-label="No"><path d="1"/><text>tick</text></svg><p title="Spoken">One. Two.</p>'
        '<pre><code>a command</code></pre><pre id="annex-a">To copy.\n- more</pre>'
        '<script id="page-data">{"groups": [{"sentence": "Shown.", "name": "no"}]}</script>'
    )
    found = readability.Page.of(page)
    blocks = {" ".join(block.split()) for block in found.blocks if block.strip()}
    assert blocks == {"Who", "all", "Protect it from most: at most more.", "Spoken", "One. Two."}
    assert found.annexes == ["To copy.", "- more"]
    assert found.data == ["Shown."]
    every, prose = readability.read_blocks(["A heading", "One two. Three."])
    assert [len(words) for words in every.sentences] == [2, 2, 1]
    assert [len(words) for words in prose.sentences] == [2, 1]


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
