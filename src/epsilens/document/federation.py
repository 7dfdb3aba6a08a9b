# SPDX-License-Identifier: Apache-2.0
"""The document of a federation: every version of the shared model, and what every site has spent."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field, StrictStr

from epsilens.document.parts import (
    Count,
    DocumentHead,
    Flag,
    Names,
    NonNegative,
    NumberType,
    OptionalNonNegative,
    OptionalNumber,
    Part,
)

Engine: TypeAlias = Literal["in process", "flower simulation", "flower"]
Mode: TypeAlias = Literal["degrade", "redraw", "as_printed"]


class FederationVersion(Part):
    """A model that the coordinator has sent out, or the preview of one.

    Examples
    --------
    >>> FederationVersion(version=0, operation="train", mode=None, sites=[0, 1], model_epsilon=3.0,
    ...                   model_record_epsilon=6.0, advice="accept", messages=20, bytes=3200).advice
    'accept'
    """

    version: Count
    """Numbered from 0, previews included."""
    operation: Literal["train", "preview", "change", "remove", "accept"]
    """What led to it; a preview is not used as the model."""
    mode: Mode | None
    """Where a changing site's new draw came from; null for training and removal."""
    rung: Literal["one-message", "newton", "exact"] | None = None
    """How far the coordinator went to follow a change; null for training."""
    sites: list[Count]
    """The sites that trained, changed, left or had an offer accepted, numbered from 0."""
    model_epsilon: OptionalNonNegative
    """What this model by itself guarantees these sites, per protected column; 0 where nothing of a
    site is left in it, null where the columns differ."""
    model_record_epsilon: NonNegative
    """The same for a whole record: the sum over the protected columns."""
    distance_to_previous: OptionalNumber = None
    """Euclidean distance from the model that was in use before; null for the first."""
    predicted_error: OptionalNumber = None
    """Distance to be expected from the model that training again would give; null for training."""
    advice: Literal["accept", "exact", "converge", "regularise"]
    """What to do: use it; run exact rounds; run Newton rounds first; train with more penalty."""
    reason: StrictStr = ""
    """Why."""
    converged: Flag = False
    """Whether rounds were run until the gradient vanished."""
    rounds: Count = 1
    """How often sites were asked."""
    test_loss: OptionalNumber = None
    """Mean loss on the coordinator's test records, in nats; null without any."""
    test_accuracy: OptionalNumber = None
    """Share of them predicted correctly; null without any."""
    messages: Count
    """Messages with numbers in them, both ways."""
    bytes: Count
    """Bytes of these numbers."""
    seconds: OptionalNumber = None
    """How long it took."""
    masked: Flag = False
    """Whether the coordinator saw sums over all sites only when it was made."""


class FederationEntry(Part):
    """One line of the ledger: a release of one site.

    Examples
    --------
    >>> FederationEntry(site=2, operation="change", mode="degrade", epsilon=1.0, record_epsilon=2.0,
    ...                 total_epsilon=6.0, private=True).total_epsilon
    6.0
    """

    site: Count
    """Numbered from 0."""
    operation: Literal["train", "preview", "change", "remove", "value"]
    """What was released for it."""
    mode: Mode | None
    """Where the draw came from; null for the first, which comes from the true answers."""
    epsilon: OptionalNonNegative
    """Level of the draw per protected column; null if the columns differ."""
    record_epsilon: NonNegative
    """Level of the draw of a whole record."""
    total_epsilon: NonNegative
    """What all releases of the site until then have spent of a record's budget."""
    private: Flag
    """Whether any guarantee holds."""


class FederationValuation(Part):
    """What a site's records are worth on another's; single scores are not in the document.

    Examples
    --------
    >>> FederationValuation(provider=0, tester=2, mode="items", change="add", n=20, total=0.003,
    ...                     harmful=4, resolution=1e-9, version=0, n_parameters=12, messages=6,
    ...                     bytes=2_000_000).harmful
    4
    """

    provider: Count
    """The site whose records were valued."""
    tester: Count
    """The site on whose records they were valued."""
    mode: Literal["items", "batch"]
    """A score for each record, under encryption; or one for all together, whose move is seen."""
    change: Literal["add", "remove"]
    """Whether the records were on offer, or in the model already."""
    n: Count
    """How many records have a score of their own; 0 for a batch."""
    total: OptionalNumber
    """Sum of the scores: by how much the tester's mean loss is lower with the records."""
    harmful: Count
    """How many scores are below zero."""
    resolution: OptionalNumber
    """The unit that scores are rounded to."""
    version: Count
    """Version of the model at which the records were valued."""
    n_parameters: Count
    """Numbers in the model."""
    accepted: Count | None = None
    """The version that the offered records came in with; null if they did not."""
    messages: Count
    """Messages to and from the coordinator."""
    bytes: Count
    """Their bytes, keys and ciphertexts included."""
    seconds: OptionalNumber = None
    """How long it took."""
    learnt: Names = Field(default_factory=list)
    """Who learnt what, in at most five short lines."""


class FederationDocument(DocumentHead):
    """What a federation did, version by version, and what it has cost each site.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> example_document("federation").kind
    'federation'
    """

    kind: Literal["federation"] = "federation"
    """The kind of document."""
    protect: Names
    """The columns that are randomised; no other is protected."""
    n_sites: Count
    """How many sites have taken part."""
    engine: Engine = "in process"
    """How messages travelled."""
    carried_messages: Count | None = None
    """What the transport has carried in all, questions and confirmations included; null in process."""
    carried_bytes: Count | None = None
    """Bytes of all that."""
    versions: list[FederationVersion]
    """In their order."""
    ledger: list[FederationEntry] = Field(default_factory=list)
    """Every release, site by site, each site's in its order."""
    secure_aggregation: Flag = False
    """Whether the coordinator saw sums over all sites only, for all of these versions."""
    valuations: list[FederationValuation] = Field(default_factory=list)
    """What sites' records are worth on other sites' records, in the order of asking."""


def federation_number_types() -> dict[str, NumberType]:
    """Say which numbers of a federation are proven, measured and estimated.

    Levels of privacy hold by proof, for the protected columns. Test loss, distance and traffic are
    measured. The error of a step that is not followed by rounds is predicted.

    Examples
    --------
    >>> federation_number_types()["model_epsilon"], federation_number_types()["predicted_error"]
    ('proven', 'estimated')
    """
    proven = (
        "epsilon",
        "record_epsilon",
        "total_epsilon",
        "model_epsilon",
        "model_record_epsilon",
    )
    measured = (
        "distance_to_previous",
        "test_loss",
        "test_accuracy",
        "rounds",
        "messages",
        "bytes",
        "seconds",
        "carried_messages",
        "carried_bytes",
        "total",
        "harmful",
    )
    types: dict[str, NumberType] = dict.fromkeys(proven, "proven")
    types |= dict.fromkeys(measured, "measured")
    types["predicted_error"] = "estimated"
    return types
