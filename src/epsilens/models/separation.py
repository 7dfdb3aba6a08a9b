# SPDX-License-Identifier: Apache-2.0
"""Whether a classifier without a penalty has an optimum at all.

It has none if some direction of the parameters makes no record's prediction worse and somebody's
better: the model then runs that way for ever, and where a solver stops is an accident. One rare
category in which all answers are alike is enough, with all other records well mixed.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.models.design import Design

# A solver that runs away stops where the gradient is gone, e^-s below 1e-12 of the records' number.
_FAR = 15.0
# HiGHS keeps to constraints within 1e-7; a direction that separates gains a good part of 1.
_GAIN = 1e-4


def runs_away(design: Design, y: FloatArray, theta: FloatArray) -> bool:
    """Return whether the parameters found are only where the solver stopped running.

    Parameters
    ----------
    design : Design
        The training records that count, and no others.
    y : array of shape (n,)
        Their classes: 0 and 1, or the number of the class.
    theta : array of shape (K·p,)
        Where the solver stopped.

    Returns
    -------
    bool
        False at once if no predictor is far out; otherwise by linear programming.

    Notes
    -----
    A. Albert and J. A. Anderson, "On the existence of maximum likelihood estimates in logistic
    regression models", Biometrika 1984: there is a finite optimum unless some d ≠ 0 has
    x_iᵀ(d_{y_i} − d_k) ≥ 0 for all records i and classes k and not 0 for all. The largest sum of
    these over a box of d is 0 or the data are separated, at least in part.

    Examples
    --------
    >>> import numpy as np
    >>> design = Design.plain(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
    >>> runs_away(design, np.array([0.0, 0.0, 1.0]), np.array([60.0, -90.0]))
    True
    >>> runs_away(design, np.array([0.0, 1.0, 0.0]), np.array([60.0, -90.0]))
    False
    """
    from scipy.optimize import linprog

    s = design.predict(theta)
    n_outputs = s.shape[1]
    far = np.abs(s[:, 0]) if n_outputs == 1 else np.ptp(s, axis=1)
    if far.max(initial=0.0) < _FAR:
        return False
    rows = scipy.sparse.csr_array(design.matrix)
    size = np.maximum(abs(rows).max(axis=1).toarray().ravel(), 1e-300)
    rows = scipy.sparse.csr_array(rows.multiply((1.0 / size)[:, None]))
    if n_outputs == 1:
        gains = scipy.sparse.csr_array(rows.multiply((2.0 * y - 1.0)[:, None]))
    else:
        gains = _against_each(rows, y.astype(np.intp), n_outputs)
    total = np.asarray(gains.sum(axis=0)).ravel()
    found = linprog(-total, A_ub=-gains, b_ub=np.zeros(gains.shape[0]), bounds=(-1.0, 1.0))
    return bool(found.status != 0 or -found.fun > _GAIN)


def _against_each(
    rows: scipy.sparse.csr_array, y: NDArray[np.intp], n_outputs: int
) -> scipy.sparse.csr_array:
    """Return x_i ⊗ (e_{y_i} − e_k) for every record and class, the own one an empty row."""
    n = len(y)
    own = np.zeros((n, n_outputs))
    own[np.arange(n), y] = 1.0
    parts = []
    for k in range(n_outputs):
        other = np.zeros(n_outputs)
        other[k] = 1.0
        sign = own - other
        parts.append(
            scipy.sparse.hstack([rows.multiply(sign[:, [m]]) for m in range(n_outputs)]).tocsr()
        )
    return scipy.sparse.csr_array(scipy.sparse.vstack(parts))
