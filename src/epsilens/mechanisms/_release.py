# SPDX-License-Identifier: Apache-2.0
"""What a mechanism needs for a real release, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, Progress
from epsilens._validate import as_between
from epsilens.document.decision import Protects
from epsilens.errors import PrivacyLeakWarning
from epsilens.models.private_logistic import LogisticMechanism, PrivateLogisticRegression
from epsilens.models.table_encoder import EncodedColumn, NumberColumn, TableEncoder
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.models.private_ridge import PrivateRidge
    from epsilens.models.released_model import ReleasedLogistic


EPSILON_RANGE = (1e-3, 100.0)
"""Of mechanisms by other libraries: beyond, their accounting is not exact in double precision."""
DELTA_RANGE = (1e-50, 0.5)
X_BOUND_RANGE = (1e-6, 1e6)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Training:
    """The records that a model to be published is trained on, and what is public of them.

    Attributes
    ----------
    frame : pandas.DataFrame
        The features.
    columns : tuple of EncodedColumn
        How they are encoded: declared, or learnt from columns that are not protected.
    y : array of int, shape (n,)
        Classes as numbers from 0.
    n_classes : int
    unit : {"answer", "record"}
        What one person can change: the label alone, or the row too.
    epsilon, delta : float
    x_bound : float or None
        Length that longer rows are shrunk to; None for a mechanism that shrinks none.
    n_steps : int
        Steps of noisy descent.
    seed : int or None
        None for a real release. With a seed it is a simulation.
    progress : callable
        Called with (done, total, what).
    """

    frame: pd.DataFrame
    columns: tuple[EncodedColumn, ...]
    y: NDArray[np.intp]
    n_classes: int
    unit: Protects
    epsilon: float
    delta: float
    x_bound: float | None
    n_steps: int
    seed: int | None
    progress: Progress

    @property
    def n_outputs(self) -> int:
        """Number of coefficient vectors: one for two classes."""
        return 1 if self.n_classes == 2 else self.n_classes

    def check_budget(self) -> None:
        """Refuse a budget or a bound that another library's accounting does not reach."""
        as_between(self.epsilon, *EPSILON_RANGE, name="epsilon")
        as_between(self.delta, *DELTA_RANGE, name="delta")
        if self.x_bound is not None:
            as_between(self.x_bound, *X_BOUND_RANGE, name="x_bound")

    def generator(self) -> np.random.Generator | None:
        """Return the generator of a simulation, and warn; None for a real release."""
        if self.seed is None:
            return None
        text = "a seed was given, so this is a simulation and protects nobody."
        Note("simulated", text).warn(PrivacyLeakWarning, stacklevel=3)
        return np.random.default_rng(self.seed)

    def ranged(self, n_bins: int | None = None) -> tuple[EncodedColumn, ...]:
        """Return the columns, each number with a range.

        A range that is not declared is that of the column, which is not protected then.

        Parameters
        ----------
        n_bins : int, optional
            Number of bins of a number whose bins are not declared.
        """
        return tuple(
            column.ranged(self.frame[column.name], n_bins=n_bins)
            if isinstance(column, NumberColumn)
            else column
            for column in self.columns
        )


@dataclass(frozen=True, repr=False)
class Released:
    """A trained model, all of it covered by the claim, and the numbers of its receipt.

    Attributes
    ----------
    encoder : TableEncoder
    model : classifier
        Fitted; its classes are numbers from 0.
    advantage : float
        About a replaced record, or a changed answer if that alone is protected.
    mu, rho, sigma : float or None
        Sensitivity over noise for such a replacement, the budget of zero-concentrated differential privacy,
        and the noise on each number; None where the mechanism has no such number.
    n_steps : int or None
    table : pandas.DataFrame or None
        Synthetic records, with the classes as numbers in the last column.
    """

    encoder: TableEncoder
    model: PrivateLogisticRegression | PrivateRidge | ReleasedLogistic
    advantage: float
    mu: float | None = None
    rho: float | None = None
    sigma: float | None = None
    n_steps: int | None = None
    table: pd.DataFrame | None = None


def released_logistic(training: Training, mechanism: LogisticMechanism) -> Released:
    """Return a release by `PrivateLogisticRegression`."""
    encoder = TableEncoder(training.columns)
    model = PrivateLogisticRegression(
        epsilon=training.epsilon,
        delta=training.delta,
        x_bound=training.x_bound,
        protects=training.unit,
        n_steps=training.n_steps,
        classes=range(training.n_classes),
        mechanism=mechanism,
        random_state=training.seed,
    )
    model.__dict__["_noisy"] = _counted(model._noisy, training)
    model.fit(encoder.transform(training.frame), training.y)
    del model.__dict__["_noisy"]
    return Released(
        encoder,
        model,
        model.advantage_,
        model.mu_,
        model.mu_**2 / 2.0,
        model.sigma_,
        training.n_steps if mechanism == "noisy-descent" else None,
    )


def _counted(add_noise: Callable[..., FloatArray], training: Training) -> Callable[..., FloatArray]:
    """Return a function that adds noise and counts the steps, for whoever waits."""
    n_done = 0

    def counted(*values: Any) -> FloatArray:
        nonlocal n_done
        n_done += 1
        training.progress(n_done, training.n_steps, "training")
        return add_noise(*values)

    return counted
