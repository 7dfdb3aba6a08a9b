# SPDX-License-Identifier: Apache-2.0
"""Shadow models of DP-SGD: noisy training on random halves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress, SingleArray
from epsilens.influence.baseline import Baseline
from epsilens.models.dp_sgd import DPSGDSettings, score_ensemble
from epsilens.models.networks import Floats
from epsilens.risk.halves import draw_members
from epsilens.risk.randomised_shadows import ShadowOutcome, scores_and_predictions

__all__ = ["TrainedShadows"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class TrainedShadows:
    """The shadow models that one question about DP-SGD needs.

    Parameters
    ----------
    baseline : Baseline
    n_models : int
    seed : int
    targets : array of int
        The records whose membership is attacked.
    """

    baseline: Baseline
    n_models: int
    seed: int
    targets: NDArray[np.intp]

    @cached_property
    def members(self) -> BoolArray:
        """Who is in which model, (models, n); the same halves at every ε."""
        n_rows = self.baseline.problem.n_rows
        return draw_members(self.seed, range(self.n_models), n_rows).T

    @cached_property
    def features(self) -> tuple[FloatArray, FloatArray]:
        """The training and the test records as the network sees them."""
        return _dense(self.baseline, self.baseline.table), _dense(
            self.baseline, self.baseline.test_table
        )

    def outcome(
        self,
        settings: DPSGDSettings,
        *,
        checkpoint: Path | None = None,
        progress: Progress | None = None,
    ) -> ShadowOutcome:
        """Train and attack the models of one ε."""
        X, X_test = self.features
        classes = self.baseline.label.y.astype(np.int64)
        # Only what is used, since what is scored may be scored on another machine.
        tested_classes = self.baseline.evaluation.y.astype(np.int64)
        test_weights = self.baseline.evaluation.weights
        attacked = classes[self.targets]

        def score(logits: Floats) -> SingleArray:
            """Return φ and right predictions of the attacked records, and the test accuracy last."""
            phi, right = scores_and_predictions(logits[:, : len(attacked)], attacked)
            tested = logits[:, len(attacked) :]
            _, tested_right = scores_and_predictions(tested, tested_classes)
            accuracy = tested_right @ test_weights
            return np.column_stack([phi, right, accuracy]).astype(np.float32)

        found = score_ensemble(
            X,
            classes,
            self.members,
            settings,
            score=score,
            score_name="scores, right predictions and accuracy",
            X_score=np.concatenate([X[self.targets], X_test]),
            n_classes=max(self.baseline.problem.loss.n_outputs, 2),
            random_state=self.seed,
            checkpoint=checkpoint,
            progress=progress,
        )
        told = np.asarray(found, dtype=np.float32)
        return ShadowOutcome(
            scores=told[:, : len(attacked)],
            members=self.members[:, self.targets],
            right=told[:, len(attacked) : -1] > 0.5,
            accuracy=told[:, -1].astype(np.float64),
        )


def _dense(baseline: Baseline, table: object) -> FloatArray:
    features = baseline.transform(table)
    return features if isinstance(features, np.ndarray) else np.asarray(features.toarray())
