# SPDX-License-Identifier: Apache-2.0
"""How a block of shadow models is trained: all that it needs, and nothing else.

A block may be trained on another machine, so this holds the training features, labels and weights, and
neither the table they come from nor the test data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.channels import ProductChannel, RandomizedResponse, simulate
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence.alternatives import Alternatives
from epsilens.models.class_weights import class_totals, class_weights
from epsilens.models.label import Label
from epsilens.models.problem import Problem
from epsilens.models.specification import ClassWeight
from epsilens.risk.convex_ensemble import EnsembleObjective, train_side_by_side
from epsilens.risk.halves import draw_members, model_generator

__all__ = ["ShadowTraining"]

# What the solver may keep of models that the shared Hessian does not suit: a Hessian and its factor each.
_OWN_HESSIANS_BYTES = 1 << 29


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class ShadowTraining:
    """Trains convex models on random halves, with every protected answer drawn anew.

    Parameters
    ----------
    problem : Problem
    label : Label
    alternatives : Alternatives
        What the protected features could have been.
    label_channels : tuple of RandomizedResponse
    feature_channels : tuple of ProductChannel
        One per ε, or none.
    n_budgets : int
        How many ε there are.
    sample_weights, count_weights : arrays of shape (n,)
    class_weight : None, "balanced" or mapping of class to weight
    penalty_per_record : float
        See `Baseline`.
    seed : int
    """

    problem: Problem
    label: Label
    alternatives: Alternatives
    label_channels: tuple[RandomizedResponse, ...]
    feature_channels: tuple[ProductChannel, ...]
    n_budgets: int
    sample_weights: FloatArray
    count_weights: FloatArray
    class_weight: ClassWeight
    penalty_per_record: float
    seed: int

    def train(self, e: int, models: range, *, start: FloatArray) -> FloatArray:
        """Return the parameters of some models at the e-th ε, (K·p, models).

        Parameters
        ----------
        e : int
            One beyond the last is without noise: every answer as it is.
        models : range
        start : array of shape (K·p,)
            Where the search begins.
        """
        most = max(1, _OWN_HESSIANS_BYTES // (16 * len(start) ** 2))
        parts = [
            self._train_some(e, models[first : first + most], start)
            for first in range(0, len(models), most)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _train_some(self, e: int, models: range, start: FloatArray) -> FloatArray:
        """Train so many models together that a Hessian and its factor for each fit into memory."""
        problem, label = self.problem, self.label
        members = draw_members(self.seed, models, problem.n_rows)
        values, codes = self.reports(e, models)
        labels = label.y[:, None] if codes is None else label.domain()[1][codes]
        weights = self.sample_weights[:, None] * members
        if self.class_weight is not None and label.codes is not None:
            weights *= self._class_weights(
                label.codes[:, None] if codes is None else codes, members
            )
        _refuse_one_class(labels, members)
        share = weights.sum(axis=0) / self.sample_weights.sum()
        per_record = self.penalty_per_record * problem.n_rows
        objective = EnsembleObjective(
            problem=problem,
            alternatives=self.alternatives,
            values=values,
            weights=weights,
            penalty_factors=1.0 - per_record + per_record * share,
        )
        n_rows, n_models = members.shape
        spread = np.broadcast_to(labels, (n_rows, n_models)).reshape(-1)
        statistics = problem.loss.statistic(spread).reshape(n_rows, n_models, -1)
        return train_side_by_side(objective, np.moveaxis(statistics, 2, 1), start)

    def reports(
        self, e: int, models: range
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Draw what every record reports to every model: joint feature values, and labels.

        The random numbers of a model are the same at every ε, so that curves over ε are smooth.
        """
        values, codes = [], []
        if e == self.n_budgets:
            true_values = np.repeat(self.alternatives.codes[:, None], len(models), axis=1)
            return true_values if self.feature_channels else None, None
        for model in models:
            generator = model_generator(self.seed, model, "reports")
            if self.feature_channels:
                sizes = self.alternatives.sizes
                digits = np.unravel_index(self.alternatives.codes, sizes)
                drawn = [
                    simulate(channel, digit, generator)
                    for channel, digit in zip(
                        self.feature_channels[e].channels, digits, strict=True
                    )
                ]
                values.append(np.ravel_multi_index(tuple(drawn), sizes))
            if self.label_channels:
                codes.append(simulate(self.label_channels[e], self.label.domain()[0], generator))
        return (
            np.stack(values, axis=1) if values else None,
            np.stack(codes, axis=1) if codes else None,
        )

    def _class_weights(self, codes: NDArray[np.int64], members: BoolArray) -> FloatArray:
        """Return the weight of every record's reported class in every model."""
        label, kind = self.label, self.class_weight
        n_rows, n_models = members.shape
        by_model = np.broadcast_to(codes, (n_rows, n_models))
        result = np.empty((n_rows, n_models))
        for j in range(n_models):
            counted = self.count_weights * members[:, j]
            totals = class_totals(by_model[:, j], counted, label.n_classes)
            result[:, j] = class_weights(kind, label, totals)[by_model[:, j]]
        return result


def _refuse_one_class(labels: FloatArray, members: BoolArray) -> None:
    shown = np.broadcast_to(labels, members.shape)
    lowest = np.where(members, shown, np.inf).min(axis=0)
    highest = np.where(members, shown, -np.inf).max(axis=0)
    if not (lowest < highest).all():
        raise EstimateNotTrustworthyError(
            "a random half has records of one class only, and no model: the data are too few. Add "
            "records."
        )
