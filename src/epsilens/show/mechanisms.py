# SPDX-License-Identifier: Apache-2.0
"""The chart of mechanisms: what an attacker gains across, what it costs up, one curve a mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from epsilens.document import DecisionDocument, MechanismCell
from epsilens.document.decision import TITLES, MechanismName
from epsilens.document.wording import epsilon_text, group_budgets_text, sentence_case
from epsilens.show.look import (
    ACCENT,
    DASHES,
    INK,
    dressed,
    subtitle,
    text_width,
    value_axis,
)

if TYPE_CHECKING:
    import altair as alt

CostUnit: TypeAlias = Literal["mistakes", "loss"]

CHART_TITLE = "What each mechanism costs, and what an attacker gains"
LIMIT_SIGNALS = ("advantage_limit", "cost_limit")
LIMIT_WORDS_SIGNAL = "advantage_limit_words"
"""Limits on the advantage in per cent and on the cost in its unit; null where there is none."""
SHOWN_SIGNALS = ("shown_mechanism", "shown_advantage", "shown_cost")
"""Mechanism that stands out, and where the ring is; null without one."""
UNIT_SIGNAL = "cost_in"
"""Unit of the labels: "mistakes", "accuracy" or "loss"."""
_SHOWN, *_RING = SHOWN_SIGNALS
_Sides: TypeAlias = tuple[tuple[str, int, int], ...]
_NEAR: _Sides = (("left", 9, -9), ("right", -9, 13), ("left", 9, 13), ("right", -9, -9))
"""Where a label may stand beside its point: alignment, and pixels to the right and down."""
_FAR: _Sides = tuple(
    (align, dx, dy) for dy in (-24, 28, -40, 44) for align, dx in (("left", 4), ("right", -4))
)
_LIMIT_ROOM = 20
"""Pixels at the top that are kept for the name of the limit."""
_GREYS = ("#4b5563", "#6b7280")
"""Dark enough for names; the dashes tell the lines apart."""
_NEXT = 10
"""Pixels between the places of a line that are looked at."""
_HALO = {"stroke": "white", "strokeWidth": 3, "strokeOpacity": 0.85, "fill": "white"}
"""A bright edge below words, so that they can be read where lines cross them."""
_GRIP_ROOM = 30
"""Pixels at the right that are kept for the handle of the limit on the cost."""
_NARROW = 480
"""Width in pixels below which words are shorter."""
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

    Notes
    -----
    The ring, the limits and the mechanism that stands out are parameters of the chart: `SHOWN_SIGNALS` and
    `LIMIT_SIGNALS`. A page moves them without drawing the chart anew. Mechanisms whose name had no room are in
    `usermeta`.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> chart = mechanism_chart(example_document("decision"))
    >>> chart.to_dict()["width"]
    640
    """
    import altair as alt

    from epsilens.show.offline import layer_of

    axes = mechanism_axes(document, unit)
    names, shades = _shades(document, axes.rows)
    chosen = next((row for row in axes.rows if row["chosen"]), None)
    x, y = _scales(alt, axes, is_narrow=width < _NARROW)

    def accent(own: str) -> dict[str, str]:
        return {"expr": f"{own} == {_SHOWN} ? '{ACCENT}' : {shade_of}"}

    layers, limit_words = _limit_layers(alt, axes)
    for number, name in reversed(list(enumerate(names))):
        own = [row for row in axes.rows if row["mechanism"] == name]
        base, shade_of = layer_of(own), f"'{shades[name]}'"
        is_shown = f"'{name}' == {_SHOWN}"
        up = y("cost")
        layers += [
            base.mark_area(
                clip=True,
                fill=ACCENT,
                opacity={"expr": f"{is_shown} ? 0.15 : 0"},
            ).encode(x=x, y=y("low"), y2="high:Q"),
            base.mark_line(
                size=2,
                strokeDash=list(DASHES[number % len(DASHES)]),
                clip=True,
                stroke=accent(f"'{name}'"),
            ).encode(x=x, y=up, order="epsilon:Q"),
            base.mark_point(
                filled=True, size=34, opacity=1, fill=accent(f"'{name}'"), strokeWidth=0
            ).encode(x=x, y=up),
        ]

    def place(row: dict[str, Any]) -> tuple[float, float]:
        """Return where a row is drawn, in pixels from the lower left."""
        return width * axes.across(row["advantage"]), height * axes.up(row["cost"])

    shade_of = "datum.shade"
    limit = None if axes.gain_limit is None else width * axes.across(axes.gain_limit)
    cost_limit = None if axes.limit is None else height * axes.up(axes.limit)
    labels = _labels(
        axes.rows, names, place, size=(width, height), limit=limit, cost_limit=cost_limit
    )
    base = layer_of([{**label, "shade": shades[label["mechanism"]]} for label in labels])
    look = {
        "align": {"expr": "datum.align"},
        "dx": {"expr": "datum.dx"},
        "dy": {"expr": "datum.dy"},
        "fontSize": {"expr": "datum.is_name ? 12.5 : 11"},
        "fontWeight": {"expr": "datum.is_name ? 'bold' : 'normal'"},
    }
    for dress in (_HALO, {"fill": accent("datum.mechanism")}):
        layers.append(base.mark_text(**look, **dress).encode(x=x, y=y("cost"), text="label:N"))
    layers += limit_words
    ring = {name: _quantity(alt, signal) for name, signal in zip("xy", _RING, strict=True)}
    layers.append(
        layer_of([{}])
        .mark_point(
            size=260,
            strokeWidth=2.5,
            stroke=ACCENT,
            filled=False,
            opacity={"expr": f"{_RING[0]} == null ? 0 : 1"},
        )
        .encode(
            x=alt.XDatum(ring["x"], type="quantitative"),
            y=alt.YDatum(ring["y"], type="quantitative"),
        )
    )
    words = (
        f"{UNIT_SIGNAL} == 'accuracy' ? 'change of accuracy (percentage points)' : '{axes.words}'"
    )
    layers.append(
        layer_of([{}])
        .mark_text(text={"expr": words}, align="left", fontSize=12.5, color=INK)
        .encode(x=alt.value(-34), y=alt.value(-14))
    )
    title = {}
    if with_title:
        said = subtitle([document.recommendation.sentence], width)
        title = {"title": alt.TitleParams(text=CHART_TITLE, subtitle=said)}
    best = document.recommendation.mechanism
    values: dict[str, object] = {
        _SHOWN: best if best in names else None,
        _RING[0]: None if chosen is None else chosen["advantage"],
        _RING[1]: None if chosen is None else chosen["cost"],
        **dict(zip(LIMIT_SIGNALS, (axes.gain_limit, axes.limit), strict=True)),
        LIMIT_WORDS_SIGNAL: _limit_words(document),
        UNIT_SIGNAL: axes.unit,
    }
    chart: alt.LayerChart = dressed(
        alt.layer(*layers)
        .properties(
            width=width,
            height=height,
            description=spoken_mechanisms(document),
            usermeta={
                "unnamed": [
                    {"title": TITLES[name], "dash": list(DASHES[number % len(DASHES)])}
                    for number, name in enumerate(names)
                    if not any(one["is_name"] and one["mechanism"] == name for one in labels)
                ]
            },
            **title,
        )
        .add_params(*(alt.param(name=name, value=value) for name, value in values.items())),
        title_offset=26,
    )
    return chart


def mechanism_page_chart(
    document: DecisionDocument, unit: CostUnit, *, size: tuple[int, int]
) -> dict[str, Any]:
    """Return the same chart as a Vega specification for the page, which moves its limits and its ring.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> spec = mechanism_page_chart(example_document("decision"), "loss", size=(300, 200))
    >>> sorted(signal["name"] for signal in spec["signals"] if signal["name"].endswith("limit"))
    ['advantage_limit', 'cost_limit']
    """
    import altair as alt
    import vl_convert

    width, height = size
    chart = mechanism_chart(document, unit=unit, with_title=False, width=width, height=height)
    # Not checked against the schema: the compiler reads it next.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["background"] = "transparent"
    spec["padding"] = {"left": 4, "right": 12, "top": 4, "bottom": 4}
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    compiled: dict[str, Any] = vl_convert.vegalite_to_vega(spec, vl_version=version)
    return compiled


def _shades(
    document: DecisionDocument, rows: list[dict[str, Any]]
) -> tuple[list[MechanismName], dict[str, str]]:
    """Return the mechanisms, the most important first, and the grey of each."""
    best = document.recommendation.mechanism
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    # What matters most lies on top and gets its labels first.
    names.sort(key=lambda name: name != best)
    return names, {name: _GREYS[number % len(_GREYS)] for number, name in enumerate(names)}


def _quantity(alt: Any, signal: str) -> Any:
    """Return a place that follows a parameter; nothing is drawn there while it is null."""
    return alt.ExprRef(f"{signal} || 0")


def _scales(alt: Any, axes: MechanismAxes, *, is_narrow: bool) -> tuple[Any, Callable[[str], Any]]:
    """Return the horizontal axis, and the vertical one of a field."""
    words = (
        ["answers that become guessable", "(% at most, proven)"]
        if is_narrow
        else "answers that become guessable, of those the rest of the data do not give away (% at most, proven)"
    )
    across = alt.X(
        "advantage:Q",
        scale=alt.Scale(type="sqrt", domain=[0, 100]),
        axis=value_axis(
            alt,
            words,
            values=[0, 1, 5, 10, 20, 50, 100] if is_narrow else [0, 1, 5, 10, 20, 30, 50, 75, 100],
            format=".4~g",
        ),
    )
    scale = alt.Scale(
        type="symlog", constant=axes.constant, domain=[axes.bottom, axes.top], nice=False
    )
    # The same chart shows mistakes as the change of accuracy that they are.
    as_points = f"{UNIT_SIGNAL} == 'accuracy'"
    axis = value_axis(
        alt,
        None,
        labelExpr=f"datum.value == 0 ? '0' : {as_points} ? format(-datum.value / 10, '+.3~g') : format(datum.value, '+.3~g')",
        values=axes.ticks(),
    )

    def up(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    return across, up


def _limit_layers(alt: Any, axes: MechanismAxes) -> tuple[list[Any], list[Any]]:
    """Return what the limits exclude, shaded, with a dashed line at each, and the names of these lines."""
    from epsilens.show.offline import layer_of

    def at(value: object, channel: Any) -> Any:
        return channel(value, type="quantitative")

    layers, named = [], []
    gain, cost = LIMIT_SIGNALS
    for signal, area, line, text, words in (
        (
            gain,
            {"x": (_quantity(alt, gain), 100.0), "y": (axes.bottom, axes.top)},
            "x",
            {"x": _quantity(alt, gain), "y": axes.top},
            LIMIT_WORDS_SIGNAL,
        ),
        (
            cost,
            {"x": (0.0, 100.0), "y": (_quantity(alt, cost), axes.top)},
            "y",
            {"x": 100.0, "y": _quantity(alt, cost)},
            f"'limit ' + ({UNIT_SIGNAL} == 'accuracy' ? format(-{cost} / 10, '+.3~g') : format({cost}, '+.3~g'))",
        ),
    ):
        seen = f"{signal} == null ? 0 : "
        base = layer_of([{}])
        (left, right), (low, high) = area["x"], area["y"]
        layers += [
            base.mark_rect(color="#9a9fa8", opacity={"expr": f"{seen}0.18"}, clip=True).encode(
                x=at(left, alt.XDatum),
                x2=alt.X2Datum(right),
                y=at(low, alt.YDatum),
                y2=alt.Y2Datum(high),
            ),
            base.mark_rule(
                size=1.4, strokeDash=[6, 4], color=INK, opacity={"expr": f"{seen}1"}, clip=True
            ).encode(
                **{line: at(_quantity(alt, signal), alt.XDatum if line == "x" else alt.YDatum)}
            ),
        ]
        named += [
            base.mark_text(
                text={"expr": f"{signal} == null ? '' : {words}"},
                align="left" if line == "x" else "right",
                baseline="top" if line == "x" else "bottom",
                dx=18 if line == "x" else -_GRIP_ROOM,
                dy=4 if line == "x" else -4,
                fontSize=11.5,
                clip=True,
                **dress,
            ).encode(x=at(text["x"], alt.XDatum), y=at(text["y"], alt.YDatum))
            for dress in (_HALO, {"color": INK})
        ]
    return layers, named


@dataclass(frozen=True)
class MechanismAxes:
    """What a picture of mechanisms shows, and where: both axes go from 0 to 1.

    Attributes
    ----------
    rows : list of dict
        As `mechanism_rows` gives them.
    unit : {"mistakes", "loss"}
        Unit of the cost.
    words : str
        The cost in words.
    limit : float or None
        Limit on the cost in this unit.
    gain_limit : float or None
        Limit on the advantage in per cent; one on the attack rate is turned into it.
    constant : float
        Up to about here the vertical axis is linear, then logarithmic.
    bottom, top : float
        Ends of the vertical axis.
    """

    rows: list[dict[str, Any]]
    unit: CostUnit
    words: str
    limit: float | None
    gain_limit: float | None
    constant: float
    bottom: float
    top: float

    def ticks(self) -> list[float]:
        """Return round costs, few enough to be read."""
        steps = [step * 10.0**power for power in range(-5, 5) for step in (1, 3)]
        seen = [step for step in steps if step >= self.constant]
        return [
            *(-step for step in reversed(seen) if -step >= self.bottom),
            0.0,
            *(step for step in seen if step <= self.top),
        ]

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
    document: DecisionDocument, unit: CostUnit | None = None, *, is_short: bool = False
) -> MechanismAxes:
    """Return the points of a picture of mechanisms and its axes.

    Parameters
    ----------
    document : DecisionDocument
    unit : {"mistakes", "loss"}, optional
        Unit of the cost. None: mistakes, or the loss where it is what is limited or all that is known.
    is_short : bool
        Whether the picture has the budgets alone that are written out, and no ranges.

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
    rows = [row for row in mechanism_rows(document, unit) if row["listed"] or not is_short]
    _, _, words, constant = _UNITS[unit]
    shown = ("cost",) if is_short else ("low", "high", "cost")
    ends = [row[name] for row in rows for name in shown] or [0.0, 1.0]
    limit = _cost_limit(document, unit)
    top = max([*ends, constant, *([] if limit is None else [1.4 * limit])])
    # Below the lowest point there is room for its label.
    low = min([*ends, 0.0])
    bottom = 1.4 * low - 0.3 * constant
    return MechanismAxes(
        rows, unit, words, limit, _gain_limit(document), constant, bottom, 1.05 * top
    )


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
        listed = {cell.budget for cell in curve.listed(chosen)}
        for cell in curve.cells:
            cost = getattr(cell, field)
            at = cell.budget
            if cost is None or cell.advantage is None or at is None:
                continue
            low, high = sorted(by * _end(cell, field, end) for end in ("low", "high"))
            is_chosen = curve.mechanism == chosen.mechanism and at == chosen.epsilon
            own.append(
                {
                    "mechanism": curve.mechanism,
                    "title": TITLES[curve.mechanism],
                    "epsilon": at,
                    "label": f"ε = {epsilon_text(at)}"
                    if cell.group_epsilons is None
                    else group_budgets_text(cell.group_epsilons),
                    "advantage": 100.0 * cell.advantage,
                    "cost": by * cost,
                    "low": low,
                    "high": high,
                    "chosen": is_chosen,
                    "listed": at in listed,
                }
            )
        rows += own
    return rows


def _labels(
    rows: list[dict[str, Any]],
    names: Sequence[str],
    place: Callable[[dict[str, Any]], tuple[float, float]],
    *,
    size: tuple[int, int],
    limit: float | None,
    cost_limit: float | None = None,
) -> list[dict[str, Any]]:
    """Choose which names and budgets are written, and on which side, so that none covers another.

    A name that has no place beside the lines of all other mechanisms is left out, but for the first.

    Parameters
    ----------
    rows : list of dict
        As `mechanism_rows` gives them.
    names : list of str
        Mechanisms, the most important first.
    place : callable
        From a row to its pixels.
    size : (int, int)
        Width and height of the plot in pixels.
    limit : float or None
        Pixels from the left to the limit on the attack, which no label crosses.
    cost_limit : float or None
        Pixels from below to the limit on the cost, whose name stands at the right.
    """
    width, height = size
    points = {name: [place(row) for row in rows if row["mechanism"] == name] for name in names}
    taken = [(x - 3, y - 3, x + 3, y + 3) for own in points.values() for x, y in own]
    if cost_limit is not None:
        start = width - _GRIP_ROOM - text_width("limit +10.5")
        taken.append((start, cost_limit, float(width), cost_limit + _LIMIT_ROOM))
    across = [] if limit is None else [(limit - 1, 0.0, limit + 1, float(height))]
    found: list[dict[str, Any]] = []
    lines = {name: _along(own) for name, own in points.items()}

    def is_own(box: tuple[float, ...], name: str, *, crosses: bool) -> bool:
        """Say whether a box stands nearer to its own mechanism than to any other, and on no other line."""

        def gap(point: tuple[float, float]) -> float:
            beside = max(box[0] - point[0], 0.0, point[0] - box[2])
            return math.hypot(beside, max(box[1] - point[1], 0.0, point[1] - box[3]))

        nearest = {other: min(map(gap, line)) for other, line in lines.items()}
        others = [far for other, far in nearest.items() if other != name]
        return all(nearest[name] <= far and (crosses or far > 0.0) for far in others)

    def write(
        row: dict[str, Any], text: str, *, sides: _Sides, is_name: bool, crosses: bool = False
    ) -> bool:
        x, y = place(row)
        room = text_width(text) * (1.1 if is_name else 0.9)
        for align, dx, dy in sides:
            left = x + dx - (room if align == "right" else 0)
            box = (left, y - dy - 8, left + room, y - dy + 8)
            if left < 0 or box[2] > width + 12 or box[1] < 2 or box[3] > height - _LIMIT_ROOM:
                continue
            is_free = all(
                box[0] > b[2] or box[2] < b[0] or box[1] > b[3] or box[3] < b[1]
                for b in (taken if crosses else [*taken, *across])
            )
            if is_free and is_own(box, row["mechanism"], crosses=crosses):
                taken.append(box)
                found.append(
                    {**row, "label": text, "align": align, "dx": dx, "dy": dy, "is_name": is_name}
                )
                return True
        return False

    own = {name: [row for row in rows if row["mechanism"] == name] for name in names}
    for row in rows:
        if row["chosen"]:
            write(row, row["label"], sides=_NEAR, is_name=False)
    for name in names:
        # What is recommended is named in any case, across the limit if need be.
        for sides, crosses in ((_NEAR, False), (_FAR, False), (_NEAR, True), (_FAR, True)):
            if crosses and name != names[0]:
                break
            if any(
                write(row, row["title"], sides=sides, is_name=True, crosses=crosses)
                for row in own[name]
            ):
                break
    for name in names:
        listed = [row for row in own[name] if row["listed"]]
        step = max(1, len(listed) // 3)
        for row in listed if name == names[0] else listed[::step]:
            if not row["chosen"]:
                write(row, row["label"], sides=_NEAR, is_name=False)
    return found


def _along(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return points of a line with some between them, close enough to tell what words stand beside."""
    found = list(points)
    for (x, y), (to_x, to_y) in pairwise(points):
        n_steps = int(math.hypot(to_x - x, to_y - y) // _NEXT)
        parts = [n / (n_steps + 1) for n in range(1, n_steps + 1)]
        found += [(x + part * (to_x - x), y + part * (to_y - y)) for part in parts]
    return found


def _end(cell: MechanismCell, field: str, end: str) -> float:
    """Return one end of the range of a cost; the cost itself without one."""
    found = getattr(cell, f"{field}_{end}")
    return float(getattr(cell, field) if found is None else found)


def _gain_limit(document: DecisionDocument) -> float | None:
    """Return the limit on the attack as an advantage in per cent; None if there is none."""
    chosen = document.recommendation
    if chosen.max_advantage is not None:
        return 100.0 * chosen.max_advantage
    known = document.risk.cells[0].answer_inference_baseline_high if document.risk.cells else None
    if chosen.max_attack_rate is None or known is None or known >= 1.0:
        return None
    return max(0.0, 100.0 * (chosen.max_attack_rate - known) / (1.0 - known))


def _limit_words(document: DecisionDocument) -> str:
    """Name the limit on the attack in the unit in which it was given."""
    chosen = document.recommendation
    if chosen.max_advantage is not None:
        return f"limit {100.0 * chosen.max_advantage:.3g}%"
    return (
        ""
        if chosen.max_attack_rate is None
        else f"limit {100.0 * chosen.max_attack_rate:.3g}% in all"
    )


def _cost_limit(document: DecisionDocument, unit: CostUnit) -> float | None:
    """Return the limit on the cost in a unit; None if it is of another or there is none."""
    chosen = document.recommendation
    if unit == "loss":
        return chosen.max_loss_increase
    return None if chosen.max_accuracy_loss is None else 10.0 * chosen.max_accuracy_loss


def spoken_mechanisms(document: DecisionDocument) -> str:
    """Say in words what the chart shows of every mechanism.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> spoken_mechanisms(example_document("decision"))[-48:]
    'Randomised response: advantage 46.2 % to 76.2 %.'
    """
    said = [document.recommendation.sentence]
    for curve in document.mechanisms:
        shares = [100 * cell.advantage for cell in curve.cells if cell.advantage is not None]
        if shares:
            title = sentence_case(TITLES[curve.mechanism])
            said.append(f"{title}: advantage {shares[0]:.3g} % to {shares[-1]:.3g} %.")
    return " ".join(said)
