# SPDX-License-Identifier: Apache-2.0
"""How old each result is: when it was made, and whether what made it has changed since.

Both are known by their contents, so that writing the pages again changes nothing unless a result or a
script did, with or without version control.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from .results import RESULTS, ROOT

FILE = Path(__file__).with_name("ages.json")
SCRIPTS = ROOT / "benchmarks"
_DIGITS = 16


class Age(TypedDict):
    """When a result was `made`, its digest, and those of the `scripts` by their names."""

    made: str
    result: str
    scripts: dict[str, str]


def write(file: Path = FILE, results: Path = RESULTS, scripts: Path = SCRIPTS) -> None:
    """Keep what is known of results that are as they were; the others are of today and of these scripts."""
    known = read(file) if file.exists() else {}
    found: dict[str, Age] = {}
    for result in sorted(results.glob("*.json")):
        contents = digest(result)
        if result.stem in known and known[result.stem]["result"] == contents:
            found[result.stem] = known[result.stem]
        else:
            made = datetime.datetime.now(datetime.UTC).date().isoformat()
            found[result.stem] = {
                "made": made,
                "result": contents,
                "scripts": made_by(result.stem, scripts),
            }
    file.write_text(json.dumps(found, indent=1) + "\n")


def read(file: Path = FILE) -> dict[str, Age]:
    """Return what is known of each result."""
    known: dict[str, Age] = json.loads(file.read_text())
    return known


def changed(name: str, age: Age, scripts: Path = SCRIPTS) -> list[str]:
    """Return those of a benchmark's script and the modules that it uses that are others by now."""
    before, now = age["scripts"], made_by(name, scripts)
    return sorted(file for file in {*before, *now} if before.get(file) != now.get(file))


def script(name: str) -> str:
    """Return the file that makes a result."""
    return f"{name.replace('-', '_')}.py"


def command(name: str, settings: Mapping[str, object]) -> str:
    """Return the command that makes a result with these settings, those that its script has by itself left out."""
    text = (SCRIPTS / script(name)).read_text(encoding="utf-8")
    others = []
    for option, value in settings.items():
        usual = re.search(rf'"--{option}", type=int, default=([\d_]+)', text)
        if usual is None or int(usual[1]) != value:
            others.append(f"--{option} {value}")
    more = f' ARGS="{" ".join(others)}"' if others else ""
    return f"make bench-{name}{more}"


def made_by(name: str, folder: Path = SCRIPTS) -> dict[str, str]:
    """Return the digests of a benchmark's script and of the modules that it uses, by their names."""
    return {file.name: digest(file) for file in sources(folder / script(name))}


def digest(file: Path) -> str:
    """Return a short digest of a file's contents, whatever ends its lines."""
    contents = file.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha256(contents).hexdigest()[:_DIGITS]


def sources(first: Path) -> list[Path]:
    """Return a script and the modules of its folder that it uses, one through another."""
    seen: dict[str, Path] = {}
    waiting = [first]
    while waiting:
        file = waiting.pop()
        if file.stem in seen or not file.exists():
            continue
        seen[file.stem] = file
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named = [node.module]
            elif isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            else:
                continue
            waiting += [first.parent / f"{module.partition('.')[0]}.py" for module in named]
    return [seen[name] for name in sorted(seen)]
