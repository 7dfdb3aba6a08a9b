"""The choice among mechanisms against a choice that is written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from epsilens.decision.compare import Candidate, choose
from epsilens.decision.others import Comparison
from epsilens.decision.question import read_limits
from epsilens.decision.result import Standing
from epsilens.decision.rules import _recommend
from epsilens.document import MechanismCell, MechanismCurve
from epsilens.errors import InputError
from epsilens.mechanisms.protocol import run_end

NAMES = ("randomised-response", "noisy-descent", "output-perturbation")


def candidate(name, limits, costs, advantages, *, protects="answer"):
    trust = "nobody" if name == "randomised-response" else "curator"
    grid = (0.5, 1.0, 2.0)
    cells = [
        MechanismCell(
            epsilon=epsilon,
            delta=0.0 if trust == "nobody" else 1e-6,
            advantage=share,
            loss_change=cost,
            accuracy_change=-cost,
            method="simulation",
        )
        for epsilon, cost, share in zip(grid, costs, advantages, strict=True)
    ]
    curve = MechanismCurve(mechanism=name, trust=trust, protects=protects, cells=cells)
    standings = tuple(
        Standing(epsilon, cost, 0.5 + share / 2, None, True, share, cost / 2)
        for epsilon, cost, share in zip(grid, costs, advantages, strict=True)
    )
    return Candidate(curve, standings, _recommend(curve, standings, limits))


def brute_force(candidates, limits):
    """Every budget of every mechanism: the best that meets the limits by itself."""
    within = [
        (one.curve.mechanism, standing)
        for one in candidates
        for standing in one.standings
        if limits.bears(standing.loss_increase, standing.accuracy_loss)
        and (limits.advantage is None or standing.advantage <= limits.advantage)
        and (limits.rate is None or standing.attack_ceiling <= limits.rate)
    ]
    if not within:
        return None
    by_cost = (lambda s: s.accuracy_loss) if limits.accuracy else (lambda s: s.loss_increase)
    key = (
        (lambda pair: (pair[1].advantage, by_cost(pair[1])))
        if limits.has_cost
        else (lambda pair: (by_cost(pair[1]), pair[1].advantage))
    )
    name, standing = min(within, key=key)
    return name, standing.epsilon


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"max_advantage": 0.3},
        {"max_attack_rate": 0.7},
        {"max_loss_increase": 0.1},
        {"max_accuracy_loss": 3.0},
        {"max_loss_increase": 0.15, "max_advantage": 0.4},
        {"max_accuracy_loss": 8.0, "max_attack_rate": 0.65},
    ],
)
def test_the_choice_is_that_of_all_budgets_of_all_mechanisms(asked):
    """Costs fall and advantages rise with ε, as they do: the rules agree with looking at every cell."""
    rng = np.random.default_rng(0)
    limits = read_limits(**asked)
    for _ in range(300):
        candidates = [
            candidate(
                name,
                limits,
                np.sort(rng.uniform(0, 0.3, 3))[::-1].tolist(),
                np.sort(rng.uniform(0, 0.8, 3)).tolist(),
            )
            for name in NAMES
        ]
        found, others = choose(candidates, limits, trust="curator", protects="answer")
        wanted = brute_force(candidates, limits)
        assert (None if found.epsilon is None else (found.mechanism, found.epsilon)) == wanted
        assert len(others) == 2
        assert all(other.reason for other in others)


def test_only_what_protects_enough_is_recommended():
    limits = read_limits(max_advantage=0.5)
    cheap = candidate("randomised-response", limits, [0.3, 0.2, 0.0], [0.1, 0.2, 0.3])
    record = candidate("noisy-descent", limits, [0.3, 0.2, 0.1], [0.1, 0.2, 0.3], protects="record")
    answer = candidate("output-perturbation", limits, [0.3, 0.2, 0.05], [0.1, 0.2, 0.3])
    every = [cheap, record, answer]
    found, others = choose(every, limits, trust="curator", protects="record")
    assert found.mechanism == "noisy-descent"
    assert {other.reason for other in others} == {"It protects answers, not whole records."}
    found, others = choose(every, limits, trust="nobody", protects="answer")
    assert found.mechanism == "randomised-response"
    assert {other.reason for other in others} == {"Somebody must be trusted with the true answers."}
    found, _ = choose(every, limits, trust="curator", protects="answer", named=["noisy-descent"])
    assert found.mechanism == "noisy-descent"


def test_who_is_asked_about():
    def read(**changes):
        asked = {"trust": None, "protects": "answer", "mechanisms": None, "is_local": False}
        return Comparison.read(**asked | changes)

    assert read().trust == "curator"
    assert "noisy-descent" in read().names
    assert read(is_local=True) == read(trust="nobody")
    assert read(mechanisms="randomised-response").names == ()
    assert not read(mechanisms="randomised-response").with_correction
    assert read(mechanisms=["dp-ebm,noisy-descent"]).names == ("noisy-descent", "dp-ebm")
    for wrong in (
        {"trust": "nobody", "mechanisms": "dp-sgd"},
        {"trust": "nobody", "protects": "record"},
        {"mechanisms": "no-such"},
        {"trust": "everybody"},
        {"protects": "all"},
    ):
        with pytest.raises(InputError):
            read(**wrong)


def test_limits_on_the_accuracy():
    assert read_limits(max_accuracy_loss=2.0).accuracy == 0.02
    for wrong in (
        {"max_accuracy_loss": -1.0},
        {"max_accuracy_loss": 101.0},
        {"max_accuracy_loss": 1.0, "max_loss_increase": 0.1},
        {"max_accuracy_loss": 1.0, "confidence": 0.99},
    ):
        with pytest.raises(InputError):
            read_limits(**wrong)


@pytest.mark.parametrize(("n_runs", "exact"), [(39, True), (19, True), (5, False)])
def test_one_more_run_lies_in_the_interval_nine_times_in_ten(n_runs, exact):
    """Skewed runs for the quantiles; for few runs, which are taken as normal, normal ones."""
    rng = np.random.default_rng(0)
    trials = 4000
    draw = rng.exponential if exact else rng.normal
    runs = draw(size=(trials, n_runs))
    new = draw(size=trials)
    inside = [
        run_end(row, 0.05) <= one <= run_end(row, 0.95) for row, one in zip(runs, new, strict=True)
    ]
    assert abs(np.mean(inside) - 0.9) < 4 * math.sqrt(0.09 / trials)


def test_every_pair_of_limits_names_its_rule():
    cost = ({"max_loss_increase": 0.1}, {"max_accuracy_loss": 1.0}, {})
    attack = ({"max_attack_rate": 0.7}, {"max_advantage": 0.2}, {})
    for one, other in itertools.product(cost, attack):
        limits = read_limits(**one, **other)
        found = candidate("noisy-descent", limits, [0.2, 0.1, 0.0], [0.1, 0.2, 0.3]).answer
        given = [*one, *other]
        wanted = "both" if len(given) == 2 else given[0] if given else "max_advantage"
        assert found.rule == wanted
