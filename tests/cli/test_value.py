from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from epsilens.cli import main
from epsilens.data import build_encoder, infer_schema
from epsilens.document import load_document
from epsilens.valuation import add_one, batch_correction, leave_one_out

SECRET = "unmistakable-secret"


@pytest.fixture
def files(survey, tmp_path):
    paths = {}
    parts = {"train": slice(0, 200), "candidates": slice(200, 260)}
    for name, rows in parts.items():
        paths[name] = tmp_path / f"{name}.csv"
        survey.X[rows].assign(smokes=survey.y[rows].astype(str)).to_csv(paths[name], index=False)
    paths["test"] = tmp_path / "test.csv"
    survey.X_test.assign(smokes=survey.y_test.astype(str)).to_csv(paths["test"], index=False)
    return paths


def run(files, *arguments):
    typed = ["value", "local", files["train"], "--test", files["test"], "--label", "smokes"]
    return main([*map(str, typed), *map(str, arguments)])


def default_model(X, final):
    return make_pipeline(build_encoder(infer_schema(X)), final)


def parts_of(files):
    tables = {name: pd.read_csv(path) for name, path in files.items()}
    return {name: (table.drop(columns="smokes"), table["smokes"]) for name, table in tables.items()}


def test_json_is_the_document_alone(files, capsys):
    assert run(files, "--json", "--seed", 3) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    document = load_document(shown.out)
    assert document.kind == "value"
    assert (document.n, document.scored, document.provenance.seed) == (200, "training", 3)
    assert document.number_types["mean"] == "measured"
    assert document.total == pytest.approx(200 * document.mean)
    assert document.clearly_harmful <= document.harmful < 200
    assert {point.order for point in document.curve} == {"score", "training loss", "random"}
    assert document.batch_factor is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_scores_are_written_with_their_rows(files, tmp_path, capsys, suffix):
    out = tmp_path / f"scores.{suffix}"
    assert run(files, "--out", out, "--no-curve") == 0
    frame = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    parts = parts_of(files)
    truth = leave_one_out(
        default_model(parts["train"][0], LogisticRegression()), *parts["train"], *parts["test"]
    )
    assert frame["row"].tolist() == list(range(200))
    assert frame["influence"].to_numpy() == pytest.approx(truth, abs=1e-12)
    assert frame["harmful"].tolist() == (truth < 0).tolist()
    assert (frame["standard_error"] > 0).all()
    text = capsys.readouterr().out
    assert f"{(truth < 0).sum()} score below zero" in " ".join(text.split())
    assert "Change of the test loss" not in text


def test_rows_are_those_of_the_file_when_some_are_dropped(files, tmp_path, capsys):
    table = pd.read_csv(files["train"])
    table.loc[[3, 7], "age"] = np.nan
    table.to_csv(files["train"], index=False)
    out = tmp_path / "scores.csv"
    assert run(files, "--out", out, "--no-curve", "--method", "newton") == 0
    assert pd.read_csv(out)["row"].tolist() == [j for j in range(200) if j not in (3, 7)]
    assert "2 of 200 rows were dropped" in capsys.readouterr().out


def test_candidates_are_scored_and_corrected_as_a_batch(files, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    assert run(files, "--candidates", files["candidates"], "--out", out, "--json") == 0
    document = load_document(capsys.readouterr().out)
    parts = parts_of(files)
    truth = add_one(
        default_model(parts["train"][0], LogisticRegression()),
        *parts["train"],
        *parts["candidates"],
        *parts["test"],
    )
    frame = pd.read_csv(out)
    assert frame["influence"].to_numpy() == pytest.approx(truth, abs=1e-12)
    factor = batch_correction(200, 60, 1)
    assert document.batch_factor == pytest.approx(factor)
    assert frame["influence_in_batch"].to_numpy() == pytest.approx(truth / factor, abs=1e-12)
    all_added = next(p for p in document.curve if p.share == 1.0 and p.order == "score")
    # So few test records that the fall is within its error.
    assert abs(all_added.loss_change) < 2 * all_added.standard_error
    assert document.measured_batch_factor is None
    assert (document.scored, document.n) == ("candidates", 60)


@pytest.mark.parametrize(("method", "kind"), [("exact", "measured"), ("newton", "estimated")])
def test_a_batch_factor_is_measured_where_the_fall_is_clear(tmp_path, capsys, method, kind):
    rng = np.random.default_rng(0)
    files = {}
    for name, n in (("train", 60), ("candidates", 30), ("test", 4000)):
        table = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
        table["smokes"] = np.where(2 * table["a"] + rng.logistic(size=n) > 0, "yes", "no")
        files[name] = tmp_path / f"{name}.csv"
        table.to_csv(files[name], index=False)
    assert run(files, "--candidates", files["candidates"], "--method", method, "--json") == 0
    document = load_document(capsys.readouterr().out)
    fall = -next(p for p in document.curve if p.share == 1.0 and p.order == "score").loss_change
    assert document.measured_batch_factor == pytest.approx(document.total / fall)
    assert document.number_types["measured_batch_factor"] == kind


def test_nobody_is_paid_if_no_record_helps(tmp_path, capsys):
    """Labels in the candidates are all the wrong way round."""
    rng = np.random.default_rng(0)
    files = {}
    for name, n in (("train", 200), ("candidates", 10), ("test", 400)):
        table = pd.DataFrame({"a": rng.normal(size=n)})
        if name == "candidates":
            table["a"] = np.sign(table["a"]) * 3.0
        helps = table["a"] + 0.5 * rng.logistic(size=n) > 0
        table["smokes"] = np.where(helps if name != "candidates" else table["a"] < 0, "yes", "no")
        files[name] = tmp_path / f"{name}.csv"
        table.to_csv(files[name], index=False)
    arguments = ("--candidates", files["candidates"], "--pay", 100, "--no-curve")
    assert run(files, *arguments) == 0
    assert "so nobody is paid" in " ".join(capsys.readouterr().out.split())
    assert run(files, *arguments, "--json") == 0
    assert load_document(capsys.readouterr().out).paid == 0


def test_words_say_what_was_found(files, capsys):
    assert run(files, "--candidates", files["candidates"], "--method", "newton") == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "With one more record the test loss",
        "over 60 candidates",
        "two standard errors",
        "as expected from its size",
        "not private",
    ):
        assert words in text


def test_payments_go_to_helpful_records(files, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    assert run(files, "--pay", 500, "--out", out, "--no-curve", "--quiet") == 0
    frame = pd.read_csv(out)
    assert frame["payment"].sum() == pytest.approx(500)
    assert (frame["payment"][frame["harmful"]] == 0).all()
    assert "500 divided in proportion" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["newton", "second-order", "first-order"])
def test_other_methods_are_called_estimates(files, capsys, method):
    assert run(files, "--method", method, "--json", "--no-curve") == 0
    document = load_document(capsys.readouterr().out)
    assert document.provenance.method == method
    assert document.number_types["mean"] == "estimated"
    assert document.curve == []


def test_a_number_by_ridge_and_a_split(files, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    typed = ("value", "local", str(files["train"]), "--label", "age", "--model", "ridge")
    more = ("--drop", "smokes", "--no-curve", "--out", str(out), "--seed", "5")
    assert main([*typed, *more]) == 0
    rows = pd.read_csv(out)["row"]
    assert len(rows) == 150  # a quarter is set aside
    assert rows.is_monotonic_increasing
    assert rows.max() > 150
    assert "squared error" in " ".join(capsys.readouterr().out.split())


def test_the_default_ridge_model_is_what_is_scored(files, tmp_path):
    out = tmp_path / "scores.csv"
    tables = {name: pd.read_csv(path).drop(columns="smokes") for name, path in files.items()}
    for name, table in tables.items():
        table.to_csv(files[name], index=False)
    typed = ["value", "local", files["train"], "--test", files["test"], "--label", "age"]
    more = ["--model", "ridge", "--regularisation", 3, "--out", out, "--no-curve"]
    assert main([*map(str, typed), *map(str, more)]) == 0
    X = {name: table.drop(columns="age") for name, table in tables.items()}
    truth = leave_one_out(
        default_model(X["train"], Ridge(alpha=3.0)),
        X["train"],
        tables["train"]["age"],
        X["test"],
        tables["test"]["age"],
    )
    assert pd.read_csv(out)["influence"].to_numpy() == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_curve_is_drawn(files, tmp_path, capsys, suffix):
    chart = tmp_path / f"curve.{suffix}"
    assert run(files, "--chart", chart, "--method", "newton") == 0
    assert chart.stat().st_size > 1000
    assert "Written" in capsys.readouterr().out


def test_anonymous_shows_no_name(files, capsys):
    assert run(files, "--anonymous", "--method", "newton", "--json") == 0
    shown = capsys.readouterr()
    assert "smokes" not in shown.out + shown.err
    assert json.loads(shown.out)["provenance"]["settings"]["label"] == "column 1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pay", "-1"), "`--pay` must be finite and greater than 0"),
        (("--chart", "curve.pdf"), "`--chart` must end in .png, .svg"),
        (("--chart", "curve.svg", "--no-curve"), "`--no-curve` cannot be used with it"),
        (("--out", "scores.txt"), "`--out` must end in"),
        (("--method", "third"), "'third' is not one of"),
        (("--candidates", "no-such-file.csv"), "no-such-file.csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(files, capsys, arguments, words):
    assert run(files, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert len(shown.err.splitlines()) == 1


def test_the_data_are_not_overwritten(files, capsys):
    assert run(files, "--out", files["test"]) == 2
    assert "another file than the test data" in capsys.readouterr().err


def test_candidates_of_another_kind_are_refused_without_their_values(files, capsys):
    table = pd.read_csv(files["candidates"])
    table.assign(region=SECRET).to_csv(files["candidates"], index=False)
    assert run(files, "--candidates", files["candidates"]) == 2
    shown = capsys.readouterr().err
    assert "column 'region' of the candidates must hold categories" in shown
    assert SECRET not in shown
    table.drop(columns="age").to_csv(files["candidates"], index=False)
    assert run(files, "--candidates", files["candidates"]) == 2
    assert "the candidates must have the columns of the training data" in capsys.readouterr().err


def test_what_is_said_on_standard_error_stands_in_the_document_too(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(45, 12, 80), "region": ["north", "south"] * 40})
    table["income"] = table["age"] + rng.normal(30, 10, 80)
    table.loc[5, "region"] = "east"  # its record alone says what it is worth
    table[:60].to_csv(tmp_path / "train.csv", index=False)
    table[60:].to_csv(tmp_path / "test.csv", index=False)
    typed = ["value", "local", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv")]
    typed += ["--label", "income", "--model", "ridge", "--regularisation", "1e-300"]
    assert main([*typed, "--no-curve", "--json"]) == 0
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert "decide a coefficient alone" in line
    assert line.removeprefix("Warning: ") in load_document(shown.out).warnings
