# SPDX-License-Identifier: Apache-2.0
"""The sites as a coordinator reaches them by Flower's messages, all numbers under masks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epsilens.federated.declaration import FederationSchema
from epsilens.federated.flower.grid_parties import GridParties, MessageGrid
from epsilens.federated.masked_parties import SummedParties
from epsilens.federated.masked_sums import MaskedQuestion, SecureSums

__all__ = ["MaskedGridParties"]

MaskedArray = NDArray[np.uint64]


class MaskedGridParties(SummedParties, GridParties):
    """Sites behind Flower's grid whose coordinator sees sums over all of them only.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    schema : FederationSchema
    n_sites, timeout, patience
        As `GridParties` takes them.
    """

    def __init__(
        self,
        grid: MessageGrid,
        schema: FederationSchema,
        *,
        n_sites: int,
        timeout: float = 120.0,
        patience: float = 120.0,
    ) -> None:
        super().__init__(grid, schema, n_sites=n_sites, timeout=timeout, patience=patience)
        self._secure = SecureSums(self, schema)

    def keys(self, group: str, sites: Sequence[int]) -> dict[int, bytes]:
        """Ask sites for a fresh public key each."""
        found = self.ask("mask_key", {site: self.pack(group=group) for site in sites})
        return {site: content.setting("key", bytes) for site, content in found.items()}

    def answers(
        self, group: str, question: MaskedQuestion, *, keys: Mapping[int, bytes] | None
    ) -> dict[int, MaskedArray]:
        """Ask the sites of a group; with their `keys` for the first time."""
        known = {} if keys is None else {str(i): key.hex() for i, key in keys.items()}
        settings: dict[str, str | float | bool | bytes] = {
            "group": group,
            "number": question.number,
            "what": question.what,
            "hessian": question.hessian,
            "pending": json.dumps({str(i): True for i in question.pending}),
            "records": json.dumps({str(i): n for i, n in question.records.items()}),
            "keys": json.dumps(known),
        }
        contents = {
            site: self.pack({"theta": question.theta}, **settings) for site in question.records
        }
        found = {}
        for site, content in self.ask("masked", contents).items():
            data = content.setting("masked", bytes)
            # Eight bytes a number; other lengths do not fit the question and are refused there.
            found[site] = np.frombuffer(data[: len(data) // 8 * 8], dtype="<u8").astype(np.uint64)
            if keys is None:
                self._traffic.count(question.theta)
                self._traffic.count(found[site].view(np.float64))
        return found
