# SPDX-License-Identifier: Apache-2.0
"""`epsilens demo`: the whole story on bundled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from epsilens.cli.option_groups import option
from epsilens.cli.output import Json, Output, Quiet, print_json, typed_command

if TYPE_CHECKING:
    from epsilens.data import Prepared
    from epsilens.document import DecisionDocument
    from epsilens.study import Study
    from epsilens.whatif import LossChangeEstimate


LABEL = "affair"
LIMITS: dict[str, Any] = {"max_advantage": 0.1}
CHECKED = (0.5, 1.0, 2.0)
CHECK_REPEATS = 40
GROUPS = ("unhappily married=rate_marriage <= 3",)


def demo(
    out: Annotated[Path, option("The folder for the report and the numbers.", "DIR")] = Path(
        "demo"
    ),
    seed: Annotated[
        int, option("Seed of the random split and the simulated runs.", "N", min=0)
    ] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell the whole story on a bundled survey: which protection hides who was unfaithful, at what cost.

    Writes report.html, decision.json, decision.svg and the table, survey.csv, into DIR and prints the
    answer.

    Example: [bold]epsilens demo --out demo[/bold]
    """
    from epsilens.decision.release_command import with_command
    from epsilens.document import to_json

    folder = _folder(out)
    with Output(quiet=quiet, json=json).progress() as progress:
        study = survey_study(seed=seed)
        decision = study.decide(**LIMITS, method="exact", progress=progress)
        everybody = study.asking()
        checked = everybody.cost(
            epsilon=CHECKED, method="retrain", repeats=CHECK_REPEATS, progress=progress
        )
        foreseen = everybody.cost(epsilon=CHECKED, method="exact")
    document = with_command(
        decision.document,
        str(folder / "survey.csv"),
        label=LABEL,
        answers={},
        categories=[f"{LABEL}=no|yes"],
    )
    _write(folder, document)
    if json:
        print_json(to_json(document))
        return
    _print(study.prepared, document, checked, foreseen, folder=folder, quiet=quiet)


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


def survey_study(*, seed: int) -> Study:
    """Return the study of the bundled survey."""
    from epsilens.data import load_survey
    from epsilens.study import Study

    return Study(
        load_survey(), label=LABEL, groups=GROUPS, seed=seed, categories={LABEL: ["no", "yes"]}
    )


def _write(folder: Path, document: DecisionDocument) -> None:
    from epsilens.data import load_survey, write_table, write_text
    from epsilens.document import to_json
    from epsilens.show import document_chart, save_chart, write_report

    write_table(load_survey(), folder / "survey.csv")
    write_text(to_json(document) + "\n", folder / "decision.json")
    save_chart(document_chart(document), folder / "decision.svg")
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

    from epsilens.cli.decide import print_decision
    from epsilens.document.wording import change_text, epsilon_text

    console = Console()
    if not quiet:
        n_rows = len(prepared.y_train) + len(prepared.y_test)
        share = float((prepared.y_train == "yes").mean())
        console.print(
            Text(
                f"A survey of {n_rows:,} married women asks about extramarital affairs; {share:.0%} "
                "say yes. A logistic model that predicts the answer is to be published. Which protection "
                "should it have, and what does that cost?"
            )
        )
    print_decision(console, document, is_quiet=quiet)
    if quiet:
        return
    console.print(
        Text("The rise in test loss under randomised response, checked by actually retraining:")
    )
    for truth, estimate in zip(checked.document.cells, foreseen.document.cells, strict=True):
        console.print(
            Text(
                f"  ε = {epsilon_text(truth.record_epsilon)}: estimated "
                f"{change_text(estimate.loss_change)}, measured "
                f"{change_text(truth.loss_change)} (mean of {CHECK_REPEATS} runs)"
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
