# SPDX-License-Identifier: Apache-2.0
"""Lists of column names as they are typed: commas between them, quotation marks round a comma."""

from __future__ import annotations

import csv
import io

from epsilens.errors import InputError


def split_typed(text: str) -> list[str]:
    """Split a typed list at its commas; a part that contains one stands in double quotes.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Without blanks around them.

    Examples
    --------
    >>> split_typed('sex, "income, net"')
    ['sex', 'income, net']
    """
    return [part.strip() for part in _split(text, ",")]


def split_answers(text: str) -> list[str]:
    """Split typed answers at the bars between them; one that contains a bar stands in double quotes.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        As they are, blanks and all.

    Examples
    --------
    >>> split_answers('no|"yes|often"')
    ['no', 'yes|often']
    """
    return _split(text, "|")


def _split(text: str, mark: str) -> list[str]:
    if '"' not in text:
        return text.split(mark)
    # Names may have line breaks in them, and then more than one line is read.
    lines = csv.reader(
        io.StringIO(text, newline="\n"), delimiter=mark, skipinitialspace=mark == ","
    )
    try:
        return [part for parts in lines for part in parts] or [""]
    except csv.Error:
        raise InputError(
            f"A typed list must have its parts with `{mark}` in double quotes, got quotation marks that "
            "cannot be read. Double those inside a part."
        ) from None


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
