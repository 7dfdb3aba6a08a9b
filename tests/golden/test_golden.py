# SPDX-License-Identifier: Apache-2.0
"""What commands print and write is what is stored in `expected/`, in words, numbers and structure."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import sys
from pathlib import Path

import pandas as pd
import pytest

from epsilens.data import load_survey
from epsilens.document import load_document

_path = Path(__file__).with_name("regenerate.py")
_spec = importlib.util.spec_from_file_location("golden_regenerate", _path)
golden = sys.modules["golden_regenerate"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)

_path = Path(__file__).with_name("readability.py")
_spec = importlib.util.spec_from_file_location("golden_readability", _path)
readability = sys.modules["golden_readability"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(readability)

CASES = golden.all_cases()
run_once = functools.cache(golden.run)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("golden")
    golden.write_tables(found)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_is_the_stored_one(case, folder):
    if not case.can_run:
        pytest.skip(f"{case.needs} is not installed")
    found = golden.difference(case, run_once(case, folder))
    if found:
        advice = f"If this change is intended, store it: {golden.SCRIPT} --write {case.name}"
        pytest.fail(f"{case.command}\n{found}\n{advice}", pytrace=False)


def test_the_demo_tells_the_story_and_writes_the_report(folder):
    text = " ".join(run_once(next(case for case in CASES if case.name == "demo"), folder).split())
    assert "exit code 0" in text
    assert "6,366 married women" in text
    assert "Train with noisy gradient descent at ε = 0.931 " in text
    assert "Next: epsilens train demo/survey.csv --label affair" in text
    assert "The rise in test loss under randomised response, checked by actually retraining" in text
    assert "The table, to try other commands on: demo/survey.csv" in text
    out = folder / "demo"
    assert {path.name for path in out.iterdir()} == {
        "report.html",
        "decision.json",
        "decision.svg",
        "survey.csv",
    }
    pd.testing.assert_frame_equal(pd.read_csv(out / "survey.csv"), load_survey())
    document = load_document(out / "decision.json")
    assert len(document.cost.cells) == 60
    assert len(document.risk.cells) == 30
    assert all(math.isfinite(cell.loss_change) for cell in document.cost.cells)
    assert document.recommendation.holds
    html = (out / "report.html").read_text(encoding="utf-8")
    assert len(html) < 3_000_000
    page = readability.Page.of(html)
    for text in (page.blocks, page.data, page.annexes):
        every, prose = readability.read_blocks(text)
        assert len(every.longest) <= 25, " ".join(every.longest)
        assert prose.ease >= 50
    assert os.fspath(folder) not in html


def test_every_stored_file_has_a_case():
    assert golden.forgotten(CASES) == [], f"remove them: {golden.SCRIPT} --write"


DOCUMENT = '{\n  "loss": 0.581,\n  "rows": 240,\n  "sentence": "raises it by 0.05"\n}\n'


@pytest.mark.parametrize(
    ("was", "now", "seen"),
    [
        ("0.581", "0.581000001", False),  # another machine
        ('  "sentence"', '   "sentence"', False),  # another version of rich
        ("0.581", "0.5812", True),
        ("0.581", "1", True),  # a number became a count
        ("240", "241", True),
        ("by 0.05", "by 0.0500001", True),  # words are compared as they are
        ("rows", "n_rows", True),
        ('  "rows": 240,\n', "", True),
    ],
)
def test_only_spacing_and_tiny_changes_of_numbers_in_json_pass(was, now, seen):
    changed = DOCUMENT.replace(was, now)
    assert changed != DOCUMENT
    assert (golden.settle(DOCUMENT, changed) != DOCUMENT) == seen


def test_the_text_of_a_report_has_words_and_spoken_names_but_no_program():
    page = (
        "<h1>If I randomise <bdi>it</bdi>:</h1><script>var a = '<p>no</p>';</script>"
        '<p>One. Two.</p><div aria-label="A chart"><svg><text>tick</text></svg></div>'
        "<tr><th>ε</th><td>0.5</td></tr>"
    )
    text = golden.report_text(page)
    assert text.splitlines() == [
        "If I randomise it:",
        "One.",
        "Two.",
        "[aria-label: A chart]",
        "| ε | 0.5 |",
    ]
