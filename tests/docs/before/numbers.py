# SPDX-License-Identifier: Apache-2.0
"""5,000 records for a regression, within the bounds that the page declares."""

import numpy as np

_rng = np.random.default_rng(0)
X = _rng.uniform(-0.4, 0.4, (5000, 3))
y = X @ np.array([0.5, -0.3, 0.2]) + 0.05 * _rng.normal(size=5000)
X_test, y_test = X[:1000], y[:1000]
