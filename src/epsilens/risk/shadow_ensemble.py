# SPDX-License-Identifier: Apache-2.0
"""`ShadowEnsemble`: many models on random halves of one table, and what they say of every record."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from epsilens._types import Progress, SingleArray
from epsilens._validate import as_count
from epsilens.errors import ApproximationWarning, InputError, InputTypeError, setting
from epsilens.influence.any_model import check_any_estimator, fit_copy, take_rows
from epsilens.influence.baseline import fit_baseline
from epsilens.models.dp_sgd import DPSGDSettings, score_ensemble
from epsilens.models.label import read_label
from epsilens.models.networks import Floats
from epsilens.models.tables import for_scikit_learn
from epsilens.risk.attack_methods import AttackMethod
from epsilens.risk.compared import MethodName, attack_membership
from epsilens.risk.likelihood_ratio import lira
from epsilens.risk.logits import scores_from_residuals
from epsilens.risk.membership_attack import MembershipAttack
from epsilens.risk.randomised_shadows import (
    RandomisedShadows,
    draw_members,
    require_probabilities,
    scores_and_predictions,
)

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TorchTraining:
    """Any torch module, trained with DP-SGD by Opacus, one model after the other.

    Attributes
    ----------
    make_module : callable
        Makes a fresh module with one output (two classes) or one per class.
    settings : DPSGDSettings
        Budget, clipping, epochs, batch and learning rate.
    """

    make_module: Callable[[], torch.nn.Module]
    settings: DPSGDSettings


Training: TypeAlias = "BaseEstimator | DPSGDSettings | TorchTraining"


class ShadowEnsemble(BaseEstimator):  # type: ignore[misc]
    """Many models, each trained on its own random half of the records.

    What such models say of a record that they have seen, and of one that they have not, is what a
    membership attack learns from. Every record is in every model by a fair coin of its own.

    Parameters
    ----------
    training : scikit-learn classifier or regressor, DPSGDSettings or TorchTraining
        LogisticRegression (or a Pipeline that ends in it) is trained to convergence, all models
        side by side; a regressor of any kind is trained one model after the other; `DPSGDSettings` trains logistic regression or a network with noise, side by
        side too; `TorchTraining` takes any module, one after the other.
    n_models : int ≥ 4
    random_state : int
    checkpoint : path, optional
        A folder that keeps finished models; a killed run goes on from it. It tells who was in
        which model: keep it to yourself.

    Attributes
    ----------
    scores_ : array of shape (n_models, n_records)
        φ = log(p/(1−p)) of every record's true class; of a regression, see `scores_from_residuals`.
    membership_ : array of bool, shape (n_models, n_records)
    accuracy_ : array of shape (n_models,)
        Accuracy of every model on the records that it was not trained on; of a regression R².

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 40)), rng.integers(0, 2, 60)      # more or less by heart
    >>> ensemble = ShadowEnsemble(LogisticRegression(C=100.0), n_models=200).fit(X, y)
    >>> ensemble.attack().asr_max_p_value < 1e-6
    True
    """

    def __init__(
        self,
        training: Training,
        *,
        n_models: int = 256,
        random_state: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.training = training
        self.n_models = n_models
        self.random_state = random_state
        self.checkpoint = checkpoint

    def fit(self, X: object, y: object, *, progress: Progress | None = None) -> Self:
        """Train the models.

        Parameters
        ----------
        X : frame or array
            The records, as the estimator takes them; numbers for the other two kinds of training.
        y : column
            Their classes, or the values of a regression.
        progress : callable, optional
            Called with models done, models in all, and what is done.
        """
        n_models = as_count(self.n_models, name="n_models", least=4)
        seed = as_count(self.random_state, name="random_state", least=0)
        if isinstance(self.training, BaseEstimator) and is_regressor(self.training):
            self._fit_regressors(X, y, n_models, seed, progress)
            return self
        if isinstance(self.training, BaseEstimator):
            self._fit_convex(X, y, n_models, seed, progress)
            return self
        if not isinstance(self.training, DPSGDSettings | TorchTraining):
            raise InputTypeError(
                "`training` must be a scikit-learn estimator, DPSGDSettings or TorchTraining, got "
                f"{type(self.training).__name__}."
            )
        rows = np.asarray(
            X.toarray() if isinstance(X, scipy.sparse.sparray | scipy.sparse.spmatrix) else X
        )
        if rows.dtype.kind not in "biuf" or rows.ndim < 2:
            raise InputError(
                argument="X",
                expected="a table of numbers",
                got=f"values of type {rows.dtype} in {rows.ndim} dimensions",
                hint="Encode categories first.",
            )
        label = read_label(y, is_classifier=True, classes=None)
        classes = label.y.astype(np.int64)
        self.membership_ = draw_members(seed, range(n_models), len(rows)).T
        if isinstance(self.training, DPSGDSettings):
            found = score_ensemble(
                rows,
                classes,
                self.membership_,
                self.training,
                score=lambda logits: _read(logits, classes),
                score_name="scores and right predictions",
                n_classes=label.n_classes,
                random_state=seed,
                checkpoint=self.checkpoint,
                progress=progress,
            )
            self._keep(np.asarray(found, dtype=np.float32))
            return self
        from epsilens.models.opacus_reference import train_with_opacus

        fitted = train_with_opacus(
            rows,
            classes,
            self.membership_,
            self.training.settings,
            make_module=self.training.make_module,
            n_classes=label.n_classes,
            random_state=seed,
            checkpoint=self.checkpoint,
            progress=progress,
        )
        self._keep(np.concatenate([_read(part, classes) for _, part in fitted.logit_blocks(rows)]))
        return self

    def _keep(self, found: SingleArray) -> None:
        """Keep scores and right predictions, (models, 2, n)."""
        self.scores_ = np.ascontiguousarray(found[:, 0])
        outside = ~self.membership_
        self.accuracy_ = (found[:, 1] * outside).sum(axis=1) / outside.sum(axis=1)

    def _fit_convex(
        self, X: object, y: object, n_models: int, seed: int, progress: Progress | None
    ) -> None:
        features = for_scikit_learn(X)
        with warnings.catch_warnings():
            # About the model on all records, which nobody asks for here.
            warnings.simplefilter("ignore", ApproximationWarning)
            baseline = fit_baseline(
                self.training, features, y, features, y, sample_weight=None, sample_weight_test=None
            )
        require_probabilities(baseline)
        shadows = RandomisedShadows.of_clean_records(
            baseline, n_models=n_models, seed=seed, checkpoint=self.checkpoint, progress=progress
        )
        (outcome,) = shadows.outcomes()
        self.membership_ = outcome.members
        self._keep(np.stack([outcome.scores, outcome.right], axis=1))

    def _fit_regressors(
        self, X: object, y: object, n_models: int, seed: int, progress: Progress | None
    ) -> None:
        """Train regressors one after the other, and keep how close they come."""
        if self.checkpoint is not None:
            raise InputError(
                argument="checkpoint",
                expected="None for a regression",
                got="a folder",
                hint="Its models are not kept.",
            )
        estimator = check_any_estimator(self.training)
        table: Any = for_scikit_learn(X)
        targets = read_label(y, is_classifier=False, classes=None).y
        n_records = len(targets)
        if int(table.shape[0]) != n_records:
            raise InputError(
                f"{setting('X')} and {setting('y')} must have as many records, got {int(table.shape[0])} and {n_records}."
            )
        self.membership_ = draw_members(seed, range(n_models), n_records).T
        predictions = np.empty((n_models, n_records))
        for number, members in enumerate(self.membership_):
            rows = np.flatnonzero(members)
            own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)
            model = fit_copy(estimator, take_rows(table, rows), targets[rows], None, own)
            predictions[number] = np.asarray(model.predict(table), dtype=np.float64)
            if progress is not None:
                progress(number + 1, n_models, "models")
        self.scores_ = scores_from_residuals(predictions, targets).astype(np.float32)
        outside = ~self.membership_
        squares = (np.square(targets - predictions) * outside).sum(axis=1)
        means = (targets * outside).sum(axis=1) / outside.sum(axis=1)
        total = (np.square(targets - means[:, None]) * outside).sum(axis=1)
        self.accuracy_ = 1.0 - squares / np.where(total > 0.0, total, 1.0)

    def attack(
        self,
        *,
        online: bool = False,
        method: MethodName | AttackMethod | None = None,
        delta: float | None = None,
        confidence: float = 0.95,
    ) -> MembershipAttack:
        """Attack the models; see `lira` and `attack_membership`.

        Parameters
        ----------
        online : bool
            Of `lira`, where no method is given.
        method : str or AttackMethod, optional
            None: `lira`. Otherwise as in `attack_membership`.
        delta : float in [0, 1), optional
            δ of the bound on ε; None: that of the training, 0 without one.
        confidence : float in (0, 1)
        """
        check_is_fitted(self, "scores_")
        if delta is None:
            settings = getattr(self.training, "settings", self.training)
            delta = settings.delta if isinstance(settings, DPSGDSettings) else 0.0
        if method is not None:
            if online:
                raise InputError(
                    argument="online",
                    expected=f"left out where {setting('method')} is given",
                    got="True",
                )
            return attack_membership(
                self.scores_, self.membership_, method=method, delta=delta, confidence=confidence
            )
        return lira(
            self.scores_, self.membership_, online=online, delta=delta, confidence=confidence
        )


def _read(logits: Floats, classes: NDArray[np.int64]) -> SingleArray:
    """Return φ and whether the prediction is right, from logits (models, n, outputs)."""
    return np.stack(scores_and_predictions(logits, classes), axis=1).astype(np.float32)
