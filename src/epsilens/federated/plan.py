# SPDX-License-Identifier: Apache-2.0
"""A list of operations for a coordinator, which can be written down and carried out elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from epsilens._types import Progress
from epsilens.channels import Budget
from epsilens.errors import InputError, setting
from epsilens.federated.change import Rung
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.ledger import Mode
from epsilens.federated.parties import require_part
from epsilens.federated.randomisation import EpsilonLike, as_budget, is_stricter
from epsilens.federated.sums import LARGEST_NUMBER_OF_PATTERNS
from epsilens.federated.training import Algorithm
from epsilens.federated.valuing import Exchange, Valuation, ValueMode, value
from epsilens.federated.written import budget_text, read_budget
from epsilens.notes import Note


@dataclass(frozen=True)
class PlannedOperation:
    """One thing for the coordinator to do.

    Parameters
    ----------
    operation : {"train", "preview", "change", "remove", "value"}
    budgets : mapping of site to Budget
        What the changing sites want.
    sites : tuple of int
        Who leaves; or provider and tester of a valuation.
    algorithm : {"newton", "fedavg"}
        Training algorithm.
    mode : {"degrade", "redraw", "as_printed"}
    rung : {"one-message", "newton", "exact"}
    value_mode : {"items", "batch"}
        Mode of a valuation.
    items : int, optional
        Items to be valued, at most.
    accept : bool
        Whether records on offer are taken in if they help.
    """

    operation: Literal["train", "preview", "change", "remove", "value"]
    budgets: Mapping[int, Budget] = field(default_factory=dict)
    sites: tuple[int, ...] = ()
    algorithm: Algorithm = "newton"
    mode: Mode = "degrade"
    rung: Rung = "one-message"
    value_mode: ValueMode = "items"
    items: int | None = None
    accept: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the operation for JSON."""
        budgets = {str(site): budget_text(b) for site, b in self.budgets.items()}
        return {**vars(self), "budgets": budgets, "sites": list(self.sites)}

    @classmethod
    def from_dict(cls, given: Mapping[str, object]) -> PlannedOperation:
        """Return the operation that `to_dict` describes.

        Examples
        --------
        >>> leaving = PlannedOperation("remove", sites=(4,), rung="newton")
        >>> PlannedOperation.from_dict(leaving.to_dict()) == leaving
        True
        """
        kept = dict(given)
        budgets: Mapping[str, str] = kept["budgets"]  # type: ignore[assignment]
        kept["budgets"] = {int(site): read_budget(text) for site, text in budgets.items()}
        kept["sites"] = tuple(kept["sites"])  # type: ignore[arg-type]
        return cls(**kept)  # type: ignore[arg-type]


def story(
    schema: FederationSchema,
    *,
    epsilon: EpsilonLike,
    n_sites: int,
    changes: Sequence[Mapping[int, float]] = (),
    remove: Sequence[int] = (),
    algorithm: Algorithm = "newton",
    mode: Mode = "degrade",
    rung: Rung = "one-message",
    values: Sequence[PlannedOperation] = (),
) -> tuple[tuple[PlannedOperation, ...], tuple[Note, ...]]:
    """Plan training, every change after its preview, and who leaves; refuse what cannot be.

    Parameters
    ----------
    schema : FederationSchema
    epsilon : float, mapping or Budget
        At which every site begins.
    n_sites : int
    changes : sequence of mapping of site to float
        Each is one operation, of one site or several.
    remove : sequence of int
        Sites that leave in the end, together.
    algorithm, mode, rung
        As `Coordinator.train` and `Coordinator.change` take them.
    values : sequence of PlannedOperation
        Valuations, after the changes and before anybody leaves.

    Returns
    -------
    operations : tuple of PlannedOperation
    notes : tuple of Note
        Which previews are left out, and why.

    Raises
    ------
    InputError
        If a site is unknown, an ε is looser than before in `degrade` mode, or nobody would stay.

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> steps, _ = story(schema, epsilon=3.0, n_sites=5, changes=[{2: 1.0}], remove=[4])
    >>> [step.operation for step in steps]
    ['train', 'preview', 'change', 'remove']
    """
    present = {site: as_budget(schema, epsilon) for site in range(n_sites)}
    operations = [PlannedOperation("train", algorithm=algorithm)]
    notes: list[Note] = []
    combinations = math.prod(k for name, k in schema.sizes.items() if name != schema.label.name)
    for change in changes:
        require_part(change, present)
        budgets = {site: as_budget(schema, wanted) for site, wanted in change.items()}
        stricter = all(is_stricter(budgets[site], present[site]) for site in budgets)
        if mode == "degrade" and not stricter:
            raise InputError(
                "a site can only become stricter by `degrade`: noise cannot be taken away. "
                f"Ask for a smaller {setting('epsilon')} than it has, or for the mode "
                "`redraw`."
            )
        planned = PlannedOperation("change", budgets, mode=mode, rung=rung, algorithm=algorithm)
        if mode == "as_printed":
            said = "no preview: the message as printed is the preview itself"
            notes.append(Note("no-preview", said))
        elif not stricter:
            said = "no preview of a looser epsilon: it would come from the true answers"
            notes.append(Note("no-preview", said))
        elif combinations > LARGEST_NUMBER_OF_PATTERNS:
            notes.append(
                Note(
                    "no-preview",
                    f"no preview: the protected features have {combinations} combinations of answers, "
                    f"more than {LARGEST_NUMBER_OF_PATTERNS}",
                )
            )
        else:
            operations.append(PlannedOperation("preview", budgets, rung=rung))
        operations.append(planned)
        present.update(budgets)
    for valuation in values:
        require_part(valuation.sites, present)
        operations.append(valuation)
    if remove:
        require_part(remove, present)
        if len(set(remove)) >= n_sites:
            raise InputError("at least one site must stay. Nothing is left to train on otherwise.")
        operations.append(
            PlannedOperation(
                "remove",
                sites=tuple(sorted(set(remove))),
                rung="exact" if rung == "exact" else "newton",
            )
        )
    return tuple(operations), tuple(dict.fromkeys(notes))


def carry_out(
    coordinator: Coordinator,
    operations: Sequence[PlannedOperation],
    *,
    progress: Progress | None = None,
    exchange: Exchange | None = None,
) -> tuple[Valuation, ...]:
    """Let a coordinator do what was planned; versions and ledger are with it afterwards.

    Parameters
    ----------
    coordinator : Coordinator
    operations : sequence of PlannedOperation
    progress : callable, optional
    exchange : Exchange, optional
        How the sites of a valuation are reached.

    Returns
    -------
    tuple of Valuation
        What the valuations gave, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.federated import DeclaredColumn, LocalParties, Records, Site
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 0], [1, 1]] * 20), np.empty((60, 0)))
    >>> sites = [Site(i, schema, records, epsilon=3.0, seed=i) for i in range(2)]
    >>> leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    >>> steps, _ = story(schema, epsilon=3.0, n_sites=2, changes=[{1: 1.0}], remove=[0])
    >>> carry_out(leader, steps)
    ()
    >>> [version.operation for version in leader.versions]
    ['train', 'preview', 'change', 'remove']
    """
    found = []
    for done, step in enumerate(operations):
        if step.operation == "train":
            coordinator.train(algorithm=step.algorithm)
        elif step.operation == "preview":
            coordinator.preview(step.budgets, rung=step.rung)
        elif step.operation == "change":
            coordinator.change(step.budgets, mode=step.mode, rung=step.rung)
        elif step.operation == "remove":
            coordinator.remove(step.sites, rung=step.rung)
        elif exchange is None:
            raise ValueError("a valuation needs an exchange")
        else:
            provider, tester = step.sites
            found.append(
                value(
                    coordinator,
                    exchange,
                    provider=provider,
                    tester=tester,
                    mode=step.value_mode,
                    items=step.items,
                    accept=step.accept,
                )
            )
        if progress is not None:
            progress(done + 1, len(operations), "operations")
    return tuple(found)
