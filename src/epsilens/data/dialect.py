# SPDX-License-Identifier: Apache-2.0
"""How a text table is written: delimiter, encoding, line ending, quotation marks, decimal comma."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epsilens.data.fields import MISSING_MARKS, are_numbers

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


_SAMPLE_RECORDS = 50
_SHOWN_BY_FIRST_BYTES = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")
"""Encodings that the first bytes of a file show, whatever its answers are."""


@dataclass(frozen=True)
class Dialect:
    r"""How a text table is written.

    Parameters
    ----------
    delimiter : str
        What stands between the columns.
    encoding : str
        The name of a Python codec.
    line_ending : str
        "\n", "\r\n" or "\r".
    is_header_quoted : bool
        Whether the column names stand in quotation marks.
    quoted : frozenset of str
        Columns whose answers stand in quotation marks, whether they need them or not.
    is_spaced : bool
        Whether a space follows every delimiter.
    has_decimal_comma : bool
        Whether a number is written 1,5.
    missing_mark : str
        How a missing answer is written.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    line_ending: str = "\n"
    is_header_quoted: bool = False
    quoted: frozenset[str] = frozenset()
    is_spaced: bool = False
    has_decimal_comma: bool = False
    missing_mark: str = ""

    def write(self, frame: pd.DataFrame) -> bytes:
        r"""Return a table of text as the bytes of a file.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": ["1,5", "2"], "b": ["x;y", None]})
        >>> Dialect(delimiter=";", line_ending="\r\n").write(frame)
        b'a;b\r\n1,5;"x;y"\r\n2;\r\n'
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        gap = " " if self.is_spaced else ""
        names = [str(name) for name in frame.columns]
        titles = pa.array([f"{gap if place else ''}{name}" for place, name in enumerate(names)])
        header = self._fields(titles, is_quoted=self.is_header_quoted).to_pylist()
        # Where every column is quoted, so is a missing answer; elsewhere it is not.
        bare = () if self.quoted.issuperset(names) else MISSING_MARKS
        columns = [
            self._fields(
                pa.array(frame[name], type=pa.string(), from_pandas=True).fill_null(""),
                is_quoted=name in self.quoted,
                bare=bare,
            )
            for name in frame.columns
        ]
        lines = pc.binary_join_element_wise(*columns, self.delimiter).to_pylist()
        text = self.line_ending.join([self.delimiter.join(header), *lines, ""])
        return text.encode(self.encoding)

    def _fields(self, texts: pa.Array, *, is_quoted: bool, bare: Sequence[str] = ()) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        doubled = pc.replace_substring(texts, '"', '""')
        in_marks = pc.binary_join_element_wise('"', doubled, '"', "")
        if is_quoted:
            stays = pc.is_in(texts, value_set=pa.array(bare, type=pa.string()))
        else:
            special = rf'["\r\n{re.escape(self.delimiter)}]'
            stays = pc.invert(pc.match_substring_regex(texts, special))
        return pc.if_else(stays, texts, in_marks)


def detect_dialect(
    text: str, names: Sequence[str], *, delimiter: str, encoding: str, is_spaced: bool
) -> Dialect:
    r"""Say how a text table is written, by its header and its first records.

    Parameters
    ----------
    text : str
        The file.
    names : sequence of str
        The names of the columns.
    delimiter, encoding : str
    is_spaced : bool
        Whether a space follows every delimiter.

    Returns
    -------
    Dialect
        Decimal comma and mark of a missing answer are not looked at here.

    Examples
    --------
    >>> found = detect_dialect('"a","b"\r\n1,"x"\r\n', "ab", delimiter=",", encoding="utf-8",
    ...                        is_spaced=False)
    >>> found.line_ending, found.is_header_quoted, sorted(found.quoted)
    ('\r\n', True, ['b'])
    """
    line_break = re.search(r"\r\n|\r|\n", text)
    header, *records = _quotation(text, delimiter, skip_empty_lines=len(names) > 1)
    seen = {name: [row[place] for row in records if place < len(row)]
            for place, name in enumerate(names)}  # fmt: skip
    return Dialect(
        delimiter,
        encoding,
        line_break.group() if line_break else "\n",
        is_header_quoted=all(header[: len(names)]),
        quoted=frozenset(
            name for name, marks in seen.items() if True in marks and False not in marks
        ),
        is_spaced=is_spaced,
    )


def _quotation(text: str, delimiter: str, *, skip_empty_lines: bool) -> list[list[bool | None]]:
    """Say of every field of the first records whether it is quoted; None where it is missing.

    The records are whole, however long: a cut by length would depend on the answers before it. They
    are told apart as the reader does, which takes a quotation mark for one at a field's start only.
    """
    cut = re.escape(delimiter)
    field = re.compile(rf'((?:"[^"]*(?:""[^"]*)*")?[^{cut}\r\n]*)({cut}|\r\n|\r|\n|$)')
    records: list[list[bool | None]] = [[]]
    for match in field.finditer(text):
        written = match[1]
        ends_record = match[2] != delimiter
        if ends_record and not written and not records[-1] and skip_empty_lines:
            continue
        records[-1].append(None if written.strip() in MISSING_MARKS else written.startswith('"'))
        if ends_record:
            if match.end() == len(text) or len(records) > _SAMPLE_RECORDS:
                break
            records.append([])
    return records


def released_dialect(
    dialect: Dialect,
    open_columns: pa.Table,
    protected: Mapping[str, bool],
    *,
    categories: Collection[str] = (),
    encoding: str | None = None,
) -> Dialect:
    """Return the dialect of a release: that of the data, as shown by the columns that stay as they are.

    Nothing is taken from the protected columns: how these are written can depend on an answer.

    Parameters
    ----------
    dialect : Dialect
        Dialect of the data.
    open_columns : pyarrow.Table
        The columns that are released as they are, every field as it is written.
    protected : mapping of str to bool
        The protected columns, and whether they hold words.
    categories : collection of str
        Declared answers. If the encoding lacks one of their letters, the release is UTF-8.
    encoding : str, optional
        The encoding that was declared. Without it a release whose other columns are plain ASCII
        is UTF-8.

    Examples
    --------
    >>> import pyarrow as pa
    >>> data = Dialect(delimiter=";", encoding="cp1252")
    >>> found = released_dialect(data, pa.table({"Größe": ["1,80", "1,65"]}), {"raucht": True})
    >>> found.encoding, found.has_decimal_comma
    ('cp1252', True)
    """
    import pyarrow.compute as pc

    columns = dict(zip(open_columns.schema.names, open_columns.columns, strict=True))
    used = dialect.encoding
    is_plain = "".join([*columns, *protected]).isascii() and all(
        pc.all(pc.string_is_ascii(column)).as_py() for column in columns.values()
    )
    if encoding is None and is_plain and used not in _SHOWN_BY_FIRST_BYTES:
        used = "utf-8"
    if not can_write(categories, used):
        used = "utf-8"
    points = {name for name, c in columns.items() if are_numbers(c, decimal_comma=False)}
    commas = {
        name
        for name, c in columns.items()
        if dialect.delimiter != "," and name not in points and are_numbers(c, decimal_comma=True)
    }
    has_point = any(pc.any(pc.match_substring(columns[name], ".")).as_py() for name in points)
    texts = columns.keys() - points - commas
    open_quoted = dialect.quoted & columns.keys()
    is_all_quoted = bool(columns) and open_quoted == columns.keys()
    is_text_quoted = texts <= open_quoted if texts else dialect.is_header_quoted
    also = {
        name for name, words in protected.items() if is_all_quoted or (is_text_quoted and words)
    }
    return replace(
        dialect,
        encoding=used,
        quoted=open_quoted | also,
        # A file with semicolons and no fraction comes from where a fraction has a comma.
        has_decimal_comma=bool(commas) or (dialect.delimiter == ";" and not has_point),
        missing_mark=_missing_mark(columns.values()),
    )


def can_write(texts: Collection[str], encoding: str) -> bool:
    """Say whether an encoding has every letter of some texts."""
    try:
        "".join(texts).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _missing_mark(columns: Collection[pa.ChunkedArray]) -> str:
    """Return the commonest mark of a missing answer, or nothing if there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    for column in columns:
        trimmed = pc.utf8_trim_whitespace(column)
        found = trimmed.filter(pc.is_in(trimmed, value_set=pa.array(MISSING_MARKS)))
        counts.update({e["values"]: e["counts"] for e in pc.value_counts(found).to_pylist()})
    return max(MISSING_MARKS, key=lambda mark: counts[mark])
