from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from epsilens.cli import main, whatif_stream
from epsilens.document import load_document
from epsilens.models.streamed_records import Coin

QUESTION = (
    *("--label", "smokes", "--categories", "smokes=no|yes", "--epsilon", "0.5,2"),
    *("--method", "exact", "--group", "young=age < 40", "--json"),
)


@pytest.fixture
def files(table, tmp_path):
    """Return training and test rows as parquet files of several row groups, without gaps."""
    paths = []
    for name, part in (("train", table.iloc[:600]), ("test", table.iloc[600:])):
        path = tmp_path / f"{name}.parquet"
        part.reset_index(drop=True).to_parquet(path, row_group_size=150)
        paths.append(path)
    return paths


def answer(capsys, *arguments):
    assert main(["whatif", *map(str, arguments)]) == 0
    return load_document(capsys.readouterr().out)


def test_a_streamed_table_gives_the_answer_of_the_table_in_memory(
    files, tmp_path, capsys, monkeypatch
):
    train, test = files
    memory = answer(capsys, train, "--test", test, *QUESTION)
    kept = tmp_path / "kept"
    streamed = answer(capsys, train, "--test", test, *QUESTION, "--stream", "--checkpoint", kept)
    # Nothing is left of the machine's memory: the table is streamed by itself.
    monkeypatch.setattr(whatif_stream, "LARGEST_SHARE", 0.0)
    by_itself = answer(capsys, train, "--test", test, *QUESTION, "--checkpoint", kept)
    for other in (streamed, by_itself):
        assert other.baseline.loss == pytest.approx(memory.baseline.loss, abs=1e-10)
        for one, found in zip(memory.cells, other.cells, strict=True):
            for name in ("loss_change", "loss_change_low", "loss_change_high", "accuracy_change"):
                assert getattr(found, name) == pytest.approx(getattr(one, name), abs=1e-10)
    assert json.loads((kept / "run.json").read_text())["epsilens_blocks"] == 1


def test_without_test_rows_a_coin_is_said(files, capsys):
    document = answer(capsys, files[0], *QUESTION, "--stream")
    assert any("a coin for every row's position" in note for note in document.warnings)
    assert document.baseline.n_train + document.baseline.n_test == 600


@pytest.mark.parametrize(
    ("spoil", "more", "words"),
    [
        (lambda f: f, ("--protect", "age"), "cannot go with `--stream`"),
        (lambda f: f, ("--bins", "age=4"), "cannot go with `--stream`"),
        (lambda f: f.assign(age=f["age"].where(f.index > 99)), (), "at most 5% of the rows"),
        (
            lambda f: f.assign(age=f["age"].where(f.index != 599)),
            ("--missing", "error"),
            "missing values are not allowed (`--missing error`), but 1 of 600 rows have some (age 1)",
        ),
        (lambda f: f.assign(smokes="yes"), (), "two classes"),
        (lambda f: f.iloc[:0], (), "at least one row"),
        (lambda f: f.assign(age=pd.Timestamp("2024-01-31")), (), "numbers or words"),
        (
            lambda f: f.assign(age=[f"2024-01-{d % 28 + 1:02}" for d in f.index]),
            (),
            "it holds dates",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(files, tmp_path, capsys, spoil, more, words):
    train, test = files
    bad, out = tmp_path / "bad.parquet", tmp_path / "result.json"
    spoil(pd.read_parquet(train)).to_parquet(bad, row_group_size=150)
    arguments = ["whatif", bad, "--test", test, *QUESTION[:6], "--stream", "--out", out, *more]
    assert main([*map(str, arguments)]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert words in shown
    assert "Traceback" not in shown
    assert not out.exists()


def test_other_files_cannot_be_streamed(file, capsys):
    for name in (file.name, "survey.xlsx", "survey.sav", "survey.dta", "survey.xpt"):
        path = file.with_name(name)
        path.touch()
        assert main(["whatif", str(path), *QUESTION[:6], "--stream"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"Error: only parquet can be streamed, got {name!r}.")
        assert "leave `--stream` out" in line


@pytest.fixture
def folders(tmp_path):
    """Return training and test rows as folders of two files."""
    paths = []
    for name, n, seed in (("train", 1200, 1), ("test", 500, 2)):
        random = np.random.default_rng(seed)
        age, sex = random.integers(18, 80, n), random.choice(["F", "M"], n)
        chance = 1 / (1 + np.exp(-((age - 45) / 20 + (sex == "F"))))
        smokes = np.where(random.random(n) < chance, "yes", "no")
        frame = pd.DataFrame({"age": age, "sex": sex, "smokes": smokes})
        path = tmp_path / name
        path.mkdir()
        for part, rows in enumerate((frame.iloc[: n // 2], frame.iloc[n // 2 :])):
            rows.to_parquet(path / f"{part}.parquet", row_group_size=170, index=False)
        paths.append(path)
    return paths


def change(folder, fix):
    """Write every file of a folder again, given the position of its first row."""
    at = 0
    for file in sorted(folder.glob("*.parquet")):
        frame = fix(pd.read_parquet(file), at)
        at += len(frame)
        frame.to_parquet(file, row_group_size=170, index=False)


def ask(capsys, folders, *more):
    """Return the exit code, and the document or the words of the error."""
    train, test = map(str, folders)
    code = main(["whatif", train, "--test", test, "--label", "smokes", "--json", *more])
    shown = capsys.readouterr()
    return code, load_document(shown.out) if code == 0 else " ".join(shown.err.split())


def test_a_group_can_be_retrained(folders, capsys):
    question = ("--group", 'women=sex == "F"', "--epsilon", "1", "--method", "retrain")
    code, document = ask(capsys, folders, *question, "--repeats", "3", "--stream")
    assert code == 0
    # The repeats are runs of their own: they do not land at one place.
    assert document.cells[0].loss_change_low < document.cells[0].loss_change_high


def test_auto_takes_the_same_rung_when_it_goes_on(folders, tmp_path, capsys, monkeypatch):
    question = ("--epsilon", "0.5,1,2", "--stream", "--checkpoint", str(tmp_path / "kept"))
    first = ask(capsys, folders, *question)[1]
    # A disk on which a pass takes a day: a plan made anew would choose another rung.
    slow = "epsilens.influence.streamed_baseline.StreamedBaseline.seconds_of_a_pass"
    monkeypatch.setattr(slow, lambda self: 86_400.0)
    again = ask(capsys, folders, *question)[1]
    assert again.provenance.method == first.provenance.method == "exact"
    assert again.cells == first.cells
    code, words = ask(capsys, folders, "--epsilon", "0.5,1,3", *question[2:])
    assert code == 2
    assert "belongs to another run" in words
    fresh = ask(capsys, folders, *question[:3])[1]
    assert fresh.provenance.method == "influence"


def test_a_shuffled_identifier_is_left_out_as_in_memory(folders, capsys):
    for folder in folders:
        numbers = np.random.default_rng(3).permutation(5000)
        change(
            folder,
            lambda f, at, n=numbers: f.assign(
                person=n[at : at + len(f)],
                code=[f"p{one}" for one in n[at : at + len(f)]],
                # Different within a file, but not between the two: an answer of a person.
                rank=np.arange(len(f)),
            ),
        )
    question = ("--epsilon", "1", "--method", "exact")
    for more in ((), ("--stream",)):
        document = ask(capsys, folders, *question, *more)[1]
        assert document.baseline.n_parameters == 4  # age, sex, rank and the intercept


@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_two_columns_of_one_name_are_one_line(folders, capsys, more):
    for file in folders[0].glob("*.parquet"):
        table = parquet.read_table(file)
        names = [*table.column_names, "age"]
        parquet.write_table(pa.Table.from_arrays([*table.columns, table["age"]], names), file)
    code, words = ask(capsys, folders, "--epsilon", "1", *more)
    assert code == 2
    assert "'age' stands more than once" in words


@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_numbers_whose_variance_overflows_are_refused(folders, capsys, more):
    change(
        folders[0], lambda f, at: f.assign(age=f["age"].astype(float).where(f.index != 5, 1e200))
    )
    assert ask(capsys, folders, "--epsilon", "1", *more)[0] == 2


@pytest.mark.parametrize("argument", ["--drop", "--weight"])
def test_the_label_is_nothing_else(folders, capsys, argument):
    code, words = ask(capsys, folders, "--epsilon", "1", argument, "smokes", "--stream")
    assert code == 2
    assert "is the label and cannot be named in" in words


def test_local_hashing_says_what_it_says_in_memory(folders, capsys):
    question = ("--epsilon", "1", "--mechanism", "olh", "--method", "exact")
    memory, streamed = (ask(capsys, folders, *question, *more)[1] for more in ((), ("--stream",)))
    assert streamed.warnings == memory.warnings
    assert any("smaller effective epsilon" in note for note in streamed.warnings)


@pytest.fixture
def same_split(monkeypatch):
    """Let the table in memory be split by the coin that splits the streamed one."""

    def by_coin(rows, *, test_size, random_state, stratify):
        aside = Coin(random_state, test_size, aside=True).chosen(rows)
        return rows[~aside], rows[aside]

    monkeypatch.setattr("sklearn.model_selection.train_test_split", by_coin)


SINGLE = 0.1 * float(np.finfo(np.float32).eps)
"""What single precision may change of an interval's end, whose draws change the loss by about a tenth."""


def assert_same_answer(capsys, folder):
    """Ask about a folder that is split by a coin, in memory and streamed; return the notes."""
    asked = ("whatif", folder, *QUESTION[:6], "--method", "exact")
    found = []
    for more in ((), ("--stream",)):
        code = main([*map(str, asked), *more, "--json"])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        found.append(load_document(shown.out))
    memory, streamed = found
    assert streamed.baseline.n_test == memory.baseline.n_test
    assert streamed.baseline.n_parameters == memory.baseline.n_parameters
    assert streamed.baseline.loss == pytest.approx(memory.baseline.loss, abs=1e-10)
    for one, other in zip(memory.cells, streamed.cells, strict=True):
        for name in ("loss_change", "loss_change_low", "loss_change_high", "accuracy_change"):
            # Draws are added up in single precision: on some processors the last digit depends on the order.
            close = SINGLE if name in ("loss_change_low", "loss_change_high") else 1e-10
            assert getattr(other, name) == pytest.approx(getattr(one, name), abs=close)
    coin, *others = sorted(streamed.warnings, key=lambda note: "a coin for" not in note)
    assert "a coin for every row's position" in coin
    # Numbers cannot be put into bins while they are streamed.
    hint = "; put a measurement into bins to use it"
    assert sorted(others) == sorted(note.replace(hint, "") for note in memory.warnings)
    return others


def change_row(folder, position, name, value, otherwise=None):
    """Give one row an answer of its own, and the others what they have or another one."""

    def changed(frame, at):
        others = frame[name] if otherwise is None else otherwise
        is_row = np.arange(at, at + len(frame)) == position
        return frame.assign(**{name: np.where(is_row, value, others)})

    change(folder, changed)


@pytest.mark.parametrize(
    ("name", "value", "otherwise"),
    [("sex", "X", None), ("sex", "X", "F"), ("height", 2.0, 1.5), ("weight", 70, 60)],
    ids=["a third category", "a second category", "another number", "another whole number"],
)
def test_an_answer_that_only_the_rows_set_aside_have(
    folders, capsys, same_split, name, value, otherwise
):
    aside = np.flatnonzero(Coin(0, 0.25, aside=True).chosen(np.arange(1200)))
    change_row(folders[0], aside[-1], name, value, otherwise)
    assert assert_same_answer(capsys, folders[0]) == []


@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_a_category_that_only_a_test_file_has_is_refused(folders, capsys, more):
    change_row(folders[1], 499, "sex", "unmistakable-secret")
    code, words = ask(capsys, folders, "--epsilon", "1", *more)
    assert code == 2
    assert "column 'sex' of the test data must hold categories of the training data" in words
    assert "secret" not in words


def test_a_table_of_words_alone_is_streamed(folders, capsys, same_split):
    change(folders[0], lambda frame, at: frame.drop(columns="age"))
    assert assert_same_answer(capsys, folders[0]) == []


def test_identifiers_are_those_of_the_table_in_memory(folders, capsys, same_split):
    random = np.random.default_rng(4)
    number = random.permutation(5000)
    columns = {
        "name": np.array([f"n{one % 4000}" for one in number]),  # nearly all differ
        "user_id": random.integers(0, 90, 5000),  # many share a number: its name decides
        "case_number": random.integers(0, 90, 5000) / 2,
        "contact": np.array([f"p{one % 30}@example.org" for one in number]),
        "person": number,
        "rank": number % 900,
        "town": np.array([f"t{one % 40}" for one in number]),
    }
    change(
        folders[0],
        lambda frame, at: frame.assign(
            **{name: values[at : at + len(frame)] for name, values in columns.items()}
        ),
    )
    notes = assert_same_answer(capsys, folders[0])
    named = {note.split(":")[0] for note in notes}
    assert named == {"name", "user_id", "case_number", "contact", "person"}


def test_few_rows_with_missing_answers_are_dropped_as_in_memory(folders, capsys):
    def with_gaps(frame, at):
        positions = np.arange(at, at + len(frame))
        return frame.assign(
            age=frame["age"].astype(float).where(positions % 50 != 3),
            sex=frame["sex"].where(positions % 60 != 7),
            # The same answer everywhere: what is missing of it costs no row.
            country=pd.Series("here", frame.index).where(positions % 3 != 0),
        )

    for folder in folders:
        change(folder, with_gaps)
    question = ("--epsilon", "1", "--method", "exact", "--group", 'women=sex == "F"')
    memory, streamed = (ask(capsys, folders, *question, *more)[1] for more in ((), ("--stream",)))
    assert streamed.baseline.n_train == memory.baseline.n_train < 1200
    assert streamed.baseline.n_test == memory.baseline.n_test < 500
    assert streamed.baseline.loss == pytest.approx(memory.baseline.loss, abs=1e-10)
    assert streamed.cells[0].loss_change == pytest.approx(memory.cells[0].loss_change, abs=1e-10)
    assert streamed.warnings == memory.warnings


@pytest.mark.parametrize("policy", ["auto", "error"])
def test_a_column_without_any_answer_is_left_out_as_in_memory(folders, capsys, policy):
    for folder in folders:
        change(
            folder,
            lambda frame, at: frame.assign(
                spare=None,
                height=np.nan,
                country=pd.Series("here", frame.index).where(np.arange(len(frame)) % 3 != 0),
            ),
        )
    question = ("--epsilon", "1", "--method", "exact", "--missing", policy)
    memory, streamed = (ask(capsys, folders, *question, *more)[1] for more in ((), ("--stream",)))
    assert "spare: left out: no answers at all" in memory.warnings
    assert sorted(streamed.warnings) == sorted(memory.warnings)
    assert streamed.baseline.n_train == memory.baseline.n_train == 1200
    assert streamed.cells[0].loss_change == pytest.approx(memory.cells[0].loss_change, abs=1e-10)


def test_a_column_without_any_answer_in_the_test_rows_is_refused_as_in_memory(folders, capsys):
    change(folders[1], lambda frame, at: frame.assign(age=np.nan))
    for more in ((), ("--stream",)):
        code, words = ask(capsys, folders, "--epsilon", "1", "--missing", "drop", *more)
        assert code == 2
        assert "of the test data" in words
