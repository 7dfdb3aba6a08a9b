# SPDX-License-Identifier: Apache-2.0
"""The versions of a common model, and what a coordinator must not forget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from epsilens._types import FloatArray
from epsilens.channels import Budget
from epsilens.federated.change import Rung
from epsilens.federated.ledger import LedgerEntry, Mode, common_epsilon
from epsilens.federated.site_state import SiteDraw
from epsilens.federated.sums import SiteSums

Made: TypeAlias = Literal["train", "preview", "change", "remove", "accept"]
"""The operations that lead to a version."""
Begun: TypeAlias = Literal["preview", "change", "remove", "accept"]
"""What is written down before it is done; training begins from nothing, and is not."""


@dataclass(frozen=True)
class Version:
    """A model that the coordinator has sent out, or previewed."""

    version: int
    operation: Made
    mode: Mode | None
    rung: Rung | None
    sites: tuple[int, ...]
    theta: FloatArray = field(repr=False)
    model_budgets: Mapping[int, Budget | None]
    distance_to_previous: float | None
    predicted_error: float | None
    advice: str
    reason: str
    converged: bool
    gradient_norm: float | None
    test_loss: float | None
    test_accuracy: float | None
    rounds: int
    messages: int
    bytes: int
    seconds: float
    masked: bool = False
    """Whether the coordinator saw sums over all sites only when it was made."""

    @property
    def model_epsilon(self) -> float | None:
        """What this model by itself guarantees to the sites of the operation, per protected column.

        The largest among these sites; 0 where nothing of a site is left in the model, None where a
        site's columns differ.
        """
        levels = []
        for site in self.sites:
            budget = self.model_budgets.get(site)
            levels.append(0.0 if budget is None else common_epsilon(budget))
        return None if None in levels else max(levels, default=None)  # type: ignore[type-var]

    @property
    def model_record_epsilon(self) -> float:
        """The same for a whole record: the sum over its columns."""
        budgets = [self.model_budgets.get(site) for site in self.sites]
        return max((0.0 if b is None else b.per_record for b in budgets), default=0.0)

    @property
    def changed_sites(self) -> tuple[int, ...]:
        """The sites that take a new draw, or accepted records, into use with it."""
        return self.sites if self.operation in {"change", "accept"} else ()


@dataclass(frozen=True)
class Intention:
    """An operation that has begun: what is needed to begin it again."""

    operation: Begun
    sites: tuple[int, ...]
    budgets: tuple[Budget, ...]
    mode: Mode
    rung: Rung


@dataclass(frozen=True)
class CoordinatorState:
    """Everything that a coordinator must not forget, beside the contract.

    Parameters
    ----------
    versions : tuple of Version
    model_budgets : mapping of site to Budget or None
        What the present model by itself guarantees to each site.
    sums : mapping of site to SiteSums, or None
        Every site's sums at the present model, or None if nobody was asked since it moved.
    ledger : tuple of LedgerEntry
        As the sites have reported it.
    left : tuple of int
        Who has gone.
    intention : Intention or None
        What has begun and is not in `versions` yet.
    undelivered : bool
        Whether the last version may not have reached all sites.
    draws : mapping of site to SiteDraw
        By what each site's draw is known.

    Examples
    --------
    >>> CoordinatorState(left=(4,)).model_sites
    ()
    """

    versions: tuple[Version, ...] = ()
    model_budgets: Mapping[int, Budget | None] = field(default_factory=dict)
    sums: Mapping[int, SiteSums] | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    left: tuple[int, ...] = ()
    intention: Intention | None = None
    undelivered: bool = False
    draws: Mapping[int, SiteDraw] = field(default_factory=dict)

    @property
    def applied(self) -> tuple[Version, ...]:
        """The versions that were sent out as models; previews are none."""
        return tuple(version for version in self.versions if version.operation != "preview")

    @property
    def model_sites(self) -> tuple[int, ...]:
        """The sites whose records are in the present model: the last training's, without who left."""
        trainings = [version for version in self.versions if version.operation == "train"]
        return tuple(i for i in trainings[-1].sites if i not in self.left) if trainings else ()
