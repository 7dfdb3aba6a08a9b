# SPDX-License-Identifier: Apache-2.0
"""The sites, as a coordinator reaches them: in this process or over a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilens.channels import Budget
from epsilens.federated.aggregate import Penalty
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.site import Wish
from epsilens.federated.sums import SiteSums

__all__ = ["Parties", "Traffic"]

FloatArray = NDArray[np.float64]


@dataclass
class Traffic:
    """Messages and the bytes of the numbers in them, both ways."""

    messages: int = 0
    bytes: int = 0

    def count(self, *arrays: FloatArray | None) -> None:
        """Count one message with these arrays in it."""
        self.messages += 1
        self.bytes += sum(array.nbytes for array in arrays if array is not None)


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

    def budgets(self) -> Mapping[int, Budget]:
        """Return the level of every site's present draw."""
        ...

    def sums(
        self, theta: FloatArray, *, hessian: bool = True, pending: Sequence[int] = ()
    ) -> Mapping[int, SiteSums]:
        """Ask every site for its sums; sites in `pending` count their prepared change."""
        ...

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> Mapping[int, tuple[FloatArray, int]]:
        """Ask every site to train for some steps."""
        ...

    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool, as_printed: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""
        ...

    def differences(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool
    ) -> Mapping[int, SiteSums]:
        """Ask sites for the one message of their prepared change."""
        ...

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use.

        Sent again with the same version it changes nothing.
        """
        ...

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""
        ...

    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""
        ...

    def ledger(self) -> Sequence[LedgerEntry]:
        """Return every release of every site, in order, of those who left too."""
        ...
