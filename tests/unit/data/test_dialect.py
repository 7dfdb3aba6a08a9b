# SPDX-License-Identifier: Apache-2.0
"""A text table is written as another one was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from epsilens.data.delimited import parse_delimited
from epsilens.data.dialect import Dialect, released_dialect

FILES = [
    b"a,b\n1,x\n2,\n",
    b"a;b\r\n1,50;x\r\n2,00;y\r\n",
    "\ufeffa;b\r\n1;ü\r\n".encode(),
    "a;b\r\n1;ü\r\n".encode("cp1252"),
    "a\tb\n1\tü\n".encode("utf-16"),
    b'"a","b","c"\n1,"x",2\n3,NA,4\n5,"y, z",6\n',
    b'"a","b"\r\n"1","x"\r\n"2",""\r\n',
    b'a,b\n1,"x, y"\n2,"say ""no"""\n3,z\n',
    b"a, b\n1, x\n2, y\n",
]


@pytest.mark.parametrize("content", FILES)
def test_a_file_comes_back_byte_by_byte(content: bytes) -> None:
    table = parse_delimited(content, name="a.csv")
    assert table.dialect.write(table.spelled.to_pandas()) == content


def dialect_of(content: bytes, open_names: list[str], **declared: object) -> Dialect:
    table = parse_delimited(content, name="a.csv")
    protected = {name: True for name in table.frame.columns if name not in open_names}
    return released_dialect(table.dialect, table.spelled.select(open_names), protected, **declared)


@pytest.mark.parametrize("answer", ["für", "gegen", "für; dagegen"])
def test_the_dialect_of_a_release_does_not_depend_on_a_protected_answer(answer: str) -> None:
    quoted = f'"{answer}"' if ";" in answer else answer
    content = f"age;vote\n31;{quoted}\n42;gegen\n".encode("cp1252")
    assert dialect_of(content, ["age"]) == dialect_of(b"age;vote\n31;ja\n42;ja\n", ["age"])


def test_letters_of_other_columns_keep_the_encoding_unless_an_answer_needs_more():
    content = "Größe;vote\n1,80;ja\n1,65;nein\n".encode("cp1252")
    assert dialect_of(content, ["Größe"]).encoding == "cp1252"
    assert dialect_of(content, ["Größe"], categories=["ja", "≥ 5"]).encoding == "utf-8"
    assert dialect_of(b"a;b\n1;2\n", ["a"], encoding="cp1252").encoding == "utf-8"


def test_protected_words_are_quoted_like_other_words_and_missing_like_others():
    content = b'"age","sex","vote"\n31,"F","no"\nNA,"M","yes"\nNA,"M","yes"\n'
    found = dialect_of(content, ["age", "sex"])
    assert found.quoted == {"sex", "vote"}
    assert found.missing_mark == "NA"
    # Where no word is left to compare with, the header decides.
    assert dialect_of(content, ["age"]).quoted == {"sex", "vote"}
    assert dialect_of(content.replace(b'"', b""), ["age", "sex"]).quoted == frozenset()


@pytest.mark.parametrize(
    ("content", "has_comma"),
    [
        (b"a;b\n1,5;x\n", True),
        (b"a;b\n1.5;x\n", False),
        (b"a;b\n1;x\n", True),
        (b"a,b\n1,x\n", False),
        (b"a\tb\n1\tx\n", False),
        (b"a\tb\n1,5\tx\n", True),
    ],
)
def test_decimal_comma(content: bytes, has_comma: bool) -> None:
    assert dialect_of(content, ["a"]).has_decimal_comma == has_comma


def test_a_release_of_protected_columns_alone():
    dialect = Dialect(delimiter=";", is_header_quoted=True)
    found = released_dialect(dialect, pa.table({}), {"a": True, "b": False})
    assert found.quoted == {"a"}


@pytest.mark.parametrize("n_before", range(6))
def test_long_records_are_not_cut_where_a_protected_answer_ends(n_before: int) -> None:
    # A cut after 65,536 characters would fall before the comma of the last note, or behind it.
    def quoted(answer: str) -> set[str]:
        rows = [f'"{"x" * 690}, y","{"w" * 690}",{word}\n' for word in [answer, *["no"] * 44]]
        n_left = 65_536 - len("".join(["note,comment,s\n", *rows, '"'])) - n_before + len(answer)
        rows.append(f'"{"z" * n_left}, {"q" * 50}\n, ""r""","v",no\n')
        content = "".join(["note,comment,s\n", *rows, '"k, l","m",yes\n'])
        return set(dialect_of(content.encode(), ["note", "comment"]).quoted)

    assert quoted("no") == quoted("yes") == {"note", "comment", "s"}


def test_empty_lines_are_no_records() -> None:
    content = b'\n"a","b"\n\n"1","x"\n'
    found = parse_delimited(content, name="a.csv").dialect
    assert found.is_header_quoted
    assert found.quoted == {"a", "b"}
