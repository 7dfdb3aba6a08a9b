# SPDX-License-Identifier: Apache-2.0
"""What a reader must know beside the numbers: notes with a stable code, and the list of all codes.

A note's code says what it is about; its words may change. Two notes of the same fact are recognised by
their code and subject, never by their words.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from epsilens.errors import (
    COMMAND_LINE,
    PYTHON,
    ApproximationWarning,
    PrivacyLeakWarning,
    Surface,
    render,
)

__all__ = ["NOTES", "Note", "NoteKind", "Severity", "distinct_notes", "note_of_warning"]

Severity: TypeAlias = Literal["warning", "note"]


class NoteKind(NamedTuple):
    """What a code means, and how serious it is.

    Parameters
    ----------
    severity : {"warning", "note"}
        A warning weakens a guarantee or makes a number less certain.
    meaning : str
        What the code stands for.
    has_names : bool
        Whether a text with this code may name columns, groups or answers.
    """

    severity: Severity
    meaning: str
    has_names: bool = True


NOTES: Mapping[str, NoteKind] = {
    # A model that is trained again as a whole.
    "trained-again": NoteKind("note", "How many models were trained, and at which cells.", False),
    "no-change-drawn": NoteKind("note", "All draws at some ε gave the same loss.", False),
    "no-intervals": NoteKind("note", "Too few draws for an interval.", False),
    "zero-probabilities": NoteKind(
        "note", "The model gives probability 0 to answers that occur.", False
    ),
    "records-in-no-group": NoteKind(
        "warning", "Training records are in no group, and no ε protects them.", False
    ),
    "attack-power": NoteKind("note", "What so many shadow models can detect.", False),
    "few-records-in-group": NoteKind(
        "note", "A group has too few records to be attacked by itself."
    ),
    "attacked-budgets": NoteKind("note", "The budgets at which models were attacked.", False),
    "not-deterministic": NoteKind(
        "warning", "Training twice with one seed gives different models.", False
    ),
    "training-not-converged": NoteKind("note", "The training stops before it converges.", False),
    # The table.
    "column-left-out": NoteKind("note", "A column is not used by the model."),
    "date-column": NoteKind("note", "A column of dates is used as numbers."),
    "fields-with-line-breaks": NoteKind("note", "Fields of a column have several lines."),
    "numbers-too-large": NoteKind("note", "Numbers of a column were read as infinite."),
    "decimal-comma": NoteKind("note", "Numbers were read with a decimal comma."),
    "sheet-read": NoteKind("note", "A workbook has several sheets, of which one was read."),
    "values-without-label": NoteKind("note", "Values of a column have no value label."),
    "missing-marks": NoteKind("note", "Marks that were read as missing values."),
    "missing-values": NoteKind("note", "Rows of the table have missing values."),
    "rows-dropped": NoteKind("note", "Rows with missing values were dropped."),
    "missing-category": NoteKind("note", "Missing values became a category of their own."),
    "label-joined": NoteKind("note", "All other answers of the label were joined into one."),
    "group-without-test-rows": NoteKind(
        "warning", "A group has no test rows, so its gaps are not measured."
    ),
    "streamed-split": NoteKind("note", "Test rows were set aside by a coin for every row."),
    # The model.
    "fewer-dimensions": NoteKind("note", "Columns of the design are combinations of others."),
    "many-parameters": NoteKind("note", "The model is too wide for a matrix of its curvature."),
    "nearly-separable": NoteKind(
        "warning", "The training data are nearly separable, so no estimate can be trusted."
    ),
    "large-leverage": NoteKind("warning", "A training record decides its own prediction."),
    "searched-penalty": NoteKind("note", "The penalty was chosen by a search on the true labels."),
    "fit-not-converged": NoteKind("warning", "The given model is not at the optimum of its loss."),
    "unnamed-label": NoteKind("note", "A name that is no column was taken for the label."),
    "frozen-layers": NoteKind("warning", "The layers before the head of a network are frozen."),
    "head-only": NoteKind(
        "warning", "The numbers say nothing of a network that is trained again.", has_names=False
    ),
    "training-mode": NoteKind("note", "A network that was in training mode was evaluated."),
    "body-public": NoteKind(
        "warning", "The body of the network was declared public.", has_names=False
    ),
    "own-training": NoteKind(
        "warning", "A network is trained by a function of the user's own.", has_names=False
    ),
    "state-public": NoteKind("warning", "Parts of a network are kept and were declared public."),
    "body-undeclared": NoteKind(
        "warning", "The body of the network may have learnt from the answers.", has_names=False
    ),
    # What is protected.
    "observed-domain": NoteKind(
        "warning", "The possible answers of a column were taken from the data."
    ),
    "observed-bounds": NoteKind("warning", "The bounds of a column were taken from the data."),
    "observed-scale": NoteKind("warning", "Centre and scale of a column were taken from the data."),
    "dependent-group": NoteKind("warning", "Membership of a group shows the protected answer."),
    "sampled-patterns": NoteKind("warning", "The patterns of a report were sampled."),
    "local-hashing": NoteKind("note", "Local hashing is weaker than randomised response here."),
    "observed-classes": NoteKind(
        "warning", "The classes of a private model were taken from the data.", has_names=False
    ),
    "simulated": NoteKind("warning", "A seed was given, so the result protects nobody."),
    # The cost.
    "correction-conditions": NoteKind("warning", "Conditions of forward correction."),
    "group-depends-on-label": NoteKind(
        "warning", "Forward correction may fail for a group that goes with the label."
    ),
    "cells-without-answer": NoteKind("warning", "Some cells have no answer."),
    "cost-measured": NoteKind("note", "Costs were measured where the estimate failed its check."),
    "estimates-unchecked": NoteKind("warning", "Some estimates failed their own check."),
    "drawn-runs": NoteKind("warning", "A part of the estimate is a mean over drawn runs."),
    "solver-not-converged": NoteKind("warning", "A solver did not reach its tolerance."),
    "stochastic-hessian": NoteKind("warning", "The inverse Hessian was estimated."),
    "rho-epsilon": NoteKind("note", "Each epsilon is that of its rho at a stated delta."),
    "cost-of-bounds": NoteKind("note", "What the bounds of a private model cost without noise."),
    "bounds-from-data": NoteKind("warning", "Bounds of a private model were taken from the data."),
    "floating-point-noise": NoteKind(
        "warning", "The noise of a library is not discrete.", has_names=False
    ),
    # The attack.
    "scaled-features": NoteKind("warning", "Features were scaled by the raw data."),
    "attacked-sample": NoteKind("warning", "Membership was attacked for a part of the records."),
    "few-shadow-models": NoteKind("warning", "Records with too few shadow models."),
    "unfair-coins": NoteKind("warning", "Membership was not drawn by fair coins."),
    "baseline-sample": NoteKind("warning", "The baseline guess was learnt from some records."),
    "different-targets": NoteKind("warning", "Two tables have different numbers of targets."),
    "exposed-records": NoteKind("warning", "A file shows which records can be recognised."),
    "large-delta": NoteKind("warning", "Delta would allow to publish a whole record."),
    # The decision.
    "answers-all-at-once": NoteKind("warning", "The attack rate counts all answers at once."),
    "masking-not-tried": NoteKind("note", "Masking columns changes nothing, or was not tried."),
    "columns-not-declared": NoteKind(
        "warning", "A preview encodes columns by the data that a release needs declared."
    ),
    "slow-mechanisms": NoteKind("note", "Slow mechanisms were not compared.", has_names=False),
    "mechanism-refused": NoteKind(
        "warning", "A mechanism is not offered: it breaks its claim.", has_names=False
    ),
    "too-large-to-preview": NoteKind(
        "note", "The table is too large to preview further mechanisms.", has_names=False
    ),
    "weights-not-private": NoteKind(
        "note", "Mechanisms that train on the true answers take no weights.", has_names=False
    ),
    "asked-before": NoteKind(
        "note", "A study of an earlier version compares no other mechanisms.", has_names=False
    ),
    "attack-not-shown": NoteKind("warning", "Cost and attack do not belong together."),
    "preview": NoteKind("warning", "The numbers are a preview."),
    # The audit.
    "uncorrected-tests": NoteKind("warning", "The number is not a confidence bound."),
    "audit-too-weak": NoteKind("warning", "The audit cannot prove a smaller epsilon."),
    "repeated-canaries": NoteKind(
        "warning",
        "Most rows are repeated, so that the bound may be above the truth.",
        has_names=False,
    ),
    "pure-bound": NoteKind("warning", "A pure bound says nothing about a claim with delta."),
    "gaussian-assumed": NoteKind("warning", "The bound assumes that the mechanism is Gaussian."),
    "normal-scores-assumed": NoteKind("warning", "The bound takes the scores to be normal."),
    "overlapping-canaries": NoteKind("warning", "The canaries are not independent."),
    "half-of-canaries": NoteKind("warning", "Exactly half of the canaries were included."),
    # The mask.
    "mask-not-private": NoteKind(
        "warning", "The mask was chosen and measured on private records.", has_names=False
    ),
    "mask-from-public": NoteKind(
        "warning", "The mask was measured on private records.", has_names=False
    ),
    "mask-shows-person": NoteKind("warning", "Masks of single persons show whose record it is."),
    "training-sample": NoteKind(
        "warning", "Models were trained on a part of the records.", has_names=False
    ),
    "time-used-up": NoteKind(
        "warning", "The time was used up before everything was tried.", has_names=False
    ),
    "few-explained": NoteKind("warning", "Too few records were explained.", has_names=False),
    "no-useful-feature": NoteKind(
        "warning", "No feature clearly serves the task.", has_names=False
    ),
    "people-not-recognised": NoteKind(
        "warning", "People are not recognised better than by chance.", has_names=False
    ),
    "alpha-not-met": NoteKind(
        "warning", "The share to be masked cannot be reached.", has_names=False
    ),
    "no-feature-left": NoteKind("warning", "No feature is left.", has_names=False),
    "epsilon-not-compared": NoteKind("note", "There was nothing to compare epsilon with."),
    # The value of records.
    "sole-records": NoteKind("warning", "Records that decide a coefficient alone."),
    # The release.
    "order-kept": NoteKind("warning", "The order of the rows is kept."),
    "rows-left-out": NoteKind("warning", "Rows without an answer are left out of a release."),
    "copied-column": NoteKind("warning", "A released column is a copy of a protected one."),
    "infinite-epsilon": NoteKind("warning", "A column is released as it is."),
    "open-columns": NoteKind("warning", "Other columns are released unchanged."),
    "identifiers-released": NoteKind("warning", "Columns that identify people are released."),
    "earlier-release": NoteKind("warning", "The release replaces an earlier one."),
    "raw-statistic": NoteKind("warning", "A returned number is a function of the raw data."),
    "released-before": NoteKind("warning", "The same answers were released before."),
    "no-ledger": NoteKind("warning", "Releases of the same answers are not added up."),
    "pending-release": NoteKind("warning", "The release was not finished."),
    # The federation.
    "site-silent": NoteKind("note", "Sites did not answer."),
    "version-not-taken": NoteKind("note", "A site has not taken the new version."),
    "old-site-store": NoteKind("note", "A site reports an older version than it had."),
    "site-drew-again": NoteKind("warning", "A site has drawn again under its number."),
    "change-waits": NoteKind("note", "A change waits until all sites have the new version."),
    "no-preview": NoteKind("note", "A change cannot be previewed without the true answers."),
    "site-not-believed": NoteKind("warning", "What a leaving site reports is not used."),
    "operation-interrupted": NoteKind("note", "An operation was interrupted."),
    "operation-given-up": NoteKind("warning", "An interrupted operation was given up."),
    "operation-finished": NoteKind("note", "An interrupted operation was finished."),
    # Documents.
    "withheld": NoteKind("note", "A note is withheld because it may name columns."),
    "unclassified": NoteKind("warning", "A note without a code of its own."),
}
"""Every code of a note with its severity and meaning. A code keeps its meaning."""


@dataclass(frozen=True, eq=False)
class Note:
    """One thing to know before relying on the numbers.

    Two notes are equal if a document writes them alike.

    Parameters
    ----------
    code : str
        What it is about: a key of `NOTES`.
    text : str
        The sentence. It may name settings by `epsilens.errors.setting`.
    subject : str, optional
        The column, group or site it is about, where there can be several. It is not written to JSON.

    Examples
    --------
    >>> Note("rows-dropped", "2 of 30 rows were dropped for missing values (age 2)").severity
    'note'
    """

    code: str
    text: str
    subject: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Note):
            return NotImplemented
        written = self.render(COMMAND_LINE), other.render(COMMAND_LINE)
        return self.code == other.code and written[0] == written[1]

    def __hash__(self) -> int:
        return hash((self.code, self.render(COMMAND_LINE)))

    @property
    def severity(self) -> Severity:
        """How serious it is; a code that this version does not know counts as a warning."""
        return NOTES.get(self.code, NOTES["unclassified"]).severity

    @property
    def has_names(self) -> bool:
        """Whether the text may name columns, groups or answers."""
        return NOTES.get(self.code, NOTES["unclassified"]).has_names

    def render(self, surface: Surface = PYTHON) -> str:
        """Write the text in the terms of a surface."""
        return render(self.text, surface)

    def warn(
        self,
        category: type[PrivacyLeakWarning] | type[ApproximationWarning],
        *,
        stacklevel: int = 1,
    ) -> None:
        """Issue it as a Python warning too, as `warnings.warn` with this `stacklevel` would."""
        told = category(self.text, code=self.code, subject=self.subject)
        warnings.warn(told, stacklevel=stacklevel + 1)


def note_of_warning(warning: PrivacyLeakWarning | ApproximationWarning) -> Note:
    """Return a warning as a note of a document.

    Examples
    --------
    >>> note_of_warning(PrivacyLeakWarning("it leaks.", code="observed-domain")).code
    'observed-domain'
    """
    return Note(warning.code, warning.text, warning.subject)


def distinct_notes(notes: Iterable[Note]) -> list[Note]:
    """Return each fact once: of notes with the same code and subject (or text), the first.

    Examples
    --------
    >>> first = Note("observed-domain", "the answers of 'a' were observed. Declare them.", "a")
    >>> distinct_notes([first, Note("observed-domain", "the answers of 'a' were observed.", "a")])
    [Note(code='observed-domain', text="the answers of 'a' were observed. Declare them.", subject='a')]
    """
    once: dict[tuple[str, str], Note] = {}
    for note in notes:
        once.setdefault((note.code, note.text if note.subject is None else note.subject), note)
    return list(once.values())
