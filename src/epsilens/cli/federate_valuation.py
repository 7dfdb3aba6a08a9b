# SPDX-License-Identifier: Apache-2.0
"""What is typed about valuations between sites, and what is shown of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.federated.plan import PlannedOperation
    from epsilens.federated.valuing import Valuation


_PANEL = "Valuation"


class ValueModeChoice(StrEnum):
    """How records are valued between sites."""

    items = "items"
    batch = "batch"


Items = Annotated[
    int | None,
    typer.Option(
        "--items",
        metavar="N",
        min=1,
        help="Value so many records at most; otherwise as many as the tester answers.",
        rich_help_panel=_PANEL,
    ),
]
ValueModeOption = Annotated[
    ValueModeChoice,
    typer.Option(
        "--value-mode",
        help="items: a score for each record, under encryption; batch: one score, and the coordinator sees "
        "how the model would move (weak).",
        rich_help_panel=_PANEL,
    ),
]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept",
        help="Take records on offer into the model if they help on the whole.",
        rich_help_panel=_PANEL,
    ),
]
SecureAggregation = Annotated[
    bool,
    typer.Option(
        "--secure-aggregation",
        help="Mask every site's sums, so that the coordinator sees those over all sites only.",
    ),
]
Value = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="A:B",
        help="What site A's records are worth on site B's (repeat), after all changes.",
        rich_help_panel=_PANEL,
    ),
]
Offer = Annotated[
    list[str] | None,
    typer.Option(
        "--offer",
        metavar="SITE:SHARE",
        help="A site keeps a share of its records out of the model: on offer as a provider's, and for tests "
        "as a tester's (repeat).",
        rich_help_panel=_PANEL,
    ),
]
ScoreLimit = Annotated[
    int | None,
    typer.Option(
        "--score-limit",
        metavar="N",
        min=1,
        help="Scores that a site gives in all, whoever asks; otherwise a safe share of what would give its "
        "statistics away.",
        rich_help_panel=_PANEL,
    ),
]
TesterKey = Annotated[
    list[str] | None,
    typer.Option(
        "--tester-key",
        metavar="FINGERPRINT",
        help="Let only this tester ask about the site's records (repeat); its people read it from their own "
        "site's first lines.",
        rich_help_panel=_PANEL,
    ),
]
ScoreFile = Annotated[
    str | None,
    typer.Option(
        "--scores",
        metavar="FILE",
        help="Write the single scores to a .csv file; they are in no document.",
        rich_help_panel=_PANEL,
    ),
]


def checked_valuations(
    typed: Iterable[str] | None,
    *,
    mode: str,
    items: int | None,
    accept: bool,
    offers: Mapping[int, float],
) -> list[PlannedOperation]:
    """Read all `--value` options: provider and tester, as in `1:3`; refuse what cannot be done.

    Examples
    --------
    >>> checked_valuations(["1:3"], mode="batch", items=None, accept=False, offers={})[0].sites
    (1, 3)
    """
    from epsilens.federated.plan import PlannedOperation
    from epsilens.valuation.ckks import seal

    found = []
    for text in typed or ():
        provider, sign, tester = text.strip().partition(":")
        if not sign or not provider.isdecimal() or not tester.isdecimal():
            raise InputError(
                f"`--value` must be PROVIDER:TESTER, for instance 1:3, got {text!r}. Sites are numbered "
                "from 0."
            )
        if int(provider) == int(tester):
            raise InputError(f"`--value` must name two sites, got {provider} twice.")
        found.append(
            PlannedOperation(
                "value",
                sites=(int(provider), int(tester)),
                value_mode=mode,  # type: ignore[arg-type]
                items=items,
                accept=accept,
            )
        )
        if accept and int(provider) not in offers:
            raise InputError(
                f"`--accept` needs records on offer, and site {provider} has none. Add for instance "
                f"`--offer {provider}:0.3`."
            )
    if found and mode == "items":
        seal()
    return found


def keep_limits(folder: Path, *, limit: int | None, testers: Sequence[str] | None) -> None:
    """Change what was typed of a site's limits, and leave the others as they are."""
    from epsilens.federated.value_service import AnswerLimits

    if limit is None and not testers:
        return
    kept = AnswerLimits.read(folder)
    if limit is not None:
        kept = replace(kept, limit=limit)
    if testers:
        kept = replace(kept, testers=tuple(testers))
    kept.write(folder)


def say_fingerprint(folder: Path) -> None:
    """Tell a site's people by what its providers will know it, if it can be a tester at all."""
    from epsilens.errors import MissingExtraError
    from epsilens.federated.value_service import ValueService

    try:
        found = ValueService(folder).fingerprint()
    except MissingExtraError:
        return
    typer.echo(f"As a tester of others' records this site is {found}.")


def check_secure(algorithm: str, *, secure: bool) -> None:
    """Refuse, before any work, what cannot be added up under masks."""
    if secure and algorithm == "fedavg":
        raise InputError(
            "`--secure-aggregation` adds up gradients and Hessians, and fedavg has neither. Use "
            "`--algorithm newton`."
        )


def offers_of(typed: Iterable[str] | None, *, n_sites: int) -> dict[int, float]:
    """Read all `--offer` options: a site, and the share of its records that it has on offer.

    Examples
    --------
    >>> offers_of(["1:0.3"], n_sites=5)
    {1: 0.3}
    """
    found: dict[int, float] = {}
    for text in typed or ():
        site, _, share = text.strip().partition(":")
        try:
            number, part = int(site), float(share)
        except ValueError:
            number, part = -1, math.nan
        if not 0 <= number < n_sites or not 0 < part < 1:
            raise InputError(
                f"`--offer` must be SITE:SHARE with a site from 0 to {n_sites - 1} and a share between 0 "
                f"and 1, for instance 1:0.3, got {text!r}."
            )
        found[number] = part
    return found


def write_scores(valuations: Sequence[Valuation], path: str) -> None:
    """Write single scores as a table: provider, tester, item, score."""
    from epsilens.data import write_text

    lines = ["provider,tester,item,score"]
    for found in valuations:
        head = f"{found.provider},{found.tester}"
        lines += [f"{head},{i},{score!r}" for i, score in enumerate(found.scores.tolist())]
    write_text("\n".join(lines) + "\n", path)
