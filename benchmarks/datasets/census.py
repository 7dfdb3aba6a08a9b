# SPDX-License-Identifier: Apache-2.0
"""American Community Survey, 2018 1-Year, 14 small states: public coverage, and income.

P1 took Arkansas over five years and P2 Texas; the 14 states are what is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from datasets.door import DataSet, refuse_other_shape
from datasets.files import TableFile
from datasets.sources import Source, census_persons, openml

__all__ = ["INCOME", "PUBCOV", "PUBCOV_SHAPE", "pubcov_as_p1"]

PUBCOV_SHAPE = (55_277, 10)
_STATES = {
    "DE": 10,
    "HI": 15,
    "ID": 16,
    "ME": 23,
    "MT": 30,
    "ND": 38,
    "NE": 31,
    "NH": 33,
    "NM": 35,
    "RI": 44,
    "SD": 46,
    "VT": 50,
    "WV": 54,
    "WY": 56,
}
_VERSIONS = "the Census Bureau issues its files again when it corrects them"

_PUBCOV = TableFile(
    "acs_pubcov/acs_pubcov_2018_1yr_14states.csv.gz",
    "d9252f1c62bce4a72116e907a28dea8fc3cc8240277e5c11b7fcf36608716531",
    dict.fromkeys(
        [
            "AGEP",
            "SCHL",
            "MAR",
            "SEX",
            "DIS",
            "ESP",
            "CIT",
            "MIG",
            "MIL",
            "ANC",
            "NATIVITY",
            "DEAR",
            "DEYE",
            "DREM",
            "PINCP",
            "ESR",
            "ST",
            "FER",
            "RAC1P",
            "PUBCOV",
        ],
        "number",
    ),
)
_INCOME = TableFile(
    "acs_income/acs_income_2018_1yr_14states.csv.gz",
    "0dda2d6f4b1d2166d1ff24837c0388be21846c12eeb0615ed7ae5419930b6a70",
    dict.fromkeys(
        [
            "AGEP",
            "COW",
            "SCHL",
            "MAR",
            "OCCP",
            "POBP",
            "RELP",
            "WKHP",
            "SEX",
            "RAC1P",
            "ST",
            "PINCP",
        ],
        "number",
    ),
)


def _public_coverage() -> Mapping[str, pd.DataFrame]:
    """Take those under 65 with an income up to $30,000, as folktables defines the task."""
    people = census_persons(tuple(_STATES))
    return {_PUBCOV.path: people[(people["AGEP"] < 65) & (people["PINCP"] <= 30_000)]}


def _incomes() -> Mapping[str, pd.DataFrame]:
    """Take those over 16 who work and earn over $100, as folktables defines the task."""
    people = census_persons(tuple(_STATES))
    chosen = (people["AGEP"] > 16) & (people["PINCP"] > 100)
    chosen &= (people["WKHP"] > 0) & (people["PWGTP"] >= 1)
    return {_INCOME.path: people[chosen]}


def _incomes_from_openml() -> Mapping[str, pd.DataFrame]:
    """Take the same states out of the whole country."""
    everybody = openml(43141)
    states = pd.to_numeric(everybody["ST"])
    return {_INCOME.path: everybody[states.isin(list(_STATES.values()))]}


PUBCOV = DataSet(
    name="acs_pubcov",
    files=(_PUBCOV,),
    assemble=lambda table: table,
    sources=(Source("the Census Bureau (folktables)", _public_coverage),),
    versions=_VERSIONS,
)
INCOME = DataSet(
    name="acs_income",
    files=(_INCOME,),
    assemble=lambda table: table,
    sources=(
        Source("the Census Bureau (folktables)", _incomes),
        Source("OpenML 43141", _incomes_from_openml),
    ),
    versions=_VERSIONS,
)


def pubcov_as_p1(
    raw: pd.DataFrame, *, shape: tuple[int, int] | None = PUBCOV_SHAPE
) -> tuple[pd.DataFrame, pd.Series]:
    """Prepare public coverage as P1's published code does: ten features, 0 or 1.

    Repeated rows are dropped; age and income are halved at the mean; of each other answer one
    value, or a few, are told from the rest.

    Parameters
    ----------
    raw : DataFrame
        What `load("acs_pubcov")` gives.
    shape : (int, int) or None
        What must come out of the 14 states; None for other data.

    Returns
    -------
    X : DataFrame of 0 and 1
    y : Series, categorical, named "PUBCOV": 1 for covered
    """
    # A question that was not put counts as an answer, 0, as folktables has it.
    table = raw.fillna(0).drop_duplicates(ignore_index=True)
    X = pd.DataFrame(
        {
            "AGEP": table["AGEP"] >= table["AGEP"].mean(),
            "MAR": table["MAR"] == 1,
            "SEX": table["SEX"] == 1,
            "DIS": table["DIS"] == 1,
            "CIT": table["CIT"].isin([1, 3]),
            "PINCP": table["PINCP"] >= table["PINCP"].mean(),
            "ESR": table["ESR"].isin([1, 2, 4, 5]),
            "RAC1P": table["RAC1P"] == 1,
            "MIL": table["MIL"].isin([1, 2, 3]),
            "NATIVITY": table["NATIVITY"] == 1,
        }
    ).astype(int)
    y = (table["PUBCOV"] == 1).astype(int).astype("category").rename("PUBCOV")
    refuse_other_shape("acs_pubcov", X.shape, shape)
    return X, y
