# SPDX-License-Identifier: Apache-2.0
"""Reading what the benchmarks left, what the papers print, and writing tables of both."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Result = Mapping[str, Any]
Results = Mapping[str, Result]


def read_all(folder: Path) -> dict[str, Any]:
    """Return every result by its name."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def quoted(name: str) -> ModuleType:
    """Return the module of benchmarks/ in which a paper's numbers are quoted, such as "p1"."""
    folder = str(ROOT / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def fixed(value: float, digits: int) -> str:
    """Return a number with so many digits, and nought without a sign."""
    shown = f"{value:.{digits}f}"
    return shown.removeprefix("-") if not float(shown) else shown


def plus_minus(value: float, error: float | None, digits: int = 2) -> str:
    """Return a value and its standard error."""
    shown = f"{value:,.{digits}f}"
    return (
        shown
        if error is None
        else f"{shown}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{error:.{digits}f}"
    )


def measured(found: Mapping[str, float], digits: int = 2) -> str:
    """Return a value and its standard error as the timing scripts keep them."""
    return plus_minus(found["value"], found["standard_error"], digits)


def span(values: Iterable[float], form: str = ".2f") -> str:
    """Return the smallest and the largest of some numbers."""
    kept = sorted(values)
    low, high = format(kept[0], form), format(kept[-1], form)
    return low if low == high else f"{low} to {high}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share in per cent."""
    return f"{100 * share:.{digits}f} %"


def scientific(value: float, digits: int = 2) -> str:
    """Return a small number with a power of ten, which no line end breaks."""
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def named(rows: Iterable[Result], **wanted: object) -> Result:
    """Return the one row with these values."""
    (row,) = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return row


def budget(epsilon: float | str) -> str:
    """Return an ε as it is written."""
    return "∞" if str(epsilon) == "inf" else f"{float(epsilon):g}"
