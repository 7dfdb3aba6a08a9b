#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/howto/audit-any-trainer.md, run as they stand: what `epsilens audit scores` says of each library.

Opacus runs beside epsilens; jax_privacy and diffprivlib in the environments of `make peers`.

    python benchmarks/audit_recipes.py [--quick] [--repeats 5] [--peers DIR]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from epsilens.audit import audit_scores
from epsilens.errors import InputError
from timing import PEERS, environment_of, keep, python_of

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# Program, environment (None: ours), claim, and noise as a share of what the claim needs.
RECIPES = (
    (EXAMPLES / "audit_opacus.py", None, 8.0, 1e-5, "1"),
    (EXAMPLES / "audit_opacus.py", None, 8.0, 1e-5, "0.2"),
    (EXAMPLES / "audit_jax_privacy.py", "jax", 8.0, 1e-5, "1"),
    (EXAMPLES / "audit_jax_privacy.py", "jax", 8.0, 1e-5, "0.5"),
    (EXAMPLES / "audit_diffprivlib.py", "science", 1.0, 0.0, None),
)
METHODS = {True: ("pure",), False: ("approximate", "f-dp", "gaussian-scores")}
"""Bounds by whether the claim is pure."""


def scores_of(
    program: Path, python: Path, share: str | None, *, is_own: bool
) -> pd.DataFrame | str:
    """Run a recipe in a folder of its own; return its scores, or in one line why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(python), str(program), *([] if share is None else [share])],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment_of(1, is_own=is_own),
        )
        if done.returncode != 0:
            return next(iter(done.stderr.strip().splitlines()[-1:]), "stopped without a word")
        return pd.read_csv(Path(folder) / "scores.csv")


def judge(
    table: pd.DataFrame, epsilon: float, delta: float, method: str
) -> tuple[float, bool] | None:
    """Return the bound and whether the claim is broken; None where the method is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exactly half may be in by chance
        try:
            found = audit_scores(
                table["included"] == 1,
                table["score"],
                claimed_epsilon=epsilon,
                claimed_delta=delta,
                method=method,
            )
        except InputError:
            return None
    return found.epsilon_lower_bound, found.is_broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: nothing is read")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--quick", action="store_true", help="one run each, not written down")
    settings = parser.parse_args()
    rows = []
    for program, environment, epsilon, delta, share in RECIPES:
        python = (
            Path(sys.executable) if environment is None else python_of(environment, settings.peers)
        )
        if not python.exists():
            print(f"{program.name}: environment {environment!r} is not there: run `make peers`")
            continue
        tables = []
        for _ in range(1 if settings.quick else settings.repeats):
            table = scores_of(program, python, share, is_own=environment is None)
            if isinstance(table, str):
                print(f"{program.name}: {table}", file=sys.stderr)
                break
            tables.append(table)
        for method in METHODS[delta == 0.0]:
            found = [judge(table, epsilon, delta, method) for table in tables]
            kept = [one for one in found if one is not None]
            rows.append(
                {
                    "recipe": program.name,
                    "noise": "as it is" if share is None else f"{share} times the claim's",
                    "claim": epsilon,
                    "delta": delta,
                    "method": method,
                    "runs": len(found),
                    "refused": len(found) - len(kept),
                    "mean_bound": float(np.mean([bound for bound, _ in kept])) if kept else None,
                    "broken": sum(is_broken for _, is_broken in kept),
                }
            )
            print(rows[-1], flush=True)
    keep("audit-recipes", markdown(rows), {"rows": rows}, is_quick=settings.quick)


def markdown(rows: list[dict]) -> str:
    lines = [
        "What `epsilens audit scores` proves of runs of other libraries at 95 % confidence, by the recipes as they "
        "stand; means over runs.",
        "",
        "| recipe | noise | claim | δ | method | bound | claim broken | refused |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        bound = "–" if row["mean_bound"] is None else f"{row['mean_bound']:.2f}"
        lines.append(
            f"| {row['recipe']} | {row['noise']} | {row['claim']:g} | {row['delta']:g} | {row['method']} | {bound} | "
            f"{row['broken']} of {row['runs']} | {row['refused']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
