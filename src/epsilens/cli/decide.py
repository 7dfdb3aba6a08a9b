# SPDX-License-Identifier: Apache-2.0
"""`epsilens decide`: the budget that the loss one can bear and the attack one fears lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.cluster_option import Cluster, on_cluster
from epsilens.cli.mask import check_identity, masked_columns, without_columns
from epsilens.cli.options import (
    Anonymous,
    BinsOption,
    Categorical,
    Categories,
    Data,
    Delimiter,
    Drop,
    Encoding,
    Json,
    Label,
    Missing,
    MissingChoice,
    Model,
    ModelChoice,
    Positive,
    Quiet,
    Regularisation,
    Test,
    TestShare,
    Weight,
    comma_list,
    require_text,
)
from epsilens.cli.training import (
    TableOptions,
    check_gives_probabilities,
    check_loss,
    check_rate,
    declared_domains,
    estimator_for,
    fit_on,
    read_epsilon,
    with_notes,
)
from epsilens.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from epsilens.data import Prepared
    from epsilens.decision import Decision
    from epsilens.document import DecisionDocument

__all__ = ["decide", "decide_on", "kept_gain"]

EXIT_LIMIT_NOT_MET = 3
DEFAULT_ALPHA = 0.2
DEFAULT_GRID = "0.1:10:30"
KEPT_GAIN = 0.9
"""The share of what the model gains over guessing that is kept, where no limit is given."""
_OUT_SUFFIXES = (".html", ".json", ".png", ".svg")


def decide(
    data: Data,
    label: Label,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            "--protect",
            metavar="COL",
            help="What is randomised: the label, features, or both (repeat, or separate by commas). "
            "Default: the label.",
        ),
    ] = None,
    max_loss_increase: Annotated[
        float | None,
        typer.Option(
            "--max-loss-increase",
            metavar="X",
            help="The increase of the test loss that you can bear.",
        ),
    ] = None,
    max_attack_rate: Annotated[
        float | None,
        typer.Option(
            "--max-attack-rate",
            metavar="R",
            help="The share of answers that you let an attacker guess, such as 0.8.",
        ),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon", metavar="GRID", help="START:STOP:COUNT, lin:START:STOP:COUNT, or a list."
        ),
    ] = DEFAULT_GRID,
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence",
            metavar="C",
            help="Of the interval whose upper end a limit is compared with.",
        ),
    ] = 0.9,
    proven_only: Annotated[
        bool,
        typer.Option(
            "--proven-only",
            help="The attack rate must be kept by proof, against every attack, not by the one tried.",
        ),
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(
            "--identity",
            metavar="COL",
            help="Whose record it is: also try without the columns that identify people and do not serve "
            "the model. Needs the extra explain.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="A",
            help="With --identity: the share of what identifies people that must go, from 0 to 1; 0.2 "
            "unless given.",
        ),
    ] = None,
    test: Test = None,
    shadow_models: Annotated[
        int,
        typer.Option(
            "--shadow-models",
            metavar="N",
            min=20,
            max=100_000,
            help="Models that are attacked for every ε.",
        ),
    ] = 128,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="FOLDER",
            help="Keeps finished models; a killed run goes on from it. Delete it afterwards.",
        ),
    ] = None,
    cluster: Cluster = None,
    categories: Categories = None,
    drop: Drop = None,
    weight: Weight = None,
    categorical: Categorical = None,
    bins: BinsOption = None,
    missing: Missing = MissingChoice.auto,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    positive: Positive = None,
    test_share: TestShare = 0.25,
    model: Model = ModelChoice.logistic,
    regularisation: Regularisation = None,
    json: Json = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the decision: .html (the report), .json, .png or .svg.",
            rich_help_panel="Output",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Of the split, the simulated runs and the attacks.",
            rich_help_panel="Output",
        ),
    ] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Recommend a privacy budget: what each costs and what it buys, on one axis.

    Without a limit, the most private ε that keeps nine tenths of what the model gains over guessing
    by the shares of the answers.

    Example: [bold]epsilens decide survey.csv --label smokes --protect smokes --max-loss-increase 0.01
    --max-attack-rate 0.8 --out report.html[/bold]
    """
    from pathlib import Path

    from epsilens._validate import as_share
    from epsilens.cli.progress import show_progress
    from epsilens.cli.session import print_json, printable, withhold_names
    from epsilens.cli.target import check_target
    from epsilens.document import anonymise, to_json

    if anonymous:
        withhold_names()
    check_target(
        out,
        sources={"the data": data, "the test data": test, "the checkpoint": checkpoint},
        suffixes=_OUT_SUFFIXES,
    )
    check_loss(max_loss_increase)
    check_rate(max_attack_rate)
    check_gives_probabilities(model)
    as_share(confidence, name="--confidence")
    level = DEFAULT_ALPHA if alpha is None else alpha
    if identity is not None:
        check_identity(identity, label=label, drop=drop, alpha=level)
    elif alpha is not None:
        raise InputError(
            "`--alpha` needs `--identity`, the column that says whose record it is, got none. Add it, or "
            "leave `--alpha` out."
        )
    require_text([*(protect or ()), *(categories or ())], option="--protect")
    columns = comma_list(protect) or (label,)
    table = TableOptions(
        label=label,
        test=test,
        drop=drop,
        weight=weight,
        categorical=categorical,
        bins=bins,
        missing=missing,
        delimiter=delimiter,
        encoding=encoding,
        positive=positive,
        test_share=test_share,
        model=model,
        seed=seed,
    )
    budget = read_epsilon(epsilon)
    with on_cluster(cluster), show_progress(quiet=quiet, json=json) as progress:
        prepared = table.prepare(data, beside=() if identity is None else (identity,))
        question: dict[str, object] = {
            "protect": columns,
            "epsilon": budget,
            "categories": declared_domains(categories, columns, table, prepared),
            "max_loss_increase": max_loss_increase,
            "max_attack_rate": max_attack_rate,
            "confidence": confidence,
            "proven_only": proven_only,
            "shadow_models": shadow_models,
            "checkpoint": checkpoint,
            "seed": seed,
            "progress": progress,
        }

        def estimator_of(part: Prepared) -> object:
            return estimator_for(
                part,
                model=model,
                regularisation=regularisation,
                protect=columns,
                categories=categories,
            )

        masked: list[str] = []
        if identity is not None:
            # First: a missing extra, or an identity that is none, is found before the long work.
            masked = masked_columns(
                prepared,
                regularisation=regularisation,
                alpha=level,
                protect=columns,
                seed=seed,
                progress=progress,
            )
        decision = decide_on(prepared, estimator_of(prepared), **question)  # type: ignore[arg-type]
        if identity is not None:
            decision = with_lever(decision, prepared, masked, question, estimator_of)
    document = with_notes(decision.document, prepared.notes)
    if anonymous:
        document = anonymise(document)
    if out is not None:
        names = {} if anonymous else {"label": label, "data": printable(Path(data).name)}
        write_decision(out, document, names=names)
    if json:
        print_json(to_json(document))
    else:
        print_decision(document, quiet=quiet, out=out)
    if not document.recommendation.holds:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)


def decide_on(
    prepared: Prepared,
    estimator: object,
    *,
    protect: Sequence[str],
    epsilon: str | dict[str, float],
    categories: dict[str, list[object]] | None,
    max_loss_increase: float | None,
    max_attack_rate: float | None,
    confidence: float,
    proven_only: bool,
    shadow_models: int,
    checkpoint: str | None,
    seed: int,
    progress: Callable[[int, int, str], None],
) -> Decision:
    """Ask what each budget costs and what it buys, and decide."""
    import warnings

    from epsilens.decision import decide as join_and_decide
    from epsilens.errors import PrivacyLeakWarning
    from epsilens.risk.study import AttackStudy
    from epsilens.whatif import WhatIf

    study = fit_on(WhatIf(estimator), prepared)
    note = None
    if max_loss_increase is None and max_attack_rate is None:
        max_loss_increase = kept_gain(prepared, study.baseline_.outcomes.loss)
        note = (
            f"no limit was given: the loss may rise by {max_loss_increase:.3g}, so that the model keeps "
            f"{100 * KEPT_GAIN:.0f} % of what it gains over guessing by the shares of the answers."
        )
    cost = study.estimate(
        protect=protect,
        epsilon=epsilon,
        categories=categories,
        random_state=seed,
        progress=progress,
    )
    with warnings.catch_warnings():
        # The cost has said it of the same columns.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        risk = fit_on(AttackStudy(estimator), prepared).estimate(
            protect=protect,
            epsilon=epsilon,
            categories=categories,
            shadow_models=shadow_models,
            random_state=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
    decision = join_and_decide(
        cost,
        risk,
        max_loss_increase=max_loss_increase,
        max_attack_rate=max_attack_rate,
        confidence=confidence,
        proven_only=proven_only,
    )
    if note is None:
        return decision
    said = decision.document.model_copy(update={"warnings": [note, *decision.document.warnings]})
    return replace(decision, document=said)


def with_lever(
    decision: Decision,
    prepared: Prepared,
    masked: Sequence[str],
    question: Mapping[str, object],
    estimator_of: Callable[[Prepared], object],
) -> Decision:
    """Decide again without the masked columns, and say what that would change."""
    from epsilens.decision import masking_lever

    chosen = decision.recommendation
    note = None
    if not masked:
        note = "no column identifies people that the model can spare: masking is no lever here."
    elif len(masked) == prepared.X_train.shape[1]:
        note = "every column identifies people, and none would be left: masking is no lever here."
    elif chosen.epsilon is None:
        note = "no ε is recommended, so masking was not tried as a lever."
    if note is not None:
        said = [*decision.document.warnings, note]
        return replace(decision, document=decision.document.model_copy(update={"warnings": said}))
    rest = without_columns(prepared, masked)
    beside = question["checkpoint"]
    again = decide_on(
        rest,
        estimator_of(rest),
        **{  # type: ignore[arg-type]
            **question,
            "max_loss_increase": chosen.max_loss_increase,
            "max_attack_rate": chosen.max_attack_rate,
            "checkpoint": None if beside is None else f"{str(beside).rstrip('/')}-masked",
        },
    )
    lever = masking_lever(decision, again, masked=masked)
    return replace(decision, document=decision.document.model_copy(update={"lever": lever}))


def kept_gain(prepared: Prepared, loss: float | None) -> float:
    """Return the rise of the loss that leaves most of what the model gains over guessing.

    Guessing by the shares of the answers in the training data loses their cross-entropy on the test
    data; a tenth of the distance to it may be lost.
    """
    import numpy as np
    import pandas as pd

    train = (
        np.ones(len(prepared.y_train)) if prepared.sample_weight is None else prepared.sample_weight
    )
    test = prepared.sample_weight_test
    totals = pd.Series(np.asarray(train, dtype=float)).groupby(prepared.y_train.to_numpy()).sum()
    surprise = -np.log(
        pd.Series(prepared.y_test.to_numpy()).map(totals / totals.sum()).astype(float)
    )
    guessed = float(np.average(surprise, weights=None if test is None else np.asarray(test)))
    if loss is None or not guessed - loss > 0:
        raise InputError(
            "the model predicts no better than the shares of the answers, so there is no gain to keep. "
            "Give `--max-loss-increase` or `--max-attack-rate`."
        )
    return float(f"{(1.0 - KEPT_GAIN) * (guessed - loss):.3g}")


def write_decision(out: str, document: DecisionDocument, *, names: dict[str, str]) -> None:
    """Write the decision as the ending of the file says."""
    from pathlib import Path

    from epsilens.cli.session import typed_command
    from epsilens.data import write_text
    from epsilens.display import decision_chart, save_chart
    from epsilens.document import to_json
    from epsilens.reporting import write_report

    suffix = Path(out).suffix.lower()
    if suffix == ".json":
        write_text(to_json(document) + "\n", out)
    elif suffix == ".html":
        write_report(document, out, question=names, command=typed_command() if names else None)
    else:
        save_chart(decision_chart(document), out)


def print_decision(document: DecisionDocument, *, quiet: bool, out: str | None) -> None:
    """Print the decision as a table and in words."""
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import is_held
    from epsilens.reporting import decision_table

    console = Console()
    if not quiet:
        console.print(decision_table(document))
        for note in dict.fromkeys(document.warnings):
            if not is_held(note):
                console.print(Text(f"Note: {note.rstrip('.')}."))
    console.print(Text(document.recommendation.sentence, style="bold"))
    if document.lever is not None:
        gone = ", ".join(document.lever.masked)
        console.print(Text(f"Masking {gone}: {document.lever.sentence}"))
    if quiet:
        return
    console.print(
        Text(
            "These numbers are functions of the raw records and not private: publishing them, or "
            "choosing ε by them, leaks."
        )
    )
    if out is not None:
        console.print(Text(f"Written: {out}"))
