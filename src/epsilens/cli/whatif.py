# SPDX-License-Identifier: Apache-2.0
"""`epsilens whatif`: what each privacy budget would cost, without retraining."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import Help, choice, option, option_groups, switch
from epsilens.cli.options import (
    Cluster,
    Data,
    Label,
    Protect,
    TableOptions,
    Test,
    Together,
    comma_list,
    on_cluster,
    read_epsilon,
    read_group_epsilon,
    require_text,
)
from epsilens.cli.output import Output, printable
from epsilens.cli.whatif_stream import ask_streamed, wants_stream
from epsilens.errors import InputError
from epsilens.study import DEFAULT_GRID

MethodChoice = Literal["auto", "influence", "newton", "exact", "curve", "retrain", "paper"]
"""Ways to compute the cost."""


InverseHessianChoice = Literal["cholesky", "cg", "stochastic"]
"""Ways to apply the inverse Hessian."""


MechanismChoice = Literal["rr", "olh", "blh", "oue", "rappor", "the"]
"""Local mechanisms."""


CorrectionChoice = Literal["none", "forward"]
"""Noise corrections."""


@option_groups
def whatif(
    data: Data,
    label: Label,
    protect: Protect = None,
    test: Test = None,
    group: Annotated[
        list[str] | None,
        option(
            "Whose answers are randomised, such as 'women=sex == \"F\"' (repeat). Default: all.",
            "[NAME=]EXPR",
        ),
    ] = None,
    epsilon: Annotated[
        str, option("START:STOP:COUNT, lin:START:STOP:COUNT, a list 0.5,1,2, or COL=E.", "GRID")
    ] = DEFAULT_GRID,
    together: Together = False,
    method: Annotated[
        MethodChoice,
        choice(
            MethodChoice,
            "influence, newton, exact, curve, retrain, paper, or auto: the best that fits --seconds, "
            "never retrain; curve for models that are not linear.",
            "HOW",
        ),
    ] = "auto",
    inverse_hessian: Annotated[
        InverseHessianChoice | None,
        choice(
            InverseHessianChoice,
            "How methods influence and paper apply it: cholesky (a factor), cg (conjugate "
            "gradient) or stochastic (estimation), the last two without a matrix. Default: cholesky.",
            "HOW",
        ),
    ] = None,
    correction: Annotated[
        CorrectionChoice,
        choice(
            CorrectionChoice, "forward: train randomised labels on a loss that knows the noise."
        ),
    ] = "none",
    mechanism: Annotated[
        MechanismChoice,
        choice(
            MechanismChoice,
            "rr: randomised response; olh, blh: local hashing; oue, rappor, the: bits of one "
            "one-hot feature.",
            "NAME",
        ),
    ] = "rr",
    repeats: Annotated[
        int | None,
        option("Trainings at an ε: 20 for method retrain, 5 for curve.", "N", min=1, max=100_000),
    ] = None,
    max_error: Annotated[
        float | None, option("Method curve: error of the change of loss that is enough.", "X")
    ] = None,
    checkpoint: Annotated[
        str | None,
        option(
            "Keeps finished retrainings, or with --stream finished passes (a folder); a killed run "
            "goes on from it.",
            "FILE",
        ),
    ] = None,
    stream: Annotated[
        bool,
        switch(
            "--stream",
            "Read parquet piece by piece at every pass instead of into memory; by itself for a "
            "table that would take more than a quarter of the memory.",
        ),
    ] = False,
    max_loss_increase: Annotated[
        float | None,
        option("Pick the most private ε within this; exit code 3 if there is none.", "X"),
    ] = None,
    seconds: Annotated[float, option("The time that auto may take.", "S")] = 10.0,
    cluster: Cluster = None,
    dependent_groups: Annotated[
        bool,
        switch(
            "--allow-dependent-groups",
            "Warn instead of refusing when a group's membership gives the answer away.",
        ),
    ] = False,
    *,
    table: TableOptions,
    output: Annotated[
        Output,
        Help(
            out="Write the result: .json, .csv, .parquet, .html (the report), .png or .svg.",
            seed="Seed of the random split and of the simulated runs.",
        ),
    ],
) -> None:
    """Estimate what randomising answers at each ε would do to a model.

    Example: [bold]epsilens whatif survey.csv --label smokes --protect smokes
    --group 'young=age < 30' --epsilon 0.1:10:30 --out report.html[/bold]

    On a cluster: [bold]epsilens whatif census.parquet --label smokes --stream
    --cluster ray://head:10001[/bold]
    """
    from dataclasses import asdict, replace
    from functools import partial

    from epsilens.decision.question import read_limits

    output.check(
        (".json", ".csv", ".parquet", ".html", ".png", ".svg"),
        {"the data": data, "the test data": test, "the checkpoint": checkpoint},
    )
    read_limits(max_loss_increase=max_loss_increase)
    if inverse_hessian is not None and method not in {"influence", "paper"}:
        raise InputError(
            f"`--inverse-hessian` belongs to `--method influence` or `paper`, got {method}. "
            "Add that, or leave it out."
        )
    require_text(group, option="--group")
    budget = read_group_epsilon(epsilon) if together else read_epsilon(epsilon)
    protected = comma_list(protect) or (label,)
    in_memory = {
        "--protect": protected != (label,),
        "--correction": correction != "none",
        "--mechanism": mechanism in {"oue", "rappor", "the"},
        "--inverse-hessian": inverse_hessian not in {None, "cholesky"},
    }
    streamed = wants_stream(data, table, asked=stream, in_memory=in_memory)
    if cluster is not None and not streamed and method != "retrain":
        raise InputError(
            "`--cluster` carries what `--stream` or `--method retrain` asks for; one machine does the "
            "rest. Add one of them, or leave it out."
        )
    with on_cluster(cluster), output.progress() as progress:
        if streamed:
            result = ask_streamed(
                data,
                table,
                checkpoint=checkpoint,
                groups=group,
                question={
                    "epsilon": budget,
                    "method": method,
                    "mechanism": mechanism,
                    "seconds": seconds,
                    **({} if repeats is None else {"repeats": repeats}),
                    "random_state": output.seed,
                    "dependent_groups": "warn" if dependent_groups else "refuse",
                    "together": together,
                },
                progress=progress,
            )
        else:
            result = table.study(data, protect=protected, groups=group or ()).cost(
                epsilon=budget,
                method=method,
                inverse_hessian=inverse_hessian,
                correction=correction,
                mechanism=mechanism,
                repeats=repeats,
                max_error=max_error,
                checkpoint=checkpoint,
                seconds=seconds,
                everybody=False,
                dependent_groups="warn" if dependent_groups else "refuse",
                together=together,
                progress=progress,
            )
    from epsilens.document import view
    from epsilens.show import cost_chart, whatif_sentence
    from epsilens.whatif.result import cells_frame

    document = output.settle(result.document)
    choice = recommendation = None
    if max_loss_increase is not None:
        choice = replace(result, document=document).choose(max_loss_increase=max_loss_increase)
        recommendation = {**asdict(choice), "max_loss_increase": max_loss_increase}
    output.write(
        document,
        chart=partial(cost_chart, max_loss_increase=max_loss_increase),
        frame=cells_frame,
        question={"label": label, "data": printable(Path(data).name)},
        recommendation=recommendation,
    )
    output.show(
        document,
        places=range(len(view(document).tables)),
        sentences=[whatif_sentence(document, choice)],
    )
    if choice is not None and not choice.holds:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)
