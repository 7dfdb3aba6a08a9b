# SPDX-License-Identifier: Apache-2.0
"""The view of a federation: every version of the model, every release of every site, and who learnt what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from epsilens.document.federation import FederationDocument, FederationValuation, FederationVersion
from epsilens.document.view import Line, Row, Table, View, field_row, text_row
from epsilens.document.wording import NOTHING, epsilon_text, loss_text, percent_text

OPERATIONS = {
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


def federation_view(document: FederationDocument) -> View:
    """Return the versions of a model and the ledger of its sites."""
    versions = Table(
        "Versions of the model",
        tuple(
            Line(_version_rows(version), is_faint=version.operation == "preview")
            for version in document.versions
        ),
        (
            "What, and which sites. Model ε: what this model by itself guarantees them, per protected column. "
            "Moved: distance from the model in use before. Error: distance to be expected from training again "
            "(estimated).",
        ),
    )
    ledger = Table(
        "Ledger",
        tuple(
            Line(
                (
                    field_row(entry, "site", "site", str),
                    text_row("operation", "release", entry.operation),
                    text_row("mode", "mode", entry.mode or NOTHING),
                    field_row(entry, "epsilon", "ε", epsilon_text, "proven"),
                    field_row(entry, "record_epsilon", "ε per record", epsilon_text, "proven"),
                    field_row(entry, "total_epsilon", "in all", epsilon_text, "proven"),
                    text_row("private", "private", "yes" if entry.private else "no"),
                )
            )
            for entry in document.ledger
        ),
        (
            "ε of the draw that was used, per column and per record; in all: what everything that the site "
            "has released spends of a record's budget together (proven).",
        ),
    )
    return View(versions.title, sentences=tuple(_sentences(document)), tables=(versions, ledger))


def _version_rows(version: FederationVersion) -> tuple[Row, ...]:
    what = f"{OPERATIONS[version.operation]} {sites_text(version.sites)}\n{_how(version)}"
    row, rough = partial(field_row, version), partial(_distance, digits=2)
    return (
        text_row("version", "", str(version.version)),
        text_row("operation", "what", what),
        Row("model_epsilon", "model\nε", _level(version), version.model_epsilon, "proven"),
        row("distance_to_previous", "moved", _distance, "measured"),
        row("predicted_error", "error", rough, "estimated"),
        text_row("advice", "advice", version.advice),
        row("test_loss", "test\nloss", loss_text, "measured", "nats"),
        row("test_accuracy", "accu-\nracy", percent_text, "measured"),
        row("messages", "mes-\nsages", "{:,}".format),
        Row("bytes", "kB", f"{version.bytes / 1000:,.1f}", version.bytes / 1000, unit="kB"),
    )


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


def _named(word: str, numbers: Collection[int]) -> str:
    """Name one or more sites, or versions, by their numbers."""
    return f"{word}{'' if len(numbers) == 1 else 's'} {sites_text(numbers)}"


def _sentences(document: FederationDocument) -> list[str]:
    """Say in words what happened, who learnt what, and what is covered."""
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
    who = _named("Site", version.sites)
    if version.operation == "train":
        # Reached by rounds with all sites.
        rounds = f"{version.rounds:,} {'round' if version.rounds == 1 else 'rounds'}"
        return f"{who} trained together in {rounds}; {_tested(version)}."
    by = "" if version.rung is None else f" by {_RUNGS[version.rung]}"
    parts = [f"moved by {_distance(version.distance_to_previous)}"]
    if preview is not None:
        parts.append(f"the preview expected {_distance(preview.distance_to_previous)}")
    parts.append(f"within {_distance(version.predicted_error)} of training again, by prediction")
    if before is not None and before.test_loss is not None:
        parts.append(f"test loss {loss_text(before.test_loss)} → {loss_text(version.test_loss)}")
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
        level = f"ε = {epsilon_text(version.model_record_epsilon)} per record"
    else:
        level = f"ε = {epsilon_text(version.model_epsilon)} per protected column"
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
        seen = hidden
        if clear:
            seen = (
                f"in {_named('version', [v.version for v in masked])} {hidden}; "
                f"in {_named('version', clear)}, in clear, it saw those of each site"
            )
    said = [
        f"Who learnt what: {seen}; each site saw the models and nothing else of other sites. "
        f"{messages:,} messages with numbers, {size / 1000:,.1f} kB."
    ]
    if document.carried_messages is not None and document.carried_bytes is not None:
        said.append(
            f"Flower carried {document.carried_messages:,} messages in all, questions and "
            f"confirmations included, {document.carried_bytes / 1000:,.1f} kB."
        )
    return said


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
            parts.append(what.format(who=_named("site", sites)))
    return f", but for {' and '.join(parts)}" if parts else ""


def _spent(document: FederationDocument) -> list[str]:
    last = {entry.site: entry for entry in document.ledger}
    totals: dict[tuple[float, bool], list[int]] = {}
    for site, entry in last.items():
        totals.setdefault((entry.total_epsilon, entry.private), []).append(site)
    said = []
    for (total, private), sites in totals.items():
        whose = _named("site", sites)
        if private:
            said.append(
                f"Spent in all at {whose}: ε = {epsilon_text(total)} of a record's budget (proven)."
            )
        else:
            said.append(f"At {whose} nothing is guaranteed any more.")
    return said


def _tested(version: FederationVersion) -> str:
    if version.test_loss is None:
        return "no test records"
    return (
        f"test loss {loss_text(version.test_loss)}, accuracy {percent_text(version.test_accuracy)}"
    )


def _how(version: FederationVersion) -> str:
    parts = [] if version.rung is None else [str(version.rung)]
    if version.operation == "train" or version.rung == "exact":
        parts.append(f"{version.rounds} rounds")
    return ", ".join(parts)


def _level(version: FederationVersion) -> str:
    if version.model_epsilon is None:
        return f"{epsilon_text(version.model_record_epsilon)} (sum)"
    return epsilon_text(version.model_epsilon)


def _distance(value: float | None, *, digits: int = 3) -> str:
    if value is None:
        return NOTHING
    return f"{value:.{digits}g}" if value >= _SMALLEST_DISTANCE else f"<{_SMALLEST_DISTANCE:.0e}"


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
        what = f"{valuation.n:,} records that site {valuation.provider} {where}"
        harm = f"; {valuation.harmful:,} of them harm"
    else:
        what, harm = f"All that site {valuation.provider} {where}", ""
    took = f"{valuation.messages:,} messages, {_size(valuation.bytes)}"
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
