# SPDX-License-Identifier: Apache-2.0
"""From inclusion and scores to a lower bound on ε, by any method and any choice of guesses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_choice, as_count, as_delta, as_finite, as_share
from epsilens.audit.coins import HALF_BY_CHANCE, is_exactly_half, own_stream, require_fair_coins
from epsilens.audit.gaussian import gaussian_epsilon
from epsilens.audit.inputs import Guesses, coins_and_scores, make_guesses
from epsilens.audit.normal_scores import normal_mu_bound
from epsilens.audit.path import first_level, path_bound
from epsilens.audit.pure import (
    approximate_bound,
    f_dp_mu_bound,
    independent_gdp_mu_bound,
    pure_bounds,
    pure_p_value,
)
from epsilens.audit.weighted import weighted_bound
from epsilens.errors import InputError, InputTypeError, setting

# --- How many guesses to make: the choice that turns a bound into no bound when it is made freely ---


@dataclass(frozen=True)
class GeometricCounts:
    """Numbers of guesses that grow by a constant factor.

    Parameters
    ----------
    n_counts : int, at least 1
        How many numbers of guesses.
    smallest, largest : float in (0, 0.5]
        Fewest and most guesses on each side as a share of the canaries.
    """

    n_counts: int
    smallest: float = 0.01
    largest: float = 0.5

    def __post_init__(self) -> None:
        as_count(self.n_counts, name="n_counts")
        if not 0.0 < self.smallest <= self.largest <= 0.5:
            raise InputError(
                "`smallest` and `largest` must be shares of the canaries with 0 < smallest <= largest "
                f"<= 0.5, got {self.smallest!r} and {self.largest!r}."
            )

    def counts(self, n_canaries: int) -> NDArray[np.int64]:
        """Return the numbers of guesses on each side that are tried."""
        most = max(round(self.largest * n_canaries), 1)
        least = min(max(round(self.smallest * n_canaries), 1), most)
        grid = np.round(np.geomspace(least, most, self.n_counts)).astype(np.int64)
        return np.unique(np.minimum(grid, max(n_canaries // 2, 1)))


@dataclass(frozen=True)
class Fixed:
    """So many guesses on each side, chosen before the scores were seen.

    Parameters
    ----------
    n_each_side : int, at least 1
        Guesses "in" and as many "out"; all other canaries are left without a guess.

    Examples
    --------
    >>> Fixed(100).name
    '100'
    """

    n_each_side: int

    def __post_init__(self) -> None:
        as_count(self.n_each_side, name="n_each_side")

    @property
    def name(self) -> str:
        """The word for it on the command line and in a document."""
        return str(self.n_each_side)


@dataclass(frozen=True)
class Bonferroni(GeometricCounts):
    """Several numbers of guesses, each tested at its share of the error.

    Parameters
    ----------
    n_counts : int, at least 1
        How many numbers of guesses are tried.
    smallest, largest : float in (0, 0.5]
        Fewest and most guesses on each side as a share of the canaries; in between the numbers
        grow by a constant factor.

    Examples
    --------
    >>> Bonferroni(n_counts=4).counts(1000).tolist()
    [10, 37, 136, 500]
    """

    name: ClassVar[str] = "bonferroni"
    """The word for it on the command line and in a document."""

    n_counts: int = 12


@dataclass(frozen=True)
class Path(GeometricCounts):
    """Many numbers of guesses as points of one path, corrected together and exactly.

    Gives away much less than `Bonferroni`. For pure and approximate bounds;
    `docs/one-run-audit.md` has the proof.

    Parameters
    ----------
    n_counts : int, at least 1
        At how many numbers of guesses the path is looked at.
    smallest, largest : float in (0, 0.5]
        Fewest and most guesses on each side as a share of the canaries; in between the numbers
        grow by a constant factor.

    Examples
    --------
    >>> Path(n_counts=4).counts(100).tolist()
    [1, 4, 14, 50]
    """

    name: ClassVar[str] = "path"
    """The word for it on the command line and in a document."""

    n_counts: int = 25


@dataclass(frozen=True)
class Split:
    """The number of guesses is chosen on one part of the canaries and tested on the other.

    Parameters
    ----------
    fraction : float in (0, 1)
        Share of the canaries on which it is chosen.
    seed : int
        Which canaries those are: fixed beforehand.

    Examples
    --------
    >>> Split(fraction=0.3).name
    'split'
    """

    name: ClassVar[str] = "split"
    """The word for it on the command line and in a document."""

    fraction: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        as_share(self.fraction, name="fraction")
        as_count(self.seed, name="seed", least=0)


@dataclass(frozen=True)
class AsPrinted:
    """The best of all numbers of guesses, uncorrected, as P3 prints it: not a confidence bound.

    On mechanisms with a known ε it lies above it in about every third audit.

    Parameters
    ----------
    most : int, at least 1
        The largest number of guesses on each side that is tried; P3 has 500.

    Examples
    --------
    >>> AsPrinted().counts(64).size
    32
    """

    name: ClassVar[str] = "as_printed"
    """The word for it on the command line and in a document."""

    most: int = 500

    def __post_init__(self) -> None:
        as_count(self.most, name="most")

    def counts(self, n_canaries: int) -> NDArray[np.int64]:
        """Return the numbers of guesses on each side that are tried."""
        return np.arange(1, min(n_canaries // 2, self.most) + 1)


@dataclass(frozen=True)
class Weighted:
    """All guesses in one sum, those that are surer with more weight: no number of guesses is chosen.

    For pure and approximate bounds, and valid for every mechanism. Strongest where scores look like those of
    normal noise; for answers that are all equally sure `Path` is stronger.

    Examples
    --------
    >>> Weighted().name
    'weighted'
    """

    name: ClassVar[str] = "weighted"
    """The word for it on the command line and in a document."""


Selection: TypeAlias = Fixed | Bonferroni | Path | Split | AsPrinted | Weighted

_BY_NAME: dict[str, Selection] = {
    "path": Path(),
    "bonferroni": Bonferroni(),
    "split": Split(),
    "as_printed": AsPrinted(),
    "weighted": Weighted(),
}


def as_selection(value: object) -> Selection:
    """Return a strategy from its name, from a number of guesses on each side, or as it is.

    Parameters
    ----------
    value : {"path", "bonferroni", "split", "as_printed", "weighted"}, int or strategy
        An int fixes the guesses on each side beforehand.

    Returns
    -------
    Selection
        A frozen strategy.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> as_selection(100)
    Fixed(n_each_side=100)
    >>> as_selection("split")
    Split(fraction=0.5, seed=0)
    """
    if isinstance(value, Fixed | Bonferroni | Path | Split | AsPrinted | Weighted):
        return value
    if isinstance(value, str):
        return _BY_NAME[as_choice(value, tuple(_BY_NAME), name="selection")]
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Fixed(as_count(int(value), name="selection"))
    raise InputTypeError(
        argument="selection",
        expected="a name, a whole number of guesses on each side, or a strategy such as Bonferroni()",
        got=type(value).__name__,
    )


# --- From inclusion and scores to a lower bound on ε, by any method and any choice of guesses ---

Method: TypeAlias = Literal[
    "pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"
]

METHODS: tuple[Method, ...] = get_args(Method)

ASSUMPTIONS: dict[Method, tuple[str, ...]] = {
    "pure": ("pure differential privacy",),
    "approximate": ("(epsilon, delta)-differential privacy",),
    "f-dp": ("gaussian trade-off",),
    "independent-gdp": ("gaussian trade-off", "independent canaries"),
    "gaussian-scores": ("normal scores", "independent scores", "one noise level"),
    "residual": ("sum of the rows as they are", "normal noise of one level"),
}

CONDITIONS = (
    "every canary was put in or left out by a fair coin of its own",
    "the scores come from the output and from randomness outside, never from the inclusion",
)
"""What every one-run bound rests on."""

GAUSSIAN_METHODS: tuple[Method, ...] = (
    "f-dp",
    "independent-gdp",
    "gaussian-scores",
    "residual",
)
"""Those about mechanisms that leak as Gaussian noise does, or that assume normal scores or noise."""
_FEW = Bonferroni(n_counts=3, smallest=1 / 12, largest=1 / 3)
_LEAST_LEVEL = 1e-9

# Solved by search, and the same for every audit with as many right guesses: a harness asks thousands
# of times.
_f_dp_mu_bound = lru_cache(maxsize=4096)(f_dp_mu_bound)
_independent_gdp_mu_bound = lru_cache(maxsize=4096)(independent_gdp_mu_bound)


@dataclass(frozen=True)
class OneRunBound:
    """What one run of a mechanism proves about its ε.

    Attributes
    ----------
    epsilon_lower_bound : float in [0, inf)
        With the stated confidence the mechanism's ε is at least this, if the assumptions hold.
    is_confidence_bound : bool
        False for `as_printed`: then the number is no bound at all.
    assumptions : list of str
        What the method takes for granted about the mechanism, and, if exactly half of the canaries
        were in, that this was chance.
    confidence : float in (0, 1)
        How often such a bound is right.
    delta : float in [0, 1)
        The δ at which ε is meant.
    method : {"pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"}
        Which theorem it rests on.
    selection : str
        How the number of guesses was chosen.
    n_canaries, n_guesses, n_correct : int
        Canaries, guesses and right guesses where the bound was found.
    conditions : list of str
        What every one-run bound rests on; and, where δ is so large that small levels cannot be tested,
        at which level the search for the bound started.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(1000) < 0.5
    >>> one_run_bound(included, included + rng.normal(0, 0.5, 1000)).is_confidence_bound
    True
    """

    epsilon_lower_bound: float
    is_confidence_bound: bool
    assumptions: list[str]
    confidence: float
    delta: float
    method: Method
    selection: str
    n_canaries: int
    n_guesses: int
    n_correct: int
    conditions: list[str] = field(default_factory=lambda: list(CONDITIONS), repr=False)


def one_run_bound(
    included: ArrayLike,
    scores: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    method: Method | None = None,
    selection: str | int | Selection | None = None,
) -> OneRunBound:
    """Prove how much a mechanism leaks at least, from one run with canaries in it.

    Canaries are records made for the purpose. Each was put among the data or left out by the toss
    of a coin; the mechanism ran once; and somebody who saw only its output gave every canary a
    score, high where it seems to be in. The better the scores tell who was in, the more the
    mechanism leaks. This returns a number that is below the mechanism's true ε in at least 95 of
    100 audits.

    Parameters
    ----------
    included : array of bool, or of 0 and 1, (m,)
        Which canaries were in: by independent fair coins, not by a fixed number.
    scores : array of float, (m,)
        High where the canary seems to be in. Computed without looking at `included`.
    delta : float in [0, 1)
        The δ at which ε is meant. 0 for pure differential privacy.
    confidence : float in [1e-9, 1 - 1e-9]
        How often the bound must be right.
    method : {"pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"}, optional
        The theorem. By default "pure" if `delta` is 0 and "approximate" otherwise. "pure" is for
        `delta` 0 only. "f-dp" holds for mechanisms that leak as Gaussian noise does;
        "independent-gdp" only if every canary also has noise of its own. "gaussian-scores" takes the scores
        to be normal, makes no guesses, and is refused where they are seen not to be. "residual" looks at the
        noise of a noisy sum and needs its output: see `OneRunAudit`. All four need `delta` > 0.
    selection : {"path", "bonferroni", "split", "as_printed", "weighted"}, int or strategy, optional
        How many guesses are made, or "weighted": all of them, the surer ones with more weight. An int fixes the guesses on each side beforehand. By default
        "path" for pure and approximate bounds, three counts by `Bonferroni` for "f-dp", and a
        quarter of the canaries on each side for "independent-gdp".

    Returns
    -------
    OneRunBound
        The bound, whether it is one, and what it assumes.

    Raises
    ------
    InputError
        If the inputs do not fit each other, or the inclusion cannot come from fair coins.

    Warns
    -----
    ApproximationWarning
        If exactly half of 20 canaries or more were in. Fair coins do that now and then; a design
        that fixes the number breaks the theory. `assumptions` says so for every number.

    Notes
    -----
    Assumptions: those in `conditions` and `assumptions` of the result. Neighbouring data sets
    differ by one canary, put in or left out (or replaced, if that is what the coin decided).

    References
    ----------
    .. [1] Steinke, T., Nasr, M. and Jagielski, M. (2023). Privacy auditing with one (1) training
       run. NeurIPS 36. arXiv:2305.08846.
    .. [2] Mahloujifar, S., Melis, L. and Chaudhuri, K. (2024). Auditing f-differential privacy in
       one run. arXiv:2410.22235.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(1000) < 0.5
    >>> scores = included + rng.normal(0, 0.5, 1000)       # Gaussian noise with mu = 2
    >>> result = one_run_bound(included, scores, delta=1e-6)
    >>> result.method, result.selection, round(result.epsilon_lower_bound, 1)
    ('approximate', 'path', 3.9)
    """
    coins, values = coins_and_scores(included, scores)
    test = BoundTest.checked(delta, confidence, method, selection)
    if test.method == "pure" and delta > 0.0:
        raise InputError(
            argument="delta",
            expected="0 for method 'pure'",
            got=f"{float(delta)!r}: a pure bound says nothing at a delta above 0",
            hint="Use method 'approximate'.",
        )
    require_fair_coins(coins)
    found = test.bound(coins, values)
    if is_exactly_half(coins):
        # Nothing here can tell a number that was fixed from one that fell so.
        found = replace(found, assumptions=[*found.assumptions, HALF_BY_CHANCE])
    return found


@dataclass(frozen=True)
class BoundTest:
    """How scores that are known to be in order are turned into a bound: the core of `one_run_bound`.

    Parameters
    ----------
    delta : float in [0, 1)
        The δ of the claim.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.
    method : {"pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"}
        The theorem.
    selection : Selection, optional
        How many guesses are made; None: as it suits the method.

    Examples
    --------
    >>> import numpy as np
    >>> included = np.arange(100) % 2 == 0
    >>> found = BoundTest(0.0, 0.05, "pure", Fixed(50)).bound(included, included * 1.0)
    >>> round(found.epsilon_lower_bound, 3)
    3.493
    """

    delta: float
    level: float
    method: Method
    selection: Selection | None = None

    @classmethod
    def checked(
        cls,
        delta: float,
        confidence: float,
        method: Method | None,
        selection: str | int | Selection | None,
    ) -> BoundTest:
        """Return the test that was asked for; refuse what cannot be."""
        level, way = checked_level(confidence), checked_method(method, delta)
        if way in ("gaussian-scores", "residual") and selection is not None:
            raise InputError(
                argument="selection",
                expected=f"nothing for method {way!r}, which makes no guesses",
                got=repr(selection),
                hint="Leave it out.",
            )
        return cls(delta, level, way, None if selection is None else as_selection(selection))

    def bound(self, included: BoolArray, scores: FloatArray) -> OneRunBound:
        """Return the bound, from which canaries (m,) were in, and scores (m,) that are high for those."""
        if self.method == "residual":
            raise InputError(
                argument="method",
                expected="a method for scores",
                got="'residual', which needs the output of the mechanism",
                hint="Use OneRunAudit.",
            )
        if self.method == "gaussian-scores":
            return self._of_normal_scores(included, scores)
        selection = self.selection or self._default(scores.size)
        if isinstance(selection, Split):
            return self._split(included, scores, selection)
        guesses = make_guesses(included, scores)
        n_canaries = guesses.n_canaries
        if isinstance(selection, Path | Weighted) and self.method in GAUSSIAN_METHODS:
            raise InputError(
                argument="selection",
                expected=f"'bonferroni', 'split' or a number of guesses for method {self.method!r}",
                got=f"{selection.name!r}, which is proved for pure and approximate bounds only",
            )
        if isinstance(selection, Weighted):
            count = guesses.most_each_side
            epsilon = weighted_bound(
                guesses.right, n_canaries=n_canaries, delta=self.delta, level=self.level
            )
        elif isinstance(selection, Path):
            epsilon, count = self._along_the_path(guesses, selection)
        elif isinstance(selection, Fixed):
            count = selection.n_each_side
            if count > guesses.most_each_side:
                raise InputError(
                    argument="selection",
                    expected=f"at most half of the {n_canaries} canaries on each side",
                    got=str(count),
                    hint=f"Use {guesses.most_each_side} or fewer.",
                )
            epsilon = self._at_count(guesses, count, self.level)
        else:
            counts = selection.counts(n_canaries)
            each = self.level / (counts.size if isinstance(selection, Bonferroni) else 1)
            epsilon, count = self._best(guesses, counts, each)
        late = started_late(self.method, selection, n_canaries, self.delta, self.level)
        return OneRunBound(
            epsilon_lower_bound=epsilon,
            is_confidence_bound=not isinstance(selection, AsPrinted),
            assumptions=list(ASSUMPTIONS[self.method]),
            confidence=1.0 - self.level,
            delta=0.0 if self.method == "pure" else self.delta,
            method=self.method,
            selection=selection.name,
            n_canaries=n_canaries,
            n_guesses=2 * count,
            n_correct=int(guesses.n_correct(np.array([count]))[0]),
            conditions=[*CONDITIONS, *late],
        )

    def _of_normal_scores(self, included: BoolArray, scores: FloatArray) -> OneRunBound:
        mu = normal_mu_bound(included, scores, level=self.level)
        middle = 0.5 * (scores[included].mean() + scores[~included].mean())
        return OneRunBound(
            epsilon_lower_bound=gaussian_epsilon(mu, self.delta),
            is_confidence_bound=True,
            assumptions=list(ASSUMPTIONS[self.method]),
            confidence=1.0 - self.level,
            delta=self.delta,
            method=self.method,
            selection="all scores",
            n_canaries=scores.size,
            n_guesses=scores.size,
            n_correct=int(((scores > middle) == included).sum()),
        )

    def _default(self, n_canaries: int) -> Selection:
        """Return the choice of guesses that suits the method."""
        if self.method == "f-dp":
            return _FEW
        return Fixed(max(n_canaries // 4, 1)) if self.method == "independent-gdp" else Path()

    def _at_count(self, guesses: Guesses, count: int, level: float) -> float:
        """Return the bound of one number of guesses on each side, by itself."""
        right = int(guesses.n_correct(np.array([count]))[0])
        m = guesses.n_canaries
        if self.method == "pure":
            return float(pure_bounds(right, 2 * count, level=level))
        if self.method == "approximate":
            return approximate_bound(right, 2 * count, n_canaries=m, delta=self.delta, level=level)
        if self.method == "f-dp":
            mu = _f_dp_mu_bound(right, 2 * count, n_canaries=m, level=level)
        else:
            mu = _independent_gdp_mu_bound(right, count, n_canaries=m, level=level)
        return gaussian_epsilon(mu, self.delta)

    def _best(self, guesses: Guesses, counts: NDArray[np.int64], level: float) -> tuple[float, int]:
        """Return the largest bound over several counts, each at this level, and its count."""
        if self.method == "pure":
            bounds = pure_bounds(guesses.n_correct(counts), 2 * counts, level=level)
        else:
            bounds = np.array([self._at_count(guesses, n, level) for n in counts.tolist()])
        best = int(np.argmax(bounds))
        return float(bounds[best]), int(counts[best])

    def _along_the_path(self, guesses: Guesses, selection: Path) -> tuple[float, int]:
        counts = selection.counts(guesses.n_canaries)
        right = guesses.n_correct(counts)
        epsilon = path_bound(
            2 * counts,
            right,
            n_canaries=guesses.n_canaries,
            delta=0.0 if self.method == "pure" else self.delta,
            level=self.level,
        )
        # The path's statistic is its smallest p-value: that of this look, where the bound was found.
        best = int(np.argmin(pure_p_value(right, 2 * counts, epsilon)))
        return epsilon, int(counts[best])

    def _split(self, included: BoolArray, scores: FloatArray, selection: Split) -> OneRunBound:
        """Choose the count on some of the canaries, test it on the others."""
        generator = own_stream(selection.seed, purpose="parts")
        chosen = generator.random(scores.size) < selection.fraction
        n_choosing = int(chosen.sum())
        n_testing = scores.size - n_choosing
        if min(n_choosing, n_testing) < 2:
            raise InputError(
                f"{setting('selection')} 'split' needs canaries in both parts, got {scores.size} "
                "canaries. Use more of them."
            )
        tried = _FEW if self.method in GAUSSIAN_METHODS else Bonferroni()
        first = make_guesses(included[chosen], scores[chosen])
        _, count = self._best(first, tried.counts(n_choosing), self.level)
        scaled = min(max(round(count * n_testing / n_choosing), 1), n_testing // 2)
        found = replace(self, selection=Fixed(scaled)).bound(included[~chosen], scores[~chosen])
        return replace(found, selection=selection.name, n_canaries=scores.size)


def started_late(
    method: Method, selection: Selection, n_canaries: int, delta: float, level: float
) -> list[str]:
    """Return in words where a search along the path starts, if that is not at ε = 0.

    Examples
    --------
    >>> started_late("approximate", Path(), 1000, 1e-6, 0.05)
    []
    >>> started_late("approximate", Path(), 1000, 1e-6, 1e-4)
    ['the search for the bound starts at ε = 2.31, which canaries, δ and confidence fix beforehand']
    """
    if method != "approximate" or not isinstance(selection, Path | Weighted):
        return []
    first = first_level(n_canaries, delta=delta, level=level)
    if first == 0.0:
        return []
    if math.isinf(first):
        return ["no level of ε can be tested with so many canaries at this δ and confidence"]
    return [
        f"the search for the bound starts at ε = {first:.3g}, which canaries, δ and confidence fix "
        "beforehand"
    ]


def checked_level(confidence: float) -> float:
    """Return the error that a confidence allows; refuse what double precision cannot keep.

    Examples
    --------
    >>> round(checked_level(0.95), 12)
    0.05
    """
    given = as_finite(confidence, name="confidence")
    if not _LEAST_LEVEL <= given <= 1.0 - _LEAST_LEVEL:
        raise InputError(
            f"{setting('confidence')} must lie between 0 and 1, and at least 1e-09 away from "
            f"both, got {given!r}: double precision keeps no more. Use for instance 0.95."
        )
    return 1.0 - given


def checked_method(method: Method | None, delta: float) -> Method:
    """Return the method that was asked for, or the one that suits δ; refuse what cannot be.

    Examples
    --------
    >>> checked_method(None, 0.0), checked_method(None, 1e-6)
    ('pure', 'approximate')
    """
    as_delta(delta)
    if method is None:
        return "pure" if delta == 0.0 else "approximate"
    as_choice(method, METHODS, name="method")
    if method in GAUSSIAN_METHODS and delta == 0.0:
        raise InputError(
            argument="delta",
            expected=f"greater than 0 for method {method!r}",
            got="0: Gaussian noise keeps no finite epsilon at delta 0",
            hint="Use delta=1e-6, or method 'pure'.",
        )
    return method
