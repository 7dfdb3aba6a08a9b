# SPDX-License-Identifier: Apache-2.0
"""The columns of the tables, the same in terminal, notebook and report: their titles, and their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from epsilens.document import RiskCell, RiskDocument, WhatIfCell, WhatIfDocument
from epsilens.show.cell_text import (
    GAPS,
    Gap,
    accuracy_text,
    gap_text,
    gap_unit,
    interval_text,
)
from epsilens.show.rounding import (
    NOTHING,
    change_decimals,
    format_auc_change,
    format_change,
    format_count,
    format_epsilon,
)
from epsilens.show.words import OUTCOME_NAMES, axis_budget, budget_title, change_title

__all__ = [
    "Column",
    "CostColumn",
    "budget_column",
    "cost_columns",
    "rows_note",
    "with_numbers",
]

Cell_contra = TypeVar("Cell_contra", contravariant=True)

CostColumn: TypeAlias = Literal["loss", "accuracy", "auc", "gaps"]


@dataclass(frozen=True)
class Column(Generic[Cell_contra]):
    """One column of a table: its title and what it says of a cell.

    Attributes
    ----------
    title : str
    text : callable
        From a cell to its text.
    holds_numbers : bool
        Whether its texts stand under each other by their ends.

    Examples
    --------
    >>> Column[WhatIfCell]("ε", lambda cell: format_epsilon(cell.epsilon)).title
    'ε'
    """

    title: str
    text: Callable[[Cell_contra], str]
    holds_numbers: bool = True


def with_numbers(
    columns: Sequence[Column[Cell_contra]], cells: Sequence[Cell_contra]
) -> list[Column[Cell_contra]]:
    """Leave out the columns that say nothing of any cell.

    Examples
    --------
    >>> columns = [Column[float]("a", str), Column[float]("b", lambda cell: NOTHING)]
    >>> [column.title for column in with_numbers(columns, [1.0])]
    ['a']
    """
    return [column for column in columns if any(column.text(cell) != NOTHING for cell in cells)]


def budget_column(document: WhatIfDocument | RiskDocument) -> Column[WhatIfCell | RiskCell]:
    """Give the column of the budgets: per column, or per record where columns differ.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=None, record_epsilon=2.0, mechanism="rr")
    >>> column = budget_column(RiskDocument(provenance=Provenance(method="shadow models"),
    ...                                     n_models=2, n_targets=9, cells=[cell]))
    >>> column.title, column.text(cell)
    ('ε of a record', '2')
    """
    return Column(
        budget_title(document).removeprefix("privacy budget "),
        lambda cell: format_epsilon(axis_budget(document, cell)),
    )


def cost_columns(
    document: WhatIfDocument,
    cells: Sequence[WhatIfCell],
    *,
    parts: Sequence[CostColumn] = ("loss", "accuracy", "gaps"),
) -> list[Column[WhatIfCell]]:
    """List the columns that a table of a cost has: those with numbers, the budget first.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    cells : sequence of WhatIfCell
        Those that the table shows.
    parts : sequence of {"loss", "accuracy", "auc", "gaps"}
        Which outcomes it has room for, in this order.

    Returns
    -------
    list of Column
        The last says whether a cell passed its checks.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> columns = cost_columns(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                       cells=[cell]), [cell])
    >>> [(column.title, column.text(cell)) for column in columns]
    [('ε', '1'), ('change of test loss (nats)', '+0.0200'), ('trusted', 'yes')]
    """
    decimals = change_decimals(document)
    loss = Column[WhatIfCell](
        change_title(document, "loss"),
        lambda cell: format_change(cell.loss_change, decimals=decimals),
    )
    known: dict[CostColumn, list[Column[WhatIfCell]]] = {
        "loss": [
            loss,
            Column("9 in 10 runs", lambda cell: interval_text(document, cell) or NOTHING),
        ],
        "accuracy": [
            Column("accuracy (points)", lambda cell: accuracy_text(document, cell) or NOTHING)
        ],
        "auc": [Column("AUC", lambda cell: format_auc_change(cell.auc_change))],
        "gaps": [_gap_column(document, gap) for gap in GAPS],
    }
    found: list[Column[WhatIfCell]] = [budget_column(document)]
    for column in (column for part in parts for column in known[part]):
        # What the table is about stays, even where nothing of it could be computed.
        found += [column] if column is loss else with_numbers([column], cells)
    return [*found, Column("trusted", lambda cell: "yes" if cell.trusted else "no", False)]


def _gap_column(document: WhatIfDocument, gap: Gap) -> Column[WhatIfCell]:
    title = f"{OUTCOME_NAMES[gap]} ({gap_unit(document, gap)})"
    return Column(title, lambda cell: gap_text(document, cell, gap) or NOTHING)


def rows_note(n_shown: int, n_rows: int, where: str) -> list[str]:
    """Say how many rows a table leaves out, and where they all are; nothing if it has them all.

    Parameters
    ----------
    n_shown, n_rows : int
    where : str
        What has all rows, with its verb.

    Returns
    -------
    list of str
        One sentence, or none.

    Examples
    --------
    >>> rows_note(12, 3000, "to_frame() has"), rows_note(3, 3, "to_frame() has")
    (['12 of 3,000 rows shown; to_frame() has them all.'], [])
    """
    if n_shown == n_rows:
        return []
    return [f"{n_shown} of {format_count(n_rows)} rows shown; {where} them all."]
