# SPDX-License-Identifier: Apache-2.0
"""Stored outputs: what commands print and write, and how it differs from what is stored.

    python tests/golden/regenerate.py               run all cases, show every difference
    python tests/golden/regenerate.py whatif-label  run some of them
    python tests/golden/regenerate.py --write       store what they give now

Each case is one command with a fixed seed on generated or bundled data, stored in `expected/` as one
text file: the command, the exit code, standard output, standard error, and the files that it wrote.

What may differ between two runs or machines is replaced (the seconds taken, the version) or compared with
a tolerance: see `CLOSE`.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import io
import json
import math
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from epsilens import __version__

EXPECTED = Path(__file__).parent / "expected"
SCRIPT = "python tests/golden/regenerate.py"
WIDTH = 120
"""Wide enough for every table: how one that is not gets squeezed differs between versions of rich."""
WITHOUT_WRAPPING = 2_000
"""Columns for `--help`, whose layout belongs to typer and rich: no line is wrapped then."""
DIGITS = 6
CLOSE = {"rel_tol": 1e-4, "abs_tol": 1e-6}
"""For numbers of JSON documents alone: another BLAS adds in another order, and another version of a solver
stops a little earlier or later. Printed numbers have few digits and are compared as text."""


@dataclass(frozen=True)
class Case:
    """One command, and which of the files that it writes are looked at."""

    name: str
    command: str
    files: tuple[str, ...] = ()
    needs: str | None = None
    """A package of an extra, without which the case is skipped."""

    @property
    def is_help(self) -> bool:
        return self.command.endswith("--help")

    @property
    def can_run(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


SMOKES = "survey.csv --label smokes --categories 'smokes=no|yes'"
TWO = "--epsilon 0.5,2"
DECIDE = (
    f"decide {SMOKES} --mechanism randomised-response --epsilon 0.25,1,2,4,8 --shadow-models 48"
)
DPSGD = (
    "risk survey.csv --label smokes --mechanism dpsgd --delta 1e-5 --epsilon 1,8 --epochs 2 "
    "--shadow-models 20"
)
FEDERATE = (
    "federate simulate --data survey.csv --label smokes --protect smokes,region --epsilon 3 "
    "--sites 4 --in-process --change 2:1.0 --remove 3"
)
CASES = (
    Case("inspect", "inspect untidy.csv"),
    Case("inspect-json", "inspect untidy.csv --json"),
    Case("inspect-bundled-survey", "inspect affairs.csv"),
    Case("whatif-label", f"whatif {SMOKES} --epsilon 0.1:10:9 --method exact"),
    # With much time, which method `auto` takes does not depend on the machine.
    Case("whatif-label-json", f"whatif {SMOKES} --epsilon 0.1:10:9 --seconds 600 --json"),
    Case(
        "whatif-groups",
        f"whatif {SMOKES} {TWO} --group 'women=sex == \"F\"' --group 'age < 30' --method exact "
        "--out groups.html",
        files=("groups.html",),
    ),
    Case(
        "whatif-groups-json",
        f"whatif {SMOKES} {TWO} --group 'women=sex == \"F\"' --group 'age < 30' --method exact --json",
    ),
    Case("whatif-influence", f"whatif {SMOKES} {TWO} --method influence"),
    Case("whatif-influence-json", f"whatif {SMOKES} {TWO} --method influence --json"),
    Case(
        "whatif-feature",
        f"whatif survey.csv --label smokes --protect region {TWO} --method exact",
    ),
    Case(
        "whatif-feature-json",
        "whatif survey.csv --label smokes --protect region --categories 'region=east|north|south' "
        f"{TWO} --method exact --json",
    ),
    Case("whatif-forward", f"whatif {SMOKES} {TWO} --correction forward"),
    Case("whatif-forward-json", f"whatif {SMOKES} {TWO} --correction forward --json"),
    Case("whatif-retrain-json", f"whatif {SMOKES} {TWO} --method retrain --repeats 5 --json"),
    Case("whatif-bundled-survey-json", f"whatif affairs.csv --label affair {TWO} --json"),
    Case("whatif-limit-not-met", f"whatif {SMOKES} {TWO} --max-loss-increase 0.000001"),
    Case("risk", f"risk {SMOKES} --epsilon 0.5,4 --shadow-models 48"),
    Case("risk-json", f"risk {SMOKES} --epsilon 0.5,4 --shadow-models 48 --json"),
    Case("risk-dpsgd", DPSGD),
    Case("risk-dpsgd-json", f"{DPSGD} --json"),
    Case("decide-without-limit", DECIDE),
    Case(
        "decide-which-protection",
        f"decide {SMOKES} --epsilon 0.25,0.5,1,4 --shadow-models 48",
    ),
    Case(
        "decide-which-protection-table",
        f"decide {SMOKES} --epsilon 0.25,0.5,1,4 --shadow-models 48 --table",
    ),
    Case("decide-loss-limit", f"{DECIDE} --max-loss-increase 0.05"),
    Case("decide-loss-limit-table", f"{DECIDE} --max-loss-increase 0.05 --table"),
    Case("decide-attack-limit", f"{DECIDE} --max-attack-rate 0.75"),
    Case(
        "decide-both-limits",
        f"{DECIDE} --max-loss-increase 0.05 --max-attack-rate 0.85 --out report.html",
        files=("report.html",),
    ),
    Case(
        "decide-both-limits-json",
        f"{DECIDE} --max-loss-increase 0.05 --max-attack-rate 0.85 --json",
    ),
    Case("decide-limit-not-met", f"{DECIDE} --max-attack-rate 0.05"),
    Case("decide-proven-only", f"{DECIDE} --max-attack-rate 0.85 --proven-only --quiet"),
    Case(
        "randomise-simulated",
        "randomise untidy.csv --protect smokes --epsilon 1 --categories 'smokes=no|yes' "
        "--drop id --out released.csv --seed 1",
        files=("released.csv", "released.csv.receipt.json"),
    ),
    Case(
        "train-simulated",
        "train survey.csv --label smokes --categories 'smokes=no|yes' --mechanism noisy-descent "
        "--epsilon 1 --x-bound 4 --out model.json --seed 1",
    ),
    Case(
        "train-undeclared",
        "train survey.csv --label smokes --mechanism noisy-descent --epsilon 1 --protects record "
        "--out other.json",
    ),
    Case(
        "audit-one-run",
        "audit one-run --mechanism gaussian-sum --epsilon 4 --delta 1e-6 --canaries 200 "
        "--dimension 300 --seed 1",
    ),
    Case(
        "audit-one-run-json",
        "audit one-run --mechanism rr --epsilon 1 --canaries 200 --seed 1 --json",
    ),
    Case("mask", "mask people.csv --label smokes --identity person --alpha 0.5", needs="shap"),
    Case("value-local", "value local survey.csv --label smokes"),
    Case("value-local-json", "value local survey.csv --label smokes --json --no-curve"),
    Case("federate-simulate", FEDERATE),
    Case("federate-simulate-json", f"{FEDERATE} --json"),
    Case("demo", "demo --out demo", files=("demo/report.html",)),
    Case("error-unknown-column", "whatif survey.csv --label smoke"),
    Case("error-epsilon", f"whatif {SMOKES} --epsilon -1"),
    Case("error-number-without-bins", "whatif survey.csv --label smokes --protect income"),
    Case("error-no-file", "inspect nowhere.csv"),
)


def help_cases() -> tuple[Case, ...]:
    """Return a case for the help of each command and group, as they are now."""
    import typer

    from epsilens.cli.app import app

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[Case]:
        yield Case("-".join(("help", *words)), " ".join((*words, "--help")))
        for name, part in getattr(command, "commands", {}).items():
            yield from walk(part, (*words, name))

    return tuple(walk(typer.main.get_command(app), ()))


def all_cases() -> tuple[Case, ...]:
    return (*CASES, *help_cases())


# What the commands read.


def write_tables(folder: Path) -> None:
    """Write the tables of the cases: generated with a fixed seed, and an eighth of the bundled survey."""
    from epsilens.data import load_survey

    survey = _survey(240)
    survey.to_csv(folder / "survey.csv", index=False)
    untidy = survey.head(40).assign(
        id=[f"a{i:02d}" for i in range(40)], country="here", note=["a, b", "", "007", "?"] * 10
    )
    untidy.loc[3:8, "income"] = None
    untidy.to_csv(folder / "untidy.csv", index=False)
    load_survey()[::8].to_csv(folder / "affairs.csv", index=False)
    _people(300).to_csv(folder / "people.csv", index=False)


def _survey(n: int) -> pd.DataFrame:
    """Return a survey: two numbers, a category of three, one of two, and an answer."""
    rng = np.random.default_rng(20)
    age = rng.integers(18, 80, n)
    region = np.array(["north", "south", "east"])[rng.integers(0, 3, n)]
    score = 0.05 * (age - 45) + 0.8 * (region == "north") - 0.2
    return pd.DataFrame(
        {
            "age": age,
            "income": 100 * rng.integers(80, 600, n),
            "region": region,
            "sex": np.array(["F", "M"])[rng.integers(0, 2, n)],
            "smokes": np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no"),
        }
    )


def _people(n: int) -> pd.DataFrame:
    """Return records of five people whom gait and voice tell apart; age and income serve the task."""
    rng = np.random.default_rng(1)
    who = rng.integers(0, 5, n)
    age, income = rng.random(n) - 0.5, rng.random(n) - 0.5
    return pd.DataFrame(
        {
            "gait": 0.8 * who + rng.random(n),
            "voice": 1.5 * (who % 3) + rng.random(n),
            "age": age,
            "income": income,
            "person": [f"p{k}" for k in who],
            "smokes": np.where(3 * age - 2 * income + rng.random(n) > 0.5, "yes", "no"),
        }
    ).round(3)


# Running a command, and what it gave as text.


def run(case: Case, folder: Path) -> str:
    """Run a command of a case in a folder with the tables; return what is stored of it."""
    from epsilens.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        _plain_terminal(WITHOUT_WRAPPING if case.is_help else WIDTH),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(shlex.split(case.command))
    printed, told = _without_colours(out.getvalue()), _without_colours(err.getvalue())
    parts = [
        f"$ epsilens {case.command}\nexit code {code}",
        *_part("standard output", _without_layout(printed) if case.is_help else printed),
        *_part("standard error", told),
    ]
    for name in case.files:
        text = (folder / name).read_text(encoding="utf-8")
        if name.endswith(".html"):
            parts += _part(f"{name}, its text", report_text(text))
        else:
            parts += _part(name, text)
    return "\n\n".join(parts) + "\n"


@contextlib.contextmanager
def _plain_terminal(width: int) -> Iterator[None]:
    """Let a terminal be so wide and without colours, whatever the caller's is."""
    with mock.patch.dict(os.environ, {"COLUMNS": str(width), "NO_COLOR": "1"}):
        for name in ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            os.environ.pop(name, None)
        yield


def _without_colours(text: str) -> str:
    """Undo colours: typer decides on them when it is imported, by the environment of that time."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _part(title: str, text: str) -> tuple[str, ...]:
    """Return a part under its title, without what varies; nothing for an empty one."""
    text = text.replace(__version__, "<version>")
    if text.lstrip().startswith("{"):
        text = pretty(json.loads(text))
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return (f"--- {title}\n{lines}",) if lines.strip() else ()


def pretty(document: object) -> str:
    """Return a document with rounded numbers, its keys in their order, and each list of values on a line."""
    text = json.dumps(_settled(document), indent=2, ensure_ascii=False)
    values = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s*\]")
    return values.sub(lambda found: "[" + re.sub(r"\n\s*", " ", found[1]) + "]", text)


def _settled(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _settled(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_settled(part, key) for part in value]
    if isinstance(value, int | float) and key == "seconds":
        return "<seconds>"
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


SPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    ("<str>", "TEXT"),
    ("<int>", "INTEGER"),
    ("<int range>", "INTEGER RANGE"),
    ("<float>", "FLOAT"),
    (r"<([\w-]+(?:\|[\w-]+)+)>", r"[\1]"),
    ("^Usage:.*", lambda found: re.sub("[{}]", "", found[0])),
    (r"^\* [A-Z_]+ ", lambda found: found[0].lower()),
    (r"^\[([A-Z_]+)\] TEXT ", lambda found: f"{found[1].lower()} [{found[1]}] "),
)
"""What help looks like from typer 0.27 on, and how it is stored: as before."""


def _without_layout(text: str) -> str:
    """Return help without frames and columns, one line an option, as every version of typer shows it."""
    lines = (" ".join(re.sub("[─│╭╮╰╯]", " ", line).split()) for line in text.splitlines())
    text = "\n".join(line for line in lines if line)
    for pattern, spelling in SPELLINGS:
        text = re.sub(pattern, spelling, text, flags=re.MULTILINE)
    return text


class _ReportText(HTMLParser):
    """Collects what a reader or a screen reader finds in a report; charts and programs are left out."""

    LEFT_OUT = frozenset({"script", "style", "svg"})
    WITHIN_A_LINE = frozenset(
        [
            "a",
            "abbr",
            "b",
            "bdi",
            "button",
            "code",
            "em",
            "i",
            "input",
            "label",
            "output",
            "span",
            "strong",
            "sub",
            "sup",
        ]
    )
    SPOKEN = ("aria-label", "title", "alt", "placeholder")

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._outside = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.LEFT_OUT:
            self._outside += 1
        elif not self._outside:
            given = dict(attrs)
            self._break(tag)
            self.text += [f" [{name}: {given[name]}] " for name in self.SPOKEN if given.get(name)]
            if tag == "input" and given.get("value"):
                self.text.append(f" [{given['value']}] ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.LEFT_OUT:
            self._outside -= 1
        elif not self._outside:
            self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._outside:
            self.text.append(re.sub(r"\s+", " ", data))

    def _break(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self.text.append(" | ")
        elif tag not in self.WITHIN_A_LINE:
            self.text.append("\n")


def report_text(page: str) -> str:
    """Return the text of a report: a line for each sentence, heading, and row of a table."""
    parser = _ReportText()
    parser.feed(page)
    lines = (
        re.sub(r"(\| )+(\||$)", r"|", " ".join(line.split()))
        for line in "".join(parser.text).splitlines()
    )
    sentences = (
        sentence
        for line in lines
        for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", line)
        if sentence.strip(" |")
    )
    return re.sub(r"(?<=^time taken\n).*", "<seconds>", "\n".join(sentences), flags=re.MULTILINE)


# Comparing with what is stored.

_NUMBERS_OF_JSON = re.compile(r'\s*("[^"]+": )?\[?(-?\d[-+\de.]*(, )?)+\]?,?')
_NUMBER = re.compile(r"(?<!\w)-?\d[-+\de.]*(?=[,\]]|$)")


def path_of(case: Case) -> Path:
    return EXPECTED / f"{case.name}.txt"


def stored(case: Case) -> str:
    return path_of(case).read_text(encoding="utf-8") if path_of(case).exists() else ""


def settle(before: str, now: str) -> str:
    """Return what there is now, with the stored line for each that differs in spacing or by `CLOSE` alone.

    The spacing of a table is rich's: versions differ by a blank.
    """
    old, new = before.splitlines(), now.splitlines()
    kept = list(new)
    matcher = difflib.SequenceMatcher(
        None, list(map(_skeleton, old)), list(map(_skeleton, new)), autojunk=False
    )
    for i, j, n in matcher.get_matching_blocks():
        for k in range(n):
            if _is_close(old[i + k], new[j + k]):
                kept[j + k] = old[i + k]
    return "\n".join(kept) + "\n"


def _skeleton(line: str) -> str:
    """Return a line of JSON without its digits, and every other line without its spacing."""
    if not _NUMBERS_OF_JSON.fullmatch(line):
        return re.sub("[ ─]+", " ", line).strip()
    return _NUMBER.sub(lambda number: "0.0" if _is_float(number[0]) else "0", line)


def _is_float(number: str) -> bool:
    return bool(re.search(r"[.e]", number))


def _is_close(old: str, new: str) -> bool:
    """Say whether two lines with the same skeleton have the same counts and nearly the same numbers."""
    if not _NUMBERS_OF_JSON.fullmatch(new):
        return True
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(
        math.isclose(float(a), float(b), **CLOSE) if _is_float(a) else a == b for a, b in pairs
    )


def difference(case: Case, now: str) -> str:
    """Return a unified diff from what is stored to what there is now; empty if they agree."""
    before = stored(case)
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            settle(before, now).splitlines(keepends=True),
            f"stored/{case.name}.txt",
            f"now/{case.name}.txt",
        )
    )


def forgotten(cases: Sequence[Case]) -> list[Path]:
    """Return stored files that no case has."""
    known = {path_of(case) for case in cases}
    return sorted(path for path in EXPECTED.glob("*") if path not in known)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show differences, and store them if asked; 1 if there are some and they are not stored."""
    parser = argparse.ArgumentParser(description="Show how outputs differ from the stored ones.")
    parser.add_argument("names", nargs="*", help="cases, by name; all unless given")
    parser.add_argument("--write", action="store_true", help="store what there is now")
    given = parser.parse_args(arguments)
    cases = all_cases()
    unknown = set(given.names) - {case.name for case in cases}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    changed = 0
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        for case in cases:
            if given.names and case.name not in given.names:
                continue
            if not case.can_run:
                print(f"{case.name} is skipped: {case.needs} is not installed.")
                continue
            now = run(case, Path(folder))
            found = difference(case, now)
            changed += bool(found)
            print(found, end="")
            if found and given.write:
                EXPECTED.mkdir(exist_ok=True)
                path_of(case).write_text(settle(stored(case), now), encoding="utf-8")
    left = [] if given.names else forgotten(cases)
    for path in left:
        print(f"{path.name} belongs to no case.")
        if given.write:
            path.unlink()
    what = f"{changed} changed, {len(left)} of no case"
    if given.write:
        print(f"Stored: {what}.")
        return 0
    print(f"{what}." + (f" To store them: {SCRIPT} --write" if changed or left else ""))
    return int(bool(changed or left))


if __name__ == "__main__":
    sys.exit(main())
