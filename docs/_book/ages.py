# SPDX-License-Identifier: Apache-2.0
"""How old each result is: version control is asked, and its answer kept beside the prose."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from .results import RESULTS, ROOT

FILE = Path(__file__).with_name("ages.json")


def write() -> None:
    """Ask when each result was made and what changed since; without version control, change nothing."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return
    found = {file.stem: _age(file) for file in sorted(RESULTS.glob("*.json"))}
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def read() -> dict[str, dict[str, str | int]]:
    """Return what is known of each result: `made`, `script_changes`, `package_changes`."""
    known: dict[str, dict[str, str | int]] = json.loads(FILE.read_text())
    return known


def _age(result: Path) -> dict[str, str | int]:
    made = _git("log", "-1", "--format=%H %as", "--", str(result)).split()
    if not made:  # new, and not kept yet
        return {"made": "just now", "script_changes": 0, "package_changes": 0}
    commit, date = made
    script = ROOT / "benchmarks" / f"{result.stem.replace('-', '_')}.py"
    return {
        "made": date,
        "script_changes": _changes(commit, script),
        "package_changes": _changes(commit, ROOT / "src"),
    }


def _changes(since: str, path: Path) -> int:
    return int(_git("rev-list", "--count", "--no-merges", f"{since}..HEAD", "--", str(path)))


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()
