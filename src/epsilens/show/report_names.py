# SPDX-License-Identifier: Apache-2.0
"""Names from the data as the page shows them: none can turn the numbers beside it around.

Some characters change the direction of what follows, and a name that holds one would mirror the
numbers of a sentence. They are shown as what they are; names in scripts that run from right to left
are set apart, as the element bdi does.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from epsilens.document import DecisionDocument, WhatIfDocument

__all__ = ["isolated", "readable_document", "readable_question", "undirected"]

_TURNING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2029])
"""Embeddings, overrides and isolates with their ends, and the end of a paragraph, which ends them."""
_MARKS = {code: f"⟨U+{code:04X}⟩" for code in _TURNING}
_LEFTWARDS = ("R", "AL", "AN")
_APART = "\u2068{}\u2069"


def undirected(text: str) -> str:
    r"""Show characters that turn the direction of a text as what they are.

    Examples
    --------
    >>> undirected("smokes\u202e")
    'smokes⟨U+202E⟩'
    """
    return text.translate(_MARKS)


def isolated(name: str) -> str:
    r"""Set a name apart, so that it cannot turn what stands beside it; ordinary names stay as they are.

    Examples
    --------
    >>> isolated("smokes"), isolated("\u05d0") == "\u2068\u05d0\u2069"
    ('smokes', True)
    """
    shown = undirected(name)
    runs_left = any(unicodedata.bidirectional(character) in _LEFTWARDS for character in shown)
    return _APART.format(shown) if runs_left else shown


def readable_document(
    document: WhatIfDocument | DecisionDocument,
) -> WhatIfDocument | DecisionDocument:
    r"""Give a copy of a document whose names and sentences keep their direction to themselves.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="a\u202e", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> readable_document(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                  cells=[cell])).cells[0].group
    'a⟨U+202E⟩'
    """
    changes: dict[str, Any] = {
        "notes": [replace(note, text=undirected(note.text)) for note in document.notes],
        "provenance": _readable_origin(document.provenance),
    }
    if isinstance(document, DecisionDocument):
        chosen, risk = document.recommendation, document.risk
        changes |= {
            "cost": readable_document(document.cost),
            "risk": risk.model_copy(
                update={
                    "provenance": _readable_origin(risk.provenance),
                    "protect": [isolated(name) for name in risk.protect],
                }
            ),
            "recommendation": chosen.model_copy(update={"sentence": undirected(chosen.sentence)}),
        }
        if document.lever is not None:
            masked = [isolated(name) for name in document.lever.masked]
            changes["lever"] = document.lever.model_copy(update={"masked": masked})
    else:
        for part in ("cells", "intervals"):
            changes[part] = [
                item.model_copy(update={"group": isolated(item.group)})
                for item in getattr(document, part)
            ]
    return document.model_copy(update=changes)


def readable_question(question: Mapping[str, object]) -> dict[str, object]:
    r"""Give a copy of a question whose names keep their direction to themselves.

    Examples
    --------
    >>> readable_question({"label": "smokes", "groups": {"a\u202e": "women"}})
    {'label': 'smokes', 'groups': {'a⟨U+202E⟩': 'women'}}
    """
    return {name: _readable(value) for name, value in question.items()}


def _readable_origin(origin: Any) -> Any:
    return origin.model_copy(update={"settings": _readable(origin.settings)})


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return isolated(value)
    if isinstance(value, Mapping):
        return {_readable(name): _readable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value
