# SPDX-License-Identifier: Apache-2.0
"""What a site's records are worth on another site's records, led by the coordinator, who sees neither (P4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from epsilens._scratch import scratch_folder
from epsilens._types import FloatArray
from epsilens._validate import as_choice, as_count
from epsilens.errors import BudgetExceededError, InputError
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.parties import Clock, LocalParties, Traffic, require_part
from epsilens.federated.sums import Objective
from epsilens.federated.value_service import AnswerLimits, ValueQuery, ValueService
from epsilens.valuation.model_moves import Change, ModelForProvider

ValueMode: TypeAlias = Literal["items", "batch"]


@dataclass(frozen=True)
class Valuation:
    """What a coordinator learns about a provider's records.

    Parameters
    ----------
    provider, tester : int
        Sites, numbered from 0.
    mode : {"items", "batch"}
    change : {"add", "remove"}
        Whether the records are on offer, or in the model already.
    scores : array of shape (m,)
        By how much the tester's mean loss is lower with each item, or with the batch: positive helps.
    resolution : float
        The unit they are rounded to.
    n_items : int
        How many records the scores are about; in `batch` mode 0: the coordinator is not told.
    version : int
        Version of the model.
    n_parameters : int
        Numbers in the model.
    messages, bytes : int
        That the coordinator sent and received.
    seconds : float
    accepted : int or None
        The version that the offered records came in with.
    """

    provider: int
    tester: int
    mode: ValueMode
    change: Change
    scores: FloatArray = field(repr=False)
    resolution: float
    n_items: int
    version: int
    n_parameters: int
    messages: int
    bytes: int
    seconds: float
    accepted: int | None = None

    @property
    def total(self) -> float:
        """The sum of the scores."""
        return float(self.scores.sum())

    @property
    def n_harmful(self) -> int:
        """How many scores are below zero."""
        return int(np.count_nonzero(self.scores < 0))


def valuation_record(valuation: Valuation) -> dict[str, object]:
    """Return a valuation for JSON."""
    found: dict[str, object] = {n: getattr(valuation, n) for n in Valuation.__dataclass_fields__}
    return {**found, "scores": valuation.scores.tolist()}


def read_valuation(record: Mapping[str, Any]) -> Valuation:
    """Return the valuation that `valuation_record` describes."""
    return Valuation(**{**record, "scores": np.array(record["scores"], dtype=np.float64)})


class Exchange(Protocol):
    """The two sites of a valuation, as the coordinator reaches them; everything passes through it."""

    traffic: Traffic
    """What was sent until now."""

    def ask(self, query: ValueQuery, site: int, *said: object, **settings: int) -> Any:
        """Ask a site, and return what its `ValueService` answers."""
        ...


class LocalExchange:
    """Sites that live in this process; messages are counted as if they travelled.

    Parameters
    ----------
    parties : LocalParties
    folder : path
        Where each site's key and count are kept.
    answer_limits : AnswerLimits
        Limits of every site's answers.
    """

    def __init__(self, parties: LocalParties, folder: Path, answer_limits: AnswerLimits) -> None:
        self._parties, self._folder, self._answer_limits = parties, folder, answer_limits
        self.traffic = Traffic()

    def ask(self, query: ValueQuery, site: int, *said: object, **settings: int) -> Any:
        """Ask a site, and return what its `ValueService` answers."""
        place = self._folder / f"site-{site}"
        if not place.exists():
            place.mkdir(mode=0o700)
            self._answer_limits.write(place)
        self._count(said)
        service = ValueService(place, pinned=False)
        found = getattr(service, query)(self._parties.sites[site], *said, **settings)
        self._count(found if isinstance(found, tuple) else (found,))
        return found

    def _count(self, things: Sequence[object]) -> None:
        """Count a message: what it holds, or else one number."""
        sizes = [thing.n_bytes for thing in things if hasattr(thing, "n_bytes")]
        self.traffic.messages += 1
        self.traffic.bytes += sum(sizes) or 8


@contextmanager
def local_exchange(
    parties: LocalParties, answer_limits: AnswerLimits | None = None
) -> Iterator[LocalExchange]:
    """Let sites of this process value each other's records; keys and counts go with the block.

    Parameters
    ----------
    parties : LocalParties
    answer_limits : AnswerLimits, optional
        Limits of every site's answers.

    Yields
    ------
    LocalExchange

    Examples
    --------
    See `epsilens.federated.value`.
    """
    with scratch_folder() as folder:
        yield LocalExchange(parties, folder, answer_limits or AnswerLimits())


def model_for_provider(present: Objective) -> ModelForProvider:
    """Return what the coordinator tells a provider: the model, its inverse Hessian, N and the penalty.

    Parameters
    ----------
    present : Objective
        At the present model, Hessian included, over all sites.

    Returns
    -------
    ModelForProvider

    Examples
    --------
    >>> from epsilens.federated import Penalty, SiteSums
    >>> sums = SiteSums(4, 2.0, np.zeros(2), np.eye(2))
    >>> model = model_for_provider(Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True)))
    >>> model.n_records, model.penalty.tolist()
    (4, [0.1, 0.0])
    """
    penalty = present.penalty
    own = np.full((penalty.n_outputs, penalty.n_features), penalty.strength)
    if penalty.intercept:
        own[:, -1] = 0.0
    inverse = present.curvature().solve(np.eye(len(present.theta)))
    return ModelForProvider(present.theta, 0.5 * (inverse + inverse.T), present.sums.n, own.ravel())


def value(
    coordinator: Coordinator,
    exchange: Exchange,
    *,
    provider: int,
    tester: int,
    mode: ValueMode = "items",
    items: int | None = None,
    accept: bool = False,
) -> Valuation:
    """Find out what a site's records are worth on another's, at the present model.

    Parameters
    ----------
    coordinator : Coordinator
        With a model.
    exchange : Exchange
    provider, tester : int
        Whose records are valued, and on whose.
    mode : {"items", "batch"}
        A score for each record, under encryption; or one for all together, whose move of the model
        the coordinator sees (weak, see `epsilens.valuation.batch_exchange`).
    items : int, optional
        At most so many; None: as many as the tester answers.
    accept : bool
        Whether all records on offer are taken into the model if those that were scored help together.

    Returns
    -------
    Valuation

    Raises
    ------
    InputError
        If the two are one, a site does not take part or refuses, or `accept` is asked for records that
        are in the model already.
    BudgetExceededError
        If the tester has answered as often as it does.

    Examples
    --------
    >>> from epsilens.federated import (DeclaredColumn, FederationSchema, LocalParties, Records, Site,
    ...                                 local_exchange)
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 0], [1, 1]] * 20), np.empty((60, 0)))
    >>> sites = [Site(i, schema, records, epsilon=3.0, seed=i) for i in range(2)]
    >>> leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    >>> version = leader.train()
    >>> with local_exchange(leader.parties) as exchange:
    ...     found = value(leader, exchange, provider=0, tester=1, mode="batch")
    >>> found.change, found.messages, len(found.scores)
    ('remove', 6, 1)
    """
    as_choice(mode, get_args(ValueMode), name="mode")
    if items is not None:
        as_count(items, name="items")
    require_part((provider, tester), coordinator.parties.numbers)
    if provider == tester:
        raise InputError(
            f"provider and tester must be two sites, got {provider} twice. A site can value its own "
            "records at home: `epsilens value local`."
        )
    model, version = model_for_provider(coordinator.present()), coordinator.present_version
    told = model.for_tester()
    # What bringing the sums of all sites up to date costs is not part of the valuation.
    clock = Clock(exchange.traffic)
    if mode == "items":
        question, left = exchange.ask("question", tester, told, provider=provider)
        wanted = [n for n in (items, left) if n is not None]
        most = min(wanted) if wanted else int(coordinator.parties.records()[provider])
        reply, change = exchange.ask("reply", provider, model, question, tester=tester, items=most)
        _require_offer(provider, change, accept=accept)
        found = exchange.ask("scores", tester, told, reply, provider=provider)
        n_items = reply.n_items
        if len(found.scores) != n_items:
            raise InputError(f"site {tester} must give {n_items} scores, got {len(found.scores)}.")
    else:
        left = exchange.ask("left", tester, provider=provider)
        if left is not None and left < 1:
            # Before the provider has told anything in clear.
            raise BudgetExceededError(
                f"site {tester} has given all the scores that it gives to site {provider}. Its people may raise "
                "the limit: `epsilens federate site --score-limit`."
            )
        move = exchange.ask("move", provider, model)
        _require_offer(provider, move.change, accept=accept)
        found = exchange.ask("score", tester, told, move, provider=provider)
        change, n_items = move.change, 0
        if len(found.scores) != 1:
            raise InputError(f"site {tester} must give one score, got {len(found.scores)}.")
    took = clock.read()
    coordinator.note_ledger()
    accepted: int | None = None
    if accept and found.scores.sum() > 0:
        accepted = coordinator.accept(provider).version
    return Valuation(
        provider=provider,
        tester=tester,
        mode=mode,
        change=change,
        scores=found.scores,
        resolution=found.resolution,
        n_items=n_items,
        version=version,
        n_parameters=model.n_parameters,
        accepted=accepted,
        **took,
    )


def _require_offer(provider: int, change: Change, *, accept: bool) -> None:
    """Refuse to accept what is in the model, before the tester has counted a score for it."""
    if accept and change != "add":
        raise InputError(
            f"the records of site {provider} are in the model already; only records on offer can be "
            "accepted. Let the site join with an offer."
        )
