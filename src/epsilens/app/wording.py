# SPDX-License-Identifier: Apache-2.0
"""Messages in the words of the page: what is chosen there has a name, not an option."""

from __future__ import annotations

import re

__all__ = ["WITHHELD", "in_page_words"]

WITHHELD = (
    "a message is withheld because it may name columns, groups or answers. Start without "
    "`--anonymous` to read it."
)

_FIELDS = {
    "--label": "the column to predict",
    "--protect": "the columns to randomise",
    "--positive": "the answer that counts as yes",
    "--group": "the group",
    "--drop": "leave out",
    "--missing": "missing answers",
    "--categorical": "treat as categories",
    "--bins": "bins",
    "--epsilon": "the budgets",
    "--delimiter": "the delimiter",
    "--encoding": "the encoding",
    "--max-loss-increase": "the largest rise of the loss",
    "--max-attack-rate": "the largest attack rate",
    "--shadow-models": "the number of attacked models",
    "--seed": "the seed",
    "--test-share": "the share set aside for testing",
    "--allow-dependent-groups": "allow groups that give the answer away",
}


def in_page_words(message: str) -> str:
    """Say a message as a reader of the page would: fields in quotation marks, one line.

    Parameters
    ----------
    message : str
        An error, a warning or a note.

    Examples
    --------
    >>> in_page_words("`missing` must be settled. Use `--missing drop`.")
    '“missing answers” must be settled. Use “missing answers: drop”.'
    """
    from epsilens.cli.wording import in_command_words

    said = in_command_words(" ".join(message.split()))
    names = "|".join(map(re.escape, sorted(_FIELDS, key=len, reverse=True)))

    def field(found: re.Match[str]) -> str:
        value = found[2]
        return f"“{_FIELDS[found[1]]}: {value}”" if value else f"“{_FIELDS[found[1]]}”"

    return re.sub(rf"`({names})(?:[ =]([^`]*))?`", field, said)
