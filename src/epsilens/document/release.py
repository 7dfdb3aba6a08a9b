# SPDX-License-Identifier: Apache-2.0
"""The document of a release: its receipt."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictStr

from epsilens.document.numbers import Count, Flag, NonNegative
from epsilens.document.parts import DocumentHead, Names


class ReleaseDocument(DocumentHead):
    """The receipt of a release: what was randomised and how much budget was spent.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> receipt = example_document("release")
    >>> receipt.record_epsilon
    1.0
    """

    kind: Literal["release"] = "release"
    """The kind of document."""
    columns: Names
    """The columns that were randomised."""
    epsilon: dict[StrictStr, NonNegative]
    """The budget spent on each randomised column."""
    record_epsilon: NonNegative
    """The budget spent on a whole record: the sum over the columns."""
    rows: Count
    """How many records were released."""
    simulated: Flag
    """Whether a seed was given: then this is a simulation and protects nobody."""
    mechanism: StrictStr
    """The mechanism that randomised the values."""
