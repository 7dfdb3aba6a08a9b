# SPDX-License-Identifier: Apache-2.0
"""Reading a question: which columns are protected, at which ε, for whom."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens._validate import (
    LARGEST_FINITE_EPSILON,
    as_choice,
    as_epsilon,
    bins_for,
    require_column,
)
from epsilens.channels import ProductChannel, RandomizedResponse, parse_grid
from epsilens.data.encoding import category_columns
from epsilens.data.frames import to_pandas
from epsilens.data.prepare import observed_domain
from epsilens.data.schema import LARGEST_NUMERIC_DOMAIN
from epsilens.errors import (
    ApproximationWarning,
    InputError,
    InputTypeError,
    PrivacyLeakWarning,
    phrase,
    setting,
)
from epsilens.influence.alternatives import (
    MOST_ENUMERATED,
    Alternatives,
    Mechanism,
    ProtectedFeature,
    UnaryBlock,
    channel_of,
    join_blocks,
    no_alternatives,
    read_block,
    refuse_other_type,
    whole_answers,
)
from epsilens.influence.any_model import AnyModel
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.groups import (
    Group,
    by_label,
    is_associated,
    join_groups,
    read_groups,
    refuse_dependence,
)
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.models import Design
from epsilens.models.label import Label
from epsilens.notes import Note

# --- The values that a protected feature can take, and every record's place among them ---


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class FeatureDomain:
    """A protected feature's values.

    Attributes
    ----------
    name : str
    categories : tuple
    codes : array of int, shape (n,)
    is_observed : bool
        Whether the values are only known from the data.
    """

    name: str
    categories: tuple[object, ...]
    codes: NDArray[np.int64]
    is_observed: bool


def read_domain(
    name: str, table: object, given: Sequence[object] | None, transformers: object | None
) -> FeatureDomain:
    """Find the domain: given, else the encoder's, else the dtype's, else what is observed.

    Parameters
    ----------
    name : str
    table : frame or array
        The training records.
    given : sequence, optional
        The domain that the caller vouches for.
    transformers : fitted pipeline, optional
        Whose encoder may know the categories.
    """
    import pandas as pd

    column = to_pandas(table)[name]
    missing = int(column.isna().sum())
    if missing:
        raise InputError(
            f"column {name!r} must not be missing to be protected, but {missing} values are. Drop "
            "those rows, or make missing a category."
        )
    is_observed = False
    if given is not None:
        categories = tuple(given)
        if len(set(categories)) != len(categories) or len(categories) < 2:
            raise InputError(
                f"{setting('categories')} of {name!r} must be at least two different values, got "
                f"{len(categories)} with {len(set(categories))} different."
            )
    elif (known := _encoder_categories(name, transformers)) is not None:
        categories = known
    elif isinstance(column.dtype, pd.CategoricalDtype) and not _only_collects(name, table):
        categories = tuple(column.dtype.categories.tolist())
    else:
        categories = tuple(
            sorted(column.unique().tolist(), key=lambda value: (str(type(value)), value))
        )
        is_observed = True
        is_number = pd.api.types.is_numeric_dtype(column.dtype)
        if is_number and len(categories) > LARGEST_NUMERIC_DOMAIN:
            raise InputError(
                f"column {name!r} has {len(categories)} distinct numbers, and randomised response "
                f"needs at most {LARGEST_NUMERIC_DOMAIN}. Put it into bins ({bins_for(name)})."
            )
    if len(categories) < 2:
        raise InputError(f"column {name!r} has one value only: there is nothing to protect.")
    codes = np.asarray(pd.Index(list(categories)).get_indexer(pd.Index(column.tolist())))
    outside = int((codes < 0).sum())
    if outside:
        raise InputError(
            f"the domain of {name!r} must contain every value, but {outside} rows have another. Add "
            "the missing categories."
        )
    return FeatureDomain(name, categories, codes.astype(np.int64), is_observed)


def _only_collects(name: str, table: object) -> bool:
    """Return whether the dtype merely lists what it has seen, as polars' Categorical does."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_polars():
        return False
    return not isinstance(frame.schema[name], nw.Enum)


def _encoder_categories(name: str, transformers: object | None) -> tuple[object, ...] | None:
    """Return the categories that a fitted encoder has for a column."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    steps = [step for _, step in transformers.steps] if isinstance(transformers, Pipeline) else []
    for step in steps:
        try:
            found = category_columns(step)
        except InputError:  # a step that is no encoder
            found = {}
        if name in found:
            return tuple(found[name])
        if isinstance(step, ColumnTransformer):
            for _, encoder, columns in step.transformers_:
                known = getattr(encoder, "categories_", None)
                names = [] if isinstance(columns, slice | str) else [str(c) for c in columns]
                if known is not None and name in names:
                    return tuple(known[names.index(name)].tolist())
    return None


# --- Reading a question: which columns are protected, at which ε, for whom ---

Epsilon: TypeAlias = (
    "float | str | Sequence[float] | FloatArray "
    "| Mapping[str, float] | Mapping[str, float | str | Sequence[float]]"
)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Question:
    """What a caller asks, not yet checked; see `WhatIf.estimate` for its parts.

    Attributes
    ----------
    is_paper : bool
        Whether the formulas are taken as printed, for which dependent groups are no reason to refuse.
    together : bool
        Whether all groups are randomised at once; ε is then a mapping from group to ε.
    """

    epsilon: Epsilon
    protect: str | Iterable[str] | None = None
    groups: Mapping[str, object] | None = None
    categories: Mapping[str, Sequence[object]] | None = None
    mechanism: str = "rr"
    is_paper: bool = False
    dependent_groups: str = "refuse"
    together: bool = False

    def is_same(self, other: Question) -> bool:
        """Return whether the very same objects are asked about, whatever is done about dependent groups."""
        names = ("epsilon", "protect", "groups", "categories", "mechanism", "is_paper", "together")
        return all(getattr(self, name) is getattr(other, name) for name in names)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class GroupChannels:
    """How the protected columns of one group are randomised in one cell.

    Attributes
    ----------
    group : Group
        Whose records; its `mask` says which training rows.
    epsilon : float
        ε of each protected column; for a mapping of columns the sum.
    record_epsilon : float
        The sum over the protected columns.
    label : RandomizedResponse or None
        The channel of the label; None if it is not protected.
    features : ProductChannel or None
        The channels of the protected features, in the order of the names; None if there are none.
    """

    group: Group
    epsilon: float
    record_epsilon: float
    label: RandomizedResponse | None
    features: ProductChannel | None


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Asked:
    """A checked question.

    Attributes
    ----------
    label : Label
        With the domain that applies.
    names : tuple of str
        The protected columns, as the caller calls them.
    label_is_protected : bool
    alternatives : Alternatives
        What the protected features could have been.
    groups : list of Group
    epsilons : tuple of float
        Per column, ascending; for a mapping the sum.
    record_epsilons : tuple of float
        The sum over the protected columns.
    is_mapping : bool
        Whether ε was given per column, so that no single number stands for it.
    label_channels : tuple of RandomizedResponse
        One per ε; empty if the label is not protected.
    feature_channels : tuple of ProductChannel
        One per ε; empty if no feature is protected, or it is reported bit by bit.
    mechanism : str
    unary : UnaryBlock or None
        The feature that is reported bit by bit.
    budgets : tuple of mapping
        ε of every protected column, one mapping per cell.
    notes : list of Note
        Warnings given while reading.
    n_answers : tuple of int
        How many answers each protected column may have, in the order of the names.
    features : tuple of FeatureDomain
        The protected features, in the order of the feature channels.
    mixed : tuple of tuples of GroupChannels
        Where groups are randomised at once, each at its own ε: for every cell the channels of every
        group. A record's channels are those of the group whose mask has it; a record in no group is
        left as it is. `groups` is then one group that has these as its parts, `epsilons` and
        `record_epsilons` are the largest of a cell's groups, and `label_channels`, `feature_channels`
        and `budgets` are empty. Empty where every cell has one group at one ε.
    """

    label: Label
    names: tuple[str, ...]
    label_is_protected: bool
    alternatives: Alternatives
    groups: list[Group]
    epsilons: tuple[float, ...]
    record_epsilons: tuple[float, ...]
    is_mapping: bool
    label_channels: tuple[RandomizedResponse, ...]
    feature_channels: tuple[ProductChannel, ...]
    mechanism: Mechanism
    unary: UnaryBlock | None
    budgets: tuple[dict[str, float], ...]
    notes: list[Note]
    n_answers: tuple[int, ...]
    features: tuple[FeatureDomain, ...] = ()
    mixed: tuple[tuple[GroupChannels, ...], ...] = ()

    @property
    def named_groups(self) -> list[Group]:
        """The groups as the caller named them."""
        return [part for group in self.groups for part in group.members]

    def epsilon_setting(self) -> dict[str, float] | dict[str, list[float]] | list[float]:
        """Return ε as it was asked for: a list, one for each column, or a list for each group."""
        if self.mixed:
            return {
                group.name: [cell[place].epsilon for cell in self.mixed]
                for place, group in enumerate(self.named_groups)
            }
        return dict(self.budgets[0]) if self.is_mapping else list(self.epsilons)

    def channels(self, group: Group, e: int) -> tuple[GroupChannels, ...]:
        """Return the channels of a cell: one entry, or one for each group that is randomised at once."""
        if self.mixed:
            return self.mixed[e]
        return (
            GroupChannels(
                group=group,
                epsilon=self.epsilons[e],
                record_epsilon=self.record_epsilons[e],
                label=self.label_channels[e] if self.label_channels else None,
                features=self.feature_channels[e] if self.feature_channels else None,
            ),
        )


def read_question(
    baseline: BaselineModel | StreamedBaseline | AnyModel, question: Question, *, columns: list[str]
) -> Asked:
    """Check a question about a model of these columns."""
    as_choice(question.dependent_groups, ("refuse", "warn"), name="dependent_groups")
    how: Mechanism = as_choice(question.mechanism, get_args(Mechanism), name="mechanism")  # type: ignore[assignment]
    groups, categories = question.groups, question.categories or {}
    label = baseline.label
    names, label_name = protected_names(question.protect, label.name, columns)
    if baseline.is_streamed:
        if label_name is None or len(names) > 1:
            raise InputError(
                "only the label can be protected while the table is streamed, got features. Read the "
                "table into memory with `fit`, or protect the label."
            )
        if how in {"oue", "rappor", "the"}:
            raise InputError(
                f"mechanism={how!r} is for a protected feature, and a streamed table protects its "
                "label. Use 'rr'."
            )
    by_group: dict[str, list[float]] | None = None
    budgets: list[dict[str, float]] = []
    is_mapping = False
    if question.together:
        by_group = as_group_budgets(question.epsilon, groups)
        if how in {"oue", "rappor", "the"}:
            raise InputError(
                f"mechanism={how!r} randomises one group at one epsilon. Use 'rr', or leave out "
                f"{setting('together')}."
            )
    else:
        budgets, is_mapping = as_budgets(question.epsilon, names)
    for column in categories:
        require_column(column, names, argument="categories", what="protected column")
    notes: list[Note] = []
    if isinstance(baseline, AnyModel) and how in {"oue", "rappor", "the"}:
        raise InputError(
            f"{setting('mechanism', how)} reports bits of a one-hot column, which a model that is trained again "
            f"as a whole does not show. Use {setting('mechanism', 'rr')}."
        )
    features: list[ProtectedFeature] = []
    domains: list[FeatureDomain] = []
    codes: dict[str, NDArray[np.int64]] = {}
    observed = []
    for name in names:
        given = categories.get(name)
        if name == label_name:
            label = label.protected(given)
            codes[name] = label.domain()[0]
            if label.origin == "observed":
                observed.append(name)
            continue
        assert not isinstance(baseline, StreamedBaseline)  # noqa: S101  (refused above)
        domain = read_domain(name, baseline.table, given, baseline.transformers)
        domains.append(domain)
        codes[name] = domain.codes
        if domain.is_observed:
            observed.append(name)
        if isinstance(baseline, AnyModel):
            refuse_other_type(baseline.table, name, domain.categories)
            continue
        feature = read_block(
            name,
            baseline.table,
            domain.categories,
            domain.codes,
            baseline.transform,
            baseline.transform(baseline.table),
        )
        _refuse_outside(feature, baseline.empty)
        features.append(feature)
    for name in observed:
        notes.append(observed_domain(name))
        notes[-1].warn(PrivacyLeakWarning, stacklevel=5)
    members: list[Group]
    streamed = None
    design: Design | None
    if isinstance(baseline, StreamedBaseline):
        streamed = replace(baseline, label=label)
        design, members = baseline.evaluation.design, streamed.read_groups(groups)
    else:
        design = baseline.problem.design if isinstance(baseline, BaselineModel) else None
        members = read_groups(
            groups, table=baseline.table, test_table=baseline.test_table, n_rows=baseline.n_rows
        )
    # Without groups nobody is outside.
    refuses = not question.is_paper and question.dependent_groups == "refuse"
    for name in names if groups is not None else ():
        counted = [
            by_label(group, codes[name]) if streamed is None else streamed.by_label(group)
            for group in members
        ]
        notes += refuse_dependence(
            [
                (group.name, group.columns, *counts)
                for group, counts in zip(members, counted, strict=True)
            ],
            protected=name,
            action="refuse" if refuses else "warn",
        )
    unary = None
    if how in {"oue", "rappor", "the"}:
        unary = _unary(how, features, label_name, budgets, is_paper=question.is_paper)
        if unary.is_sampled:
            notes.append(
                Note(
                    "sampled-patterns",
                    f"the bits of {features[0].name!r} have too many patterns: the expectation is over "
                    f"{len(unary.patterns)} sampled ones, and carries their Monte-Carlo error.",
                )
            )
    if how in {"olh", "blh"}:
        notes.append(
            Note(
                "local-hashing",
                f"{how.upper()} is randomised response at a smaller effective epsilon, so never better "
                "for this; the budget spent is the one asked for.",
            )
        )
    size = len(label.values) if label.values is not None else 0
    sizes = {domain.name: len(domain.categories) for domain in domains}
    if design is None:
        alternatives = whole_answers(
            [(domain.codes, len(domain.categories)) for domain in domains], baseline.n_rows
        )
    elif unary is not None:
        alternatives = unary.alternatives(design)
    else:
        alternatives = join_blocks(design, features) if features else no_alternatives(design)
    mixed: tuple[tuple[GroupChannels, ...], ...] = ()
    if by_group is not None:
        n_columns = len(names)

        def channels_of(group: Group, epsilon: float) -> GroupChannels:
            own = [channel_of(how, len(domain.categories), epsilon) for domain in domains]
            return GroupChannels(
                group=group,
                epsilon=epsilon,
                record_epsilon=math.fsum([epsilon] * n_columns),
                label=None if label_name is None else channel_of(how, size, epsilon),
                features=ProductChannel(own) if own else None,
            )

        mixed = tuple(
            tuple(channels_of(group, own) for group, own in zip(members, cell, strict=True))
            for cell in zip(*(by_group[group.name] for group in members), strict=True)
        )
        joined = join_groups(members) if streamed is None else streamed.join_groups(members)
        members = [joined]
        n_left = baseline.n_rows - joined.size
        if n_left:
            notes.append(
                Note(
                    "records-in-no-group",
                    f"{n_left} of {baseline.n_rows} training records are in no group: their "
                    "answers are left as they are, and no ε protects them.",
                )
            )
    return Asked(
        label=label,
        names=tuple(names),
        label_is_protected=label_name is not None,
        alternatives=alternatives,
        groups=members,
        epsilons=tuple(max(part.epsilon for part in cell) for cell in mixed)
        or tuple(
            math.fsum(budget.values()) if is_mapping else budget[names[0]] for budget in budgets
        ),
        record_epsilons=tuple(max(part.record_epsilon for part in cell) for cell in mixed)
        or tuple(math.fsum(budget.values()) for budget in budgets),
        is_mapping=is_mapping,
        label_channels=tuple(channel_of(how, size, budget[label_name]) for budget in budgets)
        if label_name is not None
        else (),
        feature_channels=tuple(
            ProductChannel([channel_of(how, sizes[f.name], budget[f.name]) for f in domains])
            for budget in budgets
        )
        if domains and unary is None
        else (),
        mechanism=how,
        unary=unary,
        budgets=tuple(budgets),
        notes=notes,
        n_answers=tuple(sizes.get(name, size) for name in names),
        features=tuple(domains),
        mixed=mixed,
    )


def _refuse_outside(feature: ProtectedFeature, empty: FloatArray) -> None:
    """Refuse alternatives that leave what the training features span without a penalty."""
    if empty.shape[1] == 0 or len(feature.columns) == 0:
        return
    moves = (feature.rows - feature.rows[0]) @ empty[feature.columns]
    if np.abs(moves).max() > 1e-7 * (1.0 + np.abs(feature.rows).max()):
        raise InputError(
            f"the alternatives of {feature.name!r} lie outside what the training records span (a "
            "copy of the column, a nested one, or a category that does not occur), and without a "
            "penalty nothing says how the model would go there. Add regularisation."
        )


def _unary(
    how: Mechanism,
    features: list[ProtectedFeature],
    label_name: str | None,
    budgets: list[dict[str, float]],
    *,
    is_paper: bool,
) -> UnaryBlock:
    if label_name is not None or len(features) != 1 or is_paper:
        raise InputError(
            f"{setting('mechanism', how)} is for one protected one-hot feature, without the label, and "
            "has no printed formula. Protect one feature, or use 'rr'."
        )
    (feature,) = features
    if max(budget[feature.name] for budget in budgets) > LARGEST_FINITE_EPSILON:
        raise InputError(
            f"{setting('mechanism', how)} needs epsilon of at most {LARGEST_FINITE_EPSILON:g}. Use 'rr' for inf."
        )
    if len(feature.rows) > MOST_ENUMERATED and len(budgets) > 1:
        raise InputError(
            f"mechanism={how!r} on a column of {len(feature.rows)} categories samples its patterns "
            "for one epsilon at a time. Ask for one."
        )
    return UnaryBlock.of(how, feature, epsilon=budgets[0][feature.name], seed=0)


def protected_names(
    protect: str | Iterable[str] | None, label: str | None, columns: list[str]
) -> tuple[list[str], str | None]:
    """Return the protected columns, and the name among them that means the label."""
    known = label or "label"
    if protect is None:
        return [known], known
    if not isinstance(protect, Iterable):
        raise InputTypeError(
            argument="protect",
            expected="the name of a column or a list of names",
            got=type(protect).__name__,
            hint="Name the label.",
        )
    names = [protect] if isinstance(protect, str) else list(protect)
    if len(names) == 0:
        raise InputError(
            f"{setting('protect')} must name at least one column, got none. Name the label."
        )
    for name in names:
        if not isinstance(name, str):
            raise InputTypeError(
                argument="protect",
                expected="names of columns",
                got=type(name).__name__,
                hint="Those of an array are x0, x1, and so on.",
            )
    result: list[str] = []
    label_name = None
    for name in dict.fromkeys(names):
        if name in columns and name != label:
            result.append(name)
            continue
        if name in {known, "label", "y"}:
            label_name = name if label is None else known
        elif label is None and label_name is None and not difflib.get_close_matches(name, columns):
            # An unnamed label: what the caller calls it is taken for its name, and said.
            label_name = name
            Note(
                "unnamed-label",
                f"the label has no name: {name!r}, which is no column of X, is taken to mean it.",
            ).warn(ApproximationWarning, stacklevel=6)
        else:
            require_column(name, [known, *columns], argument="protect")
        if label_name is not None and label_name not in result:
            result.append(label_name)
    return result, label_name


def as_budgets(epsilon: object, names: list[str]) -> tuple[list[dict[str, float]], bool]:
    """Return a budget per column for every cell, ascending, and whether ε came as a mapping."""
    if isinstance(epsilon, Mapping):
        for column in epsilon:
            require_column(
                str(column),
                names,
                argument="epsilon",
                what="protected column",
                advice=f"Add it to {setting('protect')}, or leave it out.",
            )
        lacking = [name for name in names if name not in epsilon]
        if lacking:
            raise InputError(
                f"{setting('epsilon')} must give a budget for every protected column, but has "
                f"none for {lacking[0]!r}."
            )
        return [{name: as_epsilon(epsilon[name]) for name in names}], True
    return [dict.fromkeys(names, value) for value in read_grid(epsilon)], False


def as_group_budgets(
    epsilon: object, groups: Mapping[str, object] | None
) -> dict[str, list[float]]:
    """Return the ε of every group, one per cell: lists of equal length, a single ε repeated.

    Examples
    --------
    >>> groups = {"women": "sex == 'F'", "men": "sex == 'M'"}
    >>> as_group_budgets({"women": [0.5, 1.0], "men": 3.0}, groups)
    {'women': [0.5, 1.0], 'men': [3.0, 3.0]}
    """
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(
            f"{setting('together')} randomises several groups at once, and none is given. Name them in "
            f"{setting('groups')}."
        )
    if not isinstance(epsilon, Mapping):
        raise InputTypeError(
            argument="epsilon",
            expected=f"an ε for each group with {setting('together')}",
            got=type(epsilon).__name__,
            hint=phrase(
                'Write epsilon={"women": 1.0, "men": 3.0}.',
                command="Write --epsilon women=1,men=3.",
            ),
        )
    names = [str(name) for name in groups]
    given = {str(name): value for name, value in epsilon.items()}
    for name in given:
        require_column(name, names, argument="epsilon", what="group")
    lacking = [name for name in names if name not in given]
    if lacking:
        raise InputError(
            f"{setting('epsilon')} must give an ε for every group, but has none for {lacking[0]!r}. Use "
            "inf to leave a group's answers as they are."
        )
    lists = {name: _in_order(given[name]) for name in names}
    longest = max(len(values) for values in lists.values())
    for name, values in lists.items():
        if len(values) not in (1, longest):
            raise InputError(
                f"the lists of ε must have one length, but the longest has {longest} values and that of "
                f"group {name!r} has {len(values)}. Each position is one cell."
            )
    return {
        name: values * longest if len(values) == 1 else values for name, values in lists.items()
    }


def _in_order(epsilon: object) -> list[float]:
    """Return one ε or several, in the order given."""
    if isinstance(epsilon, str) or not isinstance(epsilon, Iterable) or np.ndim(epsilon) == 0:  # type: ignore[arg-type]
        return list(read_grid(epsilon))
    values = [as_epsilon(value) for value in np.ravel(np.asarray(epsilon)).tolist()]
    return values or list(read_grid(values))


def read_grid(epsilon: object) -> Sequence[float]:
    """Return the values of a grid, ascending: a number, several, or text such as "0.1:10:30"."""
    if isinstance(epsilon, str):
        values: Sequence[float] = parse_grid(epsilon)
    elif not isinstance(epsilon, Iterable) or np.ndim(epsilon) == 0:  # type: ignore[arg-type]
        single = epsilon.item() if isinstance(epsilon, np.ndarray | np.generic) else epsilon
        values = (as_epsilon(single),)
    else:
        values = sorted({as_epsilon(value) for value in np.ravel(np.asarray(epsilon)).tolist()})
    if not values:
        raise InputError(f"{setting('epsilon')} must have at least one value, got none.")
    return values


# --- Forward correction: a loss that knows the noise of the label ---

_NOT_IN_THE_PROOF = phrase("; P1's proof does not say so", page="")
_CONDITIONS_OF_CORRECTION = Note(
    "correction-conditions",
    f"forward correction leads back to the model of the true labels{phrase(' (P1 Thm 1)', page='')} only "
    "if the model is well specified and who is in the group does not depend on the label, given the "
    f"features{_NOT_IN_THE_PROOF}.",
)


def as_correction(
    correction: str | None, asked: Asked, baseline: BaselineModel | StreamedBaseline | AnyModel
) -> bool:
    """Return whether the loss is corrected, and note under which conditions that helps."""
    if (
        correction is None
        or as_choice(correction, ("none", "forward"), name="correction") == "none"
    ):
        return False
    if not asked.label_is_protected:
        raise InputError(
            f"{setting('correction')} is for a randomised label, and the label is not protected. "
            "Leave it out, or protect the label."
        )
    if isinstance(baseline, AnyModel):
        raise InputError(
            f"{setting('correction')} changes the loss that is minimised, which needs a logistic model. Leave it "
            "out."
        )
    if baseline.is_streamed:
        raise InputError(
            f"{setting('correction')} cannot be streamed. Leave it out, or read the table into "
            "memory with `fit`."
        )
    if baseline.problem.loss.is_quadratic:
        raise InputError(
            f"{setting('correction')} mixes predicted probabilities, and a squared loss has none. "
            f"Leave it out, or {phrase('use LogisticRegression', page='predict a column of answers')}."
        )
    asked.notes.append(_CONDITIONS_OF_CORRECTION)
    codes, _ = asked.label.domain()
    for group in asked.named_groups:
        if is_associated(group.mask, codes):
            note = Note(
                "group-depends-on-label",
                f"who is in group {group.name!r} goes with the label: unless the features explain "
                "that, forward correction leads away from the model of the true labels.",
                group.name,
            )
            note.warn(ApproximationWarning, stacklevel=4)
            asked.notes.append(note)
    return True
