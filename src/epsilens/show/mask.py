# SPDX-License-Identifier: Apache-2.0
"""A mask: its table, its sentences, and the charts of what every feature does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsilens._validate import as_count
from epsilens.document import MaskDocument
from epsilens.errors import InputError
from epsilens.show.look import (
    ACCENT,
    DASHES,
    FONT,
    INK,
    dressed,
    folded,
    panel_title,
    subtitle,
    value_axis,
)

if TYPE_CHECKING:
    import altair as alt


_QUIET = "#6b7280"
_MOST_NAMED = 20
"""With more features than this only the masked ones are named, and only so many."""


def mask_chart(document: MaskDocument, *, width: int = 560, height: int = 300) -> alt.VConcatChart:
    """Draw every feature by what it does for the task and for recognising people, and the curve of α.

    Above, a point is a feature: the further right, the more it identifies; the further up, the more it
    serves the task. Crosses are masked. Below stands what models reach without the masked
    features as α grows.

    Parameters
    ----------
    document : MaskDocument
    width, height : int
        Size of the upper plot in pixels.

    Returns
    -------
    altair.VConcatChart
        A Vega-Lite chart; it shows itself in a notebook.

    Raises
    ------
    InputError
        If the document has no features.

    Examples
    --------
    >>> from epsilens.document import MaskFeature, example_document
    >>> features = [MaskFeature(name="gait", utility=0.1, privacy=2.0, kept_share=0.0),
    ...             MaskFeature(name="speed", utility=1.0, privacy=0.1, kept_share=1.0)]
    >>> chart = mask_chart(example_document("mask", kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.9, privacy_kept=0.1, solver="exact",
    ...     features=features))
    >>> chart.to_dict()["title"]["text"]
    'Which features identify, and which serve the task'
    """
    import altair as alt

    if not document.features:
        raise InputError("the document has no features to draw.")
    panels: list[Any] = [_features(alt, document, width, height)]
    if document.curve:
        panels.append(_curve(alt, document, width, height * 2 // 3))
    # Letters of a title are larger than those that `folded` counts with.
    title = folded(["Which features identify, and which serve the task"], 0.73 * width)
    chart = alt.vconcat(*panels, spacing=28).properties(
        title=alt.TitleParams(
            text=title if len(title) > 1 else title[0],
            subtitle=subtitle(
                [
                    f"{len(document.masked):,} of {len(document.features):,} "
                    f"masked at α = {document.alpha:g}; importances estimated by "
                    f"{document.provenance.method.upper()}",
                    "accuracies measured on test records, by training again without the masked "
                    "features",
                ],
                width,
            ),
        )
    )
    finished: alt.VConcatChart = dressed(chart, title_offset=16).resolve_scale(
        color="independent", shape="independent", strokeDash="independent"
    )
    return finished


def mask_picture(
    parts: Mapping[str, ArrayLike], *, shape: tuple[int, int], width: int = 200
) -> alt.HConcatChart:
    """Draw importances and masks of pixels as the pictures that they belong to.

    Importances are the darker the larger; of a mask, what is kept is white and what is masked black.

    Parameters
    ----------
    parts : mapping of title to array, (height · width,)
        Importances, or masks with True = kept.
    shape : (height, width)
        Size of the picture, in pixels; features run along its rows.
    width : int
        About how wide each picture is on the page.

    Returns
    -------
    altair.HConcatChart

    Raises
    ------
    InputError
        If a part has not one number for each pixel.

    Examples
    --------
    >>> chart = mask_picture({"kept": [True, False, True, True]}, shape=(2, 2))
    >>> len(chart.to_dict()["hconcat"])
    1
    """
    import altair as alt

    from epsilens.show.offline import offline

    n_rows, n_columns = (as_count(side, name="shape") for side in shape)
    # A whole number of points for every pixel: fractions would leave seams.
    side = max(round(width / n_columns), 1)
    panels = []
    for title, values in parts.items():
        pixels = np.asarray(values)
        if pixels.shape != (n_rows * n_columns,):
            raise InputError(
                f"{title!r} must have one number for each of the {n_rows} × {n_columns} pixels, got "
                f"shape {pixels.shape}."
            )
        is_mask = pixels.dtype == np.bool_
        largest = 1.0 if is_mask else max(float(pixels.max()), 1e-300)
        rows = [
            {"x": int(k % n_columns), "y": int(k // n_columns), "value": float(value) / largest}
            for k, value in enumerate(pixels)
        ]
        colours = ["#111111", "#ffffff"] if is_mask else ["#ffffff", ACCENT]
        scale = alt.Scale(domain=[0, 1], range=colours, interpolate="rgb")
        drawn = (
            alt.Chart(alt.InlineData(values=rows))
            .mark_rect()
            .encode(
                x=alt.X("x:O", axis=None, scale=alt.Scale(padding=0)),
                y=alt.Y("y:O", axis=None, scale=alt.Scale(padding=0)),
                color=alt.Color("value:Q", scale=scale, legend=None),
            )
        )
        right, below = side * n_columns, side * n_rows
        frame = (
            alt.Chart(alt.InlineData(values=[{}]))
            .mark_rect(fillOpacity=0, stroke="#9a9fa8")
            .encode(x=alt.value(0), x2=alt.value(right), y=alt.value(0), y2=alt.value(below))
        )
        panels.append(
            alt.layer(drawn, frame).properties(
                width=right,
                height=below,
                title=panel_title(alt, title, right),
                description=f"{title}: {n_rows} by {n_columns} pixels.",
            )
        )
    chart: alt.HConcatChart = offline(
        alt.hconcat(*panels, spacing=18).resolve_scale(color="independent").configure(font=FONT)
    )
    return chart


def _features(alt: Any, document: MaskDocument, width: int, height: int) -> Any:
    fates = {0.0: "masked", 1.0: "kept"}
    rows = [
        {
            "name": feature.name,
            "utility": feature.utility,
            "privacy": feature.privacy,
            "fate": fates.get(feature.kept_share, "masked for some"),
        }
        for feature in document.features
    ]
    named = rows if len(rows) <= _MOST_NAMED else [row for row in rows if row["fate"] != "kept"]
    named = _apart(sorted(named, key=lambda row: -float(row["privacy"] or 0.0))[:_MOST_NAMED])
    order = ["kept", "masked", "masked for some"]
    drawn = [fate for fate in order if any(row["fate"] == fate for row in rows)]
    looks = {
        "kept": ("circle", _QUIET),
        "masked": ("cross", ACCENT),
        "masked for some": ("diamond", ACCENT),
    }
    legend = alt.Legend()
    points = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(size=70, filled=True, opacity=0.9)
        .encode(
            x=alt.X("privacy:Q", axis=alt.Axis(title="identifies people →", grid=False)),
            y=alt.Y("utility:Q", axis=value_axis(alt, "serves the task →")),
            shape=alt.Shape(
                "fate:N",
                scale=alt.Scale(domain=drawn, range=[looks[fate][0] for fate in drawn]),
                legend=legend,
            ),
            color=alt.Color(
                "fate:N",
                scale=alt.Scale(domain=drawn, range=[looks[fate][1] for fate in drawn]),
                legend=legend,
            ),
            tooltip=[
                alt.Tooltip("name:N", title="feature"),
                alt.Tooltip("utility:Q", format=".3~g"),
                alt.Tooltip("privacy:Q", title="identity", format=".3~g"),
            ],
        )
    )
    names = (
        alt.Chart(alt.InlineData(values=named))
        .mark_text(align="left", dx=8, dy=-6, fontSize=11, color=INK, limit=140)
        .encode(x="privacy:Q", y="utility:Q", text="name:N")
    )
    return alt.layer(points, names).properties(
        width=width,
        height=height,
        title=panel_title(alt, "Importance of each feature", width),
        description=f"{len(rows)} features by importance for the task and for the identity.",
    )


def _apart(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose names would not stand on each other."""
    reach = {
        name: max((abs(float(row[name] or 0.0)) for row in rows), default=0.0) or 1.0
        for name in ("privacy", "utility")
    }
    named: list[dict[str, Any]] = []
    for row in rows:
        near = [
            other
            for other in named
            if abs(other["privacy"] - row["privacy"]) < 0.15 * reach["privacy"]
            and abs(other["utility"] - row["utility"]) < 0.06 * reach["utility"]
        ]
        if not near:
            named.append(row)
    return named


def _curve(alt: Any, document: MaskDocument, width: int, height: int) -> Any:
    tasks = {"the task": "utility_accuracy", "recognising people": "identity_accuracy"}
    order = list(tasks)
    rows = [
        {
            "alpha": point.alpha,
            "task": task,
            "dash": str(order.index(task)),
            "accuracy": getattr(point, name),
        }
        for point in document.curve
        for task, name in tasks.items()
        if getattr(point, name) is not None
    ]
    legend = alt.Legend(symbolOpacity=1)
    colours = alt.Scale(domain=order, range=[ACCENT, _QUIET])
    colour = alt.Color("task:N", scale=colours, legend=legend)
    shapes = alt.Scale(domain=order, range=["circle", "square"])
    shape = alt.Shape("task:N", scale=shapes, legend=legend)
    # A field and names of its own: Vega-Lite merges legends of equal names even when one is
    # switched off, and dashed symbols look torn.
    dashes = alt.Scale(domain=["0", "1"], range=[list(dash) for dash in DASHES[:2]])
    dash = alt.StrokeDash("dash:N", scale=dashes, legend=None)
    x = alt.X(
        "alpha:Q",
        axis=alt.Axis(
            title="α, share of the identifying importance that goes", format="~g", grid=False
        ),
    )
    y = alt.Y(
        "accuracy:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=value_axis(alt, "test accuracy", format=".0%"),
    )
    base = alt.Chart(alt.InlineData(values=rows))
    guesses = [
        {"task": task, "guess": guess}
        for task, guess in zip(
            order, (document.utility_guess, document.identity_guess), strict=True
        )
        if guess is not None
    ]
    floors = (
        alt.Chart(alt.InlineData(values=guesses))
        .mark_rule(strokeDash=[2, 3], opacity=0.7)
        .encode(y="guess:Q", color=colour)
    )
    chosen = (
        alt.Chart(alt.InlineData(values=[{"alpha": document.alpha}]))
        .mark_rule(strokeDash=[6, 4], color=INK)
        .encode(x="alpha:Q")
    )
    return alt.layer(
        floors,
        chosen,
        base.mark_line(size=2.2).encode(x=x, y=y, color=colour, strokeDash=dash),
        base.mark_point(size=45, filled=True, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape
        ),
    ).properties(
        width=width,
        height=height,
        title=panel_title(alt, "What is left as more goes (dotted: guessing)", width),
        description="Test accuracy at the task and at recognising people for each α.",
    )
