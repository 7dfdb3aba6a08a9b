# SPDX-License-Identifier: Apache-2.0
"""Old documents stay readable: each step takes a document one version further."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import epsilens
from epsilens.document.parts import DOCUMENT_VERSION
from epsilens.errors import InputError

__all__ = ["STEPS", "migrate"]

STEPS: dict[int, Callable[[dict[str, object]], dict[str, object]]] = {}
"""From a version to the function that makes the next version of it; version 1 is the first."""

_VERSION_TEXT = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,30}")


def migrate(content: Mapping[str, object]) -> dict[str, object]:
    """Bring the content of a stored document to the version this package writes.

    Parameters
    ----------
    content : mapping
        A parsed JSON document of any version up to the current one.

    Returns
    -------
    dict
        The same content in the current version; the argument is left as it was.

    Raises
    ------
    InputError
        If it is no epsilens document, or one of a version this package does not know.

    Examples
    --------
    >>> migrate({"epsilens_document": 1, "kind": "inspect"})
    {'epsilens_document': 1, 'kind': 'inspect'}
    """
    migrated = dict(content)
    version = migrated.get("epsilens_document")
    if isinstance(version, bool) or not isinstance(version, int):
        raise InputError(
            "expected an epsilens document with a whole number `epsilens_document`, "
            "got JSON without it. Use a file written by `epsilens ... --json`."
        )
    if version > DOCUMENT_VERSION or version < 1:
        raise InputError(
            f"expected document version 1 to {DOCUMENT_VERSION}, which epsilens "
            f"{epsilens.__version__} reads, got {version}. {_which_epsilens(migrated)}"
        )
    while version < DOCUMENT_VERSION:
        migrated = STEPS[version](migrated)
        version += 1
        migrated["epsilens_document"] = version
    return migrated


def _which_epsilens(content: Mapping[str, object]) -> str:
    provenance = content.get("provenance")
    writer = provenance.get("version") if isinstance(provenance, dict) else None
    if isinstance(writer, str) and _VERSION_TEXT.fullmatch(writer):
        return f"Install epsilens {writer} or newer, which wrote it."
    return "Install a newer epsilens: pip install --upgrade epsilens"
