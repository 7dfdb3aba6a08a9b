# SPDX-License-Identifier: Apache-2.0
"""Results as small HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from epsilens._validate import as_count
from epsilens.document import (
    EVERYBODY,
    DecisionDocument,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
    cost_type,
    group_names,
    loss_unit,
)
from epsilens.show.cell_text import GAPS, cells_to_show, has_gap, thinned
from epsilens.show.columns import Column, cost_columns, rows_note
from epsilens.show.look import TITLE
from epsilens.show.risk_text import risk_columns, risk_notes, risk_title
from epsilens.show.rounding import (
    change_decimals,
    format_epsilon,
    format_loss,
    format_percent,
)
from epsilens.show.words import NO_PRIVACY, axis_budget, group_label, unanswered_text

__all__ = ["decision_html", "risk_html", "whatif_html"]

_LEFT = ' style="text-align:left;padding:.15em .6em"'
_HEAD = ' style="text-align:right;padding:.15em .6em"'
_RIGHT = ' style="text-align:right;padding:.15em .6em;white-space:nowrap"'
_WHERE = "to_frame() has"


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
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02) for epsilon in range(1, 31)]
    >>> page = whatif_html(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                   cells=cells))
    >>> page.count("<tr>")
    13
    """
    as_count(max_rows, name="max_rows")
    document = document.answered()
    shown = cells_to_show(document, max_rows=max_rows)
    columns = cost_columns(document, shown)
    if len(group_names(document)) > 1:
        columns.insert(0, Column("group", lambda cell: group_label(cell.group), False))
    rows = [[column.text(cell) for column in columns] for cell in shown]
    return _page(escape(_summary(document)), columns, rows, _notes(document, shown))


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
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cells = [RiskCell(epsilon=float(epsilon), mechanism="rr", asr_max=0.6)
    ...          for epsilon in range(1, 31)]
    >>> risk_html(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                        n_targets=4774, cells=cells)).count("<tr>")
    13
    """
    as_count(max_rows, name="max_rows", least=2)
    columns, shown = risk_columns(document), thinned(document.cells, max_rows)
    rows = [[column.text(cell) for column in columns] for cell in shown]
    left_out = rows_note(len(shown), len(document.cells), _WHERE)
    notes = [*risk_notes(document), *left_out, *_caveats(document)]
    return _page(f"{escape(risk_title(document))}.", columns, rows, notes)


def decision_html(document: DecisionDocument, *, max_rows: int = 12) -> str:
    """Show a decision as HTML: the recommendation, and what a few budgets cost and buy.

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
    >>> from epsilens.document import (Baseline, DecisionDocument, Provenance, Recommendation,
    ...                                RiskCell, RiskDocument, WhatIfCell, WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> origin, grid = Provenance(method="exact"), (0.5, 1.0, 2.0)
    >>> cost = WhatIfDocument(provenance=origin, baseline=start, cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02 / epsilon) for epsilon in grid])
    >>> risk = RiskDocument(provenance=origin, n_models=256, n_targets=75, cells=[
    ...     RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_rate=0.7) for epsilon in grid])
    >>> chosen = Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> decision_html(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                recommendation=chosen)).count("<tr>")
    4
    """
    as_count(max_rows, name="max_rows", least=2)
    cost, risk, chosen = document.cost.answered(), document.risk, document.recommendation
    attacks = {axis_budget(risk, cell): cell for cell in risk.cells}
    everybody = [cell for cell in cost.cells if cell.group == EVERYBODY]
    common = [cell for cell in everybody if axis_budget(cost, cell) in attacks]
    shown = thinned(common, max_rows)
    shown = [cell for cell in common if cell in shown or axis_budget(cost, cell) == chosen.epsilon]
    costs, attacked = cost_columns(cost, shown, parts=["loss"]), risk_columns(risk)[1:]
    rows = []
    for cell in shown:
        budget = axis_budget(cost, cell)
        texts = [column.text(cell) for column in costs]
        if chosen.holds and budget == chosen.epsilon:
            texts[0] += " (recommended)"
        rows.append([*texts, *(column.text(attacks[budget]) for column in attacked)])
    notes = [f"Cost: {cost_type(cost)}. Attacks: measured, ceilings proven.", *risk_notes(risk)]
    notes += rows_note(len(shown), len(common), "to_dict() has")
    notes += _caveats(document)
    summary = f"<b>{escape(chosen.sentence)}</b>"
    if (fact := document.face_value()) is not None:
        summary += f"<br>{escape(fact)}"
    return _page(summary, [*costs, *attacked], rows, notes)


def _summary(document: WhatIfDocument) -> str:
    baseline, names = document.baseline, group_names(document)
    budgets = [axis_budget(document, cell) for cell in document.cells if cell.group == names[0]]
    parts = [f"{TITLE} ({cost_type(document)})"]
    if names:
        ends = f"ε = {format_epsilon(min(budgets))}"
        if len(budgets) > 1:
            ends = f"{len(budgets)} budgets from {ends} to {format_epsilon(max(budgets))}"
        parts.append(ends if len(names) == 1 else f"{len(names)} groups, {ends}")
    loss = format_loss(baseline.loss, decimals=change_decimals(document))
    before = f"before anything is randomised: test loss {loss} {loss_unit(document)}"
    if baseline.accuracy is not None:
        before += f", accuracy {format_percent(baseline.accuracy)}"
    return "; ".join([*parts, before]) + "."


def _page(
    summary: str, columns: Sequence[Column[Any]], rows: list[list[str]], notes: list[str]
) -> str:
    """Put a summary, which is HTML, a table and what is to be known of it together."""
    parts = ["<div>", f"<p>{summary}</p>"]
    if rows:
        are_numbers = [column.holds_numbers for column in columns]
        head = _row([column.title for column in columns], are_numbers, is_header=True)
        body = [_row(texts, are_numbers) for texts in rows]
        parts += ["<table>", f"<thead>{head}</thead>", "<tbody>", *body, "</tbody>", "</table>"]
    return "\n".join([*parts, f"<p><small>{escape(' '.join(notes))}</small></p>", "</div>"])


def _row(texts: list[str], are_numbers: list[bool], *, is_header: bool = False) -> str:
    tag, scope, right = ("th", ' scope="col"', _HEAD) if is_header else ("td", "", _RIGHT)
    cells = [
        f"<{tag}{scope}{right if is_number else _LEFT}>{escape(text)}</{tag}>"
        for text, is_number in zip(texts, are_numbers, strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _notes(document: WhatIfDocument, shown: list[WhatIfCell]) -> list[str]:
    notes = rows_note(len(shown), len(document.cells), _WHERE)
    if not document.is_about_privacy:
        notes.append(NO_PRIVACY)
    if (unanswered := unanswered_text(document)) is not None:
        notes.append(unanswered)
    if any(has_gap(shown, gap) for gap in GAPS):
        notes.append("Gap: the group less everybody else.")
    return notes + _caveats(document)


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
