# SPDX-License-Identifier: Apache-2.0
"""Class weights: given, or balanced by the labels that training sees.

"balanced" gives class c the weight W / (k W_c), W_c the weight of its records. Randomised labels change
W_c, so the weights are computed again: in expectation for an estimate, from the draw for a retraining, as
scikit-learn would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.errors import InputError
from epsilens.models.label import Label
from epsilens.models.specification import ClassWeight

__all__ = ["balanced", "class_totals", "class_weights", "own_class_weights"]


def balanced(totals: FloatArray) -> FloatArray:
    """Return W / (k W_c) for the weight W_c of every class.

    Examples
    --------
    >>> import numpy as np
    >>> balanced(np.array([1.0, 3.0]))
    array([2.        , 0.66666667])
    """
    if not (totals > 0).all():
        raise InputError(
            'class_weight="balanced" needs records of every class, but one has none. Leave it out.'
        )
    weights: FloatArray = totals.sum() / (len(totals) * totals)
    return weights


def class_weights(given: ClassWeight, label: Label, totals: FloatArray) -> FloatArray:
    """Return ω for every class, given the weight of the records of each.

    Parameters
    ----------
    given : None, "balanced" or mapping of class to weight
    label : Label
    totals : array of shape (k,)
    """
    k = len(totals)
    if given is None or label.categories is None:
        return np.ones(k)
    if isinstance(given, str):
        return balanced(totals)
    unknown = [name for name in given if name not in label.categories]
    if unknown:
        raise InputError(
            f"`class_weight` must name classes of the label, but {len(unknown)} of its keys are none."
        )
    return np.array([float(given.get(name, 1.0)) for name in label.categories])


def class_totals(codes: NDArray[np.int64], weights: FloatArray, k: int) -> FloatArray:
    """Return the weight of the records of every class."""
    totals: FloatArray = np.bincount(codes, weights=weights, minlength=k).astype(np.float64)
    return totals


def own_class_weights(given: ClassWeight, label: Label, sample_weights: FloatArray) -> FloatArray:
    """Return the class weight of every training record's own label."""
    if given is None or label.codes is None or label.values is None:
        return np.ones(len(sample_weights))
    totals = class_totals(label.codes, sample_weights, len(label.values))
    return class_weights(given, label, totals)[label.codes]
