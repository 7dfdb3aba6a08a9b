# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def table(survey):
    """Return the generated survey as the one table that a curator has."""
    return pd.concat(
        [survey.X.assign(smokes=survey.y), survey.X_test.assign(smokes=survey.y_test)],
        ignore_index=True,
    ).astype({"smokes": str})


@pytest.fixture
def file(table, tmp_path):
    path = tmp_path / "survey.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    """Keep what commands remember of standard input out of the folder of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder
