# SPDX-License-Identifier: Apache-2.0
"""The built pages load nothing from elsewhere; if one does, the build says so and fails."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
_LOADING = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|input)\b[^>]*?\b(?:src|srcset|data)\s*=\s*["']?
        \s*((?:https?:)?//[^"'\s>]+)
      | <link\b(?![^>]*\brel\s*=\s*["']?(?:canonical|license|author)\b)[^>]*?\bhref\s*=\s*["']?
        \s*((?:https?:)?//[^"'\s>]+)
      | (?:@import\s+(?:url\()?|url\()\s*["']?\s*((?:https?:)?//[^"')\s]+)""",
    flags=re.VERBOSE | re.IGNORECASE,
)


def outside_loads(text: str) -> list[str]:
    """Return the addresses that a page or a style sheet would load something from.

    Links that a reader may follow are not among them.
    """
    return [next(filter(None, found)) for found in _LOADING.findall(text)]


def look(folder: Path) -> list[str]:
    """Return what the pages and style sheets of a folder would load from elsewhere."""
    found = []
    for file in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        text = file.read_text(encoding="utf-8")
        found += [f"{file.relative_to(folder)}: {address}" for address in outside_loads(text)]
    return found


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for line in look(Path(app.outdir)):
            _LOG.warning("a page loads from elsewhere: %s", line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True}
