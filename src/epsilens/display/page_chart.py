# SPDX-License-Identifier: Apache-2.0
"""The cost chart as the page needs it: compiled, as wide as the page, with lines that move.

The page moves the line of the chosen budget by setting a signal; it never draws the chart anew.
"""

from __future__ import annotations

import math
from typing import Any

from epsilens.display.charts import ACCENT, cost_chart
from epsilens.display.look import AXIS_ENDS
from epsilens.display.words import Outcome
from epsilens.document import WhatIfDocument

__all__ = ["ACCEPTED_SIGNAL", "CHOSEN_SIGNAL", "page_chart"]

CHOSEN_SIGNAL = "chosen_epsilon"
ACCEPTED_SIGNAL = "accepted_loss"


def page_chart(
    document: WhatIfDocument,
    *,
    outcome: Outcome = "loss",
    epsilon: float,
    max_loss_increase: float | None = None,
    height: int = 300,
) -> dict[str, Any]:
    """Make the chart of the report: a Vega specification with a movable line for epsilon.

    Title and labels of the axis ends are left to the page, where they are text that wraps.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards.
    epsilon : float in (0, inf)
        Where the movable line stands at first.
    max_loss_increase : float, optional
        Where the line of the accepted loss stands at first; the page can add and move it.
    height : int
        Height of the plot in pixels; the width follows the page.

    Returns
    -------
    dict
        A Vega specification with the signals `chosen_epsilon` and `accepted_loss`.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> spec = page_chart(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                  cells=cells), epsilon=1.0)
    >>> [signal["name"] for signal in spec["signals"] if signal["name"].startswith("chosen")]
    ['chosen_epsilon']
    """
    import altair as alt
    import vl_convert

    chart = cost_chart(document, outcome=outcome, width="container", height=height)
    spec: dict[str, Any] = chart.to_dict()
    del spec["title"]
    spec["background"] = "transparent"
    spec["layer"] = [layer for layer in spec["layer"] if layer.get("name") not in AXIS_ENDS]
    spec["params"] = [{"name": CHOSEN_SIGNAL, "value": epsilon}]
    # The line would hide the bar of a single budget, and has nowhere to go.
    if (
        len({cell.record_epsilon for cell in document.cells if 0 < cell.record_epsilon < math.inf})
        > 1
    ):
        spec["layer"].append(
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "size": 2, "color": ACCENT, "clip": True},
                "encoding": {"x": {"datum": {"expr": CHOSEN_SIGNAL}, "type": "quantitative"}},
            }
        )
    if outcome == "loss":
        _make_room_for_accepted(spec)
        spec["params"].append({"name": ACCEPTED_SIGNAL, "value": max_loss_increase})
        height_of_line = {"datum": {"expr": f"{ACCEPTED_SIGNAL} || 0"}, "type": "quantitative"}
        shown = {"expr": f"{ACCEPTED_SIGNAL} == null ? 0 : 1"}
        spec["layer"] += [
            {
                "data": {"values": [{}]},
                "mark": {
                    "type": "rule",
                    "size": 1.4,
                    "strokeDash": [6, 4],
                    "color": "#3b414c",
                    "clip": True,
                    "opacity": shown,
                },
                "encoding": {"y": height_of_line},
            },
            {
                "data": {"values": [{}]},
                "mark": {
                    "type": "text",
                    "text": "accepted",
                    "align": "right",
                    "baseline": "bottom",
                    "dy": -4,
                    "fontSize": 12,
                    "color": "#3b414c",
                    "clip": True,
                    "opacity": shown,
                },
                "encoding": {"x": {"value": {"expr": "width"}}, "y": height_of_line},
            },
        ]
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    compiled: dict[str, Any] = vl_convert.vegalite_to_vega(spec, vl_version=version)
    return compiled


def _make_room_for_accepted(spec: dict[str, Any]) -> None:
    """Let the vertical axis grow to show the accepted loss, at most to twice its length."""
    for layer in spec["layer"]:
        scale = layer.get("encoding", {}).get("y", {}).get("scale")
        if scale is None:
            continue
        low, high = scale["domain"]
        top = f"max({high}, min(1.12 * ({ACCEPTED_SIGNAL} || 0), {2 * high - low}))"
        scale["domain"] = [low, {"expr": top}]
