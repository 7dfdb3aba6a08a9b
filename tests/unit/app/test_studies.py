"""Studies: asked, answered at once, answered better, kept, compared, exported, deleted."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
import pytest

from epsilens.document import load_document

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(visitor: Any, csv_bytes: bytes) -> Any:
    """A study whose cost and attack have come."""
    women = {"name": "women", "expression": 'sex == "Female"'}
    study = visitor.study(csv_bytes, groups=[women])
    # The label alone, of few rows: the first answer is the exact cost already.
    assert (study["stage"], study["unanswered"]) == ("cost", None)
    for kind in ("cost", "attack"):
        job = visitor.json("POST", f"/api/studies/{study['id']}/jobs", {"kind": kind}, status=202)
        visitor.wait(job["id"], "done")
    return visitor.json("GET", f"/api/studies/{study['id']}")


def test_the_schema_is_shown_and_can_be_corrected(visitor: Any, csv_bytes: bytes) -> None:
    table = visitor.upload(csv_bytes).json()["id"]
    found = visitor.json("POST", f"/api/tables/{table}/schema", {})
    columns = {column["name"]: column for column in found["document"]["columns"]}
    assert found["likely_label"] == "smokes"
    assert columns["sex"]["categories"] == ["Female", "Male"]
    assert not columns["income"]["protectable"]
    corrected = visitor.json(
        "POST",
        f"/api/tables/{table}/schema",
        {"bins": {"income": "0:100:5"}, "categorical": ["age"]},
    )
    columns = {column["name"]: column for column in corrected["document"]["columns"]}
    assert columns["income"]["protectable"]
    assert columns["age"]["kind"] == "categorical"
    assert corrected["compared_as"] == ["number", "text", "number", "text", "text"]
    for reading in ({"delimiter": "\0"}, {"delimiter": "é"}, {"encoding": "idna"}):
        refused = visitor.json("POST", f"/api/tables/{table}/schema", reading, status=422)
        assert "is not usable" in refused["error"]
    wrong = visitor.ask("POST", f"/api/tables/{table}/schema", json={"delimiter": ";"})
    assert wrong.status_code == 422
    assert "'survey.csv' was cut at every semicolon" in wrong.json()["error"]


def test_a_long_answer_is_cut_and_still_counts_as_yes(visitor: Any, csv_bytes: bytes) -> None:
    # Three answers, of which two begin alike for longer than is shown.
    long = [b"never", b"x" * 300 + b" now", b"x" * 300 + b" once"]
    lines = csv_bytes.splitlines()
    answers = [line.rpartition(b",")[0] + b"," + long[n % 3] for n, line in enumerate(lines[1:])]
    content = b"\n".join([lines[0], *answers])
    table = visitor.upload(content).json()["id"]
    found = visitor.json("POST", f"/api/tables/{table}/schema", {})["document"]
    shown = found["columns"][-1]["categories"]
    assert [len(name) for name in shown] == [5, 112, 112]
    assert len(set(shown)) == 3
    losses = []
    for answer in (shown[2], long[2].decode(), shown[1]):
        study = visitor.study(content, positive=answer)
        document = visitor.json("GET", f"/api/studies/{study['id']}/documents/cost")
        losses.append(document["baseline"]["loss"])
    assert losses[0] == losses[1] != losses[2]


def test_any_group_is_answered_to_first_order_at_once(visitor: Any, finished: Any) -> None:
    document = visitor.json(
        "POST", f"/api/studies/{finished['id']}/first-order", {"expression": "age < 40"}
    )
    cells = load_document(document).cells
    assert [cell.group for cell in cells] == ["all"] * 5 + ["asked"] * 5
    assert {cell.method for cell in cells} == {"influence"}


def test_first_order_answers_are_the_point_tables(
    visitor: Any, finished: Any, csv_bytes: bytes
) -> None:
    # The slow obvious twin: read, split and train here, and sum the points of the group.
    import io

    import numpy as np
    import pandas as pd

    from epsilens.channels import RandomizedResponse
    from epsilens.data import prepare
    from epsilens.models.scikit_learn import default_estimator
    from epsilens.whatif import WhatIf

    frame = pd.read_csv(io.BytesIO(csv_bytes)).drop(columns="town")
    data = prepare(frame, label="smokes", groups=["young=age < 40"])
    answers = pd.CategoricalDtype(["no", "yes"])
    study = WhatIf(default_estimator(data.schema)).fit(
        data.X_train, data.y_train.astype(answers), data.X_test, data.y_test.astype(answers)
    )
    lie = RandomizedResponse(2, 0.5).matrix[0, 1]
    expected = study.point_table().change(data.groups["young"], lie)
    document = visitor.json(
        "POST", f"/api/studies/{finished['id']}/first-order", {"expression": "age < 40"}
    )
    cell = next(c for c in document["cells"] if c["group"] == "asked" and c["epsilon"] == 0.5)
    # Both are the same sum, added up in another order.
    assert cell["loss_change"] == pytest.approx(float(np.sum(expected)), rel=1e-8)


def test_a_finished_study_leads_to_a_decision(visitor: Any, finished: Any) -> None:
    assert finished["stage"] == "decision"
    address = f"/api/studies/{finished['id']}"
    decision = visitor.json("GET", f"{address}/documents/decision")
    assert load_document(decision).kind == "decision"
    curves = {curve["mechanism"]: curve["protects"] for curve in decision["mechanisms"]}
    assert list(curves) == [
        *("randomised-response", "randomised-response-corrected"),
        *("noisy-descent", "output-perturbation"),
    ]
    assert len(decision["alternatives"]) == 3
    # No limit was given: the default holds, and is named.
    chosen = decision["recommendation"]
    assert (chosen["max_advantage"], chosen["is_default"]) == (0.1, True)
    assert "our default" in chosen["sentence"]
    limits = {"max_loss_increase": 0.5, "max_attack_rate": 0.95, "chosen_epsilon": 2.0}
    changed = visitor.json("PATCH", address, {"limits": limits})
    assert changed["limits"] == limits | {
        "measured": False,
        "max_advantage": None,
        "max_accuracy_loss": None,
    }
    chosen = visitor.json("GET", f"{address}/documents/decision")["recommendation"]
    assert (chosen["rule"], chosen["epsilon"]) == ("both", 0.5)
    # What is not sent stays, so that one tab does not undo what another has done.
    visitor.json("PATCH", address, {"limits": {"max_loss_increase": None}})
    kept = visitor.json("PATCH", address, {"limits": {"chosen_epsilon": None}})["limits"]
    assert (kept["max_loss_increase"], kept["max_attack_rate"]) == (None, 0.95)
    # A limit in other units takes the place of the first; in percentage points of accuracy.
    for one, other, value in (
        ("max_accuracy_loss", "max_loss_increase", 0.5),
        ("max_loss_increase", "max_accuracy_loss", 0.02),
        ("max_advantage", "max_attack_rate", 0.2),
        ("max_attack_rate", "max_advantage", 0.9),
    ):
        kept = visitor.json("PATCH", address, {"limits": {one: value}})["limits"]
        assert (kept[one], kept[other]) == (value, None)
    both = {"max_loss_increase": 0.1, "max_accuracy_loss": 0.5}
    refused = visitor.json("PATCH", address, {"limits": both}, status=422)
    assert "max_loss_increase or max_accuracy_loss, not both" in refused["error"]
    visitor.json("PATCH", address, {"limits": {"max_accuracy_loss": 100}})
    chosen = visitor.json("GET", f"{address}/documents/decision")["recommendation"]
    assert (chosen["max_accuracy_loss"], chosen["max_loss_increase"]) == (100, None)
    open_ = dict.fromkeys(("max_accuracy_loss", "max_attack_rate"))
    visitor.json("PATCH", address, {"limits": open_, "name": "the first"})
    assert visitor.json("GET", address)["name"] == "the first"


def command_of(report: str) -> str:
    """Return the command that makes a report again, as somebody would copy it."""
    import html
    import re

    part = report[report.index("makes this page again") :]
    return html.unescape(re.sub(r"<[^>]*>", "", re.search(r"<code>(.*?)</code>", part, re.S)[1]))


def test_everything_can_be_taken_away(visitor: Any, finished: Any) -> None:
    address = f"/api/studies/{finished['id']}"
    report = visitor.ask("GET", f"{address}/report.html")
    assert "attachment" in report.headers["content-disposition"]
    assert "What this does not protect" in report.text
    assert command_of(report.text).startswith("epsilens decide survey.csv --label smokes")
    assert visitor.client.get(f"{address}/chart.png").content.startswith(b"\x89PNG")
    assert visitor.client.get(f"{address}/chart.svg").text.startswith("<svg")
    exported = visitor.ask("GET", f"{address}/document.json").text
    assert load_document(exported).kind == "decision"


def test_the_command_in_the_report_finds_the_same(
    visitor: Any,
    finished: Any,
    csv_bytes: bytes,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    import shlex

    from epsilens.cli import main

    report = visitor.ask("GET", f"/api/studies/{finished['id']}/report.html").text
    command = command_of(report)
    (tmp_path / "survey.csv").write_bytes(csv_bytes)
    monkeypatch.chdir(tmp_path)
    command, missing = command.split("\n")
    assert missing.startswith("# Not in it: 1 group (")
    assert main([*shlex.split(command)[1:], "--json"]) in {0, 3}
    told = load_document(capfdbinary.readouterr().out.decode())
    shown = load_document(visitor.json("GET", f"/api/studies/{finished['id']}/documents/decision"))
    assert told.risk.cells == shown.risk.cells
    # The same sums; with a group beside them they are added up in another order.
    everybody = [cell for cell in shown.cost.cells if cell.group == "all"]
    assert [cell.loss_change_high for cell in told.cost.cells] == pytest.approx(
        [cell.loss_change_high for cell in everybody], rel=1e-9
    )
    assert [one.mechanism for one in told.mechanisms] == [one.mechanism for one in shown.mechanisms]
    for one, other in zip(told.mechanisms, shown.mechanisms, strict=True):
        for name in ("epsilon", "advantage", "attack_rate_ceiling", "loss_change_high"):
            numbers = ([getattr(cell, name) for cell in curve.cells] for curve in (one, other))
            assert next(numbers) == pytest.approx(next(numbers), rel=1e-9)
    assert told.recommendation.command == shown.recommendation.command
    assert told.recommendation.command is not None
    assert told.recommendation.sentence == shown.recommendation.sentence
    assert [one.reason for one in told.alternatives] == [one.reason for one in shown.alternatives]


def test_the_shown_report_runs_only_its_own_scripts(visitor: Any, finished: Any) -> None:
    shown = visitor.shown(finished["id"])
    policy = shown.headers["content-security-policy"]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert scripts.count("'sha256-") == 2
    assert "unsafe" not in scripts
    assert "frame-ancestors 'self'" in policy


def test_studies_are_compared(visitor: Any, finished: Any, csv_bytes: bytes) -> None:
    other = visitor.study(csv_bytes, protect=["sex"])
    rows = visitor.ask(
        "GET", "/api/comparison", params={"study": [finished["id"], other["id"]]}
    ).json()
    # The numbers are those of the mechanism that is recommended.
    decision = visitor.json("GET", f"/api/studies/{finished['id']}/documents/decision")
    chosen = decision["recommendation"]
    assert rows[0]["mechanism"] == "noisy gradient descent"
    assert (rows[0]["epsilon"], rows[0]["shown"]["advantage"]) == (chosen["epsilon"], "6.8%")
    assert rows[0]["loss_change"] is not None
    assert rows[0]["answer_inference_high"] is None
    assert [row["stage"] for row in rows] == ["decision", "preview"]
    # Without a limit on the loss a preview recommends nothing: there is no attack yet.
    assert (rows[1]["epsilon"], rows[1]["sentence"]) == (None, None)
    assert rows[1]["protect"] == ["sex"]
    both = {"study": [finished["id"], other["id"]], "width": 300, "titled": False}
    drawn = visitor.ask("GET", "/api/comparison/chart.svg", params=both)
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert "No attack measured: B" in drawn.text
    for many in (1, 5):
        wrong = visitor.ask(
            "GET", "/api/comparison/chart.svg", params={"study": [finished["id"]] * many}
        )
        assert wrong.status_code == 422


def test_a_number_is_predicted_and_only_its_cost_is_shown(
    visitor: Any, finished: Any, csv_bytes: bytes
) -> None:
    study = visitor.study(
        csv_bytes, label="income", model="ridge", protect=["sex"], weight="age", test_share=0.4
    )
    assert not study["has_attack"]
    address = f"/api/studies/{study['id']}"
    document = load_document(visitor.json("GET", f"{address}/documents/preview"))
    assert document.baseline.accuracy is None
    assert document.baseline.n_test == 160
    refused = visitor.ask("POST", f"{address}/jobs", json={"kind": "attack"})
    assert refused.status_code == 422
    assert "forward correction" in refused.json()["error"]
    report = visitor.ask("GET", f"{address}/report.html").text
    command = command_of(report)
    assert command.startswith("epsilens whatif survey.csv --label income --protect sex")
    assert "--weight age" in command
    # No limit was given, and none is made up.
    assert "--max-loss-increase" not in command
    assert "--model ridge" in command
    # Squared errors and nats do not stand on one axis.
    joined = visitor.ask(
        "GET", "/api/comparison/chart.svg", params={"study": [finished["id"], study["id"]]}
    )
    assert joined.status_code == 422
    assert "losses in one unit" in joined.json()["error"]


def test_a_file_is_read_as_asked_when_it_is_sent(visitor: Any) -> None:
    content = "żona|wiek\ntak, razem|3,5\nnie|4,1\ntak|2,0\n".encode("cp1250")
    odd = {"name": "odd.csv"}
    reading = {"delimiter": "|", "encoding": "cp1250"}
    table = visitor.client.post("/api/tables", params=odd | reading, content=content)
    assert table.status_code == 201, table.text
    read = visitor.json("POST", f"/api/tables/{table.json()['id']}/schema", reading)
    assert [column["name"] for column in read["document"]["columns"]] == ["żona", "wiek"]
    assert {name: read[name] for name in reading} == reading
    # Read wrongly it is refused, and not kept.
    before = len(visitor.json("GET", "/api/tables"))
    wrong = odd | reading | {"delimiter": ";"}
    assert visitor.client.post("/api/tables", params=wrong, content=content).status_code == 422
    assert len(visitor.json("GET", "/api/tables")) == before


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"label": "nothing"}, "the column to predict"),
        ({"label": "income"}, "income"),
        ({"protect": ["income"]}, "bins"),
        ({"groups": [{"name": "a", "expression": "age <"}]}, "expression"),
        ({"groups": [{"name": "a", "expression": "age > 1000"}]}, "group"),
        ({"groups": [{"name": "a", "expression": "__import__('os')"}]}, "expression"),
        ({"groups": [{"name": "a", "expression": 'smokes == "yes"'}]}, "a"),
        ({"epsilon": "0:10:5"}, "the budgets"),
        ({"seed": -1}, "seed"),
        ({"shadow_models": 1}, "“the number of attacked models”"),
        ({"test_share": 1.5}, "less than 100 per cent"),
        ({"nonsense": 1}, "nothing of this name"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_in_one_line(
    visitor: Any, csv_bytes: bytes, question: dict[str, object], words: str
) -> None:
    table = visitor.upload(csv_bytes).json()["id"]
    asked = {"table": table, "question": {"label": "smokes", "drop": ["town"], **question}}
    answer = visitor.ask("POST", "/api/studies", json=asked)
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert words in error
    assert "\n" not in error


def test_the_survey_that_comes_with_it_can_be_tried_deleted_and_brought_back(visitor: Any) -> None:
    survey = visitor.json("POST", "/api/survey", {}, status=201)
    assert visitor.json("POST", "/api/survey", {}, status=201)["id"] == survey["id"]
    found = visitor.json("POST", f"/api/tables/{survey['id']}/schema", {})
    assert (found["likely_label"], found["document"]["rows"]) == ("affair", 6366)
    visitor.json("DELETE", f"/api/tables/{survey['id']}", status=204)
    visitor.json("GET", f"/api/tables/{survey['id']}", status=404)
    assert visitor.json("POST", "/api/survey", {}, status=201)["id"] == survey["id"]


def test_another_table_holds_the_test_data(
    visitor: Any, csv_bytes: bytes, finished: Any, tmp_path: Any
) -> None:
    lines = csv_bytes.splitlines()
    test = visitor.upload(b"\n".join(lines[:101]), "later.csv").json()["id"]
    study = visitor.study(csv_bytes, test=test)
    address = f"/api/studies/{study['id']}"
    kept = load_document(visitor.json("GET", f"{address}/documents/cost"))
    assert (kept.baseline.n_train, kept.baseline.n_test) == (400, 100)
    assert "--test later.csv" in command_of(visitor.ask("GET", f"{address}/report.html").text)
    # A table that the study does not fit is refused; a study goes with its test data.
    other = visitor.upload(b"a,b\n1,2\n3,4\n", "other.csv").json()["id"]
    asked = {"table": study["table"], "question": {"label": "smokes", "test": other}}
    assert "smokes" in visitor.json("POST", "/api/studies", asked, status=422)["error"]
    visitor.json("DELETE", f"/api/tables/{test}", status=204)
    visitor.json("GET", address, status=404)
    visitor.json("GET", f"/api/tables/{study['table']}")
    asked["question"]["test"] = test
    assert "not kept" in visitor.json("POST", "/api/studies", asked, status=404)["error"]


@pytest.mark.parametrize(
    ("question", "curves", "words"),
    [
        ({"weight": "age"}, 2, "take no weights and were not compared"),
        ({"trust": "nobody"}, 2, None),
        ({"model": "extra-trees"}, 3, None),
    ],
)
def test_who_is_trusted_and_the_model_say_what_is_compared(
    csv_bytes: bytes,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    question: dict[str, object],
    curves: int,
    words: str | None,
) -> None:
    from sklearn import ensemble

    from epsilens.app.engine import Engine
    from epsilens.app.pictures import decide_on
    from epsilens.app.questions import Question

    # What is compared does not depend on how many trees a forest has.
    small = partial(ensemble.ExtraTreesClassifier, n_estimators=5)
    monkeypatch.setattr(ensemble, "ExtraTreesClassifier", small)
    path = tmp_path / "survey.csv"
    path.write_bytes(csv_bytes)
    few = Question(label="smokes", drop=["town"], epsilon="1,4", shadow_models=20, **question)
    task = {
        "path": str(path),
        "name": "survey.csv",
        "anonymous": False,
        "limits": {},
        "question": few.model_dump(mode="json"),
        "checkpoint": str(tmp_path / "models"),
        "cost_checkpoint": str(tmp_path / "models.cost"),
    }
    engine, steps = Engine(), set()

    def note(done: int, total: int, what: str) -> None:
        steps.add(what)

    cost = engine.answer({"task": "cost", **task}, note)["document"]
    found = engine.answer({"task": "attack", **task}, note)
    kept = {"cost": cost, "risk": found["document"], "mechanisms": found["mechanisms"]}
    decision = decide_on({**task, **kept})
    assert len(decision.mechanisms) == curves
    assert decision.is_comparison is (curves > 1)
    assert decision.provenance.settings["trust"] == question.get("trust", "curator")
    said = " ".join(decision.warnings)
    assert words is None or words in said
    assert "step 1 of 2, attacking models that are trained on randomised answers" in steps
    assert all("_" not in step and "None" not in step for step in steps)


def test_missing_answers_are_refused_with_what_settles_them(visitor: Any, csv_bytes: bytes) -> None:
    people = pd.read_csv(io.BytesIO(csv_bytes))
    people.loc[:36, "sex"] = None
    table = visitor.upload(people.to_csv(index=False).encode()).json()["id"]
    asked = {"table": table, "question": {"label": "smokes", "drop": ["town"]}}
    failure = visitor.json("POST", "/api/studies", asked, status=422)
    assert "37 of 400 do (sex 37)" in failure["error"]
    assert failure["error"].endswith("or leave out the column.")
    assert failure["remedies"] == [
        {"missing": "drop", "column": None, "n_rows": 37},
        {"missing": "category", "column": None, "n_rows": 37},
        {"missing": None, "column": "sex", "n_rows": 37},
    ]


def test_a_refusal_repeats_nothing_that_was_sent(visitor: Any, secret: str) -> None:
    for body in (
        {"table": secret, "question": {"label": "smokes"}},
        {"table": "0" * 16, "question": {"label": "smokes", secret: 1}},
        {"table": "0" * 16, "question": {"label": {"a": secret}}},
    ):
        answer = visitor.client.post("/api/studies", json=body)
        assert answer.status_code == 422
        assert secret not in answer.text
    assert secret not in visitor.client.post("/api/studies", content=secret.encode()).text


def test_what_is_not_kept_is_not_found(visitor: Any) -> None:
    nobody = "0" * 16
    for method, path in (
        ("GET", f"/api/tables/{nobody}"),
        ("DELETE", f"/api/tables/{nobody}"),
        ("GET", f"/api/studies/{nobody}"),
        ("DELETE", f"/api/studies/{nobody}"),
        ("GET", f"/api/jobs/{nobody}"),
        ("POST", f"/api/jobs/{nobody}/cancel"),
        ("GET", f"/api/studies/{nobody}/report.html"),
        ("GET", "/static/..%2Fapi.py"),
        ("GET", "/static/../api.py"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
    ):
        answer = visitor.ask(method, path)
        assert answer.status_code == 404, path
        assert "error" in answer.json()


def test_no_answer_holds_a_value(visitor: Any, finished: Any, secret: str) -> None:
    # Everything that was answered in this file, reports and pictures included.
    assert len(visitor.seen) > 30
    assert not any(secret in text for text in visitor.seen)


def test_nobody_else_can_read_what_is_kept(visitor: Any, finished: Any) -> None:
    folder = visitor.service.store.folder
    found = [folder, *folder.rglob("*")]
    assert len(found) > 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in found)


def test_a_deleted_study_and_table_leave_no_file(visitor: Any, csv_bytes: bytes) -> None:
    study = visitor.study(csv_bytes)
    path = visitor.service.store.table(study["table"]).path
    assert path.exists()
    visitor.json("DELETE", f"/api/studies/{study['id']}", status=204)
    visitor.json("GET", f"/api/studies/{study['id']}", status=404)
    assert path.exists()
    visitor.json("DELETE", f"/api/tables/{study['table']}", status=204)
    assert not path.exists()
    # Overwritten, not only forgotten.
    folder = visitor.service.store.folder
    assert not any(study["id"].encode() in file.read_bytes() for file in folder.rglob("*.sqlite"))


@pytest.fixture(scope="module")
def hidden(serve: Any, tmp_path_factory: pytest.TempPathFactory, csv_bytes: bytes) -> Iterator[Any]:
    with serve(tmp_path_factory.mktemp("anonymous") / "state", anonymous=True) as visitor:
        yield visitor


def test_names_can_be_withheld(hidden: Any, csv_bytes: bytes, secret: str) -> None:
    table = hidden.upload(csv_bytes, "clinic.csv").json()
    assert table["name"] == "table 1"
    found = hidden.json("POST", f"/api/tables/{table['id']}/schema", {})
    assert found["likely_label"] == "column 5"
    assert found["document"]["provenance"]["schema_fingerprint"] is None
    columns = found["document"]["columns"]
    assert columns[1]["categories"] == ["category 1", "category 2"]
    asked = {
        "table": table["id"],
        "name": "smokers of the clinic",
        "question": {
            "label": "column 5",
            "positive": "category 2",
            "drop": ["column 4"],
            "epsilon": "0.5:8:5",
            "shadow_models": 20,
            "groups": [
                {"name": "women", "expression": '`column 2` == "Female"'},
                {"name": "as shown", "expression": '`column 2` == "category 1"'},
            ],
        },
    }
    study = hidden.json("POST", "/api/studies", asked, status=201)
    for kind in ("cost", "attack"):
        job = hidden.json("POST", f"/api/studies/{study['id']}/jobs", {"kind": kind}, status=202)
        hidden.wait(job["id"], "done", "failed")
    address = f"/api/studies/{study['id']}"
    assert hidden.json("GET", address)["stage"] == "decision"
    cells = hidden.json("GET", f"{address}/documents/cost")["cells"]
    changes = [
        [one["loss_change"] for one in cells if one["group"] == f"group {n}"] for n in (1, 2)
    ]
    assert changes[0] == changes[1] != []
    for part in ("report.html", "document.json", "chart.svg", "documents/cost", "documents/risk"):
        assert hidden.ask("GET", f"{address}/{part}").status_code == 200
    assert hidden.shown(study["id"]).status_code == 200
    hidden.ask("POST", f"/api/tables/{table['id']}/schema", json={"delimiter": ";"})
    hidden.ask("GET", "/api/comparison", params={"study": [study["id"]]})
    for text in hidden.seen:
        for name in ("smokes", "Female", "women", "town", "clinic", "income", secret):
            assert name not in text, name


def test_studies_with_names_are_not_shown_where_names_are_withheld(
    serve: Any, tmp_path: Any, csv_bytes: bytes
) -> None:
    with serve(tmp_path / "state") as visitor:
        study = visitor.study(csv_bytes)
        assert len(visitor.json("GET", "/api/studies")) == 1
        job = visitor.service.store.add_job(study["id"], "cost").id
    named = tmp_path / "clinic.doctor-jones"
    named.write_bytes(csv_bytes)
    with serve(tmp_path / "state", anonymous=True, data=str(named)) as visitor:
        assert [table["format"] for table in visitor.json("GET", "/api/tables")] == ["text"] * 2
        for method, path in (
            ("GET", f"jobs/{job}"),
            ("POST", f"jobs/{job}/cancel"),
            ("POST", f"jobs/{job}/resume"),
            ("DELETE", f"studies/{study['id']}"),
        ):
            visitor.json(method, f"/api/{path}", status=404)
        kept = visitor.json("DELETE", f"/api/tables/{study['table']}", status=422)
        assert "made with names" in kept["error"]
        assert visitor.json("GET", "/api/studies") == []
        visitor.json("GET", f"/api/studies/{study['id']}", status=404)
        visitor.json("GET", f"/api/studies/{study['id']}/documents/preview", status=404)
        assert visitor.json("GET", "/api/tables")[1]["name"] == "table 1"
