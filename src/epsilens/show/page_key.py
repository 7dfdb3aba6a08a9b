# SPDX-License-Identifier: Apache-2.0
"""The keys of the page's charts: what each line, point and band looks like, and its words."""

from __future__ import annotations

from dataclasses import dataclass

from epsilens.document import EVERYBODY, RiskDocument, WhatIfDocument, cost_type, group_names
from epsilens.show.cost_plot import shapes_by_type
from epsilens.show.plotted import DASHES, SHADES, plotted_rows
from epsilens.show.risk_plot import FLOOR, Attack, risk_panels
from epsilens.show.words import Outcome, group_label

__all__ = ["KeyEntry", "cost_key", "risk_key"]

_GREY = "#c9cdd4"
_PATHS = {
    "circle": "M17 3.5a3.5 3.5 0 1 0 .01 0Z",
    "square": "M13.8 3.8h6.4v6.4h-6.4Z",
    "triangle-up": "M17 2.5 21 10H13Z",
    "diamond": "M17 2.2 20.8 7 17 11.8 13.2 7Z",
    "triangle-down": "M17 11.5 21 4H13Z",
    "cross": "M15.6 3h2.8v2.6H21v2.8h-2.6V11h-2.8V8.4H13V5.6h2.6Z",
}
"""Outlines of the points in a box of 34 by 14."""


@dataclass(frozen=True)
class KeyEntry:
    """One line of a key.

    Attributes
    ----------
    words : str
    colour : str
    dash : str or None
        Of the line, as SVG writes it; None without a line.
    point : str or None
        The outline of the point, as SVG writes it.
    is_hollow : bool
        Whether the point is not filled.
    is_area : bool
        Whether it is a band.
    """

    words: str
    colour: str
    dash: str | None = None
    point: str | None = None
    is_hollow: bool = False
    is_area: bool = False


def cost_key(document: WhatIfDocument, outcome: Outcome) -> list[KeyEntry]:
    """Explain the chart of a cost.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                     loss_change=0.02)]
    >>> [entry.words for entry in cost_key(WhatIfDocument(provenance=Provenance(method="exact"),
    ...                                                   baseline=start, cells=cells), "loss")]
    ['estimated: everyone']
    """
    rows, _ = plotted_rows(document, outcome)
    shapes, kind = shapes_by_type(document), cost_type(document)
    entries = []
    for place, name in enumerate(group_names(document)):
        if not any(row["group"] == name and row["change"] is not None for row in rows):
            continue
        whom = group_label(name) if name == EVERYBODY else f"“{name}”"
        dash = DASHES[place % len(DASHES)]
        entries.append(
            KeyEntry(
                f"{kind}: {whom}",
                SHADES[place % len(SHADES)],
                dash=" ".join(map(str, dash)),
                point=_PATHS[shapes[place % len(shapes)]],
            )
        )
    if any(row["low"] is not None for row in rows):
        runs = "9 in 10 of the runs" if kind == "measured" else "9 in 10 real runs"
        entries.append(KeyEntry(f"band: {runs}", SHADES[0], is_area=True))
    if any(row["change"] is None for row in rows):
        entries.append(KeyEntry("grey: no estimate", _GREY, is_area=True))
    return entries


def risk_key(document: RiskDocument, attack: Attack) -> list[KeyEntry]:
    """Explain the chart of an attack.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> document = RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...     n_targets=9, cells=[RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.55)])
    >>> [entry.words[:8] for entry in risk_key(document, "membership")]
    ['measured', 'what cha']
    """
    panel = next(panel for panel in risk_panels(document) if panel.name == attack)
    entries = [
        KeyEntry(
            line.name,
            line.colour,
            dash=" ".join(map(str, line.dash)),
            point=None if line.shape is None else _PATHS[line.shape],
            is_hollow=line.shape == "square",
        )
        for line in panel.series
    ]
    if panel.floor is not None:
        entries.append(KeyEntry(panel.floor[0], FLOOR, is_area=True))
    return entries
