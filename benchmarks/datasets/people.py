# SPDX-License-Identifier: Apache-2.0
"""People to be recognised (P5): faces with an expression, accelerometers with an activity."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from datasets.door import DataSet
from datasets.files import ArraysFile, TableFile
from datasets.sources import Source, download

__all__ = ["CMU_FACES", "WISDM"]

_FACE_ARRAYS = {
    "images": "uint8",
    **dict.fromkeys(("identity", "pose", "expression", "eyes"), "text"),
}
_SMALL = ArraysFile(
    "cmu_faces/cmu_faces_32x30.npz",
    "37c9664178e5136a5d789d3d6cb4424dda61d49760fbf9165dfbdc75a97bafbf",
    _FACE_ARRAYS,
)
_HALF = ArraysFile(
    "cmu_faces/cmu_faces_64x60.npz",
    "ea28fccc132028105ce1b9ea7021adf3759de5a7f82a1b9d22808b8733a3e09f",
    _FACE_ARRAYS,
)
_FACES = "https://archive.ics.uci.edu/static/public/124/cmu+face+images.zip"
# Pictures that went wrong end in .bad; full-size ones have no number.
_PICTURE = re.compile(
    r"(?P<identity>\w+?)_(?P<pose>straight|left|right|up)_(?P<expression>neutral|happy|sad|angry)_"
    r"(?P<eyes>open|sunglasses)_(?P<scale>[24])\.pgm"
)


def _faces() -> Mapping[str, dict[str, np.ndarray]]:
    found: dict[str, dict[tuple[str, ...], np.ndarray]] = {"2": {}, "4": {}}
    for name, held in _files_inside(download(_FACES)):
        match = _PICTURE.fullmatch(name.rpartition("/")[2])
        if match:
            key = tuple(match[part] for part in ("identity", "pose", "expression", "eyes"))
            found[match["scale"]][key] = _grey_picture(held)
    contents = {}
    for file, scale in ((_SMALL, "4"), (_HALF, "2")):
        keys = sorted(found[scale])
        words = dict(zip(("identity", "pose", "expression", "eyes"), np.array(keys).T, strict=True))
        contents[file.path] = {"images": np.stack([found[scale][key] for key in keys]), **words}
    return contents


def _files_inside(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Give the files of the tar files that a zip file holds."""
    with zipfile.ZipFile(io.BytesIO(archive)) as outer:
        for name in outer.namelist():
            if name.endswith(("faces.tar.gz", "faces.tar")):
                with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as inner:
                    for member in inner:
                        held = inner.extractfile(member) if member.isfile() else None
                        if held is not None:
                            yield member.name, held.read()


def _grey_picture(held: bytes) -> np.ndarray:
    """Read a portable grey map, binary (P5) or in figures (P2)."""
    words = re.match(rb"(P[25])(?:\s+#[^\n]*)*\s+(\d+)(?:\s+#[^\n]*)*\s+(\d+)\s+(\d+)\s", held)
    if words is None:
        raise zipfile.BadZipFile("a picture is no grey map")
    width, height = int(words[2]), int(words[3])
    rest = held[words.end() :]
    if words[1] == b"P2":
        pixels = np.array(rest.split(), dtype=int).astype(np.uint8)
    else:
        pixels = np.frombuffer(rest, dtype=np.uint8)
    return pixels[: width * height].reshape(height, width)


CMU_FACES = DataSet(
    name="cmu_faces",
    files=(_SMALL, _HALF),
    assemble=lambda small, half: {"32x30": small, "64x60": half},
    sources=(Source("UCI 124", _faces),),
)

_MEASURED = (
    *(f"{axis}{number}" for axis in "XYZ" for number in range(10)),
    *(f"{axis}{what}" for what in ("AVG", "PEAK", "ABSOLDEV", "STANDDEV") for axis in "XYZ"),
    "RESULTANT",
)
_WISDM = TableFile(
    "wisdm/wisdm_ar_v1.1_transformed.csv.gz",
    "00155dc3a71412b1385d5da7633b9186a9703e7f4f6b9b51ae15739a46a6a206",
    {
        "UNIQUE_ID": "integer",
        "user": "integer",
        **dict.fromkeys(_MEASURED, "number"),
        "class": "text",
    },
)
_ACTIVITIES = "https://www.cis.fordham.edu/wisdm/includes/datasets/latest/WISDM_ar_latest.tar.gz"


def _activities() -> Mapping[str, pd.DataFrame]:
    with tarfile.open(fileobj=io.BytesIO(download(_ACTIVITIES))) as archive:
        for member in archive:
            held = archive.extractfile(member) if member.name.endswith("transformed.arff") else None
            if held is not None:
                return {_WISDM.path: _attribute_relation_table(held.read().decode("utf-8"))}
    raise tarfile.ReadError("the archive has no transformed table")


def _attribute_relation_table(text: str) -> pd.DataFrame:
    """Read an ARFF file: names after @attribute, comma-separated rows after @data."""
    head, _, rows = re.split(r"(?im)^(@data)\s*$", text, maxsplit=1)
    names = re.findall(r"(?im)^@attribute\s+[\"']?([^\s\"']+)", head)
    return pd.read_csv(
        io.StringIO(rows),
        names=names,
        header=None,
        dtype=str,
        na_values=["?"],
        skipinitialspace=True,
    )


WISDM = DataSet(
    name="wisdm",
    files=(_WISDM,),
    assemble=lambda table: table,
    sources=(Source("the WISDM laboratory", _activities),),
)
