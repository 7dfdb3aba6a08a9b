# SPDX-License-Identifier: Apache-2.0
"""Adult: 48,842 people of the 1994 census and whether they earn over $50,000."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from datasets.door import DataSet, refuse_other_shape
from datasets.files import TableFile
from datasets.sources import Source, openml, uci_repository

__all__ = ["ADULT", "P1_SHAPE", "as_p1", "ordinary"]

P1_SHAPE = (44_355, 88)
_COLUMNS = {
    "age": "integer",
    "workclass": "text",
    "fnlwgt": "integer",
    "education": "text",
    "education-num": "integer",
    "marital-status": "text",
    "occupation": "text",
    "relationship": "text",
    "race": "text",
    "sex": "text",
    "capital-gain": "integer",
    "capital-loss": "integer",
    "hours-per-week": "integer",
    "native-country": "text",
    "income": "text",
}
_TRAIN = TableFile(
    "adult/adult_train.csv.gz",
    "8b2ee1b573950e58d27b572d9dc912ecf8dce86b4bd50a3dfdd2c8f4c7441122",
    _COLUMNS,
    missing="?",
)
_TEST = TableFile(
    "adult/adult_test.csv.gz",
    "b2375a7c7b27839e18b4ae2501068e5c88033052601294ab98538946ed9c7154",
    _COLUMNS,
    missing="?",
)
_N_TRAIN, _N_TEST = 32_561, 16_281


def _in_files(table: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """Part a table of all people into the two files that it was made of.

    OpenML has the test file first, the UCI repository the other one; the checksums tell.
    """
    parts = {}
    for n_first, first, second in ((_N_TEST, _TEST, _TRAIN), (_N_TRAIN, _TRAIN, _TEST)):
        parts = {first.path: table.iloc[:n_first], second.path: table.iloc[n_first:]}
        if first.checksum(first.canonical(parts[first.path])) == first.sha256:
            break
    return parts


def _from_openml() -> Mapping[str, pd.DataFrame]:
    return _in_files(openml(1590).rename(columns={"class": "income"}))


def _from_uci() -> Mapping[str, pd.DataFrame]:
    table = uci_repository(2)
    # The labels of the test file end in a full stop there.
    return _in_files(table.assign(income=table["income"].str.rstrip(".")))


def _assemble(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([train.assign(file="train"), test.assign(file="test")], ignore_index=True)


ADULT = DataSet(
    name="adult",
    files=(_TRAIN, _TEST),
    assemble=_assemble,
    sources=(Source("OpenML 1590", _from_openml), Source("UCI 2", _from_uci)),
)

_WORK = {
    "State-gov": "Government",
    "Federal-gov": "Government",
    "Local-gov": "Government",
    "Self-emp-not-inc": "Self-Employed",
    "Self-emp-inc": "Self-Employed",
    "Private": "Privately-Employed",
}
_HALVED = ("age", "capital-gain", "capital-loss", "hours-per-week")
_ONE_HOT = (
    "workclass",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "native-country",
)
_LEFT_OUT = (
    "workclass_?",
    "occupation_?",
    "native-country_?",
    "native-country_Holand-Netherlands",
)


def as_p1(
    raw: pd.DataFrame, *, shape: tuple[int, int] | None = P1_SHAPE
) -> tuple[pd.DataFrame, pd.Series]:
    """Prepare Adult as P1's published code does.

    Each file by itself: without `fnlwgt` and `education`, repeated rows dropped, people with unknown
    answers kept; work, marriage, occupation and race in fewer words; age, hours, gains and losses
    halved at the mean. The rest one-hot, without the columns of the unknown answers and of the one
    person from the Netherlands. Full blocks of dummies make three of the 88 columns redundant.

    Parameters
    ----------
    raw : DataFrame
        What `load("adult")` gives.
    shape : (int, int) or None
        What must come out: P1 Table II; None for other data.

    Returns
    -------
    X : DataFrame of 0 and 1
    y : Series, categorical, named "income": 1 for more than $50,000
    """
    files = [
        _halved(part.drop(columns=["fnlwgt", "education", "file"]).drop_duplicates())
        for _, part in raw.groupby("file", sort=False)
    ]
    table = pd.concat(files, ignore_index=True)
    y = (table.pop("income") == ">50K").astype(int).astype("category")
    table["workclass"] = table["workclass"].replace(_WORK)
    married = table["marital-status"].str.startswith("Married")
    table["marital-status"] = np.where(married, "Married", "Not-married")
    table["occupation"] = table["occupation"].replace("Armed-Forces", "Protective-serv")
    table["race"] = (table["race"] == "White").astype(int)
    table["sex"] = (table["sex"] == "Male").astype(int)
    coded = pd.get_dummies(table, columns=list(_ONE_HOT), dtype=int)
    X = coded.drop(columns=[name for name in _LEFT_OUT if name in coded])
    refuse_other_shape("adult", X.shape, shape)
    return X, y.rename("income")


def ordinary(raw: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Prepare Adult as somebody would today: whole answers only, nothing binarised."""
    table = raw.drop(columns=["fnlwgt", "education", "native-country", "file"])
    table = table[(table != "?").all(axis=1)].reset_index(drop=True)
    return table.drop(columns="income"), table["income"].astype("category")


def _halved(part: pd.DataFrame) -> pd.DataFrame:
    above = {name: (part[name] >= part[name].mean()).astype(int) for name in _HALVED}
    return part.assign(**above)
