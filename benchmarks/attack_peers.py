#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Membership attacks on forests and boosted trees, beside SACRO-ML, LeakPro and PrivacyGuard, on the same models.

Models are trained on random halves of a table. Half of them are shadow models, some of the others targets. What
they answer is given to everybody: our methods, SACRO-ML's LiRA, LeakPro's LiRA, RMIA and BASE, PrivacyGuard's LiRA
and RMIA. Rates are computed here from the scores of each, in the same way. SACRO-ML and PrivacyGuard need
`make peers`, LeakPro `make peers-leakpro`; without them their rows are left out, with the reason.

    python benchmarks/attack_peers.py [--data DIR] [--quick] [--shadows 64] [--targets 10] [--peers DIR]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import datasets
from datasets import adult
from epsilens.errors import ApproximationWarning
from epsilens.risk import attack_membership, lira
from measure import run
from timing import HERE, PEERS, environment_of, keep, python_of

sys.path.insert(0, str(HERE / "peers"))
from attack_exchange import Models

FPR = (0.01, 0.001)
N_TREES = 100
HALF_A_VOTE = 0.5 / N_TREES
"""A forest of 100 trees cannot tell probabilities that differ by less, so 0 and 1 are taken for this and 1 minus it."""
SMALLEST = 1e-16
"""SACRO-ML's own limit for probabilities of 0 and 1."""
AS_THEY_ARE, CLIPPED = "as they are", "half a vote"
FAMILIES: dict[str, Callable[[int], ClassifierMixin]] = {
    "random forest": lambda seed: RandomForestClassifier(N_TREES, random_state=seed),
    "boosted trees": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}
OURS = {
    f"LiRA {'online' if online else 'offline'}, {words}": {"online": online, "variance": variance}
    for online in (True, False)
    for variance, words in (("per-sample", "a spread for each record"), ("fixed", "one spread"))
}
METHODS = {
    "RMIA online": "rmia",
    "RMIA offline": "rmia-offline",
    "shrunk variance online": "bavaria",
    "shrunk variance offline": "bavaria-offline",
    "quantile of outsiders with such features": "quantile",
    "combined": "combined",
}
"""Our other methods; they bring rounded probabilities into range by themselves."""
AUTO = "auto (fixed beforehand)"
PROGRAMS = {
    "SACRO-ML": ("attacks", "attack_with_sacroml.py", "run `make peers`"),
    "LeakPro": ("leakpro", "attack_with_leakpro.py", "run `make peers-leakpro`"),
    "PrivacyGuard": ("privacyguard", "attack_with_privacyguard.py", "run `make peers`"),
}


@dataclass(frozen=True)
class Row:
    """What one attack found on the targets of one table and model.

    Attributes
    ----------
    table, model, library, method, outputs : str
        `outputs` says whether the models' probabilities were given as they are or clipped at half a vote.
    auc, tpr_1, tpr_01 : list of float
        Area under the ROC, and true-positive rate at 1 % and at 0.1 % false positives, one a target.
    cpu_seconds : float
        Processor time to score the records of one target, without training.
    """

    table: str
    model: str
    library: str
    method: str
    outputs: str
    auc: list[float]
    tpr_1: list[float]
    tpr_01: list[float]
    cpu_seconds: float


# --- Tables and models ---


def tables(folder: Path | None, *, is_quick: bool) -> Iterable[tuple[str, np.ndarray, np.ndarray]]:
    """Return name, features and binary label of every table."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X, y
    if is_quick:
        return
    X, y = load_digits(return_X_y=True)
    yield "digits, 5 or more", X, (y >= 5).astype(int)
    frame, label = adult.ordinary(datasets.load("adult", folder=folder))
    pick = np.random.default_rng(0).choice(len(frame), 4_000, replace=False)
    coded = pd.get_dummies(frame, dtype=float).to_numpy()
    yield "Adult, 4,000 people", coded[pick], (label == ">50K").to_numpy().astype(int)[pick]


def train(
    make: Callable[[int], ClassifierMixin],
    X: np.ndarray,
    y: np.ndarray,
    n_models: int,
    *,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Train models on random halves; return probabilities of the own class, membership, CPU seconds a model."""
    members = np.random.default_rng(seed).random((n_models, len(y))) < 0.5
    started = time.process_time()
    probability = np.array(
        [
            make(index).fit(X[seen], y[seen]).predict_proba(X)[np.arange(len(y)), y]
            for index, seen in enumerate(members)
        ]
    )
    return probability, members, (time.process_time() - started) / n_models


def inputs(models: Models, family: str) -> dict[str, Models]:
    """Return the models' answers as they are and, for a forest, with 0 and 1 replaced."""
    found = {AS_THEY_ARE: models}
    if family == "random forest":
        clip = {
            name: np.clip(getattr(models, name), HALF_A_VOTE, 1 - HALF_A_VOTE)
            for name in ("shadow", "target")
        }
        found[CLIPPED] = replace(models, **clip)
    return found


# --- Attacks ---


def by_epsilens(
    probability: np.ndarray, members: np.ndarray, n_targets: int, features: np.ndarray
) -> dict[str, tuple[np.ndarray, float]]:
    """Return our scores for the targets, and CPU seconds a model, for each setting.

    `lira` judges models of odd index by those of even index, which are the shadow models, and the other way
    round: its seconds are shared among all models. They include the null distribution and the bound on ε.
    """
    kept = np.clip(probability, SMALLEST, 1 - SMALLEST)
    phi = np.log(kept) - np.log1p(-kept)
    found = {}
    for name, settings in OURS.items():
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ApproximationWarning)  # records that cannot be judged
            attack = lira(phi, members, **settings)
        seconds = (time.process_time() - started) / len(phi)
        found[name] = (attack.held_out.statistic[1::2][:n_targets], seconds)
    for name, method in {**METHODS, AUTO: "auto"}.items():
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ApproximationWarning)
            attack = attack_membership(
                phi, members, method=method, features=features if method == "quantile" else None
            )
        seconds = (time.process_time() - started) / len(phi)
        found[name] = (attack.held_out.statistic[1::2][:n_targets], seconds)
    return found


def by_peer(name: str, models: Models, peers: Path) -> dict | str:
    """Return a peer's answers, or in one line why there are none."""
    environment, program, how = PROGRAMS[name]
    python = python_of(environment, peers)
    if not python.exists():
        return f"environment {environment!r} is not there: {how}"
    with tempfile.TemporaryDirectory() as folder:
        problem, out = Path(folder) / "models.npz", Path(folder) / "answer.json"
        models.save(problem)
        done = subprocess.run(
            [
                str(python),
                str(HERE / "peers" / program),
                "--problem",
                str(problem),
                "--out",
                str(out),
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment_of(1, is_own=False),
        )
        if done.returncode != 0:
            return next(iter(done.stderr.strip().splitlines()[-1:]), "stopped without a message")
        return json.loads(out.read_text())


# --- Rates ---


def rates(scores: np.ndarray, members: np.ndarray) -> tuple[float, ...]:
    """Return AUC and the true-positive rates at the false-positive rates of `FPR`.

    Records of equal score are accused together; a score that is NaN is the lowest.
    """
    values = np.where(np.isnan(scores), -np.inf, scores)
    place = np.unique(values, return_inverse=True)[1]
    n_inside, n_outside = (
        np.bincount(place[part], minlength=place.max() + 1) for part in (members, ~members)
    )
    tpr, fpr = (np.append(0, n[::-1].cumsum()) / n.sum() for n in (n_inside, n_outside))
    auc = float(np.trapezoid(tpr, fpr))
    return auc, *(float(tpr[fpr <= level].max()) for level in FPR)


def as_row(
    place: tuple[str, str, str, str, str],
    scores: Sequence[np.ndarray] | np.ndarray,
    members: np.ndarray,
    seconds: float,
) -> Row:
    """Measure the scores of all targets."""
    each = [
        rates(np.asarray(s, dtype=float), seen) for s, seen in zip(scores, members, strict=True)
    ]
    auc, tpr_1, tpr_01 = (list(column) for column in zip(*each, strict=True))
    return Row(*place, auc, tpr_1, tpr_01, seconds)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over targets and its standard error.

    Targets share the shadow models and the records: the error is that of new targets alone.
    """
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def best(rows: Iterable[Row], library: str) -> Row | None:
    """Return the setting of a library that finds most members at 1 % false positives."""
    own = [row for row in rows if row.library == library]
    return max(own, key=lambda row: float(np.mean(row.tpr_1)), default=None)


def summary(rows: Sequence[Row]) -> list[dict]:
    """Return for each table and model the best of every library, and ours minus theirs on the same targets.

    Ours is what "auto" finds on the models' answers as they are: nothing of it is chosen with the truth in hand.
    """
    found = []
    for table, model in dict.fromkeys((row.table, row.model) for row in rows):
        here = [row for row in rows if (row.table, row.model) == (table, model)]
        ours = next(row for row in here if (row.method, row.outputs) == (AUTO, AS_THEY_ARE))
        here = [ours, *(row for row in here if row.library != "epsilens")]
        for library in dict.fromkeys(row.library for row in here):
            row = best(here, library)
            difference = mean_and_error(np.subtract(ours.tpr_1, row.tpr_1))
            found.append(
                {
                    "table": table,
                    "model": model,
                    "library": library,
                    "method": row.method,
                    "outputs": row.outputs,
                    **{
                        what: dict(
                            zip(
                                ("mean", "standard_error"),
                                mean_and_error(getattr(row, what)),
                                strict=True,
                            )
                        )
                        for what in ("auc", "tpr_1", "tpr_01")
                    },
                    "ours_minus_this": {"mean": difference[0], "standard_error": difference[1]},
                    "cpu_seconds": row.cpu_seconds,
                }
            )
    return found


# --- Table ---


def _plus_minus(values: Sequence[float]) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.3f} ± {error:.3f}"


def markdown(rows: Sequence[Row], about: dict) -> str:
    """Return all attacks, a table for each data set and model, after the best of every library."""
    parts = [
        f"{about['shadows']} shadow models and {about['targets']} target models for each table and model, each trained on a random "
        "half; means over the targets ± standard errors, which leave out what other shadow models would change. Everybody is "
        "given the same answers of the same models. TPR: share of the members found at 1 % or 0.1 % false positives. "
        "Outputs: a forest's probabilities as they are, or with 0 and 1 replaced by half a vote; this script does that; of the "
        "libraries only our methods beside plain LiRA do it by themselves. Seconds are processor time without training, and no race: ours are those of one call that "
        f"judges all {2 * about['shadows']} models and finds the null distribution and the bound on ε, divided by the models; SACRO-ML's "
        "are for one target, with its normality tests and the saving of the shadow models that it is given.",
        "### Ours, fixed beforehand, and the best setting of every other library",
        "\n".join(
            [
                "| table | model | library | attack | outputs | TPR at 1 % | ours minus this | TPR at 0.1 % | AUC | s a target |",
                "|" + "---|" * 10,
                *(_line(row) for row in summary(rows)),
            ]
        ),
        "Ours is what `auto` finds, from the answers as they are. Of the others the setting with the largest TPR at 1 % is chosen "
        "with the truth in hand, so that theirs are somewhat too large. `auto` was developed on models of these tables that were "
        "trained with another seed; its rule does not look at the results.",
    ]
    for name, reason in about["missing"].items():
        parts.append(f"{name} is not in these tables: {reason}.")
    for table, model in dict.fromkeys((row.table, row.model) for row in rows):
        lines = [
            f"### {table}, {model}: every setting",
            "",
            "| library | attack | outputs | TPR at 1 % | TPR at 0.1 % | AUC | s a target |",
            "|" + "---|" * 7,
        ]
        lines += [
            f"| {row.library} | {row.method} | {row.outputs} | {_plus_minus(row.tpr_1)} | {_plus_minus(row.tpr_01)} "
            f"| {_plus_minus(row.auc)} | {row.cpu_seconds:.3f} |"
            for row in rows
            if (row.table, row.model) == (table, model)
        ]
        parts.append("\n".join(lines))
    seconds = ", ".join(
        f"{name} {value:.2f} s" for name, value in about["seconds_per_training"].items()
    )
    parts.append(f"Training, processor time a model: {seconds}.")
    return "\n\n".join(parts)


def _line(row: dict) -> str:
    def cell(what: str) -> str:
        return f"{row[what]['mean']:.3f} ± {row[what]['standard_error']:.3f}"

    less = "–"
    if row["library"] != "epsilens":
        less = f"{row['ours_minus_this']['mean']:+.3f} ± {row['ours_minus_this']['standard_error']:.3f}"
    return (
        f"| {row['table']} | {row['model']} | {row['library']} | {row['method']} | {row['outputs']} | {cell('tpr_1')} | {less} "
        f"| {cell('tpr_01')} | {cell('auc')} | {row['cpu_seconds']:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--shadows", type=int, default=64)
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument(
        "--seed", type=int, default=2, help="1 was used to develop the methods; 2 is the default"
    )
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    n_shadows, n_targets = (16, 2) if settings.quick else (settings.shadows, settings.targets)
    rows: list[Row] = []
    missing: dict[str, str] = {}
    versions: dict[str, str] = {}
    training: dict[str, float] = {}
    for table, X, y in tables(settings.data, is_quick=settings.quick):
        for family, make in FAMILIES.items():
            probability, members, seconds = train(make, X, y, 2 * n_shadows, seed=settings.seed)
            training[f"{table}, {family}"] = seconds
            models = Models(
                y,
                probability[0::2],
                members[0::2],
                probability[1::2][:n_targets],
                members[1::2][:n_targets],
            )
            for outputs, given in inputs(models, family).items():
                place = (table, family)
                whole = probability
                if outputs == CLIPPED:
                    whole = np.clip(probability, HALF_A_VOTE, 1 - HALF_A_VOTE)
                for method, (scores, cpu) in by_epsilens(
                    whole, members, n_targets, np.column_stack([X, y]).astype(float)
                ).items():
                    rows.append(
                        as_row(
                            (*place, "epsilens", method, outputs), scores, given.target_members, cpu
                        )
                    )
                for name in PROGRAMS:
                    answer = missing.get(name) or by_peer(name, given, settings.peers)
                    if isinstance(answer, str):
                        missing[name] = answer
                        continue
                    versions[name] = answer["version"]
                    for each in answer["answers"]:
                        rows.append(
                            as_row(
                                (*place, name, each["method"], outputs),
                                each["scores"],
                                given.target_members,
                                float(np.mean(each["cpu_seconds"])),
                            )
                        )
                print(f"{table}, {family}, {outputs}: done", file=sys.stderr)
    about = {
        "shadows": n_shadows,
        "targets": n_targets,
        "versions": versions,
        "missing": missing,
        "seconds_per_training": training,
    }
    result = {**about, "summary": summary(rows), "rows": [asdict(row) for row in rows]}
    keep("attack-peers", markdown(rows, about), result, is_quick=settings.quick)


if __name__ == "__main__":
    run(main)
