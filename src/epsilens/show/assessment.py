# SPDX-License-Identifier: Apache-2.0
"""A paragraph on one budget for a data-protection impact assessment."""

from __future__ import annotations

import math

from epsilens.document import (
    DecisionDocument,
    RiskCell,
    WhatIfCell,
    cost_type,
    loss_unit,
    own_budget,
)
from epsilens.show.cell_text import accuracy_text, interval_text
from epsilens.show.report_words import ATTACKER, proof_text, recommendation_text
from epsilens.show.risk_text import compared_p_text, range_text
from epsilens.show.rounding import (
    change_decimals,
    format_change,
    format_count,
    format_epsilon,
    format_percent,
)
from epsilens.show.sentences import budget_text, unanswered_sentence, whom_text
from epsilens.show.words import answers_text

__all__ = ["assessment_paragraph", "odds_text"]

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
    if chosen.holds and chosen.epsilon == own_budget(cost):
        parts.append(f"Reason for this budget: {recommendation_text(chosen.sentence)}")
    elif not chosen.holds:
        parts.append(f"No budget is recommended: {recommendation_text(chosen.sentence)}")
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
    if not cost.trusted:
        return f"Cost: {unanswered_sentence(cost)}"
    kind = cost_type(document.cost, cost)
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
    return text + "."
