# SPDX-License-Identifier: Apache-2.0
"""What a decision says of its recommendation, for the annexes: rows with kinds, and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from epsilens.document.clauses import baseline_text, is_randomised_response
from epsilens.document.decision import (
    ABOUT_ADDED,
    ADDED,
    RANDOMISED,
    TITLES,
    DecisionDocument,
    MechanismCell,
    MechanismCurve,
    Point,
    joined_points,
    randomising_mechanism,
    risk_at,
)
from epsilens.document.parts import NumberType
from epsilens.document.risk import RiskCell
from epsilens.document.view import Row, attack_rows, cost_rows
from epsilens.document.wording import (
    GAPS,
    NOTHING,
    at_most_text,
    budgets_text,
    cell_budget_text,
    change_text,
    delta_text,
    epsilon_text,
    group_budgets_text,
    loss_decimals,
    own_budget,
    points_text,
    whole_group,
    whom_text,
)

_KINDS_OF_REASONS = (
    "In these sentences advantages are proven. Ceilings are proven given what is guessed from other data, "
    "which is measured. "
    "Mistakes and changes of the loss are {kind}. Limits were set."
)


class Facts:
    """What is known of the recommended mechanism and budget."""

    def __init__(self, document: DecisionDocument, data: str | None) -> None:
        self.document = document
        self.data = data
        self.chosen = document.recommendation
        self.is_recommended = self.chosen.holds and self.chosen.epsilon is not None
        self.is_local = self.chosen.mechanism in RANDOMISED
        self.is_record = self.chosen.protects == "record"
        self.covers_record = self.is_record or self.chosen.mechanism in ADDED
        self.many = len(document.risk.protect) > 1
        self.title = TITLES[self.chosen.mechanism]
        self.is_of_cost = self.chosen.mechanism == randomising_mechanism(document.cost)

    @cached_property
    def point(self) -> Point | None:
        """Cost and risk, where they are of the recommended mechanism."""
        if not self.is_recommended or not self.is_of_cost:
            return None
        points = joined_points(self.document.cost, self.document.risk)
        return next((one for one in points if one.epsilon == self.chosen.epsilon), None)

    @cached_property
    def curve(self) -> MechanismCurve | None:
        """The recommended mechanism, where mechanisms are listed."""
        curves = self.document.mechanisms
        return next((one for one in curves if one.mechanism == self.chosen.mechanism), None)

    @cached_property
    def cell(self) -> MechanismCell | None:
        """What the recommended budget of the mechanism costs and proves."""
        if not self.is_recommended or self.curve is None:
            return None
        return next((one for one in self.curve.cells if one.budget == self.chosen.epsilon), None)

    @cached_property
    def risk(self) -> RiskCell | None:
        """What the randomised answers give away at the recommended budget."""
        if not self.is_recommended or not self.is_local:
            return None
        return risk_at(self.document.risk, self.chosen.epsilon)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this is recommended, or why nothing is, in the words of the decision."""
        return (self.chosen.sentence, *self.chosen.details)

    @property
    def kinds(self) -> str:
        """A sentence on the kinds of the numbers in the reasons."""
        methods = {cell.method for curve in self.document.mechanisms for cell in curve.cells}
        retrained = methods & {"curve", "retrain"}
        kind = "measured" if retrained and methods <= {"retrain"} else "estimated"
        if retrained and kind == "estimated":
            kind = "measured where models were trained again, estimated elsewhere"
        return _KINDS_OF_REASONS.format(kind=kind)

    @property
    def unit(self) -> str:
        """Whose data are protected."""
        if self.covers_record:
            return "One person's record."
        return f"One person's protected answer{'s' if self.many else ''}."

    @property
    def neighbours(self) -> str:
        """Which tables the guarantee is about."""
        if self.chosen.mechanism in ADDED:
            about = "" if self.is_record else " The limits of the decision are about an answer."
            return f"{ABOUT_ADDED}{about}"
        what = "record" if self.is_record else f"protected answer{'s' if self.many else ''}"
        return f"Replace one: neighbouring tables differ in the {what} of one person."

    @property
    def trust(self) -> str:
        """Who must be trusted with the true answers."""
        if self.chosen.trust == "nobody":
            return (
                "Local: answers can be randomised before they are collected, so nobody needs to be "
                "trusted with the true ones."
            )
        return "Central: the curator holds the true answers and must be trusted with them."

    def guarantee(self) -> tuple[Row, ...]:
        """Return what is proven at the recommended budget, and the baseline that it is proven for."""
        chosen = self.chosen
        if not self.is_recommended:
            return ()
        name = "ε of each column" if self.is_local and self.many else "ε"
        text, number = epsilon_text(chosen.epsilon), chosen.epsilon
        if self.point is not None:
            text = cell_budget_text(self.document.cost, self.point.cost)
            each = budgets_text(self.document.cost)
            if self.point.cost.epsilon is None and each is not None:
                text, number = each, None
        elif chosen.group_epsilons is not None:
            text = group_budgets_text(chosen.group_epsilons)
        rows = [Row("epsilon", name, text, number, "proven")]
        whole = self.record_epsilon
        if whole is not None and (whole != number or chosen.group_epsilons is not None):
            name = "ε of a record, at most"
            rows.append(Row("record_epsilon", name, epsilon_text(whole), whole, "proven"))
        rows.append(Row("delta", "δ", delta_text(chosen.delta), chosen.delta, "proven"))
        if chosen.advantage is not None:
            rows.append(
                Row(
                    "advantage",
                    "advantage: of the answers that other data do not give away, at most this share "
                    "becomes guessable",
                    at_most_text(chosen.advantage),
                    chosen.advantage,
                    "proven",
                )
            )
        return (*rows, *self.ceiling())

    @property
    def record_epsilon(self) -> float | None:
        """The ε of a whole record: the sum over the columns, of the least protected group."""
        if self.point is not None:
            return self.point.cost.record_epsilon
        if self.cell is not None and self.cell.record_epsilon is not None:
            return self.cell.record_epsilon
        return self.chosen.epsilon

    def ceiling(self) -> tuple[Row, ...]:
        """Return the largest share that any attacker guesses, and what it is proven for."""
        at = self.risk or next(iter(self.document.risk.cells), None)
        before, most = None if at is None else baseline_text(at), self.chosen.attack_rate_ceiling
        if at is None or before is None or most is None:
            return ()
        high = at.answer_inference_baseline_high
        of = "people whose answers are all" if self.many else "answers"
        return (
            Row(
                "answer_inference_baseline_high",
                f"b, share of the {of} guessed from everybody else's data, up to",
                before,
                at.answer_inference_baseline if high is None else high,
                "measured",
            ),
            Row(
                "attack_rate_ceiling",
                f"share of the {of} guessed by any attacker, at most",
                at_most_text(most),
                most,
                "proven given b",
            ),
        )

    def attacks(self) -> tuple[Row, ...]:
        """Return what the attacks that were tried got, where they were on this mechanism."""
        if self.risk is None or not is_randomised_response(self.document.risk):
            return ()
        keys = ["holder_rate"]
        if self.point is not None:
            keys += ["answer_inference_rate", "answer_inference_range", "answer_inference_unseen"]
            keys += ["asr_max", "asr_max_null_q95", "asr_max_p_value"]
        titles = {
            "answer_inference_range": "reader guesses in 9 in 10 releases",
            "answer_inference_unseen": "guessed of people outside the data",
            "asr_max": "most exposed record recognised as a member",
            "asr_max_null_q95": "recognised by chance alone, at most",
            "asr_max_p_value": "p-value of the most exposed record",
        }
        return _named(_known(attack_rows(self.document.risk, self.risk), keys), titles)

    def costs(self) -> tuple[Row, ...]:
        """Return what the recommended budget costs."""
        keys = ("loss_change", "loss_change_range", "accuracy_change", "auc_change")
        titles = {
            "loss_change_range": "change of test loss in 9 in 10 runs",
            "accuracy_change": "change of accuracy (percentage points)",
            "auc_change": "change of the area under the ROC curve",
        }
        if self.point is not None:
            return _named(_known(cost_rows(self.document.cost, self.point.cost), keys), titles)
        if self.cell is None:
            return ()
        return _named(_known(self._mechanism_costs(self.cell), keys), titles)

    def _mechanism_costs(self, cell: MechanismCell) -> Iterable[Row]:
        """Write the cost of a mechanism that is not the one of the what-if."""
        kind: NumberType = "measured" if cell.method == "retrain" else "estimated"
        decimals = loss_decimals(self.document.cost.baseline.loss)

        def loss(value: float | None) -> str:
            return change_text(value, decimals=decimals)

        rows = [
            Row(
                "loss_change",
                "change of test loss (nats)",
                loss(cell.loss_change),
                cell.loss_change,
                kind,
                "nats",
            ),
            Row(
                "accuracy_change",
                "",
                points_text(cell.accuracy_change),
                cell.accuracy_change,
                kind,
                "percentage points",
            ),
            Row("auc_change", "", change_text(cell.auc_change, decimals=3), cell.auc_change, kind),
        ]
        low, high = cell.loss_change_low, cell.loss_change_high
        if low is not None and high is not None:
            text = f"{loss(low)} to {loss(high)}"
            rows.insert(1, Row("loss_change_range", "", text, None, kind, "nats"))
        return rows

    def gaps(self) -> tuple[Row, ...]:
        """Return how far each group would move from everybody else at the recommended budget."""
        if self.point is None:
            return ()
        cost, rows = self.document.cost, []
        for cell in cost.cells:
            if cell.group == whole_group(cost) or own_budget(cell) != self.chosen.epsilon:
                continue
            for row in _known(cost_rows(cost, cell), [f"{gap}_change" for gap in GAPS]):
                title = f"{row.title}, if only {whom_text(cell.group)} is randomised"
                rows.append(replace(row, title=title))
        return tuple(rows)

    @property
    def audit(self) -> str | None:
        """What our own attacks on the mechanism found."""
        return None if self.curve is None or self.curve.audit is None else self.curve.audit.sentence


def _known(rows: Iterable[Row], keys: Iterable[str]) -> list[Row]:
    """Return the rows with these names that have a number, in the order of the names."""
    found = {row.key: row for row in rows}
    return [found[key] for key in keys if key in found and found[key].text != NOTHING]


def _named(rows: Iterable[Row], titles: Mapping[str, str]) -> tuple[Row, ...]:
    """Return rows with titles that stand alone."""
    return tuple(replace(row, title=titles.get(row.key, row.title)) for row in rows)
