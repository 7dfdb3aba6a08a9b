# SPDX-License-Identifier: Apache-2.0
"""The picture of a decision in a terminal: a few lines of text that a pipe or a file takes as well."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from epsilens.document import DecisionDocument
from epsilens.document.decision import TITLES, MechanismName
from epsilens.document.view import thinned
from epsilens.document.wording import at_most_text, epsilon_text
from epsilens.show.mechanisms import MechanismAxes, mechanism_axes

WIDEST = 80
"""Columns that a picture takes at most."""
NARROWEST = 40
"""Columns below which there is no picture."""
_HEIGHT = 8
"""Lines between the axes."""
_MOST_POINTS = 8
"""Points of a mechanism that are drawn, beside the recommended one."""
_TICKS = (0, 10, 1, 30, 100, 3, 50, 75, 20)
"""Advantages in per cent that are written below the axis, the most important first."""
_LETTERS: dict[MechanismName, str] = {
    "randomised-response": "R",
    "randomised-response-corrected": "C",
    "noisy-descent": "N",
    "output-perturbation": "O",
    "dp-sgd": "D",
    "dp-ebm": "B",
    "synthetic-aim": "S",
}


@dataclass(frozen=True)
class _Signs:
    """What lines and marks are drawn with."""

    chosen: str = "●"
    path: str = "·"
    across: str = "─"
    up: str = "│"
    corner: str = "└"
    cost_limit: str = "╌"
    attack_limit: str = "┊"
    epsilon: str = "ε"
    minus: str = "−"


_PLAIN = _Signs("*", ".", "-", "|", "+", "-", ":", "epsilon", "-")


@dataclass(frozen=True)
class _Mark:
    """A point of the picture: its place from 0 to 1 on both axes."""

    across: float
    up: float
    letter: str
    is_chosen: bool
    label: str


@dataclass
class _Canvas:
    """A grid of characters; the first line is the upper one."""

    width: int
    height: int
    lines: list[list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = [[" "] * self.width for _ in range(self.height)]

    def column(self, share: float) -> int:
        """Return the column of a place from 0 to 1."""
        return round(min(max(share, 0.0), 1.0) * (self.width - 1))

    def line(self, share: float) -> int:
        """Return the line of a height from 0 to 1."""
        return round((1.0 - min(max(share, 0.0), 1.0)) * (self.height - 1))

    def is_free(self, line: int, column: int, length: int = 1) -> bool:
        """Say whether nothing stands there, and there is room."""
        if not 0 <= column <= self.width - length:
            return False
        return all(sign == " " for sign in self.lines[line][column : column + length])

    def write(self, line: int, column: int, text: str) -> None:
        """Write a text over whatever stands there."""
        self.lines[line][column : column + len(text)] = text


def decision_picture(
    document: DecisionDocument, *, width: int = WIDEST, is_plain: bool = False
) -> str:
    """Draw what mechanisms cost against what they give away, as lines of text.

    Across is the proven advantage in per cent and up is the cost, as in `mechanism_chart`. With one
    mechanism, ε is across, and below it stands the share of answers that any attack guesses at most.

    Parameters
    ----------
    document : DecisionDocument
    width : int
        Columns of the terminal; no more than 80 are used.
    is_plain : bool
        Whether the terminal has no more than the characters of ASCII.

    Returns
    -------
    str
        About twelve lines without colours, each after a space; empty if there is nothing to draw, or in
        fewer than 40 columns.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> picture = decision_picture(example_document("decision"), is_plain=True)
    >>> picture.isascii(), max(map(len, picture.splitlines())) <= 80
    (True, True)
    """
    axes = mechanism_axes(document, is_short=True)
    signs = _PLAIN if is_plain else _Signs()
    if not axes.rows or width < NARROWEST:
        return ""
    room = min(width, WIDEST)
    if document.is_comparison or document.risk.is_together:
        lines = _by_advantage(document, axes, signs, room)
    else:
        lines = _by_epsilon(document, axes, signs, room)
    return "\n".join(line.rstrip() for line in lines)


def _by_advantage(
    document: DecisionDocument, axes: MechanismAxes, signs: _Signs, width: int
) -> Iterator[str]:
    """Draw the cost of all mechanisms over the proven advantage."""
    marks = _marks(axes, [axes.across(row["advantage"]) for row in axes.rows], signs)
    share = _advantage_limit(document)
    limit = None if share is None else axes.across(100.0 * share)
    yield from _framed(document, axes, marks, limit, signs, width)
    margin = _margin(axes, signs)
    ticks = [(axes.across(percent), (f"{percent}",)) for percent in _TICKS]
    yield from (" " * margin + line for line in _tick_lines(ticks, width - margin))
    yield from _wrapped(
        "% guessable at most, of the answers the rest do not give away (proven)", width, margin
    )
    yield from _legend(document, axes, signs, width)


def _by_epsilon(
    document: DecisionDocument, axes: MechanismAxes, signs: _Signs, width: int
) -> Iterator[str]:
    """Draw the cost of the only mechanism over ε, with the ceiling of an attack below."""
    rows = [row for row in axes.rows if 0.0 < row["epsilon"] < math.inf]
    if not rows:
        return
    low, high = (math.log(end([row["epsilon"] for row in rows])) for end in (min, max))
    places = [
        0.5 if low == high else (math.log(row["epsilon"]) - low) / (high - low) for row in rows
    ]
    drawn = replace(axes, rows=rows)
    yield from _framed(
        document,
        drawn,
        _marks(drawn, places, signs),
        _epsilon_limit(document, rows, places),
        signs,
        width,
    )
    margin = _margin(axes, signs)
    where = sorted(zip(places, rows, strict=True), key=lambda pair: not pair[1]["chosen"])
    chosen = [pair for pair in where if pair[1]["chosen"]]
    ends = [pair for pair in where if pair[0] in (0.0, 1.0)]
    order = [*chosen, *ends, *(pair for pair in where if pair not in chosen + ends)]
    ceilings = {
        cell.budget: cell.attack_rate_ceiling
        for curve in document.mechanisms
        for cell in curve.cells
        if cell.attack_rate_ceiling is not None
    }
    texts = [
        (place, (epsilon_text(row["epsilon"]), at_most_text(ceilings.get(row["epsilon"]))))
        for place, row in order
    ]
    below = _tick_lines(texts, width - margin)
    yield _beside(signs.epsilon, margin) + below[0]
    if ceilings:
        yield _beside("ceiling", margin) + below[1]
        said = "Ceiling: share of the answers guessed at most (proven given other data)"
        yield from _wrapped(said, width, 1)
    yield from _legend(document, drawn, signs, width)


def _framed(
    document: DecisionDocument,
    axes: MechanismAxes,
    marks: Sequence[_Mark],
    limit: float | None,
    signs: _Signs,
    width: int,
) -> Iterator[str]:
    """Draw the points, the limits and both axes."""
    margin, kind = _margin(axes, signs), document.chosen_cost_type()
    canvas = _Canvas(width - margin, _HEIGHT)
    ours = "our default limit" if document.recommendation.is_default else "limit"
    if axes.limit is not None:
        canvas.write(canvas.line(axes.up(axes.limit)), 0, signs.cost_limit * canvas.width)
    if limit is not None:
        for line in range(canvas.height):
            canvas.write(line, canvas.column(limit), signs.attack_limit)
    chosen = [mark for mark in marks if mark.is_chosen]
    best = {mark.letter for mark in chosen}
    for first, second in pairwise(mark for mark in marks if mark.letter in best):
        for step in range(2 * canvas.width):
            share = step / (2 * canvas.width)
            line = canvas.line(first.up + share * (second.up - first.up))
            column = canvas.column(first.across + share * (second.across - first.across))
            if canvas.is_free(line, column):
                canvas.write(line, column, signs.path)
    few: list[_Mark] = []
    for letter in dict.fromkeys(mark.letter for mark in marks):
        own = [mark for mark in marks if mark.letter == letter]
        few += thinned(own, _MOST_POINTS) + [mark for mark in own if mark.is_chosen]
    for mark in sorted(few, key=lambda mark: (mark.is_chosen, mark.letter in best)):
        line, column = canvas.line(mark.up), canvas.column(mark.across)
        if not mark.is_chosen and canvas.lines[line][column] in _LETTERS.values():
            # What would hide another letter stands beside it.
            beside = (one for one in (column + 1, column - 1) if canvas.is_free(line, one))
            column = next(beside, column)
        canvas.write(line, column, signs.chosen if mark.is_chosen else mark.letter)
    for mark in chosen:
        line, column = canvas.line(mark.up), canvas.column(mark.across)
        near = [one for one in (line, line - 1, line + 1) if 0 <= one < canvas.height]
        any(_write_beside(canvas, one, column, mark.label, signs) for one in near)
    if axes.limit is not None:
        # As far to the right as nothing else stands, with a space at both ends but for that of the line.
        line, word = canvas.line(axes.up(axes.limit)), " limit "
        row = "".join(canvas.lines[line]) + signs.cost_limit
        if (start := row.rfind(signs.cost_limit * len(word))) >= 0:
            canvas.write(line, start, word[: canvas.width - start])
    if limit is not None:
        column = canvas.column(limit)
        any(_write_beside(canvas, n, column, ours, signs) for n in range(canvas.height))
    yield f" {axes.words} ({kind})"
    ticks = _cost_ticks(axes, canvas, signs)
    for number, signs_of_line in enumerate(canvas.lines):
        yield _beside(ticks.get(number, ""), margin, signs.up) + "".join(signs_of_line)
    yield _beside("", margin, signs.corner) + signs.across * canvas.width


def _marks(axes: MechanismAxes, places: Sequence[float], signs: _Signs) -> list[_Mark]:
    return [
        _Mark(
            place,
            axes.up(row["cost"]),
            _LETTERS[row["mechanism"]],
            row["chosen"],
            row["label"].replace("ε", signs.epsilon),
        )
        for place, row in zip(places, axes.rows, strict=True)
    ]


def _write_beside(canvas: _Canvas, line: int, column: int, text: str, signs: _Signs) -> bool:
    """Write a text to the right of a place or to the left of it; say whether there was room."""
    is_over = {" ", signs.path, signs.cost_limit}
    for start, padded in ((column + 1, f" {text}"), (column - 1 - len(text), f"{text} ")):
        there = canvas.lines[line][max(start, 0) : start + len(padded)]
        if start >= 0 and start + len(padded) <= canvas.width and is_over.issuperset(there):
            canvas.write(line, start, padded)
            return True
    return False


def _advantage_limit(document: DecisionDocument) -> float | None:
    """Return the largest advantage within the limit on the attack; None without one that is proven."""
    chosen = document.recommendation
    if chosen.rests_on == "measured":
        return None
    if chosen.max_attack_rate is None:
        return chosen.max_advantage
    before = next((cell.answer_inference_baseline_high for cell in document.risk.cells), None)
    if before is None or not before < chosen.max_attack_rate:
        return None
    return (chosen.max_attack_rate - before) / (1.0 - before)


def _epsilon_limit(
    document: DecisionDocument, rows: Sequence[dict[str, object]], places: Sequence[float]
) -> float | None:
    """Return the place between the last ε within the limit on the attack and the next; None without one."""
    chosen = document.recommendation
    limit = chosen.max_attack_rate
    if chosen.rests_on == "measured" or (limit is None and chosen.max_advantage is None):
        return None
    cells = {cell.budget: cell for curve in document.mechanisms for cell in curve.cells}
    within = []
    for row, place in zip(rows, places, strict=True):
        cell = cells[row["epsilon"]]  # type: ignore[index]
        share = cell.advantage if limit is None else cell.attack_rate_ceiling
        most = chosen.max_advantage if limit is None else limit
        if share is not None and most is not None and share <= most:
            within.append(place)
    if not within:
        return None
    last = max(within)
    beyond = [place for place in places if place > last]
    return (last + min(beyond)) / 2 if beyond else None


def _cost_ticks(axes: MechanismAxes, canvas: _Canvas, signs: _Signs) -> dict[int, str]:
    """Choose the costs that are written beside the lines: 0, the largest, then what has room."""
    powers = [scale * 10.0**power for power in range(-4, 9) for scale in (1, 3)]
    within = [
        value
        for value in (*reversed(powers), *(-power for power in reversed(powers)))
        if axes.bottom <= value <= axes.top
    ]
    found: dict[int, str] = {}
    for value in (0.0, *within):
        line = canvas.line(axes.up(value))
        if all(abs(line - other) > 1 for other in found):
            found[line] = f"{value:+,g}".replace("-", signs.minus) if value else "0"
    return found


def _margin(axes: MechanismAxes, signs: _Signs) -> int:
    """Return the columns to the left of the points: a space, a number, a space and the axis."""
    ticks = _cost_ticks(axes, _Canvas(1, _HEIGHT), signs)
    return max(len("ceiling"), *map(len, ticks.values())) + 3


def _beside(text: str, margin: int, axis: str = " ") -> str:
    return f"{text:>{margin - 2}} {axis}"


def _wrapped(text: str, width: int, margin: int) -> list[str]:
    """Return lines of a text behind a margin."""
    return [" " * margin + line for line in textwrap.wrap(text, width - margin)]


def _tick_lines(ticks: Sequence[tuple[float, tuple[str, ...]]], width: int) -> list[str]:
    """Write texts below their places, each on a line of its own; where there is no room none is written."""
    canvas = _Canvas(width, len(ticks[0][1]))
    for share, texts in ticks:
        room = max(map(len, texts))
        start = min(max(canvas.column(share) - (room - 1) // 2, 0), width - room)
        around = max(start - 1, 0)
        length = min(start + room + 1, width) - around
        if all(canvas.is_free(line, around, length) for line in range(canvas.height)):
            for line, text in enumerate(texts):
                canvas.write(line, start, f"{text:^{room}}")
    return ["".join(line) for line in canvas.lines]


def _legend(
    document: DecisionDocument, axes: MechanismAxes, signs: _Signs, width: int
) -> Iterator[str]:
    """Name the letters and the mark, the recommended mechanism first."""
    names = list(dict.fromkeys(row["mechanism"] for row in axes.rows))
    best = document.recommendation.mechanism
    names.sort(key=lambda name: name != best)
    items = [f"{_LETTERS[name]} {TITLES[name]}" for name in names]
    if any(row["chosen"] for row in axes.rows):
        items.insert(0, f"{signs.chosen} recommended")
    line = ""
    for item in items:
        if line and len(line) + 2 + len(item) > width:
            yield line
            line = ""
        line += f"  {item}" if line else f" {item}"
    yield line
