# SPDX-License-Identifier: Apache-2.0
"""A released table as text, written as the data are: no column tells by its form that it is randomised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from epsilens.data.dialect import Dialect, released_dialect
from epsilens.data.fields import spellings

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.channels.release import Release
    from epsilens.data.files import TableFile

__all__ = ["written_release"]


def written_release(
    table: TableFile,
    release: Release,
    *,
    categories: Mapping[str, Sequence[str]],
    encoding: str | None = None,
) -> tuple[pd.DataFrame, Dialect | None]:
    r"""Return the fields of a release for a text file, and its dialect.

    Open columns are spelled as they were. Answers that were declared are spelled as they were
    declared; observed ones as in the data, which the release shows anyway; bins as numbers.

    Parameters
    ----------
    table : TableFile
        The data, read with every field as it is written.
    release : Release
        What is to be written.
    categories : mapping of str to sequence of str
        The declared answers.
    encoding : str, optional
        The declared encoding.

    Returns
    -------
    DataFrame and Dialect
        The values and None where the data are no text file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsilens.channels import Budget
    >>> from epsilens.channels.release import release_table
    >>> from epsilens.data import read_table
    >>> file = Path(tempfile.mkdtemp()) / "survey.csv"
    >>> _ = file.write_text("height;smokes\n1,80;yes\n1,65;no\n")
    >>> table = read_table(file, spelled=True)
    >>> named = {"smokes": ["no", "yes"]}
    >>> release = release_table(table.frame, budget=Budget({"smokes": 1.0}), categories=named)
    >>> fields, dialect = written_release(table, release, categories=named)
    >>> sorted(fields["height"]), dialect.delimiter
    (['1,65', '1,80'], ';')
    """
    import pandas as pd

    if table.spelled is None or table.dialect is None:
        return release.frame, None
    protected = {
        name: not pd.api.types.is_numeric_dtype(release.frame[name].dtype)
        for name in release.budget.per_column
    }
    others = [name for name in release.frame.columns if name not in protected]
    dialect = released_dialect(
        table.dialect,
        table.spelled.select(others),
        protected,
        categories=[text for texts in categories.values() for text in texts],
        encoding=encoding,
    )
    # A table of tabs becomes a csv file with commas, unless it was called csv all the same.
    if dialect.delimiter == "\t" and not table.name.lower().endswith((".csv", ".csv.gz")):
        dialect = replace(dialect, delimiter=",")
    fields = pd.DataFrame(
        table.spelled.select(list(release.frame.columns)).take(release.rows).to_pandas()
    )
    for place, name in enumerate(release.frame.columns):
        if name not in protected:
            continue
        reports = release.as_typed.get(name, release.frame[name])
        texts = reports.astype(str)
        if release.origin[name] == "observed" and name not in release.bins:
            texts = reports.map(spellings(table.spelled.column(name), table.frame[name]))
        elif dialect.has_decimal_comma and release.frame[name].dtype.kind == "f":
            texts = texts.str.replace(".", ",", regex=False)
        is_missing = release.frame[name].isna().to_numpy()
        gap = " " if dialect.is_spaced and place else ""
        fields[name] = np.where(is_missing, dialect.missing_mark, gap + texts.astype(object))
    return fields, dialect
