# SPDX-License-Identifier: Apache-2.0
"""The sites, as a coordinator reaches them: in this process or over a network."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from epsilens._types import FloatArray
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.aggregate import Penalty
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.site_draws import SiteDraw
from epsilens.federated.site_state import Wish
from epsilens.federated.sums import SiteSums

TOGETHER = -1
"""Stands, among sums by site, for all sites whose own sums nobody may see."""


class NoAnswerError(InputError):
    """A site did not answer, so nobody knows whether it has done what was asked."""


@dataclass
class Traffic:
    """Messages and the bytes of the numbers in them, both ways."""

    messages: int = 0
    bytes: int = 0

    def count(self, *arrays: FloatArray | None) -> None:
        """Count one message with these arrays in it."""
        self.messages += 1
        self.bytes += sum(array.nbytes for array in arrays if array is not None)


class Clock:
    """What an operation took: messages, bytes and seconds since its beginning."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._messages, self._bytes = traffic.messages, traffic.bytes
        self._began = time.perf_counter()

    @property
    def messages(self) -> int:
        """Messages since then."""
        return self._traffic.messages - self._messages

    @property
    def bytes(self) -> int:
        """Bytes since then."""
        return self._traffic.bytes - self._bytes

    @property
    def seconds(self) -> float:
        """Seconds since then."""
        return time.perf_counter() - self._began


class Parties(Protocol):
    """The sites, as the coordinator reaches them; `sites=None` means all."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sites that take part."""
        ...

    @property
    def traffic(self) -> Traffic:
        """What was sent until now."""
        ...

    @property
    def masked(self) -> bool:
        """Whether only sums over all sites are seen."""
        ...

    @property
    def deployed(self) -> bool:
        """Whether the sites are parties of their own, and not those of a rehearsal."""
        ...

    def budgets(self) -> Mapping[int, Budget]:
        """Return the level of every site's present draw."""
        ...

    def anchored(self) -> Mapping[int, bool]:
        """Say of which sites the present draw is known to be the last one from the true answers."""
        ...

    def latest_version(self) -> int:
        """Return the last version of a model that a site was notified of; −1 if none."""
        ...

    def known_draws(self) -> Mapping[int, SiteDraw]:
        """Return by what every site's draw is known."""
        ...

    def records(self) -> Mapping[int, int]:
        """Return how many records every site takes part with."""
        ...

    def sums(
        self, theta: FloatArray, *, hessian: bool = True, pending: Sequence[int] = ()
    ) -> Mapping[int, SiteSums]:
        """Ask every site for its sums; sites in `pending` count their prepared change.

        Under secure aggregation there is one entry, `TOGETHER`.
        """
        ...

    def leaving_sums(self, theta: FloatArray, sites: Sequence[int]) -> Mapping[int, SiteSums]:
        """Ask those who leave for their sums; under secure aggregation several give them together."""
        ...

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> Mapping[int, tuple[FloatArray, int]]:
        """Ask every site to train for some steps."""
        ...

    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""
        ...

    def differences(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool
    ) -> Mapping[int, SiteSums]:
        """Ask sites for the one message of their prepared change; or all sites for their sum."""
        ...

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use.

        Sent again with the same version it changes nothing.
        """
        ...

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""
        ...

    def submission(self, theta: FloatArray, site: int) -> SiteSums:
        """Ask a site for the sums of the records that it has on offer."""
        ...

    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""
        ...

    def ledger(self) -> Sequence[LedgerEntry]:
        """Return every release of every site, in order, of those who left too."""
        ...


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
