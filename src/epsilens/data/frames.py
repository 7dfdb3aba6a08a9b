# SPDX-License-Identifier: Apache-2.0
"""The bridge between frame libraries: pandas, polars and Arrow come in, the same goes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epsilens._validate import require_unique
from epsilens.data.atomic import write_text
from epsilens.document import Document, to_dict, to_json
from epsilens.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


_FRAMES = "a pandas, polars or pyarrow table, or a two-dimensional NumPy array"
_SERIES = "a pandas, polars or pyarrow column, a one-dimensional NumPy array or a list"


def to_pandas(X: object) -> pd.DataFrame:
    """Turn any supported table into a pandas frame.

    Columns of an array without names are called x0, x1, and so on. A pandas frame with
    text names is returned as it is, not copied.

    Parameters
    ----------
    X : pandas or polars DataFrame, pyarrow Table, or array of shape (n_rows, n_columns)
        The table.

    Returns
    -------
    pandas.DataFrame
        The same values under text names, each of which stands once.

    Raises
    ------
    InputTypeError
        If `X` is no table.
    InputError
        If a column name stands twice.

    Examples
    --------
    >>> import numpy as np
    >>> to_pandas(np.zeros((2, 3))).columns.tolist()
    ['x0', 'x1', 'x2']
    """
    import narwhals as nw
    import numpy as np
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        frame = X
    elif isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise InputTypeError(f"a table must be {_FRAMES}, got an array of {X.ndim} dimensions.")
        return pd.DataFrame(X, columns=[f"x{index}" for index in range(X.shape[1])])
    else:
        wrapped = nw.from_native(X, pass_through=True)
        if isinstance(wrapped, nw.LazyFrame):
            raise InputTypeError(
                f"a table must be {_FRAMES}, got a lazy frame. Call `.collect()` first."
            )
        if not isinstance(wrapped, nw.DataFrame):
            raise InputTypeError(f"a table must be {_FRAMES}, got {type(X).__name__}.")
        require_unique(wrapped.columns, what="column names")
        frame = wrapped.to_pandas()
    if not all(isinstance(name, str) for name in frame.columns):
        if isinstance(frame.columns, pd.MultiIndex):
            raise InputError(
                "column names must be simple, got names of several levels. Flatten them first."
            )
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    require_unique(frame.columns, what="column names")
    return frame


def like(frame: pd.DataFrame, template: object) -> object:
    """Give a result back in the frame library that the user brought.

    Parameters
    ----------
    frame : pandas.DataFrame
        A result.
    template : object
        The user's own table or column; an array gives pandas.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The result.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyarrow as pa
    >>> type(like(pd.DataFrame({"epsilon": [1.0]}), pa.table({"age": [31]}))).__name__
    'Table'
    """
    import narwhals as nw

    wrapped = nw.from_native(template, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.DataFrame | nw.Series | nw.LazyFrame):
        if wrapped.implementation.is_polars():
            return nw.from_native(frame).to_polars()
        if wrapped.implementation.is_pyarrow():
            # Through pyarrow itself: narwhals would keep pandas' index as metadata.
            import pyarrow as pa

            return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    return frame


def series_name(y: object) -> str | None:
    """Say what a column is called, or None if it has no name.

    Parameters
    ----------
    y : object
        A column; a table of one column counts as one.

    Returns
    -------
    str or None
        Its name.

    Examples
    --------
    >>> import pandas as pd
    >>> series_name(pd.Series([1, 0], name="smokes")), series_name([1, 0])
    ('smokes', None)
    """
    columns = getattr(y, "columns", None)
    if columns is not None and getattr(y, "ndim", 2) == 2:
        names = getattr(y, "column_names", columns)
        return str(names[0]) if len(names) == 1 else None
    name = getattr(y, "name", None)
    return str(name) if name not in (None, "") and not callable(name) else None


def to_vector(y: object) -> NDArray[np.generic]:
    """Turn a column of any supported library into a one-dimensional array.

    Text comes as Python strings; a missing answer comes as None or NaN.

    Parameters
    ----------
    y : pandas or polars Series, pyarrow array, array of shape (n_rows,), or list
        The column; a table of one column counts as one.

    Returns
    -------
    array of shape (n_rows,)
        Its values.

    Raises
    ------
    InputTypeError
        If `y` is no single column.

    Examples
    --------
    >>> to_vector([1, 0, 1]).shape
    (3,)
    """
    import narwhals as nw
    import numpy as np
    import pandas as pd

    if isinstance(y, str | bytes | dict):
        raise InputTypeError(f"a column must be {_SERIES}, got {type(y).__name__}.")
    wrapped = nw.from_native(y, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.LazyFrame):
        raise InputTypeError(
            f"a column must be {_SERIES}, got a lazy frame. Call `.collect()` first."
        )
    if isinstance(wrapped, nw.DataFrame):
        if len(wrapped.columns) != 1:
            raise InputTypeError(
                f"a column must be {_SERIES}, got a table of {len(wrapped.columns)} columns."
            )
        wrapped = wrapped[wrapped.columns[0]]
    values: NDArray[np.generic]
    if isinstance(wrapped, nw.Series):
        values = wrapped.to_pandas().to_numpy()
    elif type(y).__module__.split(".")[0] == "pyarrow":
        values = pd.Series(y.to_pandas()).to_numpy()  # type: ignore[attr-defined]
    else:
        values = np.asarray(y)
    if values.shape[1:] == (1,):
        values = values.ravel()
    if values.ndim != 1:
        raise InputTypeError(f"a column must be {_SERIES}, got {values.ndim} dimensions.")
    return values.astype(object) if values.dtype.kind == "U" else values


# --- What every result that is one document can do with it: give it away, and write it down ---


class Documented:
    """A result whose whole answer is one document.

    Attributes
    ----------
    document : Document
        The whole answer.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> class Looked(Documented):
    ...     document = example_document("inspect", rows=3, columns=[])
    >>> Looked().to_dict()["rows"]
    3
    """

    document: Document

    def to_dict(self) -> dict[str, object]:
        """Return the JSON document as Python objects.

        Returns
        -------
        dict
            Text, numbers, true, false, null, lists and dicts only; infinity is the text "inf".
        """
        return to_dict(self.document)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the JSON document as text, and write it if a path is given.

        Parameters
        ----------
        path : str or pathlib.Path, optional
            A file, which appears whole or not at all; an older one is replaced.

        Returns
        -------
        str
            What `epsilens.document.load_document` reads.
        """
        text = to_json(self.document)
        if path is not None:
            write_text(text + "\n", path)
        return text
