# SPDX-License-Identifier: Apache-2.0
"""One message, three surfaces: Python names the argument, the command line the option, the page the field."""

from __future__ import annotations

import ast
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epsilens
from epsilens import _validate
from epsilens.app.surface import PAGE
from epsilens.channels import Budget
from epsilens.channels.domain import domain_of
from epsilens.channels.release import release_table
from epsilens.cli.app import TERMINAL
from epsilens.data import read_table
from epsilens.data.expressions import parse_expression
from epsilens.data.missing import settle_missing
from epsilens.data.parts import read_labels
from epsilens.data.prepare import observed_domain
from epsilens.errors import (
    COMMAND_LINE,
    PYTHON,
    ApproximationWarning,
    InputError,
    PrivacyLeakWarning,
    SiteError,
    phrase,
    render,
    setting,
)
from epsilens.influence.groups import refuse_dependence

ROOT = Path(epsilens.__file__).parent
PACKAGES = ("data", "models", "influence", "whatif", "risk", "decision", "channels")


def with_gaps() -> pd.DataFrame:
    frame = pd.DataFrame({"job": ["nurse", "clerk"] * 5, "sex": ["F", "M"] * 5})
    frame.loc[:5, "job"] = None
    return frame


def one_column(folder: Path) -> Path:
    file = folder / "survey.csv"
    file.write_text("age;smokes\n31;yes\n", encoding="utf-8")
    return file


def dependent() -> None:
    rows = np.array([True, True, False, False])
    refuse_dependence([("smokers", ["smokes"], rows, ~rows)], protected="smokes", action="refuse")


EXAMPLES: dict[str, tuple[Callable[[], object], str, str, str]] = {
    "a budget of 0": (
        lambda: _validate.as_epsilon(0.0),
        "`epsilon` must be greater than 0, got 0.0. Use `math.inf` for no privacy.",
        "`--epsilon` must be greater than 0, got 0.0. Use `inf` for no privacy.",
        "“the budgets” must be greater than 0, got 0.0.",
    ),
    "a budget of one column": (
        lambda: Budget.parse("sex=-1"),
        "`epsilon` of column sex must be greater than 0, got -1.0. Use `math.inf` for no privacy.",
        "`--epsilon` of column sex must be greater than 0, got -1.0. Use `inf` for no privacy.",
        "“the budgets” of column sex must be greater than 0, got -1.0.",
    ),
    "a seed": (
        lambda: _validate.as_generator("one"),
        "`random_state` must be a whole number or a numpy Generator, got str. Leave it out to draw "
        "from the operating system.",
        "`--seed` must be a whole number or a numpy Generator, got str. Leave it out to draw from "
        "the operating system.",
        "“the seed” must be a whole number or a numpy Generator, got str. Leave it out to draw from "
        "the operating system.",
    ),
    "a mistyped column": (
        lambda: _validate.require_column("somkes", ["age", "smokes"], argument="label"),
        "`label` must name a column of the data, got 'somkes'. Did you mean 'smokes'?",
        "`--label` must name a column of the data, got 'somkes'. Did you mean 'smokes'?",
        "“the column to predict” must name a column of the data, got 'somkes'. Did you mean 'smokes'?",
    ),
    "too many missing answers": (
        lambda: settle_missing(with_gaps(), policy="error"),
        "missing values are not allowed (`missing='error'`), but 6 of 10 rows have some (job 6). "
        "Choose `missing='drop'`, `missing='category'`, or leave out the column (`drop`).",
        "missing values are not allowed (`--missing error`), but 6 of 10 rows have some (job 6). "
        "Choose `--missing drop`, `--missing category`, or `--drop` the column.",
        "missing values are not allowed (“missing answers: error”), but 6 of 10 rows have some (job "
        "6). Choose “missing answers: drop”, “missing answers: category”, or leave out the column.",
    ),
    "a number with many values": (
        lambda: domain_of(
            pd.Series(np.arange(100) % 50, name="age"), given=None, bins=None, with_missing=False
        ),
        "column 'age' must have at most 20 different numbers to be protected as it is, got 50. Put "
        "them into bins: `bins={'age': Bins(10, LOW, HIGH)}`.",
        "column 'age' must have at most 20 different numbers to be protected as it is, got 50. Put "
        "them into bins: `--bins age=LOW:HIGH:10`.",
        "column 'age' must have at most 20 different numbers to be protected as it is, got 50. Put "
        "them into bins: “bins” such as 0:100:10.",
    ),
    "a label with many values": (
        lambda: read_labels(pd.Series(np.arange(26.0)), name="income"),
        "Use `positive='VALUE'` for one value against the others, or put the numbers into classes, "
        "or take them as numbers (task='regression').",
        "Use `--positive VALUE` for one value against the others, or put the numbers into classes; "
        "as numbers, `epsilens whatif` and `epsilens value local` predict them with `--model ridge`.",
        "Use “the answer that counts as yes” for one value against the others, or predict the "
        "numbers.",
    ),
    "a group that gives the answer away": (
        dependent,
        "Choose the group by other columns, or pass `dependent_groups='warn'` to look anyway.",
        "Choose the group by other columns, or add `--allow-dependent-groups` to look anyway.",
        "Choose the group by other columns, or tick “allow groups that give the answer away” to "
        "look anyway.",
    ),
    "columns in the order of the rows": (
        lambda: release_table(
            pd.DataFrame({"answer": ["no", "yes"] * 30, "number": np.arange(60)}),
            budget=Budget({"answer": 1.0}),
            categories={"answer": ["no", "yes"]},
        ),
        "Use `drop=['number']`, or `keep_order=True` if the order of the rows may be known.",
        "Use `--drop number`, or `--keep-order` if the order of the rows may be known.",
        "Use “left out: number”, or “keep order” (in the terminal) if the order of the rows may be "
        "known.",
    ),
    "an argument of Python alone": (
        lambda: _validate.as_codes([0.5], n_categories=2),
        "`codes` must be whole numbers from 0 to 1, got values of type float64. Turn the categories "
        "into codes first.",
        "`codes` must be whole numbers from 0 to 1, got values of type float64. Turn the categories "
        "into codes first.",
        "“codes” (in the terminal) must be whole numbers from 0 to 1, got values of type float64. "
        "Turn the categories into codes first.",
    ),
}
"""What is asked, and how the message ends in Python, on the command line and on the page."""


@pytest.mark.parametrize("case", EXAMPLES)
def test_a_message_reads_right_on_every_surface(case: str) -> None:
    ask, python, command, page = EXAMPLES[case]
    with pytest.raises(InputError) as caught:
        ask()
    assert str(caught.value).endswith(python)
    for surface, said in ((PYTHON, python), (TERMINAL, command), (PAGE, page)):
        assert caught.value.render(surface).endswith(said)


def test_a_delimiter_is_named_as_it_is_typed(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_table(one_column(tmp_path), delimiter=",")
    assert str(caught.value).endswith("Use `delimiter=';'`.")
    assert caught.value.render(TERMINAL).endswith("Use `--delimiter ';'`.")
    assert caught.value.render(PAGE).endswith("Use “the delimiter ;”.")


def test_notes_read_right_on_every_surface() -> None:
    assert observed_domain("sex").render(COMMAND_LINE).endswith("Declare it with `--categories`.")
    note = observed_domain("sex", may_be_binned=True)
    assert note.render(PYTHON).endswith("Declare it with `categories`, or by a categorical dtype.")
    assert note.render(COMMAND_LINE).endswith(
        "Declare it with `--categories`, or by bins with bounds."
    )
    assert note.render(PAGE).endswith(
        "Tick “everybody may know” at the column, or give it bins with bounds."
    )


def test_what_was_typed_stays_as_it_was_typed() -> None:
    with pytest.raises(InputError) as caught:
        parse_expression("label ==")
    stays = (
        "must be an expression, but it is not valid at » in `label ==»`: a column, text or number was "
        "expected, got the end."
    )
    for surface, named in ((PYTHON, "`groups`"), (TERMINAL, "`--group`"), (PAGE, "“the group”")):
        assert caught.value.render(surface) == f"{named} {stays}"


@pytest.mark.parametrize(
    ("name", "value", "typed", "shown"),
    [
        ("max_rows", None, "`--max-rows`", "“max rows” (in the terminal)"),
        ("sample_weight", None, "`--weight`", "“the weight of a row”"),
        ("method", "exact", "`--method exact`", "“method: exact” (in the terminal)"),
        ("protect", ["a", "b"], "`--protect a,b`", "“the columns to randomise: a, b”"),
        ("keep_order", True, "`--keep-order`", "“keep order” (in the terminal)"),
        ("curve", False, "`--no-curve`", "“curve” (in the terminal)"),
        ("max_upload", None, "`--max-upload`", "`--max-upload`"),
    ],
)
def test_settings_have_a_name_on_every_surface(
    name: str, value: str | bool | list[str] | None, typed: str, shown: str
) -> None:
    text = setting(name, value)
    python = f"`{name}`" if value is None else f"`{name}={value!r}`"
    assert [render(text, at) for at in (PYTHON, TERMINAL, PAGE)] == [python, typed, shown]


def test_a_message_keeps_its_parts_on_the_way_to_another_process() -> None:
    error = InputError(argument="epsilon", of="column a", expected="finite", got="inf")
    again = pickle.loads(pickle.dumps(error))
    assert (again.argument, again.of, again.expected, again.got) == (
        "epsilon",
        "column a",
        "finite",
        "inf",
    )
    assert again.render(TERMINAL) == "`--epsilon` of column a must be finite, got inf."
    site = pickle.loads(pickle.dumps(SiteError(3, "has no change.")))
    assert (str(site), site.site) == ("site 3 has no change.", 3)
    for kind in (PrivacyLeakWarning, ApproximationWarning):
        told = kind(f"Use {setting('seconds')}.", code="preview", subject="a")
        back = pickle.loads(pickle.dumps(told))
        assert (str(back), back.code, back.subject) == ("Use `seconds`.", "preview", "a")
        assert back.render(TERMINAL) == "Use `--seconds`."


def test_a_warning_is_shown_in_python_terms_and_keeps_its_marks() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(f"Use {setting('seconds')}.", ApproximationWarning, stacklevel=1)
    message = caught[0].message
    assert isinstance(message, ApproximationWarning)
    assert str(message) == "Use `seconds`."
    assert message.render(PAGE) == "Use “seconds” (in the terminal)."


def test_a_phrase_may_hold_settings() -> None:
    text = "Bring more rows" + phrase(".", command=f", or use {setting('test')}.", page="!")
    assert [render(text, at) for at in (PYTHON, TERMINAL, PAGE)] == [
        "Bring more rows.",
        "Bring more rows, or use `--test`.",
        "Bring more rows!",
    ]


def test_no_library_text_names_an_option_for_every_surface() -> None:
    """An option is for the command line alone: it stands in the `command` of a phrase."""
    found = {}
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        allowed = {
            id(part)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            if call.func.id == "phrase"
            for keyword in call.keywords
            if keyword.arg == "command"
            for part in ast.walk(keyword.value)
        }
        allowed |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        found |= {
            f"{file.relative_to(ROOT)}:{text.lineno}": text.value
            for text in texts
            if id(text) not in allowed and isinstance(text.value, str)
            if re.search(r"`--[a-z]", text.value)
        }
    assert found == {}
