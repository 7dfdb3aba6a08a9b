# SPDX-License-Identifier: Apache-2.0
"""The page of scale computes from what was measured, and says what it assumes."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def scale():
    spec = importlib.util.spec_from_file_location("docs_scale", DOCS / "scale.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def result():
    seconds = {"bare pass": 10.0, "fit": 60.0}
    row = {"n": 10_000_000, "file_bytes": 1.1 * 10_000_000 * 300, "seconds": seconds}
    small = {"n": 100_000, "file_bytes": 1.0, "seconds": {"bare pass": 1.0, "fit": 2.0}}
    slopes = {"bare pass": {"value": 0.9}, "fit": {"value": 1.5}}
    return {"p": 88, "rows": [small, row], "slopes": slopes}


def test_the_largest_size_is_carried_along_its_slope(scale, result):
    bare, fit = scale.estimates(result, rows=1_000_000_000, nodes=64)
    assert bare.seconds_on_one == pytest.approx(1000.0)  # a slope below 1 counts as 1
    assert bare.seconds_reading == pytest.approx(1000.0 / 64)
    assert fit.seconds_on_one == pytest.approx(60.0 * 100**1.5)
    assert fit.passes == pytest.approx(6.0)
    # 15,259 pieces of 8·(88² + 88) bytes, over 1.25 GB/s.
    assert bare.seconds_joining == pytest.approx(15_259 * 62_656 / 1.25e9)
    assert fit.seconds_joining == pytest.approx(6 * bare.seconds_joining)


def test_the_page_is_that_of_the_result(scale):
    kept = json.loads(scale.RESULT.read_text(encoding="utf-8"))
    assert scale.PAGE.read_text(encoding="utf-8") == scale.page(kept), "run `make bench-docs`"


def test_the_page_names_its_assumptions(scale, result):
    text = scale.page(result)
    assert "No cluster of this size was run" in text
    assert "A row takes 300 bytes on disk, the table 300 GB, a node's share 4.7 GB" in text
    assert "10 Gbit/s (assumed)" in text
    assert "| fit | 60.0 s | 1.50 | 6.0 | 60,000 s |" in text
