#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The same answers on ten million rows: seconds and memory of a streamed study against its own reading.

Generated tables of p = 88 columns (half measurements, half zeros and ones) in parquet, n = 1e5, 1e6 and 1e7
training rows and a tenth of that for testing. The bare pass reads the same file with the same workers and forms
XᵀDX, nothing else; fit, point table and exact cells are set against it. Every measurement has a process of its
own, whose peak memory is read from the system.

    python benchmarks/whatif_scale.py [--quick] [--folder DIR] [--largest 10000000] [--turns 5]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from timing import Slope, keep, ratio, slope

NAME = "whatif-scale"
N_COLUMNS = 88
ROW_GROUP = 1 << 16
EPSILONS = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
PARTS = ("bare pass", "fit", "point table", "exact cells")
CLOCKS = ("seconds", "cpu_seconds")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: the data are generated")
    parser.add_argument("--folder", type=Path, help="where the tables go; a temporary one")
    parser.add_argument("--largest", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    parser.add_argument("--child", nargs=2, metavar=("TASK", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def generate(folder: Path, n_rows: int, seed: int) -> None:
    """Write training and test rows, some at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    weights = np.random.default_rng([seed, 1]).normal(size=N_COLUMNS) / np.sqrt(N_COLUMNS)
    for name, n in (("train", n_rows), ("test", n_rows // 10)):
        writer = None
        for first in range(0, n, ROW_GROUP):
            rng = np.random.default_rng([seed, n_rows, name == "test", first])
            rows = min(ROW_GROUP, n - first)
            half = N_COLUMNS // 2
            X = np.empty((rows, N_COLUMNS), dtype=np.float32)
            X[:, :half] = rng.standard_normal((rows, half), dtype=np.float32)
            X[:, half:] = rng.random((rows, N_COLUMNS - half), dtype=np.float32) < 0.3
            y = rng.random(rows) < 1.0 / (1.0 + np.exp(-X @ weights))
            columns = {
                f"x{j}": X[:, j] if j < half else X[:, j].astype(np.int8) for j in range(N_COLUMNS)
            }
            table = pa.table({**columns, "y": y.astype(np.int8)})
            if writer is None:
                writer = parquet.ParquetWriter(
                    folder / f"{name}.parquet", table.schema, use_dictionary=False
                )
            writer.write_table(table, row_group_size=ROW_GROUP)
        if writer is not None:
            writer.close()


def bare_pass(folder: Path) -> None:
    """Read every training row and form XᵀDX: what no method can do without."""
    from epsilens.data.parquet_pieces import open_parquet
    from epsilens.models.passes import current_passes

    source = open_parquet(folder / "train.parquet")
    names = [name for name in source.columns if name != "y"]

    def gram(piece: object) -> np.ndarray:
        total = np.zeros((N_COLUMNS, N_COLUMNS))
        for _, table in source.batches(piece, names):  # type: ignore[arg-type]
            matrix = np.empty((table.num_rows, N_COLUMNS))
            for place, name in enumerate(names):
                matrix[:, place] = table.column(name).to_numpy()
            for first in range(0, len(matrix), 1024):
                block = matrix[first : first + 1024] * 0.5  # the root of D = ¼
                total += block.T @ block
        return total

    sum(current_passes().map(gram, source.pieces))


def child(task: str, folder: Path, n_workers: int) -> None:
    """Do one task in this process and print what it took."""
    from sklearn.linear_model import LogisticRegression

    from epsilens.models.passes import LocalPasses, use_passes
    from epsilens.whatif import WhatIf

    warnings.simplefilter("ignore")
    taken, used = {}, {}

    def lap(name: str, work: Callable[[], object]) -> None:
        started, busy = time.perf_counter(), time.process_time()
        work()
        taken[name] = time.perf_counter() - started
        used[name] = time.process_time() - busy

    study = WhatIf(LogisticRegression())
    files = folder / "train.parquet", folder / "test.parquet"
    with use_passes(LocalPasses(n_workers)):
        # The file is in the system's cache, or not, for all alike.
        lap("bare pass", partial(bare_pass, folder))
        if task != "bare":
            lap("fit", partial(study.fit_parquet, *files, label="y"))
            lap("point table", study.point_table)
        if task == "all":
            question = {"epsilon": EPSILONS, "groups": {"some": "x0 > 0.5"}, "method": "exact"}
            lap("exact cells", partial(study.estimate, **question))
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": taken, "cpu_seconds": used, "peak_bytes": peak * 1024}))


def measured(task: str, folder: Path, n_workers: int) -> dict:
    """Run one task in a fresh process."""
    command = [sys.executable, __file__, "--child", task, str(folder), "--workers", str(n_workers)]
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **limits}
    )
    return json.loads(done.stdout.splitlines()[-1])


def study_size(n_rows: int, settings: argparse.Namespace, parent: Path) -> dict:
    """Generate a table, measure everything on it, and remove it."""
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        generate(folder, n_rows, settings.seed)
        size = sum(file.stat().st_size for file in folder.iterdir())
        runs = [measured("all", folder, 2) for _ in range(1 if n_rows > 2_000_000 else 2)]
        both = [
            {
                workers: measured("bare" if n_rows > 2_000_000 else "fit", folder, workers)
                for workers in order
            }
            for turn in range(settings.turns)
            for order in [(1, 2) if turn % 2 == 0 else (2, 1)]
        ]
    best = {
        clock: {part: min(run[clock][part] for run in runs) for part in PARTS} for clock in CLOCKS
    }
    part = "bare pass" if n_rows > 2_000_000 else "fit"
    alone, together = ([turn[w]["seconds"][part] for turn in both] for w in (1, 2))
    return {
        "n": n_rows,
        "file_bytes": size,
        **best,
        "fit_to_bare": to_bare(best, "fit"),
        "table_to_bare": to_bare(best, "point table"),
        "peak_bytes": max(run["peak_bytes"] for run in runs),
        "one_against_two": {
            "part": part,
            "best": min(alone) / min(together),
            "mean": asdict(ratio(alone, together)),
            "turns": len(both),
        },
    }


def to_bare(best: dict[str, dict[str, float]], part: str) -> dict[str, float]:
    """Return a part's best time over that of the bare pass.

    Not the best of the runs' ratios, which would reward a bare pass that had bad luck.
    """
    return {clock: best[clock][part] / best[clock]["bare pass"] for clock in CLOCKS}


def markdown(rows: list[dict]) -> str:
    lines = [
        f"Logistic regression on {N_COLUMNS} columns; seconds on two workers, the bare pass among them; "
        f"exact cells: one group at {len(EPSILONS)} ε with intervals. Two workers against one: the best "
        "of alternating turns. In brackets beside the ratios: those of the processor's time, which others on the "
        "machine do not change.",
        "",
        "| n | file | bare pass | fit | point table | exact cells | fit / bare | table / bare | peak memory "
        "| one worker / two |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row['n']:,}", f"{row['file_bytes'] / 1e6:,.0f} MB"]
        cells += [f"{row['seconds'][part]:.2f} s" for part in PARTS]
        for share in (row["fit_to_bare"], row["table_to_bare"]):
            cells.append(f"{share['seconds']:.1f} ({share['cpu_seconds']:.1f})")
        cells += [f"{row['peak_bytes'] / 2**20:,.0f} MiB"]
        both = row["one_against_two"]
        cells += [f"{both['best']:.2f} ({both['part']})"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Log-log slopes in n:", "", "| part | of the clock | of the processor's time |"]
    lines += ["|---|---|---|"]
    for part in PARTS:
        by_clock, by_processor = (_slope(rows, clock, part) for clock in CLOCKS)
        lines.append(f"| {part} | {by_clock} | {by_processor} |")
    return "\n".join(lines)


def _slope(rows: list[dict], clock: str, part: str) -> Slope:
    return slope([row["n"] for row in rows], [row[clock][part] for row in rows])


def main() -> None:
    settings = arguments()
    if settings.child is not None:
        child(settings.child[0], Path(settings.child[1]), settings.workers)
        return
    if settings.quick:
        settings.turns = 1
    sizes = (10_000, 30_000, 100_000) if settings.quick else (100_000, 1_000_000, 10_000_000)
    parent = settings.folder or Path(tempfile.gettempdir())
    rows = [
        study_size(n, settings, parent) for n in sizes if n <= settings.largest or settings.quick
    ]
    result = {
        "p": N_COLUMNS,
        "epsilons": list(EPSILONS),
        "rows": rows,
        "slopes": {part: asdict(_slope(rows, "seconds", part)) for part in PARTS},
        "cpu_slopes": {part: asdict(_slope(rows, "cpu_seconds", part)) for part in PARTS},
    }
    keep(NAME, markdown(rows), result, is_quick=settings.quick)


if __name__ == "__main__":
    main()
