# SPDX-License-Identifier: Apache-2.0
"""Rows on disk with missing answers: counted in one pass over the columns that may have some.

The rows themselves are left out whenever they are read, so that every pass sees the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from epsilens._types import Progress
from epsilens.data.missing import LARGEST_DROPPED_SHARE, MissingPolicy, listed_counts
from epsilens.data.parquet_pieces import ParquetSource, Piece
from epsilens.data.schema import NO_ANSWERS
from epsilens.errors import InputError
from epsilens.models.passes import Part, current_passes, reduce_pass
from epsilens.models.streamed_records import Reading, absent

__all__ = ["settle_streamed"]


def settle_streamed(
    reading: Reading,
    *,
    policy: MissingPolicy,
    where: str = "",
    progress: Progress | None = None,
) -> tuple[Reading, list[str]]:
    """Return a reading without the rows that lack an answer, and what was left out.

    A feature that nobody among the training rows has answered is left out itself, and costs no row.

    Parameters
    ----------
    reading : Reading
    policy : {"auto", "error", "drop"}
        As in `settle_missing`.
    where : str
        Added to messages, for instance " of the test data".
    progress : callable, optional

    Returns
    -------
    reading : Reading
    notes : list of str

    Raises
    ------
    InputError
        If the policy forbids what would have to be done; the message has counts and choices.
    """
    names = (
        *reading.features,
        reading.label,
        *(() if reading.weight is None else (reading.weight,)),
    )
    columns = tuple(name for name in names if reading.source.may_lack(name))
    if not columns:
        return reading, []
    part = reduce_pass(
        current_passes(),
        _MissingWork(reading.source, columns),
        reading.pieces,
        what="missing values",
        progress=progress,
    )
    n_lost, n_rows = int(part["lost"]), reading.source.n_rows
    found = {n: int(c) for n, c in zip(columns, part["counts"], strict=True) if c}
    if not found:
        return reading, []
    unanswered = [name for name in reading.features if found.get(name) == n_rows]
    if unanswered and reading.what == "training":
        answered = tuple(name for name in reading.features if name not in unanswered)
        if not answered:
            raise InputError(
                "at least one column must be left to learn from, got 0: none has any answer. Check that "
                "the table was saved completely."
            )
        rest, notes = settle_streamed(
            replace(reading, features=answered), policy=policy, where=where, progress=progress
        )
        return rest, [*notes, *(f"{name}: left out: {NO_ANSWERS}" for name in unanswered)]
    listed = listed_counts(found)
    choice = "`--drop` the columns with most of them"
    if n_lost < n_rows:
        choice = f"Choose `--missing drop`, or {choice}"
    if policy == "error":
        raise InputError(
            f"missing values are not allowed (`--missing error`), but {n_lost} of {n_rows} rows{where} "
            f"have some ({listed}). {choice}."
        )
    if n_lost == n_rows or (policy != "drop" and n_lost > LARGEST_DROPPED_SHARE * n_rows):
        raise InputError(
            f"at most {LARGEST_DROPPED_SHARE:.0%} of the rows may have missing values, but {n_lost} of "
            f"{n_rows}{where} do ({listed}). {choice}."
        )
    note = f"{n_lost} of {n_rows} rows{where} were dropped for missing values ({listed})"
    return replace(reading, complete=tuple(found)), [note]


@dataclass(frozen=True)
class _MissingWork:
    """How many rows of a piece lack each column, and any of them."""

    source: ParquetSource
    columns: tuple[str, ...]

    def __call__(self, piece: Piece) -> Part:
        counts, lost = np.zeros(len(self.columns), dtype=np.int64), 0
        for _, table in self.source.batches(piece, self.columns):
            masks = np.array([absent(table.column(name)) for name in self.columns])
            counts += masks.sum(axis=1)
            lost += int(masks.any(axis=0).sum())
        return {"counts": counts, "lost": np.array(lost)}
