# SPDX-License-Identifier: Apache-2.0
"""Names of groups, columns and categories replaced by numbers, so that a document can travel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from epsilens.document.audit import AuditDocument
from epsilens.document.decision import TITLES, DecisionDocument, Recommendation
from epsilens.document.federation import FederationDocument
from epsilens.document.kinds import InspectDocument, ReleaseDocument
from epsilens.document.mask import MaskDocument
from epsilens.document.parts import DocumentHead, Provenance
from epsilens.document.risk import GroupRiskCell, RiskDocument
from epsilens.document.training import TrainingDocument
from epsilens.document.whatif import OutcomeInterval, WhatIfCell, WhatIfDocument
from epsilens.document.wording import EVERYBODY, budget_text, budgets_text, joined_name
from epsilens.notes import NOTES, Note, distinct_notes

WITHHELD = "withheld"
WITHHELD_WARNING = "A warning is withheld here because it may name columns, groups or categories."

_COLUMN_SETTINGS = frozenset(
    {"label", "protect", "drop", "weight", "categorical", "columns", "identity"}
)
_TYPED_FOR_COLUMNS = frozenset({"bins", "epsilon"})
"""Settings that are names of columns, or numbers with or without one: `age=0:100:10`."""
_GROUP_SETTINGS = frozenset({"group", "groups"})
_CATEGORY_SETTINGS = frozenset({"positive", "categories"})
_OWN_WORDS = frozenset(
    {
        *TITLES,
        "curator",
        "nobody",
        "answer",
        "record",
        "auto",
        "influence",
        "newton",
        "second-order",
        "first-order",
        "exact",
        "near-exact",
        "retrain",
        "paper",
        "output-perturbation",
        "output perturbation",
        "tight",
        "add-remove",
        "replace-one",
        "PrivateLogisticRegression",
        "PrivateRidge",
        "retrained",
        "undeclared",
        "none",
        "forward",
        "error",
        "category",
        "drop",
        "logistic",
        "ridge",
        "classification",
        "regression",
        "default",
        "all",
        "inf",
        "-inf",
        "csv",
        "csv.gz",
        "tsv",
        "parquet",
        "arrow",
        "feather",
        "excel",
        "spss",
        "stata",
        "sas",
        "rr",
        "gaussian-sum",
        "private-ridge",
        "dpsgd",
        "shap",
        "lime",
        "global",
        "identity",
        "knapsack",
        "top-share",
        "random",
        "held-out",
        "public",
        "randomised response",
        "DP-SGD",
        "shadow models",
        "decision",
        "most common answer",
        "published model",
        "boosted trees",
        "forest",
        "people with the same value",
        "linear model",
        "offline",
        "online",
        "softmax",
        "pure",
        "approximate",
        "f-dp",
        "independent-gdp",
        "gaussian-scores",
        "all scores",
        "weighted",
        "residual",
        "path",
        "bonferroni",
        "split",
        "as_printed",
        "degrade",
        "redraw",
        "one-message",
        "fedavg",
        "in process",
        "label",
        "flower simulation",
        "squared",
        "Pipeline",
        "LogisticRegression",
        "SGDClassifier",
        "Ridge",
        "RidgeClassifier",
        "LinearRegression",
        "utf-8",
        "utf-8-sig",
        "utf-16",
        "cp1252",
        "latin-1",
        ",",
        ";",
        "\t",
        "|",
    }
)
_GRID = re.compile(r"(lin:)?[0-9.,:e+-]*(inf)?")

_D = TypeVar("_D", bound=DocumentHead)
_R = TypeVar("_R", bound=Recommendation)
_C = TypeVar("_C", WhatIfCell, OutcomeInterval, GroupRiskCell)


class _Names:
    """Numbers names in the order in which they are met."""

    def __init__(self, word: str, *, keep: frozenset[str] = frozenset()) -> None:
        self._word = word
        self._keep = keep
        self._numbers: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name in self._keep:
            return name
        return self._numbers.setdefault(name, f"{self._word} {len(self._numbers) + 1}")


def anonymise(document: _D) -> _D:
    """Replace every name that comes from the data by a number.

    A document holds no record, but the names of columns, groups and categories can tell a reader
    what a data set is about. Here they become "column 1", "group 1" and "category 1", the same
    name always the same number. Warnings, notes, file names and the suggested command may contain
    names in free text, so they are withheld, and so is the fingerprint, which could confirm a
    guess at the names. The numbers stay as they are.

    Parameters
    ----------
    document : Document
        Any document of the package; it is left as it was.

    Returns
    -------
    Document
        A document of the same kind.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> receipt = example_document("release")
    >>> anonymise(receipt).epsilon
    {'column 1': 1.0}
    """
    return _anonymous(document, _Names("column"), _Names("group", keep=frozenset({EVERYBODY})))


def _anonymous(document: _D, columns: _Names, groups: _Names) -> _D:
    changes: dict[str, object] = {}
    if isinstance(document, WhatIfDocument):
        changes["cells"] = [_in_group(cell, groups) for cell in document.cells]
        changes["intervals"] = [_in_group(item, groups) for item in document.intervals]
    elif isinstance(document, ReleaseDocument):
        changes["columns"] = [columns(name) for name in document.columns]
        changes["epsilon"] = {columns(name): spent for name, spent in document.epsilon.items()}
    elif isinstance(document, TrainingDocument):
        changes["label"] = columns(document.label)
        changes["columns"] = [columns(name) for name in document.columns]
    elif isinstance(document, DecisionDocument):
        # The same column has the same number in both: cost first, as it is shown.
        changes["cost"] = cost = _anonymous(document.cost, columns, groups)
        changes["risk"] = _anonymous(document.risk, columns, groups)
        named, numbered = budgets_text(document.cost), budgets_text(cost) or ""
        told = [] if named is None else [(named, numbered)]
        for mine, other in zip(document.cost.cells, cost.cells, strict=True):
            if mine.group_epsilons is not None and other.group_epsilons is not None:
                told.append((budget_text(mine), budget_text(other)))
                pairs = zip(mine.group_epsilons, other.group_epsilons, strict=True)
                told += [(f"“{name}” at", f"“{number}” at") for name, number in pairs]
        changes["recommendation"] = _said_with(document.recommendation, told, groups)
        changes["alternatives"] = [
            _said_with(other, told, groups) for other in document.alternatives
        ]
        changes["mechanisms"] = [
            curve.model_copy(
                update={
                    "cells": [
                        cell.model_copy(update=_numbered_budgets(cell.group_epsilons, groups))
                        for cell in curve.cells
                    ]
                }
            )
            for curve in document.mechanisms
        ]
        if document.lever is not None:
            masked = [columns(name) for name in document.lever.masked]
            changes["lever"] = document.lever.model_copy(update={"masked": masked})
    if isinstance(document, RiskDocument):
        changes["cells"] = [
            cell.model_copy(update=_numbered_budgets(cell.group_epsilons, groups))
            for cell in document.cells
        ]
        changes["group_cells"] = [_in_group(cell, groups) for cell in document.group_cells]
    if isinstance(document, RiskDocument | FederationDocument):
        changes["protect"] = [columns(name) for name in document.protect]
    elif isinstance(document, MaskDocument):
        changes["features"] = [
            feature.model_copy(update={"name": columns(feature.name)})
            for feature in document.features
        ]
        changes["kept"] = [columns(name) for name in document.kept]
        changes["masked"] = [columns(name) for name in document.masked]
    elif isinstance(document, AuditDocument):
        if document.mechanism not in _OWN_WORDS:
            changes["mechanism"] = WITHHELD
    elif isinstance(document, InspectDocument):
        changes["columns"] = [
            column.model_copy(
                update={
                    "name": columns(column.name),
                    "categories": _numbered(column.categories),
                    "note": None if column.note is None else WITHHELD,
                }
            )
            for column in document.columns
        ]
        changes["suggestion"] = None
    changes["provenance"] = _anonymous_provenance(document.provenance, columns, groups)
    shown = [_without_names(note) if note.has_names else note for note in document.notes]
    changes["notes"] = distinct_notes(shown)
    return document.model_copy(update=changes)


def _without_names(note: Note) -> Note:
    """Return what a note is about, in words that name nothing; a note of no known code is withheld."""
    kind = NOTES.get(note.code)
    if kind is None or note.code == "unclassified":
        return Note("withheld", WITHHELD_WARNING)
    return Note(note.code, f"{kind.meaning} Names are withheld here.")


def _numbered_budgets(budgets: dict[str, float] | None, groups: _Names) -> dict[str, object]:
    """Return the change that names the groups of some budgets by their numbers."""
    if budgets is None:
        return {}
    return {"group_epsilons": {groups(name): own for name, own in budgets.items()}}


def _in_group(cell: _C, groups: _Names) -> _C:
    """Return a cell that names its group, or each of those it joins, by a number."""
    budgets = _numbered_budgets(cell.group_epsilons, groups)
    name = cell.group
    if cell.group_epsilons is not None and name == joined_name(cell.group_epsilons):
        name = joined_name(groups(part) for part in cell.group_epsilons)
    else:
        name = groups(name)
    return cell.model_copy(update={"group": name, **budgets})


def _said_with(chosen: _R, told: list[tuple[str, str]], groups: _Names) -> _R:
    """Return a recommendation that names columns and groups by their numbers, without its command."""

    def said(text: str) -> str:
        for named, numbered in told:
            text = text.replace(named, numbered)
        return text

    texts = {name: getattr(chosen, name, None) for name in ("sentence", "reason")}
    changes: dict[str, object] = {name: said(text) for name, text in texts.items() if text}
    changes |= {"command": None, "details": [said(text) for text in chosen.details]}
    return chosen.model_copy(update=changes | _numbered_budgets(chosen.group_epsilons, groups))


def _numbered(categories: list[str] | None) -> list[str] | None:
    if categories is None:
        return None
    return [f"category {number}" for number in range(1, len(categories) + 1)]


def _anonymous_provenance(provenance: Provenance, columns: _Names, groups: _Names) -> Provenance:
    settings = {
        # With an ε for each group the names beside it are those of groups.
        name: _anonymous_setting(
            name,
            value,
            groups if name == "epsilon" and provenance.settings.get("together") else columns,
            groups,
        )
        for name, value in provenance.settings.items()
    }
    return provenance.model_copy(update={"settings": settings, "schema_fingerprint": None})


def _anonymous_setting(name: str, value: object, columns: _Names, groups: _Names) -> object:
    if name in _CATEGORY_SETTINGS:
        return None if value is None else WITHHELD
    if name in _TYPED_FOR_COLUMNS:
        return _rename(value, lambda text: _anonymous_numbers(text, columns), columns)
    if name in _COLUMN_SETTINGS:
        return _rename(value, columns, columns)
    if name in _GROUP_SETTINGS:
        return _rename(value, groups, groups, values_are_names=not isinstance(value, dict))
    return _rename(value, lambda text: text if text in _OWN_WORDS else WITHHELD, columns)


def _anonymous_numbers(text: str, columns: _Names) -> str:
    """Rename the column in `age=0:100:10`, and in each part of `sex=1,income=2`; numbers stay."""
    if _GRID.fullmatch(text):
        return text
    parts = [part.rpartition("=") for part in text.split(",")]
    if all(name and _GRID.fullmatch(numbers) for name, _, numbers in parts):
        return ",".join(f"{columns(name.strip())}={numbers}" for name, _, numbers in parts)
    return columns(text)


def _rename(
    value: object,
    text: Callable[[str], str],
    key: Callable[[str], str],
    *,
    values_are_names: bool = True,
) -> object:
    if isinstance(value, str):
        return text(value) if values_are_names else WITHHELD
    if isinstance(value, list):
        return [_rename(item, text, key, values_are_names=values_are_names) for item in value]
    if isinstance(value, dict):
        return {
            key(name): _rename(item, text, key, values_are_names=values_are_names)
            for name, item in value.items()
        }
    return value
