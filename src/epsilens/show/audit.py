# SPDX-License-Identifier: Apache-2.0
"""An audit: its table, and the chart of what was proved, what was claimed and what is true."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from epsilens.document import AuditDocument, bound_text, delta_text
from epsilens.show.look import ACCENT, INK, dressed, subtitle
from epsilens.show.rounding import NOTHING, format_count, format_epsilon
from epsilens.show.terminal import plain_table

if TYPE_CHECKING:
    import altair as alt
    from rich.table import Table

__all__ = [
    "audit_chart",
    "audit_sentence",
    "audit_table",
]


def audit_sentence(document: AuditDocument) -> str:
    """Say in a sentence what an audit found.

    Examples
    --------
    >>> from epsilens.document import AuditDocument, Provenance
    >>> audit_sentence(AuditDocument(provenance=Provenance(method="pure"), mechanism="rr",
    ...     epsilon_lower_bound=2.1, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=[], claimed_epsilon=1.0, claimed_delta=0.0,
    ...     true_epsilon=None, is_broken=True, verdict="the claim is broken: ε is at least 2.1.",
    ...     n_canaries=1000, n_guesses=500, n_correct=365))
    'The claim is broken: ε is at least 2.1.'
    """
    sentence = document.verdict[:1].upper() + document.verdict[1:]
    if document.is_broken or not sentence.startswith("No evidence"):
        return sentence
    if document.true_epsilon is not None and document.epsilon_lower_bound > document.true_epsilon:
        return sentence  # of which the end says more: the bound is above the truth already
    return f"{sentence} That proves nothing good: a better attack may exist."


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
    >>> from epsilens.document import AuditDocument, Provenance
    >>> audit_table(AuditDocument(provenance=Provenance(method="pure"), mechanism="rr",
    ...     epsilon_lower_bound=0.8, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=["pure differential privacy"],
    ...     claimed_epsilon=1.0, claimed_delta=0.0, true_epsilon=1.0, is_broken=False,
    ...     verdict="no evidence of a breach", n_canaries=1000, n_guesses=500,
    ...     n_correct=365)).row_count
    7
    """
    from rich.text import Text

    at = f" at δ = {delta_text(document.claimed_delta)}" if document.claimed_delta else ""
    table = plain_table(f"One-run audit of {document.mechanism}{at}", show_header=False)
    table.add_column("what")
    table.add_column("value", overflow="fold")
    rows = [
        _bound_row(document),
        ("claimed ε", format_epsilon(document.claimed_epsilon)),
        (
            "theoretical ε",
            NOTHING
            if document.true_epsilon is None
            else f"{format_epsilon(document.true_epsilon)} (proven)",
        ),
        (
            "guesses",
            f"{format_count(document.n_correct)} right of {format_count(document.n_guesses)}, "
            f"{format_count(document.n_canaries)} canaries",
        ),
        ("method", document.method),
        ("guesses chosen by", _selection_words(document.selection)),
        ("assumes", ", ".join(document.assumptions) or NOTHING),
    ]
    for what, value in rows:
        table.add_row(Text(what), Text(value))
    return table


def _bound_row(document: AuditDocument) -> tuple[str, str]:
    number = bound_text(document.epsilon_lower_bound)
    if not document.is_confidence_bound:
        return "as printed", f"{number} (no bound)"
    if document.epsilon_lower_bound == 0.0:
        return "ε is at least", f"{number} (nothing is proved)"
    at = " at δ = 0" if document.method == "pure" and document.claimed_delta else ""
    return "ε is at least", f"{number}{at} (proven, {100 * document.confidence:.10g} % confidence)"


def _selection_words(selection: str) -> str:
    return f"{selection} on each side, fixed beforehand" if selection.isdecimal() else selection


_SHAPES = ["circle", "square"]
_ROOM = 1.25
"""How far the axis goes beyond the largest number, so that its label has room."""
_LEFT = 0.2
"""Points nearer than this share of the axis to its start are labelled on the right."""


def audit_chart(document: AuditDocument, *, width: int = 560) -> alt.LayerChart:
    """Draw the bound of an audit beside the claim and, where it is known, the truth.

    What is proved is a bar from the bound to the right: ε lies somewhere in it, with the stated
    confidence. The claim and what theory says are points, and a dashed line leads from the claim to
    the bar: a claim to the left of it is broken. A number that is no bound has no bar.

    Parameters
    ----------
    document : AuditDocument
        The audit.
    width : int
        Width of the plot in pixels.

    Returns
    -------
    altair.LayerChart
        A Vega-Lite chart; it shows itself in a notebook.

    Examples
    --------
    >>> from epsilens.document import AuditDocument, Provenance
    >>> audit = AuditDocument(provenance=Provenance(method="pure"), mechanism="rr",
    ...     epsilon_lower_bound=0.8, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=["pure differential privacy"],
    ...     claimed_epsilon=1.0, claimed_delta=0.0, true_epsilon=1.0, is_broken=False,
    ...     verdict="no evidence of a breach", n_canaries=1000, n_guesses=500, n_correct=365)
    >>> audit_chart(audit).to_dict()["title"]["text"]
    'What one run proves'
    """
    import altair as alt

    bound = document.epsilon_lower_bound
    points = {"claimed": document.claimed_epsilon, "theoretical": document.true_epsilon}
    known = {
        name: value for name, value in points.items() if value is not None and math.isfinite(value)
    }
    right = _ROOM * max([bound, *known.values(), 1e-3])
    sure = f"at least ({100 * document.confidence:.10g} % sure)"
    says = f"ε ≥ {bound_text(bound)}"
    if not document.is_confidence_bound:
        sure, says = "as printed (no bound)", bound_text(bound)
    order = [sure, *known]
    # Away from the claim's line, where there is room on that side.
    is_left = known.get("claimed", 0.0) >= bound > _LEFT * right
    rows = [{"what": sure, "from": bound, "to": right, "says": says}]
    marks = [
        {
            "what": name,
            "at": value,
            "says": f"ε = {format_epsilon(value)}",
            "near": value < _LEFT * right,
        }
        for name, value in known.items()
    ]
    x = alt.X(
        "from:Q",
        scale=alt.Scale(domain=[0, right], nice=False),
        axis=alt.Axis(title="privacy level ε", grid=False, tickCount=6),
    )
    y = alt.Y(
        "what:N",
        sort=order,
        scale=alt.Scale(domain=order),
        axis=alt.Axis(title=None, labelLimit=260),
    )
    bar = alt.Chart(alt.InlineData(values=rows))
    point = alt.Chart(alt.InlineData(values=marks))
    layers: list[Any] = []
    if document.is_confidence_bound:
        layers.append(
            bar.mark_bar(color=ACCENT, opacity=0.25, height=16).encode(x=x, x2="to:Q", y=y)
        )
    layers += [
        bar.mark_tick(color=ACCENT, thickness=3, size=22).encode(
            x=x, y=y, tooltip=[alt.Tooltip("says:N", title="proved")]
        ),
        bar.mark_text(
            align="right" if is_left else "left", dx=-7 if is_left else 7, fontSize=12
        ).encode(x=x, y=y, text="says:N"),
    ]
    if marks:
        at = alt.X("at:Q", scale=alt.Scale(domain=[0, right], nice=False))
        near = point.transform_filter("datum.near")
        far = point.transform_filter("!datum.near")
        layers += [
            point.transform_filter("datum.what == 'claimed'")
            .mark_rule(color=INK, strokeDash=[4, 4], opacity=0.55)
            .encode(x=at),
            point.mark_point(filled=True, size=70, color=INK, opacity=1).encode(
                x=at,
                y=y,
                shape=alt.Shape("what:N", scale=alt.Scale(range=_SHAPES), legend=None),
            ),
            far.mark_text(align="right", dx=-9, fontSize=12).encode(x=at, y=y, text="says:N"),
            near.mark_text(align="left", dx=9, fontSize=12).encode(x=at, y=y, text="says:N"),
        ]
    said = f"{document.mechanism}: {document.verdict}"
    title = alt.TitleParams(text="What one run proves", subtitle=subtitle([said], width))
    plot = alt.layer(*layers).properties(
        width=width, height=36 * len(order), title=title, description=said
    )
    chart: alt.LayerChart = dressed(plot, title_offset=14)
    return chart
