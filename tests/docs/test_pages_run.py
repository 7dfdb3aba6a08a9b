# SPDX-License-Identifier: Apache-2.0
"""Every piece of code of the documentation is run, and prints what the page says."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

NOT_RUN = {
    ("README.md", "$ make demo"): "sets up an environment",
    ("README.md", "$ epsilens serve"): "starts a server",
    ("docs/index.md", "$ pip install"): "needs a package index",
    ("docs/page.md", "$ epsilens serve"): "starts a server",
    ("docs/federation.md", "coordinator$ epsilens"): "starts a server",
    ("docs/cluster.md", "$ epsilens risk"): "needs a cluster",
    ("docs/cluster.md", "import epsilens.cluster"): "needs a cluster",
    ("docs/howto/offline-install.md", "$ python -m"): "needs a package index",
    ("docs/howto/proxy.md", "$ export HTTPS_PROXY"): "needs a package index",
    ("docs/howto/release.md", "$ make"): "a release, step by step",
}
"""Page and beginning of the first line of what is not run, and why."""


BEFORE = {
    "README.md": "small_survey.py",
    "docs/index.md": "small_survey.py",
    "docs/attacks.md": "small_survey.py",
    "docs/howto/annexes.md": "small_survey.py",
    "docs/howto/audit-any-trainer.md": "audit_any_trainer.py",
    "docs/howto/ci-gate.md": "small_survey.py",
    "docs/howto/deep-models.md": "network.py",
    "docs/howto/groups-at-their-own-epsilon.md": "small_survey.py",
    "docs/howto/large-tables.md": "small_survey.py",
    "docs/howto/private-model.md": "small_survey.py",
    "docs/howto/read-the-json.md": "small_survey.py",
    "docs/howto/resume.md": "small_survey.py",
    "docs/howto/several-columns.md": "small_survey.py",
    "docs/howto/survey-weights.md": "small_survey.py",
    "docs/federation.md": "tables_of_sites.py",
    "docs/masking.md": "people.py",
    "docs/one-run-audit.md": "canaries.py",
    "docs/private-ridge.md": "numbers.py",
}
"""What a page takes for granted: a file of `before`, run first in the reader's folder."""

NEEDS = {
    "README.md": "shap",
    "docs/howto/deep-models.md": "torch",
    "docs/masking.md": "shap",
    "docs/tutorials/mask-and-compare.md": "shap",
}
"""What an extra brings; `make test` installs them all."""


def load():
    spec = importlib.util.spec_from_file_location("page_runner", HERE / "page_runner.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = load()
PAGES = {page.relative_to(ROOT).as_posix(): page for page in runner.pages()}


def reason(block):
    for (page, beginning), why in NOT_RUN.items():
        if block.page == page and block.first.startswith(beginning):
            return why
    return None


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(name, tmp_path, monkeypatch):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "88")
    reader = runner.Reader()
    if name in BEFORE:
        before = HERE / "before" / BEFORE[name]
        reader.execute(before.read_text(encoding="utf-8"), str(before))
    with runner.own_modules():
        for block in runner.blocks(PAGES[name]):
            if reason(block):
                continue
            for what, printed, said in reader.run(block):
                wrong = runner.differs(printed, said)
                assert wrong is None, f"{name}:{block.line}: {what}\n{wrong}"
        assert reader.code == 0, f"{name}: the last command ends with {reader.code}"


def test_what_is_not_run_is_marked_and_listed():
    found = [block for page in PAGES.values() for block in runner.blocks(page)]
    used = set()
    for block in found:
        why = reason(block)
        assert block.mark == why, f"{block.page}:{block.line}"
        used |= {key for key in NOT_RUN if block.page == key[0] and block.first.startswith(key[1])}
    assert used == set(NOT_RUN)
    assert len(NOT_RUN) < 11


def test_the_workflow_to_copy_is_one_and_its_command_works(tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml")  # comes with the parser of the pages
    monkeypatch.chdir(tmp_path)
    reader = runner.Reader()
    before = HERE / "before" / "small_survey.py"
    reader.execute(before.read_text(encoding="utf-8"), str(before))
    page = (ROOT / "docs" / "howto" / "ci-gate.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(text)["jobs"].values()
    (command,) = [step["run"] for step in job["steps"] if "epsilens audit" in step.get("run", "")]
    with runner.own_modules():
        assert "No evidence of a breach" in reader.type(command)
    assert reader.code == 0
    assert (tmp_path / "audit.json").is_file()
    # Every other language on a page would be one that nothing runs.
    known = {"python", "console", "text", "yaml", ""}
    for page in PAGES.values():
        fences = re.findall(
            r"^```([\w-]*)[^\n]*\n(?:.*?)^```", page.read_text("utf-8"), flags=re.M | re.S
        )
        assert set(fences) <= known, page


def test_no_command_hides_in_an_indented_block():
    """Only fenced blocks are run. Two pages of the federation have a synopsis, which is no command."""
    synopses = {"private-valuation.md", "secure-aggregation.md"}
    hidden = re.compile(r"^    (?:epsilens|make|pip|python|\$) .*", flags=re.MULTILINE)
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if "_build" in page.parts or page.name in synopses:
            continue
        outside = runner.without_fences(page.read_text(encoding="utf-8"))
        assert hidden.findall(outside) == [], page
