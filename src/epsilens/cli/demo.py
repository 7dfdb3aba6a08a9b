# SPDX-License-Identifier: Apache-2.0
"""`epsilens demo`: the whole story on bundled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens._types import Progress
from epsilens.cli.options import Json, Quiet

if TYPE_CHECKING:
    from epsilens.data import Prepared
    from epsilens.decision import Decision
    from epsilens.document import DecisionDocument
    from epsilens.whatif import LossChangeEstimate, WhatIf

__all__ = ["decide_on_survey", "demo", "train_on_survey"]

LABEL = "affair"
GRID = "0.1:10:30"
TOLERANCE = 0.01
FEARED = 0.95
SHADOW_MODELS = 128
CHECKED = (0.5, 1.0, 2.0)
CHECK_REPEATS = 40
GROUPS = ("unhappily married=rate_marriage <= 3",)


def demo(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="The folder for the report and the numbers."),
    ] = Path("demo"),
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Of the split and the simulated runs.")
    ] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell the whole story on a bundled survey: what hiding who was unfaithful costs and buys.

    Writes report.html, decision.json, decision.svg and the table, survey.csv, into DIR and prints the
    answer.

    Example: [bold]epsilens demo --out demo[/bold]
    """
    from epsilens.cli.progress import show_progress
    from epsilens.cli.session import print_json
    from epsilens.document import to_json

    folder = _folder(out)
    with show_progress(quiet=quiet, json=json) as progress:
        prepared, study, decision = decide_on_survey(seed=seed, progress=progress)
        checked = study.retrain(
            protect=LABEL,
            epsilon=CHECKED,
            repeats=CHECK_REPEATS,
            random_state=seed,
            progress=progress,
        )
        foreseen = study.estimate(protect=LABEL, epsilon=CHECKED, method="exact", random_state=seed)
    document = decision.document
    _write(folder, document)
    if json:
        print_json(to_json(document))
        return
    _print(prepared, document, checked, foreseen, folder=folder, quiet=quiet)


def _folder(out: Path) -> Path:
    from epsilens.errors import InputError

    if out.exists() and not out.is_dir():
        raise InputError(f"`--out` must be a folder, but {out.name!r} is a file. Choose another.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the folder {out.name!r} cannot be made ({error.strerror}). Choose another place."
        ) from None
    return out


def train_on_survey(*, seed: int) -> tuple[Prepared, WhatIf]:
    """Return the survey, split, and the study of its default model."""
    import pandas as pd

    from epsilens.data import load_survey, prepare
    from epsilens.models.default import default_estimator
    from epsilens.whatif import WhatIf

    prepared = prepare(load_survey(), label=LABEL, groups=GROUPS, seed=seed)
    answers = pd.CategoricalDtype(["no", "yes"])
    study = WhatIf(default_estimator(prepared.schema)).fit(
        prepared.X_train,
        prepared.y_train.astype(answers),
        prepared.X_test,
        prepared.y_test.astype(answers),
    )
    return prepared, study


def decide_on_survey(
    *, seed: int, progress: Progress | None = None
) -> tuple[Prepared, WhatIf, Decision]:
    """Return the survey, its study, and the decision that the demo tells of."""
    import warnings

    from epsilens.decision import decide
    from epsilens.document import EVERYBODY
    from epsilens.errors import PrivacyLeakWarning
    from epsilens.models.fitting import fit_on
    from epsilens.risk.study import AttackStudy

    prepared, study = train_on_survey(seed=seed)
    everyone = prepared.y_train.notna().to_numpy()
    cost = study.estimate(
        protect=LABEL,
        epsilon=GRID,
        groups={EVERYBODY: everyone, **prepared.groups},
        method="exact",
        random_state=seed,
        progress=progress,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        attacked = fit_on(AttackStudy(study.estimator), prepared)
        risk = attacked.estimate(
            protect=LABEL,
            epsilon=GRID,
            categories={LABEL: ["no", "yes"]},
            shadow_models=SHADOW_MODELS,
            random_state=seed,
            progress=progress,
        )
    decision = decide(cost, risk, max_loss_increase=TOLERANCE, max_attack_rate=FEARED)
    return prepared, study, decision


def _write(folder: Path, document: DecisionDocument) -> None:
    from epsilens.cli.session import typed_command
    from epsilens.data import load_survey, write_table, write_text
    from epsilens.document import to_json
    from epsilens.show import decision_chart, save_chart, write_report

    write_table(load_survey(), folder / "survey.csv")
    write_text(to_json(document) + "\n", folder / "decision.json")
    save_chart(decision_chart(document), folder / "decision.svg")
    write_report(
        document,
        folder / "report.html",
        title="What hiding the answer costs, and what it buys",
        question={"label": LABEL, "data": "the bundled survey (statsmodels: fair)"},
        command=typed_command(),
    )


def _print(
    prepared: Prepared,
    document: DecisionDocument,
    checked: LossChangeEstimate,
    foreseen: LossChangeEstimate,
    *,
    folder: Path,
    quiet: bool,
) -> None:
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.decide import print_recommendation
    from epsilens.show import decision_table
    from epsilens.show.rounding import format_change, format_epsilon

    console = Console()
    if not quiet:
        n_rows = len(prepared.y_train) + len(prepared.y_test)
        share = float((prepared.y_train == "yes").mean())
        console.print(
            Text(
                f"A survey of {n_rows:,} married women asks about extramarital affairs; {share:.0%} "
                "say yes. A logistic model predicts the answer. What would it cost to let everyone "
                "answer by randomised response, and what would an attacker still find out?"
            )
        )
        console.print(decision_table(document))
    print_recommendation(console, document)
    if quiet:
        return
    console.print(Text("The cost, checked by really randomising and retraining:"))
    for truth, estimate in zip(checked.document.cells, foreseen.document.cells, strict=True):
        console.print(
            Text(
                f"  ε = {format_epsilon(truth.record_epsilon)}: estimated "
                f"{format_change(estimate.loss_change)}, measured "
                f"{format_change(truth.loss_change)} (mean of {CHECK_REPEATS} runs)"
            )
        )
    console.print(
        Text(
            "These numbers are functions of the raw answers and not private themselves: publishing "
            "them, or tuning ε on them, leaks."
        )
    )
    console.print(Text(f"Report: {folder / 'report.html'}"), soft_wrap=True)
    console.print(
        Text(f"The table, to try other commands on: {folder / 'survey.csv'}"), soft_wrap=True
    )
