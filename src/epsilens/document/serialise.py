# SPDX-License-Identifier: Apache-2.0
"""Documents to JSON and back, and the JSON Schema that describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from epsilens.document.kinds import MODELS, Document, DocumentKind
from epsilens.document.migration import migrate
from epsilens.document.whatif import OPTIONAL_KEYS
from epsilens.errors import InputError, InputTypeError

_HEAD = ("epsilens_document", "kind", "provenance", "notes", "warnings")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def to_dict(document: Document) -> dict[str, object]:
    """Give a document as the plain objects that JSON knows; infinity is the text "inf".

    Parameters
    ----------
    document : Document
        Any document of the package.

    Returns
    -------
    dict
        Text, numbers, true, false, null, lists and dicts only; never NaN, never infinity.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> to_dict(example_document("inspect", rows=3))["rows"]
    3
    """
    content: dict[str, object] = _without_unused(document.model_dump(mode="json"))
    return _in_order(content)


def _in_order(content: dict[str, object]) -> dict[str, object]:
    """Put first what every reader looks for first, in a document and in those inside it."""
    head = {name: content[name] for name in _HEAD if name in content}
    return head | {
        name: _in_order(value) if isinstance(value, dict) and "kind" in value else value
        for name, value in content.items()
        if name not in head
    }


def _without_unused(value: Any) -> Any:
    """Leave out keys of cells that say nothing there."""
    if isinstance(value, list):
        return [_without_unused(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_unused(one)
        for name, one in value.items()
        if name not in OPTIONAL_KEYS or one is not None
    }


def to_json(document: Document, *, indent: int | None = 2) -> str:
    """Write a document as JSON text.

    Parameters
    ----------
    document : Document
        Any document of the package.
    indent : int or None
        Spaces per level; None puts everything on one line.

    Returns
    -------
    str
        JSON in the strict sense, without a final line break.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> text = to_json(example_document("inspect", rows=3))
    >>> load_document(text).rows
    3
    """
    return json.dumps(to_dict(document), indent=indent, ensure_ascii=False, allow_nan=False)


def load_document(source: str | Path | Mapping[str, object]) -> Document:
    """Read a document of any kind and any version up to the current one.

    Parameters
    ----------
    source : str, pathlib.Path or mapping
        JSON text, a file that holds it, or its parsed content.

    Returns
    -------
    Document
        A `WhatIfDocument`, `ReleaseDocument`, `InspectDocument`, `ValueDocument`,
        `AuditDocument`, `RiskDocument`, `DecisionDocument`, `MaskDocument`, `FederationDocument` or
        `TrainingDocument`, as its `kind` says.

    Raises
    ------
    InputError
        If the source is not such a document; the message says where it goes wrong and never
        repeats a value of it.

    Examples
    --------
    >>> load_document({"epsilens_document": 1, "kind": "poem"})
    Traceback (most recent call last):
    epsilens.errors.InputError: `kind` of a document must be one of whatif, release, inspect, value...
    """
    content = migrate(_parse(source))
    kind = content.get("kind")
    model = MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        came = "none" if kind is None else "another"
        raise InputError(
            f"`kind` of a document must be one of {', '.join(MODELS)}, got {came}. "
            "A newer epsilens may know it: pip install --upgrade epsilens"
        )
    try:
        return model.model_validate(content)
    except ValidationError as error:
        message = _first_problem(error)
    # Raised outside the handler: pydantic's own text would otherwise be shown as the cause.
    raise InputError(message)


def json_schema(kind: DocumentKind | None = None) -> dict[str, object]:
    """Describe the documents in JSON Schema 2020-12, for programs that check before they read.

    Parameters
    ----------
    kind : {"whatif", "release", "inspect", "value", "audit", "risk", "decision", "mask", "federation", "training"}, optional
        One kind of document; all of them when left out.

    Returns
    -------
    dict
        The schema of what `to_json` writes, with a description of every field.

    Examples
    --------
    >>> json_schema("whatif")["title"]
    'WhatIfDocument'
    """
    if kind is not None and kind not in MODELS:
        raise InputError(f"`kind` must be one of {', '.join(MODELS)}, got {kind!r}.")
    if kind is None:
        adapter: TypeAdapter[BaseModel] = TypeAdapter(
            cast(Any, Annotated[Document, Field(discriminator="kind")])
        )
        schema = adapter.json_schema(mode="serialization")
        schema["title"] = "EpsilensDocument"
    else:
        schema = MODELS[kind].model_json_schema(mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        if "required" in part:  # what is left out where it says nothing
            part["required"] = [name for name in part["required"] if name not in OPTIONAL_KEYS]
    return {"$schema": _DIALECT} | schema


def _parse(source: str | Path | Mapping[str, object]) -> Mapping[str, object]:
    if isinstance(source, Mapping):
        return source
    if isinstance(source, Path):
        text = _read_text(source)
    elif isinstance(source, str):
        text = source
    else:
        raise InputTypeError(
            f"`source` must be JSON text, a pathlib.Path or a dict, got {type(source).__name__}."
        )
    content = _parse_json(text)
    if not isinstance(content, dict):
        raise InputError(
            f"expected a JSON object written by `epsilens ... --json`, "
            f"got JSON of type {type(content).__name__}."
        )
    return content


def _read_text(path: Path) -> str:
    problem: str
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problem = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        problem = "it is not UTF-8 text"
    raise InputError(
        f"expected a readable document file, got {path.name!r}: {problem}. Check the path."
    )


def _parse_json(text: str) -> object:
    problem: str
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        problem = f"text that is no JSON from line {error.lineno}, column {error.colno}"
    except RecursionError:
        problem = "JSON nested too deeply"
    raise InputError(
        f"expected a document written by `epsilens ... --json`, got {problem}. "
        "A file is given as pathlib.Path."
    )


def _refuse_constant(_: str) -> NoReturn:
    raise InputError(
        'expected strict JSON, got NaN or Infinity. Write infinity as "inf" and NaN as null.'
    )


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_url=False)
    first = problems[0]
    # Positions in lists are left out: the names of the fields say enough.
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, str)) or "document"
    more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
    what = first.get("ctx", {}).get("error", first["msg"])
    return f"malformed document at `{place}`: {what}{more}. Write it again with this epsilens."
