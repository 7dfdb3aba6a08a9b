#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""P5's feature masking on faces and on accelerometers: what goes, what is kept, and whether ε may grow.

Identity against expression, eyes and pose on CMU faces, and against activity on WISDM; nothing masked, 30 % at
random, and the best choice by SHAP and by LIME. Every number stands beside its uncertainty; P5's own are
quoted and marked, on data of its own.

    python benchmarks/masking.py [--data DIR] [--quick] [--models 200]
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from datasets import load
from epsilens.masking import Mask, MaskedRisk, MaskStudy, attack_masked, mask_at_random
from epsilens.show import mask_picture, save_chart
from measure import run
from timing import keep

DELTA = 1e-5
ALPHA, STRONG = 0.2, 0.6
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
OPERATING = 2.0
ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
RANDOM_SHARE = 0.3
WISDM_RECORDS = 1_200
LIME_RECORDS = 40
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "masking-faces.png"
# Quoted: P5 Table II, ε and accuracy at ASR^M ≈ 0.54, DP-SGD alone and with optimised masking.
PRINTED = {
    "JAFFE": (1.73, 0.1824, 6.87, 0.335),
    "RaFD": (1.65, 0.1717, 6.54, 0.291),
    "TFEID": (1.78, 0.1762, 4.33, 0.287),
    "100-Driver": (2.13, 0.5731, 7.14, 0.637),
}


@dataclass(frozen=True)
class Task:
    """Records with an answer and a person.

    Attributes
    ----------
    name : str
    X : array of shape (n, p)
    y, who : array of shape (n,)
    shape : (height, width) of pictures, else None
    strength : float
        C of the regressions that are explained.
    is_drawn_twice : bool
        Whether the explainers are asked twice, to see how steady they are.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    who: np.ndarray
    shape: tuple[int, int] | None = None
    strength: float = 1.0
    is_drawn_twice: bool = True

    def halves(self, seed: int) -> tuple[np.ndarray, ...]:
        rows = np.random.default_rng(seed).permutation(len(self.y))
        cut = 2 * len(rows) // 3
        first, second = rows[:cut], rows[cut:]
        return (
            *(self.X[first], self.y[first], self.who[first]),
            *(self.X[second], self.y[second], self.who[second]),
        )


def faces(folder: Path | None, what: str) -> Task:
    held = load("cmu_faces", folder=folder)["32x30"]
    images = held["images"]
    return Task(
        f"CMU faces, {what}",
        images.reshape(len(images), -1) / 255.0,
        held[what],
        held["identity"],
        images.shape[1:],
        is_drawn_twice=what == "pose",
    )


def wisdm(folder: Path | None, seed: int) -> Task:
    table = load("wisdm", folder=folder)
    features = table.drop(columns=["UNIQUE_ID", "user", "class"]).dropna(axis=1)
    rows = np.random.default_rng(seed).permutation(len(table))[:WISDM_RECORDS]
    X = StandardScaler().fit_transform(features.iloc[rows]) / math.sqrt(features.shape[1])
    return Task(
        "WISDM, activity",
        X,
        table["class"].to_numpy()[rows].astype(str),
        table["user"].to_numpy()[rows].astype(int),
        strength=float(features.shape[1]),
    )


def choose(
    task: Task, seed: int, *, lime: bool
) -> tuple[MaskStudy, dict[str, Mask], dict[str, float]]:
    """Choose the masks; return them, and what else was measured about the explainers."""
    model = LogisticRegression(C=task.strength, max_iter=500)
    study = MaskStudy(model, identity_estimator=model).fit(*task.halves(seed))
    # P5's plain positive part, so that a task that cannot be learnt has a mask as well.
    settings = {"standard_errors": 0.0, "random_state": seed}
    by_shap = study.importances(explainer="shap", **settings)
    masks = {
        "SHAP": study.choose(alpha=ALPHA, importances=by_shap, alphas=ALPHAS, **settings),
        f"SHAP, α = {STRONG:g}": study.choose(
            alpha=STRONG, importances=by_shap, alphas=(), **settings
        ),
    }
    import warnings

    from epsilens.errors import PrivacyLeakWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        own = study.choose(
            alpha=ALPHA, scope="identity", importances=by_shap, alphas=(), **settings
        ).document
    about = {
        "person_identity_accuracy": own.outcomes[-1].identity_accuracy,
        "person_utility_accuracy": own.outcomes[-1].utility_accuracy,
        "seconds_per_person_mask": own.seconds_per_mask,
    }
    if lime:
        again = []
        for other in (seed, seed + 1) if task.is_drawn_twice else (seed,):
            found = study.importances(
                explainer="lime", max_rows=LIME_RECORDS, **(settings | {"random_state": other})
            )
            again.append(study.choose(alpha=ALPHA, importances=found, alphas=(), **settings))
        masks["LIME"] = again[0]
    if lime and task.is_drawn_twice:
        about["lime_overlap"] = overlap(*(one.kept for one in again))
        half = study.importances(
            explainer="shap", max_rows=LIME_RECORDS, **(settings | {"random_state": seed + 1})
        )
        other = study.choose(alpha=ALPHA, importances=half, alphas=(), **settings)
        first = study.importances(explainer="shap", max_rows=LIME_RECORDS, **settings)
        one = study.choose(alpha=ALPHA, importances=first, alphas=(), **settings)
        about["shap_overlap"] = overlap(one.kept, other.kept)
    return study, masks, about


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Return the features masked by both over those masked by either."""
    either = (~first | ~second).sum()
    return float((~first & ~second).sum() / either) if either else 1.0


def attacked(task: Task, masks: dict[str, Mask], n_models: int, seed: int) -> MaskedRisk:
    n = task.X.shape[1]
    kept = {
        f"random {RANDOM_SHARE:.0%}".replace("%", " %"): mask_at_random(
            n, n_masked=round(RANDOM_SHARE * n), random_state=seed
        ),
        **{name: mask.kept for name, mask in masks.items()},
    }
    return attack_masked(
        task.X,
        task.y,
        kept,
        epsilon=EPSILONS,
        delta=DELTA,
        shadow_models=n_models,
        random_state=seed,
        batch=32,
        epochs=20,
    )


def random_outcome(study: MaskStudy, n: int, seed: int) -> dict[str, float]:
    mask = study.choose(
        method="random", share=RANDOM_SHARE, alphas=(), random_state=seed, max_rows=20
    )
    return mask.document.outcomes[-1].model_dump() | {"features": n}


def mask_rows(task: Task, study: MaskStudy, masks: dict[str, Mask], seed: int) -> list[dict]:
    """Return a row for nothing, for 30 % at random, and for every mask."""
    document = next(iter(masks.values())).document
    none, n = document.outcomes[0].model_dump(), task.X.shape[1]
    rows = [
        {"task": task.name, "mask": "none", "features": n, **none},
        {
            "task": task.name,
            "mask": "random 30 %",
            **random_outcome(study, n, seed),
        },
    ]
    for name, mask in masks.items():
        found = mask.document
        rows.append(
            {
                "task": task.name,
                "mask": name,
                "features": n,
                **found.outcomes[-1].model_dump(),
                "utility_kept": found.utility_kept,
                "privacy_kept": found.privacy_kept,
                "utility_bound": found.utility_bound,
                "solver": found.solver,
                "seconds_per_record": found.seconds_per_record,
                "seconds_per_mask": found.seconds_per_mask,
                "utility_guess": found.utility_guess,
                "identity_guess": found.identity_guess,
            }
        )
    return rows


def risk_rows(task: Task, risk: MaskedRisk) -> list[dict]:
    """Return a row for every mask and ε."""
    rows = []
    for name, attacks in risk.attacks.items():
        accuracy, error = risk.model_accuracy(name)
        difference = risk.accuracies[name] - risk.accuracies["none"]
        paired = difference.std(axis=1, ddof=1) / math.sqrt(difference.shape[1])
        balanced, balanced_error = risk.attack_accuracy(name)
        equal = {
            measure: (
                risk.equivalent(name, measure=measure),
                risk.gains(name, measure=measure),
            )
            for measure in ("asr_max", "balanced_accuracy")
        }
        for e, at in enumerate(risk.epsilons):
            row = {
                "task": task.name,
                "mask": name,
                "epsilon": at,
                "n_records": len(task.y),
                "asr_max": attacks[e].asr_max,
                "floor_q95": attacks[e].asr_max_null[0.95],
                "p_value": attacks[e].asr_max_p_value,
                "at_least": attacks[e].asr_max_lower_bound,
                "balanced": balanced[e],
                "balanced_error": balanced_error[e],
                "accuracy": accuracy[e],
                "accuracy_error": error[e],
                "accuracy_change": float(difference[e].mean()),
                "accuracy_change_error": paired[e],
            }
            for measure, (found, gains) in equal.items():
                one = found[e]
                row[measure + "_equivalent"] = one.equivalent
                row[measure + "_low"], row[measure + "_high"] = one.low, one.high
                row[measure + "_gain"] = gains[e]
                row[measure + "_accuracy"] = between(risk, name, one.equivalent)
            rows.append({k: float(v) if isinstance(v, np.floating) else v for k, v in row.items()})
    return rows


def between(risk: MaskedRisk, name: str, epsilon: float | None) -> float | None:
    """Return the accuracy at an ε between those that were trained, on a logarithmic axis."""
    if epsilon is None:
        return None
    accuracy, _ = risk.model_accuracy(name)
    return float(np.interp(math.log(epsilon), np.log(risk.epsilons), accuracy))


def percent(value: float | None, error: float | None = None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


def budget(row: dict, measure: str) -> str:
    value, low, high = (row[f"{measure}_{end}"] for end in ("equivalent", "low", "high"))
    shown = "off the grid" if value is None else f"{value:.2g}"
    reach = "" if low is None else f" ({low:.2g} to {high:.2g})"
    return f"{shown}{reach}: {row[f'{measure}_gain']}"


def tables(
    chosen: list[dict], risks: list[dict], curves: list[dict], abouts: list[dict], n_models: int
) -> str:
    parts = [
        f"**What goes and what is kept (α = {ALPHA:g}; accuracies in %, linear models without noise)**",
        "",
        "| task | mask | features masked | utility kept | identity kept | task accuracy | people recognised | "
        "explaining a record, s | choosing a mask, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    parts += [
        f"| {row['task']} | {row['mask']} | {row['n_masked']} of {row['features']} | "
        f"{percent(row.get('utility_kept'))} | {percent(row.get('privacy_kept'))} | "
        f"{percent(row['utility_accuracy'], row['utility_error'])} | "
        f"{percent(row['identity_accuracy'], row['identity_error'])} | "
        + (
            f"{row['seconds_per_record']:.4f} | {row['seconds_per_mask']:.3f} |"
            if "seconds_per_record" in row
            else "– | – |"
        )
        for row in chosen
    ]
    parts += [
        "",
        f"**The ε that exposes as much as ε = {OPERATING:g} on all features (P5 Table II, Figs. 5 and 7)**",
        "",
        "| task | mask | ASR^M at that ε (chance up to) | ε at equal ASR^M | ε at equal balanced attack "
        "accuracy | task accuracy at that ε | change against all features | task accuracy at equal "
        "balanced attack accuracy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    parts += [
        f"| {row['task']} | {row['mask']} | {row['asr_max']:.3f} ({row['floor_q95']:.3f}) | "
        + (
            "– | – | "
            if row["mask"] == "none"
            else f"{budget(row, 'asr_max')} | {budget(row, 'balanced_accuracy')} | "
        )
        + f"{percent(row['accuracy'], row['accuracy_error'])} | "
        + (
            "–"
            if row["mask"] == "none"
            else percent(row["accuracy_change"], row["accuracy_change_error"])
        )
        + f" | {'–' if row['mask'] == 'none' else percent(row['balanced_accuracy_accuracy'])} |"
        for row in risks
        if row["epsilon"] == OPERATING
    ]
    compared = [row for row in risks if row["mask"] != "none"]
    for measure, words in (("asr_max", "ASR^M"), ("balanced_accuracy", "balanced attack accuracy")):
        counts = {word: 0 for word in ("larger", "within the noise", "smaller")}
        for row in compared:
            counts[row[f"{measure}_gain"]] += 1
        parts.append("")
        parts.append(
            f"Over all {len(compared)} pairs of mask and ε, by {words}: ε may clearly be larger in "
            f"{counts['larger']}, must clearly be smaller in {counts['smaller']}, and the gain is within "
            f"the noise in {counts['within the noise']}."
            + (
                f" Intervals of 95 % miss on each side about {round(0.025 * len(compared))} times in "
                f"{len(compared)} by chance."
                if measure == "balanced_accuracy"
                else ""
            )
        )
    parts += [
        "",
        "**P5 Table II, quoted (other data, ResNets, no errors given): ε and accuracy at ASR^M ≈ 0.54**",
        "",
        "| data | ε, DP-SGD alone | accuracy, % | ε, with masking | accuracy, % |",
        "|---|---|---|---|---|",
    ]
    parts += [
        f"| {name} | {before:g} | {100 * one:.1f} | {after:g} | {100 * two:.1f} |"
        for name, (before, one, after, two) in PRINTED.items()
    ]
    parts += [
        "",
        "**As α grows, without noise (P5 Fig. 6a; SHAP; % of test records)**",
        "",
        "| task | " + " | ".join(f"α = {alpha:g}" for alpha in ALPHAS) + " |",
        "|---|" + "---|" * len(ALPHAS),
    ]
    for curve in curves:
        for what, words in (("utility_accuracy", "task"), ("identity_accuracy", "people")):
            cells = " | ".join(percent(point[what]) for point in curve["points"])
            parts.append(f"| {curve['task']}: {words} | {cells} |")
    parts += [
        "",
        "**One mask for each person (P5 Alg. 1), and how steady the explainers are (P5 Figs. 9, 10)**",
        "",
        "| task | people recognised by their own masks, % | choosing one, s | masked alike by two draws of 40 records, %: "
        "SHAP | LIME |",
        "|---|---|---|---|---|",
    ]
    parts += [
        f"| {about['task']} | {percent(about['person_identity_accuracy'])} | "
        f"{about['seconds_per_person_mask']:.3f} | {percent(about.get('shap_overlap'))} | "
        f"{percent(about.get('lime_overlap'))} |"
        for about in abouts
    ]
    parts += [
        "",
        f"{n_models:,} shadow models for every mask and ε, logistic or softmax regression with DP-SGD (δ = "
        "10⁻⁵, 20 epochs, batches of 32), on the same random halves for all masks. Importances from records "
        "set aside, P5's plain positive part. ±: one standard error, over test records above, over models "
        "below; changes are of the same halves. ASR^M's interval holds every ε of the grid "
        f"({', '.join(f'{e:g}' for e in EPSILONS)}) that its simultaneous 95 % bounds allow; that of the "
        "balanced accuracy redraws the models, 95 %, and ends with the grid. Seconds: wall clock, one thread, on a "
        "machine with other work.",
    ]
    return "\n".join(parts)


def draw(task: Task, seed: int) -> None:
    """Draw importances and masks as pictures; no face is in them."""
    study = MaskStudy(LogisticRegression(C=task.strength, max_iter=500)).fit(*task.halves(seed))
    found = study.importances(standard_errors=0.0, random_state=seed)
    masks = {
        f"kept at α = {alpha:g}": study.choose(alpha=alpha, importances=found, alphas=()).kept
        for alpha in (ALPHA, STRONG)
    }
    parts = {"identifies (SHAP)": found[1].overall, "tells the pose (SHAP)": found[0].overall}
    save_chart(mask_picture(parts | masks, shape=task.shape, width=160), FIGURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    parser.add_argument("--figure", action="store_true", help="draw the figure and nothing else")
    settings = parser.parse_args()
    if settings.figure:
        draw(faces(settings.data, "pose"), settings.seed)
        return
    n_models = 40 if settings.quick else settings.models
    tasks = [wisdm(settings.data, settings.seed)]
    if not settings.quick:
        tasks += [faces(settings.data, what) for what in ("expression", "eyes", "pose")]
    chosen, risks, curves, abouts = [], [], [], []
    for task in tasks:
        started = time.perf_counter()
        study, masks, about = choose(task, settings.seed, lime=not settings.quick)
        chosen += mask_rows(task, study, masks, settings.seed)
        points = masks["SHAP"].document.curve
        curves.append({"task": task.name, "points": [point.model_dump() for point in points]})
        abouts.append({"task": task.name, **about})
        print(f"  {task.name}: chosen ({time.perf_counter() - started:.0f} s)", flush=True)
        risks += risk_rows(task, attacked(task, masks, n_models, settings.seed))
        print(f"  {task.name}: attacked ({time.perf_counter() - started:.0f} s)", flush=True)
    if not settings.quick:
        draw(tasks[-1], settings.seed)
    keep(
        "masking",
        tables(chosen, risks, curves, abouts, n_models),
        {
            "models": n_models,
            "seed": settings.seed,
            "delta": DELTA,
            "alpha": ALPHA,
            "masks": chosen,
            "rows": risks,
            "curves": curves,
            "about": abouts,
            "quoted": {name: list(row) for name, row in PRINTED.items()},
        },
        is_quick=settings.quick,
    )


if __name__ == "__main__":
    run(main)
