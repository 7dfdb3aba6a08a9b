# SPDX-License-Identifier: Apache-2.0
"""H⁻¹η by the conjugate gradient method: O(np) a step, no matrix formed (P1 Table I, "CG")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_share
from epsilens.errors import setting
from epsilens.influence.inverse_hessian import (
    HessianOperator,
    InverseHessian,
    InverseSolution,
    found_solution,
    relative_norms,
)
from epsilens.notes import Note

_MOST_RESTARTS = 5
_FLAT = 1e-14


@dataclass(frozen=True)
class ConjugateGradient(InverseHessian):
    """Solve Hv = η step by step, each step one product with the Hessian.

    The number of steps grows with the root of the condition number, so features that are nearly
    copies of each other, without a penalty, take long. The Hessian's diagonal, from one pass,
    preconditions; several right-hand sides go side by side and share the passes.

    Parameters
    ----------
    tolerance : float in (0, 1)
        Stop when ‖η − Hv‖/‖η‖ is below this, checked at the end with the whole Hessian.
    max_iterations : int
        Stop after so many steps in any case, and say so.

    References
    ----------
    Hestenes and Stiefel 1952; P1 IV-C.1 and its [21], Koh and Liang 2017, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.array([0.5, 0.0]))
    >>> operator = HessianOperator(problem, np.zeros(2))
    >>> ConjugateGradient().solve(operator, np.array([3.0, 2.0])).vector.round(6)
    array([2., 2.])
    """

    name: ClassVar[str] = "cg"
    tolerance: float = 1e-8
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        as_share(self.tolerance, name="tolerance")
        as_count(self.max_iterations, name="max_iterations")

    def solve(
        self, operator: HessianOperator, right: FloatArray, *, quiet: bool = False
    ) -> InverseSolution:
        """Return H⁻¹η for one right-hand side or a block of them.

        The recursion's own residual drifts from the true one by rounding. When it says that all is
        done the true one is computed, and where that is not within the tolerance the method starts
        again from there; if that no longer halves it, rounding is the limit and the
        solution is marked as not converged.
        """
        columns = right.reshape(len(right), -1)
        vector, residual = np.zeros_like(columns), columns.copy()
        n_iterations = n_products = 0
        n_passes = 1  # the diagonal
        for _ in range(_MOST_RESTARTS):
            before = relative_norms(residual, columns)
            if (before <= self.tolerance).all() or n_iterations >= self.max_iterations:
                break
            steps, products = self._descend(
                operator, columns, vector, residual, self.max_iterations - n_iterations
            )
            residual = columns - operator.product(vector)
            n_iterations += steps
            n_products += products + columns.shape[1]
            n_passes += steps + 1
            after = relative_norms(residual, columns)
            if (after > np.maximum(self.tolerance, 0.5 * before)).any():
                break
        return found_solution(
            right,
            vector,
            residual,
            self.tolerance,
            lambda relative: self._note(relative, n_iterations),
            quiet=quiet,
            n_products=n_products,
            n_passes=n_passes,
        )

    def _descend(
        self,
        operator: HessianOperator,
        columns: FloatArray,
        vector: FloatArray,
        residual: FloatArray,
        most: int,
    ) -> tuple[int, int]:
        """Improve the columns of `vector` in place; return steps and products."""
        bound = self.tolerance * np.linalg.norm(columns, axis=0)
        active = np.flatnonzero(np.linalg.norm(residual, axis=0) > bound)
        scale = operator.diagonal[:, None]
        r = residual[:, active]
        z = r / scale
        direction = z
        size = (r * z).sum(axis=0)
        steps = products = 0
        while steps < most and len(active):
            bent = operator.product(direction)
            curvature = (direction * bent).sum(axis=0)
            # No curvature along a direction: H is singular to rounding, and no step is the right one.
            firm = curvature > _FLAT * (scale * direction**2).sum(axis=0)
            length = np.divide(size, curvature, out=np.zeros_like(size), where=firm)
            vector[:, active] += length * direction
            r = r - length * bent
            steps, products = steps + 1, products + len(active)
            going = firm & (np.linalg.norm(r, axis=0) > bound[active])
            active, r, direction, size = (
                active[going],
                r[:, going],
                direction[:, going],
                size[going],
            )
            z = r / scale
            following = (r * z).sum(axis=0)
            direction = z + (following / size) * direction
            size = following
        return steps, products

    def _note(self, relative: float, n_iterations: int) -> Note:
        exact = setting("inverse_hessian", "cholesky")
        if n_iterations >= self.max_iterations:
            return Note(
                "solver-not-converged",
                f"the conjugate gradient used its {self.max_iterations} iterations and left a "
                f"relative residual of {relative:.1e}, above the tolerance of {self.tolerance:g}: "
                f"first-order numbers are uncertain. Raise `max_iterations`, add "
                f"regularisation, or take {exact}.",
            )
        return Note(
            "solver-not-converged",
            f"the conjugate gradient stopped at a relative residual of {relative:.1e}, above the "
            f"tolerance of {self.tolerance:g}, where rounding lets it get no further. Raise "
            f"`tolerance`, add regularisation, or take {exact}.",
        )
