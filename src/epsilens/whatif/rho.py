# SPDX-License-Identifier: Apache-2.0
"""What would a budget ρ cost: the test loss of a published ridge model, before it is published.

Noise on the coefficients of a linear model does something that can be written down, so nothing is
drawn and nothing is trained again: the expected loss is exact, and the interval is that of the one
release that will be made.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from epsilens._types import FloatArray
from epsilens._validate import as_between, as_count, as_share
from epsilens.channels import parse_grid
from epsilens.document import Baseline as BaselineNumbers
from epsilens.document import Provenance, WhatIfCell, WhatIfDocument
from epsilens.document.whatif import whatif_number_types
from epsilens.document.wording import EVERYBODY
from epsilens.errors import InputError, InputTypeError, setting
from epsilens.models.gaussian_release import epsilon_of_rho
from epsilens.models.private_ridge import PrivateRidge, exact_coefficients
from epsilens.models.ridge_bounds import RHO_RANGE, RidgeBounds
from epsilens.models.tables import checked_input, schema_fingerprint
from epsilens.notes import Note
from epsilens.whatif.cells import ends
from epsilens.whatif.result import LossChangeEstimate

RHO_METHOD: Final = "output-perturbation"

# Below 19 draws the quantiles at 5 and 95 % are the least and the largest draw.
_LEAST_DRAWS = 20
_READ_OFF = "read off the data"
# Squares of larger targets would leave double precision.
_LARGEST_TARGET = 1e100


@dataclass(frozen=True, repr=False)  # a printed slope would be a leak
class _LossOfNoise:
    """L(θ* + σz) − L(θ*) = 2σ hᵀz + σ² zᵀGz, in the eigenvectors of G.

    Attributes
    ----------
    slope : array of shape (p,)
        h = Xᵀ(Xθ* − y)/m on the test rows.
    curvature : array of shape (p,)
        Eigenvalues of G = XᵀX/m, half the Hessian of the mean test loss.
    """

    slope: FloatArray
    curvature: FloatArray

    @classmethod
    def on(cls, rows: FloatArray, residuals: FloatArray) -> _LossOfNoise:
        values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        slope = vectors.T @ (rows.T @ residuals / len(rows))
        return cls(slope, np.maximum(values, 0.0))

    def mean(self, sigma: float) -> float:
        """Return σ² tr(G) = σ² tr(H)/2."""
        return float(sigma**2 * self.curvature.sum())

    def runs(self, sigma: float, z: FloatArray) -> FloatArray:
        """Return the change that each row of standard normal numbers would show."""
        changes: FloatArray = 2.0 * sigma * (z @ self.slope) + sigma**2 * (z**2 @ self.curvature)
        return changes


def what_if_rho(
    estimator: PrivateRidge,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    rho: str | Sequence[float] = "0.01:10:30",
    delta: float = 1e-6,
    n_draws: int = 4000,
    random_state: int = 0,
) -> LossChangeEstimate:
    """Say what publishing a ridge model at each budget would do to its test loss.

    For every budget the answer is the expected increase of the mean squared error over the same
    model without noise, and the interval into which a single real release falls nine times in ten.

    Parameters
    ----------
    estimator : PrivateRidge
        With mechanism "output". Its bounds and penalty are used, its budget is not; it is neither
        fitted nor changed.
    X : array or frame of shape (n, p)
        Training features.
    y : array of shape (n,)
    X_test : array or frame of shape (m, p)
    y_test : array of shape (m,)
    rho : str or sequence of float in [1e-12, 1e16]
        A grid as on the command line ("0.01:10:30") or the budgets themselves. Each must mean
        another ε above 0 at `delta`.
    delta : float in (0, 1)
        Each ρ is shown as the exact ε at this δ.
    n_draws : int, at least 20
        Simulated releases behind each interval. No model is fitted for them.
    random_state : int
        Their seed: the result is a simulation, no release.

    Returns
    -------
    LossChangeEstimate
        One group "all"; one cell per ρ, ε ascending.

    Raises
    ------
    InputError
        If a bound is missing, the mechanism is another, or the data are not numbers.

    Warns
    -----
    PrivacyLeakWarning
        If bounds were read off the data. They stay out of the document, which warns too.

    Notes
    -----
    The published model is θ* + σz with z standard normal, so for the squared loss
    E[L] − L(θ*) = σ² tr(H)/2, H the Hessian of the mean test loss, exactly. The interval takes
    quantiles of 2σhᵀz + σ²zᵀHz/2. Features are clipped as `predict` does; test targets are not.
    Like every what-if it is computed from the raw data and is not private.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.ridge import PrivateRidge, what_if_rho
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(400, 2))
    >>> y = X @ [0.6, -0.4] + 0.1 * rng.standard_normal(400)
    >>> model = PrivateRidge(x_bound=1.0, y_bound=1.0, coef_bound=1.0, alpha=10.0)
    >>> result = what_if_rho(model, X[:300], y[:300], X[300:], y[300:], rho=[0.1, 1.0])
    >>> [round(cell.loss_change, 4) for cell in result.document.cells]
    [0.0691, 0.0069]
    >>> [round(cell.epsilon, 2) for cell in result.document.cells]
    [1.99, 7.29]
    """
    started = time.perf_counter()
    if not isinstance(estimator, PrivateRidge):
        raise InputTypeError(
            argument="estimator",
            expected="a PrivateRidge",
            got=type(estimator).__name__,
            hint="For other models use epsilens.WhatIf.",
        )
    if estimator.mechanism != "output":
        raise InputError(
            f"{setting('estimator')} must have {setting('mechanism', 'output')}, got another: "
            "only there the noise goes through unchanged. Fit several times with a seed instead."
        )
    grid = _as_grid(rho)
    at_delta = as_share(delta, name="delta")
    epsilons = _as_epsilons(grid, at_delta)
    draws = as_count(n_draws, name="n_draws", least=_LEAST_DRAWS)
    seed = as_count(random_state, name="random_state", least=0)
    model = clone(estimator)
    bounds = model.resolved_bounds(X, y)
    rows, targets = checked_input(model, X, y, reset=True)
    test_rows, test_targets = checked_input(model, X_test, y_test, reset=False)
    if np.abs(test_targets).max() > _LARGEST_TARGET:
        raise InputError(
            f"{setting('y_test')} must stay within ±{_LARGEST_TARGET:g}, got a larger target. "
            "Measure in larger units."
        )
    theta = exact_coefficients(model, bounds.rows(rows), bounds.targets(targets), bounds)
    design = bounds.rows(test_rows)
    residuals = design @ theta - test_targets
    effect = _LossOfNoise.on(design, residuals)
    z = np.random.default_rng(seed).standard_normal((draws, len(theta)))
    cells, runs = [], []
    for budget, epsilon in zip(grid, epsilons, strict=True):
        sigma = model.planned_release(bounds, rho=budget).sigma
        changes = effect.runs(sigma, z)
        low, high = ends(changes)
        cells.append(
            WhatIfCell(
                group=EVERYBODY,
                epsilon=epsilon,
                record_epsilon=epsilon,
                method=RHO_METHOD,
                loss_change=effect.mean(sigma),
                loss_change_low=low,
                loss_change_high=high,
            )
        )
        runs.append(changes)
    loss = float((residuals**2).mean())
    shown = {
        name: _READ_OFF if getattr(model, name) is None else getattr(bounds, name)
        for name in ("x_bound", "y_bound", "coef_bound")
    }
    read_off = [name for name, value in shown.items() if value == _READ_OFF]
    leak = f"{', '.join(read_off)} was read off the data, which no noise covers: a leak."
    document = WhatIfDocument(
        provenance=Provenance(
            method=RHO_METHOD,
            settings={
                "mechanism": "output perturbation",
                "estimator": type(estimator).__name__,
                "loss": "squared",
                "groups": [EVERYBODY],
                "rho": list(grid),
                "epsilon": [cell.epsilon for cell in cells],
                "delta": at_delta,
                "alpha": model.alpha,
                "sensitivity": model.sensitivity,
                "adjacency": model.adjacency,
                **shown,
                "n_draws": draws,
            },
            seed=seed,
            simulated=True,
            schema_fingerprint=schema_fingerprint(
                X, None, n_train=len(rows), n_test=len(test_rows)
            ),
            seconds=time.perf_counter() - started,
        ),
        notes=[
            Note(
                "rho-epsilon",
                f"Every ε is the exact ε of its ρ at δ = {at_delta:g}, for a whole record.",
            ),
            _cost_of_bounds(rows, targets, test_rows, test_targets, bounds, model.alpha, loss),
            *([Note("bounds-from-data", leak)] if read_off else []),
        ],
        number_types=whatif_number_types(retrained=False),
        baseline=BaselineNumbers(
            loss=loss,
            accuracy=None,
            auc=None,
            n_train=len(rows),
            n_test=len(test_rows),
            n_parameters=len(theta),
        ),
        cells=cells,
    )
    return LossChangeEstimate(document=document, loss_draws=tuple(runs), template=X)


def _as_grid(rho: str | Sequence[float]) -> tuple[float, ...]:
    values = parse_grid(rho) if isinstance(rho, str) else rho
    if not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InputTypeError(
            argument="rho",
            expected='a grid such as "0.01:10:30" or a list of numbers',
            got=type(rho).__name__,
        )
    return tuple(sorted({as_between(value, *RHO_RANGE, name="rho") for value in values}))


def _as_epsilons(grid: tuple[float, ...], delta: float) -> tuple[float, ...]:
    epsilons = tuple(epsilon_of_rho(rho, delta) for rho in grid)
    if epsilons[0] <= 0.0:
        raise InputError(
            f"{setting('rho')} must mean an ε above 0 at δ = {delta:g}, got {grid[0]:g}, which "
            f"means 0. Raise {setting('rho')} or lower {setting('delta')}."
        )
    if any(later <= earlier for earlier, later in itertools.pairwise(epsilons)):
        raise InputError(
            f"each {setting('rho')} must mean another ε at δ = {delta:g}, got several with the "
            "same. Put them further apart."
        )
    return epsilons


def _cost_of_bounds(
    rows: FloatArray,
    targets: FloatArray,
    test_rows: FloatArray,
    test_targets: FloatArray,
    bounds: RidgeBounds,
    alpha: float,
    loss: float,
) -> Note:
    """Say what clipping and the ball cost by themselves: the changes do not contain it."""
    constant = [bounds.constant] if bounds.constant else []
    free = np.column_stack([rows, *(np.full(len(rows), value) for value in constant)])
    test = np.column_stack([test_rows, *(np.full(len(test_rows), value) for value in constant)])
    what = "The bounds alone, without noise, change"
    without = _loss_of_ridge(free, targets, test, test_targets, alpha)
    if not math.isfinite(without):  # some unclipped record is too large to compute with
        what = (
            "The bound on the coefficients alone, with clipped records and without noise, changes"
        )
        clipped = bounds.rows(rows), bounds.targets(targets), bounds.rows(test_rows)
        without = _loss_of_ridge(*clipped, test_targets, alpha)
    return Note(
        "cost-of-bounds",
        f"{what} the test loss from {without:.4g} to {loss:.4g}; the changes shown come on top.",
    )


def _loss_of_ridge(
    X: FloatArray, y: FloatArray, X_test: FloatArray, y_test: FloatArray, alpha: float
) -> float:
    """Return the test loss without bounds and noise; not a number where it cannot be computed."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            theta = np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ y)
        except np.linalg.LinAlgError:
            return math.nan
        return float(((X_test @ theta - y_test) ** 2).mean())
