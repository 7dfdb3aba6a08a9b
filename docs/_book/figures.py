# SPDX-License-Identifier: Apache-2.0
"""Figures of the book that the page of benchmarks lacks: P4 Fig. 3 and P5 Fig. 5 with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from epsilens.display import save_chart
from epsilens.display.charts import ACCENT

from .results import Result, Results

_INK, _GREY, _PALE, _GRID = "#3b414c", "#6b7280", "#9a9fa8", "#e6e8ec"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def batch_figure(result: Result) -> Any:
    """Draw P4 Fig. 3: by how much the sum of single scores overstates a batch."""
    panels = []
    for size in sorted({row["b"] for row in result["rows"]}):
        points = [
            {
                "k": row["k"],
                "expected": row["expected"],
                "measured": row["measured"],
                "low": row["measured"] - 2 * row["standard_error"],
                "high": row["measured"] + 2 * row["standard_error"],
            }
            for row in result["rows"]
            if row["b"] == size
        ]
        base = alt.Chart(alt.InlineData(values=points)).encode(
            x=alt.X("k:Q", axis=alt.Axis(title="batch k", grid=False, tickMinStep=1, tickCount=6))
        )
        limits = alt.Scale(zero=False, nice=False, padding=8)
        line = base.mark_line(color=_GREY, size=1.6, strokeDash=[5, 3]).encode(
            y=alt.Y("expected:Q", scale=limits, axis=alt.Axis(title=None, tickCount=5))
        )
        bars = base.mark_rule(color=_INK).encode(y=alt.Y("low:Q", title=None), y2="high:Q")
        dots = base.mark_point(color=ACCENT, fill=ACCENT, size=18, opacity=1).encode(
            y=alt.Y("measured:Q", title=None)
        )
        panels.append(
            (line + bars + dots).properties(
                width=215, height=190, title=alt.TitleParams(f"b = {size}", fontWeight="normal")
            )
        )
    rows = result["rows"]
    said = f"From {rows[0]['measured']:.3f} to {rows[-1]['measured']:.3f}; expected {rows[0]['expected']:.3f} to {rows[-1]['expected']:.3f}."
    return _finished(
        alt.hconcat(*panels, spacing=22).resolve_scale(y="independent"),
        "The sum of a batch's scores over the fall of the loss",
        "Points: measured, ± 2 standard errors; dashes: D_b(k), P4's formula",
        said,
    )


def attack_figure(result: Result) -> Any:
    """Draw P5 Fig. 5 for its curve without masks: ASR^M over ε, with what chance reaches."""
    panels, said = [], []
    for name in dict.fromkeys(row["name"] for row in result["epsilon"]):
        rows = [
            row for row in result["epsilon"] if row["name"] == name and str(row["place"]) != "inf"
        ]
        points = [
            {
                "epsilon": row["place"],
                "largest": row["asr_max"],
                "floor": row["floor_q95"],
                "least": row["lower_bound"],
                "ceiling": row["ceiling"],
            }
            for row in rows
        ]
        said.append(
            f"{name}: {rows[0]['asr_max']:.3f} at ε = {rows[0]['place']:g}, {rows[-1]['asr_max']:.3f} at "
            f"{rows[-1]['place']:g}, chance {rows[0]['floor_q95']:.3f}."
        )
        base = alt.Chart(alt.InlineData(values=points)).encode(
            x=alt.X(
                "epsilon:Q",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(title="ε", values=[0.5, 1, 2, 4, 10], format="~g", grid=False),
            )
        )
        limits = alt.Scale(domain=[0.45, 0.85], clamp=True)

        def y(field: str, limits: alt.Scale = limits) -> alt.Y:
            return alt.Y(f"{field}:Q", scale=limits, axis=alt.Axis(title=None, tickCount=5))

        panels.append(
            alt.layer(
                base.mark_line(color=_PALE, strokeDash=[2, 3]).encode(y=y("ceiling")),
                base.mark_line(color=_GREY, strokeDash=[6, 3]).encode(y=y("floor")),
                base.mark_rule(color=ACCENT, opacity=0.5).encode(y=y("least"), y2="largest:Q"),
                base.mark_line(color=ACCENT, size=2, point={"color": ACCENT, "size": 24}).encode(
                    y=y("largest")
                ),
            ).properties(width=215, height=170, title=alt.TitleParams(name, fontWeight="normal"))
        )
    rows = [alt.hconcat(*panels[i : i + 3], spacing=22) for i in range(0, len(panels), 3)]
    return _finished(
        alt.vconcat(*rows, spacing=16),
        "The largest success rate of an attack over ε",
        "Line: ASR^M, down to its 95 % lower bound; long dashes: what chance reaches; short dashes: no attack above",
        " ".join(said),
    )


def write(results: Results, folder: Path) -> None:
    """Write the figures."""
    save_chart(batch_figure(results["batch-correction"]), folder / "batch-correction.svg")
    save_chart(attack_figure(results["lira"]), folder / "lira.svg")


def _finished(chart: Any, title: str, subtitle: str, said: str) -> Any:
    """Give a chart its title, its words for those who do not see it, and the house's looks."""
    return (
        chart.properties(
            title=alt.TitleParams(text=title, subtitle=subtitle),
            description=f"{title}. {subtitle}. {said}",
        )
        .configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_title(
            anchor="start", fontSize=15, fontWeight=600, subtitleFontSize=12.5, offset=10
        )
        .configure_axis(
            labelFontSize=11.5, titleFontSize=12.5, titleFontWeight="normal", gridColor=_GRID
        )
    )
