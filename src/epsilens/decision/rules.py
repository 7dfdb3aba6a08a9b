# SPDX-License-Identifier: Apache-2.0
"""The rules: the most private ε within a loss, the most accurate ε under an attack rate, or both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from epsilens._validate import LARGEST_FINITE_EPSILON, as_loss_limit, as_share
from epsilens.decision.result import Decision, Standing
from epsilens.decision.trade_off import Point, join
from epsilens.document import (
    DecisionDocument,
    NumberType,
    Provenance,
    Recommendation,
    RiskCell,
    at_most_text,
    ceiling_clause,
    epsilon_text,
)
from epsilens.errors import InputError, InputTypeError
from epsilens.risk import RiskCurve
from epsilens.whatif import LossChangeEstimate

__all__ = ["attack_limit", "decide", "loss_limit"]

SIMULATED_CONFIDENCE = 0.9
"""Of the interval that comes with a measured attack rate."""
RestsOn = Literal["proven", "measured"]


def decide(
    cost: LossChangeEstimate,
    risk: RiskCurve,
    *,
    max_loss_increase: float | None = None,
    max_attack_rate: float | None = None,
    confidence: float = SIMULATED_CONFIDENCE,
    measured: bool = False,
    proven_only: bool = False,
) -> Decision:
    """Pick the ε that the loss one can bear and the attack one fears lead to.

    With a limit on the loss, the most private ε that keeps it; with a limit on the attack, the most
    accurate ε that keeps it; with both, the most private ε that keeps both. If there is none, that
    is said, with the nearest miss.

    Parameters
    ----------
    cost : LossChangeEstimate
        What `WhatIf.estimate` (or `retrain`) says of everybody.
    risk : RiskCurve
        What `AttackStudy.estimate` says of the same columns on the same grid.
    max_loss_increase : float, optional
        The largest increase of the mean test loss that can be borne.
    max_attack_rate : float in (0, 1), optional
        The largest share of answers that attackers may guess.
    confidence : float in (0, 1)
        Of the two-sided interval whose upper end is compared: each limit is kept with probability
        ½ + confidence/2 by one realised release, or by proof.
    measured : bool
        Whether the upper end of the attack that was tried may meet the attack limit where the ceiling
        does not. That attack is one of many: a better one, or whoever holds the randomised answers,
        may guess more. By default only the ceiling decides, which holds against every attack.
    proven_only : bool
        A synonym of the default.

    Returns
    -------
    Decision

    Raises
    ------
    InputError
        If no limit is given, or cost and risk are not of one mechanism, or share no ε, or both
        `measured` and `proven_only` are asked for.

    Notes
    -----
    A limit on the loss must hold at the chosen ε and every larger one of the grid, a limit on the
    attack at the chosen ε and every smaller one: more ε costs less and gives away more, and a single
    cell that is better by chance must not decide. The attack limit is met by the ceiling, which is
    proven given the upper bound of what everybody else's data give away; with `measured` also by the
    upper end of what was measured, never by the measured rate. The sentence says which.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsilens import WhatIf
    >>> from epsilens.risk import AttackStudy
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=800), "income": rng.normal(size=800)})
    >>> smokes = pd.Series(rng.random(800) < 1 / (1 + np.exp(-X["age"])), name="smokes")
    >>> data = X[:600], smokes[:600].astype("category"), X[600:], smokes[600:].astype("category")
    >>> question = {"protect": "smokes", "epsilon": [0.5, 1.0, 2.0, 4.0]}
    >>> cost = WhatIf(LogisticRegression()).fit(*data).estimate(**question)
    >>> risk = AttackStudy(LogisticRegression()).fit(*data).estimate(**question, shadow_models=64)
    >>> decide(cost, risk, max_loss_increase=0.05).recommendation.epsilon
    1.0
    """
    for name, came, kind, whence in (
        ("cost", cost, LossChangeEstimate, "WhatIf"),
        ("risk", risk, RiskCurve, "AttackStudy"),
    ):
        if not isinstance(came, kind):
            raise InputTypeError(
                f"`{name}` must be what `{whence}(...).estimate` returns, got {type(came).__name__}. "
                "The cost comes first, then the risk."
            )
    limit = None if max_loss_increase is None else as_loss_limit(max_loss_increase)
    feared = None if max_attack_rate is None else as_share(max_attack_rate, name="max_attack_rate")
    level = as_share(confidence, name="confidence")
    if limit is None and feared is None:
        raise InputError(
            "expected a limit to decide by, got none. Give `max_loss_increase`, the loss you can "
            "bear, or `max_attack_rate`, the attack you fear, or both."
        )
    if measured and proven_only:
        raise InputError(
            "`measured` and `proven_only` contradict each other. Leave one of them out; without either "
            "the proven ceiling decides."
        )
    points = join(cost.document, risk.document)
    simulated = level <= SIMULATED_CONFIDENCE and measured
    standings = tuple(_standing(cost, point, level, measured=simulated) for point in points)
    words = _Words(
        standings,
        limit,
        feared,
        level,
        n_columns=len(risk.document.protect),
        cells={point.epsilon: point.risk for point in points},
    )
    chosen = _recommend(standings, limit, feared, level, words, few=cost.has_few_runs)
    document = DecisionDocument(
        provenance=Provenance(
            method="decision",
            settings={
                "max_loss_increase": limit,
                "max_attack_rate": feared,
                "confidence": level,
                "measured": bool(measured),
            },
            seed=cost.document.provenance.seed,
            simulated=cost.document.provenance.simulated or risk.document.provenance.simulated,
            schema_fingerprint=cost.document.provenance.schema_fingerprint,
            seconds=_sum(cost.document.provenance.seconds, risk.document.provenance.seconds),
        ),
        warnings=list(
            dict.fromkeys([*words.notes(), *cost.document.warnings, *risk.document.warnings])
        ),
        number_types=_number_types(chosen, cost.document.number_types.get("loss_change")),
        cost=cost.document,
        risk=risk.document,
        recommendation=chosen,
    )
    return Decision(document, standings)


def _number_types(chosen: Recommendation, cost: NumberType | None) -> dict[str, NumberType]:
    types: dict[str, NumberType] = {"max_loss_increase": cost or "estimated"}
    if chosen.rests_on is not None:
        types["max_attack_rate"] = (
            "proven given b" if chosen.rests_on == "proven" else chosen.rests_on
        )
    return types


def _sum(*seconds: float | None) -> float | None:
    return sum(value for value in seconds if value is not None) or None


def _standing(
    cost: LossChangeEstimate, point: Point, confidence: float, *, measured: bool
) -> Standing:
    place = cost.document.cells.index(point.cost)
    risk = point.risk
    return Standing(
        epsilon=point.epsilon,
        # A number that failed its own check meets no limit.
        loss_increase=cost.upper_end(place, confidence) if point.cost.trusted else math.inf,
        attack_ceiling=risk.answer_inference_ceiling,
        # A stricter confidence than was simulated is met by proof alone.
        attack_high=risk.answer_inference_high if measured else None,
        is_trusted=point.cost.trusted,
    )


def loss_limit(standings: Sequence[Standing], limit: float) -> float | None:
    """Return the smallest ε that keeps the loss within a limit, with every larger one.

    Parameters
    ----------
    standings : sequence of Standing
        ε ascending.
    limit : float
        The largest increase of the loss.

    Returns
    -------
    float or None
        None if not even the largest ε keeps it.

    Examples
    --------
    >>> standings = [Standing(epsilon, 0.02 / epsilon, None, None, True) for epsilon in (1.0, 2.0)]
    >>> loss_limit(standings, 0.01), loss_limit(standings, 0.001)
    (2.0, None)
    """
    found = None
    for standing in reversed(standings):
        if not standing.loss_increase <= limit:
            break
        found = standing.epsilon
    return found


def attack_limit(
    standings: Sequence[Standing], limit: float
) -> tuple[float | None, RestsOn | None]:
    """Return the largest ε that keeps attackers within a rate, with every smaller one.

    By proof, or by the upper end of what was measured where the standings have one; and which it is.

    Parameters
    ----------
    standings : sequence of Standing
        ε ascending.
    limit : float in (0, 1)
        The largest share of answers that attackers may guess.

    Returns
    -------
    epsilon : float or None
        None if not even the smallest ε keeps it.
    rests_on : {"proven", "measured"} or None

    Examples
    --------
    >>> standings = [Standing(1.0, 0.0, 0.7, 0.6, True), Standing(2.0, 0.0, 0.9, 0.7, True)]
    >>> attack_limit(standings, 0.75), attack_limit(standings, 0.65)
    ((2.0, 'measured'), (1.0, 'measured'))
    """
    proven, measured = _last(standings, limit, "ceiling"), _last(standings, limit, "high")
    if measured is not None and (proven is None or measured > proven):
        return measured, "measured"
    return proven, None if proven is None else "proven"


def _last(
    standings: Sequence[Standing], limit: float, kind: Literal["ceiling", "high"]
) -> float | None:
    found = None
    for standing in standings:
        rate = standing.attack_ceiling if kind == "ceiling" else standing.attack_high
        if rate is None or not rate <= limit:
            break
        found = standing.epsilon
    return found


def _recommend(
    standings: Sequence[Standing],
    limit: float | None,
    feared: float | None,
    confidence: float,
    words: _Words,
    *,
    few: bool,
) -> Recommendation:
    least = standings[0].epsilon if limit is None else loss_limit(standings, limit)
    most, rests_on = (
        (standings[-1].epsilon, None) if feared is None else attack_limit(standings, feared)
    )
    rule: Literal["max_loss_increase", "max_attack_rate", "both"] = "both"
    if feared is None:
        rule = "max_loss_increase"
    elif limit is None:
        rule = "max_attack_rate"
    found = least is not None and most is not None and least <= most
    if not found:
        return Recommendation(
            epsilon=None,
            holds=False,
            sentence=words.none(least, most),
            rule=rule,
            confidence=confidence,
            max_loss_increase=limit,
            max_attack_rate=feared,
        )
    assert least is not None  # noqa: S101
    assert most is not None  # noqa: S101
    chosen = most if rule == "max_attack_rate" else least
    if rests_on is not None:
        # At the chosen ε itself the ceiling may be low enough, though not up to the largest.
        ceiling = next(s.attack_ceiling for s in standings if s.epsilon == chosen)
        rests_on = (
            "proven"
            if ceiling is not None and feared is not None and ceiling <= feared
            else rests_on
        )
    few = few and limit is not None
    return Recommendation(
        epsilon=chosen,
        holds=not few,
        sentence=words.chosen(chosen, least, most, rests_on, rule, few=few),
        rule=rule,
        confidence=confidence,
        max_loss_increase=limit,
        max_attack_rate=feared,
        rests_on=rests_on,
        least=least,
        most=most,
    )


class _Words:
    """The recommendation as sentences."""

    def __init__(
        self,
        standings: Sequence[Standing],
        limit: float | None,
        feared: float | None,
        confidence: float,
        *,
        n_columns: int,
        cells: Mapping[float, RiskCell],
    ) -> None:
        self.standings = {standing.epsilon: standing for standing in standings}
        self.limit = limit
        self.feared = feared
        self.sure = f"{50 + 50 * confidence:.4g} %"
        self.several = n_columns > 1
        self.answers = "of the people's answers, all at once," if self.several else "of the answers"
        self.answer = "answers" if self.several else "answer"
        self.cells = cells

    def notes(self) -> list[str]:
        """Say what a reader must know about the limits."""
        if self.feared is None or not self.several:
            return []
        return [
            "the attack rate counts people whose protected answers are all guessed at once; a single "
            "one of them is guessed more often. Ask for one column to limit that."
        ]

    def chosen(
        self,
        epsilon: float,
        least: float,
        most: float,
        rests_on: RestsOn | None,
        rule: str,
        *,
        few: bool,
    ) -> str:
        """Say what was chosen, and why."""
        here = self.standings[epsilon]
        head = {
            "max_loss_increase": "is the most private choice",
            "max_attack_rate": "is the most accurate choice",
            "both": "is the most private choice that keeps both limits",
        }[rule]
        parts = [f"ε = {epsilon_text(epsilon)} {head}."]
        if self.limit is not None:
            parts.append(
                f"There, and at every larger ε of the grid, one release raises the test loss by no "
                f"more than {self.limit:g} ({self.sure} sure: {here.loss_increase:+.3g})."
            )
        if self.feared is not None:
            parts.append(self._attack(here, rests_on))
        if rule == "both" and most > least:
            parts.append(self._range(least, most))
        if LARGEST_FINITE_EPSILON < epsilon < math.inf:
            parts.append(
                f"A release above ε = {LARGEST_FINITE_EPSILON:g} protects nobody and is refused: release "
                "at a smaller ε, or at inf and say so."
            )
        if few:
            parts.append("Fewer than 19 retrainings a cell are too few to be sure.")
        if not here.is_trusted:
            parts.append("What it costs is not known: the estimate failed its own check.")
        return " ".join(parts)

    def _range(self, least: float, most: float) -> str:
        proven = _last(list(self.standings.values()), self.feared or 0.0, "ceiling")
        said = f"Every ε of the grid from {epsilon_text(least)} to {epsilon_text(most)} keeps both"
        if proven is None or proven < least:
            return f"{said}, the limit on the attack by what was measured."
        if proven < most:
            return f"{said}: to {epsilon_text(proven)} by proof, beyond by what was measured."
        return f"{said}."

    def _proof(self, here: Standing) -> str:
        """Say what is proven at one ε, with the baseline that it is proven for."""
        if here.attack_ceiling is None or at_most_text(here.attack_ceiling) == _ALL:
            return "nothing is proven to stay hidden"
        clause = ceiling_clause(self.cells[here.epsilon], many=self.several)
        return clause or f"the ceiling is {_share(here.attack_ceiling)} (proven given its baseline)"

    def _attack(self, here: Standing, rests_on: RestsOn | None) -> str:
        said = f"{100 * (self.feared or 0):.4g}%"
        proof = self._proof(here)
        if rests_on == "proven":
            return f"{proof[0].upper()}{proof[1:]}. Your limit is {said}."
        return (
            f"The limit of {said} {self.answers} is met only by the attack that was tried, which sees "
            f"the published model and all other columns: at most {_share(here.attack_high)} in "
            f"{self.sure} of the releases (measured). A better attack may exist, and whoever holds the "
            f"randomised {self.answer} guesses better: {proof}."
        )

    def none(self, least: float | None, most: float | None) -> str:
        """Say that no ε will do, and what comes nearest."""
        if self.limit is not None and least is None:
            return self._too_dear(self.limit)
        if self.feared is not None and most is None:
            return self._too_exposed(self.feared)
        assert least is not None  # noqa: S101
        assert most is not None  # noqa: S101
        private, accurate = self.standings[most], self.standings[least]
        return (
            f"No ε of the grid keeps both limits. The loss asks for ε = {epsilon_text(least)} or more, where "
            f"{self._proof(accurate)}; the attack asks for ε = {epsilon_text(most)} or less, where "
            f"{self._cost(private)}."
        )

    def _cost(self, here: Standing) -> str:
        if not math.isfinite(here.loss_increase):
            return "there is no estimate of the cost"
        return (
            f"one release may raise the test loss by {here.loss_increase:+.3g} ({self.sure} sure)"
        )

    def _too_dear(self, limit: float) -> str:
        none = f"No ε of the grid keeps the increase of the test loss within {limit:g}"
        known = [s for s in self.standings.values() if math.isfinite(s.loss_increase)]
        if not known:
            return f"{none}: there is no estimate of it. Retrain, or ask for another method."
        nearest = min(known, key=lambda s: s.loss_increase)
        failed = [s.epsilon for s in self.standings.values() if s not in known]
        if nearest.loss_increase <= limit and failed:
            return (
                f"{none} for certain: at ε = {epsilon_text(max(failed))} the estimate of the cost failed its "
                "own check. Retrain, or leave that ε out."
            )
        return (
            f"{none}; the nearest miss is ε = {epsilon_text(nearest.epsilon)}, where one release may show "
            f"{nearest.loss_increase:+.3g} ({self.sure} sure). Try a larger ε, or bear more."
        )

    def _too_exposed(self, feared: float) -> str:
        first = min(self.standings.values(), key=lambda s: s.epsilon)
        none = f"No ε of the grid keeps attackers within {100 * feared:.4g}% {self.answers}".rstrip(
            ","
        )
        parts = []
        if first.attack_ceiling is not None:
            parts.append(self._proof(first))
        if first.attack_high is not None:
            parts.append(
                f"the attack that was tried reaches at most {_share(first.attack_high)} in {self.sure} of "
                "the releases (measured)"
            )
        if not parts:
            return f"{none}: nothing is known about them."
        return (
            f"{none}; the nearest miss is ε = {epsilon_text(first.epsilon)}, where {', and '.join(parts)}. What "
            f"can be guessed without the {self.answer} no ε can hide."
        )


_ALL = at_most_text(1.0)


def _share(rate: float | None) -> str:
    return "an unknown share" if rate is None or math.isnan(rate) else at_most_text(rate)
