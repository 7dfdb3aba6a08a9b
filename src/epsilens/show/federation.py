# SPDX-License-Identifier: Apache-2.0
"""A federation as tables and sentences for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from epsilens.document import FederationDocument, FederationVersion
from epsilens.show.plain_table import plain_table
from epsilens.show.rounding import (
    NOTHING,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
)

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["federation_sentences", "ledger_table", "sites_text", "version_table"]

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
