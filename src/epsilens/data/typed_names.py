# SPDX-License-Identifier: Apache-2.0
"""Lists of column names as they are typed: commas between them, quotation marks round a comma."""

from __future__ import annotations

import csv
import io
from typing import Literal

from epsilens.errors import InputError


def split_typed(text: str, mark: Literal[",", "|"] = ",") -> list[str]:
    """Split a typed list at its marks; a part that contains one stands in double quotes.

    Parameters
    ----------
    text : str
    mark : str
        A comma between names, or a bar between answers.

    Returns
    -------
    list of str
        Names without blanks around them; answers as they are, blanks and all.

    Examples
    --------
    >>> split_typed('sex, "income, net"'), split_typed('no|"yes|often"', "|")
    (['sex', 'income, net'], ['no', 'yes|often'])
    """
    parts = text.split(mark)
    if '"' in text:
        # Names may have line breaks in them, and then more than one line is read.
        lines = csv.reader(
            io.StringIO(text, newline="\n"), delimiter=mark, skipinitialspace=mark == ","
        )
        try:
            parts = [part for line in lines for part in line] or [""]
        except csv.Error:
            raise InputError(
                f"A typed list must have its parts with `{mark}` in double quotes, got quotation marks that "
                "cannot be read. Double those inside a part."
            ) from None
    return [part.strip() for part in parts] if mark == "," else parts


def typed_name(text: str) -> str:
    """Return a name, or a pair such as `age=10`, as a typed list must hold it.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
        The same, in double quotes where `split_typed` would not read it back otherwise.

    Examples
    --------
    >>> typed_name("sex"), typed_name("income, net")
    ('sex', '"income, net"')
    """
    if not any(mark in text for mark in ",\n\r") and not text.startswith('"'):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def typed_answer(text: str) -> str:
    """Return an answer as a list with bars between its parts must hold it.

    Examples
    --------
    >>> typed_answer("no"), typed_answer("yes|often")
    ('no', '"yes|often"')
    """
    if not any(mark in text for mark in '|"\n\r'):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
