# SPDX-License-Identifier: Apache-2.0
"""The chart of a decision: what each privacy budget costs above what it buys, on one axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from epsilens.document import DecisionDocument
from epsilens.document.clauses import models_text
from epsilens.document.whatif import WhatIfDocument
from epsilens.document.wording import Outcome, axis_budget, budget_title, cost_type, epsilon_text
from epsilens.errors import InputError
from epsilens.show.cost import (
    cost_chart,
    cost_plot,
    shapes_by_type,
    spoken_description,
    subtitle_lines,
)
from epsilens.show.look import (
    ACCENT,
    dressed,
    first_outcome,
    legend_layout,
    panel_title,
    subtitle,
)
from epsilens.show.mechanisms import mechanism_chart
from epsilens.show.risk import draw_panel, risk_panels, risk_rows, spoken_panel

if TYPE_CHECKING:
    import altair as alt


DECISION_TITLE = "What a privacy budget costs and what it buys"


def decision_chart(
    document: DecisionDocument,
    *,
    outcome: Outcome | None = None,
    width: int = 640,
    height: int = 230,
) -> alt.VConcatChart:
    """Draw what each privacy budget costs above what an attacker gets, on one logarithmic axis.

    The upper plot is the cost with the range one real run may show. The lower plot is how often an
    attacker guesses the protected answer: measured, beside the same guess of people outside the
    training data, and what nobody can exceed, proven. Dashed lines are the limits that were set; the
    vertical line is the recommended budget.

    Parameters
    ----------
    document : DecisionDocument
        The decision to draw.
    outcome : {"mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"}
        What the upper plot shows. None: mistakes where they are known, or what the limit is about.
    width, height : int
        Size of each plot in pixels.

    Returns
    -------
    altair.VConcatChart
        A Vega-Lite chart; it shows itself in a notebook, and `save_chart` writes it.

    Raises
    ------
    InputError
        If there is nothing to draw on a logarithmic axis.

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
    >>> chart = decision_chart(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                         recommendation=chosen))
    >>> len(chart.to_dict()["vconcat"])
    2
    """
    import altair as alt

    chosen, rows = document.randomised, risk_rows(document.risk)
    panels = risk_panels(document.risk)
    if not panels:
        raise InputError(
            "expected attack rates at an epsilon between 0 and infinity, got none. Add such an "
            "epsilon to the grid."
        )
    budgets, size = common_budgets(document), (width, height)
    outcome = outcome or first_outcome(document.cost, max_loss_increase=chosen.max_loss_increase)
    accuracy = chosen.max_accuracy_loss
    limits = {
        "loss": chosen.max_loss_increase,
        "mistakes": None if accuracy is None else 10.0 * accuracy,
    }
    plot = cost_plot(
        document.cost,
        outcome=outcome,
        limit=limits.get(outcome),
        shapes=shapes_by_type(document.cost),
        budgets=budgets,
        is_lowest=False,
        size=size,
    )
    panel = panels[0]
    feared = chosen.max_attack_rate if panel.name == "answer" else None
    below = draw_panel(
        panel,
        rows,
        title=budget_title(document.risk),
        size=size,
        budgets=budgets,
        limit=None if feared is None else 100 * feared,
    )
    above = plot.chart.properties(
        title=panel_title(alt, f"What it costs ({cost_type(document.cost)})", width)
    )
    line = _line(chosen.epsilon)
    lines = [
        recommended_text(document),
        *subtitle_lines(document.cost, plot.rows, plot.aside, outcome=outcome),
        f"Attacks {models_text(document.risk)}.",
    ]
    chart: alt.VConcatChart = dressed(
        alt.vconcat(
            *(alt.layer(*line, part) if line else part for part in (above, below)),
            spacing=22,
            resolve=alt.Resolve(
                scale={name: "independent" for name in ("stroke", "fill", "shape", "strokeDash")},
                legend={name: "independent" for name in ("stroke", "fill", "shape")},
            ),
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
            title=alt.TitleParams(text=DECISION_TITLE, subtitle=subtitle(lines, width)),
            description=" ".join(
                [
                    recommended_text(document),
                    spoken_description(document.cost, plot.rows, plot.groups, outcome),
                    spoken_panel(panel, rows),
                ]
            ),
        ),
        title_offset=16,
        legend=legend_layout(plot.groups, width),
    )
    return chart


def document_chart(
    document: WhatIfDocument | DecisionDocument,
    outcome: Outcome | None = None,
    max_loss_increase: float | None = None,
) -> alt.LayerChart | alt.VConcatChart:
    """Draw several mechanisms against each other, or one over ε; of a what-if its cost.

    Parameters
    ----------
    document : WhatIfDocument or DecisionDocument
    outcome : {"mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"}, optional
        The cost over ε. None: mistakes where they are known, or what the limit is about.
    max_loss_increase : float, optional
        Limit of a what-if.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> "vconcat" in document_chart(example_document("decision")).to_dict()
    True
    """
    if not isinstance(document, DecisionDocument):
        outcome = outcome or first_outcome(document, max_loss_increase=max_loss_increase)
        tolerance = max_loss_increase if outcome == "loss" else None
        return cost_chart(document, outcome=outcome, max_loss_increase=tolerance)
    if document.is_comparison or document.risk.is_together:
        return mechanism_chart(document)
    return decision_chart(document, outcome=outcome)


def common_budgets(document: DecisionDocument) -> list[float]:
    """List every budget of cost and risk that has a place on a logarithmic axis.

    Examples
    --------
    >>> from epsilens.document import (DecisionDocument, Provenance, Recommendation, RiskCell,
    ...                                WhatIfCell, example_document)
    >>> origin = Provenance(method="exact")
    >>> cost = example_document("whatif", cells=[
    ...     WhatIfCell(group="all", epsilon=2.0, record_epsilon=2.0, method="exact",
    ...                loss_change=0.02)])
    >>> risk = example_document("risk", cells=[
    ...     RiskCell(epsilon=epsilon, mechanism="rr") for epsilon in (1.0, 2.0)])
    >>> chosen = Recommendation(epsilon=2.0, holds=True, sentence="ε = 2.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> common_budgets(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                 recommendation=chosen))
    [1.0, 2.0]
    """
    found = {axis_budget(document.cost, cell) for cell in document.cost.cells}
    found |= {axis_budget(document.risk, cell) for cell in document.risk.cells}
    return sorted(budget for budget in found if 0 < budget < math.inf)


def recommended_text(document: DecisionDocument) -> str:
    """Say in one short sentence which budget is recommended, or that none is.

    Examples
    --------
    >>> from epsilens.document import DecisionDocument, Provenance, Recommendation, example_document
    >>> origin = Provenance(method="exact")
    >>> cost = example_document("whatif", cells=[])
    >>> risk = example_document("risk", cells=[])
    >>> chosen = Recommendation(epsilon=2.0, holds=True, sentence="ε = 2.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> recommended_text(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                   recommendation=chosen))
    'Recommended: ε = 2, the most private within the limit on the loss.'
    """
    chosen = document.randomised
    if chosen.epsilon is None:
        limits = "both limits" if chosen.rule == "both" else "the limit"
        return f"No ε of the grid meets {limits}: none is recommended."
    why = {
        "max_loss_increase": "the most private within the limit on the loss",
        "max_accuracy_loss": "the most private within the limit on the accuracy",
        "max_attack_rate": "the largest within the limit on the attack",
        "max_advantage": f"the largest with an advantage of at most {chosen.max_advantage:g}"
        if chosen.max_advantage is not None
        else "",
        "both": "the most private within both limits",
    }[chosen.rule]
    if chosen.is_default:
        why += ", our default"
    if not chosen.holds:
        return (
            f"ε = {epsilon_text(chosen.epsilon)} would be {why}, but not every estimate can be "
            "trusted: none is recommended."
        )
    return f"Recommended: ε = {epsilon_text(chosen.epsilon)}, {why}."


def _line(epsilon: float | None) -> list[Any]:
    from epsilens.show.offline import layer_of

    if epsilon is None or not 0 < epsilon < math.inf:
        return []
    at = layer_of([{"epsilon": epsilon}])
    return [at.mark_rule(size=2, color=ACCENT, clip=True).encode(x="epsilon:Q")]
