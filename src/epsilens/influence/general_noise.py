# SPDX-License-Identifier: Apache-2.0
"""The noise of one run where features, class weights or corrected losses are involved.

The formulas are those of `label_noise`; gradients of alternatives now have a size and a direction of
their own, so covariance and bias are sums over alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.influence.evaluation import Evaluation, predictor_noise
from epsilens.influence.label_noise import NoiseTerms
from epsilens.influence.perturbed import Chunk, PerturbedObjective
from epsilens.models import Curvature

_DRAW_NUMBERS = 1 << 21


def _slope_table(chunk: Chunk) -> FloatArray:
    """Return the slope of every alternative, (c, V, k, K)."""
    c, V = chunk.weights.shape
    slopes = chunk.part.trained.slopes(chunk.flat, chunk.flat_y)
    return slopes.reshape(c, V, *slopes.shape[1:])


def general_noise_terms(
    objective: PerturbedObjective,
    evaluation: Evaluation,
    theta: FloatArray,
    curvature: Curvature,
    covariance: FloatArray | None = None,
) -> NoiseTerms:
    """Return mean, bias and size of the noise of one draw around θ_ε.

    b = H⁻¹{(1/n²) Σ_S (E[∇²ℓ H⁻¹∇ℓ] − E[∇²ℓ] H⁻¹ E[∇ℓ]) − ½ ∇³F[Σ]}, each expectation over the
    alternatives of a record.

    Parameters
    ----------
    objective : PerturbedObjective
    evaluation : Evaluation
    theta : array of shape (K·p,)
        θ_ε.
    curvature : Curvature
        H_ε.
    covariance : array, optional
        C_ε if it is known already.
    """
    problem, n = objective.problem, objective.problem.n_rows
    C = gradient_covariance(objective, theta) if covariance is None else covariance
    sigma = curvature.sandwich(C)
    inverse = curvature.solve(np.eye(len(theta)))
    first = np.zeros_like(theta)
    third = np.zeros_like(theta)
    shaken = 0.0  # E tr((H⁻¹δH)²)
    for chunk in objective.chunks(theta):
        sample = objective.weights[chunk.rows]
        chances = chunk.weights / np.where(sample > 0, sample, 1.0)[:, None]
        slopes = _slope_table(chunk) * sample[:, None, None, None]
        curvatures = chunk.part.trained.curvatures(chunk.flat, chunk.flat_y)
        c, V = chunk.weights.shape
        curvatures = curvatures.reshape(c, V, *curvatures.shape[1:]) * sample.reshape(
            -1, 1, 1, 1, 1
        )
        own = _forms(objective, chunk, inverse)  # (c, V, K, K): x_vᵀ H⁻¹ x_v
        if problem.loss.is_quadratic:
            shaken += _shaken(objective, chunk, inverse, chances, curvatures[..., 0, 0]) / n**2
        moved = np.einsum(
            "iv,ic,ivckl,ivlm,ivcm->ivk", chances, chunk.reports, curvatures, own, slopes
        )
        mean_slope = np.einsum("iv,ic,ivck->ivk", chances, chunk.reports, slopes)
        mean_bend = np.einsum("iv,ic,ivckl->ivkl", chances, chunk.reports, curvatures)
        moved -= np.einsum(
            "ivkl,ivl->ivk", mean_bend, _along_mean(objective, chunk, inverse, mean_slope)
        )
        first += objective.pull(chunk, moved) / n**2
        spread = _forms(objective, chunk, sigma)
        bent = chunk.part.trained.thirds(
            chunk.flat,
            chunk.flat_y,
            spread.reshape(-1, *spread.shape[2:]),
            np.repeat(chunk.reports, V, axis=0),
        ).reshape(c, V, -1)
        third += objective.pull(chunk, chunk.weights[:, :, None] * bent) / n
    for rows, s in objective.rest(theta):
        design = problem.design.take(rows)
        bent = problem.loss.third(s, design.quadratic(sigma))
        third += design.pull(objective.rest_weights[rows, None] * bent) / n
    bias = curvature.solve(first - 0.5 * third)
    spread = evaluation.design.quadratic(sigma)
    s = evaluation.design.predict(theta)
    bend = evaluation.loss.curvature(s)
    mean_change = 0.5 * float(np.einsum("i,ikl,ikl->", evaluation.weights, bend, spread))
    mean_change += float(evaluation.gradient(theta) @ bias)
    if problem.loss.is_quadratic:
        # Features move the Hessian, and θ_ε is expanded in how much of it; the test labels have no say.
        noise_scale, undetermined = float(np.sqrt(max(shaken, 0.0))), 0.0
    else:
        noise_scale, undetermined = predictor_noise(evaluation, s, spread)
    return NoiseTerms(
        mean_change=mean_change,
        bias=bias,
        logit_noise=noise_scale,
        undetermined_loss=undetermined,
        largest_noise=float(spread.max(initial=0.0)),
        spread=float(np.einsum("i,ikl,ikl->", evaluation.weights, bend, spread)),
    )


def _shaken(
    objective: PerturbedObjective,
    chunk: Chunk,
    inverse: FloatArray,
    chances: FloatArray,
    bends: FloatArray,
) -> float:
    """Return Σ_i E tr((H⁻¹δH_i)²) for one output; δH_i is how far a record's share is off its mean."""
    base = objective.alternatives.base.take(chunk.rows)
    blocks = objective.alternatives.blocks
    side = base.predict(inverse @ blocks.T)[:, 0]  # (c, V): xᵀ H⁻¹ b_v
    inner = blocks @ inverse @ blocks.T
    among = (
        base.quadratic(inverse)[:, 0, 0, None, None] + side[:, :, None] + side[:, None, :] + inner
    )
    mean = np.einsum("ic,ivc->iv", chunk.reports, bends) * chances
    square = np.einsum("ic,ivc->iv", chunk.reports, bends**2) * chances
    kept = np.einsum("iv,ivv->", square, among**2)
    return float(kept - np.einsum("iv,iu,ivu->", mean, mean, among**2))


def _forms(objective: PerturbedObjective, chunk: Chunk, middle: FloatArray) -> FloatArray:
    """Return x_vᵀ M x_v for every alternative of every record and symmetric M, (c, V, K, K)."""
    base = objective.alternatives.base.take(chunk.rows)
    blocks = objective.alternatives.blocks
    K = objective.problem.loss.n_outputs
    p, V = base.n_columns, len(blocks)
    M = middle.reshape(K, p, K, p)
    # x_kᵀ M_kl b_v: the blocks times M are parameters of a predictor.
    side = np.einsum("kplq,vq->klpv", M, blocks)
    cross = np.stack(
        [base.predict(side[k].reshape(K * p, V)) for k in range(K)], axis=1
    )  # (c, K, K, V)
    cross = np.moveaxis(cross, 3, 1)
    inner = np.einsum("vp,kplq,vq->vkl", blocks, M, blocks)
    forms: FloatArray = (
        base.quadratic(middle)[:, None] + cross + np.swapaxes(cross, 2, 3) + inner[None]
    )
    return forms


def _along_mean(
    objective: PerturbedObjective, chunk: Chunk, inverse: FloatArray, slopes: FloatArray
) -> FloatArray:
    """Return x_vᵀ H⁻¹ E[gradient] for every alternative, given the mean slopes, (c, V, K)."""
    base = objective.alternatives.base.block(chunk.rows)
    blocks = objective.alternatives.blocks
    mean = np.einsum("ik,ip->ikp", slopes.sum(axis=1), base)
    mean += np.einsum("ivk,vp->ikp", slopes, blocks)
    solved = (mean.reshape(len(mean), -1) @ inverse).reshape(mean.shape)
    along: FloatArray = np.einsum("ip,ikp->ik", base, solved)[:, None, :] + np.einsum(
        "vp,ikp->ivk", blocks, solved
    )
    return along


def gradient_covariance(objective: PerturbedObjective, theta: FloatArray) -> FloatArray:
    """Return C_ε = (1/n²) Σ_S Cov over alternatives of the gradient, (K·p, K·p)."""
    n = objective.problem.n_rows
    total = np.zeros((len(theta), len(theta)))
    for chunk in objective.chunks(theta):
        sample = objective.weights[chunk.rows]
        slopes = _slope_table(chunk)
        second = np.einsum("ic,ivck,ivcl->ivkl", chunk.reports, slopes, slopes)
        total += objective.gram(chunk, (chunk.weights * sample[:, None])[:, :, None, None] * second)
        mean = np.einsum("iv,ic,ivck->ivk", chunk.weights, chunk.reports, slopes)
        rows = np.einsum(
            "ik,ip->ikp", mean.sum(axis=1), objective.alternatives.base.block(chunk.rows)
        )
        rows += np.einsum("ivk,vp->ikp", mean, objective.alternatives.blocks)
        flat = rows.reshape(len(rows), -1)
        total -= flat.T @ flat
    return total / n**2


@dataclass(frozen=True, repr=False)
class Balance:
    """How balanced class weights answer to a draw: ω_c falls as the count of class c rises.

    Attributes
    ----------
    pulls : array of shape (k, K·p)
        −G_c / N_c: what one more record of class c takes from the gradient of that class.
    count_weights : array of shape (n,)
        What a record counts.
    """

    pulls: FloatArray
    count_weights: FloatArray


def class_gradients(objective: PerturbedObjective, theta: FloatArray) -> FloatArray:
    """Return the expected sum of gradients of the records reported as each class, (k, K·p)."""
    problem = objective.problem
    k = objective.n_labels
    result = np.zeros((k, len(theta)))
    for chunk in objective.chunks(theta):
        slopes = _slope_table(chunk)
        for c in range(k):
            chance = chunk.weights * chunk.reports[:, c, None]
            result[c] += objective.pull(chunk, chance[:, :, None] * slopes[:, :, c])
    for rows, s in objective.rest(theta):
        slope = problem.loss.slope(s, objective.y[rows])
        weighted = objective.rest_weights[rows, None] * slope
        for c in range(k):
            mine = objective.labels[rows] == c
            result[c] += problem.design.take(rows[mine]).pull(weighted[mine])
    return result


@dataclass(frozen=True, repr=False)
class DrawnRuns:
    """Drawn runs of a cell.

    Attributes
    ----------
    deviations : array of shape (K·p, n_draws), or (1, n_draws) along a direction
        How the gradient of each run at θ_ε deviates from its expectation.
    labels, values : arrays of int, shape (n_S, n_kept)
        What the first runs report of the group's records.
    untouched : array of bool, shape (n_draws,)
        Runs that report nothing but the truth.
    """

    deviations: SingleArray
    labels: NDArray[np.int16]
    values: NDArray[np.int16]
    untouched: BoolArray


def draw_gradient_noise(
    objective: PerturbedObjective,
    theta: FloatArray,
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
    direction: FloatArray | None = None,
    balance: Balance | None = None,
    n_kept: int = 0,
) -> DrawnRuns:
    """Draw runs, and how the gradient of each at θ_ε deviates from its expectation.

    Parameters
    ----------
    objective : PerturbedObjective
    theta : array of shape (K·p,)
    n_draws : int
    seed : SeedSequence
        The same seed gives every ε the same uniform numbers.
    direction : array of shape (K·p,), optional
        Only the deviation along this vector is wanted.
    balance : Balance, optional
        How balanced class weights answer to the drawn counts.
    n_kept : int
        Number of runs whose reports are kept.
    """
    problem, n = objective.problem, objective.problem.n_rows
    K, p = problem.loss.n_outputs, problem.design.n_columns
    V = len(objective.alternatives.blocks)
    # Along a direction every record is one number an output.
    along = None if direction is None else direction.reshape(K, p)
    blocks = objective.alternatives.blocks
    total = np.zeros((K, p if along is None else 1, n_draws))
    expected = np.zeros(K * p)
    counts = np.zeros((objective.n_labels, n_draws))
    n_changed = np.zeros(n_draws, dtype=np.int64)
    kept_labels, kept_values = [np.zeros((0, n_kept), np.int16)], [np.zeros((0, n_kept), np.int16)]
    kept_rows: list[NDArray[np.intp]] = []
    member = 0
    step = max(64, _DRAW_NUMBERS // n_draws)
    # Other reports than values, such as bits, are never the truth itself.
    n_changed += len(objective.parts[0].joint) != V
    for whole in objective.chunks(theta):
        feature_ends = np.cumsum(whole.part.joint, axis=1)
        label_ends = np.cumsum(whole.part.channel, axis=1)
        slopes = _slope_table(whole)
        expected += objective.pull(whole, whole.averaged(slopes.reshape(-1, *slopes.shape[2:])))
        for start in range(0, len(whole.rows), step):
            part = slice(start, start + step)
            rows = whole.rows[part]
            generator = np.random.default_rng(
                np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, member))
            )
            member += 1
            size = (len(rows), n_draws)
            labels = _pick(generator, label_ends[objective.labels[rows]], size)
            n_changed += (labels != objective.labels[rows, None]).sum(axis=0)
            values = np.zeros(size, dtype=np.intp)
            if V > 1:
                truth = objective.alternatives.codes[rows]
                values = _pick(generator, feature_ends[truth], size)
                n_changed += (values != truth[:, None]).sum(axis=0)
            kept_rows.append(rows)
            kept_labels.append(labels[:, :n_kept].astype(np.int16))
            kept_values.append(values[:, :n_kept].astype(np.int16))
            table = slopes[part] * objective.weights[rows, None, None, None]
            table = table.reshape(len(rows), -1, K).astype(np.float32)
            base = objective.alternatives.base.part(rows).astype(np.float32)
            choice = values * slopes.shape[2] + labels
            if balance is not None:
                weights = balance.count_weights[rows]
                for c in range(len(counts)):
                    counts[c] += weights @ (labels == c)
                    counts[c] -= weights @ whole.reports[part, c]
            for k in range(K):
                drawn = np.take_along_axis(table[:, :, k], choice, axis=1)
                if along is None:
                    records, added = base, blocks
                else:
                    records = np.asarray(base @ along[k].astype(np.float32))[:, None]
                    added = (blocks @ along[k])[:, None]
                total[k] += records.T @ drawn
                if V > 1:
                    place = (values * n_draws + np.arange(n_draws)).ravel()
                    count = np.bincount(place, weights=drawn.ravel(), minlength=V * n_draws)
                    total[k] += added.T @ count.reshape(V, n_draws)
    if along is None:
        deviation = (total.reshape(K * p, n_draws) - expected[:, None]) / n
    else:
        deviation = (total.sum(axis=0) - along.ravel() @ expected) / n
    if balance is not None:
        pulls = balance.pulls if along is None else (balance.pulls @ along.ravel())[:, None]
        deviation += pulls.T @ counts / n
    # Part after part was drawn; the records of a run stand in the order of the table.
    order = np.argsort(np.concatenate(kept_rows)) if kept_rows else np.zeros(0, dtype=np.intp)
    return DrawnRuns(
        deviations=deviation.astype(np.float32),
        labels=np.concatenate(kept_labels)[order],
        values=np.concatenate(kept_values)[order],
        untouched=n_changed == 0,
    )


def _pick(
    generator: np.random.Generator, ends: FloatArray, size: tuple[int, int]
) -> NDArray[np.intp]:
    """Return for every record and draw which of its cumulative chances a uniform number meets."""
    uniform = generator.random(size, dtype=np.float64)
    picked = np.zeros(size, dtype=np.intp)
    for j in range(ends.shape[1] - 1):
        picked += uniform >= ends[:, j, None]
    return picked
