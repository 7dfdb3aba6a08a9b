# SPDX-License-Identifier: Apache-2.0
"""A file of a data set is known by its content, however it was written."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from datasets.files import ArraysFile, JsonFile, TableFile
from epsilens.errors import InputError

COLUMNS = {"age": "integer", "work": "text", "pay": "number"}
TABLE = TableFile("people/people.csv.gz", "", COLUMNS, missing="?")


def test_order_types_and_marks_do_not_matter_to_the_checksum():
    plain = pd.DataFrame({"age": [39, 25], "work": ["state", None], "pay": [0.27, np.nan]})
    other = pd.DataFrame(
        {
            "pay": ["", "0.270"],
            "work": pd.Categorical([" ? ", "state"]),
            "age": [25.0, 39.0],
            "spare": [1, 2],
        }
    )
    one, two = TABLE.canonical(plain), TABLE.canonical(other)
    pd.testing.assert_frame_equal(one, two)
    assert list(one["work"]) == ["?", "state"]
    assert one["age"].dtype == "int64"
    assert TABLE.checksum(one) == TABLE.checksum(two)


def test_another_value_changes_the_checksum():
    one = pd.DataFrame({"age": [39], "work": ["state"], "pay": [0.27]})
    assert TABLE.checksum(TABLE.canonical(one)) != TABLE.checksum(
        TABLE.canonical(one.assign(pay=0.2700001))
    )


def test_a_table_comes_back_as_it_was_written(tmp_path):
    content = TABLE.canonical(
        pd.DataFrame(
            {"age": [39, 25], "work": ["a, b", "NA"], "pay": [0.1 + 0.2, 1e-7]},
        )
    )
    file = tmp_path / "people.csv.gz"
    TABLE.write(content, file)
    again = TABLE.read(file)
    # Fifteen digits are kept.
    pd.testing.assert_frame_equal(again, content, rtol=1e-14)
    assert TABLE.checksum(again) == TABLE.checksum(content)
    assert gzip.decompress(file.read_bytes()).startswith(b"age,work,pay\n25,NA,")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"age": [1], "work": ["x"]}, "pay came not"),
        ({"age": [1.5], "work": ["x"], "pay": [1]}, "whole numbers in age"),
        ({"age": [1], "work": ["x"], "pay": ["much"]}, "must have numbers in pay"),
        ({"age": [None], "work": ["x"], "pay": [1]}, "whole numbers in age"),
    ],
)
def test_a_table_of_another_make_is_refused(frame, words):
    with pytest.raises(InputError, match=words):
        TABLE.canonical(pd.DataFrame(frame))


def test_broken_files_are_refused_in_one_line(tmp_path):
    half = tmp_path / "half"
    half.write_bytes(b"\x00")
    arrays = ArraysFile("a.npz", "", {"x": "uint8"})
    for kind in (arrays, JsonFile("a.json.gz", "")):
        with pytest.raises(InputError, match="Get the file again") as caught:
            kind.read(half)
        assert "\n" not in str(caught.value)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(b"age,work,pay\n" + b"1,x,2\n" * 100)[:40])
    with pytest.raises(InputError, match="cannot be read"):
        TABLE.read(cut)


def test_arrays_are_known_whatever_their_types(tmp_path):
    known = ArraysFile("f.npz", "", {"images": "uint8", "who": "text"})
    wide = known.canonical({"images": np.ones((2, 3)), "who": np.array(["ann", "bob"], dtype="U9")})
    file = tmp_path / "f.npz"
    known.write(wide, file)
    narrow = known.canonical({"images": np.ones((2, 3), int), "who": ["ann", "bob"]})
    assert known.checksum(known.read(file)) == known.checksum(narrow)
    turned = known.canonical({"images": np.ones((3, 2)), "who": ["ann", "bob"]})
    assert known.checksum(turned) != known.checksum(narrow)
    with pytest.raises(InputError, match="who came not"):
        known.canonical({"images": np.ones(2)})


def _arrays(tmp_path) -> bytes:
    file = tmp_path / "whole.npz"
    ArraysFile("a.npz", "", {"x": "int64"}).write({"x": np.arange(5000)}, file)
    return file.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: b"nothing of the kind",
        lambda whole: whole[:60] + bytes(40) + whole[100:],
        lambda whole: b"",
    ],
    ids=["cut", "garbage", "zeros inside", "empty"],
)
def test_a_damaged_archive_is_one_line(tmp_path, damage):
    broken = tmp_path / "broken"
    broken.write_bytes(damage(_arrays(tmp_path)))
    with pytest.raises(InputError, match="Get the file again"):
        ArraysFile("a.npz", "", {"x": "int64"}).read(broken)
    zipped = tmp_path / "people.csv.gz"
    zipped.write_bytes(damage(gzip.compress(b"age,work,pay\n" + b"39,state,0.27\n" * 500)))
    with pytest.raises(InputError, match="Get the file again"):
        TABLE.read(zipped)


def test_texts_where_numbers_should_be_are_not_shown(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, x=np.array(["a secret"]))
    with pytest.raises(InputError, match="must hold arrays of numbers") as error:
        ArraysFile("a.npz", "", {"x": "int64"}).read(file)
    assert "secret" not in str(error.value)
