# SPDX-License-Identifier: Apache-2.0
"""The sites as a coordinator reaches them by Flower's messages, all numbers under masks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import RecordDict

from epsilens._types import FloatArray, WordArray
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.flower.deployed_parties import DeployedParties
from epsilens.federated.flower.grid_parties import GridParties
from epsilens.federated.flower.messages import Content
from epsilens.federated.masked_parties import SummedParties
from epsilens.federated.masked_sums import MaskedQuestion, SecureSums
from epsilens.federated.parties import Traffic


class MaskedMessages(SummedParties):
    """How the sites of a group are reached by messages; put before the class of the parties."""

    if TYPE_CHECKING:
        _schema: FederationSchema
        _traffic: Traffic

        def pack(
            self,
            arrays: Mapping[str, FloatArray] | None = None,
            **settings: str | float | bool | bytes,
        ) -> RecordDict:
            """Put settings and arrays into a message under the contract."""

        def ask(self, action: str, contents: Mapping[int, RecordDict]) -> dict[int, Content]:
            """Ask sites, and return every answer or the first refusal."""

    @cached_property
    def _secure(self) -> SecureSums:  # type: ignore[override]
        return SecureSums(self, self._schema)

    def keys(self, group: str, sites: Sequence[int]) -> dict[int, bytes]:
        """Ask sites for a fresh public key each."""
        found = self.ask("mask_key", {site: self.pack(group=group) for site in sites})
        return {site: content.setting("key", bytes) for site, content in found.items()}

    def answers(
        self, group: str, question: MaskedQuestion, *, keys: Mapping[int, bytes] | None
    ) -> dict[int, WordArray]:
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


class MaskedGridParties(MaskedMessages, GridParties):
    """Sites behind Flower's grid whose coordinator sees sums over all of them only."""


class MaskedDeployedParties(MaskedMessages, DeployedParties):
    """The same on machines of their own."""
