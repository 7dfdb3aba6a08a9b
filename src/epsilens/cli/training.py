# SPDX-License-Identifier: Apache-2.0
"""What was typed about a table, as the arguments of a study."""

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
from epsilens.notes import Note

if TYPE_CHECKING:
    from epsilens.document import (
        DecisionDocument,
        FederationDocument,
        MaskDocument,
        RiskDocument,
        ValueDocument,
        WhatIfDocument,
    )
    from epsilens.study import Study


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

    def study(
        self,
        data: str,
        *,
        protect: Sequence[str] = (),
        groups: Sequence[str] = (),
        identity: str | None = None,
        candidates: str | None = None,
        candidates_are: str = "candidates",
    ) -> Study:
        """Return the study that these options describe; nothing is read yet.

        Parameters
        ----------
        data : str
            File with the training data, or with all data where no test data were named.
        protect : sequence of str
            Columns that are randomised; none: the label.
        groups : sequence of str
            `[NAME=]EXPRESSION` each.
        identity : str, optional
            Column that says whose record it is.
        candidates : str, optional
            File with records on offer.
        candidates_are : str
            What messages call them.
        """
        from epsilens.study import Study

        protected = tuple(protect) or (self.label,)
        return Study(
            data,
            label=self.label,
            protect=protected,
            groups=groups,
            model=self.model.value,
            test=self.test,
            drop=comma_list(self.drop),
            weight=self.weight,
            categorical=comma_list(self.categorical),
            bins=mapping_of_bins(self.bins),
            missing=self.missing.value,
            test_share=self.test_share,
            seed=self.seed,
            positive=self.positive,
            categories=categories_of(self.categories, protected=protected),
            regularisation=self.regularisation,
            delimiter=delimiter_from(self.delimiter),
            encoding=self.encoding,
            identity=identity,
            candidates=candidates,
            candidates_are=candidates_are,
        )


def read_epsilon(text: str) -> tuple[float, ...] | dict[str, float]:
    """Read what was typed for `--epsilon` before any work: a grid, or a budget for each column.

    Examples
    --------
    >>> read_epsilon("0.5,1,2"), read_epsilon("sex=1,income=2")
    ((0.5, 1.0, 2.0), {'sex': 1.0, 'income': 2.0})
    """
    from epsilens.channels import Budget, parse_grid

    if "=" in text:
        return dict(Budget.parse(text).per_column)
    return tuple(parse_grid(text))


def with_notes(document: _D, notes: Sequence[Note] = ()) -> _D:
    """Add notes to a document, and the warnings of this run."""
    from epsilens.cli.session import held_warnings
    from epsilens.notes import distinct_notes

    # What is said on standard error must stand in the document as well: that one travels.
    said = distinct_notes([*notes, *document.notes, *held_warnings()])
    return document.model_copy(update={"notes": said})
