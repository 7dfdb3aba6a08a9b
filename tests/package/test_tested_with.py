# SPDX-License-Identifier: Apache-2.0
"""The page of tested versions is what the environments have written, within what is allowed."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("tested_with", ROOT / "docs" / "tested_with.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kept(script):
    return json.loads(script.KEPT.read_text(encoding="utf-8")) if script.KEPT.exists() else {}


def test_the_page_is_made_of_what_was_found(script, kept):
    assert set(kept) <= set(script.ENDS)
    assert script.PAGE.exists() == bool(kept)
    if kept:
        assert script.PAGE.read_text(encoding="utf-8") == script.page(kept)


def test_a_page_has_a_line_for_every_package(script):
    found = {"python": "3.11", "packages": dict.fromkeys(script.requirements(), "1.0")}
    text = script.page({"oldest": found | {"tests_passed": 6000}})
    assert text.count("| 1.0 |") == len(script.requirements())
    assert "| tests passed |  | 6,000 |" in text


def test_the_ends_are_those_of_what_is_allowed(script, kept):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in script.EXTRAS:
        lines += project["optional-dependencies"][extra]
    for asked in map(Requirement, lines if set(kept) == set(script.ENDS) else ()):
        oldest, newest = (Version(kept[end]["packages"][asked.name]) for end in script.ENDS)
        assert asked.specifier.contains(oldest), asked
        assert asked.specifier.contains(newest), asked
        (least,) = (part.version for part in asked.specifier if part.operator == ">=")
        if asked.name == "torch":
            assert oldest == newest
        else:
            # 0.14 is asked for and 0.14.0 the first of it, or 0.2.0.1.
            assert oldest.release[: len(Version(least).release)] == Version(least).release, asked


def test_failures_are_not_written_down(script, tmp_path):
    report = tmp_path / "tests.xml"
    counts = 'tests="5" failures="{}" errors="0" skipped="2"'
    report.write_text(f"<testsuites><testsuite {counts.format(1)}/></testsuites>")
    with pytest.raises(SystemExit, match="expected all tests to pass"):
        script.look(report)
