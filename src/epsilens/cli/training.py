# SPDX-License-Identifier: Apache-2.0
"""From what was typed about a table to a trained model: the way that several commands share."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from epsilens.cli.options import (
    MissingChoice,
    ModelChoice,
    categories_of,
    comma_list,
    delimiter_from,
    mapping_of_bins,
)
from epsilens.errors import InputError, PrivacyLeakWarning

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from epsilens.data import Prepared, TableFile
    from epsilens.document import (
        DecisionDocument,
        FederationDocument,
        MaskDocument,
        RiskDocument,
        WhatIfDocument,
    )

__all__ = [
    "TableOptions",
    "check_gives_probabilities",
    "check_loss",
    "check_rate",
    "declared_domains",
    "estimator_for",
    "fit_on",
    "read_epsilon",
    "with_notes",
]


class _Study(Protocol):
    """What is fitted to training and test data."""

    def fit(
        self,
        X: object,
        y: object,
        X_test: object,
        y_test: object,
        sample_weight: object | None = None,
        *,
        sample_weight_test: object | None = None,
    ) -> object:
        """Train the model."""


_S = TypeVar("_S", bound=_Study)
_D = TypeVar(
    "_D",
    "WhatIfDocument",
    "RiskDocument",
    "DecisionDocument",
    "MaskDocument",
    "FederationDocument",
)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is to be read, as it was typed.

    Examples
    --------
    >>> TableOptions(label="smokes").model.value
    'logistic'
    """

    label: str
    test: str | None = None
    drop: Sequence[str] | None = None
    weight: str | None = None
    categorical: Sequence[str] | None = None
    bins: Sequence[str] | None = None
    missing: MissingChoice = MissingChoice.auto
    delimiter: str | None = None
    encoding: str | None = None
    positive: str | None = None
    test_share: float = 0.25
    model: ModelChoice = ModelChoice.logistic
    seed: int = 0

    def prepare(
        self,
        data: str,
        *,
        groups: Sequence[str] = (),
        candidates: str | None = None,
        beside: Sequence[str] = (),
    ) -> Prepared:
        """Read the files and turn them into checked training and test data.

        Parameters
        ----------
        data : str
            The training data, or all data where no test data were named.
        groups : sequence of str
            `[NAME=]EXPRESSION` each.
        candidates : str, optional
            Records on offer.
        beside : sequence of str
            Columns that come along and that the model does not see.
        """
        from epsilens.data import prepare

        return prepare(
            self._read(data),
            label=self.label,
            drop=comma_list(self.drop),
            weight=self.weight,
            categorical=comma_list(self.categorical),
            bins=mapping_of_bins(self.bins),
            missing=self.missing.value,
            test=self._read(self.test),
            test_share=self.test_share,
            seed=self.seed,
            positive=self.positive,
            groups=groups,
            task="classification" if self.model is ModelChoice.logistic else "regression",
            candidates=self._read(candidates),
            beside=beside,
        )

    def _read(self, source: str | None) -> TableFile | None:
        from epsilens.data import read_table

        if source is None:
            return None
        return read_table(source, delimiter=delimiter_from(self.delimiter), encoding=self.encoding)


def estimator_for(
    prepared: Prepared,
    *,
    model: ModelChoice,
    regularisation: float | None,
    protect: Sequence[str] = (),
    categories: Sequence[str] | None = None,
    keep_all: Sequence[str] = (),
) -> Pipeline:
    """Build the default model; a protected feature has a column for every answer that was declared.

    Parameters
    ----------
    prepared : Prepared
        The data.
    model : ModelChoice
    regularisation : float, optional
    protect : sequence of str
        The columns that are randomised.
    categories : sequence of str, optional
        What was typed for `--categories`.
    keep_all : sequence of str
        Columns whose first category gets a column too.
    """
    from epsilens.models.default import default_estimator

    declared = categories_of(categories, protected=tuple(protect))
    columns = tuple(
        replace(column, categories=tuple(declared[column.name]))
        if column.encoding == "one-hot" and column.name in declared
        else column
        for column in prepared.schema.columns
    )
    return default_estimator(
        replace(prepared.schema, columns=columns),
        model=model.value,
        regularisation=regularisation,
        keep_all=keep_all,
    )


def fit_on(study: _S, prepared: Prepared) -> _S:
    """Train the model of a study on prepared data, and return the study."""
    study.fit(
        prepared.X_train,
        prepared.y_train,
        prepared.X_test,
        prepared.y_test,
        prepared.sample_weight,
        sample_weight_test=prepared.sample_weight_test,
    )
    return study


def declared_domains(
    typed: Sequence[str] | None,
    protect: Sequence[str],
    table: TableOptions,
    prepared: Prepared,
    *,
    warn: bool = True,
) -> dict[str, list[object]] | None:
    """Return the domains that the user declared; warn of a feature whose domain is not.

    Parameters
    ----------
    typed : sequence of str, optional
        What was typed for `--categories`.
    protect : sequence of str
        The columns that are randomised.
    table : TableOptions
        Its bins with bounds and its `--positive` declare domains too.
    prepared : Prepared
        The data.
    warn : bool
        False: whoever calls says it.
    """
    result: dict[str, list[object]] = {}
    bins, label = mapping_of_bins(table.bins), table.label
    for name in protect:
        if name in bins and bins[name].low is not None:
            result[name] = list(bins[name].midpoints)
    if table.positive is not None and label in protect:
        # --positive makes the label a question of two answers, whatever the data hold.
        result[label] = list(prepared.label_categories)
    for name, given in categories_of(typed, protected=tuple(protect)).items():
        column = prepared.y_train if name == label else prepared.X_train.get(name)
        if column is None or column.dtype.kind not in "iufb":
            result[name] = list(given)
            continue
        try:
            result[name] = [float(text) for text in given]
        except ValueError:
            raise InputError(
                f"`--categories` of {name!r} must be numbers, like the column itself."
            ) from None
    for name in protect:
        if warn and name != label and name in prepared.X_train and name not in result:
            warnings.warn(
                f"the domain of {name!r} is taken from the observed values, which tells whoever sees "
                "the release which values occur. Declare it with `categories`, or by bins with bounds.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
    return result or None


def read_epsilon(text: str) -> str | dict[str, float]:
    """Check what was typed for `--epsilon` before any work: a grid, or a budget for each column.

    Examples
    --------
    >>> read_epsilon("0.1:10:30"), read_epsilon("sex=1,income=2")
    ('0.1:10:30', {'sex': 1.0, 'income': 2.0})
    """
    from epsilens.channels import Budget, parse_grid

    if "=" in text:
        return dict(Budget.parse(text).per_column)
    parse_grid(text)
    return text


def check_rate(max_attack_rate: float | None) -> None:
    """Refuse a limit that no rate can be compared with, before any work."""
    if max_attack_rate is not None and not 0 < max_attack_rate < 1:
        raise InputError(
            f"`--max-attack-rate` must be between 0 and 1, got {max_attack_rate:g}. Give a share, "
            "for instance 0.8."
        )


def check_loss(max_loss_increase: float | None) -> None:
    """Refuse a limit that no loss can be compared with, before any work."""
    if max_loss_increase is not None and not math.isfinite(max_loss_increase):
        raise InputError(
            f"`--max-loss-increase` must be a finite number, got {max_loss_increase}. "
            "Use for instance 0.01."
        )


def check_gives_probabilities(model: ModelChoice) -> None:
    """Refuse a model that an attack has no probabilities of."""
    if model is not ModelChoice.logistic:
        raise InputError(
            f"`--model` must be logistic for an attack, which needs probabilities, got {model.value}. "
            "Leave it out, and predict a column of categories."
        )


def with_notes(document: _D, notes: Sequence[str]) -> _D:
    """Add what was done to the table, and say all of it in the words of the command line."""
    from epsilens.cli.session import held_warnings
    from epsilens.cli.wording import in_command_words

    said = [in_command_words(note) for note in (*notes, *document.warnings)]
    # What is said on standard error must stand in the document as well: that one travels.
    said += [in_command_words(note) for note in held_warnings()]
    # Of two ways to say the same, the first is enough: they differ in the advice alone.
    once = {note.partition(" Declare it")[0]: note for note in reversed(said)}
    kept = set(once.values())
    return document.model_copy(
        update={"warnings": [note for note in dict.fromkeys(said) if note in kept]}
    )
