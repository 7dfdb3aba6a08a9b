# SPDX-License-Identifier: Apache-2.0
"""The cost of ε for any model: trained again at a few ε with shared randomness, interpolated between.

Models are really trained at a few values of ε, the *nodes*, each in the same few draws. A draw shares its
randomness over ε, so its outcomes move smoothly, and what a node shows is close to what its neighbours show. The
steps:

1. Train on the true answers, once for every seed of the model, and at the first nodes, spread evenly.
2. Add the node where the curve bends most, and compare what was interpolated there with what is measured. That
   difference is the error of the interpolation on both sides of it.
3. Stop when the error is below the noise of the mean or below the error asked for, or when the time is over.

Between nodes the mean is interpolated by a monotone cubic in the probability a_ε with which an answer is kept for
sure (see `shared_draws`), and the variance of a run by a straight line. The data that a model is trained on depend
on ε through a_ε alone, and the outcomes are nearly straight in it where few answers change. In log ε they fall like
exp(−ε) there, which a cubic between far nodes misses.
Interpolating the runs themselves would average the noise of two nodes away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.interpolate
import scipy.stats

from epsilens._types import FloatArray, Progress
from epsilens.channels import RandomizedResponse
from epsilens.influence.any_model import AnyModel, quietly
from epsilens.influence.question import Asked
from epsilens.influence.shared_draws import (
    SharedDraw,
    column_sizes,
    draw_spread,
    keep_levels,
    report,
)
from epsilens.models.passes import current_passes
from epsilens.notes import Note
from epsilens.whatif.cells import OUTCOMES, CellAnswer
from epsilens.whatif.retraining import (
    RUN_OUTCOMES,
    Checkpoint,
    Run,
    RunKey,
    evaluated,
    run_keys,
    train_clean,
)

if TYPE_CHECKING:
    pass

DRAWS = 5
"""Draws at every node. With fewer there is no interval."""
FIRST_NODES = 5
MOST_NODES = 9
"""Nodes of a curve, unless an error is asked for that takes more."""
_SHARE_OF_NOISE = 0.5
"""Interpolation is good enough once its error is below this share of the standard error of the mean."""
_SHRINKS = 4.0
"""By how much halving an interval shrinks the error of the interpolation at least: a monotone cubic is of second
order where it is flat, and of third or fourth elsewhere."""
_LARGEST_SHARE = 0.5
"""A cell is trusted if the error of its interpolation is below this share of half its interval."""
_DIFFER = 1e-9
_QUANTILES = 399
FIRST_STEP = "training at a few ε"
NEXT_STEP = "training at an ε between"
"""What the steps are called while one waits."""
_CONFIDENCE = 0.9

Task = tuple[int, int, int]
"""Group, ε and draw of a training."""


@dataclass(frozen=True, repr=False)
class CurvePoints:
    """What the trainings show.

    Attributes
    ----------
    clean : array of shape (n_groups, n_draws, n_outcomes)
        Outcomes of models of the true answers, one for each seed; gaps are of the group.
    nodes : list of mapping from ε to array of shape (n_draws, n_outcomes)
        One mapping for each group, by the number of the ε.
    errors : list of mapping from ε to float
        For each group, how far the interpolated loss was from the measured one at added nodes.
    n_fits : int
        Trainings on all records, those taken from a checkpoint included.
    """

    clean: FloatArray
    nodes: list[dict[int, FloatArray]]
    errors: list[dict[int, float]]
    n_fits: int


@dataclass(repr=False)
class CurveTraining:
    """The trainings of one question.

    Parameters
    ----------
    model : AnyModel
    asked : Asked
    n_draws : int
    seed : int
    seconds : float
        Time after which no node is added. The first nodes, and one more, are trained however long it takes.
    max_error : float, optional
        Error of the mean change of loss at which refinement stops, standard error and interpolation together.
    most_nodes : int
    checkpoint : path, optional
    progress : callable, optional
    """

    model: AnyModel
    asked: Asked
    n_draws: int
    seed: int
    seconds: float
    max_error: float | None = None
    most_nodes: int = MOST_NODES
    checkpoint: str | Path | None = None
    progress: Progress | None = None
    _x: FloatArray = field(init=False)
    _draws: list[SharedDraw] = field(init=False)
    _kept: Checkpoint = field(init=False)
    _key: Callable[[str, int, int], RunKey] = field(init=False)
    _done: int = field(default=0, init=False)
    _shown: tuple[int, int, str] = field(default=(0, 0, FIRST_STEP), init=False)
    """Trainings before this step, those that it has, and what it is called."""

    def __post_init__(self) -> None:
        asked, model = self.asked, self.model
        self._x = curve_axis(asked)
        self._draws = draw_spread(
            column_sizes(asked),
            model.n_rows,
            self.n_draws,
            np.random.SeedSequence([self.seed, 0xC0]),
        )
        self._kept, self._key = run_keys(
            self.checkpoint,
            model,
            asked,
            seed=self.seed,
            beside={"method": "curve", "draws": self.n_draws},
        )

    def run(self) -> CurvePoints:
        """Train, refine, and return what was found."""
        deadline = time.monotonic() + self.seconds
        n_groups, n_finite = len(self.asked.groups), len(self._x)
        is_curve = not self.asked.mixed
        # Groups with an ε each: nothing lies between two cells, and all are trained.
        n_first = min(FIRST_NODES, n_finite) if is_curve else n_finite
        first = sorted({int(e) for e in np.linspace(0, n_finite - 1, n_first).round()})
        most = min(self.most_nodes if is_curve and self.max_error is None else n_finite, n_finite)
        n_clean = self.n_draws if self.model.has_own_randomness else 1
        started = time.monotonic()
        n_certain = n_clean + n_groups * self.n_draws * len(first if n_finite else ())
        self._shown = (0, n_certain, FIRST_STEP)
        clean = np.repeat(self._train_clean(n_clean), self.n_draws // n_clean, axis=1)
        nodes: list[dict[int, FloatArray]] = [{} for _ in range(n_groups)]
        errors: list[dict[int, float]] = [{} for _ in range(n_groups)]
        if n_finite:
            self._add(nodes, [(g, int(e)) for g in range(n_groups) for e in first])
        while n_finite:
            wanted = [
                (g, e)
                for g in range(n_groups)
                if (e := self._next_node(clean[g], nodes[g], errors[g], most)) is not None
            ]
            # A round takes as long as the others took for each training.
            each = (time.monotonic() - started) / max(self._done, 1)
            is_late = time.monotonic() + each * len(wanted) * self.n_draws > deadline
            # One node is always added: without it nothing is known of the error between nodes.
            if not wanted or (is_late and any(errors)):
                break
            expected = [self._interpolated(nodes[g])[e] for g, e in wanted]
            # How many rounds follow is not known; a bar of all of them would jump to its end.
            self._shown = (self._done, len(wanted) * self.n_draws, NEXT_STEP)
            self._add(nodes, wanted)
            for (g, e), before in zip(wanted, expected, strict=True):
                errors[g][e] = abs(float(nodes[g][e][:, 0].mean()) - before)
        n_fits = n_clean + self.n_draws * sum(map(len, nodes))
        return CurvePoints(clean, nodes, errors, n_fits)

    def _interpolated(self, nodes: dict[int, FloatArray]) -> FloatArray:
        """Return the mean loss at every finite ε."""
        return interpolate(self._x, {e: runs[:, 0].mean() for e, runs in nodes.items()})

    def _next_node(
        self,
        clean: FloatArray,
        nodes: dict[int, FloatArray],
        errors: dict[int, float],
        most: int,
    ) -> int | None:
        """Return the ε where another node helps most; None if the curve is good enough."""
        left = [e for e in range(len(self._x)) if e not in nodes]
        if not left or len(nodes) >= most:
            return None
        spread = np.array([runs[:, 0].std(ddof=1) for runs in nodes.values()])
        noise = float(np.median(spread)) / math.sqrt(self.n_draws)
        enough = _SHARE_OF_NOISE * noise
        if self.max_error is not None:
            enough = math.sqrt(max(self.max_error**2 - noise**2, 0.0))
        left_over = interpolation_errors(self._x, nodes, errors)
        if errors and max(left_over) <= enough:
            return None
        curve = self._interpolated(nodes)
        places = sorted(nodes)
        chords = np.interp(self._x, self._x[places], curve[places])
        # Where nothing is known of the error, how far the curve is from a straight line tells the order.
        score = (
            np.abs(curve - chords) * (1e-3 + np.array(left_over))
            if errors
            else np.abs(curve - chords)
        )
        score[places] = -1.0
        # The middle of the interval, not the point next to a node.
        best = int(np.argmax(score))
        below = max(e for e in places if e < best)
        above = min(e for e in places if e > best)
        return (below + above) // 2

    def _add(self, nodes: list[dict[int, FloatArray]], cells: Sequence[tuple[int, int]]) -> None:
        """Train all draws of some cells."""
        tasks = [(g, e, d) for g, e in cells for d in range(self.n_draws)]
        found = self._train(tasks).reshape(len(cells), self.n_draws, -1)
        for (g, e), runs in zip(cells, found, strict=True):
            nodes[g][e] = runs

    def _train_clean(self, n_clean: int) -> FloatArray:
        """Return the outcomes of models of the true answers for every group, (n_groups, n_clean, n_outcomes)."""
        names = [group.name for group in self.asked.groups]
        tasks = {
            self._draws[d].seed: [self._key(name, -1, d) for name in names] for d in range(n_clean)
        }
        self._run(partial(train_clean, self.model, self.asked), tasks)
        return np.array(
            [
                [_numbers(self._kept.runs[self._key(name, -1, d)]) for d in range(n_clean)]
                for name in names
            ]
        )

    def _train(self, tasks: list[Task]) -> FloatArray:
        """Return the outcomes of trainings, (n_tasks, n_outcomes)."""
        asked = self.asked
        places = {(g, e, d): [self._key(asked.groups[g].name, e, d)] for g, e, d in tasks}
        self._run(partial(train_task, self.model, asked, self._draws), places)
        return np.array([_numbers(self._kept.runs[places[task][0]]) for task in tasks])

    def _run(self, work: Callable[[Any], list[Run]], places: Mapping[Any, list[RunKey]]) -> None:
        """Do the tasks whose runs are not kept yet, and keep their runs under the given keys."""
        todo = [
            task for task, keys in places.items() if any(k not in self._kept.runs for k in keys)
        ]
        self._done += len(places) - len(todo)
        with quietly(), closing(current_passes().map(work, todo)) as results:
            for task, runs in zip(todo, results, strict=True):
                self._kept.add(list(zip(places[task], runs, strict=True)))
                self._done += 1
                self._tell()
        self._tell()

    def _tell(self) -> None:
        """Say how many trainings of this step are done."""
        if self.progress is not None:
            before, total, what = self._shown
            self.progress(min(self._done - before, total), total, what)


def _numbers(run: Run) -> list[float]:
    return [np.nan if one is None else one for one in run]


def train_task(model: AnyModel, asked: Asked, draws: Sequence[SharedDraw], task: Task) -> list[Run]:
    """Train a model on what a group reports in one draw, and evaluate it."""
    g, e, d = task
    levels = keep_levels(asked, asked.groups[g], e, model.n_rows)
    reported = report(model, asked, draws[d], levels)
    trained = model.train(reported.y, seed=draws[d].seed, table=reported.table)
    return evaluated(model, trained, [asked.groups[g]])


def curve_axis(asked: Asked) -> FloatArray:
    """Return the places of the ε that change answers on the axis of the curve: the mean a_ε of the protected columns.

    Where groups or columns have an ε each, cells are only numbered.
    """
    if asked.mixed:
        return np.arange(len(asked.epsilons), dtype=np.float64)
    if asked.is_mapping:
        changes = any(math.isfinite(own) for own in asked.budgets[0].values())
        return np.zeros(int(changes))
    finite = [e for e, at in enumerate(asked.epsilons) if math.isfinite(at)]
    levels = []
    for e in finite:
        features = asked.feature_channels[e].channels if asked.feature_channels else ()
        channels = [*features, *asked.label_channels[e : e + 1]]
        levels.append(np.mean([one.a for one in channels if isinstance(one, RandomizedResponse)]))
    # Beyond ε = 36 all a_ε are 1 in floating point, and places must differ.
    result: FloatArray = np.array(levels) + _DIFFER * np.log([asked.epsilons[e] for e in finite])
    return result


def interpolate(x: FloatArray, known: dict[int, float]) -> FloatArray:
    """Return a monotone cubic through the known values at all places.

    Examples
    --------
    >>> import numpy as np
    >>> interpolate(np.arange(3.0), {0: 1.0, 2: 5.0})
    array([1., 3., 5.])
    """
    places = sorted(known)
    values = np.array([known[place] for place in places])
    if np.isnan(values).any():
        return np.full(len(x), np.nan)
    if len(places) == 1:
        return np.full(len(x), values[0])
    found: FloatArray = scipy.interpolate.PchipInterpolator(x[places], values)(x)
    return found


def interpolation_errors(
    x: FloatArray, nodes: dict[int, FloatArray], errors: dict[int, float]
) -> list[float]:
    """Return the estimated error of the interpolated loss at every ε; 0 at nodes.

    The error at an added node is what the interpolation missed there. On both sides, whose intervals are half as
    long, at most a quarter of it is left. In an interval that was never tested the error is at most the largest
    such one, and at most the distance of the curve from a straight line.
    """
    places = sorted(nodes)
    untested = max(errors.values(), default=math.inf)
    curve = interpolate(x, {e: float(runs[:, 0].mean()) for e, runs in nodes.items()})
    bends = np.abs(curve - np.interp(x, x[places], curve[places]))
    result = [0.0] * len(x)
    for below, above in pairwise(places):
        known = [errors[e] / _SHRINKS for e in (below, above) if e in errors]
        for e in range(below + 1, above):
            result[e] = max(known) if known else min(untested, float(bends[e]))
    return result


def curve_answers(points: CurvePoints, asked: Asked, baseline: FloatArray) -> list[CellAnswer]:
    """Return the cells of a curve: measured at its nodes, estimated between.

    Parameters
    ----------
    points : CurvePoints
    asked : Asked
    baseline : array of shape (n_groups, n_outcomes)
        Outcomes before anything is randomised, which changes are counted from.
    """
    x = curve_axis(asked)
    answers = []
    for g in range(len(asked.groups)):
        nodes = points.nodes[g]
        errors = interpolation_errors(x, nodes, points.errors[g]) if nodes else []
        n_draws = points.clean.shape[1]
        means = {e: runs.mean(axis=0) for e, runs in nodes.items()}
        # Of one run, and of its difference from the model of the true answers with the same seed.
        squares = {
            e: (runs.var(axis=0, ddof=1), (runs - points.clean[g]).var(axis=0, ddof=1))
            for e, runs in nodes.items()
        }
        curves = [
            interpolate(x, {e: float(mean[o]) for e, mean in means.items()}) if nodes else x
            for o in range(len(RUN_OUTCOMES))
        ]
        spreads = [
            [
                np.interp(x, x[sorted(nodes)], [squares[e][which][o] for e in sorted(nodes)])
                if nodes
                else x
                for o in range(len(RUN_OUTCOMES))
            ]
            for which in (0, 1)
        ]
        for e in range(len(asked.epsilons)):
            is_clean = e >= len(x)
            if is_clean:
                mean, of_run = points.clean[g].mean(axis=0), points.clean[g].var(axis=0, ddof=1)
                of_change = np.zeros_like(of_run)
            else:
                mean = np.array([curve[e] for curve in curves])
                of_run, of_change = (np.array([one[e] for one in which]) for which in spreads)
            answers.append(
                _answer(
                    g,
                    e,
                    mean - baseline[g],
                    np.sqrt(of_run),
                    np.sqrt(of_run + of_change / n_draws),
                    n_draws,
                    error=0.0 if is_clean else errors[e],
                    is_node=is_clean or e in nodes,
                )
            )
    return answers


def _answer(
    g: int,
    e: int,
    change: FloatArray,
    spread: FloatArray,
    width: FloatArray,
    n_draws: int,
    *,
    error: float,
    is_node: bool,
) -> CellAnswer:
    """Return a cell, with the interval of one run by Student's t with draws − 1 degrees of freedom.

    Parameters
    ----------
    spread : array of shape (n_outcomes,)
        Standard deviation of a run.
    width : array of shape (n_outcomes,)
        That of the difference between a new run, counted from the mean of all models of the true answers, and the
        stated change.
    """
    known = {name: place for place, name in enumerate(RUN_OUTCOMES) if not np.isnan(change[place])}
    half, runs = np.full(len(change), np.nan), np.empty(0)
    if n_draws >= DRAWS:
        half = scipy.stats.t.ppf(0.5 + _CONFIDENCE / 2, n_draws - 1) * width
        levels = np.arange(1, _QUANTILES + 1) / (_QUANTILES + 1)
        runs = change[0] + scipy.stats.t.ppf(levels, n_draws - 1) * width[0]
        runs = runs + np.where(levels < 0.5, -error, error)
    has_interval = n_draws >= DRAWS
    loss_half = float(half[0]) + error
    return CellAnswer(
        group_index=g,
        epsilon_index=e,
        loss_change=float(change[0]),
        loss_low=float(change[0]) - loss_half,
        loss_high=float(change[0]) + loss_half,
        changes={name: float(change[known[name]]) if name in known else None for name in OUTCOMES},
        intervals={
            name: (
                float(change[known[name]] - half[known[name]]),
                float(change[known[name]] + half[known[name]]),
            )
            for name in OUTCOMES
            if name in known and has_interval
        },
        trusted=is_node
        or error <= _LARGEST_SHARE * float(half[0] if has_interval else 2.0 * spread[0]),
        loss_runs=runs,
        number_type="measured" if is_node else "estimated",
    )


def curve_notes(points: CurvePoints, n_draws: int, n_cells: int) -> list[Note]:
    """Say how many models were trained, and what is missing without more."""
    n_nodes = sum(map(len, points.nodes))
    notes = [
        Note(
            "trained-again",
            f"{points.n_fits} models were trained: {n_draws} draws at {n_nodes} of {n_cells} cells, which are measured, "
            "and the models of the true answers."
            + (" The other cells are interpolated." if n_nodes < n_cells else ""),
        )
    ]
    n_still = sum(
        float(np.ptp(runs[:, 0])) == 0.0 and n_draws >= DRAWS
        for nodes in points.nodes
        for runs in nodes.values()
    )
    if n_still:
        notes.append(
            Note(
                "no-change-drawn",
                f"at {n_still} ε all {n_draws} draws gave the same loss. What a rare changed answer would do is not in "
                "these intervals.",
            )
        )
    if n_draws < DRAWS:
        notes.append(
            Note(
                "no-intervals",
                f"no interval is stated: it takes at least {DRAWS} draws, got {n_draws}.",
            )
        )
    return notes


def baseline_outcomes(points: CurvePoints) -> FloatArray:
    """Return the mean outcomes of models of the true answers, (n_groups, n_outcomes)."""
    means: FloatArray = points.clean.mean(axis=1)
    return means


def node_runs(
    points: CurvePoints, asked: Asked, baseline: FloatArray
) -> list[tuple[str, float, int, float, float, float]]:
    """Return every training at a node: group, ε, draw, and the changes of loss, accuracy and AUC."""
    rows = []
    for g, group in enumerate(asked.groups):
        for e in sorted(points.nodes[g]):
            for d, run in enumerate(points.nodes[g][e] - baseline[g]):
                rows.append((group.name, asked.epsilons[e], d, *run[:3].tolist()))
    return rows
