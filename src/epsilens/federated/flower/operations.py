# SPDX-License-Identifier: Apache-2.0
"""One operation of a coordinator, with its store and with the sites that are there.

Before it begins, what an earlier one had begun is finished or given up, and sites that were away are
told what they have missed. Killed at any point, the next operation goes on from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.change import Rung
from epsilens.federated.coordinator import Algorithm, Coordinator
from epsilens.federated.coordinator_store import CoordinatorStore
from epsilens.federated.declaration import Records
from epsilens.federated.flower.deployed_parties import DeployedParties, NoAnswer, named
from epsilens.federated.flower.grid_exchange import GridExchange
from epsilens.federated.flower.grid_parties import MessageGrid
from epsilens.federated.flower.masked_grid_parties import MaskedDeployedParties
from epsilens.federated.ledger import Mode
from epsilens.federated.valuing import Valuation, ValueMode, value
from epsilens.federated.versions import CoordinatorState, Intention, Version

__all__ = ["Lead", "model_sites"]

_TOLD_LATER = "told of the new version when back"


def model_sites(state: CoordinatorState) -> tuple[int, ...]:
    """Return the sites whose records are in the present model: the last training's, without who left."""
    trainings = [version for version in state.versions if version.operation == "train"]
    return tuple(i for i in trainings[-1].sites if i not in state.left) if trainings else ()


class Lead:
    """Leads the sites through one operation.

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
    test : Records, optional
        Records on which every version is measured.
    secure : bool
        Whether sums are masked, so that only those over all sites are seen.
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
        test: Records | None = None,
        secure: bool = False,
    ) -> None:
        self.notes: list[str] = []
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
            if site not in without and (everybody or site in model_sites(state))
        }
        if not wanted:
            raise InputError(
                "at least one site must be registered, got none. Use `epsilens federate register`."
            )
        kind = MaskedDeployedParties if secure else DeployedParties
        self.parties = kind(
            grid, store.schema, wanted, state=state, timeout=timeout, patience=patience
        )
        begun = state.intention
        can_finish = begun is not None and self._can_finish(begun)
        state = replace(
            state,
            # Whoever has answered is told already; the others are told when they do.
            undelivered=False,
            # A change that is given up here is still asked for, and drawn, at its sites.
            intention=begun if can_finish else None,
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
            self._finish(begun, can_finish=can_finish)

    @property
    def versions(self) -> tuple[Version, ...]:
        """What has come of it: new versions, previews included."""
        return self.coordinator.versions[self.first :]

    def _can_finish(self, begun: Intention) -> bool:
        is_there = set(begun.sites) <= set(self.parties.numbers)
        return begun.operation == "remove" or (begun.operation != "preview" and is_there)

    def _finish(self, begun: Intention, *, can_finish: bool) -> None:
        who = named(begun.sites)
        if can_finish:
            self._require_for(
                begun.rung, leaving=begun.sites if begun.operation == "remove" else ()
            )
            self.coordinator.resume()
            what = {"remove": "removal", "accept": "acceptance"}.get(begun.operation, "change")
            self.notes.append(f"the {what} of {who} that had been interrupted is finished")
        elif begun.operation == "change":
            self.notes.append(
                f"a change of {who} had been interrupted, and not all of them are there: it waits until "
                "they are. Nothing is spent twice"
            )

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
            except NoAnswer as silence:
                self.parties.set_aside(silence.sites)
                continue
            self._say_who_was_silent(
                self.parties.absent, "not part of this model, until the next training"
            )
            self._say_who_was_silent(self.parties.missed - set(self.parties.absent), _TOLD_LATER)
            return version

    def apply(self, *, rung: Rung = "one-message", preview: bool = False) -> tuple[Version, ...]:
        """Let the model follow what the sites have asked for, as one change for each mode.

        Parameters
        ----------
        rung : {"one-message", "newton", "exact"}
        preview : bool
            Whether to show only what would come of it.

        Returns
        -------
        tuple of Version
            Empty if no site asks for anything.
        """
        found = []
        modes: dict[Mode, dict[int, Budget]] = {}
        for site, wish in self.parties.wishes.items():
            modes.setdefault(wish.mode, {})[site] = wish.budget
        for mode, budgets in modes.items():
            self._require_for(rung)
            if not preview:
                found.append(self._change(budgets, mode, rung))
            elif mode == "degrade":
                found.append(self.coordinator.preview(budgets, rung=rung))
            else:
                self.notes.append(
                    f"no preview for {named(sorted(budgets))}: by `{mode}` it would come from the true "
                    "answers"
                )
        silent = {*self.parties.absent, *self.parties.missed}
        self._say_who_was_silent(silent, _TOLD_LATER if found else "perhaps with a wish")
        return tuple(found)

    def _change(self, budgets: Mapping[int, Budget], mode: Mode, rung: Rung) -> Version:
        return self.coordinator.change(budgets, mode=mode, rung=rung)

    def remove(self, sites: Sequence[int], *, rung: Rung = "newton") -> Version:
        """Take sites out of the model, whether they answer or not.

        Parameters
        ----------
        sites : sequence of int
        rung : {"newton", "exact"}
        """
        leaving = tuple(sorted(set(sites)))
        known = model_sites(self.coordinator.state)
        for site in leaving:
            if site not in known:
                raise InputError(
                    f"site {site} is not in the model. There are: {', '.join(map(str, known))}."
                )
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
        self.parties.require({provider, tester} & set(model_sites(self.coordinator.state)))
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
        if rung == "exact" or self.coordinator.state.sums is None:
            self.parties.require(set(model_sites(self.coordinator.state)) - set(leaving))

    def _say_who_was_silent(self, sites: Iterable[int], then: str) -> None:
        silent = sorted(sites)
        if silent:
            self.notes.append(f"{named(silent)} did not answer: {then}")
