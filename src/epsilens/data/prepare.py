# SPDX-License-Identifier: Apache-2.0
"""From the curator's table to checked training and test data: everything before the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_choice, as_mask, as_share, leave_out, require_unique
from epsilens.data.binning import Bins
from epsilens.data.expressions import Expression, parse_group
from epsilens.data.files import TableFile
from epsilens.data.frames import to_pandas
from epsilens.data.missing import MissingPolicy, settle_missing
from epsilens.data.parts import Part, PartSettings, Task, read_labels, read_numbers, split_part
from epsilens.data.schema import (
    LARGEST_NUMERIC_DOMAIN,
    Category,
    Schema,
    infer_schema,
    is_date,
)
from epsilens.errors import InputError, PrivacyLeakWarning, phrase, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from epsilens.data.binning import Bins

__all__ = ["Prepared", "Task", "declared_domains", "prepare", "typed_like"]

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
        Schema of the columns to learn from, also those left out, and of the label.
    groups, test_groups : dict of str to array of bool
        Which training and which test rows belong to each group.
    group_columns : dict of str to frozenset of str
        The columns each group looks at.
    label_categories : tuple
        The label's values in sorted order, as scikit-learn's `classes_`; empty for a number.
    positive : category or None
        The value that counts as "yes".
    notes : tuple of Note
        What was left out or dropped, with counts, ready to be shown.
    rows : array of int
        Where in the data each training row stands, counted from 0.
    candidates : Part or None
        Records on offer, read like the test data.
    beside, beside_test : pandas.DataFrame or None
        Columns that the model does not see but that come along, of the training and the test rows.
    declared : dict of str to tuple
        The possible answers of columns for which the file declares them by value labels.
    """

    X_train: pd.DataFrame = field(repr=False)
    y_train: pd.Series = field(repr=False)
    X_test: pd.DataFrame = field(repr=False)
    y_test: pd.Series = field(repr=False)
    sample_weight: FloatArray | None = field(repr=False)
    sample_weight_test: FloatArray | None = field(repr=False)
    schema: Schema = field(repr=False)
    groups: dict[str, BoolArray] = field(repr=False)
    test_groups: dict[str, BoolArray] = field(repr=False)
    group_columns: dict[str, frozenset[str]]
    label_categories: tuple[Category, ...]
    positive: Category | None
    notes: tuple[Note, ...]
    rows: NDArray[np.intp] = field(repr=False)
    candidates: Part | None = field(default=None, repr=False)
    beside: pd.DataFrame | None = field(default=None, repr=False)
    beside_test: pd.DataFrame | None = field(default=None, repr=False)
    declared: dict[str, tuple[Category, ...]] = field(default_factory=dict)


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
    candidates_are: str = "candidates",
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
    task : {"classification", "regression", "any"}
        Whether the label is an answer or a number; "any": a number if it has more than 20 different ones.
    candidates : TableFile or frame, optional
        Records on offer that are not trained on.
    candidates_are : str
        What messages call them.
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
    >>> from epsilens.data.files import load_survey
    >>> prepared = prepare(load_survey(), label="affair", groups=["religious=religious >= 3"])
    >>> prepared.X_train.shape, prepared.X_test.shape, prepared.positive
    ((4774, 8), (1592, 8), 'yes')
    """
    as_choice(task, get_args(Task), name="task")
    frame = _frame(table)
    typed = [groups] if isinstance(groups, str) else groups
    named = tuple(parse_group(group) if isinstance(group, str) else group for group in typed)
    require_unique((name for name, _ in named), what="group names")
    settings = PartSettings(
        label,
        tuple(drop),
        weight,
        tuple(categorical),
        {name: Bins(b) if isinstance(b, int) else b for name, b in (bins or {}).items()},
        missing,
        named,
        tuple(beside),
        required=(label, *(() if weight is None else (weight,)), *beside),
    )
    settings.check_against(frame)
    notes: list[Note] = []
    if isinstance(table, TableFile):
        notes += [*table.notes, *table.marks_note]

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
            f"at least {FEWEST_TRAINING_ROWS} complete rows are needed, got {len(frame)}. Bring "
            f"more rows, or {leave_out('the columns whose answers are missing')}."
        )
    features = frame[settings.features(frame)]
    schema = infer_schema(features, categorical=categorical, bins=settings.bins)
    schema = replace(
        schema,
        columns=tuple(first_look[c.name] if c.name in useless else c for c in schema.columns),
    )
    if task == "any":
        numbers = frame[label].dtype.kind in "iuf" and positive is None
        many = numbers and frame[label].nunique() > LARGEST_NUMERIC_DOMAIN
        task = "regression" if many else "classification"
    if task == "regression" and positive is not None:
        raise InputError(
            f"{setting('positive')} belongs to a label of two answers, but the model is for numbers. Leave "
            f"it out, or use {setting('model', 'logistic')}."
        )
    if task == "regression":
        labels = read_numbers(frame[label], name=label)
    else:
        labels = read_labels(frame[label], name=label, positive=positive)
    described = infer_schema(frame[[label]]).columns[0]
    schema = replace(schema, label=described)
    for column in schema.columns:
        if column.encoding == "left out" or is_date(features[column.name]):
            code = "column-left-out" if column.encoding == "left out" else "date-column"
            notes.append(Note(code, f"{column.name}: {column.note}", column.name))
    everything = settings.part(frame, answers, schema, labels.values, features, kept=settled.kept)
    notes += labels.notes

    if test is None:
        train, held_out = split_part(
            everything, share=as_share(test_share, name="test_share"), seed=seed, task=task
        )
    else:
        train = everything
        held_out, test_notes = settings.other_part(_frame(test), schema, labels, features)
        notes += test_notes
    offer = None
    if candidates is not None:
        offer, more_notes = replace(settings, groups=()).other_part(
            _frame(candidates), schema, labels, features, what=candidates_are
        )
        notes += more_notes
    for name in train.masks:
        as_mask(train.masks[name], name=name, n_rows=len(train.y))
        if not held_out.masks[name].any():
            said = f"group {name!r} has no test rows: its gaps cannot be measured"
            notes.append(Note("group-without-test-rows", said, name))
    return Prepared(
        train.X,
        train.y,
        held_out.X,
        held_out.y,
        train.sample_weight,
        held_out.sample_weight,
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
        _declared_by_file(train.X, frame[label], labels.categories)
        if isinstance(table, TableFile)
        else {},
    )


def _declared_by_file(
    X: pd.DataFrame, label: pd.Series, classes: Sequence[Category]
) -> dict[str, tuple[Category, ...]]:
    """Return the possible answers of columns; a file gives a categorical type where it declares them.

    A model knows no class that does not occur: the answers of a label with one are not declared.
    """
    import pandas as pd

    kinds = {str(name): kind for name, kind in X.dtypes.items()} | {str(label.name): label.dtype}
    found = {n: tuple(k.categories) for n, k in kinds.items() if isinstance(k, pd.CategoricalDtype)}
    if set(found.get(str(label.name), ())) != set(classes):
        found.pop(str(label.name), None)
    return found


def _frame(table: object) -> pd.DataFrame:
    return to_pandas(table.frame if isinstance(table, TableFile) else table)


# --- The possible answers of protected columns that are declared, and not read off the data ---


def declared_domains(
    prepared: Prepared,
    protect: Sequence[str],
    *,
    bins: Mapping[str, Bins],
    positive: str | None = None,
    categories: Mapping[str, Sequence[object]] | None = None,
    warn: bool = True,
) -> dict[str, list[object]] | None:
    """Return the domains that the user declared; warn of a feature whose domain is not.

    Parameters
    ----------
    prepared : Prepared
        The data.
    protect : sequence of str
        The columns that are randomised.
    bins : mapping of str to Bins
        Those with bounds declare a domain.
    positive : str, optional
        The label's value that counts as yes: the label then has two answers, whatever the data hold.
    categories : mapping of str to sequence, optional
        The possible answers of columns; text, as they were typed, will do.
    warn : bool
        False: whoever calls says it.

    Returns
    -------
    dict of str to list, or None
        The possible answers in the type of the column; None if nothing is declared.

    Examples
    --------
    >>> from epsilens.data import Bins, load_survey, prepare
    >>> survey = prepare(load_survey(), label="affair", bins={"age": Bins(2, 10.0, 50.0)})
    >>> declared_domains(survey, ["affair", "age"], bins={"age": Bins(2, 10.0, 50.0)})
    {'age': [20.0, 40.0]}
    """
    result: dict[str, list[object]] = {}
    label = str(prepared.y_train.name)
    for name in protect:
        if name in bins and bins[name].low is not None:
            result[name] = list(bins[name].midpoints)
    if positive is not None and label in protect:
        result[label] = list(prepared.label_categories)
    for name, given in (categories or {}).items():
        column = prepared.y_train if name == label else prepared.X_train.get(name)
        is_number = column is not None and column.dtype.kind in "iufb"
        result[name] = typed_like([str(v) for v in given], is_number=is_number, name=name)
    for name in protect:
        if warn and name != label and name in prepared.X_train and name not in result:
            observed_domain(name, may_be_binned=True).warn(PrivacyLeakWarning, stacklevel=2)
    return result or None


def observed_domain(name: str, *, may_be_binned: bool = False) -> Note:
    """Say that a domain tells which values occur; a feature may be declared by bins too."""
    typed, given = (", or by bins", ", or give it bins") if may_be_binned else ("", "")
    ends = " with bounds." if may_be_binned else "."
    advice = phrase(
        f"Declare it with {setting('categories')}, or by a categorical dtype.",
        command=f"Declare it with {setting('categories')}{typed}{ends}",
        page=f"Tick “everybody may know” at the column{given}{ends}",
    )
    return Note(
        "observed-domain",
        f"the domain of {name!r} is taken from the observed values, which tells whoever sees the "
        f"release which values occur. {advice}",
        name,
    )


def typed_like(given: Sequence[str], *, is_number: bool, name: str) -> list[object]:
    """Return typed answers in the type of their column.

    Parameters
    ----------
    given : sequence of str
        The possible answers.
    is_number : bool
        Whether the column holds numbers.
    name : str
        Name of the column, for the message.

    Raises
    ------
    InputError
        If the column holds numbers and one of them is none.

    Examples
    --------
    >>> typed_like(["1", "2"], is_number=True, name="children")
    [1.0, 2.0]
    >>> typed_like(["False", "True"], is_number=True, name="smokes")
    [False, True]
    """
    if not is_number:
        return list(given)
    truths = {"true": True, "false": False}
    if all(text.casefold() in truths for text in given):
        return [truths[text.casefold()] for text in given]
    try:
        return [float(text) for text in given]
    except ValueError:
        raise InputError(
            f"{setting('categories')} of {name!r} must be numbers, like the column itself."
        ) from None
