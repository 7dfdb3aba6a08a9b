# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BUILDER = Path(__file__).parents[1] / "document" / "builder.py"


@pytest.fixture(scope="session")
def build() -> ModuleType:
    """Give the builder of realistic documents."""
    spec = importlib.util.spec_from_file_location("document_builder", BUILDER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
