#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""What every mechanism costs where an attacker gains equally much, and whether previews tell the truth.

Adult, ACS Income, PubCov, and a generated table like German credit; the label is protected. Previews at eight
budgets stand beside real private trainings with noise of the operating system; Opacus trains the same model.
Finished parts are kept in a folder, so a run that was stopped goes on where it was.

    python benchmarks/frontier.py [--data DIR] [--quick] [--tables generated,adult,…] [--kept DIR] [--stored]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import datasets
from datasets import census
from epsilens import Study
from epsilens.errors import PrivacyLeakWarning
from epsilens.mechanisms import Task, mechanism_class
from epsilens.mechanisms.protocol import RUNS
from epsilens.models import private_logistic
from epsilens.models.dp_sgd import train_ensemble
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.gaussian_release import FITS
from epsilens.models.privacy_accounting import sampled_advantage
from epsilens.models.private_logistic import PrivateLogisticRegression, default_bounds
from measure import run
from timing import HERE, PEERS, environment_of, keep, python_of

DELTA = 1e-5
BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0)
REAL_BUDGETS = {
    "record": (1.0, 0.25, 4.0, 0.5, 2.0, 0.1, 8.0, 3.0),
    "answer": (1.0, 0.25, 4.0, 2.0),
}
"""Where real trainings are made, the first first; for an answer, whose noise is half of a record's, at fewer."""
REAL_RUNS = 40
ADVANTAGES = (0.05, 0.1, 0.2, 0.46)
FAST = ("noisy-descent", "output-perturbation")
RANDOMISED = {"randomised-response": None, "corrected": "forward"}
CLAIMS = ("record", "answer")
SLOW = {"dp-sgd": 20, "dp-ebm": 5, "synthetic-aim": 5}
"""Runs of each, simulated and real."""
PEER_BUDGETS = (0.5, 1.0, 2.0, 4.0)
PEER_TABLES = ("adult", "income")
PEER_GRID = {
    "schedule": ((0.02, 10), (0.05, 20)),
    "clip": (1.0, 2.0, 3.5),
    "learning_rate": (0.5, 1.0, 2.0, 4.0),
}
"""Share of the records in a step and passes over them; longest gradient; length of a step."""
DIFFPRIVLIB_C = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)
"""Inverse penalties that are tried for diffprivlib; the best is chosen by test loss, in its favour."""
NARROW = 2.0
"""A second bound of the rows' length, for both sides."""
SLOW_ROWS = 8_000
KEPT = HERE / ".frontier"

# --- Tables ---


@dataclass(frozen=True)
class Table:
    """A table that a model is learnt from, and how it is called."""

    name: str
    title: str
    train: pd.DataFrame
    test: pd.DataFrame
    label: str
    classes: tuple[str, ...]

    @cached_property
    def study(self) -> Study:
        return Study(
            self.train,
            label=self.label,
            test=self.test,
            categories={self.label: list(self.classes)},
            seed=0,
        )

    @cached_property
    def task(self) -> Task:
        return self.study.task()

    @cached_property
    def shrunk_loss(self) -> float:
        """Change of the test loss of a model without privacy whose rows are shrunk as a private one's are."""
        task, rows = self.task, default_bounds(self.task.x_bound).rows
        model = LogisticRegression(C=1.0 / task.alpha, max_iter=2_000)
        model.fit(rows(task.X)[:, :-1], task.y)
        chances = model.predict_log_proba(rows(task.X_test)[:, :-1])
        return outcomes(chances, task.y_test)[0] - task.baseline.loss

    def first(self, n: int) -> Table:
        """Return the same table with fewer records to learn from."""
        return replace(self, train=self.train.sample(n, random_state=0))


def generated(n: int = 1_000, n_test: int = 4_000, seed: int = 0) -> Table:
    """Return credits like those of the German ones: numbers with long tails, many categories, 30 % bad."""
    rng = np.random.default_rng(seed)
    total = n + n_test
    numbers = {
        "duration": np.clip(rng.gamma(3.0, 7.0, total), 4, 72).round(),
        "amount": np.clip(rng.lognormal(7.8, 0.8, total), 250, 20_000).round(),
        "age": np.clip(19 + rng.gamma(2.0, 8.0, total), 19, 75).round(),
        "rate": rng.integers(1, 5, total).astype(float),
    }
    kinds = {
        "account": (4, 0.5),
        "history": (5, 0.4),
        "purpose": (9, 0.2),
        "savings": (5, 0.3),
        "employment": (5, 0.2),
        "status": (4, 0.2),
        "property": (4, 0.2),
        "housing": (3, 0.2),
        "job": (4, 0.1),
        "telephone": (2, 0.1),
        "foreign": (2, 0.3),
    }
    score = 0.4 * (numbers["duration"] - 21) / 12 + 0.2 * np.log(numbers["amount"] / 2_500)
    score -= 0.2 * (numbers["age"] - 35) / 11
    columns: dict[str, Any] = dict(numbers)
    for name, (size, weight) in kinds.items():
        drawn = rng.choice(size, total, p=rng.dirichlet(np.full(size, 3.0)))
        columns[name] = np.array([f"{name}-{kind}" for kind in range(size)])[drawn]
        score += weight * rng.standard_normal(size)[drawn]
    level = brentq(lambda shift: float(expit(score + shift).mean()) - 0.3, -20, 20)
    columns["credit"] = np.where(rng.random(total) < expit(score + level), "bad", "good")
    whole = pd.DataFrame(columns)
    return Table(
        "generated",
        "generated, like German credit",
        whole.iloc[:n],
        whole.iloc[n:],
        "credit",
        ("bad", "good"),
    )


def adult(folder: Path | None) -> Table:
    raw = datasets.load("adult", folder=folder)
    raw = raw.drop(columns=["fnlwgt", "education", "native-country"])
    train, test = (raw[raw["file"] == part].drop(columns="file") for part in ("train", "test"))
    return Table("adult", "Adult", train, test, "income", ("<=50K", ">50K"))


def income(folder: Path | None, n: int = 15_000, n_test: int = 15_000) -> Table:
    """Return some of the people without occupation, birthplace and state; codes that few have are joined."""
    raw = datasets.load("acs_income", folder=folder).drop(columns=["OCCP", "POBP", "ST"])
    raw = raw.sample(n + n_test, random_state=0)
    label = np.where(raw.pop("PINCP") > 50_000, "over", "up to")
    codes = [name for name in raw if name not in ("AGEP", "SCHL", "WKHP")]
    for name in codes:
        code = raw[name].fillna(0).astype(int)
        raw[name] = ("code " + code.astype(str)).where(code.map(code.value_counts()) > 99, "few")
    whole = raw.assign(income=label)
    return Table(
        "income",
        f"ACS Income, {n:,} of its records",
        whole.iloc[:n],
        whole.iloc[n:],
        "income",
        ("over", "up to"),
    )


def pubcov(folder: Path | None) -> Table:
    X, y = census.pubcov_as_p1(datasets.load("acs_pubcov", folder=folder))
    whole = X.assign(PUBCOV=np.where(y.to_numpy() == 1, "covered", "not covered"))
    order = np.random.default_rng(0).permutation(len(whole))
    cut = len(whole) * 3 // 4
    return Table(
        "pubcov",
        "PubCov, ten columns of 0 and 1",
        whole.iloc[order[:cut]],
        whole.iloc[order[cut:]],
        "PUBCOV",
        ("covered", "not covered"),
    )


TABLES: dict[str, Callable[[Path | None], Table]] = {
    "generated": lambda folder: generated(),
    "adult": adult,
    "income": income,
    "pubcov": pubcov,
}

# --- Parts ---


@dataclass(frozen=True)
class Kept:
    """Finished parts, a file each; a part is found again only under the same settings."""

    folder: Path
    is_stored_only: bool = False

    def part(self, settings: Mapping[str, object], make: Callable[[], Any]) -> Any:
        """Return a part, made now unless it is there; None if it may not be made."""
        text = json.dumps(settings, sort_keys=True)
        words = [value for value in settings.values() if isinstance(value, str | float)]
        name = "-".join(str(value).replace(" ", "_") for value in words)
        file = self.folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
        if file.exists():
            return json.loads(file.read_text())["found"]
        if self.is_stored_only:
            return None
        print(f"… {name}", file=sys.stderr, flush=True)
        found = make()
        if found is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps({"settings": settings, "found": found}) + "\n")
        unfinished.replace(file)
        return found


def plan_of(task: Task, name: str, epsilon: float, claim: str) -> Any:
    return mechanism_class(name).plan(task, epsilon=epsilon, delta=DELTA, protects=claim)


def fingerprint(task: Task, name: str, claim: str) -> list[float]:
    """Return numbers of a mechanism that change when its steps or its noise do: then parts are made again."""
    plan = plan_of(task, name, 1.0, claim)
    if name == "noisy-descent":
        return [plan.descent.step, plan.descent.momentum, plan.descent.release.sigma]
    return [plan.alpha, plan.noise.sigma]


def previews(
    task: Task, name: str, claim: str, budgets: Sequence[float], *, n_runs: int = RUNS
) -> list[dict[str, Any]]:
    """Return the preview of every budget, with its runs."""
    plans = [plan_of(task, name, epsilon, claim) for epsilon in budgets]
    seed = zlib.crc32(f"{task.label} {name} {claim}".encode())
    generator = np.random.default_rng(seed)
    found = mechanism_class(name).preview(task, plans, n_runs=n_runs, generator=generator)
    return [
        {
            "epsilon": plan.epsilon,
            "advantage": plan.advantage,
            "runs": {key: preview.changes[key].tolist() for key in ("loss", "accuracy")},
            "interval": [preview.end("loss", level) for level in (0.05, 0.95)],
            "accuracy_interval": [preview.end("accuracy", level) for level in (0.05, 0.95)],
        }
        for plan, preview in zip(plans, found, strict=True)
    ]


@contextmanager
def throwaway_releases() -> Iterator[None]:
    """Let the same records be released many times; the minimum before the noise is found once a budget."""
    real = private_logistic.penalised_minimum
    found: dict[float, np.ndarray] = {}

    def once(*data: Any, penalty: float, **more: Any) -> np.ndarray:
        if penalty not in found:
            found[penalty] = real(*data, penalty=penalty, **more)
        return found[penalty].copy()

    private_logistic.penalised_minimum = once
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            yield
    finally:
        private_logistic.penalised_minimum = real
        FITS.clear()


def real_trainings(
    task: Task, name: str, claim: str, epsilon: float, repeats: int
) -> dict[str, list[float]]:
    """Return the changes of test loss and accuracy in real private trainings."""
    changes: dict[str, list[float]] = {"loss": [], "accuracy": []}
    with throwaway_releases():
        for _ in range(repeats):
            model = PrivateLogisticRegression(
                epsilon=epsilon,
                delta=DELTA,
                x_bound=task.x_bound,
                protects=claim,
                classes=range(task.n_classes),
                mechanism=name,
            ).fit(task.X, task.y)
            loss, accuracy = outcomes(model.predict_log_proba(task.X_test), task.y_test)
            changes["loss"].append(loss - task.baseline.loss)
            changes["accuracy"].append(accuracy - task.baseline.accuracy)
            FITS.clear()
    return changes


def outcomes(log_chances: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return test loss and accuracy of predictions (n, n_classes)."""
    loss = -float(np.take_along_axis(log_chances, y[:, None], axis=1).mean())
    return loss, float((log_chances.argmax(axis=1) == y).mean())


def randomised(table: Table, correction: str | None, budgets: Sequence[float]) -> list[dict]:
    """Return the estimated cost of randomised labels."""
    cost = table.study.cost(epsilon=list(budgets), correction=correction)
    return [
        {
            "epsilon": cell.epsilon,
            "advantage": math.tanh(cell.epsilon / 2.0),
            "loss": cell.loss_change,
            "accuracy": cell.accuracy_change,
            "interval": [cell.loss_change_low, cell.loss_change_high],
            "trusted": bool(cell.trusted),
        }
        for cell in cost.document.cells
    ]


def epsilon_at(task: Task, name: str, claim: str, advantage: float) -> float:
    """Return the ε at which a mechanism has an advantage."""

    def over(log_epsilon: float) -> float:
        return plan_of(task, name, math.exp(log_epsilon), claim).advantage - advantage

    return math.exp(brentq(over, math.log(0.01), math.log(50.0), xtol=1e-6))


def equal_advantage(table: Table) -> list[dict]:
    """Return what every fast mechanism costs at some advantages."""
    found = []
    for name in FAST:
        for claim in CLAIMS:
            budgets = [epsilon_at(table.task, name, claim, a) for a in ADVANTAGES]
            for advantage, cell in zip(
                ADVANTAGES, previews(table.task, name, claim, budgets), strict=True
            ):
                found.append(
                    {
                        "mechanism": name,
                        "protects": claim,
                        "advantage": advantage,
                        "epsilon": cell["epsilon"],
                        "loss": float(np.mean(cell["runs"]["loss"])),
                        "accuracy": float(np.mean(cell["runs"]["accuracy"])),
                        "trusted": True,
                    }
                )
    budgets = [2.0 * math.atanh(advantage) for advantage in ADVANTAGES]
    for name, correction in RANDOMISED.items():
        for advantage, cell in zip(ADVANTAGES, randomised(table, correction, budgets), strict=True):
            kept = {key: cell[key] for key in ("epsilon", "loss", "accuracy", "trusted")}
            found.append({"mechanism": name, "protects": "answer", "advantage": advantage, **kept})
    return found


# --- The peer ---


def peer_settings(epsilon: float, n: int) -> Iterator[DPSGDSettings]:
    for share, epochs in PEER_GRID["schedule"]:
        for clip in PEER_GRID["clip"]:
            for rate in PEER_GRID["learning_rate"]:
                yield DPSGDSettings(
                    epsilon=epsilon,
                    delta=DELTA,
                    clip=clip,
                    epochs=epochs,
                    batch=int(share * n),
                    learning_rate=rate,
                )


def peer(task: Task, epsilon: float, rows: str, *, n_tuned: int = 2, repeats: int = 3) -> dict:
    """Return Opacus' best of a grid, beside noisy descent at the same ε and at the same advantage.

    The grid is searched by our own DP-SGD, which the tests hold to Opacus; what is compared is trained by
    Opacus. The best is chosen by its test loss, in its favour.
    """
    bound = NARROW if rows == "narrow" else task.x_bound
    X, X_test = task.X, task.X_test
    if rows != "as encoded":
        X, X_test = (default_bounds(bound).rows(part)[:, :-1] for part in (X, X_test))
    n = len(X)

    def changes(fit: Any) -> list[float]:
        return [
            float(np.mean(np.logaddexp(0.0, z) - task.y_test * z)) - task.baseline.loss
            for z in np.asarray(fit.logits(X_test), dtype=np.float64)[:, :, 0]
        ]

    def trained(settings: DPSGDSettings, by: Callable[..., Any], n_models: int, seed: int) -> list:
        everybody = np.ones((n_models, n), dtype=bool)
        more = {"n_classes": 2, "expected_records": float(n), "random_state": seed}
        return changes(by(X, task.y, everybody, settings, **more))

    def searched(settings: DPSGDSettings) -> float:
        loss = float(np.mean(trained(settings, train_ensemble, n_tuned, 1)))
        return loss if math.isfinite(loss) else math.inf

    best = min(peer_settings(epsilon, n), key=searched)
    from epsilens.models.opacus_reference import train_with_opacus

    theirs = trained(best, train_with_opacus, repeats, 2)
    advantage = sampled_advantage(best.calibration(n))
    own = replace(task, x_bound=bound)
    equal = epsilon_at(own, "noisy-descent", "record", advantage)
    same, fair = previews(own, "noisy-descent", "record", [epsilon, equal])
    return {
        "epsilon": epsilon,
        "rows": rows,
        "settings": {
            key: getattr(best, key) for key in ("clip", "epochs", "batch", "learning_rate")
        },
        "peer": theirs,
        "advantage": advantage,
        "own_advantage": same["advantage"],
        "ours": same["runs"]["loss"],
        "equal_epsilon": equal,
        "ours_at_equal_advantage": fair["runs"]["loss"],
    }


def diffprivlib(task: Task, *, repeats: int = 10) -> dict | None:
    """Return the losses of diffprivlib's logistic regression at every ε, at its best C; None without it."""
    python = python_of("science", PEERS)
    if not python.exists():
        return None
    X, X_test = (default_bounds(task.x_bound).rows(part) for part in (task.X, task.X_test))
    with tempfile.TemporaryDirectory() as folder:
        problem, out = Path(folder) / "problem.npz", Path(folder) / "answer.json"
        arrays = {"X": X, "y": task.y, "X_test": X_test, "y_test": task.y_test}
        settings = {"epsilon": PEER_BUDGETS, "C": DIFFPRIVLIB_C, "norm": task.x_bound}
        np.savez(problem, **arrays, **settings, repeats=repeats, seed=0)
        program = HERE / "peers" / "with_diffprivlib.py"
        subprocess.run(
            [str(python), str(program), "--problem", str(problem), "--out", str(out)],
            check=True,
            env=environment_of(1, is_own=False),
        )
        answer = json.loads(out.read_text())
    changes = [[loss - task.baseline.loss for loss in row] for row in answer["losses"]]
    return {
        "version": answer["version"],
        "C": answer["C"],
        "epsilon": list(PEER_BUDGETS),
        "losses": changes,
    }


# --- Slow mechanisms ---


def slow_runs(task: Task, name: str, n_runs: int) -> dict:
    """Return a preview of a few runs at ε = 1 beside as many real ones; AIM has no other noise than real."""
    preview = previews(task, name, "answer", [1.0], n_runs=n_runs)[0]
    plan = plan_of(task, name, 1.0, "answer")
    real: list[float] | None = None
    if name == "dp-sgd":
        from epsilens.models.opacus_release import released_coefficients

        rows, tested = (default_bounds(task.x_bound).rows(X) for X in (task.X, task.X_test))
        real = []
        for _ in range(n_runs):
            theta = released_coefficients(rows, task.y, 1, plan.settings, generator=None)
            z = tested @ theta[:, 0]
            real.append(float(np.mean(np.logaddexp(0.0, z) - task.y_test * z)))
    elif name == "dp-ebm":
        from epsilens.mechanisms._columns import PublicColumn

        columns = PublicColumn.all_of(task)
        places, tested = (
            np.column_stack([column.places(table) for column in columns])
            for table in (task.table, task.table_test)
        )
        real = []
        for _ in range(n_runs):
            model = plan.fit(columns, places, task.y, seed=None)
            chances = np.maximum(model.predict_proba(tested), np.finfo(float).tiny)
            real.append(outcomes(np.log(chances), task.y_test)[0])
    else:
        real = previews(task, name, "answer", [1.0], n_runs=n_runs)[0]["runs"]["loss"]
        real = [change + task.baseline.loss for change in real]
    return {**preview, "mechanism": name, "real": [loss - task.baseline.loss for loss in real]}


# --- All of it ---


@dataclass(frozen=True)
class Work:
    """One part: what it is, and how it is made."""

    settings: dict[str, object]
    make: Callable[[], Any]


def planned(tables: Mapping[str, Table], repeats: int, *, budgets: Sequence[float]) -> list[Work]:
    """Return all parts, those that are needed most first."""
    first: list[Work] = []
    ranked: list[tuple[tuple[float, int], Work]] = []

    def work(table: str, what: str, *more: object, make: Callable[[], Any]) -> Work:
        settings = {"table": table, "what": what}
        settings |= {f"at {number}": value for number, value in enumerate(more)}
        return Work(settings | {"delta": DELTA}, make)

    for place, (key, table) in enumerate(tables.items()):
        own = {(n, c): fingerprint(table.task, n, c) for n in FAST for c in CLAIMS}
        for name in FAST:
            for claim in CLAIMS:
                made = own[name, claim]
                first.append(
                    work(
                        *(key, "preview", name, claim, list(budgets), made),
                        make=lambda t=table, n=name, c=claim: previews(t.task, n, c, budgets),
                    )
                )
                for rank, epsilon in enumerate(REAL_BUDGETS[claim]):
                    if epsilon not in budgets:
                        continue
                    part = work(
                        *(key, "real", name, claim, epsilon, repeats, made),
                        make=lambda t=table, n=name, c=claim, e=epsilon: real_trainings(
                            t.task, n, c, e, repeats
                        ),
                    )
                    is_cheap = name == "output-perturbation"
                    ranked.append(((0 if is_cheap else rank + 1, place), part))
        for name, correction in RANDOMISED.items():
            first.append(
                work(
                    *(key, "estimate", name, list(budgets)),
                    make=lambda t=table, c=correction: randomised(t, c, budgets),
                )
            )
        first.append(
            work(
                *(key, "equal advantage", list(ADVANTAGES), list(own.values())),
                make=lambda t=table: equal_advantage(t),
            )
        )
        for rows in ("as encoded", "within the bound", "narrow") if key in PEER_TABLES else ():
            for epsilon in PEER_BUDGETS:
                if epsilon in budgets:
                    part = work(
                        *(key, "peer", rows, epsilon, *own.values()),
                        make=lambda t=table, e=epsilon, r=rows: peer(t.task, e, r),
                    )
                    ranked.append(((6.0 if rows == "narrow" else 1.5, place), part))
        if key in PEER_TABLES:
            part = work(
                *(key, "diffprivlib", list(DIFFPRIVLIB_C), *own.values()),
                make=lambda t=table: diffprivlib(t.task),
            )
            ranked.append(((2.5, place), part))
        if key == "adult":
            for name, n_runs in SLOW.items():
                part = work(
                    *(key, "slow", name, SLOW_ROWS, n_runs),
                    make=lambda t=table, n=name, k=n_runs: slow_runs(t.first(SLOW_ROWS).task, n, k),
                )
                ranked.append(((99.0 if name == "synthetic-aim" else 3.5, place), part))
    return first + [part for _, part in sorted(ranked, key=lambda pair: pair[0])]


def collected(work: Sequence[Work], kept: Kept) -> list[dict[str, Any]]:
    """Return every part, finished now or before; `found` is None where it is not."""
    return [{**part.settings, "found": kept.part(part.settings, part.make)} for part in work]


# --- What was found ---


@dataclass(frozen=True)
class Cell:
    """One budget of a mechanism: its preview beside real trainings.

    Attributes
    ----------
    table, mechanism, protects : str
    epsilon, advantage : float
    loss, accuracy : dict
        Mean and standard error of the preview and of the real trainings, their difference in combined standard
        errors, and the share of real trainings in the interval; those of the preview alone where there are no
        real ones.
    """

    table: str
    mechanism: str
    protects: str
    epsilon: float
    advantage: float
    loss: dict[str, float]
    accuracy: dict[str, float]

    @property
    def is_checked(self) -> bool:
        return "real" in self.loss


def beside(
    simulated: Sequence[float], interval: Sequence[float], real: Sequence[float] | None
) -> dict[str, float]:
    """Return a preview beside real trainings."""
    mean, error = mean_and_error(simulated)
    found = {"preview": mean, "preview_standard_error": error}
    found |= {"low": interval[0], "high": interval[1]}
    if real is not None:
        truth, own = mean_and_error(real)
        inside = [interval[0] <= value <= interval[1] for value in real]
        apart = math.hypot(error, own)
        found |= {
            "real": truth,
            "real_standard_error": own,
            "apart": (mean - truth) / apart if apart else 0.0,
            "covered": float(np.mean(inside)),
        }
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def cells_of(parts: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return a cell for every preview of the fast mechanisms."""
    real = {
        (part["table"], part["at 0"], part["at 1"], part["at 2"]): part["found"]
        for part in parts
        if part["what"] == "real"
    }
    cells = []
    for part in parts:
        if part["what"] != "preview" or part["found"] is None:
            continue
        key = (part["table"], part["at 0"], part["at 1"])
        for one in part["found"]:
            trained = real.get((*key, one["epsilon"]))
            cells.append(
                Cell(
                    *key,
                    epsilon=one["epsilon"],
                    advantage=one["advantage"],
                    loss=beside(one["runs"]["loss"], one["interval"], trained and trained["loss"]),
                    accuracy=beside(
                        one["runs"]["accuracy"],
                        one["accuracy_interval"],
                        trained and trained["accuracy"],
                    ),
                )
            )
    return cells


def summary(cells: Sequence[Cell], outcome: str = "loss") -> dict[str, float] | None:
    """Return how previews and real trainings agree; None if there are none of the latter."""
    found = [getattr(cell, outcome) for cell in cells if cell.is_checked]
    if not found:
        return None
    apart = np.abs([one["apart"] for one in found])
    covered = np.array([one["covered"] for one in found])
    error = float(covered.std(ddof=1) / math.sqrt(len(covered))) if len(covered) > 1 else 0.0
    return {
        "cells": len(found),
        "within_two": float((apart <= 2).mean()),
        "worst": float(apart.max()),
        "coverage": float(covered.mean()),
        "coverage_standard_error": error,
    }


def peer_rows(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, for every table, bound and ε, Opacus' best beside noisy descent."""
    found: dict[tuple[str, str, float], dict[str, Any]] = {}
    like: dict[tuple[str, float], float] = {}
    theirs: dict[tuple[str, float], list[float]] = {}
    for part in parts:
        if part["found"] is None:
            continue
        if (part["what"], part.get("at 0"), part.get("at 1")) == (
            "preview",
            "noisy-descent",
            "answer",
        ):
            for cell in part["found"]:
                like[part["table"], cell["epsilon"]] = float(np.mean(cell["runs"]["loss"]))
        if part["what"] == "diffprivlib":
            for epsilon, losses in zip(
                part["found"]["epsilon"], part["found"]["losses"], strict=True
            ):
                theirs[part["table"], epsilon] = losses
    for part in parts:
        if part["what"] != "peer" or part["found"] is None:
            continue
        one = part["found"]
        peer_mean, peer_error = mean_and_error(one["peer"])
        row = {
            "table": part["table"],
            "rows": "narrow" if one["rows"] == "narrow" else "default",
            "epsilon": one["epsilon"],
            "peer": peer_mean,
            "peer_standard_error": peer_error,
            "peer_rows": one["rows"],
            "settings": one["settings"],
            "advantage": one["advantage"],
            "own_advantage": one["own_advantage"],
            "ours": float(np.mean(one["ours"])),
            "equal_epsilon": one["equal_epsilon"],
            "ours_at_equal_advantage": float(np.mean(one["ours_at_equal_advantage"])),
        }
        if row["rows"] == "default":
            place = (part["table"], one["epsilon"])
            row["ours_same_neighbours"] = like.get(place)
            row["diffprivlib"] = mean_and_error(theirs[place]) if place in theirs else None
        key = (row["table"], row["rows"], row["epsilon"])
        if key not in found or row["peer"] < found[key]["peer"]:
            found[key] = row
    return [found[key] for key in sorted(found)]


def not_run(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what has no result, in words."""
    missing: dict[str, list[str]] = {}
    for part in parts:
        if part["found"] is not None:
            continue
        first, *more = (part[key] for key in part if key.startswith("at "))
        what, at = part["what"], ""
        if what == "real":
            what, at = f"real trainings by {first}, {more[0]} protected", f"{more[1]:g}"
        elif what == "peer":
            what, at = f"Opacus on rows {first}", f"{more[0]:g}"
        elif what in ("slow", "preview", "estimate"):
            what = str(first)
        missing.setdefault(f"{part['table']}: {what}", []).append(at)
    return [
        f"{what} at ε = {', '.join(sorted(at, key=float))}" if all(at) else what
        for what, at in missing.items()
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """Return the tables of a result."""
    titles = result["tables"]
    cells = [Cell(**cell) for cell in result["cells"]]
    texts = [
        f"δ = {DELTA:g} throughout. Loss is the increase of the mean log loss on the test records over the model "
        "without privacy; below 0 the private model predicts better. Private models shrink long rows to a bound, which "
        "changes the loss by itself: by how much without any noise is said for each table. ",
    ]
    texts[0] += " ".join(
        f"{one['title']}: {one['n_train']:,} records to learn from, {one['n_test']:,} to test on, "
        f"{one['columns']} encoded columns, bound {one['x_bound']:.2f}, "
        f"shrinking alone {one['shrunk_loss']:+.4f}."
        for one in titles.values()
    )
    texts += ["**Previews beside real trainings.** " + _agreement_words(result), _agreement(result)]
    texts += ["**Loss at every budget.** " + _LOSS_WORDS, _losses(result, cells)]
    texts += ["**Cost at equal advantage.** " + _EQUAL_WORDS, _equal(result)]
    if result["peer"]:
        texts += ["**The same model by Opacus.** " + _PEER_WORDS, _peers(result)]
    if result["slow"]:
        texts += ["**Slow mechanisms.** " + _SLOW_WORDS, _slow(result)]
    missing = result["not_run"]
    if missing:
        texts.append("**Not run:** " + "; ".join(missing) + ".")
    return "\n\n".join(texts)


_LOSS_WORDS = (
    "Preview, then the mean of the real trainings ± its standard error where they were made. Advantages of the two "
    "mechanisms at one ε are the same, those of randomised response are not: read this table along its rows and "
    "not across mechanisms."
)
_EQUAL_WORDS = (
    "The loss of each mechanism where an attacker gains the same. In brackets its own ε there. A star marks an "
    "estimate that failed its own check."
)
_PEER_WORDS = (
    "DP-SGD for logistic regression, the best of "
    f"{math.prod(map(len, PEER_GRID.values()))} settings by test loss, which favours Opacus; the search is not "
    "counted as a release. Rows go in as they are encoded or within the same bound as ours, whichever was "
    "better. Opacus states ε for a record that is added or removed. Such a record moves our sums as far as a "
    "changed label does, so the noise at the same ε and for the same neighbours is that of a protected answer. Our "
    "record claim is about a replaced record, which needs twice that noise: it is compared at the same ε and at the "
    "same advantage. diffprivlib perturbs the objective, at δ = 0 and the best of "
    f"{len(DIFFPRIVLIB_C)} penalties by test loss; its rows are within our bound. Version "
    "0.6.5 adds noise for the sum of the losses to their mean (scikit-learn 1.1 and later), so it learns nothing. Noisy descent is previewed here. "
    "Its steps were chosen earlier by the test loss on Adult and Income, which favours it on these two; PubCov and "
    "the generated table had no part in that."
)
_SLOW_WORDS = (
    f"{SLOW_ROWS:,} records of Adult, ε = 1, an answer protected, "
    f"{', '.join(f'{n} runs of {name}' for name, n in SLOW.items())}: simulated, and as many real releases."
)


def _agreement_words(result: Mapping[str, Any]) -> str:
    return (
        f"{RUNS} simulated runs beside {result['real_runs']} trainings by `PrivateLogisticRegression` with noise of the "
        "operating system. Asked for: at least 90 % of the means within two combined standard errors, none beyond four, "
        "and 90 % intervals that cover 85 % to 95 % of the trainings. For an answer real trainings are planned at four of "
        "the eight budgets. Randomised response is set against retraining under *Labels on Adult* and below it."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _agreement(result: Mapping[str, Any]) -> str:
    rows = []
    for key, found in result["agreement"].items():
        title = result["tables"][key]["title"] if key in result["tables"] else "all"
        for outcome, one in found.items():
            rows.append(
                (
                    title,
                    outcome,
                    f"{one['cells']}",
                    f"{one['within_two']:.0%}",
                    f"{one['worst']:.1f}",
                    f"{one['coverage']:.1%} ± {one['coverage_standard_error']:.1%}",
                )
            )
    head = ("table", "outcome", "cells", "within two", "worst, standard errors", "interval covers")
    return _table(head, rows)


def _losses(result: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    at = sorted({cell.epsilon for cell in cells})
    rows = []
    for key in result["tables"]:
        for name in FAST:
            for claim in CLAIMS:
                own = {
                    cell.epsilon: cell.loss
                    for cell in cells
                    if (cell.table, cell.mechanism, cell.protects) == (key, name, claim)
                }
                if own:
                    rows.append((key, f"{name}, {claim}", *(_shown(own.get(e)) for e in at)))
        for name in RANDOMISED:
            own = {one["epsilon"]: one for one in result["randomised"].get(key, {}).get(name, ())}
            if own:
                shown = (
                    f"{own[e]['loss']:.4f}{'' if own[e]['trusted'] else '*'}" if e in own else "–"
                    for e in at
                )
                rows.append((key, f"{name}, answer", *shown))
    return _table(("table", "mechanism, protects", *(f"ε = {e:g}" for e in at)), rows)


def _shown(loss: Mapping[str, float] | None) -> str:
    if loss is None:
        return "–"
    if "real" not in loss:
        return f"{loss['preview']:.4f}"
    return f"{loss['preview']:.4f}, {loss['real']:.4f} ± {loss['real_standard_error']:.4f}"


def _equal(result: Mapping[str, Any]) -> str:
    rows = []
    for key, found in result["equal_advantage"].items():
        lines: dict[tuple[str, str], dict[float, str]] = {}
        for one in found:
            star = "" if one["trusted"] else "*"
            shown = f"{one['loss']:.4f}{star} ({one['epsilon']:.2g})"
            lines.setdefault((one["mechanism"], one["protects"]), {})[one["advantage"]] = shown
        for (name, claim), at in lines.items():
            rows.append((key, f"{name}, {claim}", *(at[a] for a in ADVANTAGES)))
    head = ("table", "mechanism, protects", *(f"advantage {a:g}" for a in ADVANTAGES))
    return _table(head, rows)


def _peers(result: Mapping[str, Any]) -> str:
    rows = [
        (
            one["table"],
            f"{NARROW:g}" if one["rows"] == "narrow" else "default",
            f"{one['epsilon']:g}",
            f"{one['peer']:.4f} ± {one['peer_standard_error']:.4f}",
            f"{one['advantage']:.3f}",
            "–"
            if one.get("diffprivlib") is None
            else f"{one['diffprivlib'][0]:.4f} ± {one['diffprivlib'][1]:.4f}",
            "–"
            if one.get("ours_same_neighbours") is None
            else f"{one['ours_same_neighbours']:.4f}",
            f"{one['ours']:.4f}",
            f"{one['own_advantage']:.3f}",
            f"{one['ours_at_equal_advantage']:.4f} ({one['equal_epsilon']:.2g})",
        )
        for one in result["peer"]
    ]
    head = (
        "table",
        "bound",
        "ε",
        "Opacus",
        "its advantage",
        "diffprivlib",
        "noisy descent, same ε and neighbours",
        "noisy descent, same ε, record replaced",
        "its advantage",
    )
    return _table((*head, "noisy descent, same advantage (its ε)"), rows)


def _slow(result: Mapping[str, Any]) -> str:
    rows = []
    for one in result["slow"]:
        found = one["loss"]
        rows.append(
            (
                one["mechanism"],
                f"{one['advantage']:.3f}",
                f"{found['preview']:.4f} ± {found['preview_standard_error']:.4f}",
                f"{found['real']:.4f} ± {found['real_standard_error']:.4f}",
                f"{found['apart']:.1f}",
            )
        )
    head = ("mechanism", "advantage", "preview", "real", "apart, standard errors")
    return _table(head, rows)


def result_of(
    parts: Sequence[Mapping[str, Any]], tables: Mapping[str, Table], repeats: int
) -> dict[str, Any]:
    """Return the whole result, of the parts that are there."""
    cells = cells_of(parts)
    done = [part for part in parts if part["found"] is not None]
    agreement = {}
    for key in ("all", *tables):
        own = [cell for cell in cells if key in ("all", cell.table)]
        found = {outcome: summary(own, outcome) for outcome in ("loss", "accuracy")}
        if found["loss"] is not None:
            agreement[key] = found
    randomised_cells: dict[str, dict[str, Any]] = {}
    for part in done:
        if part["what"] == "estimate":
            randomised_cells.setdefault(part["table"], {})[part["at 0"]] = part["found"]
    return {
        "delta": DELTA,
        "preview_runs": RUNS,
        "real_runs": repeats,
        "tables": {
            key: {
                "title": table.title,
                "n_train": len(table.task.y),
                "n_test": len(table.task.y_test),
                "columns": table.task.X.shape[1],
                "x_bound": table.task.x_bound,
                "loss": table.task.baseline.loss,
                "shrunk_loss": table.shrunk_loss,
                "accuracy": table.task.baseline.accuracy,
            }
            for key, table in tables.items()
        },
        "agreement": agreement,
        "equal_advantage": {
            part["table"]: part["found"] for part in done if part["what"] == "equal advantage"
        },
        "peer": peer_rows(parts),
        "slow": [
            {
                "mechanism": part["at 0"],
                "advantage": part["found"]["advantage"],
                "loss": beside(
                    part["found"]["runs"]["loss"], part["found"]["interval"], part["found"]["real"]
                ),
            }
            for part in done
            if part["what"] == "slow"
        ],
        "not_run": not_run(parts),
        "randomised": randomised_cells,
        "cells": [asdict(cell) for cell in cells],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--tables", default=",".join(TABLES), help="some of " + ", ".join(TABLES))
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder for finished parts")
    parser.add_argument("--stored", action="store_true", help="finished parts only, nothing is run")
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    # The columns that are encoded count as public here, and so do the classes.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    names = ["generated"] if settings.quick else settings.tables.split(",")
    tables = {name: TABLES[name](settings.data) for name in names}
    budgets = (0.25, 1.0) if settings.quick else BUDGETS
    repeats = 4 if settings.quick else REAL_RUNS
    work = planned(tables, repeats, budgets=budgets)
    with tempfile.TemporaryDirectory() as folder:
        kept = Kept(Path(folder) if settings.quick else settings.kept, settings.stored)
        result = result_of(collected(work, kept), tables, repeats)
    keep("frontier", markdown(result), result, is_quick=settings.quick)


if __name__ == "__main__":
    run(main)
