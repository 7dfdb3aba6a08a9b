# SPDX-License-Identifier: Apache-2.0
"""A message that names a field of the page calls it as its label does, and leads to it."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from epsilens.app.surface import FIELDS

STATIC = resources.files("epsilens.app") / "static"
PAGE = (STATIC / "index.html").read_text(encoding="utf-8")
SCRIPT = (STATIC / "asking.js").read_text(encoding="utf-8")

NO_LABEL_OF_ITS_OWN = {
    "group": "a menu, whose parts are named",
    "groups": "a menu, whose parts are named",
    "bins": "a choice at each column",
    "categories": "a choice at each column",
    "categorical": "a choice at each column",
    "drop": "a choice at each column",
    "measured": "in the report",
}


def said(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text)).strip().lower()


LABELS = [said(found) for found in re.findall(r"<label[^>]*>(.*?)</label>", PAGE, flags=re.DOTALL)]
LABELS += [said(found) for found in re.findall(r"<summary>(.*?)</summary>", PAGE, flags=re.DOTALL)]
LABELS += [said(found) for found in re.findall(r'<span class="field">(.*?)</span>', PAGE)]


@pytest.mark.parametrize("name", sorted(set(FIELDS) - set(NO_LABEL_OF_ITS_OWN)))
def test_a_field_is_called_as_its_label_calls_it(name: str) -> None:
    words = FIELDS[name].removeprefix("the ")
    assert any(words in label for label in LABELS), words


def test_a_message_leads_to_fields_that_are_there() -> None:
    table = SCRIPT[SCRIPT.index("const FIELDS = {") :]
    pairs = re.findall(r'"([^"]+)": "([^"]+)"', table[: table.index("};")])
    assert len(pairs) > 10
    for words, field in pairs:
        assert words in FIELDS.values(), words
        assert f'id="{field}"' in PAGE, field


def test_every_box_for_a_number_understands_a_decimal_comma_and_says_what_it_expects() -> None:
    """A box of the browser's own kind makes 5 of 0,05 in English."""
    report = resources.files("epsilens.show") / "templates" / "report.html.j2"
    for page in (PAGE, report.read_text(encoding="utf-8")):
        assert 'type="number"' not in page
        boxes = re.findall(r'<input[^>]*inputmode="(?:decimal|numeric)"[^>]*>', page)
        assert boxes
        for box in boxes:
            assert "data-expects=" in box, box
            notes = re.search(r'aria-describedby="([^"]+)"', box)[1].split()
            assert all(f'id="{note}"' in page for note in notes), box
