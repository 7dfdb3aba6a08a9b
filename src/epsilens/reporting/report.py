# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that works from a mail attachment and asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from epsilens.display.cell_text import (
    Gap,
    accuracy_text,
    expected_accuracy_text,
    expected_gap_text,
    gap_text,
    has_gap,
    interval_text,
)
from epsilens.display.rounding import (
    change_decimals,
    format_auc,
    format_auc_change,
    format_change,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
    format_seconds,
)
from epsilens.display.words import GAP_MEANINGS, answers_text, axis_budget
from epsilens.document import (
    NUMBER_TYPE_MEANINGS,
    NUMBER_TYPES,
    WhatIfCell,
    WhatIfDocument,
    cost_type,
    group_names,
    is_model_release,
    loss_unit,
    to_dict,
)
from epsilens.errors import InputError, InputTypeError
from epsilens.reporting.sentences import (
    cell_sentence,
    protected_text,
    typical_cell,
    whom_text,
)

__all__ = ["write_report"]

_OUTCOME_WORDS = {
    "loss": "test loss",
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "loss_gap": "loss gap of the group",
    "accuracy_gap": "accuracy gap of the group",
}

_BUNDLE_EXPORT = "window.vegaEmbed = vegaEmbed;"


def write_report(
    document: WhatIfDocument,
    path: str | Path,
    *,
    title: str = "What a privacy budget costs",
    question: Mapping[str, object] | None = None,
    recommendation: Mapping[str, object] | None = None,
    command: str | None = None,
) -> Path:
    """Write a what-if as one page that says which privacy budget costs what.

    The page shows the question, the answer in large type, the cost of every budget as a chart with
    a slider, the numbers as a table, what is not protected, and how to compute it again. It is one
    file without any link to the network, so it can be mailed and read anywhere. It is written
    completely or not at all.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if; the page shows nothing that is not in it.
    path : str or pathlib.Path
        The file to write; an older one is replaced.
    title : str
        The title of the page.
    question : mapping, optional
        What was asked: `label`, the column to be predicted; `protect`, the columns to be
        randomised (by default those in the document's settings, else the label); `data`, the name
        of the file; `groups`, a mapping from group name to the words to show for it.
    recommendation : mapping, optional
        `epsilon`, `holds` and `sentence` of a chosen budget, and `max_loss_increase`, the loss that
        can be borne. Without it the page opens at the budget nearest to 1.
    command : str, optional
        The command that makes the page again.

    Returns
    -------
    pathlib.Path
        The file that was written.

    Raises
    ------
    InputError
        If no budget can be drawn, or the folder does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=cells)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(document, f"{folder}/report.html", question={"label": "smokes"})
    ...     page.stat().st_size < 3_000_000
    True
    """
    from epsilens.data import write_text

    if not isinstance(document, WhatIfDocument):
        raise InputTypeError(
            f"`document` must be a WhatIfDocument, got {type(document).__name__}. "
            "A study gives one by `.estimate(...)`."
        )
    target = Path(path)
    page = _render(document, title, question or {}, recommendation, command)
    write_text(page, target)
    return target


def _render(
    document: WhatIfDocument,
    title: str,
    question: Mapping[str, object],
    recommendation: Mapping[str, object] | None,
    command: str | None,
) -> str:
    import jinja2
    import vl_convert

    from epsilens.display import available_outcomes, cost_chart, page_chart

    loader = jinja2.PackageLoader("epsilens.reporting")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    accepted = _number(recommendation, "max_loss_increase")
    recommended = _number(recommendation, "epsilon")
    holds = recommendation is not None and bool(recommendation.get("holds", True))
    start = _start(document, recommended)
    outcomes = available_outcomes(document)
    if not outcomes:
        raise InputError(
            "expected at least one number to report on, got none: every estimate is missing. "
            "Ask for another method or another epsilon."
        )
    specs = {
        outcome: page_chart(
            document,
            outcome=outcome,
            epsilon=axis_budget(document, start),
            max_loss_increase=accepted if outcome == "loss" else None,
        )
        for outcome in outcomes
    }
    captions = {
        outcome: " ".join(cost_chart(document, outcome=outcome).to_dict()["title"]["subtitle"])
        for outcome in outcomes
    }
    still = vl_convert.vegalite_to_svg(
        cost_chart(
            document,
            outcome=outcomes[0],
            max_loss_increase=accepted if outcomes[0] == "loss" else None,
        ).to_dict(),
        allowed_base_urls=[],
    )
    groups = [_group(document, name, question) for name in group_names(document)]
    data = {
        "start": {"group": start.group, "epsilon": axis_budget(document, start)},
        "recommended": recommended if holds and recommended != math.inf else None,
        "groups": {group["name"]: group["cells"] for group in groups},
        "charts": specs,
        "captions": captions,
    }
    bundle = _chart_library()
    script = _inline_script(loader.get_source(environment, "report.js")[0])
    policy = (
        f"default-src 'none'; script-src {_hash(bundle)} {_hash(script)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        policy=policy,
        style=loader.get_source(environment, "report.css")[0],
        bundle=bundle,
        script=script,
        page_data=_inline_json(data),
        document_json=_inline_json(to_dict(document)),
        still=still,
        data_name=question.get("data"),
        protected=_protected(document, question),
        is_model_release=is_model_release(document),
        groups=groups,
        start=start,
        start_row=_cell(document, start),
        chart_words=specs[outcomes[0]]["description"],
        caption=captions[outcomes[0]],
        outcomes=[(outcome, _OUTCOME_WORDS[outcome]) for outcome in outcomes],
        recommendation=recommendation,
        accepted=accepted,
        is_recommended=holds and recommended == axis_budget(document, start),
        command=command,
        cost_type=cost_type(document),
        runs="of the runs" if cost_type(document) == "measured" else "real runs",
        unit=loss_unit(document),
        gaps=_gaps(document, document.cells),
        by_record=any(cell.epsilon is None for cell in document.cells),
        warnings=document.warnings,
        meanings=[(name, NUMBER_TYPE_MEANINGS[name]) for name in NUMBER_TYPES],
        baseline=_baseline(document),
        provenance=_provenance(document),
    )


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


def _start(document: WhatIfDocument, recommended: float | None) -> WhatIfCell:
    wanted = recommended if recommended is not None and math.isfinite(recommended) else None
    cell = typical_cell(document, epsilon=wanted)
    if cell is None or not 0 < axis_budget(document, cell) < math.inf:
        raise InputError(
            "expected at least one budget between 0 and infinity to report on, got none. "
            "Add such an epsilon to the grid."
        )
    return cell


def _protected(document: WhatIfDocument, question: Mapping[str, object]) -> str:
    protect = question.get("protect")
    names = [protect] if isinstance(protect, str) else protect
    if isinstance(names, Sequence) and names:
        return answers_text(names)
    if "protect" not in document.provenance.settings and question.get("label"):
        return f"the answer “{question['label']}”"
    return protected_text(document)


def _group(document: WhatIfDocument, name: str, question: Mapping[str, object]) -> dict[str, Any]:
    words = question.get("groups")
    shown = words.get(name) if isinstance(words, Mapping) else None
    cells = [cell for cell in document.cells if cell.group == name]
    return {
        "name": name,
        "shown": str(shown) if shown else whom_text(name),
        "cells": [_cell(document, cell) for cell in cells],
        "gaps": _gaps(document, cells),
    }


def _cell(document: WhatIfDocument, cell: WhatIfCell) -> dict[str, Any]:
    """Give what the page shows of a cell, rounded here so that it rounds nothing itself."""
    decimals = change_decimals(document)
    budget, high = axis_budget(document, cell), cell.loss_change_high
    drawable = 0 < budget < math.inf
    return {
        "budget": budget if drawable else None,
        "epsilon": format_epsilon(budget),
        "record_epsilon": format_epsilon(cell.record_epsilon),
        "sentence": cell_sentence(document, cell),
        "loss": format_change(cell.loss_change, decimals=decimals),
        "interval": interval_text(document, cell),
        "high": high if high is not None and math.isfinite(high) else None,
        "accuracy": accuracy_text(document, cell),
        "expected_accuracy": expected_accuracy_text(document, cell),
        "auc": None if cell.auc_change is None else format_auc_change(cell.auc_change),
        "loss_gap": gap_text(document, cell, "loss_gap"),
        "expected_loss_gap": expected_gap_text(document, cell, "loss_gap"),
        "accuracy_gap": gap_text(document, cell, "accuracy_gap"),
        "expected_accuracy_gap": expected_gap_text(document, cell, "accuracy_gap"),
        "method": cell.method,
        "trusted": cell.trusted,
    }


def _gaps(document: WhatIfDocument, cells: Sequence[WhatIfCell]) -> list[dict[str, str]]:
    """Describe the gaps that these cells have: the key in a cell, words, unit and meaning."""
    units: dict[Gap, str] = {"loss_gap": loss_unit(document), "accuracy_gap": "points"}
    return [
        {"key": gap, "words": gap.replace("_", " "), "unit": unit, "meaning": GAP_MEANINGS[gap]}
        for gap, unit in units.items()
        if has_gap(cells, gap)
    ]


def _baseline(document: WhatIfDocument) -> list[tuple[str, str]]:
    baseline = document.baseline
    rows = [
        (
            "test loss",
            f"{format_loss(baseline.loss, decimals=change_decimals(document))} {loss_unit(document)}",
        ),
        ("accuracy", format_percent(baseline.accuracy)),
        ("area under the ROC curve", format_auc(baseline.auc)),
        ("training rows", format_count(baseline.n_train)),
        ("test rows", format_count(baseline.n_test)),
        ("coefficients", format_count(baseline.n_parameters)),
    ]
    return [(name, text) for name, text in rows if not text.startswith("–")]


def _provenance(document: WhatIfDocument) -> list[tuple[str, str]]:
    origin = document.provenance
    rows = [("method", origin.method)]
    rows += [
        (name.replace("_", " "), _setting_text(value))
        for name, value in origin.settings.items()
        if value is not None
    ]
    rows.append(("seed", "none" if origin.seed is None else str(origin.seed)))
    rows.append(("epsilens", origin.version))
    rows.append(("fingerprint of the columns", origin.schema_fingerprint or "none"))
    rows.append(("time taken", format_seconds(origin.seconds)))
    return rows


@lru_cache(maxsize=1)
def _chart_library() -> str:
    """Give Vega and its embedding as one script; putting it together takes a second."""
    import vl_convert

    return _inline_script(vl_convert.javascript_bundle(_BUNDLE_EXPORT))


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


def _inline_script(text: str) -> str:
    """Make script text safe inside a script element, where only `</script` and `<!--` end it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("</script", "<\\/script").replace("<!--", "\\x3C!--")


def _inline_json(content: object) -> str:
    """Write JSON that no HTML parser can mistake for markup."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
