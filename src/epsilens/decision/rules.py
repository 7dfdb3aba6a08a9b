# SPDX-License-Identifier: Apache-2.0
"""The rules: the smallest ε within a loss, the largest ε within a limit on the attack, or both."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal, TypeAlias, TypeVar

from epsilens._types import Progress
from epsilens.decision.compare import (
    Candidate,
    Compared,
    choose,
    mechanism_details,
    membership_sentences,
    nearest_sentence,
    previewed_standings,
    short_sentence,
)
from epsilens.decision.question import (
    CLEAR_COST,
    NO_COST,
    RETRAINING_SECONDS,
    SIMULATED_CONFIDENCE,
    SMALL_COST,
    CheckedLimits,
    join,
    read_limits,
)
from epsilens.decision.result import Decision, Standing
from epsilens.decision.words import ANSWERS_ALL_AT_ONCE, RecommendationWords
from epsilens.document import (
    DecisionDocument,
    MechanismCurve,
    NumberType,
    Provenance,
    Recommendation,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
)
from epsilens.document.clauses import PROVES, outcome_interval
from epsilens.document.decision import Point, Protects, Rule, Trust, joined_points
from epsilens.document.wording import cost_type, epsilon_text
from epsilens.errors import InputTypeError
from epsilens.mechanisms.ceilings import CEILING_RATES
from epsilens.notes import Note, distinct_notes
from epsilens.risk import RiskCurve
from epsilens.whatif import LossChangeEstimate
from epsilens.whatif.answer import measure_cell

RestsOn: TypeAlias = Literal["proven", "measured"]
_T = TypeVar("_T")


def decide(
    cost: LossChangeEstimate | WhatIfDocument,
    risk: RiskCurve | RiskDocument,
    *,
    max_loss_increase: float | None = None,
    max_accuracy_loss: float | None = None,
    max_attack_rate: float | None = None,
    max_advantage: float | None = None,
    confidence: float = SIMULATED_CONFIDENCE,
    measured: bool = False,
    proven_only: bool = False,
    seconds: float = RETRAINING_SECONDS,
    trust: Trust = "nobody",
    protects: Protects = "answer",
    others: Sequence[Compared] = (),
    corrected: LossChangeEstimate | None = None,
    named: Collection[str] | None = None,
    progress: Progress | None = None,
) -> Decision:
    """Pick the mechanism and the ε that the limits lead to.

    With a limit on the loss, the smallest ε that meets it, which has the smallest advantage. With a limit
    on the attack, the largest ε that meets it. With one of each, the smallest ε that meets both. Without
    any limit an advantage of at most 0.1 is the limit, and named as the default of epsilens. If no ε meets
    the limits, the sentence says so and names the nearest miss.

    Parameters
    ----------
    cost : LossChangeEstimate or WhatIfDocument
        Result of `WhatIf.estimate` or `retrain` for everybody, or its document.
    risk : RiskCurve or RiskDocument
        Result of `AttackStudy.estimate` for the same columns on the same grid, or its document.
    max_loss_increase : float, optional
        Largest acceptable increase of the mean test loss.
    max_accuracy_loss : float in [0, 100], optional
        Largest acceptable loss of test accuracy in percentage points, instead of a loss.
    max_attack_rate : float in (0, 1), optional
        Largest share of answers that attackers may guess.
    max_advantage : float in (0, 1), optional
        Largest acceptable advantage: of the answers that other data do not give away, the share that
        becomes guessable. Give this or `max_attack_rate`.
    confidence : float in (0, 1)
        Confidence level of the two-sided interval whose upper end is compared: one realised release
        meets each limit with probability ½ + confidence/2, or by proof.
    measured : bool
        Whether the upper end of the attack that was tried may meet `max_attack_rate` where the ceiling
        does not. That attack is on the published model; with `trust="nobody"` the attack of whoever collects
        the randomised answers counts too. A better one may guess more. By default only the ceiling decides, which holds against every attack.
    proven_only : bool
        A synonym of the default.
    seconds : float
        Time for training again. Where the cost at an ε failed its check and could change the decision,
        it is measured by training again; a document alone cannot do that.
    trust : {"nobody", "curator"}
        Who may see the true answers.
    protects : {"answer", "record"}
        The claim that is compared: mechanisms that protect less are not recommended.
    others : sequence of Compared
        Further mechanisms on the same data, with the previews of their costs.
    corrected : LossChangeEstimate, optional
        Cost with forward correction, where `cost` is without, for the same columns.
    named : collection of str, optional
        Mechanisms that may be recommended. None: all that are compared.
    progress : callable, optional
        Called with (done, total, what).

    Returns
    -------
    Decision

    Raises
    ------
    InputError
        If cost and risk are not of one question, which the message says by the difference, or share no
        ε; if `measured` and `proven_only` are both asked for, or two limits on the attack are given; if
        the body of a network was not declared public.

    Notes
    -----
    A limit on the loss must hold at the chosen ε and every larger one of the grid, a limit on the
    attack at the chosen ε and every smaller one: more ε costs less and gives away more, and a single
    cell that is better by chance must not decide. The attack limit is met by the ceiling, which is
    proven given the upper bound of what everybody else's data give away; with `measured` also by the
    upper end of what was measured, never by the measured rate. The sentence says which.

    The recommendation also names both ends of the curve. From `no_cost_from` on no cost is measurable:
    there and at every larger ε the interval of the loss change reaches 0, the expected change is at
    most a hundredth of the loss before, and the upper end at most a twentieth of it; or the upper end is
    at most a thousandth of it. Up to `proof_up_to` the proof says something: there and at every
    smaller ε the advantage is at most 0.8.

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
    >>> decide(cost, risk, max_advantage=0.3).recommendation.epsilon
    0.5
    """
    limits = read_limits(
        max_loss_increase=max_loss_increase,
        max_accuracy_loss=max_accuracy_loss,
        max_attack_rate=max_attack_rate,
        max_advantage=max_advantage,
        confidence=confidence,
        measured=measured,
        proven_only=proven_only,
        seconds=seconds,
    )
    cost = LossChangeEstimate(cost) if isinstance(cost, WhatIfDocument) else cost
    risk = RiskCurve(risk) if isinstance(risk, RiskDocument) else risk
    for name, came, kind, whence in (
        ("cost", cost, LossChangeEstimate, "WhatIf"),
        ("risk", risk, RiskCurve, "AttackStudy"),
    ):
        if not isinstance(came, kind):
            raise InputTypeError(
                argument=name,
                expected=f"what `{whence}(...).estimate` returns, or its document",
                got=type(came).__name__,
                hint="The cost comes first, then the risk.",
            )
    cost.document.require_privacy()
    # A stricter confidence than was simulated is met by proof alone.
    simulated = limits.confidence <= SIMULATED_CONFIDENCE and measured
    deadline = time.monotonic() + limits.seconds
    join(cost.document, risk.document)
    cost, points, standings = _settled(
        cost,
        risk.document,
        limits,
        simulated=simulated,
        trust=trust,
        deadline=deadline,
        progress=progress,
    )
    several = len(risk.document.protect) > 1
    candidates = [_randomised(cost, risk.document, points, standings, limits)]
    curve = candidates[0].curve
    if corrected is not None:
        # Where a curator is trusted, it is the runner-up at best: not worth training again.
        until = deadline if trust == "nobody" else 0.0
        measured_too, both, known = _settled(
            corrected,
            risk.document,
            limits,
            simulated=False,
            trust=trust,
            deadline=until,
            progress=progress,
        )
        candidates.append(_randomised(measured_too, risk.document, both, known, limits))
    high = risk.document.cells[0].answer_inference_baseline_high or 1.0
    for other in others:
        shown, known = previewed_standings(other.curve, other.previews, limits, high)
        answer = _recommend(shown, known, limits)
        found = Candidate(shown, known, answer, is_exact=other.is_exact)
        if (cell := found.cell()) is None:
            said, details = nearest_sentence(found, limits), []
        else:
            at = f"ε = {epsilon_text(answer.epsilon)}"
            said = short_sentence(answer, cell, limits, named=at, kind="estimated")
            details = mechanism_details(
                answer,
                cell,
                limits,
                baseline=high,
                is_exact=other.is_exact,
                several=several,
            )
            if limits.has_cost and not other.is_exact:
                # What a release with declared ranges costs is not known from this preview.
                answer = answer.model_copy(update={"holds": False})
            if shown.audit is not None:
                details.append(shown.audit.sentence)
        answer = answer.model_copy(update={"sentence": said, "details": details})
        candidates.append(replace(found, answer=answer))
    chosen, alternatives = choose(
        candidates, limits, trust=trust, protects=protects, named=named, baseline=high
    )
    spent = (cost.document.provenance.seconds, risk.document.provenance.seconds)
    notes = [ANSWERS_ALL_AT_ONCE] if several and limits.rate is not None else []
    is_randomised = chosen.mechanism == curve.mechanism
    here = next((point.cost for point in points if point.epsilon == chosen.epsilon), None)
    types: dict[str, NumberType] = {
        "max_loss_increase": cost_type(cost.document, here) if is_randomised else "estimated",
        "advantage": "proven",
        "attack_rate_ceiling": "proven given b",
        "max_advantage": "proven",
        **dict.fromkeys(("mu", *CEILING_RATES), "proven"),
    }
    if chosen.rests_on is not None:
        is_proven = chosen.rests_on == "proven"
        types["max_attack_rate"] = "proven given b" if is_proven else "measured"
    document = DecisionDocument(
        provenance=Provenance(
            method="decision",
            settings={
                "max_loss_increase": limits.loss,
                "max_accuracy_loss": max_accuracy_loss,
                "max_attack_rate": limits.rate,
                "max_advantage": limits.advantage,
                "confidence": limits.confidence,
                "measured": bool(measured),
                "trust": trust,
                "protects": protects,
                **({} if named is None else {"mechanisms": sorted(named)}),
            },
            seed=cost.document.provenance.seed,
            simulated=cost.document.provenance.simulated or risk.document.provenance.simulated,
            schema_fingerprint=cost.document.provenance.schema_fingerprint,
            seconds=sum(seconds for seconds in spent if seconds is not None) or None,
        ),
        notes=distinct_notes([*notes, *cost.document.notes, *_decisive(risk.document.notes)]),
        number_types=types,
        cost=cost.document,
        risk=risk.document,
        recommendation=with_membership(chosen, risk.document),
        alternatives=alternatives,
        mechanisms=[
            one.curve
            for one in candidates
            if protects == "answer" or one.curve.protects == "record"
        ],
    )
    return Decision(document, standings)


def with_membership(found: Recommendation, risk: RiskDocument) -> Recommendation:
    """Return a recommendation that says what the model gives away, where an attack shows that clearly.

    It begins with that where a model of this kind is to be published.
    """
    of_answers = found.mechanism in ("randomised-response", "randomised-response-corrected")
    said = membership_sentences(risk, epsilon=found.epsilon if of_answers else None)
    if not said:
        return found
    if not of_answers:
        # The recommended model is another one, which nobody attacked.
        own = ["The model that was asked for gives away who was in its training data (measured)."]
        return found.model_copy(update={"details": [*found.details, *own, *said[1:]]})
    leak, *more = said
    told = {"sentence": f"{leak} {found.sentence}", "details": [*more, *found.details]}
    return found.model_copy(update=told)


def _settled(
    cost: LossChangeEstimate,
    risk: RiskDocument,
    limits: CheckedLimits,
    *,
    simulated: bool,
    trust: Trust,
    deadline: float,
    progress: Progress | None,
) -> tuple[LossChangeEstimate, list[Point], tuple[Standing, ...]]:
    """Measure what failed its check and could change what is said, as long as there is time."""
    while True:
        points = joined_points(cost.document, risk)
        standings = _standings(cost, points, limits, simulated=simulated, trust=trust)
        at = _unsettled(standings, points, limits, cost.document.baseline.loss)
        trained = at is not None and measure_cell(
            cost, at, deadline=deadline, confidence=limits.confidence, progress=progress
        )
        if not trained:
            return cost, points, standings
        cost = trained


def _standings(
    cost: LossChangeEstimate,
    points: Sequence[Point],
    limits: CheckedLimits,
    *,
    simulated: bool,
    trust: Trust,
) -> tuple[Standing, ...]:
    """Return what every budget of randomised response means at the confidence of the limits."""
    cells = cost.document.cells
    return tuple(
        Standing(
            epsilon=point.epsilon,
            # A number that failed its own check meets no limit.
            loss_increase=cost.upper_end(cells.index(point.cost), limits.confidence)
            if point.cost.trusted
            else math.inf,
            attack_ceiling=point.risk.answer_inference_ceiling,
            attack_high=point.risk.measured_high(trust) if simulated else None,
            is_trusted=point.cost.trusted,
            advantage=point.risk.advantage,
            accuracy_loss=_accuracy_loss(cost.document, point.cost),
        )
        for point in points
    )


def _randomised(
    cost: LossChangeEstimate,
    risk: RiskDocument,
    points: Sequence[Point],
    standings: tuple[Standing, ...],
    limits: CheckedLimits,
) -> Candidate:
    """Return randomised response, with or without forward correction, and its answer to the limits."""
    curve = MechanismCurve.of_randomised_response(cost.document, risk)
    words = RecommendationWords(
        standings,
        points,
        cost.document,
        limits,
        several=len(risk.protect) > 1,
        is_attacked=_correction(cost.document) == _correction(risk),
    )
    free = last_within(
        reversed(points),
        lambda point: (
            point.cost.trusted and _costs_nothing(point.cost, cost.document.baseline.loss)
        ),
    )
    answer = _recommend(curve, standings, limits).model_copy(
        update={
            "no_cost_from": None if free is None else free.epsilon,
            "proof_up_to": attack_limit(standings, advantage=PROVES)[0],
        }
    )
    words.groups = [
        cell
        for cell in risk.group_cells
        if answer.group_epsilons is not None and cell.group_epsilons == answer.group_epsilons
    ]
    few = cost.has_few_runs and limits.has_cost
    return Candidate(curve, standings, words.said(answer, curve, few=few))


def _decisive(notes: Sequence[Note]) -> list[Note]:
    """Return the notes of a risk that a decision shows: what models can detect only where time limited them."""
    is_limited = any(note.code == "attacked-budgets" for note in notes)
    return [note for note in notes if is_limited or note.code != "attack-power"]


def _correction(document: WhatIfDocument | RiskDocument) -> str:
    """Return the correction that a cost or a risk is of."""
    return str(document.provenance.settings.get("correction") or "none")


def last_within(items: Iterable[_T], is_within: Callable[[_T], bool]) -> _T | None:
    """Return the last of those that are within a limit with all before them; None if the first is not.

    Examples
    --------
    >>> last_within([1, 3, 7, 2], lambda item: item < 5), last_within([7], lambda item: item < 5)
    (3, None)
    """
    found = None
    for item in takewhile(is_within, items):
        found = item
    return found


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
    found = last_within(reversed(standings), lambda standing: standing.loss_increase <= limit)
    return None if found is None else found.epsilon


def attack_limit(
    standings: Sequence[Standing], *, rate: float | None = None, advantage: float | None = None
) -> tuple[float | None, RestsOn | None]:
    """Return the largest ε that keeps attackers within a limit, with every smaller one.

    By proof, or by the upper end of what was measured where the standings have one; and which it is.

    Parameters
    ----------
    standings : sequence of Standing
        ε ascending.
    rate : float in (0, 1), optional
        The largest share of answers that attackers may guess.
    advantage : float in (0, 1), optional
        The largest advantage, instead of a rate; without either every ε will do.

    Returns
    -------
    epsilon : float or None
        None if not even the smallest ε keeps it.
    rests_on : {"proven", "measured"} or None

    Examples
    --------
    >>> standings = [Standing(1.0, 0.0, 0.7, 0.6, True), Standing(2.0, 0.0, 0.9, 0.7, True)]
    >>> attack_limit(standings, rate=0.75), attack_limit(standings, rate=0.65)
    ((2.0, 'measured'), (1.0, 'measured'))
    """
    kinds: tuple[tuple[str, RestsOn], ...]
    if advantage is not None:
        limit, kinds = advantage, (("advantage", "proven"),)
    elif rate is not None:
        limit, kinds = rate, (("attack_ceiling", "proven"), ("attack_high", "measured"))
    else:
        return standings[-1].epsilon, None
    most: float | None = None
    rests_on: RestsOn | None = None
    for name, kind in kinds:
        rates = ((one.epsilon, getattr(one, name)) for one in standings)
        found = last_within(rates, lambda one: one[1] is not None and one[1] <= limit)
        if found is not None and (most is None or found[0] > most):
            most, rests_on = found[0], kind
    return most, rests_on


def _costs_nothing(cell: WhatIfCell, loss: float | None) -> bool:
    change, low, high = cell.loss_change, cell.loss_change_low, cell.loss_change_high
    if loss is None or change is None or low is None or high is None:
        return False
    is_small = low <= 0 and change <= SMALL_COST * loss and high <= CLEAR_COST * loss
    return is_small or high <= NO_COST * loss


def _accuracy_loss(cost: WhatIfDocument, cell: WhatIfCell) -> float:
    """Return the largest loss of accuracy that one release must be reckoned with, as a share."""
    interval = outcome_interval(cost, cell, "accuracy")
    if not cell.trusted or interval is None or interval.low is None:
        return math.inf
    return -interval.low


def _unsettled(
    standings: Sequence[Standing],
    points: Sequence[Point],
    limits: CheckedLimits,
    loss: float | None,
) -> float | None:
    """Return an ε whose cost failed its check and could change what is said; None if there is none."""
    most, _ = attack_limit(standings, rate=limits.rate, advantage=limits.advantage)
    if most is None:
        return None
    if not limits.has_cost:
        here = next(standing for standing in standings if standing.epsilon == most)
        if not here.is_trusted:
            return most
    for standing, point in zip(reversed(standings), reversed(points), strict=True):
        if not limits.has_cost and not limits.is_default:
            break
        if not standing.is_trusted:
            return standing.epsilon
        # Smaller ε change nothing.
        if not limits.has_cost and not _costs_nothing(point.cost, loss):
            break
        if not limits.bears(standing.loss_increase, standing.accuracy_loss):
            break
    return None


def _recommend(
    curve: MechanismCurve, standings: Sequence[Standing], limits: CheckedLimits
) -> Recommendation:
    """Return the answer of one mechanism, without words."""
    within = last_within(
        reversed(standings), lambda one: limits.bears(one.loss_increase, one.accuracy_loss)
    )
    least = None if within is None else within.epsilon
    if not limits.has_cost:
        least = standings[0].epsilon
    most, rests_on = attack_limit(standings, rate=limits.rate, advantage=limits.advantage)
    rule: Rule = "both"
    if limits.rate is None and limits.advantage is None:
        rule = "max_loss_increase" if limits.accuracy is None else "max_accuracy_loss"
    elif not limits.has_cost:
        rule = "max_attack_rate" if limits.advantage is None else "max_advantage"
    found = Recommendation(
        mechanism=curve.mechanism,
        trust=curve.trust,
        protects=curve.protects,
        epsilon=None,
        holds=False,
        sentence="",
        rule=rule,
        confidence=limits.confidence,
        max_loss_increase=limits.loss,
        max_accuracy_loss=None if limits.accuracy is None else 100.0 * limits.accuracy,
        max_attack_rate=limits.rate,
        max_advantage=limits.advantage,
        is_default=limits.is_default,
    )
    if least is None or most is None or least > most:
        return found.model_copy(update={"least": least if limits.has_cost else None, "most": most})
    chosen = least if limits.has_cost else most
    here = next(standing for standing in standings if standing.epsilon == chosen)
    cell = curve.cells[list(standings).index(here)]
    if limits.rate is not None and here.attack_ceiling is not None:
        # At the chosen ε itself the ceiling may be low enough, though not up to the largest.
        rests_on = "proven" if here.attack_ceiling <= limits.rate else rests_on
    return found.model_copy(
        update={
            "epsilon": chosen,
            "group_epsilons": cell.group_epsilons,
            "delta": cell.delta,
            "holds": True,
            "advantage": here.advantage,
            "attack_rate_ceiling": here.attack_ceiling,
            "rests_on": rests_on,
            "least": least,
            "most": most,
        }
    )
