# SPDX-License-Identifier: Apache-2.0
"""The audit itself: coins, one run, scores, a bound, and what it says about a claim."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np

import epsilens
from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_count, as_delta, as_epsilon
from epsilens.audit.bound import (
    CONDITIONS,
    GAUSSIAN_METHODS,
    BoundTest,
    Method,
    OneRunBound,
    Selection,
)
from epsilens.audit.canaries import Canaries
from epsilens.audit.coins import draw_inclusion, own_stream
from epsilens.audit.inputs import as_numbers, require_unmasked
from epsilens.audit.mechanisms import BareCallable, Mechanism, Simulated
from epsilens.audit.own_code import run_own
from epsilens.audit.path import first_level
from epsilens.audit.scores import LinearMMSE, Loss, Score
from epsilens.document import AuditDocument, Provenance, to_dict
from epsilens.document.parts import NumberType
from epsilens.document.wording import bound_text, delta_text
from epsilens.errors import InputError, InputTypeError, setting
from epsilens.notes import Note

if TYPE_CHECKING:
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


# --- The audit itself: coins, one run, scores, a bound, and what it says about a claim ---


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
        kind: NumberType = "proven" if bound.is_confidence_bound else "estimated"
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


@dataclass(eq=False, repr=False)
class OneRunAudit:
    """Check from one run that a mechanism leaks no more than it claims.

    Canaries are put among the data by fair coins, the mechanism runs once, and the canaries are
    guessed back from its output. If the guesses are better than the claim allows, the claim is
    broken. If they are not, nothing is proved: a better attack may exist.

    Parameters
    ----------
    mechanism : Mechanism or callable
        Ready-made (`GaussianSum`, `RandomisedAnswers`, `EstimatorFit`, …) or any callable that
        turns a data set into an output.
    canaries : int or Canaries
        How many the mechanism is to bring, or the canaries themselves. A bare callable needs the
        latter.
    score : callable, optional
        `score(output, canaries)` gives each canary a number, high where it seems to be in. By
        default the mechanism's own; for a bare callable `Loss` for canaries with labels and
        `LinearMMSE` otherwise.
    claimed_epsilon : float in [0, inf), optional
        The claim; the mechanism's own by default.
    claimed_delta : float in [0, 1), optional
        Its δ.
    method : {"pure", "approximate", "f-dp", "independent-gdp"}, optional
        See `one_run_bound`. Refused where the mechanism is known to be of another kind.
    selection : {"path", "bonferroni", "split", "as_printed"}, int or strategy, optional
        See `one_run_bound`.
    confidence : float in [1e-9, 1 - 1e-9]
        How often the bound must be right.
    reference_run : bool
        Run the mechanism once more on the data without any canary and score the difference of the
        two outputs. Finds noise that is not fresh, as from a repeated seed; costs strength where
        the noise is fresh. For outputs that are arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.audit import OneRunAudit, one_hot_directions
    >>> def forgets_the_noise(rows):
    ...     return rows.sum(axis=0)
    >>> audit = OneRunAudit(forgets_the_noise, canaries=one_hot_directions(200), claimed_epsilon=1.0)
    >>> print(audit.run(random_state=0).verdict)
    the claim is broken: with 95 % confidence ε is at least 4.02, and 1 is claimed.
    """

    mechanism: Mechanism | BareCallable
    _: KW_ONLY
    canaries: int | Canaries = 1000
    score: Score | None = None
    claimed_epsilon: float | None = None
    claimed_delta: float | None = None
    method: Method | None = None
    selection: str | int | Selection | None = None
    confidence: float = 0.95
    reference_run: bool = False

    def __post_init__(self) -> None:
        if not callable(self.mechanism):
            raise InputTypeError(
                argument="mechanism",
                expected="a callable that turns a data set into an output",
                got=type(self.mechanism).__name__,
            )

    def run(self, random_state: int | None = None) -> AuditResult:
        """Toss the coins, run the mechanism, score the canaries and bound ε.

        Parameters
        ----------
        random_state : int, optional
            Makes the coins, the canaries and the noise of ready-made mechanisms repeatable; the
            noise of a callable is its own. Coins do not repeat what a mechanism draws that is
            seeded with the same number.

        Returns
        -------
        AuditResult
            The bound, the claim, the truth where it is known, and a verdict.

        Raises
        ------
        InputError
            If the method does not fit the mechanism, canaries and output do not fit the score, or
            a callable of one's own fails; its error is the cause of this one.
        """
        started = time.perf_counter()
        epsilon, delta = self._claim()
        test = BoundTest.checked(delta or 0.0, self.confidence, self.method, self.selection)
        own = self.mechanism if isinstance(self.mechanism, Mechanism) else None
        if own is not None and test.method in GAUSSIAN_METHODS and own.leakage == "pure":
            raise InputError(
                f"{setting('method')} {test.method!r} is for mechanisms that leak as Gaussian noise "
                f"does, and {_name(own)!r} is known not to: the bound would be false. "
                "Use 'pure' or 'approximate'."
            )
        mechanism: Mechanism | BareCallable = self.mechanism
        if random_state is not None:
            as_count(random_state, name="random_state", least=0)
            if isinstance(mechanism, Simulated):
                mechanism = mechanism.with_noise_from(own_stream(random_state, purpose="noise"))
        canaries = self._make_canaries(own_stream(random_state, purpose="canaries"))
        score = self.score
        if score is None and own is not None:
            score = own.score()
        elif score is None:
            score = Loss() if len(canaries.records) == 2 else LinearMMSE()
        # Nothing below that makes scores is given `included`.
        included = draw_inclusion(canaries.n_canaries, random_state)
        output = self._run_once(mechanism, canaries, included)
        given = run_own(
            f"{setting('score')} must give every canary a number", score, output, canaries
        )
        scores = _as_scores(given, canaries)
        bound, truth = test.bound(included, scores), None
        if own is not None:
            said = f"{setting('mechanism')} must say its ε"
            truth = run_own(said, own.true_epsilon, delta or 0.0)
        is_broken, verdict = judge(bound, epsilon=epsilon, delta=delta or 0.0, truth=truth)
        return AuditResult(
            bound=bound,
            mechanism=_name(self.mechanism),
            claimed_epsilon=epsilon,
            claimed_delta=delta,
            true_epsilon=truth,
            is_broken=is_broken,
            verdict=verdict,
            notes=tuple(self._notes(bound, canaries, delta or 0.0)),
            seed=random_state,
            seconds=time.perf_counter() - started,
        )

    def _claim(self) -> tuple[float | None, float | None]:
        own = self.mechanism if isinstance(self.mechanism, Mechanism) else None
        epsilon, delta = self.claimed_epsilon, self.claimed_delta
        if epsilon is None and own is not None:
            epsilon = own.claimed_epsilon
        if delta is None and own is not None:
            delta = own.claimed_delta
        if epsilon is not None and np.isinf(
            as_epsilon(epsilon, name="claimed_epsilon", allow_zero=True)
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

    def _make_canaries(self, generator: np.random.Generator) -> Canaries:
        if isinstance(self.canaries, Canaries):
            return self.canaries
        n_canaries = as_count(self.canaries, name="canaries", least=2)
        if not isinstance(self.mechanism, Mechanism):
            raise InputError(
                argument="canaries",
                expected="canaries for a bare callable",
                got="a number",
                hint=(
                    "Make them by `random_unit_vectors`, `one_hot_directions`, "
                    "`mislabelled_records` or `own_canaries`."
                ),
            )
        return run_own(
            f"{setting('mechanism')} must make canaries",
            self.mechanism.canaries,
            n_canaries,
            generator,
        )

    def _run_once(
        self,
        mechanism: Mechanism | BareCallable,
        canaries: Canaries,
        included: BoolArray,
    ) -> object:
        expected = (
            f"{setting('mechanism')} {_name(mechanism)!r} must turn a data set into an output"
        )
        if not self.reference_run:
            return run_own(expected, mechanism, canaries.dataset(included))
        if canaries.left_out is not None:
            raise InputError(
                argument="reference_run",
                expected="False for canaries that replace a record",
                got="True: there is no run without them",
                hint="Leave it out.",
            )
        output = run_own(expected, mechanism, canaries.dataset(included))
        nobody = run_own(expected, mechanism, canaries.dataset(np.zeros_like(included)))
        some, none = (as_numbers(each, what="a reference run") for each in (output, nobody))
        if some.shape != none.shape:
            raise InputError(
                "a reference run needs outputs of one shape, with canaries and without, got "
                f"{some.shape} and {none.shape}."
            )
        base = 0.0 if canaries.base is None else canaries.base[0].sum(axis=0)
        # Scores take the other data off themselves; they stand in neither difference.
        return some - none + base

    def _notes(self, bound: OneRunBound, canaries: Canaries, delta: float) -> Iterator[Note]:
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
        if bound.method == "pure" and (delta > 0.0 or _leaks_as(self.mechanism, "gaussian")):
            yield Note(
                "pure-bound",
                "Gaussian noise keeps no finite ε at δ = 0, so that a pure bound says nothing about "
                "a claim with δ > 0. Use the method approximate or f-dp.",
            )
        if bound.method in GAUSSIAN_METHODS and not _leaks_as(self.mechanism, "gaussian"):
            yield Note(
                "gaussian-assumed",
                "The bound is about mechanisms that leak as Gaussian noise does. Nothing here checks "
                "that this one does.",
            )
        if bound.method == "independent-gdp" and _overlap(canaries) > 1e-6:
            yield Note(
                "overlapping-canaries",
                "The canaries overlap, so that they are not independent, as the method assumes. Use "
                "one-hot directions.",
            )


def _name(mechanism: object) -> str:
    if isinstance(mechanism, Mechanism):
        return mechanism.name
    name = str(getattr(mechanism, "__name__", type(mechanism).__name__))
    return "a function without a name" if name == "<lambda>" else name


def _leaks_as(mechanism: object, leakage: str) -> bool:
    return isinstance(mechanism, Mechanism) and mechanism.leakage == leakage


def _overlap(canaries: Canaries) -> float:
    """Return the largest cosine between the first canaries, a few hundred at most."""
    if canaries.vectors.ndim != 2 or canaries.left_out is not None:
        return 0.0
    some = canaries.vectors[:200].astype(np.float64)
    some /= np.maximum(np.linalg.norm(some, axis=1), 1e-300)[:, None]
    cosines = np.abs(some @ some.T)
    np.fill_diagonal(cosines, 0.0)
    return float(cosines.max())


def _as_scores(given: object, canaries: Canaries) -> FloatArray:
    expected = f"{setting('score')} must return one number per canary ({canaries.n_canaries})"
    require_unmasked(given, "score")
    try:
        scores = np.asarray(given)
        if scores.dtype.kind not in "biuf":
            raise TypeError  # text, complex numbers, objects
    except (TypeError, ValueError):
        raise InputTypeError(f"{expected}, got {type(given).__name__} of another kind.") from None
    has_nan = bool(np.isnan(scores).any())
    if scores.shape != (canaries.n_canaries,) or has_nan:
        raise InputError(f"{expected}, got shape {scores.shape}{' with NaN' if has_nan else ''}.")
    return np.asarray(scores, dtype=np.float64)
