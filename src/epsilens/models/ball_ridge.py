# SPDX-License-Identifier: Apache-2.0
"""Ridge regression whose coefficients must lie in a ball, with a bound on the solver's own error.

The privacy proof is about the exact minimiser. What a computer returns is a little beside it, and
that little has to be known: it is added to the sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.models.gaussian_release import GaussianRelease

_CHUNK = 1024
_REFINEMENTS = 4


@dataclass(frozen=True, repr=False)  # a printed minimiser would be a leak
class BallMinimum:
    """The minimiser of a ridge objective over a ball.

    Attributes
    ----------
    theta : array of shape (p,)
    error_upper_bound : float
        The exact minimiser is no further than this from `theta`.
    multiplier : float
        ν ≥ 0: `theta` also minimises the objective with penalty λ + ν and no ball.
    """

    theta: FloatArray
    error_upper_bound: float
    multiplier: float


@dataclass(frozen=True, repr=False)
class _Spectrum:
    """A quadratic θᵀAθ − 2bᵀθ in the eigenvectors of A."""

    values: FloatArray
    vectors: FloatArray
    b: FloatArray

    def theta(self, penalty: float) -> FloatArray:
        solved: FloatArray = self.vectors @ (self.b / (self.values + penalty))
        return solved

    def multiplier(self, penalty: float, radius: float) -> float:
        """Return the least ν ≥ 0 with ‖θ(penalty + ν)‖ ≤ radius, by the secular equation."""
        from scipy.optimize import brentq

        def gap(nu: float) -> float:
            length = float(np.linalg.norm(self.b / (self.values + penalty + nu)))
            return 1.0 - radius / length

        if np.linalg.norm(self.b / (self.values + penalty)) <= radius:
            return 0.0
        # A little beyond, or rounding could leave no change of sign.
        most = float(np.linalg.norm(self.b)) / radius * (1.0 + 1e-9)
        return float(brentq(gap, 0.0, most, xtol=1e-300, rtol=8 * np.finfo(float).eps))


def minimise_quadratic_in_ball(
    A: FloatArray, b: FloatArray, *, penalty: float, radius: float
) -> FloatArray:
    """Return the minimiser of θᵀAθ − 2bᵀθ + penalty ‖θ‖² over the ball ‖θ‖ ≤ radius.

    Negative eigenvalues of A, which noise can make, count as 0.

    Examples
    --------
    >>> minimise_quadratic_in_ball(np.eye(2), np.array([3.0, 4.0]), penalty=1.0, radius=1.0).round(6)
    array([0.6, 0.8])
    """
    spectrum = _spectrum(A, b)
    nu = spectrum.multiplier(penalty, radius)
    return _into_ball(spectrum.theta(penalty + nu), radius)


def minimise_in_ball(X: FloatArray, y: FloatArray, *, penalty: float, radius: float) -> BallMinimum:
    """Minimise Σ(xᵀθ − y)² + penalty ‖θ‖² over ‖θ‖ ≤ radius, in P3's sum convention.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n,)
    penalty : float in (0, inf)
        λ.
    radius : float in (0, inf)
        B.

    Returns
    -------
    BallMinimum

    Notes
    -----
    With g = ∇F(θ) + 2νθ, the error is at most ‖g‖/(2λ + ν) from the minimiser over the ball that θ
    just reaches (strong convexity of F + ν‖θ‖² and the variational inequality), and a ball
    larger by s moves the minimiser by at most s √(1 + tr(XᵀX)/λ) (Kantorovich's inequality along
    the path of ν). Without the ball this is ‖∇F‖/(2λ). The gradient is summed in extended
    precision, and a bound on its own rounding is added.

    Examples
    --------
    >>> X, y = np.array([[1.0], [1.0]]), np.array([1.0, 1.0])
    >>> minimise_in_ball(X, y, penalty=1.0, radius=9.0).theta.round(6).tolist()
    [0.666667]
    >>> minimise_in_ball(X, y, penalty=1.0, radius=0.5).theta.round(6).tolist()
    [0.5]
    """
    spectrum = _spectrum(X.T @ X, X.T @ y)
    nu = spectrum.multiplier(penalty, radius)
    theta = _into_ball(spectrum.theta(penalty + nu), radius)
    lengths = np.linalg.norm(X, axis=1)
    trace = float(lengths @ lengths)
    best, step = _judge(X, y, theta, lengths, spectrum, penalty, nu, radius, trace)
    for _ in range(_REFINEMENTS):
        theta = _into_ball(best.theta - step, radius)
        found, step = _judge(
            X, y, theta, lengths, spectrum, penalty, best.multiplier, radius, trace
        )
        if found.error_upper_bound >= best.error_upper_bound:
            break
        best = found
    return best


def least_penalty(
    n_records: int, n_coefficients: int, *, x_bound: float, allowance: float
) -> float:
    """Say from which penalty on the error bound keeps to an allowance, whatever the records hold.

    Parameters
    ----------
    n_records, n_coefficients : int
    x_bound : float
        R, the longest row.
    allowance : float
        A: the error may be A/2 sensitivities.

    Notes
    -----
    At most nR(RB + Y) is summed in `_gradient`, so its rounding moves the minimiser by no more than
    2kunRM/λ, u the unit of extended precision and k the length of the sums; the tight sensitivity
    is M/(2√λ) (where it is the ball's diameter instead, no accuracy is needed). Half of A/2 is for this: √λ ≥ 16kunR/A. The other half is for θ, which is rounded to
    double precision and needs √λ ≥ 32vnR/A, v its unit.

    Examples
    --------
    >>> least_penalty(1_000_000, 1000, x_bound=1.0, allowance=1e-5) < 1e-6
    True
    """
    n = n_records + 1
    extended = 16.0 * _sum_length(n_records, n_coefficients) * float(np.finfo(np.longdouble).eps)
    double = 32.0 * float(np.finfo(float).eps) / 2.0
    return (max(extended, double) * n * x_bound / allowance) ** 2


def _sum_length(n: int, p: int) -> float:
    return p + _CHUNK + n / _CHUNK + 8


def _spectrum(A: FloatArray, b: FloatArray) -> _Spectrum:
    values, vectors = np.linalg.eigh((A + A.T) / 2.0)
    return _Spectrum(np.maximum(values, 0.0), vectors, vectors.T @ b)


def _into_ball(theta: FloatArray, radius: float) -> FloatArray:
    length = float(np.linalg.norm(theta))
    if length <= radius:
        return theta
    return theta * (radius / length * (1.0 - 4 * np.finfo(float).eps))


def _judge(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    lengths: FloatArray,
    spectrum: _Spectrum,
    penalty: float,
    nu: float,
    radius: float,
    trace: float,
) -> tuple[BallMinimum, FloatArray]:
    """Bound the error of θ, and give the Newton step that would correct it."""
    slope, rounding = _gradient(X, y, theta, lengths, penalty)
    length = float(np.linalg.norm(theta))
    if nu > 0.0:
        nu = max(0.0, -float(theta.astype(np.longdouble) @ slope) / (2.0 * length**2))
    g = (slope + 2.0 * np.longdouble(nu) * theta).astype(np.float64)
    error = (float(np.linalg.norm(g)) + rounding) / (2.0 * penalty + nu)
    if nu > 0.0:
        error += max(0.0, radius - length) * math.sqrt(1.0 + trace / penalty)
    error += 4 * np.finfo(float).eps * length
    step = spectrum.vectors @ (spectrum.vectors.T @ g / (2.0 * (spectrum.values + penalty + nu)))
    return BallMinimum(theta, error, nu), step


def _gradient(
    X: FloatArray, y: FloatArray, theta: FloatArray, lengths: FloatArray, penalty: float
) -> tuple[NDArray[np.longdouble], float]:
    """Return ∇F(θ) = 2(Xᵀ(Xθ − y) + λθ) and a bound on the rounding in it."""
    n, p = X.shape
    wide = theta.astype(np.longdouble)
    total = np.zeros(p, dtype=np.longdouble)
    for first in range(0, n, _CHUNK):
        rows = X[first : first + _CHUNK].astype(np.longdouble)
        total += rows.T @ (rows @ wide - y[first : first + _CHUNK])
    slope = (2.0 * (total + penalty * wide)).astype(np.longdouble)
    length = float(np.linalg.norm(theta))
    sizes = float(lengths @ (lengths * length + np.abs(y))) + penalty * length
    unit = float(np.finfo(np.longdouble).eps)
    return slope, 2.0 * _sum_length(n, p) * unit * sizes


# --- Ridge regression from noisy sums of products, with a penalty that adapts (AdaSSP) ---

# ϱ of Wang (2018): how often the penalty may be too small for the noise.
_FAILURE_PROBABILITY = 0.05
_ROWS_AT_ONCE = 256
_ROUNDING = 1e-7


@dataclass(frozen=True)
class AdaSSP:
    """The three releases of AdaSSP.

    Attributes
    ----------
    least_eigenvalue, products, moments : GaussianRelease
        Releases of λ_min(XᵀX), XᵀX and Xᵀy.
    """

    least_eigenvalue: GaussianRelease
    products: GaussianRelease
    moments: GaussianRelease

    def release(
        self,
        X: FloatArray,
        y: FloatArray,
        *,
        penalty: float,
        radius: float,
        generator: np.random.Generator | None,
    ) -> FloatArray:
        """Return coefficients that may be published.

        Parameters
        ----------
        X : array of shape (n, p)
            Rows within their bound.
        y : array of shape (n,)
            Targets within their bound.
        penalty : float
            The least penalty, whatever the noise.
        radius : float
            Coefficients are kept in this ball: post-processing, and free.
        generator : numpy Generator or None
            None: a real release, drawn by OpenDP.
        """
        A, b = _sums(X, y)
        p = len(b)
        sigma = self.products.sigma
        least = np.array([max(0.0, float(np.linalg.eigvalsh(A)[0]))])
        noisy_least = float(self.least_eigenvalue.draw(least, generator)[0])
        margin = self.least_eigenvalue.sigma * math.sqrt(2.0 * math.log(1.0 / _FAILURE_PROBABILITY))
        cautious = max(0.0, noisy_least - margin)
        spread = sigma * math.sqrt(p * math.log(2.0 * p * p / _FAILURE_PROBABILITY))
        upper = np.triu_indices(p)
        noisy = np.zeros((p, p))
        noisy[upper] = self.products.draw(A[upper], generator)
        noisy = noisy + np.triu(noisy, 1).T
        return minimise_quadratic_in_ball(
            noisy,
            self.moments.draw(b, generator),
            penalty=max(penalty, spread - cautious),
            radius=radius,
        )


def adassp_releases(*, x_bound: float, y_bound: float, rho: float, replaced: bool) -> AdaSSP:
    """Split a budget over the three releases of AdaSSP, a third each.

    Parameters
    ----------
    x_bound, y_bound : float
        R and Y: no row is longer, no target larger.
    rho : float
        The whole budget. The three thirds compose to it exactly.
    replaced : bool
        Whether a neighbour has one record replaced: twice the sensitivity.

    Notes
    -----
    Wang (2018), Algorithm 2. One record adds xxᵀ to XᵀX (Frobenius length ≤ R², which also bounds
    what the noisy upper triangle and the least eigenvalue can move) and xy to Xᵀy (≤ R Y). Differs
    from the paper in that the noise is calibrated to ρ/3 each in place of (ε/3, δ/3), so the
    margin below the least eigenvalue takes ϱ where the paper has δ; negative eigenvalues of the
    noisy matrix count as 0.

    Examples
    --------
    >>> adassp_releases(x_bound=2.0, y_bound=1.0, rho=1.5, replaced=False).moments.rho
    0.5
    """
    factor = (2.0 if replaced else 1.0) * (1.0 + _ROUNDING)
    square = factor * x_bound * x_bound
    return AdaSSP(
        GaussianRelease("least eigenvalue of XᵀX", square, rho / 3.0),
        GaussianRelease("XᵀX", square, rho / 3.0),
        GaussianRelease("Xᵀy", factor * x_bound * y_bound, rho / 3.0),
    )


def _sums(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return XᵀX and Xᵀy, in short pieces: rounding stays below 1e-7 R² up to 3 million rows."""
    p = X.shape[1]
    A = np.zeros((p, p), dtype=np.longdouble)
    b = np.zeros(p, dtype=np.longdouble)
    for first in range(0, len(X), _ROWS_AT_ONCE):
        rows = X[first : first + _ROWS_AT_ONCE]
        A += rows.T @ rows
        b += rows.T @ y[first : first + _ROWS_AT_ONCE]
    return A.astype(np.float64), b.astype(np.float64)
