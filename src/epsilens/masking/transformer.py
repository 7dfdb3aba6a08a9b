# SPDX-License-Identifier: Apache-2.0
"""`FeatureMasker`: a scikit-learn transformer that blanks what identifies and does not serve."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_choice, as_count, as_unit
from epsilens.data.frames import to_vector
from epsilens.errors import InputError, PrivacyLeakWarning, setting
from epsilens.masking.choices import Method, Scope, check_method, choice_by, person_choices
from epsilens.masking.importances import (
    EXPLAINERS,
    STANDARD_ERRORS,
    Explainer,
    TaskImportances,
    answer_shares,
    explain_task,
)
from epsilens.masking.records import (
    Labels,
    PersonRecords,
    checked_people,
    fit_quietly,
    person_codes,
    random_halves,
    refuse_missing,
)
from epsilens.masking.result import TELLS_WHO
from epsilens.models.scikit_learn import fresh_copy
from epsilens.models.tables import checked_input

Replacement: TypeAlias = Literal["zero", "drop"]

_FEWEST_TO_HALVE = 40
"""With fewer records the models are explained on the records that they were trained on."""


class FeatureMasker(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Blank the features that identify people and do not serve the task.

    Learns from records whose answers and persons are known which features recognise people and do
    little for the task, and blanks those in any table of the same features.

    Parameters
    ----------
    estimator, identity_estimator : scikit-learn classifier, optional
        For the task and for recognising people; logistic regressions on standardised features unless
        given.
    alpha : float in [0, 1]
        The share of the identifying importance that must go.
    explainer : {"shap", "lime"}
    scope : {"global", "identity"}
        One mask for everybody; or one for every person beside it, for `transform_published`.
    method : {"knapsack", "top-share", "random"}
        As useful as can be within the limit, the most identifying features, or any (a control).
    share : float in [0, 1]
        Share of the features to mask, for the last two methods.
    replacement : {"zero", "drop"}
        Whether masked features become 0, as in P5, or are left out.
    max_rows : int, optional
        At most so many records are explained; see `explain_task`.
    standard_errors : float
        See `explain_task`; for the task alone, for what recognises one person of many is lost in the
        noise of all.
    random_state : int

    Attributes
    ----------
    kept_ : array of bool, (n_features,)
        True = kept, for everybody.
    utility_, privacy_ : array of shape (n_features,)
        The importances.
    person_masks_ : array of bool, (n_people, n_features)
        With `scope="identity"`, the mask of each of `people_`. **Sensitive.**

    Notes
    -----
    The models are trained on a random half of the records and explained on the other. Fitted on private records
    the mask is a function of them and not private; fit it on public records and transform the private
    ones. It changes no proven guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> who, walks = rng.integers(0, 4, 800), rng.integers(0, 2, 800)
    >>> X = np.column_stack([who + 0.3 * rng.normal(size=800), 2 * walks + rng.normal(size=800)])
    >>> masker = FeatureMasker().fit(X, walks, identity=who)
    >>> masker.kept_
    array([False,  True])
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        identity_estimator: BaseEstimator | None = None,
        alpha: float = 0.2,
        explainer: Explainer = "shap",
        scope: Scope = "global",
        method: Method = "knapsack",
        share: float = 0.3,
        replacement: Replacement = "zero",
        max_rows: int | None = None,
        standard_errors: float = STANDARD_ERRORS,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.identity_estimator = identity_estimator
        self.alpha = alpha
        self.explainer = explainer
        self.scope = scope
        self.method = method
        self.share = share
        self.replacement = replacement
        self.max_rows = max_rows
        self.standard_errors = standard_errors
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, *, identity: ArrayLike | None = None) -> Self:
        """Learn which features to mask.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)
            Numbers.
        y : array of shape (n,)
            The answer of each record.
        identity : array of shape (n,), optional
            Whose record it is. Without it every feature is taken to identify alike, and the least useful
            share α of them goes.
        """
        as_choice(self.explainer, EXPLAINERS, name="explainer")
        check_method(self.scope, self.method)
        as_choice(self.replacement, get_args(Replacement), name="replacement")
        level = as_unit(self.alpha, name="alpha")
        seed = as_count(self.random_state, name="random_state", least=0)
        rows, answers = checked_input(self, X, y, reset=True, is_number=False)
        check_classification_targets(answers)
        if len(np.unique(answers)) < 2:
            raise InputError(
                f"y must have at least two different answers, got one class in {len(rows)} records. "
                "There is nothing to tell apart."
            )
        people = None
        if identity is not None:
            people = to_vector(identity)
            if len(people) != len(rows):
                raise InputError(
                    f"{setting('identity')} must have one value for each of the {len(rows)} "
                    f"records, got {len(people)}."
                )
            refuse_missing(people, name="identity")
            known, (people,) = person_codes(people)
            checked_people(answers, people)
        elif self.scope == "identity":
            raise InputError(
                f'scope="identity" needs {setting("identity")}, whose record each is, got none.'
            )
        for name in ("people_", "person_masks_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        utility = self._explained(
            self.estimator, rows, answers, seed, standard_errors=self.standard_errors
        )
        self.utility_ = utility.overall
        self.privacy_ = np.ones(rows.shape[1])
        if people is not None:
            privacy = self._explained(
                self.identity_estimator, rows, people, seed, standard_errors=0.0
            )
            self.privacy_ = privacy.overall
        choice = choice_by(
            self.utility_,
            self.privacy_,
            method=self.method,
            alpha=level,
            share=self.share,
            seed=seed,
        )
        self.kept_, self.solver_ = choice.kept, choice.solver
        self.utility_kept_, self.privacy_kept_ = choice.utility_kept, choice.privacy_kept
        if self.scope == "identity" and people is not None:
            TELLS_WHO.warn(PrivacyLeakWarning, stacklevel=2)
            self.people_ = known[privacy.classes.astype(np.intp)]
            given = answer_shares(PersonRecords(rows, answers, people), utility, privacy.classes)
            choices = person_choices(given @ utility.by_class, privacy.by_class, alpha=level)
            self.person_masks_ = np.stack([one.kept for one in choices])
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Blank the masked features, alike for everybody.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)

        Returns
        -------
        array of shape (n, n_features), or (n, n_kept) with `replacement="drop"`
        """
        check_is_fitted(self, "kept_")
        rows, _ = checked_input(self, X, None, reset=False)
        if self.replacement == "drop":
            return np.asarray(rows[:, self.kept_])
        return np.asarray(np.where(self.kept_, rows, 0.0))

    def transform_published(self, X: ArrayLike, *, identity: ArrayLike) -> FloatArray:
        """Blank the features of each record as the mask of its person says (P5 Alg. 1).

        For records that are published with their persons unnamed. Which features are blank tells whose
        record it is: that is how P5 has it, and a reason not to.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)
        identity : array of shape (n,)
            Persons that were there in `fit`.

        Returns
        -------
        array of shape (n, n_features)
        """
        check_is_fitted(self, "kept_")
        if not hasattr(self, "person_masks_"):
            raise InputError(
                'masks for every person need scope="identity", got one mask for everybody. Fit again '
                "with it, or use `transform`."
            )
        rows, _ = checked_input(self, X, None, reset=False)
        import pandas as pd

        people = to_vector(identity)
        places = pd.Index(self.people_).get_indexer(pd.Index(people))
        n_unknown = int((places < 0).sum())
        if len(people) != len(rows) or n_unknown:
            raise InputError(
                f"{setting('identity')} must name a person known from `fit` for each of the "
                f"{len(rows)} records, got {len(people)}, of whom {n_unknown} are unknown."
            )
        TELLS_WHO.warn(PrivacyLeakWarning, stacklevel=2)
        masks: BoolArray = self.person_masks_[places]
        return np.asarray(np.where(masks, rows, 0.0))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of what `transform` gives."""
        check_is_fitted(self, "kept_")
        names = super().get_feature_names_out(input_features)
        return np.asarray(names[self.kept_] if self.replacement == "drop" else names)

    def _explained(
        self,
        model: BaseEstimator | None,
        X: FloatArray,
        target: Labels,
        seed: int,
        *,
        standard_errors: float,
    ) -> TaskImportances:
        """Train on one half, explain on the other; standardised if no model was given."""
        first, second = _halves(target, seed)
        if model is None:
            from sklearn.linear_model import LogisticRegression
            from sklearn.preprocessing import StandardScaler

            X = StandardScaler().fit(X[first]).transform(X)
            model = LogisticRegression(max_iter=1000)
        fitted = fit_quietly(fresh_copy(model), X[first], target[first])
        return explain_task(
            fitted,
            X[second],
            target[second],
            explainer=self.explainer,
            background=X[first],
            max_rows=self.max_rows,
            standard_errors=standard_errors,
            random_state=seed,
        )

    def __sklearn_tags__(self) -> Tags:
        """Say that y is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _halves(target: Labels, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return two random halves of the records with all classes in both, or all records twice."""
    everything = np.arange(len(target))
    if len(target) < _FEWEST_TO_HALVE or np.unique(target, return_counts=True)[1].min() < 2:
        return everything, everything
    return random_halves(target, everything * 0, seed=seed)
