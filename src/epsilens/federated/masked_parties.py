# SPDX-License-Identifier: Apache-2.0
"""Sites in this process that add up under masks, as they would over a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from epsilens._types import FloatArray, WordArray
from epsilens.errors import InputError
from epsilens.federated.aggregate import Penalty
from epsilens.federated.local_parties import LocalParties
from epsilens.federated.masked_sums import MaskedQuestion, Masking, SecureSums
from epsilens.federated.parties import TOGETHER
from epsilens.federated.site import Site
from epsilens.federated.sums import SiteSums


class SummedParties:
    """What changes for a coordinator when its sites add up under masks; put before their class."""

    masked = True
    """Sums over all sites are seen, and no single one's."""
    _secure: SecureSums

    if TYPE_CHECKING:

        def records(self) -> dict[int, int]:
            """Return how many records every site takes part with."""

    def sums(
        self, theta: FloatArray, *, hessian: bool = True, pending: Sequence[int] = ()
    ) -> dict[int, SiteSums]:
        """Ask all sites for the sum over them."""
        found = self._secure.ask("sums", theta, self.records(), hessian=hessian, pending=pending)
        return {TOGETHER: found}

    def differences(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool
    ) -> dict[int, SiteSums]:
        """Ask all sites for the sum of the changes of some."""
        found = self._secure.ask(
            "difference", theta, self.records(), hessian=hessian, pending=sites
        )
        return {TOGETHER: found}

    def leaving_sums(self, theta: FloatArray, sites: Sequence[int]) -> dict[int, SiteSums]:
        """Ask one who leaves for its sums; several for the sum over them."""
        if len(sites) == 1:
            return super().leaving_sums(theta, sites)  # type: ignore[misc,no-any-return]
        records = {i: n for i, n in self.records().items() if i in sites}
        return {min(sites): self._secure.ask("sums", theta, records)}

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, tuple[FloatArray, int]]:
        """Refuse: a site's own model would be seen."""
        raise InputError(
            "secure aggregation adds up gradients and Hessians, and federated averaging has neither. "
            "Use the algorithm `newton`."
        )


class MaskedLocalParties(SummedParties, LocalParties):
    """Sites that live in this process, and whose coordinator sees sums over all of them only.

    Parameters
    ----------
    sites : iterable of Site

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn, FederationSchema, Records
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> sites = [Site(i, schema, Records(np.array([[0, 1], [1, 0]]), np.empty((2, 0))), epsilon=3.0)
    ...          for i in range(3)]
    >>> found = MaskedLocalParties(sites).sums(np.zeros(2))
    >>> list(found) == [TOGETHER], found[TOGETHER].n
    (True, 6)
    >>> plain = sum(site.sums(np.zeros(2)).hessian for site in sites)
    >>> bool(np.abs(found[TOGETHER].hessian - plain).max() < 1e-12)
    True
    """

    def __init__(self, sites: Iterable[Site]) -> None:
        super().__init__(sites)
        schema = next(iter(self.sites.values())).schema
        self._parts: dict[tuple[str, int], Masking] = {}
        self._secure = SecureSums(self, schema)

    def keys(self, group: str, sites: Sequence[int]) -> dict[int, bytes]:
        """Ask sites for a fresh public key each."""
        for i in sites:
            self._parts[group, i] = Masking.begin()
        return {i: self._parts[group, i].public for i in sites}

    def answers(
        self, group: str, question: MaskedQuestion, *, keys: Mapping[int, bytes] | None
    ) -> dict[int, WordArray]:
        """Ask the sites of a group; with their `keys` for the first time."""
        found = {}
        for i in question.records:
            part = self._parts[group, i]
            if keys is not None:
                part = part.meet(i, keys)
            else:
                self._traffic.count(question.theta)
            found[i], self._parts[group, i] = part.answer(self.sites[i], question)
            if keys is None:
                self._traffic.count(found[i].view(np.float64))
        return found
