# SPDX-License-Identifier: Apache-2.0
"""What a membership attack on many models found, beside what chance alone would have found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import logit, ndtri

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_share
from epsilens.risk.proven_epsilon import ProvenEpsilon
from epsilens.risk.roc import BalancedAccuracy, HeldOutScores, balanced_accuracy
from epsilens.risk.success_rate import NullOfMaximum

OFFLINE_THRESHOLD = 0.95
"""Above this Λ the offline attack says "member" where balanced accuracy is asked for."""


@dataclass(frozen=True, eq=False)
class MembershipAttack:
    """How well an attacker tells who was in the training data, and what that proves.

    The success rate of a record is the share of models for which the attack says rightly whether
    they had seen it. The largest of these rates is large by chance alone, so it comes with what
    chance would give, with a p-value, and with a bound below which the most exposed record's rate
    is not.

    Attributes
    ----------
    asr : array of float64, (n_samples,)
        Success rate on each sample, P5's ASR(x). **Sensitive**: it says which records are exposed,
        and is in neither `to_dict` nor `repr`. NaN for samples that could not be judged; their
        number is in `assumptions`.
    asr_max, asr_mean : float in [0, 1]
        The largest rate, P5's ASR^M, and the mean.
    asr_max_null : NullOfMaximum
        Quantiles (`[0.05]`, `[0.5]`, `[0.95]`, …) and `mean` of the largest rate if no sample
        leaked.
    asr_max_p_value : float in (0, 1]
        How often the largest rate would be this large if no sample leaked.
    asr_max_lower_bound : float
        With the stated confidence the attack, as fitted here, is right on new models of the most
        exposed sample at least this often. 0 where the membership does not come from fair coins.
    asr_max_upper_bound : float
        With the stated confidence the attack is right on no sample more often than this.
    epsilon_lower_bound : float
        With the stated confidence the training's ε is at least this, at `delta`. 0 where the
        membership does not come from fair coins.
    proof : ProvenEpsilon or None
        The guesses behind `epsilon_lower_bound`.
    delta : float in [0, 1)
        The δ at which ε is meant.
    confidence : float in (0, 1)
        Confidence level of each bound by itself.
    online : bool
        Whether the attack also looked at models that saw the sample.
    variance : {"fixed", "per-sample"}
        Whether scores were taken to spread alike on all samples.
    n_models, n_samples, n_judged : int
        Models, samples, and samples that could be judged.
    assumptions : tuple of str
        What is taken for granted, what was left out, and why.
    held_out : HeldOutScores
        Standardised scores of every model and sample. **Sensitive**, as `asr`.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.risk import lira
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((200, 50)) < 0.5
    >>> attack = lira(2.0 * membership + rng.normal(size=(200, 50)), membership)
    >>> attack
    MembershipAttack(asr_max=0.790, by chance up to 0.610, p=1.3e-15, at least 0.632; ...)
    >>> round(attack.auc, 2), round(attack.tpr_at_fpr(0.01), 2)
    (0.92, 0.35)
    """

    asr: FloatArray
    asr_max: float
    asr_mean: float
    asr_max_null: NullOfMaximum
    asr_max_p_value: float
    asr_max_lower_bound: float
    asr_max_upper_bound: float
    epsilon_lower_bound: float
    proof: ProvenEpsilon | None
    delta: float
    confidence: float
    online: bool
    variance: Literal["fixed", "per-sample"]
    n_models: int
    n_samples: int
    n_judged: int
    assumptions: tuple[str, ...]
    held_out: HeldOutScores = field(repr=False)

    def asr_quantile(self, probability: float) -> float:
        """Return a quantile of the success rates over the judged samples.

        Parameters
        ----------
        probability : float in (0, 1)
            0.99 for the rate that one sample of a hundred exceeds.
        """
        share = as_share(probability, name="probability")
        return float(np.nanquantile(self.asr, share))

    def balanced_accuracy(self, threshold: float | None = None) -> BalancedAccuracy:
        """Return how often the attack is right on members and on others, each with half weight.

        P5's rule, Λ > ½, takes half of all outsiders for members and cannot do better than about
        three in four. A stricter threshold reaches 1 when the leak is large.

        Parameters
        ----------
        threshold : float in (0, 1), optional
            The attack says "member" where Λ is above it. To be chosen without looking at these
            models. By default 0.95 for the offline attack and 0.5 for the online one, whose Λ is
            the probability of membership.

        Returns
        -------
        BalancedAccuracy
            Per sample, the maximum and its lower bound for all samples at once.

        Examples
        --------
        >>> import numpy as np
        >>> from epsilens.risk import lira
        >>> rng = np.random.default_rng(0)
        >>> membership = rng.random((200, 50)) < 0.5
        >>> attack = lira(9.0 * membership + rng.normal(size=(200, 50)), membership)
        >>> round(attack.asr_mean, 2), round(attack.balanced_accuracy().mean, 2)
        (0.75, 0.97)
        """
        share = (0.5 if self.online else OFFLINE_THRESHOLD) if threshold is None else threshold
        share = as_share(share, name="threshold")
        return balanced_accuracy(
            self.held_out,
            cut=float(logit(share) if self.online else ndtri(share)),
            threshold=share,
            confidence=self.confidence,
            with_bound=self.proof is not None,
        )

    def roc(self, n_points: int = 2000) -> tuple[FloatArray, FloatArray]:
        """Return the rates of false and of true alarms as the threshold falls.

        Parameters
        ----------
        n_points : int, at least 4
            About how many thresholds; half of them close together where false alarms are rare.

        Returns
        -------
        fpr, tpr : array of float64
            Over all judged pairs of model and sample, both increasing.
        """
        return self.held_out.roc(as_count(n_points, name="n_points", least=4))

    @cached_property
    def auc(self) -> float:
        """Area under the ROC: how often a member scores above an outsider."""
        return self.held_out.auc()

    def tpr_at_fpr(self, fpr: float = 0.01) -> float:
        """Return the share of members found when at most this share of outsiders is accused.

        Parameters
        ----------
        fpr : float in (0, 1)
            Largest share of false alarms.

        Returns
        -------
        float in [0, 1]
            Over all judged pairs. With fewer than 1/fpr outsiders no false alarm is allowed.
        """
        return self.held_out.tpr_at_fpr(as_share(fpr, name="fpr"))

    def tpr_interval(
        self, fpr: float = 0.01, *, n_resamples: int = 1000, seed: int = 0
    ) -> tuple[float, float]:
        """Return an interval for `tpr_at_fpr`, by drawing the models again with replacement.

        Scores of one model belong together, so that models are drawn, not pairs. The threshold is
        found anew in every draw. Weak below some tens of models, and where fewer than about ten
        false alarms are allowed in all.

        Parameters
        ----------
        fpr : float in (0, 1)
            Largest share of false alarms.
        n_resamples : int, at least 1
            How often the models are drawn.
        seed : int
            Seed of the draws: the interval is repeatable.

        Returns
        -------
        low, high : float in [0, 1]
            Percentiles at the attack's confidence.
        """
        return self.held_out.tpr_interval(
            as_share(fpr, name="fpr"),
            confidence=self.confidence,
            n_resamples=as_count(n_resamples, name="n_resamples"),
            seed=as_count(seed, name="seed", least=0),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the numbers that describe no single record, ready for JSON."""
        return {
            "asr_max": self.asr_max,
            "asr_mean": self.asr_mean,
            "asr_max_null_mean": self.asr_max_null.mean,
            "asr_max_null_q05": self.asr_max_null[0.05],
            "asr_max_null_q50": self.asr_max_null[0.5],
            "asr_max_null_q95": self.asr_max_null[0.95],
            "asr_max_null_kind": self.asr_max_null.kind,
            "asr_max_p_value": self.asr_max_p_value,
            "asr_max_lower_bound": self.asr_max_lower_bound,
            "asr_max_upper_bound": self.asr_max_upper_bound,
            "auc": self.auc,
            "tpr_at_fpr_0_001": self.tpr_at_fpr(0.001),
            "tpr_at_fpr_0_01": self.tpr_at_fpr(0.01),
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "delta": self.delta,
            "confidence": self.confidence,
            "online": self.online,
            "variance": self.variance,
            "n_models": self.n_models,
            "n_samples": self.n_samples,
            "n_judged": self.n_judged,
            "assumptions": list(self.assumptions),
        }

    def __repr__(self) -> str:
        """Return the numbers that describe no single record."""
        least = "" if self.proof is None else f", at least {self.asr_max_lower_bound:.3f}"
        proven = (
            "no bound on epsilon"
            if self.proof is None
            else f"epsilon at least {self.epsilon_lower_bound:.3g}"
        )
        return (
            f"MembershipAttack(asr_max={self.asr_max:.3f}, by chance up to "
            f"{self.asr_max_null[0.95]:.3f}, p={self.asr_max_p_value:.2g}{least}; {proven})"
        )
