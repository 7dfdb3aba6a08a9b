# SPDX-License-Identifier: Apache-2.0
"""How many scores a tester has given to whom: counted before it answers, in a file that stays.

p(p + 3)/2 pairs of a move and its score determine the tester's gradient and Hessian; p pairs determine
the gradient alone, up to the second-order term, which is smaller by about the number of training
records. So the count stops well below both. A tester cannot know who stands behind a name that the
coordinator gives, so the same limit holds for all names together unless the tester decides otherwise.
"""

from __future__ import annotations

import hashlib
import math
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_positive
from epsilens.data.private_files import PrivateStore
from epsilens.errors import BudgetExceededError, InputError
from epsilens.valuation.model_moves import n_coefficients

# --- Scores are rounded before they leave the tester ---

DIGITS = 6
"""Digits kept of the largest score of an answer, where nothing was encrypted."""
UNITS_PER_ERROR = 10.0
"""An error is so much smaller than the unit of what leaves the tester: a last digit in fifty or so shows it."""


@dataclass(frozen=True)
class RoundedScores:
    """What a tester tells the coordinator.

    Attributes
    ----------
    scores : array of shape (m,)
        Positive helps.
    resolution : float
        The unit they are rounded to.
    """

    scores: FloatArray = field(repr=False)
    resolution: float

    def __post_init__(self) -> None:
        values = np.asarray(self.scores, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InputError(
                argument="scores",
                expected="finite numbers, one an item",
                got=f"an array of shape {values.shape}",
            )
        object.__setattr__(self, "scores", values)

    @property
    def n_bytes(self) -> int:
        """Bytes of the scores."""
        return self.scores.nbytes


def round_scores(
    scores: FloatArray,
    *,
    digits: int = DIGITS,
    resolution: float | None = None,
    error: float | None = None,
) -> RoundedScores:
    """Round scores to a common unit.

    Parameters
    ----------
    scores : array of shape (m,)
    digits : int
        So many significant digits of the largest score are kept, and as many decimals of all others: a
        score of a hundredth of the largest keeps two digits fewer.
    resolution : float, optional
        The unit itself, in nats or squared error, if it is declared beforehand.
    error : float, optional
        What the scores are off by, as a share of the largest. The unit is then 1, 2 or 5 times a power of
        ten, at least ten times the error, so that what was rounded does not show it; `digits` is not used.

    Returns
    -------
    RoundedScores

    Examples
    --------
    >>> import numpy as np
    >>> round_scores(np.array([0.0123456789, -3.21e-6]), digits=3)
    RoundedScores(resolution=0.0001)
    >>> round_scores(np.array([0.0123456789, -3.21e-6]), digits=3).scores.tolist()
    [0.0123, -0.0]
    >>> round_scores(np.array([0.0123456789, -3.21e-6]), error=1e-4).scores.tolist()
    [0.01234, 0.0]
    """
    values = np.asarray(scores, dtype=np.float64)
    if resolution is not None:
        unit = as_positive(resolution, name="resolution")
        return RoundedScores(np.round(values / unit) * unit, unit)
    kept = as_count(digits, name="digits")
    largest = float(np.abs(values).max(initial=0.0))
    if not largest > 0.0:
        return RoundedScores(np.zeros_like(values), 1.0)
    if error is not None:
        return _rounded_above(values, UNITS_PER_ERROR * as_positive(error, name="error") * largest)
    decimals = kept - 1 - math.floor(math.log10(largest))
    # Printed and read again, a decimal number is the same everywhere; np.round overflows for tiny ones.
    rounded = np.array([float(f"{value:.{max(decimals, 0)}f}") for value in values])
    if decimals < 0:
        rounded = np.round(values, decimals)
    return RoundedScores(rounded, float(f"1e{-decimals}"))


def _rounded_above(values: FloatArray, least: float) -> RoundedScores:
    """Round to the smallest unit of 1, 2 or 5 times a power of ten that is at least so large."""
    exponent = math.floor(math.log10(least))
    steps = [(m, exponent) for m in (1, 2, 5)] + [(1, exponent + 1)]
    lead, power = next((m, k) for m, k in steps if float(f"{m}e{k}") >= least or k > exponent)
    unit = float(f"{lead}e{power}")
    rounded = [float(f"{round(value / unit) * lead}e{power}") for value in values.tolist()]
    return RoundedScores(np.array(rounded), unit)


# --- How many scores a tester has given to whom: counted before it answers, in a file that stays ---

SHARE = 0.1
"""Share of the pairs that would determine gradient and Hessian."""

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    provider TEXT NOT NULL, request TEXT NOT NULL, n INTEGER NOT NULL, scores BLOB, unit REAL,
    PRIMARY KEY (request))
"""


def default_limit(n_parameters: int) -> int:
    """Return how many scores a provider may get from a tester if nothing else is agreed.

    A tenth of p(p + 3)/2, and half of p; at least one. With p − 1 scores all but one direction of the
    gradient would be known; half of them leave about 0.7 of its length unknown.

    Parameters
    ----------
    n_parameters : int
        p, numbers in the model.

    Returns
    -------
    int

    Examples
    --------
    >>> [default_limit(p) for p in (3, 10, 30, 60)]
    [1, 5, 15, 30]
    """
    p = as_count(n_parameters, name="n_parameters")
    return max(1, min(math.floor(SHARE * n_coefficients(p)), p // 2))


class AnswerBook:
    """The tester's count of scores, one for each provider.

    A request is counted before it is answered, so that a tester that is stopped in between has counted
    one too many and never one too few. The same request again, from whomever, gets the same answer with the
    same noise, and is not counted again.

    Parameters
    ----------
    file : path
        An SQLite file at the tester, made if it is not there.
    n_parameters : int
        p, numbers in the model.
    limit : int, optional
        Scores that a provider gets in all. None: `default_limit`; without a limit if there is noise.
    limit_in_all : int, optional
        Scores that all providers get together: several may be one, work together, or be invented by the
        coordinator. None: the same as `limit`, so that it holds whatever names are given.
    noise : float
        Standard deviation of a Gaussian noise on every score, drawn from the operating system. It
        blurs what many scores determine; it is no differential privacy by itself.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> log = AnswerBook(Path(tempfile.mkdtemp()) / "answers.sqlite", n_parameters=10)
    >>> log.limit
    5
    >>> log.answer("hospital 3", 4, b"a request", lambda: np.zeros(4)).tolist()
    [0.0, 0.0, 0.0, 0.0]
    >>> log.given_to("hospital 3"), log.left("hospital 3"), log.left("hospital 5")
    (4, 1, 1)
    """

    def __init__(
        self,
        file: str | Path,
        *,
        n_parameters: int,
        limit: int | None = None,
        limit_in_all: int | None = None,
        noise: float = 0.0,
    ) -> None:
        self.noise = 0.0 if noise == 0 else as_positive(noise, name="noise")
        if limit is not None:
            limit = as_count(limit, name="limit")
        elif not self.noise:
            limit = default_limit(n_parameters)
        if limit_in_all is not None:
            as_count(limit_in_all, name="limit_in_all")
        self.limit = limit
        self.limit_in_all = limit if limit_in_all is None else limit_in_all
        self._store = PrivateStore(
            Path(file),
            whose="the tester",
            damaged=f"the count of answers must be in a file of its own, but {Path(file).name!r} cannot be read "
            "as one. Name another, or bring back the backup.",
            busy="the tester is busy with another request. Try again.",
            tables=(_TABLE,),
        )
        with self._store.transaction():
            pass  # a count that cannot be kept is refused before anything is asked

    def given_to(self, provider: str) -> int:
        """Return how many scores a provider has got."""
        with self._store.transaction() as log:
            return _given(log, provider)[0]

    def left(self, provider: str) -> int | None:
        """Return how many scores a provider may still get; None: without end."""
        with self._store.transaction() as log:
            given = _given(log, provider)
        limits = zip((self.limit, self.limit_in_all), given, strict=True)
        return min((max(most - n, 0) for most, n in limits if most is not None), default=None)

    def n_answered(self) -> int:
        """Return how many requests were counted, from whomever."""
        with self._store.transaction() as log:
            return int(log.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def answer(
        self, provider: str, n: int, request: bytes, compute: Callable[[], FloatArray]
    ) -> FloatArray:
        """Count a request, then answer it; or answer as before if it was answered before.

        Parameters
        ----------
        provider : str
            Who asks.
        n : int
            Scores asked for.
        request : bytes
            What is asked, to know it again.
        compute : callable
            Gives the scores.

        Returns
        -------
        array of shape (n,)

        Raises
        ------
        BudgetExceededError
            If the provider, or all together, would get more scores than the limit.
        """
        return self.rounded(provider, n, request, compute, lambda s: RoundedScores(s, 0.0)).scores

    def rounded(
        self,
        provider: str,
        n: int,
        request: bytes,
        compute: Callable[[], FloatArray],
        finish: Callable[[FloatArray], RoundedScores],
    ) -> RoundedScores:
        """Do the same with scores that are rounded, and keep those: rounded twice, they would say more.

        Parameters
        ----------
        provider, n, request, compute
            As `answer` takes them.
        finish : callable
            Rounds the scores, noise included.
        """
        as_count(n, name="n")
        digest = hashlib.sha256(request).hexdigest()
        with self._store.transaction() as log:
            row = log.execute(
                "SELECT scores, unit FROM answers WHERE request = ?", (digest,)
            ).fetchone()
            if row is not None and row[0] is not None:
                kept = np.frombuffer(row[0], dtype="<f8").astype(np.float64)
                return RoundedScores(kept, float(row[1]))
            if row is None:
                self._require(provider, n, log)
                log.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, NULL, NULL)", (provider, digest, n)
                )
        scores = np.asarray(compute(), dtype=np.float64)
        if self.noise:
            source = random.SystemRandom()
            scores = scores + [source.gauss(0.0, self.noise) for _ in range(len(scores))]
        found = finish(scores)
        with self._store.transaction() as log:
            log.execute(
                "UPDATE answers SET scores = ?, unit = ? WHERE request = ?",
                (found.scores.astype("<f8").tobytes(), found.resolution, digest),
            )
        return found

    def _require(self, provider: str, n: int, log: sqlite3.Connection) -> None:
        given, in_all = _given(log, provider)
        raised = "None are left; the tester's people may raise `--score-limit`"
        if self.limit is not None and given + n > self.limit:
            raise BudgetExceededError(
                f"a provider may get {self.limit} scores from this tester, has got {given}, and asks for "
                f"{n} more: enough of them determine the tester's statistics. "
                f"{'Ask for fewer' if given < self.limit else raised}."
            )
        if self.limit_in_all is not None and in_all + n > self.limit_in_all:
            raise BudgetExceededError(
                f"all providers may get {self.limit_in_all} scores from this tester, have got {in_all}, "
                f"and one asks for {n} more. "
                f"{'Ask for fewer, or another tester' if in_all < self.limit_in_all else raised}."
            )


def _given(log: sqlite3.Connection, provider: str) -> tuple[int, int]:
    """Return how many scores a provider, and everybody, has got."""
    own, everybody = log.execute(
        "SELECT COALESCE(SUM(CASE WHEN provider = ? THEN n END), 0), COALESCE(SUM(n), 0) FROM answers",
        (provider,),
    ).fetchone()
    return int(own), int(everybody)
