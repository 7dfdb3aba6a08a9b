# SPDX-License-Identifier: Apache-2.0
"""A mask: its table, its sentences, and the charts of what every feature does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsilens._validate import as_count
from epsilens.document import MaskDocument, MaskOutcome, RelaxedEpsilon
from epsilens.errors import InputError
from epsilens.show.look import ACCENT, DASHES, FONT, INK, dressed, panel_title, subtitle, value_axis
from epsilens.show.rounding import format_count, format_epsilon, format_percent
from epsilens.show.terminal import plain_table

if TYPE_CHECKING:
    import altair as alt
    from rich.table import Table

__all__ = [
    "mask_chart",
    "mask_picture",
    "mask_sentences",
    "mask_table",
    "relaxed_sentence",
]

_NAMED = 12
_CLEARLY = 2.0
_FEWEST = 30
"""Explained records below which nothing is said of what need not be masked."""
_MASKINGS = {"none": "nothing masked", "random": "as many at random", "chosen": "chosen mask"}


def mask_table(document: MaskDocument) -> Table:
    """Show what models reach with nothing masked, with as much at random, and with the chosen mask.

    Parameters
    ----------
    document : MaskDocument

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> mask_table(MaskDocument(provenance=Provenance(method="shap"), kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.9, privacy_kept=0.1, solver="exact")).row_count
    0
    """
    note = (
        "±: standard error over test records, at random also over masks. Guessing the most common: "
        f"{format_percent(document.utility_guess)} of the answers, "
        f"{format_percent(document.identity_guess)} of the people."
    )
    title = "Test accuracy without the masked features (measured by training again)"
    table = plain_table(title, notes=[note])
    table.add_column("", no_wrap=True)
    for head in ("features masked", "the task", "recognising people"):
        table.add_column(head, justify="right")
    for row in document.outcomes:
        table.add_row(
            _MASKINGS[row.masking],
            format_count(row.n_masked),
            _with_error(row.utility_accuracy, row.utility_error),
            _with_error(row.identity_accuracy, row.identity_error),
        )
    return table


def mask_sentences(document: MaskDocument) -> list[str]:
    """Say which features go and what that does, in plain words.

    Parameters
    ----------
    document : MaskDocument

    Returns
    -------
    list of str

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> print(mask_sentences(MaskDocument(provenance=Provenance(method="shap"), kept=["speed"],
    ...     masked=["gait"], alpha=0.2, utility_kept=0.97, privacy_kept=0.4, solver="exact"))[0])
    Mask gait (1 of 2 features): 97.0% of the importance for the task is kept, and 40.0% of the
    identifying importance.
    """
    said = [_first(document), *_verdict(document)]
    for measure in ("asr_max", "balanced_accuracy"):
        found = [
            item
            for item in document.relaxed
            if item.measure == measure and item.masking == "chosen"
        ]
        if found:
            said.append(relaxed_sentence(found))
    return said


def relaxed_sentence(relaxed: Sequence[RelaxedEpsilon], *, epsilon: float | None = None) -> str:
    """Say in one sentence whether ε may be larger once features are masked.

    Parameters
    ----------
    relaxed : sequence of RelaxedEpsilon
        Of one masking and one measure, one for each ε.
    epsilon : float, optional
        The ε on all features that is talked of; the middle one unless given.

    Returns
    -------
    str

    Examples
    --------
    >>> found = RelaxedEpsilon(masking="chosen", measure="asr_max", epsilon=1.0, equivalent=3.9,
    ...                        low=0.5, high=8.0, gain="within the noise")
    >>> print(relaxed_sentence([found]))
    Without the masked features ε = 3.9 (0.5 to 8) exposes the most exposed record as much as ε = 1
    does with all of them: the gain is within the noise of the attack, so nothing speaks for a larger
    ε.
    """
    one = relaxed[len(relaxed) // 2]
    if epsilon is not None:
        one = min(relaxed, key=lambda item: abs(math.log((item.epsilon or 1.0) / epsilon)))
    grid = [item.epsilon for item in relaxed if item.epsilon is not None]
    first, last = min(grid, default=None), max(grid, default=None)
    whom = "the most exposed record" if one.measure == "asr_max" else "the mean record"
    which = "the masked features" if one.masking == "chosen" else "as many features at random"
    here = f"ε = {format_epsilon(one.epsilon)}"
    reach = "" if one.low is None else f"{format_epsilon(one.low)} to {format_epsilon(one.high)}"
    if one.equivalent is not None:
        said = (
            f"Without {which} ε = {format_epsilon(one.equivalent)}{reach and f' ({reach})'} exposes {whom} as "
            f"much as {here} does with all of them"
        )
    elif one.gain == "larger":
        said = (
            f"Without {which} even ε = {format_epsilon(last)} exposes {whom} less than {here} does "
            "with all of them, and the grid ends there"
        )
    elif one.gain == "smaller":
        said = (
            f"Without {which} even ε = {format_epsilon(first)} exposes {whom} more than {here} does "
            "with all of them, and the grid ends there"
        )
    else:
        said = (
            f"No ε that was tried exposes {whom} without {which} just as much as {here} does with all of "
            f"them{reach and f' (the noise allows {reach})'}"
        )
    if one.gain == "within the noise" and len(grid) > 1 and (one.low, one.high) == (first, last):
        return f"{said}: this attack cannot tell, for every ε that was tried is within its noise."
    end = {
        "larger": "at the same ε less is exposed without them, by more than the noise of the attack "
        "explains. That is measured with this attack alone; what is proven is the guarantee of the ε that "
        "is really used.",
        "smaller": "without them the exposure is larger, not smaller.",
        "within the noise": "the gain is within the noise of the attack, so nothing speaks for a larger ε.",
    }
    return f"{said}: {end[one.gain]}"


def _first(document: MaskDocument) -> str:
    n_features = len(document.kept) + len(document.masked)
    if not document.masked and 0 < document.n_explained < _FEWEST:
        return (
            f"Too few records to judge: only {format_count(document.n_explained)} were explained, so that none of the "
            f"{format_count(n_features)} features is masked."
        )
    if not document.masked:
        return (
            f"No feature needs to be masked at α = {document.alpha:g}: none of the "
            f"{format_count(n_features)} both identifies and can be spared."
        )
    if not document.kept:
        return (
            f"No feature can be kept at α = {document.alpha:g}: each of the "
            f"{format_count(n_features)} identifies, and none serves the task well enough."
        )
    named = ", ".join(document.masked[:_NAMED])
    if len(document.masked) > _NAMED:
        named = f"{format_count(len(document.masked))} features ({named}, …)"
    who = " for somebody" if document.scope == "identity" else ""
    bound = ""
    if document.solver == "greedy" and document.utility_bound is not None:
        bound = f" (no choice keeps more than {format_percent(document.utility_bound)})"
    elif document.solver == "near-exact":
        bound = " (the most that is possible, to one in a million)"
    return (
        f"Mask {named}{who} ({format_count(len(document.masked))} of {format_count(n_features)} "
        f"features): {format_percent(document.utility_kept)} of the importance for the task is kept{bound}, and "
        f"{format_percent(document.privacy_kept)} of the identifying importance."
    )


def _verdict(document: MaskDocument) -> list[str]:
    rows = {row.masking: row for row in document.outcomes}
    before, after = rows.get("none"), rows.get("chosen")
    if before is None or after is None or not document.masked:
        return []
    task = _change(before, after, "utility")
    people = _change(before, after, "identity")
    said = [
        f"The task goes from {format_percent(before.utility_accuracy)} to {format_percent(after.utility_accuracy)} of "
        f"the test records{task}; recognising people from {format_percent(before.identity_accuracy)} to "
        f"{format_percent(after.identity_accuracy)}{people}."
    ]
    control = rows.get("random")
    if control is not None:
        said.append(
            f"As many features masked at random leave {format_percent(control.utility_accuracy)} at the task and "
            f"{format_percent(control.identity_accuracy)} of the people recognised."
        )
    return said


def _change(before: MaskOutcome, after: MaskOutcome, task: str) -> str:
    """Say so where a change is no larger than its noise."""
    ends = [getattr(row, f"{task}_accuracy") for row in (before, after)]
    error = getattr(after, f"{task}_change_error")
    if None in ends or error is None:
        return ""
    within = abs(ends[1] - ends[0]) <= _CLEARLY * error
    return " (within two standard errors)" if within else ""


def _with_error(value: float | None, error: float | None) -> str:
    return format_percent(value) + ("" if error is None else f" ± {100 * error:.1f}")


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
        Of the upper plot in pixels.

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
    >>> from epsilens.document import MaskFeature, Provenance
    >>> features = [MaskFeature(name="gait", utility=0.1, privacy=2.0, kept_share=0.0),
    ...             MaskFeature(name="speed", utility=1.0, privacy=0.1, kept_share=1.0)]
    >>> chart = mask_chart(MaskDocument(provenance=Provenance(method="shap"), kept=["speed"],
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
    chart = alt.vconcat(*panels, spacing=28).properties(
        title=alt.TitleParams(
            text="Which features identify, and which serve the task",
            subtitle=subtitle(
                [
                    f"{format_count(len(document.masked))} of {format_count(len(document.features))} "
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
        Of the picture, in pixels; features run along its rows.
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
