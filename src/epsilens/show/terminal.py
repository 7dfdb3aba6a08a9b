# SPDX-License-Identifier: Apache-2.0
"""Documents as tables and sentences for the terminal. Names from the data are plain text in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from epsilens._validate import as_count
from epsilens.document import DecisionDocument, ReleaseDocument
from epsilens.document.decision import answer_title
from epsilens.document.kinds import Document
from epsilens.document.view import view

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


_ALL_ROWS = "--json or --out has"
"""What has the rows that a table leaves out."""
_COLUMNS: dict[tuple[str, int], Sequence[str] | Mapping[str, str]] = {
    ("whatif", 0): ("epsilon", "loss_change", "loss_change_range", "accuracy_change", "trusted"),
    ("whatif", 1): ("epsilon", "loss_gap_change", "accuracy_gap_change", "trusted"),
    # Where answers are guessed the range is left to the sentences: with it the table is too wide.
    ("risk", 0): {
        **dict.fromkeys(("epsilon", "holder_rate", "answer_inference_rate"), ""),
        **dict.fromkeys(("answer_inference_unseen", "answer_inference_ceiling"), ""),
        **dict.fromkeys(("asr_max", "asr_max_null_q95", "asr_max_p_value", "asr_ceiling"), ""),
        "tpr_at_fpr_0_01": "found at 1%\nfalse alarms",
        **dict.fromkeys(("tpr_ceiling_at_fpr_0_01", "epsilon_lower_bound", "accuracy"), ""),
    },
    ("decision", 0): {
        "epsilon": "ε",
        "loss_change": "loss",
        "loss_change_high": "up to",
        "accuracy_change_low": "accuracy\ndown to",
        "holder_rate": "holder\nguesses",
        "answer_inference_rate": "reader\nguesses",
        "answer_inference_high": "up to",
        "answer_inference_unseen": "outside\nthe data",
        "answer_inference_ceiling": "ceiling\n(proven)",
    },
}
"""Columns of the tables that leave some out, with their headings where they have others there."""
_GRIDS = ("whatif", "risk", "decision")
"""Documents with a line for every budget, of which a few are shown."""
_WHOLE = (("decision", 1),)
"""Tables that are shown whole: that of the mechanisms has few budgets of each."""
_CLOSE: dict[str, Any] = {"collapse_padding": True, "pad_edge": False}
_NARROW: dict[str, Any] = {"padding": (0, 1, 0, 0)}
_LOOKS: dict[str, dict[str, Any]] = {
    "risk": _CLOSE,
    "decision": _CLOSE,
    "inspect": _NARROW,
    "audit": {"show_header": False},
    "federation": {**_NARROW, "show_edge": False},
}
_FOLDED = ("name", "note", "value")
"""Columns whose texts take several lines where there is no room."""
_UNBROKEN = ("kind", "masking", "operation", "advice", "version", "share", "random", "n_missing")
_WIDEST_NAME = 18
"""Characters that a column's name keeps in any case; a longer one takes several lines."""


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
        "min_width": max(map(len, " ".join([title, *texts]).split()), default=0),
    }


def document_table(document: Document, *, place: int = 0, max_rows: int = 12) -> Table:
    """Show a table of a document, as its view has it.

    The title stands to the left, a line under the head, and notes below, one a line. Groups are
    sections, and the name of a group stands once.

    Parameters
    ----------
    document : Document
        Any document but a release.
    place : int
        Which of its tables: the second one of a what-if has the gaps of groups, that of a federation the
        ledger.
    max_rows : int
        About how many budgets to show; of a longer grid evenly spaced ones are taken, always with both
        ends and the recommended one.

    Returns
    -------
    rich.table.Table
        To be printed with `rich.console.Console`.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell, example_document
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02 / epsilon) for epsilon in range(1, 31)]
    >>> document_table(example_document("whatif", cells=cells)).row_count
    12
    >>> document_table(example_document("audit")).row_count
    7
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    as_count(max_rows, name="max_rows", least=1 if document.kind == "whatif" else 2)
    table = view(document).tables[place]
    if document.kind in _GRIDS and (document.kind, place) not in _WHOLE:
        table = table.thinned(max_rows, _ALL_ROWS)
    if (document.kind, place) in _COLUMNS:
        table = table.select(_COLUMNS[document.kind, place])
    drawn = Table(
        title=Text(table.title, style="bold"),
        title_justify="left",
        caption=Text("\n".join(table.notes)) if table.notes else None,
        caption_justify="left",
        header_style="",
        box=SIMPLE_HEAD,
        **_LOOKS.get(document.kind, {}),
    )
    has_groups = any(line.group is not None for line in table.lines)
    if has_groups:
        drawn.add_column("group", overflow="fold")
    for key in table.keys:
        rows = [line[key] for line in table.lines]
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


def decision_lines(
    document: DecisionDocument, *, width: int, is_plain: bool, is_short: bool = False
) -> list[Text]:
    """Say what is recommended: the sentence, a picture, the facts, and the second-best answer.

    Parameters
    ----------
    document : DecisionDocument
    width : int
        Columns of the terminal.
    is_plain : bool
        Whether the terminal has no more than the characters of ASCII.
    is_short : bool
        Whether the picture is left out.

    Returns
    -------
    list of rich.text.Text
        Texts for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> for line in decision_lines(example_document("decision"), width=80, is_plain=True, is_short=True)[1:]:
    ...     print(line)
    The test loss changes by +0.0400 (estimated).
    Of the answers that the rest of the data do not give away, at most 46.2% become guessable (proven).
    Who was in the data is not hidden, and other columns stay as they are.
    """
    from rich.text import Text

    from epsilens.show.picture import decision_picture

    shown = view(document)
    lines = [Text(shown.sentences[0], style="bold")]
    picture = "" if is_short else decision_picture(document, width=width, is_plain=is_plain)
    if picture:
        lines.append(Text(f"\n{picture}\n", no_wrap=True))
    for fact in shown.facts:
        line = Text(fact.sentence)
        if fact.kind is not None:
            line.stylize("dim", len(fact.text))
        lines.append(line)
    if shown.runner_up is not None:
        lines.append(Text(shown.runner_up))
    if document.lever is not None:
        gone = ", ".join(document.lever.masked)
        lines.append(Text(f"Masking {gone}: {document.lever.sentence}"))
    return lines


def decision_details(document: DecisionDocument) -> list[Text]:
    """Say how sure a recommendation is, and why each other answer is not the recommended one.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> print(decision_details(example_document("decision"))[0])
    Taking a randomised answer at face value is right 73.1% of the time.
    """
    from rich.text import Text

    others = [
        f"Not recommended: {answer_title(other)}. {other.reason}" for other in document.alternatives
    ]
    return [Text(text) for text in (*view(document).sentences[1:], *others)]


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
