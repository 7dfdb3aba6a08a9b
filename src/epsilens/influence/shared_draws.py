# SPDX-License-Identifier: Apache-2.0
"""Randomised answers that share their randomness over ε.

Per record, protected column and draw there is one uniform number U and one uniform category V. At ε the record
reports V if U exceeds a_ε = (e^ε − 1)/(e^ε + k − 1), and the true answer otherwise. The truth is then reported with
probability a_ε + (1 − a_ε)/k, which is k-ary randomised response at every single ε. As ε falls a_ε falls, so
reports only change away from the truth, and never twice: the outcomes of one draw are a curve over ε that moves by
few records at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.channels import RandomizedResponse
from epsilens.influence.alternatives import with_column
from epsilens.influence.any_model import AnyModel
from epsilens.influence.groups import Group
from epsilens.influence.question import Asked


@dataclass(frozen=True, repr=False)  # with the reports it gives records away
class SharedDraw:
    """The randomness of one run.

    Attributes
    ----------
    uniforms : array of shape (n_columns, n)
        U of every protected column: the features in their order, the label last.
    categories : array of int, shape (n_columns, n)
        V.
    seed : int
        Seed of the model's own random numbers.
    """

    uniforms: FloatArray
    categories: NDArray[np.int64]
    seed: int


def column_sizes(asked: Asked) -> tuple[int, ...]:
    """Return the number of answers of each protected column, the label last."""
    sizes = [len(domain.categories) for domain in asked.features]
    if asked.label_is_protected:
        sizes.append(len(asked.label.domain()[1]))
    return tuple(sizes)


def draw_one(sizes: Sequence[int], n_rows: int, seed: np.random.SeedSequence) -> SharedDraw:
    """Return a draw that is independent of all others."""
    generator = np.random.default_rng(seed)
    uniforms = generator.random((len(sizes), n_rows))
    categories = np.stack([generator.integers(0, k, n_rows) for k in sizes])
    return SharedDraw(uniforms, categories, int(generator.integers(0, 2**31 - 1)))


def draw_spread(
    sizes: Sequence[int], n_rows: int, n_draws: int, seed: np.random.SeedSequence
) -> list[SharedDraw]:
    """Return draws of which each is as independent ones are, and which together spread evenly.

    The unit interval is cut into n_draws equal parts. A record's uniform numbers come from different parts, in
    random order. Its categories follow one another, or come from different parts of the categories where there are
    more categories than draws. A single draw has independent uniform numbers. Between draws the numbers of a record
    are negatively correlated: the number of draws in which it is changed hardly varies, and the mean over the draws
    varies less than that of independent draws.

    Examples
    --------
    >>> import numpy as np
    >>> draws = draw_spread([2], 1000, 4, np.random.SeedSequence(0))
    >>> changed = np.sum([draw.uniforms[0] > 0.5 for draw in draws], axis=0)
    >>> int(changed.min()), int(changed.max())
    (2, 2)
    """
    generator = np.random.default_rng(seed)
    shape = (n_draws, len(sizes), n_rows)
    order = np.argsort(generator.random(shape), axis=0)
    uniforms = (order + generator.random(shape)) / n_draws
    first = np.stack([generator.integers(0, k, n_rows) for k in sizes])
    # Which category a draw gets is drawn apart from its uniform number.
    shift = np.argsort(generator.random(shape), axis=0)
    seeds = generator.integers(0, 2**31 - 1, n_draws)
    n_categories = np.array(sizes)[:, None]
    # Of many categories, those that follow one another are alike where they are ordered, as ages are.
    spread = ((shift + generator.random(shape)) * n_categories / n_draws).astype(np.int64)
    categories = np.where(
        n_categories > n_draws,
        np.minimum(spread, n_categories - 1),
        (first + shift) % n_categories,
    )
    return [SharedDraw(uniforms[d], categories[d], int(seeds[d])) for d in range(n_draws)]


def keep_levels(asked: Asked, group: Group, e: int, n_rows: int) -> FloatArray:
    """Return a_ε of every record and protected column at the e-th ε, (n_columns, n); the label is the last.

    Whoever is not in the group has 1, and reports the truth.
    """
    levels = np.ones((len(column_sizes(asked)), n_rows))
    for part in asked.channels(group, e):
        channels = [] if part.features is None else list(part.features.channels)
        if part.label is not None:
            channels.append(part.label)
        for column, channel in enumerate(channels):
            assert isinstance(channel, RandomizedResponse)  # noqa: S101  (others are refused)
            levels[column, part.group.mask] = channel.a
    return levels


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Reported:
    """What a model is trained on at one ε in one draw.

    Attributes
    ----------
    y : array of shape (n,)
        The class of every record as a number, or the target of a regression.
    table : frame, array or None
        The records with the reported answers in protected columns; None: as they are.
    """

    y: FloatArray | NDArray[np.int64]
    table: object | None


def report(model: AnyModel, asked: Asked, draw: SharedDraw, levels: FloatArray) -> Reported:
    """Return what everybody reports.

    Parameters
    ----------
    model : AnyModel
    asked : Asked
    draw : SharedDraw
    levels : array of shape (n_columns, n)
        a_ε of every record and protected column, the label last.
    """
    table: object | None = None
    changes = draw.uniforms > levels
    for domain, changed, categories in zip(asked.features, changes, draw.categories, strict=False):
        codes = np.where(changed, categories, domain.codes)
        values = np.empty(len(domain.categories), dtype=object)
        values[:] = list(domain.categories)
        table = with_column(
            model.table if table is None else table, domain.name, values[codes].tolist()
        )
    y: FloatArray | NDArray[np.int64] = model.label.y
    if asked.label_is_protected:
        truth, values_of_label = asked.label.domain()
        codes = np.where(changes[-1], draw.categories[-1], truth)
        y = codes if model.is_classifier else values_of_label[codes]
    return Reported(y, table)
