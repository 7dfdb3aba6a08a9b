# SPDX-License-Identifier: Apache-2.0
"""LiRA of SACRO-ML on shadow models that are given.

SACRO-ML uses saved shadow models where it finds them. Those saved here answer with stored probabilities, so
that its attack runs unchanged, through its public classes, on the same models as everybody's.

    python attack_with_sacroml.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import logging
import tempfile
from importlib.metadata import version

import numpy as np
from attack_exchange import Models, main
from sacroml.attacks.likelihood_attack import LIRAAttack
from sacroml.attacks.model_sklearn import SklearnModel
from sacroml.attacks.target import Target
from sacroml.attacks.utils import save_shadow_model
from sklearn.base import BaseEstimator, ClassifierMixin

SETTINGS = {
    "LiRA online, a spread for each record": {"mode": "online-carlini", "fix_variance": False},
    "LiRA online, one spread": {"mode": "online-carlini", "fix_variance": True},
    "LiRA offline, a spread for each record": {"mode": "offline", "fix_variance": False},
    "LiRA offline, one spread": {"mode": "offline", "fix_variance": True},
}
"""Without "offline-carlini", which takes a record far below the usual for a member too: weaker wherever it was tried."""


class StoredAnswers(ClassifierMixin, BaseEstimator):
    """A trained classifier: a record's only feature is its number in a table of probabilities."""

    def __init__(self, table: np.ndarray | None = None, random_state: int | None = None) -> None:
        self.table = table
        self.random_state = random_state
        self.classes_ = np.array([0, 1])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.table[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)


def attack(models: Models, number: int, **settings: object) -> np.ndarray:
    """Return what LIRAAttack reports for each record of one target model."""
    members = models.target_members[number]
    order = np.concatenate([np.flatnonzero(members), np.flatnonzero(~members)])
    n_members = int(members.sum())
    records = np.arange(len(order), dtype=float)[:, None][order]
    target = Target(
        model=StoredAnswers(models.both_classes(models.target[number])),
        X_train=records[:n_members],
        y_train=models.labels[order[:n_members]],
        X_test=records[n_members:],
        y_test=models.labels[order[n_members:]],
    )
    with tempfile.TemporaryDirectory() as folder:
        lira = LIRAAttack(
            output_dir=folder,
            write_report=False,
            n_shadow_models=len(models.shadow),
            report_individual=True,
            **settings,
        )
        for index, (answers, seen) in enumerate(
            zip(models.shadow, models.shadow_members, strict=True)
        ):
            stored = SklearnModel(StoredAnswers(models.both_classes(answers)))
            places = np.flatnonzero(seen[order])
            others = np.flatnonzero(~seen[order])
            save_shadow_model(lira.shadow_path, index, stored, places, others)
        lira.attack(target)
    scores = np.empty(len(order))
    scores[order] = lira.result["member_prob"]
    return scores


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main(
        "sacroml",
        version("sacroml"),
        {
            name: (
                f"LIRAAttack({', '.join(f'{key}={value!r}' for key, value in settings.items())})",
                lambda models, number, settings=settings: attack(models, number, **settings),
            )
            for name, settings in SETTINGS.items()
        },
    )
