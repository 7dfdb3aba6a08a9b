# SPDX-License-Identifier: Apache-2.0
"""Documents as tables and sentences for the terminal.

Names from the data are shown as plain text: a column called `[red]` stays `[red]`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from epsilens._validate import as_count
from epsilens.document import (
    InspectDocument,
    ReleaseDocument,
    WhatIfDocument,
    cost_type,
    group_names,
)
from epsilens.show.cell_text import GAPS, cells_to_show, has_gap, outcome_interval
from epsilens.show.columns import cost_columns, rows_note
from epsilens.show.plain_table import ALL_ROWS, fill_columns, plain_table
from epsilens.show.plotted import TITLE
from epsilens.show.rounding import NOTHING, format_count, format_epsilon
from epsilens.show.sentences import whatif_sentence
from epsilens.show.words import GAP_MEANINGS, group_label

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = ["gap_table", "inspect_table", "release_summary", "whatif_sentence", "whatif_table"]


def whatif_table(document: WhatIfDocument, *, max_rows: int = 12) -> Table:
    """Show what budgets would cost, a few rows from the smallest to the largest budget.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    max_rows : int
        About how many rows to show; of a longer grid evenly spaced budgets are taken, always with
        both ends.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02) for epsilon in range(1, 31)]
    >>> whatif_table(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                             cells=cells)).row_count
    12
    """
    as_count(max_rows, name="max_rows")
    document = document.answered()
    shown = cells_to_show(document, max_rows=max_rows)
    notes = rows_note(len(shown), len(document.cells), ALL_ROWS)
    table = plain_table(f"{TITLE} ({cost_type(document)})", notes=notes)
    fill_columns(
        table,
        cost_columns(document, shown, parts=["loss", "accuracy"]),
        shown,
        group=(lambda cell: group_label(cell.group)) if len(group_names(document)) > 1 else None,
        is_faint=lambda cell: not cell.trusted,
    )
    return table


def gap_table(document: WhatIfDocument, *, max_rows: int = 12) -> Table | None:
    """Show how far budgets would move each group from everybody else.

    A gap is the test loss, or the accuracy, of the group less that of everybody else. It is a table
    of its own because an ordinary terminal has no room for these ranges beside the others.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    max_rows : int
        About how many rows to show, as in `whatif_table`.

    Returns
    -------
    rich.table.Table or None
        A table for `rich.console.Console.print`; None when no group has a gap.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004)
    >>> gap_table(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                          cells=[cell])).row_count
    1
    """
    as_count(max_rows, name="max_rows")
    document = document.answered()
    gaps = [gap for gap in GAPS if has_gap(document.cells, gap)]
    known = [cell for cell in document.cells if any(has_gap([cell], gap) for gap in gaps)]
    if not known:
        return None
    shown = cells_to_show(document.model_copy(update={"cells": known}), max_rows=max_rows)
    banded = any(outcome_interval(document, cell, gap) for cell in shown for gap in gaps)
    notes = ["A range holds 9 in 10 runs."] if banded else []
    notes += [GAP_MEANINGS[gap] for gap in gaps]
    notes += rows_note(len(shown), len(known), ALL_ROWS)
    table = plain_table(
        f"How far a group moves from everybody else ({cost_type(document)})", notes=notes
    )
    fill_columns(
        table,
        cost_columns(document, shown, parts=["gaps"]),
        shown,
        group=lambda cell: group_label(cell.group),
    )
    return table


_WIDEST_NAME = 18
"""Of a column, in a table of columns; a longer name takes several lines where there is no room."""


def inspect_table(document: InspectDocument) -> Table:
    """Show the columns of a table, what they are and which can be protected.

    Parameters
    ----------
    document : InspectDocument
        The document of `epsilens inspect`.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import InspectColumn, InspectDocument, Provenance
    >>> column = InspectColumn(name="smokes", kind="binary", n_distinct=2, n_missing=0,
    ...                        protectable=True, categories=["no", "yes"])
    >>> inspect_table(InspectDocument(provenance=Provenance(method="inspect"), rows=9,
    ...                               columns=[column])).row_count
    1
    """
    from rich.text import Text

    n_columns = len(document.columns)
    unit = "column" if n_columns == 1 else "columns"
    table = plain_table(
        f"{format_count(document.rows)} rows, {format_count(n_columns)} {unit}",
        padding=(0, 1, 0, 0),
    )
    # Where there is little room it goes to names and notes, which then are cut in fewer words.
    longest = max((len(column.name) for column in document.columns), default=0)
    table.add_column("column", overflow="fold", min_width=min(longest, _WIDEST_NAME))
    table.add_column("kind", no_wrap=True)
    table.add_column("values", justify="right", no_wrap=True)
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("can be protected", max_width=len("protected"))
    table.add_column("categories and notes", overflow="fold")
    for column in document.columns:
        details = []
        if column.categories:
            details.append(", ".join(column.categories))
        if column.note:
            details.append(column.note)
        table.add_row(
            Text(column.name),
            Text(column.kind),
            Text(format_count(column.n_distinct)),
            Text(format_count(column.n_missing) if column.n_missing else NOTHING),
            Text("yes" if column.protectable else "no"),
            Text("; ".join(details)),
        )
    return table


def release_summary(document: ReleaseDocument) -> Text:
    """Say what a release did and what budget it spent, in a few lines.

    Parameters
    ----------
    document : ReleaseDocument
        The receipt of a release.

    Returns
    -------
    rich.text.Text
        Text for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Provenance, ReleaseDocument
    >>> print(release_summary(ReleaseDocument(
    ...     provenance=Provenance(method="randomised response"), columns=["smokes"],
    ...     epsilon={"smokes": 1.0}, record_epsilon=1.0, rows=100, simulated=False,
    ...     mechanism="randomised response")))
    100 records released by randomised response.
      smokes  ε = 1
    Budget spent by each record: ε = 1 (proven).
    """
    from rich.text import Text

    text = Text()
    shuffled = document.provenance.settings.get("order") == "shuffled"
    text.append(
        f"{format_count(document.rows)} records released by {document.mechanism}"
        f"{', in random order' if shuffled else ''}.\n",
        style="bold",
    )
    width = max((len(name) for name in document.columns), default=0)
    for name in document.columns:
        text.append(f"  {name:<{width}}  ε = {format_epsilon(document.epsilon.get(name))}\n")
    text.append(f"Budget spent by each record: ε = {format_epsilon(document.record_epsilon)}")
    if document.simulated:
        text.append(", if it were real.\n")
        text.append(
            "Simulated: a seed was given, so whoever knows it can undo the noise. "
            "Do not publish this file.",
            style="bold yellow",
        )
    else:
        text.append(" (proven).")
    if math.isinf(document.record_epsilon):
        text.append("\nε = ∞ changes nothing: this release protects nobody.", style="bold yellow")
    return text
