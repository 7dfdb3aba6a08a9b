# SPDX-License-Identifier: Apache-2.0
"""What every result that is one document can do with it: give it away, and write it down."""

from __future__ import annotations

from pathlib import Path

from epsilens.data.atomic import write_text
from epsilens.document import Document, to_dict, to_json

__all__ = ["Documented"]


class Documented:
    """A result whose whole answer is one document.

    Attributes
    ----------
    document : Document
        The whole answer.

    Examples
    --------
    >>> from epsilens.document import InspectDocument, Provenance
    >>> class Looked(Documented):
    ...     document = InspectDocument(provenance=Provenance(method="inspect"), rows=3, columns=[])
    >>> Looked().to_dict()["rows"]
    3
    """

    document: Document

    def to_dict(self) -> dict[str, object]:
        """Return the JSON document as Python objects.

        Returns
        -------
        dict
            Text, numbers, true, false, null, lists and dicts only; infinity is the text "inf".
        """
        return to_dict(self.document)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the JSON document as text, and write it if a path is given.

        Parameters
        ----------
        path : str or pathlib.Path, optional
            A file, which appears whole or not at all; an older one is replaced.

        Returns
        -------
        str
            What `epsilens.document.load_document` reads.
        """
        text = to_json(self.document)
        if path is not None:
            write_text(text + "\n", path)
        return text
