# SPDX-License-Identifier: Apache-2.0
"""What a published model gives away of a person's own answer, and what it can give away at most.

The attacker has the model, every other column of the person and the shares of the answers, and guesses the
protected answer by their likelihood. The same guess with a model that never saw the person is the
baseline. Randomised response at ε does not hide what is true
of people like them; it bounds what their own answer adds to that.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import scipy.sparse
import scipy.special
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.data.frames import to_pandas
from epsilens.influence.alternatives import Alternatives
from epsilens.models.passes import one_blas_thread
from epsilens.models.problem import Loss
from epsilens.risk.membership_attack import lower_rate

if TYPE_CHECKING:
    import pandas as pd

_CALIBRATION_PAIRS = 20_000
_CALIBRATION_NUMBERS = 200_000
_NEWTON_STEPS = 50

Rows: TypeAlias = "slice | NDArray[np.intp]"
_Models = TypeVar("_Models")


@dataclass(frozen=True)
class Calibration:
    """How much an attacker believes a model of this noise.

    The log-odds of a candidate answer are `share` times the log of how common it is, plus `evidence` times
    the model's log-likelihood of it. Under much noise the evidence counts for nothing and the most common
    answer is guessed; without noise the model's own probabilities are taken as they are.

    Attributes
    ----------
    share, evidence : float
    """

    share: float
    evidence: float

    def sensible(self) -> Calibration:
        """Return the calibration, or that of the most common answer where evidence points the wrong way."""
        return self if self.evidence > 0.0 else Calibration(share=1.0, evidence=0.0)


class GuessByLikelihood(Generic[_Models]):
    """Guesses of the protected answers by how likely a model finds each candidate.

    Attributes
    ----------
    truth : array of int, shape (n,)
        The protected answers of every record as one number.
    log_shares : array of shape (C,)
        How common each candidate is among the records, which the attacker is taken to know.
    """

    truth: NDArray[np.intp]
    log_shares: FloatArray

    def likelihoods(self, rows: Rows, models: _Models) -> Iterator[FloatArray]:
        """Yield the log-likelihood of each candidate for some rows and B models, (rows, B)."""
        raise NotImplementedError

    def n_models(self, models: _Models) -> int:
        """Return how many models these are."""
        raise NotImplementedError

    def row_blocks(self, n_models: int) -> Iterator[slice]:
        """Yield the rows in blocks that fit into memory."""
        raise NotImplementedError

    def calibrate(
        self, models: _Models, whom: BoolArray, generator: np.random.Generator
    ) -> Calibration:
        """Learn how much to believe such models about such people.

        Parameters
        ----------
        models : B models
            Models that the attacker trained for the purpose.
        whom : array of bool, shape (n, B)
            The people to learn from: those in each model's training data for an attack on such
            people, for a model believes of them what it has seen; the others for the baseline.
        generator : numpy.random.Generator
            Picks the records.
        """
        n_rows, n_models = whom.shape
        rows = np.sort(generator.permutation(n_rows)[: max(_CALIBRATION_PAIRS // n_models, 1)])
        chosen = whom[rows]
        evidence = np.stack([value[chosen] for value in self.likelihoods(rows, models)])
        truth = np.broadcast_to(self.truth[rows, None], chosen.shape)[chosen]
        return _fit_calibration(self.log_shares, evidence, truth).sensible()

    def successes(self, models: _Models, calibration: Calibration) -> BoolArray:
        """Return whether the guess of each record with each of B models is right, (n, B).

        Right means all protected answers of the record at once.
        """
        n_models = self.n_models(models)
        right = np.empty((len(self.truth), n_models), dtype=bool)
        prior = calibration.share * self.log_shares
        for rows in self.row_blocks(n_models):
            truth = self.truth[rows, None]
            best = np.full((len(truth), n_models), -np.inf)
            hit = np.zeros((len(truth), n_models), dtype=bool)
            for candidate, likelihood in enumerate(self.likelihoods(rows, models)):
                belief = calibration.evidence * likelihood + prior[candidate]
                better = belief > best
                np.copyto(best, belief, where=better)
                np.copyto(hit, truth == candidate, where=better)
            right[rows] = hit
        return right


def shares_of(truth: NDArray[np.intp], n_candidates: int) -> FloatArray:
    """Return the log of how common each candidate is; one that nobody gave is as rare as half a record."""
    counts = np.maximum(np.bincount(truth, minlength=n_candidates), 0.5)
    return np.asarray(np.log(counts / len(truth)))


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class AnswerAttack(GuessByLikelihood[FloatArray]):
    """Guesses of the protected answers from linear models, (K·p, B), and all other columns.

    Attributes
    ----------
    loss : Loss
        Logistic or softmax: a model that gives probabilities.
    alternatives : Alternatives
        The records, and what the protected features could have been.
    classes : array of int, shape (n,)
        The true class of every record.
    guesses_label : bool
        Whether the label is protected; otherwise the attacker knows it.
    n_classes : int
        Number of classes.
    """

    loss: Loss
    alternatives: Alternatives
    classes: NDArray[np.intp]
    guesses_label: bool
    n_classes: int = field(init=False)
    truth: NDArray[np.intp] = field(init=False)
    log_shares: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        truth, n_candidates = self.alternatives.codes, len(self.alternatives.blocks)
        n_classes = max(self.loss.n_outputs, 2)
        if self.guesses_label:
            truth, n_candidates = truth * n_classes + self.classes, n_candidates * n_classes
        object.__setattr__(self, "n_classes", n_classes)
        object.__setattr__(self, "truth", truth)
        object.__setattr__(self, "log_shares", shares_of(truth, n_candidates))

    def n_models(self, models: FloatArray) -> int:
        """Return how many models these are."""
        return int(models.shape[1])

    def row_blocks(self, n_models: int) -> Iterator[slice]:
        """Yield the rows in blocks that fit into memory."""
        yield from self.alternatives.base.chunks(width=4 * n_models * self.n_classes)

    def likelihoods(self, rows: Rows, models: FloatArray) -> Iterator[FloatArray]:
        """Yield the log-likelihood of each candidate for some rows and B models, (rows, B)."""
        base = self.alternatives.base
        s = (
            base.predict(models, rows)
            if isinstance(rows, slice)
            else base.take(rows).predict(models, slice(None))
        )
        known = self.classes[rows].astype(np.float64)
        by_output = models.reshape(self.loss.n_outputs, -1, models.shape[1])
        for block in self.alternatives.blocks:
            at = s + np.einsum("p,kpb->kb", block, by_output)
            if not self.guesses_label:
                yield -self.loss.value(at, known)
                continue
            for label in range(self.n_classes):
                yield -self.loss.value(at, np.full(len(known), float(label)))


def _fit_calibration(
    log_shares: FloatArray, evidence: FloatArray, truth: NDArray[np.intp]
) -> Calibration:
    """Fit the two numbers by maximum likelihood: a conditional logit, which is convex.

    Parameters
    ----------
    log_shares : array of shape (C,)
    evidence : array of shape (C, pairs)
        Log-likelihood of every candidate.
    truth : array of int, shape (pairs,)
    """
    features = np.stack([np.broadcast_to(log_shares[:, None], evidence.shape), evidence])
    own = np.take_along_axis(features, truth[None, None, :], axis=1)[:, 0]
    weights = np.array([1.0, 0.0])
    for _ in range(_NEWTON_STEPS):
        utility = np.tensordot(weights, features, axes=1)
        utility -= utility.max(axis=0)
        chances = np.exp(utility)
        chances /= chances.sum(axis=0)
        mean = np.einsum("cn,fcn->fn", chances, features)
        gradient = (own - mean).mean(axis=1)
        centred = features - mean[:, None, :]
        spread = np.einsum("cn,fcn,gcn->fg", chances, centred, centred) / len(truth)
        # A share that is the same for all candidates says nothing: the smallest ridge decides.
        step = np.linalg.solve(spread + 1e-9 * np.eye(2), gradient)
        longest = np.abs(step).max()
        weights = weights + step * min(1.0, 1.0 / max(longest, 1e-12))
        if longest < 1e-8:
            break
    return Calibration(share=float(weights[0]), evidence=float(weights[1]))


# --- How well a person's protected answers are guessed from everybody else's data ---

Predictor: TypeAlias = Literal[
    "boosted trees", "people with the same value", "forest", "linear model"
]

CONFIDENCE = 0.95
"""One-sided confidence of the upper bound of the baseline, for all predictors together."""
MOST_TRAINING_ROWS = 8_000
"""Rows that one predictor learns from. More make it slower and hardly better."""
_MOST_CELLS = 3_000_000
_MOST_FOR_TREES = 64
_MOST_COLUMNS = 1_000
_MOST_ANSWERS = 24
_MOST_ANSWERS_OF_A_FOREST = 300
_MOST_PAIRED = 8
_MOST_NEIGHBOURS = 8_000
_LOOKUP_NUMBERS = 1 << 22
_MOST_CATEGORIES = 250
_MANY_VALUES = 100
_MOST_SHARED = 5
_PARTS = 5
_TREES = 300
_MOST_BELIEVED = 50_000
_DOUBT = 0.001


@dataclass(frozen=True)
class GuessFromOthers:
    """How often the best guess without a person's own answers is right.

    Attributes
    ----------
    rate : float
        The share of people whose protected answers the best predictor guesses.
    high : float
        Upper confidence bound of what the predictors reach: 95 % for all of them together.
    predictor : str
        The predictor with that rate.
    """

    rate: float
    high: float
    predictor: str


def best_guess(
    rates: Mapping[str, float], *, n_people: int, at_least: float = 0.0
) -> GuessFromOthers:
    """Return the best of several predictors, with an upper confidence bound.

    Parameters
    ----------
    rates : mapping of predictor to float
        The share of people each of them guesses, people it was not trained on.
    n_people : int
        Number of people that the rates were measured on.
    at_least : float
        A rate that the bound is never below, such as that of models of randomised answers.

    Returns
    -------
    GuessFromOthers

    Notes
    -----
    Each of m predictors gets a one-sided Clopper–Pearson bound at confidence 1 − 0.05/m, so that all
    of them hold together with 95 % and the choice of the best is paid for.

    Examples
    --------
    >>> found = best_guess({"most common answer": 0.6, "boosted trees": 0.7}, n_people=1000)
    >>> found.predictor, round(found.high, 3)
    ('boosted trees', 0.728)
    """
    predictor = max(rates, key=lambda name: rates[name])
    rate = max(rates[predictor], at_least)
    # Rounded up to whole people: the bound is never too low.
    wrong = np.floor(n_people * (1.0 - np.array(list(rates.values()))) + 1e-9).astype(np.int64)
    level = (1.0 - CONFIDENCE) / len(rates)
    ends = 1.0 - lower_rate(wrong, np.full(len(rates), n_people), level=level)
    return GuessFromOthers(rate, float(max(ends.max(), rate)), predictor)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class KnownColumns:
    """What an attacker knows of every person: all columns that are not protected.

    Attributes
    ----------
    values : array of shape (n, p)
        Numbers, and categories as codes, the most common first. A missing number is below all others, a
        missing category one of its own.
    is_category : array of bool, shape (p,)
    shared : array of int, shape (n, q)
        Codes of columns whose values few people share, such as a household, a day or a first name.
    n_training_rows : int
        Number of rows that a predictor learns from at most.
    """

    values: FloatArray
    is_category: BoolArray
    shared: NDArray[np.intp]
    n_training_rows: int

    @classmethod
    def of(
        cls, table: object, *, hidden: set[str], label: NDArray[np.number] | None
    ) -> KnownColumns:
        """Read the columns of a table.

        Parameters
        ----------
        table : frame, array or sparse matrix
        hidden : set of str
            The protected columns.
        label : array of shape (n,), optional
            The label, where it is not protected.
        """
        if scipy.sparse.issparse(table):
            whole = scipy.sparse.csc_array(table)
            often = np.argsort(-np.diff(whole.indptr), kind="stable")[:_MOST_COLUMNS]
            columns = list(whole[:, np.sort(often)].toarray().T.astype(np.float64))
            kinds = [False] * len(columns)
        else:
            frame = to_pandas(table)
            read = [_as_numbers(frame[name]) for name in frame.columns if name not in hidden]
            columns, kinds = [values for values, _ in read], [kind for _, kind in read]
        if label is not None:
            columns.append(np.asarray(label, dtype=np.float64))
            kinds.append(False)
        # The label comes last and is never among those left out.
        if len(columns) > _MOST_COLUMNS:
            columns, kinds = columns[-_MOST_COLUMNS:], kinds[-_MOST_COLUMNS:]
        values = np.column_stack(columns) if columns else np.empty((0, 0))
        # The columns with many values of which a quarter of the people share theirs.
        shared = []
        for column in values.T:
            distinct, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
            if len(distinct) > _MANY_VALUES and counts[counts > 1].sum() >= len(column) // 4:
                shared.append(codes.astype(np.intp))
        del shared[_MOST_SHARED:]
        return cls(
            values,
            np.array(kinds, dtype=bool),
            np.column_stack(shared) if shared else np.empty((len(values), 0), dtype=np.intp),
            min(MOST_TRAINING_ROWS, max(1_000, _MOST_CELLS // max(len(columns), 1))),
        )


def _as_numbers(series: pd.Series[Any]) -> tuple[FloatArray, bool]:
    """Return a column as numbers, and whether they are codes of categories."""
    import pandas as pd
    from pandas.api import types

    if types.is_bool_dtype(series) or types.is_numeric_dtype(series):
        found = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    elif types.is_datetime64_any_dtype(series) or types.is_timedelta64_dtype(series):
        days = series.astype("int64").to_numpy(np.float64)
        found = np.where(series.isna().to_numpy(), np.nan, days)
    else:
        codes = pd.factorize(series.astype("string"), use_na_sentinel=False)[0]
        rank = np.empty(codes.max(initial=0) + 1)
        rank[np.argsort(-np.bincount(codes, minlength=1), kind="stable")] = np.arange(len(rank))
        return rank[codes], True
    is_number = np.isfinite(found)
    least = found[is_number].min(initial=0.0)
    return np.where(is_number, found, least - 1.0), False


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Beliefs:
    """How probable a person's protected answers are, given everybody else's data.

    Attributes
    ----------
    people : array of int, shape (m,)
        Rows of the people: all, or a random sample of many.
    answers : array of int, shape (A,)
        Joint answers that the predictor tells apart. The others are as probable as they are common.
    log_probabilities : array of shape (m, A)
        Calibrated, and of a person whom the predictor was not trained on. They sum to 1.
    predictor : str
        The predictor with the smallest log loss.
    """

    people: NDArray[np.intp]
    answers: NDArray[np.intp]
    log_probabilities: FloatArray
    predictor: str


@dataclass(frozen=True, repr=False)
class CrossFitted:
    """What predictors say of people they were not trained on.

    Attributes
    ----------
    hits : dict of str to array of bool, shape (n,)
        Whose answers each of them guesses. Empty where nothing is known of people, or all have one answer.
    beliefs : Beliefs or None
        Probabilities by the predictor with the smallest log loss.
    """

    hits: dict[str, BoolArray]
    beliefs: Beliefs | None = None

    @property
    def rates(self) -> dict[str, float]:
        """How often each guesses a person's answers."""
        return self.rates_of(slice(None))

    def rates_of(self, people: BoolArray | slice) -> dict[str, float]:
        """Return how often each guesses the answers of some of the people."""
        return {name: float(found[people].mean()) for name, found in self.hits.items()}


def cross_fitted(
    known: KnownColumns, truth: NDArray[np.intp], generator: np.random.Generator
) -> CrossFitted:
    """Predict the answers of people by predictors that were not trained on them.

    Parameters
    ----------
    known : KnownColumns
    truth : array of int, shape (n,)
        The protected answers of every person as one number.
    generator : numpy.random.Generator
        Deals people to folds.

    Returns
    -------
    CrossFitted

    Notes
    -----
    Boosted trees and the linear model guess the 24 most common joint answers, the forest and the look-ups the
    300 most common. Trees see the 64 columns whose means differ most between the answers, the linear model sees
    all. Look-ups guess the most common answer among the other people with the same value of a column, of
    two columns or of all columns; neighbours that of the nearest other people.
    """
    import sklearn.ensemble  # noqa: F401  # only what is loaded can be held at one thread

    answers, counts = np.unique(truth, return_counts=True)
    n_rows = len(truth)
    if known.values.shape[1] == 0 or len(answers) < 2 or n_rows < 10:
        return CrossFitted({})
    by_count = answers[np.argsort(-counts, kind="stable")]
    common = np.sort(by_count[:_MOST_ANSWERS])
    guessable = np.sort(by_count[:_MOST_ANSWERS_OF_A_FOREST])
    order = generator.permutation(n_rows)
    n_folds = 10 if n_rows <= 2_000 else 5 if n_rows <= MOST_TRAINING_ROWS else 3
    fold_of = np.empty(n_rows, dtype=np.intp)
    predictors: tuple[Predictor, ...] = get_args(Predictor)
    hits: dict[str, BoolArray] = {name: np.zeros(n_rows, dtype=bool) for name in predictors}
    kept = _Kept(truth, order[:_MOST_BELIEVED])
    with (
        warnings.catch_warnings(),
        threadpool_limits(limits=1, user_api="openmp"),
        one_blas_thread(),
    ):
        # Threads of OpenMP that wait for each other on a busy machine take forty times as long. A
        # linear model that has not converged yet is a predictor all the same.
        warnings.simplefilter("ignore")
        for fold in range(n_folds):
            held = order[fold::n_folds]
            fold_of[held] = fold
            everybody = generator.permutation(np.setdiff1d(order, held, assume_unique=True))
            others = everybody[np.isin(truth[everybody], common)]
            for_forest = everybody[np.isin(truth[everybody], guessable)][: known.n_training_rows]
            few = others[: known.n_training_rows]
            if len(np.unique(truth[few])) < 2:
                continue
            beside = _shares_beside(known.shared, truth, others, common)
            for name in predictors:
                inputs, is_category = known.values, known.is_category
                some = for_forest if name == "forest" else few
                if name == "people with the same value":
                    if beside.shape[1] == 0:
                        continue
                    inputs = np.column_stack([inputs, beside])
                    is_category = np.append(is_category, np.zeros(beside.shape[1], dtype=bool))
                if name != "linear model" and inputs.shape[1] > _MOST_FOR_TREES:
                    told = _telling(inputs[some], truth[some])
                    inputs, is_category = inputs[:, told], is_category[told]
                model = _predictor(name, is_category, n_answers=len(common))
                model.fit(inputs[some], truth[some])
                chances = model.predict_proba(inputs[held])
                guesses = model.classes_[chances.argmax(axis=1)]
                hits[name][held] = guesses == truth[held]
                kept.keep(
                    name,
                    held,
                    chances,
                    model.classes_,
                    answers=guessable if name == "forest" else common,
                )
    hits = {name: found for name, found in hits.items() if found.any()}
    places = np.searchsorted(guessable, truth)
    places[~np.isin(truth, guessable)] = -1
    best_name, best_codes, least = "", None, math.inf
    for number, codes in enumerate(_lookups(known.values)):
        look_up = f"look-up {number + 1}"
        hits[look_up], loss = _looked_up(codes, places, len(guessable))
        if loss < least:
            best_name, best_codes, least = look_up, codes, loss
    if best_codes is not None:
        for rows, shares in _shares_of_others(best_codes, places, len(guessable)):
            kept.keep(best_name, rows, shares, guessable, answers=guessable)
    if n_rows <= _MOST_NEIGHBOURS:
        hits |= _neighbour_hits(known, truth)
    beliefs = kept.best(fold_of)
    if beliefs is not None:
        guesses = beliefs.answers[beliefs.log_probabilities.argmax(axis=1)]
        # People outside the sample are guessed without calibration.
        found = hits.get(beliefs.predictor, np.zeros(n_rows, dtype=bool)).copy()
        found[beliefs.people] = guesses == truth[beliefs.people]
        hits[f"{beliefs.predictor}, calibrated"] = found
    return CrossFitted(hits, beliefs)


class _Kept:
    """Probabilities that predictors give to people they were not trained on.

    Parameters
    ----------
    truth : array of int, shape (n,)
    people : array of int, shape (m,)
        The rows whose probabilities are kept.
    """

    def __init__(self, truth: NDArray[np.intp], people: NDArray[np.intp]) -> None:
        self.people = np.sort(people)
        self.truth = truth[self.people]
        answers, counts = np.unique(truth, return_counts=True)
        self.shares = dict(zip(answers.tolist(), (counts / len(truth)).tolist(), strict=True))
        self._place = np.full(len(truth), -1, dtype=np.intp)
        self._place[self.people] = np.arange(len(people))
        self._found: dict[str, tuple[NDArray[np.intp], SingleArray]] = {}

    def keep(
        self,
        name: str,
        rows: NDArray[np.intp],
        chances: FloatArray,
        classes: NDArray[np.intp],
        *,
        answers: NDArray[np.intp],
    ) -> None:
        """Keep what a predictor says of some rows, (rows, classes); the classes are among the answers."""
        if name not in self._found:
            empty = np.zeros((len(self.people), len(answers)), dtype=np.float32)
            self._found[name] = (answers, empty)
        wanted = self._place[rows] >= 0
        at = np.ix_(self._place[rows[wanted]], np.searchsorted(answers, classes))
        self._found[name][1][at] = chances[wanted]

    def best(self, fold_of: NDArray[np.intp]) -> Beliefs | None:
        """Return the calibrated probabilities with the smallest log loss; None without any predictor."""
        found, least = None, math.inf
        for name, (answers, chances) in self._found.items():
            if not chances.any(axis=1).all():  # it was not trained for every fold
                continue
            shares = np.array([self.shares[answer] for answer in answers.tolist()])
            told = np.isin(self.truth, answers)
            truth = np.where(told, np.searchsorted(answers, self.truth), 0)
            truth = np.minimum(truth, len(answers) - 1)
            log_chances = _calibrated(
                chances, shares / shares.sum(), truth, told, fold_of[self.people]
            )
            own = np.log(shares.sum()) + log_chances[np.arange(len(truth)), truth]
            rare = [self.shares[answer] for answer in self.truth[~told].tolist()]
            loss = float(-own[told].sum() - np.log(rare).sum()) / len(truth)
            if loss < least:
                found, least = Beliefs(self.people, answers, log_chances, name), loss
        return found


def _calibrated(
    chances: SingleArray,
    shares: FloatArray,
    truth: NDArray[np.intp],
    told: BoolArray,
    fold_of: NDArray[np.intp],
) -> FloatArray:
    """Return log-probabilities, calibrated on the people of the other folds.

    Parameters
    ----------
    chances : array of shape (m, A)
        Probabilities by a predictor that was not trained on the person; rows need not sum to 1.
    shares : array of shape (A,)
        How common the answers are.
    truth : array of int, shape (m,)
    told : array of bool, shape (m,)
        Whose answer is among the A.
    fold_of : array of int, shape (m,)
    """
    given = chances.astype(np.float64)
    given /= given.sum(axis=1, keepdims=True)
    # No predictor rules an answer out.
    evidence = np.log((1.0 - _DOUBT) * given + _DOUBT * shares)
    log_shares = np.log(shares)
    most = max(1, min(_CALIBRATION_PAIRS, _CALIBRATION_NUMBERS // len(shares)))
    result = np.empty_like(evidence)
    for fold in np.unique(fold_of):
        held = fold_of == fold
        others = np.flatnonzero(~held & told)
        others = others[:: max(1, len(others) // most)]
        learnt = _fit_calibration(log_shares, evidence[others].T, truth[others]).sensible()
        result[held] = learnt.evidence * evidence[held] + learnt.share * log_shares
    result -= scipy.special.logsumexp(result, axis=1, keepdims=True)
    return result


def _lookups(values: FloatArray) -> Iterator[NDArray[np.intp]]:
    """Yield the codes of every column whose values people share, of pairs of them, and of all together."""
    single = []
    for column in values.T[:_MOST_COLUMNS]:
        distinct, codes = np.unique(column, return_inverse=True)
        if 1 < len(distinct) < len(column):
            single.append((len(distinct), codes.astype(np.intp)))
    for _, codes in single[-_MOST_FOR_TREES:]:
        yield codes
    # Keys are made of columns with many values.
    keys = sorted(single, key=lambda each: -each[0])[:_MOST_PAIRED]
    for (_, one), (size, other) in combinations(keys, 2):
        yield np.unique(one * size + other, return_inverse=True)[1].astype(np.intp)
    if len(single) > 2:
        whole = np.column_stack([codes for _, codes in single])
        yield np.unique(whole, axis=0, return_inverse=True)[1].ravel().astype(np.intp)


def _looked_up(
    codes: NDArray[np.intp], places: NDArray[np.intp], n_answers: int
) -> tuple[BoolArray, float]:
    """Return whether the most common answer of others with the same value is right, and the log loss.

    Parameters
    ----------
    codes : array of int, shape (n,)
    places : array of int, shape (n,)
        The answer of every person; −1 for a rare one, which is never guessed.
    n_answers : int
    """
    right, loss = np.zeros(len(places), dtype=bool), 0.0
    for rows, others in _shares_of_others(codes, places, n_answers):
        right[rows] = others.argmax(axis=1) == places[rows]
        seen = np.flatnonzero(places[rows] >= 0)
        own = others[seen, places[rows[seen]]]
        loss += float(np.sum(np.log(others[seen].sum(axis=1)) - np.log(own)))
    return right, loss


def _shares_of_others(
    codes: NDArray[np.intp], places: NDArray[np.intp], n_answers: int
) -> Iterator[tuple[NDArray[np.intp], FloatArray]]:
    """Yield rows and the number of answers among the other people with the same value, (rows, n_answers).

    The shares of the answers among all people count as one person more.
    """
    counted = places >= 0
    prior = np.bincount(places[counted], minlength=n_answers) / (len(places) + 1.0)
    order = np.argsort(codes, kind="stable")
    step = max(1, _LOOKUP_NUMBERS // n_answers)
    start = 0
    while start < len(order):
        # Whole groups at a time, so that the counts of a group are complete.
        stop = min(start + step, len(order))
        while stop < len(order) and codes[order[stop]] == codes[order[stop - 1]]:
            stop += 1
        rows = order[start:stop]
        groups = np.unique(codes[rows], return_inverse=True)[1]
        seen = counted[rows]
        table = np.zeros((groups.max() + 1, n_answers))
        np.add.at(table, (groups[seen], places[rows[seen]]), 1.0)
        others = table[groups] + prior
        others[np.flatnonzero(seen), places[rows[seen]]] -= 1.0
        yield rows, others
        start = stop


def _neighbour_hits(known: KnownColumns, truth: NDArray[np.intp]) -> dict[str, BoolArray]:
    """Return whether the answer of the nearest other person, or of most of the nearest five, is right."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    parts = []
    if not known.is_category.all():
        parts.append(StandardScaler().fit_transform(known.values[:, ~known.is_category]))
    if known.is_category.any():
        encoder = OneHotEncoder(max_categories=30, sparse_output=False)
        parts.append(encoder.fit_transform(known.values[:, known.is_category]))
    features = np.hstack(parts)[:, : 2 * _MOST_FOR_TREES]
    n_near = min(5, len(truth) - 1)
    near = NearestNeighbors(n_neighbors=n_near).fit(features).kneighbors(return_distance=False)
    answers = np.unique(truth, return_inverse=True)[1][near]
    votes = np.zeros((len(truth), answers.max() + 1))
    # The nearer decides where votes are equal.
    for place in range(n_near):
        votes[np.arange(len(truth)), answers[:, place]] += 1.0 - 0.01 * place
    own = np.unique(truth, return_inverse=True)[1]
    return {
        "nearest person": answers[:, 0] == own,
        "nearest people": votes.argmax(axis=1) == own,
    }


def _telling(values: FloatArray, truth: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the columns whose means differ most between the answers."""
    from sklearn.feature_selection import f_classif

    scores = np.nan_to_num(f_classif(values, truth)[0], nan=0.0, posinf=np.finfo(float).max)
    return np.sort(np.argsort(-scores, kind="stable")[:_MOST_FOR_TREES])


def _shares_beside(
    shared: NDArray[np.intp],
    truth: NDArray[np.intp],
    others: NDArray[np.intp],
    answers: NDArray[np.intp],
) -> FloatArray:
    """Return the shares of the answers among the other people with the same value of a column.

    People who train a predictor are dealt to five parts, and the own part is left out: their own answer
    is in no share that is told to the predictor. Only the column that guesses best is kept, and only if
    it guesses clearly better than the most common answer.
    """
    is_answer = (truth[others, None] == answers).astype(np.float64)
    prior = is_answer.mean(axis=0)
    part = np.arange(len(others)) % _PARTS
    best = prior.max() + 3.0 * np.sqrt(prior.max() * (1.0 - prior.max()) / len(others))
    found = np.empty((len(truth), 0))
    for codes in shared.T:
        sums = np.zeros((_PARTS, codes.max() + 1, len(answers)))
        np.add.at(sums, (part, codes[others]), is_answer)
        total = sums.sum(axis=0)
        counts = total[codes]
        counts[others] -= sums[part, codes[others]]
        shares = (counts + prior) / (counts.sum(axis=1, keepdims=True) + 1.0)
        rate = np.mean(answers[shares[others].argmax(axis=1)] == truth[others])
        if rate > best:
            best, found = rate, shares
    return found


def _predictor(name: Predictor, is_category: BoolArray, *, n_answers: int) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    if name == "forest":
        return ExtraTreesClassifier(
            n_estimators=20, max_features=None, min_samples_leaf=3, random_state=0
        )
    if name == "linear model":
        return make_pipeline(
            make_column_transformer(
                (
                    OneHotEncoder(handle_unknown="ignore", max_categories=30, sparse_output=False),
                    np.flatnonzero(is_category),
                ),
                (StandardScaler(), np.flatnonzero(~is_category)),
            ),
            LogisticRegression(max_iter=100, tol=1e-3),
        )
    trees = max(10, min(60, _TREES // (1 if n_answers == 2 else n_answers)))
    boosted = HistGradientBoostingClassifier(
        max_iter=trees,
        learning_rate=min(0.3, 8.0 / trees),
        max_leaf_nodes=15,
        categorical_features=is_category,
        early_stopping=False,
        random_state=0,
    )
    # Rare categories are one: boosted trees take no more than 255.
    most = np.where(is_category, float(_MOST_CATEGORIES), np.inf)
    return make_pipeline(
        FunctionTransformer(np.clip, kw_args={"a_min": None, "a_max": most}), boosted
    )
