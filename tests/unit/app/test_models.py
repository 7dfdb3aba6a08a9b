# SPDX-License-Identifier: Apache-2.0
"""Models that are not linear, on the page: trained again, attacked at a few budgets, stopped and resumed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epsilens.app.questions import Limits, Question
from epsilens.app.shell_command import command_for
from epsilens.document import load_document

OWN = """
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder


def make():
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(encode, ExtraTreesClassifier(3))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, serve: Callable[..., Any]) -> Iterator[Any]:
    """A server that was started with a model of the user's own, in its folder."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "page_own_models.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with serve(folder / "state", own_model="page_own_models:make") as visitor:
            yield visitor


def test_models_that_are_not_installed_are_not_offered(
    visitor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epsilens.app.service.find_spec", lambda name: None)
    offered = visitor.json("GET", "/api/session")["models"]
    assert offered == [
        *("logistic", "ridge", "hist-gradient-boosting", "random-forest", "extra-trees", "mlp")
    ]
    monkeypatch.setattr("epsilens.app.service.find_spec", lambda name: object())
    assert visitor.json("GET", "/api/session")["models"][-2:] == ["xgboost", "lightgbm"]


def test_a_page_has_words_for_every_model() -> None:
    from typing import get_args

    from epsilens.app.questions import LINEAR_CHOICES, ModelChoice
    from epsilens.models.scikit_learn import LINEAR_MODELS, ModelName

    assert set(get_args(ModelChoice)) == {*get_args(ModelName), "own"}
    assert LINEAR_CHOICES == LINEAR_MODELS
    static = Path(importlib.util.find_spec("epsilens.app").origin).parent / "static"  # type: ignore[union-attr,arg-type]
    script = (static / "asking.js").read_text(encoding="utf-8")
    line = next(line for line in script.splitlines() if line.startswith("const MODELS"))
    for name in set(get_args(ModelChoice)) - {"ridge"}:
        assert f'"{name}": ' in line or f"{name}: " in line


def test_the_command_names_the_model() -> None:
    question = Question(label="smokes", model="own", own_model="mine:make")
    assert "--model mine:make" in command_for(question, Limits(), "a.csv")
    trees = Question(label="smokes", model="extra-trees")
    assert command_for(trees, Limits(), "a.csv").startswith("epsilens decide ")
    number = Question(label="income", model="extra-trees", has_probabilities=False)
    assert command_for(number, Limits(), "a.csv").startswith("epsilens whatif ")


@pytest.mark.slow
def test_a_model_of_ones_own_is_priced_attacked_and_decided_about(
    own: Any, csv_bytes: bytes
) -> None:
    assert own.json("GET", "/api/session")["models"][-1] == "own"
    # What the page says of the model is not taken.
    few = {"epsilon": "0.5:8:3", "shadow_models": 20}
    study = own.study(csv_bytes, model="own", own_model="os:system", has_probabilities=False, **few)
    assert study["question"]["own_model"] == "page_own_models:make"
    assert (study["stage"], study["has_attack"]) == ("preview", True)
    assert study["unanswered"].startswith("No estimate yet: this model is trained again")
    address = f"/api/studies/{study['id']}"
    assert own.ask("GET", f"{address}/document.json").status_code == 404
    for kind in ("cost", "attack"):
        job = own.json("POST", f"{address}/jobs", {"kind": kind}, status=202)
        assert own.wait(job["id"], "done", "failed", seconds=240)["message"] is None
    decision = load_document(own.json("GET", f"{address}/document.json"))
    assert decision.kind == "decision"
    assert {cell.method for cell in decision.cost.cells} == {"curve"}
    assert "<svg" in own.shown(study["id"]).text
    checkpoints = own.service.store.folder / "checkpoints"
    assert not list(checkpoints.iterdir())
    assert own.ask("GET", f"{address}/chart.svg").status_code == 200
    (row,) = own.service.compare([study["id"]])
    assert row["stage"] == "decision"


@pytest.mark.slow
def test_a_number_is_predicted_without_an_attack(visitor: Any, csv_bytes: bytes) -> None:
    study = visitor.study(csv_bytes, label="income", protect=["sex"], model="extra-trees")
    assert not study["has_attack"]
    refused = visitor.ask("POST", f"/api/studies/{study['id']}/jobs", json={"kind": "attack"})
    assert refused.status_code == 422


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"model": "extra-trees", "correction": "forward"}, "needs a linear model"),
        ({"model": "extra-trees", "regularisation": 2.0}, "belongs to the models logistic"),
        ({"model": "own"}, "Start with `--model MODULE:NAME`"),
        ({"model": "forest"}, "kind of model"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(
    visitor: Any, csv_bytes: bytes, question: dict[str, Any], words: str
) -> None:
    table = visitor.upload(csv_bytes).json()["id"]
    asked = {"table": table, "question": {"label": "smokes", "drop": ["town"], **question}}
    refused = visitor.json("POST", "/api/studies", asked, status=422)
    assert words in refused["error"]


@pytest.mark.slow
def test_a_cost_that_was_cancelled_goes_on_with_its_trainings(
    visitor: Any, csv_bytes: bytes
) -> None:
    study = visitor.study(csv_bytes, model="hist-gradient-boosting", epsilon="1,8")
    address = f"/api/studies/{study['id']}"
    job = visitor.json("POST", f"{address}/jobs", {"kind": "cost"}, status=202)
    kept = visitor.service.store.cost_checkpoint(study["id"])
    while not kept.exists() or len(kept.read_text().splitlines()) < 3:
        assert visitor.json("GET", f"/api/jobs/{job['id']}")["state"] in {"waiting", "running"}
    visitor.json("POST", f"/api/jobs/{job['id']}/cancel")
    n_kept = len(kept.read_text().splitlines())
    assert n_kept >= 3
    visitor.json("POST", f"/api/jobs/{job['id']}/resume", status=202)
    visitor.wait(job["id"], "running")
    assert len(kept.read_text().splitlines()) >= n_kept
    assert visitor.wait(job["id"], "done", "failed", seconds=240)["state"] == "done"
    assert not kept.exists()
    assert visitor.json("GET", address)["stage"] == "cost"
