# SPDX-License-Identifier: Apache-2.0
"""`epsilens risk`: exit codes, what is printed, what is written, what is refused."""

from __future__ import annotations

import json
import math
import re
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main
from epsilens.document import load_document
from epsilens.risk import models_needed

SECRET = "unmistakable-secret"
FEW = ("--shadow-models", "48")
"""Fewer would leave records without enough models to be judged by, which is warned of."""
BASE = ("--label", "smokes", "--protect", "smokes", "--epsilon", "0.5,4", *FEW)
DECLARED = (*BASE, "--categories", "smokes=no|yes")
NOISY = (
    *("--label", "smokes", "--mechanism", "dpsgd", "--delta", "1e-5", "--epsilon", "1,8"),
    *("--epochs", "2", *FEW),
)


def run(*arguments):
    return main(["risk", *map(str, arguments)])


def test_json_is_the_document_alone(file, capsys):
    assert run(file, *DECLARED, "--json", "--seed", 3) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    document = load_document(shown.out)
    assert document.kind == "risk"
    assert [cell.epsilon for cell in document.cells] == [0.5, 4.0]
    assert {cell.mechanism for cell in document.cells} == {"rr"}
    assert document.protect == ["smokes"]
    assert (document.n_models, document.n_targets) == (48, 675)
    assert document.provenance.seed == 3
    for cell in document.cells:
        # Nine in ten releases lie in the range, and so does the mean of a smooth distribution.
        assert cell.answer_inference_low < cell.answer_inference_rate < cell.answer_inference_high
        assert cell.answer_inference_rate < cell.answer_inference_ceiling
        assert cell.asr_ceiling is None
        assert cell.answer_inference_baseline < cell.answer_inference_baseline_high
        assert cell.advantage == pytest.approx(math.tanh(cell.epsilon / 2))
        assert cell.tpr_ceiling_at_fpr_0_01 == pytest.approx(
            min(0.01 * math.exp(cell.epsilon), 0.01 + cell.advantage)
        )
    assert document.number_types["answer_inference_ceiling"] == "proven given b"
    assert document.number_types["tpr_ceiling_at_fpr_0_01"] == "proven"


def test_the_same_seed_gives_the_same_numbers(file, capsys):
    found = []
    for seed in (1, 1, 2):
        assert run(file, *DECLARED, "--json", "--seed", seed) == 0
        found.append(load_document(capsys.readouterr().out).cells)
    assert found[0] == found[1] != found[2]


def test_words_lead_with_the_answer_and_say_proven_and_measured(file, capsys):
    assert run(file, *DECLARED) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the holder of the randomised answers guesses the answer “smokes” of" in text
    assert "A reader of the published model and all other columns guesses" in text
    assert "Of people outside the training data the attack guesses" in text
    assert re.search(
        r"From everybody else's data an attacker guesses up to [0-9.]+% of the answers; with the person's "
        r"own randomised answer at most [0-9.]+% \(proven given that baseline\)",
        text,
    )
    assert "become guessable (advantage, proven)" in text
    assert "The holder of the randomised answers recognises an answer of at most" in text
    assert "This is not about membership." in text
    assert "Membership of the training data" in text
    assert "choosing ε by them, leaks" in text


def test_groups_have_a_table_of_their_own(file, capsys):
    assert run(file, *DECLARED, "--group", "young=age < 45") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "How often an attacker guesses the answers of each group" in text
    assert (
        run(file, *DECLARED, "--group", "young=age < 45", "--correction", "forward", "--json") == 0
    )
    document = load_document(capsys.readouterr().out)
    assert {cell.group for cell in document.group_cells} == {"young"}
    assert document.provenance.settings["correction"] == "forward"


def test_membership_is_attacked_by_group(file, capsys):
    groups = ("--group", "young=age < 45", "--group", "tiny=age < 19")
    assert run(file, *NOISY, *groups, "--json") == 0
    document = load_document(capsys.readouterr().out)
    assert [cell.group for cell in document.group_cells] == ["young", "young"]
    assert all(0.3 < cell.asr_mean < 0.9 for cell in document.group_cells)
    assert "group 'tiny' has too few records" in " ".join(document.warnings)
    assert run(file, *NOISY, *groups) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "How often an attacker recognises members in each group" in text


def test_what_models_can_detect_is_said_before_they_are_trained(file, capsys):
    assert run(file, *DECLARED, "--out", file.parent / "kept.json") == 0
    shown = capsys.readouterr()
    said = "With 80% probability 48 shadow models find a mean success rate of 50.70% or more"
    assert shown.err.startswith(said)
    notes = load_document(file.parent / "kept.json").notes
    assert [note.text.startswith(said) for note in notes if note.code == "attack-power"] == [True]
    assert run(file, *DECLARED, "--quiet") == 0
    assert "probability" not in capsys.readouterr().err


def test_an_effect_chooses_the_number_of_models(file, capsys):
    asked = ("--label", "smokes", "--epsilon", "4", "--categories", "smokes=no|yes")
    assert run(file, *asked, "--detect", 0.009, "--json") == 0
    document = load_document(capsys.readouterr().out)
    assert document.n_models == models_needed(0.009, document.n_targets) == 30
    assert document.provenance.settings["detect"] == 0.009
    refused = (*asked, "--detect", 0.01, *FEW)
    assert run(file, *refused) == 2
    said = capsys.readouterr().err
    assert "`--detect` chooses the number of models, and `--shadow-models` names it" in said
    assert run(file, *asked, "--detect", 1e-7) == 2
    assert "an effect that 100,000 models can find" in capsys.readouterr().err


def test_quiet_prints_sentences_only(file, capsys):
    assert run(file, *DECLARED, "--quiet") == 0
    text = capsys.readouterr().out
    assert text.startswith("At ε = 0.5 the holder of the randomised answers")
    assert "─" not in text  # no table
    assert "ceiling (proven)" not in text


def test_noisy_training_has_its_own_numbers(file, capsys):
    assert run(file, *NOISY, "--json", "--learning-rate", 0.3, "--clip", 2, "--batch", 32) == 0
    shown = capsys.readouterr()
    document = load_document(shown.out)
    assert document.protect == []
    settings = document.provenance.settings
    assert (settings["clip"], settings["batch"], settings["learning_rate"]) == (2.0, 32, 0.3)
    for cell in document.cells:
        assert (cell.mechanism, cell.delta) == ("dpsgd", 1e-5)
        assert cell.answer_inference_rate is None
        assert 0.5 < cell.asr_ceiling < 1
        # Of membership, as the measured rate is; the advantage is about a replaced record.
        assert 0.01 < cell.tpr_ceiling_at_fpr_0_01 <= 0.01 + 2 * cell.asr_ceiling - 1
        assert 0.001 < cell.tpr_ceiling_at_fpr_0_001 < cell.tpr_ceiling_at_fpr_0_01
        assert 2 * cell.asr_ceiling - 1 < cell.advantage < 1
        assert cell.noise_multiplier > 0
    assert document.cells[0].asr_ceiling < document.cells[1].asr_ceiling


def test_noisy_training_with_a_hidden_layer_in_words(file, capsys):
    assert run(file, *NOISY, "--hidden", "6,4", "--online") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "At ε = 1, δ = 1e-5, no attack can tell members" in text
    assert "the features are scaled by what the raw data say" in text
    assert "With one false alarm in a hundred, any attacker finds at most" in text


def test_a_feared_rate_that_is_met_or_not(file, capsys):
    assert run(file, *DECLARED, "--max-attack-rate", 0.99, "--quiet") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Up to ε = 4 no attack on the answer can exceed 99% (proven given its")
    assert "At ε = 4 the holder of the randomised answers guesses" in text
    assert run(file, *DECLARED, "--max-attack-rate", 0.5, "--quiet") == 3
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("No ε of the grid keeps guesses of the answer within 50%")
    # The attack that was tried stays below what the ceiling allows at ε = 4, and decides on request.
    assert run(file, *DECLARED, "--max-attack-rate", 0.9, "--quiet", "--measured") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Up to ε = 4 the attack that was tried stays within 90% (measured")
    assert run(file, *NOISY, "--max-attack-rate", 0.99, "--json") == 0
    assert run(file, *NOISY, "--max-attack-rate", 0.501, "--json") == 3


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet", "png", "svg"])
def test_out_writes_what_the_ending_says(file, tmp_path, capsys, suffix):
    out = tmp_path / f"risk.{suffix}"
    assert run(file, *DECLARED, "--out", out) == 0
    if suffix == "json":
        assert load_document(out).kind == "risk"
    elif suffix in {"csv", "parquet"}:
        frame = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
        assert frame["epsilon"].tolist() == [0.5, 4.0]
        assert {"answer_inference_rate", "asr_max_null_q95"} <= set(frame.columns)
    else:
        assert out.stat().st_size > 1000
    assert f"Written: {out}".replace("\n", "") in capsys.readouterr().out.replace("\n", "")


def test_exposed_records_are_a_private_file_with_rows_of_the_data(table, tmp_path, capsys):
    path, exposed = tmp_path / "survey.csv", tmp_path / "exposed.csv"
    spoiled = table.copy()
    spoiled.loc[[3, 7], "age"] = np.nan
    spoiled.to_csv(path, index=False)
    exposed.write_text("old")
    exposed.chmod(0o644)
    assert run(path, *DECLARED, "--exposed", exposed, "--json") == 0
    shown = capsys.readouterr()
    load_document(shown.out)
    assert "which single records can be recognised" in shown.err
    assert stat.S_IMODE(exposed.stat().st_mode) == 0o600
    frame = pd.read_csv(exposed)
    assert frame.columns.tolist() == ["row", "asr"]
    assert len(frame) == 100
    assert frame["asr"].is_monotonic_decreasing
    # Rows are those of the file: some lie beyond the number of training rows, none was dropped.
    assert frame["row"].is_unique
    assert not {3, 7} & set(frame["row"])
    assert frame["row"].max() > 674


def test_anonymous_shows_no_name(file, tmp_path, capsys):
    out = tmp_path / "risk.svg"
    assert run(file, *BASE, "--anonymous", "--out", out) == 0
    shown = capsys.readouterr()
    assert "smokes" not in shown.out + shown.err + out.read_text(encoding="utf-8")
    assert "“column 1”" in shown.out
    assert run(file, *BASE, "--anonymous", "--json") == 0
    shown = capsys.readouterr()
    assert "smokes" not in shown.out + shown.err
    assert json.loads(shown.out)["protect"] == ["column 1"]


def test_an_observed_domain_is_warned_of_once(file, capsys):
    assert run(file, *BASE) == 0
    shown = capsys.readouterr()
    assert shown.err.count("observed values") == 1
    assert "observed values" not in shown.out


def test_features_with_their_own_budgets(file, capsys):
    domains = ("--categories", "smokes=no|yes", "--categories", "region=east|north|south")
    asked = ("--protect", "region,smokes", "--epsilon", "region=1,smokes=2", *domains, *FEW)
    assert run(file, "--label", "smokes", *asked, "--json") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    (cell,) = load_document(shown.out).cells
    assert (cell.epsilon, cell.record_epsilon) == (None, 3.0)


def test_infinity_is_allowed_and_written_as_text(file, tmp_path, capsys):
    out = tmp_path / "risk.svg"
    asked = ("--label", "smokes", "--epsilon", "1,inf", *FEW, "--positive", "yes", "--out", out)
    assert run(file, *asked, "--json") == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert cells[1]["epsilon"] == "inf"
    assert cells[1]["answer_inference_ceiling"] == 1.0
    assert "outside the axis" in out.read_text(encoding="utf-8")


def test_a_checkpoint_gives_the_same_numbers_and_belongs_to_one_run(file, tmp_path, capsys):
    folder = tmp_path / "models"
    found = []
    for _ in range(2):
        assert run(file, *DECLARED, "--checkpoint", folder, "--json") == 0
        found.append(load_document(capsys.readouterr().out).cells)
    assert found[0] == found[1]
    assert any(folder.iterdir())
    assert run(file, *DECLARED, "--checkpoint", folder, "--seed", 5) == 2
    assert "belongs to another run" in capsys.readouterr().err


def test_another_table_is_compared(table, file, tmp_path, capsys):
    other, out = tmp_path / "masked.csv", tmp_path / "risk.json"
    table.drop(columns="region").to_csv(other, index=False)
    folder = tmp_path / "models"
    asked = (*DECLARED, "--compare", other, "--out", out, "--checkpoint", folder)
    assert run(file, *asked) == 0
    found = load_document(out).equivalent_epsilon
    assert [item.epsilon for item in found] == [0.5, 4.0]
    # The floor is far above the leak of so small a model: nothing can be told apart.
    assert [(item.low, item.high) for item in found] == [(0.5, 4.0), (0.5, 4.0)]
    assert "of the other table as much as" in " ".join(capsys.readouterr().out.split())
    assert {path.name for path in tmp_path.iterdir()} >= {"models", "models-compare"}


def test_standard_input(file):
    with file.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "epsilens", "risk", "-", *DECLARED, "--json"],
            stdin=stream,
            capture_output=True,
            check=True,
        )
    assert load_document(done.stdout.decode()).kind == "risk"


def test_a_delta_that_protects_nobody_is_warned_of(file, capsys):
    # One budget: the warning is about delta and the number of records alone.
    asked = [{"1e-5": "0.01", "1,8": "8"}.get(option, option) for option in NOISY]
    assert run(file, *asked, "--json") == 0
    assert "not below 1/675" in capsys.readouterr().err


def spoil(table, **changes):
    return table.assign(**changes)


BAD = {
    "unknown label": (lambda t: t, ("--label", "smoke"), "Did you mean 'smokes'"),
    "a number to protect": (lambda t: t, ("--protect", "age"), "--bins age=LOW:HIGH:10"),
    "a number to predict": (lambda t: t, ("--label", "age", "--protect", "region"), "age"),
    "epsilon zero": (lambda t: t, ("--epsilon", "0"), "greater than 0"),
    "epsilon negative": (lambda t: t, ("--epsilon=-1",), "greater than 0"),
    "epsilon nan": (lambda t: t, ("--epsilon", "nan"), "epsilon"),
    "epsilon minus infinity": (lambda t: t, ("--epsilon=-inf",), "greater than 0"),
    "epsilon junk": (lambda t: t, ("--epsilon", "0.1:10"), "START:STOP:COUNT"),
    "a chart of infinity alone": (
        lambda t: t,
        ("--epsilon", "inf", "--out", "no-such-chart.png"),
        "between 0 and infinity",
    ),
    "epsilon of another column": (lambda t: t, ("--epsilon", "age=1"), "age"),
    "one class": (lambda t: spoil(t, smokes=SECRET), (), "one value"),
    "other classes": (
        lambda t: spoil(t, smokes=np.resize([SECRET, "a", "b"], len(t))),
        (),
        "3 classes",
    ),
    "all missing": (lambda t: spoil(t, age=np.nan, smokes=None), (), "missing"),
    "many missing": (lambda t: spoil(t, age=t["age"].where(t.index % 3 > 0)), (), "missing"),
    "infinite numbers": (lambda t: spoil(t, age=np.inf), (), "age"),
    "no rows": (lambda t: t[:0], (), "row"),
    "no such file": (None, (), "a file that exists"),
    "ridge": (lambda t: t, ("--model", "ridge"), "`--model` must be logistic"),
    "few models": (lambda t: t, ("--shadow-models", "3"), "shadow-models"),
    "delta of rr": (lambda t: t, ("--delta", "1e-5"), "`--delta` belongs to `--mechanism dpsgd`"),
    "clip of rr": (lambda t: t, ("--clip", "1"), "`--clip` belongs to `--mechanism dpsgd`"),
    "learning rate of rr": (lambda t: t, ("--learning-rate", "1"), "`--learning-rate` belongs"),
    "hidden of rr": (lambda t: t, ("--hidden", "8"), "`--hidden` belongs"),
    "protect of dpsgd": (
        lambda t: t,
        ("--mechanism", "dpsgd", "--delta", "1e-5"),
        "`--protect` belongs to `--mechanism rr`",
    ),
    "no such other table": (lambda t: t, ("--compare", "no-such.csv"), "a file that exists"),
    "rate in per cent": (lambda t: t, ("--max-attack-rate", "80"), "`--max-attack-rate` must be"),
    "rate nan": (lambda t: t, ("--max-attack-rate", "nan"), "`--max-attack-rate` must be"),
    "exposed and anonymous": (
        lambda t: t,
        ("--exposed", "exposed.csv", "--anonymous"),
        "`--anonymous` cannot be used",
    ),
    "exposed elsewhere": (lambda t: t, ("--exposed", "x.json"), "`--exposed` must end in .csv"),
    "wrong ending": (lambda t: t, ("--out", "x.html"), "must end in"),
    "no folder": (lambda t: t, ("--out", "no/such/folder/x.json"), "folder that exists"),
    "bad share": (lambda t: t, ("--test-share", "1.5"), "between 0 and 1"),
    "bad penalty": (lambda t: t, ("--regularisation", "0"), "greater than 0"),
    "unknown mechanism": (lambda t: t, ("--mechanism", "laplace"), "rr"),
}


def refused(arguments, words, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    code = run(*arguments)
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    # What the models can detect is said before they are trained.
    told = [line for line in shown.err.splitlines() if not line.startswith("With 80% probability")]
    assert len(told) == 1, shown.err
    assert re.search(words, shown.err), shown.err
    assert SECRET not in shown.err
    assert "Traceback" not in shown.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_input_is_one_clear_line_and_exit_code_2(table, tmp_path, capsys, case):
    change, arguments, words = BAD[case]
    path = tmp_path / "survey.csv"
    if change is not None:
        change(table.copy()).to_csv(path, index=False)
    refused((path, *DECLARED, *arguments), words, tmp_path, capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", "smokes=1"), "`--epsilon` of a column belongs to `--mechanism rr`"),
        (("--categories", "smokes=no|yes"), "`--categories` belongs to `--mechanism rr`"),
        (("--weight", "income"), "`--weight` belongs to `--mechanism rr`"),
        (("--delta", "0"), "--delta"),
        (("--delta", "nan"), "--delta"),
        (("--clip", "0"), "--clip"),
        (("--batch", "5000"), "--batch"),
        (("--learning-rate", "-1"), "--learning-rate"),
        (("--hidden", "8,"), "--hidden"),
        (("--hidden", "0"), "--hidden"),
        (("--epochs", "0"), "--epochs"),
    ],
)
def test_bad_noisy_training_is_one_line(file, tmp_path, capsys, arguments, words):
    refused((file, *NOISY, *arguments), words, tmp_path, capsys)


def test_noisy_training_without_delta_suggests_one(file, tmp_path, capsys):
    asked = [option for option in NOISY if option not in {"--delta", "1e-5"}]
    refused((file, *asked), "well below 1/675.*for instance 1e-4", tmp_path, capsys)


def test_an_unseen_category_in_the_test_file_is_counted_not_quoted(table, file, tmp_path, capsys):
    test = tmp_path / "test.csv"
    table[:50].assign(region=SECRET).to_csv(test, index=False)
    refused((file, *DECLARED, "--test", test), "region", tmp_path, capsys)


def test_a_constant_column_is_left_out_and_said(table, tmp_path, capsys):
    path = tmp_path / "survey.csv"
    table.assign(country="here").to_csv(path, index=False)
    assert run(path, *DECLARED) == 0
    assert "country" in capsys.readouterr().out


def test_neither_the_data_nor_the_other_result_is_overwritten(file, tmp_path, capsys):
    refused((file, *DECLARED, "--out", file), "another file than the data", tmp_path, capsys)
    same = ("--out", tmp_path / "x.csv", "--exposed", tmp_path / "x.csv")
    refused((file, *DECLARED, *same), "the list of exposed records", tmp_path, capsys)
    refused(
        (file, *DECLARED, "--exposed", file), "`--exposed` must be another file", tmp_path, capsys
    )
