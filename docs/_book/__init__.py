# SPDX-License-Identifier: Apache-2.0
"""The reproduction report: what five papers print beside what the benchmarks of this project found.

The prose stands in the pages of this folder, with a name in double braces wherever a number or a table
belongs; the numbers come from benchmarks/results, and those of a paper from where they are quoted.
`make bench-docs` writes docs/reproduction and docs/comparison.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from . import (
    ages,
    attacks,
    audits,
    federations,
    figures,
    overview,
    peers,
    valuation,
    whatif,
)
from .results import RESULTS, Results, read_all

HERE = Path(__file__).parent
DOCS = HERE.parent
IMAGES = DOCS / "images"
_NAME = re.compile(r"\{\{(\w+)\}\}")

PAGES: dict[str, tuple[str, Callable[[Results], Mapping[str, str]]]] = {
    "index.md": ("reproduction/index.md", overview.facts),
    "p1.md": ("reproduction/p1.md", whatif.facts),
    "p2.md": ("reproduction/p2.md", federations.facts),
    "p3.md": ("reproduction/p3.md", audits.facts),
    "p4.md": ("reproduction/p4.md", valuation.facts),
    "p5.md": ("reproduction/p5.md", attacks.facts),
    "comparison.md": ("comparison.md", peers.facts),
}
"""Prose, the page that is made of it under docs, and what fills its places."""


def filled(prose: str, facts: Mapping[str, str]) -> str:
    """Return prose with every name in double braces replaced; one that is not known is an error."""
    return _NAME.sub(lambda found: facts[found[1]], prose)


def names(prose: str) -> set[str]:
    """Return the names that prose asks for."""
    return set(_NAME.findall(prose))


def pages(folder: Path = RESULTS) -> dict[str, str]:
    """Return the text of every page by its path under docs."""
    results = read_all(folder)
    return {
        target: filled((HERE / source).read_text(encoding="utf-8"), facts(results))
        for source, (target, facts) in PAGES.items()
    }


def write() -> None:
    """Write the pages and their figures; ages first, where version control knows them."""
    ages.write()
    figures.write(read_all(RESULTS), IMAGES)
    for target, text in pages().items():
        file = DOCS / target
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
