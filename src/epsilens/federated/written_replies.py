# SPDX-License-Identifier: Apache-2.0
"""Replies and moves as bytes, for a provider's own note of what it has told."""

from __future__ import annotations

import io

import numpy as np

from epsilens.valuation.batch_exchange import BatchMove
from epsilens.valuation.item_messages import EncryptedScores


def _written(head: list[str], parts: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, head=np.array(head), **parts)  # type: ignore[arg-type]
    return stream.getvalue()


def reply_bytes(reply: EncryptedScores) -> bytes:
    """Write a reply."""
    parts = {f"c{i}": np.frombuffer(c, dtype=np.uint8) for i, c in enumerate(reply.ciphertexts)}
    return _written([reply.model, reply.key, str(reply.n_items)], parts)


def read_reply(content: bytes) -> EncryptedScores:
    """Read what `reply_bytes` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        model, key, n_items = (str(text) for text in stored["head"])
        parts = [stored[f"c{i}"].tobytes() for i in range(len(stored.files) - 1)]
    return EncryptedScores(model, key, int(n_items), tuple(parts))


def move_bytes(move: BatchMove) -> bytes:
    """Write a move."""
    return _written([move.model, move.change], {"move": move.move})


def read_move(content: bytes) -> BatchMove:
    """Read what `move_bytes` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        model, change = (str(text) for text in stored["head"])
        return BatchMove(model, change, stored["move"])  # type: ignore[arg-type]
