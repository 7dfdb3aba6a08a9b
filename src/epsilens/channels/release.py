# SPDX-License-Identifier: Apache-2.0
"""The real release: named columns of a table randomised, everything else left as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import LARGEST_FINITE_EPSILON, as_choice, require_column, require_unique
from epsilens.channels.budget import Budget
from epsilens.channels.domain import Domain, domain_of
from epsilens.channels.draw import released_words
from epsilens.channels.order import (
    LARGEST_CHANCE,
    distinct_answers,
    following_columns,
    log_arrangements,
    random_order,
)
from epsilens.channels.randomized_response import RandomizedResponse
from epsilens.data.binning import Bins
from epsilens.data.dialect import Dialect, released_dialect, spellings
from epsilens.data.schema import DomainOrigin
from epsilens.data.typed_names import typed_name
from epsilens.errors import PYTHON, InputError, PrivacyLeakWarning, phrase, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.data.files import TableFile


MissingAnswers = Literal["error", "drop", "category"]

KEPT_ORDER = Note(
    "order-kept",
    "The order of the rows is kept, as asked for. If the data were sorted by a protected answer or "
    "by a column that was left out, the order shows it, whatever ε is.",
)
LEFT_OUT_ROWS = Note(
    "rows-left-out",
    "Rows without a protected answer are left out: who is missing from the file is visible and not "
    "protected.",
)


@dataclass(frozen=True)
class Release:
    """A released table and what it took.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with the protected columns randomised.
    rows : array of int64
        Which row of the original table each row is. Never to be published.
    shuffled : bool
        Whether the rows were put in random order.
    as_typed : mapping of str to pandas.Series
        The reports of columns with given categories, spelled as these were typed.
    budget : Budget
        What was spent.
    n_categories : mapping of str to int
        Size of each protected column's domain, a missing answer included where it is one.
    missing_is_category : tuple of str
        The columns in whose domain "no answer" is one of the answers.
    origin : mapping of str to {"given", "declared", "observed", "bins"}
        Where each domain came from.
    bins : mapping of str to Bins
        Bins of the columns that were put into some, with their bounds.
    notes : tuple of Note
        Where the guarantee is weaker than it looks.
    simulated : bool
        Whether a seed was given.
    """

    frame: pd.DataFrame = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    shuffled: bool
    as_typed: Mapping[str, pd.Series] = field(repr=False)
    budget: Budget
    n_categories: Mapping[str, int]
    missing_is_category: tuple[str, ...]
    origin: Mapping[str, DomainOrigin]
    bins: Mapping[str, Bins]
    notes: tuple[Note, ...]
    simulated: bool

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes, one sentence each."""
        return tuple(note.render(PYTHON) for note in self.notes)


def release_table(
    frame: pd.DataFrame,
    *,
    budget: Budget,
    categories: Mapping[str, Sequence[str]] | None = None,
    bins: Mapping[str, Bins] | None = None,
    missing: MissingAnswers = "error",
    drop: Sequence[str] = (),
    keep_order: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> Release:
    """Randomise the columns that a budget names, and leave all other columns as they are.

    Each protected answer passes once through k-ary randomised response with its column's ε, drawn
    from the operating system's randomness. Type and spelling of a released column follow from its
    possible answers alone, never from the true ones. The rows are always put in random order,
    unless their order is to be kept. The other columns are not protected.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table with the true answers.
    budget : Budget
        ε of each column to be protected; at most 40, or infinite for no privacy.
    categories : mapping of str to sequence of str, optional
        The possible answers of a column, as text. The released column then has truths, whole
        numbers, numbers or words, as these are. Without it the categories that the column's type
        declares are used, sorted unless ordered, or else the observed values, with a warning.
    bins : mapping of str to Bins, optional
        Numeric columns to be released as the middle of one of a few bins.
    missing : {"error", "drop", "category"}
        What to do with missing answers in protected columns: refuse, leave those rows out (which
        shows who answered), or treat "no answer" as one more answer. The last holds for every
        protected column whose domain is not taken from the data, whether or not somebody gave no
        answer: otherwise the release would show that.
    drop : sequence of str
        Columns to leave out of the release; not protected ones.
    keep_order : bool
        Whether to keep the order of the rows, with a warning. If it depends on protected answers,
        as in a table sorted by them, the release then shows these answers.
    random_state : None, int or numpy.random.Generator
        None: operating-system randomness. Anything else simulates, with a warning.

    Returns
    -------
    Release
        The table and what was spent.

    Raises
    ------
    InputError
        If a column is unknown or cannot be protected as it is, or if another column follows the
        order of the rows, so that the random order could be undone. No message has a value.

    Warns
    -----
    PrivacyLeakWarning
        If domains or bounds come from the data, rows are left out, ε is infinite, the order of
        the rows is kept, another column is a copy of a protected one, or a `random_state` is given.

    Notes
    -----
    Assumptions: one row per person, each released once; domains are public. Neighbouring tables
    differ in the protected answers of one row.

    Row i of the table becomes the row (uᵢ, R(aᵢ, wᵢ)): its unprotected values uᵢ, and a report that
    depends on its own protected answers aᵢ and random words wᵢ of its own. Then the rows are
    permuted by a permutation that is uniform and independent of everything. Everything else in a
    `Release` follows from the arguments, the released rows or unprotected columns. So neighbouring
    tables give every output with probabilities that differ by a factor of at most e^ε, where ε is
    the sum over columns. Three things may depend on true answers: domains and bounds taken from the
    data, rows left out by ``missing="drop"`` (both with a warning), and a refusal, which releases
    nothing. Copies of protected columns are named in a warning only, not in the `Release`.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.channels import Budget
    >>> from epsilens.channels.release import release_table
    >>> survey = pd.DataFrame({"age": [31, 42, 58], "smokes": ["yes", "no", "no"]})
    >>> release = release_table(
    ...     survey, budget=Budget({"smokes": 1.0}), categories={"smokes": ["no", "yes"]}
    ... )
    >>> sorted(release.frame["age"].tolist()), release.n_categories["smokes"]
    ([31, 42, 58], 2)
    """
    require_drawable(budget)
    as_choice(missing, get_args(MissingAnswers), name="missing")
    columns = list(budget.per_column)
    hidden = [name for name in columns if budget.per_column[name] < math.inf]
    require_unique(frame.columns, what="column names")
    for name in columns:
        require_column(name, [str(column) for column in frame.columns], argument="protect")
    for name in drop:
        require_column(name, [str(column) for column in frame.columns], argument="drop")
        if name in columns:
            raise InputError(
                f"{setting('drop')} must name columns that are not protected, got {name!r}. Leave "
                "it out of one of the two."
            )
    given, binned = dict(categories or {}), dict(bins or {})
    for argument, mapping in (("categories", given), ("bins", binned)):
        for name in mapping:
            if name not in columns:
                raise InputError(
                    f"{setting(argument)} must name protected columns, got {name!r}. Protect it "
                    "as well, or leave it out."
                )
    for name in set(given) & set(binned):
        raise InputError(
            f"column {name!r} must be named in {setting('categories')} or {setting('bins')}, not "
            "both."
        )

    notes: list[Note] = []
    if keep_order:
        notes.append(KEPT_ORDER)
        KEPT_ORDER.warn(PrivacyLeakWarning, stacklevel=2)
    elif hidden:
        _refuse_following(frame.drop(columns=[*hidden, *drop]))
    kept = _settle(frame, columns, missing, notes)
    table = frame.iloc[kept].drop(columns=list(drop))
    if table.empty:
        raise InputError("at least one row must have all protected answers, got none.")
    domains = {
        name: domain_of(
            table[name],
            given=given.get(name),
            bins=binned.get(name),
            with_missing=missing == "category",
        )
        for name in columns
    }
    codes = {name: domain.codes(table[name]) for name, domain in domains.items()}
    notes.extend(_leaks(domains, budget))
    largest = max((budget.per_column[name] for name in hidden), default=math.inf)
    words = released_words(largest, random_state)
    if random_state is not None:
        said = "The reports are simulated: a seed was given, so they protect nobody."
        notes.append(Note("simulated", said))

    _name_copies(table, {name: codes[name] for name in hidden})
    order = np.arange(len(table)) if keep_order else random_order(len(table), words)
    released = table.copy(deep=False)
    # What is attached to the frame as a whole is no value of any row.
    released.attrs = {}
    as_typed: dict[str, pd.Series] = {}
    for name, domain in domains.items():
        channel = RandomizedResponse(domain.size, budget.per_column[name])
        reports = channel.draw(codes[name], words)
        released[name] = domain.decode(reports, index=table.index, name=name)
        texts = domain.decode_texts(reports, index=table.index)
        if texts is not None:
            as_typed[name] = texts
    if not keep_order:
        # The old labels of the rows would show the old order.
        released = released.iloc[order].reset_index(drop=True)
        as_typed = {
            name: texts.iloc[order].reset_index(drop=True) for name, texts in as_typed.items()
        }
    return Release(
        frame=released,
        rows=kept[order],
        shuffled=not keep_order,
        as_typed=as_typed,
        budget=budget,
        n_categories={name: domain.size for name, domain in domains.items()},
        missing_is_category=tuple(name for name, d in domains.items() if d.with_missing),
        origin={name: domain.origin for name, domain in domains.items()},
        bins={name: domain.bins for name, domain in domains.items() if domain.bins is not None},
        notes=tuple(notes),
        simulated=random_state is not None,
    )


def require_drawable(budget: Budget) -> None:
    """Refuse a budget that no draw can keep.

    Parameters
    ----------
    budget : Budget
        ε of each column.

    Raises
    ------
    InputError
        If a finite ε is above 40.

    Examples
    --------
    >>> from epsilens.channels import Budget
    >>> require_drawable(Budget({"smokes": 40.0}))
    """
    for name, epsilon in budget.per_column.items():
        if LARGEST_FINITE_EPSILON < epsilon < math.inf:
            raise InputError(
                f"{setting('epsilon')} of column {name!r} must be at most "
                f"{LARGEST_FINITE_EPSILON:g} or infinite for a draw, got {epsilon:g}. Such a "
                "level protects nobody; use inf and say so."
            )


def _settle(
    frame: pd.DataFrame, columns: list[str], missing: MissingAnswers, notes: list[Note]
) -> NDArray[np.int64]:
    """Return the rows to release, and warn if some are left out."""
    if missing == "category":
        return np.arange(len(frame), dtype=np.int64)
    counts = {name: int(frame[name].isna().sum()) for name in columns}
    listed = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    if missing == "error" and listed:
        raise InputError(
            f"protected columns must have no missing answers, but some do ({listed} of "
            f"{len(frame)} rows). Choose {setting('missing', 'category')} or "
            f"{setting('missing', 'drop')}."
        )
    if missing == "drop":
        # The receipt travels: it must not tell whether anybody was left out. The count is for the
        # curator's eyes.
        notes.append(LEFT_OUT_ROWS)
    if listed:
        told = f"{LEFT_OUT_ROWS.text} There are {listed} of {len(frame)}."
        replace(LEFT_OUT_ROWS, text=told).warn(PrivacyLeakWarning, stacklevel=3)
    return np.flatnonzero(frame[columns].notna().all(axis=1)).astype(np.int64)


def _dropping(columns: Sequence[str]) -> str:
    """Return how columns are left out of a release, for use inside a message."""
    typed = ",".join(map(typed_name, columns))
    return phrase(setting("drop", columns), command=setting("drop", typed))


def _refuse_following(open_columns: pd.DataFrame) -> None:
    """Refuse columns by which the random order of the rows could be undone."""
    following = following_columns(open_columns)
    if following:
        raise InputError(
            "released columns must not follow the order of the rows, but "
            f"{', '.join(map(repr, following))} {'does' if len(following) == 1 else 'do'}. "
            "Whoever sorts by such a column undoes the shuffle, and sees the answers if the data "
            f"were sorted by them. Use {_dropping(following)}, or {setting('keep_order', True)} if the "
            "order of the rows may be known."
        )


def _name_copies(table: pd.DataFrame, codes: Mapping[str, NDArray[np.int64]]) -> None:
    """Warn of open columns that say the same as a protected one, in these or other words.

    Whether there is one depends on the true answers: this is for the curator, not for the receipt.
    """
    import pandas as pd

    versions = {
        name: [distinct_answers(answers) for answers in (table[name], pd.Series(codes[name]))]
        for name in codes
    }
    for other in table.columns.difference(list(codes), sort=False):
        for name, both in versions.items():
            if any(_is_copy(version, table[other]) for version in both):
                Note(
                    "copied-column",
                    f"{other} has the same content as the protected column {name}, and shows its "
                    f"true answers. Use {_dropping([str(other)])}.",
                    f"{other} {name}",
                ).warn(PrivacyLeakWarning, stacklevel=3)


def _is_copy(protected: tuple[NDArray[np.int64], pd.Index], column: pd.Series) -> bool:
    """Say whether a column groups people as the protected one does, beyond what chance explains."""
    codes, values = protected
    # Answers are numbered as they come: equal numbers mean equal groups. Most differ early.
    for part in (column.head(1000), column):
        other_codes, other_values = distinct_answers(part)
        if not np.array_equal(codes[: len(part)], other_codes):
            return False
    log_chance = -log_arrangements(np.unique(codes, return_counts=True)[1])
    if list(map(str, values)) != list(map(str, other_values)):
        log_chance += math.lgamma(len(values) + 1)
    return log_chance < math.log(LARGEST_CHANCE)


def _leaks(domains: Mapping[str, Domain], budget: Budget) -> list[Note]:
    """Warn of what the release shows beside the reports, and return it for the receipt."""
    observed = [name for name, d in domains.items() if d.origin == "observed" and d.bins is None]
    ranges = [name for name, d in domains.items() if d.origin == "observed" and d.bins is not None]
    open_columns = [name for name, epsilon in budget.per_column.items() if epsilon == math.inf]
    answers = (
        f"The possible answers of {', '.join(observed)} were taken from the data: the release shows "
        f"which answers occur. Name them with {setting('categories')} to keep that private."
    )
    bounds = (
        f"The bounds of {', '.join(ranges)} were taken from the data: the release shows the smallest "
        f"and the largest value. Name bounds with {setting('bins')} to keep them private."
    )
    unchanged = (
        f"ε is infinite for {', '.join(open_columns)}: these answers are released as they are."
    )
    found = [
        Note(code, text)
        for names, code, text in (
            (observed, "observed-domain", answers),
            (ranges, "observed-bounds", bounds),
            (open_columns, "infinite-epsilon", unchanged),
        )
        if names
    ]
    for note in found:
        note.warn(PrivacyLeakWarning, stacklevel=3)
    return found


# --- A released table as text, written as the data are: no column tells by its form that it is randomised ---


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
