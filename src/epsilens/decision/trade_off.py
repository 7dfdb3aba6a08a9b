# SPDX-License-Identifier: Apache-2.0
"""Cost and risk of the same mechanism on one axis of budgets."""

from __future__ import annotations

import math

from epsilens.document import (
    EVERYBODY,
    Baseline,
    Point,
    RiskDocument,
    WhatIfDocument,
    joined_points,
)
from epsilens.errors import InputError, setting


def join(cost: WhatIfDocument, risk: RiskDocument) -> list[Point]:
    """Return the budgets that both have been asked about, ascending.

    Parameters
    ----------
    cost : WhatIfDocument
        Cost for everybody, because a risk concerns everybody whose records are in the data.
    risk : RiskDocument

    Returns
    -------
    list of Point

    Raises
    ------
    InputError
        If they are of different mechanisms, columns, data or models, or share no budget.

    Examples
    --------
    >>> from epsilens.document import RiskCell, WhatIfCell, example_document
    >>> cost = example_document("whatif", cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02) for epsilon in (1.0, 2.0)])
    >>> risk = example_document("risk", cells=[
    ...     RiskCell(epsilon=2.0, mechanism="rr", answer_inference_rate=0.7)])
    >>> [point.epsilon for point in join(cost, risk)]
    [2.0]
    """
    _require_one_mechanism(cost, risk)
    difference = _difference(cost, risk)
    if difference is not None:
        raise InputError(f"cost and risk must be of one question, but {difference}")
    if not any(cell.group == EVERYBODY for cell in cost.cells):
        raise InputError(
            f"the cost must be that of everybody, group {EVERYBODY!r}: the risk is. Leave out the "
            "groups, or add one with all records."
        )
    points = joined_points(cost, risk)
    if not points:
        raise InputError(
            "cost and risk must share at least one ε, got none. Ask both with the same grid."
        )
    return points


def _require_one_mechanism(cost: WhatIfDocument, risk: RiskDocument) -> None:
    mechanism = cost.provenance.settings.get("mechanism", "rr")
    if mechanism != "rr" or {cell.mechanism for cell in risk.cells} != {"rr"}:
        raise InputError(
            "cost and risk must be of one mechanism, randomised response: the ε of DP-SGD is of "
            "something else and does not belong on the same axis. Ask both with mechanism 'rr'."
        )


def _difference(cost: WhatIfDocument, risk: RiskDocument) -> str | None:
    """Name the first difference between the two questions and what to do about it; None if there is none."""
    asked, attacked = cost.provenance.settings, risk.provenance.settings
    protected = asked.get("protect")
    names = [str(name) for name in protected] if isinstance(protected, list) else None
    if names is not None and risk.protect and set(names) != set(risk.protect):
        return (
            f"the cost protects {', '.join(names)} and the attack {', '.join(risk.protect)}. Ask both "
            f"with the same {setting('protect')}."
        )
    counts = asked.get("n_answers")
    if names is not None and isinstance(counts, list) and risk.n_answers:
        attacked_counts = dict(zip(risk.protect, risk.n_answers, strict=False))
        for name, count in zip(names, counts, strict=False):
            if (other_count := attacked_counts.get(name)) not in {None, count}:
                return (
                    f"the cost has {count} possible answers for “{name}” and the attack {other_count}. Ask both "
                    f"with the same {setting('categories')}."
                )
    corrections = [str(settings.get("correction") or "none") for settings in (asked, attacked)]
    if corrections[0] != corrections[1]:
        with_it, without = ("cost", "attack") if corrections[1] == "none" else ("attack", "cost")
        return (
            f"the {with_it} is of models with forward correction and the {without} of models without. "
            f"Ask both without {setting('correction')}."
        )
    budgets = [settings.get("epsilon") for settings in (asked, attacked)]
    if any(isinstance(budget, dict) for budget in budgets) and budgets[0] != budgets[1]:
        return (
            "they do not have the same budget for every column. Ask both with the same "
            f"{setting('epsilon')}."
        )
    prints = (cost.provenance.schema_fingerprint, risk.provenance.schema_fingerprint)
    if None not in prints and prints[0] != prints[1]:
        return (
            "they are not of the same data: columns or numbers of rows differ. Ask both of the same "
            "training and test data."
        )
    other = None if risk.baseline is None else _model_difference(cost.baseline, risk.baseline)
    if other is not None:
        return (
            f"before anything is randomised their models differ: {other}. Ask both of the same model "
            "and the same file, without changing it between."
        )
    return None


_NOISE = 1e-5
"""By how much two fits of one model may differ: solvers stop at gradients far below this."""


def _model_difference(one: Baseline, other: Baseline) -> str | None:
    """Name what tells two models apart, as far as both documents say how good they are."""
    for name, counts in (
        ("training rows", (one.n_train, other.n_train)),
        ("test rows", (one.n_test, other.n_test)),
    ):
        if counts[0] != counts[1]:
            return f"{counts[0]} and {counts[1]} {name}"
    if _are_apart(one.loss, other.loss, _NOISE):
        return f"test loss {one.loss:.6g} and {other.loss:.6g}"
    # A row that lies on the border may fall on either side of it.
    if _are_apart(one.accuracy, other.accuracy, 2.5 / max(one.n_test, 1)):
        return f"accuracy {one.accuracy:.4g} and {other.accuracy:.4g}"
    return None


def _are_apart(one: float | None, other: float | None, most: float) -> bool:
    if one is None or other is None or not (math.isfinite(one) and math.isfinite(other)):
        return False
    return abs(one - other) > most * max(1.0, abs(one))
