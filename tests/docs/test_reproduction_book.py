# SPDX-License-Identifier: Apache-2.0
"""The book says of every benchmark what was reached; its numbers come from results and quotations only."""

from __future__ import annotations

import copy
import importlib.util
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

BENCHMARKS = (
    "whatif-adult",
    "whatif-flc",
    "whatif-pubcov",
    "whatif-mnist",
    "whatif-features",
    "whatif-speed",
    "whatif-many-tables",
    "whatif-scale",
    "loo",
    "batch-correction",
    "federated",
    "federated-remove",
    "one-run",
    "audit-recipes",
    "ridge",
    "lira",
    "masking",
    "page",
    "frontier",
    "any-model",
)
"""Every table that was asked for, whether or not it has been made."""

PRINTED = {
    "p1": ("Table I", "Table II", "Table III", "Table IV", "Fig. 1", "Fig. 2"),
    "p2": ("Table 1", "Table 2", "Table 3", "Fig. 1", "Fig. 2, top", "Fig. 2, bottom"),
    "p3": ("Q1.7", "Q2.1", "Q2.2", "Q2.3"),
    "p4": ("Table 1", "Fig. 1", "Fig. 2", "Fig. 3"),
    "p5": (
        *(
            "Table I",
            "Table II",
            "Fig. 1a",
            "Fig. 1b",
            "Fig. 2",
            "Fig. 3",
            "Fig. 4a",
            "Fig. 4b",
            "Fig. 5",
        ),
        *("Fig. 6a", "Fig. 6b", "Fig. 7", "Fig. 8a", "Fig. 8b", "Fig. 9", "Fig. 10a", "Fig. 10b"),
    ),
}
"""Every table and figure of the five papers; P3 asks for figures and prints none."""

REFERENCES = re.compile(
    r"\bP[1-5]\b|\b(?:Tables?|Figs?\.|Eqs?\.|Section|section|Part|part) (?:[IVX]+|\d+)[a-z]?"
    r"(?:(?:,| and| to) (?:Figs?\. |Tables? )?(?:[IVX]+|\d+)[a-z]?)*|\bQ\d\.\d|\bHW3\b|DA 5001/6400"
)
"""Digits that count nothing: the papers, and places in them."""


def load():
    name = "reproduction_book"
    folder = DOCS / "_book"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def book():
    return load()


@pytest.fixture(scope="module")
def results(book):
    return book.read_all(book.RESULTS)


@pytest.fixture(scope="module")
def pages(book):
    return book.pages()


def test_the_pages_are_up_to_date_with_the_results(book, pages):
    for target, text in pages.items():
        assert (DOCS / target).read_text(encoding="utf-8") == text, f"{target}: run make bench-docs"


def test_every_benchmark_has_a_verdict(book, results, pages):
    bars = sys.modules[f"{book.__name__}.verdicts"]
    verdicts = {bars.MET, bars.MISSED, bars.REPORTED, bars.UNMEASURED}
    found = book.overview.judged(results)
    assert set(found) == set(BENCHMARKS)
    text = pages["reproduction/index.md"]
    table = text[text.index("## What was asked for") : text.index("## Every bar")]
    for name, asked in found.items():
        assert asked, name
        assert {bar.verdict for bar in asked} <= verdicts
        line = re.search(rf"^\| `{name}` \|[^|]+\| ([^|]+) \|$", table, flags=re.MULTILINE)
        assert line, name
        assert line[1] == book.overview.summary(asked)
        assert f"### {name}\n" in text
        for bar in asked:
            assert f"| {bar.asked} | {bar.reached} | {bar.verdict} |" in text


def test_what_is_not_met_is_listed_at_the_head(book, results, pages):
    text = pages["reproduction/index.md"]
    assert re.search(r"^## .+$", text, flags=re.MULTILINE)[0] == "## What was not met"
    head = text[text.index("## What was not met") : text.index("## What was asked for")]
    for name, asked in book.overview.judged(results).items():
        for bar in asked:
            listed = f"| `{name}` | {bar.asked} | {bar.reached} |" in head
            assert listed == bar.verdict.startswith("**not"), (name, bar.asked)


def test_what_was_not_run_is_counted_wherever_the_book_is_mentioned(pages):
    papers = {name: text for name, text in pages.items() if name.startswith("reproduction/p")}
    listed = [
        row
        for text in papers.values()
        for row in re.findall(
            r"^\| (?:Tables?|Figs?\.) .*\bnot run\b.*\|$", text, flags=re.MULTILINE
        )
    ]
    count = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}[len(listed)]
    index = pages["reproduction/index.md"]
    section = index[index.index("## What was not run") : index.index("## What was asked for")]
    assert f"{count.capitalize()} parts of the papers were not run:" in section
    assert section.count("\n- ") == len(listed)
    for row in listed:
        place = re.match(r"\| ((?:Table|Fig\.) \w+)", row)[1]
        assert place in section, place
    for page in ("README.md", "docs/index.md", "docs/evidence.md"):
        text = " ".join((DOCS.parent / page).read_text(encoding="utf-8").split())
        assert re.search(rf"except \[?{count} that were not run", text), page
        assert "very table and figure" not in text, page


def test_every_miss_has_a_note_and_every_note_a_miss(book, results, pages):
    every = [bar for bars in book.overview.judged(results).values() for bar in bars]
    bars = sys.modules[f"{book.__name__}.verdicts"]
    found = book.overview.notes([bar for bar in every if bar.verdict == bars.MISSED])
    assert not any(note.startswith("*Not explained") for note in found)
    for note in found:
        assert f"- {note}\n" in pages["reproduction/index.md"]
    assert book.overview.notes([]) == []


def test_no_number_is_typed_into_the_prose(book):
    for source in book.PAGES:
        prose = (book.HERE / source).read_text(encoding="utf-8")
        prose = re.sub(r"^```.*?^```$", "", prose, flags=re.MULTILINE | re.DOTALL)
        prose = re.sub(r"\{\{\w+\}\}|`[^`]+`|\]\([^)]+\)", "", prose)
        left = re.findall(r".{0,20}\d.{0,20}", REFERENCES.sub("", prose))
        assert left == [], source


def test_every_name_in_the_prose_is_filled_and_every_fact_is_shown(book, results):
    for source, (_, facts) in book.PAGES.items():
        prose = (book.HERE / source).read_text(encoding="utf-8")
        assert book.names(prose) == set(facts(results)), source
    with pytest.raises(KeyError, match="unknown"):
        book.filled("{{unknown}}", {})


def test_a_result_that_falls_short_is_not_called_met(book, results):
    worse = dict(results)
    rows = [dict(row) for row in results["whatif-features"]["rows"]]
    rows[0]["ratio"], rows[1]["coverage"] = 1.51, 0.5
    worse["whatif-features"] = {**results["whatif-features"], "rows": rows}
    del worse["ridge"]
    found = book.overview.judged(worse)
    bars = sys.modules[f"{book.__name__}.verdicts"]
    assert [bar.verdict for bar in found["whatif-features"]] == [bars.MISSED] * 3
    assert book.overview.summary(found["whatif-features"]) == bars.MISSED
    assert book.overview.summary(found["ridge"]) == bars.UNMEASURED


def test_a_measured_scale_is_judged_by_every_bar(book, results):
    row = {
        "n": 10_000_000,
        "peak_bytes": 1.9e9,
        "seconds": {"bare pass": 1.0, "fit": 10.1, "point table": 2.9},
        "cpu_seconds": {"bare pass": 2.0, "fit": 19.8, "point table": 6.2},
        "one_against_two": {"best": 1.6, "part": "fit", "turns": 5},
    }
    slopes = {"fit": {"value": 1.05, "standard_error": 0.01}}
    found = book.overview.judged({**results, "whatif-scale": {"rows": [row], "slopes": slopes}})
    verdicts = [bar.verdict for bar in found["whatif-scale"]]
    bars = sys.modules[f"{book.__name__}.verdicts"]
    assert verdicts[:2] == [bars.MET, bars.MET]
    assert verdicts[2:4] == [bars.MET, bars.MISSED]
    assert verdicts[4:] == [bars.MISSED, bars.MET, bars.MET]
    *_, both = found["whatif-scale"]
    assert both.asked.endswith("best of 5 alternating runs")
    assert both.reached == "1.60 at 10,000,000 (fit)"


def test_a_measured_slider_is_judged_by_every_bar(book, results):
    def row(name: str, milliseconds: float, **more: int) -> dict:
        return {"name": name, "drag": {"p95_ms": milliseconds}, "keys": {"p95_ms": 9.0}, **more}

    measured = {
        "bars": {"p95_ms": 50.0, "bytes": 3_000_000},
        "rows_of_the_table": 50_000,
        "rows": [
            row("a slider and nothing else", 51.0),
            row("report: a decision", 49.9, bytes=2_999_999),
            row("served page, all computed", 50.0, bytes=1_000_000),
        ],
    }
    found = book.overview.judged({**results, "page": measured})["page"]
    bars = sys.modules[f"{book.__name__}.verdicts"]
    assert [bar.verdict for bar in found] == [bars.MET, bars.MISSED, bars.MET]


def test_a_preview_that_is_off_and_a_better_peer_are_misses(book, results):
    bars = sys.modules[f"{book.__name__}.verdicts"]
    found = copy.deepcopy(results["frontier"])
    found["agreement"]["all"]["loss"] |= {"within_two": 0.9, "worst": 3.9, "coverage": 0.85}
    found["peer"] = [
        {"rows": "default", "peer": 0.01, "ours": 0.011, "ours_at_equal_advantage": 0.012}
    ]

    def verdicts() -> list[str]:
        judged = book.overview.judged({**results, "frontier": found})["frontier"]
        return [bar.verdict for bar in (*judged[:3], *judged[-2:])]

    assert verdicts() == [bars.MET, bars.MET, bars.MET, bars.MET, bars.MISSED]
    found["agreement"]["all"]["loss"] |= {"within_two": 0.89, "worst": 4.1, "coverage": 0.84}
    assert verdicts()[:3] == [bars.MISSED] * 3


def test_a_loss_that_is_off_where_much_changes_at_once_is_a_miss(book, results):
    bars = sys.modules[f"{book.__name__}.verdicts"]
    rows = copy.deepcopy(results["federated"]["rows"])
    for row in rows:
        for against in row["against"].values():
            for way in against["ways"].values():
                way["ald"] = [0.001, 0.0]
    every = {**results, "federated": {**results["federated"], "rows": rows}}

    def verdicts() -> list[str]:
        found = book.overview.judged(every)["federated"]
        return [bar.verdict for bar in found if "difference of the test loss" in bar.asked]

    assert verdicts() == [bars.MET] * 4
    at_90 = next(
        row
        for row in rows
        if (row["data"], row["question"], row.get("at")) == ("pubcov", "share", 90)
    )
    at_90["against"]["fresh"]["ways"]["one message"]["ald"] = [-0.0021, 0.001]
    assert verdicts() == [bars.MET, bars.MET, bars.MET, bars.MISSED]


@pytest.mark.parametrize("bound", ["pure", "approximate", "f-dp"])
def test_a_quarter_more_is_asked_of_every_bound_at_both_ends(book, results, bound):
    found = book.overview.judged(results)["one-run"]
    words = {"pure": "pure bound:", "approximate": "(ε, δ) bound:", "f-dp": "Gaussian family:"}
    (bar,) = [bar for bar in found if bar.asked.startswith(words[bound])]
    theirs = {"f-dp": "jax f-DP"}.get(bound, "jax one-run")
    ratios = []
    for point in results["one-run"]["points"]:
        if point["sweep"] == "epsilon" and point["epsilon"] in (8, 16):
            means = {(row["scores"], row["bound"]): row["mean"] for row in point["bounds"]}
            ratios += [means[s, bound] / means[s, theirs] for s in ("P3", "ours")]
    assert len(ratios) == 4
    assert (bar.verdict == "met") == (min(ratios) >= 1.25)


def test_quotations_agree_with_what_the_papers_say_of_them_in_words(book):
    results = sys.modules[f"{book.__name__}.results"]
    p1, p2 = results.quoted("p1"), results.quoted("p2")
    # P1 V-A: means over the sizes.
    for data, error, rank in (
        ("adult", 0.013, 0.9),
        ("acs_pubcov", 0.002, 0.523),
        ("mnist", 0.009, 0.747),
    ):
        errors, ranks = (
            list(printed(data, "labels").values()) for printed in (p1.table_3, p1.table_3_ranks)
        )
        assert sum(errors) / 10 == pytest.approx(error, abs=5e-4)
        assert sum(ranks) / 10 == pytest.approx(rank, abs=5e-4 if rank != 0.9 else 5e-2)
    seconds = p1.TABLE_4
    for column in (0, 1):
        assert 30 * seconds["per epsilon"][column] == pytest.approx(seconds["per group"][column])
        parts = (seconds["initial training"][column], seconds["IHVP"][column] or 0.0)
        whole = sum(parts) + 10 * seconds["per group"][column]
        assert whole == pytest.approx(seconds["for 10 groups"][column], abs=5e-3)
    # Of PubCov P2 prints 143.64 where a fifth is 143.46: two digits have changed places.
    for data, digits in (("income", 5e-3), ("glioma", 5e-3), ("pubcov", 0.2)):
        training, _ = p2.TABLE_3[data]
        assert training / 5 == pytest.approx(p2.TABLE_3_AT_ONCE[data], abs=digits)
    assert len(p2.table_2("income")) == 27


def test_every_section_with_numbers_names_the_command_that_made_them(pages):
    for target, text in pages.items():
        if not target.startswith("reproduction/p"):
            continue
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            if re.search(r"^\|---|^!\[", section, flags=re.MULTILINE):
                assert "`make bench-" in section, (target, section.partition("\n")[0])


def test_a_command_has_the_settings_that_its_script_has_not_by_itself(book):
    assert book.ages.command("whatif-speed", {"turns": 5}) == "make bench-whatif-speed"
    assert (
        book.ages.command("whatif-speed", {"turns": 3})
        == 'make bench-whatif-speed ARGS="--turns 3"'
    )


def test_results_are_as_old_as_their_contents(book, tmp_path):
    ages = book.ages
    results, scripts, file = tmp_path / "results", tmp_path / "scripts", tmp_path / "ages.json"
    results.mkdir()
    scripts.mkdir()
    (results / "a-table.json").write_text("{}")
    (scripts / "a_table.py").write_text("import numpy\nfrom shared import x\n")
    (scripts / "shared.py").write_text("x = 1\n")
    ages.write(file, results, scripts)
    first = file.read_text()
    known = ages.read(file)
    assert set(known["a-table"]["scripts"]) == {"a_table.py", "shared.py"}
    assert ages.changed("a-table", known["a-table"], scripts) == []
    (scripts / "shared.py").write_text("x = 2\n")
    ages.write(file, results, scripts)
    assert file.read_text() == first
    assert ages.changed("a-table", known["a-table"], scripts) == ["shared.py"]
    (results / "a-table.json").write_text('{"again": 1}')
    ages.write(file, results, scripts)
    assert ages.changed("a-table", ages.read(file)["a-table"], scripts) == []


def test_the_ages_that_are_kept_are_those_of_the_results(book):
    known = book.ages.read()
    assert set(known) == {file.stem for file in book.RESULTS.glob("*.json")}
    for name, age in known.items():
        assert age["result"] == book.ages.digest(book.RESULTS / f"{name}.json"), (
            "run make bench-docs"
        )


@pytest.mark.parametrize("paper", PRINTED)
def test_every_table_and_figure_of_a_paper_has_its_word(pages, paper):
    text = pages[f"reproduction/{paper}.md"]
    head = f"| {paper.upper()} | here |\n"
    assert text.count(head) == 1
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \|$", text[text.index(head) :].partition("\n\n")[0], flags=re.M
    )
    named = " ".join(rows)
    for what in PRINTED[paper]:
        pair = re.fullmatch(r"Fig\. (\d+)", what)
        together = rf"|Figs\. \d+ and {pair[1]}\b|Figs\. {pair[1]} and" if pair else ""
        assert re.search(rf"{re.escape(what)}(?![\dIVXa-z])" + together, named), what


def test_every_page_names_its_commands_and_its_images_exist(pages):
    makefile = (DOCS.parent / "Makefile").read_text()
    scripts = {file.stem.replace("_", "-") for file in (DOCS.parent / "benchmarks").glob("*.py")}
    for target, text in pages.items():
        named = re.findall(r"`make (bench-)?([\w-]+)", text)
        if target.startswith("reproduction/p"):
            assert len(named) >= 2, target
        for kind, name in named:
            assert name in scripts if kind and name != "docs" else f"{kind}{name}:" in makefile
        for image in re.findall(r"\]\((\S+images/[^)]+)\)", text):
            assert ((DOCS / target).parent / image).exists(), image
