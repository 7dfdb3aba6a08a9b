# SPDX-License-Identifier: Apache-2.0
"""Shadow models of randomised response: convex fits on random halves, with every answer drawn anew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress, SingleArray
from epsilens.errors import InputError
from epsilens.influence.alternatives import no_alternatives
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.question import Asked
from epsilens.influence.wide import is_wide, refuse_matrix
from epsilens.models.block_store import BlockStore
from epsilens.models.dp_sgd import DPSGDSettings, score_ensemble
from epsilens.models.networks import Floats
from epsilens.models.passes import made_or_kept
from epsilens.risk.answer_inference import AnswerAttack
from epsilens.risk.logits import scores_from_logits
from epsilens.risk.shadow_training import ShadowTraining, draw_members, model_generator

BLOCK = 64
_CALIBRATION_MODELS = 16


@dataclass(frozen=True, repr=False)  # scores and members are of single people
class ShadowOutcome:
    """What the shadow models of one ε show.

    Attributes
    ----------
    scores : array of shape (models, targets)
        φ of every attacked record, log(p/(1−p)) at its true class.
    members : array of bool, shape (models, targets)
    right : array of bool, shape (models, targets)
        Whether the class of the record is predicted.
    accuracy : array of shape (models,)
        On the test set.
    inside, outside : arrays of shape (models,), or None
        How often the answers of people in, and not in, the training data are guessed, each by the
        attack that suits them.
    """

    scores: SingleArray
    members: BoolArray
    right: BoolArray
    accuracy: FloatArray
    inside: FloatArray | None = None
    outside: FloatArray | None = None


@dataclass(frozen=True, repr=False)
class RandomisedShadows:
    """The shadow models that one question needs.

    Parameters
    ----------
    baseline : BaselineModel
    asked : Asked
    n_models : int
    seed : int
    targets : array of int
        The records whose membership is attacked.
    """

    baseline: BaselineModel
    asked: Asked
    n_models: int
    seed: int
    targets: NDArray[np.intp]

    def __post_init__(self) -> None:
        n_parameters = self.baseline.problem.n_parameters
        if is_wide(n_parameters):
            raise refuse_matrix(n_parameters, "an attack")

    @classmethod
    def of_clean_records(cls, baseline: BaselineModel, *, n_models: int, seed: int) -> Self:
        """Return the shadow models of records that nothing is done to: one ε, infinity."""
        asked = Asked(
            label=baseline.label,
            names=(),
            label_is_protected=False,
            alternatives=no_alternatives(baseline.problem.design),
            groups=[],
            epsilons=(math.inf,),
            record_epsilons=(math.inf,),
            is_mapping=False,
            label_channels=(),
            feature_channels=(),
            mechanism="rr",
            unary=None,
            budgets=({},),
            notes=[],
            n_answers=(),
        )
        return cls(baseline, asked, n_models, seed, np.arange(baseline.problem.n_rows))

    @cached_property
    def members(self) -> BoolArray:
        """Who is in which model, (n, models); the same halves at every ε."""
        return draw_members(self.seed, range(self.n_models), self.baseline.problem.n_rows)

    @cached_property
    def training(self) -> ShadowTraining:
        """How a block of models is trained, with what that needs of the baseline and the question."""
        baseline, asked = self.baseline, self.asked
        return ShadowTraining(
            problem=baseline.problem,
            label=asked.label,
            alternatives=asked.alternatives,
            label_channels=asked.label_channels,
            feature_channels=asked.feature_channels,
            n_budgets=len(asked.epsilons),
            sample_weights=baseline.sample_weights,
            count_weights=baseline.count_weights,
            class_weight=baseline.class_weight,
            penalty_per_record=baseline.penalty_per_record,
            seed=self.seed,
        )

    @cached_property
    def attack(self) -> AnswerAttack:
        """The guess of the protected answers."""
        return AnswerAttack(
            loss=self.baseline.problem.loss,
            alternatives=self.asked.alternatives,
            classes=self.baseline.label.y.astype(np.intp),
            guesses_label=self.asked.label_is_protected,
        )

    def outcomes(
        self, *, checkpoint: str | Path | None = None, progress: Progress | None = None
    ) -> Iterator[ShadowOutcome]:
        """Train and attack the models of every ε in turn, ε ascending.

        Parameters
        ----------
        checkpoint : path, optional
            A folder for finished models, which a killed run goes on from.
        progress : callable, optional
            Called with models done, models in all, and what is done.
        """
        store = self._store(checkpoint)
        attacked = self.baseline.problem.design.take(self.targets)
        classes = self.baseline.label.y[self.targets].astype(np.intp)
        members = self.members[self.targets].T
        start = self.baseline.theta
        for e in range(len(self.asked.epsilons)):
            theta = self._train(e, start, store, progress)
            start = theta.mean(axis=1)
            # The guess of every answer, and the scores of the records whose membership is attacked.
            inside, outside = self._guess_answers(theta) if self.asked.names else (None, None)
            scores = np.empty((self.n_models, len(self.targets)), dtype=np.float32)
            right = np.empty(scores.shape, dtype=bool)
            accuracy = np.empty(self.n_models)
            for first in range(0, self.n_models, BLOCK):
                some = slice(first, first + BLOCK)
                logits = np.moveaxis(attacked.predict(theta[:, some]), 2, 0)
                scores[some], right[some] = scores_and_predictions(logits, classes)
                accuracy[some] = self.baseline.evaluation.accuracies(theta[:, some])
            yield ShadowOutcome(scores, members, right, accuracy, inside, outside)

    def guess_without_answer(
        self, *, checkpoint: str | Path | None = None, progress: Progress | None = None
    ) -> FloatArray:
        """Return how often models of other people's true answers guess those of people not in them.

        That is what somebody can know of a person without the person's answer: everything that is true
        of people alike.
        """
        theta = self._train(
            len(self.asked.epsilons), self.baseline.theta, self._store(checkpoint), progress
        )
        return self._guess_answers(theta)[1]

    def _store(self, checkpoint: str | Path | None) -> BlockStore:
        asked, baseline = self.asked, self.baseline
        design = asked.alternatives.base
        held = design.matrix if isinstance(design.matrix, np.ndarray) else design.matrix.data
        channels = [
            *(channel.matrix for channel in asked.label_channels),
            *(channel.matrix for channel in asked.feature_channels),
        ]
        return BlockStore(
            checkpoint,
            {
                "protect": list(asked.names),
                "budgets": [sorted(budget.items()) for budget in asked.budgets],
                "sizes": list(asked.alternatives.sizes),
                "models": self.n_models,
                "block": BLOCK,
                "seed": self.seed,
                "loss": baseline.problem.loss.name,
                "baseline_loss": repr(round(baseline.outcomes.loss, 10)),
            },
            data=(
                held,
                asked.alternatives.blocks,
                asked.alternatives.codes,
                asked.label.y,
                baseline.sample_weights,
                *channels,
            ),
        )

    def _train(
        self, e: int, start: FloatArray, store: BlockStore, progress: Progress | None
    ) -> FloatArray:
        """Return the parameters of all models at the e-th ε, (K·p, models).

        One beyond the last is without noise: every answer as it is.
        """
        before = e * (self.n_models // BLOCK + 1)
        blocks = {
            before + first // BLOCK: range(first, min(first + BLOCK, self.n_models))
            for first in range(0, self.n_models, BLOCK)
        }
        total = self.n_models * (len(self.asked.epsilons) + bool(self.asked.names))
        parts = []
        work = partial(self.training.train, e, start=start)
        for block, theta in zip(
            blocks.values(), made_or_kept(store, work, blocks, name="theta"), strict=True
        ):
            parts.append(np.asarray(theta, dtype=np.float64))
            if progress is not None:
                progress(e * self.n_models + block.stop, total, "attack")
        return np.concatenate(parts, axis=1)

    def _guess_answers(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how often the answers of people in, and not in, each model are guessed."""
        # Calibrated on the models of one half, used on the other.
        halves = [np.arange(self.n_models)[side::2] for side in (0, 1)]
        inside, outside = np.empty(self.n_models), np.empty(self.n_models)
        for own, other in (halves, halves[::-1]):
            learnt = other[:_CALIBRATION_MODELS]
            for rates, is_in in ((inside, True), (outside, False)):
                calibration = self.attack.calibrate(
                    theta[:, learnt],
                    self.members[:, learnt] == is_in,
                    model_generator(self.seed, int(learnt[0]), "attack"),
                )
                for first in range(0, len(own), BLOCK):
                    block = own[first : first + BLOCK]
                    right = self.attack.successes(theta[:, block], calibration)
                    whom = self.members[:, block] == is_in
                    rates[block] = (right & whom).sum(axis=0) / whom.sum(axis=0)
        return inside, outside


def require_probabilities(baseline: BaselineModel) -> None:
    """Refuse a model that an attack has no probabilities of.

    Raises
    ------
    InputError
    """
    if baseline.problem.loss.name not in {"logistic", "softmax"}:
        raise InputError(
            "an attack needs a classifier that gives probabilities, got a model of squared loss. Use "
            "LogisticRegression."
        )


def scores_and_predictions(
    logits: NDArray[np.floating], classes: NDArray[np.integer]
) -> tuple[FloatArray, BoolArray]:
    """Return φ and whether the class is predicted, from logits of shape (models, n, outputs)."""
    if logits.shape[2] == 1:
        # The log-odds of class 1, with the sign of the record's own class.
        margins, is_one = logits[:, :, 0], classes == 1
        return np.where(is_one, margins, -margins), (margins > 0) == is_one
    return scores_from_logits(logits, classes), logits.argmax(axis=2) == classes


# --- Shadow models of DP-SGD: noisy training on random halves ---


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class TrainedShadows:
    """The shadow models that one question about DP-SGD needs.

    Parameters
    ----------
    baseline : BaselineModel
    n_models : int
    seed : int
    targets : array of int
        The records whose membership is attacked.
    """

    baseline: BaselineModel
    n_models: int
    seed: int
    targets: NDArray[np.intp]

    @cached_property
    def members(self) -> BoolArray:
        """Who is in which model, (models, n); the same halves at every ε."""
        n_rows = self.baseline.problem.n_rows
        return draw_members(self.seed, range(self.n_models), n_rows).T

    @cached_property
    def features(self) -> tuple[FloatArray, FloatArray]:
        """The training and the test records as the network sees them."""
        return _dense(self.baseline, self.baseline.table), _dense(
            self.baseline, self.baseline.test_table
        )

    def outcome(
        self,
        settings: DPSGDSettings,
        *,
        checkpoint: Path | None = None,
        progress: Progress | None = None,
    ) -> ShadowOutcome:
        """Train and attack the models of one ε."""
        X, X_test = self.features
        classes = self.baseline.label.y.astype(np.int64)
        # Only what is used, since what is scored may be scored on another machine.
        tested_classes = self.baseline.evaluation.y.astype(np.int64)
        test_weights = self.baseline.evaluation.weights
        attacked = classes[self.targets]

        def score(logits: Floats) -> SingleArray:
            """Return φ and right predictions of the attacked records, and the test accuracy last."""
            phi, right = scores_and_predictions(logits[:, : len(attacked)], attacked)
            tested = logits[:, len(attacked) :]
            _, tested_right = scores_and_predictions(tested, tested_classes)
            accuracy = tested_right @ test_weights
            return np.column_stack([phi, right, accuracy]).astype(np.float32)

        found = score_ensemble(
            X,
            classes,
            self.members,
            settings,
            score=score,
            score_name="scores, right predictions and accuracy",
            X_score=np.concatenate([X[self.targets], X_test]),
            n_classes=max(self.baseline.problem.loss.n_outputs, 2),
            random_state=self.seed,
            checkpoint=checkpoint,
            progress=progress,
        )
        told = np.asarray(found, dtype=np.float32)
        return ShadowOutcome(
            scores=told[:, : len(attacked)],
            members=self.members[:, self.targets],
            right=told[:, len(attacked) : -1] > 0.5,
            accuracy=told[:, -1].astype(np.float64),
        )


def _dense(baseline: BaselineModel, table: object) -> FloatArray:
    features = baseline.transform(table)
    return features if isinstance(features, np.ndarray) else np.asarray(features.toarray())
