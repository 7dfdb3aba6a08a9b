# SPDX-License-Identifier: Apache-2.0
"""How a study comes by its model: tables in memory, parquet files, or the last layer of a torch module."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens._validate import as_positive
from epsilens.data.frames import series_name, to_vector
from epsilens.document import PUBLIC_BODY
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning, setting
from epsilens.influence.baseline import BaselineModel, fit_baseline
from epsilens.influence.fitted import FittedModel
from epsilens.influence.question import Asked, Epsilon
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.streamed_fit import StreamedFit, fit_from_parquet, read_streamed_question
from epsilens.models.label import classes_of
from epsilens.models.torch_head import (
    as_columns,
    as_linear_model,
    head_features,
    read_head,
)
from epsilens.notes import Note
from epsilens.whatif.answer import Origin

# --- The study of a network's last layer: its features frozen, its head the linear model that is asked about ---

_FROZEN = Note(
    "frozen-layers",
    "the layers before the head are frozen: what other labels would do to them is not in these "
    "numbers. A few retrainings of the whole network, given to `calibrate` as "
    "`truth`, say how much that is.",
)
BODY_UNDECLARED = Note(
    "body-undeclared",
    "No ε is stated for this network: its body, the layers before the head, may have learnt from the true "
    "answers. Such features give the answers back, whatever answers the head is trained on. If the body never "
    "saw these answers, declare it: WhatIf(module, head=..., public_body=True).",
)
BODY_PUBLIC = Note(
    "body-public",
    "the body, the layers before the head, was declared public: trained without these answers. Nothing here "
    "checks that. If the body has seen them, ε protects nothing.",
)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class FrozenHead:
    """A converged head, and the features it was trained on.

    Attributes
    ----------
    baseline : BaselineModel
    features : array of shape (n, in_features)
    """

    baseline: BaselineModel
    features: FloatArray


def is_module(estimator: object) -> bool:
    """Return whether something is a torch module, without importing torch for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(estimator, torch.nn.Module)


def refuse_head(estimator: object, regularisation: float, *, public_body: object) -> None:
    """Refuse a module without a head, and beside an estimator what belongs to a head."""
    if is_module(estimator):
        raise InputError(
            "a torch module must be given with the name of its last linear layer. Write "
            'WhatIf(module, head="fc").'
        )
    if regularisation != 1.0:
        raise InputError(
            f"{setting('regularisation')} is for the head of a torch module, and there is no "
            f"{setting('head')}. Set the penalty of the estimator itself."
        )
    if public_body:
        raise InputError(
            f"{setting('public_body')} is about the layers before the head of a torch module, and "
            f"there is no {setting('head')}. Leave it out."
        )


def fit_head(
    module: object,
    head: str,
    X: object,
    y: object,
    X_test: object,
    y_test: object,
    *,
    regularisation: float,
    public_body: object,
    sample_weight: object | None,
    sample_weight_test: object | None,
    progress: Progress | None,
) -> FrozenHead:
    """Train the head to convergence on frozen features; see `WhatIf.fit` for the parameters."""
    layer = read_head(module, head)
    strength = as_positive(regularisation, name="regularisation")
    if not isinstance(public_body, bool):
        raise InputTypeError(
            argument="public_body",
            expected="True or False",
            got=type(public_body).__name__,
            hint=(
                "True declares that the layers before the head were trained without these answers."
            ),
        )
    assert is_module(module)  # noqa: S101  (read_head has looked)
    was_training = bool(getattr(module, "training"))  # noqa: B009
    y, y_test = as_columns(y), as_columns(y_test)
    classes = classes_of(y)
    model = as_linear_model(layer, classes, regularisation=strength)
    missing = len(classes) - len(np.unique(to_vector(y)))
    if missing:
        raise InputError(
            f"every class of a head must occur among the training labels, but {missing} do not: their bias "
            "has no finite optimum. Leave these classes out, or train on more records."
        )
    features = head_features(module, head, X, what="training", progress=progress)
    test_features = head_features(module, head, X_test, what="test", progress=progress)
    baseline = fit_baseline(
        model,
        features,
        y,
        test_features,
        y_test,
        sample_weight=as_columns(sample_weight),
        sample_weight_test=as_columns(sample_weight_test),
        given="head",
    )
    label = baseline.label
    if label.origin == "observed" and list(classes) == list(range(len(classes))):
        label = replace(label, origin="given")  # the outputs of the head declare its classes
    notes = [*baseline.notes, _FROZEN]
    if was_training:
        notes.append(
            Note(
                "training-mode",
                "the module was in training mode; its features are taken in evaluation mode, without dropout "
                "and with BatchNorm's running averages.",
            )
        )
    return FrozenHead(replace(baseline, label=label, notes=tuple(notes)), features)


def refuse_inputs(
    protect: str | Iterable[str] | None, groups: Mapping[str, object] | None, label: str | None
) -> list[str] | None:
    """Return what is protected; refuse anything but the label, and groups by expressions.

    The inputs of a network are not columns of its head: randomising one would change every feature.
    """
    known = {"label", "y", *([] if label is None else [label])}
    names = None if protect is None else [protect] if isinstance(protect, str) else list(protect)
    if names is not None and not set(names) <= known:
        raise InputError(
            f"with a {setting('head')} only the label can be protected: an input passes through "
            "the frozen layers and has no column of its own in the head. Leave "
            f"{setting('protect')} out, or name {label or 'label'!r}."
        )
    if isinstance(groups, Mapping) and any(isinstance(group, str) for group in groups.values()):
        raise InputError(
            f"with a {setting('head')} groups must be masks over the training records, got an "
            "expression: its columns are not in the head. Give an array of booleans."
        )
    return names


def with_body(asked: Asked, *, public_body: bool) -> Asked:
    """Return a question with what was declared of the body; undeclared, a record's ε is infinite."""
    if public_body:
        return replace(asked, notes=[*asked.notes, BODY_PUBLIC])
    BODY_UNDECLARED.warn(PrivacyLeakWarning, stacklevel=4)
    return replace(
        asked,
        record_epsilons=(math.inf,) * len(asked.record_epsilons),
        notes=[*asked.notes, BODY_UNDECLARED],
    )


# --- How a study comes by its model: tables in memory, parquet files, or the last layer of a torch module ---


class FittedStudy(FittedModel):
    """A model with the data it is trained on and a test set; `WhatIf` asks the questions."""

    def __init__(
        self,
        estimator: object,
        *,
        head: str | None = None,
        regularisation: float = 1.0,
        public_body: bool = False,
    ) -> None:
        self.estimator = estimator
        self.head = head
        self.regularisation = regularisation
        self.public_body = public_body

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
        if self.head is not None:
            found = fit_head(
                self.estimator,
                self.head,
                X,
                y,
                X_test,
                y_test,
                regularisation=self.regularisation,
                public_body=self.public_body,
                sample_weight=sample_weight,
                sample_weight_test=sample_weight_test,
                progress=progress,
            )
            self._keep(found.baseline, found.features, label_name=series_name(y), template=X)
        else:
            refuse_head(self.estimator, self.regularisation, public_body=self.public_body)
            self._fit_tables(
                X,
                y,
                X_test,
                y_test,
                sample_weight=sample_weight,
                sample_weight_test=sample_weight_test,
            )
        self._name_coefficients()
        return self

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
        if self.head is not None:
            raise InputError(
                f"{setting('head')} is for a torch module, whose inputs are tensors in memory. "
                "Use `fit`."
            )
        fitted = fit_from_parquet(
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
        self.keep_streamed(fitted)
        return self

    def keep_streamed(self, fitted: StreamedFit) -> None:
        """Take a model that was fitted to parquet files for this study's."""
        name = fitted.baseline.label.name
        self._keep(fitted.baseline, fitted.head, label_name=name, template=fitted.head)
        self._name_coefficients()

    def _name_coefficients(self) -> None:
        one = len(self.baseline_.intercept) == 1
        self.coef_ = self.baseline_.coefficients[0] if one else self.baseline_.coefficients
        self.intercept_ = float(self.baseline_.intercept[0]) if one else self.baseline_.intercept

    def _ask(
        self,
        protect: str | Iterable[str] | None,
        epsilon: Epsilon,
        groups: Mapping[str, object] | None,
        categories: Mapping[str, Sequence[object]] | None,
        dependent_groups: str,
        *,
        mechanism: str = "rr",
        is_paper: bool = False,
    ) -> tuple[Asked, BaselineModel | StreamedBaseline]:
        if isinstance(self.baseline_, StreamedBaseline):
            return read_streamed_question(
                self.baseline_,
                protect=protect,
                epsilon=epsilon,
                groups=groups,
                categories=categories,
                dependent_groups=dependent_groups,
                mechanism=mechanism,
                is_paper=is_paper,
            )
        if self.head is not None:
            protect = refuse_inputs(protect, groups, self.label_name_)
        asked = self._read_question(
            self.baseline_,
            protect,
            epsilon,
            groups,
            categories,
            dependent_groups,
            columns=None if self.head is None else [],
            mechanism=mechanism,
            is_paper=is_paper,
        )
        if self.head is not None:
            asked = with_body(asked, public_body=self.public_body)
        return asked, replace(self.baseline_, label=asked.label)

    def _origin(self) -> Origin:
        return Origin(
            baseline=self.baseline_,
            estimator=".".join(filter(None, (type(self.estimator).__name__, self.head))),
            fingerprint=self._fingerprint,
            template=self._template,
            declared={} if self.head is None else {PUBLIC_BODY: self.public_body},
        )
