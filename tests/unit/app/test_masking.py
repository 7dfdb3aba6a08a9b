# SPDX-License-Identifier: Apache-2.0
"""Which columns give people away: asked, found by a job, shown, saved, deleted, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epsilens.app.engine import Engine
from epsilens.app.folder import open_folder
from epsilens.app.questions import Question
from epsilens.app.store import Store
from epsilens.data import infer_schema
from epsilens.data.description import identity_columns
from epsilens.document import load_document
from epsilens.errors import MissingExtraError

pytestmark = pytest.mark.slow

WALKERS = 8


def walks(n_rows: int = 400) -> pd.DataFrame:
    """Rows of eight people: the gait says who walks, the speed says how."""
    rng = np.random.default_rng(0)
    who, runs = rng.integers(0, WALKERS, n_rows), rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "visit": np.arange(n_rows),
            "gait": who + 0.1 * rng.normal(size=n_rows),
            "speed": 2 * runs + 0.3 * rng.normal(size=n_rows),
            "person": [f"walker {one}" for one in who],
            "activity": np.where(runs == 1, "runs", "walks"),
        }
    )


@pytest.fixture(scope="module")
def content() -> bytes:
    return walks().to_csv(index=False).encode()


MASK = {"label": "activity", "identity": "person", "alpha": 0.5}


def ask(visitor: Any, content: bytes, *, status: int = 201, **question: object) -> Any:
    table = visitor.upload(content, "walks.csv").json()["id"]
    asked = {"table": table, "question": {**MASK, **question}}
    return visitor.json("POST", "/api/studies", asked, status=status)


def begin(visitor: Any, study: Any, kind: str = "mask", *, status: int = 202) -> Any:
    return visitor.json("POST", f"/api/studies/{study['id']}/jobs", {"kind": kind}, status=status)


@pytest.fixture(scope="module")
def found(visitor: Any, content: bytes) -> Any:
    pytest.importorskip("shap")
    study = ask(visitor, content)
    assert (study["stage"], study["has_attack"]) == ("mask", False)
    assert study["unanswered"] == "Models are trained and explained first."
    assert study["name"].endswith("columns that identify person")
    job = visitor.wait(begin(visitor, study)["id"], "done", "failed")
    assert job["state"] == "done", job
    return study


def test_columns_that_can_name_people_are_offered_and_one_is_suggested(
    visitor: Any, content: bytes
) -> None:
    table = visitor.upload(content).json()["id"]
    schema = visitor.json("POST", f"/api/tables/{table}/schema", {})
    assert (schema["identities"], schema["likely_identity"]) == (["person"], "person")
    # Five people in each town; nobody has two rows of one case number, and no town is called a person.
    frame = pd.DataFrame({"town": ["A", "B", "C"] * 5, "case": [f"c{n}" for n in range(15)]})
    assert identity_columns(frame, infer_schema(frame)) == (["town"], None)
    assert visitor.json("GET", "/api/session")["can_mask"]


def test_a_mask_is_found_shown_and_saved(visitor: Any, found: Any) -> None:
    address = f"/api/studies/{found['id']}"
    document = load_document(visitor.json("GET", f"{address}/documents/mask"))
    assert (document.masked, document.kept) == (["gait"], ["speed"])
    assert document.provenance.settings["identity"] == "person"
    assert load_document(visitor.json("GET", f"{address}/document.json")) == document
    shown = visitor.json("GET", f"{address}/mask?width=300")
    assert shown["sentences"][0].startswith("Mask gait (1 of 2 features)")
    assert (shown["masked"], shown["kept"], shown["utility_kept"][-1]) == (["gait"], ["speed"], "%")
    assert [line[0] for line in shown["accuracies"]["lines"]] == [
        *("nothing masked", "as many at random", "chosen mask")
    ]
    assert shown["accuracies"]["headings"] == ["", "the task", "recognising people"]
    assert shown["notes"][0].startswith("The mask was chosen by looking at these records")
    assert shown["notes"][1].startswith("visit: left out: every value differs")
    assert shown["chart"].startswith("<svg")
    png = visitor.ask("GET", f"{address}/chart.png")
    assert png.content.startswith(b"\x89PNG")
    assert b"Which features identify" in visitor.ask("GET", f"{address}/chart.svg").content
    again = visitor.json("GET", address)
    assert (again["unanswered"], again["jobs"][0]["state"]) == (None, "done")


def test_a_mask_has_no_report_no_cost_and_is_not_compared(visitor: Any, found: Any) -> None:
    address = f"/api/studies/{found['id']}"
    for path in (f"{address}/report.html", f"/api/comparison?study={found['id']}"):
        assert "no report and no ε" in visitor.json("GET", path, status=422)["error"]
    assert "must be mask, got cost" in begin(visitor, found, "cost", status=422)["error"]
    other = ask(visitor, walks().to_csv(index=False).encode(), identity=None, epsilon="1,2")
    assert "attack or cost, got mask" in begin(visitor, other, "mask", status=422)["error"]
    visitor.json("GET", f"/api/studies/{other['id']}/mask", status=404)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"identity": "activity"}, "“the column that names people” must be another column"),
        ({"drop": ["person"]}, "must not be dropped"),
        ({"identity": "gait", "drop": ["speed"]}, "people with several records each"),
        ({"weight": "speed"}, "masking takes no “the weight of a row: speed”"),
        ({"label": "speed", "model": "ridge"}, "masking takes no “the kind of model: ridge”"),
        ({"alpha": 1}, "“the share of what identifies people that must go” is not usable: type a"),
    ],
)
def test_what_cannot_be_masked_is_refused_where_it_is_asked(
    visitor: Any, content: bytes, wrong: dict[str, object], said: str
) -> None:
    pytest.importorskip("shap")
    assert said in ask(visitor, content, status=422, **wrong)["error"]


def test_a_missing_extra_is_said_with_the_command_that_installs_it(
    visitor: Any, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("epsilens.app.service.find_spec", lambda name: None)
    assert visitor.json("GET", "/api/session")["can_mask"] is False
    data = tmp_path / "walks.csv"
    data.write_bytes(content)
    task = {
        **{"task": "preview", "path": str(data), "name": data.name, "anonymous": False},
        "question": Question(label="activity", identity="person").model_dump(mode="json"),
    }
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[explain\]"'):
        Engine().answer(task, lambda *_: None)


def test_the_job_says_its_steps_and_names_are_withheld(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("shap")
    data = tmp_path / "walks.csv"
    data.write_bytes(content)
    question = Question(label="column 5", identity="column 4", alpha=0.5)
    task = {
        **{"task": "mask", "path": str(data), "name": "table 1", "anonymous": True},
        "question": question.model_dump(mode="json"),
    }
    steps: dict[str, list[int]] = {}
    answer = Engine().answer(
        task, lambda done, total, what: steps.setdefault(what, []).append(done)
    )
    assert answer["document"]["masked"] == ["column 2"]
    for name in ("gait", "person", "walker", "activity"):
        assert name not in str(answer)
    assert list(steps) == [
        "training a model for the prediction and one that recognises people",
        *("explaining the prediction", "explaining how people are recognised"),
        *("training without masked features", "training for other values of α"),
    ]
    assert steps["explaining the prediction"][-1] > 10


def test_what_is_noted_of_a_mask_is_shown_where_names_are_withheld(
    content: bytes, tmp_path: Path
) -> None:
    """Of 60 rows, 15 are set aside: half of them are explained, and that is noted."""
    pytest.importorskip("shap")
    data = tmp_path / "walks.csv"
    data.write_bytes(b"\n".join(content.splitlines()[:61]))
    question = Question(label="column 5", identity="column 4")
    task = {
        **{"task": "mask", "path": str(data), "name": "table 1", "anonymous": True},
        "question": question.model_dump(mode="json"),
    }
    notes = Engine().answer(task, lambda *_: None)["document"]["notes"]
    assert {"mask-not-private", "few-explained"} <= {note["code"] for note in notes}


def test_an_interrupted_job_is_resumed_and_all_goes_with_the_table(
    serve: Any, content: bytes, tmp_path: Path
) -> None:
    pytest.importorskip("shap")
    folder = tmp_path / "state"
    with serve(folder) as visitor:
        study = ask(visitor, content)
        job = begin(visitor, study)
    # The server has ended in the middle of it, or before.
    store = Store(open_folder(folder))
    assert store.job(job["id"]).state == "interrupted"
    store.close()
    with serve(folder) as visitor:
        assert begin(visitor, study)["id"] == job["id"]
        visitor.json("POST", f"/api/jobs/{job['id']}/cancel")
        visitor.json("POST", f"/api/jobs/{job['id']}/resume", status=202)
        visitor.wait(job["id"], "done")
        visitor.json("DELETE", f"/api/tables/{study['table']}", status=204)
        for path in (f"/api/studies/{study['id']}/mask", f"/api/jobs/{job['id']}"):
            visitor.json("GET", path, status=404)
