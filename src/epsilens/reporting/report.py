# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that works from a mail attachment and asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epsilens.display.words import axis_budget
from epsilens.document import (
    NUMBER_TYPE_MEANINGS,
    NUMBER_TYPES,
    WhatIfCell,
    WhatIfDocument,
    cost_type,
    group_names,
    loss_unit,
    to_dict,
)
from epsilens.errors import InputError, InputTypeError
from epsilens.reporting.rounding import (
    change_decimals,
    format_auc,
    format_auc_change,
    format_change,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
    format_points,
    format_seconds,
)
from epsilens.reporting.sentences import (
    cell_sentence,
    interval_text,
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
    if not isinstance(document, WhatIfDocument):
        raise InputTypeError(
            f"`document` must be a WhatIfDocument, got {type(document).__name__}. "
            "A study gives one by `.estimate(...)`."
        )
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(
            f"`path` must lie in an existing folder, got {target.name!r} in a folder that does not "
            "exist. Make the folder first."
        )
    if target.is_dir():
        raise InputError(
            f"`path` must be a file, got the folder {target.name!r}. Add a file name: report.html"
        )
    page = _render(document, title, question or {}, recommendation, command)
    _write_at_once(target, page.encode("utf-8"))
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
    from markupsafe import Markup

    from epsilens.display import available_outcomes, cost_chart, page_chart

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsilens.reporting"),
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
    bundle = _inline_script(vl_convert.javascript_bundle(_BUNDLE_EXPORT))
    loader = environment.loader
    if loader is None:  # pragma: no cover
        raise InputError("expected the page's templates in the package. Install epsilens again.")
    script = _inline_script(loader.get_source(environment, "report.js")[0])
    policy = (
        f"default-src 'none'; script-src {_hash(bundle)} {_hash(script)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        policy=policy,
        style=Markup(loader.get_source(environment, "report.css")[0]),  # noqa: S704
        bundle=Markup(bundle),  # noqa: S704
        script=Markup(script),  # noqa: S704
        page_data=_inline_json(data),
        document_json=_inline_json(to_dict(document)),
        still=Markup(still),  # noqa: S704
        question=question,
        data_name=question.get("data"),
        protected=_protected(document, question),
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
        quoted = [f"“{name}”" for name in names]
        if len(quoted) == 1:
            return f"the answer {quoted[0]}"
        return f"the answers {', '.join(quoted[:-1])} and {quoted[-1]}"
    if "protect" not in document.provenance.settings and question.get("label"):
        return f"the answer “{question['label']}”"
    return protected_text(document)


def _group(document: WhatIfDocument, name: str, question: Mapping[str, object]) -> dict[str, Any]:
    words = question.get("groups")
    shown = words.get(name) if isinstance(words, Mapping) else None
    return {
        "name": name,
        "shown": str(shown) if shown else whom_text(name),
        "cells": [_cell(document, cell) for cell in document.cells if cell.group == name],
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
        "accuracy_interval": _accuracy_interval(document, cell),
        "accuracy": None if cell.accuracy_change is None else format_points(cell.accuracy_change),
        "auc": None if cell.auc_change is None else format_auc_change(cell.auc_change),
        "accuracy_gap": None
        if cell.accuracy_gap_change is None
        else format_points(cell.accuracy_gap_change),
        "method": cell.method,
        "trusted": cell.trusted,
    }


def _accuracy_interval(document: WhatIfDocument, cell: WhatIfCell) -> str | None:
    for item in document.intervals:
        if (item.group, item.epsilon, item.outcome) == (cell.group, cell.epsilon, "accuracy"):
            return f"{format_points(item.low)} to {format_points(item.high)}"
    return None


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
        (
            f"setting {name}",
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        )
        for name, value in origin.settings.items()
        if value is not None
    ]
    rows.append(("seed", "none" if origin.seed is None else str(origin.seed)))
    rows.append(("epsilens", origin.version))
    rows.append(("fingerprint of the columns", origin.schema_fingerprint or "none"))
    rows.append(("time taken", format_seconds(origin.seconds)))
    return rows


def _inline_script(text: str) -> str:
    """Make script text safe inside a script element, where only `</script` and `<!--` end it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("</script", "<\\/script").replace("<!--", "\\x3C!--")


def _inline_json(content: object) -> Any:
    """Write JSON that no HTML parser can mistake for markup."""
    from markupsafe import Markup

    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def _write_at_once(target: Path, content: bytes) -> None:
    """Write a file completely or not at all: first beside it, then in its place."""
    problem: str
    try:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
    except OSError as error:
        problem = error.strerror or type(error).__name__
    else:
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            # A temporary file is private to its owner; the report has the usual permissions.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            problem = error.strerror or type(error).__name__
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        else:
            return
    raise InputError(f"expected a place to write {target.name!r}, got: {problem}. Choose another.")
