# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that works from a mail attachment and asks the network for nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilens.decision.question import DEFAULT_MAX_ADVANTAGE
from epsilens.document import (
    NUMBER_TYPE_MEANINGS,
    NUMBER_TYPES,
    DecisionDocument,
    RiskCell,
    WhatIfCell,
    WhatIfDocument,
    to_dict,
)
from epsilens.document.annexes import Annex, RegistryEntry, annexes
from epsilens.document.clauses import MORE_MISTAKES
from epsilens.document.decision import EXPLANATIONS, TITLES, answer_title
from epsilens.document.view import mechanism_table, view
from epsilens.document.wording import (
    ATTACKER,
    EVERYBODY,
    FEWEST_RUNS,
    OUTCOME_NAMES,
    Outcome,
    at_most_text,
    axis_budget,
    cost_type,
    epsilon_text,
    group_names,
    has_few_runs,
    is_model_release,
    loss_unit,
    sentence_case,
    typical_cell,
    whole_group,
)
from epsilens.errors import InputError, InputTypeError
from epsilens.show.decision import document_chart
from epsilens.show.inlining import chart_library, inline_json, inline_script, security_policy
from epsilens.show.look import first_outcome, text_width
from epsilens.show.mechanisms import (
    CostUnit,
    mechanism_page_chart,
    spoken_mechanisms,
)
from epsilens.show.page import EDGE, LABEL_ROOM, page_charts
from epsilens.show.report_data import (
    OTHERS,
    OTHERS_WARNING,
    baseline_rows,
    cell_data,
    gaps_of,
    group_data,
    is_recommended,
    isolated,
    mechanism_cell_data,
    mechanism_data,
    origin_rows,
    protected_words,
    readable_document,
    readable_question,
    risk_at,
    undirected,
    unprotected,
)

if TYPE_CHECKING:
    import jinja2

_ATTACK_WORDS = {
    "answer": "answers guessed",
    "answers": "all answers guessed at once",
    "membership": "members recognised",
}
_OUTCOME_WORDS: dict[Outcome, str] = {
    **OUTCOME_NAMES,
    "loss": "loss",
    "auc": "AUC",
}
_RATE_STEP = 0.5
"""A dragged attack rate moves by so many percentage points."""
_MEASURED_CONFIDENCE = 0.9
"""Confidence level of the range around a measured attack rate."""
_EXPECTS = {
    "mistakes": "a number of 0 or more, such as 5",
    "loss": "a loss of 0 or more, such as 0.05",
}
_BESIDE_OTHERS = frozenset({"slow-mechanisms"})
"""Notes about what was not compared; they stand beside what was."""
_FACT_TITLES = {
    "released": "What is published",
    "cost": "What it costs",
    "gain": "What an attacker gains at most",
    "unprotected": "What is not protected",
}
_SIZES = {"wide": (720, 400), "narrow": (290, 210)}
"""Sizes of the chart of mechanisms in pixels, on a broad page and on a phone."""
_LABEL_FROM = 560
"""Width of a chart in pixels from which lines are named beside their ends."""
_NONE, _INFINITE, _UNANSWERED = "no ε", "ε = ∞", "no estimate"


@dataclass(frozen=True)
class _Opening:
    """Where the page opens: a budget, and what is said in large type if not that budget."""

    cell: WhatIfCell
    """Whose numbers are shown."""
    on_axis: WhatIfCell
    """The same, or what stands for it in the charts, where infinity has no place."""
    verdict: str = ""
    """“no ε” where none will do, “no estimate” where none passed its checks; empty where the budget itself
    is the answer."""
    is_doubtful: bool = False
    """Whether the answer rests on numbers that failed their checks."""


def write_report(
    document: WhatIfDocument | DecisionDocument,
    path: str | Path,
    *,
    title: str | None = None,
    question: Mapping[str, object] | None = None,
    recommendation: Mapping[str, object] | None = None,
    command: str | None = None,
) -> Path:
    """Write a what-if or a decision as one page that says which privacy budget costs and buys what.

    The page shows the question, the answer in large type, the cost of every budget as a chart with
    a slider, the numbers as a table, what is not protected, and how to compute it again. The page of
    a decision shows below the cost what an attacker gets, on the same axis, a paragraph for a
    data-protection impact assessment, and the annexes; the acceptable loss and the attack limit can be
    typed or dragged, and lead to a budget. It is one file without any link to the network, so it can
    be mailed and read anywhere. It is written completely or not at all.

    Parameters
    ----------
    document : WhatIfDocument or DecisionDocument
        What is reported on; the page shows nothing that is not in it.
    path : str or pathlib.Path
        The file to write; an older one is replaced.
    title : str, optional
        The title of the page; by default what the page is about.
    question : mapping, optional
        What was asked: `label`, the column to be predicted; `protect`, the columns to be
        randomised (by default those in the document's settings, else the label); `data`, the name
        of the file; `groups`, a mapping from group name to the words to show for it.
    recommendation : mapping, optional
        `epsilon`, `holds` and `sentence` of a chosen budget, and `max_loss_increase`, the
        acceptable loss. Without it the page opens at the budget nearest to 1. A decision has its own.
    command : str, optional
        The command that makes the page again.

    Returns
    -------
    pathlib.Path
        The file that was written.

    Raises
    ------
    InputError
        If no budget can be drawn, the folder does not exist, or the body of a network was not declared
        public.

    Examples
    --------
    >>> import tempfile
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> document = example_document("whatif", cells=cells)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(document, f"{folder}/report.html", question={"label": "smokes"})
    ...     page.stat().st_size < 3_000_000
    True
    """
    from epsilens.data import write_text

    if not isinstance(document, WhatIfDocument | DecisionDocument):
        raise InputTypeError(
            f"`document` must be a WhatIfDocument or a DecisionDocument, got "
            f"{type(document).__name__}. A study gives one by `.estimate(...)`, `decide` the other."
        )
    document.cost.require_privacy()
    if isinstance(document, DecisionDocument):
        if recommendation is not None:
            raise InputError(
                "`recommendation` must be left out for a decision, which has its own. Leave it out."
            )
        recommendation = document.randomised.model_dump()
    target = Path(path)
    if recommendation is not None and isinstance(said := recommendation.get("sentence"), str):
        recommendation = {**recommendation, "sentence": undirected(said)}
    page = _render(
        readable_document(document.answered()),
        None if title is None else isolated(title),
        readable_question(question or {}),
        recommendation,
        command,
        original=to_dict(document),
    )
    write_text(page, target)
    return target


@cache
def _templates() -> jinja2.Environment:
    """Return what the report is written with; compiling it takes longer than writing a report."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("epsilens.show"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    """Return the text of a file beside the template."""
    return (files("epsilens.show") / "templates" / name).read_text(encoding="utf-8")


def _render(
    document: WhatIfDocument | DecisionDocument,
    title: str | None,
    question: Mapping[str, object],
    recommendation: Mapping[str, object] | None,
    command: str | None,
    *,
    original: dict[str, Any],
) -> str:
    import vl_convert
    from altair.utils.schemapi import debug_mode

    cost = document.cost
    accepted = _number(recommendation, "max_loss_increase")
    limits = _limits(document, recommendation)
    units = {"mistakes": MORE_MISTAKES, "loss": f"of test loss ({loss_unit(cost)})"}
    recommended = _number(recommendation, "epsilon")
    holds = recommendation is not None and bool(recommendation.get("holds", True))
    opening = _opening(document, recommendation, recommended, holds=holds)
    start, at = opening.cell, axis_budget(cost, opening.on_axis)
    # Altair would hold every part against its schema; tests do that with whole charts.
    with debug_mode(False):
        drawn = page_charts(document, at, limits["lines"], limits["attack_words"])
    keys = drawn.pop("keys")
    groups = group_data(document, question)
    is_decision = document.risk is not None
    is_default = recommendation is not None and bool(recommendation.get("is_default"))
    # A limit on the loss alone says nothing of what is protected: only a decision recommends.
    advised = holds and is_decision
    data = {
        "kind": document.kind,
        "start": {
            "group": start.group,
            "epsilon": at,
            "outside": None if start is opening.on_axis else "inf",
            "verdict": opening.verdict,
            "decided": recommendation is not None,
            "doubtful": opening.is_doubtful,
        },
        "recommended": ("inf" if recommended == math.inf else recommended) if advised else None,
        "everybody": whole_group(cost),
        "fewest_runs": FEWEST_RUNS if is_decision and has_few_runs(cost) else None,
        "attacker": ATTACKER,
        "default_advantage": DEFAULT_MAX_ADVANTAGE,
        "max_advantage": None if is_default else _number(recommendation, "max_advantage"),
        "groups": {group["name"]: group["cells"] for group in groups},
        "others": [(low, high) for _, low, high, _ in OTHERS] if is_decision else [],
        "steps": {"loss": _loss_step(cost), "mistakes": 1, "rate": _RATE_STEP},
        "units": units,
        "expects": _EXPECTS,
        "limits": limits,
        "baseline": _baseline_high(document),
        "baseline_text": at_most_text(_baseline_high(document)),
        "trust": _trust(document),
        "measured": _may_be_measured(document),
        "own_sentence": str((recommendation or {}).get("sentence") or ""),
        "label_room": LABEL_ROOM,
        "label_from": _LABEL_FROM,
        "edge": EDGE,
        "has_labels": (is_decision or len(groups) > 1)
        and all(text_width(group["name"]) < LABEL_ROOM for group in groups),
        **drawn,
        **_compared(document),
    }
    bundle = chart_library()
    parts = ("numbers.js", "rule.js", "first.js", "choice.js", "report.js")
    script = inline_script("\n".join(_source(name) for name in parts))
    named = title or f"What a privacy budget costs{' and what it buys' if is_decision else ''}"
    outcome, protected = limits["outcome"], protected_words(cost, question)
    with debug_mode(False):
        chart = document_chart(document, outcome, accepted)
    protection = _protection(document, recommendation)
    many = document.risk is not None and len(document.risk.protect) > 1
    return (
        _templates()
        .get_template("report.html.j2")
        .render(
            title=named,
            policy=security_policy(bundle, script),
            style=_source("report.css"),
            bundle=bundle,
            script=script,
            page_data=inline_json(data),
            document_json=inline_json(original),
            # For readers without scripts; it can also be saved.
            still=vl_convert.vegalite_to_svg(chart.to_dict(validate=False), allowed_base_urls=[]),
            is_decision=is_decision,
            annexes=_annexes(document, question.get("data")),
            protection=protection,
            data_name=question.get("data"),
            protected=protected,
            is_model_release=is_model_release(cost),
            groups=groups,
            start=start,
            start_row=cell_data(document, start, question),
            # Where no budget is recommended, that is the answer.
            answer=str((recommendation or {}).get("sentence") or "")
            if is_decision and (opening.verdict or recommended == axis_budget(cost, start))
            else None,
            chart_words=drawn["charts"][outcome]["description"],
            caption=drawn["captions"][outcome],
            outcomes=[(name, _OUTCOME_WORDS[name]) for name in drawn["charts"]],
            attacks=[
                (name, _ATTACK_WORDS["answers" if many and name == "answer" else name])
                for name in drawn["risk_charts"]
            ],
            many=many,
            attacker=ATTACKER,
            opening=opening,
            budget_shown=f"ε = {epsilon_text(axis_budget(cost, start))}",
            own_limits=_own_limits(document, many=many),
            own_answer=_own_answer(document, recommended if holds else None),
            limits=limits,
            units=units,
            expects=_EXPECTS,
            fact_titles=_FACT_TITLES,
            risk_captions=drawn["risk_captions"],
            risk_notes=None if document.risk is None else " ".join(view(document.risk).notes),
            risk_chart_words=next(
                (spec["description"] for spec in drawn["risk_charts"].values()), None
            ),
            keys=keys,
            recommendation=recommendation,
            lever=getattr(document, "lever", None),
            measured=_may_be_measured(document),
            steps=data["steps"],
            is_recommended=advised
            and not opening.verdict
            and recommended == axis_budget(cost, start),
            holds=is_recommended(document) if protection else holds,
            command=command,
            cost_type=cost_type(cost),
            runs="of the runs" if cost_type(cost) == "measured" else "real runs",
            unit=loss_unit(cost),
            gaps=gaps_of(cost, cost.cells),
            by_record=any(cell.epsilon is None for cell in cost.cells),
            warnings=[
                sentence_case(text)
                for note, text in zip(document.notes, document.warnings, strict=True)
                if protection is None or note.code not in _BESIDE_OTHERS
            ],
            meanings=[
                (name, NUMBER_TYPE_MEANINGS[name])
                for name in NUMBER_TYPES
                if name != "proven given b" or is_decision
            ],
            unprotected=_unprotected(
                document,
                protected,
                risk=risk_at(document, start),
            ),
            others=[
                (name, f"{low:g}" if low == high else f"{low:g} to {high:g}", source)
                for name, low, high, source in OTHERS
            ],
            others_warning=OTHERS_WARNING,
            baseline=baseline_rows(cost),
            origins=origin_rows(document),
        )
    )


def _annexes(
    document: WhatIfDocument | DecisionDocument, data: object
) -> list[Annex | RegistryEntry]:
    """Return the annexes to a decision; a what-if has none."""
    if not isinstance(document, DecisionDocument):
        return []
    return list(annexes(document, data=str(data) if data else None))


def _compared(document: WhatIfDocument | DecisionDocument) -> dict[str, Any]:
    """Return what the page needs to compare mechanisms: their numbers, and the chart at two widths."""
    if not isinstance(document, DecisionDocument) or not document.is_comparison:
        return {"mechanisms": [], "mechanism_charts": {}}
    from altair.utils.schemapi import debug_mode

    shown = document.answered()
    settings, chosen = document.provenance.settings, document.recommendation
    has_mistakes = any(
        cell.accuracy_change is not None for curve in shown.mechanisms for cell in curve.cells
    )
    drawable: tuple[CostUnit, ...] = ("mistakes", "loss") if has_mistakes else ("loss",)
    with debug_mode(False):
        charts = {
            unit: {
                width: mechanism_page_chart(document, unit, size=size)
                for width, size in _SIZES.items()
            }
            for unit in drawable
        }
    return {
        "mechanisms": mechanism_data(document),
        "mechanism_charts": charts,
        "chosen": {
            "mechanism": chosen.mechanism,
            "epsilon": chosen.epsilon,
            "sentence": chosen.sentence,
        },
        "protects": settings.get("protects") or chosen.protects,
        "named": settings.get("mechanisms"),
        "is_cost_known": not any(note.code == "columns-not-declared" for note in document.notes),
    }


def _protection(
    document: WhatIfDocument | DecisionDocument, recommendation: Mapping[str, object] | None
) -> dict[str, Any] | None:
    """Return the answer among several mechanisms; None where randomised response alone was asked about."""
    if not isinstance(document, DecisionDocument) or not document.is_comparison:
        return None
    chosen, settings = document.recommendation, document.provenance.settings
    cell = document.chosen_cell()
    curve = next(one for one in document.mechanisms if one.mechanism == chosen.mechanism)
    nearest = None
    if cell is not None and not is_recommended(document):
        nearest = (
            f"The facts are those of {TITLES[curve.mechanism]} at ε = {epsilon_text(cell.budget)}, "
            "which is not recommended."
        )
    return {
        "sentence": chosen.sentence,
        "nearest": nearest,
        "holder": None if cell is None else mechanism_cell_data(document, curve, cell)["holder"],
        "details": chosen.details,
        "command": chosen.command,
        "protects": settings.get("protects") or chosen.protects,
        "trust": settings.get("trust") or chosen.trust,
        "recommended_trust": chosen.trust,
        "has_trust": any(curve.trust == "curator" for curve in document.mechanisms),
        "title": answer_title(chosen),
        "notes": [
            sentence_case(text)
            for note, text in zip(document.notes, document.warnings, strict=True)
            if note.code in _BESIDE_OTHERS
        ],
        "explanation": EXPLANATIONS[chosen.mechanism],
        "words": spoken_mechanisms(document),
        "facts": [] if cell is None else mechanism_cell_data(document, curve, cell)["facts"],
        "curves": [
            {"name": curve.mechanism, "title": TITLES[curve.mechanism]}
            for curve in document.mechanisms
        ],
        "others": [
            {
                "title": answer_title(other),
                "reason": f"{EXPLANATIONS[other.mechanism]}. {other.reason}",
            }
            for other in document.alternatives
        ],
        "table": mechanism_table(document),
    }


def _limits(
    document: WhatIfDocument | DecisionDocument, recommendation: Mapping[str, object] | None
) -> dict[str, Any]:
    """Return the limits as they stand in the boxes, where their lines are, and the cost that is drawn first."""
    loss = _number(recommendation, "max_loss_increase")
    accuracy = _number(recommendation, "max_accuracy_loss")
    rate = _number(recommendation, "max_attack_rate")
    advantage = _number(recommendation, "max_advantage")
    before = _baseline_high(document)
    outcome = first_outcome(document.cost, max_loss_increase=loss)
    by_loss = outcome != "mistakes"
    line = rate
    if advantage is not None and before is not None:
        line = before + (1.0 - before) * advantage
    attack = _typed(advantage if rate is None else rate, 100.0)
    guessed = " become guessable" if rate is None else ""
    return {
        "attack_words": f"limit {attack}%{guessed}" if attack else "",
        "cost_kind": "loss" if by_loss else "mistakes",
        "cost": _typed(loss) if by_loss else _typed(accuracy, 10.0),
        "attack_kind": "advantage" if rate is None else "rate",
        "attack": attack,
        "is_default": recommendation is not None and bool(recommendation.get("is_default")),
        "outcome": outcome,
        "lines": {
            "loss": loss,
            "mistakes": None if accuracy is None else 10.0 * accuracy,
            "rate": line,
        },
    }


def _unprotected(
    document: WhatIfDocument | DecisionDocument, protected: str, *, risk: RiskCell | None
) -> list[dict[str, Any]]:
    """List what each kind of answer leaves open, that of the document first."""
    about = partial(
        unprotected,
        protected,
        is_model_release=is_model_release(document.cost),
        attacks=document.risk,
    )
    if not isinstance(document, DecisionDocument):
        return [{"kind": "", "said": about(risk=risk)}]
    own = document.recommendation
    if not document.is_comparison:
        return [{"kind": "", "said": about(risk=risk, chosen=own)}]
    # What was attacked at one budget is quoted beside the document's own answer only.
    said = {(own.trust, own.protects): about(risk=risk, chosen=own)}
    for curve in document.mechanisms:
        said.setdefault((curve.trust, curve.protects), about(chosen=curve))
    return [{"kind": " ".join(kind), "said": texts} for kind, texts in said.items()]


def _trust(document: WhatIfDocument | DecisionDocument) -> str | None:
    """Return who may see the true answers, as it was asked; None without a decision."""
    if not isinstance(document, DecisionDocument):
        return None
    return str(document.provenance.settings.get("trust") or document.recommendation.trust)


def _baseline_high(document: WhatIfDocument | DecisionDocument) -> float | None:
    """Return the upper bound of what everybody else's data give away; None where it was not measured."""
    cells = document.risk.cells if isinstance(document, DecisionDocument) else []
    return cells[0].answer_inference_baseline_high if cells else None


def _may_be_measured(document: WhatIfDocument | DecisionDocument) -> bool:
    """Say whether the attack limit could be met by the attack that was tried."""
    if not isinstance(document, DecisionDocument):
        return False
    settings = document.provenance.settings
    # Documents without the setting say whether proof alone was asked for.
    asked = settings.get("measured", settings.get("proven_only") is False) is True
    return asked and document.recommendation.confidence <= _MEASURED_CONFIDENCE


def _loss_step(document: WhatIfDocument) -> float:
    """Give the step of a dragged loss: about a hundredth of what the chart shows, a round number."""
    shown = [
        abs(value)
        for cell in document.cells
        for value in (cell.loss_change, cell.loss_change_high)
        if value is not None and math.isfinite(value) and value != 0
    ]
    return float(f"1e{math.floor(math.log10(max(shown) / 50))}") if shown else 0.001


def _typed(value: float | None, factor: float = 1.0) -> str:
    """Write a limit as somebody would type it; nothing where there is none."""
    return "" if value is None else f"{factor * value:.10g}"


def _number(mapping: Mapping[str, object] | None, name: str) -> float | None:
    value = None if mapping is None else mapping.get(name)
    if value is None:
        return None
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(
            f'`recommendation["{name}"]` must be a number or None, got {type(value).__name__}.'
        )
    return float(value)


def _own_limits(document: WhatIfDocument | DecisionDocument, *, many: bool) -> str:
    """Name the limits of a decision, for when others are typed on the page."""
    if not isinstance(document, DecisionDocument):
        return ""
    chosen, said = document.recommendation, []
    if chosen.max_loss_increase is not None:
        limit = f"{chosen.max_loss_increase:.10g} {loss_unit(document.cost)}"
        said.append(f"a rise of the test loss of at most {limit}")
    if chosen.max_accuracy_loss is not None:
        said.append(f"at most {10 * chosen.max_accuracy_loss:.10g} {MORE_MISTAKES}")
    if chosen.max_attack_rate is not None:
        at_once = ", all of them at once" if many else ""
        said.append(f"at most {100 * chosen.max_attack_rate:.10g}\u00a0% guessed{at_once}")
    if chosen.max_advantage is not None:
        ours = " (our default)" if chosen.is_default else ""
        shown = f"{chosen.max_advantage:.10g}{ours}"
        said.append(f"an advantage of at most {shown}")
    return " and ".join(said)


def _own_answer(document: WhatIfDocument | DecisionDocument, recommended: float | None) -> str:
    """Name what a decision recommends: the mechanism where several were compared, and ε."""
    if isinstance(document, DecisionDocument) and document.is_comparison:
        chosen = document.recommendation
        return answer_title(chosen) if is_recommended(document) else "no mechanism"
    return f"ε = {epsilon_text(recommended)}" if recommended else _NONE


def _opening(
    document: WhatIfDocument | DecisionDocument,
    recommendation: Mapping[str, object] | None,
    recommended: float | None,
    *,
    holds: bool,
) -> _Opening:
    """Choose what the page shows first; a budget nobody recommends is never its answer."""
    on_axis = _start(document, recommended)
    if recommendation is None or "epsilon" not in recommendation or recommended is None:
        verdict = _NONE if recommendation is not None and "epsilon" in recommendation else ""
        return _Opening(on_axis, on_axis, verdict=verdict if on_axis.trusted else _UNANSWERED)
    cost = document.cost
    cells = [cell for cell in cost.cells if cell.group == on_axis.group]
    chosen = next((cell for cell in cells if axis_budget(cost, cell) == recommended), None)
    if document.risk is not None and not holds:
        return _Opening(on_axis, on_axis, verdict=_NONE)
    if chosen is None:
        verdict = "" if not math.isinf(recommended) else _INFINITE if holds else _NONE
        return _Opening(on_axis, on_axis, verdict=verdict, is_doubtful=not holds)
    return _Opening(chosen, on_axis if math.isinf(recommended) else chosen, is_doubtful=not holds)


def _start(document: WhatIfDocument | DecisionDocument, recommended: float | None) -> WhatIfCell:
    cost = document.cost
    group = None if document.risk is None else whole_group(document.cost)
    if group is not None and group not in group_names(cost):
        raise InputError(
            f"expected the cost of everybody, group {EVERYBODY!r}, in the decision, got none. Ask "
            "for the cost of all records too."
        )
    wanted = recommended if recommended is not None and 0 < recommended < math.inf else None
    cell = typical_cell(cost, group=group, epsilon=wanted)
    if cell is None or not 0 < axis_budget(cost, cell) < math.inf:
        raise InputError(
            "expected at least one budget between 0 and infinity to report on, got none. "
            "Add such an epsilon to the grid."
        )
    return cell
