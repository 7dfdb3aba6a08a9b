# SPDX-License-Identifier: Apache-2.0
"""`epsilens inspect` and `whatif` on files of Excel and SPSS."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main

pyreadstat = pytest.importorskip("pyreadstat")
pytest.importorskip("python_calamine")
pytest.importorskip("openpyxl")

REGIONS = {1: "north", 2: "south", 3: "east", 4: "west", 9: "refused"}
SMOKES = {1: "no", 2: "yes"}
SECRET = "HIV-positive-7731"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One survey as files of several kinds; nobody lives in the west."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 70, 400).astype(float)
    smokes = 1.0 + (rng.random(400) < 1 / (1 + np.exp((45 - age) / 10)))
    region = rng.integers(1, 4, 400).astype(float)
    region[:4] = 9
    frame = pd.DataFrame({"age": age, "region": region, "smokes": smokes})
    found = {kind: tmp_path / f"survey.{kind}" for kind in ("sav", "xlsx", "csv")}
    pyreadstat.write_sav(
        frame,
        found["sav"],
        variable_value_labels={"region": REGIONS, "smokes": SMOKES},
        missing_ranges={"region": [9]},
    )
    words = frame.assign(
        region=frame["region"].map(REGIONS).replace("refused", None),
        smokes=frame["smokes"].map(SMOKES),
    )
    words.to_excel(found["xlsx"], index=False)
    words.to_csv(found["csv"], index=False)
    return found


def ask(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[dict, str]:
    assert main([*command, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


@pytest.mark.parametrize("kind", ["sav", "xlsx"])
def test_inspect_shows_the_answers(
    files: dict[str, Path], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = ask(capsys, "inspect", str(files[kind]))
    assert found["provenance"]["settings"]["format"] == {"sav": "spss", "xlsx": "excel"}[kind]
    age, region, smokes = found["columns"]
    assert (age["kind"], age["n_missing"]) == ("numeric", 0)
    assert region["categories"] == ["east", "north", "south", *(["west"] if kind == "sav" else [])]
    assert (region["n_distinct"], region["n_missing"]) == (3, 4)
    assert smokes["categories"] == ["no", "yes"]


def test_whatif_gives_what_it_gives_on_csv(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    question = (
        "--label",
        "smokes",
        "--protect",
        "smokes",
        "--epsilon",
        "0.5,2",
        "--method",
        "exact",
    )
    cells, errors = {}, {}
    for kind, path in files.items():
        found, errors[kind] = ask(capsys, "whatif", str(path), *question)
        cells[kind] = [cell["loss_change"] for cell in found["cells"]]
    assert cells["xlsx"] == pytest.approx(cells["csv"])
    assert cells["sav"] == pytest.approx(cells["csv"], rel=0.01)  # one more possible region
    # In the file of SPSS the answers are declared.
    assert "observed values" in errors["csv"]
    assert errors["xlsx"] == errors["csv"]
    assert errors["sav"] == ""


def test_a_declared_feature_is_randomised_among_all_its_answers(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ("--label", "smokes", "--protect", "region", "--epsilon", "1", "--method", "exact")
    _, errors = ask(capsys, "whatif", str(files["sav"]), *question)
    assert errors == ""
    out = tmp_path / "released.csv"
    command = ["randomise", str(files["sav"]), "--protect", "region", "--epsilon", "0.1"]
    assert main([*command, "--missing", "drop", "--seed", "1", "--out", str(out)]) == 0
    assert set(pd.read_csv(out)["region"]) == {"north", "south", "east", "west"}
    assert "observed values" not in capsys.readouterr().err


def test_one_line_for_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = pd.DataFrame([[1, SECRET], [2, "x"]], columns=["a", "a"])
    twice.to_excel(tmp_path / "twice.xlsx", index=False)
    pyreadstat.write_sav(pd.DataFrame({"a": [SECRET, "x"] * 50}), tmp_path / "whole.sav")
    half = (tmp_path / "whole.sav").read_bytes()[:-200]
    for name, content, words in (
        ("twice.xlsx", None, "'a' stands more than once"),
        ("half.sav", half, "damaged, cut short"),
        ("text.xlsx", b"a,b\n1,2\n", "as its name says"),
        ("zip.xlsx", b"PK\x03\x04" + SECRET.encode(), "damaged, cut short"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        assert main(["inspect", str(path)]) == 2
        shown = capsys.readouterr()
        (line,) = shown.err.splitlines()
        assert line.startswith("Error: ")
        assert words in line
        assert SECRET not in line
        assert shown.out == ""
