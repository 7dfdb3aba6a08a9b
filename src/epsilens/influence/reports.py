# SPDX-License-Identifier: Apache-2.0
"""The loss of a reported label, as training sees it: weighted by class, corrected for noise.

A record whose label is reported as c is trained on ω_c ℓ(s, c), or with forward correction (P1 IV-B.1)
on ω_c ℓ(Pᵀh(s), c), h the predicted probabilities. The functions here give value, slope and curvature
for every possible report at once; the expectation over reports is then a weighted sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.models import Loss

__all__ = ["OwnLabel", "Reports", "Trained"]


class Trained(Protocol):
    """What a record of the group may be trained on: k losses, of which one is drawn."""

    @property
    def is_convex(self) -> bool:
        """Whether each of them is convex."""
        ...

    def losses(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the values, (n, K) and the true labels (n,) to (n, k)."""
        ...

    def slopes(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slopes, (n, k, K)."""
        ...

    def curvatures(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the curvatures, (n, k, K, K)."""
        ...

    def thirds(
        self, s: FloatArray, y: FloatArray, spread: FloatArray, probabilities: FloatArray
    ) -> FloatArray:
        """Return the third derivative contracted with a spread, averaged over the k, (n, K)."""
        ...


@dataclass(frozen=True)
class OwnLabel:
    """The label is not protected: a record is trained on its own, k = 1.

    Parameters
    ----------
    loss : Loss
    """

    loss: Loss
    is_convex: bool = True

    def losses(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the value at the record's own label."""
        return self.loss.value(s, y)[:, None]

    def slopes(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slope at the record's own label."""
        return self.loss.slope(s, y)[:, None]

    def curvatures(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the curvature, which is free of the label."""
        return self.loss.curvature(s)[:, None]

    def thirds(
        self, s: FloatArray, y: FloatArray, spread: FloatArray, probabilities: FloatArray
    ) -> FloatArray:
        """Return the contracted third derivative, free of the label."""
        return self.loss.third(s, spread)


@dataclass(frozen=True)
class Reports:
    """The losses of the k possible reports.

    Parameters
    ----------
    loss : Loss
    values : array of shape (k,)
        The label's domain as the loss sees it.
    class_weights : array of shape (k,)
        ω; all 1 without class weights.
    correction : array of shape (k, k), optional
        The channel P inside the loss; None: no correction.
    """

    loss: Loss
    values: FloatArray
    class_weights: FloatArray
    correction: FloatArray | None = None

    @property
    def is_convex(self) -> bool:
        """Whether no correction bends the loss."""
        return self.correction is None

    def losses(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the value for every report, (n, K) to (n, k)."""
        if self.correction is not None:
            return -np.log(self._mixed(s)[1]) * self.class_weights
        n = len(s)
        columns = [self.loss.value(s, np.full(n, value)) for value in self.values]
        return np.column_stack(columns) * self.class_weights

    def slopes(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slope for every report, (n, K) to (n, k, K)."""
        if self.correction is not None:
            h, q = self._mixed(s)
            # ∂/∂s_m of −log q_c = h_m (1 − P[m, c] / q_c)
            slopes = h[:, None, :] * (1.0 - self.correction.T[None, :, :] / q[:, :, None])
            slopes = slopes * self.class_weights[None, :, None]
            return self._own(slopes, axes=1)
        mean = self.loss.mean(s)
        statistics = self.loss.statistic(self.values)
        slopes = mean[:, None, :] - statistics[None, :, :]
        result: FloatArray = slopes * self.class_weights[None, :, None]
        return result

    def reported_slopes(self, s: FloatArray, codes: NDArray[np.signedinteger]) -> FloatArray:
        """Return the slope of the one report that was made, (n, K) and (n,) to (n, K)."""
        if self.correction is None:
            slopes: FloatArray = self.loss.slope(s, self.values[codes])
            return slopes * self.class_weights[codes, None]
        h = self.loss.mean(s)
        if self.loss.n_outputs == 1:
            # q = P₀c + (P₁c − P₀c) σ(s), and −∂ log q/∂s without a difference of near numbers.
            no, yes = self.correction[0, codes, None], self.correction[1, codes, None]
            result: FloatArray = h * (1.0 - h) * (no - yes) / (no + (yes - no) * h)
        else:
            chances = self.correction.T[codes]  # (n, K): P[m, c] of the report c
            mixed = np.einsum("nm,nm->n", h, chances)
            result = h * (1.0 - chances / mixed[:, None])
        return result * self.class_weights[codes, None]

    def curvatures(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the curvature for every report, (n, K) to (n, k, K, K)."""
        if self.correction is None:
            shared = self.loss.curvature(s)
            result: FloatArray = shared[:, None] * self.class_weights[None, :, None, None]
            return result
        h, q = self._mixed(s)
        ratio = self.correction.T[None, :, :] / q[:, :, None]  # (n, c, m): P[m, c] / q_c
        g = h[:, None, :] * (1.0 - ratio)
        weighted = h[:, None, :] * ratio
        curvature = weighted[:, :, :, None] * weighted[:, :, None, :]
        curvature -= (h[:, :, None] * h[:, None, :])[:, None]
        m = np.arange(h.shape[1])
        curvature[:, :, m, m] += g
        curvature = curvature * self.class_weights[None, :, None, None]
        return self._own(curvature, axes=2)

    def thirds(
        self, s: FloatArray, y: FloatArray, spread: FloatArray, probabilities: FloatArray
    ) -> FloatArray:
        """Return the third derivative contracted with a spread, averaged over reports.

        Parameters
        ----------
        s : array of shape (n, K)
        y : array of shape (n,)
            Not used: a report replaces the label.
        spread : array of shape (n, K, K)
        probabilities : array of shape (n, k)
            Of the reports.
        """
        if self.correction is None:
            weight = probabilities @ self.class_weights
            return self.loss.third(s, spread) * weight[:, None]
        # Central differences of tr(K(s) S): the printed loss has no shorter third derivative.
        h = 1e-4
        result = np.empty_like(s)
        for k in range(s.shape[1]):
            step = np.zeros_like(s)
            step[:, k] = h
            up, down = self.curvatures(s + step, y), self.curvatures(s - step, y)
            bent = np.einsum("nc,nckl->nkl", probabilities, up - down) / (2 * h)
            result[:, k] = np.einsum("nkl,nkl->n", bent, spread)
        return result

    def _mixed(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return h, the predicted probabilities of the classes, and q = Pᵀh, of the reports."""
        if s.shape[1] == 1:
            p = self.loss.mean(s)
            h = np.column_stack([self.loss.mean(-s)[:, 0], p[:, 0]])
        else:
            h = self.loss.mean(s)
        assert self.correction is not None  # noqa: S101  (callers checked)
        q: FloatArray = h @ self.correction
        return h, q

    def _own(self, derivative: FloatArray, *, axes: int) -> FloatArray:
        """Return the derivative in the model's own outputs: a yes/no model has only the second."""
        if self.loss.n_outputs > 1:
            return derivative
        return derivative[..., 1:] if axes == 1 else derivative[..., 1:, 1:]
