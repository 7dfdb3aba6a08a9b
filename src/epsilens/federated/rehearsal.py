# SPDX-License-Identifier: Apache-2.0
"""A federation on one machine, to see what it would do before anybody joins a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from epsilens._types import Progress
from epsilens._validate import as_choice, as_count
from epsilens.errors import InputError
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.parties import LocalParties, Traffic
from epsilens.federated.plan import PlannedOperation, carry_out
from epsilens.federated.randomisation import EpsilonLike
from epsilens.federated.site import Site
from epsilens.federated.value_service import AnswerLimits
from epsilens.federated.valuing import Valuation, local_exchange
from epsilens.federated.versions import Version

if TYPE_CHECKING:
    import pandas as pd


Skew: TypeAlias = Literal["none", "label"]


@dataclass(frozen=True)
class Rehearsal:
    """Who takes part with which records, and what is to happen.

    Parameters
    ----------
    schema : FederationSchema
        The contract.
    tables : tuple of pandas.DataFrame
        One for each site, as its own file would be.
    operations : tuple of PlannedOperation
    epsilon : float, mapping or Budget
        At which every site begins.
    regularisation : float
    test : Records, optional
        On which every version is measured.
    limit : float, optional
        The most that a record may spend at any site; None: what the first draw spends.
    seed : int, optional
        Seed of the sites' draws; None: the operating system's randomness.
    secure_aggregation : bool
        Whether the coordinator sees sums over all sites only.
    offers : mapping of site to float
        The share of its records that a site keeps out of the model and has on offer.
    answer_limits : AnswerLimits
        How many scores every site gives as a tester.
    """

    schema: FederationSchema
    tables: tuple[pd.DataFrame, ...] = field(repr=False)
    operations: tuple[PlannedOperation, ...]
    epsilon: EpsilonLike
    regularisation: float = 1e-3
    test: Records | None = field(default=None, repr=False)
    limit: float | None = None
    seed: int | None = None
    secure_aggregation: bool = False
    offers: Mapping[int, float] = field(default_factory=dict)
    answer_limits: AnswerLimits = field(default_factory=AnswerLimits)

    def site(self, number: int) -> Site:
        """Return a site with its first draw."""
        return Site(
            number,
            self.schema,
            self.schema.encode(self.tables[number]),
            epsilon=self.epsilon,
            limit=self.limit,
            seed=self.seed,
            offer=round(self.offers.get(number, 0.0) * len(self.tables[number])),
            # Whoever plans the published method has confirmed that it is not private.
            allow_as_printed=any(step.mode == "as_printed" for step in self.operations),
        )


@dataclass(frozen=True)
class Outcome:
    """What a federation has done.

    Parameters
    ----------
    versions : tuple of Version
    ledger : tuple of LedgerEntry
    carried : Traffic, optional
        What the transport has carried in all, its questions and confirmations included.
    valuations : tuple of Valuation
    """

    versions: tuple[Version, ...]
    ledger: tuple[LedgerEntry, ...]
    carried: Traffic | None = None
    valuations: tuple[Valuation, ...] = ()


def rehearse(rehearsal: Rehearsal, *, progress: Progress | None = None) -> Outcome:
    """Carry a federation out within this process, without Flower.

    Parameters
    ----------
    rehearsal : Rehearsal
    progress : callable, optional

    Returns
    -------
    Outcome

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.federated import DeclaredColumn, FederationSchema
    >>> from epsilens.federated.plan import story
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> table = pd.DataFrame({"sex": ["f", "m", "m"] * 20, "smokes": ["no", "yes", "no"] * 20})
    >>> steps, _ = story(schema, epsilon=3.0, n_sites=2, changes=[{1: 1.0}])
    >>> outcome = rehearse(Rehearsal(schema, (table, table), steps, 3.0, seed=0))
    >>> [version.operation for version in outcome.versions]
    ['train', 'preview', 'change']
    """
    sites = [rehearsal.site(number) for number in range(len(rehearsal.tables))]
    parties = LocalParties(sites, masked=rehearsal.secure_aggregation)
    coordinator = Coordinator(
        rehearsal.schema,
        parties,
        regularisation=rehearsal.regularisation,
        test=rehearsal.test,
    )
    with local_exchange(parties, rehearsal.answer_limits) as exchange:
        valuations = carry_out(
            coordinator, rehearsal.operations, progress=progress, exchange=exchange
        )
    return Outcome(tuple(coordinator.versions), tuple(parties.ledger()), valuations=valuations)


def divide(
    labels: Sequence[object] | pd.Series, *, n_sites: int, skew: Skew = "none", seed: int = 0
) -> list[NDArray[np.intp]]:
    """Divide rows among sites of equal size.

    Parameters
    ----------
    labels : sequence
        The label of each row.
    n_sites : int
    skew : {"none", "label"}
        At random; or sorted by label, so that most sites hold one label only, as in P2's study: none
        of them could train a useful model alone.
    seed : int

    Returns
    -------
    list of array of int
        The rows of each site.

    Raises
    ------
    InputError
        If there are more sites than rows.

    Examples
    --------
    >>> [sorted(rows.tolist()) for rows in divide(["b", "a", "b", "a"], n_sites=2, skew="label")]
    [[1, 3], [0, 2]]
    """
    import pandas as pd

    as_choice(skew, get_args(Skew), name="skew")
    count = as_count(n_sites, name="sites")
    n = len(labels)
    if n < count:
        raise InputError(
            f"every site must have at least one record, but {count} sites are to share {n}. Take "
            "fewer sites or more data."
        )
    order = np.random.default_rng(seed).permutation(n)
    if skew == "label":
        codes, _ = pd.factorize(pd.Series(labels), sort=True)
        order = order[np.argsort(codes[order], kind="stable")]
    return list(np.array_split(order, count))
