# SPDX-License-Identifier: Apache-2.0
"""Figures of the federated benchmark: P2's Fig. 1 and Fig. 2 with ours beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
from benchmark_figures import _FONT, _GREY, _GRID, _INK, _PALE

from epsilens.show.cost import ACCENT

_NAMES = {"income": "Income", "pubcov": "PubCov", "glioma": "Glioma"}
_ACCURACY = {
    "P2, as it prints": (_GREY, [2, 3]),
    "P2's formula, converged": (_PALE, [6, 3]),
    "one message": (ACCENT, [1, 0]),
}
_DISTANCE = {
    "no update": (_PALE, [2, 3]),
    "P2's formula": (_GREY, [6, 3]),
    "one message": (ACCENT, [1, 0]),
    "exact": (_INK, [1, 0]),
}
_KEYS = {"P2's formula": "as printed"}


def accuracy_figure(result: Mapping[str, Any]) -> alt.HConcatChart:
    """Draw P2 Fig. 1: how far the accuracy of the updated model is from the retrained one's."""
    drawn, said = [], []
    for data, penalty in _blocks(result):
        rows = [r for r in _of(result, data, penalty) if r["question"] == "one"]
        points = []
        for row in rows:
            ways = row["against"]["degraded"]["ways"]
            values = {
                "P2, as it prints": row["p2_table_2"][1],
                "P2's formula, converged": ways["as printed"]["aad"][0],
                "one message": ways["one message"]["aad"][0],
            }
            points += [
                {"wanted": row["wanted"], "level": str(row["epsilon"]), "line": line, "aad": value}
                for line, value in values.items()
            ]
        for line in _ACCURACY:
            largest = max(abs(p["aad"]) for p in points if p["line"] == line)
            said.append(f"{_NAMES[data]}, {line}: up to {largest:.2g}.")
        base = alt.Chart(alt.InlineData(values=points)).encode(
            x=alt.X(
                "wanted:Q",
                scale=alt.Scale(type="log", domain=[0.09, 5.5], nice=False),
                axis=alt.Axis(
                    title="new ε′", values=[0.1, 0.5, 1, 2, 3, 5], format="~g", grid=False
                ),
            ),
            y=alt.Y(
                "aad:Q",
                scale=alt.Scale(domain=[-6, 6]),
                axis=alt.Axis(
                    title="accuracy off by, per cent" if not drawn else None, tickCount=6
                ),
            ),
            color=_colour(_ACCURACY),
            strokeDash=_dash(_ACCURACY),
            detail="level:N",
        )
        lines = base.mark_line(size=1.6, clip=True) + base.mark_point(
            size=16, filled=True, opacity=1, clip=True
        )
        drawn.append(
            (_zero(0.0) + lines).properties(width=220, height=210, title=_title(data, penalty))
        )
    return _finished(
        alt.hconcat(*drawn, spacing=20),
        "One client changes its ε: accuracy of the new model less that of retraining",
        "A line for every ε before (∞, 5, 4, 3, 2, 1); nought is right",
        said,
    )


def spread_figure(result: Mapping[str, Any]) -> alt.VConcatChart:
    """Draw P2 Fig. 2: several clients, and one with much of the data."""
    drawn, said = [], []
    for question, title in (
        ("several", "clients that change"),
        ("share", "per cent of all records"),
    ):
        panels = []
        for data, penalty in _blocks(result):
            rows = [r for r in _of(result, data, penalty) if r["question"] == question]
            points = [
                {
                    "at": row["at"],
                    "line": line,
                    "ratio": row["against"]["degraded"]["ways"][_KEYS.get(line, line)]["ratio"][0],
                }
                for row in rows
                for line in _DISTANCE
            ]
            for line in ("P2's formula", "one message"):
                last = [p["ratio"] for p in points if p["line"] == line][-1]
                said.append(f"{_NAMES[data]}, {rows[-1]['at']} {title}, {line}: {last:.2g}.")
            base = alt.Chart(alt.InlineData(values=points)).encode(
                x=alt.X(
                    "at:Q",
                    scale=alt.Scale(nice=False, padding=8),
                    axis=alt.Axis(
                        title=title,
                        values=sorted({p["at"] for p in points}),
                        format="d",
                        grid=False,
                    ),
                ),
                y=alt.Y(
                    "ratio:Q",
                    scale=alt.Scale(type="log", domain=[0.6, 3], nice=False, clamp=True),
                    axis=alt.Axis(
                        title="distance to retraining" if not panels else None,
                        values=[0.71, 1, 1.5, 2, 3],
                        format="~g",
                    ),
                ),
                color=_colour(_DISTANCE),
                strokeDash=_dash(_DISTANCE),
            )
            lines = base.mark_line(size=2) + base.mark_point(size=24, filled=True, opacity=1)
            panels.append(
                (_zero(0.7071) + lines).properties(
                    width=220, height=170, title=_title(data, penalty)
                )
            )
        drawn.append(alt.hconcat(*panels, spacing=20))
    return _finished(
        alt.vconcat(*drawn, spacing=14),
        "From ε = 3 to 1: several clients, and one that holds much of the data",
        "As a multiple of the distance between two retrainings; 0.71 is the least that can be had",
        said,
    )


def _blocks(result: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return each data set once, with the regularisation that it needs."""
    last: dict[str, float] = {}
    for block in result["blocks"].values():
        last[block["data"]] = block["penalty"]
    return list(last.items())


def _of(result: Mapping[str, Any], data: str, penalty: float) -> list[Mapping[str, Any]]:
    return [r for r in result["rows"] if r["data"] == data and r["penalty"] == penalty]


def _title(data: str, penalty: float) -> alt.TitleParams:
    return alt.TitleParams(f"{_NAMES[data]}, λ = {penalty:g}", fontSize=12.5, fontWeight="normal")


def _zero(at: float) -> alt.Chart:
    rule = alt.Chart(alt.InlineData(values=[{"at": at}])).mark_rule(color=_INK, size=0.8)
    return rule.encode(y="at:Q")


def _colour(lines: Mapping[str, tuple[str, list[int]]]) -> alt.Color:
    scale = alt.Scale(domain=list(lines), range=[colour for colour, _ in lines.values()])
    legend = alt.Legend(orient="top", symbolType="stroke", symbolStrokeWidth=2, symbolSize=500)
    return alt.Color("line:N", scale=scale, title=None, legend=legend)


def _dash(lines: Mapping[str, tuple[str, list[int]]]) -> alt.StrokeDash:
    scale = alt.Scale(domain=list(lines), range=[dash for _, dash in lines.values()])
    return alt.StrokeDash("line:N", scale=scale, title=None)


def _finished(chart: Any, title: str, subtitle: str, said: Sequence[str]) -> Any:
    """Give a chart its title, its words for those who do not see it, and the project's style."""
    return (
        chart.properties(
            title=alt.TitleParams(text=title, subtitle=subtitle),
            description=f"{title}. {subtitle}. {' '.join(said)}",
        )
        .configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=17, fontWeight=600, subtitleFontSize=12.5)
        .configure_axis(
            labelFontSize=11.5, titleFontSize=12.5, titleFontWeight="normal", gridColor=_GRID
        )
        .configure_legend(labelFontSize=12, labelLimit=260, columns=4)
    )
