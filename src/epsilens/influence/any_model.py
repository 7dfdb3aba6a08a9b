# SPDX-License-Identifier: Apache-2.0
"""Any scikit-learn estimator as the model of a study: it is trained again, as a whole, and asked to predict.

Nothing is known of such a model but what it predicts. A pipeline is trained again with all its steps, so
transformers that look at the label are allowed.
"""

from __future__ import annotations

import hashlib
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import Parameter, isclass, isfunction, signature
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import ThreadpoolController

from epsilens._types import FloatArray
from epsilens.data.frames import to_vector
from epsilens.document import Baseline as BaselineNumbers
from epsilens.errors import (
    ApproximationWarning,
    EstimateNotTrustworthyError,
    InputError,
    InputTypeError,
    setting,
)
from epsilens.influence.baseline import BaselineModel, as_weights
from epsilens.influence.evaluation import Outcomes, areas_of, contrast_weights
from epsilens.influence.withheld import without_output
from epsilens.models.label import Label, encode_test_label, read_label
from epsilens.models.scikit_learn import (
    final_step,
    fresh_copy,
    refuse_class_or_search,
    refuse_learnt,
)
from epsilens.models.tables import require_records
from epsilens.models.torch_network import TorchNetwork
from epsilens.notes import Note

_T = TypeVar("_T")

SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
"""A smaller predicted probability counts as this in the loss, as in scikit-learn's `log_loss`."""
_ROWS_TRIED = 300
"""Training rows on which it is tried whether a model is deterministic."""
_LARGEST_DIFFERENCE = 1e-6
_ROUNDING = 1e-3
"""Probabilities in single precision add up to 1 as well as this."""
_ONE_THREAD = frozenset({"n_jobs", "thread_count", "nthread", "num_threads"})
_SEEDS = frozenset({"random_state", "random_seed"})
# The number of OpenMP threads belongs to the thread that asks. Looking for the libraries takes milliseconds, so it
# is done once, when the library of the first estimator is loaded.
_openmp = cache(ThreadpoolController)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def check_any_estimator(estimator: object) -> BaseEstimator:
    """Return a fresh copy of an estimator that can be trained again and asked to predict.

    Raises
    ------
    InputTypeError
        If it is a class or a search, cannot be cloned, lacks the model inside it, predicts several labels, is
        no classifier and no regressor, or is a classifier without probabilities.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> check_any_estimator(KMeans())
    Traceback (most recent call last):
    ...
    epsilens.errors.InputTypeError: `estimator` must be a classifier or a regressor, got KMeans.
    """
    refuse_class_or_search(estimator)
    kind = type(estimator).__name__
    try:
        copy = fresh_copy(estimator)
    except (TypeError, RuntimeError, ValueError, AttributeError):
        raise InputTypeError(
            argument="estimator",
            expected="an estimator that sklearn.base.clone can copy",
            got=kind,
            hint="Store constructor arguments unchanged under their own names.",
        ) from None
    try:
        tags = get_tags(copy)
    except (
        AttributeError,
        TypeError,
        ValueError,
    ):  # scikit-learn asks the model inside, and there is none
        raise InputTypeError(
            argument="estimator",
            expected="a complete estimator",
            got=f"{kind} without a model inside",
            hint=f"Write {kind}(LogisticRegression()), or with another model.",
        ) from None
    if not tags.target_tags.single_output:
        raise InputTypeError(
            argument="estimator",
            expected="a model of one label",
            got=f"{type(final_step(copy)).__name__}, which predicts several",
            hint="Give the model of a single label.",
        )
    refuse_learnt(estimator, copy)
    if is_classifier(copy):
        if not _has_probabilities(copy):
            last = final_step(copy)
            name = type(last).__name__
            raise InputTypeError(
                argument="estimator",
                expected="a classifier with predict_proba",
                got=name,
                hint=_hint_for_probabilities(last),
            )
    elif not is_regressor(copy):
        raise InputTypeError(argument="estimator", expected="a classifier or a regressor", got=kind)
    return copy


def _has_probabilities(estimator: BaseEstimator) -> bool:
    """Return whether a classifier will predict probabilities once it is fitted."""
    last = final_step(estimator)
    # Its final model is logistic regression unless another is given, which shows after the fit only.
    if isinstance(last, StackingClassifier) and last.final_estimator is None:
        return True
    return hasattr(estimator, "predict_proba")


def _hint_for_probabilities(classifier: BaseEstimator) -> str:
    """Say how a classifier gets probabilities."""
    name = type(classifier).__name__
    if isinstance(classifier, VotingClassifier):
        return "Set voting='soft'."
    if not hasattr(classifier, "decision_function"):
        return "Choose another model."
    needed = any(
        parameter.default is Parameter.empty and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
        for parameter in signature(type(classifier)).parameters.values()
    )
    return f"Write CalibratedClassifierCV({name}({'...' if needed else ''}))."


def _withheld(doing: str, estimator: object, work: Callable[[], _T]) -> _T:
    """Do what other libraries do, on one core, and keep back what they print and say: both may quote data."""
    try:
        with without_output(), _openmp().limit(limits=1, user_api="openmp"):
            return work()
    except (InputError, EstimateNotTrustworthyError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and type(error) is not SystemExit:
            raise  # our own command was told to end
        kind = type(error).__name__
    # Raised here, so that it does not carry the other error with it.
    raise InputError(
        f"could not {doing} {type(final_step(estimator)).__name__} ({kind}; its text is withheld because it may quote "
        "data). Expected columns that the model can be trained on; text needs an encoder in front of the model, in a "
        "Pipeline."
    )


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class AnyModel:
    """An estimator, the records it is trained on, and what its predictions of the test set are worth.

    Attributes
    ----------
    estimator : BaseEstimator
        Not fitted. Every training fits a copy.
    label : Label
    y_test : array of shape (m,)
        The class for a classifier, the target for a regressor.
    test_weights : array of shape (m,)
        Sum to 1.
    sample_weight : array of shape (n,) or None
        Weights of the training records.
    table, test_table : frame or array
        The records.
    is_classifier : bool
    takes_codes : bool
        Whether the estimator is given the numbers of the classes, because it refuses the classes themselves.
    outcomes : Outcomes
        On the test set, of the model of the true answers.
    predicted : array of shape (m, K) or (m, 1)
        Predictions of that model.
    seconds_per_fit : float
        Of a training on one core.
    reason : str
        Why there is no exact answer for this model.
    notes : tuple of Note
    """

    estimator: BaseEstimator
    label: Label
    y_test: FloatArray
    test_weights: FloatArray
    sample_weight: FloatArray | None
    table: Any
    test_table: Any
    is_classifier: bool
    takes_codes: bool
    outcomes: Outcomes
    predicted: FloatArray
    seconds_per_fit: float
    reason: str
    notes: tuple[Note, ...] = ()
    transformers: None = None
    is_streamed: ClassVar[bool] = False

    @property
    def n_rows(self) -> int:
        """Number of training records."""
        return len(self.label.y)

    @property
    def n_test_rows(self) -> int:
        """Number of test records."""
        return len(self.y_test)

    @property
    def loss_name(self) -> str:
        """Name of the loss: log loss of a classifier, squared error of a regressor."""
        return "log" if self.is_classifier else "squared"

    def content(self) -> bytes:
        """Return a digest of all records, for a checkpoint to know whose runs it keeps."""
        return content_digest(
            self.table,
            self.test_table,
            self.label.y,
            self.y_test,
            self.sample_weight,
            self.test_weights,
        )

    @property
    def has_own_randomness(self) -> bool:
        """Whether the estimator draws random numbers that no seed of the user fixes."""
        return any(_is_free(value) for value in seeds_of(self.estimator).values())

    def numbers(self) -> BaselineNumbers:
        """Return what a document says of the model before anything is randomised."""
        return BaselineNumbers(
            loss=self.outcomes.loss,
            accuracy=self.outcomes.accuracy,
            auc=self.outcomes.auc,
            n_train=self.n_rows,
            n_test=self.n_test_rows,
            n_parameters=None,
        )

    def for_question(self, label: Label, groups: Sequence[Any]) -> Self:
        """Return the model with the label's domain that a question asks about."""
        return replace(self, label=label)

    def train(
        self,
        y: FloatArray | NDArray[np.int64],
        *,
        seed: int,
        table: object | None = None,
        rows: NDArray[np.intp] | None = None,
    ) -> BaseEstimator:
        """Train a copy of the estimator.

        Parameters
        ----------
        y : array of shape (n,)
            The class of every record as a number, or the target of a regression.
        seed : int
            Seed of the model's own random numbers, where the user has fixed none.
        table : frame or array, optional
            The records with other answers in protected columns. None: as they are.
        rows : array of int, optional
            The records to train on. None: all.
        """
        X = self.table if table is None else table
        weights = self.sample_weight
        if rows is not None:
            X, y = take_rows(X, rows), y[rows]
            weights = None if weights is None else weights[rows]
        target: NDArray[Any] = np.asarray(y)
        if self.is_classifier:
            codes = target.astype(np.int64)
            if np.ptp(codes) == 0:
                raise EstimateNotTrustworthyError(
                    "a randomised run has records of one class only, and no model: the data are too few for "
                    "this epsilon."
                )
            target = codes if self.takes_codes else np.asarray(self.label.categories)[codes]
            if self.takes_codes:
                # A class of which no record is left must not leave a gap between the numbers.
                present, target = np.unique(codes, return_inverse=True)
                trained = fit_copy(self.estimator, X, target, weights, seed)
                return Renumbered(trained, present)
        return fit_copy(self.estimator, X, target, weights, seed)

    def predict(self, model: BaseEstimator, table: object | None = None) -> FloatArray:
        """Return the probabilities of the classes, (m, K), or the predictions of a regressor, (m, 1).

        Parameters
        ----------
        model : BaseEstimator
            Trained by `train`.
        table : frame or array, optional
            None: the test records.
        """
        X = self.test_table if table is None else table
        name = type(final_step(model)).__name__

        def predicted() -> tuple[FloatArray, list[Any]]:
            raw = model.predict_proba(X) if self.is_classifier else model.predict(X)
            found = np.asarray(raw, dtype=np.float64)
            # Strange shapes, as of a classifier of several outputs, fail here.
            found = found.reshape(len(found), -1)
            return found, np.asarray(model.classes_).tolist() if self.is_classifier else [None]

        found, classes = _withheld("predict with", model, predicted)
        n_rows = _n_rows(X)
        if len(found) != n_rows:
            raise InputError(
                f"{name} must predict as many records as it is given, {n_rows}, got {len(found)}. Choose another "
                "model."
            )
        if found.shape[1] != len(classes):
            raise InputError(
                f"{name} must predict {'one probability for each class' if self.is_classifier else 'one number'} a "
                f"record, got {found.shape[1]} numbers. Choose another model."
            )
        if not np.isfinite(found).all():
            raise InputError(
                f"{name} predicts values that are no numbers. Scale the features, or choose another model."
            )
        if not self.is_classifier:
            return found
        is_share = (found >= -_ROUNDING).all() and (
            np.abs(found.sum(axis=1) - 1.0) < _ROUNDING
        ).all()
        if not is_share:
            raise InputError(
                f"the probabilities of {name} must lie between 0 and 1 and add up to 1, and they do not. Choose another "
                "model."
            )
        known = list(range(self.label.n_classes)) if self.takes_codes else self.label.categories
        order = {value: place for place, value in enumerate(known or ())}
        if not set(classes) <= set(order):
            raise InputError(
                f"the `classes_` of {name} must be those of the labels that it was trained on. Set them in `fit`."
            )
        result = np.zeros((len(found), self.label.n_classes))
        # A class of which no randomised record was left has probability 0.
        result[:, [order[value] for value in classes]] = found
        return result

    def outcomes_for(self, members: Any) -> Outcomes:
        """Return the outcomes of the model of the true answers, with the gaps of a group of test records."""
        return self.outcomes_of(self.predicted, members)

    def outcomes_of(self, predicted: FloatArray, members: Any = None) -> Outcomes:
        """Return loss, accuracy and AUC of predictions of the test set, and the gaps of a group.

        Parameters
        ----------
        predicted : array of shape (m, K) or (m, 1)
        members : array of bool, shape (m,), optional
            The group among the test records.
        """
        contrast = contrast_weights(self.test_weights, members)
        if not self.is_classifier:
            losses = (predicted[:, 0] - self.y_test) ** 2
            gap = None if contrast is None else float(contrast @ losses)
            return Outcomes(float(self.test_weights @ losses), None, None, gap, None)
        y = self.y_test.astype(np.intp)
        log_chances = np.log(np.maximum(predicted, SMALLEST_PROBABILITY))
        losses = -log_chances[np.arange(len(y)), y]
        right = (predicted.argmax(axis=1) == y).astype(np.float64)
        scores = log_chances
        if predicted.shape[1] == 2:
            scores = log_chances[:, 1:] - log_chances[:, :1]
        areas = areas_of(scores[:, :, None], self.y_test, self.test_weights)
        return Outcomes(
            loss=float(self.test_weights @ losses),
            accuracy=float(self.test_weights @ right),
            auc=None if areas is None else float(areas[0]),
            loss_gap=None if contrast is None else float(contrast @ losses),
            accuracy_gap=None if contrast is None else float(contrast @ right),
        )


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings while models are trained: hundreds would say the same, and the first fit has said it.

    For the main thread alone: filters belong to the whole process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def seeds_of(estimator: BaseEstimator) -> dict[str, object]:
    """Return the seeds among an estimator's parameters, by name; those of its steps too.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> seeds_of(RandomForestClassifier())
    {'random_state': None}
    """
    parameters = estimator.get_params(deep=True)
    return {name: value for name, value in parameters.items() if name.split("__")[-1] in _SEEDS}


def _is_free(seed: object) -> bool:
    """Return whether the value of a seed leaves the random numbers free.

    TargetEncoder of scikit-learn 1.9 has "deprecated" there, and draws its folds by a seed all the same.
    """
    return seed is None or isinstance(seed, str)


def fit_copy(
    estimator: BaseEstimator,
    X: object,
    y: NDArray[Any],
    weights: FloatArray | None,
    seed: int,
) -> BaseEstimator:
    """Train a copy on one core, with a seed where the user has fixed none."""
    model = fresh_copy(estimator)
    parameters = model.get_params(deep=True)
    # A frozen step is its own copy, and scikit-learn writes to every step of a pipeline while it is trained: threads
    # must not share one. What is frozen stays the same object.
    for name, value in parameters.items():
        if isinstance(value, FrozenEstimator):
            model.set_params(**{name: FrozenEstimator(value.estimator)})
    chosen: dict[str, object] = {
        name: 1
        for name, value in parameters.items()
        if name.split("__")[-1] in _ONE_THREAD and value != 1
    }
    chosen |= {name: seed for name, value in seeds_of(model).items() if _is_free(value)}
    given: dict[str, object] = {}
    if weights is not None:
        prefix, step = "", model
        while isinstance(step, Pipeline):
            prefix, step = f"{prefix}{step.steps[-1][0]}__", step.steps[-1][1]
        given[f"{prefix}sample_weight"] = weights

    def trained() -> BaseEstimator:
        model.set_params(**chosen)
        fitted: BaseEstimator = model.fit(X, y, **given)
        return fitted

    return _withheld("train", estimator, trained)


@dataclass(frozen=True)
class Renumbered:
    """A classifier that was trained on the numbers of the classes that occur.

    Attributes
    ----------
    model : BaseEstimator
    classes_ : array of int
        The classes as the label numbers them.
    """

    model: BaseEstimator
    classes_: NDArray[np.int64]

    def predict_proba(self, X: object) -> Any:
        """Return the probability of every class that occurs."""
        return self.model.predict_proba(X)


def take_rows(table: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of a frame, an array or a sparse matrix."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if scipy.sparse.issparse(table):
        return table.tocsr()[rows]
    return table[rows]


def settings_digest(estimator: BaseEstimator) -> str:
    """Return a digest of all parameters of an estimator, which is the same in another process.

    The parameters themselves may hold values of the data.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> one, other = DecisionTreeClassifier(max_depth=2), DecisionTreeClassifier(max_depth=3)
    >>> settings_digest(one) == settings_digest(one), settings_digest(one) == settings_digest(other)
    (True, False)
    """
    digest = hashlib.sha256(type(estimator).__qualname__.encode())
    for name, value in sorted(estimator.get_params(deep=True).items()):
        digest.update(f"{name}\x00{_written(value)}\x00".encode())
    return digest.hexdigest()


def _written(value: Any) -> str:
    """Write a parameter without the address of any object."""
    if isfunction(value) or isclass(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, partial):
        return _written([value.func, value.args, value.keywords])
    if isinstance(value, dict):
        return _written(list(value.items()))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, np.random.RandomState):
        return _written(value.get_state(legacy=False))
    if isinstance(value, np.random.Generator):
        return _written(value.bit_generator.state)
    if hasattr(value, "get_params"):
        # Its own parameters are listed by themselves.
        return type(value).__qualname__
    return _ADDRESS.sub("", repr(value))


def content_digest(*parts: object) -> bytes:
    """Return a digest of tables and columns, which is the same in another process."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"\x00")
        if part is None:
            continue
        if scipy.sparse.issparse(part):
            rows: Any = scipy.sparse.csr_array(part)
            arrays = [rows.data, rows.indices, rows.indptr]
        else:
            arrays = [_row_hashes(part)]
        for array in arrays:
            digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.digest()


def _row_hashes(part: Any) -> NDArray[Any]:
    """Return numbers themselves, or a hash of every row."""
    import narwhals as nw
    import pandas as pd

    if isinstance(part, np.ndarray) and part.dtype != object:
        return part
    if isinstance(part, np.ndarray):
        frame = pd.DataFrame(part)
    else:
        frame = nw.from_native(part, eager_only=True, allow_series=True).to_pandas()
    try:
        return pd.util.hash_pandas_object(frame, index=False).to_numpy()
    except TypeError:  # cells that cannot be hashed, such as lists
        return pd.util.hash_pandas_object(frame.astype(str), index=False).to_numpy()


def fit_any_model(
    estimator: object,
    X: object,
    y: object,
    X_test: object,
    y_test: object,
    *,
    sample_weight: object | None,
    sample_weight_test: object | None,
    reason: str,
    label: Label | None = None,
    seed: int = 0,
) -> AnyModel:
    """Train an estimator as it is and evaluate it; see `WhatIf.fit` for the parameters.

    Parameters
    ----------
    reason : str
        Why there is no exact answer for the model.
    label : Label, optional
        The training labels, where they have been read already.
    seed : int
        Seed of the model's own random numbers.
    """
    fresh = check_any_estimator(estimator)
    require_records(X, what="training")
    require_records(X_test, what="test")
    of_classes = bool(is_classifier(fresh))
    if label is None:
        label = read_label(y, is_classifier=of_classes, classes=None)
    n_rows, n_test = _n_rows(X), _n_rows(X_test)
    if len(label.y) != n_rows:
        raise InputError(
            f"{setting('y')} must have one label per training row ({n_rows}), got {len(label.y)}."
        )
    encoded = encode_test_label(y_test, label, is_classifier=of_classes, n_rows=n_test)
    weights = None
    if sample_weight is not None:
        weights = as_weights(sample_weight, name="sample_weight", n_rows=n_rows)
        last = final_step(fresh)
        if not has_fit_parameter(last, "sample_weight"):
            raise InputError(
                f"{type(last).__name__} takes no weights, got {setting('sample_weight')}. Leave it out, or choose "
                "another model."
            )
    test_weights = as_weights(sample_weight_test, name="sample_weight_test", n_rows=n_test)
    model = AnyModel(
        estimator=fresh,
        label=label,
        y_test=encoded,
        test_weights=test_weights / test_weights.sum(),
        sample_weight=weights,
        table=X,
        test_table=X_test,
        is_classifier=of_classes,
        takes_codes=False,
        outcomes=Outcomes(float("nan"), None, None),
        predicted=np.empty((0, 0)),
        seconds_per_fit=0.0,
        reason=reason,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.perf_counter()
        try:
            trained = model.train(label.y, seed=seed)
        except InputError:
            # XGBoost takes numbers from 0 on in place of the classes.
            if not of_classes or label.categories == tuple(range(label.n_classes)):
                raise
            model, started = replace(model, takes_codes=True), time.perf_counter()
            trained = model.train(label.y, seed=seed)
        if of_classes and not hasattr(trained, "predict_proba"):
            # Some know it only once they are fitted.
            last = final_step(trained)
            raise InputTypeError(
                argument="estimator",
                expected="a classifier with predict_proba",
                got=type(last).__name__,
                hint=_hint_for_probabilities(last),
            )
        predicted = model.predict(trained)
        seconds = time.perf_counter() - started
        is_same = _is_deterministic(model)
    is_converged = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
    notes = [*_notes_of(model, predicted, is_deterministic=is_same, is_converged=is_converged)]
    return replace(
        model,
        outcomes=model.outcomes_of(predicted),
        predicted=predicted,
        seconds_per_fit=seconds,
        notes=tuple(notes),
    )


def any_model_of(baseline: BaselineModel, estimator: object) -> AnyModel:
    """Return the model of a study of a linear model, to be trained again as a whole."""
    label, tested = baseline.label, baseline.evaluation.y
    # As they were given: a constant weight is one, beside a penalty.
    weights = baseline.sample_weights / baseline.weight_unit
    return fit_any_model(
        estimator,
        baseline.table,
        None,
        baseline.test_table,
        np.asarray(label.categories)[tested.astype(np.intp)] if label.n_classes else tested,
        sample_weight=None if np.allclose(weights, 1.0, atol=1e-12) else weights,
        sample_weight_test=baseline.evaluation.weights,
        reason="",
        label=label,
    )


def _n_rows(table: object) -> int:
    shape = getattr(table, "shape", None)
    return int(shape[0]) if shape is not None else len(to_vector(table))


def _notes_of(
    model: AnyModel, predicted: FloatArray, *, is_deterministic: bool, is_converged: bool
) -> Iterator[Note]:
    """Yield what must be known of a model that is trained again."""
    if model.is_classifier:
        own = predicted[np.arange(len(predicted)), model.y_test.astype(np.intp)]
        n_impossible = int(np.sum(own <= SMALLEST_PROBABILITY))
        if n_impossible:
            yield Note(
                "zero-probabilities",
                f"the model gives probability 0 to {n_impossible} of {len(own)} test answers that occur. Each "
                f"counts as {-np.log(SMALLEST_PROBABILITY):.0f} nats in the loss: look at the accuracy.",
            )
    if not is_deterministic:
        note = Note(
            "not-deterministic",
            f"{type(final_step(model.estimator)).__name__} is not deterministic: trained twice with the same seed it "
            "predicts differently. Its own randomness is part of every interval.",
        )
        note.warn(ApproximationWarning, stacklevel=5)
        yield note
    network = final_step(model.estimator)
    if isinstance(network, TorchNetwork):
        if network.train is not None:
            yield Note(
                "own-training",
                "the network is trained by a function of your own. Nothing checks that it draws all weights anew. If it "
                "keeps weights that have seen the true answers, ε protects nothing.",
            )
        elif network.public_state:
            yield Note(
                "state-public",
                f"parts of the network are kept and were declared public: {', '.join(network.public_state)}. Nothing "
                "here checks that. If they were made from the true answers, ε protects nothing.",
            )
    if not is_converged:
        yield Note(
            "training-not-converged",
            "the training stops before it converges, as the model's own warning says. Every training here "
            "stops in the same way.",
        )


def _few_rows(model: AnyModel) -> NDArray[np.intp]:
    """Return some training rows, of every class if there are classes."""
    order = np.random.default_rng(0).permutation(model.n_rows)
    if not model.is_classifier:
        return order[:_ROWS_TRIED]
    share = max(10, _ROWS_TRIED // model.label.n_classes)
    codes = model.label.y[order]
    parts = [order[codes == code][:share] for code in range(model.label.n_classes)]
    return np.sort(np.concatenate(parts))


def _is_deterministic(model: AnyModel) -> bool:
    """Return whether two trainings on a few rows with one seed predict the same; True if none is possible."""
    rows = _few_rows(model)
    table = take_rows(model.table, rows)
    try:
        one, other = (
            model.predict(model.train(model.label.y, seed=1, rows=rows), table) for _ in range(2)
        )
    except (InputError, EstimateNotTrustworthyError):
        return True  # too few rows for this model
    difference = float(np.abs(one - other).max())
    return difference <= _LARGEST_DIFFERENCE * (1.0 + float(np.abs(one).max()))
