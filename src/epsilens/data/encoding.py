# SPDX-License-Identifier: Apache-2.0
"""From columns to the numbers a linear model sees, and back from a category to its column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from epsilens.data.binning import Bins
from epsilens.data.missing import spelled
from epsilens.data.schema import Category, Schema, as_category, days, is_date
from epsilens.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from sklearn.compose import ColumnTransformer


MOST_DENSE_CATEGORIES = 500
"""With more one-hot columns than this the encoded table is sparse."""


def build_encoder(
    schema: Schema, *, keep_all: Sequence[str] = (), ordinal: bool = False
) -> ColumnTransformer:
    """Build the encoder of the default model.

    Each category but the first gets a column of zeros and ones; numbers are centred and scaled
    to unit variance; constant and identifying columns are left out. For trees categories become one column of
    codes, and numbers stay as they are.

    Parameters
    ----------
    schema : Schema
        The columns, without the label.
    keep_all : sequence of str
        Columns whose first category gets a column too.
    ordinal : bool
        Whether categories become codes, as trees take them.

    Returns
    -------
    sklearn.compose.ColumnTransformer
        Not yet fitted. Its categories are those of the schema, in the schema's order.

    Raises
    ------
    InputError
        If no column is left to learn from.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data.schema import infer_schema
    >>> frame = pd.DataFrame({"sex": ["F", "M", "F"], "age": [31.0, 42.0, 53.0]})
    >>> build_encoder(infer_schema(frame)).fit_transform(frame).shape
    (3, 2)
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    words = [name for name in schema.encoded_as("one-hot") if name not in keep_all]
    whole = [name for name in schema.encoded_as("one-hot") if name in keep_all]
    numbers = list(schema.encoded_as("number"))
    if not words and not whole and not numbers:
        raise InputError(
            "at least one column must be left to learn from, got 0. "
            "Check which columns were dropped, constant or identifiers."
        )
    domains = [schema[name].categories or () for name in words]
    parts: list[tuple[str, object, list[str]]] = []
    if ordinal:
        encoder = OrdinalEncoder(categories=[_category_array(domain) for domain in domains])
        return ColumnTransformer(
            [("categories", encoder, words), ("numbers", "passthrough", numbers)]
        )
    if words:
        parts.append(
            (
                "categories",
                OneHotEncoder(
                    categories=[_category_array(domain) for domain in domains],
                    drop="first",
                    sparse_output=sum(map(len, domains)) > MOST_DENSE_CATEGORIES,
                ),
                words,
            )
        )
    if whole:
        domains = [schema[name].categories or () for name in whole]
        encoder = OneHotEncoder(
            categories=[_category_array(domain) for domain in domains], sparse_output=False
        )
        parts.append(("whole categories", encoder, whole))
    if numbers:
        parts.append(("numbers", StandardScaler(), numbers))
    return ColumnTransformer(parts, remainder="drop", verbose_feature_names_out=False)


def _category_array(domain: Sequence[Category]) -> NDArray[np.generic]:
    import numpy as np

    is_text = any(isinstance(value, str) for value in domain)
    return np.array(list(domain), dtype=object if is_text else None)


def category_columns(encoder: object) -> dict[str, dict[Category, int | None]]:
    """Say into which column of the encoded table each category goes.

    Parameters
    ----------
    encoder : fitted ColumnTransformer or OneHotEncoder
        Or a pipeline that ends in one. Only public attributes are read.

    Returns
    -------
    dict of str to dict
        For each one-hot column: category to output column; None for the level that was dropped.
        Several rare categories may share a column.

    Raises
    ------
    InputTypeError
        If `encoder` is something else, or not fitted.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data.schema import infer_schema
    >>> frame = pd.DataFrame({"age": [31.5, 42.0, 53.0], "sex": ["F", "M", "F"]})
    >>> category_columns(build_encoder(infer_schema(frame)).fit(frame))
    {'sex': {'F': None, 'M': 0}}
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.utils.validation import check_is_fitted

    last = encoder.steps[-1][1] if isinstance(encoder, Pipeline) else encoder
    if not isinstance(last, ColumnTransformer | OneHotEncoder):
        raise InputTypeError(
            "an encoder must be a ColumnTransformer or a OneHotEncoder of scikit-learn, "
            f"got {type(last).__name__}."
        )
    try:
        check_is_fitted(last)
    except NotFittedError:
        raise InputTypeError(
            f"the encoder must be fitted, got a {type(last).__name__} that is not. Call `fit`."
        ) from None
    if isinstance(last, OneHotEncoder):
        names = [str(name) for name in getattr(encoder, "feature_names_in_", [])]
        names = names or [f"x{index}" for index in range(last.n_features_in_)]
        return _one_hot_columns(last, names, start=0)
    inputs = [str(name) for name in getattr(last, "feature_names_in_", [])]
    inputs = inputs or [f"x{index}" for index in range(last.n_features_in_)]
    found: dict[str, dict[Category, int | None]] = {}
    for name, transformer, columns in last.transformers_:
        final = transformer.steps[-1][1] if isinstance(transformer, Pipeline) else transformer
        if not isinstance(final, OneHotEncoder):
            continue
        chosen = _resolve(columns, inputs)
        if len(chosen) != final.n_features_in_:
            # A step before the encoder changed the columns: which is which is not known.
            continue
        found.update(_one_hot_columns(final, chosen, start=last.output_indices_[name].start))
    return found


def _resolve(columns: object, inputs: list[str]) -> list[str]:
    """Return the names that a ColumnTransformer's column choice stands for."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            first = 0 if columns.start is None else inputs.index(columns.start)
            last = len(inputs) if columns.stop is None else inputs.index(columns.stop) + 1
            return inputs[first : last : columns.step]
        return inputs[columns]
    if isinstance(columns, int):
        return [inputs[columns]]
    listed = list(columns)  # type: ignore[call-overload]
    if listed and all(type(entry).__name__ in {"bool", "bool_"} for entry in listed):
        return [name for name, chosen in zip(inputs, listed, strict=True) if chosen]
    return [entry if isinstance(entry, str) else inputs[int(entry)] for entry in listed]


def _one_hot_columns(
    encoder: object, names: Sequence[str], *, start: int
) -> dict[str, dict[Category, int | None]]:
    categories = encoder.categories_  # type: ignore[attr-defined]
    drop = encoder.drop_idx_  # type: ignore[attr-defined]
    rare = encoder.infrequent_categories_ if _groups_rare(encoder) else None  # type: ignore[attr-defined]
    found: dict[str, dict[Category, int | None]] = {}
    for feature, name in enumerate(names):
        values = [as_category(value) for value in categories[feature]]
        together = rare[feature] if rare is not None else None
        grouped = set() if together is None else {as_category(value) for value in together}
        # Frequent categories come first, in order; the rare ones share the last column.
        slots = [value for value in values if value not in grouped]
        slot_of = {value: index for index, value in enumerate(slots)}
        slot_of.update(dict.fromkeys(grouped, len(slots)))
        n_slots = len(slots) + bool(grouped)
        dropped_index = None if drop is None else drop[feature]
        dropped = None if dropped_index is None else slot_of[values[dropped_index]]
        found[name] = {
            value: None
            if slot_of[value] == dropped
            else start + slot_of[value] - (dropped is not None and slot_of[value] > dropped)
            for value in values
        }
        start += n_slots - (dropped is not None)
    return found


def _groups_rare(encoder: object) -> bool:
    parameters: Mapping[str, object] = encoder.get_params()  # type: ignore[attr-defined]
    return (
        parameters.get("min_frequency") is not None or parameters.get("max_categories") is not None
    )


def check_categories(schema: Schema, frame: pd.DataFrame, *, what: str = "test data") -> None:
    """Raise if a table has categories that the model has never seen.

    Checked here because scikit-learn would show them in its message.

    Parameters
    ----------
    schema : Schema
        The columns the encoder was built from.
    frame : pandas.DataFrame
        Other rows.
    what : str
        What the rows are called in the message.

    Raises
    ------
    InputError
        Naming the column and how many rows there are, never the category.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data.schema import infer_schema
    >>> schema = infer_schema(pd.DataFrame({"sex": ["F", "M"]}))
    >>> check_categories(schema, pd.DataFrame({"sex": ["F"]}))
    """
    for name in schema.encoded_as("one-hot"):
        known = schema[name].categories or ()
        unknown = ~frame[name].isin(list(known))
        if unknown.any():
            raise InputError(
                f"column {name!r} of the {what} must hold categories of the training data, but "
                f"{int(unknown.sum())} rows have {frame[name][unknown].nunique(dropna=False)} others. "
                "Remove those rows, or join the categories."
            )


# --- Columns as the model takes them, in the training data and in every table that is read after them ---


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
