# SPDX-License-Identifier: Apache-2.0
"""The coordinator: trains with the sites, follows their changes, and lets them go.

It sees sums of randomised records, never a record. Each operation asks the sites (`Parties`: in this process,
by Flower), computes a new model by the plain functions beside it, and hands that to the `VersionKeeper`,
which holds what must not be forgotten: versions, the sums that the present model rests on, and the ledger as
the sites have reported it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_between, as_choice, as_count
from epsilens.channels import Budget
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.federated.change import (
    Rung,
    Trust,
    acceptance_step,
    change_step,
    first_removal,
    judge,
    judge_rounds,
    second_removal,
)
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.guarantee import after_exact, budgets_after, share_of_records
from epsilens.federated.ledger import LedgerEntry, Mode
from epsilens.federated.parties import TOGETHER, Clock, NoAnswerError, Parties, require_part
from epsilens.federated.randomisation import EpsilonLike, as_budget
from epsilens.federated.site_state import Wish
from epsilens.federated.sums import Objective, Penalty, SiteSums, add_up
from epsilens.federated.training import Algorithm, Trained, averaging_rounds, newton_rounds
from epsilens.federated.versions import CoordinatorState, Intention, Made, Version

LARGEST_REGULARISATION = 1e6
MOST_ROUNDS: dict[Algorithm, int] = {"newton": 25, "fedavg": 500}
START_SPREAD = 0.5
"""Standard deviation of the coefficients at which rounds under masks begin."""


class Coordinator:
    """Leads a federation through training, changes and removals.

    Parameters
    ----------
    schema : FederationSchema
    parties : Parties
        The sites.
    regularisation : float
        λ of the penalty ½λ‖θ‖² beside the mean loss; the intercept is free.
    test : Records, optional
        Records on which every version is measured.
    state : CoordinatorState, optional
        Where an earlier coordinator stopped; see `resume`.
    keep : callable, optional
        Called with the state at every point from which an operation can be taken up again: before the
        sites are asked, when the new version is made, and when all sites have it.

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn, LocalParties, Site
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 0], [1, 1]] * 20), np.empty((60, 0)))
    >>> sites = [Site(i, schema, records, epsilon=3.0, seed=i) for i in range(3)]
    >>> federation = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    >>> federation.train().converged, federation.change({2: 1.0}).model_epsilon
    (True, 3.0)
    >>> federation.change({1: 1.0}, rung="exact").model_epsilon, federation.remove([0]).sites
    (1.0, (0,))
    """

    def __init__(
        self,
        schema: FederationSchema,
        parties: Parties,
        *,
        regularisation: float = 1e-3,
        test: Records | None = None,
        state: CoordinatorState | None = None,
        keep: Callable[[CoordinatorState], None] | None = None,
    ) -> None:
        self.schema = schema
        self.parties = parties
        strength = 0.0
        if regularisation != 0:
            strength = as_between(
                regularisation, 0.0, LARGEST_REGULARISATION, name="regularisation"
            )
        self.penalty = Penalty(strength, schema.n_features, schema.loss.n_outputs, schema.intercept)
        self.state = CoordinatorState() if state is None else state
        """What must be kept to go on later."""
        self._test, self._keep = test, keep
        self._n_starts = 0
        # Who has left stays out, whoever else still knows them.
        returned = [i for i in self.state.left if i in parties.numbers]
        if returned:
            parties.leave(returned)

    # --- Where it stands ---

    @property
    def versions(self) -> tuple[Version, ...]:
        """Every model until now, previews included."""
        return self.state.versions

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every release of every site, as they have reported it."""
        return self.state.ledger

    def note_ledger(self) -> None:
        """Keep what the sites have reported of releases that led to no version."""
        self._commit(ledger=tuple(self.parties.ledger()))

    @property
    def theta(self) -> FloatArray:
        """The model in use."""
        return self._in_use.theta

    @property
    def present_version(self) -> int:
        """The number of the model in use; previews are none."""
        return self._in_use.version

    @property
    def _in_use(self) -> Version:
        if not self.state.applied:
            raise InputError("the federation has no model yet. Train it first.")
        return self.state.applied[-1]

    def present(self) -> Objective:
        """Return the objective at the present model; all sites are asked once after each change."""
        sums = self.state.sums
        if sums is None:
            sums = self.parties.sums(self.theta)
            self._commit(sums=sums)
        return Objective(self.theta, add_up(sums.values()), self.penalty)

    # --- After an interruption ---

    def resume(self) -> Version | None:
        """Finish what an earlier coordinator had begun when it stopped.

        A version that may not have reached all sites is sent again, which changes nothing at those
        that have it. An operation that had not led to a version is done again; the sites answer from
        the draws that they have kept, so nothing is spent twice.

        Returns
        -------
        Version or None
            The last version, if there was anything to finish.
        """
        sent = self._deliver_again()
        begun = self.state.intention
        if begun is None:
            return sent
        if begun.operation == "remove":
            return self.remove(begun.sites, rung=begun.rung)
        if begun.operation == "accept":
            return self.accept(begun.sites[0])
        return self._follow(
            dict(zip(begun.sites, begun.budgets, strict=True)),
            mode=begun.mode,
            rung=begun.rung,
            preview=begun.operation == "preview",
        )

    def give_up(self) -> None:
        """Forget an operation that has begun and led to no version; what it has spent stays spent."""
        self._commit(intention=None, ledger=tuple(self.parties.ledger()))

    def _begin(self, operation: str, sites: Collection[int]) -> None:
        """Finish what must be finished before another operation may begin."""
        self._deliver_again()
        begun = self.state.intention
        if begun is None or begun.operation != "remove":
            return
        if operation != "remove" or set(sites) != set(begun.sites):
            names = ", ".join(map(str, begun.sites))
            raise InputError(
                f"the removal of site {names} was interrupted and must be finished first. Call `resume`, "
                "or remove it again."
            )

    # --- Operations ---

    def train(
        self,
        *,
        algorithm: Algorithm = "newton",
        rounds: int | None = None,
        local_steps: int = 10,
        learning_rate: float | None = None,
        tolerance: float = 1e-10,
    ) -> Version:
        """Train the common model on the sites' randomised records.

        Parameters
        ----------
        algorithm : {"newton", "fedavg"}
        rounds : int, optional
            At most so many; 25 for newton, 500 for fedavg.
        local_steps : int
            Number of steps of federated averaging, at each site and round.
        learning_rate : float, optional
            Learning rate of federated averaging. None: one over the largest curvature that a site reports.
        tolerance : float
            On the norm of the gradient (newton) or of a round's move (fedavg).
        """
        as_choice(algorithm, get_args(Algorithm), name="algorithm")
        most = MOST_ROUNDS[algorithm] if rounds is None else as_count(rounds, name="rounds")
        self._begin("train", ())
        start, clock = self._start(), Clock(self.parties.traffic)
        if algorithm == "newton":
            trained = newton_rounds(
                self.parties.sums, start, self.penalty, rounds=most, tolerance=tolerance
            )
        else:
            trained = averaging_rounds(
                self.parties,
                start,
                self.penalty,
                rounds=most,
                local_steps=local_steps,
                learning_rate=learning_rate,
                tolerance=tolerance,
            )
        budgets = dict(self.parties.budgets())
        return self._publish(
            "train", self.parties.numbers, trained.theta, budgets, clock, trained, trained=trained
        )

    def preview(
        self,
        epsilon: Mapping[int, EpsilonLike],
        *,
        rung: Rung = "one-message",
        as_printed: bool = False,
    ) -> Version:
        """Estimate the model after sites change their ε, without a draw: the mean over the noise.

        Parameters
        ----------
        epsilon : mapping of site to float, mapping or Budget
        rung : {"one-message", "newton", "exact"}
        as_printed : bool
            Study the published message, which is not private; the sites must allow it.
        """
        mode: Mode = "as_printed" if as_printed else "degrade"
        return self._follow(epsilon, mode=mode, rung=rung, preview=True)

    def change(
        self,
        epsilon: Mapping[int, EpsilonLike],
        *,
        mode: Mode = "degrade",
        rung: Rung = "one-message",
    ) -> Version:
        """Let the model follow sites that change their ε.

        Parameters
        ----------
        epsilon : mapping of site to float, mapping or Budget
            The ε that each changing site wants.
        mode : {"degrade", "redraw", "as_printed"}
            Where the new draw comes from.
        rung : {"one-message", "newton", "exact"}
            One message from each changing site; the same with their Hessians; rounds with all sites
            until the model is what training on the new draws would give.
        """
        return self._follow(epsilon, mode=mode, rung=rung, preview=False)

    def _follow(
        self,
        epsilon: Mapping[int, EpsilonLike],
        *,
        mode: Mode,
        rung: Rung,
        preview: bool,
    ) -> Version:
        as_choice(rung, get_args(Rung), name="rung")
        as_choice(mode, get_args(Mode), name="mode")
        self._begin("change", epsilon)
        sites = self._require(epsilon)
        wanted = {i: as_budget(self.schema, epsilon[i]) for i in sites}
        clock = Clock(self.parties.traffic)
        present, before = self.present(), dict(self.parties.budgets())
        name: Literal["preview", "change"] = "preview" if preview else "change"
        begun = Intention(name, sites, tuple(wanted.values()), mode, rung)
        self._commit(intention=begun)
        budgets = budgets_after(
            self.state.model_budgets,
            before,
            wanted,
            mode=mode,
            rung=rung,
            preview=preview,
            anchored=self.parties.anchored(),
        )
        with self._taken_up_after_silence():
            wishes = {i: Wish(budget, mode) for i, budget in wanted.items()}
            self.parties.prepare(wishes, preview=preview)
            records = self.parties.records()
            share = share_of_records(self.schema, records, before, wanted, mode=mode)
            trained: Trained | None = None
            if rung == "exact":
                trained, trust = self._rounds(share, pending=sites)
                theta = trained.theta
            else:
                found = self.parties.differences(self.theta, sites, hessian=rung == "newton")
                step = change_step(present, found.values(), rung=rung)
                trust = judge(step, present, share_changed=share, rung=rung)
                theta = step.theta
        version = self._publish(
            name, sites, theta, budgets, clock, trust, trained=trained, mode=mode, rung=rung
        )
        if preview:
            self.parties.end_preview(sites)
        return version

    def remove(self, sites: Sequence[int], *, rung: Rung = "newton") -> Version:
        """Take sites out of the model: one Newton step on what is kept, a second, or `exact` rounds.

        Parameters
        ----------
        sites : sequence of int
            Who leaves. Their sums are forgotten.
        rung : {"one-message", "newton", "exact"}
            A step from what is here already, without asking anybody; a second one, for which those who
            stay are asked once; rounds to the end.
        """
        as_choice(rung, get_args(Rung), name="rung")
        self._begin("remove", sites)
        # A site that has gone already, or does not answer, can be taken out all the same.
        gone = [i for i in self.state.model_budgets if i not in self.state.left]
        leaving = self._require(set(sites), gone=gone)
        if not set(self.parties.numbers) - set(leaving):
            raise InputError("at least one site must stay. Nothing is left to train on otherwise.")
        clock = Clock(self.parties.traffic)
        silent = set(leaving) - set(self.parties.numbers) - self._known_apart(leaving)
        if silent and rung != "exact":
            raise InputError(
                f"site {min(silent)} does not answer, and its sums at the present model are not here. Use "
                "the rung `exact`, which asks the others only."
            )
        sums, single = self.state.sums, None
        if not silent:
            present = self.present()
            sums = self._sums_apart(present, leaving)
            single = first_removal(present, sums, leaving)
        self._commit(intention=Intention("remove", leaving, (), "degrade", rung), sums=sums)
        self.parties.leave(leaving)
        budgets, trained = dict(self.state.model_budgets), None
        with self._taken_up_after_silence():
            if single is None or rung == "exact":
                trained, trust = self._rounds(
                    math.nan if single is None else single[1].share_changed
                )
                staying = dict(self.parties.budgets())
                budgets = after_exact(budgets, staying, mode="degrade", changed=())
                budgets |= dict.fromkeys(leaving)
                theta = trained.theta
            else:
                step, trust = single
                if rung == "newton":
                    step, trust = second_removal(
                        step, self.parties.sums(step.theta), self.penalty, trust.share_changed
                    )
                theta = step.theta
        return self._publish(
            "remove", leaving, theta, budgets, clock, trust, trained=trained, rung=rung
        )

    def accept(self, provider: int) -> Version:
        """Take a site's offered records into the model by one Newton step (P4, "Maintaining the Hessian").

        Parameters
        ----------
        provider : int
            A site with records on offer; they take part from then on.
        """
        self._begin("accept", (provider,))
        sites, clock = self._require((provider,)), Clock(self.parties.traffic)
        present = self.present()
        self._commit(intention=Intention("accept", sites, (), "degrade", "newton"))
        with self._taken_up_after_silence():
            arriving = self.parties.submission(self.theta, provider)
            step, after = acceptance_step(present, [arriving])
            trust = judge(step, present, share_changed=arriving.n / after.sums.n, rung="newton")
        # Offered records were drawn with the others. Asked anew at the new model, the sites give better
        # sums than P4's running average.
        budgets = self.state.model_budgets
        return self._publish("accept", sites, step.theta, budgets, clock, trust, rung="newton")

    # --- Behind them ---

    def _known_apart(self, leaving: Sequence[int]) -> set[int]:
        """Return the sites whose sums are here for themselves, or for the leaving ones together."""
        begun, sums = self.state.intention, self.state.sums or {}
        if TOGETHER not in sums:
            return set(sums)
        is_begun = begun is not None and begun.operation == "remove" and begun.sites == leaving
        return set(leaving) if is_begun and leaving[0] in sums else set()

    def _sums_apart(self, present: Objective, leaving: Sequence[int]) -> Mapping[int, SiteSums]:
        """Return the sums with those of the leaving sites for themselves; asked for if need be.

        Several who leave under secure aggregation stand together under the first of them.
        """
        if self.state.sums is not None and set(leaving) <= self._known_apart(leaving):
            return self.state.sums
        parts = self.parties.leaving_sums(present.theta, leaving)
        return {TOGETHER: present.sums.without(add_up(parts.values())), **parts}

    def _rounds(self, share: float, *, pending: Sequence[int] = ()) -> tuple[Trained, Trust]:
        """Run rounds with all sites to the end, and say what is left of the error.

        They do not begin at the present model: nothing of an old draw is left in the new one.
        """
        trained = newton_rounds(
            lambda theta: self.parties.sums(theta, pending=pending), self._start(), self.penalty
        )
        return trained, judge_rounds(trained, share_changed=share)

    def _start(self) -> FloatArray:
        """Return where rounds begin: independent of all draws, and under masks never twice at one model.

        Sums at the same model over the same sites without one would give that one's away.
        """
        p = self.schema.n_parameters
        if not self.parties.masked:
            return np.zeros(p)
        # In a rehearsal, where nobody hides from anybody, the same numbers come again.
        self._n_starts += 1
        source = secrets.randbits(128) if self.parties.deployed else self._n_starts
        return np.random.default_rng(source).normal(0.0, START_SPREAD, p)

    @contextmanager
    def _taken_up_after_silence(self) -> Iterator[None]:
        """Keep what was begun if a site is silent, and give it up if one refuses or sends nonsense.

        After silence nobody knows what the site has done, and the operation can be taken up again. After
        a refusal there is nothing to take up: the model is as it was. What sites have drawn is in the
        ledger either way.
        """
        try:
            yield
        except NoAnswerError:
            self.note_ledger()
            raise
        except (InputError, EstimateNotTrustworthyError):
            self.give_up()
            raise

    def _require(self, sites: Collection[int], *, gone: Sequence[int] = ()) -> tuple[int, ...]:
        require_part(sites, {*self.parties.numbers, *gone})
        if not sites:
            raise InputError("at least one site must be named, got none.")
        return tuple(sorted(sites))

    # --- How a new model becomes a version ---

    def _commit(self, **changes: Any) -> None:
        """Change parts of the state and keep it: a point from which an operation can be taken up again."""
        self.state = replace(self.state, **changes)
        if self._keep is not None:
            self._keep(self.state)

    def _publish(
        self,
        operation: Made,
        sites: tuple[int, ...],
        theta: FloatArray,
        model_budgets: Mapping[int, Budget | None],
        clock: Clock,
        said: Trust | Trained,
        *,
        trained: Trained | None = None,
        mode: Mode | None = None,
        rung: Rung | None = None,
    ) -> Version:
        """Write the new version down, then send it: killed between the two, it is sent again.

        Parameters
        ----------
        operation : {"train", "preview", "change", "remove", "accept"}
            A preview is written down, and nobody is told.
        sites : tuple of int
            Who has trained, changed or left, or whose offer was accepted.
        theta : array of shape (p,)
        model_budgets : mapping of site to Budget or None
            What the model by itself guarantees to each site.
        clock : Clock
            Started with the operation.
        said : Trust or Trained
            The statement about it.
        trained : Trained, optional
            The rounds with all sites that led to it; None: a single step.
        mode, rung
            Mode of a change, and `rung` of a change or a removal.
        """
        state = self.state
        is_preview = operation == "preview"
        latest = state.versions[-1].version if state.versions else -1
        loss, accuracy = self._tested(theta)
        before = state.applied[-1].theta if state.applied else None
        n_told, took = 0 if is_preview else len(self.parties.numbers), clock.read()
        took["messages"] += n_told
        took["bytes"] += n_told * theta.nbytes
        version = Version(
            version=max(latest, self.parties.latest_version()) + 1,
            operation=operation,
            mode=mode,
            rung=rung,
            sites=sites,
            theta=theta,
            model_budgets=dict(model_budgets),
            distance_to_previous=None if before is None else float(np.linalg.norm(theta - before)),
            predicted_error=said.predicted_error if isinstance(said, Trust) else None,
            advice=said.advice,
            reason=said.reason,
            converged=trained is not None and trained.converged,
            gradient_norm=None if trained is None else trained.gradient_norm,
            test_loss=loss,
            test_accuracy=accuracy,
            rounds=1 if trained is None else trained.rounds,
            masked=self.parties.masked,
            **took,
        )
        changes: dict[str, Any] = {
            "versions": (*state.versions, version),
            "ledger": tuple(self.parties.ledger()),
            "intention": None,
        }
        if not is_preview:
            changes |= {
                "sums": None if trained is None else trained.sums,
                "model_budgets": version.model_budgets,
                "left": (*state.left, *sites) if operation == "remove" else state.left,
                "undelivered": True,
            }
        self._commit(**changes)
        if not is_preview:
            self._deliver(version)
        return version

    def _deliver_again(self) -> Version | None:
        """Send the last version once more, if it may not have reached everybody."""
        if not self.state.undelivered:
            return None
        self._deliver(self.state.applied[-1])
        return self.state.applied[-1]

    def _deliver(self, version: Version) -> None:
        self.parties.settle(version.changed_sites, version.theta, version=version.version)
        self._commit(undelivered=False, draws={**self.state.draws, **self.parties.known_draws()})

    def _tested(self, theta: FloatArray) -> tuple[float | None, float | None]:
        """Return loss and accuracy on the coordinator's own test records, if it has some."""
        if self._test is None:
            return None, None
        s = self.schema.design(self._test).predict(theta)
        y = self.schema.labels(self._test)
        loss = float(self.schema.loss.value(s, y).mean())
        guess = (s[:, 0] > 0) if s.shape[1] == 1 else s.argmax(axis=1)
        return loss, float((guess == y).mean())
