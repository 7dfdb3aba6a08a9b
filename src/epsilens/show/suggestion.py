# SPDX-License-Identifier: Apache-2.0
"""A command to go on with, once it is known what a table contains."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from epsilens.data.description import likely_label, likely_number
from epsilens.data.missing import LARGEST_DROPPED_SHARE
from epsilens.data.typed_names import typed_answer, typed_name

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.data import Column, Schema, TableFile


LARGEST_SACRIFICE = 0.5
"""Columns are better left out than more than this share of the rows."""

FEW_BINS = 5
"""Intervals that a suggested command asks for: few enough for randomised response to leave something."""


def suggested_command(
    table: TableFile,
    schema: Schema,
    *,
    source: str,
    typed: Sequence[str] = (),
    named: Collection[str] = (),
) -> str | None:
    """Compose the what-if for the most likely label, ready to be pasted into a shell.

    Parameters
    ----------
    table : TableFile
    schema : Schema
        Schema of its columns.
    source : str
        What the command calls the file.
    typed : sequence of str
        Options that it repeats.
    named : collection of str
        Columns that the user has named, which are not suggested to be dropped.

    Returns
    -------
    str or None
        None if no column is likely to be a label, or nothing is left to predict it from. Where no
        column has a few answers, a number is predicted, and another column is protected: a number
        has no answers to be drawn from.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import TableFile, infer_schema
    >>> frame = pd.DataFrame({"age": [31, 42, 53], "smokes": ["no", "yes", "no"]})
    >>> table = TableFile(frame, name="survey.csv", format="csv")
    >>> suggested_command(table, infer_schema(frame), source="my survey.csv")
    "epsilens whatif 'my survey.csv' --label smokes --protect smokes '--categories=smokes=no|yes'"
    """
    label = likely_label(schema)
    if label is not None and not any(
        column.encoding != "left out" for column in schema.columns if column is not label
    ):
        return None
    # A file whose name begins with a dash would be taken for an option; `-` alone is standard input.
    words = [
        "epsilens",
        "whatif",
        f"./{source}" if source.startswith("-") and source != "-" else source,
    ]
    if label is not None:
        words += ["--label", label.name, "--protect", typed_name(label.name)]
        if label.kind == "categorical" and label.categories:
            words += ["--positive", str(label.categories[-1])]
        else:
            words += _declared(label, typed)
        words += typed
        return shlex.join([*words, *_settle_missing(table, schema, label, named)])
    number = likely_number(schema)
    if number is None:
        return None
    label, protected = number
    words += ["--label", label.name, "--model", "ridge", "--protect", typed_name(protected.name)]
    if not protected.protectable:
        low, high = _round_bounds(table.frame[protected.name])
        words.append(f"--bins={typed_name(f'{protected.name}={low:g}:{high:g}:{FEW_BINS}')}")
        named = {*named, protected.name}
    else:
        words += _declared(protected, typed)
    words += typed
    return shlex.join([*words, *_settle_missing(table, schema, label, named, protected)])


def _declared(column: Column, typed: Sequence[str]) -> list[str]:
    """Declare the answers that a column has, unless the user has declared bins of it."""
    if not column.categories or any(word.startswith(f"--bins={column.name}=") for word in typed):
        return []
    answers = "|".join(typed_answer(str(answer)) for answer in column.categories)
    return [f"--categories={column.name}={answers}"]


def _round_bounds(values: pd.Series) -> tuple[float, float]:
    """Return round numbers that all values lie between."""
    low, high = float(values.min()), float(values.max())
    step = 10.0 ** math.floor(math.log10(high - low)) / 2 if high > low else 1.0
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _settle_missing(
    table: TableFile,
    schema: Schema,
    label: Column,
    named: Collection[str],
    protected: Column | None = None,
) -> list[str]:
    """Choose what to do with missing answers; `whatif` takes a few of them without being told.

    Columns that miss so much that most rows would have to go are left out first, the worst first;
    not those that the user has named.
    """
    used = {column.name: column for column in schema.columns if column.encoding != "left out"}
    used[label.name] = label
    dropped: list[str] = []
    while True:
        incomplete = [column for column in used.values() if column.n_missing]
        share = float(table.frame[list(used)].isna().any(axis=1).mean())
        if share <= LARGEST_DROPPED_SHARE:
            return _drop_options(dropped)
        if not label.n_missing and all(column.encoding == "one-hot" for column in incomplete):
            return [*_drop_options(dropped), "--missing", "category"]
        optional = [
            column
            for column in incomplete
            if column not in (label, protected) and column.name not in named
        ]
        if share <= LARGEST_SACRIFICE or not optional or len(used) <= 2:
            return [*_drop_options(dropped), "--missing", "drop"]
        worst = max(optional, key=lambda column: column.n_missing)
        dropped.append(worst.name)
        del used[worst.name]


def _drop_options(names: list[str]) -> list[str]:
    return [f"--drop={typed_name(name)}" for name in names]
