# SPDX-License-Identifier: Apache-2.0
"""What `epsilens risk` writes and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens.notes import Note

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from epsilens.document import RiskDocument
    from epsilens.risk.result import AttackChoice, RiskCurve


OUT_SUFFIXES = (".json", ".csv", ".parquet", ".png", ".svg")
EXPOSED_SUFFIXES = (".csv",)
N_EXPOSED = 100
"""How many records the list of the most exposed has at most."""


def write_risk(
    out: str | None,
    document: RiskDocument,
    *,
    exposed: str | None,
    curve: RiskCurve,
    rows: NDArray[np.intp],
) -> None:
    """Write the result as the ending of the file says, and the list of exposed records.

    Parameters
    ----------
    out : str, optional
        The file of the result.
    document : RiskDocument
        What it will hold.
    exposed : str, optional
        The file of the list: the one place where rows are numbered.
    curve : RiskCurve
        What the list is read from.
    rows : array of int
        Where in the data each training record stands, counted from 0.
    """
    if out is not None:
        _write_document(out, document)
    if exposed is not None:
        _write_exposed(exposed, curve, rows)


def _write_document(out: str, document: RiskDocument) -> None:
    from pathlib import Path

    from epsilens.data import write_table, write_text
    from epsilens.document import to_json
    from epsilens.risk.result import risk_frame
    from epsilens.show import risk_chart, save_chart

    suffix = Path(out).suffix.lower()
    if suffix == ".json":
        write_text(to_json(document) + "\n", out)
    elif suffix in {".png", ".svg"}:
        save_chart(risk_chart(document), out)
    else:
        write_table(risk_frame(document), out)


def _write_exposed(exposed: str, curve: RiskCurve, rows: NDArray[np.intp]) -> None:
    """Write row and success rate of the most exposed records, for the owner's eyes alone."""
    from epsilens.data import replacing
    from epsilens.errors import PrivacyLeakWarning

    frame = curve.most_exposed(N_EXPOSED)
    frame["row"] = rows[frame["row"].to_numpy()]
    with replacing(exposed, private=True) as scratch:
        scratch.write_bytes(frame.to_csv(index=False, lineterminator="\n").encode("utf-8"))
    Note(
        "exposed-records",
        "the file of `--exposed` says which single records can be recognised: keep it on this machine "
        "and delete it when you have looked.",
    ).warn(PrivacyLeakWarning, stacklevel=2)


def print_risk(
    document: RiskDocument, choice: AttackChoice | None, *, quiet: bool, written: list[str]
) -> None:
    """Print the answer as a table and in words."""
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import print_notes
    from epsilens.show import document_table, risk_sentences

    console = Console()
    if not quiet:
        console.print(document_table(document))
        print_notes(console, document.notes)
    if choice is not None:
        console.print(Text(choice.sentence))
    if choice is None or choice.epsilon is not None:
        wanted = None if choice is None else choice.epsilon
        for sentence in risk_sentences(document, epsilon=wanted):
            console.print(Text(sentence))
    if quiet:
        return
    console.print(
        Text(
            "These rates are functions of the raw records and not private: publishing them, or "
            "choosing ε by them, leaks."
        )
    )
    if written:
        console.print(Text(f"Written: {' and '.join(written)}"), soft_wrap=True)
