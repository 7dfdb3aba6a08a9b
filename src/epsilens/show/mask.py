# SPDX-License-Identifier: Apache-2.0
"""A mask, as a table and sentences for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from epsilens.document import MaskDocument, MaskOutcome, RelaxedEpsilon
from epsilens.show.plain_table import plain_table
from epsilens.show.rounding import format_count, format_epsilon, format_percent

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["mask_sentences", "mask_table", "relaxed_sentence"]

_NAMED = 12
_CLEARLY = 2.0
_FEWEST = 30
"""Explained records below which nothing is said of what need not be masked."""
_MASKINGS = {"none": "nothing masked", "random": "as many at random", "chosen": "chosen mask"}


def mask_table(document: MaskDocument) -> Table:
    """Show what models reach with nothing masked, with as much at random, and with the chosen mask.

    Parameters
    ----------
    document : MaskDocument

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> mask_table(MaskDocument(provenance=Provenance(method="shap"), kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.9, privacy_kept=0.1, solver="exact")).row_count
    0
    """
    note = (
        "±: standard error over test records, at random also over masks. Guessing the most common: "
        f"{format_percent(document.utility_guess)} of the answers, "
        f"{format_percent(document.identity_guess)} of the people."
    )
    title = "Test accuracy without the masked features (measured by training again)"
    table = plain_table(title, notes=[note])
    table.add_column("", no_wrap=True)
    for head in ("features masked", "the task", "recognising people"):
        table.add_column(head, justify="right")
    for row in document.outcomes:
        table.add_row(
            _MASKINGS[row.masking],
            format_count(row.n_masked),
            _with_error(row.utility_accuracy, row.utility_error),
            _with_error(row.identity_accuracy, row.identity_error),
        )
    return table


def mask_sentences(document: MaskDocument) -> list[str]:
    """Say which features go and what that does, in plain words.

    Parameters
    ----------
    document : MaskDocument

    Returns
    -------
    list of str

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> print(mask_sentences(MaskDocument(provenance=Provenance(method="shap"), kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.97, privacy_kept=0.4, solver="exact"))[0])
    Mask gait (1 of 2 features): 97.0% of the importance for the task is kept, and 40.0% of the
    identifying importance.
    """
    said = [_first(document), *_verdict(document)]
    for measure in ("asr_max", "balanced_accuracy"):
        found = [
            item
            for item in document.relaxed
            if item.measure == measure and item.masking == "chosen"
        ]
        if found:
            said.append(relaxed_sentence(found))
    return said


def relaxed_sentence(relaxed: Sequence[RelaxedEpsilon], *, epsilon: float | None = None) -> str:
    """Say in one sentence whether ε may be larger once features are masked.

    Parameters
    ----------
    relaxed : sequence of RelaxedEpsilon
        Of one masking and one measure, one for each ε.
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
    here = f"ε = {format_epsilon(one.epsilon)}"
    reach = "" if one.low is None else f"{format_epsilon(one.low)} to {format_epsilon(one.high)}"
    if one.equivalent is not None:
        said = (
            f"Without {which} ε = {format_epsilon(one.equivalent)}{reach and f' ({reach})'} exposes {whom} as "
            f"much as {here} does with all of them"
        )
    elif one.gain == "larger":
        said = (
            f"Without {which} even ε = {format_epsilon(last)} exposes {whom} less than {here} does "
            "with all of them, and the grid ends there"
        )
    elif one.gain == "smaller":
        said = (
            f"Without {which} even ε = {format_epsilon(first)} exposes {whom} more than {here} does "
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
            f"Too few records to judge: only {format_count(document.n_explained)} were explained, so that none of the "
            f"{format_count(n_features)} features is masked."
        )
    if not document.masked:
        return (
            f"No feature needs to be masked at α = {document.alpha:g}: none of the "
            f"{format_count(n_features)} both identifies and can be spared."
        )
    if not document.kept:
        return (
            f"No feature can be kept at α = {document.alpha:g}: each of the "
            f"{format_count(n_features)} identifies, and none serves the task well enough."
        )
    named = ", ".join(document.masked[:_NAMED])
    if len(document.masked) > _NAMED:
        named = f"{format_count(len(document.masked))} features ({named}, …)"
    who = " for somebody" if document.scope == "identity" else ""
    bound = ""
    if document.solver == "greedy" and document.utility_bound is not None:
        bound = f" (no choice keeps more than {format_percent(document.utility_bound)})"
    elif document.solver == "near-exact":
        bound = " (the most that is possible, to one in a million)"
    return (
        f"Mask {named}{who} ({format_count(len(document.masked))} of {format_count(n_features)} "
        f"features): {format_percent(document.utility_kept)} of the importance for the task is kept{bound}, and "
        f"{format_percent(document.privacy_kept)} of the identifying importance."
    )


def _verdict(document: MaskDocument) -> list[str]:
    rows = {row.masking: row for row in document.outcomes}
    before, after = rows.get("none"), rows.get("chosen")
    if before is None or after is None or not document.masked:
        return []
    task = _change(before, after, "utility")
    people = _change(before, after, "identity")
    said = [
        f"The task goes from {format_percent(before.utility_accuracy)} to {format_percent(after.utility_accuracy)} of "
        f"the test records{task}; recognising people from {format_percent(before.identity_accuracy)} to "
        f"{format_percent(after.identity_accuracy)}{people}."
    ]
    control = rows.get("random")
    if control is not None:
        said.append(
            f"As many features masked at random leave {format_percent(control.utility_accuracy)} at the task and "
            f"{format_percent(control.identity_accuracy)} of the people recognised."
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


def _with_error(value: float | None, error: float | None) -> str:
    return format_percent(value) + ("" if error is None else f" ± {100 * error:.1f}")
