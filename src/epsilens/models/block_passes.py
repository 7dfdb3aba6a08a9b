# SPDX-License-Identifier: Apache-2.0
"""Blocks of models that are trained wherever passes are carried, and kept where the caller is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from numpy.typing import NDArray

from epsilens.models.block_store import BlockStore
from epsilens.models.passes import under_way

__all__ = ["made_or_kept"]

Task = TypeVar("Task")


def made_or_kept(
    store: BlockStore,
    work: Callable[[Task], NDArray[Any]],
    tasks: Mapping[int, Task],
    *,
    name: str,
) -> Iterator[NDArray[Any]]:
    """Yield the array of every block, in order: from the store where it is there, else made and kept.

    Blocks are made by whoever carries passes now, on this machine or on a cluster; files are written
    here only.

    Parameters
    ----------
    store : BlockStore
    work : callable
        From a task to the array of its block; can be pickled, and is pure.
    tasks : mapping of block number to task
    name : str
        Of the array in the store.

    Examples
    --------
    >>> import numpy as np
    >>> store = BlockStore(None, {})
    >>> [made.tolist() for made in made_or_kept(store, np.arange, {0: 2, 1: 3}, name="numbers")]
    [[0, 1], [0, 1, 2]]
    """
    known = store.done
    todo = [task for number, task in tasks.items() if number not in known]
    with under_way(work, todo) as fresh:
        for number in tasks:
            if number in known:
                yield store.read(number)[name]
            else:
                made = next(fresh)
                store.write(number, {name: made})
                yield made
