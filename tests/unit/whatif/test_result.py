from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from epsilens import WhatIf
from epsilens.errors import InputError


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


@pytest.fixture(scope="module")
def result(study):
    return study.estimate(epsilon="0.1:10:12", method="exact")


def by_hand(frame, limit):
    """The smallest ε whose upper end is within the limit there and at every larger ε."""
    chosen = None
    for row in frame.sort_values("epsilon", ascending=False).itertuples():
        if row.loss_change_high > limit:
            break
        chosen = row.epsilon
    return chosen


@pytest.mark.parametrize("limit", [0.0, 0.001, 0.01, 0.02, 0.05, 1.0])
def test_choose_takes_the_most_private_within_the_limit(result, limit):
    choice = result.choose(max_loss_increase=limit)
    assert choice.epsilon == by_hand(result.to_frame(), limit)
    assert choice.holds == (choice.epsilon is not None)
    assert "\n" not in choice.sentence


def test_a_limit_that_cannot_be_met_names_the_nearest_miss(study):
    costly = study.estimate(epsilon=[0.1, 0.3], method="exact")
    choice = costly.choose(max_loss_increase=0.0)
    assert choice.epsilon is None
    assert "nearest miss" in choice.sentence


def test_more_confidence_never_chooses_a_smaller_epsilon(result):
    loose = result.choose(max_loss_increase=0.02, confidence=0.5)
    strict = result.choose(max_loss_increase=0.02, confidence=0.98)
    assert loose.epsilon <= strict.epsilon


def test_the_stored_upper_end_is_the_quantile_of_the_runs(result):
    for cell, runs in zip(result.document.cells, result.loss_draws, strict=True):
        end = np.quantile(runs, 0.95, method="weibull")
        assert cell.loss_change_high == pytest.approx(end, abs=1e-15)


def test_every_group_must_hold_unless_one_is_named(study):
    mask = np.random.default_rng(2).random(600) < 0.1
    result = study.estimate(
        epsilon="0.1:10:12", groups={"few": mask, "most": ~mask}, method="exact"
    )
    few = result.choose(max_loss_increase=0.01, group="few").epsilon
    most = result.choose(max_loss_increase=0.01, group="most").epsilon
    assert few < most
    assert result.choose(max_loss_increase=0.01).epsilon == most
    with pytest.raises(InputError, match="Did you mean 'most'"):
        result.choose(max_loss_increase=0.01, group="mst")
    with pytest.raises(InputError, match=r"must name a group of the result.*groups are: few, most"):
        result.choose(max_loss_increase=0.01, group="nobody")


def test_an_untrusted_estimate_is_never_chosen(study):
    first_order = study.estimate(epsilon=[0.1, 0.3], method="influence")
    choice = first_order.choose(max_loss_increase=5.0)
    assert choice.epsilon is None
    assert not choice.holds
    assert choice.sentence.endswith("no upper end of an estimate is known that passed its checks.")


def test_the_choice_stops_above_an_untrusted_estimate(result):
    grid = [cell.epsilon for cell in result.document.cells]
    assert result.choose(max_loss_increase=5.0).epsilon == grid[0]
    cells = [
        cell.model_copy(
            update={
                "trusted": cell.epsilon != grid[2],
                "loss_change_high": abs(cell.loss_change_high) + 0.001,
            }
        )
        for cell in result.document.cells
    ]
    doubtful = replace(result, document=result.document.model_copy(update={"cells": cells}))
    choice = doubtful.choose(max_loss_increase=5.0)
    assert (choice.epsilon, choice.holds) == (grid[3], True)
    assert choice.sentence.endswith("The estimate at the next smaller ε failed its checks.")
    nothing = doubtful.choose(max_loss_increase=0.0)
    assert nothing.epsilon is None
    assert f"ε = {grid[2]:.3g}," not in nothing.sentence


@pytest.mark.parametrize("limit", [-1.0, math.nan, math.inf, "much", True, None])
def test_a_limit_must_be_a_number(result, limit):
    with pytest.raises(InputError, match="max_loss_increase"):
        result.choose(max_loss_increase=limit)


def test_confidence_must_be_a_share(result):
    with pytest.raises(InputError, match="confidence"):
        result.choose(max_loss_increase=0.1, confidence=1.0)


def test_an_estimate_has_no_runs(result):
    with pytest.raises(InputError, match=r"study\.retrain"):
        result.draws()


def test_intervals_of_accuracy_and_auc_enclose_most_of_their_change(result):
    intervals = result.intervals()
    assert set(intervals["outcome"]) == {"accuracy", "auc"}
    assert len(intervals) == 24
    assert (intervals["low"] <= intervals["high"]).all()


def test_the_plot_is_a_chart_of_the_document(result):
    chart = result.plot(max_loss_increase=0.01)
    assert "vega-lite" in chart.to_json()


def test_the_repr_says_what_it_is(result):
    assert repr(result).startswith("LossChangeEstimate(12 cells: 1 group(s) × 12 epsilon")


def test_printing_shows_the_loss(result):
    """Of the baseline and of every change, in a terminal of any width."""
    lines = repr(result).splitlines()
    assert lines[1].startswith(
        f"Without randomising: test loss {result.document.baseline.loss:.4g}"
    )
    assert lines[2].split()[:3] == ["group", "epsilon", "loss_change"]
    shown = float(lines[3].split()[2])
    assert shown == pytest.approx(result.document.cells[0].loss_change, rel=1e-3)
    assert "..." not in repr(result)
