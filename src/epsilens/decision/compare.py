# SPDX-License-Identifier: Apache-2.0
"""Several mechanisms on one axis: which of them, at which budget, the limits lead to."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from epsilens.decision.question import CheckedLimits
from epsilens.decision.result import Standing
from epsilens.document import (
    Alternative,
    MechanismCell,
    MechanismCurve,
    Recommendation,
    RiskDocument,
)
from epsilens.document.clauses import MET_BY_MEASURE, guessed_before_text, release_text
from epsilens.document.decision import TITLES, Protects, Trust
from epsilens.document.sentences import protection_sentence
from epsilens.document.wording import (
    at_most_text,
    axis_budget,
    budget_distance,
    change_text,
    delta_text,
    epsilon_text,
    percent_text,
    sentence_case,
)
from epsilens.mechanisms import Preview, answer_ceiling, guess_ceiling


@dataclass(frozen=True)
class Compared:
    """A mechanism to be compared.

    Attributes
    ----------
    curve : MechanismCurve
        The mechanism, without cells.
    previews : tuple of Preview
        What its budgets cost, ε ascending.
    is_exact : bool
        Whether the previews encode the table as a release does.
    """

    curve: MechanismCurve
    previews: tuple[Preview, ...]
    is_exact: bool = True


@dataclass(frozen=True)
class Candidate:
    """One mechanism: what its budgets cost and prove, and what that means for the limits.

    Attributes
    ----------
    curve : MechanismCurve
    standings : tuple of Standing
        One for each cell of the curve, ε ascending.
    answer : Recommendation
        Its own answer to the limits.
    is_exact : bool
        Whether the previews encode the table as a release does.
    """

    curve: MechanismCurve
    standings: tuple[Standing, ...]
    answer: Recommendation
    is_exact: bool = True

    def standing(self) -> Standing | None:
        """Return what the budget of the answer means; None without one."""
        at = self.answer.epsilon
        return next((one for one in self.standings if one.epsilon == at), None)

    def nearest(self, limits: CheckedLimits) -> Standing:
        """Return the budget that comes nearest to limits that none meets."""
        within = [
            one for one in self.standings if limits.bears(one.loss_increase, one.accuracy_loss)
        ]
        if within:
            return min(within, key=lambda one: 1.0 if one.advantage is None else one.advantage)
        return min(
            self.standings,
            key=lambda one: one.loss_increase if limits.accuracy is None else one.accuracy_loss,
        )

    def distance(self, limits: CheckedLimits) -> tuple[float, float]:
        """Return how far the nearest budget is off: first whether the cost is, then by how much."""
        near = self.nearest(limits)
        if limits.bears(near.loss_increase, near.accuracy_loss):
            return (0.0, 1.0 if near.advantage is None else near.advantage)
        return (1.0, near.loss_increase if limits.accuracy is None else near.accuracy_loss)

    def cell(self) -> MechanismCell | None:
        """Return the cell of the answer; None without one."""
        found = self.standing()
        return None if found is None else self.curve.cells[self.standings.index(found)]


def previewed_standings(
    curve: MechanismCurve, previews: Sequence[Preview], limits: CheckedLimits, baseline_high: float
) -> tuple[MechanismCurve, tuple[Standing, ...]]:
    """Return a curve with its ceilings, and what each budget means at the confidence of the limits.

    Parameters
    ----------
    curve : MechanismCurve
        The mechanism, without cells.
    previews : sequence of Preview
        ε ascending.
    limits : CheckedLimits
    baseline_high : float in [0, 1]
        Upper confidence bound of what everybody else's data give away.
    """
    level = 0.5 + limits.confidence / 2
    cells, standings = [], []
    for preview in previews:
        cell = preview.cell
        assert cell.epsilon is not None  # noqa: S101
        assert cell.advantage is not None  # noqa: S101
        if cell.delta:
            ceiling = guess_ceiling(baseline_high, cell.advantage)
        else:
            ceiling = answer_ceiling(baseline_high, epsilon=cell.epsilon, advantage=cell.advantage)
        cells.append(cell.model_copy(update={"attack_rate_ceiling": ceiling}))
        standings.append(
            Standing(
                epsilon=cell.epsilon,
                loss_increase=preview.end("loss", level),
                attack_ceiling=ceiling,
                attack_high=None,
                is_trusted=True,
                advantage=cell.advantage,
                accuracy_loss=-preview.end("accuracy", 1.0 - level),
            )
        )
    return curve.model_copy(update={"cells": cells}), tuple(standings)


def choose(
    candidates: Sequence[Candidate],
    limits: CheckedLimits,
    *,
    trust: Trust,
    protects: Protects,
    named: Collection[str] | None = None,
    baseline: float | None = None,
) -> tuple[Recommendation, list[Alternative]]:
    """Return the best answer, and all others with the reason why they are not recommended.

    With a limit on the cost, the smallest advantage comes first, then the lowest cost. With a limit on the
    attack alone, the lowest cost comes first.

    Parameters
    ----------
    candidates : sequence of Candidate
    limits : CheckedLimits
    trust : {"nobody", "curator"}
        Who may see the true answers.
    protects : {"answer", "record"}
        The claim that is compared.
    named : collection of str, optional
        Mechanisms that may be recommended. None: all.
    baseline : float, optional
        Upper confidence bound of what everybody else's data give away.
    """

    def is_eligible(one: Candidate) -> bool:
        is_trusted = trust == "curator" or one.curve.trust == "nobody"
        return is_trusted and (protects == "answer" or one.curve.protects == "record")

    def is_named(one: Candidate) -> bool:
        return named is None or one.curve.mechanism in named

    def rank(one: Candidate, *, as_if_named: bool = False) -> tuple[float, ...]:
        here = one.standing()
        may_be = is_eligible(one) and (as_if_named or is_named(one))
        if here is None or not may_be:
            return (1.0, 0.0 if may_be else 1.0, *one.distance(limits))
        cost = here.accuracy_loss if limits.accuracy is not None else here.loss_increase
        given_away = 1.0 if here.advantage is None else here.advantage
        held = 0.0 if one.answer.holds else 0.5
        return (held, 0.0, *((given_away, cost) if limits.has_cost else (cost, given_away)))

    ordered = sorted(candidates, key=rank)
    best = ordered[0]
    others = [
        Alternative(
            **one.answer.model_dump(),
            reason=_reason(one, best, limits, protects=protects, is_eligible=is_eligible(one))
            if is_named(one) or rank(one, as_if_named=True) > rank(best)
            else "You did not name it.",
        )
        for one in ordered[1:]
    ]
    if best.answer.epsilon is None and len(candidates) > 1:
        said = unmet_sentence(best, limits, baseline=baseline)
        details = [best.answer.sentence, *best.answer.details]
        return best.answer.model_copy(update={"sentence": said, "details": details}), others
    return best.answer, others


def unmet_sentence(best: Candidate, limits: CheckedLimits, *, baseline: float | None) -> str:
    """Say that no mechanism meets the limits, which one comes nearest, and in which way it misses."""
    limit = "both limits" if best.answer.rule == "both" else "the limit"
    if limits.rate is not None and baseline is not None and baseline >= limits.rate:
        return (
            f"No release keeps the attack limit of {percent_text(limits.rate)}. From the rest of the data an "
            f"attacker guesses up to {at_most_text(baseline)} of the answers (measured). Raise the limit, or limit "
            "what becomes guessable."
        )
    near = best.nearest(limits)
    named = f"{TITLES[best.curve.mechanism]} at ε = {epsilon_text(near.epsilon)}"
    given_away = f"an advantage of at most {at_most_text(near.advantage)}"
    said = f"No mechanism that was compared meets {limit}."
    release = f"One release {_release_text(near, limits)}."
    if limits.has_cost and limits.bears(near.loss_increase, near.accuracy_loss):
        return f"{said} Within the cost limit {named} gives away the least: {given_away}. {release}"
    if limits.has_cost:
        return f"{said} No ε is within the cost limit. {sentence_case(named)} costs the least. {release}"
    return f"{said} {sentence_case(named)} gives away the least: {given_away}. {release}"


def _release_text(near: Standing, limits: CheckedLimits) -> str:
    """Say what one release may cost at most, in the unit of its limit, else in mistakes where they are known."""
    if limits.loss is None and math.isfinite(near.accuracy_loss):
        return release_text(mistakes=1000.0 * near.accuracy_loss)
    return release_text(loss=near.loss_increase)


def _reason(
    one: Candidate,
    best: Candidate,
    limits: CheckedLimits,
    *,
    protects: Protects,
    is_eligible: bool,
) -> str:
    """Say why a mechanism is not the recommended one."""
    here, there = one.standing(), best.standing()
    if not is_eligible:
        if protects == "record" and one.curve.protects == "answer":
            return "It protects answers, not whole records."
        return "Somebody must be trusted with the true answers."
    if here is None:
        return "None of its budgets meets the limits."
    if not one.is_exact and limits.has_cost:
        return "What a release costs is not known: not all columns are declared."
    if not one.answer.holds or not math.isfinite(here.loss_increase):
        return "What it costs is not known: the estimate failed its own check."
    if there is None:
        return "It is not the nearest."
    is_freer = one.curve.trust == "nobody" != best.curve.trust
    free = "Nobody needs to see the true answers, but " if is_freer else ""
    if limits.has_cost and (here.advantage or 0.0) > (there.advantage or 0.0):
        said = (
            f"it gives away more within the same cost: an advantage of {at_most_text(here.advantage)} "
            f"against {at_most_text(there.advantage)}"
        )
    else:
        cells = [cell for cell in (one.cell(), best.cell()) if cell is not None]
        is_measured = all(cell.method == "retrain" for cell in cells)
        kind = "measured" if is_measured else "estimated"
        against = _cost_against(one, best)
        said = "it costs as much" if against is None else f"it costs more: {against} ({kind})"
    return f"{free}{said}." if free else f"{said[0].upper()}{said[1:]}."


def _cost_against(one: Candidate, best: Candidate) -> str | None:
    """Compare two costs in mistakes, else in loss, else by what one release may cost; None if they look equal."""
    cells = [cell for cell in (one.cell(), best.cell()) if cell is not None]
    mistakes = [cell.mistakes for cell in cells if cell.mistakes is not None]
    if len(mistakes) == 2 and mistakes[0] > mistakes[1]:
        noun = "mistake" if abs(mistakes[0]) == 1 else "mistakes"
        only = "only " if mistakes[0] < 0 else ""
        return f"{only}{_count_text(mistakes[0])} {noun} in 1,000 instead of {_count_text(mistakes[1])}"
    losses = [cell.loss_change for cell in cells if cell.loss_change is not None]
    if len(losses) == 2 and losses[0] > losses[1]:
        both = [change_text(loss) for loss in losses]
        decides = ", which decides," if len(mistakes) == 2 else ""
        return None if both[0] == both[1] else f"in test loss{decides} {both[0]} against {both[1]}"
    ends = [
        change_text(standing.loss_increase)
        for standing in (one.standing(), best.standing())
        if standing is not None
    ]
    return f"one release may change the test loss by {' against '.join(ends)}"


def _count_text(mistakes: int) -> str:
    """Write a number of further mistakes without a sign.

    Examples
    --------
    >>> _count_text(14), _count_text(-5), _count_text(0)
    ('14 more', '5 fewer', 'no more')
    """
    return f"{abs(mistakes)} {'fewer' if mistakes < 0 else 'more'}" if mistakes else "no more"


# --- The answer in one sentence each: what to do, what is proven, what it costs ---


CLEAR_MEMBERSHIP = 0.6
"""Mean success rate of the membership attack from which on a model clearly gives away who was in its data."""


def membership_sentences(risk: RiskDocument, *, epsilon: float | None = None) -> list[str]:
    """Say that the model gives away who was in its training data, then how clearly; nothing where no attack shows that.

    Parameters
    ----------
    risk : RiskDocument
    epsilon : float, optional
        The ε of randomised response that is recommended. Where models were attacked there, or near it, the rate is
        told too; the attack at the largest ε decides, where the model sees most of the true answers.

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> cell = RiskCell(epsilon=8.0, mechanism="rr", asr_mean=0.71, asr_mean_lower_bound=0.69)
    >>> for text in membership_sentences(example_document("risk", cells=[cell])):
    ...     print(text)
    This model gives away who was in its training data (measured).
    An attacker is right about 71.0% of the records at ε = 8, and 50% by guessing (measured).
    """
    attacked = [cell for cell in risk.cells if cell.asr_mean_lower_bound is not None]
    if not attacked or (attacked[-1].asr_mean_lower_bound or 0.0) < CLEAR_MEMBERSHIP:
        return []
    told = [attacked[-1]]
    if epsilon is not None:
        near = min(attacked, key=lambda one: budget_distance(axis_budget(risk, one), epsilon))
        told += [near] if near is not told[0] else []
    rates = [
        f"{percent_text(cell.asr_mean)}{' of the records' if n == 0 else ''} at ε = "
        f"{epsilon_text(axis_budget(risk, cell))}"
        for n, cell in enumerate(told)
    ]
    return [
        "This model gives away who was in its training data (measured).",
        f"An attacker is right about {', '.join(rates)}, and 50% by guessing (measured).",
    ]


def short_sentence(
    found: Recommendation,
    cell: MechanismCell,
    limits: CheckedLimits,
    *,
    named: str,
    kind: str,
    several: bool = False,
) -> str:
    """Return the recommendation in at most fifty words.

    Parameters
    ----------
    found : Recommendation
    cell : MechanismCell
        Its budget.
    limits : CheckedLimits
    named : str
        The budget in words.
    kind : {"estimated", "measured"}
        What the cost is.
    several : bool
        Whether a person has several protected answers, which are guessed all at once.

    Examples
    --------
    >>> cell = MechanismCell(epsilon=1.0, delta=1e-6, advantage=0.09, loss_change=0.002,
    ...                      accuracy_change=-0.0021, method="simulation")
    >>> found = Recommendation(mechanism="noisy-descent", trust="curator", epsilon=1.0, delta=1e-6,
    ...                        holds=True, sentence="", rule="max_advantage", confidence=0.9,
    ...                        advantage=0.09)
    >>> limits = CheckedLimits(None, None, None, 0.1, 0.9, 0.0)
    >>> short_sentence(found, cell, limits, named="ε = 1", kind="estimated")
    'Train with noisy gradient descent at ε = 1 (δ = 1e-6). Of the answers that the rest of the data do
    not give away, at most 9.0% become guessable (proven). The model makes about 2 more mistakes in 1,000
    (estimated).'
    """
    return protection_sentence(
        found.mechanism,
        cell,
        named=named,
        kind=kind,
        by_rate=limits.rate is not None,
        is_default=limits.is_default,
        several=several,
        proof=MET_BY_MEASURE if found.rests_on == "measured" else None,
    )


def nearest_sentence(one: Candidate, limits: CheckedLimits) -> str:
    """Say that no budget of a mechanism meets the limits."""
    limit = "both limits" if one.answer.rule == "both" else "the limit"
    first = min(one.standings, key=lambda standing: standing.epsilon)
    last = max(one.standings, key=lambda standing: standing.epsilon)
    title = TITLES[one.curve.mechanism]
    if limits.has_cost and not limits.bears(last.loss_increase, last.accuracy_loss):
        near = f"at ε = {epsilon_text(last.epsilon)} one release {_release_text(last, limits)}"
    else:
        near = (
            f"at ε = {epsilon_text(first.epsilon)} its advantage is {at_most_text(first.advantage)}"
        )
    return f"No budget of {title} meets {limit}: {near}."


def mechanism_details(
    found: Recommendation,
    cell: MechanismCell,
    limits: CheckedLimits,
    *,
    baseline: float | None,
    is_exact: bool,
    several: bool = False,
) -> list[str]:
    """Return further sentences about a mechanism that trains on the true answers."""
    said = []
    if cell.loss_change_low is not None and cell.loss_change_high is not None:
        said.append(
            f"The test loss changes by {change_text(cell.loss_change)}; nine in ten releases: "
            f"{change_text(cell.loss_change_low)} to {change_text(cell.loss_change_high)} (estimated)."
        )
        if cell.accuracy_change is not None and cell.accuracy_change > 0:
            said.append(
                "On other data the model may make more mistakes than without protection, not fewer."
            )
    if found.attack_rate_ceiling is not None and baseline is not None:
        said.append(
            f"From the rest of the data an attacker guesses {guessed_before_text(at_most_text(baseline), several=several)} "
            f"(measured). With this release it is at most {at_most_text(found.attack_rate_ceiling)} (proven "
            "given b)."
        )
    whole = "whole record" if found.protects == "record" else "answer"
    said.append(
        f"The guarantee is for the {whole} of each person. It holds for every single one, not only on average."
    )
    said.append(
        f"The noise is set by ε = {epsilon_text(found.epsilon)}: a smaller ε hides more. Rare outcomes beyond ε "
        f"are allowed by δ = {delta_text(found.delta)}. The proven share counts them."
    )
    if not is_exact:
        said.append(
            "A release encodes features by declared ranges and categories and may cost more: some are not "
            "declared, and this preview encodes them by the data."
        )
    if limits.rate is None and limits.advantage is None:
        said.append("You set no limit on what an attacker gets.")
    return said
