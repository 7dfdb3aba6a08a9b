# SPDX-License-Identifier: Apache-2.0
"""Messages in the words of the page: what is chosen there has a name, not an option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from epsilens.errors import COMMAND_LINE, Surface, option_of

__all__ = ["PAGE", "WITHHELD", "in_page_words"]

WITHHELD = (
    "a message is withheld because it may name columns, groups or answers. Start without "
    "`--anonymous` to read it."
)

FIELDS = {
    "label": "the column to predict",
    "protect": "the columns to randomise",
    "positive": "the answer that counts as yes",
    "group": "the group",
    "groups": "the group",
    "drop": "left out",
    "sample_weight": "the weight of a row",
    "weight": "the weight of a row",
    "missing": "missing answers",
    "categorical": "use it as categories",
    "categories": "everybody may know the possible answers",
    "bins": "bins",
    "epsilon": "the budgets",
    "delimiter": "the delimiter",
    "encoding": "the encoding",
    "model": "the kind of model",
    "regularisation": "the regularisation",
    "correction": "forward correction",
    "max_loss_increase": "the largest rise of test loss",
    "max_attack_rate": "the answers an attacker may guess",
    "measured": "let the attack that was tried meet the attack limit",
    "shadow_models": "the number of attacked models",
    "random_state": "the seed",
    "seed": "the seed",
    "test_share": "the share set aside for testing",
    "dependent_groups": "allow groups that give the answer away",
}
"""Arguments, and the labels of the fields that set them."""

_AT_THE_START = frozenset({"anonymous", "max_upload", "state", "port"})
"""Settings of `epsilens serve` itself, which are typed in a terminal."""


class _Page:
    """The page: fields in quotation marks. What it has no field for is for the terminal."""

    kind: Literal["python", "command", "page"] = "page"

    def setting(self, name: str, value: str | float | Sequence[str] | None) -> str:
        if name in _AT_THE_START:
            return COMMAND_LINE.setting(name, value)
        label = FIELDS.get(name, name.replace("_", " "))
        ends = "" if name in FIELDS else " (in the terminal)"
        if value is None or isinstance(value, bool):
            return f"“{label}”{ends}"
        shown = value if isinstance(value, str | int | float) else ", ".join(value)
        return f"“{label}: {shown}”{ends}"


PAGE: Surface = _Page()

_FIELDS = {option_of(name): label for name, label in FIELDS.items()} | {
    "--allow-dependent-groups": FIELDS["dependent_groups"]
}
_TICK = "Tick “everybody may know” at the column"
_PHRASES = (
    (r"`--drop` (the column|columns)", r"leave \1 out"),
    # A test file of its own is for the command line.
    (r",? or a test file with `--test`", ""),
    (r"or put the numbers into classes; as numbers, .* `--model ridge`", "or predict the numbers"),
    (
        r"Declare it with `--categories`, or by bins with bounds",
        f"{_TICK}, or give it bins with bounds",
    ),
    (r"(?:Declare it|Name them|Name all of them:?)(?: with)? `--categories[^`]*`", _TICK),
    (r"name all answers with `--categories[^`]*`", "tick “everybody may know” at the column"),
    (
        r"(?:Take `[^`]*`, or train|Train) again to be sure: `epsilens whatif --method retrain`",
        "Train again to be sure, in the terminal (method retrain)",
    ),
    (r"`--positive VALUE`", "“the answer that counts as yes”"),
    (r"`--bins [^`]*LOW:HIGH:10`", "“bins” such as 0:100:10"),
    (r"`--delimiter (?:'([^`])'|\"([^`])\")`", r"“the delimiter \1\2”"),
    # A study of the page is of finite budgets.
    (r" Use `inf` for no privacy\.", ""),
    (r" \(P1 Thm 1\)|; P1's proof does not say so", ""),
    (r"or use LogisticRegression", "or predict a column of answers"),
)
"""What a user of the command line would type, and what a reader of the page would do; in order."""


def in_page_words(message: str) -> str:
    """Say a message as a reader of the page would: fields in quotation marks, one line.

    What the page has no field for is said to be for the terminal.

    Parameters
    ----------
    message : str
        An error, a warning or a note.

    Examples
    --------
    >>> in_page_words("`missing` must be settled. Use `--missing drop`.")
    '“missing answers” must be settled. Use “missing answers: drop”.'
    >>> in_page_words("Climb to method='exact'.")
    'Climb to “method: exact” (in the terminal).'
    """
    from epsilens.show.command_words import in_command_words

    said = in_command_words(" ".join(message.split()))
    for pattern, words in _PHRASES:
        said = re.sub(pattern, words, said)

    def field(found: re.Match[str]) -> str:
        option, value = found[1], found[2]
        if option[2:].replace("-", "_") in _AT_THE_START:
            return found[0]
        known = _FIELDS.get(option)
        name = option.removeprefix("--").replace("-", " ") if known is None else known
        ends = "" if known else " (in the terminal)"
        return f"“{name}: {value}”{ends}" if value else f"“{name}”{ends}"

    return re.sub(r"`(--[a-z][a-z-]*)(?:[ =]([^`]*))?`", field, said)
