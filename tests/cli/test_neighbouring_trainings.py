# SPDX-License-Identifier: Apache-2.0
"""Tables and their neighbours, trained with the same seed: all but the coefficients must be the same.

Not only the model file and the receipt: also the exit code and every line on the screen.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.cli import main
from epsilens.data.fields import read_fields
from epsilens.models.table_encoder import NumberColumn, TableEncoder
from epsilens.models.training_rows import Declaration, training_rows

HEADER = ["age", "job", "smokes"]
RANDOM = np.random.default_rng(0)
ROWS = [
    [str(RANDOM.integers(17, 90)), str(RANDOM.choice(["a", "b", "c"])), answer]
    for answer in ["no", "yes"] * 15
]
NUMBERS = [[age, job, str(3 + i % 7)] for i, (age, job, _) in enumerate(ROWS)]

# Records that a careless reader would stumble over.
NASTY = [
    ["", "", ""],
    ["?", "NA", "nan"],
    ["1e999", "z", "maybe"],
    ["-17", "1", "1"],
    ["old", "a|b", "YES"],
    ["age", "job", "smokes"],
    ["a;b;c;d;e", "x,y,z", "1,5"],
    ['say "so"', "two\nlines", "\u00e9\u4e16"],
    ["2024-01-31", "True", "False"],
    ["9" * 600, " a ", " yes "],
    ROWS[1],
]
LOGISTIC = ["--mechanism=noisy-descent", "--categories=smokes=no|yes"]
RIDGE = ["--mechanism=output-perturbation", "--model=ridge", "--range=smokes=0:10"]
RECORD = ["--protects=record", "--delta=1e-4", "--range=age=17:90", "--categories=job=a|b|c"]


def trained(
    folder: Path,
    rows: list[list[str]],
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    *,
    delimiter: str = ",",
) -> tuple[object, ...]:
    """Train; return the exit code, what was said, and both files without what may differ."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([HEADER, *rows])
    data, out = folder / "survey.csv", folder / "model.json"
    data.write_text(text.getvalue(), encoding="utf-8")
    command = ["train", str(data), "--label=smokes", "--seed=3", "--out", str(out), "--force"]
    code = main([*command, "--epsilon=1", "--x-bound=3", *options])
    said = capsys.readouterr()
    if code:
        return code, said.out, said.err
    model = json.loads(out.read_text(encoding="utf-8"))
    receipt = json.loads((folder / "model.receipt.json").read_text(encoding="utf-8"))
    assert model.pop("coefficients")
    assert model.pop("intercept")
    assert model["receipt"] == receipt
    for one in (model["receipt"], receipt):
        assert one.pop("time")
        assert one["simulated"] is True
    out.unlink()
    (folder / "model.receipt.json").unlink()
    return code, said.out, said.err, json.dumps(model), json.dumps(receipt)


@pytest.mark.parametrize(
    ("model", "rows", "delimiter"), [(LOGISTIC, ROWS, ","), (RIDGE, NUMBERS, ";")]
)
def test_a_replaced_record_changes_the_coefficients_alone(
    tmp_path, capsys, model, rows, delimiter
) -> None:
    options = [*model, *RECORD]
    before = trained(tmp_path, rows, options, capsys, delimiter=delimiter)
    assert before[0] == 0
    for place, record in zip([0, 7, len(rows) - 1] * len(NASTY), NASTY, strict=False):
        neighbour = [*rows[:place], record, *rows[place + 1 :]]
        assert trained(tmp_path, neighbour, options, capsys, delimiter=delimiter) == before


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (LOGISTIC, ROWS),
        (["--mechanism=noisy-descent", "--positive=yes"], ROWS),
        (RIDGE, NUMBERS),
    ],
)
def test_a_changed_answer_changes_the_coefficients_alone(tmp_path, capsys, model, rows) -> None:
    before = trained(tmp_path, rows, model, capsys)
    assert before[0] == 0
    for place, record in zip([0, 7, len(rows) - 1] * len(NASTY), NASTY, strict=False):
        changed = [*rows[place][:2], record[2]]
        neighbour = [*rows[:place], changed, *rows[place + 1 :]]
        assert trained(tmp_path, neighbour, model, capsys) == before


def test_a_protected_feature_is_declared_and_changes_the_coefficients_alone(
    tmp_path, capsys
) -> None:
    options = [*LOGISTIC, "--protect=age"]
    refused = trained(tmp_path, ROWS, options, capsys)
    assert refused[0] == 2
    assert "what 'age' can hold must be declared" in str(refused[2])
    options.append("--range=age=17:90")
    before = trained(tmp_path, ROWS, options, capsys)
    assert before[0] == 0
    for place, record in enumerate(NASTY):
        changed = [record[0], ROWS[place][1], record[2]]
        neighbour = [*ROWS[:place], changed, *ROWS[place + 1 :]]
        assert trained(tmp_path, neighbour, options, capsys) == before


def test_what_is_refused_is_refused_for_every_neighbour(tmp_path, capsys) -> None:
    options = [*LOGISTIC, "--protects=record"]
    before = trained(tmp_path, ROWS, options, capsys)
    assert before[0] == 2
    for record in NASTY:
        assert trained(tmp_path, [*ROWS[:-1], record], options, capsys) == before


FIELD = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.floats().map(str),
    st.integers().map(str),
    st.sampled_from([field for record in NASTY for field in record]),
)


@settings(max_examples=60, deadline=None)
@given(record=st.tuples(FIELD, FIELD, FIELD), place=st.integers(0, len(ROWS) - 1))
def test_no_record_changes_another_row_or_how_it_is_encoded(
    tmp_path_factory, record, place
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    declaration = Declaration(
        label="smokes",
        protected=frozenset(HEADER),
        categories={"smokes": ["no", "yes"], "job": ["a", "b", "c"]},
        ranges={"age": NumberColumn.of_range("age", 17.0, 90.0)},
    )

    def encoded(rows: list[list[str]]) -> tuple[np.ndarray, object, np.ndarray]:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([HEADER, *rows])
        (folder / "survey.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
        fields = read_fields(folder / "survey.csv")
        found = training_rows(fields.written, fields.written, declaration, decimal_comma=False)
        X = TableEncoder(found.columns).transform(found.frame)
        return np.column_stack([X, found.target == "yes"]), (found.columns, found.classes), X

    before, how, _ = encoded(ROWS)
    after, still, X = encoded([*ROWS[:place], list(record), *ROWS[place + 1 :]])
    assert still == how
    assert np.isfinite(X).all()
    others = np.arange(len(ROWS)) != place
    np.testing.assert_array_equal(after[others], before[others])
