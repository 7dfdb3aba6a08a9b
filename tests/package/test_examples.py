"""Every example is run by something: by a test, or by a target of make where it takes real processes."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import epsilens

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

TELLS = {
    "choose_epsilon.py": (
        "answer_inference_ceiling",
        "Randomise the answers at ε = 2.",
        "It is the most private choice",
        "Open",
    ),
    "audit_own_mechanism.py": ("honest: no evidence of a breach", "careless: the claim is broken"),
    "value_an_offer.py": ("first clinic: the test loss would fall by +", "second clinic: "),
    "mask_features.py": ("masked: gait, voice", " chosen: the task is right for "),
    "private_ridge.py": ("loss_change_high", "yrs_married", "ε = 7.29 at δ = 1e-6"),
    "ci_gate.sh": ("No evidence of a breach", "exit code 3: the pipeline stops here"),
}
"""What a short example prints, in this order."""

RUN_BY = {
    "audit_diffprivlib.py": ("benchmarks/audit_recipes.py", "in the environment of that library"),
    "audit_jax_privacy.py": ("benchmarks/audit_recipes.py", "in the environment of that library"),
    "audit_opacus.py": ("benchmarks/audit_recipes.py", "it trains a network"),
    "deep_model.py": ("tests/package/test_examples.py", "below, nightly: it trains networks"),
    "deployment.py": ("tests/unit/federated/test_deployment.py", "its processes serve the tests"),
    "federation.py": ("Makefile", "`make federation`: a server and five sites as real processes"),
}
"""Who runs a long example, and why there."""


def run(name: str, folder: Path, *arguments: str, code: int = 0) -> str:
    """Run an example as a reader would, in a folder of its own, and return what it printed."""
    run_one = run_in_a_shell if name.endswith(".sh") else run_here
    ended, out, err = run_one(EXAMPLES / name, folder, *arguments)
    assert ended == code, err
    return out + (err if code else "")


def run_here(path: Path, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a program in this process, which has imported already what takes long to import."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", [str(path), *arguments])
        patch.syspath_prepend(path.parent)
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as ended:
            if isinstance(ended.code, str):
                print(ended.code, file=err)
                return 1, out.getvalue(), err.getvalue()
            return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def run_in_a_shell(path: Path, folder: Path, *arguments: str) -> tuple[int, str, str]:
    here = {
        "PYTHONPATH": str(Path(epsilens.__file__).parents[1]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        ["sh", str(path), *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **here},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_every_example_is_run_by_somebody():
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"}}
    assert there == {*RUN_BY, *TELLS}
    for name, (place, _) in RUN_BY.items():
        told = (ROOT / place).read_text()
        if place == "Makefile":
            assert (
                f"\nfederation: $(VENV)/.installed-federated\n\t$(BIN)/python examples/{name}\n"
                in told
            )
        else:
            assert f'/ "{name}"' in told or f'run("{name}"' in told


def test_every_example_is_on_the_page_of_examples():
    page = (ROOT / "docs" / "tutorials" / "examples.md").read_text(encoding="utf-8")
    for name in {*RUN_BY, *TELLS}:
        assert f"(../../examples/{name})" in page
    for name in TELLS:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 60
        assert f"```{{literalinclude}} ../../examples/{name}\n" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", TELLS)
def test_a_short_example_tells_its_story(name, tmp_path):
    if name == "mask_features.py":
        pytest.importorskip("shap")
    beside = str(Path(sys.executable).parent)
    if name.endswith(".sh") and not (shutil.which("sh") and shutil.which("epsilens", path=beside)):
        pytest.skip("needs a shell and the command")
    # The gate is not kept, and says so to whoever runs it.
    told = run(name, tmp_path, code=3 if name == "ci_gate.sh" else 0)
    places = [told.find(words) for words in TELLS[name]]
    assert -1 not in places, told
    assert places == sorted(places)
    if name == "choose_epsilon.py":
        assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.slow
def test_the_first_example_takes_a_file_of_the_reader(tmp_path):
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer(as_frame=True).frame[["mean radius", "mean texture", "target"]]
    table.assign(ward=["a", "b", "c"] * 189 + ["a", "b"]).to_csv(tmp_path / "own.csv", index=False)
    told = run("choose_epsilon.py", tmp_path, "own.csv", "target", "0", "1")
    assert "loss_change" in told
    assert "Open" in told
    told = run("choose_epsilon.py", tmp_path, "own.csv", "target", "1", "2", code=1)
    assert told == "212 rows have an answer that was not named: name all possible ones.\n"


@pytest.mark.nightly
@pytest.mark.slow
def test_the_deep_model_tells_its_story(tmp_path):
    pytest.importorskip("torch")
    told = run("deep_model.py", tmp_path)
    assert "whole network ≈" in told
    assert "by that line" in told
