# SPDX-License-Identifier: Apache-2.0
"""An audit: its table, and the chart of what was proved, what was claimed and what is true."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from epsilens.document import AuditDocument
from epsilens.document.wording import bound_text, epsilon_text
from epsilens.show.look import ACCENT, INK, dressed, subtitle

if TYPE_CHECKING:
    import altair as alt


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
    >>> from epsilens.document import example_document
    >>> audit = example_document("audit", mechanism="rr",
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
            "says": f"ε = {epsilon_text(value)}",
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
