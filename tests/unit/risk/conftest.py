"""A small table and its shadow models, for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens.influence.question import Question, read_question
from epsilens.risk import AttackStudy
from epsilens.risk.randomised_shadows import RandomisedShadows


def table(n: int = 300, n_classes: int = 2, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "income": rng.normal(size=n),
            "town": pd.Categorical(rng.choice(["a", "b", "c"], n)),
            "smokes": pd.Categorical(rng.choice(["no", "yes"], n)),
        }
    )
    drift = 0.05 * (X["age"] - 40) + (X["town"] == "b") - (X["smokes"] == "yes")
    y = np.digitize(drift + rng.logistic(size=n), np.linspace(-1, 1, n_classes - 1))
    return X, pd.Series(pd.Categorical(y.astype(str)), name="ill")


def pipeline(model: object, X: pd.DataFrame) -> object:
    encode = make_column_transformer(
        (StandardScaler(), ["age", "income"]),
        (OneHotEncoder(drop="first", sparse_output=False), ["town", "smokes"]),
    )
    return make_pipeline(encode, model)


def make_shadows(
    model: object, protect: list[str], *, n_classes: int = 2, epsilon: float = 1.0
) -> RandomisedShadows:
    X, y = table(n_classes=n_classes)
    study = AttackStudy(pipeline(model, X)).fit(X[:240], y[:240], X[240:], y[240:])
    asked = read_question(study.baseline_, Question(epsilon, protect), columns=list(X.columns))
    return RandomisedShadows(study.baseline_, asked, 5, seed=3, targets=np.arange(240))


@pytest.fixture
def shadows_of() -> Callable[..., RandomisedShadows]:
    """Give the maker of a table's five shadow models."""
    return make_shadows
