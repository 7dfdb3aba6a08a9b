"""How to cite the package: its version, and the papers as the bibliography has them."""

from __future__ import annotations

import re
from pathlib import Path

import epsilens

ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version_and_the_five_papers():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"(?m)^version: (\S+)$", text) == [epsilens.__version__]
    # No parser of YAML is among what the tests need; these are the plain lines of our own file.
    titles = [
        title.strip('"') for title in re.findall(r"(?m)^  - type: .*\n    title: (.*)$", text)
    ]
    entries = re.split(r"(?m)^@", (ROOT / "docs" / "references.bib").read_text())
    papers = {
        found[1]: re.search(r"title = \{(.*)\},\n", entry)[1].replace("{", "").replace("}", "")
        for entry in entries
        if (found := re.match(r"\w+\{(P\d),", entry))
    }
    assert titles == [papers[f"P{number}"] for number in range(1, 6)]
