# SPDX-License-Identifier: Apache-2.0
"""How the model would move with a record or a batch more, or less: computed by those who hold them.

With F(θ) = (1/N) Σ ℓ + penalty, M = N∇²F(θ̂) and ς = 1 for records that come, −1 for records that go, and
g, C their summed gradient and Hessian at θ̂, the move δ of the optimum is

    first order    δ = −ς M⁻¹g                          (Koh and Liang 2017; P4, before Eq. 1)
    second order   δ = −ς (I − ς M⁻¹C) M⁻¹g             (P4 Eq. 1)
    Newton         δ = −ς (M + ςC)⁻¹g                   (exact for a square)

P4's Algorithms 1–2 take the second-order form for a whole batch. It is the beginning of a series that
diverges once the batch weighs as much as the model's own records in some direction; Newton's does not,
costs the same, and is the default.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias, get_args

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_choice, as_count
from epsilens.errors import EstimateNotTrustworthyError, InputError, setting
from epsilens.models import Design, Loss
from epsilens.valuation.record_steps import ALONE

Change: TypeAlias = Literal["add", "remove"]
MoveMethod: TypeAlias = Literal["newton", "second-order", "first-order"]

SIGN: dict[str, int] = {"add": 1, "remove": -1}


@dataclass(frozen=True)
class ModelForTester:
    """What the coordinator tells a tester about the model: two vectors and a count.

    Attributes
    ----------
    theta : array of shape (p,)
        The model, output after output.
    scale : array of shape (p,)
        √(H⁻¹)_ii: the unit of each coefficient, in which numbers of any feature are of one size.
    n_records : int
        N, the records that the model was trained on.
    """

    theta: FloatArray = field(repr=False)
    scale: FloatArray = field(repr=False)
    n_records: int

    def __post_init__(self) -> None:
        theta = as_vector(self.theta, name="theta")
        scale = as_vector(self.scale, name="scale", length=len(theta))
        if not (scale > 0).all():
            raise InputError(
                argument="scale",
                expected="numbers above 0",
                got="others",
                hint="Ask for the model again.",
            )
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "scale", scale)
        as_count(self.n_records, name="n_records")

    @property
    def n_bytes(self) -> int:
        """Bytes of its numbers; the model and its units."""
        return self.theta.nbytes + self.scale.nbytes + 8

    @property
    def name(self) -> str:
        """A hash that tells this version of the model from any other."""
        return model_name(self.theta, self.n_records)


@dataclass(frozen=True)
class ModelForProvider:
    """What the coordinator tells a provider about the model (P4 Algorithms 1–2, lines 1–2).

    Attributes
    ----------
    theta : array of shape (p,)
        The model, output after output.
    inverse_hessian : array of shape (p, p)
        Inverse Hessian of the mean loss and its penalty.
    n_records : int
        N, the records that the model was trained on.
    penalty : array of shape (p,)
        The weight λ of ½λθ² that every record brings with it, for each coefficient. Zeros, the
        default: the whole penalty stays as it is when records come or go, as scikit-learn's C does. A
        federation keeps λ beside the mean loss, and states it here.

    Examples
    --------
    >>> import numpy as np
    >>> model = ModelForProvider(np.zeros(2), np.diag([4.0, 1.0]), n_records=100)
    >>> model.for_tester().scale
    array([2., 1.])
    """

    theta: FloatArray = field(repr=False)
    inverse_hessian: FloatArray = field(repr=False)
    n_records: int
    penalty: FloatArray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        theta = as_vector(self.theta, name="theta")
        inverse = np.asarray(self.inverse_hessian, dtype=np.float64)
        p = len(theta)
        if inverse.shape != (p, p) or not np.isfinite(inverse).all():
            raise InputError(
                argument="inverse_hessian",
                expected=f"{p} × {p} finite numbers, as many as the model has",
                got=f"an array of shape {inverse.shape}",
                hint="Ask for the model again.",
            )
        if not (inverse.diagonal() > 0).all():
            raise InputError(
                argument="inverse_hessian",
                expected="positive definite",
                got="one that is not",
                hint="Train with a penalty.",
            )
        penalty = np.zeros(p) if self.penalty is None else self.penalty
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "inverse_hessian", inverse)
        object.__setattr__(self, "penalty", as_vector(penalty, name="penalty", length=p))
        as_count(self.n_records, name="n_records")

    @property
    def n_parameters(self) -> int:
        """Numbers in the model."""
        return len(self.theta)

    @property
    def own_penalty(self) -> FloatArray:
        """What every record brings with it; zeros if nothing was said."""
        return np.zeros(len(self.theta)) if self.penalty is None else self.penalty

    @property
    def scale(self) -> FloatArray:
        """√(H⁻¹)_ii."""
        return np.sqrt(self.inverse_hessian.diagonal())

    @property
    def n_bytes(self) -> int:
        """Bytes of its numbers; of the inverse Hessian, which is symmetric, half."""
        return 8 * (2 * (p := len(self.theta)) + p * (p + 1) // 2 + 1)

    @property
    def name(self) -> str:
        """A hash that tells this version of the model from any other."""
        return model_name(self.theta, self.n_records)

    def for_tester(self) -> ModelForTester:
        """Return what a tester may know of it."""
        return ModelForTester(self.theta, self.scale, self.n_records)


def item_moves(
    model: ModelForProvider,
    X: FloatArray,
    y: FloatArray,
    loss: Loss,
    *,
    change: Change = "add",
    method: MoveMethod = "newton",
) -> FloatArray:
    """Return how the model would move with each record alone. For the provider's own eyes.

    A move is H⁻¹x times a number: whoever knows H reads the record off it. It never leaves the provider;
    see `epsilens.valuation.score_items` for what does.

    Parameters
    ----------
    model : ModelForProvider
    X : array of shape (m, d)
        Features as the model sees them, the constant column of an intercept included.
    y : array of shape (m,)
        Labels as the loss takes them: 0 and 1, codes, or numbers.
    loss : Loss
        `LogisticLoss()`, `SoftmaxLoss(k)` or `SquaredLoss()` of `epsilens.models`.
    change : {"add", "remove"}
        Records that would come, or records of the model that would go.
    method : {"newton", "second-order", "first-order"}

    Returns
    -------
    array of shape (m, p)

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import LogisticLoss
    >>> model = ModelForProvider(np.zeros(1), np.array([[4.0]]), n_records=10)
    >>> item_moves(model, np.ones((1, 1)), np.ones(1), LogisticLoss(), method="first-order")
    array([[0.2]])
    """
    design, labels = _records(model, X, y, loss, change, method)
    sign, n_outputs = SIGN[change], loss.n_outputs
    predictor = design.predict(model.theta)
    slope, curvature = loss.slope(predictor.copy(), labels), loss.curvature(predictor)
    rows = design.block(slice(None))
    m, d = rows.shape
    inverse = model.inverse_hessian / model.n_records
    shrink = model.own_penalty
    if method == "newton" and shrink.any():
        inverse = np.asarray(
            np.linalg.inv(np.linalg.inv(inverse) + sign * np.diag(shrink)), np.float64
        )
    gradient = np.einsum("mk,md->mkd", slope, rows).reshape(m, -1) + shrink * model.theta
    z = gradient @ inverse
    if method == "first-order":
        return np.asarray(-sign * z, dtype=np.float64)
    along = np.einsum("mkd,md->mk", z.reshape(m, n_outputs, d), rows)
    bent = np.einsum("mkl,ml->mk", curvature, along)
    if method == "newton":
        # Woodbury: (B + ςUCUᵀ)⁻¹ = B⁻¹ − ςB⁻¹U(I + ςCQ)⁻¹CUᵀB⁻¹ with Q = UᵀB⁻¹U.
        blocks = inverse.reshape(n_outputs, d, n_outputs, d)
        spread = np.einsum("md,kdle,me->mkl", rows, blocks, rows, optimize=True)
        left = np.eye(n_outputs) + sign * (curvature @ spread)
        _require_regular(np.asarray(np.linalg.eigvals(left).real, dtype=np.float64))
        bent = np.linalg.solve(left, bent[:, :, None])[:, :, 0]
    back = np.einsum("mk,md->mkd", bent, rows).reshape(m, -1)
    if method == "second-order":
        back = back + z * shrink
    moves: FloatArray = -sign * (z - sign * back @ inverse)
    return moves


def batch_move(
    model: ModelForProvider,
    X: FloatArray,
    y: FloatArray,
    loss: Loss,
    *,
    change: Change = "add",
    method: MoveMethod = "newton",
) -> FloatArray:
    """Return how the model would move with all records together.

    Parameters
    ----------
    model, X, y, loss, change, method
        As in `item_moves`. "second-order" is P4's Algorithms 1–2, with sums where they print 1/n: the
        gradient of a batch is that of its records together.

    Returns
    -------
    array of shape (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import LogisticLoss
    >>> model = ModelForProvider(np.zeros(1), np.array([[4.0]]), n_records=10)
    >>> batch_move(model, np.ones((2, 1)), np.ones(2), LogisticLoss()).round(3)
    array([0.333])
    """
    design, labels = _records(model, X, y, loss, change, method)
    sign, shrink = SIGN[change], len(labels) * model.own_penalty
    predictor = design.predict(model.theta)
    curvature = design.gram(loss.curvature(predictor)) + np.diag(shrink)
    gradient = design.pull(loss.slope(predictor, labels)) + shrink * model.theta
    inverse = model.inverse_hessian / model.n_records
    if method == "newton":
        left = np.eye(len(gradient)) + sign * inverse @ curvature
        _require_regular(np.asarray(np.linalg.eigvals(left).real, dtype=np.float64))
        return np.asarray(-sign * np.linalg.solve(left, inverse @ gradient), dtype=np.float64)
    step = inverse @ gradient
    if method == "second-order":
        step = step - sign * inverse @ (curvature @ step)
    move: FloatArray = -sign * step
    return move


def model_name(theta: FloatArray, n_records: int) -> str:
    """Return a hash of a version of the model."""
    text = np.ascontiguousarray(theta, dtype="<f8").tobytes() + str(n_records).encode()
    return hashlib.sha256(text).hexdigest()[:32]


def as_vector(value: object, *, name: str, length: int | None = None) -> FloatArray:
    """Return finite numbers in a row, as many as expected."""
    vector = np.asarray(value)
    if vector.dtype.kind not in "iuf" or vector.ndim != 1 or not len(vector):
        raise InputError(
            argument=name,
            expected="numbers in one row",
            got=f"an array of type {vector.dtype} and shape {vector.shape}",
        )
    if length is not None and len(vector) != length:
        raise InputError(argument=name, expected=f"{length} numbers", got=str(len(vector)))
    if not np.isfinite(vector).all():
        raise InputError(argument=name, expected="finite numbers", got="some that are not")
    return vector.astype(np.float64)


def as_records(X: object, y: object, loss: Loss, *, n_parameters: int) -> tuple[Design, FloatArray]:
    """Return features and labels as the model of so many parameters sees them."""
    matrix = np.asarray(X, dtype=np.float64)
    n_columns = n_parameters // loss.n_outputs
    if matrix.ndim != 2 or matrix.shape[1] * loss.n_outputs != n_parameters or not len(matrix):
        raise InputError(
            argument="X",
            expected=f"records of {n_columns} columns, the model's, intercept included",
            got=f"an array of shape {matrix.shape}",
        )
    if not np.isfinite(matrix).all():
        raise InputError(
            argument="X",
            expected="finite numbers",
            got="some that are not",
            hint="Leave those records out.",
        )
    labels = as_vector(y, name="y", length=len(matrix))
    if not loss.is_quadratic:
        n_classes = max(loss.n_outputs, 2)
        wrong = int(np.count_nonzero(~np.isin(labels, np.arange(n_classes))))
        if wrong:
            raise InputError(
                f"{setting('y')} must be codes from 0 to {n_classes - 1}, but {wrong} of "
                f"{len(labels)} are not."
            )
    return Design.plain(matrix), labels


def _records(
    model: ModelForProvider, X: object, y: object, loss: Loss, change: str, method: str
) -> tuple[Design, FloatArray]:
    as_choice(change, get_args(Change), name="change")
    as_choice(method, get_args(MoveMethod), name="method")
    return as_records(X, y, loss, n_parameters=model.n_parameters)


def _require_regular(left_over: FloatArray) -> None:
    """Refuse to take away records without which a direction of the model is not decided.

    `left_over` are the shares of the curvature that stay, in every direction.
    """
    if not (left_over > ALONE).all():
        raise EstimateNotTrustworthyError(
            "without these records the model has no finite optimum. Train with a penalty, or offer "
            "fewer records."
        )


# --- What a tester measures with: the gradient and the Hessian of the mean loss on its own records ---


def n_coefficients(n_parameters: int) -> int:
    """Return p(p + 3)/2: so many pairs of a move and its score determine a yardstick.

    Parameters
    ----------
    n_parameters : int
        p, numbers in the model.

    Returns
    -------
    int

    Examples
    --------
    >>> n_coefficients(30)
    495
    """
    return n_parameters * (n_parameters + 3) // 2


@dataclass(frozen=True, repr=False)  # printed, it would leave the tester
class Yardstick:
    """Gradient and Hessian of the mean test loss at the present model; they stay with the tester.

    Attributes
    ----------
    gradient : array of shape (p,)
    hessian : array of shape (p, p)
    n_records : int
        Test records.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import LogisticLoss
    >>> model = ModelForTester(np.zeros(1), np.ones(1), n_records=100)
    >>> stick = Yardstick.of(model, np.ones((4, 1)), np.array([1.0, 1.0, 1.0, 0.0]), LogisticLoss())
    >>> stick.worth(np.array([[0.1]]))
    array([0.02375])
    """

    gradient: FloatArray
    hessian: FloatArray
    n_records: int

    def __post_init__(self) -> None:
        gradient = as_vector(self.gradient, name="gradient")
        hessian, p = np.asarray(self.hessian, dtype=np.float64), len(gradient)
        if hessian.shape != (p, p) or not np.isfinite(hessian).all():
            raise InputError(
                argument="hessian",
                expected=f"{p} × {p} finite numbers",
                got=f"an array of shape {hessian.shape}",
            )
        object.__setattr__(self, "gradient", gradient)
        object.__setattr__(self, "hessian", 0.5 * (hessian + hessian.T))

    @classmethod
    def of(cls, model: ModelForTester, X: FloatArray, y: FloatArray, loss: Loss) -> Self:
        """Measure a model on the tester's records.

        Parameters
        ----------
        model : ModelForTester
        X : array of shape (t, d)
            Features as the model sees them, the constant column of an intercept included.
        y : array of shape (t,)
            Labels as the loss takes them.
        loss : Loss
        """
        design, labels = as_records(X, y, loss, n_parameters=len(model.theta))
        predictor, n = design.predict(model.theta), len(labels)
        hessian = design.gram(loss.curvature(predictor)) / n
        gradient = design.pull(loss.slope(predictor, labels)) / n
        return cls(gradient, hessian, n)

    @property
    def n_parameters(self) -> int:
        """Numbers in the model."""
        return len(self.gradient)

    def worth(self, moves: FloatArray, *, change: Change = "add") -> FloatArray:
        """Return what moves of the model (m, p) are worth: (m,); positive helps."""
        as_choice(change, get_args(Change), name="change")
        bend = np.einsum("mp,pq,mq->m", moves, self.hessian, moves, optimize=True)
        worth: FloatArray = -SIGN[change] * (moves @ self.gradient + 0.5 * bend)
        return worth
