from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main
from epsilens.document import load_document

SECRET = "unmistakable-secret"


def run(*arguments):
    return main(["whatif", *map(str, arguments)])


BASE = ("--label", "smokes", "--protect", "smokes", "--epsilon", "0.2,1,5")
DECLARED = (*BASE, "--categories", "smokes=no|yes")


def test_json_is_the_document_alone(file, capsys):
    assert run(file, *DECLARED, "--json", "--seed", 3) == 0
    shown = capsys.readouterr()
    document = load_document(shown.out)
    assert shown.err == ""
    assert document.kind == "whatif"
    assert [cell.epsilon for cell in document.cells] == [0.2, 1.0, 5.0]
    assert {cell.group for cell in document.cells} == {"all"}
    assert {cell.method for cell in document.cells} == {"exact"}
    assert document.provenance.seed == 3
    assert document.baseline.n_train == 675
    assert document.baseline.n_test == 225


def test_words_name_cost_interval_and_kind(file, capsys):
    assert run(file, *DECLARED, "--group", "young=age < 40", "--max-loss-increase", 0.5) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the group “young”" in text
    assert "estimated; 9 in 10 real runs" in text
    assert "most private choice" in text


def test_a_long_path_is_printed_in_one_piece(file, tmp_path, capsys):
    out = tmp_path / ("a-long-name-" * 10) / "cost.csv"
    out.parent.mkdir()
    assert run(file, *DECLARED, "--out", out) == 0
    assert f"Written: {out}\n" in capsys.readouterr().out


def test_a_limit_that_is_not_met_is_exit_code_3(file, capsys):
    assert run(file, *DECLARED, "--max-loss-increase", "0", "--quiet") == 3
    assert "nearest miss" in " ".join(capsys.readouterr().out.split())


def test_an_observed_domain_is_warned_of_once(file, capsys):
    assert run(file, *BASE) == 0
    shown = capsys.readouterr()
    assert shown.err.count("observed values") == 1
    assert "observed values" not in shown.out


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet", "html", "png", "svg"])
def test_out_writes_what_the_ending_says(file, tmp_path, capsys, suffix):
    out = tmp_path / f"result.{suffix}"
    assert run(file, *DECLARED, "--method", "influence", "--out", out) == 0
    if suffix == "json":
        assert load_document(out).kind == "whatif"
    elif suffix == "csv":
        assert pd.read_csv(out)["epsilon"].tolist() == [0.2, 1.0, 5.0]
    elif suffix == "parquet":
        assert pd.read_parquet(out)["epsilon"].tolist() == [0.2, 1.0, 5.0]
    elif suffix == "html":
        text = out.read_text(encoding="utf-8")
        assert "epsilens whatif" in text
        assert "smokes" in text
    else:
        assert out.stat().st_size > 1000


def test_anonymous_shows_no_name(file, tmp_path, capsys):
    out = tmp_path / "report.html"
    question = (*DECLARED, "--group", "young=age < 40", "--max-loss-increase", "0.5")
    assert run(file, *question, "--anonymous", "--out", out) == 0
    text = capsys.readouterr().out + out.read_text(encoding="utf-8")
    for name in ("smokes", "young", "survey.csv"):
        assert name not in text


def test_anonymous_shows_no_name_on_standard_error_either(file, capsys):
    assert run(file, *BASE, "--anonymous") == 0
    shown = capsys.readouterr()
    assert "smokes" not in shown.out + shown.err
    assert shown.err.startswith("Warning: a warning is withheld")
    assert len(shown.err.splitlines()) == 1


def test_notes_name_options_not_python(file, tmp_path, capsys):
    out = tmp_path / "result.json"
    code = run(
        *(file, "--label", "smokes", "--epsilon", "0.001,1", "--method", "influence"),
        *("--allow-dependent-groups", "--group", 'mine=smokes == "yes"', "--out", out),
    )
    shown = capsys.readouterr()
    assert code == 0
    said = " ".join(load_document(out).warnings) + shown.out + shown.err
    for python in ("method='", "dependent_groups", "`categories`", "dtype"):
        assert python not in said
    # What is said on standard error is not said again.
    assert "observed values" in shown.err
    assert "observed values" not in shown.out


def test_a_test_file_weights_and_positive(table, file, tmp_path, capsys):
    test = tmp_path / "test.csv"
    table.sample(200, random_state=0).assign(w=1.0).to_csv(test, index=False)
    weighted = tmp_path / "weighted.csv"
    table.assign(w=np.linspace(0.5, 2, len(table))).to_csv(weighted, index=False)
    code = run(weighted, *BASE, "--test", test, "--weight", "w", "--positive", "yes", "--json")
    shown = capsys.readouterr()
    assert code == 0
    # --positive declares the two answers: nothing to warn of.
    assert shown.err == ""
    document = load_document(shown.out)
    assert document.baseline.n_test == 200
    assert document.baseline.n_train == 900


def test_a_score_by_ridge(file, capsys):
    code = run(
        *(file, "--label", "children", "--model", "ridge", "--regularisation", 2.0),
        *("--epsilon", "children=1.5", "--categories", "children=0|1|2|3|4", "--json"),
    )
    shown = capsys.readouterr()
    assert code == 0, shown.err
    (cell,) = load_document(shown.out).cells
    assert cell.epsilon is None
    assert cell.record_epsilon == 1.5
    assert cell.accuracy_change is None


def test_features_label_and_gaps_together(file, capsys):
    code = run(
        *(file, "--label", "smokes", "--protect", "region,smokes", "--epsilon", "1,4", "--json"),
        *("--categories", "smokes=no|yes", "--group", "young=age < 40", "--method", "exact"),
    )
    shown = capsys.readouterr()
    assert code == 0, shown.err
    document = load_document(shown.out)
    assert [cell.record_epsilon for cell in document.cells] == [2.0, 8.0]
    assert all(cell.loss_gap_change is not None for cell in document.cells)
    assert {item.outcome for item in document.intervals} >= {"accuracy", "auc", "loss_gap"}
    mapped = run(
        *(
            file,
            "--label",
            "smokes",
            "--protect",
            "region,smokes",
            "--json",
            "--correction",
            "forward",
        ),
        *("--epsilon", "region=1,smokes=2", "--categories", "smokes=no|yes"),
    )
    shown = capsys.readouterr()
    assert mapped == 0, shown.err
    (cell,) = load_document(shown.out).cells
    assert (cell.epsilon, cell.record_epsilon) == (None, 3.0)


def test_a_number_is_protected_in_bins_and_several_classes_work(file, capsys):
    code = run(
        *(file, "--label", "region", "--protect", "region,age", "--bins", "age=0:100:5", "--json"),
        *("--epsilon", "2", "--categories", "region=east|north|south"),
        *("--categories", "age=10|30|50|70|90"),
    )
    shown = capsys.readouterr()
    assert (code, shown.err) == (0, "")
    (cell,) = load_document(shown.out).cells
    assert cell.record_epsilon == 4.0


def test_other_mechanisms(file, capsys):
    assert run(file, *DECLARED, "--mechanism", "olh", "--json") == 0
    document = load_document(capsys.readouterr().out)
    assert document.provenance.settings["mechanism"] == "olh"
    question = ("--protect", "region", "--epsilon", "1", "--categories", "region=east|north|south")
    assert run(file, *DECLARED[:2], *question, "--mechanism", "oue", "--json") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert load_document(shown.out).cells[0].loss_change is not None


def test_declared_domains_of_features_are_those_of_a_release(file, capsys):
    base = (file, "--label", "smokes", "--epsilon", "1", "--json", "--protect")
    assert run(*base, "region", "--categories", "region=east|north|south|west") == 0
    wide = capsys.readouterr()
    assert wide.err == ""
    assert run(*base, "region") == 0
    narrow = capsys.readouterr()
    assert "observed values" in narrow.err
    changes = [load_document(shown.out).cells[0].loss_change for shown in (wide, narrow)]
    assert changes[0] != changes[1]
    assert run(*base, "age", "--bins", "age=0:200:10") == 0
    binned = capsys.readouterr()
    assert binned.err == ""
    assert run(*base, "age", "--bins", "age=10") == 0
    assert "observed values" in capsys.readouterr().err


def test_infinity_is_written_as_text(file, capsys):
    assert run(file, *DECLARED[:-4], "--epsilon", "1,inf", *DECLARED[-2:], "--json") == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert cells[1]["epsilon"] == "inf"
    assert cells[1]["loss_change"] == pytest.approx(0.0, abs=1e-7)


def test_standard_input(file):
    with file.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "epsilens", "whatif", "-", *DECLARED, "--json"],
            stdin=stream,
            capture_output=True,
            check=True,
        )
    assert load_document(done.stdout.decode()).kind == "whatif"


def spoil(table, **changes):
    return table.assign(**changes)


BAD = {
    "unknown label": (lambda t: t, ("--label", "smoke"), "Did you mean 'smokes'"),
    "a number to protect": (lambda t: t, ("--protect", "age"), "--bins age=LOW:HIGH:10"),
    "epsilon zero": (lambda t: t, ("--epsilon", "0"), "greater than 0"),
    "epsilon negative": (lambda t: t, ("--epsilon=-1",), "greater than 0"),
    "epsilon nan": (lambda t: t, ("--epsilon", "nan"), "epsilon"),
    "epsilon junk": (lambda t: t, ("--epsilon", "0.1:10"), "START:STOP:COUNT"),
    "epsilon of another column": (lambda t: t, ("--epsilon", "age=1"), "age"),
    "empty group": (lambda t: t, ("--group", "none=age < -5"), "empty"),
    "broken group": (lambda t: t, ("--group", "age <"), "age <"),
    "group of the answer": (lambda t: t, ("--group", 'mine=smokes == "yes"'), "depends on"),
    "one class": (lambda t: spoil(t, smokes=SECRET), (), "one value"),
    "other classes": (
        lambda t: spoil(t, smokes=np.resize([SECRET, "a", "b"], len(t))),
        (),
        "3 classes",
    ),
    "correction without label": (
        lambda t: t.rename(columns={"smokes": "drinks", "region": "smokes"}),
        ("--label", "drinks", "--categories", "smokes=north|south|east", "--correction", "forward"),
        "label is not protected|must name column",
    ),
    "all missing": (lambda t: spoil(t, age=np.nan, smokes=None), (), "missing"),
    "no rows": (lambda t: t[:0], (), "row"),
    "checkpoint without retrain": (lambda t: t, ("--checkpoint", "x"), "--method retrain"),
    "wrong ending": (lambda t: t, ("--out", "x.docx"), "must end in"),
    "no folder": (lambda t: t, ("--out", "no/such/folder/x.json"), "folder that exists"),
    "bad share": (lambda t: t, ("--test-share", "1.5"), "between 0 and 1"),
    "bad penalty": (lambda t: t, ("--regularisation", "0"), "greater than 0"),
    "bad limit": (lambda t: t, ("--max-loss-increase", "nan"), "finite"),
    "no such file": (None, (), "a file that exists"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_input_is_one_clear_line_and_exit_code_2(table, tmp_path, capsys, case):
    change, arguments, words = BAD[case]
    path = tmp_path / "survey.csv"
    if change is not None:
        spoiled = change(table.copy())
        spoiled.to_csv(path, index=False)
    before = sorted(tmp_path.iterdir())
    code = run(path, *DECLARED, *arguments)
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1, shown.err
    assert re.search(words, shown.err), shown.err
    assert SECRET not in shown.err
    assert "Traceback" not in shown.err
    assert sorted(tmp_path.iterdir()) == before


def test_an_unseen_category_in_the_test_file_is_counted_not_quoted(table, file, tmp_path, capsys):
    test = tmp_path / "test.csv"
    table[:50].assign(region=SECRET).to_csv(test, index=False)
    assert run(file, *DECLARED, "--test", test) == 2
    shown = capsys.readouterr()
    assert "region" in shown.err
    assert SECRET not in shown.err
    assert len(shown.err.strip().splitlines()) == 1


def test_a_killed_retraining_resumes_from_its_checkpoint(file, tmp_path, capsys):
    """A real process, really interrupted in the middle of its work."""
    checkpoint, out = tmp_path / "runs.jsonl", tmp_path / "result.json"
    command = [
        *(sys.executable, "-m", "epsilens", "whatif", str(file), *DECLARED),
        *("--method", "retrain", "--repeats", "4000", "--checkpoint", str(checkpoint)),
        *("--epsilon", "0.1:10:20"),
        *("--out", str(out)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        if checkpoint.exists() and checkpoint.read_text().count("\n") > 1:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=180)
    assert process.returncode == 130
    assert error.strip().splitlines()[-1].startswith("Interrupted")
    assert "Traceback" not in error
    assert not out.exists()
    kept = checkpoint.read_text().count("\n") - 1
    assert 0 < kept < 80_000
    few = ["5" if word == "4000" else word for word in command[3:]]
    assert main(few) == 0, capsys.readouterr().err
    document = load_document(out)
    assert {cell.method for cell in document.cells} == {"retrain"}
    assert checkpoint.read_text().count("\n") - 1 >= kept


def test_help_has_an_example(capsys):
    assert run("--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Example: epsilens whatif survey.csv --label smokes" in text


@pytest.mark.parametrize("solver", ["cholesky", "cg", "stochastic"])
def test_the_solver_of_first_order_is_chosen(file, capsys, solver):
    asked = ("--method", "influence", "--inverse-hessian", solver, "--json")
    assert run(file, *DECLARED, *asked) == 0
    settings = load_document(capsys.readouterr().out).provenance.settings["inverse_hessian"]
    assert settings["solver"] == solver
    assert settings["converged"]


@pytest.mark.parametrize("method", ["auto", "exact", "retrain"])
def test_a_solver_for_another_rung_is_one_line(file, capsys, method):
    assert run(file, *DECLARED, "--method", method, "--inverse-hessian", "cg") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "`--inverse-hessian` belongs to `--method influence` or `paper`, got" in error
    assert method in error


def test_a_model_of_ones_own_is_found_in_the_current_folder(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder stays, for other processes
    (tmp_path / "model_beside_the_data.py").write_text(
        "from sklearn.compose import make_column_transformer\n"
        "from sklearn.naive_bayes import GaussianNB\n"
        "from sklearn.pipeline import make_pipeline\n\n\n"
        "def bayes():\n"
        "    return make_pipeline(make_column_transformer(('passthrough', ['age'])), GaussianNB())\n",
        encoding="utf-8",
    )
    own = ("--model", "model_beside_the_data:bayes", "--repeats", 2, "--json")
    assert run(file, *DECLARED, *own) == 0
    assert {cell.method for cell in load_document(capsys.readouterr().out).cells} == {"curve"}
    sys.modules.pop("model_beside_the_data")
