# SPDX-License-Identifier: Apache-2.0
"""The private ridge model as a mechanism to be audited."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_positive
from epsilens.audit.canaries import Canaries, Dataset, require_memory
from epsilens.audit.gaussian import gaussian_epsilon
from epsilens.audit.mechanisms import GaussianClaim
from epsilens.audit.scores import InnerProduct, Score
from epsilens.errors import InputError, PrivacyLeakWarning

_ROOM = 1.3
"""How much larger the ball is than coins are likely to need."""


@dataclass(frozen=True, eq=False)
class PrivateRidgeFit(GaussianClaim):
    """`PrivateRidge` fitted on canaries with a feature of their own each.

    The audit is weak by nature: the model's noise is made for the worst record among the worst data,
    and a thousand canaries cannot all be that. It finds gross mistakes, such as noise that was
    forgotten or bounds that are not enforced.

    Parameters
    ----------
    epsilon : float in [1e-12, 1e8]
        The level that is claimed.
    delta : float in (0, 1)
        Its δ.
    n_features : int, at least 2
        And the largest number of canaries.
    x_bound, y_bound, alpha : float, greater than 0
        As in `PrivateRidge`. A penalty as large as the square of `x_bound` shows canaries best.
    generator : numpy.random.Generator, optional
        Where the noise comes from: by default the seed of the audit. Without a seed the noise is
        that of a real release.

    Examples
    --------
    >>> PrivateRidgeFit(4.0, 1e-6, n_features=20).name
    'private-ridge'
    """

    n_features: int = 1000
    x_bound: float = 1.0
    y_bound: float = 1.0
    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_count(self.n_features, name="n_features", least=2)
        for name in ("x_bound", "y_bound", "alpha"):
            as_positive(getattr(self, name), name=name)

    @property
    def name(self) -> str:
        """What it is called."""
        return "private-ridge"

    @property
    def coef_bound(self) -> float:
        """Radius of the ball: with room for the coefficients of half of the canaries."""
        each = self.x_bound * self.y_bound / (self.x_bound**2 + self.alpha)
        return _ROOM * each * math.sqrt(self.n_features / 2.0)

    def true_epsilon(self, delta: float) -> float:
        """Return the exact ε of the noise at δ; infinite at δ = 0."""
        from epsilens.models.gaussian_release import rho_of_epsilon

        if delta == 0.0:
            return math.inf
        return gaussian_epsilon(math.sqrt(2.0 * rho_of_epsilon(self.epsilon, self.delta)), delta)

    def canaries(self, n_canaries: int, generator: np.random.Generator) -> Canaries:
        """Return records with a feature of their own and the largest target."""
        if as_count(n_canaries, name="n_canaries") > self.n_features:
            raise InputError(
                argument="n_canaries",
                expected=f"at most the number of features ({self.n_features})",
                got=str(n_canaries),
            )
        require_memory(n_canaries, 8 * self.n_features)
        features = np.zeros((n_canaries, self.n_features))
        np.fill_diagonal(features, self.x_bound)
        # One record that says nothing, so that there are data even if every coin says out.
        nobody = (np.zeros((1, self.n_features)), np.zeros(1))
        return Canaries((features, np.full(n_canaries, self.y_bound)), base=nobody)

    def score(self) -> Score:
        """Return the canary's own coefficient."""
        return InnerProduct()

    def __call__(self, dataset: Dataset) -> FloatArray:
        """Return the published coefficients."""
        from epsilens.models.private_ridge import PrivateRidge

        features, targets = dataset
        model = PrivateRidge(
            epsilon=self.epsilon,
            delta=self.delta,
            x_bound=self.x_bound,
            y_bound=self.y_bound,
            coef_bound=self.coef_bound,
            alpha=self.alpha,
            fit_intercept=False,
            random_state=self.generator,
        )
        with warnings.catch_warnings():
            # That a seed protects nobody is known here: canaries are nobody.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            model.fit(features, targets)
        return np.asarray(model.coef_, dtype=np.float64)
