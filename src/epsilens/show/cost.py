# SPDX-License-Identifier: Apache-2.0
"""The chart of a cost: lines, bands and points over ε, alone or above the plot of a risk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from epsilens.document import WhatIfCell, WhatIfDocument
from epsilens.document.clauses import change_title, unanswered_text
from epsilens.document.view import COST_TITLE
from epsilens.document.wording import (
    EVERYBODY,
    GAP_MEANINGS,
    NO_PRIVACY,
    PERCENT_OUTCOMES,
    Outcome,
    axis_budget,
    budget_title,
    change_text,
    cost_type,
    epsilon_text,
    group_label,
    group_names,
    loss_decimals,
    points_text,
)
from epsilens.errors import InputError, setting
from epsilens.show.look import (
    ACCENT,
    DASHES,
    INK,
    SHADES,
    available_outcomes,
    axis_ends,
    budget_axis,
    budget_limits,
    change_limits,
    dashed_limit,
    dressed,
    legend_layout,
    plotted_rows,
    subtitle,
    tolerance_for,
    value_axis,
)

if TYPE_CHECKING:
    import altair as alt

__all__ = [
    "ACCENT",
    "SHAPES",
    "CostPlot",
    "Outcome",
    "available_outcomes",
    "cost_chart",
    "cost_plot",
    "save_chart",
    "shapes_by_type",
]

_ZONE = "#eef0f3"
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def shapes_by_type(document: WhatIfDocument) -> tuple[str, ...]:
    """Give the points of the groups where measured numbers stand beside: estimated is a diamond.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> shapes_by_type(example_document("whatif", cells=[]))[0]
    'diamond'
    """
    if cost_type(document) == "measured":
        return SHAPES
    return ("diamond", *(shape for shape in SHAPES if shape not in ("circle", "diamond")), "circle")


@dataclass(frozen=True)
class CostPlot:
    """A plot of the cost without fonts and title, and what it shows.

    Attributes
    ----------
    chart : altair.LayerChart
    rows : list of dict
        The numbers that are drawn.
    aside : list of WhatIfCell
        The cells that have no place on a logarithmic axis.
    groups : list of str
        The groups that are drawn.
    """

    chart: alt.LayerChart
    rows: list[dict[str, Any]]
    aside: list[WhatIfCell]
    groups: list[str]


def cost_plot(
    document: WhatIfDocument,
    *,
    outcome: Outcome = "loss",
    limit: float | None = None,
    shapes: Sequence[str] = SHAPES,
    budgets: Sequence[float] | None = None,
    is_lowest: bool = True,
    size: tuple[int, int] | None = None,
) -> CostPlot:
    """Draw the cost of every budget as layers that a chart can be made of.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards.
    limit : float, optional
        Limit on the cost in the unit of the chart, drawn as a dashed line.
    shapes : sequence of str
        The points of the groups.
    budgets : sequence of float, optional
        All budgets that the axis has to show, if there are more than the document's.
    is_lowest : bool
        Whether the axis of budgets is labelled here and not below another plot.
    size : (int, int), optional
        Width and height in pixels of a plot that stands among others.

    Returns
    -------
    CostPlot

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> cost_plot(example_document("whatif", cells=cells)).groups
    ['all']
    """
    import altair as alt

    from epsilens.show.offline import Plot, SharedRows, layer_of

    rows, aside = plotted_rows(document, outcome)
    groups = [name for name in group_names(document) if any(row["group"] == name for row in rows)]
    drawn_budgets = [row["epsilon"] for row in rows]
    data = SharedRows(values=rows)
    x = budget_axis(
        alt,
        drawn_budgets if budgets is None else budgets,
        title=budget_title(document) if is_lowest else None,
    )
    y_axis = value_axis(alt, change_title(document, outcome))
    drawn = [row[name] for row in rows for name in ("change", "low", "high")]
    y_scale = alt.Scale(domain=list(change_limits(drawn, limit)), nice=False, zero=False)
    y = alt.Y("change:Q", axis=y_axis, scale=y_scale)
    marks = _group_marks(alt, groups, group_names(document), shapes)
    tooltip = [
        alt.Tooltip("label:N", title="group"),
        alt.Tooltip("epsilon:Q", title="ε", format=".3~g"),
        alt.Tooltip("change:Q", title="change", format="+.4~g"),
        alt.Tooltip("low:Q", title="9 in 10 runs: from", format="+.4~g"),
        alt.Tooltip("high:Q", title="to", format="+.4~g"),
    ]
    base = Plot(data).transform_filter("isValid(datum.change)")
    zero = layer_of([{"zero": 0}]).mark_rule(color="#9a9fa8", size=1)
    layers: list[Any] = [zero.encode(y=alt.Y("zero:Q"))]
    if any(row["change"] is None for row in rows):
        layers = _unanswered_zones(alt, rows, x) + layers
    banded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    from_low = alt.Y("low:Q", axis=y_axis, scale=y_scale)
    if len(set(drawn_budgets)) > 1:
        layers += [
            banded.mark_area(opacity=0.16 if len(groups) <= 2 else 0.11).encode(
                x=x,
                y=from_low,
                y2=alt.Y2("high:Q"),
                detail=alt.Detail("segment:N"),
                **marks["band"],
            ),
            base.mark_line(size=2.2).encode(
                x=x, y=y, detail=alt.Detail("segment:N"), **marks["line"]
            ),
            base.mark_point(size=38, strokeWidth=1.6, opacity=1).encode(
                x=x, y=y, tooltip=tooltip, **marks["point"]
            ),
        ]
    else:
        # One budget has no line: bars side by side, each with its point.
        for number, group in enumerate(groups):
            aside_by = 16 * (number - (len(groups) - 1) / 2)
            mine = alt.FieldEqualPredicate(field="group", equal=group)
            layers += [
                banded.transform_filter(mine)
                .mark_rule(size=2.2, xOffset=aside_by)
                .encode(x=x, y=from_low, y2=alt.Y2("high:Q"), **marks["line"]),
                base.transform_filter(mine)
                .mark_point(size=60, strokeWidth=1.6, opacity=1, xOffset=aside_by)
                .encode(x=x, y=y, tooltip=tooltip, **marks["point"]),
            ]
    if limit is not None:
        words = f"limit {limit:.10g}"
        layers += dashed_limit(alt, limit, words=words, width=size[0] if size else None)
    if is_lowest:
        layers.extend(axis_ends(alt, size))
    chart: alt.LayerChart = alt.layer(*layers).resolve_scale(
        color="shared", shape="shared", strokeDash="shared"
    )
    if size is not None:
        chart = chart.properties(width=size[0], height=size[1])
    return CostPlot(chart, rows, aside, groups)


def _unanswered_zones(alt: Any, rows: list[dict[str, Any]], x: Any) -> list[Any]:
    """Shade the budgets at which no group has a number, and say so there."""
    from epsilens.show.offline import layer_of

    known = {row["epsilon"] for row in rows if row["change"] is not None}
    budgets = sorted({row["epsilon"] for row in rows})
    ends = budget_limits(budgets[0], budgets[-1])
    zones: list[list[float]] = []
    for place, budget in enumerate(budgets):
        if budget in known:
            continue
        low = ends[0] if place == 0 else math.sqrt(budgets[place - 1] * budget)
        last = place == len(budgets) - 1
        high = ends[1] if last else math.sqrt(budget * budgets[place + 1])
        if zones and zones[-1][1] == low:
            zones[-1][1] = high
        else:
            zones.append([low, high])
    shaded = [{"epsilon": low, "to": high} for low, high in zones]
    # A narrow zone has no room for words; the caption has them.
    narrow = (ends[1] / ends[0]) ** 0.2
    named = [{"epsilon": math.sqrt(low * high)} for low, high in zones if high / low > narrow]
    return [
        layer_of(shaded).mark_rect(color=_ZONE).encode(x=x, x2="to:Q"),
        layer_of(named)
        .mark_text(text="no estimate", color=INK, fontSize=12.5)
        .encode(x=x, y=alt.value(18)),
    ]


def _group_marks(
    alt: Any, groups: list[str], everyone: list[str], shapes: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Encode the group by shade, dash and shape at once: any one of them is enough to tell.

    A group keeps its look in every chart of a document, also where another group has no numbers.
    """
    named = f"datum.label == '{EVERYBODY}' ? '{group_label(EVERYBODY)}' : datum.label"
    legend = alt.Legend(symbolOpacity=1, labelExpr=named) if len(groups) > 1 else None
    places = [everyone.index(name) for name in groups]

    def scale(values: Sequence[Any]) -> Any:
        return alt.Scale(domain=groups, range=[values[place % len(values)] for place in places])

    stroke = alt.Stroke("group:N", scale=scale(SHADES), legend=legend)
    fill = alt.Fill("group:N", scale=scale(SHADES), legend=legend)
    # A field and names of its own: Vega-Lite merges legends of equal names even when one is
    # switched off, and dashed symbols look torn.
    dashes = [list(DASHES[place % len(DASHES)]) for place in places]
    numbers = [str(place) for place in places]
    dash = alt.StrokeDash("dash:N", scale=alt.Scale(domain=numbers, range=dashes), legend=None)
    shape = alt.Shape("group:N", scale=scale(shapes), legend=legend)
    return {
        "band": {"fill": fill},
        "line": {"stroke": stroke, "strokeDash": dash},
        "point": {"stroke": stroke, "fill": fill, "shape": shape},
    }


_TELEPHONE = 340
"""Pixels: a page that a chart is as wide as may be as narrow."""


def cost_chart(
    document: WhatIfDocument,
    *,
    outcome: Outcome = "loss",
    max_loss_increase: float | None = None,
    width: int | Literal["container"] = 640,
    height: int = 320,
) -> alt.LayerChart:
    """Draw what each privacy budget would cost, with the range one real run may show.

    The horizontal axis is the privacy budget, on a logarithmic scale: more privacy to the left,
    more accuracy to the right. Each group has its line; the band around it holds nine of ten real
    runs. Where an estimate failed its checks there is a gap.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards. Accuracies are drawn in percentage points. A gap is the number of the
        group less that of everybody else; only groups that have one are drawn.
    max_loss_increase : float, optional
        The acceptable increase of the loss, drawn as a dashed line.
    width : int or "container"
        Width of the plot in pixels, or as wide as the page gives it.
    height : int
        Height of the plot in pixels.

    Returns
    -------
    altair.LayerChart
        A Vega-Lite chart; it shows itself in a notebook.

    Raises
    ------
    InputError
        If there is nothing to draw on a logarithmic axis, or the outcome has no numbers.

    Notes
    -----
    A budget of infinity (nothing randomised) or 0 (pure noise) has no place on a logarithmic
    axis; the subtitle then says what it costs. When the columns have different budgets, the axis
    is the budget of a whole record.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> chart = cost_chart(example_document("whatif", cells=cells))
    >>> chart.to_dict()["title"]["text"]
    'What a privacy budget costs'
    """
    plot = cost_plot(document, outcome=outcome, limit=tolerance_for(outcome, max_loss_increase))
    room = _TELEPHONE if width == "container" else width
    chart: alt.LayerChart = dressed(
        plot.chart.properties(
            width=width,
            height=height,
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
            title=_title(document, plot, outcome, room),
            description=spoken_description(document, plot.rows, plot.groups, outcome),
        ),
        title_offset=14 if len(plot.groups) > 1 else 18,
        legend=legend_layout(plot.groups, room),
    )
    return chart


def _title(
    document: WhatIfDocument, plot: CostPlot, outcome: Outcome, room: int
) -> alt.TitleParams:
    import altair as alt

    lines = subtitle_lines(document, plot.rows, plot.aside, outcome=outcome)
    return alt.TitleParams(text=COST_TITLE, subtitle=subtitle(lines, room))


def save_chart(chart: alt.TopLevelMixin, path: str | Path, *, scale: float = 2.0) -> Path:
    """Write a chart as a picture, without a browser and without the network.

    Parameters
    ----------
    chart : altair chart
        For instance from `cost_chart`.
    path : str or pathlib.Path
        The file to write; its ending, .png or .svg, decides the format.
    scale : float
        How many picture points a PNG has for each pixel of the chart.

    Returns
    -------
    pathlib.Path
        The file that was written.

    Raises
    ------
    InputError
        If the ending is neither .png nor .svg, or the folder does not exist.

    Examples
    --------
    >>> import altair, tempfile
    >>> chart = altair.Chart(altair.InlineData(values=[{"x": 1}])).mark_point().encode(x="x:Q")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_chart(chart, f"{folder}/chart.svg").suffix
    '.svg'
    """
    from epsilens.data import replacing

    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".png", ".svg"):
        raise InputError(
            f"{setting('path')} must end in .png or .svg, got "
            f"{target.suffix or 'no ending'!r}. Rename it."
        )
    with replacing(target) as scratch:
        if kind == ".png":
            chart.save(str(scratch), format="png", scale_factor=scale)
        else:
            chart.save(str(scratch), format="svg")
    return target


_SEEN_APART = 0.005
"""A line that leaves its band by less than this share of the chart's height is not seen to."""


def subtitle_lines(
    document: WhatIfDocument,
    rows: list[dict[str, Any]],
    aside: list[WhatIfCell],
    *,
    outcome: Outcome = "loss",
) -> list[str]:
    """Say what kind of numbers a chart shows and where it shows none.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = example_document("whatif", cells=[cell])
    >>> row = {"group": "all", "epsilon": 1.0, "change": 0.02, "low": None, "high": None}
    >>> subtitle_lines(document, [row], [])
    ['Estimated, without training again.']
    """
    banded = [row for row in rows if row["low"] is not None and row["high"] is not None]
    line, mark = ("line", "band") if len({row["epsilon"] for row in rows}) > 1 else ("point", "bar")
    if cost_type(document) == "measured":
        band = f"; the {mark} holds 9 in 10 of the runs" if banded else ""
        lines = [f"Measured by training again{band}."]
    elif any(row["change"] is not None for row in rows):
        band = f"; 9 in 10 real runs fall in the {mark}" if banded else ""
        how = "Estimated, without training again"
        if document.provenance.method == "curve":
            how = "Measured by training again at a few ε, estimated between"
        lines = [f"{how}{band}."]
    else:
        lines = []
    if not document.is_about_privacy:
        lines.append(NO_PRIVACY)
    blur = _SEEN_APART * _height(rows)
    # Documents of earlier versions have the accuracy of the expected model, which no run need come near.
    if any(max(row["change"] - row["high"], row["low"] - row["change"]) > blur for row in banded):
        lines.append(f"Where {line} and {mark} part, few runs come near the {line}.")
    if outcome in GAP_MEANINGS:
        lines.append(GAP_MEANINGS[outcome])
    if (unanswered := unanswered_text(document)) is not None:
        lines.append(unanswered)
    if any(math.isinf(axis_budget(document, cell)) for cell in aside):
        lines.append("ε = ∞ (nothing is randomised) lies outside the axis; there nothing changes.")
    if any(axis_budget(document, cell) == 0 for cell in aside):
        lines.append("ε = 0 (answers are pure noise) lies outside the axis.")
    return lines


def _height(rows: list[dict[str, Any]]) -> float:
    """Give the range of numbers that a chart has to show; 0 is always among them."""
    shown = [
        row[name] for row in rows for name in ("change", "low", "high") if row[name] is not None
    ]
    return float(max([0.0, *shown]) - min([0.0, *shown]))


def spoken_description(
    document: WhatIfDocument, rows: list[dict[str, Any]], groups: list[str], outcome: Outcome
) -> str:
    """Say in words what a chart shows, for those who do not see it.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = example_document("whatif", cells=[cell])
    >>> row = {"group": "all", "epsilon": 1.0, "change": 0.02, "low": None}
    >>> spoken_description(document, [row], ["all"], "loss")
    'Line chart, estimated: change of test loss (nats) against the privacy budget epsilon on a
    logarithmic axis. Everyone: +0.0200 at epsilon 1.'
    """
    parts = [
        f"Line chart, {cost_type(document)}: {change_title(document, outcome)} against the privacy budget "
        "epsilon on a logarithmic axis."
    ]
    for group in groups:
        mine = [row for row in rows if row["group"] == group and row["change"] is not None]
        if not mine:
            continue
        first = min(mine, key=lambda row: float(row["epsilon"]))
        last = max(mine, key=lambda row: float(row["epsilon"]))
        whom = "Everyone" if group == EVERYBODY else f"Group {group}"
        ends = [
            f"{drawn_text(document, row['change'], outcome)} at epsilon {epsilon_text(row['epsilon'])}"
            for row in (first, last)
        ]
        parts.append(
            f"{whom}: {ends[0]}." if first is last else f"{whom}: from {' to '.join(ends)}."
        )
    if (unanswered := unanswered_text(document)) is not None:
        parts.append(unanswered)
    return " ".join(parts)


def drawn_text(document: WhatIfDocument, change: float, outcome: Outcome) -> str:
    """Write a number of the chart, in its unit, as the tables write it."""
    if outcome in PERCENT_OUTCOMES:
        return points_text(change / 100)
    if outcome == "mistakes":
        return change_text(change, decimals=0)
    if outcome == "auc":
        return change_text(change, decimals=3)
    return change_text(change, decimals=loss_decimals(document.baseline.loss))
