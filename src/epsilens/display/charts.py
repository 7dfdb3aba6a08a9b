# SPDX-License-Identifier: Apache-2.0
"""Charts of a what-if: what each privacy budget would cost.

Python computes the numbers once; a chart only draws what stands in the document. Lines differ in
dash and shape as well as in shade, so that a black-and-white print can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from epsilens.display.look import axis_ends, budget_axis, dressed, value_axis
from epsilens.display.plotted import (
    ACCENT,
    DASHES,
    SHADES,
    TITLE,
    available_outcomes,
    change_limits,
    plotted_rows,
    tolerance_for,
)
from epsilens.display.words import (
    Outcome,
    budget_title,
    change_title,
    spoken_description,
    subtitle_lines,
)
from epsilens.document import WhatIfDocument, group_names
from epsilens.errors import InputError

if TYPE_CHECKING:
    import altair as alt

__all__ = ["ACCENT", "Outcome", "available_outcomes", "cost_chart", "save_chart"]

_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


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
    runs. A hollow point failed its checks and should not be relied on.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards. Accuracies are drawn in percentage points. A gap is the number of the
        group less that of everybody else; only groups that have one are drawn.
    max_loss_increase : float, optional
        The largest increase of the loss that can be borne, drawn as a dashed line.
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
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> chart = cost_chart(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                   cells=cells))
    >>> chart.to_dict()["title"]["text"]
    'What a privacy budget costs'
    """
    import altair as alt

    rows, aside = plotted_rows(document, outcome)
    tolerance = tolerance_for(outcome, max_loss_increase)
    groups = [name for name in group_names(document) if any(row["group"] == name for row in rows)]
    budgets = [row["epsilon"] for row in rows]
    data = alt.InlineData(values=rows)
    x = budget_axis(alt, budgets, title=budget_title(document))
    y_axis = value_axis(alt, change_title(document, outcome))
    drawn = [row[name] for row in rows for name in ("change", "low", "high")]
    y_scale = alt.Scale(domain=list(change_limits(drawn, tolerance)), nice=False, zero=False)
    y = alt.Y("change:Q", axis=y_axis, scale=y_scale)
    marks = _group_marks(alt, groups, group_names(document))
    tooltip = [
        alt.Tooltip("group:N", title="group"),
        alt.Tooltip("epsilon:Q", title="ε", format=".3~g"),
        alt.Tooltip("change:Q", title="change", format="+.4~g"),
        alt.Tooltip("low:Q", title="9 in 10 runs: from", format="+.4~g"),
        alt.Tooltip("high:Q", title="to", format="+.4~g"),
        alt.Tooltip("reliance:N", title="checks"),
    ]
    base = alt.Chart(data)
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color="#9a9fa8", size=1)
    layers: list[Any] = [zero.encode(y="zero:Q")]
    banded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    from_low = alt.Y("low:Q", axis=y_axis, scale=y_scale)
    trusted_fill = alt.condition("datum.trusted", alt.value(1), alt.value(0))
    if len(set(budgets)) > 1:
        layers += [
            banded.mark_area(opacity=0.16 if len(groups) <= 2 else 0.11).encode(
                x=x, y=from_low, y2="high:Q", **marks["band"]
            ),
            base.mark_line(size=2.2).encode(x=x, y=y, **marks["line"]),
            base.mark_point(size=38, strokeWidth=1.6, opacity=1).encode(
                x=x, y=y, tooltip=tooltip, fillOpacity=trusted_fill, **marks["point"]
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
                .encode(x=x, y=from_low, y2="high:Q", **marks["line"]),
                base.transform_filter(mine)
                .mark_point(size=60, strokeWidth=1.6, opacity=1, xOffset=aside_by)
                .encode(x=x, y=y, tooltip=tooltip, fillOpacity=trusted_fill, **marks["point"]),
            ]
    if tolerance is not None:
        layers.extend(_tolerance_layers(alt, tolerance))
    layers.extend(axis_ends(alt))
    legend = len(groups) > 1
    chart: alt.LayerChart = dressed(
        alt.layer(*layers)
        .properties(
            width=width,
            height=height,
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
            title=alt.TitleParams(
                text=TITLE,
                subtitle=subtitle_lines(document, rows, aside, outcome=outcome),
            ),
            description=spoken_description(document, rows, groups, outcome),
        )
        .resolve_scale(color="shared", shape="shared", strokeDash="shared"),
        title_offset=14 if legend else 18,
        legend_columns=_legend_columns(groups, narrow=width == "container"),
    )
    return chart


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
            f"`path` must end in .png or .svg, got {target.suffix or 'no ending'!r}. Rename it."
        )
    with replacing(target) as scratch:
        if kind == ".png":
            chart.save(str(scratch), format="png", scale_factor=scale)
        else:
            chart.save(str(scratch), format="svg")
    return target


def _group_marks(alt: Any, groups: list[str], everyone: list[str]) -> dict[str, dict[str, Any]]:
    """Encode the group by shade, dash and shape at once: any one of them is enough to tell.

    A group keeps its look in every chart of a document, also where another group has no numbers.
    """
    legend = alt.Legend(symbolOpacity=1) if len(groups) > 1 else None
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
    shape = alt.Shape("group:N", scale=scale(_SHAPES), legend=legend)
    return {
        "band": {"fill": fill},
        "line": {"stroke": stroke, "strokeDash": dash},
        "point": {"stroke": stroke, "fill": fill, "shape": shape},
    }


def _legend_columns(groups: list[str], *, narrow: bool) -> int:
    """Leave each name its room: a page may be as narrow as a telephone."""
    short = max(map(len, groups)) <= 16
    if narrow:
        return 2 if short else 1
    return 4 if short else 2


def _tolerance_layers(alt: Any, tolerance: float) -> list[Any]:
    line = alt.Chart(alt.InlineData(values=[{"tolerance": tolerance}]))
    return [
        line.mark_rule(strokeDash=[6, 4], size=1.4, color="#3b414c").encode(y="tolerance:Q"),
        line.mark_text(
            align="right",
            baseline="bottom",
            dy=-4,
            fontSize=12,
            color="#3b414c",
            text=f"accepted: {tolerance:g}",
        ).encode(y="tolerance:Q", x=alt.value(alt.expr("width"))),
    ]
