# SPDX-License-Identifier: Apache-2.0
"""What an audit says: a bound, a claim, a verdict; and the audit of scores that somebody else made."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

import epsilens
from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_delta, as_epsilon
from epsilens.audit.bound import (
    CONDITIONS,
    GAUSSIAN_METHODS,
    Method,
    OneRunBound,
    Selection,
    one_run_bound,
)
from epsilens.audit.inputs import coins_and_scores
from epsilens.audit.path import first_level
from epsilens.document import AuditDocument, Provenance, to_dict
from epsilens.document.parts import NumberType
from epsilens.document.wording import bound_text, delta_text
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

    import altair as alt
    import pandas as pd

# --- What a bound says about a claim, and what the known ε says about the bound ---


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
    known = [_ASSUMED[one] for one in bound.assumptions if one in _ASSUMED]
    assumed = f", if {' and '.join(known)}" if known else ""
    is_broken = bound.epsilon_lower_bound > epsilon
    if is_broken and float(bound_text(bound.epsilon_lower_bound)) <= epsilon:  # apart by a hair
        found = f"{sure} ε is more than {epsilon:.4g}{at}"
    beginning = "the claim is broken" if is_broken else "no evidence of a breach"
    return is_broken, (
        f"{beginning}: {found}, and {epsilon:.4g} is claimed{assumed}."
        f"{_of_the_bound(bound, epsilon, delta, truth)}"
    )


_ASSUMED = {
    "gaussian trade-off": "the mechanism has a gaussian trade-off",
    "normal scores": "the scores are normal",
    "independent scores": "independent",
    "one noise level": "their noise has one level",
    "independent canaries": "canaries are independent",
    "sum of the rows as they are": "the mechanism adds up rows and neither clips nor scales them",
    "labels that are independent given the features": "labels are independent given the features",
    "the likely labels follow the true law": "the likely labels follow the true law",
    "normal noise of one level": "its noise is normal and of one level",
}


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


# --- The result ---


@dataclass(frozen=True)
class AuditResult:
    """What an audit found, beside what was claimed and what is known to be true.

    Attributes
    ----------
    bound : OneRunBound
        What one run proves.
    mechanism : str
        What was audited.
    claimed_epsilon, claimed_delta : float or None
        The claim.
    true_epsilon : float or None
        The ε that the mechanism is known to keep at the claimed δ, where theory has it.
    is_broken : bool
        Whether the claim is refuted.
    verdict : str
        The same as a sentence.
    notes : tuple of Note
        What the reader must know before relying on it.
    seed : int or None
        Seed of the coins, canaries and simulated noise.
    seconds : float
        How long it took.

    Examples
    --------
    >>> from epsilens.audit import GaussianSum, OneRunAudit
    >>> result = OneRunAudit(GaussianSum(4.0, 1e-6, dimension=400), canaries=100).run(random_state=0)
    >>> result.is_broken
    False
    """

    bound: OneRunBound
    mechanism: str
    claimed_epsilon: float | None
    claimed_delta: float | None
    true_epsilon: float | None
    is_broken: bool
    verdict: str
    notes: tuple[Note, ...]
    seed: int | None
    seconds: float

    @property
    def epsilon_lower_bound(self) -> float:
        """What one run proves: ε is at least this."""
        return self.bound.epsilon_lower_bound

    @property
    def document(self) -> AuditDocument:
        """The result as the versioned document that every view renders."""
        bound = self.bound
        is_proven = bound.is_confidence_bound and UNPROVEN.isdisjoint(bound.assumptions)
        kind: NumberType = "proven" if is_proven else "estimated"
        numbers: dict[str, NumberType] = {"epsilon_lower_bound": kind}
        if self.true_epsilon is not None:
            numbers["true_epsilon"] = "proven"
        return AuditDocument(
            provenance=Provenance(
                method=bound.method,
                settings={
                    "mechanism": self.mechanism,
                    "canaries": bound.n_canaries,
                    "epsilon": self.claimed_epsilon,
                    "delta": self.claimed_delta,
                    "method": bound.method,
                    "selection": bound.selection,
                    "confidence": round(bound.confidence, 12),
                },
                seed=self.seed,
                simulated=self.seed is not None,
                version=epsilens.__version__,
                seconds=round(self.seconds, 3),
            ),
            notes=list(self.notes),
            number_types=numbers,
            confidence=round(bound.confidence, 12),
            mechanism=self.mechanism,
            claimed_epsilon=self.claimed_epsilon,
            claimed_delta=self.claimed_delta,
            true_epsilon=self.true_epsilon,
            is_broken=self.is_broken,
            verdict=self.verdict,
            **{name: getattr(bound, name) for name in _OF_THE_BOUND},
        )

    def to_dict(self) -> dict[str, object]:
        """Return the document as plain objects."""
        return to_dict(self.document)

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a table with one row."""
        import pandas as pd

        content = self.to_dict()
        kept = [name for name in content if name not in _NOT_IN_A_TABLE]
        return pd.DataFrame([{name: content[name] for name in kept}])

    def plot(self) -> alt.LayerChart:
        """Draw the bound, the claim and the truth on one axis."""
        from epsilens.show import audit_chart

        return audit_chart(self.document)


UNPROVEN = frozenset({"normal scores", "the likely labels follow the true law"})
"""Assumptions that the data may break unnoticed: a bound that needs one counts as estimated."""
_OF_THE_BOUND = (
    "epsilon_lower_bound",
    "method",
    "selection",
    "is_confidence_bound",
    "assumptions",
    "conditions",
    "n_canaries",
    "n_guesses",
    "n_correct",
)
_NOT_IN_A_TABLE = {
    "epsilens_document",
    "kind",
    "provenance",
    "notes",
    "warnings",
    "number_types",
    "assumptions",
    "conditions",
}


def checked_claim(epsilon: float | None, delta: float | None) -> tuple[float | None, float | None]:
    """Return a claim that an audit can judge; refuse an infinite ε and what is no δ.

    Examples
    --------
    >>> checked_claim(1.0, None)
    (1.0, None)
    """
    if epsilon is not None and (
        as_epsilon(epsilon, name="claimed_epsilon", allow_zero=True) == float("inf")
    ):
        raise InputError(
            argument="claimed_epsilon",
            expected="finite",
            got="inf: that claims nothing, so that nothing can break it",
            hint="Leave it out to get the bound alone.",
        )
    if delta is not None:
        as_delta(delta, name="claimed_delta")
    return epsilon, delta


def notes_of_bound(bound: OneRunBound, *, delta: float) -> Iterator[Note]:
    """Yield what must be known of a bound before it is relied on, whatever was audited."""
    if not bound.is_confidence_bound:
        yield Note(
            "uncorrected-tests",
            "As printed, the best of many uncorrected tests: this number is not a confidence "
            "bound and lies above the truth in about every third audit.",
        )
    if bound.epsilon_lower_bound == 0.0 and len(bound.conditions) > len(CONDITIONS):
        first = first_level(bound.n_canaries, delta=bound.delta, level=1.0 - bound.confidence)
        yield Note(
            "audit-too-weak",
            f"With {bound.n_canaries} canaries at this δ and confidence nothing below ε = "
            f"{first:.3g} can be proved, and this run shows less. Use fewer canaries, a smaller δ "
            "or less confidence.",
        )
    if bound.method == "pure" and delta > 0.0:
        yield PURE_BOUND
    if bound.method == "gaussian-scores":
        yield Note(
            "normal-scores-assumed",
            "The bound takes the scores to be normal, also in the far tails that δ is about. A test of their "
            "shape found nothing against it, but cannot see these tails. Use it where the noise is known to be normal.",
        )


PURE_BOUND = Note(
    "pure-bound",
    "Gaussian noise keeps no finite ε at δ = 0, so that a pure bound says nothing about "
    "a claim with δ > 0. Use the method approximate or f-dp.",
)
GAUSSIAN_ASSUMED = Note(
    "gaussian-assumed",
    "The bound is about mechanisms that leak as Gaussian noise does. Nothing here checks "
    "that this one does.",
)

# --- Scores that somebody else made, from any trainer ---


def audit_scores(
    included: ArrayLike,
    scores: ArrayLike,
    *,
    claimed_epsilon: float | None = None,
    claimed_delta: float | None = None,
    method: Method | None = None,
    selection: str | int | Selection | None = None,
    confidence: float = 0.95,
    name: str = "scores",
) -> AuditResult:
    """Judge a claim by the scores of an attack on one run of any mechanism or trainer.

    Parameters
    ----------
    included : array of bool, or of 0 and 1, (m,)
        Which canaries were in: by independent fair coins, tossed before the run.
    scores : array of float, (m,)
        High where the canary seems to be in. Computed without looking at `included`.
    claimed_epsilon : float in [0, inf), optional
        The claim; None: the bound alone.
    claimed_delta : float in [0, 1), optional
        Its δ.
    method, selection, confidence
        See `one_run_bound`.
    name : str
        What was audited, for the document.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> included = [True, False, True, True, False] * 20
    >>> audit_scores(included, included, claimed_epsilon=1.0).is_broken
    True
    """
    started = time.perf_counter()
    epsilon, delta = checked_claim(claimed_epsilon, claimed_delta)
    bound = one_run_bound(
        included,
        scores,
        delta=delta or 0.0,
        confidence=confidence,
        method=method,
        selection=selection,
    )
    found = judged(bound, epsilon=epsilon, delta=delta, name=name, started=started)
    if times := _times_repeated(*coins_and_scores(included, scores)):
        found = replace(
            found,
            notes=(
                *found.notes,
                Note(
                    "repeated-canaries",
                    f"Most canaries are there {times} times, with the same score and the same coin. Every canary "
                    "must have one row and a coin of its own: otherwise the bound may be above the truth. Remove "
                    "the repeated rows.",
                ),
            ),
        )
    return found


_LEAST_DISTINCT = 10
"""Fewer scores than that are answers or counts, which are equal by nature."""


def _times_repeated(included: BoolArray, scores: FloatArray) -> int:
    """Return how often most scores occur, always with the same coin; 0 if they do not.

    Rounded scores are equal by chance: then their numbers differ, and so do their coins.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included, scores = rng.random(100) < 0.5, rng.normal(size=100)
    >>> _times_repeated(included, scores)
    0
    >>> _times_repeated(np.repeat(included, 2), np.repeat(scores, 2))
    2
    """
    _, place, times = np.unique(scores, return_inverse=True, return_counts=True)
    if times.size < _LEAST_DISTINCT:
        return 0
    inside = np.bincount(place, weights=included)
    agreed = times[(times > 1) & ((inside == 0) | (inside == times))]
    usual = int(np.bincount(agreed).argmax()) if agreed.size else 0
    return usual if np.count_nonzero(agreed == usual) > times.size / 2 else 0


def judged(
    bound: OneRunBound,
    *,
    epsilon: float | None,
    delta: float | None,
    name: str,
    started: float,
    seed: int | None = None,
) -> AuditResult:
    """Return what a bound from somebody's scores says about a checked claim."""
    is_broken, verdict = judge(bound, epsilon=epsilon, delta=delta or 0.0, truth=None)
    notes = list(notes_of_bound(bound, delta=delta or 0.0))
    if bound.method in ("f-dp", "independent-gdp"):
        notes.append(GAUSSIAN_ASSUMED)
    return AuditResult(
        bound=bound,
        mechanism=name,
        claimed_epsilon=epsilon,
        claimed_delta=delta,
        true_epsilon=None,
        is_broken=is_broken,
        verdict=verdict,
        notes=tuple(notes),
        seed=seed,
        seconds=time.perf_counter() - started,
    )
