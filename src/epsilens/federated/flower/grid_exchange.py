# SPDX-License-Identifier: Apache-2.0
"""The two sites of a valuation as a coordinator reaches them by Flower's messages."""

from __future__ import annotations

from epsilens._validate import as_choice
from epsilens.federated.flower.grid_parties import GridParties
from epsilens.federated.flower.messages import Content, Setting
from epsilens.federated.flower.value_messages import (
    Parts,
    move_parts,
    provider_parts,
    question_parts,
    read_move,
    read_question,
    read_reply,
    read_scores,
    reply_parts,
    tester_parts,
    together,
)
from epsilens.federated.parties import Traffic
from epsilens.valuation.batch_exchange import BatchMove
from epsilens.valuation.item_messages import EncryptedScores, EncryptedYardstick
from epsilens.valuation.model_moves import Change, ModelForProvider, ModelForTester
from epsilens.valuation.score_rounding import RoundedScores


class GridExchange:
    """Relays a valuation between two sites behind Flower's grid.

    Parameters
    ----------
    parties : GridParties
    """

    def __init__(self, parties: GridParties) -> None:
        self._parties = parties

    @property
    def traffic(self) -> Traffic:
        """All that Flower has carried."""
        return self._parties.carried

    def _ask(self, site: int, action: str, *parts: Parts, **settings: Setting) -> Content:
        content = together(self._parties.fingerprint, *parts, **settings)
        return self._parties.ask(action, {site: content})[site]

    def question(
        self, tester: int, model: ModelForTester, *, provider: int
    ) -> tuple[EncryptedYardstick, int | None]:
        """Ask the tester for its encrypted question, and how many scores the provider may get."""
        found = self._ask(tester, "value_question", tester_parts(model), provider=provider)
        left = found.setting("left", int)
        return read_question(found), None if left < 0 else left

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
        parts = provider_parts(model), question_parts(question)
        found = self._ask(provider, "value_reply", *parts, tester=tester, items=n_items)
        self._parties.note_ledger(provider, found)
        change: Change = as_choice(  # type: ignore[assignment]
            found.setting("change", str), ("add", "remove"), name="change"
        )
        return read_reply(found), change

    def scores(
        self, tester: int, model: ModelForTester, reply: EncryptedScores, *, provider: int
    ) -> RoundedScores:
        """Hand the reply to the tester and return the scores."""
        parts = tester_parts(model), reply_parts(reply)
        found = self._ask(tester, "value_scores", *parts, provider=provider)
        self._parties.note_ledger(tester, found)
        return read_scores(found)

    def left(self, tester: int, *, provider: int) -> int | None:
        """Ask the tester how many scores the provider may still get; None: without end."""
        left = self._ask(tester, "value_left", provider=provider).setting("left", int)
        return None if left < 0 else left

    def move(self, provider: int, model: ModelForProvider) -> BatchMove:
        """Ask the provider how the model would move with its batch."""
        found = self._ask(provider, "value_move", provider_parts(model))
        self._parties.note_ledger(provider, found)
        return read_move(found, model.n_parameters)

    def score_of(
        self, tester: int, model: ModelForTester, move: BatchMove, *, provider: int
    ) -> RoundedScores:
        """Ask the tester for the score of a batch."""
        parts = tester_parts(model), move_parts(move)
        found = self._ask(tester, "value_score", *parts, provider=provider)
        self._parties.note_ledger(tester, found)
        return read_scores(found)
