# SPDX-License-Identifier: Apache-2.0
"""The possible answers of protected columns that are declared, and not read off the data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from epsilens.errors import InputError, PrivacyLeakWarning

if TYPE_CHECKING:
    from epsilens.data.binning import Bins
    from epsilens.data.prepare import Prepared

__all__ = ["declared_domains", "typed_like"]


def declared_domains(
    prepared: Prepared,
    protect: Sequence[str],
    *,
    bins: Mapping[str, Bins],
    positive: str | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    warn: bool = True,
) -> dict[str, list[object]] | None:
    """Return the domains that the user declared; warn of a feature whose domain is not.

    Parameters
    ----------
    prepared : Prepared
        The data.
    protect : sequence of str
        The columns that are randomised.
    bins : mapping of str to Bins
        Those with bounds declare a domain.
    positive : str, optional
        The label's value that counts as yes: the label then has two answers, whatever the data hold.
    categories : mapping of str to sequence of str, optional
        The possible answers of columns, as they were typed.
    warn : bool
        False: whoever calls says it.

    Returns
    -------
    dict of str to list, or None
        The possible answers in the type of the column; None if nothing is declared.

    Examples
    --------
    >>> from epsilens.data import Bins, load_survey, prepare
    >>> survey = prepare(load_survey(), label="affair", bins={"age": Bins(2, 10.0, 50.0)})
    >>> declared_domains(survey, ["affair", "age"], bins={"age": Bins(2, 10.0, 50.0)})
    {'age': [20.0, 40.0]}
    """
    result: dict[str, list[object]] = {}
    label = str(prepared.y_train.name)
    for name in protect:
        if name in bins and bins[name].low is not None:
            result[name] = list(bins[name].midpoints)
    if positive is not None and label in protect:
        result[label] = list(prepared.label_categories)
    for name, given in (categories or {}).items():
        column = prepared.y_train if name == label else prepared.X_train.get(name)
        is_number = column is not None and column.dtype.kind in "iufb"
        result[name] = typed_like(given, is_number=is_number, name=name)
    for name in protect:
        if warn and name != label and name in prepared.X_train and name not in result:
            warnings.warn(
                f"the domain of {name!r} is taken from the observed values, which tells whoever sees "
                "the release which values occur. Declare it with `categories`, or by bins with bounds.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
    return result or None


def typed_like(given: Sequence[str], *, is_number: bool, name: str) -> list[object]:
    """Return typed answers in the type of their column.

    Parameters
    ----------
    given : sequence of str
        The possible answers.
    is_number : bool
        Whether the column holds numbers.
    name : str
        Of the column, for the message.

    Raises
    ------
    InputError
        If the column holds numbers and one of them is none.

    Examples
    --------
    >>> typed_like(["1", "2"], is_number=True, name="children")
    [1.0, 2.0]
    >>> typed_like(["False", "True"], is_number=True, name="smokes")
    [False, True]
    """
    if not is_number:
        return list(given)
    truths = {"true": True, "false": False}
    if all(text.casefold() in truths for text in given):
        return [truths[text.casefold()] for text in given]
    try:
        return [float(text) for text in given]
    except ValueError:
        raise InputError(
            f"`categories` of {name!r} must be numbers, like the column itself."
        ) from None
