# SPDX-License-Identifier: Apache-2.0
"""The space that the training features span: columns that are enough, and directions without anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.influence.wide import refuse_matrix
from epsilens.models import Design
from epsilens.models.design import empty_directions, independent_columns
from epsilens.models.specification import Specification

__all__ = ["Space"]

Features: TypeAlias = "FloatArray | scipy.sparse.csr_array"


@dataclass(frozen=True, repr=False)
class Space:
    """The space that the features span, and the directions in it that carry nothing.

    Attributes
    ----------
    kept : array of int, or None
        Columns that span it; None if no column is dependent.
    empty : array of shape (n_features, d)
        Orthonormal directions in which the training features do not vary, in their own units.
    centre : array of shape (n_features,)
        Where a free intercept takes up the rest: the weighted mean; otherwise 0.
    """

    kept: NDArray[np.intp] | None
    empty: FloatArray
    centre: FloatArray

    @classmethod
    def of_wide(cls, design: Design, penalty: FloatArray, specification: Specification) -> Space:
        """Ask for a penalty: without a matrix only that says that no column depends on the others."""
        n_features = design.n_columns - (specification.intercept is not None)
        if not (penalty[:n_features] > 0).all():
            raise refuse_matrix(
                design.n_columns,
                "a model without a penalty",
                instead="Add regularisation (a finite C, an alpha above 0).",
            )
        return cls(None, np.zeros((n_features, 0)), np.zeros(n_features))

    @classmethod
    def of(
        cls, design: Design, gram: FloatArray, penalty: FloatArray, specification: Specification
    ) -> Space:
        """Look for columns that others make up, given the mean of w xxᵀ in scaled coordinates."""
        n_features = design.n_columns - (specification.intercept is not None)
        inner = gram[:n_features, :n_features]
        centre = np.zeros(n_features)
        if specification.intercept is not None and not specification.intercept_is_penalised:
            # Around the weighted mean, as a free intercept sees it.
            side = gram[:n_features, -1]
            inner = inner - np.outer(side, side) / gram[-1, -1]
            mean = side / gram[-1, -1] * specification.intercept / design.scale[-1]
            centre = mean * design.scale[:n_features] + design.offset[:n_features]
        inner = inner + np.diag(penalty[:n_features])
        kept = independent_columns(inner)
        if kept is None:
            return cls(kept=None, empty=np.zeros((n_features, 0)), centre=centre)
        empty = empty_directions(inner, design.scale[:n_features])
        if n_features < design.n_columns:
            kept = np.append(kept, n_features)
        return cls(kept=kept, empty=empty, centre=centre)

    def nearest(self, features: Features) -> Features:
        """Return test features as the shortest coefficients see them.

        A test record may lie outside what the training records span; coefficients without a part
        in the empty directions do not see that, and neither may the columns that were kept.
        """
        outside = np.asarray(features @ self.empty) - self.centre @ self.empty
        size = np.abs(outside).max(initial=0.0)
        if size <= 1e-9 * (1.0 + np.abs(self.centre).max(initial=0.0)):
            return features
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        return dense - outside @ self.empty.T

    def coefficients(
        self, design: Design, theta: FloatArray, specification: Specification
    ) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts in the features' own units, the shortest there are."""
        n_features = len(self.centre)
        values = theta.reshape(-1, design.n_columns) / design.scale
        intercept = np.zeros(len(values))
        has_intercept = specification.intercept is not None
        if specification.intercept is not None:
            intercept = values[:, -1] * specification.intercept
        own = slice(0, design.n_columns - has_intercept)
        intercept = intercept - values[:, own] @ design.offset[own]
        coefficients = np.zeros((len(values), n_features))
        coefficients[:, design.kept[own]] = values[:, own]
        empty_part = (coefficients @ self.empty) @ self.empty.T
        return coefficients - empty_part, intercept + empty_part @ self.centre
