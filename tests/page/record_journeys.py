# SPDX-License-Identifier: Apache-2.0
"""Walks through the page as somebody would and takes a picture at every step.

    python tests/page/record_journeys.py FOLDER [mouse] [keyboard] [telephone] [dark] [trees] [spss]

From `epsilens serve` to a recommendation on a file that it has never seen: semicolons, Latin-1, a few
missing answers, a column with four answers to be protected, a group. Once by mouse only and once by
keyboard only, in light and in dark, at 1200 and at 375 pixels. Then with boosted trees on the survey that
comes with epsilens, and with an SPSS file whose answers are value labels. To be looked at by people; it is no
test.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from chromium import CHROMIUM, browsing, serving, wait_for_report

PATIENCE = 180_000


def make_file(path: Path, n_rows: int = 3000) -> Path:
    """A survey of health: how often somebody drinks is to be protected, diabetes predicted."""
    rng = np.random.default_rng(20)
    age = rng.integers(18, 90, n_rows)
    sex = rng.choice(["weiblich", "männlich"], n_rows)
    region = rng.choice(["Köln", "Zürich", "Malmö", "Besançon"], n_rows, p=[0.4, 0.3, 0.2, 0.1])
    lean = 0.02 * (age - 50) + 0.5 * (sex == "männlich")
    cuts = np.array([-0.8, 0.4, 1.5])
    drinks = np.searchsorted(cuts, lean + rng.logistic(0, 0.7, n_rows))
    often = np.array(["nie", "selten", "wöchentlich", "täglich"])[drinks]
    weight = rng.normal(27, 4, n_rows).round(1)
    chance = 1 / (1 + np.exp(5.2 - 0.045 * age - 0.08 * (weight - 27) - 0.55 * drinks))
    frame = pd.DataFrame(
        {
            "Befragte": np.arange(10_000, 10_000 + n_rows),
            "Alter": age,
            "Geschlecht": sex,
            "Region": region,
            "BMI": [f"{value:.1f}".replace(".", ",") for value in weight],
            "Alkohol": often,
            "Diabetes": np.where(rng.random(n_rows) < chance, "ja", "nein"),
        }
    )
    for column, share in (("Region", 0.012), ("BMI", 0.015)):
        frame.loc[rng.random(n_rows) < share, column] = ""
    path.write_bytes(frame.to_csv(index=False, sep=";").encode("latin-1"))
    return path


class Journey:
    """One walk: a page, and pictures with numbers."""

    def __init__(self, browser: Any, folder: Path, name: str, **look: Any) -> None:
        self.folder, self.name, self.count = folder, name, 0
        size = {"width": look.pop("width", 1200), "height": look.pop("height", 900)}
        self.context = browser.new_context(
            locale="en-GB", viewport=size, accept_downloads=True, **look
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def shoot(self, what: str, *, whole: bool = False) -> None:
        self.count += 1
        path = self.folder / f"{self.name}_{self.count:02d}_{what}.png"
        self.page.screenshot(path=str(path), full_page=whole)
        print(path.name, flush=True)

    def wait_for_report(self, stage: str | None = None) -> Any:
        return wait_for_report(self.page, stage)

    def focused(self) -> str:
        found = self.page.evaluate(
            """() => {
                const outer = document.activeElement;
                const inner = outer?.contentDocument?.activeElement;
                return (inner ?? outer)?.id || (inner ?? outer)?.value || (inner ?? outer)?.tagName;
            }"""
        )
        return str(found)

    def tab_to(self, name: str, key: str = "Tab") -> None:
        for _ in range(150):
            if self.focused() == name:
                return
            self.page.keyboard.press(key)
        raise SystemExit(f"the keyboard does not get to {name!r}, only to {self.focused()!r}")

    def type_in(self, name: str, text: str) -> None:
        self.tab_to(name)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def end(self) -> None:
        if self.complaints:
            print("the browser complained:", *self.complaints, sep="\n  ")
        self.context.close()


def by_mouse(journey: Journey, link: str, file: Path, *, ask_twice: bool = True) -> None:
    page = journey.page
    page.goto(link)
    page.wait_for_selector("html[data-at]")
    journey.shoot("start")
    with page.expect_file_chooser() as chosen:
        page.click("label[for=file]")
    chosen.value.set_files(file)
    page.wait_for_selector("#go", state="visible")
    journey.shoot("question")
    page.click("#reading summary")
    journey.shoot("how_it_was_read")
    page.select_option("#delimiter", ",")
    page.wait_for_selector("#table-note.wrong")
    journey.shoot("read_wrongly")
    page.select_option("#delimiter", "")
    page.wait_for_selector("#table-note:not(.wrong):empty", state="attached")
    page.click("#reading summary")
    page.click("#columns > summary")
    journey.shoot("columns", whole=True)
    page.click("#columns > summary")
    page.click("#protect summary")
    page.check("#protect input[value=Alkohol]")
    page.uncheck("#protect input[value=Diabetes]")
    page.locator("#protect .known:visible input").check()
    journey.shoot("protect")
    page.mouse.click(5, 500)
    page.click("#people summary")
    page.select_option("#group-column", "Alter")
    page.select_option("#group-operator", ">=")
    page.fill("#group-value", "65")
    page.click("#group-add")
    journey.shoot("people")
    page.mouse.click(5, 500)
    page.click("#limits > summary")
    page.click("#more > summary")
    journey.shoot("more_choices", whole=True)
    page.click("#limits > summary")
    page.click("#more > summary")
    page.click("#go")
    journey.wait_for_report()
    journey.shoot("cost", whole=True)
    page.wait_for_selector("#jobs li .words:has-text('left')")
    journey.shoot("jobs")
    decision = journey.wait_for_report("decision")
    journey.shoot("decision", whole=True)
    decision.fill("#accepted", "5")
    decision.fill("#feared", "20")
    journey.shoot("limits")
    decision.click("#part-budgets > summary")
    decision.locator("#chart").scroll_into_view_if_needed()
    box = decision.locator("#chart svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + 80, steps=10)
    page.mouse.up()
    journey.shoot("dragged")
    kept = decision.text_content("#epsilon")
    page.wait_for_timeout(1500)
    page.reload()
    again = journey.wait_for_report("decision")
    page.wait_for_timeout(300)
    print("after a reload ε is", again.text_content("#epsilon"), "and was", kept)
    journey.shoot("reloaded")
    if ask_twice:
        compare(journey)


def compare(journey: Journey) -> None:
    """Ask two more questions and look at all three side by side."""
    page = journey.page
    page.evaluate("scrollTo(0, 0)")
    page.click("#ask-again")
    page.wait_for_selector("#go", state="visible")
    page.click("#protect summary")
    page.check("#protect input[value=Diabetes]")
    page.locator("#protect .known:visible input").last.check()
    page.mouse.click(5, 500)
    page.click("#go")
    journey.wait_for_report("decision")
    journey.shoot("two_columns", whole=True)
    page.evaluate("scrollTo(0, 0)")
    page.click("#ask-again")
    page.wait_for_selector("#go", state="visible")
    page.click("#protect summary")
    page.uncheck("#protect input[value=Alkohol]")
    page.mouse.click(5, 500)
    page.click("#more > summary")
    page.check("#correction")
    page.click("#go")
    journey.wait_for_report("cost")
    page.wait_for_selector("#jobs li", state="detached")
    journey.shoot("corrected", whole=True)
    page.evaluate("scrollTo(0, 0)")
    page.click("a[href='#/studies']")
    page.wait_for_selector("#studies tbody tr:nth-child(3)")
    for box in page.query_selector_all("#studies tbody input"):
        box.check()
    journey.shoot("studies")
    page.click("#compare")
    page.wait_for_selector("#comparison-chart svg")
    journey.shoot("comparison", whole=True)


def by_keyboard(journey: Journey, link: str, file: Path) -> None:
    page, press = journey.page, journey.page.keyboard.press
    page.goto(link)
    page.wait_for_selector("html[data-at]")
    page.on("filechooser", lambda chosen: chosen.set_files(file))
    journey.tab_to("file")
    journey.shoot("upload_has_the_focus")
    press("Enter")
    page.wait_for_selector("#go", state="visible")
    # Backwards from the table: the people, then the columns to randomise.
    press("Shift+Tab")
    press("Shift+Tab")
    press("Enter")
    journey.tab_to("Alkohol")
    press("Space")
    press("Tab")
    press("Space")
    journey.tab_to("Diabetes")
    press("Space")
    journey.shoot("protect")
    press("Escape")
    press("Tab")
    press("Enter")
    journey.tab_to("group-column")
    page.keyboard.type("Alter")
    journey.tab_to("group-operator")
    page.keyboard.type("is at")
    journey.type_in("group-value", "65")
    press("Enter")
    journey.shoot("people")
    press("Escape")
    journey.tab_to("go")
    journey.shoot("question")
    press("Enter")
    journey.wait_for_report()
    journey.tab_to("slider")
    for _ in range(4):
        press("ArrowRight")
    journey.shoot("cost")
    decision = journey.wait_for_report("decision")
    journey.tab_to("accepted", "Shift+Tab")
    press("Control+a")
    page.keyboard.type("5")
    journey.tab_to("feared", "Shift+Tab")
    press("Control+a")
    page.keyboard.type("20")
    page.wait_for_timeout(800)
    journey.shoot("recommendation")
    print("the keyboard led to:", decision.inner_text("#advice"))
    journey.tab_to("save-report", "Shift+Tab")
    journey.shoot("save_has_the_focus")


def with_trees(journey: Journey, link: str, _: Path) -> None:
    """Ask about the survey that comes with epsilens, with boosted trees."""
    page = journey.page
    page.goto(link)
    page.wait_for_selector("html[data-at]")
    page.click("#try")
    page.wait_for_selector("#go", state="visible")
    page.select_option("#model", "hist-gradient-boosting")
    journey.shoot("question")
    page.click("#go")
    page.wait_for_selector("#jobs li .words:has-text('left')")
    journey.shoot("jobs")
    page.click("#jobs button >> nth=0")
    page.wait_for_selector("#jobs button:has-text('Resume')")
    journey.shoot("stopped")
    page.click("#jobs button:has-text('Resume')")
    journey.wait_for_report("decision")
    journey.shoot("decision", whole=True)


def with_spss(journey: Journey, link: str, file: Path) -> None:
    """Ask about a file of SPSS, whose codes have value labels."""
    import pyreadstat

    page = journey.page
    survey = pd.read_csv(file, sep=";", encoding="latin-1", decimal=",").dropna()
    labels = {}
    for column in ("Geschlecht", "Region", "Alkohol", "Diabetes"):
        answers = sorted(survey[column].unique())
        labels[column] = dict(enumerate(answers, start=1))
        survey[column] = survey[column].map(
            {answer: code for code, answer in labels[column].items()}
        )
    saved = file.with_name("gesundheit.sav")
    pyreadstat.write_sav(survey, str(saved), variable_value_labels=labels)
    page.goto(link)
    page.wait_for_selector("html[data-at]")
    page.set_input_files("#file", saved)
    page.wait_for_selector("#go", state="visible")
    page.click("#columns > summary")
    journey.shoot("columns", whole=True)
    page.click("#columns > summary")
    page.select_option("#trust", "nobody")
    journey.shoot("question")
    page.click("#go")
    journey.wait_for_report("decision")
    journey.shoot("nobody_is_trusted", whole=True)


def main() -> None:
    if len(sys.argv) < 2 or CHROMIUM is None:
        raise SystemExit("give a folder for the pictures; Chromium must be installed")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    walks: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
        "mouse": (by_mouse, {}),
        "keyboard": (by_keyboard, {"color_scheme": "dark"}),
        "telephone": (by_mouse, {"width": 375, "height": 800}),
        "dark": (by_mouse, {"color_scheme": "dark"}),
        "trees": (with_trees, {}),
        "spss": (with_spss, {}),
    }
    wanted = sys.argv[2:] or list(walks)
    with tempfile.TemporaryDirectory() as scratch, browsing() as browser:
        file = make_file(Path(scratch) / "gesundheit.csv")
        for name in wanted:
            walk, look = walks[name]
            started = time.monotonic()
            with serving(Path(scratch) / name) as link:
                journey = Journey(browser, folder, name, **look)
                walk(journey, link, file)
                journey.end()
            print(f"{name}: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
