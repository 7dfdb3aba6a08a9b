# SPDX-License-Identifier: Apache-2.0
"""Canaries in a noisy training of jax_privacy: writes scores.csv, which `epsilens audit scores` judges.

    python examples/audit_jax_privacy.py && epsilens audit scores scores.csv --epsilon 8 --delta 1e-5

Needs jax_privacy alone. Each canary has a feature of its own: its weight is its score.
"""

from __future__ import annotations

import csv
import sys

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from jax_privacy import clipping, noise_addition

EPSILON, DELTA, STEPS, N_CANARIES, CLIP = 8.0, 1e-5, 20, 500, 0.5


def spent(multiplier: float) -> float:
    """Return the ε of so many full-batch steps with noise."""
    steps = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(multiplier), STEPS)
    return PLDAccountant().compose(steps).get_epsilon(DELTA)


def main(noise_share: float = 1.0) -> None:
    low, high = 0.1, 100.0
    while high - low > 1e-3:  # the least noise that keeps the claim
        middle = (low + high) / 2
        low, high = (low, middle) if spent(middle) <= EPSILON else (middle, high)
    rng = np.random.default_rng()
    X = rng.normal(size=(1000, 10))  # the data that are always there
    included = rng.random(N_CANARIES) < 0.5  # a fair coin for every canary, before the run
    own = np.eye(N_CANARIES)[included]
    rows = jnp.asarray(
        np.vstack([np.pad(X, ((0, 0), (0, N_CANARIES))), np.pad(own, ((0, 0), (10, 0)))])
    )
    labels = jnp.asarray(np.append(X[:, 0] > 0, np.ones(len(own))))

    def loss(weights: jax.Array, features: jax.Array, answers: jax.Array) -> jax.Array:
        scores = features @ weights
        return jnp.mean(jax.nn.softplus(scores) - answers * scores)

    gradient = clipping.clipped_grad(loss, argnums=0, batch_argnums=(1, 2), l2_clip_norm=CLIP)
    noise = noise_addition.gaussian_privatizer(
        stddev=noise_share * high * CLIP, prng_key=jax.random.key(int(rng.integers(2**31)))
    )
    weights = jnp.zeros(rows.shape[1])
    state = noise.init(weights)
    for _ in range(STEPS):
        step, state = noise.update(gradient(weights, rows, labels), state)
        weights -= 0.5 * step / len(rows)
    with open("scores.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["included", "score"])
        table.writerows(zip(included.astype(int), np.asarray(weights[10:]), strict=True))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
