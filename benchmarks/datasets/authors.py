# SPDX-License-Identifier: Apache-2.0
"""What P2's authors published of their runs: samples, randomised values, results.

No public loader gives these in a form that can be read safely (they are pickles), so they come from a
folder only.
"""

from __future__ import annotations

import pandas as pd

from datasets.door import DataSet
from datasets.files import JsonFile, TableFile
from datasets.repository import GENES

__all__ = ["P2_GLIOMA", "P2_INCOME", "P2_PUBCOV", "P2_RESULTS"]

_PLACE = {"round": "integer", "client": "integer", "split": "text", "row": "integer"}
_DRAW = {"round": "integer", "epsilon": "number", "client": "integer", "row": "integer"}


def _samples(name: str, folder: str, shas: tuple[str, str], columns: str, drawn: str) -> DataSet:
    clean, randomised = shas
    return DataSet(
        name=name,
        files=(
            TableFile(
                f"{folder}/fldp_authors_samples_clean.csv.gz",
                clean,
                {**_PLACE, **dict.fromkeys(columns.split(), "integer")},
            ),
            TableFile(
                f"{folder}/fldp_authors_samples_rr.csv.gz",
                randomised,
                {**_DRAW, **dict.fromkeys(drawn.split(), "integer")},
            ),
        ),
        assemble=_both,
    )


def _both(clean: pd.DataFrame, randomised: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {"clean": clean, "randomised": randomised}


P2_INCOME = _samples(
    "p2_income",
    "acs_income",
    (
        "ee3f1ffac900dc54469199978557036f8b89c6897d316b931a6b29c9b8962034",
        "71ac71cbe5839cf8964a559df38946606e3a29c2ee04d68216da2b3c9aed5637",
    ),
    "AGEP COW SCHL MAR POBP RELP WKHP SEX RAC1P PINCP",
    "RAC1P SEX PINCP",
)
P2_PUBCOV = _samples(
    "p2_pubcov",
    "acs_pubcov",
    (
        "8b2be1b29c7bacd58f6508ac4fcc6c5b2705ea01729ce4442bf988490c9492ec",
        "6cbfb5e5e1313074159868f56d5b2de1e7c990c4f8189d02ab0c959d062c2a61",
    ),
    "AGEP SCHL MAR SEX DIS CIT MIL NATIVITY PINCP ESR RAC1P PUBCOV",
    "AGEP SEX DIS PUBCOV",
)
P2_GLIOMA = _samples(
    "p2_glioma",
    "glioma",
    (
        "dc7080c1f610df1b724d45055548aa085d740b573a271cb802a430ab87cdf119",
        "c89dfb122cce4bc52406d630b76b674297a87e8a2249b4ddf94478f4a4e6a97c",
    ),
    f"Gender Age_at_diagnosis Race {' '.join(GENES)} Grade",
    "Age_at_diagnosis Race Grade",
)
P2_RESULTS = DataSet(
    name="p2_results",
    files=(
        JsonFile(
            "authors_results/fldp_results.json.gz",
            "d8f7a032fc4a43b2823f4dc63aa4ad4a327183fc6d261a8f1df473983093487a",
        ),
    ),
    assemble=lambda results: results,
)
