# SPDX-License-Identifier: Apache-2.0
"""Links that are right in the repository are made right on the site."""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

_TABLE = re.compile(r"\((?:\.\./)*benchmarks/results/([\w-]+)\.md\)")


def _titles() -> dict[str, str]:
    """Return under which heading of the page of benchmarks a table stands."""
    path = Path(__file__).parents[1] / "benchmarks.py"
    spec = importlib.util.spec_from_file_location("benchmark_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: title for name, (title, _) in module._SECTIONS.items()}


def _anchor(title: str) -> str:
    """Return what MyST calls a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _rewrite(app: Sphinx, name: str, text: list[str]) -> None:
    titles = _titles()
    page = posixpath.relpath("benchmarks.md", posixpath.dirname(name) or ".")

    def link(found: re.Match[str]) -> str:
        return f"({page}#{_anchor(titles.get(found[1], found[1]))})"

    text[0] = _TABLE.sub(link, text[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("source-read", _rewrite)
    return {"parallel_read_safe": True}
