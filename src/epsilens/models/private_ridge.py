# SPDX-License-Identifier: Apache-2.0
"""A ridge model that may be published: noise that is provably enough, and no more than that."""

from __future__ import annotations

import math
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from epsilens._types import FloatArray
from epsilens._validate import as_between, as_choice, as_share
from epsilens.errors import InputError, setting
from epsilens.models.ball_ridge import adassp_releases, least_penalty, minimise_in_ball
from epsilens.models.gaussian_release import FITS, GaussianRelease, epsilon_of_rho
from epsilens.models.private_model import SOLVER_ALLOWANCE, PrivateModel
from epsilens.models.ridge_bounds import (
    ALPHA_RANGE,
    PENALTY_RANGE,
    RHO_RANGE,
    Adjacency,
    ClippedShare,
    RidgeBounds,
    SensitivityBound,
    bounds_of,
    clip_rows,
    ridge_sensitivity,
    row_norms,
)
from epsilens.models.tables import checked_input

_BOUNDS = ("x_bound", "y_bound", "coef_bound")


class PrivateRidge(PrivateModel, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression whose coefficients carry enough noise to be published.

    The model is fitted as usual, on records that are held within promised bounds, and normal noise
    is added to its coefficients. Whoever sees the published coefficients cannot tell whether any
    one person was among the records, to the degree that the budget says.

    Parameters
    ----------
    rho : float in [1e-12, 1e16], optional
        The budget of zero-concentrated differential privacy.
    epsilon : float in [1e-12, 1e8], optional
        Instead of `rho`, together with `delta`: converted exactly.
    delta : float in (0, 1), optional
        Beside `rho` it only says at which δ `epsilon_` is reported.
    x_bound : float in [1e-30, 1e30]
        Rows longer than this (Euclidean, the intercept's constant included) are shrunk to it.
    y_bound : float in [1e-30, 1e30]
        Targets beyond ± this are cut.
    coef_bound : float in [1e-30, 1e30]
        The coefficients, the intercept's among them, are kept in a ball of this radius.
    alpha : float in [1e-6, 1e20] · x_bound²
        Weight of the penalty, as in scikit-learn's `Ridge`. The larger, the less noise. Above a
        million records the least is larger (`least_penalty` in models/ball_ridge.py).
        `epsilens.ridge.balanced_alpha` suggests one.
    random_state : int, numpy Generator or RandomState, optional
        None, for a real release, draws from the operating system by OpenDP. A seed makes it a
        simulation that protects nobody, and warns.
    fit_intercept : bool, default True
        The intercept is the coefficient of a constant column, penalised and noised like the rest.
    intercept_constant : float in (0, x_bound), optional
        The value c of that column; half of `x_bound` by default. Features are clipped to
        √(x_bound² − c²), in `fit` and in `predict`.
    mechanism : {"output", "adassp"}, default "output"
        Noise on the coefficients (P3), or on the sums that determine them (Wang 2018).
    sensitivity : {"tight", "paper"}, default "tight"
        Bound on the distance that "output" hides: the smallest proven one, or P3's M R/α as printed.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        What differs between two data sets that must look alike: a record more or less, or a record
        replaced, which takes up to twice the noise.
    bounds_from_data : bool, default False
        Whether bounds that are None may be read off the data. That leaks, and warns.
    max_total_rho : float, optional
        The largest sum of ρ over all real fits of a record in this process. A fit beyond it is refused.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    sensitivity_ : float or None
        How far one record can move the coefficients, the solver's error included. Depends on the
        settings only. None for "adassp", which has three: see `releases_`.
    sigma_ : float or None
        Standard deviation of the noise on each coefficient. On the intercept it is c times this.
    rho_ : float
    total_rho_ : float or None
        The largest sum of ρ over the real fits of one of these records in this process, this one included.
        None for a simulation, which does not count.
    epsilon_, delta_ : float or None
        What ρ means as (ε, δ), exactly, if a δ was given; `epsilon_at` says it for any.
    excess_risk_upper_bound_ : float or None
        σ²R²: what the noise adds at most to the expected squared error, for any data.
    releases_ : tuple of GaussianRelease
        Everything that was published, with sensitivity, noise and budget.
    bounds_ : RidgeBounds
    simulated_ : bool
        Whether the noise came from a seed.
    n_features_in_ : int

    Raises
    ------
    InputError
        If a bound or the budget is missing, or the numbers are not usable.
    BudgetExceededError
        If the fits of these records would spend more than `max_total_rho`.

    Warns
    -----
    PrivacyLeakWarning
        If a seed was given, bounds were read off the data, or records were used in an earlier fit.

    Notes
    -----
    P3 part 1 in its own sum convention: F(θ) = Σ(xᵀθ − y)² + α‖θ‖² over ‖θ‖ ≤ B, released as
    θ* + N(0, σ²I), σ² = Δ²/(2ρ). Differs from P3 in that its M, a bound on residuals, is enforced
    by clipping and by the ball (M = R B + Y) and not assumed of the data, and in Δ, which is
    M/(2√α) if R² ≥ α and M R/(α + R²) otherwise, and never more than the ball's diameter 2B
    (docs/private-ridge.md has the proof).

    The solver's error adds a fixed share of 2·10⁻⁵. Where Δ is the smaller of the two, the error of
    each neighbour is checked against that share. Where 2B is, no check is needed: the computed
    vector itself lies in the ball, up to rounding that the share covers, however far it is from the
    exact minimiser.

    "adassp" spends ρ/3 on each of three Gaussian releases; together they are exactly as private as
    one of ρ. There `alpha` is the least penalty and the ball is post-processing.

    (ε, δ) is by the exact curve of the Gaussian mechanism (Balle and Wang 2018, dp-accounting).

    Assumptions
    -----------
    The curator who runs `fit` is trusted. One record is one person. The bounds, `alpha` and every
    other setting were chosen without looking at the data. Column names and the number of columns
    are public, and so is that the records are not too many for `alpha`: whether a fit is refused
    depends on settings and counts only.

    References
    ----------
    P3; Wang 2018; Balle and Wang 2018 in docs/references.bib.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(2000, 2))
    >>> y = X @ [0.6, -0.4]
    >>> model = PrivateRidge(rho=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0, coef_bound=1.0, alpha=10.0)
    >>> model.fit(X, y).coef_.shape
    (2,)
    >>> round(model.sensitivity_, 4), round(model.sigma_, 4), round(model.epsilon_, 2)
    (0.1818, 0.1286, 7.29)
    """

    def __init__(
        self,
        *,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        x_bound: float | None = None,
        y_bound: float | None = None,
        coef_bound: float | None = None,
        alpha: float | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        fit_intercept: bool = True,
        intercept_constant: float | None = None,
        mechanism: Literal["output", "adassp"] = "output",
        sensitivity: SensitivityBound = "tight",
        adjacency: Adjacency = "add-remove",
        bounds_from_data: bool = False,
        max_total_rho: float | None = None,
    ) -> None:
        self.rho = rho
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.coef_bound = coef_bound
        self.alpha = alpha
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.intercept_constant = intercept_constant
        self.mechanism = mechanism
        self.sensitivity = sensitivity
        self.adjacency = adjacency
        self.bounds_from_data = bounds_from_data
        self.max_total_rho = max_total_rho

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the model and add the noise: one release, which spends the budget.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)
        y : array of shape (n_records,)

        Returns
        -------
        PrivateRidge
            Itself.
        """
        rho = self._budget()
        self._check_settings()
        generator = self._generator()
        rows, targets = checked_input(self, X, y, reset=True)
        penalty = self._penalty()
        limit = self._limit()
        records = None if generator is not None else FITS.digests(rows, targets)
        if records is not None:
            FITS.total(records, rho, limit=limit)
        bounds = self._bounds(rows, targets, penalty)
        design, target = bounds.rows(rows), bounds.targets(targets)
        if self.mechanism == "output":
            release = self.planned_release(bounds, rho=rho)
            exact = exact_coefficients(self, design, target, bounds)
            theta = release.draw(exact, generator)
            self.releases_: tuple[GaussianRelease, ...] = (release,)
            self.sensitivity_: float | None = release.sensitivity
            self.sigma_: float | None = release.sigma
            self.excess_risk_upper_bound_: float | None = (release.sigma * bounds.x_bound) ** 2
        else:
            plan = adassp_releases(
                x_bound=bounds.x_bound,
                y_bound=bounds.y_bound,
                rho=rho,
                replaced=self.adjacency == "replace-one",
            )
            theta = plan.release(
                design, target, penalty=penalty, radius=bounds.coef_bound, generator=generator
            )
            self.releases_ = (plan.least_eigenvalue, plan.products, plan.moments)
            self.sensitivity_ = self.sigma_ = self.excess_risk_upper_bound_ = None
        self.total_rho_ = None if records is None else self._enter(records, rho, limit)
        p = rows.shape[1]
        self.coef_ = theta[:p]
        self.intercept_ = float(theta[p] * bounds.constant) if bounds.constant else 0.0
        self.rho_ = rho
        self.delta_ = None if self.delta is None else as_share(self.delta, name="delta")
        self.epsilon_ = None if self.delta_ is None else epsilon_of_rho(rho, self.delta_)
        self.bounds_ = bounds
        self.simulated_ = generator is not None
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predict from features that are clipped as in `fit`.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)

        Returns
        -------
        array of shape (n_records,)
        """
        check_is_fitted(self)
        rows, _ = checked_input(self, X, None, reset=False)
        predicted: FloatArray = clip_rows(rows, self.bounds_.feature_bound) @ self.coef_
        return predicted + self.intercept_

    def epsilon_at(self, delta: float) -> float:
        """Say what the spent budget means as (ε, δ)-differential privacy, exactly.

        Parameters
        ----------
        delta : float in (0, 1)

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return epsilon_of_rho(self.rho_, as_share(delta, name="delta"))

    def clipped_share(self, X: ArrayLike, y: ArrayLike) -> ClippedShare:
        """Count how many records the bounds have changed.

        The share is a function of the raw data: look at it, do not publish it.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)
        y : array of shape (n_records,)

        Returns
        -------
        ClippedShare
        """
        check_is_fitted(self)
        rows, targets = checked_input(self, X, y, reset=False)
        self._warn_of(
            "raw-statistic",
            "the share of clipped records is a function of the raw data and not private",
        )
        return ClippedShare(
            rows=float((row_norms(rows) > self.bounds_.feature_bound).mean()),
            targets=float((np.abs(targets) > self.bounds_.y_bound).mean()),
        )

    def expected_excess_risk(self, X: ArrayLike) -> float:
        """Say what the noise adds to the expected mean squared error on some records, exactly.

        It is σ² times the mean squared length of the clipped rows, whatever their targets are.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)

        Returns
        -------
        float

        Raises
        ------
        InputError
            For "adassp", whose noise does not go through unchanged.
        """
        check_is_fitted(self)
        if self.sigma_ is None:
            raise InputError(
                f"the expected excess risk is known for {setting('mechanism', 'output')} only, "
                "got 'adassp'. Fit several times with a seed and take the mean."
            )
        rows, _ = checked_input(self, X, None, reset=False)
        self._warn_of(
            "raw-statistic", "the expected excess risk is a function of these rows and not private"
        )
        lengths = row_norms(self.bounds_.rows(rows))
        return float(self.sigma_**2 * (lengths**2).mean())

    def planned_release(self, bounds: RidgeBounds, *, rho: float) -> GaussianRelease:
        """Return sensitivity and noise of "output" under some bounds: no data enter.

        Parameters
        ----------
        bounds : RidgeBounds
        rho : float in [1e-12, 1e16]
        """
        distance = self.exact_sensitivity(bounds)
        return GaussianRelease("coefficients", distance * (1.0 + 2.0 * SOLVER_ALLOWANCE), rho)

    def exact_sensitivity(self, bounds: RidgeBounds) -> float:
        """Return the sensitivity of the exact minimiser under some bounds: no data enter.

        Parameters
        ----------
        bounds : RidgeBounds
        """
        return ridge_sensitivity(
            x_bound=bounds.x_bound,
            y_bound=bounds.y_bound,
            coef_bound=bounds.coef_bound,
            alpha=self._penalty(),
            bound=self.sensitivity,
            adjacency=self.adjacency,
        )

    def resolved_bounds(self, X: ArrayLike, y: ArrayLike) -> RidgeBounds:
        """Return the bounds that `fit` on these records would use.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)
        y : array of shape (n_records,)
        """
        self._check_settings()
        rows, targets = checked_input(self, X, y, reset=True)
        return self._bounds(rows, targets, self._penalty())

    def _penalty(self) -> float:
        if self.alpha is None:
            raise InputError(
                argument="alpha",
                expected="given: the noise depends on it, so it cannot be chosen from the data",
                hint="`epsilens.ridge.balanced_alpha` suggests one.",
            )
        return as_between(self.alpha, *ALPHA_RANGE, name="alpha")

    def _check_settings(self) -> None:
        """Refuse settings that are wrong for any data, before any row is touched."""
        as_choice(self.mechanism, ("output", "adassp"), name="mechanism")
        as_choice(self.sensitivity, ("tight", "paper"), name="sensitivity")
        as_choice(self.adjacency, ("add-remove", "replace-one"), name="adjacency")
        if self.delta is not None:
            as_share(self.delta, name="delta")
        given, penalty = self._given_bounds(_BOUNDS), self._penalty()
        if "x_bound" in given:
            least, most = (share * given["x_bound"] ** 2 for share in PENALTY_RANGE)
            as_between(penalty, least, most, name="alpha")
            self._half(given["x_bound"])
        if len(given) == len(_BOUNDS):
            bounds = RidgeBounds(constant=self._half(given["x_bound"]), **given)
            self.planned_release(bounds, rho=1.0)

    def _budget(self) -> float:
        if (self.rho is None) == (self.epsilon is None):
            came = "neither" if self.rho is None else "both"
            raise InputError(
                f"{setting('rho')}, or {setting('epsilon')} with {setting('delta')}, must be "
                f"given, got {came}. Give one of the two."
            )
        if self.rho is not None:
            return as_between(self.rho, *RHO_RANGE, name="rho")
        return self._rho_of_epsilon()

    def _bounds(self, rows: FloatArray, targets: FloatArray, penalty: float) -> RidgeBounds:
        known = self._given_bounds(_BOUNDS)
        missing = [name for name in _BOUNDS if name not in known]
        if missing:
            self._warn_of_read_bounds(missing)
            is_own = not self.fit_intercept or self.intercept_constant is not None
            constant = self._constant(math.inf, default=math.inf) if is_own else None
            known = bounds_of(rows, targets, penalty=penalty, known=known, constant=constant)
        return RidgeBounds(constant=self._half(known["x_bound"]), **known)

    def _half(self, x_bound: float) -> float:
        """Return the constant of the intercept's column: half of `x_bound` unless it is given."""
        return self._constant(x_bound, default=x_bound / 2.0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True
        return tags


def exact_coefficients(
    model: PrivateRidge, design: FloatArray, target: FloatArray, bounds: RidgeBounds
) -> FloatArray:
    """Return the coefficients before noise. They must not be published.

    Parameters
    ----------
    model : PrivateRidge
        Its penalty is used.
    design : array of shape (n_records, n_coefficients)
        As `bounds.rows` gives it.
    target : array of shape (n_records,)
        As `bounds.targets` gives it.
    bounds : RidgeBounds

    Raises
    ------
    InputError
        If they cannot be computed as accurately as the sensitivity allows for.

    Examples
    --------
    >>> bounds = RidgeBounds(x_bound=1.0, y_bound=1.0, coef_bound=1.0, constant=0.0)
    >>> model = PrivateRidge(alpha=1.0)
    >>> exact_coefficients(model, np.ones((3, 1)), np.ones(3), bounds).round(6).tolist()
    [0.75]
    """
    penalty = as_between(model.alpha, *ALPHA_RANGE, name="alpha")
    too_small = InputError(
        argument="alpha",
        expected=(
            "larger for so many records: the minimiser cannot be computed as accurately as the "
            "guarantee needs"
        ),
        got=f"{penalty:g}",
        hint=f"Raise {setting('alpha')}.",
    )
    # By counts and settings only: a refusal that depends on the records would tell of them.
    if penalty < least_penalty(*design.shape, x_bound=bounds.x_bound, allowance=SOLVER_ALLOWANCE):
        raise too_small
    found = minimise_in_ball(design, target, penalty=penalty, radius=bounds.coef_bound)
    distance = model.exact_sensitivity(bounds)
    # The other half of the allowance is for the rounding of clipped rows. The check above is meant
    # to leave nothing to this one, which stays because the proof stands on it. From 2B on the proof
    # stands on the ball alone, which holds what was computed.
    within_allowance = found.error_upper_bound <= 0.5 * SOLVER_ALLOWANCE * distance
    if distance < 2.0 * bounds.coef_bound and not within_allowance:
        raise too_small
    return found.theta
