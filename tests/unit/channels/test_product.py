# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from epsilens.channels import Channel, ProductChannel, RandomizedResponse
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning

THREE = ProductChannel(
    [RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.5), RandomizedResponse(4, 2.0)]
)


def test_weight_is_the_entry_of_the_joint_channel() -> None:
    cells = list(itertools.product(*(range(k) for k in THREE.sizes)))
    joint = np.array(THREE.matrix)
    for row, truth in enumerate(cells):
        for column, report in enumerate(cells):
            changed = [f for f in range(3) if truth[f] != report[f]]
            assert joint[row, column] == pytest.approx(THREE.weight(changed), rel=1e-13)


def test_weights_times_alternatives_sum_to_one() -> None:
    weights = THREE.weights()
    assert len(weights) == 8
    total = sum(
        weight * math.prod(THREE.sizes[f] - 1 for f in changed)
        for changed, weight in weights.items()
    )
    assert total == pytest.approx(1.0, rel=1e-14)


def test_epsilon_adds_up_and_is_attained() -> None:
    assert THREE.epsilon == 3.5
    assert Channel(THREE.matrix).epsilon == pytest.approx(3.5, rel=1e-13)
    assert ProductChannel([RandomizedResponse(2, math.inf), *THREE.channels]).epsilon == math.inf


def test_columns_are_drawn_by_their_own_channel() -> None:
    product = ProductChannel([RandomizedResponse(2, math.inf), Channel([[0.0, 1.0], [1.0, 0.0]])])
    assert product.perturb([[0, 0], [1, 0], [1, 1]]).tolist() == [[0, 1], [1, 1], [1, 0]]


def test_columns_are_independent() -> None:
    # 40 000 records, correlation of independent reports has a standard error of 0.005.
    product = ProductChannel([RandomizedResponse(2, 0.5), RandomizedResponse(2, 0.5)])
    with pytest.warns(PrivacyLeakWarning):
        reports = product.perturb(np.zeros((40_000, 2), dtype=int), random_state=3)
    assert abs(np.corrcoef(reports.T)[0, 1]) < 5 * 0.005


def test_release_is_checked() -> None:
    with pytest.raises(InputError, match=r"one column per channel \(3\), got an array of shape"):
        THREE.perturb([[0, 1]])
    with pytest.raises(InputError, match=r"`codes\[:, 1\]` must be whole numbers from 0 to 2"):
        THREE.perturb([[0, 3, 0]])
    mixed = ProductChannel([RandomizedResponse(2, math.inf), RandomizedResponse(2, 41.0)])
    with pytest.raises(InputError, match="at most 40 or infinite"):
        mixed.perturb([[0, 0]])


def test_members_are_checked() -> None:
    with pytest.raises(InputError, match="at least one channel"):
        ProductChannel([])
    with pytest.raises(InputTypeError, match="must be Channel objects, got ndarray"):
        ProductChannel([np.eye(2)])  # type: ignore[list-item]
    with pytest.raises(InputError, match="columns 0 to 2, got"):
        THREE.weight([3])
    with pytest.raises(InputTypeError, match="RandomizedResponse, got Channel"):
        ProductChannel([Channel(np.eye(2))]).weight([0])
    with pytest.raises(InputError, match="at most 4096 combinations of categories, got 10000"):
        _ = ProductChannel([RandomizedResponse(100, 1.0)] * 2).matrix


def test_product_is_a_value() -> None:
    assert ProductChannel(THREE.channels) == THREE
    assert hash(ProductChannel(THREE.channels)) == hash(THREE)
    with pytest.raises(AttributeError):
        THREE.channels = ()  # type: ignore[misc]
