# SPDX-License-Identifier: Apache-2.0
"""What a published model gives away of a person's own answer, and what it can give away at most.

The attacker has the model, every other column of the person and the shares of the answers, and guesses the
protected answer by their likelihood. The same guess with a model that never saw the person is the
baseline. Randomised response at ε does not hide what is true
of people like them; it bounds what their own answer adds to that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_epsilon, as_unit
from epsilens.influence.alternatives import Alternatives
from epsilens.mechanisms import guess_ceiling
from epsilens.models.problem import Loss

_CALIBRATION_PAIRS = 20_000
_NEWTON_STEPS = 50


def inference_ceiling(baseline_rate: float, epsilon: float) -> float:
    """Return how often an answer can be guessed at most, once it is released at ε.

    Whoever guesses right with probability b from everything else guesses right with at most
    f(b) = e^ε b / (e^ε b + 1 − b) when the randomised answer is added, whatever they know and
    however they attack.

    Parameters
    ----------
    baseline_rate : float in [0, 1]
        How often the best guess is right with the same release made without the person's own answer.
    epsilon : float in (0, inf]
        The budget of the answer; of several answers together the sum.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the rate is none, or `epsilon` is not greater than 0.

    Notes
    -----
    For every report the posterior odds of any answer are at most e^ε times its prior odds. f is
    increasing and concave, so the bound holds for averages over people too.

    Examples
    --------
    >>> round(inference_ceiling(0.5, 1.0), 3)
    0.731
    >>> inference_ceiling(0.7, float("inf"))
    1.0
    """
    budget, b = as_epsilon(epsilon), as_unit(baseline_rate, name="baseline_rate")
    return 0.0 if b == 0.0 else b / (b + (1.0 - b) * math.exp(-budget))


def answer_ceiling(baseline_rate: float, *, epsilon: float, advantage: float) -> float:
    """Return the smaller of the two ceilings that ε and the advantage of a release prove.

    Parameters
    ----------
    baseline_rate : float in [0, 1]
        How often the best guess is right with the same release made without the person's own answer.
    epsilon : float in (0, inf]
        The budget of the answer; of several answers together the sum.
    advantage : float in [0, 1]
        The largest total variation distance between what two answers lead to.

    Returns
    -------
    float
        The smaller of b + (1 − b)·advantage and e^ε b / (e^ε b + 1 − b).

    Examples
    --------
    >>> from epsilens.channels import RandomizedResponse, UnaryEncoding
    >>> many = RandomizedResponse(k=10, epsilon=1.0)
    >>> round(answer_ceiling(0.5, epsilon=1.0, advantage=many.advantage), 3)
    0.573
    >>> bits = UnaryEncoding(10, 1.0, kind="rappor")
    >>> round(answer_ceiling(0.1, epsilon=1.0, advantage=bits.advantage), 3)
    0.232
    """
    return min(guess_ceiling(baseline_rate, advantage), inference_ceiling(baseline_rate, epsilon))


@dataclass(frozen=True)
class Calibration:
    """How much an attacker believes a model of this noise.

    The log-odds of a candidate answer are `share` times the log of how common it is, plus `evidence` times
    the model's log-likelihood of it. Under much noise the evidence counts for nothing and the most common
    answer is guessed; without noise the model's own probabilities are taken as they are.

    Attributes
    ----------
    share, evidence : float
    """

    share: float
    evidence: float


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class AnswerAttack:
    """Guesses of the protected answers from a model and all other columns.

    Attributes
    ----------
    loss : Loss
        Logistic or softmax: a model that gives probabilities.
    alternatives : Alternatives
        The records, and what the protected features could have been.
    classes : array of int, shape (n,)
        The true class of every record.
    guesses_label : bool
        Whether the label is protected; otherwise the attacker knows it.
    """

    loss: Loss
    alternatives: Alternatives
    classes: NDArray[np.intp]
    guesses_label: bool

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(self.loss.n_outputs, 2)

    @cached_property
    def truth(self) -> NDArray[np.intp]:
        """The protected answers of every record as one number, (n,)."""
        codes = self.alternatives.codes
        return codes * self.n_classes + self.classes if self.guesses_label else codes

    @cached_property
    def log_shares(self) -> FloatArray:
        """How common each candidate is among the records, which the attacker is taken to know."""
        n_candidates = len(self.alternatives.blocks) * (self.n_classes if self.guesses_label else 1)
        counts = np.bincount(self.truth, minlength=n_candidates)
        # An answer that nobody gave is as rare as half a record.
        return np.log(np.maximum(counts, 0.5) / len(self.truth))

    def _likelihoods(self, rows: slice, theta: FloatArray) -> Iterator[FloatArray]:
        """Yield the log-likelihood of each candidate for some rows and B models, (rows, B)."""
        s = self.alternatives.base.predict(theta, rows)
        known = self.classes[rows].astype(np.float64)
        by_output = theta.reshape(self.loss.n_outputs, -1, theta.shape[1])
        for block in self.alternatives.blocks:
            at = s + np.einsum("p,kpb->kb", block, by_output)
            if not self.guesses_label:
                yield -self.loss.value(at, known)
                continue
            for label in range(self.n_classes):
                yield -self.loss.value(at, np.full(len(known), float(label)))

    def calibrate(
        self, theta: FloatArray, whom: BoolArray, generator: np.random.Generator
    ) -> Calibration:
        """Learn how much to believe such models about such people.

        Parameters
        ----------
        theta : array of shape (K·p, B)
            Models that the attacker trained for the purpose.
        whom : array of bool, shape (n, B)
            The people to learn from: those in each model's training data for an attack on such
            people, for a model believes of them what it has seen; the others for the baseline.
        generator : numpy.random.Generator
            Picks the records.
        """
        n_rows, n_models = whom.shape
        rows = np.sort(generator.permutation(n_rows)[: max(_CALIBRATION_PAIRS // n_models, 1)])
        part = replace(
            self,
            alternatives=replace(
                self.alternatives,
                base=self.alternatives.base.take(rows),
                codes=self.alternatives.codes[rows],
            ),
            classes=self.classes[rows],
        )
        chosen = whom[rows]
        evidence = np.stack([value[chosen] for value in part._likelihoods(slice(None), theta)])
        truth = np.broadcast_to(self.truth[rows, None], chosen.shape)[chosen]
        found = _fit_calibration(self.log_shares, evidence, truth)
        # Evidence that points the wrong way is noise: the most common answer is the better guess.
        return found if found.evidence > 0.0 else Calibration(share=1.0, evidence=0.0)

    def successes(self, theta: FloatArray, calibration: Calibration) -> BoolArray:
        """Return whether the guess of each record with each of B models is right, (n, B).

        Right means all protected answers of the record at once.
        """
        n_models = theta.shape[1]
        right = np.empty((len(self.truth), n_models), dtype=bool)
        prior = calibration.share * self.log_shares
        for rows in self.alternatives.base.chunks(width=4 * n_models * self.n_classes):
            truth = self.truth[rows, None]
            best = np.full((len(truth), n_models), -np.inf)
            hit = np.zeros((len(truth), n_models), dtype=bool)
            for candidate, likelihood in enumerate(self._likelihoods(rows, theta)):
                belief = calibration.evidence * likelihood + prior[candidate]
                better = belief > best
                np.copyto(best, belief, where=better)
                np.copyto(hit, truth == candidate, where=better)
            right[rows] = hit
        return right


def _fit_calibration(
    log_shares: FloatArray, evidence: FloatArray, truth: NDArray[np.intp]
) -> Calibration:
    """Fit the two numbers by maximum likelihood: a conditional logit, which is convex.

    Parameters
    ----------
    log_shares : array of shape (C,)
    evidence : array of shape (C, pairs)
        Log-likelihood of every candidate.
    truth : array of int, shape (pairs,)
    """
    features = np.stack([np.broadcast_to(log_shares[:, None], evidence.shape), evidence])
    own = np.take_along_axis(features, truth[None, None, :], axis=1)[:, 0]
    weights = np.array([1.0, 0.0])
    for _ in range(_NEWTON_STEPS):
        utility = np.tensordot(weights, features, axes=1)
        utility -= utility.max(axis=0)
        chances = np.exp(utility)
        chances /= chances.sum(axis=0)
        mean = np.einsum("cn,fcn->fn", chances, features)
        gradient = (own - mean).mean(axis=1)
        centred = features - mean[:, None, :]
        spread = np.einsum("cn,fcn,gcn->fg", chances, centred, centred) / len(truth)
        # A share that is the same for all candidates says nothing: the smallest ridge decides.
        step = np.linalg.solve(spread + 1e-9 * np.eye(2), gradient)
        longest = np.abs(step).max()
        weights = weights + step * min(1.0, 1.0 / max(longest, 1e-12))
        if longest < 1e-8:
            break
    return Calibration(share=float(weights[0]), evidence=float(weights[1]))
