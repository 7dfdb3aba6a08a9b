# SPDX-License-Identifier: Apache-2.0
"""`epsilens mask`: which columns identify people and do not serve the task."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens._types import Progress
from epsilens.cli.option_groups import Without, must_exist, option_groups
from epsilens.cli.options import (
    Anonymous,
    Data,
    Json,
    Label,
    Quiet,
    Test,
    comma_list,
    out_option,
    seed_option,
    shadow_models_option,
)
from epsilens.cli.training import TableOptions, read_epsilon, with_notes
from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.document import MaskDocument
    from epsilens.masking import Mask, MaskStudy


OUT_SUFFIXES = (".json", ".csv", ".parquet", ".png", ".svg")
SECONDS = 60.0
"""The time that masking takes at most, unless told."""
_ATTACK = "May ε be larger? (trains and attacks models)"


class ExplainerChoice(StrEnum):
    """Ways to explain a model."""

    shap = "shap"
    lime = "lime"


class ScopeChoice(StrEnum):
    """Whose mask."""

    everybody = "global"
    person = "identity"


class MaskMethod(StrEnum):
    """Ways to choose the masked columns."""

    knapsack = "knapsack"
    top_share = "top-share"
    random = "random"


@option_groups
def mask(
    data: Data,
    label: Label,
    identity: Annotated[
        str,
        typer.Option("--identity", metavar="COL", help="The column that says whose record it is."),
    ],
    alpha: Annotated[
        float,
        typer.Option(
            "--alpha",
            metavar="A",
            help="The share of what identifies people that must go, from 0 to 1.",
        ),
    ] = 0.2,
    explainer: Annotated[
        ExplainerChoice,
        typer.Option("--explainer", help="How the two models are explained; shap is the steadier."),
    ] = ExplainerChoice.shap,
    scope: Annotated[
        ScopeChoice,
        typer.Option(
            "--scope",
            help="global: one mask for everybody; identity: one for each person, for data that are "
            "published (which columns are blank then tells whose they are).",
        ),
    ] = ScopeChoice.everybody,
    method: Annotated[
        MaskMethod,
        typer.Option(
            "--method",
            metavar="HOW",
            help="knapsack: the most useful columns within the limit; top-share: the most "
            "identifying go; random: any go, as a control.",
        ),
    ] = MaskMethod.knapsack,
    share: Annotated[
        float,
        typer.Option(
            "--share", metavar="S", help="Share of the columns to mask, for top-share and random."
        ),
    ] = 0.3,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="COL",
            help="Never mask this column (repeat, or separate by commas).",
        ),
    ] = None,
    test: Test = None,
    public: Annotated[
        str | None,
        typer.Option(
            "--public",
            metavar="FILE",
            callback=must_exist,
            help="Public records of other people: choose the mask by these alone.",
        ),
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(
            "--max-rows",
            metavar="N",
            min=2,
            help="Explain at most so many records; 2000 for shap and 200 for lime unless given.",
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="S",
            min=1,
            help="The time that it may take, without --epsilon; a large table is then sampled.",
        ),
    ] = SECONDS,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="GRID",
            help="Attack models trained with DP-SGD at these ε, with and without the masked columns.",
            rich_help_panel=_ATTACK,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            metavar="D",
            help="Its delta, well below one over the number of records.",
            rich_help_panel=_ATTACK,
        ),
    ] = None,
    shadow_models: Annotated[
        int,
        shadow_models_option("Models for every ε and mask; more lower the noise.", panel=_ATTACK),
    ] = 256,
    *,
    table: Annotated[TableOptions, Without("categories", "weight", "model")],
    json: Json = False,
    out: Annotated[
        str | None,
        out_option("Write the result: .json, .csv or .parquet (a line a column), .png or .svg."),
    ] = None,
    seed: Annotated[
        int, seed_option("Seed of the random split, the explanation and the attacks.")
    ] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    r"""Find the columns that recognise people and do not serve the task, and see what masking them does.

    Needs the extra: pip install "epsilens\[explain]".

    Example: [bold]epsilens mask walking.csv --label activity --identity person --alpha 0.5
    --out mask.png[/bold]
    """
    import time

    from epsilens._validate import as_unit, require_extra
    from epsilens.cli.session import check_target, print_json, show_progress, withhold_names

    what = f"explaining a model by {explainer.value.upper()}"
    require_extra("explain", what, explainer.value)  # before heavy imports
    as_unit(alpha, name="alpha")
    from epsilens.document import anonymise, to_json
    from epsilens.masking.choices import check_method
    from epsilens.study import mask_study

    if anonymous:
        withhold_names()
    check_target(
        out,
        sources={"the data": data, "the test data": test, "the public records": public},
        suffixes=OUT_SUFFIXES,
    )
    check_method(scope.value, method.value)
    grid = _check_attack(epsilon, delta, scope=scope)
    asked = table.study(data, identity=identity, candidates=public, candidates_are="public records")
    with show_progress(quiet=quiet, json=json) as progress:
        progress(0, 1, "reading the table")
        prepared = asked.prepared
        progress(1, 1, "reading the table")
        started = time.perf_counter()
        study = mask_study(asked, seconds=seconds, progress=progress)
        found = study.choose(
            alpha=alpha,
            explainer=explainer.value,
            scope=scope.value,
            method=method.value,
            share=share,
            keep=comma_list(keep),
            max_rows=max_rows,
            random_state=seed,
            seconds=max(seconds - (time.perf_counter() - started), 1.0),
            progress=progress,
        )
        if grid is not None and delta is not None:
            found = _relaxed(
                study,
                found,
                epsilon=grid,
                delta=delta,
                shadow_models=shadow_models,
                seed=seed,
                progress=progress,
            )
    document = with_notes(found.document, prepared.notes)
    settings = document.provenance.settings | {"label": label, "identity": identity}
    document = document.model_copy(
        update={"provenance": document.provenance.model_copy(update={"settings": settings})}
    )
    if anonymous:
        document = anonymise(document)
    if out is not None:
        _write(out, document)
    if json:
        print_json(to_json(document))
    else:
        _print(document, quiet=quiet, out=out)


def _check_attack(
    epsilon: str | None, delta: float | None, *, scope: ScopeChoice
) -> tuple[float, ...] | None:
    """Refuse half a question about a relaxed ε; return the grid, None without one."""
    from epsilens._validate import as_share

    if (epsilon is None) != (delta is None):
        missing = "--delta" if delta is None else "--epsilon"
        raise InputError(
            "a relaxed ε needs `--epsilon` and `--delta` together, got one of them. Add "
            f"`{missing}`, or leave both out."
        )
    if epsilon is None:
        return None
    if scope is ScopeChoice.person:
        raise InputError(
            "a relaxed ε needs one mask for everybody, got `--scope identity`. Leave `--epsilon` out, or "
            "use `--scope global`."
        )
    as_share(delta, name="delta")
    grid = read_epsilon(epsilon)
    if isinstance(grid, dict):
        raise InputError(
            "`--epsilon` must be a number or a grid here, got one for each column. DP-SGD protects "
            "whole records."
        )
    return grid


def _relaxed(
    study: MaskStudy,
    found: Mask,
    *,
    epsilon: tuple[float, ...],
    delta: float,
    shadow_models: int,
    seed: int,
    progress: Progress,
) -> Mask:
    """Attack with and without the masked columns, unless none or all are masked."""
    if found.kept.all() or not found.kept.any():
        from dataclasses import replace

        from epsilens.notes import Note

        said = "ε was not compared: there are no features to compare with and without."
        notes = [*found.document.notes, Note("epsilon-not-compared", said)]
        return replace(found, document=found.document.model_copy(update={"notes": notes}))
    return study.relax(
        found,
        epsilon=epsilon,
        delta=delta,
        shadow_models=shadow_models,
        random_state=seed,
        progress=progress,
    )


def _write(out: str, document: MaskDocument) -> None:
    """Write the result as the ending of the file says."""
    from pathlib import Path

    import pandas as pd

    from epsilens.data import write_table, write_text
    from epsilens.document import to_json
    from epsilens.show import mask_chart, save_chart

    suffix = Path(out).suffix.lower()
    if suffix == ".json":
        write_text(to_json(document) + "\n", out)
    elif suffix in {".png", ".svg"}:
        save_chart(mask_chart(document), out)
    else:
        rows = [feature.model_dump() for feature in document.features]
        write_table(pd.DataFrame(rows), out)


def _print(document: MaskDocument, *, quiet: bool, out: str | None) -> None:
    import shlex

    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import print_notes
    from epsilens.data.typed_names import typed_name
    from epsilens.document import view
    from epsilens.show import document_table

    console = Console()
    if not quiet:
        console.print(document_table(document))
        print_notes(console, document.notes)
    for sentence in view(document).sentences:
        console.print(Text(sentence))
    if quiet:
        return
    console.print(
        Text(
            "Masking changes no proven guarantee: at every ε the proof holds as before, and only what is "
            "measured may change."
        )
    )
    if document.masked and document.scope == "global":
        names = ",".join(typed_name(name) for name in document.masked)
        console.print(Text(f"In other commands: --drop {shlex.quote(names)}"))
    if out is not None:
        console.print(Text(f"Written: {out}"), soft_wrap=True)
