# SPDX-License-Identifier: Apache-2.0
"""What the report shows of a document: every number as text, rounded once, for every budget.

The page looks up what stands here; it rounds nothing itself. Beside the texts stand the few numbers
that it compares limits with.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from epsilens.decision.release_command import command_at
from epsilens.document import (
    DecisionDocument,
    MechanismCell,
    MechanismCurve,
    Provenance,
    Recommendation,
    RiskCell,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
)
from epsilens.document.clauses import (
    COST_UNKNOWN,
    HELD,
    MET_BY_MEASURE,
    baseline_text,
    ceiling_is_open,
    face_value_text,
    gain_text,
    guessed_before_text,
    loss_moves_text,
    mistakes_text,
    outcome_interval,
    outcome_text,
    range_text,
    release_text,
)
from epsilens.document.decision import RANDOMISED, TITLES, randomising_mechanism, released_text
from epsilens.document.decision import risk_at as attack_at
from epsilens.document.sentences import (
    assessment_paragraph,
    cell_sentence,
    decision_sentence,
    exposed_clause,
    holder_text,
    is_attacked,
    outside_sentence,
    protection_sentence,
)
from epsilens.document.view import Line, Row, Table, attack_rows, cell_facts, cost_rows, view
from epsilens.document.wording import (
    GAP_MEANINGS,
    GAPS,
    NOTHING,
    OUTCOME_NAMES,
    RANGED,
    answers_text,
    at_most_text,
    axis_budget,
    change_text,
    cost_type,
    epsilon_text,
    group_budgets_text,
    group_names,
    loss_decimals,
    loss_text,
    loss_unit,
    own_budget,
    percent_text,
    protected_text,
    seconds_text,
    sentence_case,
    spending_text,
    whole_group,
    whom_text,
)

_R = TypeVar("_R", bound=Recommendation)

_COST_COLUMNS = (
    "epsilon",
    "loss_change",
    "loss_change_range",
    "accuracy_change",
    "auc_change",
    "loss_gap_change",
    "accuracy_gap_change",
    "trusted",
)


Report = WhatIfDocument | DecisionDocument


def protected_words(document: WhatIfDocument, question: Mapping[str, object]) -> str:
    """Name what is randomised: as the question says it, else as the document does.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> document = example_document("whatif", cells=[])
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
    >>> from epsilens.document import example_document
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> group_data(example_document("whatif", cells=[cell]), {})[0]["shown"]
    'the group “women”'
    """
    cost = document.cost
    words = question.get("groups")
    groups = []
    for name in group_names(cost):
        shown = words.get(name) if isinstance(words, Mapping) else None
        cells = [cell for cell in cost.cells if cell.group == name]
        table = Table("", tuple(Line(cost_rows(cost, cell)) for cell in cells)).select(
            _COST_COLUMNS
        )
        attacks = _attack_table(document) if name == whole_group(cost) else {}
        risk_titles = [row.title for row in next(iter(attacks.values()), ())]
        groups.append(
            {
                "name": name,
                "shown": str(shown) if shown else whom_text(name),
                "cells": [cell_data(document, cell, question) for cell in cells],
                "titles": table.titles,
                "rows": [[row.text for row in line.rows] for line in table.lines],
                "risk_titles": risk_titles,
                "risk_rows": [
                    [row.text for row in attacks.get(own_budget(cell), ())]
                    or [NOTHING] * len(risk_titles)
                    for cell in cells
                ],
            }
        )
    return groups


def risk_at(document: Report, cell: WhatIfCell) -> RiskCell | None:
    """Find what an attacker gets at the budget of a cell; only everybody's was measured.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> print(risk_at(example_document("whatif", cells=[cell]), cell))
    None
    """
    if document.risk is None or cell.group != whole_group(document.cost):
        return None
    return attack_at(document.risk, own_budget(cell))


def cell_data(
    document: Report, cell: WhatIfCell, question: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Give what the page shows of a cell, as text.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> cell_data(example_document("whatif", cells=[cell]), cell)["loss"]
    '+0.0200'
    """
    cost = document.cost
    rows = {row.key: row for row in cost_rows(cost, cell)}
    texts = {key: None if row.text == NOTHING else row.text for key, row in rows.items()}
    budget, high = axis_budget(cost, cell), cell.loss_change_high
    known = high is not None and math.isfinite(high)
    shown: dict[str, Any] = {
        "budget": budget if 0 < budget < math.inf else None,
        "outside": None if 0 < budget < math.inf else "inf" if budget else "0",
        "epsilon": rows["epsilon"].text,
        "record_epsilon": epsilon_text(cell.record_epsilon),
        "spending": spending_text(cost, cell),
        "long_sentence": cell_sentence(cost, cell),
        "loss": rows["loss_change"].text,
        "interval": texts["loss_change_range"],
        "high": high if known else None,
        "trusted": cell.trusted,
        "cost_type": cost_type(cost, cell),
        "face_value": face_value_text(cost, cell) if document.risk is None else None,
        "risk": None,
    }
    for outcome in RANGED:
        is_range = outcome_interval(cost, cell, outcome) is not None
        shown[outcome] = texts[f"{outcome}_change"]
        shown[f"expected_{outcome}"] = (
            outcome_text(cost, cell, outcome, is_mean=True) if is_range else None
        )
    shown["mistakes_high"] = _mistakes_high(cost, cell)
    shown["release"] = _release_texts(shown["mistakes_high"], shown["high"])
    shown["sentence"] = _short_sentence(cost, cell)
    shown["facts"] = _cost_facts(cost, cell)
    if isinstance(document, DecisionDocument) and cell.group == whole_group(cost):
        risk, data = risk_at(document, cell), (question or {}).get("data")
        shown["holder"] = holder_text(cell, risk, many=len(document.risk.protect) > 1)
        shown["long_sentence"] = decision_sentence(document, cell, risk)
        curve = MechanismCurve.of_randomised_response(cost, document.risk).answered()
        own = next((one for one in curve.cells if one.budget == own_budget(cell)), None)
        if own is not None:
            told = mechanism_cell_data(document, curve, own, named=spending_text(cost, cell))
            shown |= {key: told[key] for key in ("sentence", "rate_sentence", "facts")}
        shown["paragraph"] = assessment_paragraph(
            document, cell, risk, data=str(data) if data else None
        )
        if risk is not None:
            shown["risk"] = _risk_data(document, risk)
            shown["face_value"] = face_value_text(document.risk, risk)
    return shown


def mechanism_data(document: DecisionDocument) -> list[dict[str, Any]]:
    """Give every mechanism with its budgets, as the page compares them.

    Returns
    -------
    list of dict
        name, title, trust, protects and cells (see `mechanism_cell_data`), ε ascending.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> [curve["title"] for curve in mechanism_data(example_document("decision"))]
    ['randomised response']
    """
    return [
        {
            "name": curve.mechanism,
            "title": TITLES[curve.mechanism],
            "trust": curve.trust,
            "protects": curve.protects,
            "cells": [
                mechanism_cell_data(document, curve, cell)
                for cell in curve.cells
                if cell.budget is not None and cell.advantage is not None
            ],
        }
        for curve in document.answered().mechanisms
    ]


def mechanism_cell_data(
    document: DecisionDocument,
    curve: MechanismCurve,
    cell: MechanismCell,
    *,
    named: str | None = None,
) -> dict[str, Any]:
    """Give what the page shows of one budget of a mechanism, and the numbers that limits are compared with.

    Parameters
    ----------
    document : DecisionDocument
    curve : MechanismCurve
    cell : MechanismCell
        One of its cells, without costs if it failed its checks.
    named : str, optional
        Budget in words.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> document = example_document("decision")
    >>> curve = document.mechanisms[0]
    >>> mechanism_cell_data(document, curve, curve.cells[0])["sentence"]
    'Randomise the answers at ε = 1. Of the answers that the rest of the data do not give away, at
    most 46.2% become guessable (proven). The test loss changes by +0.0400 (estimated).'
    """
    at = epsilon_text(cell.budget) if cell.budget is not None else NOTHING
    if cell.group_epsilons is not None:
        at = group_budgets_text(cell.group_epsilons)
    named = named or (at if cell.group_epsilons is not None else f"ε = {at}")
    kind, several = document.cost_type_at(curve.mechanism, cell), len(document.risk.protect) > 1

    def said(*, by_rate: bool, is_advice: bool = True, proof: str | None = None) -> str:
        return protection_sentence(
            curve.mechanism,
            cell,
            named=named,
            kind=kind,
            by_rate=by_rate,
            several=several,
            proof=proof,
            is_advice=is_advice,
        )

    attack = (
        attack_at(document.risk, cell.budget)
        if curve.mechanism == randomising_mechanism(document.cost) and cell.budget is not None
        else None
    )

    low, loss_high = cell.accuracy_change_low, cell.loss_change_high
    return {
        "epsilon": at,
        "budget": cell.budget,
        "sentence": said(by_rate=False),
        "rate_sentence": said(by_rate=True),
        "looked": [said(by_rate=by_rate, is_advice=False) for by_rate in (False, True)],
        "measured_sentence": None if attack is None else said(by_rate=True, proof=MET_BY_MEASURE),
        "command": _command_at(document, curve, cell),
        "holder": _holder_at(document, curve, cell),
        "facts": [
            _released_fact(document, curve),
            *(
                {
                    "key": row.key,
                    "title": row.title,
                    "text": f"{row.text}.",
                    "kind": row.kind,
                    "note": _fact_note(document, cell, row.key),
                }
                for row in cell_facts(document, curve, cell)
            ),
        ],
        "mistakes": None if cell.accuracy_change is None else -1000.0 * cell.accuracy_change,
        "mistakes_high": None if low is None else -1000.0 * low,
        "loss": cell.loss_change,
        "high": loss_high if loss_high is not None and math.isfinite(loss_high) else None,
        "release": _release_texts(None if low is None else -1000.0 * low, loss_high),
        "risk": {
            "advantage_value": cell.advantage,
            "advantage": at_most_text(cell.advantage),
            "ceiling_value": cell.attack_rate_ceiling,
            "high_value": None if attack is None else attack.measured_high("curator"),
            "held_high_value": None if attack is None else attack.measured_high("nobody"),
        },
    }


def _holder_at(
    document: DecisionDocument, curve: MechanismCurve, cell: MechanismCell
) -> str | None:
    """Say what somebody gets who holds the randomised answers; None where there are none."""
    if curve.mechanism not in RANDOMISED:
        return None
    group, several = whole_group(document.cost), len(document.risk.protect) > 1
    own = (one for one in document.cost.cells if one.group == group)
    known = next((one for one in own if own_budget(one) == cell.budget), None)
    risk = None if cell.budget is None else attack_at(document.risk, cell.budget)
    return HELD if known is None else holder_text(known, risk, many=several)


def _command_at(
    document: DecisionDocument, curve: MechanismCurve, cell: MechanismCell
) -> str | None:
    """Return what makes the release of one budget; None where no answer of this mechanism has a command."""
    answers = (document.recommendation, *document.alternatives)
    known = next((one for one in answers if one.mechanism == curve.mechanism), None)
    if known is None or known.command is None or cell.budget is None:
        return None
    is_even = not isinstance(document.cost.provenance.settings.get("epsilon"), Mapping)
    if cell.budget == known.epsilon:
        return known.command
    return command_at(known.command, cell.budget) if is_even else None


def _released_fact(document: DecisionDocument, curve: MechanismCurve) -> dict[str, Any]:
    """Return what is published, as a fact."""
    text = f"{released_text(curve.mechanism)}."
    is_linear = curve.mechanism in ("noisy-descent", "output-perturbation")
    if is_linear and document.cost.provenance.method == "curve":
        text = (
            "One linear model that was trained with noise, in place of the model that was asked for. The table "
            "is not published."
        )
    return {
        "key": "released",
        "title": "What is published",
        "text": text,
        "kind": None,
        "note": None,
    }


def _fact_note(document: DecisionDocument, cell: MechanismCell, key: str) -> str | None:
    """Return the second line of a fact: the range of the cost, or the ceiling of all answers guessed."""
    if key == "cost" and cell.trusted:
        return _range_note(
            document.cost,
            cell.accuracy_change,
            cell.accuracy_change_low,
            cell.accuracy_change_high,
            cell.loss_change_low,
            cell.loss_change_high,
        )
    first = document.risk.cells[0] if document.risk.cells else None
    before = None if first is None else baseline_text(first)
    if key == "gain" and cell.attack_rate_ceiling is not None and before is not None:
        most = at_most_text(cell.attack_rate_ceiling)
        if len(document.risk.protect) > 1:
            return (
                f"From everybody else's data an attacker already guesses all answers of up to b = {before} of the "
                f"people. With this release it is at most {most} (proven given b)."
            )
        return (
            f"From everybody else's data an attacker already guesses up to b = {before} of all answers. With this "
            f"release it is at most {most} (proven given b)."
        )
    return None


def _release_texts(mistakes: float | None, loss: float | None) -> dict[str, str]:
    """Say what one release may cost at most, by the unit of a limit."""
    return {"mistakes": release_text(mistakes=mistakes), "loss": release_text(loss=loss)}


def _range_note(
    cost: WhatIfDocument,
    accuracy: float | None,
    accuracy_low: float | None,
    accuracy_high: float | None,
    loss_low: float | None,
    loss_high: float | None,
) -> str | None:
    """Return the range of nine releases in ten: in mistakes where they are known, else in loss."""
    if accuracy_low is not None and accuracy_high is not None:
        ends = [_count_text(round(-1000 * end)) for end in (accuracy_high, accuracy_low)]
        before = cost.baseline.accuracy
        known = "" if before is None else f" Without protection it makes {1000 * (1 - before):.0f}."
        is_gain = accuracy is not None and round(1000 * accuracy) > 0
        other = " On other data it may make more, not fewer." if is_gain else ""
        return f"Nine in ten releases: {' to '.join(dict.fromkeys(ends))}.{known}{other}"
    if loss_low is not None and loss_high is not None:
        return f"Nine in ten releases: {change_text(loss_low)} to {change_text(loss_high)}."
    return None


def _count_text(mistakes: int) -> str:
    """Write a number of mistakes against those before."""
    return f"{abs(mistakes)} {'fewer' if mistakes < 0 else 'more'}" if mistakes else "no change"


def _moves_text(cell: WhatIfCell) -> str | None:
    """Say what one budget changes, in mistakes where they are known; None without an estimate."""
    if not cell.trusted or cell.loss_change is None:
        return None
    if cell.accuracy_change is None:
        return loss_moves_text(cell.loss_change)
    return mistakes_text(round(-1000 * cell.accuracy_change))


def _short_sentence(cost: WhatIfDocument, cell: WhatIfCell) -> str:
    """Say in one sentence what one budget costs."""
    moves = _moves_text(cell)
    if moves is None:
        return cell_sentence(cost, cell)
    verb = "" if cell.accuracy_change is None else "the model makes "
    return f"At {spending_text(cost, cell)}, {verb}{moves} ({cost_type(cost, cell)})."


def _cost_facts(cost: WhatIfDocument, cell: WhatIfCell) -> list[dict[str, Any]]:
    """Return the cost of one budget as a fact; what an attacker gets was not asked of it."""
    fact = {"key": "cost", "title": "What it costs", "kind": None, "note": None}
    moves = _moves_text(cell)
    if moves is None:
        return [fact | {"text": f"{COST_UNKNOWN}."}]
    known = outcome_interval(cost, cell, "accuracy")
    low, high = (None, None) if known is None else (known.low, known.high)
    note = _range_note(
        cost, cell.accuracy_change, low, high, cell.loss_change_low, cell.loss_change_high
    )
    kind = cost_type(cost, cell)
    return [fact | {"text": f"{sentence_case(moves)}.", "kind": kind, "note": note}]


def _mistakes_high(cost: WhatIfDocument, cell: WhatIfCell) -> float | None:
    """Return the mistakes in 1,000 that one release stays below with 95 %; None if they are not known."""
    known = outcome_interval(cost, cell, "accuracy") if cell.trusted else None
    return None if known is None or known.low is None else -1000.0 * known.low


def _risk_data(document: DecisionDocument, risk: RiskCell) -> dict[str, Any]:
    rows = {row.key: row for row in attack_rows(document.risk, risk)}
    ceiling = rows["answer_inference_ceiling"]
    return {
        "held": None if risk.holder_rate is None else rows["holder_rate"].text,
        "held_range": range_text(risk, "holder_rate"),
        "guessed": rows["answer_inference_rate"].text,
        "range": range_text(risk),
        "before": baseline_text(risk) or NOTHING,
        "advantage": None if risk.advantage is None else at_most_text(risk.advantage),
        "advantage_value": risk.advantage,
        "ceiling": None if ceiling.number is None else ceiling.text,
        "ceiling_value": ceiling.number,
        "is_open": ceiling_is_open(risk),
        "proof": _reach_text(document, risk),
        "high_value": risk.measured_high("curator"),
        "held_high_value": risk.measured_high("nobody"),
        "is_attacked": is_attacked(risk),
        "exposed": rows["asr_max"].text,
        "chance": rows["asr_max_null_q95"].text,
    }


def _reach_text(document: DecisionDocument, risk: RiskCell) -> dict[str, str]:
    """Say what an attacker gets at most, by the kind of limit that it is compared with."""
    several = len(document.risk.protect) > 1
    nothing = "nothing is proven to stay hidden"
    found = {"rate": nothing, "advantage": nothing}
    if risk.answer_inference_ceiling is not None and not ceiling_is_open(risk):
        answers = "the people's answers, all at once" if several else "the answers"
        most = at_most_text(risk.answer_inference_ceiling)
        found["rate"] = (
            f"an attacker guesses at most {most} of {answers} (proven given what other data tell)"
        )
    if risk.advantage is not None and not ceiling_is_open(risk):
        found["advantage"] = f"{gain_text(risk.advantage, several=several)} (proven)"
    return found


def _attack_table(document: Report) -> dict[float, tuple[Row, ...]]:
    """Give the columns of the attack at every budget; a what-if has none."""
    if document.risk is None:
        return {}
    table = view(document.risk).tables[0]
    return {
        own_budget(cell): line.rows[1:]
        for cell, line in zip(document.risk.cells, table.lines, strict=True)
    }


def gaps_of(document: WhatIfDocument, cells: Sequence[WhatIfCell]) -> list[dict[str, str]]:
    """Describe the gaps that these cells have: the key in a cell, words, unit and meaning.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> gaps_of(example_document("whatif", cells=[]), [])
    []
    """
    return [
        {
            "key": gap,
            "words": OUTCOME_NAMES[gap],
            "unit": "points" if gap == "accuracy_gap" else loss_unit(document),
            "meaning": GAP_MEANINGS[gap],
        }
        for gap in GAPS
        if any(getattr(cell, f"{gap}_change") is not None for cell in cells)
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
    loss = loss_text(baseline.loss, decimals=loss_decimals(document.baseline.loss))
    rows = [
        ("test loss", baseline.loss, f"{loss} {loss_unit(document)}"),
        ("accuracy", baseline.accuracy, percent_text(baseline.accuracy)),
        ("area under the ROC curve", baseline.auc, loss_text(baseline.auc, decimals=3)),
        ("training rows", baseline.n_train, f"{baseline.n_train:,}"),
        ("test rows", baseline.n_test, f"{baseline.n_test:,}"),
        ("coefficients", baseline.n_parameters, f"{baseline.n_parameters or 0:,}"),
    ]
    return [(name, text) for name, number, text in rows if number is not None]


def origin_rows(document: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    """List how the numbers were computed, under a heading for each computation.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> origin_rows(example_document("whatif", cells=[]))[0][0]
    'The computation'
    """
    if isinstance(document, WhatIfDocument):
        return [("The computation", _origin(document.provenance))]
    cost, attacks = _origin(document.cost.provenance), _origin(document.risk.provenance)
    if not document.mechanisms:
        return [
            ("The cost", cost),
            ("The attacks", attacks),
            ("The decision", _settings(document.provenance)),
        ]
    chosen = document.recommendation
    rank = "recommended" if is_recommended(document) else "nearest to the limits"
    found = [(rank, TITLES[chosen.mechanism])]
    if chosen.epsilon is not None:
        found.append(("ε", epsilon_text(chosen.epsilon)))
    return [
        ("The decision", [*found, *_settings(document.provenance)]),
        ("The cost of randomised response", cost),
        ("Attacks on randomised response", attacks),
    ]


def is_recommended(document: Report) -> bool:
    """Say whether a decision recommends something.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> is_recommended(example_document("decision"))
    True
    """
    if not isinstance(document, DecisionDocument) or document.recommendation.epsilon is None:
        return False
    # Too few retrainings recommend no ε of randomised response.
    chosen = document.recommendation
    return chosen.holds or chosen.mechanism not in RANDOMISED


def _origin(origin: Provenance) -> list[tuple[str, str]]:
    return [
        ("method", origin.method),
        *_settings(origin),
        ("seed", "none" if origin.seed is None else str(origin.seed)),
        ("epsilens", origin.version),
        # The document has it in full.
        ("fingerprint of the columns", (origin.schema_fingerprint or "none")[:16]),
        ("time taken", seconds_text(origin.seconds)),
    ]


def _settings(origin: Provenance) -> list[tuple[str, str]]:
    return [
        (_SETTING_TITLES.get(name, name.replace("_", " ")), _setting_text(value))
        for name, value in origin.settings.items()
        if value is not None
    ]


_SETTING_TITLES = {"measured": "limit met by an attack that was tried"}


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
        return epsilon_text(value)
    return value if isinstance(value, str) else json.dumps(value)


OTHERS: tuple[tuple[str, float, float, str], ...] = (
    (
        "Apple",
        2.0,
        16.0,
        "user activity analysis; Differential Privacy Team, “Learning with privacy at scale”, 2017",
    ),
    (
        "Google",
        2.64,
        2.64,
        "community mobility; “Google COVID-19 community mobility reports: Anonymization process "
        "description (version 1.1)”, 2020",
    ),
)
"""Name, smallest and largest ε, and source of what others reported, as P5 (section I) quotes them."""


OTHERS_WARNING = (
    "Not comparable: other data, other mechanisms and other units of privacy (a day, an event, a "
    "person). That somebody else chose an ε says nothing about what it protects here."
)


def unprotected(
    protected: str,
    *,
    is_model_release: bool = False,
    attacks: RiskDocument | None = None,
    risk: RiskCell | None = None,
    chosen: Recommendation | MechanismCurve | None = None,
) -> list[tuple[str, str]]:
    """List what a privacy budget does not protect: a few words and what they mean.

    Parameters
    ----------
    protected : str
        What is randomised, in words.
    is_model_release : bool
        Whether noise protects a published model instead of the answers.
    attacks : RiskDocument, optional
        What attackers get; with it guessing and membership are spoken of too.
    risk : RiskCell, optional
        One of its budgets, to be quoted.
    chosen : Recommendation or MechanismCurve, optional
        The mechanism that is shown; one that trains on the true answers leaves other things open.

    Returns
    -------
    list of (str, str)

    Examples
    --------
    >>> unprotected("the answer “smokes”")[0][0]
    'This report itself.'
    """
    said = [
        (
            "This report itself.",
            "It is computed from the true answers and is not private: keep it confidential. The proven limit "
            "is about the release. Choosing ε by this report can give away more. No proof counts that.",
        )
    ]
    if is_model_release:
        said.append(
            (
                "What was not promised beforehand.",
                "The bounds and the penalty must not be chosen by looking at the data. One record "
                "is one person: somebody with several records is protected less.",
            )
        )
    elif chosen is not None and chosen.trust == "curator":
        said += _open_to_the_curator(chosen, attacks)
    else:
        said.append(
            (
                "Other columns.",
                f"Only {protected} would be randomised. All other columns stay as they are, and "
                "where they go together with a protected answer, the answer can be guessed from "
                "them.",
            )
        )
    by_curator = chosen is not None and chosen.trust == "curator"
    if attacks is not None and not by_curator:
        said += _measured_limits(attacks, risk)
    said.append(
        (
            "Other releases.",
            "What is spent adds up: an attacker learns more from every further release about the same people.",
        )
    )
    if not is_model_release and not by_curator:
        said.append(
            (
                "Who is in a group.",
                "Who is randomised is not hidden. Membership of a group must not depend on a "
                "protected column, or it gives the answer away whatever ε is.",
            )
        )
    said += [
        (
            "What was seen before.",
            "Whoever saw an earlier version of the data or of the model still knows what it showed.",
        ),
        (
            "Conclusions about people in general.",
            "ε limits what one record adds to a release. It does not hide what the data say about "
            "everyone."
            if is_model_release or by_curator
            else "ε limits what a person's own randomised answer says of them. What the data say "
            "about people alike, they say about that person too.",
        ),
    ]
    return said


def _open_to_the_curator(
    chosen: Recommendation | MechanismCurve, attacks: RiskDocument | None
) -> list[tuple[str, str]]:
    """Return what a mechanism leaves open that trains on the true answers."""
    said = [
        (
            "Against the curator.",
            "The curator, who holds the table, still sees the true answers and must keep it as safe as before.",
        )
    ]
    if chosen.protects == "answer":
        said.append(
            (
                "Everything but the answer.",
                "That somebody is in the data is not hidden, nor are the other columns of their record.",
            )
        )
    before = None if attacks is None or not attacks.cells else baseline_text(attacks.cells[0])
    several = attacks is not None and len(attacks.protect) > 1
    if before is not None:
        said.append(
            (
                "What can be guessed without the answer.",
                "From the rest of the data an attacker guesses "
                f"{guessed_before_text(before, several=several)} (measured). No ε can hide that."
                f"{' A single answer is guessed more often.' if several else ''}",
            )
        )
    return said


def _measured_limits(attacks: RiskDocument, risk: RiskCell | None) -> list[tuple[str, str]]:
    guessed = (
        "The proven ceiling starts from what everybody else's data give away of an answer; that much no "
        "ε can hide."
    )
    present = (
        "Randomised response protects the answer, not that somebody is in the data: for membership "
        "there is no ceiling."
    )
    if risk is not None:
        at = f"At ε = {epsilon_text(own_budget(risk))}"
        if outside := outside_sentence(attacks, risk):
            guessed += f" {at}, {outside}"
        if (exposed := exposed_clause(attacks, risk)) is not None:
            present += f" {at} {exposed}."
    return [
        ("What can be guessed without the answer.", guessed),
        ("Being in the data at all.", present),
    ]


_TURNING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2029])
"""Embeddings, overrides and isolates with their ends, and the end of a paragraph, which ends them."""


_MARKS = {code: f"⟨U+{code:04X}⟩" for code in _TURNING}


_LEFTWARDS = ("R", "AL", "AN")


_APART = "\u2068{}\u2069"


def undirected(text: str) -> str:
    r"""Show characters that turn the direction of a text as what they are.

    Examples
    --------
    >>> undirected("smokes\u202e")
    'smokes⟨U+202E⟩'
    """
    return text.translate(_MARKS)


def isolated(name: str) -> str:
    r"""Set a name apart, so that it cannot turn what stands beside it; ordinary names stay as they are.

    Examples
    --------
    >>> isolated("smokes"), isolated("\u05d0") == "\u2068\u05d0\u2069"
    ('smokes', True)
    """
    shown = undirected(name)
    runs_left = any(unicodedata.bidirectional(character) in _LEFTWARDS for character in shown)
    return _APART.format(shown) if runs_left else shown


def readable_document(
    document: WhatIfDocument | DecisionDocument,
) -> WhatIfDocument | DecisionDocument:
    r"""Give a copy of a document whose names and sentences keep their direction to themselves.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cell = WhatIfCell(group="a\u202e", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> readable_document(example_document("whatif", cells=[cell])).cells[0].group
    'a⟨U+202E⟩'
    """
    changes: dict[str, Any] = {
        "notes": [replace(note, text=undirected(note.text)) for note in document.notes],
        "provenance": _readable_origin(document.provenance),
    }
    if isinstance(document, DecisionDocument):
        chosen, risk = document.recommendation, document.risk
        changes |= {
            "cost": readable_document(document.cost),
            "risk": risk.model_copy(
                update={
                    "provenance": _readable_origin(risk.provenance),
                    "protect": [isolated(name) for name in risk.protect],
                }
            ),
            "recommendation": _readable_answer(chosen),
            "alternatives": [_readable_answer(other) for other in document.alternatives],
        }
        if document.lever is not None:
            masked = [isolated(name) for name in document.lever.masked]
            changes["lever"] = document.lever.model_copy(update={"masked": masked})
    else:
        for part in ("cells", "intervals"):
            changes[part] = [
                item.model_copy(update={"group": isolated(item.group)})
                for item in getattr(document, part)
            ]
    return document.model_copy(update=changes)


def _readable_answer(chosen: _R) -> _R:
    """Return a recommendation whose sentences keep their direction to themselves."""
    command = None if chosen.command is None else undirected(chosen.command)
    return chosen.model_copy(
        update={
            "sentence": undirected(chosen.sentence),
            "details": [undirected(text) for text in chosen.details],
            "command": command,
        }
    )


def readable_question(question: Mapping[str, object]) -> dict[str, object]:
    r"""Give a copy of a question whose names keep their direction to themselves.

    Examples
    --------
    >>> readable_question({"label": "smokes", "groups": {"a\u202e": "women"}})
    {'label': 'smokes', 'groups': {'a⟨U+202E⟩': 'women'}}
    """
    return {name: _readable(value) for name, value in question.items()}


def _readable_origin(origin: Any) -> Any:
    return origin.model_copy(update={"settings": _readable(origin.settings)})


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return isolated(value)
    if isinstance(value, Mapping):
        return {_readable(name): _readable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value
