# SPDX-License-Identifier: Apache-2.0
"""A line from cheap estimates to the truth, fitted on a few retrainings (P1 V-E).

Where `exact` is out of reach, as for a whole network, first-order estimates may be off and yet rank the ε
well. Retraining at a few ε then gives the line that leads from estimate to truth, with its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from epsilens.data.frames import like, to_pandas
from epsilens.errors import InputError
from epsilens.whatif.result import LossChangeEstimate, cells_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Calibration", "fit_calibration"]

FEWEST_CELLS = 3


@dataclass(frozen=True)
class Calibration:
    """The line truth ≈ intercept + slope × estimate.

    Attributes
    ----------
    slope, intercept : float
    residual_sd : float
        Of single cells around the line, retraining noise included.
    correlation : float
        Of estimates and truths at the calibrated cells.
    n_cells : int
        How many cells the line is fitted on.
    mean_estimate, spread : float
        Of the calibrated estimates: how far a new one lies from them widens its interval.
    method : str
        The rung that was calibrated.
    protect : tuple of str
        The columns it was asked about.
    """

    slope: float
    intercept: float
    residual_sd: float
    correlation: float
    n_cells: int
    mean_estimate: float
    spread: float
    method: str
    protect: tuple[str, ...]

    def apply(self, estimate: LossChangeEstimate) -> object:
        """Return the calibrated changes of other cells, with 90 % intervals.

        Parameters
        ----------
        estimate : LossChangeEstimate
            Of the same rung that was calibrated.

        Returns
        -------
        frame
            group, epsilon, loss_change, loss_change_low, loss_change_high; typed as estimated.
        """
        method, protect = _question_of(estimate)
        if (method, protect) != (self.method, self.protect):
            raise InputError(
                f"the line is for method={self.method!r} and protect={list(self.protect)!r}; the "
                f"estimate is of method={method!r} and protect={list(protect)!r}. Calibrate that."
            )
        frame: pd.DataFrame = cells_frame(estimate.document)
        given = frame["loss_change"].to_numpy(dtype=np.float64)
        centre = self.intercept + self.slope * given
        far = (given - self.mean_estimate) ** 2 / self.spread
        width = student.ppf(0.95, self.n_cells - 2) * self.residual_sd
        half = width * np.sqrt(1.0 + 1.0 / self.n_cells + far)
        result = frame[["group", "epsilon"]].assign(
            loss_change=centre, loss_change_low=centre - half, loss_change_high=centre + half
        )
        return like(result, estimate.template)


def fit_calibration(estimate: LossChangeEstimate, truth: object) -> Calibration:
    """Fit the line on cells that were both estimated and retrained.

    Parameters
    ----------
    estimate : LossChangeEstimate
    truth : LossChangeEstimate or frame
        With the same groups and ε. A frame has the columns epsilon (per record), loss_change and,
        for several groups, group.
    """
    cells = _cells_by_budget(estimate)
    if isinstance(truth, LossChangeEstimate):
        found = _cells_by_budget(truth)[["group", "budget", "loss_change"]]
    else:
        found = _read_truth(truth, cells["group"].unique().tolist())
    both = cells.merge(found, on=["group", "budget"], suffixes=("", "_truth"))
    if len(both) < FEWEST_CELLS:
        raise InputError(
            f"a line needs at least {FEWEST_CELLS} cells that were retrained, got {len(both)}. Ask "
            "for more values of epsilon, or more groups."
        )
    x = both["loss_change"].to_numpy(dtype=np.float64)
    y = both["loss_change_truth"].to_numpy(dtype=np.float64)
    spread = float(np.sum((x - x.mean()) ** 2))
    if not spread > 0:
        raise InputError("all estimates are equal: there is no line through one point.")
    slope = float(np.sum((x - x.mean()) * (y - y.mean())) / spread)
    intercept = float(y.mean() - slope * x.mean())
    residuals = y - intercept - slope * x
    return Calibration(
        slope=slope,
        intercept=intercept,
        residual_sd=float(np.sqrt(np.sum(residuals**2) / (len(x) - 2))),
        correlation=float(np.corrcoef(x, y)[0, 1]),
        n_cells=len(x),
        mean_estimate=float(x.mean()),
        spread=spread,
        method=_question_of(estimate)[0],
        protect=_question_of(estimate)[1],
    )


def _cells_by_budget(estimate: LossChangeEstimate) -> pd.DataFrame:
    """Return the cells with the budget that tells them apart: of a record, or of its column if infinite."""
    cells = cells_frame(estimate.document)
    record = cells["record_epsilon"]
    own = cells["epsilon"].fillna(record)
    return cells.assign(budget=record.where(np.isfinite(record), own))


def _read_truth(truth: object, groups: list[str]) -> pd.DataFrame:
    """Return the mean change of every cell of a frame, by group and ε."""
    frame = to_pandas(truth)
    needed = ["epsilon", "loss_change", *(["group"] if len(groups) > 1 else [])]
    lacking = [name for name in needed if name not in frame.columns]
    if lacking:
        raise InputError(
            f"`truth` must have the columns {', '.join(needed)}, but lacks {', '.join(lacking)}. One row "
            "per model that was trained again."
        )
    numbers = frame[["epsilon", "loss_change"]].to_numpy()
    if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers[:, 1]).all():
        raise InputError(
            "`truth` must hold finite numbers as loss_change and numbers as epsilon. Leave out runs that "
            "failed."
        )
    if "group" not in frame.columns:
        frame = frame.assign(group=groups[0])
    means = frame.groupby(["group", "epsilon"])["loss_change"].mean().reset_index()
    named: pd.DataFrame = means.set_axis(["group", "budget", "loss_change"], axis=1)
    return named.astype({"budget": "float64"})


def _question_of(estimate: LossChangeEstimate) -> tuple[str, tuple[str, ...]]:
    provenance = estimate.document.provenance
    protect = provenance.settings.get("protect", [])
    names = protect if isinstance(protect, list) else [protect]
    return provenance.method, tuple(str(name) for name in names)
