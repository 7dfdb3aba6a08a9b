# SPDX-License-Identifier: Apache-2.0
"""The groups whose answers would be randomised, and the check that membership tells nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray
from epsilens._validate import as_mask, require_column, require_unique
from epsilens.data.expressions import QUOTE_TEXT, parse_expression
from epsilens.data.frames import to_pandas, to_vector
from epsilens.document.wording import EVERYBODY, joined_name
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning, phrase, setting
from epsilens.notes import Note

Counts = NDArray[np.int64]

# A group of one answer only is refused if chance would do it once in a million, and worth a warning
# if once in twenty times.
_CHANCE = 1e-6
_PLAUSIBLE = 0.05
# A group that is the answer but for a few records is the answer.
_NEARLY_ALL = 0.98


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Group:
    """A named set of training rows.

    Attributes
    ----------
    name : str
    mask : array of bool, shape (n,)
    columns : frozenset of str
        The columns its expression mentions; empty for a mask.
    test_mask : array of bool, shape (m,), optional
        Its members among the test rows, for the gaps; known for an expression.
    parts : tuple of Group
        The disjoint groups it is made of, each randomised at its own ε; empty for a group at one ε.
    """

    name: str
    mask: BoolArray
    columns: frozenset[str]
    test_mask: Any = None
    parts: tuple[Group, ...] = ()

    @property
    def size(self) -> int:
        """How many training rows it has."""
        return int(self.mask.sum())

    @property
    def members(self) -> tuple[Group, ...]:
        """The groups at one ε each that it is made of: itself, unless it has parts."""
        return self.parts or (self,)


def read_groups(
    groups: Mapping[str, object] | None, *, table: object, test_table: object, n_rows: int
) -> list[Group]:
    """Read masks and expressions; none given means one group, "all".

    Parameters
    ----------
    groups : mapping of name to mask or expression, or None
    table, test_table : frame
        The training and test features, for expressions.
    n_rows : int
    """
    if groups is None:
        return [Group(name=EVERYBODY, mask=np.ones(n_rows, dtype=bool), columns=frozenset())]
    result = []
    named = named_groups(groups, "a mask or an expression", example='{"women": mask}')
    for name, value in named.items():
        test_mask = None
        if isinstance(value, str):
            expression = parse_expression(value)
            frame = to_pandas(table)
            for column in expression.columns:
                require_column(column, frame.columns, argument=f"group {name}", advice=QUOTE_TEXT)
            mask, columns = expression.mask(frame), expression.columns
            test_mask = expression.mask(to_pandas(test_table))
        elif isinstance(value, Group):
            mask, columns, test_mask = value.mask, value.columns, value.test_mask
        else:
            mask, columns = _as_booleans(value), frozenset()
        checked = as_mask(mask, name=name, n_rows=n_rows)
        require_everybody(name, int(checked.sum()), n_rows=n_rows)
        result.append(Group(name, checked, columns, test_mask))
    return result


def join_groups(groups: Sequence[Group]) -> Group:
    """Return disjoint groups as one whose parts are randomised at once, each at its own ε.

    Raises
    ------
    InputError
        If a training row is in two of the groups.

    Examples
    --------
    >>> import numpy as np
    >>> one = Group("women", np.array([True, False, False]), frozenset())
    >>> other = Group("men", np.array([False, True, False]), frozenset())
    >>> joined = join_groups([one, other])
    >>> joined.name, joined.size
    ('women + men', 2)
    """
    for place, one in enumerate(groups):
        for other in groups[place + 1 :]:
            require_disjoint(one.name, other.name, int((one.mask & other.mask).sum()))
    known = [group.test_mask for group in groups if group.test_mask is not None]
    return Group(
        name=joined_name([group.name for group in groups]),
        mask=np.any([group.mask for group in groups], axis=0),
        columns=frozenset().union(*(group.columns for group in groups)),
        test_mask=np.any(known, axis=0) if len(known) == len(groups) else None,
        parts=tuple(groups),
    )


def require_disjoint(one: str, other: str, n_shared: int) -> None:
    """Refuse two groups that share training rows: nobody can have two ε."""
    if n_shared:
        raise InputError(
            f"groups that are randomised together must not overlap, but {n_shared} training rows are in "
            f"both {one!r} and {other!r}. Give every row to one group."
        )


def named_groups(groups: object, kinds: str, *, example: str) -> dict[str, object]:
    """Return groups by their names, which are text; refuse what is none, or names nobody."""
    if not isinstance(groups, Mapping):
        raise InputTypeError(
            argument="groups",
            expected=f"a mapping from a name to {kinds}",
            got=type(groups).__name__,
            hint=f"Write groups={example}.",
        )
    if not groups:
        raise InputError(
            f"{setting('groups')} must name at least one group, got none. Use None for everybody."
        )
    require_unique((str(name) for name in groups), what="group names")
    return {str(name): value for name, value in groups.items()}


def require_everybody(name: str, size: int, *, n_rows: int) -> None:
    """Refuse a group that has the name of everybody and lacks a training row."""
    if name == EVERYBODY and size < n_rows:
        raise InputError(
            f"group {EVERYBODY!r} must have every training row, {n_rows}, got {size}: its name means "
            "everybody. Choose another name."
        )


def _as_booleans(value: object) -> BoolArray:
    mask = to_vector(value)
    if mask.dtype == object and all(isinstance(entry, bool | np.bool_) for entry in mask.tolist()):
        mask = mask.astype(bool)
    return mask  # type: ignore[return-value]


def refuse_dependence(
    groups: Sequence[tuple[str, frozenset[str], Counts, Counts]],
    *,
    protected: str,
    action: Literal["refuse", "warn"],
) -> list[Note]:
    """Refuse, or warn of, groups whose membership gives the protected answer away.

    If who belongs to S is known and depends on the protected column, membership reveals that column
    whatever ε is. Refused are an expression over the protected column, a mask that separates the
    answers but for a few records, and one within which, or outside which, everybody gives the same
    answer although chance would hardly do that.

    Parameters
    ----------
    groups : sequence of (name, columns, inside, outside)
        How often each answer is given in a group, and outside it.
    protected : str
        The column.
    action : {"refuse", "warn"}

    Returns
    -------
    list of Note
        The warnings given.
    """
    said: list[Note] = []
    for name, columns, inside, outside in groups:
        certain = True
        if protected in columns:
            why = f"its expression reads the protected column {protected!r}"
        elif (verdict := _what_membership_tells(inside, outside)) is not None:
            why = f"{verdict[0]} the same {protected!r}"
            certain = verdict[1]
        else:
            continue
        text = (
            f"group {name!r} depends on what it protects: {why}. Whoever knows the members "
            "then knows the answer, whatever epsilon is."
        )
        if not certain:
            text = f"group {name!r}: {why}, if only by chance. Whoever knows that knows it all."
        elif action == "refuse":
            raise InputError(
                f"{text} Choose the group by other columns, or "
                f"{phrase('pass', command='add', page='tick')} {setting('dependent_groups', 'warn')} "
                "to look anyway."
            )
        said.append(Note("dependent-group", text, f"{name} {protected}"))
        said[-1].warn(PrivacyLeakWarning, stacklevel=6)
    return said


def by_label(group: Group, codes: NDArray[np.int64]) -> tuple[Counts, Counts]:
    """Return how often each answer is given in a group, and how often outside it."""
    k = int(codes.max(initial=0)) + 1
    inside = np.bincount(codes[group.mask], minlength=k)
    return inside, np.bincount(codes, minlength=k) - inside


def _what_membership_tells(inside: Counts, outside: Counts) -> tuple[str, bool] | None:
    """Return who gives the same answer, and whether that is more than chance; None if nobody."""
    # Not at the top: it takes a second to load, and a site of a federation has no groups.
    from scipy.stats import hypergeom

    if inside.sum() == 0 or outside.sum() == 0:
        return None
    purities = [float(counts.max() / counts.sum()) for counts in (inside, outside)]
    if inside.argmax() != outside.argmax() and min(purities) >= _NEARLY_ALL:
        return "nearly everybody in it, and nearly nobody outside it, has", True
    total = inside + outside
    for counts, share, who in zip((inside, outside), purities, ("in", "outside"), strict=True):
        if share < 1.0:
            continue
        size = int(counts.sum())
        of_that_answer = int(total[counts.argmax()])
        chance = float(hypergeom.pmf(size, int(total.sum()), of_that_answer, size))
        if chance < _PLAUSIBLE:
            return f"everybody {who} it has", chance < _CHANCE
    return None


def is_associated(mask: BoolArray, codes: NDArray[np.int64]) -> bool:
    """Return whether membership and answer go together more than chance (1e-4) explains.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.arange(400) % 2
    >>> is_associated(np.arange(400) < 200, answers), is_associated(answers == 1, answers)
    (False, True)
    """
    from scipy.stats import chi2_contingency

    if mask.all():
        return False
    k = int(codes.max()) + 1
    table = np.stack([np.bincount(codes[part], minlength=k) for part in (mask, ~mask)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        return False
    return bool(chi2_contingency(table).pvalue < 1e-4)
