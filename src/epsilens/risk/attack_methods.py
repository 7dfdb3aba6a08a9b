# SPDX-License-Identifier: Apache-2.0
"""How a record's score is turned into evidence that a model was trained on it: the methods.

A method sees the scores and the membership of one half of the models, the known ones. It gives each pair of a
model of the other half and a record a number, which is above 0 where the record is taken for a member. All that
is done with these numbers, such as rates, bounds and p-values, is the same for every method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, expit, ndtri, polygamma
from scipy.stats import rankdata

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens._validate import as_positive
from epsilens.errors import InputError, setting
from epsilens.risk.logits import (
    Moments,
    NormalFit,
    around_mean,
    column_blocks,
    fit_normal,
    side_moments,
)
from epsilens.risk.proven_epsilon import drawn_to_their_mean

Null: TypeAlias = Literal["binomial", "either half"]
"""Whether the two directions of the split are independent if nothing leaks."""

_ENOUGH_FOR_OWN_SPREAD = 32
"""From so many known models on each record has a spread of its own in the plain likelihood ratio."""
_LARGEST = 1e30


# --- What the attack knows ---


@dataclass(frozen=True)
class Shrunk:
    """Normal distributions in and out of each record, drawn towards what all records have in common.

    Attributes
    ----------
    mean_in, mean_out : array of float64, (n_samples,)
        Means of the scores less the smallest one.
    variance : array of float64, (n_samples,)
        Variance of one more score, the uncertainty of the means included.
    freedom : array of float64, (n_samples,)
        Degrees of freedom of the variance.
    usable : array of bool, (n_samples,)
        Whether at least one model stands behind it.
    """

    mean_in: FloatArray
    mean_out: FloatArray
    variance: FloatArray
    freedom: FloatArray
    usable: BoolArray


@dataclass(frozen=True, eq=False)
class KnownModels:
    """The models whose training records the attack knows, and summaries of their scores.

    Attributes
    ----------
    scores : array of float, (n_models, n_samples)
    membership : array of bool, (n_models, n_samples)
    features : array of float64, (n_samples, n_features) or None
        What is known of each record beside its scores.
    """

    scores: NDArray[np.floating]
    membership: BoolArray
    features: FloatArray | None = None

    @cached_property
    def lowest(self) -> FloatArray:
        """Smallest score of each record."""
        return np.asarray(self.scores.min(axis=0), dtype=np.float64)

    @cached_property
    def moments(self) -> Moments:
        """Number, sum and sum of squares of each record's scores less the smallest one."""
        return side_moments(self.scores, self.membership, self.lowest)

    def normal(self, *, inside: bool) -> NormalFit:
        """Return the normal distribution of each record in or out."""
        return fit_normal(
            self.moments[0 if inside else 1],
            per_sample=has_own_spreads(len(self.scores)),
        )

    @cached_property
    def shrunk(self) -> Shrunk:
        """Normal distributions drawn towards what all records have in common; see `shrunk_fit`."""
        return shrunk_fit(self.moments)

    def mean_probability(self, *, temperature: float, with_members: bool) -> FloatArray:
        """Return the mean probability of each record's own label, NaN where no model gives one."""
        n_models, n_samples = self.scores.shape
        found = np.empty(n_samples)
        for block in column_blocks(n_models, n_samples):
            chances = expit(self.scores[:, block] / temperature)
            chosen = True if with_members else ~self.membership[:, block]
            n_chosen = np.broadcast_to(chosen, chances.shape).sum(axis=0)
            total = np.where(chosen, chances, 0.0).sum(axis=0)
            found[block] = np.where(n_chosen > 0, total / np.maximum(n_chosen, 1), np.nan)
        return found


def has_own_spreads(n_known: int) -> bool:
    """Return whether each record has a spread of its own in the plain likelihood ratio."""
    return n_known >= _ENOUGH_FOR_OWN_SPREAD


def prior_of_variances(variances: FloatArray, freedom: FloatArray) -> tuple[float, float]:
    """Return weight and centre of the inverse-gamma distribution that variances are drawn from.

    Parameters
    ----------
    variances : array of float64
        Sample variances, above 0.
    freedom : array of float64
        Their degrees of freedom.

    Returns
    -------
    weight, centre : float
        The prior counts as so many degrees of freedom, with this variance.

    Notes
    -----
    A sample variance s² with d degrees of freedom is then centre·F(d, weight). Mean and variance of log s²
    determine both [1]_ (section 6.2).

    References
    ----------
    .. [1] Smyth, G. K. (2004). Linear models and empirical Bayes methods for assessing differential expression
       in microarray experiments. Statistical Applications in Genetics and Molecular Biology 3(1).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> variances = 2.0 / rng.chisquare(8.0, 5000) * 8.0 * rng.chisquare(30.0, 5000) / 30.0
    >>> weight, centre = prior_of_variances(variances, np.full(5000, 30.0))
    >>> round(weight), round(centre, 1)
    (8, 2.0)
    """
    half = 0.5 * freedom
    logs = np.log(variances) - digamma(half) + np.log(half)
    left = float(np.var(logs, ddof=1) - polygamma(1, half).mean()) if logs.size > 1 else 0.0
    if left <= 1.0 / _HEAVIEST:  # about 2/weight for a large weight
        return 2.0 * _HEAVIEST, float(np.exp(logs.mean()))
    weight = 2.0 * _inverse_trigamma(left)
    return weight, float(np.exp(logs.mean() + digamma(0.5 * weight) - np.log(0.5 * weight)))


_HEAVIEST = 1e4
"""Half the largest weight of a prior: beyond, all records have the same variance."""


def _fitted_prior(around: FloatArray, freedom: FloatArray) -> tuple[float, float]:
    """Return the prior of the variances behind squared deviations, of the records whose scores move."""
    moves = (freedom > 0.0) & (around > 1e-12 * around.max(initial=0.0))
    if not moves.any():
        return 2.0 * _HEAVIEST, 1.0
    return prior_of_variances(around[moves] / freedom[moves], freedom[moves])


def _inverse_trigamma(value: float) -> float:
    """Return x > 0 with trigamma(x) = value, by Newton's method on its reciprocal (Smyth 2004, appendix)."""
    x = 0.5 + 1.0 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1.0 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def shrunk_fit(moments: Moments) -> Shrunk:
    """Return distributions in and out of each record that borrow from all other records.

    Parameters
    ----------
    moments : Moments
        Moments of the known models.

    Returns
    -------
    Shrunk

    Notes
    -----
    *Variance.* One for in and out: the two have it in common up to what so few models show, and a record that
    scores alike in all models that saw it must not look certain. The prior is that of `prior_of_variances`.
    With a large weight this is one spread for all records, with a small one a spread for each.

    *Means.* Standardised differences of the means are drawn towards their common mean. A record without members,
    or without others, gets the common difference.
    """
    n_in, sum_in, around_in = around_mean(moments[0])
    n_out, sum_out, around_out = around_mean(moments[1])
    freedom = np.maximum(n_in - 1.0, 0.0) + np.maximum(n_out - 1.0, 0.0)
    around = around_in + around_out
    weight, centre = _fitted_prior(around, freedom)
    variance = (weight * centre + around) / (weight + freedom)
    spread = np.sqrt(variance)
    noise = 1.0 / np.maximum(n_in, 1.0) + 1.0 / np.maximum(n_out, 1.0)
    both = (n_in >= 1.0) & (n_out >= 1.0)
    mean_in = sum_in / np.maximum(n_in, 1.0)
    mean_out = sum_out / np.maximum(n_out, 1.0)
    apart = np.where(both, (mean_in - mean_out) / spread, 0.0)
    between = 0.0
    if both.sum() >= 3:
        mean, drawn, between = drawn_to_their_mean(apart[both], noise[both])
        apart[both] = drawn
        apart[~both] = mean
    uncertain = np.where(both, between * noise / np.maximum(between + noise, 1e-300), between)
    apart *= spread
    total = np.maximum(n_in + n_out, 1.0)
    middle = (sum_in + sum_out + 0.5 * apart * (n_out - n_in)) / total
    return Shrunk(
        mean_in=middle + 0.5 * apart,
        mean_out=middle - 0.5 * apart,
        variance=variance * (1.0 + 1.0 / total + 0.25 * uncertain),
        freedom=weight + freedom,
        usable=n_in + n_out >= 1.0,
    )


# --- Evidence, for some records at a time ---

Columns: TypeAlias = slice
Evidence: TypeAlias = Callable[[FloatArray, Columns], FloatArray]
"""From the scores of some records, (n_models, width), and their place to a number for each."""


def likelihood_ratio(known: KnownModels, *, online: bool) -> Evidence:
    """Return LiRA: the distance from the usual score of outsiders, or the log-likelihood ratio."""
    out = known.normal(inside=False)
    inside = known.normal(inside=True) if online else None

    def evidence(scores: FloatArray, block: Columns) -> FloatArray:
        above = scores - known.lowest[block]
        found = (above - out.mean[block]) / out.spread[block]
        usable = out.usable[block]
        if inside is not None:
            usable = usable & inside.usable[block]
            found = 0.5 * np.square(found)
            found -= 0.5 * np.square((above - inside.mean[block]) / inside.spread[block])
            found += np.log(out.spread[block] / inside.spread[block])
        return np.where(usable, found, np.nan)

    return evidence


def shrunk_ratio(known: KnownModels, *, online: bool) -> Evidence:
    """Return the log-likelihood ratio of Student's t, or the distance from the outsiders' mean."""
    fit = known.shrunk
    if not online:
        n_out, sum_out, around_out = around_mean(known.moments[1])
        freedom = np.maximum(n_out - 1.0, 0.0)
        weight, centre = _fitted_prior(around_out, freedom)
        spread = np.sqrt((weight * centre + around_out) / (weight + freedom))
        spread *= np.sqrt(1.0 + 1.0 / np.maximum(n_out, 1.0))
        mean = np.where(n_out >= 1.0, sum_out / np.maximum(n_out, 1.0), np.nan)
        return lambda scores, block: (scores - known.lowest[block] - mean[block]) / spread[block]

    def evidence(scores: FloatArray, block: Columns) -> FloatArray:
        above = scores - known.lowest[block]
        scale = fit.freedom[block] * fit.variance[block]
        found = np.log1p(np.square(above - fit.mean_out[block]) / scale)
        found -= np.log1p(np.square(above - fit.mean_in[block]) / scale)
        found *= 0.5 * (fit.freedom[block] + 1.0)
        return np.where(fit.usable[block], found, np.nan)

    return evidence


_TINY = 1e-45
"""Smallest probability whose logarithm is taken."""
_OFFLINE_SHARE = 0.33
"""a of RMIA's offline form (Zarifzadeh et al. 2024), as LeakPro sets it: the mean over members and outsiders is
taken for ((1 + a) p + 1 − a)/2, with p the mean over outsiders."""


def log_probability_ratio(
    known: KnownModels, *, online: bool, temperature: float = 1.0
) -> Evidence:
    """Return log p of the record's own label less the log of its mean over the known models."""
    mean = known.mean_probability(temperature=temperature, with_members=online)
    if not online:
        mean = 0.5 * ((1.0 + _OFFLINE_SHARE) * mean + 1.0 - _OFFLINE_SHARE)
    log_mean = np.log(np.maximum(mean, _TINY))

    def evidence(scores: FloatArray, block: Columns) -> FloatArray:
        # log p = −log(1 + exp(−φ)), which rounds to 0 nowhere.
        return -np.logaddexp(0.0, -scores / temperature) - log_mean[block]

    return evidence


def in_blocks(evidence: Evidence, scores: NDArray[np.floating]) -> SingleArray:
    """Return the evidence on all records, worked out for some at a time."""
    found = np.empty(scores.shape, dtype=np.float32)
    for block in column_blocks(*scores.shape):
        values = evidence(scores[:, block].astype(np.float64), block)
        found[:, block] = np.clip(values, -_LARGEST, _LARGEST)
    return found


# --- The methods ---


class AttackMethod(Protocol):
    """A way to judge which of the other models were trained on a record."""

    @property
    def name(self) -> str:
        """Name of the method."""

    @property
    def online(self) -> bool:
        """Whether the method looks at the known models' scores of their own training records."""

    @property
    def null(self) -> Null:
        """Whether the two directions of the split are independent if nothing leaks."""

    def judge(self, known: KnownModels, scores: NDArray[np.floating]) -> SingleArray:
        """Return a number for every model and record, above 0 for a member; NaN if not judged."""


@dataclass(frozen=True)
class Lira:
    """Likelihood ratio of two normal distributions for each record (Carlini et al. 2022).

    Attributes
    ----------
    online : bool
        Whether the scores of models that saw the record are used too.
    """

    online: bool = False

    @property
    def name(self) -> str:
        """Name of the method."""
        return "lira-online" if self.online else "lira"

    @property
    def null(self) -> Null:
        """Online, members' scores that are high by chance help both directions."""
        return "either half" if self.online else "binomial"

    def judge(self, known: KnownModels, scores: NDArray[np.floating]) -> SingleArray:
        """Return the evidence of membership."""
        return in_blocks(likelihood_ratio(known, online=self.online), scores)


@dataclass(frozen=True)
class Bavaria:
    """Likelihood ratio with a variance of each record that is drawn towards the others' (BaVarIA).

    Attributes
    ----------
    online : bool
        Whether the scores of models that saw the record are used too.

    Notes
    -----
    Differs from the published BaVarIA in its prior, which is fitted to all records, and in that a record has one
    variance for in and out; see `shrunk_fit`.
    """

    online: bool = True

    @property
    def name(self) -> str:
        """Name of the method."""
        return "bavaria" if self.online else "bavaria-offline"

    @property
    def null(self) -> Null:
        """As for LiRA."""
        return "either half" if self.online else "binomial"

    def judge(self, known: KnownModels, scores: NDArray[np.floating]) -> SingleArray:
        """Return the evidence of membership."""
        return in_blocks(shrunk_ratio(known, online=self.online), scores)


@dataclass(frozen=True)
class Rmia:
    """Rank of a record's probability ratio among all records of the same model (RMIA).

    Attributes
    ----------
    online : bool
        Whether the known models' mean probability includes those that saw the record.
    gamma : float > 0
        A record outranks another if its ratio is more than so many times the other's.
    temperature : float > 0
        Log-odds are divided by it before they are turned into probabilities.

    Notes
    -----
    The ratio of [1]_ is p_y of the attacked model over the mean p_y of
    reference models. All records are the population. With γ = 1 the rank orders the records of one model as the
    ratio itself does, and so does BASE [2]_. Ties count half.

    References
    ----------
    .. [1] Zarifzadeh, S., Liu, P. and Shokri, R. (2024). Low-cost high-power membership inference attacks. ICML.
       arXiv:2312.03262.
    .. [2] Lassila, M., Östman, J., Ngo, K.-H. and Graell i Amat, A. (2025). Practical Bayes-optimal membership
       inference attacks. arXiv:2505.24089.
    """

    online: bool = True
    gamma: float = 1.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        as_positive(self.gamma, name="gamma")
        as_positive(self.temperature, name="temperature")

    @property
    def name(self) -> str:
        """Name of the method."""
        return "rmia" if self.online else "rmia-offline"

    @property
    def null(self) -> Null:
        """Online no membership enters; offline as for LiRA."""
        return "binomial"

    def judge(self, known: KnownModels, scores: NDArray[np.floating]) -> SingleArray:
        """Return the normal quantile of the rank of every record."""
        ratio = in_blocks(
            log_probability_ratio(known, online=self.online, temperature=self.temperature), scores
        )
        n_samples = ratio.shape[1]
        for rows in column_blocks(n_samples, len(ratio)):
            ratio[rows] = _normal_rank(ratio[rows], shift=float(np.log(self.gamma)))
        return ratio


def _normal_rank(ratio: SingleArray, *, shift: float) -> FloatArray:
    """Return the normal quantile of the share of records that each outranks, along the second axis."""
    lower = ratio.astype(np.float64) - shift
    n_samples = lower.shape[1]
    known = np.isfinite(lower)
    filled = np.where(known, lower, -_LARGEST)
    if shift == 0.0:
        below = rankdata(filled, axis=1) - 0.5
    else:
        # Places among all ratios, less those among the shifted ones: so many ratios lie below.
        both = np.concatenate([ratio.astype(np.float64), filled], axis=1)
        both = np.where(np.isfinite(both), both, -_LARGEST)
        below = rankdata(both, axis=1)[:, n_samples:] - rankdata(filled, axis=1)
    share = np.clip(below / n_samples, 0.5 / n_samples, 1.0 - 0.5 / n_samples)
    return np.where(known, ndtri(share), np.nan)


@dataclass(frozen=True)
class Quantile:
    """Place of a score among those that records like it have when they are not members.

    Attributes
    ----------
    seed : int
        Seed of the folds in which the usual scores are predicted.

    Notes
    -----
    Bertran et al. (2023) regress quantiles, or mean and spread, of outsiders' scores on the features: many records
    stand for many models. Here mean m(x) and spread s(x) are predicted by boosted trees for records that the trees
    were not trained on. Where the known models say more of the record itself, its own mean and variance count by
    the number of models behind them (normal and inverse-gamma priors around m and s).

    References
    ----------
    .. [1] Bertran, M., Tang, S., Kearns, M., Morgenstern, J., Roth, A. and Wu, Z. S. (2023). Scalable membership
       inference attacks via quantile regression. NeurIPS 36. arXiv:2307.03694.
    """

    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the method."""
        return "quantile"

    @property
    def online(self) -> bool:
        """Members' scores are not looked at."""
        return False

    @property
    def null(self) -> Null:
        """As for LiRA."""
        return "binomial"

    def judge(self, known: KnownModels, scores: NDArray[np.floating]) -> SingleArray:
        """Return the evidence of membership."""
        return in_blocks(predicted_distance(known, seed=self.seed), scores)


_FOLDS = 4


def predicted_distance(known: KnownModels, *, seed: int = 0) -> Evidence:
    """Return the distance of a score from what is predicted for an outsider with these features."""
    if known.features is None:
        raise InputError(
            f"{setting('method')} 'quantile' predicts usual scores from the records' features. Give {setting('features')}."
        )
    n_out, sum_out, around_out = around_mean(known.moments[1])
    seen = n_out >= 1.0
    mean_out = sum_out / np.maximum(n_out, 1.0) + known.lowest
    predicted = _cross_predicted(known.features, mean_out, n_out, seen, seed=seed)
    # Squared distances of all outsiders' scores from the prediction, and of those from the record's own mean.
    squares = np.where(seen, around_out / np.maximum(n_out, 1.0), 0.0) + np.square(
        mean_out - predicted
    )
    usual = float((squares * n_out)[seen].sum() / max(n_out[seen].sum(), 1.0)) or 1.0
    wide = _cross_predicted(
        known.features, squares + 1e-3 * usual, n_out, seen, seed=seed, positive=True
    )
    freedom = np.maximum(n_out - 1.0, 0.0)
    within = float((around_out / wide)[seen].sum() / max(freedom.sum(), 1.0))
    own = np.clip(within, 0.01, 0.99) if freedom.sum() > 0.0 else 0.5
    # The mean of a record lies around its prediction with the rest of the variance.
    weight = n_out * (1.0 - own) / (n_out * (1.0 - own) + own)
    centre = predicted + weight * (np.where(seen, mean_out, predicted) - predicted)
    share = own * wide
    prior, scale = _fitted_prior(around_out / share, freedom)
    share = share * scale
    variance = (prior * share + around_out) / (prior + freedom)
    variance = variance + (1.0 - weight) * (1.0 - own) * wide
    spread = np.sqrt(variance)
    return lambda scores, block: (scores - centre[block]) / spread[block]


def _cross_predicted(
    features: FloatArray,
    target: FloatArray,
    weight: FloatArray,
    seen: BoolArray,
    *,
    seed: int,
    positive: bool = False,
) -> FloatArray:
    """Return what boosted trees predict of records that they were not trained on."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    n_samples = len(target)
    fold = np.random.default_rng(seed).permutation(n_samples) % _FOLDS
    found = np.full(n_samples, float(np.average(target[seen], weights=weight[seen])))
    for number in range(_FOLDS):
        train = seen & (fold != number)
        if train.sum() < 2 * _FOLDS:
            continue
        model = HistGradientBoostingRegressor(
            loss="gamma" if positive else "squared_error",
            max_iter=60,
            max_leaf_nodes=15,
            min_samples_leaf=10,
            early_stopping=False,
            random_state=seed,
        )
        # Without weights, which make the trees many times slower.
        model.fit(features[train], target[train])
        found[fold == number] = model.predict(features[fold == number])
    return found


@dataclass(frozen=True)
class Combined:
    """A classifier that has learnt how much each piece of evidence is worth.

    Attributes
    ----------
    seed : int
        Seed of the records that it learns from.

    Notes
    -----
    The known models are cut into folds. Every fold is judged by all methods that need no features, which know the
    other folds only, and boosted trees learn from this evidence which pairs are members. They learn what a likelihood ratio is worth on
    records of few spread, of one-sided scores, or of scores that are no normal distribution. The evidence on the
    models that are judged comes from all known models.
    """

    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the method."""
        return "combined"

    @property
    def online(self) -> bool:
        """Members' scores are looked at."""
        return True

    @property
    def null(self) -> Null:
        """As for online LiRA."""
        return "either half"

    def judge(self, known: KnownModels, scores: NDArray[np.floating]) -> SingleArray:
        """Return log-odds of membership."""
        n_models, n_samples = known.scores.shape
        generator = np.random.default_rng(self.seed)
        n_records = min(max(_MOST_PAIRS // n_models, 1), n_samples)
        records = np.sort(generator.permutation(n_samples)[:n_records])
        n_folds = min(_MODEL_FOLDS, n_models)
        fold = np.arange(n_models) % n_folds
        some, members = known.scores[:, records], known.membership[:, records]
        rows, truth = [], []
        for number in range(n_folds):
            others = KnownModels(some[fold != number], members[fold != number])
            rows.append(_stacked(others)(some[fold == number], slice(None)))
            truth.append(members[fold == number].ravel())
        evidence = _stacked(known)
        classifier = _classifier(np.concatenate(rows), np.concatenate(truth), seed=self.seed)

        def log_odds(values: FloatArray, block: Columns) -> FloatArray:
            return np.reshape(classifier(evidence(values, block)), values.shape)

        return in_blocks(log_odds, scores)


_MOST_PAIRS = 200_000
"""Pairs of model and record that the combination learns from."""
_MODEL_FOLDS = 8


def _stacked(known: KnownModels) -> Evidence:
    """Return all evidence on every pair as one table, (n_models · width, n_kinds)."""
    ratios = [
        shrunk_ratio(known, online=True),
        shrunk_ratio(known, online=False),
        likelihood_ratio(known, online=True),
        log_probability_ratio(known, online=True),
        log_probability_ratio(known, online=False),
    ]
    fit = known.shrunk
    spread = np.sqrt(fit.variance)
    n_in, _, around_in = around_mean(known.moments[0])
    n_out, _, around_out = around_mean(known.moments[1])
    spread_in = np.sqrt((4.0 * fit.variance + around_in) / (n_in + 4.0))
    spread_out = np.sqrt((4.0 * fit.variance + around_out) / (n_out + 4.0))
    common = float(np.sqrt(fit.variance.mean()))
    of_records = np.stack(
        [
            (fit.mean_in - fit.mean_out) / spread,
            np.log(spread),
            np.log(spread_in / spread_out),
            fit.mean_in + known.lowest,
            fit.mean_out + known.lowest,
        ]
    )

    def evidence(scores: FloatArray, block: Columns) -> FloatArray:
        above = scores - known.lowest[block]
        from_in, from_out = above - fit.mean_in[block], above - fit.mean_out[block]
        apart = fit.mean_in[block] - fit.mean_out[block]
        columns = [
            *(ratio(scores, block) for ratio in ratios),
            from_in / spread[block],
            from_out / spread[block],
            from_in / spread_in[block],
            from_out / spread_out[block],
            from_out / common,
            apart * (from_in + from_out) / common**2,
            scores,
            *(np.broadcast_to(values, scores.shape) for values in of_records[:, block]),
        ]
        found = np.stack([column.ravel() for column in columns], axis=1)
        return np.asarray(np.clip(found, -_LARGEST, _LARGEST), dtype=np.float64)

    return evidence


def _classifier(
    table: FloatArray, truth: BoolArray, *, seed: int
) -> Callable[[FloatArray], FloatArray]:
    """Return the log-odds that boosted trees learn from evidence and truth; 0 if they have no contrast."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if truth.all() or not truth.any():
        return lambda rows: np.zeros(len(rows))
    model = HistGradientBoostingClassifier(
        max_iter=80,
        max_leaf_nodes=4,
        min_samples_leaf=int(np.clip(len(truth) // 200, 20, 200)),
        early_stopping=False,
        random_state=seed,
    )
    # Of very few models some evidence is there for no record.
    there = np.isfinite(table).any(axis=0)
    model.fit(table[:, there], truth)
    return lambda rows: np.asarray(model.decision_function(rows[:, there]))


# --- Scores of probabilities that were rounded to 0 or 1 ---


def without_rounding(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Bring scores of probabilities 0 and 1 to half the smallest distance that occurs from 0 and 1.

    A forest of 100 trees knows steps of 0.01 only. What it says is 0 or 1 may be anything within half a step, and
    the score of 1 − 10⁻¹⁶ is far from that. Only a largest or smallest score that several pairs share is moved.

    Parameters
    ----------
    scores : array of float, (n_models, n_samples)
        φ = log(p/(1 − p)).

    Returns
    -------
    array of float, (n_models, n_samples)
        Computed from scores alone: membership is not looked at.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.01, 0.5, 1 - 1e-16], [0.99, 0.98, 1 - 1e-16]])
    >>> without_rounding(np.log(p / (1 - p))).round(2)[:, 2]
    array([5.29, 5.29])
    """
    least, most = _shared_end(scores, -1), _shared_end(scores, 1)
    if least is None and most is None:
        return scores
    return np.asarray(np.clip(scores, least, most))


def _shared_end(scores: NDArray[np.floating], sign: int) -> float | None:
    """Return where scores of one end are cut, None if they are not."""
    end = float(scores.max() if sign > 0 else scores.min())
    if np.count_nonzero(scores == end) < 2:
        return None
    inner = scores[scores < end] if sign > 0 else scores[scores > end]
    if inner.size == 0:
        return None
    nearest = float(inner.max() if sign > 0 else inner.min())
    # 1 − p (or p) of the neighbour, halved, on the scale of log-odds.
    distance = 0.5 * float(expit(-sign * nearest))
    if distance == 0.0:
        return None
    cut = sign * float(np.log1p(-distance) - np.log(distance))
    return cut if sign * cut < sign * end else None
