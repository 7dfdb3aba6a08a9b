# SPDX-License-Identifier: Apache-2.0
"""How a new model becomes a version: numbered, measured, written down, and sent until all sites have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epsilens._types import FloatArray
from epsilens.channels import Budget
from epsilens.federated.change import Rung, Trust
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.ledger import Mode
from epsilens.federated.parties import Clock, Parties
from epsilens.federated.training import Trained
from epsilens.federated.versions import CoordinatorState, Made, Version


@dataclass(frozen=True)
class NewModel:
    """What an operation has come to, before it is a version.

    Parameters
    ----------
    theta : array of shape (p,)
    model_budgets : mapping of site to Budget or None
        What it by itself guarantees to each site.
    advice, reason : str
    predicted_error : float, optional
    trained : Trained, optional
        The rounds with all sites that led to it; None: a single step.
    """

    theta: FloatArray = field(repr=False)
    model_budgets: Mapping[int, Budget | None]
    advice: str
    reason: str
    predicted_error: float | None = None
    trained: Trained | None = None

    @classmethod
    def judged(
        cls,
        theta: FloatArray,
        model_budgets: Mapping[int, Budget | None],
        trust: Trust,
        trained: Trained | None = None,
    ) -> NewModel:
        """Return a model with the statement about it."""
        return cls(theta, model_budgets, trust.advice, trust.reason, trust.predicted_error, trained)


class VersionKeeper:
    """Keeps a coordinator's state, and the sites up to date with its versions.

    Parameters
    ----------
    schema, parties, test, state, keep
        As `epsilens.federated.Coordinator` takes them.
    """

    def __init__(
        self,
        schema: FederationSchema,
        parties: Parties,
        *,
        test: Records | None,
        state: CoordinatorState,
        keep: Callable[[CoordinatorState], None] | None,
    ) -> None:
        self.state = state
        self._schema, self._parties, self._test, self._keep = schema, parties, test, keep

    def commit(self, **changes: Any) -> None:
        """Change parts of the state and keep it: a point from which an operation can be taken up again."""
        self.state = replace(self.state, **changes)
        if self._keep is not None:
            self._keep(self.state)

    def publish(
        self,
        new: NewModel,
        *,
        operation: Made,
        sites: tuple[int, ...],
        clock: Clock,
        mode: Mode | None = None,
        rung: Rung | None = None,
    ) -> Version:
        """Write the new version down, then send it: killed between the two, it is sent again.

        Parameters
        ----------
        new : NewModel
        operation : {"train", "preview", "change", "remove", "accept"}
            A preview is written down, and nobody is told.
        sites : tuple of int
            Who has trained, changed or left, or whose offer was accepted.
        clock : Clock
            Started with the operation.
        mode, rung
            Mode of a change, and `rung` of a change or a removal.
        """
        state, trained = self.state, new.trained
        is_preview = operation == "preview"
        latest = state.versions[-1].version if state.versions else -1
        loss, accuracy = self._tested(new.theta)
        before = state.applied[-1].theta if state.applied else None
        n_told = 0 if is_preview else len(self._parties.numbers)
        version = Version(
            version=max(latest, self._parties.latest_version()) + 1,
            operation=operation,
            mode=mode,
            rung=rung,
            sites=sites,
            theta=new.theta,
            model_budgets=dict(new.model_budgets),
            distance_to_previous=None
            if before is None
            else float(np.linalg.norm(new.theta - before)),
            predicted_error=new.predicted_error,
            advice=new.advice,
            reason=new.reason,
            converged=trained is not None and trained.converged,
            gradient_norm=None if trained is None else trained.gradient_norm,
            test_loss=loss,
            test_accuracy=accuracy,
            rounds=1 if trained is None else trained.rounds,
            messages=clock.messages + n_told,
            bytes=clock.bytes + n_told * new.theta.nbytes,
            seconds=clock.seconds,
            masked=self._parties.masked,
        )
        changes: dict[str, Any] = {
            "versions": (*state.versions, version),
            "ledger": tuple(self._parties.ledger()),
            "intention": None,
        }
        if not is_preview:
            changes |= {
                "sums": None if trained is None else trained.sums,
                "model_budgets": version.model_budgets,
                "left": (*state.left, *sites) if operation == "remove" else state.left,
                "undelivered": True,
            }
        self.commit(**changes)
        if not is_preview:
            self._deliver(version)
        return version

    def deliver_again(self) -> Version | None:
        """Send the last version once more, if it may not have reached everybody."""
        if not self.state.undelivered:
            return None
        self._deliver(self.state.applied[-1])
        return self.state.applied[-1]

    def _deliver(self, version: Version) -> None:
        self._parties.settle(version.changed_sites, version.theta, version=version.version)
        self.commit(undelivered=False, draws={**self.state.draws, **self._parties.known_draws()})

    def _tested(self, theta: FloatArray) -> tuple[float | None, float | None]:
        """Return loss and accuracy on the coordinator's own test records, if it has some."""
        if self._test is None:
            return None, None
        s = self._schema.design(self._test).predict(theta)
        y = self._schema.labels(self._test)
        loss = float(self._schema.loss.value(s, y).mean())
        guess = (s[:, 0] > 0) if s.shape[1] == 1 else s.argmax(axis=1)
        return loss, float((guess == y).mean())
