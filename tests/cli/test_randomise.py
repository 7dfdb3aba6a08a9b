# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epsilens.cli import main
from epsilens.document import ReleaseDocument, load_document

SECRET = "unmistakable-secret"


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """200 people; spellings, marks and quotes that must survive in unprotected columns."""
    random = np.random.default_rng(0)
    lines = ["id,smokes,drinks,score,note"]
    for person in random.permutation(200):
        smokes, drinks = random.choice(["yes", "no", "no"]), random.integers(4)
        note = ("?", '"a, b"', "NA", "", "007")[person % 5]
        lines.append(f"{person % 10:03d},{smokes},{drinks},{person / 10:.2f},{note}")
    file = tmp_path / "survey.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def run(*arguments: object) -> int:
    return main(["randomise", *map(str, arguments)])


def spelled(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, na_filter=False)


def by_score(file: Path) -> pd.DataFrame:
    return spelled(file).sort_values("score", ignore_index=True)


def test_release_and_receipt(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    code = run(
        *(survey, "--protect", "smokes", "--epsilon", 1, "--out", out),
        *("--categories", "smokes=no|yes"),
    )
    shown = capsys.readouterr()
    assert (code, shown.err) == (0, "")
    assert "200 records released by k-ary randomised response, in random order." in shown.out
    assert "ε = 1" in shown.out
    assert "4 other columns are released unchanged and not protected" in shown.out

    assert spelled(out)["id"].tolist() != spelled(survey)["id"].tolist()
    before, after = by_score(survey), by_score(out)
    assert list(after.columns) == list(before.columns)
    pd.testing.assert_frame_equal(after.drop(columns="smokes"), before.drop(columns="smokes"))
    assert set(after["smokes"]) == {"no", "yes"}
    assert (after["smokes"] != before["smokes"]).any()

    receipt = load_document(tmp_path / "released.csv.receipt.json")
    assert isinstance(receipt, ReleaseDocument)
    assert receipt.columns == ["smokes"]
    assert receipt.epsilon == {"smokes": 1.0}
    assert (receipt.record_epsilon, receipt.rows, receipt.simulated) == (1.0, 200, False)
    assert receipt.provenance.seed is None
    assert receipt.provenance.settings["n_categories"] == {"smokes": 2}
    assert receipt.provenance.settings["order"] == "shuffled"
    assert receipt.provenance.seconds is None
    assert receipt.number_types["epsilon"] == "proven"
    assert any("not protected" in warning for warning in receipt.warnings)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".epsilens-ledger.sqlite",
        "released.csv",
        "released.csv.receipt.json",
        "survey.csv",
    ]


def test_json_is_alone_on_standard_output(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.parquet"
    assert run(survey, "--protect", "smokes", "--epsilon", 2, "--out", out, "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == json.loads(
        (tmp_path / "released.parquet.receipt.json").read_text()
    )
    # The observed domain leaks: one line, on standard error.
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("Warning: The possible answers of smokes were taken from the data")


def test_quiet_says_nothing(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        *(survey, "--protect=smokes", "--epsilon=1", "--out", tmp_path / "r.csv", "--quiet"),
        "--categories=smokes=no|yes",
    )
    assert (code, *capsys.readouterr()) == (0, "", "")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "arrow"])
def test_every_format(survey: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"released.{suffix}"
    options = ("--protect", "drinks", "--epsilon", 1, "--categories", "drinks=0|1|2|3")
    assert run(survey, *options, "--out", out) == 0
    if suffix == "parquet":
        after = pd.read_parquet(out)
    elif suffix == "arrow":
        after = pd.read_feather(out)
    else:
        content = out.read_bytes()
        text = gzip.decompress(content) if suffix == "csv.gz" else content
        after = pd.read_csv(io.BytesIO(text), sep="\t" if suffix == "tsv" else ",")
    assert after["drinks"].dtype == np.int64
    assert set(after["drinks"]) == {0, 1, 2, 3}
    np.testing.assert_allclose(sorted(after["score"]), np.arange(200) / 10)


def test_budget_per_column_adds_up(survey: Path, tmp_path: Path) -> None:
    out = tmp_path / "released.csv"
    code = run(
        *(survey, "--protect", "smokes,score", "--epsilon", "score=0.5,smokes=2"),
        *("--bins", "score=0:20:4", "--categories", "smokes=no|yes", "--out", out),
    )
    assert code == 0
    receipt = load_document(tmp_path / "released.csv.receipt.json")
    assert isinstance(receipt, ReleaseDocument)
    assert list(receipt.epsilon.items()) == [("smokes", 2.0), ("score", 0.5)]
    assert receipt.record_epsilon == 2.5
    assert receipt.provenance.settings["bins"] == {"score": [0.0, 20.0, 4]}
    assert set(spelled(out)["score"]) == {"2.5", "7.5", "12.5", "17.5"}


def test_a_seed_simulates(survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes", "--seed=7")
    for name in ("one.csv", "two.csv"):
        assert run(survey, *options, "--out", tmp_path / name) == 0
    shown = capsys.readouterr()
    assert shown.err.count("simulated and protect nobody") == 2
    assert "Simulated" in shown.out
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    receipt = load_document(tmp_path / "one.csv.receipt.json")
    assert isinstance(receipt, ReleaseDocument)
    assert receipt.simulated
    assert receipt.provenance.simulated
    assert receipt.provenance.seed == 7
    assert "epsilon" not in receipt.number_types


def test_releases_differ_without_a_seed(survey: Path, tmp_path: Path) -> None:
    options = ("--protect=smokes", "--epsilon=0.1", "--categories=smokes=no|yes")
    for name in ("one.csv", "two.csv"):
        assert run(survey, *options, "--out", tmp_path / name) == 0
    # 200 nearly fair coins fall alike twice with probability below 2^-190.
    assert (tmp_path / "one.csv").read_bytes() != (tmp_path / "two.csv").read_bytes()


def test_infinite_epsilon_is_the_file_itself_and_said_so(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    options = ("--protect=smokes", "--epsilon=inf", "--categories=smokes=no|yes")
    assert run(survey, *options, "--out", out) == 0
    assert "ε is infinite for smokes" in capsys.readouterr().err
    pd.testing.assert_frame_equal(by_score(out), by_score(survey))
    receipt = load_document(tmp_path / "released.csv.receipt.json")
    assert isinstance(receipt, ReleaseDocument)
    assert receipt.record_epsilon == math.inf


def test_fingerprint_is_of_the_released_table(tmp_path: Path) -> None:
    # Two true tables whose released tables are alike must have receipts that are alike.
    prints = []
    for name, answers in (("a", ["no", "no", "yes"]), ("b", ["no", "no", "no"])):
        file = tmp_path / f"{name}.csv"
        rows = (f"{i % 7},{answer}" for i, answer in enumerate(answers * 100))
        file.write_text("\n".join(["row,smokes", *rows]))
        out = tmp_path / f"{name}.released.csv"
        options = ("--protect=smokes", "--epsilon=0.1", "--categories=smokes=no|yes")
        assert run(file, *options, "--out", out) == 0
        receipt = load_document(tmp_path / f"{out.name}.receipt.json")
        prints.append(receipt.provenance.schema_fingerprint)
    assert prints[0] == prints[1]


def test_standard_input(survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(survey.read_bytes())))
    out = tmp_path / "released.csv"
    assert (
        run("-", "--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes", "--out", out) == 0
    )
    assert by_score(out)["id"].tolist() == by_score(survey)["id"].tolist()


def test_missing_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "survey.csv"
    file.write_text("age,smokes\n31,yes\n42,?\n58,no\n60,\n")
    options = ("--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes")
    assert run(file, *options, "--out", tmp_path / "a.csv") == 2
    assert "smokes 2 of 4 rows" in capsys.readouterr().err
    assert run(file, *options, "--missing=drop", "--out", tmp_path / "b.csv") == 0
    assert sorted(spelled(tmp_path / "b.csv")["age"]) == ["31", "58"]
    assert run(file, *options, "--missing=category", "--out", tmp_path / "c.csv") == 0
    released = spelled(tmp_path / "c.csv")
    assert sorted(released["age"]) == ["31", "42", "58", "60"]
    assert set(released["smokes"]) <= {"", "no", "yes"}


def test_existing_files_are_kept_unless_forced(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    options = ("--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes", "--out", out)
    out.write_text("precious")
    assert run(survey, *options) == 2
    assert "'released.csv' exists" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert run(survey, *options, "--force") == 0
    assert "their budgets add up" in capsys.readouterr().err
    assert len(spelled(out)) == 200
    out.unlink()
    assert run(survey, *options) == 2
    assert "'released.csv.receipt.json' exists" in capsys.readouterr().err


def test_the_data_are_never_overwritten(
    survey: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = survey.read_bytes()
    assert run(survey, "--protect=smokes", "--epsilon=1", "--out", survey, "--force") == 2
    assert "must be another file than the data" in capsys.readouterr().err
    assert survey.read_bytes() == before
    with survey.open(encoding="utf-8") as redirected, monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", redirected)
        assert run("-", "--protect=smokes", "--epsilon=1", "--out", survey, "--force") == 2
    assert "must be another file than the data" in capsys.readouterr().err
    assert survey.read_bytes() == before
    folder = tmp_path / "parts"
    folder.mkdir()
    out = folder / "released.parquet"
    assert run(folder, "--protect=smokes", "--epsilon=1", "--out", out) == 2
    assert "must not be inside the folder of the data" in capsys.readouterr().err


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_nothing_half_written_stays(
    survey: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[BaseException],
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("epsilens.data.write_table", broken)
    options = ("--protect=smokes", "--epsilon=1", "--out", tmp_path / "released.csv")
    assert run(survey, *options) == (130 if failure is KeyboardInterrupt else 2)
    assert [path.name for path in tmp_path.iterdir()] == ["survey.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--protect=smoke", "--epsilon=1"), "Did you mean 'smokes'"),
        (("--protect=smokes", "--epsilon=0"), "greater than 0"),
        (("--protect=smokes", "--epsilon=-1"), "greater than 0"),
        (("--protect=smokes", "--epsilon=nan"), "got nan"),
        (("--protect=smokes", "--epsilon=much"), "got 'much'"),
        (("--protect=smokes", "--epsilon=41"), "at most 40"),
        (("--protect=smokes", "--epsilon=smokes=41"), "at most 40"),
        (("--protect=smokes", "--epsilon=1e400"), "at most 40 or inf, got '1e400'"),
        (("--protect=smokes", "--epsilon=smokes=1e400"), "at most 40 or inf, got '1e400'"),
        (("--protect=smokes", "--epsilon=1,2"), "one number or COL=E,COL=E, got 2 numbers"),
        (("--protect=smokes", "--epsilon=drinks=1"), "Add it to `--protect`"),
        (("--protect=smokes,drinks", "--epsilon=smokes=1"), "has none for 'drinks'"),
        (("--protect=smokes", "--epsilon=1", "--categories=smokes=a|b"), "rows have another"),
        (
            ("--protect=smokes", "--epsilon=1", "--categories=drinks=a|b"),
            "must name a protected column",
        ),
        (("--protect=smokes", "--epsilon=1", "--categories=a|b"), "COL=A|B|C"),
        (
            ("--protect=smokes", "--epsilon=1", *["--categories=smokes=no|yes"] * 2),
            "once, got it twice",
        ),
        (("--protect=score", "--epsilon=1"), "Put them into bins: `--bins score=LOW:HIGH:10`"),
        (("--protect=smokes", "--epsilon=1", "--bins=smokes=3"), "numeric column"),
        (("--protect=smokes", "--epsilon=1", "--bins=score=3"), "must name protected columns"),
        (("--protect=smokes", "--epsilon=1", "--missing=auto"), "--missing"),
        (("--protect=smokes", "--epsilon=1", "--seed=-1"), "--seed"),
        (("--protect=smokes",), "--epsilon"),
        (("--epsilon=1",), "--protect"),
    ],
)
def test_bad_input_is_one_line_without_values(
    survey: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    words: str,
) -> None:
    text = survey.read_text().replace(",no,", f",{SECRET},")
    survey.write_text(text.replace("007", f"{SECRET}-note"))
    code = run(survey, *options, "--out", tmp_path / "released.csv")
    shown = capsys.readouterr()
    errors = [line for line in shown.err.splitlines() if not line.startswith("Warning: ")]
    assert (code, shown.out, len(errors)) == (2, "", 1)
    assert words in errors[0]
    assert SECRET not in shown.err
    assert "Traceback" not in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["survey.csv"]


def test_a_stray_quotation_mark_releases_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The field that it opens would hold all rows below, true answers included.
    random = np.random.default_rng(0)
    rows = [
        f"{random.random()},{random.choice(['yes', 'no'])},name{random.integers(9)}"
        for _ in range(500)
    ]
    options = ("--protect=y", "--epsilon=1", "--categories=y=no|yes")
    for strays in ([60], [60, 200]):
        stray = rows.copy()
        for row in strays:
            stray[row] = stray[row].replace("name", '"name')
        file = tmp_path / "survey.csv"
        file.write_text("\n".join(["x,y,name", *stray]) + "\n")
        assert run(file, *options, "--out", tmp_path / "released.csv") == 2
        shown = capsys.readouterr()
        assert "quotation mark" in shown.err
        assert (shown.out, shown.err.count("\n")) == ("", 1)
        assert [path.name for path in tmp_path.iterdir()] == ["survey.csv"]


@pytest.mark.parametrize(
    ("usual", "odd", "categories"),
    [
        (["10", "20"], "01", ["01", "10", "20"]),
        (["0", "1"], "1.0", ["0", "1"]),
        (["0", "1"], " 1 ", ["0", "1"]),
        (["1", "2"], "refused", ["1", "2", "3", "refused"]),
        (["True", "False"], "Unknown", ["True", "False", "Unknown"]),
        (["1", "2"], "1.5", ["1", "1.5", "2"]),
        (["yes", "no"], "?", ["yes", "no", "?"]),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_spelling_and_type_tell_nothing_of_one_answer(
    tmp_path: Path, usual: list[str], odd: str, categories: list[str], suffix: str
) -> None:
    random = np.random.default_rng(0)
    answers = random.choice(usual, 300).tolist()
    types = []
    for name, first in (("usual", usual[0]), ("odd", odd)):
        file, out = tmp_path / f"{name}.csv", tmp_path / f"{name}.released.{suffix}"
        pd.DataFrame({"x": random.random(300), "s": [first, *answers[1:]]}).to_csv(
            file, index=False
        )
        options = ("--protect=s", "--epsilon=0.1", f"--categories=s={'|'.join(categories)}")
        assert run(file, *options, "--out", out) == 0
        if suffix == "csv":
            # Each of at most four answers is missing from 300 reports with probability 0.76^300.
            assert set(spelled(out)["s"]) == set(categories)
        else:
            types.append(pq.read_schema(out).field("s").type)
    assert len(set(types)) <= 1


def test_metadata_tells_nothing_of_missing_answers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    answers = [bool(truth) for truth in random.random(100) < 0.5]
    for source in ("csv", "parquet"):
        seen = set()
        for name, first in (("answered", True), ("unanswered", None)):
            file, out = tmp_path / f"{name}.{source}", tmp_path / f"{name}.{source}.parquet"
            data = pa.table({"x": random.random(100), "s": pa.array([first, *answers[1:]])})
            if source == "csv":
                data.to_pandas().to_csv(file, index=False)
            else:
                pq.write_table(data, file)
            options = ("--protect=s", "--epsilon=0.1", "--categories=s=True|False")
            assert run(file, *options, "--missing=category", "--out", out) == 0
            schema = pq.read_schema(out)
            seen.add((str(schema.field("s")), schema.metadata[b"pandas"]))
        assert len(seen) == 1


def test_a_dictionary_of_a_file_declares_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = set()
    for name, first in (("a", "A"), ("b", "B")):
        answers = [first, *np.random.default_rng(0).choice(["A", "B"], 199).tolist()]
        file, out = tmp_path / f"{name}.parquet", tmp_path / f"{name}.released.parquet"
        pq.write_table(pa.table({"s": pa.array(answers).dictionary_encode()}), file)
        assert run(file, "--protect=s", "--epsilon=0.1", "--out", out) == 0
        assert "were taken from the data" in capsys.readouterr().err
        schema = pq.read_schema(out)
        seen.add((str(schema), schema.metadata[b"pandas"]))
        receipt = load_document(tmp_path / f"{out.name}.receipt.json")
        assert receipt.provenance.settings["categories_from"] == {"s": "observed"}
    assert len(seen) == 1


@pytest.mark.parametrize("last", ["yes", "no"])
def test_one_answer_does_not_decide_the_order_or_what_is_said_of_it(
    tmp_path: Path, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # At a tiny ε. Sorted or not sorted by the last answer: no release may tell which.
    file, out = tmp_path / "survey.csv", tmp_path / "released.csv"
    ages = [58, 31, 44, 70, 25, 39, 62, 51, 28, 47]
    answers = [*["no"] * 5, *["yes"] * 4, last]
    pd.DataFrame({"age": ages, "smokes": answers}).to_csv(file, index=False)
    options = ("--protect=smokes", "--categories=smokes=no|yes", "--epsilon=0.01", "--out", out)
    orders = set()
    for number in range(10):
        assert run(file, *options, *(["--force"] if number else [])) == 0
        receipt = load_document(tmp_path / "released.csv.receipt.json")
        assert receipt.provenance.settings["order"] == "shuffled"
        assert not any("order" in note for note in receipt.warnings)
        orders.add(tuple(spelled(out)["age"]))
    capsys.readouterr()
    # Ten orders of 10!: two are alike with a probability below 2 in 100,000.
    assert len(orders) == 10


def test_the_order_is_kept_if_asked_for_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ages = np.random.default_rng(0).permutation(200) / 2
    frame = pd.DataFrame({"age": ages, "smokes": np.repeat(["no", "yes"], 100)})
    file, out = tmp_path / "survey.csv", tmp_path / "released.csv"
    frame.to_csv(file, index=False)
    options = ("--protect=smokes", "--categories=smokes=no|yes", "--out", out)
    assert run(file, *options, "--epsilon=40") == 0
    assert capsys.readouterr().err == ""
    released = pd.read_csv(out)
    assert released["age"].tolist() != ages.tolist()
    # At ε = 40 nobody lies: the answers have moved with their rows.
    pd.testing.assert_frame_equal(
        released.sort_values("age", ignore_index=True), frame.sort_values("age", ignore_index=True)
    )
    assert run(file, *options, "--epsilon=1", "--keep-order", "--force") == 0
    shown = capsys.readouterr()
    assert "The order of the rows is kept, as asked for." in shown.err
    assert "random order" not in shown.out
    assert pd.read_csv(out)["age"].tolist() == ages.tolist()
    receipt = load_document(tmp_path / "released.csv.receipt.json")
    assert receipt.provenance.settings["order"] == "kept"
    assert any("order of the rows is kept" in warning for warning in receipt.warnings)


@pytest.mark.parametrize("kind", ["id", "date", "number"])
def test_a_column_that_undoes_the_shuffle_is_refused(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Sorted by the answer: whoever sorts the release by such a column knows all answers.
    numbers = np.arange(300)
    numbers[[10, 200]] = numbers[[200, 10]]
    columns = {
        "id": [f"p{number}" for number in range(1, 301)],
        "date": pd.date_range("2024-01-01", periods=60).repeat(5).strftime("%d.%m.%Y"),
        "number": numbers,
    }
    file, out = tmp_path / "survey.csv", tmp_path / "released.csv"
    frame = pd.DataFrame({kind: columns[kind], "smokes": np.repeat(["no", "yes"], 150)})
    frame.to_csv(file, index=False)
    options = ("--protect=smokes", "--categories=smokes=no|yes", "--epsilon=0.8", "--out", out)
    assert run(file, *options) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert f"'{kind}' follows the order of the rows" in shown.err
    assert f"`--drop {kind}`, or " in shown.err
    assert "`--keep-order`" in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["survey.csv"]
    assert run(file, *options, "--drop", kind) == 0
    assert list(spelled(out).columns) == ["smokes"]


def test_a_copy_of_the_answer_is_named_on_the_screen_alone(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spelled(survey)
    frame["tobacco"] = frame["smokes"].map({"no": "0", "yes": "1"})
    frame.to_csv(survey, index=False)
    options = ("--protect=smokes", "--categories=smokes=no|yes", "--epsilon=1")
    assert run(survey, *options, "--out", tmp_path / "released.csv") == 0
    said = "tobacco has the same content as the protected column smokes"
    assert said in capsys.readouterr().err
    assert said not in (tmp_path / "released.csv.receipt.json").read_text()


def test_mixed_encodings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # One protected field in another encoding must not change how the towns are read.
    file, out = tmp_path / "survey.csv", tmp_path / "released.csv"
    file.write_bytes("town,s\nKöln,x\nBonn,y\nMünchen,".encode() + b"\xe9\n")
    assert run(file, "--protect=s", "--epsilon=1", "--categories=s=x|y|é", "--out", out) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "must be in one encoding" in shown.err
    assert not out.exists()


def test_a_column_that_divides_a_folder_cannot_be_protected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    frame = pd.DataFrame({"age": np.arange(40), "smokes": ["no", "yes"] * 20})
    frame.to_parquet(folder, partition_cols=["smokes"])
    out = tmp_path / "released.csv"
    assert run(folder, "--protect=smokes", "--epsilon=1", "--out", out) == 2
    shown = capsys.readouterr().err
    assert "'smokes' must not divide the data into folders" in shown
    assert not out.exists()


def test_an_identifier_of_a_small_table_cannot_be_protected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.csv"
    file.write_text(f"name,smokes\n{SECRET},yes\nBob,no\nCara,no\n")
    assert run(file, "--protect=name", "--epsilon=1", "--out", tmp_path / "released.csv") == 2
    shown = capsys.readouterr().err
    assert "every value differs, as in an identifier" in shown
    assert SECRET not in shown


def test_what_was_noticed_while_reading_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.csv"
    file.write_text("income,smokes\n1e400,yes\n5.5,no\n2.5,no\n")
    options = ("--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes")
    assert run(file, *options, "--out", tmp_path / "released.csv") == 0
    assert "income: 1 numbers are too large and were read as infinite" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("out", "words"),
    [("released.xlsx", "must end in .csv"), ("nowhere/released.csv", "folder that exists")],
)
def test_bad_target_is_refused_before_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, words: str
) -> None:
    unreadable = tmp_path / "survey.csv"
    unreadable.write_bytes(b"PK\x03\x04")
    code = run(unreadable, "--protect=a", "--epsilon=1", "--out", tmp_path / out)
    shown = capsys.readouterr()
    assert (code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert words in shown.err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "Example: epsilens randomise survey.csv" in capsys.readouterr().out


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_that_nobody_needs_stay_out_of_the_release(
    survey: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"released{ending}"
    question = (survey, "--protect", "smokes", "--epsilon", 1, "--categories", "smokes=no|yes")
    assert run(*question, "--drop", "id,note", "--out", out) == 0
    shown = capsys.readouterr().out
    assert "2 other columns are released unchanged" in shown
    assert "in random order" in shown
    after = spelled(out) if ending == ".csv" else pd.read_parquet(out)
    assert list(after.columns) == ["smokes", "drinks", "score"]
    # By whatever they were sorted: the order must not bring back what was left out.
    numbers = pd.to_numeric(after["score"]).to_numpy()
    assert sorted(numbers) == pytest.approx(np.arange(200) / 10)
    assert (np.diff(numbers) < 0).sum() > 50
    assert "id" not in out.with_name(f"{out.name}.receipt.json").read_text().split('"')


@pytest.mark.parametrize("column", ["smokes", "nothing"])
def test_only_columns_that_are_there_and_unprotected_are_dropped(
    survey: Path, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    assert run(survey, "--protect", "smokes", "--epsilon", 1, "--drop", column, "--out", out) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_an_order_that_may_show_what_was_left_out_is_kept_with_a_warning(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    question = (survey, "--protect", "smokes", "--epsilon", 1, "--categories", "smokes=no|yes")
    assert run(*question, "--drop", "id", "--keep-order", "--out", out) == 0
    assert "by a column that was left out, the order shows it" in capsys.readouterr().err
    assert spelled(out)["score"].tolist() == spelled(survey)["score"].tolist()


def _people(tmp_path: Path) -> Path:
    """60 people with names and birth dates that all differ, in another order than their numbers."""
    random = np.random.default_rng(3)
    days = pd.to_datetime("1950-01-01") + pd.to_timedelta(random.permutation(9000)[:60], "D")
    frame = pd.DataFrame(
        {
            "name": [f"{SECRET} {number}" for number in random.permutation(60)],
            "dob": days.strftime("%Y-%m-%d"),
            "width": random.normal(size=60).round(6),
            "smokes": random.choice(["no", "yes"], 60),
        }
    )
    file = tmp_path / "people.csv"
    frame.to_csv(file, index=False)
    return file


def test_identifiers_are_dropped_or_kept_on_purpose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = _people(tmp_path), tmp_path / "released.csv"
    question = (file, "--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes")
    assert run(*question, "--out", out) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert "`--drop name,dob`, or `--keep-identifiers`" in shown.err
    assert SECRET not in shown.err
    assert not out.exists()

    assert run(*question, "--drop", "name,dob", "--out", out) == 0
    assert list(spelled(out)) == ["width", "smokes"]
    assert "identifiers" not in capsys.readouterr().err

    kept = tmp_path / "kept.csv"
    assert run(*question, "--keep-identifiers", "--out", kept) == 0
    warning = "Columns that look like identifiers are released: name, dob."
    assert warning in capsys.readouterr().err
    receipt = load_document(tmp_path / "kept.csv.receipt.json")
    assert any(note.startswith(warning) for note in receipt.warnings)


def test_a_protected_column_that_identifies_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "people.csv"
    names = [f"{SECRET} {row % 110}" for row in range(120)]
    pd.DataFrame({"name": names, "age": np.arange(120) % 7}).to_csv(file, index=False)
    assert run(file, "--protect=name", "--epsilon=1", "--out", tmp_path / "out.csv") == 2
    shown = capsys.readouterr().err
    assert "110 of 120 values differ, as in an identifier" in shown
    assert SECRET not in shown


GERMAN = (
    "Größe;Gehalt;Stufe;Stadt;raucht\r\n"
    '1,80;2500,50;01;"Köln; Ehrenfeld";ja\r\n'
    "1,65;1800,00;02;Bonn;nein\r\n"
    "1,80;2500,50;01;Bonn;\r\n"
    "1,71;1800,00;02;Bonn;ja\r\n"
)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-8", "utf-16"])
def test_a_german_export_stays_one(tmp_path: Path, encoding: str) -> None:
    file, out = tmp_path / "umfrage.csv", tmp_path / "released.csv"
    file.write_bytes(GERMAN.encode(encoding))
    # An infinite ε draws nothing: the release must then be the file itself, byte by byte.
    budget = "Gehalt=inf,Stufe=inf,raucht=inf"
    options = ("--protect=Gehalt,Stufe,raucht", "--missing=category", "--keep-order")
    assert run(file, *options, "--epsilon", budget, "--out", out) == 0
    assert out.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("named", ["1800.00|2500.50", "1800,00|2500,50"])
def test_declared_numbers_get_the_decimal_comma_of_the_data(tmp_path: Path, named: str) -> None:
    file, out = tmp_path / "umfrage.csv", tmp_path / "released.csv"
    file.write_bytes(GERMAN.encode("cp1252"))
    options = ("--protect=Gehalt", "--epsilon=1", f"--categories=Gehalt={named}")
    assert run(file, *options, "--out", out) == 0
    lines = out.read_text(encoding="cp1252").splitlines()
    assert {line.split(";")[1] for line in lines[1:]} <= {"1800,00", "2500,50"}


def test_bins_get_the_decimal_comma_and_a_tsv_file_gets_tabs(tmp_path: Path) -> None:
    file, out = tmp_path / "umfrage.csv", tmp_path / "released.tsv"
    file.write_bytes(GERMAN.encode("cp1252"))
    options = ("--protect=Gehalt", "--epsilon=1", "--bins=Gehalt=0:3001:2")
    assert run(file, *options, "--out", out) == 0
    rows = [line.split("\t") for line in out.read_text(encoding="cp1252").splitlines()]
    assert {len(row) for row in rows} == {5}
    assert {row[1] for row in rows[1:]} <= {"750,25", "2250,75"}


def test_an_answer_that_the_encoding_lacks_makes_the_release_utf_8(tmp_path: Path) -> None:
    file, out = tmp_path / "umfrage.csv", tmp_path / "released.csv"
    file.write_bytes(GERMAN.encode("cp1252"))
    options = ("--protect=raucht", "--epsilon=1", "--categories=raucht=ja|nein|≥ 5")
    assert run(file, *options, "--missing=drop", "--out", out) == 0
    assert "Größe" in out.read_text(encoding="utf-8")


def test_a_mistyped_name_is_refused_before_what_it_leaves_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Sorted by the answer: if it is not protected, it follows the order of the rows.
    file, out = tmp_path / "survey.csv", tmp_path / "released.csv"
    pd.DataFrame({"smokes": np.repeat(["no", "yes"], 100)}).to_csv(file, index=False)
    for options in (["--protect=smoke"], ["--protect=smokes", "--drop=smoke"]):
        assert run(file, *options, "--epsilon=1", "--out", out) == 2
        assert "'smoke'" in (said := capsys.readouterr().err)
        assert "order" not in said
