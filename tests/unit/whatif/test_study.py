from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens import WhatIf
from epsilens.channels import Budget
from epsilens.errors import (
    ApproximationWarning,
    EstimateNotTrustworthyError,
    InputError,
    InputTypeError,
    PrivacyLeakWarning,
)

GRID = [0.2, 1.0, 5.0]
# The promise, spelled out: a change of the document must not change it silently.
CELL_COLUMNS = (
    *("group", "epsilon", "record_epsilon", "method", "loss_change", "loss_change_low"),
    *("loss_change_high", "accuracy_change", "auc_change", "loss_gap_change"),
    *("accuracy_gap_change", "trusted"),
)


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


@pytest.fixture(scope="module")
def halves(survey):
    mask = np.random.default_rng(20).random(len(survey.X)) < 0.5
    return {"one": mask, "other": ~mask}


@pytest.mark.parametrize("method", ["influence", "newton", "exact", "paper", "auto", "retrain"])
def test_the_frame_has_the_promised_columns_and_order(study, halves, method):
    result = study.estimate(
        protect=["smokes"], epsilon=[5.0, 0.2, 1.0, 1.0], groups=halves, method=method, repeats=3
    )
    frame = result.to_frame()
    assert tuple(frame.columns) == CELL_COLUMNS
    assert frame["group"].tolist() == ["one"] * 3 + ["other"] * 3
    assert frame["epsilon"].tolist() == GRID * 2
    assert frame["record_epsilon"].tolist() == GRID * 2
    used = "exact" if method == "auto" else method
    assert set(frame["method"]) == {used}
    assert (frame["loss_change_low"] <= frame["loss_change_high"]).all()
    assert frame["accuracy_change"].notna().all()
    assert frame["auc_change"].notna().all()
    assert frame["loss_gap_change"].isna().all()
    assert result.to_dict()["number_types"]["loss_change"] == (
        "measured" if method == "retrain" else "estimated"
    )


def test_influence_is_additive_over_groups(study, halves):
    whole = study.estimate(epsilon=GRID, method="influence").to_frame()
    parts = study.estimate(epsilon=GRID, groups=halves, method="influence").to_frame()
    summed = parts.groupby("epsilon")["loss_change"].sum().to_numpy()
    np.testing.assert_allclose(whole["loss_change"], summed, atol=1e-15)


def test_the_point_table_gives_any_group_at_any_epsilon(study, halves):
    table = study.point_table()
    frame = study.estimate(epsilon=GRID, groups=halves, method="influence").to_frame()
    for row in frame.itertuples():
        q = 1 / (1 + math.exp(row.epsilon))
        assert table.change(halves[row.group], q) == pytest.approx(row.loss_change, abs=1e-15)


def test_paper_is_first_order_for_binary_labels(study):
    one = study.estimate(epsilon=GRID, method="paper").to_frame()
    other = study.estimate(epsilon=GRID, method="influence").to_frame()
    np.testing.assert_allclose(one["loss_change"], other["loss_change"], atol=1e-15)


@pytest.mark.parametrize("method", ["influence", "newton", "exact", "retrain"])
def test_infinite_epsilon_changes_nothing(study, method):
    frame = study.estimate(epsilon=[1.0, math.inf], method=method, repeats=2).to_frame()
    last = frame.iloc[-1]
    assert last["epsilon"] == math.inf
    for column in ("loss_change", "loss_change_low", "loss_change_high", "accuracy_change"):
        assert last[column] == pytest.approx(0.0, abs=1e-7 if method == "retrain" else 0.0)


def test_a_mapping_is_one_cell_without_a_single_epsilon(study):
    result = study.estimate(protect=["smokes"], epsilon={"smokes": 2.0}, method="influence")
    cell = result.document.cells[0]
    assert cell.epsilon is None
    assert cell.record_epsilon == 2.0
    assert math.isnan(result.to_frame()["epsilon"][0])


def test_epsilon_may_be_a_number_an_array_or_a_text(study):
    for epsilon, expected in (
        (1, [1.0]),
        (np.float64(0.5), [0.5]),
        (np.array([2.0, 1.0]), [1.0, 2.0]),
        ("lin:1:3:3", [1.0, 2.0, 3.0]),
    ):
        frame = study.estimate(epsilon=epsilon, method="influence").to_frame()
        np.testing.assert_allclose(frame["epsilon"], expected)


def test_a_seed_repeats_the_interval_and_another_changes_it(study):
    ends = [
        study.estimate(epsilon=1.0, random_state=seed).to_frame()["loss_change_high"][0]
        for seed in (1, 1, 2)
    ]
    assert ends[0] == ends[1] != ends[2]


def test_frames_come_back_in_the_users_library(survey, pipeline):
    makers = {
        "pandas": (lambda frame: frame, pd.DataFrame),
        "polars": (pl.from_pandas, pl.DataFrame),
        "arrow": (lambda frame: pa.Table.from_pandas(frame, preserve_index=False), pa.Table),
    }
    changes = []
    for make, kind in makers.values():
        study = WhatIf(pipeline()).fit(make(survey.X), survey.y, make(survey.X_test), survey.y_test)
        result = study.estimate(
            epsilon=1.0, groups={"young": "age < 40 and region in ['north', 'south']"}
        )
        frame = result.to_frame()
        assert isinstance(frame, kind)
        changes.append(result.document.cells[0].loss_change)
        assert isinstance(result.intervals(), kind)
    np.testing.assert_allclose(changes, changes[0], atol=1e-12)


def test_arrays_without_names_work(survey):
    X, X_test = (
        survey.X[["age", "children"]].to_numpy(),
        survey.X_test[["age", "children"]].to_numpy(),
    )
    y, y_test = (survey.y == "yes").to_numpy(), (survey.y_test == "yes").to_numpy()
    study = WhatIf(LogisticRegression()).fit(X, y, X_test, y_test)
    for protect in (None, "label", ["y"]):
        with pytest.warns(PrivacyLeakWarning, match="observed values"):
            study.estimate(protect=protect, epsilon=1.0, method="influence")
    domain = {"smoking": [False, True]}
    with pytest.warns(ApproximationWarning, match="the label has no name: 'smoking'"):
        study.estimate(protect="smoking", epsilon=1.0, categories=domain, method="influence")
    by_name = WhatIf(LogisticRegression()).fit(
        survey.X[["age", "children"]], survey.y, survey.X_test[["age", "children"]], survey.y_test
    )
    question = {"epsilon": 1.0, "method": "exact"}
    feature = study.estimate(protect="x1", categories={"x1": range(5)}, **question)
    same = by_name.estimate(protect="children", categories={"children": range(5)}, **question)
    assert feature.document.cells[0].loss_change == pytest.approx(
        same.document.cells[0].loss_change, abs=1e-9
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.estimate(epsilon=1.0, categories={"label": [False, True]}, method="influence")


def test_a_regression_on_a_score_randomises_over_its_domain(survey):
    columns = ["age", "income"]
    X, X_test = survey.X[columns], survey.X_test[columns]
    y, y_test = survey.X["children"].rename("score"), survey.X_test["children"]
    study = WhatIf(Ridge()).fit(X, y, X_test, y_test)
    with pytest.warns(PrivacyLeakWarning, match="observed"):
        narrow = study.estimate(epsilon=1.0)
    wide = study.estimate(epsilon=1.0, categories={"score": range(10)})
    assert narrow.document.cells[0].accuracy_change is None
    # More possible answers, more noise.
    assert wide.document.cells[0].loss_change > narrow.document.cells[0].loss_change


def test_results_serialise_and_come_back(study, tmp_path):
    from epsilens.document import load_document

    result = study.estimate(epsilon=[1.0, math.inf], method="influence")
    path = tmp_path / "whatif.json"
    text = result.to_json(path)
    assert load_document(path) == result.document == load_document(text)
    assert result.to_dict()["cells"][1]["epsilon"] == "inf"


def test_provenance_says_how_and_holds_no_value(study, survey):
    result = study.estimate(epsilon=1.0, random_state=5)
    provenance = result.to_dict()["provenance"]
    assert provenance["method"] == "exact"
    assert provenance["seed"] == 5
    assert provenance["simulated"] is True
    assert len(provenance["schema_fingerprint"]) == 64
    shuffled = WhatIf(study.estimator).fit(
        survey.X.sample(frac=1, random_state=0), survey.y, survey.X_test, survey.y_test
    )
    other = shuffled.estimate(epsilon=1.0).to_dict()["provenance"]
    assert other["schema_fingerprint"] == provenance["schema_fingerprint"]


def test_a_record_spends_the_sum_that_its_receipt_states(study):
    budgets = {"region": 0.1, "children": 0.2, "smokes": 0.3}
    (cell,) = study.estimate(
        protect=list(budgets),
        epsilon=budgets,
        method="influence",
        n_draws=20,
        categories={"children": range(5)},
    ).document.cells
    # Added one after the other they would be 0.6000000000000001.
    assert cell.record_epsilon == Budget(budgets).per_record == 0.6


def test_features_and_label_together_spend_the_sum(study):
    result = study.estimate(protect=["region", "smokes"], epsilon=[1.0, 3.0], method="exact")
    frame = result.to_frame()
    assert frame["epsilon"].tolist() == [1.0, 3.0]
    assert frame["record_epsilon"].tolist() == [2.0, 6.0]
    assert frame["trusted"].all()
    mapped = study.estimate(
        protect=["region", "smokes"], epsilon={"region": 1.0, "smokes": 1.0}, method="exact"
    ).document.cells[0]
    assert mapped.epsilon is None
    assert mapped.record_epsilon == 2.0
    assert mapped.loss_change == pytest.approx(frame["loss_change"][0], abs=1e-8)
    width = mapped.loss_change_high - mapped.loss_change_low
    nearly_label_only = study.estimate(
        protect=["region", "smokes"], epsilon={"region": 39.0, "smokes": 1.0}, method="exact"
    ).document.cells[0]
    label_only = study.estimate(epsilon=1.0, method="exact").document.cells[0]
    # The same law by other draws, whose part of the mean is a small part of the interval.
    assert nearly_label_only.loss_change == pytest.approx(label_only.loss_change, abs=0.03 * width)


@pytest.mark.parametrize("method", ["influence", "newton", "exact", "paper", "retrain"])
def test_every_rung_takes_features(study, method):
    frame = study.estimate(
        protect=["region"], epsilon=[0.5, 5.0, math.inf], method=method, repeats=2
    ).to_frame()
    assert frame["loss_change"].notna().all()
    assert frame["loss_change"].iloc[-1] == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("protect", [["region"], ["region", "smokes"]])
def test_first_order_of_features_is_not_trusted_where_it_leaves_out_too_much(study, protect):
    """What the step itself adds to second order counts, beside what the noise of a run does."""
    result = study.estimate(protect=protect, epsilon=[0.1, 4.0], method="influence", n_draws=200)
    assert result.to_frame()["trusted"].tolist() == [False, True]


def test_first_order_of_features_is_additive_over_groups(study, halves):
    question = {"protect": ["region", "smokes"], "epsilon": GRID, "method": "influence"}
    whole = study.estimate(**question).to_frame()
    parts = study.estimate(**question, groups=halves).to_frame()
    summed = parts.groupby("epsilon")["loss_change"].sum().to_numpy()
    np.testing.assert_allclose(whole["loss_change"], summed, atol=1e-14)


def test_the_table_of_several_columns_gives_any_group_at_any_epsilon(study, halves):
    from epsilens.channels import ProductChannel, RandomizedResponse

    table = study.point_table(protect=["region", "smokes"])
    assert table.contributions.shape == (600, 3)
    frame = study.estimate(
        protect=["region", "smokes"], epsilon=GRID, groups=halves, method="influence"
    ).to_frame()
    sets = [frozenset({0}), frozenset({1}), frozenset({0, 1})]
    for row in frame.itertuples():
        product = ProductChannel(
            [RandomizedResponse(3, row.epsilon), RandomizedResponse(2, row.epsilon)]
        )
        weights = np.array([product.weights()[changed] for changed in sets])
        change = table.change(halves[row.group], weights)
        # The baseline is converged to 1e-9, and γ contains what is left of its gradient.
        assert change == pytest.approx(row.loss_change, abs=1e-8)


def test_paper_multiplies_all_alternatives_alike(study):
    """P1 Eq. 13: the unweighted sum times the probability that anything changes."""
    table = study.point_table(protect=["region"])
    everybody = np.ones(600, dtype=bool)
    frame = study.estimate(protect=["region"], epsilon=GRID, method="paper").to_frame()
    for row in frame.itertuples():
        kept = math.exp(row.epsilon) / (math.exp(row.epsilon) + 2)
        assert row.loss_change == pytest.approx(table.change(everybody, 1 - kept), abs=1e-14)


def test_paper_corrects_as_printed(study, survey, pipeline):
    """P1 Eq. 22, written out: only other labels, and the uncorrected loss once for each."""
    frame = study.estimate(epsilon=GRID, method="paper", correction="forward").to_frame()
    baseline = study.baseline_
    X = baseline.problem.design.matrix
    X = X if isinstance(X, np.ndarray) else X.toarray()
    s = X @ baseline.theta
    v = baseline.curvature.solve(baseline.evaluation.gradient(baseline.theta))
    y = (survey.y == "yes").to_numpy()
    h = 1 / (1 + np.exp(-s))
    for row in frame.itertuples():
        q = 1 / (1 + math.exp(row.epsilon))
        mixed = q + (1 - 2 * q) * h  # the probability of reporting yes
        slope_yes = -(1 - 2 * q) * h * (1 - h) / mixed
        slope_no = (1 - 2 * q) * h * (1 - h) / (1 - mixed)
        difference = np.where(y, slope_no, slope_yes) - (h - y)
        expected = -q * np.sum(difference * (X @ v)) / 600
        assert row.loss_change == pytest.approx(expected, abs=1e-12)


def test_correction_states_its_conditions(study):
    result = study.estimate(epsilon=2.0, correction="forward", method="exact")
    assert any("well specified" in text for text in result.document.warnings)


def test_domains_of_features(survey, pipeline):
    numbers = ["age", "income", "children"]
    study = WhatIf(LogisticRegression()).fit(
        survey.X[numbers], survey.y, survey.X_test[numbers], survey.y_test
    )
    with pytest.warns(PrivacyLeakWarning, match="observed values"):
        narrow = study.estimate(protect="children", epsilon=1.0)
    wide = study.estimate(protect="children", epsilon=1.0, categories={"children": range(10)})
    assert narrow.document.cells[0].loss_change != wide.document.cells[0].loss_change
    with pytest.raises(InputError, match="must contain every value"):
        study.estimate(protect="children", epsilon=1.0, categories={"children": [0, 1]})
    with pytest.raises(InputError, match="at least two"):
        study.estimate(protect="children", epsilon=1.0, categories={"children": [0, 0]})


def test_categories_must_be_of_the_columns_type(survey):
    columns = ["age", "children"]
    study = WhatIf(LogisticRegression()).fit(
        survey.X[columns], survey.y, survey.X_test[columns], survey.y_test
    )
    for strange in ([0, 1, 2, 3, 4, 4.5], [0, 1, 2, 3, 4, "five"]):
        with pytest.raises(InputError, match="column's own type"):
            study.estimate(protect="children", epsilon=1.0, categories={"children": strange})


def test_an_ordinal_encoders_own_categories_are_the_domain(survey):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    changes = []
    for domain in (["east", "north", "south"], ["east", "north", "south", "west"]):
        encode = make_column_transformer((OrdinalEncoder(categories=[domain]), ["region"]))
        study = WhatIf(make_pipeline(encode, LogisticRegression())).fit(
            survey.X, survey.y, survey.X_test, survey.y_test
        )
        cell = study.estimate(protect="region", epsilon=0.5, method="exact").document.cells[0]
        changes.append(cell.loss_change)
    assert changes[0] != pytest.approx(changes[1], rel=1e-3)


def test_columns_named_by_numbers_can_be_protected(survey):
    X, X_test = survey.X[["age", "children"]], survey.X_test[["age", "children"]]
    X, X_test = X.set_axis([0, 1], axis=1), X_test.set_axis([0, 1], axis=1)
    study = WhatIf(LogisticRegression()).fit(X, survey.y, X_test, survey.y_test)
    cell = study.estimate(protect="1", epsilon=1.0, categories={"1": range(5)}).document.cells[0]
    assert cell.loss_change is not None


def test_a_polars_categorical_declares_nothing(survey, pipeline):
    for kind, warns in ((pl.Categorical, True), (pl.Enum(["east", "north", "south"]), False)):
        # A column that no encoder knows: only its dtype can say what it may hold.
        copy = pl.col("region").cast(kind).alias("copy")
        X = pl.from_pandas(survey.X).with_columns(copy)
        X_test = pl.from_pandas(survey.X_test).with_columns(copy)
        study = WhatIf(pipeline()).fit(X, survey.y, X_test, survey.y_test)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            study.estimate(protect="copy", epsilon=1.0, method="influence")
        assert any("observed values" in str(w.message) for w in given) == warns


def test_a_group_that_goes_with_the_label_is_no_ground_for_correction(study, survey):
    yes = (survey.y == "yes").to_numpy()
    mostly = np.random.default_rng(8).random(600) < np.where(yes, 0.8, 0.2)
    with pytest.warns(ApproximationWarning, match="goes with the label"):
        result = study.estimate(epsilon=2.0, groups={"g": mostly}, correction="forward")
    assert any("goes with the label" in text for text in result.document.warnings)


def test_a_block_that_depends_on_other_columns_is_refused(survey):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    columns = ["age", "children"]
    model = make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=1))
    study = WhatIf(model).fit(survey.X[columns], survey.y, survey.X_test[columns], survey.y_test)
    domain = {"children": range(5)}
    with pytest.raises(InputError, match="depend on other columns"):
        study.estimate(protect="children", epsilon=1.0, categories=domain)


def test_an_interaction_in_rare_records_is_found(survey):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    n = len(survey.X)
    rare = np.zeros(n)
    rare[[5, 17, 40]] = 1.0  # none of the first, the middle and the last record
    X = pd.DataFrame({"sex": np.arange(n) % 2, "rare": rare})
    model = make_pipeline(PolynomialFeatures(interaction_only=True), LogisticRegression())
    study = WhatIf(model).fit(X, survey.y, X[:300], survey.y_test)
    with pytest.raises(InputError, match="depend on other columns"):
        study.estimate(protect="sex", epsilon=1.0, categories={"sex": [0, 1]})


def test_alternatives_outside_what_is_spanned_need_a_penalty(survey):
    sex = np.random.default_rng(3).integers(0, 2, 900)
    X = pd.DataFrame({"sex": sex[:600], "copy": sex[:600], "age": survey.X["age"]})
    X_test = pd.DataFrame({"sex": sex[600:], "copy": sex[600:], "age": survey.X_test["age"]})
    question = {"protect": "sex", "epsilon": 1.0, "categories": {"sex": [0, 1]}}
    study = WhatIf(LogisticRegression(C=np.inf)).fit(X, survey.y, X_test, survey.y_test)
    with pytest.raises(InputError, match="outside what the training records span"):
        study.estimate(**question)
    penalised = WhatIf(LogisticRegression()).fit(X, survey.y, X_test, survey.y_test)
    assert penalised.estimate(**question).document.cells[0].trusted


def test_full_dummies_without_a_penalty_can_be_protected(survey, pipeline):
    model = pipeline(LogisticRegression(C=np.inf))
    study = WhatIf(model).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    first = study.estimate(protect="region", epsilon=1.0, method="exact").document.cells[0]
    nearly = pipeline(LogisticRegression(C=1e7))
    study = WhatIf(nearly).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    second = study.estimate(protect="region", epsilon=1.0, method="exact").document.cells[0]
    assert first.loss_change == pytest.approx(second.loss_change, abs=1e-5)


def test_correction_needs_probabilities(survey, pipeline):
    from sklearn.linear_model import RidgeClassifier

    study = WhatIf(pipeline(RidgeClassifier())).fit(
        survey.X, survey.y, survey.X_test, survey.y_test
    )
    for ask in (study.estimate, study.retrain):
        with pytest.raises(InputError, match="squared loss has none"):
            ask(epsilon=1.0, correction="forward")


def test_the_document_says_what_was_done(study):
    result = study.estimate(
        protect=["region", "smokes"],
        epsilon={"region": 1.0, "smokes": 2.0},
        correction="forward",
        method="exact",
    )
    settings = result.to_dict()["provenance"]["settings"]
    assert settings["correction"] == "forward"
    assert settings["epsilon"] == {"region": 1.0, "smokes": 2.0}
    with pytest.raises(InputError, match="labels alone"):
        study.estimate(
            protect=["region", "smokes"], epsilon=1.0, correction="forward", method="paper"
        )
    with pytest.raises(InputError, match="not protected"):
        study.retrain(protect=["region"], epsilon=1.0, correction="forward")


def test_a_column_the_model_does_not_see_costs_nothing(survey, pipeline):
    X = survey.X.assign(unused=np.where(np.arange(600) % 2, "a", "b"))
    X_test = survey.X_test.assign(unused="a")
    study = WhatIf(pipeline()).fit(X, survey.y, X_test, survey.y_test)
    cell = study.estimate(
        protect="unused", epsilon=0.1, categories={"unused": ["a", "b"]}
    ).document.cells[0]
    assert cell.loss_change == pytest.approx(0.0, abs=1e-9)


def test_gaps_are_those_of_an_expressions_test_rows(study, survey):
    groups = {"young": "age < 40", "mask": (survey.X["age"] < 40).to_numpy()}
    result = study.estimate(epsilon=[0.3, 3.0], groups=groups, method="exact")
    frame = result.to_frame().set_index(["group", "epsilon"])
    assert frame.loc["mask", "loss_gap_change"].isna().all()
    for epsilon in (0.3, 3.0):
        assert frame.loc[("young", epsilon), "loss_change"] == pytest.approx(
            frame.loc[("mask", epsilon), "loss_change"], abs=1e-4
        )
    assert frame.loc["young", "loss_gap_change"].notna().all()
    assert frame.loc["young", "accuracy_gap_change"].notna().all()
    intervals = result.intervals()
    assert {"loss_gap", "accuracy_gap"} <= set(intervals["outcome"])


def test_the_study_follows_the_estimator_contract(study):
    assert study.get_params(deep=False) == {
        "estimator": study.estimator,
        "head": None,
        "body": None,
        "train": None,
        "public_body": None,
        "regularisation": 1.0,
    }
    fresh = clone(study)
    assert not hasattr(fresh, "baseline_")
    with pytest.raises(Exception, match="not fitted"):
        fresh.estimate(epsilon=1.0)


def test_nothing_printed_holds_a_record(study):
    for part in (
        study.baseline_,
        study.baseline_.problem,
        study.baseline_.problem.design,
        study.baseline_.label,
        study.baseline_.evaluation,
    ):
        assert "array" not in repr(part)


def test_progress_is_reported(study):
    seen = []
    study.estimate(epsilon=GRID, method="exact", progress=lambda *step: seen.append(step))
    assert seen[-1] == (3, 3, "exact")
    study.retrain(epsilon=GRID, repeats=2, progress=lambda *step: seen.append(step))
    assert seen[-1] == (6, 6, "retrain")


def test_auto_climbs_down_when_time_is_short(study):
    quick = study.estimate(epsilon="0.1:10:30", seconds=1e-9)
    assert quick.document.cells[0].method == "influence"
    unhurried = study.estimate(epsilon=1.0, seconds=1e9)
    assert unhurried.document.cells[0].method == "exact"


def test_untrusted_cells_are_marked_and_said(study):
    # At ε = 0.2 for everybody the second order is the whole effect.
    result = study.estimate(epsilon=[0.2, 9.0], method="influence")
    assert [cell.trusted for cell in result.document.cells] == [False, True]
    (said,) = [note for note in result.document.notes if note.code == "estimates-unchecked"]
    assert said.render().endswith(
        "Take `method='exact'`, or train again to be sure: `method='retrain'`."
    )


def test_who_has_the_best_estimate_is_not_sent_to_it():
    # A dozen features for sixty people, and a corrected loss, which then has several minima.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    study = WhatIf(LogisticRegression(C=10.0)).fit(X, y, X, y)
    question = {"epsilon": 0.3, "method": "exact", "categories": {"label": [0, 1]}}
    assert study.estimate(**question).document.cells[0].trusted
    result = study.estimate(**question, correction="forward")
    assert [cell.trusted for cell in result.document.cells] == [False]
    said = result.document.notes[-1].render()
    assert said.endswith("Train again to be sure: `method='retrain'`.")
    assert "exact" not in said


def test_separable_data_without_penalty_are_refused():
    X = np.linspace(-1, 1, 40)[:, None]
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(EstimateNotTrustworthyError, match="separable"):
        WhatIf(LogisticRegression(C=np.inf)).fit(X, y, X, y)
    WhatIf(LogisticRegression()).fit(X, y, X, y)


def test_nearly_separable_data_are_said_and_not_trusted(survey):
    rare = np.zeros(600)
    rare[np.flatnonzero(survey.y == "yes")[:5]] = 1.0
    X = survey.X[["age"]].assign(rare=rare)
    X_test = survey.X_test[["age"]].assign(rare=0.0)
    model = LogisticRegression(C=np.inf)
    with pytest.warns(ApproximationWarning, match="nearly separable"):
        study = WhatIf(model).fit(X, survey.y, X_test, survey.y_test)
    result = study.estimate(epsilon=GRID, method="exact")
    assert not any(cell.trusted for cell in result.document.cells)
    assert any("nearly separable" in text for text in result.document.warnings)
    # With a penalty there is nothing to say.
    study = WhatIf(LogisticRegression()).fit(X, survey.y, X_test, survey.y_test)
    assert all(cell.trusted for cell in study.estimate(epsilon=GRID).document.cells)


def test_a_record_that_decides_its_own_prediction_is_said(survey):
    X = survey.X[["age"]].assign(spike=0.0)
    X.loc[0, "spike"] = 1.0
    y = (survey.y == "yes").astype(float).astype("category")
    study = WhatIf(Ridge(alpha=1e-3)).fit(
        X, y, survey.X_test[["age"]].assign(spike=0.0), (survey.y_test == "yes").astype(float)
    )
    (note,) = [note.text for note in study.baseline_.notes if note.code == "large-leverage"]
    # The hat matrix, written out.
    Z = np.column_stack([X.to_numpy(), np.ones(600)])
    hat = Z @ np.linalg.solve(Z.T @ Z + np.diag([1e-3, 1e-3, 0.0]), Z.T)
    assert f"{hat.diagonal().max():.2f}" in note
    plain = WhatIf(Ridge()).fit(survey.X[["age"]], y, survey.X_test[["age"]], y[:300].astype(float))
    assert not any("leverage" in text.text for text in plain.baseline_.notes)


def test_a_constant_column_is_harmless(survey):
    X = survey.X[["age"]].assign(constant=1.0)
    X_test = survey.X_test[["age"]].assign(constant=1.0)
    for C in (1.0, np.inf):
        study = WhatIf(LogisticRegression(C=C)).fit(X, survey.y, X_test, survey.y_test)
        plain = WhatIf(LogisticRegression(C=C)).fit(
            X[["age"]], survey.y, X_test[["age"]], survey.y_test
        )
        assert study.baseline_.outcomes.loss == pytest.approx(
            plain.baseline_.outcomes.loss, abs=1e-9
        )


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"epsilon": 0.0}, "greater than 0"),
        ({"epsilon": -1.0}, "greater than 0"),
        ({"epsilon": math.nan}, "greater than 0"),
        ({"epsilon": "strong"}, "epsilon"),
        ({"epsilon": []}, "at least one value"),
        ({"epsilon": {}}, "budget"),
        ({"epsilon": {"age": 1.0}}, "`epsilon` must name a protected column, got 'age'"),
        ({"epsilon": 1.0, "protect": ["age"]}, "600 distinct numbers"),
        ({"epsilon": 1.0, "protect": ["smoke"]}, "Did you mean 'smokes'"),
        ({"epsilon": 1.0, "protect": []}, "at least one column"),
        ({"epsilon": 1.0, "protect": [3]}, "names of columns, got int"),
        ({"epsilon": {"smokes": 1.0}, "protect": ["smokes", "region"]}, "none for 'region'"),
        ({"epsilon": 1.0, "protect": ["region"], "correction": "forward"}, "not protected"),
        ({"epsilon": 1.0, "method": "magic"}, "must be one of"),
        ({"epsilon": 1.0, "correction": "backward"}, "must be one of"),
        ({"epsilon": 1.0, "n_draws": 3}, "at least 20"),
        ({"epsilon": 1.0, "seconds": 0}, "greater than 0"),
        ({"epsilon": 1.0, "random_state": -1}, "at least 0"),
        ({"epsilon": 1.0, "dependent_groups": "ignore"}, "must be one of"),
        ({"epsilon": 1.0, "categories": {"smokes": ["no"]}}, "at least two"),
        ({"epsilon": 1.0, "categories": {"smokes": ["no", "yes", "perhaps"]}}, "2 classes"),
        ({"epsilon": 1.0, "categories": {"age": ["no", "yes"]}}, "must name a protected column"),
        ({"epsilon": 1.0, "groups": {}}, "at least one group"),
        ({"epsilon": 1.0, "groups": ["age < 3"]}, "mapping"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_questions_get_one_clear_line(study, question, words):
    with pytest.raises(InputError, match=words) as caught:
        study.estimate(**question)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": pd.Series(["yes"] * 600)}, "two classes, got 1"),
        ({"y": pd.Series(["yes", "no"] * 5)}, "one label per training row"),
        ({"y_test": pd.Series(["yes"] * 10)}, "one label per test row"),
        ({"y_test": pd.Series(["SECRET"] * 300)}, "but 300 are not"),
        ({"y": pd.Series(["yes", None] * 300)}, "300 are"),
        ({"y": pd.Series([])}, "at least one row"),
        ({"sample_weight": [-1.0] * 600}, "at least 0, but 600 are not"),
        ({"sample_weight": [math.inf, math.nan, *[1.0] * 598]}, "at least 0, but 2 are not"),
        ({"sample_weight": [0.0] * 600}, "0 everywhere"),
        ({"sample_weight": [1.0] * 6}, "one weight per row"),
        ({"sample_weight": ["a"] * 600}, "numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_data_get_one_clear_line(survey, pipeline, change, words):
    given = {
        "X": survey.X,
        "y": survey.y,
        "X_test": survey.X_test,
        "y_test": survey.y_test,
        **change,
    }
    with pytest.raises(InputError, match=words) as caught:
        WhatIf(pipeline()).fit(**given)
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_duplicate_columns_are_refused(survey):
    twice = survey.X[["age", "age"]]
    with pytest.raises(InputError, match="unique"):
        WhatIf(LogisticRegression()).fit(twice, survey.y, twice[:300], survey.y_test)


def test_test_columns_are_taken_by_name(survey):
    columns = ["age", "income", "children"]
    model = LogisticRegression()
    study = WhatIf(model).fit(survey.X[columns], survey.y, survey.X_test[columns], survey.y_test)
    other = WhatIf(model).fit(
        survey.X[columns], survey.y, survey.X_test[columns[::-1]], survey.y_test
    )
    assert other.baseline_.outcomes == study.baseline_.outcomes
    renamed = survey.X_test[columns].rename(columns={"age": "years"})
    with pytest.raises(InputError, match="1 are missing: age"):
        WhatIf(model).fit(survey.X[columns], survey.y, renamed, survey.y_test)


def test_a_declared_domain_must_be_what_the_model_distinguishes(survey, pipeline):
    wide = survey.y.cat.add_categories("SECRET")
    fitted = pipeline(LogisticRegression(tol=1e-10)).fit(survey.X, survey.y)
    for model in (pipeline(), fitted):
        study = WhatIf(model).fit(survey.X, wide, survey.X_test, survey.y_test)
        for ask in (study.estimate, study.retrain):
            with pytest.raises(InputError, match="declares 3 categories") as caught:
                ask(protect=["smokes"], epsilon=1.0)
            assert "SECRET" not in str(caught.value)
        # Only what is randomised needs its whole domain.
        question = {"protect": ["region"], "epsilon": 1.0, "method": "exact"}
        narrow = WhatIf(model).fit(survey.X, survey.y, survey.X_test, survey.y_test)
        assert study.estimate(**question).to_frame().equals(narrow.estimate(**question).to_frame())
    numbers = pd.Series(pd.Categorical(["0", "1", "SECRET"] * 200))
    with pytest.raises(InputError, match="numbers, got text") as caught:
        WhatIf(Ridge()).fit(survey.X[["age"]], numbers, survey.X_test[["age"]], survey.y_test)
    assert "SECRET" not in str(caught.value)


def test_classes_are_ordered_as_scikit_learn_orders_them(survey):
    reverse = survey.y.cat.reorder_categories(["yes", "no"])
    study = WhatIf(LogisticRegression()).fit(
        survey.X[["age"]], reverse, survey.X_test[["age"]], survey.y_test
    )
    theirs = LogisticRegression(tol=1e-10).fit(survey.X[["age"]], reverse)
    np.testing.assert_allclose(study.coef_, theirs.coef_[0], rtol=1e-4)


def test_a_lazy_frame_is_asked_to_be_collected(survey):
    lazy = pl.from_pandas(survey.X[["age"]]).lazy()
    with pytest.raises(InputError, match="collect"):
        WhatIf(LogisticRegression()).fit(lazy, survey.y, lazy, survey.y_test)


def test_several_classes_work_everywhere_that_two_do(survey, pipeline):
    regions = survey.X["region"].astype("category")
    X, X_test = (
        survey.X[["age", "income", "children"]],
        survey.X_test[["age", "income", "children"]],
    )
    study = WhatIf(LogisticRegression()).fit(X, regions, X_test, survey.X_test["region"])
    assert study.coef_.shape == (3, 3)
    for method in ("influence", "newton", "exact", "paper", "retrain"):
        frame = study.estimate(epsilon=[0.5, 3.0], method=method, repeats=2).to_frame()
        assert frame["loss_change"].notna().all()
        assert frame["auc_change"].notna().all()
    with pytest.raises(InputError, match="one against the rest"):
        WhatIf(LogisticRegression(solver="liblinear")).fit(
            X, regions, X_test, survey.X_test["region"]
        )


def test_randomised_response_on_a_continuous_label_is_refused(survey):
    X, X_test = survey.X[["income"]], survey.X_test[["income"]]
    study = WhatIf(Ridge()).fit(X, survey.X["age"], X_test, survey.X_test["age"])
    with pytest.raises(InputError, match="continuous"):
        study.estimate(epsilon=1.0)
    with pytest.raises(InputError, match="continuous"):
        study.point_table()


def test_a_column_that_is_no_name_and_a_group_that_is_none_are_said(study):
    with pytest.raises(InputTypeError, match="`protect` must be the name of a column"):
        study.estimate(epsilon=1.0, protect=3)
    result = study.estimate(epsilon=1.0, method="influence")
    with pytest.raises(InputError, match="`group` must name a group of the result, got 'nobody'"):
        result.choose(max_loss_increase=0.1, group="nobody")
