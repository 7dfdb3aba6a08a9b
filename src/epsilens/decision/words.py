# SPDX-License-Identifier: Apache-2.0
"""A recommendation in words: which ε, within which limit, at what cost, and what stays hidden."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from epsilens._validate import LARGEST_FINITE_EPSILON
from epsilens.decision.compare import short_sentence
from epsilens.decision.question import CheckedLimits
from epsilens.decision.result import Standing
from epsilens.document import MechanismCurve, Recommendation, WhatIfDocument
from epsilens.document.clauses import (
    PROVES,
    baseline_text,
    ceiling_clause,
    ceiling_is_open,
    outcome_interval,
)
from epsilens.document.decision import Point
from epsilens.document.risk import GroupRiskCell
from epsilens.document.wording import (
    at_most_text,
    cost_type,
    epsilon_text,
    percent_text,
    sentence_case,
    spending_text,
)
from epsilens.notes import Note

ANSWERS_ALL_AT_ONCE = Note(
    "answers-all-at-once",
    "the attack rate counts people whose protected answers are all guessed at once; a single "
    "one of them is guessed more often. Ask for one column to limit that.",
)
"""What a reader must know about a limit on the rate where several answers are protected."""


class RecommendationWords:
    """The sentences of one decision."""

    def __init__(
        self,
        standings: Sequence[Standing],
        points: Sequence[Point],
        cost: WhatIfDocument,
        limits: CheckedLimits,
        *,
        several: bool,
        is_attacked: bool = True,
    ) -> None:
        self.standings = {standing.epsilon: standing for standing in standings}
        self.points: Mapping[float, Point] = {point.epsilon: point for point in points}
        self.cost = cost
        self.limits = limits
        self.sure = f"{50 + 50 * limits.confidence:.4g} %"
        self.several = several
        # Whether the attack was on models of the same loss.
        self.is_attacked = is_attacked
        self.groups: Sequence[GroupRiskCell] = ()
        """What an attacker gets of each group at the recommended budgets, where groups have their own."""
        self.answers = "of the people's answers, all at once" if several else "of the answers"

    def said(self, found: Recommendation, curve: MechanismCurve, *, few: bool) -> Recommendation:
        """Return an answer with its sentence and its details."""
        if found.epsilon is None:
            sentence, *more = self.none(found.least, found.most)
            changes = {"sentence": sentence, "details": [*more, *self._ends(found)]}
            return found.model_copy(update=changes | {"least": None, "most": None})
        here = self.standings[found.epsilon]
        point = self.points[found.epsilon]
        named = spending_text(self.cost, point.cost)
        details = [f"It is {self._why(here)}."]
        if few:
            sentence = (
                "Fewer than 19 retrainings a cell are too few to be sure, so no ε is recommended."
            )
            details = [f"{named} would be {self._why(here)}."]
        else:
            cell = curve.cells[list(self.points).index(found.epsilon)]
            kind = cost_type(self.cost, point.cost)
            sentence = short_sentence(
                found, cell, self.limits, named=named, kind=kind, several=self.several
            )
        smaller = [s for s in self.standings.values() if s.epsilon < here.epsilon]
        if self.limits.has_cost and smaller and not smaller[-1].is_trusted:
            # The next smaller ε was not ruled out: its cost is not known.
            at = epsilon_text(smaller[-1].epsilon)
            details.append(f"At ε = {at} the estimate failed its check and was not measured.")
        details.append(self._people(here))
        details += self._attack(here, found)
        details += [self._of_group(cell) for cell in self.groups]
        if found.rule == "both" and found.least != found.most:
            details.append(self._range(found))
        details += self._ends(found)
        if LARGEST_FINITE_EPSILON < found.epsilon < math.inf:
            details.append(
                f"A release above ε = {LARGEST_FINITE_EPSILON:g} protects nobody and is refused: release "
                "at a smaller ε, or at ε = ∞ and say so."
            )
        return found.model_copy(update={"sentence": sentence, "details": details, "holds": not few})

    def none(self, least: float | None, most: float | None) -> list[str]:
        """Say that no ε will do, and what comes nearest."""
        if self.limits.has_cost and least is None:
            return [self._too_dear()]
        if most is None:
            return self._too_exposed()
        assert least is not None  # noqa: S101
        private, accurate = self.standings[most], self.standings[least]
        cost = "loss" if self.limits.accuracy is None else "accuracy"
        return [
            f"No ε of the grid meets both limits. The {cost} asks for ε = {epsilon_text(least)} or more, the "
            f"attack for ε = {epsilon_text(most)} or less.",
            f"At ε = {epsilon_text(least)}, {self._proof(accurate)}.",
            f"At ε = {epsilon_text(most)}, {self._loss(private)}.",
        ]

    def _why(self, here: Standing) -> str:
        """Name the limit that an ε is the best choice within."""
        limits, attack = self.limits, None
        if limits.advantage is not None:
            attack = f"an advantage of at most {limits.advantage:g}"
        elif limits.rate is not None:
            attack = f"at most {100 * limits.rate:.4g}% {self.answers} guessed"
        if limits.is_default:
            attack = f"our default limit, {attack}; you gave none"
        elif not limits.has_cost:
            attack = f"your limit, {attack}"
        if limits.accuracy is not None:
            rise = (
                f"at most {100 * limits.accuracy:g} points of accuracy lost ({self.sure} sure: "
                f"{100 * here.accuracy_loss:.3g})"
            )
        elif limits.loss is not None:
            rise = f"a loss increase of at most {limits.loss:g} ({self.sure} sure: {here.loss_increase:+.3g})"
        else:
            return f"the largest ε of the grid within {attack}"
        if attack is None:
            return f"the most private choice within your limit, {rise}"
        return f"the most private choice within both limits: {rise}, and {attack}"

    def _people(self, here: Standing) -> str:
        """Say what an ε does to the predictions, in people, else in loss."""
        cell = self.points[here.epsilon].cost
        if not cell.trusted:
            return "What it costs is not known: the estimate failed its own check."
        interval, ends = outcome_interval(self.cost, cell, "accuracy"), [cell.accuracy_change] * 2
        if interval is not None:
            ends = [interval.low, interval.high]
        low, high = (None if end is None else round(1000 * end) for end in ends)
        if low is None or high is None:
            return f"{self._loss(here).capitalize()}."
        way = "more" if high > 0 else "fewer"
        small, large = sorted((abs(low), abs(high)))
        if low == high == 0:
            right = "as many right as before"
        elif low < 0 < high:
            right = f"between {-low} fewer and {high} more right"
        elif small == large:
            right = f"{large} {way} right"
        else:
            right = f"{small} to {large} {way} right"
        return f"Of 1,000 people the model gets {right} ({cost_type(self.cost, cell)})."

    def _loss(self, here: Standing) -> str:
        if self.limits.accuracy is not None and math.isfinite(here.accuracy_loss):
            return (
                f"one release may cost {100 * here.accuracy_loss:.3g} points of accuracy "
                f"({self.sure} sure)"
            )
        if not math.isfinite(here.loss_increase):
            return "there is no estimate of the cost"
        return (
            f"one release may raise the test loss by {here.loss_increase:+.3g} ({self.sure} sure)"
        )

    def _attack(self, here: Standing, found: Recommendation) -> list[str]:
        """Say what an attacker gets; without a limit on it, that it is not limited."""
        risk = self.points[here.epsilon].risk
        proof = self._proof(here)
        said = []
        if self.limits.rate is None and self.limits.advantage is None:
            said.append("You set no limit on what an attacker gets.")
        if found.rests_on == "measured":
            said.append(
                "The limit on the attack is met only by the attack that was tried: at most "
                f"{_share(here.attack_high)} (measured). A better attack may exist."
            )
        is_hidden = here.attack_ceiling is not None and not ceiling_is_open(risk)
        if here.advantage is not None and here.advantage > PROVES and is_hidden:
            before = baseline_text(risk)
            without = "" if before is None else f", {before} from everybody else's data alone"
            said.append(
                f"Almost nothing is proven at this ε: an attacker may guess up to "
                f"{_share(here.attack_ceiling)} {self.answers} (proven ceiling){without}."
            )
        else:
            said.append(f"{sentence_case(proof)}.")
        if risk.holder_rate is not None:
            held = percent_text(risk.holder_rate)
            said.append(f"Whoever holds the randomised answers guesses {held} (measured).")
        if risk.answer_inference_rate is not None and self.is_attacked:
            tried = percent_text(risk.answer_inference_rate)
            said.append(f"The attack that was tried on the model guessed {tried} (measured).")
        return said

    def _proof(self, here: Standing) -> str:
        """Say what is proven at one ε, with the baseline that it is proven for."""
        risk = self.points[here.epsilon].risk
        if here.attack_ceiling is None or ceiling_is_open(risk):
            before = baseline_text(risk)
            without = "" if before is None else f"; from everybody else's data alone up to {before}"
            return (
                "nothing is proven to stay hidden: an attacker may guess up to "
                f"{_share(here.attack_ceiling)} {self.answers}{without}"
            )
        clause = ceiling_clause(risk, many=self.several)
        return clause or f"the ceiling is {_share(here.attack_ceiling)} (proven given its baseline)"

    def _of_group(self, cell: GroupRiskCell) -> str:
        """Say what is proven of one group at its own ε, and what a holder of its answers guesses."""
        own = (cell.group_epsilons or {}).get(cell.group)
        said = f"“{cell.group}” at ε = {epsilon_text(own)}: an advantage of {_share(cell.advantage)} (proven)"
        if cell.answer_inference_ceiling is not None:
            said += f", at most {_share(cell.answer_inference_ceiling)} guessed (proven given its baseline)"
        if cell.holder_rate is not None:
            said += f"; a holder guesses {percent_text(cell.holder_rate)} (measured)"
        return f"{said}."

    def _range(self, found: Recommendation) -> str:
        assert found.least is not None  # noqa: S101
        assert found.most is not None  # noqa: S101
        said = f"Every ε of the grid from {epsilon_text(found.least)} to {epsilon_text(found.most)} meets both"
        if self.limits.rate is None:
            return f"{said}."
        within = [
            s.epsilon
            for s in self.standings.values()
            if s.epsilon <= found.most
            and s.attack_ceiling is not None
            and s.attack_ceiling <= self.limits.rate
        ]
        proven = max(within, default=-math.inf)
        if proven < found.least:
            return f"{said}, the limit on the attack by what was measured."
        if proven < found.most:
            return f"{said}: to {epsilon_text(proven)} by proof, beyond by what was measured."
        return f"{said}."

    def _ends(self, found: Recommendation) -> list[str]:
        """Name both ends of the curve where the reader set no limit of their own."""
        if not self.limits.is_default:
            return []
        free = (
            "No ε of the grid is known to cost nothing"
            if found.no_cost_from is None
            else f"Randomising costs nothing measurable from ε = {epsilon_text(found.no_cost_from)} up"
        )
        proof = (
            "no ε of the grid proves much"
            if found.proof_up_to is None
            else f"it proves something from ε = {epsilon_text(found.proof_up_to)} down"
        )
        return [f"{free}; {proof}."]

    def _too_dear(self) -> str:
        limits = self.limits
        if limits.accuracy is not None:
            none = f"No ε of the grid keeps the loss of accuracy within {100 * limits.accuracy:g} points"
        else:
            none = f"No ε of the grid keeps the increase of the test loss within {limits.loss:g}"

        def cost(one: Standing) -> float:
            return one.loss_increase if limits.accuracy is None else one.accuracy_loss

        known = [s for s in self.standings.values() if math.isfinite(cost(s))]
        if not known:
            return f"{none}: there is no estimate of it. Retrain, or ask for another method."
        nearest = min(known, key=cost)
        failed = [s.epsilon for s in self.standings.values() if s not in known]
        if limits.bears(nearest.loss_increase, nearest.accuracy_loss) and failed:
            return (
                f"{none} for certain: at ε = {epsilon_text(max(failed))} the estimate of the cost failed its "
                "own check. Retrain, or leave that ε out."
            )
        return (
            f"{none}. The nearest miss is ε = {epsilon_text(nearest.epsilon)}, where "
            f"{self._loss(nearest)}. Try a larger ε, or accept more."
        )

    def _too_exposed(self) -> list[str]:
        """Say that no ε meets the limit on the attack, then what is known of the nearest."""
        first = min(self.standings.values(), key=lambda s: s.epsilon)
        miss = f"The nearest miss is ε = {epsilon_text(first.epsilon)}"
        if self.limits.advantage is not None:
            ours = ", our default: you gave no limit" if self.limits.is_default else ""
            none = f"No ε of the grid has an advantage of at most {self.limits.advantage:g}{ours}"
            if first.advantage is None:
                return [f"{none}. The advantage is not known: measure the attack again."]
            return [f"{none}. {miss}, with an advantage of {first.advantage:.3g}. Add a smaller ε."]
        none = f"No ε of the grid keeps attackers within {100 * (self.limits.rate or 0):.4g}% {self.answers}"
        known = [] if first.attack_ceiling is None else [f"{sentence_case(self._proof(first))}."]
        if first.attack_high is not None:
            tried = _share(first.attack_high)
            known.append(f"The attack that was tried reaches at most {tried} (measured).")
        if not known:
            return [f"{none}: nothing is known about attackers."]
        is_open = first.attack_ceiling is None or ceiling_is_open(self.points[first.epsilon].risk)
        most = f"with at most {_share(first.attack_ceiling)} guessed (proven given what other data tell)"
        return [
            f"{none}. {miss}, {'where nothing is proven to stay hidden' if is_open else most}. No ε hides what "
            f"can be guessed without the {'answers' if self.several else 'answer'}.",
            *known,
        ]


def _share(rate: float | None) -> str:
    return "an unknown share" if rate is None or math.isnan(rate) else at_most_text(rate)
