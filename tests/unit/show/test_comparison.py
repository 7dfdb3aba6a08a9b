# SPDX-License-Identifier: Apache-2.0
"""Several studies in one chart: told apart in four ways, and joined only where that means something."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.show import comparison_chart
from epsilens.show.comparison import COLOURS, _spread


def marks(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Every mark of a kind, wherever it is nested."""
    found: list[dict[str, Any]] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            mark = part.get("mark")
            if isinstance(mark, dict) and mark.get("type") == kind:
                found.append(part)
            part = list(part.values())
        for inner in part if isinstance(part, list) else []:
            walk(inner)

    walk(spec)
    return found


def test_each_study_has_a_colour_a_dash_a_shape_and_a_letter_at_its_line(build: Any) -> None:
    chart = comparison_chart(
        [("smokes", build.make_decision()), ("drinks", build.make_whatif(loss_scale=0.5))]
    )
    spec = chart.to_dict()
    lines = [
        part
        for part in marks(spec, "line")
        if str(part["encoding"]["y"]["field"]).startswith("change")
    ]
    looks = {
        (part["encoding"]["stroke"]["value"], tuple(part["mark"]["strokeDash"])) for part in lines
    }
    assert len(looks) == 2
    assert {colour for colour, _ in looks} == set(COLOURS[:2])
    assert len({dash for _, dash in looks}) == 2
    named = [
        part["mark"]["text"] for part in marks(spec, "text") if part["mark"].get("color") in COLOURS
    ]
    assert {"A · smokes", "B · drinks"} <= set(named)
    # Both have a band; only the first was attacked, and the chart says so.
    assert json.dumps(spec["vconcat"][0]).count('"area"') == 2
    assert "No attack measured: B." in spec["title"]["subtitle"]
    assert "recommended epsilon" in spec["description"]


def test_a_long_name_stands_whole_in_the_legend_and_not_cut_at_its_line(build: Any) -> None:
    name = "smokes, region and income of the second wave"
    spec = comparison_chart([("a", build.make_whatif()), (name, build.make_whatif())]).to_dict()
    named = [part["mark"].get("text") for part in marks(spec, "text")]
    assert "B" in named
    assert "…" not in json.dumps(spec, ensure_ascii=False)
    legends = [
        part["encoding"]["shape"]["scale"]["domain"]
        for part in marks(spec, "point")
        if "scale" in part["encoding"].get("shape", {})
    ]
    assert ["A · a", f"B · {name}"] in legends


def test_a_study_of_few_budgets_has_its_points_too(build: Any) -> None:
    grids = [list(np.geomspace(0.1, 10, 30)), [0.3, 1.1, 4.0]]
    found = [build.make_whatif(epsilons=grid) for grid in grids]
    chart = comparison_chart([("many", found[0]), ("few", found[1])])
    rows = chart.datasets["costs"]
    own = [row for row in rows if row["change_1"] is not None]
    assert [row["marked"] for row in own] == [True] * 3


def test_letters_do_not_lie_on_each_other() -> None:
    # Lines that meet, at the top of a plot of 250 pixels, at its foot and in between.
    for heights in ([240.0, 240.0, 240.0, 240.0], [0.0, 0.0, 3.0], [100.0, 20.0, 104.0, 110.0]):
        moved = _spread(np.array(heights), most=250.0)
        assert min(after - before for before, after in pairwise(sorted(moved))) >= 14
        assert max(moved) <= 250
        # Who stands above whom is not changed.
        assert np.array_equal(np.argsort(moved), np.argsort(heights, kind="stable"))


def test_what_must_not_be_joined_is_refused(build: Any) -> None:
    answers, numbers = build.make_whatif(), build.make_whatif(regression=True)
    with pytest.raises(InputError, match="losses in one unit"):
        comparison_chart([("a", answers), ("b", numbers)])
    per_record = build.make_whatif(epsilons=[None])
    with pytest.raises(InputError, match="all for a record"):
        comparison_chart([("a", answers), ("b", per_record)])
    decision = build.make_decision()
    cells = [
        cell.model_copy(update={"mechanism": "dpsgd", "delta": 1e-5})
        for cell in decision.risk.cells
    ]
    noisy = decision.model_copy(update={"risk": decision.risk.model_copy(update={"cells": cells})})
    with pytest.raises(InputError, match="promise the same"):
        comparison_chart([("a", answers), ("b", noisy)])
    for many in (1, 5):
        with pytest.raises(InputError, match="must be 2 to 4"):
            comparison_chart([("a", answers)] * many)


def test_a_study_without_estimates_is_named_and_not_drawn(build: Any) -> None:
    passed, failed = build.make_whatif(), build.make_whatif(untrusted_below=99.0)
    spec = comparison_chart([("one", passed), ("two", failed)], width=640).to_dict()
    rows = [row for rows in spec["datasets"].values() for row in rows]
    assert any(row.get("change_0") is not None for row in rows)
    assert not any(row.get("change_1") is not None for row in rows)
    assert "B: no estimate at any ε of the grid" in json.dumps(spec, ensure_ascii=False)


def test_the_epsilon_of_another_mechanism_is_no_line(build: Any) -> None:
    """Where another mechanism is recommended, that of randomised response is not called the recommended one."""
    own, other = build.make_decision(), build.make_comparison(max_advantage=0.2)
    assert own.recommendation.mechanism == "randomised-response"
    assert other.recommendation.mechanism == "noisy-descent"

    def drawn(*documents: Any) -> tuple[dict[str, Any], int]:
        spec = comparison_chart(list(zip("ab", documents, strict=True))).to_dict()
        rules = [part for part in marks(spec, "rule") if "x" in part["encoding"]]
        return spec, len(rules)

    spec, n_lines = drawn(own, other)
    assert n_lines == 2  # one in each of the two plots
    assert spec["title"]["subtitle"][:2] == [
        "Bands: 9 in 10 real runs. Vertical lines: the recommended ε.",
        "Another mechanism is recommended: B.",
    ]
    assert spec["description"].count("recommended epsilon") == 1
    spec, n_lines = drawn(other, other)
    assert n_lines == 0
    assert spec["title"]["subtitle"][:2] == [
        "Bands: 9 in 10 real runs.",
        "Another mechanism is recommended: A, B.",
    ]


def test_the_cost_is_drawn_in_mistakes_where_all_studies_know_them(build: Any) -> None:
    known = build.make_whatif()
    cells = [cell.model_copy(update={"accuracy_change": None}) for cell in known.cells]
    unknown = known.model_copy(update={"cells": cells})
    for documents, title in (
        ((known, known), "more mistakes in 1,000"),
        ((known, unknown), "change of test loss (nats)"),
    ):
        spec = comparison_chart(list(zip("ab", documents, strict=True))).to_dict()
        assert title in json.dumps(spec["vconcat"][0])
        assert title in spec["description"]
