# SPDX-License-Identifier: Apache-2.0
"""DP-SGD as a mechanism to be audited: the trainer that attacks stand on, attacked itself."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_positive
from epsilens.audit.canaries import Canaries, Dataset, mislabelled_records, require_memory
from epsilens.audit.gaussian import gaussian_epsilon
from epsilens.audit.mechanisms import GaussianClaim, Leakage
from epsilens.audit.scores import Gradient, InnerProduct, Loss, Score
from epsilens.errors import InputError, PrivacyLeakWarning, setting
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.privacy_accounting import LARGEST_EPSILON, NoiseCalibration, account

if TYPE_CHECKING:
    from epsilens.models.dp_sgd import EnsembleFit

_CANARY_SIZE = 20.0
"""Size of a canary's own feature in clipping lengths: its gradient is clipped from the start."""
_LARGEST_PREDICTOR = 0.1
"""How far the linear predictor of a canary goes: its gradient stays what it was at the start."""


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """What DP-SGD publishes: a model that gives every class a probability.

    Attributes
    ----------
    fit : EnsembleFit
        Fit of one model.
    classes_ : array
        The labels, in the order of the probabilities.
    """

    fit: EnsembleFit
    classes_: NDArray[np.generic]

    def predict_proba(self, features: ArrayLike) -> FloatArray:
        """Return the probability of every class for every row."""
        logits = np.asarray(self.fit.logits(features)[0], dtype=np.float64)
        if logits.shape[1] == 1:
            logits = np.column_stack([np.zeros(len(logits)), logits])
        logits -= logits.max(axis=1, keepdims=True)
        chance = np.exp(logits)
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class DPSGDFit(GaussianClaim):
    """One model trained with DP-SGD on canaries: with a feature of their own each, or from a table.

    Without a table every canary has a feature to itself and the label 1, and the model is logistic
    regression with steps so small that a canary pulls the same way all along: what is published is then
    almost the sum of all noisy gradients, and the audit nearly as strong as an attack on the last model can
    be. With a table the canaries are its records with wrong labels, which is how a model is attacked in
    practice, and proves less.

    Parameters
    ----------
    epsilon : float, greater than 0
        The level that is claimed.
    delta : float in (0, 1)
        Its δ.
    n_canaries : int, at least 2
        How many canaries there will be: sampling and noise go by how many are expected to be in.
    features : array, (n, d), optional
        A table from which canaries are taken.
    labels : array, (n,), optional
        Its labels.
    clip, epochs, batch, hidden
        As in `DPSGDSettings`; a batch is never larger than what is expected to be in.
    generator : numpy.random.Generator, optional
        Where sampling and noise come from: by default the seed of the audit. This is a simulation.

    Examples
    --------
    >>> mechanism = DPSGDFit(2.0, 1e-5, n_canaries=100, epochs=2)
    >>> mechanism.true_epsilon(1e-5) <= 2.0
    True
    """

    name: ClassVar[str] = "dpsgd"
    """What it is called."""

    n_canaries: int = 1000
    features: ArrayLike | None = field(default=None, repr=False)
    labels: ArrayLike | None = field(default=None, repr=False)
    clip: float = 1.0
    epochs: int = 20
    batch: int = 64
    hidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        as_count(self.n_canaries, name="n_canaries", least=2)
        if (self.features is None) != (self.labels is None):
            raise InputError(
                f"{setting('features')} and {setting('labels')} must be given together, got one "
                "of them. Give both or none."
            )
        if self.hidden and self.features is None:
            raise InputError(
                argument="hidden",
                expected="empty without a table",
                got="layers: canaries with a feature of their own are for logistic regression",
                hint=f"Give {setting('features')} and {setting('labels')}.",
            )
        if self.epsilon > LARGEST_EPSILON:
            raise InputError(
                f"{setting('epsilon')} of DP-SGD must be at most {LARGEST_EPSILON:g}, got "
                f"{self.epsilon!r}."
            )
        if self.expected_records < 1:
            raise InputError(
                argument="n_canaries",
                expected=f"below the number of records in {setting('labels')}",
                got=str(self.n_canaries),
            )
        self._plain()

    @property
    def leakage(self) -> Leakage:
        """As Gaussian noise does if every step looks at all records, else as nothing with a name."""
        is_whole = self._plain().plan(self.expected_records).sampling_probability == 1.0
        return "gaussian" if is_whole else "unknown"

    @property
    def expected_records(self) -> float:
        """How many records are in, on average over the coins; nothing else goes into the noise."""
        always = 1 if self.labels is None else len(np.asarray(self.labels)) - self.n_canaries
        return always + self.n_canaries / 2.0

    @cached_property
    def calibration(self) -> NoiseCalibration:
        """The noise that keeps the claim."""
        return self._plain().calibration(self.expected_records)

    @property
    def settings(self) -> DPSGDSettings:
        """How the model is trained.

        Without a table by steps so small that no coefficient, by pull or by noise, bends the loss: a
        canary's gradient then stays what it was.
        """
        plain = self._plain()
        if self.features is not None:
            return plain
        found = self.calibration
        pull, noise = self.epochs, 4.0 * found.noise_multiplier * math.sqrt(found.n_steps)
        largest_move = _CANARY_SIZE * self.clip**2 * (pull + noise) / plain.batch
        return replace(plain, learning_rate=_LARGEST_PREDICTOR / largest_move)

    def _plain(self) -> DPSGDSettings:
        """Return the settings as they were given, which say all about the noise."""
        return DPSGDSettings(
            epsilon=self.epsilon,
            delta=self.delta,
            clip=self.clip,
            epochs=self.epochs,
            batch=min(as_count(self.batch, name="batch"), math.floor(self.expected_records)),
            hidden=self.hidden,
        )

    def true_epsilon(self, delta: float) -> float:
        """Return the ε that is accounted for at δ; infinite at δ = 0."""
        if delta == 0.0:
            return math.inf
        found = self.calibration
        return account(
            found.noise_multiplier,
            delta=delta,
            sampling_probability=found.sampling_probability,
            n_steps=found.n_steps,
        ).epsilon_pld

    def canaries(self, n_canaries: int, generator: np.random.Generator) -> Canaries:
        """Return records with a feature of their own, or records of the table with wrong labels."""
        if as_count(n_canaries, name="n_canaries", least=2) != self.n_canaries:
            raise InputError(
                argument="canaries",
                expected=f"as many as the mechanism counts on ({self.n_canaries})",
                got=str(n_canaries),
                hint=f"Give it {setting('n_canaries')} too.",
            )
        if self.features is not None and self.labels is not None:
            return mislabelled_records(
                self.features, self.labels, n_canaries, random_state=generator
            )
        require_memory(n_canaries, 16 * n_canaries)
        rows = np.zeros((n_canaries, n_canaries))
        np.fill_diagonal(rows, _CANARY_SIZE * self.clip)
        # One record that says nothing, so that there are data even if every coin says out.
        nobody = (np.zeros((1, n_canaries)), np.zeros(1, dtype=np.int64))
        return Canaries((rows, np.ones(n_canaries, dtype=np.int64)), base=nobody)

    def score(self) -> Score:
        """Return how far the canary's coefficient went its way, or how well the model knows it."""
        return Gradient("logistic") if self.features is None else Loss()

    def __call__(self, dataset: Dataset) -> FloatArray | TrainedClassifier:
        """Return the coefficients of the trained model, or with a table the model."""
        from epsilens.models.dp_sgd import train_ensemble

        features, labels = dataset
        classes = np.array([0, 1]) if self.labels is None else np.unique(self.labels)
        generator = self.generator or np.random.default_rng()
        fit = train_ensemble(
            np.asarray(features, dtype=np.float64),
            np.searchsorted(classes, labels),
            np.ones((1, len(labels)), dtype=np.bool_),
            self.settings,
            n_classes=max(len(classes), 2),
            expected_records=self.expected_records,
            random_state=int(generator.integers(2**63)),
        )
        if self.features is not None:
            return TrainedClassifier(fit, classes)
        return np.asarray(fit.parameters[0, :-1], dtype=np.float64)


# --- The private ridge model as a mechanism to be audited ---

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

    name: ClassVar[str] = "private-ridge"
    """What it is called."""

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
