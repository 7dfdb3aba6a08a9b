# SPDX-License-Identifier: Apache-2.0
"""One operation of a coordinator, with its store and with the sites that are there.

Before it begins, what an earlier one had begun is finished or given up, and sites that were away are
told what they have missed. Killed at any point, the next operation goes on from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from epsilens.channels import Budget
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.federated.change import Rung
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.coordinator_store import CoordinatorStore
from epsilens.federated.declaration import Records
from epsilens.federated.flower.deployed_parties import DeployedParties, SilentSitesError, named
from epsilens.federated.flower.grid_parties import MessageGrid
from epsilens.federated.flower.value_messages import GridExchange
from epsilens.federated.ledger import Mode
from epsilens.federated.training import Algorithm
from epsilens.federated.valuing import Valuation, ValueMode, value
from epsilens.federated.versions import CoordinatorState, Intention, Version
from epsilens.notes import Note

_TOLD_LATER = "told of the new version when back"
_AGAIN = {
    "removal": "Remove again",
    "acceptance": "Value again",
    "change": "What the sites wish waits there for the next `apply`",
}


class OperationRunner:
    """Runs one operation with the sites.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    store : CoordinatorStore
    timeout : float
        Seconds that the answers to one message may take.
    patience : float
        Seconds that the sites have to come online.
    everybody : bool
        Whether all members are wanted, as for training, or those of the present model.
    without : sequence of int
        Members that are not to be asked.
    leaving : sequence of int
        Members that are about to be removed, whatever they say.
    test : Records, optional
        Records on which every version is measured.
    secure_aggregation : bool, optional
        Whether sums are masked, so that only those over all sites are seen. None: as in the operation
        before. What was begun under masks goes on under masks until a training without them.
    """

    def __init__(
        self,
        grid: MessageGrid,
        store: CoordinatorStore,
        *,
        timeout: float = 60.0,
        patience: float = 30.0,
        everybody: bool = False,
        without: Sequence[int] = (),
        leaving: Sequence[int] = (),
        test: Records | None = None,
        secure_aggregation: bool | None = None,
    ) -> None:
        self.masked = store.masked if secure_aggregation is None else secure_aggregation
        if store.masked and not self.masked and not everybody:
            raise InputError(
                "the model was made under masks, and its sites' sums are not asked for in clear. Only a "
                "training can begin without them: `train --no-secure-aggregation`."
            )
        self._store = store
        self.notes: list[Note] = []
        self.valuations: list[Valuation] = []
        state = store.load()
        self.first = len(state.versions)
        """The number of the first version that is made here."""
        members = {m.site: m.node for m in store.members if m.node is not None}
        if not everybody and not state.versions:
            raise InputError("the federation has no model yet. Train it first.")
        wanted = {
            site: node
            for site, node in members.items()
            if site not in without and (everybody or site in state.model_sites)
        }
        if not wanted:
            raise InputError(
                "at least one site must be registered, got none. Use `epsilens federate register`."
            )
        if self.masked:
            store.remember_masks(masked=True)
        self.parties = DeployedParties(
            grid,
            store.schema,
            wanted,
            state=state,
            timeout=timeout,
            patience=patience,
            leaving=leaving,
            anew=everybody,
            masked=self.masked,
        )
        self.notes += self.parties.remarks
        for site, said in self.parties.words.items():
            told = f"site {site}, which leaves, is not believed: {said.rstrip('.')}"
            self._note("site-not-believed", told, str(site))
        begun = state.intention
        missing = self._missing_for(begun, state, leaving)
        state = replace(
            state,
            # Whoever has answered is told already; the others are told when they do.
            undelivered=False,
            # What has been drawn is spent, whatever comes of the operation.
            draws={**state.draws, **self.parties.known_draws()},
            ledger=tuple(self.parties.ledger()),
            # A change that is given up here is still asked for, and drawn, at its sites.
            intention=begun if missing is None else None,
        )
        store.keep(state)
        self.coordinator = Coordinator(
            store.schema,
            self.parties,
            regularisation=store.regularisation,
            test=test,
            state=state,
            keep=store.keep,
        )
        if begun is not None:
            self._finish(begun, missing)

    @property
    def versions(self) -> tuple[Version, ...]:
        """What has come of it: new versions, previews included."""
        return self.coordinator.versions[self.first :]

    def _missing_for(
        self, begun: Intention | None, state: CoordinatorState, leaving: Sequence[int]
    ) -> tuple[int, ...] | None:
        """Return which sites an interrupted operation misses, or None if it can be finished."""
        if begun is None or begun.operation == "preview":
            return ()
        if begun.operation == "remove":
            needed = set(state.model_sites) - set(begun.sites)
            if begun.rung == "one-message" and state.sums is not None:
                needed = set()
        else:
            needed = set(begun.sites)
            if begun.rung == "exact" or state.sums is None:
                needed |= set(state.model_sites)
            if needed & set(leaving):
                # No model follows the change of a site that is about to leave.
                return tuple(sorted(needed & set(leaving)))
        missing = needed - set(self.parties.numbers)
        return tuple(sorted(missing)) if missing else None

    def _finish(self, begun: Intention, missing: tuple[int, ...] | None) -> None:
        """Finish what was interrupted, or say that it is given up: no operation is in its way for good."""
        if begun.operation == "preview":
            return
        what = {"remove": "removal", "accept": "acceptance"}.get(begun.operation, "change")
        who = f"the {what} of {named(begun.sites)} that had been interrupted"
        if missing is not None:
            self._note(
                "operation-given-up",
                f"{who} is given up, since {named(missing)} cannot be asked: the model is as it was. "
                f"{_AGAIN[what]}, and nothing is spent twice",
            )
            return
        try:
            self.coordinator.resume()
        except (InputError, EstimateNotTrustworthyError) as error:
            self.coordinator.give_up()
            raise InputError(
                f"{who} could not be finished: {str(error).rstrip('.')}. It is given up, and the model is as "
                f"it was. {_AGAIN[what]}; nothing is spent twice."
            ) from None
        self._note("operation-finished", f"{who} is finished")

    # --- Operations ---

    def train(self, *, algorithm: Algorithm = "newton", at_least: int = 2) -> Version:
        """Train with the sites that answer; who stops answering is left out, and training begins again.

        Parameters
        ----------
        algorithm : {"newton", "fedavg"}
        at_least : int
            With fewer sites there is no training.

        Raises
        ------
        InputError
            If too few sites answer.
        """
        while True:
            n_there = len(self.parties.numbers)
            if n_there < at_least:
                raise InputError(
                    f"at least {at_least} sites must answer, but {n_there} did: {named(self.parties.absent)} "
                    "did not. The model is as it was; check that the sites run, or use `--at-least`."
                )
            try:
                version = self.coordinator.train(algorithm=algorithm)
                self._store.remember_masks(masked=self.masked)
            except SilentSitesError as silence:
                self.parties.set_aside(silence.sites)
                continue
            self._say_who_was_silent(
                self.parties.absent, "not part of this model, until the next training"
            )
            self._say_who_was_silent(self.parties.missed - set(self.parties.absent), _TOLD_LATER)
            return version

    def apply(
        self, *, rung: Rung = "one-message", preview: bool = False, without: Sequence[int] = ()
    ) -> tuple[Version, ...]:
        """Let the model follow what the sites have asked for, as one change for each mode.

        Parameters
        ----------
        rung : {"one-message", "newton", "exact"}
        preview : bool
            Whether to show only what would come of it.
        without : sequence of int
            Sites whose wishes wait.

        Returns
        -------
        tuple of Version
            Empty if no site asks for anything.
        """
        found: list[Version] = []
        modes: dict[Mode, dict[int, Budget]] = {}
        for site, wish in self.parties.wishes.items():
            if site not in without:
                modes.setdefault(wish.mode, {})[site] = wish.budget
        for mode, budgets in modes.items():
            if found and not set(self._state.model_sites) <= set(self.parties.numbers):
                # Who has not heard of the version just made would answer from the old draw.
                self._note(
                    "change-waits",
                    f"the change of {named(sorted(budgets))} by `{mode}` waits until all sites have that "
                    "version",
                )
                continue
            self._require_for(rung)
            if not preview:
                found.append(self.coordinator.change(budgets, mode=mode, rung=rung))
            elif mode == "degrade":
                found.append(self.coordinator.preview(budgets, rung=rung))
            else:
                self._note(
                    "no-preview",
                    f"no preview for {named(sorted(budgets))}: by `{mode}` it would come from the true "
                    "answers",
                )
        silent = {*self.parties.absent, *self.parties.missed}
        self._say_who_was_silent(silent, _TOLD_LATER if self.versions else "perhaps with a wish")
        return tuple(found)

    def remove(self, sites: Sequence[int], *, rung: Rung = "newton") -> Version:
        """Take sites out of the model, whether they answer or not.

        Parameters
        ----------
        sites : sequence of int
        rung : {"one-message", "newton", "exact"}
            As `Coordinator.remove` takes it: the first asks nobody if the sums are here, the others ask all
            who stay.
        """
        leaving = tuple(sorted(set(sites)))
        for version in self.versions:
            if version.operation == "remove" and version.sites == leaving:
                return version  # it had been interrupted, and is finished
        known = self._state.model_sites
        for site in leaving:
            if site not in known:
                raise InputError(
                    f"site {site} is not in the model. There are: {', '.join(map(str, known))}."
                )
        if rung == "exact":
            # Nothing of them is needed, and what they would say need not be true.
            self.parties.set_aside(leaving)
        self._require_for(rung, leaving=leaving)
        version = self.coordinator.remove(leaving, rung=rung)
        silent = {*self.parties.absent, *self.parties.missed}
        self._say_who_was_silent(silent - set(leaving), _TOLD_LATER)
        return version

    def value(
        self,
        provider: int,
        tester: int,
        *,
        mode: ValueMode = "items",
        items: int | None = None,
        accept: bool = False,
    ) -> Valuation:
        """Find out what a site's records are worth on another's.

        Parameters
        ----------
        provider, tester, mode, items, accept
            As `epsilens.federated.valuing.value` takes them.
        """
        self.parties.require({provider, tester} & set(self._state.model_sites))
        known = {i: self.parties.standing(i).insists for i in self.parties.numbers}
        if known.get(provider) and (accept or mode == "batch"):
            what = "accept its offer" if accept else "value its records as one batch"
            raise InputError(
                f"site {provider} insists on masks, and to {what} its own sums would have to be seen in clear. "
                "Value it by `--mode items` without `--accept`; or let the site start with "
                "`--no-insist-on-masks`."
            )
        self._require_for("newton")
        found = value(
            self.coordinator,
            GridExchange(self.parties),
            provider=provider,
            tester=tester,
            mode=mode,
            items=items,
            accept=accept,
        )
        self.valuations.append(found)
        self._say_who_was_silent(self.parties.missed, _TOLD_LATER)
        return found

    def _require_for(self, rung: Rung, *, leaving: Sequence[int] = ()) -> None:
        """Refuse to go on without a site whose sums are needed and are not here."""
        asks_again = leaving and rung == "newton"
        if asks_again or rung == "exact" or self._state.sums is None:
            self.parties.require(set(self._state.model_sites) - set(leaving))

    def _say_who_was_silent(self, sites: Iterable[int], then: str) -> None:
        refused = {
            i: said for i, said in self.parties.words.items() if i in self._state.model_sites
        }
        silent = sorted(set(sites) - set(refused))
        if silent:
            self._note("site-silent", f"{named(silent)} did not answer: {then}")
        for site, said in refused.items():
            told = f"site {site} has not taken the new version: {said.rstrip('.')}"
            self._note("version-not-taken", told, str(site))

    def _note(self, code: str, text: str, subject: str | None = None) -> None:
        note = Note(code, text, subject)
        if note not in self.notes:
            self.notes.append(note)

    @property
    def _state(self) -> CoordinatorState:
        return self.coordinator.state
