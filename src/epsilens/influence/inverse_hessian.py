# SPDX-License-Identifier: Apache-2.0
"""H⁻¹η, all that influence functions ask of the inverse Hessian, behind one protocol (P1 IV-C.1).

First order needs the inverse of the Hessian only along a few vectors. P1 Table I names three ways to get
there: factorise H, O(np² + p³); conjugate gradient, O(np) a step; stochastic estimation, O(p) a
record drawn. Each has a file of its own; here is what they share, the Hessian as something that
vectors are multiplied by, one pass over the records for any number of vectors, and never as a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.errors import ApproximationWarning
from epsilens.models import Curvature, Design, Problem, SoftmaxLoss, factorise
from epsilens.notes import Note

# Up to so many columns a batch of sparse records is multiplied faster as a dense one.
_NARROW = 1000


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class HessianOperator:
    """The Hessian of a training objective at given parameters, as a product with vectors.

    H·V costs one pass over the records, whatever the number of columns of V, and no matrix of
    parameters × parameters is formed.

    Parameters
    ----------
    problem : Problem
        Dense or sparse features, weights, loss and penalty.
    theta : array of shape (K·p,)
        Where.
    known : Curvature, optional
        The factorised Hessian, if somebody has it already; only `Cholesky` looks at it.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.array([0.5, 0.0]))
    >>> HessianOperator(problem, np.zeros(2)).product(np.array([1.0, 2.0]))
    array([1.5, 2. ])
    """

    problem: Problem
    theta: FloatArray
    known: Curvature | None = None

    @property
    def n_rows(self) -> int:
        """Number of training records."""
        return self.problem.n_rows

    @property
    def n_parameters(self) -> int:
        """K·p, the length of the vectors."""
        return self.problem.n_parameters

    @cached_property
    def factor(self) -> Curvature:
        """The factorised Hessian; the only attribute here that forms a matrix."""
        return self.known or factorise(self.problem.hessian(self.theta))

    @cached_property
    def _predictor(self) -> FloatArray:
        return self.problem.design.predict(self.theta)

    @cached_property
    def _mean(self) -> FloatArray:
        """The class probabilities of every record, (n, K)."""
        return self.problem.loss.mean(self._predictor)

    @cached_property
    def _curvature(self) -> FloatArray:
        """w·ψ″ of every record of a model with one output, (n,)."""
        return self.problem.weights * self.problem.loss.curvature(self._predictor)[:, 0, 0]

    def _bend(self, rows: slice, along: FloatArray) -> FloatArray:
        """Return w·ψ″ times what the vectors add to the predictors, (c, K, B)."""
        if self.problem.loss.n_outputs == 1:
            return along * self._curvature[rows, None, None]
        bent: FloatArray
        if isinstance(self.problem.loss, SoftmaxLoss):
            # (diag(h) − hhᵀ)a without the matrix of a record.
            h = self._mean[rows, :, None]
            bent = h * (along - (h * along).sum(axis=1, keepdims=True))
        else:
            bent = self.problem.loss.curvature(self._predictor[rows]) @ along
        bent *= self.problem.weights[rows, None, None]
        return bent

    def product(self, vectors: FloatArray) -> FloatArray:
        """Return H·V for vectors (K·p,) or (K·p, B), in one pass over the records."""
        columns = vectors.reshape(len(vectors), -1)
        design = self.problem.design
        width = 2 * self.problem.loss.n_outputs * columns.shape[1]
        total = np.zeros_like(columns)
        for rows in design.chunks(width=width):
            bent = self._bend(rows, design.predict(columns, rows))
            total += design.pull(bent, rows)
        product = total / self.n_rows + self.problem.penalise(columns)
        return product.reshape(vectors.shape)

    def gather(self, rows: NDArray[np.intp], weights: FloatArray) -> DrawnRows:
        """Return some records, drawn with weights, for products with batches of them."""
        design = self.problem.design
        if design.is_sparse and design.n_columns <= _NARROW:
            part = Design.plain(design.block(rows))
        else:
            part = design.take(rows)
        bend = self.problem.loss.curvature(self._predictor[rows])
        bend *= (self.problem.weights[rows] * weights)[:, None, None]
        return DrawnRows(problem=self.problem, design=part, bend=bend)

    @cached_property
    def diagonal(self) -> FloatArray:
        """The diagonal of H, (K·p,), in one pass: what vectors are preconditioned with."""
        design, p = self.problem.design, self.problem.design.n_columns
        n_outputs = self.problem.loss.n_outputs
        total = np.zeros((p, n_outputs))
        for rows in design.chunks(width=0 if design.is_sparse else p):
            total += _squares(design.matrix[rows]).T @ self._own_curvature(rows)
        # The penalty is the same for every output: that of the first shows its diagonal.
        first = np.zeros(self.n_parameters)
        first[:p] = 1.0
        penalty = self.problem.penalise(first)[:p]
        diagonal: FloatArray = (total.T / self.n_rows + penalty).ravel()
        return np.where(diagonal > 0, diagonal, 1.0)

    @cached_property
    def shares(self) -> FloatArray:
        """tr(D⁻¹H_i) of every record, (n,), D the diagonal: how much hangs on drawing it."""
        design, p = self.problem.design, self.problem.design.n_columns
        inverse = (1.0 / self.diagonal).reshape(-1, p).T
        shares = np.zeros(self.n_rows)
        for rows in design.chunks(width=0 if design.is_sparse else p):
            sizes = np.asarray(_squares(design.matrix[rows]) @ inverse)
            shares[rows] = (sizes * self._own_curvature(rows)).sum(axis=1)
        return shares

    def _own_curvature(self, rows: slice) -> FloatArray:
        """Return w·∂²ψ/∂s_k² of some records, (c, K)."""
        if self.problem.loss.n_outputs == 1:
            return self._curvature[rows, None]
        curvature = self.problem.loss.curvature(self._predictor[rows])
        own: FloatArray = np.einsum("ikk->ik", curvature) * self.problem.weights[rows, None]
        return own


@dataclass(frozen=True, repr=False)
class DrawnRows:
    """Records drawn from a Hessian, made by `HessianOperator.gather`.

    Attributes
    ----------
    problem : Problem
        With the penalty.
    design : Design
        Design matrix of these records.
    bend : array of shape (c, K, K)
        Their ψ″ with their weights.
    """

    problem: Problem
    design: Design
    bend: FloatArray

    def product(self, batch: slice, vectors: FloatArray) -> FloatArray:
        """Return H_B·V for vectors (K·p, B), H_B the mean over a batch plus the penalty."""
        bend = self.bend[batch]
        along = self.design.predict(vectors, batch)
        bent = bend * along if bend.shape[1] == 1 else bend @ along
        return self.design.pull(bent, batch) / len(bend) + self.problem.penalise(vectors)


def _squares(block: FloatArray) -> FloatArray:
    """Return the squares of some rows, dense or sparse."""
    return block**2 if isinstance(block, np.ndarray) else block.multiply(block).tocsr()


def relative_norms(residual: FloatArray, right: FloatArray) -> FloatArray:
    """Return ‖r‖/‖η‖ of every column, 0 where η is.

    Examples
    --------
    >>> import numpy as np
    >>> relative_norms(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]))
    array([0.5, 0. ])
    """
    sizes = np.linalg.norm(right, axis=0)
    shares: FloatArray = np.linalg.norm(residual, axis=0) / np.where(sizes > 0, sizes, 1.0)
    return shares


@dataclass(frozen=True)
class InverseSolution:
    """H⁻¹η as it was found, and how well.

    Attributes
    ----------
    vector : array in the shape of the right-hand side, (K·p,) or (K·p, B)
        v ≈ H⁻¹η.
    residual : array in the same shape
        η − Hv, computed with the whole Hessian at the end, not carried along.
    relative_residual : float
        ‖η − Hv‖/‖η‖, the largest over the columns.
    n_products : int
        Columns that were multiplied by the whole Hessian.
    n_passes : int
        Passes over the records, those of mini-batches and of the preparation included.
    converged : bool
        Whether the residual is within the tolerance of the solver.
    note : Note or None
        What to say where it is not; empty where it is.
    repeats : array of shape (n_repeats, K·p) or (n_repeats, K·p, B), or None
        The independent estimates whose mean the vector is, where there are such.

    Examples
    --------
    >>> import numpy as np
    >>> r = np.array([1e-6, 0.0])
    >>> found = InverseSolution(np.ones(2), r, 1e-6, n_products=2, n_passes=2, converged=True)
    >>> found.error_along(np.array([3.0, 5.0]))
    3e-06
    """

    vector: FloatArray = field(repr=False)
    residual: FloatArray = field(repr=False)
    relative_residual: float
    n_products: int
    n_passes: int
    converged: bool
    note: Note | None = None
    repeats: FloatArray | None = field(default=None, repr=False)

    def error_along(self, step: FloatArray) -> float:
        """Return by how much γᵀv falls short of γᵀH⁻¹η, estimated, given step ≈ H⁻¹γ.

        The error is rᵀH⁻¹γ exactly; with a step found to a residual of its own, what is
        missed is of second order in the two residuals.
        """
        return float(self.residual @ step)

    def standard_error(self, gamma: FloatArray) -> float | None:
        """Return the Monte-Carlo standard error of γᵀv, from repeats; None without them.

        It covers the draws of mini-batches, not the bias of recursions that stop early: that is in
        the residual.
        """
        if self.repeats is None:
            return None
        along = self.repeats @ gamma
        return float(along.std(ddof=1) / np.sqrt(len(along)))


@dataclass(frozen=True)
class InverseHessian:
    """A way to find H⁻¹η: `Cholesky`, `ConjugateGradient` or `StochasticEstimation`.

    Attributes
    ----------
    name : str
        The way in one word, as it is asked for by name.
    is_matrix_free : bool
        Whether no matrix of parameters × parameters is formed.
    """

    name: ClassVar[str]
    is_matrix_free: ClassVar[bool] = True

    def settings(self) -> dict[str, object]:
        """Return name and settings, as results carry them."""
        return {"solver": self.name, **asdict(self)}

    def loosened(self, tolerance: float) -> InverseHessian:
        """Return the same with a tolerance of at least this, for what needs few digits."""
        own = asdict(self).get("tolerance")
        return self if own is None else replace(self, tolerance=max(own, tolerance))  # type: ignore[call-arg]

    def solve(
        self, operator: HessianOperator, right: FloatArray, *, quiet: bool = False
    ) -> InverseSolution:
        """Return H⁻¹η for a right-hand side (K·p,), or a block of them (K·p, B).

        Parameters
        ----------
        operator : HessianOperator
        right : array
        quiet : bool
            Leave the `ApproximationWarning` of a solution that did not converge to the caller.
        """
        raise NotImplementedError


def found_solution(
    right: FloatArray,
    vector: FloatArray,
    residual: FloatArray,
    tolerance: float,
    note_of: Callable[[float], Note],
    *,
    quiet: bool,
    n_products: int,
    n_passes: int,
    repeats: FloatArray | None = None,
) -> InverseSolution:
    """Return what a solver found in the shape of the right-hand side, with a note where it did not get there."""
    columns = right.reshape(len(right), -1)
    relative = float(relative_norms(residual.reshape(columns.shape), columns).max(initial=0.0))
    converged = relative <= tolerance
    note = None if converged else note_of(relative)
    if note and not quiet:
        note.warn(ApproximationWarning, stacklevel=3)
    return InverseSolution(
        vector=vector.reshape(right.shape),
        residual=residual.reshape(right.shape),
        relative_residual=relative,
        n_products=n_products,
        n_passes=n_passes,
        converged=converged,
        note=note,
        repeats=None if repeats is None else repeats.reshape(len(repeats), *right.shape),
    )


# --- H⁻¹η by factorising the Hessian: exact to rounding, O(np² + p³) (P1 Table I, "X") ---

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Cholesky(InverseHessian):
    """Factorise the Hessian once; every further vector then costs O(p²).

    The fastest way up to some hundred parameters, and a fitted study has the factor already. With many
    more the matrix itself becomes the trouble: that of 10 000 parameters takes 800 MB.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.array([0.5, 0.0]))
    >>> Cholesky().solve(HessianOperator(problem, np.zeros(2)), np.array([3.0, 2.0])).vector
    array([2., 2.])
    """

    name: ClassVar[str] = "cholesky"
    is_matrix_free: ClassVar[bool] = False

    def solve(
        self, operator: HessianOperator, right: FloatArray, *, quiet: bool = False
    ) -> InverseSolution:
        """Return H⁻¹η, with the residual that rounding leaves.

        Raises
        ------
        EstimateNotTrustworthyError
            If the Hessian is not positive definite to working precision.
        """
        vector = operator.factor.solve(right)
        return found_solution(
            right,
            vector,
            right - operator.factor.hessian @ vector,
            _ROUNDING,
            lambda relative: Note(
                "solver-not-converged",
                f"the factorised Hessian leaves a relative residual of {relative:.1e}: it is too badly "
                "conditioned for double precision. Add regularisation.",
            ),
            quiet=quiet,
            n_products=right.size // len(right),
            n_passes=1,
        )
