#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A published ridge model at ρ from 0.01 to 10, beside AdaSSP, diffprivlib and no noise (P3 part 1).

Wine quality and generated data; many simulated releases at every ρ, and an audit of real ones on a pair of data sets
that is nearly the worst there is. diffprivlib needs `make peers`; without it its columns are left out.

    python benchmarks/ridge.py [--data DIR] [--quick] [--repeats 100] [--peers DIR]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import beta, norm
from sklearn.linear_model import Ridge

from datasets import load
from epsilens.errors import PrivacyLeakWarning
from epsilens.ridge import PrivateRidge, balanced_alpha, epsilon_of_rho, what_if_rho
from measure import run
from timing import HERE, PEERS, environment_of, keep, python_of

DELTA = 1e-6
COEF_BOUND = 1.0
AUDIT_ERROR = 0.05
OURS = {
    "tight": {},
    "P3's bound": {"sensitivity": "paper"},
    "tight, replace-one": {"adjacency": "replace-one"},
    "AdaSSP": {"mechanism": "adassp"},
}
DIFFPRIVLIB = {
    "diffprivlib, ε = √(2ρ)": lambda rho: math.sqrt(2 * rho),
    "diffprivlib, ε(δ)": lambda rho: epsilon_of_rho(rho, DELTA),
}


@dataclass(frozen=True)
class Table:
    """Features in [−1, 1], a target in [−1, 1], and rows to test on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def bounds(self) -> dict[str, float]:
        """R of the box with the intercept's 1, Y of the target, and B as it was fixed beforehand."""
        d = self.X.shape[1]
        return {"x_bound": math.sqrt(d + 1), "y_bound": 1.0, "coef_bound": COEF_BOUND}


@dataclass(frozen=True)
class Cell:
    """Many releases of one method at one ρ; `bottomless`, the share of them whose noised objective has no minimum."""

    table: str
    method: str
    rho: float
    epsilon: float
    loss: float
    standard_error: float
    median: float
    predicted: float | None = None
    bottomless: float | None = None


@dataclass(frozen=True)
class Audit:
    """How well two data sets that differ in one record were told apart."""

    method: str
    rho: float
    releases: int
    shift_lower_bound: float
    shift: float

    @property
    def is_valid(self) -> bool:
        return self.shift_lower_bound <= self.shift


def wine(folder: Path | None, seed: int) -> Table:
    table = load("wine_quality", folder=folder)
    X = table.drop(columns=["quality", "colour"]).to_numpy(dtype=float)
    y = table["quality"].to_numpy(dtype=float)
    # Quality is a mark from 0 to 10. The ranges of the features are read off, the same for everybody.
    X = 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1
    return _split("wine quality", X, y / 5 - 1, seed)


def generated(n: int, d: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    theta = rng.standard_normal(d)
    theta *= 0.8 / np.linalg.norm(theta)
    y = np.clip(X @ theta / math.sqrt(d) * 1.5 + 0.1 * rng.standard_normal(n), -1, 1)
    return _split(f"generated, {n:,} × {d}", X, y, seed)


def _split(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> Table:
    held_out = np.random.default_rng(seed).random(len(X)) < 0.25
    return Table(name, X[~held_out], y[~held_out], X[held_out], y[held_out])


def released(table: Table, rho: float, repeats: int, seed: int) -> list[Cell]:
    """Return a cell for each of our mechanisms."""
    epsilon = epsilon_of_rho(rho, DELTA)
    alpha = balanced_alpha(n_records=len(table.X), rho=rho, **table.bounds)
    cells = []
    for name, settings in OURS.items():
        model = PrivateRidge(
            rho=rho, alpha=alpha, intercept_constant=1.0, **table.bounds, **settings
        )
        losses = []
        for repeat in range(repeats):
            model.set_params(random_state=seed + repeat).fit(table.X, table.y)
            losses.append(np.mean((model.predict(table.X_test) - table.y_test) ** 2))
        predicted = None
        if model.mechanism == "output":
            answer = what_if_rho(
                model, table.X, table.y, table.X_test, table.y_test, rho=[rho], delta=DELTA
            ).document
            predicted = answer.baseline.loss + answer.cells[0].loss_change
        cells.append(_cell(table, name, rho, epsilon, losses, predicted))
    return cells


def _cell(
    table: Table,
    name: str,
    rho: float,
    epsilon: float,
    losses: Sequence[float],
    predicted: float | None = None,
    bottomless: float | None = None,
) -> Cell:
    return Cell(
        table=table.name,
        method=name,
        rho=rho,
        epsilon=epsilon,
        loss=float(np.mean(losses)),
        standard_error=float(np.std(losses, ddof=1) / math.sqrt(len(losses))),
        median=float(np.median(losses)),
        predicted=predicted,
        bottomless=bottomless,
    )


def by_diffprivlib(
    table: Table, grid: np.ndarray, repeats: int, seed: int, peers: Path
) -> tuple[list[Cell], str]:
    """Return its cells and its version; or nothing, and why."""
    python = python_of("science", peers)
    if not python.exists():
        return [], "not available: run `make peers`"
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        problem, out = Path(folder) / "problem.npz", Path(folder) / "answer.json"
        for name, epsilon_of in DIFFPRIVLIB.items():
            epsilons = np.array([epsilon_of(rho) for rho in grid])
            np.savez(
                problem,
                X=table.X,
                y=table.y,
                X_test=table.X_test,
                y_test=table.y_test,
                epsilon=epsilons,
                repeats=repeats,
                seed=seed,
            )
            program = HERE / "peers" / "with_diffprivlib.py"
            done = subprocess.run(
                [str(python), str(program), "--problem", str(problem), "--out", str(out)],
                check=False,
                capture_output=True,
                text=True,
                env=environment_of(1, is_own=False),
            )
            if done.returncode != 0:
                return [], f"not available: {done.stderr.strip().splitlines()[-1]}"
            answer = json.loads(out.read_text())
            cells += [
                _cell(table, name, float(rho), float(epsilon), losses, bottomless=share)
                for rho, epsilon, losses, share in zip(
                    grid, epsilons, answer["losses"], answer["bottomless"], strict=True
                )
            ]
    return cells, answer["version"]


def worst_pair(n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
    """Return a data set and a record that moves it almost as far as any can, R = Y = B = λ = 1.

    docs/private-ridge.md: one soft direction; n records with tiny entries pull θ to −1, and the
    record (1, 1) pushes it back. The last number is the share of the sensitivity that is reached.
    """
    pull = 1.0 / n  # n · pull · 1 = λ B
    X, y = np.full((n, 1), pull), np.full(n, -1.0)
    before = X.T @ y / (X.T @ X + 1.0)
    after = (X.T @ y + 1.0) / (X.T @ X + 1.0 + 1.0)
    return X, y, np.array([1.0]), 1.0, float(np.abs(after - before).item())


def audited(name: str, rho: float, releases: int) -> Audit:
    """Draw real releases of two neighbours and bound how far apart they are at least.

    A mechanism of noise ρ is a shift of √(2ρ) standard deviations. A test with the threshold fixed
    beforehand, half-way, proves a shift of at least Φ⁻¹(true positives) − Φ⁻¹(false positives),
    with Clopper–Pearson limits for both.
    """
    X, y, record, target, _ = worst_pair()
    model = PrivateRidge(
        rho=rho,
        x_bound=1.0,
        y_bound=1.0,
        coef_bound=1.0,
        alpha=1.0,
        fit_intercept=False,
        **OURS[name],
    )
    larger = np.vstack([X, record]), np.append(y, target)
    without = np.array([model.fit(X, y).coef_[0] for _ in range(releases)])
    with_it = np.array([model.fit(*larger).coef_[0] for _ in range(releases)])
    threshold = -0.5  # half-way between −1 and 0
    true, false = int((with_it > threshold).sum()), int((without > threshold).sum())
    level = AUDIT_ERROR / 2
    true_low = beta.ppf(level, true, releases - true + 1) if true else 0.0
    false_high = beta.ppf(1 - level, false + 1, releases - false) if false < releases else 1.0
    shift = float(norm.ppf(true_low) - norm.ppf(false_high))
    return Audit(name, rho, releases, max(0.0, shift), math.sqrt(2 * rho))


def baselines(table: Table) -> dict[str, float]:
    plain = Ridge(alpha=1.0).fit(table.X, table.y)
    return {
        "no noise": float(np.mean((plain.predict(table.X_test) - table.y_test) ** 2)),
        "the mean": float(np.mean((table.y_test - table.y.mean()) ** 2)),
    }


def smallest_eigenvalue(table: Table) -> float:
    """Of XᵀX about the means: what noise on that matrix must stay below."""
    centred = table.X - table.X.mean(axis=0)
    return float(np.linalg.eigvalsh(centred.T @ centred)[0])


def markdown(
    tables: list[Table], cells: list[Cell], audits: list[Audit], peer: str, repeats: int
) -> str:
    parts = []
    for table in tables:
        mine = [cell for cell in cells if cell.table == table.name]
        methods = list(dict.fromkeys(cell.method for cell in mine))
        start = baselines(table)
        parts.append(
            f"**{table.name}**: {len(table.X):,} records, {table.X.shape[1]} features in [−1, 1], "
            f"target in [−1, 1]. Mean squared error on {len(table.X_test):,} test rows, mean of "
            f"{repeats} simulated releases ± standard error. Without noise and bounds "
            f"{start['no noise']:.4f}; the mean of the target, without any model, "
            f"{start['the mean']:.4f}. In brackets what `what_if_rho` says beforehand; a median where a "
            "few releases make the mean."
        )
        rows = ["| ρ | ε at δ = 10⁻⁶ | " + " | ".join(methods) + " |"]
        rows.append("|---" * (len(methods) + 2) + "|")
        for rho in dict.fromkeys(cell.rho for cell in mine):
            at = {cell.method: cell for cell in mine if cell.rho == rho}
            rows.append(
                f"| {rho:.3g} | {epsilon_of_rho(rho, DELTA):.3g} | "
                + " | ".join(_shown(at[name]) if name in at else "–" for name in methods)
                + " |"
            )
        parts.append("\n".join(rows))
    parts.append(
        "`alpha` is `balanced_alpha` of each ρ and B = 1, fixed without looking; R² is the number of "
        "features plus 1, so that nothing is clipped. AdaSSP gets the same bounds and ρ. diffprivlib "
        "is ε-differentially private without δ and takes a replaced record for a neighbour: at "
        "ε = √(2ρ) it has the same ρ, at ε(δ) the same ε as ours with our δ. "
        f"diffprivlib {peer}."
    )
    theirs = [cell for cell in cells if cell.method == "diffprivlib, ε(δ)"]
    if theirs:
        parts.append(
            "diffprivlib puts noise on XᵀX and adds no penalty: where the noise outweighs the smallest "
            "eigenvalue, the objective falls without end, and where the search for its minimum stops is "
            "chance. That happened in these shares of the releases at ε(δ):"
        )
        parts.append(_bottomless(theirs))
    pair = worst_pair()
    rows = [
        f"**Audit** of real releases, drawn by OpenDP, on two data sets that differ in one record and "
        f"whose minimisers are {pair[4]:.1%} of the sensitivity apart. A budget of ρ is a shift of "
        "√(2ρ) standard deviations; the attack proves the lower one at 95 %.",
        "",
        "| method | ρ | releases of each | proven shift | promised shift | valid |",
        "|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {audit.method} | {audit.rho:.3g} | {audit.releases:,} | {audit.shift_lower_bound:.3f} | "
        f"{audit.shift:.3f} | {'yes' if audit.is_valid else 'no'} |"
        for audit in audits
    ]
    parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _bottomless(cells: list[Cell]) -> str:
    levels = list(dict.fromkeys(cell.rho for cell in cells))
    rows = ["| table | " + " | ".join(f"ρ = {rho:.3g}" for rho in levels) + " |"]
    rows.append("|---" * (len(levels) + 1) + "|")
    for name in dict.fromkeys(cell.table for cell in cells):
        shares = [f"{cell.bottomless:.0%}" for cell in cells if cell.table == name]
        rows.append(f"| {name} | " + " | ".join(shares) + " |")
    return "\n".join(rows)


def _shown(cell: Cell) -> str:
    if cell.predicted is not None:
        return f"{cell.loss:.4f} ± {cell.standard_error:.4f} ({cell.predicted:.4f})"
    if cell.standard_error > cell.median:  # a mean that a few releases make says nothing
        return f"{cell.loss:.1e} ± {cell.standard_error:.0e}, median {cell.median:.4g}"
    if cell.loss >= 10:
        return f"{cell.loss:.1e} ± {cell.standard_error:.0e}"
    return f"{cell.loss:.4f} ± {cell.standard_error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", type=Path, default=PEERS, help="folder of `make peers`")
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    # Simulated releases are what is measured here; the audit draws real ones.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    grid = np.geomspace(0.01, 10, 3 if settings.quick else 7)
    repeats = 10 if settings.quick else settings.repeats
    tables = [wine(settings.data, settings.seed)]
    tables += [
        generated(n, 5, settings.seed) for n in ((2_000,) if settings.quick else (2_000, 20_000))
    ]
    cells, peer = [], ""
    for table in tables:
        for rho in grid:
            cells += released(table, float(rho), repeats, settings.seed)
        theirs, peer = by_diffprivlib(table, grid, repeats, settings.seed, settings.peers)
        cells += theirs
    releases = 500 if settings.quick else 3_000
    audits = [audited(name, float(rho), releases) for name in ("tight", "AdaSSP") for rho in grid]
    keep(
        "ridge",
        markdown(tables, cells, audits, peer, repeats),
        {
            "repeats": repeats,
            "seed": settings.seed,
            "delta": DELTA,
            "coef_bound": COEF_BOUND,
            "diffprivlib": peer,
            "baselines": {table.name: baselines(table) for table in tables},
            "smallest_eigenvalue": {table.name: smallest_eigenvalue(table) for table in tables},
            "cells": [asdict(cell) for cell in cells],
            "audits": [{**asdict(audit), "valid": audit.is_valid} for audit in audits],
            "audited_share_of_sensitivity": worst_pair()[4],
        },
        is_quick=settings.quick,
    )


if __name__ == "__main__":
    run(main)
