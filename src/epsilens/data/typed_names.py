# SPDX-License-Identifier: Apache-2.0
"""Lists of column names as they are typed: commas between them, quotation marks round a comma."""

from __future__ import annotations

import csv

__all__ = ["split_typed", "typed_name"]


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
    (parts,) = csv.reader([text.replace("\n", " ").replace("\r", " ")], skipinitialspace=True)
    return [part.strip() for part in parts] or [""]


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
    if "," not in text and not text.startswith('"'):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
