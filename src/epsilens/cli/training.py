# SPDX-License-Identifier: Apache-2.0
"""From what was typed about a table to a trained model: the way that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from epsilens.cli.options import (
    BinsOption,
    Categorical,
    Categories,
    Delimiter,
    Drop,
    Encoding,
    Missing,
    MissingChoice,
    Model,
    ModelChoice,
    Positive,
    Regularisation,
    TestShare,
    Weight,
    categories_of,
    comma_list,
    delimiter_from,
    mapping_of_bins,
)
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from epsilens.data import Prepared, TableFile
    from epsilens.document import (
        DecisionDocument,
        FederationDocument,
        MaskDocument,
        RiskDocument,
        ValueDocument,
        WhatIfDocument,
    )

__all__ = [
    "TableOptions",
    "check_gives_probabilities",
    "check_loss",
    "check_rate",
    "read_epsilon",
    "with_notes",
]

_D = TypeVar(
    "_D",
    "WhatIfDocument",
    "RiskDocument",
    "DecisionDocument",
    "MaskDocument",
    "FederationDocument",
    "ValueDocument",
)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is to be read and learnt from, as it was typed.

    Commands name the label, the test data and the seed themselves; the order of all others is that
    of the help.

    Examples
    --------
    >>> TableOptions(label="smokes").model.value
    'logistic'
    """

    label: str
    test: str | None = None
    seed: int = 0
    categories: Categories = None
    drop: Drop = None
    weight: Weight = None
    categorical: Categorical = None
    bins: BinsOption = None
    missing: Missing = MissingChoice.auto
    delimiter: Delimiter = None
    encoding: Encoding = None
    positive: Positive = None
    test_share: TestShare = 0.25
    model: Model = ModelChoice.logistic
    regularisation: Regularisation = None

    def prepare(
        self,
        data: str,
        *,
        groups: Sequence[str] = (),
        candidates: str | None = None,
        candidates_are: str = "candidates",
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
        candidates_are : str
            What messages call them.
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
            candidates_are=candidates_are,
            beside=beside,
        )

    def _read(self, source: str | None) -> TableFile | None:
        from epsilens.data import read_table

        if source is None:
            return None
        return read_table(source, delimiter=delimiter_from(self.delimiter), encoding=self.encoding)

    def estimator(
        self,
        prepared: Prepared,
        *,
        protect: Sequence[str] = (),
        keep_all: Sequence[str] = (),
        factorised_for: str | None = None,
        is_dense: bool = False,
    ) -> Pipeline:
        """Build the default model; a protected feature has a column for every declared answer.

        Parameters
        ----------
        prepared : Prepared
            The data.
        protect : sequence of str
            The columns that are randomised.
        keep_all : sequence of str
            Columns whose first category gets a column too.
        factorised_for : str, optional
            What needs matrices of its parameters; a model too wide for that is refused.
        is_dense : bool
            Whether it also needs the encoded records with all their zeros.
        """
        from epsilens.models.default import default_estimator, require_factorisable

        if factorised_for is not None:
            require_factorisable(prepared, what=factorised_for, is_dense=is_dense)

        return default_estimator(
            prepared.schema,
            model=self.model.value,
            regularisation=self.regularisation,
            # What was declared is about what is randomised; without that nothing is asked for.
            categories=categories_of(self.categories, protected=protect) if protect else None,
            keep_all=keep_all,
        )

    def domains(
        self, prepared: Prepared, protect: Sequence[str], *, warn: bool = True
    ) -> dict[str, list[object]] | None:
        """Return the domains that the user declared; warn of a feature whose domain is not.

        Parameters
        ----------
        prepared : Prepared
            The data.
        protect : sequence of str
            The columns that are randomised.
        warn : bool
            False: whoever calls says it.
        """
        from epsilens.data import declared_domains

        self._check_protected(prepared, protect)
        return declared_domains(
            prepared,
            protect,
            bins=mapping_of_bins(self.bins),
            positive=self.positive,
            categories=categories_of(self.categories, protected=protect),
            warn=warn,
        )

    def _check_protected(self, prepared: Prepared, protect: Sequence[str]) -> None:
        """Refuse a column that is in the file and not in the model, and say why it is not."""
        for name in protect:
            for option, columns in (
                ("--drop", comma_list(self.drop)),
                ("--weight", (self.weight,)),
            ):
                if name in columns:
                    raise InputError(
                        f"column {name!r} is named in `{option}` and cannot be named in `--protect` "
                        "too. Name it in one of them."
                    )
            schema = prepared.schema
            if name in schema.encoded_as("left out") and name != self.label:
                raise InputError(
                    f"`--protect` must name a column that the model uses, got {name!r}, which is "
                    f"{schema[name].note}. Choose another column."
                )


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
            f"`--max-attack-rate` must be greater than 0 and less than 1, got {max_attack_rate:g}. Give a share, "
            "for instance 0.8."
        )


def check_loss(max_loss_increase: float | None) -> None:
    """Refuse a limit that no loss can be compared with, before any work."""
    if max_loss_increase is not None:
        from epsilens._validate import as_loss_limit

        as_loss_limit(max_loss_increase)


def check_gives_probabilities(model: ModelChoice) -> None:
    """Refuse a model that an attack has no probabilities of."""
    if model is not ModelChoice.logistic:
        raise InputError(
            f"`--model` must be logistic for an attack, which needs probabilities, got {model.value}. "
            "Leave it out, and predict a column of categories."
        )


def with_notes(document: _D, notes: Sequence[Note]) -> _D:
    """Add what was done to the table, and the warnings of this run."""
    from epsilens.cli.session import held_warnings
    from epsilens.notes import distinct_notes

    # What is said on standard error must stand in the document as well: that one travels.
    said = distinct_notes([*notes, *document.notes, *held_warnings()])
    return document.model_copy(update={"notes": said})
