# SPDX-License-Identifier: Apache-2.0
"""The survey that pages speak of, small: as files, as frames, and with a pipeline."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens.data import load_survey

# What `make demo` leaves, with fewer rows.
Path("demo").mkdir()
load_survey().sample(1500, random_state=0).to_csv("demo/survey.csv", index=False)

_rng = np.random.default_rng(0)
_n = 450
_table = pd.DataFrame(
    {
        "age": _rng.normal(45, 12, _n).round(1),
        "children": _rng.integers(0, 5, _n),
        "region": _rng.choice(["north", "south", "east"], _n),
    }
)
_score = 0.08 * (_table["age"] - 45) + 0.5 * (_table["children"] - 2)
_table["smokes"] = np.where(_rng.random(_n) < 1 / (1 + np.exp(-_score)), "yes", "no")
_table.to_csv("survey.csv", index=False)
_table[300:].to_csv("held-out.csv", index=False)
Path("people").mkdir()
for _name, _part in (("a", _table[:200]), ("b", _table[200:])):
    _part.to_parquet(f"people/{_name}.parquet", index=False)
_table.assign(weight=_rng.uniform(0.5, 3.0, _n).round(2)).to_csv("weighted.csv", index=False)

X = _table.drop(columns="smokes")
y = _table["smokes"].astype(pd.CategoricalDtype(["no", "yes"]))
X, X_test, y, y_test = X[:300], X[300:], y[:300], y[300:]
_weights = pd.read_csv("weighted.csv")["weight"].to_numpy()
weight, weight_test = _weights[:300], _weights[300:]
everyone = np.ones(len(X), dtype=bool)
pipeline = make_pipeline(
    make_column_transformer((OneHotEncoder(), ["region"]), (StandardScaler(), ["age", "children"])),
    LogisticRegression(),
)

_who = _rng.integers(0, 5, _n)
_walks = pd.DataFrame(
    {
        "gait": 0.8 * _who + 0.4 * _rng.normal(size=_n),
        "speed": _rng.normal(size=_n),
        "slope": _rng.normal(size=_n),
        "person": [f"p{number}" for number in _who],
    }
)
_walks["activity"] = np.where(_walks["speed"] + 0.5 * _rng.normal(size=_n) > 0, "runs", "walks")
_walks.to_csv("walking.csv", index=False)

Path("mypackage").mkdir()
Path("mypackage/release.py").write_text(
    "import numpy as np\n\n\n"
    "def noisy_sum(rows):\n"
    "    return rows.sum(axis=0) + np.random.default_rng(1).normal(0, 100, rows.shape[1])\n",
    encoding="utf-8",
)
