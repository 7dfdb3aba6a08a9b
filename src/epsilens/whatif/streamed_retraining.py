# SPDX-License-Identifier: Apache-2.0
"""Really randomise the labels of records on disk and train again.

A record's report in a run is decided by a number that belongs to the run and to the record's position, so
that every piece can be randomised by itself, and again in the same way at every pass. The runs of a cell are
trained side by side, each to convergence on its own labels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens.influence.question import Asked
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.streamed_noise import StreamedGroup, with_groups
from epsilens.models import Problem, minimise
from epsilens.models.passes import Part
from epsilens.models.streamed_records import StreamedRows, uniform_at
from epsilens.whatif.retraining import (
    Checkpoint,
    Run,
    refuse_one_class,
    refuse_unconverged,
    run_seed,
    runs_outcomes,
    seed_name,
)


def retrain_streamed(
    baseline: StreamedBaseline,
    asked: Asked,
    *,
    repeats: int,
    seed: int,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[tuple[str, float, int], Run]:
    """Return what the test set says of every run, by group, ε and repeat."""
    kept = Checkpoint(
        checkpoint,
        {
            "streamed": True,
            "baseline_loss": repr(round(baseline.outcomes.loss, 10)),
            "n_train": baseline.problem.n_rows,
            "n_parameters": baseline.problem.n_parameters,
            "seed": seed,
            "protect": list(asked.names),
            "mechanism": asked.mechanism,
            "domain": asked.label.domain()[1].tolist(),
        },
    )
    cells = [(group, e) for group in asked.groups for e in range(len(asked.epsilons))]
    result: dict[tuple[str, float, int], Run] = {}
    for number, (given, e) in enumerate(cells, start=1):
        group: StreamedGroup = given  # type: ignore[assignment]
        epsilon = asked.epsilons[e]
        name = f"{group.name}\x00{group.key}"
        todo = [r for r in range(repeats) if (name, epsilon, r) not in kept.runs]
        if todo:
            runs = _train(baseline, asked, group, e, todo, seed)
            kept.add([((name, epsilon, r), run) for r, run in zip(todo, runs, strict=True)])
        for repeat in range(repeats):
            result[(group.name, epsilon, repeat)] = kept.runs[(name, epsilon, repeat)]
        if progress is not None:
            progress(number * repeats, len(cells) * repeats, "retrain")
    return result


def _train(
    baseline: StreamedBaseline,
    asked: Asked,
    group: StreamedGroup,
    e: int,
    repeats: list[int],
    seed: int,
) -> list[Run]:
    """Train some runs of a cell side by side."""
    problem, channel = baseline.problem, asked.label_channels[e].matrix
    _, values = asked.label.domain()
    statistics = problem.loss.statistic(values)
    (noise,) = baseline.group_noises([group])
    centre = baseline.linear + noise.shift(channel)
    known = (baseline.curvature,)
    start = minimise(problem, centre[:, None], baseline.theta[:, None], curvatures=known)
    name = seed_name(asked, group)  # type: ignore[arg-type]
    keys = [
        int(run_seed(seed, name, asked.epsilons[e], r).generate_state(1, np.uint64)[0])
        for r in repeats
    ]
    rows = with_groups(problem.rows, [group])
    rows = replace(rows, reading=replace(rows.reading, values=values))
    part = replace(problem, rows=rows).sum(
        _randomised, statistics, np.cumsum(channel, axis=1), keys, what="randomised labels"
    )
    if baseline.is_classifier:
        for counts in part["counts"]:
            refuse_one_class(counts)
    solution = minimise(
        problem,
        part["linear"] / problem.n_rows,
        np.repeat(start.theta, len(repeats), axis=1),
        clusters=np.zeros(len(repeats), dtype=np.intp),
    )
    refuse_unconverged(solution.converged)
    return runs_outcomes(baseline, group, solution.theta)  # type: ignore[arg-type]


def _randomised(
    problem: Problem,
    records: StreamedRows,
    statistics: FloatArray,
    cumulative: FloatArray,
    keys: list[int],
) -> Part:
    """Return the linear term of every run, and how often each label is reported."""
    k = len(statistics)
    labels = np.repeat(records.codes[:, None], len(keys), axis=1)
    members = np.flatnonzero(records.masks[0])
    truth = records.codes[members]
    for run, key in enumerate(keys):
        drawn = uniform_at(records.positions[members], key)
        reports = (drawn[:, None] >= cumulative[truth]).sum(axis=1)
        labels[members, run] = np.minimum(reports, k - 1)
    return {
        "linear": problem.linear_term(np.moveaxis(statistics[labels], 2, 1)),
        "counts": np.array([np.bincount(column, minlength=k) for column in labels.T]),
    }
