# SPDX-License-Identifier: Apache-2.0
"""What the attack proves: a lower bound on ε from guesses of who was in, chosen on other models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.audit.path import path_bound
from epsilens.audit.pure import approximate_bound, pure_bounds, pure_p_value
from epsilens.risk.logits import Moments, around_mean, column_blocks

Kind: TypeAlias = Literal["equal spreads", "own spreads"]

_PRIOR_MODELS = 4.0
"""So many models' weight has the usual spread beside a sample's own."""
_FEWEST_IN_A_QUARTER = 4
"""With fewer models in a quarter nothing can be tried out; the choice is fixed then."""
_FEWEST_GUESSES = 8
_CAUTION = 1e-3
"""The choice is made at this share of the error: the best of some hundred trials is lucky, and few
guesses are luckier."""
_TIES = 20220523
"""Seed of the order among equal scores; it must not come from the order of models or samples."""
_LARGEST_EPSILON = 30.0


@dataclass(frozen=True)
class ProvenEpsilon:
    """What a membership attack proves about the ε of the training.

    Attributes
    ----------
    epsilon_lower_bound : float in [0, inf)
        With the stated confidence the training's ε is at least this, at `delta`.
    delta : float in [0, 1)
        The δ at which ε is meant.
    confidence : float in (0, 1)
        Confidence level of the bound.
    n_samples : int
        Most exposed samples that were guessed about, in the direction that gave the bound.
    n_models : int
        Models that were guessed about.
    n_guesses, n_correct : int
        Guesses, and how many of them were right; the other pairs were left without a guess.
    """

    epsilon_lower_bound: float
    delta: float
    confidence: float
    n_samples: int
    n_models: int
    n_guesses: int
    n_correct: int


@dataclass(frozen=True)
class GuessRule:
    """Log-likelihood ratio of "in" against "out" for every sample, from one group of models.

    Attributes
    ----------
    mean_in, mean_out, variance_in, variance_out : array of float64, (n_samples,)
        Moments of the scores less the sample's smallest one, drawn towards what all samples have in common.
    exposure : array of float64, (n_samples,)
        Distance of the means in units of the spread; −1 where a side has no model.
    order : array of int, (n_samples,)
        The samples, the most exposed first.
    """

    mean_in: FloatArray
    mean_out: FloatArray
    variance_in: FloatArray
    variance_out: FloatArray
    exposure: FloatArray
    order: NDArray[np.int64]

    def log_ratio(
        self,
        scores: NDArray[np.floating],
        lowest: FloatArray,
        columns: NDArray[np.int64],
    ) -> SingleArray:
        """Return the log-likelihood ratios of some samples, one row per sample."""
        found = np.empty((columns.size, scores.shape[0]), dtype=np.float32)
        for block in column_blocks(scores.shape[0], columns.size):
            some = columns[block]
            above = (scores[:, some] - lowest[some]).T
            spread_in, spread_out = self.variance_in[some, None], self.variance_out[some, None]
            ratio = np.square(above - self.mean_out[some, None]) / spread_out
            ratio -= np.square(above - self.mean_in[some, None]) / spread_in
            ratio += np.log(spread_out / spread_in)
            ratio *= 0.5
            ratio[self.exposure[some] < 0.0] = 0.0
            np.clip(ratio, -1e30, 1e30, out=ratio)
            found[block] = ratio
        return found


def drawn_to_their_mean(values: FloatArray, noise: FloatArray) -> tuple[float, FloatArray, float]:
    """Draw noisy values towards their mean by the share of their variance that is noise.

    Parameters
    ----------
    values, noise : array of float64
        Values and the variances of their errors.

    Returns
    -------
    mean, drawn, between : float, array of float64, float
        Common mean, the values drawn towards it, and the variance of the values without their errors
        (DerSimonian and Laird's moment estimate).

    Examples
    --------
    >>> import numpy as np
    >>> mean, drawn, between = drawn_to_their_mean(np.array([-1.0, 0.0, 4.0]), np.ones(3))
    >>> round(mean, 2), drawn.round(2).tolist(), round(between, 2)
    (1.0, [-0.71, 0.14, 3.57], 6.0)
    """
    weights = 1.0 / noise
    weight = weights.sum()
    mean = float((weights * values).sum() / weight)
    excess = (weights * np.square(values - mean)).sum() - (weights.size - 1)
    between = float(max(excess, 0.0) / (weight - np.square(weights).sum() / weight))
    return mean, mean + (values - mean) * between / (between + noise), between


def guess_rule(moments: Moments, kind: Kind) -> GuessRule:
    """Return how to guess membership, learnt from one group of models.

    Parameters
    ----------
    moments : Moments
        Moments of the models that may be looked at.
    kind : {"equal spreads", "own spreads"}
        Whether scores spread alike in and out.

    Returns
    -------
    GuessRule
        Normal distributions in and out.

    Notes
    -----
    Few models stand behind each mean. Standardised differences of the means are therefore drawn
    towards their common mean by the share of their variance that is noise (DerSimonian and Laird's
    moment estimate), and variances towards their median with the weight of four models. It makes
    better guesses; the bound holds for any guesses.
    """
    n_in, sum_in, around_in = around_mean(moments[0])
    n_out, sum_out, around_out = around_mean(moments[1])
    both = (n_in >= 1.0) & (n_out >= 1.0)
    freedom = np.maximum(n_in - 1.0, 0.0) + np.maximum(n_out - 1.0, 0.0)
    # The median variance of the samples; the mean if most never move, 1 if none does.
    around, common = around_in + around_out, 1.0
    moves = freedom > 0.0
    if moves.any():
        middle = float(np.median(around[moves] / freedom[moves]))
        mean = float(around[moves].sum() / freedom[moves].sum())
        common = middle if middle > 0.0 else mean if mean > 0.0 else 1.0
    variance = (around + _PRIOR_MODELS * common) / (freedom + _PRIOR_MODELS)
    spread = np.sqrt(variance)
    mean_in = sum_in / np.maximum(n_in, 1.0)
    mean_out = sum_out / np.maximum(n_out, 1.0)
    noise = 1.0 / np.maximum(n_in, 1.0) + 1.0 / np.maximum(n_out, 1.0)
    differences = np.where(both, (mean_in - mean_out) / spread, 0.0)
    if both.sum() >= 3:
        _, differences[both], _ = drawn_to_their_mean(differences[both], noise[both])
    apart = differences * spread
    total = np.maximum(n_in + n_out, 1.0)
    centre = (sum_in + sum_out + 0.5 * apart * (n_out - n_in)) / total
    variance_in = variance_out = variance
    if kind == "own spreads":
        variance_in = (around_in + _PRIOR_MODELS * variance) / (
            np.maximum(n_in - 1.0, 0.0) + _PRIOR_MODELS
        )
        variance_out = (around_out + _PRIOR_MODELS * variance) / (
            np.maximum(n_out - 1.0, 0.0) + _PRIOR_MODELS
        )
    exposure = np.where(both, np.abs(apart) / spread, -1.0)
    return GuessRule(
        mean_in=centre + 0.5 * apart,
        mean_out=centre - 0.5 * apart,
        variance_in=variance_in,
        variance_out=variance_out,
        exposure=exposure,
        order=np.argsort(-exposure, kind="stable"),
    )


def proven_epsilon(
    scores: NDArray[np.floating],
    membership: BoolArray,
    *,
    lowest: FloatArray,
    quarters: FloatArray,
    delta: float,
    confidence: float,
) -> ProvenEpsilon:
    """Return the lower bound on the training's ε that the attack proves.

    Guesses are made only where the attack is sure of itself. Which records, how many guesses and
    by which rule is decided on one half of the models; the guesses are about the other half.

    Parameters
    ----------
    scores : array of float, (n_models, n_samples)
        Scores of the attack.
    membership : array of bool, (n_models, n_samples)
        Which model saw which sample, by independent fair coins.
    lowest : array of float64, (n_samples,)
        Smallest score of each sample.
    quarters : four Moments in one array
        Sums of every fourth model.
    delta : float in [0, 1)
        The δ at which ε is meant.
    confidence : float in (0, 1)
        How often the bound must be right.

    Returns
    -------
    ProvenEpsilon
        The larger of the bounds of the two directions.

    Notes
    -----
    *One mechanism.* M trainings with randomness of their own are, taken together, one mechanism
    whose input are M·N bits: whether sample j is in training i. Each bit enters one training only.
    If a training is (ε, δ)-differentially private with respect to adding or removing one record,
    the whole is (ε, δ)-private in each bit. The bits are independent fair coins. That is all that
    Steinke et al. (2023) [1]_ ask for: of r guesses at m such bits, made from the output, no more
    are right than of r tosses of a coin with probability e^ε/(1 + e^ε), up to what δ gives away.

    *What may be chosen.* Let A and B be the halves of the models. Given the bits and the output of
    A, the bits of B are still independent fair coins and B's trainings are still private in them.
    So everything learnt from A is a constant: the rule, which n samples are guessed about (the
    bits of the others are held fixed as well), and the number of guesses r. The m = n·|B| bits
    are guessed where |log-likelihood ratio| is largest, the r surest of them, equal ones by lot.
    W right guesses refute ε if their probability is below the level. The directions A → B and
    B → A have half of the error each, and the larger bound is reported.

    *How it is chosen.* Half A is itself halved. Rules learnt on one quarter are tried on the other,
    for several numbers of samples and guesses, and the choice with the largest bound there is
    taken. δ is paid for every one of the m bits, so with δ > 0 fewer samples may prove more.

    *With δ* the probability of W or more right guesses has two upper bounds: Theorem 5.2 of [1]_
    and Pr[Binomial ≥ W] + mδ/(1 + e^ε) (docs/one-run-audit.md). Both bound the probability of the
    same event, so the better one may be taken.

    References
    ----------
    .. [1] Steinke, T., Nasr, M. and Jagielski, M. (2023). Privacy auditing with one (1) training
       run. NeurIPS 36. arXiv:2305.08846.
    """
    level = (1.0 - confidence) / 2.0
    found = []
    for half in (0, 1):
        kind, n_samples, n_guesses = _choose(
            scores[half::2],
            membership[half::2],
            lowest=lowest,
            quarters=(quarters[half], quarters[half + 2]),
            n_judged=scores[1 - half :: 2].shape[0],
            delta=delta,
            level=level,
        )
        rule = guess_rule(quarters[half] + quarters[half + 2], kind)
        columns = rule.order[:n_samples]
        ratios = rule.log_ratio(scores[1 - half :: 2], lowest, columns)
        members = membership[1 - half :: 2][:, columns].T
        right = _right_among_surest(ratios.ravel(), members.ravel(), n_guesses)
        epsilon = refuted_epsilon(right, n_guesses, n_bits=ratios.size, delta=delta, level=level)
        found.append(
            ProvenEpsilon(
                epsilon_lower_bound=epsilon,
                delta=delta,
                confidence=confidence,
                n_samples=n_samples,
                n_models=ratios.shape[1],
                n_guesses=n_guesses,
                n_correct=right,
            )
        )
    return max(found, key=lambda proof: proof.epsilon_lower_bound)


def refuted_epsilon(
    n_correct: int, n_guesses: int, *, n_bits: int, delta: float, level: float
) -> float:
    """Return the largest ε that so many right guesses refute, by the better of two theorems.

    Parameters
    ----------
    n_correct, n_guesses : int
        Right guesses, and all guesses.
    n_bits : int
        All bits that could have been guessed.
    delta : float in [0, 1)
        The δ of the claim.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf)
        0 when not even perfect privacy is refuted.

    Examples
    --------
    >>> round(refuted_epsilon(95, 100, n_bits=1000, delta=0.0, level=0.05), 3)
    2.172
    >>> round(refuted_epsilon(95, 100, n_bits=1000, delta=1e-5, level=0.05), 3)
    2.169
    """
    if delta == 0.0:
        return float(pure_bounds(n_correct, n_guesses, level=level))
    if n_correct == 0:
        return 0.0
    # One look: the path's own probability is the binomial one.
    one_look = path_bound(
        np.array([n_guesses]), np.array([n_correct]), n_canaries=n_bits, delta=delta, level=level
    )
    printed = approximate_bound(n_correct, n_guesses, n_canaries=n_bits, delta=delta, level=level)
    return max(one_look, printed)


def _choose(
    scores: NDArray[np.floating],
    membership: BoolArray,
    *,
    lowest: FloatArray,
    quarters: tuple[Moments, Moments],
    n_judged: int,
    delta: float,
    level: float,
) -> tuple[Kind, int, int]:
    """Choose rule, samples and guesses by letting each quarter guess about the other."""
    n_models, n_samples = scores.shape
    if n_models < 2 * _FEWEST_IN_A_QUARTER:
        return "equal spreads", n_samples, max(n_samples * n_judged // 4, 1)
    tried = [
        (n, _geometric(min(_FEWEST_GUESSES, n * n_judged), n * n_judged, 2.0**0.5))
        for n in _geometric(1, n_samples, 3.0).tolist()
    ]
    # All are looked at together; where two prove as much, the one with fewer samples comes first.
    samples = np.concatenate([np.full(guesses.size, n) for n, guesses in tried])
    guesses = np.concatenate([guesses for _, guesses in tried])
    n_bits = samples * n_judged
    best: tuple[Kind, int, int] = ("equal spreads", n_samples, n_samples * n_judged)
    best_bound = -1.0
    for kind in get_args(Kind):
        one, other = (
            np.concatenate(
                _right_shares(
                    guess_rule(quarters[quarter], kind),
                    scores[1 - quarter :: 2],
                    membership[1 - quarter :: 2],
                    lowest,
                    [(n, few / (n * n_judged)) for n, few in tried],
                )
            )
            for quarter in (0, 1)
        )
        bounds = _expected_bounds(
            np.floor(0.5 * (one + other) * n_bits).astype(np.int64),
            guesses,
            n_bits=n_bits,
            delta=delta,
            level=level,
        )
        top = int(np.argmax(bounds))
        if bounds[top] > best_bound:
            best = kind, int(samples[top]), int(guesses[top])
            best_bound = float(bounds[top])
    return best


def _geometric(first: int, last: int, ratio: float) -> NDArray[np.int64]:
    steps = max(int(np.ceil(np.log(max(last / first, 1.0)) / np.log(ratio))), 0) + 1
    return np.unique(np.round(np.geomspace(first, last, steps)).astype(np.int64))


def _right_shares(
    rule: GuessRule,
    scores: NDArray[np.floating],
    membership: BoolArray,
    lowest: FloatArray,
    tried: list[tuple[int, FloatArray]],
) -> list[FloatArray]:
    """Return how many of all pairs are guessed rightly, for numbers of samples and of guesses.

    `tried` has numbers of samples and, for each, shares of the pairs that are guessed, the surest.
    """
    columns = rule.order
    ratios = rule.log_ratio(scores, lowest, columns)
    right = ((ratios > 0.0) == membership[:, columns].T).ravel()
    # Half precision keeps the order well enough for a choice, and sorts in linear time.
    with np.errstate(over="ignore"):
        coarse = np.abs(ratios, out=ratios).ravel().astype(np.float16).view(np.uint16)
    del ratios
    order = np.argsort(~coarse, kind="stable")
    right = right[order]
    n_models = scores.shape[0]
    found = []
    for n, shares in tried:
        among = right if n == columns.size else right[order < n * n_models]
        # One more place than guesses: none made, none right.
        running = np.concatenate([[0], np.cumsum(among, dtype=np.int32)])
        places = shares * among.size
        below = np.minimum(places.astype(np.int64), among.size)
        above = np.minimum(below + 1, among.size)
        between = running[below] + (places - below) * (running[above] - running[below])
        found.append(between / among.size)
    return found


def _expected_bounds(
    n_correct: NDArray[np.int64],
    n_guesses: NDArray[np.int64],
    *,
    n_bits: int | NDArray[np.int64],
    delta: float,
    level: float,
) -> FloatArray:
    """Return bounds that `refuted_epsilon` would about give, for many numbers of guesses at once."""
    if delta == 0.0:
        return pure_bounds(n_correct, n_guesses, level=_CAUTION * level)
    left = np.asarray(_CAUTION * (level - n_bits * delta / 2.0))
    proved = pure_bounds(n_correct, n_guesses, level=np.maximum(left, np.finfo(np.float64).tiny))
    found = np.where(left > 0.0, proved, 0.0)
    # No mean of binomial probabilities exceeds the largest one: `approximate_bound` has the
    # argument. What is left of the error falls with ε, so that halving finds where it is used up.
    low, high = np.zeros(n_correct.size), np.full(n_correct.size, _LARGEST_EPSILON)
    for _ in range(16):
        middle = 0.5 * (low + high)
        spread = n_guesses * expit(middle) * expit(-middle)
        peak = np.minimum(1.0 / np.sqrt(2.0 * np.e * spread), 1.0)
        allowed = _CAUTION * (level - 2 * n_bits * delta * peak)
        refuted = pure_p_value(n_correct, n_guesses, middle) <= allowed
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return np.maximum(found, low)


def _right_among_surest(ratios: SingleArray, members: BoolArray, n_guesses: int) -> int:
    """Count right guesses among the surest, equally sure ones taken by lot; ratios lose their sign."""
    right = (ratios > 0.0) == members
    if n_guesses >= ratios.size:
        return int(right.sum())
    sure = np.abs(ratios, out=ratios)
    place = ratios.size - n_guesses
    threshold = np.partition(sure, place)[place]
    above = sure > threshold
    equal = np.flatnonzero(sure == threshold)
    missing = n_guesses - int(above.sum())
    drawn = np.random.default_rng(_TIES).permutation(equal.size)[:missing]
    return int(right[above].sum() + right[equal[drawn]].sum())
