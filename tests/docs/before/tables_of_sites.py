# SPDX-License-Identifier: Apache-2.0
"""A contract, and the tables of five sites that fit it."""

import numpy as np
import pandas as pd

from epsilens.federated import DeclaredColumn, FederationSchema

schema = FederationSchema(
    (DeclaredColumn("region", ("north", "south")),),
    DeclaredColumn("smokes", ("no", "yes")),
    ("smokes",),
)
_rng = np.random.default_rng(0)
tables = [
    pd.DataFrame(
        {
            "region": _rng.choice(["north", "south"], 80),
            "smokes": _rng.choice(["no", "yes"], 80, p=[0.7, 0.3]),
        }
    )
    for _ in range(5)
]
