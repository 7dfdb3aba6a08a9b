"""Every example is run by something: by a test, or by a target of make where it takes real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import epsilens

ROOT = Path(__file__).parents[2]

RUN_BY = {
    "deep_model.py": ("tests/package/test_examples.py", "below, nightly: it trains networks"),
    "deployment.py": ("tests/unit/federated/test_deployment.py", "its processes serve the tests"),
    "federation.py": ("Makefile", "`make federation`: a server and five sites as real processes"),
}
"""Who runs an example, and why there."""


def test_every_example_is_run_by_somebody():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(RUN_BY)
    for name, (place, _) in RUN_BY.items():
        told = (ROOT / place).read_text()
        if place == "Makefile":
            assert (
                f"\nfederation: $(VENV)/.installed-federated\n\t$(BIN)/python examples/{name}\n"
                in told
            )
        else:
            assert f'/ "{name}"' in told


@pytest.mark.nightly
@pytest.mark.slow
def test_the_deep_model_tells_its_story():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "deep_model.py"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(epsilens.__file__).parents[1])},
    )
    assert "whole network ≈" in done.stdout
    assert "by that line" in done.stdout
