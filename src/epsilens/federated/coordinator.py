# SPDX-License-Identifier: Apache-2.0
"""The coordinator: trains with the sites, follows their changes, and keeps versions and ledger.

It sees sums of randomised records, never a record. All arithmetic is in the plain functions beside it;
how messages travel (in this process, by Flower) is behind `Parties`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_between, as_choice, as_count
from epsilens.channels import Budget
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.federated.acceptance import acceptance_step
from epsilens.federated.aggregate import Objective
from epsilens.federated.change import Rung, Step, change_step, judge
from epsilens.federated.exact_trust import exact_trust, unconverged
from epsilens.federated.guarantee import after_change, after_exact, expected_share
from epsilens.federated.ledger import Mode
from epsilens.federated.parties import Clock, NoAnswerError
from epsilens.federated.randomisation import EpsilonLike, as_budget
from epsilens.federated.removal import first_removal, second_removal
from epsilens.federated.site_state import Wish
from epsilens.federated.sums import add_up
from epsilens.federated.training import Trained, federated_averaging, newton_rounds
from epsilens.federated.version_keeper import VersionKeeper
from epsilens.federated.versions import Intention, Version

__all__ = ["Coordinator"]

FloatArray = NDArray[np.float64]
Algorithm = Literal["newton", "fedavg"]

START_SPREAD = 0.5
"""Standard deviation of the coefficients at which rounds under masks begin."""


class Coordinator(VersionKeeper):
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
    """

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
        begun = self._state.intention
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

    def _begin(self, operation: str, sites: Mapping[int, object]) -> None:
        """Finish what must be finished before another operation may begin."""
        self._deliver_again()
        begun = self._state.intention
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
            Of federated averaging, at each site and round.
        learning_rate : float, optional
            Of federated averaging. None: one over the largest curvature that a site reports.
        tolerance : float
            On the norm of the gradient (newton) or of a round's move (fedavg).
        """
        as_choice(algorithm, ("newton", "fedavg"), name="algorithm")
        most = as_count(25 if algorithm == "newton" else 500, name="rounds")
        most = most if rounds is None else as_count(rounds, name="rounds")
        self._begin("train", {})
        start, clock = self._start(), Clock(self.parties.traffic)
        if algorithm == "newton":
            trained = newton_rounds(
                self.parties.sums, start, self.penalty, rounds=most, tolerance=tolerance
            )
            used = trained.rounds
        else:
            theta, used = self._average(start, most, local_steps, learning_rate, tolerance)
            trained = self._measured(theta, tolerance)
        reason = "" if trained.converged else unconverged(trained)
        return self._keep(
            clock,
            sums=trained.sums,
            budgets=dict(self.parties.budgets()),
            operation="train",
            mode=None,
            rung=None,
            sites=self.parties.numbers,
            theta=trained.theta,
            trained=trained,
            rounds=used,
            advice="accept" if trained.converged else "converge",
            reason=reason,
        )

    def _average(
        self, start: FloatArray, rounds: int, steps: int, rate: float | None, tolerance: float
    ) -> tuple[FloatArray, int]:
        if rate is None:
            curvatures = [
                float(np.linalg.eigvalsh(s.hessian)[-1]) / s.n
                for s in self.parties.sums(start).values()
                if s.hessian is not None
            ]
            # The curvature of these losses is largest where all predictors are zero.
            rate = 1.0 / (max(curvatures) + self.penalty.strength)
        learning_rate = as_between(rate, 1e-12, 1e12, name="learning_rate")

        def ask(theta: FloatArray) -> Mapping[int, tuple[FloatArray, int]]:
            return self.parties.local_steps(
                theta, steps=steps, learning_rate=learning_rate, penalty=self.penalty
            )

        return federated_averaging(ask, start, rounds=rounds, tolerance=tolerance)

    def _measured(self, theta: FloatArray, tolerance: float) -> Trained:
        sums = self.parties.sums(theta)
        objective = Objective(theta, add_up(sums.values()), self.penalty)
        norm = float(np.linalg.norm(objective.gradient))
        return Trained(theta, sums, objective, 1, norm <= max(tolerance, 1e-8))

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
        as_choice(rung, ("one-message", "newton", "exact"), name="rung")
        as_choice(mode, ("degrade", "redraw", "as_printed"), name="mode")
        self._begin("change", epsilon)
        sites = self._require(epsilon)
        wishes = {i: Wish(as_budget(self.schema, epsilon[i]), mode) for i in sites}
        clock = Clock(self.parties.traffic)
        present, before = self.present(), dict(self.parties.budgets())
        budget_list = tuple(wishes[i].budget for i in sites)
        name: Literal["preview", "change"] = "preview" if preview else "change"
        self._commit(intention=Intention(name, sites, budget_list, mode, rung))
        anchored = self.parties.anchored()
        with self._taken_up_after_silence():
            self.parties.prepare(wishes, preview=preview)
        share = self._share(wishes, before)
        trained: Trained | None = None
        with self._taken_up_after_silence():
            if rung == "exact":
                # Not from the present model: nothing of the old draw is left in the new one.
                trained = newton_rounds(
                    lambda theta: self.parties.sums(theta, pending=sites),
                    self._start(),
                    self.penalty,
                )
                step = Step(trained.theta, self.theta, trained.objective.curvature())
                trust = exact_trust(trained, step, share)
            else:
                found = self.parties.differences(self.theta, sites, hessian=rung == "newton")
                step = change_step(present, found.values(), rung=rung)
                trust = judge(step, present, share_changed=share, rung=rung)
        budgets = dict(self._model_budgets)
        for i in sites:
            budgets[i] = after_change(
                budgets.get(i),
                before[i],
                wishes[i].budget,
                mode=mode,
                rung=rung,
                preview=preview,
                anchored=anchored.get(i, False),
            )
        if rung == "exact" and not preview:
            levels = {i: wishes[i].budget if i in wishes else before[i] for i in before}
            budgets = after_exact(budgets, levels, mode=mode, changed=sites)
        version = self._keep(
            clock,
            sums=None if trained is None else trained.sums,
            operation=name,
            mode=mode,
            rung=rung,
            sites=sites,
            theta=step.theta,
            trained=trained,
            rounds=1 if trained is None else trained.rounds,
            advice=trust.advice,
            reason=trust.reason,
            error=trust.predicted_error,
            budgets=budgets,
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
        as_choice(rung, ("one-message", "newton", "exact"), name="rung")
        self._begin("remove", dict.fromkeys(sites))
        # A site that has gone already, or does not answer, can be taken out all the same.
        gone = [i for i in self._model_budgets if i not in self._state.left]
        leaving = self._require(dict.fromkeys(sites, None), gone=gone)
        if not set(self.parties.numbers) - set(leaving):
            raise InputError("at least one site must stay. Nothing is left to train on otherwise.")
        clock = Clock(self.parties.traffic)
        silent = set(leaving) - set(self.parties.numbers) - self._known_alone(leaving)
        if silent and rung != "exact":
            raise InputError(
                f"site {min(silent)} does not answer, and its sums at the present model are not here. Use "
                "the rung `exact`, which asks the others only."
            )
        sums, single = self._state.sums, None
        if not silent:
            present = self.present()
            sums = self._apart(leaving)
            single = first_removal(present, sums, leaving)
        budgets = dict(self._model_budgets)
        trained: Trained | None = None
        self._commit(intention=Intention("remove", leaving, (), "degrade", rung), sums=sums)
        self.parties.leave(leaving)
        with self._taken_up_after_silence():
            if single is None or rung == "exact":
                trained = newton_rounds(self.parties.sums, self._start(), self.penalty)
                share = math.nan if single is None else single[1].share_changed
                step = Step(trained.theta, self.theta, trained.objective.curvature())
                trust = exact_trust(trained, step, share)
                levels = dict(self.parties.budgets())
                budgets = after_exact(budgets, levels, mode="degrade", changed=())
                for i in leaving:
                    budgets[i] = None
            else:
                step, trust = single
                if rung == "newton":
                    step, trust = second_removal(
                        step, self.parties.sums(step.theta), self.penalty, trust.share_changed
                    )
        return self._keep(
            clock,
            sums=None if trained is None else trained.sums,
            operation="remove",
            mode=None,
            rung=rung,
            sites=leaving,
            theta=step.theta,
            trained=trained,
            rounds=1 if trained is None else trained.rounds,
            advice=trust.advice,
            reason=trust.reason,
            error=trust.predicted_error,
            budgets=budgets,
        )

    def accept(self, provider: int) -> Version:
        """Take a site's offered records into the model by one Newton step (P4, "Maintaining the Hessian").

        Parameters
        ----------
        provider : int
            A site with records on offer; they take part from then on.
        """
        self._begin("accept", {provider: None})
        sites, clock = self._require({provider: None}), Clock(self.parties.traffic)
        present = self.present()
        self._commit(intention=Intention("accept", sites, (), "degrade", "newton"))
        with self._taken_up_after_silence():
            arriving = self.parties.submission(self.theta, provider)
            step, after = acceptance_step(present, [arriving])
            trust = judge(step, present, share_changed=arriving.n / after.sums.n, rung="newton")
        return self._keep(
            clock,
            # Asked anew at the new model, the sites give better ones than P4's running average.
            sums=None,
            operation="accept",
            mode=None,
            rung="newton",
            sites=sites,
            theta=step.theta,
            trained=None,
            rounds=1,
            advice=trust.advice,
            reason=trust.reason,
            error=trust.predicted_error,
            # Offered records were drawn with the others.
            budgets=self._model_budgets,
        )

    # --- Behind them ---

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

    def _require(self, sites: Mapping[int, object], *, gone: Sequence[int] = ()) -> tuple[int, ...]:
        known = sorted({*self.parties.numbers, *gone})
        for site in sites:
            if site not in known:
                raise InputError(
                    f"site {site} does not take part. Sites are numbered from 0: "
                    f"{', '.join(map(str, known))}."
                )
        if not sites:
            raise InputError("at least one site must be named, got none.")
        return tuple(sorted(sites))

    def _share(self, wishes: Mapping[int, Wish], before: Mapping[int, Budget]) -> float:
        """Return the share of all records that are expected to change."""
        records = self.parties.records()
        changed = 0.0
        for i, wish in wishes.items():
            share = expected_share(self.schema, before[i], wish.budget, mode=wish.mode)
            changed += records[i] * share
        return changed / sum(records.values())
