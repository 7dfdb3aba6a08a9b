# SPDX-License-Identifier: Apache-2.0
"""Where the data sets are downloaded from: OpenML, the UCI repository, the census, archives."""

from __future__ import annotations

import functools
import http.client
import io
import tarfile
import tempfile
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import pandas as pd

from epsilens.errors import MissingExtraError

__all__ = ["UNREACHABLE", "Source", "census_persons", "download", "openml", "uci_repository"]

UNREACHABLE = (OSError, http.client.HTTPException, zipfile.BadZipFile, tarfile.TarError)
"""What a loader raises when the network, the server or half a file is to blame."""

_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Source:
    """A place that a data set can be had from.

    Attributes
    ----------
    name : str
        As a reader knows it: "OpenML 1590".
    fetch : callable
        Downloads, and returns the content of every file by its path inside the data folder.
    """

    name: str
    fetch: Callable[[], Mapping[str, Any]]


def openml(number: int) -> pd.DataFrame:
    """Fetch a data set of OpenML as one table, the target among its columns."""
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A network error occurred")
        # Our own cache keeps the result; a second copy of 100 MB helps nobody.
        return fetch_openml(data_id=number, as_frame=True, cache=False, n_retries=2).frame


def uci_repository(number: int) -> pd.DataFrame:
    """Fetch a data set of the UCI repository as one table."""
    try:
        from ucimlrepo import fetch_ucirepo
        from ucimlrepo.fetch import DatasetNotFoundError
    except ImportError:
        raise _missing("ucimlrepo") from None
    try:
        return fetch_ucirepo(id=number).data.original
    except DatasetNotFoundError as error:
        # It says so too when the server breaks off in the middle.
        raise ConnectionError("the repository gave no table") from error


@functools.lru_cache(maxsize=1)
def census_persons(states: Sequence[str]) -> pd.DataFrame:
    """Fetch the persons of the American Community Survey, 2018 1-Year, of some states."""
    try:
        from folktables import ACSDataSource
    except ImportError:
        raise _missing("folktables") from None
    # In a folder of its own: the loader takes half a file for a whole one the next time. State by
    # state, so that the first that cannot be had ends it; what the loader prints belongs to nobody.
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        source = ACSDataSource(
            survey_year="2018", horizon="1-Year", survey="person", root_dir=folder
        )
        people = [source.get_data(states=[state], download=True) for state in states]
    return pd.concat(people, ignore_index=True)


def download(address: str) -> bytes:
    """Fetch a file."""
    if not address.startswith("https://"):
        raise ValueError("an address must begin with https://")
    with urllib.request.urlopen(address, timeout=_PATIENCE_SECONDS) as response:
        held: bytes = response.read()
    return held


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(
        f"downloading this data set needs {package}, which is not installed. Run: "
        'pip install "epsilens[bench]"'
    )
