# SPDX-License-Identifier: Apache-2.0
"""The groups whose answers would be randomised, and the check that membership tells nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from epsilens._validate import as_mask, require_column
from epsilens.data.expressions import parse_expression
from epsilens.data.frames import to_pandas, to_vector
from epsilens.document import EVERYBODY
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning

__all__ = ["Group", "read_groups", "refuse_dependent_groups"]

# A group of one answer only is taken for chance unless chance would do it once in a million.
_CHANCE = 1e-6


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Group:
    """A named set of training rows.

    Attributes
    ----------
    name : str
    mask : array of bool, shape (n,)
    columns : frozenset of str
        The columns its expression mentions; empty for a mask.
    """

    name: str
    mask: NDArray[np.bool_]
    columns: frozenset[str]


def read_groups(groups: Mapping[str, object] | None, *, table: object, n_rows: int) -> list[Group]:
    """Read masks and expressions; none given means one group, "all".

    Parameters
    ----------
    groups : mapping of name to mask or expression, or None
    table : frame
        The training features, for expressions.
    n_rows : int
    """
    if groups is None:
        return [Group(name=EVERYBODY, mask=np.ones(n_rows, dtype=bool), columns=frozenset())]
    if not isinstance(groups, Mapping):
        raise InputTypeError(
            "`groups` must be a mapping from a name to a mask or an expression, got "
            f'{type(groups).__name__}. Write groups={{"women": mask}}.'
        )
    if not groups:
        raise InputError("`groups` must name at least one group, got none. Use None for everybody.")
    result = []
    for name, value in groups.items():
        if isinstance(value, str):
            expression = parse_expression(value)
            frame = to_pandas(table)
            for column in expression.columns:
                require_column(column, frame.columns, argument=f"group {name}")
            mask, columns = expression.mask(frame), expression.columns
        elif isinstance(value, Group):
            mask, columns = value.mask, value.columns
        else:
            mask, columns = _as_booleans(value), frozenset()
        result.append(
            Group(
                name=str(name), mask=as_mask(mask, name=str(name), n_rows=n_rows), columns=columns
            )
        )
    return result


def _as_booleans(value: object) -> NDArray[np.bool_]:
    mask = to_vector(value)
    if mask.dtype == object and all(isinstance(entry, bool | np.bool_) for entry in mask.tolist()):
        mask = mask.astype(bool)
    return mask  # type: ignore[return-value]


def refuse_dependent_groups(
    groups: list[Group],
    codes: NDArray[np.int64],
    *,
    protected: str,
    action: Literal["refuse", "warn", "allow"],
) -> list[str]:
    """Refuse, or warn of, groups whose membership gives the protected answer away.

    If who belongs to S is known and depends on the protected column, membership reveals that column
    whatever ε is. Refused are an expression over the protected column, and a mask within which, or
    outside which, everybody gives the same answer although chance would hardly do that.

    Returns
    -------
    list of str
        The warnings given.
    """
    said = []
    for group in groups:
        if protected in group.columns:
            why = f"its expression reads the protected column {protected!r}"
        elif _tells_the_answer(group.mask, codes):
            why = f"everybody in it, or everybody outside it, has the same {protected!r}"
        else:
            continue
        text = (
            f"group {group.name!r} depends on what it protects: {why}. Whoever knows the members "
            "then knows the answer, whatever epsilon is."
        )
        if action == "refuse":
            raise InputError(
                f"{text} Choose the group by other columns, or pass dependent_groups='warn' to "
                "look anyway."
            )
        said.append(text)
        if action == "warn":
            warnings.warn(text, PrivacyLeakWarning, stacklevel=4)
    return said


def _tells_the_answer(mask: NDArray[np.bool_], codes: NDArray[np.int64]) -> bool:
    n = len(codes)
    for part in (mask, ~mask):
        size = int(part.sum())
        if size in {0, n}:
            continue
        counts = np.bincount(codes[part], minlength=int(codes.max()) + 1)
        if np.count_nonzero(counts) != 1:
            continue
        answer = int(counts.argmax())
        chance = float(hypergeom.pmf(size, n, int(np.sum(codes == answer)), size))
        if chance < _CHANCE:
            return True
    return False
