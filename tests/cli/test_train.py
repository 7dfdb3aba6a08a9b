# SPDX-License-Identifier: Apache-2.0
"""`epsilens train`: the files it writes, what it claims, what it adds up and what it refuses."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

import epsilens.cli.train as command
from epsilens.channels.ledger import LEDGER_FILE
from epsilens.cli import main
from epsilens.cli.release_files import is_pending
from epsilens.document import TrainingDocument, load_document
from epsilens.errors import InputError
from epsilens.mechanisms import gaussian_advantage
from epsilens.private import load_model

CLASSES = "--categories=smokes=no|yes"
OPTIONS = ("--label=smokes", "--mechanism=noisy-descent", "--x-bound=3", "--epsilon=1", CLASSES)
RECORD = ("--protects=record", "--delta=1e-4", "--range=age=17:90", "--categories=job=a|b|c")


def make_people(n: int = 80, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    age = random.integers(17, 90, n)
    return pd.DataFrame(
        {
            "age": age,
            "job": random.choice(["a", "b", "c"], n),
            "smokes": np.where(age + random.normal(0, 20, n) > 50, "yes", "no"),
        }
    )


@pytest.fixture
def survey(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    make_people().to_csv(folder / "survey.csv", index=False)
    return folder / "survey.csv"


def run(data, *options, out=None) -> int:
    target = () if out is None else ("--out", str(out))
    return main(["train", str(data), *map(str, options), *target])


def receipt(path: Path) -> TrainingDocument:
    found = load_document(path)
    assert isinstance(found, TrainingDocument)
    return found


def test_the_model_file_predicts_as_the_model_did(survey, tmp_path, capsys, monkeypatch):
    fitted, before = [], command._released
    monkeypatch.setattr(
        command, "_released", lambda *a, **n: fitted.append(before(*a, **n)) or fitted[-1]
    )
    people, out = make_people(), tmp_path / "model.json"
    new = pd.DataFrame({"job": ["a", "z", None], "age": [40.0, None, 1e300], "extra": 1})
    for options, method in (
        ((), "predict_proba"),
        (("--mechanism=output-perturbation",), "predict_proba"),
        (RECORD, "predict_proba"),
    ):
        assert run(survey, *OPTIONS, *options, "--force", out=out) == 0
        loaded = load_model(out)
        for table in (people, new):
            theirs = Pipeline([("encoder", fitted[-1].encoder), ("model", fitted[-1].model)])
            assert (
                getattr(loaded, method)(table).tobytes() == getattr(theirs, method)(table).tobytes()
            )
            assert loaded.predict(table).tolist() == theirs.predict(table).tolist()
        assert loaded.classes_.tolist() == ["no", "yes"]
        assert loaded[-1].receipt_ == json.loads(
            (tmp_path / "model.receipt.json").read_text("utf-8")
        )
    said = capsys.readouterr().out
    assert "A logistic model of smokes that may be published." in said
    assert "δ = 0.001 was taken, well below one over 80 records." in said
    assert f"Written: {out} and {tmp_path / 'model.receipt.json'}" in said


def test_a_number_is_predicted_by_ridge(survey, tmp_path, capsys):
    options = ("--label=age", "--model=ridge", "--mechanism=output-perturbation", "--x-bound=2")
    out = tmp_path / "model.json"
    assert run(survey, *options, "--epsilon=1", out=out) == 2
    assert "what 'age' can hold must be declared" in capsys.readouterr().err
    # Almost no noise: the model is the ridge model within its bounds.
    assert (
        run(survey, *options, "--epsilon=1e6", "--range=age=17:90", "--test", survey, out=out) == 0
    )
    assert "Test loss (squared error): " in capsys.readouterr().out
    predicted = load_model(out).predict(make_people())
    assert np.corrcoef(predicted, make_people()["age"])[0, 1] > 0.4
    found = receipt(tmp_path / "model.receipt.json")
    assert (found.model, found.n_steps, found.columns) == ("ridge", None, ["age"])
    assert run(survey, *options, "--mechanism=noisy-descent", "--epsilon=1", out=out) == 2
    assert "must be output-perturbation for `--model ridge`" in capsys.readouterr().err


def test_the_receipt_states_the_claim(survey, tmp_path, capsys):
    out = tmp_path / "model.json"
    assert run(survey, *OPTIONS, *RECORD, "--json", out=out) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "model.receipt.json").read_text("utf-8"))
    assert printed == json.loads(out.read_text("utf-8"))["receipt"]
    expected = {
        "mechanism": "noisy-descent",
        "trust": "curator",
        "protects": "record",
        "columns": ["age", "job", "smokes"],
        "epsilon": 1.0,
        "delta": 1e-4,
        "x_bound": 3.0,
        "n_steps": 120,
        "rows": 80,
        "simulated": False,
    }
    assert {name: printed[name] for name in expected} == expected
    assert printed["advantage"] == pytest.approx(gaussian_advantage(printed["mu"]))
    assert printed["rho"] == pytest.approx(printed["mu"] ** 2 / 2)
    assert printed["total"]["n_releases"] == 1
    assert printed["total"]["advantage"] == printed["advantage"]
    assert printed["provenance"]["seconds"] is None
    answer = tmp_path / "answer.json"
    assert run(survey, *OPTIONS, "--delta=1e-4", "--json", out=answer) == 0
    alone = json.loads(capsys.readouterr().out)
    assert (alone["protects"], alone["columns"], alone["mu"]) == (
        "answer",
        ["smokes"],
        printed["mu"],
    )
    assert alone["sigma"] == pytest.approx(printed["sigma"] / 2, rel=1e-6)
    # A protected feature moves the row: the noise is that of a replaced record.
    both = ("--protect=age", "--range=age=17:90", "--delta=1e-4", "--json")
    assert run(survey, *OPTIONS, *both, out=tmp_path / "both.json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["protects"], found["columns"]) == ("answer", ["age", "smokes"])
    assert found["sigma"] == pytest.approx(printed["sigma"], rel=1e-6)


def test_a_seed_makes_it_a_simulation(survey, tmp_path, capsys):
    for name in ("one", "two"):
        assert run(survey, *OPTIONS, "--seed=3", out=tmp_path / f"{name}.json") == 0
        said = capsys.readouterr()
        assert "a seed was given, so this is a simulation and protects nobody" in said.err
        assert "Do not publish this model." in said.out
        assert "(proven)" not in said.out
    one, two = (
        json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in ("one", "two")
    )
    assert one["coefficients"] == two["coefficients"]
    assert one["receipt"]["simulated"] is True
    assert one["receipt"]["number_types"] == {}
    assert not (survey.parent / LEDGER_FILE).exists()
    assert run(survey, *OPTIONS, out=tmp_path / "real.json") == 0
    assert (
        json.loads((tmp_path / "real.json").read_text("utf-8"))["coefficients"]
        != one["coefficients"]
    )


def test_what_is_not_declared_is_named_at_once_with_a_command(survey, tmp_path, capsys):
    options = ("--label=smokes", "--mechanism=noisy-descent", "--epsilon=1", "--protects=record")
    assert run(survey, *options, out=tmp_path / "model.json") == 2
    line = capsys.readouterr().err
    assert (
        "`--x-bound` and `--delta` and what 'age', 'job', 'smokes' can hold must be declared"
        in line
    )
    assert "--x-bound 4 --delta 0.001 --range age=LOW:HIGH --categories 'job=A|B|C'" in line
    assert line.count("\n") == 1
    assert not list(tmp_path.glob("*.json"))
    assert run(survey, *OPTIONS, *RECORD[:2], "--drop=age,job", out=tmp_path / "model.json") == 2
    assert "at least one column must be left" in capsys.readouterr().err
    assert run(survey, *OPTIONS, *RECORD, "--missing=drop", out=tmp_path / "model.json") == 2
    assert "leave out `--missing` and `--categorical`" in capsys.readouterr().err
    assert (
        run(
            survey,
            *OPTIONS,
            *RECORD[:2],
            "--drop=job",
            "--bins=age=17:90:4",
            out=tmp_path / "model.json",
        )
        == 0
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mechanism=randomised-response"], "use `epsilens randomise`"),
        (["--mechanism=dp-ebm"], "`--x-bound` must be left out for dp-ebm"),
        (["--mechanism=synthetic-aim"], "`--x-bound` must be left out for synthetic-aim"),
        (["--mechanism=magic"], "dp-sgd, dp-ebm or synthetic-aim here, got 'magic'"),
        (["--epsilon=0"], "`--epsilon` must be"),
        (["--epsilon=inf"], "`--epsilon` must be"),
        (["--delta=2"], "`--delta` must lie between 0 and 1"),
        (["--x-bound=-1"], "`--x-bound` must be"),
        (["--range=age=5"], "`--range` must look like COL=LOW:HIGH"),
        (["--range=age=90:17"], "`--range` must look like COL=LOW:HIGH"),
        (["--range=height=1:2"], "`--range` must look like COL=LOW:HIGH"),
        (["--range=age=1:2", "--bins=age=3"], "column 'age' must be declared once"),
        (["--drop=smokes"], "`--drop` must name columns that the model can do without"),
        (["--drop=height"], "height"),
        (["--categories=job=a|a"], "different answers"),
        (["--after=survey.csv"], "but 'survey.csv' cannot be read as a receipt"),
        (["--after=README.md"], "but 'README.md' cannot be read as a receipt"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    survey, tmp_path, capsys, monkeypatch, options, words
):
    monkeypatch.chdir(survey.parent)
    assert run(survey, *OPTIONS, *options, out=tmp_path / "model.json") == 2
    said = capsys.readouterr()
    assert words in said.err
    assert (said.err.count("\n"), said.out) == (1, "")
    assert not list(tmp_path.glob("*.json"))
    assert not (survey.parent / LEDGER_FILE).exists()


def test_classes_that_are_not_declared_are_observed_in_a_simulation_alone(survey, tmp_path, capsys):
    options = [option for option in OPTIONS if option != CLASSES]
    assert run(survey, *options, out=tmp_path / "model.json") == 2
    line = capsys.readouterr().err
    assert "to protect the answers what 'smokes' can hold must be declared" in line
    assert line.endswith(" --categories 'smokes=A|B|C'\n")
    # A range says nothing of classes.
    for range_ in ("--range=smokes=0:1", "--bins=smokes=0:1:2"):
        assert run(survey, *options, range_, out=tmp_path / "model.json") == 2
        assert "the label 'smokes' is a class: declare its" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))
    assert run(survey, *options, "--positive=yes", out=tmp_path / "positive.json") == 0
    capsys.readouterr()
    assert run(survey, *options, "--seed=1", out=tmp_path / "model.json") == 0
    assert "the domain of 'smokes' is taken from the observed values" in capsys.readouterr().err
    found = receipt(tmp_path / "model.receipt.json")
    assert (found.notes[0].code, found.number_types) == ("observed-domain", {})
    people = make_people()
    people.loc[3, "smokes"] = None
    people.to_csv(survey, index=False)
    assert run(survey, *options, "--seed=1", out=tmp_path / "other.json") == 2
    assert "must be given in every row, but some lack it" in capsys.readouterr().err
    assert run(survey, *OPTIONS, out=tmp_path / "other.json") == 0


def test_a_delta_that_allows_to_publish_a_record_is_refused(survey, tmp_path, capsys):
    assert run(survey, *OPTIONS, "--delta=0.0125", out=tmp_path / "model.json") == 2
    said = capsys.readouterr()
    assert "`--delta` is not below 1/80, one over the number of training records" in said.err
    assert (said.err.count("\n"), said.out) == (1, "")
    assert not (survey.parent / LEDGER_FILE).exists()
    assert run(survey, *OPTIONS, "--delta=0.0124", out=tmp_path / "model.json") == 0
    assert run(survey, *OPTIONS, "--delta=0.9", "--seed=1", out=tmp_path / "other.json") == 0
    assert "is not below 1/80" in capsys.readouterr().err


def test_counting_what_declarations_change_trains_nothing(survey, tmp_path, capsys):
    options = ("--protects=record", "--delta=1e-4", "--range=age=30:40", "--categories=job=a|b")
    assert run(survey, *OPTIONS, *options, "--check", out=tmp_path / "model.json") == 0
    said = capsys.readouterr().out
    people = make_people()
    assert f"job: {int((people['job'] == 'c').sum())} undeclared" in said
    beyond = int(((people["age"] < 30) | (people["age"] > 40)).sum())
    assert f"age: 0 without a number, {beyond} beyond the range" in said
    assert "Not private" in said
    assert not list(tmp_path.glob("*.json"))


def test_test_data_are_measured_and_said_not_to_be_private(survey, tmp_path, capsys):
    test = tmp_path / "test.csv"
    make_people(200, seed=1).to_csv(test, index=False)
    out = tmp_path / "model.json"
    assert run(survey, *OPTIONS, "--epsilon=1000", "--test", test, out=out) == 0
    said = capsys.readouterr().out
    right = (
        load_model(out).predict(make_people(200, seed=1)) == make_people(200, seed=1)["smokes"]
    ).mean()
    assert f"accuracy {right:.1%}, 200 records. Measured on the test data and not private." in said
    assert "accuracy" not in out.read_text("utf-8")


def test_receipts_add_up_and_are_counted_once(survey, tmp_path, capsys):
    a, b, c = (tmp_path / f"{name}.json" for name in "abc")
    receipts = [tmp_path / f"{name}.receipt.json" for name in "abc"]
    options = (*OPTIONS, "--delta=1e-5", "--quiet")
    assert run(survey, *options, out=a) == 0
    assert run(survey, *options, "--after", receipts[0], out=b) == 0
    # The second receipt has the first in it.
    assert run(survey, *options, "--after", receipts[1], out=c) == 0
    both = ("--after", receipts[1], "--after", receipts[0])
    assert run(survey, *options, *both, out=tmp_path / "d.json") == 0
    found = [receipt(path) for path in (*receipts, tmp_path / "d.receipt.json")]
    assert [one.total.n_releases for one in found] == [1, 2, 3, 3]
    for one, n in zip(found, (1, 2, 3, 3), strict=True):
        mu = one.mu * np.sqrt(n)
        assert one.total.advantage == pytest.approx(gaussian_advantage(mu), rel=1e-12)
        assert one.total.delta == pytest.approx(n * 1e-5)
    assert found[2].total.epsilon == found[3].total.epsilon < 2.0
    said = capsys.readouterr()
    assert "Over 4 releases their budgets add up to ε = 4." in said.err
    assert "Together with 2 earlier releases: ε = " in said.out


def test_randomised_answers_add_up_with_a_model(survey, tmp_path, capsys):
    table, out = tmp_path / "released.csv", tmp_path / "model.json"
    release = ["randomise", str(survey), "--protect=smokes", "--epsilon=0.5", CLASSES, "--quiet"]
    assert main([*release, "--out", str(table)]) == 0
    after = ("--after", f"{table}.receipt.json")
    assert run(survey, *OPTIONS, *after, out=out) == 0
    total = receipt(tmp_path / "model.receipt.json").total
    own = receipt(tmp_path / "model.receipt.json").advantage
    assert 1.0 < total.epsilon <= 1.5
    # Two answers at ε = 0.5: (e^ε − 1)/(e^ε + 1).
    response = np.tanh(0.25)
    assert max(own, response) < total.advantage < 1 - (1 - own) * (1 - response)
    (earlier,) = total.earlier
    assert (earlier.mechanism, earlier.n_categories, earlier.delta) == (
        "randomised-response",
        2,
        0.0,
    )
    capsys.readouterr()
    assert run(survey, *OPTIONS, *RECORD, *after, out=tmp_path / "record.json") == 2
    line = capsys.readouterr().err
    assert (
        "protects answers, which proves nothing of a whole record. No total can be claimed" in line
    )
    assert "Leave it out" not in line


def test_columns_with_one_budget_count_each_through_another_receipt(survey, tmp_path):
    people = make_people().assign(sex=np.resize(["f", "m"], 80))
    people.to_csv(survey, index=False)
    table, receipts = tmp_path / "r.csv", [tmp_path / f"m{n}.receipt.json" for n in (1, 2, 3)]
    sexes = "--categories=sex=f|m"
    release = ["randomise", str(survey), "--protect=smokes,sex", "--epsilon=1", CLASSES, sexes]
    assert main([*release, "--quiet", "--out", str(table)]) == 0
    options = (
        *OPTIONS,
        "--protect=sex",
        sexes,
        "--delta=1e-5",
        "--quiet",
        "--n-steps=2",
        "--after",
    )
    first = f"{table}.receipt.json"
    assert run(survey, *options, first, out=tmp_path / "m1.json") == 0
    assert run(survey, *options, receipts[0], out=tmp_path / "m2.json") == 0
    both = (first, "--after", receipts[0])
    assert run(survey, *options, *both, out=tmp_path / "m3.json") == 0
    one, two, three = (receipt(path).total for path in receipts)
    assert [len(total.earlier) for total in (one, two, three)] == [2, 3, 3]
    assert [total.n_releases for total in (one, two, three)] == [2, 3, 3]
    assert one.epsilon < two.epsilon == three.epsilon
    assert one.advantage < two.advantage == three.advantage


def test_the_same_command_twice_in_a_second_is_two_releases(survey, tmp_path, monkeypatch):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(datetime, "datetime", Clock)
    options = (*OPTIONS, "--n-steps=2", "--quiet")
    table = ["randomise", str(survey), "--protect=smokes", "--epsilon=1", CLASSES, "--quiet"]
    for name in "ab":
        assert run(survey, *options, out=tmp_path / f"{name}.json") == 0
        assert main([*table, "--out", str(tmp_path / f"{name}.csv")]) == 0
        assert run(survey, *options, "--seed=1", out=tmp_path / f"{name}.simulated.json") == 0
    texts = [(tmp_path / f"{name}.simulated.receipt.json").read_bytes() for name in "ab"]
    assert texts[0] == texts[1]
    receipts = [
        str(path) for path in sorted(tmp_path.glob("[ab].*receipt.json")) if "sim" not in path.name
    ]
    after = [part for path in receipts for part in ("--after", path)]
    assert run(survey, *options, *after, *after[:2], out=tmp_path / "c.json") == 0
    assert receipt(tmp_path / "c.receipt.json").total.n_releases == 5
    # Receipts without an id, or with one that was withheld, are told apart by what they say.
    for number, path in enumerate(map(Path, receipts)):
        content = json.loads(path.read_text("utf-8"))
        settings = content["provenance"]["settings"]
        if "csv" not in path.name:
            settings["release_id"] = "withheld"
        else:
            del settings["release_id"]
        path.write_text(json.dumps(content | ({"rows": 70} if number == 0 else {})), "utf-8")
    assert run(survey, *options, *after, out=tmp_path / "d.json") == 0
    assert receipt(tmp_path / "d.receipt.json").total.n_releases == 4


def test_receipts_that_cannot_be_added_up_are_refused(survey, tmp_path, capsys):
    simulated, record = tmp_path / "simulated.json", tmp_path / "record.json"
    assert run(survey, *OPTIONS, "--seed=1", out=simulated) == 0
    assert run(survey, *OPTIONS, *RECORD, out=record) == 0
    capsys.readouterr()
    out, after = tmp_path / "model.json", "--after"
    assert run(survey, *OPTIONS, after, tmp_path / "simulated.receipt.json", out=out) == 2
    assert "is of a simulation, which counts for nothing" in capsys.readouterr().err
    assert run(survey, *OPTIONS, after, record, out=out) == 2
    assert "cannot be read as a receipt" in capsys.readouterr().err
    # Whoever protects the record protects the answer, not the other way round.
    assert run(survey, *OPTIONS, after, tmp_path / "record.receipt.json", out=out) == 0
    other = ("--label=job", "--categories=job=a|b|c", *OPTIONS[1:4])
    assert run(survey, *other, after, tmp_path / "model.receipt.json", out=tmp_path / "o.json") == 2
    line = capsys.readouterr().err
    assert "does not protect 'job'. No total can be claimed for these releases together." in line
    assert run(survey, *other, out=tmp_path / "o.json") == 0
    assert load_model(tmp_path / "o.json")[-1].coef_.shape[0] == 3


def test_a_budget_and_an_earlier_model_are_respected(survey, tmp_path, capsys):
    out = tmp_path / "model.json"
    assert run(survey, *OPTIONS, "--budget=1.5", out=out) == 0
    assert run(survey, *OPTIONS, "--budget=1.5", out=tmp_path / "second.json") == 2
    assert "must stay within a total of ε = 1.5" in capsys.readouterr().err
    before = out.read_bytes()
    assert run(survey, *OPTIONS, out=out) == 2
    assert "`--out` must be a new file, but 'model.json' exists" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert run(survey, *OPTIONS, out=survey) == 2
    assert run(survey, *OPTIONS, out=tmp_path / "model.pkl") == 2
    assert run(survey, *OPTIONS, "--force", out=out) == 0
    assert "An earlier release was replaced." in capsys.readouterr().err


@pytest.mark.parametrize("forced", [False, True])
def test_stopped_while_it_is_written_no_model_stands_without_its_receipt(
    survey, tmp_path, monkeypatch, forced
):
    out, path = tmp_path / "model.json", tmp_path / "model.receipt.json"
    if forced:
        first = tmp_path / "first.json"
        assert run(survey, *OPTIONS, "--epsilon=0.1", out=first) == 0
        after = ("--after", tmp_path / "first.receipt.json")
        assert run(survey, *OPTIONS, "--epsilon=0.5", *after, out=out) == 0
    replaced = os.replace

    def interrupted(source, target):
        replaced(source, target)
        if Path(target).name == "model.json":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupted)
        assert run(survey, *OPTIONS, "--epsilon=2", "--force", out=out) == 130
    assert out.exists()
    assert is_pending(path)
    found = receipt(path)
    assert found.epsilon == (2.5 if forced else 2.0)
    assert found.total.n_releases == (3 if forced else 1)
    # What the replaced model came after is not forgotten.
    assert [one.epsilon for one in found.total.earlier] == ([0.1] if forced else [])
    assert not list(tmp_path.glob(".*part"))

    def refused(source, target):
        if Path(target).name == "model.json":
            raise KeyboardInterrupt
        replaced(source, target)

    shutil.rmtree(tmp_path / "other", ignore_errors=True)
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(os, "replace", refused)
    assert run(survey, *OPTIONS, out=tmp_path / "other" / "model.json") == 130
    assert list((tmp_path / "other").iterdir()) == []


def test_only_a_model_of_this_version_is_loaded(survey, tmp_path):
    out, bad = tmp_path / "model.json", tmp_path / "bad.json"
    assert run(survey, *OPTIONS, out=out) == 0
    good = json.loads(out.read_text("utf-8"))

    def changed(**parts):
        return json.dumps(good | parts)

    column = {"kind": "number", "name": "age", "centre": 0.0, "scale": 0.0}
    nowhere = {"low": None, "high": None, "n_bins": None, "is_date": False}
    for text, words in (
        ("", "is no JSON"),
        ("[1]", "is another kind of file"),
        ((tmp_path / "model.receipt.json").read_text("utf-8"), "is another kind of file"),
        (changed(epsilens_model=2), "has another version"),
        (changed(epsilens_model=True), "has another version"),
        (changed(model="forest"), "is malformed at `model`"),
        (changed(coefficients=[[1.0]]), "is malformed"),
        (changed(coefficients=[[1.0, "x", 2.0]]), "is malformed at `coefficients`"),
        (changed(intercept=[1.0, 2.0]), "is malformed"),
        (changed(classes=["no"]), "is malformed"),
        (changed(classes=["no", "no"]), "is malformed"),
        (changed(x_bound=0.1), "is malformed"),
        (changed(encoder=[column | nowhere]), "is malformed"),
        (changed(encoder=[], coefficients=[[]]), "is malformed"),
        (changed(encoder=[column | nowhere], coefficients=[[1.0]]), "malformed receipt or encoder"),
        (changed(receipt={}), "malformed receipt or encoder"),
        (changed(receipt=good["receipt"] | {"model": "ridge"}), "the receipt of another release"),
        (changed(extra=1), "is malformed at `extra`"),
        (out.read_text("utf-8").replace('"x_bound": 3.0', '"x_bound": NaN'), "is no JSON"),
    ):
        bad.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"wrote, but 'bad\.json'") as caught:
            load_model(bad)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path / "none.json")


def test_a_model_that_contradicts_its_receipt_is_not_loaded(survey, tmp_path):
    out, bad = tmp_path / "model.json", tmp_path / "bad.json"
    assert run(survey, *OPTIONS, *RECORD, out=out) == 0
    good = json.loads(out.read_text("utf-8"))
    before = good["receipt"]
    origin, total = before["provenance"], before["total"]

    def stated(**parts):
        return good | {"receipt": before | parts}

    settings = origin["settings"]
    for content, what in (
        (good | {"label": "drinks"}, "the label"),
        (good | {"x_bound": 3.5}, "x_bound"),
        (stated(x_bound=1.0), "x_bound"),
        (stated(mechanism="output-perturbation"), "the mechanism"),
        (stated(mechanism="dp-sgd", provenance=origin | {"method": "dp-sgd"}), "μ and ρ"),
        (stated(n_steps=None), "the mechanism"),
        (stated(protects="answer"), "what it protects"),
        (stated(columns=["age", "smokes"]), "what it protects"),
        (stated(columns=["age", "job"]), "what it protects"),
        (
            stated(provenance=origin | {"settings": settings | {"n_classes": 3}}),
            "the number of classes",
        ),
        (stated(provenance=origin | {"seed": 1}), "whether it is a simulation"),
        (stated(simulated=True), "whether it is a simulation"),
        (
            stated(simulated=True, provenance=origin | {"seed": 1, "simulated": True}),
            "whether it is a simulation",
        ),
        (stated(epsilon=0.1), "ε, δ and μ"),
        (stated(epsilon="inf"), "ε, δ and μ"),
        (stated(delta=1e-9), "ε, δ and μ"),
        (stated(delta=0.0), "ε, δ and μ"),
        (stated(mu=before["mu"] * (1 + 1e-5)), "ε, δ and μ"),
        (stated(mu=None), "ε, δ and μ"),
        (stated(rho=before["rho"] / 2), "μ and ρ"),
        (stated(rho=None), "μ and ρ"),
        (stated(sigma=0.0), "the noise"),
        (stated(advantage=before["advantage"] * (1 - 1e-5)), "μ and the advantage"),
        (stated(total=total | {"epsilon": 0.5}), "the total"),
        (stated(total=total | {"advantage": 0.0}), "the total"),
        (stated(total=total | {"n_releases": 2}), "the total"),
    ):
        bad.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(InputError, match=r"wrote, but 'bad\.json'") as caught:
            load_model(bad)
        assert str(caught.value).endswith(f"contradicts its receipt: {what}.")
    # Rounding is no contradiction.
    bad.write_text(json.dumps(stated(mu=before["mu"] * (1 + 1e-8))), encoding="utf-8")
    load_model(bad)
