# SPDX-License-Identifier: Apache-2.0
"""The table of the architecture page is made from what was measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def architecture():
    spec = importlib.util.spec_from_file_location("docs_architecture", DOCS / "architecture.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_of_code_leave_out_descriptions_comments_and_blanks(architecture):
    text = '"""What it is."""\n\n# Why.\nx = [\n    1,\n]\n\n\ndef f():\n    """Return."""\n    return """a\nb"""\n'
    assert architecture.code_lines(text) == 3 + 1 + 2


def test_a_trace_counts_functions_of_the_package_and_their_depth(architecture, tmp_path):
    source = tmp_path / "package"
    source.mkdir()
    (source / "a.py").write_text(
        "def outer():\n    return [inner() for _ in range(2)]\n\n\ndef inner():\n    return 1\n"
    )
    spec = importlib.util.spec_from_file_location("traced_a", source / "a.py")
    module = importlib.util.module_from_spec(spec)
    trace = architecture.Trace(source)
    sys.setprofile(trace)
    try:
        spec.loader.exec_module(module)
        module.outer()
    finally:
        sys.setprofile(None)
    assert trace.calls == {("a.py", "outer"): 1, ("a.py", "inner"): 2}
    assert trace.depth == 2


def test_the_page_is_made_from_the_stored_measurement(architecture):
    stored = json.loads(architecture.RESULT.read_text(encoding="utf-8"))
    assert architecture.PAGE.read_text(encoding="utf-8") == architecture.page(stored)
    assert stored["fits_of_the_model"] == 1
