# SPDX-License-Identifier: Apache-2.0
"""All sites in this process: for studies and tests; messages are counted as if they travelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from epsilens._types import FloatArray
from epsilens._validate import require_unique
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.aggregate import Penalty
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.parties import Traffic
from epsilens.federated.site import Site
from epsilens.federated.site_draws import SiteDraw
from epsilens.federated.site_state import Wish
from epsilens.federated.sums import SiteSums, upper_half


class LocalParties:
    """Sites that live in this process.

    Parameters
    ----------
    sites : iterable of Site
    """

    masked = False
    """Each site's sums are seen."""
    deployed = False
    """All parties are one's own."""

    def __init__(self, sites: Iterable[Site]) -> None:
        members = list(sites)
        if not members:
            raise InputError("a federation must have at least one site, got none.")
        require_unique([str(site.number) for site in members], what="sites")
        self.sites = {site.number: site for site in members}
        self._left: list[Site] = []
        self._traffic = Traffic()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sites that take part."""
        return tuple(self.sites)

    @property
    def traffic(self) -> Traffic:
        """What was sent until now."""
        return self._traffic

    def budgets(self) -> dict[int, Budget]:
        """Return the level of every site's present draw."""
        return {i: site.budget for i, site in self.sites.items()}

    def anchored(self) -> dict[int, bool]:
        """Say of which sites the present draw is the last one from the true answers."""
        return {i: site.is_anchored for i, site in self.sites.items()}

    def latest_version(self) -> int:
        """Return the last version of a model that a site was notified of."""
        return max(site.state.version for site in self.sites.values())

    def known_draws(self) -> dict[int, SiteDraw]:
        """Return by what every site's draw is known."""
        return {
            i: SiteDraw(site.state.draw_name, version=site.state.version)
            for i, site in self.sites.items()
        }

    def records(self) -> dict[int, int]:
        """Return how many records every site takes part with."""
        return {i: site.n for i, site in self.sites.items()}

    def sums(
        self, theta: FloatArray, *, hessian: bool = True, pending: Sequence[int] = ()
    ) -> dict[int, SiteSums]:
        """Ask every site for its sums."""
        found = {}
        for i, site in self.sites.items():
            self._traffic.count(theta)
            found[i] = site.sums(theta, hessian=hessian, pending=i in pending)
            self._count(found[i])
        return found

    def leaving_sums(self, theta: FloatArray, sites: Sequence[int]) -> dict[int, SiteSums]:
        """Ask those who leave for their sums."""
        found = {}
        for i in sites:
            self._traffic.count(theta)
            found[i] = self.sites[i].sums(theta)
            self._count(found[i])
        return found

    def _count(self, sums: SiteSums) -> None:
        # A Hessian is symmetric: half of it travels.
        half = None if sums.hessian is None else upper_half(sums.hessian)
        self._traffic.count(sums.gradient, half)

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, tuple[FloatArray, int]]:
        """Ask every site to train for some steps."""
        found = {}
        for i, site in self.sites.items():
            self._traffic.count(theta)
            local = site.local_steps(
                theta, steps=steps, learning_rate=learning_rate, penalty=penalty
            )
            self._traffic.count(local)
            found[i] = (local, site.n)
        return found

    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""
        for i, wish in wishes.items():
            self.sites[i].prepare(wish, preview=preview)

    def differences(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool
    ) -> dict[int, SiteSums]:
        """Ask sites for the one message of their prepared change."""
        found = {}
        for i in sites:
            found[i] = self.sites[i].difference(theta, hessian=hessian)
            self._count(found[i])
        return found

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use."""
        for site in self.sites.values():
            self._traffic.count(theta)
            site.settle(version, changed=site.number in sites)

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""
        for i in sites:
            self.sites[i].end_preview()

    def submission(self, theta: FloatArray, site: int) -> SiteSums:
        """Ask a site for the sums of the records that it has on offer."""
        self._traffic.count(theta)
        found = self.sites[site].submit(theta)
        self._count(found)
        return found

    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""
        # Asked again after an interruption, some may be gone already.
        self._left += [self.sites.pop(i) for i in sites if i in self.sites]

    def ledger(self) -> list[LedgerEntry]:
        """Return every release of every site."""
        everybody = sorted([*self.sites.values(), *self._left], key=lambda site: site.number)
        return [entry for site in everybody for entry in site.ledger]
