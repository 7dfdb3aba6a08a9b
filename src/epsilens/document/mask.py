# SPDX-License-Identifier: Apache-2.0
"""The document of a mask: which features go, what is kept without them, and whether ε may be larger."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictStr

from epsilens.document.parts import (
    Count,
    DocumentHead,
    Names,
    NumberType,
    OptionalNonNegative,
    OptionalNumber,
    Part,
)

Share = Annotated[float, Field(ge=0, le=1)]


class MaskFeature(Part):
    """One feature: what it does for the task, how much it identifies, and whether it is kept.

    Examples
    --------
    >>> MaskFeature(name="gait", utility=0.1, privacy=2.3, kept_share=0.0).privacy
    2.3
    """

    name: StrictStr
    """The name of the feature."""
    utility: OptionalNumber
    """Importance for the task: the positive part of its mean attribution."""
    privacy: OptionalNumber
    """Importance for recognising people."""
    kept_share: Share
    """1 if it is kept, 0 if it is masked; between them where every person has a mask of their own."""


class MaskOutcome(Part):
    """How well models do that are trained and tested on masked features.

    Examples
    --------
    >>> MaskOutcome(masking="none", n_masked=0, utility_accuracy=0.9, utility_error=0.01,
    ...             identity_accuracy=0.8, identity_error=0.01).masking
    'none'
    """

    masking: Literal["none", "random", "chosen"]
    """Nothing masked, as many features at random, or the chosen ones."""
    n_masked: Count
    """How many features are masked."""
    utility_accuracy: OptionalNumber
    """Test accuracy at the task."""
    utility_error: OptionalNumber
    """Its standard error over test records and, at random, over the masks drawn."""
    identity_accuracy: OptionalNumber
    """Test accuracy at recognising people."""
    identity_error: OptionalNumber
    """Its standard error over test records."""
    utility_change_error: OptionalNumber = None
    """Standard error of the change against nothing masked, record by record; null for nothing masked."""
    identity_change_error: OptionalNumber = None
    """The same of recognising people."""


class MaskPoint(Part):
    """What one level α keeps.

    Examples
    --------
    >>> MaskPoint(alpha=0.2, n_masked=3, utility_kept=0.98, privacy_kept=0.79).n_masked
    3
    """

    alpha: Share
    """The share of the identifying importance that has to go."""
    n_masked: Count
    """How many features that takes."""
    utility_kept: OptionalNumber
    """The share of the summed importance for the task that is kept."""
    privacy_kept: OptionalNumber
    """The share of the summed identifying importance that is kept."""
    utility_accuracy: OptionalNumber = None
    """Test accuracy at the task without those features; null if it was not measured."""
    identity_accuracy: OptionalNumber = None
    """Test accuracy at recognising people without them; null if it was not measured."""


class RelaxedEpsilon(Part):
    """The budget at which masked data are as exposed as all of them at a smaller one (P5 IV-B).

    Examples
    --------
    >>> RelaxedEpsilon(masking="chosen", measure="asr_max", epsilon=1.0, equivalent=3.9, low=0.5,
    ...                high=8.0, gain="within the noise").gain
    'within the noise'
    """

    masking: Literal["random", "chosen"]
    """Which features are masked."""
    measure: Literal["asr_max", "balanced_accuracy"]
    """Equal success on the most exposed record (P5's ASR^M), or equal balanced accuracy of the attack
    over all records."""
    epsilon: OptionalNonNegative
    """The budget on all features."""
    equivalent: OptionalNonNegative
    """The budget on the masked ones that exposes as much; null outside the grid."""
    low: OptionalNonNegative
    """Smallest budget of the grid that the noise of the attack does not rule out."""
    high: OptionalNonNegative
    """Largest budget of the grid that the noise of the attack does not rule out."""
    gain: Literal["larger", "smaller", "within the noise"]
    """Whether the masked budget is clearly larger, clearly smaller, or neither."""


class MaskDocument(DocumentHead):
    """Which features identify people and do not serve the task, and what masking them does.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> mask = example_document("mask")
    >>> mask.kind, mask.masked
    ('mask', ['gait'])
    """

    kind: Literal["mask"] = "mask"
    """The kind of document."""
    kept: Names
    """The features that are kept; where every person has a mask of their own, kept for all."""
    masked: Names
    """The features that are masked; where every person has a mask of their own, for somebody."""
    alpha: Share
    """The share of the identifying importance that had to go."""
    utility_kept: OptionalNumber
    """The share of the summed importance for the task that is kept."""
    privacy_kept: OptionalNumber
    """The share of the summed identifying importance that is kept."""
    solver: Literal["exact", "near-exact", "greedy", "top-share", "random"]
    """How the features were chosen: the best choice, proven in exact arithmetic; the best to one in a
    million of the summed utility; the best found in time; the most identifying ones; or at random."""
    utility_bound: OptionalNumber = None
    """The share of the importance for the task that no choice within the limit can exceed."""
    scope: Literal["global", "identity"] = "global"
    """One mask for everybody, or one for every person."""
    n_masks: Count = 1
    """How many masks there are."""
    explained_on: Literal["held-out", "public"] = "held-out"
    """Whether the importances come from records set aside, or from public ones alone."""
    n_explained: Count = 0
    """How many records were explained, for each of the two tasks."""
    seconds_per_record: OptionalNumber = None
    """How long the explanation of one record took, in seconds."""
    seconds_per_mask: OptionalNumber = None
    """How long the choice of one mask took, in seconds."""
    utility_guess: OptionalNumber = None
    """Accuracy of guessing the most common answer."""
    identity_guess: OptionalNumber = None
    """Accuracy of guessing the most common person."""
    features: list[MaskFeature] = Field(default_factory=list)
    """Every feature, in the order of the table."""
    outcomes: list[MaskOutcome] = Field(default_factory=list)
    """What models reach with nothing masked, with as much at random, and with the chosen mask."""
    curve: list[MaskPoint] = Field(default_factory=list)
    """What is kept at other levels, α ascending."""
    relaxed: list[RelaxedEpsilon] = Field(default_factory=list)
    """Where models were attacked: the budget that exposes as much once features are masked."""


def mask_number_types() -> dict[str, NumberType]:
    """Say which numbers of a mask are measured and which are estimated; none is proven of people.

    Examples
    --------
    >>> mask_number_types()["identity_accuracy"], mask_number_types()["privacy_kept"]
    ('measured', 'estimated')
    """
    measured = ("accuracy", "error", "change_error", "guess")
    estimated = ("utility", "privacy", "utility_kept", "privacy_kept", "utility_bound")
    types: dict[str, NumberType] = {
        f"{task}_{what}": "measured" for task in ("utility", "identity") for what in measured
    }
    types |= dict.fromkeys((*estimated, "equivalent", "low", "high"), "estimated")
    return types
