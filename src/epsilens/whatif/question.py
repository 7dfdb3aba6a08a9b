# SPDX-License-Identifier: Apache-2.0
"""Reading a question about the label: what is protected, at which ε, for whom."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_choice, as_epsilon, require_column
from epsilens.channels import RandomizedResponse, parse_grid
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.whatif.groups import Group, read_groups, refuse_dependent_groups
from epsilens.whatif.label import Label

__all__ = ["Asked", "Epsilon", "read_question"]

Epsilon = float | str | Sequence[float] | NDArray[np.float64] | Mapping[str, float]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Asked:
    """A checked question.

    Attributes
    ----------
    label : Label
        With the domain that applies.
    name : str
        What the caller calls the label.
    groups : list of Group
    epsilons : tuple of float
        Ascending.
    is_mapping : bool
        Whether ε was given per column, so that no single number stands for it.
    channels : list of RandomizedResponse
        One per ε.
    notes : list of str
        Warnings given while reading.
    """

    label: Label
    name: str
    groups: list[Group]
    epsilons: tuple[float, ...]
    is_mapping: bool
    channels: list[RandomizedResponse]
    notes: list[str]


def read_question(
    label: Label,
    *,
    protect: str | Iterable[str] | None,
    epsilon: Epsilon,
    groups: Mapping[str, object] | None,
    categories: Mapping[str, Sequence[object]] | None,
    dependent_groups: str,
    table: object,
    columns: list[str],
    is_paper: bool = False,
) -> Asked:
    """Check a question; see `WhatIf.estimate` for the parameters."""
    as_choice(dependent_groups, ("refuse", "warn"), name="dependent_groups")
    name = _protected_label(protect, label.name, columns)
    epsilons, is_mapping = _as_grid(epsilon, name)
    for column in categories or {}:
        require_column(column, [name], argument="categories")
    if categories:
        label = label.with_domain(categories[name])
    codes, values = label.domain()
    notes = []
    if label.source == "observed":
        text = (
            f"the domain of {name!r} is taken from the observed labels, which tells whoever sees "
            "the release which values occur. Declare it with `categories`, or by a categorical dtype."
        )
        warnings.warn(text, PrivacyLeakWarning, stacklevel=4)
        notes.append(text)
    members = read_groups(groups, table=table, n_rows=len(label.y))
    notes += refuse_dependent_groups(
        members,
        codes,
        protected=name,
        action="warn" if is_paper or dependent_groups == "warn" else "refuse",
    )
    return Asked(
        label=label,
        name=name,
        groups=members,
        epsilons=epsilons,
        is_mapping=is_mapping,
        channels=[RandomizedResponse(len(values), value) for value in epsilons],
        notes=notes,
    )


def _protected_label(
    protect: str | Iterable[str] | None, label: str | None, columns: list[str]
) -> str:
    """Return the label's name if the label, and nothing else, is to be protected."""
    known = label or "label"
    if protect is None:
        return known
    names = [protect] if isinstance(protect, str) else list(protect)
    if len(names) == 0 or not all(isinstance(name, str) for name in names):
        raise InputError("`protect` must name at least one column, got none. Name the label.")
    features = [name for name in names if name in columns and name != label]
    if features:
        raise InputError(
            f"`protect` names the feature {features[0]!r}; this version randomises the label only. "
            f"Use protect=[{known!r}]."
        )
    if len(set(names)) > 1:
        raise InputError(
            f"`protect` must name the label only in this version, got {len(names)} names. Use "
            f"protect=[{known!r}]."
        )
    (name,) = set(names)
    if name in {known, "label", "y"}:
        return name if label is None else known
    if label is None and not difflib.get_close_matches(name, columns):
        # An unnamed label: what the caller calls it is its name.
        return name
    return require_column(name, [known, *columns], argument="protect")


def _as_grid(epsilon: object, name: str) -> tuple[tuple[float, ...], bool]:
    """Return ε ascending without repetition, and whether it came as a mapping (one cell)."""
    if isinstance(epsilon, Mapping):
        for column in epsilon:
            require_column(str(column), [name], argument="epsilon")
        if len(epsilon) != 1:
            raise InputError(f"`epsilon` must give a budget for {name!r}, got an empty mapping.")
        return (as_epsilon(next(iter(epsilon.values()))),), True
    if isinstance(epsilon, str):
        return parse_grid(epsilon), False
    if not isinstance(epsilon, Iterable) or np.ndim(epsilon) == 0:  # type: ignore[arg-type]
        value = epsilon.item() if isinstance(epsilon, np.ndarray | np.generic) else epsilon
        return (as_epsilon(value),), False
    values = sorted({as_epsilon(value) for value in np.ravel(np.asarray(epsilon)).tolist()})
    if not values:
        raise InputError("`epsilon` must have at least one value, got none.")
    return tuple(values), False
