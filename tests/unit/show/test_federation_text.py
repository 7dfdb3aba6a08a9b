# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

from rich.console import Console

from epsilens.document import view
from epsilens.show import document_table


def shown(table, *, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()


def test_the_tables_have_a_row_for_every_version_and_every_release(build) -> None:
    document = build.make_federation()
    versions, ledger = shown(document_table(document)), shown(document_table(document, place=1))
    assert document_table(document).row_count == 4
    assert "…" not in shown(document_table(document), width=80)
    assert "changed 1" in versions
    assert "one-message" in versions
    assert "5 rounds" in versions
    assert document_table(document, place=1).row_count == 5
    assert ["1", "change", "degrade", "1", "2", "6", "yes"] in map(str.split, ledger.splitlines())


def test_the_sentences_say_what_happened_and_what_is_covered(build) -> None:
    said = " ".join(view(build.make_federation()).sentences)
    assert "Sites 0–2 trained together in 5 rounds; test loss 0.5000, accuracy 70.0%." in said
    assert (
        "Site 1 changes its ε (degrade); the model followed by one message: moved by 0.2, the preview "
        "expected 0.1, within 0.01 of training again, by prediction, test loss 0.5000 → 0.5200."
        in said
    )
    assert "The new model by itself guarantees it ε = 3 per protected column; exact rounds" in said
    assert "Site 2 leaves; the model followed by a Newton step" in said
    assert "Advice for version 3: predicted error 30% of the step. Run `exact` rounds." in said
    assert "sums over randomised records (of a site with one or two" in said
    assert (
        "Flower carried 90 messages in all, questions and confirmations included, 42.0 kB." in said
    )
    assert "Spent in all at sites 0–2: ε = 6 of a record's budget (proven)." in said
    assert "covers the protected columns only (smokes, region)" in said
    assert "this is a rehearsal, and such draws protect nobody" in said


def test_the_published_message_is_called_what_it_is(build) -> None:
    said = " ".join(view(build.make_federation(mode="as_printed")).sentences)
    assert "The message came from the true answers: no guarantee is left." in said
    assert "true ones among them" in said
    assert "At site 1 nothing is guaranteed any more." in said
    assert "Spent in all at sites 0, 2: ε = 6" in said
