# SPDX-License-Identifier: Apache-2.0
"""Several columns randomised at once, independently of each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import FloatArray
from epsilens._validate import as_codes
from epsilens.channels.channel import Channel
from epsilens.channels.draw import released_words
from epsilens.channels.randomized_response import RandomizedResponse
from epsilens.errors import InputError, InputTypeError

LARGEST_JOINT_SIZE = 4096
LARGEST_EXACT_COLUMNS = 10
LARGEST_EXACT_SIZE = 128


@dataclass(frozen=True)
class ProductChannel:
    """Several answers of each person, each randomised by its own channel.

    The budgets of the columns add up: whoever sees all reports of a person learns at most as much
    as the sum of the columns' ε allows, and the worst case reaches that sum.

    Parameters
    ----------
    channels : sequence of Channel
        One per protected column.

    Notes
    -----
    Assumptions: neighbouring data sets differ in the answers of one person; the lists of categories are
    public; every column is randomised once, independently of the others.

    Examples
    --------
    >>> from epsilens.channels import ProductChannel, RandomizedResponse
    >>> both = ProductChannel([RandomizedResponse(2, 1.0), RandomizedResponse(5, 2.0)])
    >>> both.epsilon
    3.0
    >>> both.perturb([[0, 4], [1, 2]]).shape
    (2, 2)
    """

    channels: tuple[Channel, ...]

    def __init__(self, channels: Iterable[Channel]) -> None:
        members = tuple(channels)
        if not members:
            raise InputError("`channels` must have at least one channel, got none.")
        for member in members:
            if not isinstance(member, Channel):
                raise InputTypeError(
                    f"`channels` must be Channel objects, got {type(member).__name__}."
                )
        object.__setattr__(self, "channels", members)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column."""
        return tuple(member.k for member in self.channels)

    @property
    def epsilon(self) -> float:
        """The budget per record: the sum over the columns, attained in the worst case."""
        return math.fsum(member.epsilon for member in self.channels)

    @property
    def advantage(self) -> float:
        """The largest total variation distance between the reports of two records.

        Exact for up to ten columns of randomised response, and for up to 128 combinations of
        categories otherwise; beyond that the upper bound 1 − Π(1 − advantage of a column).

        Notes
        -----
        Leaving out a report never increases a distance, so two records that differ in every column are
        farthest apart. Under randomised response all such pairs are alike: a column reports the first
        answer, the second, or one of the k − 2 others, which are equally likely under both. The upper
        bound: couple each column's two reports so that they are equal with probability
        1 − advantage, independently; all of them are equal with the product.
        """
        responses = [m for m in self.channels if isinstance(m, RandomizedResponse)]
        if len(responses) == len(self.channels) <= LARGEST_EXACT_COLUMNS:
            one = other = np.ones(1)
            for member in responses:
                keep, lie = member.keep_probability, member.flip_probability
                rest = (member.k - 2) * lie
                one = np.outer(one, (keep, lie, rest)).ravel()
                other = np.outer(other, (lie, keep, rest)).ravel()
            return float(np.abs(one - other).sum() / 2.0)
        is_plain = all(type(member) in {Channel, RandomizedResponse} for member in self.channels)
        if is_plain and math.prod(self.sizes) <= LARGEST_EXACT_SIZE:
            return Channel(self.matrix).advantage
        return 1.0 - math.prod(1.0 - member.advantage for member in self.channels)

    @property
    def matrix(self) -> FloatArray:
        """The joint channel, the Kronecker product of the members (up to 4096 combinations).

        The last column's category changes fastest.
        """
        n_combinations = math.prod(self.sizes)
        if n_combinations > LARGEST_JOINT_SIZE:
            raise InputError(
                f"`matrix` is written out for at most {LARGEST_JOINT_SIZE} combinations of "
                f"categories, got {n_combinations}. Use `weight` instead."
            )
        joint: FloatArray = np.ones((1, 1))
        for member in self.channels:
            joint = np.kron(joint, member.matrix).astype(np.float64)
        joint.setflags(write=False)
        return joint

    def weight(self, changed: Iterable[int]) -> float:
        """Return the probability of one given alternative in which exactly these columns changed.

        With randomised response all alternatives that change the same columns are equally likely,
        so one number per set of columns describes the whole randomising.

        Parameters
        ----------
        changed : iterable of int
            Positions of the columns that changed; the others kept the truth.

        Returns
        -------
        float
            w_T(ε) = Π_{f∈T} b_f · Π_{f∉T} (a_f + b_f), for each alternative (P2 Eq. 15, in place of
            the unweighted sum of P1 Eq. 13). There are Π_{f∈T} (k_f − 1) such alternatives.

        Raises
        ------
        InputError
            If a position does not exist, or a member is not a `RandomizedResponse`.

        Examples
        --------
        >>> from epsilens.channels import ProductChannel, RandomizedResponse
        >>> both = ProductChannel([RandomizedResponse(2, 1.0), RandomizedResponse(3, 2.0)])
        >>> round(both.weight([0]), 4), round(both.weight([0, 1]), 4)
        (0.2117, 0.0286)
        """
        positions = frozenset(changed)
        if not positions <= set(range(len(self.channels))):
            raise InputError(
                f"`changed` must name columns 0 to {len(self.channels) - 1}, "
                f"got {sorted(positions)}."
            )
        weight = 1.0
        for position, member in enumerate(self.channels):
            if not isinstance(member, RandomizedResponse):
                raise InputTypeError(
                    "`weight` needs every channel to be a RandomizedResponse, got "
                    f"{type(member).__name__}. Use `matrix`: a general channel has one "
                    "probability per pair of categories."
                )
            changes = position in positions
            weight *= member.flip_probability if changes else member.keep_probability
        return weight

    def weights(self) -> dict[frozenset[int], float]:
        """Return `weight` for every set of columns, the empty set (nothing changed) first.

        Returns
        -------
        dict
            From the set of changed columns to the probability of one such alternative, ordered by
            how many columns changed.

        Examples
        --------
        >>> from epsilens.channels import ProductChannel, RandomizedResponse
        >>> both = ProductChannel([RandomizedResponse(2, 1.0), RandomizedResponse(3, 2.0)])
        >>> [sorted(changed) for changed in both.weights()]
        [[], [0], [1], [0, 1]]
        """
        positions = range(len(self.channels))
        return {
            frozenset(changed): self.weight(changed)
            for size in range(len(self.channels) + 1)
            for changed in itertools.combinations(positions, size)
        }

    def perturb(
        self, codes: ArrayLike, random_state: int | np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomise a table of true categories, column by column: the real release.

        Parameters
        ----------
        codes : array of int, shape (n, number of channels)
            True categories, one column per channel.
        random_state : None, int or numpy.random.Generator
            None: operating-system randomness. Anything else simulates, with a warning.

        Returns
        -------
        array of int64, the shape of `codes`
            The reports.

        Raises
        ------
        InputError
            If the table does not fit the channels, or a column's finite ε is above 40.

        Warns
        -----
        PrivacyLeakWarning
            If a `random_state` is given.

        Examples
        --------
        >>> import math
        >>> from epsilens.channels import ProductChannel, RandomizedResponse
        >>> ProductChannel([RandomizedResponse(2, math.inf)]).perturb([[0], [1]]).tolist()
        [[0], [1]]
        """
        table = np.asarray(codes)
        if table.ndim != 2 or table.shape[1] != len(self.channels):
            raise InputError(
                f"`codes` must have one column per channel ({len(self.channels)}), "
                f"got an array of shape {table.shape}."
            )
        columns = [
            as_codes(table[:, position], n_categories=member.k, name=f"codes[:, {position}]")
            for position, member in enumerate(self.channels)
        ]
        finite = [member.epsilon for member in self.channels if member.epsilon < math.inf]
        words = released_words(max(finite, default=math.inf), random_state)
        for member in self.channels:
            member.require_faithful_draw()
        return np.column_stack(
            [
                member.draw(column, words)
                for member, column in zip(self.channels, columns, strict=True)
            ]
        )
