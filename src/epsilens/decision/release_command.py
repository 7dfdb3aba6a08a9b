# SPDX-License-Identifier: Apache-2.0
"""The commands that make the release that a decision recommends, and its alternatives."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TypeVar

from epsilens.data.typed_names import typed_answer, typed_name
from epsilens.document import DecisionDocument, Recommendation
from epsilens.document.decision import RANDOMISED
from epsilens.document.wording import delta_text
from epsilens.mechanisms import mechanism_class

_R = TypeVar("_R", bound=Recommendation)


def with_command(
    document: DecisionDocument,
    data: str,
    *,
    label: str,
    answers: Mapping[str, Sequence[object]],
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "auto",
    positive: str | None = None,
    bins: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    categories: Sequence[str] = (),
    ranges: Sequence[str] = (),
) -> DecisionDocument:
    """Return a decision with the command that makes each release that meets the limits, bounds included.

    There is none while columns must still be declared.

    Parameters
    ----------
    document : DecisionDocument
    data : str
        Name of the file.
    label : str
    answers : mapping of str to sequence
        Possible answers of the label and of protected columns.
    drop, categorical, missing, positive, delimiter, encoding
        As of `Study`.
    bins, categories, ranges : sequence of str
        As they are typed: `age=10`, `sex=f|m`, `age=17:90`.
    """
    if data == "-":
        return document

    def typed(chosen: Recommendation) -> list[str]:
        """Return what is typed for one answer; nothing while columns must still be declared."""
        is_local = chosen.mechanism in RANDOMISED
        words = ["epsilens"]
        file = f"./{data}" if data.startswith("-") else data
        settings = document.provenance.settings
        if is_local:
            words += ["randomise", file]
            for column in document.risk.protect:
                words += ["--protect", typed_name(column)]
            each = document.cost.provenance.settings.get("epsilon")
            level = (
                ",".join(f"{typed_name(name)}={one:.10g}" for name, one in each.items())
                if isinstance(each, dict)
                else f"{chosen.epsilon:.10g}"
            )
            words += ["--epsilon", level]
        else:
            words += ["train", file, "--label", label, "--mechanism", chosen.mechanism]
            words += ["--epsilon", f"{chosen.epsilon:.10g}", "--delta", delta_text(chosen.delta)]
            words += ["--protects", str(settings["protects"])]
            if mechanism_class(chosen.mechanism).shrinks_rows:
                words += ["--x-bound", f"{settings['x_bound']:.10g}"]
            for column in document.risk.protect:
                if column != label:
                    words += ["--protect", typed_name(column)]
            # For records nothing is learnt from the data: their codes are declared by --categories.
            is_record = settings["protects"] == "record"
            if is_record and any(note.code == "columns-not-declared" for note in document.notes):
                return []
            codes = () if is_record else categorical
            for option, columns in (("--drop", drop), ("--categorical", codes)):
                for column in columns:
                    words += [option, typed_name(column)]
            if missing != "auto" and not is_record:
                words += ["--missing", missing]
            for text in ranges:
                words += ["--range", text]
            if positive is not None:
                words += ["--positive", positive]
        for text in bins:
            if not is_local or text.rpartition("=")[0] in document.risk.protect:
                words += ["--bins", text]
        for option, value in (("--delimiter", delimiter), ("--encoding", encoding)):
            if value is not None:
                words += [option, value]
        given = [
            text
            for text in categories
            if not is_local or any(text.startswith(f"{name}=") for name in document.risk.protect)
        ]
        for text in given:
            words += ["--categories", text]
        wanted = [*document.risk.protect, *([] if is_local or positive is not None else [label])]
        for column in dict.fromkeys(wanted):
            is_told = any(text.startswith(f"{column}=") for text in (*given, *bins, *ranges))
            if (
                answers.get(column)
                and not is_told
                and (is_local or column != label or positive is None)
            ):
                known = "|".join(typed_answer(str(answer)) for answer in answers[column])
                words += ["--categories", f"{column}={known}"]
        if is_local:
            were_dropped = any(note.code == "rows-dropped" for note in document.notes)
            how = "drop" if missing == "auto" and were_dropped else missing
            words += ["--missing", how] if how in ("drop", "category") else []
        return [*words, "--out", "released.csv" if is_local else "model.json"]

    def told(chosen: _R) -> _R:
        if chosen.epsilon is None or not chosen.holds or chosen.group_epsilons is not None:
            return chosen  # a release is at one ε
        words = typed(chosen)
        return chosen.model_copy(update={"command": shlex.join(words)}) if words else chosen

    return document.model_copy(
        update={
            "recommendation": told(document.recommendation),
            "alternatives": [told(other) for other in document.alternatives],
        }
    )


def command_at(command: str, epsilon: float) -> str:
    """Return the command of a release at another budget.

    Examples
    --------
    >>> command_at("epsilens randomise survey.csv --protect smokes --epsilon 1 --out released.csv", 2.5)
    'epsilens randomise survey.csv --protect smokes --epsilon 2.5 --out released.csv'
    """
    words = shlex.split(command)
    words[words.index("--epsilon") + 1] = f"{epsilon:.10g}"
    return shlex.join(words)
