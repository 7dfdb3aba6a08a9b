# SPDX-License-Identifier: Apache-2.0
"""What every document has: where it comes from, what to know first, what kind of truth its numbers carry."""

from __future__ import annotations

import inspect
import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, WithJsonSchema

import epsilens
from epsilens.document.numbers import (
    Count,
    Flag,
    JsonValue,
    NumberType,
    OptionalNumber,
    plain_value,
)

__all__ = [
    "DOCUMENT_VERSION",
    "Baseline",
    "DocumentHead",
    "Names",
    "Part",
    "Provenance",
    "as_list",
    "check_ends",
]

DOCUMENT_VERSION = 1


def _as_json_value(value: object) -> JsonValue:
    value = plain_value(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {str(key): _as_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_as_json_value(item) for item in items]
    raise ValueError("settings must be made of text, numbers, true, false, null, lists and objects")


def _as_settings(value: object) -> object:
    return _as_json_value(value) if isinstance(value, dict) else value


def as_list(value: object) -> object:
    """Return a tuple as a list, for a document is compared with what JSON gives back."""
    return list(value) if isinstance(value, tuple) else value


def check_ends(part: BaseModel, name: str) -> None:
    """Refuse an interval whose ends, `name_low` and `name_high`, stand the wrong way round."""
    low, high = getattr(part, f"{name}_low"), getattr(part, f"{name}_high")
    if low is not None and high is not None and low > high:
        raise ValueError(f"{name}_low must not exceed {name}_high")


Settings = Annotated[
    dict[str, object], BeforeValidator(_as_settings), WithJsonSchema({"type": "object"})
]
Names = Annotated[list[StrictStr], BeforeValidator(as_list)]


def _tidy_schema(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Keep of a docstring what a reader of the schema can use, and drop generated titles."""
    # Of the class, not of the schema: pydantic before 2.10 writes it there only afterwards.
    text = inspect.cleandoc(model.__doc__ or "")
    schema["description"] = text.partition("\n\nExamples")[0].replace("\n", " ")
    for field in schema["properties"].values():
        field.pop("title", None)
        field["description"] = field["description"].replace("\n", " ")


class Part(BaseModel):
    """A frozen piece of a document.

    Examples
    --------
    >>> Part.model_config["frozen"]
    True
    """

    # Inputs are hidden from pydantic's messages: a message must never carry a value.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
        json_schema_extra=_tidy_schema,
        # pydantic before 2.10 warns of the key `model_epsilon`.
        protected_namespaces=(),
    )


class Provenance(Part):
    """Where a result comes from: enough to make it again, nothing about any person.

    Examples
    --------
    >>> origin = Provenance(method="exact", settings={"protect": ["smokes"]}, seed=0,
    ...                     simulated=True, schema_fingerprint="0f3a", seconds=1.2)
    >>> origin.method, origin.simulated
    ('exact', True)
    """

    method: StrictStr
    """The method that was asked for or used."""
    settings: Settings = Field(default_factory=dict)
    """The choices the caller made, by the name they have on the command line."""
    seed: Count | None = None
    """The seed of the random numbers, or null when the operating system supplied them."""
    simulated: Flag = False
    """Whether the random numbers were seeded, so that this is a simulation and not a release."""
    version: StrictStr = Field(default_factory=lambda: epsilens.__version__)
    """The version of epsilens that wrote the document."""
    schema_fingerprint: StrictStr | None = None
    """SHA-256 over column names, kinds and counts (never values), or null."""
    seconds: OptionalNumber = None
    """How long the computation took, in seconds."""


class Baseline(Part):
    """How good the model is before anything is randomised.

    Examples
    --------
    >>> Baseline(loss=0.54, accuracy=0.72, auc=0.75, n_train=4774, n_test=1592, n_parameters=9).loss
    0.54
    """

    loss: OptionalNumber
    """Mean test loss: squared error for a regression or a RidgeClassifier, nats for other models."""
    accuracy: OptionalNumber
    """Share of the test rows predicted correctly; null for a regression."""
    auc: OptionalNumber
    """Area under the ROC curve on the test rows; null for a regression."""
    n_train: Count
    """Number of training rows."""
    n_test: Count
    """Number of test rows."""
    n_parameters: Count
    """Number of fitted coefficients, intercepts included."""


class DocumentHead(Part):
    """What stands at the head of every document.

    Examples
    --------
    >>> DocumentHead(provenance=Provenance(method="exact")).epsilens_document
    1
    """

    epsilens_document: Literal[1] = 1
    """Version of the document format."""
    provenance: Provenance
    """Where the result comes from."""
    warnings: Names = Field(default_factory=list)
    """What the reader must know before relying on the numbers, one sentence each."""
    number_types: dict[StrictStr, NumberType] = Field(default_factory=dict)
    """For each number, whether it is a proven bound, measured or estimated."""
