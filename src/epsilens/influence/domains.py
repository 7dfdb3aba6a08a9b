# SPDX-License-Identifier: Apache-2.0
"""The values that a protected feature can take, and every record's place among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens.data.encoding import category_columns
from epsilens.data.frames import to_pandas
from epsilens.data.schema import LARGEST_NUMERIC_DOMAIN
from epsilens.errors import InputError

__all__ = ["FeatureDomain", "read_domain"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class FeatureDomain:
    """A protected feature's values.

    Attributes
    ----------
    categories : tuple
    codes : array of int, shape (n,)
    is_observed : bool
        Whether the values are only known from the data.
    """

    categories: tuple[object, ...]
    codes: NDArray[np.int64]
    is_observed: bool


def read_domain(
    name: str, table: object, given: Sequence[object] | None, transformers: object | None
) -> FeatureDomain:
    """Find the domain: given, else the encoder's, else the dtype's, else what is observed.

    Parameters
    ----------
    name : str
    table : frame or array
        The training records.
    given : sequence, optional
        The domain that the caller vouches for.
    transformers : fitted pipeline, optional
        Whose encoder may know the categories.
    """
    import pandas as pd

    column = to_pandas(table)[name]
    missing = int(column.isna().sum())
    if missing:
        raise InputError(
            f"column {name!r} must not be missing to be protected, but {missing} values are. Drop "
            "those rows, or make missing a category."
        )
    is_observed = False
    if given is not None:
        categories = tuple(given)
        if len(set(categories)) != len(categories) or len(categories) < 2:
            raise InputError(
                f"`categories` of {name!r} must be at least two different values, got "
                f"{len(categories)} with {len(set(categories))} different."
            )
    elif (known := _encoder_categories(name, transformers)) is not None:
        categories = known
    elif isinstance(column.dtype, pd.CategoricalDtype) and not _only_collects(name, table):
        categories = tuple(column.dtype.categories.tolist())
    else:
        categories = tuple(
            sorted(column.unique().tolist(), key=lambda value: (str(type(value)), value))
        )
        is_observed = True
        is_number = pd.api.types.is_numeric_dtype(column.dtype)
        if is_number and len(categories) > LARGEST_NUMERIC_DOMAIN:
            raise InputError(
                f"column {name!r} has {len(categories)} distinct numbers, and randomised response "
                f"needs at most {LARGEST_NUMERIC_DOMAIN}. Put it into bins (on the command line: "
                f"--bins {name}=LOW:HIGH:10)."
            )
    if len(categories) < 2:
        raise InputError(f"column {name!r} has one value only: there is nothing to protect.")
    codes = np.asarray(pd.Index(list(categories)).get_indexer(pd.Index(column.tolist())))
    outside = int((codes < 0).sum())
    if outside:
        raise InputError(
            f"the domain of {name!r} must contain every value, but {outside} rows have another. Add "
            "the missing categories."
        )
    return FeatureDomain(categories, codes.astype(np.int64), is_observed)


def _only_collects(name: str, table: object) -> bool:
    """Return whether the dtype merely lists what it has seen, as polars' Categorical does."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_polars():
        return False
    return not isinstance(frame.schema[name], nw.Enum)


def _encoder_categories(name: str, transformers: object | None) -> tuple[object, ...] | None:
    """Return the categories that a fitted encoder has for a column."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    steps = [step for _, step in transformers.steps] if isinstance(transformers, Pipeline) else []
    for step in steps:
        try:
            found = category_columns(step)
        except InputError:  # a step that is no encoder
            found = {}
        if name in found:
            return tuple(found[name])
        if isinstance(step, ColumnTransformer):
            for _, encoder, columns in step.transformers_:
                known = getattr(encoder, "categories_", None)
                names = [] if isinstance(columns, slice | str) else [str(c) for c in columns]
                if known is not None and name in names:
                    return tuple(known[names.index(name)].tolist())
    return None
