#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""P5's figures of the attack: ASR^M by data set, features removed, labels randomised, and ε.

Every ASR^M stands beside what a useless attack reaches on as many records with as many models, a lower
bound, and what no attack can exceed. Speed against Opacus is in `dp_sgd_speed.py`.

    python benchmarks/lira.py [--data DIR] [--quick] [--models 1000]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from datasets import load
from epsilens.models.privacy_accounting import attack_ceiling
from epsilens.risk import DPSGDSettings, ShadowEnsemble
from measure import run
from timing import keep

DELTA = 1e-5
PRINTED_EPSILON = 8.0
EPSILONS = (0.5, 1.0, 2.0, 4.0, 7.0, 10.0, math.inf)
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
LABEL_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
MNIST_RECORDS = 2_000


@dataclass(frozen=True)
class Images:
    """A data set of pictures with values in [0, 1].

    Attributes
    ----------
    name : str
    X : array of shape (n, pixels)
    y : array of int, shape (n,)
    batch, epochs : int
    hidden : tuple of int
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    batch: int = 64
    epochs: int = 20
    hidden: tuple[int, ...] = ()

    def settings(self, epsilon: float) -> DPSGDSettings:
        """Return how its models are trained."""
        return DPSGDSettings(
            epsilon=epsilon, delta=DELTA, batch=self.batch, epochs=self.epochs, hidden=self.hidden
        )


@dataclass(frozen=True)
class Row:
    """What an attack on an ensemble shows.

    Attributes
    ----------
    name, place : the data set, and what was varied
    n_records, n_models : int
    asr_max, floor_mean, floor_q95, p_value, lower_bound : of P5's rule
    asr_mean, online_max : of P5's rule, and of online LiRA
    tpr : true positives at one false positive in a hundred
    ceiling : what no attack can exceed
    epsilon_lower_bound : what the attack proves
    accuracy : of the models on records that they did not see
    seconds : float
    """

    name: str
    place: float
    n_records: int
    n_models: int
    asr_max: float
    floor_mean: float
    floor_q95: float
    p_value: float
    lower_bound: float
    asr_mean: float
    online_max: float
    tpr: float
    ceiling: float
    epsilon_lower_bound: float
    accuracy: float
    seconds: float


def digits() -> Images:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Images("digits", X / 16.0, y)


def mnist(folder: Path | None, seed: int) -> Images:
    held = load("mnist", folder=folder)
    X, y = held["x_train"], held["y_train"]
    rows = np.random.default_rng(seed).permutation(len(X))[:MNIST_RECORDS]
    return Images(
        "MNIST, 2,000 records", X[rows].reshape(len(rows), -1) / 255.0, y[rows].astype(int)
    )


def faces(folder: Path | None, what: str) -> Images:
    held = load("cmu_faces", folder=folder)["32x30"]
    _, y = np.unique(held[what], return_inverse=True)
    X = held["images"].reshape(len(y), -1) / 255.0
    return Images(f"CMU faces, {what}", X, y, batch=32, epochs=40)


def noise(seed: int) -> Images:
    """Pictures and labels without any relation, as P5's data set R."""
    rng = np.random.default_rng(seed)
    return Images("random", rng.random((1_797, 64)), rng.integers(0, 10, 1_797))


def attacked(data: Images, epsilon: float, place: float, n_models: int, seed: int) -> Row:
    """Train and attack an ensemble."""
    started = time.perf_counter()
    settings = data.settings(epsilon)
    ensemble = ShadowEnsemble(settings, n_models=n_models, random_state=seed).fit(data.X, data.y)
    attack = ensemble.attack()
    found = Row(
        name=data.name,
        place=place,
        n_records=len(data.y),
        n_models=n_models,
        asr_max=attack.asr_max,
        floor_mean=attack.asr_max_null.mean,
        floor_q95=attack.asr_max_null[0.95],
        p_value=attack.asr_max_p_value,
        lower_bound=attack.asr_max_lower_bound,
        asr_mean=attack.asr_mean,
        online_max=ensemble.attack(online=True).asr_max,
        tpr=attack.tpr_at_fpr(0.01),
        ceiling=attack_ceiling(settings.calibration(len(data.y) / 2)),
        epsilon_lower_bound=attack.epsilon_lower_bound,
        accuracy=float(ensemble.accuracy_.mean()),
        seconds=time.perf_counter() - started,
    )
    print(
        f"  {data.name}, {place:g}: ASR^M {found.asr_max:.3f} ({found.seconds:.0f} s)", flush=True
    )
    return found


def without_features(data: Images, share: float) -> Images:
    """Remove the pixels on which a linear model rests most (P5 Fig. 4a)."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.1, max_iter=500).fit(data.X, data.y)
    importance = np.abs(model.coef_).max(axis=0) * data.X.std(axis=0)
    kept = np.argsort(-importance)[round(share * data.X.shape[1]) :]
    return replace(data, X=data.X[:, np.sort(kept)])


def with_random_labels(data: Images, share: float, seed: int) -> Images:
    """Draw the labels of a share of the records at random (P5 Fig. 4b)."""
    rng = np.random.default_rng(seed)
    drawn = rng.random(len(data.y)) < share
    return replace(data, y=np.where(drawn, rng.integers(0, data.y.max() + 1, len(data.y)), data.y))


def table(title: str, head: str, rows: list[Row], shown: Callable[[Row], str]) -> str:
    lines = [
        f"**{title}**",
        "",
        f"| {head} | ASR^M | a useless attack: mean, 95 % | p | at least | mean ASR | online | "
        "TPR at 1 % FPR | no attack above | ε proven | accuracy |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {shown(row)} | {row.asr_max:.3f} | {row.floor_mean:.3f}, {row.floor_q95:.3f} | "
        f"{row.p_value:.2g} | {row.lower_bound:.3f} | {row.asr_mean:.4f} | {row.online_max:.3f} | "
        f"{row.tpr:.4f} | {row.ceiling:.3f} | {row.epsilon_lower_bound:.2f} | {row.accuracy:.3f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    n_models = 64 if settings.quick else settings.models
    seed = settings.seed
    small = digits()
    network = replace(small, name="digits, 64-128-10", hidden=(128,))
    sets = [small]
    if not settings.quick:
        sets += [
            network,
            mnist(settings.data, seed),
            faces(settings.data, "identity"),
            faces(settings.data, "expression"),
        ]
    by_set = [
        attacked(data, PRINTED_EPSILON, PRINTED_EPSILON, n_models, seed)
        for data in [*sets, noise(seed)]
    ]
    removed = [
        attacked(without_features(data, share), PRINTED_EPSILON, share, n_models, seed)
        for data in (sets[:1] if settings.quick else [small, sets[3]])
        for share in (SHARES[::4] if settings.quick else SHARES)
    ]
    randomised = [
        attacked(with_random_labels(small, share, seed), at, share, n_models, seed)
        for at in ((math.inf,) if settings.quick else (PRINTED_EPSILON, math.inf))
        for share in (LABEL_SHARES[::4] if settings.quick else LABEL_SHARES)
    ]
    sweep = [
        attacked(data, epsilon, epsilon, n_models, seed)
        for data in (sets[:1] if settings.quick else sets)
        for epsilon in (EPSILONS[::3] if settings.quick else EPSILONS)
    ]
    half = len(LABEL_SHARES[::4] if settings.quick else LABEL_SHARES)
    levels = [math.inf] if settings.quick else [PRINTED_EPSILON, math.inf]
    parts = [
        table("Data sets, ε = 8 (P5 Fig. 1a)", "data", by_set, lambda row: row.name),
        table(
            "The pixels a linear model rests on removed, ε = 8 (P5 Fig. 4a)",
            "data, share removed",
            removed,
            lambda row: f"{row.name}, {row.place:.0%}",
        ),
        *(
            table(
                f"Labels of digits randomised, ε = {level:g} (P5 Fig. 4b)",
                "share of labels",
                randomised[k * half : (k + 1) * half],
                lambda row: f"{row.place:.0%}",
            )
            for k, level in enumerate(levels)
        ),
        table("ε (P5 Fig. 5)", "data, ε", sweep, lambda row: f"{row.name}, {row.place:g}"),
        f"{n_models:,} shadow models a row, DP-SGD with δ = 10⁻⁵, each on a random half; fitted on one "
        "half of the models and judged on the other. ASR^M by P5's rule (Λ > ½); online: a likelihood "
        "ratio. The floor is exact: the largest of as many success rates at chance. At least: 95 %, for "
        "all records at once. Accuracy: of a model on records that it did not see.",
    ]
    keep(
        "lira",
        "\n\n".join(parts),
        {
            "models": n_models,
            "seed": seed,
            "delta": DELTA,
            "data_sets": [asdict(row) for row in by_set],
            "features_removed": [asdict(row) for row in removed],
            "labels_randomised": [asdict(row) for row in randomised],
            "epsilon": [
                {**asdict(row), "place": "inf" if math.isinf(row.place) else row.place}
                for row in sweep
            ],
        },
        is_quick=settings.quick,
    )


if __name__ == "__main__":
    run(main)
