# SPDX-License-Identifier: Apache-2.0
"""Views of an inspection, a release, a private training, an audit, a mask and a valuation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from epsilens.document.audit import AuditDocument
from epsilens.document.decision import ABOUT_ADDED, ADDED
from epsilens.document.kinds import InspectDocument, ReleaseDocument, ValueDocument, ValuePoint
from epsilens.document.mask import MaskDocument, MaskOutcome, RelaxedEpsilon
from epsilens.document.parts import NumberType
from epsilens.document.training import TrainingDocument
from epsilens.document.view import Line, Row, Table, View, field_row, text_row
from epsilens.document.wording import (
    NOTHING,
    at_most_text,
    bound_text,
    delta_text,
    epsilon_text,
    loss_unit,
    percent_text,
    sentence_case,
)


def inspect_view(document: InspectDocument) -> View:
    """Return the columns of a table, what they are and which can be protected."""
    n_columns = len(document.columns)
    unit = "column" if n_columns == 1 else "columns"
    title = f"{document.rows:,} rows, {n_columns:,} {unit}"
    lines = []
    for column in document.columns:
        missing = f"{column.n_missing:,}" if column.n_missing else NOTHING
        details = [", ".join(column.categories or []), column.note or ""]
        lines.append(
            Line(
                (
                    text_row("name", "column", column.name),
                    text_row("kind", "kind", column.kind),
                    field_row(column, "n_distinct", "values", "{:,}".format),
                    Row("n_missing", "missing", missing, column.n_missing),
                    text_row(
                        "protectable", "can be protected", "yes" if column.protectable else "no"
                    ),
                    text_row("note", "categories and notes", "; ".join(filter(None, details))),
                )
            )
        )
    return View(title, tables=(Table(title, tuple(lines)),))


def release_view(document: ReleaseDocument) -> View:
    """Return what a release did and what budget it spent."""
    shuffled = document.provenance.settings.get("order") == "shuffled"
    title = (
        f"{document.rows:,} records released by {document.mechanism}"
        f"{', in random order' if shuffled else ''}."
    )
    spent = document.record_epsilon
    rows = [
        Row("epsilon", name, epsilon_text(document.epsilon.get(name)), document.epsilon.get(name))
        for name in document.columns
    ]
    end = ", if it were real." if document.simulated else " (proven)."
    notes = []
    if document.simulated:
        notes.append(
            "Simulated: a seed was given, so whoever knows it can undo the noise. "
            "Do not publish this file."
        )
    if math.isinf(spent):
        notes.append("ε = ∞ changes nothing: this release protects nobody.")
    return View(
        title,
        rows=tuple(rows),
        sentences=(f"Budget spent by each record: ε = {epsilon_text(spent)}{end}",),
        notes=tuple(notes),
    )


def training_view(document: TrainingDocument) -> View:
    """Return what is claimed of a private model, and what all releases so far add up to."""
    kind: NumberType | None = None if document.simulated else "proven"
    rows = [
        text_row("mechanism", "mechanism", document.mechanism),
        text_row(
            "protects",
            "protects",
            "the whole record"
            if document.protects == "record"
            else f"the answers in {', '.join(document.columns)}",
        ),
        field_row(document, "epsilon", "ε", epsilon_text, kind),
        field_row(document, "delta", "δ", delta_text, kind),
        field_row(document, "advantage", "advantage", at_most_text, kind),
    ]
    if document.x_bound is not None:
        rows.append(field_row(document, "x_bound", "rows shrunk to", "{:g}".format))
    rows.append(field_row(document, "rows", "training records", "{:,}".format))
    end = ", if this were real." if document.simulated else " (proven)."
    sentences = [
        f"At most {at_most_text(document.advantage)} of the answers that the rest of the data do not give "
        f"away become guessable{end}"
    ]
    total = document.total
    if document.mechanism in ADDED:
        sentences.append(ABOUT_ADDED)
    if total.n_releases > 1:
        sentences.append(
            f"Together with {total.n_releases - 1} earlier "
            f"{'release' if total.n_releases == 2 else 'releases'}: ε = {epsilon_text(total.epsilon)} at "
            f"δ = {delta_text(total.delta)}, at most {at_most_text(total.advantage)}{end}"
        )
    notes = []
    if document.simulated:
        notes.append(
            "Simulated: a seed was given, so nothing is claimed. Do not publish this model."
        )
    article = "An" if document.model == "additive" else "A"
    title = f"{article} {document.model} model of {document.label} that may be published."
    if document.simulated:
        title = f"A simulated {document.model} model of {document.label}."
    return View(title, rows=tuple(rows), sentences=tuple(sentences), notes=tuple(notes))


def audit_view(document: AuditDocument) -> View:
    """Return what an audit proved, what was claimed and is true, and how it was found."""
    at = f" at δ = {delta_text(document.claimed_delta)}" if document.claimed_delta else ""
    true = document.true_epsilon
    right, guesses = f"{document.n_correct:,}", f"{document.n_guesses:,}"
    fixed = document.selection.isdecimal()
    rows = (
        _bound_row(document),
        field_row(document, "claimed_epsilon", "claimed ε", epsilon_text),
        Row(
            "true_epsilon",
            "theoretical ε",
            NOTHING if true is None else f"{epsilon_text(true)} (proven)",
            true,
            "proven",
        ),
        text_row(
            "n_correct",
            "guesses",
            f"{right} right of {guesses}, {document.n_canaries:,} canaries",
        ),
        text_row("method", "method", document.method),
        text_row(
            "selection",
            "guesses chosen by",
            f"{document.selection} on each side, fixed beforehand" if fixed else document.selection,
        ),
        text_row("assumptions", "assumes", ", ".join(document.assumptions) or NOTHING),
    )
    title = f"One-run audit of {document.mechanism}{at}"
    lines = tuple(
        Line((text_row("what", "what", row.title), text_row("value", "value", row.text)))
        for row in rows
    )
    return View(
        title,
        rows=rows,
        sentences=(_audit_sentence(document),),
        tables=(Table(title, lines),),
    )


def _audit_sentence(document: AuditDocument) -> str:
    """Say in a sentence what an audit found; that nothing was found proves nothing good."""
    sentence = sentence_case(document.verdict)
    bound, true = document.epsilon_lower_bound, document.true_epsilon
    # A bound at δ = 0 says nothing about a claim with δ, and one above the truth says more at its end.
    is_judged = (
        document.is_confidence_bound
        and document.claimed_epsilon is not None
        and not (document.method == "pure" and document.claimed_delta)
    )
    if document.is_broken or not is_judged or (true is not None and bound > true):
        return sentence
    return f"{sentence} That proves nothing good: a better attack may exist."


def _bound_row(document: AuditDocument) -> Row:
    bound = document.epsilon_lower_bound
    number = bound_text(bound)
    if not document.is_confidence_bound:
        return Row("epsilon_lower_bound", "as printed", f"{number} (no bound)", bound)
    if bound == 0.0:
        text = f"{number} (nothing is proved)"
        return Row("epsilon_lower_bound", "ε is at least", text, bound, "proven")
    at = " at δ = 0" if document.method == "pure" and document.claimed_delta else ""
    text = f"{number}{at} (proven, {100 * document.confidence:.10g} % confidence)"
    return Row("epsilon_lower_bound", "ε is at least", text, bound, "proven")


_NAMED = 12


_CLEARLY = 2.0


_FEWEST = 30
"""Explained records below which nothing is said of what need not be masked."""


_MASKINGS = {"none": "nothing masked", "random": "as many at random", "chosen": "chosen mask"}


def mask_view(document: MaskDocument) -> View:
    """Return which features go, and what models reach with them, without them, and at random."""
    title = "Test accuracy without the masked features (measured by training again)"
    note = (
        "±: standard error over test records, at random also over masks. Guessing the most common: "
        f"{percent_text(document.utility_guess)} of the answers, "
        f"{percent_text(document.identity_guess)} of the people."
    )
    lines = tuple(
        Line(
            (
                text_row("masking", "", _MASKINGS[row.masking]),
                field_row(row, "n_masked", "features masked", "{:,}".format),
                _accuracy_row(row, "utility", "the task"),
                _accuracy_row(row, "identity", "recognising people"),
            )
        )
        for row in document.outcomes
    )
    said = [_first(document), *_mask_verdict(document)]
    for measure in ("asr_max", "balanced_accuracy"):
        found = [
            item
            for item in document.relaxed
            if item.measure == measure and item.masking == "chosen"
        ]
        if found:
            said.append(relaxed_sentence(found))
    return View(title, sentences=tuple(said), tables=(Table(title, lines, (note,)),))


def _accuracy_row(row: MaskOutcome, task: str, title: str) -> Row:
    value: float | None = getattr(row, f"{task}_accuracy")
    error: float | None = getattr(row, f"{task}_error")
    text = percent_text(value) + ("" if error is None else f" ± {100 * error:.1f}")
    return Row(f"{task}_accuracy", title, text, value, "measured")


def relaxed_sentence(relaxed: Sequence[RelaxedEpsilon], *, epsilon: float | None = None) -> str:
    """Say in one sentence whether ε may be larger once features are masked.

    Parameters
    ----------
    relaxed : sequence of RelaxedEpsilon
        Results for one masking and one measure, one for each ε.
    epsilon : float, optional
        The ε on all features that is talked of; the middle one unless given.

    Returns
    -------
    str

    Examples
    --------
    >>> found = RelaxedEpsilon(masking="chosen", measure="asr_max", epsilon=1.0, equivalent=3.9,
    ...                        low=0.5, high=8.0, gain="within the noise")
    >>> print(relaxed_sentence([found]))
    Without the masked features ε = 3.9 (0.5 to 8) exposes the most exposed record as much as ε = 1
    does with all of them: the gain is within the noise of the attack, so nothing speaks for a larger
    ε.
    """
    one = relaxed[len(relaxed) // 2]
    if epsilon is not None:
        one = min(relaxed, key=lambda item: abs(math.log((item.epsilon or 1.0) / epsilon)))
    grid = [item.epsilon for item in relaxed if item.epsilon is not None]
    first, last = min(grid, default=None), max(grid, default=None)
    whom = "the most exposed record" if one.measure == "asr_max" else "the mean record"
    which = "the masked features" if one.masking == "chosen" else "as many features at random"
    here = f"ε = {epsilon_text(one.epsilon)}"
    reach = "" if one.low is None else f"{epsilon_text(one.low)} to {epsilon_text(one.high)}"
    if one.equivalent is not None:
        said = (
            f"Without {which} ε = {epsilon_text(one.equivalent)}{reach and f' ({reach})'} exposes {whom} as "
            f"much as {here} does with all of them"
        )
    elif one.gain != "within the noise":
        reached, how = (last, "less") if one.gain == "larger" else (first, "more")
        said = (
            f"Without {which} even ε = {epsilon_text(reached)} exposes {whom} {how} than {here} does "
            "with all of them, and the grid ends there"
        )
    else:
        said = (
            f"No ε that was tried exposes {whom} without {which} just as much as {here} does with all of "
            f"them{reach and f' (the noise allows {reach})'}"
        )
    if one.gain == "within the noise" and len(grid) > 1 and (one.low, one.high) == (first, last):
        return f"{said}: this attack cannot tell, for every ε that was tried is within its noise."
    end = {
        "larger": "at the same ε less is exposed without them, by more than the noise of the attack "
        "explains. That is measured with this attack alone; what is proven is the guarantee of the ε that "
        "is really used.",
        "smaller": "without them the exposure is larger, not smaller.",
        "within the noise": "the gain is within the noise of the attack, so nothing speaks for a larger ε.",
    }
    return f"{said}: {end[one.gain]}"


def _first(document: MaskDocument) -> str:
    n_features = len(document.kept) + len(document.masked)
    if not document.masked and 0 < document.n_explained < _FEWEST:
        return (
            f"Too few records to judge: only {document.n_explained:,} were explained, so that none of the "
            f"{n_features:,} features is masked."
        )
    if not document.masked:
        return (
            f"No feature needs to be masked at α = {document.alpha:g}: none of the "
            f"{n_features:,} both identifies and can be spared."
        )
    if not document.kept:
        return (
            f"No feature can be kept at α = {document.alpha:g}: each of the "
            f"{n_features:,} identifies, and none serves the task well enough."
        )
    named = ", ".join(document.masked[:_NAMED])
    if len(document.masked) > _NAMED:
        named = f"{len(document.masked):,} features ({named}, …)"
    who = " for somebody" if document.scope == "identity" else ""
    bound = ""
    if document.solver == "greedy" and document.utility_bound is not None:
        bound = f" (no choice keeps more than {percent_text(document.utility_bound)})"
    elif document.solver == "near-exact":
        bound = " (the most that is possible, to one in a million)"
    return (
        f"Mask {named}{who} ({len(document.masked):,} of {n_features:,} "
        f"features): {percent_text(document.utility_kept)} of the importance for the task is kept{bound}, and "
        f"{percent_text(document.privacy_kept)} of the identifying importance."
    )


def _mask_verdict(document: MaskDocument) -> list[str]:
    rows = {row.masking: row for row in document.outcomes}
    before, after = rows.get("none"), rows.get("chosen")
    if before is None or after is None or not document.masked:
        return []
    task = _change(before, after, "utility")
    people = _change(before, after, "identity")
    said = [
        f"The task goes from {percent_text(before.utility_accuracy)} to {percent_text(after.utility_accuracy)} of "
        f"the test records{task}; recognising people from {percent_text(before.identity_accuracy)} to "
        f"{percent_text(after.identity_accuracy)}{people}."
    ]
    control = rows.get("random")
    if control is not None:
        said.append(
            f"As many features masked at random leave {percent_text(control.utility_accuracy)} at the task and "
            f"{percent_text(control.identity_accuracy)} of the people recognised."
        )
    return said


def _change(before: MaskOutcome, after: MaskOutcome, task: str) -> str:
    """Say so where a change is no larger than its noise."""
    ends = [getattr(row, f"{task}_accuracy") for row in (before, after)]
    error = getattr(after, f"{task}_change_error")
    if None in ends or error is None:
        return ""
    within = abs(ends[1] - ends[0]) <= _CLEARLY * error
    return " (within two standard errors)" if within else ""


_JUDGED_SHARE = 0.1


def value_view(document: ValueDocument) -> View:
    """Return what records are worth: what the test loss does as they go, or come, in three orders."""
    goes = document.scored == "training"
    title = f"Change of the test loss ({loss_unit(document)}, measured by training again)"
    note = (
        "One half of the test records scores, the other half judges, and the other way round. "
        "±: standard error over test records, at random over orders."
    )
    orders: dict[Literal["score", "training loss", "random"], str] = {
        "score": "lowest score first" if goes else "highest score first",
        "training loss": "largest training loss first" if goes else "smallest loss first",
        "random": "at random",
    }
    lines = []
    for share in dict.fromkeys(point.share for point in document.curve):
        here = {point.order: point for point in document.curve if point.share == share}
        count = f"{next(iter(here.values())).n_records:,}"
        text = f"{100 * (share or 0.0):.3g} % ({count})"
        rows = [Row("share", "dropped" if goes else "added", text, share)]
        for order, heading in orders.items():
            change = here[order].loss_change if order in here else None
            shown = NOTHING if change is None else _with_error(here[order])
            rows.append(Row(order, heading, shown, change, "measured"))
        lines.append(Line(tuple(rows)))
    return View(
        title,
        sentences=tuple(_value_sentences(document)),
        tables=(Table(title, tuple(lines), (note,)),),
    )


def _value_sentences(document: ValueDocument) -> list[str]:
    """Say in words what was found."""
    unit, mean = loss_unit(document), document.mean or 0.0
    count = f"{document.n:,}"
    goes = document.scored == "training"
    change, whose = (
        ("Without one record", "training records")
        if goes
        else ("With one more record", "candidates")
    )
    moves = "rises" if goes == (mean >= 0) else "falls"
    first = f"{change} the test loss {moves} by {abs(mean):.3g} {unit} on average, over {count} {whose}."
    clearly = ""
    if document.clearly_harmful is not None:
        clearly = (
            f"; {document.clearly_harmful:,} by more than two standard errors of this "
            "test set, the others may be chance"
        )
    sentences = [first, f"{document.harmful:,} score below zero{clearly}."]
    sentences += _value_verdict(document)
    if document.batch_factor is not None:
        measured = ""
        if document.measured_batch_factor is not None:
            measured = f", {document.measured_batch_factor:.3g} when really adding them all"
        sentences.append(
            f"Records of one batch are partly redundant: their sum overstates the batch by a factor of "
            f"{document.batch_factor:.3g} as expected from its size{measured}."
        )
        sentences += _why_not_measured(document)
    if document.paid == 0:
        sentences.append("No record has a positive score, so nobody is paid.")
    elif document.paid is not None:
        sentences.append(
            f"{document.paid:,.6g} divided in proportion to the positive scores; harmful records get "
            "nothing."
        )
    return sentences


def _why_not_measured(document: ValueDocument) -> list[str]:
    """Say why really adding all candidates gave no factor, if it was tried."""
    if document.measured_batch_factor is not None:
        return []
    for point in document.curve:
        if point.order == "score" and point.share == 1.0 and point.loss_change is not None:
            return [
                f"Really adding them all changes the test loss by {_with_error(point)} "
                f"{loss_unit(document)}, which is within two standard errors or against the sign of "
                "the scores' sum: no factor can be measured from it."
            ]
    return []


def _value_verdict(document: ValueDocument) -> list[str]:
    """Say whether the order of the scores is of use: single scores need not add up.

    By one share, fixed beforehand: the best of several would be chosen by the records that judge it.
    """
    shares = [point.share for point in document.curve if point.share is not None]
    if not shares:
        return []
    share = min(shares, key=lambda known: abs(known - _JUDGED_SHARE))
    here = {point.order: point for point in document.curve if point.share == share}
    point, other = here.get("score"), here.get("random")
    if point is None or point.loss_change is None:
        return []
    goes = document.scored == "training"
    what = "Dropping the lowest-scored" if goes else "Adding the highest-scored"
    change = point.loss_change
    moves = "lowers" if change < 0 else "raises"
    error = _error(point)
    beside = ""
    if other is not None and other.loss_change is not None:
        beside = f" (as many at random: {_with_error(other)})"
    said = (
        f"{what} {100 * share:.3g} % {moves} the test loss by {abs(change):.3g}{error} "
        f"{loss_unit(document)}{beside}, measured on test records that did not score"
    )
    if change >= 0:
        return [
            f"{said}: what single records are worth does not add up, and a few test records can "
            "mislead."
        ]
    if point.standard_error is not None and -change <= _CLEARLY * point.standard_error:
        return [f"{said}; that is within two standard errors and may be chance."]
    return [f"{said}."]


def _error(point: ValuePoint) -> str:
    # All candidates in any order are the same model: only rounding is left.
    if point.standard_error is None or point.standard_error <= 1e-12:
        return ""
    return f" ± {point.standard_error:.1g}"


def _with_error(point: ValuePoint) -> str:
    value = point.loss_change or 0.0
    return f"{'−' if value < 0 else '+'}{abs(value):.3g}{_error(point)}"
