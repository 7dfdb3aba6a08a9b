# SPDX-License-Identifier: Apache-2.0
"""What `epsilens whatif` writes and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.document import WhatIfDocument
    from epsilens.whatif import Choice


def write_answer(
    out: str,
    document: WhatIfDocument,
    choice: Choice | None,
    max_loss_increase: float | None,
    *,
    names: dict[str, object],
) -> None:
    """Write the answer as the ending of the file says."""
    from pathlib import Path

    from epsilens.cli.session import typed_command
    from epsilens.data import write_table, write_text
    from epsilens.document import to_json
    from epsilens.show import cost_chart, save_chart, write_report
    from epsilens.whatif.result import cells_frame

    suffix = Path(out).suffix.lower()
    if suffix == ".json":
        write_text(to_json(document) + "\n", out)
    elif suffix == ".html":
        recommendation = None
        if choice is not None:
            recommendation = {
                "epsilon": choice.epsilon,
                "holds": choice.holds,
                "sentence": choice.sentence,
                "max_loss_increase": max_loss_increase,
            }
        write_report(
            document,
            out,
            question=names,
            recommendation=recommendation,
            command=typed_command() if names else None,
        )
    elif suffix in {".png", ".svg"}:
        save_chart(cost_chart(document, max_loss_increase=max_loss_increase), out)
    else:
        write_table(cells_frame(document), out)


def print_answer(
    document: WhatIfDocument, choice: Choice | None, *, quiet: bool, out: str | None
) -> None:
    """Print the answer as tables and in words."""
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import print_notes
    from epsilens.document import view
    from epsilens.show import document_table, whatif_sentence

    console = Console()
    if not quiet:
        console.print(document_table(document))
        if len(view(document).tables) > 1:
            console.print(document_table(document, place=1))
        print_notes(console, document.notes)
    console.print(Text(whatif_sentence(document, choice)))
    if out is not None and not quiet:
        console.print(Text(f"Written: {out}"), soft_wrap=True)
