# SPDX-License-Identifier: Apache-2.0
"""`--together`: every group at its own ε, in `epsilens whatif` and `epsilens decide`."""

from __future__ import annotations

import pytest

from epsilens.cli import main
from epsilens.document import load_document

GROUPS = ("--group", "young=age < 40", "--group", "old=age >= 40")
TABLE = ("--label", "smokes", "--categories", "smokes=no|yes")


def run(command, *arguments):
    return main([command, *map(str, arguments)])


def test_whatif_is_one_cell_for_all_groups(file, capsys):
    asked = (*TABLE, *GROUPS, "--epsilon", "young=1,old=3", "--together")
    assert run("whatif", file, *asked, "--json") == 0
    (cell,) = load_document(capsys.readouterr().out).cells
    assert cell.group == "young + old"
    assert cell.group_epsilons == {"young": 1.0, "old": 3.0}
    assert cell.record_epsilon == 3.0
    assert run("whatif", file, *asked) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "young ε = 1, old ε = 3" in text


def test_lists_are_positions(file, capsys):
    asked = (*TABLE, *GROUPS, "--epsilon", "young=0.5,1,old=2,4", "--together", "--json")
    assert run("whatif", file, *asked, "--max-loss-increase", 1) == 0
    cells = load_document(capsys.readouterr().out).cells
    assert [cell.group_epsilons for cell in cells] == [
        {"young": 0.5, "old": 2.0},
        {"young": 1.0, "old": 4.0},
    ]


def test_a_streamed_table(table, tmp_path, capsys):
    path = tmp_path / "survey.parquet"
    table.to_parquet(path)
    asked = (*TABLE, *GROUPS, "--epsilon", "young=1,old=3", "--together", "--stream", "--json")
    assert run("whatif", path, *asked) == 0
    (cell,) = load_document(capsys.readouterr().out).cells
    assert cell.group_epsilons == {"young": 1.0, "old": 3.0}


def test_decide_picks_a_position(file, capsys):
    asked = (*TABLE, *GROUPS, "--epsilon", "young=0.5,1,old=1,2", "--together")
    assert run("decide", file, *asked, "--max-advantage", 0.5, "--shadow-models", 48, "--json") == 0
    found = load_document(capsys.readouterr().out).recommendation
    assert found.group_epsilons == {"young": 0.5, "old": 1.0}
    assert found.command is None  # a release is at one ε


@pytest.mark.parametrize("command", ["whatif", "decide"])
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--epsilon", "1,2", *GROUPS), "an ε for each group"),
        (("--epsilon", "young=1,old=3"), "--group"),
        (("--epsilon", "young=1", *GROUPS), "has none for 'old'"),
        (("--epsilon", "young=1,older=3", *GROUPS), "older"),
        (("--epsilon", "young=1,young=3", *GROUPS), "twice"),
        (("--epsilon", "young=-1,old=3", *GROUPS), "greater than 0"),
        (("--epsilon", "young=1,2,old=1,2,3", *GROUPS), "one length"),
        (("--epsilon", "young=1,old=3", *GROUPS[:3], "old=age > 20"), "overlap"),
    ],
)
def test_bad_input_is_one_line(file, capsys, command, more, words):
    assert run(command, file, *TABLE, *more, "--together") == 2
    shown = capsys.readouterr()
    assert words in " ".join(shown.err.split())
    assert "Traceback" not in shown.err
