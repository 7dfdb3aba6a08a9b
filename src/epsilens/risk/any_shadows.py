# SPDX-License-Identifier: Apache-2.0
"""Shadow models of any classifier: trained on random halves with randomised answers, known by what they predict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress, SingleArray
from epsilens.document.wording import epsilon_text
from epsilens.errors import InputError, setting
from epsilens.influence.alternatives import MOST_COMBINATIONS, with_column
from epsilens.influence.any_model import AnyModel, quietly, settings_digest, take_rows
from epsilens.influence.question import Asked
from epsilens.influence.shared_draws import column_sizes, draw_one, keep_levels, report
from epsilens.models.passes import BlockStore, current_passes, made_or_kept
from epsilens.notes import Note
from epsilens.risk.answer_inference import GuessByLikelihood, Rows, shares_of
from epsilens.risk.power import FEWEST_MODELS
from epsilens.risk.randomised_shadows import STREAMS, ShadowOutcome, draw_members, guess_rates

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

SECONDS = 60.0
"""Time for the shadow models of a classifier that is trained again, where none is given."""
MOST_ATTACKED = 3
"""Values of ε at which models are trained and attacked; what is proven is known at all of them."""
_ENOUGH_MODELS = 48
"""Another ε is attacked only where this many models can be trained at each."""
_MEASURED_SHARE = 0.05
"""Share of the time in which it is measured how long a model takes."""
_MOST_MEASURED = 3.0
_BLOCK = 4
_PLAN = 0
"""Number of the block that keeps the plan; those of the models follow."""
_LEAST = 1e-5
"""A probability counts as no closer to 0 or 1 than this."""
_MOST_NUMBERS = 400_000_000
_MOST_PREDICTIONS = 2_000_000


@dataclass(frozen=True)
class ShadowPlan:
    """How many models are trained, and at which ε.

    Attributes
    ----------
    n_models : int
    attacked : tuple of int
        Numbers of the ε at which models are trained, ascending.
    """

    n_models: int
    attacked: tuple[int, ...]


def seconds_per_shadow(
    model: AnyModel, asked: Asked, targets: NDArray[np.intp], seed: int, *, seconds: float
) -> float:
    """Return what a shadow model takes when all workers train some, measured for some of the time given.

    Trees that stop early take another time for every half of the records, and another on the true answers.
    """
    n_workers, n_trained = current_passes().n_workers, 0
    enough = min(_MEASURED_SHARE * seconds, _MOST_MEASURED)
    started = time.perf_counter()
    with quietly():
        while n_trained == 0 or time.perf_counter() - started < enough:
            e = None if n_trained // n_workers % 2 else len(asked.epsilons) - 1
            work = partial(shadow_block, model, asked, seed, targets, e)
            some = [range(m, m + 1) for m in range(n_trained, n_trained + n_workers)]
            for _ in current_passes().map(work, some):
                pass
            n_trained += n_workers
    return (time.perf_counter() - started) / n_trained


def plan_shadows(n_epsilons: int, *, most_models: int, n_fits: float) -> ShadowPlan:
    """Choose the number of models and the ε at which they are trained.

    Parameters
    ----------
    n_epsilons : int
    most_models : int
        Models at every ε, where time allows.
    n_fits : float
        Trainings that time allows; infinity: as many as were asked for, at every ε.

    Examples
    --------
    >>> plan_shadows(30, most_models=256, n_fits=10)
    ShadowPlan(n_models=20, attacked=(29,))
    >>> plan_shadows(30, most_models=256, n_fits=300)
    ShadowPlan(n_models=75, attacked=(0, 14, 29))
    >>> plan_shadows(2, most_models=256, n_fits=math.inf)
    ShadowPlan(n_models=256, attacked=(0, 1))
    """
    # At every ε if time allows; else at the largest, where the attack is strongest, and a few below.
    for n_attacked in (n_epsilons, *range(min(MOST_ATTACKED, n_epsilons), 1, -1)):
        # One set of models more: those of the true answers.
        if n_fits / (n_attacked + 1) >= min(_ENOUGH_MODELS, most_models):
            break
    else:
        n_attacked = 1
    possible = math.floor(min(n_fits, most_models * (n_attacked + 1)) / (n_attacked + 1))
    n_models = min(most_models, max(FEWEST_MODELS, possible))
    places = np.linspace(n_epsilons - 1, 0, n_attacked).round().astype(int)
    return ShadowPlan(n_models, tuple(sorted({int(place) for place in places})))


def shadow_store(
    checkpoint: str | Path | None,
    model: AnyModel,
    asked: Asked,
    targets: NDArray[np.intp],
    *,
    seed: int,
    most_models: int,
    seconds: float,
) -> BlockStore:
    """Return where finished models are kept: by what was asked, not by what time allowed."""
    return BlockStore(
        checkpoint,
        {
            "protect": list(asked.names),
            "budgets": asked.epsilon_setting(),
            "sizes": list(asked.alternatives.sizes),
            "models": most_models,
            "seconds": repr(seconds),
            "seed": seed,
            "estimator": settings_digest(model.estimator),
            "baseline_loss": repr(round(model.outcomes.loss, 10)),
        },
        data=(targets, asked.alternatives.codes, model.label.y, _content(model, asked)),
    )


def _content(model: AnyModel, asked: Asked) -> NDArray[np.uint8]:
    """Return a digest of the records and of the possible answers."""
    categories = repr([domain.categories for domain in asked.features])
    return np.frombuffer(model.content() + categories.encode(), dtype=np.uint8)


def settled_plan(store: BlockStore, make: Callable[[], ShadowPlan]) -> ShadowPlan:
    """Return the plan that a run began with, or make one and keep it.

    A plan rests on measured time. A run that goes on has to train the models that it began with.
    """
    if _PLAN in store.done:
        kept = store.read(_PLAN)
        return ShadowPlan(int(kept["n_models"]), tuple(map(int, kept["attacked"])))
    plan = make()
    store.write(
        _PLAN, {"n_models": np.array(plan.n_models), "attacked": np.array(plan.attacked, dtype=int)}
    )
    return plan


def attacked_note(epsilons: Sequence[float]) -> Note:
    """Say at which ε models were trained and attacked."""
    listed = ", ".join(epsilon_text(at) for at in epsilons)
    return Note(
        "attacked-budgets",
        f"models were trained and attacked at ε = {listed} only. What is proven, and what whoever holds the "
        "randomised answers gets, is stated at every ε.",
    )


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class StoredLikelihoods(GuessByLikelihood[NDArray[np.intp]]):
    """Guesses of the protected answers from log-likelihoods that models have predicted.

    Attributes
    ----------
    truth : array of int, shape (n,)
    log_shares : array of shape (C,)
    stored : array of shape (models, C, n)
    """

    truth: NDArray[np.intp]
    log_shares: FloatArray
    stored: SingleArray

    def n_models(self, models: NDArray[np.intp]) -> int:
        """Return how many models these are."""
        return len(models)

    def row_blocks(self, n_models: int) -> Iterator[slice]:
        """Yield the rows in blocks that fit into memory."""
        step = max(1, (1 << 22) // max(n_models, 1))
        for first in range(0, len(self.truth), step):
            yield slice(first, first + step)

    def likelihoods(self, rows: Rows, models: NDArray[np.intp]) -> Iterator[FloatArray]:
        """Yield the log-likelihood of each candidate for some rows and B models, (rows, B)."""
        for candidate in range(self.stored.shape[1]):
            yield self.stored[models, candidate][:, rows].T.astype(np.float64)


def membership_scores(chances: FloatArray) -> SingleArray:
    """Return φ = log(p/(1 − p)) of the probability that models give to each record's true class.

    A forest of 100 trees knows steps of 0.01 only. A probability of 0 or 1 counts as half the smallest step
    that occurs away from it: further out φ would measure nothing but rounding.

    Examples
    --------
    >>> import numpy as np
    >>> membership_scores(np.array([0.0, 0.5, 0.99])).round(2)
    array([-5.29,  0.  ,  4.6 ], dtype=float32)
    """
    steps = np.minimum(chances, 1.0 - chances)
    steps = steps[steps > 1e-9]
    least = max(_LEAST, 0.5 * float(steps.min())) if len(steps) else _LEAST
    clipped = np.clip(chances, least, 1.0 - least)
    scores: SingleArray = np.log(clipped / (1.0 - clipped)).astype(np.float32)
    return scores


@dataclass(frozen=True, repr=False)
class AnyShadows:
    """The shadow models that one question about any classifier needs.

    Parameters
    ----------
    model : AnyModel
    asked : Asked
    plan : ShadowPlan
    seed : int
    targets : array of int
        The records that are attacked.
    store : BlockStore
        Keeps finished models, which a killed run goes on from.
    progress : callable, optional
    groups : sequence of array of bool, shape (n,)
        Groups of people of whom the rates are wanted too.

    Attributes
    ----------
    members : array of bool, shape (n, models)
        Who is in which model; the same halves at every ε.
    truth : array of int, shape (targets,)
        The protected answers of the attacked records as one number.
    log_shares : array of shape (C,)
    """

    model: AnyModel
    asked: Asked
    plan: ShadowPlan
    seed: int
    targets: NDArray[np.intp]
    store: BlockStore
    progress: Progress | None = None
    groups: Sequence[BoolArray] = ()
    members: BoolArray = field(init=False)
    truth: NDArray[np.intp] = field(init=False)
    log_shares: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        model, asked, plan = self.model, self.asked, self.plan
        n_joint = math.prod(asked.alternatives.sizes)
        if n_joint > MOST_COMBINATIONS:
            raise InputError(
                f"the protected columns have {n_joint} combinations of values, and at most {MOST_COMBINATIONS} can be "
                f"guessed. Name fewer columns in {setting('protect')}, or put them into bins."
            )
        truth, n_candidates = asked.alternatives.codes, n_joint
        if asked.label_is_protected:
            n_classes = model.label.n_classes
            truth, n_candidates = (
                truth * n_classes + model.label.y.astype(np.int64),
                n_joint * n_classes,
            )
        # Memory for what all models predict, and time for predicting every candidate.
        most = min(_MOST_NUMBERS // (n_candidates * plan.n_models), _MOST_PREDICTIONS // n_joint)
        targets = self.targets
        if len(targets) > most:
            chosen = np.random.default_rng(self.seed).permutation(len(targets))[: max(most, 500)]
            targets = np.sort(targets[chosen])
        for name, made in (
            ("members", draw_members(self.seed, range(plan.n_models), model.n_rows)),
            ("truth", truth[targets].astype(np.intp)),
            ("log_shares", shares_of(truth.astype(np.intp), n_candidates)),
            ("targets", targets),
        ):
            object.__setattr__(self, name, made)

    def outcomes(self) -> Iterator[ShadowOutcome]:
        """Train and attack the models of every ε of the plan in turn, ε ascending."""
        members = self.members[self.targets].T
        for number in range(len(self.plan.attacked)):
            stored, right, accuracy = self._train(number)
            log_chances = np.take_along_axis(stored, self.truth[None, None], axis=1)[:, 0].astype(
                np.float64
            )
            scores = membership_scores(np.exp(log_chances))
            guessed = self._guess(stored)
            yield ShadowOutcome(scores, members, right, accuracy, *guessed[0], guessed[1:])

    def guess_without_answer(self) -> list[FloatArray]:
        """Return how often models of other people's true answers guess those of people not in them.

        One array for everybody, and one for each group.
        """
        stored, _, _ = self._train(len(self.plan.attacked))
        return [outside for _, outside in self._guess(stored)]

    def _guess(self, stored: SingleArray) -> list[tuple[FloatArray, FloatArray]]:
        everybody = np.ones(len(self.targets), dtype=bool)
        return guess_rates(
            StoredLikelihoods(self.truth, self.log_shares, stored),
            lambda some: some,
            self.members[self.targets],
            [everybody, *(group[self.targets] for group in self.groups)],
            seed=self.seed,
        )

    def _train(self, number: int) -> tuple[SingleArray, BoolArray, FloatArray]:
        """Return what the models at one ε predict: log-likelihoods, right predictions, test accuracy."""
        n_models, n_epsilons = self.plan.n_models, len(self.plan.attacked)
        before = _PLAN + 1 + number * (n_models // _BLOCK + 1)
        blocks = {
            before + first // _BLOCK: range(first, min(first + _BLOCK, n_models))
            for first in range(0, n_models, _BLOCK)
        }
        e = self.plan.attacked[number] if number < n_epsilons else None
        work = partial(shadow_block, self.model, self.asked, self.seed, self.targets, e)
        parts = []
        with quietly():
            for block, made in zip(
                blocks.values(),
                made_or_kept(self.store, work, blocks, name="predicted"),
                strict=True,
            ):
                parts.append(made)
                if self.progress is not None:
                    done = number * n_models + block.stop
                    self.progress(done, n_models * (n_epsilons + 1), "attack")
        found = np.concatenate(parts)
        n_targets = len(self.targets)
        stored = found[:, : -n_targets - 1].reshape(n_models, -1, n_targets)
        return stored, found[:, -n_targets - 1 : -1] > 0.5, found[:, -1].astype(np.float64)


def shadow_block(
    model: AnyModel,
    asked: Asked,
    seed: int,
    targets: NDArray[np.intp],
    e: int | None,
    models: range,
) -> SingleArray:
    """Train some models and return what they predict of the attacked records, a row for each model.

    A row holds the log-likelihood of every candidate answer for every record, whether its class is predicted, and
    the test accuracy.

    Parameters
    ----------
    model : AnyModel
    asked : Asked
    seed : int
    targets : array of int
    e : int or None
        None: on the true answers.
    models : range
    """
    attacked = take_rows(model.table, targets)
    classes = model.label.y[targets].astype(np.intp)
    sizes = column_sizes(asked)
    rows = []
    for number in models:
        members = np.flatnonzero(draw_members(seed, range(number, number + 1), model.n_rows)[:, 0])
        own = np.random.SeedSequence([seed, STREAMS["reports"], number])
        draw = draw_one(sizes, model.n_rows, own)
        levels = np.ones((len(sizes), model.n_rows))
        if e is not None:
            levels = keep_levels(asked, asked.groups[0], e, model.n_rows)
        reported = report(model, asked, draw, levels)
        trained = model.train(reported.y, seed=draw.seed, table=reported.table, rows=members)
        found = []
        for chances in _candidates(model, asked, trained, attacked):
            log_chances = np.log(np.maximum(chances, np.finfo(np.float64).eps))
            if asked.label_is_protected:
                found.append(log_chances.T)
            else:
                found.append(log_chances[np.arange(len(classes)), classes][None])
        right = model.predict(trained, attacked).argmax(axis=1) == classes
        accuracy = model.outcomes_of(model.predict(trained)).accuracy
        rows.append(np.concatenate([np.concatenate(found).ravel(), right, [accuracy or 0.0]]))
    return np.stack(rows).astype(np.float32)


def _candidates(
    model: AnyModel, asked: Asked, trained: BaseEstimator, attacked: Any
) -> Iterator[FloatArray]:
    """Yield the predicted probabilities for every joint value of the protected features, (targets, K)."""
    if not asked.features:
        yield model.predict(trained, attacked)
        return
    n_rows = int(attacked.shape[0])
    for joint in range(math.prod(asked.alternatives.sizes)):
        table = attacked
        digits = np.unravel_index(joint, asked.alternatives.sizes)
        for domain, digit in zip(asked.features, digits, strict=True):
            table = with_column(table, domain.name, [domain.categories[int(digit)]] * n_rows)
        yield model.predict(trained, table)
