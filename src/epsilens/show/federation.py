# SPDX-License-Identifier: Apache-2.0
"""A federation: tables, sentences, and the chart of what each change did to the shared model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilens.document import FederationDocument, FederationEntry, FederationVersion
from epsilens.document.federation_view import OPERATIONS
from epsilens.document.wording import epsilon_text
from epsilens.errors import InputError
from epsilens.show.look import ACCENT, INK, dressed, subtitle, value_axis

if TYPE_CHECKING:
    import altair as alt


_GREY, _FAINT = "#6b7280", "#e3e6ea"


def levels_by_version(document: FederationDocument) -> list[dict[str, Any]]:
    """Say for every version and site which ε its draw had, and whether it changed there.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    list of dict
        With `version`, `site`, `level` (text) and `changed`; previews, which draw nothing, are left
        out.

    Examples
    --------
    >>> from epsilens.document import FederationVersion, example_document
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0],
    ...     model_epsilon=3.0, model_record_epsilon=3.0, advice="accept", messages=20, bytes=3200)
    >>> line = FederationEntry(site=0, operation="train", mode=None, epsilon=3.0, record_epsilon=3.0,
    ...                        total_epsilon=3.0, private=True)
    >>> levels_by_version(example_document("federation", n_sites=1, versions=[first], ledger=[line]))[0]["level"]
    '3'
    """
    waiting: dict[int, list[FederationEntry]] = {}
    for entry in document.ledger:
        if entry.operation in {"train", "change"}:
            waiting.setdefault(entry.site, []).append(entry)
    now: dict[int, str] = {}
    rows = []
    for version in document.versions:
        if version.operation == "preview":
            continue
        for site in version.sites:
            if version.operation == "remove":
                now[site] = "left"
            elif waiting.get(site):
                now[site] = _entry_level(waiting[site].pop(0))
        rows += [
            {
                "version": version.version,
                "site": f"site {site}",
                "level": level,
                "changed": site in version.sites and version.operation != "train",
            }
            for site, level in sorted(now.items())
        ]
    return rows


def federation_chart(document: FederationDocument, *, width: int = 560) -> alt.VConcatChart:
    """Draw the versions of a model side by side: test loss, how far it moved, and each site's ε.

    Previews are hollow: the model in use did not become them.

    Parameters
    ----------
    document : FederationDocument
    width : int
        In pixels.

    Returns
    -------
    altair.VConcatChart

    Raises
    ------
    InputError
        If there is no version to draw.

    Examples
    --------
    >>> from epsilens.document import FederationVersion, example_document
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0], test_loss=0.5,
    ...     model_epsilon=3.0, model_record_epsilon=3.0, advice="accept", messages=20, bytes=3200)
    >>> chart = federation_chart(example_document("federation", n_sites=1, versions=[first]))
    >>> chart.to_dict()["title"]["text"]
    'How the shared model followed its sites'
    """
    import altair as alt

    if not document.versions:
        raise InputError("the document has no version to draw. Train first.")
    names = {version.version: _name(version) for version in document.versions}
    order = list(names.values())
    x = alt.X("name:N", sort=order, scale=alt.Scale(domain=order, paddingOuter=0.2), axis=None)
    labelled = x.axis(alt.Axis(title=None, labelAngle=0, labelExpr="split(datum.label, '|')"))
    rows = [
        {
            "name": names[version.version],
            "loss": version.test_loss,
            "distance": version.distance_to_previous,
            "error": version.predicted_error,
            "preview": version.operation == "preview",
        }
        for version in document.versions
    ]
    panels: list[Any] = []
    if any(row["loss"] is not None for row in rows):
        panels.append(_losses(alt, rows, x, width))
    if any(row["distance"] is not None for row in rows):
        panels.append(_distances(alt, rows, x, width))
    levels = [{**row, "name": names[row["version"]]} for row in levels_by_version(document)]
    panels.append(_levels(alt, levels, labelled, width, n_sites=document.n_sites))
    said = [
        f"Protected: {', '.join(document.protect)}.",
        "Hollow: a preview, computed before the change and not used.",
    ]
    chart: alt.VConcatChart = dressed(
        alt.vconcat(*panels, spacing=18)
        .resolve_scale(x="shared")
        .properties(
            title=alt.TitleParams(
                text="How the shared model followed its sites", subtitle=subtitle(said, width)
            ),
        ),
        title_offset=14,
    )
    return chart


def _losses(alt: Any, rows: list[dict[str, Any]], x: Any, width: int) -> Any:
    y = alt.Y(
        "loss:Q",
        scale=alt.Scale(zero=False, nice=True, padding=8),
        axis=value_axis(alt, ["test loss", "(nats, measured)"], tickCount=4),
    )
    base = alt.Chart(alt.InlineData(values=rows)).transform_filter("isValid(datum.loss)")
    used = base.transform_filter("!datum.preview")
    tooltip = [alt.Tooltip("loss:Q", title="test loss", format=".4f")]
    return alt.layer(
        used.mark_line(color=ACCENT, size=2).encode(x=x, y=y),
        used.mark_point(color=ACCENT, filled=True, size=55, opacity=1).encode(
            x=x, y=y, tooltip=tooltip
        ),
        base.transform_filter("datum.preview")
        .mark_point(color=ACCENT, filled=False, size=55, opacity=1, shape="diamond")
        .encode(x=x, y=y, tooltip=tooltip),
    ).properties(width=width, height=120)


def _distances(alt: Any, rows: list[dict[str, Any]], x: Any, width: int) -> Any:
    axis = value_axis(alt, ["model moved", "(distance)"], tickCount=4)
    base = alt.Chart(alt.InlineData(values=rows)).transform_filter("isValid(datum.distance)")
    y = alt.Y("distance:Q", axis=axis)
    tooltip = [
        alt.Tooltip("distance:Q", title="moved", format=".3~g"),
        alt.Tooltip("error:Q", title="predicted error", format=".3~g"),
    ]
    whiskers = (
        base.transform_filter("isValid(datum.error)")
        .transform_calculate(low="max(0, datum.distance - datum.error)")
        .transform_calculate(high="datum.distance + datum.error")
    )
    return alt.layer(
        base.transform_filter("!datum.preview")
        .mark_bar(color=_GREY, size=26)
        .encode(x=x, y=y, tooltip=tooltip),
        base.transform_filter("datum.preview")
        .mark_bar(fill="white", stroke=_GREY, strokeWidth=1.5, size=26)
        .encode(x=x, y=y, tooltip=tooltip),
        whiskers.mark_rule(color=INK, size=1.5).encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
    ).properties(
        width=width,
        height=110,
        title=alt.TitleParams(
            text="line: predicted distance from training again (estimated)",
            anchor="start",
            frame="group",
            fontSize=12,
            fontWeight="normal",
            color=_GREY,
            offset=4,
        ),
    )


def _levels(alt: Any, rows: list[dict[str, Any]], x: Any, width: int, *, n_sites: int) -> Any:
    sites = [f"site {number}" for number in range(n_sites)]
    y = alt.Y(
        "site:N",
        sort=sites,
        axis=alt.Axis(title="ε of each draw", domain=False, ticks=False),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    return alt.layer(
        base.mark_rect(stroke="white", strokeWidth=2).encode(
            color=alt.condition("datum.changed", alt.value(ACCENT), alt.value(_FAINT))
        ),
        base.mark_text(fontSize=12).encode(
            text="level:N",
            color=alt.condition("datum.changed", alt.value("white"), alt.value(INK)),
            tooltip=[
                alt.Tooltip("site:N", title="site"),
                alt.Tooltip("level:N", title="ε of its draw"),
            ],
        ),
    ).properties(width=width, height=22 * max(n_sites, 1))


def _name(version: FederationVersion) -> str:
    """Name a version in two lines under the axis: what happened, and to whom."""
    if version.operation == "train":
        whom = "all sites"
    elif len(version.sites) > 3:
        whom = f"{len(version.sites)} sites"
    else:
        word = "site" if len(version.sites) == 1 else "sites"
        whom = f"{word} {', '.join(map(str, version.sites))}"
    return f"{version.version} {OPERATIONS[version.operation]}|{whom}"


def _entry_level(entry: FederationEntry) -> str:
    if entry.epsilon is None:
        return f"{epsilon_text(entry.record_epsilon)} a record"
    return epsilon_text(entry.epsilon)
