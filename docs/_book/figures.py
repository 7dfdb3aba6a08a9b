# SPDX-License-Identifier: Apache-2.0
"""Figures of the reproduction report that the page of benchmarks lacks: P1's as P1 draws them, P4 Fig. 3 and P5 Fig. 5."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt

from epsilens.show import save_chart
from epsilens.show.cost import ACCENT

from .results import Result, Results

_INK, _GREY, _PALE, _GRID = "#3b414c", "#6b7280", "#9a9fa8", "#e6e8ec"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


_SIZES = ("1.00%", "7.44%", "17.11%", "30.00%")
_ESTIMATES = {"paper": "P1's formula", "exact": "exact"}


def against_truth(rows: Mapping[str, Mapping[str, Result]], title: str, subtitle: str) -> Any:
    """Draw the estimate against what retraining shows, a point an ε, as P1 Figs. 1 and 2 do.

    Parameters
    ----------
    rows : mapping
        Of a row's name to its panels: their titles and the results of their groups.
    """
    names = list(_ESTIMATES.values())
    colours = alt.Scale(domain=names, range=[_GREY, ACCENT])
    shapes = alt.Scale(domain=names, range=["cross", "circle"])
    drawn, said = [], []
    for name, panels in rows.items():
        charts = []
        for words, row in panels.items():
            curve = row["curve"]
            points = [
                {"truth": 1000 * truth, "estimate": 1000 * value, "by": by}
                for way, by in _ESTIMATES.items()
                for truth, value in zip(curve["retrained"], curve[way], strict=True)
            ]
            ends = [f(point["truth"] for point in points) for f in (min, max)]
            said.append(
                f"{name} {words}: truth {ends[0]:.3g} to {ends[1]:.3g} thousandths, mean error "
                f"{1000 * row['error']['paper']:.2g} by P1's formula, {1000 * row['error']['exact']:.2g} by exact."
            )
            line = (
                alt.Chart(alt.InlineData(values=[{"truth": end, "estimate": end} for end in ends]))
                .mark_line(color=_PALE, strokeDash=[5, 3])
                .encode(x="truth:Q", y="estimate:Q")
            )
            dots = (
                alt.Chart(alt.InlineData(values=points))
                .mark_point(size=26, opacity=0.85)
                .encode(
                    x=alt.X("truth:Q", axis=alt.Axis(title="retrained", tickCount=4, grid=False)),
                    y=alt.Y(
                        "estimate:Q",
                        axis=alt.Axis(title=None if charts else name or "estimated", tickCount=5),
                    ),
                    color=alt.Color(
                        "by:N", scale=colours, title=None, legend=alt.Legend(orient="top")
                    ),
                    shape=alt.Shape("by:N", scale=shapes, title=None),
                )
            )
            charts.append(
                (line + dots).properties(
                    width=150 if len(panels) > 3 else 215,
                    height=150,
                    title=alt.TitleParams(words, fontWeight="normal"),
                )
            )
        drawn.append(alt.hconcat(*charts, spacing=18).resolve_scale(x="independent"))
    return _finished(alt.vconcat(*drawn, spacing=14), title, subtitle, " ".join(said))


def adult_against_truth(labels: Result, corrected: Result) -> Any:
    """Draw P1 Fig. 1: Adult, without correction and with it."""

    def panels(result: Result) -> dict[str, Result]:
        found = {row["group"]: row for row in result["rows"] if row["block"] == "everybody"}
        return {f"{float(size[:-1]):g} % of everybody": found[size] for size in _SIZES}

    return against_truth(
        {"no correction": panels(labels), "with correction": panels(corrected)},
        "Randomised labels on Adult: the estimate against retraining",
        "Change of the test loss in thousandths of a nat; a point an ε; dashes: the two equal",
    )


def pubcov_against_truth(labels: Result, columns: Result) -> Any:
    """Draw P1 Fig. 2: PubCov, two features, the label, and both."""
    found = {row["block"]: row for row in columns["rows"]}
    label = next(
        row for row in labels["rows"] if (row["block"], row["group"]) == ("labels", "75.00%")
    )
    return against_truth(
        {
            "": {
                "two features": found["features"],
                "the label": label,
                "two features and the label": found["both"],
            }
        },
        "Randomised features and labels on PubCov: the estimate against retraining",
        "Change of the test loss in thousandths of a nat; a point an ε; dashes: the two equal",
    )


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
    save_chart(
        adult_against_truth(results["whatif-adult"], results["whatif-flc"]),
        folder / "whatif-adult-against-truth.svg",
    )
    save_chart(
        pubcov_against_truth(results["whatif-pubcov"], results["whatif-features"]),
        folder / "whatif-pubcov-against-truth.svg",
    )
    save_chart(batch_figure(results["batch-correction"]), folder / "batch-correction.svg")
    save_chart(attack_figure(results["lira"]), folder / "lira.svg")


def _finished(chart: Any, title: str, subtitle: str, said: str) -> Any:
    """Give a chart its title, its words for those who do not see it, and the project's style."""
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
