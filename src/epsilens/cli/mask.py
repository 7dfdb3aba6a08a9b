# SPDX-License-Identifier: Apache-2.0
"""`epsilens mask`: which columns identify people and do not serve the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from epsilens.cli.option_groups import Help, Without, choice, must_exist, option, option_groups
from epsilens.cli.options import (
    Data,
    Label,
    TableOptions,
    Test,
    comma_list,
    read_epsilon,
    shadow_models_option,
)
from epsilens.cli.output import Output
from epsilens.errors import InputError
from epsilens.notes import Note
from epsilens.study import MASKING_SECONDS, find_mask

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.document import MaskDocument


_ATTACK = "May ε be larger? (trains and attacks models)"


ExplainerChoice = Literal["shap", "lime"]
"""Ways to explain a model."""


ScopeChoice = Literal["global", "identity"]
"""Whose mask."""


MaskMethod = Literal["knapsack", "top-share", "random"]
"""Ways to choose the masked columns."""


@option_groups
def mask(
    data: Data,
    label: Label,
    identity: Annotated[str, option("The column that says whose record it is.", "COL")],
    alpha: Annotated[
        float, option("The share of what identifies people that must go, from 0 to 1.", "A")
    ] = 0.2,
    explainer: Annotated[
        ExplainerChoice,
        choice(ExplainerChoice, "How the two models are explained; shap is the steadier."),
    ] = "shap",
    scope: Annotated[
        ScopeChoice,
        choice(
            ScopeChoice,
            "global: one mask for everybody; identity: one for each person, for data that are "
            "published (which columns are blank then tells whose they are).",
        ),
    ] = "global",
    method: Annotated[
        MaskMethod,
        choice(
            MaskMethod,
            "knapsack: the most useful columns within the limit; top-share: the most "
            "identifying go; random: any go, as a control.",
            "HOW",
        ),
    ] = "knapsack",
    share: Annotated[
        float, option("Share of the columns to mask, for top-share and random.", "S")
    ] = 0.3,
    keep: Annotated[
        list[str] | None, option("Never mask this column (repeat, or separate by commas).", "COL")
    ] = None,
    test: Test = None,
    public: Annotated[
        str | None,
        option(
            "Public records of other people: choose the mask by these alone.",
            "FILE",
            callback=must_exist,
        ),
    ] = None,
    max_rows: Annotated[
        int | None,
        option(
            "Explain at most so many records; 2000 for shap and 200 for lime unless given.",
            "N",
            min=2,
        ),
    ] = None,
    seconds: Annotated[
        float,
        option(
            "The time that it may take, without --epsilon; a large table is then sampled.",
            "S",
            min=1,
        ),
    ] = MASKING_SECONDS,
    epsilon: Annotated[
        str | None,
        option(
            "Attack models trained with DP-SGD at these ε, with and without the masked columns.",
            "GRID",
            panel=_ATTACK,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        option("Its delta, well below one over the number of records.", "D", panel=_ATTACK),
    ] = None,
    shadow_models: Annotated[
        int,
        shadow_models_option("Models for every ε and mask; more lower the noise.", panel=_ATTACK),
    ] = 256,
    *,
    table: Annotated[
        TableOptions,
        Without("categories", "weight"),
        Help(
            model="logistic, hist-gradient-boosting, random-forest, extra-trees, mlp, xgboost, lightgbm, or "
            "MODULE:NAME of your own: a scikit-learn classifier with probabilities, or what makes one.",
        ),
    ],
    output: Annotated[
        Output,
        Help(
            out="Write the result: .json, .csv or .parquet (a line a column), .png or .svg.",
            seed="Seed of the random split, the explanation and the attacks.",
        ),
    ],
) -> None:
    r"""Find the columns that recognise people and do not serve the task, and see what masking them does.

    Needs the extra: pip install "epsilens\[explain]".

    Example: [bold]epsilens mask walking.csv --label activity --identity person --alpha 0.5
    --out mask.png[/bold]
    """
    from epsilens._validate import as_unit, require_extra

    what = f"explaining a model by {explainer.upper()}"
    require_extra("explain", what, explainer)  # before heavy imports
    as_unit(alpha, name="alpha")
    from epsilens.masking.choices import check_method

    output.check(
        (".json", ".csv", ".parquet", ".png", ".svg"),
        {"the data": data, "the test data": test, "the public records": public},
    )
    check_method(scope, method)
    not_compared: list[Note] = []
    grid = _check_attack(epsilon, delta, scope=scope)
    asked = table.study(data, identity=identity, candidates=public, candidates_are="public records")
    with output.progress() as progress:
        progress(0, 1, "reading the table")
        prepared = asked.prepared
        progress(1, 1, "reading the table")
        study, found = find_mask(
            asked,
            seconds=seconds,
            progress=progress,
            alpha=alpha,
            explainer=explainer,
            scope=scope,
            method=method,
            share=share,
            keep=comma_list(keep),
            max_rows=max_rows,
        )
        if grid is not None and delta is not None:
            # With and without the masked columns, unless none or all are masked.
            if found.kept.any() and not found.kept.all():
                found = study.relax(
                    found,
                    epsilon=grid,
                    delta=delta,
                    shadow_models=shadow_models,
                    random_state=output.seed,
                    progress=progress,
                )
            else:
                said = "ε was not compared: there are no features to compare with and without."
                not_compared.append(Note("epsilon-not-compared", said))
    notes = [*found.document.notes, *not_compared]
    document = found.document.model_copy(update={"notes": notes})
    document = output.settle(document, prepared.notes)
    from epsilens.show import mask_chart

    output.write(document, chart=mask_chart, frame=_features)
    output.show(document, remarks=_remarks(document))


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
    if scope == "identity":
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


def _features(document: MaskDocument) -> pd.DataFrame:
    """Return a line for each column."""
    import pandas as pd

    return pd.DataFrame([feature.model_dump() for feature in document.features])


def _remarks(document: MaskDocument) -> list[str]:
    import shlex

    from epsilens.data.typed_names import typed_name

    said = [
        "Masking changes no proven guarantee: at every ε the proof holds as before, and only what is "
        "measured may change."
    ]
    if document.masked and document.scope == "global":
        names = ",".join(typed_name(name) for name in document.masked)
        said.append(f"In other commands: --drop {shlex.quote(names)}")
    return said
