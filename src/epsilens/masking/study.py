# SPDX-License-Identifier: Apache-2.0
"""`MaskStudy`: which features identify people and do not serve the task, and what masking them does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from epsilens._types import Progress
from epsilens._validate import as_count, as_unit
from epsilens.data.frames import series_name
from epsilens.document import MaskDocument, MaskFeature, Provenance
from epsilens.document.mask import mask_number_types
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.masking.choices import (
    Method,
    Scope,
    check_method,
    choice_by,
    joined,
    person_choices,
)
from epsilens.masking.importances import (
    STANDARD_ERRORS,
    Explainer,
    TaskImportances,
    answer_shares,
    explain_task,
)
from epsilens.masking.judging import RANDOM_MASKS, Judge, Pace, affordable
from epsilens.masking.knapsack import ALPHAS
from epsilens.masking.masked_risk import attack_masked
from epsilens.masking.records import (
    EncodedTable,
    checked_people,
    fit_both,
    guess_rate,
    halved,
    person_codes,
    read_records,
    split_estimator,
)
from epsilens.masking.result import TELLS_WHO, Mask, mask_notes
from epsilens.models.scikit_learn import fresh_copy
from epsilens.models.tables import (
    for_scikit_learn,
    in_order_of,
    require_records,
    schema_fingerprint,
)

_N_FITS = 3 + RANDOM_MASKS
"""Trainings of both models that a study takes; those for other α take what time is left."""
_SHARE_TO_EXPLAIN = 0.2
"""Share of the time that explaining each model may take."""


class MaskStudy(BaseEstimator):  # type: ignore[misc]
    """Find the features that identify people and do not serve the task.

    Two models are trained on the same features: the one that is wanted, and one that tells whose
    record it is. Both are explained. Features on which only the second rests can go: people become
    harder to recognise, and the task hardly suffers.

    Parameters
    ----------
    estimator : scikit-learn classifier
        With `predict_proba`, or a Pipeline that ends in one, whose encoding both models share.
    identity_estimator : scikit-learn classifier, optional
        For recognising people; a logistic regression unless given.

    Notes
    -----
    A mask that was chosen on private records tells something about them, and is not private. It changes
    no proven guarantee: with masked features ε means what it meant, and only what an attack measures
    may change. With `public` records the mask tells nothing of the private ones.

    References
    ----------
    P5: Y. Gu, K. Chen, "Calibrating Practical Privacy Risks for Differentially Private Machine
    Learning".

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> who, walks = rng.integers(0, 4, 800), rng.integers(0, 2, 800)
    >>> X = pd.DataFrame({"gait": who + 0.3 * rng.normal(size=800),
    ...                   "speed": 2 * walks + rng.normal(size=800)})
    >>> study = MaskStudy(LogisticRegression())
    >>> study = study.fit(X[:500], walks[:500], who[:500], X[500:], walks[500:], who[500:])
    >>> study.choose(alpha=0.5, alphas=()).document.masked
    ['gait']
    """

    def __init__(
        self, estimator: BaseEstimator, *, identity_estimator: BaseEstimator | None = None
    ) -> None:
        self.estimator = estimator
        self.identity_estimator = identity_estimator

    def fit(
        self,
        X: object,
        y: object,
        identity: object,
        X_test: object,
        y_test: object,
        identity_test: object,
        *,
        public: tuple[object, object, object] | None = None,
        random_state: int = 0,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Read the records and train the two models that are explained.

        Parameters
        ----------
        X, y, identity : table and columns
            Training records, their answers, and who they are.
        X_test, y_test, identity_test
            Records set aside. Models are explained on a random half of them and judged on the other, so
            that no mask is judged by the records that chose it.
        public : (X, y, identity), optional
            Records of other people that are public. Then the two explained models are trained on one
            half of these and explained on the other, and no private record has a say in the mask; masks
            are judged on all records set aside.
        random_state : int
            Seed of the random halves, which are stratified by person and answer.
        seconds : float, optional
            Time for this call and for `choose` with the same: of a large table the models are then trained
            on a sample of the records, whose size is noted in the result.
        progress : callable, optional
        """
        from sklearn.linear_model import LogisticRegression

        pace = Pace(seconds)
        seed = as_count(random_state, name="random_state", least=0)
        table = for_scikit_learn(X)
        transformer, final = split_estimator(self.estimator)
        if not hasattr(final, "predict_proba"):
            raise InputError(
                argument="estimator",
                expected="a classifier that gives probabilities",
                got=type(final).__name__,
                hint="Use for instance LogisticRegression.",
            )
        if public is not None:
            learnt = in_order_of(table, for_scikit_learn(public[0]), what="public records")
            self.table_ = EncodedTable.learn(transformer, learnt)
        else:
            self.table_ = EncodedTable.learn(transformer, table)
        asked = in_order_of(table, for_scikit_learn(X_test))
        require_records(asked, what="test")
        parts = [
            read_records(self.table_.rows(table), y, identity, what="training records"),
            read_records(self.table_.rows(asked), y_test, identity_test, what="test records"),
        ]
        if public is not None:
            parts.append(read_records(self.table_.rows(learnt), *public[1:], what="public records"))
        self._people, codes = person_codes(*(part.who for part in parts))
        self._train, test, *others = (
            replace(part, who=who) for part, who in zip(parts, codes, strict=True)
        )
        self._n_test = len(test.y)
        checked_people(self._train.y, self._train.who)
        recognises = self.identity_estimator
        if recognises is None:
            recognises = LogisticRegression(max_iter=1000)
        self._n_train, self._models = (
            len(self._train.y),
            (fresh_copy(final), fresh_copy(recognises)),
        )
        self._train = affordable(self._train, self._models, n_fits=_N_FITS, pace=pace, seed=seed)
        if others:
            self._shown, self._test = halved(others[0], seed=seed), test
            checked_people(self._shown[0].y, self._shown[0].who)
        else:
            shown, self._test = halved(test, seed=seed)
            self._shown = (self._train, shown)
        self.models_ = fit_both(self._models, self._shown[0], progress)
        self.label_name_ = series_name(y)
        self.explained_on_: Literal["held-out", "public"] = "public" if public else "held-out"
        self._template, self._features = X, table
        return self

    def importances(
        self,
        *,
        explainer: Explainer = "shap",
        max_rows: int | None = None,
        standard_errors: float = STANDARD_ERRORS,
        random_state: int = 0,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> tuple[TaskImportances, TaskImportances]:
        """Explain the two models: what the task rests on, and what people are recognised by.

        Parameters
        ----------
        explainer, max_rows, random_state, seconds, progress
            As in `explain_task`; the time is for each model.
        standard_errors : float ≥ 0
            As in `explain_task`, for the task alone: what recognises one person of many is lost in the
            noise of all, and still identifies.

        Returns
        -------
        utility, privacy : TaskImportances
        """
        check_is_fitted(self, "models_")
        known, shown = self._shown
        found = [
            explain_task(
                model,
                shown.X,
                target,
                explainer=explainer,
                background=known.X,
                sources=self.table_.sources,
                n_features=len(self.table_.names),
                max_rows=max_rows,
                standard_errors=errors,
                random_state=random_state,
                seconds=seconds,
                progress=progress,
                what=f"explaining {what}",
            )
            for model, target, what, errors in zip(
                self.models_,
                (shown.y, shown.who),
                ("the task", "the identity"),
                # What identifies one person is within the noise of all, and no less identifying.
                (standard_errors, 0.0),
                strict=True,
            )
        ]
        return found[0], replace(found[1], classes=self._people[found[1].classes.astype(np.intp)])

    def choose(
        self,
        *,
        alpha: float = 0.2,
        explainer: Explainer = "shap",
        scope: Scope = "global",
        method: Method = "knapsack",
        share: float = 0.3,
        keep: Sequence[str] = (),
        alphas: Sequence[float] = ALPHAS,
        max_rows: int | None = None,
        standard_errors: float = STANDARD_ERRORS,
        importances: tuple[TaskImportances, TaskImportances] | None = None,
        random_state: int = 0,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> Mask:
        """Choose the features to mask, and measure what that does.

        Parameters
        ----------
        alpha : float in [0, 1]
            The share of the identifying importance that must go.
        explainer : {"shap", "lime"}
        scope : {"global", "identity"}
            One mask for everybody, which can be used at prediction time; or, as in P5, one for every
            person, for data that are published. **Which features are blank then tells who it is.**
        method : {"knapsack", "top-share", "random"}
            As useful as can be within the limit; P5's top-k % of the most identifying features; or,
            as a control, any features.
        share : float in [0, 1]
            Share of the features that the last two methods mask.
        keep : sequence of str
            Features that are never masked.
        alphas : sequence of float
            Other levels for the curve of α; empty for none.
        max_rows, standard_errors
            As in `importances`.
        importances : (utility, privacy), optional
            From `importances`, to be used again.
        random_state : int
        seconds : float, optional
            Time after which fewer records are explained and fewer other masks are tried.
        progress : callable, optional

        Returns
        -------
        Mask
        """
        check_is_fitted(self, "models_")
        started, pace = time.perf_counter(), Pace(seconds)
        level = as_unit(alpha, name="alpha")
        check_method(scope, method)
        seed = as_count(random_state, name="random_state", least=0)
        utility, privacy = importances or self.importances(
            explainer=explainer,
            max_rows=max_rows,
            standard_errors=standard_errors,
            random_state=seed,
            seconds=pace.share(_SHARE_TO_EXPLAIN).seconds,
            progress=progress,
        )
        u, s, held = utility.overall, privacy.overall, self.table_.held(keep)
        mixed = (
            answer_shares(self._shown[1], utility, self.models_[1].classes_)
            if scope == "identity"
            else None
        )
        before = time.perf_counter()
        person_masks = None
        if mixed is not None:
            choices = person_choices(
                mixed @ utility.by_class, privacy.by_class, alpha=level, keep=held
            )
            person_masks = np.stack([choice.kept for choice in choices])
            choice = joined(choices, privacy.shares, level)
        else:
            choice = choice_by(u, s, method=method, alpha=level, share=share, seed=seed, keep=held)
        seconds_per_mask = (time.perf_counter() - before) / (
            1 if person_masks is None else len(person_masks)
        )
        judge = Judge(
            self.table_,
            self._train,
            self._test,
            self._models,
            self.models_[1].classes_,
            pace,
            progress,
        )
        outcomes = judge.outcomes(choice, person_masks, held, seed=seed)
        curve = judge.curve(u, s, held, alphas)
        guesses = (
            guess_rate(self._train.y, self._test.y),
            guess_rate(self._train.who, self._test.who),
        )
        if person_masks is not None:
            TELLS_WHO.warn(PrivacyLeakWarning, stacklevel=2)
        names = self.table_.names
        kept_share = (
            choice.kept.astype(float) if person_masks is None else privacy.shares @ person_masks
        )
        kept = kept_share >= 1.0 - 1e-9
        document = MaskDocument(
            provenance=self._provenance(
                started,
                seed,
                utility.explainer,
                alpha=level,
                scope=scope,
                mask=method,
                keep=list(keep),
                max_rows=max_rows,
                standard_errors=standard_errors,
                n_trained=len(self._train.y),
            ),
            notes=list(
                mask_notes(
                    choice,
                    s,
                    held,
                    is_public=self.explained_on_ == "public",
                    is_by_person=person_masks is not None,
                    serves=bool(u.any()),
                    n_explained=min(utility.n_explained, privacy.n_explained),
                    before=outcomes[0],
                    guess=guesses[1],
                    trained=(len(self._train.y), self._n_train),
                    tried=(len(curve), len(alphas)),
                )
            ),
            number_types=mask_number_types(),
            kept=[name for name, is_kept in zip(names, kept, strict=True) if is_kept],
            masked=[name for name, is_kept in zip(names, kept, strict=True) if not is_kept],
            alpha=level,
            utility_kept=choice.utility_kept if u.any() else None,
            privacy_kept=choice.privacy_kept,
            solver=choice.solver if method == "knapsack" else method,
            utility_bound=choice.utility_bound if method == "knapsack" else None,
            scope=scope,
            n_masks=1 if person_masks is None else len(person_masks),
            explained_on=self.explained_on_,
            n_explained=min(utility.n_explained, privacy.n_explained),
            seconds_per_record=(utility.seconds + privacy.seconds)
            / (utility.n_explained + privacy.n_explained),
            seconds_per_mask=seconds_per_mask,
            utility_guess=guesses[0],
            identity_guess=guesses[1],
            features=[
                MaskFeature(
                    name=name,
                    utility=float(a),
                    privacy=float(b),
                    kept_share=min(max(float(c), 0.0), 1.0),
                )
                for name, a, b, c in zip(names, u, privacy.overall, kept_share, strict=True)
            ],
            outcomes=outcomes,
            curve=curve,
        )
        return Mask(document, kept, utility, privacy, person_masks, held, template=self._template)

    def relax(
        self,
        mask: Mask,
        *,
        epsilon: float | str | Sequence[float],
        delta: float,
        shadow_models: int = 256,
        random_state: int = 0,
        progress: Progress | None = None,
        **training: object,
    ) -> Mask:
        """Attack models with and without the masked features, to see whether ε may be larger.

        Parameters
        ----------
        mask : Mask
            From `choose`, with one mask for everybody.
        epsilon, delta, shadow_models, random_state, progress, **training
            As in `attack_masked`.

        Returns
        -------
        Mask
            The same with `document.relaxed` and `risk`.
        """
        check_is_fitted(self, "models_")
        if mask.person_masks is not None:
            raise InputError(
                'a relaxed ε needs one mask for everybody, got one for each person. Use scope="global".'
            )
        if mask.kept.all():
            raise InputError(
                "a relaxed ε needs features that are masked, got none. Use a larger alpha."
            )
        drawn = mask.at_random(random_state)
        batch = min(64, max(len(self._train.y) // 4, 1))
        risk = attack_masked(
            self._train.X,
            self._train.y,
            {"random": self.table_.columns(drawn), "chosen": self.table_.columns(mask.kept)},
            epsilon=epsilon,
            delta=delta,
            shadow_models=shadow_models,
            random_state=random_state,
            progress=progress,
            **({"batch": batch} | training),  # type: ignore[arg-type]
        )
        settings = mask.document.provenance.settings | {
            "epsilon": list(risk.epsilons),
            "delta": delta,
            "shadow_models": shadow_models,
        }
        document = mask.document.model_copy(
            update={
                "relaxed": [*risk.relaxed("chosen"), *risk.relaxed("random")],
                "provenance": mask.document.provenance.model_copy(update={"settings": settings}),
            }
        )
        return replace(mask, document=document, risk=risk)

    def _provenance(
        self, started: float, seed: int, explainer: str, **settings: object
    ) -> Provenance:
        return Provenance(
            method=explainer,
            settings={
                **settings,
                "explainer": explainer,
                "estimator": type(self.estimator).__name__,
            },
            seed=seed,
            simulated=True,
            schema_fingerprint=schema_fingerprint(
                self._features,
                self.label_name_,
                n_train=self._n_train,
                n_test=self._n_test,
            ),
            seconds=time.perf_counter() - started,
        )
