# SPDX-License-Identifier: Apache-2.0
"""The matrix a linear model is trained on, with the four products that everything is made of.

Rows are visited in chunks that fit the cache; no matrix of rows × rows or of training × test rows is
ever formed. Dense and sparse matrices go through the same four doors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["Design"]

FloatArray = NDArray[np.float64]

_CHUNK_BYTES = 1 << 21
# Past this many columns the products of sparse rows beat those of dense chunks.
_WIDE = 1000


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
    """

    matrix: FloatArray | scipy.sparse.csr_array
    scale: FloatArray
    kept: NDArray[np.intp]

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return int(self.matrix.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of parameters."""
        return int(self.matrix.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored as a sparse matrix."""
        return not isinstance(self.matrix, np.ndarray)

    def chunks(self, *, width: int = 0) -> Iterator[slice]:
        """Yield slices of rows such that a chunk, and `width` numbers a row beside it, fit the cache."""
        row_bytes = 8 * max(self.n_columns + width, 1)
        step = max(256, _CHUNK_BYTES // row_bytes)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))

    def predict(self, theta: FloatArray) -> FloatArray:
        """Return the linear predictors of parameters (K·p,) or (K·p, B): (n, K) or (n, K, B).

        Parameters stand output after output: those of output k are entries k·p to (k+1)·p.
        """
        return self.predict_rows(slice(None), theta)

    def predict_rows(self, rows: slice, theta: FloatArray) -> FloatArray:
        """Return the predictors of some rows."""
        p = self.n_columns
        n_outputs = len(theta) // p
        tail = theta.shape[1:]
        wide = np.moveaxis(theta.reshape(n_outputs, p, *tail), 1, 0).reshape(p, -1)
        predictor = np.asarray(self.matrix[rows] @ wide)
        return predictor.reshape(-1, n_outputs, *tail)

    def pull(self, rows: FloatArray) -> FloatArray:
        """Return Σ_i r_i ⊗ x_i for r of shape (n, K) or (n, K, B): (K·p,) or (K·p, B)."""
        return self.pull_rows(slice(None), rows)

    def pull_rows(self, rows: slice, values: FloatArray) -> FloatArray:
        """Return the same sum over some rows only."""
        n_outputs, *tail = values.shape[1:]
        total = np.asarray(self.matrix[rows].T @ values.reshape(len(values), -1))
        split = total.reshape(self.n_columns, n_outputs, *tail)
        return np.moveaxis(split, 1, 0).reshape(n_outputs * self.n_columns, *tail)

    def block(self, rows: slice | NDArray[np.intp]) -> FloatArray:
        """Return some rows as a dense array: a chunk of a sparse matrix fits the cache too."""
        part = self.matrix[rows]
        return part if isinstance(part, np.ndarray) else np.asarray(part.toarray())

    def gram(self, weights: FloatArray) -> FloatArray:
        """Return Σ_i W_i ⊗ x_i x_iᵀ.

        Weights of shape (n,), ≥ 0, give (p, p); symmetric weights of shape (n, K, K) give
        (K·p, K·p), output after output.
        """
        if weights.ndim == 1:
            return self._plain_gram(weights, signed=False)
        n_outputs, p = weights.shape[1], self.n_columns
        if n_outputs == 1:
            return self._plain_gram(weights[:, 0, 0], signed=False)
        total = np.empty((n_outputs, p, n_outputs, p))
        for k in range(n_outputs):
            for m in range(k, n_outputs):
                block = self._plain_gram(np.ascontiguousarray(weights[:, k, m]), signed=k != m)
                total[k, :, m, :] = block
                total[m, :, k, :] = block
        return total.reshape(n_outputs * p, n_outputs * p)

    def _plain_gram(self, weights: FloatArray, *, signed: bool) -> FloatArray:
        if not isinstance(self.matrix, np.ndarray) and self.n_columns > _WIDE:
            weighted = self.matrix.multiply(weights[:, None]).tocsr()
            return np.asarray((self.matrix.T @ weighted).toarray(), dtype=np.float64)
        total = np.zeros((self.n_columns, self.n_columns))
        # The product of a matrix with itself costs half: take the root where there is one.
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
        for rows in self.chunks(width=p):
            block = self.block(rows)
            for k in range(n_outputs):
                for m in range(k, n_outputs):
                    value = np.einsum("ij,ij->i", block @ blocks[k, :, m, :], block)
                    result[rows, k, m] = value
                    result[rows, m, k] = value
        return result

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Design:
        """Return the design restricted to some rows."""
        return Design(matrix=self.matrix[rows], scale=self.scale, kept=self.kept)

    def as_single(self) -> Design:
        """Return the design in single precision, for the many products of the drawn interval."""
        return Design(matrix=self.matrix.astype(np.float32), scale=self.scale, kept=self.kept)

    def keep_columns(self, columns: NDArray[np.intp]) -> Design:
        """Return the design with only some of its columns."""
        matrix = self.matrix[:, columns]
        if not self.is_sparse:
            matrix = np.ascontiguousarray(matrix)
        return Design(matrix=matrix, scale=self.scale[columns], kept=self.kept[columns])

    @classmethod
    def from_features(
        cls,
        features: FloatArray | scipy.sparse.csr_array,
        *,
        intercept: float | None = 1.0,
        like: Design | None = None,
    ) -> Design:
        """Append the intercept column and scale every column to root mean square 1.

        Parameters
        ----------
        features : array or CSR matrix of shape (n_rows, n_features)
        intercept : float or None
            The value in the intercept column; None for a model without intercept.
        like : Design, optional
            Take columns and scale from this design: for test rows.

        Examples
        --------
        >>> import numpy as np
        >>> design = Design.from_features(np.array([[3.0], [4.0]]))
        >>> design.n_columns, design.scale.round(4)
        (2, array([3.5355, 1.    ]))
        """
        n_rows = features.shape[0]
        is_sparse = scipy.sparse.issparse(features)
        columns = [features]
        if intercept is not None:
            constant = np.full((n_rows, 1), intercept)
            columns.append(scipy.sparse.csr_array(constant) if is_sparse else constant)
        if is_sparse:
            matrix = scipy.sparse.csr_array(scipy.sparse.hstack(columns, format="csr"))
            size = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel() / n_rows)
        else:
            matrix = np.hstack(columns).astype(np.float64, copy=False)
            # float64 overflows when squared past 1e154: divide by the largest entry first.
            largest = np.maximum(np.abs(matrix).max(axis=0, initial=0.0), np.finfo(float).tiny)
            size = largest * np.sqrt(np.mean((matrix / largest) ** 2, axis=0))
        if like is None:
            scale = np.where(size > np.finfo(float).tiny, size, 1.0)
            kept = np.arange(matrix.shape[1])
        else:
            scale, kept = like.scale, like.kept
            if len(kept) < matrix.shape[1]:
                matrix = matrix[:, kept]
        if is_sparse:
            scaled = scipy.sparse.csr_array(matrix @ scipy.sparse.diags_array(1.0 / scale))
        else:
            scaled = np.ascontiguousarray(matrix / scale)
        return cls(matrix=scaled, scale=scale, kept=kept)

    def independent_columns(
        self, gram: FloatArray, *, tolerance: float = 1e-10
    ) -> NDArray[np.intp] | None:
        """Return indices of columns that span the same space, or None if all are independent.

        A full set of dummy variables beside an intercept, the commonest pipeline there is, has one
        direction too many. Predictions are unique all the same, and a subset of the columns gives
        them; sparsity is kept.

        Parameters
        ----------
        gram : array of shape (n_columns, n_columns)
            Curvature of the objective anywhere, penalty included.
        tolerance : float
            Eigenvalues below this share of the largest count as zero.
        """
        eigenvalues = np.linalg.eigvalsh(gram)
        rank = int(np.sum(eigenvalues > tolerance * max(eigenvalues[-1], 0.0)))
        if rank == self.n_columns:
            return None
        _, _, order = scipy.linalg.qr(gram, pivoting=True, mode="economic")
        return np.sort(np.asarray(order[:rank], dtype=np.intp))
