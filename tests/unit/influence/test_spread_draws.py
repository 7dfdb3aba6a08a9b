# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from epsilens.influence.shared_draws import draw_spread

N = 40_000


@pytest.mark.parametrize("n_draws", [2, 5])
@pytest.mark.parametrize("k", [2, 3, 7, 20])
def test_a_draw_alone_is_uniform_and_draws_are_not_alike(k, n_draws):
    draws = draw_spread([k], N, n_draws, np.random.SeedSequence(1))
    for draw in draws:
        counts = np.bincount(draw.categories[0], minlength=k)
        # Five standard errors of a count.
        assert np.abs(counts - N / k).max() < 5 * math.sqrt(N / k)
        assert abs(np.corrcoef(draw.uniforms[0], draw.categories[0])[0, 1]) < 5 / math.sqrt(N)
    for what in ("uniforms", "categories"):
        one, other = (getattr(draw, what)[0] for draw in draws[:2])
        # Ordered categories of a record must not lie close together in all draws.
        assert np.corrcoef(one, other)[0, 1] < 5 / math.sqrt(N)
