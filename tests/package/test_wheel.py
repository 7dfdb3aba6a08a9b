# SPDX-License-Identifier: Apache-2.0
"""Wheel and source distribution: what they hold, and what the wheel does in an empty environment.

Built from this tree, or taken from the folder that `make package` has built them into. pip's index is all
that is asked of the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from trove_classifiers import classifiers

import epsilens

from .test_extras import FOR_USERS, check, knock

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def run(*words: str | Path, **options: Any) -> str:
    """Run a program that must succeed, and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(what: str, source: Path, folder: Path) -> Path:
    tool = [sys.executable, "-m", "build", "--no-isolation", f"--{what}"]
    run(*tool, "--outdir", folder, source)
    (built,) = folder.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the two distributions: those of `make package`, or fresh ones."""
    given = os.environ.get("EPSILENS_DIST")
    folder = Path(given) if given else tmp_path_factory.mktemp("dist")
    if not given:
        build("sdist", ROOT, folder)
        build("wheel", ROOT, folder)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return {"sdist": source, "wheel": wheel}


SOURCES = ("src", "tests", "docs", "examples", "benchmarks")


def files(folder: Path) -> set[str]:
    """Return what a folder of the tree holds, without what running it leaves behind."""
    left = {"__pycache__", "_build", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
    return {
        path.relative_to(ROOT).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not left & set(path.parts)
    }


def test_the_wheel_holds_all_that_runs_and_nothing_else(built):
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = archive.namelist()
    held = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert {f"src/{name}" for name in held} == files(ROOT / "src" / "epsilens")
    assert "epsilens/py.typed" in held
    about = {name.partition(".dist-info/")[2] for name in names} - {""}
    assert about == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_source_holds_what_the_tests_need_and_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built["sdist"]) as archive:
        (folder,) = {name.partition("/")[0] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / folder
    held = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    for name in SOURCES:
        assert {path for path in held if path.startswith(f"{name}/")} == files(ROOT / name)
    others = {path for path in held if path.partition("/")[0] not in SOURCES}
    # Nothing else that lies in a clone, such as somebody's table, travels.
    assert others == {
        *("pyproject.toml", "conftest.py", "Makefile", ".ci/run", ".gitignore", "PKG-INFO"),
        *("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md"),
    }
    again = build("wheel", root, tmp_path / "again")
    assert again.name == built["wheel"].name
    with zipfile.ZipFile(again) as other, zipfile.ZipFile(built["wheel"]) as wheel:
        assert {info.filename: info.CRC for info in other.infolist()} == {
            info.filename: info.CRC for info in wheel.infolist()
        }


def test_what_is_said_of_the_package_is_valid_and_true(built):
    with zipfile.ZipFile(built["wheel"]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        said = Metadata.from_email(archive.read(name), validate=True)
    assert (said.name, str(said.version)) == ("epsilens", epsilens.__version__)
    assert (said.license_expression, said.license_files) == ("Apache-2.0", ["LICENSE"])
    assert said.description_content_type == "text/markdown"
    assert said.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(said.classifiers or ()) <= classifiers
    assert "Typing :: Typed" in (said.classifiers or ())
    assert set(said.provides_extra or ()) == FOR_USERS | {"bench", "docs", "dev"}
    # No address stands there that nobody has: the project has no site of its own yet.
    assert not said.project_urls
    assert said.home_page is None


@dataclass(frozen=True)
class Installed:
    """The wheel alone, with what it asks for and no extra."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def process(self) -> dict[str, Any]:
        """How to start something that sees neither this tree nor another environment."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return {
            "cwd": self.folder.parent,
            "env": {**kept, "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"},
        }

    def epsilens(self, *words: str | Path) -> str:
        return run(self.folder / "bin" / "epsilens", *words, **self.process)


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Installed:
    folder = tmp_path_factory.mktemp("empty") / "environment"
    venv.create(folder, with_pip=True)
    found = Installed(folder)
    run(found.python, "-m", "pip", "install", "--quiet", built["wheel"], cwd=folder.parent)
    return found


@pytest.fixture
def table(tmp_path: Path, survey: Any) -> Path:
    path = tmp_path / "survey.csv"
    survey.X.assign(smokes=survey.y).to_csv(path, index=False)
    return path


def test_the_command_is_there_and_runs_from_the_wheel(installed):
    assert installed.epsilens("--version") == f"epsilens {epsilens.__version__}\n"
    assert "whatif" in installed.epsilens("--help")
    where = run(
        installed.python, "-c", "import epsilens; print(epsilens.__file__)", **installed.process
    )
    assert str(installed.folder) in where
    run(installed.python, "-m", "pip", "check", **installed.process)
    brought = {
        line["name"]
        for line in json.loads(
            run(installed.python, "-m", "pip", "list", "--format", "json", **installed.process)
        )
    }
    assert not brought & {"torch", "opacus", "flwr", "ray", "shap", "lime", "tenseal", "matplotlib"}


def test_the_demo_tells_its_story_without_any_extra(installed, tmp_path):
    told = installed.epsilens("demo", "--out", tmp_path / "demo")
    assert "report.html" in told
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000


def test_a_table_is_looked_at_and_asked_about(installed, table):
    assert "smokes" in installed.epsilens("inspect", table)
    asked = [
        "whatif",
        table,
        "--label",
        "smokes",
        "--protect",
        "smokes",
        "--epsilon",
        "1",
        "--json",
    ]
    document = json.loads(installed.epsilens(*asked))
    assert document["provenance"]["version"] == epsilens.__version__
    assert len(document["cells"]) == 1


def test_the_page_answers_in_a_browser(
    installed: Installed,
    table: Path,
    start_server: Callable[..., Any],
    browser: Any,
    tmp_path: Path,
) -> None:
    server = start_server(
        tmp_path / "state", str(table), opens=False, python=installed.python, **installed.process
    )
    page = browser.new_page(locale="en-US")
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(120_000)
    page.goto(server.link)
    page.wait_for_selector("#go", state="visible")
    page.evaluate("() => { document.getElementById('shadow-models').value = 32; }")
    page.click("#go")
    page.wait_for_selector("html[data-stage]")
    shown = page.query_selector("#frames iframe:not(.coming)").content_frame()
    assert "ε" in shown.inner_text("body")
    page.close()
    assert said == []
    assert all(url.startswith((server.base, "data:", "blob:", "about:")) for url in asked)


def test_every_missing_extra_names_the_command_that_installs_it(installed, tmp_path):
    heard = knock(installed.python, cwd=tmp_path, PYTHONPATH="")
    assert {line["extra"] for line in heard} == FOR_USERS
    for line in heard:
        check(line)
