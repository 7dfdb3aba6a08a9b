# SPDX-License-Identifier: Apache-2.0
"""The chart of mechanisms: what an attacker gains across, what it costs up, one curve a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from epsilens.document import DecisionDocument, MechanismCell
from epsilens.document.decision import TITLES
from epsilens.document.wording import epsilon_text
from epsilens.show.look import ACCENT, DASHES, SHADES, dressed, subtitle, value_axis

if TYPE_CHECKING:
    import altair as alt

CostUnit: TypeAlias = Literal["mistakes", "loss"]

CHART_TITLE = "What each mechanism costs, and what an attacker gains"
_UNITS = {
    "mistakes": ("accuracy_change", -1000.0, "further mistakes in 1,000", 3.0),
    "loss": ("loss_change", 1.0, "increase of the test loss", 0.002),
}
_LABEL_GAP = 0.03


def mechanism_chart(
    document: DecisionDocument, *, unit: CostUnit | None = None, width: int = 640, height: int = 330
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
    if unit is None:
        counted = any(
            cell.accuracy_change is not None
            for curve in document.mechanisms
            for cell in curve.cells
        )
        unit = "mistakes" if counted and chosen.max_loss_increase is None else "loss"
    rows = mechanism_rows(document, unit)
    _, _, words, constant = _UNITS[unit]
    ends = [row[name] for row in rows for name in ("low", "high", "cost")] or [0.0, 1.0]
    limit = _cost_limit(document, unit)
    top = max([*ends, constant, *([] if limit is None else [1.4 * limit])])
    bottom = min([*ends, 0.0])
    scale = alt.Scale(type="symlog", constant=constant, domain=[bottom, 1.05 * top], nice=False)
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
    shades = {name: SHADES[i % len(SHADES)] for i, name in enumerate(names)}
    layers: list[Any] = _shading(alt, document, limit, across, up, bottom, 1.05 * top)
    for number, name in enumerate(names):
        base = layer_of([row for row in rows if row["mechanism"] == name])
        colour = alt.value(shades[name])
        dash = list(DASHES[number % len(DASHES)])
        layers += [
            base.mark_area(opacity=0.13, clip=True).encode(
                x=across, y=up("low"), y2="high:Q", color=colour
            ),
            base.mark_line(size=2, strokeDash=dash, clip=True).encode(
                x=across, y=up("cost"), color=colour, order="epsilon:Q"
            ),
            base.mark_point(filled=True, size=40, opacity=1).encode(
                x=across, y=up("cost"), color=colour
            ),
            base.transform_filter("datum.shown")
            .mark_text(dy=-10, fontSize=11, clip=False)
            .encode(x=across, y=up("cost"), text="label:N", color=colour),
            base.transform_filter("datum.last")
            .mark_text(align="right", dx=-8, dy=16, fontSize=12, fontWeight="bold")
            .encode(x=across, y=up("cost"), text="mechanism:N", color=colour),
        ]
    picked = [row for row in rows if row["chosen"]]
    if picked:
        layers.append(
            layer_of(picked)
            .mark_point(size=260, strokeWidth=2.5, color=ACCENT, filled=False, opacity=1)
            .encode(x=across, y=up("cost"))
        )
    chart: alt.LayerChart = dressed(
        alt.layer(*layers).properties(
            width=width,
            height=height,
            title=alt.TitleParams(text=CHART_TITLE, subtitle=subtitle([chosen.sentence], width)),
            description=" ".join([chosen.sentence, *_spoken(document)]),
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

    return mechanism_chart(document) if document.is_comparison else decision_chart(document)


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
            at = cell.record_epsilon if cell.epsilon is None else cell.epsilon
            if cost is None or cell.advantage is None or at is None:
                continue
            low, high = sorted(by * _end(cell, field, end) for end in ("low", "high"))
            is_chosen = curve.mechanism == chosen.mechanism and at == chosen.epsilon
            own.append(
                {
                    "mechanism": TITLES[curve.mechanism],
                    "epsilon": at,
                    "label": f"ε = {epsilon_text(at)}",
                    "advantage": 100.0 * cell.advantage,
                    "cost": by * cost,
                    "low": low,
                    "high": high,
                    "chosen": is_chosen,
                    "shown": is_chosen,
                    "last": False,
                }
            )
        _thin(own)
        rows += own
    return rows


def _thin(rows: list[dict[str, Any]]) -> None:
    """Choose which budgets are written, so that no two lie close together."""
    taken = [row["advantage"] ** 0.5 / 10 for row in rows if row["chosen"]]
    for row in rows:
        place = row["advantage"] ** 0.5 / 10
        if all(abs(place - other) > 2.4 * _LABEL_GAP for other in taken):
            row["shown"] = True
            taken.append(place)
    if rows:
        rows[-1]["last"] = True


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
