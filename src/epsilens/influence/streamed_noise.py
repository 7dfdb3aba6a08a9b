# SPDX-License-Identifier: Apache-2.0
"""Groups of records on disk: their sums by label, and the drawn changes of their labels.

One pass gives the sums of all groups; they are kept, so that another ε, or another question about the same
groups, costs no pass at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens._validate import require_column
from epsilens.data.expressions import QUOTE_TEXT, Expression, parse_expression
from epsilens.data.parquet_pieces import Piece
from epsilens.document.wording import EVERYBODY
from epsilens.errors import InputTypeError
from epsilens.influence.groups import Group, named_groups
from epsilens.influence.label_noise import Changes, LabelNoise, means_of, sum_changes, sum_group
from epsilens.models import Problem
from epsilens.models.passes import Part, added, reduce_pass
from epsilens.models.solver import LinearObjective
from epsilens.models.streamed_problem import StreamedProblem, TrainingRows
from epsilens.models.streamed_records import StreamedRows


@dataclass(frozen=True, repr=False)
class StreamedGroup(Group):
    """A named group of records that are read again at every pass; its `mask` is empty.

    Attributes
    ----------
    test_mask : int or None
        Its place among the groups that the test set looks at; None for everybody, who has no gap.
    expression : Expression or None
        None: everybody.
    size : int
        Training records in it.
    """

    expression: Expression | None = None
    size: int = 0

    @property
    def key(self) -> str:
        """What tells its members from those of another group."""
        return "" if self.expression is None else self.expression.text


@dataclass(frozen=True, repr=False)
class StreamedLabelNoise(LabelNoise):
    """The sums of a group whose records are on disk; `mask` and `codes` are empty.

    Attributes
    ----------
    rows : TrainingRows or None
        The records, with the group as the only one.
    members : array of int, shape (n_pieces,)
        How many of its records each piece holds.
    """

    rows: TrainingRows | None = None
    members: NDArray[np.int64] | None = None

    def pull_changes(
        self, problem: LinearObjective, changes: Changes, *, direction: FloatArray | None = None
    ) -> FloatArray:
        """Return how far changed labels move the linear term, (n_slots, K·p), or along v."""
        assert isinstance(problem, StreamedProblem)  # noqa: S101
        assert self.rows is not None  # noqa: S101
        assert self.members is not None  # noqa: S101
        ends = np.cumsum(self.members)
        pieces = self.rows.reading.pieces
        tasks = [
            (piece, changes.between(int(end - size), int(end)))
            for piece, size, end in zip(pieces, self.members, ends, strict=True)
        ]
        # A piece without a change is not read.
        tasks = [task for task in tasks if len(task[1].record)]
        width = 1 if direction is not None else problem.n_parameters
        if not tasks:
            return np.zeros((changes.n_slots, width))
        work = _ChangeWork(self.rows, self.statistics, direction)
        part = reduce_pass(work, tasks, what="drawn changes", progress=problem.progress)
        moved: FloatArray = part["moved"] / problem.n_rows
        return moved


@dataclass(frozen=True, repr=False)
class _ChangeWork:
    """What the drawn changes of a piece's records pull."""

    rows: TrainingRows
    statistics: FloatArray
    direction: FloatArray | None

    def __call__(self, task: tuple[Piece, Changes]) -> Part:
        piece, changes = task
        total: Part = {}
        first = 0
        for records in self.rows.reading.records(piece):
            members = np.flatnonzero(records.masks[0])
            own = changes.between(first, first + len(members))
            first += len(members)
            if len(own.record) == 0:
                continue
            moved = sum_changes(
                self.rows.problem(records),
                records.codes,
                self.statistics,
                members,
                own,
                direction=self.direction,
            )
            total = added(total, {"moved": moved})
        return total


def read_streamed_groups(
    groups: Mapping[str, object] | None, columns: Sequence[str]
) -> list[StreamedGroup]:
    """Return the groups, by their expressions; none given means everybody."""
    if groups is None:
        return [StreamedGroup(EVERYBODY, np.zeros(0, dtype=bool), frozenset())]
    named = named_groups(groups, "an expression", example='{"women": \'sex == "F"\'}')
    result = []
    for place, (name, value) in enumerate(named.items()):
        if not isinstance(value, str | Expression):
            raise InputTypeError(
                f"group {name!r} must be an expression while the table is streamed, got "
                f"{type(value).__name__}. Write it in words, such as 'age < 30'."
            )
        expression = value if isinstance(value, Expression) else parse_expression(value)
        for column in sorted(expression.columns):
            require_column(column, columns, argument=f"group {name}", advice=QUOTE_TEXT)
        nobody = np.zeros(0, dtype=bool)
        result.append(StreamedGroup(name, nobody, expression.columns, place, expression=expression))
    return result


def with_groups(rows: TrainingRows, groups: Sequence[Any]) -> TrainingRows:
    """Return training rows that say who belongs to each group."""
    expressions = tuple(group.expression for group in groups)
    return replace(rows, reading=replace(rows.reading, groups=expressions))


def sum_groups(
    problem: StreamedProblem, groups: Sequence[StreamedGroup], statistics: FloatArray
) -> list[StreamedLabelNoise]:
    """Sum all groups' records by label, in one pass.

    Parameters
    ----------
    problem : StreamedProblem
    groups : sequence of StreamedGroup
    statistics : array of shape (k, K)
    """
    looking = replace(problem, rows=with_groups(problem.rows, groups))
    n_pieces = len(problem.rows.reading.pieces)
    part = looking.sum(_group_sums, len(statistics), n_pieces, what="group sums")
    nobody = np.zeros(0, dtype=np.int64)
    members = part.pop("members")
    return [
        StreamedLabelNoise(
            mask=nobody.astype(bool),
            codes=nobody,
            statistics=statistics,
            rows=with_groups(problem.rows, [group]),
            members=members[:, g],
            **means_of({name: sums[g] for name, sums in part.items()}, problem.n_rows),
        )
        for g, group in enumerate(groups)
    ]


def _group_sums(problem: Problem, records: StreamedRows, k: int, n_pieces: int) -> Part:
    sums = [sum_group(problem, records.codes, k, mask, with_grams=True) for mask in records.masks]
    part = {name: np.array([one[name] for one in sums]) for name in sums[0]}
    members = np.zeros((n_pieces, len(sums)), dtype=np.int64)
    members[records.piece] = part["counts"].sum(axis=1)
    return {**part, "members": members}
