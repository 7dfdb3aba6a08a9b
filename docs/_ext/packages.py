# SPDX-License-Identifier: Apache-2.0
"""`{package} epsilens.channels`: every public name of a package, from its `__all__`."""

from __future__ import annotations

import importlib
import inspect
import re
from pkgutil import iter_modules
from typing import get_origin

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

PACKAGES = (
    "epsilens",
    "epsilens.whatif",
    "epsilens.risk",
    "epsilens.decision",
    "epsilens.channels",
    "epsilens.mechanisms",
    "epsilens.audit",
    "epsilens.ridge",
    "epsilens.private",
    "epsilens.masking",
    "epsilens.valuation",
    "epsilens.federated",
    "epsilens.cluster",
    "epsilens.document",
    "epsilens.show",
    "epsilens.errors",
    "epsilens.data",
    "epsilens.models",
    "epsilens.influence",
)
"""The packages, in the order in which a reader needs them; the last three are the engine."""


def public_names(package: str) -> list[str]:
    """Return what a package's `__all__` lists, without its version."""
    module = importlib.import_module(package)
    return [name for name in module.__all__ if not name.startswith("__")]


def _value(package: str, name: str) -> object:
    return getattr(importlib.import_module(package), name)


def home(package: str, name: str) -> str:
    """Return the first package that has the same thing under the same name: it is described there."""
    value = _value(package, name)
    for other in PACKAGES:
        if name in public_names(other) and _value(other, name) is value:
            return other
    return package


def _entry(package: str, name: str) -> list[str]:
    """Return the lines that have Sphinx document one name by what it is."""
    value = _value(package, name)
    full = f"{package}.{name}"
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        options = [] if kind == "autoexception" else ["   :members:"]
        if hasattr(value, "model_fields"):  # the keys of documents stand on a page of their own
            options = []
        return [f".. {kind}:: {full}", *options, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {full}", ""]
    return [f".. py:data:: {full}", "", f"   {_about(package, name)}", ""]


def _about(package: str, name: str) -> str:
    """Return the first sentence or two about a name."""
    value = _value(package, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    for module in _modules(package):
        found = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
        if found:
            return " ".join(" ".join(found).split())
    text = re.sub(r"[\w.]+\.(?=\w)", "", str(value)) if get_origin(value) else repr(value)
    return f"``{text}``"


def _modules(package: str) -> list[str]:
    """Return the modules of a package, the package itself first."""
    folder = getattr(importlib.import_module(package), "__path__", None)
    inner = [] if folder is None else [f"{package}.{found.name}" for found in iter_modules(folder)]
    return [package, *inner]


class Package(SphinxDirective):
    """A table of the names with a line each, then each in full."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what Sphinx shows."""
        (package,) = self.arguments
        names = public_names(package)
        lines = [".. list-table::", "   :widths: auto", ""]
        for name in names:
            lines += [f"   * - :py:obj:`{name} <{home(package, name)}.{name}>`"]
            lines += [f"     - {_about(package, name)}"]
        lines += [""]
        for name in names:
            if home(package, name) == package:
                lines += _entry(package, name)
        return self._parsed(lines)

    def _parsed(self, lines: list[str]) -> list[nodes.Node]:
        """Return what reStructuredText says, inside a page of Markdown."""
        holder = nodes.section()
        holder.document = self.state.document
        text = "\n".join(["```{eval-rst}", *lines, "```"])
        self.state.nested_parse(StringList(text.splitlines()), self.content_offset, holder)
        return holder.children


def _section(lines: list[str], name: str) -> tuple[int, int] | None:
    """Return where a section of a docstring begins and ends."""
    heads = [i for i in range(len(lines) - 1) if re.fullmatch(r"-{3,}", lines[i + 1]) and lines[i]]
    for place, start in enumerate(heads):
        if lines[start] == name:
            return start, heads[place + 1] if place + 1 < len(heads) else len(lines)
    return None


def _move_assumptions(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Put Assumptions, a heading of this project, into the Notes, which numpydoc knows."""
    found = _section(lines, "Assumptions")
    if found is None:
        return
    start, end = found
    body = ["**Assumptions**", "", *lines[start + 2 : end], ""]
    del lines[start:end]
    notes = _section(lines, "Notes")
    if notes is None:
        later = [_section(lines, other) for other in ("References", "Examples")]
        place = min((spot[0] for spot in later if spot is not None), default=len(lines))
        lines[place:place] = ["Notes", "-----", *body]
    else:
        lines[notes[0] + 2 : notes[0] + 2] = body


def _leave_out(
    app: Sphinx, what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Leave out what scikit-learn puts on every estimator for its own routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("package", Package)
    app.connect("autodoc-process-docstring", _move_assumptions, priority=100)
    app.connect("autodoc-skip-member", _leave_out)
    return {"parallel_read_safe": True}
