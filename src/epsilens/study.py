# SPDX-License-Identifier: Apache-2.0
"""`Study`: from a table to what ε costs, what it buys, and which ε the limits lead to."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from epsilens._validate import (
    as_choice,
    as_count,
    as_positive,
    as_share,
    as_unit,
    require_column,
    require_extra,
)
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning, setting
from epsilens.notes import Note, distinct_notes

if TYPE_CHECKING:
    import pandas as pd

    from epsilens._types import FloatArray, Progress
    from epsilens.data import Bins, Prepared
    from epsilens.data.expressions import Expression
    from epsilens.data.missing import MissingPolicy
    from epsilens.data.prepare import Task as TaskKind
    from epsilens.decision import Decision
    from epsilens.decision.compare import Compared
    from epsilens.decision.others import Comparison, Previewed
    from epsilens.decision.question import CheckedLimits
    from epsilens.document import Baseline, DecisionDocument
    from epsilens.document.decision import Protects, Trust
    from epsilens.influence.question import Epsilon
    from epsilens.masking import Mask, MaskStudy
    from epsilens.mechanisms import Task
    from epsilens.models.training_rows import Declaration
    from epsilens.risk import AttackStudy, RiskCurve
    from epsilens.whatif import LossChangeEstimate, WhatIf

    Groups: TypeAlias = (
        Mapping[str, str | Expression] | Iterable[str | tuple[str, str | Expression]]
    )

__all__ = ["DEFAULT_GRID", "Study", "check_identity", "check_people", "find_mask", "mask_study"]

DEFAULT_GRID = "0.1:10:30"
DEFAULT_ALPHA = 0.2
"""Share of what identifies people that must go, where masking is tried."""
MASKING_SECONDS = 60.0
"""Time for finding the columns that identify people."""
CURVE_SECONDS = 40.0
"""Time for the cost of a model that is trained again, where a decision needs it."""
MOST_NUMBERS = 200_000_000
"""Rows times columns of the encoded table up to which mechanisms on the true answers are previewed."""
MANY_ANSWERS = 8
"""Possible answers beyond which forward correction, whose work grows with their square, is tried at eight ε only."""
X_BOUND = 2.5
"""Largest length of a row of features in previews: more noise is needed for longer rows than they are worth."""
_USUAL_MODELS = 128
"""Shadow models at every ε where no number is given."""
_BY_BITS = frozenset({"oue", "rappor", "the"})
"""Mechanisms that report a feature bit by bit."""

_R = TypeVar("_R", "LossChangeEstimate", "RiskCurve", "Decision")


@dataclass(kw_only=True, eq=False, repr=False)
class Study:
    """A table and a question: which columns are randomised, and what they are used to predict.

    A study answers three questions on one axis of privacy budgets ε. `cost`: how much worse do the
    predictions get? `risk`: what does an attacker get? `decide`: which ε do the limits lead to? The table is
    read, prepared and split once, and the model is fitted once, when the first answer needs it. A study does
    not change: another question is another study.

    Parameters
    ----------
    data : path, TableFile or frame
        Table with one row for each person: a file (csv, parquet, arrow, Excel, SPSS, Stata or SAS), or a
        pandas, polars or arrow frame.
    label : str
        Column that the model predicts.
    protect : str or sequence of str, optional
        Columns that are randomised: the label, features, or both. None: the label.
    groups : mapping of name to expression, or sequence of "[NAME=]EXPRESSION", optional
        Groups of people whose answers alone are randomised, beside everybody:
        ``{"young": "age < 30"}``.
    model : str or scikit-learn estimator, optional
        Model that is trained: "logistic", "ridge", "hist-gradient-boosting", "random-forest", "extra-trees", "mlp",
        "xgboost", "lightgbm", or any scikit-learn classifier or regressor. None: logistic regression on one-hot
        categories and standardised numbers. Models that are not linear are trained again as a whole.
    test : path, TableFile or frame, optional
        Test data. None: `test_share` of the rows are set aside.
    drop : sequence of str
        Columns that the model does not see. Groups may use them.
    weight : str, optional
        Column with the weight of each row.
    categorical : sequence of str
        Columns of numbers that are codes.
    bins : mapping of column to number of bins or Bins, optional
        Columns of numbers that are put into bins. Bins with bounds declare the possible answers.
    missing : {"auto", "error", "category", "drop"}
        Treatment of missing answers.
    test_share : float in (0, 1)
        Share of the rows that are set aside, stratified by label.
    seed : int
        Seed of the split, the simulated runs and the attacks.
    positive : str, optional
        Value of the label that counts as yes. All others become "other".
    categories : mapping of column to values, optional
        Possible answers of columns. Without those of a protected column the observed answers are taken, with
        a `PrivacyLeakWarning`. A mechanism that protects whole records needs those of all columns.
    ranges : mapping of column to (low, high), optional
        Declared ranges of columns of numbers or dates, for mechanisms that train on the true answers. Values
        beyond are cut to the range, and the range scales the column. A mechanism that protects whole records
        needs them.
    declared : sequence of str
        Protected columns whose answers in the data may be known to everybody.
    regularisation : float, optional
        C of the logistic model, alpha of the ridge; 1 unless given.
    delimiter, encoding : str, optional
        Character between the columns of a csv file, and its encoding. None: detected.
    identity : str, optional
        Column that says whose record it is. The model does not see it. `decide` then also tries without the
        columns that identify people. Needs the extra explain.
    candidates : path, TableFile or frame, optional
        Records on offer, which the model is not trained on. They are prepared like the test data.
    candidates_are : str
        What messages call the candidates.

    Attributes
    ----------
    protected : tuple of str
        Columns that are randomised.

    Notes
    -----
    The results are functions of the raw data and not private themselves: publishing them, or choosing ε by
    them, leaks.

    Examples
    --------
    >>> from epsilens import Study
    >>> from epsilens.data import load_survey
    >>> study = Study(load_survey(), label="affair", categories={"affair": ["no", "yes"]})
    >>> cost = study.cost(epsilon="0.5:2:3")
    >>> cost.to_frame()[["epsilon", "loss_change", "trusted"]].round(3)
       epsilon  loss_change  trusted
    0      0.5        0.080     True
    1      1.0        0.042     True
    2      2.0        0.007     True
    >>> risk = study.risk(epsilon="0.5:2:3", shadow_models=64)
    >>> decision = study.decide(mechanisms="randomised-response", max_loss_increase=0.02)
    >>> decision.recommendation.epsilon
    2.0
    """

    data: object = field(kw_only=False)
    label: str
    protect: str | Sequence[str] | None = None
    groups: Groups | None = None
    model: object | None = None
    test: object | None = None
    drop: Sequence[str] = ()
    weight: str | None = None
    categorical: Sequence[str] = ()
    bins: Mapping[str, Bins | int] | None = None
    missing: MissingPolicy = "auto"
    test_share: float = 0.25
    seed: int = 0
    positive: str | None = None
    categories: Mapping[str, Sequence[object]] | None = None
    ranges: Mapping[str, tuple[object, object]] | None = None
    declared: Sequence[str] = ()
    regularisation: float | None = None
    delimiter: str | None = None
    encoding: str | None = None
    identity: str | None = None
    candidates: object | None = None
    candidates_are: str = "candidates"
    protected: tuple[str, ...] = field(default=(), init=False)
    _groups: tuple[tuple[str, Expression], ...] = field(default=(), init=False)
    _task: TaskKind = field(default="classification", init=False)
    _is_given: bool = field(default=False, init=False)
    _fitted: dict[bool, WhatIf] = field(default_factory=dict, init=False)
    _grids: dict[str, tuple[float, ...]] = field(default_factory=dict, init=False)
    _last_cost: LossChangeEstimate | None = field(default=None, init=False)
    _last_risk: RiskCurve | None = field(default=None, init=False)
    _cost_arguments: dict[str, Any] = field(default_factory=dict, init=False)
    _risk_arguments: dict[str, Any] = field(default_factory=dict, init=False)
    _is_made: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise InputTypeError(
                argument="label", expected="the name of a column", got=type(self.label).__name__
            )
        for name in ("drop", "categorical", "declared"):
            setattr(self, name, _column_names(getattr(self, name), argument=name))
        if self.protect is not None:
            self.protect = _column_names(self.protect, argument="protect")
        self.protected = tuple(self.protect or (self.label,))
        self.seed = as_count(self.seed, name="seed", least=0)
        # Whether the model is an estimator of the user.
        self._is_given = not (self.model is None or isinstance(self.model, str))
        if self._is_given:
            self._check_estimator()
        elif self.model is not None:
            from epsilens.models.scikit_learn import LINEAR_MODELS, ModelName

            as_choice(self.model, get_args(ModelName), name="model")
            if self.model in LINEAR_MODELS:
                self._task = "regression" if self.model == "ridge" else "classification"
            else:
                self._task = "any"
        if self.bins is not None:
            _check_bins(self.bins)
        if self.groups is not None:
            self._groups = _read_groups(self.groups)
        if isinstance(self.groups, Iterator):
            self.groups = self._groups
        if self.identity is not None:
            check_identity(self.identity, label=self.label, drop=self.drop)
        self._is_made = True

    def _check_estimator(self) -> None:
        """Refuse what is no model, and a setting of the default model beside another one."""
        from sklearn.base import is_classifier, is_regressor

        expected = "the name of a model, such as 'logistic', or a scikit-learn estimator"
        if isinstance(self.model, type):
            raise InputTypeError(
                argument="model",
                expected=expected,
                got=f"the class {self.model.__name__}",
                hint=f"Write {self.model.__name__}().",
            )
        if not (hasattr(self.model, "fit") and hasattr(self.model, "get_params")):
            raise InputTypeError(argument="model", expected=expected, got=type(self.model).__name__)
        if not (is_classifier(self.model) or is_regressor(self.model)):
            raise InputTypeError(
                argument="model",
                expected="a classifier or a regressor",
                got=type(self.model).__name__,
            )
        if self.regularisation is not None:
            raise InputError(
                f"{setting('regularisation')} belongs to the models logistic and ridge, got an estimator in "
                f"{setting('model')}. Set it in the estimator, or leave it out."
            )
        self._task = "classification" if is_classifier(self.model) else "regression"

    def __setattr__(self, name: str, value: object) -> None:
        # What is private holds the answers so far.
        if self._is_made and not name.startswith("_"):
            raise AttributeError("A study does not change: make a new one.")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A study does not change: make a new one.")

    def __repr__(self) -> str:
        return f"Study(label={self.label!r}, protect={list(self.protected)})"

    # --- From the table to the model ---

    @cached_property
    def prepared(self) -> Prepared:
        """The table, checked and split into training and test data."""
        from epsilens.data import prepare

        return prepare(
            self._read("data"),
            label=self.label,
            drop=self.drop,
            weight=self.weight,
            categorical=self.categorical,
            bins=self.bins,
            missing=self.missing,
            test=self._read("test"),
            test_share=self.test_share,
            seed=self.seed,
            positive=self.positive,
            groups=self._groups,
            task=self._task,
            candidates=self._read("candidates"),
            candidates_are=self.candidates_are,
            beside=() if self.identity is None else (self.identity,),
        )

    def _read(self, argument: Literal["data", "test", "candidates"]) -> object:
        """Read a file; a table in memory stays as it is."""
        from epsilens.data import read_table

        source: object = getattr(self, argument)
        if not isinstance(source, str | Path):
            return source
        what = "the data" if argument == "data" else setting(argument)
        return read_table(source, delimiter=self.delimiter, encoding=self.encoding, what=what)

    @cached_property
    def domains(self) -> dict[str, list[object]] | None:
        """The declared answers of the protected columns, in the type of the column; None if there are none.

        A feature without declared answers is warned of.
        """
        return self.read_domains()

    def read_domains(self, *, warn: bool = True) -> dict[str, list[object]] | None:
        """Return the declared answers of the protected columns; with or without the warning."""
        from epsilens.data import Bins, declared_domains

        prepared, schema = self.prepared, self.prepared.schema
        # A column may be declared that is not protected, or not even used.
        beside = [name for name in (self.label, self.weight, self.identity) if name is not None]
        for name in self.declared:
            require_column(name, [*schema.names, *beside, *self.drop], argument="declared")
        # A column that is in the file and not in the model cannot be protected.
        for name in self.protected:
            for argument, columns in (("drop", tuple(self.drop)), ("weight", (self.weight,))):
                if name in columns:
                    raise InputError(
                        f"column {name!r} is named in {setting(argument)} and cannot be named in "
                        f"{setting('protect')} too. Name it in one of them."
                    )
            if name in schema.encoded_as("left out") and name != self.label:
                raise InputError(
                    f"{setting('protect')} must name a column that the model uses, got {name!r}, which is "
                    f"{schema[name].note}. Choose another column."
                )
        found = declared_domains(
            prepared,
            [name for name in self.protected if name not in self.declared],
            bins={n: Bins(b) if isinstance(b, int) else b for n, b in (self.bins or {}).items()},
            positive=self.positive,
            categories=self._protected_categories,
            warn=warn,
        )
        for name in self.protected:
            if name in self.declared:
                domain = schema[name].domain if name != self.label else prepared.label_categories
                found = {**(found or {}), name: list(domain or ())}
        return found

    @property
    def _protected_categories(self) -> dict[str, Sequence[object]]:
        """Declared answers of the columns that are randomised: those given, else those of the file."""
        given = {**self.prepared.declared, **(self.categories or {})}
        return {name: values for name, values in given.items() if name in self.protected}

    def declaration(self, protects: Protects) -> Declaration:
        """Return what is declared of the columns, as a private training takes it.

        Parameters
        ----------
        protects : {"answer", "record"}
            With "record" every column is protected.
        """
        from epsilens.data import Bins
        from epsilens.models.training_rows import Declaration, range_column

        names = [*self.prepared.schema.names, self.label]
        given = {
            name: Bins(b) if isinstance(b, int) else b for name, b in (self.bins or {}).items()
        }
        found = Declaration(
            label=self.label,
            protected=frozenset(names if protects == "record" else self.protected),
            categories={
                name: [str(value) for value in values]
                for name, values in (self.categories or {}).items()
            },
            ranges={name: range_column(name, ends) for name, ends in (self.ranges or {}).items()},
            bins=given,
            positive=self.positive,
        )
        found.check([*names, *self.drop, *filter(None, (self.weight, self.identity))])
        return found

    def estimator(self, *, mechanism: str = "rr", ignores_categories: bool = False) -> Any:
        """Return the model, not yet fitted.

        Parameters
        ----------
        mechanism : str
            A mechanism that reports bits needs a column for every category.
        ignores_categories : bool
            Whether nothing is randomised, so that declared answers get no columns of their own.
        """
        from epsilens.models.scikit_learn import default_estimator

        if self._is_given:
            return self.model
        written = {
            name: [str(value) for value in values]
            for name, values in self._protected_categories.items()
        }
        return default_estimator(
            self.prepared.schema,
            model=self.model or "logistic",  # type: ignore[arg-type]
            is_classifier=bool(self.prepared.label_categories),
            regularisation=self.regularisation,
            categories=None if ignores_categories else written,
            keep_all=self.protected if mechanism in _BY_BITS else (),
        )

    def require_factorisable(self, what: str, *, is_dense: bool = False) -> None:
        """Refuse a default model that is too wide for matrices of its parameters.

        Parameters
        ----------
        what : str
            What needs them.
        is_dense : bool
            Whether the encoded records are needed with all their zeros too.
        """
        from epsilens.models.scikit_learn import LINEAR_MODELS, require_factorisable

        if self.model in {None, *LINEAR_MODELS}:
            require_factorisable(self.prepared, what=what, is_dense=is_dense)

    def fitted(self, mechanism: str = "rr") -> WhatIf:
        """Return the part that estimates the cost, with the fitted model.

        Parameters
        ----------
        mechanism : str
            A mechanism that reports bits has a model of its own.
        """
        from epsilens.whatif import WhatIf

        by_bits = mechanism in _BY_BITS
        if by_bits not in self._fitted:
            prepared = self.prepared
            fitted = WhatIf(self.estimator(mechanism=mechanism)).fit(
                prepared.X_train,
                prepared.y_train,
                prepared.X_test,
                prepared.y_test,
                prepared.sample_weight,
                sample_weight_test=prepared.sample_weight_test,
            )
            # Cost and risk ask the same question of the same model.
            self._fitted[by_bits] = fitted.keep_question()
        return self._fitted[by_bits]

    def attacked(self, *, is_dense: bool = False) -> AttackStudy:
        """Return the part that estimates the risk, with the same fitted model.

        Parameters
        ----------
        is_dense : bool
            Whether the encoded records are needed with all their zeros.
        """
        from epsilens.risk import AttackStudy

        self.require_factorisable("an attack", is_dense=is_dense)
        fitted = self.fitted()
        return AttackStudy(fitted.estimator).share_fit(fitted)

    @property
    def is_linear(self) -> bool:
        """Whether the model has an exact answer, so that nothing is trained again."""
        from epsilens.influence.any_model import AnyModel

        return not isinstance(self.fitted().baseline_, AnyModel)

    @property
    def baseline(self) -> Baseline:
        """The model without any privacy: its outcomes on the test data, and its size."""
        return self.fitted().baseline_.numbers()

    @property
    def classes(self) -> tuple[object, ...]:
        """The possible answers of the label: those declared, else those observed."""
        return tuple(self.fitted().baseline_.label.categories or ())

    @property
    def possible_answers(self) -> dict[str, tuple[object, ...]]:
        """The possible answers of the label and of the protected categories: those declared, else those observed."""
        found = {self.label: self.classes}
        declared = self.read_domains(warn=False) or {}
        for name in self.protected:
            known = declared.get(name) or (
                () if name == self.label else self.prepared.schema[name].domain
            )
            if known and name not in (self.bins or {}):
                found[name] = tuple(known)
        return found

    def asking(self, *, groups: Groups | None = None, declared: Sequence[str] = ()) -> Study:
        """Return a study of the same model that asks about other groups.

        Parameters
        ----------
        groups : mapping or sequence, optional
        declared : sequence of str
            As of the study itself.
        """
        other = replace(self, groups=groups, declared=declared)
        other._fitted = self._fitted
        return other

    def task(self, *, x_bound: float | None = None, protects: Protects = "answer") -> Task:
        """Return what a mechanism that trains on the true answers is tried on.

        Columns that are declared are encoded by their declaration, as `epsilens train` does, and the others
        by what the training data hold.

        Parameters
        ----------
        x_bound : float, optional
            As of `decide`.
        protects : {"answer", "record"}
            The claim. For "record" all columns are to be declared; `Task.undeclared` names those that are not.
        """
        import numpy as np

        from epsilens.data.prepare import typed_like
        from epsilens.influence.any_model import AnyModel
        from epsilens.influence.streamed_baseline import StreamedBaseline
        from epsilens.mechanisms import Task
        from epsilens.models.scikit_learn import transform
        from epsilens.models.table_encoder import CategoryColumn, TableEncoder, learnt_columns

        prepared, baseline = self.prepared, self.fitted().baseline_
        assert not isinstance(baseline, StreamedBaseline)  # noqa: S101
        is_whole = isinstance(baseline, AnyModel)
        tested = baseline.y_test if isinstance(baseline, AnyModel) else baseline.evaluation.y
        declaration = self.declaration(protects)
        names = list(map(str, prepared.X_train))
        declared = {name: one for name in names if (one := declaration.column(name)) is not None}
        encoder: TableEncoder | None = None
        if is_whole or (declared and not self._is_given):
            learnt = learnt_columns(prepared.X_train, prepared.schema, {})
            by_name = {column.name: column for column in learnt} | declared
            encoder = TableEncoder([by_name[name] for name in names])

        def encode(table: pd.DataFrame, what: str = "training") -> FloatArray:
            if encoder is not None:
                return encoder.transform(table)
            part = transform(None if is_whole else baseline.transformers, table, what=what)
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            return np.asarray(dense, dtype=np.float64)

        def values(name: str) -> Sequence[object]:
            column = declared[name]
            if isinstance(column, CategoryColumn):
                is_number = prepared.X_train[name].dtype.kind in "iufb"
                texts = [str(value) for value in column.categories]
                return typed_like(texts, is_number=is_number, name=name)
            return (column.low, column.high)

        # From the number of columns alone: a bound that looks at the rows would be a leak.
        usual = min(X_BOUND, round(math.sqrt(len(names) + 1.0), 2))
        label = baseline.label
        is_record = protects == "record"
        undeclared = declaration.undeclared(list(prepared.schema.names)) if is_record else []
        return Task(
            X=encode(prepared.X_train),
            y=label.y.astype(np.intp),
            X_test=encode(prepared.X_test, "test"),
            y_test=tested.astype(np.intp),
            n_classes=label.n_classes,
            table=prepared.X_train,
            table_test=prepared.X_test,
            label=self.label,
            protected=self.protected,
            x_bound=usual if x_bound is None else x_bound,
            baseline=self.baseline,
            declared={name: values(name) for name in declared},
            undeclared=tuple(names if is_record and self._is_given else undeclared),
            encode=encode,
        )

    # --- Answers ---

    def cost(
        self,
        *,
        epsilon: Epsilon | None = None,
        method: str = "auto",
        correction: str | None = None,
        mechanism: str = "rr",
        seconds: float = 10.0,
        n_draws: int = 400,
        repeats: int | None = None,
        max_error: float | None = None,
        everybody: bool = True,
        dependent_groups: Literal["refuse", "warn"] = "refuse",
        inverse_hessian: str | None = None,
        checkpoint: str | Path | None = None,
        retraining_seconds: float = 0.0,
        together: bool = False,
        progress: Progress | None = None,
    ) -> LossChangeEstimate:
        """Estimate what each ε would do to the predictions, without training again for each.

        Parameters
        ----------
        epsilon : grid such as "0.1:10:30", number, list, or {column: epsilon}, optional
            Privacy budgets. None: those of the last risk, else "0.1:10:30". With `together`,
            {group: epsilon}, of which lists of equal length give one cell a position.
        method, correction, mechanism, seconds, n_draws, repeats, max_error, inverse_hessian, dependent_groups
            As of `WhatIf.estimate`.
        everybody : bool
            Whether the cost for everybody comes first where there are groups. `decide` needs it.
        checkpoint : path, optional
            File that keeps finished trainings of the methods retrain and curve.
        retraining_seconds : float
            Time for training again where the estimate for everybody failed its check.
        together : bool
            Whether all groups are randomised at once, each at its own ε; see `WhatIf.estimate`.
        progress : callable, optional
            Called with (done, total, what).

        Returns
        -------
        LossChangeEstimate
            With `.document`, `.to_frame()`, `.plot()` and `.choose(max_loss_increase=...)`.
        """
        from epsilens.whatif.answer import measure_untrusted

        if checkpoint is not None and method not in {"retrain", "curve"} and self.is_linear:
            raise InputError(
                f"{setting('checkpoint')} belongs to {setting('method', 'retrain')} and to {setting('method', 'curve')}. "
                "Add one of them, or leave it out."
            )
        arguments: dict[str, Any] = {
            "epsilon": self._grid(epsilon, self._last_risk),
            "correction": correction,
            "mechanism": mechanism,
            "repeats": repeats,
            "dependent_groups": dependent_groups,
            **({"together": True} if together else {}),
        }
        estimating: dict[str, Any] = {
            "method": method,
            "seconds": seconds,
            "n_draws": n_draws,
            "inverse_hessian": inverse_hessian,
            "max_error": max_error,
        }
        question: dict[str, Any] = {
            **arguments,
            "protect": self.protected,
            "groups": self._group_masks(everybody=everybody and not together),
            "categories": self.domains,
            "random_state": self.seed,
            "progress": progress,
        }
        study = self.fitted(mechanism)
        found = study.estimate(**question, **estimating, checkpoint=checkpoint)
        self._cost_arguments = {
            **arguments,
            **estimating,
            "everybody": everybody,
            "retraining_seconds": retraining_seconds,
        }
        if retraining_seconds > 0:
            found = measure_untrusted(found, seconds=retraining_seconds, progress=progress)
        self._last_cost = found
        return self._with_notes(found)

    def _group_masks(self, *, everybody: bool) -> dict[str, object] | None:
        """Return who is asked about; None: everybody alone."""
        import numpy as np

        from epsilens.document.wording import EVERYBODY
        from epsilens.influence.groups import Group

        prepared = self.prepared
        if not prepared.groups:
            return None
        found: dict[str, object] = {}
        if everybody:
            found[EVERYBODY] = np.ones(len(prepared.y_train), dtype=bool)
        for name, mask in prepared.groups.items():
            found[name] = Group(
                name=name,
                mask=mask,
                columns=prepared.group_columns[name],
                test_mask=prepared.test_groups[name],
            )
        return found

    def _attacked_groups(self) -> dict[str, Any]:
        """Return the groups that an attacker knows: those that no protected column says, if not too small."""
        prepared = self.prepared
        return {
            name: mask
            for name, mask in prepared.groups.items()
            if not prepared.group_columns[name] & set(self.protected) and _is_large(mask)
        }

    def _with_small_groups(self, curve: RiskCurve) -> RiskCurve:
        """Name the groups that are too small for a number."""
        small = [
            Note(
                "few-records-in-group",
                f"group {name!r} has too few records to be attacked by itself.",
                name,
            )
            for name, mask in self.prepared.groups.items()
            if not _is_large(mask)
        ]
        document = curve.document
        told = document.model_copy(update={"notes": [*document.notes, *small]})
        return replace(curve, document=told) if small else curve

    def risk(
        self,
        *,
        epsilon: Epsilon | None = None,
        mechanism: str = "rr",
        correction: str | None = None,
        shadow_models: int | None = None,
        detect: float | None = None,
        seconds: float | None = None,
        online: bool = False,
        confidence: float = 0.95,
        checkpoint: str | Path | None = None,
        together: bool = False,
        progress: Progress | None = None,
        announce: Callable[[str], None] | None = None,
        delta: float | None = None,
        clip: float | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        learning_rate: float | None = None,
        hidden: Sequence[int] | None = None,
    ) -> RiskCurve:
        """Attack models at each ε: what is guessed, what chance reaches, what no attack can exceed.

        Parameters
        ----------
        epsilon : grid such as "0.1:10:30", number, list, or {column: epsilon}, optional
            Privacy budgets. None: those of the last cost, else "0.1:10:30".
        mechanism : {"rr", "dpsgd"}
            Whether the answers are randomised or the model is trained with noise. Their ε are of different
            things.
        correction : {None, "none", "forward"}
            Whether the attacked models are trained on a loss that knows the noise of the label.
        shadow_models : int, optional
            Models that are trained and attacked for every ε. None: 128, or as many as `detect` needs.
        detect : float in (0, 0.25), optional
            Chooses the number of models by the effect that is to be found; see `AttackStudy.estimate`.
        seconds : float, optional
            Time for the trainings of a model that is not linear; see `AttackStudy.estimate`.
        online, confidence, checkpoint, together, progress, announce
            As of `AttackStudy.estimate`.
        delta : float in (0, 1), optional
            Delta of "dpsgd", well below one over the number of training records.
        clip, epochs, batch, learning_rate, hidden
            Other settings of "dpsgd", as of `AttackStudy.estimate_dp_sgd`.

        Returns
        -------
        RiskCurve
            With `.document`, `.to_frame()`, `.plot()` and `.choose(max_attack_rate=...)`.
        """
        self._require_probabilities()
        as_choice(mechanism, ("rr", "dpsgd"), name="mechanism")
        arguments: dict[str, Any] = {
            "epsilon": self._grid(epsilon, self._last_cost),
            "shadow_models": shadow_models,
            "online": online,
            "confidence": confidence,
        }
        if detect is not None:
            arguments["detect"] = detect
        elif shadow_models is None:
            arguments["shadow_models"] = _USUAL_MODELS
        settings = {
            **arguments,
            "random_state": self.seed,
            "checkpoint": checkpoint,
            "progress": progress,
            "announce": announce,
        }
        training: dict[str, object] = {
            "delta": delta,
            "clip": clip,
            "epochs": epochs,
            "batch": batch,
            "learning_rate": learning_rate,
            "hidden": hidden,
        }
        given = {name: value for name, value in training.items() if value is not None}
        if mechanism == "rr":
            arguments["correction"] = settings["correction"] = correction
            if given:
                raise InputError(
                    f"{setting(next(iter(given)))} belongs to {setting('mechanism', 'dpsgd')}, got rr. Add that, or "
                    "leave it out."
                )
            if seconds is not None:
                arguments["seconds"] = settings["seconds"] = seconds
            domains = self.domains
            if together:
                arguments["together"] = settings["together"] = True
            found = self.attacked().estimate(
                protect=self.protected,
                categories=domains,
                groups=self.prepared.groups if together else self._attacked_groups(),
                **settings,
            )
            self._last_risk = found = self._with_small_groups(found)
            self._risk_arguments = arguments
            return self._with_notes(found)
        for name, is_given in (
            ("correction", correction not in {None, "none"}),
            ("together", together),
        ):
            if is_given:
                raise InputError(
                    f"{setting(name)} belongs to {setting('mechanism', 'rr')}, got dpsgd. Leave it out."
                )
        settings |= given | {"delta": self._checked_delta(delta)}
        large = {name: mask for name, mask in self.prepared.groups.items() if _is_large(mask)}
        found = self.attacked(is_dense=True).estimate_dp_sgd(groups=large, **settings)
        return self._with_notes(self._with_small_groups(found), observed=False)

    def _require_probabilities(self) -> None:
        """Refuse a model that an attack has no probabilities of, before any work."""
        if self.model == "ridge":
            raise InputError(
                argument="model",
                expected="logistic for an attack, which needs probabilities",
                got="ridge",
                hint="Leave it out, and predict a column of categories.",
            )

    def _checked_delta(self, delta: float | None, *, is_needed: bool = True) -> float:
        """Return the delta; warn of one that would allow to publish a whole record."""
        n_records = len(self.prepared.rows)
        sensible = f"1e-{len(str(n_records)) + 1}"
        if delta is None and not is_needed:
            return float(sensible)
        if delta is None:
            raise InputError(
                f"{setting('mechanism', 'dpsgd')} needs {setting('delta')}, well below 1/{n_records}, one over "
                f"the number of training records. Use for instance {sensible}."
            )
        if isinstance(delta, float) and 1 / n_records <= delta < 1:
            Note(
                "large-delta",
                f"{setting('delta')} is not below 1/{n_records}, one over the number of training records: it "
                f"would allow to publish a whole record. Use for instance {sensible}.",
            ).warn(PrivacyLeakWarning, stacklevel=3)
        return delta

    def decide(
        self,
        *,
        trust: Trust | None = None,
        protects: Protects = "answer",
        mechanisms: str | Sequence[str] | None = None,
        max_loss_increase: float | None = None,
        max_accuracy_loss: float | None = None,
        max_attack_rate: float | None = None,
        max_advantage: float | None = None,
        confidence: float = 0.9,
        measured: bool = False,
        proven_only: bool = False,
        seconds: float | None = None,
        epsilon: Epsilon | None = None,
        delta: float | None = None,
        x_bound: float | None = None,
        method: str = "auto",
        correction: str | None = None,
        shadow_models: int = 128,
        alpha: float | None = None,
        checkpoint: str | Path | None = None,
        together: bool = False,
        progress: Progress | None = None,
    ) -> Decision:
        """Pick the mechanism and the ε that the limits lead to.

        The cost and the risk of randomised response that were computed last are joined; what is missing is
        computed first. Where somebody is trusted with the true answers, mechanisms that train on them are
        compared too.

        Parameters
        ----------
        trust : {"nobody", "curator"}, optional
            Who may see the true answers. None: the curator who holds the table, unless `correction`,
            `identity`, an ε for each column or a randomising mechanism is asked for.
        protects : {"answer", "record"}
            The claim that is compared: mechanisms that protect less are not recommended.
        mechanisms : str or sequence of str, optional
            Names of the mechanisms to compare, such as "noisy-descent". None: all that are fast, and slow ones
            that `seconds` allows.
        max_loss_increase, max_accuracy_loss, max_attack_rate, max_advantage, confidence, measured, proven_only
            As of `epsilens.decision.decide`. Without a limit an advantage of at most 0.1 is the limit.
        seconds : float, optional
            Time for training again where an estimate failed its check, and for slow mechanisms. None: 20
            seconds, and no slow mechanism unless it is named.
        epsilon : grid such as "0.1:10:30", number, list, or {column: epsilon}, optional
            Privacy budgets at which cost and risk are computed anew. None: those of the last ones. With
            `together`, {group: epsilon}; the decision is among the positions of its lists.
        delta : float in (0, 1), optional
            Delta of mechanisms that need one. None: a power of ten well below one over the training records.
        x_bound : float, optional
            Largest length of a row of encoded features, the constant included; longer ones are shrunk. None:
            2.5, or the root of one more than the number of columns if that is less.
        method, correction : str, optional
            Method of the cost, and "forward" for a corrected loss, where they are computed.
        shadow_models : int
            Models that are attacked for every ε, where the risk is computed.
        alpha : float in [0, 1], optional
            With `identity`: share of what identifies people that must go. None: 0.2.
        checkpoint : path, optional
            Folder that keeps finished shadow models. The trainings for the cost of a model that is not linear are
            kept in a file beside it, whose name ends in "-cost".
        together : bool
            Whether every group is randomised at its own ε, everybody being in one. The advantage is that of
            the least protected group; the details say what is proven of each.
        progress : callable, optional
            Called with (done, total, what).

        Returns
        -------
        Decision
            With `.recommendation`, `.document`, `.to_frame()` and `.plot()`.
        """
        from epsilens.decision.others import Comparison
        from epsilens.decision.question import (
            RETRAINING_SECONDS,
            join,
            read_limits,
            require_one_mechanism,
        )
        from epsilens.influence.question import read_grid

        if alpha is not None and self.identity is None:
            raise InputError(
                f"{setting('alpha')} needs {setting('identity')}, the column that says whose record it is, "
                f"got none. Add it, or leave {setting('alpha')} out."
            )
        share = as_unit(DEFAULT_ALPHA if alpha is None else alpha, name="alpha")
        if together and (self.identity is not None or correction is not None or epsilon is None):
            refused = "identity" if self.identity is not None else "correction"
            raise InputError(
                f"{setting('together')} needs {setting('epsilon')}, an ε for each group."
                if self.identity is None and correction is None
                else f"{setting(refused)} cannot be decided about where every group has its own ε. "
                f"Leave it out, or leave out {setting('together')}."
            )
        joint: dict[str, Any] = {"together": True} if together else {}
        limits: dict[str, Any] = {
            "max_loss_increase": max_loss_increase,
            "max_accuracy_loss": max_accuracy_loss,
            "max_attack_rate": max_attack_rate,
            "max_advantage": max_advantage,
            "confidence": confidence,
            "measured": measured,
            "proven_only": proven_only,
            "seconds": RETRAINING_SECONDS if seconds is None else seconds,
        }
        checked = read_limits(**limits)
        if x_bound is not None:
            as_positive(x_bound, name="x_bound")
        if delta is not None:
            as_share(delta, name="delta")
        comparison = Comparison.read(
            trust=trust,
            protects=protects,
            mechanisms=mechanisms,
            is_local=correction is not None
            or self.identity is not None
            or isinstance(epsilon, Mapping),
        )
        self._require_probabilities()
        if self.identity is not None:
            require_extra("explain", "explaining a model by SHAP", "shap")
        self.declaration(comparison.protects)  # refused before the long work
        masked: list[str] = []
        grid = self._grid(epsilon, self._last_cost or self._last_risk)
        if epsilon is None and self._last_cost is not None:
            # What does not belong together is refused before the long work.
            if self._last_risk is None:
                require_one_mechanism(self._last_cost.document)
            else:
                join(self._last_cost.document, self._last_risk.document)
        if self.identity is not None:
            # First: a missing extra, or an identity that is none, is found before the long work.
            masked = self._masked_columns(share, progress)
        self.require_factorisable("an attack")
        corrected: dict[str, Any] = {} if correction is None else {"correction": correction}
        if progress is not None and not self.is_linear:
            n_epsilons = 1 if isinstance(grid, Mapping) else len(read_grid(grid))
            progress = self._whole_progress(
                progress, seconds, n_models=shadow_models, n_epsilons=n_epsilons
            )
        timed: dict[str, Any] = {} if self.is_linear or seconds is None else {"seconds": seconds}
        trained: dict[str, Any] = {} if self.is_linear else {"seconds": CURVE_SECONDS, **timed}
        if checkpoint is not None and not self.is_linear:
            trained["checkpoint"] = f"{str(checkpoint).rstrip('/')}-cost"
        if epsilon is not None or correction is not None or self._last_cost is None:
            priced = self.cost(
                epsilon=grid, method=method, progress=progress, **trained, **corrected, **joint
            )
            priced.document.require_order()
        if epsilon is not None or correction is not None or self._last_risk is None:
            with warnings.catch_warnings():
                # The cost has warned of the same columns.
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                self.risk(
                    epsilon=grid,
                    shadow_models=shadow_models,
                    checkpoint=checkpoint,
                    progress=progress,
                    **timed,
                    **corrected,
                    **joint,
                )
        assert self._last_cost is not None  # noqa: S101
        assert self._last_risk is not None  # noqa: S101
        previewed = self.preview_mechanisms(
            comparison,
            checked,
            budgets=None if epsilon is None or not comparison.names else read_grid(grid),
            delta=delta,
            x_bound=x_bound,
            method=method,
            seconds=checked.seconds if seconds is not None else 0.0,
            progress=progress,
        )
        decision = previewed.decide(self._last_cost, self._last_risk, progress=progress, **limits)
        if self.identity is not None:
            decision = self._with_lever(decision, masked, checkpoint, limits, progress)
        return self._with_notes(decision)

    def preview_mechanisms(
        self,
        comparison: Comparison,
        limits: CheckedLimits,
        *,
        budgets: Sequence[float] | None = None,
        delta: float | None = None,
        x_bound: float | None = None,
        method: str = "auto",
        seconds: float = 0.0,
        progress: Progress | None = None,
    ) -> Previewed:
        """Return what is compared with randomised response, on the budgets of the last risk.

        Parameters
        ----------
        comparison : Comparison
        limits : CheckedLimits
            Each mechanism is tried at the budget that meets the attack limit too.
        budgets : sequence of float, optional
            Budgets of the mechanisms that train on the true answers. None: the usual ones.
        delta, x_bound, method, progress
            As of `decide`.
        seconds : float
            Time for slow mechanisms that were not named.

        Returns
        -------
        Previewed
        """
        from epsilens.decision.others import Previewed, preview_others

        assert self._last_risk is not None  # noqa: S101
        others: list[Compared] = []
        remarks: list[Note] = []
        settings: dict[str, float] = {}
        n_numbers = len(self.prepared.y_train) * (
            self.baseline.n_parameters or self.prepared.X_train.shape[1]
        )
        if comparison.names and self.weight is not None:
            said = (
                "mechanisms that train on the true answers take no weights and were not compared."
            )
            remarks = [Note("weights-not-private", said)]
        elif comparison.names and n_numbers > MOST_NUMBERS:
            said = "the encoded table is too large to preview mechanisms that train on the true answers."
            remarks = [Note("too-large-to-preview", said)]
        elif comparison.names:
            task = self.task(x_bound=x_bound, protects=comparison.protects)
            level = self._checked_delta(delta, is_needed=False)
            settings = {"x_bound": task.x_bound, "delta": level}
            others, remarks = preview_others(
                task,
                comparison,
                limits,
                baseline_high=self._last_risk.document.cells[0].answer_inference_baseline_high
                or 1.0,
                budgets=budgets,
                delta=level,
                seconds=seconds,
                seed=self.seed,
                progress=progress,
            )
        grid = self._risk_arguments["epsilon"]
        return Previewed(
            comparison=comparison,
            compared=tuple(others),
            corrected=self._corrected(grid, method, progress)
            if comparison.with_correction
            else None,
            notes=tuple(remarks),
            settings=settings,
        )

    def _whole_progress(
        self, progress: Progress, seconds: float | None, *, n_models: int, n_epsilons: int
    ) -> Progress:
        """Return one progress of a decision about a model that is trained again.

        Parameters
        ----------
        n_models : int
            Attacked models at every ε, where time allows.
        n_epsilons : int
        """
        from epsilens.decision.progress import DecisionProgress
        from epsilens.influence.any_model import AnyModel
        from epsilens.models.passes import current_passes
        from epsilens.risk.any_shadows import SECONDS
        from epsilens.risk.power import FEWEST_MODELS
        from epsilens.whatif.curve import DRAWS

        model = self.fitted().baseline_
        assert isinstance(model, AnyModel)  # noqa: S101
        each = model.seconds_per_fit / current_passes().n_workers
        # At one ε at least, and at all of them at most; and those of the true answers.
        fewest, most = 2 * FEWEST_MODELS * each, (n_epsilons + 1) * n_models * each
        return DecisionProgress(
            progress,
            round_seconds=DRAWS * each,
            curve_seconds=CURVE_SECONDS if seconds is None else seconds,
            attack_seconds=max(fewest, min(most, SECONDS if seconds is None else seconds)),
        )

    def _corrected(
        self, grid: Epsilon, method: str, progress: Progress | None
    ) -> LossChangeEstimate | None:
        """Return the cost with forward correction of the label; None where it is not another mechanism."""
        before = self._cost_arguments
        if (
            self.protected != (self.label,)
            or isinstance(grid, Mapping)
            or self.identity is not None
            or not self.is_linear
            or before.get("correction") not in {None, "none"}
            or before.get("method") == "retrain"
        ):
            return None
        with warnings.catch_warnings():
            # The cost without correction has warned of the same columns.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            return self.fitted().estimate(
                epsilon=self._fewer(grid) if len(self.classes) > MANY_ANSWERS else grid,
                method=method,
                correction="forward",
                protect=self.protected,
                categories=self.domains,
                random_state=self.seed,
                progress=progress,
            )

    def _fewer(self, grid: Epsilon) -> Epsilon:
        """Return at most eight of the budgets, both ends among them."""
        from epsilens.channels import parse_grid

        if isinstance(grid, Mapping):
            return grid
        if isinstance(grid, int | float):
            return grid
        levels = parse_grid(grid) if isinstance(grid, str) else list(grid)
        places = {round(place * (len(levels) - 1) / 7) for place in range(8)}
        return [levels[place] for place in sorted(places)]

    def _grid(
        self, epsilon: Epsilon | None, before: LossChangeEstimate | RiskCurve | None
    ) -> Epsilon:
        """Return the budgets: those that were asked for, else those of another answer, else the default."""
        from epsilens.channels import parse_grid

        if epsilon is None and before is not None:
            kept: Any = before.document.provenance.settings["epsilon"]
            return tuple(kept) if isinstance(kept, list) else dict(kept)
        if epsilon is None:
            epsilon = DEFAULT_GRID
        if isinstance(epsilon, str):
            if epsilon not in self._grids:
                self._grids[epsilon] = tuple(parse_grid(epsilon))
            return self._grids[epsilon]
        return epsilon

    def _with_notes(self, result: _R, *, observed: bool = True) -> _R:
        """Add what was done to the table, what was observed, and the frame library that it came in."""
        from epsilens.data import TableFile
        from epsilens.data.prepare import observed_domain

        document: Any = result.document
        notes = [*self.prepared.notes, *document.notes]
        if observed:  # what `domains` warns of: protected features whose answers were not declared
            known = {self.label, *(self.domains or ())}
            notes += [
                observed_domain(name, may_be_binned=True)
                for name in self.protected
                if name in self.prepared.X_train and name not in known
            ]
        told = document.model_copy(update={"notes": distinct_notes(notes)})
        is_file = isinstance(self.data, str | Path | TableFile)
        return replace(result, document=told, template=None if is_file else self.data)

    # --- Masking as a lever ---

    def _masked_columns(self, alpha: float, progress: Progress | None) -> list[str]:
        """Return the columns that identify people and can be spared; never a protected one."""
        study = mask_study(self, seconds=MASKING_SECONDS, progress=progress)
        return study.choose(
            alpha=alpha,
            keep=[name for name in self.protected if name in self.prepared.X_train],
            alphas=(),
            random_state=self.seed,
            seconds=MASKING_SECONDS,
            progress=progress,
        ).document.masked

    def _with_lever(
        self,
        decision: Decision,
        masked: Sequence[str],
        checkpoint: str | Path | None,
        limits: Mapping[str, Any],
        progress: Progress | None,
    ) -> Decision:
        """Ask the same again without the masked columns, and say what that would change."""
        from epsilens.decision import masking_lever

        document: DecisionDocument = decision.document
        chosen = document.recommendation
        note = None
        if not masked:
            note = "no column identifies people that the model can spare: masking is no lever here."
        elif len(masked) == self.prepared.X_train.shape[1]:
            note = (
                "every column identifies people, and none would be left: masking is no lever here."
            )
        elif chosen.epsilon is None:
            note = "no ε is recommended, so masking was not tried as a lever."
        if note is not None:
            notes = [*document.notes, Note("masking-not-tried", note)]
            told = document.model_copy(update={"notes": notes})
            return replace(decision, document=told)
        met = {
            name: getattr(chosen, name)
            for name in ("max_loss_increase", "max_attack_rate", "max_advantage")
        }
        beside = None if checkpoint is None else f"{str(checkpoint).rstrip('/')}-masked"
        other = self._without(masked)
        other.cost(**self._cost_arguments, progress=progress)
        with warnings.catch_warnings():
            # The cost has warned of the same columns.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            other.risk(**self._risk_arguments, checkpoint=beside, progress=progress)
        again = other.decide(
            **{**limits, **met}, mechanisms="randomised-response", progress=progress
        )
        lever = masking_lever(decision, again, masked=masked)
        return replace(decision, document=document.model_copy(update={"lever": lever}))

    def _without(self, names: Sequence[str]) -> Study:
        """Return the same question on the same rows without some columns."""
        other = replace(self, identity=None)
        prepared, gone = self.prepared, set(names)
        columns = tuple(column for column in prepared.schema.columns if column.name not in gone)
        known = vars(other)  # where `cached_property` keeps them
        known["prepared"] = replace(
            prepared,
            X_train=prepared.X_train.drop(columns=list(names)),
            X_test=prepared.X_test.drop(columns=list(names)),
            schema=replace(prepared.schema, columns=columns),
        )
        known["domains"] = self.domains
        return other


def _column_names(given: object, *, argument: str) -> tuple[str, ...]:
    """Return names of columns; a text is one name.

    Examples
    --------
    >>> _column_names("age", argument="drop"), _column_names(["age", "sex"], argument="drop")
    (('age',), ('age', 'sex'))
    """
    expected = "the name of a column, or a list of names"
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputTypeError(argument=argument, expected=expected, got=type(given).__name__)
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            got = f"a list with {type(name).__name__}"
            raise InputTypeError(argument=argument, expected=expected, got=got)
    return names


def _is_large(mask: Any) -> bool:
    """Say whether a group has enough people to be attacked by itself."""
    from epsilens.risk.study import FEWEST_PEOPLE

    return int(mask.sum()) >= FEWEST_PEOPLE


def _check_bins(bins: object) -> None:
    """Refuse what are no bins of columns."""
    from epsilens.data import Bins

    expected = "a number of bins, or Bins, for each column"
    hint = "Write for instance {'age': 10}."
    if not isinstance(bins, Mapping):
        raise InputTypeError(argument="bins", expected=expected, got=type(bins).__name__, hint=hint)
    for name, value in bins.items():
        if not isinstance(name, str):
            got = f"a column named by {type(name).__name__}"
            raise InputTypeError(argument="bins", expected=expected, got=got, hint=hint)
        if isinstance(value, bool) or not isinstance(value, int | Bins):
            got = f"{type(value).__name__} for {name!r}"
            raise InputTypeError(argument="bins", expected=expected, got=got, hint=hint)
        if isinstance(value, int):
            as_count(value, name="bins", least=2)


def _read_groups(groups: object) -> tuple[tuple[str, Expression], ...]:
    """Return the groups with their conditions. Anything but text is refused by its type: it may be records.

    Examples
    --------
    >>> [name for name, _ in _read_groups({"young": "age < 30"})]
    ['young']
    """
    from epsilens.data.expressions import Expression, parse_expression, parse_group

    if isinstance(groups, str):
        groups = [groups]
    elif isinstance(groups, Mapping):
        groups = list(groups.items())
    if not isinstance(groups, Sequence | Iterator):
        raise _no_expression(groups)
    found = []
    for group in groups:
        if isinstance(group, str):
            found.append(parse_group(group))
            continue
        if not (isinstance(group, tuple) and len(group) == 2):
            raise _no_expression(group)
        name, condition = group
        if not isinstance(name, str):
            raise InputTypeError(
                argument="groups", expected="names in text for the groups", got=type(name).__name__
            )
        if not name.strip():
            raise InputError(
                argument="groups", expected="a name for every group", got="an empty one"
            )
        if isinstance(condition, str):
            condition = parse_expression(condition)
        elif not isinstance(condition, Expression):
            raise _no_expression(condition)
        found.append((name, condition))
    return tuple(found)


def _no_expression(got: object) -> InputTypeError:
    return InputTypeError(
        argument="groups",
        expected="expressions such as 'age < 30'",
        got=type(got).__name__,
        hint="Write the condition on the columns as text: {'young': 'age < 30'}.",
    )


def check_identity(identity: str, *, label: str, drop: Sequence[str]) -> None:
    """Refuse an identity that cannot be meant.

    Examples
    --------
    >>> check_identity("person", label="activity", drop=[])
    """
    if identity == label:
        raise InputError(
            f"{setting('identity')} must be another column than {setting('label')}, got {identity!r} twice. "
            "Name the column that says whose record it is."
        )
    if identity in drop:
        raise InputError(
            f"{setting('identity')} must not be dropped, got {identity!r} in {setting('drop')}. The model "
            f"does not see it anyway: leave it out of {setting('drop')}."
        )


def check_people(study: Study) -> None:
    """Refuse, before any training, a label or an identity from which no mask can be learnt.

    Examples
    --------
    >>> import pandas as pd
    >>> walks = pd.DataFrame({"who": list("abcd") * 9, "step": [0.5, 1.5, 2.5] * 12, "runs": ["no", "yes", "no"] * 12})
    >>> check_people(Study(walks, label="runs", identity="who"))
    """
    from epsilens.masking.records import checked_people

    prepared = study.prepared
    assert prepared.beside is not None  # noqa: S101
    columns = (prepared.y_train, prepared.beside.iloc[:, 0])
    checked_people(*(column.astype("category").cat.codes.to_numpy() for column in columns))


def _masked_estimator(study: Study) -> Any:
    """Return the model that is explained and trained on fewer columns: one-hot, whatever it is.

    The model that recognises people is linear and sees the same columns. Codes of categories would be numbers to
    it.
    """
    from sklearn.pipeline import Pipeline

    from epsilens.models.scikit_learn import LINEAR_MODELS, default_estimator

    estimator = study.estimator(ignores_categories=True)
    if study._is_given or study.model is None or study.model in LINEAR_MODELS:
        return estimator
    final = estimator.steps[-1][1]
    if "categorical_features" in final.get_params():
        final.set_params(categorical_features=None)
    encoder = default_estimator(study.prepared.schema).steps[0][1]
    return Pipeline([("encode", encoder), ("model", final)])


def mask_study(
    study: Study, *, seconds: float | None = None, progress: Progress | None = None
) -> MaskStudy:
    """Train the model and one that recognises people, of a study with an identity.

    Parameters
    ----------
    study : Study
    seconds : float, optional
        Time that it may take.
    progress : callable, optional

    Returns
    -------
    MaskStudy
    """
    from epsilens.masking import MaskStudy

    prepared = study.prepared
    assert prepared.beside is not None  # noqa: S101
    assert prepared.beside_test is not None  # noqa: S101
    offer = prepared.candidates
    public = None
    if offer is not None:
        public = (offer.X, offer.y, offer.beside.iloc[:, 0])
    study.require_factorisable("masking", is_dense=True)
    return MaskStudy(_masked_estimator(study)).fit(
        prepared.X_train,
        prepared.y_train,
        prepared.beside.iloc[:, 0],
        prepared.X_test,
        prepared.y_test,
        prepared.beside_test.iloc[:, 0],
        public=public,
        random_state=study.seed,
        seconds=seconds,
        progress=progress,
    )


def find_mask(
    study: Study,
    *,
    seconds: float = MASKING_SECONDS,
    progress: Progress | None = None,
    **choices: Any,
) -> tuple[MaskStudy, Mask]:
    """Train both models of a study with an identity, and choose the columns to mask.

    Parameters
    ----------
    study : Study
    seconds : float
        Time that training and choosing may take together.
    progress : callable, optional
    **choices
        As in `MaskStudy.choose`.

    Returns
    -------
    MaskStudy, Mask
        The document of the mask names label and identity.
    """
    started = time.perf_counter()
    explained = mask_study(study, seconds=seconds, progress=progress)
    found = explained.choose(
        **choices,
        random_state=study.seed,
        seconds=max(seconds - (time.perf_counter() - started), 1.0),
        progress=progress,
    )
    origin = found.document.provenance
    settings = origin.settings | {"label": study.label, "identity": study.identity}
    told = {"provenance": origin.model_copy(update={"settings": settings})}
    return explained, replace(found, document=found.document.model_copy(update=told))
