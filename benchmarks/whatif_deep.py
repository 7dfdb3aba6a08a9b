#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Labels of MNIST and a small convolutional network (P1 V-D, V-E): the head, and the whole network.

The estimate is that of the last layer over frozen features. It is set against two truths, apart: training
the head again on randomised labels, and training the whole network again from the same initial weights in the
same order. A line fitted on the whole network's changes at some ε is judged at the others.

    python benchmarks/whatif_deep.py [--data DIR] [--quick] [--repeats 10]
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import datasets
from datasets import digits
from epsilens import WhatIf
from epsilens.channels import RandomizedResponse, simulate
from epsilens.errors import ApproximationWarning, MissingExtraError, PrivacyLeakWarning
from measure import arguments, run, write
from p1 import draw_groups, table_3

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
FITTED = (1.0, 3.0, 5.0, 8.0)
SIZES = ("30.00%", "100.00%")
SEEDS = (0, 1, 2)
DRAWS = 2
WEIGHT_DECAY = 1e-4
# C of a second head, with a penalty that keeps the classes from being pulled apart.
STRONG = 0.01
BATCH, EPOCHS, RATE, MOMENTUM = 100, 4, 0.1, 0.9
METHODS = ("influence", "exact")
# Quoted: P1 Table III, Spearman's ρ for the labels of MNIST.
P1_RANKS = {"30.00%": 0.838}


@dataclass(frozen=True)
class Data:
    """Images and digits, as tensors."""

    X: torch.Tensor
    y: torch.Tensor
    X_test: torch.Tensor
    y_test: torch.Tensor


def network(seed: int) -> nn.Sequential:
    """Return a network of two convolutions and two layers, freshly drawn."""
    torch.manual_seed(seed)
    module = nn.Sequential()
    for name, layer in {
        "conv1": nn.Conv2d(1, 8, 5, stride=2),
        "relu1": nn.ReLU(),
        "conv2": nn.Conv2d(8, 16, 3, stride=2),
        "relu2": nn.ReLU(),
        "flat": nn.Flatten(),
        "hidden": nn.Linear(400, 32),
        "relu3": nn.ReLU(),
        "fc": nn.Linear(32, 10),
    }.items():
        module.add_module(name, layer)
    return module


def train(data: Data, labels: torch.Tensor, seed: int, epochs: int) -> nn.Sequential:
    """Train the whole network; the seed fixes initial weights and the order of the records."""
    module = network(seed)
    steps = torch.optim.SGD(
        module.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels), generator=order).split(BATCH):
            steps.zero_grad()
            nn.functional.cross_entropy(module(data.X[batch]), labels[batch]).backward()
            steps.step()
    return module.eval()


def test_loss(module: nn.Module, data: Data) -> tuple[float, float]:
    """Return mean loss and accuracy on the test images."""
    with torch.no_grad():
        output = module(data.X_test)
        loss = nn.functional.cross_entropy(output.double(), data.y_test)
        return float(loss), float((output.argmax(1) == data.y_test).double().mean())


def whole_network(
    data: Data, groups: dict[str, np.ndarray], seed: int, base: float, epochs: int, n_draws: int
) -> pd.DataFrame:
    """Return the changes of the test loss when everything is trained again on randomised labels."""
    rows = []
    for name, mask in groups.items():
        for epsilon in EPSILONS:
            channel = RandomizedResponse(10, epsilon)
            for draw in range(n_draws):
                rng = np.random.default_rng([seed, draw, int(1000 * epsilon), int(mask.sum())])
                labels = data.y.clone()
                drawn = simulate(channel, data.y.numpy()[mask], rng)
                labels[torch.from_numpy(mask)] = torch.from_numpy(drawn)
                loss, _ = test_loss(train(data, labels, seed, epochs), data)
                rows.append((name, epsilon, seed, draw, loss - base))
    return pd.DataFrame(rows, columns=["group", "epsilon", "seed", "draw", "loss_change"])


def one_seed(
    data: Data, groups: dict[str, np.ndarray], seed: int, settings: argparse.Namespace, epochs: int
) -> dict:
    """Return everything that is found for one initial network."""
    seconds = {}
    started = time.perf_counter()
    module = train(data, data.y, seed, epochs)
    seconds["training"] = time.perf_counter() - started
    base, accuracy = test_loss(module, data)
    strength = 1.0 / (len(data.y) * WEIGHT_DECAY)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # its distance is in the table
        study = WhatIf(module, head="fc", regularisation=strength)
        study.fit(data.X, data.y, data.X_test, data.y_test)
    seconds["features and head"] = time.perf_counter() - started
    question = {"epsilon": EPSILONS, "groups": groups}
    found = {}
    for method in METHODS:
        started = time.perf_counter()
        found[method] = study.estimate(**question, method=method)
        seconds[method] = time.perf_counter() - started
    started = time.perf_counter()
    head = study.retrain(**question, repeats=settings.repeats, random_state=seed)
    seconds["head, all retrainings"] = time.perf_counter() - started
    started = time.perf_counter()
    n_draws = 1 if settings.quick else DRAWS
    whole = whole_network(data, groups, seed, base, epochs, n_draws)
    seconds["network, one retraining"] = (time.perf_counter() - started) / len(whole)
    return {
        "seed": seed,
        "base_loss": base,
        "accuracy": accuracy,
        "converged_loss": study.baseline_.outcomes.loss,
        "estimates": {method: result.to_frame() for method, result in found.items()},
        "head": head.to_frame(),
        "head_runs": head.draws(),
        "whole": whole,
        "lines": [calibrated(study, whole, name, mask) for name, mask in groups.items()],
        "strong": strongly_penalised(module, data, groups, seed, settings.repeats),
        "seconds": seconds,
    }


def strongly_penalised(
    module: nn.Module, data: Data, groups: dict[str, np.ndarray], seed: int, repeats: int
) -> dict:
    """Return the same for a head with a strong penalty; the whole network has no such twin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        study = WhatIf(module, head="fc", regularisation=STRONG)
        study.fit(data.X, data.y, data.X_test, data.y_test)
    question = {"epsilon": EPSILONS, "groups": groups}
    head = study.retrain(**question, repeats=repeats, random_state=seed).to_frame()
    found = {method: study.estimate(**question, method=method).to_frame() for method in METHODS}
    return {
        "loss": study.baseline_.outcomes.loss,
        "errors": [
            {
                "group": name,
                "method": method,
                "error": float(
                    (frame["loss_change"] - head["loss_change"])[frame["group"] == name]
                    .abs()
                    .mean()
                ),
                "size": float(head["loss_change"][head["group"] == name].abs().mean()),
                "trusted": int(frame["trusted"][frame["group"] == name].sum()),
            }
            for method, frame in found.items()
            for name in groups
        ],
    }


def strong_rows(results: list[dict]) -> list[dict]:
    """Return the errors of the strongly penalised head, over the initial networks."""
    rows = []
    for place, first in enumerate(results[0]["strong"]["errors"]):
        own = [result["strong"]["errors"][place] for result in results]
        row = {name: first[name] for name in ("group", "method")}
        row |= {name: float(np.mean([e[name] for e in own])) for name in ("error", "size")}
        row["trusted"] = sum(error["trusted"] for error in own)
        row["cells"] = len(own) * len(EPSILONS)
        rows.append(row)
    return rows


def calibrated(study: WhatIf, whole: pd.DataFrame, name: str, mask: np.ndarray) -> dict:
    """Fit the line of P1 V-E on some ε, and judge it at the others."""
    truth = whole[whole["group"] == name]
    others = [epsilon for epsilon in EPSILONS if epsilon not in FITTED]
    right = truth.groupby("epsilon")["loss_change"].mean().loc[others].to_numpy()
    row: dict = {"group": name}
    for method in METHODS:
        question = {"groups": {name: mask}, "method": method}
        line = study.calibrate(
            epsilon=FITTED, truth=truth[truth["epsilon"].isin(FITTED)], **question
        )
        guess = study.estimate(epsilon=others, **question)
        fitted = line.apply(guess)
        plain = guess.to_frame()["loss_change"].to_numpy()
        inside = (right >= fitted["loss_change_low"]) & (right <= fitted["loss_change_high"])
        row[method] = {
            "slope": line.slope,
            "intercept": line.intercept,
            "correlation": line.correlation,
            "error": float(np.abs(plain - right).mean()),
            "error_after": float(np.abs(fitted["loss_change"].to_numpy() - right).mean()),
            "inside": int(inside.sum()),
            "judged": len(right),
        }
    return row


def cell_rows(results: list[dict], groups: list[str]) -> list[dict]:
    """Return a row per group and ε: estimates and the two truths, over the seeds."""
    rows = []
    for group in groups:
        for epsilon in EPSILONS:

            def of(frame: pd.DataFrame, group: str = group, epsilon: float = epsilon) -> np.ndarray:
                here = (frame["group"] == group) & np.isclose(frame["epsilon"], epsilon)
                return frame.loc[here, "loss_change"].to_numpy(dtype=float)

            whole = np.array([of(result["whole"]).mean() for result in results])
            head = np.array([of(result["head"])[0] for result in results])
            rows.append(
                {
                    "group": group,
                    "epsilon": epsilon,
                    **{
                        method: [float(of(r["estimates"][method])[0]) for r in results]
                        for method in METHODS
                    },
                    "trusted": {
                        method: sum(
                            bool(
                                frame["trusted"][
                                    (frame["group"] == group)
                                    & np.isclose(frame["epsilon"], epsilon)
                                ].all()
                            )
                            for frame in (r["estimates"][method] for r in results)
                        )
                        for method in METHODS
                    },
                    "head": head.tolist(),
                    "whole": whole.tolist(),
                    "whole_runs": [of(result["whole"]).tolist() for result in results],
                }
            )
    return rows


def summary(rows: list[dict], group: str) -> list[dict]:
    """Return errors and rank correlations of the estimates against each truth, per seed and averaged."""
    own = [row for row in rows if row["group"] == group]
    lines = []
    for method in METHODS:
        line: dict = {"group": group, "method": method}
        line["trusted"] = sum(row["trusted"][method] for row in own)
        line["cells"] = sum(len(row[method]) for row in own)
        for truth in ("head", "whole"):
            guess = np.array([row[method] for row in own])  # (n_epsilon, n_seeds)
            right = np.array([row[truth] for row in own])
            errors = np.abs(guess - right).mean(axis=0)
            ranks = [
                float(spearmanr(g, r).statistic) for g, r in zip(guess.T, right.T, strict=True)
            ]
            line[truth] = {
                "error": float(errors.mean()),
                "error_spread": float(errors.std(ddof=1)) if len(errors) > 1 else None,
                "rank_correlation": float(np.mean(ranks)),
            }
        lines.append(line)
    return lines


def pm(values: list[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.4f}{spread}"


def markdown(
    rows: list[dict], sums: list[dict], lines: list[dict], results: list[dict], n: int, epochs: int
) -> str:
    losses = [result["base_loss"] for result in results]
    away = [result["base_loss"] - result["converged_loss"] for result in results]
    seconds = {
        name: np.mean([r["seconds"][name] for r in results]) for name in results[0]["seconds"]
    }
    spread = f" ± {np.std(losses, ddof=1):.4f} over seeds" if len(losses) > 1 else ""
    text = [
        f"MNIST, ten digits, n = {n:,}; two convolutions and two layers, {epochs} epochs of SGD, {len(results)} "
        f"initial networks. Test loss {np.mean(losses):.4f}{spread}, accuracy "
        f"{np.mean([r['accuracy'] for r in results]):.3f}; the given head lies {np.mean(away):+.4f} from the "
        "converged one. Change of the test loss, mean ± standard deviation over the initial networks; "
        "**head** is training the last layer again, **whole network** training everything again.",
        "",
        "| group | ε | first order | exact | head retrained | whole network retrained |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| {row['group']} | {row['epsilon']:g} | {pm(row['influence'])} | {pm(row['exact'])} | "
        f"{pm(row['head'])} | {pm(row['whole'])} |"
        for row in rows
    ]
    paper = table_3("mnist", "labels")
    text += [
        "",
        "Mean absolute error over the ε and Spearman's rank correlation, as P1 counts; P1 Table III, quoted, is of a "
        "softmax regression on four digits, its ρ by stochastic estimation:",
        "",
        "| group | estimate | error to the head | ρ | error to the whole network | ρ | trusted cells | "
        "P1 Table III, quoted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in sums:
        quoted = ""
        if line["group"] in paper and line["method"] == "influence":
            quoted = f"{paper[line['group']]:.4f}, ρ {P1_RANKS[line['group']]:.3f}"
        text.append(
            f"| {line['group']} | {line['method']} | {line['head']['error']:.4f} | "
            f"{line['head']['rank_correlation']:.3f} | {line['whole']['error']:.4f} | "
            f"{line['whole']['rank_correlation']:.3f} | {line['trusted']} of {line['cells']} | {quoted} |"
        )
    text += [
        "",
        f"The same network with a head under a strong penalty, regularisation={STRONG:g} (test loss "
        f"{np.mean([r['strong']['loss'] for r in results]):.4f}), against training that head again:",
        "",
        "| group | estimate | mean size of the change | error to the head | trusted cells |",
        "|---|---|---|---|---|",
    ]
    text += [
        f"| {row['group']} | {row['method']} | {row['size']:.4f} | {row['error']:.4f} | "
        f"{row['trusted']} of {row['cells']} |"
        for row in strong_rows(results)
    ]
    text += [
        "",
        f"`calibrate` with the whole network as `truth` (P1 V-E): the line is fitted at ε = "
        f"{', '.join(f'{at:g}' for at in FITTED)} and judged at the other ε; means over the initial networks.",
        "",
        "| group | estimate | slope | error before | error after | inside the 90 % interval |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| {line['group']} | {line['method']} | {line['slope']:.2f} | {line['error']:.4f} | "
        f"{line['error_after']:.4f} | {line['inside']} of {line['judged']} |"
        for line in lines
    ]
    text += ["", "Seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in seconds.items()) + "."]
    return "\n".join(text)


def line_rows(results: list[dict]) -> list[dict]:
    """Return the calibrations, averaged over the initial networks."""
    rows = []
    for place, first in enumerate(results[0]["lines"]):
        for method in METHODS:
            own = [result["lines"][place][method] for result in results]
            row = {"group": first["group"], "method": method}
            for name in ("slope", "correlation", "error", "error_after"):
                row[name] = float(np.mean([line[name] for line in own]))
            row["inside"] = sum(line["inside"] for line in own)
            row["judged"] = sum(line["judged"] for line in own)
            rows.append(row)
    return rows


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    if torch is None:
        raise MissingExtraError('a network needs torch. Install it: pip install "epsilens[torch]"')
    torch.set_num_threads(1)
    rng = np.random.default_rng(settings.seed)
    raw = datasets.load("mnist", folder=settings.data)
    n, m, epochs = (1000, 1000, 2) if settings.quick else (6000, 10_000, EPOCHS)
    X, y = digits.as_images(raw, "train", n=n, rng=rng)
    X_test, y_test = digits.as_images(raw, "test", n=m, rng=rng)
    data = Data(*(torch.from_numpy(part) for part in (X, y, X_test, y_test)))
    n, m = len(y), len(y_test)
    groups = draw_groups(n, np.arange(n), SIZES[:1] if settings.quick else SIZES, rng)
    with warnings.catch_warnings():
        # The bodies have learnt from the true labels: costs are compared, and nothing is released.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        results = [
            one_seed(data, groups, seed, settings, epochs)
            for seed in (SEEDS[:1] if settings.quick else SEEDS)
        ]
    rows = cell_rows(results, list(groups))
    sums = [line for group in groups for line in summary(rows, group)]
    lines = line_rows(results)
    about = {
        "n_train": n,
        "n_test": m,
        "epochs": epochs,
        "repeats": settings.repeats,
        "seed": settings.seed,
        "fitted": FITTED,
        "base": [
            {
                name: r[name]
                for name in ("seed", "base_loss", "accuracy", "converged_loss", "seconds")
            }
            for r in results
        ],
        "errors": sums,
        "lines": lines,
        "strong": strong_rows(results),
    }
    write("whatif-deep", settings, markdown(rows, sums, lines, results, n, epochs), rows, about)


if __name__ == "__main__":
    run(main)
