# SPDX-License-Identifier: Apache-2.0
"""What so many shadow models can detect, and how many are needed to detect an effect.

Two things are decided from an attack. Membership is recognised on average if the lower confidence bound of the
mean success rate over records is above one half. A single record stands out if its own lower bound is, after
correction for the number of records. Both are answered before any model is trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import scipy.optimize
import scipy.stats

from epsilens._validate import as_choice, as_count, as_share
from epsilens.errors import InputError, setting
from epsilens.notes import Note
from epsilens.risk.membership_attack import MembershipAttack

About: TypeAlias = Literal["mean", "record"]

POWER = 0.8
"""Probability of finding an effect, unless another one is asked for."""
MOST_MODELS = 100_000
FEWEST_MODELS = 20
_LARGEST_OFFLINE = 0.25
"""The offline attack is right at most about three times in four: half of all outsiders are above their mean."""
USUAL_MODELS = 256
"""Shadow models that are trained at every ε where no number is given."""
_FEWEST_FOR_A_SPREAD = 4
_WIDER = 1.25
"""A spread so many times the assumed one is reported."""


def detectable_effect(
    n_models: int,
    n_records: int,
    *,
    about: About = "mean",
    power: float = POWER,
    confidence: float = 0.95,
) -> float | None:
    """Return the smallest effect that an attack on so many models finds.

    The effect is the distance of a success rate from one half, which guessing reaches: 0.02 is a rate of 52 %.

    Parameters
    ----------
    n_models : int ≥ 4
        Shadow models at one ε.
    n_records : int ≥ 1
        Records whose membership is attacked.
    about : {"mean", "record"}
        The mean success rate over the records, or the success rate on a single record.
    power : float in (0, 1)
        Probability of finding the effect.
    confidence : float in (0, 1)
        Confidence level of the lower bound that must be above one half.

    Returns
    -------
    float in (0, 0.5] or None
        None if even a record that is always recognised would not stand out.

    Notes
    -----
    *Mean.* The bound is `MembershipAttack.held_out.mean_lower_bound`, Student's t over models. It is above one half
    with the probability that a noncentral t with M − 1 degrees of freedom and noncentrality e·√M/s exceeds the
    central quantile, for the effect e and the standard deviation s of the success rate between models.

    *Record.* Each half of the models is judged by the fit of the other. A record stands out if the mean of its two
    Clopper–Pearson bounds, each at (1 − confidence)/2N, is above one half, as in `weighted_lower_rate`.

    Assumptions
    -----------
    Mean: s² = (¼ − e²)/N for N records, as if one model's judgements of different records were independent. Without a leak they are. If s
    is k times as large, k² times as many models are needed; `spread_ratio` measures k after a run. Record: the record is recognised equally
    often in both halves.

    Examples
    --------
    >>> round(detectable_effect(256, 1000), 4)
    0.0025
    >>> round(detectable_effect(256, 10_000, about="record"), 2)
    0.22
    >>> detectable_effect(20, 10_000, about="record") is None
    True
    """
    models = as_count(n_models, name="n_models", least=_FEWEST_FOR_A_SPREAD)
    records = as_count(n_records, name="n_records")
    as_choice(about, ("mean", "record"), name="about")
    wanted, level = as_share(power, name="power"), as_share(confidence, name="confidence")
    if about == "record":
        return _record_effect(models, records, wanted, level)
    shift = _noncentrality(models, wanted, level)
    # The e with e·√(MN) = shift·√(¼ − e²).
    return 0.5 * shift / math.sqrt(models * records + shift**2)


def models_needed(
    effect: float,
    n_records: int,
    *,
    about: About = "mean",
    power: float = POWER,
    confidence: float = 0.95,
) -> int:
    """Return how many models are needed to find an effect; the inverse of `detectable_effect`.

    Parameters
    ----------
    effect : float in (0, 0.5)
        Distance of the success rate from one half: 0.02 for a rate of 52 %.
    n_records, about, power, confidence
        As of `detectable_effect`.

    Returns
    -------
    int
        At least 20, the fewest that are attacked.

    Raises
    ------
    InputError
        If more than 100,000 models would be needed.

    Examples
    --------
    >>> models_needed(0.01, 300), models_needed(0.2, 1000, about="record")
    (53, 270)
    """
    size = as_share(effect, name="effect")
    if size >= 0.5:
        raise InputError(
            argument="effect",
            expected="greater than 0 and less than 0.5, the distance of a rate from one half",
            got=f"{size:g}",
        )

    def is_found(n_models: int) -> bool:
        found = detectable_effect(
            n_models, n_records, about=about, power=power, confidence=confidence
        )
        return found is not None and found <= size

    enough = FEWEST_MODELS
    while not is_found(enough):
        if enough >= MOST_MODELS:
            least = detectable_effect(
                MOST_MODELS, n_records, about=about, power=power, confidence=confidence
            )
            raise InputError(
                argument="effect",
                expected=f"an effect that {MOST_MODELS:,} models can find",
                got=f"{size:g}",
                hint=f"With {n_records:,} records the smallest is {least:.2g}.",
            )
        enough = min(2 * enough, MOST_MODELS)
    if enough == FEWEST_MODELS:
        return enough
    # Both halves are judged, so an even number is no worse than the odd one above it.
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if is_found(middle) else (middle, enough)
    return enough


def planned_models(
    shadow_models: int | None,
    detect: float | None,
    n_records: int,
    *,
    usual: int,
    online: bool,
    confidence: float,
) -> int:
    """Return how many models are trained: as many as were named, as the effect needs, or the usual number.

    Examples
    --------
    >>> planned_models(None, None, 500, usual=256, online=False, confidence=0.95)
    256
    >>> planned_models(None, 0.005, 500, usual=256, online=False, confidence=0.95)
    126
    """
    if detect is None:
        given = usual if shadow_models is None else shadow_models
        return as_count(given, name="shadow_models", least=FEWEST_MODELS)
    if shadow_models is not None:
        raise InputError(
            f"{setting('detect')} chooses the number of models, and {setting('shadow_models')} names it. Leave one of "
            "them out."
        )
    size, most = as_share(detect, name="detect"), 0.5 if online else _LARGEST_OFFLINE
    if size >= most:
        hint = (
            "The offline attack is right at most about three times in four, an effect of 0.25. "
            f"{setting('online', True)} reaches more."
        )
        raise InputError(
            argument="detect",
            expected=f"greater than 0 and less than {most:g}",
            got=f"{size:g}",
            hint=None if online else hint,
        )
    try:
        return models_needed(size, n_records, confidence=confidence)
    except InputError as error:
        raise InputError(
            argument="detect", expected=error.expected, got=error.got, hint=error.hint
        ) from None


def power_text(n_models: int, n_records: int, *, confidence: float, online: bool = False) -> str:
    """Say what so many models can detect, before they are trained.

    Examples
    --------
    >>> print(power_text(256, 1000, confidence=0.95))
    With 80% probability 256 shadow models find a mean success rate of 50.25% or more over 1,000 records. They
    find a single record that is recognised 70.5% of the time or more. Bounds are at 95% confidence. Assumed: one
    model's judgements of different records are independent.
    """
    least = detectable_effect(n_models, n_records, confidence=confidence)
    record = detectable_effect(n_models, n_records, about="record", confidence=confidence)
    single = (
        "They cannot put the lower bound of a single record above one half. Train more, or attack fewer records."
        if record is None or (record > _LARGEST_OFFLINE and not online)
        else f"They find a single record that is recognised {100 * (0.5 + record):.1f}% of the time or more."
    )
    return (
        f"With {100 * POWER:g}% probability {n_models:,} shadow models find a mean success rate of {_percent(least)} or "
        f"more over {n_records:,} records. {single} Bounds are at {100 * confidence:g}% confidence. Assumed: one model's "
        "judgements of different records are independent."
    )


def power_note(
    n_models: int, n_records: int, *, confidence: float, attacks: Sequence[MembershipAttack] = ()
) -> Note:
    """Say what so many models can detect, and whether the models spread more than was assumed."""
    online = any(attack.online for attack in attacks)
    said = power_text(n_models, n_records, confidence=confidence, online=online)
    widest = max((spread_ratio(attack) for attack in attacks), default=1.0)
    if widest > _WIDER:
        said += (
            f" The success rates of these models spread {widest:.1f} times as much as that, so {widest**2:.1f} times as "
            "many models are needed for the same mean."
        )
    return Note("attack-power", said)


def spread_ratio(attack: MembershipAttack) -> float:
    """Return how much the success rate spreads between models, over what was assumed before the run.

    Parameters
    ----------
    attack : MembershipAttack

    Returns
    -------
    float
        1 where one model's judgements of different records are independent; 1 too if fewer than two models were judged.

    Examples
    --------
    >>> from epsilens.risk import lira
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((200, 50)) < 0.5
    >>> round(spread_ratio(lira(rng.normal(size=(200, 50)), membership)), 1)
    1.0
    """
    rates, sizes = attack.held_out.model_rates()
    rates, sizes = rates[sizes > 0], sizes[sizes > 0]
    if len(rates) < 2:
        return 1.0
    mean = float(rates.mean())
    variance = mean * (1.0 - mean) * float((1.0 / sizes).mean())
    return float(rates.std(ddof=1)) / math.sqrt(variance) if variance > 0.0 else 1.0


@lru_cache(maxsize=256)
def _noncentrality(n_models: int, power: float, confidence: float) -> float:
    """Return the noncentrality with which Student's t exceeds its quantile with the given probability."""
    freedom = n_models - 1
    quantile = scipy.stats.t.ppf(confidence, freedom)
    # At 0 it does so with probability 1 − confidence.
    if power <= 1.0 - confidence:
        return 0.0
    return float(
        scipy.optimize.brentq(
            lambda shift: scipy.stats.nct.sf(quantile, freedom, shift) - power, 1e-9, 60.0
        )
    )


@lru_cache(maxsize=1024)
def _record_effect(n_models: int, n_records: int, power: float, confidence: float) -> float | None:
    """Return how far from one half the rate of a single record must be to stand out among all."""
    n = n_models // 2
    level = (1.0 - confidence) / (2 * n_records)
    hits = np.arange(n + 1)
    low = np.where(hits > 0, scipy.stats.beta.ppf(level, hits, n - hits + 1), 0.0)
    # So many hits in one direction need at least so many in the other.
    needed = np.searchsorted(low, 1.0 - low, side="right")
    if needed[-1] > n:
        return None

    def chance(rate: float) -> float:
        chances = scipy.stats.binom.pmf(hits, n, rate)
        return float(chances @ scipy.stats.binom.sf(needed - 1, n, rate))

    if chance(1.0) < power:
        return None
    if chance(0.5) >= power:
        return 0.0
    found = scipy.optimize.brentq(lambda rate: chance(rate) - power, 0.5, 1.0, xtol=1e-4)
    return float(found) - 0.5


def _percent(effect: float | None) -> str:
    """Write a mean rate with as many digits as its distance from one half needs."""
    above = 0.0 if effect is None else 100.0 * effect
    digits = 1 if above >= 1.0 else min(4, 1 + math.ceil(-math.log10(max(above, 1e-9))))
    return f"{50.0 + above:.{digits}f}%"
