# SPDX-License-Identifier: Apache-2.0
"""What `epsilens train` reads: the table, what is declared of it, and what is still to be declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epsilens.cli.options import (
    TableOptions,
    categories_of,
    comma_list,
    delimiter_from,
    mapping_of_bins,
    require_text,
)
from epsilens.cli.output import typed_command
from epsilens.errors import InputError, PrivacyLeakWarning, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.models.training_rows import Declaration, TrainingRows


def read_training(
    data: str, table: TableOptions, *, is_record: bool
) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Return the table with its types, the table as it is written, and whether 1,5 is a number."""
    from epsilens.data.fields import read_fields

    found = read_fields(
        data,
        delimiter=delimiter_from(table.delimiter),
        encoding=table.encoding,
        detect=not is_record,
    )
    frame = found.written if is_record else found.typed()
    return frame, found.written, found.decimal_comma


def read_declaration(
    table: TableOptions,
    names: Sequence[str],
    protect: Sequence[str] | None,
    ranges: Sequence[str] | None,
    *,
    is_record: bool,
) -> Declaration:
    """Return what the options declare; refuse names that the table does not have."""
    from epsilens._validate import require_unique
    from epsilens.models.training_rows import Declaration, parse_range

    require_text(ranges, option="--range")
    if is_record and (table.missing != "auto" or table.categorical):
        raise InputError(
            "with `--protects record` nothing is learnt from the data: declare codes with "
            "`--categories`, and leave out `--missing` and `--categorical`."
        )
    parsed = [parse_range(text, names) for text in ranges or ()]
    require_unique((column.name for column in parsed), what="columns in `--range`")
    protected = {table.label, *comma_list(protect)}
    found = Declaration(
        label=table.label,
        protected=frozenset(names) if is_record else frozenset(protected),
        categories=categories_of(table.categories, protected=names),
        ranges={column.name: column for column in parsed},
        bins=mapping_of_bins(table.bins),
        drop=comma_list(table.drop),
        categorical=comma_list(table.categorical),
        positive=table.positive,
        missing=table.missing,
        is_number=table.model == "ridge",
    )
    found.check(names)
    return found


def require_declared(
    declaration: Declaration,
    written: pd.DataFrame,
    *,
    lacks_bound: bool,
    delta: float | None,
    is_record: bool,
    simulated: bool,
    decimal_comma: bool,
) -> None:
    """Refuse a claim of which something is not declared: all at once, with a command to copy.

    Whether it is refused follows from the options and the header. The command suggests a range for a
    column if most of its values are numbers; it has no value of the data.
    """
    import shlex

    import numpy as np

    from epsilens.document.wording import delta_text
    from epsilens.models.table_encoder import NumberColumn

    undeclared = declaration.undeclared(list(map(str, written.columns)))
    if simulated and not is_record and not declaration.is_number:
        # A simulation claims nothing: its classes may be observed; that warns.
        undeclared = [name for name in undeclared if name != declaration.label]
    lacking = ["--x-bound 4"] * lacks_bound
    if is_record and delta is None:
        lacking.append(f"--delta {delta_text(_usual_delta(len(written)))}")
    if not undeclared and not lacking:
        return
    for name in undeclared:
        numbers = NumberColumn(name, 0.0, 1.0).numbers(
            written[name].astype(str).str.replace(",", ".") if decimal_comma else written[name]
        )
        is_number = float(np.isfinite(numbers).mean()) > 0.5
        is_number = declaration.is_number if name == declaration.label else is_number
        typed = f"{name}=LOW:HIGH" if is_number else f"{name}=A|B|C"
        lacking.append(f"{'--range' if is_number else '--categories'} {shlex.quote(typed)}")
    what = [f"`{part.split()[0]}`" for part in lacking if part.startswith(("--x", "--d"))]
    what += [f"what {', '.join(map(repr, undeclared))} can hold"] * bool(undeclared)
    claim = "a record" if is_record else "the answers"
    raise InputError(
        f"to protect {claim} {' and '.join(what)} must be declared, from what is known without the "
        f"data. Complete and run: {typed_command()} {' '.join(lacking)}"
        + (" (or leave columns out with `--drop`)" if is_record and undeclared else "")
    )


def _usual_delta(n_records: int) -> float:
    """Return a power of ten well below one over the number of records."""
    return 10.0 ** -(len(str(n_records)) + 1)


def training_delta(delta: float | None, n_records: int, *, simulated: bool) -> float:
    """Return the δ that is used; refuse one that would allow to publish a whole record."""
    usual = float(f"{_usual_delta(n_records):g}")
    if delta is None:
        return usual
    if delta >= 1 / n_records:
        note = Note(
            "large-delta",
            f"{setting('delta')} is not below 1/{n_records}, one over the number of training records: it "
            f"would allow to publish a whole record. Use for instance {usual:g}.",
        )
        if not simulated:
            raise InputError(note.text)
        note.warn(PrivacyLeakWarning, stacklevel=2)
    return delta


def check_lines(
    rows: TrainingRows,
    written: pd.DataFrame,
    declaration: Declaration,
    x_bound: float | None,
) -> list[str]:
    """Return what the declarations and the bound would change. For the curator alone."""
    import numpy as np

    from epsilens.models.ridge_bounds import row_norms
    from epsilens.models.table_encoder import NumberColumn, TableEncoder, category_codes

    lines = ["Not private: for whoever holds the table. Nothing was trained."]
    for column in rows.columns:
        values = rows.frame[column.name]
        if isinstance(column, NumberColumn):
            numbers = column.numbers(values)
            n_other = int(np.isnan(numbers).sum())
            n_cut = 0
            if column.low is not None and column.high is not None:
                n_cut = int(((numbers < column.low) | (numbers > column.high)).sum())
            counts = f"{n_other:,} without a number, {n_cut:,} beyond the range"
        else:
            counts = f"{int((category_codes(values, column.categories) < 0).sum()):,} undeclared"
        lines.append(f"  {column.name}: {counts}")
    if declaration.label in declaration.categories:
        codes = category_codes(written[declaration.label], list(rows.classes))
        lines.append(f"  {declaration.label}: {int((codes < 0).sum()):,} undeclared")
    if x_bound is None:
        return lines
    lengths = np.hypot(row_norms(TableEncoder(rows.columns).transform(rows.frame)), 1.0)
    lines.append(f"  rows longer than {x_bound:g}: {float((lengths > x_bound).mean()):.1%}")
    return lines
