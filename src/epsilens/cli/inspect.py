# SPDX-License-Identifier: Apache-2.0
"""`epsilens inspect`: what a table contains and what of it can be protected."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from epsilens.cli.option_groups import Help, Without, option, option_groups
from epsilens.cli.options import (
    BinsOption,
    Categorical,
    Data,
    Delimiter,
    Encoding,
    comma_list,
    delimiter_from,
    mapping_of_bins,
)
from epsilens.cli.output import Output, print_json, print_notes, printable

if TYPE_CHECKING:
    from epsilens.document import InspectDocument


@option_groups
def inspect(
    data: Data,
    categorical: Categorical = None,
    bins: BinsOption = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    seed: Annotated[int | None, option("Accepted as everywhere; nothing here is random.")] = None,
    *,
    output: Annotated[Output, Without("seed"), Help(out="Also write the JSON document here.")],
) -> None:
    """Show columns, kinds, missing values, what can be protected, and a command to go on with.

    Example: [bold]epsilens inspect survey.csv[/bold]
    """
    import time

    from epsilens.data import describe_table, infer_schema, read_table, write_text
    from epsilens.data.typed_names import typed_name
    from epsilens.document import to_json
    from epsilens.show.suggestion import suggested_command

    output.check((), {"the data": data})
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
        *(f"--categorical={typed_name(name)}" for name in comma_list(categorical)),
        *(f"--bins={value}" for value in bins or ()),
        *([f"--delimiter={delimiter}"] if delimiter else []),
        *([f"--encoding={encoding}"] if encoding else []),
    ]
    named = {*comma_list(categorical), *mapping_of_bins(bins)}
    suggestion = suggested_command(table, schema, source=printable(data), typed=typed, named=named)
    document = describe_table(table, schema, settings=settings, suggestion=suggestion)
    document = document.model_copy(
        update={
            "provenance": document.provenance.model_copy(
                update={"seconds": round(time.perf_counter() - started, 3)}
            )
        }
    )
    is_withheld = output.anonymous and document.suggestion is not None
    document = output.settle(document)
    if output.out is not None:
        write_text(to_json(document) + "\n", output.out)
    if output.json:
        print_json(to_json(document))
    else:
        name = None if output.anonymous else printable(table.name)
        _print(document, name=name, quiet=output.quiet, is_withheld=is_withheld)


def _print(document: InspectDocument, *, name: str | None, quiet: bool, is_withheld: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from epsilens.data.description import NEEDS_BINS
    from epsilens.show import document_table

    console = Console()
    if name and not quiet:
        console.print(Text(name, style="bold"))
    console.print(document_table(document))
    if quiet:
        return
    print_notes(console, document.notes)
    if any(column.note == NEEDS_BINS for column in document.columns):
        console.print(
            "A number with many values can be protected in bins: --bins COL=LOW:HIGH:10.",
            highlight=False,
        )
    if document.suggestion:
        console.print("To see what a privacy budget would cost, try:")
        console.file.write(f"  {document.suggestion}\n")  # a tab stays a tab
        console.print(Text(_go_on(document.suggestion)))
    elif is_withheld:
        console.print("The suggested command is withheld, because it names columns.")
    elif len(document.columns) == 1:
        console.print(
            "No column has a few answers that a model could predict from others: there is one column "
            "only. If that is wrong, say what stands between the columns: --delimiter."
        )
    else:
        console.print("No column has a few answers that a model could predict from the others.")


def _go_on(suggestion: str) -> str:
    """Say what may be wrong with a suggestion, and what comes after it."""
    label = (
        "--label is what a model is to predict: name another column if that was guessed wrongly."
    )
    options = {word.partition("=")[0] for word in shlex.split(suggestion)}
    if "--categories" in options:
        label += (
            " --categories holds the answers of this table: add those that could have been given."
        )
    elif "--bins" in options:
        label += (
            " --bins spans the numbers of this table: widen it to those that could have been given."
        )
    if "--model" in options:
        return (
            f"No column has a few answers, so a number is predicted. {label} To protect the number "
            "itself, put it into classes in the file."
        )
    return f"{label} `epsilens decide` takes the same options and recommends an ε."
