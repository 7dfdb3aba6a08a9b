# SPDX-License-Identifier: Apache-2.0
"""What each record of a table on disk is worth: the closed forms, piece by piece.

All that a record's worth needs of the others is the model with its curvature, and the test set's gradient and
Hessian, so every piece is appraised by itself, in one pass, with the formulas of `record_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens._validate import as_choice
from epsilens.errors import InputError, setting
from epsilens.influence.streamed_fit import fit_from_parquet
from epsilens.models import Problem
from epsilens.models.passes import Part
from epsilens.models.scikit_learn import read_specification
from epsilens.models.streamed_records import StreamedRows
from epsilens.valuation.appraisal import METHODS
from epsilens.valuation.record_steps import (
    FittedModel,
    LossDerivatives,
    ValuedRecords,
    coefficients_of_step,
    first_order,
    quadratic_forms,
    refuse_alone,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def leave_one_out_parquet(
    estimator: BaseEstimator,
    train: str | Path,
    test: str | Path,
    *,
    label: str,
    weight: str | None = None,
    drop: Sequence[str] = (),
    method: str = "newton",
    progress: Progress | None = None,
) -> FloatArray:
    """Return what each training record of parquet files is worth to the model.

    As `leave_one_out`, for tables that need not fit into memory; one number a record is kept.

    Parameters
    ----------
    estimator : scikit-learn estimator
        As in `WhatIf.fit_parquet`.
    train, test : path
        Parquet files, or folders of them.
    label : str
    weight : str, optional
    drop : sequence of str
        Columns that the model must not see.
    method : {"exact", "newton", "second-order", "first-order"}
        As in `leave_one_out`; "exact" is for linear and ridge models, whose closed form it is.
    progress : callable, optional

    Returns
    -------
    array of shape (n,)
        In the order of the rows.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn.linear_model import Ridge
    >>> folder = Path(tempfile.mkdtemp())
    >>> table = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0, 9.0]})
    >>> table.to_parquet(folder / "train.parquet")
    >>> table.assign(y=table["x"]).to_parquet(folder / "test.parquet")
    >>> files = folder / "train.parquet", folder / "test.parquet"
    >>> leave_one_out_parquet(Ridge(), *files, label="y", method="exact").round(2)
    array([ 0.36,  0.65,  3.81, -4.31])
    """
    method = as_choice(method, METHODS, name="method")
    baseline = fit_from_parquet(
        estimator, train, test, label=label, weight=weight, drop=drop, progress=progress
    )
    problem = baseline.problem
    if method == "exact" and not problem.is_quadratic:
        raise InputError(
            f"{setting('method', 'exact')} of a streamed table is for linear and ridge models: "
            f"others would read it again for every record. Use {setting('method', 'newton')}, or "
            "read the table into memory."
        )
    if read_specification(estimator).ridge_per_row:
        raise InputError(
            "an estimator whose penalty is of the mean (SGDClassifier) is another model without a record, "
            "which cannot be streamed. Use LogisticRegression, or read the table into memory."
        )
    if baseline.label.n_classes and (baseline.labels.counts == 1).any():
        raise InputError(
            "every class must have at least two training records, but one has one: without it the model "
            "would not know the class. Merge or drop the class."
        )
    worth = problem.by_row(
        _worth,
        FittedModel(problem.loss, problem.n_rows, baseline.theta, baseline.curvature),
        LossDerivatives(
            baseline.evaluation.gradient(baseline.theta),
            baseline.evaluation.hessian(baseline.theta),
        ),
        "newton" if method == "exact" else method,
        what="worth of records",
    )
    refuse_alone(worth)
    return worth


def _worth(
    problem: Problem,
    rows: StreamedRows,
    model: FittedModel,
    test: LossDerivatives,
    method: str,
) -> Part:
    records = ValuedRecords(problem.design, rows.y, problem.weights, -1)
    if method == "first-order":
        return {"row": [first_order(model, test.gradient, records)]}
    change = np.empty(len(records))
    for forms in quadratic_forms(model, test, records):
        step = coefficients_of_step(forms, method=method, change=-1)
        change[forms.rows] = forms.loss_change(step)
    return {"row": [change]}
