# SPDX-License-Identifier: Apache-2.0
"""`WhatIf`: the study of what randomising these people's answers at ε would do to the model."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from sklearn.utils.validation import check_is_fitted

from epsilens._types import Progress
from epsilens._validate import as_choice, as_count, as_positive
from epsilens.data.columnar import frame_from_arrow
from epsilens.data.frames import series_name
from epsilens.document.whatif import BODY, UNDECLARED
from epsilens.document.wording import EVERYBODY
from epsilens.errors import InputError, setting
from epsilens.influence import (
    InverseHessian,
    PointTable,
    general_point_table,
    label_point_table,
)
from epsilens.influence.any_model import AnyModel, any_model_of
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.fitted import FittedModel
from epsilens.influence.question import Asked, Epsilon, Question, as_correction
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.streamed_fit import fit_from_parquet
from epsilens.models.torch_head import is_module
from epsilens.models.torch_network import TorchNetwork
from epsilens.whatif.answer import Origin, write_curve, write_estimate, write_retraining
from epsilens.whatif.cells import Method
from epsilens.whatif.curve import DRAWS, CurveTraining
from epsilens.whatif.general_method import objective_of
from epsilens.whatif.head import (
    Body,
    as_rows,
    check_body,
    fit_head,
    refuse_inputs,
    whole_network,
    with_body,
)
from epsilens.whatif.methods import (
    as_question,
    compute_cells,
    is_label_only,
    plan,
    solve_first_order,
    with_sampling_error,
)
from epsilens.whatif.result import Calibration, LossChangeEstimate, fit_calibration
from epsilens.whatif.retraining import retrain_cells

if TYPE_CHECKING:
    from epsilens.models.torch_network import Train

DependentGroups = Literal["refuse", "warn"]
_FIRST_ORDER = ("influence", "paper")
_M = TypeVar("_M", bound="BaselineModel | StreamedBaseline | AnyModel")
METHODS = ("auto", "influence", "newton", "exact", "curve", "retrain", "paper")
REPEATS = 20
"""Retrainings a cell where none are asked for."""


class WhatIf(FittedModel):
    """See what randomising some people's answers would do to a model.

    Give the study a model, the data it is trained on and a test set; then ask for any group and any
    privacy budget ε. Every answer is the expected change of the test loss, with the interval in
    which a single real run would land 9 times in 10.

    Parameters
    ----------
    estimator : scikit-learn estimator or torch module
        Any classifier with `predict_proba`, any regressor, or a Pipeline that ends in one; fitted or not. It is
        never changed. LogisticRegression, SGDClassifier(loss="log_loss"), Ridge, RidgeClassifier,
        LinearRegression and their CV variants have an exact answer, with the transformers of a pipeline
        frozen. All others are trained again as a whole at a few ε. Or a torch.nn.Module,
        with `head` or with body="retrained".
    head : str, optional
        The name of the module's last torch.nn.Linear, such as "fc" or "classifier.1" (extra
        `epsilens[torch]`). The layers before it are frozen and run in evaluation mode; the head, one
        output per class or one for yes/no, is trained to convergence on what it receives. Only
        labels can be protected.
    regularisation : float
        With a head only: C of LogisticRegression, the objective being Σℓ + ‖W‖²/(2C). SGD's
        `weight_decay` λ beside a mean loss over n records is C = 1/(nλ), up to its shrinking the bias
        too, which is free here; AdamW's has no objective.
    body : {"public", "retrained"}, optional
        Where the body, the layers before the head, comes from. "public" declares that it was trained
        without the answers that are protected, such as on public data. "retrained" trains all of the
        network on what is randomised, from new weights, as `TorchNetwork` does; `head` is then not
        needed. None: no ε is stated, since a body that learnt from the true answers gives them back.
        Then `record_epsilon` is infinite, `estimate` raises a `PrivacyLeakWarning`, and `choose`,
        `decide` and the report refuse.
    train : callable, optional
        With body="retrained": `train(module, X, y, seed)` trains the network, as in `TorchNetwork`. For
        other settings of the training give `TorchNetwork(module, epochs=50)` as the estimator.
    public_body : bool, optional
        The old name of body="public".

    Attributes
    ----------
    coef_ : array of shape (n_features,), or (n_classes, n_features) for more than two classes
        Coefficients of the converged model, in the units of the features it sees.
    intercept_ : float or array of shape (n_classes,)
    baseline_ : object
        The converged model with its curvature and its outcomes on the test set.

    Notes
    -----
    The results are functions of the raw data and not private themselves: publishing them, or tuning
    ε on them, leaks.

    References
    ----------
    P1: A. N. Carey, M.-H. Van, X. Wu, "Evaluating the Impact of Local Differential Privacy on
    Utility Loss via Influence Functions".

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=600), "income": rng.normal(size=600)})
    >>> smokes = pd.Series(rng.random(600) < 1 / (1 + np.exp(-X["age"])), name="smokes")
    >>> smokes = smokes.astype("category")
    >>> study = WhatIf(LogisticRegression()).fit(X[:400], smokes[:400], X[400:], smokes[400:])
    >>> result = study.estimate(protect=["smokes"], epsilon=[0.5, 2.0])
    >>> result.to_frame()[["epsilon", "method", "trusted"]]
       epsilon method  trusted
    0      0.5  exact     True
    1      2.0  exact     True
    """

    def __init__(
        self,
        estimator: object,
        *,
        head: str | None = None,
        regularisation: float = 1.0,
        body: Body | None = None,
        train: Train | None = None,
        public_body: bool | None = None,
    ) -> None:
        self.estimator = estimator
        self.head = head
        self.regularisation = regularisation
        self.body = body
        self.train = train
        self.public_body = public_body

    @property
    def _body(self) -> Body | None:
        if self.body is None and isinstance(self.estimator, TorchNetwork):
            return "retrained"
        return "public" if self.public_body else self.body

    @property
    def _asks_head(self) -> bool:
        """Whether the question is about the last layer of a network, over frozen features."""
        return self.head is not None and self._body != "retrained"

    def fit(
        self,
        X: object,
        y: object,
        X_test: object,
        y_test: object,
        sample_weight: object | None = None,
        *,
        sample_weight_test: object | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train the model to convergence and evaluate it.

        Parameters
        ----------
        X, X_test : pandas, polars or arrow frame, or array
            Training and test features, as the estimator takes them; for a torch module tensors or
            arrays of any shape.
        y, y_test : column
            Labels. A name lets `protect` refer to it; a categorical dtype declares its domain.
        sample_weight, sample_weight_test : column, optional
            Weights ≥ 0 of the training and the test records.
        progress : callable, optional
            Called with (rows done, rows, what) while a torch module computes its features.

        Returns
        -------
        WhatIf
        """
        check_body(self.body, self.public_body)
        if self._asks_head:
            model, features = fit_head(
                self.estimator,
                str(self.head),
                X,
                y,
                X_test,
                y_test,
                regularisation=self.regularisation,
                sample_weight=sample_weight,
                sample_weight_test=sample_weight_test,
                progress=progress,
            )
            self._keep(model, features, label_name=series_name(y), template=X)
            return self
        network = None
        if self._body == "retrained":
            network = whole_network(self.estimator, X, train=self.train)
            X, y, X_test, y_test = map(as_rows, (X, y, X_test, y_test))
        self._refuse_settings()
        self._fit_tables(
            X,
            y,
            X_test,
            y_test,
            sample_weight=sample_weight,
            sample_weight_test=sample_weight_test,
            estimator=network,
        )
        return self

    def _refuse_settings(self) -> None:
        """Refuse a module of which only a layer could be asked about, and what belongs to a head."""
        if is_module(self.estimator) and self._body != "retrained":
            raise InputError(
                "a torch module must be given with the name of its last linear layer, or be trained again as "
                'a whole. Write WhatIf(module, head="fc") or WhatIf(module, body="retrained").'
            )
        if self.regularisation != 1.0:
            raise InputError(
                f"{setting('regularisation')} is for the head of a torch module, and there is no "
                f"{setting('head')}. Set the penalty of the estimator itself."
            )
        if self._body == "public":
            raise InputError(
                f"{setting('body', 'public')} is about the layers before the head of a torch module, and "
                f"there is no {setting('head')}. Leave it out."
            )
        if self.train is not None and self._body != "retrained":
            raise InputError(
                f"{setting('train')} is for {setting('body', 'retrained')}. Leave it out."
            )

    def fit_parquet(
        self,
        train: str | Path,
        test: str | Path | None = None,
        *,
        label: str,
        weight: str | None = None,
        drop: Sequence[str] = (),
        test_share: float = 0.25,
        random_state: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train on parquet files that need not fit into memory.

        The files are read again at every pass, some rows at a time; the answers are those of `fit` on
        the same rows. Labels can be protected, groups are expressions; protected features and forward
        correction need the table in memory.

        Parameters
        ----------
        train : path
            A parquet file, or a folder of them.
        test : path, optional
            Test data with the same columns. Without it a coin for every row's position sets
            `test_share` of the rows aside.
        label : str
            The column to be predicted.
        weight : str, optional
            A column with the weight of each row.
        drop : sequence of str
            Columns that the model must not see; groups may look at them.
        test_share : float in (0, 1)
        random_state : int
            Decides which rows are set aside.
        progress : callable, optional
            Called with (done, total, what) within every pass, now and in all questions that follow.

        Returns
        -------
        WhatIf

        Notes
        -----
        All columns must be numbers, unless the estimator is a pipeline whose transformers are fitted
        already. Memory is a few matrices of parameters × parameters, the rows being read, and a few
        numbers for every row.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np, pandas as pd
        >>> from sklearn.linear_model import LogisticRegression
        >>> from epsilens import WhatIf
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"age": rng.normal(size=900), "income": rng.normal(size=900)})
        >>> people["smokes"] = rng.random(900) < 1 / (1 + np.exp(-people["age"]))
        >>> file = Path(tempfile.mkdtemp()) / "people.parquet"
        >>> people.to_parquet(file)
        >>> study = WhatIf(LogisticRegression()).fit_parquet(file, label="smokes")
        >>> question = {"categories": {"smokes": [False, True]}, "epsilon": [0.5, 2.0]}
        >>> study.estimate(**question, groups={"older": "age > 0"}).to_frame().shape[0]
        2
        """
        if self.head is not None or self._body is not None:
            name = "body" if self.head is None else "head"
            raise InputError(
                f"{setting(name)} is for a torch module, whose inputs are tensors in memory. "
                "Use `fit`."
            )
        model = fit_from_parquet(
            self.estimator,
            train,
            test,
            label=label,
            weight=weight,
            drop=drop,
            test_share=test_share,
            seed=random_state,
            progress=progress,
        )
        self.keep_streamed(model)
        return self

    def keep_streamed(self, model: StreamedBaseline) -> None:
        """Take a model that was fitted to parquet files for this study's."""
        reading = model.problem.rows.reading
        # A few rows, for the names and types of the columns.
        rows = reading.first_rows(10).select(list(reading.features))
        head = frame_from_arrow(rows, name=reading.source.name)
        self._keep(model, head, label_name=model.label.name, template=head)

    def _require_linear(self, what: str) -> BaselineModel | StreamedBaseline:
        """Return the linear model; refuse one that has no exact answer, with the reason."""
        if isinstance(self.baseline_, AnyModel):
            raise InputError(
                f"{what} needs a linear model. {self.baseline_.reason} Or use {setting('method', 'curve')}."
            )
        return self.baseline_

    def _by_curve(
        self,
        question: Question,
        *,
        correction: str | None,
        n_draws: int,
        seconds: float,
        max_error: float | None,
        seed: int,
        checkpoint: str | Path | None,
        progress: Progress | None,
    ) -> LossChangeEstimate:
        """Train the whole model again at a few ε."""
        started = time.perf_counter()
        asked, model = self._ask(question, self._whole_model())
        as_correction(correction, asked, model)
        points = CurveTraining(
            model,
            asked,
            n_draws=n_draws,
            seed=seed,
            seconds=seconds,
            max_error=max_error,
            checkpoint=checkpoint,
            progress=progress,
        ).run()
        return write_curve(
            replace(self._origin(), baseline=model),
            asked,
            points,
            n_draws=n_draws,
            seed=seed,
            seconds=time.perf_counter() - started,
            max_error=max_error,
        )

    def _whole_model(self) -> AnyModel:
        """Return the model as it is trained again as a whole."""
        model = self.baseline_
        if isinstance(model, AnyModel):
            return model
        if isinstance(model, StreamedBaseline):
            raise InputError(
                f"{setting('method', 'curve')} trains on tables in memory, and this one is streamed. Use `fit`."
            )
        if self._asks_head:
            raise InputError(
                f"{setting('method', 'curve')} trains whole networks again, and a {setting('head')} is one layer. "
                'Write WhatIf(module, body="retrained").'
            )
        if self._whole is None:
            if model.is_classifier and not hasattr(self.estimator, "predict_proba"):
                raise InputError(
                    f"{setting('method', 'curve')} needs predict_proba, and {type(self.estimator).__name__} has none. Use "
                    f"{setting('method', 'exact')}."
                )
            self._whole = any_model_of(model, self.estimator)
        return self._whole

    def _ask(self, question: Question, model: _M) -> tuple[Asked, _M]:
        """Return the checked question, and the model as it is asked about."""
        if self._asks_head:
            question = refuse_inputs(question, self.label_name_)
        asked = self._read_question(question, model, columns=[] if self._asks_head else None)
        if self._asks_head:
            asked = with_body(asked, is_public=self._body == "public")
        return asked, model.for_question(asked.label, asked.groups)  # type: ignore[return-value]

    def _origin(self) -> Origin:
        names = [type(self.estimator).__name__, *([str(self.head)] if self._asks_head else [])]
        is_network = self._asks_head or self._body is not None
        return Origin(
            baseline=self.baseline_,
            estimator=".".join(names),
            fingerprint=self._fingerprint,
            template=self._template,
            declared={BODY: self._body or UNDECLARED} if is_network else {},
        )

    def estimate(
        self,
        *,
        protect: str | Iterable[str] | None = None,
        epsilon: Epsilon,
        groups: Mapping[str, object] | None = None,
        method: str = "auto",
        correction: str | None = None,
        categories: Mapping[str, Sequence[object]] | None = None,
        mechanism: str = "rr",
        seconds: float = 10.0,
        n_draws: int = 400,
        repeats: int | None = None,
        max_error: float | None = None,
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        dependent_groups: DependentGroups = "refuse",
        inverse_hessian: str | InverseHessian | None = None,
        together: bool = False,
        progress: Progress | None = None,
    ) -> LossChangeEstimate:
        """Estimate what randomised response would do to the test loss.

        Parameters
        ----------
        protect : str or list of str, optional
            What is randomised: features, and the label by its name ("label" if it has none).
            None: the label.
        epsilon : float in (0, inf], list, grid text such as "0.1:10:30", or {column: epsilon}
            Privacy budgets; infinity changes nothing. With `together`, {group: epsilon}: a number, or
            lists of equal length, of which each position is one cell.
        groups : mapping of name to mask or expression, optional
            Whose answers are randomised. None: everybody, as group "all".
        method : {"auto", "influence", "newton", "exact", "curve", "retrain", "paper"}
            "auto" takes the most accurate method that fits `seconds`, never "retrain". For a model without an
            exact answer that is "curve": the whole model is trained again at a few ε, with randomness
            that is shared over ε, and the others are interpolated.
            "influence" is first order and additive over groups; "paper" is P1 as printed: Eq. 14
            for labels, Eq. 13 where features are protected, Eq. 22 with correction.
        correction : {None, "none", "forward"}
            "forward" trains the group's labels on a loss that knows the channel (P1 IV-B.1).
        categories : mapping of column to values, optional
            The public domain of the protected column. Without it, a categorical dtype is taken, and
            else the observed values, with a `PrivacyLeakWarning`.
        mechanism : {"rr", "olh", "blh", "oue", "rappor", "the"}
            Randomised response; local hashing, which is randomised response at a smaller effective
            ε; or a unary encoding of one one-hot feature.
        seconds : float
            The time "auto" may take. "curve" always trains at its first ε and adds others while time lasts.
        n_draws : int
            Simulated runs behind each interval; at most 100 by the methods "newton" and "exact" beyond
            5,000 parameters.
        repeats : int, optional
            Trainings at every ε that is trained: 20 for method="retrain", 5 for "curve", which states no
            interval with fewer.
        max_error : float, optional
            For "curve": error of the mean change of loss at which no ε is added any more.
        random_state : int
            Seed of the simulated runs.
        checkpoint : path, optional
            For "curve" and "retrain": a file that keeps finished trainings; see `retrain`.
        dependent_groups : {"refuse", "warn"}
            What to do when membership of a group gives the protected answer away.
        inverse_hessian : {"cholesky", "cg", "stochastic"} or solver, optional
            How the inverse Hessian is applied by the methods of first order; None: "cholesky", and
            "cg" beyond 5,000 parameters, where no matrix of them is formed. A solver such as
            `ConjugateGradient(tolerance=1e-6)` carries its own settings. What it left is in the
            provenance, and among the warnings where it did not converge.
        together : bool
            Whether all groups are randomised at once, each at its own ε. The groups must not overlap;
            records in no group are left as they are. A cell's `record_epsilon` is then the largest of
            its groups: what the least protected person is promised.
        progress : callable, optional
            Called with (done, total, what).

        Returns
        -------
        LossChangeEstimate
        """
        started = time.perf_counter()
        check_is_fitted(self, "baseline_")
        method = as_choice(method, METHODS, name="method")
        as_positive(seconds, name="seconds")
        n_draws = as_count(n_draws, name="n_draws", least=20)
        if inverse_hessian is not None and method not in _FIRST_ORDER:
            raise InputError(
                f"{setting('inverse_hessian')} is for {setting('method', 'influence')} or "
                f"{setting('method', 'paper')}, the methods that need nothing else, got "
                f"method={method!r}. Choose one of them, or leave it out."
            )
        if method == "retrain":
            return self.retrain(
                protect=protect,
                epsilon=epsilon,
                groups=groups,
                categories=categories,
                repeats=REPEATS if repeats is None else repeats,
                correction=correction,
                mechanism=mechanism,
                random_state=random_state,
                checkpoint=checkpoint,
                dependent_groups=dependent_groups,
                together=together,
                progress=progress,
            )
        seed = as_count(random_state, name="random_state", least=0)
        question = Question(
            epsilon,
            protect,
            groups,
            categories,
            mechanism,
            method == "paper",
            dependent_groups,
            together,
        )
        if method == "curve" or (method == "auto" and isinstance(self.baseline_, AnyModel)):
            return self._by_curve(
                question,
                correction=correction,
                n_draws=DRAWS if repeats is None else as_count(repeats, name="repeats", least=2),
                seconds=seconds,
                max_error=None if max_error is None else as_positive(max_error, name="max_error"),
                seed=seed,
                checkpoint=checkpoint,
                progress=progress,
            )
        if max_error is not None or checkpoint is not None:
            name = "checkpoint" if max_error is None else "max_error"
            raise InputError(
                f"{setting(name)} belongs to {setting('method', 'curve')}, got {method!r}. Leave it out."
            )
        linear = self._require_linear(setting("method", method))
        asked, baseline = self._ask(question, linear)
        corrected = as_correction(correction, asked, baseline)
        cells = as_question(asked, corrected=corrected, n_draws=n_draws, seed=seed)
        used: Method = plan(baseline, cells, seconds=seconds) if method == "auto" else method  # type: ignore[assignment]
        if used in _FIRST_ORDER:
            first_order = solve_first_order(baseline, inverse_hessian, seed=seed)
            cells = replace(cells, first_order=first_order)
        answers = compute_cells(baseline, cells, used, progress=progress)
        if (
            isinstance(baseline, BaselineModel)
            and asked.unary is not None
            and asked.unary.is_sampled
        ):
            answers = with_sampling_error(baseline, asked, cells, used, answers)
        found = write_estimate(
            self._origin(),
            asked,
            answers,
            method=used,
            seed=seed,
            corrected=corrected,
            seconds=time.perf_counter() - started,
            first_order=cells.first_order,
        )
        if not together and groups is not None and EVERYBODY not in groups:
            return found
        again = partial(
            self.retrain,
            protect=protect,
            groups=groups if together or groups is None else {EVERYBODY: groups[EVERYBODY]},
            together=together,
            categories=categories,
            correction=correction,
            mechanism=mechanism,
            random_state=seed,
            dependent_groups=dependent_groups,
        )
        return replace(found, again=again)

    def retrain(
        self,
        *,
        protect: str | Iterable[str] | None = None,
        epsilon: Epsilon,
        groups: Mapping[str, object] | None = None,
        categories: Mapping[str, Sequence[object]] | None = None,
        correction: str | None = None,
        mechanism: str = "rr",
        repeats: int = REPEATS,
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        dependent_groups: DependentGroups = "refuse",
        together: bool = False,
        progress: Progress | None = None,
    ) -> LossChangeEstimate:
        """Really randomise and train again, many times: the truth, with its own error.

        Parameters
        ----------
        protect, epsilon, groups, categories, correction, mechanism, dependent_groups, together, progress
            As in `estimate`.
        repeats : int
            Runs a cell.
        random_state : int
            Every run derives its own seed from this, its group, its ε and its number.
        checkpoint : path, optional
            Finished runs are kept here as they come, and taken from here if it exists: a killed
            retraining goes on where it was.

        Returns
        -------
        LossChangeEstimate
            Mean and 5–95 % quantiles over the runs; `.draws()` has them all.
        """
        started = time.perf_counter()
        check_is_fitted(self, "baseline_")
        repeats = as_count(repeats, name="repeats", least=1)
        seed = as_count(random_state, name="random_state", least=0)
        asked, baseline = self._ask(
            Question(
                epsilon,
                protect,
                groups,
                categories,
                mechanism,
                dependent_groups=dependent_groups,
                together=together,
            ),
            self.baseline_,
        )
        corrected = as_correction(correction, asked, baseline)
        runs = retrain_cells(
            baseline,
            asked,
            corrected=corrected,
            repeats=repeats,
            seed=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
        return write_retraining(
            # The asked model's test set knows the groups.
            replace(self._origin(), baseline=baseline),
            asked,
            runs,
            repeats=repeats,
            seed=seed,
            corrected=corrected,
            seconds=time.perf_counter() - started,
        )

    def calibrate(
        self,
        *,
        protect: str | Iterable[str] | None = None,
        epsilon: Epsilon,
        groups: Mapping[str, object] | None = None,
        categories: Mapping[str, Sequence[object]] | None = None,
        correction: str | None = None,
        method: str = "influence",
        truth: object | None = None,
        repeats: int = 10,
        random_state: int = 0,
        progress: Progress | None = None,
    ) -> Calibration:
        """Retrain at a few ε and fit the line from estimate to truth (P1 V-E).

        Parameters
        ----------
        protect, epsilon, groups, categories, correction, repeats, random_state, progress
            As in `retrain`; a few values of ε are enough.
        method : str
            The method to be calibrated.
        truth : LossChangeEstimate or frame, optional
            Changes of the test loss that were found elsewhere, such as by training a whole network
            again: columns epsilon and loss_change, and group where there are several; several rows of
            a cell are averaged. Nothing is then retrained here.

        Returns
        -------
        Calibration
            `.apply(result)` corrects the estimates of other cells, with their error.
        """
        question: dict[str, object] = {
            "protect": protect,
            "epsilon": epsilon,
            "groups": groups,
            "categories": categories,
            "correction": correction,
            "random_state": random_state,
            "progress": progress,
        }
        estimate = self.estimate(**question, method=method)  # type: ignore[arg-type]
        if truth is None:
            truth = self.retrain(**question, repeats=repeats)  # type: ignore[arg-type]
        return fit_calibration(estimate, truth)

    def point_table(
        self,
        *,
        protect: str | Iterable[str] | None = None,
        categories: Mapping[str, Sequence[object]] | None = None,
        inverse_hessian: str | InverseHessian | None = None,
    ) -> PointTable:
        """Return the first-order effect of every single record on the test loss.

        Any group at any ε is then a sum: `table.change(mask, flip_probability)`; with several
        protected columns the probabilities of the changed sets, in the order of the table.
        With class_weight="balanced" the weights of everybody move with the group, so there the
        sum is not what `method="influence"` gives, which is then not additive either.

        Parameters
        ----------
        protect, categories, inverse_hessian
            As in `estimate`; `table.solution` says how well the inverse Hessian was applied.
        """
        check_is_fitted(self, "baseline_")
        linear = self._require_linear("a table of points")
        asked, baseline = self._ask(Question(1.0, protect, categories=categories), linear)
        solution = solve_first_order(baseline, inverse_hessian).solution
        if isinstance(baseline, StreamedBaseline):
            return replace(baseline.point_table(solution.vector), solution=solution)
        question = as_question(asked, corrected=False, n_draws=0, seed=0)
        if not is_label_only(baseline, question):
            objective = objective_of(baseline, question, 0, 0)
            table = general_point_table(objective, solution.vector, baseline.theta)
        else:
            codes, values = baseline.label.domain()
            table = label_point_table(baseline.problem, solution.vector, codes, values)
        return replace(table, solution=solution)
