# SPDX-License-Identifier: Apache-2.0
"""From the curator's table to checked training and test data: everything before the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from epsilens._validate import as_choice, as_mask, as_share, require_column, require_unique
from epsilens.data.binning import Bins
from epsilens.data.encoding import check_categories
from epsilens.data.expressions import Expression, parse_group
from epsilens.data.files import TableFile
from epsilens.data.frames import to_pandas
from epsilens.data.labels import Labels, read_labels, read_numbers
from epsilens.data.missing import MissingPolicy, settle_missing
from epsilens.data.model_input import as_model_input, require_same_kinds, spelled_alike
from epsilens.data.schema import Category, Schema, infer_schema
from epsilens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Offer", "Prepared", "Task", "prepare"]

Task = Literal["classification", "regression"]

FEWEST_TRAINING_ROWS = 10


@dataclass(frozen=True)
class Prepared:
    """Training and test data, checked, and everything that was done to get there.

    Parameters
    ----------
    X_train : pandas.DataFrame
        The columns to learn from; identifying and constant columns are gone.
    y_train : pandas.Series
        The label, in its original values, under its own name.
    X_test, y_test
        The same for the test rows.
    sample_weight, sample_weight_test : array or None
        The weight of each training and test row.
    schema : Schema
        Of the columns to learn from, also those left out, and of the label.
    groups, test_groups : dict of str to array of bool
        Which training and which test rows belong to each group.
    group_columns : dict of str to frozenset of str
        The columns each group looks at.
    label_categories : tuple
        The label's values in sorted order, as scikit-learn's `classes_`; empty for a number.
    positive : category or None
        The value that counts as "yes".
    notes : tuple of str
        What was left out or dropped, with counts, ready to be shown.
    rows : array of int
        Where in the data each training row stands, counted from 0.
    candidates : Offer or None
        Records on offer, read like the test data.
    beside, beside_test : pandas.DataFrame or None
        Columns that the model does not see but that come along, of the training and the test rows.
    """

    X_train: pd.DataFrame = field(repr=False)
    y_train: pd.Series = field(repr=False)
    X_test: pd.DataFrame = field(repr=False)
    y_test: pd.Series = field(repr=False)
    sample_weight: NDArray[np.float64] | None = field(repr=False)
    sample_weight_test: NDArray[np.float64] | None = field(repr=False)
    schema: Schema = field(repr=False)
    groups: dict[str, NDArray[np.bool_]] = field(repr=False)
    test_groups: dict[str, NDArray[np.bool_]] = field(repr=False)
    group_columns: dict[str, frozenset[str]]
    label_categories: tuple[Category, ...]
    positive: Category | None
    notes: tuple[str, ...]
    rows: NDArray[np.intp] = field(repr=False)
    candidates: Offer | None = field(default=None, repr=False)
    beside: pd.DataFrame | None = field(default=None, repr=False)
    beside_test: pd.DataFrame | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Offer:
    """Records that are not in the model yet.

    Parameters
    ----------
    X : pandas.DataFrame
    y : pandas.Series
    sample_weight : array or None
    rows : array of int
        Where in their file each stands, counted from 0.
    beside : pandas.DataFrame or None
        Columns that come along and that the model does not see.
    """

    X: pd.DataFrame = field(repr=False)
    y: pd.Series = field(repr=False)
    sample_weight: NDArray[np.float64] | None = field(repr=False)
    rows: NDArray[np.intp] = field(repr=False)
    beside: pd.DataFrame | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Part:
    """The rows of one file after the missing values are settled: not yet split."""

    X: pd.DataFrame
    y: pd.Series
    weight: NDArray[np.float64] | None
    masks: dict[str, NDArray[np.bool_]]
    rows: NDArray[np.intp]
    beside: pd.DataFrame


def prepare(
    table: object,
    *,
    label: str,
    drop: Sequence[str] = (),
    weight: str | None = None,
    categorical: Sequence[str] = (),
    bins: Mapping[str, Bins | int] | None = None,
    missing: MissingPolicy = "auto",
    test: object | None = None,
    test_share: float = 0.25,
    seed: int = 0,
    positive: str | None = None,
    groups: Iterable[str | tuple[str, Expression]] = (),
    task: Task = "classification",
    candidates: object | None = None,
    beside: Sequence[str] = (),
) -> Prepared:
    """Check a table and turn it into training and test data.

    Parameters
    ----------
    table : TableFile or frame
        The data.
    label : str
        The column to be predicted.
    drop : sequence of str
        Columns that the model must not see. Groups may still look at them.
    weight : str, optional
        A column with the weight of each row.
    categorical : sequence of str
        Numeric columns whose numbers are codes.
    bins : mapping of str to Bins or int, optional
        Numeric columns to be put into bins; a number becomes the middle of its bin.
    missing : {"auto", "error", "category", "drop"}
        What to do with missing answers.
    test : TableFile or frame, optional
        Test data; without it `test_share` of the rows are set aside.
    test_share : float in (0, 1)
        The share of rows set aside, stratified by label.
    seed : int
        Decides which rows are set aside.
    positive : str, optional
        The value of the label that counts as "yes"; all others become "other".
    groups : iterable of str
        `[NAME=]EXPRESSION` each, over the training and the test rows.
    task : {"classification", "regression"}
        Whether the label is one of two answers or a number.
    candidates : TableFile or frame, optional
        Records on offer that are not trained on.
    beside : sequence of str
        Columns that the model must not see but that are wanted row by row, such as whose record it
        is. Rows in which they are missing are treated as those without a label.

    Returns
    -------
    Prepared
        See there.

    Raises
    ------
    InputError
        If a column is unknown, the label does not fit the task, a group is empty, weights are
        negative, and so on. No message contains a value.

    Examples
    --------
    >>> from epsilens.data.example import load_survey
    >>> prepared = prepare(load_survey(), label="affair", groups=["religious=religious >= 3"])
    >>> prepared.X_train.shape, prepared.X_test.shape, prepared.positive
    ((4774, 8), (1592, 8), 'yes')
    """
    as_choice(task, get_args(Task), name="task")
    frame = _frame(table)
    named = _parse_groups(groups)
    settings = _Settings(
        label,
        tuple(drop),
        weight,
        tuple(categorical),
        {name: Bins(b) if isinstance(b, int) else b for name, b in (bins or {}).items()},
        missing,
        positive,
        named,
        task,
        tuple(beside),
    )
    settings.check_against(frame)
    notes: list[str] = []
    if isinstance(table, TableFile):
        notes += table.notes
        if table.missing_marks:
            marks = ", ".join(
                f"{mark!r} {count}" if mark else f"empty {count}"
                for mark, count in table.missing_marks.items()
            )
            notes.append(f"taken as missing values: {marks}")

    settings.refuse_infinite(frame, settings.features(frame))
    # What is left out anyway costs no row when some of it is missing.
    first_look = infer_schema(
        frame[settings.features(frame)], categorical=categorical, bins=settings.bins
    )
    useless = first_look.encoded_as("left out")
    settled = settle_missing(
        frame,
        policy=missing,
        columns=[
            *(name for name in first_look.names if name not in useless),
            *settings.required,
        ],
        required=settings.required,
        categorical=categorical,
    )
    # Groups are asked of the answers as they came: a missing answer belongs to none.
    answers = frame.loc[settled.kept].reset_index(drop=True)
    frame = settled.frame.reset_index(drop=True)
    notes += settled.notes
    if len(frame) < FEWEST_TRAINING_ROWS:
        raise InputError(
            f"at least {FEWEST_TRAINING_ROWS} complete rows are needed, got {len(frame)}."
        )
    features = frame[settings.features(frame)]
    schema = infer_schema(features, categorical=categorical, bins=settings.bins)
    schema = replace(
        schema,
        columns=tuple(first_look[c.name] if c.name in useless else c for c in schema.columns),
    )
    labels = settings.labels(frame[label])
    described = infer_schema(frame[[label]]).columns[0]
    schema = replace(schema, label=described)
    for column in schema.columns:
        if column.encoding == "left out" or (column.note and "date" in column.note):
            notes.append(f"{column.name}: {column.note}")
    everything = settings.part(frame, answers, schema, labels.values, features, kept=settled.kept)
    notes += labels.notes

    if test is None:
        train, held_out = _split(
            everything, share=as_share(test_share, name="test_share"), seed=seed, task=task
        )
    else:
        train = everything
        held_out, test_notes = settings.test_part(_frame(test), schema, labels, features)
        notes += test_notes
    offer = None
    if candidates is not None:
        settings_alone = replace(settings, groups=())
        part, more_notes = settings_alone.test_part(
            _frame(candidates), schema, labels, features, what="candidates"
        )
        notes += more_notes
        offer = Offer(part.X, part.y, part.weight, part.rows, part.beside)
    for name in train.masks:
        as_mask(train.masks[name], name=name, n_rows=len(train.y))
        if not held_out.masks[name].any():
            notes.append(f"group {name!r} has no test rows: its gaps cannot be measured")
    return Prepared(
        train.X,
        train.y,
        held_out.X,
        held_out.y,
        train.weight,
        held_out.weight,
        schema,
        train.masks,
        held_out.masks,
        {name: expression.columns for name, expression in named},
        labels.categories,
        labels.positive,
        tuple(notes),
        train.rows,
        offer,
        train.beside,
        held_out.beside,
    )


def _frame(table: object) -> pd.DataFrame:
    return to_pandas(table.frame if isinstance(table, TableFile) else table)


def _parse_groups(
    groups: Iterable[str | tuple[str, Expression]],
) -> tuple[tuple[str, Expression], ...]:
    if isinstance(groups, str):
        groups = [groups]
    named = tuple(parse_group(group) if isinstance(group, str) else group for group in groups)
    require_unique((name for name, _ in named), what="group names")
    return named


@dataclass(frozen=True)
class _Settings:
    """What the caller asked for, applied in the same way to the data and to a test file."""

    label: str
    drop: tuple[str, ...]
    weight: str | None
    categorical: tuple[str, ...]
    bins: dict[str, Bins]
    missing: MissingPolicy
    positive: str | None
    groups: tuple[tuple[str, Expression], ...]
    task: Task
    beside: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        return (self.label, *(() if self.weight is None else (self.weight,)), *self.beside)

    def check_against(self, frame: pd.DataFrame) -> None:
        columns = [str(name) for name in frame.columns]
        require_column(self.label, columns, argument="label")
        for argument, names in (
            ("drop", self.drop),
            ("weight", () if self.weight is None else (self.weight,)),
            ("categorical", self.categorical),
            ("bins", tuple(self.bins)),
            ("identity", self.beside),
        ):
            for name in names:
                require_column(name, columns, argument=argument)
                if name == self.label:
                    raise InputError(
                        f"column {name!r} is the label and cannot be named in `{argument}` too. "
                        "Name it in one of them."
                    )
        for argument, names in (("categorical", self.categorical), ("bins", tuple(self.bins))):
            for name in names:
                if name in self.drop or name == self.weight:
                    raise InputError(
                        f"column {name!r} is dropped or the weight, so `{argument}` cannot name it."
                    )
        for _, expression in self.groups:
            for name in sorted(expression.columns):
                require_column(name, columns, argument="group")

    def features(self, frame: pd.DataFrame) -> list[str]:
        out = {self.label, self.weight, *self.drop, *self.beside}
        return [str(name) for name in frame.columns if name not in out]

    def refuse_infinite(self, frame: pd.DataFrame, columns: Iterable[str]) -> None:
        import numpy as np
        import pandas as pd

        for name in columns:
            column = frame[name]
            if name in self.bins or not pd.api.types.is_numeric_dtype(column.dtype):
                continue
            n_infinite = int(np.isinf(column.to_numpy("float64", na_value=np.nan)).sum())
            if n_infinite:
                raise InputError(
                    f"column {name!r} must hold finite numbers, but {n_infinite} are infinite. "
                    "Mark them as missing, or `--drop` the column."
                )

    def labels(self, column: pd.Series) -> Labels:
        if self.task == "regression":
            if self.positive is not None:
                raise InputError(
                    "`positive` belongs to a label of two answers, but the model is for numbers. "
                    "Leave it out, or use `--model logistic`."
                )
            return read_numbers(column, name=self.label)
        return read_labels(column, name=self.label, positive=self.positive)

    def part(
        self,
        frame: pd.DataFrame,
        answers: pd.DataFrame,
        schema: Schema,
        y: pd.Series,
        trained_on: pd.DataFrame,
        *,
        kept: NDArray[np.bool_],
    ) -> _Part:
        import numpy as np

        used = [column.name for column in schema.columns if column.encoding != "left out"]
        if not used:
            raise InputError(
                "at least one column must be left to learn from, got 0. "
                "Check which columns were dropped, constant or identifiers."
            )
        return _Part(
            as_model_input(frame[used], schema, self.bins, trained_on),
            y,
            None if self.weight is None else _weights(frame[self.weight], self.weight),
            {name: expression.mask(answers) for name, expression in self.groups},
            np.flatnonzero(kept),
            frame[list(self.beside)],
        )

    def test_part(
        self,
        frame: pd.DataFrame,
        schema: Schema,
        labels: Labels,
        trained_on: pd.DataFrame,
        *,
        what: str = "test data",
    ) -> tuple[_Part, list[str]]:
        used = [column.name for column in schema.columns if column.encoding != "left out"]
        needed = {*used, *self.required}.union(*(e.columns for _, e in self.groups))
        lacking = sorted(needed - set(frame.columns))
        if lacking:
            raise InputError(
                f"the {what} must have the columns of the training data, but {len(lacking)} are "
                f"missing: {', '.join(lacking[:8])}."
            )
        self.refuse_infinite(frame, used)
        settled = settle_missing(
            frame,
            policy=self.missing,
            columns=[*used, *self.required],
            required=self.required,
            categorical=self.categorical,
            where=f"of the {what}",
        )
        answers = frame.loc[settled.kept].reset_index(drop=True)
        frame = settled.frame.reset_index(drop=True)
        if len(frame) == 0:
            raise InputError(f"the {what} must have at least one row, got 0.")
        frame = spelled_alike(frame, schema)
        require_same_kinds(frame, trained_on[used], what=what)
        check_categories(schema, frame, what=what)
        y = labels.read_again(frame[self.label], what=what)
        part = self.part(frame, answers, schema, y, trained_on, kept=settled.kept)
        return part, list(settled.notes)


def _weights(column: pd.Series, name: str) -> NDArray[np.float64]:
    import numpy as np
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(f"`weight` must name a column of numbers, got {name!r}, which is not.")
    weights: NDArray[np.float64] = column.to_numpy(np.float64)
    n_bad = int((~np.isfinite(weights) | (weights < 0)).sum())
    if n_bad:
        raise InputError(
            f"weights must be finite and at least 0, but {n_bad} of {len(weights)} in column "
            f"{name!r} are not. Mend or remove those rows."
        )
    if not weights.any():
        raise InputError(f"some weight must be greater than 0, but all in column {name!r} are 0.")
    return weights


def _split(part: _Part, *, share: float, seed: int, task: Task) -> tuple[_Part, _Part]:
    import numpy as np
    from sklearn.model_selection import train_test_split

    n_rows = len(part.y)
    n_test = int(np.ceil(share * n_rows))
    n_classes = part.y.nunique() if task == "classification" else 1
    fewest = int(part.y.value_counts().min()) if task == "classification" else n_rows
    if fewest < 2 or min(n_test, n_rows - n_test) < n_classes:
        raise InputError(
            f"both parts of the data need rows of every label, but {n_rows} rows with {fewest} of "
            f"the rarest label cannot be split at `--test-share {share:g}`. "
            "Bring more rows, or a test file with `--test`."
        )
    train_rows, test_rows = train_test_split(
        np.arange(n_rows),
        test_size=share,
        random_state=seed,
        stratify=part.y.to_numpy() if task == "classification" else None,
    )

    def rows(chosen: NDArray[np.intp]) -> _Part:
        return _Part(
            part.X.iloc[chosen].reset_index(drop=True),
            part.y.iloc[chosen].reset_index(drop=True),
            None if part.weight is None else part.weight[chosen],
            {name: mask[chosen] for name, mask in part.masks.items()},
            part.rows[chosen],
            part.beside.iloc[chosen].reset_index(drop=True),
        )

    return rows(np.sort(train_rows)), rows(np.sort(test_rows))
