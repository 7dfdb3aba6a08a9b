# SPDX-License-Identifier: Apache-2.0
"""What a bound says about a claim, and what the known ε says about the bound."""

from __future__ import annotations

from epsilens.audit.bound import GAUSSIAN_METHODS, OneRunBound
from epsilens.document.wording import bound_text, delta_text


def judge(
    bound: OneRunBound, *, epsilon: float | None, delta: float, truth: float | None
) -> tuple[bool, str]:
    """Return whether a claim is refuted, and the same as a sentence.

    A 95 % bound lies above the truth in up to 5 of 100 audits. Where the truth is known the sentence says
    that this is one of them; the claim is refuted all the same, because the rule was fixed beforehand.

    Parameters
    ----------
    bound : OneRunBound
        What one run proves.
    epsilon : float or None
        The claim, if there is one.
    delta : float in [0, 1)
        Its δ.
    truth : float or None
        The ε that the mechanism is known to keep at that δ.

    Returns
    -------
    bool, str
        Whether the claim is refuted, and why.

    Examples
    --------
    >>> from epsilens.audit import one_run_bound
    >>> included = [True, False, True, True, False] * 20
    >>> bound = one_run_bound(included, included)
    >>> judge(bound, epsilon=1.0, delta=0.0, truth=None)
    (True, 'the claim is broken: with 95 % confidence ε is at least 3.15, and 1 is claimed.')
    """
    sure = f"with {100 * bound.confidence:.10g} % confidence"
    at = f" at δ = {delta_text(bound.delta)}" if bound.delta > 0.0 else ""
    found = f"{sure} ε is at least {bound_text(bound.epsilon_lower_bound)}{at}"
    if bound.epsilon_lower_bound == 0.0:
        found = f"this run proves nothing about ε{at}"
    if not bound.is_confidence_bound:
        return False, (
            f"no verdict: {bound_text(bound.epsilon_lower_bound)}{at} is the best of many uncorrected "
            "tests and no confidence bound."
        )
    if epsilon is None:
        return False, f"no claim to judge: {found}.{_of_the_bound(bound, epsilon, delta, truth)}"
    if bound.delta < delta:
        return False, (
            f"no verdict: {found} at δ = 0, which says nothing about a claim at δ = {delta_text(delta)}."
        )
    assumed = (
        f", if the mechanism has a {' and '.join(bound.assumptions)}"
        if bound.method in GAUSSIAN_METHODS
        else ""
    )
    is_broken = bound.epsilon_lower_bound > epsilon
    if is_broken and float(bound_text(bound.epsilon_lower_bound)) <= epsilon:  # apart by a hair
        found = f"{sure} ε is more than {epsilon:.4g}{at}"
    beginning = "the claim is broken" if is_broken else "no evidence of a breach"
    return is_broken, (
        f"{beginning}: {found}, and {epsilon:.4g} is claimed{assumed}."
        f"{_of_the_bound(bound, epsilon, delta, truth)}"
    )


def _of_the_bound(
    bound: OneRunBound, epsilon: float | None, delta: float, truth: float | None
) -> str:
    """Return what the known ε says about a bound above it, and nothing about any other."""
    # Levels are tried on a grid that may contain ε itself, up to rounding.
    if truth is None or bound.delta < delta or bound.epsilon_lower_bound <= truth * (1.0 + 1e-9):
        return ""
    held = "if it was used where it holds, " if bound.method in GAUSSIAN_METHODS else ""
    among = f"one of the at most {_rate(1.0 - bound.confidence)} audits that err"
    if epsilon is not None and truth <= epsilon < bound.epsilon_lower_bound:
        return f" But theory has ε = {truth:.4g}: {held}this is a false alarm, {among}."
    return f" The bound is above the ε of {truth:.4g} that theory has: {held}this is {among}."


def _rate(level: float) -> str:
    """Return a small probability as so many of so many."""
    whole = 100
    while level * whole < 0.999:
        whole *= 10
    return f"{level * whole:.3g} in {whole:,}"
