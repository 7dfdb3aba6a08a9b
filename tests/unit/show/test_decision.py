# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from epsilens.errors import InputError
from epsilens.show import decision_chart, risk_page_chart, save_chart
from epsilens.show.decision import common_budgets, recommended_text
from epsilens.show.page import cost_key, risk_key


def layers(panel: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for layer in panel["layer"]:
        found += layers(layer) if "layer" in layer else [layer]
    return found


def panels(document: object) -> list[list[dict[str, Any]]]:
    return panels_of(decision_chart(document).to_dict())


def panels_of(chart: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [layers(panel) for panel in chart["vconcat"]]


def rules(panel: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [layer for layer in panel if layer["mark"]["type"] == "rule"]


def data_of(chart: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    return chart["datasets"][layer["data"]["name"]]


def test_cost_stands_above_risk_on_one_axis(build: ModuleType) -> None:
    above, below = panels(build.make_decision())
    domains = {
        tuple(layer["encoding"]["x"]["scale"]["domain"])
        for layer in (*above, *below)
        if "scale" in layer["encoding"].get("x", {})
    }
    assert len(domains) == 1
    assert [
        layer["encoding"]["y"]["field"] for layer in above if layer["mark"]["type"] == "line"
    ] == ["change"]
    assert [
        layer["encoding"]["y"]["field"] for layer in below if layer["mark"]["type"] == "line"
    ] == ["answer_inference_ceiling", "answer_inference_unseen", "answer_inference_rate"]


def test_the_axis_shows_the_budgets_of_both(build: ModuleType) -> None:
    document = build.make_decision()
    wider = build.make_risk(epsilons=[0.1, 1.0, 40.0, math.inf])
    document = document.model_copy(update={"risk": wider})
    assert common_budgets(document)[-1] == 40.0
    above, _ = panels(document)
    line = next(layer for layer in above if layer["mark"]["type"] == "line")
    assert line["encoding"]["x"]["scale"]["domain"][1] > 40


def test_the_recommended_budget_and_the_limits_are_lines(build: ModuleType) -> None:
    document = build.make_decision(max_loss_increase=0.04, max_attack_rate=0.85)
    chart = decision_chart(document).to_dict()
    for panel, limit in zip(panels_of(chart), (0.04, 85.0), strict=True):
        upright = [rule for rule in rules(panel) if "y" not in rule["encoding"]]
        assert [data_of(chart, rule) for rule in upright] == [
            [{"epsilon": document.recommendation.epsilon}]
        ]
        (dashed,) = [rule for rule in rules(panel) if rule["mark"].get("strokeDash") == [6, 4]]
        assert data_of(chart, dashed) == [{"limit": limit}]


@pytest.mark.parametrize("limits", [(None, 0.85), (0.04, None)])
def test_a_limit_that_was_not_set_is_not_drawn(
    build: ModuleType, limits: tuple[float | None, float | None]
) -> None:
    document = build.make_decision(max_loss_increase=limits[0], max_attack_rate=limits[1])
    for panel, limit in zip(panels(document), limits, strict=True):
        dashed = [rule for rule in rules(panel) if rule["mark"].get("strokeDash") == [6, 4]]
        assert len(dashed) == (limit is not None)


def test_the_three_kinds_differ_in_shape_and_word(build: ModuleType) -> None:
    document = build.make_decision()
    above, below = panels(document)
    (point,) = [
        layer
        for layer in above
        if layer["mark"]["type"] == "point" and "shape" in layer["encoding"]
    ]
    assert point["encoding"]["shape"]["scale"]["range"] == ["diamond"]
    assert "triangle-up" in {layer["mark"].get("shape") for layer in below}
    ceiling = next(
        layer
        for layer in below
        if layer["encoding"].get("y", {}).get("field") == "answer_inference_ceiling"
    )
    assert ceiling["mark"]["strokeDash"] == [2, 3]
    words = [entry.words for entry in cost_key(document.cost, "loss")]
    words += [entry.words for entry in risk_key(document.risk, "answer")]
    assert [word.partition(":")[0] for word in words] == [
        "estimated",
        "band",
        "measured",
        "measured",
        "proven",
    ]


def test_a_retrained_cost_is_measured_and_round(build: ModuleType) -> None:
    document = build.make_decision(method="retrain")
    above, _ = panels(document)
    (point,) = [
        layer
        for layer in above
        if layer["mark"]["type"] == "point" and "shape" in layer["encoding"]
    ]
    assert point["encoding"]["shape"]["scale"]["range"] == ["circle"]
    assert cost_key(document.cost, "loss")[0].words == "measured: everyone"


def test_keys_name_groups_and_failed_checks(build: ModuleType) -> None:
    document = build.make_whatif(groups=["all", "women"], untrusted_below=0.5)
    words = [entry.words for entry in cost_key(document, "loss")]
    assert words[1] == "estimated: “women”"
    assert "grey: no estimate" in words
    assert len({entry.dash for entry in cost_key(document, "loss")[:2]}) == 2
    assert len({entry.point for entry in cost_key(document, "loss")[:2]}) == 2
    assert risk_key(build.make_risk(), "membership")[-1].words == "what chance alone reaches"


def test_the_recommendation_is_said_shortly(build: ModuleType) -> None:
    assert recommended_text(build.make_decision()) == (
        "Recommended: ε = 1.49, the most private within both limits."
    )
    assert recommended_text(build.make_decision(max_attack_rate=None)).endswith(
        "within the limit on the loss."
    )
    assert recommended_text(build.make_decision(max_loss_increase=None)).endswith(
        "within the limit on the attack."
    )
    default = build.make_decision(max_loss_increase=None, max_attack_rate=None)
    assert recommended_text(default).endswith("an advantage of at most 0.1, our default.")
    none = build.make_decision(max_attack_rate=0.5)
    assert recommended_text(none) == "No ε of the grid meets both limits: none is recommended."
    assert all("y" in rule["encoding"] for panel in panels(none) for rule in rules(panel))
    untrusted = build.make_decision(untrusted_below=20.0)
    assert recommended_text(untrusted).endswith("none is recommended.")


def test_the_chart_describes_itself(build: ModuleType) -> None:
    spoken = decision_chart(build.make_decision()).to_dict()["description"]
    for words in ("Recommended: ε = 1.49", "Everyone: from", "How often the answer “affair”"):
        assert words in spoken


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_chart_can_be_saved(build: ModuleType, tmp_path: Path, ending: str) -> None:
    path = save_chart(decision_chart(build.make_decision()), tmp_path / f"decision.{ending}")
    assert path.stat().st_size > 10_000


def test_nothing_to_draw_is_an_error(build: ModuleType) -> None:
    document = build.make_decision()
    empty = document.risk.model_copy(update={"cells": []})
    with pytest.raises(InputError, match="expected attack rates"):
        decision_chart(document.model_copy(update={"risk": empty}))


def test_the_page_moves_the_feared_rate_by_a_signal(build: ModuleType) -> None:
    spec = risk_page_chart(build.make_risk(), epsilon=1.5, max_attack_rate=0.57)
    signals = {signal["name"]: signal.get("value") for signal in spec["signals"]}
    assert signals["chosen_epsilon"] == 1.5
    # A share of 0.57 is 57 per cent, and not 56.99999999999999.
    assert signals["feared_rate"] == signals["feared_rate_room"] == 57
    other = risk_page_chart(build.make_risk(), attack="membership", epsilon=1.0)
    assert "feared_rate" not in {signal["name"] for signal in other["signals"]}
    assert spec["autosize"] == other["autosize"] == "none"
    assert spec["padding"] == other["padding"]


@pytest.mark.parametrize("groups", [["all", "women"], ["all", "women who live alone", "x" * 90]])
def test_names_in_the_legends_do_not_reach_beyond_the_plots(
    build: ModuleType, groups: list[str]
) -> None:
    import vl_convert

    chart = decision_chart(build.make_decision(groups=groups), width=640)
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    width = float(re.search(r'<svg [^>]*width="([0-9.]+)"', svg)[1])
    # Labels of the axis to the left, and the padding.
    assert width < 640 + 80
    assert "from everybody else's data</text>" in svg
    assert ">everyone</text>" in svg
