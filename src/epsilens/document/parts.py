# SPDX-License-Identifier: Apache-2.0
"""What every document has: where it comes from, what to know first, what kind of truth its numbers carry."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictStr,
    WithJsonSchema,
    computed_field,
    model_validator,
)

import epsilens
from epsilens.errors import COMMAND_LINE
from epsilens.notes import Note, Severity

# --- What kind of truth a number carries, and how numbers travel through JSON ---

NumberType: TypeAlias = Literal["proven", "proven given b", "measured", "estimated"]

NUMBER_TYPES: tuple[NumberType, ...] = get_args(NumberType)

NUMBER_TYPE_MEANINGS: Mapping[NumberType, str] = {
    "proven": "A bound that holds by mathematical proof for every data set.",
    "proven given b": "A bound that holds by mathematical proof if everybody else's data give away no more "
    "answers than b. The share b is measured and taken at its upper confidence bound.",
    "measured": "Observed by really doing it, on this data; it has sampling error.",
    "estimated": "Computed without really doing it, by an approximation that can be off.",
}

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_INFINITY_WORDS = {"inf": math.inf, "-inf": -math.inf}


def plain_value(value: object) -> object:
    """Turn a scalar of an array library into the plain Python number it stands for.

    Examples
    --------
    >>> import numpy as np
    >>> plain_value(np.float64(0.5)), plain_value(np.bool_(True)), plain_value("text")
    (0.5, True, 'text')
    """
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        item: object = value.item()  # type: ignore[attr-defined]
        return item
    return value


def _read_number(value: object) -> object:
    value = plain_value(value)
    if isinstance(value, str):
        if value in _INFINITY_WORDS:
            return _INFINITY_WORDS[value]
        raise ValueError('must be a number or "inf"')
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _read_optional_number(value: object) -> object:
    value = _read_number(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def _write_number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "inf" if value > 0 else "-inf"


def _read_count(value: object) -> object:
    value = plain_value(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


def _read_flag(value: object) -> object:
    value = plain_value(value)
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


_WRITE = PlainSerializer(_write_number, when_used="json")

OptionalNumber = Annotated[
    float | None,
    BeforeValidator(_read_optional_number),
    _WRITE,
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}, {"type": "null"}]}),
]
NonNegative = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(_read_number),
    _WRITE,
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}]}),
]
OptionalNonNegative = Annotated[
    Annotated[float, Field(ge=0)] | None,
    BeforeValidator(_read_optional_number),
    _WRITE,
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}, {"type": "null"}]}
    ),
]
Count = Annotated[int, Field(ge=0), BeforeValidator(_read_count)]
Flag = Annotated[bool, BeforeValidator(_read_flag)]


# --- What every document has: where it comes from, what to know first, what kind of truth its numbers carry ---

DOCUMENT_VERSION = 2


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


Settings = Annotated[
    dict[str, object], BeforeValidator(_as_json_value), WithJsonSchema({"type": "object"})
]
Names: TypeAlias = list[StrictStr]

_NOTE_KEYS = {"code", "severity", "text"}


def _read_notes(value: object) -> list[Note]:
    if not isinstance(value, list | tuple):
        raise ValueError("notes must be a list")
    return [note if isinstance(note, Note) else _read_note(note) for note in value]


def _read_note(value: object) -> Note:
    if not isinstance(value, dict) or value.keys() != _NOTE_KEYS:
        raise ValueError("a note must have the keys code, severity and text")
    if not all(isinstance(item, str) for item in value.values()):
        raise ValueError("a note must have texts")
    if value["severity"] not in get_args(Severity):
        raise ValueError("the severity of a note must be warning or note")
    return Note(value["code"], value["text"])


def _write_notes(notes: Iterable[Note]) -> list[dict[str, str]]:
    """Write notes for JSON, where settings have the names of the command line."""
    return [
        {"code": note.code, "severity": note.severity, "text": note.render(COMMAND_LINE)}
        for note in notes
    ]


_NOTE_SCHEMA = {
    "type": "object",
    "description": "One thing to know before relying on the numbers.",
    "properties": {
        "code": {"type": "string", "description": "What it is about, in a stable word."},
        "severity": {
            "enum": list(get_args(Severity)),
            "description": "A warning weakens a guarantee or makes a number less certain.",
        },
        "text": {"type": "string", "description": "The same as a sentence."},
    },
    "required": ["code", "severity", "text"],
    "additionalProperties": False,
}
Notes = Annotated[
    list[Note],
    PlainValidator(_read_notes),
    PlainSerializer(_write_notes, when_used="json"),
    WithJsonSchema({"type": "array", "items": _NOTE_SCHEMA}),
]


def _tidy_schema(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Keep of a docstring what a reader of the schema can use, and drop generated titles."""
    # The docstring of the class, not of the schema: pydantic before 2.10 writes it there only afterwards.
    text = inspect.cleandoc(model.__doc__ or "")
    schema["description"] = text.partition("\n\nExamples")[0].replace("\n", " ")
    words = field_words(model)
    for name, field in schema["properties"].items():
        field.pop("title", None)
        # What is computed has the docstring of its function.
        field["description"] = (words.get(name) or field["description"]).replace("\n", " ")


def field_words(model: type[BaseModel]) -> dict[str, str]:
    """Return what is said below the fields of a model.

    It is read in the source, and only when a schema is asked for: for all models that takes a while.

    Examples
    --------
    >>> field_words(Provenance)["method"]
    'The method that was asked for or used.'
    """
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, Part):
            found |= _own_field_words(kind)
    return found


@cache
def _own_field_words(model: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101
    return {
        field.target.id: inspect.cleandoc(said.value.value)
        for field, said in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
        and isinstance(said.value.value, str)
    }


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
        json_schema_serialization_defaults_required=True,
        json_schema_extra=_tidy_schema,
        # pydantic before 2.10 warns of the key `model_epsilon`.
        protected_namespaces=(),
    )

    @model_validator(mode="after")
    def _intervals_are_ordered(self) -> Self:
        """Refuse an interval whose ends, `NAME_low` and `NAME_high`, stand the wrong way round."""
        for lower in (name for name in type(self).model_fields if name.endswith("_low")):
            upper = f"{lower.removesuffix('_low')}_high"
            low, high = getattr(self, lower), getattr(self, upper)
            if low is not None and high is not None and low > high:
                raise ValueError(f"{lower} must not exceed {upper}")
        return self


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
    n_parameters: Count | None = None
    """Number of fitted coefficients, intercepts included; null for a model that is not linear."""


class DocumentHead(Part):
    """What stands at the head of every document.

    Examples
    --------
    >>> note = Note("rows-dropped", "2 of 30 rows were dropped for missing values (age 2)")
    >>> head = DocumentHead(provenance=Provenance(method="exact"), notes=[note])
    >>> head.epsilens_document, head.warnings
    (2, ['2 of 30 rows were dropped for missing values (age 2)'])
    """

    epsilens_document: Literal[2] = 2
    """Version of the document format."""
    provenance: Provenance
    """Where the result comes from."""
    notes: Notes = Field(default_factory=list)
    """What the reader must know before relying on the numbers, each with a stable code."""
    number_types: dict[StrictStr, NumberType] = Field(default_factory=dict)
    """For each number, whether it is a proven bound, measured or estimated."""

    @model_validator(mode="before")
    @classmethod
    def _warnings_are_the_notes(cls, content: object) -> object:
        """Accept `warnings` of a stored document only if they are what the notes say: they are derived."""
        if not isinstance(content, dict) or "warnings" not in content:
            return content
        rest = {name: value for name, value in content.items() if name != "warnings"}
        said = [note.render(COMMAND_LINE) for note in _read_notes(rest.get("notes", []))]
        if content["warnings"] != said:
            raise ValueError("warnings must be the texts of the notes")
        return rest

    @computed_field  # type: ignore[prop-decorator]
    @property
    def warnings(self) -> list[str]:
        """The texts of the notes."""
        return [note.render(COMMAND_LINE) for note in self.notes]
