# SPDX-License-Identifier: Apache-2.0
"""Parts of a reply that nobody could put together, or that would fill the memory."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord
from flwr.supercore.inflatable.inflatable_object import (
    add_header_to_object_body,
    get_object_body,
    get_object_id,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

from epsilens.federated.flower.link import require_readable
from epsilens.federated.flower.messages import pack


def parts_of(thing: object) -> dict[str, bytes]:
    """A thing and all that it is made of, as they travel."""
    found = {}
    for child in (thing.children or {}).values():
        found |= parts_of(child)
    content = thing.deflate()
    return found | {get_object_id(content): content}


@pytest.fixture
def array() -> Array:
    return Array(np.zeros(1000))


def test_what_we_send_is_readable(array):
    require_readable(parts_of(ArrayRecord({"theta": array})))
    require_readable(parts_of(pack("0f3a", arrays={"theta": np.arange(3.0)}, hessian=True)))


def test_a_chunk_named_a_million_times_is_refused_before_it_is_copied(array):
    parts = parts_of(array)
    written = json.loads(get_object_body(array.deflate(), Array))
    written["arraychunk_ids"] = [0] * 10**6
    bomb = add_header_to_object_body(json.dumps(written).encode(), array)
    del parts[get_object_id(array.deflate())]
    tracemalloc.start()
    try:
        with pytest.raises(ObjectPullError, match="not readable"):
            require_readable(parts | {get_object_id(bomb): bomb})
        # The list of a million places itself takes 11 MB; the array would have had 8 GB.
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"{}", b'{"arraychunk_ids": [5]}', b'{"arraychunk_ids": "x"}', b"[" * 10**5],
)
def test_bodies_that_are_made_up_are_refused(array, body):
    parts = parts_of(array)
    content = add_header_to_object_body(body, array)
    with pytest.raises(ObjectPullError, match="not readable"):
        require_readable(parts | {get_object_id(content): content})


@pytest.mark.parametrize("content", [b"", b"Array", b"Nothing  0\x00", b"os.system  2\x00{}"])
def test_parts_of_no_known_kind_are_refused(content):
    with pytest.raises(ObjectPullError, match="not readable"):
        require_readable({"0": content})
