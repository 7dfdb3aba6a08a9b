# SPDX-License-Identifier: Apache-2.0
"""The messages of a valuation: models, encrypted questions and replies, moves and scores."""

from __future__ import annotations

from typing import TypeAlias

from flwr.app import RecordDict

from epsilens._types import FloatArray
from epsilens.errors import InputError
from epsilens.federated.flower.messages import Content, Setting, pack
from epsilens.federated.sums import upper_half, whole_of
from epsilens.valuation.batch_exchange import BatchMove
from epsilens.valuation.item_messages import EncryptedScores, EncryptedYardstick
from epsilens.valuation.model_moves import ModelForProvider, ModelForTester
from epsilens.valuation.score_rounding import RoundedScores

Parts: TypeAlias = tuple[dict[str, FloatArray], dict[str, Setting]]
"""Arrays and settings of a message, to be put together with others."""

MOST_PIECES = 10_000


def together(fingerprint: str, *parts: Parts, **settings: Setting) -> RecordDict:
    """Put several parts into one message."""
    arrays: dict[str, FloatArray] = {}
    said: dict[str, Setting] = {}
    for own_arrays, own_settings in parts:
        arrays |= own_arrays
        said |= own_settings
    return pack(fingerprint, arrays=arrays, **said, **settings)


def tester_parts(model: ModelForTester) -> Parts:
    """Write what a tester receives about the model."""
    return {"theta": model.theta, "scale": model.scale}, {"n_records": model.n_records}


def read_tester_model(content: Content, n_parameters: int) -> ModelForTester:
    """Read what `tester_parts` wrote."""
    return ModelForTester(
        content.vector("theta", n_parameters),
        content.vector("scale", n_parameters),
        content.setting("n_records", int),
    )


def provider_parts(model: ModelForProvider) -> Parts:
    """Write what a provider receives about the model, with the upper half of the inverse Hessian."""
    half = upper_half(model.inverse_hessian)
    arrays = {"theta": model.theta, "inverse_hessian": half, "penalty": model.own_penalty}
    return arrays, {"n_records": model.n_records}


def read_provider_model(content: Content, n_parameters: int) -> ModelForProvider:
    """Read what `provider_parts` wrote."""
    half = content.vector("inverse_hessian", n_parameters * (n_parameters + 1) // 2)
    return ModelForProvider(
        content.vector("theta", n_parameters),
        whole_of(half, n_parameters),
        content.setting("n_records", int),
        content.vector("penalty", n_parameters),
    )


def question_parts(question: EncryptedYardstick) -> Parts:
    """Write a tester's question."""
    settings: dict[str, Setting] = {
        "question_model": question.model,
        "question_key": question.key,
        "n_parameters": question.n_parameters,
        "items_per_ciphertext": question.items_per_ciphertext,
        "public_key": question.public_key,
        "rotation_keys": question.rotation_keys,
        "signer": question.signer,
        "signature": question.signature,
    }
    return {}, settings | _numbered("piece", question.pieces)


def read_question(content: Content) -> EncryptedYardstick:
    """Read what `question_parts` wrote."""
    return EncryptedYardstick(
        model=content.setting("question_model", str),
        key=content.setting("question_key", str),
        n_parameters=content.setting("n_parameters", int),
        items_per_ciphertext=content.setting("items_per_ciphertext", int),
        public_key=content.setting("public_key", bytes),
        rotation_keys=content.setting("rotation_keys", bytes),
        pieces=_read_numbered(content, "piece"),
        signer=content.setting("signer", bytes),
        signature=content.setting("signature", bytes),
    )


def reply_parts(reply: EncryptedScores) -> Parts:
    """Write a provider's reply."""
    settings: dict[str, Setting] = {
        "reply_model": reply.model,
        "reply_key": reply.key,
        "n_items": reply.n_items,
    }
    return {}, settings | _numbered("ciphertext", reply.ciphertexts)


def read_reply(content: Content) -> EncryptedScores:
    """Read what `reply_parts` wrote."""
    return EncryptedScores(
        model=content.setting("reply_model", str),
        key=content.setting("reply_key", str),
        n_items=content.setting("n_items", int),
        ciphertexts=_read_numbered(content, "ciphertext"),
    )


def move_parts(move: BatchMove) -> Parts:
    """Write the move of a batch."""
    return {"move": move.move}, {"move_model": move.model, "change": move.change}


def read_move(content: Content, n_parameters: int) -> BatchMove:
    """Read what `move_parts` wrote."""
    return BatchMove(
        content.setting("move_model", str),
        content.setting("change", str),  # type: ignore[arg-type]
        content.vector("move", n_parameters),
    )


def score_parts(scores: RoundedScores) -> Parts:
    """Write scores."""
    return {"scores": scores.scores}, {"resolution": float(scores.resolution)}


def read_scores(content: Content) -> RoundedScores:
    """Read what `score_parts` wrote."""
    found = content.arrays.get("scores")
    if found is None:
        raise InputError(f"{content.sender}: a message must have the array 'scores', got none.")
    return RoundedScores(found, content.setting("resolution", float))


def _numbered(name: str, parts: tuple[bytes, ...]) -> dict[str, Setting]:
    found: dict[str, Setting] = {f"{name}s": len(parts)}
    return found | {f"{name}-{i}": part for i, part in enumerate(parts)}


def _read_numbered(content: Content, name: str) -> tuple[bytes, ...]:
    n = content.setting(f"{name}s", int)
    if not 0 <= n <= MOST_PIECES:
        raise InputError(
            f"{content.sender}: a message must have at most {MOST_PIECES} ciphertexts, got {n}."
        )
    return tuple(content.setting(f"{name}-{i}", bytes) for i in range(n))
