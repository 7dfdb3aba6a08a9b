# SPDX-License-Identifier: Apache-2.0
"""The papers' data sets: `load("adult")` downloads once, `load("adult", folder=DIR)` reads a copy.

Either way the same table comes out, checked by its content. `python benchmarks/datasets` downloads all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets.adult import ADULT
from datasets.authors import P2_GLIOMA, P2_INCOME, P2_PUBCOV, P2_RESULTS
from datasets.census import INCOME, PUBCOV
from datasets.digits import MNIST
from datasets.door import DataSet, cache_folder, read_or_download
from datasets.people import CMU_FACES, WISDM
from datasets.repository import AIR_QUALITY, BANKNOTE, GLIOMA, WINE_QUALITY
from epsilens.errors import InputError

__all__ = ["DATA_SETS", "DataSet", "cache_folder", "load"]

DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        ADULT,
        PUBCOV,
        INCOME,
        GLIOMA,
        MNIST,
        WINE_QUALITY,
        AIR_QUALITY,
        BANKNOTE,
        CMU_FACES,
        WISDM,
        P2_INCOME,
        P2_PUBCOV,
        P2_GLIOMA,
        P2_RESULTS,
    )
}


def load(name: str, *, folder: Path | None = None) -> Any:
    """Return the raw table of a data set.

    Parameters
    ----------
    name : str
        One of `DATA_SETS`.
    folder : Path, optional
        A folder with a copy of the files. Without it the cache is read, and what is not in it is
        downloaded first.

    Returns
    -------
    DataFrame, or a dict of arrays or frames where one table is not enough
    """
    if name not in DATA_SETS:
        raise InputError(
            f"a data set must be one of {', '.join(DATA_SETS)}, got {name!r}. Choose one of them."
        )
    return read_or_download(DATA_SETS[name], folder)
