# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import json

import pytest

from epsilens.cli import main
from epsilens.document import load_document

CHANGES = ("--change", "2:1.0", "--change", "0:1,3:2", "--remove", "4")


def run(file, *arguments, protect="smokes,region", epsilon=3):
    typed = ["federate", "simulate", "--data", file, "--epsilon", epsilon]
    if protect:
        typed += ["--label", "smokes", "--protect", protect]
    return main([*map(str, typed), *map(str, arguments)])


def test_json_is_the_document_alone(file, capsys):
    assert run(file, *CHANGES, "--in-process", "--json", "--seed", 3) == 0
    document = load_document(capsys.readouterr().out)
    assert document.kind == "federation"
    operations = [version.operation for version in document.versions]
    assert operations == ["train", "preview", "change", "preview", "change", "remove"]
    assert document.versions[4].sites == [0, 3]
    assert (document.engine, document.n_sites, document.provenance.seed) == ("in process", 5, 3)
    assert document.provenance.simulated
    assert document.provenance.settings["changes"] == [[2, 1.0], [0, 1.0], [3, 2.0]]
    assert {entry.total_epsilon for entry in document.ledger} == {6.0}
    assert any("taken from the data" in warning for warning in document.warnings)


def test_the_story_is_told_in_words_and_drawn(file, tmp_path, capsys):
    chart = tmp_path / "chart.svg"
    assert run(file, *CHANGES, "--in-process", "--rung", "exact", "--out", chart) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "Versions of the model",
        "Ledger",
        "Sites 0–4 trained together",
        "guarantees it ε = 1 per protected column",
        "Site 4 leaves",
        "covers the protected columns only (smokes, region)",
        "Written:",
    ):
        assert words in shown
    assert "How the shared model followed" in chart.read_text(encoding="utf-8")


def test_fedavg_label_skew_redraw_and_the_published_method(file, capsys):
    options = ["--in-process", "--json", "--algorithm", "fedavg", "--skew", "label"]
    assert run(file, *options, "--change", "1:1", "--mode", "redraw", "--limit", 20) == 0
    document = load_document(capsys.readouterr().out)
    assert document.versions[0].rounds > 20
    assert document.ledger[-1].total_epsilon == 6.0
    assert [e.total_epsilon for e in document.ledger if e.site == 1] == [6.0, 6.0, 8.0]
    typed = ["--in-process", "--json", "--change", "1:1", "--mode", "as_printed"]
    assert run(file, *typed) == 2
    assert "--i-know-it-is-not-private" in capsys.readouterr().err
    assert run(file, *typed, "--i-know-it-is-not-private") == 0
    document = load_document(capsys.readouterr().out)
    assert document.versions[-1].model_epsilon == float("inf")
    assert not document.ledger[2].private


def test_masks_and_values_between_sites_are_told_in_thirty_seconds(file, tmp_path, capsys):
    pytest.importorskip("cryptography")
    scores, typed = tmp_path / "scores.csv", ["--in-process", "--secure-aggregation"]
    typed += ["--value", "1:3", "--offer", "1:0.5", "--value-mode", "batch", "--accept"]
    out = tmp_path / "document.json"
    assert run(file, *typed, "--change", "2:1", "--scores", scores, "--out", out) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "sums over the randomised records of all sites and not those of a single one, but for the change of "
        "site 2 that changed alone",
        "All that site 1 has on offer, valued on site 3's: together worth",
        "Site 1, provider: the model and its inverse Hessian; nothing of site 3.",
        "Site 3, tester: how the model would move",
        "sums over site 1's records: weak, use items.",
        "no ε is spent",
    ):
        assert words in shown
    document = load_document(out.read_text(encoding="utf-8"))
    (found,) = document.valuations
    assert document.secure_aggregation
    assert 1 < len(found.learnt) <= 5
    assert max(map(len, found.learnt)) <= 80
    assert ("gradient and Hessian" in found.learnt[3]) == (found.accepted is not None)
    assert (found.provider, found.tester, found.mode, found.change) == (1, 3, "batch", "add")
    assert (found.accepted is not None) == (found.total > 0)
    assert [e.operation for e in document.ledger if e.site == 3] == ["train", "value"]
    head, line = scores.read_text(encoding="utf-8").splitlines()
    assert head == "provider,tester,item,score"
    assert float(line.removeprefix("1,3,0,")) == found.total


def test_a_contract_is_drafted_checked_and_used(file, tmp_path, capsys):
    contract = tmp_path / "contract.json"
    typed = ["federate", "schema", str(file), "--label", "smokes", "--protect", "smokes,age"]
    typed += ["--bins", "age=0:100:5", "--categories", "smokes=no|yes", "--out", str(contract)]
    typed += ["--scale", "income=30000:10000"]
    assert main([*typed, "--scale", "children=1:0"]) == 2
    assert "must be COL=CENTRE:SCALE" in capsys.readouterr().err
    assert main(typed) == 0
    assert "centre and scale of 'children' are taken from the data" in capsys.readouterr().err
    contract.unlink()
    typed += ["--scale", "children=1:1"]
    assert main(typed) == 0
    shown = capsys.readouterr()
    assert shown.err == ""  # every answer of a protected column was declared, and every scale
    assert "Check every answer" in shown.out
    assert main(typed) == 2
    assert "must be a new file" in capsys.readouterr().err
    found = json.loads(contract.read_text(encoding="utf-8"))
    assert found["protected"] == ["smokes", "age"]
    assert found["columns"][0]["categories"] == ["10.0", "30.0", "50.0", "70.0", "90.0"]
    options = ["--in-process", "--json", "--schema", contract]
    assert run(file, *options, "--bins", "age=0:100:5", protect=None) == 0
    assert load_document(capsys.readouterr().out).protect == ["smokes", "age"]
    for more, words in (((), "only the answers named"), (("--bins", "age=5"), "with bounds")):
        assert run(file, *options, *more, protect=None) == 2
        assert words in capsys.readouterr().err
    plain = tmp_path / "plain.json"
    main([*typed[:6], "smokes", "--out", str(plain)])
    capsys.readouterr()
    options = ["--schema", plain, "--in-process", "--json", "--sites", 3]
    assert run(file, *options, protect=None) == 0
    document = load_document(capsys.readouterr().out)
    assert document.protect == ["smokes"]
    assert run(file, *options) == 2
    assert "`--label` cannot be used with it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--change", "9:1"], "site 9 does not take part"),
        (["--change", "2:0"], "must be greater than 0"),
        (["--change", "2:-1"], "must be greater than 0"),
        (["--change", "two:1"], "must be SITE:EPSILON"),
        (["--change", "2"], "must be SITE:EPSILON"),
        (["--change", "2:1,2:1"], "site 2 once"),
        (["--change", "2:5"], "noise cannot be taken away"),
        (["--change", "2:1", "--mode", "redraw"], "site 2 would have spent epsilon = 8"),
        (["--remove", "x"], "`--remove` must be the number of a site"),
        (["--remove", "0,1,2,3,4"], "at least one site must stay"),
        (["--sites", "1000"], "1000 sites are to share"),
        (["--regularisation", "nan"], "at least 0 and finite"),
        (["--limit", "0"], "`--limit` must be greater than 0"),
        (["--out", "chart.pdf"], "must end in .json, .png, .svg"),
        (["--schema", "nowhere.json"], "`--label` cannot be used"),
        (["--secure-aggregation", "--algorithm", "fedavg"], "Use `--algorithm newton`"),
        (["--secure-aggregation", "--sites", "1"], "at least 2 sites"),
        (["--value", "1"], "must be PROVIDER:TESTER"),
        (["--value", "1:1"], "must name two sites"),
        (["--value", "1:9", "--value-mode", "batch"], "site 9 does not take part"),
        (["--value", "1:2", "--accept"], "site 1 has none"),
        (["--offer", "1:2"], "a share between 0 and 1"),
        (["--scores", "scores.json"], "`--scores` must end in .csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(file, capsys, arguments, words):
    assert run(file, "--in-process", *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert len(shown.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--without", "x"], "`--without` must be the number of a site"),
        (["apply", "--without", "x"], "`--without` must be the number of a site"),
        (["remove", "x"], "`SITE` must be the number of a site"),
        (
            ["value", "--provider", "0", "--tester", "1", "--scores", "a.json"],
            "`--scores` must end in .csv",
        ),
    ],
)
def test_the_coordinator_is_told_what_it_typed(tmp_path, capsys, arguments, words):
    assert main(["federate", *arguments, "--state", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["key", "site", "server"])
def test_a_state_that_is_a_file_is_refused(file, capsys, command):
    pytest.importorskip("flwr")
    before = file.read_bytes()
    assert main(["federate", command, "--state", str(file)]) == 2
    assert "`--state` must be a folder" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_levels_and_columns_that_cannot_be(file, capsys):
    for epsilon, protect, words in (
        (0, "smokes", "greater than 0"),
        ("1,2", "smokes", "must be one number"),
        ("smokes=1", "smokes,region", "must name each protected column once"),
        (3, "age", "--bins age=LOW:HIGH:10"),
        (3, "nobody", "'nobody'"),
        (3, None, "`--label` and `--protect` must be given"),
    ):
        assert run(file, "--in-process", epsilon=epsilon, protect=protect) == 2
        assert words in capsys.readouterr().err


def test_an_empty_table_is_refused(tmp_path, capsys):
    path = tmp_path / "empty.csv"
    path.write_text("age,smokes\n")
    assert run(path, "--in-process", protect="smokes") == 2
    assert capsys.readouterr().err.startswith("Error: ")


def test_without_flower_the_extra_is_named(file, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "flwr" else found(name)
    )
    assert run(file) == 2
    assert 'pip install "epsilens[federated]"' in capsys.readouterr().err
    assert run(file, "--in-process", "--quiet") == 0


def test_names_are_left_out_on_request(file, capsys):
    assert run(file, "--in-process", "--json", "--anonymous") == 0
    shown = capsys.readouterr()
    assert "smokes" not in shown.out + shown.err
    assert "region" not in shown.out + shown.err
