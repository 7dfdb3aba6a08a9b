# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from epsilens.data.delimited import detect_delimiter, parse_delimited, parse_fields
from epsilens.errors import InputError
from epsilens.notes import Note

SECRET = "HIV-positive-7731"
ROWS = [f"{index / 7:.3f},{'yes' if index % 3 else 'no'},name{index % 5}" for index in range(50)]


def parse(*rows: str, header: str = "x,y,name", end: str = "\n", **settings: str) -> object:
    return parse_delimited(end.join([header, *rows]).encode(), name="survey.csv", **settings)


def with_stray(*places: int, mark: str = '"') -> list[str]:
    return [
        row.replace("name", f"{mark}name") if index in places else row
        for index, row in enumerate(ROWS)
    ]


@pytest.mark.parametrize("place", [0, 20, 49])
@pytest.mark.parametrize("last", [[], [""]])
def test_an_end_inside_a_quotation_is_refused(place: int, last: list[str]) -> None:
    with pytest.raises(InputError, match="quotation mark that is never closed"):
        parse(*with_stray(place), *last)


def test_an_end_inside_a_quotation_is_refused_in_one_column_too() -> None:
    with pytest.raises(InputError, match="never closed"):
        parse("31", '"42', "53", header="age")


@pytest.mark.parametrize("places", [(20, 21), (20, 40), (3, 5, 20, 40)])
def test_rows_between_two_stray_quotation_marks_are_not_one_field(places: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="fields of column 'name' seem to hold whole rows"):
        parse(*with_stray(*places))


def test_rows_swallowed_by_a_first_column_are_noticed() -> None:
    rows = [f"name{index},{index / 7:.3f},{'yes' if index % 3 else 'no'}" for index in range(50)]
    for place in (10, 30):
        rows[place] = f'"{rows[place]}'
    with pytest.raises(InputError, match="column 'name' seem to hold whole rows"):
        parse(*rows, header="name,x,y")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [[], [""]])
def test_closed_quotations_are_read_and_prose_is_no_row(end: str, last: list[str]) -> None:
    rows = ["1,no,short", f'2,yes,"Dear all,{end}thanks, I am fine, Tom"', '3,no,"say ""no"""']
    table = parse(*rows, *last, end=end)
    assert table.frame["name"].tolist() == [  # type: ignore[attr-defined]
        "short",
        f"Dear all,{end}thanks, I am fine, Tom",
        'say "no"',
    ]
    (note,) = table.notes  # type: ignore[attr-defined]
    assert note == Note(
        "fields-with-line-breaks",
        "name: 1 fields have several lines; if that is not meant, look for a stray quotation mark",
    )


def test_the_last_row_is_the_last_row() -> None:
    for last in ([], [""]):
        table = parse(*ROWS, *last)
        assert len(table.frame) == table.spelled.num_rows == 50  # type: ignore[attr-defined]
    assert parse("31", "", "42", "", header="age").frame["age"].isna().tolist() == [  # type: ignore[attr-defined]
        False,
        True,
        False,
    ]


def test_fields_are_kept_as_they_are_written() -> None:
    table = parse("01, 1.50,?", "02, 2,x", header="code, n, job ")
    assert table.frame["n"].tolist() == [1.5, 2.0]  # type: ignore[attr-defined]
    assert table.spelled.to_pydict() == {  # type: ignore[attr-defined]
        "code": ["01", "02"],
        "n": [" 1.50", " 2"],
        "job": ["?", "x"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "0.5,1.5\n2.5,3.5\n",
        "77.31,77.31,58123.5,zz\n0.1,0.2,0.3,a\n0.4,0.5,0.6,b\n",
        "1,5;2,5\n3,5;4,5\n",
        "12\n13\n14\n",
        "31;?;yes\n42;1;no\n53;2;yes\n",
    ],
)
def test_a_record_is_no_header(text: str) -> None:
    with pytest.raises(InputError, match="looks like a record") as caught:
        parse_delimited(text.encode(), name="survey.csv")
    assert not any(value in str(caught.value) for value in ("77.31", "58123.5", "31", "12"))


def test_a_few_names_may_be_numbers() -> None:
    table = parse_delimited(b"country,region,2020\nNL,west,1.5\nFR,west,2.5\n", name="survey.csv")
    assert list(table.frame.columns) == ["country", "region", "2020"]


@pytest.mark.parametrize("encoding", ["base64", "rot13", "klingon", "a\0b"])
def test_an_encoding_must_be_one_of_text(encoding: str) -> None:
    with pytest.raises(InputError, match="must be a text encoding that Python knows"):
        parse(*ROWS, encoding=encoding)


@pytest.mark.parametrize("encoding", ["undefined", "punycode"])
def test_an_encoding_that_decodes_nothing_is_refused_without_values(encoding: str) -> None:
    with pytest.raises(InputError, match="some bytes are not") as caught:
        parse(f"1,é,{SECRET}", encoding=encoding)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


def test_numbers_too_large_are_said_to_be_infinite() -> None:
    table = parse("1e400,no,a", "-1e400,no,b", "inf,yes,c", "2,no,d")
    assert table.frame["x"].tolist() == [float("inf"), -float("inf"), float("inf"), 2.0]  # type: ignore[attr-defined]
    (note,) = table.notes  # type: ignore[attr-defined]
    assert note == Note("numbers-too-large", "x: 2 numbers are too large and were read as infinite")


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_header_may_be_longer_than_the_sample(delimiter: str) -> None:
    names = [f"{'question ' * 40}{index}" for index in range(300)]
    header = delimiter.join(names)
    assert len(header) > 1 << 16
    rows = [delimiter.join(["1", "yes"] * 150), delimiter.join(["2", "no"] * 150)]
    table = parse(*rows, header=header)
    assert table.delimiter == delimiter
    assert list(table.frame.columns) == names
    assert len(table.frame) == 2


def test_a_header_of_twenty_thousand_columns_is_read_whole() -> None:
    names = [f"column_{index:05d}" for index in range(20_000)]
    text = ",".join(names) + "\n" + ",".join(["1"] * 20_000)
    assert detect_delimiter(text) == ","
    table = parse_fields(text, ",", name="survey.csv")
    assert [column[0].as_py() for column in table.columns] == names


def test_long_names_may_hold_line_breaks() -> None:
    long = '"' + "a question;\r\n" * 7000 + '"'
    assert list(parse("1,2", "3,4", header=f"{long},b").frame.columns) == [long.strip('"\r\n'), "b"]


def test_a_name_that_is_too_long_is_said_to_be_that() -> None:
    with pytest.raises(InputError, match="a column name over 131,072 characters"):
        parse("1,2", header=f"{'x' * 140_000},b")
