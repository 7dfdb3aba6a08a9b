# SPDX-License-Identifier: Apache-2.0
"""Sums as whole numbers, so that masks of whole numbers can hide them without any loss.

How large a sum can become is known from the contract alone: the answers are declared, and a number lies
within a declared `limit`. So every sum has a unit so small that nothing is lost by it, and no sum can run
over. What lies outside the bounds is refused, never cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray, WordArray
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.sums import SiteSums, upper_half, whole_of

BITS = 61
"""The largest sum has so many, of 64: one is the sign, and two are room for rounding."""
LARGEST_CURVATURE = 0.25
"""Largest curvature of a logistic or softmax loss: p(1 − p), and p_k p_l outside the diagonal."""
_SLACK = 1e-9
"""A sum may pass its bound by its own rounding."""


def feature_bounds(schema: FederationSchema) -> FloatArray:
    """Return the largest absolute value of each column of the design that the contract allows.

    Parameters
    ----------
    schema : FederationSchema

    Returns
    -------
    array of shape (d,)

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> feature_bounds(FederationSchema(
    ...     (DeclaredColumn("sex", ("f", "m")), DeclaredColumn("age", encoding="number", limit=8.0),
    ...      DeclaredColumn("class", ("low", "mid", "high"), "code", centre=1.0, scale=0.5)),
    ...     DeclaredColumn("smokes", ("no", "yes")), ("smokes",))).tolist()
    [1.0, 8.0, 2.0, 1.0]
    """
    bounds = [np.full(column.width, column.largest_feature) for column in schema.columns]
    if schema.intercept:
        bounds.append(np.ones(1))
    return np.concatenate(bounds)


def sum_bounds(schema: FederationSchema, theta: FloatArray, *, hessian: bool) -> FloatArray:
    """Return how much one record can add to each of a site's sums: loss, gradient, half the Hessian.

    Parameters
    ----------
    schema : FederationSchema
    theta : array of shape (p,)
    hessian : bool

    Returns
    -------
    array of shape (1 + p,) or (1 + p + p(p + 1)/2,)

    Notes
    -----
    |ℓ| ≤ log K + 2 Σ_j b_j max_k |θ_kj|, |∂ℓ/∂θ_kj| ≤ b_j and |∂²ℓ/∂θ_ki ∂θ_lj| ≤ ¼ b_i b_j, with b_j the
    bound of feature j.
    """
    own, n_outputs = feature_bounds(schema), schema.loss.n_outputs
    steepest = np.abs(theta.reshape(n_outputs, len(own))).max(axis=0)
    loss = np.log(max(n_outputs, 2)) + 2.0 * float(own @ steepest)
    gradient = np.tile(own, n_outputs)
    parts = [np.array([loss]), gradient]
    if hessian:
        parts.append(LARGEST_CURVATURE * upper_half(np.outer(gradient, gradient)))
    return np.concatenate(parts)


def flatten(sums: SiteSums) -> FloatArray:
    """Return loss, gradient and the upper half of the Hessian in one row.

    Examples
    --------
    >>> flatten(SiteSums(2, 1.0, np.array([2.0, 3.0]), np.array([[4.0, 5.0], [5.0, 6.0]]))).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    parts = [np.array([sums.loss]), sums.gradient]
    if sums.hessian is not None:
        parts.append(upper_half(sums.hessian))
    return np.concatenate(parts)


def unflatten(row: FloatArray, n: int, *, n_parameters: int, hessian: bool) -> SiteSums:
    """Return the sums that `flatten` wrote in one row.

    Examples
    --------
    >>> unflatten(np.arange(1.0, 7.0), 2, n_parameters=2, hessian=True).hessian.tolist()
    [[4.0, 5.0], [5.0, 6.0]]
    """
    gradient = row[1 : 1 + n_parameters].copy()
    if not hessian:
        return SiteSums(n, float(row[0]), gradient, None)
    whole = whole_of(row[1 + n_parameters :], n_parameters)
    return SiteSums(n, float(row[0]), gradient, whole)


@dataclass(frozen=True)
class FixedPoint:
    """Numbers within known bounds as whole numbers modulo 2⁶⁴.

    Parameters
    ----------
    bounds : array of shape (m,)
        How much one record can add to each number.
    n_records : int
        Over which the sums run in the end, all sites together.

    Examples
    --------
    >>> form = FixedPoint(np.array([0.25, 1000.0]), n_records=500)
    >>> parts = [np.array([10.0, -3e4]), np.array([-2.5, 7.0])]
    >>> total = form.encode(parts[0], n_records=200) + form.encode(parts[1], n_records=300)
    >>> form.decode(total).tolist()
    [7.5, -29993.0]
    """

    bounds: FloatArray
    n_records: int

    @property
    def unit(self) -> FloatArray:
        """The smallest step of each number."""
        step: FloatArray = self.bounds * (self.n_records / 2.0**BITS)
        return step

    def encode(self, values: FloatArray, *, n_records: int) -> WordArray:
        """Write a site's sums as whole numbers.

        Parameters
        ----------
        values : array of shape (m,)
        n_records : int
            Number of records of this site.

        Raises
        ------
        InputError
            If a value is outside its bound: it would have to be cut off.
        """
        most = self.bounds * (n_records * (1.0 + _SLACK))
        outside = int(np.count_nonzero(~(np.abs(values) <= most)))
        if outside:
            raise InputError(
                f"{outside} of {len(values)} sums are outside the bounds that the contract gives, so they "
                "cannot be masked. Declare a larger `limit` for the numbers in the contract, or leave "
                "out the records that are far off."
            )
        whole = np.rint(values / self.unit).astype(np.int64)
        return whole.view(np.uint64)

    def decode(self, total: WordArray) -> FloatArray:
        """Read a sum of encoded numbers."""
        values: FloatArray = total.view(np.int64).astype(np.float64) * self.unit
        return values
