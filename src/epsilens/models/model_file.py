# SPDX-License-Identifier: Apache-2.0
"""A private model as one JSON file: encoder, coefficients, classes, bounds and receipt. Nothing is executed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from epsilens.document import TrainingDocument, load_document, to_dict
from epsilens.document.parts import Part
from epsilens.errors import InputError
from epsilens.models.gaussian_release import rho_of_epsilon
from epsilens.models.private_logistic import PrivateLogisticRegression
from epsilens.models.private_ridge import PrivateRidge
from epsilens.models.ridge_bounds import RidgeBounds, RowBounds
from epsilens.models.table_encoder import (
    CategoryColumn,
    EncodedColumn,
    NumberColumn,
    TableEncoder,
)
from epsilens.models.training_rows import class_array

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

MODEL_VERSION = 1
_LARGEST_FILE = 1 << 28
# How much numbers that follow from each other may differ.
_ROUNDING = 1e-6

Value = StrictBool | StrictInt | StrictFloat | StrictStr
Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]


class NumberPart(Part):
    """A column of numbers in a model file."""

    kind: Literal["number"] = "number"
    """What the column holds."""
    name: StrictStr
    """Its name."""
    centre: Number
    """What a missing value counts as."""
    scale: Number
    """What differences from the centre are divided by."""
    low: Number | None
    """Smaller numbers are cut to this."""
    high: Number | None
    """Larger numbers are cut to this."""
    n_bins: StrictInt | None
    """Number of bins between the two."""
    is_date: StrictBool
    """Whether the numbers are days since 1970."""


class CategoryPart(Part):
    """A column of categories in a model file."""

    kind: Literal["categories"] = "categories"
    """What the column holds."""
    name: StrictStr
    """Its name."""
    categories: list[Value]
    """The categories; each but the first has a coefficient."""


class ModelFile(Part):
    """All that a model file carries."""

    epsilens_model: Literal[1] = 1
    """Version of the file format."""
    model: Literal["logistic", "ridge"]
    """The model."""
    label: StrictStr
    """The column that it predicts."""
    classes: list[Value]
    """Classes in the order of the coefficients; empty for a number."""
    encoder: list[Annotated[NumberPart | CategoryPart, Field(discriminator="kind")]]
    """How each column becomes numbers."""
    x_bound: Annotated[Number, Field(gt=0)]
    """Length that longer rows are shrunk to, the constant of the intercept included."""
    constant: Annotated[Number, Field(ge=0)]
    """The value of the intercept's column in training."""
    y_bound: Number | None = None
    """Half width of the range of a number that is predicted."""
    coef_bound: Number | None = None
    """Largest length of the coefficients of a ridge model."""
    coefficients: list[list[Number]]
    """One row, or one for each class."""
    intercept: list[Number]
    """One number for each row."""
    receipt: dict[str, object]
    """The receipt."""

    @model_validator(mode="after")
    def _shapes_fit(self) -> Self:
        n_rows = 1 if len(self.classes) in (0, 2) else len(self.classes)
        widths = [1 if part.kind == "number" else len(part.categories) - 1 for part in self.encoder]
        if (self.model == "logistic") != (len(self.classes) >= 2):
            raise ValueError("classes must be those of the model")
        if len({(type(c) is bool, c) for c in self.classes}) < len(self.classes):
            raise ValueError("classes must differ")
        if not self.encoder:
            raise ValueError("the encoder must have columns")
        if len({part.name for part in self.encoder}) < len(self.encoder):
            raise ValueError("the columns of the encoder must differ")
        if len(self.coefficients) != n_rows or len(self.intercept) != n_rows:
            raise ValueError("coefficients and intercept must fit the classes")
        if any(len(row) != sum(widths) for row in self.coefficients):
            raise ValueError("coefficients must fit the encoder")
        if not self.constant < self.x_bound:
            raise ValueError("the constant must be below x_bound")
        return self


def model_text(pipeline: Pipeline, receipt: TrainingDocument) -> str:
    """Return the text of a model file.

    Parameters
    ----------
    pipeline : Pipeline
        A `TableEncoder` and a fitted private model.
    receipt : TrainingDocument
    """
    encoder, model = (step for _, step in pipeline.steps)
    is_ridge = isinstance(model, PrivateRidge)
    columns = [
        CategoryPart(name=c.name, categories=list(c.categories))
        if isinstance(c, CategoryColumn)
        else NumberPart(**vars(c))
        for c in encoder.columns
    ]
    file = ModelFile(
        model="ridge" if is_ridge else "logistic",
        label=receipt.label,
        classes=[] if is_ridge else model.classes_.tolist(),
        encoder=columns,
        x_bound=float(model.x_bound),
        constant=float(model.bounds_.constant),
        y_bound=model.bounds_.y_bound if is_ridge else None,
        coef_bound=model.bounds_.coef_bound if is_ridge else None,
        coefficients=np.atleast_2d(model.coef_).tolist(),
        intercept=np.atleast_1d(model.intercept_).tolist(),
        receipt=to_dict(receipt),
    )
    return json.dumps(file.model_dump(mode="json"), ensure_ascii=False, allow_nan=False) + "\n"


def load_model(source: str | Path) -> Pipeline:
    """Load a model that `epsilens train` has written, as a fitted scikit-learn pipeline.

    It predicts from tables with the columns of the training data; other columns are ignored. A missing
    value, or a category that the model does not know, is encoded as in training. Loading executes
    nothing: the file holds numbers and names.

    Parameters
    ----------
    source : str or Path
        The file, such as model.json.

    Returns
    -------
    sklearn.pipeline.Pipeline
        A `TableEncoder` and a `PrivateLogisticRegression` or `PrivateRidge`. The receipt of the training
        is `receipt_` of the latter, as a dict.

    Raises
    ------
    InputError
        If the file is no model of this version, or its parts contradict each other.

    Examples
    --------
    >>> load_model("survey.csv")
    Traceback (most recent call last):
    ...
    epsilens.errors.InputError: a model must be a file that `epsilens train` wrote, but 'survey.csv' ...
    """
    from sklearn.pipeline import Pipeline

    path = Path(source)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise _refusal(path, "is too large")
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError:
        raise _refusal(path, "cannot be read") from None
    except (ValueError, RecursionError):
        raise _refusal(path, "is no JSON") from None
    version = content.get("epsilens_model") if isinstance(content, dict) else None
    if version is None:
        raise _refusal(path, "is another kind of file")
    if version != MODEL_VERSION or isinstance(version, bool):
        raise _refusal(path, "has another version. Use the epsilens that wrote it, or a newer one")
    problem = None
    try:
        file = ModelFile.model_validate(content)
        receipt = load_document(file.receipt)
        columns = tuple(map(_column, file.encoder))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        problem = f"is malformed at `{place or 'model'}`"
    except InputError:
        problem = "has a malformed receipt or encoder"
    if problem is not None:
        raise _refusal(path, problem)
    if not isinstance(receipt, TrainingDocument) or receipt.model != file.model:
        raise _refusal(path, "has the receipt of another release")
    if contradiction := _contradiction(file, receipt):
        raise _refusal(path, f"contradicts its receipt: {contradiction}")
    model = _ridge(file, receipt) if file.model == "ridge" else _logistic(file, receipt)
    return Pipeline([("encoder", TableEncoder(columns)), ("model", model)])


def _contradiction(file: ModelFile, receipt: TrainingDocument) -> str | None:
    """Return what in a model, its receipt and the accounting of its noise cannot all be true."""
    origin, total = receipt.provenance, receipt.total
    is_descent = receipt.mechanism == "noisy-descent"
    features = {part.name for part in file.encoder}
    seeded = origin.seed is not None
    claims_all = receipt.protects == "record"
    expected = _accounted_mu(receipt)
    mu = 0.0 if receipt.mu is None else receipt.mu
    least = 1.0 - _ROUNDING
    fits = {
        "the label": file.label == receipt.label and file.label not in features,
        "x_bound": file.x_bound == receipt.x_bound,
        "the mechanism": receipt.mechanism == origin.method
        and (is_descent or receipt.mechanism == "output-perturbation")
        and not (is_descent and file.model == "ridge")
        and is_descent == (receipt.n_steps is not None),
        "what it protects": origin.settings.get("protects") == receipt.protects
        and {file.label} | (features if claims_all else set()) <= set(receipt.columns),
        "the number of classes": origin.settings.get("n_classes") == len(file.classes),
        "whether it is a simulation": receipt.simulated == origin.simulated == seeded
        and not (seeded and "proven" in receipt.number_types.values()),
        "ε, δ and μ": expected is not None and math.isclose(mu, expected, rel_tol=_ROUNDING),
        "μ and ρ": receipt.rho is not None
        and math.isclose(receipt.rho, mu * mu / 2.0, rel_tol=_ROUNDING),
        "the noise": receipt.sigma is not None and 0.0 < receipt.sigma < math.inf,
        # 2Φ(μ/2) − 1.
        "μ and the advantage": math.isclose(
            receipt.advantage, math.erf(mu / math.sqrt(8.0)), rel_tol=_ROUNDING
        ),
        "the total": total.delta >= least * receipt.delta
        and total.advantage >= least * receipt.advantage
        and total.n_releases == 1 + len({release.receipt for release in total.earlier})
        and (total.n_releases > 1 or total.epsilon >= least * receipt.epsilon),
    }
    return next((what for what, is_true in fits.items() if not is_true), None)


def _accounted_mu(receipt: TrainingDocument) -> float | None:
    """Return the μ of the stated ε and δ; None where no noise has them."""
    try:
        return math.sqrt(2.0 * rho_of_epsilon(receipt.epsilon, receipt.delta))
    except InputError:
        return None


def _column(part: NumberPart | CategoryPart) -> EncodedColumn:
    if isinstance(part, CategoryPart):
        return CategoryColumn(part.name, tuple(part.categories))
    return NumberColumn(**part.model_dump(exclude={"kind"}))


def _ridge(file: ModelFile, receipt: TrainingDocument) -> PrivateRidge:
    if file.y_bound is None or file.coef_bound is None:
        raise InputError("a ridge model must have the bounds of its target and coefficients.")
    model = PrivateRidge(
        epsilon=receipt.epsilon,
        delta=receipt.delta,
        x_bound=file.x_bound,
        y_bound=file.y_bound,
        coef_bound=file.coef_bound,
        adjacency="replace-one",
    )
    model.bounds_ = RidgeBounds(
        x_bound=file.x_bound,
        y_bound=file.y_bound,
        coef_bound=file.coef_bound,
        constant=file.constant,
    )
    model.coef_ = np.array(file.coefficients[0])
    model.intercept_ = file.intercept[0]
    _restore(model, file, receipt)
    return model


def _logistic(file: ModelFile, receipt: TrainingDocument) -> PrivateLogisticRegression:
    model = PrivateLogisticRegression(
        epsilon=receipt.epsilon,
        delta=receipt.delta,
        x_bound=file.x_bound,
        protects=receipt.protects,
        n_steps=receipt.n_steps or 120,
        classes=list(file.classes),
        mechanism=receipt.mechanism,  # type: ignore[arg-type]
    )
    model.bounds_ = RowBounds(x_bound=file.x_bound, constant=file.constant)
    model.coef_ = np.array(file.coefficients)
    model.intercept_ = np.array(file.intercept)
    model.classes_ = class_array(file.classes)
    model.mu_, model.advantage_ = float(receipt.mu or 0.0), receipt.advantage
    _restore(model, file, receipt)
    return model


def _restore(model: Any, file: ModelFile, receipt: TrainingDocument) -> None:
    """Set what every private model has after its training."""
    model.n_features_in_ = len(file.coefficients[0])
    model.sigma_, model.rho_ = receipt.sigma, receipt.rho
    model.epsilon_, model.delta_ = receipt.epsilon, receipt.delta
    model.simulated_ = receipt.simulated
    model.receipt_ = to_dict(receipt)


def _no_constant(_: str) -> float:
    raise ValueError


def _refusal(path: Path, problem: str) -> InputError:
    return InputError(
        f"a model must be a file that `epsilens train` wrote, but {path.name!r} {problem}."
    )
