# SPDX-License-Identifier: Apache-2.0
"""Records of which gait recognises people and speed tells what they do: as a file and as frames."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

_rng = np.random.default_rng(0)
_n = 450
_who = _rng.integers(0, 5, _n)
_table = pd.DataFrame(
    {
        "gait": 0.8 * _who + 0.4 * _rng.normal(size=_n),
        "speed": _rng.normal(size=_n),
        "slope": _rng.normal(size=_n),
        "person": [f"p{number}" for number in _who],
    }
)
_table["activity"] = np.where(_table["speed"] + 0.5 * _rng.normal(size=_n) > 0, "runs", "walks")
_table.to_csv("walking.csv", index=False)
_table.rename(columns={"activity": "smokes"}).to_csv("survey.csv", index=False)
X, y, person = _table[["gait", "speed", "slope"]], _table["activity"], _table["person"]
X, X_test, y, y_test = X[:300], X[300:], y[:300], y[300:]
person, person_test = person[:300], person[300:]
pipeline = make_pipeline(StandardScaler(), LogisticRegression())
