# SPDX-License-Identifier: Apache-2.0
"""Workbooks are read as their sheet would be if it were saved as csv."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from epsilens.data import workbooks
from epsilens.data.fields import read_fields
from epsilens.data.files import TableFile, read_table
from epsilens.data.schema import infer_schema
from epsilens.errors import InputError

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")

SECRET = "HIV-positive-7731"
ROWS = [["age", "smokes"], [31, "yes"], [42, "no"]]


def write(path: Path, sheets: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(path)
    return path


def read(folder: Path, rows: Sequence[Sequence[object]]) -> TableFile:
    return read_table(write(folder / "survey.xlsx", {"Survey": rows}), spelled=True)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path)
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


def test_cells_are_read_as_from_csv(tmp_path: Path) -> None:
    day = dt.date(2024, 1, 31)
    table = read(
        tmp_path,
        [
            ["whole", "fraction", "day", "moment", "truth", "mixed", "how long", 2020],
            [1.0, 0.5, day, dt.datetime(2024, 1, 31, 8, 30), True, 7.0, dt.timedelta(hours=30), 1],
            [2.0, 1.0, day, dt.datetime(2024, 2, 1), False, "?", dt.timedelta(minutes=1), 2],
            [3.0, 2.0, day, dt.datetime(2024, 2, 1), False, "seven", dt.timedelta(minutes=1), 2],
        ],
    )
    frame = table.frame
    assert table.format == "excel"
    assert frame["whole"].tolist() == [1, 2, 3]
    assert frame["whole"].dtype == "int64"
    assert frame["fraction"].tolist() == [0.5, 1.0, 2.0]
    assert frame["truth"].tolist() == [True, False, False]
    assert frame["mixed"].dropna().tolist() == ["7", "seven"]
    assert frame["how long"].tolist() == [108_000, 60, 60]
    assert frame["2020"].tolist() == [1, 2, 2]
    notes = {column.name: column.note for column in infer_schema(frame).columns}
    assert notes["moment"] == "a date: used as a number of days"
    csv = tmp_path / "survey.csv"
    table.spelled.to_pandas().to_csv(csv, index=False)
    assert read_table(csv).frame.equals(frame)


def test_empty_cells_and_errors_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "survey.xlsx", {"Survey": [["a", "b"], [1, "x"], [None, ""], [3, " "]]})
    book = openpyxl.load_workbook(path)
    sheet = book["Survey"]
    for place, error in (("A5", "#N/A"), ("B5", "x"), ("A6", "#DIV/0!"), ("B6", "y")):
        sheet[place] = error
        sheet[place].data_type = "e" if error.startswith("#") else "s"
    book.save(path)
    table = read_table(path)
    assert table.frame["a"].isna().tolist() == [False, False, True, True]  # an empty row is none
    assert table.frame["b"].isna().tolist() == [False, True, False, False]
    assert table.missing_marks == {"": 3}


def test_the_header_is_the_first_row_that_is_not_empty(tmp_path: Path) -> None:
    table = read(
        tmp_path, [[], [None, None], [None, *ROWS[0]], [], *([None, *r] for r in ROWS[1:])]
    )
    assert table.frame.to_dict("list") == {"age": [31, 42], "smokes": ["yes", "no"]}
    assert table.notes == ()


def test_the_first_visible_sheet_with_data_is_read_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "survey.xlsx", {"Codes": [["c"], [1]], "Empty": [], "Wave 2": ROWS})
    book = openpyxl.load_workbook(path)
    book["Codes"].sheet_state = "hidden"
    book.active = 2
    book.save(path)
    table = read_table(path)
    assert list(table.frame.columns) == ["age", "smokes"]
    (note,) = table.notes
    assert note.code == "sheet-read"
    assert "of 3 sheets the first with data was read: 'Wave 2'" in note.text


def test_a_wrong_name_is_no_obstacle_and_fields_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", {"Survey": ROWS}).rename(tmp_path / "a.data")
    assert read_table(path).frame["age"].tolist() == [31, 42]
    for name in ("a.data", "b.xlsx"):
        path = path.rename(tmp_path / name)
        fields = read_fields(path)
        assert fields.written["age"].tolist() == ["31", "42"]
        assert fields.typed()["age"].tolist() == [31, 42]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "got 0 rows in 1 sheets"),
        ([["age", "smokes"]], "got 1 rows in 1 sheets"),
        ([["age", "age"], [1, SECRET]], "'age' stands more than once"),
        ([["age", None], [1, SECRET]], "column 2 has none"),
        ([[SECRET, 1], [SECRET, 2]], "looks like a record"),
    ],
)
def test_a_sheet_that_is_no_table_is_refused(
    tmp_path: Path, rows: Sequence[Sequence[object]], words: str
) -> None:
    assert words in refusal(write(tmp_path / "survey.xlsx", {"Survey": rows}))


def test_files_that_are_no_workbook_are_refused(tmp_path: Path) -> None:
    honest = write(tmp_path / "survey.xlsx", {"Survey": [["a"], [SECRET], ["x"]]}).read_bytes()
    office = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    for content, words in (
        (honest[: len(honest) // 2], "damaged, cut short or another kind of file"),
        (b"PK\x03\x04" + SECRET.encode(), "damaged, cut short or another kind of file"),
        (office, "damaged, cut short or another kind of file"),
        (office + "EncryptedPackage".encode("utf-16-le"), "without password, but it has one"),
        (f"a,b\n1,{SECRET}\n".encode(), "must be a xlsx file, as its name says, but it is not"),
    ):
        (tmp_path / "bad.xlsx").write_bytes(content)
        assert words in refusal(tmp_path / "bad.xlsx")


def test_a_cell_far_away_is_refused_before_it_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "survey.xlsx", {"Survey": ROWS})
    book = openpyxl.load_workbook(path)
    book["Survey"]["XFD1048576"] = 1
    book.save(path)
    assert "got 1,048,576 rows and 16,384 columns" in refusal(path)
    monkeypatch.setattr(workbooks, "MOST_FIELDS", 3)
    assert "got 3 rows and 2 columns" in refusal(write(tmp_path / "b.xlsx", {"Survey": ROWS}))
