# SPDX-License-Identifier: Apache-2.0
"""A study of a table that is too large for memory: where its rows are, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epsilens._types import Progress
from epsilens._validate import as_choice, as_count, as_share, require_column, require_unique
from epsilens.data.columnar import frame_from_arrow
from epsilens.data.expressions import QUOTE_TEXT, Expression, parse_expression
from epsilens.data.parquet_pieces import ParquetSource, open_parquet
from epsilens.data.prepare import observed_domain
from epsilens.data.schema import Schema
from epsilens.document import EVERYBODY
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning, setting
from epsilens.influence.alternatives import as_mechanism, channel_of, no_alternatives
from epsilens.influence.groups import refuse_dependence, require_everybody
from epsilens.influence.question import (
    Asked,
    Epsilon,
    as_budgets,
    hashing_note,
    protected_names,
)
from epsilens.influence.streamed_baseline import StreamedBaseline, fit_streamed
from epsilens.influence.streamed_noise import StreamedGroup
from epsilens.models.scikit_learn import frozen_transformers
from epsilens.models.streamed_records import Coin, RowReading
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator


@dataclass(frozen=True, repr=False)
class StreamedFit:
    """A fitted model with what a study says of its table.

    Attributes
    ----------
    baseline : StreamedBaseline
    head : pandas.DataFrame
        The first rows, for names and types.
    """

    baseline: StreamedBaseline
    head: pd.DataFrame


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
) -> StreamedFit:
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
    head = _head(train_rows)
    return StreamedFit(replace(baseline, notes=(*notes, *baseline.notes)), head)


def _head(reading: RowReading) -> pd.DataFrame:
    """Return a few rows, for the names and types of the columns."""
    chosen = reading.first_rows(10).select(list(reading.features))
    return frame_from_arrow(chosen, name=reading.source.name)


# --- Reading a question about records on disk: their labels, at which ε, for whom ---


def read_streamed_question(
    baseline: StreamedBaseline,
    *,
    protect: str | Iterable[str] | None,
    epsilon: Epsilon,
    groups: Mapping[str, object] | None,
    categories: Mapping[str, Sequence[object]] | None,
    dependent_groups: str,
    mechanism: str = "rr",
    is_paper: bool = False,
) -> tuple[Asked, StreamedBaseline]:
    """Check a question; see `WhatIf.estimate` for the parameters.

    Returns
    -------
    Asked, and the model with the label's domain and the groups in its test set
    """
    as_choice(dependent_groups, ("refuse", "warn"), name="dependent_groups")
    how = as_mechanism(mechanism)
    reading = baseline.problem.rows.reading
    label = baseline.label
    names, label_name = protected_names(protect, label.name, list(reading.features))
    if label_name is None or len(names) > 1:
        raise InputError(
            "only the label can be protected while the table is streamed, got features. Read the table "
            "into memory with `fit`, or protect the label."
        )
    if how in {"oue", "rappor", "the"}:
        raise InputError(
            f"mechanism={how!r} is for a protected feature, and a streamed table protects its label. "
            "Use 'rr'."
        )
    budgets, is_mapping = as_budgets(epsilon, names)
    given = (categories or {}).get(label_name)
    for column in categories or {}:
        require_column(column, names, argument="categories", what="protected column")
    label = label.protected(given)
    notes: list[Note] = []
    _, values = label.domain()
    if label.origin == "observed":
        notes.append(observed_domain(label_name))
        notes[-1].warn(PrivacyLeakWarning, stacklevel=4)
    members = _read_groups(groups, reading.source.columns)
    asking = replace(baseline, label=label)
    if groups is None:
        # Everybody's size is known, and nobody is outside: no pass is needed to check that.
        members = [replace(members[0], size=baseline.problem.n_rows)]
        return _asked(asking, label_name, members, budgets, mechanism, notes, is_mapping=is_mapping)
    noises = asking.group_noises(members)
    members = [
        replace(group, size=int(noise.counts.sum()))
        for group, noise in zip(members, noises, strict=True)
    ]
    for group in members:
        if group.size == 0:
            raise InputError(
                f"group {group.name!r} must have at least one training row, got 0. Check its expression."
            )
        require_everybody(group.name, group.size, n_rows=baseline.problem.n_rows)
    everybody = np.zeros(len(values), dtype=np.int64)
    if baseline.label.values is not None:
        everybody[np.searchsorted(values, baseline.label.values)] = baseline.labels.counts
    notes += refuse_dependence(
        [
            (group.name, group.columns, noise.counts, everybody - noise.counts)
            for group, noise in zip(members, noises, strict=True)
        ],
        protected=label_name,
        action="warn" if is_paper or dependent_groups == "warn" else "refuse",
    )
    return _asked(asking, label_name, members, budgets, mechanism, notes, is_mapping=is_mapping)


def _asked(
    baseline: StreamedBaseline,
    name: str,
    members: list[StreamedGroup],
    budgets: list[dict[str, float]],
    mechanism: str,
    notes: list[Note],
    *,
    is_mapping: bool,
) -> tuple[Asked, StreamedBaseline]:
    """Return the checked question, and the model whose test set knows its groups."""
    how, label = as_mechanism(mechanism), baseline.label
    _, values = label.domain()
    if how in {"olh", "blh"}:
        notes.append(hashing_note(how))
    evaluation = baseline.evaluation.with_groups(tuple(group.expression for group in members))
    asked = Asked(
        label=label,
        names=(name,),
        label_is_protected=True,
        alternatives=no_alternatives(baseline.problem.rows.frame.design),
        groups=members,  # type: ignore[arg-type]
        epsilons=tuple(budget[name] for budget in budgets),
        record_epsilons=tuple(budget[name] for budget in budgets),
        is_mapping=is_mapping,
        label_channels=tuple(channel_of(how, len(values), b[name]) for b in budgets),
        feature_channels=(),
        mechanism=how,
        unary=None,
        budgets=tuple(budgets),
        notes=notes,
        n_answers=(len(values),),
    )
    return asked, replace(baseline, evaluation=evaluation)


def _read_groups(
    groups: Mapping[str, object] | None, columns: Sequence[str]
) -> list[StreamedGroup]:
    """Return the groups, by their expressions; none given means everybody."""
    if groups is None:
        return [StreamedGroup(EVERYBODY, None)]
    if not isinstance(groups, Mapping):
        raise InputTypeError(
            argument="groups",
            expected="a mapping from a name to an expression",
            got=type(groups).__name__,
            hint='Write groups={"women": \'sex == "F"\'}.',
        )
    if not groups:
        raise InputError(
            f"{setting('groups')} must name at least one group, got none. Use None for everybody."
        )
    require_unique((str(name) for name in groups), what="group names")
    result = []
    for place, (name, value) in enumerate(groups.items()):
        if not isinstance(value, str | Expression):
            raise InputTypeError(
                f"group {name!r} must be an expression while the table is streamed, got "
                f"{type(value).__name__}. Write it in words, such as 'age < 30'."
            )
        expression = value if isinstance(value, Expression) else parse_expression(value)
        for column in sorted(expression.columns):
            require_column(column, columns, argument=f"group {name}", advice=QUOTE_TEXT)
        result.append(StreamedGroup(str(name), expression, test_mask=place))
    return result
