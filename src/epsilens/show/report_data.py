# SPDX-License-Identifier: Apache-2.0
"""What the report shows of a document: every number as text, rounded once, for every budget.

The page looks up what stands here; it rounds nothing itself. Beside the texts stand the few numbers
that it compares limits with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from epsilens.document import (
    EVERYBODY,
    DecisionDocument,
    Provenance,
    RiskCell,
    WhatIfCell,
    WhatIfDocument,
    at_most_text,
    baseline_text,
    cost_type,
    face_value_text,
    group_names,
    loss_unit,
    own_budget,
    spending_text,
)
from epsilens.show.assessment import assessment_paragraph
from epsilens.show.cell_text import (
    GAPS,
    accuracy_text,
    expected_accuracy_text,
    expected_gap_text,
    gap_text,
    gap_unit,
    has_gap,
    interval_text,
)
from epsilens.show.columns import cost_columns
from epsilens.show.holder_words import holder_text
from epsilens.show.report_words import (
    ceiling_is_open,
    decision_sentence,
    proof_text,
)
from epsilens.show.risk_text import range_text, risk_columns
from epsilens.show.rounding import (
    NOTHING,
    change_decimals,
    format_auc,
    format_change,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
    format_seconds,
)
from epsilens.show.sentences import cell_sentence, protected_text, whom_text
from epsilens.show.words import GAP_MEANINGS, OUTCOME_NAMES, answers_text, axis_budget

__all__ = [
    "baseline_rows",
    "cell_data",
    "gaps_of",
    "group_data",
    "origin_rows",
    "protected_words",
    "risk_at",
]

Report = WhatIfDocument | DecisionDocument


def protected_words(document: WhatIfDocument, question: Mapping[str, object]) -> str:
    """Name what is randomised: as the question says it, else as the document does.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start, cells=[])
    >>> protected_words(document, {"label": "smokes"})
    'the answer “smokes”'
    """
    protect = question.get("protect")
    names = [protect] if isinstance(protect, str) else protect
    if isinstance(names, Sequence) and names:
        return answers_text(names)
    if "protect" not in document.provenance.settings and question.get("label"):
        return f"the answer “{question['label']}”"
    return protected_text(document)


def group_data(document: Report, question: Mapping[str, object]) -> list[dict[str, Any]]:
    """Give every group with its cells, in the document's order.

    Parameters
    ----------
    document : WhatIfDocument or DecisionDocument
        What is reported on.
    question : mapping
        What was asked, as `write_report` takes it.

    Returns
    -------
    list of dict
        name, shown (its words), cells (see `cell_data`), and the table of the cost, with the titles of
        its columns and its rows; beside it that of the attack, which only everybody has.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> group_data(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell]), {})[0]["shown"]
    'the group “women”'
    """
    cost = document.cost if isinstance(document, DecisionDocument) else document
    words = question.get("groups")
    groups = []
    for name in group_names(cost):
        shown = words.get(name) if isinstance(words, Mapping) else None
        cells = [cell for cell in cost.cells if cell.group == name]
        columns = cost_columns(cost, cells, parts=("loss", "accuracy", "auc", "gaps"))
        attacked = isinstance(document, DecisionDocument) and name == EVERYBODY
        groups.append(
            {
                "name": name,
                "shown": str(shown) if shown else whom_text(name),
                "cells": [cell_data(document, cell, question) for cell in cells],
                "titles": [column.title for column in columns],
                "rows": [[column.text(cell) for column in columns] for cell in cells],
                "risk_titles": _risk_titles(document) if attacked else [],
            }
        )
    return groups


def risk_at(document: Report, cell: WhatIfCell) -> RiskCell | None:
    """Find what an attacker gets at the budget of a cell; only everybody's was measured.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> print(risk_at(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell))
    None
    """
    if not isinstance(document, DecisionDocument) or cell.group != EVERYBODY:
        return None
    wanted = own_budget(cell)
    return next((risk for risk in document.risk.cells if own_budget(risk) == wanted), None)


def cell_data(
    document: Report, cell: WhatIfCell, question: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Give what the page shows of a cell, as text.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> cell_data(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                          cells=[cell]), cell)["loss"]
    '+0.0200'
    """
    cost = document.cost if isinstance(document, DecisionDocument) else document
    decimals = change_decimals(cost)
    budget, high = axis_budget(cost, cell), cell.loss_change_high
    known = high is not None and math.isfinite(high)
    shown: dict[str, Any] = {
        "budget": budget if 0 < budget < math.inf else None,
        "outside": None if 0 < budget < math.inf else "inf" if budget else "0",
        "epsilon": format_epsilon(budget),
        "record_epsilon": format_epsilon(cell.record_epsilon),
        "spending": spending_text(cost, cell),
        "sentence": cell_sentence(cost, cell),
        "loss": format_change(cell.loss_change, decimals=decimals),
        "interval": interval_text(cost, cell),
        "high": high if known else None,
        "high_text": format_change(high, decimals=decimals) if known else None,
        "accuracy": accuracy_text(cost, cell),
        "expected_accuracy": expected_accuracy_text(cost, cell),
        "loss_gap": gap_text(cost, cell, "loss_gap"),
        "expected_loss_gap": expected_gap_text(cost, cell, "loss_gap"),
        "accuracy_gap": gap_text(cost, cell, "accuracy_gap"),
        "expected_accuracy_gap": expected_gap_text(cost, cell, "accuracy_gap"),
        "trusted": cell.trusted,
        "cost_type": cost_type(cost, cell),
        "face_value": None
        if isinstance(document, DecisionDocument)
        else face_value_text(cost, cell),
        "risk": None,
    }
    if isinstance(document, DecisionDocument) and cell.group == EVERYBODY:
        risk, data = risk_at(document, cell), (question or {}).get("data")
        shown["holder"] = holder_text(cell, risk, many=len(document.risk.protect) > 1)
        shown["sentence"] = decision_sentence(document, cell, risk)
        shown["paragraph"] = assessment_paragraph(
            document, cell, risk, data=str(data) if data else None
        )
        if risk is not None:
            shown["risk"] = _risk_data(document, risk)
            shown["face_value"] = face_value_text(document.risk, risk)
    return shown


def _risk_data(document: DecisionDocument, risk: RiskCell) -> dict[str, Any]:
    ceiling = risk.answer_inference_ceiling
    return {
        "guessed": format_percent(risk.answer_inference_rate),
        "range": range_text(risk),
        "before": baseline_text(risk) or NOTHING,
        "advantage": None if risk.advantage is None else at_most_text(risk.advantage),
        "advantage_value": risk.advantage,
        "ceiling": None if ceiling is None else at_most_text(ceiling),
        "ceiling_value": ceiling,
        "is_open": ceiling_is_open(risk),
        "proof": proof_text(risk, many=len(document.risk.protect) > 1)
        or "nothing is known of what could be guessed at most",
        "high_value": risk.answer_inference_high,
        "exposed": format_percent(risk.asr_max),
        "chance": format_percent(risk.asr_max_null_q95),
        "columns": [column.text(risk) for column in risk_columns(document.risk)[1:]],
    }


def _risk_titles(document: Report) -> list[str]:
    assert isinstance(document, DecisionDocument)  # noqa: S101
    return [column.title for column in risk_columns(document.risk)[1:]]


def gaps_of(document: WhatIfDocument, cells: Sequence[WhatIfCell]) -> list[dict[str, str]]:
    """Describe the gaps that these cells have: the key in a cell, words, unit and meaning.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> gaps_of(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start, cells=[]), [])
    []
    """
    return [
        {
            "key": gap,
            "words": OUTCOME_NAMES[gap],
            "unit": gap_unit(document, gap),
            "meaning": GAP_MEANINGS[gap],
        }
        for gap in GAPS
        if has_gap(cells, gap)
    ]


def baseline_rows(document: WhatIfDocument) -> list[tuple[str, str]]:
    """List what is known of the model before anything is randomised.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=None, auc=None, n_train=75, n_test=25, n_parameters=3)
    >>> baseline_rows(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[]))[0]
    ('test loss', '0.5000 squared error')
    """
    baseline = document.baseline
    loss = format_loss(baseline.loss, decimals=change_decimals(document))
    rows = [
        ("test loss", f"{loss} {loss_unit(document)}"),
        ("accuracy", format_percent(baseline.accuracy)),
        ("area under the ROC curve", format_auc(baseline.auc)),
        ("training rows", format_count(baseline.n_train)),
        ("test rows", format_count(baseline.n_test)),
        ("coefficients", format_count(baseline.n_parameters)),
    ]
    return [(name, text) for name, text in rows if not text.startswith("–")]


def origin_rows(document: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    """List how the numbers were computed, under a heading for each computation.

    Examples
    --------
    >>> from epsilens.document import Baseline
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> origin_rows(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                            cells=[]))[0][0]
    'The computation'
    """
    if isinstance(document, WhatIfDocument):
        return [("The computation", _origin(document.provenance))]
    return [
        ("The cost", _origin(document.cost.provenance)),
        ("The attacks", _origin(document.risk.provenance)),
        ("The decision", _settings(document.provenance)),
    ]


def _origin(origin: Provenance) -> list[tuple[str, str]]:
    return [
        ("method", origin.method),
        *_settings(origin),
        ("seed", "none" if origin.seed is None else str(origin.seed)),
        ("epsilens", origin.version),
        ("fingerprint of the columns", origin.schema_fingerprint or "none"),
        ("time taken", format_seconds(origin.seconds)),
    ]


def _settings(origin: Provenance) -> list[tuple[str, str]]:
    return [
        (name.replace("_", " "), _setting_text(value))
        for name, value in origin.settings.items()
        if value is not None
    ]


def _setting_text(value: object) -> str:
    """Write a setting for a reader; the document has it in full."""
    if isinstance(value, Mapping):
        return (
            ", ".join(f"{name} = {_setting_text(item)}" for name, item in value.items()) or "none"
        )
    if isinstance(value, list):
        if len(value) > 8 and all(isinstance(item, int | float) for item in value):
            return (
                f"{len(value)} values from {_setting_text(value[0])} to {_setting_text(value[-1])}"
            )
        return ", ".join(_setting_text(item) for item in value) or "none"
    if isinstance(value, float):
        return format_epsilon(value)
    return value if isinstance(value, str) else json.dumps(value)
