# SPDX-License-Identifier: Apache-2.0
"""`epsilens train`: from a table to a private model that may be published, with its receipt."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from epsilens.cli.option_groups import Help, Without, choice, option, option_groups, switch
from epsilens.cli.options import Data, Label, Ranges, TableOptions
from epsilens.cli.output import (
    Force,
    Json,
    Quiet,
    check_target,
    print_json,
    show_progress,
)
from epsilens.errors import InputError, setting

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

    from epsilens.document import TrainingDocument
    from epsilens.mechanisms import Mechanism
    from epsilens.mechanisms._release import Released
    from epsilens.models.training_rows import Declaration, TrainingRows

ProtectsChoice = Literal["answer", "record"]
"""What the claim covers."""

TRAINABLE = ("noisy-descent", "output-perturbation", "dp-sgd", "dp-ebm", "synthetic-aim")
"""Mechanisms that this command can release."""
ELSEWHERE = {
    "randomised-response": "It protects answers before training: use `epsilens randomise`.",
    "randomised-response-corrected": "It protects answers before training: use `epsilens randomise`.",
}
_PRIVACY = "Privacy"
N_STEPS = 120


@option_groups
def train(
    data: Data,
    label: Label,
    mechanism: Annotated[
        str,
        option(
            "noisy-descent, output-perturbation (which ridge needs), dp-sgd, dp-ebm or synthetic-aim.",
            "NAME",
            panel=_PRIVACY,
        ),
    ],
    epsilon: Annotated[float, option("Budget ε of the model.", "E", panel=_PRIVACY)],
    out: Annotated[
        Path,
        option(
            "The model: model.json, with model.receipt.json beside it, and model.synthetic.csv of "
            "synthetic-aim.",
            "FILE",
        ),
    ],
    x_bound: Annotated[
        float | None,
        option(
            "Length that longer encoded rows are shrunk to, the intercept's constant included. Not for "
            "dp-ebm and synthetic-aim.",
            "B",
            panel=_PRIVACY,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        option(
            "Budget δ, well below one over the number of records. Taken by that rule unless given; "
            "must be given for records.",
            "D",
            panel=_PRIVACY,
        ),
    ] = None,
    protects: Annotated[
        ProtectsChoice,
        choice(
            ProtectsChoice,
            "The claim: a person's answer in the label, or the whole record. For records all columns "
            "must be declared.",
            panel=_PRIVACY,
        ),
    ] = "answer",
    protect: Annotated[
        list[str] | None,
        option(
            "Features whose answers are protected beside the label (repeat, or separate by commas).",
            "COL",
            panel=_PRIVACY,
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        option(
            "Receipt of an earlier release of these people's data, to be added up (repeat).",
            "RECEIPT",
            panel=_PRIVACY,
        ),
    ] = None,
    total_budget: Annotated[
        float | None,
        option(
            "Refuse if all releases of these records together would spend more than this ε. It is about a "
            "replaced record: the ε of dp-sgd, dp-ebm and synthetic-aim counts twice.",
            "B",
            "--budget",
            panel=_PRIVACY,
        ),
    ] = None,
    range_: Ranges = None,
    *,
    table: Annotated[
        TableOptions,
        Without("weight", "test_share", "regularisation"),
        Help(
            categories='All possible answers of a column (repeat); one with a bar in it as "A|B". '
            "Any other answer counts as the first.",
            missing="Missing values of unprotected features: auto drops up to 5 % of the rows and "
            "refuses beyond.",
            model="Logistic regression for answers (two or several), ridge for a number. The mechanisms dp-ebm and "
            "synthetic-aim bring models of their own.",
        ),
    ],
    n_steps: Annotated[
        int | None,
        option(
            f"Noisy steps of noisy-descent. Default: {N_STEPS}.",
            "N",
            panel="Model",
            min=1,
            max=100_000,
        ),
    ] = None,
    coef_bound: Annotated[
        float | None,
        option(
            "Largest length of the coefficients of ridge. Default: the width of the label's range over --x-bound.",
            "B",
            panel="Model",
        ),
    ] = None,
    test: Annotated[
        str | None, option("Test data. What is measured on them is not private.", "FILE")
    ] = None,
    check: Annotated[
        bool,
        switch(
            "--check",
            "Only count what the declarations would change; the counts are not private. "
            "Nothing is trained.",
        ),
    ] = False,
    seed: Annotated[
        int | None, option("Simulate, repeatably. Never for a real release.", "N", min=0)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Train a model that may be published, with the operating system's randomness, and write a receipt.

    The claim covers all that the model file carries. With --protects answer it is about the label, and
    the encoder is learnt from the other columns. With --protects record it is about everything: declare
    each column with --categories or --range, or leave it out with --drop.

    Example: [bold]epsilens train survey.csv --label smokes --categories "smokes=no|yes"
    --mechanism noisy-descent --epsilon 1 --x-bound 4 --out model.json[/bold]
    """
    from contextlib import ExitStack

    import numpy as np
    from sklearn.pipeline import Pipeline

    from epsilens._validate import as_positive, as_share
    from epsilens.cli.release_files import (
        receipt_of,
        replaces_release,
        synthetic_of,
        write_release,
    )
    from epsilens.cli.training_input import (
        check_lines,
        read_declaration,
        read_training,
        require_declared,
        training_delta,
    )
    from epsilens.cli.training_receipt import earlier_lines, training_receipt
    from epsilens.data.atomic import replacing, target_file
    from epsilens.document import to_json
    from epsilens.document.wording import delta_text
    from epsilens.mechanisms._composition import replaced_budget
    from epsilens.models.model_file import model_text
    from epsilens.models.training_rows import training_rows

    began = datetime.datetime.now(datetime.UTC)
    is_record = protects == "record"
    kind = _check_mechanism(mechanism, table.model, x_bound, n_steps, coef_bound)
    as_positive(epsilon, name="epsilon")
    if delta is not None:
        as_share(delta, name="delta")
    if x_bound is not None:
        as_positive(x_bound, name="x_bound")
    limit = None if total_budget is None else as_positive(total_budget, name="budget")
    if out.is_symlink():
        out = target_file(out)
    receipt_file, table_file = receipt_of(out), synthetic_of(out)
    sources: dict[str, str | Path | None] = {"the data": data, "the test data": test}
    sources |= {f"the receipt {Path(name).name!r}": name for name in after or ()}
    check_target(out, sources=sources, suffixes=(".json",))
    check_target(receipt_file, sources=sources | {"the model": out})
    check_target(table_file, sources=sources | {"the model": out})
    replaces = not check and replaces_release(out, force=force)

    with show_progress(quiet=quiet or json) as progress:
        progress(0, 2, "reading")
        frame, written, decimal_comma = read_training(data, table, is_record=is_record)
        declaration = read_declaration(
            table, list(map(str, frame.columns)), protect, range_, is_record=is_record
        )
        require_declared(
            declaration,
            written,
            lacks_bound=x_bound is None and kind.shrinks_rows,
            delta=delta,
            is_record=is_record,
            simulated=seed is not None,
            decimal_comma=decimal_comma,
        )
        earlier = earlier_lines(after or (), declaration, is_record=is_record)
        progress(1, 2, "reading")
        rows = training_rows(frame, written, declaration, decimal_comma=decimal_comma)
        if check:
            for line in check_lines(rows, written, declaration, x_bound):
                _echo(line)
            return
        progress(2, 2, "reading")
        budget = training_delta(delta, len(rows.target), simulated=seed is not None)
        planned = None
        if seed is None:
            spent, _ = replaced_budget(mechanism, epsilon, budget)
            planned = _planned(data, frame, table.label, spent, limit)
        released = _released(
            rows,
            declaration,
            mechanism=mechanism,
            coef_bound=coef_bound,
            # A protected feature moves the row itself: the noise is that of a replaced record.
            unit="record" if len(declaration.protected) > 1 else "answer",
            epsilon=epsilon,
            delta=budget,
            x_bound=x_bound,
            n_steps=N_STEPS if n_steps is None else n_steps,
            seed=seed,
            progress=progress,
        )
    document = training_receipt(
        released,
        rows,
        declaration,
        mechanism=kind.name,
        protects=protects,
        epsilon=epsilon,
        delta=budget,
        x_bound=x_bound,
        earlier=earlier,
        began=began,
        seed=seed,
        replaces=replaces,
    )
    pipeline = Pipeline([("encoder", released.encoder), ("model", released.model)])
    text, made = model_text(pipeline, document), released.table
    if made is not None:
        labels = np.array(list(rows.classes), dtype=object)[made.iloc[:, -1].to_numpy()]
        made = made.iloc[:, :-1].assign(**{table.label: labels})

    def write(announce: Any) -> None:
        with ExitStack() as stack:
            if made is not None:
                made.to_csv(stack.enter_context(replacing(table_file)), index=False)
            scratch = stack.enter_context(replacing(out, announce=announce))
            scratch.write_bytes(text.encode("utf-8"))
        if made is None and replaces:
            table_file.unlink(missing_ok=True)  # of the release that is replaced

    write_release(write, document, out=out, planned=planned, force=force)
    if json:
        print_json(to_json(document))
        return
    remarks = [f"Note: {note.render().rstrip('.')}." for note in rows.notes] if not quiet else []
    if delta is None:
        remarks.append(
            f"δ = {delta_text(budget)} was taken, well below one over {len(rows.target):,} records."
        )
    if test is not None:
        remarks.append(_measured(pipeline, test, table, declaration))
    _print(document, remarks if not quiet else remarks[-1:] * (test is not None))
    if not quiet:
        files = [out, *([] if made is None else [table_file])]
        _echo(f"Written: {', '.join(map(str, files))} and {receipt_file}")


def _check_mechanism(
    name: str,
    model: str,
    x_bound: float | None,
    n_steps: int | None,
    coef_bound: float | None,
) -> type[Mechanism]:
    """Return a mechanism; refuse one that cannot release here, before anything is read."""
    from epsilens._validate import as_choice, require_extra
    from epsilens.mechanisms import mechanism_class

    # Others would be left aside without a word.
    as_choice(model, ("logistic", "ridge"), name="model")
    if name not in TRAINABLE:
        raise InputError(
            argument="mechanism",
            expected=f"{', '.join(TRAINABLE[:-1])} or {TRAINABLE[-1]} here",
            got=repr(name),
            hint=ELSEWHERE.get(name),
        )
    if model == "ridge" and name != "output-perturbation":
        raise InputError(
            argument="mechanism",
            expected=f"output-perturbation for {setting('model', 'ridge')}",
            got=repr(name),
        )
    for given, argument, owner, belongs in (
        (n_steps, "n_steps", "noisy-descent", name == "noisy-descent"),
        (coef_bound, "coef_bound", setting("model", "ridge"), model == "ridge"),
    ):
        if given is not None and not belongs:
            raise InputError(f"{setting(argument)} must be left out here: it belongs to {owner}.")
    found = mechanism_class(name)
    if x_bound is not None and not found.shrinks_rows:
        raise InputError(
            f"{setting('x_bound')} must be left out for {name}: it cuts columns to their ranges and shrinks "
            "no rows."
        )
    if found.extra is not None:
        require_extra(found.extra, f"the mechanism {name}", *found.release_packages)
    if reason := found.audit_refusal():
        raise InputError(argument="mechanism", expected="another one", got=repr(name), hint=reason)
    return found


def _planned(
    data: str, frame: pd.DataFrame, label: str, epsilon: float, limit: float | None
) -> Any:
    """Find the ledger, where the ε of a replaced record counts once."""
    from epsilens.channels import Budget
    from epsilens.cli.release_files import PlannedRelease

    return PlannedRelease.of(data, frame, Budget({label: epsilon}), limit=limit)


def _released(
    rows: TrainingRows,
    declaration: Declaration,
    *,
    mechanism: str,
    coef_bound: float | None,
    **settings: Any,
) -> Released:
    """Return the release of a mechanism, its classes as they are declared."""
    import numpy as np

    from epsilens.mechanisms import mechanism_class
    from epsilens.mechanisms._release import Training
    from epsilens.models.training_rows import class_array

    if declaration.is_number:
        return _released_ridge(rows, declaration, coef_bound=coef_bound, **settings)
    # By numbers: what kind of labels they seem to be must not depend on who gave which.
    place = {value: number for number, value in enumerate(rows.classes)}
    found = mechanism_class(mechanism).release(
        Training(
            frame=rows.frame,
            columns=rows.columns,
            y=np.array([place[value] for value in rows.target], dtype=np.intp),
            n_classes=len(rows.classes),
            **settings,
        )
    )
    found.model.classes_ = class_array(rows.classes)
    if hasattr(found.model, "classes"):
        found.model.classes = list(rows.classes)
    return found


def _released_ridge(
    rows: TrainingRows,
    declaration: Declaration,
    *,
    epsilon: float,
    delta: float,
    x_bound: float,
    coef_bound: float | None,
    seed: int | None,
    **_: Any,
) -> Released:
    """Return a ridge model of the label's distance from the middle of its range."""
    import math

    from epsilens.mechanisms import gaussian_advantage
    from epsilens.mechanisms._release import Released
    from epsilens.models.ball_ridge import least_penalty
    from epsilens.models.gaussian_release import rho_of_epsilon
    from epsilens.models.private_model import SOLVER_ALLOWANCE
    from epsilens.models.private_ridge import PrivateRidge
    from epsilens.models.ridge_bounds import PENALTY_RANGE, balanced_alpha
    from epsilens.models.table_encoder import NumberColumn, TableEncoder

    encoder = TableEncoder(rows.columns)
    X = encoder.transform(rows.frame)
    scale = declaration.column(declaration.label)
    assert isinstance(scale, NumberColumn)  # noqa: S101  # refused before
    half = float(scale.high or 0.0) - scale.centre
    # Rows of this length then predict all of the range, whatever their direction.
    radius = 2.0 * half / x_bound if coef_bound is None else coef_bound
    alpha = balanced_alpha(
        n_records=len(X),
        rho=rho_of_epsilon(epsilon, delta),
        x_bound=x_bound,
        y_bound=half,
        coef_bound=radius,
    )
    least = least_penalty(len(X), X.shape[1] + 1, x_bound=x_bound, allowance=SOLVER_ALLOWANCE)
    model = PrivateRidge(
        epsilon=epsilon,
        delta=delta,
        x_bound=x_bound,
        y_bound=half,
        coef_bound=radius,
        alpha=max(alpha, least, PENALTY_RANGE[0] * x_bound**2),
        adjacency="replace-one",
        random_state=seed,
    ).fit(X, rows.target - scale.centre)
    model.intercept_ += scale.centre
    mu = math.sqrt(2.0 * model.rho_)
    return Released(encoder, model, gaussian_advantage(mu), mu, model.rho_, model.sigma_)


def _measured(pipeline: Pipeline, test: str, table: TableOptions, declaration: Declaration) -> str:
    """Return how good the model is on test data."""
    import numpy as np

    from epsilens.cli.training_input import read_training
    from epsilens.models.table_encoder import category_codes
    from epsilens.models.training_rows import read_target

    frame, written, decimal_comma = read_training(test, table, is_record=False)
    end = "Measured on the test data and not private."
    if declaration.is_number:
        target, _ = read_target(
            frame[declaration.label],
            written[declaration.label],
            declaration,
            decimal_comma=decimal_comma,
        )
        error = float(np.mean((pipeline.predict(frame) - target) ** 2))
        return f"Test loss (squared error): {error:.4g}. {end}"
    classes = pipeline.classes_.tolist()
    codes = category_codes(written[declaration.label], classes)
    if declaration.positive is not None:
        target, _ = read_target(
            frame[declaration.label],
            written[declaration.label],
            declaration,
            decimal_comma=decimal_comma,
        )
        codes = np.array([classes.index(value) for value in target])
    known = codes >= 0
    if not known.any():
        raise InputError("the test data must have labels that the model knows, got none.")
    probabilities = pipeline.predict_proba(frame)[known]
    own = probabilities[np.arange(len(probabilities)), codes[known]]
    loss = float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())
    right = float((probabilities.argmax(axis=1) == codes[known]).mean())
    return f"Test loss {loss:.4f}, accuracy {right:.1%}, {int(known.sum()):,} records. {end}"


def _print(document: TrainingDocument, remarks: Sequence[str]) -> None:
    from epsilens.document import view

    shown = view(document)
    _echo(shown.title, style="bold")
    width = max(len(row.title) for row in shown.rows)
    for row in shown.rows:
        _echo(f"  {row.title:<{width}}  {row.text}{f' ({row.kind})' if row.kind else ''}")
    for sentence in shown.sentences:
        _echo(sentence)
    for note in shown.notes:
        _echo(note, style="bold yellow")
    for remark in remarks:
        _echo(remark)


def _echo(text: str, *, style: str = "") -> None:
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style=style), soft_wrap=True)
