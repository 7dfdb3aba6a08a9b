# SPDX-License-Identifier: Apache-2.0
"""Tables of the UCI repository: glioma (P2), wine quality, air quality, banknotes (P4)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from datasets.door import DataSet
from datasets.files import TableFile
from datasets.sources import Source, uci_repository

__all__ = ["AIR_QUALITY", "BANKNOTE", "GENES", "GLIOMA", "WINE_QUALITY"]

GENES = [
    "IDH1",
    "TP53",
    "ATRX",
    "PTEN",
    "EGFR",
    "CIC",
    "MUC16",
    "PIK3CA",
    "NF1",
    "PIK3R1",
    "FUBP1",
    "RB1",
    "NOTCH1",
    "BCOR",
    "CSMD3",
    "SMARCA4",
    "GRIN2A",
    "IDH2",
    "FAT4",
    "PDGFRA",
]
_GLIOMA = TableFile(
    "glioma/TCGA_InfoWithGrade.csv",
    "00f1fb9e399fc7f3c799b024b0fc9e98c6b7b3c240618184c29702f6901587f4",
    {
        "Grade": "integer",
        "Gender": "integer",
        "Age_at_diagnosis": "number",
        "Race": "integer",
        **dict.fromkeys(GENES, "integer"),
    },
)
_CODES = {
    "LGG": 0,
    "GBM": 1,
    "Male": 0,
    "Female": 1,
    "NOT_MUTATED": 0,
    "MUTATED": 1,
    "white": 0,
    "black or african american": 1,
    "asian": 2,
    "american indian or alaska native": 3,
}


def _glioma() -> Mapping[str, pd.DataFrame]:
    table = uci_repository(759)
    words = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    coded = {name: table[name].map(lambda value: _CODES.get(value, value)) for name in words}
    return {_GLIOMA.path: table.assign(**coded)}


GLIOMA = DataSet(
    name="glioma",
    files=(_GLIOMA,),
    assemble=lambda table: table,
    sources=(Source("UCI 759", _glioma),),
)

_WINE_COLUMNS = {
    **dict.fromkeys(
        (
            "fixed acidity",
            "volatile acidity",
            "citric acid",
            "residual sugar",
            "chlorides",
            "free sulfur dioxide",
            "total sulfur dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        "number",
    ),
    "quality": "integer",
}
_RED = TableFile(
    "wine_quality/winequality-red.csv",
    "25009322ca1eace239f8b830d01643e7615728ecb77b74bf9dcb563dfbeb41c9",
    _WINE_COLUMNS,
)
_WHITE = TableFile(
    "wine_quality/winequality-white.csv",
    "8510938e04b00dda1ce154ca2682569f68f4e60dd7a07da089012a86f5268be5",
    _WINE_COLUMNS,
)


def _wine() -> Mapping[str, pd.DataFrame]:
    table = uci_repository(186)
    table = table.rename(columns={name: name.replace("_", " ") for name in table})
    return {
        file.path: table[table["color"] == colour]
        for file, colour in ((_RED, "red"), (_WHITE, "white"))
    }


WINE_QUALITY = DataSet(
    name="wine_quality",
    files=(_RED, _WHITE),
    assemble=lambda red, white: pd.concat(
        [red.assign(colour="red"), white.assign(colour="white")], ignore_index=True
    ),
    sources=(Source("UCI 186", _wine),),
)

_AIR_DECIMALS = {
    "CO(GT)": 1,
    "PT08.S1(CO)": 0,
    "NMHC(GT)": 0,
    "C6H6(GT)": 1,
    "PT08.S2(NMHC)": 0,
    "NOx(GT)": 0,
    "PT08.S3(NOx)": 0,
    "NO2(GT)": 0,
    "PT08.S4(NO2)": 0,
    "PT08.S5(O3)": 0,
    "T": 1,
    "RH": 1,
    "AH": 4,
}
_AIR = TableFile(
    "air_quality/AirQualityUCI.csv.gz",
    "d2704ded049d6adb534838a437f456a29a533e696e856d31d69ecf5bc990185e",
    {"Date": "text", "Time": "text", **dict.fromkeys(_AIR_DECIMALS, "number")},
)


def _air() -> Mapping[str, pd.DataFrame]:
    table = uci_repository(360)
    dates = pd.to_datetime(table["Date"], format="%m/%d/%Y").dt.strftime("%Y-%m-%d")
    return {_AIR.path: table.round(_AIR_DECIMALS).assign(Date=dates)}


AIR_QUALITY = DataSet(
    name="air_quality",
    files=(_AIR,),
    assemble=lambda table: table,
    sources=(Source("UCI 360", _air),),
    versions="it is published rounded and unrounded",
)

_BANKNOTE = TableFile(
    "banknote/banknote_authentication.csv",
    "6a8e908034dcd5c12d533583105a98606832cff1e214488c49454ef1ba9e5c65",
    {
        **dict.fromkeys(("variance", "skewness", "curtosis", "entropy"), "number"),
        "class": "integer",
    },
)
BANKNOTE = DataSet(
    name="banknote",
    files=(_BANKNOTE,),
    assemble=lambda table: table,
    sources=(Source("UCI 267", lambda: {_BANKNOTE.path: uci_repository(267)}),),
)
