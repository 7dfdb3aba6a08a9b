# SPDX-License-Identifier: Apache-2.0
"""The page of `epsilens serve` in a real browser: from a file to a decision, and when things go wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

import chromium
from calls import make_calls
from chromium import key_times, percentile_95, shown_report, wait_for_report
from epsilens.app.engine import Engine
from epsilens.app.folder import open_folder, put_signpost
from epsilens.app.questions import Limits, Question
from epsilens.app.store import Store
from epsilens.document import load_document
from page import make_table

pytestmark = pytest.mark.slow

PATIENCE = 120_000
"""Milliseconds: a busy machine is no failure."""
LONG = 10_000
"""Models of an attack that is certainly not done while we look at it."""
SHOTS = os.environ.get("EPSILENS_SCREENSHOTS")
_LIMITS_OF = """async id => {
    const headers = {"x-epsilens-key": localStorage.getItem("epsilens-key")};
    return (await (await fetch(`/api/studies/${id}`, {headers})).json()).limits;
}"""

_NUMBERS = "JSON.stringify(JSON.parse(document.getElementById('page-data').textContent).groups)"


class Tab:
    """A tab of the browser with what it said and what it asked for."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.set_default_timeout(PATIENCE)

    def open(self, link: str) -> None:
        self.page.goto(link)
        self.page.wait_for_selector("html[data-at]")

    @property
    def report(self) -> Any:
        """The report that is shown now; one that is still out of sight is not it."""
        return shown_report(self.page)

    def wait_for_report(self, stage: str | None = None) -> Any:
        return wait_for_report(self.page, stage)

    def wait_until_kept(self, **limits: float) -> None:
        """Wait until the server has what was chosen in the report; the page waits a little before it tells."""
        study = str(self.page.url).rpartition("/")[2]
        end = time.monotonic() + PATIENCE / 1000
        while time.monotonic() < end:
            kept = self.page.evaluate(_LIMITS_OF, study)
            if all(kept[name] == pytest.approx(value) for name, value in limits.items()):
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"the server has {kept}, and not {limits}")

    def shoot(self, name: str, **options: Any) -> None:
        if SHOTS:
            self.page.screenshot(path=f"{SHOTS}/serve_{name}.png", **options)

    def focused(self) -> str:
        """The id of what has the focus, inside the report too."""
        found = self.page.evaluate(
            """() => {
                const outer = document.activeElement;
                const inner = outer?.contentDocument?.activeElement;
                return (inner ?? outer)?.id || (inner ?? outer)?.tagName;
            }"""
        )
        return str(found)

    def tab_to(self, name: str, key: str = "Tab") -> None:
        for _ in range(120):
            if self.focused() == name:
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"the keyboard does not get to {name!r}, only to {self.focused()!r}")


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context(
        locale="en-US", viewport={"width": 1000, "height": 900}, accept_downloads=True
    )
    yield made
    made.close()


@pytest.fixture
def tab(context: Any) -> Iterator[Tab]:
    tab = Tab(context)
    yield tab
    # An answer that is still being made up would fail when its page is closed, in the next test.
    tab.page.unroute_all(behavior="wait")


@pytest.fixture(scope="module")
def survey_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_table(tmp_path_factory.mktemp("survey") / "clinic.csv", 500)


@pytest.fixture(scope="module")
def empty_server(
    serving: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A server without a file, for tests that bear what others uploaded."""
    with serving(tmp_path_factory.mktemp("empty") / "state", opens=False) as server:
        yield server


@pytest.fixture(scope="module")
def survey_server(
    serving: Callable[..., AbstractContextManager[Any]],
    survey_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    """A server with the survey, for tests that bear what others asked."""
    state = tmp_path_factory.mktemp("given") / "state"
    with serving(state, str(survey_file), opens=False) as server:
        yield server


def ask(tab: Tab, *, models: int = 32, grid: str = "0.2:10:6") -> str:
    """Ask about the table that is chosen, and return the study's address."""
    chromium.ask(tab.page, models=models, grid=grid)
    return str(tab.page.url).rpartition("/")[2]


def axe_finds_nothing(page: Any) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def fits_the_first_screen(page: Any, report: Any) -> None:
    """Check that the answer and its chart are seen without scrolling, on a laptop and on a telephone."""
    before = page.viewport_size
    for width, height, parts in (
        (1280, 800, ("#facts", "#mechanism-picture")),
        (375, 667, ("#advice", "#mechanism-picture")),
    ):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        # The chart of a telephone is another one.
        page.wait_for_function(
            """isNarrow => {
                const inside = document.querySelector('#frames iframe').contentDocument;
                const chart = inside.querySelector('#mechanism-chart svg');
                return (chart.viewBox.baseVal.width < 480) === isNarrow;
            }""",
            arg=width < 480,
        )
        page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        for part in parts:
            box = report.locator(part).bounding_box()
            assert box["y"] + box["height"] <= height, (part, width)
    page.set_viewport_size(before)


def test_a_model_that_is_not_linear_is_chosen_trained_again_and_decided_about(
    survey_server: Any, tab: Tab
) -> None:
    tab.open(survey_server.link)
    page = tab.page
    page.wait_for_selector("#go", state="visible")
    offered = page.eval_on_selector_all("#model option", "all => all.map((one) => one.text)")
    assert offered[:2] == ["logistic regression", "boosted trees"]
    assert "own model" not in offered
    page.click("#more > summary")
    assert page.is_visible("#regularisation-part")
    page.select_option("#model", "hist-gradient-boosting")
    assert "boosted trees predicts smokes" in page.get_attribute("#asking h1", "aria-label")
    assert page.is_hidden("#regularisation-part")
    assert page.is_hidden("#correction-part")
    assert "trained again at a few budgets" in page.inner_text("#model-words")
    page.fill("#shadow-models", "20")
    page.fill("#epsilon", "1,4")
    page.click("#go")
    # Nothing is shown before it is measured; what is under way can be stopped.
    page.wait_for_selector("#skeleton:visible")
    assert "this model is trained again" in page.inner_text("#skeleton-words")
    page.wait_for_selector("#jobs button:text('Stop')")
    report = tab.wait_for_report("decision")
    # Other mechanisms are compared for any model.
    assert "noisy gradient descent" in report.inner_text("#look-mechanism")
    # Back in the question, the model is the one that was chosen.
    page.click("#ask-again")
    page.wait_for_function("document.getElementById('model').value === 'hist-gradient-boosting'")


def test_from_a_file_to_a_decision_by_mouse(
    start_server: Callable[..., Any], tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    server = start_server(tmp_path / "state", opens=False)
    tab.open(server.link)
    page = tab.page
    assert "token" not in page.url
    assert page.is_visible("#try")
    tab.shoot("mouse_1_start")
    with page.expect_file_chooser() as chosen:
        page.click("label[for=file]")
    chosen.value.set_files(survey_file)
    page.wait_for_selector("#go", state="visible")
    assert page.inner_text("#protect-words") == "smokes"
    assert page.input_value("#label") == "smokes"
    assert page.is_hidden("#try")
    said = page.get_attribute("#asking h1", "aria-label")
    assert said.startswith("How can smokes of everyone in clinic.csv be protected, if only the cur")
    assert page.locator("#model-words").inner_text() == ""
    # What was found out about the file is said; read otherwise, its columns are others.
    assert "with commas between the columns, letters in UTF-8" in page.inner_text("#reading-words")
    page.click("#reading summary")
    page.select_option("#delimiter", ";")
    page.wait_for_selector("#table-note.wrong:has-text('semicolon')")
    page.select_option("#delimiter", "")
    page.wait_for_selector("#table-note:not(.wrong):empty", state="attached")
    page.select_option("#encoding", "cp1250")
    page.wait_for_selector("#reading-words:has-text('Central European')")
    page.click("#columns > summary")
    page.select_option("select[aria-label='use age as']", "bins")
    page.wait_for_selector("tr:has-text('age') td:has-text('put into 10 bins')")
    tab.shoot("mouse_2_columns")
    page.click("#protect summary")
    page.click("#protect .known:visible")
    page.click("#people summary")
    page.select_option("#group-column", "sex")
    page.fill("#group-value", "Female")
    page.click("#group-add")
    assert page.inner_text("#people-words") == "everyone and sex Female"
    tab.shoot("mouse_3_people")
    page.click("#steps")
    assert not page.is_visible("#group-add")
    page.click("#more > summary")
    page.fill("#epsilon", "0.2:10:12")
    page.fill("#shadow-models", "600")
    page.click("#go")
    first = tab.wait_for_report()
    tab.shoot("mouse_4_cost")
    assert first.inner_text("h1").startswith("Randomise the answer “smokes” of")
    # The label alone, of few rows: the first answer is the exact cost.
    assert page.inner_text("#stage-words") == (
        "The exact cost of randomised response has arrived; the attack and the other mechanisms "
        "follow."
    )
    page.evaluate(
        """() => {
            const words = document.getElementById("stage-words");
            window.early = 0;
            new MutationObserver(() => {
                const isShown = document.documentElement.dataset.stage === "decision";
                if (words.textContent.includes("are compared") && !isShown) window.early += 1;
            }).observe(words, { childList: true });
        }"""
    )
    # Drag ε in the first report; the better ones stay at what was chosen.
    first.locator("#chart").scroll_into_view_if_needed()
    box = first.locator("#chart svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60, steps=8)
    page.mouse.up()
    chosen_epsilon = first.inner_text("#epsilon")
    assert float(chosen_epsilon) < 2
    attack = page.locator("#jobs li[data-kind=attack]")
    attack.wait_for()
    page.wait_for_selector("#jobs li[data-kind=attack] .words:has-text('left')")
    page.wait_for_selector("#jobs .told:has-text('step 1 of 2, attacking models')")
    tab.shoot("mouse_5_attack_under_way")
    decision = tab.wait_for_report("decision")
    assert decision.text_content("#epsilon") == chosen_epsilon
    assert page.inner_text("#stage-words") == "The mechanisms are compared."
    assert page.evaluate("early") == 0
    assert page.locator("#jobs li").count() == 0
    # No note about a domain that was declared.
    assert "observed values" not in decision.text_content("main")
    # The limits are lines in the chart of mechanisms that can be dragged; they lead to another answer.
    assert "become guessable (proven; our default limit)" in decision.inner_text("#advice")
    assert (decision.input_value("#accepted"), decision.input_value("#feared")) == ("", "10")
    assert decision.is_visible("#by-default")
    # As `epsilens decide` prints it, for the file that was uploaded.
    command = decision.text_content("#next-command")
    assert command.startswith("epsilens randomise clinic.csv --protect smokes --epsilon 0.2")
    fits_the_first_screen(page, decision)
    decision.fill("#accepted", "20")
    grip = decision.locator("[data-grip=cost]")
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    page.mouse.move(box["x"] + 13, box["y"] + 13)
    page.mouse.down()
    page.mouse.move(box["x"] + 13, box["y"] - 15, steps=8)
    page.mouse.up()
    after = float(decision.input_value("#accepted"))
    assert after > 20
    assert decision.is_visible("#reset")
    tab.shoot("mouse_6_decision")
    tab.wait_until_kept(max_accuracy_loss=after / 10)
    page.evaluate("scrollTo(0, 0)")
    with page.expect_download() as saved:
        page.click("#save-json")
    document = load_document(json.loads(Path(saved.value.path()).read_text()))
    assert document.kind == "decision"
    assert {curve.mechanism for curve in document.mechanisms} >= {
        *("randomised-response", "noisy-descent", "output-perturbation"),
    }
    assert document.recommendation.max_accuracy_loss == pytest.approx(after / 10)
    for name in ("report", "png", "svg"):
        with page.expect_download() as saved:
            page.click(f"#save-{name}")
        assert Path(saved.value.path()).stat().st_size > 10_000
    # Limits and the budget looked at are there after a reload; the way back to what is recommended too.
    decision.click("#part-budgets > summary")
    decision.focus("#slider")
    page.keyboard.press("ArrowRight")
    looked_at = decision.inner_text("#epsilon")
    tab.wait_until_kept(chosen_epsilon=float(looked_at))
    page.reload()
    again = tab.wait_for_report("decision")
    assert float(again.input_value("#accepted")) == pytest.approx(after)
    assert again.text_content("#epsilon") == looked_at
    assert again.inner_text("#advice") == document.recommendation.sentence.replace(" %", "\u00a0%")
    # One refusal was asked for above.
    assert [text for text in tab.complaints if "422" not in text] == []
    assert all(url.startswith((server.base, "data:", "blob:")) for url in tab.requests)


def test_a_first_answer_that_failed_its_checks_is_not_shown(
    start_server: Callable[..., Any], tab: Tab, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.csv"
    make_calls(4000).to_csv(calls, index=False)
    question = Question(label="y", shadow_models=20)
    task = {
        "task": "first-order",
        "path": str(calls),
        "name": calls.name,
        "anonymous": False,
        "question": question.model_dump(mode="json"),
    }
    first_order = Engine().answer(task, lambda *_: None)["document"]
    wrong = [cell["loss_change"] for cell in first_order["cells"] if not cell["trusted"]]
    assert min(wrong) < -0.001  # the truth is a rise
    store = Store(open_folder(tmp_path / "state"))
    table = store.add_table(name=calls.name, path=calls, format="csv", size=None, is_uploaded=False)
    study = store.add_study(
        table_id=table.id,
        name="calls",
        question=question,
        limits=Limits(),
        is_anonymous=False,
        document=first_order,
    )
    store.close()
    server = start_server(tmp_path / "state", opens=False)
    tab.open(server.link)
    page = tab.page
    page.goto(f"{server.base}/#/study/{study.id}")
    page.wait_for_selector("#skeleton", state="visible")
    page.wait_for_selector("#skeleton-words:has-text('The exact cost is on its way')")
    assert page.inner_text("#skeleton-words").startswith(
        "No estimate yet at ε = 1.08: the first-order estimate failed its checks."
    )
    assert page.inner_text("#stage-words").startswith("No answer yet; the exact cost")
    assert page.query_selector("#frames iframe") is None
    tab.shoot("skeleton")
    cost = tab.wait_for_report("cost")
    assert not page.is_visible("#skeleton")
    assert cost.text_content("#loss").startswith("+")
    # Whatever budget is looked at, the loss rises.
    cost.focus("#slider")
    page.keyboard.press("Home")
    assert "more mistakes in 1,000" in cost.inner_text("#sentence")
    assert cost.text_content("#loss").startswith("+")
    tab.shoot("after_skeleton")
    assert tab.complaints == []


@pytest.mark.nightly
def test_from_a_file_to_a_decision_by_keyboard(
    start_server: Callable[..., Any], tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    server = start_server(tmp_path / "state", opens=False)
    tab.open(server.link)
    page, press = tab.page, tab.page.keyboard.press
    # Listened for from the beginning: a key is quicker than a listener that comes with it.
    page.on("filechooser", lambda chosen: chosen.set_files(survey_file))
    tab.tab_to("file")
    tab.shoot("keyboard_1_upload")
    press("Enter")
    page.wait_for_selector("#go", state="visible")
    assert tab.focused() == "table"
    # Back to the people, which stand before the table in the sentence.
    press("Shift+Tab")
    press("Enter")
    tab.tab_to("group-column")
    page.keyboard.type("sex")
    tab.tab_to("group-value")
    page.keyboard.type("Female")
    press("Enter")
    assert page.inner_text("#people-words") == "everyone and sex Female"
    press("Escape")
    assert tab.focused() == "SUMMARY"
    tab.tab_to("label")
    tab.tab_to("go")
    tab.shoot("keyboard_2_question")
    press("Enter")
    tab.wait_for_report()
    tab.tab_to("slider")
    for _ in range(3):
        press("ArrowLeft")
    chosen_epsilon = tab.report.inner_text("#epsilon")
    tab.shoot("keyboard_3_cost")
    decision = tab.wait_for_report("decision")
    # The focus and the choice are where they were, in a report that is another.
    assert tab.focused() == "slider"
    assert decision.inner_text("#epsilon") == chosen_epsilon
    tab.tab_to("accepted", "Shift+Tab")
    press("Control+a")
    page.keyboard.type("300")
    tab.tab_to("feared", "Shift+Tab")
    press("Control+a")
    page.keyboard.type("40")
    assert decision.inner_text("#advice").startswith("Train with ")
    tab.shoot("keyboard_4_limits")
    tab.wait_until_kept(max_accuracy_loss=30, max_advantage=0.4)
    tab.tab_to("save-json", "Shift+Tab")
    with page.expect_download() as saved:
        press("Enter")
    chosen_by = json.loads(Path(saved.value.path()).read_text())["recommendation"]
    assert (chosen_by["max_accuracy_loss"], chosen_by["max_advantage"]) == (30, 0.4)
    assert f"ε = {chosen_by['epsilon']:.3g}" in decision.inner_text("#advice")
    assert tab.complaints == []


def test_a_wrong_file_is_refused_in_one_line_and_another_is_taken(
    empty_server: Any, tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    tab.open(empty_server.link)
    wrong = tmp_path / "workbook.csv"
    wrong.write_bytes(b"PK\x03\x04 not a table \x00")
    tab.page.set_input_files("#file", wrong)
    tab.page.wait_for_selector("#table-note.wrong")
    assert "must be text, as its name says" in tab.page.inner_text("#table-note")
    tab.shoot("wrong_file")
    tab.page.set_input_files("#file", {"name": "a.exe", "mimeType": "a/b", "buffer": b"MZ"})
    tab.page.wait_for_selector("#table-note.wrong:has-text('ending in .csv')")
    # Columns may be called what every object of the browser has.
    odd = pd.read_csv(survey_file).set_axis(["__proto__", "constructor", "a", "smokes"], axis=1)
    odd.insert(0, "code", ["01", 'says "no"'] * (len(odd) // 2))
    odd.to_csv(tmp_path / "odd.csv", index=False)
    tab.page.set_input_files("#file", tmp_path / "odd.csv")
    tab.page.click("#columns > summary")
    assert tab.page.input_value("select[aria-label='use constructor as']") == "found"
    tab.page.select_option("select[aria-label='use __proto__ as']", "bins")
    tab.page.wait_for_selector("tr:has-text('__proto__') td:has-text('put into 10 bins')")
    # Answers are written by what their column holds, not by how they look.
    tab.page.click("#people summary")
    for answer in ("01", 'says "no"', """both ' and \""""):
        tab.page.fill("#group-value", answer)
        tab.page.click("#group-add")
    assert "both kinds of quotation marks" in tab.page.inner_text("#group-note")
    built = tab.page.eval_on_selector_all("#groups span", "all => all.map((one) => one.title)")
    assert built == ['code == "01"', "code == 'says \"no\"'"]
    tab.page.keyboard.press("Escape")
    tab.page.set_input_files("#file", survey_file)
    tab.page.wait_for_selector("#table option:checked:has-text('clinic')", state="attached")
    tab.page.wait_for_selector("#go", state="visible")
    # Another table can hold the test data; not the table itself.
    tab.page.click("#more > summary")
    beside = tab.page.locator("#test option:not([disabled])").all_inner_texts()
    assert any(text.startswith("odd.csv") for text in beside)
    assert not any(text.startswith("clinic.csv") for text in beside)
    tab.page.select_option("#test", label=next(text for text in beside if "odd.csv" in text))
    assert tab.page.is_hidden("#test-share")
    tab.page.click("#go")
    tab.page.wait_for_selector("#going.wrong:has-text('age')")
    tab.page.select_option("#test", "")
    tab.page.click("#more > summary")
    # A question that cannot be asked is refused where it is asked.
    tab.page.click("#people summary")
    tab.page.click("summary:has-text('or write a condition')")
    tab.page.fill("#group-expression", "nobody > 3")
    tab.page.click("#group-write")
    tab.page.keyboard.press("Escape")
    tab.page.click("#go")
    tab.page.wait_for_selector("#going.wrong")
    assert "nobody" in tab.page.inner_text("#going")
    tab.shoot("wrong_question")
    # The field that a refusal names is opened and has the focus.
    tab.page.click("#people summary")
    tab.page.click("#groups button")
    tab.page.evaluate("document.getElementById('test-share').value = '0.01'")
    tab.page.keyboard.press("Escape")
    tab.page.click("#go")
    tab.page.wait_for_selector("#going.wrong:has-text('the share set aside for testing')")
    assert tab.focused() == "test-share"
    # And a table that cannot be deleted.
    refusal = {"status": 422, "json": {"error": "this table must stay."}}
    tab.page.route(
        "**/api/tables/*",
        lambda route: (
            route.fulfill(**refusal) if route.request.method == "DELETE" else route.continue_()
        ),
    )
    tab.page.on("dialog", lambda dialog: dialog.accept())
    tab.page.click("#forget-table")
    tab.page.wait_for_selector("#alarm:has-text('must stay')")
    # The refusals themselves are the only things the browser complains of.
    assert all("422" in text or "413" in text for text in tab.complaints)


def test_missing_answers_are_settled_by_a_button_and_another_table_clears_the_refusal(
    survey_server: Any, tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    survey = pd.read_csv(survey_file)
    survey.loc[:36, "sex"] = None
    survey.to_csv(tmp_path / "gaps.csv", index=False)
    tab.open(survey_server.link)
    page = tab.page
    page.set_input_files("#file", tmp_path / "gaps.csv")
    page.wait_for_selector("#table option:checked:has-text('gaps')", state="attached")
    page.wait_for_selector("#go", state="visible")
    page.click("#go")
    page.wait_for_selector("#going.wrong:has-text('37 of 500')")
    words = page.locator("#remedies button").all_inner_texts()
    assert words == [
        "Leave these 37 rows out",
        "Count missing as a category of its own",
        "Leave the column sex out",
    ]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        tab.shoot(f"missing_{scheme}", full_page=True)
    # The refusal is of this table and of these choices.
    page.select_option("#table", label="clinic.csv")
    assert page.inner_text("#going") == page.inner_text("#remedies") == ""
    # Nor is one shown that arrives when another table has been chosen.
    page.wait_for_selector("#go", state="visible")
    late: list[Any] = []

    def hold(route: Any) -> None:
        late.append(route)

    page.route("**/schema", hold, times=1)
    page.select_option("#table", label="gaps.csv")
    page.select_option("#table", label="clinic.csv")
    page.wait_for_selector("#go", state="visible")
    late[0].fulfill(status=422, json={"error": "this table cannot be read."})
    page.select_option("#table", label="gaps.csv")
    page.wait_for_selector("#go", state="visible")
    assert page.inner_text("#table-note") == ""
    page.click("#go")
    page.wait_for_selector("#going.wrong")
    page.click("#more > summary")
    page.fill("#seed", "1")
    assert page.inner_text("#going") == page.inner_text("#remedies") == ""
    page.fill("#epsilon", "0,2:10:6")
    assert page.inner_text("#epsilon-note") == "6 budgets from 0.2 to 10."
    page.fill("#shadow-models", "20")
    page.click("#go")
    page.click("#remedies button:has-text('Leave these')")
    report = tab.wait_for_report()
    assert "37 of 500 rows were dropped" in report.text_content("main")


def test_a_number_that_cannot_be_used_is_refused_at_its_field(survey_server: Any, tab: Tab) -> None:
    tab.open(survey_server.link)
    page = tab.page
    page.wait_for_selector("#go", state="visible")
    wrong = {
        "max-loss": ("1001", "2,5", "Type a number from 0 to 1000"),
        "max-rate": ("100", "80,5", "Type a share of more than 0 and less than 100 %"),
        "test-share": ("0", "12,5", "Type a share of more than 0 and less than 100 %"),
        "regularisation": ("none", "0,5", "Type a number greater than 0"),
        "seed": ("1.5", "7", "Type a whole number of 0 or more"),
        "epsilon": ("0,05", "0,05; 1,5", "A comma separates budgets here."),
        "shadow-models": ("10,000", "32", "A comma before three digits can be read in two ways."),
    }
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    for place in ("limits", "more"):
        page.click(f"#{place} > summary")
    for name, (typed, _, words) in wrong.items():
        page.fill(f"#{name}", typed)
        assert page.inner_text(f"#{name}-note").startswith(words)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        tab.shoot(f"fields_{scheme}", full_page=True)
    for place in ("limits", "more"):
        page.click(f"#{place} > summary")
    for name, (_, right, _) in wrong.items():
        # The first that is wrong is opened and has the focus; nothing is sent.
        page.click("#go")
        assert page.inner_text("#going") == "Correct the field that is marked."
        assert tab.focused() == name
        page.keyboard.press("Control+A")
        page.keyboard.type(right)
        assert page.get_attribute(f"#{name}", "aria-invalid") == "false"
        assert page.inner_text("#going") == ""
    assert sent == []
    assert page.inner_text("#epsilon-note") == "2 budgets: 0.05 and 1.5."
    refusal = {"status": 422, "json": {"error": "not now.", "remedies": []}}
    page.route("**/api/studies", lambda route: route.fulfill(**refusal))
    with page.expect_request("**/api/studies") as asked:
        page.click("#go")
    question, limits = (asked.value.post_data_json[part] for part in ("question", "limits"))
    assert limits == {"max_accuracy_loss": 0.25, "max_advantage": 0.805}
    assert (question["trust"], question["test"]) == ("curator", None)
    assert (question["test_share"], question["regularisation"]) == (0.125, 0.5)
    assert (question["seed"], question["shadow_models"], question["epsilon"]) == (7, 32, "0.05,1.5")
    # Another table begins with nothing wrong.
    page.wait_for_selector("#going:has-text('not now')")
    # In other units it is another limit, and other numbers can be used.
    page.select_option("#max-loss-kind", "loss")
    page.select_option("#max-rate-kind", "rate")
    page.select_option("#trust", "nobody")
    assert "nobody sees the true ones" in page.inner_text("#trust-words")
    with page.expect_request("**/api/studies") as asked:
        page.click("#go")
    sent_too = asked.value.post_data_json
    assert sent_too["limits"] == {"max_loss_increase": 2.5, "max_attack_rate": 0.805}
    assert sent_too["question"]["trust"] == "nobody"
    page.fill("#max-loss", "-1")
    assert page.inner_text("#max-loss-note").startswith("Type a loss of 0 or more")
    page.select_option("#table", "")
    page.select_option("#table", label="clinic.csv")
    assert page.inner_text("#max-loss-note") == ""


def write_walks(path: Path, n_rows: int = 800) -> Path:
    """Write rows of eight people: the gait says who walks, the speed says how."""
    rng = np.random.default_rng(0)
    who, runs = rng.integers(0, 8, n_rows), rng.integers(0, 2, n_rows)
    columns: dict[str, Any] = {
        "gait": who + 0.1 * rng.normal(size=n_rows),
        "speed": 2 * runs + 0.3 * rng.normal(size=n_rows),
        "person": [f"walker {one}" for one in who],
        "activity": np.where(runs == 1, "runs", "walks"),
    }
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_the_columns_that_give_people_away_are_found_shown_and_saved(
    empty_server: Any, tab: Tab, tmp_path: Path
) -> None:
    pytest.importorskip("shap")
    tab.open(empty_server.link)
    page = tab.page
    page.set_input_files("#file", write_walks(tmp_path / "walks.csv"))
    page.wait_for_selector("#find", state="visible")
    # Measurements name nobody, and the column that is predicted neither; the likely one is chosen.
    offered = page.locator("#identity option").all_inner_texts()
    assert offered == ["choose a column", "person"]
    assert (page.input_value("#identity"), page.input_value("#mask-label")) == (
        "person",
        "activity",
    )
    page.select_option("#identity", "")
    page.click("#find")
    assert page.inner_text("#finding") == "Choose the column that names people."
    page.select_option("#identity", "person")
    assert page.inner_text("#finding") == ""
    page.fill("#alpha", "0")
    page.click("#find")
    assert tab.focused() == "alpha"
    page.fill("#alpha", "50,0")
    for width in (1280, 375):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            tab.shoot(f"masking_question_{width}_{scheme}", full_page=True)
    page.set_viewport_size({"width": 1280, "height": 800})
    # The question is refused beside its own button.
    refusal = {"status": 422, "json": {"error": "not now.", "remedies": []}}
    page.route("**/api/studies", lambda route: route.fulfill(**refusal), times=1)
    page.click("#find")
    page.wait_for_selector("#finding.wrong:has-text('not now.')")
    with page.expect_request("**/api/studies") as sent:
        page.click("#find")
    question = sent.value.post_data_json["question"]
    assert (question["identity"], question["label"], question["alpha"]) == (
        "person",
        "activity",
        0.5,
    )
    page.wait_for_selector("#skeleton:visible")
    page.wait_for_selector("#jobs .words:has-text('search for columns')")
    # At once: the search takes seconds.
    page.click("#jobs button:text('Stop')")
    page.wait_for_selector("#skeleton-words:has-text('Resume the search for columns to get one.')")
    tab.shoot("masking_stopped")
    page.click("#jobs button:text('Resume')")
    page.wait_for_selector("html[data-stage=mask]")
    assert page.inner_text("#stage-words") == "The columns that identify people are found."
    assert page.inner_text("#mask-said-first").startswith("Mask gait (1 of 2 features): ")
    facts = page.locator("#mask dd").all_inner_texts()
    assert facts[:2] == ["gait", "speed"]
    assert "neither is private itself" in page.inner_text("#mask-notes")
    assert page.locator("#mask-chart svg text:has-text('gait')").count() == 1
    assert page.locator("#mask-table tbody tr").count() == 3
    assert page.is_hidden("#skeleton")
    assert page.is_hidden("#save-report")
    for width in (1280, 375):
        page.set_viewport_size({"width": width, "height": 800})
        page.reload()
        page.wait_for_selector("#mask-chart svg")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            tab.shoot(f"masking_answer_{width}_{scheme}", full_page=True)
            axe_finds_nothing(page)
    with page.expect_download() as saved:
        page.click("#save-json")
    assert load_document(Path(saved.value.path()).read_text()).kind == "mask"
    for format, start in (("png", b"\x89PNG"), ("svg", b"<svg")):
        with page.expect_download() as saved:
            page.click(f"#save-{format}")
        assert Path(saved.value.path()).read_bytes().startswith(start)
    # It is listed, but has no ε to compare; asked again, the question is as it was.
    page.click("#ask-again")
    page.wait_for_selector("#find:focus")
    assert (page.input_value("#identity"), page.input_value("#alpha")) == ("person", "50")
    page.click("a[href='#/studies']")
    row = page.locator("#studies tr:has-text('columns that identify person')")
    row.wait_for()
    assert row.locator("input").count() == 0
    # The 422 was asked for above.
    assert [text for text in tab.complaints if "422" not in text] == []


def test_the_command_that_installs_what_masking_needs_takes_the_place_of_its_button(
    survey_server: Any, tab: Tab
) -> None:
    def without(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "can_mask": False})

    tab.page.route("**/api/session", without)
    tab.open(survey_server.link)
    tab.page.wait_for_selector("#masking", state="visible")
    assert 'pip install "epsilens[explain]"' in tab.page.inner_text("#masking")
    assert tab.page.is_hidden("#find")
    assert tab.page.is_hidden("#masking-none")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.nightly
def test_a_server_that_is_killed_in_a_job_goes_on_where_it_was(
    start_server: Callable[..., Any], tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    port = str(free_port())
    data = (str(survey_file), "--port", port)
    server = start_server(tmp_path / "state", *data, opens=False)
    tab.open(server.link)
    study = ask(tab, models=LONG, grid="0.2:10:12")
    cost = tab.wait_for_report("cost").evaluate(_NUMBERS)
    tab.page.wait_for_selector("#jobs li[data-kind=attack] .words:has-text('left')")
    server.end(signal.SIGKILL)
    tab.page.wait_for_selector("#alarm:has-text('does not answer')")
    # What has been drawn can still be moved.
    tab.report.focus("#slider")
    tab.page.keyboard.press("ArrowRight")
    tab.shoot("killed")
    again = start_server(tmp_path / "state", *data, opens=False)
    # The page of the dead server is told to use the new link, and nothing is shown to it.
    tab.page.wait_for_selector("#alarm:has-text('the link that the terminal shows')")
    tab.open(again.link)
    tab.page.goto(f"{again.base}/#/study/{study}")
    report = tab.wait_for_report("cost")
    assert report.evaluate(_NUMBERS) == cost
    tab.page.wait_for_selector("#jobs li[data-state=interrupted]")
    tab.shoot("restarted")
    tab.page.click("#jobs button:has-text('Resume')")
    tab.page.wait_for_selector("#jobs li[data-state=running] .words:has-text('left')")
    tab.page.click("#jobs button:has-text('Stop')")
    tab.page.wait_for_selector("#jobs li[data-state=cancelled]")


@contextmanager
def neighbour() -> Iterator[tuple[str, list[str]]]:
    """Another program of this machine: its address, and the cookies that it is sent."""
    cookies: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("cookie", ""))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>neighbour</title><a href='/'>there</a>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", cookies
        server.shutdown()


def test_another_program_of_this_machine_gets_the_cookie_and_nothing_by_it(
    empty_server: Any, context: Any, tab: Tab, tmp_path: Path
) -> None:
    # As the command opens it: by a file that leads to the link.
    tab.open(put_signpost(tmp_path, empty_server.link).as_uri())
    with neighbour() as (address, cookies):
        other = Tab(context)
        other.page.goto(address)
        assert "epsilens-" in cookies[0]
        stolen = empty_server.client.get("/api/session", headers={"cookie": cookies[0]})
        assert stolen.status_code == 403
        assert other.page.evaluate("localStorage.length") == 0
        # Nor may its page lead further than to the start page, which shows nothing to it.
        other.page.evaluate(
            "there => { document.links[0].href = there; }", f"{empty_server.base}/api/tables"
        )
        other.page.click("a")
        other.page.wait_for_selector("body:has-text('cannot be opened by itself')")
        other.open(empty_server.base)
        for one in (tab, other):
            one.page.reload()
            one.page.wait_for_selector("html[data-at]")
    assert other.page.inner_text("#alarm") == tab.page.inner_text("#alarm") == ""


def test_the_link_opens_in_another_browser_and_again(
    empty_server: Any, browser: Any, tab: Tab
) -> None:
    old = empty_server.link.replace(empty_server.token, "x" * 43)
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 700})
        other = Tab(context)
        # Without the link there is a page that says what to do, and so there is with an old one.
        for address in (empty_server.base, f"{empty_server.base}/#/study/0123456789abcdef", old):
            other.page.goto("about:blank")
            other.open(address)
            assert other.page.inner_text("h1:visible") == "This browser does not have access yet"
            assert "Open the link that the terminal shows" in other.page.inner_text("#not-let-in")
            assert not other.page.is_visible("#asking")
            assert "token" not in other.page.url
        other.shoot(f"not_let_in_{scheme}")
        # Pasted into that very tab, where only the fragment changes.
        other.page.evaluate("link => { location.href = link; }", empty_server.link)
        other.page.wait_for_selector("html[data-at=asking]")
        assert other.page.is_visible("#drop")
        assert "token" not in other.page.url
        context.close()
    tab.open(empty_server.link)
    assert tab.page.is_visible("#drop")
    # The survey that comes with it is one click away, and asked about by another.
    tab.page.click("#try")
    tab.page.wait_for_selector("#go", state="visible")
    assert tab.page.inner_text("#protect-words") == "affair"
    assert tab.focused() == "go"
    tab.page.on("dialog", lambda dialog: dialog.accept())
    tab.page.click("#forget-table")
    tab.page.wait_for_selector("#try", state="visible")
    # Once more, and an old one: it does not throw out who is in.
    tab.page.goto("about:blank")
    tab.open(empty_server.link)
    tab.page.goto("about:blank")
    tab.open(old)
    tab.page.wait_for_selector("#alarm:has-text('of another start')")
    assert tab.page.is_visible("#drop")
    tab.page.goto(f"{empty_server.base}/studies/0123456789abcdef/page")
    assert "This address cannot be opened by itself." in tab.page.inner_text("main")
    tab.shoot("by_itself")
    tab.page.click("a")
    tab.page.wait_for_selector("html[data-at=asking]")
    assert all(empty_server.token not in url for url in tab.requests if "#" not in url)


@pytest.mark.nightly
def test_an_old_tab_goes_on_when_the_new_link_is_opened(
    start_server: Callable[..., Any], context: Any, tab: Tab, tmp_path: Path
) -> None:
    port = str(free_port())
    server = start_server(tmp_path / "state", "--port", port, opens=False)
    tab.open(server.link)
    server.end(signal.SIGTERM)
    again = start_server(tmp_path / "state", "--port", port, opens=False)
    tab.page.click("a[href='#/studies']")
    tab.page.wait_for_selector("#alarm:has-text('Open the link that the terminal shows')")
    tab.shoot("server_started_again")
    tab.page.reload()
    tab.page.wait_for_selector("#not-let-in", state="visible")
    Tab(context).open(again.link)
    tab.page.wait_for_selector("#listing", state="visible")
    assert not tab.page.is_visible("#not-let-in")


@pytest.mark.nightly
def test_two_tabs_see_one_state(
    start_server: Callable[..., Any], context: Any, tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    server = start_server(tmp_path / "state", str(survey_file), opens=False)
    tab.open(server.link)
    tab.page.wait_for_selector("#go", state="visible")
    tab.page.click("#more > summary")
    tab.page.select_option("#weight", "income")
    assert "take no weights" in tab.page.inner_text("#model-words")
    study = ask(tab, models=LONG, grid="0.2:10:12")
    other = Tab(context)
    other.open(f"{server.base}/#/study/{study}")
    other.wait_for_report("cost")
    tab.wait_for_report("cost")
    # What is looked at in one tab is looked at in the other.
    tab.report.focus("#slider")
    for _ in range(3):
        tab.page.keyboard.press("ArrowLeft")
    looked_at = tab.report.inner_text("#epsilon")
    tab.report.fill("#accepted", "4")
    other.report.wait_for_selector("#chart text:has-text('limit 4')")
    assert other.report.input_value("#accepted") == "4"
    assert other.report.inner_text("#epsilon") == tab.report.inner_text("#epsilon") != looked_at
    other.page.click("#jobs li[data-kind=attack] button:has-text('Stop')")
    tab.page.wait_for_selector("#jobs li[data-kind=attack][data-state=cancelled]")
    # Another question in one tab, both compared and one deleted in the other.
    tab.page.click("#ask-again")
    tab.page.wait_for_selector("#go", state="visible")
    tab.page.wait_for_selector("html[data-at=asking]")
    # A weight that is taken back stays away.
    assert tab.page.input_value("#weight") == "income"
    tab.page.select_option("#weight", "")
    tab.page.click("#protect summary")
    tab.page.check("#protect input[value=sex]")
    tab.page.keyboard.press("Escape")
    assert tab.page.input_value("#weight") == ""
    tab.page.click("#go")
    tab.wait_for_report()
    other.page.goto(f"{server.base}/#/studies")
    other.page.wait_for_selector("#studies tbody tr:nth-child(2)")
    for box in other.page.query_selector_all("#studies tbody input"):
        box.check()
    other.page.click("#compare")
    other.page.wait_for_selector("#comparison-chart svg")
    assert other.page.locator("#comparison thead th").count() == 2
    assert "A · study" in other.page.inner_text("#comparison-chart")
    rows = other.page.locator("#comparison tbody th").all_inner_texts()
    assert rows.index("more mistakes in 1,000 there (estimated)") < min(
        n for n, row in enumerate(rows) if "loss" in row
    )
    # The table is wider than the text, and the page is not.
    other.page.set_viewport_size({"width": 1280, "height": 800})
    assert other.page.evaluate("document.documentElement.scrollWidth") == 1280
    other.page.set_viewport_size({"width": 1000, "height": 900})
    with other.page.expect_download() as saved:
        other.page.click("#compare-png")
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    with other.page.expect_download() as saved:
        other.page.click("#comparison a:has-text('JSON') >> nth=0")
    assert load_document(Path(saved.value.path()).read_text()).kind == "whatif"
    assert other.complaints == []
    other.shoot("comparison")
    other.page.on("dialog", lambda dialog: dialog.accept())
    other.page.click("#studies tbody tr:nth-child(1) button")
    other.page.wait_for_selector("#studies tbody tr:nth-child(2)", state="detached")
    tab.page.wait_for_selector("#alarm:has-text('not kept here, or no longer')")


@pytest.mark.nightly
def test_names_are_nowhere_on_the_page_if_they_are_withheld(
    start_server: Callable[..., Any], tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    server = start_server(tmp_path / "state", str(survey_file), "--anonymous", opens=False)
    tab.open(server.link)
    tab.page.wait_for_selector("#go", state="visible")
    seen = tab.page.content()
    ask(tab)
    seen += tab.page.content() + tab.report.content() + tab.wait_for_report("decision").content()
    for name in ("smokes", "clinic", "Female", "income"):
        assert name not in seen


@pytest.mark.nightly
def test_it_fits_a_telephone(
    start_server: Callable[..., Any], browser: Any, survey_file: Path, tmp_path: Path
) -> None:
    server = start_server(tmp_path / "state", str(survey_file), opens=False)
    context = browser.new_context(viewport={"width": 375, "height": 800}, bypass_csp=True)
    tab = Tab(context)
    tab.open(server.link)
    wide = "document.documentElement.scrollWidth"
    ink = {}
    for scheme in ("dark", "light"):
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.reload()
        tab.page.wait_for_selector("#go", state="visible")
        tab.page.click("#people summary")
        assert tab.page.evaluate(wide) == 375
        tab.shoot(f"telephone_question_{scheme}")
        axe_finds_nothing(tab.page)
    tab.page.keyboard.press("Escape")
    ask(tab)
    tab.wait_for_report("decision")
    study = tab.page.url
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.goto(study)
        tab.page.reload()
        report = tab.wait_for_report("decision")
        ink[scheme] = report.evaluate("getComputedStyle(document.body).color")
        assert tab.page.evaluate(wide) == 375
        assert report.evaluate(wide) == 375
        tab.shoot(f"telephone_decision_{scheme}", full_page=True)
        axe_finds_nothing(tab.page)
        tab.page.click("a[href='#/studies']")
        tab.page.wait_for_selector("#studies tbody tr")
        assert tab.page.evaluate(wide) == 375
        axe_finds_nothing(tab.page)
    assert ink["light"] != ink["dark"]
    context.close()


@pytest.mark.nightly
def test_a_decision_that_could_not_be_joined_is_not_called_one(
    start_server: Callable[..., Any], tab: Tab, survey_file: Path, tmp_path: Path
) -> None:
    server = start_server(tmp_path / "state", str(survey_file), opens=False)
    tab.open(server.link)
    study = ask(tab, models=LONG, grid="0.2:10:12")
    tab.wait_for_report("cost")

    def pretend(route: Any) -> None:
        """Say that the attack is there too; the report goes on showing the cost alone."""
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "stage": "decision"})

    tab.page.route(f"**/api/studies/{study}", pretend)
    tab.page.reload()
    tab.wait_for_report("decision")
    tab.page.wait_for_selector("#stage-words:has-text('could not be joined')")


@pytest.mark.nightly
def test_time_from_input_to_paint_with_50_000_rows(
    start_server: Callable[..., Any],
    tab: Tab,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    server = start_server(
        tmp_path / "state", str(make_table(tmp_path / "large.csv", 50_000)), opens=False
    )
    tab.open(server.link)
    # Few models: they decide how long the attack takes, not what the page draws.
    ask(tab, models=20, grid="0.1:10:30")
    while_working = percentile_95(key_times(tab.report))
    tab.wait_for_report("decision")
    at_rest = percentile_95(key_times(tab.report))
    record_property("served_input_to_paint_p95_ms_while_working", round(while_working, 1))
    record_property("served_input_to_paint_p95_ms", round(at_rest, 1))
    print(f"input to paint, 95 %: {while_working:.1f} ms with jobs, {at_rest:.1f} ms without")
