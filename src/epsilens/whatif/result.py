# SPDX-License-Identifier: Apache-2.0
"""The answer: what each ε would cost each group, and the most private acceptable ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import t as student

from epsilens._types import FloatArray
from epsilens._validate import as_loss_limit, as_share, require_column
from epsilens.data.frames import Documented, like, to_pandas
from epsilens.document import WhatIfCell, WhatIfDocument
from epsilens.document.wording import (
    EVERYBODY,
    FEWEST_RUNS,
    budget_text,
    epsilon_text,
    group_names,
    own_budget,
)
from epsilens.errors import InputError, setting

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


CELL_COLUMNS = tuple(name for name in WhatIfCell.model_fields if name != "group_epsilons")
INTERVAL_CONFIDENCE = 0.9
_COLUMNS_SHOWN = (
    *("group", "epsilon", "loss_change", "loss_change_low", "loss_change_high"),
    *("accuracy_change", "auc_change", "trusted"),
)
_ROWS_SHOWN = 20


def cells_frame(document: WhatIfDocument) -> pd.DataFrame:
    """Return the cells of a document as a pandas frame, one row per group and ε.

    Where groups were randomised at once, a column for each of them has its ε.
    """
    import pandas as pd

    groups = dict.fromkeys(name for cell in document.cells for name in cell.group_epsilons or ())
    rows = [
        {name: getattr(cell, name) for name in CELL_COLUMNS}
        | {epsilon_column(name): own for name, own in (cell.group_epsilons or {}).items()}
        for cell in document.cells
    ]
    columns = [*CELL_COLUMNS, *map(epsilon_column, groups)]
    frame = pd.DataFrame(rows, columns=columns)
    numbers = [c for c in columns if c not in {"group", "method", "trusted", "number_type"}]
    if frame["number_type"].isna().all():  # one type for all cells
        frame = frame.drop(columns="number_type")
    return frame.astype(dict.fromkeys(numbers, "float64"))


def epsilon_column(group: str) -> str:
    """Return the name of the column that has a group's own ε."""
    return f"epsilon_{group}"


@dataclass(frozen=True)
class Choice:
    """The ε that a rule picks.

    Attributes
    ----------
    epsilon : float or None
        None if no ε of the grid satisfies the rule.
    holds : bool
        Whether the rule holds at the stated confidence, on estimates that can be trusted.
    sentence : str
        The choice in words.
    """

    epsilon: float | None
    holds: bool
    sentence: str


@dataclass(frozen=True, repr=False)
class LossChangeEstimate(Documented):
    """What randomising the protected columns would do, for every group and every ε.

    Attributes
    ----------
    document : WhatIfDocument
        The whole answer; what follows are views of it.
    loss_draws : tuple of arrays
        For every cell the changes of loss that single runs show, in no particular order; empty where the
        document alone is known, such as one that was loaded.
    again : callable or None
        `WhatIf.retrain` with the same question of everybody, where the study is at hand.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon, loss_change_low=0.01 / epsilon,
    ...                     loss_change_high=0.03 / epsilon) for epsilon in (1.0, 2.0)]
    >>> found = LossChangeEstimate(example_document("whatif", cells=cells))
    >>> found.choose(max_loss_increase=0.02).epsilon
    2.0
    """

    document: WhatIfDocument
    loss_draws: tuple[FloatArray, ...] = ()
    template: object = field(default=None, compare=False)
    retrained: pd.DataFrame | None = field(default=None, compare=False)
    again: Callable[..., LossChangeEstimate] | None = field(default=None, compare=False)

    def to_frame(self) -> object:
        """Return one row per group and ε, in the frame library that the data came in."""
        return like(cells_frame(self.document), self.template)

    @property
    def n_fits(self) -> int:
        """Number of models that were trained for this result; 0 for an estimate of a linear model."""
        settings = self.document.provenance.settings
        found = settings.get("n_fits")
        if isinstance(found, int):
            return found
        return 0 if self.retrained is None else len(self.retrained)

    def draws(self) -> object:
        """Return every retrained run: group, epsilon, repeat and the three changes.

        Raises
        ------
        InputError
            If nothing was retrained: an estimate has no runs.
        """
        if self.retrained is None:
            raise InputError(
                "draws() belongs to a retraining, and this result is an estimate. Call "
                "`study.retrain(...)`."
            )
        return like(self.retrained, self.template)

    def intervals(self) -> object:
        """Return the 5–95 % prediction intervals of accuracy, AUC and gaps, one row each."""
        import pandas as pd

        rows = [
            interval.model_dump(exclude={"group_epsilons"})
            | {epsilon_column(name): own for name, own in (interval.group_epsilons or {}).items()}
            for interval in self.document.intervals
        ]
        own = [name for name in cells_frame(self.document) if name not in CELL_COLUMNS]
        columns = ["group", "epsilon", *own, "outcome", "low", "high"]
        return like(pd.DataFrame(rows, columns=columns), self.template)

    def plot(
        self,
        *,
        outcome: Literal["loss", "accuracy", "auc", "loss_gap", "accuracy_gap"] = "loss",
        max_loss_increase: float | None = None,
    ) -> alt.LayerChart:
        """Draw the cost of ε with its interval.

        Parameters
        ----------
        outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
        max_loss_increase : float, optional
            Shown as a dashed line.

        Returns
        -------
        altair.LayerChart
        """
        from epsilens.show import cost_chart

        return cost_chart(self.document, outcome=outcome, max_loss_increase=max_loss_increase)

    def choose(
        self,
        *,
        max_loss_increase: float,
        confidence: float = INTERVAL_CONFIDENCE,
        group: str | None = None,
    ) -> Choice:
        """Choose the most private ε whose loss is acceptable.

        That is the smallest ε of the grid at which the *upper* end of the prediction interval is
        within `max_loss_increase`, there and at every larger ε. An estimate that failed its checks
        is never within it.

        Parameters
        ----------
        max_loss_increase : float
            Acceptable loss: the largest increase of the mean test loss.
        confidence : float in (0, 1)
            Confidence level of the two-sided interval whose upper end is compared.
        group : str, optional
            None: the rule must hold for every group of the result.

        Returns
        -------
        Choice

        Raises
        ------
        InputError
            If the result is of a network whose body was not declared public.
        """
        self.document.require_privacy()
        self.document.require_order()
        limit = as_loss_limit(max_loss_increase)
        level = as_share(confidence, name="confidence")
        wanted = group_names(self.document)
        if group is not None:
            wanted = [require_column(group, wanted, argument="group", what="group")]
        upper: dict[float, float] = {}
        for place, cell in enumerate(self.document.cells):
            if cell.group not in wanted:
                continue
            at = own_budget(cell)
            end = self.upper_end(place, level)
            upper[at] = max(upper.get(at, -np.inf), end if cell.trusted else np.inf)
        grid = sorted(upper)
        chosen = None
        for at in reversed(grid):
            if not upper[at] <= limit:
                break
            chosen = at
        failed = {own_budget(cell) for cell in self.document.cells if not cell.trusted}
        texts = {
            own_budget(cell): budget_text(cell)
            for cell in self.document.cells
            if cell.group_epsilons is not None
        }
        return _choice(chosen, upper, failed, limit, level, wanted, texts, few=self.has_few_runs)

    @property
    def has_few_runs(self) -> bool:
        """Whether fewer models were trained again than an upper end at 95 % takes."""
        if self.retrained is not None:
            return min(map(len, self.loss_draws)) < FEWEST_RUNS
        origin = self.document.provenance
        repeats = origin.settings.get("repeats")
        return origin.method == "retrain" and isinstance(repeats, int) and repeats < FEWEST_RUNS

    def upper_end(self, place: int, confidence: float = INTERVAL_CONFIDENCE) -> float:
        """Return the upper end of a cell's prediction interval.

        Parameters
        ----------
        place : int
            Position of the cell in the document.
        confidence : float in (0, 1)
            Confidence level of the two-sided interval.

        Returns
        -------
        float
            Infinity where no run and no interval is known.
        """
        cell = self.document.cells[place]
        change, high = cell.loss_change, cell.loss_change_high
        if confidence == INTERVAL_CONFIDENCE and high is not None:
            return high
        runs = self.loss_draws[place] if self.loss_draws else ()
        if len(runs):
            if (1.0 - confidence) / 2 * (len(runs) + 1) < 1.0:
                raise InputError(
                    f"{setting('confidence')} of {confidence:g} needs more runs than the "
                    f"{len(runs)} behind each interval. Ask with a larger n_draws (or repeats), "
                    "or for less confidence."
                )
            return float(np.quantile(runs, 0.5 + confidence / 2, method="weibull"))
        if high is not None and change is not None and high == change:
            return high
        return np.inf

    def __repr__(self) -> str:
        cells = self.document.cells
        methods = ", ".join(dict.fromkeys(cell.method for cell in cells))
        names = group_names(self.document)
        return (
            f"LossChangeEstimate({len(cells)} cells: {len(names)} group(s) × "
            f"{len(cells) // max(len(names), 1)} epsilon, method {methods})\n"
            f"{self._baseline_text()}"
            f"{self._shown().to_string(index=False, max_rows=_ROWS_SHOWN, float_format='{:.4g}'.format)}"
        )

    def _baseline_text(self) -> str:
        """Say what the changes are counted from."""
        start = self.document.baseline
        outcomes = {"loss": start.loss, "accuracy": start.accuracy, "AUC": start.auc}
        known = [f"{name} {value:.4g}" for name, value in outcomes.items() if value is not None]
        return f"Without randomising: test {', '.join(known)}. Changes from there:\n"

    def _shown(self) -> pd.DataFrame:
        """Return the columns of the cells that hold something; the loss always."""
        frame = cells_frame(self.document.answered())
        own = [name for name in frame if name not in CELL_COLUMNS]
        frame = frame[["group", *own, *_COLUMNS_SHOWN[1:]]]
        if own:
            return frame.drop(columns="epsilon")
        always = ["group", "epsilon", "loss_change", "trusted"]
        return frame[[name for name in frame if name in always or frame[name].notna().any()]]

    def _repr_html_(self) -> str:
        """Show itself in a notebook: a line that sums up, and a few rows of the grid."""
        from epsilens.show.notebook import whatif_html

        return whatif_html(self.document)


def _choice(
    chosen: float | None,
    upper: dict[float, float],
    failed: set[float],
    limit: float,
    confidence: float,
    groups: list[str],
    texts: dict[float, str],
    *,
    few: bool,
) -> Choice:
    whom = "everyone" if groups == [EVERYBODY] else " and ".join(f"“{name}”" for name in groups)
    if chosen is None:
        sentence = (
            f"No ε of the grid keeps the increase of the test loss within {limit:g} for {whom}"
        )
        nearest = min(upper, key=lambda at: upper[at])
        if upper[nearest] == np.inf:
            sentence += ": no upper end of an estimate is known that passed its checks."
        else:
            sentence += (
                f"; the nearest miss is {texts.get(nearest, f'ε = {epsilon_text(nearest)}')}, where one run may show "
                f"{upper[nearest]:+.3g} (upper end of the {100 * confidence:.4g} % prediction interval)."
            )
        return Choice(epsilon=None, holds=False, sentence=sentence)
    sentence = (
        f"{texts.get(chosen, f'ε = {epsilon_text(chosen)}')} is the most private choice for {whom} within a loss increase of "
        f"{limit:g}. There, and at every larger ε of the grid, a run stays within it (upper end of the "
        f"{100 * confidence:.4g} % prediction interval: {upper[chosen]:+.3g}). No limit on the attack was set."
    )
    if max((at for at in upper if at < chosen), default=None) in failed:
        sentence += " The estimate at the next smaller ε failed its checks."
    if few:
        sentence += f" Fewer than {FEWEST_RUNS} retrainings a cell are too few to be sure."
    return Choice(epsilon=chosen, holds=not few, sentence=sentence)


# --- A line from cheap estimates to the truth, fitted on a few retrainings (P1 V-E) ---

FEWEST_CELLS = 3


@dataclass(frozen=True)
class Calibration:
    """The line truth ≈ intercept + slope × estimate.

    Attributes
    ----------
    slope, intercept : float
    residual_sd : float
        Standard deviation of single cells around the line, retraining noise included.
    correlation : float
        Correlation of estimates and truths at the calibrated cells.
    n_cells : int
        How many cells the line is fitted on.
    mean_estimate, spread : float
        Mean and spread of the calibrated estimates: how far a new one lies from them widens its interval.
    method : str
        The method that was calibrated.
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
            Estimate by the method that was calibrated.

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
            f"{setting('truth')} must have the columns {', '.join(needed)}, but lacks "
            f"{', '.join(lacking)}. One row per model that was trained again."
        )
    numbers = frame[["epsilon", "loss_change"]].to_numpy()
    if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers[:, 1]).all():
        raise InputError(
            f"{setting('truth')} must hold finite numbers as loss_change and numbers as epsilon. "
            "Leave out runs that failed."
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
