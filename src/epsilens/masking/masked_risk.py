# SPDX-License-Identifier: Apache-2.0
"""May ε be larger once features are masked? Models are attacked with and without them (P5 IV-B, V-C)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_count
from epsilens.document import EquivalentEpsilon, RelaxedEpsilon
from epsilens.errors import InputError
from epsilens.influence.question import read_grid
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.risk.equivalent import (
    Gain,
    Measure,
    budget_gains,
    equivalent_budgets,
    model_accuracies,
)
from epsilens.risk.membership_attack import MembershipAttack
from epsilens.risk.shadow_ensemble import ShadowEnsemble

MEASURES: tuple[Measure, ...] = ("asr_max", "balanced_accuracy")
NOTHING = "none"
_FEWEST_MODELS = 20


@dataclass(frozen=True, eq=False, repr=False)  # the attacks name records
class MaskedRisk:
    """Attacks on models that were trained on masked features, for several masks and budgets.

    Attributes
    ----------
    epsilons : tuple of float
        The budgets, ascending.
    attacks : dict of str to tuple of MembershipAttack
        For every mask by its name, and under "none" for all features. **Sensitive**: they know which
        records are exposed.
    accuracies : dict of str to array of shape (n_epsilons, n_models)
        Accuracy of every model on the records that it was not trained on.
    """

    epsilons: tuple[float, ...]
    attacks: dict[str, tuple[MembershipAttack, ...]]
    accuracies: dict[str, FloatArray]

    def attack_accuracy(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the balanced accuracy of the attack at every ε, and its standard error."""
        found = model_accuracies(self.attacks[name])
        return found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(found.shape[1])

    def model_accuracy(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the models' accuracy at every ε, and its standard error over models."""
        found = self.accuracies[name]
        return found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(found.shape[1])

    def equivalent(self, name: str, *, measure: Measure) -> list[EquivalentEpsilon]:
        """Return, for every ε on all features, the ε on the masked ones that exposes as much.

        The interval and `gains` never contradict each other: it holds the old ε where that is within
        the noise, and ends there where it is not.
        """
        found = equivalent_budgets(
            self.epsilons,
            self.attacks[NOTHING],
            self.epsilons,
            self.attacks[name],
            measure=measure,
        )
        gains = self.gains(name, measure=measure)
        return [_agreeing(one, gain) for one, gain in zip(found, gains, strict=True)]

    def gains(self, name: str, *, measure: Measure) -> list[Gain]:
        """Say, for every ε, whether the masked features are clearly less exposed at that same ε."""
        return budget_gains(self.attacks[NOTHING], self.attacks[name], measure=measure)

    def relaxed(self, name: Literal["random", "chosen"]) -> list[RelaxedEpsilon]:
        """Return the same by both measures, with a word on whether the gain is more than noise."""
        return [
            RelaxedEpsilon(masking=name, measure=measure, gain=gain, **found.model_dump())
            for measure in MEASURES
            for found, gain in zip(
                self.equivalent(name, measure=measure),
                self.gains(name, measure=measure),
                strict=True,
            )
        ]

    def __repr__(self) -> str:
        return f"MaskedRisk({len(self.epsilons)} epsilon, {', '.join(self.attacks)})"


def attack_masked(
    X: ArrayLike,
    y: ArrayLike,
    masks: Mapping[str, ArrayLike],
    *,
    epsilon: float | str | Sequence[float],
    delta: float,
    shadow_models: int = 256,
    random_state: int = 0,
    online: bool = False,
    confidence: float = 0.95,
    progress: Progress | None = None,
    **training: object,
) -> MaskedRisk:
    """Attack models trained with DP-SGD on all features and on what each mask keeps.

    Parameters
    ----------
    X : array of shape (n, p)
        Numbers of a size near 1 or below.
    y : array of shape (n,)
        Classes of the task.
    masks : mapping of name to array of bool, (p,)
        True = kept. "none", all features, is added.
    epsilon : float in (0, inf], list, or grid text such as "0.5:10:6"
    delta : float in (0, 1)
    shadow_models : int ≥ 20
        Models for every mask and ε; the same random halves for all masks.
    random_state : int
    online : bool
        Whether the attack also learns what members look like.
    confidence : float in (0, 1)
    progress : callable, optional
        Called with (models done, models in all, what).
    **training
        Further settings of `DPSGDSettings`: clip, epochs, batch, learning_rate, hidden.

    Returns
    -------
    MaskedRisk

    Notes
    -----
    A masked column is left out, which is the same as zeros: its gradient is 0.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 12)), rng.integers(0, 2, 60)
    >>> found = attack_masked(X, y, {"half": np.arange(12) < 6}, epsilon=[1.0, 8.0], delta=1e-3,
    ...                       shadow_models=40, epochs=2, batch=16)
    >>> found, len(found.equivalent("half", measure="asr_max"))
    (MaskedRisk(2 epsilon, none, half), 2)
    """
    rows, classes = np.asarray(X, dtype=np.float64), np.asarray(y)
    n_models = as_count(shadow_models, name="shadow_models", least=_FEWEST_MODELS)
    grid = tuple(sorted(read_grid(epsilon)))
    kept = {NOTHING: np.ones(rows.shape[1], dtype=bool)}
    for name, mask in masks.items():
        kept[name] = _checked(mask, name, rows.shape[1])
    attacks: dict[str, tuple[MembershipAttack, ...]] = {}
    accuracies: dict[str, FloatArray] = {}
    total, done = len(kept) * len(grid) * n_models, 0

    def within(before: int) -> Progress | None:
        if progress is None:
            return None
        return lambda at, _, __: progress(before + at, total, "attacking models")

    for name, mask in kept.items():
        found, accurate = [], []
        for at in grid:
            settings = DPSGDSettings(epsilon=at, delta=delta, **training)  # type: ignore[arg-type]
            ensemble = ShadowEnsemble(settings, n_models=n_models, random_state=random_state)
            ensemble.fit(rows[:, mask], classes, progress=within(done))
            found.append(ensemble.attack(online=online, confidence=confidence))
            accurate.append(ensemble.accuracy_)
            done += n_models
        attacks[name], accuracies[name] = tuple(found), np.stack(accurate)
    return MaskedRisk(grid, attacks, accuracies)


def _checked(mask: ArrayLike, name: str, n_features: int) -> BoolArray:
    kept = np.asarray(mask)
    if kept.dtype != np.bool_ or kept.shape != (n_features,):
        raise InputError(
            f"the mask {name!r} must be True or False for each of the {n_features} features, got "
            f"values of type {kept.dtype} in shape {kept.shape}."
        )
    if not kept.any():
        raise InputError(
            f"the mask {name!r} must keep at least one feature, got none to train on. Use a smaller "
            "alpha."
        )
    return kept


def _agreeing(found: EquivalentEpsilon, gain: Gain) -> EquivalentEpsilon:
    """Return the interval as the comparison at the same ε leaves it."""
    epsilon, low, high = found.epsilon, found.low, found.high
    if epsilon is None or low is None or high is None:
        return found
    if gain == "larger":
        low, high = max(low, epsilon), max(high, epsilon)
    elif gain == "smaller":
        low, high = min(low, epsilon), min(high, epsilon)
    else:
        low, high = min(low, epsilon), max(high, epsilon)
    return found.model_copy(update={"low": low, "high": high})
