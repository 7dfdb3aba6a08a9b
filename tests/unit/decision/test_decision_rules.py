"""The rules against ones that are written out, and what they refuse."""

from __future__ import annotations

import itertools
import math
import re
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from epsilens import WhatIf
from epsilens.decision import Decision, decide
from epsilens.document import (
    OutcomeInterval,
    Recommendation,
    RiskCell,
    RiskDocument,
    WhatIfDocument,
    anonymise,
    load_document,
    to_json,
    view,
)
from epsilens.document.clauses import ceiling_is_open
from epsilens.document.risk import GroupRiskCell
from epsilens.errors import InputError, InputTypeError
from epsilens.risk import AttackStudy, RiskCurve
from epsilens.show import write_report
from epsilens.whatif import LossChangeEstimate

GRID = (0.25, 0.5, 1.0, 2.0, 4.0)


def said(found: Recommendation) -> str:
    return " ".join([found.sentence, *found.details])


def make_cost(
    build: ModuleType, highs: list[float], grid: tuple[float, ...] = GRID, **changes: object
) -> LossChangeEstimate:
    document = build.make_whatif(epsilons=list(grid), groups=["all"])
    cells = [
        cell.model_copy(
            update={
                "loss_change": high - 0.01,
                "loss_change_low": high - 0.02,
                "loss_change_high": high,
                **changes,
            }
        )
        for cell, high in zip(document.cells, highs, strict=True)
    ]
    settings = document.provenance.settings | {"protect": ["smokes"], "mechanism": "rr"}
    origin = document.provenance.model_copy(update={"settings": settings})
    document = document.model_copy(update={"cells": cells, "provenance": origin})
    draws = tuple(np.linspace(high - 0.02, high, 200) for high in highs)
    return LossChangeEstimate(document, draws)


def make_risk(
    build: ModuleType, ceilings: list[float], highs: list[float], grid: tuple[float, ...] = GRID
) -> RiskCurve:
    """Two possible answers; the baseline and the ceilings are made up."""
    cells = [
        RiskCell(
            epsilon=epsilon,
            mechanism="rr",
            record_epsilon=epsilon,
            advantage=math.tanh(epsilon / 2),
            answer_inference_rate=high - 0.02,
            answer_inference_low=high - 0.04,
            answer_inference_high=high,
            answer_inference_baseline=0.6,
            answer_inference_ceiling=ceiling,
        )
        for epsilon, ceiling, high in zip(grid, ceilings, highs, strict=True)
    ]
    document = build.make_risk()
    origin = document.provenance.model_copy(update={"schema_fingerprint": "9f" * 32})
    document = document.model_copy(
        update={"cells": cells, "protect": ["smokes"], "n_answers": [2], "provenance": origin}
    )
    return RiskCurve(document, (), np.arange(0))


FALLING = [0.4, 0.2, 0.1, 0.05, 0.01]
RISING = [0.65, 0.7, 0.8, 0.9, 0.97]
MEASURED = [0.64, 0.66, 0.68, 0.7, 0.72]


def written_out(
    loss: float | None, rate: float | None, highs: list[float], ceilings: list[float],
    measured: list[float] | None,
) -> float | None:  # fmt: skip
    """The rule as one would say it aloud: look at every ε."""
    allowed = []
    for k, epsilon in enumerate(GRID):
        cheap = loss is None or all(high <= loss for high in highs[k:])
        proven = rate is not None and all(value <= rate for value in ceilings[: k + 1])
        tried = (
            rate is not None
            and measured is not None
            and all(value <= rate for value in measured[: k + 1])
        )
        if cheap and (rate is None or proven or tried):
            allowed.append(epsilon)
    if not allowed:
        return None
    return max(allowed) if loss is None else min(allowed)


@pytest.mark.parametrize(
    ("loss", "rate"),
    [
        pair
        for pair in itertools.product(
            [None, 0.005, 0.01, 0.07, 0.2, 1.0], [None, 0.5, 0.64, 0.69, 0.75, 0.85, 0.99]
        )
        if pair != (None, None)
    ],
)
@pytest.mark.parametrize(
    ("highs", "ceilings", "measured"),
    [
        (FALLING, RISING, MEASURED),
        ([0.4, 0.05, 0.1, 0.06, 0.01], RISING, [0.7, 0.6, 0.65, 0.6, 0.9]),
        (FALLING, RISING, [0.99] * 5),
    ],
)
@pytest.mark.parametrize("by_measure", [False, True])
def test_the_rule_is_the_one_written_out(build, loss, rate, highs, ceilings, measured, by_measure):
    decision = decide(
        make_cost(build, highs),
        make_risk(build, ceilings, measured),
        max_loss_increase=loss,
        max_attack_rate=rate,
        measured=by_measure,
    )
    expected = written_out(loss, rate, highs, ceilings, measured if by_measure else None)
    found = decision.recommendation
    assert found.epsilon == expected
    assert found.holds == (expected is not None)
    if expected is None:
        assert "No ε of the grid" in said(found)
    else:
        assert f"ε = {expected:.3g}" in said(found)
        if rate is not None:
            place = GRID.index(expected)
            assert found.rests_on == ("proven" if ceilings[place] <= rate else "measured")
            tried = "is met only by the attack that was tried" in said(found)
            assert tried == (found.rests_on == "measured")


def test_the_ceiling_decides_unless_the_attack_that_was_tried_is_asked_for(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    usual = decide(cost, risk, max_attack_rate=0.75)
    assert (usual.recommendation.epsilon, usual.recommendation.rests_on) == (0.5, "proven")
    assert usual.document.number_types["max_attack_rate"] == "proven given b"
    synonym = decide(cost, risk, max_attack_rate=0.75, proven_only=True)
    assert synonym.document == usual.document
    either = decide(cost, risk, max_attack_rate=0.75, measured=True)
    assert (either.recommendation.epsilon, either.recommendation.rests_on) == (4.0, "measured")
    assert either.document.number_types["max_attack_rate"] == "measured"
    # More confidence than was simulated is met by proof alone.
    sure = decide(cost, risk, max_attack_rate=0.75, measured=True, confidence=0.95)
    assert sure.recommendation.epsilon == 0.5
    with pytest.raises(InputError, match="contradict each other"):
        decide(cost, risk, max_attack_rate=0.75, measured=True, proven_only=True)


@pytest.mark.parametrize("rate", [0.5, 0.66, 0.69, 0.75, 0.85, 0.99])
@pytest.mark.parametrize("measured", [False, True])
def test_the_risk_alone_leads_to_the_same_budget(build, rate, measured):
    risk = make_risk(build, RISING, MEASURED)
    decided = decide(
        make_cost(build, FALLING), risk, max_attack_rate=rate, measured=measured
    ).recommendation
    chosen = risk.choose(max_attack_rate=rate, measured=measured)
    assert (chosen.epsilon, chosen.rests_on) == (decided.epsilon, decided.rests_on)


FINE = (0.1, 0.15, 0.25, 1.0, 3.0)


def test_without_any_limit_the_default_holds_and_is_named_as_ours(build):
    cost, risk = make_cost(build, FALLING, FINE), make_risk(build, RISING, MEASURED, FINE)
    found = decide(cost, risk).recommendation
    assert (found.epsilon, found.rule, found.holds) == (0.15, "max_advantage", True)
    assert (found.max_advantage, found.is_default) == (0.1, True)
    assert found.max_loss_increase is None
    assert found.advantage == pytest.approx(math.tanh(0.075))
    assert found.attack_rate_ceiling == 0.7
    assert found.sentence.startswith(
        "Randomise the answers at ε = 0.15. Of the answers that the rest of the data do not give away, "
        "at most 7.5% become guessable"
    )
    assert "(proven; our default limit)" in found.sentence
    assert found.details[0] == (
        "It is the largest ε of the grid within our default limit, an advantage of at most 0.1; you "
        "gave none."
    )
    assert len(found.sentence.split()) <= 50
    # Somebody who asks for the same number is not told of a default.
    own = decide(cost, risk, max_advantage=0.1).recommendation
    assert (own.epsilon, own.is_default) == (0.15, False)
    assert "default" not in said(own)
    assert "within your limit, an advantage of at most 0.1" in said(own)


def test_a_grid_without_a_small_budget_has_none_within_the_default(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    found = decide(cost, risk).recommendation
    assert (found.epsilon, found.holds, found.advantage) == (None, False, None)
    assert "has an advantage of at most 0.1, our default: you gave no limit" in said(found)
    assert "nearest miss is ε = 0.25, with an advantage of 0.124" in said(found)


def test_both_ends_of_the_curve_are_named_beside_the_default(build):
    """The loss change of the last two reaches 0; an advantage of 0.8 is passed between 1 and 3."""
    cost = make_cost(build, [0.4, 0.2, 0.1, 0.015, 0.012], FINE)
    found = decide(cost, make_risk(build, RISING, MEASURED, FINE)).recommendation
    assert (found.no_cost_from, found.proof_up_to) == (1.0, 1.0)
    assert said(found).endswith(
        "Randomising costs nothing measurable from ε = 1 up; it proves something from ε = 1 down."
    )
    dear = decide(make_cost(build, [0.4] * 5, FINE), make_risk(build, RISING, MEASURED, FINE))
    assert dear.recommendation.no_cost_from is None
    assert "No ε of the grid is known to cost nothing" in said(dear.recommendation)
    # An interval that reaches 0 is not enough where the expected cost is large.
    wide = decide(
        make_cost(build, [0.4, 0.2, 0.1, 0.019, 0.012], FINE),
        make_risk(build, RISING, MEASURED, FINE),
    )
    assert wide.recommendation.no_cost_from == 3.0
    # A few rows give an interval that reaches 0 and far above: nothing is known to be free.
    few = make_cost(
        build, FALLING, FINE, loss_change=0.0, loss_change_low=-0.2, loss_change_high=0.2
    )
    claimed = decide(few, make_risk(build, RISING, MEASURED, FINE)).recommendation
    assert claimed.no_cost_from is None
    assert "costs nothing" not in said(claimed)
    # An upper end that is small beside the loss before counts as none.
    small = make_cost(build, [0.4, 0.2, 0.1, 0.05, 0.0], FINE)
    cells = [*small.document.cells]
    tiny = {"loss_change_low": 1e-6, "loss_change": 2e-6, "loss_change_high": 3e-6}
    cells[-1] = cells[-1].model_copy(update=tiny)
    small = LossChangeEstimate(small.document.model_copy(update={"cells": cells}), small.loss_draws)
    ended = decide(small, make_risk(build, RISING, MEASURED, FINE)).recommendation
    assert ended.no_cost_from == 3.0


def test_a_limit_on_the_loss_alone_says_what_is_not_protected(build):
    cost = make_cost(build, FALLING)
    weak = decide(cost, make_risk(build, RISING, MEASURED), max_loss_increase=0.02).recommendation
    assert weak.epsilon == 4.0
    assert "You set no limit on what an attacker gets." in said(weak)
    assert "Almost nothing is proven at this ε: an attacker may guess up to 97.0%" in said(weak)
    assert "60.0% from everybody else's data alone" in said(weak)
    open_ = make_risk(build, [*RISING[:4], 1.0], MEASURED)
    none = decide(cost, open_, max_loss_increase=0.02).recommendation
    assert "Nothing is proven to stay hidden" in said(none)


@pytest.mark.parametrize("limits", [{"max_loss_increase": 0.2}, {"max_attack_rate": 0.85}, {}])
def test_the_most_private_choice_names_its_limit(build, limits):
    cost, risk = make_cost(build, FALLING, FINE), make_risk(build, RISING, MEASURED, FINE)
    for more in ({}, {"max_loss_increase": 0.4}):
        words = said(decide(cost, risk, **{**limits, **more}).recommendation)
        if "most private choice" in words:
            assert "most private choice within" in words


def test_a_limit_on_the_advantage_beside_one_on_the_loss(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    found = decide(cost, risk, max_loss_increase=0.1, max_advantage=0.8).recommendation
    assert (found.epsilon, found.rule, found.rests_on) == (1.0, "both", "proven")
    assert (found.least, found.most) == (1.0, 2.0)
    none = decide(cost, risk, max_loss_increase=0.1, max_advantage=0.3).recommendation
    assert none.epsilon is None
    with pytest.raises(InputError, match="one limit on the attack, got two"):
        decide(cost, risk, max_attack_rate=0.9, max_advantage=0.3)


def test_the_cost_is_said_in_people(build):
    """Every change of accuracy between fewer and more, as an interval."""
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    for ends, words in (
        ((-0.004, 0.007), "between 4 fewer and 7 more right (estimated)"),
        ((-0.045, -0.012), "12 to 45 fewer right (estimated)"),
        ((0.002, 0.002), "2 more right (estimated)"),
        ((-0.0001, 0.0002), "as many right as before (estimated)"),
    ):
        interval = OutcomeInterval(
            group="all", epsilon=1.0, outcome="accuracy", low=ends[0], high=ends[1]
        )
        document = cost.document.model_copy(update={"intervals": [interval]})
        told = LossChangeEstimate(document, cost.loss_draws)
        assert words in said(decide(told, risk, max_advantage=0.5).recommendation)


def test_taking_an_answer_at_face_value(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    decision = decide(cost, risk, max_advantage=0.8)
    assert decision.recommendation.epsilon == 2.0
    fact = "Taking a randomised answer at face value is right 88.1% of the time."
    assert decision.document.face_value() == fact
    assert view(decision.document).sentences[-1] == fact
    three = risk.document.model_copy(update={"n_answers": [3]})
    told = decide(cost, RiskCurve(three, (), np.arange(0)), max_advantage=0.8)
    assert "is right 78.7% of the time" in told.document.face_value()
    unknown = risk.document.model_copy(update={"n_answers": []})
    told = decide(cost, RiskCurve(unknown, (), np.arange(0)), max_advantage=0.8)
    assert told.document.face_value() is None


def test_the_inverses(build):
    decision = decide(
        make_cost(build, FALLING), make_risk(build, RISING, [0.99] * 5), max_loss_increase=0.2
    )
    here = decision.at(1.0)
    assert (here.loss_increase, here.attack_ceiling, here.attack_high) == (0.1, 0.8, None)
    assert decision.loss_needed(max_attack_rate=0.85) == 0.1
    assert decision.loss_needed(max_attack_rate=0.5) is None
    assert decision.attack_rate_needed(max_loss_increase=0.1) == 0.8
    assert decision.attack_rate_needed(max_loss_increase=0.001) is None
    # Both together: what one limit needs of the other is just enough.
    for rate in (0.66, 0.75, 0.85, 0.95):
        needed = decision.loss_needed(max_attack_rate=rate)
        cost = make_cost(build, FALLING)
        risk = make_risk(build, RISING, [0.99] * 5)
        assert decide(
            cost, risk, max_loss_increase=needed, max_attack_rate=rate
        ).recommendation.holds
        assert not decide(
            cost, risk, max_loss_increase=needed - 1e-9, max_attack_rate=rate
        ).recommendation.holds
    with pytest.raises(InputError, match="one of the 5"):
        decision.at(3.0)


def test_a_cost_that_failed_its_check_meets_no_limit(build):
    untrusted = make_cost(build, FALLING, trusted=False), make_risk(build, RISING, MEASURED)
    by_loss = decide(*untrusted, max_loss_increase=0.2).recommendation
    assert by_loss.epsilon is None
    assert not by_loss.holds
    assert "there is no estimate of it" in said(by_loss)
    by_attack = decide(*untrusted, max_attack_rate=0.99).recommendation
    assert by_attack.epsilon is not None
    assert by_attack.holds
    assert "What it costs is not known: the estimate failed its own check." in said(by_attack)


def test_none_names_the_nearest_miss(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, [0.99] * 5)
    both = decide(cost, risk, max_loss_increase=0.06, max_attack_rate=0.75).recommendation
    assert both.epsilon is None
    assert "ε = 2 or more" in said(both)
    assert "ε = 0.5 or less" in said(both)
    assert "90.0%" in said(both)
    assert "+0.2" in said(both)
    loss = said(decide(cost, risk, max_loss_increase=0.001).recommendation)
    assert "nearest miss is ε = 4" in loss
    rate = said(decide(cost, risk, max_attack_rate=0.5).recommendation)
    assert "nearest miss is ε = 0.25" in rate


def test_a_few_retrainings_do_not_hold(build):
    cost = make_cost(build, FALLING)
    few = tuple(draws[:3] for draws in cost.loss_draws)
    runs = pd.DataFrame({"repeat": [0, 1, 2]})
    retrained = LossChangeEstimate(cost.document, few, retrained=runs)
    decision = decide(retrained, make_risk(build, RISING, MEASURED), max_loss_increase=0.2)
    assert not decision.recommendation.holds
    assert "too few to be sure" in said(decision.recommendation)


@pytest.mark.parametrize(("last", "is_refused"), [(40.0, False), (41.0, True), (math.inf, False)])
def test_a_budget_that_no_release_can_have_is_said(build, last, is_refused):
    grid = (*GRID[:-1], last)
    cost, risk = make_cost(build, FALLING, grid), make_risk(build, RISING, MEASURED, grid)
    chosen = decide(cost, risk, max_loss_increase=0.02).recommendation
    assert chosen.epsilon == last
    assert ("above ε = 40 protects nobody and is refused" in said(chosen)) is is_refused


def test_the_range_says_how_far_the_proof_goes(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    asked = {"measured": True, "max_attack_rate": 0.75}
    mixed = decide(cost, risk, max_loss_increase=0.2, **asked).recommendation
    assert mixed.rests_on == "proven"
    assert "from 0.5 to 4 meets both: to 0.5 by proof, beyond by what was measured." in said(mixed)
    tried = decide(cost, risk, max_loss_increase=0.1, **asked).recommendation
    assert "from 1 to 4 meets both, the limit on the attack by what was measured." in said(tried)
    assert "A better attack may exist" in said(tried)
    sure = decide(cost, risk, max_loss_increase=0.2, max_attack_rate=0.98).recommendation
    assert said(sure).endswith("Every ε of the grid from 0.5 to 4 meets both.")


def test_several_answers_are_guessed_all_at_once(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    settings = cost.document.provenance.settings | {"protect": ["smokes", "income"]}
    origin = cost.document.provenance.model_copy(update={"settings": settings})
    cells = [
        cell.model_copy(update={"record_epsilon": 2 * cell.epsilon}) for cell in cost.document.cells
    ]
    both = LossChangeEstimate(
        cost.document.model_copy(update={"provenance": origin, "cells": cells}), cost.loss_draws
    )
    other = risk.document.model_copy(update={"protect": ["smokes", "income"]})
    decision = decide(both, RiskCurve(other, (), np.arange(0)), max_attack_rate=0.75)
    assert "all of them at once" in said(decision.recommendation)
    # A record spends the ε of every column.
    assert "Randomise the answers at ε = 0.5 for each column (ε = 1 for a record)." in said(
        decision.recommendation
    )
    assert "a single one of them is guessed more often" in decision.document.warnings[0]


def test_nothing_is_claimed_where_nothing_is_proven(build):
    risk = make_risk(build, [0.65, 0.7, 0.8, 0.9, 1.0], MEASURED)
    cost = make_cost(build, FALLING)
    found = decide(cost, risk, max_attack_rate=0.75, measured=True).recommendation
    assert found.epsilon == 4.0
    assert "Nothing is proven to stay hidden: an attacker may guess up to 100.0%" in said(found)


def test_the_loss_that_is_needed_is_enough(build):
    """Upper ends that do not fall: a limit must hold at every larger ε."""
    highs = [0.4, 0.05, 0.1, 0.06, 0.01]
    cost, risk = make_cost(build, highs), make_risk(build, RISING, [0.99] * 5)
    decision = decide(cost, risk, max_loss_increase=1.0)
    needed = decision.loss_needed(max_attack_rate=0.75)
    assert needed == 0.1
    assert decide(cost, risk, max_loss_increase=needed, max_attack_rate=0.75).recommendation.holds
    with pytest.raises(InputError, match="max_attack_rate"):
        decision.loss_needed(max_attack_rate=80.0)
    with pytest.raises(TypeError):
        decision.at("1")


def test_costs_without_an_estimate_have_no_nearest_miss(build):
    cost = make_cost(build, [math.nan] * 5)
    found = decide(cost, make_risk(build, RISING, MEASURED), max_loss_increase=0.1).recommendation
    assert "there is no estimate of it" in said(found)
    assert "nan" not in said(found)


def test_other_data_and_other_budgets_are_refused(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)

    def with_origin(document: object, **changes: object) -> object:
        return document.model_copy(
            update={"provenance": document.provenance.model_copy(update=changes)}
        )

    one = LossChangeEstimate(with_origin(cost.document, schema_fingerprint="1f"), cost.loss_draws)
    two = RiskCurve(with_origin(risk.document, schema_fingerprint="2f"), (), np.arange(0))
    with pytest.raises(InputError, match="same data"):
        decide(one, two, max_loss_increase=1.0)
    # Columns and numbers of rows are the same, the answers are not: the model is another.
    for changed, is_other in (({"loss": 0.5434}, True), ({"loss": 0.5432 + 1e-9}, False)):
        baseline = risk.document.baseline.model_copy(update=changed)
        two = RiskCurve(risk.document.model_copy(update={"baseline": baseline}), (), np.arange(0))
        if is_other:
            with pytest.raises(InputError, match="models differ"):
                decide(cost, two, max_loss_increase=1.0)
        else:
            decide(cost, two, max_loss_increase=1.0)
    settings = [
        part.document.provenance.settings | {"epsilon": budget}
        for part, budget in ((cost, {"a": 0.5, "b": 2.5}), (risk, {"a": 2.5, "b": 0.5}))
    ]
    one = LossChangeEstimate(
        with_origin(cost.document, settings=settings[0], schema_fingerprint=None), cost.loss_draws
    )
    two = RiskCurve(
        with_origin(risk.document, settings=settings[1], schema_fingerprint=None), (), np.arange(0)
    )
    with pytest.raises(InputError, match="budget for every column"):
        decide(one, two, max_loss_increase=1.0)


def test_a_corrected_cost_is_not_joined_with_an_attack_on_uncorrected_models(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)

    def corrected(document: object, correction: str) -> object:
        settings = document.provenance.settings | {"correction": correction}
        origin = document.provenance.model_copy(update={"settings": settings})
        return document.model_copy(update={"provenance": origin})

    forward = LossChangeEstimate(corrected(cost.document, "forward"), cost.loss_draws)
    plain = RiskCurve(corrected(risk.document, "none"), (), np.arange(0))
    words = "the cost is of models with forward correction and the attack of models without"
    # Documents that do not say it are of uncorrected models.
    for attacked in (risk, plain):
        with pytest.raises(InputError, match=words):
            decide(forward, attacked, max_loss_increase=1.0)
    words = "the attack is of models with forward correction and the cost of models without"
    with pytest.raises(InputError, match=words):
        decide(
            cost,
            RiskCurve(corrected(risk.document, "forward"), (), np.arange(0)),
            max_loss_increase=1.0,
        )
    for correction in ("none", "forward"):
        same = LossChangeEstimate(corrected(cost.document, correction), cost.loss_draws)
        attacked = RiskCurve(corrected(risk.document, correction), (), np.arange(0))
        assert decide(same, attacked, max_loss_increase=1.0).recommendation.holds


def test_other_models_are_named_with_what_to_do(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)

    def of(document: object, **settings: object) -> object:
        told = document.provenance.settings | settings
        origin = document.provenance.model_copy(update={"settings": told})
        return document.model_copy(update={"provenance": origin})

    for key, words in (
        (
            "estimator",
            "the estimator of the cost is A and that of the attack B. Ask both with the same",
        ),
        ("loss", "the loss of the model of the cost is A and that of the attack B. Ask both"),
    ):
        one = LossChangeEstimate(of(cost.document, **{key: "A"}), cost.loss_draws)
        two = RiskCurve(of(risk.document, **{key: "B"}), (), np.arange(0))
        with pytest.raises(InputError, match=words):
            decide(one, two, max_loss_increase=1.0)
        two = RiskCurve(of(risk.document, **{key: "A"}), (), np.arange(0))
        assert decide(one, two, max_loss_increase=1.0).recommendation.holds


def test_other_groups_are_named_and_those_of_one_side_stand_aside(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    women = [cell.model_copy(update={"group": "women"}) for cell in cost.document.cells]
    grouped = LossChangeEstimate(
        cost.document.model_copy(update={"cells": [*cost.document.cells, *women]}), cost.loss_draws
    )

    def of(name: str) -> RiskCurve:
        cells = [
            GroupRiskCell(group=name, n_people=40, **cell.model_dump())
            for cell in risk.document.cells
        ]
        return RiskCurve(risk.document.model_copy(update={"group_cells": cells}), (), np.arange(0))

    with pytest.raises(
        InputError, match="the cost has the groups women and the attack the groups young"
    ):
        decide(grouped, of("young"), max_loss_increase=1.0)
    with pytest.raises(
        InputError, match=r"the cost has no groups and the attack the groups women\. Ask"
    ):
        decide(cost, of("women"), max_loss_increase=1.0)
    for attacked in (of("women"), risk):
        found = decide(grouped, attacked, max_loss_increase=1.0)
        assert [standing.epsilon for standing in found.standings] == [
            cell.epsilon for cell in cost.document.cells
        ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_train": 74}, "and 74 training rows"),
        ({"n_test": 24}, "and 24 test rows"),
        ({"n_parameters": 999}, "and 999 parameters"),
        ({"loss": 0.6}, "test loss 0.5432 and 0.6"),
        ({"accuracy": 0.1}, "and 0.1"),
    ],
)
def test_models_that_differ_are_told_apart_by_name(build, change, words):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    baseline = risk.document.baseline.model_copy(update=change)
    other = RiskCurve(risk.document.model_copy(update={"baseline": baseline}), (), np.arange(0))
    with pytest.raises(InputError, match=words):
        decide(cost, other, max_loss_increase=1.0)


def test_only_common_budgets_of_everybody_count(build):
    cost = make_cost(build, FALLING)
    risk = make_risk(build, RISING[:3], MEASURED[:3], grid=(0.5, 1.0, 3.0))
    decision = decide(cost, risk, max_loss_increase=1.0)
    assert [standing.epsilon for standing in decision.standings] == [0.5, 1.0]
    with pytest.raises(InputError, match="share at least one"):
        decide(cost, make_risk(build, RISING[:1], MEASURED[:1], grid=(3.0,)), max_loss_increase=1.0)
    document = cost.document
    women = [cell.model_copy(update={"group": "women"}) for cell in document.cells]
    other = LossChangeEstimate(document.model_copy(update={"cells": women}), cost.loss_draws)
    with pytest.raises(InputError, match="everybody"):
        decide(other, make_risk(build, RISING, MEASURED), max_loss_increase=1.0)


def test_different_mechanisms_and_columns_are_refused(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    noisy = [cell.model_copy(update={"mechanism": "dpsgd"}) for cell in risk.document.cells]
    dpsgd = RiskCurve(risk.document.model_copy(update={"cells": noisy}), (), np.arange(0))
    with pytest.raises(InputError, match="one mechanism"):
        decide(cost, dpsgd, max_loss_increase=1.0)
    other = RiskCurve(risk.document.model_copy(update={"protect": ["income"]}), (), np.arange(0))
    with pytest.raises(InputError, match="the cost protects smokes and the attack income"):
        decide(cost, other, max_loss_increase=1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_loss_increase", math.nan),
        ("max_loss_increase", math.inf),
        ("max_attack_rate", 0.0),
        ("max_attack_rate", 80.0),
        ("max_advantage", 1.0),
        ("max_advantage", 0.0),
        ("confidence", 1.0),
    ],
)
def test_limits_are_checked(build, name, value):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    with pytest.raises(InputError, match=name):
        decide(cost, risk, **{"max_loss_increase": 1.0, name: value})


def test_the_document_comes_back_as_it_was(build):
    decision = decide(
        make_cost(build, FALLING), make_risk(build, RISING, MEASURED), max_loss_increase=0.2
    )
    assert isinstance(decision, Decision)
    again = load_document(to_json(decision.document))
    assert again == decision.document
    assert isinstance(again.cost, WhatIfDocument)
    assert isinstance(again.risk, RiskDocument)
    content = decision.to_dict()
    assert content["kind"] == "decision"
    assert set(content["recommendation"]) >= {"epsilon", "holds", "sentence", "rule", "confidence"}


def test_cost_and_risk_that_change_places_are_said(build: ModuleType) -> None:
    n = len(GRID)
    cost, risk = make_cost(build, [0.1] * n), make_risk(build, [0.9] * n, [0.5] * n)
    with pytest.raises(InputTypeError, match="`cost` must be what `WhatIf"):
        decide(risk, cost, max_loss_increase=0.1)  # type: ignore[arg-type]


def test_a_budget_for_every_column_is_recommended_as_one(build, tmp_path):
    """The sum alone, typed as `--epsilon 0.15`, would be spent on each column."""
    each = {"smokes": 0.05, "sex": 0.1}
    cost = make_cost(build, [0.02], (0.15,), epsilon=None, record_epsilon=0.15).document
    settings = cost.provenance.settings | {"protect": list(each), "epsilon": each}
    cost = cost.model_copy(
        update={"provenance": cost.provenance.model_copy(update={"settings": settings})}
    )
    risk = make_risk(build, [0.65], [0.64], (0.15,)).document
    cells = [cell.model_copy(update={"epsilon": None}) for cell in risk.cells]
    origin = risk.provenance.model_copy(update={"settings": settings})
    risk = risk.model_copy(
        update={"cells": cells, "protect": list(each), "n_answers": [2, 2], "provenance": origin}
    )
    decision = decide(LossChangeEstimate(cost, (np.zeros(200),)), RiskCurve(risk, (), np.arange(0)))
    words = said(decision.recommendation)
    assert words.startswith(
        "Randomise the answers at smokes = 0.05, sex = 0.1: ε = 0.15 for a record."
    )
    hidden = said(anonymise(decision.document).recommendation)
    assert "smokes" not in hidden
    assert re.match(
        r"Randomise the answers at column \d = 0\.05, column \d = 0\.1: ε = 0\.15 for a record\.",
        hidden,
    )
    page = write_report(decision.document, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "0.15</output> <small>for a record</small>" in page
    assert "with the privacy budget ε = 0.15 for a record" in page


@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_cost_and_attack_must_have_the_same_possible_answers():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=300), "region": rng.choice(list("ab"), size=300)})
    y = pd.Series(rng.random(300) < 0.5, name="smokes").astype("category")
    encoded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["region"]), remainder="passthrough"
    )
    model = make_pipeline(encoded, LogisticRegression())
    parts, asked = (X[:200], y[:200], X[200:], y[200:]), {"protect": "region", "epsilon": [1.0]}
    declared = {"categories": {"region": list("abcd")}}
    cost = WhatIf(model).fit(*parts).estimate(**asked, **declared)
    study = AttackStudy(model).fit(*parts)
    assert cost.document.provenance.settings["n_answers"] == [4]
    risk = study.estimate(**asked, shadow_models=64)
    with pytest.raises(InputError, match="4 possible answers for “region” and the attack 2"):
        decide(cost, risk)
    decide(cost, study.estimate(**asked, **declared, shadow_models=64))


def test_answers_that_other_data_give_away_are_no_missing_proof(build):
    """The ceiling is 100.0% at a small advantage as well, where other data give nearly all away."""
    cost, risk = make_cost(build, FALLING, FINE), make_risk(build, [0.9999] * 5, MEASURED, FINE)
    decision = decide(cost, risk)
    words = said(decision.recommendation)
    assert "othing is proven" not in words
    assert "Everybody else's data already give the answers away; " in words
    assert "the person's own randomised answer adds at most 7.5% (proven)." in words
    assert not ceiling_is_open(risk.document.cells[0])
    assert ceiling_is_open(risk.document.cells[-1])


@pytest.mark.parametrize("seconds", ["x", -1, math.nan, math.inf, None])
def test_the_time_for_training_again_is_checked(build, seconds):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    with pytest.raises((InputError, InputTypeError), match="`seconds` must be"):
        decide(cost, risk, seconds=seconds)


def test_a_smaller_budget_that_was_not_checked_is_named(build):
    cost, risk = make_cost(build, FALLING), make_risk(build, RISING, MEASURED)
    cells = [*cost.document.cells]
    cells[2] = cells[2].model_copy(update={"trusted": False})
    document = cost.document.model_copy(update={"cells": cells})
    failed = LossChangeEstimate(document, cost.loss_draws)
    caveat = "At ε = 1 the estimate failed its check and was not measured."
    found = decide(failed, risk, max_loss_increase=0.2).recommendation
    assert found.epsilon == 2.0
    assert caveat in said(found)
    assert caveat not in said(decide(cost, risk, max_loss_increase=0.05).recommendation)
    assert caveat not in said(decide(failed, risk, max_loss_increase=0.02).recommendation)
