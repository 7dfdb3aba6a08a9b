# SPDX-License-Identifier: Apache-2.0
"""Every small file and each of its neighbours, randomised with the same seed.

Neighbours differ in one protected field. Their released files may differ in that row's report, and
their receipts in the fingerprint of the released table, which follows from the reports.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from epsilens.cli import main

AGES = ["44", "31", "58"]


def release(
    folder: Path, fields: tuple[str, ...], options: list[str], *, delimiter: str, suffix: str
) -> tuple[bytes, dict[str, object]]:
    """Randomise a table with these protected fields; return the released file and its receipt."""
    folder.mkdir()
    data, out = folder / "survey.csv", folder / f"released.{suffix}"
    rows = [["age", "s", "town"], *([a, s, "Köln"] for a, s in zip(AGES, fields, strict=False))]
    data.write_text("".join(delimiter.join(row) + "\n" for row in rows), encoding="utf-8")
    code = main(["randomise", str(data), "--protect=s", "--seed=3", "--out", str(out), *options])
    assert code == 0
    return out.read_bytes(), json.loads(out.with_name(f"{out.name}.receipt.json").read_bytes())


def cells(file: bytes, folder: Path) -> tuple[str, dict[str, str]]:
    """Return all of a released file but its reports, and the report of every age."""
    if file.startswith(b"PAR1"):
        (folder / "read.parquet").write_bytes(file)
        table = pq.read_table(folder / "read.parquet")
        lines = [[str(value) for value in row.values()] for row in table.to_pylist()]
        head = f"{table.schema} {table.schema.metadata}"
    else:
        head, *rows = file.decode("utf-8").splitlines()
        delimiter = ";" if ";" in head else ","
        lines = [row.split(delimiter) for row in rows]
    elsewhere = [line[:1] + line[2:] for line in lines]
    return f"{head} {elsewhere}", {line[0]: line[1] for line in lines}


@pytest.mark.parametrize(("suffix", "n_rows"), [("csv", 3), ("parquet", 2)])
@pytest.mark.parametrize(
    ("possible", "delimiter", "options"),
    [
        (["no", "yes", ""], ",", ["--epsilon=1", "--categories=s=no|yes", "--missing=category"]),
        # Two spellings of one answer, and two answers of one bin: all of these releases are alike.
        (["1", "1,5"], ";", ["--epsilon=1", "--bins=s=0:10:4"]),
        (["1", "1,0", '"?"'], ";", ["--epsilon=1", "--categories=s=1|1.5|?"]),
    ],
)
def test_one_answer_changes_the_report_of_its_row_alone(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    possible: list[str],
    delimiter: str,
    options: list[str],
    suffix: str,
    n_rows: int,
) -> None:
    tables = list(itertools.product(possible, repeat=n_rows))
    released, files, receipts = {}, {}, {}
    for number, fields in enumerate(tables):
        folder = tmp_path / f"{number}"
        file, receipt = release(folder, fields, options, delimiter=delimiter, suffix=suffix)
        elsewhere, reports = cells(file, folder)
        # Files and receipts follow from what is released: the same cells, the same bytes.
        written = (elsewhere, *sorted(reports.items()))
        assert files.setdefault(written, file) == file
        assert receipts.setdefault(written, json.dumps(receipt)) == json.dumps(receipt)
        receipt["provenance"].pop("schema_fingerprint")  # type: ignore[attr-defined]
        released[fields] = (elsewhere, receipt, reports)
    capsys.readouterr()
    assert len(files) < len(tables) or possible[1] == "yes"
    for one, other in itertools.combinations(tables, 2):
        changed = [row for row in range(n_rows) if one[row] != other[row]]
        if len(changed) > 1:
            continue
        (elsewhere, receipt, reports), other_release = released[one], released[other]
        assert (elsewhere, receipt) == other_release[:2]
        differing = {age for age in reports if reports[age] != other_release[2][age]}
        assert differing <= {AGES[changed[0]]}
