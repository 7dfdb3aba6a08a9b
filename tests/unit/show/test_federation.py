# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from epsilens.errors import InputError
from epsilens.show import federation_chart, save_chart
from epsilens.show.federation import levels_by_version


def test_every_site_has_its_level_at_every_version_in_use(build) -> None:
    rows = levels_by_version(build.make_federation())
    assert [row["level"] for row in rows if row["site"] == "site 1"] == ["3", "1", "1"]
    assert [row["level"] for row in rows if row["site"] == "site 2"] == ["3", "3", "left"]
    assert [(r["version"], r["site"]) for r in rows if r["changed"]] == [
        (2, "site 1"),
        (3, "site 2"),
    ]


def test_the_chart_is_drawn_from_the_document_alone(build, tmp_path) -> None:
    document = build.make_federation()
    spec = federation_chart(document).to_dict()
    assert len(spec["vconcat"]) == 3
    assert "Protected: smokes, region." in spec["title"]["subtitle"]
    # Without test records there is no loss to draw.
    bare = [version.model_copy(update={"test_loss": None}) for version in document.versions]
    assert len(federation_chart(build.make_federation(versions=bare)).to_dict()["vconcat"]) == 2
    save_chart(federation_chart(document), tmp_path / "chart.svg")
    text = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    for words in ("2 changed", "site 1", "left", "test loss"):
        assert words in text
    with pytest.raises(InputError, match="no version to draw"):
        federation_chart(build.make_federation(versions=[]))
