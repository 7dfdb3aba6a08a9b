# SPDX-License-Identifier: Apache-2.0
"""The chart of mechanisms: what an attacker gains across, what it costs up, one curve a mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from epsilens.document import DecisionDocument, MechanismCell
from epsilens.document.decision import TITLES
from epsilens.document.wording import epsilon_text, group_budgets_text
from epsilens.show.look import (
    ACCENT,
    DASHES,
    INK,
    SHADES,
    dressed,
    subtitle,
    text_width,
    value_axis,
)

if TYPE_CHECKING:
    import altair as alt

CostUnit: TypeAlias = Literal["mistakes", "loss"]

CHART_TITLE = "What each mechanism costs, and what an attacker gains"
_UNITS = {
    "mistakes": ("accuracy_change", -1000.0, "more mistakes in 1,000", 3.0),
    "loss": ("loss_change", 1.0, "increase of the test loss", 0.002),
}


def mechanism_chart(
    document: DecisionDocument,
    *,
    unit: CostUnit | None = None,
    with_title: bool = True,
    width: int = 640,
    height: int = 330,
) -> alt.LayerChart:
    """Draw what every mechanism costs against what it gives away.

    Across: the proven advantage of an attacker, the share of the answers that the rest of the data do not
    give away and that become guessable. Up: the cost with the range of nine in ten releases. The budget is
    written at the points; budgets of two mechanisms are not comparable. The ring is the recommendation;
    what the limits exclude is shaded.

    Parameters
    ----------
    document : DecisionDocument
    unit : {"mistakes", "loss"}, optional
        Unit of the cost. None: mistakes, or the loss where it is what is limited or all that is known.
    with_title : bool
        Whether title and recommendation stand above; a page that has both leaves them out.
    width, height : int
        Size in pixels.

    Returns
    -------
    altair.LayerChart

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> chart = mechanism_chart(example_document("decision"))
    >>> chart.to_dict()["width"]
    640
    """
    import altair as alt

    from epsilens.show.offline import layer_of

    chosen = document.recommendation
    axes = mechanism_axes(document, unit)
    rows, words, limit = axes.rows, axes.words, axes.limit
    constant, bottom, top = axes.constant, axes.bottom, axes.top
    scale = alt.Scale(type="symlog", constant=constant, domain=[bottom, top], nice=False)
    across = alt.X(
        "advantage:Q",
        scale=alt.Scale(type="sqrt", domain=[0, 100]),
        axis=value_axis(
            alt,
            "answers that become guessable, of those the rest of the data do not give away (% at most, proven)",
            values=[0, 1, 5, 10, 20, 30, 50, 75, 100],
            format=".4~g",
        ),
    )

    def up(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=scale, axis=value_axis(alt, words, format="+.3~g"))

    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    best = TITLES[chosen.mechanism]
    # What matters most lies on top and gets its labels first.
    names.sort(key=lambda name: name != best)
    greys = (shade for shade in SHADES if shade != ACCENT)
    shades = {name: ACCENT if name == best else next(greys, INK) for name in names}
    layers: list[Any] = _shading(alt, document, limit, across, up, bottom, top)
    for number, name in reversed(list(enumerate(names))):
        base = layer_of([row for row in rows if row["mechanism"] == name])
        colour = alt.value(shades[name])
        dash = list(DASHES[number % len(DASHES)])
        if name == best:
            layers.append(
                base.mark_area(opacity=0.15, clip=True).encode(
                    x=across, y=up("low"), y2="high:Q", color=colour
                )
            )
        layers += [
            base.mark_line(size=2, strokeDash=dash, clip=True).encode(
                x=across, y=up("cost"), color=colour, order="epsilon:Q"
            ),
            base.mark_point(filled=True, size=34, opacity=1).encode(
                x=across, y=up("cost"), color=colour
            ),
        ]

    def place(row: dict[str, Any]) -> tuple[float, float]:
        """Return where a row is drawn, in pixels from the lower left."""
        return width * axes.across(row["advantage"]), height * axes.up(row["cost"])

    labels = _labels(rows, names, place, width=width)
    for label in labels:
        base = layer_of([label])
        look = {
            "align": label["align"],
            "dx": label["dx"],
            "dy": label["dy"],
            "fontSize": 12.5 if label["is_name"] else 11,
            "fontWeight": "bold" if label["is_name"] else "normal",
        }
        position = {"x": across, "y": up("cost"), "text": "label:N"}
        layers += [
            base.mark_text(**look, stroke="white", strokeWidth=3, strokeOpacity=0.85).encode(
                **position, color=alt.value("white")
            ),
            base.mark_text(**look).encode(**position, color=alt.value(shades[label["mechanism"]])),
        ]
    picked = [row for row in rows if row["chosen"]]
    if picked:
        layers.append(
            layer_of(picked)
            .mark_point(size=260, strokeWidth=2.5, color=ACCENT, filled=False, opacity=1)
            .encode(x=across, y=up("cost"))
        )
    title = {}
    if with_title:
        said = subtitle([chosen.sentence], width)
        title = {"title": alt.TitleParams(text=CHART_TITLE, subtitle=said)}
    chart: alt.LayerChart = dressed(
        alt.layer(*layers).properties(
            width=width,
            height=height,
            description=" ".join([chosen.sentence, *_spoken(document)]),
            **title,
        ),
        title_offset=16,
    )
    return chart


def protection_chart(document: DecisionDocument) -> alt.LayerChart | alt.VConcatChart:
    """Draw several mechanisms against each other, or cost and attack of the only one over ε.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> "vconcat" in protection_chart(example_document("decision")).to_dict()
    True
    """
    from epsilens.show.decision import decision_chart

    by_advantage = document.is_comparison or document.risk.is_together
    return mechanism_chart(document) if by_advantage else decision_chart(document)


@dataclass(frozen=True)
class MechanismAxes:
    """What a picture of mechanisms shows, and where: both axes go from 0 to 1.

    Attributes
    ----------
    rows : list of dict
        As `mechanism_rows` gives them.
    words : str
        The cost in words.
    limit : float or None
        Limit on the cost in this unit.
    constant : float
        Up to about here the vertical axis is linear, then logarithmic.
    bottom, top : float
        Ends of the vertical axis.
    """

    rows: list[dict[str, Any]]
    words: str
    limit: float | None
    constant: float
    bottom: float
    top: float

    def up(self, cost: float) -> float:
        """Return the height of a cost."""
        low, here, high = (
            math.asinh(value / self.constant / 2) for value in (self.bottom, cost, self.top)
        )
        return (here - low) / (high - low)

    @staticmethod
    def across(advantage: float) -> float:
        """Return where an advantage in per cent is."""
        return math.sqrt(advantage / 100)


def mechanism_axes(
    document: DecisionDocument, unit: CostUnit | None = None, *, has_ranges: bool = True
) -> MechanismAxes:
    """Return the points of a picture of mechanisms and its axes.

    Parameters
    ----------
    document : DecisionDocument
    unit : {"mistakes", "loss"}, optional
        Unit of the cost. None: mistakes, or the loss where it is what is limited or all that is known.
    has_ranges : bool
        Whether the ranges of the cost are to be within the picture.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> mechanism_axes(example_document("decision")).words
    'increase of the test loss'
    """
    chosen = document.recommendation
    if unit is None:
        counted = any(
            cell.accuracy_change is not None
            for curve in document.mechanisms
            for cell in curve.cells
        )
        unit = "mistakes" if counted and chosen.max_loss_increase is None else "loss"
    rows = mechanism_rows(document, unit)
    _, _, words, constant = _UNITS[unit]
    shown = ("low", "high", "cost") if has_ranges else ("cost",)
    ends = [row[name] for row in rows for name in shown] or [0.0, 1.0]
    limit = _cost_limit(document, unit)
    top = max([*ends, constant, *([] if limit is None else [1.4 * limit])])
    return MechanismAxes(rows, words, limit, constant, min([*ends, 0.0]), 1.05 * top)


def mechanism_rows(document: DecisionDocument, unit: CostUnit) -> list[dict[str, Any]]:
    """Return one row for every budget of every mechanism that has a cost.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> [row["label"] for row in mechanism_rows(example_document("decision"), "loss")]
    ['ε = 1', 'ε = 2']
    """
    field, by, _, _ = _UNITS[unit]
    chosen, rows = document.recommendation, []
    for curve in document.answered().mechanisms:
        own: list[dict[str, Any]] = []
        for cell in curve.cells:
            cost = getattr(cell, field)
            at = cell.budget
            if cost is None or cell.advantage is None or at is None:
                continue
            low, high = sorted(by * _end(cell, field, end) for end in ("low", "high"))
            is_chosen = curve.mechanism == chosen.mechanism and at == chosen.epsilon
            own.append(
                {
                    "mechanism": TITLES[curve.mechanism],
                    "epsilon": at,
                    "label": f"ε = {epsilon_text(at)}"
                    if cell.group_epsilons is None
                    else group_budgets_text(cell.group_epsilons),
                    "advantage": 100.0 * cell.advantage,
                    "cost": by * cost,
                    "low": low,
                    "high": high,
                    "chosen": is_chosen,
                }
            )
        rows += own
    return rows


def _labels(
    rows: list[dict[str, Any]],
    names: list[str],
    place: Callable[[dict[str, Any]], tuple[float, float]],
    *,
    width: int,
) -> list[dict[str, Any]]:
    """Choose which names and budgets are written, and on which side, so that none covers another.

    Parameters
    ----------
    rows : list of dict
        As `mechanism_rows` gives them.
    names : list of str
        Mechanisms, the most important first.
    place : callable
        From a row to its pixels.
    width : int
        Width of the plot in pixels.
    """
    taken: list[tuple[float, float, float, float]] = []
    found: list[dict[str, Any]] = []

    def write(row: dict[str, Any], text: str, *, is_name: bool) -> bool:
        x, y = place(row)
        room = text_width(text) * (1.1 if is_name else 0.9)
        for align, dx, dy in (
            *(("left", 9, -9), ("right", -9, 13), ("left", 9, 13), ("right", -9, -9)),
        ):
            left = x + dx - (room if align == "right" else 0)
            box = (left, y - dy - 8, left + room, y - dy + 8)
            if left < 0 or box[2] > width + 30:
                continue
            if all(box[0] > b[2] or box[2] < b[0] or box[1] > b[3] or box[3] < b[1] for b in taken):
                taken.append(box)
                found.append(
                    {**row, "label": text, "align": align, "dx": dx, "dy": dy, "is_name": is_name}
                )
                return True
        return False

    own = {name: [row for row in rows if row["mechanism"] == name] for name in names}
    taken += [(x - 3, y - 3, x + 3, y + 3) for row in rows for x, y in (place(row),)]
    for row in rows:
        if row["chosen"]:
            write(row, row["label"], is_name=False)
    for name in names:
        any(write(row, name, is_name=True) for row in own[name])
    for name in names:
        step = max(1, len(own[name]) // 4)
        for row in own[name] if name == names[0] else own[name][::step]:
            if not row["chosen"]:
                write(row, row["label"], is_name=False)
    return found


def _end(cell: MechanismCell, field: str, end: str) -> float:
    """Return one end of the range of a cost; the cost itself without one."""
    found = getattr(cell, f"{field}_{end}")
    return float(getattr(cell, field) if found is None else found)


def _cost_limit(document: DecisionDocument, unit: CostUnit) -> float | None:
    """Return the limit on the cost in a unit; None if it is of another or there is none."""
    chosen = document.recommendation
    if unit == "loss":
        return chosen.max_loss_increase
    return None if chosen.max_accuracy_loss is None else 10.0 * chosen.max_accuracy_loss


def _shading(
    alt: Any,
    document: DecisionDocument,
    limit: float | None,
    across: Any,
    up: Any,
    bottom: float,
    top: float,
) -> list[Any]:
    """Return what the limits exclude, shaded."""
    from epsilens.show.offline import layer_of

    layers = []
    chosen = document.recommendation
    corner = {"advantage": 0.0, "right": 100.0, "cost": bottom, "top": top}
    if chosen.max_advantage is not None:
        layers.append({**corner, "advantage": 100.0 * chosen.max_advantage})
    if limit is not None:
        layers.append({**corner, "cost": limit})
    return [
        layer_of([rectangle])
        .mark_rect(color="#9a9fa8", opacity=0.18, clip=True)
        .encode(x=across, x2="right:Q", y=up("cost"), y2="top:Q")
        for rectangle in layers
    ]


def _spoken(document: DecisionDocument) -> list[str]:
    """Say in words what the chart shows of every mechanism."""
    said = []
    for curve in document.mechanisms:
        cells = [cell for cell in curve.cells if cell.advantage is not None]
        if cells:
            first, last = cells[0], cells[-1]
            said.append(
                f"{TITLES[curve.mechanism].capitalize()}: advantage {100 * (first.advantage or 0):.3g} % to "
                f"{100 * (last.advantage or 0):.3g} %."
            )
    return said
