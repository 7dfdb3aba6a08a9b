# SPDX-License-Identifier: Apache-2.0
"""The cost of ε drawn with matplotlib, for papers and for figures of one's own."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Self

from epsilens._validate import require_extra
from epsilens.document import NumberType, WhatIfDocument, cost_type, group_names
from epsilens.errors import InputTypeError
from epsilens.show.plotted import (
    DASHES,
    SHADES,
    TITLE,
    budget_limits,
    budget_ticks,
    change_limits,
    plotted_rows,
    tolerance_for,
)
from epsilens.show.words import (
    Outcome,
    budget_title,
    change_title,
    group_label,
    subtitle_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.typing import LineStyleType

    from epsilens.whatif import LossChangeEstimate

__all__ = ["CostDisplay"]

# The shapes of the other charts, in the same order.
_MARKERS = ("o", "s", "^", "D", "v", "P")
_INK, _QUIET, _GRID = "#3b414c", "#5b6270", "#e6e8ec"
_COLUMNS = ("group", "epsilon", "change", "low", "high")
_SMALL = 9.0
# So many points is a letter of the small size wide, on average.
_LETTER = 0.5 * _SMALL
# Below so many points of width the title of the axis would run into the words at its ends.
_NARROW = 320.0


class CostDisplay:
    """What each privacy budget would cost, drawn with matplotlib.

    The horizontal axis is the privacy budget on a logarithmic scale: more privacy to the left, more
    accuracy to the right. Each group has its line, its dash and its marker; the band around the
    line holds nine of ten real runs. Where an estimate failed its checks there is a gap. The title
    says whether the numbers are estimated or measured.

    It is made by `from_estimate` or `from_document`; making one by hand needs the numbers ready.

    Parameters
    ----------
    numbers : pandas.DataFrame
        The numbers to draw: group, epsilon in (0, inf), change (missing where the checks failed),
        low and high (missing without an interval).
    groups : sequence of str
        Every group of the result in its order. A group keeps its look in every outcome, also where
        another one has no numbers.
    outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards.
    number_type : {"estimated", "measured", "proven"}
        What kind of numbers these are.
    budget_label : str
        Title of the horizontal axis.
    change_label : str
        Title of the vertical axis, with its unit.
    notes : sequence of str
        What stands under the title, a sentence each.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it is drawn.
    figure_ : matplotlib.figure.Figure or SubFigure
        The figure it is drawn in.
    lines_ : dict of str to matplotlib.lines.Line2D
        The line of each group with its markers.
    bands_ : dict of str to matplotlib.collections.Collection
        The interval of each group that has one: a band, or a bar when there is one budget.
    rule_ : matplotlib.lines.Line2D or None
        The dashed line of the accepted loss.
    legend_ : matplotlib.legend.Legend or None
        The names of the groups, where there is more than one.

    See Also
    --------
    epsilens.show.cost_chart : The same picture as a Vega-Lite chart.

    Notes
    -----
    Needs matplotlib: `pip install "epsilens[plot]"`. Nothing is shown on the screen by itself; in
    a program call `matplotlib.pyplot.show()` or `display.figure_.savefig(...)`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02 / epsilon) for epsilon in (0.5, 1.0, 2.0)]
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=cells)
    >>> display = CostDisplay.from_document(document).plot(max_loss_increase=0.03)
    >>> display.ax_.get_title(loc="left")
    'What a privacy budget costs (estimated)'
    >>> matplotlib.pyplot.close(display.figure_)
    """

    ax_: Axes
    figure_: Figure | SubFigure
    lines_: dict[str, Line2D]
    bands_: dict[str, Collection]
    rule_: Line2D | None
    legend_: Legend | None

    def __init__(
        self,
        numbers: pd.DataFrame,
        *,
        groups: Sequence[str],
        outcome: Outcome,
        number_type: NumberType,
        budget_label: str,
        change_label: str,
        notes: Sequence[str] = (),
    ) -> None:
        self.numbers = numbers
        self.groups = groups
        self.outcome = outcome
        self.number_type = number_type
        self.budget_label = budget_label
        self.change_label = change_label
        self.notes = notes

    @classmethod
    def from_document(cls, document: WhatIfDocument, *, outcome: Outcome = "loss") -> Self:
        """Take the numbers of a what-if document, for instance one read from a file.

        Parameters
        ----------
        document : WhatIfDocument
            The what-if to draw.
        outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
            What is drawn upwards. Accuracies and their gaps are drawn in percentage points.

        Returns
        -------
        CostDisplay
            Ready to be plotted; nothing is drawn yet.

        Raises
        ------
        InputError
            If there is nothing to draw on a logarithmic axis, or the outcome has no numbers.

        Examples
        --------
        >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
        >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25,
        ...                  n_parameters=3)
        >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
        ...                   loss_change=0.02, accuracy_change=-0.01)
        >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
        ...                           cells=[cell])
        >>> CostDisplay.from_document(document, outcome="accuracy").change_label
        'change of accuracy (percentage points)'
        """
        import pandas as pd

        if not isinstance(document, WhatIfDocument):
            raise InputTypeError(
                f"`document` must be a WhatIfDocument, got {type(document).__name__}. "
                "A result has one as `.document`; a file is read by `epsilens.document.load_document`."
            )
        rows, aside = plotted_rows(document, outcome)
        numbers = pd.DataFrame(rows, columns=list(_COLUMNS))
        return cls(
            numbers.astype(dict.fromkeys(("epsilon", "change", "low", "high"), "float64")),
            groups=group_names(document),
            outcome=outcome,
            number_type=cost_type(document),
            budget_label=budget_title(document),
            change_label=change_title(document, outcome),
            notes=subtitle_lines(document, rows, aside, outcome=outcome),
        )

    @classmethod
    def from_estimate(cls, estimate: LossChangeEstimate, *, outcome: Outcome = "loss") -> Self:
        """Take the numbers of a result, estimated or retrained.

        Parameters
        ----------
        estimate : LossChangeEstimate
            What `WhatIf.estimate` or `WhatIf.retrain` gave.
        outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
            What is drawn upwards. Accuracies and their gaps are drawn in percentage points.

        Returns
        -------
        CostDisplay
            Ready to be plotted; nothing is drawn yet.

        Raises
        ------
        InputError
            If there is nothing to draw on a logarithmic axis, or the outcome has no numbers.

        Examples
        --------
        >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
        >>> from epsilens.whatif import LossChangeEstimate
        >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25,
        ...                  n_parameters=3)
        >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
        ...                   loss_change=0.02)
        >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
        ...                           cells=[cell])
        >>> CostDisplay.from_estimate(LossChangeEstimate(document, loss_draws=())).number_type
        'estimated'
        """
        document = getattr(estimate, "document", None)
        if not isinstance(document, WhatIfDocument):
            raise InputTypeError(
                f"`estimate` must be a LossChangeEstimate, got {type(estimate).__name__}. "
                "A study gives one by `.estimate(...)` or `.retrain(...)`."
            )
        return cls.from_document(document, outcome=outcome)

    def frame(self) -> pd.DataFrame:
        """Return the plotted numbers, one row for each marker.

        Returns
        -------
        pandas.DataFrame
            group, epsilon, change, low and high, in the units of the axes: accuracies and their gaps
            in percentage points. It is a copy.

        Examples
        --------
        >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
        >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25,
        ...                  n_parameters=3)
        >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
        ...                   loss_change=0.02)
        >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
        ...                           cells=[cell])
        >>> CostDisplay.from_document(document).frame()["change"].tolist()
        [0.02]
        """
        return self.numbers.copy()

    def plot(self, ax: Axes | None = None, *, max_loss_increase: float | None = None) -> Self:
        """Draw the cost of every budget.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default. Its limits, labels and title are set.
        max_loss_increase : float, optional
            The largest increase of the loss that can be borne, drawn as a dashed line.

        Returns
        -------
        CostDisplay
            Itself, with its artists.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed; the message has the command that installs it.
        InputError
            If `max_loss_increase` is given for another outcome than the loss.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
        >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25,
        ...                  n_parameters=3)
        >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon,
        ...                     method="exact", loss_change=0.02 / epsilon)
        ...          for epsilon in (0.5, 1.0, 2.0)]
        >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
        ...                           cells=cells)
        >>> display = CostDisplay.from_document(document).plot()
        >>> display.ax_.get_xscale(), list(display.lines_)
        ('log', ['all'])
        >>> matplotlib.pyplot.close(display.figure_)
        """
        tolerance = tolerance_for(self.outcome, max_loss_increase)
        require_extra("plot", "a display", "matplotlib")
        from matplotlib.ticker import NullLocator

        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")

        self.ax_, self.figure_ = ax, ax.figure
        self.lines_, self.bands_ = {}, {}
        self.rule_ = self.legend_ = None

        drawn = self.numbers[["change", "low", "high"]].to_numpy().ravel().tolist()
        budgets = self.numbers["epsilon"]
        ax.set_xscale("log")
        ticks = budget_ticks(budgets.min(), budgets.max())
        ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(budget_limits(budgets.min(), budgets.max()))
        ax.set_ylim(change_limits(drawn, tolerance))
        ax.axhline(0.0, color="#9a9fa8", linewidth=0.8, zorder=1)

        names = list(dict.fromkeys(self.numbers["group"]))
        for number, name in enumerate(names):
            self._draw_group(ax, name, aside_by=number - (len(names) - 1) / 2)
        if tolerance is not None:
            self._draw_tolerance(ax, tolerance)
        if len(names) > 1:
            self._draw_legend(ax, names)
        self._label(ax)
        return self

    def _draw_group(self, ax: Axes, name: str, *, aside_by: float) -> None:
        """Draw the band, the line and the markers of one group."""
        place = list(self.groups).index(name)
        shade = SHADES[place % len(SHADES)]
        dash = DASHES[place % len(DASHES)]
        style: LineStyleType = "solid" if dash[-1] == 0 else (0, dash)
        marker = _MARKERS[place % len(_MARKERS)]
        mine = self.numbers[self.numbers["group"] == name].sort_values("epsilon")
        x, y = mine["epsilon"].to_numpy(), mine["change"].to_numpy()
        low, high = mine["low"].to_numpy(), mine["high"].to_numpy()
        alone = self.numbers["epsilon"].nunique() == 1
        size = 7.0 if alone else 4.5
        if alone:
            # Bars side by side: on a logarithmic axis, aside is a factor.
            x = x * 1.08**aside_by
        if mine["low"].notna().any():
            if alone:
                self.bands_[name] = ax.vlines(
                    x, low, high, color=shade, linestyle=style, linewidth=1.8, zorder=2
                )
            else:
                self.bands_[name] = ax.fill_between(
                    x, low, high, color=shade, alpha=0.15, linewidth=0, zorder=2
                )
        (self.lines_[name],) = ax.plot(
            x,
            y,
            color=shade,
            linestyle=style,
            linewidth=1.6,
            marker=marker,
            markersize=size,
            label=name,
            zorder=3,
        )

    def _draw_tolerance(self, ax: Axes, tolerance: float) -> None:
        self.rule_ = ax.axhline(tolerance, color=_INK, linestyle=(0, (6, 4)), linewidth=1.0)
        ax.annotate(
            f"accepted: {tolerance:g}",
            xy=(1.0, tolerance),
            xycoords=("axes fraction", "data"),
            xytext=(-2.0, 3.0),
            textcoords="offset points",
            horizontalalignment="right",
            verticalalignment="bottom",
            fontsize=_SMALL,
            color=_INK,
        )

    def _draw_legend(self, ax: Axes, names: list[str]) -> None:
        # Names come from the data: one that begins with "_" would be left out of the legend, and
        # "$" would be read as mathematics. So the legend is made with numbers and then renamed.
        handles = [self.lines_[name] for name in names]
        numbered = [str(number) for number in range(len(names))]
        self.legend_ = ax.legend(handles, numbered, frameon=False, handlelength=3.2)
        for text, name in zip(self.legend_.get_texts(), names, strict=True):
            text.set_parse_math(False)
            text.set_text(group_label(name))

    def _label(self, ax: Axes) -> None:
        """Write the titles, the notes and the words at the ends of the axis."""
        width = ax.get_window_extent().width * 72.0 / ax.figure.dpi
        letters = max(24, int(width / _LETTER))
        narrow = width < _NARROW
        # A sentence a line where there is room, else running on.
        notes = [" ".join(self.notes)] if narrow else self.notes
        lines = [line for note in notes for line in textwrap.wrap(note, letters)]
        ax.annotate(
            "\n".join(lines),
            xy=(0.0, 1.0),
            xycoords="axes fraction",
            xytext=(0.0, 7.0),
            textcoords="offset points",
            verticalalignment="bottom",
            fontsize=_SMALL,
            linespacing=1.25,
            color=_QUIET,
        )
        title = textwrap.fill(f"{TITLE} ({self.number_type})", max(20, int(0.7 * letters)))
        ax.set_title(title, loc="left", pad=11.0 + 1.26 * _SMALL * len(lines), fontsize=12.5)
        ax.set_xlabel(self.budget_label, color=_INK, labelpad=16.0 if narrow else 4.0)
        ax.set_ylabel(self.change_label, color=_INK)
        for end, words, side in (
            (0.0, "← more privacy", "left"),
            (1.0, "more accuracy →", "right"),
        ):
            ax.annotate(
                words,
                xy=(end, 0.0),
                xycoords="axes fraction",
                xytext=(0.0, -22.0),
                textcoords="offset points",
                horizontalalignment=side,
                verticalalignment="top",
                fontsize=_SMALL,
                color=_INK,
            )
        ax.grid(visible=True, axis="y", color=_GRID, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
