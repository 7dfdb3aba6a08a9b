# SPDX-License-Identifier: Apache-2.0
"""Attack every mechanism before it is offered: does it keep what it claims?

For every mechanism that trains on the true answers, at ε = 1 and ε = 4:

- many runs: two small tables that differ in one answer, and two that differ in one record, are released
  often; what is released is told apart by a rule that was fixed on other runs, and the distance that this
  proves is held against the advantage that we state;
- one run: canaries with wrong labels go into one table by fair coins and are guessed back, which is held
  against ε.

All bounds of a mechanism hold together with 95 % confidence. What is found is written to
src/epsilens/mechanisms/audits.json after every attack, so a run that was stopped goes on where it was; a
new version of a library starts again. A mechanism whose claim is broken is not offered.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from epsilens.audit import Canaries, OneRunAudit
from epsilens.audit.many_runs import told_apart
from epsilens.document import AuditCheck, Baseline, MechanismAudit, to_dict
from epsilens.mechanisms import MECHANISMS, Task, mechanism_class
from epsilens.mechanisms.audits import STORED

BUDGETS = (1.0, 4.0)
DELTA = 1e-5
CONFIDENCE = 0.95
N_RECORDS = 200
N_CANARIES = 400
LIBRARIES = {"dp-ebm": "interpret-core", "synthetic-aim": "opendp"}
REPLACED = {"noisy-descent", "output-perturbation"}
"""Mechanisms whose ε is about a replaced record or answer; that of the others about an added record."""
RUNS = {"dp-ebm": 2000, "synthetic-aim": 400}
"""Runs on either table, where they are slow."""
KINDS = ("a", "b")
PROBES = pd.DataFrame({"x": np.tile([-1.0, -0.5, 0.0, 0.5, 1.0], 2), "kind": np.repeat(KINDS, 5)})


def encode(table: pd.DataFrame) -> np.ndarray:
    return np.column_stack([table["x"], table["kind"] == "b"]).astype(float)


def task_of(table: pd.DataFrame, y: np.ndarray, tested: pd.DataFrame = PROBES) -> Task:
    """Return a task of a small table; what is tested is only looked at."""
    nothing = Baseline(
        n_train=len(y), n_test=len(tested), n_parameters=3, loss=0.0, accuracy=None, auc=None
    )
    return Task(
        X=encode(table),
        y=y,
        X_test=encode(tested),
        y_test=np.zeros(len(tested), dtype=np.intp),
        n_classes=2,
        table=table,
        table_test=tested,
        label="y",
        protected=("y",),
        x_bound=1.75,
        baseline=nothing,
        declared={"x": (-1.0, 1.0), "kind": KINDS},
        encode=encode,
    )


def small_table(n: int = N_RECORDS) -> tuple[pd.DataFrame, np.ndarray]:
    """Return records of kind "a" with labels that follow x; the first, of its own kind, is attacked."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, n).round(2)
    y = (x + rng.normal(size=n) > 0).astype(np.intp)
    table = pd.DataFrame({"x": x, "kind": "a"})
    table.loc[0] = [1.0, "b"]
    y[0] = 0
    return table, y


def neighbours(protects: str) -> tuple[Task, Task]:
    """Return two tasks that differ in one answer, or in one record."""
    table, y = small_table()
    other, answers = table.copy(), y.copy()
    answers[0] = 1
    if protects == "record":
        other.loc[0] = [-1.0, "a"]
    return task_of(table, y), task_of(other, answers)


def released(name: str, plan: Any, pair: tuple[Task, Task], which: int, n_runs: int) -> np.ndarray:
    """Return what an attacker sees in every run, (n_runs, n_numbers)."""
    task = pair[which]
    if name == "synthetic-aim":
        return noisy_counts(plan, task, n_runs, pair)
    generator = np.random.default_rng(which)
    runs = next(type(plan).simulate(task, [plan], n_runs=n_runs, generator=generator))
    chances = np.clip(runs.probabilities("test")[:, 1], 1e-12, 1 - 1e-12)
    return np.log(chances / (1 - chances)).T


def noisy_counts(plan: Any, task: Task, n_runs: int, pair: tuple[Task, Task]) -> np.ndarray:
    """Return how much likelier one of two tables makes the noisy counts that a synthetic table is made of.

    They are more than the synthetic table shows. The joint distribution is only fitted once: whatever is made of the counts costs no privacy.
    """
    from epsilens.mechanisms._columns import PublicColumn
    from epsilens.mechanisms.synthetic_aim import BINS, estimate

    kept: list[Any] = []

    def once(domain: Any, measured: Any, **settings: Any) -> Any:
        if not kept:
            kept.append(estimate(domain, measured, **settings))
        return kept[0]

    columns = PublicColumn.all_of(task)
    sizes = [*(column.n_bins(BINS) for column in columns), 2]
    bins = np.column_stack([*(column.bins(task.table, BINS) for column in columns), task.y])
    release = plan.measurement(sizes, len(bins), once)
    tables = [
        np.column_stack([*(column.bins(one.table, BINS) for column in columns), one.y])
        for one in pair
    ]

    def exact(table: np.ndarray, clique: Sequence[str]) -> np.ndarray:
        numbers = [int(name) for name in clique]
        cells = np.ravel_multi_index(table[:, numbers].T, [sizes[number] for number in numbers])
        return np.bincount(cells, minlength=np.prod([sizes[number] for number in numbers]))

    def likelihood(counted: Any) -> float:
        first, second = (exact(table, counted.clique) for table in tables)
        seen = np.asarray(counted.noisy_measurement, dtype=np.float64)
        return float((seen - (first + second) / 2) @ (first - second) / counted.stddev**2)

    return np.array(
        [[sum(map(likelihood, release(bins).marginals.flatten()))] for _ in range(n_runs)]
    )


def many_runs(name: str, epsilon: float, protects: str, n_runs: int, level: float) -> AuditCheck:
    """Attack one answer, or one record, in many runs."""
    pair = neighbours(protects)
    kind = mechanism_class(name)
    plan = kind.plan(pair[0], epsilon=epsilon, delta=DELTA, protects=protects)
    seen = [released(name, plan, pair, which, n_runs) for which in (0, 1)]
    bound = told_apart(*seen, delta=DELTA, confidence=level)
    return AuditCheck(
        kind="many-runs",
        protects=protects,
        epsilon=epsilon,
        delta=DELTA,
        epsilon_lower_bound=bound.epsilon_lower_bound,
        advantage=plan.advantage,
        advantage_lower_bound=bound.advantage_lower_bound,
        n_runs=2 * n_runs,
    )


def one_run(name: str, epsilon: float, protects: str, level: float) -> AuditCheck:
    """Guess back canaries with wrong labels from one model."""
    rng = np.random.default_rng(1)
    base, y = small_table()
    x = rng.uniform(-1.0, 1.0, N_CANARIES).round(2)
    marked = np.column_stack([x, np.ones(N_CANARIES)])
    labels = (x < 0).astype(np.intp)
    places = pd.DataFrame({"x": marked[:, 0], "kind": "b"})
    kind = mechanism_class(name)

    def mechanism(dataset: Any) -> np.ndarray:
        features, answers = dataset
        table = pd.DataFrame({"x": features[:, 0], "kind": np.where(features[:, 1] > 0, "b", "a")})
        task = task_of(table, answers.astype(np.intp), places)
        plan = kind.plan(task, epsilon=epsilon, delta=DELTA, protects=protects)
        generator = np.random.default_rng(2)
        runs = next(kind.simulate(task, [plan], n_runs=1, generator=generator))
        return runs.probabilities("test")[:, :, 0]

    canaries = Canaries(
        records=(marked, labels),
        base=(encode(base), y),
        left_out=(marked, 1 - labels) if name in REPLACED else None,
    )
    audit = OneRunAudit(
        mechanism,
        canaries=canaries,
        score=lambda chances, _: np.log(chances[np.arange(N_CANARIES), labels] + 1e-12),
        claimed_epsilon=epsilon,
        claimed_delta=DELTA,
        confidence=level,
    )
    found = audit.run(random_state=3)
    return AuditCheck(
        kind="one-run",
        protects=protects,
        epsilon=epsilon,
        delta=DELTA,
        epsilon_lower_bound=found.epsilon_lower_bound,
        n_runs=N_CANARIES,
    )


def attacks(name: str, n_runs: int) -> Iterator[tuple[tuple[Any, ...], Callable[[], AuditCheck]]]:
    """Yield the attacks on a mechanism, each with what tells it from the others."""
    claims = sorted(mechanism_class(name).claims)
    level = 1 - (1 - CONFIDENCE) / (len(BUDGETS) * (len(claims) + 1))
    for epsilon in BUDGETS:
        for protects in claims:
            yield (
                ("many-runs", protects, epsilon),
                lambda e=epsilon, p=protects: many_runs(name, e, p, n_runs, level),
            )
        yield (
            ("one-run", claims[-1], epsilon),
            lambda e=epsilon: one_run(name, e, claims[-1], level),
        )


def audit(name: str, before: MechanismAudit | None, *, is_quick: bool) -> Iterator[MechanismAudit]:
    """Attack a mechanism, going on from what was found before; yield after every attack."""
    package = LIBRARIES.get(name, "epsilens")
    found = MechanismAudit(
        library=f"{package} {version(package)}",
        neighbours="replaced" if name in REPLACED else "added or removed",
        confidence=CONFIDENCE,
        checks=[],
    )
    if before is not None and before.library == found.library:
        found = before
    done = {(check.kind, check.protects, check.epsilon) for check in found.checks}
    for key, attack in attacks(name, 60 if is_quick else RUNS.get(name, 8000)):
        if key in done:
            continue
        started = time.perf_counter()
        check = attack()
        found = found.model_copy(update={"checks": [*found.checks, check]})
        proved, claim = (
            (check.epsilon_lower_bound, check.epsilon)
            if check.advantage is None
            else (check.advantage_lower_bound, check.advantage)
        )
        print(
            f"{name:20} {check.kind:9} {check.protects:6} ε = {check.epsilon:g}: proved {proved:.3f}, "
            f"claimed {claim:.3f}{'  BROKEN' if check.is_broken else ''} "
            f"({time.perf_counter() - started:.0f} s)",
            flush=True,
        )
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mechanism", help="names with commas between; by default all")
    parser.add_argument("--again", action="store_true", help="attack also what was attacked before")
    parser.add_argument("--quick", action="store_true", help="few runs, not written down")
    given = parser.parse_args()
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    for name in given.mechanism.split(",") if given.mechanism else MECHANISMS:
        before = None
        if name in stored and not given.again and not given.quick:
            before = MechanismAudit(**stored[name])
        for found in audit(name, before, is_quick=given.quick):
            if not given.quick:
                stored = json.loads(STORED.read_text(encoding="utf-8"))
                stored[name] = to_dict(found)
                STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
