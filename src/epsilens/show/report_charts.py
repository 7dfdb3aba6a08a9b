# SPDX-License-Identifier: Apache-2.0
"""The charts of the report, with what is said beside them: captions, keys, and a picture that stands still."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from epsilens.document import DecisionDocument, RiskDocument, WhatIfDocument
from epsilens.errors import InputError
from epsilens.show.report_words import ATTACKER
from epsilens.show.rounding import format_count
from epsilens.show.words import answers_text

__all__ = ["page_charts", "page_keys", "still_picture"]


def page_charts(
    document: WhatIfDocument | DecisionDocument, epsilon: float, accepted: float | None
) -> dict[str, Any]:
    """Make the charts of the page and the sentences that belong to them.

    Parameters
    ----------
    document : WhatIfDocument or DecisionDocument
        What is reported on.
    epsilon : float in (0, inf)
        Where the movable line stands at first.
    accepted : float or None
        Where the line of the accepted loss stands at first.

    Returns
    -------
    dict
        `charts` and `captions` by outcome, `risk_charts` and `risk_captions` by attack.

    Raises
    ------
    InputError
        If there is no number to draw.
    """
    from epsilens.show import available_outcomes, page_chart, risk_page_chart
    from epsilens.show.decision_chart import common_budgets
    from epsilens.show.plotted import plotted_rows
    from epsilens.show.risk_plot import risk_panels
    from epsilens.show.words import subtitle_lines

    is_decision = isinstance(document, DecisionDocument)
    cost = document.cost if isinstance(document, DecisionDocument) else document
    budgets = common_budgets(document) if isinstance(document, DecisionDocument) else None
    outcomes = available_outcomes(cost)
    if not outcomes:
        raise InputError(
            "expected at least one number to report on, got none: every estimate is missing. "
            "Ask for another method or another epsilon."
        )
    specs = {
        outcome: page_chart(
            cost,
            outcome=outcome,
            epsilon=epsilon,
            max_loss_increase=accepted if outcome == "loss" else None,
            budgets=budgets,
            is_lowest=not is_decision,
            height=240 if is_decision else 300,
        )
        for outcome in outcomes
    }
    captions = {
        outcome: " ".join(subtitle_lines(cost, *plotted_rows(cost, outcome), outcome=outcome))
        for outcome in outcomes
    }
    risk_specs: dict[str, Any] = {}
    risk_captions: dict[str, str] = {}
    if isinstance(document, DecisionDocument):
        for panel in risk_panels(document.risk):
            risk_specs[panel.name] = risk_page_chart(
                document.risk,
                attack=panel.name,
                epsilon=epsilon,
                max_attack_rate=document.recommendation.max_attack_rate
                if panel.name == "answer"
                else None,
                budgets=budgets,
                height=240,
            )
            risk_captions[panel.name] = _risk_caption(document.risk, panel.name)
    return {
        "charts": specs,
        "captions": captions,
        "risk_charts": risk_specs,
        "risk_captions": risk_captions,
    }


def _risk_caption(document: RiskDocument, attack: str) -> str:
    from epsilens.show.risk_text import models_text, outside_lines

    said = models_text(document)
    parts = [f"{said[0].upper()}{said[1:]}."]
    if attack == "answer":
        parts.append(
            f"The attack guesses {answers_text(document.protect)}"
            f"{', all of them at once' if len(document.protect) > 1 else ''}; it is by {ATTACKER}. "
            "The ceiling holds for every attack, given the upper bound of what everybody else's data "
            "give away."
        )
    else:
        parts.append(
            f"The most exposed of {format_count(document.n_targets)} records: the largest of so many "
            "rates is large by chance alone, and inside the grey it shows nothing. Randomised "
            "response protects the answer, not membership: there is no ceiling."
        )
    return " ".join([*parts, *outside_lines(document)])


def page_keys(
    document: WhatIfDocument | DecisionDocument, outcomes: list[Any], attacks: list[Any]
) -> dict[str, list[dict[str, Any]]]:
    """Explain the charts of the page: for each outcome and each attack the lines of its key."""
    from epsilens.show.page_key import cost_key, risk_key

    cost = document.cost if isinstance(document, DecisionDocument) else document
    found = {name: [asdict(entry) for entry in cost_key(cost, name)] for name in outcomes}
    if isinstance(document, DecisionDocument):
        for name in attacks:
            found[name] = [asdict(entry) for entry in risk_key(document.risk, name)]
    return found


def still_picture(
    document: WhatIfDocument | DecisionDocument, outcome: Any, accepted: float | None
) -> str:
    """Draw the picture for readers without scripts, which can also be saved."""
    import vl_convert

    from epsilens.show import cost_chart, decision_chart

    tolerance = accepted if outcome == "loss" else None
    chart: Any = (
        decision_chart(document, outcome=outcome)
        if isinstance(document, DecisionDocument)
        else cost_chart(document, outcome=outcome, max_loss_increase=tolerance)
    )
    picture: str = vl_convert.vegalite_to_svg(chart.to_dict(validate=False), allowed_base_urls=[])
    return picture
