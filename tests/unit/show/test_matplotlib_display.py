# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from epsilens.errors import InputError, InputTypeError, MissingExtraError
from epsilens.show import CostDisplay, cost_chart
from epsilens.whatif import LossChangeEstimate

OUTCOMES = ("loss", "accuracy", "auc", "loss_gap", "accuracy_gap")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(display: CostDisplay) -> bytes:
    """Really draw: much of matplotlib complains only then."""
    stream = io.BytesIO()
    display.figure_.savefig(stream, format="png")
    return stream.getvalue()


def words(display: CostDisplay) -> str:
    return "\n".join(text.get_text() for text in display.ax_.texts)


def test_making_one_draws_nothing_and_plotting_returns_itself(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif())
    assert not plt.get_fignums()
    assert not hasattr(display, "ax_")
    assert display.plot() is display
    assert drawn(display).startswith(b"\x89PNG")


def test_nothing_is_shown(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("show() was called")

    monkeypatch.setattr(plt, "show", refuse)
    CostDisplay.from_document(build.make_whatif(epsilons=[0.5, 1.0])).plot()


def test_the_constructor_only_stores(build: ModuleType) -> None:
    ready = CostDisplay.from_document(build.make_whatif())
    stored = {name: getattr(ready, name) for name in vars(ready)}
    numbers = stored.pop("numbers")
    again = CostDisplay(numbers, **stored)
    assert all(getattr(again, name) is value for name, value in stored.items())
    assert again.numbers is numbers


def test_the_axis_is_logarithmic_and_its_ends_are_labelled(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif()).plot()
    assert display.ax_.get_xscale() == "log"
    assert "← more privacy" in words(display)
    assert "more accuracy →" in words(display)
    assert display.ax_.get_xlabel() == "privacy budget ε"
    assert display.ax_.get_ylabel() == "change of test loss (nats)"
    labels = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert labels == ["0.1", "0.2", "0.5", "1", "2", "5", "10"]
    assert not display.ax_.get_xticks(minor=True).size


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_it_draws_the_numbers_of_the_other_chart(build: ModuleType, outcome: str) -> None:
    document = build.with_gap_intervals(build.make_whatif(groups=["all", "women"]))
    display = CostDisplay.from_document(document, outcome=outcome).plot()
    spec = cost_chart(document, outcome=outcome).to_dict()
    line = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "line")
    rows = spec["datasets"][line["data"]["name"]]
    frame = display.frame()
    assert list(frame.columns) == ["group", "epsilon", "change", "low", "high"]
    for name in frame.columns:
        assert frame[name].tolist() == [row[name] for row in rows]
    for group, artist in display.lines_.items():
        mine = frame[frame["group"] == group]
        np.testing.assert_array_equal(artist.get_xdata(), mine["epsilon"])
        np.testing.assert_array_equal(artist.get_ydata(), mine["change"])
        (band,) = display.bands_[group].get_paths()
        assert band.vertices[:, 1].min() == mine["low"].min()
        assert band.vertices[:, 1].max() == mine["high"].max()
    bottom, top = display.ax_.get_ylim()
    assert bottom < min(0.0, frame["low"].min())
    assert top > max(0.0, frame["high"].max())


def test_the_frame_is_a_copy(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif(epsilons=[0.5, 1.0]))
    frame = display.frame()
    frame["change"] = -1.0
    assert (display.frame()["change"] > 0).all()


def test_a_result_can_be_drawn(build: ModuleType) -> None:
    document = build.make_whatif(groups=["women"])
    result = LossChangeEstimate(document, loss_draws=())
    frame = CostDisplay.from_estimate(result, outcome="accuracy").frame()
    assert frame.equals(CostDisplay.from_document(document, outcome="accuracy").frame())


def test_the_title_says_estimated_or_measured(build: ModuleType) -> None:
    for method, word in (("exact", "estimated"), ("retrain", "measured")):
        display = CostDisplay.from_document(build.make_whatif(method=method)).plot()
        assert display.ax_.get_title(loc="left") == f"What a privacy budget costs ({word})"
        assert word.capitalize() in words(display)


def test_groups_differ_without_colour(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif(groups=list("abcdef"))).plot()
    lines = display.lines_.values()
    assert len({line.get_marker() for line in lines}) == 6
    # The dashes as they are drawn; no public accessor gives them.
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == 6
    assert [text.get_text() for text in display.legend_.get_texts()] == list("abcdef")


def test_a_group_looks_the_same_in_every_outcome(build: ModuleType) -> None:
    document = build.make_whatif(groups=["all", "women"])
    looks = [
        CostDisplay.from_document(document, outcome=outcome).plot().lines_["women"]
        for outcome in ("loss", "loss_gap")
    ]
    assert looks[0].get_marker() == looks[1].get_marker() == "s"
    assert looks[0].get_color() == looks[1].get_color()


def test_one_group_has_no_legend(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif()).plot()
    assert display.legend_ is None
    assert display.ax_.get_legend() is None


@pytest.mark.parametrize("name", ["_hidden", "$x_{", "a $b$ c", "100 %", "<b>"])
def test_any_name_of_a_group_is_only_text(build: ModuleType, name: str) -> None:
    display = CostDisplay.from_document(build.make_whatif(groups=["all", name])).plot()
    drawn(display)
    text = display.legend_.get_texts()[1]
    assert text.get_text() == name
    assert not text.get_parse_math()


def test_untrusted_cells_are_a_gap_and_said_in_words(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.1, 1.0, 2.0], untrusted_below=0.5)
    display = CostDisplay.from_document(document).plot()
    assert np.isnan(display.lines_["all"].get_ydata()).tolist() == [True, False, False]
    assert display.ax_.get_xlim()[0] < 0.1
    assert "No estimate at ε ≤ 0.1" in words(display)
    drawn(display)


def test_all_cells_may_be_untrusted(build: ModuleType) -> None:
    every = CostDisplay.from_document(build.make_whatif(untrusted_below=99.0)).plot()
    assert np.isnan(every.lines_["all"].get_ydata()).all()
    assert every.bands_ == {}
    assert "No estimate at any ε of the grid" in words(every)
    drawn(every)


def test_the_accepted_loss_is_a_dashed_rule(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif()).plot(max_loss_increase=0.5)
    assert set(display.rule_.get_ydata()) == {0.5}
    assert display.rule_.is_dashed()
    assert "accepted: 0.5" in words(display)
    # It lies above every number and must still be inside the picture.
    assert display.ax_.get_ylim()[1] > 0.5
    assert CostDisplay.from_document(build.make_whatif()).plot().rule_ is None


def test_without_intervals_there_is_no_band(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif(interval=False)).plot()
    assert display.bands_ == {}
    assert "band" not in words(display)


def test_one_budget_is_a_bar_with_a_point(build: ModuleType) -> None:
    document = build.make_whatif(groups=["a", "b", "c"], epsilons=[1.0])
    display = CostDisplay.from_document(document).plot()
    assert "the bar" in words(display)
    places = [line.get_xdata()[0] for line in display.lines_.values()]
    assert places == sorted(set(places))
    assert places[1] == 1.0
    for cell in document.cells:
        (segment,) = display.bands_[cell.group].get_segments()
        assert segment[:, 1].tolist() == [cell.loss_change_low, cell.loss_change_high]
    assert display.frame()["epsilon"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("budget", "said"), [(math.inf, "ε = ∞"), (0.0, "ε = 0")])
def test_what_a_logarithm_cannot_show_is_said(build: ModuleType, budget: float, said: str) -> None:
    display = CostDisplay.from_document(build.make_whatif(epsilons=[1.0, 2.0, budget])).plot()
    assert display.frame()["epsilon"].tolist() == [1.0, 2.0]
    assert said in words(display)


def test_different_budgets_per_column_are_drawn_by_record(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif(epsilons=[None])).plot()
    assert display.ax_.get_xlabel() == "privacy budget ε of a record"
    assert display.frame()["epsilon"].tolist() == [2.0]


def test_it_draws_where_it_is_told(build: ModuleType) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    display = CostDisplay.from_document(build.make_whatif(groups=["a", "b"])).plot(axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()
    assert plt.get_fignums() == [figure.number]
    drawn(display)
    # In narrow axes the notes are broken, and the title of the axis makes way for its ends.
    note = next(text for text in display.ax_.texts if "Estimated" in text.get_text())
    assert "\n" in note.get_text()
    ends = [text for text in display.ax_.texts if "more" in text.get_text()]
    label = display.ax_.xaxis.label.get_window_extent()
    assert not any(label.overlaps(text.get_window_extent()) for text in ends)


def test_the_words_do_not_touch_each_other(build: ModuleType) -> None:
    document = build.with_gap_intervals(
        build.make_whatif(
            groups=["a", "b"],
            untrusted_below=0.2,
            epsilons=[*build.geometric(0.1, 10, 9), math.inf],
        )
    )
    display = CostDisplay.from_document(document, outcome="accuracy_gap").plot()
    drawn(display)
    ax = display.ax_
    boxes = [text.get_window_extent() for text in ax.texts]
    boxes += [ax.xaxis.label.get_window_extent(), ax._left_title.get_window_extent()]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])
        assert box.x0 >= 0
        assert box.x1 <= display.figure_.bbox.x1


def test_plotting_again_starts_anew(build: ModuleType) -> None:
    display = CostDisplay.from_document(build.make_whatif()).plot(max_loss_increase=0.1)
    first = display.ax_
    display.plot()
    assert display.ax_ is not first
    assert display.rule_ is None


def test_a_missing_matplotlib_says_how_to_install_it(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    display = CostDisplay.from_document(build.make_whatif(epsilons=[1.0]))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.ticker", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[plot\]"$'):
        display.plot()
    assert len(display.frame()) == 1


def test_the_door_does_not_load_matplotlib() -> None:
    program = (
        "import sys, epsilens.show as d; d.CostDisplay; "
        "print('matplotlib' in sys.modules, 'CostDisplay' in dir(d))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_bad_arguments(build: ModuleType) -> None:
    document = build.make_whatif()
    with pytest.raises(InputTypeError, match="`document` must be a WhatIfDocument, got dict"):
        CostDisplay.from_document({})
    with pytest.raises(InputTypeError, match="`estimate` must be a LossChangeEstimate, got str"):
        CostDisplay.from_estimate("result")
    with pytest.raises(InputError, match="`outcome` must be one of"):
        CostDisplay.from_document(document, outcome="profit")
    with pytest.raises(InputError, match="draw another outcome"):
        CostDisplay.from_document(build.make_whatif(regression=True), outcome="accuracy")
    with pytest.raises(InputError, match="belongs to the chart of the loss"):
        CostDisplay.from_document(document, outcome="auc").plot(max_loss_increase=0.1)
    with pytest.raises(InputError, match="must be a finite number"):
        CostDisplay.from_document(document).plot(max_loss_increase=math.inf)
    assert not plt.get_fignums()
