# SPDX-License-Identifier: Apache-2.0
"""The one document: every result as versioned, typed JSON.

Terminal, notebook, report and page render the same document, so they show the same numbers. No
document contains a record; column and category names may appear, and `anonymise` replaces them.
"""

from __future__ import annotations

from epsilens.document.anonymise import anonymise
from epsilens.document.audit import AuditDocument
from epsilens.document.decision import (
    Alternative,
    AuditCheck,
    DecisionDocument,
    MaskingLever,
    MechanismAudit,
    MechanismCell,
    MechanismCurve,
    Recommendation,
)
from epsilens.document.examples import example_document
from epsilens.document.federation import (
    FederationDocument,
    FederationEntry,
    FederationValuation,
    FederationVersion,
)
from epsilens.document.kinds import (
    Document,
    DocumentKind,
    InspectColumn,
    InspectDocument,
    ReleaseDocument,
    ValueDocument,
    ValuePoint,
)
from epsilens.document.mask import MaskDocument, MaskFeature, MaskOutcome, MaskPoint, RelaxedEpsilon
from epsilens.document.migration import migrate
from epsilens.document.parts import (
    DOCUMENT_VERSION,
    NUMBER_TYPE_MEANINGS,
    NUMBER_TYPES,
    Baseline,
    NumberType,
    Provenance,
)
from epsilens.document.risk import EquivalentEpsilon, RiskCell, RiskDocument
from epsilens.document.serialise import json_schema, load_document, to_dict, to_json
from epsilens.document.training import EarlierRelease, PrivacyTotal, TrainingDocument
from epsilens.document.view import Line, Row, Table, View, view
from epsilens.document.whatif import OutcomeInterval, WhatIfCell, WhatIfDocument
from epsilens.notes import Note

__all__ = [
    "DOCUMENT_VERSION",
    "NUMBER_TYPES",
    "NUMBER_TYPE_MEANINGS",
    "Alternative",
    "AuditCheck",
    "AuditDocument",
    "Baseline",
    "DecisionDocument",
    "Document",
    "DocumentKind",
    "EarlierRelease",
    "EquivalentEpsilon",
    "FederationDocument",
    "FederationEntry",
    "FederationValuation",
    "FederationVersion",
    "InspectColumn",
    "InspectDocument",
    "Line",
    "MaskDocument",
    "MaskFeature",
    "MaskOutcome",
    "MaskPoint",
    "MaskingLever",
    "MechanismAudit",
    "MechanismCell",
    "MechanismCurve",
    "Note",
    "NumberType",
    "OutcomeInterval",
    "PrivacyTotal",
    "Provenance",
    "Recommendation",
    "RelaxedEpsilon",
    "ReleaseDocument",
    "RiskCell",
    "RiskDocument",
    "Row",
    "Table",
    "TrainingDocument",
    "ValueDocument",
    "ValuePoint",
    "View",
    "WhatIfCell",
    "WhatIfDocument",
    "anonymise",
    "example_document",
    "json_schema",
    "load_document",
    "migrate",
    "to_dict",
    "to_json",
    "view",
]
