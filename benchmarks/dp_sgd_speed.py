#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""DP-SGD on random halves of digits: an ensemble side by side against Opacus one model at a time.

Binary logistic (digits 0–4 against 5–9), softmax of 10 classes and a 64-128-10 network; 20 epochs, batches of
64, ε = 8 at δ = 10⁻⁵. In turns on one core with one thread, process time; the noise is calibrated once for
all and counted for nobody. Opacus runs in three ways: as its documentation has it (`PrivacyEngine`, a data
loader), and without the loader, by its own sampler on tensors, with per-example gradients or ghost clipping.
The bars are set against its fastest. At last 1,000 models of each linear kind, on all cores.

    python benchmarks/dp_sgd_speed.py [--quick] [--turns 5] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})

import numpy as np
from sklearn.datasets import load_digits

from epsilens.errors import MissingExtraError
from epsilens.models.dp_sgd import DPSGDSettings, train_ensemble
from epsilens.models.networks import Network
from epsilens.models.opacus_reference import torch_network, train_with_opacus
from measure import run
from timing import Ratio, keep, ratio

EPSILON, DELTA = 8.0, 1e-5
SIDE_BY_SIDE = 64
BARS = {"logistic": 30.0, "softmax": 30.0, "64-128-10 network": 8.0}
MANY, MANY_SECONDS = 1000, 90.0
HIDDEN = {"logistic": (), "softmax": (), "64-128-10 network": (128,)}
OURS = "epsilens, side by side"
LEAN = "Opacus, no loader"


@dataclass(frozen=True)
class Task:
    """What is trained: the same for everybody."""

    name: str
    X: np.ndarray
    codes: np.ndarray
    settings: DPSGDSettings

    @property
    def expected_records(self) -> float:
        """Half of the records, on average."""
        return len(self.X) / 2

    @property
    def network(self) -> Network:
        """The shape."""
        return Network(self.X.shape[1], int(self.codes.max()) + 1, self.settings.hidden)

    def halves(self, n_models: int, seed: int) -> np.ndarray:
        """Random halves, one a model."""
        return np.random.default_rng(seed).random((n_models, len(self.X))) < 0.5

    def accuracy(self, logits: np.ndarray, members: np.ndarray) -> list[float]:
        """Every model's accuracy on the records it has not seen."""
        guess = logits[:, :, 0] > 0 if logits.shape[2] == 1 else logits.argmax(axis=2)
        return [float((guess[j] == self.codes)[~members[j]].mean()) for j in range(len(members))]


def tasks(epochs: int) -> list[Task]:
    """Digits in [0, 1], in three guises."""
    X, digit = load_digits(return_X_y=True)
    return [
        Task(
            name,
            X / 16.0,
            (digit > 4).astype(int) if name == "logistic" else digit,
            DPSGDSettings(epsilon=EPSILON, delta=DELTA, epochs=epochs, hidden=hidden),
        )
        for name, hidden in HIDDEN.items()
    ]


def ours(task: Task, members: np.ndarray, seed: int) -> np.ndarray:
    """Train side by side; the logits of everybody."""
    fit = train_ensemble(task.X, task.codes, members, task.settings, random_state=seed)
    return fit.logits(task.X)


def lean(task: Task, members: np.ndarray, seed: int) -> np.ndarray:
    """Opacus' sampler, wrapper and optimiser on tensors in memory."""
    fit = train_with_opacus(task.X, task.codes, members, task.settings, random_state=seed)
    return fit.logits(task.X)


def documented(task: Task, members: np.ndarray, seed: int) -> np.ndarray:
    """As Opacus' documentation has it: a privacy engine makes module, optimiser and loader private."""
    return _by_engine(task, members, seed, ghost=False)


def lean_ghost(task: Task, members: np.ndarray, seed: int) -> np.ndarray:
    """Opacus' ghost clipping, without the loader."""
    return _by_engine(task, members, seed, ghost=True)


def _by_engine(task: Task, members: np.ndarray, seed: int, *, ghost: bool) -> np.ndarray:
    import torch
    from opacus import PrivacyEngine
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    plan = task.settings.plan(task.expected_records)
    noise = task.settings.calibration(task.expected_records).noise_multiplier
    found = []
    for model, own in enumerate(members):
        torch.manual_seed(seed + model)
        rows = torch.as_tensor(task.X[own], dtype=torch.float32)
        codes = torch.as_tensor(task.codes[own])
        binary = task.network.n_outputs == 1
        criterion = torch.nn.BCEWithLogitsLoss() if binary else torch.nn.CrossEntropyLoss()
        targets = codes.float() if binary else codes
        data = torch.utils.data.TensorDataset(rows, targets)
        module = torch_network(task.network)
        made = PrivacyEngine(accountant="rdp").make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=task.settings.learning_rate),
            data_loader=torch.utils.data.DataLoader(data, batch_size=task.settings.batch),
            noise_multiplier=noise,
            max_grad_norm=task.settings.clip,
            **({"criterion": criterion, "grad_sample_mode": "ghost"} if ghost else {}),
        )
        if ghost:
            private, optimiser, criterion, _ = made
            sampler = UniformWithReplacementSampler(
                num_samples=len(rows), sample_rate=plan.sampling_probability, steps=plan.n_steps
            )
            batches = ((rows[batch], targets[batch]) for batch in sampler)
        else:
            private, optimiser, loader = made
            batches = (batch for _ in range(task.settings.epochs) for batch in loader)
        for x, y in batches:
            optimiser.zero_grad()
            logits = private(x)
            criterion(logits[:, 0] if binary else logits, y).backward()
            optimiser.step()
        with torch.no_grad():
            found.append(module(torch.as_tensor(task.X, dtype=torch.float32)).numpy())
    return np.stack(found)


CONTESTANTS: dict[str, Callable[[Task, np.ndarray, int], np.ndarray]] = {
    OURS: ours,
    LEAN: lean,
    "Opacus, no loader, ghost clipping": lean_ghost,
    "Opacus, as documented": documented,
}


def compare(task: Task, *, turns: int, n_ours: int, n_theirs: int, seed: int) -> list[dict]:
    """Run everybody in turns, forwards and backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    accuracy: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    names = list(CONTESTANTS)
    for turn in range(-1, turns):  # the first only warms up
        for name in names if turn % 2 == 0 else names[::-1]:
            members = task.halves(n_ours if name == OURS else n_theirs, seed + turn + 1)
            if turn < 0:
                members = members[:1]
            began = time.process_time()
            logits = CONTESTANTS[name](task, members, seed + 1000 * (turn + 1))
            took = (time.process_time() - began) / len(members)
            if turn >= 0:
                seconds[name].append(took)
                accuracy[name] += task.accuracy(logits, members)
    rows = []
    # The halves of Opacus' models are the first of ours in each turn.
    same = np.array(accuracy[OURS]).reshape(turns, n_ours)[:, :n_theirs].ravel()
    for name in names:
        times = ratio(seconds[name], seconds[OURS]) if name != OURS else Ratio(1.0, None)
        values = np.array(accuracy[name])
        gap = values - same if name != OURS else np.zeros(2)
        rows.append(
            {
                "task": task.name,
                "who": name,
                "models": len(values),
                "milliseconds_per_model": [round(1e3 * value, 4) for value in seconds[name]],
                "times_ours": round(times.value, 3),
                "times_ours_standard_error": None
                if times.standard_error is None
                else round(times.standard_error, 3),
                "accuracy": round(float(values.mean()), 5),
                "accuracy_standard_error": round(
                    float(values.std(ddof=1) / np.sqrt(len(values))), 5
                ),
                "gap": round(float(gap.mean()), 5),
                "gap_standard_error": round(float(gap.std(ddof=1) / np.sqrt(len(gap))), 5),
            }
        )
    return rows


def many(task: Task, n_models: int, seed: int) -> dict:
    """Train many models on all cores."""
    members = task.halves(n_models, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    fit = train_ensemble(task.X, task.codes, members, task.settings, random_state=seed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "task": task.name,
        "who": f"{n_models} models",
        "models": n_models,
        "wall_seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "accounted_epsilon": round(fit.calibration.epsilon_pld, 4),
    }


def markdown(rows: list[dict], crowds: list[dict], about: dict) -> str:
    """Return the tables."""
    plan = about["plan"]
    lines = [
        f"Digits, {about['n_records']:,} records, each model on a random half; {plan['n_steps']} steps with "
        f"batches of {plan['expected_batch']} on average, clip 1, noise multiplier "
        f"{about['noise_multiplier']:.3f}, ε = {EPSILON:g} at δ = 10⁻⁵ (accounted: "
        f"{about['epsilon_pld']:.3f} by PLD, {about['epsilon_rdp']:.3f} by RDP). One core, one thread, process "
        f"time, {about['turns']} turns. Accuracy on the records a model has not seen, mean ± standard error; in the last column the "
        "difference to ours on the same halves.",
        "",
        "| model | who | ms a model | times ours | models | accuracy | less ours |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = Ratio(row["times_ours"], row["times_ours_standard_error"])
        gap = "–" if row["who"] == OURS else f"{row['gap']:+.4f} ± {row['gap_standard_error']:.4f}"
        lines.append(
            f"| {row['task']} | {row['who']} | {np.median(row['milliseconds_per_model']):.2f} | "
            f"{'1' if row['who'] == OURS else times} | {row['models']} | "
            f"{row['accuracy']:.4f} ± {row['accuracy_standard_error']:.4f} | {gap} |"
        )
    lines += [
        "",
        "| model | fastest way of Opacus | times ours | bar | reached |",
        "|---|---|---|---|---|",
    ]
    for name, bar in BARS.items():
        theirs = [row for row in rows if row["task"] == name and row["who"] != OURS]
        best = min(theirs, key=lambda row: row["times_ours"])
        reached = "yes" if best["times_ours"] >= bar else "no"
        lines.append(f"| {name} | {best['who']} | {best['times_ours']:.1f} | {bar:g} | {reached} |")
    lines += ["", f"On {about['cores']} cores:", "", "| model | models | seconds | CPU seconds |"]
    lines += ["|---|---|---|---|"]
    lines += [
        f"| {row['task']} | {row['models']:,} | {row['wall_seconds']:.1f} | {row['cpu_seconds']:.1f} |"
        for row in crowds
    ]
    return "\n".join(lines)


@contextmanager
def one_core() -> Iterator[int]:
    """Keep this process to one core, where the system can; give how many there are."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield len(cores)
    finally:
        os.sched_setaffinity(0, cores)


def main() -> None:
    """Compare, count, write down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    try:
        import opacus
        import torch
    except ImportError:
        raise MissingExtraError(
            "expected torch and Opacus to compare with, got one or both not installed. "
            'Install them: pip install "epsilens[torch]"'
        ) from None
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Full backward hook is firing|Secure RNG")
    todo = tasks(2 if settings.quick else 20)
    turns = 2 if settings.quick else settings.turns
    size = {
        "turns": turns,
        "n_ours": 8 if settings.quick else SIDE_BY_SIDE,
        "n_theirs": 2 if settings.quick else 4,
        "seed": settings.seed,
    }
    calibration = todo[0].settings.calibration(todo[0].expected_records)
    with one_core() as n_cores:
        rows = [row for task in todo for row in compare(task, **size)]
    n_many = 20 if settings.quick else MANY
    crowds = [many(task, n_many, settings.seed) for task in todo if not task.settings.hidden]
    plan = todo[0].settings.plan(todo[0].expected_records)
    about = {
        "n_records": len(todo[0].X),
        "epsilon": EPSILON,
        "delta": DELTA,
        "noise_multiplier": calibration.noise_multiplier,
        "epsilon_pld": calibration.epsilon_pld,
        "epsilon_rdp": calibration.epsilon_rdp,
        "plan": {"n_steps": plan.n_steps, "expected_batch": plan.expected_batch},
        "turns": turns,
        "seed": settings.seed,
        "bars": {**BARS, f"{MANY} logistic models, seconds": MANY_SECONDS},
        "cores": n_cores,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "opacus": opacus.__version__,
    }
    text = markdown(rows, crowds, about)
    keep("dp-sgd-speed", text, {**about, "rows": rows + crowds}, is_quick=settings.quick)


if __name__ == "__main__":
    run(main)
