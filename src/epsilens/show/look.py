# SPDX-License-Identifier: Apache-2.0
"""Charts over ε: the numbers that are drawn, the axis with its two ends, the fonts, the greys."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard, get_args

from epsilens._validate import as_choice, as_loss_limit
from epsilens.document import WhatIfCell, WhatIfDocument
from epsilens.document.whatif import cell_key
from epsilens.document.wording import (
    OUTCOME_NAMES,
    PERCENT_OUTCOMES,
    Outcome,
    axis_budget,
    cell_budget_text,
    group_label,
    group_names,
)
from epsilens.errors import InputError, setting

AXIS_ENDS = ("more_privacy", "more_accuracy")
"""Names of the two layers that label the ends of the axis."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INK = "#3b414c"
_FAINT = "#9a9fa8"
_LETTER = 6.6
"""Pixels of a letter at 12.5, a little more than most fonts take: each reader has another."""
_SYMBOL, _APART = 24, 22
"""Pixels of a legend's symbol with its margin, and between two columns of names."""
_MOST_COLUMNS = 4
_AXIS = 44
"""Pixels of an axis with its title, above which the title of a chart begins."""
_PANEL_TITLE = 13.5


def budget_axis(alt: Any, budgets: Sequence[float], *, title: str | None) -> Any:
    """Encode the field `epsilon` on the logarithmic axis that every chart over ε has.

    Examples
    --------
    >>> import altair
    >>> budget_axis(altair, [0.1, 10.0], title="privacy budget ε").to_dict()["scale"]["type"]
    'log'
    """
    low, high = min(budgets), max(budgets)
    return alt.X(
        "epsilon:Q",
        scale=alt.Scale(type="log", domain=list(budget_limits(low, high)), nice=False),
        axis=alt.Axis(
            title=title,
            values=budget_ticks(low, high),
            format="~g",
            grid=False,
            tickSize=4,
            titlePadding=10,
            labelOverlap="greedy",
        ),
    )


def value_axis(alt: Any, title: str | list[str] | None, **changes: Any) -> Any:
    """Give the vertical axis: faint lines across, no line of its own.

    Examples
    --------
    >>> import altair
    >>> value_axis(altair, "loss").to_dict()["tickCount"]
    6
    """
    settings = {"tickCount": 6, "grid": True, "domain": False, "ticks": False, "labelPadding": 6}
    return alt.Axis(title=title, **(settings | changes))


def axis_ends(alt: Any, size: tuple[int, int] | None = None) -> list[Any]:
    """Label the ends of the axis: more privacy to the left, more accuracy to the right.

    A plot among others must say its width and height in pixels; one that stands alone knows them.

    Examples
    --------
    >>> import altair
    >>> len(axis_ends(altair))
    2
    """
    from epsilens.show.offline import layer_of

    privacy = layer_of([{}]).properties(name=AXIS_ENDS[0])
    accuracy = layer_of([{}]).properties(name=AXIS_ENDS[1])
    right = alt.XValue(alt.expr("width") if size is None else size[0])
    below = alt.YValue(alt.expr("height + 33") if size is None else size[1] + 33)
    return [
        privacy.mark_text(align="left", fontSize=12.5, color=INK, text="← more privacy").encode(
            x=alt.XValue(0), y=below
        ),
        accuracy.mark_text(align="right", fontSize=12.5, color=INK, text="more accuracy →").encode(
            x=right, y=below
        ),
    ]


def text_width(text: str) -> float:
    """Estimate the pixels that words at 12.5 take; no font is asked, since each reader has another.

    Examples
    --------
    >>> text_width("ab") == text_width("\u5e74")
    True
    """
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return _LETTER * (len(text) + wide)


def folded(lines: Iterable[str], room: float) -> list[str]:
    """Break lines that are longer than the chart is wide, into parts of about the same length.

    Parameters
    ----------
    lines : iterable of str
        A sentence each.
    room : float
        Pixels.

    Returns
    -------
    list of str

    Examples
    --------
    >>> folded(["short", "a line that is longer than there is room for it"], 200)
    ['short', 'a line that is longer than', 'there is room for it']
    """
    found = []
    for line in lines:
        n_lines = max(math.ceil(text_width(line) / room), 1)
        # A little more than a fair share: no single word stands below the others.
        share = len(line) // n_lines + 4
        found += textwrap.wrap(line, min(share, max(int(room / _LETTER), 12))) or [line]
    return found


def legend_layout(names: Sequence[str], room: float) -> dict[str, int]:
    """Lay the names of a legend out in as many columns as there is room for.

    Only a name that is longer than the chart is wide is cut.

    Parameters
    ----------
    names : sequence of str
    room : float
        Pixels: the width of the plot, or of the narrowest page that it is shown on.

    Returns
    -------
    dict
        `columns` and `labelLimit`, as Vega-Lite calls them.

    Examples
    --------
    >>> legend_layout(["all", "women"], 640)["columns"]
    4
    >>> legend_layout(["measured: people who are outside the training data"] * 2, 640)["columns"]
    1
    """
    widest = max(map(text_width, names), default=0.0) + _SYMBOL
    columns = max(1, min(_MOST_COLUMNS, int((room + _APART) // (widest + _APART))))
    return {
        "columns": columns,
        "labelLimit": int((room + _APART) / columns) - _APART - _SYMBOL,
    }


def subtitle(lines: Iterable[str], width: float) -> list[str]:
    """Break what stands under the title of a chart into lines that are no longer than it is wide.

    Parameters
    ----------
    lines : iterable of str
        A sentence each.
    width : float
        Width of the plot, in pixels.

    Returns
    -------
    list of str

    Examples
    --------
    >>> subtitle(["Estimated, without training again."], 640)
    ['Estimated, without training again.']
    """
    return folded(lines, width + _AXIS)


def panel_title(alt: Any, text: str, room: float) -> Any:
    """Give a plot among others its title, smaller than that of the chart.

    Examples
    --------
    >>> import altair
    >>> panel_title(altair, "What it costs", 640).to_dict()["fontSize"]
    13.5
    """
    lines = folded([text], room * 12.5 / _PANEL_TITLE)
    return alt.TitleParams(
        text=lines if len(lines) > 1 else text,
        fontSize=_PANEL_TITLE,
        fontWeight=600,
        anchor="start",
        frame="group",
        offset=6,
    )


def dashed_limit(alt: Any, limit: float, *, words: str, width: int | None = None) -> list[Any]:
    """Draw a limit as a dashed line across the plot, with its words at the right end.

    A plot among others must say its width in pixels; one that stands alone knows it.

    Examples
    --------
    >>> import altair
    >>> [layer.to_dict()["mark"]["type"] for layer in dashed_limit(altair, 0.1, words="accepted")]
    ['rule', 'text']
    """
    from epsilens.show.offline import layer_of

    line = layer_of([{"limit": limit}])
    return [
        line.mark_rule(strokeDash=[6, 4], size=1.4, color=INK).encode(y=alt.Y("limit:Q")),
        line.mark_text(
            align="right", baseline="bottom", dy=-4, fontSize=12, color=INK, text=words
        ).encode(y=alt.Y("limit:Q"), x=alt.XValue(alt.expr("width") if width is None else width)),
    ]


def dressed(chart: Any, *, title_offset: int, legend: Mapping[str, int] | None = None) -> Any:
    """Give a finished chart its fonts, sizes and greys, and let it show itself without the network.

    Parameters
    ----------
    chart : altair chart
    title_offset : int
        Pixels between the title and what is below it.
    legend : mapping, optional
        As `legend_layout` gives it, for the legends that do not say it themselves.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> import altair
    >>> plain = altair.Chart(altair.InlineData(values=[{}])).mark_point()
    >>> dressed(plain, title_offset=14).to_dict()["config"]["font"][:9]
    'system-ui'
    """
    from epsilens.show.offline import offline

    # In one step: each step copies the whole chart.
    finished = chart.configure(
        font=FONT,
        padding=10,
        view={"stroke": None},
        title={
            "anchor": "start",
            "fontSize": 17,
            "fontWeight": 600,
            "subtitleFontSize": 12.5,
            "subtitleColor": "#5b6270",
            "subtitlePadding": 6,
            "offset": title_offset,
        },
        axis={
            "labelFontSize": 12,
            "titleFontSize": 12.5,
            "titleFontWeight": "normal",
            "gridColor": "#e6e8ec",
            "domainColor": _FAINT,
            "tickColor": _FAINT,
            "labelColor": INK,
            "titleColor": INK,
        },
        legend={
            "orient": "top",
            "direction": "horizontal",
            "title": None,
            "labelFontSize": 12.5,
            "symbolSize": 90,
            "symbolStrokeWidth": 1.6,
            "columnPadding": _APART,
            **(legend or {}),
        },
    )
    return offline(finished)


ACCENT = "#1d5fa8"
SHADES = (ACCENT, "#6b7280", "#8f959f", "#4b5563", "#7c8694", "#9aa0a9")
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (1, 3), (9, 2, 2, 2, 2, 2))
"""Dash and gap in pixels; the first is a line without gaps."""


def available_outcomes(document: WhatIfDocument) -> list[Outcome]:
    """List the outcomes of a what-if that have numbers to draw on a logarithmic axis.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                     loss_change=0.02, accuracy_change=-0.01)]
    >>> available_outcomes(example_document("whatif", cells=cells))
    ['mistakes', 'accuracy', 'loss']
    """
    names: tuple[Outcome, ...] = get_args(Outcome)
    found = [
        name for name in names if any(row["change"] is not None for row in _rows(document, name)[0])
    ]
    # Where nothing passed its checks, the chart of the loss says so.
    return found or (["loss"] if _rows(document, "loss")[0] else [])


def first_outcome(document: WhatIfDocument, *, max_loss_increase: float | None) -> Outcome:
    """Return the cost that is drawn first: mistakes, or the loss where that is limited or nothing else known."""
    outcomes = available_outcomes(document)
    if "mistakes" in outcomes and max_loss_increase is None:
        return "mistakes"
    return "loss" if "loss" in outcomes or not outcomes else outcomes[0]


def plotted_rows(
    document: WhatIfDocument, outcome: Outcome
) -> tuple[list[dict[str, Any]], list[WhatIfCell]]:
    """Give the rows that fit a logarithmic axis, and the cells that do not.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards. Accuracies and their gaps are given in percentage points.

    Returns
    -------
    rows : list of dict
        group and its label, epsilon, change (None where the checks failed), low, high (None without
        an interval), and segment: the number of the stretch without a gap that it belongs to.
    aside : list of WhatIfCell
        The cells at a budget of 0 or infinity.

    Raises
    ------
    InputError
        If there is nothing to draw, or no such outcome.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02) for epsilon in (1.0, float("inf"))]
    >>> rows, aside = plotted_rows(example_document("whatif", cells=cells), "loss")
    >>> [row["epsilon"] for row in rows], len(aside)
    ([1.0], 1)
    """
    as_choice(outcome, get_args(Outcome), name="outcome")
    rows, aside = _rows(document, outcome)
    if not rows:
        raise InputError(
            f"expected numbers for {OUTCOME_NAMES[outcome]} at an epsilon between 0 and infinity, got none. "
            "Add such an epsilon to the grid or draw another outcome."
        )
    return rows, aside


def tolerance_for(outcome: Outcome, max_loss_increase: float | None) -> float | None:
    """Check the accepted loss: a finite number of at least 0, and only in a chart of the loss.

    Examples
    --------
    >>> tolerance_for("loss", 0.01)
    0.01
    """
    if max_loss_increase is None:
        return None
    if outcome != "loss":
        raise InputError(
            f"{setting('max_loss_increase')} belongs to the chart of the loss, got outcome "
            f"{outcome!r}. Leave one of them out."
        )
    return as_loss_limit(max_loss_increase)


def budget_limits(low: float, high: float) -> tuple[float, float]:
    """Give the ends of the logarithmic axis: a little room beyond the first and last budget.

    Examples
    --------
    >>> budget_limits(1.0, 1.0)
    (0.3333333333333333, 3.0)
    """
    if low == high:
        return low / 3, high * 3
    margin = (high / low) ** 0.025
    return low / margin, high * margin


def budget_ticks(low: float, high: float) -> list[float]:
    """Choose round ticks: 1, 2 and 5 of each decade, or only the decades when there are many.

    Between budgets so close that fewer than two such numbers lie among them, the budgets at the
    ends are labelled instead.

    Examples
    --------
    >>> budget_ticks(0.1, 1.0)
    [0.1, 0.2, 0.5, 1.0]
    >>> budget_ticks(1.1, 1.9)
    [1.1, 1.9]
    """
    left, right = budget_limits(low, high)
    decades = range(math.floor(math.log10(left)), math.ceil(math.log10(right)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1,)
    ticks = [
        tick
        for power in decades
        for step in steps
        if left <= (tick := float(f"{step}e{power}")) <= right
    ]
    return ticks if len(ticks) > 1 else sorted({low, high, *ticks})


def change_limits(values: Iterable[float | None], tolerance: float | None) -> tuple[float, float]:
    """Give the ends of the vertical axis, which shows zero, every number and the accepted loss.

    Examples
    --------
    >>> change_limits([1.0, None, float("nan")], None)
    (-0.04, 1.04)
    """
    shown = [0.0, *(value for value in (*values, tolerance) if _finite(value))]
    low, high = min(shown), max(shown)
    if low == high:
        return low - 1, high + 1
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


_FACTORS: dict[str, float] = {**dict.fromkeys(PERCENT_OUTCOMES, 100.0), "mistakes": -1000.0}
"""From a change in a document to what is drawn."""


def _rows(
    document: WhatIfDocument, outcome: Outcome
) -> tuple[list[dict[str, Any]], list[WhatIfCell]]:
    document = document.answered()
    # Mistakes are an accuracy, counted in people: where it falls, they rise.
    field = "accuracy" if outcome == "mistakes" else outcome
    factor = _FACTORS.get(outcome, 1.0)
    intervals = {
        cell_key(item): (item.low, item.high)
        for item in document.intervals
        if item.outcome == field
    }
    numbers = {name: number for number, name in enumerate(group_names(document))}
    rows: list[dict[str, Any]] = []
    aside: list[WhatIfCell] = []
    # A group that this outcome says nothing of has no gap in its line either.
    drawn = {cell.group for cell in document.cells if _finite(getattr(cell, f"{field}_change"))}
    if not drawn and outcome == "loss":
        drawn = set(numbers)
    n_gaps = 0
    for cell in document.cells:
        change = getattr(cell, f"{field}_change")
        if cell.group not in drawn or (cell.trusted and not _finite(change)):
            continue
        budget = axis_budget(document, cell)
        if budget == 0 or math.isinf(budget):
            aside.append(cell)
            continue
        if outcome == "loss":
            low, high = cell.loss_change_low, cell.loss_change_high
        else:
            low, high = intervals.get(cell_key(cell), (None, None))
        # A band needs both of its ends.
        ends: tuple[float | None, float | None] = (None, None)
        if _finite(low) and _finite(high):
            ends = (min(factor * low, factor * high), max(factor * low, factor * high))
        # Cells at the same place on the axis are not joined by a line.
        n_gaps += change is None or (bool(rows) and rows[-1]["epsilon"] == budget)
        rows.append(
            {
                "group": cell.group,
                "label": group_label(cell.group)
                if cell.group_epsilons is None
                else cell_budget_text(document, cell),
                "dash": str(numbers[cell.group]),
                "epsilon": budget,
                "change": None if change is None else factor * change,
                "low": ends[0],
                "high": ends[1],
                "segment": n_gaps,
            }
        )
    return rows, aside
