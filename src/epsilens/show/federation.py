# SPDX-License-Identifier: Apache-2.0
"""A federation: tables, sentences, and the chart of what each change did to the shared model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from epsilens.document import (
    FederationDocument,
    FederationEntry,
    FederationValuation,
    FederationVersion,
)
from epsilens.errors import InputError
from epsilens.show.look import ACCENT, INK, dressed, subtitle, value_axis
from epsilens.show.rounding import (
    NOTHING,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
)
from epsilens.show.terminal import plain_table

if TYPE_CHECKING:
    import altair as alt
    from rich.table import Table

__all__ = [
    "federation_chart",
    "federation_sentences",
    "ledger_table",
    "levels_by_version",
    "sites_text",
    "valuation_sentences",
    "version_table",
]

_OPERATIONS = {
    "train": "trained",
    "preview": "preview",
    "change": "changed",
    "remove": "left",
    "accept": "accepted",
    "value": "valued",
}
_SMALLEST_DISTANCE = 1e-6
"""What is below is numerical noise to a reader."""
_RUNGS = {"one-message": "one message", "newton": "a Newton step", "exact": "exact rounds"}


def sites_text(sites: Iterable[int]) -> str:
    """Name sites, runs of neighbours short.

    Examples
    --------
    >>> sites_text([0, 1, 2, 4]), sites_text([3])
    ('0–2, 4', '3')
    """
    runs: list[list[int]] = []
    for site in sorted(sites):
        if runs and site == runs[-1][-1] + 1:
            runs[-1].append(site)
        else:
            runs.append([site])
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def version_table(document: FederationDocument) -> Table:
    """Show every version of the model: what happened, to whom, and what it is worth.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    rich.table.Table

    Examples
    --------
    >>> from epsilens.document import FederationDocument, FederationVersion, Provenance
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0, 1],
    ...     model_epsilon=3.0, model_record_epsilon=6.0, advice="accept", messages=20, bytes=3200)
    >>> version_table(FederationDocument(provenance=Provenance(method="newton"), protect=["smokes"],
    ...     n_sites=2, versions=[first], ledger=[])).row_count
    1
    """
    table = _table(
        "Versions of the model",
        "What, and which sites. Model ε: what this model by itself guarantees them, per protected column. "
        "Moved: distance from the model in use before. Error: distance to be expected from training again "
        "(estimated).",
    )
    for name in ("", "what"):
        table.add_column(name, no_wrap=True)
    for name in ("model\nε", "moved", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("advice", no_wrap=True)
    for name in ("test\nloss", "accu-\nracy", "mes-\nsages", "kB"):
        table.add_column(name, justify="right", no_wrap=True)
    for version in document.versions:
        table.add_row(
            str(version.version),
            f"{_OPERATIONS[version.operation]} {sites_text(version.sites)}\n{_how(version)}",
            _level(version),
            _distance(version.distance_to_previous),
            _distance(version.predicted_error, digits=2),
            version.advice,
            format_loss(version.test_loss),
            format_percent(version.test_accuracy),
            format_count(version.messages),
            f"{version.bytes / 1000:,.1f}",
            style="dim" if version.operation == "preview" else None,
        )
    return table


def ledger_table(document: FederationDocument) -> Table:
    """Show every release of every site, and what it has spent in all.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    rich.table.Table

    Examples
    --------
    >>> from epsilens.document import FederationDocument, FederationEntry, Provenance
    >>> line = FederationEntry(site=0, operation="train", mode=None, epsilon=3.0, record_epsilon=6.0,
    ...                        total_epsilon=6.0, private=True)
    >>> ledger_table(FederationDocument(provenance=Provenance(method="newton"), protect=["smokes"],
    ...     n_sites=1, versions=[], ledger=[line])).row_count
    1
    """
    table = _table(
        "Ledger",
        "ε of the draw that was used, per column and per record; in all: what everything that the site "
        "has released spends of a record's budget together (proven).",
    )
    table.add_column("site", justify="right")
    table.add_column("release")
    table.add_column("mode")
    for name in ("ε", "ε per record", "in all"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("private")
    for entry in document.ledger:
        table.add_row(
            str(entry.site),
            entry.operation,
            entry.mode or NOTHING,
            format_epsilon(entry.epsilon),
            format_epsilon(entry.record_epsilon),
            format_epsilon(entry.total_epsilon),
            "yes" if entry.private else "no",
        )
    return table


def federation_sentences(document: FederationDocument) -> list[str]:
    """Say in words what happened, who learnt what, and what is covered.

    Parameters
    ----------
    document : FederationDocument

    Returns
    -------
    list of str

    Examples
    --------
    >>> from epsilens.document import FederationDocument, FederationVersion, Provenance
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0, 1], rounds=5,
    ...     model_epsilon=3.0, model_record_epsilon=6.0, advice="accept", messages=20, bytes=3200)
    >>> federation_sentences(FederationDocument(provenance=Provenance(method="newton"),
    ...     protect=["smokes"], n_sites=2, versions=[first], ledger=[]))[0]
    'Sites 0, 1 trained together in 5 rounds; no test records.'
    """
    said = []
    preview: FederationVersion | None = None
    before: FederationVersion | None = None
    for version in document.versions:
        if version.operation == "preview":
            preview = version
            continue
        said.append(_happened(version, preview, before))
        if version.advice != "accept":
            said.append(
                f"Advice for version {version.version}: {version.reason or version.advice}."
            )
        preview, before = None, version
    said += _learnt(document)
    said += _spent(document)
    said.append(
        f"The guarantee covers the protected columns only ({', '.join(document.protect)}): every other "
        "column enters the sums as it is."
    )
    if document.provenance.simulated:
        said.append(
            "All draws were simulated with a seed: this is a rehearsal, and such draws protect nobody."
        )
    return said


def _happened(
    version: FederationVersion,
    preview: FederationVersion | None,
    before: FederationVersion | None,
) -> str:
    who = _who(version.sites)
    if version.operation == "train":
        # Reached by rounds with all sites.
        rounds = f"{format_count(version.rounds)} {'round' if version.rounds == 1 else 'rounds'}"
        return f"{who} trained together in {rounds}; {_tested(version)}."
    by = "" if version.rung is None else f" by {_RUNGS[version.rung]}"
    parts = [f"moved by {_distance(version.distance_to_previous)}"]
    if preview is not None:
        parts.append(f"the preview expected {_distance(preview.distance_to_previous)}")
    parts.append(f"within {_distance(version.predicted_error)} of training again, by prediction")
    if before is not None and before.test_loss is not None:
        parts.append(
            f"test loss {format_loss(before.test_loss)} → {format_loss(version.test_loss)}"
        )
    if version.operation == "accept":
        return f"What {who[0].lower()}{who[1:]} offered was accepted{by}: {', '.join(parts)}."
    if version.operation == "remove":
        verb = "leaves" if len(version.sites) == 1 else "leave"
        left = "" if version.model_record_epsilon == 0 else _still(version)
        return f"{who} {verb}; the model followed{by}: {', '.join(parts)}.{left}"
    verb = "changes its" if len(version.sites) == 1 else "change their"
    start = f"{who} {verb} ε ({version.mode}); the model followed{by}: {', '.join(parts)}."
    if version.mode == "as_printed":
        return f"{start} The message came from the true answers: no guarantee is left."
    return start + _still(version)


def _still(version: FederationVersion) -> str:
    """Say what the new model by itself guarantees those whom the operation is about."""
    if version.model_epsilon is None:
        level = f"ε = {format_epsilon(version.model_record_epsilon)} per record"
    else:
        level = f"ε = {format_epsilon(version.model_epsilon)} per protected column"
    more = "" if version.rung == "exact" else "; exact rounds would leave no old draw in it"
    whom = "it" if len(version.sites) == 1 else "them"
    return f" The new model by itself guarantees {whom} {level}{more}."


def _learnt(document: FederationDocument) -> list[str]:
    if not document.versions:
        return []
    messages = sum(version.messages for version in document.versions)
    size = sum(version.bytes for version in document.versions)
    bare = any(not entry.private for entry in document.ledger)
    records = "records, true ones among them," if bare else "randomised records"
    seen = (
        f"the coordinator saw sums over {records} (of a site with one or two records, these are the "
        "records)"
    )
    masked = [version for version in document.versions if version.masked]
    if masked:
        hidden = (
            f"the coordinator saw sums over the {records} of all sites and not those of a single one"
            f"{_alone(masked)}; how many records each site has it was told"
        )
        clear = [v.version for v in document.versions if not v.masked]
        seen = hidden if not clear else f"{_in_versions(v.version for v in masked)} {hidden}"
        if clear:
            seen += f"; {_in_versions(clear)}, in clear, it saw those of each site"
    said = [
        f"Who learnt what: {seen}; each site saw the models and nothing else of other sites. "
        f"{format_count(messages)} messages with numbers, {size / 1000:,.1f} kB."
    ]
    if document.carried_messages is not None and document.carried_bytes is not None:
        said.append(
            f"Flower carried {format_count(document.carried_messages)} messages in all, questions and "
            f"confirmations included, {document.carried_bytes / 1000:,.1f} kB."
        )
    return said


def _in_versions(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return f"in {'version' if len(found) == 1 else 'versions'} {sites_text(found)}"


def _alone(versions: Sequence[FederationVersion]) -> str:
    """Name what a coordinator saw of single sites in spite of the masks: there was no other to hide in."""
    changed = {
        version.sites[0]
        for version in versions
        if version.operation in {"preview", "change"}
        and version.rung != "exact"
        and len(version.sites) == 1
    }
    left = {
        v.sites[0]
        for v in versions
        if v.operation == "remove" and v.rung != "exact" and len(v.sites) == 1
    }
    accepted = {v.sites[0] for v in versions if v.operation == "accept"}
    parts = []
    for sites, what in (
        (changed, "the change of {who} that changed alone"),
        (left, "the sums of {who} that left alone"),
        (accepted, "the sums of what {who} had on offer"),
    ):
        if sites:
            who = f"{'site' if len(sites) == 1 else 'sites'} {sites_text(sites)}"
            parts.append(what.format(who=who))
    return f", but for {' and '.join(parts)}" if parts else ""


def _spent(document: FederationDocument) -> list[str]:
    last = {entry.site: entry for entry in document.ledger}
    totals: dict[tuple[float, bool], list[int]] = {}
    for site, entry in last.items():
        totals.setdefault((entry.total_epsilon, entry.private), []).append(site)
    said = []
    for (total, private), sites in totals.items():
        whose = f"{'site' if len(sites) == 1 else 'sites'} {sites_text(sites)}"
        if private:
            said.append(
                f"Spent in all at {whose}: ε = {format_epsilon(total)} of a record's budget (proven)."
            )
        else:
            said.append(f"At {whose} nothing is guaranteed any more.")
    return said


def _who(sites: list[int]) -> str:
    return f"{'Site' if len(sites) == 1 else 'Sites'} {sites_text(sites)}"


def _tested(version: FederationVersion) -> str:
    if version.test_loss is None:
        return "no test records"
    return f"test loss {format_loss(version.test_loss)}, accuracy {format_percent(version.test_accuracy)}"


def _how(version: FederationVersion) -> str:
    parts = [] if version.rung is None else [str(version.rung)]
    if version.operation == "train" or version.rung == "exact":
        parts.append(f"{version.rounds} rounds")
    return ", ".join(parts)


def _level(version: FederationVersion) -> str:
    if version.model_epsilon is None:
        return f"{format_epsilon(version.model_record_epsilon)} (sum)"
    return format_epsilon(version.model_epsilon)


def _distance(value: float | None, *, digits: int = 3) -> str:
    if value is None:
        return NOTHING
    return f"{value:.{digits}g}" if value >= _SMALLEST_DISTANCE else f"<{_SMALLEST_DISTANCE:.0e}"


def _table(title: str, caption: str) -> Table:
    return plain_table(title, notes=[caption], padding=(0, 1, 0, 0), show_edge=False)


def valuation_sentences(valuation: FederationValuation) -> list[str]:
    """Say what records are worth and what the exchange cost; then, a line each, who learnt what.

    Parameters
    ----------
    valuation : FederationValuation

    Returns
    -------
    list of str

    Examples
    --------
    >>> found = FederationValuation(provider=0, tester=2, mode="items", change="add", n=20,
    ...     total=0.003, harmful=4, resolution=1e-9, version=0, n_parameters=12, messages=6,
    ...     bytes=2_000_000, seconds=1.5)
    >>> valuation_sentences(found)[0]
    "20 records that site 0 has on offer, valued on site 2's: together worth 0.003 of its mean loss (positive helps); 4 of them harm. 6 messages, 2.00 MB, 1.5 s. They were not taken into the model."
    """
    return [_worth(valuation), *valuation.learnt]


def _worth(valuation: FederationValuation) -> str:
    where = "has on offer" if valuation.change == "add" else "has in the model"
    if valuation.mode == "items":
        what = f"{format_count(valuation.n)} records that site {valuation.provider} {where}"
        harm = f"; {format_count(valuation.harmful)} of them harm"
    else:
        what, harm = f"All that site {valuation.provider} {where}", ""
    took = f"{format_count(valuation.messages)} messages, {_size(valuation.bytes)}"
    if valuation.seconds is not None:
        took += f", {valuation.seconds:.1f} s"
    taken = " They were not taken into the model." if valuation.change == "add" else ""
    if valuation.accepted is not None:
        taken = f" They were accepted: version {valuation.accepted}."
    return (
        f"{what}, valued on site {valuation.tester}'s: together worth {valuation.total:.3g} of its mean loss "
        f"(positive helps){harm}. {took}.{taken}"
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.2f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.1f} kB"


_GREY, _FAINT = "#6b7280", "#e3e6ea"
_WORDS = {
    "train": "trained",
    "preview": "preview",
    "change": "changed",
    "remove": "left",
    "accept": "accepted",
}


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
    >>> from epsilens.document import FederationDocument, FederationVersion, Provenance
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0],
    ...     model_epsilon=3.0, model_record_epsilon=3.0, advice="accept", messages=20, bytes=3200)
    >>> line = FederationEntry(site=0, operation="train", mode=None, epsilon=3.0, record_epsilon=3.0,
    ...                        total_epsilon=3.0, private=True)
    >>> levels_by_version(FederationDocument(provenance=Provenance(method="newton"),
    ...     protect=["smokes"], n_sites=1, versions=[first], ledger=[line]))[0]["level"]
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
    >>> from epsilens.document import FederationDocument, FederationVersion, Provenance
    >>> first = FederationVersion(version=0, operation="train", mode=None, sites=[0], test_loss=0.5,
    ...     model_epsilon=3.0, model_record_epsilon=3.0, advice="accept", messages=20, bytes=3200)
    >>> chart = federation_chart(FederationDocument(provenance=Provenance(method="newton"),
    ...     protect=["smokes"], n_sites=1, versions=[first], ledger=[]))
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
    return f"{version.version} {_WORDS[version.operation]}|{whom}"


def _entry_level(entry: FederationEntry) -> str:
    if entry.epsilon is None:
        return f"{format_epsilon(entry.record_epsilon)} a record"
    return format_epsilon(entry.epsilon)
