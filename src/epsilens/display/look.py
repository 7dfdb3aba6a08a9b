# SPDX-License-Identifier: Apache-2.0
"""How the charts over ε look: the axis with its two ends, the fonts, the greys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsilens.display.plotted import budget_limits, budget_ticks

__all__ = [
    "AXIS_ENDS",
    "FONT",
    "INK",
    "axis_ends",
    "budget_axis",
    "dashed_limit",
    "dressed",
    "value_axis",
]

AXIS_ENDS = ("more_privacy", "more_accuracy")
"""Names of the two layers that label the ends of the axis."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INK = "#3b414c"
_FAINT = "#9a9fa8"


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


def value_axis(alt: Any, title: str, **changes: Any) -> Any:
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


def panel_title(alt: Any, text: str) -> Any:
    """Give a plot among others its title, smaller than that of the chart.

    Examples
    --------
    >>> import altair
    >>> panel_title(altair, "What it costs").to_dict()["fontSize"]
    13.5
    """
    return alt.TitleParams(
        text=text, fontSize=13.5, fontWeight=600, anchor="start", frame="group", offset=6
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


def dressed(chart: Any, *, title_offset: int, legend_columns: int) -> Any:
    """Give a finished chart its fonts, sizes and greys.

    Examples
    --------
    >>> import altair
    >>> plain = altair.Chart(altair.InlineData(values=[{}])).mark_point()
    >>> dressed(plain, title_offset=14, legend_columns=2).to_dict()["config"]["font"][:9]
    'system-ui'
    """
    # In one step: each step copies the whole chart.
    return chart.configure(
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
            "columns": legend_columns,
            "title": None,
            "labelFontSize": 12.5,
            "labelLimit": 260,
            "symbolSize": 90,
            "symbolStrokeWidth": 1.6,
            "columnPadding": 22,
        },
    )
