# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from epsilens.errors import InputError
from epsilens.show import available_outcomes, cost_chart, page_chart, save_chart


def spec_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return cost_chart(*args, **kwargs).to_dict()


def layers(spec: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]


def rows_of(spec: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    return spec["datasets"][layer["data"]["name"]]


def test_the_axis_is_logarithmic_and_its_ends_are_labelled(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif())
    line = layers(spec, "line")[0]["encoding"]
    assert line["x"]["scale"]["type"] == "log"
    assert line["y"]["axis"]["title"] == "change of test loss (nats)"
    assert [text["mark"]["text"] for text in layers(spec, "text")] == [
        "← more privacy",
        "more accuracy →",
    ]


def test_every_finite_cell_is_a_row_with_its_band(build: ModuleType) -> None:
    document = build.make_whatif(groups=["women", "men"])
    spec = spec_of(document)
    rows = rows_of(spec, layers(spec, "line")[0])
    assert len(rows) == 60
    first = document.cells[0]
    assert (rows[0]["epsilon"], rows[0]["change"]) == (first.epsilon, first.loss_change)
    assert (rows[0]["low"], rows[0]["high"]) == (first.loss_change_low, first.loss_change_high)
    assert layers(spec, "area")[0]["encoding"]["y2"]["field"] == "high"


def test_the_subtitle_says_estimated_or_measured(build: ModuleType) -> None:
    estimated = spec_of(build.make_whatif())["title"]["subtitle"][0]
    measured = spec_of(build.make_whatif(method="retrain"))["title"]["subtitle"][0]
    assert estimated.startswith("Estimated")
    assert measured.startswith("Measured")
    bare = spec_of(build.make_whatif(interval=False))["title"]["subtitle"][0]
    assert "band" in estimated
    assert "band" not in bare


def test_untrusted_cells_are_a_grey_gap_and_said_in_words(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif(epsilons=[0.1, 1.0, 2.0], untrusted_below=0.5))
    assert "No estimate at ε ≤ 0.1" in spec["title"]["subtitle"][1]
    (zone,) = layers(spec, "rect")
    (shaded,) = spec["datasets"][zone["data"]["name"]]
    assert shaded["epsilon"] < 0.1 < shaded["to"] < 1.0
    line = layers(spec, "line")[0]
    rows = spec["datasets"][line["data"]["name"]]
    assert [row["epsilon"] for row in rows if row["change"] is None] == [0.1]


def test_a_line_and_its_band_stop_at_a_gap(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.1, 0.5, 1.0, 2.0, 5.0])
    cells = [cell.model_copy(update={"trusted": cell.epsilon != 1.0}) for cell in document.cells]
    spec = spec_of(document.model_copy(update={"cells": cells}))
    for kind in ("line", "area"):
        layer = layers(spec, kind)[0]
        assert layer["encoding"]["detail"]["field"] == "segment"
        rows = spec["datasets"][layer["data"]["name"]]
        drawn = [row["segment"] for row in rows if row["change"] is not None]
        assert drawn == [0, 0, 1, 1]
    assert "No estimate at 1 of 5 ε" in " ".join(spec["title"]["subtitle"])


def test_a_chart_without_any_trusted_cell_says_so(build: ModuleType) -> None:
    document = build.make_whatif(groups=["all", "women"], untrusted_below=99.0)
    assert available_outcomes(document) == ["loss"]
    spec = spec_of(document)
    assert "No estimate at any ε of the grid" in spec["title"]["subtitle"][0]
    line = layers(spec, "line")[0]
    assert not any(row["change"] for row in spec["datasets"][line["data"]["name"]])


def test_groups_differ_without_colour(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif(groups=["a", "b", "c", "d"]))
    dashes = layers(spec, "line")[0]["encoding"]["strokeDash"]["scale"]["range"]
    shapes = layers(spec, "point")[0]["encoding"]["shape"]["scale"]["range"]
    assert len({tuple(dash) for dash in dashes}) == len(set(shapes)) == 4


def test_a_group_looks_the_same_in_every_chart(build: ModuleType) -> None:
    document = build.make_whatif(groups=["all", "women", "men"])
    for outcome in ("loss", "accuracy_gap"):
        shape = layers(spec_of(document, outcome=outcome), "point")[0]["encoding"]["shape"]["scale"]
        looks = dict(zip(shape["domain"], shape["range"], strict=True))
        assert looks["women"] == "square"
        assert looks["men"] == "triangle-up"


def test_one_group_has_no_legend(build: ModuleType) -> None:
    assert layers(spec_of(build.make_whatif()), "line")[0]["encoding"]["stroke"]["legend"] is None


def test_the_tolerance_is_a_dashed_rule(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif(), max_loss_increase=0.5)
    rule = layers(spec, "rule")[-1]
    assert rule["mark"]["strokeDash"]
    assert rows_of(spec, rule) == [{"limit": 0.5}]
    # It lies above every number and must still be inside the picture.
    assert layers(spec, "line")[0]["encoding"]["y"]["scale"]["domain"][1] > 0.5


@pytest.mark.parametrize(("budget", "words"), [(math.inf, "ε = ∞"), (0.0, "ε = 0")])
def test_what_a_logarithm_cannot_show_is_said(build: ModuleType, budget: float, words: str) -> None:
    spec = spec_of(build.make_whatif(epsilons=[1.0, 2.0, budget]))
    assert [row["epsilon"] for row in rows_of(spec, layers(spec, "line")[0])] == [1.0, 2.0]
    assert any(line.startswith(words) for line in spec["title"]["subtitle"])


def test_one_budget_is_a_bar_with_a_point(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif(groups=["a", "b"], epsilons=[1.0]))
    assert not layers(spec, "line")
    offsets = {point["mark"]["xOffset"] for point in layers(spec, "point")}
    assert len(offsets) == 2
    assert spec["title"]["subtitle"][0].endswith("bar.")


def test_different_budgets_per_column_are_drawn_by_record(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif(epsilons=[None]))
    point = layers(spec, "point")[0]
    assert rows_of(spec, point)[0]["epsilon"] == 2.0
    assert point["encoding"]["x"]["axis"]["title"] == "privacy budget ε of a record"


def test_accuracy_is_drawn_in_points_with_its_own_interval(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.5, 1.0])
    spec = spec_of(document, outcome="accuracy")
    row = rows_of(spec, layers(spec, "line")[0])[0]
    assert row["change"] == pytest.approx(100 * document.cells[0].accuracy_change)
    assert row["low"] == pytest.approx(100 * document.intervals[0].low)
    title = layers(spec, "line")[0]["encoding"]["y"]["axis"]["title"]
    assert title == "change of accuracy (percentage points)"


def test_a_regression_speaks_of_squared_error(build: ModuleType) -> None:
    document = build.make_whatif(regression=True)
    title = layers(spec_of(document), "line")[0]["encoding"]["y"]["axis"]["title"]
    assert title == "change of test loss (squared error)"
    assert available_outcomes(document) == ["loss"]


def test_an_outcome_known_only_beyond_the_axis_is_not_available(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[1.0, math.inf])
    cells = [document.cells[0].model_copy(update={"auc_change": None}), document.cells[1]]
    found = available_outcomes(document.model_copy(update={"cells": cells}))
    assert found == ["mistakes", "accuracy", "loss"]


def test_the_description_tells_what_the_picture_shows(build: ModuleType) -> None:
    words = spec_of(build.make_whatif(groups=["all", "women"]))["description"]
    assert "logarithmic axis" in words
    assert "Everyone: from +0.1399 at epsilon 0.1 to" in words
    assert "Group women: from" in words


def test_the_specification_is_strict_json(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.1, 1.0, math.inf], interval=False)
    json.dumps(spec_of(document), allow_nan=False)


def test_nothing_to_draw_is_an_error(build: ModuleType) -> None:
    with pytest.raises(InputError, match="between 0 and infinity, got none"):
        cost_chart(build.make_whatif(epsilons=[math.inf]))
    with pytest.raises(InputError, match="draw another outcome"):
        cost_chart(build.make_whatif(regression=True), outcome="accuracy")


def test_bad_arguments(build: ModuleType) -> None:
    with pytest.raises(InputError, match="`outcome` must be one of"):
        cost_chart(build.make_whatif(), outcome="profit")
    with pytest.raises(InputError, match="belongs to the chart of the loss"):
        cost_chart(build.make_whatif(), outcome="auc", max_loss_increase=0.1)


def test_pictures_are_written_by_their_ending(build: ModuleType, tmp_path: Path) -> None:
    chart = cost_chart(build.make_whatif(epsilons=[0.5, 1.0]))
    assert save_chart(chart, tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    svg = save_chart(chart, str(tmp_path / "c.SVG")).read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "more privacy" in svg


def test_a_picture_needs_a_known_ending_and_a_folder(build: ModuleType, tmp_path: Path) -> None:
    chart = cost_chart(build.make_whatif(epsilons=[0.5, 1.0]))
    with pytest.raises(InputError, match=r"must end in \.png or \.svg, got '\.pdf'"):
        save_chart(chart, tmp_path / "c.pdf")
    with pytest.raises(InputError, match="folder must exist"):
        save_chart(chart, tmp_path / "absent" / "c.png")


def test_the_page_chart_moves_by_signals(build: ModuleType) -> None:
    spec = page_chart(build.make_whatif(), epsilon=1.5, limit=0.02)
    signals = {signal["name"]: signal.get("value") for signal in spec["signals"]}
    assert signals["chosen_epsilon"] == 1.5
    assert signals["accepted_loss"] == 0.02
    assert "vega/v" in spec["$schema"]
    assert "title" not in spec
    # A limit is counted in mistakes or loss: other outcomes have no line for it.
    for outcome in ("mistakes", "loss", "accuracy", "auc"):
        other = page_chart(build.make_whatif(), outcome=outcome, epsilon=1.0)
        has_line = "accepted_loss" in {signal["name"] for signal in other["signals"]}
        assert has_line is (outcome in ("mistakes", "loss")), outcome


def test_the_page_chart_asks_for_nothing_from_outside(build: ModuleType) -> None:
    spec = page_chart(build.make_whatif(groups=["a", "b"]), epsilon=1.0)
    spec.pop("$schema")
    assert "http" not in json.dumps(spec)
    assert all("url" not in source for source in spec["data"])


@pytest.mark.parametrize(("outcome", "factor"), [("loss_gap", 1.0), ("accuracy_gap", 100.0)])
def test_gaps_are_drawn_with_their_intervals(
    build: ModuleType, outcome: str, factor: float
) -> None:
    plain = build.make_whatif(groups=["all", "women"], epsilons=[0.5, 1.0])
    spec = spec_of(build.with_gap_intervals(plain), outcome=outcome)
    rows = rows_of(spec, layers(spec, "line")[0])
    assert {row["group"] for row in rows} == {"women"}
    change = getattr(plain.cells[2], f"{outcome}_change")
    assert rows[0]["low"] == pytest.approx(factor * (change - 0.02))
    assert rows[0]["high"] == pytest.approx(factor * (change + 0.01))
    assert "fall in the band" in spec["title"]["subtitle"][0]
    assert "less everybody else's" in " ".join(spec["title"]["subtitle"])
    assert "band" not in spec_of(plain, outcome=outcome)["title"]["subtitle"][0]


def test_a_gap_outside_its_interval_is_not_called_a_cost(build: ModuleType) -> None:
    document = build.with_gap_intervals(build.make_whatif(groups=["women"], epsilons=[0.5, 1.0]))
    away = [
        item.model_copy(update={"low": item.high, "high": item.high + 1.0})
        for item in document.intervals
    ]
    away = document.model_copy(update={"intervals": away})
    gap = spec_of(away, outcome="loss_gap")["title"]["subtitle"]
    assert "Where line and band part, few runs come near the line." in gap
    below = [
        item.model_copy(update={"low": item.low - 1.0, "high": item.low})
        for item in document.intervals
    ]
    below = document.model_copy(update={"intervals": below})
    accuracy = spec_of(below, outcome="accuracy")["title"]["subtitle"]
    assert "Where line and band part, few runs come near the line." in accuracy


def test_an_interval_with_one_end_is_no_band(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.5, 1.0])
    cells = [cell.model_copy(update={"loss_change_high": math.inf}) for cell in document.cells]
    spec = spec_of(document.model_copy(update={"cells": cells}))
    row = rows_of(spec, layers(spec, "line")[0])[0]
    assert row["low"] is None
    assert "band" not in spec["title"]["subtitle"][0]


def test_budgets_close_together_are_labelled_at_their_ends(build: ModuleType) -> None:
    spec = spec_of(build.make_whatif(epsilons=[1.1, 1.5, 1.9]))
    assert layers(spec, "line")[0]["encoding"]["x"]["axis"]["values"] == [1.1, 1.9]


def test_the_accepted_loss_must_be_a_number(build: ModuleType) -> None:
    with pytest.raises(InputError, match="`max_loss_increase` must be a finite number"):
        cost_chart(build.make_whatif(), max_loss_increase=math.nan)
    with pytest.raises(InputError, match="`max_loss_increase` must be a number, got str"):
        cost_chart(build.make_whatif(), max_loss_increase="little")
