# SPDX-License-Identifier: Apache-2.0
"""All kinds of documents under one name."""

from __future__ import annotations

from typing import TypeAlias

from epsilens.document.contents import (
    AuditDocument,
    InspectDocument,
    ReleaseDocument,
    ValueDocument,
    WhatIfDocument,
)
from epsilens.document.decision import DecisionDocument
from epsilens.document.federation import FederationDocument
from epsilens.document.mask import MaskDocument
from epsilens.document.risk import RiskDocument

__all__ = ["Document"]

Document: TypeAlias = (
    WhatIfDocument
    | ReleaseDocument
    | InspectDocument
    | ValueDocument
    | AuditDocument
    | RiskDocument
    | DecisionDocument
    | FederationDocument
    | MaskDocument
)
