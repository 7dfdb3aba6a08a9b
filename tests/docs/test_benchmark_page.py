# SPDX-License-Identifier: Apache-2.0
"""The page of benchmarks says what stands in the results, and its figures draw it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages():
    return load("benchmarks")


@pytest.fixture(scope="module")
def figures():
    return load("benchmark_figures")


def curve(scale: float) -> dict[str, list]:
    epsilons = (0.001, 1.0, 10.0)
    return {
        "epsilon": list(epsilons),
        "retrained": [scale / (1 + epsilon) for epsilon in epsilons],
        "retrained_standard_error": [0.1 * scale] * 3,
        "paper": [-scale] * 3,
        "exact": [scale / (1 + epsilon) for epsilon in epsilons],
        "low": [0.0] * 3,
        "high": [2 * scale] * 3,
        "trusted": [True] * 3,
    }


def result(**groups: list[tuple[str, float]]) -> dict:
    rows = [
        {"block": block, "group": group, "curve": curve(scale)}
        for block, found in groups.items()
        for group, scale in found
    ]
    return {"n_train": 100, "n_parameters": 5, "repeats": 10, "rows": rows}


def heading(panel: dict) -> str:
    """Return the words over a panel."""
    (mark,) = [layer["mark"] for layer in panel["layer"] if "text" in layer["mark"]]
    return mark["text"]


def band(chart: dict, panel: dict) -> list[dict]:
    """Return the numbers behind a panel."""
    data = panel["layer"][1]["data"]
    return data["values"] if "values" in data else chart["datasets"][data["name"]]


def test_the_page_is_up_to_date_with_the_results(pages):
    assert pages.PAGE.read_text() == pages.page(), "run: make bench-docs"
    for name, file in pages._ELSEWHERE.items():
        text = file.read_text()
        assert text.count(f"<!-- {name} -->") == 1
        assert text == pages.with_table(text, name), "run: make bench-docs"


def test_every_image_of_the_page_is_there(pages):
    images = re.findall(r"\]\((images/[^)]+)\)", pages.PAGE.read_text())
    assert images
    for image in images:
        assert (DOCS / image).read_text().startswith("<svg")


def test_a_benchmark_without_a_section_is_on_the_page_too(pages, tmp_path):
    (tmp_path / "whatif-adult.md").write_text("| known |\n")
    (tmp_path / "another.md").write_text("| table |\n")
    text = pages.page(tmp_path)
    assert text.index("## Labels on Adult") < text.index("## another") < text.index("| table |")


def test_the_adult_figure_has_a_row_with_and_one_without_correction(figures):
    sizes = [("1.00%", 0.001), ("30.00%", 0.05), ("4.22%", 0.002)]
    labels = result(everybody=sizes, men=sizes)
    chart = figures.adult_figure(labels, labels).to_dict()
    _, plain, corrected = chart["vconcat"]
    for row in (plain, corrected):
        titles = [heading(panel) for panel in row["hconcat"]]
        assert titles == ["1 % of everybody", "30 % of everybody"]
    values = band(chart, plain["hconcat"][1])
    assert "forward correction, 30 % of everybody: at ε = 0.001" in chart["description"]
    # Thousandths.
    assert [point["high"] for point in values] == [100.0] * 3
    assert values[0]["above"] == pytest.approx(1000 * (0.05 / 1.001 + 0.01))


def test_the_pubcov_figure_has_features_label_and_both(figures):
    labels = result(labels=[("30.00%", 1.0), ("75.00%", 0.1)])
    columns = result(features=[("features", 0.01)], both=[("both", 0.2)])
    chart = figures.pubcov_figure(labels, columns).to_dict()
    panels = chart["vconcat"][1]["hconcat"]
    assert [heading(panel) for panel in panels] == [
        "two features",
        "the label",
        "two features and the label",
    ]
    highs = [band(chart, panel)[0]["high"] for panel in panels]
    assert highs == pytest.approx([20.0, 200.0, 400.0])
