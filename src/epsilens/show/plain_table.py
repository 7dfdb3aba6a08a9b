# SPDX-License-Identifier: Apache-2.0
"""Tables of the terminal: all alike, and names from the data are plain text in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from epsilens.show.columns import Column

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ALL_ROWS", "fill_columns", "plain_table"]

ALL_ROWS = "--json or --out has"
"""What has the rows that a table leaves out."""

_T = TypeVar("_T")


def plain_table(title: str, *, notes: Sequence[str] = (), **look: Any) -> Table:
    """Begin a table: its title to the left, a line under its head, and notes below, one a line.

    Parameters
    ----------
    title : str
    notes : sequence of str
        What is to be known of the table.
    **look
        Anything else that `rich.table.Table` takes.

    Returns
    -------
    rich.table.Table
        Without columns and rows.

    Examples
    --------
    >>> print(plain_table("a [red] title").title)
    a [red] title
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        caption=Text("\n".join(notes)) if notes else None,
        caption_justify="left",
        header_style="",
        box=SIMPLE_HEAD,
        **look,
    )


def fill_columns(
    table: Table,
    columns: Sequence[Column[_T]],
    cells: Sequence[_T],
    *,
    group: Callable[[_T], str] | None = None,
    is_faint: Callable[[_T], bool] = lambda cell: False,
) -> None:
    """Fill a table: a row for each cell, sections for groups, whose name stands once.

    Parameters
    ----------
    table : rich.table.Table
        An empty one.
    columns : sequence of Column
    cells : sequence
        What the columns speak of, in the order of the rows; a group's cells stand together.
    group : callable, optional
        From a cell to the name of its group; without it there is no such column.
    is_faint : callable
        Says which cells are not to be relied on.

    Examples
    --------
    >>> table = plain_table("squares")
    >>> fill_columns(table, [Column("n", str), Column("n²", lambda n: str(n * n))], [1, 2, 3])
    >>> table.row_count
    3
    """
    from rich.text import Text

    if group is not None:
        table.add_column("group", overflow="fold")
    for column in columns:
        texts = [column.text(cell) for cell in cells]
        # Where there is little room a title takes several lines, then a range does; a number never.
        table.add_column(
            column.title,
            justify="right" if column.holds_numbers else "left",
            no_wrap=max(map(len, texts), default=0) >= len(column.title),
            min_width=max(map(len, " ".join(texts).split()), default=0),
        )
    last: str | None = None
    for cell in cells:
        texts = [column.text(cell) for column in columns]
        if group is not None:
            name = group(cell)
            if last not in (None, name):
                table.add_section()
            texts.insert(0, "" if name == last else name)
            last = name
        table.add_row(*map(Text, texts), style="dim" if is_faint(cell) else "")
