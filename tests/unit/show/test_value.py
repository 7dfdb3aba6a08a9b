from __future__ import annotations

import pytest

from epsilens.document import ValuePoint
from epsilens.errors import InputError
from epsilens.show import save_chart, value_chart


def curve(scored):
    shares = (0.01, 0.1, 0.3) if scored == "training" else (0.5, 1.0)
    return [
        ValuePoint(
            order=order,
            share=share,
            n_records=10,
            loss_change=share,
            standard_error=0.01 if order == "random" else None,
        )
        for order in ("score", "training loss", "random")
        for share in shares
    ]


def drawn(chart):
    """Return the rows behind the lines."""
    return chart["datasets"][chart["layer"][2]["data"]["name"]]


@pytest.mark.parametrize("scored", ["training", "candidates"])
def test_every_point_is_drawn_in_its_order(build, tmp_path, scored):
    document = build.make_value(scored=scored, curve=curve(scored))
    chart = value_chart(document).to_dict()
    lines = drawn(chart)
    assert len(lines) == len(document.curve)
    assert {row["order"] for row in lines} >= {"in random order"}
    assert sum(row["low"] is not None for row in lines) == len(lines) // 3
    assert save_chart(value_chart(document), tmp_path / "curve.svg").stat().st_size > 1000


def test_a_point_without_a_model_is_left_out(build):
    points = curve("training")
    points[0] = points[0].model_copy(update={"loss_change": None})
    chart = value_chart(build.make_value(curve=points)).to_dict()
    assert len(drawn(chart)) == len(points) - 1


def test_without_a_curve_there_is_nothing_to_draw(build):
    with pytest.raises(InputError, match="no curve to draw"):
        value_chart(build.make_value(curve=[]))
