# SPDX-License-Identifier: Apache-2.0
"""What the fields of a text table mean, and how they are written.

Fields become answers: numbers, truths, words, or none at all. A table is written as the data are: delimiter,
encoding, line ending, quotation marks, decimal comma.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# --- Fields of a text table become answers: numbers, truths, words, or none at all ---

MISSING_MARKS = (
    *("", "NA", "N/A", "n/a", "#N/A", "<NA>"),
    *("NaN", "nan", "NAN", "null", "NULL", "Null"),
    *("?", "."),
)
"""Marks that mean "no answer". "None", "-" and "na" are left alone: they are answers somewhere."""

_WHOLE = r"^[+-]?\d+$"
_FINITE = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_NUMBER = rf"{_FINITE}|^[+-]?(inf|Inf|INF|Infinity|infinity)$"
_DECIMAL_COMMA = r"^[+-]?\d*(,\d+)?$"


def type_fields(
    table: pa.Table, names: Sequence[str], *, decimal_comma: bool
) -> tuple[pd.DataFrame, dict[str, int], list[Note]]:
    """Turn columns of text into numbers where all answers are numbers; count the missing marks.

    Parameters
    ----------
    table : pyarrow.Table
        Columns of text.
    names : sequence of str
        What they are called.
    decimal_comma : bool
        Whether 1,5 may be a number.

    Returns
    -------
    tuple
        The frame, the marks with their counts, and notes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame, marks, _ = type_fields(pa.table({"a": ["1", "?"]}), ["age"], decimal_comma=False)
    >>> frame["age"].tolist(), marks
    ([1, <NA>], {'?': 1})
    """
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    counts: dict[str, int] = {}
    columns: dict[str, pd.Series] = {}
    with_decimal_comma: list[str] = []
    notes: list[Note] = []
    for name, column in zip(names, table.columns, strict=True):
        trimmed = pc.utf8_trim_whitespace(column)
        is_mark = pc.is_in(trimmed, value_set=pa.array(MISSING_MARKS))
        if pc.any(is_mark).as_py():
            for entry in pc.value_counts(trimmed.filter(is_mark)).to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
        # Not a scalar: pyarrow 14 to 20 then blanks the answers of a column that is a slice of another.
        nothing = pa.nulls(len(column), pa.string())
        trimmed = pc.if_else(is_mark, nothing, trimmed)
        numbers = _numbers(trimmed)
        # Numbers written as 1,5 if every answer is one and none has a point.
        if (
            numbers is None
            and decimal_comma
            and pc.all(pc.match_substring_regex(trimmed, _DECIMAL_COMMA)).as_py()
        ):
            numbers = _numbers(pc.replace_substring(trimmed, ",", "."))
            if numbers is not None:
                with_decimal_comma.append(name)
        if numbers is None:
            words = pc.if_else(is_mark, nothing, column)
            is_truth = pc.is_in(words, value_set=pa.array(["True", "False"]))
            if words.null_count == 0 and pc.all(is_truth).as_py():
                words = pc.equal(words, "True")
            columns[name] = pd.Series(words.to_pandas())
            continue
        columns[name] = numbers
        infinite = np.isinf(numbers.to_numpy()) if numbers.dtype == np.float64 else np.zeros(0)
        if infinite.any():
            # Not written as such, like 1e400.
            said_so = pc.match_substring(trimmed, "inf", ignore_case=True).to_pandas()
            finite = ~said_so.to_numpy(dtype=bool, na_value=False)
            if n_too_large := int(np.count_nonzero(infinite & finite)):
                said = f"{name}: {n_too_large} numbers are too large and were read as infinite"
                notes.append(Note("numbers-too-large", said, name))
    if with_decimal_comma:
        said = f"numbers with a decimal comma were read in: {', '.join(with_decimal_comma)}"
        notes.append(Note("decimal-comma", said))
    ordered = {mark: counts[mark] for mark in MISSING_MARKS if mark in counts}
    return pd.DataFrame(columns), ordered, notes


def are_numbers(column: pa.ChunkedArray, *, decimal_comma: bool) -> bool:
    """Say whether a column of text has answers and all of them are numbers.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Text.
    decimal_comma : bool
        Whether 1,5 may be a number.

    Returns
    -------
    bool
        Marks for missing answers are not counted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> are_numbers(pa.chunked_array([["1.5", "?"]]), decimal_comma=False)
    True
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    answers = trimmed.filter(pc.invert(pc.is_in(trimmed, value_set=pa.array(MISSING_MARKS))))
    if len(answers) == 0:
        return False
    if pc.all(pc.match_substring_regex(answers, _NUMBER)).as_py():
        return True
    return decimal_comma and bool(pc.all(pc.match_substring_regex(answers, _DECIMAL_COMMA)).as_py())


def written_answers(
    column: pa.ChunkedArray, *, name: str, possible: Collection[str], decimal_comma: bool
) -> pd.Series:
    """Give the answers of a column as they are written, without a guess at their type.

    What type a column seems to have can depend on the answer of one person; its text does not.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The fields.
    name : str
        The column's name.
    possible : collection of str
        Answers that were announced. One of them is an answer even if it looks like a mark for a
        missing one.
    decimal_comma : bool
        Whether 1,5 may be a number; it is then written 1.5 unless it was announced.

    Returns
    -------
    pandas.Series
        Text without surrounding spaces; a mark for a missing answer is missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> fields = pa.chunked_array([["01", " 1", "?"]])
    >>> written_answers(fields, name="a", possible=["01"], decimal_comma=False).dropna().tolist()
    ['01', '1']
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    announced = pc.is_in(
        trimmed, value_set=pa.array([text.strip() for text in possible], pa.string())
    )
    is_mark = pc.is_in(trimmed, value_set=pa.array(MISSING_MARKS))
    # Not a scalar, as in `type_fields`.
    nothing = pa.nulls(len(column), pa.string())
    answers = pc.if_else(pc.and_(is_mark, pc.invert(announced)), nothing, trimmed)
    if decimal_comma:
        with_comma = pc.match_substring_regex(trimmed, r"^[+-]?\d*,\d+$")
        answers = pc.if_else(
            pc.and_(with_comma, pc.invert(announced)),
            pc.replace_substring(trimmed, ",", "."),
            answers,
        )
    return pd.Series(answers.to_pandas(), name=name)


def spellings(column: pa.ChunkedArray, answers: pd.Series) -> dict[object, str]:
    """Say how every answer of a column is written; of several ways the shortest, first in order.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyarrow as pa
    >>> spellings(pa.chunked_array([["1,50", "2", "1,5"]]), pd.Series([1.5, 2.0, 1.5]))
    {1.5: '1,5', 2.0: '2'}
    """
    texts = (text.strip() for text in column.to_pylist())
    pairs = set(zip(answers, texts, answers.notna(), strict=True))
    ways = sorted((len(text), text, answer) for answer, text, is_known in pairs if is_known)
    return {answer: text for _, text, answer in reversed(ways)}


def _numbers(column: pa.ChunkedArray) -> pd.Series | None:
    """Return the column as numbers if every answer is one, None otherwise."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return pd.Series([float("nan")] * len(column), dtype="float64")
    # 007 is a code, not seven: read as a number it would not come back as it was.
    if pc.any(pc.match_substring_regex(column, r"^[+-]?0\d")).as_py():
        return None
    if pc.all(pc.match_substring_regex(column, _WHOLE)).as_py():
        try:
            integers = pc.cast(pc.utf8_ltrim(column, characters="+"), pa.int64())
        except pa.ArrowInvalid:
            return None  # longer than 64 bits: an identifier
        if column.null_count:
            return pd.Series(integers.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))
        return pd.Series(integers.to_pandas())
    if pc.all(pc.match_substring_regex(column, _NUMBER)).as_py():
        written = column.to_pandas()
        try:
            return pd.Series(pd.to_numeric(written).astype("float64"))
        except ValueError:  # pandas 2 refuses 1e400, which pandas 3 reads as infinite
            return pd.Series(written.map(float, na_action="ignore").astype("float64"))
    return None


# --- How a text table is written: delimiter, encoding, line ending, quotation marks, decimal comma ---

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
    # Whether every field of the first records is quoted; None where it is missing. The records are whole,
    # however long: a cut by length would depend on the answers before it. They are told apart as the
    # reader does, which takes a quotation mark for one at a field's start only.
    cut = re.escape(delimiter)
    field = re.compile(rf'((?:"[^"]*(?:""[^"]*)*")?[^{cut}\r\n]*)({cut}|\r\n|\r|\n|$)')
    quotation: list[list[bool | None]] = [[]]
    for match in field.finditer(text):
        written = match[1]
        ends_record = match[2] != delimiter
        if ends_record and not written and not quotation[-1] and len(names) > 1:
            continue
        quotation[-1].append(None if written.strip() in MISSING_MARKS else written.startswith('"'))
        if ends_record:
            if match.end() == len(text) or len(quotation) > _SAMPLE_RECORDS:
                break
            quotation.append([])
    header, *records = quotation
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
