# SPDX-License-Identifier: Apache-2.0
"""What the noise of one run does to the test records: how far it moves them, and what that costs.

Every number here is a sum over the test records, or their largest, so that pieces of a test set that is
too large for memory can be added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from epsilens._types import FloatArray
from epsilens.models import Design

if TYPE_CHECKING:
    from epsilens.influence.evaluation import Evaluation


def predictor_unit(evaluation: Evaluation, predictor: FloatArray) -> float:
    """Return what a move of the predictor is large or small against.

    Logits have a unit of their own. A squared loss has that of its label, and what was measured in
    years must deserve as much belief as in days: there it is the root mean square residual.

    Parameters
    ----------
    evaluation : Evaluation
    predictor : array of shape (m, K)

    Returns
    -------
    float, greater than 0

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import SquaredLoss
    >>> tested = Evaluation(
    ...     Design.plain(np.eye(2)), np.zeros(2), np.full(2, 0.5), SquaredLoss(), is_classifier=False)
    >>> predictor_unit(tested, np.full((2, 1), 3.0))
    3.0
    """
    if not evaluation.loss.is_quadratic:
        return 1.0
    residual = evaluation.weights @ evaluation.loss.value(predictor, evaluation.y)
    return max(float(np.sqrt(residual)), np.finfo(np.float64).tiny)


def undetermined_loss(
    evaluation: Evaluation, predictor: FloatArray, spread: FloatArray, *, unit: float = 1.0
) -> float:
    """Return the test loss that hangs on records whose predictor one run leaves undetermined.

    A rare category without a penalty has a coefficient that a single flip decides. Few test records
    feel it, so the root mean square stays small, but each may lose much: the sum, over the records
    whose √(xᵀΣx) exceeds a unit, of what a move by that much can add to their loss. A record far on the
    right side loses nothing by it.

    Parameters
    ----------
    evaluation : Evaluation
    predictor : array of shape (m, K)
    spread : array of shape (m, K, K)
        xᵀΣx.
    unit : float
        See `predictor_unit`.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import SquaredLoss
    >>> tested = Evaluation(
    ...     Design.plain(np.eye(2)), np.zeros(2), np.full(2, 0.5), SquaredLoss(), is_classifier=False)
    >>> undetermined_loss(tested, np.zeros((2, 1)), np.array([[[4.0]], [[0.5]]]))
    2.0
    """
    noise = np.sqrt(contrast_variance(spread))
    rows = np.flatnonzero(noise > unit)
    if len(rows) == 0:
        return 0.0
    s, y = predictor[rows], evaluation.y[rows]
    value = evaluation.loss.value
    worst = np.zeros(len(rows))
    for k in range(evaluation.loss.n_outputs):
        step = np.zeros_like(s)
        step[:, k] = noise[rows]
        worst = np.maximum(worst, value(s + step, y) - value(s, y))
        worst = np.maximum(worst, value(s - step, y) - value(s, y))
    return float(evaluation.weights[rows] @ worst)


def contrast_variance(spread: FloatArray) -> FloatArray:
    """Return the largest variance of a logit: of s, or of s_k − s_l for several outputs.

    Parameters
    ----------
    spread : array of shape (n, K, K)
        Covariance of the predictor of every record.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> contrast_variance(np.array([[[2.0]]])), contrast_variance(np.eye(2)[None])
    (array([2.]), array([2.]))
    """
    own = np.einsum("nkk->nk", spread)
    if spread.shape[1] == 1:
        only: FloatArray = np.maximum(own[:, 0], 0.0)
        return only
    between = own[:, :, None] + own[:, None, :] - 2.0 * spread
    largest: FloatArray = np.maximum(between.max(axis=(1, 2)), 0.0)
    return largest


def predictor_noise(
    evaluation: Evaluation, predictor: FloatArray, spread: FloatArray
) -> tuple[float, float]:
    """Return the noise of one run in the test records: the root mean square in units, and `undetermined_loss`.

    Parameters
    ----------
    evaluation : Evaluation
    predictor : array of shape (m, K)
    spread : array of shape (m, K, K)
        xᵀΣx.

    Returns
    -------
    tuple of float

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import SquaredLoss
    >>> tested = Evaluation(
    ...     Design.plain(np.eye(2)), np.zeros(2), np.full(2, 0.5), SquaredLoss(), is_classifier=False)
    >>> predictor_noise(tested, np.full((2, 1), 3.0), np.full((2, 1, 1), 2.25))
    (0.5, 0.0)
    """
    unit = predictor_unit(evaluation, predictor)
    mean = float(np.sqrt(evaluation.weights @ contrast_variance(spread)))
    return mean / unit, undetermined_loss(evaluation, predictor, spread, unit=unit)


@dataclass(frozen=True, repr=False)
class NoiseForms:
    """The covariance xᵀΣx of a record's predictor in many cells, mixed from a few quadratic forms.

    Attributes
    ----------
    forms : list of arrays
        M of shape (K·p, K·p), or roots R of shape (K·p, r) with M = RRᵀ, or the values themselves of
        all records, (m, K, K).
    weights : array of shape (n_cells, n_forms)
    kind : {"matrix", "root", "values"}
    """

    forms: list[FloatArray]
    weights: FloatArray
    kind: Literal["matrix", "root", "values"] = "matrix"

    @classmethod
    def one_each(
        cls, forms: list[FloatArray], kind: Literal["matrix", "root"] = "matrix"
    ) -> NoiseForms:
        """Give every cell a form of its own."""
        return cls(forms, np.eye(len(forms)), kind)

    def spreads(self, design: Design) -> Iterator[FloatArray]:
        """Yield xᵀΣx of every record, (m, K, K), cell after cell."""
        is_mixed = not np.array_equal(self.weights, np.eye(len(self.forms)))
        shared = [self._of(design, form) for form in self.forms] if is_mixed else None
        for cell, weights in enumerate(self.weights):
            if shared is None:
                yield self._of(design, self.forms[cell])
                continue
            spread = weights[0] * shared[0]
            for weight, form in zip(weights[1:], shared[1:], strict=True):
                spread += weight * form
            yield spread

    def _of(self, design: Design, form: FloatArray) -> FloatArray:
        if self.kind == "values":
            return form
        return design.spread(form) if self.kind == "root" else design.quadratic(form)


@dataclass(frozen=True)
class CellNoise:
    """What the noise of a run does to the test records, cell by cell.

    Attributes
    ----------
    largest : array of shape (n_cells,)
        The largest entry of xᵀΣx.
    variance : array of shape (n_cells,)
        Mean of the variance of a logit; 0 for a squared loss.
    undetermined_loss : array of shape (n_cells,)
        See `undetermined_loss`; 0 for a squared loss.
    bent : array of shape (n_cells,)
        Mean of tr(ψ″ xᵀΣx), twice what the noise adds to the mean loss.
    """

    largest: FloatArray
    variance: FloatArray
    undetermined_loss: FloatArray
    bent: FloatArray

    @property
    def logit_noise(self) -> FloatArray:
        """Root mean square over test records of √(xᵀΣx), (n_cells,); 0 for a squared loss."""
        noise: FloatArray = np.sqrt(self.variance)
        return noise


def cell_noise(evaluation: Evaluation, thetas: FloatArray, noises: NoiseForms) -> CellNoise:
    """Return what randomised labels do to the test records in a run, at every column of θ.

    The optimum of a squared loss moves with its labels in proportion, and the loss is a parabola:
    nothing is expanded there that large noise could make false.

    Parameters
    ----------
    evaluation : Evaluation
    thetas : array of shape (K·p, n_cells), or (K·p, 1) if all cells are judged at one place
    noises : NoiseForms
    """
    n_cells = len(noises.weights)
    result = CellNoise(*np.zeros((4, n_cells)))
    s = evaluation.design.predict(thetas[:, 0])
    curvature = evaluation.loss.curvature(s)
    for cell, spread in enumerate(noises.spreads(evaluation.design)):
        if 0 < cell < thetas.shape[1]:
            s = evaluation.design.predict(thetas[:, cell])
            curvature = evaluation.loss.curvature(s)
        result.largest[cell] = spread.max(initial=0.0)
        if not evaluation.loss.is_quadratic:
            result.variance[cell] = evaluation.weights @ contrast_variance(spread)
            result.undetermined_loss[cell] = undetermined_loss(evaluation, s, spread)
        result.bent[cell] = np.einsum("i,ikl,ikl->", evaluation.weights, curvature, spread)
    return result
