# SPDX-License-Identifier: Apache-2.0
"""`{document-keys}`: every key of every kind of document, from the models themselves."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from docutils import nodes
from docutils.statemachine import StringList
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from epsilens import document
from epsilens.document.federation import federation_number_types
from epsilens.document.mask import mask_number_types
from epsilens.document.parts import Baseline, DocumentHead, Provenance, field_words
from epsilens.document.risk import risk_number_types
from epsilens.document.whatif import whatif_number_types
from epsilens.notes import NOTES, Note

MODELS = {model.model_fields["kind"].default: model for model in get_args(document.Document)}
"""The model of each kind, in the order of the code."""
_SHARED = (DocumentHead, Provenance, Baseline)
_KNOWN = {
    "whatif": whatif_number_types(retrained=False),
    "risk": risk_number_types(),
    "federation": federation_number_types(),
    "mask": mask_number_types(),
}


def _parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """Give the models inside a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not None:
        for inner in get_args(annotation):
            yield from _parts(inner)


def _json_type(annotation: Any) -> str:
    """Return what a key holds, in the words of JSON."""
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        return _json_type(get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_json_type(inner) for inner in get_args(annotation)))
    if origin is typing.Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in get_args(annotation))
    if origin is list:
        return f"list of {_json_type(get_args(annotation)[0])}"
    if origin is dict:
        return "object"
    if annotation is Note:
        return "object with `code`, `severity` and `text`"
    plain = {str: "text", float: "number", int: "whole number", bool: "true or false"}
    if annotation is type(None):
        return "null"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"`{annotation.__name__}`"
    return plain.get(annotation, "number")


def _table(model: type[BaseModel], known: dict[str, Any], left_out: set[str]) -> list[str]:
    head = "| key | holds | known how | meaning |" if known else "| key | holds | meaning |"
    lines = [head, "|---|---|---|---|" if known else "|---|---|---|"]
    words = field_words(model)
    keys = {
        name: (field.rebuild_annotation(), words.get(name))
        for name, field in model.model_fields.items()
    } | {
        name: (field.return_type, field.description)
        for name, field in model.model_computed_fields.items()
    }
    for name, (annotation, description) in keys.items():
        if name in left_out:
            continue
        meaning = " ".join((description or "").split())
        cells = [f"`{name}`", _json_type(annotation)]
        if known:
            cells.append(known.get(name, ""))
        lines.append(
            "| " + " | ".join([*(cell.replace("|", "\\|") for cell in cells), meaning]) + " |"
        )
    return [*lines, ""]


def _sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").partition("\n\n")[0].split())


def describe() -> list[str]:
    """Return all kinds as Markdown."""
    lines = ["## In every document", "", _sentence(DocumentHead), ""]
    lines += _table(DocumentHead, {}, set())
    for model in (Provenance, Baseline):
        lines += [f"### {model.__name__}", "", _sentence(model), "", *_table(model, {}, set())]
    head = set(DocumentHead.model_fields) | set(DocumentHead.model_computed_fields)
    told: set[type[BaseModel]] = {*_SHARED, *MODELS.values()}
    for kind, model in MODELS.items():
        known = dict(_KNOWN.get(kind, {}))
        lines += [
            f"## Kind {kind}",
            "",
            _sentence(model),
            "",
            *_table(model, known, head | {"kind"}),
        ]
        waiting = [
            part for field in model.model_fields.values() for part in _parts(field.annotation)
        ]
        while waiting:
            part = waiting.pop(0)
            if part in told:
                continue
            told.add(part)
            lines += [f"### {part.__name__}", "", _sentence(part), "", *_table(part, known, set())]
            waiting += [p for field in part.model_fields.values() for p in _parts(field.annotation)]
    return lines


class DocumentKeys(SphinxDirective):
    """One section a kind, one table a model."""

    def run(self) -> list[nodes.Node]:
        """Return what Sphinx shows."""
        holder = nodes.section()
        holder.document = self.state.document
        lines = StringList(describe())
        self.state.nested_parse(lines, self.content_offset, holder, match_titles=True)
        return holder.children


def describe_notes() -> list[str]:
    """Return the codes of all notes as a Markdown table."""
    lines = ["| code | severity | meaning |", "|---|---|---|"]
    return lines + [
        f"| `{code}` | {kind.severity} | {kind.meaning} |" for code, kind in NOTES.items()
    ]


class NoteCodes(SphinxDirective):
    """Every code of a note."""

    def run(self) -> list[nodes.Node]:
        """Return what Sphinx shows."""
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(describe_notes()), self.content_offset, holder)
        return holder.children


class Schemas(SphinxDirective):
    """A link to the schema of each kind."""

    def run(self) -> list[nodes.Node]:
        """Return what Sphinx shows."""
        found = nodes.bullet_list()
        for kind in MODELS:
            link = nodes.reference("", kind, refuri=f"../schema/{kind}.json", internal=True)
            found += nodes.list_item("", nodes.paragraph("", "", link))
        return [found]


def _write_schemas(app: Sphinx) -> None:
    """Put the JSON Schemas beside the pages."""
    folder = Path(app.srcdir) / "_build" / "extra" / "schema"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in MODELS:
        text = json.dumps(document.json_schema(kind), indent=2, ensure_ascii=False)
        (folder / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("document-keys", DocumentKeys)
    app.add_directive("note-codes", NoteCodes)
    app.add_directive("schemas", Schemas)
    app.connect("builder-inited", _write_schemas)
    return {"parallel_read_safe": True}
