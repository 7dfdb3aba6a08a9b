# SPDX-License-Identifier: Apache-2.0
"""The two sites of a valuation in this process: for studies and tests; messages are counted as if they travelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from epsilens._scratch import scratch_folder
from epsilens._types import FloatArray
from epsilens.federated.answer_limits import AnswerLimits
from epsilens.federated.local_parties import LocalParties
from epsilens.federated.parties import Traffic
from epsilens.federated.sums import upper_half
from epsilens.federated.value_service import ValueService
from epsilens.valuation.batch_exchange import BatchMove
from epsilens.valuation.item_messages import EncryptedScores, EncryptedYardstick
from epsilens.valuation.model_moves import Change, ModelForProvider, ModelForTester
from epsilens.valuation.score_rounding import RoundedScores


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

    def _service(self, site: int) -> ValueService:
        place = self._folder / f"site-{site}"
        if not place.exists():
            place.mkdir(mode=0o700)
            self._answer_limits.write(place)
        return ValueService(place, pinned=False)

    def _count(self, *parts: FloatArray | bytes | int) -> None:
        """Count a message."""
        sizes = [
            8 if isinstance(p, int) else p.nbytes if isinstance(p, np.ndarray) else len(p)
            for p in parts
        ]
        self.traffic.messages += 1
        self.traffic.bytes += sum(sizes)

    def question(
        self, tester: int, model: ModelForTester, *, provider: int
    ) -> tuple[EncryptedYardstick, int | None]:
        """Ask the tester for its encrypted question, and how many scores the provider may get."""
        self._count(model.theta, model.scale, model.n_records)
        site = self._parties.sites[tester]
        found, left = self._service(tester).question(site, model, provider=provider)
        self._count(found.public_key, found.rotation_keys, *found.pieces)
        return found, left

    def reply(
        self,
        provider: int,
        model: ModelForProvider,
        question: EncryptedYardstick,
        *,
        tester: int,
        n_items: int,
    ) -> tuple[EncryptedScores, Change]:
        """Hand the question to the provider and return its encrypted scores."""
        self._count(*_numbers(model), question.public_key, question.rotation_keys, *question.pieces)
        site = self._parties.sites[provider]
        found, change = self._service(provider).reply(
            site, model, question, tester=tester, n_items=n_items
        )
        self._count(*found.ciphertexts)
        return found, change

    def scores(
        self, tester: int, model: ModelForTester, reply: EncryptedScores, *, provider: int
    ) -> RoundedScores:
        """Hand the reply to the tester and return the scores."""
        self._count(model.theta, model.scale, model.n_records, *reply.ciphertexts)
        site = self._parties.sites[tester]
        found = self._service(tester).scores(site, model, reply, provider=provider)
        self._count(found.scores)
        return found

    def left(self, tester: int, *, provider: int) -> int | None:
        """Ask the tester how many scores the provider may still get; None: without end."""
        self._count(provider)
        left = self._service(tester).left(self._parties.sites[tester], provider=provider)
        self._count(-1 if left is None else left)
        return left

    def move(self, provider: int, model: ModelForProvider) -> BatchMove:
        """Ask the provider how the model would move with its batch."""
        self._count(*_numbers(model))
        found = self._service(provider).move(self._parties.sites[provider], model)
        self._count(found.move)
        return found

    def score_of(
        self, tester: int, model: ModelForTester, move: BatchMove, *, provider: int
    ) -> RoundedScores:
        """Ask the tester for the score of a batch."""
        self._count(model.theta, model.scale, model.n_records, move.move)
        site = self._parties.sites[tester]
        found = self._service(tester).score_of(site, model, move, provider=provider)
        self._count(found.scores)
        return found


def _numbers(model: ModelForProvider) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    return model.theta, upper_half(model.inverse_hessian), model.own_penalty, model.n_records


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
