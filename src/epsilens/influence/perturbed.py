# SPDX-License-Identifier: Apache-2.0
"""The expected perturbed objective with randomised features, class weights and corrected losses.

F_{S,ε}(θ) = F(θ) + (1/n) Σ_{i∈S} [Σ_alt w(alt | i) ℓ(alt; θ) − ℓ(z_i; θ)]: records of the group count with
every alternative, the others as they are. Where only labels are randomised under a canonical loss the
shorter form of `label_noise` applies; this is the general one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.influence.alternatives import Alternatives
from epsilens.models import Loss, Problem

# --- The loss of a reported label, as training sees it: weighted by class, corrected for noise ---


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
            no, apart = (
                table.take(codes)[:, None]
                for table in (self.correction[0], self.correction[0] - self.correction[1])
            )
            result: FloatArray = h * (1.0 - h) * apart / (no - apart * h)
        else:
            chances = self.correction.T[codes]  # (n, K): P[m, c] of the report c
            mixed = np.einsum("nm,nm->n", h, chances)
            result = h * (1.0 - chances / mixed[:, None])
        if (self.class_weights == 1.0).all():
            return result
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
            Probabilities of the reports.
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


# --- The expected perturbed objective with randomised features, class weights and corrected losses ---

_CHUNK_NUMBERS = 1 << 18


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class RandomisedRecords:
    """Records that go through the same channels.

    Parameters
    ----------
    mask : array of bool, shape (n,)
        Which training records they are.
    joint : array of shape (U, V)
        The probability of every alternative for every true joint value of the protected columns;
        U = V unless the mechanism reports something else than a value.
    channel : array of shape (k, k)
        The channel over labels; 1×1 if the label is not protected.
    trained : OwnLabel or Reports
        The losses of their possible reports.
    """

    mask: BoolArray
    joint: FloatArray
    channel: FloatArray
    trained: OwnLabel | Reports


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Chunk:
    """Some records of one part with all their alternatives, at given parameters.

    Attributes
    ----------
    rows : array of int, shape (c,)
    predictor : array of shape (c, V, K)
    weights : array of shape (c, V)
        Sample weight times the probability of each joint value of the protected columns.
    reports : array of shape (c, k)
        Probabilities of the reported labels.
    y : array of shape (c,)
        The true labels.
    part : RandomisedRecords
        The part that they belong to.
    """

    rows: NDArray[np.intp]
    predictor: FloatArray
    weights: FloatArray
    reports: FloatArray
    y: FloatArray
    part: RandomisedRecords

    @property
    def flat_y(self) -> FloatArray:
        """The true labels, repeated for every alternative, (c·V,)."""
        return np.repeat(self.y, self.weights.shape[1])

    @property
    def flat(self) -> FloatArray:
        """The predictors as (c·V, K)."""
        flat: FloatArray = self.predictor.reshape(-1, self.predictor.shape[2])
        return flat

    def averaged(self, per_report: FloatArray) -> FloatArray:
        """Return the mean over reports, times the weights: (c·V, k, ...) to (c, V, ...)."""
        c, V = self.weights.shape
        shaped = per_report.reshape(c, V, *per_report.shape[1:])
        mean = np.einsum("ik,ivk...->iv...", self.reports, shaped)
        averaged: FloatArray = mean * self.weights.reshape(c, V, *(1,) * (mean.ndim - 2))
        return averaged


@dataclass(frozen=True, repr=False)
class PerturbedObjective:
    """The objective of one cell.

    Parameters
    ----------
    problem : Problem
        Design, weights, loss and penalty of the unperturbed model.
    alternatives : Alternatives
    y : array of shape (n,)
        The true labels as the loss sees them.
    labels : array of int, shape (n,)
        Their codes; all 0 if the label is not protected.
    parts : tuple of RandomisedRecords
        The group S: one part, or several disjoint ones with channels of their own.
    weights : array of shape (n,)
        Sample weights of the group's records, before any class weight.
    rest_weights : array of shape (n,)
        Weights of everybody else, the class weight of their own label included.
    """

    problem: Problem
    alternatives: Alternatives
    y: FloatArray
    labels: NDArray[np.int64]
    parts: tuple[RandomisedRecords, ...]
    weights: FloatArray
    rest_weights: FloatArray
    mask: BoolArray = field(init=False)
    _others: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", np.any([part.mask for part in self.parts], axis=0))
        object.__setattr__(self, "_others", np.flatnonzero(~self.mask))

    @property
    def n_labels(self) -> int:
        """How many labels a record can report; 1 if the label is not protected."""
        return len(self.parts[0].channel)

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        return self.problem.loss.is_quadratic

    @property
    def is_convex(self) -> bool:
        """Whether the objective has one minimum."""
        return all(part.trained.is_convex for part in self.parts)

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the largest distance that a step moves a predictor."""
        reach: FloatArray = np.abs(self.problem.design.predict(steps)).max(axis=(0, 1))
        return reach

    def chunks(self, theta: FloatArray) -> Iterator[Chunk]:
        """Yield the group's records, some at a time, with their alternatives."""
        V, k = len(self.alternatives.blocks), self.n_labels
        K = self.problem.loss.n_outputs
        step = max(1, _CHUNK_NUMBERS // (V * k * K * K))
        added = (theta.reshape(K, -1) @ self.alternatives.blocks.T).T
        base = self.alternatives.base
        for part in self.parts:
            members = np.flatnonzero(part.mask)
            for start in range(0, len(members), step):
                rows = members[start : start + step]
                own = base.take(rows).predict(theta)
                truth = self.alternatives.codes[rows]
                yield Chunk(
                    rows=rows,
                    predictor=own[:, None, :] + added[None, :, :],
                    weights=self.weights[rows, None] * part.joint[truth],
                    reports=part.channel[self.labels[rows]],
                    y=self.y[rows],
                    part=part,
                )

    def rest(self, theta: FloatArray) -> Iterator[tuple[NDArray[np.intp], FloatArray]]:
        """Yield everybody else, some at a time, with their predictors."""
        step = 1 << 14
        for start in range(0, len(self._others), step):
            rows = self._others[start : start + step]
            yield rows, self.problem.design.take(rows).predict(theta)

    def value(self, theta: FloatArray) -> float:
        """Return F_{S,ε}(θ), for tests and line searches."""
        total = 0.0
        for chunk in self.chunks(theta):
            losses = chunk.part.trained.losses(chunk.flat, chunk.flat_y)
            total += float(chunk.averaged(losses).sum())
        for rows, s in self.rest(theta):
            own = self.problem.loss.value(s, self.y[rows])
            total += float(self.rest_weights[rows] @ own)
        return total / self.problem.n_rows + 0.5 * float(theta @ self.problem.penalise(theta))

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return ∇F_{S,ε} at one column of parameters, less a linear term (as the solver asks)."""
        at = theta[:, 0]
        total = np.zeros_like(at)
        for chunk in self.chunks(at):
            slopes = chunk.part.trained.slopes(chunk.flat, chunk.flat_y)
            total += self.pull(chunk, chunk.averaged(slopes))
        for rows, s in self.rest(at):
            own = self.problem.loss.slope(s, self.y[rows])
            total += self.problem.design.take(rows).pull(self.rest_weights[rows, None] * own)
        result: FloatArray = total / self.problem.n_rows + self.problem.penalise(at)
        return result[:, None] - linear

    def pull(self, chunk: Chunk, values: FloatArray) -> FloatArray:
        """Return Σ over records and alternatives of value ⊗ features, values (c, V, K)."""
        base = self.alternatives.base.take(chunk.rows).pull(values.sum(axis=1))
        blocks = values.sum(axis=0).T @ self.alternatives.blocks
        pulled: FloatArray = base + blocks.ravel()
        return pulled

    def gram(self, chunk: Chunk, values: FloatArray) -> FloatArray:
        """Return Σ of value ⊗ features featuresᵀ, values (c, V, K, K) symmetric: (K·p, K·p)."""
        base = self.alternatives.base.take(chunk.rows)
        blocks = self.alternatives.blocks
        V, K = values.shape[1], values.shape[2]
        p = base.n_columns
        total = base.gram(values.sum(axis=1)).reshape(K, p, K, p)
        if V > 1:
            pulled = base.pull(values.reshape(len(values), V * K * K)[:, :, None])
            crossed = pulled.reshape(V, K, K, p)
            cross = np.einsum("vklp,vq->kplq", crossed, blocks)
            total = total + cross + np.transpose(cross, (2, 3, 0, 1))
            total = total + np.einsum("vkl,vp,vq->kplq", values.sum(axis=0), blocks, blocks)
        return total.reshape(K * p, K * p)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ∇²F_{S,ε}(θ)."""
        q = len(theta)
        total = np.zeros((q, q))
        for chunk in self.chunks(theta):
            curvatures = chunk.part.trained.curvatures(chunk.flat, chunk.flat_y)
            total += self.gram(chunk, chunk.averaged(curvatures))
        for rows, s in self.rest(theta):
            weighted = self.rest_weights[rows, None, None] * self.problem.loss.curvature(s)
            total += self.problem.design.take(rows).gram(weighted)
        return total / self.problem.n_rows + self.problem.penalty_hessian()
