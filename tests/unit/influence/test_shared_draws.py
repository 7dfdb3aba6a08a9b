"""Randomness that is shared over ε: the law at every ε, and reports that only move away from the truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from epsilens import WhatIf
from epsilens.influence.question import Question
from epsilens.influence.shared_draws import (
    column_sizes,
    draw_one,
    draw_spread,
    keep_levels,
    report,
)

N = 30_000


@pytest.fixture(scope="module")
def asked():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=N), "kind": rng.integers(0, 4, N)})
    y = pd.Series(pd.Categorical(rng.integers(0, 3, N), categories=[0, 1, 2]), name="y")
    study = WhatIf(GaussianNB()).fit(X, y, X[:50], y[:50])
    question = Question([0.5, 1.5, 4.0], ["y", "kind"], categories={"kind": [0, 1, 2, 3]})
    return study._ask(question, study.baseline_)


def reported(asked, model, draw, e):
    levels = keep_levels(asked, asked.groups[0], e, N)
    return report(model, asked, draw, levels)


@pytest.mark.parametrize("how", ["one", "spread"])
def test_every_draw_follows_randomised_response_at_every_epsilon(asked, how):
    asked, model = asked
    sizes, seed = column_sizes(asked), np.random.SeedSequence(3)
    draw = draw_one(sizes, N, seed) if how == "one" else draw_spread(sizes, N, 5, seed)[2]
    truth = {"y": model.label.y.astype(int), "kind": model.table["kind"].to_numpy()}
    for e, _ in enumerate(asked.epsilons):
        found = reported(asked, model, draw, e)
        told = {"y": np.asarray(found.y).astype(int), "kind": found.table["kind"].to_numpy()}
        channels = {"kind": asked.feature_channels[e].channels[0], "y": asked.label_channels[e]}
        for name, channel in channels.items():
            for value in range(len(channel.matrix)):
                whom = truth[name] == value
                shares = np.bincount(told[name][whom], minlength=len(channel.matrix)) / whom.sum()
                error = np.sqrt(0.25 / whom.sum())
                assert np.abs(shares - channel.matrix[value]).max() < 4.5 * error


def test_reports_only_move_away_from_the_truth_as_epsilon_falls(asked):
    asked, model = asked
    draw = draw_one(column_sizes(asked), N, np.random.SeedSequence(4))
    truth, before = model.label.y, None
    for e in reversed(range(len(asked.epsilons))):
        told = np.asarray(reported(asked, model, draw, e).y)
        changed = told != truth
        if before is not None:
            assert (told[before != truth] == before[before != truth]).all()
            assert changed.sum() > (before != truth).sum()
        before = told


def test_spread_draws_are_uniform_alone_and_even_together():
    draws = draw_spread([2, 5], 20_000, 5, np.random.SeedSequence(0))
    uniforms = np.stack([draw.uniforms for draw in draws])
    for draw in draws:
        counts = np.histogram(draw.uniforms[0], bins=10, range=(0, 1))[0]
        assert np.abs(counts - 2000).max() < 5 * np.sqrt(2000)
        kinds = np.bincount(draw.categories[1], minlength=5)
        assert np.abs(kinds - 4000).max() < 5 * np.sqrt(4000)
        # The category does not hang on the uniform number.
        high = draw.categories[1][draw.uniforms[1] > 0.5]
        assert np.abs(np.bincount(high, minlength=5) / len(high) - 0.2).max() < 0.02
    assert (np.sort(np.floor(5 * uniforms), axis=0) == np.arange(5)[:, None, None]).all()


def test_two_records_are_drawn_independently_of_each_other():
    draws = draw_spread([2], 40_000, 4, np.random.SeedSequence(1))
    one, other = draws[0].uniforms[0, ::2], draws[0].uniforms[0, 1::2]
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(20_000)


def test_people_outside_the_group_report_the_truth():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=400)})
    y = pd.Series(rng.integers(0, 2, 400), name="y").astype("category")
    study = WhatIf(GaussianNB()).fit(X, y, X[:50], y[:50])
    mask = np.arange(400) < 100
    asked, model = study._ask(
        Question(0.1, groups={"first": mask}, dependent_groups="warn"), study.baseline_
    )
    draw = draw_one(column_sizes(asked), 400, np.random.SeedSequence(0))
    told = report(model, asked, draw, keep_levels(asked, asked.groups[0], 0, 400))
    changed = np.asarray(told.y) != model.label.y
    assert changed[:100].any()
    assert not changed[100:].any()
    assert told.table is None
