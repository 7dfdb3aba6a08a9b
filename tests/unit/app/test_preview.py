"""The first answer: never one that failed its own check."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calls import make_calls
from epsilens.app.engine import Engine
from epsilens.app.questions import Limits, Question
from epsilens.document import load_document, to_dict

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def calls_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "calls.csv"
    make_calls(4000).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def asked(engine: Engine, task: str, path: Path, **question: Any) -> dict[str, Any]:
    return engine.answer(
        {
            "task": task,
            "path": str(path),
            "name": path.name,
            "anonymous": False,
            "question": Question(label="y", **question).model_dump(mode="json"),
        },
        lambda *_: None,
    )


def at_one(answer: dict[str, Any]) -> Any:
    cells = load_document(answer["document"]).cells
    return min(cells, key=lambda cell: abs(cell.epsilon - 1.0))


def test_first_order_has_the_wrong_sign_and_knows_it(engine: Engine, calls_file: Path) -> None:
    # What the rest of this file is about: if this ever passes its checks, they are broken.
    first = at_one(asked(engine, "first-order", calls_file))
    exact = at_one(asked(engine, "cost", calls_file))
    assert first.loss_change_high < 0 < exact.loss_change_low
    assert not first.trusted
    assert exact.trusted


def test_the_first_answer_is_the_exact_cost_where_that_is_quick(
    engine: Engine, calls_file: Path
) -> None:
    preview = asked(engine, "preview", calls_file)
    assert preview["is_cost"]
    cost = asked(engine, "cost", calls_file)
    assert preview["document"]["cells"] == cost["document"]["cells"]
    assert preview["document"]["warnings"] == cost["document"]["warnings"]


@pytest.mark.parametrize("question", [{"protect": ["outcome"]}, {"correction": "forward"}])
def test_else_it_is_a_preview_at_five_budgets(
    engine: Engine, calls_file: Path, question: dict[str, Any]
) -> None:
    preview = asked(engine, "preview", calls_file, **question)
    assert not preview["is_cost"]
    document = load_document(preview["document"])
    assert len(document.cells) == 5
    assert {document.cells[0].epsilon, document.cells[-1].epsilon} == {0.1, 10.0}
    assert {cell.method for cell in document.cells} == {"exact"}


def test_many_rows_get_a_preview(
    engine: Engine, calls_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epsilens.app.engine.QUICK", 1000)
    assert not asked(engine, "preview", calls_file)["is_cost"]


def test_costs_that_failed_their_check_are_measured_before_they_are_shown(
    engine: Engine, calls_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epsilens.whatif.study.plan", lambda *_, **__: "influence")
    preview = asked(engine, "preview", calls_file, epsilon="0.5,1,8")
    failed = [cell.epsilon for cell in load_document(preview["document"]).cells if not cell.trusted]
    assert 1.0 in failed
    assert not preview["is_cost"]
    cost = load_document(asked(engine, "cost", calls_file, epsilon="0.5,1,8")["document"])
    assert all(cell.trusted for cell in cost.cells)
    assert [cell.epsilon for cell in cost.cells if cell.method == "retrain"] == failed


def keep(visitor: Any, csv_bytes: bytes, document: object) -> str:
    """Keep a study with this preview."""
    table = visitor.upload(csv_bytes).json()["id"]
    return visitor.service.store.add_study(
        table_id=table,
        name="kept",
        question=Question(label="smokes"),
        limits=Limits(),
        is_anonymous=False,
        document=to_dict(document),
    ).id


def test_a_preview_that_failed_its_checks_says_why(
    visitor: Any, csv_bytes: bytes, build: ModuleType
) -> None:
    failed = build.make_whatif(method="influence", untrusted_below=2.0)
    study = visitor.json("GET", f"/api/studies/{keep(visitor, csv_bytes, failed)}")
    assert study["stage"] == "preview"
    # The budget that a page opens at, though larger ones passed.
    assert study["unanswered"] == (
        "No estimate yet at ε = 0.924: the first-order estimate failed its checks."
    )
    passed = build.make_whatif(method="influence", untrusted_below=0.5)
    study = visitor.json("GET", f"/api/studies/{keep(visitor, csv_bytes, passed)}")
    assert study["unanswered"] is None


def test_first_answers_of_an_earlier_version_are_previews(
    serve: Any, tmp_path: Path, csv_bytes: bytes, build: ModuleType
) -> None:
    with serve(tmp_path / "state") as visitor:
        kept = keep(visitor, csv_bytes, build.make_whatif())
    (database,) = (tmp_path / "state").glob("*.sqlite*")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE documents SET kind = 'first-order'")
    connection.close()
    with serve(tmp_path / "state") as visitor:
        assert visitor.json("GET", f"/api/studies/{kept}")["stage"] == "preview"
        assert visitor.json("GET", f"/api/studies/{kept}/documents/preview")["kind"] == "whatif"
