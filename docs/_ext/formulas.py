# SPDX-License-Identifier: Apache-2.0
"""Formulas are written as `e^ε` and `x_i`, to be read in the repository too; the site raises and lowers them."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_PART = r"\{((?:[^{}]|\{[^{}]*\})+)\}"
_RAISED = rf"(?<=[\w)\]|])\^(?:{_PART}|\(([^()]+)\)|(\|\w+\||[−+]?\w+))"
# A single letter, or a bracket, is lowered upon: names of programs and arguments are longer words.
_LOWERED = (
    rf"(?:(?<=[)\]]|(?<![^\WΔ])[^\W\d_])|(?<=\bm[ai][nx]))_(?:{_PART}|(−?[^\W_]{{1,3}})(?![\w]))"
)
_FORMULA = re.compile(f"(?P<raised>{_RAISED})|(?P<lowered>{_LOWERED})")
_CODE = (nodes.literal, nodes.FixedTextElement, nodes.raw, nodes.comment, nodes.image)


def typeset(text: str) -> list[nodes.Node]:
    """Return a text with what stands above or below the line."""
    found: list[nodes.Node] = []
    place = 0
    for match in _FORMULA.finditer(text):
        inner = next(part for part in match.groups()[1:] if part and part[0] not in "^_")
        node = nodes.superscript() if match["raised"] else nodes.subscript()
        node += typeset(inner)
        found += [nodes.Text(text[place : match.start()]), node]
        place = match.end()
    return [*found, nodes.Text(text[place:])]


class Formulas(SphinxPostTransform):
    """Typeset the prose of a page; the reference names arguments, and code is code."""

    default_priority = 800
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Change what is about to be written."""
        if self.env.docname.startswith("reference/"):
            return
        for text in list(self.document.findall(nodes.Text)):
            above = text.parent
            while above is not None and not isinstance(above, _CODE):
                above = above.parent
            if above is None and _FORMULA.search(text):
                text.parent.replace(text, typeset(text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_post_transform(Formulas)
    return {"parallel_read_safe": True}
