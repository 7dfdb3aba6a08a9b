# SPDX-License-Identifier: Apache-2.0
"""The model of a study is trained on prepared data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from epsilens.data import Prepared

__all__ = ["fit_on"]


class _Study(Protocol):
    """What is fitted to training and test data."""

    def fit(
        self,
        X: object,
        y: object,
        X_test: object,
        y_test: object,
        sample_weight: object | None = None,
        *,
        sample_weight_test: object | None = None,
    ) -> object:
        """Train the model."""


_S = TypeVar("_S", bound=_Study)


def fit_on(study: _S, prepared: Prepared) -> _S:
    """Train the model of a study on prepared data, and return the study.

    Examples
    --------
    >>> from epsilens import WhatIf
    >>> from epsilens.data import load_survey, prepare
    >>> from epsilens.models.default import default_estimator
    >>> survey = prepare(load_survey(), label="affair")
    >>> study = fit_on(WhatIf(default_estimator(survey.schema)), survey)
    >>> round(study.baseline_.outcomes.loss, 2)
    0.56
    """
    study.fit(
        prepared.X_train,
        prepared.y_train,
        prepared.X_test,
        prepared.y_test,
        prepared.sample_weight,
        sample_weight_test=prepared.sample_weight_test,
    )
    return study
