# SPDX-License-Identifier: Apache-2.0
"""Masking as a lever: the same risk at a larger ε if some columns go."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epsilens.decision.result import Decision, Standing
from epsilens.decision.rules import last_within
from epsilens.document import MaskingLever
from epsilens.document.wording import at_most_text, epsilon_text
from epsilens.errors import InputError

_ROUNDING = 1e-12
_CLEARLY = 2.0
"""Standard errors beyond which two measured rates differ."""


def masking_lever(
    decision: Decision, without: Decision, *, masked: Sequence[str]
) -> MaskingLever | None:
    """Say whether a larger ε exposes answers no more once some columns are gone, and what it costs then.

    Answers are guessed from the columns that a model rests on. Without some of these an attacker guesses
    worse to begin with, so that a larger ε leads to the same rate; but the model predicts worse too. Both
    are reckoned against the model on all columns without any noise.

    Parameters
    ----------
    decision : Decision
        On all columns, with a recommended ε.
    without : Decision
        On the others, of the same records, the same grid and the same protected columns.
    masked : sequence of str
        The columns that are gone.

    Returns
    -------
    MaskingLever or None
        None where no ε is recommended on all columns, or the two have no baselines to compare.

    Raises
    ------
    InputError
        If the two are not on one grid.

    Notes
    -----
    The rate is the ceiling of the answers, proven given b, the upper bound of what everybody else's data
    give away: b is measured, and smaller without the columns only for an attacker who does not have these
    from elsewhere. A lever is claimed only where b falls by more
    than two standard errors of both, over the attacked records; else it is said to be noise.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsilens import WhatIf
    >>> from epsilens.decision import decide
    >>> from epsilens.risk import AttackStudy
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=600), "voice": rng.normal(size=600)})
    >>> odds = np.exp(X["age"] + 2 * X["voice"])
    >>> y = pd.Series(rng.random(600) < odds / (1 + odds), name="smokes").astype("category")
    >>> def decided(columns):
    ...     parts = X[columns][:400], y[:400], X[columns][400:], y[400:]
    ...     model, asked = LogisticRegression(), {"epsilon": [0.5, 2.0], "random_state": 0}
    ...     cost = WhatIf(model).fit(*parts).estimate(**asked)
    ...     risk = AttackStudy(model).fit(*parts).estimate(**asked, shadow_models=64)
    ...     return decide(cost, risk, max_loss_increase=0.5)
    >>> lever = masking_lever(decided(["age", "voice"]), decided(["age"]), masked=["voice"])
    >>> lever.epsilon, lever.is_larger
    (0.5, False)
    """
    epsilon = decision.recommendation.epsilon
    own, other = decision.document.cost.baseline, without.document.cost.baseline
    if epsilon is None or own.loss is None or other.loss is None:
        return None
    if [s.epsilon for s in decision.standings] != [s.epsilon for s in without.standings]:
        raise InputError(
            "both decisions must be on one grid of ε, got two. Ask the same question with and without "
            "the columns."
        )
    here = decision.at(epsilon)
    rate = here.attack_ceiling
    there = None
    if rate is not None:
        there = last_within(
            without.standings,
            lambda one: one.attack_ceiling is not None and one.attack_ceiling <= rate + _ROUNDING,
        )
    worse = other.loss - own.loss
    after = None if there is None else there.loss_increase + worse
    is_clear = _falls_clearly(decision, without)
    helps = there is not None and there.epsilon > epsilon and is_clear
    return MaskingLever(
        masked=list(masked),
        epsilon=epsilon,
        epsilon_masked=None if there is None else there.epsilon,
        attack_rate=rate,
        loss_increase=here.loss_increase,
        loss_increase_masked=after,
        is_larger=helps,
        sentence=_sentence(here, there, after, is_clear=is_clear),
    )


def _falls_clearly(decision: Decision, without: Decision) -> bool:
    """Say whether the best guess without the answer is worse without the columns, beyond both errors."""
    risks = [one.document.risk for one in (decision, without)]
    own, other = (risk.cells[0].answer_inference_baseline for risk in risks)
    if own is None or other is None:
        return False
    errors = [
        math.sqrt(rate * (1.0 - rate) / max(risk.n_targets, 1))
        for rate, risk in zip((own, other), risks, strict=True)
    ]
    return own - other > _CLEARLY * math.hypot(*errors)


def _sentence(
    here: Standing, there: Standing | None, after: float | None, *, is_clear: bool
) -> str:
    if there is None or after is None or there.epsilon <= here.epsilon:
        return (
            f"Without these columns no larger ε of the grid keeps attackers within what ε = "
            f"{epsilon_text(here.epsilon)} does: masking is no lever here."
        )
    if not is_clear:
        return (
            "How well an answer is guessed by those who do not know it is measured, and differs with and without "
            "these columns "
            f"by no more than its noise: nothing speaks for a larger ε than {epsilon_text(here.epsilon)}."
        )
    verdict = (
        "cheaper than with all columns" if after < here.loss_increase else "not cheaper: keep them"
    )
    return (
        f"Without these columns ε = {epsilon_text(there.epsilon)} keeps attackers within the same "
        f"{at_most_text(here.attack_ceiling or 0.0)} of the answers as ε = "
        f"{epsilon_text(here.epsilon)} does with all of them, as measured by guessing answers from what is left, and if attackers do not "
        "have these columns from elsewhere; the "
        f"loss then rises by up to {after:.3g} instead of {here.loss_increase:.3g}, {verdict}."
    )
