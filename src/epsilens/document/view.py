# SPDX-License-Identifier: Apache-2.0
"""What every surface shows of a document: rows with a title, a number, its kind, its text and its unit.

Terminal, notebook, report and page draw the same view, so they show the same numbers with the same words
and the same rounding. A cost that failed its check has no number in any view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from epsilens.document.clauses import (
    COST_UNKNOWN,
    NOTHING_HIDDEN,
    PROVES,
    ceiling_note,
    change_title,
    confidence_text,
    gain_text,
    interval_text,
    is_randomised_response,
    loss_moves_text,
    mistakes_text,
    models_text,
    outcome_interval,
    outcome_text,
    range_text,
    unanswered_text,
)
from epsilens.document.decision import (
    RANDOMISED,
    TITLES,
    DecisionDocument,
    MechanismCell,
    MechanismCurve,
    Recommendation,
    answer_title,
    joined_points,
)
from epsilens.document.kinds import Document
from epsilens.document.parts import NumberType
from epsilens.document.risk import GroupRiskCell, RiskCell, RiskDocument
from epsilens.document.sentences import risk_sentences, whatif_sentence
from epsilens.document.whatif import WhatIfCell, WhatIfDocument
from epsilens.document.wording import (
    ATTACKERS,
    GAP_MEANINGS,
    GAPS,
    NO_PRIVACY,
    NOTHING,
    OUTCOME_NAMES,
    answers_text,
    at_least_text,
    at_most_text,
    axis_budget,
    bound_text,
    budget_symbol,
    cell_budget_text,
    change_text,
    cost_type,
    delta_text,
    epsilon_text,
    group_budgets_text,
    group_label,
    group_names,
    loss_decimals,
    loss_unit,
    p_value_text,
    percent_text,
    points_text,
    sentence_case,
    typical_cell,
)

COST_TITLE = "What a privacy budget costs"
_ALWAYS = ("loss_change",)
"""What a table is about stays in it, even where nothing of it could be computed."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Row:
    """One number as it is shown.

    Attributes
    ----------
    key : str
        Name of the number, as the document calls it.
    title : str
        Name of the number for a reader.
    text : str
        The number as it is written, rounded once; a dash where it is not known.
    number : float or None
        The number itself; None for a text or a range.
    kind : {"proven", "proven given b", "measured", "estimated"} or None
    unit : str

    Examples
    --------
    >>> Row("accuracy", "accuracy", "72.4%", 0.7236, "measured").is_number
    True
    """

    key: str
    title: str
    text: str
    number: float | None = None
    kind: NumberType | None = None
    unit: str = ""
    is_number: bool = True
    """Whether the text is a number or a range, which stands to the right in a table."""

    @property
    def sentence(self) -> str:
        """The text of a fact as a sentence, with its kind as a mark.

        Examples
        --------
        >>> Row("cost", "What it costs", "About 3 more mistakes in 1,000", 3.0, "estimated").sentence
        'About 3 more mistakes in 1,000 (estimated).'
        """
        return f"{self.text}." if self.kind is None else f"{self.text} ({self.kind})."


@dataclass(frozen=True)
class Line:
    """One line of a table.

    Attributes
    ----------
    rows : tuple of Row
        The cells of the line, with the same keys in every line of a table.
    group : str or None
        The group that the line is about, where there are several.
    is_faint : bool
        Whether the line has no number to rely on.
    is_chosen : bool
        Whether the line is the recommended one.
    """

    rows: tuple[Row, ...]
    group: str | None = None
    is_faint: bool = False
    is_chosen: bool = False

    def __getitem__(self, key: str) -> Row:
        return next(row for row in self.rows if row.key == key)


@dataclass(frozen=True)
class Table:
    """Lines of rows, a title, and what is to be known of them."""

    title: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def titles(self) -> list[str]:
        """The headings of the columns."""
        return [row.title for row in self.lines[0].rows] if self.lines else []

    @property
    def keys(self) -> list[str]:
        """The names of the numbers in the columns."""
        return [row.key for row in self.lines[0].rows] if self.lines else []

    def select(self, keys: Sequence[str] | Mapping[str, str]) -> Table:
        """Return the table with some of its columns, those without any text left out.

        Parameters
        ----------
        keys : sequence of str, or mapping from key to heading
            Columns in the wanted order. An empty heading leaves the column its own.

        Returns
        -------
        Table
        """
        named = keys if isinstance(keys, Mapping) else {}
        known = [
            key
            for key in keys
            if key in self.keys
            and (key in _ALWAYS or any(line[key].text != NOTHING for line in self.lines))
        ]
        lines = tuple(
            replace(
                line,
                rows=tuple(
                    replace(line[key], title=named.get(key) or line[key].title) for key in known
                ),
            )
            for line in self.lines
        )
        return replace(self, lines=lines)

    def thinned(self, max_rows: int, where: str) -> Table:
        """Return a few lines of each group, always with both ends and the recommended one.

        Parameters
        ----------
        max_rows : int
            Number of lines at most, but two for each group.
        where : str
            What has all lines, with its verb; named in a note where lines are left out.
        """
        groups = list(dict.fromkeys(line.group for line in self.lines))
        shown = []
        for group in groups:
            mine = [line for line in self.lines if line.group == group]
            few = thinned(range(len(mine)), max(2, max_rows // len(groups)))
            shown += [line for n, line in enumerate(mine) if n in few or line.is_chosen]
        if len(shown) == len(self.lines):
            return self
        count = f"{len(self.lines):,}"
        note = f"{len(shown)} of {count} rows shown; {where} them all."
        return replace(self, lines=tuple(shown), notes=(*self.notes, note))


@dataclass(frozen=True)
class View:
    """What a surface shows of a document.

    Attributes
    ----------
    title : str
    rows : tuple of Row
        The numbers at the budget that the sentences are about.
    sentences : tuple of str
        The answer in words.
    notes : tuple of str
        What is to be known before relying on the numbers.
    tables : tuple of Table
    facts : tuple of Row
        Of a decision: what it costs, what an attacker gains at most, and what is not protected. Each row has
        one sentence. Empty if nothing is recommended.
    runner_up : str or None
        Of a decision: the second-best answer, and why it is not the recommended one.
    """

    title: str
    rows: tuple[Row, ...] = ()
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: tuple[Row, ...] = ()
    runner_up: str | None = None

    @property
    def sentence(self) -> str:
        """The answer in words, on one line."""
        return " ".join(self.sentences)


def view(document: Document) -> View:
    """Return what every surface shows of a document.

    Parameters
    ----------
    document : Document
        A document of any kind.

    Returns
    -------
    View

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0)]
    >>> shown = view(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                             cells=cells))
    >>> [(row.title, row.text, row.kind) for row in shown.rows[:2]]
    [('ε', '1', 'proven'), ('change of test loss (nats)', '+0.0200', 'estimated')]
    """
    from epsilens.document import federation_view, other_views

    views: dict[str, Callable[[Any], View]] = {
        "whatif": whatif_view,
        "risk": risk_view,
        "decision": decision_view,
        "inspect": other_views.inspect_view,
        "release": other_views.release_view,
        "audit": other_views.audit_view,
        "mask": other_views.mask_view,
        "value": other_views.value_view,
        "federation": federation_view.federation_view,
        "training": other_views.training_view,
    }
    return views[document.kind](document)


def text_row(key: str, title: str, text: str) -> Row:
    """Return a row that holds words, which stand to the left in a table."""
    return Row(key, title, text, is_number=False)


def field_row(
    part: object,
    key: str,
    title: str,
    write: Callable[[Any], str],
    kind: NumberType | None = None,
    unit: str = "",
) -> Row:
    """Return the row of a number that a part of a document has under a name.

    Examples
    --------
    >>> from epsilens.document import RiskCell
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.61)
    >>> field_row(cell, "asr_max", "most exposed", percent_text).text
    '61.0%'
    """
    number = getattr(part, key)
    return Row(key, title, write(number), number, kind, unit)


def thinned(items: Sequence[_T], most: int) -> list[_T]:
    """Pick so many of a sequence at most, evenly spaced and always with both ends.

    Examples
    --------
    >>> thinned(range(9), 3)
    [0, 4, 8]
    """
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(number * step)] for number in range(most)]


def _budget_head(cell: WhatIfCell | RiskCell, document: WhatIfDocument | RiskDocument) -> str:
    """Return what the column of budgets is called."""
    return "ε" if cell.group_epsilons is not None else budget_symbol(document)


def cost_rows(document: WhatIfDocument, cell: WhatIfCell) -> tuple[Row, ...]:
    """Write what one budget would cost one group.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021, loss_change_high=0.03)
    >>> rows = cost_rows(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                 cells=[cell]), cell)
    >>> [row.text for row in rows if row.key in ("loss_change", "loss_change_high")]
    ['+0.0210', '+0.0300']
    """
    kind, unit, points = cost_type(document, cell), loss_unit(document), "percentage points"
    loss = partial(change_text, decimals=loss_decimals(document.baseline.loss))
    auc = partial(change_text, decimals=3)
    proven: NumberType | None = "proven" if document.is_about_privacy else None
    budget = axis_budget(document, cell)
    worst = outcome_interval(document, cell, "accuracy")
    low, runs = cell.accuracy_change if worst is None else worst.low, interval_text(document, cell)
    accuracy = outcome_text(document, cell, "accuracy") or NOTHING
    rows = [
        Row(
            "epsilon",
            _budget_head(cell, document),
            cell_budget_text(document, cell),
            budget,
            proven,
        ),
        field_row(cell, "loss_change", change_title(document, "loss"), loss, kind, unit),
        Row("loss_change_range", "9 in 10 runs", runs or NOTHING, None, kind, unit),
        field_row(cell, "loss_change_high", "up to", loss, kind, unit),
        Row("accuracy_change", "accuracy (points)", accuracy, cell.accuracy_change, kind, points),
        Row("accuracy_change_low", "accuracy down to", points_text(low), low, kind, points),
        field_row(cell, "auc_change", "AUC", auc, kind),
    ]
    for gap in GAPS:
        of = "points" if gap == "accuracy_gap" else unit
        text = outcome_text(document, cell, gap) or NOTHING
        number = getattr(cell, f"{gap}_change")
        rows.append(Row(f"{gap}_change", f"{OUTCOME_NAMES[gap]} ({of})", text, number, kind, of))
    title = "trusted (head only)" if document.is_about_head else "trusted"
    return (*rows, text_row("trusted", title, "yes" if cell.trusted else "no"))


def attack_rows(document: RiskDocument, cell: RiskCell) -> tuple[Row, ...]:
    """Write what an attacker gets at one budget, the guessed answer first.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.61, asr_max_p_value=0.2)
    >>> rows = attack_rows(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                               n_targets=9, cells=[cell]), cell)
    >>> [(row.title, row.text) for row in rows if row.number]
    [('ε', '1'), ('most exposed', '61.0%'), ('p', '0.20')]
    """
    budget, most, row = axis_budget(document, cell), at_most_text, partial(field_row, cell)
    text = cell_budget_text(document, cell)
    rows = [Row("epsilon", _budget_head(cell, document), text, budget, "proven")]
    recognised = [
        row("asr_max", "most exposed", percent_text, "measured"),
        row("asr_max_null_q95", "chance reaches", percent_text, "proven"),
        row("asr_max_p_value", "p", p_value_text, "measured"),
    ]
    if is_randomised_response(document):
        at_once = ", all at once" if len(document.protect) > 1 else ""
        runs = range_text(cell) or NOTHING
        rows += [
            row("holder_rate", f"holder guesses{at_once}", percent_text, "measured"),
            row("answer_inference_rate", f"reader guesses{at_once}", percent_text, "measured"),
            Row("answer_inference_range", "9 in 10 releases", runs, kind="measured"),
            row("answer_inference_high", "up to", most, "measured"),
            row("answer_inference_unseen", "outside the data", percent_text, "measured"),
            row("answer_inference_ceiling", "ceiling (proven)", most, "proven given b"),
            row("tpr_ceiling_at_fpr_0_01", "found at 1% (proven)", most, "proven"),
            *recognised,
        ]
    else:
        rows += [
            *recognised,
            row("asr_ceiling", "ceiling (proven)", most, "proven"),
            row("tpr_at_fpr_0_01", "found at 1% false alarms", percent_text, "measured"),
            row("tpr_ceiling_at_fpr_0_01", "at most\n(proven)", most, "proven"),
            row("epsilon_lower_bound", "ε at least (proven)", bound_text, "proven"),
            row("accuracy", "accuracy", percent_text, "measured"),
        ]
    return tuple(rows)


def whatif_view(document: WhatIfDocument) -> View:
    """Return the view of a what-if: its costs, and how far each group moves from everybody else."""
    document = document.answered()
    several = len(group_names(document)) > 1
    lines = tuple(
        Line(
            cost_rows(document, cell),
            group=group_label(cell.group) if several else None,
            is_faint=not cell.trusted,
        )
        for cell in document.cells
    )
    kind, notes = cost_type(document), []
    if not document.is_about_privacy:
        notes.append(NO_PRIVACY)
    if (unanswered := unanswered_text(document)) is not None:
        notes.append(unanswered)
    tables = [Table(f"{COST_TITLE} ({kind})", lines)]
    gaps = [gap for gap in GAPS if any(line[f"{gap}_change"].number is not None for line in lines)]
    if gaps:
        moved = [
            replace(line, group=group_label(cell.group), is_faint=False)
            for line, cell in zip(lines, document.cells, strict=True)
            if any(line[f"{gap}_change"].number is not None for gap in gaps)
        ]
        has_range = any(
            outcome_interval(document, cell, gap) for cell in document.cells for gap in gaps
        )
        said = ["A range holds 9 in 10 runs."] if has_range else []
        title = f"How far a group moves from everybody else ({kind})"
        tables.append(Table(title, tuple(moved), (*said, *(GAP_MEANINGS[gap] for gap in gaps))))
    cell = typical_cell(document)
    return View(
        COST_TITLE,
        rows=() if cell is None else cost_rows(document, cell),
        sentences=(whatif_sentence(document),),
        notes=tuple(notes),
        tables=tuple(tables),
    )


def risk_view(document: RiskDocument) -> View:
    """Return the view of a risk: what an attacker gets at each budget."""
    title = _risk_title(document)
    every = Table(title, tuple(Line(attack_rows(document, cell)) for cell in document.cells))
    shown = every.select([key for key in every.keys if key != "answer_inference_high"])
    table = replace(shown, notes=tuple(_risk_notes(document, shown.keys)))
    rows = every.lines[0].rows if every.lines else ()
    return View(
        title,
        rows=rows,
        sentences=tuple(risk_sentences(document)),
        notes=table.notes,
        tables=(table, *_group_tables(document)),
    )


def _group_tables(document: RiskDocument) -> list[Table]:
    """Return the tables of groups: how often their answers are guessed, and members recognised."""
    tables = []
    if any(cell.answer_inference_ceiling is not None for cell in document.group_cells):
        lines = tuple(
            Line(attack_rows(document, cell), group=group_label(cell.group))
            for cell in document.group_cells
        )
        own = " and its own ε." if document.is_together else "."
        said = (
            f"Everybody is randomised. The ceiling of a group is proven given its own baseline{own}"
        )
        title = "How often an attacker guesses the answers of each group"
        tables.append(Table(title, lines, (said,)).select(_GUESSED))
    attacked = [cell for cell in document.group_cells if cell.n_attacked is not None]
    if attacked:
        sure = confidence_text(document)
        tables.append(
            Table(
                "How often an attacker recognises members in each group",
                tuple(
                    Line(_group_rows(document, cell), group=group_label(cell.group))
                    for cell in attacked
                ),
                (
                    "Mean rate: the success rate over the group's records; guessing reaches 50%. More than others: the "
                    f"difference to all other records. At least, and the range: {sure} confidence for all groups at once.",
                    f"{NOTHING}: too few records. 30 are needed for a mean, 100 for those found.",
                ),
            )
        )
    return tables


def _group_rows(document: RiskDocument, cell: GroupRiskCell) -> tuple[Row, ...]:
    """Write how often members are recognised in a group."""
    row = partial(field_row, cell)
    low, high = cell.tpr_at_fpr_0_01_low, cell.tpr_at_fpr_0_01_high
    ends = NOTHING if low is None or high is None else f"{100 * low:.1f}–{percent_text(high)}"
    points = partial(points_text, signed=True)
    return (
        Row(
            "epsilon",
            _budget_head(cell, document),
            cell_budget_text(document, cell),
            axis_budget(document, cell),
            "proven",
        ),
        row("n_attacked", "records", "{:,}".format),
        row("asr_mean", "mean rate", percent_text, "measured"),
        row("asr_mean_lower_bound", "at least", at_least_text, "measured"),
        row("asr_mean_excess", "more than others (points)", points, "measured"),
        row("asr_mean_excess_lower_bound", "by at least", points, "measured"),
        row("tpr_at_fpr_0_01", "found at 1% false alarms", percent_text, "measured"),
        Row("tpr_at_fpr_0_01_range", "range", ends, kind="measured"),
    )


_GUESSED = (
    "epsilon",
    "holder_rate",
    "answer_inference_rate",
    "answer_inference_range",
    "answer_inference_unseen",
    "answer_inference_ceiling",
)
"""Numbers about guessed answers, which groups have too."""


def decision_view(document: DecisionDocument) -> View:
    """Return the view of a decision: what each budget costs beside what an attacker gets."""
    document = document.answered()
    cost, risk, chosen = document.cost, document.risk, document.randomised
    lines = []
    for point in joined_points(cost, risk):
        attacked = attack_rows(risk, point.risk)[1:]
        lines.append(
            Line(
                (*cost_rows(cost, point.cost), *attacked),
                is_chosen=point.epsilon == chosen.epsilon,
            )
        )
    title = f"What randomising {answers_text(risk.protect)} costs, and what an attacker gets"
    notes = (
        f"Loss and accuracy (points): change on the test rows, {cost_type(cost)}; up to, down to: "
        "19 in 20 releases.",
        *([ATTACKERS] if any(cell.holder_rate is not None for cell in risk.cells) else []),
        f"Reader guesses: answers of people in the data, {models_text(risk)}. Outside the data: of people "
        "the models were not trained on.",
        ceiling_note(risk),
    )
    here = next((line.rows for line in lines if line.is_chosen), ())
    face_value, answer = document.face_value(), document.recommendation
    return View(
        title,
        rows=here,
        sentences=(answer.sentence, *answer.details, *([] if face_value is None else [face_value])),
        notes=notes,
        tables=(
            Table(title, tuple(lines), notes),
            *([mechanism_table(document, most=_MOST_BUDGETS)] if document.is_comparison else []),
        ),
        facts=decision_facts(document),
        runner_up=_runner_up(document),
    )


def decision_facts(document: DecisionDocument) -> tuple[Row, ...]:
    """Return what the recommendation costs, what an attacker gains at most, and what is not protected.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> for fact in decision_facts(example_document("decision")):
    ...     print(fact.sentence)
    The test loss changes by +0.0400 (estimated).
    Of the answers that the rest of the data do not give away, at most 46.2% become guessable (proven).
    Who was in the data is not hidden, and other columns stay as they are.
    """
    chosen, cell = document.recommendation, document.chosen_cell()
    # Without enough retrainings the sentence names no ε, so nothing can be said of one.
    is_nothing = chosen.mechanism in RANDOMISED and not chosen.holds
    if cell is None or is_nothing:
        return ()
    return cell_facts(document, chosen, cell)


def cell_facts(
    document: DecisionDocument, curve: Recommendation | MechanismCurve, cell: MechanismCell
) -> tuple[Row, ...]:
    """Return the same three facts of any budget of any mechanism.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> document = example_document("decision")
    >>> curve = document.mechanisms[0]
    >>> cell_facts(document, curve, curve.cells[1])[1].text[-30:]
    'at most 76.2% become guessable'
    """
    title, kind = "What it costs", document.cost_type_at(curve.mechanism, cell)
    mistakes = cell.mistakes
    if cell.loss_change is None or not cell.trusted:
        cost = text_row("cost", title, COST_UNKNOWN)
    elif mistakes is None:
        text = sentence_case(loss_moves_text(cell.loss_change))
        cost = Row("cost", title, text, cell.loss_change, kind, loss_unit(document.cost))
    else:
        text = sentence_case(mistakes_text(mistakes))
        cost = Row("cost", title, text, float(mistakes), kind, "in 1,000")
    title, share = "What an attacker gains at most", cell.advantage
    several = len(document.risk.protect) > 1
    gain = text_row("gain", title, "What an attacker gains is not known")
    if share is not None:
        text = sentence_case(gain_text(share, several=several))
        if share > PROVES and at_most_text(share) != NOTHING_HIDDEN:
            text += ", which hides little"
        gain = Row(
            "gain", title, text, share, None if at_most_text(share) == NOTHING_HIDDEN else "proven"
        )
    return cost, gain, text_row("unprotected", "What is not protected", _unprotected_text(curve))


def _unprotected_text(curve: Recommendation | MechanismCurve) -> str:
    """Say in one sentence what a mechanism does not protect."""
    if curve.trust == "nobody":
        return "Who was in the data is not hidden, and other columns stay as they are"
    if curve.protects == "record":
        return "The curator still sees all records, and what they say of people in general is not hidden"
    return "The curator still sees the true answers. Other columns, and who was in the data, are not hidden"


def _runner_up(document: DecisionDocument) -> str | None:
    """Name the second-best answer, and why it is not recommended; None where nothing is recommended."""
    if document.recommendation.epsilon is None or not document.alternatives:
        return None
    second = document.alternatives[0]
    if second.epsilon is None or not second.holds:
        return None
    return f"Second best: {answer_title(second)}. {second.reason}"


def mechanism_table(document: DecisionDocument, *, most: int | None = None) -> Table:
    """Return a table of all mechanisms.

    Parameters
    ----------
    document : DecisionDocument
    most : int, optional
        How many budgets of each mechanism are shown, its name at the first. None: all, each with the name.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> [line.rows[1].text for line in mechanism_table(example_document("decision")).lines]
    ['1', '2']
    """
    chosen, lines = document.recommendation, []
    for curve in document.mechanisms:
        own = Table(
            "",
            tuple(
                _mechanism_line(curve, cell, chosen, is_short=most is not None)
                for cell in (curve.cells if most is None else curve.listed(chosen))
            ),
        )
        few = own.lines if most is None else own.thinned(most, "").lines
        blank = text_row("mechanism", "mechanism", "")
        lines += [
            line if n == 0 or most is None else replace(line, rows=(blank, *line.rows[1:]))
            for n, line in enumerate(few)
        ]
    methods = {cell.method for curve in document.mechanisms for cell in curve.cells}
    kind = "estimated"
    if methods & {"curve", "retrain"}:
        kind = "measured where models were trained again, estimated elsewhere"
    notes = (
        "Guessable: of the answers that the rest of the data do not give away, at most this share (proven). The "
        "ε of two mechanisms cannot be compared; this can.",
        "Found at 1%: of the people who gave an answer, the largest share that an attacker can find, with one false "
        "alarm in a hundred (proven).",
        "Mistakes: further wrong predictions in 1,000, and the change of the test loss; up to: 19 in 20 releases "
        f"({kind}).",
    )
    return Table("What each mechanism costs, and what an attacker gains", tuple(lines), notes)


_SHORTER = ("corrected randomised response", "the same, corrected")
_MOST_BUDGETS = 6
"""Budgets of a mechanism in a table of several."""


def _mechanism_line(
    curve: MechanismCurve, cell: MechanismCell, chosen: Recommendation, *, is_short: bool
) -> Line:
    """Return what one budget of a mechanism costs and proves."""

    def mistakes(share: float | None) -> str:
        return NOTHING if share is None else change_text(float(round(-1000 * share)), decimals=0)

    title = TITLES[curve.mechanism]
    at = cell.budget
    at_text = NOTHING if at is None else epsilon_text(at)
    if cell.group_epsilons is not None:
        at_text = group_budgets_text(cell.group_epsilons)
    low = cell.accuracy_change_low
    told = [field_row(cell, "tpr_ceiling_at_fpr_0_01", "found\nat 1%", at_most_text, "proven")]
    if not is_short:
        thousandth = "found\nat 0.1%"
        told.append(field_row(cell, "tpr_ceiling_at_fpr_0_001", thousandth, at_most_text, "proven"))
        told.append(field_row(cell, "mu", "μ", bound_text, "proven"))
    return Line(
        (
            text_row("mechanism", "mechanism", title.replace(*_SHORTER) if is_short else title),
            Row("epsilon", "ε", at_text, at, "proven"),
            field_row(cell, "advantage", "guess-\nable", at_most_text, "proven"),
            *told,
            field_row(cell, "accuracy_change", "mistakes", mistakes, "estimated"),
            Row("accuracy_change_low", "up to", mistakes(low), low, "estimated"),
            field_row(cell, "loss_change", "loss", partial(change_text, decimals=4), "estimated"),
            field_row(
                cell, "loss_change_high", "up to", partial(change_text, decimals=4), "estimated"
            ),
        ),
        is_chosen=curve.mechanism == chosen.mechanism and at == chosen.epsilon,
    )


def _risk_title(document: RiskDocument) -> str:
    if is_randomised_response(document):
        what = answers_text(document.protect)
        return f"How often an attacker guesses {what}, and recognises a member"
    deltas = {cell.delta for cell in document.cells if cell.delta is not None}
    at = f" (δ = {delta_text(deltas.pop())})" if len(deltas) == 1 else ""
    return f"How often an attacker recognises a member of the training data{at}"


def _risk_notes(document: RiskDocument, keys: Sequence[str]) -> list[str]:
    """Explain the columns of a table of a risk, a sentence each."""
    said = models_text(document)
    notes = [f"{sentence_case(said)}."]
    notes += [ATTACKERS] if "holder_rate" in keys else []
    if "answer_inference_rate" in keys and len(document.protect) > 1:
        notes.append("A person counts as guessed if all protected answers are right at once.")
    if "answer_inference_unseen" in keys:
        notes.append("Outside the data: the same guess of people the models were not trained on.")
    if "answer_inference_ceiling" in keys:
        notes.append(ceiling_note(document))
    if "tpr_ceiling_at_fpr_0_01" in keys and is_randomised_response(document):
        notes.append(
            "Found at 1%: of the people who gave an answer, the largest share that the holder can find, with one "
            "false alarm in a hundred."
        )
    if "asr_ceiling" in keys:
        notes.append(
            "Ceiling: no attack can exceed it in the long run; a single rate above it is luck."
        )
    if "asr_max_null_q95" in keys:
        notes.append(
            "Most exposed: the record whose membership is seen most often. The largest of "
            f"{document.n_targets:,} is large by chance alone; p is how often chance "
            "reaches it."
        )
        if is_randomised_response(document):
            notes.append(
                "Randomised response protects the answer, not membership: no ceiling there."
            )
    return notes
