# SPDX-License-Identifier: Apache-2.0
"""What is declared is what is imported, and a missing extra names the command that installs it."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import epsilens
from epsilens.federated.flower.services import _BUILT_LIKE

ROOT = Path(__file__).parents[2]
SOURCE = Path(epsilens.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    extra: [Requirement(line) for line in lines]
    for extra, lines in PROJECT["optional-dependencies"].items()
}
FOR_USERS = set(EXTRAS) - {"bench", "docs", "dev"}
IMPORTED_AS = {
    "scikit-learn": "sklearn",
    "vl-convert-python": "vl_convert",
    "interpret-core": "interpret",
}
BROUGHT = {
    "polars": "only ever imported for whoever has come with a frame of it",
    "pytest": "only ever imported by pytest itself, as its plugin",
}
"""Not declared for users, and why."""

OPTIONAL = {
    "data/statistics_files.py": {"pyreadstat"},
    "data/workbooks.py": {"python_calamine"},
    "federated/masked_sums.py": {"cryptography"},
    "masking/importances.py": {"lime", "shap"},
    "mechanisms/dp_ebm.py": {"interpret"},
    "mechanisms/synthetic_aim.py": {"mbi"},
    "models/opacus_reference.py": {"opacus", "torch"},
    "models/opacus_release.py": {"torch"},
    "models/ray_connection.py": {"ray"},
    "models/torch_head.py": {"torch"},
    "models/torch_network.py": {"torch"},
    "valuation/ckks.py": {"tenseal"},
    "valuation/item_messages.py": {"cryptography"},
}
"""Who imports what an extra brings. One more needs a door in `doors.py` that says so."""


def imported_as(requirement: Requirement) -> str:
    return IMPORTED_AS.get(requirement.name, requirement.name.replace("-", "_"))


def packages(extra: str) -> set[str]:
    return {imported_as(requirement) for requirement in EXTRAS[extra]}


def imports(node: ast.AST) -> Iterator[str]:
    """Give the packages that are imported at run time, at the top or later."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module.partition(".")[0]
    for child in ast.iter_child_nodes(node):
        yield from imports(child)


def imported_by_file() -> dict[str, set[str]]:
    ours = sys.stdlib_module_names | {"epsilens"}
    return {
        path.relative_to(SOURCE).as_posix(): set(imports(ast.parse(path.read_text("utf-8")))) - ours
        for path in SOURCE.rglob("*.py")
    }


def test_everything_imported_is_declared():
    base = {imported_as(Requirement(line)) for line in PROJECT["dependencies"]}
    optional = set().union(*map(packages, FOR_USERS))
    found = imported_by_file()
    assert set().union(*found.values()) - base - optional == set(BROUGHT)
    assert base - set().union(*found.values()) == set()
    used = {file: names & optional - base for file, names in found.items()}
    used = {file: names for file, names in used.items() if names}
    flower = {file for file in used if file.startswith("federated/flower/")}
    assert set().union(*(used[file] for file in flower)) <= packages("federated")
    assert {file: names for file, names in used.items() if file not in flower} == OPTIONAL


def load_doors():
    spec = importlib.util.spec_from_file_location("doors", Path(__file__).with_name("doors.py"))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOORS = load_doors().DOORS
PACKAGES = sorted({package for door in DOORS.values() for package in door.packages})


def test_every_extra_and_every_package_has_a_door():
    assert {door.extra for door in DOORS.values()} == FOR_USERS
    # Flower brings httpx with it, and ray as its own extra; OpenDP comes in any case.
    assert set(PACKAGES) == set().union(*map(packages, FOR_USERS)) - {"httpx", "opendp"}


def test_every_command_of_a_federation_that_needs_flower_is_a_door():
    source = SOURCE / "cli"
    asking = {
        function.name
        for path in source.glob("federate*.py")
        for function in ast.parse(path.read_text("utf-8")).body
        if isinstance(function, ast.FunctionDef)
        and {"require_deployment", "carry_out"}
        & {
            call.func.id if isinstance(call.func, ast.Name) else call.func.attr
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute)
        }
    }
    doors = {
        name.split()[2]
        for name, door in DOORS.items()
        if "flwr" in door.packages and "federate" in name
    }
    assert doors == asking | {"simulate"}


def check(heard: dict[str, str]) -> None:
    """Check what one door has said."""
    said = f'pip install "epsilens[{heard["extra"]}]"'
    if "code" in heard:
        assert heard["code"] == 2, heard
        assert heard["out"] == "", heard
        (line,) = heard["err"].splitlines()
        assert line.startswith("Error: "), heard
        assert said in line, heard
    else:
        assert heard["raised"] == "MissingExtraError", heard
        assert said in heard["message"], heard
        assert "\n" not in heard["message"], heard


def knock(python: str | Path, *hidden: str, cwd: Path, **environment: str) -> list[dict[str, str]]:
    """Return what the doors say to an interpreter."""
    done = subprocess.run(
        [python, Path(__file__).with_name("doors.py"), *hidden],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(PACKAGES, id="all"),
        *(pytest.param([one], marks=pytest.mark.nightly, id=one) for one in PACKAGES),
    ],
)
def test_what_is_missing_names_the_command_that_installs_it(hidden, tmp_path):
    heard = knock(sys.executable, *hidden, cwd=tmp_path, PYTHONPATH=str(SOURCE.parent))
    assert {line["door"] for line in heard} == {
        name for name, door in DOORS.items() if set(hidden) & set(door.packages)
    }
    for line in heard:
        check(line)


def test_extras_have_the_same_names_everywhere():
    """In the source, on pages and in the changelog: those of pyproject.toml."""
    texts = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]
    for folder, kind in (("src", "py"), ("docs", "md"), ("examples", "py"), ("benchmarks", "py")):
        texts += [path for path in (ROOT / folder).rglob(f"*.{kind}") if "_build" not in path.parts]
    named = re.compile(
        r"epsilens\\?\[([a-z,]+)\]|[Ee]xtras? `([\w-]+)`|require_extra\(\s*\"(\w+)\"|editable '\.\[([\w,]+)\]"
    )
    found = {
        extra
        for path in texts
        for groups in named.findall(path.read_text(encoding="utf-8"))
        for extra in "".join(groups).split(",")
    }
    assert found <= set(EXTRAS), found - set(EXTRAS)
    assert found >= FOR_USERS


def test_the_extra_brings_the_flower_that_our_services_stand_on():
    (flower,) = (line for line in EXTRAS["federated"] if line.name == "flwr")
    major, minor = map(int, _BUILT_LIKE.strip(".").split("."))
    for patch in range(20):
        assert flower.specifier.contains(f"{major}.{minor}.{patch}")
    assert not flower.specifier.contains(f"{major}.{minor - 1}.9")
    assert not flower.specifier.contains(f"{major}.{minor + 1}.0")


def test_no_test_is_skipped_for_want_of_what_is_always_there():
    always = {imported_as(Requirement(line)) for line in PROJECT["dependencies"]}
    wanted = {
        ast.unparse(call)
        for path in (ROOT / "tests").rglob("*.py")
        if "importorskip" in (text := path.read_text("utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.importorskip"
        if isinstance(call.args[0], ast.Constant)
        if call.args[0].value.partition(".")[0] in always
    }
    # In the oldest that is allowed there are no views of text yet.
    assert wanted == {"pytest.importorskip('pyarrow', minversion='16')"}
