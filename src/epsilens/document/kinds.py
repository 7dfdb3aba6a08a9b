# SPDX-License-Identifier: Apache-2.0
"""All kinds of documents under one name.

Every result of the package is written as one of these, and the terminal, the report and the page
show nothing that is not in one. No document contains a record. The descriptions of the fields are
also those in the JSON Schema.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from epsilens.document.audit import AuditDocument
from epsilens.document.decision import DecisionDocument
from epsilens.document.federation import FederationDocument
from epsilens.document.inspection import InspectDocument
from epsilens.document.mask import MaskDocument
from epsilens.document.release import ReleaseDocument
from epsilens.document.risk import RiskDocument
from epsilens.document.value import ValueDocument
from epsilens.document.whatif import WhatIfDocument

Document: TypeAlias = (
    WhatIfDocument
    | ReleaseDocument
    | InspectDocument
    | ValueDocument
    | AuditDocument
    | RiskDocument
    | DecisionDocument
    | MaskDocument
    | FederationDocument
)
DocumentKind: TypeAlias = Literal[
    "whatif", "release", "inspect", "value", "audit", "risk", "decision", "mask", "federation"
]

MODELS: dict[str, type[Document]] = {
    model.model_fields["kind"].default: model for model in get_args(Document)
}
"""From a kind to its model."""
