"""Who is most exposed, by group: against counting by hand, and how often the bounds are wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import t

from epsilens.document import example_document, load_document, to_json, view
from epsilens.document.risk import GroupRiskCell, RiskCell
from epsilens.risk import AttackStudy, lira
from epsilens.risk.group_exposure import group_exposures
from epsilens.risk.membership_attack import HeldOutScores

from .conftest import pipeline, table

# Two dozen models are few, on purpose, and fair coins look unfair now and then.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too few models to be judged"),
    pytest.mark.filterwarnings("ignore:the membership does not come from fair coins"),
]


def attack_on(leaks, *, n_models=60, seed=0):
    """Attack scores that leak by so much for each record."""
    rng = np.random.default_rng(seed)
    membership = rng.random((n_models, len(leaks))) < 0.5
    return lira(leaks * membership + rng.normal(size=membership.shape), membership)


def groups_of(n, *sizes):
    ends = np.cumsum((0, *sizes))
    return [(np.arange(n) >= a) & (np.arange(n) < b) for a, b in pairwise(ends)]


def test_numbers_are_those_counted_by_hand():
    leaks = np.where(np.arange(300) < 120, 1.5, 0.2)
    attack, groups = attack_on(leaks), groups_of(300, 120, 100)
    found = group_exposures(attack, groups, seed=0)
    held = attack.held_out
    level = 1 - 0.05 / 2
    for group, numbers in zip(groups, found, strict=True):
        rates, others = [], []
        for model in range(60):
            right = (held.statistic[model] > 0) == held.membership[model]
            rates.append(right[group].mean())
            others.append(right[~group].mean())
        rates, excess = np.array(rates), np.array(rates) - np.array(others)
        width = t.ppf(level, 59) / math.sqrt(60)
        assert numbers["n_attacked"] == group.sum()
        assert numbers["asr_mean"] == pytest.approx(rates.mean())
        assert numbers["asr_mean_lower_bound"] == pytest.approx(
            rates.mean() - width * rates.std(ddof=1)
        )
        assert numbers["asr_mean_excess"] == pytest.approx(excess.mean())
        assert numbers["asr_mean_excess_lower_bound"] == pytest.approx(
            excess.mean() - width * excess.std(ddof=1)
        )
        # The largest threshold with at most 1 % of the group's own outsiders above it.
        scores, members = held.statistic[:, group].ravel(), held.membership[:, group].ravel()
        outside = np.sort(scores[~members])[::-1]
        threshold = outside[int(0.01 * len(outside))]
        assert numbers["tpr_at_fpr_0_01"] == pytest.approx((scores[members] > threshold).mean())
        assert numbers["tpr_at_fpr_0_01_low"] <= numbers["tpr_at_fpr_0_01"]
        assert numbers["tpr_at_fpr_0_01"] <= numbers["tpr_at_fpr_0_01_high"]
    assert found[0]["asr_mean_excess_lower_bound"] > 0.1 > found[1]["asr_mean_excess_lower_bound"]


def test_small_groups_have_no_numbers():
    attack = attack_on(np.full(200, 1.0))
    tiny, small, nearly_all = group_exposures(attack, groups_of(200, 29, 30, 141), seed=0)
    assert tiny == {"n_attacked": 29}
    assert "asr_mean" in small
    assert "tpr_at_fpr_0_01" not in small
    assert "tpr_at_fpr_0_01" in nearly_all
    # Less than 30 others would be described by the difference.
    (most,) = group_exposures(attack, groups_of(200, 180), seed=0)
    assert "asr_mean" in most
    assert "asr_mean_excess" not in most


def test_bounds_hold_for_all_groups_at_once():
    """Five groups with the same leak: some bound is wrong in at most 5 % of the studies."""
    n_studies, wrong_mean, wrong_excess = 600, 0, 0
    groups = groups_of(250, 50, 50, 50, 50, 50)
    rng, whole = np.random.default_rng(1), attack_on(np.zeros(250), n_models=24)
    for _ in range(n_studies):
        scores = rng.normal(size=(24, 250))
        members = rng.random(scores.shape) < 0.5
        statistic = np.empty(scores.shape, dtype=np.float32)
        for half in (0, 1):
            out = ~members[1 - half :: 2]
            total = (scores[1 - half :: 2] * out).sum(axis=0)
            statistic[half::2] = scores[half::2] - total / np.maximum(out.sum(axis=0), 1)
        held_out = HeldOutScores(statistic, members, np.ones((2, 250), dtype=bool))
        found = group_exposures(replace(whole, held_out=held_out), groups, seed=0)
        wrong_mean += any(one["asr_mean_lower_bound"] > 0.5 for one in found)
        wrong_excess += any(one["asr_mean_excess_lower_bound"] > 0.0 for one in found)
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / n_studies)
    assert wrong_mean / n_studies <= most
    assert wrong_excess / n_studies <= most


def cells(**numbers):
    plain = {"epsilon": 1.0, "mechanism": "rr", "asr_max": 0.7, "asr_mean": 0.55, "n_attacked": 200}
    return RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.7, asr_mean=0.55), [
        GroupRiskCell(group="old", n_people=200, **plain),
        GroupRiskCell(group="young", n_people=200, **(plain | numbers)),
    ]


def test_a_group_is_named_where_it_is_clearly_more_exposed():
    clear = {
        "asr_mean": 0.62,
        "asr_mean_lower_bound": 0.6,
        "asr_mean_excess": 0.071,
        "asr_mean_excess_lower_bound": 0.0199,
    }
    cell, group_cells = cells(**clear)
    document = example_document("risk", cells=[cell], group_cells=group_cells, protect=["smokes"])
    said = view(document).sentence
    assert "Membership of the group “young” is recognised more often than that of everybody" in said
    assert "right about 62.0% of its records, 7.1 points more (measured). With 95 % confid" in said
    assert "for all groups at once, it is at least 1.9 points." in said
    table = view(document).tables[-1]
    assert table.title == "How often an attacker recognises members in each group"
    assert [line["asr_mean_excess_lower_bound"].text for line in table.lines] == ["–", "+2.0"]
    assert load_document(to_json(document)) == document
    for bound in ({"asr_mean_excess_lower_bound": -0.001}, {"asr_mean_lower_bound": 0.49}):
        cell, group_cells = cells(**(clear | bound))
        document = example_document(
            "risk", cells=[cell], group_cells=group_cells, protect=["smokes"]
        )
        assert "“young”" not in view(document).sentence


def test_a_study_attacks_by_group():
    from sklearn.linear_model import LogisticRegression

    X, y = table()
    study = AttackStudy(pipeline(LogisticRegression(), X)).fit(X[:240], y[:240], X[240:], y[240:])
    old = (X["age"][:240] > 40).to_numpy()
    groups = {"old": old, "young": ~old}
    shared = {"shadow_models": 24, "groups": groups}
    randomised = study.estimate(protect="ill", epsilon=[4.0], **shared)
    noisy = study.estimate_dp_sgd(epsilon=[8.0], delta=1e-4, epochs=1, **shared)
    for curve in (randomised, noisy):
        found = curve.document.group_cells
        assert [(cell.group, cell.epsilon) for cell in found] == [
            (name, cell.epsilon) for name in groups for cell in curve.document.cells
        ]
        # The groups make up everybody, and their mean is everybody's.
        for place, cell in enumerate(curve.document.cells):
            own = found[place], found[place + len(curve.document.cells)]
            mean = sum(one.asr_mean * one.n_attacked for one in own) / 240
            assert mean == pytest.approx(cell.asr_mean, abs=0.01)
    assert noisy.document.group_cells[0].asr_ceiling == noisy.document.cells[0].asr_ceiling
