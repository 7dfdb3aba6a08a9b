# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share: one spelling, one help text, one way of reading lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilens.cli.option_groups import must_exist
from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.data import Bins


_TABLE = "Reading the table"
_MODEL = "Model"
_OUTPUT = "Output"


class MissingChoice(StrEnum):
    """What to do with missing answers."""

    auto = "auto"
    error = "error"
    category = "category"
    drop = "drop"


class ModelChoice(StrEnum):
    """The default models."""

    logistic = "logistic"
    ridge = "ridge"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        callback=must_exist,
        help="csv, csv.gz, tsv, parquet (or a folder of parquet files), arrow; - for standard input.",
    ),
]
Label = Annotated[
    str, typer.Option("--label", metavar="COL", help="The column that the model predicts.")
]
Protect = Annotated[
    list[str] | None,
    typer.Option(
        "--protect",
        metavar="COL",
        help="What is randomised: the label, features, or both (repeat, or separate by commas). "
        "Default: the label.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Keeps finished models; a killed run goes on from it. Delete it afterwards.",
    ),
]
Measured = Annotated[
    bool,
    typer.Option(
        "--measured",
        help="Let the attack that was tried meet the attack limit, by its upper end. A better attack may "
        "exist; without this the proven ceiling decides.",
    ),
]
Test = Annotated[
    str | None,
    typer.Option(
        "--test",
        metavar="FILE",
        callback=must_exist,
        help="Test data; otherwise a part is set aside.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="COL",
        help="Leave a column out of the model (repeat, or separate by commas).",
        rich_help_panel=_TABLE,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight", metavar="COL", help="A column with row weights.", rich_help_panel=_TABLE
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        metavar="COL",
        help="A numeric column whose numbers are codes (repeat, or separate by commas).",
        rich_help_panel=_TABLE,
    ),
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        "--categories",
        metavar="COL=A|B|C",
        help='All possible answers of a protected column (repeat); one with a bar in it as "A|B". '
        "Otherwise they are taken from the data, which leaks.",
        rich_help_panel=_TABLE,
    ),
]
BinsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bins",
        metavar="COL=10",
        help="Put a numeric column into equal-width bins; COL=LOW:HIGH:10 with bounds (repeat).",
        rich_help_panel=_TABLE,
    ),
]
Missing = Annotated[
    MissingChoice,
    typer.Option(
        "--missing",
        help="Missing answers: auto drops up to 5 % of the rows and refuses beyond.",
        rich_help_panel=_TABLE,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHAR",
        help="What stands between columns (, ; | or tab) instead of detecting it.",
        rich_help_panel=_TABLE,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="The text encoding, such as cp1252, instead of detecting it.",
        rich_help_panel=_TABLE,
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        metavar="VALUE",
        help="The label's value that counts as yes; all others become one.",
        rich_help_panel=_TABLE,
    ),
]
TestShare = Annotated[
    float,
    typer.Option(
        "--test-share",
        metavar="SHARE",
        help="The share of rows set aside for testing.",
        rich_help_panel=_MODEL,
    ),
]
Model = Annotated[
    ModelChoice,
    typer.Option(
        "--model",
        help="Logistic regression for answers (two or several), ridge for a number.",
        rich_help_panel=_MODEL,
    ),
]
Regularisation = Annotated[
    float | None,
    typer.Option(
        "--regularisation",
        metavar="NUMBER",
        help="C of the logistic model or alpha of ridge; 1 unless given.",
        rich_help_panel=_MODEL,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the JSON document and nothing else.", rich_help_panel=_OUTPUT
    ),
]


def out_option(help: str) -> Any:
    """Return `--out` of a command that says what it writes."""
    return typer.Option("--out", metavar="FILE", help=help, rich_help_panel=_OUTPUT)


def seed_option(help: str) -> Any:
    """Return `--seed` of a command that says what is drawn."""
    return typer.Option("--seed", metavar="N", min=0, help=help, rich_help_panel=_OUTPUT)


def shadow_models_option(help: str, *, panel: str | None = None) -> Any:
    """Return `--shadow-models` of a command that says what for."""
    return typer.Option(
        "--shadow-models", metavar="N", min=20, max=100_000, help=help, rich_help_panel=panel
    )


Out = Annotated[str | None, out_option("Also write the result here.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress bar and no remarks.", rich_help_panel=_OUTPUT),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace an existing file.", rich_help_panel=_OUTPUT)
]
Anonymous = Annotated[
    bool,
    typer.Option(
        "--anonymous",
        help="Replace the names of columns, groups and categories by numbers.",
        rich_help_panel=_OUTPUT,
    ),
]


def categories_of(typed: Iterable[str] | None, *, protected: Sequence[str]) -> dict[str, list[str]]:
    """Read all `--categories COL=A|B|C` options.

    Parameters
    ----------
    typed : iterable of str, optional
        What was typed.
    protected : sequence of str
        The columns that are randomised.

    Returns
    -------
    dict of str to list of str
        The possible answers of each column that was named.

    Raises
    ------
    InputError
        If a column is not protected or stands twice. The answers are not repeated.

    Examples
    --------
    >>> categories_of(["smokes=no|yes"], protected=["smokes"])
    {'smokes': ['no', 'yes']}
    >>> categories_of(['smokes=no|"yes|often"'], protected=["smokes"])
    {'smokes': ['no', 'yes|often']}
    """
    from epsilens.data.typed_names import split_answers

    found: dict[str, list[str]] = {}
    require_text(typed, option="--categories")
    for text in typed or ():
        # A column name may itself contain "=": the longest protected name that fits is meant.
        fitting = [name for name in protected if text.startswith(f"{name}=")]
        if not fitting:
            name, sign, _ = text.partition("=")
            came = repr(name) if sign else "text without `=`"
            raise InputError(
                f"`--categories` must name a protected column, as in COL=A|B|C, got {came}. "
                "Add the column to `--protect`, or leave it out."
            )
        name = max(fitting, key=len)
        if name in found:
            raise InputError(f"`--categories` must name column {name!r} once, got it twice.")
        found[name] = split_answers(text[len(name) + 1 :])
        if len(found[name]) < 2:
            raise InputError(
                f"`--categories` of {name!r} must be at least two answers with `|` between them, as in "
                "COL=A|B|C, got one."
            )
    return found


def comma_list(values: Iterable[str] | None) -> tuple[str, ...]:
    """Join repeated options and comma lists into one list of names.

    Parameters
    ----------
    values : iterable of str, optional
        What was typed; each may hold several names separated by commas. A name with a comma stands in
        double quotes.

    Returns
    -------
    tuple of str
        The names in the order typed, each once.

    Raises
    ------
    InputError
        If a name is empty.

    Examples
    --------
    >>> comma_list(["sex,age", "income"])
    ('sex', 'age', 'income')
    >>> comma_list(['"income, net",age'])
    ('income, net', 'age')
    """
    from epsilens.data.typed_names import split_typed

    names = [name for value in values or () for name in split_typed(value)]
    if "" in names:
        raise InputError(
            "a list of columns must not hold an empty name. Write COL or COL,COL without spaces."
        )
    return tuple(dict.fromkeys(names))


def delimiter_from(text: str | None) -> str | None:
    r"""Read a delimiter as people type it: `tab`, `\t` and the names of signs count.

    Parameters
    ----------
    text : str, optional
        What was typed.

    Returns
    -------
    str or None
        One character.

    Examples
    --------
    >>> delimiter_from("tab"), delimiter_from(";")
    ('\t', ';')
    """
    if text is None:
        return None
    spelled = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
    return spelled.get(text.lower(), text)


def mapping_of_bins(values: Iterable[str] | None) -> dict[str, Bins]:
    """Read all `--bins COL=10` options.

    Parameters
    ----------
    values : iterable of str, optional
        What was typed.

    Returns
    -------
    dict of str to Bins
        The bins of each column.

    Raises
    ------
    InputError
        If one has another form, or a column stands twice.

    Examples
    --------
    >>> mapping_of_bins(["age=10"])
    {'age': Bins(n_bins=10, low=None, high=None)}
    """
    from epsilens._validate import require_unique
    from epsilens.data import parse_bins
    from epsilens.data.typed_names import split_typed

    pairs = [parse_bins(part) for value in values or () for part in split_typed(value)]
    require_unique((name for name, _ in pairs), what="columns in `--bins`")
    return dict(pairs)


def require_text(values: Iterable[str] | None, *, option: str) -> None:
    """Refuse bytes that are no text: a shell passes them on, but no result could hold them.

    Parameters
    ----------
    values : iterable of str, optional
        What was typed.
    option : str
        The option it was typed for.

    Raises
    ------
    InputError
        If a byte is not of the encoding that the shell uses.

    Examples
    --------
    >>> require_text(["women=sex == 'F'"], option="--group")
    """
    if any("\ud800" <= character <= "\udfff" for value in values or () for character in value):
        raise InputError(
            f"`{option}` must be text, but some bytes of it are not in the encoding of the shell "
            "(mostly UTF-8). Type it again."
        )
