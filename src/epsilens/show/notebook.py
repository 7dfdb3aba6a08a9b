# SPDX-License-Identifier: Apache-2.0
"""Results as small HTML tables, for notebooks."""

from __future__ import annotations

import base64
from dataclasses import replace
from html import escape

from epsilens._validate import as_count
from epsilens.document import DecisionDocument, RiskDocument, WhatIfDocument
from epsilens.document.view import COST_TITLE, Line, Table, View, view
from epsilens.document.wording import (
    axis_budget,
    cost_type,
    epsilon_text,
    group_names,
    loss_decimals,
    loss_text,
    loss_unit,
    percent_text,
)
from epsilens.errors import InputError

_LEFT = ' style="text-align:left;padding:.15em .6em"'
_HEAD = ' style="text-align:right;padding:.15em .6em"'
_RIGHT = ' style="text-align:right;padding:.15em .6em;white-space:nowrap"'
_WHERE = "to_frame() has"
_COST = (
    "epsilon",
    "loss_change",
    "loss_change_range",
    "accuracy_change",
    "loss_gap_change",
    "accuracy_gap_change",
    "trusted",
)
_DECISION = ("epsilon", "loss_change", "loss_change_range", "trusted")


def whatif_html(document: WhatIfDocument, *, max_rows: int = 12) -> str:
    """Show what budgets would cost as HTML: a line that sums up, and a few rows of the grid.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    max_rows : int
        About how many rows to show; of a longer grid evenly spaced budgets are taken, always with
        both ends.

    Returns
    -------
    str
        HTML without scripts, links or colours of its own. Names from the data are escaped.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02) for epsilon in range(1, 31)]
    >>> page = whatif_html(example_document("whatif", cells=cells))
    >>> page.count("<tr>")
    13
    """
    as_count(max_rows, name="max_rows")
    shown = view(document)
    table = shown.tables[0].thinned(max_rows, _WHERE).select(_COST)
    notes = [*table.notes, *shown.notes]
    if len(shown.tables) > 1:
        notes.append("Gap: the group less everybody else.")
    return _page(escape(_summary(document)), table, [*notes, *_caveats(document)])


def risk_html(document: RiskDocument, *, max_rows: int = 12) -> str:
    """Show what an attacker gets as HTML: a line that sums up, and a few rows of the grid.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    max_rows : int
        About how many rows to show, as in `whatif_html`.

    Returns
    -------
    str
        HTML without scripts, links or colours of its own. Names from the data are escaped.

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> cells = [RiskCell(epsilon=float(epsilon), mechanism="rr", asr_max=0.6)
    ...          for epsilon in range(1, 31)]
    >>> risk_html(example_document("risk", n_models=256,
    ...                        n_targets=4774, cells=cells)).count("<tr>")
    13
    """
    as_count(max_rows, name="max_rows", least=2)
    shown = view(document)
    table = shown.tables[0].thinned(max_rows, _WHERE)
    return _page(f"{escape(shown.title)}.", table, [*table.notes, *_caveats(document)])


def decision_html(document: DecisionDocument, *, max_rows: int = 12) -> str:
    """Show a decision as HTML: the recommendation, the chart, three facts, and the numbers on demand.

    Parameters
    ----------
    document : DecisionDocument
        The decision.
    max_rows : int
        About how many rows to show, as in `whatif_html`; the recommended budget is always among
        them.

    Returns
    -------
    str
        HTML without scripts, links or colours of its own. Names from the data are escaped.

    Examples
    --------
    >>> from epsilens.document import (DecisionDocument, Provenance, Recommendation, RiskCell,
    ...                                WhatIfCell, example_document)
    >>> origin, grid = Provenance(method="exact"), (0.5, 1.0, 2.0)
    >>> cost = example_document("whatif", cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02 / epsilon) for epsilon in grid])
    >>> risk = example_document("risk", cells=[
    ...     RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_rate=0.7) for epsilon in grid])
    >>> chosen = Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> decision_html(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                recommendation=chosen)).count("<tr>")
    4
    """
    as_count(max_rows, name="max_rows", least=2)
    shown, attacks = view(document), view(document.risk)
    table = shown.tables[0]
    columns = [*_DECISION, *attacks.tables[0].keys[1:]]
    summary = _answer(shown, _picture(document))
    if len(shown.tables) > 1:
        table = shown.tables[1]
        return _page(summary, table, [*table.notes, *_caveats(document)], is_closed=True)
    table = replace(table, notes=()).thinned(max_rows, "to_dict() has").select(columns)
    if document.recommendation.holds:
        lines = tuple(_recommended(line) if line.is_chosen else line for line in table.lines)
        table = replace(table, lines=lines)
    kind = cost_type(document.cost)
    notes = [f"Cost: {kind}. Attacks: measured, ceilings proven.", *attacks.notes, *table.notes]
    return _page(summary, table, [*notes, *_caveats(document)], is_closed=True)


def _answer(shown: View, picture: str) -> str:
    """Return the recommendation, the chart, the facts and the second-best answer as HTML."""
    facts = [fact.sentence for fact in shown.facts]
    if shown.runner_up is not None:
        facts.append(shown.runner_up)
    said = "<br>".join(map(escape, facts))
    return f"<b>{escape(shown.sentences[0])}</b><br>{picture}<br>{said}"


def _picture(document: DecisionDocument) -> str:
    """Return the chart of the report as an image within the text; nothing where there is none to draw."""
    import vl_convert

    from epsilens.show.decision import document_chart

    try:
        spec = document_chart(document).to_dict(validate=False)
    except InputError:  # no budget lies on a logarithmic axis
        return ""
    spec.pop("title", None)  # the recommendation stands above
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    drawn = base64.b64encode(svg.encode()).decode("ascii")
    words = escape(str(spec.get("description", "")))
    return f'<img style="max-width:100%" src="data:image/svg+xml;base64,{drawn}" alt="{words}">'


def _recommended(line: Line) -> Line:
    first, *others = line.rows
    return replace(line, rows=(replace(first, text=f"{first.text} (recommended)"), *others))


def _summary(document: WhatIfDocument) -> str:
    baseline, names = document.baseline, group_names(document)
    budgets = [axis_budget(document, cell) for cell in document.cells if cell.group == names[0]]
    parts = [f"{COST_TITLE} ({cost_type(document)})"]
    if names:
        ends = f"ε = {epsilon_text(min(budgets))}"
        if len(budgets) > 1:
            ends = f"{len(budgets)} budgets from {ends} to {epsilon_text(max(budgets))}"
        parts.append(ends if len(names) == 1 else f"{len(names)} groups, {ends}")
    loss = loss_text(baseline.loss, decimals=loss_decimals(document.baseline.loss))
    before = f"before anything is randomised: test loss {loss} {loss_unit(document)}"
    if baseline.accuracy is not None:
        before += f", accuracy {percent_text(baseline.accuracy)}"
    return "; ".join([*parts, before]) + "."


def _page(summary: str, table: Table, notes: list[str], *, is_closed: bool = False) -> str:
    """Put a summary, which is HTML, a table and what is to be known of it together."""
    parts = ["<div>", f"<p>{summary}</p>"]
    if table.lines:
        head = _row(table.lines[0], is_header=True)
        body = [_row(line) for line in table.lines]
        shown = ["<table>", f"<thead>{head}</thead>", "<tbody>", *body, "</tbody>", "</table>"]
        if is_closed:
            shown = ["<details><summary>The numbers</summary>", *shown, "</details>"]
        parts += shown
    return "\n".join([*parts, f"<p><small>{escape(' '.join(notes))}</small></p>", "</div>"])


def _row(line: Line, *, is_header: bool = False) -> str:
    tag, scope, right = ("th", ' scope="col"', _HEAD) if is_header else ("td", "", _RIGHT)
    shown = [(row.title if is_header else row.text, row.is_number) for row in line.rows]
    if line.group is not None:
        shown.insert(0, ("group" if is_header else line.group, False))
    cells = [
        f"<{tag}{scope}{right if is_number else _LEFT}>{escape(text)}</{tag}>"
        for text, is_number in shown
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _caveats(document: WhatIfDocument | RiskDocument | DecisionDocument) -> list[str]:
    """Say what holds for every result that was computed from raw data."""
    notes = []
    if document.warnings:
        count = len(document.warnings)
        notes.append(
            f"{count} warning{'s' if count > 1 else ''}: read document.warnings before relying on this."
        )
    notes.append("Computed from the true answers: this table is not private itself.")
    return notes
