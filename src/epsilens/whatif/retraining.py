# SPDX-License-Identifier: Apache-2.0
"""The truth: draw the randomised labels, train again to convergence, many times.

Every run has its own seed, made of the study's seed, the group, the ε and the repeat, so a run does
not depend on which others were done. Finished runs are appended to a checkpoint file; a killed
retraining goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, Progress
from epsilens.channels import UnaryEncoding, simulate
from epsilens.channels.draw import generator_words
from epsilens.data.atomic import replacing
from epsilens.errors import EstimateNotTrustworthyError, InputError, system_refusal
from epsilens.influence.alternatives import Alternatives
from epsilens.influence.any_model import AnyModel, quietly, settings_digest
from epsilens.influence.baseline import BaselineModel, TrainedModel
from epsilens.influence.groups import Group
from epsilens.influence.question import Asked
from epsilens.influence.realised import realised_runs
from epsilens.influence.shared_draws import column_sizes, draw_one, keep_levels, report
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.streamed_noise import StreamedGroup, with_groups
from epsilens.influence.wide import curvature_finder, is_wide, refuse_matrix
from epsilens.models import Problem, minimise
from epsilens.models.passes import Part, current_passes
from epsilens.models.solver import Solution
from epsilens.models.streamed_records import StreamedRows, uniform_at

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Run = tuple[float | None, ...]
"""Loss, accuracy, AUC, loss gap and accuracy gap of one run, in the order of `RUN_OUTCOMES`."""

RUN_OUTCOMES = ("loss", "accuracy", "auc", "loss_gap", "accuracy_gap")

_BLOCK_NUMBERS = 1 << 22


def run_seed(seed: int, group: str, epsilon: float, repeat: int) -> np.random.SeedSequence:
    """Return the seed of one run, from its group, its ε and its number."""
    key = hashlib.sha256(f"{group}\x00{epsilon!r}\x00{repeat}".encode()).digest()
    words = np.frombuffer(key, dtype=np.uint32).tolist()
    return np.random.SeedSequence([seed, *words])


def seed_name(asked: Asked, group: Group, e: int) -> str:
    """Return the group's name, with the budget of every column, or of every part, where they differ."""
    if asked.mixed:
        return f"{group.name}\x00{_part_budgets(asked, e)}"
    if not asked.is_mapping:
        return group.name
    budgets = ",".join(f"{name}={value!r}" for name, value in asked.budgets[0].items())
    return f"{group.name}\x00{budgets}"


def _part_budgets(asked: Asked, e: int) -> str:
    """Return the ε of every group of a cell whose groups are randomised at once."""
    return ",".join(f"{part.group.name}={part.epsilon!r}" for part in asked.mixed[e])


class Checkpoint:
    """Finished runs in a file, one JSON line each, after a line that says which study they are of.

    A run is kept under a digest of its group's members and their answers, salted for this file: the
    same name for other people finds nothing, and the file tells nothing about who they are.

    Parameters
    ----------
    path : path or None
        None: nothing is kept.
    identity : mapping
        What must agree for the runs to be reused.
    content : bytes
        A digest of the records; it is kept salted. None: the identity says enough.
    """

    def __init__(
        self, path: str | Path | None, identity: dict[str, object], content: bytes | None = None
    ) -> None:
        self.path = None if path is None else Path(path)
        self.identity = identity
        self.salt = os.urandom(16).hex()
        self.runs: dict[tuple[str, float, int], Run] = {}
        if self.path is None:
            return
        if self.path.exists() and (self.path.is_dir() or self.path.stat().st_size > 0):
            self._read(content)
            return
        head = {"epsilens_checkpoint": 1, "salt": self.salt, **identity, **self._salted(content)}
        self._write(json.dumps(head) + "\n")

    def _salted(self, content: bytes | None) -> dict[str, str]:
        if content is None:
            return {}
        return {"records": hashlib.sha256(self.salt.encode() + content).hexdigest()}

    def _write(self, text: str) -> None:
        assert self.path is not None  # noqa: S101
        with replacing(self.path, private=True) as scratch:
            scratch.write_text(text, encoding="utf-8")

    def key(self, group: Group, labels: NDArray[np.int64]) -> str:
        """Return the digest under which a group's runs are kept."""
        members = b"".join(
            np.packbits(part.mask).tobytes() + labels[part.mask].tobytes() for part in group.members
        )
        return hashlib.sha256(self.salt.encode() + members).hexdigest()

    def _read(self, content: bytes | None) -> None:
        assert self.path is not None  # noqa: S101
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise InputError(
                f"the checkpoint {self.path.name!r} cannot be read. Choose another file."
            ) from None
        lines = text.split("\n")
        head = _json_object(lines[0])
        if head is None or head.get("epsilens_checkpoint") != 1 or "salt" not in head:
            raise InputError(
                f"the file {self.path.name!r} is not a checkpoint and is left alone. Choose another."
            )
        self.path.chmod(0o600)
        self.salt = str(head["salt"])
        expected = {**self.identity, **self._salted(content)}
        if {name: head.get(name) for name in expected} != expected:
            raise InputError(
                f"the checkpoint {self.path.name!r} belongs to another study (other data, label, "
                "seed or model). Choose another file, or delete it."
            )
        # A kill may have cut the last line short: it is done again.
        complete = lines[1:-1]
        for line in complete:
            entry = _json_object(line) or {}
            try:
                key = (str(entry["group"]), float(entry["epsilon"]), int(entry["repeat"]))
                self.runs[key] = tuple(entry[name] for name in RUN_OUTCOMES)
            except (ValueError, KeyError, TypeError):
                raise InputError(
                    f"the checkpoint {self.path.name!r} is damaged. Delete it and start again."
                ) from None
        if lines[-1]:
            self._write("\n".join([lines[0], *complete]) + "\n")

    def add(self, finished: list[tuple[tuple[str, float, int], Run]]) -> None:
        """Keep finished runs, on disk before returning."""
        self.runs.update(finished)
        if self.path is None:
            return
        entries = [
            {"group": group, "epsilon": epsilon, "repeat": repeat}
            | dict(zip(RUN_OUTCOMES, run, strict=True))
            for (group, epsilon, repeat), run in finished
        ]
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise system_refusal(
                error, subject=f"the checkpoint {self.path.name!r}", must="be writable"
            ) from None


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


RunKey = tuple[str, float, int]
"""Under which a run is kept: the digest of its group, its ε and its number."""


def run_keys(
    checkpoint: str | Path | None,
    baseline: BaselineModel | StreamedBaseline | AnyModel,
    asked: Asked,
    *,
    seed: int,
    beside: Mapping[str, object],
) -> tuple[Checkpoint, Callable[[str, int, int], RunKey]]:
    """Open the checkpoint of a study, and return under which key a run of a group, an ε and a number is kept.

    A key holds a digest of the group's members and their answers. The ε before the first stands for the true
    answers.

    Parameters
    ----------
    checkpoint : path or None
    baseline : BaselineModel, StreamedBaseline or AnyModel
    asked : Asked
    seed : int
    beside : mapping
        What must agree too for runs to be reused.
    """
    identity: dict[str, object] = {
        "baseline_loss": repr(round(baseline.outcomes.loss, 10)),
        "n_train": baseline.n_rows,
        "seed": seed,
        "protect": list(asked.names),
        "mechanism": asked.mechanism,
    }
    if isinstance(baseline, AnyModel):
        identity["estimator"] = settings_digest(baseline.estimator)
    else:
        identity["n_parameters"] = baseline.problem.n_parameters
    if isinstance(baseline, StreamedBaseline):
        identity |= {"streamed": True, "domain": asked.label.domain()[1].tolist()}
        kept = Checkpoint(checkpoint, {**identity, **beside})
        names = {
            group.name: f"{group.name}\x00{group.key}"
            for group in asked.groups
            if isinstance(group, StreamedGroup)
        }
    else:
        values = asked.label.values
        identity |= {
            "outcomes": list(RUN_OUTCOMES),
            "budgets": dict(asked.budgets[0]) if asked.is_mapping else None,
            "domain": [list(asked.alternatives.sizes), 0 if values is None else values.tolist()],
        }
        content = None
        if checkpoint is not None and isinstance(baseline, AnyModel):
            categories = [domain.categories for domain in asked.features]
            content = baseline.content() + repr([*categories, asked.label.categories]).encode()
        kept = Checkpoint(checkpoint, {**identity, **beside}, content)
        joint = asked.alternatives.codes
        truth = joint if asked.label.codes is None else joint * 1000 + asked.label.codes
        names = {group.name: kept.key(group, truth) for group in asked.groups}

    def key(name: str, e: int, repeat: int) -> RunKey:
        if e < 0:
            # The true answers: 0, which nobody asks for; at infinity a column may have another ε.
            return names[name], 0.0, repeat
        # Two cells may have the same largest ε and differ in that of another group.
        own = names[name]
        if asked.mixed:
            own = hashlib.sha256(f"{own}\x00{_part_budgets(asked, e)}".encode()).hexdigest()
        return own, asked.epsilons[e], repeat

    return kept, key


def retrain_cells(
    baseline: BaselineModel | StreamedBaseline | AnyModel,
    asked: Asked,
    *,
    corrected: bool,
    repeats: int,
    seed: int,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[tuple[str, int, int], Run]:
    """Return what the test set says of every run, by group, place of the ε and repeat.

    The runs of a cell share a Hessian to start with; each is converged to a gradient of 1e-8 on its
    own draw. Where a model has random numbers of its own, runs on the true answers come too, as place −1.
    """
    streamed = isinstance(baseline, StreamedBaseline)
    beside: dict[str, object] = {} if streamed else {"corrected": corrected}
    kept, key = run_keys(checkpoint, baseline, asked, seed=seed, beside=beside)
    block = repeats
    if isinstance(baseline, BaselineModel):
        block = max(1, _BLOCK_NUMBERS // baseline.n_rows)
    elif isinstance(baseline, AnyModel):
        block = 1
    clean: dict[tuple[str, int, int], Run] = {}
    if isinstance(baseline, AnyModel) and baseline.has_own_randomness:
        clean = _clean_runs(baseline, asked, kept, key, seed=seed, repeats=repeats)
    wanted = [
        (group, e, repeat)
        for group in asked.groups
        for e in range(len(asked.epsilons))
        for repeat in range(repeats)
    ]
    todo = [(group, e, r) for group, e, r in wanted if key(group.name, e, r) not in kept.runs]
    done = len(wanted) - len(todo)
    train = _trainer(baseline, asked, corrected=corrected)
    places = {group.name: g for g, group in enumerate(asked.groups)}
    tasks = []
    for (group, e), runs in groupby(todo, key=lambda run: (run[0], run[1])):
        numbers = [repeat for *_, repeat in runs]
        for first in range(0, len(numbers), block):
            part = numbers[first : first + block]
            tasks.append((places[group.name], e, part))
    results: Generator[Finished, None, None]
    if isinstance(baseline, StreamedBaseline):
        # Each of them shares out its own passes.
        results = (train(baseline, asked, seed, task) for task in tasks)
    else:
        needed = baseline
        if isinstance(baseline, BaselineModel):
            # Without the records before any transformer: a run may be trained on another machine.
            needed = replace(baseline, table=None, test_table=None, transformers=None)
        results = current_passes().map(partial(train, needed, asked, seed), tasks)
    with quietly() if isinstance(baseline, AnyModel) else nullcontext(), closing(results):
        for finished in results:
            kept.add([(key(*which), run) for which, run in finished])
            done += len(finished)
            if progress is not None:
                progress(done, len(wanted), "retrain")
    found = {(group.name, e, r): kept.runs[key(group.name, e, r)] for group, e, r in wanted}
    return {**clean, **found}


def _clean_runs(
    model: AnyModel,
    asked: Asked,
    kept: Checkpoint,
    key: Callable[[str, int, int], RunKey],
    *,
    seed: int,
    repeats: int,
) -> dict[tuple[str, int, int], Run]:
    """Return runs on the true answers, each with a seed of its own, by group, −1 and repeat."""
    names = [group.name for group in asked.groups]
    keys = {r: [key(name, -1, r) for name in names] for r in range(repeats)}
    todo = [r for r in range(repeats) if any(one not in kept.runs for one in keys[r])]
    seeds = [int(run_seed(seed, "", math.inf, r).generate_state(1)[0] >> 1) for r in todo]
    with (
        quietly(),
        closing(current_passes().map(partial(train_clean, model, asked), seeds)) as results,
    ):
        for r, runs in zip(todo, results, strict=True):
            kept.add(list(zip(keys[r], runs, strict=True)))
    return {
        (name, -1, r): kept.runs[one]
        for r in range(repeats)
        for name, one in zip(names, keys[r], strict=True)
    }


def evaluated(model: AnyModel, trained: BaseEstimator, groups: Sequence[Group]) -> list[Run]:
    """Return what the test set says of a model, with the gaps of each group."""
    predicted = model.predict(trained)
    found = [model.outcomes_of(predicted, group.test_mask) for group in groups]
    return [tuple(getattr(one, name) for name in RUN_OUTCOMES) for one in found]


def train_clean(model: AnyModel, asked: Asked, seed: int) -> list[Run]:
    """Train a model on the true answers, and evaluate it for every group."""
    return evaluated(model, model.train(model.label.y, seed=seed), asked.groups)


def _trainer(
    baseline: BaselineModel | StreamedBaseline | AnyModel, asked: Asked, *, corrected: bool
) -> Callable[..., Finished]:
    """Return how runs of a model are trained; refuse what would not fit into memory."""
    if isinstance(baseline, AnyModel):
        return _train_whole
    if not asked.alternatives.sizes and not corrected and baseline.class_weight is None:
        return _train_labels
    if is_wide(baseline.problem.n_parameters):
        raise refuse_matrix(
            baseline.problem.n_parameters,
            "retraining with features, a correction or class weights",
            instead="Retrain on labels, or use fewer features.",
        )
    return partial(_train_general, corrected=corrected)


Finished = list[tuple[tuple[str, int, int], Run]]


def _train_whole(
    model: AnyModel, asked: Asked, seed: int, part: tuple[int, int, list[int]]
) -> Finished:
    """Train some runs of a model that is trained again as a whole, each with draws and a seed of its own."""
    g, e, repeats = part
    group = asked.groups[g]
    finished: Finished = []
    for repeat in repeats:
        own = run_seed(seed, seed_name(asked, group, e), asked.epsilons[e], repeat)
        draw = draw_one(column_sizes(asked), model.n_rows, own)
        reported = report(model, asked, draw, keep_levels(asked, group, e, model.n_rows))
        trained = model.train(reported.y, seed=draw.seed, table=reported.table)
        (run,) = evaluated(model, trained, [group])
        finished.append(((group.name, e, repeat), run))
    return finished


def runs_outcomes(baseline: TrainedModel, group: Group, thetas: FloatArray) -> list[Run]:
    """Return what the test set says of several runs, (K·p, n_runs), the gaps of their group included."""
    contrast = baseline.evaluation.contrast(group.test_mask)
    found = baseline.evaluation.outcomes_at(thetas, [contrast] * thetas.shape[1])
    return [tuple(getattr(outcomes, name) for name in RUN_OUTCOMES) for outcomes in found]


def _finished(
    baseline: TrainedModel, group: Group, e: int, repeats: list[int], solution: Solution
) -> Finished:
    """Return what the test set says of solved runs; refuse those whose optimum was not reached."""
    if not solution.converged.all():
        raise EstimateNotTrustworthyError(
            f"{int(np.sum(~solution.converged))} retrainings did not converge. Add regularisation."
        )
    found = runs_outcomes(baseline, group, solution.theta)
    return [((group.name, e, r), run) for r, run in zip(repeats, found, strict=True)]


def _refuse_one_class(counts: NDArray[np.int64]) -> None:
    """Refuse a run in which labels of one kind only were drawn, given how often each was."""
    if np.count_nonzero(counts) < 2:
        raise EstimateNotTrustworthyError(
            "a randomised run has records of one class only, and no model: the data are too few for "
            "this epsilon."
        )


def _train_labels(
    baseline: BaselineModel | StreamedBaseline,
    asked: Asked,
    seed: int,
    task: tuple[int, int, list[int]],
) -> Finished:
    """Train some runs of a cell side by side, each to convergence on its own labels."""
    g, e, repeats = task
    group, epsilon = asked.groups[g], asked.epsilons[e]
    parts = asked.channels(group, e)
    matrices = [part.label.matrix for part in parts if part.label is not None]
    problem, finder = baseline.problem, curvature_finder(baseline.problem)
    _, values = asked.label.domain()
    statistics = problem.loss.statistic(values)
    (noise,) = baseline.group_noises([group], with_grams=False)
    centre = baseline.linear + noise.shift(np.stack(matrices) if group.parts else matrices[0])
    start = minimise(
        problem,
        centre[:, None],
        baseline.theta[:, None],
        curvatures=(baseline.curvature,),
        curvature_at=finder,
    ).theta
    seeds = [run_seed(seed, seed_name(asked, group, e), epsilon, repeat) for repeat in repeats]
    if isinstance(baseline, StreamedBaseline):
        rows = with_groups(baseline.problem.rows, group.members)
        rows = replace(rows, reading=replace(rows.reading, values=values))
        # A record's report in a run is decided by a number that belongs to the run and to the record's
        # position, so that every piece can be randomised by itself.
        found = replace(baseline.problem, rows=rows).sum(
            _randomised,
            statistics,
            [np.cumsum(matrix, axis=1) for matrix in matrices],
            [int(one.generate_state(1, np.uint64)[0]) for one in seeds],
            what="randomised labels",
        )
        linear, counted = found["linear"] / problem.n_rows, found["counts"]
    else:
        codes = asked.label.domain()[0]
        labels = np.repeat(codes[:, None], len(repeats), axis=1)
        for j, one in enumerate(seeds):
            generator = np.random.default_rng(one)
            for part in parts:
                assert part.label is not None  # noqa: S101  (only labels are protected here)
                members = np.flatnonzero(part.group.mask)
                labels[members, j] = simulate(part.label, codes[members], generator)
        linear = baseline.problem.linear_term(np.moveaxis(statistics[labels], 2, 1))
        counted = [np.bincount(column) for column in labels.T]
    if baseline.is_classifier:
        for counts in counted:
            _refuse_one_class(counts)
    solution = minimise(
        problem,
        linear,
        np.repeat(start, len(repeats), axis=1),
        clusters=np.zeros(len(repeats), dtype=np.intp),
        curvature_at=finder,
    )
    return _finished(baseline, group, e, repeats, solution)


def _randomised(
    problem: Problem,
    records: StreamedRows,
    statistics: FloatArray,
    cumulative: list[FloatArray],
    keys: list[int],
) -> Part:
    """Return the linear term of every run, and how often each label is reported."""
    k = len(statistics)
    labels = np.repeat(records.codes[:, None], len(keys), axis=1)
    for mask, ends in zip(records.masks, cumulative, strict=True):
        members = np.flatnonzero(mask)
        truth = records.codes[members]
        for run, key in enumerate(keys):
            drawn = uniform_at(records.positions[members], key)
            reports = (drawn[:, None] >= ends[truth]).sum(axis=1)
            labels[members, run] = np.minimum(reports, k - 1)
    return {
        "linear": problem.linear_term(np.moveaxis(statistics[labels], 2, 1)),
        "counts": np.array([np.bincount(column, minlength=k) for column in labels.T]),
    }


def _drawn_bits(
    asked: Asked,
    baseline: BaselineModel,
    rows: NDArray[np.intp],
    epsilon: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], Alternatives]:
    """Return every record's pattern of bits, the group's drawn, and the patterns that occur."""
    unary = asked.unary
    assert unary is not None  # noqa: S101
    codes = unary.feature.codes
    bits = np.eye(len(unary.feature.rows), dtype=bool)[codes]
    encoding = UnaryEncoding(bits.shape[1], epsilon, kind=unary.kind)  # type: ignore[arg-type]
    bits[rows] = encoding.draw(codes[rows], generator_words(generator))
    patterns, values = np.unique(bits, axis=0, return_inverse=True)
    return np.ravel(values).astype(np.int64), unary.alternatives(baseline.problem.design, patterns)


def _train_general(
    baseline: BaselineModel,
    asked: Asked,
    seed: int,
    task: tuple[int, int, list[int]],
    *,
    corrected: bool,
) -> Finished:
    """Train some runs of a cell side by side on drawn features and labels."""
    g, e, repeats = task
    problem, label = baseline.problem, asked.label
    group, epsilon = asked.groups[g], asked.epsilons[e]
    parts = asked.channels(group, e)
    rows = np.flatnonzero(group.mask)
    # The places of every part among the group's records.
    places = [np.flatnonzero(part.group.mask[rows]) for part in parts]
    # Patterns of bits differ from run to run, and with them what a record may be.
    blocks = [[repeat] for repeat in repeats] if asked.unary is not None else [repeats]
    finished: Finished = []
    for block in blocks:
        alternatives = asked.alternatives
        values = np.zeros((len(rows), len(block)), dtype=np.int64)
        drawn = np.zeros_like(values)
        for j, repeat in enumerate(block):
            generator = np.random.default_rng(
                run_seed(seed, seed_name(asked, group, e), epsilon, repeat)
            )
            values[:, j] = asked.alternatives.codes[rows]
            if asked.unary is not None:
                bits, alternatives = _drawn_bits(asked, baseline, rows, epsilon, generator)
                values[:, j] = bits[rows]
            for part, place in zip(parts, places, strict=True):
                if part.features is not None:
                    sizes = asked.alternatives.sizes
                    digits = np.array(np.unravel_index(values[place, j], sizes))
                    reported = [
                        simulate(channel, digit, generator)
                        for channel, digit in zip(part.features.channels, digits, strict=True)
                    ]
                    values[place, j] = np.ravel_multi_index(tuple(reported), sizes)
                if part.label is not None:
                    truth, _ = label.domain()
                    drawn[place, j] = simulate(part.label, truth[rows[place]], generator)
            if asked.label_is_protected and baseline.is_classifier:
                truth, _ = label.domain()
                _refuse_one_class(np.bincount(np.r_[truth[~group.mask], drawn[:, j]]))
        objective = realised_runs(
            baseline,
            alternatives,
            group.mask,
            values,
            drawn if asked.label_is_protected else None,
            corrections=[
                (part.group.mask, part.label.matrix)
                for part in parts
                if corrected and part.label is not None
            ],
        )
        solution = minimise(
            objective,
            np.zeros((problem.n_parameters, len(block))),
            np.repeat(baseline.theta[:, None], len(block), axis=1),
            clusters=np.zeros(len(block), dtype=np.intp),
            curvatures=(baseline.curvature,),
        )
        finished += _finished(baseline, group, e, block, solution)
    return finished
