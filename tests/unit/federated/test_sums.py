# SPDX-License-Identifier: Apache-2.0
"""Sums against a loop over single records, and expectations against every outcome one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated import (
    DeclaredColumn,
    FederationSchema,
    Records,
    add_up,
    channels_between,
    expected_sums,
    site_sums,
)

from .conftest import contract, truth


def one_by_one(records: Records, schema: FederationSchema, theta: np.ndarray) -> tuple:
    """Loss, gradient and Hessian of a softmax or logistic model, record by record."""
    k = schema.label.size
    p = schema.n_features
    loss, gradient = 0.0, np.zeros_like(theta)
    hessian = np.zeros((len(theta), len(theta)))
    for i in range(records.n):
        x = schema.design(records.take(slice(i, i + 1))).matrix[0]
        y = int(records.codes[i, -1])
        if k == 2:
            chance = 1 / (1 + np.exp(-x @ theta))
            loss -= np.log(chance if y else 1 - chance)
            gradient += (chance - y) * x
            hessian += chance * (1 - chance) * np.outer(x, x)
            continue
        s = theta.reshape(k, p) @ x
        h = np.exp(s) / np.exp(s).sum()
        loss -= np.log(h[y])
        gradient += np.kron(h - np.eye(k)[y], x)
        hessian += np.kron(np.diag(h) - np.outer(h, h), np.outer(x, x))
    return loss, gradient, hessian


@pytest.mark.parametrize("n_labels", [2, 3])
def test_sums_equal_a_loop_over_records(n_labels: int) -> None:
    schema = contract(n_labels)
    records = truth(schema, 40, seed=1)
    theta = np.random.default_rng(2).normal(size=schema.n_parameters) / 3
    sums = site_sums(records, schema, theta)
    for ours, plain in zip(
        (sums.loss, sums.gradient, sums.hessian), one_by_one(records, schema, theta), strict=True
    ):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_expected_sums_equal_the_mean_over_every_outcome(n_labels: int) -> None:
    schema = contract(n_labels)
    records = truth(schema, 6, seed=3)
    theta = np.random.default_rng(4).normal(size=schema.n_parameters) / 3
    channels = channels_between(
        schema, Budget({"smokes": 3.0, "region": 2.0}), Budget({"smokes": 1.0, "region": 0.5})
    )
    loss, gradient, hessian = 0.0, 0.0, 0.0
    label, region = schema.positions["smokes"], schema.positions["region"]
    for i in range(records.n):
        one = records.take(slice(i, i + 1))
        for y, r in itertools.product(range(n_labels), range(4)):
            chance = (
                channels["smokes"].matrix[one.codes[0, label], y]
                * channels["region"].matrix[one.codes[0, region], r]
            )
            changed = one.with_codes([label, region], np.array([[y, r]]))
            part = one_by_one(changed, schema, theta)
            loss, gradient, hessian = (
                old + chance * new for old, new in zip((loss, gradient, hessian), part, strict=True)
            )
    sums = expected_sums(records, schema, theta, channels)
    np.testing.assert_allclose(sums.loss, loss, rtol=1e-12)
    np.testing.assert_allclose(sums.gradient, gradient, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(sums.hessian, hessian, rtol=1e-11, atol=1e-12)
    assert sums.n == records.n


def test_no_noise_leaves_the_sums_as_they_are() -> None:
    schema = contract()
    records, theta = truth(schema, 30, seed=5), np.full(schema.n_parameters, 0.2)
    same = Budget.uniform(schema.protected, 2.0)
    expected = expected_sums(records, schema, theta, channels_between(schema, same, same))
    plain = site_sums(records, schema, theta)
    np.testing.assert_allclose(expected.gradient, plain.gradient, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(expected.loss, plain.loss, rtol=1e-13)


def test_too_many_combinations_are_refused() -> None:
    columns = tuple(DeclaredColumn(f"c{i}", tuple("abcdefgh")) for i in range(5))
    schema = FederationSchema(
        columns, DeclaredColumn("y", ("n", "y")), tuple(c.name for c in columns)
    )
    records = Records(np.zeros((2, 6), dtype=np.int64), np.empty((2, 0)))
    budget = Budget.uniform(schema.protected, 1.0)
    looser = Budget.uniform(schema.protected, 2.0)
    with pytest.raises(InputError, match="32768 combinations"):
        expected_sums(
            records,
            schema,
            np.zeros(schema.n_parameters),
            channels_between(schema, looser, budget),
        )


def test_nobody_to_add_up_is_refused() -> None:
    with pytest.raises(InputError, match="at least one site"):
        add_up([])
