# SPDX-License-Identifier: Apache-2.0
"""The limits of a decision: the acceptable loss, and what an attacker may get."""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsilens._validate import as_at_least_zero, as_between, as_loss_limit, as_share
from epsilens.document import RiskDocument, WhatIfDocument
from epsilens.document.decision import Point, joined_points
from epsilens.document.wording import EVERYBODY, whole_group
from epsilens.errors import InputError, setting

DEFAULT_MAX_ADVANTAGE = 0.1
"""Largest advantage where no limit is given."""
RETRAINING_SECONDS = 20.0
"""Time for training again where the cost failed its check."""
SIMULATED_CONFIDENCE = 0.9
"""Confidence level of the interval that comes with a measured attack rate."""
SMALL_COST = 0.01
"""Share of the loss before up to which an expected increase may count as none."""
CLEAR_COST = 0.05
"""Share of the loss before that the upper end of a cost may not pass where the cost counts as none."""
NO_COST = 0.001
"""Share of the loss before up to which every increase counts as none."""


@dataclass(frozen=True)
class CheckedLimits:
    """Checked limits; at least one of the first four is set.

    Attributes
    ----------
    loss : float or None
        Largest increase of the mean test loss.
    accuracy : float or None
        Largest loss of test accuracy, as a share.
    rate : float or None
        Largest share of answers that an attacker guesses.
    advantage : float or None
    confidence : float
    seconds : float
    is_default : bool
        Whether the limit is the default of epsilens.
    """

    loss: float | None
    accuracy: float | None
    rate: float | None
    advantage: float | None
    confidence: float
    seconds: float
    is_default: bool = False

    @property
    def has_cost(self) -> bool:
        """Whether the cost is limited."""
        return self.loss is not None or self.accuracy is not None

    def bears(self, loss_increase: float, accuracy_loss: float) -> bool:
        """Say whether a cost is within its limit."""
        if self.accuracy is not None:
            return accuracy_loss <= self.accuracy
        return self.loss is None or loss_increase <= self.loss


def read_limits(
    *,
    max_loss_increase: float | None = None,
    max_accuracy_loss: float | None = None,
    max_attack_rate: float | None = None,
    max_advantage: float | None = None,
    confidence: float = SIMULATED_CONFIDENCE,
    measured: bool = False,
    proven_only: bool = False,
    seconds: float = RETRAINING_SECONDS,
) -> CheckedLimits:
    """Check the limits of `decide`; without any the default on the advantage holds.

    Raises
    ------
    InputError
        If one is no limit, or two exclude each other.

    Examples
    --------
    >>> read_limits().advantage, read_limits(max_loss_increase=0.01).loss
    (0.1, 0.01)
    """
    if max_attack_rate is not None and max_advantage is not None:
        raise InputError(
            "expected one limit on the attack, got two. Give "
            f"{setting('max_attack_rate')} or {setting('max_advantage')}."
        )
    if max_loss_increase is not None and max_accuracy_loss is not None:
        raise InputError(
            "expected one limit on the cost, got two. Give "
            f"{setting('max_loss_increase')} or {setting('max_accuracy_loss')}."
        )
    if max_accuracy_loss is not None and confidence > SIMULATED_CONFIDENCE:
        raise InputError(
            f"{setting('confidence')} above {SIMULATED_CONFIDENCE:g} needs {setting('max_loss_increase')}: the "
            f"range of the accuracy is known for {SIMULATED_CONFIDENCE:g}. Ask for less confidence, or limit the loss."
        )
    if measured and proven_only:
        raise InputError(
            f"{setting('measured')} and {setting('proven_only')} contradict each other. Leave one of them "
            "out; without either the proven ceiling decides."
        )
    if isinstance(max_attack_rate, int | float) and not 0 < max_attack_rate < 1:
        raise InputError(
            argument="max_attack_rate",
            expected="greater than 0 and less than 1",
            got=f"{max_attack_rate:g}",
            hint="Give a share, for instance 0.8.",
        )
    given = (max_loss_increase, max_accuracy_loss, max_attack_rate, max_advantage)
    is_default = all(limit is None for limit in given)
    advantage = DEFAULT_MAX_ADVANTAGE if is_default else max_advantage
    return CheckedLimits(
        loss=None if max_loss_increase is None else as_loss_limit(max_loss_increase),
        accuracy=None
        if max_accuracy_loss is None
        else as_between(max_accuracy_loss, 0.0, 100.0, name="max_accuracy_loss") / 100.0,
        rate=None if max_attack_rate is None else as_share(max_attack_rate, name="max_attack_rate"),
        advantage=None if advantage is None else as_share(advantage, name="max_advantage"),
        confidence=as_share(confidence, name="confidence"),
        seconds=as_at_least_zero(seconds, name="seconds"),
        is_default=is_default,
    )


# --- Cost and risk of the same mechanism on one axis of budgets ---


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
    require_one_mechanism(cost, risk)
    difference = _difference(cost, risk)
    if difference is not None:
        raise InputError(f"cost and risk must be of one question, but {difference}")
    cost.require_order()
    if not any(cell.group == whole_group(cost) for cell in cost.cells):
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


def require_one_mechanism(cost: WhatIfDocument, risk: RiskDocument | None = None) -> None:
    """Refuse a cost, and a risk if there is one, of anything but randomised response."""
    mechanism = cost.provenance.settings.get("mechanism", "rr")
    if mechanism != "rr":
        raise InputError(
            "cost and risk must be of one mechanism, randomised response, but the cost is that of "
            f"{mechanism}. Ask both with {setting('mechanism', 'rr')}."
        )
    if risk is not None and {cell.mechanism for cell in risk.cells} != {"rr"}:
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
            f"Ask both with the same {setting('correction')}."
        )
    budgets = [settings.get("epsilon") for settings in (asked, attacked)]
    if any(isinstance(budget, dict) for budget in budgets) and budgets[0] != budgets[1]:
        each = "group" if asked.get("together") or attacked.get("together") else "column"
        return (
            f"they do not have the same budget for every {each}. Ask both with the same "
            f"{setting('epsilon')}."
        )
    prints = (cost.provenance.schema_fingerprint, risk.provenance.schema_fingerprint)
    if None not in prints and prints[0] != prints[1]:
        return (
            "they are not of the same data: columns or numbers of rows differ. Ask both of the same "
            "training and test data."
        )
    for key, words in (("estimator", "the estimator"), ("loss", "the loss of the model")):
        models = [settings.get(key) for settings in (asked, attacked)]
        if None not in models and models[0] != models[1]:
            return (
                f"{words} of the cost is {models[0]} and that of the attack {models[1]}. Ask both with the "
                f"same {setting('model')}."
            )
    groups = [
        list(dict.fromkeys(cell.group for cell in cells if cell.group != EVERYBODY))
        for cells in (cost.cells, risk.group_cells)
    ]
    if asked.get("together"):
        groups[0] = [str(name) for name in cost.cells[0].group_epsilons or ()]
    if risk.group_cells and not set(groups[1]) <= set(groups[0]):
        return (
            f"the cost has {_named(groups[0])} and the attack {_named(groups[1])}. Ask both with the same "
            f"{setting('groups')}."
        )
    one, other = cost.baseline, risk.baseline
    if other is None:
        return None
    # A model that is trained again may have a seed of its own in each.
    noise = _NOISE if one.n_parameters is not None else math.inf
    differs = None
    if one.n_train != other.n_train:
        differs = f"{one.n_train} and {other.n_train} training rows"
    elif one.n_test != other.n_test:
        differs = f"{one.n_test} and {other.n_test} test rows"
    elif one.n_parameters != other.n_parameters:
        differs = f"{one.n_parameters} and {other.n_parameters} parameters"
    elif _are_apart(one.loss, other.loss, noise):
        differs = f"test loss {one.loss:.6g} and {other.loss:.6g}"
    # A row that lies on the border may fall on either side of it.
    elif _are_apart(one.accuracy, other.accuracy, max(2.5 / max(one.n_test, 1), noise)):
        differs = f"accuracy {one.accuracy:.4g} and {other.accuracy:.4g}"
    return differs and (
        f"before anything is randomised their models differ: {differs}. Ask both of the same model "
        "and the same file, without changing it between."
    )


def _named(groups: list[str]) -> str:
    return f"the groups {', '.join(groups)}" if groups else "no groups"


_NOISE = 1e-5
"""By how much two fits of one model may differ: solvers stop at gradients far below this."""


def _are_apart(one: float | None, other: float | None, most: float) -> bool:
    if one is None or other is None or not (math.isfinite(one) and math.isfinite(other)):
        return False
    return abs(one - other) > most * max(1.0, abs(one))
