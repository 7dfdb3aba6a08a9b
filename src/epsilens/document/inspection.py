# SPDX-License-Identifier: Apache-2.0
"""The document of a first look at a table."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, StrictStr

from epsilens.document.numbers import Count, Flag, plain_value
from epsilens.document.parts import DocumentHead, Part, as_list

ColumnKind: TypeAlias = Literal["numeric", "categorical", "binary", "constant", "identifier"]


def _as_category_names(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return [str(plain_value(item)) for item in value]


class InspectColumn(Part):
    """One column of a table: what it is and whether it can be protected.

    Examples
    --------
    >>> InspectColumn(name="smokes", kind="binary", n_distinct=2, n_missing=0,
    ...               protectable=True, categories=["no", "yes"]).protectable
    True
    """

    name: StrictStr
    """The name of the column."""
    kind: ColumnKind
    """What the column is taken for."""
    n_distinct: Count
    """How many different values it has, missing values not counted."""
    n_missing: Count
    """How many values are missing."""
    protectable: Flag
    """Whether randomised response can protect it as it is."""
    categories: Annotated[list[str], BeforeValidator(_as_category_names)] | None = None
    """The names of its categories where they are few; null otherwise."""
    note: StrictStr | None = None
    """What the reader should know about the column."""


class InspectDocument(DocumentHead):
    """What a table contains and what of it can be protected.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> example_document("inspect").kind
    'inspect'
    """

    kind: Literal["inspect"] = "inspect"
    """The kind of document."""
    rows: Count
    """How many rows the table has."""
    columns: Annotated[list[InspectColumn], BeforeValidator(as_list)]
    """The columns in the order of the table."""
    suggestion: StrictStr | None = None
    """A command to go on with, ready for the shell; null when none suggests itself."""
