# SPDX-License-Identifier: Apache-2.0
"""What a table contains and what of it can be protected, without a record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.data.files import TableFile
    from epsilens.data.schema import Column, Schema
    from epsilens.document import InspectDocument


MOST_NAMED_CATEGORIES = 8
"""A longer list of categories is counted, not shown."""

NEEDS_BINS = "needs --bins"

_PERSON_NAMES = (
    *("person", "subject", "participant", "patient", "respondent", "individual", "user", "member"),
    *(
        "client",
        "customer",
        "student",
        "employee",
        "volunteer",
        "proband",
        "kunde",
        "personne",
        "sujet",
    ),
)
"""Words for people: the last word of a column that says whose record it is."""
_LABEL_NAMES = ("label", "target", "outcome", "class", "response", "answer", "y")


def describe_table(
    table: TableFile,
    schema: Schema,
    *,
    settings: dict[str, object],
    suggestion: str | None = None,
) -> InspectDocument:
    """Describe a table without a record of it.

    Parameters
    ----------
    table : TableFile
    schema : Schema
        Schema of its columns.
    settings : dict
        How it was read, for the provenance.
    suggestion : str, optional
        A command to go on with.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import TableFile, infer_schema
    >>> frame = pd.DataFrame({"age": [31, 42, 53], "smokes": ["no", "yes", "no"]})
    >>> table = TableFile(frame, name="survey.csv", format="csv")
    >>> document = describe_table(table, infer_schema(frame), settings={})
    >>> document.rows, [(column.name, column.categories) for column in document.columns]
    (3, [('age', None), ('smokes', ['no', 'yes'])])
    """
    from epsilens.document import InspectColumn, InspectDocument, Provenance

    n_incomplete = int(table.frame.isna().any(axis=1).sum())
    return InspectDocument(
        provenance=Provenance(
            method="inspect", settings=settings, schema_fingerprint=schema.fingerprint
        ),
        notes=_remarks(table, n_incomplete),
        number_types={"rows": "measured", "n_distinct": "measured", "n_missing": "measured"},
        rows=schema.n_rows,
        columns=[
            InspectColumn(
                name=column.name,
                kind=column.kind,
                n_distinct=column.n_distinct,
                n_missing=column.n_missing,
                protectable=column.protectable,
                categories=_category_names(column),
                note=column.note or (None if column.protectable else NEEDS_BINS),
            )
            for column in schema.columns
        ],
        suggestion=suggestion,
    )


def _category_names(column: Column) -> list[str] | None:
    # The domain, not the encoder's categories: where every value differs it is a list of people.
    if column.domain is None or len(column.domain) > MOST_NAMED_CATEGORIES:
        return None
    return [
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for value in column.domain
    ]


def _remarks(table: TableFile, n_incomplete: int) -> list[Note]:
    remarks = [*table.notes, *table.marks_note]
    if n_incomplete:
        remarks.append(
            Note(
                "missing-values",
                f"{n_incomplete} of {len(table.frame)} rows have a missing value "
                f"({n_incomplete / len(table.frame):.1%})",
            )
        )
    return remarks


def likely_label(schema: Schema) -> Column | None:
    """Prefer a column that is called so, then the last with two answers, with a few, or with a few numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import infer_schema
    >>> frame = pd.DataFrame({"smokes": ["no", "yes", "no"], "outcome": [1, 0, 0], "sex": list("FMF")})
    >>> likely_label(infer_schema(frame)).name
    'outcome'
    """
    binary = [column for column in schema.columns if column.kind == "binary"]
    few, codes = (
        [
            column
            for column in schema.columns
            if column.kind == kind and 0 < len(column.domain or ()) <= MOST_NAMED_CATEGORIES
        ]
        for kind in ("categorical", "numeric")
    )
    for column in [*binary, *few, *codes]:
        if column.name.lower() in _LABEL_NAMES:
            return column
    return next(reversed([*codes, *few, *binary]), None)


def identity_columns(frame: pd.DataFrame, schema: Schema) -> tuple[list[str], str | None]:
    """Name the columns that can say whose record it is, and the one that is called so, if any.

    Each of at least three people has two records or more on average. Numbers with a fraction name nobody.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import infer_schema
    >>> frame = pd.DataFrame({"person": [1, 1, 2, 2, 3, 3], "step": [0.5, 0.5, 0.7, 0.7, 0.9, 0.9],
    ...                       "visit": list("abcdef")})
    >>> identity_columns(frame, infer_schema(frame))
    (['person'], 'person')
    """
    from epsilens.data.schema import is_identifier_name

    fitting = [
        column.name
        for column in schema.columns
        if 3 <= column.n_distinct <= (schema.n_rows - column.n_missing) / 2
        and not (frame[column.name].dtype.kind == "f" and (frame[column.name] % 1 > 0).any())
    ]
    likely = (
        name
        for name in fitting
        if is_identifier_name(name, "text") or name.lower().split("_")[-1] in _PERSON_NAMES
    )
    return fitting, next(likely, None)


def likely_number(schema: Schema) -> tuple[Column, Column] | None:
    """Return a number to be predicted, where nothing has a few answers, and what could be protected.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import infer_schema
    >>> frame = pd.DataFrame({"hour": [str(i % 24) + "h" for i in range(90)],
    ...                       "smoke": [i / 7 for i in range(90)]})
    >>> [column.name for column in likely_number(infer_schema(frame))]
    ['smoke', 'hour']
    """
    numbers = [
        column
        for column in schema.columns
        if column.kind == "numeric" and column.encoding == "number" and not column.note
    ]
    called_so = [column for column in numbers if column.name.lower() in _LABEL_NAMES]
    label = next(iter(called_so), numbers[-1] if numbers else None)
    # An option would read a comma, or an equals sign, as the end of a name.
    others = [
        column
        for column in [*(c for c in schema.columns if c.protectable), *numbers]
        if column is not label and not {",", "="} & set(column.name)
    ]
    if label is None or not others:
        return None
    few = min(others, key=lambda column: (not column.protectable, column.n_distinct))
    return label, few
