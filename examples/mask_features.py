# SPDX-License-Identifier: Apache-2.0
"""Which columns recognise people and do nothing for the model? Needs `pip install "epsilens[explain]"`.

    python examples/mask_features.py

The table is made here, so that the right answer is known: gait and voice say who somebody is, age and
income say who smokes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epsilens.masking import MaskStudy


def people(n: int = 1200) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Return features, who smokes, and who it is."""
    rng = np.random.default_rng(1)
    person = rng.integers(0, 8, n)
    table = pd.DataFrame(
        {
            "gait": 0.8 * (person % 4) + 0.4 * rng.normal(size=n),
            "voice": 1.5 * (person // 4) + 0.5 * rng.normal(size=n),
            "age": rng.normal(size=n),
            "income": rng.normal(size=n),
        }
    )
    score = 1.5 * table["age"] - 1.5 * table["income"] + rng.logistic(size=n)
    return table, pd.Series(np.where(score > 0, "yes", "no")), pd.Series(person).astype(str)


def main() -> None:
    X, smokes, person = people()
    train, test = slice(0, 900), slice(900, None)
    study = MaskStudy(make_pipeline(StandardScaler(), LogisticRegression()))
    study.fit(X[train], smokes[train], person[train], X[test], smokes[test], person[test])
    mask = study.choose(alpha=0.5)  # at least half of what recognises people has to go
    print("masked:", ", ".join(mask.document.masked))
    for outcome in mask.document.outcomes:
        print(
            f"{outcome.masking:>7}: the task is right for {outcome.utility_accuracy:.0%}, "
            f"people are recognised in {outcome.identity_accuracy:.0%}"
        )


if __name__ == "__main__":
    main()
