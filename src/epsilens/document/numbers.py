# SPDX-License-Identifier: Apache-2.0
"""What kind of truth a number carries, and how numbers travel through JSON.

A curator who signs for a privacy budget must know whether a number is a theorem, a measurement or
an estimate. Every number of a document therefore carries one of these types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

NumberType: TypeAlias = Literal["proven", "proven given b", "measured", "estimated"]

NUMBER_TYPES: tuple[NumberType, ...] = get_args(NumberType)

NUMBER_TYPE_MEANINGS: Mapping[NumberType, str] = {
    "proven": "A bound that holds by mathematical proof for every data set.",
    "proven given b": "A bound that holds by mathematical proof if everybody else's data give away no "
    "more answers than b, which is measured and taken at its upper confidence bound.",
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
