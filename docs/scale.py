#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Write docs/scale.md, the arithmetic to a billion rows, from benchmarks/results: `python docs/scale.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "scale.md"
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "whatif-scale.json"

ROWS = 1_000_000_000
NODES = 64
LINK_BYTES = 1.25e9
"""Bytes a second of the link of the program that joins the parts: 10 Gbit/s, an assumption."""
PIECE_ROWS = 1 << 16


@dataclass(frozen=True)
class Estimate:
    """One part of a study on the whole table."""

    part: str
    seconds_measured: float
    slope: float
    seconds_on_one: float
    passes: float
    seconds_reading: float
    seconds_joining: float

    @property
    def seconds(self) -> float:
        """The computing shared out, and the joining, which is not."""
        return self.seconds_reading + self.seconds_joining


def bytes_of_a_part(p: int) -> int:
    """Return what a piece sends back in a pass of the fit: gradient and Hessian, of float64."""
    return 8 * (p * p + p)


def estimates(result: dict, *, rows: int = ROWS, nodes: int = NODES) -> list[Estimate]:
    """Return what every part would take: the largest size measured, along its slope, over the nodes."""
    largest = max(result["rows"], key=lambda row: row["n"])
    n_pieces = -(-rows // PIECE_ROWS)
    joining = n_pieces * bytes_of_a_part(result["p"]) / LINK_BYTES
    found = []
    for part, seconds in largest["seconds"].items():
        # A slope below 1 is overhead at small sizes, which a large table does not gain from.
        slope = max(1.0, result["slopes"][part]["value"])
        alone = seconds * (rows / largest["n"]) ** slope
        passes = seconds / largest["seconds"]["bare pass"]
        found.append(Estimate(part, seconds, slope, alone, passes, alone / nodes, joining * passes))
    return found


def page(result: dict, *, rows: int = ROWS, nodes: int = NODES) -> str:
    """Return the page."""
    p = result["p"]
    largest = max(result["rows"], key=lambda row: row["n"])
    per_row = largest["file_bytes"] / (1.1 * largest["n"])  # the file of test rows is a tenth
    found = estimates(result, rows=rows, nodes=nodes)
    bare = next(one for one in found if one.part == "bare pass")
    n_pieces = -(-rows // PIECE_ROWS)
    part_bytes = bytes_of_a_part(p)
    lines = [
        "# From ten million rows to a billion",
        "",
        "This page is arithmetic, put together by `python docs/scale.py` from what the benchmark `whatif-scale` "
        "measured on one small machine. **No cluster of this size was run.** The numbers say what to expect if "
        "nodes are such machines, read as fast as that machine did, and wait for nobody.",
        "",
        f"Measured: {largest['n']:,} rows, p = {p} columns, two workers. Asked: {rows:,} rows on {nodes} nodes of "
        "two workers.",
        "",
        "## Seconds",
        "",
        "One node: the seconds measured × (rows asked / rows measured) ^ slope, the slope being the one measured, "
        "but at least 1. All nodes: that / nodes. Passes: a part's time over that of the bare pass, so passes "
        "that do more than the bare one count as more than one. Joining: what follows below.",
        "",
        f"| part | measured | slope | passes | one node | {nodes} nodes | joining | together |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.part} | {one.seconds_measured:.1f} s | {one.slope:.2f} | {one.passes:.1f} "
        f"| {one.seconds_on_one:,.0f} s | {one.seconds_reading:,.1f} s | {one.seconds_joining:,.1f} s "
        f"| {one.seconds:,.1f} s |"
        for one in found
    ]
    lines += [
        "",
        "## Reading",
        "",
        f"A row takes {per_row:.0f} bytes on disk, the table {rows * per_row / 1e9:,.0f} GB, a node's share "
        f"{rows * per_row / nodes / 1e9:.1f} GB. For the bare pass in {bare.seconds_reading:,.1f} s every node reads "
        f"{rows * per_row / nodes / bare.seconds_reading / 1e6:,.0f} MB/s, and storage that all nodes share "
        f"gives {rows * per_row / bare.seconds_reading / 1e9:.1f} GB/s. Storage that gives less sets the time: "
        "bytes / its speed, for every pass, unless a node's share stays in its memory between passes.",
        "",
        "## Joining",
        "",
        f"In a pass of the fit a piece of up to {PIECE_ROWS:,} rows sends p² + p numbers, {part_bytes / 1e3:.0f} KB. "
        f"There are {n_pieces:,} pieces, and the program that asked adds their parts in order: "
        f"{n_pieces * part_bytes / 1e9:.2f} GB a pass, {n_pieces * part_bytes / LINK_BYTES:.1f} s over a link of "
        f"{8 * LINK_BYTES / 1e9:.0f} Gbit/s (assumed). It is set against every pass, also those that send less. "
        f"Were parts added at the nodes first, p² × nodes = {nodes * part_bytes / 1e6:.1f} MB a pass would travel; that "
        "would tie the order of additions, and so the last digits, to who works where. It is not done.",
        "",
        "## Not in the arithmetic",
        "",
        "Starting workers (seconds, once a connection); what Ray takes to hand out a task; nodes that are "
        "slower than others; the one number a record of point table and test scores, "
        f"{8 * rows / 1e9:.0f} GB for {rows:,} rows, which the program that asked holds.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
