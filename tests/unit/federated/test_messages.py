# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes another party sends for an array: its numbers, or one refusal."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.errors import InputError
from epsilens.federated.written import read_budget

pytest.importorskip("flwr")

from flwr.app import Array

from epsilens.federated.flower.messages import arrays_answered, pack, pack_sums, read_sums, unpack
from epsilens.federated.sums import SiteSums

SIZE = 3
LISTED = {"theta": SIZE}


def saved(array: np.ndarray, **options: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def received(data: bytes) -> np.ndarray:
    content = pack("0f3a")
    content["arrays"]["theta"] = Array("float64", (SIZE,), "numpy.ndarray", data)
    return unpack(content, "0f3a", sender="site 4", arrays=LISTED).vector("theta", SIZE)


@pytest.mark.parametrize("size", [0, 1, 7, 10**5])
def test_what_numpy_writes_is_read(size):
    sent = np.linspace(-1e300, 1e300, size)
    found = unpack(
        pack("0f3a", arrays={"theta": sent}), "0f3a", sender="site 4", arrays={"theta": size}
    )
    np.testing.assert_array_equal(found.arrays["theta"], sent)
    assert found.arrays["theta"].flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(SIZE, dtype=np.float32),
        np.zeros(SIZE, dtype=">f8"),
        np.zeros(SIZE, dtype="M8[s]"),
        np.zeros(SIZE, dtype=[("a", "<f8")]),
        np.array([None] * SIZE),
        np.zeros((SIZE, 1)),
        np.asfortranarray(np.zeros((SIZE, 2))),
        np.float64(1.0),
    ],
    ids=["float32", "big-endian", "date", "record", "object", "column", "fortran", "scalar"],
)
def test_other_kinds_of_arrays_are_refused(array):
    with pytest.raises(
        InputError, match=r"^site 4 must send the array 'theta' as a row of float64"
    ):
        received(saved(array, allow_pickle=True))


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(data):
    with pytest.raises(InputError, match=r"^site 4[ :].*epsilens\.$"):
        received(data)


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, 151), value=st.integers(0, 255), cut=st.integers(0, 152))
def test_a_changed_byte_is_read_as_numpy_reads_it_or_refused(place, value, cut):
    data = bytearray(saved(np.array([1.0, 2.0, 3.0])))
    data[place] = value
    data = bytes(data[: max(cut, 100)])
    try:
        found = received(data)
    except InputError:
        return
    np.testing.assert_array_equal(found, np.load(io.BytesIO(data), allow_pickle=False))


def test_an_array_that_was_not_asked_for_is_refused():
    content = pack("0f3a", arrays={"theta": np.zeros(SIZE), "diary": np.zeros(1)})
    with pytest.raises(InputError, match="site 4 must send the arrays that it was asked for"):
        unpack(content, "0f3a", sender="site 4", arrays=LISTED)


def test_a_hessian_that_was_not_asked_for_is_refused():
    message = pack_sums("0f3a", SiteSums(9, 6.2, np.ones(2), np.eye(2)))
    content = unpack(message, "0f3a", sender="site 4", arrays=arrays_answered("sums", 2))
    assert read_sums(content, 2, hessian=True).n == 9
    with pytest.raises(InputError, match=r"site 4 must send .* got a Hessian too"):
        read_sums(content, 2, hessian=False)


def test_a_level_beyond_all_numbers_is_infinity():
    assert read_budget(f'{{"smokes": {10**400}}}').per_record == np.inf
