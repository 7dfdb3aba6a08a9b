# SPDX-License-Identifier: Apache-2.0
"""A study of a table that is too large for memory: where its rows are, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from epsilens._types import Progress
from epsilens._validate import as_count, as_share
from epsilens.data.parquet_pieces import ParquetSource, open_parquet
from epsilens.data.schema import Schema
from epsilens.errors import InputError, setting
from epsilens.influence.streamed_baseline import StreamedBaseline, fit_streamed
from epsilens.models.scikit_learn import frozen_transformers
from epsilens.models.streamed_records import Coin, RowReading
from epsilens.notes import Note

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def readings_of(
    train: str | Path | ParquetSource,
    test: str | Path | ParquetSource | None,
    *,
    label: str,
    weight: str | None,
    drop: Sequence[str],
    test_share: float,
    seed: int,
) -> tuple[RowReading, RowReading, list[Note]]:
    """Return how training and test rows are read, and what must be said of it.

    Parameters
    ----------
    train, test : path or ParquetSource
        Without test data rows are set aside by a coin for every position.
    label : str
    weight : str, optional
    drop : sequence of str
        Columns that the model must not see.
    test_share : float in (0, 1)
    seed : int
    """
    source = train if isinstance(train, ParquetSource) else open_parquet(train)
    given = [name for name in (label, weight) if name is not None]
    source.require([label], argument="label")
    source.require([] if weight is None else [weight], argument="weight")
    source.require(drop, argument="drop")
    for argument, names in (("drop", drop), ("weight", [weight])):
        if label in names:
            raise InputError(
                f"column {label!r} is the label and cannot be named in {setting(argument)} too. "
                "Name it in one of them."
            )
    features = tuple(name for name in source.columns if name not in {*given, *drop})
    if not features:
        raise InputError(
            "at least one column must be left to learn from, got 0. Check which columns were dropped."
        )
    reading = RowReading(source, features, label, weight, "training")
    if test is not None:
        other = test if isinstance(test, ParquetSource) else open_parquet(test)
        lacking = [name for name in (*features, *given) if name not in other.columns]
        if lacking:
            raise InputError(
                f"the test data must have the columns of the training data, but {len(lacking)} are "
                f"missing: {', '.join(lacking[:8])}. Add them."
            )
        return reading, replace(reading, source=other, what="test"), []
    share = as_share(test_share, name="test_share")
    note = Note(
        "streamed-split",
        f"a coin for every row's position sets {share:.0%} of the rows aside for testing, the same ones "
        "at every run with this seed; the shares of the labels may differ a little between the two parts.",
    )
    return (
        replace(reading, coin=Coin(seed, share, aside=False)),
        replace(reading, what="test", coin=Coin(seed, share, aside=True)),
        [note],
    )


def fit_from_parquet(
    estimator: BaseEstimator,
    train: str | Path | ParquetSource,
    test: str | Path | ParquetSource | None,
    *,
    label: str,
    weight: str | None = None,
    drop: Sequence[str] = (),
    test_share: float = 0.25,
    seed: int = 0,
    schema: Schema | None = None,
    complete: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    progress: Progress | None = None,
) -> StreamedBaseline:
    """Fit a model to parquet files; see `WhatIf.fit_parquet` for the parameters.

    `schema` is that of the default model's encoder, if it is one; `complete` names the columns of training
    and test rows that lack some answers, whose rows are left out.
    """
    seed = as_count(seed, name="random_state", least=0)
    train_rows, test_rows, notes = readings_of(
        train, test, label=label, weight=weight, drop=drop, test_share=test_share, seed=seed
    )
    train_rows, test_rows = (
        replace(rows, complete=names)
        for rows, names in zip((train_rows, test_rows), complete, strict=True)
    )
    transformers = frozen_transformers(estimator)
    named = getattr(transformers, "feature_names_in_", None)
    if named is not None:
        # What the pipeline was fitted on, in its order; other columns are not even read.
        chosen = tuple(str(name) for name in named)
        train_rows.source.require(chosen, argument="estimator")
        test_rows.source.require(chosen, argument="estimator")
        train_rows, test_rows = (replace(rows, features=chosen) for rows in (train_rows, test_rows))
    train_rows, test_rows = (
        replace(rows, transformers=transformers, schema=schema).with_width()
        for rows in (train_rows, test_rows)
    )
    baseline = fit_streamed(estimator, train_rows, test_rows, progress=progress)
    return replace(baseline, notes=(*notes, *baseline.notes))
