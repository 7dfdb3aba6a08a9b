# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc

from epsilens.data.files import read_table, write_table
from epsilens.errors import InputError

SECRET = "HIV-positive-7731"


def save(folder: Path, content: bytes | str, name: str = "survey.csv") -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected(tmp_path: Path, delimiter: str) -> None:
    rows = [["age", "smokes"], ["31", "yes"], ["42", "no"]]
    text = "\n".join(delimiter.join(row) for row in rows)
    table = read_table(save(tmp_path, text))
    assert table.delimiter == delimiter
    assert table.frame.to_dict("list") == {"age": [31, 42], "smokes": ["yes", "no"]}
    assert table.format == ("tsv" if delimiter == "\t" else "csv")


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("cp1252", "cp1252"),
    ],
)
def test_the_encoding_is_detected(tmp_path: Path, encoding: str, named: str) -> None:
    text = "prénom,âge\nZoë,31\nBjörn,42\n"
    table = read_table(save(tmp_path, text.encode(encoding)))
    assert table.encoding == named
    assert list(table.frame.columns) == ["prénom", "âge"]
    assert table.frame["prénom"].tolist() == ["Zoë", "Björn"]


def test_bytes_outside_windows_1252_fall_back_to_latin_1(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, b"name,age\n\x81\xe9,31\n"))
    assert table.encoding == "latin-1"


@pytest.mark.parametrize(
    "content",
    [
        "town,s\nKöln,x\nUlm,".encode() + b"\xe9\n",  # one field of another encoding
        "town,s\nCôte,x\nUlm,".encode("cp1252") + "é\n".encode(),
        "town,s\n“Ulm”,x\nBonn,".encode("cp1252") + b"\x81\n",
    ],
)
def test_one_field_does_not_decide_how_all_others_are_read(tmp_path: Path, content: bytes) -> None:
    file = save(tmp_path, content)
    with pytest.raises(InputError, match=r"in one encoding.*`encoding='cp1252'`") as caught:
        read_table(file)
    assert "\n" not in str(caught.value)
    assert "Ulm" not in str(caught.value)
    # Whoever names an encoding decides for all fields.
    assert len(read_table(file, encoding="latin-1").frame) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_other_fields_are_read_alike_or_refused_whatever_one_field_holds(
    tmp_path: Path, encoding: str
) -> None:
    # Some words and every single byte: the other fields come out in one way, or not at all.
    words = [word.encode(encoding) for word in ("", "x", "é", "€", "Ã", "“x”", "ß,Ü")]
    towns = "town,s\nKöln,x\nMünchen,".encode(encoding)
    for cell in [*words, *(bytes([byte]) for byte in range(0x80, 0x100))]:
        try:
            table = read_table(save(tmp_path, towns + b'"' + cell + b'"\n'))
        except InputError:
            continue
        assert table.frame["town"].tolist() == ["Köln", "München"]


def test_a_given_encoding_and_delimiter_are_used(tmp_path: Path) -> None:
    file = save(tmp_path, "a;b\né;1\n".encode("cp1252"))
    table = read_table(file, delimiter=";", encoding="windows-1252")
    assert table.encoding == "cp1252"
    assert table.frame["a"].tolist() == ["é"]


def test_missing_marks_are_counted_and_words_stay_words(tmp_path: Path) -> None:
    text = "job,age\n?,31\nNone,NA\n ,.\nnan,42\n-,53\n"
    table = read_table(save(tmp_path, text))
    assert table.missing_marks == {"": 1, "NA": 1, "nan": 1, "?": 1, ".": 1}
    assert table.frame["job"].dropna().tolist() == ["None", "-"]
    assert table.frame["age"].dropna().tolist() == [31, 42, 53]


def test_whole_numbers_with_gaps_stay_whole(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "age\n31\nNA\n42\n"))
    assert str(table.frame["age"].dtype) == "Int64"


def test_codes_with_leading_zeros_and_long_identifiers_stay_text(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "zip,id,n\n01067,12345678901234567890,0\n10115,1,10\n"))
    assert table.frame["zip"].tolist() == ["01067", "10115"]
    assert table.frame["id"].tolist() == ["12345678901234567890", "1"]
    assert table.frame["n"].tolist() == [0, 10]


def test_truths_become_truths_only_as_python_spells_them(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "a,b\nTrue,yes\nFalse,no\n"))
    assert table.frame["a"].tolist() == [True, False]
    table = read_table(save(tmp_path, "a,b\ntrue,yes\nfalse,no\n"))
    assert table.frame["a"].tolist() == ["true", "false"]


def test_a_decimal_comma_is_read_where_the_comma_is_free(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "height;n\n1,80;1\n1,65;-2,5\n"))
    assert table.frame["height"].tolist() == [1.80, 1.65]
    assert table.frame["n"].tolist() == [1.0, -2.5]
    assert "height" in table.notes[0].text


def test_spaces_after_the_delimiter_are_no_part_of_answers(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "age, sex\n31, F\n42, M\n"))
    assert table.frame["sex"].tolist() == ["F", "M"]


def test_quoted_fields_may_hold_delimiters_and_line_breaks(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, 'a,b\n"x,y",1\n"two\nlines",2\n'))
    assert table.frame["a"].tolist() == ["x,y", "two\nlines"]


def test_nameless_empty_last_columns_are_left_out_and_said(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "a;b;;\n1;2;;\n3;4;;\n"))
    assert list(table.frame.columns) == ["a", "b"]
    assert len(table.notes) == 2


def test_one_column_and_windows_line_ends(tmp_path: Path) -> None:
    table = read_table(save(tmp_path, "age\r\n31\r\n42\r\n"))
    assert table.frame.to_dict("list") == {"age": [31, 42]}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO(gzip.compress(b"age,sex\n31,F\n")))
    monkeypatch.setattr("sys.stdin", stream)
    table = read_table("-")
    assert (table.name, table.format) == ("standard input", "csv.gz")


def test_parquet_arrow_feather_and_streams(tmp_path: Path) -> None:
    source = pa.table({"age": [31, None], "sex": ["F", "M"]})
    pq.write_table(source, tmp_path / "a.parquet")
    feather.write_feather(source, tmp_path / "a.arrow")
    with ipc.new_stream(tmp_path / "stream.arrow", source.schema) as stream:
        stream.write_table(source)
    for name, kind in [("a.parquet", "parquet"), ("a.arrow", "arrow"), ("stream.arrow", "arrow")]:
        table = read_table(tmp_path / name)
        assert table.format == kind
        assert str(table.frame["age"].dtype) == "Int64"
        assert table.frame["sex"].tolist() == ["F", "M"]


def test_the_index_that_pandas_writes_is_no_column(tmp_path: Path) -> None:
    pd.DataFrame({"age": [31, 42]}, index=[5, 6]).to_parquet(tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet").frame.columns) == ["age"]


def test_a_folder_of_parquet_files_with_partitions(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"age": [year - 1990]}), tmp_path / f"year={year}" / "p.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    frame = read_table(tmp_path).frame
    assert sorted(frame["year"].tolist()) == [2023, 2024]
    assert len(frame) == 2


BAD_FILES = {
    "empty": (b"", "survey.csv", "it is empty"),
    "blank": (b"\n \n", "survey.csv", "it is empty"),
    "header only": (b"age,diagnosis\n", "survey.csv", "got 0 rows"),
    "duplicate names": (f"a,b,a\n1,{SECRET},2\n", "survey.csv", "'a' stands more than once"),
    "nameless": (f",b\n1,{SECRET}\n2,x\n", "survey.csv", "column 1 has none"),
    "long row": (f"a,b\n1,{SECRET}\n1,2,{SECRET}\n", "survey.csv", "1 rows have more or fewer"),
    "short row": (f"a,b\n1,{SECRET}\n1\n", "survey.csv", "1 rows have more or fewer"),
    "no header": (
        f"31,yes,{SECRET}\n31,yes,{SECRET}\n42,no,other\n",
        "survey.csv",
        "looks like a record",
    ),
    "junk": (bytes(range(256)) * 8, "survey.csv", "binary data"),
    "junk without zeros": (bytes(range(1, 256)) * 8, "survey.csv", "binary data"),
    "workbook": (b"PK\x03\x04" + SECRET.encode(), "survey.xlsx", "Excel"),
    "half gzip": (gzip.compress(SECRET.encode() * 99)[:40], "survey.csv.gz", "cut short"),
    "half parquet": (b"PAR1" + SECRET.encode(), "survey.parquet", "cut short"),
    "half arrow": (b"ARROW1" + SECRET.encode(), "survey.arrow", "cut short"),
    "not parquet": (f"a,b\n1,{SECRET}\n", "survey.parquet", "as its name says"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_gives_one_line_without_values(tmp_path: Path, case: str) -> None:
    content, name, words = BAD_FILES[case]
    with pytest.raises(InputError) as caught:
        read_table(save(tmp_path, content, name))
    message = str(caught.value)
    assert words in message
    assert SECRET not in message
    assert "\n" not in message
    # The original error would be shown with its values in a traceback.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_open_quotation_mark_is_refused_without_values(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_table(save(tmp_path, f'a,b\n"{SECRET},1\n2,3\n'))
    assert SECRET not in str(caught.value)


def test_a_wrong_delimiter_names_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one column only.*semicolon"):
        read_table(save(tmp_path, "a;b\n1;2\n"), delimiter=",")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"exists.*Check the path"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="has none"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="one character"):
        read_table(save(tmp_path, "a,b\n1,2\n"), delimiter=",,")
    with pytest.raises(InputError, match="encoding that Python knows"):
        read_table(save(tmp_path, "a,b\n1,2\n"), encoding="klingon")
    with pytest.raises(InputError, match="some bytes are not"):
        read_table(save(tmp_path, "a,b\né,2\n".encode("cp1252")), encoding="utf-8")


def test_parquet_files_of_a_folder_must_agree(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match="same columns"):
        read_table(tmp_path)


def test_columns_of_lists_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[1, 2]]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match="holds lists"):
        read_table(tmp_path / "1.parquet")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather"])
def test_writing_and_reading_gives_the_same_table(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {
            "age": pd.array([31, None, 42], dtype="Int64"),
            "share": [0.1, 1 / 3, 2.0],
            "job": ["None", "x,y", 'said "no"'],
            "zip": ["01067", "10115", "00000"],
            "member": [True, False, True],
        }
    )
    file = tmp_path / f"out{suffix}"
    write_table(frame, file)
    again = read_table(file).frame
    pd.testing.assert_frame_equal(again, frame, check_dtype=False)
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_writing_is_repeatable_and_refuses_other_endings(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1]})
    write_table(frame, tmp_path / "one.csv.gz")
    write_table(frame, tmp_path / "two.csv.gz")
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    with pytest.raises(InputError, match="must end in"):
        write_table(frame, tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="folder must exist"):
        write_table(frame, tmp_path / "no" / "a.csv")
