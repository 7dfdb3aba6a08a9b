# SPDX-License-Identifier: Apache-2.0
"""The charts of a risk: what an attacker gets over ε, alone or below the plot of a cost.

Measured numbers are points on a solid or dashed line; what is proven is a dotted line without points;
what chance reaches is a grey band.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from epsilens.document import RiskCell, RiskDocument
from epsilens.document.clauses import (
    baseline_text,
    confidence_text,
    is_randomised_response,
    models_text,
)
from epsilens.document.sentences import exposed_clause
from epsilens.document.wording import (
    answers_text,
    at_most_text,
    axis_budget,
    bound_text,
    budget_title,
    epsilon_text,
    percent_text,
    sentence_case,
)
from epsilens.errors import InputError
from epsilens.show.look import (
    ACCENT,
    INK,
    axis_ends,
    budget_axis,
    budget_ticks,
    dashed_limit,
    dressed,
    legend_layout,
    panel_title,
    subtitle,
    value_axis,
)

if TYPE_CHECKING:
    import altair as alt


Attack: TypeAlias = Literal["answer", "membership", "proven epsilon"]

FLOOR = "#c9cdd4"
_GREY = "#6b7280"
_READER = "#b0590c"
_CHANCE = 50.0
_BAR = 18
"""Width of bands and floors in pixels where there is one budget only."""


@dataclass(frozen=True)
class Series:
    """One line of a panel: its words, the field that it draws, and its look."""

    name: str
    field: str
    colour: str = ACCENT
    dash: tuple[int, ...] = (1, 0)
    shape: str | None = None
    """None: a line without points, for what is proven."""
    band: tuple[str, str] | None = None
    bar_to: str | None = None
    """A field at which a thin bar from the point ends: how low the truth may be."""
    marks: str | None = None
    """A field that says at which rows the points stand; None: at all, which hides a dash."""
    segment: str | None = None
    """A field that numbers the stretches without a gap; None: there are no gaps."""
    short: str = ""
    """Words that stand beside the end of the line, where there is room."""


@dataclass(frozen=True)
class Panel:
    """One plot over ε."""

    name: Attack
    title: str
    axis: str
    series: tuple[Series, ...]
    floor: tuple[str, str, str] | None = None
    """Words for the grey band, and the fields of its ends."""
    percent: bool = True
    symlog: float | None = None

    def fields(self) -> list[str]:
        """Name all numbers that the panel draws."""
        names = [name for line in self.series for name in (line.field, *(line.band or ()))]
        names += [line.bar_to for line in self.series if line.bar_to is not None]
        return names + list(self.floor[1:] if self.floor else ())


def risk_rows(document: RiskDocument) -> list[dict[str, Any]]:
    """Give the numbers of every cell that has a place on a logarithmic axis; rates in per cent.

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="rr", asr_max=0.75)
    ...          for epsilon in (1.0, float("inf"))]
    >>> [row["asr_max"] for row in risk_rows(example_document("risk", cells=cells))]
    [75.0]
    """
    return [
        _row(document, cell)
        for cell in document.cells
        if 0 < axis_budget(document, cell) < math.inf
    ]


def risk_panels(document: RiskDocument) -> list[Panel]:
    """List the plots that a risk has numbers for, the most important first.

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> cells = [RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.75)]
    >>> [panel.name for panel in risk_panels(example_document("risk", cells=cells))]
    ['membership']
    """
    rows = risk_rows(document)
    return [
        panel
        for panel in _all_panels(document)
        if any(row[line.field] is not None for row in rows for line in panel.series if line.shape)
    ]


def _row(document: RiskDocument, cell: RiskCell) -> dict[str, Any]:
    """Give the numbers of a cell for drawing; rates in per cent."""
    shares = {
        name: None if value is None or not math.isfinite(value) else 100 * value
        for name, value in cell
        if name.startswith(("answer_inference", "holder_rate", "asr", "tpr"))
    }
    bound = cell.epsilon_lower_bound
    for name in ("asr_max", "asr_max_lower_bound"):
        if (rate := shares[name]) is not None:
            shares[name] = max(rate, _CHANCE)
    return {
        "epsilon": axis_budget(document, cell),
        **shares,
        "chance": _CHANCE,
        "epsilon_lower_bound": None if bound is None or math.isinf(bound) else bound,
        "claimed": cell.epsilon,
    }


def _all_panels(document: RiskDocument) -> list[Panel]:
    sure = confidence_text(document)
    recognised = Series(
        f"measured: most exposed record (bar down to what is {sure} sure)",
        "asr_max",
        shape="circle",
        bar_to="asr_max_lower_bound",
        short="most exposed",
    )
    floor = ("what chance alone reaches", "chance", "asr_max_null_q95")
    membership = "How often a person is recognised as a member of the training data"
    if not is_randomised_response(document):
        smallest = min((cell.epsilon for cell in document.cells if cell.epsilon), default=0.1)
        ceiling = Series("proven: nobody can exceed", "asr_ceiling", INK, (2, 3))
        return [
            Panel("membership", membership, "recognised (%)", (recognised, ceiling), floor),
            Panel(
                "proven epsilon",
                "How much of the claimed ε the attack proves",
                "proven ε",
                (
                    Series(
                        f"proven by the attack: at least ({sure} sure)",
                        "epsilon_lower_bound",
                        shape="circle",
                    ),
                    Series("proven by the accounting: at most", "claimed", INK, (2, 3)),
                ),
                percent=False,
                symlog=smallest,
            ),
        ]
    many = len(document.protect) > 1
    before = baseline_text(document.cells[0]) if document.cells else None
    return [
        Panel(
            "answer",
            f"How often {answers_text(document.protect)} "
            f"{'are guessed, all of them at once' if many else 'is guessed'}",
            "guessed at once (%)" if many else "guessed (%)",
            (
                Series(
                    "measured: by whoever holds the randomised answers (band: 9 in 10 releases)",
                    "holder_rate",
                    shape="circle",
                    band=("holder_rate_low", "holder_rate_high"),
                    short="holder",
                ),
                Series(
                    "measured: by a reader of the model (band: 9 in 10 releases)",
                    "answer_inference_rate",
                    _READER,
                    shape="triangle-up",
                    band=("answer_inference_low", "answer_inference_high"),
                    short="reader",
                ),
                Series(
                    "measured: by a reader, of people outside the training data",
                    "answer_inference_unseen",
                    _GREY,
                    (6, 3),
                    shape="square",
                    short="outside the data",
                ),
                Series(
                    f"proven: at most this{' at once' if many else ''}, "
                    f"given {before or 'a baseline'} from everybody else's data",
                    "answer_inference_ceiling",
                    INK,
                    (2, 3),
                    short="ceiling (proven)",
                ),
            ),
        ),
        Panel("membership", membership, "recognised (%)", (recognised,), floor),
    ]


def panel_limits(
    panel: Panel, rows: Sequence[dict[str, Any]], limit: float | None = None
) -> tuple[float, float]:
    """Give the ends of the vertical axis, which shows every number and the attack limit.

    Examples
    --------
    >>> panel = Panel("answer", "Guessed", "guessed (%)", (Series("proven", "rate"),))
    >>> panel_limits(panel, [{"rate": 60.0}, {"rate": 70.0}], 80.0)
    (58.8, 81.2)
    """
    shown = [row[name] for row in rows for name in panel.fields() if row[name] is not None]
    shown += [] if limit is None else [limit]
    low, high = min(shown), max(shown)
    margin = 0.06 * (high - low) or 1.0
    if not panel.percent:
        return 0.0, high * 1.15 or 1.0
    if panel.floor is not None:
        # Chance is one half: what lies below says nothing, and bars end at the axis.
        return _CHANCE, min(max(high, _CHANCE) + 0.06 * max(high - _CHANCE, 10.0), 100.5)
    return max(low - margin, 0.0), min(high + margin, 100.5)


def spoken_panel(panel: Panel, rows: Sequence[dict[str, Any]]) -> str:
    """Say in words what a panel shows, for those who do not see it.

    Examples
    --------
    >>> panel = Panel("answer", "Guessed", "guessed (%)", (Series("proven", "rate"),))
    >>> spoken_panel(panel, [{"epsilon": 1.0, "rate": 60.0}])
    'Guessed. Proven: 60.0% at epsilon 1.'
    """
    first = min(rows, key=lambda row: float(row["epsilon"]))
    last = max(rows, key=lambda row: float(row["epsilon"]))

    def text(line: Series, number: float) -> str:
        if not panel.percent:
            return epsilon_text(number) if line.shape is None else bound_text(number)
        return at_most_text(number / 100) if line.shape is None else percent_text(number / 100)

    said = []
    for line in panel.series:
        ends = [row for row in (first, last) if row[line.field] is not None]
        texts = [
            f"{text(line, row[line.field])} at epsilon {epsilon_text(row['epsilon'])}"
            for row in ends
        ]
        if texts:
            said.append(f"{sentence_case(line.name)}: {' and '.join(dict.fromkeys(texts))}.")
    return " ".join([f"{panel.title}.", *said])


def draw_panel(
    panel: Panel,
    rows: list[dict[str, Any]],
    *,
    title: str | None,
    size: tuple[int, int],
    budgets: Sequence[float] | None = None,
    limit: float | None = None,
    ends: tuple[float, float] | None = None,
    has_legend: bool = True,
    data: str | None = None,
) -> alt.LayerChart:
    """Draw one panel: the floor first, then bands, lines, bars and points.

    Parameters
    ----------
    panel : Panel
        What to draw.
    rows : list of dict
        The numbers, as `risk_rows` gives them.
    title : str or None
        Title of the axis of budgets; None where another plot below labels it.
    size : (int, int)
        Width and height in pixels.
    budgets : sequence of float, optional
        All budgets that the axis has to show, if there are more than the document's.
    limit : float, optional
        The attack limit in per cent, drawn as a dashed line.
    ends : (float, float), optional
        Ends of the vertical axis; otherwise as `panel_limits` finds them.
    has_legend : bool
        Whether the lines are named in the plot.
    data : str, optional
        The name under which the whole chart keeps the rows; otherwise every layer holds them, which
        takes long where there are many.

    Returns
    -------
    altair.LayerChart

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> document = example_document("risk", n_models=256,
    ...     n_targets=9, cells=[RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.55)])
    >>> draw_panel(risk_panels(document)[0], risk_rows(document), title=None,
    ...            size=(300, 200)).to_dict()["width"]
    300
    """
    import altair as alt

    from epsilens.show.offline import Plot, layer_of

    drawn_at = [float(row["epsilon"]) for row in rows]
    single = len(set(drawn_at)) == 1
    base = layer_of(rows) if data is None else Plot(alt.NamedData(name=data))
    x = budget_axis(alt, drawn_at if budgets is None else budgets, title=title)
    low, high = panel_limits(panel, rows, limit) if ends is None else ends
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    ticks = {}
    if panel.symlog is not None and not single:
        ticks = {"values": _bent_ticks(panel.symlog, high)}
        scale = alt.Scale(domain=[low, high], nice=False, type="symlog", constant=panel.symlog)
    axis = value_axis(alt, panel.axis, format=".4~g", **{"tickCount": 5, **ticks})

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", axis=axis, scale=scale)

    drawn = [line for line in panel.series if any(row[line.field] is not None for row in rows)]
    names = [line.name for line in drawn]
    layers: list[Any] = []
    if panel.floor is not None and any(row[panel.floor[2]] is not None for row in rows):
        words, start, end = panel.floor
        ground = base.transform_filter(f"isValid(datum.{end})")
        names.append(words)
        mark = ground.mark_bar(width=4 * _BAR) if single else ground.mark_area(clip=True)
        layers.append(
            mark.encode(
                x=x,
                y=y(start),
                y2=alt.Y2(f"{end}:Q"),
                color=alt.ColorValue(FLOOR),
                opacity=alt.OpacityValue(0.6),
            )
        )
    for number, line in reversed(list(enumerate(drawn))):  # what matters most lies on top
        aside = {"xOffset": _BAR * 1.4 * (number - (len(drawn) - 1) / 2)} if single else {}
        layers += _line_layers(alt, base, line, x, y, aside=aside, single=single)
    if limit is not None:
        layers += dashed_limit(alt, limit, words=f"attack limit: {limit:.10g}%", width=size[0])
    if has_legend:
        layers.append(_legend(alt, drawn, names, room=size[0]))
    if title is not None:
        layers += axis_ends(alt, size)
    layered: Any = alt.layer(*layers)
    plot: alt.LayerChart = layered.properties(
        width=size[0], height=size[1], title=panel_title(alt, panel.title, size[0])
    )
    return plot


def _line_layers(
    alt: Any, base: Any, line: Series, x: Any, y: Any, *, aside: dict[str, float], single: bool
) -> list[Any]:
    known = base.transform_filter(f"isValid(datum.{line.field})")
    parted = {} if line.segment is None else {"detail": alt.Detail(f"{line.segment}:N")}
    look = {"stroke": alt.StrokeValue(line.colour)}
    tooltip = [
        alt.Tooltip("epsilon:Q", title="ε", format=".3~g"),
        alt.Tooltip(f"{line.field}:Q", title=line.name, format=".4~g"),
    ]
    layers: list[Any] = []
    if line.band is not None:
        start, end = line.band
        banded = known.transform_filter(f"isValid(datum.{start}) && isValid(datum.{end})")
        mark = banded.mark_bar(width=_BAR, **aside) if single else banded.mark_area()
        layers.append(
            mark.encode(
                x=x,
                y=y(start),
                y2=alt.Y2(f"{end}:Q"),
                color=alt.ColorValue(line.colour),
                opacity=alt.OpacityValue(0.2),
                **parted,
            )
        )
        tooltip += [
            alt.Tooltip(f"{start}:Q", title="from", format=".4~g"),
            alt.Tooltip(f"{end}:Q", title="to", format=".4~g"),
        ]
    if line.bar_to is not None:
        bounded = known.transform_filter(f"isValid(datum.{line.bar_to})")
        layers += [
            bounded.mark_rule(size=1.4, opacity=0.75, **aside).encode(
                x=x, y=y(line.field), y2=alt.Y2(f"{line.bar_to}:Q"), **look
            ),
            bounded.transform_filter(f"datum.{line.bar_to} > {_CHANCE:g}")
            .mark_tick(orient="horizontal", thickness=1.4, size=9, **aside)
            .encode(x=x, y=y(line.bar_to), color=alt.ColorValue(line.colour)),
        ]
        tooltip.append(alt.Tooltip(f"{line.bar_to}:Q", title="at least", format=".4~g"))
    if not single:
        size = 2.2 if line.shape else 2.4
        layers.append(
            known.mark_line(size=size, strokeDash=list(line.dash)).encode(
                x=x, y=y(line.field), **look, **parted
            )
        )
    if line.shape is not None:
        filled = line.shape == "circle"
        marked = known if line.marks is None else known.transform_filter(f"datum.{line.marks}")
        layers.append(
            marked.mark_point(
                # A square that lies under a circle must still be seen.
                size=60 if single else 38 if filled else 80,
                strokeWidth=1.6,
                opacity=1,
                shape=line.shape,
                fill=line.colour if filled else "white",
                **aside,
            ).encode(x=x, y=y(line.field), tooltip=tooltip, **look)
        )
    elif single:
        layers.append(
            known.mark_tick(
                orient="horizontal",
                thickness=2.4,
                size=2 * _BAR,
                strokeDash=list(line.dash),
                **aside,
            ).encode(x=x, y=y(line.field), tooltip=tooltip, color=alt.ColorValue(line.colour))
        )
    return layers


def _legend(alt: Any, drawn: Sequence[Series], names: list[str], *, room: int) -> Any:
    """Name the lines by what they look like: marks outside the plot carry the legend."""
    from epsilens.show.offline import layer_of

    shapes = [_legend_shape(line) for line in drawn]
    colours = [line.colour for line in drawn]
    fills = [line.colour if line.shape == "circle" else "white" for line in drawn]
    if len(names) > len(drawn):
        shapes, colours, fills = [*shapes, "square"], [*colours, FLOOR], [*fills, FLOOR]
    legend = alt.Legend(symbolOpacity=1, **legend_layout(names, room))

    def scale(values: list[str]) -> Any:
        return alt.Scale(domain=names, range=values)

    nothing = layer_of([{"what": name} for name in names])
    return nothing.mark_point(size=0, opacity=0).encode(
        stroke=alt.Stroke("what:N", scale=scale(colours), legend=legend),
        fill=alt.Fill("what:N", scale=scale(fills), legend=legend),
        shape=alt.Shape("what:N", scale=scale(shapes), legend=legend),
    )


def _legend_shape(line: Series) -> str:
    if line.shape is not None:
        return line.shape
    # Three dots in a row, as a line without points is drawn.
    return " ".join(f"M{place},-0.2 h0.4 v0.4 h-0.4 Z" for place in (-1.2, -0.2, 0.8))


def _bent_ticks(smallest: float, high: float) -> list[float]:
    """Choose ticks of the bent axis: 0, then as on the axis of budgets, few enough to be read."""
    ticks = [tick for tick in budget_ticks(smallest, max(high, 2 * smallest)) if tick <= high]
    decades = [tick for tick in ticks if math.log10(tick).is_integer()]
    return [0.0, *(decades if len(ticks) > 5 and len(decades) > 1 else ticks)]


TITLE = "What an attacker gets"


def risk_chart(document: RiskDocument, *, width: int = 640, height: int = 230) -> alt.VConcatChart:
    """Draw what an attacker gets at each privacy budget, with what chance reaches and nobody can exceed.

    Two plots stand one above the other on one logarithmic axis. For randomised response the upper
    one is how often a person's own answer is guessed, beside the same guess of people outside the
    training data and the proven ceiling; the lower one is how often the most exposed person is
    recognised as a member. For DP-SGD membership comes first, with its proven ceiling; below stands
    the budget that the attack proves beside the one that was claimed.

    Parameters
    ----------
    document : RiskDocument
        The risk to draw.
    width, height : int
        Size of each plot in pixels.

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
    >>> from epsilens.document import RiskCell, example_document
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="rr", asr_max=0.55, asr_max_null_q95=0.6)
    ...          for epsilon in (0.5, 1.0, 2.0)]
    >>> chart = risk_chart(example_document("risk", n_models=256,
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
    opening = f"{TITLE}, {models_text(document)}, against the privacy budget epsilon."
    chart: alt.VConcatChart = dressed(
        alt.vconcat(
            *plots,
            spacing=26,
            resolve=alt.Resolve(scale=apart, legend=apart),
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
            title=alt.TitleParams(text=TITLE, subtitle=subtitle(_subtitle(document), width)),
            description=" ".join([opening, *(spoken_panel(panel, rows) for panel in panels)]),
        ),
        title_offset=16,
    )
    return chart


def _subtitle(document: RiskDocument) -> list[str]:
    said = models_text(document)
    lines = [f"{sentence_case(said)}."]
    if any(cell.asr_max_null_q95 is not None for cell in document.cells):
        lines.append(
            f"The largest of {document.n_targets:,} rates of recognition is large by "
            "chance alone: inside the grey it shows nothing."
        )
    return lines + outside_lines(document)


def outside_lines(document: RiskDocument) -> list[str]:
    """Say what was measured at ε = ∞, which has no place on a logarithmic axis.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> cell = RiskCell(epsilon=float("inf"), mechanism="rr", asr_max=0.6)
    >>> outside_lines(example_document("risk", n_models=2,
    ...                            n_targets=9, cells=[cell]))
    ['ε = ∞ (nothing is randomised) lies outside the axis: there the most exposed of 9 records is
    recognised 60.0% of the time (measured).']
    """
    lines = []
    for cell in document.cells:
        if not math.isinf(axis_budget(document, cell)):
            continue
        parts = []
        if cell.answer_inference_rate is not None:
            at_once = ", all answers at once," if len(document.protect) > 1 else ""
            parts.append(
                f"{percent_text(cell.answer_inference_rate)} are guessed{at_once} from the model"
            )
        if (exposed := exposed_clause(document, cell)) is not None:
            parts.append(exposed)
        why = "nothing is randomised" if cell.mechanism == "rr" else "no noise"
        there = f": there {' and '.join(parts)}." if parts else "."
        lines.append(f"ε = ∞ ({why}) lies outside the axis{there}")
    return lines
