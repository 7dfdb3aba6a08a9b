# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a result are called, so that every view of it uses the same words."""

from __future__ import annotations

import math

from epsilens.document.numbers import NumberType
from epsilens.document.risk import RiskCell, RiskDocument
from epsilens.document.value import ValueDocument
from epsilens.document.whatif import WhatIfCell, WhatIfDocument

__all__ = [
    "EVERYBODY",
    "FEWEST_RUNS",
    "at_least_text",
    "at_most_text",
    "baseline_text",
    "bound_text",
    "budgets_text",
    "ceiling_clause",
    "cost_type",
    "delta_text",
    "epsilon_text",
    "face_value_text",
    "group_names",
    "has_few_runs",
    "is_model_release",
    "loss_unit",
    "own_budget",
    "spending_text",
]

EVERYBODY = "all"
"""The package's own name for the group of everybody."""
FEWEST_RUNS = 19
"""With fewer retrainings not even the largest of them is an upper end at 95 %."""


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
    squared = "squared" in str(settings.get("loss", "")) or settings.get("model") == "ridge"
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


def bound_text(epsilon: float) -> str:
    """Round a lower bound on a privacy budget down, to three significant digits.

    Examples
    --------
    >>> bound_text(1.2399), bound_text(0.0), bound_text(15.99)
    ('1.23', '0', '15.9')
    """
    if epsilon <= 0.0 or not math.isfinite(epsilon):
        return "0" if epsilon <= 0.0 else "∞"
    unit = 10.0 ** (2 - math.floor(math.log10(epsilon)))
    return f"{math.floor(epsilon * unit * (1 + 1e-12)) / unit:.3g}"


_LONGEST = 1e9
"""Budgets from here on are written with an exponent: nobody reads three hundred digits."""


def epsilon_text(epsilon: float) -> str:
    """Round a privacy budget to three significant digits; infinity is ∞.

    Examples
    --------
    >>> [epsilon_text(value) for value in (1.0, 0.1, 3.16227, 1234.5, 1e30, float("inf"))]
    ['1', '0.1', '3.16', '1234', '1.0e+30', '∞']
    """
    if math.isinf(epsilon):
        return "∞"
    if 100 <= epsilon < _LONGEST:
        return f"{epsilon:.0f}"
    text = f"{epsilon:.3g}"
    return text if "e" not in text else f"{epsilon:.1e}"


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
    if not isinstance(asked, dict):
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
    'ε = 1 for each column, so ε = 2 for a record'
    """
    record = f"ε = {epsilon_text(cell.record_epsilon)} for a record"
    if cell.epsilon is None:
        each = budgets_text(document)
        return record if each is None else f"{each}: {record}"
    named = f"ε = {epsilon_text(cell.epsilon)}"
    is_same = math.isclose(cell.epsilon, cell.record_epsilon)
    return named if is_same else f"{named} for each column, so {record}"


def delta_text(delta: float) -> str:
    """Write the δ of a privacy claim as it is typed.

    Examples
    --------
    >>> delta_text(1e-6), delta_text(0.05), delta_text(2.5e-12)
    ('1e-6', '0.05', '2.5e-12')
    """
    digits, exponent, power = f"{delta:g}".partition("e")
    return f"{digits}e{int(power)}" if exponent else digits


def at_most_text(share: float) -> str:
    """Write a share that nothing exceeds in per cent: one decimal, rounded up.

    Examples
    --------
    >>> at_most_text(0.8291), at_most_text(0.7)
    ('83.0%', '70.0%')
    """
    # What floating point puts above a round number is not rounded up to the next.
    return f"{math.ceil(1000 * share - 1e-9) / 10:.1f}%"


def baseline_text(cell: RiskCell) -> str | None:
    """Write how often answers are guessed from everybody else's data: the upper confidence bound.

    Examples
    --------
    >>> baseline_text(RiskCell(epsilon=1.0, mechanism="rr", answer_inference_baseline=0.725,
    ...                        answer_inference_baseline_high=0.7385))
    '73.9%'
    """
    high = cell.answer_inference_baseline_high
    before = cell.answer_inference_baseline if high is None else high
    return None if before is None else at_most_text(before)


def ceiling_clause(cell: RiskCell, *, many: bool = False) -> str | None:
    """Say what a person's own randomised answer adds at most, with the baseline it is proven for.

    Parameters
    ----------
    cell : RiskCell
        The attack at one budget.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    str or None
        A clause without its end; None where baseline or ceiling is not known.

    Examples
    --------
    >>> ceiling_clause(RiskCell(epsilon=1.0, mechanism="rr", answer_inference_baseline_high=0.725,
    ...                         answer_inference_ceiling=0.852))
    "from everybody else's data an attacker guesses up to 72.5% of the answers; with the person's own
    randomised answer at most 85.2% (proven given that baseline)"
    """
    before, ceiling = baseline_text(cell), cell.answer_inference_ceiling
    if before is None or ceiling is None:
        return None
    most = at_most_text(ceiling)
    if most == at_most_text(1.0) and cell.advantage is not None:
        whose = (
            "their own randomised answers add"
            if many
            else "the person's own randomised answer adds"
        )
        added = at_most_text(cell.advantage)
        return (
            f"everybody else's data already give the answers away; {whose} at most {added} (proven)"
        )
    if many:
        return (
            f"from everybody else's data an attacker guesses the protected answers, all of them at once, "
            f"of up to {before} of the people; with their own randomised answers of at most {most} (proven given that "
            "baseline)"
        )
    return (
        f"from everybody else's data an attacker guesses up to {before} of the answers; with the "
        f"person's own randomised answer at most {most} (proven given that baseline)"
    )


_MOST_NAMED = 3
"""So many protected columns are named one by one in a sentence."""


def face_value_text(
    document: RiskDocument | WhatIfDocument, cell: RiskCell | WhatIfCell
) -> str | None:
    """Say how often a randomised answer is the true one: e^ε/(e^ε + k − 1) for k possible answers.

    Parameters
    ----------
    document : RiskDocument or WhatIfDocument
        The risk, or the cost.
    cell : RiskCell or WhatIfCell
        One of its budgets.

    Returns
    -------
    str or None
        One sentence; None for another mechanism, or where the number of possible answers is not known.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=2.04, mechanism="rr")
    >>> face_value_text(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...     n_targets=75, protect=["smokes"], n_answers=[2], cells=[cell]), cell)
    'Taking a randomised answer at face value is right 88.5% of the time.'
    """
    settings = document.provenance.settings
    if isinstance(document, WhatIfDocument):
        is_answered = settings.get("mechanism") == "rr"
        names, counts = (
            settings.get(key) if is_answered else [] for key in ("protect", "n_answers")
        )
    else:
        names, counts = document.protect, document.n_answers
    if not isinstance(names, list) or not isinstance(counts, list):
        return None
    if not counts or len(counts) != len(names):
        return None
    asked = settings.get("epsilon")
    budgets = asked if isinstance(asked, dict) else dict.fromkeys(names, cell.epsilon)
    shares = {
        name: 1.0 / (1.0 + (k - 1) * math.exp(-budget))
        for name, k in zip(names, counts, strict=True)
        if isinstance(budget := budgets.get(name), int | float)
    }
    if not shares:
        return None
    said = f"{100 * max(shares.values()):.1f}% of the time"
    if 1 < len(shares) <= _MOST_NAMED:
        said = "; ".join(
            f"{100 * share:.1f}% of the time for “{name}”" for name, share in shares.items()
        )
    elif len(shares) > 1:
        said = f"up to {said}"
    return f"Taking a randomised answer at face value is right {said}."


def at_least_text(share: float) -> str:
    """Write a share that is reached at least in per cent: one decimal, rounded down.

    Examples
    --------
    >>> at_least_text(0.5739), at_least_text(0.7)
    ('57.3%', '70.0%')
    """
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f}%"


def own_budget(cell: WhatIfCell | RiskCell) -> float:
    """Give the budget of a cell: per column, or of a whole record where the columns differ.

    Examples
    --------
    >>> from epsilens.document import RiskCell
    >>> own_budget(RiskCell(epsilon=None, mechanism="rr", record_epsilon=1.5))
    1.5
    """
    budget = cell.record_epsilon if cell.epsilon is None else cell.epsilon
    assert budget is not None  # noqa: S101  # every cell has one of the two
    return budget
