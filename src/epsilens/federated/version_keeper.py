# SPDX-License-Identifier: Apache-2.0
"""What a coordinator keeps: the present model, every version, the sums it rests on, and who was told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_between
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.aggregate import Objective, Penalty
from epsilens.federated.change import Rung
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.ledger import LedgerEntry, Mode
from epsilens.federated.parties import TOGETHER, Clock, Parties
from epsilens.federated.sums import SiteSums, add_up
from epsilens.federated.training import Trained
from epsilens.federated.versions import CoordinatorState, Version

__all__ = ["VersionKeeper"]

FloatArray = NDArray[np.float64]

LARGEST_REGULARISATION = 1e6


class VersionKeeper:
    """Keeps the versions of a common model; `Coordinator` makes them.

    Parameters
    ----------
    schema, parties, regularisation, test, state, keep
        As `epsilens.federated.Coordinator` takes them.
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
        self._test = test
        self._state = CoordinatorState() if state is None else state
        self._keep_state = keep
        self._n_starts = 0
        # Who has left stays out, whoever else still knows them.
        returned = [i for i in self._state.left if i in parties.numbers]
        if returned:
            parties.leave(returned)

    # --- The present model ---

    @property
    def state(self) -> CoordinatorState:
        """What must be kept to go on later."""
        return self._state

    @property
    def versions(self) -> tuple[Version, ...]:
        """Every model until now, previews included."""
        return self._state.versions

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every release of every site, as they have reported it."""
        return self._state.ledger

    def note_ledger(self) -> None:
        """Keep what the sites have reported of releases that led to no version."""
        self._commit(ledger=tuple(self.parties.ledger()))

    def _commit(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        if self._keep_state is not None:
            self._keep_state(self._state)

    @property
    def theta(self) -> FloatArray:
        """The model in use."""
        if not self._applied:
            raise InputError("the federation has no model yet. Train it first.")
        return self._applied[-1].theta

    @property
    def present_version(self) -> int:
        """The number of the model in use; previews are none."""
        return self._applied[-1].version

    def present(self) -> Objective:
        """Return the objective at the present model; all sites are asked once after each change."""
        if self._state.sums is None:
            self._commit(sums=self.parties.sums(self.theta))
        return Objective(self.theta, add_up(self._sums.values()), self.penalty)

    @property
    def _sums(self) -> Mapping[int, SiteSums]:
        return self._state.sums or {}

    @property
    def _model_budgets(self) -> Mapping[int, Budget | None]:
        return self._state.model_budgets

    def _deliver_again(self) -> Version | None:
        """Send the last version once more, if it may not have reached everybody."""
        if not self._state.undelivered:
            return None
        last = self._applied[-1]
        self._deliver(_changed(last), last.theta, last.version)
        return last

    def _deliver(self, changed: Sequence[int], theta: FloatArray, version: int) -> None:
        self.parties.settle(changed, theta, version=version)
        draws = {**self._state.draws, **self.parties.known_draws()}
        self._commit(undelivered=False, draws=draws)

    @property
    def _applied(self) -> list[Version]:
        return [v for v in self._state.versions if v.operation != "preview"]

    def _known_alone(self, leaving: Sequence[int]) -> set[int]:
        """Return the sites whose sums are here for themselves, or for the leaving ones together."""
        begun = self._state.intention
        if TOGETHER not in self._sums:
            return set(self._sums)
        is_begun = begun is not None and begun.operation == "remove" and begun.sites == leaving
        return set(leaving) if is_begun and leaving[0] in self._sums else set()

    def _apart(self, leaving: Sequence[int]) -> Mapping[int, SiteSums]:
        """Return the sums with those of the leaving sites for themselves; asked for if need be.

        Several who leave under secure aggregation stand together under the first of them.
        """
        sums = self._sums
        if set(leaving) <= self._known_alone(leaving):
            return sums
        parts = self.parties.leaving_sums(self.theta, leaving)
        kept = add_up(sums.values()).without(add_up(parts.values()))
        return {TOGETHER: kept, **parts}

    def _keep(
        self,
        clock: Clock,
        *,
        sums: Mapping[int, SiteSums] | None,
        operation: Literal["train", "preview", "change", "remove", "accept"],
        mode: Mode | None,
        rung: Rung | None,
        sites: tuple[int, ...],
        theta: FloatArray,
        trained: Trained | None,
        rounds: int,
        advice: str,
        reason: str,
        budgets: Mapping[int, Budget | None],
        error: float | None = None,
    ) -> Version:
        """Write the new version down, then send it: killed between the two, it is sent again."""
        is_preview = operation == "preview"
        number = max(
            self.versions[-1].version if self.versions else -1, self.parties.latest_version()
        )
        number += 1
        loss, accuracy = self._tested(theta)
        before = self._applied[-1].theta if self._applied else None
        version = Version(
            version=number,
            operation=operation,
            mode=mode,
            rung=rung,
            sites=sites,
            theta=theta,
            model_budgets=dict(budgets),
            distance_to_previous=None if before is None else float(np.linalg.norm(theta - before)),
            predicted_error=error,
            advice=advice,
            reason=reason,
            converged=trained is not None and trained.converged,
            gradient_norm=None if trained is None else trained.gradient_norm,
            test_loss=loss,
            test_accuracy=accuracy,
            rounds=rounds,
            messages=clock.messages + (0 if is_preview else len(self.parties.numbers)),
            bytes=clock.bytes + (0 if is_preview else len(self.parties.numbers) * theta.nbytes),
            seconds=clock.seconds,
            masked=self.parties.masked,
        )
        changes: dict[str, Any] = {
            "versions": (*self.versions, version),
            "ledger": tuple(self.parties.ledger()),
            "intention": None,
        }
        if not is_preview:
            left = (*self._state.left, *sites) if operation == "remove" else self._state.left
            changes |= {"sums": sums, "model_budgets": dict(budgets), "left": left}
            changes |= {"undelivered": True}
        self._commit(**changes)
        if not is_preview:
            self._deliver(_changed(version), theta, number)
        return version

    def _tested(self, theta: FloatArray) -> tuple[float | None, float | None]:
        if self._test is None:
            return None, None
        s = self.schema.design(self._test).predict(theta)
        y = self.schema.labels(self._test)
        loss = float(self.schema.loss.value(s, y).mean())
        guess = (s[:, 0] > 0) if s.shape[1] == 1 else s.argmax(axis=1)
        return loss, float((guess == y).mean())


def _changed(version: Version) -> tuple[int, ...]:
    """Return the sites that take a new draw, or accepted records, into use with a version."""
    return version.sites if version.operation in {"change", "accept"} else ()
