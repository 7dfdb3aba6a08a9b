# SPDX-License-Identifier: Apache-2.0
"""How a study comes by its model: tables in memory, parquet files, or the last layer of a torch module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from epsilens._types import Progress
from epsilens.data.frames import series_name
from epsilens.document import PUBLIC_BODY
from epsilens.errors import InputError
from epsilens.influence.baseline import Baseline
from epsilens.influence.fitted import FittedModel
from epsilens.influence.question import Asked, Epsilon
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.streamed_fit import StreamedFit, fit_from_parquet
from epsilens.influence.streamed_question import read_streamed_question
from epsilens.whatif.answer import Origin
from epsilens.whatif.deep import fit_head, refuse_head, refuse_inputs, with_body

__all__ = ["FittedStudy"]


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
                "`head` is for a torch module, whose inputs are tensors in memory. Use `fit`."
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
    ) -> tuple[Asked, Baseline | StreamedBaseline]:
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
