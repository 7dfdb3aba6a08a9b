# SPDX-License-Identifier: Apache-2.0
"""A classifier that may be published: logistic or softmax regression with noise that is provably enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target

from epsilens._types import FloatArray
from epsilens._validate import as_between, as_choice, as_count, as_share
from epsilens.document.decision import Protects
from epsilens.errors import InputError
from epsilens.models.design import Design
from epsilens.models.gaussian_release import FITS, GaussianRelease
from epsilens.models.label import class_codes, sorted_distinct
from epsilens.models.noisy_descent import (
    MOST_PREDICTOR,
    DescentPlan,
    descend,
    gradient_rounding,
    gradient_sensitivity,
    gradient_sum,
    loss_of,
)
from epsilens.models.private_model import SOLVER_ALLOWANCE, PrivateModel
from epsilens.models.problem import Problem
from epsilens.models.released_model import LogisticPredictions
from epsilens.models.ridge_bounds import ALPHA_RANGE, BOUND_RANGE, RowBounds, row_norms
from epsilens.models.solver import minimise, polish
from epsilens.models.tables import checked_input

LogisticMechanism = Literal["noisy-descent", "output-perturbation"]
_MECHANISMS: tuple[LogisticMechanism, ...] = ("noisy-descent", "output-perturbation")
_CONSTANT = 1.0
# Length of row times length of coefficients that a good model has about; see `balanced_penalty`.
_TYPICAL_PREDICTOR = 8.0
_ROOM = 1e-12


def default_bounds(x_bound: float) -> RowBounds:
    """Return the bounds of rows with an intercept, whose constant is the smaller of 1 and half the bound."""
    return RowBounds(x_bound=x_bound, constant=min(_CONSTANT, x_bound / 2.0))


class PrivateLogisticRegression(
    LogisticPredictions,
    PrivateModel,
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Logistic regression whose coefficients carry enough noise to be published.

    The model is trained by gradient descent on all records, with normal noise on every sum of gradients.
    Whoever sees the published coefficients cannot tell what any one person answered, or which record a
    person has, to the degree that the budget says.

    Parameters
    ----------
    epsilon : float in [1e-12, 1e8]
        Budget, with `delta`: one Gaussian release of the same strength is converted exactly.
    delta : float in (0, 1)
    x_bound : float in [1e-30, 1e30]
        Rows longer than this (Euclidean, the intercept's constant included) are shrunk to it. For
        standardised numbers and one-hot categories 2 to 3 do well.
    protects : {"record", "answer"}, default "record"
        What is protected: the whole record, or the label alone, which takes half the noise.
    n_steps : int, default 120
        Steps of the descent. The noise of all of them together costs `epsilon`.
    fit_intercept : bool, default True
        The intercept is the coefficient of a constant column, noised like the rest.
    random_state : int, numpy Generator or RandomState, optional
        None, for a real release, draws from the operating system by OpenDP. A seed makes it a
        simulation that protects nobody, and warns.
    classes : sequence, optional
        All possible labels. None takes those that occur, which tells that they do, and warns.
    mechanism : {"noisy-descent", "output-perturbation"}, default "noisy-descent"
        Noise on the sum of gradients in every step, or on the coefficients of a penalised fit.
    alpha : float in [1e-66, 1e80], optional
        Weight of the penalty ½·alpha·‖θ‖² of "output-perturbation"; by default `balanced_penalty`.
    intercept_constant : float in (0, x_bound), optional
        The value c of the constant column; the smaller of 1 and half of `x_bound` by default. Features are
        clipped to √(x_bound² − c²), in `fit` and in `predict`.
    bounds_from_data : bool, default False
        Whether `x_bound` may be read off the data if it is None. That leaks, and warns.
    max_total_rho : float, optional
        The largest sum of ρ over all real fits of a record in this process. A fit beyond it is refused.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        One vector for two classes.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    mu_ : float
        μ of the whole release as Gaussian noise: √(2ρ).
    sigma_ : float
        Standard deviation of the noise: on each sum of gradients, or on each coefficient.
    sensitivity_ : float
        How far one person can move such a sum, or the coefficients, rounding included.
    advantage_ : float in [0, 1]
        Largest total variation distance between what two labels, or records, of a person lead to:
        2Φ(μ/2) − 1.
    rho_, epsilon_, delta_ : float
    total_rho_ : float or None
        The largest sum of ρ over the real fits of one of these records in this process, this one included.
        None for a simulation, which does not count.
    bounds_ : RowBounds
    receipt_ : dict
        What was spent and how, as JSON types and without data.
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
        If a seed was given, classes or the bound were read off the data, or records were used in an
        earlier fit.

    Notes
    -----
    Neighbours have one label changed, or one record replaced, so the number of records is public. How
    far one person moves a sum of gradients is proved at `gradient_sensitivity`; a proven bound of rounding
    is added to it. Each of n_steps sums gets noise of σ = Δ·√n_steps/μ; together they are exactly as private as
    one Gaussian release of μ (Dong, Roth and Su 2022). The last half of the steps is averaged. Steps are
    planned from the number of records and the settings alone (`DescentPlan`). With `protects="answer"` a
    whole record is still protected at 2μ.

    "output-perturbation" minimises Σℓ + ½·alpha·‖θ‖² (Chaudhuri, Monteleoni and Sarwate 2011). Two
    neighbours' objectives differ by a function whose gradient is never longer than the sensitivity
    Δ of a sum of gradients, and both are alpha-strongly convex. So their minimisers θ, θ' satisfy
    alpha·‖θ − θ'‖ ≤ Δ: add both optimality conditions and multiply by θ − θ'. A computed minimiser is off by at
    most its gradient's length over alpha, which is held below 10⁻⁵Δ/alpha.

    Assumptions
    -----------
    The curator who runs `fit` is trusted. One record is one person. `x_bound`, `classes` and every other
    setting were chosen without looking at the data. Column names, the number of columns and the number of
    records are public.

    References
    ----------
    Dong, Roth and Su 2022; Chaudhuri, Monteleoni and Sarwate 2011 in docs/references.bib.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, x_bound=2.0, classes=[0, 1])
    >>> model.fit(X, y).coef_.shape
    (1, 2)
    >>> round(model.mu_, 3), round(model.sigma_, 1), round(model.advantage_, 3)
    (0.237, 185.1, 0.094)
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        x_bound: float | None = None,
        protects: Protects = "record",
        n_steps: int = 120,
        fit_intercept: bool = True,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        classes: Sequence[object] | None = None,
        mechanism: LogisticMechanism = "noisy-descent",
        alpha: float | None = None,
        intercept_constant: float | None = None,
        bounds_from_data: bool = False,
        max_total_rho: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.protects = protects
        self.n_steps = n_steps
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.classes = classes
        self.mechanism = mechanism
        self.alpha = alpha
        self.intercept_constant = intercept_constant
        self.bounds_from_data = bounds_from_data
        self.max_total_rho = max_total_rho

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train the model with noise: one release, which spends the budget.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)
        y : array of shape (n_records,)

        Returns
        -------
        PrivateLogisticRegression
            Itself.
        """
        rho = self._rho_of_epsilon()
        self._check_settings()
        generator = self._generator()
        rows, labels = checked_input(self, X, y, reset=True, is_number=False)
        classes, codes = self._classes(labels)
        limit = self._limit()
        records = None if generator is not None else FITS.digests(rows, codes.astype(np.float64))
        if records is not None:
            FITS.total(records, rho, limit=limit)
        bounds = self._bounds(rows)
        design = bounds.rows(rows)
        n_outputs = 1 if len(classes) == 2 else len(classes)
        spent: dict[str, float | int]
        if self.mechanism == "noisy-descent":
            n, d = design.shape
            plan = DescentPlan(
                n,
                d,
                n_outputs,
                bounds.x_bound,
                self.protects,
                rho,
                as_count(self.n_steps, name="n_steps"),
            )
            release = plan.release
            theta = descend(
                design, codes, plan, lambda total: self._noisy(total, release, generator)
            )
            spent = {"n_steps": plan.n_steps}
        else:
            penalty = self._penalty(len(design), bounds.x_bound, rho)
            release = output_release(
                bounds.x_bound, n_outputs, self.protects, rho=rho, penalty=penalty
            )
            exact = penalised_minimum(
                design, codes, n_outputs, penalty=penalty, x_bound=bounds.x_bound
            )
            theta = self._noisy(exact, release, generator)
            spent = {"alpha": penalty}
        self.total_rho_ = None if records is None else self._enter(records, rho, limit)
        p = rows.shape[1]
        self.coef_ = np.ascontiguousarray(theta[:p].T)
        self.intercept_ = theta[p] * bounds.constant if bounds.constant else np.zeros(n_outputs)
        self.classes_ = classes
        self.bounds_ = bounds
        self.rho_, self.mu_ = rho, math.sqrt(2.0 * rho)
        self.epsilon_, self.delta_ = float(self.epsilon or 0.0), float(self.delta or 0.0)
        self.sigma_, self.sensitivity_ = release.sigma, release.sensitivity
        self.advantage_ = math.erf(self.mu_ / math.sqrt(8.0))
        self.simulated_ = generator is not None
        self.receipt_ = self._receipt(spent)
        return self

    def _noisy(
        self, exact: FloatArray, release: GaussianRelease, generator: np.random.Generator | None
    ) -> FloatArray:
        """Return what may be published of an exact sum: the one place where noise is added."""
        return release.draw(exact, generator)

    def _check_settings(self) -> None:
        """Refuse settings that are wrong for any data, before any row is touched."""
        as_choice(self.protects, ("record", "answer"), name="protects")
        as_choice(self.mechanism, _MECHANISMS, name="mechanism")
        as_count(self.n_steps, name="n_steps")
        as_share(self.delta, name="delta")
        self._limit()
        given = self._given_bounds(("x_bound",))
        if given:
            self._column(given["x_bound"])
        if self.alpha is not None:
            as_between(self.alpha, *ALPHA_RANGE, name="alpha")

    def _column(self, x_bound: float) -> float:
        """Return the constant of the intercept's column."""
        return self._constant(x_bound, default=default_bounds(x_bound).constant)

    def _bounds(self, rows: FloatArray) -> RowBounds:
        known = self._given_bounds(("x_bound",)).get("x_bound")
        if known is None:
            self._warn_of_read_bounds(["x_bound"])
            longest = float(row_norms(rows).max()) or 1.0
            own = self._constant(math.inf, default=_CONSTANT)
            if self.fit_intercept and self.intercept_constant is None and longest < math.sqrt(3.0):
                longest *= 2.0 / math.sqrt(3.0)  # the constant is half of the bound
            else:
                longest = math.hypot(longest, own)
            known = longest * (1.0 + _ROOM)
            if not BOUND_RANGE[0] <= known <= BOUND_RANGE[1]:
                # The message names no number: it would be one of the data.
                raise InputError(
                    argument="x_bound",
                    expected=f"between {BOUND_RANGE[0]:g} and {BOUND_RANGE[1]:g}",
                    got="another number, read off the data",
                    hint="Measure in other units, or give the bound.",
                )
        return RowBounds(x_bound=known, constant=self._column(known))

    def _classes(self, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the classes and every label's place among them."""
        kind = type_of_target(labels)
        if kind not in ("binary", "multiclass"):
            raise InputError(
                f"Unknown label type: {kind}. The labels must be classes. Bin a number into some."
            )
        if self.classes is not None:
            declared = tuple(self.classes)
            domain = sorted_distinct(np.asarray(declared))
            if len(domain) != len(declared) or len(domain) < 2:
                raise InputError(
                    argument="classes",
                    expected="at least two different labels",
                    got=f"{len(declared)} with {len(domain)} different",
                )
        else:
            domain = sorted_distinct(labels)
            if len(domain) < 2:
                raise InputError(
                    "the labels must have two classes, got one class. Declare all possible labels "
                    "by `classes`."
                )
            self._warn_of(
                "observed-classes",
                "the classes were taken from the labels, which no noise covers. Declare them by "
                "`classes`",
                stacklevel=4,
            )
        codes = class_codes(labels, domain, what="training").astype(np.intp)
        return np.asarray(domain), codes

    def _penalty(self, n_records: int, x_bound: float, rho: float) -> float:
        if self.alpha is not None:
            return as_between(self.alpha, *ALPHA_RANGE, name="alpha")
        return balanced_penalty(n_records, x_bound, self.protects, rho=rho)

    def _receipt(self, spent: dict[str, float | int]) -> dict[str, object]:
        from epsilens import __version__

        return {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon_,
            "delta": self.delta_,
            "rho": self.rho_,
            "mu": self.mu_,
            "advantage": self.advantage_,
            "protects": self.protects,
            "neighbours": "replace-one",
            "x_bound": self.bounds_.x_bound if self.bounds_ else None,
            **spent,
            "sigma": self.sigma_,
            "sensitivity": self.sensitivity_,
            "simulated": self.simulated_,
            "epsilens_version": __version__,
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.poor_score = True
        return tags


# --- Output perturbation ---


def output_release(
    x_bound: float, n_outputs: int, protects: Protects, *, rho: float, penalty: float
) -> GaussianRelease:
    """Return the release of penalised coefficients, the solver's error of both neighbours included."""
    pull = gradient_sensitivity(x_bound, n_outputs=n_outputs, protects=protects)
    distance = pull * (1.0 + 2.0 * SOLVER_ALLOWANCE) / penalty
    return GaussianRelease("coefficients", distance, rho)


def balanced_penalty(n_records: int, x_bound: float, protects: Protects, *, rho: float) -> float:
    """Return a penalty that costs about as much as the noise it saves; no data but their number enter.

    Notes
    -----
    Noise of Δ/(αμ) on every coefficient adds at most (Δ/(αμ))²·C²/8 to the mean loss, and the penalty at most
    α‖θ‖²/(2n), with ‖θ‖ = 8/C for a typical model. α is where the sum is least.
    """
    pull = gradient_sensitivity(x_bound, n_outputs=1, protects=protects)
    length = _TYPICAL_PREDICTOR / x_bound
    noise = (pull * x_bound) ** 2 / (2.0 * rho)
    return math.cbrt(noise * n_records / (2.0 * length**2))


def penalised_minimum(
    design: FloatArray,
    codes: NDArray[np.intp],
    n_outputs: int,
    *,
    penalty: float,
    x_bound: float,
) -> FloatArray:
    """Return the minimiser of Σℓ + ½·penalty·‖θ‖², (d, k), as accurate as the sensitivity allows for.

    It must not be published.

    Raises
    ------
    InputError
        If the penalty is too small for so many records; that depends on counts and settings only.

    Notes
    -----
    At the minimum ½·penalty·‖θ‖² ≤ n·log K, the loss at 0; up to twice this length the rounding of the
    gradient is bounded by `gradient_rounding`. The gradient that is left, with this bound,
    must be at most `SOLVER_ALLOWANCE` of C.
    """
    n, d = design.shape
    too_small = InputError(
        argument="alpha",
        expected="larger for so many records: the minimiser cannot be computed accurately enough",
        got=f"{penalty:g}",
    )
    longest = 2.0 * math.sqrt(2.0 * n * math.log(max(n_outputs, 2)) / penalty)
    rounding = gradient_rounding(n, d, n_outputs, x_bound, most_predictor=longest * x_bound)
    allowance = SOLVER_ALLOWANCE * x_bound
    if longest * x_bound > MOST_PREDICTOR or rounding > allowance / 2.0:
        raise too_small
    loss = loss_of(n_outputs)
    # In lengths of x_bound, so that the solver sees numbers of ordinary size.
    scaled = design / x_bound
    weight = penalty / (n * x_bound**2)
    problem = Problem(Design.plain(scaled), np.ones(n), loss, np.full(d, weight))
    linear = problem.linear_term(loss.statistic(codes.astype(np.float64)))
    found = minimise(problem, linear[:, None], np.zeros((d * n_outputs, 1)))
    best = polish(problem, linear, found).reshape(n_outputs, d).T / x_bound
    left = gradient_sum(design, codes, best) + penalty * best
    size = float(np.linalg.norm(left)) + 4.0 * np.finfo(float).eps * penalty * longest
    # Not expected to happen, and kept because the proof stands on it.
    if not size + rounding <= allowance or float(np.linalg.norm(best)) > longest:
        raise too_small
    return best
