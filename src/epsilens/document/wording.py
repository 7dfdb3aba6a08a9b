# SPDX-License-Identifier: Apache-2.0
"""How every number is written and what it is called: once, here, for every sentence, table and chart.

A number that is not known is a dash. Bounds are rounded so that they still hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from epsilens.document.parts import NumberType
from epsilens.document.risk import GroupRiskCell, RiskCell, RiskDocument
from epsilens.document.whatif import WhatIfCell, WhatIfDocument

# --- How every number is written: rounded once, here, for every sentence, table and chart ---

if TYPE_CHECKING:
    from epsilens.document.kinds import ValueDocument

MINUS = "−"
NOTHING = "–"
_LONGEST = 1e9
"""Budgets from here on are written with an exponent: nobody reads three hundred digits."""


def bound_text(epsilon: float | None) -> str:
    """Round a lower bound on a privacy budget down, to three significant digits.

    Examples
    --------
    >>> bound_text(1.2399), bound_text(0.0), bound_text(15.99)
    ('1.23', '0', '15.9')
    """
    if epsilon is None:
        return NOTHING
    if epsilon <= 0.0 or not math.isfinite(epsilon):
        return "0" if epsilon <= 0.0 else "∞"
    unit = 10.0 ** (2 - math.floor(math.log10(epsilon)))
    return f"{math.floor(epsilon * unit * (1 + 1e-12)) / unit:.3g}"


def epsilon_text(epsilon: float | None) -> str:
    """Round a privacy budget to three significant digits; infinity is ∞, and none is a dash.

    Examples
    --------
    >>> [epsilon_text(value) for value in (1.0, 3.16227, 1234.5, 1e30, float("inf"), None)]
    ['1', '3.16', '1234', '1.0e+30', '∞', '–']
    """
    if epsilon is None:
        return NOTHING
    if math.isinf(epsilon):
        return "∞"
    if 100 <= epsilon < _LONGEST:
        return f"{epsilon:.0f}"
    text = f"{epsilon:.3g}"
    return text if "e" not in text else f"{epsilon:.1e}"


def delta_text(delta: float) -> str:
    """Write the δ of a privacy claim as it is typed.

    Examples
    --------
    >>> delta_text(1e-6), delta_text(0.05), delta_text(2.5e-12)
    ('1e-6', '0.05', '2.5e-12')
    """
    digits, exponent, power = f"{delta:g}".partition("e")
    return f"{digits}e{int(power)}" if exponent else digits


def at_most_text(share: float | None) -> str:
    """Write a share that nothing exceeds in per cent: one decimal, rounded up.

    Examples
    --------
    >>> at_most_text(0.8291), at_most_text(0.7)
    ('83.0%', '70.0%')
    """
    if share is None:
        return NOTHING
    # What floating point puts above a round number is not rounded up to the next.
    return f"{math.ceil(1000 * share - 1e-9) / 10:.1f}%"


def at_least_text(share: float | None) -> str:
    """Write a share that is reached at least in per cent: one decimal, rounded down.

    Examples
    --------
    >>> at_least_text(0.5739), at_least_text(0.7)
    ('57.3%', '70.0%')
    """
    if share is None:
        return NOTHING
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f}%"


def p_value_text(value: float | None) -> str:
    """Write a p-value, two digits; the smallest are not told apart.

    Examples
    --------
    >>> [p_value_text(value) for value in (0.4, 0.0123, 1e-9, None)]
    ['0.40', '0.012', '< 0.001', '–']
    """
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def loss_decimals(loss: float | None) -> int:
    """Say how many decimals a loss has: its last digit is about a ten-thousandth of it.

    Examples
    --------
    >>> loss_decimals(0.54), loss_decimals(5300.0), loss_decimals(None)
    (4, 0, 4)
    """
    if loss is None or not math.isfinite(loss) or loss <= 0:
        return 4
    return min(max(3 - math.floor(math.log10(loss)), 0), 10)


def change_text(value: float | None, *, decimals: int = 4, plus: str = "+") -> str:
    """Write a change with its sign; a change too small to show has none.

    Examples
    --------
    >>> [change_text(value, decimals=4) for value in (0.0214, -0.0002, 0.00001, None)]
    ['+0.0214', '−0.0002', '0.0000', '–']
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return f"{plus}∞" if value > 0 else f"{MINUS}∞"
    text = f"{abs(value):,.{decimals}f}"
    if not text.strip("0."):
        return text
    return f"{plus if value > 0 else MINUS}{text}"


def loss_text(value: float | None, *, decimals: int = 4) -> str:
    """Write a loss, or an area under the ROC curve, without a sign for plus.

    Examples
    --------
    >>> loss_text(0.54321, decimals=4), loss_text(5300.2, decimals=0)
    ('0.5432', '5,300')
    """
    return change_text(value, decimals=decimals, plus="")


def points_text(share: float | None, *, signed: bool = True) -> str:
    """Write a change of a share in percentage points, one decimal.

    Examples
    --------
    >>> points_text(-0.0134), points_text(-0.0134, signed=False)
    ('−1.3', '1.3')
    """
    if share is None:
        return NOTHING
    number = 100 * (share if signed else abs(share))
    return change_text(number, decimals=1, plus="+" if signed else "")


def percent_text(share: float | None) -> str:
    """Write a share in per cent, one decimal.

    Examples
    --------
    >>> percent_text(0.7236)
    '72.4%'
    """
    return NOTHING if share is None else f"{100 * share:.1f}%"


def seconds_text(value: float | None) -> str:
    """Write a duration in seconds, one decimal below a hundred.

    Examples
    --------
    >>> seconds_text(1.84), seconds_text(250.2)
    ('1.8 s', '250 s')
    """
    if value is None:
        return NOTHING
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def rounds_to_zero(value: float, *, decimals: int) -> bool:
    """Say whether a number shows as zero at so many decimals.

    Examples
    --------
    >>> rounds_to_zero(0.00001, decimals=4), rounds_to_zero(0.001, decimals=4)
    (True, False)
    """
    return float(f"{value:.{decimals}f}") == 0.0


# --- What the numbers of a result are called, so that every view of it uses the same words ---

EVERYBODY = "all"
"""The package's own name for the group of everybody."""


def joined_name(names: Iterable[str]) -> str:
    """Name several groups that are randomised at once.

    Examples
    --------
    >>> joined_name(["women", "men"])
    'women + men'
    """
    return " + ".join(names)


FEWEST_RUNS = 19
"""With fewer retrainings not even the largest of them is an upper end at 95 %."""
Outcome: TypeAlias = Literal["mistakes", "accuracy", "loss", "auc", "loss_gap", "accuracy_gap"]
PERCENT_OUTCOMES = ("accuracy", "accuracy_gap")
OUTCOME_NAMES: dict[Outcome, str] = {
    "mistakes": "mistakes",
    "accuracy": "accuracy",
    "loss": "test loss",
    "auc": "area under the ROC curve",
    "loss_gap": "loss gap",
    "accuracy_gap": "accuracy gap",
}
NO_PRIVACY = "No ε is stated: the body of the network may have learnt from the true answers."
GAP_MEANINGS = {
    "loss_gap": "Loss gap: the group's test loss less everybody else's; where it rises, the group falls behind.",
    "accuracy_gap": "Accuracy gap: the group's accuracy less everybody else's; where it falls, the group falls behind.",
}
ATTACKER = "an attacker who sees only the published model and all other columns"
ATTACKERS = (
    "Holder: whoever holds the randomised answers and knows everybody else's data, such as their "
    "collector. Reader: whoever sees only the published model and all other columns."
)
"""Attacker whose success the rates measure."""
Gap: TypeAlias = Literal["loss_gap", "accuracy_gap"]
GAPS: tuple[Gap, ...] = get_args(Gap)
Ranged: TypeAlias = Literal["accuracy", "loss_gap", "accuracy_gap"]
RANGED: tuple[Ranged, ...] = get_args(Ranged)
"""What is shown as the range of nine runs in ten."""


def has_few_runs(document: WhatIfDocument) -> bool:
    """Say whether fewer models were trained again than an upper end at 95 % takes.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> origin = Provenance(method="retrain", settings={"repeats": 3})
    >>> has_few_runs(WhatIfDocument(provenance=origin, baseline=start, cells=[]))
    True
    """
    repeats = document.provenance.settings.get("repeats")
    is_retrained = document.provenance.method == "retrain"
    return is_retrained and isinstance(repeats, int) and repeats < FEWEST_RUNS


def cost_type(document: WhatIfDocument, cell: WhatIfCell | None = None) -> NumberType:
    """Say whether the cost in a what-if, or in one of its cells, was estimated or measured.

    Single cells of an estimate may have been measured by training again.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> cost_type(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start, cells=[]))
    'estimated'
    """
    if cell is not None and cell.method == "retrain":
        return "measured"
    if cell is not None and cell.number_type is not None:
        return cell.number_type
    stated = document.number_types.get("loss_change")
    if stated is not None:
        return stated
    retrained = bool(document.cells) and all(cell.method == "retrain" for cell in document.cells)
    return "measured" if retrained else "estimated"


def loss_unit(document: WhatIfDocument | ValueDocument) -> str:
    """Name the unit of the test loss: nats, or squared error.

    A regression, and a classification by squared loss (RidgeClassifier), count squared error; a
    logistic model counts nats, the natural unit of the logarithmic loss.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> loss_unit(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start, cells=[]))
    'squared error'
    """
    settings = document.provenance.settings
    squared = settings.get("loss") == "squared" or settings.get("model") == "ridge"
    return "squared error" if squared or document.baseline.accuracy is None else "nats"


def group_names(document: WhatIfDocument) -> list[str]:
    """List the groups of a what-if in the order in which they were given.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> cells = [WhatIfCell(group=group, epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                     loss_change=0.1) for group in ("women", "men")]
    >>> group_names(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                            cells=cells))
    ['women', 'men']
    """
    return list(dict.fromkeys(cell.group for cell in document.cells))


def is_model_release(document: WhatIfDocument) -> bool:
    """Whether the question is about noise on a published model, not about randomised answers.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, loss_change=0.1,
    ...                   method="output-perturbation")
    >>> is_model_release(WhatIfDocument(provenance=Provenance(method="output-perturbation"),
    ...                                 baseline=start, cells=[cell]))
    True
    """
    cells = document.cells
    return bool(cells) and all(cell.method == "output-perturbation" for cell in cells)


def budgets_text(document: WhatIfDocument) -> str | None:
    """Write the ε of every column where these differ; None where one ε holds for all.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> asked = {"epsilon": {"smokes": 0.05, "sex": 0.1}}
    >>> budgets_text(WhatIfDocument(provenance=Provenance(method="exact", settings=asked),
    ...                             baseline=start, cells=[]))
    'smokes = 0.05, sex = 0.1'
    """
    asked = document.provenance.settings.get("epsilon")
    if not isinstance(asked, dict) or document.provenance.settings.get("together"):
        return None
    return ", ".join(f"{name} = {epsilon_text(float(value))}" for name, value in asked.items())


def spending_text(document: WhatIfDocument, cell: WhatIfCell) -> str:
    """Name the budget of a cell as it is to be spent: of each column, and of a record where that is another.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=1.0, accuracy=None, auc=None, n_train=9, n_test=9, n_parameters=2)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.1)
    >>> spending_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell)
    'ε = 1 for each column (ε = 2 for a record)'
    """
    each = budgets_text(document) if cell.epsilon is None else None
    return budget_text(cell) if each is None else f"{each}: {budget_text(cell)}"


def own_budget(cell: WhatIfCell | RiskCell) -> float:
    """Give the budget of a cell: per column, or of a whole record where columns or groups differ.

    Examples
    --------
    >>> from epsilens.document import RiskCell
    >>> own_budget(RiskCell(epsilon=None, mechanism="rr", record_epsilon=1.5))
    1.5
    """
    by_record = cell.epsilon is None or cell.group_epsilons is not None
    budget = cell.record_epsilon if by_record else cell.epsilon
    assert budget is not None  # noqa: S101  # every cell has one of the two
    return budget


def answers_text(names: Sequence[str]) -> str:
    """Name the protected answers.

    Examples
    --------
    >>> answers_text(["smokes"]), answers_text(["smokes", "age"]), answers_text([])
    ('the answer “smokes”', 'the answers “smokes” and “age”', 'the protected answer')
    """
    quoted = [f"“{name}”" for name in names]
    if not quoted:
        return "the protected answer"
    if len(quoted) == 1:
        return f"the answer {quoted[0]}"
    return f"the answers {', '.join(quoted[:-1])} and {quoted[-1]}"


def group_label(group: str) -> str:
    """Name a group in a table or a legend; that of everybody is the package's own.

    Examples
    --------
    >>> group_label("all"), group_label("women")
    ('everyone', 'women')
    """
    return "everyone" if group == EVERYBODY else group


def axis_budget(document: WhatIfDocument | RiskDocument, cell: WhatIfCell | RiskCell) -> float:
    """Give the budget at which a cell is drawn: per column, or per record where columns differ.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> axis_budget(document, cell)
    1.0
    """
    by_record = any(other.epsilon is None for other in document.cells)
    if by_record and cell.record_epsilon is not None:
        return cell.record_epsilon
    return own_budget(cell)


def budget_title(document: WhatIfDocument | RiskDocument) -> str:
    """Name the horizontal axis.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> budget_title(document)
    'privacy budget ε'
    """
    return f"privacy budget {budget_symbol(document)}"


def budget_symbol(document: WhatIfDocument | RiskDocument) -> str:
    """Return the symbol of a budget; where columns or groups differ, it is that of a whole record."""
    if any(cell.group_epsilons is not None for cell in document.cells):
        return "ε of the least protected record"
    return "ε of a record" if any(cell.epsilon is None for cell in document.cells) else "ε"


def whom_text(group: str) -> str:
    """Name a group as a reader would say it.

    Examples
    --------
    >>> whom_text("all"), whom_text("women")
    ('everyone', 'the group “women”')
    """
    return group_label(group) if group == EVERYBODY else f"the group “{group}”"


def protected_text(document: WhatIfDocument) -> str:
    """Name what is randomised.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> protected_text(WhatIfDocument(
    ...     provenance=Provenance(method="exact", settings={"protect": ["smokes"]}),
    ...     baseline=start, cells=[]))
    'the answer “smokes”'
    """
    protect = document.provenance.settings.get("protect")
    names = [protect] if isinstance(protect, str) else protect
    return answers_text(names if isinstance(names, list) else [])


def typical_cell(
    document: WhatIfDocument, *, group: str | None = None, epsilon: float | None = None
) -> WhatIfCell | None:
    """Find the cell to speak of: the budget nearest to the wanted one, by default to 1.

    Near is meant by ratio: 0.5 and 2 are equally far from 1. A cell that failed its checks is taken
    only if all did.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02) for epsilon in (0.1, 0.9, 10.0)]
    >>> typical_cell(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                             cells=cells)).epsilon
    0.9
    """
    names = group_names(document)
    if not names:
        return None
    wanted = group if group in names else names[0]
    cells = [cell for cell in document.cells if cell.group == wanted]
    target = 1.0 if epsilon is None else epsilon
    passed = [
        cell
        for cell in cells
        if cell.trusted and math.isfinite(budget_distance(own_budget(cell), target))
    ]
    return nearest_cell(passed or cells, target)


def nearest_cell(cells: Sequence[WhatIfCell], epsilon: float = 1.0) -> WhatIfCell:
    """Find the cell whose budget is nearest to one, whether it passed its checks or not.

    Examples
    --------
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02) for epsilon in (0.1, 0.9, 10.0)]
    >>> nearest_cell(cells).epsilon
    0.9
    """
    return min(cells, key=lambda cell: budget_distance(own_budget(cell), epsilon))


def budget_distance(budget: float, target: float) -> float:
    """Say how far two budgets are apart, by ratio: 0.5 and 2 are equally far from 1.

    Examples
    --------
    >>> budget_distance(0.5, 1.0) == budget_distance(2.0, 1.0)
    True
    """
    if budget == target:
        return 0.0
    if budget in (0.0, math.inf) or target in (0.0, math.inf):
        return math.inf
    return abs(math.log(budget / target))


def budget_text(cell: WhatIfCell | RiskCell) -> str:
    """Name the budget of a cell, with that of a whole record where it is another.

    Examples
    --------
    >>> budget_text(WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                        loss_change=0.1))
    'ε = 1 for each column (ε = 2 for a record)'
    """
    if cell.group_epsilons is not None:
        text = group_budgets_text(cell.group_epsilons, " ε = ")
        if cell.record_epsilon is not None and not math.isclose(
            max(cell.group_epsilons.values()), cell.record_epsilon
        ):
            text += f" for each column (up to ε = {epsilon_text(cell.record_epsilon)} for a record)"
        return text
    if cell.epsilon is None:
        return f"ε = {epsilon_text(cell.record_epsilon)} for a record"
    text = f"ε = {epsilon_text(cell.epsilon)}"
    if cell.record_epsilon is not None and not math.isclose(cell.epsilon, cell.record_epsilon):
        text += f" for each column (ε = {epsilon_text(cell.record_epsilon)} for a record)"
    return text


def group_budgets_text(budgets: Mapping[str, float], between: str = " ") -> str:
    """Write the budget of every group that is randomised at its own.

    Examples
    --------
    >>> group_budgets_text({"women": 1.0, "men": 3.0}), group_budgets_text({"women": 1.0}, " ε = ")
    ('women 1, men 3', 'women ε = 1')
    """
    return ", ".join(f"{name}{between}{epsilon_text(own)}" for name, own in budgets.items())


def cell_budget_text(document: WhatIfDocument | RiskDocument, cell: WhatIfCell | RiskCell) -> str:
    """Write the budget of a cell in a table: of every group where they differ, else one number."""
    if isinstance(cell, GroupRiskCell) and cell.epsilon is not None:
        return epsilon_text(cell.epsilon)
    if cell.group_epsilons is not None:
        return group_budgets_text(cell.group_epsilons)
    return epsilon_text(axis_budget(document, cell))


def whole_group(document: WhatIfDocument) -> str:
    """Name the group that a risk is compared with: everybody, or all groups that are randomised at once.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> whole_group(example_document("whatif"))
    'all'
    """
    joined = (cell.group for cell in document.cells if cell.group_epsilons is not None)
    return next(joined, EVERYBODY)


def sentence_case(text: str) -> str:
    """Begin a text with a capital letter.

    Examples
    --------
    >>> sentence_case("at most half")
    'At most half'
    """
    return f"{text[:1].upper()}{text[1:]}"
