# SPDX-License-Identifier: Apache-2.0
"""Figures of the benchmarks, from the numbers that stand in benchmarks/results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from epsilens.show import save_chart
from epsilens.show.cost import ACCENT

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
IMAGES = Path(__file__).parent / "images"

_INK, _GREY, _PALE, _GRID = "#3b414c", "#6b7280", "#9a9fa8", "#e6e8ec"
_EXTENT = 34
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SIZES = ("1.00%", "7.44%", "17.11%", "30.00%")


@dataclass(frozen=True)
class Panel:
    """One small chart.

    Attributes
    ----------
    title : str
    curve : sequence of dict
        The points, with the names that `benchmarks/measure.py` writes.
    """

    title: str
    curve: Sequence[Mapping[str, Any]]


def panels_chart(
    rows: Mapping[str, Sequence[Panel]], *, title: str, subtitle: Sequence[str], width: int
) -> alt.VConcatChart:
    """Draw panels in rows: what was measured, what was estimated, and the range of one run.

    Parameters
    ----------
    rows : mapping of a row's name to its panels
    title : str
    subtitle : sequence of str
        One item a line.
    width : int
        Of a panel, in pixels.
    """
    drawn = [
        alt.hconcat(
            *(
                _panel(panel, width=width, name=name if place == 0 else "")
                for place, panel in enumerate(panels)
            ),
            spacing=18,
        )
        for name, panels in rows.items()
    ]
    return (
        alt.vconcat(_legend(), *drawn, spacing=16)
        .properties(
            title=alt.TitleParams(text=title, subtitle=list(subtitle)),
            description=_spoken(title, rows),
            padding={"left": 5, "right": 12, "top": 5, "bottom": 5},
        )
        .configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_title(
            anchor="start",
            fontSize=17,
            fontWeight=600,
            subtitleFontSize=12.5,
            subtitleColor="#5b6270",
            subtitlePadding=6,
            offset=12,
        )
        .configure_axis(
            labelFontSize=11,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor=_GRID,
            domainColor=_PALE,
            tickColor=_PALE,
            labelColor=_INK,
            titleColor=_INK,
        )
    )


def adult_figure(labels: Mapping[str, Any], corrected: Mapping[str, Any]) -> alt.VConcatChart:
    """Draw what P1 Fig. 1 is about: labels of Adult, without and with forward correction."""

    def row(result: Mapping[str, Any]) -> list[Panel]:
        found = {
            row["group"]: _points(row) for row in result["rows"] if row["block"] == "everybody"
        }
        return [
            Panel(f"{float(size[:-1]):g} % of everybody", found[size])
            for size in _SIZES
            if size in found
        ]

    return panels_chart(
        {"no correction": row(labels), "forward correction": row(corrected)},
        title="Randomised labels on Adult: estimated and really retrained",
        subtitle=[
            f"Change of the test loss in thousandths of a nat. n = {labels['n_train']:,}, "
            f"{labels['n_parameters']} parameters, {labels['repeats']} retrainings a point."
        ],
        width=200,
    )


def pubcov_figure(labels: Mapping[str, Any], columns: Mapping[str, Any]) -> alt.VConcatChart:
    """Draw what P1 Fig. 2 is about: features, the label, and both."""
    found = {row["block"]: _points(row) for row in columns["rows"]}
    for row in labels["rows"]:
        if row["block"] == "labels" and row["group"] == "75.00%":
            found["label"] = _points(row)
    names = {"features": "two features", "label": "the label", "both": "two features and the label"}
    return panels_chart(
        {"": [Panel(title, found[name]) for name, title in names.items() if name in found]},
        title="Randomised features and labels on PubCov: estimated and really retrained",
        subtitle=[
            "Change of the test loss in thousandths of a nat; ε is of a record, 75 % of the records. "
            f"n = {columns['n_train']:,}, {columns['repeats']} retrainings a point."
        ],
        width=245,
    )


_AUDIT_LINES = {
    "truth": (_INK, [1, 0]),
    "f-dp, our score": (ACCENT, [1, 0]),
    "jax_privacy f-DP, P3's score": (ACCENT, [2, 3]),
    "(ε, δ), our score": (_GREY, [1, 0]),
    "jax_privacy one-run, P3's score": (_GREY, [2, 3]),
}
_AUDIT_BOUNDS = {
    "f-dp, our score": ("ours", "f-dp"),
    "jax_privacy f-DP, P3's score": ("P3", "jax f-DP"),
    "(ε, δ), our score": ("ours", "approximate"),
    "jax_privacy one-run, P3's score": ("P3", "jax one-run"),
}
_SWEEPS = {"epsilon": "nominal ε", "canaries": "number of canaries m", "dimension": "dimension d"}


def audit_figure(result: Mapping[str, Any]) -> alt.HConcatChart:
    """Draw P3's three figures: what one run proves, over ε, canaries and dimensions."""
    names = list(_AUDIT_LINES)
    colours = alt.Scale(domain=names, range=[_AUDIT_LINES[name][0] for name in names])
    dashes = alt.Scale(domain=names, range=[_AUDIT_LINES[name][1] for name in names])
    drawn = []
    for sweep, title in _SWEEPS.items():
        rows = []
        for point in (point for point in result["points"] if point["sweep"] == sweep):
            means = {(row["scores"], row["bound"]): row["mean"] for row in point["bounds"]}
            values = {name: means[key] for name, key in _AUDIT_BOUNDS.items() if key in means}
            values["truth"] = point["true_epsilon"]
            rows += [
                {"at": point[sweep], "line": name, "epsilon": value}
                for name, value in values.items()
            ]
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X(
                "at:Q",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(
                    title=title, values=sorted({row["at"] for row in rows}), format=",", grid=False
                ),
            ),
            y=alt.Y(
                "epsilon:Q",
                scale=alt.Scale(type="symlog", constant=1),
                axis=alt.Axis(
                    title="ε" if sweep == "epsilon" else None,
                    values=[0, 0.5, 1, 2, 4, 8, 16],
                    format="~g",
                ),
            ),
            color=alt.Color("line:N", scale=colours, title=None, legend=alt.Legend(orient="top")),
            strokeDash=alt.StrokeDash("line:N", scale=dashes, title=None),
        )
        lines = base.mark_line(size=2) + base.mark_point(size=24, filled=True, opacity=1)
        drawn.append(lines.properties(width=210, height=230))
    said = [f"{title}: from {_ends(result, sweep)}." for sweep, title in _SWEEPS.items()]
    return (
        alt.hconcat(*drawn, spacing=22)
        .properties(
            title=alt.TitleParams(
                text="What one run proves of P3's Gaussian sum",
                subtitle="Lower bounds on ε at 95 %; the truth is that of the noise",
            ),
            description="What one run proves of P3's Gaussian sum. " + " ".join(said),
        )
        .configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=17, fontWeight=600, subtitleFontSize=12.5)
        .configure_axis(
            labelFontSize=11.5, titleFontSize=12.5, titleFontWeight="normal", gridColor=_GRID
        )
        .configure_legend(labelFontSize=12, labelLimit=260, columns=3)
    )


def _ends(result: Mapping[str, Any], sweep: str) -> str:
    points = [point for point in result["points"] if point["sweep"] == sweep]
    words = []
    for point in (points[0], points[-1]):
        mean = next(
            row["mean"]
            for row in point["bounds"]
            if (row["scores"], row["bound"]) == ("ours", "f-dp")
        )
        words.append(f"{mean:.2g} (truth {point['true_epsilon']:.3g}) at {point[sweep]:g}")
    return " to ".join(words)


def read_result(name: str) -> dict[str, Any]:
    """Read the numbers of a benchmark."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def _points(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Turn the columns of a curve into its points."""
    names, columns = row["curve"].keys(), row["curve"].values()
    return [dict(zip(names, point, strict=True)) for point in zip(*columns, strict=True)]


def main() -> None:
    """Write the figures into docs/images."""
    import federated_figures

    IMAGES.mkdir(exist_ok=True)
    adult = adult_figure(read_result("whatif-adult"), read_result("whatif-flc"))
    save_chart(adult, IMAGES / "whatif-adult.svg")
    pubcov = pubcov_figure(read_result("whatif-pubcov"), read_result("whatif-features"))
    save_chart(pubcov, IMAGES / "whatif-pubcov.svg")
    save_chart(audit_figure(read_result("one-run")), IMAGES / "one-run.svg")
    federated = read_result("federated")
    save_chart(federated_figures.accuracy_figure(federated), IMAGES / "federated-accuracy.svg")
    save_chart(federated_figures.spread_figure(federated), IMAGES / "federated-spread.svg")


def _panel(panel: Panel, *, width: int, name: str) -> alt.LayerChart:
    values = [_in_thousandths(point) for point in panel.curve]
    base = alt.Chart(alt.InlineData(values=values))
    # The square root gives the small ε, where something happens, the room; a logarithm would give it
    # all to the step from 0.001 to 0.35.
    x = alt.X(
        "epsilon:Q",
        scale=alt.Scale(type="sqrt", domain=[0, 10], nice=False),
        axis=alt.Axis(
            title="← more privacy\u2003ε\u2003more accuracy →",
            values=[0, 0.5, 1, 2, 4, 6, 10],
            format=".2~r",
            grid=False,
            tickSize=4,
        ),
    )
    axis = alt.Axis(
        title=name or None,
        tickCount=4,
        format=".4~r",
        domain=False,
        ticks=False,
        labelPadding=5,
        titlePadding=8,
        minExtent=_EXTENT,
        maxExtent=_EXTENT,
    )
    drawn = [point[field] for point in values for field in ("low", "high", "paper", "exact")]
    drawn += [0.0, *(point[field] for point in values for field in ("below", "above"))]
    room = 0.06 * (max(drawn) - min(drawn))
    limits = alt.Scale(domain=[min(drawn) - room, max(drawn) + room], nice=False, zero=False)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", axis=axis, scale=limits)

    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=_PALE, size=1)
    # At a fixed height: a title would move with the topmost label of the axis.
    heading = alt.Chart(alt.InlineData(values=[{}])).mark_text(
        align="left", baseline="bottom", fontSize=12.5, color=_INK, text=panel.title
    )
    return alt.layer(
        zero.encode(y=y("zero")),
        base.mark_area(color=ACCENT, opacity=0.16).encode(x=x, y=y("low"), y2="high:Q"),
        base.mark_line(color=_GREY, size=1.8, strokeDash=[5, 3]).encode(x=x, y=y("paper")),
        base.mark_line(color=ACCENT, size=2).encode(x=x, y=y("exact")),
        base.mark_rule(color=_INK, size=1).encode(x=x, y=y("below"), y2="above:Q"),
        base.mark_point(color=_INK, fill=_INK, size=13, opacity=1, strokeWidth=0).encode(
            x=x, y=y("retrained")
        ),
        heading.encode(x=alt.value(0), y=alt.value(-12)),
    ).properties(
        width=width,
        height=150,
    )


def _spoken(title: str, rows: Mapping[str, Sequence[Panel]]) -> str:
    """Say what the charts show, for those who do not see them."""
    said = [f"{title}."]
    for name, panels in rows.items():
        for panel in panels:
            said.append(f"{', '.join(filter(None, (name, panel.title)))}:")
            said += [
                f"at ε = {point['epsilon']:.3g} the loss changes by {point['retrained']:.2g}, exact says "
                f"{point['exact']:.2g}, P1's formula {point['paper']:.2g}."
                for point in (panel.curve[0], panel.curve[-1])
            ]
    return " ".join(said)


def _in_thousandths(point: Mapping[str, Any]) -> dict[str, float]:
    """Give the numbers of a point in thousandths of a nat: axes without strings of zeros."""
    error = 2 * point["retrained_standard_error"]
    changes = {name: point[name] for name in ("retrained", "exact", "paper", "low", "high")}
    changes |= {"below": point["retrained"] - error, "above": point["retrained"] + error}
    return {"epsilon": point["epsilon"]} | {name: 1000 * v for name, v in changes.items()}


def _legend() -> alt.LayerChart:
    """Draw the key by hand: a line, a dash, a band and a point each look like what they mean."""
    nothing = alt.Chart(alt.InlineData(values=[{}]))
    middle = alt.value(9)

    def label(x: int, text: str) -> alt.Chart:
        return nothing.mark_text(align="left", fontSize=12.5, color=_INK, text=text).encode(
            x=alt.value(x), y=middle
        )

    def line(x: int, **looks: Any) -> alt.Chart:
        return nothing.mark_rule(**looks).encode(x=alt.value(x), x2=alt.value(x + 26), y=middle)

    return alt.layer(
        nothing.mark_point(color=_INK, fill=_INK, size=16, opacity=1, strokeWidth=0).encode(
            x=alt.value(4), y=middle
        ),
        label(14, "retrained: mean ± 2 standard errors"),
        line(244, color=ACCENT, size=2),
        label(277, "exact"),
        nothing.mark_rect(color=ACCENT, opacity=0.16).encode(
            x=alt.value(330), x2=alt.value(356), y=alt.value(3), y2=alt.value(15)
        ),
        label(363, "9 in 10 single runs"),
        line(496, color=_GREY, size=1.8, strokeDash=[5, 3]),
        label(529, "P1's formula"),
    ).properties(width=640, height=18)


if __name__ == "__main__":
    main()
