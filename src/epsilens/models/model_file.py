# SPDX-License-Identifier: Apache-2.0
"""A private model as one JSON file: encoder, coefficients, classes, bounds and receipt. Nothing is executed."""

from __future__ import annotations

import json
import math
from itertools import pairwise
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
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.gaussian_release import rho_of_epsilon
from epsilens.models.privacy_accounting import (
    AIM_REPLACED,
    account,
    attack_ceiling,
    boosting_mu,
    sampled_advantage,
    zcdp_rho,
)
from epsilens.models.private_logistic import PrivateLogisticRegression
from epsilens.models.private_ridge import PrivateRidge
from epsilens.models.released_model import ReleasedAdditive, ReleasedLogistic
from epsilens.models.ridge_bounds import RidgeBounds, RowBounds
from epsilens.models.table_encoder import (
    CategoryColumn,
    EncodedColumn,
    NumberColumn,
    PlaceEncoder,
    TableEncoder,
)
from epsilens.models.training_rows import class_array

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

MODEL_VERSION = 1
_LARGEST_FILE = 1 << 28
# How much numbers that follow from each other may differ.
_ROUNDING = 1e-6

_OWN = ("noisy-descent", "output-perturbation")
_MODELS = {
    "noisy-descent": ("logistic",),
    "output-perturbation": ("logistic", "ridge"),
    "dp-sgd": ("logistic",),
    "dp-ebm": ("additive",),
    "synthetic-aim": ("logistic",),
}
_STEPWISE = ("noisy-descent", "dp-sgd")
_UNSHRUNK = ("dp-ebm", "synthetic-aim")

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


class TermPart(Part):
    """The step function of a column in a model file."""

    cuts: list[Number]
    """Where its steps are."""
    scores: list[Number]
    """Heights of the steps, one more than cuts."""

    @model_validator(mode="after")
    def _steps_fit(self) -> Self:
        if len(self.scores) != len(self.cuts) + 1:
            raise ValueError("there must be one more score than cuts")
        if any(low >= high for low, high in pairwise(self.cuts)):
            raise ValueError("cuts must increase")
        return self


class ModelFile(Part):
    """All that a model file carries."""

    epsilens_model: Literal[1] = 1
    """Version of the file format."""
    model: Literal["logistic", "ridge", "additive"]
    """The model."""
    label: StrictStr
    """The column that it predicts."""
    classes: list[Value]
    """Classes in the order of the coefficients; empty for a number."""
    encoder: list[Annotated[NumberPart | CategoryPart, Field(discriminator="kind")]]
    """How each column becomes numbers."""
    x_bound: Annotated[Number, Field(gt=0)] | None
    """Length that longer rows are shrunk to, the constant of the intercept included; null: none is."""
    constant: Annotated[Number, Field(ge=0)] | None
    """The value of the intercept's column in training; null where no row is shrunk."""
    y_bound: Number | None = None
    """Half width of the range of a number that is predicted."""
    coef_bound: Number | None = None
    """Largest length of the coefficients of a ridge model."""
    coefficients: list[list[Number]] | None
    """One row, or one for each class; null for an additive model."""
    terms: list[TermPart] | None = None
    """The step functions of an additive model, one a column."""
    intercept: list[Number]
    """One number for each row."""
    receipt: dict[str, object]
    """The receipt."""

    @model_validator(mode="after")
    def _shapes_fit(self) -> Self:
        n_rows = 1 if len(self.classes) in (0, 2) else len(self.classes)
        is_additive = self.model == "additive"
        widths = [1 if part.kind == "number" else len(part.categories) - 1 for part in self.encoder]
        if (self.model != "ridge") != (len(self.classes) >= 2):
            raise ValueError("classes must be those of the model")
        if len({(type(c) is bool, c) for c in self.classes}) < len(self.classes):
            raise ValueError("classes must differ")
        if not self.encoder:
            raise ValueError("the encoder must have columns")
        if len({part.name for part in self.encoder}) < len(self.encoder):
            raise ValueError("the columns of the encoder must differ")
        if len(self.intercept) != n_rows:
            raise ValueError("the intercept must fit the classes")
        if is_additive != (self.coefficients is None) or is_additive != (self.terms is not None):
            raise ValueError("an additive model has terms, others have coefficients")
        if self.coefficients is not None:
            if len(self.coefficients) != n_rows:
                raise ValueError("coefficients must fit the classes")
            if any(len(row) != sum(widths) for row in self.coefficients):
                raise ValueError("coefficients must fit the encoder")
        if self.terms is not None and (len(self.terms), len(self.classes)) != (len(widths), 2):
            raise ValueError("terms must fit the encoder, for two classes")
        if (self.x_bound is None) != (self.constant is None):
            raise ValueError("x_bound and the constant come together")
        if self.x_bound is not None and not (self.constant or 0.0) < self.x_bound:
            raise ValueError("the constant must be below x_bound")
        return self


def model_text(pipeline: Pipeline, receipt: TrainingDocument) -> str:
    """Return the text of a model file.

    Parameters
    ----------
    pipeline : Pipeline
        A `TableEncoder` and a fitted model.
    receipt : TrainingDocument
    """
    encoder, model = (step for _, step in pipeline.steps)
    is_ridge, is_additive = isinstance(model, PrivateRidge), isinstance(model, ReleasedAdditive)
    bounds = None if is_additive else model.bounds_
    columns = [
        CategoryPart(name=c.name, categories=list(c.categories))
        if isinstance(c, CategoryColumn)
        else NumberPart(**vars(c))
        for c in encoder.columns
    ]
    file = ModelFile(
        model=receipt.model,
        label=receipt.label,
        classes=[] if is_ridge else model.classes_.tolist(),
        encoder=columns,
        x_bound=None if bounds is None else float(bounds.x_bound),
        constant=None if bounds is None else float(bounds.constant),
        y_bound=model.bounds_.y_bound if is_ridge else None,
        coef_bound=model.bounds_.coef_bound if is_ridge else None,
        coefficients=None if is_additive else np.atleast_2d(model.coef_).tolist(),
        terms=[
            TermPart(cuts=cuts.tolist(), scores=scores.tolist())
            for cuts, scores in zip(model.cuts_, model.scores_, strict=True)
        ]
        if is_additive
        else None,
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
        An encoder, and a classifier (`classes_`, `predict`, `predict_proba`) or a `PrivateRidge`. The
        receipt of the training is `receipt_` of the latter, as a dict. A model that another library has
        trained needs none of it.

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
    encoder = (PlaceEncoder if file.model == "additive" else TableEncoder)(columns)
    model = _restored(file, receipt)
    return Pipeline([("encoder", encoder), ("model", model)])


def _contradiction(file: ModelFile, receipt: TrainingDocument) -> str | None:
    """Return what in a model, its receipt and the accounting of its noise cannot all be true."""
    origin, total = receipt.provenance, receipt.total
    features = {part.name for part in file.encoder}
    seeded = origin.seed is not None
    claims_all = receipt.protects == "record"
    least = 1.0 - _ROUNDING
    own_epsilon, own_delta = receipt.epsilon, receipt.delta
    if receipt.mechanism in ("dp-sgd", "synthetic-aim"):
        # Theirs is about an added record, and the total about a replaced one: (2ε, (1 + e^ε)δ).
        own_epsilon, own_delta = 2.0 * own_epsilon, (1.0 + math.exp(own_epsilon)) * own_delta
    elif receipt.mechanism == "dp-ebm":
        own_epsilon = 0.0  # follows from μ, which is checked
    fits = {
        "the label": file.label == receipt.label and file.label not in features,
        "x_bound": file.x_bound == receipt.x_bound,
        "the mechanism": receipt.mechanism == origin.method
        and file.model in _MODELS.get(receipt.mechanism, ())
        and (receipt.mechanism in _STEPWISE) == (receipt.n_steps is not None)
        and (receipt.mechanism in _UNSHRUNK) == (receipt.x_bound is None),
        "what it protects": origin.settings.get("protects") == receipt.protects
        and {file.label} | (features if claims_all else set()) <= set(receipt.columns),
        "the number of classes": origin.settings.get("n_classes") == len(file.classes),
        "whether it is a simulation": receipt.simulated == origin.simulated == seeded
        and not (seeded and "proven" in receipt.number_types.values()),
        "the total": total.delta >= least * min(own_delta, 1.0)
        and total.advantage >= least * receipt.advantage
        and total.n_releases == 1 + len({release.receipt for release in total.earlier})
        and (total.n_releases > 1 or total.epsilon >= least * own_epsilon),
    }
    wrong = [what for what, is_true in fits.items() if not is_true]
    unless_total = [what for what in wrong if what != "the total"]
    return next(filter(None, [*unless_total, _miscounted(receipt), *wrong]), None)


def _miscounted(receipt: TrainingDocument) -> str | None:
    """Return which number of a receipt does not follow from its ε and δ, by what its mechanism adds."""
    try:
        if receipt.mechanism == "dp-sgd":
            return _miscounted_steps(receipt)
        if receipt.mechanism == "synthetic-aim":
            return _miscounted_table(receipt)
        if receipt.mechanism == "dp-ebm":
            # Several protected columns are counted as a replaced record.
            alone = receipt.columns == [receipt.label] and receipt.protects == "answer"
            expected = boosting_mu(receipt.epsilon, receipt.delta, is_label_alone=alone)
        else:
            expected = math.sqrt(2.0 * rho_of_epsilon(receipt.epsilon, receipt.delta))
    except InputError:
        return "ε, δ and μ"
    mu, rho, sigma = receipt.mu or 0.0, receipt.rho or 0.0, receipt.sigma
    is_noise = 0.0 < (sigma or 0.0) < math.inf
    fits = {
        "ε, δ and μ": math.isclose(mu, expected, rel_tol=_ROUNDING),
        "μ and ρ": math.isclose(rho, mu * mu / 2.0, rel_tol=_ROUNDING),
        "the noise": sigma is None if receipt.mechanism == "dp-ebm" else is_noise,
        # 2Φ(μ/2) − 1.
        "μ and the advantage": math.isclose(
            receipt.advantage, math.erf(mu / math.sqrt(8.0)), rel_tol=_ROUNDING
        ),
    }
    return next((what for what, is_true in fits.items() if not is_true), None)


def _miscounted_steps(receipt: TrainingDocument) -> str | None:
    """Return which number of a receipt of DP-SGD does not follow from the others."""
    n_records, x_bound = receipt.rows, receipt.x_bound or 0.0
    if receipt.mu is not None or receipt.rho is not None:
        return "μ and ρ"
    settings = DPSGDSettings.linear(
        receipt.epsilon, receipt.delta, x_bound=x_bound, n_records=n_records
    )
    plan = settings.plan(n_records)
    if receipt.n_steps != plan.n_steps or not 0.0 < (receipt.sigma or 0.0) < math.inf:
        return "the noise"
    found = account(
        (receipt.sigma or 0.0) / settings.clip,
        delta=receipt.delta,
        sampling_probability=plan.sampling_probability,
        n_steps=plan.n_steps,
    )
    if found.epsilon_pld > receipt.epsilon * (1.0 + _ROUNDING):
        return "ε, δ and the noise"
    added = 2.0 * attack_ceiling(found) - 1.0
    least = min(sampled_advantage(found), 2.0 * added, 1.0)
    # Rows have a little more noise than is accounted for.
    return None if receipt.advantage >= least * (1.0 - _ROUNDING) else "the advantage"


def _miscounted_table(receipt: TrainingDocument) -> str | None:
    """Return which number of a receipt of a synthetic table does not follow from the others."""

    def rho_of(advantage: float) -> float:
        # The inverse of `zcdp_advantage`.
        return 2.0 * advantage * math.atanh(advantage) if advantage < 1.0 else math.inf

    if not 0.0 < receipt.delta < 1.0 or not 0.0 < receipt.epsilon < math.inf:
        return "ε, δ and ρ"
    rho, share, least = zcdp_rho(receipt.epsilon, receipt.delta), receipt.advantage, 1.0 - _ROUNDING
    if receipt.mu is not None or not math.isclose(receipt.rho or 0.0, rho, rel_tol=_ROUNDING):
        return "ε, δ and ρ"
    is_enough = rho_of(share) >= least * AIM_REPLACED * rho or rho_of(share / 2.0) >= least * rho
    return None if is_enough else "ρ and the advantage"


def _column(part: NumberPart | CategoryPart) -> EncodedColumn:
    if isinstance(part, CategoryPart):
        return CategoryColumn(part.name, tuple(part.categories))
    return NumberColumn(**part.model_dump(exclude={"kind"}))


def _restored(file: ModelFile, receipt: TrainingDocument) -> Any:
    """Return the fitted model of a file."""
    bounds = None
    if file.x_bound is not None:
        bounds = RowBounds(x_bound=file.x_bound, constant=file.constant or 0.0)
    model: Any
    if file.model == "ridge":
        return _ridge(file, receipt)
    if receipt.mechanism in _OWN:
        return _logistic(file, receipt)
    classes = class_array(file.classes)
    if file.terms is not None:
        steps = [term.cuts for term in file.terms], [term.scores for term in file.terms]
        model = ReleasedAdditive.of_steps(*steps, file.intercept[0], classes)
    else:
        model = ReleasedLogistic.of(file.coefficients or [], file.intercept, classes, bounds)
    _restore(model, receipt)
    return model


def _ridge(file: ModelFile, receipt: TrainingDocument) -> PrivateRidge:
    if (
        file.y_bound is None
        or file.coef_bound is None
        or file.x_bound is None
        or file.coefficients is None
    ):
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
        constant=file.constant or 0.0,
    )
    model.coef_ = np.array(file.coefficients[0])
    model.intercept_ = file.intercept[0]
    model.n_features_in_ = len(model.coef_)
    _restore(model, receipt)
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
    model.bounds_ = RowBounds(x_bound=file.x_bound or 0.0, constant=file.constant or 0.0)
    model.coef_ = np.array(file.coefficients)
    model.intercept_ = np.array(file.intercept)
    model.classes_ = class_array(file.classes)
    model.n_features_in_ = model.coef_.shape[1]
    model.mu_, model.advantage_ = float(receipt.mu or 0.0), receipt.advantage
    _restore(model, receipt)
    return model


def _restore(model: Any, receipt: TrainingDocument) -> None:
    """Set what every private model has after its training."""
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
