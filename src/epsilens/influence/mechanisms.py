# SPDX-License-Identifier: Apache-2.0
"""Other local mechanisms than randomised response, as the what-if sees them (P1 IV-C.2).

Local hashing (OLH, BLH) is decoded to a value, so it is randomised response at a smaller effective ε; the
budget spent is still ε. Unary encodings (OUE, RAPPOR, THE) report a bit for every category: a model linear
in the one-hot columns takes the noised bits as they are, and the alternatives are patterns of bits, all of
them for a few categories, a sample of them for many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_choice
from epsilens.channels import LocalHashing, RandomizedResponse, UnaryEncoding
from epsilens.errors import InputError
from epsilens.influence.alternatives import Alternatives, ProtectedFeature
from epsilens.models import Design

__all__ = ["Mechanism", "UnaryBlock", "as_mechanism", "channel_of"]

Mechanism = Literal["rr", "olh", "blh", "oue", "rappor", "the"]

MOST_ENUMERATED = 9
MOST_PATTERNS = 512


def as_mechanism(value: object) -> Mechanism:
    """Return a checked mechanism."""
    return as_choice(value, get_args(Mechanism), name="mechanism")  # type: ignore[return-value]


def channel_of(mechanism: Mechanism, k: int, epsilon: float) -> RandomizedResponse:
    """Return the channel over k values, as randomised response with the same matrix.

    Examples
    --------
    >>> round(channel_of("olh", 16, 3.0).epsilon, 2)
    2.18
    """
    if mechanism == "rr":
        return RandomizedResponse(k, epsilon)
    if mechanism not in {"olh", "blh"}:
        raise InputError(
            f"mechanism={mechanism!r} reports a bit per category and is for one-hot features. "
            "Protect the label by 'rr'."
        )
    if math.isinf(epsilon):
        raise InputError(
            f"mechanism={mechanism!r} never reports the plain truth, so epsilon must be finite. Leave "
            "out inf, or use 'rr'."
        )
    hashed = LocalHashing(k, epsilon, kind=mechanism)
    return RandomizedResponse(k, hashed.effective_epsilon)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class UnaryBlock:
    """A one-hot feature that is reported bit by bit.

    Attributes
    ----------
    kind : {"oue", "rappor", "the"}
    feature : ProtectedFeature
    patterns : array of bool, shape (V, d)
        The reports that are followed: all, or a sample.
    is_sampled : bool
    """

    kind: str
    feature: ProtectedFeature
    patterns: BoolArray
    is_sampled: bool

    @classmethod
    def of(cls, kind: str, feature: ProtectedFeature, *, epsilon: float, seed: int) -> UnaryBlock:
        """Choose the patterns.

        Raises
        ------
        InputError
            If the feature is not one-hot with a column for every category.
        """
        rows = feature.rows
        d = len(rows)
        one_hot = rows.shape == (d, d) and set(np.unique(rows)) <= {0.0, 1.0}
        if not one_hot or not (rows.sum(axis=0) == 1).all() or not (rows.sum(axis=1) == 1).all():
            raise InputError(
                f"mechanism={kind!r} noises the bits of a one-hot column, but {feature.name!r} is "
                "not encoded with a column for every category. Use OneHotEncoder(drop=None)."
            )
        if d <= MOST_ENUMERATED:
            codes = np.arange(2**d)[:, None]
            patterns = (codes >> np.arange(d)) & 1 == 1
            return cls(kind, feature, patterns, is_sampled=False)
        encoding = UnaryEncoding(d, epsilon, kind=kind)  # type: ignore[arg-type]
        truth = np.repeat(np.arange(d), max(8, MOST_PATTERNS // d))
        bits = np.random.default_rng(seed).random((len(truth), d))
        ones = np.where(truth[:, None] == np.arange(d), encoding.p, encoding.q)
        return cls(kind, feature, bits < ones, is_sampled=True)

    def joint(self, epsilon: float) -> FloatArray:
        """Return the probability of every pattern for every category, (d, V)."""
        d = self.patterns.shape[1]
        if self.is_sampled:
            each = len(self.patterns) // d
            return np.kron(np.eye(d), np.full((1, each), 1 / each)).astype(np.float64)
        encoding = UnaryEncoding(d, epsilon, kind=self.kind)  # type: ignore[arg-type]
        ones = np.where(np.eye(d, dtype=bool), encoding.p, encoding.q)  # (truth, bit)
        chances = np.where(self.patterns[None], ones[:, None, :], 1.0 - ones[:, None, :])
        joint: FloatArray = chances.prod(axis=2)
        return joint

    def alternatives(self, design: Design, patterns: BoolArray | None = None) -> Alternatives:
        """Return the alternatives of the design whose block holds patterns of bits."""
        bits = (self.patterns if patterns is None else patterns).astype(np.float64)
        raw = bits @ self.feature.rows
        position = {int(column): place for place, column in enumerate(design.kept)}
        blocks = np.zeros((len(bits), design.n_columns))
        filled = []
        for j, column in enumerate(self.feature.columns):
            place = position.get(int(column))
            if place is None:
                raise InputError(
                    "mechanism for bits needs every one-hot column in the model, but some are "
                    "dependent without a penalty. Add regularisation."
                )
            blocks[:, place] = (raw[:, j] - design.offset[place]) / design.scale[place]
            filled.append(place)
        return Alternatives(
            base=design.without(np.array(filled, dtype=np.intp)),
            blocks=blocks,
            codes=self.feature.codes,
            sizes=(len(self.feature.rows),),
        )
