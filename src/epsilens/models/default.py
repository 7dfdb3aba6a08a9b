# SPDX-License-Identifier: Apache-2.0
"""The model that is trained when the user brings none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from epsilens._validate import as_positive
from epsilens.data import Schema, build_encoder

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["default_estimator"]


def default_estimator(
    schema: Schema,
    *,
    model: Literal["logistic", "ridge"] = "logistic",
    regularisation: float | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    keep_all: Sequence[str] = (),
) -> Pipeline:
    """Build the default pipeline: one-hot categories, standardised numbers, a linear model.

    Parameters
    ----------
    schema : Schema
        The columns to learn from.
    model : {"logistic", "ridge"}
    regularisation : float, optional
        C of LogisticRegression or alpha of Ridge; 1 unless given.
    categories : mapping of str to sequence of str, optional
        All possible answers of columns of categories: each gets a column, whether it occurs or not.
    keep_all : sequence of str
        Columns whose first category gets a column too, as reports of bits need it.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Not yet fitted.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import infer_schema
    >>> schema = infer_schema(pd.DataFrame({"age": [31.0, 42.5, 53.0]}))
    >>> default_estimator(schema, model="ridge").steps[-1][1]
    Ridge()
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import Pipeline

    strength = 1.0
    if regularisation is not None:
        strength = as_positive(regularisation, name="regularisation")
    final = LogisticRegression(C=strength) if model == "logistic" else Ridge(alpha=strength)
    declared = categories or {}
    columns = tuple(
        replace(column, categories=tuple(declared[column.name]))
        if column.encoding == "one-hot" and column.name in declared
        else column
        for column in schema.columns
    )
    schema = replace(schema, columns=columns)
    return Pipeline([("encode", build_encoder(schema, keep_all=keep_all)), ("model", final)])
