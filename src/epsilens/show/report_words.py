# SPDX-License-Identifier: Apache-2.0
"""The words of the report: the answer at each budget, what is not protected, what others chose."""

from __future__ import annotations

import re

from epsilens.decision.limits import PROVES
from epsilens.document import (
    DecisionDocument,
    RiskCell,
    WhatIfCell,
    at_most_text,
    ceiling_clause,
    own_budget,
)
from epsilens.show.rounding import (
    format_epsilon,
    format_percent,
)
from epsilens.show.sentences import cost_clause, unanswered_sentence

__all__ = [
    "ATTACKER",
    "NOTHING_HIDDEN",
    "OTHERS",
    "OTHERS_WARNING",
    "ceiling_is_open",
    "decision_sentence",
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

NOTHING_HIDDEN = "100.0%"
"""A ceiling that shows so leaves nothing that is proven to stay hidden."""


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
    0.5000 (estimated); from everybody else's data an attacker guesses up to 71.8% of the answers; with the
    person's own randomised answer at most 84.8% (proven given that baseline), and an attacker who sees only
    the published model and all other columns guesses 72.1% of the answers (measured).
    """
    attack = _attack_clause(risk, many=len(document.risk.protect) > 1)
    if not cost.trusted:
        return f"{unanswered_sentence(cost)} {attack[0].upper()}{attack[1:]}."
    return f"{cost_clause(document.cost, cost)}; {attack}."


def _attack_clause(risk: RiskCell | None, *, many: bool) -> str:
    if risk is None or risk.answer_inference_rate is None:
        return "what an attacker gets was not measured there"
    rate = format_percent(risk.answer_inference_rate)
    what = f"all of them at once for {rate} of the people" if many else f"{rate} of the answers"
    guesses = f"{ATTACKER} guesses {what} (measured)"
    proof = proof_text(risk, many=many)
    return guesses if proof is None else f"{proof}, and {guesses}"


def ceiling_is_open(risk: RiskCell) -> bool:
    """Say whether nothing is proven to stay hidden: the ceiling rounds to everything.

    It may do so because everybody else's data give the answers away already; then the advantage is small,
    and the proof limits what is added.

    Examples
    --------
    >>> ceiling_is_open(RiskCell(epsilon=9.0, mechanism="rr", answer_inference_ceiling=0.9998))
    True
    """
    ceiling = risk.answer_inference_ceiling
    is_added = risk.advantage is not None and risk.advantage <= PROVES
    return ceiling is not None and at_most_text(ceiling) == NOTHING_HIDDEN and not is_added


def proof_text(risk: RiskCell, *, many: bool = False) -> str | None:
    """Say what is proven of guessing, never without its baseline; None where nothing is known.

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
    >>> proof_text(RiskCell(epsilon=12.0, mechanism="rr", answer_inference_baseline=0.725,
    ...                     answer_inference_ceiling=0.99999))
    'nothing is proven to stay hidden (the ceiling is 100.0%)'
    """
    clause = ceiling_clause(risk, many=many)
    if clause is not None and ceiling_is_open(risk):
        return f"nothing is proven to stay hidden (the ceiling is {NOTHING_HIDDEN})"
    return clause


def recommendation_text(sentence: str) -> str:
    """Write a recommendation as the page does: infinity is ∞.

    Examples
    --------
    >>> recommendation_text("ε = inf is the most private choice.")
    'ε = ∞ is the most private choice.'
    """
    return re.sub(r"\binf\b", "∞", sentence)


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
        "The proven ceiling starts from what everybody else's data give away of an answer; that much no "
        "ε can hide."
    )
    present = (
        "Randomised response protects the answer, not that somebody is in the data: for membership "
        "there is no ceiling."
    )
    if risk is not None:
        at = f"At ε = {format_epsilon(own_budget(risk))}"
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
