# SPDX-License-Identifier: Apache-2.0
"""Logistic regression by DP-SGD for a real release: Opacus clips, the operating system draws."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens.models.dp_sgd_settings import DPSGDSettings, TrainingPlan
from epsilens.models.gaussian_release import GaussianRelease
from epsilens.models.opacus_reference import Learner, quietly

_ALLOWANCE = 1e-6


def sum_release(settings: DPSGDSettings, n_records: int) -> GaussianRelease:
    """Return the noise on every sum of clipped gradients.

    Its standard deviation is the noise multiplier times the clipping length, and a little more for
    rounding. A sum of n vectors of length C is off by at most n²·u·C, u being half the machine precision
    and two sums being compared; gradients and their clipping are off by far less than 10⁻⁶·C.

    Parameters
    ----------
    settings : DPSGDSettings
        Of finite ε.
    n_records : int
    """
    multiplier = settings.calibration(n_records).noise_multiplier
    longest = settings.clip * (1.0 + _ALLOWANCE + n_records**2 * sys.float_info.epsilon)
    return GaussianRelease("sum of gradients", longest, 1.0 / (2.0 * multiplier**2))


def poisson_batches(
    n_records: int, plan: TrainingPlan, generator: np.random.Generator | None
) -> Iterator[BoolArray]:
    """Yield who is in the batch of every step: each record by a coin of its own, (n_records,).

    Without a generator 64 bits of the operating system decide for every record and step. The probability
    is rounded down to a multiple of 2⁻⁶⁴.
    """
    below = np.uint64(min(int(plan.sampling_probability * 2**64), 2**64 - 1))
    for _ in range(plan.n_steps):
        if generator is None:
            words = np.frombuffer(os.urandom(8 * n_records), dtype=np.uint64)
        else:
            words = generator.integers(0, 2**64, n_records, dtype=np.uint64)
        yield words < below


def released_coefficients(
    design: FloatArray,
    codes: NDArray[np.intp],
    n_outputs: int,
    settings: DPSGDSettings,
    *,
    generator: np.random.Generator | None,
    progress: Progress | None = None,
) -> FloatArray:
    """Return the coefficients of a logistic or softmax regression by DP-SGD, (n_columns, n_outputs).

    Opacus computes and clips the gradient of each record and makes the step. The batches come from
    `poisson_batches`, and the noise from OpenDP's sampler, as `GaussianRelease.draw` has it; Opacus' own
    noise comes from a seeded generator of torch.

    Parameters
    ----------
    design : array of shape (n_records, n_columns)
        Clipped rows with their constant column.
    codes : array of int, shape (n_records,)
    n_outputs : int
        1 for two classes.
    settings : DPSGDSettings
    generator : numpy Generator or None
        None for a real release.
    progress : callable, optional
    """
    import torch

    n_records, n_columns = design.shape
    plan, noise = settings.plan(n_records), sum_release(settings, n_records)

    def draw(total: FloatArray) -> FloatArray:
        return noise.draw(total, generator)

    rows, targets = torch.as_tensor(design, dtype=torch.float64), torch.as_tensor(codes)
    module = torch.nn.Linear(n_columns, n_outputs, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(module.weight)
    with quietly():
        learner = Learner(
            module,
            settings,
            expected_batch=plan.expected_batch,
            noise_multiplier=noise.sigma / settings.clip,
            draw=draw,
        )
        for number, batch in enumerate(poisson_batches(n_records, plan, generator)):
            chosen = torch.as_tensor(np.flatnonzero(batch))
            learner.step(rows[chosen], targets[chosen])
            if progress is not None:
                progress(number + 1, plan.n_steps, "training")
        learner.close()
    found: FloatArray = module.weight.detach().numpy().T.copy()
    return found
