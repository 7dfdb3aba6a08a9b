# SPDX-License-Identifier: Apache-2.0
"""The words of the report: the answer at each budget, what is not protected, what others chose."""

from __future__ import annotations

import math
import re

from epsilens.display.cell_text import accuracy_text, interval_text
from epsilens.display.risk_text import compared_p_text, range_text
from epsilens.display.rounding import (
    change_decimals,
    format_change,
    format_count,
    format_epsilon,
    format_percent,
)
from epsilens.display.words import answers_text
from epsilens.document import (
    DecisionDocument,
    RiskCell,
    WhatIfCell,
    at_most_text,
    cost_type,
    loss_unit,
)
from epsilens.reporting.sentences import budget_text, cost_clause, whom_text

__all__ = [
    "ATTACKER",
    "OTHERS",
    "OTHERS_WARNING",
    "assessment_paragraph",
    "ceiling_is_open",
    "decision_sentence",
    "odds_text",
    "proof_text",
    "recommendation_text",
    "unprotected",
]

OTHERS: tuple[tuple[str, float, float, str], ...] = (
    (
        "Apple",
        2.0,
        16.0,
        "user activity analysis; Differential Privacy Team, “Learning with privacy at scale”, 2017",
    ),
    (
        "Google",
        2.64,
        2.64,
        "community mobility; “Google COVID-19 community mobility reports: Anonymization process "
        "description (version 1.1)”, 2020",
    ),
)
"""Name, smallest and largest ε, and source of what others reported, as P5 (section I) quotes them."""

OTHERS_WARNING = (
    "Not comparable: other data, other mechanisms and other units of privacy (a day, an event, a "
    "person). That somebody else chose an ε says nothing about what it protects here."
)

ATTACKER = "an attacker who sees only the published model and all other columns"
"""By whom the attack was made that the rates are of."""

_NOTHING_HIDDEN = "100.0%"
_LARGEST_LOG_ODDS = math.log(1e12)
_DEFAULT_LIMIT = "no limit was given"
"""How the warning begins that stands in a document whose limit nobody set."""


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
        One sentence, and a warning where the cost failed its checks.

    Examples
    --------
    >>> from epsilens.document import (Baseline, Provenance, Recommendation, RiskDocument,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021)
    >>> attack = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721,
    ...                   answer_inference_baseline=0.718, answer_inference_ceiling=0.874)
    >>> origin = Provenance(method="exact")
    >>> document = DecisionDocument(provenance=origin,
    ...     cost=WhatIfDocument(provenance=origin, baseline=start, cells=[cell]),
    ...     risk=RiskDocument(provenance=origin, n_models=256, n_targets=75, cells=[attack]),
    ...     recommendation=Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.",
    ...                                   rule="max_loss_increase", confidence=0.9))
    >>> print(decision_sentence(document, cell, attack))
    Randomising the protected answer of everyone at ε = 1 would raise the test loss by 0.0210 nats, from
    0.5000 (estimated); whoever is right 71.8% of the time without the answer is right at most 87.4% of the
    time with it (proven), and an attacker who sees only the published model and all other columns guesses
    72.1% of the answers (measured).
    """
    parts = [cost_clause(document.cost, cost)]
    parts += _attack_clauses(risk, many=len(document.risk.protect) > 1)
    sentence = f"{'; '.join(parts)}."
    if not cost.trusted:
        sentence += " The checks of the cost failed: do not rely on it."
    return sentence


def _attack_clauses(risk: RiskCell | None, *, many: bool) -> list[str]:
    if risk is None or risk.answer_inference_rate is None:
        return ["what an attacker gets was not measured there"]
    rate = format_percent(risk.answer_inference_rate)
    what = f"all of them at once for {rate} of the people" if many else f"{rate} of the answers"
    guesses = f"{ATTACKER} guesses {what} (measured)"
    proof = proof_text(risk, many=many)
    return [guesses if proof is None else f"{proof}, and {guesses}"]


def ceiling_is_open(risk: RiskCell) -> bool:
    """Say whether the ceiling rounds to everything, so that nothing is proven to stay hidden.

    Examples
    --------
    >>> ceiling_is_open(RiskCell(epsilon=9.0, mechanism="rr", answer_inference_ceiling=0.9998))
    True
    """
    ceiling = risk.answer_inference_ceiling
    return ceiling is not None and at_most_text(ceiling) == _NOTHING_HIDDEN


def proof_text(risk: RiskCell, *, many: bool = False) -> str | None:
    """Say what is proven of guessing, never without its condition; None where nothing is known.

    Parameters
    ----------
    risk : RiskCell
        The attack at one budget.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    str or None
        A clause without its end.

    Examples
    --------
    >>> proof_text(RiskCell(epsilon=1.0, mechanism="rr", answer_inference_baseline=0.725,
    ...                     answer_inference_ceiling=0.87))
    'whoever is right 72.5% of the time without the answer is right at most 87.0% of the time with it
    (proven)'
    """
    before, ceiling = risk.answer_inference_baseline, risk.answer_inference_ceiling
    if before is None or ceiling is None:
        return None
    if ceiling_is_open(risk):
        return f"nothing is proven to stay hidden (the ceiling is {_NOTHING_HIDDEN})"
    answer, it = ("answers, all of them at once,", "them") if many else ("answer", "it")
    return (
        f"whoever is right {format_percent(before)} of the time without the {answer} is right at "
        f"most {at_most_text(ceiling)} of the time with {it} (proven)"
    )


def recommendation_text(sentence: str) -> str:
    """Write a recommendation as the page does: infinity is ∞.

    Examples
    --------
    >>> recommendation_text("ε = inf is the most private choice.")
    'ε = ∞ is the most private choice.'
    """
    return re.sub(r"\binf\b", "∞", sentence)


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
    what, n_train = answers_text(document.risk.protect), document.cost.baseline.n_train
    origin = f" of {data}" if data else ""
    many = len(document.risk.protect) > 1
    verb = "are" if many else "is"
    parts = [
        f"A model trained on {format_count(n_train)} records{origin} is to be used or published. "
        f"Before training, {what} of {whom_text(cost.group)} {verb} replaced by randomised response "
        f"with the privacy budget {budget_text(cost)} (local differential privacy): "
        f"{_odds_clause(cost.record_epsilon, many=many)}"
    ]
    parts += _measured_parts(document, risk)
    parts.append(_cost_part(document, cost))
    chosen = document.recommendation
    if chosen.epsilon is not None and chosen.epsilon == (
        cost.record_epsilon if cost.epsilon is None else cost.epsilon
    ):
        parts.append(f"Reason for this budget: {recommendation_text(chosen.sentence)}")
        parts += _default_limit(document)
    elif chosen.epsilon is None:
        parts.append(f"No budget is recommended: {recommendation_text(chosen.sentence)}")
        parts += _default_limit(document)
    parts.append(
        "What remains: columns that are not randomised can still give an answer away; what can be "
        "guessed without the answer no budget hides; further releases of the same answers add to "
        "the budget; earlier versions stay known to whoever saw them; membership in the data is not "
        "hidden; whoever holds the randomised answers themselves can guess better than from the "
        "model, up to the proven ceiling. The figures were computed from the unprotected answers and are not private "
        "themselves."
    )
    seed = document.provenance.seed
    parts.append(
        f"Computed with epsilens {document.provenance.version}"
        f"{'' if seed is None else f', seed {seed}'}, on "
        f"{format_count(document.risk.n_models)} attacked models."
    )
    return " ".join(parts)


def _odds_clause(epsilon: float, *, many: bool) -> str:
    """Say what the budget bounds: what a person's own report adds, and no more than that."""
    own = "a person's own randomised answers" if many else "a person's own randomised answer"
    if math.isinf(epsilon):
        return "nothing is randomised, and nothing is proven to stay hidden."
    factor = f"at most {odds_text(epsilon)}"
    if epsilon > _LARGEST_LOG_ODDS:
        factor = f"e to the power of {format_epsilon(epsilon)} at most, {odds_text(epsilon)}"
    verb = "change" if many else "changes"
    return (
        f"{own} {verb} the odds between any two of their possible answers by a factor of {factor}, "
        "beyond what everything else, other people's answers included, says of them (proven, as long "
        "as other people's answers do not depend on theirs). What a model shows of people alike is "
        "not limited by this."
    )


def _default_limit(document: DecisionDocument) -> list[str]:
    """Say that nobody set the limit, where the document warns of it."""
    for warning in document.warnings:
        if warning.startswith(_DEFAULT_LIMIT):
            said = warning.removeprefix(_DEFAULT_LIMIT).lstrip(" :")
            return [f"Nobody set this limit: it is the tool's default; {said}".rstrip("; ")]
    return []


def _measured_parts(document: DecisionDocument, risk: RiskCell | None) -> list[str]:
    if risk is None or risk.answer_inference_rate is None:
        return ["What an attacker gets at this budget was not measured."]
    parts = []
    many = len(document.risk.protect) > 1
    proof = proof_text(risk, many=many)
    if proof is not None:
        parts.append(f"{proof[0].upper()}{proof[1:]}.")
    runs = range_text(risk)
    beside = "" if runs is None else f"; {runs} in 9 of 10 releases"
    never = (
        ""
        if risk.answer_inference_unseen is None
        else f", and for {format_percent(risk.answer_inference_unseen)} of the people whom the model "
        "never saw (measured)"
    )
    at_once = " with all answers at once" if many else ""
    parts.append(
        f"{ATTACKER[0].upper()}{ATTACKER[1:]} was right{at_once} for "
        f"{format_percent(risk.answer_inference_rate)} of the people in the data (measured{beside})"
        f"{never}."
    )
    if risk.asr_max is not None and risk.asr_max_null_q95 is not None:
        sure = (
            "" if risk.asr_max_p_value is None else f", p {compared_p_text(risk.asr_max_p_value)}"
        )
        parts.append(
            f"Membership: the most exposed of {format_count(document.risk.n_targets)} records was "
            f"recognised {format_percent(risk.asr_max)} of the time (measured; chance alone reaches "
            f"{format_percent(risk.asr_max_null_q95)}{sure})."
        )
    return parts


def _cost_part(document: DecisionDocument, cost: WhatIfCell) -> str:
    kind = cost_type(document.cost)
    decimals = change_decimals(document.cost)
    interval = interval_text(document.cost, cost)
    runs = "" if interval is None else f"; 9 in 10 runs: {interval}"
    text = (
        f"Cost: the test loss changes by {format_change(cost.loss_change, decimals=decimals)} "
        f"{loss_unit(document.cost)} ({kind}{runs})"
    )
    accuracy = accuracy_text(document.cost, cost)
    if accuracy is not None:
        text += f", the accuracy by {accuracy} percentage points ({kind})"
    if not cost.trusted:
        text += ". The checks of this cost failed: do not rely on it"
    return text + "."


def unprotected(
    protected: str,
    *,
    is_model_release: bool = False,
    is_decision: bool = False,
    risk: RiskCell | None = None,
    many: bool = False,
) -> list[tuple[str, str]]:
    """List what a privacy budget does not protect: a few words and what they mean.

    Parameters
    ----------
    protected : str
        What is randomised, in words.
    is_model_release : bool
        Whether noise protects a published model instead of the answers.
    is_decision : bool
        Whether guessing and membership are spoken of too.
    risk : RiskCell, optional
        What was measured of them, to be quoted.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    list of (str, str)

    Examples
    --------
    >>> unprotected("the answer “smokes”")[0][0]
    'This report itself.'
    """
    said = [
        (
            "This report itself.",
            "It is computed from the true answers and is not private. Publishing it, or choosing ε "
            "by it, reveals something about the data.",
        )
    ]
    if is_model_release:
        said.append(
            (
                "What was not promised beforehand.",
                "The bounds and the penalty must not be chosen by looking at the data. One record "
                "is one person: somebody with several records is protected less.",
            )
        )
    else:
        said.append(
            (
                "Other columns.",
                f"Only {protected} would be randomised. All other columns stay as they are, and "
                "where they go together with a protected answer, the answer can be guessed from "
                "them.",
            )
        )
    if is_decision:
        said += _measured_limits(risk, many=many)
    said.append(
        (
            "Other releases.",
            "Budgets add up: every further release of the same answers spends more.",
        )
    )
    if not is_model_release:
        said.append(
            (
                "Who is in a group.",
                "Who is randomised is not hidden. Membership of a group must not depend on a "
                "protected column, or it gives the answer away whatever ε is.",
            )
        )
    said += [
        (
            "What was seen before.",
            "Whoever saw an earlier version of the data or of the model still knows what it showed.",
        ),
        (
            "Conclusions about people in general.",
            "ε limits what one record adds to a release. It does not hide what the data say about "
            "everyone."
            if is_model_release
            else "ε limits what a person's own randomised answer says of them. What the data say "
            "about people alike, they say about that person too.",
        ),
    ]
    return said


def _measured_limits(risk: RiskCell | None, *, many: bool) -> list[tuple[str, str]]:
    guessed = (
        "The proven ceiling starts from what can be guessed without the answer; that much no ε can "
        "hide."
    )
    present = (
        "Randomised response protects the answer, not that somebody is in the data: for membership "
        "there is no ceiling."
    )
    if risk is not None:
        at = f"At ε = {format_epsilon(risk.record_epsilon if risk.epsilon is None else risk.epsilon)}"
        if risk.answer_inference_unseen is not None:
            at_once = ", all of them at once," if many else ""
            guessed += (
                f" {at} a model guesses the answers{at_once} of "
                f"{format_percent(risk.answer_inference_unseen)} of the people whom it never saw "
                "(measured)."
            )
        if risk.asr_max is not None and risk.asr_max_null_q95 is not None:
            present += (
                f" {at} the most exposed record is recognised {format_percent(risk.asr_max)} of the "
                f"time; chance alone reaches {format_percent(risk.asr_max_null_q95)} (measured)."
            )
    return [
        ("What can be guessed without the answer.", guessed),
        ("Being in the data at all.", present),
    ]
