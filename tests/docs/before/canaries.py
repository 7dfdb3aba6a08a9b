# SPDX-License-Identifier: Apache-2.0
"""A release with far more noise than it claims, and scores of somebody's own attack."""

from pathlib import Path

import numpy as np


def my_release(rows):
    """Add enough noise for ε well below 1."""
    return rows.sum(axis=0) + np.random.default_rng(1).normal(0, 100, rows.shape[1])


Path("mypackage").mkdir()
Path("mypackage/release.py").write_text(
    "import numpy as np\n\n\n"
    "def noisy_sum(rows):\n"
    "    return rows.sum(axis=0) + np.random.default_rng(1).normal(0, 100, rows.shape[1])\n",
    encoding="utf-8",
)
_rng = np.random.default_rng(0)
included = _rng.random(400) < 0.5
scores = included + _rng.normal(size=400)
