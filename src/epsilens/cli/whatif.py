# SPDX-License-Identifier: Apache-2.0
"""`epsilens whatif`: what each privacy budget would cost, without retraining."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import option_groups
from epsilens.cli.options import (
    Anonymous,
    Data,
    Json,
    Label,
    Protect,
    Quiet,
    Test,
    comma_list,
    out_option,
    require_text,
    seed_option,
)
from epsilens.cli.session import Cluster, on_cluster
from epsilens.cli.training import TableOptions, read_epsilon, with_notes
from epsilens.cli.whatif_output import print_answer, write_answer
from epsilens.cli.whatif_stream import ask_streamed, wants_stream
from epsilens.errors import InputError
from epsilens.study import DEFAULT_GRID

_OUT_SUFFIXES = (".json", ".csv", ".parquet", ".html", ".png", ".svg")


class MethodChoice(StrEnum):
    """Ways to compute the cost."""

    auto = "auto"
    influence = "influence"
    newton = "newton"
    exact = "exact"
    retrain = "retrain"
    paper = "paper"


class InverseHessianChoice(StrEnum):
    """Ways to apply the inverse Hessian."""

    cholesky = "cholesky"
    cg = "cg"
    stochastic = "stochastic"


class MechanismChoice(StrEnum):
    """Local mechanisms."""

    rr = "rr"
    olh = "olh"
    blh = "blh"
    oue = "oue"
    rappor = "rappor"
    the = "the"


class CorrectionChoice(StrEnum):
    """Noise corrections."""

    none = "none"
    forward = "forward"


@option_groups
def whatif(
    data: Data,
    label: Label,
    protect: Protect = None,
    test: Test = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="[NAME=]EXPR",
            help="Whose answers are randomised, such as 'women=sex == \"F\"' (repeat). Default: all.",
        ),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon",
            metavar="GRID",
            help="START:STOP:COUNT, lin:START:STOP:COUNT, a list 0.5,1,2, or COL=E.",
        ),
    ] = DEFAULT_GRID,
    method: Annotated[
        MethodChoice,
        typer.Option(
            "--method",
            metavar="HOW",
            help="influence, newton, exact, retrain, paper, or auto: the best that fits --seconds, "
            "never retrain.",
        ),
    ] = MethodChoice.auto,
    inverse_hessian: Annotated[
        InverseHessianChoice | None,
        typer.Option(
            "--inverse-hessian",
            metavar="HOW",
            help="How methods influence and paper apply it: cholesky (a factor), cg (conjugate "
            "gradient) or stochastic (estimation), the last two without a matrix. Default: cholesky.",
        ),
    ] = None,
    correction: Annotated[
        CorrectionChoice,
        typer.Option(
            "--correction", help="forward: train randomised labels on a loss that knows the noise."
        ),
    ] = CorrectionChoice.none,
    mechanism: Annotated[
        MechanismChoice,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help="rr: randomised response; olh, blh: local hashing; oue, rappor, the: bits of one "
            "one-hot feature.",
        ),
    ] = MechanismChoice.rr,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            metavar="N",
            min=1,
            max=100_000,
            help="Retrainings a cell (method retrain).",
        ),
    ] = 20,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Keeps finished retrainings, or with --stream finished passes (a folder); a killed run "
            "goes on from it.",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read parquet piece by piece at every pass instead of into memory; by itself for a "
            "table that would take more than a quarter of the memory.",
        ),
    ] = False,
    max_loss_increase: Annotated[
        float | None,
        typer.Option(
            "--max-loss-increase",
            metavar="X",
            help="Pick the most private ε within this; exit code 3 if there is none.",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", help="The time that auto may take.")
    ] = 10.0,
    cluster: Cluster = None,
    dependent_groups: Annotated[
        bool,
        typer.Option(
            "--allow-dependent-groups",
            help="Warn instead of refusing when a group's membership gives the answer away.",
        ),
    ] = False,
    *,
    table: TableOptions,
    json: Json = False,
    out: Annotated[
        str | None,
        out_option("Write the result: .json, .csv, .parquet, .html (the report), .png or .svg."),
    ] = None,
    seed: Annotated[int, seed_option("Seed of the random split and of the simulated runs.")] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Estimate what randomising answers at each ε would do to a model, without retraining it.

    Example: [bold]epsilens whatif survey.csv --label smokes --protect smokes
    --group 'young=age < 30' --epsilon 0.1:10:30 --out report.html[/bold]

    On a cluster: [bold]epsilens whatif census.parquet --label smokes --stream
    --cluster ray://head:10001[/bold]
    """
    from dataclasses import replace
    from pathlib import Path

    from epsilens.cli.session import (
        check_target,
        print_json,
        printable,
        show_progress,
        withhold_names,
    )
    from epsilens.decision.question import read_limits
    from epsilens.document import anonymise, to_json

    if anonymous:
        withhold_names()
    check_target(
        out,
        sources={"the data": data, "the test data": test, "the checkpoint": checkpoint},
        suffixes=_OUT_SUFFIXES,
    )
    read_limits(max_loss_increase=max_loss_increase)
    _check_solver(inverse_hessian, method)
    require_text(group, option="--group")
    budget = read_epsilon(epsilon)
    protected = comma_list(protect) or (label,)
    by_bits = mechanism in {MechanismChoice.oue, MechanismChoice.rappor, MechanismChoice.the}
    needing = [
        *(["--protect"] if protected != (label,) else []),
        *(["--correction"] if correction is not CorrectionChoice.none else []),
        *(["--mechanism"] if by_bits else []),
        *(
            ["--inverse-hessian"]
            if inverse_hessian not in {None, InverseHessianChoice.cholesky}
            else []
        ),
    ]
    streamed = wants_stream(data, table, asked=stream, elsewhere=needing)
    if cluster is not None and not streamed and method is not MethodChoice.retrain:
        raise InputError(
            "`--cluster` carries what `--stream` or `--method retrain` asks for; one machine does the "
            "rest. Add one of them, or leave it out."
        )
    with on_cluster(cluster), show_progress(quiet=quiet, json=json) as progress:
        if streamed:
            result = ask_streamed(
                data,
                table,
                checkpoint=checkpoint,
                groups=group,
                question={
                    "epsilon": budget,
                    "method": method.value,
                    "mechanism": mechanism.value,
                    "seconds": seconds,
                    "repeats": repeats,
                    "random_state": seed,
                    "dependent_groups": "warn" if dependent_groups else "refuse",
                },
                progress=progress,
            )
        else:
            result = table.study(data, protect=protected, groups=group or ()).cost(
                epsilon=budget,
                method=method.value,
                inverse_hessian=None if inverse_hessian is None else inverse_hessian.value,
                correction=correction.value,
                mechanism=mechanism.value,
                repeats=repeats,
                checkpoint=checkpoint,
                seconds=seconds,
                everybody=False,
                dependent_groups="warn" if dependent_groups else "refuse",
                progress=progress,
            )
    document = with_notes(result.document)
    if anonymous:
        document = anonymise(document)
    choice = None
    if max_loss_increase is not None:
        choice = replace(result, document=document).choose(max_loss_increase=max_loss_increase)
    if out is not None:
        names: dict[str, object] = {}
        if not anonymous:
            names = {"label": label, "data": printable(Path(data).name)}
        write_answer(out, document, choice, max_loss_increase, names=names)
    if json:
        print_json(to_json(document))
    else:
        print_answer(document, choice, quiet=quiet, out=out)
    if choice is not None and not choice.holds:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)


def _check_solver(inverse_hessian: InverseHessianChoice | None, method: MethodChoice) -> None:
    """Refuse a solver for a method that does not use one, before any work."""
    if inverse_hessian is not None and method not in {MethodChoice.influence, MethodChoice.paper}:
        raise InputError(
            f"`--inverse-hessian` belongs to `--method influence` or `paper`, got {method.value}. "
            "Add that, or leave it out."
        )
