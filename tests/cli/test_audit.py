# SPDX-License-Identifier: Apache-2.0
"""`epsilens audit one-run`: exit codes, the document, words and files."""

from __future__ import annotations

import json

import pytest

from epsilens.cli import main
from epsilens.document import load_document

SMALL = ("--canaries", "200", "--dimension", "300", "--seed", "1")


def run(*arguments):
    return main(["audit", "one-run", *map(str, arguments)])


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_release.py").write_text(
        "import numpy as np\n"
        "def forgets_the_noise(rows):\n"
        "    return rows.sum(axis=0)\n"
        "class Noisy:\n"
        "    def __call__(self, rows):\n"
        "        return rows.sum(axis=0) + np.random.default_rng(0).normal(0, 50, rows.shape[1])\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_json_is_the_document_alone(capsys):
    assert (
        run("--mechanism", "gaussian-sum", "--epsilon", 4, "--delta", 1e-6, *SMALL, "--json") == 0
    )
    shown = capsys.readouterr()
    assert shown.err == ""
    document = load_document(shown.out)
    assert document.kind == "audit"
    assert (document.claimed_epsilon, document.claimed_delta) == (4.0, 1e-6)
    assert document.true_epsilon == pytest.approx(4.0)
    assert document.n_canaries == 200
    assert document.provenance.seed == 1
    content = json.loads(shown.out)
    assert content["verdict"].startswith("no evidence of a breach")
    assert content["selection"] == "path"


def test_words_name_bound_claim_and_truth(capsys):
    assert run("--mechanism", "rr", "--epsilon", 1, "--canaries", 400, "--seed", 1) == 0
    shown = capsys.readouterr().out
    for word in ("ε is at least", "claimed ε", "theoretical ε", "95 %", "No evidence of a breach"):
        assert word in shown


def test_a_broken_claim_is_exit_3(own, capsys):
    code = run("--mechanism", "my_release:forgets_the_noise", "--epsilon", 1, *SMALL, "--quiet")
    assert code == 3
    assert capsys.readouterr().out.startswith("The claim is broken: with 95 % confidence")


def test_a_class_of_ones_own_and_noise_that_is_not_fresh(own, capsys):
    assert run("--mechanism", "my_release:Noisy", "--epsilon", 1, *SMALL, "--quiet") == 0
    arguments = ("--mechanism", "my_release:Noisy", "--epsilon", 1, *SMALL, "--quiet")
    assert run(*arguments, "--reference-run") == 3
    capsys.readouterr()


@pytest.mark.parametrize("ending", ["json", "svg"])
def test_out_writes_what_its_ending_says(tmp_path, ending, capsys):
    out = tmp_path / f"audit.{ending}"
    assert (
        run("--mechanism", "rr", "--epsilon", 1, "--canaries", 300, "--seed", 1, "--out", out) == 0
    )
    assert f"Written: {out}" in capsys.readouterr().out.replace("\n", "")
    text = out.read_text(encoding="utf-8")
    assert ("<svg" in text) if ending == "svg" else (json.loads(text)["kind"] == "audit")


def test_as_printed_warns_and_gives_no_verdict(capsys):
    arguments = ("--mechanism", "gaussian-sum", "--epsilon", 4, *SMALL)
    assert run(*arguments, "--selection", "as_printed", "--quiet") == 0
    shown = capsys.readouterr()
    assert "no confidence bound" in shown.out.replace("\n", " ")
    assert "not a confidence bound" in shown.err


@pytest.mark.parametrize(
    ("method", "score", "directions"),
    [
        ("pure", "inner-product", "random"),
        ("f-dp", "centred", "random"),
        ("independent-gdp", "mmse", "one-hot"),
    ],
)
def test_methods_and_scores(method, score, directions, capsys):
    arguments = ("--mechanism", "gaussian-sum", "--epsilon", 8, "--canaries", 200, "--seed", 1)
    options = ("--method", method, "--score", score, "--directions", directions)
    assert run(*arguments, *options, "--dimension", 300, "--noise", "printed", "--json") == 0
    assert load_document(capsys.readouterr().out).method == method


def test_the_private_ridge_model(capsys):
    assert run("--mechanism", "private-ridge", "--epsilon", 4, "--canaries", 30, "--json") == 0
    assert load_document(capsys.readouterr().out).mechanism == "private-ridge"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mechanism", "rr", "--epsilon", 1, "--method", "f-dp", "--delta", 1e-6), "--method"),
        (("--mechanism", "rr", "--epsilon", -1), "`--epsilon` must be at least 0"),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--delta", 0), "`--delta`"),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--confidence", 2), "`--confidence`"),
        (("--mechanism", "nonsense", "--epsilon", 1), "MODULE:CALLABLE"),
        (("--mechanism", "my_release:number", "--epsilon", 1), "must name a callable"),
        (("--mechanism", "dpsgd", "--epsilon", 1), "`--mechanism` 'dpsgd'"),
        (("--mechanism", "rr", "--epsilon", 1, "--selection", "best"), "`--selection`"),
        (("--mechanism", "rr", "--epsilon", 1, "--out", "audit.txt"), "`--out` must end in"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, words, own, capsys):
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert words in shown.err


def test_help_has_an_example_and_names_the_exit_code(capsys):
    assert main(["audit", "one-run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "epsilens audit one-run --mechanism" in " ".join(shown.split())
    assert "Exit code 3" in shown
