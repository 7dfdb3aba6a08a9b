# SPDX-License-Identifier: Apache-2.0
"""The messages of a valuation: models, encrypted questions and replies, moves and scores."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import numpy as np
from flwr.app import RecordDict

from epsilens._types import FloatArray
from epsilens._validate import as_choice
from epsilens.errors import InputError
from epsilens.federated.flower.grid_parties import GridParties
from epsilens.federated.flower.messages import Content, Setting, pack
from epsilens.federated.sums import upper_half, whole_of
from epsilens.federated.value_service import ValueQuery
from epsilens.valuation.answer_log import RoundedScores
from epsilens.valuation.batch_exchange import BatchMove
from epsilens.valuation.item_messages import EncryptedScores, EncryptedYardstick
from epsilens.valuation.model_moves import Change, ModelForProvider, ModelForTester

MOST_PIECES = 10_000
ASKED: dict[ValueQuery, tuple[type, ...]] = {
    "question": (ModelForTester,),
    "reply": (ModelForProvider, EncryptedYardstick),
    "scores": (ModelForTester, EncryptedScores),
    "left": (),
    "move": (ModelForProvider,),
    "score": (ModelForTester, BatchMove),
}
"""What goes to a site with a query."""
SETTINGS: dict[ValueQuery, tuple[str, ...]] = {
    "question": ("provider",),
    "reply": ("tester", "items"),
    "scores": ("provider",),
    "left": ("provider",),
    "move": (),
    "score": ("provider",),
}
"""The whole numbers beside it."""
ANSWERED: dict[ValueQuery, tuple[type, ...]] = {
    "question": (EncryptedYardstick, int),
    "reply": (EncryptedScores, str),
    "scores": (RoundedScores,),
    "left": (int,),
    "move": (BatchMove,),
    "score": (RoundedScores,),
}
"""What comes back; a whole number is how many scores are left, a word is the change that was valued."""
SPENDING: tuple[ValueQuery, ...] = ("reply", "scores", "move", "score")
"""Queries whose answer is a line in the site's ledger, which comes with it."""
_OF = {EncryptedYardstick: "question_", EncryptedScores: "reply_", BatchMove: "move_"}
"""Which model and which key it is."""
_PLAIN: dict[object, Any] = {"int": int, "float": float, "str": str, "bytes": bytes, "Change": str}
"""What is a setting by itself."""


def packed(fingerprint: str, *things: object, **settings: Setting) -> RecordDict:
    """Put several things into one message: rows of numbers as arrays, of a matrix its upper half."""
    arrays: dict[str, FloatArray] = {}
    for thing in things:
        if isinstance(thing, str):
            settings["change"] = thing
        elif thing is None or isinstance(thing, int):
            # −1: without end.
            settings["left"] = -1 if thing is None else max(thing, 0)
        else:
            for field in fields(thing):  # type: ignore[arg-type]
                name, value = _name(type(thing), field.name), getattr(thing, field.name)
                if isinstance(value, np.ndarray):
                    arrays[name] = upper_half(value) if value.ndim == 2 else value
                elif isinstance(value, tuple):
                    settings[name] = len(value)
                    settings |= {f"{name[:-1]}-{i}": part for i, part in enumerate(value)}
                else:
                    settings[name] = value
    return pack(fingerprint, arrays=arrays, **settings)


def read(kind: type, content: Content, n_parameters: int) -> Any:
    """Read a thing of this kind out of what `packed` wrote."""
    if kind is int:
        left = content.setting("left", int)
        return None if left < 0 else left
    if kind is str:
        return as_choice(content.setting("change", str), get_args(Change), name="change")
    found: dict[str, object] = {}
    for field in fields(kind):
        name = _name(kind, field.name)
        if field.type in _PLAIN:
            found[field.name] = content.setting(name, _PLAIN[field.type])
        elif field.type == "tuple[bytes, ...]":
            found[field.name] = _pieces(content, name)
        else:
            found[field.name] = _numbers(content, name, n_parameters)
    return kind(**found)


def _name(kind: type, name: str) -> str:
    return f"{_OF[kind]}{name}" if name in {"model", "key"} else name


def _pieces(content: Content, name: str) -> tuple[bytes, ...]:
    n = content.setting(name, int)
    if not 0 <= n <= MOST_PIECES:
        raise InputError(
            f"{content.sender}: a message must have at most {MOST_PIECES} ciphertexts, got {n}."
        )
    return tuple(content.setting(f"{name[:-1]}-{i}", bytes) for i in range(n))


def _numbers(content: Content, name: str, p: int) -> FloatArray:
    if name == "inverse_hessian":
        return whole_of(content.vector(name, p * (p + 1) // 2), p)
    if name != "scores":
        return content.vector(name, p)
    if name not in content.arrays:
        raise InputError(f"{content.sender}: a message must have the array 'scores', got none.")
    return content.arrays[name]


class GridExchange:
    """Relays a valuation between two sites behind Flower's grid.

    Parameters
    ----------
    parties : GridParties
    """

    def __init__(self, parties: GridParties) -> None:
        self._parties = parties
        self.traffic = parties.carried
        """All that Flower has carried."""

    def ask(self, query: ValueQuery, site: int, *said: object, **settings: int) -> Any:
        """Ask a site, and return what it answers."""
        schema = self._parties.schema
        content = packed(schema.fingerprint, *said, **settings)
        found = self._parties.ask(f"value_{query}", {site: content})[site]
        if query in SPENDING:
            self._parties.note_ledger(site, found)
        parts = [read(kind, found, schema.n_parameters) for kind in ANSWERED[query]]
        return parts[0] if len(parts) == 1 else tuple(parts)
