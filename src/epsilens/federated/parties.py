# SPDX-License-Identifier: Apache-2.0
"""The sites, as a coordinator reaches them: in this process or over a network."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from epsilens._types import FloatArray, WordArray
from epsilens._validate import require_unique
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.masked_sums import MaskedQuestion, Masking, SecureSums
from epsilens.federated.site import Site
from epsilens.federated.site_state import SiteDraw, Standing, Wish
from epsilens.federated.sums import Penalty, SiteSums, upper_half

Summed: TypeAlias = Literal["sums", "difference", "submit"]
"""What sums are asked for: at a model, of a prepared change, of the records on offer."""
TOGETHER = -1
"""Stands, among sums by site, for all sites whose own sums nobody may see."""


class NoAnswerError(InputError):
    """A site did not answer, so nobody knows whether it has done what was asked."""


@dataclass
class Traffic:
    """Messages and the bytes of the numbers in them, both ways."""

    messages: int = 0
    bytes: int = 0

    def count(self, *arrays: FloatArray | WordArray | None) -> None:
        """Count one message with these arrays in it."""
        self.messages += 1
        self.bytes += sum(array.nbytes for array in arrays if array is not None)


class Clock:
    """What an operation took: messages, bytes and seconds since its beginning."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._messages, self._bytes = traffic.messages, traffic.bytes
        self._began = time.perf_counter()

    def read(self) -> dict[str, Any]:
        """Return messages, bytes and seconds since then."""
        return {
            "messages": self._traffic.messages - self._messages,
            "bytes": self._traffic.bytes - self._bytes,
            "seconds": time.perf_counter() - self._began,
        }


class Parties(ABC):
    """The sites, as the coordinator reaches them; a kind of parties says how one is asked.

    Parameters
    ----------
    schema : FederationSchema
    masked : bool
        Whether sums over all sites are seen, and no single one's.
    """

    deployed = False
    """Whether the sites are parties of their own, and not those of a rehearsal."""

    def __init__(self, schema: FederationSchema, *, masked: bool = False) -> None:
        self.masked = masked
        self.traffic = Traffic()
        """What was sent until now."""
        self.schema = schema
        self._secure = SecureSums(self, schema)

    # --- Who takes part ---

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, ...]:
        """The sites that take part."""

    @abstractmethod
    def standing(self, site: int) -> Standing:
        """Return what is known of a site."""

    def budgets(self) -> dict[int, Budget]:
        """Return the level of every site's present draw."""
        return {i: self.standing(i).budget for i in self.numbers}

    def anchored(self) -> dict[int, bool]:
        """Say of which sites the present draw is known to be the last one from the true answers."""
        return {i: self.standing(i).anchored for i in self.numbers}

    def records(self) -> dict[int, int]:
        """Return how many records every site takes part with."""
        return {i: self.standing(i).n for i in self.numbers}

    def latest_version(self) -> int:
        """Return the last version of a model that a site was notified of; −1 if none."""
        return max((self.standing(i).version for i in self.numbers), default=-1)

    def known_draws(self) -> dict[int, SiteDraw]:
        """Return by what every site's draw is known."""
        known = {i: self.standing(i) for i in self.numbers}
        return {i: SiteDraw(site.draw, version=site.version) for i, site in known.items()}

    @abstractmethod
    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""

    @abstractmethod
    def ledger(self) -> list[LedgerEntry]:
        """Return every release of every site, in order, of those who left too."""

    # --- Sums ---

    @abstractmethod
    def ask_sums(
        self, query: Summed, theta: FloatArray, asked: Mapping[int, Mapping[str, bool]]
    ) -> dict[int, SiteSums]:
        """Ask sites for sums at a model, each with settings of its own."""

    @abstractmethod
    def keys(self, group: str, sites: Sequence[int]) -> dict[int, bytes]:
        """Ask sites for a fresh public key each."""

    @abstractmethod
    def answers(
        self, group: str, question: MaskedQuestion, *, keys: Mapping[int, bytes] | None
    ) -> dict[int, WordArray]:
        """Ask the sites of a group; with their `keys` for the first time."""

    def _counted_sums(
        self, query: Summed, theta: FloatArray, asked: Mapping[int, Mapping[str, bool]]
    ) -> dict[int, SiteSums]:
        found = self.ask_sums(query, theta, asked)
        for sums in found.values():
            if query != "difference":
                self.traffic.count(theta)
            # A Hessian is symmetric: half of it travels.
            half = None if sums.hessian is None else upper_half(sums.hessian)
            self.traffic.count(sums.gradient, half)
        return found

    def sums(
        self, theta: FloatArray, *, hessian: bool = True, pending: Sequence[int] = ()
    ) -> dict[int, SiteSums]:
        """Ask every site for its sums; sites in `pending` count their prepared change.

        Under secure aggregation there is one entry, `TOGETHER`.
        """
        if self.masked:
            records = self.records()
            found = self._secure.ask("sums", theta, records, hessian=hessian, pending=pending)
            return {TOGETHER: found}
        asked = {i: {"hessian": hessian, "pending": i in pending} for i in self.numbers}
        return self._counted_sums("sums", theta, asked)

    def leaving_sums(self, theta: FloatArray, sites: Sequence[int]) -> dict[int, SiteSums]:
        """Ask those who leave for their sums; under secure aggregation several give them together."""
        if self.masked and len(sites) > 1:
            records = {i: n for i, n in self.records().items() if i in sites}
            return {min(sites): self._secure.ask("sums", theta, records)}
        asked = {i: {"hessian": True, "pending": False} for i in sites}
        return self._counted_sums("sums", theta, asked)

    def differences(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool
    ) -> dict[int, SiteSums]:
        """Ask sites for the one message of their prepared change; or all sites for their sum."""
        if self.masked:
            records = self.records()
            found = self._secure.ask("difference", theta, records, hessian=hessian, pending=sites)
            return {TOGETHER: found}
        return self._counted_sums("difference", theta, {i: {"hessian": hessian} for i in sites})

    def submission(self, theta: FloatArray, site: int) -> SiteSums:
        """Ask a site for the sums of the records that it has on offer."""
        return self._counted_sums("submit", theta, {site: {}})[site]

    # --- Models ---

    @abstractmethod
    def ask_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, FloatArray]:
        """Ask every site to train for some steps."""

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, tuple[FloatArray, int]]:
        """Ask every site to train for some steps, and return its model and its number of records."""
        if self.masked:
            raise InputError(
                "secure aggregation adds up gradients and Hessians, and federated averaging has neither. "
                "Use the algorithm `newton`."
            )
        found = self.ask_steps(theta, steps=steps, learning_rate=learning_rate, penalty=penalty)
        for local in found.values():
            self.traffic.count(theta)
            self.traffic.count(local)
        return {i: (local, self.standing(i).n) for i, local in found.items()}

    # --- Changes ---

    @abstractmethod
    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""

    @abstractmethod
    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use.

        Sent again with the same version it changes nothing.
        """

    @abstractmethod
    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""


class LocalParties(Parties):
    """Sites that live in this process: for studies and tests; messages are counted as if they travelled.

    Parameters
    ----------
    sites : iterable of Site
    masked : bool
        Whether the coordinator sees sums over all sites only.
    """

    def __init__(self, sites: Iterable[Site], *, masked: bool = False) -> None:
        members = list(sites)
        if not members:
            raise InputError("a federation must have at least one site, got none.")
        require_unique([str(site.number) for site in members], what="sites")
        super().__init__(members[0].schema, masked=masked)
        self.sites = {site.number: site for site in members}
        self._left: list[Site] = []
        self._parts: dict[tuple[str, int], Masking] = {}

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sites that take part."""
        return tuple(self.sites)

    def standing(self, site: int) -> Standing:
        """Return what is known of a site: all of it."""
        return self.sites[site].standing

    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""
        # Asked again after an interruption, some may be gone already.
        self._left += [self.sites.pop(i) for i in sites if i in self.sites]

    def ledger(self) -> list[LedgerEntry]:
        """Return every release of every site."""
        everybody = sorted([*self.sites.values(), *self._left], key=lambda site: site.number)
        return [entry for site in everybody for entry in site.ledger]

    def ask_sums(
        self, query: Summed, theta: FloatArray, asked: Mapping[int, Mapping[str, bool]]
    ) -> dict[int, SiteSums]:
        """Ask sites for sums at a model."""
        return {i: getattr(self.sites[i], query)(theta, **how) for i, how in asked.items()}

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
            found[i], self._parts[group, i] = part.answer(self.sites[i], question)
        return found

    def ask_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, FloatArray]:
        """Ask every site to train for some steps."""
        return {
            i: site.local_steps(theta, steps=steps, learning_rate=learning_rate, penalty=penalty)
            for i, site in self.sites.items()
        }

    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""
        for i, wish in wishes.items():
            self.sites[i].prepare(wish, preview=preview)

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use."""
        for site in self.sites.values():
            self.traffic.count(theta)
            site.settle(version, changed=site.number in sites)

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""
        for i in sites:
            self.sites[i].end_preview()


class MaskedLocalParties(LocalParties):
    """Sites that live in this process, and whose coordinator sees sums over all of them only.

    Parameters
    ----------
    sites : iterable of Site

    Examples
    --------
    >>> import numpy as np
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
        super().__init__(sites, masked=True)


def require_part(sites: Collection[int], known: Collection[int]) -> None:
    """Refuse a site that is none of those that take part.

    Examples
    --------
    >>> require_part([7], range(3))
    Traceback (most recent call last):
    epsilens.errors.InputError: site 7 does not take part. Sites are numbered from 0: 0, 1, 2.
    """
    for site in sites:
        if site not in known:
            raise InputError(
                f"site {site} does not take part. Sites are numbered from 0: "
                f"{', '.join(map(str, sorted(known)))}."
            )
