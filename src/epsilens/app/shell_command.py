# SPDX-License-Identifier: Apache-2.0
"""A question of the page as a command of the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from epsilens.app.questions import Limits, Question
from epsilens.data.typed_names import typed_name


def command_for(question: Question, limits: Limits, name: str, *, test: str | None = None) -> str:
    """Return the command that asks the same of the same file.

    What the command cannot say is said beneath it, in a line that a shell passes over.

    Parameters
    ----------
    question : Question
    limits : Limits
    name : str
        Name of the file.
    test : str, optional
        Name of the file with the test data.

    Examples
    --------
    >>> command_for(Question(label="smokes"), Limits(max_loss_increase=0.01), "my survey.csv")
    "epsilens decide 'my survey.csv' --label smokes --protect smokes --max-loss-increase 0.01"
    >>> known = Question(label="smokes", declared=["smokes"])
    >>> print(command_for(known, Limits(), "-v.csv"))
    epsilens decide ./-v.csv --label smokes --protect smokes
    # Not in it: which answers of 1 column everybody may know (--categories COL=A|B says that).
    >>> number = Question(label="income", protect=["sex"], model="ridge")
    >>> command_for(number, Limits(max_loss_increase=2.5), "a.csv")
    'epsilens whatif a.csv --label income --protect sex --max-loss-increase 2.5 --model ridge'
    """
    file, beside = (one and (f"./{one}" if one.startswith("-") else one) for one in (name, test))
    # Where no attack is measured, there is a cost to ask for but nothing to decide between.
    command = "decide" if question.has_attack else "whatif"
    words = ["epsilens", command, str(file), "--label", question.label]
    if question.has_attack and question.trust == "nobody":
        words += ["--trust", "nobody"]
    for column in question.protected:
        words += ["--protect", typed_name(column)]
    for option, limit, is_known in (
        ("--max-loss-increase", limits.max_loss_increase, True),
        ("--max-accuracy-loss", limits.max_accuracy_loss, question.has_attack),
        ("--max-attack-rate", limits.max_attack_rate, question.has_attack),
        ("--max-advantage", limits.max_advantage, question.has_attack),
    ):
        if limit is not None and is_known:
            words += [option, f"{limit:.10g}"]
    if question.has_attack and limits.measured:
        words.append("--measured")
    usual = Question(label=question.label)
    for column in question.drop:
        words += ["--drop", typed_name(column)]
    for column in question.categorical:
        words += ["--categorical", typed_name(column)]
    for column, bins in question.bins.items():
        words += ["--bins", typed_name(f"{column}={bins}")]
    for option, value, ordinary in (
        ("--weight", question.weight, None),
        ("--missing", question.missing, usual.missing),
        ("--positive", question.positive, None),
        ("--delimiter", question.delimiter, None),
        ("--encoding", question.encoding, None),
        ("--epsilon", question.epsilon, usual.epsilon),
        ("--test", beside, None),
        ("--test-share", question.test_share, usual.test_share),
        ("--model", question.own_model or question.model, usual.model),
        ("--regularisation", question.regularisation, None),
        ("--correction", question.correction, usual.correction),
        (
            "--shadow-models",
            question.shadow_models if question.has_attack else usual.shadow_models,
            usual.shadow_models,
        ),
        ("--seed", question.seed, usual.seed),
    ):
        if value != ordinary:
            words += [option, str(value)]
    return shlex.join(words) + _missing(question)


def _missing(question: Question) -> str:
    """Say what a command does not ask; by numbers, because a name could end the line."""
    declared = [name for name in question.declared if name in question.protected]
    parts = []
    if question.groups:
        parts.append(
            f"{_count(question.groups, 'group')} (epsilens whatif --group asks about that)"
        )
    if declared:
        columns = _count(declared, "column")
        parts.append(
            f"which answers of {columns} everybody may know (--categories COL=A|B says that)"
        )
    return f"\n# Not in it: {'; '.join(parts)}." if parts else ""


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"
