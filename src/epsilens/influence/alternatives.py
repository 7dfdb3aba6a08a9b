# SPDX-License-Identifier: Apache-2.0
"""What a record could have been: its features with other values in the protected columns.

A protected column adds a known block to a record's features, one row of numbers per category. With the
block taken out, a record is a base, and every alternative is base + one row of a small table: its
linear predictor is a sum of two numbers, and no matrix of records × alternatives × features is formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.channels import LocalHashing, RandomizedResponse, UnaryEncoding
from epsilens.data.frames import to_pandas
from epsilens.errors import InputError, setting
from epsilens.models import Design


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Alternatives:
    """Records without their protected columns, and what those columns can add.

    Attributes
    ----------
    base : Design
        Features with the protected blocks at zero.
    blocks : array of shape (V, p)
        What each joint value of the protected columns adds.
    codes : array of int, shape (n,)
        The true joint value of every record.
    sizes : tuple of int
        Categories of each protected column; their product is V.
    """

    base: Design
    blocks: FloatArray
    codes: NDArray[np.int64]
    sizes: tuple[int, ...]

    def changed(self) -> NDArray[np.int64]:
        """Return for every pair of joint values which columns differ, as bits, (V, V)."""
        digits = np.array(np.unravel_index(np.arange(len(self.blocks)), self.sizes or (1,)))
        differs = digits[:, :, None] != digits[:, None, :]
        bits = 2 ** np.arange(len(digits))
        result: NDArray[np.int64] = np.einsum("f,fuv->uv", bits, differs)
        return result if self.sizes else np.zeros((1, 1), dtype=np.int64)


def no_alternatives(design: Design) -> Alternatives:
    """Return the case in which no feature is protected."""
    return Alternatives(
        base=design,
        blocks=np.zeros((1, design.n_columns)),
        codes=np.zeros(design.n_rows, dtype=np.int64),
        sizes=(),
    )


def whole_answers(columns: Sequence[tuple[NDArray[np.int64], int]], n_rows: int) -> Alternatives:
    """Return the joint answers of protected columns of a model whose features are not looked into.

    Parameters
    ----------
    columns : sequence of (codes, number of categories)
    n_rows : int

    Examples
    --------
    >>> import numpy as np
    >>> whole_answers([(np.array([0, 1]), 2), (np.array([2, 1]), 3)], 2).codes
    array([2, 4])
    """
    design = Design.from_features(np.zeros((n_rows, 0)), intercept=None)
    if not columns:
        return no_alternatives(design)
    sizes = tuple(size for _, size in columns)
    codes = np.ravel_multi_index(tuple(codes for codes, _ in columns), sizes)
    n_joint = math.prod(sizes)
    return Alternatives(design, np.zeros((n_joint, 0)), np.asarray(codes, dtype=np.int64), sizes)


# --- What each category of a protected column adds to a record's features ---

Features: TypeAlias = "FloatArray | scipy.sparse.csr_array"
Transform = Callable[[object], Features]

MOST_COMBINATIONS = 512


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class ProtectedFeature:
    """A feature column that is randomised.

    Attributes
    ----------
    name : str
    codes : array of int, shape (n,)
        Every training record's category.
    columns : array of int, shape (b,)
        The encoded columns it fills.
    rows : array of shape (d, b)
        What each category puts there.
    """

    name: str
    codes: NDArray[np.int64]
    columns: NDArray[np.intp]
    rows: FloatArray


def read_block(
    name: str,
    table: object,
    categories: Sequence[object],
    codes: NDArray[np.int64],
    transform: Transform,
    features: Features,
) -> ProtectedFeature:
    """Find the block of a column.

    Parameters
    ----------
    name : str
    table : frame or array
        The training records.
    categories : sequence
        The column's domain.
    codes : array of int, shape (n,)
        Positions in it.
    transform : callable
        From records to features.
    features : array or CSR matrix
        The transformed training records.

    Raises
    ------
    InputError
        If other columns have a say in the block.
    """
    n = len(codes)
    refuse_other_type(table, name, categories)
    blocks = []
    for row in dict.fromkeys((0, n // 2, n - 1)):
        changed = transform(_copies(table, row, name, categories))
        blocks.append(np.asarray(changed if isinstance(changed, np.ndarray) else changed.toarray()))
    moves = np.any([np.any(block != block[0], axis=0) for block in blocks], axis=0)
    columns = np.flatnonzero(moves)
    if len(columns) == 0:
        # The model does not look at it: randomising it changes nothing.
        return ProtectedFeature(name, codes, columns, np.zeros((len(categories), 0)))
    rows = blocks[0][:, columns]
    scale = 1e-9 * (1.0 + np.abs(rows).max())
    alone = all(np.abs(block[:, columns] - rows).max() <= scale for block in blocks)
    if not alone or not _only_block_moves(
        table, name, categories, codes, transform, features, columns, rows
    ):
        raise InputError(
            f"the features that column {name!r} fills depend on other columns too (an interaction, "
            "or a transformer that mixes columns), so its alternatives cannot be looked up. Encode "
            "it on its own."
        )
    return ProtectedFeature(name, codes, columns, rows)


def refuse_other_type(table: object, name: str, categories: Sequence[object]) -> None:
    """Refuse categories that the column's own type cannot hold, such as 1.9 in whole numbers."""
    import pandas as pd

    try:
        copies = to_pandas(_copies(table, 0, name, categories))[name]
        kept = all(a == b for a, b in zip(copies.tolist(), categories, strict=True))
    except (TypeError, ValueError, OverflowError):
        kept = False
    if not kept or copies.isna().any() != pd.isna(pd.Series(list(categories))).any():
        raise InputError(
            f"{setting('categories')} of {name!r} must be values of the column's own type. "
            "Convert the column, or leave out the others."
        )


def _only_block_moves(
    table: object,
    name: str,
    categories: Sequence[object],
    codes: NDArray[np.int64],
    transform: Transform,
    features: Features,
    columns: NDArray[np.intp],
    rows: FloatArray,
) -> bool:
    """Return whether every record, given another category, changes in the block and nowhere else."""
    d = len(categories)
    scale = 1e-9 * (1.0 + np.abs(rows).max())
    for shift in {0, 1, d - 1}:
        moved = (codes + shift) % d
        after = transform(with_column(table, name, [categories[code] for code in moved]))
        part = after[:, columns]
        dense = part if isinstance(part, np.ndarray) else part.toarray()
        if np.abs(dense - rows[moved]).max() > scale:
            return False
        difference = after - features
        if isinstance(difference, np.ndarray):
            others = np.delete(np.abs(difference), columns, axis=1)
            far = float(others.max(initial=0.0))
        else:
            keep = np.setdiff1d(np.arange(difference.shape[1]), columns)
            far = float(np.abs(difference[:, keep]).max()) if len(keep) else 0.0
        if far > scale:
            return False
    return True


def with_column(table: object, name: str, values: Sequence[object]) -> object:
    """Return the records with other values in one column."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        # Names need not be text: the column is found by how it is written.
        place = [str(label) for label in table.columns].index(name)
        own = table.iloc[:, place]
        changed = table.copy(deep=False)
        changed[table.columns[place]] = pd.Series(list(values), index=table.index).astype(own.dtype)
        return changed
    if isinstance(table, np.ndarray):
        array = table.copy()
        array[:, int(name.removeprefix("x"))] = values
        return array
    import polars as pl

    return table.with_columns(pl.Series(name, list(values), dtype=table.schema[name]))  # type: ignore[attr-defined]


def _copies(table: object, row: int, name: str, categories: Sequence[object]) -> object:
    """Return one record, once per category of a column."""
    import pandas as pd

    again = np.full(len(categories), row)
    copies: object
    if isinstance(table, pd.DataFrame):
        copies = table.iloc[again].reset_index(drop=True)
    else:
        copies = table[again]  # type: ignore[index]
    return with_column(copies, name, categories)


def join_blocks(design: Design, features: Sequence[ProtectedFeature]) -> Alternatives:
    """Return the alternatives that several protected columns give together.

    Raises
    ------
    InputError
        If two columns fill the same features, or the combinations are too many.
    """
    sizes = tuple(len(feature.rows) for feature in features)
    n_joint = int(np.prod(sizes))
    if n_joint > MOST_COMBINATIONS:
        raise InputError(
            f"the protected columns have {n_joint} combinations of values, and at most "
            f"{MOST_COMBINATIONS} can be followed. Protect fewer columns, or put them into bins."
        )
    position = np.full(int(max(design.kept.max(), 0)) + 1, -1)
    position[design.kept] = np.arange(design.n_columns)
    digits = np.array(np.unravel_index(np.arange(n_joint), sizes))
    blocks = np.zeros((n_joint, design.n_columns))
    filled = np.zeros(design.n_columns, dtype=bool)
    for feature, digit in zip(features, digits, strict=True):
        within = feature.columns < len(position)
        place = position[feature.columns[within]]
        here = place >= 0
        place = place[here]
        if filled[place].any():
            raise InputError(
                f"column {feature.name!r} fills the same features as another protected column, so "
                "their alternatives cannot be told apart. Encode each on its own."
            )
        filled[place] = True
        values = feature.rows[:, within][:, here]
        blocks[:, place] = ((values - design.offset[place]) / design.scale[place])[digit]
    codes = np.ravel_multi_index(tuple(feature.codes for feature in features), sizes)
    return Alternatives(
        base=design.without(np.flatnonzero(filled)),
        blocks=blocks,
        codes=np.asarray(codes, dtype=np.int64),
        sizes=sizes,
    )


# --- Other local mechanisms than randomised response, as the what-if sees them (P1 IV-C.2) ---

Mechanism = Literal["rr", "olh", "blh", "oue", "rappor", "the"]

MOST_ENUMERATED = 9
MOST_PATTERNS = 512


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
