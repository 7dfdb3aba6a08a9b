# SPDX-License-Identifier: Apache-2.0
"""Charts of a what-if: what each privacy budget would cost.

Python computes the numbers once; a chart only draws what stands in the document. Lines differ in
dash and shape as well as in shade, so that a black-and-white print can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from epsilens.document import WhatIfDocument
from epsilens.errors import InputError
from epsilens.show.cost_plot import CostPlot, cost_plot
from epsilens.show.look import dressed, legend_layout, subtitle
from epsilens.show.plotted import ACCENT, TITLE, available_outcomes
from epsilens.show.words import Outcome, spoken_description, subtitle_lines

if TYPE_CHECKING:
    import altair as alt

__all__ = ["ACCENT", "Outcome", "available_outcomes", "cost_chart", "save_chart"]

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
    plot = cost_plot(document, outcome=outcome, max_loss_increase=max_loss_increase)
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
    return alt.TitleParams(text=TITLE, subtitle=subtitle(lines, room))


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
