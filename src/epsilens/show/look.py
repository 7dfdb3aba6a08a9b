# SPDX-License-Identifier: Apache-2.0
"""How the charts over ε look: the axis with its two ends, the fonts, the greys."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from epsilens.show.plotted import budget_limits, budget_ticks

__all__ = [
    "AXIS_ENDS",
    "FONT",
    "INK",
    "axis_ends",
    "budget_axis",
    "dashed_limit",
    "dressed",
    "folded",
    "legend_layout",
    "panel_title",
    "subtitle",
    "text_width",
    "value_axis",
]

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


def value_axis(alt: Any, title: str | list[str], **changes: Any) -> Any:
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
    privacy = alt.Chart(alt.InlineData(values=[{}]), name=AXIS_ENDS[0])
    accuracy = alt.Chart(alt.InlineData(values=[{}]), name=AXIS_ENDS[1])
    right = alt.value(alt.expr("width") if size is None else size[0])
    below = alt.value(alt.expr("height + 33") if size is None else size[1] + 33)
    return [
        privacy.mark_text(align="left", fontSize=12.5, color=INK, text="← more privacy").encode(
            x=alt.value(0), y=below
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
    >>> legend_layout(["measured: people whom the model never saw in training"] * 2, 640)["columns"]
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
        Of the plot, in pixels.

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
    line = alt.Chart(alt.InlineData(values=[{"limit": limit}]))
    return [
        line.mark_rule(strokeDash=[6, 4], size=1.4, color=INK).encode(y="limit:Q"),
        line.mark_text(
            align="right", baseline="bottom", dy=-4, fontSize=12, color=INK, text=words
        ).encode(y="limit:Q", x=alt.value(alt.expr("width") if width is None else width)),
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
    from epsilens.show.offline_chart import offline

    # In one step: each step copies the whole chart.
    finished = chart.configure(
        font=FONT,
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
