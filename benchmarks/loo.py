#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Leave-one-out scores: how near (P4 Table 1), how useful (planted label errors), how fast.

The peers of the timings need `make peers`; one that is not there is reported as not available.

    python benchmarks/loo.py [--data DIR] [--quick] [--peers DIR] [--turns 5]
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import datasets
from datasets import adult
from epsilens.data import build_encoder, infer_schema, load_survey
from epsilens.errors import ApproximationWarning
from epsilens.valuation import Appraisal, removal_curve
from measure import run as run_benchmark
from p4 import TABLE_1, Sample, banknote, samples
from refits import in_long_double, without_each
from timing import PEERS, Contestant, as_json, keep, ratio, relative_difference, take_turns
from whatif_speed import converged, gaussian

from exchange import Problem  # isort: skip  # `timing` makes the peers' folder known

METHODS = ("first-order", "second-order", "newton", "exact")
WRONG, WORST = 0.05, 0.10
DROPPED = (0.02, 0.05, 0.10)
OURS = "epsilens, logistic, second order"
CONTESTANTS = (
    Contestant("epsilens, logistic, first order", "loo_with_epsilens", "logistic-first-order"),
    Contestant(OURS, "loo_with_epsilens", "logistic-second-order"),
    Contestant("epsilens, linear, exact", "loo_with_epsilens", "linear-exact"),
    Contestant("pyinfluence, H⁻¹ only", "loo_with_pyinfluence", "inverse-hessian", "science"),
    Contestant("pyinfluence, its scores", "loo_with_pyinfluence", "scores", "science"),
    Contestant("statsmodels, linear, exact", "loo_with_statsmodels", "leverage", "science"),
)
EXACT = Contestant("epsilens, logistic, exact", "loo_with_epsilens", "logistic-exact", n_cores=2)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--peers", type=Path, default=PEERS, help="folder that `make peers` made")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def accuracy_of(sample: Sample) -> dict[str, object]:
    """Return Table 1's numbers for one sample, and how near `exact` is."""
    data = (sample.X, sample.y, sample.X_test, sample.y_test)
    truth = without_each(sample.model, *data)
    appraisal = Appraisal.of(sample.model, *data)
    row: dict[str, object] = {
        "data": sample.name,
        "n_train": len(sample.y),
        "n_features": sample.X.shape[1],
        "exact_mean": float(truth.mean()),
        "paper": TABLE_1.get(sample.name),
    }
    for method in METHODS:
        scores = appraisal.leave_one_out(method=method)
        row[method] = {
            "mean": float(scores.mean()),
            "mean_absolute_error": float(np.abs(scores - truth).mean()),
            "mean_squared_error": float(np.square(scores - truth).mean()),
            "largest_relative_error": relative_difference(scores, truth),
        }
    if sample.is_linear:
        extended = in_long_double(*data)
        if extended is not None:
            row["exact_against_extended_precision"] = relative_difference(
                appraisal.leave_one_out(), extended
            )
            row["refits_against_extended_precision"] = relative_difference(truth, extended)
    return row


def accuracy_table(rows: list[dict]) -> list[str]:
    text = [
        "Influence of every training record on the test loss, against fitting again without it in "
        "double precision (P4 Table 1; its numbers in brackets, from its own draws and splits). The "
        "last two columns: the largest error of `exact`, as a share of the largest influence.",
        "",
        "| data | n, features | mean, refits | first order: mean | abs. error | sq. error "
        "| second order: mean | abs. error | sq. error | Newton: abs. error "
        "| exact against refits | against extended precision |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        paper = row["paper"]

        def cell(value: float, printed: float | None) -> str:
            return f"{value:.2e}" + ("" if printed is None else f" ({printed:.2e})")

        cells = [
            row["data"],
            f"{row['n_train']:,}, {row['n_features']}",
            cell(row["exact_mean"], paper and paper["exact_mean"]),
        ]
        for method in ("first-order", "second-order"):
            kinds = ("mean", "mean_absolute_error", "mean_squared_error")
            printed = paper[method] if paper else (None, None, None)
            cells += [cell(row[method][k], q) for k, q in zip(kinds, printed, strict=True)]
        cells.append(f"{row['newton']['mean_absolute_error']:.2e}")
        cells.append(f"{row['exact']['largest_relative_error']:.0e}")
        extended = row.get("exact_against_extended_precision")
        cells.append("–" if extended is None else f"{extended:.0e}")
        text.append("| " + " | ".join(cells) + " |")
    return text


def planted(settings: argparse.Namespace) -> list[dict]:
    """Return what is found of labels that were turned round."""
    survey = load_survey()
    answers = (survey.pop("affair") == "yes").astype(int)
    X_adult, y_adult = adult.as_p1(datasets.load("adult", folder=settings.data))
    X_notes, y_notes = banknote(settings.data)
    encoder = build_encoder(infer_schema(survey))
    tables = {
        "banknote": (pd.DataFrame(X_notes), pd.Series(y_notes), LogisticRegression(), 700, 20),
        "survey": (survey, answers, make_pipeline(encoder, LogisticRegression()), 3500, 10),
        "Adult": (X_adult, y_adult.astype(int), LogisticRegression(), 35_000, 5),
    }
    rows = []
    for number, (name, (X, y, model, n_full, n_draws)) in enumerate(tables.items()):
        n, repeats = (min(n_full, 600), 2) if settings.quick else (n_full, n_draws)
        found: dict[str, list[float]] = {"score": [], "training loss": []}
        change: dict[str, list[float]] = {}
        for repeat in range(repeats):
            rng = np.random.default_rng([settings.seed, number, repeat])
            order = rng.permutation(len(y))
            train_rows, test_rows = order[:n], order[n : n + 20_000]
            wrong = np.zeros(n, dtype=bool)
            wrong[rng.choice(n, round(WRONG * n), replace=False)] = True
            labels = np.where(wrong, 1 - y.to_numpy()[train_rows], y.to_numpy()[train_rows])
            appraisal = Appraisal.of(
                model, X.iloc[train_rows], labels, X.iloc[test_rows], y.to_numpy()[test_rows]
            )
            worst = round(WORST * n)
            for way, scores in (
                ("score", appraisal.leave_one_out(method="newton")),
                ("training loss", -appraisal.training_losses()),
            ):
                found[way].append(float(wrong[np.argsort(scores)[:worst]].sum() / wrong.sum()))
            for point in removal_curve(
                appraisal, shares=DROPPED, repeats=2 if settings.quick else 3, random_state=repeat
            ):
                way = f"{point.order}, {point.share:.0%}"
                change.setdefault(way, []).append(point.loss_change)
        rows.append(
            {
                "data": name,
                "n_train": n,
                "repeats": repeats,
                "found": {way: _mean(values) for way, values in found.items()},
                "loss_change": {way: _mean(values) for way, values in change.items()},
            }
        )
    return rows


def _mean(values: list[float]) -> dict[str, float]:
    array = np.array(values, dtype=float)
    return {
        "mean": float(array.mean()),
        "standard_error": float(array.std(ddof=1) / np.sqrt(len(array))),
    }


def planted_table(rows: list[dict]) -> list[str]:
    ways = [f"{order}, {share:.0%}" for order in ("score", "training loss") for share in DROPPED]
    ways.append(f"random, {WORST:.0%}")
    text = [
        f"{WRONG:.0%} of the training labels turned round, scores on clean test records (Newton): the "
        f"share of the wrong ones among the {WORST:.0%} of the records with the lowest score, or with "
        f"the largest training loss (by chance: {WORST:.0%}); and how the test loss in nats "
        "changes when the worst records by either, or as many at random, are dropped and the model is "
        "trained again, on test records that did not score. Mean ± standard error over draws. Where "
        "labels are noisy by nature (survey, Adult), scores of single records do not add up: dropping "
        "many of the lowest makes the model too sure of itself.",
        "",
        "| data | n | draws | found by score | found by training loss | "
        + " | ".join(f"dropped: {way}" for way in ways)
        + " |",
        "|---" * (5 + len(ways)) + "|",
    ]
    for row in rows:
        cells = [row["data"], f"{row['n_train']:,}", str(row["repeats"])]
        for way in ("score", "training loss"):
            value = row["found"][way]
            cells.append(f"{value['mean']:.1%} ± {value['standard_error']:.1%}")
        for way in ways:
            value = row["loss_change"][way]
            cells.append(f"{value['mean']:+.4f} ± {value['standard_error']:.4f}")
        text.append("| " + " | ".join(cells) + " |")
    return text


def build(settings: argparse.Namespace) -> tuple[Problem, str]:
    """Return the trained problem of the timings and what it is made of."""
    rng = np.random.default_rng(settings.seed)
    n_train, n_test = (3_000, 800) if settings.quick else (35_000, 9_000)
    if settings.quick:
        (X, y), source = gaussian(n_train + n_test, 88, rng), "Gaussian features, generated"
    else:
        frame, labels = adult.as_p1(datasets.load("adult", folder=settings.data))
        X, y = frame.to_numpy(float), labels.astype(int).to_numpy().astype(float)
        source = "Adult as P1's code prepared it"
    order = rng.permutation(len(y))
    rows, test = order[:n_train], order[n_train : n_train + n_test]
    X_train, y_train = np.ascontiguousarray(X[rows]), y[rows]
    penalty = 1.0 / n_train
    return (
        Problem(
            X=X_train,
            y=y_train,
            X_test=np.ascontiguousarray(X[test]),
            y_test=y[test],
            groups=np.zeros((0, n_train), dtype=bool),
            epsilon=np.zeros(0),
            penalty=penalty,
            theta=converged(X_train, y_train, penalty),
        ),
        source,
    )


def speed(settings: argparse.Namespace) -> tuple[list[str], dict[str, object]]:
    """Time all contestants in turns."""
    problem, source = build(settings)
    turns, repeats = (1, 1) if settings.quick else (settings.turns, 3)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        problem.save(file)
        records = dict(
            take_turns(CONTESTANTS, file, turns=turns, repeats=repeats, peers=settings.peers)
        )
        records |= take_turns((EXACT,), file, turns=1, repeats=1, peers=settings.peers)
    peers = [
        contestant.name
        for contestant in CONTESTANTS
        if "epsilens" not in contestant.name
        and "linear" not in contestant.name
        and records[contestant.name].reason is None
    ]
    n = len(problem.y)
    text = [
        f"{source}, n = {n:,}, p = {len(problem.theta)}, {len(problem.y_test):,} test records: the "
        "scores of all training records, training excluded, the Hessian included; one core but for "
        "`exact`, every method in a process of its own, in turns.",
        "",
        "| method | library | wall, ms, best | CPU, ms, best (worst turn) | of the fastest peer's "
        "first order | memory above data, MiB |",
        "|---|---|---|---|---|---|",
    ]
    fastest = min(peers, key=lambda name: records[name].seconds().min()) if peers else None
    rows, summary = [], {"fastest_peer": fastest}
    for contestant in (*CONTESTANTS, EXACT):
        record = records[contestant.name]
        more: dict[str, object] = {"name": contestant.name}
        if record.reason is not None:
            text.append(f"| {contestant.name} | not available | – | – | – | – |")
            rows.append(as_json(record, **more))
            continue
        first, cpu, wall = record.answers[0], record.seconds("cpu"), record.seconds("wall")
        share = "–"
        if fastest is not None and len(cpu) == len(records[fastest].answers):
            value = ratio(cpu, records[fastest].seconds("cpu"))
            more["ratio_to_fastest_peer"] = asdict(value)
            share = "1" if contestant.name == fastest else str(value)
        text.append(
            f"| {contestant.name} | {first.library} {first.version} | {1e3 * wall.min():,.0f} | "
            f"{1e3 * cpu.min():,.0f} ({1e3 * cpu.max():,.0f}) | {share} | "
            f"{max(a.peak_bytes for a in record.answers) / 2**20:,.0f} |"
        )
        rows.append(as_json(record, **more))
    exact = records[EXACT.name]
    if exact.reason is None:
        truth = exact.answers[0].array[0]
        some = np.argsort(-np.abs(truth))[:: max(1, n // 20)][:20]
        model = LogisticRegression(C=1.0, fit_intercept=False)
        refits = without_each(
            model, problem.X, problem.y, problem.X_test, problem.y_test, rows=some
        )
        error = float(np.abs(truth[some] - refits).max() / np.abs(truth).max())
        summary |= {"exact_error_on_sample": error, "exact_sample": len(some)}
        text += [
            "",
            f"`exact` for all {n:,} records: {exact.seconds('wall').min():.0f} s wall on two cores, "
            f"{exact.seconds('cpu').min():.0f} s CPU; {len(some)} of them fitted again by scikit-learn: "
            f"largest error {error:.0e} of the largest score.",
        ]
        for name in (CONTESTANTS[0].name, OURS):
            if records[name].reason is None:
                values = records[name].answers[0].array[0]
                away = relative_difference(values, truth)
                summary[f"{name}, error"] = away
                text.append(f"{name}: {away:.1%} of the largest score away from `exact`, at most.")
    return text, {"source": source, "n_train": n, "summary": summary, "rows": rows}


def main() -> None:
    settings = arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # leverage is looked at below
        found = [
            accuracy_of(s) for s in samples(settings.data, settings.seed, share=_share(settings))
        ]
        errors = planted(settings)
    timing_text, timings = speed(settings)
    text = [*accuracy_table(found), "", *planted_table(errors), "", *timing_text]
    keep(
        "loo",
        "\n".join(text),
        {"accuracy": found, "planted_errors": errors, "speed": timings},
        is_quick=settings.quick,
    )


def _share(settings: argparse.Namespace) -> float:
    return 0.2 if settings.quick else 1.0


if __name__ == "__main__":
    run_benchmark(main)
