# SPDX-License-Identifier: Apache-2.0
"""Several studies in one chart and one table: their costs and their attacks on one axis of budgets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from epsilens.document import DecisionDocument, RiskDocument, WhatIfDocument
from epsilens.document.clauses import (
    NOTHING_HIDDEN,
    change_title,
    is_randomised_response,
    unanswered_text,
)
from epsilens.document.decision import randomising_mechanism
from epsilens.document.wording import (
    EVERYBODY,
    Outcome,
    at_most_text,
    budget_title,
    change_text,
    cost_type,
    epsilon_text,
    is_model_release,
    loss_decimals,
    loss_text,
    loss_unit,
    percent_text,
)
from epsilens.errors import InputError
from epsilens.show.cost import drawn_text
from epsilens.show.look import (
    ACCENT,
    INK,
    available_outcomes,
    change_limits,
    dressed,
    plotted_rows,
    subtitle,
)
from epsilens.show.risk import Panel, Series, draw_panel, panel_limits, risk_rows

if TYPE_CHECKING:
    import altair as alt


Compared: TypeAlias = WhatIfDocument | DecisionDocument

LETTERS = "ABCD"
COLOURS = (ACCENT, "#b8500f", "#0b7a5e", "#96407a")
_DASHES = ((1, 0), (9, 4), (10, 3, 2, 3), (4, 3))
_SHAPES = ("circle", "square", "triangle-up", "diamond")
_PROVEN = (1, 3)
TITLE = "Studies side by side"
_LINE = 15
"""Pixels between two letters."""
_BELOW = 25
"""Pixels by which a letter is lowered to stand below its line."""
_NARROW = 480
"""Plots that are narrower show letters without names."""
_LONGEST_NAME = 22
"""Longer names stand in the legend only: a line has its letter."""
_COSTS, _GUESSES = "costs", "guesses"
_POINTS = 7
"""About so many points stand on a line: more of them would hide its dash."""


@dataclass(frozen=True)
class _Study:
    """One study and its place among the others."""

    place: int
    name: str
    cost: WhatIfDocument
    risk: RiskDocument | None
    recommended: float | None
    is_other_recommended: bool
    letter: str
    is_first_order: bool
    n_protected: int

    @classmethod
    def of(cls, place: int, name: str, document: Compared) -> _Study:
        """Read a study off its document."""
        # The ε of another mechanism has no place on this axis.
        chosen = document.recommendation if isinstance(document, DecisionDocument) else None
        is_other = chosen is not None and chosen.mechanism != randomising_mechanism(document.cost)
        protect = document.cost.provenance.settings.get("protect")
        return cls(
            place,
            name,
            document.cost,
            document.risk,
            chosen.epsilon if chosen is not None and chosen.holds and not is_other else None,
            is_other and chosen is not None and chosen.holds,
            LETTERS[place],
            all(cell.method == "influence" for cell in document.cost.cells),
            len(protect) if isinstance(protect, list | tuple) else 1,
        )

    def series(self, field: str, band: tuple[str, str]) -> Series:
        """Draw a field of this study in its look."""
        own = tuple(f"{name}_{self.place}" for name in (field, *band))
        return Series(
            f"{self.letter} · {self.name}{' (first-order)' if self.is_first_order else ''}",
            own[0],
            COLOURS[self.place],
            _DASHES[self.place],
            shape=_SHAPES[self.place],
            band=(own[1], own[2]),
            marks="marked",
            segment="segment" if field == "change" else None,
        )


def comparison_chart(
    studies: Sequence[tuple[str, Compared]],
    *,
    width: int = 640,
    height: int = 250,
    is_titled: bool = True,
) -> alt.VConcatChart:
    """Draw what each budget costs and what an attacker gets in several studies, on one axis.

    The upper plot holds the further mistakes in 1,000 of each study, or the change of the test loss where mistakes
    are not known for all, with the range one real run may show. Below, for the studies whose attack was measured,
    stands how often the protected answers are guessed, with dotted lines above that nobody can exceed. Vertical
    lines are the recommended budgets; a study that recommends another mechanism has none. Everyone is randomised
    in all of them.

    Parameters
    ----------
    studies : sequence of (str, WhatIfDocument or DecisionDocument)
        Two to four names with what was found.
    width, height : int
        Size of each plot in pixels.
    is_titled : bool
        Whether a title stands above; where a heading does already, only what is to be known is said.

    Returns
    -------
    altair.VConcatChart
        A Vega-Lite chart; `save_chart` writes it.

    Raises
    ------
    InputError
        If the studies must not share an axis: budgets that promise different things, or losses in
        different units.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> found = [example_document("whatif", cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=cost / epsilon) for epsilon in (0.5, 1.0, 2.0)])
    ...     for cost in (0.02, 0.03)]
    >>> chart = comparison_chart([("smokes", found[0]), ("drinks", found[1])])
    >>> chart.to_dict()["title"]["text"]
    'Studies side by side'
    """
    import altair as alt

    if not 2 <= len(studies) <= len(LETTERS):
        raise InputError(
            argument="studies",
            expected=f"2 to {len(LETTERS)}",
            got=str(len(studies)),
            hint="Choose fewer, or more.",
        )
    compared = [_Study.of(place, name, found) for place, (name, found) in enumerate(studies)]
    _check_one_axis(compared)
    counted = all("mistakes" in available_outcomes(study.cost) for study in compared)
    outcome: Outcome = "mistakes" if counted else "loss"
    costs, guesses = _cost_rows(compared, outcome), _guess_rows(compared)
    budgets = sorted({float(row["epsilon"]) for row in [*costs, *guesses]})
    attacked = [study for study in compared if study.risk is not None] if guesses else []
    size = (width, height)
    parts = [_cost_part(alt, compared, costs, budgets, outcome, size=size, is_lowest=not attacked)]
    if attacked:
        parts.append(_guess_part(alt, attacked, guesses, budgets, size=size))
    lines = _recommended_lines(alt, compared)
    apart = {name: "independent" for name in ("stroke", "fill", "shape")}
    words = subtitle(_subtitle(compared), width)
    title = (
        alt.TitleParams(text=TITLE, subtitle=words)
        if is_titled
        else alt.TitleParams(text=words, fontSize=12.5, fontWeight="normal", color=INK)
    )
    chart: alt.VConcatChart = dressed(
        alt.vconcat(
            *(alt.layer(*lines, *part) for part in parts),
            spacing=24,
            resolve=alt.Resolve(scale=apart, legend=apart),
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
            title=title,
            description=_spoken(compared, costs, guesses, outcome),
        ),
        title_offset=14,
    )
    # Last, because Altair copies everything at every step.
    chart.datasets = {_COSTS: costs, _GUESSES: guesses}
    return chart


def _check_one_axis(studies: Sequence[_Study]) -> None:
    """Refuse what must not be joined: other promises, other units."""
    risks = [study.risk for study in studies if study.risk is not None]
    if len({is_model_release(study.cost) for study in studies}) > 1 or not all(
        map(is_randomised_response, risks)
    ):
        raise InputError(
            "studies on one axis must have budgets that promise the same: randomised answers and noise "
            "on a model or its training do not. Compare them apart."
        )
    if len({budget_title(study.cost) for study in studies}) > 1:
        raise InputError(
            "studies on one axis must all give their budgets for a column, or all for a record. Compare "
            "them apart."
        )
    if len({loss_unit(study.cost) for study in studies}) > 1:
        raise InputError(
            "studies on one axis must have losses in one unit: those of answers are in nats, those of "
            "numbers are squared errors. Compare them apart."
        )


def _cost_rows(studies: Sequence[_Study], outcome: Outcome) -> list[dict[str, Any]]:
    parts = []
    for study in studies:
        drawn, _ = plotted_rows(study.cost, outcome)
        # Everyone is always asked about first; a study of one group alone shows that one.
        first = EVERYBODY if any(row["group"] == EVERYBODY for row in drawn) else drawn[0]["group"]
        mine = [row for row in drawn if row["group"] == first]
        parts.append(
            [
                {"epsilon": row["epsilon"], "segment": row["segment"]}
                | {f"{name}_{study.place}": row[name] for name in ("change", "low", "high")}
                for row in mine
            ]
        )
    return _completed(parts)


def _guess_rows(studies: Sequence[_Study]) -> list[dict[str, Any]]:
    names = ("rate", "low", "high", "ceiling")
    parts = [
        [
            {"epsilon": row["epsilon"]}
            | {f"{name}_{study.place}": row[f"answer_inference_{name}"] for name in names}
            for row in risk_rows(study.risk)
            if row["answer_inference_rate"] is not None
        ]
        for study in studies
        if study.risk is not None
    ]
    return _completed(parts)


def _completed(parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Give every row every field, None where another study stands; a few of each study have points."""
    names = {name: None for rows in parts for row in rows for name in row}
    found = []
    for rows in parts:
        budgets = sorted({row["epsilon"] for row in rows})
        few = set(budgets[:: max(1, len(budgets) // _POINTS)])
        found += [names | row | {"marked": row["epsilon"] in few} for row in rows]
    return found


def _cost_part(
    alt: Any,
    studies: Sequence[_Study],
    rows: list[dict[str, Any]],
    budgets: Sequence[float],
    outcome: Outcome,
    *,
    size: tuple[int, int],
    is_lowest: bool,
) -> list[Any]:
    from epsilens.show.offline import layer_of

    first = studies[0].cost
    series = tuple(study.series("change", ("low", "high")) for study in studies)
    axis = change_title(first, outcome)
    panel = Panel("answer", f"What it costs ({cost_type(first)})", axis, series, percent=False)
    values = [row[name] for row in rows for name in panel.fields()]
    ends = change_limits(values, None)
    plot = draw_panel(
        panel,
        rows,
        title=_axis_title(studies, size) if is_lowest else None,
        size=size,
        budgets=budgets,
        ends=ends,
        data=_COSTS,
    )
    zero = layer_of([{"zero": 0}]).mark_rule(color="#9a9fa8", size=1)
    named = _labels(alt, studies, rows, "change", ends=ends, size=size)
    return [zero.encode(y="zero:Q"), plot, *named]


def _guess_part(
    alt: Any,
    studies: Sequence[_Study],
    rows: list[dict[str, Any]],
    budgets: Sequence[float],
    *,
    size: tuple[int, int],
) -> list[Any]:
    measured = tuple(study.series("rate", ("low", "high")) for study in studies)
    proven = tuple(
        Series("", f"ceiling_{study.place}", COLOURS[study.place], _PROVEN) for study in studies
    )
    words = "What an attacker guesses (measured)"
    if size[0] < _NARROW:
        words = "What is guessed (measured)"
    panel = Panel("answer", words, "guessed (%)", (*measured, *proven))
    ends = panel_limits(panel, rows)
    plot = draw_panel(
        panel,
        rows,
        title=_axis_title(studies, size),
        size=size,
        budgets=budgets,
        has_legend=False,
        data=_GUESSES,
    )
    return [plot, *_labels(alt, studies, rows, "rate", ends=ends, size=size)]


def _axis_title(studies: Sequence[_Study], size: tuple[int, int]) -> str:
    title = budget_title(studies[0].cost)
    if size[0] < _NARROW:
        return "ε"
    several = any(study.n_protected > 1 for study in studies)
    return f"{title} of each column" if several and title == "privacy budget ε" else title


def _labels(
    alt: Any,
    studies: Sequence[_Study],
    rows: list[dict[str, Any]],
    field: str,
    *,
    ends: tuple[float, float],
    size: tuple[int, int],
) -> list[Any]:
    """Put the letter of each study at its line, where the lines are furthest apart."""
    from epsilens.show.offline import layer_of

    curves = {}
    for study in studies:
        own = f"{field}_{study.place}"
        points = sorted(
            (math.log(row["epsilon"]), row[own]) for row in rows if row[own] is not None
        )
        if points:
            curves[study.place] = np.array(points).T
    if not curves:
        return []
    left = max(curve[0][0] for curve in curves.values())
    right = min(curve[0][-1] for curve in curves.values())
    # A little inside, so that no letter stands on an end of the plot.
    places = np.linspace(left + 0.06 * (right - left), right - 0.06 * (right - left), 60)
    heights = np.array([np.interp(places, *curve) for curve in curves.values()])
    heights = (heights - ends[0]) / (ends[1] - ends[0]) * size[1]
    gaps = np.diff(np.sort(heights, axis=0), axis=0)
    best = int(np.argmax(gaps.min(axis=0))) if len(gaps) else 0
    at, stands = float(np.exp(places[best])), heights[:, best]
    is_left = best < len(places) / 2
    raised = _spread(stands, most=float(size[1]))
    texts = []
    for (place, _), height in zip(curves.items(), raised, strict=True):
        study = next(one for one in studies if one.place == place)
        is_short = size[0] >= _NARROW and len(study.name) <= _LONGEST_NAME
        words = f"{study.letter} · {study.name}" if is_short else study.letter
        texts.append((words, COLOURS[place], size[1] - height))
    layers: list[Any] = []
    for words, colour, height in texts:
        spot = layer_of([{"epsilon": at}]).encode(x="epsilon:Q", y=alt.value(height))
        look = {
            "align": "left" if is_left else "right",
            "baseline": "bottom",
            "dx": 8 if is_left else -8,
            "dy": -5,
            "fontSize": 12.5,
            "fontWeight": 600,
            "text": words,
        }
        # A bright edge below, so that the words can be read where lines cross them.
        layers.append(spot.mark_text(color="white", stroke="white", strokeWidth=4, **look))
        layers.append(spot.mark_text(color=colour, **look))
    return layers


def _spread(heights: np.ndarray[Any, np.dtype[np.float64]], *, most: float) -> list[float]:
    """Move words apart: each above its line, the lowest below its own where the next is near.

    Others are moved upwards, and back down where they would leave the plot.
    """
    order = np.argsort(heights, kind="stable")
    moved = heights.astype(float).copy()
    lowest = order[0]
    if len(order) > 1 and moved[order[1]] - moved[lowest] < 2 * _LINE and moved[lowest] > _BELOW:
        moved[lowest] -= _BELOW
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + _LINE)
    excess = max(0.0, float(moved.max()) - (most - _LINE))
    return [float(height) for height in moved - excess]


def _recommended_lines(alt: Any, studies: Sequence[_Study]) -> list[Any]:
    from epsilens.show.offline import layer_of

    lines = []
    for study in studies:
        epsilon = study.recommended
        if epsilon is None or not 0 < epsilon < math.inf:
            continue
        at = layer_of([{"epsilon": epsilon}])
        mark = at.mark_rule(
            size=1.6,
            color=COLOURS[study.place],
            strokeDash=list(_DASHES[study.place]),
            opacity=0.75,
        )
        lines.append(mark.encode(x="epsilon:Q"))
    return lines


def _subtitle(studies: Sequence[_Study]) -> list[str]:
    lines = ["Bands: 9 in 10 real runs."]
    if any(study.recommended is not None for study in studies):
        lines = ["Bands: 9 in 10 real runs. Vertical lines: the recommended ε."]
    others = [study.letter for study in studies if study.is_other_recommended]
    if others:
        lines.append(f"Another mechanism is recommended: {', '.join(others)}.")
    if any(study.risk is not None for study in studies):
        lines.append("Dotted: what nobody can exceed (proven).")
    rough = [study.letter for study in studies if study.is_first_order]
    if rough:
        lines.append(f"First-order estimates: {', '.join(rough)}.")
    waiting = [study.letter for study in studies if study.risk is None]
    if waiting:
        lines.append(f"No attack measured: {', '.join(waiting)}.")
    joint = [study.letter for study in studies if study.n_protected > 1]
    if joint:
        verb = "spends" if len(joint) == 1 else "spend"
        lines.append(
            f"{', '.join(joint)} {verb} ε on each of several columns; all must be guessed."
        )
    for study in studies:
        if (unanswered := unanswered_text(study.cost)) is not None:
            lines.append(f"{study.letter}: {unanswered[0].lower()}{unanswered[1:]}")
    return lines


def _spoken(
    studies: Sequence[_Study],
    costs: list[dict[str, Any]],
    guesses: list[dict[str, Any]],
    outcome: Outcome,
) -> str:
    """Say in words what the chart shows, for those who do not see it."""
    said = [
        f"{TITLE}: {change_title(studies[0].cost, outcome)} and answers guessed against the privacy "
        "budget epsilon on a logarithmic axis."
    ]
    for study in studies:
        parts = []
        for rows, field in ((costs, "change"), (guesses, "rate")):
            own = f"{field}_{study.place}"
            known = sorted(
                (row for row in rows if row.get(own) is not None),
                key=lambda row: float(row["epsilon"]),
            )
            for row in [known[0], known[-1]] if known else []:
                text = f"{percent_text(row[own] / 100)} guessed"
                if field == "change":
                    text = drawn_text(study.cost, row[own], outcome)
                parts.append(f"{text} at epsilon {epsilon_text(row['epsilon'])}")
        chosen = study.recommended
        if chosen is not None:
            parts.append(f"recommended epsilon {epsilon_text(chosen)}")
        rough = " (first-order)" if study.is_first_order else ""
        said.append(f"{study.letter}, {study.name}{rough}: {', '.join(parts)}.")
    return " ".join(said)


def comparison_texts(numbers: Mapping[str, object]) -> dict[str, str]:
    """Give the numbers of one study as the text that its report shows.

    Parameters
    ----------
    numbers : mapping
        `n_train`, `baseline_loss`, `epsilon`, `loss_change`, `loss_change_high`,
        `answer_inference_high` and `answer_inference_ceiling` as JSON has them: a number, "inf", or
        None where it is not known. And `advantage`, `accuracy_change` and `accuracy_change_low`, which may be left
        out.

    Returns
    -------
    dict
        A text for each; what nothing exceeds is rounded up. A change of accuracy is told in mistakes.

    Examples
    --------
    >>> found = comparison_texts({"n_train": 4774, "baseline_loss": 0.54, "epsilon": "inf",
    ...     "loss_change": 0.02, "loss_change_high": None, "answer_inference_high": 0.7301,
    ...     "answer_inference_ceiling": 0.8731})
    >>> found["epsilon"], found["loss_change"], found["answer_inference_ceiling"]
    ('∞', '+0.0200', '87.4%')
    """
    known = {name: None if value is None else float(str(value)) for name, value in numbers.items()}
    decimals = loss_decimals(known["baseline_loss"])
    ceiling = at_most_text(known["answer_inference_ceiling"])
    advantage = at_most_text(known.get("advantage"))
    mistakes, most = (
        None if change is None else -1000.0 * change
        for change in map(known.get, ("accuracy_change", "accuracy_change_low"))
    )
    return {
        "mistakes": change_text(mistakes, decimals=0),
        "mistakes_high": change_text(most, decimals=0),
        "n_train": f"{int(known['n_train'] or 0):,}",
        "baseline_loss": loss_text(known["baseline_loss"], decimals=decimals),
        "epsilon": epsilon_text(known["epsilon"]),
        "loss_change": change_text(known["loss_change"], decimals=decimals),
        "loss_change_high": change_text(known["loss_change_high"], decimals=decimals),
        "answer_inference_high": at_most_text(known["answer_inference_high"]),
        "advantage": "nothing is proven" if advantage == NOTHING_HIDDEN else advantage,
        "answer_inference_ceiling": "nothing is proven" if ceiling == NOTHING_HIDDEN else ceiling,
    }
