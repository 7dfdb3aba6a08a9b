#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/tested-with.md: `python docs/tested_with.py oldest .venv-oldest/tests.xml`.

Run by `make test-oldest` and `make test-newest` in their own environments, once the tests have passed there.
What is installed is kept in tested-with.json, from which the page is made; without arguments the page
alone is made again.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "tested-with.md"
KEPT = PAGE.with_suffix(".json")
ENDS = ("oldest", "newest")
EXTRAS = ("torch", "cluster", "explain", "secure")

_HEAD = """# Tested with

The tests that are neither nightly nor in a browser pass with the oldest and with the newest packages that `pyproject.toml`
allows. This table is written by `make test-oldest` and `make test-newest` from what is installed there.
[How the bounds are chosen](versioning.md#versions-of-other-packages).

"""
_FOOT = """
Everything else, such as click under typer, is the newest that the above go with.

- torch is the same at both ends: the one build that is tested, by `make test` too.
- Flower (`federated`) is at neither end. It holds FastAPI, Starlette, Typer and rich within narrow bounds of its own, and
  is tested by `make test` with the newest that it allows.
"""


def requirements() -> dict[str, str]:
    """Return the packages that we ask for, each with the extra that it belongs to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"]}
    groups |= {extra: project["optional-dependencies"][extra] for extra in EXTRAS}
    found: dict[str, str] = {}
    for extra, lines in groups.items():
        for line in lines:
            found.setdefault(re.match(r"[\w.-]+", line)[0], extra)  # type: ignore[index]
    return found


def look(report: Path) -> dict[str, Any]:
    """Return what is installed here, and how many tests have passed with it."""
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314  our own file
    assert suite is not None  # noqa: S101
    counted = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    if counted["failures"] or counted["errors"]:
        raise SystemExit("expected all tests to pass, got failures. The page stays as it is.")
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in requirements()},
        "tests_passed": counted["tests"] - counted["skipped"],
    }


def page(kept: dict[str, Any]) -> str:
    """Return the page for what was found at the two ends."""
    ends = [end for end in ENDS if end in kept]
    lines = [["package", "extra", *ends], ["---"] * (2 + len(ends))]
    lines.append(["Python", "", *(kept[end]["python"] for end in ends)])
    for name, extra in requirements().items():
        shown = [kept[end]["packages"].get(name, "") for end in ends]
        lines.append([name, f"`{extra}`" if extra else "", *shown])
    lines.append(["tests passed", "", *(f"{kept[end]['tests_passed']:,}" for end in ends)])
    return _HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines) + _FOOT


def main() -> None:
    """Keep what is installed, if asked to, and write the page."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    if len(sys.argv) == 3:
        kept[sys.argv[1]] = look(Path(sys.argv[2]))
        KEPT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
