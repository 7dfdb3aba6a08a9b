# SPDX-License-Identifier: Apache-2.0
"""The documentation site: what is generated is complete, what is named exists, nothing is fetched."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epsilens.document import DocumentKind

pytest.importorskip("sphinx")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "_ext" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_test_that_a_slip_names_exists():
    text = (DOCS / "concepts" / "slips.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert len(named) > 40
    for file, function in named:
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), (file, function)
    # A slip without a test would be an assertion of ours only.
    for slip in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        assert "\nTest\n: `tests/" in slip, slip.partition("\n")[0]


def test_every_key_of_every_kind_is_explained():
    keys = load("document_keys")
    assert set(keys.MODELS) == set(DocumentKind.__args__)
    text = "\n".join(keys.describe())
    for kind, model in keys.MODELS.items():
        assert f"## Kind {kind}\n" in text
        for name in model.model_fields:
            assert f"| `{name}` |" in text or name == "kind", (kind, name)
    assert "| | \n" not in text
    for row in re.findall(r"^\| `.*$", text, flags=re.MULTILINE):
        assert re.search(r"\w\S* \|$", row), f"no meaning: {row}"


def test_every_command_and_option_is_listed():
    commands = load("commands")
    found = dict(commands.every_command())
    assert {"epsilens whatif", "epsilens value local", "epsilens federate simulate"} <= set(found)
    for words, command in found.items():
        text = "\n".join(commands.describe(words, command))
        for parameter in command.params:
            if parameter.name == "help" or getattr(parameter, "hidden", False):
                continue
            shown = parameter.opts[-1] if parameter.opts[-1].startswith("-") else parameter.metavar
            assert f"`{shown}`" in text, (words, parameter.name)
        assert not re.search(r"^: *(\*Required|$)", text, flags=re.MULTILINE), words
        assert "[bold]" not in text


OF_OTHERS = {
    "mypy": {"--strict"},
    "pip": {"--wheel-dir", "--no-index", "--find-links"},
    "pip download": {"--only-binary", "--platform", "--python-version"},
    "ray": {"--head", "--disable-usage-stats"},
    "flower": {"--trusted-entities", "--isolation"},
}
"""Options of other programs that pages speak of."""


def sources():
    found = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
    return found + [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]


def test_every_option_that_a_page_names_exists():
    """In commands that are run and in those that are not, in tables and in prose."""
    known = {"--help", "--version", *(name for names in OF_OTHERS.values() for name in names)}
    for _, command in load("commands").every_command():
        known.update(o for each in command.params for o in (*each.opts, *each.secondary_opts))
    # What stands behind ARGS= is for a script of benchmarks/, or that of the stored outputs.
    scripts = [*(ROOT / "benchmarks").glob("*.py"), ROOT / "tests" / "golden" / "regenerate.py"]
    for script in scripts:
        known.update(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', script.read_text("utf-8")))
    for page in sources():
        named = re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8"))
        assert set(named) <= known, page


def test_every_file_that_a_page_names_exists():
    places = re.compile(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)(?:::\w+)?`")
    for page in sources():
        for place in places.findall(page.read_text(encoding="utf-8")):
            if "PACKAGE" not in place and "_build" not in place:
                assert (ROOT / place).exists(), (page, place)


def test_the_architecture_names_files_of_its_packages():
    text = (DOCS / "concepts" / "architecture.md").read_text(encoding="utf-8")
    packages = ROOT / "src" / "epsilens"
    named = 0
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        here = re.findall(r"`(\w+)`", part.partition("\n")[0])
        for file in re.findall(r"`([\w/]+\.py)`", part):
            spots = [packages / file, *(packages / package / file for package in here)]
            if not file.startswith("tests/"):
                assert any(spot.is_file() for spot in spots), file
                named += 1
    assert named > 15
    visited = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    seen = {package for head in visited for package in re.findall(r"`(\w+)`", head)}
    doors = {"audit", "valuation", "masking", "federated", "epsilens.ridge"}
    side = set(re.findall(r"`([\w.]+)`", text.split("## Other packages")[1]))
    assert doors <= side
    there = {path.parent.name for path in packages.glob("*/__init__.py")}
    assert there <= seen | doors, "a package that the page leaves out"


def test_every_package_has_a_page_in_the_contents():
    packages = load("packages")
    contents = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    for package in packages.PACKAGES:
        page = package.rpartition(".")[2]
        text = (DOCS / "reference" / "api" / f"{page}.md").read_text(encoding="utf-8")
        assert f"```{{package}} {package}\n" in text
        assert f"api/{page}\n" in contents
        assert all(packages._about(package, name) for name in packages.public_names(package))


def test_formulas_are_raised_and_lowered_and_names_are_not():
    def shown(text):
        marks = {"superscript": "<^{}>", "subscript": "<_{}>"}
        nodes = load("formulas").typeset(text)
        return "".join(
            marks.get(node.__class__.__name__, "{}").format(node.astext()) for node in nodes
        )

    assert shown("q = e^ε/(1 + e^ε), 2^(m−1), 2^|F|") == "q = e<^ε>/(1 + e<^ε>), 2<^m−1>, 2<^|F|>"
    assert shown("W_{r_k} ≥ v_k, ΔR_b(k)") == "W<_rk> ≥ v<_k>, ΔR<_b>(k)"
    assert shown("√(H⁻¹)_ii, λ_min(A), min_k p_k") == "√(H⁻¹)<_ii>, λ<_min>(A), min<_k> p<_k>"
    names = "jax_privacy, as_printed, X_test, y_test, max_loss, coef_"
    assert shown(names) == names


def test_loads_from_elsewhere_are_found():
    outside = load("offline").outside_loads
    for text in (
        '<script async src="https://cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="//cdn.example.org/a.css">',
        "<img alt='x' src='http://example.org/a.png'>",
        "@import 'https://example.org/font.css';",
        "body { background: url(https://example.org/a.png) }",
    ):
        assert len(outside(text)) == 1, text
    followed = '<a href="https://example.org">a</a><link rel="canonical" href="https://e.org/">'
    assert outside(followed + '<img src="_images/a.png">') == []


def test_built_pages_load_nothing_from_elsewhere(tmp_path):
    """A tutorial and a page of the reference, with the site's own settings; `make docs` looks at all."""
    source, built = tmp_path / "docs", tmp_path / "html"
    for part in (
        "conf.py",
        "benchmarks.py",
        "_ext",
        "_static",
        "index.md",
        "images/mechanisms.svg",
    ):
        target = source / part
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (DOCS / part).is_dir() else shutil.copy
        copy(DOCS / part, target)
    for part in ("tutorials/audit-a-mechanism.md", "reference/api/ridge.md"):
        (source / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOCS / part, source / part)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(built)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "PrivateRidge" in (built / "reference" / "api" / "ridge.html").read_text("utf-8")
    assert load("offline").look(built) == []
