# SPDX-License-Identifier: Apache-2.0
"""Results as small HTML tables, for notebooks."""

from __future__ import annotations

from html import escape

from epsilens._validate import as_count
from epsilens.display.cell_text import (
    Gap,
    accuracy_text,
    cells_to_show,
    gap_text,
    has_gap,
    interval_text,
    thinned,
)
from epsilens.display.plotted import TITLE
from epsilens.display.risk_text import risk_columns, risk_notes, risk_title
from epsilens.display.rounding import (
    NOTHING,
    change_decimals,
    format_change,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
)
from epsilens.display.words import axis_budget, budget_title
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

__all__ = ["decision_html", "risk_html", "whatif_html"]

_LEFT = ' style="text-align:left;padding:.15em .6em"'
_HEAD = ' style="text-align:right;padding:.15em .6em"'
_RIGHT = ' style="text-align:right;padding:.15em .6em;white-space:nowrap"'


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
    shown = cells_to_show(document, max_rows=max_rows)
    parts = ["<div>", f"<p>{escape(_summary(document))}</p>"]
    if shown:
        parts += _table(document, shown)
    notes = escape(" ".join(_notes(document, shown)))
    return "\n".join([*parts, f"<p><small>{notes}</small></p>", "</div>"])


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
    parts = ["<div>", f"<p>{escape(risk_title(document))}.</p>"]
    if shown:
        rows = [[column.text(cell) for column in columns] for cell in shown]
        parts += _laid_out([column.title for column in columns], rows)
    notes = [*risk_notes(document), *_left_out(document, len(shown)), *_caveats(document)]
    return "\n".join([*parts, f"<p><small>{escape(' '.join(notes))}</small></p>", "</div>"])


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
    cost, risk, chosen = document.cost, document.risk, document.recommendation
    attacks = {axis_budget(risk, cell): cell for cell in risk.cells}
    everybody = [cell for cell in cost.cells if cell.group == EVERYBODY]
    common = [cell for cell in everybody if axis_budget(cost, cell) in attacks]
    shown = thinned(common, max_rows)
    shown = [cell for cell in common if cell in shown or axis_budget(cost, cell) == chosen.epsilon]
    columns, decimals = risk_columns(risk)[1:], change_decimals(cost)
    titles = [budget_title(cost).removeprefix("privacy budget ")]
    titles += [f"change of test loss ({loss_unit(cost)})", "9 in 10 runs", "trusted"]
    titles += [column.title for column in columns]
    rows = []
    for cell in shown:
        budget = axis_budget(cost, cell)
        mark = " (recommended)" if chosen.holds and budget == chosen.epsilon else ""
        texts = [f"{format_epsilon(budget)}{mark}"]
        texts += [format_change(cell.loss_change, decimals=decimals)]
        texts += [interval_text(cost, cell) or NOTHING, "yes" if cell.trusted else "no"]
        rows.append([*texts, *(column.text(attacks[budget]) for column in columns)])
    parts = ["<div>", f"<p><b>{escape(chosen.sentence)}</b></p>"]
    parts += _laid_out(titles, rows) if rows else []
    notes = [f"Cost: {cost_type(cost)}. Attacks: measured, ceilings proven.", *risk_notes(risk)]
    if len(shown) < len(common):
        notes.append(f"{len(shown)} of {format_count(len(common))} rows shown.")
    notes += _caveats(document)
    return "\n".join([*parts, f"<p><small>{escape(' '.join(notes))}</small></p>", "</div>"])


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


def _table(document: WhatIfDocument, shown: list[WhatIfCell]) -> list[str]:
    """Lay out the rows; a column without numbers is left out."""
    several = len(group_names(document)) > 1
    decimals, unit = change_decimals(document), loss_unit(document)
    units: dict[Gap, str] = {"loss_gap": unit, "accuracy_gap": "points"}
    gaps = [gap for gap in units if has_gap(shown, gap)]
    with_interval = any(interval_text(document, cell) is not None for cell in shown)
    with_accuracy = any(cell.accuracy_change is not None for cell in shown)
    titles = ["group"] if several else []
    titles += [budget_title(document).removeprefix("privacy budget ")]
    titles += [f"change of test loss ({unit})"]
    titles += ["9 in 10 runs"] if with_interval else []
    titles += ["accuracy (points)"] if with_accuracy else []
    titles += [f"{gap.replace('_', ' ')} ({units[gap]})" for gap in gaps]
    titles += ["trusted"]
    rows = []
    for cell in shown:
        texts = [cell.group] if several else []
        texts += [format_epsilon(axis_budget(document, cell))]
        texts += [format_change(cell.loss_change, decimals=decimals)]
        texts += [interval_text(document, cell) or NOTHING] if with_interval else []
        texts += [accuracy_text(document, cell) or NOTHING] if with_accuracy else []
        texts += [gap_text(document, cell, gap) or NOTHING for gap in gaps]
        texts += ["yes" if cell.trusted else "no"]
        rows.append(texts)
    return _laid_out(titles, rows, several=several)


def _laid_out(titles: list[str], rows: list[list[str]], *, several: bool = False) -> list[str]:
    """Lay out a table; the first of several columns is of names, all others are of numbers."""
    body = [_row(texts, "td", several=several) for texts in rows]
    head = _row(titles, "th", several=several, header=True)
    return ["<table>", head, "<tbody>", *body, "</tbody>", "</table>"]


def _row(texts: list[str], tag: str, *, several: bool, header: bool = False) -> str:
    scope, right = (' scope="col"', _HEAD) if header else ("", _RIGHT)
    cells = [
        f"<{tag}{scope}{_LEFT if several and place == 0 else right}>{escape(text)}</{tag}>"
        for place, text in enumerate(texts)
    ]
    line = f"<tr>{''.join(cells)}</tr>"
    return f"<thead>{line}</thead>" if header else line


def _notes(document: WhatIfDocument, shown: list[WhatIfCell]) -> list[str]:
    notes = _left_out(document, len(shown))
    failed = sum(not cell.trusted for cell in document.cells)
    if failed:
        notes.append(
            f"{failed} of {format_count(len(document.cells))} rows failed their checks (“no”): "
            "do not rely on them."
        )
    if any(has_gap(shown, gap) for gap in ("loss_gap", "accuracy_gap")):
        notes.append("Gap: the group less everybody else.")
    return notes + _caveats(document)


def _left_out(document: WhatIfDocument | RiskDocument, n_shown: int) -> list[str]:
    total = len(document.cells)
    if n_shown == total:
        return []
    return [f"{n_shown} of {format_count(total)} rows shown; to_frame() has them all."]


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
