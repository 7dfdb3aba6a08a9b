# SPDX-License-Identifier: Apache-2.0
"""Documents as tables for the terminal. Names from the data are plain text in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from epsilens._validate import as_count
from epsilens.document import (
    DecisionDocument,
    InspectDocument,
    Point,
    ReleaseDocument,
    RiskCell,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
    at_least_text,
    at_most_text,
    bound_text,
    cost_type,
    delta_text,
    group_names,
)
from epsilens.show.cell_text import GAPS, cells_to_show, has_gap, outcome_interval, thinned
from epsilens.show.columns import Column, cost_columns, rows_note
from epsilens.show.look import TITLE
from epsilens.show.report_words import ceiling_is_open, proof_text
from epsilens.show.risk_text import (
    ceiling_note,
    compared_p_text,
    confidence_text,
    models_text,
    range_text,
    risk_columns,
    risk_notes,
    risk_title,
)
from epsilens.show.rounding import (
    NOTHING,
    change_decimals,
    format_change,
    format_count,
    format_epsilon,
    format_percent,
    format_points,
)
from epsilens.show.sentences import budget_distance, budget_text, whatif_sentence
from epsilens.show.words import GAP_MEANINGS, answers_text, axis_budget, group_label

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "ALL_ROWS",
    "decision_table",
    "fill_columns",
    "gap_table",
    "inspect_table",
    "plain_table",
    "release_summary",
    "risk_sentences",
    "risk_table",
    "whatif_sentence",
    "whatif_table",
]

ALL_ROWS = "--json or --out has"
"""What has the rows that a table leaves out."""

_T = TypeVar("_T")


def plain_table(title: str, *, notes: Sequence[str] = (), **look: Any) -> Table:
    """Begin a table: its title to the left, a line under its head, and notes below, one a line.

    Parameters
    ----------
    title : str
    notes : sequence of str
        What is to be known of the table.
    **look
        Anything else that `rich.table.Table` takes.

    Returns
    -------
    rich.table.Table
        Without columns and rows.

    Examples
    --------
    >>> print(plain_table("a [red] title").title)
    a [red] title
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        caption=Text("\n".join(notes)) if notes else None,
        caption_justify="left",
        header_style="",
        box=SIMPLE_HEAD,
        **look,
    )


def fill_columns(
    table: Table,
    columns: Sequence[Column[_T]],
    cells: Sequence[_T],
    *,
    group: Callable[[_T], str] | None = None,
    is_faint: Callable[[_T], bool] = lambda cell: False,
) -> None:
    """Fill a table: a row for each cell, sections for groups, whose name stands once.

    Parameters
    ----------
    table : rich.table.Table
        An empty one.
    columns : sequence of Column
    cells : sequence
        What the columns speak of, in the order of the rows; a group's cells stand together.
    group : callable, optional
        From a cell to the name of its group; without it there is no such column.
    is_faint : callable
        Says which cells are not to be relied on.

    Examples
    --------
    >>> table = plain_table("squares")
    >>> fill_columns(table, [Column("n", str), Column("n²", lambda n: str(n * n))], [1, 2, 3])
    >>> table.row_count
    3
    """
    from rich.text import Text

    if group is not None:
        table.add_column("group", overflow="fold")
    for column in columns:
        texts = [column.text(cell) for cell in cells]
        # Where there is little room a title takes several lines, then a range does; a number never.
        table.add_column(
            column.title,
            justify="right" if column.holds_numbers else "left",
            no_wrap=max(map(len, texts), default=0) >= len(column.title),
            min_width=max(map(len, " ".join(texts).split()), default=0),
        )
    last: str | None = None
    for cell in cells:
        texts = [column.text(cell) for column in columns]
        if group is not None:
            name = group(cell)
            if last not in (None, name):
                table.add_section()
            texts.insert(0, "" if name == last else name)
            last = name
        table.add_row(*map(Text, texts), style="dim" if is_faint(cell) else "")


def whatif_table(document: WhatIfDocument, *, max_rows: int = 12) -> Table:
    """Show what budgets would cost, a few rows from the smallest to the largest budget.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    max_rows : int
        About how many rows to show; of a longer grid evenly spaced budgets are taken, always with
        both ends.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02) for epsilon in range(1, 31)]
    >>> whatif_table(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                             cells=cells)).row_count
    12
    """
    as_count(max_rows, name="max_rows")
    document = document.answered()
    shown = cells_to_show(document, max_rows=max_rows)
    notes = rows_note(len(shown), len(document.cells), ALL_ROWS)
    table = plain_table(f"{TITLE} ({cost_type(document)})", notes=notes)
    fill_columns(
        table,
        cost_columns(document, shown, parts=["loss", "accuracy"]),
        shown,
        group=(lambda cell: group_label(cell.group)) if len(group_names(document)) > 1 else None,
        is_faint=lambda cell: not cell.trusted,
    )
    return table


def gap_table(document: WhatIfDocument, *, max_rows: int = 12) -> Table | None:
    """Show how far budgets would move each group from everybody else.

    A gap is the test loss, or the accuracy, of the group less that of everybody else. It is a table
    of its own because an ordinary terminal has no room for these ranges beside the others.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    max_rows : int
        About how many rows to show, as in `whatif_table`.

    Returns
    -------
    rich.table.Table or None
        A table for `rich.console.Console.print`; None when no group has a gap.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004)
    >>> gap_table(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                          cells=[cell])).row_count
    1
    """
    as_count(max_rows, name="max_rows")
    document = document.answered()
    gaps = [gap for gap in GAPS if has_gap(document.cells, gap)]
    known = [cell for cell in document.cells if any(has_gap([cell], gap) for gap in gaps)]
    if not known:
        return None
    shown = cells_to_show(document.model_copy(update={"cells": known}), max_rows=max_rows)
    banded = any(outcome_interval(document, cell, gap) for cell in shown for gap in gaps)
    notes = ["A range holds 9 in 10 runs."] if banded else []
    notes += [GAP_MEANINGS[gap] for gap in gaps]
    notes += rows_note(len(shown), len(known), ALL_ROWS)
    table = plain_table(
        f"How far a group moves from everybody else ({cost_type(document)})", notes=notes
    )
    fill_columns(
        table,
        cost_columns(document, shown, parts=["gaps"]),
        shown,
        group=lambda cell: group_label(cell.group),
    )
    return table


_WIDEST_NAME = 18
"""Of a column, in a table of columns; a longer name takes several lines where there is no room."""


def inspect_table(document: InspectDocument) -> Table:
    """Show the columns of a table, what they are and which can be protected.

    Parameters
    ----------
    document : InspectDocument
        The document of `epsilens inspect`.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import InspectColumn, InspectDocument, Provenance
    >>> column = InspectColumn(name="smokes", kind="binary", n_distinct=2, n_missing=0,
    ...                        protectable=True, categories=["no", "yes"])
    >>> inspect_table(InspectDocument(provenance=Provenance(method="inspect"), rows=9,
    ...                               columns=[column])).row_count
    1
    """
    from rich.text import Text

    n_columns = len(document.columns)
    unit = "column" if n_columns == 1 else "columns"
    table = plain_table(
        f"{format_count(document.rows)} rows, {format_count(n_columns)} {unit}",
        padding=(0, 1, 0, 0),
    )
    # Where there is little room it goes to names and notes, which then are cut in fewer words.
    longest = max((len(column.name) for column in document.columns), default=0)
    table.add_column("column", overflow="fold", min_width=min(longest, _WIDEST_NAME))
    table.add_column("kind", no_wrap=True)
    table.add_column("values", justify="right", no_wrap=True)
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("can be protected", max_width=len("protected"))
    table.add_column("categories and notes", overflow="fold")
    for column in document.columns:
        details = []
        if column.categories:
            details.append(", ".join(column.categories))
        if column.note:
            details.append(column.note)
        table.add_row(
            Text(column.name),
            Text(column.kind),
            Text(format_count(column.n_distinct)),
            Text(format_count(column.n_missing) if column.n_missing else NOTHING),
            Text("yes" if column.protectable else "no"),
            Text("; ".join(details)),
        )
    return table


def release_summary(document: ReleaseDocument) -> Text:
    """Say what a release did and what budget it spent, in a few lines.

    Parameters
    ----------
    document : ReleaseDocument
        The receipt of a release.

    Returns
    -------
    rich.text.Text
        Text for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Provenance, ReleaseDocument
    >>> print(release_summary(ReleaseDocument(
    ...     provenance=Provenance(method="randomised response"), columns=["smokes"],
    ...     epsilon={"smokes": 1.0}, record_epsilon=1.0, rows=100, simulated=False,
    ...     mechanism="randomised response")))
    100 records released by randomised response.
      smokes  ε = 1
    Budget spent by each record: ε = 1 (proven).
    """
    from rich.text import Text

    text = Text()
    shuffled = document.provenance.settings.get("order") == "shuffled"
    text.append(
        f"{format_count(document.rows)} records released by {document.mechanism}"
        f"{', in random order' if shuffled else ''}.\n",
        style="bold",
    )
    width = max((len(name) for name in document.columns), default=0)
    for name in document.columns:
        text.append(f"  {name:<{width}}  ε = {format_epsilon(document.epsilon.get(name))}\n")
    text.append(f"Budget spent by each record: ε = {format_epsilon(document.record_epsilon)}")
    if document.simulated:
        text.append(", if it were real.\n")
        text.append(
            "Simulated: a seed was given, so whoever knows it can undo the noise. "
            "Do not publish this file.",
            style="bold yellow",
        )
    else:
        text.append(" (proven).")
    if math.isinf(document.record_epsilon):
        text.append("\nε = ∞ changes nothing: this release protects nobody.", style="bold yellow")
    return text


def decision_table(document: DecisionDocument, *, max_rows: int = 12) -> Table:
    """Show cost and attack side by side, a few rows from the smallest to the largest budget.

    Parameters
    ----------
    document : DecisionDocument
        The decision.
    max_rows : int
        About how many rows to show; the recommended budget is always among them.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import (Baseline, Provenance, Recommendation, RiskCell, RiskDocument,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> origin, grid = Provenance(method="exact"), (0.5, 1.0, 2.0)
    >>> cost = WhatIfDocument(provenance=origin, baseline=start, cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02 / epsilon) for epsilon in grid])
    >>> risk = RiskDocument(provenance=origin, n_models=256, n_targets=75, cells=[
    ...     RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_rate=0.7) for epsilon in grid])
    >>> chosen = Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> decision_table(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                 recommendation=chosen)).row_count
    3
    """
    from rich.text import Text

    as_count(max_rows, name="max_rows", least=2)
    document = document.answered()
    points = document.points()
    chosen = document.recommendation.epsilon
    shown = {point.epsilon for point in thinned(points, max_rows)} | {chosen}
    wanted = [point for point in points if point.epsilon in shown]
    notes = [
        f"Loss and accuracy (points): change on the test rows, {cost_type(document.cost)}; up to, down to: "
        "19 in 20 releases.",
        f"Guessed: answers of people in the data, {models_text(document.risk)}; never seen: of people the "
        "model was not trained on.",
        ceiling_note(document.risk),
        *rows_note(len(wanted), len(points), ALL_ROWS),
    ]
    table = plain_table(
        f"What randomising {answers_text(document.risk.protect)} costs, and what an attacker gets",
        notes=notes,
        collapse_padding=True,
        pad_edge=False,
    )
    for title in (
        "ε",
        "loss",
        "up to",
        "accuracy\ndown to",
        "guessed",
        "up to",
        "never\nseen",
        "ceiling\n(proven)",
    ):
        table.add_column(title, justify="right")
    for point in wanted:
        style = "bold" if point.epsilon == chosen else None
        table.add_row(*map(Text, _texts(document, point)), style=style)
    return table


def _texts(document: DecisionDocument, point: Point) -> list[str]:
    cost, risk = point.cost, point.risk
    high, ceiling = risk.answer_inference_high, risk.answer_inference_ceiling
    return [
        format_epsilon(point.epsilon),
        format_change(cost.loss_change, decimals=change_decimals(document.cost)),
        format_change(cost.loss_change_high, decimals=change_decimals(document.cost)),
        _worst_accuracy(document, cost),
        format_percent(risk.answer_inference_rate),
        NOTHING if high is None else at_most_text(high),
        format_percent(risk.answer_inference_unseen),
        NOTHING if ceiling is None else at_most_text(ceiling),
    ]


def _worst_accuracy(document: DecisionDocument, cost: WhatIfCell) -> str:
    """Return the lower end of the change of accuracy, in points."""
    interval = outcome_interval(document.cost, cost, "accuracy")
    return format_points(cost.accuracy_change if interval is None else interval.low)


_NOTICED = 0.05
"""A p-value above this is called chance."""
_COIN = 0.5


def risk_table(document: RiskDocument, *, max_rows: int = 12) -> Table:
    """Show what an attacker gets, a few rows from the smallest to the largest budget.

    For randomised response the guessed answer comes first, beside the same guess of people whom the
    model never saw and the proven ceiling; membership stands beside what chance reaches.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    max_rows : int
        About how many rows to show; of a longer grid evenly spaced budgets are taken, always with
        both ends.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cells = [RiskCell(epsilon=float(epsilon), mechanism="rr", asr_max=0.6)
    ...          for epsilon in range(1, 31)]
    >>> risk_table(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                         n_targets=4774, cells=cells)).row_count
    12
    """
    as_count(max_rows, name="max_rows", least=2)
    shown = thinned(document.cells, max_rows)
    notes = [*risk_notes(document), *rows_note(len(shown), len(document.cells), ALL_ROWS)]
    table = plain_table(risk_title(document), notes=notes, collapse_padding=True, pad_edge=False)
    fill_columns(table, risk_columns(document), shown)
    return table


def risk_sentences(document: RiskDocument, *, epsilon: float | None = None) -> list[str]:
    """Say in plain words what an attacker gets at one budget.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    epsilon : float, optional
        The budget to speak of; the nearest of the grid is taken, by default to 1.

    Returns
    -------
    list of str
        What is guessed or can be told at most, then what is recognised of membership.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721,
    ...     answer_inference_low=0.71, answer_inference_high=0.732,
    ...     answer_inference_unseen=0.718, answer_inference_baseline_high=0.735,
    ...     answer_inference_ceiling=0.858)
    >>> print(risk_sentences(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...     n_targets=4774, protect=["smokes"], cells=[cell]))[0])
    At ε = 1 the attack guesses the answer “smokes” of 72.1% of the people in the data (measured; 71.0–73.2%
    in 9 of 10 releases), and of 71.8% of those whom the model never saw (measured).
    """
    if not document.cells:
        return ["No budget was asked about."]
    target = 1.0 if epsilon is None else epsilon
    cell = min(document.cells, key=lambda one: budget_distance(axis_budget(document, one), target))
    said = _answer_sentences(document, cell) if cell.mechanism == "rr" else []
    if cell.mechanism == "dpsgd" and cell.asr_ceiling is not None:
        said.append(
            f"At {_budget_text(cell)} no attack can tell members of the training data from others "
            f"more than {at_most_text(cell.asr_ceiling)} of the time (proven)."
        )
    said += _membership_sentences(document, cell, opening="" if said else _budget_text(cell))
    if cell.mechanism == "dpsgd":
        said += _record_sentences(document, cell)
    return said + _comparison_sentences(document, cell)


def _answer_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    rate, unseen = cell.answer_inference_rate, cell.answer_inference_unseen
    if rate is None:
        return []
    runs = range_text(cell)
    kind = "measured" if runs is None else f"measured; {runs} in 9 of 10 releases"
    beside = ""
    if unseen is not None:
        beside = f", and of {format_percent(unseen)} of those whom the model never saw (measured)"
    said = [
        f"At {_budget_text(cell)} the attack guesses {answers_text(document.protect)} of "
        f"{format_percent(rate)} of the people in the data ({kind}){beside}."
    ]
    proof = proof_text(cell, many=len(document.protect) > 1)
    if proof is None:
        return said
    said.append(f"{proof[0].upper()}{proof[1:]}.")
    if cell.advantage is not None and not ceiling_is_open(cell):
        said.append(
            "Of the answers that the rest of the data do not give away, at most "
            f"{at_most_text(cell.advantage)} become guessable (advantage, proven)."
        )
    return said


def _membership_sentences(document: RiskDocument, cell: RiskCell, *, opening: str) -> list[str]:
    top, floor, chance = cell.asr_max, cell.asr_max_null_q95, cell.asr_max_p_value
    if top is None:
        return []
    at = f" at {opening}" if opening else ""
    count = format_count(document.n_targets)
    sure = "" if chance is None else f" (p {compared_p_text(chance)})"
    noticed = chance <= _NOTICED if chance is not None else floor is not None and top > floor
    if not noticed:
        beside = "" if floor is None else f"; chance alone reaches {format_percent(floor)}"
        return [
            f"Membership of the training data{at} is not distinguishable from chance{sure}: the most "
            f"exposed of {count} records is recognised {format_percent(top)} of the time"
            f"{beside} (measured). The largest of {count} rates says nothing more."
        ]
    beside = "" if floor is None else f"; chance alone reaches {format_percent(floor)}{sure}"
    least = ""
    if cell.asr_max_lower_bound is not None and cell.asr_max_lower_bound > _COIN:
        least = (
            f"; with {confidence_text(document)} confidence some record at least "
            f"{at_least_text(cell.asr_max_lower_bound)}"
        )
    return [
        f"Membership of the training data{at}: the most exposed of {count} records is recognised "
        f"{format_percent(top)} of the time{beside}{least} (measured)."
    ]


def _record_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    said = []
    if cell.epsilon_lower_bound:
        said.append(
            f"The attack proves, with {confidence_text(document)} confidence, that ε is at least "
            f"{bound_text(cell.epsilon_lower_bound)}; the accounting proves that it is at most "
            f"{format_epsilon(cell.epsilon)}."
        )
    if cell.accuracy is not None:
        before = document.baseline.accuracy if document.baseline is not None else None
        beside = (
            "" if before is None else f"; without privacy, on all of them, {format_percent(before)}"
        )
        said.append(
            f"The models, trained on half of the records, predict {format_percent(cell.accuracy)} of "
            f"the test rows correctly (measured{beside})."
        )
    return said


def _comparison_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    """Say at which budget the other table exposes as much, where two were compared."""
    for found in document.equivalent_epsilon:
        if found.epsilon != cell.epsilon:
            continue
        here = (
            "exposes the most exposed record of the other table as much as "
            f"ε = {format_epsilon(found.epsilon)} exposes this one's"
        )
        if found.low is None or found.high is None:
            return [f"No ε of the grid {here} (estimated)."]
        low, high = format_epsilon(found.low), format_epsilon(found.high)
        if found.equivalent is None:
            return [f"Some ε from {low} to {high} {here} (estimated)."]
        return [
            f"ε = {format_epsilon(found.equivalent)} {here} (estimated; {low} to {high} cannot be told "
            "apart)."
        ]
    return []


def _budget_text(cell: RiskCell) -> str:
    if cell.mechanism == "dpsgd":
        delta = "" if cell.delta is None else f", δ = {delta_text(cell.delta)},"
        return f"ε = {format_epsilon(cell.epsilon)}{delta}"
    return budget_text(cell)
