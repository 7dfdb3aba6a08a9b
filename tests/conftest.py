from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

# No timed assertions, and the same examples everywhere.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@dataclass(frozen=True)
class Survey:
    """A generated survey: three numbers, a category, a yes/no answer."""

    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series


def make_survey(n: int = 600, n_test: int = 300, *, seed: int = 0) -> Survey:
    rng = np.random.default_rng(seed)
    total = n + n_test
    X = pd.DataFrame(
        {
            "age": rng.normal(45, 12, total),
            "income": rng.lognormal(10, 0.5, total),
            "children": rng.integers(0, 5, total),
            "region": rng.choice(["north", "south", "east"], total),
        }
    )
    s = 0.05 * (X["age"] - 45) + 0.4 * (X["children"] - 2) + 0.6 * (X["region"] == "north") - 0.3
    answer = np.where(rng.random(total) < 1 / (1 + np.exp(-s)), "yes", "no")
    y = pd.Series(pd.Categorical(answer, categories=["no", "yes"]), name="smokes")
    return Survey(X[:n], y[:n], X[n:].reset_index(drop=True), y[n:].reset_index(drop=True))


@pytest.fixture(scope="session")
def survey() -> Survey:
    return make_survey()


@pytest.fixture(scope="session")
def survey_of():
    """Return the maker of surveys, for another size or seed."""
    return make_survey


@pytest.fixture(scope="session")
def pipeline():
    """Return a fresh pipeline, as somebody would write it."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def build(model=None):
        encode = make_column_transformer(
            (OneHotEncoder(), ["region"]), (StandardScaler(), ["age", "income", "children"])
        )
        return make_pipeline(encode, LogisticRegression() if model is None else model)

    return build


@pytest.fixture(scope="session")
def build():
    """Give the builder of realistic documents."""
    path = Path(__file__).parent / "unit" / "document" / "builder.py"
    spec = importlib.util.spec_from_file_location("document_builder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
