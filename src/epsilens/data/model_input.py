# SPDX-License-Identifier: Apache-2.0
"""Columns as the model takes them, in the training data and in every table that is read after them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epsilens.data.binning import Bins
from epsilens.data.missing import spelled
from epsilens.data.schema import Schema, days, is_date
from epsilens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_model_input", "require_same_kinds", "spelled_alike"]


def as_model_input(
    frame: pd.DataFrame, schema: Schema, bins: Mapping[str, Bins], trained_on: pd.DataFrame
) -> pd.DataFrame:
    """Turn dates into days, binned numbers into midpoints, nullable columns into plain ones."""
    import numpy as np
    import pandas as pd

    result = frame.copy(deep=False)
    for name in frame.columns:
        column = frame[name]
        if is_date(column) and schema[str(name)].encoding == "number":
            result[name] = days(column)
        elif name in bins:
            bounded = bins[str(name)].bounded_by(trained_on[name].to_numpy(np.float64))
            result[name] = bounded.apply(column.to_numpy(np.float64))
        elif pd.api.types.is_extension_array_dtype(column.dtype) and pd.api.types.is_numeric_dtype(
            column.dtype
        ):
            result[name] = column.to_numpy(
                column.dtype.numpy_dtype  # type: ignore[union-attr]
            )
    return result


def spelled_alike(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Spell categories as in training: one gap turns truths or codes of a file into words."""
    import pandas as pd

    alike = frame.copy(deep=False)
    for name in schema.encoded_as("one-hot"):
        known = schema[name].categories or ()
        column = frame[name]
        is_words = not pd.api.types.is_numeric_dtype(column.dtype)
        if all(isinstance(value, str) for value in known) and not is_words:
            by_text = {spelled(value): value for value in column.unique()}
            if any(text in known for text in by_text):
                alike[name] = column.astype(object).map(spelled)
        elif all(isinstance(value, bool) for value in known) and is_words:
            truths = {"True": True, "False": False, True: True, False: False}
            if column.isin(list(truths)).all():
                alike[name] = column.astype(object).map(truths).astype(bool)
    return alike


def require_same_kinds(frame: pd.DataFrame, trained_on: pd.DataFrame, *, what: str) -> None:
    """Refuse a second table whose columns hold another kind of answer than in training."""
    import pandas as pd

    for name in trained_on.columns:
        if is_date(trained_on[name]) != is_date(frame[name]):
            raise InputError(
                f"column {name!r} must hold dates in the training data and the {what} alike, "
                "written like 2024-01-31."
            )
        ours = pd.api.types.is_numeric_dtype(trained_on[name].dtype)
        theirs = pd.api.types.is_numeric_dtype(frame[name].dtype)
        if ours and not theirs:
            written = frame[name].astype(str).str.replace(",", ".")
            n_words = int(pd.to_numeric(written, errors="coerce").isna().sum()) or len(frame)
            raise InputError(
                f"column {name!r} must hold numbers in the {what} too, as in the training data, but "
                f"{n_words} of {len(frame)} rows hold words. Correct or remove those rows."
            )
        if theirs and not ours:
            raise InputError(
                f"column {name!r} must hold words in the {what} too, as in the training data, but "
                "it holds numbers. Write the answers alike in both tables."
            )
