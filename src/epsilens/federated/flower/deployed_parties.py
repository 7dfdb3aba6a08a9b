# SPDX-License-Identifier: Apache-2.0
"""Sites on machines of their own: known by their keys, sometimes silent, never waited for without end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flwr.app import RecordDict

from epsilens._types import FloatArray
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.flower.grid_parties import GridParties, MessageGrid
from epsilens.federated.flower.messages import Content
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.parties import NoAnswerError
from epsilens.federated.site_state import Wish
from epsilens.federated.versions import CoordinatorState, Version
from epsilens.federated.written import read_wish
from epsilens.notes import Note


class SilentSitesError(NoAnswerError):
    """Sites that were asked have not answered in time.

    Parameters
    ----------
    sites : iterable of int
    seconds : float, optional
        How long was waited; None: they were not there to be asked.
    """

    def __init__(self, sites: Iterable[int], seconds: float | None = None) -> None:
        self.sites = tuple(sorted(sites))
        how = "to the greeting" if seconds is None else f"within {seconds:g} seconds"
        super().__init__(
            f"{named(self.sites)} did not answer {how}. The model is as it was; check "
            "that every site runs, and ask again."
        )


class DeployedParties(GridParties):
    """Sites behind the grid of a real deployment.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    schema : FederationSchema
    members : mapping of site to int
        What Flower calls each site that is wanted.
    state : CoordinatorState
        What the coordinator knows: a site that knows less, or more, is not believed.
    timeout : float
        Seconds that the answers to one message may take.
    patience : float
        Seconds that the sites have to come online. Who does not is `absent`, and the others go on.
    leaving : sequence of int
        Sites that are about to be removed: what they say that cannot be is as good as silence.
    anew : bool
        Whether the model is trained anew, so that sites may have another draw than the model's.

    Raises
    ------
    InputError
        If a site has another contract, another number, or an older store than it had.
    """

    deployed = True
    """Every site is a party of its own."""

    def __init__(
        self,
        grid: MessageGrid,
        schema: FederationSchema,
        members: Mapping[int, int],
        *,
        state: CoordinatorState,
        timeout: float = 60.0,
        patience: float = 30.0,
        leaving: Sequence[int] = (),
        anew: bool = False,
        masked: bool = False,
    ) -> None:
        self._begin(grid, schema, timeout, masked=masked)
        self._leaving = set(leaving)
        self._bound = () if anew else state.model_sites
        self._known = dict(state.draws)
        self._taken: dict[int, int] = {}
        self.remarks: list[Note] = []
        """What the coordinator's people should know of what the sites have said."""
        self.wishes: dict[int, Wish] = {}
        self.words: dict[int, str] = {}
        """Why sites have refused a version that is made all the same, or what those who leave have said."""
        self.missed: set[int] = set()
        """Sites that have not heard of the last version; they do when they are back."""
        for entry in state.ledger:
            self._ledgers[entry.site] = (*self._ledgers.get(entry.site, ()), entry)
        self._made = state.applied[-1].version if state.applied else -1
        self._greet(members, patience)
        self.absent = tuple(sorted(set(members) - set(self._nodes)))
        self._catch_up(state.applied)

    def _greet(self, members: Mapping[int, int], patience: float) -> None:
        wanted = set(members.values())
        nodes = set(self._awaited(lambda found: wanted <= set(found), patience))
        online = [site for site, node in members.items() if node in nodes]
        answers = self._carry(
            "hello", {members[site]: self.pack(version=self._made) for site in online}
        )
        for site in online:
            reply = answers.get(members[site])
            if reply is None or reply.has_error():
                continue
            try:
                self._believe(site, members[site], self._opened("hello", reply, f"site {site}"))
            except InputError as error:
                if site not in self._leaving:
                    raise _with_a_way_out(error, site) from None
                self._forget(site, error)

    def _believe(self, site: int, node: int, content: Content) -> None:
        """Take a site's greeting, unless it contradicts what is known of it."""
        number = content.setting("site", int)
        if number != site:
            raise InputError(
                f"the node that was registered as site {site} says that it is site {number}. Start it "
                "with its own folder, or register its key under that number."
            )
        if 0 <= self._made < content.setting("version", int):
            raise InputError(f"site {site} claims a version of the model that was never made.")
        known: tuple[LedgerEntry, ...] = self._ledgers.get(site, ())
        wish = content.setting("wish", str)
        self._compare_draw(site, content, known)
        self._welcome(site, node, content)
        if self._ledgers[site][: len(known)] != known:
            self._ledgers[site] = known
            raise InputError(
                f"site {site} has forgotten releases that it had reported: an old copy of its store. "
                "Bring back a newer one; its count of the budget would be wrong."
            )
        if wish:
            self.wishes[site] = read_wish(wish)

    def _compare_draw(self, site: int, content: Content, known: tuple[LedgerEntry, ...]) -> None:
        """Count what a site has spent before it drew again; say if it has forgotten a version."""
        before = self._known.get(site)
        if before is None:
            return
        self._earlier[site] = known[: before.earlier]
        self._taken[site] = before.version
        if before.name == content.setting("draw", str):
            version = content.setting("version", int)
            if version < before.version:
                self.remarks.append(
                    Note(
                        "old-site-store",
                        f"site {site} had version {before.version} of the model and says that it has "
                        f"{'none' if version < 0 else version}: an old copy of its store, or it was started "
                        "for a new coordinator. Its draw is the same",
                        str(site),
                    )
                )
            return
        if site in self._bound:
            raise InputError(
                f"site {site} has drawn again under its number, so its records are not those in the model. "
                "Train again: what both draws have spent is then counted."
            )
        self._earlier[site], self._taken[site] = known, self._made
        spent = known[-1].total_epsilon if known else 0.0
        self.remarks.append(
            Note(
                "site-drew-again",
                f"site {site} has drawn again under its number: the {spent:g} that a record had spent before "
                "is counted on",
                str(site),
            )
        )

    def _forget(self, site: int, error: InputError) -> None:
        """Go on as if a site that leaves had said nothing."""
        self.words[site] = str(error)
        self.wishes.pop(site, None)
        self.leave([site])

    def _catch_up(self, applied: Sequence[Version]) -> None:
        """Tell sites that were away what they have missed, their own change first."""
        for site, has in [(i, self._standings[i].version) for i in self._nodes]:
            own = [v for v in applied if site in v.changed_sites]
            # A change that the site has confirmed, or that was of another draw, does not wait there.
            taken = max(has, self._taken.get(site, -1))
            missed = [v for v in own if v.version > taken][-1:]
            if applied and applied[-1].version > has:
                missed += [v for v in applied[-1:] if v not in missed]
            for version in missed:
                changed = version in own and version.version > taken
                content = self.pack(
                    {"theta": version.theta}, version=version.version, changed=changed
                )
                try:
                    answers, silent = self._try("settle", {site: content})
                except InputError as error:
                    if site not in self._leaving:
                        raise _with_a_way_out(error, site) from None
                    self._forget(site, error)
                    break
                if silent:
                    self.set_aside(silent)
                    break
                self._settled(site, answers[site], version.version)
                if changed:
                    self.wishes.pop(site, None)

    # --- Who is there ---

    def require(self, sites: Iterable[int]) -> None:
        """Refuse to go on without these sites.

        Raises
        ------
        SilentSitesError
        """
        missing = set(sites) - set(self._nodes)
        if missing:
            raise SilentSitesError(missing)

    def set_aside(self, sites: Iterable[int]) -> None:
        """Go on without sites that have stopped answering."""
        gone = set(sites)
        self.wishes = {site: wish for site, wish in self.wishes.items() if site not in gone}
        self.absent = tuple(sorted({*self.absent, *gone}))
        self.leave(sorted(gone))

    # --- How they are asked ---

    def ask(self, action: str, contents: Mapping[int, RecordDict]) -> dict[int, Content]:
        """Ask sites, and return every answer, the first refusal, or who was silent."""
        answers, silent = self._try(action, contents)
        if silent:
            raise SilentSitesError(silent, self._timeout)
        return answers

    def _try(
        self, action: str, contents: Mapping[int, RecordDict]
    ) -> tuple[dict[int, Content], set[int]]:
        """Ask sites, and return the answers and who gave none; a refusal is raised."""
        replies = self._sent(action, contents)
        found = {
            site: self._opened(action, reply, f"site {site}")
            for site, reply in replies.items()
            if not reply.has_error()
        }
        return found, set(contents) - set(found)

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites that are there; the others hear of it when they are back.

        Whoever has not taken it answers from another draw than the model's, and is asked nothing more.
        """
        contents = self._settlement(sites, theta, version)
        replies = self._sent("settle", contents)
        for site in contents:
            reply = replies.get(site)
            if reply is None or reply.has_error():
                self.missed.add(site)
                continue
            try:
                self._settled(site, self._opened("settle", reply, f"site {site}"), version)
            except InputError as error:
                self.words[site] = str(error)
        for site in sites:
            self.wishes.pop(site, None)
        self.leave([*self.missed, *self.words])
        self.missed |= set(self.absent)

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over; who does not hear it forgets it with the next change."""
        self._try("end_preview", {site: self.pack() for site in sites})


def _with_a_way_out(error: InputError, site: int) -> InputError:
    """Add to a refusal that concerns all operations how to go on without the site."""
    return InputError(
        f"{error.text} To go on without it: `epsilens federate remove {site}` (`unregister {site}` if it is not in "
        f"the model), or `train --without {site}`."
    )


def named(sites: Sequence[int]) -> str:
    """Name sites in a sentence.

    Examples
    --------
    >>> named([2]), named([0, 3])
    ('site 2', 'sites 0, 3')
    """
    return f"{'site' if len(sites) == 1 else 'sites'} {', '.join(map(str, sites))}"
