# SPDX-License-Identifier: Apache-2.0
"""Documents as tables and sentences for the terminal. Names from the data are plain text in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from epsilens._validate import as_count
from epsilens.document import (
    AuditDocument,
    DecisionDocument,
    FederationDocument,
    InspectDocument,
    MaskDocument,
    ReleaseDocument,
    RiskDocument,
    ValueDocument,
    WhatIfDocument,
)
from epsilens.document.view import Table as ViewTable
from epsilens.document.view import view

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


_ALL_ROWS = "--json or --out has"
"""What has the rows that a table leaves out."""
_DECISION = {
    "epsilon": "ε",
    "loss_change": "loss",
    "loss_change_high": "up to",
    "accuracy_change_low": "accuracy\ndown to",
    "answer_inference_rate": "guessed",
    "answer_inference_high": "up to",
    "answer_inference_unseen": "outside\nthe data",
    "answer_inference_ceiling": "ceiling\n(proven)",
}
"""The columns of a decision, with short headings."""
_CLOSE: dict[str, Any] = {"collapse_padding": True, "pad_edge": False}
_NARROW: dict[str, Any] = {"padding": (0, 1, 0, 0)}
_FOLDED = ("name", "note", "value")
"""Columns whose texts take several lines where there is no room."""
_UNBROKEN = ("kind", "masking", "operation", "advice", "version", "share", "random", "n_missing")
_WIDEST_NAME = 18
"""Characters that a column's name keeps in any case; a longer one takes several lines."""


def rich_table(table: ViewTable, **look: Any) -> Table:
    """Draw a table: its title to the left, a line under its head, and notes below, one a line.

    Groups are sections, and the name of a group stands once.

    Parameters
    ----------
    table : epsilens.document.view.Table
        A table of a view.
    **look
        Anything else that `rich.table.Table` takes.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document.view import Line, Row
    >>> lines = tuple(Line((Row("n", "n", str(n)), Row("square", "n²", str(n * n))))
    ...               for n in (1, 2, 3))
    >>> rich_table(ViewTable("squares", lines)).row_count
    3
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        title=Text(table.title, style="bold"),
        title_justify="left",
        caption=Text("\n".join(table.notes)) if table.notes else None,
        caption_justify="left",
        header_style="",
        box=SIMPLE_HEAD,
        **look,
    )
    has_groups = any(line.group is not None for line in table.lines)
    if has_groups:
        drawn.add_column("group", overflow="fold")
    for place, key in enumerate(table.keys):
        rows = [line.rows[place] for line in table.lines]
        drawn.add_column(
            rows[0].title,
            justify="right" if rows[0].is_number else "left",
            **_column_look(key, rows[0].title, [row.text for row in rows]),
        )
    last: str | None = None
    for line in table.lines:
        texts = [row.text for row in line.rows]
        if has_groups:
            if last not in (None, line.group):
                drawn.add_section()
            texts.insert(0, "" if line.group == last else line.group or "")
            last = line.group
        style = "bold" if line.is_chosen else "dim" if line.is_faint else ""
        drawn.add_row(*map(Text, texts), style=style)
    return drawn


def _column_look(key: str, title: str, texts: Sequence[str]) -> dict[str, Any]:
    """Say how a column gives way: first its title takes several lines, then a range; a number never."""
    longest = max(map(len, texts), default=0)
    if key in _FOLDED:
        return {"overflow": "fold", "min_width": min(longest, _WIDEST_NAME) if key == "name" else 0}
    if key == "protectable":
        return {"max_width": len("protected")}
    if key in _UNBROKEN or "\n" in title:
        return {"no_wrap": True}
    return {
        "no_wrap": longest >= len(title),
        "min_width": max(map(len, " ".join(texts).split()), default=0),
    }


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
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02) for epsilon in range(1, 31)]
    >>> whatif_table(example_document("whatif", cells=cells)).row_count
    12
    """
    as_count(max_rows, name="max_rows")
    keys = ("epsilon", "loss_change", "loss_change_range", "accuracy_change", "trusted")
    table = view(document).tables[0]
    return rich_table(table.thinned(max_rows, _ALL_ROWS).select(keys))


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
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004)
    >>> gap_table(example_document("whatif", cells=[cell])).row_count
    1
    """
    as_count(max_rows, name="max_rows")
    tables = view(document).tables
    if len(tables) == 1:
        return None
    keys = ("epsilon", "loss_gap_change", "accuracy_gap_change", "trusted")
    return rich_table(tables[1].thinned(max_rows, _ALL_ROWS).select(keys))


def risk_table(document: RiskDocument, *, max_rows: int = 12) -> Table:
    """Show what an attacker gets, a few rows from the smallest to the largest budget.

    For randomised response the guessed answer comes first, beside the same guess of people outside
    the training data and the proven ceiling; membership stands beside what chance reaches.

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
    >>> from epsilens.document import RiskCell, example_document
    >>> cells = [RiskCell(epsilon=float(epsilon), mechanism="rr", asr_max=0.6)
    ...          for epsilon in range(1, 31)]
    >>> risk_table(example_document("risk", n_models=256,
    ...                         n_targets=4774, cells=cells)).row_count
    12
    """
    as_count(max_rows, name="max_rows", least=2)
    return rich_table(view(document).tables[0].thinned(max_rows, _ALL_ROWS), **_CLOSE)


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
    >>> from epsilens.document import (Provenance, Recommendation, RiskCell, WhatIfCell, example_document)
    >>> origin, grid = Provenance(method="exact"), (0.5, 1.0, 2.0)
    >>> cost = example_document("whatif", cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02 / epsilon) for epsilon in grid])
    >>> risk = example_document("risk", cells=[
    ...     RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_rate=0.7) for epsilon in grid])
    >>> chosen = Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> decision_table(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                 recommendation=chosen)).row_count
    3
    """
    as_count(max_rows, name="max_rows", least=2)
    table = view(document).tables[0].thinned(max_rows, _ALL_ROWS)
    return rich_table(table.select(_DECISION), **_CLOSE)


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
    >>> from epsilens.document import InspectColumn, example_document
    >>> column = InspectColumn(name="smokes", kind="binary", n_distinct=2, n_missing=0,
    ...                        protectable=True, categories=["no", "yes"])
    >>> inspect_table(example_document("inspect", rows=9,
    ...                               columns=[column])).row_count
    1
    """
    return rich_table(view(document).tables[0], **_NARROW)


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
    >>> from epsilens.document import example_document
    >>> print(release_summary(example_document("release", columns=["smokes"],
    ...     epsilon={"smokes": 1.0}, record_epsilon=1.0, rows=100, simulated=False,
    ...     mechanism="randomised response")))
    100 records released by randomised response.
      smokes  ε = 1
    Budget spent by each record: ε = 1 (proven).
    """
    from rich.text import Text

    shown = view(document)
    text = Text()
    text.append(f"{shown.title}\n", style="bold")
    width = max((len(row.title) for row in shown.rows), default=0)
    for row in shown.rows:
        text.append(f"  {row.title:<{width}}  ε = {row.text}\n")
    text.append(shown.sentence)
    for note in shown.notes:
        text.append(f"\n{note}", style="bold yellow")
    return text


def audit_sentence(document: AuditDocument) -> str:
    """Say in a sentence what an audit found.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> audit_sentence(example_document("audit", mechanism="rr",
    ...     epsilon_lower_bound=2.1, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=[], claimed_epsilon=1.0, claimed_delta=0.0,
    ...     true_epsilon=None, is_broken=True, verdict="the claim is broken: ε is at least 2.1.",
    ...     n_canaries=1000, n_guesses=500, n_correct=365))
    'The claim is broken: ε is at least 2.1.'
    """
    return view(document).sentence


def audit_table(document: AuditDocument) -> Table:
    """Show what was proved, claimed and is true, and how it was found.

    Parameters
    ----------
    document : AuditDocument
        The audit.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> audit_table(example_document("audit", mechanism="rr",
    ...     epsilon_lower_bound=0.8, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=["pure differential privacy"],
    ...     claimed_epsilon=1.0, claimed_delta=0.0, true_epsilon=1.0, is_broken=False,
    ...     verdict="no evidence of a breach", n_canaries=1000, n_guesses=500,
    ...     n_correct=365)).row_count
    7
    """
    return rich_table(view(document).tables[0], show_header=False)


def mask_table(document: MaskDocument) -> Table:
    """Show what models reach with nothing masked, with as much at random, and with the chosen mask.

    Parameters
    ----------
    document : MaskDocument

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> mask_table(example_document("mask", kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.9, privacy_kept=0.1, solver="exact")).row_count
    0
    """
    return rich_table(view(document).tables[0])


def mask_sentences(document: MaskDocument) -> list[str]:
    """Say which features go and what that does, in plain words.

    Parameters
    ----------
    document : MaskDocument

    Returns
    -------
    list of str

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> print(mask_sentences(example_document("mask", kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.97, privacy_kept=0.4, solver="exact"))[0])
    Mask gait (1 of 2 features): 97.0% of the importance for the task is kept, and 40.0% of the
    identifying importance.
    """
    return list(view(document).sentences)


def value_table(document: ValueDocument) -> Table:
    """Show what the test loss does as records go (or candidates come) in three orders.

    Parameters
    ----------
    document : ValueDocument
        With a curve.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import ValuePoint, example_document
    >>> points = [ValuePoint(order=order, share=0.1, n_records=8, loss_change=-0.01)
    ...           for order in ("score", "training loss", "random")]
    >>> value_table(example_document("value", curve=points)).row_count
    1
    """
    return rich_table(view(document).tables[0])


def value_sentences(document: ValueDocument) -> list[str]:
    """Say in words what was found.

    Parameters
    ----------
    document : ValueDocument

    Returns
    -------
    list of str
        One sentence each.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> value_sentences(example_document("value"))[0]
    'Without one record the test loss rises by 0.0001 nats on average, over 75 training records.'
    """
    return list(view(document).sentences)


def version_table(document: FederationDocument) -> Table:
    """Show every version of the model: what happened, to whom, and what it is worth.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    rich.table.Table

    Examples
    --------
    >>> from epsilens.document import FederationVersion, example_document
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0, 1],
    ...     model_epsilon=3.0, model_record_epsilon=6.0, advice="accept", messages=20, bytes=3200)
    >>> version_table(example_document("federation", protect=["smokes"],
    ...     n_sites=2, versions=[first])).row_count
    1
    """
    return rich_table(view(document).tables[0], **_NARROW, show_edge=False)


def ledger_table(document: FederationDocument) -> Table:
    """Show every release of every site, and what it has spent in all.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    rich.table.Table

    Examples
    --------
    >>> from epsilens.document import FederationEntry, example_document
    >>> line = FederationEntry(site=0, operation="train", mode=None, epsilon=3.0, record_epsilon=6.0,
    ...                        total_epsilon=6.0, private=True)
    >>> ledger_table(example_document("federation", protect=["smokes"],
    ...     n_sites=1, versions=[], ledger=[line])).row_count
    1
    """
    return rich_table(view(document).tables[1], **_NARROW, show_edge=False)


def federation_sentences(document: FederationDocument) -> list[str]:
    """Say in words what happened, who learnt what, and what is covered.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    list of str

    Examples
    --------
    >>> from epsilens.document import FederationVersion, example_document
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0, 1], rounds=5,
    ...     model_epsilon=3.0, model_record_epsilon=6.0, advice="accept", messages=20, bytes=3200)
    >>> federation_sentences(example_document("federation", versions=[first]))[0]
    'Sites 0, 1 trained together in 5 rounds; no test records.'
    """
    return list(view(document).sentences)
