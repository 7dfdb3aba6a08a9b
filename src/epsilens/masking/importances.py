# SPDX-License-Identifier: Apache-2.0
"""Feature importances for a task: the positive part of the mean attribution, class by class (P5 IV-C)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_choice, as_count, as_finite, require_extra
from epsilens.errors import InputError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from epsilens.masking.records import PersonRecords


# --- How much each feature speaks for a record's own class: by SHAP and by LIME, the libraries ---

Explainer: TypeAlias = Literal["shap", "lime"]
Step: TypeAlias = Callable[[int], bool]
"""Called with the number of records that are explained; says whether to go on."""

_BATCH = 256
_BACKGROUND = 50
"""Records that stand for a hidden feature where the model is no linear one."""
_FEWEST_SAMPLES = 1_000
_FEW_VALUES = 2


def shap_attributions(
    model: BaseEstimator,
    X: FloatArray,
    classes: NDArray[np.intp],
    *,
    background: FloatArray,
    order: NDArray[np.intp],
    random_state: int,
    step: Step,
) -> FloatArray:
    """Return what each feature adds to the score of a record's own class, by SHAP.

    Parameters
    ----------
    model : scikit-learn classifier
        Linear ones are explained exactly, on the scale of the logit; others on that of the
        probability, by sampling permutations of the features.
    X : array of shape (n, p)
        The records that are explained.
    classes : array of int, (n,)
        Which column of the model's output is the record's own.
    background : array of shape (m, p)
        What a hidden feature is replaced by.
    order : array of int, (n,)
        The order in which records are explained.
    random_state : int
    step : callable

    Returns
    -------
    array of shape (n, p)
        NaN for records that were not reached.
    """
    require_extra("explain", "explaining a model by SHAP", "shap")
    import shap

    if _is_linear(model, background):
        masker = shap.maskers.Independent(background, max_samples=len(background))
        explain = shap.LinearExplainer((np.array(model.coef_), np.array(model.intercept_)), masker)
        values_of = explain.shap_values
    else:
        masker = shap.maskers.Independent(background, max_samples=_BACKGROUND)
        sampled = shap.PermutationExplainer(model.predict_proba, masker, seed=random_state)

        def values_of(rows: FloatArray) -> FloatArray:
            found = sampled(rows, max_evals=2 * rows.shape[1] + 1, silent=True)
            return np.asarray(found.values, dtype=np.float64)

    result = np.full(X.shape, np.nan)
    for first in range(0, len(X), _BATCH):
        rows = order[first : first + _BATCH]
        result[rows] = _own_class(np.asarray(values_of(X[rows])), classes[rows])
        if not step(min(first + _BATCH, len(X))):
            break
    return result


def lime_attributions(
    model: BaseEstimator,
    X: FloatArray,
    classes: NDArray[np.intp],
    *,
    background: FloatArray,
    order: NDArray[np.intp],
    random_state: int,
    step: Step,
) -> FloatArray:
    """Return what each feature adds to the probability of a record's own class, by LIME.

    Around every record a linear model is fitted to what the classifier says of disturbed copies. A feature
    of many values is present in a copy if it stays within its quartile, one of two values if it is
    the same; its weight is what its presence adds. LIME is noisy: the same question asked again with
    another seed gives other numbers.

    Parameters
    ----------
    model, X, classes, background, order, random_state, step
        As in `shap_attributions`.

    Returns
    -------
    array of shape (n, p)
    """
    require_extra("explain", "explaining a model by LIME", "lime")
    from lime import lime_tabular

    two_valued = [j for j in range(X.shape[1]) if len(np.unique(background[:, j])) <= _FEW_VALUES]
    explain = lime_tabular.LimeTabularExplainer(
        background,
        mode="classification",
        categorical_features=two_valued,
        feature_selection="none",
        random_state=random_state,
    )
    n_samples = max(_FEWEST_SAMPLES, 2 * X.shape[1])
    result = np.full(X.shape, np.nan)
    for done, i in enumerate(order, start=1):
        own = int(classes[i])
        found = explain.explain_instance(
            X[i],
            model.predict_proba,
            labels=(own,),
            num_features=X.shape[1],
            num_samples=n_samples,
        )
        places, weights = zip(*found.local_exp[own], strict=True)
        result[i] = 0.0
        result[i, list(places)] = weights
        if not step(done):
            break
    return result


def _is_linear(model: BaseEstimator, rows: FloatArray) -> bool:
    """Say whether a model's scores are its coefficients times the features, a row for each class.

    Asked, not believed: a support vector machine has a row for each pair of classes, and of three classes
    there are as many pairs.
    """
    if not all(hasattr(model, name) for name in ("coef_", "intercept_", "decision_function")):
        return False
    weights, n_classes = np.asarray(model.coef_), len(model.classes_)
    if weights.ndim != 2 or len(weights) != (1 if n_classes == 2 else n_classes):
        return False
    asked = rows[:_BATCH]
    expected = asked @ weights.T + np.asarray(model.intercept_)
    scores = np.asarray(model.decision_function(asked)).reshape(len(asked), -1)
    return scores.shape == expected.shape and bool(np.allclose(scores, expected))


def _own_class(values: FloatArray, classes: NDArray[np.intp]) -> FloatArray:
    """Take each record's own class from (n, p, classes), or from (n, p) of the second of two."""
    if values.ndim == 2:
        return np.asarray(np.where(classes[:, None] == 1, values, -values))
    if values.shape[2] == 1:
        return _own_class(values[:, :, 0], classes)
    return np.asarray(np.take_along_axis(values, classes[:, None, None], axis=2)[:, :, 0])


# --- Feature importances for a task: the positive part of the mean attribution, class by class (P5 IV-C) ---

EXPLAINERS: tuple[Explainer, ...] = ("shap", "lime")
MAX_ROWS: dict[str, int] = {"shap": 2_000, "lime": 200}
"""Records that are explained unless told otherwise: SHAP of a linear model takes a batch at a time."""
FEWEST_EXPLAINED = 30
"""With fewer records a mean attribution and its error say little: then that is said."""
STANDARD_ERRORS = 3.0
"""What a mean attribution must exceed 0 by to count: about one feature in a thousand does by chance."""


@dataclass(frozen=True, eq=False)
class TaskImportances:
    """How much each feature speaks for the right class, for every class of a task.

    Attributes
    ----------
    by_class : array of shape (n_classes, n_features)
        Positive part of the mean attribution over the class's records: P5's S_z and U_y.
    shares : array of shape (n_classes,)
        Each class's share of the records.
    classes : array of shape (n_classes,)
        The values of the label, in the order of the rows above.
    explainer : {"shap", "lime"}
    n_explained : int
        How many records were explained.
    seconds : float
    """

    by_class: FloatArray
    shares: FloatArray
    classes: NDArray[np.generic]
    explainer: Explainer
    n_explained: int
    seconds: float

    @property
    def overall(self) -> FloatArray:
        """Importance over all classes, weighted by their shares, (n_features,)."""
        return np.asarray(self.shares @ self.by_class)

    def __repr__(self) -> str:
        """Return what names nobody: classes may be people."""
        return (
            f"TaskImportances({len(self.classes)} classes, {self.by_class.shape[1]} features, "
            f"{self.n_explained} records explained by {self.explainer})"
        )


def explain_task(
    model: BaseEstimator,
    X: FloatArray,
    y: NDArray[np.generic],
    *,
    explainer: Explainer = "shap",
    background: FloatArray | None = None,
    sources: NDArray[np.intp] | None = None,
    n_features: int | None = None,
    max_rows: int | None = None,
    standard_errors: float = STANDARD_ERRORS,
    random_state: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
    what: str = "explaining the task",
) -> TaskImportances:
    """Explain a fitted classifier: say which features speak for the right class.

    Records are drawn from every class alike, and each is explained for its own class. What a feature
    adds on average over a class, if it adds, is its importance for that class.

    Parameters
    ----------
    model : fitted scikit-learn classifier with `predict_proba`
    X : array of shape (n, p)
        Records that the model was not trained on, or public ones, tell more than its own.
    y : array of shape (n,)
        Their classes; those that the model does not know are left out.
    explainer : {"shap", "lime"}
    background : array of shape (m, p), optional
        What a hidden feature is replaced by; X unless given.
    sources : array of int, (p,), optional
        Which feature each column of X belongs to, such as the columns of one category; attributions
        are summed over them. Each column is a feature unless given.
    n_features : int, optional
        How many features there are, where `sources` need not name the last ones; columns of higher
        numbers are left out.
    max_rows : int, optional
        At most so many records are explained; 2,000 for SHAP and 200 for LIME unless given.
    standard_errors : float ≥ 0
        A feature whose attribution, averaged over all explained records, is not above 0 by so many of
        its standard errors has no importance, unless all such features together are above it. 0: P5's
        plain positive part.
    random_state : int
        Seed of the draw of records, and of the explainer.
    seconds : float, optional
        Time after which no more than 500 records are explained by SHAP, and 50 by LIME; a random sample.
    progress : callable, optional
        Called with (records done, records in all, what).
    what : str
        For `progress`.

    Returns
    -------
    TaskImportances

    Raises
    ------
    MissingExtraError
        Without the extra `explain`.
    InputError
        If the model knows none of the classes of y.

    Notes
    -----
    P5 Alg. 1, lines 3–7, with the mean over the records of a class. SHAP values of a linear model are
    exact for independent features and on the scale of the logit; those of another model are on the
    scale of the probability. Without a test against noise every feature has some importance by chance,
    and none could be masked at no cost.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> found = explain_task(LogisticRegression().fit(X, y), X, y)
    >>> int(np.argmax(found.overall)), found.classes.tolist()
    (0, ['no', 'yes'])
    """
    as_choice(explainer, EXPLAINERS, name="explainer")
    most = MAX_ROWS[explainer] if max_rows is None else as_count(max_rows, name="max_rows")
    seed = as_count(random_state, name="random_state", least=0)
    started = time.perf_counter()
    known = np.isin(y, model.classes_)
    if not known.any():
        raise InputError(
            "the records to be explained must have classes that the model was trained on, got none "
            "of them. Explain records of the same people and answers."
        )
    X, y = X[known], y[known]
    codes = np.searchsorted(model.classes_, y)
    rows = drawn(codes, most, seed)
    attributions = shap_attributions if explainer == "shap" else lime_attributions
    order = np.arange(len(rows))
    if seconds is not None:
        order = np.random.default_rng(seed).permutation(order)

    def step(done: int) -> bool:
        if progress is not None:
            progress(done, len(rows), what)
        is_enough = done >= MAX_ROWS[explainer] // 4
        return seconds is None or not is_enough or time.perf_counter() - started < seconds

    step(0)
    values = attributions(
        model,
        X[rows],
        codes[rows],
        background=X if background is None else background,
        order=order,
        random_state=seed,
        step=step,
    )
    reached = ~np.isnan(values).all(axis=1)
    rows, values = rows[reached], values[reached]
    if sources is not None:
        total = int(sources.max()) + 1 if n_features is None else n_features
        values = values @ (sources[:, None] == np.arange(total)).astype(np.float64)
    matters = _above_noise(values, max(as_finite(standard_errors, name="standard_errors"), 0.0))
    n_classes = len(model.classes_)
    counts = np.bincount(codes[rows], minlength=n_classes)
    sums = np.zeros((n_classes, values.shape[1]))
    np.add.at(sums, codes[rows], values)
    means = sums / np.maximum(counts, 1)[:, None]
    return TaskImportances(
        by_class=np.where(matters, np.maximum(means, 0.0), 0.0),
        shares=np.bincount(codes, minlength=n_classes) / len(codes),
        classes=np.asarray(model.classes_),
        explainer=explainer,
        n_explained=len(rows),
        seconds=time.perf_counter() - started,
    )


def answer_shares(
    shown: PersonRecords, utility: TaskImportances, people: NDArray[np.generic]
) -> FloatArray:
    """Return the share of every answer among each person's records, (people, answers)."""
    counts = np.array(
        [
            [((shown.who == who) & (shown.y == answer)).sum() for answer in utility.classes]
            for who in people
        ],
        dtype=np.float64,
    )
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1.0), utility.shares)


def _above_noise(values: FloatArray, standard_errors: float) -> BoolArray:
    """Say of each feature whether its mean attribution is above what chance makes of it."""
    if standard_errors == 0.0 or len(values) < 2:
        return np.ones(values.shape[1], dtype=bool)
    root = np.sqrt(len(values))
    clear = values.mean(axis=0) > standard_errors * values.std(axis=0, ddof=1) / root
    together = values[:, ~clear].sum(axis=1)
    if together.mean() > standard_errors * together.std(ddof=1) / root:
        # Many weak features, such as pixels: each is in the noise, and all of them are not.
        return np.ones(values.shape[1], dtype=bool)
    return np.asarray(clear)


def drawn(codes: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """Draw at most so many records, as equally from the classes as they have them."""
    if len(codes) <= most:
        return np.arange(len(codes))
    order = np.random.default_rng(seed).permutation(len(codes))
    place = np.empty(len(codes), dtype=np.intp)
    # The first of every class, then the second of every class, and so on.
    for code in np.unique(codes):
        own = order[codes[order] == code]
        place[own] = np.arange(len(own))
    return np.sort(order[np.argsort(place[order], kind="stable")][:most])
