# SPDX-License-Identifier: Apache-2.0
"""Words for the attack: what is measured, what is proven, and what an answer is worth at face value."""

from __future__ import annotations

import math
from typing import Literal

from epsilens.document.risk import RiskCell, RiskDocument
from epsilens.document.whatif import OutcomeInterval, WhatIfCell, WhatIfDocument, cell_key
from epsilens.document.wording import (
    EVERYBODY,
    OUTCOME_NAMES,
    PERCENT_OUTCOMES,
    Outcome,
    Ranged,
    at_most_text,
    axis_budget,
    change_text,
    epsilon_text,
    group_label,
    group_names,
    loss_decimals,
    loss_unit,
    points_text,
)

PROVES = 0.8
"""Largest advantage at which the proof is said to say something."""


HELD = "The collector, or a reader of the randomised table, can guess better than from the model."
"""Who else attacks where answers are randomised."""
MET_BY_MEASURE = "The limit on the attack is met only by the attack that was tried (measured)."
"""Instead of a proof, where measured attacks may count."""
NOTHING_HIDDEN = "100.0%"
"""A ceiling that shows so leaves nothing that is proven to stay hidden."""


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


def guessed_before_text(before: str, *, several: bool = False) -> str:
    """Say what an attacker guesses from the rest of the data, with b.

    Examples
    --------
    >>> guessed_before_text("74.4%"), guessed_before_text("6.4%", several=True)
    ('up to b = 74.4% of the answers', 'all protected answers of up to b = 6.4% of the people')
    """
    if several:
        return f"all protected answers of up to b = {before} of the people"
    return f"up to b = {before} of the answers"


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
            f"of up to {before} of the people. With their own randomised answers it is at most {most} (proven given "
            "that baseline)"
        )
    return (
        f"from everybody else's data an attacker guesses up to {before} of the answers; with the "
        f"person's own randomised answer at most {most} (proven given that baseline)"
    )


def gain_text(advantage: float, *, several: bool = False) -> str:
    """Say what an attacker gains at most, without the kind of the number.

    Parameters
    ----------
    advantage : float
    several : bool
        Whether a person has several protected answers, which are guessed all at once.

    Examples
    --------
    >>> gain_text(0.09)
    'of the answers that the rest of the data do not give away, at most 9.0% become guessable'
    >>> gain_text(0.9998)
    'nothing is proven to stay hidden'
    """
    if at_most_text(advantage) == NOTHING_HIDDEN:
        return "nothing is proven to stay hidden"
    return (
        "of the answers that the rest of the data do not give away, at most "
        f"{at_most_text(advantage)} become guessable{' all at once' if several else ''}"
    )


def release_text(*, mistakes: float | None = None, loss: float | None = None) -> str:
    """Say what one release may cost at most: in mistakes in 1,000 where they are given, else in loss.

    Examples
    --------
    >>> release_text(mistakes=2.1), release_text(mistakes=-0.5), release_text(loss=0.0123)
    ('may make up to 3 more mistakes in 1,000', 'makes no more mistakes than before',
    'may change the test loss by up to +0.0123')
    """
    if mistakes is not None and math.isfinite(mistakes):
        # Without what floats add to a whole number.
        count = math.ceil(round(mistakes, 9))
        if count <= 0:
            return "makes no more mistakes than before"
        return f"may make up to {count} more {'mistake' if count == 1 else 'mistakes'} in 1,000"
    if loss is not None and math.isfinite(loss):
        return f"may change the test loss by up to {change_text(loss)}"
    return "has a cost that is not known"


def mistakes_text(count: int) -> str:
    """Say how many more mistakes a model makes, without the kind of the number.

    Examples
    --------
    >>> mistakes_text(3), mistakes_text(-1), mistakes_text(0)
    ('about 3 more mistakes in 1,000', 'about 1 fewer mistake in 1,000', 'about as many mistakes as before')
    """
    if count == 0:
        return "about as many mistakes as before"
    way, noun = "more" if count > 0 else "fewer", "mistake" if abs(count) == 1 else "mistakes"
    return f"about {abs(count)} {way} {noun} in 1,000"


def loss_moves_text(change: float) -> str:
    """Say how the test loss changes, without the kind of the number.

    Examples
    --------
    >>> loss_moves_text(0.02)
    'the test loss changes by +0.0200'
    """
    return f"the test loss changes by {change_text(change)}"


COST_UNKNOWN = "What it costs is not known: the estimate failed its own check"


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
    >>> from epsilens.document import example_document
    >>> cell = RiskCell(epsilon=2.04, mechanism="rr")
    >>> face_value_text(example_document("risk", protect=["smokes"], n_answers=[2], cells=[cell]), cell)
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


def is_randomised_response(document: RiskDocument) -> bool:
    """Say whether answers are randomised; otherwise whole records are protected by noisy training.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> is_randomised_response(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2,
    ...     n_targets=9, cells=[RiskCell(epsilon=1.0, mechanism="dpsgd", delta=1e-5)]))
    False
    """
    return all(cell.mechanism == "rr" for cell in document.cells)


def confidence_text(document: RiskDocument) -> str:
    """Give the confidence of the bounds in per cent.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> confidence_text(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2,
    ...                              n_targets=9, cells=[]))
    '95 %'
    """
    stated = document.provenance.settings.get("confidence")
    return f"{100 * (stated if isinstance(stated, float) else 0.95):.4g} %"


def models_text(document: RiskDocument) -> str:
    """Say what the attacks were measured on.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> models_text(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                          n_targets=9, cells=[]))
    'measured on 256 models, each trained on a random half of the records'
    """
    count = f"{document.n_models:,}"
    return f"measured on {count} models, each trained on a random half of the records"


def ceiling_is_open(risk: RiskCell) -> bool:
    """Say whether nothing is proven to stay hidden: the ceiling rounds to everything.

    It may do so because everybody else's data give the answers away already; then the advantage is small,
    and the proof limits what is added.

    Examples
    --------
    >>> ceiling_is_open(RiskCell(epsilon=9.0, mechanism="rr", answer_inference_ceiling=0.9998))
    True
    """
    ceiling = risk.answer_inference_ceiling
    is_added = risk.advantage is not None and risk.advantage <= PROVES
    return ceiling is not None and at_most_text(ceiling) == NOTHING_HIDDEN and not is_added


def proof_text(risk: RiskCell, *, many: bool = False) -> str | None:
    """Say what is proven of guessing, never without its baseline; None where nothing is known.

    Parameters
    ----------
    risk : RiskCell
        The attack at one budget.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    str or None
        A clause without its end.

    Examples
    --------
    >>> proof_text(RiskCell(epsilon=12.0, mechanism="rr", answer_inference_baseline=0.725,
    ...                     answer_inference_ceiling=0.99999))
    'nothing is proven to stay hidden (the ceiling is 100.0%)'
    """
    clause = ceiling_clause(risk, many=many)
    if clause is not None and ceiling_is_open(risk):
        return f"nothing is proven to stay hidden (the ceiling is {NOTHING_HIDDEN})"
    return clause


def range_text(
    cell: RiskCell, rate: Literal["answer_inference", "holder_rate"] = "answer_inference"
) -> str | None:
    """Give the range of the guessed share that nine of ten releases show, or None without one.

    Examples
    --------
    >>> range_text(RiskCell(epsilon=1.0, mechanism="rr", answer_inference_low=0.71,
    ...                     answer_inference_high=0.732))
    '71.0–73.2%'
    """
    low, high = getattr(cell, f"{rate}_low"), getattr(cell, f"{rate}_high")
    if low is None or high is None:
        return None
    return f"{100 * low:.1f}–{100 * high:.1f}%"


def ceiling_note(document: RiskDocument) -> str:
    """Say what the ceiling of an answer is a ceiling of.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> ceiling_note(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2, n_targets=9,
    ...     cells=[RiskCell(epsilon=1.0, mechanism="rr", answer_inference_baseline_high=0.724)]))
    "Ceiling (proven given b): from everybody else's data an attacker guesses up to b = 72.4% of the
    answers. With the person's own randomised answer it is at most this share."
    """
    before = baseline_text(document.cells[0]) if document.cells else None
    b = "b" if before is None else f"b = {before}"
    if len(document.protect) > 1:
        return (
            "Ceiling (proven given b). From everybody else's data an attacker guesses the protected answers, "
            f"all of them at once, of up to {b} of the people. With their own randomised answers it is at most "
            "this share."
        )
    return (
        f"Ceiling (proven given b): from everybody else's data an attacker guesses up to {b} of the "
        "answers. With the person's own randomised answer it is at most this share."
    )


# --- Words for the cost: changes with their intervals, and why a budget has no answer ---


MORE_MISTAKES = "more mistakes in 1,000"


def change_title(document: WhatIfDocument, outcome: Outcome) -> str:
    """Name the vertical axis, with its unit.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> change_title(document, "loss")
    'change of test loss (nats)'
    """
    if outcome == "mistakes":
        return MORE_MISTAKES
    title = f"change of {OUTCOME_NAMES[outcome]}"
    if outcome == "auc":
        return title
    unit = "percentage points" if outcome in PERCENT_OUTCOMES else loss_unit(document)
    return f"{title} ({unit})"


def failed_check(method: str) -> str:
    """Say why an estimate is not shown: a sentence without its end.

    Examples
    --------
    >>> failed_check("influence")
    'the first-order estimate failed its checks'
    """
    if method == "exact":
        return "one run may move the predictions too far for this method"
    name = {"influence": "first-order ", "newton": "Newton "}.get(method, "")
    return f"the {name}estimate failed its checks"


def unanswered_reason(method: str) -> str:
    """Say why an estimate is not shown, and what to do instead.

    Examples
    --------
    >>> unanswered_reason("exact")
    'one run may move the predictions too far for this method. The method `retrain` measures it.'
    """
    advice = "`retrain` measures it" if method == "exact" else "`exact` is more accurate"
    return f"{failed_check(method)}. The method {advice}."


def unanswered_text(document: WhatIfDocument) -> str | None:
    """Say at which budgets no estimate passed its checks, why, and what to do; None if all did.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02, trusted=epsilon > 0.3) for epsilon in (0.1, 0.3, 1.0)]
    >>> unanswered_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                cells=cells))
    'No estimate at ε ≤ 0.3: one run may move the predictions too far for this method. The method
    `retrain` measures it.'
    """
    failed = [cell for cell in document.cells if not cell.trusted]
    if not failed:
        return None
    places = {name: _unanswered_place(document, name) for name in group_names(document)}
    if len(set(places.values())) == 1:
        where = next(iter(places.values()))
    else:
        where = " and ".join(
            f"{place} for {group_label(name) if name == EVERYBODY else f'the group “{name}”'}"
            for name, place in places.items()
            if place is not None
        )
    return f"No estimate {where}: {unanswered_reason(failed[0].method)}"


def _unanswered_place(document: WhatIfDocument, group: str) -> str | None:
    """Name the budgets at which a group has no estimate; None if it has one everywhere."""
    cells = [cell for cell in document.cells if cell.group == group]
    cells.sort(key=lambda cell: axis_budget(document, cell))
    passed = [cell.trusted for cell in cells]
    n_failed = len(passed) - sum(passed)
    if not n_failed:
        return None
    budgets = [epsilon_text(axis_budget(document, cell)) for cell in cells]
    if n_failed == len(cells):
        return f"at ε = {budgets[0]}" if len(cells) == 1 else "at any ε of the grid"
    if not any(passed[:n_failed]):
        return f"at ε ≤ {budgets[n_failed - 1]}"
    if not any(passed[-n_failed:]):
        return f"at ε ≥ {budgets[-n_failed]}"
    return f"at {n_failed} of {len(cells)} ε"


def outcome_interval(
    document: WhatIfDocument,
    cell: WhatIfCell,
    outcome: Literal["accuracy", "auc", "loss_gap", "accuracy_gap"],
) -> OutcomeInterval | None:
    """Find the range that nine of ten runs show, or None without one.

    Examples
    --------
    >>> from epsilens.document import (Baseline, OutcomeInterval, Provenance, WhatIfCell,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> interval = OutcomeInterval(group="all", epsilon=1.0, outcome="auc", low=-0.03, high=0.001)
    >>> outcome_interval(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                 cells=[cell], intervals=[interval]), cell, "auc").low
    -0.03
    """
    for item in document.intervals:
        if item.outcome == outcome and cell_key(item) == cell_key(cell):
            return None if item.low is None or item.high is None else item
    return None


def interval_text(document: WhatIfDocument, cell: WhatIfCell) -> str | None:
    """Give the range of the loss change that nine of ten runs show, or None without one.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_change_low=-0.001, loss_change_high=0.04)
    >>> interval_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell)
    '−0.0010 to +0.0400'
    """
    if cell.loss_change_low is None or cell.loss_change_high is None:
        return None
    decimals = loss_decimals(document.baseline.loss)
    low = change_text(cell.loss_change_low, decimals=decimals)
    high = change_text(cell.loss_change_high, decimals=decimals)
    return f"{low} to {high}"


def outcome_text(
    document: WhatIfDocument, cell: WhatIfCell, outcome: Ranged, *, is_mean: bool = False
) -> str | None:
    """Give the change of accuracy or of a gap: the range of nine runs in ten where it is known.

    Parameters
    ----------
    document : WhatIfDocument
    cell : WhatIfCell
        One of its cells.
    outcome : {"accuracy", "loss_gap", "accuracy_gap"}
    is_mean : bool
        Whether the mean over runs is wanted even where the range is known.

    Returns
    -------
    str or None
        None where the change has no meaning.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, accuracy_change=-0.0134)
    >>> outcome_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                             cells=[cell]), cell, "accuracy")
    '−1.3'
    """
    change: float | None = getattr(cell, f"{outcome}_change")
    if change is None:
        return None
    interval = None if is_mean else outcome_interval(document, cell, outcome)
    ends = [change] if interval is None else [interval.low, interval.high]
    if outcome != "loss_gap":
        return " to ".join(map(points_text, ends))
    decimals = loss_decimals(document.baseline.loss)
    return " to ".join(change_text(end, decimals=decimals) for end in ends)
