# SPDX-License-Identifier: Apache-2.0
"""`--model`: models that are not linear, by name and of one's own, on the command line."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main
from epsilens.document import load_document

TREES = "hist-gradient-boosting"
OWN = """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.svm import LinearSVC

number = 3


def make():
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(encode, ExtraTreesClassifier(5))


def bare():
    return ExtraTreesClassifier(5)


def fails():
    raise RuntimeError("HIV-positive-7731")


def svc():
    return LinearSVC()


def groups():
    return KMeans(2)


class Neither:
    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X


def neither():
    return Neither()


class Changed(ClassifierMixin, BaseEstimator):
    def __init__(self, depth=3):
        self.other = depth

    def fit(self, X, y):
        return self
"""


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Write a table of few people, so that trainings are short."""
    rng = np.random.default_rng(0)
    n = 200
    age = rng.integers(18, 80, n)
    sex = rng.choice(["F", "M"], n)
    chance = 1 / (1 + np.exp(2.5 - 0.06 * age - 0.8 * (sex == "M")))
    table = pd.DataFrame({"age": age, "sex": sex, "income": rng.normal(30, 8, n).round(1)})
    table["smokes"] = np.where(rng.random(n) < chance, "yes", "no")
    path = tmp_path / "few.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder with a module of the user's own."""
    (tmp_path / "my_own_models.py").write_text(OWN)
    (tmp_path / "my_broken_models.py").write_text("raise ValueError('HIV-positive-7731')")
    monkeypatch.chdir(tmp_path)
    # As the installed command has it: the folder where it is typed is not looked in by itself.
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part])
    for name in ("my_own_models", "my_broken_models"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def typed(command: str, data: Path, *words: object) -> list[str]:
    return [command, str(data), "--label", "smokes", *map(str, words)]


def assert_one_line(captured: tuple[str, str], words: str) -> None:
    out, err = captured
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert "HIV" not in err


@pytest.mark.parametrize("command", ["whatif", "risk", "decide"])
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("forest", "`--model` must be "),
        ("nowhere_at_all:make", "there is no module 'nowhere_at_all'"),
        ("my_own_models:nothing", "it has no 'nothing'"),
        ("my_own_models:", "must be the name of a model, or MODULE:NAME"),
        ("my_broken_models:make", "stopped with ValueError"),
        ("my_own_models:fails", "stopped with RuntimeError"),
        ("my_own_models:number", "must name a scikit-learn estimator"),
        ("my_own_models:bare", "text needs an encoder in front of the model, in a Pipeline"),
        ("my_own_models:svc", "`--model` must be a classifier with predict_proba, got LinearSVC"),
        ("my_own_models:Changed", "sklearn.base.clone can copy, got Changed"),
        ("my_own_models:groups", "`--model` must be a classifier or a regressor, got KMeans"),
        ("my_own_models:neither", "or a scikit-learn estimator, got Neither"),
    ],
)
def test_a_model_that_is_none_is_refused_in_one_line(
    command: str,
    model: str,
    words: str,
    few: Path,
    own: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(typed(command, few, "--model", model)) == 2
    assert_one_line(capsys.readouterr(), words)


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("whatif", ("--correction", "forward"), "--correction"),
        ("risk", ("--correction", "forward"), "--correction"),
        ("whatif", ("--method", "exact"), "needs a linear model"),
        ("whatif", ("--stream",), "--stream"),
        ("whatif", ("--regularisation", "2"), "`--regularisation` belongs to the models logistic"),
        (
            "risk",
            ("--mechanism", "dpsgd", "--delta", "1e-5"),
            "`--mechanism dpsgd` trains a network",
        ),
        ("mask", ("--identity", "sex", "--regularisation", "2"), "`--regularisation` belongs to"),
    ],
)
def test_what_trees_do_not_have_is_refused_in_one_line(
    command: str,
    words: tuple[str, ...],
    said: str,
    few: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = few
    if "--stream" in words:
        data = few.with_suffix(".parquet")
        pd.read_csv(few).to_parquet(data)
    given = ("--categories", "smokes=no|yes") if command == "whatif" else ()
    assert main(typed(command, data, "--model", TREES, *given, *words)) == 2
    captured = capsys.readouterr()
    last = captured.err.splitlines()[-1]
    assert captured.out == ""
    assert last.startswith("Error: ")
    assert said in last


def test_a_private_training_has_linear_models_only(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--mechanism", "noisy-descent", "--epsilon", 1, "--out", tmp_path / "model.json")
    assert main(typed("train", few, "--model", TREES, *asked)) == 2
    assert_one_line(capsys.readouterr(), "`--model` must be one of 'logistic', 'ridge'")


def test_a_model_whose_package_is_missing_names_the_extra(
    few: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == "xgboost" else real(name, package),
    )
    assert main(typed("whatif", few, "--model", "xgboost")) == 2
    assert 'pip install "epsilens[boosted]"' in " ".join(capsys.readouterr().err.split())


def test_the_time_of_an_attack_belongs_to_models_that_are_trained_again(
    few: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed("risk", few, "--seconds", 5)) == 2
    assert "`--seconds` is for models that are trained again" in capsys.readouterr().err
    noisy = ("--mechanism", "dpsgd", "--delta", "1e-5", "--seconds", 5)
    assert main(typed("risk", few, *noisy)) == 2
    assert "`--seconds` belongs to `--mechanism rr`" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_of_ones_own_is_attacked_at_a_few_budgets(
    few: Path, own: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--model", "my_own_models:make", "--epsilon", "0.5:4:5", "--shadow-models", 20)
    assert main(typed("risk", few, *asked, "--seconds", 1, "--out", tmp_path / "risk.svg")) == 0
    text = capsys.readouterr().out
    assert "–" in text
    assert "only" in text
    assert (tmp_path / "risk.svg").stat().st_size > 0


@pytest.mark.slow
def test_a_decision_has_no_attack_between_the_attacked_budgets(
    few: Path, own: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--model", "my_own_models:make", "--epsilon", "0.5:4:5", "--shadow-models", 20)
    limits = ("--seconds", 1, "--max-attack-rate", 0.95, "--mechanism", "randomised-response")
    report = tmp_path / "report.html"
    assert main(typed("decide", few, *asked, *limits, "--out", report, "--json")) in {0, 3}
    document = load_document(capsys.readouterr().out)
    rates = [cell.answer_inference_rate for cell in document.risk.cells]
    assert None in rates
    assert rates[-1] is not None
    assert all(cell.answer_inference_ceiling is not None for cell in document.risk.cells)
    assert "<html" in report.read_text(encoding="utf-8")


# --- Interrupted, and started again ---

SLOW = """
import sys, time
import epsilens.influence.any_model as any_model

train = any_model.AnyModel.train

def slowly(self, *arguments, **settings):
    time.sleep(PAUSE)
    return train(self, *arguments, **settings)

any_model.AnyModel.train = slowly
from epsilens.cli import main
sys.exit(main())
"""


def start(words: list[str], *, pause: float) -> subprocess.Popen[str]:
    """Start a command whose trainings take a while."""
    return subprocess.Popen(
        [sys.executable, "-c", f"PAUSE = {pause}\n{SLOW}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt_when(process: subprocess.Popen[str], is_time: object, *, seconds: float = 120) -> str:
    """Press Ctrl-C once something is there, and return what the command says."""
    end = time.monotonic() + seconds
    while not is_time():  # type: ignore[operator]
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    return errors


def test_a_decision_keeps_the_trainings_of_its_cost(
    few: Path, own: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    asked = ("--model", "my_own_models:make", "--epsilon", "1,4", "--shadow-models", 20)
    asked = (*asked, "--mechanism", "randomised-response")
    words = typed("decide", few, *asked, "--seconds", 1, "--checkpoint", kept, "--json")
    assert main([*words, "--out", str(tmp_path / "report.html")]) in {0, 3}
    cost = Path(f"{kept}-cost")
    before = cost.read_text().splitlines()
    assert len(before) > 10
    first = json.loads(capsys.readouterr().out)
    assert main([*words, "--out", str(tmp_path / "report.html")]) in {0, 3}
    # Nothing is trained again.
    assert cost.read_text().splitlines() == before
    assert json.loads(capsys.readouterr().out)["cost"]["cells"] == first["cost"]["cells"]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_an_attack_that_was_interrupted_goes_on_with_the_models_that_it_has(
    few: Path, own: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    asked = ("--model", "my_own_models:make", "--epsilon", "4", "--shadow-models", 24)
    words = typed("risk", few, *asked, "--seconds", 6, "--checkpoint", folder, "--json")
    errors = interrupt_when(
        start(words, pause=0.2), lambda: len(list(folder.glob("block-*.npz"))) > 2
    )
    assert errors.endswith(
        "Interrupted: nothing half-written was left behind. What is finished is in the checkpoint; "
        "the same command goes on from there.\n"
    )
    before = {file.name: file.stat().st_mtime_ns for file in folder.glob("block-*.npz")}
    # Trainings take another time now; the plan of the first run stands.
    assert main(words) == 0
    after = {file.name: file.stat().st_mtime_ns for file in folder.glob("block-*.npz")}
    assert before.items() <= after.items()
    assert len(after) > len(before)
    assert json.loads(capsys.readouterr().out)["kind"] == "risk"


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_curve_that_was_interrupted_goes_on_with_the_trainings_that_it_has(
    few: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"

    def n_runs() -> int:
        return len(kept.read_text().splitlines()) - 1 if kept.exists() else 0

    asked = ("--model", "extra-trees", "--epsilon", "0.5,1,4", "--seconds", 1)
    words = typed("whatif", few, *asked, "--checkpoint", kept, "--json")
    interrupt_when(start(words, pause=0.2), lambda: n_runs() >= 4)
    before = kept.read_text().splitlines()
    process = start(words, pause=0.0)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    after = kept.read_text().splitlines()
    assert set(before) <= set(after)
    assert len(after) > len(before)
    assert json.loads(out)["kind"] == "whatif"
