# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from epsilens.document import load_document
from epsilens.errors import InputError, InputTypeError
from epsilens.show import write_report


class Page(HTMLParser):
    """Collects the scripts, the links and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.policy = ""
        self._attributes: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        self.addresses += [attributes[n] for n in ("src", "href", "xlink:href") if n in attributes]
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "script":
            self._attributes = attributes
            self.scripts.append((attributes, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._attributes = None

    def handle_data(self, data: str) -> None:
        if self._attributes is not None:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)

    def json_of(self, name: str) -> dict:
        return json.loads(next(text for attrs, text in self.scripts if attrs.get("id") == name))


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u2028"


@pytest.fixture(scope="module")
def hostile_page(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Page:
    document = build.make_whatif(
        groups=[HOSTILE, "women"],
        epsilons=[0.5, 1.0, math.inf],
        warnings=[HOSTILE],
        settings={"protect": [HOSTILE], "label": HOSTILE},
    )
    path = write_report(
        document,
        tmp_path_factory.mktemp("report") / "report.html",
        title=HOSTILE,
        question={"label": HOSTILE, "data": HOSTILE, "groups": {"women": HOSTILE}},
        recommendation={"epsilon": 1.0, "holds": True, "sentence": HOSTILE},
        command=HOSTILE,
    )
    return Page(path.read_text(encoding="utf-8"))


def test_hostile_names_stay_text(hostile_page: Page) -> None:
    assert len(hostile_page.scripts) == 4
    assert "img" not in hostile_page.tags


def test_hostile_names_stay_text_in_a_decision(build: ModuleType, tmp_path: Path) -> None:
    grid = [0.5, 1.0, 2.0]
    document = build.make_decision(epsilons=grid, groups=["all", HOSTILE], warnings=[HOSTILE])
    chosen = document.recommendation.model_copy(update={"sentence": HOSTILE})
    document = document.model_copy(
        update={
            "risk": build.make_risk(epsilons=grid, protect=[HOSTILE]),
            "recommendation": chosen,
        }
    )
    path = write_report(
        document, tmp_path / "r.html", title=HOSTILE, question={"data": HOSTILE}, command=HOSTILE
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert len(page.scripts) == 4
    assert "img" not in page.tags
    assert all(address.startswith("#") for address in page.addresses)
    assert HOSTILE in page.json_of("page-data")["groups"]["all"][0]["paragraph"]


def test_the_embedded_document_is_the_document(hostile_page: Page) -> None:
    document = load_document(hostile_page.json_of("document"))
    assert document.cells[0].group == HOSTILE


def test_only_the_two_own_scripts_may_run(hostile_page: Page) -> None:
    code = [text for attrs, text in hostile_page.scripts if "type" not in attrs]
    assert len(code) == 2
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in code
    }
    directives = dict(
        directive.strip().split(" ", 1) for directive in hostile_page.policy.split(";")
    )
    assert set(directives["script-src"].split()) == hashes
    assert directives["default-src"] == "'none'"
    assert "connect-src" not in directives


def test_no_address_leaves_the_page(hostile_page: Page) -> None:
    assert all(address.startswith("#") for address in hostile_page.addresses)
    own = next(text for attrs, text in hostile_page.scripts[::-1] if "type" not in attrs)
    assert "http" not in own
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(", own)


def test_the_page_is_small_enough_to_mail(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_whatif(groups=["a", "b", "c", "d"])
    assert write_report(document, tmp_path / "r.html").stat().st_size < 3_000_000


def test_what_is_not_protected_is_said(build: ModuleType, tmp_path: Path) -> None:
    page = write_report(build.make_whatif(), tmp_path / "r.html").read_text(encoding="utf-8")
    for words in (
        "is computed from the true answers and is not private",
        "Only the answer “affair” would be randomised",
        "What is spent adds up",
        "must not depend on a protected column",
        "Whoever saw an earlier version",
    ):
        assert words in page


def test_the_page_shows_question_answer_command_and_origin(
    build: ModuleType, tmp_path: Path
) -> None:
    page = write_report(
        build.make_whatif(epsilons=[0.5, 1.0, 2.0]),
        tmp_path / "r.html",
        question={"label": "affair", "data": "survey.csv"},
        recommendation={
            "epsilon": 2.0,
            "holds": True,
            "sentence": "Take 2.",
            "max_loss_increase": 0.05,
        },
        command="epsilens whatif survey.csv --label affair",
    ).read_text(encoding="utf-8")
    assert 'for="slider number">2</output>' in page
    # No limit on the attack was set: nothing is recommended.
    assert '<span class="tag" id="recommended" hidden>recommended</span>' in page
    assert "Take 2." in page
    assert "at ε = 2 would raise the test loss by" in page
    assert 'value="0.05"' in page
    words = "".join(f'<span class="whole">{word}</span> ' for word in ["--label", "affair"])
    assert f"{words.strip()}</code>" in page
    assert "9f" * 32 in page


def test_a_choice_that_does_not_hold_is_not_recommended(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_whatif(epsilons=[0.5, 1.0, 2.0])
    for epsilon in (2.0, None, math.inf):
        page = write_report(
            document,
            tmp_path / "r.html",
            recommendation={"epsilon": epsilon, "holds": False, "sentence": "None will do."},
        ).read_text(encoding="utf-8")
        assert 'id="recommended" hidden>' in page
        assert "None will do." in page


def test_a_cost_says_how_often_an_answer_is_the_true_one(build: ModuleType, tmp_path: Path) -> None:
    asked = {"mechanism": "rr", "protect": ["smokes"], "n_answers": [2]}
    fact = "Taking a randomised answer at face value is right 73.1% of the time."
    for settings, is_said in ((asked, True), (asked | {"mechanism": "oue"}, False)):
        document = build.make_whatif(epsilons=[1.0, 2.0], settings=settings)
        page = write_report(document, tmp_path / "r.html").read_text(encoding="utf-8")
        assert (f'<p id="fact">{fact}</p>' in page) is is_said


def test_a_label_stands_in_for_missing_names(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_whatif(settings={})
    page = write_report(document, tmp_path / "r.html", question={"label": "smokes"})
    assert "Randomise <bdi>the answer “smokes”</bdi> of" in page.read_text(encoding="utf-8")
    page = write_report(document, tmp_path / "r.html", question={"protect": ["a", "b"]})
    assert "Randomise <bdi>the answers “a” and “b”</bdi> of" in page.read_text(encoding="utf-8")


def test_the_file_replaces_an_older_one_and_leaves_nothing_beside(
    build: ModuleType, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")
    write_report(build.make_whatif(epsilons=[1.0]), str(target))
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert stat.S_IMODE(target.stat().st_mode) & stat.S_IRUSR


def test_an_interruption_leaves_the_old_file(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(build.make_whatif(epsilons=[1.0]), target)
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_settings_are_written_for_readers(build: ModuleType, tmp_path: Path) -> None:
    settings = {
        "protect": ["a", "b"],
        "epsilon": build.geometric(0.1, 10.0, 30),
        "bins": {"age": 10},
        "n_draws": 200,
        "weight": None,
        "drop": [],
    }
    document = build.make_whatif(settings=settings)
    page = write_report(document, tmp_path / "r.html").read_text(encoding="utf-8")
    for name, text in (
        ("protect", "a, b"),
        ("epsilon", "30 values from 0.1 to 10"),
        ("bins", "age = 10"),
        ("n draws", "200"),
        ("drop", "none"),
    ):
        assert f"<dt>{name}</dt><dd>{text}</dd>" in page
    assert "<dt>weight</dt>" not in page


def test_bad_arguments(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_whatif(epsilons=[1.0])
    with pytest.raises(
        InputTypeError, match="must be a WhatIfDocument or a DecisionDocument, got dict"
    ):
        write_report({}, tmp_path / "r.html")
    with pytest.raises(InputError, match="folder must exist"):
        write_report(document, tmp_path / "absent" / "r.html")
    with pytest.raises(InputError, match="must be a file, got the folder"):
        write_report(document, tmp_path)
    with pytest.raises(InputTypeError, match="must be a number or None, got str"):
        write_report(document, tmp_path / "r.html", recommendation={"epsilon": "much"})
    with pytest.raises(InputError, match="between 0 and infinity"):
        write_report(build.make_whatif(epsilons=[math.inf]), tmp_path / "r.html")
    empty = [
        cell.model_copy(update=dict.fromkeys(("loss_change", "accuracy_change", "auc_change")))
        for cell in document.cells
    ]
    with pytest.raises(InputError, match="every estimate is missing"):
        write_report(document.model_copy(update={"cells": empty}), tmp_path / "r.html")


def test_gaps_are_shown_with_their_intervals(build: ModuleType, tmp_path: Path) -> None:
    document = build.with_gap_intervals(build.make_whatif(groups=["all", "women"], epsilons=[1.0]))
    text = write_report(document, tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    cell = page.json_of("page-data")["groups"]["women"][0]
    assert (cell["loss_gap"], cell["expected_loss_gap"]) == ("−0.0128 to +0.0172", "+0.0072")
    assert (cell["accuracy_gap"], cell["expected_accuracy_gap"]) == ("−2.7 to +0.3", "−0.7")
    assert page.json_of("page-data")["groups"]["all"][0]["loss_gap"] is None
    # The page opens with everybody, who have no gap.
    assert '<div data-gap="loss_gap" hidden>' in text
    everyone, women = text.split('data-group="')[1:3]
    assert "gap" not in everyone.split("</table>")[0]
    assert '<th scope="col">loss gap (nats)</th><th scope="col">accuracy gap (points)</th>' in women
    assert "<td>−0.0128 to +0.0172</td><td>−2.7 to +0.3</td>" in women
    assert "group&#39;s test loss less everybody else&#39;s" in text


def test_a_gap_without_an_interval_claims_none(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_whatif(groups=["women"], epsilons=[1.0], interval=False)
    text = write_report(document, tmp_path / "r.html").read_text(encoding="utf-8")
    figures = text.split('data-gap="loss_gap"')[1]
    assert '<b id="loss_gap">+0.0072</b>' in figures
    assert '<dd class="quiet" hidden>' in figures.split("</div>")[0]


def test_without_gaps_none_are_mentioned(build: ModuleType, tmp_path: Path) -> None:
    text = write_report(build.make_whatif(), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "data-gap=" not in text.split("<script")[0]
    assert "gap" not in text.split("<script")[0].split("</head>")[1]
