# SPDX-License-Identifier: Apache-2.0
"""The matrix a linear model is trained on, with the four products that everything is made of.

Rows are visited in chunks that fit the cache; no matrix of rows × rows or of training × test rows is
ever formed. Dense and sparse matrices have the same four methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import InputError

_CHUNK_BYTES = 1 << 20
_ALL_ROWS = slice(None)
# Past this many columns the products of sparse rows beat those of dense chunks.
_WIDE = 1000
# Distinct rows are worth looking up if they are fewer than this share of all.
_ALIKE = 0.7
FARTHEST = 1e15
"""Times the size of its column in training that a value of other rows may lie out."""


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Design:
    """Rows of features, columns scaled to comparable size, the intercept as a last column.

    Parameters
    ----------
    matrix : array or CSR matrix of shape (n_rows, n_columns)
        Already scaled; see `from_features`.
    scale : array of shape (n_columns,)
        What each kept column was divided by.
    kept : array of shape (n_columns,)
        The indices of the kept columns among the features (and the intercept, last).
    offset : array of shape (n_columns,)
        What was subtracted from each kept column before.

    Attributes
    ----------
    n_rows : int
        Number of records.
    n_columns : int
        Number of parameters.
    is_sparse : bool
        Whether the rows are stored as a sparse matrix.
    """

    matrix: FloatArray | scipy.sparse.csr_array
    scale: FloatArray
    kept: NDArray[np.intp]
    offset: FloatArray
    n_rows: int = field(init=False)
    n_columns: int = field(init=False)
    is_sparse: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_rows", int(self.matrix.shape[0]))
        object.__setattr__(self, "n_columns", int(self.matrix.shape[1]))
        object.__setattr__(self, "is_sparse", not isinstance(self.matrix, np.ndarray))

    def chunks(self, *, width: int = 0) -> Iterator[slice]:
        """Yield slices of rows such that a chunk, and `width` numbers a row beside it, fit the cache."""
        stored = self.n_columns
        if not isinstance(self.matrix, np.ndarray) and self.n_columns > _WIDE:
            stored = -(-2 * self.matrix.nnz // max(self.n_rows, 1))  # never as dense rows
        row_bytes = 8 * max(stored + width, 1)
        step = max(256, _CHUNK_BYTES // row_bytes)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))

    def predict(self, theta: FloatArray, rows: slice = _ALL_ROWS) -> FloatArray:
        """Return the linear predictors of parameters (K·p,) or (K·p, B): (n, K) or (n, K, B).

        Parameters stand output after output: those of output k are entries k·p to (k+1)·p.
        """
        p = self.n_columns
        n_outputs = len(theta) // p
        tail = theta.shape[1:]
        if n_outputs == 1:
            return np.asarray(self.matrix[rows] @ theta)[:, None]
        wide = np.moveaxis(theta.reshape(n_outputs, p, *tail), 1, 0).reshape(p, -1)
        predictor = np.asarray(self.matrix[rows] @ wide)
        return predictor.reshape(-1, n_outputs, *tail)

    def pull(self, values: FloatArray, rows: slice = _ALL_ROWS) -> FloatArray:
        """Return Σ_i r_i ⊗ x_i for r of shape (n, K) or (n, K, B): (K·p,) or (K·p, B)."""
        n_outputs, *tail = values.shape[1:]
        if n_outputs == 1:
            return np.asarray(self.matrix[rows].T @ values[:, 0])
        total = np.asarray(self.matrix[rows].T @ values.reshape(len(values), -1))
        split = total.reshape(self.n_columns, n_outputs, *tail)
        return np.moveaxis(split, 1, 0).reshape(n_outputs * self.n_columns, *tail)

    def block(self, rows: slice | NDArray[np.intp]) -> FloatArray:
        """Return some rows as a dense array: a chunk of a sparse matrix fits the cache too."""
        part = self.matrix[rows]
        return part if isinstance(part, np.ndarray) else np.asarray(part.toarray())

    def part(self, rows: NDArray[np.intp]) -> FloatArray | scipy.sparse.csr_array:
        """Return some rows for products: as a dense array, but where sparse ones are wide."""
        is_wide = self.is_sparse and self.n_columns > _WIDE
        return self.matrix[rows] if is_wide else self.block(rows)

    def gram(self, weights: FloatArray) -> FloatArray:
        """Return Σ_i W_i ⊗ x_i x_iᵀ.

        Weights of shape (n,) give (p, p); symmetric weights of shape (n, K, K) give
        (K·p, K·p), output after output.
        """
        if weights.ndim == 3 and weights.shape[1] > 1:
            n_outputs, p = weights.shape[1], self.n_columns
            blocks = np.empty((n_outputs, p, n_outputs, p))
            for k in range(n_outputs):
                for m in range(k, n_outputs):
                    block = self.gram(np.ascontiguousarray(weights[:, k, m]))
                    blocks[k, :, m, :] = block
                    blocks[m, :, k, :] = block
            return blocks.reshape(n_outputs * p, n_outputs * p)
        weights = np.ascontiguousarray(weights.reshape(len(weights)))
        if not isinstance(self.matrix, np.ndarray) and self.n_columns > _WIDE:
            weighted = self.matrix.multiply(weights[:, None]).tocsr()
            return np.asarray((self.matrix.T @ weighted).toarray(), dtype=np.float64)
        total = np.zeros((self.n_columns, self.n_columns))
        # The product of a matrix with itself costs half: take the root where there is one.
        signed = bool((weights < 0).any())
        root = weights if signed else np.sqrt(weights)
        for rows in self.chunks():
            block = self.block(rows)
            scaled = block * root[rows, None]
            total += scaled.T @ (block if signed else scaled)
        return total

    def quadratic(self, middle: FloatArray) -> FloatArray:
        """Return (I ⊗ x_i)ᵀ M (I ⊗ x_i) for every row and M of shape (K·p, K·p): (n, K, K)."""
        p = self.n_columns
        n_outputs = len(middle) // p
        blocks = middle.reshape(n_outputs, p, n_outputs, p)
        result = np.empty((self.n_rows, n_outputs, n_outputs))
        for rows in self.chunks(width=2 * p):
            block = self.block(rows)
            for k in range(n_outputs):
                for m in range(k, n_outputs):
                    value = np.einsum("ij,ij->i", block @ blocks[k, :, m, :], block)
                    result[rows, k, m] = value
                    result[rows, m, k] = value
        return result

    def spread(self, root: FloatArray) -> FloatArray:
        """Return (I ⊗ x_i)ᵀ RRᵀ (I ⊗ x_i) for every row and R of shape (K·p, r): (n, K, K).

        The same as `quadratic` of RRᵀ, in single precision: a sum of squares loses no digits.
        """
        n_outputs = len(root) // self.n_columns
        single = root.astype(np.float32)
        result = np.zeros((self.n_rows, n_outputs, n_outputs))
        if root.shape[1] == 0:
            return result
        for rows in self.chunks(width=n_outputs * root.shape[1]):
            part = replace(self, matrix=self.matrix[rows].astype(np.float32))
            along = part.predict(single)  # type: ignore[arg-type]
            if n_outputs == 1:
                result[rows, 0, 0] = np.einsum("ir,ir->i", along[:, 0], along[:, 0])
            else:
                result[rows] = along @ along.transpose(0, 2, 1)
        return result

    def squared_norms(self) -> FloatArray:
        """Return xᵀx of every row, (n,)."""
        if isinstance(self.matrix, np.ndarray):
            return np.asarray(np.einsum("ij,ij->i", self.matrix, self.matrix))
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()

    def take(self, rows: NDArray[np.intp] | BoolArray) -> Design:
        """Return the design restricted to some rows."""
        return replace(self, matrix=self.matrix[rows])

    def keep_columns(self, columns: NDArray[np.intp]) -> Design:
        """Return the design with only some of its columns."""
        matrix = self.matrix[:, columns]
        if not self.is_sparse:
            matrix = np.ascontiguousarray(matrix)
        return Design(
            matrix=matrix,
            scale=self.scale[columns],
            kept=self.kept[columns],
            offset=self.offset[columns],
        )

    def without_rows(self) -> Design:
        """Return the design with columns, offsets and scales only."""
        return replace(self, matrix=np.zeros((0, self.n_columns)))

    def without(self, columns: NDArray[np.intp]) -> Design:
        """Return the design with some columns at zero."""
        keep = np.ones(self.n_columns)
        keep[columns] = 0.0
        if isinstance(self.matrix, np.ndarray):
            return replace(self, matrix=self.matrix * keep)
        emptied = scipy.sparse.csr_array(self.matrix.multiply(keep))
        emptied.eliminate_zeros()
        return replace(self, matrix=emptied)

    @classmethod
    def plain(cls, matrix: FloatArray | scipy.sparse.csr_array) -> Design:
        """Take a matrix as it is: no intercept added, nothing centred or scaled.

        Examples
        --------
        >>> import numpy as np
        >>> Design.plain(np.eye(2)).scale
        array([1., 1.])
        """
        p = matrix.shape[1]
        return cls(matrix=matrix, scale=np.ones(p), kept=np.arange(p), offset=np.zeros(p))

    @classmethod
    def scaled(
        cls,
        offset: FloatArray,
        size: FloatArray,
        *,
        intercept: float | None,
        is_free: bool,
        ridge: float,
    ) -> Design:
        """Return the design, without rows, of features with these offsets and sizes.

        Parameters
        ----------
        offset, size : arrays of shape (n_features,)
            What is subtracted from each column, and its root mean square around that.
        intercept, is_free, ridge
            As in `from_features`.
        """
        scale = np.hypot(size, np.sqrt(ridge))
        if intercept is not None:
            offset = np.append(offset, 0.0)
            scale = np.append(scale, np.hypot(intercept, 0.0 if is_free else np.sqrt(ridge)))
        scale = np.where(scale > 0, scale, 1.0)
        nothing = np.zeros((0, len(scale)))
        return cls(matrix=nothing, scale=scale, kept=np.arange(len(scale)), offset=offset)

    @classmethod
    def from_features(
        cls,
        features: FloatArray | scipy.sparse.csr_array,
        *,
        intercept: float | None = 1.0,
        is_free: bool = True,
        ridge: float = 0.0,
        like: Design | None = None,
    ) -> Design:
        """Append the intercept column, centre what can be centred, and scale every column.

        A column is divided by √(variance + ridge), so that curvature and penalty together are of
        size 1 in every direction. Dense columns are centred where a free intercept takes up the
        difference: large offsets (a year, a coordinate) then cost no digits.

        Parameters
        ----------
        features : array or CSR matrix of shape (n_rows, n_features)
        intercept : float or None
            The value in the intercept column; None for a model without intercept.
        is_free : bool
            Whether the intercept is unpenalised.
        ridge : float
            The penalty of the mean objective, λ.
        like : Design, optional
            Take columns, offset and scale from this design: for test rows.

        Examples
        --------
        >>> import numpy as np
        >>> design = Design.from_features(np.array([[2001.0], [2003.0]]))
        >>> design.matrix
        array([[-1.,  1.],
               [ 1.,  1.]])
        """
        n_rows, n_features = features.shape
        if like is None:
            # Mean (or 0) and root mean square around it, by column, without overflow.
            offset = np.zeros(n_features)
            if not isinstance(features, np.ndarray):
                squares = np.asarray(features.multiply(features).sum(axis=0)).ravel()
                size = np.sqrt(squares / n_rows)
            else:
                centred = intercept is not None and is_free
                largest = np.abs(features).max(axis=0, initial=0.0)
                unit = np.where(largest > 0, largest, 1.0)
                if centred:
                    offset = unit * (features / unit).mean(axis=0)
                size = unit * np.sqrt(np.mean(((features - offset) / unit) ** 2, axis=0))
                if centred:
                    # A constant column's mean is off by rounding: what is left is not a variance.
                    is_constant = size <= 8 * np.finfo(float).eps * largest
                    offset = np.where(is_constant, features[0], offset)
                    size = np.where(is_constant, 0.0, size)
            like = cls.scaled(offset, size, intercept=intercept, is_free=is_free, ridge=ridge)
        offset, scale, kept = like.offset, like.scale, like.kept
        chosen = kept[kept < n_features]
        constant = np.full((n_rows, len(kept) - len(chosen)), intercept or 0.0)
        part = features if len(chosen) == n_features else features[:, chosen]
        if not isinstance(features, np.ndarray):
            stacked = scipy.sparse.hstack([part, scipy.sparse.csr_array(constant)], format="csr")
            scaled = scipy.sparse.csr_array(stacked.multiply(1.0 / scale))
            return cls(matrix=scaled, scale=scale, kept=kept, offset=offset)
        matrix = np.empty((n_rows, len(kept)))
        matrix[:, : len(chosen)] = part
        matrix[:, len(chosen) :] = constant
        matrix -= offset
        matrix /= scale
        return cls(matrix=matrix, scale=scale, kept=kept, offset=offset)

    def refuse_far(self, *, what: str) -> Design:
        """Return the design, unless its rows lie so far from the training's that nothing can be added up.

        Parameters
        ----------
        what : str
            "test", for the message.

        Raises
        ------
        InputError
            If a value is farther out than `FARTHEST` times the size of its column in training: its
            square would not fit into single precision, in which runs are simulated.

        Examples
        --------
        >>> import numpy as np
        >>> train = Design.from_features(np.array([[2001.0], [2003.0]]))
        >>> Design.from_features(np.array([[1e200]]), like=train).refuse_far(what="test")
        Traceback (most recent call last):
        ...
        epsilens.errors.InputError: the test data must hold numbers like those of the training data,
        but 1 lie more than 1e+15 times as far out. Fix them, or mark them as missing.
        """
        values = self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.data
        n_far = int(np.count_nonzero(~(np.abs(values) <= FARTHEST)))
        if n_far:
            raise InputError(
                f"the {what} data must hold numbers like those of the training data, but {n_far} lie "
                f"more than {FARTHEST:g} times as far out. Fix them, or mark them as missing."
            )
        return self


def distinct_rows(
    matrix: FloatArray | scipy.sparse.csr_array,
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return one row of every kind, and of which kind each row is; None if few rows are alike.

    Rows are told apart by their product with random numbers, and then compared number by number.

    Examples
    --------
    >>> import numpy as np
    >>> distinct_rows(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))
    (array([1, 0]), array([1, 0, 1, 1]))
    >>> distinct_rows(np.array([[1.0], [2.0], [3.0]])) is None
    True
    """
    n_rows, n_columns = matrix.shape
    numbers = np.random.default_rng(0).standard_normal(n_columns)
    key = np.asarray(matrix @ numbers)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    if len(first) > _ALIKE * n_rows:
        return None
    step = max(256, _CHUNK_BYTES // (8 * max(n_columns, 1)))
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        apart = matrix[rows] != matrix[first[place[rows]]]
        if apart.any() if isinstance(apart, np.ndarray) else apart.nnz:
            return None
    return first, place


def independent_columns(gram: FloatArray, *, tolerance: float = 1e-12) -> NDArray[np.intp] | None:
    """Return indices of columns that span the same space, or None if all are independent.

    A full set of dummy variables beside an intercept, the commonest pipeline there is, has one
    direction too many. A subset of the columns spans the same space, and sparsity is kept.

    Parameters
    ----------
    gram : array of shape (p, p)
        Curvature of the objective in scaled coordinates, penalty included: a penalised direction is
        never dependent.
    tolerance : float
        Eigenvalues below this share of the largest count as zero.

    Examples
    --------
    >>> import numpy as np
    >>> independent_columns(np.array([[1.0, 1.0], [1.0, 1.0]]))
    array([0])
    """
    values = np.linalg.eigvalsh(gram)
    rank = int(np.sum(values > tolerance * max(values[-1], 0.0)))
    if rank == len(gram):
        return None
    _, _, order = scipy.linalg.qr(gram, pivoting=True, mode="economic")
    return np.sort(np.asarray(order[:rank], dtype=np.intp))


def empty_directions(gram: FloatArray, unit: FloatArray, *, tolerance: float = 1e-12) -> FloatArray:
    """Return an orthonormal basis, in the columns' own units, of the directions without curvature.

    Parameters
    ----------
    gram : array of shape (p, p)
        In scaled coordinates.
    unit : array of shape (p,)
        What each column was divided by.
    tolerance : float
        As in `independent_columns`.
    """
    values, vectors = np.linalg.eigh(gram)
    null = vectors[:, values <= tolerance * max(values[-1], 0.0)] / unit[:, None]
    basis, _ = np.linalg.qr(null / np.abs(null).max(axis=0, initial=1e-300))
    return basis
