# SPDX-License-Identifier: Apache-2.0
"""`epsilens inspect`: what a table contains and what of it can be protected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.options import (
    Anonymous,
    BinsOption,
    Categorical,
    Data,
    Delimiter,
    Encoding,
    Json,
    Out,
    Quiet,
    comma_list,
    delimiter_from,
    mapping_of_bins,
)

if TYPE_CHECKING:
    from epsilens.data import Column, Schema, TableFile
    from epsilens.document import InspectDocument

__all__ = ["describe_table", "inspect", "likely_label"]

MOST_NAMED_CATEGORIES = 8
"""A longer list of categories is counted, not shown."""

NEEDS_BINS = "needs --bins"

LARGEST_SACRIFICE = 0.5
"""Columns are better left out than more than this share of the rows."""

_LABEL_NAMES = ("label", "target", "outcome", "class", "response", "answer", "y")


def inspect(
    data: Data,
    categorical: Categorical = None,
    bins: BinsOption = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    json: Json = False,
    out: Out = None,
    seed: Annotated[
        int | None, typer.Option(help="Accepted as everywhere; nothing here is random.")
    ] = None,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Show columns, kinds, missing values, what can be protected, and a command to go on with.

    Example: [bold]epsilens inspect survey.csv[/bold]
    """
    import time

    from epsilens.cli.session import print_json, printable, withhold_names
    from epsilens.cli.target import check_target
    from epsilens.data import infer_schema, read_table, write_text
    from epsilens.document import anonymise, to_json

    if anonymous:
        withhold_names()
    check_target(out, sources={"the data": data})
    started = time.perf_counter()
    table = read_table(data, delimiter=delimiter_from(delimiter), encoding=encoding)
    schema = infer_schema(
        table.frame, categorical=comma_list(categorical), bins=mapping_of_bins(bins)
    )
    settings: dict[str, object] = {
        "categorical": list(comma_list(categorical)),
        "bins": list(bins or []),
        "delimiter": table.delimiter,
        "encoding": table.encoding,
        "format": table.format,
    }
    typed = [
        *(f"--categorical={name}" for name in comma_list(categorical)),
        *(f"--bins={value}" for value in bins or ()),
        *([f"--delimiter={delimiter}"] if delimiter else []),
        *([f"--encoding={encoding}"] if encoding else []),
    ]
    named = {*comma_list(categorical), *mapping_of_bins(bins)}
    document = describe_table(
        table, schema, source=printable(data), settings=settings, typed=typed, named=named
    )
    document = document.model_copy(
        update={
            "provenance": document.provenance.model_copy(
                update={"seconds": round(time.perf_counter() - started, 3)}
            )
        }
    )
    has_suggestion = document.suggestion is not None
    if anonymous:
        document = anonymise(document)
    if out is not None:
        write_text(to_json(document) + "\n", out)
    if json:
        print_json(to_json(document))
    else:
        name = None if anonymous else printable(table.name)
        _print(document, name=name, quiet=quiet, is_withheld=anonymous and has_suggestion)


def describe_table(
    table: TableFile,
    schema: Schema,
    *,
    source: str,
    settings: dict[str, object],
    typed: list[str],
    named: set[str],
) -> InspectDocument:
    """Describe a table without a record of it.

    Parameters
    ----------
    table : TableFile
    schema : Schema
        Of its columns.
    source : str
        What the suggested command calls the file.
    settings : dict
        How it was read, for the provenance.
    typed : list of str
        Options that the suggested command repeats.
    named : set of str
        Columns that the user has named, which are not suggested to be dropped.
    """
    from epsilens.document import InspectColumn, InspectDocument, Provenance

    n_incomplete = int(table.frame.isna().any(axis=1).sum())
    return InspectDocument(
        provenance=Provenance(
            method="inspect", settings=settings, schema_fingerprint=schema.fingerprint
        ),
        warnings=_remarks(table, n_incomplete),
        number_types={"rows": "measured", "n_distinct": "measured", "n_missing": "measured"},
        rows=schema.n_rows,
        columns=[
            InspectColumn(
                name=column.name,
                kind=column.kind,
                n_distinct=column.n_distinct,
                n_missing=column.n_missing,
                protectable=column.protectable,
                categories=_category_names(column),
                note=column.note or _advice(column),
            )
            for column in schema.columns
        ],
        suggestion=_suggest(table, schema, source, typed, named),
    )


def _category_names(column: Column) -> list[str] | None:
    # The domain, not the encoder's categories: where every value differs it is a list of people.
    if column.domain is None or len(column.domain) > MOST_NAMED_CATEGORIES:
        return None
    return [
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for value in column.domain
    ]


def _advice(column: Column) -> str | None:
    if column.protectable:
        return None
    return NEEDS_BINS


def _remarks(table: TableFile, n_incomplete: int) -> list[str]:
    remarks = list(table.notes)
    if table.missing_marks:
        marks = ", ".join(
            f"{mark!r} {count}" if mark else f"empty {count}"
            for mark, count in table.missing_marks.items()
        )
        remarks.append(f"taken as missing values: {marks}")
    if n_incomplete:
        remarks.append(
            f"{n_incomplete} of {len(table.frame)} rows have a missing value "
            f"({n_incomplete / len(table.frame):.1%})"
        )
    return remarks


def _suggest(
    table: TableFile, schema: Schema, source: str, typed: list[str], named: set[str]
) -> str | None:
    """Compose the what-if for the most likely label, ready to be pasted into a shell."""
    import shlex

    label = likely_label(schema)
    if label is None:
        return None
    words = ["epsilens", "whatif", source, "--label", label.name, "--protect", label.name]
    if label.kind != "binary" and label.categories:
        words += ["--positive", str(label.categories[-1])]
    words += typed
    words += _settle_missing(table, schema, label, named)
    return shlex.join(words)


def _settle_missing(table: TableFile, schema: Schema, label: Column, named: set[str]) -> list[str]:
    """Choose what to do with missing answers; `whatif` takes a few of them without being told.

    Columns that miss so much that most rows would have to go are left out first, the worst first;
    not those that the user has named.
    """
    from epsilens.data.missing import LARGEST_DROPPED_SHARE

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
            # `--drop` would read a comma as the end of a name.
            if column is not label and column.name not in named and "," not in column.name
        ]
        if share <= LARGEST_SACRIFICE or not optional or len(used) <= 2:
            return [*_drop_options(dropped), "--missing", "drop"]
        worst = max(optional, key=lambda column: column.n_missing)
        dropped.append(worst.name)
        del used[worst.name]


def _drop_options(names: list[str]) -> list[str]:
    return [f"--drop={name}" for name in names]


def likely_label(schema: Schema) -> Column | None:
    """Prefer a column that is called so, then the last with two answers, then with a few."""
    binary = [column for column in schema.columns if column.kind == "binary"]
    few = [
        column
        for column in schema.columns
        if column.kind == "categorical" and len(column.categories or ()) <= MOST_NAMED_CATEGORIES
    ]
    for column in [*binary, *few]:
        if column.name.lower() in _LABEL_NAMES:
            return column
    return next(reversed([*few, *binary]), None)


def _print(document: InspectDocument, *, name: str | None, quiet: bool, is_withheld: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from epsilens.reporting.terminal import inspect_table

    console = Console()
    if name and not quiet:
        console.print(Text(name, style="bold"))
    console.print(inspect_table(document))
    if quiet:
        return
    for remark in dict.fromkeys(document.warnings):
        console.print(Text(f"Note: {remark.rstrip('.')}."))
    if any(column.note == NEEDS_BINS for column in document.columns):
        console.print(
            "A number with many values can be protected in bins: --bins COL=LOW:HIGH:10.",
            highlight=False,
        )
    if document.suggestion:
        console.print("To see what a privacy budget would cost, try:")
        console.print(Text(f"  {document.suggestion}"), soft_wrap=True)
    elif is_withheld:
        console.print("The suggested command is withheld, because it names columns.")
    else:
        console.print("No column has a few answers that a model could predict.")
