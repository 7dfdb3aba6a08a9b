# SPDX-License-Identifier: Apache-2.0
"""Shadow models on random halves: convex fits with every answer drawn anew, or DP-SGD."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress, SingleArray
from epsilens.channels.draw import generator_words
from epsilens.errors import EstimateNotTrustworthyError, InputError, setting
from epsilens.influence.alternatives import Alternatives, no_alternatives
from epsilens.influence.any_model import AnyModel
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.perturbed import Reports
from epsilens.influence.question import Asked
from epsilens.influence.wide import is_wide, refuse_matrix
from epsilens.models import Design
from epsilens.models.dp_sgd import DPSGDSettings, score_ensemble
from epsilens.models.label import class_totals, class_weights
from epsilens.models.networks import Floats
from epsilens.models.passes import BlockStore, made_or_kept, make_folder
from epsilens.models.problem import Problem
from epsilens.models.scikit_learn import ClassWeight
from epsilens.models.solver import minimise
from epsilens.risk.answer_inference import AnswerAttack, GuessByLikelihood
from epsilens.risk.logits import scores_from_logits

# --- Who is in which shadow model: every record by a fair coin of its own ---

# Streams of one model that must not share random numbers.
STREAMS = {"coins": 0x51AD, "reports": 0x2E90, "attack": 0xA77C}


def model_generator(seed: int, model: int, stream: str) -> np.random.Generator:
    """Return the random numbers of one shadow model for one purpose.

    They depend on nothing else, so that models may be trained in any order and in blocks of any size.
    """
    return np.random.default_rng(np.random.SeedSequence([seed, STREAMS[stream], model]))


def draw_members(seed: int, models: range, n_records: int) -> BoolArray:
    """Return who is in which model, (n_records, models).

    Examples
    --------
    >>> draw_members(0, range(2, 4), 1000).mean(axis=0).round(1)
    array([0.5, 0.5])
    >>> bool((draw_members(0, range(4), 50)[:, 3] == draw_members(0, range(3, 4), 50)[:, 0]).all())
    True
    """
    columns = [
        model_generator(seed, model, "coins").integers(0, 2, n_records, dtype=np.int8)
        for model in models
    ]
    return np.stack(columns, axis=1).astype(bool)


# --- Convex models side by side, each trained on its own records and its own draw of their answers ---

# A few values are summed one by one, many by counting.
_FEW_VALUES = 6


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class EnsembleObjective:
    """The training objectives of B models.

    Attributes
    ----------
    problem : Problem
        Loss and penalty.
    alternatives : Alternatives
        The records, and what the protected features can add.
    values : array of int, shape (n, B), or None
        What every record reported to every model; None where no feature is protected.
    weights : array of shape (n, B)
        0 for a record that a model does not see.
    penalty_factors : array of shape (B,)
        What the penalty is multiplied by: below 1 where it belongs to the mean over records.
    reports : Reports, optional
        The loss of reported labels, corrected for the noise; None: the labels are in the linear term.
    labels : array of int, shape (n, B), optional
        What label every record reported to every model; only with `reports`.
    """

    problem: Problem
    alternatives: Alternatives
    values: NDArray[np.int64] | None
    weights: FloatArray
    penalty_factors: FloatArray
    reports: Reports | None = None
    labels: NDArray[np.int64] | None = None
    is_quadratic: ClassVar[bool] = False  # an attack needs probabilities

    @property
    def is_convex(self) -> bool:
        """Whether every objective has one minimum."""
        return self.reports is None

    def of_columns(self, columns: NDArray[np.intp]) -> EnsembleObjective:
        """Return the objectives of some models only."""
        if len(columns) == self.weights.shape[1]:
            return self
        return replace(
            self,
            values=None if self.values is None else self.values[:, columns],
            weights=self.weights[:, columns],
            penalty_factors=self.penalty_factors[columns],
            labels=None if self.labels is None else self.labels[:, columns],
        )

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the largest distance that each column of steps moves a predictor."""
        return self.problem.reach(steps)

    def _added(self, theta: FloatArray) -> FloatArray:
        """Return what each joint value adds to the predictors, (V, K, B)."""
        by_output = theta.reshape(self.problem.loss.n_outputs, -1, theta.shape[1])
        added: FloatArray = np.einsum("vp,kpb->vkb", self.alternatives.blocks, by_output)
        return added

    def pull(self, rows: slice, slopes: FloatArray) -> FloatArray:
        """Return Σ_i r_i ⊗ x_i over some rows, with what each reported, (K·p, B)."""
        total = self.alternatives.base.pull(slopes, rows)
        if self.values is None:
            return total
        by_value = _sums_by_value(self.values[rows], slopes, len(self.alternatives.blocks))
        added = np.einsum("vp,vkb->kpb", self.alternatives.blocks, by_value)
        total += added.reshape(total.shape)
        return total

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return the gradients at one column of parameters a model, less a linear term."""
        loss, base, added = self.problem.loss, self.alternatives.base, self._added(theta)
        total = np.zeros_like(theta)
        for rows in base.chunks(width=2 * theta.shape[1] * loss.n_outputs):
            s = base.predict(theta, rows)
            if self.values is not None:
                s = s + np.take_along_axis(added, self.values[rows, None, :], axis=0)
            slopes = loss.mean(s) if self.reports is None else self._corrected_slopes(rows, s)
            slopes *= self.weights[rows, None, :]
            total += self.pull(rows, slopes)
        penalty = self.penalty_factors * self.problem.penalise(theta)
        return total / self.problem.n_rows + penalty - linear

    def _corrected_slopes(self, rows: slice, s: FloatArray) -> FloatArray:
        """Return the slopes of the corrected losses of some rows, (rows, K, B)."""
        assert self.reports is not None  # noqa: S101
        assert self.labels is not None  # noqa: S101
        by_record = np.moveaxis(s, 1, 2)  # (rows, B, K)
        flat = by_record.reshape(-1, s.shape[1])
        slopes = self.reports.reported_slopes(flat, self.labels[rows].ravel())
        return np.moveaxis(slopes.reshape(by_record.shape), 2, 1)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of one model; for several, that of a model such as theirs.

        Several share the mean of their weights and the reports that the first of them received: the
        solver needs a Hessian close to theirs, not one of its own for each.
        """
        base, weights = self.alternatives.base, self.weights.mean(axis=1)
        values = None if self.values is None else self.values[:, 0]
        added = self._added(theta[:, None])[:, :, 0]
        total = np.zeros((len(theta), len(theta)))
        for rows in base.chunks(width=base.n_columns):
            s = base.predict(theta, rows)
            records = base.block(rows)
            if values is not None:
                s = s + added[values[rows]]
                records = records + self.alternatives.blocks[values[rows]]
            if self.reports is None or self.labels is None:
                bend = self.problem.loss.curvature(s)
            else:
                codes = self.labels[rows, 0]
                shown = self.reports.values[codes]
                bend = self.reports.curvatures(s, shown)[np.arange(len(s)), codes]
            bend = bend * weights[rows, None, None]
            total += Design.plain(records).gram(bend)
        # In place: a matrix of 5,000 parameters takes 200 MB.
        total /= self.problem.n_rows
        penalty = self.problem.penalty_hessian()
        penalty *= float(self.penalty_factors.mean())
        total += penalty
        return total


def _sums_by_value(values: NDArray[np.int64], slopes: FloatArray, n_values: int) -> FloatArray:
    """Return the sums over records of r_ikb by the value that record i reported to b, (V, K, B)."""
    _, n_outputs, n_models = slopes.shape
    result = np.empty((n_values, n_outputs, n_models))
    if n_values <= _FEW_VALUES:
        rest = slopes.sum(axis=0)
        for v in range(1, n_values):
            result[v] = np.einsum("ikb,ib->kb", slopes, (values == v).astype(np.float64))
            rest = rest - result[v]
        result[0] = rest
        return result
    place = (values * n_models + np.arange(n_models)).ravel()
    for k in range(n_outputs):
        sums = np.bincount(place, weights=slopes[:, k].ravel(), minlength=n_values * n_models)
        result[:, k] = sums.reshape(n_values, n_models)
    return result


# --- How a block of shadow models is trained: all that it needs, and nothing else ---

# What the solver may keep of models that the shared Hessian does not suit: a Hessian and its factor each.
_OWN_HESSIANS_BYTES = 1 << 29


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class ShadowTraining:
    """Trains convex models on random halves, with every protected answer drawn anew.

    Parameters
    ----------
    problem : Problem
    asked : Asked
        The label, what the protected features could have been, and the channels of every ε.
    sample_weights, count_weights : arrays of shape (n,)
    class_weight : None, "balanced" or mapping of class to weight
    penalty_per_record : float
        See `BaselineModel`.
    seed : int
    is_corrected : bool
        Whether the loss of the label knows the noise.
    """

    problem: Problem
    asked: Asked
    sample_weights: FloatArray
    count_weights: FloatArray
    class_weight: ClassWeight
    penalty_per_record: float
    seed: int
    is_corrected: bool = False

    def train(self, e: int, models: range, *, start: FloatArray) -> FloatArray:
        """Return the parameters of some models at the e-th ε, (K·p, models).

        Parameters
        ----------
        e : int
            One beyond the last is without noise: every answer as it is.
        models : range
        start : array of shape (K·p,)
            Where the search begins.

        Raises
        ------
        EstimateNotTrustworthyError
            If a model has no optimum that can be reached, as on separable data without a penalty.
        """
        # Only so many together that a Hessian and its factor for each fit into memory.
        most = max(1, _OWN_HESSIANS_BYTES // (16 * len(start) ** 2))
        if len(models) > most:
            parts = [
                self.train(e, models[first : first + most], start=start)
                for first in range(0, len(models), most)
            ]
            return np.concatenate(parts, axis=1)
        problem, label = self.problem, self.asked.label
        members = draw_members(self.seed, models, problem.n_rows)
        values, codes = self.reports(e, models)
        labels = label.y[:, None] if codes is None else label.domain()[1][codes]
        weights = self.sample_weights[:, None] * members
        if self.class_weight is not None and label.codes is not None:
            weights *= self._class_weights(
                label.codes[:, None] if codes is None else codes, members
            )
        shown = np.broadcast_to(labels, members.shape)
        lowest = np.where(members, shown, np.inf).min(axis=0)
        highest = np.where(members, shown, -np.inf).max(axis=0)
        if not (lowest < highest).all():
            raise EstimateNotTrustworthyError(
                "a random half has records of one class only, and no model: the data are too few. Add "
                "records."
            )
        share = weights.sum(axis=0) / self.sample_weights.sum()
        per_record = self.penalty_per_record * problem.n_rows
        objective = EnsembleObjective(
            problem=problem,
            alternatives=self.asked.alternatives,
            values=values,
            weights=weights,
            penalty_factors=1.0 - per_record + per_record * share,
        )
        if self.is_corrected and codes is not None:
            return self._train_corrected(e, replace(objective, labels=codes), start)
        by_output = problem.loss.statistic(shown.reshape(-1)).reshape(*members.shape, -1)
        statistics = np.moveaxis(by_output, 2, 1)
        linear = np.zeros((len(start), len(models)))
        for rows in objective.alternatives.base.chunks(width=2 * statistics[0].size):
            linear += objective.pull(rows, weights[rows, None, :] * statistics[rows])
        solution = minimise(
            objective,
            linear / problem.n_rows,
            np.repeat(start[:, None], len(models), axis=1),
            clusters=np.zeros(len(models), dtype=np.intp),
        )
        if not solution.converged.all():
            raise EstimateNotTrustworthyError(
                f"{int(np.sum(~solution.converged))} of {len(models)} shadow models did not "
                "converge: half of the records are separable. Add regularisation."
            )
        return solution.theta

    def _train_corrected(
        self, e: int, objective: EnsembleObjective, start: FloatArray
    ) -> FloatArray:
        """Return the parameters of models whose loss knows the noise of the label."""
        domain = self.asked.label.domain()[1]
        channel = self.asked.label_channels[e].matrix
        reports = Reports(self.problem.loss, domain, np.ones(len(domain)), channel)
        n_models = objective.weights.shape[1]
        solution = minimise(
            replace(objective, reports=reports),
            np.zeros((len(start), n_models)),
            np.repeat(start[:, None], n_models, axis=1),
            clusters=np.zeros(n_models, dtype=np.intp),
        )
        if not solution.converged.all():
            raise EstimateNotTrustworthyError(
                f"{int(np.sum(~solution.converged))} of {n_models} shadow models with forward correction "
                f"did not converge at ε = {self.asked.epsilons[e]:.3g}: the noise is too large for so few "
                f"records. Ask about larger ε, or leave {setting('correction')} out."
            )
        return solution.theta

    def reports(
        self, e: int, models: range
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Draw what every record reports to every model: joint feature values, and labels.

        The random numbers of a model are the same at every ε, so that curves over ε are smooth.
        """
        asked, alternatives = self.asked, self.asked.alternatives
        if e == len(asked.epsilons):
            true_values = np.repeat(alternatives.codes[:, None], len(models), axis=1)
            return true_values if alternatives.sizes else None, None
        values = codes = None
        sizes = alternatives.sizes
        digits = np.unravel_index(alternatives.codes, sizes) if sizes else ()
        if sizes:
            values = np.repeat(alternatives.codes[:, None], len(models), axis=1)
        if asked.label_is_protected:
            true_codes = asked.label.domain()[0]
            codes = np.repeat(true_codes[:, None], len(models), axis=1)
        parts = [part for group in asked.groups for part in asked.channels(group, e)]
        members = [np.flatnonzero(part.group.mask) for part in parts]
        for j, model in enumerate(models):
            generator = model_generator(self.seed, model, "reports")
            for part, rows in zip(parts, members, strict=True):
                if part.features is not None and values is not None:
                    drawn = [
                        channel.draw(digit[rows], generator_words(generator))
                        for channel, digit in zip(part.features.channels, digits, strict=True)
                    ]
                    values[rows, j] = np.ravel_multi_index(tuple(drawn), sizes)
                if part.label is not None and codes is not None:
                    codes[rows, j] = part.label.draw(true_codes[rows], generator_words(generator))
        return values, codes

    def _class_weights(self, codes: NDArray[np.int64], members: BoolArray) -> FloatArray:
        """Return the weight of every record's reported class in every model."""
        label, kind = self.asked.label, self.class_weight
        n_rows, n_models = members.shape
        by_model = np.broadcast_to(codes, (n_rows, n_models))
        result = np.empty((n_rows, n_models))
        for j in range(n_models):
            counted = self.count_weights * members[:, j]
            totals = class_totals(by_model[:, j], counted, label.n_classes)
            result[:, j] = class_weights(kind, label, totals)[by_model[:, j]]
        return result


# --- Shadow models of randomised response: convex fits on random halves, with every answer drawn anew ---

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
    groups : list of pairs of such arrays
        The same for each group of people.
    """

    scores: SingleArray
    members: BoolArray
    right: BoolArray
    accuracy: FloatArray
    inside: FloatArray | None = None
    outside: FloatArray | None = None
    groups: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)


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
    checkpoint : path, optional
        A folder for finished models, which a killed run goes on from.
    progress : callable, optional
        Called with models done, models in all, and what is done.
    is_corrected : bool
        Whether the loss of the label knows the noise.
    groups : sequence of array of bool, shape (n,)
        Groups of people of whom the rates are wanted too.

    Attributes
    ----------
    members : array of bool, shape (n, models)
        Who is in which model; the same halves at every ε.
    training : ShadowTraining
        How a block of models is trained, with what that needs of the baseline and the question.
    attack : AnswerAttack
        The guess of the protected answers.
    """

    baseline: BaselineModel
    asked: Asked
    n_models: int
    seed: int
    targets: NDArray[np.intp]
    checkpoint: str | Path | None = None
    progress: Progress | None = None
    is_corrected: bool = False
    groups: Sequence[BoolArray] = ()
    members: BoolArray = field(init=False)
    training: ShadowTraining = field(init=False)
    attack: AnswerAttack = field(init=False)
    _store: BlockStore = field(init=False)

    def __post_init__(self) -> None:
        baseline, asked, problem = self.baseline, self.asked, self.baseline.problem
        if is_wide(problem.n_parameters):
            raise refuse_matrix(problem.n_parameters, "an attack")
        members = draw_members(self.seed, range(self.n_models), problem.n_rows)
        training = ShadowTraining(
            problem=problem,
            asked=asked,
            sample_weights=baseline.sample_weights,
            count_weights=baseline.count_weights,
            class_weight=baseline.class_weight,
            penalty_per_record=baseline.penalty_per_record,
            seed=self.seed,
            is_corrected=self.is_corrected,
        )
        attack = AnswerAttack(
            loss=problem.loss,
            alternatives=asked.alternatives,
            classes=baseline.label.y.astype(np.intp),
            guesses_label=asked.label_is_protected,
        )
        matrix = asked.alternatives.base.matrix
        store = BlockStore(
            self.checkpoint,
            {
                "protect": list(asked.names),
                "budgets": [sorted(budget.items()) for budget in asked.budgets],
                "sizes": list(asked.alternatives.sizes),
                "models": self.n_models,
                "block": BLOCK,
                "seed": self.seed,
                "loss": problem.loss.name,
                "baseline_loss": repr(round(baseline.outcomes.loss, 10)),
                **({"correction": "forward"} if self.is_corrected else {}),
                **(
                    {"together": [[one.epsilon for one in c] for c in asked.mixed]}
                    if asked.mixed
                    else {}
                ),
            },
            data=(
                matrix if isinstance(matrix, np.ndarray) else matrix.data,
                asked.alternatives.blocks,
                asked.alternatives.codes,
                asked.label.y,
                baseline.sample_weights,
                *(channel.matrix for channel in asked.label_channels),
                *(channel.matrix for channel in asked.feature_channels),
                *(group.mask for group in asked.named_groups if asked.mixed),
            ),
        )
        for name, made in (("members", members), ("training", training), ("attack", attack)):
            object.__setattr__(self, name, made)
        object.__setattr__(self, "_store", store)

    @classmethod
    def of_clean_records(
        cls,
        baseline: BaselineModel,
        *,
        n_models: int,
        seed: int,
        checkpoint: str | Path | None,
        progress: Progress | None,
    ) -> Self:
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
        everybody = np.arange(baseline.problem.n_rows)
        return cls(baseline, asked, n_models, seed, everybody, checkpoint, progress)

    def outcomes(self) -> Iterator[ShadowOutcome]:
        """Train and attack the models of every ε in turn, ε ascending."""
        attacked = self.baseline.problem.design.take(self.targets)
        classes = self.baseline.label.y[self.targets].astype(np.intp)
        members = self.members[self.targets].T
        start = self.baseline.theta
        for e in range(len(self.asked.epsilons)):
            theta = self._train(e, start)
            # A corrected loss need not be convex, and is searched from the model of the true labels.
            start = start if self.is_corrected else theta.mean(axis=1)
            # The guess of every answer, and the scores of the records whose membership is attacked.
            guessed = self._guess_answers(theta) if self.asked.names else []
            inside, outside = guessed[0] if guessed else (None, None)
            scores = np.empty((self.n_models, len(self.targets)), dtype=np.float32)
            right = np.empty(scores.shape, dtype=bool)
            accuracy = np.empty(self.n_models)
            for first in range(0, self.n_models, BLOCK):
                some = slice(first, first + BLOCK)
                logits = np.moveaxis(attacked.predict(theta[:, some]), 2, 0)
                scores[some], right[some] = scores_and_predictions(logits, classes)
                accuracy[some] = self.baseline.evaluation.accuracies(theta[:, some])
            yield ShadowOutcome(scores, members, right, accuracy, inside, outside, guessed[1:])

    def guess_without_answer(self) -> list[FloatArray]:
        """Return how often models of other people's true answers guess those of people not in them.

        One array for everybody, and one for each group.

        That is what somebody can know of a person without the person's answer: everything that is true
        of people alike.
        """
        theta = self._train(len(self.asked.epsilons), self.baseline.theta)
        return [outside for _, outside in self._guess_answers(theta)]

    def _train(self, e: int, start: FloatArray) -> FloatArray:
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
            blocks.values(), made_or_kept(self._store, work, blocks, name="theta"), strict=True
        ):
            parts.append(np.asarray(theta, dtype=np.float64))
            if self.progress is not None:
                self.progress(e * self.n_models + block.stop, total, "attack")
        return np.concatenate(parts, axis=1)

    def _guess_answers(self, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return how often the answers of people in, and not in, each model are guessed.

        A pair for everybody, and one for each group.
        """
        return guess_rates(
            self.attack,
            lambda some: theta[:, some],
            self.members,
            [np.ones(len(self.members), dtype=bool), *self.groups],
            seed=self.seed,
        )


def guess_rates(
    attack: GuessByLikelihood[Any],
    models: Callable[[NDArray[np.intp]], Any],
    members: BoolArray,
    groups: Sequence[BoolArray],
    *,
    seed: int,
) -> list[tuple[FloatArray, FloatArray]]:
    """Return for each group how often the answers of people in, and not in, each model are guessed.

    Parameters
    ----------
    attack : GuessByLikelihood
    models : callable
        From numbers of models to what the attack takes.
    members : array of bool, shape (n, models)
    groups : sequence of array of bool, shape (n,)
    seed : int
    """
    # Calibrated on the models of one half, used on the other.
    n_models = members.shape[1]
    halves = [np.arange(n_models)[side::2] for side in (0, 1)]
    inside, outside = (np.empty((len(groups), n_models)) for _ in range(2))
    for own, other in (halves, halves[::-1]):
        learnt = other[:_CALIBRATION_MODELS]
        for rates, is_in in ((inside, True), (outside, False)):
            calibration = attack.calibrate(
                models(learnt),
                members[:, learnt] == is_in,
                model_generator(seed, int(learnt[0]), "attack"),
            )
            for first in range(0, len(own), BLOCK):
                block = own[first : first + BLOCK]
                right = attack.successes(models(block), calibration)
                whom = members[:, block] == is_in
                for number, group in enumerate(groups):
                    hit, all_of = (right & whom)[group].sum(axis=0), whom[group].sum(axis=0)
                    rates[number, block] = hit / all_of
    return list(zip(inside, outside, strict=True))


def require_probabilities(baseline: BaselineModel | AnyModel) -> None:
    """Refuse a model that an attack has no probabilities of.

    Raises
    ------
    InputError
    """
    if baseline.loss_name not in {"logistic", "softmax", "log"}:
        raise InputError(
            "an attack needs a classifier that gives probabilities, got a model of squared loss. Use "
            "LogisticRegression, or ask about membership alone with `ShadowEnsemble`."
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


def noisy_outcomes(
    baseline: BaselineModel,
    grid: Sequence[DPSGDSettings],
    *,
    n_models: int,
    seed: int,
    targets: NDArray[np.intp],
    checkpoint: str | Path | None,
    progress: Progress | None,
) -> Iterator[ShadowOutcome]:
    """Train and attack the models of every ε in turn.

    Parameters
    ----------
    baseline : BaselineModel
    grid : sequence of DPSGDSettings
        Those of every ε.
    n_models : int
    seed : int
    targets : array of int
        The records whose membership is attacked.
    checkpoint : path or None
        A folder for finished models, which a killed run goes on from.
    progress : callable or None
    """
    # The same halves at every ε, and the records as the network sees them.
    members = draw_members(seed, range(n_models), baseline.problem.n_rows).T
    tables = (baseline.transform(table) for table in (baseline.table, baseline.test_table))
    X, X_test = (t if isinstance(t, np.ndarray) else np.asarray(t.toarray()) for t in tables)
    classes = baseline.label.y.astype(np.int64)
    # Only what is used, since what is scored may be scored on another machine.
    tested_classes = baseline.evaluation.y.astype(np.int64)
    test_weights = baseline.evaluation.weights
    attacked = classes[targets]

    def score(logits: Floats) -> SingleArray:
        """Return φ and right predictions of the attacked records, and the test accuracy last."""
        phi, right = scores_and_predictions(logits[:, : len(attacked)], attacked)
        tested = logits[:, len(attacked) :]
        _, tested_right = scores_and_predictions(tested, tested_classes)
        accuracy = tested_right @ test_weights
        return np.column_stack([phi, right, accuracy]).astype(np.float32)

    for e, settings in enumerate(grid):
        folder = None
        if checkpoint is not None:
            make_folder(Path(checkpoint))
            folder = Path(checkpoint) / f"epsilon-{e}-{n_models}-models"
        found = score_ensemble(
            X,
            classes,
            members,
            settings,
            score=score,
            score_name="scores, right predictions and accuracy",
            X_score=np.concatenate([X[targets], X_test]),
            n_classes=max(baseline.problem.loss.n_outputs, 2),
            random_state=seed,
            checkpoint=folder,
            progress=None
            if progress is None
            else partial(_within, progress, e * n_models, len(grid) * n_models),
        )
        told = np.asarray(found, dtype=np.float32)
        yield ShadowOutcome(
            scores=told[:, : len(attacked)],
            members=members[:, targets],
            right=told[:, len(attacked) : -1] > 0.5,
            accuracy=told[:, -1].astype(np.float64),
        )


def _within(progress: Progress, before: int, total: int, done: int, _: int, what: str) -> None:
    progress(before + done, total, what)
