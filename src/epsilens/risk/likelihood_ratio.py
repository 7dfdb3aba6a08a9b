# SPDX-License-Identifier: Apache-2.0
"""LiRA: membership inference by a likelihood ratio, fitted on one half of the models.

Half of the models (those with even index) say how a record scores when it was not trained on; for
each model of the other half it is then judged whether it was. The halves change places, so that
every model is judged once, by a fit that has not seen it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtr, chdtrc

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens._validate import as_choice, as_delta, as_share
from epsilens.errors import ApproximationWarning, InputError, InputTypeError, setting
from epsilens.notes import Note
from epsilens.risk.logits import column_blocks, fit_normal, quarter_moments
from epsilens.risk.membership_attack import (
    HeldOutScores,
    MembershipAttack,
    null_of_maximum,
    p_value_at_most,
    p_value_of_maximum,
    simulated_null,
    weighted_lower_rate,
)
from epsilens.risk.proven_epsilon import ProvenEpsilon, proven_epsilon

# --- Whether the membership looks as fair coins would make it ---

_LEVEL = 1e-4
"""Fair coins are doubted so often in each of the two directions of each of the three tests."""


def doubts_about_the_coins(membership: BoolArray) -> list[str]:
    """Say what fair coins, one for each model and sample, would hardly have done.

    Parameters
    ----------
    membership : array of bool, (n_models, n_samples)
        Which model saw which sample.

    Returns
    -------
    list of str
        Empty if nothing speaks against fair coins.

    Notes
    -----
    χ² tests of the share of all memberships, and of the dispersion of the numbers of models per
    sample and of samples per model: both too even (a number fixed beforehand, models in
    complementary pairs) and too uneven (records that go in together, models of other sizes).
    Too even is judged with half a unit added to each deviation, without which a single exact half
    would be called impossible.

    Examples
    --------
    >>> import numpy as np
    >>> doubts_about_the_coins(np.random.default_rng(0).random((100, 50)) < 0.5)
    []
    >>> half = np.arange(100) % 2 == 0
    >>> doubts_about_the_coins(np.repeat(half[:, None], 50, axis=1))[0]
    'the numbers of models per sample are too even'
    """
    n_models, n_samples = membership.shape
    per_sample = membership.sum(axis=0, dtype=np.int64)
    per_model = membership.sum(axis=1, dtype=np.int64)
    doubts = []
    total = np.array([per_sample.sum()])
    for counts, n_coins, words in (
        (total, n_models * n_samples, ""),
        (per_sample, n_models, "models per sample"),
        (per_model, n_samples, "samples per model"),
    ):
        away = counts - n_coins / 2.0
        uneven = (np.square(away) / (n_coins / 4.0)).sum()
        even = (np.square(np.abs(away) + 0.5) / (n_coins / 4.0)).sum()
        if words and chdtr(counts.size, even) < _LEVEL:
            doubts.append(f"the numbers of {words} are too even")
        elif chdtrc(counts.size, uneven) < _LEVEL:
            doubts.append(
                f"the numbers of {words} are too uneven"
                if words
                else "the share of memberships is not one half"
            )
    return doubts


# --- LiRA: membership inference by a likelihood ratio, fitted on one half of the models ---

Variance = Literal["auto", "fixed", "per-sample"]

_FEWEST_MODELS = 4
_ENOUGH_FOR_OWN_SPREAD = 64
"""From so many models on each sample has a spread of its own (Carlini et al. 2022)."""
_SIMULATIONS = (40, 200)
"""Fewest and most studies without a leak that are simulated where the null has no formula."""
_SIMULATED_ENTRIES = 100_000_000
"""About how many scores are judged in them, all together."""
_SIMULATION_SEED = 20220523
_LARGEST = 1e100

_FAIR = (
    "every model saw every sample or not by a fair coin of its own",
    "models are trained independently of each other",
)


def lira(
    scores: ArrayLike,
    membership: ArrayLike,
    *,
    online: bool = False,
    variance: Variance = "auto",
    delta: float = 0.0,
    confidence: float = 0.95,
) -> MembershipAttack:
    """Attack many models at once to see how well one can tell who was in their training data.

    Many models were trained, each on its own random half of the records. For each record the
    scores of models that had not seen it show what is usual; a model that is surer of the record
    than usual has probably seen it. This is judged for every record and every model, always by
    models that are not judged themselves, and compared with the truth and with chance.

    Parameters
    ----------
    scores : array of float, (n_models, n_samples)
        φ = log(p_y/(1 − p_y)) of every model for every sample: see `scores_from_logits` and
        `scores_from_margins`. Finite.
    membership : array of bool (or 0 and 1), (n_models, n_samples)
        Which model was trained on which sample: by fair coins, not by fixed numbers.
    online : bool
        Whether the attack knows how models score that did see the sample. Offline, as in P5, it
        knows only those that did not.
    variance : {"auto", "fixed", "per-sample"}
        One spread for all samples, pooled within them, or one for each. "auto" is per sample from
        64 models on.
    delta : float in [0, 1)
        The δ at which the bound on ε is meant. For DP-SGD the δ of its guarantee.
    confidence : float in (0, 1)
        Confidence level of each bound by itself.

    Returns
    -------
    MembershipAttack
        Success rates with their null distribution, ROC, and the ε that is proven.

    Raises
    ------
    InputError
        If the arrays do not fit, a score is not finite, there are fewer than 4 models, or no
        sample has enough models to be judged.

    Warns
    -----
    ApproximationWarning
        If some samples could not be judged, or the membership does not look like fair coins.

    Notes
    -----
    Offline: Λ = Φ((φ − μ_out)/σ_out), member if Λ > ½ (P5 section III). Online: the likelihood
    ratio of N(μ_in, σ_in²) and N(μ_out, σ_out²), member if above 1 [1]_.

    *Split.* Models with even index and with odd index are the two halves; each is judged by the
    fit of the other. P5 fits and judges the same models; a binomial bound is not valid for that.

    *Null.* If scores do not depend on membership, then given the scores and the memberships of the
    one half each judgement of the other is right with probability ½, independently over models and
    samples. Offline the two directions have next to nothing to do with each other, and ASR^M is the
    largest of N Binomial(M, ½)/M. Online they do: both succeed where chance moves the scores of
    members the same way in both halves (correlation about 2/π). There the coins are tossed again,
    200 times (40 at least in large studies), and everything is fitted again; a p-value below what
    so many studies can show is a proven upper bound. Where the membership does not look like fair
    coins (numbers fixed beforehand, complementary pairs, other shares), the rows of the membership
    are exchanged as often against those of the scores; bounds are left out then, since models
    need not be independent.

    *Assumptions.* Fair coins, one for each model and sample, and models trained independently.
    The results describe these records and are not themselves private.

    References
    ----------
    .. [1] Carlini, N., Chien, S., Nasr, M., Song, S., Terzis, A. and Tramèr, F. (2022). Membership
       inference attacks from first principles. IEEE Symposium on Security and Privacy.
       arXiv:2112.03570.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((100, 40)) < 0.5
    >>> scores = rng.normal(size=(100, 40))
    >>> attack = lira(scores, membership)                     # nothing leaks
    >>> attack.asr_max, attack.asr_max_null[0.5], round(attack.asr_max_p_value, 2)
    (0.6, 0.61, 0.68)
    >>> scores[:, 0] += 3.0 * membership[:, 0]                # one record does
    >>> attack = lira(scores, membership)
    >>> int(attack.asr.argmax()), attack.asr_max_p_value < 0.01
    (0, True)
    """
    values, members = checked_scores(scores, membership)
    share = as_share(confidence, name="confidence")
    as_delta(delta)
    as_choice(variance, ("auto", "fixed", "per-sample"), name="variance")
    if not isinstance(online, bool | np.bool_):
        raise InputTypeError(f"`online` must be True or False, got {type(online).__name__}.")
    n_models = len(values)
    per_sample = variance == "per-sample" or (
        variance == "auto" and n_models >= _ENOUGH_FOR_OWN_SPREAD
    )
    lowest = values.min(axis=0).astype(np.float64)
    judge = partial(_judge, values, lowest, online=bool(online), per_sample=per_sample)
    return attack_result(
        values,
        members,
        judge,
        null="redrawn coins" if online else "binomial",
        method="lira-online" if online else "lira",
        online=bool(online),
        variance="per-sample" if per_sample else "fixed",
        delta=float(delta),
        confidence=share,
    )


class Judge(Protocol):
    """Counts right judgements and judgements, (2, n_samples) each, by a method that is refitted."""

    def __call__(
        self, membership: BoolArray, quarters: FloatArray, keep: SingleArray | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Judge each half of the models by the fit of the other; `keep` receives the statistics."""


def attack_result(
    values: NDArray[np.floating],
    members: BoolArray,
    judge: Judge,
    *,
    null: Literal["binomial", "redrawn coins", "either half"],
    method: str,
    online: bool,
    variance: Literal["fixed", "per-sample", "shrunk", "none"],
    delta: float,
    confidence: float,
    proof: ProvenEpsilon | None = None,
    most_simulations: int = 200,
    warns: bool = True,
) -> MembershipAttack:
    """Return what a method found, beside what chance would have found and what is proven.

    Parameters
    ----------
    values : array of float, (n_models, n_samples)
        Scores.
    members : array of bool, (n_models, n_samples)
        Membership.
    judge : Judge
        The method.
    null : {"binomial", "redrawn coins", "either half"}
        How the largest rate is distributed if nothing leaks: computed for independent directions of the split,
        simulated, or bounded for directions that depend on each other in any way.
    method, online, variance
        As in `MembershipAttack`.
    delta, confidence : float
        As in `lira`.
    proof : ProvenEpsilon, optional
        The bound on ε if it was found already: it does not depend on the method.
    most_simulations : int
        Studies that are simulated at most.
    warns : bool
        Whether samples that cannot be judged and coins that are not fair give a warning.
    """
    share = confidence
    n_samples = values.shape[1]
    lowest = values.min(axis=0).astype(np.float64)
    quarters = quarter_moments(values, members, lowest)
    statistic = np.empty(values.shape, dtype=np.float32)
    right, judged = judge(members, quarters, statistic)
    n_judged = judged.sum(axis=0)
    known = n_judged > 0
    if not known.any():
        needed = "2 models that saw it and 2" if online else "2 models"
        raise InputError(
            f"a sample can be judged if one half of the models has {needed} that did not see it; "
            f"none of the {n_samples} samples has. Train more models, each on a random half."
        )
    asr = np.where(known, right.sum(axis=0) / np.maximum(n_judged, 1), np.nan)
    asr.setflags(write=False)
    asr_max = float(np.nanmax(asr))
    assumptions = list(_FAIR)
    held_out = HeldOutScores(statistic, members, judged > 0, null != "binomial")
    said = held_out.too_few_models()
    if said:
        assumptions.append(said)
        few = Note(
            "few-shadow-models",
            f"{said}: their success rates rest on fewer models or are NaN. Train more models.",
            "membership",
        )
        if warns:
            few.warn(ApproximationWarning, stacklevel=3)
    doubts = doubts_about_the_coins(members)
    # Without coins nothing is proven but what is true of any attack.
    least, most = 0.0, 1.0
    if doubts:
        proof = None
        simulated = _simulated_maxima(
            values, members, lowest, judge, fair=False, most=most_simulations
        )
        of_maximum, p_value = simulated_null(asr_max, simulated, kind="permutation")
        said = f"the membership does not come from fair coins: {'; '.join(doubts)}"
        assumptions = [
            said,
            "null distribution and p-value by exchanging the models' memberships "
            f"{simulated.size} times: models are exchangeable",
            "not valid then: asr_max_lower_bound and epsilon_lower_bound are 0 and say nothing, the "
            "lower bound of the balanced accuracy is left out",
            *assumptions[len(_FAIR) :],
        ]
        unfair = Note(
            "unfair-coins",
            f"{said}. Lower bounds are 0, which says nothing. Draw every model's membership of every sample by "
            "a fair coin of its own.",
        )
        if warns:
            unfair.warn(ApproximationWarning, stacklevel=3)
    else:
        if null == "redrawn coins":
            simulated = _simulated_maxima(
                values, members, lowest, judge, fair=True, most=most_simulations
            )
            of_maximum, p_value = simulated_null(
                asr_max,
                simulated,
                kind="redrawn coins",
                at_most=p_value_at_most(asr_max, judged),
            )
            assumptions.append(
                f"null distribution by tossing the coins of the membership {simulated.size} times "
                "again"
            )
        elif null == "either half":
            of_maximum = replace(null_of_maximum(judged[judged > 0]), kind="either half")
            p_value = p_value_at_most(asr_max, judged)
            assumptions.append(
                "null distribution and p-value of the larger of both directions of the split, at least as "
                "large as those of their mean"
            )
        else:
            of_maximum = null_of_maximum(n_judged[known])
            p_value = p_value_of_maximum(asr_max, n_judged[known])
        least = float(np.nanmax(weighted_lower_rate(right, judged, level=1.0 - share)))
        # From above it is the rate of wrong judgements that is bounded from below.
        wrong = weighted_lower_rate(judged - right, judged, level=1.0 - share)
        most = float(np.nanmax(1.0 - wrong))
        proof = proof or proven_epsilon(
            values, members, lowest=lowest, quarters=quarters, delta=delta, confidence=share
        )
    return MembershipAttack(
        asr=asr,
        asr_max=asr_max,
        asr_mean=float(np.nanmean(asr)),
        asr_max_null=of_maximum,
        asr_max_p_value=p_value,
        asr_max_lower_bound=least,
        asr_max_upper_bound=most,
        epsilon_lower_bound=0.0 if proof is None else proof.epsilon_lower_bound,
        proof=proof,
        delta=delta,
        confidence=share,
        online=online,
        variance=variance,
        n_models=len(values),
        n_samples=n_samples,
        n_judged=int(known.sum()),
        assumptions=tuple(assumptions),
        held_out=held_out,
        method=method,
    )


def _judge(
    scores: NDArray[np.floating],
    lowest: FloatArray,
    membership: BoolArray,
    quarters: FloatArray,
    keep: SingleArray | None = None,
    *,
    online: bool,
    per_sample: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count right judgements and judgements, per half of the models and sample.

    Half h of the models is judged by the fit of the other; `keep` receives the statistics, which
    are above 0 where the sample is judged a member, and NaN where it cannot be judged.
    """
    n_models, n_samples = scores.shape
    right = np.zeros((2, n_samples), dtype=np.int64)
    judged = np.zeros((2, n_samples), dtype=np.int64)
    for half in (0, 1):
        other = quarters[1 - half] + quarters[3 - half]
        out = fit_normal(other[1], per_sample=per_sample)
        usable = out.usable
        inside = None
        if online:
            inside = fit_normal(other[0], per_sample=per_sample)
            usable = usable & inside.usable
        for block in column_blocks(-(-n_models // 2), n_samples):
            above = scores[half::2, block] - lowest[block]
            statistic = (above - out.mean[block]) / out.spread[block]
            if inside is not None:
                np.square(statistic, out=statistic)
                statistic -= np.square((above - inside.mean[block]) / inside.spread[block])
                statistic *= 0.5
                statistic += np.log(out.spread[block] / inside.spread[block])
            said = statistic > 0.0
            right[half, block] = (said == membership[half::2, block]).sum(axis=0)
            judged[half, block] = statistic.shape[0]
            if keep is not None:
                np.clip(statistic, -1e30, 1e30, out=statistic)
                statistic[:, ~usable[block]] = np.nan
                keep[half::2, block] = statistic
        right[half, ~usable] = 0
        judged[half, ~usable] = 0
    return right, judged


def _simulated_maxima(
    scores: NDArray[np.floating],
    membership: BoolArray,
    lowest: FloatArray,
    judge: Judge,
    *,
    fair: bool,
    most: int,
) -> FloatArray:
    """Return the largest success rates when memberships have nothing to do with scores.

    Fair coins are tossed again; otherwise the models' memberships are exchanged by chance.
    """
    n_models, n_samples = membership.shape
    generator = np.random.default_rng(_SIMULATION_SEED)
    n_draws = min(int(np.clip(_SIMULATED_ENTRIES // scores.size, *_SIMULATIONS)), most)
    found = np.zeros(n_draws)
    for draw in range(n_draws):
        if fair:
            packed = generator.integers(0, 256, size=(n_models, -(-n_samples // 8)), dtype=np.uint8)
            drawn = np.unpackbits(packed, axis=1, count=n_samples).view(np.bool_)
        else:
            drawn = membership[generator.permutation(n_models)]
        quarters = quarter_moments(scores, drawn, lowest)
        right, judged = judge(drawn, quarters)
        total = judged.sum(axis=0)
        found[draw] = np.max(right.sum(axis=0) / np.maximum(total, 1))
    return found


def checked_scores(
    scores: ArrayLike, membership: ArrayLike
) -> tuple[NDArray[np.floating], BoolArray]:
    """Return scores and membership as arrays; refuse what no attack can work with."""
    values = np.asarray(scores)
    if values.dtype not in (np.float32, np.float64):
        if not (np.issubdtype(values.dtype, np.integer) or values.dtype == np.float16):
            raise InputTypeError(
                argument="scores",
                expected="an array of real numbers",
                got=f"values of type {values.dtype}",
                hint="Give the log-odds of each record's label, one row per model.",
            )
        values = values.astype(np.float64)
    members = np.asarray(membership)
    if members.dtype != np.bool_:
        # What pandas gives for its own booleans is an array of objects.
        known = members.dtype.kind in "iuf" or all(
            isinstance(value, bool) for value in members.ravel()[:1]
        )
        if not known or not np.isin(members, (0, 1)).all():
            raise InputTypeError(
                argument="membership",
                expected="an array of True and False, or of 0 and 1",
                got=f"other values of type {members.dtype}",
                hint="Compare with what means in, as in `membership == 1`.",
            )
        members = members.astype(np.bool_)
    if values.ndim != 2 or values.shape != members.shape or values.shape[1] < 1:
        raise InputError(
            f"{setting('scores')} and {setting('membership')} must have the same shape (n_models, "
            f"n_samples), got {values.shape} and {members.shape}. Give one row per model."
        )
    if values.shape[0] < _FEWEST_MODELS:
        raise InputError(
            f"{setting('scores')} must have at least {_FEWEST_MODELS} models, one per row, got "
            f"{values.shape[0]}. Train 64 or more."
        )
    # The largest and smallest tell of every value that is not finite, without a copy.
    if not (float(values.min()) >= -_LARGEST and float(values.max()) <= _LARGEST):
        n_bad = int(np.count_nonzero(~(np.abs(values) <= _LARGEST)))
        raise InputError(
            f"{setting('scores')} must be finite numbers, but {n_bad} of {values.size} are NaN, "
            "infinite or beyond 1e100. A probability that was rounded to 1 gives infinity: use "
            "`scores_from_logits` or `scores_from_margins`."
        )
    return values, members
