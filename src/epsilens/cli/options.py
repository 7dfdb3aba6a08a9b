# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share: one spelling, one help text, one way of reading lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epsilens.cli.option_groups import (
    choice,
    must_exist,
    option,
    switch,
)
from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.channels import Budget
    from epsilens.data import Bins
    from epsilens.study import Study


_TABLE = "Reading the table"
_MODEL = "Model"


MissingChoice = Literal["auto", "error", "category", "drop"]
"""What to do with missing answers."""


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        callback=must_exist,
        help="csv, csv.gz, tsv, parquet (or a folder of parquet files), arrow, xlsx, sav, dta, sas7bdat, "
        "xpt; - for standard input.",
    ),
]
Label = Annotated[str, option("The column that the model predicts.", "COL")]
Protect = Annotated[
    list[str] | None,
    option(
        "What is randomised: the label, features, or both (repeat, or separate by commas). "
        "Default: the label.",
        "COL",
    ),
]
Checkpoint = Annotated[
    str | None,
    option("Keeps finished models; a killed run goes on from it. Delete it afterwards.", "FOLDER"),
]
Measured = Annotated[
    bool,
    switch(
        "--measured",
        "Let the attack that was tried meet the attack limit, by its upper end. A better attack may "
        "exist; without this the proven ceiling decides.",
    ),
]
Test = Annotated[
    str | None, option("Test data; otherwise a part is set aside.", "FILE", callback=must_exist)
]
Drop = Annotated[
    list[str] | None,
    option("Leave a column out of the model (repeat, or separate by commas).", "COL", panel=_TABLE),
]
Weight = Annotated[str | None, option("A column with row weights.", "COL", panel=_TABLE)]
Categorical = Annotated[
    list[str] | None,
    option(
        "A numeric column whose numbers are codes (repeat, or separate by commas).",
        "COL",
        panel=_TABLE,
    ),
]
Categories = Annotated[
    list[str] | None,
    option(
        'All possible answers of a protected column (repeat); one with a bar in it as "A|B". '
        "Otherwise they are taken from the data, which leaks.",
        "COL=A|B|C",
        panel=_TABLE,
    ),
]
BinsOption = Annotated[
    list[str] | None,
    option(
        "Put a numeric column into equal-width bins; COL=LOW:HIGH:10 with bounds (repeat).",
        "COL=10",
        panel=_TABLE,
    ),
]
Ranges = Annotated[
    list[str] | None,
    option(
        "Range of a column of numbers or dates; what lies beyond is cut (repeat).",
        "COL=LOW:HIGH",
        "--range",
        panel=_TABLE,
    ),
]
Missing = Annotated[
    MissingChoice,
    choice(
        MissingChoice,
        "Missing answers: auto drops up to 5 % of the rows and refuses beyond.",
        panel=_TABLE,
    ),
]
Delimiter = Annotated[
    str | None,
    option(
        "What stands between columns (, ; | or tab) instead of detecting it.", "CHAR", panel=_TABLE
    ),
]
Encoding = Annotated[
    str | None,
    option("The text encoding, such as cp1252, instead of detecting it.", "NAME", panel=_TABLE),
]
Positive = Annotated[
    str | None,
    option("The label's value that counts as yes; all others become one.", "VALUE", panel=_TABLE),
]
TestShare = Annotated[
    float, option("The share of rows set aside for testing.", "SHARE", panel=_MODEL)
]
Model = Annotated[
    str,
    option(
        "logistic, ridge (for a number), hist-gradient-boosting, random-forest, extra-trees, mlp, xgboost, "
        "lightgbm, or MODULE:NAME of your own: a scikit-learn estimator, or what makes one.",
        "NAME",
        panel=_MODEL,
    ),
]
Regularisation = Annotated[
    float | None,
    option("C of the logistic model or alpha of ridge; 1 unless given.", "NUMBER", panel=_MODEL),
]
Cluster = Annotated[
    str | None,
    option(
        "A running Ray cluster that does the work, such as ray://head:10001, or auto on one of its "
        "nodes. It must be trusted with the data. Needs the extra cluster.",
        "ADDRESS",
    ),
]


def shadow_models_option(help: str, *, panel: str | None = None) -> Any:
    """Return `--shadow-models` of a command that says what for."""
    return typer.Option(
        "--shadow-models", metavar="N", min=20, max=100_000, help=help, rich_help_panel=panel
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is to be read and learnt from, as it was typed.

    Commands name the label, the test data and the seed themselves; the order of all others is that
    of the help.

    Examples
    --------
    >>> TableOptions(label="smokes").model
    'logistic'
    """

    label: str
    test: str | None = None
    seed: int = 0
    categories: Categories = None
    drop: Drop = None
    weight: Weight = None
    categorical: Categorical = None
    bins: BinsOption = None
    missing: Missing = "auto"
    delimiter: Delimiter = None
    encoding: Encoding = None
    positive: Positive = None
    test_share: TestShare = 0.25
    model: Model = "logistic"
    regularisation: Regularisation = None

    def study(
        self,
        data: str,
        *,
        protect: Sequence[str] = (),
        groups: Sequence[str] = (),
        identity: str | None = None,
        candidates: str | None = None,
        candidates_are: str = "candidates",
        ranges: Iterable[str] | None = None,
        declares_any: bool = False,
    ) -> Study:
        """Return the study that these options describe; nothing is read yet.

        Parameters
        ----------
        data : str
            File with the training data, or with all data where no test data were named.
        protect : sequence of str
            Columns that are randomised; none: the label.
        groups : sequence of str
            `[NAME=]EXPRESSION` each.
        identity : str, optional
            Column that says whose record it is.
        candidates : str, optional
            File with records on offer.
        candidates_are : str
            What messages call them.
        ranges : iterable of str, optional
            `COL=LOW:HIGH` each.
        declares_any : bool
            Whether `--categories` may name columns that are not protected.
        """
        from epsilens.audit.own_code import load_model
        from epsilens.study import Study

        protected = tuple(protect) or (self.label,)
        read: dict[str, Any] = {
            "drop": comma_list(self.drop),
            "categorical": comma_list(self.categorical),
            "bins": mapping_of_bins(self.bins) or None,
            "categories": categories_of(
                self.categories, protected=protected, declares_any=declares_any
            ),
            "ranges": ranges_of(ranges),
            "delimiter": delimiter_from(self.delimiter),
            "model": load_model(self.model) if ":" in self.model else self.model,
        }
        return Study(
            data,
            protect=protected,
            groups=groups or None,
            identity=identity,
            candidates=candidates,
            candidates_are=candidates_are,
            **vars(self) | read,
        )


def ranges_of(typed: Iterable[str] | None) -> dict[str, tuple[str, str]]:
    """Read all `--range COL=LOW:HIGH` options.

    Examples
    --------
    >>> ranges_of(["age=17:90"])
    {'age': ('17', '90')}
    """
    require_text(typed, option="--range")
    found: dict[str, tuple[str, str]] = {}
    for text in typed or ():
        # A column name may itself contain "=", a bound cannot.
        name, _, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        if not name or not colon:
            raise InputError("`--range` must look like COL=LOW:HIGH, as in age=17:90.")
        if name in found:
            raise InputError(f"`--range` must name column {name!r} once, got it twice.")
        found[name] = (low, high)
    return found


def categories_of(
    typed: Iterable[str] | None, *, protected: Sequence[str], declares_any: bool = False
) -> dict[str, list[str]]:
    """Read all `--categories COL=A|B|C` options.

    Parameters
    ----------
    typed : iterable of str, optional
        What was typed.
    protected : sequence of str
        The columns that are randomised.
    declares_any : bool
        Whether other columns may be named too.

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
    >>> categories_of(['"a=b"=no|yes'], protected=[], declares_any=True)
    {'a=b': ['no', 'yes']}
    """
    from epsilens.data.typed_names import split_typed

    found: dict[str, list[str]] = {}
    require_text(typed, option="--categories")
    for text in typed or ():
        # A column name may itself contain "=": the longest protected name that fits is meant, and any
        # other stands in double quotes.
        fitting = [name for name in protected if text.startswith(f"{name}=")]
        is_quoted = not fitting and text.startswith('"') and '"=' in text
        name, sign, answers = (text[1:] if is_quoted else text).partition(
            '"=' if is_quoted else "="
        )
        if not fitting and sign and (declares_any or (is_quoted and name in protected)):
            fitting = [name]
        elif fitting:
            name = max(fitting, key=len)
            answers = text[len(name) + 1 :]
        if not fitting:
            came = repr(name) if sign else "text without `=`"
            raise InputError(
                f"`--categories` must name a protected column, as in COL=A|B|C, got {came}. "
                "Add the column to `--protect`, or leave it out."
            )
        if name in found:
            raise InputError(f"`--categories` must name column {name!r} once, got it twice.")
        found[name] = split_typed(answers, "|")
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


def read_level(text: str, *, several: str) -> float | Budget:
    """Read what was typed for `--epsilon` where it is one level, or one for each column.

    Parameters
    ----------
    text : str
    several : str
        What to do instead of giving several levels.

    Examples
    --------
    >>> read_level("0.5", several="Ask again.")
    0.5
    """
    from epsilens.channels import Budget, parse_grid

    if "=" in text:
        return Budget.parse(text)
    values = parse_grid(text)
    if len(values) != 1:
        raise InputError(
            f"`--epsilon` must be one number or COL=E,COL=E, got {len(values)} numbers. {several}"
        )
    return values[0]


Together = Annotated[
    bool,
    switch(
        "--together",
        "Randomise all groups at once, each at its own ε: --epsilon women=1,men=3. Lists give one cell a "
        "position: women=0.5,1,men=1,2.",
    ),
]
"""Whether every group has its own ε."""


def read_epsilon(text: str) -> tuple[float, ...] | dict[str, float]:
    """Read what was typed for `--epsilon` before any work: a grid, or a budget for each column.

    Examples
    --------
    >>> read_epsilon("0.5,1,2"), read_epsilon("sex=1,income=2")
    ((0.5, 1.0, 2.0), {'sex': 1.0, 'income': 2.0})
    """
    from epsilens.channels import Budget, parse_grid

    if "=" in text:
        return dict(Budget.parse(text).per_column)
    return tuple(parse_grid(text))


def read_group_epsilon(text: str) -> dict[str, list[float]]:
    """Read what was typed for `--epsilon` with `--together`: one ε, several or a grid for each group.

    Examples
    --------
    >>> read_group_epsilon("women=1,men=3"), read_group_epsilon("women=0.5,1,men=1:4:2")
    ({'women': [1.0], 'men': [3.0]}, {'women': [0.5, 1.0], 'men': [1.0, 4.0]})
    """
    from epsilens.channels import parse_grid

    typed: dict[str, list[str]] = {}
    for part in text.split(","):
        name, given, value = part.rpartition("=")
        if given and name.strip() in typed:
            raise InputError(f"`--epsilon` names the group {name.strip()!r} twice. Name it once.")
        if given:
            typed[name.strip()] = [value]
        elif typed:
            # A further ε of the group before it.
            typed[next(reversed(typed))].append(value)
        else:
            raise InputError(
                "`--epsilon` must give an ε for each group with `--together`, got none with a name. Write "
                "--epsilon women=1,men=3."
            )
    return {
        name: [value for one in values for value in parse_grid(one)]
        for name, values in typed.items()
    }


def on_cluster(address: str | None) -> AbstractContextManager[object]:
    """Let a cluster carry passes and shadow models while a command works; None: this machine.

    Examples
    --------
    >>> with on_cluster(None):
    ...     pass
    """
    if address is None:
        return nullcontext()
    from epsilens.cluster import use

    return use(address)
