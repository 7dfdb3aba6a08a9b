# SPDX-License-Identifier: Apache-2.0
"""Which columns identify people: names, birth dates, case numbers, addresses.

One rule for every surface. It looks at a column's name, at how many of its values differ, and at
the form of the values. Measurements with a fraction are not identifiers, even if all of them
differ: otherwise hardly a table could be released. Postcodes, ages and the like are not either;
several of them together may still single somebody out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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

    @property
    def share(self) -> float:
        """Share of different values among all."""
        return self.n_distinct / self.n_values if self.n_values else 0.0

    @property
    def may_differ_by_chance(self) -> bool:
        """Whether a few whole numbers may all differ though they number nothing.

        All of n draws from N values differ with a probability of about exp(−n² / 2N).
        """
        n = self.n_values
        return (
            self.kind == "whole number"
            and n < MANY_NUMBERS
            # Divided, as a whole number may be too large for a float.
            and n * n / (-2 * LOG_CHANCE) < self.n_possible
        )


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
    fewest = {"text": FEWEST_WORDS, "date": FEWEST_DATES, "whole number": FEWEST_NUMBERS}
    if (
        values.n_values >= fewest.get(values.kind, math.inf)
        and values.share == 1
        and not values.may_differ_by_chance
    ):
        return f"{ALL_DIFFER}{where}, as in an identifier"
    if values.kind in {"text", "date"} and (
        (values.share >= NEARLY_ALL and values.n_values >= FEWEST_DATES)
        or (values.share > HALF and values.n_distinct > MANY_DIFFERENT)
    ):
        return f"{values.n_distinct:,} of {values.n_values:,} values differ, as in an identifier"
    are_many = values.n_distinct > FEW_DIFFERENT
    if is_identifier_name(values.name, values.kind) and (
        values.share >= HALF or (are_many and values.share >= SMALLEST_NAMED_SHARE)
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
