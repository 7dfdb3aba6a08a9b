# SPDX-License-Identifier: Apache-2.0
"""The model that is trained when the user brings none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from epsilens._validate import as_positive
from epsilens.data import Prepared, Schema, build_encoder
from epsilens.data.encoding import MOST_DENSE_CATEGORIES
from epsilens.errors import InputError, setting
from epsilens.models.solver import MOST_FACTORISED

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


_MOST_NAMED = 3
_MOST_CELLS = 50_000_000
"""Numbers of a dense table of encoded records, 400 MB; several copies of it are made."""


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


def require_factorisable(prepared: Prepared, *, what: str, is_dense: bool = False) -> None:
    """Refuse a default model whose matrices would not fit into memory, before any is formed.

    A Hessian of 5,000 parameters takes 200 MB, and training many models takes about ten of them.

    Parameters
    ----------
    prepared : Prepared
        The data.
    what : str
        What the model is needed for.
    is_dense : bool
        Whether every zero of the encoded categories is stored as well.

    Raises
    ------
    InputError
        Naming the columns with most categories.

    Examples
    --------
    >>> from epsilens.data import load_survey, prepare
    >>> require_factorisable(prepare(load_survey(), label="affair"), what="an attack")
    """
    schema = prepared.schema
    widths = {name: len(schema[name].categories or ()) - 1 for name in schema.encoded_as("one-hot")}
    n_columns = sum(widths.values()) + len(schema.encoded_as("number")) + 1
    n_classes = len(prepared.label_categories)
    n_parameters = n_columns * (n_classes if n_classes > 2 else 1)
    most = MOST_FACTORISED
    if is_dense:
        most = min(most, max(MOST_DENSE_CATEGORIES, _MOST_CELLS // max(1, len(prepared.rows))))
    if n_parameters <= most or not widths:
        return
    widest = sorted(widths, key=lambda name: -widths[name])[:_MOST_NAMED]
    listed = ", ".join(f"{name} ({widths[name] + 1:,} categories)" for name in widest)
    raise InputError(
        f"{what} takes a model of at most {most:,} parameters, to stay below 3 GB of memory, but "
        f"this one has {n_parameters:,}. Leave out the widest columns with {setting('drop')}, or "
        f"join their categories: {listed}."
    )
