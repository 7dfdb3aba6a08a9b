# SPDX-License-Identifier: Apache-2.0
"""What kind of answer each column holds: its kind, its domain, what can be protected."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from epsilens._validate import require_column, require_unique
from epsilens.data.binning import Bins
from epsilens.errors import InputError, setting

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.document.kinds import ColumnKind

# --- Which columns identify people: names, birth dates, case numbers, addresses ---
#
# One rule for every surface. It looks at a column's name, at how many of its values differ, and at the form of
# the values. Measurements with a fraction are not identifiers, even if all of them differ: otherwise hardly a
# table could be released. Postcodes, ages and the like are not either; several of them together may still
# single somebody out.

ValueKind = Literal["text", "date", "whole number", "number"]

ALL_DIFFER = "every value differs"

FEWEST_WORDS = 3
FEWEST_NUMBERS = 10
MANY_NUMBERS = 50
"""In a smaller table whole numbers identify people only if they are too close together to all differ.

Ten ages may all differ by chance, ten numbers from 1 to 12 hardly do.
"""

LOG_CHANCE = math.log(0.01)
"""Logarithm of the largest probability that unrelated whole numbers all differ."""

FEWEST_DATES = 20
NEARLY_ALL = 0.95
"""Share of different values from which text or dates identify people: 1 record in 20 is not alone."""

HALF = 0.5
MANY_DIFFERENT = 100
"""Beyond so many different values half suffices: a value has fewer than two records on average."""

SMALLEST_NAMED_SHARE = 0.05
FEW_DIFFERENT = 20
"""A column called an identifier is one if it has more values than this, at most 20 records each."""

_E_MAIL = r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"
_IP_ADDRESS = r"(?:\d{1,3}\.){3}\d{1,3}|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}"
_WRITTEN_DATE = r"\d{1,2}([./-])\d{1,2}\1(?:\d{2}|\d{4})"
_WORD = r"[A-Z]+(?![a-z])|[^\W\d_][^\W\d_A-Z]*"
_SAMPLE = 100


def _phrases(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(phrase.split()) for phrase in text.split(","))


# Names of columns in English, German and French. The last words of a name count: `c_case_number`
# is an identifier, `number_of_cases` is not.
_OF_ANY_VALUES = _phrases(
    "id, identifier, uuid, guid, uid, userid, personid, patientid, customerid, caseid, ssn, mrn, "
    "social security number, social security, passport, passport number, iban, id number, "
    "case number, case no, case nr, serial number, serial no, account number, customer number, "
    "client number, patient number, member number, policy number, record number, file number, "
    "card number, phone, phone number, telephone, telephone number, mobile number, fax, "
    "dob, birthdate, birthday, birth date, date of birth, date birth, "
    "geburtsdatum, geburtstag, aktenzeichen, kennung, telefon, handy, "
    "date de naissance, date naissance, identifiant, matricule, téléphone, "
    "numero de dossier, numéro de dossier, numero dossier, numéro dossier"
)
_OF_TEXT = _phrases(
    "first name, last name, middle name, full name, family name, given name, maiden name, "
    "user name, patient name, customer name, client name, person name, employee name, "
    "student name, surname, firstname, lastname, fullname, forename, username, "
    "email, e mail, mail, email address, e mail address, mail address, ip, ip address, "
    "address, street, vorname, nachname, familienname, geburtsname, adresse, anschrift, "
    "strasse, straße, prenom, prénom, nom de famille, courriel, rue"
)
_WHOLE_NAMES_OF_TEXT = frozenset({"name", "names", "first", "last", "middle", "nom", "noms"})
_BIRTH = frozenset({"birth", "born", "geburt", "geboren", "naissance"})


@dataclass(frozen=True)
class Values:
    """What the rule looks at in one column.

    Parameters
    ----------
    name : str
    kind : {"text", "date", "whole number", "number"}
        Numbers of which some have a fraction are judged by their column's name alone.
    n_distinct : int
        Number of different values.
    n_values : int
        Number of rows with a value.
    first : tuple of str
        The first of the different values, where they are text.
    n_possible : int
        Number of whole numbers from the smallest to the largest value; 0 if unknown.
    """

    name: str
    kind: ValueKind
    n_distinct: int
    n_values: int
    first: tuple[str, ...] = ()
    n_possible: int = 0

    @classmethod
    def of_text(cls, name: str, distinct: Sequence[object], n_values: int) -> Values:
        """Describe a column of text; many dates written like 31.1.2024 count as dates."""
        first = tuple(str(value).strip() for value in distinct[:_SAMPLE])
        is_date = n_values >= FEWEST_DATES and all(re.fullmatch(_WRITTEN_DATE, v) for v in first)
        return cls(name, "date" if is_date else "text", len(distinct), n_values, first)

    @classmethod
    def of_numbers(cls, name: str, distinct: Collection[Any], n_values: int) -> Values:
        """Describe a column of numbers: whole ones are whole, even if stored as floats.

        One missing value makes floats of a column of case numbers.
        """
        finite = [number for number in distinct if math.isfinite(number)]
        if not finite or any(number != int(number) for number in finite):
            return cls(name, "number", len(distinct), n_values)
        n_possible = int(max(finite)) - int(min(finite)) + 1
        return cls(name, "whole number", len(distinct), n_values, n_possible=n_possible)


def identifier_reason(values: Values, *, where: str = "") -> str | None:
    """Say why a column identifies people, or None if it does not.

    Parameters
    ----------
    values : Values
        Name, kind and counts of a column.
    where : str
        Which rows were compared, where it was not all.

    Returns
    -------
    str or None
        For instance "6,128 of 6,172 values differ, as in an identifier". No value is in it.

    Notes
    -----
    A column identifies people in one of these cases.

    - Every value differs: at least 3 texts, 10 whole numbers or 20 dates. Fewer than 50 whole
      numbers must also lie so close together that chance hardly makes them differ.
    - Nearly every text or date differs: at least 95 % of 20 or more, or more than half of them if
      there are more than 100 different ones.
    - Its name says so (`id`, `last_name`, `Geburtsdatum`), and it has more than 20 different
      values with at most 20 records each on average, or at least half of its values differ.
    - Its values are e-mail or IP addresses, more than 20 of them.

    Whole numbers that nearly all differ are not among them: amounts of money look like that.

    Examples
    --------
    >>> identifier_reason(Values("name", "text", 6128, 6172))
    '6,128 of 6,172 values differ, as in an identifier'
    >>> identifier_reason(Values("user_id", "whole number", 900, 9000))
    'its name is that of an identifier, and it has 900 different values'
    >>> identifier_reason(Values("width", "whole number", 900, 9000)) is None
    True
    """
    if values.n_distinct < FEWEST_WORDS:
        return None
    n = values.n_values
    share = values.n_distinct / n if n else 0.0
    # A few whole numbers may all differ though they number nothing: all of n draws from N values
    # differ with a probability of about exp(−n² / 2N). Divided, as N may be too large for a float.
    may_differ_by_chance = (
        values.kind == "whole number"
        and n < MANY_NUMBERS
        and n * n / (-2 * LOG_CHANCE) < values.n_possible
    )
    fewest = {"text": FEWEST_WORDS, "date": FEWEST_DATES, "whole number": FEWEST_NUMBERS}
    if n >= fewest.get(values.kind, math.inf) and share == 1 and not may_differ_by_chance:
        return f"{ALL_DIFFER}{where}, as in an identifier"
    if values.kind in {"text", "date"} and (
        (share >= NEARLY_ALL and n >= FEWEST_DATES)
        or (share > HALF and values.n_distinct > MANY_DIFFERENT)
    ):
        return f"{values.n_distinct:,} of {n:,} values differ, as in an identifier"
    are_many = values.n_distinct > FEW_DIFFERENT
    if is_identifier_name(values.name, values.kind) and (
        share >= HALF or (are_many and share >= SMALLEST_NAMED_SHARE)
    ):
        return (
            f"its name is that of an identifier, and it has {values.n_distinct:,} different values"
        )
    if are_many and values.kind == "text":
        for form, what in ((_E_MAIL, "e-mail addresses"), (_IP_ADDRESS, "IP addresses")):
            if values.first and all(re.fullmatch(form, value) for value in values.first):
                return f"its values are {what}, and {values.n_distinct:,} differ"
    return None


def is_identifier_name(name: str, kind: ValueKind) -> bool:
    """Say whether a column is called an identifier, word by word: `width` is no `id`.

    Examples
    --------
    >>> [is_identifier_name(name, "text") for name in ("c_case_number", "firstName", "width")]
    [True, True, False]
    >>> is_identifier_name("first", "whole number"), is_identifier_name("Kundennummer", "text")
    (False, True)
    """
    words = tuple(word.lower() for word in re.findall(_WORD, name))
    endings = {words[start:] for start in range(len(words))}
    if endings & _OF_ANY_VALUES or (words and words[-1].endswith("nummer")):
        return True
    if kind == "date":
        return bool(_BIRTH & set(words))
    return kind == "text" and bool(
        endings & _OF_TEXT or (len(words) == 1 and words[0] in _WHOLE_NAMES_OF_TEXT)
    )


# --- What kind of answer each column holds: its kind, its domain, what can be protected ---

ColumnUse = Literal["one-hot", "number", "left out"]
DomainOrigin = Literal["given", "declared", "observed", "bins"]
"""Where the possible answers of a column come from: the caller, its dtype, the data, or bins with bounds."""
Category = str | int | float | bool

LARGEST_NUMERIC_DOMAIN = 20
"""A numeric column with at most this many distinct values can be randomised as it is."""

MANY_CATEGORIES = 100
NO_ANSWERS = "no answers at all"

_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"


@dataclass(frozen=True)
class Column:
    """What is known of one column.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"numeric", "categorical", "binary", "constant", "identifier"}
        What it holds. A numeric column with two values is binary.
    n_distinct : int
        How many different answers there are, missing ones aside.
    n_missing : int
        How many rows have no answer.
    categories : tuple or None
        The different answers, in order, where they are few enough to be a domain.
    note : str or None
        Anything a reader should know.
    encoding : {"one-hot", "number", "left out"}
        How the default model uses the column.
    protectable : bool
        Whether randomised response can be applied to it as it is.
    identifies : str or None
        Why the column identifies people, if it does.
    """

    name: str
    kind: ColumnKind
    n_distinct: int
    n_missing: int
    categories: tuple[Category, ...] | None = None
    note: str | None = None
    encoding: ColumnUse = "number"
    protectable: bool = False
    identifies: str | None = None

    @property
    def domain(self) -> tuple[Category, ...] | None:
        """The answers among which a protected answer is hidden, or None."""
        return self.categories if self.protectable else None


@dataclass(frozen=True)
class Schema:
    """The columns of a table, without any record.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the table.
    n_rows : int
        How many rows the table has.
    label : Column or None
        The column to be predicted, where it is known; it is not among `columns` then.
    """

    columns: tuple[Column, ...]
    n_rows: int
    label: Column | None = None

    def __getitem__(self, name: str) -> Column:
        require_column(name, self.names, argument="column")
        return self.columns[self.names.index(name)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def encoded_as(self, encoding: ColumnUse) -> tuple[str, ...]:
        """Name the columns that the default model uses in one way.

        Parameters
        ----------
        encoding : {"one-hot", "number", "left out"}
            The way.

        Returns
        -------
        tuple of str
            Names, in the order of the table.

        Examples
        --------
        >>> import pandas as pd
        >>> infer_schema(pd.DataFrame({"sex": ["F", "M"], "age": [31, 42]})).encoded_as("one-hot")
        ('sex',)
        """
        return tuple(column.name for column in self.columns if column.encoding == encoding)

    @property
    def fingerprint(self) -> str:
        """A hash of names, kinds and counts: it tells two tables apart and tells no value."""
        columns = [*self.columns, *([self.label] if self.label else [])]
        described = [[c.name, c.kind, c.n_distinct, c.n_missing] for c in columns]
        text = json.dumps([self.n_rows, described], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


def infer_schema(
    frame: pd.DataFrame,
    *,
    categorical: Iterable[str] = (),
    bins: Mapping[str, Bins] | None = None,
) -> Schema:
    """Say what kind of answer each column holds.

    Words and truths are categories. Numbers stay numbers for the model, but with at most 20
    different values they can also be protected as they are. A column of whole numbers or words
    that identifies people is left out. Dates become days. Where every answer differs, the answers
    are the records themselves and never a domain.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    categorical : iterable of str
        Numeric columns whose numbers are codes, not amounts.
    bins : mapping of str to Bins, optional
        Numeric columns that are put into bins.

    Returns
    -------
    Schema
        One `Column` each.

    Raises
    ------
    InputError
        If a name is unknown or a column holds something else.

    Examples
    --------
    >>> import pandas as pd
    >>> schema = infer_schema(pd.DataFrame({"age": [31, 42, 31], "sex": ["F", "M", "F"]}))
    >>> [(column.name, column.kind, column.domain) for column in schema.columns]
    [('age', 'binary', (31, 42)), ('sex', 'binary', ('F', 'M'))]
    """
    require_unique(frame.columns, what="column names")
    as_codes = {require_column(name, frame.columns, argument="categorical") for name in categorical}
    binned = dict(bins or {})
    for name in binned:
        require_column(name, frame.columns, argument="bins")
        if name in as_codes:
            raise InputError(
                f"column {name!r} must be named in {setting('categorical')} or {setting('bins')}, "
                "not both."
            )
    return Schema(
        tuple(
            _describe(frame[name], str(name), coded=name in as_codes, bins=binned.get(str(name)))
            for name in frame.columns
        ),
        len(frame),
    )


def is_date(series: pd.Series) -> bool:
    """Say whether a column holds dates, as dates or written like 2024-01-31.

    Parameters
    ----------
    series : pandas.Series
        The column.

    Returns
    -------
    bool
        Whether every answer is a date.

    Examples
    --------
    >>> import pandas as pd
    >>> is_date(pd.Series(["2024-01-31", None])), is_date(pd.Series(["31", "1"]))
    (True, False)
    """
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return True
    if not (series.dtype == object or isinstance(series.dtype, pd.StringDtype)):
        return False
    answers = series.dropna()
    if answers.empty or not all(isinstance(answer, str) for answer in answers.iloc[:100]):
        return False
    if not answers.iloc[:100].str.fullmatch(_ISO_DATE).all():
        return False
    if not answers.astype(str).str.fullmatch(_ISO_DATE).all():
        return False
    return bool(pd.to_datetime(answers, errors="coerce", format="ISO8601", utc=True).notna().all())


def days(series: pd.Series) -> pd.Series:
    """Turn dates into days since the beginning of 1970.

    Parameters
    ----------
    series : pandas.Series
        A column for which `is_date` holds.

    Returns
    -------
    pandas.Series
        Numbers; a missing date stays missing.

    Raises
    ------
    InputError
        If a date is beyond what can be counted.

    Examples
    --------
    >>> import pandas as pd
    >>> days(pd.Series(["1970-01-02", "1970-01-03"])).tolist()
    [1.0, 2.0]
    """
    import numpy as np
    import pandas as pd

    try:
        moments = pd.to_datetime(series, format="ISO8601", utc=True)
    except (ValueError, OverflowError):
        # The original message would quote the date.
        raise InputError(
            f"column {str(series.name)!r} must hold dates that a computer can count, but some are "
            "too far away. Fix or drop them."
        ) from None
    # Counted in the column's own unit: a difference of dates in nanoseconds ends in 2262.
    counts = moments.dt.tz_convert(None).to_numpy()
    per_day = _PER_DAY[np.datetime_data(counts.dtype)[0]]
    numbers = counts.astype(np.int64) / per_day
    return pd.Series(np.where(np.isnat(counts), np.nan, numbers), index=series.index)


def _describe(series: pd.Series, name: str, *, coded: bool, bins: Bins | None) -> Column:
    import pandas as pd

    n_missing = int(series.isna().sum())
    answers = series.dropna()
    try:
        distinct = answers.unique()
    except TypeError:
        raise InputError(
            f"column {name!r} must hold numbers, words or dates, got lists or other objects. "
            "Drop it."
        ) from None
    n_distinct = len(distinct)
    is_truth = pd.api.types.is_bool_dtype(series.dtype) or (
        # Truths of which some are missing may come as objects.
        series.dtype == object and pd.api.types.infer_dtype(answers) == "boolean"
    )
    is_number = pd.api.types.is_numeric_dtype(series.dtype) and not is_truth
    base = Column(name, "numeric", n_distinct, n_missing)
    if n_distinct <= 1 and not isinstance(series.dtype, pd.CategoricalDtype):
        return left_out(
            base, "constant", NO_ANSWERS if n_distinct == 0 else "the same answer everywhere"
        )
    if bins is not None:
        if not is_number:
            raise InputError(
                f"{setting('bins')} must name a numeric column, got {name!r}, which is not."
            )
        return _binned(base, answers, bins)
    is_float = pd.api.types.is_float_dtype(series.dtype)
    if is_date(series):
        why = identifier_reason(Values(name, "date", n_distinct, len(answers)))
        note = "a date: used as a number of days" + (f"; {why}" if why else "")
        return replace(base, note=note, identifies=why)
    describe = Values.of_numbers if is_number else Values.of_text
    looked_at = describe(name, distinct.tolist(), len(answers))
    why = None if is_truth else identifier_reason(looked_at)
    is_declared = is_truth or isinstance(series.dtype, pd.CategoricalDtype)
    # Whole numbers stored as floats may be amounts: a release asks, but the model uses them.
    is_kept = is_float and identifier_reason(replace(looked_at, kind="number")) is None
    if why is not None and not coded and not is_declared and not is_kept:
        hint = "; put a measurement into bins to use it" if is_number else ""
        return left_out(replace(base, identifies=why), "identifier", why + hint)
    base = replace(base, identifies=why)
    all_differ = n_distinct == len(answers) and not is_declared
    if is_number and not coded:
        if all_differ or n_distinct > LARGEST_NUMERIC_DOMAIN:
            return base
        values = tuple(sorted(as_category(value) for value in distinct))
        kind: ColumnKind = "binary" if n_distinct == 2 else "numeric"
        return replace(base, kind=kind, categories=values, protectable=True)
    described = _categorical(base, series, distinct)
    # The model may need such categories, but they are the records: nothing to hide among.
    if all_differ or (why is not None and not is_declared):
        described = replace(described, note=why or ALL_DIFFER, protectable=False)
    return described


def left_out(base: Column, kind: ColumnKind, why: str) -> Column:
    """Return the description of a column that the model does not see."""
    return Column(
        base.name,
        kind,
        base.n_distinct,
        base.n_missing,
        note=f"left out: {why}",
        encoding="left out",
        identifies=base.identifies,
    )


def _binned(base: Column, answers: pd.Series, bins: Bins) -> Column:
    import numpy as np

    values = answers.to_numpy(dtype=np.float64)
    bounded = bins.bounded_by(values)
    note = f"put into {bounded.n_bins} bins" + (
        "" if bins.low is not None else " between the smallest and largest value in the data"
    )
    n_distinct = len(np.unique(bounded.apply(values)))
    middles = bounded.midpoints
    kind: ColumnKind = "binary" if len(middles) == 2 else "numeric"
    return Column(base.name, kind, n_distinct, base.n_missing, middles, note, protectable=True)


def _categorical(base: Column, series: pd.Series, distinct: object) -> Column:
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        # A declared domain counts even where nobody gave that answer.
        values = tuple(as_category(value) for value in series.dtype.categories)
    else:
        values = tuple(as_category(value) for value in distinct)  # type: ignore[attr-defined]
    if len({type(value) for value in values}) > 1:
        if any(isinstance(value, str) for value in values):
            raise InputError(
                f"column {base.name!r} must hold numbers or words, but it mixes both. "
                "Make all of them text."
            )
        values = tuple(float(value) for value in values)
    values = tuple(sorted(values))
    if len(values) < 2:
        return left_out(base, "constant", "the same answer everywhere")
    note = (
        f"{len(values)} categories: many for one column" if len(values) > MANY_CATEGORIES else None
    )
    kind: ColumnKind = "binary" if len(values) == 2 else "categorical"
    return replace(
        base, kind=kind, categories=values, note=note, encoding="one-hot", protectable=True
    )


def as_category(value: object) -> Category:
    """Return a NumPy scalar as the Python value that it is."""
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    return plain if isinstance(plain, str | int | float | bool) else str(plain)
