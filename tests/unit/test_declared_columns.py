# SPDX-License-Identifier: Apache-2.0
"""A preview of a mechanism that protects records encodes the table as the release does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsilens import Study
from epsilens.data.fields import read_fields
from epsilens.errors import COMMAND_LINE, InputError
from epsilens.models.private_logistic import PrivateLogisticRegression
from epsilens.models.table_encoder import TableEncoder
from epsilens.models.training_rows import training_rows

CATEGORIES = {"smokes": ["no", "yes"], "region": ["north", "south", "west"], "code": [1, 2, 3]}
RANGES = {"age": (10, 110), "income": (0.0, 1e5), "joined": ("2000-01-01", "2030-12-31")}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 900
    age = rng.integers(18, 120, n).astype(float)  # some lie beyond the range
    frame = pd.DataFrame(
        {
            "age": age,
            "income": rng.lognormal(10, 1, n).round(2),
            "joined": pd.Timestamp("2001-05-04") + pd.to_timedelta(rng.integers(0, 7000, n), "D"),
            "region": rng.choice(["north", "south", "east"], n),  # east is not declared
            "code": rng.integers(1, 4, n),
            "smokes": np.where(rng.random(n) < 1 / (1 + np.exp((age - 60) / 20)), "yes", "no"),
        }
    )
    frame["joined"] = frame["joined"].dt.strftime("%Y-%m-%d")
    frame.loc[::50, "age"] = np.nan
    return frame


def a_study(table: pd.DataFrame, **settings: object) -> Study:
    return Study(
        table,
        label="smokes",
        **{"categories": CATEGORIES, "ranges": RANGES, "test": table} | settings,  # type: ignore[arg-type]
    )


def test_records_are_encoded_as_a_release_encodes_them(tmp_path, table):
    complete = table.dropna()
    file = tmp_path / "people.csv"
    complete.to_csv(file, index=False)
    written = read_fields(str(file), detect=False).written
    study = a_study(complete)
    task = study.task(protects="record")
    rows = training_rows(written, written, study.declaration("record"), decimal_comma=False)
    encoder = TableEncoder(rows.columns)

    assert task.undeclared == ()
    np.testing.assert_array_equal(task.X, encoder.transform(rows.frame))
    assert (np.array(rows.classes)[task.y] == rows.target).all()
    assert np.abs(task.X[:, 0]).max() <= np.sqrt(3) + 1e-12


def test_a_preview_agrees_with_real_trainings_under_careless_ranges(table):
    """20 trainings and 39 simulated runs; beyond four standard errors once in 15,000 tests."""
    study = a_study(table.dropna(), ranges=RANGES | {"income": (0.0, 1e8)})
    task = study.task(protects="record")
    decision = study.decide(
        protects="record", mechanisms="noisy-descent", epsilon=[2.0], max_loss_increase=1.0
    )
    (curve,) = (c for c in decision.document.mechanisms if c.mechanism == "noisy-descent")
    model = PrivateLogisticRegression(
        epsilon=2.0,
        delta=decision.document.recommendation.delta,
        x_bound=task.x_bound,
        protects="record",
        classes=[0, 1],
    )
    changes = []
    for seed in range(20):
        with pytest.warns():
            fitted = model.set_params(random_state=seed).fit(task.X, task.y)
        chances = fitted.predict_log_proba(task.X_test)
        changes.append(-chances[np.arange(len(task.y_test)), task.y_test].mean())
    real = np.array(changes) - task.baseline.loss
    error = real.std(ddof=1) * np.sqrt(1 / 20 + 1 / 39)

    assert abs(real.mean() - curve.cells[0].loss_change) < 4 * error
    assert decision.recommendation.holds


def test_columns_that_are_not_declared_are_named_and_meet_no_cost_limit(table):
    study = a_study(table.dropna(), ranges={"age": (10, 110)})
    decision = study.decide(
        protects="record", mechanisms="noisy-descent", epsilon=[2.0], max_loss_increase=1.0
    )
    (note,) = (n for n in decision.document.notes if n.code == "columns-not-declared")

    assert not decision.recommendation.holds
    assert "'income', 'joined'" in note.render(COMMAND_LINE)
    assert "`--range`" in note.render(COMMAND_LINE)
    assert study.task(protects="record").undeclared == ("income", "joined")


def test_a_left_out_column_must_be_declared_or_dropped_too(table):
    study = a_study(table.dropna().assign(site="A"))

    assert study.task(protects="record").undeclared == ("site",)
    assert (
        a_study(table.dropna().assign(site="A"), drop=["site"]).task(protects="record").undeclared
        == ()
    )


def test_declared_features_leave_the_cost_of_randomised_response_alone(table):
    plain = a_study(table.dropna(), ranges=None, categories={"smokes": ["no", "yes"]})
    declared = a_study(table.dropna())

    pd.testing.assert_frame_equal(
        plain.cost(epsilon=[1.0]).to_frame(), declared.cost(epsilon=[1.0]).to_frame()
    )


def test_ranges_scale_an_answer_claim_too(table):
    task = a_study(table.dropna(), categories={"smokes": ["no", "yes"]}).task()

    assert task.undeclared == ()
    assert task.X[:, 0].max() == pytest.approx(np.sqrt(3))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ranges": {"agee": (1, 2)}}, "`ranges` must name a column of the data, got 'agee'"),
        ({"ranges": {"age": (2, 1)}}, "`ranges` must have two ends for each column"),
        ({"ranges": {"age": 5}}, "`ranges` must have two ends for each column"),
        ({"ranges": {"region": (0, 1)}}, "column 'region' must be declared once"),
        ({"ranges": {"smokes": (0, 1)}, "categories": {}}, "the label 'smokes' is a class"),
        ({"categories": {"sex": ["f", "m"]}}, "`categories` must name a column of the data"),
    ],
)
def test_bad_declarations_are_refused_before_any_work(table, settings, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        a_study(table.dropna(), **settings).decide(protects="record", epsilon=[1.0])
