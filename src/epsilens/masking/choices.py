# SPDX-License-Identifier: Apache-2.0
"""One mask for everybody, by any of the three ways, or one for every person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_choice, as_count, as_unit
from epsilens.document import MaskOutcome
from epsilens.errors import InputError
from epsilens.masking.knapsack import MaskChoice, importance_vector, solve_mask

# --- Masks without optimising: the most identifying features, and any features, as a control ---


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
        Seed of the draw.
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
            argument="n_masked",
            expected=f"at most the number of features that may go, {len(free)}",
            got=str(masked),
        )
    rng = np.random.default_rng(as_count(random_state, name="random_state", least=0))
    kept = np.ones(total, dtype=bool)
    kept[rng.permutation(free)[:masked]] = False
    return kept


# --- One mask for everybody, by any of the three ways, or one for every person ---

Method: TypeAlias = Literal["knapsack", "top-share", "random"]
Scope: TypeAlias = Literal["global", "identity"]
_LESS_SURE = ("exact", "near-exact", "greedy")


def check_method(scope: Scope, method: Method) -> None:
    """Refuse unknown choices, and masks for every person by a way that chooses one for everybody."""
    as_choice(scope, get_args(Scope), name="scope")
    as_choice(method, get_args(Method), name="method")
    if scope == "identity" and method != "knapsack":
        raise InputError(
            f"a mask for each person must be chosen by `knapsack`, got {method!r}. Leave the method out, or "
            "use the scope `global`."
        )


def choice_by(
    u: FloatArray,
    s: FloatArray,
    *,
    method: Method,
    alpha: float,
    share: float,
    seed: int,
    keep: BoolArray | None = None,
) -> MaskChoice:
    """Choose one mask for everybody.

    Parameters
    ----------
    u, s : array of shape (n_features,)
        Importance for the task and for the identity.
    method : {"knapsack", "top-share", "random"}
    alpha, share : float in [0, 1]
        What the first needs, and what the other two need.
    seed : int
        Seed of the method "random".
    keep : array of bool, (n_features,), optional
        True for features that are never masked.
    """
    if method == "knapsack":
        return solve_mask(u, s, alpha=alpha, keep=keep)
    free = np.ones(len(u), dtype=bool) if keep is None else ~keep
    if method == "top-share":
        kept = mask_most_identifying(np.where(free, s, 0.0), share=share)
    else:
        n_masked = min(round(as_unit(share, name="share") * len(u)), int(free.sum()))
        kept = mask_at_random(len(u), n_masked=n_masked, random_state=seed, keep=keep)
    return MaskChoice(
        kept=kept,
        alpha=alpha,
        utility_kept=float(u[kept].sum() / u.sum()) if u.any() else 1.0,
        privacy_kept=float(s[kept].sum() / s.sum()) if s.any() else 0.0,
        utility_bound=1.0,
        solver="greedy",
    )


def person_choices(
    utility: FloatArray, privacy: FloatArray, *, alpha: float, keep: BoolArray | None = None
) -> tuple[MaskChoice, ...]:
    """Choose a mask for every person (P5 Alg. 1).

    P5 has u by answer and s by person; a person's u is the mean over the answers that they give.

    Parameters
    ----------
    utility, privacy : array of shape (n_people, n_features)
    alpha : float in [0, 1]
    keep : array of bool, (n_features,), optional
        True for features that are never masked.
    """
    return tuple(
        solve_mask(u, s, alpha=alpha, keep=keep) for u, s in zip(utility, privacy, strict=True)
    )


def joined(choices: Sequence[MaskChoice], shares: FloatArray, alpha: float) -> MaskChoice:
    """Sum the masks of all people up, weighted by their records."""

    def mean(values: Sequence[float]) -> float:
        return float(np.dot(shares, values) / shares.sum())

    return MaskChoice(
        kept=np.all([choice.kept for choice in choices], axis=0),
        alpha=alpha,
        utility_kept=mean([choice.utility_kept for choice in choices]),
        privacy_kept=mean([choice.privacy_kept for choice in choices]),
        utility_bound=mean([choice.utility_bound for choice in choices]),
        solver=max((choice.solver for choice in choices), key=_LESS_SURE.index),
    )


def outcome(
    masking: Literal["none", "random", "chosen"],
    n_masked: int,
    judged: Sequence[tuple[BoolArray, BoolArray]],
    *,
    before: tuple[BoolArray, BoolArray] | None = None,
) -> MaskOutcome:
    """Average over masks; errors are over test records, which all masks share, and over masks.

    Parameters
    ----------
    masking, n_masked
        As in the document.
    judged : sequence of (right, recognised)
        Test records that both tasks get right, for every mask.
    before : (right, recognised), optional
        The same with nothing masked: the error of the change is that of the differences.
    """
    means, errors, changes = [], [], []
    for task in (0, 1):
        values = np.array([one[task] for one in judged], dtype=np.float64)
        means.append(float(values.mean()))
        errors.append(_error(values))
        changes.append(None if before is None else _error(values - before[task]))
    return MaskOutcome(
        masking=masking,
        n_masked=n_masked,
        utility_accuracy=means[0],
        utility_error=errors[0],
        utility_change_error=changes[0],
        identity_accuracy=means[1],
        identity_error=errors[1],
        identity_change_error=changes[1],
    )


def _error(values: FloatArray) -> float:
    """Return the standard error of the mean of (masks, records): records are drawn, and masks too."""
    n_masks, n_records = values.shape
    over_records = values.mean(axis=0).var() / n_records
    over_masks = values.mean(axis=1).var(ddof=1) / n_masks if n_masks > 1 else 0.0
    return float(np.sqrt(over_records + over_masks))
