# SPDX-License-Identifier: Apache-2.0
"""The audit itself: coins, one run, scores, a bound, and what it says about a claim."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_count
from epsilens.audit.bound import (
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
from epsilens.audit.residuals import residual_bound
from epsilens.audit.result import (
    GAUSSIAN_ASSUMED,
    PURE_BOUND,
    AuditResult,
    checked_claim,
    judge,
    notes_of_bound,
)
from epsilens.audit.scores import LinearMMSE, Loss, Score
from epsilens.errors import InputError, InputTypeError, setting
from epsilens.notes import Note


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
    method : {"pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"}, optional
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
        return self.run_parts(random_state=random_state)

    def run_parts(
        self, n_parts: int = 1, runs_each: int = 1, *, random_state: int | None = None
    ) -> AuditResult:
        """Run the mechanism several times, with new coins each time, for one bound.

        Parameters
        ----------
        n_parts : int, at least 1
            Bounds of which the smallest counts. Each errs with probability α^(1/n_parts), α being the error
            that the confidence allows. A large δ needs several: a mechanism that publishes everything with
            probability δ keeps (0, δ), so that one run never shows more than a confidence of 1 − δ.
        runs_each : int, at least 1
            Runs whose canaries are judged together. Each canary is in one run only, so that all runs together
            are one mechanism with the same ε and δ. 1 for method 'residual'.
        random_state : int, optional
            As in `run`; the i-th run takes `random_state + i`.

        Returns
        -------
        AuditResult
            As from `run`.
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
        if random_state is not None:
            as_count(random_state, name="random_state", least=0)
        n_runs = as_count(n_parts, name="n_parts") * as_count(runs_each, name="runs_each")
        if test.method == "residual" and runs_each > 1:
            raise InputError(
                argument="runs_each", expected="1 for method 'residual'", got=str(runs_each)
            )
        part = replace(test, level=test.level ** (1.0 / n_parts))
        parts, canaries = [], None
        for first in range(0, n_runs, runs_each):
            observed = []
            for index in range(first, first + runs_each):
                seed = None if random_state is None else random_state + index
                canaries = self._make_canaries(own_stream(seed, purpose="canaries"))
                observed.append(self._observe(test, canaries, seed))
            parts.append(_bound_of(part, observed))
        smallest = min(parts, key=lambda bound: bound.epsilon_lower_bound)
        notes = () if canaries is None else tuple(self._notes(smallest, canaries, delta or 0.0))
        bound = smallest
        if n_runs > 1:
            bound = replace(
                smallest,
                confidence=1.0 - test.level,
                conditions=[*smallest.conditions, _of_runs(n_parts, runs_each)],
            )
        truth = None
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
            notes=notes,
            seed=random_state,
            seconds=time.perf_counter() - started,
        )

    def _observe(self, test: BoundTest, canaries: Canaries, seed: int | None) -> _Run:
        """Toss the coins, run the mechanism once and score the canaries."""
        own = self.mechanism if isinstance(self.mechanism, Mechanism) else None
        mechanism: Mechanism | BareCallable = self.mechanism
        if seed is not None and isinstance(mechanism, Simulated):
            mechanism = mechanism.with_noise_from(own_stream(seed, purpose="noise"))
        score = self.score
        if score is None and own is not None:
            score = own.score()
        elif score is None:
            score = Loss() if len(canaries.records) == 2 else LinearMMSE()
        # Nothing below that makes scores is given `included`.
        included = draw_inclusion(canaries.n_canaries, seed)
        output = self._run_once(mechanism, canaries, included)
        if test.method == "residual":
            return _Run(canaries, included, output, None)
        given = run_own(
            f"{setting('score')} must give every canary a number", score, output, canaries
        )
        return _Run(canaries, included, output, _as_scores(given, canaries))

    def _claim(self) -> tuple[float | None, float | None]:
        own = self.mechanism if isinstance(self.mechanism, Mechanism) else None
        epsilon, delta = self.claimed_epsilon, self.claimed_delta
        if epsilon is None and own is not None:
            epsilon = own.claimed_epsilon
        if delta is None and own is not None:
            delta = own.claimed_delta
        return checked_claim(epsilon, delta)

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
        yield from notes_of_bound(bound, delta=delta)
        if bound.method == "pure" and delta == 0.0 and _leaks_as(self.mechanism, "gaussian"):
            yield PURE_BOUND
        if bound.method in ("f-dp", "independent-gdp") and not _leaks_as(
            self.mechanism, "gaussian"
        ):
            yield GAUSSIAN_ASSUMED
        if bound.method == "independent-gdp" and _overlap(canaries) > 1e-6:
            yield Note(
                "overlapping-canaries",
                "The canaries overlap, so that they are not independent, as the method assumes. Use "
                "one-hot directions.",
            )


@dataclass(frozen=True, eq=False)
class _Run:
    """One run: the coins, the output and, unless the method looks at the output, the scores."""

    canaries: Canaries
    included: BoolArray
    output: object
    scores: FloatArray | None


def _bound_of(test: BoundTest, runs: list[_Run]) -> OneRunBound:
    """Return the bound that all canaries of some runs give together."""
    scores = [run.scores for run in runs if run.scores is not None]
    if not scores:
        run = runs[0]
        return residual_bound(
            run.output, run.canaries, run.included, delta=test.delta, level=test.level
        )
    return test.bound(np.concatenate([run.included for run in runs]), np.concatenate(scores))


def _of_runs(n_parts: int, runs_each: int) -> str:
    """Return in words what several runs rest on.

    Examples
    --------
    >>> _of_runs(2, 1)
    '2 runs with fresh noise in each, and the smaller of 2 bounds'
    """
    of = (
        ""
        if n_parts == 1
        else f", and the small{'er' if n_parts == 2 else 'est'} of {n_parts} bounds"
    )
    return f"{n_parts * runs_each} runs with fresh noise in each{of}"


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
