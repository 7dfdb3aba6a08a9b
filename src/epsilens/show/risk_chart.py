# SPDX-License-Identifier: Apache-2.0
"""Charts of a risk: what an attacker gets at each privacy budget, above its floor, below its ceiling.

Each line is named in the legend, so that a black-and-white print can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilens.document import RiskDocument
from epsilens.errors import InputError
from epsilens.show.look import dressed, subtitle
from epsilens.show.risk_plot import Panel, draw_panel, risk_panels, risk_rows, spoken_panel
from epsilens.show.risk_text import models_text, outside_lines
from epsilens.show.rounding import format_count
from epsilens.show.words import budget_title

if TYPE_CHECKING:
    import altair as alt

__all__ = ["risk_chart"]

TITLE = "What an attacker gets"


def risk_chart(document: RiskDocument, *, width: int = 640, height: int = 230) -> alt.VConcatChart:
    """Draw what an attacker gets at each privacy budget, with what chance reaches and nobody can exceed.

    Two plots stand one above the other on one logarithmic axis. For randomised response the upper
    one is how often a person's own answer is guessed, beside the same guess of people whom the model
    never saw and the proven ceiling; the lower one is how often the most exposed person is
    recognised as a member. For DP-SGD membership comes first, with its proven ceiling; below stands
    the budget that the attack proves beside the one that was claimed.

    Parameters
    ----------
    document : RiskDocument
        The risk to draw.
    width, height : int
        Of each plot in pixels.

    Returns
    -------
    altair.VConcatChart
        A Vega-Lite chart; it shows itself in a notebook.

    Raises
    ------
    InputError
        If there is nothing to draw on a logarithmic axis.

    Notes
    -----
    A budget of infinity has no place on a logarithmic axis; the subtitle says what was measured
    there. When the columns have different budgets, the axis is the budget of a whole record.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="rr", asr_max=0.55, asr_max_null_q95=0.6)
    ...          for epsilon in (0.5, 1.0, 2.0)]
    >>> chart = risk_chart(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                                 n_targets=4774, cells=cells))
    >>> chart.to_dict()["title"]["text"]
    'What an attacker gets'
    """
    import altair as alt

    rows, panels = risk_rows(document), risk_panels(document)
    if not panels:
        raise InputError(
            "expected attack rates at an epsilon between 0 and infinity, got none. Add such an "
            "epsilon to the grid."
        )
    plots = [
        draw_panel(
            panel,
            rows,
            title=budget_title(document) if panel is panels[-1] else None,
            size=(width, height),
        )
        for panel in panels
    ]
    apart = {name: "independent" for name in ("stroke", "fill", "shape")}
    chart: alt.VConcatChart = dressed(
        alt.vconcat(
            *plots,
            spacing=26,
            resolve=alt.Resolve(scale=apart, legend=apart),
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
            title=alt.TitleParams(text=TITLE, subtitle=subtitle(_subtitle(document), width)),
            description=_spoken(document, rows, panels),
        ),
        title_offset=16,
    )
    return chart


def _subtitle(document: RiskDocument) -> list[str]:
    said = models_text(document)
    lines = [f"{said[0].upper()}{said[1:]}."]
    if any(cell.asr_max_null_q95 is not None for cell in document.cells):
        lines.append(
            f"The largest of {format_count(document.n_targets)} rates of recognition is large by "
            "chance alone: inside the grey it shows nothing."
        )
    return lines + outside_lines(document)


def _spoken(document: RiskDocument, rows: list[dict[str, Any]], panels: list[Panel]) -> str:
    """Say in words what the chart shows, for those who do not see it."""
    opening = f"{TITLE}, {models_text(document)}, against the privacy budget epsilon."
    return " ".join([opening, *(spoken_panel(panel, rows) for panel in panels)])
