"""A streamed study against its twin in memory: the same rows, in pieces of uneven size."""

from __future__ import annotations

import pickle
import threading
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens.data.parquet_pieces import ParquetSource, open_parquet
from epsilens.errors import ApproximationWarning, EstimateNotTrustworthyError, InputError
from epsilens.influence.streamed_first_pass import read_sample
from epsilens.models.passes import LocalPasses, PassStore, keeping_passes, use_passes
from epsilens.models.streamed_records import Coin, RowReading
from epsilens.valuation import leave_one_out
from epsilens.valuation.streamed_worth import leave_one_out_parquet
from epsilens.whatif import WhatIf

# Sums in another order differ by rounding, which a Newton step and a solve enlarge a little.
CLOSE = 1e-10
COLUMNS = ["x0", "x1", "x2", "x3"]
GROUPS = {"some": "x1 > 1", "few": "x2 > 4 and x0 == 1"}
MODELS = {
    "logistic": (LogisticRegression(), 2),
    "softmax": (LogisticRegression(C=0.5), 3),
    "ridge": (RidgeClassifier(), 2),
    # A copy of a column, and no penalty: one dimension too many.
    "dependent": (LogisticRegression(C=np.inf), 2),
    "target": (Ridge(alpha=2.0), 2),
}


def people(n, k, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1, 2, 3, 1] + [0, 1, 2, 50]
    X[:, 0] = X[:, 0] > 0
    scores = (X - [0, 1, 2, 50]) @ np.random.default_rng(9).normal(size=(4, k)) * 0.5
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame["y"] = (scores + rng.gumbel(size=(n, k))).argmax(axis=1)
    frame["w"] = rng.uniform(0.5, 2.0, n)
    return frame


def write(frame, folder, parts=(250, 31), rows=97):
    folder.mkdir()
    ends = [0, *np.cumsum(parts), len(frame)]
    for number, (first, last) in enumerate(pairwise(ends)):
        table = pa.Table.from_pandas(frame.iloc[first:last], preserve_index=False)
        parquet.write_table(table, folder / f"part-{number}.parquet", row_group_size=rows)
    return folder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of few rows, read some at a time, and a first look at a quarter of them."""
    monkeypatch.setattr("epsilens.data.parquet_pieces._BATCH_BYTES", 0)
    monkeypatch.setattr("epsilens.influence.streamed_first_pass._FEWEST_SAMPLED", 1)
    defaults = open_parquet.__kwdefaults__
    monkeypatch.setitem(defaults, "piece_rows", 130)


@pytest.fixture(params=list(MODELS))
def twins(request, tmp_path):
    """Return the study in memory and the streamed one."""
    estimator, k = MODELS[request.param]
    train, test = people(700, k, 1), people(300, k, 2)
    columns = list(COLUMNS)
    if request.param == "dependent":
        columns.append("copy")
        for frame in (train, test):
            frame["copy"] = 2 * frame["x1"] - 3
    weight = None if request.param == "dependent" else "w"
    memory = WhatIf(estimator).fit(
        train[columns],
        train["y"],
        test[columns],
        test["y"],
        None if weight is None else train["w"],
        sample_weight_test=None if weight is None else test["w"],
    )
    folders = write(train, tmp_path / "train"), write(test, tmp_path / "test", (100,))
    streamed = WhatIf(estimator).fit_parquet(
        *folders, label="y", weight=weight, drop=["w"] if weight is None else []
    )
    return memory, streamed


def numbers(result):
    """Return everything that an answer says, as numbers."""
    cells = [cell.model_dump() for cell in result.document.cells]
    ends = [end for one in result.document.intervals for end in (one.low, one.high)]
    table = pd.DataFrame(cells).select_dtypes("number").to_numpy(dtype=float)
    return table, np.array(ends), np.array([cell["trusted"] for cell in cells])


@pytest.mark.parametrize(("fewest", "n_sampled"), [(1, 175), (8192, 700)])
def test_the_first_look_takes_a_part_of_a_table(tmp_path, monkeypatch, fewest, n_sampled):
    seen = []

    def look(reading, n_rows):
        sample = read_sample(reading, n_rows)
        seen.append(len(sample.y))
        return sample

    monkeypatch.setattr("epsilens.influence.streamed_baseline.read_sample", look)
    monkeypatch.setattr("epsilens.influence.streamed_first_pass._FEWEST_SAMPLED", fewest)
    folders = write(people(700, 2, 1), tmp_path / "train"), write(people(300, 2, 2), tmp_path / "t")
    WhatIf(LogisticRegression()).fit_parquet(*folders, label="y")
    # A part of the quarter from each of at most eight places, rounded up.
    assert n_sampled <= seen[0] < n_sampled + 8


def ask(study, **question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return study.estimate(categories={"y": study.baseline_.label.categories}, **question)


@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_every_rung_gives_the_numbers_of_the_table_in_memory(twins):
    memory, streamed = twins
    np.testing.assert_allclose(streamed.coef_, memory.coef_, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(streamed.intercept_, memory.intercept_, rtol=0, atol=1e-8)
    assert streamed.baseline_.notes == memory.baseline_.notes
    np.testing.assert_allclose(
        streamed.point_table().contributions,
        memory.point_table().contributions,
        rtol=0,
        atol=CLOSE,
    )
    questions = (
        {"method": "influence", "epsilon": [0.5, 6.0], "groups": GROUPS},
        {"method": "newton", "epsilon": [0.5, np.inf], "groups": GROUPS},
        {"method": "exact", "epsilon": [2.0]},
        {"method": "exact", "epsilon": [0.3, 0.6, 1.0, 2.0, 4.0, 8.0], "groups": GROUPS},
    )
    for question in questions:
        expected, found = ask(memory, **question), ask(streamed, **question)
        for one, other in zip(numbers(expected), numbers(found), strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=CLOSE)
        for one, other in zip(expected.loss_draws, found.loss_draws, strict=True):
            # Single draws pass through numbers of single precision.
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-7)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streamed")
    return write(people(700, 2, 1), folder / "train"), write(people(300, 2, 2), folder / "test")


class Counted(LocalPasses):
    """Passes that are counted, may stop in the middle, and must be able to travel."""

    def __init__(self, n_workers, *, last=10**9):
        super().__init__(n_workers)
        self.n_tasks, self.last = 0, last

    def map(self, work, tasks):
        for result in super().map(pickle.loads(pickle.dumps(work)), list(tasks)):
            self.n_tasks += 1
            if self.n_tasks > self.last:
                raise KeyboardInterrupt
            yield result


def whole_answer(folders, passes, **question):
    with use_passes(passes):
        study = WhatIf(LogisticRegression()).fit_parquet(*folders, label="y", weight="w")
        return numbers(ask(study, groups=GROUPS, epsilon=[1.0], **question))


def test_neither_workers_nor_a_journey_change_a_digit(folders):
    alone = whole_answer(folders, LocalPasses(1), method="exact")
    together = whole_answer(folders, Counted(3), method="exact")
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_killed_run_goes_on_where_it_was(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("epsilens.models.passes._SECONDS_BETWEEN", 0.0)
    whole = Counted(2)
    expected = whole_answer(folders, whole, method="newton")
    first, second = Counted(2, last=60), Counted(2)
    kept = PassStore(tmp_path / "kept", {"seed": 1})
    with keeping_passes(kept), pytest.raises(KeyboardInterrupt):
        whole_answer(folders, first, method="newton")
    with keeping_passes(PassStore(tmp_path / "kept", {"seed": 1})):
        found = whole_answer(folders, second, method="newton")
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    # All but the narrow passes, which give single records, and the piece under way are not done again.
    assert second.n_tasks <= whole.n_tasks - 40
    with pytest.raises(InputError, match="belongs to another run"):
        PassStore(tmp_path / "kept", {"seed": 2})


def test_auto_counts_passes_that_were_read(folders, tmp_path):
    question = {"epsilon": [0.5, 1.0, 2.0], "categories": {"y": [0, 1]}}
    for read in (True, False):
        with keeping_passes(PassStore(tmp_path / "kept", {"seed": 1})):
            study = WhatIf(LogisticRegression()).fit_parquet(*folders, label="y")
        # What a kept pass took is no measure of reading.
        assert (study.baseline_.pass_seconds is not None) == read
        assert study.baseline_.seconds_of_a_pass() > 0
    # Drawing is done at the speed of memory: only the number of passes counts on a slow disk.
    # 38 and 18 passes over the training records, 12 and 15 over test records, 3/7 as many.
    study.baseline_ = replace(study.baseline_, pass_seconds=1.0)
    for seconds, rung in ((50.0, "exact"), (30.0, "newton"), (10.0, "influence")):
        assert study.estimate(**question, seconds=seconds).document.provenance.method == rung


def test_another_epsilon_for_the_same_groups_reads_no_training_row(folders):
    study = WhatIf(LogisticRegression()).fit_parquet(*folders, label="y")
    ask(study, groups=GROUPS, epsilon=[1.0], method="influence")
    passes = Counted(1)
    with use_passes(passes):
        ask(study, groups=GROUPS, epsilon=[50.0, 60.0], method="influence")
    train = len(open_parquet(folders[0]).pieces)
    test = len(open_parquet(folders[1]).pieces)
    # The test set is read for gaps, noise and outcomes; at such ε the changes are drawn one by one,
    # and only pieces with a change are read.
    assert passes.n_tasks < 5 * test + train


def test_only_everybody_may_be_called_all(folders):
    study = WhatIf(LogisticRegression()).fit_parquet(*folders, label="y")
    with pytest.raises(InputError, match=r"must have every training row.*another name"):
        ask(study, groups={"all": next(iter(GROUPS.values()))}, epsilon=[1.0], method="influence")


def test_no_more_rows_are_held_than_are_being_read(folders, monkeypatch):
    alive, most = 0, 0
    lock = threading.Lock()
    read = ParquetSource.batches

    def counted(self, piece, columns):
        nonlocal alive, most
        with lock:
            alive += 1
            most = max(most, alive)
        try:
            for first, table in read(self, piece, columns):
                assert table.num_rows <= 1024
                yield first, table
        finally:
            with lock:
                alive -= 1

    monkeypatch.setattr(ParquetSource, "batches", counted)
    whole_answer(folders, LocalPasses(2), method="exact")
    assert alive == 0
    assert most == 2


def test_a_block_is_as_large_as_its_encoded_numbers_allow(tmp_path, monkeypatch):
    most = 1 << 18
    monkeypatch.setattr("epsilens.data.parquet_pieces._BATCH_BYTES", most)
    rng = np.random.default_rng(6)
    frame = people(6000, 2, 3)[["x1", "y"]]
    frame["town"] = rng.integers(0, 100, 6000).astype(str)
    # One row group, and a hundred columns from one.
    train = write(frame, tmp_path / "train", (), rows=6000)
    encoder = ColumnTransformer(
        [
            ("words", OneHotEncoder(sparse_output=False), ["town"]),
            ("numbers", "passthrough", ["x1"]),
        ]
    )
    blocks = []
    read = RowReading.matrix

    def counted(self, table):
        matrix = read(self, table)
        blocks.append(matrix.nbytes)
        return matrix

    monkeypatch.setattr(RowReading, "matrix", counted)
    model = make_pipeline(encoder.fit(frame), LogisticRegression())
    study = WhatIf(model).fit_parquet(train, label="y")
    ask(study, epsilon=[1.0], method="influence")
    assert len(blocks) > 40
    assert max(blocks) <= most


def test_retraining_lands_within_the_interval_and_is_the_same_again(folders, tmp_path):
    study = WhatIf(LogisticRegression()).fit_parquet(*folders, label="y", weight="w")
    question = {"epsilon": [1.0], "categories": {"y": [0, 1]}}
    kept = tmp_path / "runs.jsonl"
    runs = study.retrain(**question, repeats=30, checkpoint=kept)
    cell = study.estimate(**question, method="exact").document.cells[0]
    draws = runs.draws()["loss_change"].to_numpy()
    # 90 % of 30 runs, less three standard errors.
    assert np.mean((draws >= cell.loss_change_low) & (draws <= cell.loss_change_high)) > 0.73
    passes = Counted(1)
    with use_passes(passes):
        again = study.retrain(**question, repeats=30, checkpoint=kept)
    np.testing.assert_array_equal(again.draws()["loss_change"].to_numpy(), draws)
    # Kept runs are not trained again: only the outcomes before are looked up.
    assert passes.n_tasks <= len(open_parquet(folders[1]).pieces)
    fresh = study.retrain(**question, repeats=2).draws()["loss_change"].to_numpy()
    np.testing.assert_allclose(fresh, draws[:2], rtol=0, atol=CLOSE)


def test_a_fitted_pipeline_encodes_every_piece_alike(tmp_path):
    rng = np.random.default_rng(5)
    frames = []
    for n in (500, 200):
        frame = people(n, 2, n)
        frame["town"] = rng.choice(["here", "there", "far away"], n)
        frames.append(frame)
    train, test = frames
    encoder = ColumnTransformer(
        [("words", OneHotEncoder(), ["town"]), ("numbers", StandardScaler(), ["x1", "x2"])]
    )
    model = make_pipeline(encoder.fit(train), LogisticRegression())
    paths = write(train, tmp_path / "train"), write(test, tmp_path / "test", (50,))
    streamed = WhatIf(model).fit_parquet(*paths, label="y")
    model.fit(train, train["y"])
    used = ["town", "x1", "x2", *[c for c in train if c not in {"town", "x1", "x2"}]]
    with pytest.warns(ApproximationWarning, match="not converged"):
        memory = WhatIf(model).fit(train[used], train["y"], test[used], test["y"])
    np.testing.assert_allclose(streamed.coef_, memory.coef_, rtol=0, atol=CLOSE)
    train.loc[400, "town"] = "nowhere"
    write(train, tmp_path / "unseen")
    with pytest.raises(InputError, match="could not transform the training data") as error:
        WhatIf(model).fit_parquet(tmp_path / "unseen", paths[1], label="y")
    assert "nowhere" not in str(error.value)
    fresh = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(InputError, match="must be fitted before a table is streamed"):
        WhatIf(fresh).fit_parquet(*paths, label="y")


def test_a_coin_for_every_position_sets_rows_aside(folders):
    study = WhatIf(LogisticRegression()).fit_parquet(folders[0], label="y", random_state=3)
    frame = people(700, 2, 1)
    aside = Coin(3, 0.25, aside=True).chosen(np.arange(700))
    assert 120 < aside.sum() < 230  # 175 ± 5 standard errors of 11
    columns = [*COLUMNS, "w"]
    memory = WhatIf(LogisticRegression()).fit(
        frame[columns][~aside], frame["y"][~aside], frame[columns][aside], frame["y"][aside]
    )
    np.testing.assert_allclose(study.coef_, memory.coef_, rtol=0, atol=CLOSE)
    assert study.baseline_.outcomes.loss == pytest.approx(memory.baseline_.outcomes.loss, abs=CLOSE)
    assert any("a coin for every row" in note.text for note in study.baseline_.notes)


def spoiled(folder, target, change):
    """Copy the files, with the middle one changed."""
    target.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        table = parquet.read_table(file)
        if number == 1:
            table = change(table)
        parquet.write_table(table, target / file.name)
    return target


def with_column(name, values):
    return lambda t: t.set_column(t.schema.get_field_index(name), name, pa.array(values(t)))


BAD = {
    "missing": (with_column("x1", lambda t: [None, *t["x1"].to_pylist()[1:]]), "no missing values"),
    "not a number": (
        with_column("x1", lambda t: [float("nan"), *t["x1"].to_pylist()[1:]]),
        "must be finite",
    ),
    "no label": (with_column("y", lambda t: [None] * len(t)), "no missing values"),
    "negative weight": (with_column("w", lambda t: [-1.0] * len(t)), "at least 0"),
    "another type": (with_column("x1", lambda t: ["a"] * len(t)), "same types"),
    "another column": (lambda t: t.drop_columns(["x2"]), "same columns"),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_piece_in_the_middle_is_one_line(folders, tmp_path, kind):
    change, words = BAD[kind]
    train = spoiled(folders[0], tmp_path / "train", change)
    with pytest.raises(InputError, match=words) as error:
        WhatIf(LogisticRegression()).fit_parquet(train, folders[1], label="y", weight="w")
    assert "\n" not in str(error.value)


def test_damaged_empty_and_one_sided_tables_are_refused(folders, tmp_path):
    fit = WhatIf(LogisticRegression()).fit_parquet
    one_class = people(200, 2, 1).assign(y=1)
    with pytest.raises(InputError, match="two classes, got 1"):
        fit(write(one_class, tmp_path / "one", (50,)), folders[1], label="y")
    with pytest.raises(InputError, match="at least one row"):
        fit(write(one_class.iloc[:0], tmp_path / "none", ()), folders[1], label="y")
    damaged = spoiled(folders[0], tmp_path / "damaged", lambda table: table)
    middle = sorted(damaged.iterdir())[1]
    content = bytearray(middle.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    middle.write_bytes(content)
    with pytest.raises(InputError, match="damaged or cut short"):
        fit(damaged, folders[1], label="y")
    with pytest.raises(InputError, match="`class_weight` cannot be streamed"):
        WhatIf(LogisticRegression(class_weight="balanced")).fit_parquet(*folders, label="y")
    with pytest.raises(InputError, match="label"):
        fit(*folders, label="nothing")
    source = open_parquet(folders[0])
    other = replace(source.pieces[0], stamp=(1, 1))
    with pytest.raises(InputError, match="must stay as it is"):
        list(source.batches(other, ["y"]))


def test_separable_and_lonely_records_are_noticed(folders, tmp_path):
    frame = people(300, 2, 1)
    separable = write(frame.assign(y=(frame["x1"] > 1).astype(int)), tmp_path / "separable")
    with pytest.raises(EstimateNotTrustworthyError, match="are separable"):
        WhatIf(LogisticRegression(C=np.inf)).fit_parquet(separable, folders[1], label="y")
    # One record, in the last piece, is the only one of its kind.
    frame["x3"] = 0.0
    frame.loc[299, "x3"] = 1.0
    test = people(300, 2, 2)
    model = LinearRegression()
    columns = [*COLUMNS, "w"]
    memory = WhatIf(model).fit(frame[columns], frame["y"], test[columns], test["y"])
    streamed = WhatIf(model).fit_parquet(write(frame, tmp_path / "lonely"), folders[1], label="y")
    assert streamed.baseline_.notes == memory.baseline_.notes
    assert len(memory.baseline_.notes) == 1


def test_what_cannot_be_streamed_says_so(folders):
    study = WhatIf(LogisticRegression()).fit_parquet(*folders, label="y")
    question = {"epsilon": 1.0, "categories": {"y": [0, 1]}}
    with pytest.raises(InputError, match="only the label can be protected"):
        study.estimate(protect="x0", epsilon=1.0)
    with pytest.raises(InputError, match="`correction` cannot be streamed"):
        study.estimate(**question, correction="forward")
    with pytest.raises(InputError, match="'cholesky' while the table is streamed"):
        study.estimate(**question, method="influence", inverse_hessian="cg")
    with pytest.raises(InputError, match="at least one training row"):
        study.estimate(**question, groups={"nobody": "x1 > 1000"})
    with pytest.raises(InputError, match="depends on what it protects"):
        study.estimate(**question, groups={"yes": "y == 1"})
    with pytest.raises(TypeError, match="must be an expression"):
        study.estimate(**question, groups={"mask": np.ones(700, dtype=bool)})
    plain = WhatIf(LinearRegression()).fit_parquet(*folders, label="x1", drop=["w"])
    with pytest.raises(InputError, match="2 to 20 distinct values"):
        plain.estimate(epsilon=1.0)


@pytest.mark.parametrize("method", ["newton", "second-order", "first-order"])
def test_what_a_record_is_worth_is_the_same_from_disk(folders, method):
    train, test = people(700, 2, 1), people(300, 2, 2)
    expected = leave_one_out(
        LogisticRegression(),
        *(train[COLUMNS], train["y"], test[COLUMNS], test["y"]),
        method=method,
        sample_weight=train["w"],
        sample_weight_test=test["w"],
    )
    found = leave_one_out_parquet(
        LogisticRegression(), *folders, label="y", weight="w", method=method
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    with pytest.raises(InputError, match="for linear and ridge models"):
        leave_one_out_parquet(LogisticRegression(), *folders, label="y", method="exact")
