# SPDX-License-Identifier: Apache-2.0
"""The one document: every result as versioned, typed JSON.

Terminal, notebook, report and page render the same document, so they show the same numbers. No
document contains a record; column and category names may appear, and `anonymise` replaces them.
"""

from __future__ import annotations

from epsilens.document.anonymise import anonymise
from epsilens.document.audit import AuditDocument, AuditMethod
from epsilens.document.clauses import baseline_text, ceiling_clause, face_value_text
from epsilens.document.decision import (
    Alternative,
    DecisionDocument,
    MaskingLever,
    MechanismCell,
    MechanismCurve,
    Point,
    Recommendation,
    joined_points,
    risk_at,
)
from epsilens.document.examples import example_document
from epsilens.document.federation import (
    FederationDocument,
    FederationEntry,
    FederationValuation,
    FederationVersion,
    federation_number_types,
)
from epsilens.document.kinds import (
    ColumnKind,
    Document,
    DocumentKind,
    InspectColumn,
    InspectDocument,
    ReleaseDocument,
    ValueDocument,
    ValuePoint,
)
from epsilens.document.mask import (
    MaskDocument,
    MaskFeature,
    MaskOutcome,
    MaskPoint,
    RelaxedEpsilon,
    mask_number_types,
)
from epsilens.document.migration import migrate
from epsilens.document.parts import (
    DOCUMENT_VERSION,
    NUMBER_TYPE_MEANINGS,
    NUMBER_TYPES,
    Baseline,
    NumberType,
    Provenance,
)
from epsilens.document.risk import EquivalentEpsilon, RiskCell, RiskDocument, risk_number_types
from epsilens.document.serialise import json_schema, load_document, to_dict, to_json
from epsilens.document.view import Line, Row, Table, View, view
from epsilens.document.whatif import (
    PUBLIC_BODY,
    OutcomeInterval,
    WhatIfCell,
    WhatIfDocument,
    WhatIfMethod,
    whatif_number_types,
)
from epsilens.document.wording import (
    EVERYBODY,
    FEWEST_RUNS,
    at_least_text,
    at_most_text,
    bound_text,
    budgets_text,
    cost_type,
    delta_text,
    epsilon_text,
    group_names,
    has_few_runs,
    is_model_release,
    loss_unit,
    own_budget,
    spending_text,
)
from epsilens.notes import Note

__all__ = [
    "DOCUMENT_VERSION",
    "EVERYBODY",
    "FEWEST_RUNS",
    "NUMBER_TYPES",
    "NUMBER_TYPE_MEANINGS",
    "PUBLIC_BODY",
    "Alternative",
    "AuditDocument",
    "AuditMethod",
    "Baseline",
    "ColumnKind",
    "DecisionDocument",
    "Document",
    "DocumentKind",
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
    "MechanismCell",
    "MechanismCurve",
    "Note",
    "NumberType",
    "OutcomeInterval",
    "Point",
    "Provenance",
    "Recommendation",
    "RelaxedEpsilon",
    "ReleaseDocument",
    "RiskCell",
    "RiskDocument",
    "Row",
    "Table",
    "ValueDocument",
    "ValuePoint",
    "View",
    "WhatIfCell",
    "WhatIfDocument",
    "WhatIfMethod",
    "anonymise",
    "at_least_text",
    "at_most_text",
    "baseline_text",
    "bound_text",
    "budgets_text",
    "ceiling_clause",
    "cost_type",
    "delta_text",
    "epsilon_text",
    "example_document",
    "face_value_text",
    "federation_number_types",
    "group_names",
    "has_few_runs",
    "is_model_release",
    "joined_points",
    "json_schema",
    "load_document",
    "loss_unit",
    "mask_number_types",
    "migrate",
    "own_budget",
    "risk_at",
    "risk_number_types",
    "spending_text",
    "to_dict",
    "to_json",
    "view",
    "whatif_number_types",
]
