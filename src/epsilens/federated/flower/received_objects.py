# SPDX-License-Identifier: Apache-2.0
"""The parts of a reply as Flower carries them, checked before Flower puts them together.

An array travels in chunks and names those that it is made of. It may name one chunk a million times, so that
a small reply would fill the memory. What a part is, and how it is written, is the sender's too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from flwr.app import Array
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
)

LARGEST_ARRAYS = 2**31
"""Bytes of all arrays of a reply."""


def require_readable(contents: Mapping[str, bytes]) -> None:
    """Refuse parts that cannot be put together, or that become too large.

    Parameters
    ----------
    contents : mapping of str to bytes
        The parts of a reply by their names.

    Raises
    ------
    flwr.supercore.inflatable.inflatable_utils.ObjectPullError
        Flower takes the reply for one that never came.
    """
    parts = dict(contents)
    known: dict[str, InflatableObject] = {}
    name = next(iter(parts), "")
    try:
        if sum(_array_bytes(content, parts) for content in parts.values()) > LARGEST_ARRAYS:
            raise ValueError("too large")
        for name in contents:
            inflate_object_from_contents(name, parts, keep_object_contents=True, objects=known)
    except Exception as error:  # whatever the sender has made up
        raise ObjectPullError(name, f"not readable: {type(error).__name__}") from None


def _array_bytes(content: bytes, parts: Mapping[str, bytes]) -> int:
    """Return how many bytes an array becomes; 0 for parts of another kind."""
    kind, children, _ = get_object_head_values_from_object_content(content)
    if kind != Array.__qualname__:
        return 0
    chunks = json.loads(get_object_body(content, Array))["arraychunk_ids"]
    return sum(len(parts[children[place]]) for place in chunks)
