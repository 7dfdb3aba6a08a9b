# SPDX-License-Identifier: Apache-2.0
"""Fields of a text table become answers: numbers, truths, words, or none at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


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


@dataclass(frozen=True)
class TypedFields:
    """The columns of a text table with their types, and what was noticed on the way."""

    frame: pd.DataFrame
    missing_marks: dict[str, int]
    notes: tuple[Note, ...]


def type_fields(table: pa.Table, names: Sequence[str], *, decimal_comma: bool) -> TypedFields:
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
    TypedFields
        The frame, the marks with their counts, and notes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> typed = type_fields(pa.table({"a": ["1", "?"]}), ["age"], decimal_comma=False)
    >>> typed.frame["age"].tolist(), typed.missing_marks
    ([1, <NA>], {'?': 1})
    """
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
        if numbers is None and decimal_comma:
            numbers = _decimal_comma_numbers(trimmed)
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
        n_too_large = _n_too_large(numbers, trimmed)
        if n_too_large:
            said = f"{name}: {n_too_large} numbers are too large and were read as infinite"
            notes.append(Note("numbers-too-large", said, name))
    if with_decimal_comma:
        said = f"numbers with a decimal comma were read in: {', '.join(with_decimal_comma)}"
        notes.append(Note("decimal-comma", said))
    ordered = {mark: counts[mark] for mark in MISSING_MARKS if mark in counts}
    return TypedFields(pd.DataFrame(columns), ordered, tuple(notes))


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


def _decimal_comma_numbers(column: pa.ChunkedArray) -> pd.Series | None:
    """Return numbers written as 1,5 if every answer is one and none has a point."""
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(column, _DECIMAL_COMMA)).as_py():
        return None
    return _numbers(pc.replace_substring(column, ",", "."))


def _n_too_large(numbers: pd.Series, written: pa.ChunkedArray) -> int:
    """Count the infinite numbers that were not written as such, like 1e400."""
    import numpy as np
    import pyarrow.compute as pc

    if numbers.dtype != np.float64:
        return 0
    infinite = np.isinf(numbers.to_numpy())
    if not infinite.any():
        return 0
    said_so = pc.match_substring(written, "inf", ignore_case=True).to_pandas()
    return int(np.count_nonzero(infinite & ~said_so.to_numpy(dtype=bool, na_value=False)))
