# SPDX-License-Identifier: Apache-2.0
"""The answer in words, for readers who are not statisticians."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from epsilens.document.clauses import (
    COST_UNKNOWN,
    HELD,
    NOTHING_HIDDEN,
    ceiling_is_open,
    confidence_text,
    gain_text,
    interval_text,
    loss_moves_text,
    mistakes_text,
    outcome_interval,
    outcome_text,
    proof_text,
    range_text,
    unanswered_reason,
    unanswered_text,
)
from epsilens.document.decision import TITLES, DecisionDocument, MechanismCell, MechanismName
from epsilens.document.risk import RiskCell, RiskDocument
from epsilens.document.whatif import WhatIfCell, WhatIfDocument
from epsilens.document.wording import (
    ATTACKER,
    answers_text,
    at_least_text,
    at_most_text,
    axis_budget,
    bound_text,
    budget_distance,
    budget_text,
    cost_type,
    delta_text,
    epsilon_text,
    is_model_release,
    loss_decimals,
    loss_text,
    loss_unit,
    own_budget,
    p_value_text,
    percent_text,
    points_text,
    protected_text,
    rounds_to_zero,
    sentence_case,
    typical_cell,
    whom_text,
)

NOT_ATTACKED = "the published model was not attacked at this ε."


class EpsilonChoice(Protocol):
    """A chosen budget, as `LossChangeEstimate.choose` gives it."""

    @property
    def epsilon(self) -> float | None:
        """The chosen budget, or None when no budget meets the limit."""

    @property
    def holds(self) -> bool:
        """Whether the limit is met."""

    @property
    def sentence(self) -> str:
        """The choice in words."""


def whatif_sentence(document: WhatIfDocument, choice: EpsilonChoice | None = None) -> str:
    """Give the answer of a what-if in words for lay people.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    choice : EpsilonChoice, optional
        A chosen budget; its own sentence comes first. Without it the budget nearest to 1 is
        spoken of, for the first group.

    Returns
    -------
    str
        A few sentences on one line. Budgets without an estimate that passed its checks are named.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="retrain",
    ...                     loss_change=0.000001)]
    >>> whatif_sentence(WhatIfDocument(provenance=Provenance(method="retrain"), baseline=start,
    ...                                cells=cells))
    'Randomising the protected answer of everyone at ε = 1 left the test loss as it was, at 0.5000
    nats (measured).'
    """
    opening: list[str] = []
    wanted: float | None = None
    if choice is not None:
        opening.append(choice.sentence)
        wanted = choice.epsilon
        if wanted is None:
            return choice.sentence
    group = getattr(choice, "group", None)
    cell = typical_cell(document, group=group if isinstance(group, str) else None, epsilon=wanted)
    if cell is None:
        return " ".join([*opening, "No budget was asked about."])
    unanswered = unanswered_text(document)
    said = [cell_sentence(document, cell)] if cell.trusted else []
    return " ".join([*opening, *said, *([] if unanswered is None else [unanswered])])


def cell_sentence(document: WhatIfDocument, cell: WhatIfCell) -> str:
    """Say in one or two sentences what one budget would cost one group.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021, loss_change_low=0.015, loss_change_high=0.027)
    >>> cell_sentence(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell)
    'Randomising the protected answer of everyone at ε = 1 would raise the test loss by 0.0210 nats,
    from 0.5000 (estimated; 9 in 10 real runs: +0.0150 to +0.0270).'
    """
    if not cell.trusted:
        return unanswered_sentence(cell)
    measured = cost_type(document, cell) == "measured"
    said = [f"{cost_clause(document, cell)}."]
    accuracy = _accuracy_clause(document, cell, measured=measured)
    if accuracy is not None:
        said.append(f"It {'' if measured else 'would '}{accuracy}.")
    return " ".join(said)


def unanswered_sentence(cell: WhatIfCell) -> str:
    """Say that the estimate at one budget failed its checks, why, and what to do.

    Examples
    --------
    >>> unanswered_sentence(WhatIfCell(group="all", epsilon=0.1, record_epsilon=0.1,
    ...                                method="exact", loss_change=0.4, trusted=False))
    'No estimate at ε = 0.1: one run may move the predictions too far for this method. The method
    `retrain` measures it.'
    """
    return f"No estimate at {budget_text(cell)}: {unanswered_reason(cell.method)}"


def cost_clause(document: WhatIfDocument, cell: WhatIfCell) -> str:
    """Say what one budget would do to the test loss: a sentence without its end.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021)
    >>> cost_clause(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                            cells=[cell]), cell)
    'Randomising the protected answer of everyone at ε = 1 would raise the test loss by 0.0210 nats,
    from 0.5000 (estimated)'
    """
    if is_model_release(document):
        subject = f"Publishing the ridge model with noise at {budget_text(cell)}"
    else:
        subject = (
            f"Randomising {protected_text(document)} of {whom_text(cell.group)} at "
            f"{budget_text(cell)}"
        )
    measured = cost_type(document, cell) == "measured"
    return f"{subject} {_loss_clause(document, cell, measured=measured)}"


def _loss_clause(document: WhatIfDocument, cell: WhatIfCell, *, measured: bool) -> str:
    decimals = loss_decimals(document.baseline.loss)
    in_nats = loss_unit(document) == "nats"
    loss, unit = ("test loss", " nats") if in_nats else ("mean squared error on the test rows", "")
    before = document.baseline.loss
    interval = interval_text(document, cell)
    runs = "9 in 10 of the runs" if measured else "9 in 10 real runs"
    note = cost_type(document, cell) + ("" if interval is None else f"; {runs}: {interval}")
    change = cell.loss_change
    if change is None:
        return f"has an effect on the {loss} that could not be {cost_type(document, cell)}"
    if rounds_to_zero(change, decimals=decimals):
        verb = "left" if measured else "would leave"
        at = "" if before is None else f", at {loss_text(before, decimals=decimals)}{unit}"
        return f"{verb} the {loss} as it {'was' if measured else 'is'}{at} ({note})"
    if measured:
        verb = "raised" if change > 0 else "lowered"
    else:
        verb = "would raise" if change > 0 else "would lower"
    amount = loss_text(abs(change), decimals=decimals)
    of = "" if before is None else f", from {loss_text(before, decimals=decimals)}"
    return f"{verb} the {loss} by {amount}{unit}{of} ({note})"


def _accuracy_clause(document: WhatIfDocument, cell: WhatIfCell, *, measured: bool) -> str | None:
    change, before = cell.accuracy_change, document.baseline.accuracy
    if change is None or before is None:
        return None
    interval = outcome_interval(document, cell, "accuracy")
    if interval is not None and not all(
        end is None or rounds_to_zero(100 * end, decimals=1)
        for end in (change, interval.low, interval.high)
    ):
        verb = "changed" if measured else "change"
        shown = outcome_text(document, cell, "accuracy")
        return f"{verb} the accuracy of {percent_text(before)} by {shown} percentage points"
    if rounds_to_zero(100 * change, decimals=1):
        return f"{'left' if measured else 'leave'} the accuracy at {percent_text(before)}"
    if measured:
        verb = "raised" if change > 0 else "lowered"
    else:
        verb = "raise" if change > 0 else "lower"
    points = points_text(change, signed=False)
    return f"{verb} the accuracy by {points} percentage points, from {percent_text(before)}"


_NOTICED = 0.05
"""A p-value above this is called chance."""


_COIN = 0.5


def risk_sentences(document: RiskDocument, *, epsilon: float | None = None) -> list[str]:
    """Say in plain words what an attacker gets at one budget.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    epsilon : float, optional
        The budget to speak of; the nearest of the grid is taken. By default the nearest to 1 at which models were
        attacked.

    Returns
    -------
    list of str
        What is guessed or can be told at most, then what is recognised of membership.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721,
    ...     answer_inference_low=0.71, answer_inference_high=0.732,
    ...     answer_inference_unseen=0.718, answer_inference_baseline_high=0.735,
    ...     answer_inference_ceiling=0.858)
    >>> print(risk_sentences(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...     n_targets=4774, protect=["smokes"], cells=[cell]))[0])
    At ε = 1 an attacker who sees only the published model and all other columns guesses the answer “smokes”
    of 72.1% of the people in the data (measured; 9 in 10 releases: 71.0–73.2%). Of people outside the
    training data the attack guesses 71.8% (measured).
    """
    if not document.cells:
        return ["No budget was asked about."]
    target = 1.0 if epsilon is None else epsilon
    spoken_of = [cell for cell in document.cells if is_attacked(cell)] if epsilon is None else []
    cell = min(
        spoken_of or document.cells,
        key=lambda one: budget_distance(axis_budget(document, one), target),
    )
    at = f"At {_budget_text(cell)} "
    said = []
    if cell.mechanism == "rr":
        attack = " ".join(attack_sentences(document, cell, opening=at))
        said = [attack, *proof_sentences(document, cell)] if attack else []
        if said and cell.advantage is not None and not ceiling_is_open(cell):
            said.append(
                "Of the answers that the rest of the data do not give away, at most "
                f"{at_most_text(cell.advantage)} become guessable (advantage, proven)."
            )
    elif cell.asr_ceiling is not None:
        said.append(
            f"{at}no attack can tell members of the training data from others "
            f"more than {at_most_text(cell.asr_ceiling)} of the time (proven)."
        )
    if cell.mechanism == "rr":
        said += _alarm_sentences(cell) if said else []
    said += membership_sentences(document, cell, at="" if said else f" at {_budget_text(cell)}")
    said += _group_sentences(document, cell)
    if cell.mechanism == "dpsgd":
        said += [*_alarm_sentences(cell), *_record_sentences(document, cell)]
    return said + _comparison_sentences(document, cell)


def attack_sentences(document: RiskDocument, cell: RiskCell, *, opening: str = "") -> list[str]:
    """Say how often attackers guess the answers; nothing where neither was measured.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    cell : RiskCell
        The attack at one budget.
    opening : str
        Words before the first sentence, with the space that ends them.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721)
    >>> document = RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                         n_targets=75, protect=["smokes"], cells=[cell])
    >>> attack_sentences(document, cell, opening="At ε = 1 ")
    ['At ε = 1 an attacker who sees only the published model and all other columns guesses the answer
    “smokes” of 72.1% of the people in the data (measured).']
    """
    if cell.answer_inference_rate is None and cell.holder_rate is None:
        return []
    said = [*_attacker_sentences(document, cell, opening=opening), outside_sentence(document, cell)]
    return [sentence_case(sentence) for sentence in said if sentence]


def _attacker_sentences(document: RiskDocument, cell: RiskCell, *, opening: str = "") -> list[str]:
    """Say what both attackers guess of people in the data, whoever holds the randomised answers first."""
    runs, reads = range_text(cell), percent_text(cell.answer_inference_rate)
    kind = "measured" if runs is None else f"measured; 9 in 10 releases: {runs}"
    many = len(document.protect) > 1
    guesses = f"guesses {answers_text(document.protect)}{', all at once,' if many else ''} of"
    if cell.holder_rate is None:
        people = "of the people in the data"
        if many:
            guesses = f"guesses {answers_text(document.protect)} at once of"
            people = "of the people"
        return [f"{opening}{ATTACKER} {guesses} {reads} {people} ({kind})."]
    read = NOT_ATTACKED
    if cell.answer_inference_rate is not None:
        read = f"a reader of the published model and all other columns guesses {reads} ({kind})."
    return [
        f"{opening}the holder of the randomised answers {guesses} "
        f"{percent_text(cell.holder_rate)} of the people in the data (measured).",
        read,
    ]


def is_attacked(cell: RiskCell) -> bool:
    """Say whether models were trained and attacked at a budget.

    Examples
    --------
    >>> is_attacked(RiskCell(epsilon=1.0, mechanism="rr", answer_inference_ceiling=0.8))
    False
    """
    return cell.answer_inference_rate is not None or cell.asr_max is not None


def outside_sentence(document: RiskDocument, cell: RiskCell) -> str:
    """Say how often the attack guesses the answers of people outside the training data; empty if unknown.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_unseen=0.553)
    >>> outside_sentence(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                               n_targets=75, protect=["smokes"], cells=[cell]), cell)
    'of people outside the training data the attack guesses 55.3% (measured).'
    """
    rate = cell.answer_inference_unseen
    if rate is None:
        return ""
    of = "all answers at once for " if len(document.protect) > 1 else ""
    return f"of people outside the training data the attack guesses {of}{percent_text(rate)} (measured)."


def proof_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    """Say what is proven of guessing an answer; nothing where no ceiling is known."""
    proof = proof_text(cell, many=len(document.protect) > 1)
    return [] if proof is None else [f"{sentence_case(proof)}."]


def exposed_clause(document: RiskDocument, cell: RiskCell) -> str | None:
    """Say how often the most exposed record is recognised, beside chance; None if not measured.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.6, asr_max_null_q95=0.63)
    >>> exposed_clause(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                             n_targets=75, cells=[cell]), cell)
    'the most exposed of 75 records is recognised 60.0% of the time; chance alone reaches 63.0%
    (measured)'
    """
    top, floor, chance = cell.asr_max, cell.asr_max_null_q95, cell.asr_max_p_value
    if top is None:
        return None
    count = f"{document.n_targets:,}"
    beside = "" if floor is None else f"; chance alone reaches {percent_text(floor)}"
    p_value = p_value_text(chance)
    sign = "" if p_value.startswith("<") else "= "
    sure = "" if chance is None else f", p {sign}{p_value}"
    return (
        f"the most exposed of {count} records is recognised {percent_text(top)} of the time{beside} "
        f"(measured{sure})"
    )


def membership_sentences(document: RiskDocument, cell: RiskCell, *, at: str = "") -> list[str]:
    """Say whether membership of the training data can be recognised; nothing where not measured."""
    return [
        *_exposure_sentences(document, cell, at=at),
        *strongest_sentences(document, cell, at=at),
    ]


def strongest_sentences(document: RiskDocument, cell: RiskCell, *, at: str = "") -> list[str]:
    """Say what the strongest of the attacks finds, where that is more than chance and more than the paper's finds.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", tpr_at_fpr_0_01=0.02, envelope_method="combined",
    ...                 envelope_tpr_at_fpr_0_01=0.048, envelope_tpr_low=0.03, envelope_tpr_high=0.07,
    ...                 envelope_p_value=0.001)
    >>> document = RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                         n_targets=75, cells=[cell])
    >>> strongest_sentences(document, cell)
    ['The strongest of several attacks (combined) finds 4.8% of the members while it accuses 1% of the
    others (measured; 3.0–7.0% with 95 % confidence, the choice allowed for).']
    """
    found, chance, plain = (
        cell.envelope_tpr_at_fpr_0_01,
        cell.envelope_p_value,
        cell.tpr_at_fpr_0_01,
    )
    low, high, n_compared = cell.envelope_tpr_low, cell.envelope_tpr_high, cell.envelope_records
    is_part = n_compared is not None and n_compared < document.n_targets
    # What was found among some records is beside what was found among all only if it is clearly more.
    least = low if is_part else found
    if (
        found is None
        or chance is None
        or chance > _NOTICED
        or (least or 0.0) <= max(plain or 0.0, 0.01)
    ):
        return []
    among = f" among {n_compared:,} records" if is_part else ""
    ends = ""
    if low is not None and high is not None:
        ends = (
            f"; {percent_text(low).removesuffix('%')}–{percent_text(high)} with "
            f"{confidence_text(document)} confidence, the choice allowed for"
        )
    return [
        f"The strongest of several attacks{at} ({cell.envelope_method}) finds {percent_text(found)} of the members{among} while "
        f"it accuses 1% of the others (measured{ends})."
    ]


def _exposure_sentences(document: RiskDocument, cell: RiskCell, *, at: str = "") -> list[str]:
    """Say how often the most exposed record is recognised, and the others on average."""
    top, floor, chance = cell.asr_max, cell.asr_max_null_q95, cell.asr_max_p_value
    clause, least = exposed_clause(document, cell), cell.asr_max_lower_bound
    if clause is None or top is None:
        return []
    noticed = chance <= _NOTICED if chance is not None else floor is not None and top > floor
    mean_bound = cell.asr_mean_lower_bound
    if not noticed and mean_bound is not None and mean_bound > _COIN:
        return [
            f"Membership of the training data{at} is recognised on average: an attacker is right about "
            f"{percent_text(cell.asr_mean)} of the records, and 50% by guessing (measured). No single record stands out: {clause}."
        ]
    if not noticed:
        return [
            f"Membership of the training data{at} is not distinguishable from chance: {clause}. "
            f"The largest of {document.n_targets:,} rates says nothing more."
        ]
    said = f"Membership of the training data{at}: {clause}."
    if least is not None and least > _COIN:
        said += (
            f" With {confidence_text(document)} confidence some record is recognised at least "
            f"{at_least_text(least)} of the time."
        )
    return [said]


_CLEARLY = 0.001
"""A group is called more exposed from this lower bound of the difference on: a tenth of a point."""


def _group_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    """Name the group that is most clearly more exposed than everybody else; nothing if none is."""
    clear = [
        one
        for one in document.group_cells
        if _is_at(one, cell)
        and (one.asr_mean_excess_lower_bound or 0.0) >= _CLEARLY
        and (one.asr_mean_lower_bound or 0.0) > _COIN
    ]
    if not clear:
        return []
    most = max(clear, key=lambda one: one.asr_mean_excess_lower_bound or 0.0)
    # Rounded down.
    least = math.floor(1000 * (most.asr_mean_excess_lower_bound or 0.0) + 1e-9) / 10
    return [
        f"Membership of the group “{most.group}” is recognised more often than that of everybody else. An attacker is right "
        f"about {percent_text(most.asr_mean)} of its records, {points_text(most.asr_mean_excess, signed=False)} points more "
        f"(measured). With {confidence_text(document)} confidence, for all groups at once, it is at least {least:.1f} points."
    ]


def _is_at(one: RiskCell, cell: RiskCell) -> bool:
    """Say whether two cells are of the same budgets."""
    if cell.group_epsilons is not None:
        return one.group_epsilons == cell.group_epsilons
    return own_budget(one) == own_budget(cell)


def _alarm_sentences(cell: RiskCell) -> list[str]:
    """Say how many true alarms any attacker has at most with few false ones, and what the alarm is about."""
    most = cell.tpr_ceiling_at_fpr_0_01
    if most is None or at_most_text(most) == NOTHING_HIDDEN:
        return []
    if cell.mechanism == "rr":
        return [
            "The holder of the randomised answers recognises an answer of at most "
            f"{at_most_text(most)} of those who gave it, at 1% false alarms (proven). This is not about membership."
        ]
    found = cell.tpr_at_fpr_0_01
    tried = "" if found is None else f"; the attack found {percent_text(found)} (measured)"
    return [
        f"With one false alarm in a hundred, any attacker finds at most {at_most_text(most)} of the members (proven){tried}."
    ]


def _record_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    said = []
    if cell.epsilon_lower_bound:
        said.append(
            f"The attack proves, with {confidence_text(document)} confidence, that ε is at least "
            f"{bound_text(cell.epsilon_lower_bound)}; the accounting proves that it is at most "
            f"{epsilon_text(cell.epsilon)}."
        )
    if cell.accuracy is not None:
        before = document.baseline.accuracy if document.baseline is not None else None
        beside = (
            "" if before is None else f"; without privacy, on all of them, {percent_text(before)}"
        )
        said.append(
            f"The models, trained on half of the records, predict {percent_text(cell.accuracy)} of "
            f"the test rows correctly (measured{beside})."
        )
    return said


def _comparison_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    """Say at which budget the other table exposes as much, where two were compared."""
    for found in document.equivalent_epsilon:
        if found.epsilon != cell.epsilon:
            continue
        here = (
            "exposes the most exposed record of the other table as much as "
            f"ε = {epsilon_text(found.epsilon)} exposes this one's"
        )
        if found.low is None or found.high is None:
            return [f"No ε of the grid {here} (estimated)."]
        low, high = epsilon_text(found.low), epsilon_text(found.high)
        if found.equivalent is None:
            return [f"Some ε from {low} to {high} {here} (estimated)."]
        return [
            f"ε = {epsilon_text(found.equivalent)} {here} (estimated; {low} to {high} cannot be told "
            "apart)."
        ]
    return []


def _budget_text(cell: RiskCell) -> str:
    if cell.mechanism == "dpsgd":
        delta = "" if cell.delta is None else f", δ = {delta_text(cell.delta)},"
        return f"ε = {epsilon_text(cell.epsilon)}{delta}"
    return budget_text(cell)


def decision_sentence(document: DecisionDocument, cost: WhatIfCell, risk: RiskCell | None) -> str:
    """Say in one sentence what one budget costs and what it buys.

    Parameters
    ----------
    document : DecisionDocument
        The decision.
    cost : WhatIfCell
        One of its costs.
    risk : RiskCell or None
        The attack at the same budget; None if it was not asked about.

    Returns
    -------
    str
        One or two sentences; the cost has no number where it failed its checks.

    Examples
    --------
    >>> from epsilens.document import (Baseline, Provenance, Recommendation, RiskDocument,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021)
    >>> attack = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721,
    ...                   answer_inference_baseline_high=0.718, answer_inference_ceiling=0.848)
    >>> origin = Provenance(method="exact")
    >>> document = DecisionDocument(provenance=origin,
    ...     cost=WhatIfDocument(provenance=origin, baseline=start, cells=[cell]),
    ...     risk=RiskDocument(provenance=origin, n_models=256, n_targets=75, cells=[attack]),
    ...     recommendation=Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.",
    ...                                   rule="max_loss_increase", confidence=0.9))
    >>> print(decision_sentence(document, cell, attack))
    Randomising the protected answer of everyone at ε = 1 would raise the test loss by 0.0210 nats, from
    0.5000 (estimated). From everybody else's data an attacker guesses up to 71.8% of the answers; with the
    person's own randomised answer at most 84.8% (proven given that baseline). An attacker who sees only
    the published model and all other columns guesses the protected answer of 72.1% of the people in the data
    (measured).
    """
    said = [cell_sentence(document.cost, cost)]
    if risk is None or (risk.answer_inference_rate is None and risk.holder_rate is None):
        return f"{said[0]} What an attacker gets was not measured there."
    said += [*proof_sentences(document.risk, risk), *_attacker_sentences(document.risk, risk)]
    return " ".join(sentence_case(sentence) for sentence in said)


def holder_text(cost: WhatIfCell, risk: RiskCell | None, *, many: bool = False) -> str:
    """Say what somebody gets who holds the randomised answers themselves, not only the model.

    Parameters
    ----------
    cost : WhatIfCell
        The budget.
    risk : RiskCell or None
        The attack at the same budget, whose ceiling is quoted.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    str
        One or two sentences.

    Examples
    --------
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> holder_text(cell, None)[:51]
    'The collector, or a reader of the randomised table,'
    """
    said = f"{HELD} The attack that was measured is by {ATTACKER}."
    if risk is not None and risk.holder_rate is not None:
        at_once = "all protected answers, at once, of" if many else "the answers of"
        said = (
            f"The collector, or a reader of the randomised table, guesses {at_once} "
            f"{percent_text(risk.holder_rate)} of the people (measured; 9 in "
            f"10 releases: {range_text(risk, 'holder_rate')})."
        )
    proof = None if risk is None else proof_text(risk, many=many)
    if proof is not None:
        said += f" At {budget_text(cost)}: {proof}."
    return said


_LARGEST_LOG_ODDS = math.log(1e12)


def odds_text(epsilon: float) -> str:
    """Write e^ε, by which the odds between two answers can change at most: rounded up.

    Examples
    --------
    >>> odds_text(1.0), odds_text(0.1), odds_text(10.0), odds_text(1000.0)
    ('2.72', '1.11', '22,100', 'more than a million million')
    """
    if epsilon > _LARGEST_LOG_ODDS:
        return "more than a million million"
    value = math.exp(epsilon)
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    rounded = math.ceil(value / unit - 1e-9) * unit
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def assessment_paragraph(
    document: DecisionDocument, cost: WhatIfCell, risk: RiskCell | None, *, data: str | None = None
) -> str:
    """Write the paragraph on one budget for a data-protection impact assessment.

    It names the purpose, the mechanism, what ε bounds in numbers, the attack that was measured, the
    cost, what remains, and how to compute it again. It names no controller and no law.

    Parameters
    ----------
    document : DecisionDocument
        The decision.
    cost : WhatIfCell
        The cost at the budget.
    risk : RiskCell or None
        The attack at the same budget.
    data : str, optional
        What the data are called.

    Returns
    -------
    str
        One paragraph.

    Examples
    --------
    >>> from epsilens.document import (Baseline, Provenance, Recommendation, RiskDocument,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021)
    >>> attack = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721)
    >>> origin = Provenance(method="exact")
    >>> document = DecisionDocument(provenance=origin,
    ...     cost=WhatIfDocument(provenance=origin, baseline=start, cells=[cell]),
    ...     risk=RiskDocument(provenance=origin, n_models=256, n_targets=75, cells=[attack]),
    ...     recommendation=Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.",
    ...                                   rule="max_loss_increase", confidence=0.9))
    >>> assessment_paragraph(document, cell, attack)[:64]
    'A model trained on 75 records is to be used or published. Before'
    """
    parts = [assessment_description(document, cost, data=data)]
    if risk is None or (risk.answer_inference_rate is None and risk.holder_rate is None):
        parts.append("What an attacker gets at this budget was not measured.")
    else:
        parts += proof_sentences(document.risk, risk) + attack_sentences(document.risk, risk)
        parts += membership_sentences(document.risk, risk)
    parts.append(f"Cost: {cell_sentence(document.cost, cost)}")
    chosen = document.randomised
    if chosen.holds and chosen.epsilon == own_budget(cost):
        parts.append(f"Reason for this budget: {' '.join([chosen.sentence, *chosen.details])}")
    elif not chosen.holds:
        parts.append(f"No budget is recommended: {' '.join([chosen.sentence, *chosen.details])}")
    parts.append(f"{remains_text(REMAINS)} {NOT_PRIVATE}")
    parts.append(origin_sentence(document))
    return " ".join(parts)


REMAINS: tuple[str, ...] = (
    "columns that are not randomised can still give an answer away",
    "no budget hides what can be guessed without the answer",
    "further releases of the same answers add to the budget",
    "earlier versions stay known to whoever saw them",
    "membership in the data is not hidden",
    "whoever holds the randomised answers themselves can guess better than from the model, up to the "
    "proven ceiling",
)
"""What randomised response does not prevent."""


def remains_text(remains: Iterable[str]) -> str:
    """Say what a mechanism does not prevent, a sentence each.

    Examples
    --------
    >>> remains_text(["earlier versions stay known"])
    'This remains. Earlier versions stay known.'
    """
    return " ".join(f"{sentence_case(said)}." for said in ("this remains", *remains))


NOT_PRIVATE = (
    "The figures were computed from the unprotected answers and are not private themselves."
)


def assessment_description(
    document: DecisionDocument, cost: WhatIfCell, *, data: str | None = None
) -> str:
    """Describe what randomised response does to the answers at one budget, and what that bounds.

    Parameters
    ----------
    document : DecisionDocument
    cost : WhatIfCell
        The budget.
    data : str, optional
        What the data are called.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> decision = example_document("decision")
    >>> assessment_description(decision, decision.cost.cells[0])[:57]
    'A model trained on 75 records is to be used or published.'
    """
    what, n_train = answers_text(document.risk.protect), document.cost.baseline.n_train
    origin = f" of {data}" if data else ""
    many = len(document.risk.protect) > 1
    verb = "are" if many else "is"
    return (
        f"A model trained on {n_train:,} records{origin} is to be used or published. "
        f"Before training, {what} of {whom_text(cost.group)} {verb} replaced by randomised response "
        f"with the privacy budget {budget_text(cost)} (local differential privacy). "
        f"{sentence_case(_odds_clause(cost.record_epsilon, many=many))}"
    )


def origin_sentence(document: DecisionDocument) -> str:
    """Say with what the numbers of a decision were computed.

    Examples
    --------
    >>> from epsilens.document import Provenance, example_document
    >>> origin = Provenance(method="decision", version="0.1", seed=7)
    >>> origin_sentence(example_document("decision", provenance=origin))
    'Computed with epsilens 0.1, seed 7, on 256 attacked models.'
    """
    seed = document.provenance.seed
    return (
        f"Computed with epsilens {document.provenance.version}"
        f"{'' if seed is None else f', seed {seed}'}, on "
        f"{document.risk.n_models:,} attacked models."
    )


def _odds_clause(epsilon: float, *, many: bool) -> str:
    """Say what the budget bounds: what a person's own report adds, and no more than that."""
    own = "a person's own randomised answers" if many else "a person's own randomised answer"
    if math.isinf(epsilon):
        return "nothing is randomised, and nothing is proven to stay hidden."
    factor = f"at most {odds_text(epsilon)}"
    if epsilon > _LARGEST_LOG_ODDS:
        factor = f"e to the power of {epsilon_text(epsilon)} at most, {odds_text(epsilon)}"
    verb = "change" if many else "changes"
    return (
        f"{own} {verb} the odds between any two of their possible answers by a factor of {factor} "
        "(proven). This comes on top of what everything else says of them, other people's answers "
        "included. It holds as long as other people's answers do not depend on theirs. What a model "
        "shows of people alike is not limited by this."
    )


def protection_sentence(
    mechanism: MechanismName,
    cell: MechanismCell,
    *,
    named: str,
    kind: str,
    by_rate: bool = False,
    is_default: bool = False,
    several: bool = False,
    proof: str | None = None,
    is_advice: bool = True,
) -> str:
    """Say what to do, what is proven of it and what it costs, in at most fifty words.

    Parameters
    ----------
    mechanism : str
    cell : MechanismCell
        Its budget.
    named : str
        The budget in words.
    kind : {"estimated", "measured"}
        What the cost is.
    by_rate : bool
        Whether the proof is about all answers that are guessed, as a limit on the attack rate is.
    is_default : bool
        Whether the limit is our default.
    several : bool
        Whether a person has several protected answers, which are guessed all at once.
    proof : str, optional
        Sentence instead of the proof.
    is_advice : bool
        Whether the sentence says what to do, and not only what is looked at.

    Examples
    --------
    >>> from epsilens.document import MechanismCell
    >>> cell = MechanismCell(epsilon=1.0, delta=1e-6, advantage=0.09, loss_change=0.002,
    ...                      accuracy_change=-0.0021, method="simulation")
    >>> protection_sentence("noisy-descent", cell, named="ε = 1", kind="estimated")
    'Train with noisy gradient descent at ε = 1 (δ = 1e-6). Of the answers that the rest of the data do
    not give away, at most 9.0% become guessable (proven). The model makes about 2 more mistakes in 1,000
    (estimated).'
    """
    at = named if not cell.delta else f"{named} (δ = {delta_text(cell.delta)})"
    if not is_advice:
        doing = f"Only looked at: {TITLES[mechanism]} at {at}."
    elif mechanism == "randomised-response":
        doing = f"Randomise the answers at {at}."
    elif mechanism == "randomised-response-corrected":
        doing = f"Randomise the answers at {at} and train with forward correction."
    elif mechanism == "synthetic-aim":
        doing = f"Publish a synthetic table by AIM at {at}."
    else:
        doing = f"Train with {TITLES[mechanism]} at {at}."
    ours = "; our default limit" if is_default else ""
    answers = "the people's answers, all at once" if several else "the answers"
    if proof is not None:
        pass
    elif by_rate and cell.attack_rate_ceiling is not None:
        proof = f"An attacker guesses at most {at_most_text(cell.attack_rate_ceiling)} of {answers} (proven given what other data tell)."
    elif cell.advantage is None:
        proof = "What an attacker gains is not known."
    else:
        is_open = at_most_text(cell.advantage) == NOTHING_HIDDEN
        kind_of_proof = "" if is_open else f" (proven{ours})"
        proof = f"{sentence_case(gain_text(cell.advantage, several=several))}{kind_of_proof}."
    return f"{doing} {proof} {cost_sentence(cell, kind=kind)}"


def cost_sentence(cell: MechanismCell, *, kind: str) -> str:
    """Say what a budget costs, in mistakes where they are known."""
    count = cell.mistakes
    if not cell.trusted or cell.loss_change is None:
        return f"{COST_UNKNOWN}."
    if count is None:
        return f"{sentence_case(loss_moves_text(cell.loss_change))} ({kind})."
    return f"The model makes {mistakes_text(count)} ({kind})."
