# SPDX-License-Identifier: Apache-2.0
"""A membership attack by one method that is chosen beforehand, and the best of all with a correction."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens._validate import as_choice, as_count, as_delta, as_share
from epsilens.errors import ApproximationWarning, InputError, InputTypeError, setting
from epsilens.risk.attack_methods import (
    AttackMethod,
    Bavaria,
    Combined,
    KnownModels,
    Lira,
    Quantile,
    Rmia,
    has_own_spreads,
    without_rounding,
)
from epsilens.risk.likelihood_ratio import attack_result, checked_scores
from epsilens.risk.membership_attack import (
    HeldOutScores,
    MembershipAttack,
    weighted_lower_rate,
)
from epsilens.risk.proven_epsilon import ProvenEpsilon

MethodName: TypeAlias = Literal[
    "auto",
    "lira",
    "lira-online",
    "bavaria",
    "bavaria-offline",
    "rmia",
    "rmia-offline",
    "quantile",
    "combined",
]
METHODS: Mapping[str, AttackMethod] = {
    method.name: method
    for method in (
        Lira(),
        Lira(online=True),
        Bavaria(),
        Bavaria(online=False),
        Rmia(),
        Rmia(online=False),
        Quantile(),
        Combined(),
    )
}
COMPARED = ("lira", "lira-online", "bavaria", "rmia", "combined")
"""What the envelope tries where nothing else is asked for; "quantile" too where there are features."""
ENOUGH_MODELS, ENOUGH_PAIRS = 8, 2_000
"""From so many models, and pairs of model and sample, on "auto" is the combination; below it is RMIA."""


def chosen_beforehand(n_models: int, n_samples: int) -> str:
    """Return the method that "auto" stands for.

    The rule was fixed on other models than those that are attacked. It depends on the numbers of models and
    samples alone, so that the choice needs no correction.

    Parameters
    ----------
    n_models : int
        Models in both halves together.
    n_samples : int

    Examples
    --------
    >>> chosen_beforehand(256, 500), chosen_beforehand(6, 500)
    ('combined', 'rmia')
    """
    is_enough = n_models >= ENOUGH_MODELS and n_models * n_samples >= ENOUGH_PAIRS
    return "combined" if is_enough else "rmia"


def attack_membership(
    scores: ArrayLike,
    membership: ArrayLike,
    *,
    method: MethodName | AttackMethod = "auto",
    features: ArrayLike | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> MembershipAttack:
    """Attack many models at once by one of several methods.

    Each half of the models is judged by a method that has learnt from the other half. All methods are judged in
    the same way, so that their results can be compared.

    Parameters
    ----------
    scores : array of float, (n_models, n_samples)
        φ = log(p_y/(1 − p_y)) of every model for every sample. Finite. Scores of probabilities that were rounded
        to 0 or 1 are brought to half the smallest distance from 0 and 1 that occurs.
    membership : array of bool (or 0 and 1), (n_models, n_samples)
        Which model was trained on which sample: by fair coins, not by fixed numbers.
    method : str or AttackMethod
        "lira" and "lira-online": the likelihood ratio of two normal distributions for each sample; see `lira`.
        "bavaria" and "bavaria-offline": the same with a variance drawn towards that of the other samples.
        "rmia" and "rmia-offline": rank of the probability over its mean in other models; `Rmia` has its settings.
        "quantile": place among the scores that samples with such features have as outsiders; needs `features`.
        "combined": a classifier that has learnt what the evidence of the other methods is worth.
        "auto": "combined" from 8 models and 2,000 pairs of model and sample on, "rmia" below. The rule was fixed
        beforehand.
    features : array of float, (n_samples, n_features), optional
        What is known of the samples, the label among it. Only "quantile" looks at it.
    delta, confidence : float
        As in `lira`.

    Returns
    -------
    MembershipAttack

    Raises
    ------
    InputError
        As `lira`, and if "quantile" has no features.

    Notes
    -----
    *Validity.* Given all scores and the memberships of the known half, the memberships of the other half are
    independent fair coins if nothing leaks. The methods use nothing else, so that every bound of `lira` holds for
    them. The two directions are independent for methods that learn from outsiders only (up to small terms) and
    for "rmia". For the others the null distribution of the largest rate is bounded, where `lira` simulates it.

    *Combination.* See `epsilens.risk.attack_methods.Combined`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((64, 200)) < 0.5
    >>> spread = rng.gamma(1.0, size=200)
    >>> scores = 1.5 * membership * spread + spread * rng.normal(size=(64, 200))
    >>> for method in ("lira", "bavaria"):
    ...     attack = attack_membership(scores, membership, method=method)
    ...     print(attack.method, round(attack.tpr_at_fpr(0.01), 2))
    lira 0.18
    bavaria 0.19
    """
    values, members = checked_scores(scores, membership)
    share, at_delta = as_share(confidence, name="confidence"), as_delta(delta)
    chosen = _as_method(method, values.shape)
    table = _as_features(features, values.shape[1])
    return _attack(
        without_rounding(values), members, chosen, table, delta=at_delta, confidence=share
    )


def _attack(
    values: NDArray[np.floating],
    members: BoolArray,
    method: AttackMethod,
    features: FloatArray | None,
    *,
    delta: float,
    confidence: float,
    proof: ProvenEpsilon | None = None,
    warns: bool = True,
) -> MembershipAttack:
    """Return the result of one method on scores that were checked."""
    variance: Literal["fixed", "per-sample", "shrunk", "none"] = "shrunk"
    if isinstance(method, Lira):
        variance = "per-sample" if has_own_spreads(len(values) // 2) else "fixed"
    elif isinstance(method, Rmia | Combined):
        variance = "none"
    return attack_result(
        values,
        members,
        partial(_judge, values, method, features),
        null=method.null,
        method=method.name,
        online=method.online,
        variance=variance,
        delta=delta,
        confidence=confidence,
        proof=proof,
        most_simulations=_MOST_EXCHANGES,
        warns=warns,
    )


_MOST_EXCHANGES = 39
"""Exchanges of the memberships where the coins are not fair: learning anew takes time."""


def _judge(
    scores: NDArray[np.floating],
    method: AttackMethod,
    features: FloatArray | None,
    membership: BoolArray,
    quarters: FloatArray,
    keep: SingleArray | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count right judgements and judgements, per half of the models and sample."""
    right = np.zeros((2, scores.shape[1]), dtype=np.int64)
    judged = np.zeros((2, scores.shape[1]), dtype=np.int64)
    for half in (0, 1):
        known = KnownModels(scores[1 - half :: 2], membership[1 - half :: 2], features)
        statistic = method.judge(known, scores[half::2])
        usable = ~np.isnan(statistic).any(axis=0)
        statistic[:, ~usable] = np.nan
        correct = (statistic > 0.0) == membership[half::2]
        right[half] = np.where(usable, correct.sum(axis=0), 0)
        judged[half] = np.where(usable, len(statistic), 0)
        if keep is not None:
            keep[half::2] = statistic
    return right, judged


# --- The best of several methods, corrected for the choice ---


@dataclass(frozen=True, eq=False)
class AttackEnvelope:
    """The strongest of several attacks on the same models, corrected for having looked at all of them.

    Attributes
    ----------
    method : str
        The method that finds most members.
    fpr : float
        Share of outsiders that are accused.
    tpr : float
        Share of members that it finds then.
    tpr_low, tpr_high : float
        Simultaneous interval: with the stated confidence it contains the true share of the truly best of these
        methods.
    tpr_by_method : mapping of name to float
        Of every method.
    p_value : float or None
        How often useless attacks would have found so many members among the pairs that they are surest of,
        corrected for the number of methods. None without fair coins.
    asr_max_lower_bound : float
        With the stated confidence one of the methods, as fitted here, is right on new models of some sample
        at least this often. 0 without fair coins.
    confidence : float in (0, 1)
    attacks : mapping of name to MembershipAttack
        Every attack by itself, without a correction.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((64, 100)) < 0.5
    >>> scores = 1.0 * membership + rng.normal(size=(64, 100))
    >>> envelope = strongest_attack(scores, membership, methods=("lira", "bavaria"))
    >>> envelope
    AttackEnvelope(bavaria finds 0.096 of the members at 0.01 false alarms (0.070 to 0.121), p=2.5e-22)
    """

    method: str
    fpr: float
    tpr: float
    tpr_low: float
    tpr_high: float
    tpr_by_method: Mapping[str, float]
    p_value: float | None
    asr_max_lower_bound: float
    confidence: float
    attacks: Mapping[str, MembershipAttack] = field(repr=False)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers that describe no single record, ready for JSON."""
        return {
            "method": self.method,
            "fpr": self.fpr,
            "tpr": self.tpr,
            "tpr_low": self.tpr_low,
            "tpr_high": self.tpr_high,
            "tpr_by_method": dict(self.tpr_by_method),
            "p_value": self.p_value,
            "asr_max_lower_bound": self.asr_max_lower_bound,
            "confidence": self.confidence,
        }

    def __repr__(self) -> str:
        """Return the numbers that describe no single record."""
        sure = "no p-value" if self.p_value is None else f"p={self.p_value:.2g}"
        return (
            f"AttackEnvelope({self.method} finds {self.tpr:.3f} of the members at {self.fpr:g} false alarms "
            f"({self.tpr_low:.3f} to {self.tpr_high:.3f}), {sure})"
        )


def strongest_attack(
    scores: ArrayLike,
    membership: ArrayLike,
    *,
    methods: Iterable[str | AttackMethod] | None = None,
    features: ArrayLike | None = None,
    fpr: float = 0.01,
    delta: float = 0.0,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> AttackEnvelope:
    """Attack many models by several methods, and correct the best of them for having looked.

    The best of several attacks looks better than it is. The interval and the p-value allow for that.

    Parameters
    ----------
    scores, membership, features, delta, confidence
        As in `attack_membership`.
    methods : iterable of str or AttackMethod, optional
        Methods to try. None: "lira", "lira-online", "bavaria", "rmia" and "combined", and "quantile" where
        features are given.
    fpr : float in (0, 1)
        Share of false alarms at which methods are compared.
    n_resamples, seed : int
        Draws of the models for the interval.

    Returns
    -------
    AttackEnvelope

    Notes
    -----
    *Interval.* Models of each half are drawn again, the same for all methods. The largest of the methods'
    standardised deviations gives a half-width in standard errors that holds for all of them at once. The interval
    runs from the largest lower to the largest upper end.

    *P-value.* Given the scores and the memberships of the known half, the memberships of the other half are fair
    coins if nothing leaks. So the members among the surest pairs are Binomial(K, ½), exactly. K is fixed
    beforehand: 1 % of the pairs, or 100 where that is more, or 10 % where even that is fewer. With two directions
    and M methods the smallest of the 2M probabilities is multiplied by 2M (Bonferroni).

    *Lower bound.* Each of the M methods has a M-th of the error.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((32, 60)) < 0.5
    >>> nothing = strongest_attack(rng.normal(size=(32, 60)), membership)
    >>> nothing.p_value > 0.05, nothing.tpr_low < 0.01
    (True, True)
    """
    values, members = checked_scores(scores, membership)
    share, at_delta = as_share(confidence, name="confidence"), as_delta(delta)
    rate = as_share(fpr, name="fpr")
    table = _as_features(features, values.shape[1])
    names = methods
    if names is None:
        names = (*COMPARED, "quantile") if table is not None else COMPARED
    asked = [names] if isinstance(names, str) else list(names)
    tried = {chosen.name: chosen for name in asked if (chosen := _as_method(name, values.shape))}
    if len(tried) < len(asked):
        raise InputError(
            argument="methods",
            expected="methods with different names",
            got="several with the same one",
            hint="Call `attack_membership` for each.",
        )
    if not tried:
        raise InputError(argument="methods", expected="at least one method", got="none")
    cleaned = without_rounding(values)
    attacks: dict[str, MembershipAttack] = {}
    proof = None
    for name, method in tried.items():
        attacks[name] = _attack(
            cleaned,
            members,
            method,
            table,
            delta=at_delta,
            confidence=share,
            proof=proof,
            warns=not attacks,
        )
        proof = attacks[name].proof
    rates = {name: attack.tpr_at_fpr(rate) for name, attack in attacks.items()}
    best = max(rates, key=lambda name: rates[name])
    draws = as_count(n_resamples, name="n_resamples")
    resampled = np.stack(
        [
            attack.held_out.resampled_tpr(rate, n_resamples=draws, seed=seed)
            for attack in attacks.values()
        ]
    )
    low, high = simultaneous_interval(np.array([*rates.values()]), resampled, confidence=share)
    is_fair = all(attack.proof is not None for attack in attacks.values())
    p_value = None
    least = 0.0
    if is_fair:
        smallest = min(surest_p_value(attack.held_out) for attack in attacks.values())
        p_value = min(len(attacks) * smallest, 1.0)
        level = (1.0 - share) / len(attacks)
        least = max(_lower_bound(attack.held_out, level) for attack in attacks.values())
    return AttackEnvelope(
        method=best,
        fpr=rate,
        tpr=rates[best],
        tpr_low=low,
        tpr_high=high,
        tpr_by_method=rates,
        p_value=p_value,
        asr_max_lower_bound=least,
        confidence=share,
        attacks=attacks,
    )


MOST_COMPARED = 100_000
"""Pairs of model and record on which methods are compared in a study at most: learning takes time."""


FEWEST_COMPARED = 1000
"""Records that are compared at least, where there are so many."""


def comparison_numbers(
    scores: NDArray[np.floating], membership: BoolArray, *, confidence: float, seed: int
) -> dict[str, Any]:
    """Return what a cell says about the method chosen beforehand and about the strongest of all.

    Parameters
    ----------
    scores, membership : array, (n_models, n_samples)
    confidence : float in (0, 1)
    seed : int
        Seed of the records, where there are more pairs than `MOST_COMPARED`.
    """
    n_models, n_samples = scores.shape
    most = max(MOST_COMPARED // n_models, FEWEST_COMPARED)
    if n_samples > most:
        chosen = np.sort(np.random.default_rng(seed).permutation(n_samples)[:most])
        scores, membership = scores[:, chosen], membership[:, chosen]
    # Many models of few records tell less than fewer models of more.
    enough = max(MOST_COMPARED // scores.shape[1], 64)
    scores, membership = scores[:enough], membership[:enough]
    with warnings.catch_warnings():
        # The attack of the paper has warned already.
        warnings.simplefilter("ignore", ApproximationWarning)
        found = strongest_attack(scores, membership, confidence=confidence, seed=seed)
    beforehand = chosen_beforehand(*scores.shape)
    return {
        "attack_method": beforehand,
        "attack_tpr_at_fpr_0_01": found.tpr_by_method[beforehand],
        "envelope_method": found.method,
        "envelope_tpr_at_fpr_0_01": found.tpr,
        "envelope_tpr_low": found.tpr_low,
        "envelope_tpr_high": found.tpr_high,
        "envelope_p_value": found.p_value,
        "envelope_records": scores.shape[1],
    }


def simultaneous_interval(
    found: FloatArray, resampled: FloatArray, *, confidence: float
) -> tuple[float, float]:
    """Return an interval for the largest of several rates, of which the best is not known beforehand.

    Parameters
    ----------
    found : array of float64, (n_methods,)
        Rates.
    resampled : array of float64, (n_methods, n_resamples)
        The same in drawn studies.
    confidence : float in (0, 1)

    Returns
    -------
    low, high : float in [0, 1]

    Examples
    --------
    >>> import numpy as np
    >>> errors = np.random.default_rng(0).normal(scale=0.01, size=(2, 4000))
    >>> found = np.array([0.1, 0.12])
    >>> low, high = simultaneous_interval(found, found[:, None] + errors, confidence=0.95)
    >>> round(low, 3), round(high, 3)
    (0.098, 0.142)
    """
    errors = resampled.std(axis=1)
    moves = errors > 0.0
    if not moves.any():
        return float(found.max()), float(found.max())
    away = np.abs(resampled[moves] - found[moves, None]) / errors[moves, None]
    width = float(np.quantile(away.max(axis=0), confidence)) * errors
    low, high = float((found - width).max()), float((found + width).max())
    return float(np.clip(low, 0.0, 1.0)), float(np.clip(high, 0.0, 1.0))


_SUREST = 0.01
_SUREST_AT_LEAST = 100
_SUREST_AT_MOST = 0.1


def surest_p_value(held_out: HeldOutScores) -> float:
    """Return how often a useless attack would find so many members among its surest pairs.

    Parameters
    ----------
    held_out : HeldOutScores
        The attack.

    Returns
    -------
    float in (0, 1]
        Twice the smaller of the exact probabilities of the two directions of the split.

    Examples
    --------
    >>> import numpy as np
    >>> members = np.arange(80).reshape(4, 20) % 3 == 0
    >>> surest_p_value(HeldOutScores(members.astype(np.float32), members, np.ones((2, 20), dtype=bool)))
    0.0001220703125
    """
    found = 1.0
    for half in (0, 1):
        columns = held_out.judged[half]
        scores = held_out.statistic[half::2][:, columns].ravel()
        if scores.size == 0:
            continue
        members = held_out.membership[half::2][:, columns].ravel()
        wanted = max(_SUREST * scores.size, min(_SUREST_AT_LEAST, _SUREST_AT_MOST * scores.size))
        place = scores.size - max(round(wanted), 1)
        threshold = np.partition(scores, place)[place]
        surest = scores >= threshold  # equal ones together: what the coins say is not looked at
        n_right, n_surest = int(members[surest].sum()), int(surest.sum())
        found = min(found, float(binom.sf(n_right - 1, n_surest, 0.5)))
    return min(2.0 * found, 1.0)


def _lower_bound(held_out: HeldOutScores, level: float) -> float:
    """Return a lower bound of the success rate on the most exposed sample, for all samples at once."""
    judged = np.zeros((2, held_out.membership.shape[1]), dtype=np.int64)
    right = np.zeros_like(judged)
    for half in (0, 1):
        usable = held_out.judged[half]
        correct = (held_out.statistic[half::2] > 0.0) == held_out.membership[half::2]
        right[half] = np.where(usable, correct.sum(axis=0), 0)
        judged[half] = np.where(usable, len(correct), 0)
    return float(np.nanmax(weighted_lower_rate(right, judged, level=level)))


def _as_method(method: str | AttackMethod, shape: tuple[int, ...]) -> AttackMethod:
    """Return the method that a name stands for."""
    if isinstance(method, str):
        as_choice(method, get_args(MethodName), name="method")
        return METHODS[chosen_beforehand(*shape) if method == "auto" else method]
    if not callable(getattr(method, "judge", None)):
        raise InputTypeError(
            argument="method",
            expected="the name of a method, or a method such as Rmia()",
            got=type(method).__name__,
        )
    return method


def _as_features(features: ArrayLike | None, n_samples: int) -> FloatArray | None:
    """Return the features as an array; refuse other shapes."""
    if features is None:
        return None
    try:
        table = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            argument="features",
            expected="a table of numbers",
            got=type(features).__name__,
            hint="Encode categories first.",
        ) from None
    if table.ndim != 2 or len(table) != n_samples:
        raise InputError(
            f"{setting('features')} must have one row for each of the {n_samples} samples, got shape {table.shape}."
        )
    return table
