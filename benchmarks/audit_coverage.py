#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How often each one-run bound exceeds an ε that is known: 5 % is allowed.

Mechanisms that keep their ε with equality are audited again and again, at ε = 0, 1, 3 and 8.

    python benchmarks/audit_coverage.py [--quick] [--audits 1000]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
import warnings
from itertools import groupby
from pathlib import Path

from epsilens.audit import CoverageReport, GaussianSum, OneRunAudit, measure_coverage
from epsilens.errors import InputError
from timing import RESULTS, keep

EPSILONS = (0.0, 1.0, 3.0, 8.0)
AUDITS_OF_THE_DEFAULT = 4000
"""For the path at ε = 1: it is the default only if it stands this many."""

# What is audited, δ, method, selection, and whether the bound claims to hold for it.
ROWS = (
    ("randomised-response", 0.0, "pure", "path", True),
    ("randomised-response", 0.0, "pure", "bonferroni", True),
    ("randomised-response", 0.0, "pure", "split", True),
    ("randomised-response", 0.0, "pure", 100, True),
    ("leaky-response", 1e-5, "approximate", "path", True),
    ("leaky-response", 1e-5, "approximate", "bonferroni", True),
    ("leaky-response", 1e-5, "approximate", "split", True),
    ("leaky-response", 1e-5, "approximate", 100, True),
    ("gaussian", 1e-6, "approximate", "path", True),
    ("gaussian", 1e-6, "f-dp", None, True),
    ("gaussian", 1e-6, "f-dp", "split", True),
    ("gaussian", 1e-6, "f-dp", 100, True),
    ("gaussian", 1e-6, "independent-gdp", None, True),
    ("gaussian", 1e-6, "independent-gdp", 100, True),
    ("gaussian", 1e-6, "gaussian-scores", None, True),
    ("gaussian-sum", 1e-6, "gaussian-scores", None, True),
    ("randomised-response", 0.0, "pure", "weighted", True),
    ("leaky-response", 1e-5, "approximate", "weighted", True),
    ("gaussian", 1e-6, "approximate", "weighted", True),
    ("noisy sum", 1e-6, "residual", None, True),
    ("randomised-response", 1e-6, "gaussian-scores", None, True),
    ("leaky-response", 1e-5, "gaussian-scores", None, True),
    ("randomised-response", 0.0, "pure", "as_printed", False),
    ("randomised-response", 1e-6, "f-dp", 100, False),
)


def residual_coverage(epsilon: float, delta: float, *, n_audits: int, seed: int) -> CoverageReport:
    """Audit a noisy sum of 100 rows in 2,000 dimensions by its noise, again and again."""
    mechanism = GaussianSum(epsilon, delta, dimension=2000, directions="one-hot")
    audit = OneRunAudit(mechanism, canaries=100, method="residual")
    bounds = []
    for number in range(n_audits):
        with contextlib.suppress(InputError):  # normal noise, too, fails a test of its shape
            bounds.append(audit.run(random_state=n_audits * seed + number).epsilon_lower_bound)
    return CoverageReport(
        epsilon=epsilon,
        delta=delta,
        n_audits=n_audits,
        n_above=sum(bound > epsilon for bound in bounds),
        allowed_rate=0.05,
        mean_bound=sum(bounds) / len(bounds),
        n_refused=n_audits - len(bounds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: nothing is read")
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", help="rows of this method or selection; the others stay as stored"
    )
    parser.add_argument("--quick", action="store_true", help="40 audits each, not written down")
    settings = parser.parse_args()
    warnings.simplefilter("error")
    if settings.quick:
        settings.audits, settings.canaries = 40, 300
    rows = []
    for number, (channels, delta, method, selection, covered) in enumerate(ROWS):
        if settings.only not in (None, method, selection, f"{channels} {method}"):
            stored = json.loads((RESULTS / "audit-coverage.json").read_text(encoding="utf-8"))[
                "rows"
            ]
            name = "default" if selection is None else str(selection)
            asked = (channels, delta, method, name)
            rows += [
                row
                for row in stored
                if (row["channels"], row["delta"], row["method"], row["selection"]) == asked
            ]
            continue
        for place, epsilon in enumerate(EPSILONS):
            audits = settings.audits
            if selection == "path" and method == "pure" and epsilon == 1.0 and not settings.quick:
                audits = max(audits, AUDITS_OF_THE_DEFAULT)
            started = time.perf_counter()
            seed = 1000 * settings.seed + 10 * number + place
            if method == "residual":
                if epsilon == 0.0:
                    continue
                report = residual_coverage(epsilon, delta, n_audits=audits, seed=seed)
            else:
                report = measure_coverage(
                    channels,
                    epsilon=epsilon,
                    delta=delta,
                    method=method,
                    selection=selection,
                    n_audits=audits,
                    n_canaries=settings.canaries,
                    random_state=seed,
                )
            row = {
                "channels": channels,
                "delta": delta,
                "method": method,
                "selection": "default" if selection is None else str(selection),
                "claims_to_hold": covered,
                "epsilon": epsilon,
                "audits": report.n_audits,
                "above": report.n_above,
                "refused": report.n_refused,
                "rate": report.rate,
                "standard_error": report.standard_error,
                "within_two_standard_errors": report.holds,
                "mean_bound": report.mean_bound,
                "seconds": time.perf_counter() - started,
            }
            rows.append(row)
            print(
                {name: row[name] for name in ("method", "selection", "epsilon", "rate")}, flush=True
            )
    keep(
        "audit-coverage",
        table(rows, settings.canaries),
        {"canaries": settings.canaries, "seed": settings.seed, "rows": rows},
        is_quick=settings.quick,
    )


def table(rows: list[dict], n_canaries: int) -> str:
    lines = [
        f"How often a 95 % bound exceeds the true ε, {n_canaries:,} canaries; 5 % is allowed. The last "
        "two rows are no bounds and are shown because they fail.",
        "",
        "| mechanism (δ) | method | guesses | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|---|---|" + "---|" * len(EPSILONS),
    ]
    together = groupby(
        rows, key=lambda row: (row["channels"], row["delta"], row["method"], row["selection"])
    )
    for _, members in together:
        group = list(members)
        first, cells = group[0], ["–"] * (len(EPSILONS) - len(group))
        for row in group:
            mark = "" if row["within_two_standard_errors"] else " **too often**"
            if row["refused"] == row["audits"]:
                cells.append(f"all {row['audits']:,} refused")
                continue
            refused = f", {row['refused']} refused" if row["refused"] else ""
            cells.append(
                f"{row['rate']:.1%} of {row['audits']:,}{refused} (mean bound {row['mean_bound']:.2f}){mark}"
            )
        name = f"{first['channels']} ({first['delta']:g})"
        lines.append(
            f"| {name} | {first['method']} | {first['selection']} | " + " | ".join(cells) + " |"
        )
    worst = max(row["standard_error"] for row in rows if row["refused"] < row["audits"])
    lines += ["", f"Standard error of a rate at most {worst:.1%}."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
