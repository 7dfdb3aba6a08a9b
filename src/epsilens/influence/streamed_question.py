# SPDX-License-Identifier: Apache-2.0
"""Reading a question about records on disk: their labels, at which ε, for whom."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from epsilens._validate import as_choice, require_column, require_unique
from epsilens.data.expressions import QUOTE_TEXT, Expression, parse_expression
from epsilens.document import EVERYBODY
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning
from epsilens.influence.alternatives import no_alternatives
from epsilens.influence.groups import refuse_dependence, require_everybody
from epsilens.influence.mechanisms import as_mechanism, channel_of
from epsilens.influence.question import (
    Asked,
    Epsilon,
    as_budgets,
    hashing_note,
    observed_domain,
    protected_names,
)
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.streamed_noise import StreamedGroup

__all__ = ["read_streamed_question"]


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
    notes: list[str] = []
    _, values = label.domain()
    if label.origin == "observed":
        notes.append(observed_domain(label_name))
        warnings.warn(notes[-1], PrivacyLeakWarning, stacklevel=4)
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
    notes: list[str],
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
            "`groups` must be a mapping from a name to an expression, got "
            f'{type(groups).__name__}. Write groups={{"women": \'sex == "F"\'}}.'
        )
    if not groups:
        raise InputError("`groups` must name at least one group, got none. Use None for everybody.")
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
