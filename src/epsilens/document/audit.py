# SPDX-License-Identifier: Apache-2.0
"""The document of an audit: what one run of a mechanism proves, beside what was claimed."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StrictStr

from epsilens.document.parts import (
    Count,
    DocumentHead,
    Flag,
    Names,
    NonNegative,
    OptionalNonNegative,
)

AuditMethod: TypeAlias = Literal[
    "pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"
]


class AuditDocument(DocumentHead):
    """What one run of a mechanism proves about its privacy level, beside what was claimed.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> audit = example_document("audit")
    >>> audit.kind, audit.is_broken
    ('audit', False)
    """

    kind: Literal["audit"] = "audit"
    """The kind of document."""
    mechanism: StrictStr
    """What was audited."""
    epsilon_lower_bound: NonNegative
    """With the stated confidence epsilon is at least this, if the assumptions hold."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """How often such a bound is right."""
    method: AuditMethod
    """The theorem that the bound rests on."""
    selection: StrictStr
    """How the number of guesses was chosen; a number fixes the guesses on each side."""
    is_confidence_bound: Flag
    """False where the number is the best of many uncorrected tests and no bound at all."""
    assumptions: Names
    """What the bound takes for granted about the mechanism."""
    conditions: Names = Field(default_factory=list)
    """What every one-run bound rests on."""
    claimed_epsilon: OptionalNonNegative
    """The privacy level that was claimed; null when there is no claim."""
    claimed_delta: OptionalNonNegative
    """The delta of the claim; null when there is no claim."""
    true_epsilon: OptionalNonNegative
    """The level that theory gives at the claimed delta; null where it is not known."""
    is_broken: Flag
    """Whether the claim is refuted."""
    verdict: StrictStr
    """The same as a sentence."""
    n_canaries: Count
    """How many canaries there were."""
    n_guesses: Count
    """How many of them were guessed where the bound was found."""
    n_correct: Count
    """How many of those guesses were right."""
