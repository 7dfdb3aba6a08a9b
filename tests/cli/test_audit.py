# SPDX-License-Identifier: Apache-2.0
"""`epsilens audit one-run`: exit codes, the document, words and files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
        "def clips(rows):\n"
        "    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)\n"
        "    return does_not_clip(rows)\n"
        "def does_not_clip(rows):\n"
        "    # Noise for epsilon 1 at delta 1e-6, if rows are no longer than 1.\n"
        "    return rows.sum(axis=0) + np.random.default_rng(7).normal(0, 4.23, rows.shape[1])\n"
        "class OwnCanaries:\n"
        "    name, claimed_epsilon, claimed_delta, leakage = 'own', 1.0, 1e-6, 'unknown'\n"
        "    true_epsilon = canaries = score = __call__ = lambda *given: None\n"
        "own = OwnCanaries()\n"
    )
    (tmp_path / "bad_release.py").write_text(
        "import ctypes, os, signal, sys\n"
        "import numpy as np\n"
        "print('said while loading')\n"
        "def raises(rows):\n"
        "    raise ValueError('patient 17')\n"
        "def exits(rows):\n"
        "    sys.exit(5)\n"
        "def nothing(rows):\n"
        "    return None\n"
        "def not_a_number(rows):\n"
        "    return np.full(rows.shape[1], np.nan)\n"
        "def infinite(rows):\n"
        "    return np.full(rows.shape[1], np.inf)\n"
        "def text(rows):\n"
        "    return 'patient 17'\n"
        "def three(rows):\n"
        "    return np.zeros(3)\n"
        "def interrupted(rows):\n"
        "    raise KeyboardInterrupt\n"
        "def terminated(rows):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "def talks(rows):\n"
        "    print('said in Python')\n"
        "    os.write(1, b'said to the file\\n')\n"
        "    os.system('echo said by another program')\n"
        "    ctypes.CDLL(None).puts(b'said in C')\n"
        "    return rows.sum(axis=0) + np.random.default_rng(0).normal(0, 50, rows.shape[1])\n"
    )
    (tmp_path / "syntax_release.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("my_release", "bad_release", "syntax_release"):
        sys.modules.pop(name, None)


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


def test_longer_canaries_find_rows_that_are_not_clipped(own, capsys):
    settings = ("--epsilon", 1, *SMALL, "--quiet")
    for name, norm, code in (
        ("does_not_clip", None, 0),
        ("does_not_clip", 10, 3),
        ("clips", 10, 0),
    ):
        longer = () if norm is None else ("--norm", norm)
        assert run("--mechanism", f"my_release:{name}", *settings, *longer) == code
    capsys.readouterr()
    one_hot = ("--directions", "one-hot", "--norm", 10)
    assert run("--mechanism", "my_release:does_not_clip", *settings, *one_hot) == 3


def test_no_noise_is_caught_at_every_confidence(own, capsys):
    arguments = ("--mechanism", "my_release:forgets_the_noise", "--epsilon", 1, "--seed", 1)
    assert run(*arguments, "--confidence", 0.9999, "--json") == 3
    document = load_document(capsys.readouterr().out)
    assert document.epsilon_lower_bound == pytest.approx(4.5, abs=0.1)
    assert "starts at ε = 2.31" in document.conditions[-1]


def test_a_false_alarm_is_called_one(capsys):
    # Seed 16: a ready-made and honest mechanism in bad luck, as in one seed of twenty.
    arguments = ("--mechanism", "rr", "--epsilon", 1, "--canaries", 400, "--quiet")
    assert run(*arguments, "--seed", 16) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "false alarm, one of the at most 5 in 100 audits that err" in shown


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


def test_dp_sgd(capsys):
    arguments = ("--mechanism", "dpsgd", "--epsilon", 4, "--delta", 1e-5, "--seed", 0, "--json")
    for score in ("auto", "inner-product"):
        assert run(*arguments, "--score", score) == 0
        document = load_document(capsys.readouterr().out)
        assert document.mechanism == "dpsgd"
        assert 3.98 < document.true_epsilon <= 4.0
        assert 0.5 < document.epsilon_lower_bound < 4.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mechanism", "rr", "--epsilon", 1, "--method", "f-dp", "--delta", 1e-6), "--method"),
        (("--mechanism", "rr", "--epsilon", -1), "`--epsilon` must be greater than 0"),
        (("--mechanism", "rr", "--epsilon", 0), "`--epsilon` must be greater than 0"),
        (("--mechanism", "rr", "--epsilon", "inf"), "`--epsilon` must be greater than 0 and at"),
        (("--mechanism", "gaussian-sum", "--epsilon", "nan"), "`--epsilon` must be greater"),
        (("--mechanism", "my_release:Noisy", "--epsilon", 1e300), "`--epsilon` must be greater"),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--delta", 0), "Use for instance 1e-6"),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--delta", 1), "`--delta` must be great"),
        (("--mechanism", "rr", "--epsilon", 1, "--delta", "nan"), "`--delta` must be at least 0"),
        (("--mechanism", "rr", "--epsilon", 1, "--canaries", 1), "'--canaries'"),
        (("--mechanism", "rr", "--epsilon", 1, "--canaries", 10**12), "must fit into memory"),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--canaries", 10**9), "must fit into mem"),
        (("--mechanism", "private-ridge", "--epsilon", 1, "--dimension", 9), "`--dimension` must"),
        (("--mechanism", "rr", "--epsilon", 1, "--method", "guess"), "'--method'"),
        (
            ("--mechanism", "rr", "--epsilon", 1, "--reference-run"),
            "`--reference-run` must be left",
        ),
        (("--mechanism", "rr", "--epsilon", 1, "--dimension", 9), "`--dimension` must be left out"),
        (
            ("--mechanism", "rr", "--epsilon", 1, "--noise", "exact"),
            "`--noise` must be left out for",
        ),
        (
            ("--mechanism", "rr", "--epsilon", 1, "--directions", "random"),
            "`--directions` must be l",
        ),
        (("--mechanism", "rr", "--epsilon", 1, "--norm", 10), "`--norm` must be left out for rr"),
        (("--mechanism", "rr", "--epsilon", 1, "--score", "centred"), "`--score` must be left out"),
        (
            ("--mechanism", "gaussian-sum", "--epsilon", 1, "--norm", 10),
            "its rows are clipped to 1",
        ),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--answers", 3), "that is for rr"),
        (
            ("--mechanism", "private-ridge", "--epsilon", 1, "--noise", "printed"),
            "`--noise` must b",
        ),
        (("--mechanism", "private-ridge", "--epsilon", 1, "--score", "mmse"), "no sum of rows"),
        (
            ("--mechanism", "dpsgd", "--epsilon", 1, "--score", "mmse"),
            "`--score mmse` must be left",
        ),
        (("--mechanism", "dpsgd", "--epsilon", 1, "--score", "centred"), "no sum of rows"),
        (
            ("--mechanism", "my_release:Noisy", "--epsilon", 1, "--norm", 0),
            "`--norm` must lie between",
        ),
        (("--mechanism", "my_release:Noisy", "--epsilon", 1, "--norm", "1e40"), "for instance 10"),
        (("--mechanism", "my_release:Noisy", "--epsilon", 1, "--norm", "nan"), "for instance 10"),
        (("--mechanism", "my_release:Noisy", "--epsilon", 1, "--answers", 3), "that is for rr"),
        (("--mechanism", "my_release:Noisy", "--epsilon", 1, "--noise", "exact"), "is its own"),
        (("--mechanism", "my_release:own", "--epsilon", 1, "--norm", 2), "its own canaries"),
        (("--mechanism", "my_release:own", "--epsilon", 1, "--dimension", 2), "its own canaries"),
        (("--mechanism", "nosuch:thing", "--epsilon", 1), "there is no module 'nosuch'"),
        (("--mechanism", "syntax_release:f", "--epsilon", 1), "SyntaxError"),
        (("--mechanism", "rr", "--epsilon", 1, "--out", "nowhere/a.json"), "a folder that exists"),
        (("--mechanism", "gaussian-sum", "--epsilon", 1, "--confidence", 2), "`--confidence`"),
        (("--mechanism", "nonsense", "--epsilon", 1), "MODULE:CALLABLE"),
        (("--mechanism", "my_release:number", "--epsilon", 1), "must name a callable"),
        (
            ("--mechanism", "dpsgd", "--epsilon", 1, "--dimension", 9),
            "`--dimension` must be left out",
        ),
        (("--mechanism", "dpsgd", "--epsilon", 1e6), "`--epsilon` of DP-SGD must be at most 1000"),
        (("--mechanism", "dpsgd", "--epsilon", 1, "--delta", 0), "Use for instance 1e-6"),
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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "stopped with ValueError"),
        ("exits", "stopped with SystemExit"),
        ("nothing", "got NoneType"),
        ("not_a_number", "300 of 300 are NaN or infinite"),
        ("infinite", "300 of 300 are NaN or infinite"),
        ("text", "got str"),
        ("three", "got shape (3,)"),
    ],
)
def test_a_callable_that_fails_is_one_line_and_exit_2(name, words, own, capsys):
    out = own / "audit.json"
    arguments = ("--mechanism", f"bad_release:{name}", "--epsilon", 1, *SMALL, "--out", out)
    assert run(*arguments, "--json") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    said, line = shown.err.splitlines()
    assert said == "said while loading"
    assert words in line
    assert "patient" not in line
    assert not out.exists()


def test_ctrl_c_and_a_signal_in_a_callable_end_the_command(own, capsys):
    assert run("--mechanism", "bad_release:interrupted", "--epsilon", 1, *SMALL) == 130
    assert run("--mechanism", "bad_release:terminated", "--epsilon", 1, *SMALL) == 143
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "nothing half-written" in shown.err


def test_what_a_callable_prints_stays_out_of_the_document(own):
    # In a process of its own, with the folder of the module as the current one.
    arguments = ("--mechanism", "bad_release:talks", "--epsilon", "1", *SMALL, "--json")
    program = "import sys; from epsilens.cli import main; sys.path.remove(''); sys.exit(main())"
    elsewhere = [folder for folder in sys.path if folder not in {"", str(own)}]
    where = {
        "cwd": own,
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(elsewhere)},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "encoding": "utf-8",
    }
    command = [sys.executable, "-c", program, "audit", "one-run", *arguments]
    done = subprocess.run(command, check=False, **where)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "audit"
    deaf = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    without = subprocess.run(deaf, check=False, **{**where, "stderr": None})
    assert json.loads(without.stdout)["kind"] == "audit"
    for words in ("while loading", "in Python", "to the file", "by another program", "in C"):
        assert f"said {words}" in done.stderr


@pytest.mark.parametrize("mechanism", ["gaussian-sum", "rr", "private-ridge", "dpsgd"])
def test_a_seed_repeats_the_document(mechanism, capsys):
    arguments = ("--mechanism", mechanism, "--epsilon", 20, "--canaries", 60, "--json")
    documents = []
    for seed in (5, 5):
        assert run(*arguments, "--seed", seed) in {0, 3}
        documents.append(json.loads(capsys.readouterr().out))
        documents[-1]["provenance"].pop("seconds")
    assert documents[0] == documents[1]
    assert documents[0]["provenance"]["simulated"]


def test_help_has_an_example_and_names_the_exit_code(capsys):
    assert main(["audit", "one-run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "epsilens audit one-run --mechanism" in " ".join(shown.split())
    words = " ".join(shown.split())
    assert "Exit code 3" in words
    assert "by bad luck in at most 5 of 100 audits, or as many as --confidence leaves" in words
    assert "--norm" in words
