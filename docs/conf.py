# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the site: `make docs`. Nothing is fetched, in the build or by the pages."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import epsilens  # noqa: E402

# A heading of this project, which `packages` moves into the Notes.
warnings.filterwarnings("ignore", message="Unknown section Assumptions")

project = "epsilens"
author = "the epsilens authors"
copyright = "the epsilens authors, Apache-2.0"
version = release = epsilens.__version__
language = "en-GB"

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "links",
    "formulas",
    "packages",
    "commands",
    "document_keys",
    "offline",
]
exclude_patterns = ["_build", "_ext", "_book"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

default_role = "literal"  # one backtick in a docstring is code
autodoc_typehints = "none"  # numpydoc's own lines say the types, with shapes and ranges
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = "epsilens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_build/extra"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1d5fa8",
        "color-brand-content": "#1d5fa8",
        "color-brand-visited": "#1d5fa8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8ab8ec",
        "color-brand-content": "#8ab8ec",
        "color-brand-visited": "#8ab8ec",
    },
    "footer_icons": [],
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
# Formulas are written in their own letters and signs, and `formulas` raises and lowers what belongs there: no
# MathJax, which would come from elsewhere.
(DOCS / "_build" / "extra").mkdir(parents=True, exist_ok=True)
