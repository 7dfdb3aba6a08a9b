# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate` at a site: make a key, take part, ask for a stricter ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.federate import ModeChoice, check_mode
from epsilens.cli.federate_input import (
    ScoreLimit,
    TesterKey,
    check_numbers,
    keep_limits,
    level_of,
    say_fingerprint,
)
from epsilens.cli.option_groups import choice, option, switch
from epsilens.cli.options import Delimiter, Encoding, delimiter_from
from epsilens.cli.output import Quiet, check_state
from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.federated.flower.site_service import Invitation


State = Annotated[str, option("The site's folder; nobody else reads it.", "DIR")]


def key(state: State, quiet: Quiet = False) -> None:
    """Make the key by which the coordinator will know this site.

    site.key stays in the folder; site.pub goes to the coordinator, who sends an invitation back.

    Example: [bold]epsilens federate key --state our-site[/bold]
    """
    from epsilens.federated.flower.services import require_deployment

    require_deployment()
    from epsilens.federated.flower.keys import make_site_key

    public = make_site_key(check_state(state))
    if not quiet:
        typer.echo(f"Send this file to the coordinator: {public}")


def site(
    state: State,
    invitation: Annotated[
        str | None, option("Invitation from the coordinator; needed the first time.", "FILE")
    ] = None,
    data: Annotated[
        str | None, option("The site's records; they stay where they are.", "FILE")
    ] = None,
    epsilon: Annotated[
        str | None,
        option(
            "At which the site takes part, per protected column: one number, or COL=E,COL=E.", "E"
        ),
    ] = None,
    limit: Annotated[
        float | None,
        option("The most that a record may spend here in all; the first draw unless given.", "E"),
    ] = None,
    server: Annotated[str | None, option("Instead of the invitation's.", "HOST:PORT")] = None,
    root_certificates: Annotated[
        str | None, option("The coordinator's ca.pem, likewise.", "FILE")
    ] = None,
    schema: Annotated[str | None, option("The contract, likewise.", "FILE")] = None,
    number: Annotated[
        int | None, option("The site's number, likewise.", "N", "--site", min=0)
    ] = None,
    private_key: Annotated[
        str | None, option("The site's private key; the folder's unless given.", "FILE", "--key")
    ] = None,
    new_coordinator: Annotated[
        bool,
        switch(
            "--new-coordinator",
            "The coordinator has lost its versions and trains anew; this site's draw stays.",
        ),
    ] = False,
    offer: Annotated[
        int,
        option(
            "Keep the last N records out of the model: on offer to it, and for tests of others' "
            "records. Decided the first time.",
            "N",
            min=0,
        ),
    ] = 0,
    insist: Annotated[
        bool | None,
        switch(
            "--insist-on-masks/--no-insist-on-masks",
            "Let sums of this site's own leave under masks only (secure aggregation); remembered. As "
            "before unless given.",
        ),
    ] = None,
    score_limit: ScoreLimit = None,
    tester_key: TesterKey = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quiet: Quiet = False,
) -> None:
    """Take part: draw the protected answers once, and answer the coordinator until ended.

    Started again with the same folder, the site goes on with the draw it has. What it sends is
    computed from that draw; what would exceed its limit it refuses, whoever asks.

    Example: [bold]epsilens federate site --state our-site --invitation invitation-0.json
    --data patients.csv --epsilon 3[/bold]
    """
    from epsilens.federated.flower.services import require_deployment

    require_deployment()
    from epsilens.federated import FederationSchema, RawFile, Site, create_site_store
    from epsilens.federated.flower.site_service import Invitation, remember_server, serve_site
    from epsilens.federated.site_store import DATABASE, SiteStore

    check_numbers(0.0, limit)
    folder = check_state(state)
    invited = None if invitation is None else Invitation.read(invitation)
    if not (folder / DATABASE).exists():
        # Check the records against the contract, draw, and keep the draw.
        if schema is not None:
            contract = FederationSchema.read(schema)
        elif invited is not None:
            contract = FederationSchema.from_dict(invited.contract)
        else:
            raise InputError(
                "a site must know the contract the first time. Give `--invitation`, or `--schema` and "
                "`--site`."
            )
        if number is None and invited is not None:
            number = invited.site
        if number is None:
            raise InputError(
                "a site must know its number the first time. Give `--invitation`, or `--site`."
            )
        if data is None or epsilon is None:
            raise InputError("`--data` and `--epsilon` must be given the first time.")
        raw = RawFile.at(data, delimiter=delimiter_from(delimiter), encoding=encoding)
        level = level_of(epsilon, contract)
        records = raw.read(contract)
        joined = Site(number, contract, records, epsilon=level, limit=limit, offer=offer)
        create_site_store(folder, joined, raw)
    elif offer:
        raise InputError("`--offer` is decided when the site joins. Leave it out.")
    else:
        _go_on(folder, invited, epsilon=epsilon, data=data, limit=limit, afresh=new_coordinator)
    with SiteStore(folder).transaction() as found:
        if insist is not None:
            found.insist_on_masks(insist=insist)
        insists = found.state.insists_on_masks
    keep_limits(folder, limit=score_limit, testers=tester_key)
    if private_key is None:
        from epsilens.federated.flower.keys import make_site_key

        make_site_key(folder)
    where = remember_server(
        folder,
        server=server or (None if invited is None else invited.server),
        certificate=_certificate(invited, root_certificates),
    )
    if not quiet:
        say_fingerprint(folder)
        if insists:
            typer.echo("This site insists on masks: sums of its own do not leave in clear.")
    serve_site(
        folder,
        where,
        key=None if private_key is None else Path(private_key),
        say=lambda text: None if quiet else typer.echo(text),
    )


def _certificate(invited: Invitation | None, path: str | None) -> bytes | None:
    if path is None:
        return None if invited is None else invited.certificate.encode("ascii")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"`--root-certificates` must be a file that can be read, got {type(error).__name__}."
        ) from None


def _go_on(
    folder: Path,
    invited: Invitation | None,
    *,
    epsilon: str | None,
    data: str | None,
    limit: float | None,
    afresh: bool,
) -> None:
    """Check that what was typed does not contradict what the site has."""
    from epsilens.federated import FederationSchema, RawFile, SiteStore

    store = SiteStore(folder)
    if invited is not None:
        contract = FederationSchema.from_dict(invited.contract)
        if contract.fingerprint != store.fingerprint:
            raise InputError(
                "the invitation has another contract than the one that this site has drawn under. A new "
                "contract needs a new folder, and spends anew."
            )
    if data is not None and RawFile.at(data).path != store.raw_file.path:
        raise InputError(
            "this site has drawn from another data file. Leave `--data` out, or join in a new folder."
        )
    with store.transaction() as found:
        if invited is not None and invited.site != found.number:
            raise InputError(
                f"the invitation is for site {invited.site}, and this folder is site {found.number}'s."
            )
        if epsilon is not None:
            first = found.ledger[0]
            level = level_of(epsilon, store.schema)
            other = level.per_record != first.record_epsilon
            if all(line.mode != "redraw" for line in found.ledger):
                other = level.per_column != found.state.anchor.budget.per_column
            if other:
                raise InputError(
                    f"this site has drawn at a record epsilon of {first.record_epsilon:g} already. Leave "
                    "`--epsilon` out; a change is asked for with `epsilens federate request`."
                )
        if limit is not None and limit != found.state.limit:
            found.allow(limit)
        if afresh:
            found.follow_new_coordinator()


def request(
    state: State,
    epsilon: Annotated[
        str, option("Wanted per protected column: one number, or COL=E,COL=E.", "E")
    ],
    mode: Annotated[
        ModeChoice,
        choice(
            ModeChoice,
            "degrade adds noise to the draw there is and spends nothing; redraw draws again and "
            "spends more; as_printed is the published method, without privacy.",
        ),
    ] = "degrade",
    not_private: Annotated[
        bool, switch("--i-know-it-is-not-private", "Needed for --mode as_printed.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Ask for another ε; it waits here until the coordinator applies it.

    Example: [bold]epsilens federate request --state our-site --epsilon 1[/bold]
    """
    from epsilens.federated.site_store import SiteStore

    check_mode(mode, not_private=not_private)
    if not_private and mode != "as_printed":
        raise InputError(
            "`--i-know-it-is-not-private` belongs to `--mode as_printed`, got "
            f"{mode}. Leave one of the two out."
        )
    store = SiteStore(state)
    level = level_of(epsilon, store.schema)
    with store.transaction() as found:
        found.ask_for(level, mode=mode, not_private=not_private)
        number, total = found.number, found.total_epsilon
    if not quiet:
        typer.echo(
            f"Site {number} asks for epsilon = {epsilon} by {mode}; a record has spent {total:g} until "
            "now. It waits for the coordinator's `epsilens federate apply`."
        )
