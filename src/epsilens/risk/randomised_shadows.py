# SPDX-License-Identifier: Apache-2.0
"""Shadow models of randomised response: convex fits on random halves, with every answer drawn anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epsilens.channels import simulate
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.influence.alternatives import no_alternatives
from epsilens.influence.baseline import Baseline
from epsilens.influence.question import Asked
from epsilens.models.block_store import BlockStore
from epsilens.models.class_weights import class_totals, class_weights
from epsilens.models.execution import workers
from epsilens.risk.answer_inference import AnswerAttack
from epsilens.risk.convex_ensemble import EnsembleObjective, train_side_by_side
from epsilens.risk.halves import draw_members, model_generator
from epsilens.risk.logits import scores_from_logits, scores_from_margins

__all__ = ["RandomisedShadows", "ShadowOutcome", "scores_and_predictions"]

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int, str], None]
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

    scores: NDArray[np.float32]
    members: NDArray[np.bool_]
    right: NDArray[np.bool_]
    accuracy: FloatArray
    inside: FloatArray | None = None
    outside: FloatArray | None = None

    def guesses(self) -> tuple[FloatArray, FloatArray]:
        """Return `inside` and `outside`, where answers are protected."""
        assert self.inside is not None  # noqa: S101
        assert self.outside is not None  # noqa: S101
        return self.inside, self.outside


@dataclass(frozen=True, repr=False)
class RandomisedShadows:
    """The shadow models that one question needs.

    Parameters
    ----------
    baseline : Baseline
    asked : Asked
    n_models : int
    seed : int
    targets : array of int
        The records whose membership is attacked.
    """

    baseline: Baseline
    asked: Asked
    n_models: int
    seed: int
    targets: NDArray[np.intp]

    def __post_init__(self) -> None:
        if self.baseline.problem.loss.name not in {"logistic", "softmax"}:
            raise InputError(
                "an attack needs a classifier that gives probabilities (logistic regression), got "
                "one of squared loss. Use LogisticRegression."
            )

    @classmethod
    def of_clean_records(cls, baseline: Baseline, *, n_models: int, seed: int) -> Self:
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
        )
        return cls(baseline, asked, n_models, seed, np.arange(baseline.problem.n_rows))

    @cached_property
    def members(self) -> NDArray[np.bool_]:
        """Who is in which model, (n, models); the same halves at every ε."""
        return draw_members(self.seed, range(self.n_models), self.baseline.problem.n_rows)

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
        start = self.baseline.theta
        for e in range(len(self.asked.epsilons)):
            theta = self._train(e, start, store, progress)
            start = theta.mean(axis=1)
            yield self._attack(theta)

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
        blocks = [
            range(first, min(first + BLOCK, self.n_models))
            for first in range(0, self.n_models, BLOCK)
        ]
        total = self.n_models * (len(self.asked.epsilons) + bool(self.asked.names))
        parts = []
        with workers() as team:
            tasks = (partial(self._one_block, e, block, start, store) for block in blocks)
            for block, (number, theta, is_new) in zip(blocks, team.run(tasks), strict=True):
                if is_new:
                    store.write(number, {"theta": theta})
                parts.append(theta)
                if progress is not None:
                    progress(e * self.n_models + block.stop, total, "attack")
        return np.concatenate(parts, axis=1)

    def _one_block(
        self, e: int, block: range, start: FloatArray, store: BlockStore
    ) -> tuple[int, FloatArray, bool]:
        """Return the number of a block, its models, and whether they had to be trained."""
        number = e * (self.n_models // BLOCK + 1) + block.start // BLOCK
        if number in store.done:
            return number, np.asarray(store.read(number)["theta"], dtype=np.float64), False
        return number, self._train_block(e, block, start), True

    def _train_block(self, e: int, models: range, start: FloatArray) -> FloatArray:
        problem, label = self.baseline.problem, self.asked.label
        members = self.members[:, models.start : models.stop]
        values, codes = self._reports(e, models)
        labels = label.y[:, None] if codes is None else label.domain()[1][codes]
        weights = self.baseline.sample_weights[:, None] * members
        if self.baseline.class_weight is not None and label.codes is not None:
            weights *= self._class_weights(
                label.codes[:, None] if codes is None else codes, members
            )
        _refuse_one_class(labels, members)
        share = weights.sum(axis=0) / self.baseline.sample_weights.sum()
        per_record = self.baseline.penalty_per_record * problem.n_rows
        objective = EnsembleObjective(
            problem=problem,
            alternatives=self.asked.alternatives,
            values=values,
            weights=weights,
            penalty_factors=1.0 - per_record + per_record * share,
        )
        n_rows, n_models = members.shape
        spread = np.broadcast_to(labels, (n_rows, n_models)).reshape(-1)
        statistics = problem.loss.statistic(spread).reshape(n_rows, n_models, -1)
        return train_side_by_side(objective, np.moveaxis(statistics, 2, 1), start)

    def _reports(
        self, e: int, models: range
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Draw what every record reports to every model: joint feature values, and labels.

        The random numbers of a model are the same at every ε, so that curves over ε are smooth.
        """
        asked, values, codes = self.asked, [], []
        if e == len(asked.epsilons):
            true_values = np.repeat(asked.alternatives.codes[:, None], len(models), axis=1)
            return true_values if asked.feature_channels else None, None
        for model in models:
            generator = model_generator(self.seed, model, "reports")
            if asked.feature_channels:
                sizes = asked.alternatives.sizes
                digits = np.unravel_index(asked.alternatives.codes, sizes)
                drawn = [
                    simulate(channel, digit, generator)
                    for channel, digit in zip(
                        asked.feature_channels[e].channels, digits, strict=True
                    )
                ]
                values.append(np.ravel_multi_index(tuple(drawn), sizes))
            if asked.label_channels:
                codes.append(simulate(asked.label_channels[e], asked.label.domain()[0], generator))
        return (
            np.stack(values, axis=1) if values else None,
            np.stack(codes, axis=1) if codes else None,
        )

    def _class_weights(self, codes: NDArray[np.int64], members: NDArray[np.bool_]) -> FloatArray:
        """Return the weight of every record's reported class in every model."""
        label, kind = self.asked.label, self.baseline.class_weight
        n_rows, n_models = members.shape
        by_model = np.broadcast_to(codes, (n_rows, n_models))
        result = np.empty((n_rows, n_models))
        for j in range(n_models):
            counted = self.baseline.count_weights * members[:, j]
            totals = class_totals(by_model[:, j], counted, label.n_classes)
            result[:, j] = class_weights(kind, label, totals)[by_model[:, j]]
        return result

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

    def _attack(self, theta: FloatArray) -> ShadowOutcome:
        """Attack the models of one ε."""
        inside, outside = self._guess_answers(theta) if self.asked.names else (None, None)
        attacked = self.baseline.problem.design.take(self.targets)
        classes = self.baseline.label.y[self.targets].astype(np.intp)
        scores = np.empty((self.n_models, len(self.targets)), dtype=np.float32)
        right = np.empty(scores.shape, dtype=bool)
        accuracy = np.empty(self.n_models)
        for first in range(0, self.n_models, BLOCK):
            some = slice(first, first + BLOCK)
            logits = np.moveaxis(attacked.predict(theta[:, some]), 2, 0)
            scores[some], right[some] = scores_and_predictions(logits, classes)
            accuracy[some] = self.baseline.evaluation.accuracies(theta[:, some])
        members = self.members[self.targets].T
        return ShadowOutcome(scores, members, right, accuracy, inside, outside)


def scores_and_predictions(
    logits: NDArray[np.floating], classes: NDArray[np.integer]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return φ and whether the class is predicted, from logits of shape (models, n, outputs)."""
    if logits.shape[2] == 1:
        phi = scores_from_margins(logits[:, :, 0], classes)
        return phi, (logits[:, :, 0] > 0) == (classes == 1)
    return scores_from_logits(logits, classes), logits.argmax(axis=2) == classes


def _refuse_one_class(labels: FloatArray, members: NDArray[np.bool_]) -> None:
    shown = np.broadcast_to(labels, members.shape)
    lowest = np.where(members, shown, np.inf).min(axis=0)
    highest = np.where(members, shown, -np.inf).max(axis=0)
    if not (lowest < highest).all():
        raise EstimateNotTrustworthyError(
            "a random half has records of one class only, and no model: the data are too few. Add "
            "records."
        )
