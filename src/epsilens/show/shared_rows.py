# SPDX-License-Identifier: Apache-2.0
"""The rows that a chart draws, kept once however often the chart is copied."""

from __future__ import annotations

import altair as alt

__all__ = ["SharedRows"]


class SharedRows(alt.InlineData):
    """The rows of a plot.

    Every step in which a chart is put together copies all of it, its rows as well: hundreds of copies
    of the same numbers, in which most of the time of drawing went. These rows are never changed, so
    all the copies hold the same ones.

    Examples
    --------
    >>> chart = alt.Chart(SharedRows(values=[{"x": 1}])).mark_point().encode(x="x:Q")
    >>> chart.copy().data is chart.data
    True
    """

    def __deepcopy__(self, memo: object) -> SharedRows:
        return self
