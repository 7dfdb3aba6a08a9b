# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from epsilens.document import RiskCell
from epsilens.errors import InputError
from epsilens.show import risk_chart, save_chart


def panels(document: object) -> list[dict[str, Any]]:
    return risk_chart(document).to_dict()["vconcat"]


def marks(panel: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [layer for layer in panel["layer"] if layer["mark"]["type"] == kind]


def line_of(panel: dict[str, Any], field: str) -> dict[str, Any]:
    (line,) = [line for line in marks(panel, "line") if line["encoding"]["y"]["field"] == field]
    return line


def legend(panel: dict[str, Any]) -> list[str]:
    (layer,) = [
        layer for layer in marks(panel, "point") if "scale" in layer["encoding"].get("shape", {})
    ]
    return layer["encoding"]["shape"]["scale"]["domain"]


def rows_of(document: object, panel: dict[str, Any]) -> list[dict[str, Any]]:
    spec = risk_chart(document).to_dict()
    return spec["datasets"][line_of(panel, "asr_max")["data"]["name"]]


def test_randomised_response_leads_with_the_answer(build: ModuleType) -> None:
    upper, lower = panels(build.make_risk())
    assert upper["title"]["text"] == "How often the answer “affair” is guessed"
    assert [line["encoding"]["y"]["field"] for line in marks(upper, "line")][::-1] == [
        "answer_inference_rate",
        "answer_inference_unseen",
        "answer_inference_ceiling",
    ]
    (band,) = marks(upper, "area")
    assert band["encoding"]["y"]["field"] == "answer_inference_low"
    assert band["encoding"]["y2"]["field"] == "answer_inference_high"
    # Membership has a floor and no ceiling: randomised response does not hide it.
    (floor,) = marks(lower, "area")
    assert floor["encoding"]["y"]["field"] == "chance"
    assert floor["encoding"]["y2"]["field"] == "asr_max_null_q95"
    assert [line["encoding"]["y"]["field"] for line in marks(lower, "line")] == ["asr_max"]


def test_noisy_training_has_a_ceiling_and_the_claimed_budget(build: ModuleType) -> None:
    upper, lower = panels(build.make_risk(mechanism="dpsgd"))
    line_of(upper, "asr_ceiling")
    assert line_of(lower, "epsilon_lower_bound")["encoding"]["y"]["scale"]["type"] == "symlog"
    assert 0.0 in line_of(lower, "claimed")["encoding"]["y"]["axis"]["values"]


def test_proven_and_measured_differ_in_dash_shape_and_word(build: ModuleType) -> None:
    upper, _ = panels(build.make_risk())
    dashes = [tuple(line["mark"]["strokeDash"]) for line in marks(upper, "line")]
    assert len(set(dashes)) == 3
    pointed = {
        layer["encoding"]["y"]["field"]: layer["mark"]["shape"]
        for layer in marks(upper, "point")
        if "y" in layer["encoding"]
    }
    assert pointed == {
        "answer_inference_rate": "triangle-up",
        "answer_inference_unseen": "square",
    }
    assert [name.partition(":")[0] for name in legend(upper)] == ["measured", "measured", "proven"]


def test_one_logarithmic_axis_with_both_ends_labelled(build: ModuleType) -> None:
    upper, lower = panels(build.make_risk())
    scales = [
        line["encoding"]["x"]["scale"] for panel in (upper, lower) for line in marks(panel, "line")
    ]
    assert {scale["type"] for scale in scales} == {"log"}
    assert len({tuple(scale["domain"]) for scale in scales}) == 1
    assert marks(upper, "text") == []
    assert [text["mark"]["text"] for text in marks(lower, "text")] == [
        "← more privacy",
        "more accuracy →",
    ]
    assert line_of(upper, "answer_inference_rate")["encoding"]["x"]["axis"]["title"] is None
    assert line_of(lower, "asr_max")["encoding"]["x"]["axis"]["title"] == "privacy budget ε"


def test_rates_are_drawn_in_per_cent_and_useless_bounds_end_at_chance(build: ModuleType) -> None:
    cells = [
        RiskCell(
            epsilon=epsilon,
            mechanism="rr",
            asr_max=0.61,
            asr_max_null_q95=0.63,
            asr_max_lower_bound=bound,
        )
        for epsilon, bound in ((1.0, 0.41), (2.0, 0.55))
    ]
    document = build.make_risk(cells=cells)
    (panel,) = panels(document)
    rows = rows_of(document, panel)
    assert [row["asr_max"] for row in rows] == pytest.approx([61.0, 61.0])
    assert [row["asr_max_lower_bound"] for row in rows] == pytest.approx([50.0, 55.0])
    assert line_of(panel, "asr_max")["encoding"]["y"]["scale"]["domain"][0] == 50.0


def test_infinity_is_said_and_not_drawn(build: ModuleType) -> None:
    document = build.make_risk(epsilons=[0.5, 2.0, math.inf])
    spec = risk_chart(document).to_dict()
    assert len(rows_of(document, spec["vconcat"][1])) == 2
    assert (
        "ε = ∞ (nothing is randomised) lies outside the axis: there 72.7% are guessed from the model and "
        in " ".join(spec["title"]["subtitle"])
    )
    with pytest.raises(InputError, match="epsilon between 0 and infinity"):
        risk_chart(build.make_risk(epsilons=[math.inf]))


def test_columns_with_their_own_budgets_are_drawn_by_record(build: ModuleType) -> None:
    document = build.make_risk(epsilons=[None], protect=["a", "b"], record_factor=3.0)
    upper, lower = panels(document)
    assert (
        upper["title"]["text"]
        == "How often the answers “a” and “b” are guessed, all of them at once"
    )
    axis = marks(lower, "point")[0]["encoding"]["x"]
    assert axis["axis"]["title"] == "privacy budget ε of a record"
    assert axis["scale"]["domain"] == [1.0, 9.0]


@pytest.mark.parametrize("mechanism", ["rr", "dpsgd"])
@pytest.mark.parametrize("epsilons", [[1.0], [0.5, 2.0, math.inf]])
def test_it_can_be_written_as_a_picture(
    build: ModuleType, tmp_path: Path, mechanism: str, epsilons: list[float]
) -> None:
    chart = risk_chart(build.make_risk(mechanism=mechanism, epsilons=epsilons))
    text = save_chart(chart, tmp_path / "risk.svg").read_text(encoding="utf-8")
    assert "What an attacker gets" in text
    assert "more privacy" in text
    # Vega writes NaN where a mark has no place.
    assert "NaN" not in text


def test_a_single_budget_has_points_and_no_line(build: ModuleType) -> None:
    upper, lower = panels(build.make_risk(epsilons=[1.0]))
    assert marks(upper, "line") == marks(lower, "line") == []
    offsets = [layer["mark"]["xOffset"] for layer in upper["layer"] if "xOffset" in layer["mark"]]
    assert len(set(offsets)) == 3


def test_the_description_can_be_read_aloud(build: ModuleType) -> None:
    words = risk_chart(build.make_risk()).to_dict()["description"]
    assert "measured on 256 models" in words
    ceiling = "Proven: at most this, given 73.0% from everybody else's data: 74.4%"
    assert ceiling in words
