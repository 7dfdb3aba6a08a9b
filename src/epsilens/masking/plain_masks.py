# SPDX-License-Identifier: Apache-2.0
"""Masks without optimising: the most identifying features, and any features, as a control."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from epsilens._types import BoolArray
from epsilens._validate import as_count, as_unit
from epsilens.errors import InputError
from epsilens.masking.knapsack import importance_vector

__all__ = ["mask_at_random", "mask_most_identifying"]


def mask_most_identifying(privacy: ArrayLike, *, share: float) -> BoolArray:
    """Mask the most identifying features, whatever they do for the task: P5's "top-k %".

    Parameters
    ----------
    privacy : array of float, (n_features,)
        Importance for the identity.
    share : float in [0, 1]
        The share of the features that is masked, rounded to a whole number of them. Features that do
        not identify are kept.

    Returns
    -------
    array of bool, (n_features,)
        True = kept.

    Examples
    --------
    >>> mask_most_identifying([0.1, 0.5, 0.0, 0.2], share=0.5)
    array([ True, False,  True, False])
    """
    s = importance_vector(privacy, name="privacy")
    n_masked = round(as_unit(share, name="share") * s.size)
    kept = np.ones(s.size, dtype=bool)
    kept[np.argsort(-s, kind="stable")[:n_masked]] = False
    return np.asarray(kept | (s == 0.0))


def mask_at_random(
    n_features: int, *, n_masked: int, random_state: int = 0, keep: ArrayLike | None = None
) -> BoolArray:
    """Mask features drawn at random: the control that every chosen mask stands beside.

    Parameters
    ----------
    n_features, n_masked : int
    random_state : int
        Of the draw.
    keep : array of bool, (n_features,), optional
        True for features that are never masked.

    Returns
    -------
    array of bool, (n_features,)
        True = kept.

    Raises
    ------
    InputError
        If there are not so many features that may be masked.

    Examples
    --------
    >>> int(mask_at_random(10, n_masked=3).sum())
    7
    """
    total = as_count(n_features, name="n_features")
    masked = as_count(n_masked, name="n_masked", least=0)
    free = np.arange(total) if keep is None else np.flatnonzero(~np.asarray(keep, dtype=bool))
    if masked > len(free):
        raise InputError(
            f"`n_masked` must be at most the number of features that may go, {len(free)}, got {masked}."
        )
    rng = np.random.default_rng(as_count(random_state, name="random_state", least=0))
    kept = np.ones(total, dtype=bool)
    kept[rng.permutation(free)[:masked]] = False
    return kept
