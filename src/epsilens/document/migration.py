# SPDX-License-Identifier: Apache-2.0
"""Old documents stay readable: each step takes a document one version further."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pydantic import ValidationError

import epsilens
from epsilens.document.decision import MechanismCurve
from epsilens.document.parts import DOCUMENT_VERSION
from epsilens.document.risk import RiskDocument
from epsilens.document.whatif import WhatIfDocument
from epsilens.errors import InputError

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
    >>> migrate({"epsilens_document": 1, "kind": "inspect", "warnings": ["2 rows were dropped"]})["notes"]
    [{'code': 'unclassified', 'severity': 'warning', 'text': '2 rows were dropped'}]
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


def _to_version_2(content: dict[str, object]) -> dict[str, object]:
    """Give notes a code, and a decision its mechanism; version 1 knew randomised response alone."""
    migrated = {name: value for name, value in content.items() if name != "warnings"}
    said = content.get("warnings", [])
    migrated["notes"] = (
        [{"code": "unclassified", "severity": "warning", "text": text} for text in said]
        if isinstance(said, list)
        else said
    )
    if content.get("kind") != "decision":
        return migrated
    for part in ("cost", "risk"):
        inner = content.get(part)
        if isinstance(inner, dict):
            migrated[part] = {**_to_version_2(inner), "epsilens_document": 2}
    try:
        cost = WhatIfDocument.model_validate(migrated.get("cost"))
        risk = RiskDocument.model_validate(migrated.get("risk"))
    except ValidationError:
        return migrated  # whoever reads it says what is wrong with it
    curve = MechanismCurve.of_randomised_response(cost, risk)
    migrated["mechanisms"] = [curve.model_dump(mode="json")]
    chosen = content.get("recommendation")
    if isinstance(chosen, dict):
        migrated["recommendation"] = {**chosen, "mechanism": curve.mechanism}
    return migrated


STEPS: dict[int, Callable[[dict[str, object]], dict[str, object]]] = {1: _to_version_2}
"""From a version to the function that makes the next version of it; version 1 is the first."""
