# SPDX-License-Identifier: Apache-2.0
"""Why the masks are not Flower's own: docs/decisions/masks-without-recovery.md."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.common.secure_aggregation.quantization import dequantize, quantize
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen


def test_different_keys_of_32_bytes_give_the_same_mask_in_flower():
    key = np.random.default_rng(1).bytes(32)
    words = np.frombuffer(key, dtype="<u4")
    # All that counts is the exclusive or of the eight words: 32 bits.
    other = bytes(28) + np.bitwise_xor.reduce(words).tobytes()
    assert other != key
    masks = [pseudo_rand_gen(k, 2**31, [(500,)])[0] for k in (key, other, bytes(32))]
    np.testing.assert_array_equal(masks[0], masks[1])
    assert not np.array_equal(masks[0], masks[2])


def test_flower_cuts_numbers_off_and_rounds_them_without_a_word():
    back = dequantize(quantize([np.array([-100.0, 0.1, 100.0])], 8.0, 2**22), 8.0, 2**22)[0]
    np.testing.assert_array_equal(back[[0, 2]], [-8.0, 8.0])
    # One unit is 16/2²²: a gradient of 10⁻⁷ cannot be told from none.
    assert 0 < abs(back[1] - 0.1) < 16 / 2**22
