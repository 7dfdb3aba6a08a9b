# SPDX-License-Identifier: Apache-2.0
"""The chart of mechanisms: what is written in it, and where."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from types import ModuleType
from typing import Any

import pytest

from epsilens.document import DecisionDocument
from epsilens.document.decision import BETWEEN, TITLES
from epsilens.document.view import mechanism_table
from epsilens.show.look import text_width
from epsilens.show.mechanisms import _labels, mechanism_axes, mechanism_chart
from epsilens.show.picture import decision_picture

SIZE = (720, 400)
USUAL = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def labels(document: DecisionDocument, size: tuple[int, int] = SIZE) -> list[dict[str, Any]]:
    """Return what is written, each with the box that it takes and the lines of all mechanisms."""
    axes = mechanism_axes(document)

    def place(row: dict[str, Any]) -> tuple[float, float]:
        return size[0] * axes.across(row["advantage"]), size[1] * axes.up(row["cost"])

    names = list(dict.fromkeys(row["mechanism"] for row in axes.rows))
    names.sort(key=lambda name: name != document.recommendation.mechanism)
    limit = None if axes.gain_limit is None else size[0] * axes.across(axes.gain_limit)
    cost_limit = None if axes.limit is None else size[1] * axes.up(axes.limit)
    found = _labels(axes.rows, names, place, size=size, limit=limit, cost_limit=cost_limit)
    for label in found:
        x, y = place(label)
        room = text_width(label["label"]) * (1.1 if label["is_name"] else 0.9)
        left = x + label["dx"] - (room if label["align"] == "right" else 0)
        label["box"] = (left, y - label["dy"] - 8, left + room, y - label["dy"] + 8)
        label["lines"] = {
            name: [place(row) for row in axes.rows if row["mechanism"] == name] for name in names
        }
        label["cost_limit"] = cost_limit
    return found


def within(box: tuple[float, ...], start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Say whether a straight line goes through a box, at a hundred of its points."""
    for n in range(101):
        x, y = (one + n / 100 * (other - one) for one, other in zip(start, end, strict=True))
        if box[0] < x < box[2] and box[1] < y < box[3]:
            return True
    return False


@pytest.mark.parametrize("asked", [{}, {"max_accuracy_loss": 1.0}, {"max_accuracy_loss": 0.3}])
@pytest.mark.parametrize("size", [SIZE, (290, 210)])
def test_no_word_covers_another_or_lies_on_another_line(
    build: ModuleType, asked: dict[str, float], size: tuple[int, int]
) -> None:
    found = labels(build.make_comparison(mechanisms=build.ALL_OTHERS, **asked), size)
    assert found
    for one, other in combinations([label["box"] for label in found], 2):
        assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    for label in found:
        # The first name stands somewhere in any case.
        if label["is_name"] and label["chosen"]:
            continue
        # Lines are looked at every ten pixels: a corner may be touched.
        box = [label["box"][0] + 6, label["box"][1] + 6, label["box"][2] - 6, label["box"][3] - 6]
        for name, line in label["lines"].items():
            crossed = any(within(box, *ends) for ends in pairwise(line))
            assert name == label["mechanism"] or not crossed, (label["label"], name)
        if (at := label["cost_limit"]) is not None and label["box"][2] > size[0] - 80:
            assert label["box"][3] <= at or label["box"][1] >= at + 20


def test_the_names_of_limits_have_a_bright_edge_above_all_else(build: ModuleType) -> None:
    spec = mechanism_chart(build.make_comparison(max_accuracy_loss=1.0)).to_dict()
    texts = [layer["mark"] for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    limits = [mark for mark in texts if "limit" in str(mark.get("text"))]
    assert ["stroke" in mark for mark in limits] == [True, False, True, False]
    labels_at = [n for n, mark in enumerate(texts) if "expr" in str(mark.get("fontSize"))]
    assert texts.index(limits[0]) > max(labels_at)


def test_budgets_between_are_points_of_the_chart_and_are_not_written(build: ModuleType) -> None:
    grid = sorted({*USUAL, *BETWEEN})
    document = build.make_comparison(epsilons=grid, max_advantage=0.26)
    few = build.make_comparison(epsilons=USUAL, max_advantage=0.26)
    assert document.recommendation.epsilon == 2.0 == few.recommendation.epsilon
    written = {label["epsilon"] for label in labels(document) if not label["is_name"]}
    assert written
    assert written <= set(USUAL)
    assert len(mechanism_axes(document).rows) == 15 * 4
    assert {row["epsilon"] for row in mechanism_axes(document, is_short=True).rows} == set(USUAL)
    short = mechanism_table(document, most=6)
    assert not {row.number for line in short.lines for row in line.rows[1:2]} & set(BETWEEN)
    assert len(short.lines) == len(mechanism_table(few, most=6).lines)
    assert len(mechanism_table(document).lines) == 15 * 4
    assert "ε = 2" in decision_picture(document)
    # What is recommended is written in any case.
    document = build.make_comparison(epsilons=grid, max_advantage=0.176)
    assert document.recommendation.epsilon == 1.4
    assert 1.4 in {label["epsilon"] for label in labels(document)}
    assert "ε = 1.4" in decision_picture(document)
    assert 1.4 in {line.rows[1].number for line in mechanism_table(document, most=6).lines}


@pytest.mark.parametrize("limit", [0.2, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("width", [60, 80])
def test_the_word_limit_stays_whole_in_a_terminal(
    build: ModuleType, limit: float, width: int
) -> None:
    for more in ({}, {"max_advantage": 0.2}):
        document = build.make_comparison(max_accuracy_loss=limit, **more)
        lines = decision_picture(document, width=width).splitlines()
        assert any("╌" in line and re.search(r"[ ╌]limit\b", line) for line in lines), lines
    assert set(TITLES) >= {curve.mechanism for curve in document.mechanisms}
