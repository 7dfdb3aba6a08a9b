"""The shape of the house: who may import whom, and what the command line must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import epsilens

SOURCE = Path(epsilens.__file__).parent

LEFT = {
    "errors",
    "notes",
    "_foreign",
    "_lazy",
    "_types",
    "_validate",
    "_scratch",
    "_processes",
    "document",
}
ALLOWED = {
    "errors": set(),
    "_scratch": set(),
    "_processes": set(),
    "_foreign": set(),
    "_lazy": set(),
    "_types": set(),
    "_validate": {"errors", "_types"},
    "notes": {"errors"},
    "pytest_plugin": {"audit", "errors"},
    "document": {"errors", "notes", "_types", "_validate"},
    "data": LEFT,
    "channels": LEFT | {"data"},
    # What a release gives away, whatever the mechanism.
    "models": LEFT | {"data", "channels"},
    "mechanisms": LEFT | {"data", "channels", "models"},
    "influence": LEFT | {"data", "channels", "models"},
    "whatif": LEFT | {"data", "channels", "models", "influence"},
    # A public module: it names what other packages hold.
    "ridge": {"_lazy", "models", "whatif"},
    "private": {"_lazy", "models"},
    "cluster": {"models"},
    "valuation": LEFT | {"data", "channels", "models", "influence"},
    "audit": LEFT | {"data", "channels", "models"},
    # What an attack proves is proved by the audit's theorems.
    "risk": LEFT | {"data", "channels", "mechanisms", "models", "influence", "audit"},
    "federated": LEFT | {"data", "channels", "models", "influence", "valuation"},
    "masking": LEFT | {"data", "models", "influence", "risk"},
    "decision": LEFT | {"data", "mechanisms", "whatif", "risk"},
    # The one way from a table to an answer.
    "study": LEFT
    | {"data", "channels", "models", "influence"}
    | {"mechanisms", "whatif", "risk", "masking", "decision"},
    "show": LEFT
    | {"data", "channels", "models", "influence", "whatif", "valuation"}
    | {"risk", "audit", "decision"},
    # Earlier names of the public part of `show`.
    "display": {"show"},
    "reporting": {"show"},
    "cli": LEFT
    | {"data", "channels", "models", "influence", "whatif", "valuation"}
    | {
        "risk",
        "audit",
        "masking",
        "decision",
        "mechanisms",
        "private",
        "study",
        "federated",
        "show",
        "app",
        "cluster",
    },
    "app": LEFT
    | {"data", "channels", "models", "influence", "whatif", "valuation"}
    | {"risk", "audit", "decision", "study", "show"},
}
# Results draw themselves: the one import that may look right, inside a method.
LAZY = {(left, "show") for left in ("whatif", "risk", "audit", "decision", "masking")}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "epsilens" and len(parts) > 1 and not parts[1].startswith("__"):
                found.add(parts[1])
    return found


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_go_only_from_right_to_left(path):
    here = room(path)
    if here in {"__init__", "__main__"}:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = ALLOWED[here] | {here}
    anywhere = imported_rooms(tree)
    assert anywhere <= allowed | {right for left, right in LAZY if left == here}
    at_the_top = imported_rooms(
        ast.Module(
            [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], []
        )
    )
    assert at_the_top <= allowed


def test_every_room_is_in_the_table():
    assert {room(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"} == set(ALLOWED)


def loaded_after(code: str) -> set[str]:
    program = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


HEAVY = {"numpy", "scipy", "pandas", "sklearn", "pyarrow", "altair", "pydantic", "statsmodels"} | {
    "opendp",
    "dp_accounting",
    "fastapi",
    "uvicorn",
    "flwr",
    "ray",
}


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded_after("import epsilens") & HEAVY


def test_the_command_line_starts_without_anything_heavy():
    assert not loaded_after("import epsilens.cli.app") & HEAVY


def test_the_ridge_door_opens_nothing_heavy_until_it_is_used():
    assert not loaded_after("import epsilens.ridge") & HEAVY
    import epsilens.ridge as door

    for name in door.__all__:
        assert getattr(door, name) is not None
    assert set(door.__all__) == set(dir(door))
    with pytest.raises(AttributeError, match="no attribute"):
        door.nonsense  # noqa: B018


def test_public_names_exist():
    for name in epsilens.__all__:
        assert getattr(epsilens, name) is not None
    assert set(epsilens.__all__) <= set(dir(epsilens))
    with pytest.raises(AttributeError, match="no attribute"):
        epsilens.nonsense  # noqa: B018
