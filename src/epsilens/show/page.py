# SPDX-License-Identifier: Apache-2.0
"""The charts as the page needs them: compiled, as wide as the page, with lines that move.

The page moves the line of the chosen budget and the lines of the limits by setting signals; it never
draws a chart anew. Every plot begins at the same distance from the edge, so that two of them, one
above the other, share one axis. Names and explanations stand on the page, where they are text that
wraps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epsilens.document import DecisionDocument, RiskDocument, WhatIfDocument
from epsilens.document.clauses import change_title, models_text
from epsilens.document.wording import (
    ATTACKERS,
    EVERYBODY,
    Outcome,
    answers_text,
    budget_title,
    cost_type,
    group_label,
    group_names,
    sentence_case,
)
from epsilens.errors import InputError
from epsilens.show.cost import cost_plot, shapes_by_type, spoken_description, subtitle_lines
from epsilens.show.decision import common_budgets
from epsilens.show.look import (
    ACCENT,
    AXIS_ENDS,
    DASHES,
    INK,
    SHADES,
    available_outcomes,
    dressed,
    plotted_rows,
)
from epsilens.show.risk import (
    FLOOR,
    Attack,
    draw_panel,
    outside_lines,
    risk_panels,
    risk_rows,
    spoken_panel,
)

CHOSEN_SIGNAL = "chosen_epsilon"
ACCEPTED_SIGNAL = "accepted_loss"
"""The limit on the cost, in the unit of the chart."""
FEARED_SIGNAL = "feared_rate"
LABELLED_SIGNAL = "labelled"
"""Whether lines are named beside their ends; a narrow page has a key instead."""
LABEL_ROOM = 118
"""Pixels to the right of a plot whose lines are named."""
_LINE_HEIGHT = 14
EDGE = 14
"""Pixels to the right of a plot whose lines are not named."""
_LEFT, _HEAD = 58, 30
_AXIS, _AXIS_AND_TITLE = 10, 44
_WIDTH = 600
_HEIGHT = 190
"""Height of one of two plots in pixels."""
_HEADINGS = {
    "answer": "answers guessed (%)",
    "answers": "answers guessed, all of them at once (%)",
    "membership": "members recognised (%)",
    "proven epsilon": "proven ε",
}


def page_chart(
    document: WhatIfDocument,
    *,
    outcome: Outcome = "loss",
    epsilon: float,
    limit: float | None = None,
    budgets: Sequence[float] | None = None,
    is_lowest: bool = True,
    height: int = 300,
) -> dict[str, Any]:
    """Make the chart of the report: a Vega specification with a movable line for epsilon.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards.
    epsilon : float in (0, inf)
        Where the movable line stands at first.
    limit : float, optional
        Where the line of the limit on the cost stands at first, in the unit of the chart; the page can add and
        move it.
    budgets : sequence of float, optional
        All budgets that the axis has to show, if there are more than the document's.
    is_lowest : bool
        Whether the axis of budgets is labelled here and not below another plot.
    height : int
        Height of the plot in pixels; the width follows the page.

    Returns
    -------
    dict
        A Vega specification with the signals `chosen_epsilon` and `accepted_loss`.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> spec = page_chart(example_document("whatif", cells=cells), epsilon=1.0)
    >>> [signal["name"] for signal in spec["signals"] if signal["name"].startswith("chosen")]
    ['chosen_epsilon']
    """
    plot = cost_plot(
        document,
        outcome=outcome,
        shapes=shapes_by_type(document),
        budgets=budgets,
        is_lowest=is_lowest,
        size=(_WIDTH, height),
    )
    spec = _bare(plot.chart, is_lowest=is_lowest)
    spec["description"] = spoken_description(document, plot.rows, plot.groups, outcome)
    names = group_names(document)
    if len(names) > 1:
        _name_ends(
            spec,
            [
                (row["label"], SHADES[names.index(row["group"]) % len(SHADES)], row["change"])
                for row in _last_rows(plot.rows)
            ],
            height,
        )
    if outcome in LIMITED:
        words = "" if limit is None else f"limit {limit:.10g}"
        _add_limit(spec, ACCEPTED_SIGNAL, limit, words=words)
    moves = len({row["epsilon"] for row in plot.rows}) > 1
    heading = change_title(document, outcome)
    return _compiled(spec, heading, epsilon if moves else None, is_lowest=is_lowest)


def risk_page_chart(
    document: RiskDocument,
    *,
    attack: Attack = "answer",
    epsilon: float,
    max_attack_rate: float | None = None,
    limit_words: str = "",
    budgets: Sequence[float] | None = None,
    height: int = 260,
) -> dict[str, Any]:
    """Make the lower chart of the report: what an attacker gets, below what it costs.

    Parameters
    ----------
    document : RiskDocument
        The risk to draw.
    attack : {"answer", "membership"}
        Which attack is drawn.
    epsilon : float in (0, inf)
        Where the movable line stands at first.
    max_attack_rate : float in (0, 1), optional
        Where the line of the attack limit stands at first; the page can add and move it.
    limit_words : str
        What is written beside it.
    budgets : sequence of float, optional
        All budgets that the axis has to show, if there are more than the document's.
    height : int
        Height of the plot in pixels; the width follows the page.

    Returns
    -------
    dict
        A Vega specification with the signals `chosen_epsilon` and, for answers, `feared_rate`.

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> document = example_document("risk", n_models=256,
    ...     n_targets=9, cells=[RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_rate=0.7)
    ...                         for epsilon in (1.0, 2.0)])
    >>> spec = risk_page_chart(document, epsilon=1.0, max_attack_rate=0.8)
    >>> [signal["value"] for signal in spec["signals"] if signal["name"] == "feared_rate"]
    [80]
    """
    panel = next(panel for panel in risk_panels(document) if panel.name == attack)
    rows = risk_rows(document)
    plot = draw_panel(
        panel,
        rows,
        title=budget_title(document),
        size=(_WIDTH, height),
        budgets=budgets,
        has_legend=False,
    )
    spec = _bare(plot, is_lowest=True)
    spec["description"] = spoken_panel(panel, rows)
    last = max(rows, key=lambda row: float(row["epsilon"]))
    _name_ends(spec, [(line.short, line.colour, last[line.field]) for line in panel.series], height)
    if attack == "answer":
        start = None if max_attack_rate is None else float(f"{100 * max_attack_rate:.10g}")
        _add_limit(spec, FEARED_SIGNAL, start, words=limit_words, most=100.5)
    moves = len({row["epsilon"] for row in rows}) > 1
    together = attack == "answer" and len(document.protect) > 1
    heading = _HEADINGS["answers" if together else attack]
    return _compiled(spec, heading, epsilon if moves else None, is_lowest=True)


LIMITED: frozenset[Outcome] = frozenset({"mistakes", "loss"})
"""Costs that can be limited."""


def _last_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the row of every group at its largest budget."""
    return list({row["group"]: row for row in rows if row["change"] is not None}.values())


def _name_ends(
    spec: dict[str, Any], ends: Sequence[tuple[str, str, float | None]], height: int
) -> None:
    """Name lines beside their right ends, none over another: words, colour and last number of each."""
    known = sorted(
        ((words, colour, value) for words, colour, value in ends if words and value is not None),
        key=lambda end: -end[2],
    )
    low, high = next(
        layer["encoding"]["y"]["scale"]["domain"]
        for layer in spec["layer"]
        if "scale" in layer.get("encoding", {}).get("y", {})
    )
    spec["params"].append({"name": LABELLED_SIGNAL, "value": False})
    wanted = [height * (high - value) / (high - low) for _, _, value in known]
    places = list(wanted)
    for n in range(1, len(places)):
        places[n] = max(places[n], places[n - 1] + _LINE_HEIGHT)
    # Pushed below the plot they move up again, from the last one.
    for n in reversed(range(len(places))):
        most = height if n == len(places) - 1 else places[n + 1] - _LINE_HEIGHT
        places[n] = min(places[n], most)
    for (words, colour, value), place, own in zip(known, places, wanted, strict=True):
        spec["layer"].append(
            {
                "name": "halo",
                "data": {"values": [{}]},
                "mark": {
                    "type": "text",
                    "text": {"expr": f"{LABELLED_SIGNAL} ? {json.dumps(words)} : ''"},
                    "align": "left",
                    "dy": place - own,
                    "fontSize": 12,
                    "color": colour,
                },
                "encoding": {
                    "x": {"value": {"expr": "width + 8"}},
                    "y": {"datum": value, "type": "quantitative"},
                },
            }
        )


def _bare(chart: Any, *, is_lowest: bool) -> dict[str, Any]:
    """Leave the plot itself: no title, no legend, no labels but those of the axes."""
    # Not checked against the schema, part by part: the compiler reads it next.
    finished = dressed(chart, title_offset=0)
    spec: dict[str, Any] = finished.to_dict(validate=False)
    spec.pop("title", None)
    spec["params"] = []
    spec["background"] = "transparent"
    spec["autosize"] = "none"
    spec["padding"] = {
        "left": _LEFT,
        "right": EDGE,
        "top": _HEAD,
        "bottom": _AXIS_AND_TITLE if is_lowest else _AXIS,
    }
    spec["layer"] = [layer for layer in spec["layer"] if layer.get("name") not in AXIS_ENDS]
    for layer in spec["layer"]:
        encoding = layer.get("encoding", {})
        for name in ("stroke", "fill", "shape"):
            if "field" in encoding.get(name, {}):
                encoding[name]["legend"] = None
        if (axis := encoding.get("y", {}).get("axis")) is not None:
            axis["title"] = None
            axis["labelLimit"] = _LEFT - 10
        if not is_lowest and (axis := encoding.get("x", {}).get("axis")) is not None:
            axis["labels"] = False
    return spec


def _add_limit(
    spec: dict[str, Any],
    signal: str,
    start: float | None,
    *,
    words: str,
    most: float | None = None,
) -> None:
    """Add a dashed line across the plot at a signal; null hides it. Its words are in `SIGNAL_words`.

    The vertical axis grows to show the limit, at most to twice its length. It follows `SIGNAL_room` and not the
    limit itself, so that it stands still while somebody drags the line.
    """
    spec["params"] += [{"name": signal, "value": start}, {"name": f"{signal}_room", "value": start}]
    at = {"datum": {"expr": f"{signal} || 0"}, "type": "quantitative"}
    look = {"color": INK, "clip": True, "opacity": {"expr": f"{signal} == null ? 0 : 1"}}
    spec["params"].append({"name": f"{signal}_words", "value": words})
    text = {"expr": f"{signal} == null ? '' : {signal}_words"}
    spec["layer"] += [
        {
            "name": "limit",
            "data": {"values": [{}]},
            "mark": {"type": "rule", "size": 1.4, "strokeDash": [6, 4], **look},
            "encoding": {"y": at},
        },
        {
            "name": "halo",
            "data": {"values": [{}]},
            "mark": {
                "type": "text",
                "text": text,
                "align": "right",
                "baseline": "bottom",
                "dy": -4,
                "dx": -30,
                "fontSize": 12,
                **look,
            },
            "encoding": {"x": {"value": {"expr": "width"}}, "y": at},
        },
    ]
    for layer in spec["layer"]:
        scale = layer.get("encoding", {}).get("y", {}).get("scale")
        if scale is None:
            continue
        low, high = scale["domain"]
        span, room = high - low, f"{signal}_room"
        top = high + span if most is None else min(high + span, most)
        # An accepted loss has room below only if it lies there: most are at zero or above.
        bottom = low - span if most is None else max(low - span, 0.0)
        far = f"{room} == null" if most is not None else f"{room} == null || {room} >= {low}"
        scale["domain"] = [
            {"expr": f"{far} ? {low} : min({low}, max({room} - {span} / 12, {bottom}))"},
            {"expr": f"{room} == null ? {high} : max({high}, min({room} + {span} / 8, {top}))"},
        ]


def _compiled(
    spec: dict[str, Any], heading: str, epsilon: float | None, *, is_lowest: bool
) -> dict[str, Any]:
    """Add the movable line and the heading, and compile."""
    import altair as alt
    import vl_convert

    # The line of a single budget would hide its bar, and has nowhere to go.
    spec["params"].append({"name": CHOSEN_SIGNAL, "value": 1.0 if epsilon is None else epsilon})
    if epsilon is not None:
        # Above the curves, below the words.
        words = [place for place, layer in enumerate(spec["layer"]) if layer.get("name") == "halo"]
        spec["layer"].insert(
            min(words, default=len(spec["layer"])),
            {
                "name": "chosen",
                "data": {"values": [{}]},
                "mark": {
                    "type": "rule",
                    "size": 2,
                    "color": ACCENT,
                    # Infinity has no place on the axis: null hides the line.
                    "opacity": {"expr": f"{CHOSEN_SIGNAL} == null ? 0 : 1"},
                },
                "encoding": {
                    "x": {
                        "datum": {"expr": f"{CHOSEN_SIGNAL} || {epsilon}"},
                        "type": "quantitative",
                    },
                    # From plot to plot the line goes on.
                    "y": {"value": -_HEAD},
                    "y2": {"value": {"expr": f"height + {0 if is_lowest else _AXIS}"}},
                },
            },
        )
    spec["layer"].append(
        {
            "name": "halo",
            "data": {"values": [{}]},
            "mark": {
                "type": "text",
                "text": sentence_case(heading),
                "align": "left",
                "baseline": "bottom",
                "fontSize": 12.5,
                "fontWeight": 600,
                "color": INK,
            },
            "encoding": {"x": {"value": -_LEFT + 8}, "y": {"value": -10}},
        }
    )
    for number, layer in enumerate(spec["layer"]):
        if layer.get("name") in ("halo", "limit", "chosen"):
            layer["name"] = f"{layer['name']}_{number}"
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    compiled: dict[str, Any] = vl_convert.vegalite_to_vega(spec, vl_version=version)
    return compiled


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
        Dash pattern of the line, as SVG writes it; None without a line.
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
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                     loss_change=0.02)]
    >>> [entry.words for entry in cost_key(example_document("whatif", cells=cells), "loss")]
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
    >>> from epsilens.document import RiskCell, example_document
    >>> document = example_document("risk", n_models=256,
    ...     n_targets=9, cells=[RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.55)])
    >>> [entry.words[:8] for entry in risk_key(document, "membership")]
    ['measured', 'what cha']
    """
    panel = next(panel for panel in risk_panels(document) if panel.name == attack)
    rows = risk_rows(document)
    entries = [
        KeyEntry(
            line.name,
            line.colour,
            dash=" ".join(map(str, line.dash)),
            point=None if line.shape is None else _PATHS[line.shape],
            is_hollow=line.shape in {"square", "triangle-up"},
        )
        for line in panel.series
        if any(row[line.field] is not None for row in rows)
    ]
    if panel.floor is not None:
        entries.append(KeyEntry(panel.floor[0], FLOOR, is_area=True))
    return entries


def page_charts(
    document: WhatIfDocument | DecisionDocument,
    epsilon: float,
    limits: Mapping[str, float | None],
    limit_words: str = "",
) -> dict[str, Any]:
    """Make the charts of the page and the sentences that belong to them.

    Parameters
    ----------
    document : WhatIfDocument or DecisionDocument
        What is reported on.
    epsilon : float in (0, inf)
        Where the movable line stands at first.
    limits : mapping of "mistakes", "loss" and "rate" to number or None
        Where the lines of the limits stand at first.
    limit_words : str
        What is written beside that of the attack.

    Returns
    -------
    dict
        `charts` and `captions` by outcome, `risk_charts` and `risk_captions` by attack.

    Raises
    ------
    InputError
        If there is no number to draw.
    """
    cost, is_decision = document.cost, document.risk is not None
    budgets = common_budgets(document) if isinstance(document, DecisionDocument) else None
    outcomes = available_outcomes(cost)
    if not outcomes:
        raise InputError(
            "expected at least one number to report on, got none: every estimate is missing. "
            "Ask for another method or another epsilon."
        )
    found: dict[str, Any] = {"charts": {}, "captions": {}, "risk_charts": {}, "risk_captions": {}}
    keys: dict[str, list[KeyEntry]] = {}
    for outcome in outcomes:
        found["charts"][outcome] = page_chart(
            cost,
            outcome=outcome,
            epsilon=epsilon,
            limit=limits.get(outcome),
            budgets=budgets,
            is_lowest=not is_decision,
            height=_HEIGHT if is_decision else 2 * _HEIGHT,
        )
        lines = subtitle_lines(cost, *plotted_rows(cost, outcome), outcome=outcome)
        found["captions"][outcome] = " ".join(lines)
        keys[outcome] = cost_key(cost, outcome)
    if isinstance(document, DecisionDocument):
        for panel in risk_panels(document.risk):
            found["risk_charts"][panel.name] = risk_page_chart(
                document.risk,
                attack=panel.name,
                epsilon=epsilon,
                max_attack_rate=limits.get("rate"),
                limit_words=limit_words,
                budgets=budgets,
                height=_HEIGHT,
            )
            found["risk_captions"][panel.name] = _risk_caption(document.risk, panel.name)
            keys[panel.name] = risk_key(document.risk, panel.name)
    return found | {"keys": keys}


def _risk_caption(document: RiskDocument, attack: str) -> str:

    said = models_text(document)
    parts = [f"{sentence_case(said)}."]
    if attack == "answer":
        parts.append(
            f"The attacks guess {answers_text(document.protect)}"
            f"{', all of them at once' if len(document.protect) > 1 else ''}. {ATTACKERS} "
            "The ceiling holds for every attack, given the upper bound of what everybody else's data "
            "give away."
        )
    else:
        parts.append(
            f"The most exposed of {document.n_targets:,} records: the largest of so many "
            "rates is large by chance alone, and inside the grey it shows nothing. Randomised "
            "response protects the answer, not membership: there is no ceiling."
        )
    return " ".join([*parts, *outside_lines(document)])
