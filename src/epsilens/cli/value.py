# SPDX-License-Identifier: Apache-2.0
"""`epsilens value`: what records are worth to a model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epsilens._types import Progress
from epsilens.cli.option_groups import (
    ExplainedCommand,
    Help,
    Without,
    choice,
    must_exist,
    option,
    option_groups,
    switch,
)
from epsilens.cli.options import Label, TableOptions, Test, comma_list
from epsilens.cli.output import PANEL, Output, check_target
from epsilens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from epsilens.data import Prepared
    from epsilens.document import ValueDocument
    from epsilens.study import Study
    from epsilens.valuation import Appraisal, CurvePoint


_CLEARLY = 2.0

value = typer.Typer(
    name="value",
    help="See what records are worth to a model.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


ScoreChoice = Literal["exact", "newton", "second-order", "first-order"]
"""Ways to a score."""


@value.callback()
def _group() -> None:
    """See what records are worth to a model."""


@value.command("local", cls=ExplainedCommand)
@option_groups
def local(
    train: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN",
            callback=must_exist,
            help="The training data: csv, csv.gz, tsv, parquet, arrow, xlsx, sav, dta, sas7bdat, xpt; - for "
            "standard input.",
        ),
    ],
    label: Label,
    test: Test = None,
    candidates: Annotated[
        str | None,
        option(
            "Records on offer: score these (add one) instead of TRAIN's (leave one out).",
            "FILE",
            callback=must_exist,
        ),
    ] = None,
    method: Annotated[
        ScoreChoice, choice(ScoreChoice, "exact is what training again would give.")
    ] = "exact",
    pay: Annotated[
        float | None,
        option("Divide this among the records in proportion to their positive scores.", "AMOUNT"),
    ] = None,
    curve: Annotated[
        bool,
        switch(
            "--curve/--no-curve",
            "Train again without the worst records (or with the best candidates).",
        ),
    ] = True,
    chart: Annotated[
        str | None, option("Draw the curve: .png or .svg.", "FILE", panel=PANEL)
    ] = None,
    *,
    table: Annotated[
        TableOptions,
        Without("categories"),
        Help(
            model="logistic, ridge (for a number), or MODULE:NAME of your own: a linear scikit-learn estimator, or "
            "what makes one.",
        ),
    ],
    output: Annotated[
        Output,
        Help(
            out="Write the scores: csv, csv.gz, tsv, parquet or arrow, one line a record, rows "
            "counted from 0. Keep it to yourself.",
            seed="Seed of the random split and of the random orders.",
        ),
    ],
) -> None:
    """Score records: how much the test loss rises without each, or falls with each candidate.

    Positive helps, negative harms.

    Example: [bold]epsilens value local survey.csv --test held-out.csv --label smokes
    --out scores.csv[/bold]
    """
    import time

    from epsilens.data import write_table
    from epsilens.data.files import WRITABLE_SUFFIXES

    started = time.perf_counter()
    sources: dict[str, str | None] = {
        "the data": train,
        "the test data": test,
        "the candidates": candidates,
    }
    output.check(WRITABLE_SUFFIXES, sources)
    if chart is not None and not curve:
        raise InputError("`--chart` draws the curve, so `--no-curve` cannot be used with it.")
    check_target(chart, sources=sources, suffixes=(".png", ".svg"), option="--chart")
    if pay is not None and not (math.isfinite(pay) and pay > 0):
        raise InputError(
            f"`--pay` must be finite and greater than 0, got {pay}. Use for instance 100."
        )
    study = table.study(train, candidates=candidates)
    prepared, appraisal = study.prepared, _fit(study)
    with output.progress() as progress:
        frame = _scores(appraisal, prepared, method=method, pay=pay, progress=progress)
        points = _curve(appraisal, prepared, seed=output.seed, progress=progress) if curve else ()
    settings: dict[str, object] = {
        "label": label,
        "model": table.model,
        "regularisation": table.regularisation,
        "method": method,
        "missing": table.missing,
        "weight": table.weight,
        "drop": list(comma_list(table.drop)),
        "test_share": None if test is not None else table.test_share,
    }
    document = _document(
        appraisal,
        prepared,
        frame,
        points,
        settings=settings,
        seed=output.seed,
        pay=pay,
        seconds=time.perf_counter() - started,
    )
    document = output.settle(document, prepared.notes)
    from epsilens.show import save_chart, value_chart

    if output.out is not None:
        write_table(frame, output.out)
    if chart is not None:
        save_chart(value_chart(document), chart)
    output.show(
        document,
        places=[0] if document.curve else [],
        remarks=[
            "Scores are functions of the raw records and not private: publishing them, or which "
            "records were dropped, leaks."
        ],
        written=[chart],
    )


def _fit(study: Study) -> Appraisal:
    """Train the model that the records are worth something to."""
    from epsilens.valuation import Appraisal

    study.require_factorisable("a value per record")
    prepared = study.prepared
    return Appraisal.of(
        study.estimator(),
        prepared.X_train,
        prepared.y_train,
        prepared.X_test,
        prepared.y_test,
        sample_weight=prepared.sample_weight,
        sample_weight_test=prepared.sample_weight_test,
    )


def _scores(
    appraisal: Appraisal,
    prepared: Prepared,
    *,
    method: str,
    pay: float | None,
    progress: Progress,
) -> pd.DataFrame:
    """Return the table of scores: row, influence, standard error, harmful, and what is paid."""
    import pandas as pd

    from epsilens.valuation import correct_batch, share_payment

    offer = prepared.candidates
    rows: NDArray[np.intp]
    if offer is None:
        scores = appraisal.leave_one_out(method=method, progress=progress)
        rows, errors = prepared.rows, appraisal.sampling_errors()
    else:
        scores = appraisal.add_one(
            offer.X,
            offer.y,
            sample_weight=offer.sample_weight,
            method=method,
            progress=progress,
        )
        known = appraisal.read_candidates(offer.X, offer.y, offer.sample_weight)
        rows, errors = offer.rows, appraisal.sampling_errors(known)
    frame = pd.DataFrame(
        {"row": rows, "influence": scores, "standard_error": errors, "harmful": scores < 0}
    )
    if offer is not None:
        batch = correct_batch(scores, q=appraisal.baseline.problem.n_rows)
        frame["influence_in_batch"] = batch.corrected
    if pay is not None:
        frame["payment"] = share_payment(scores, pay)
    return frame


def _curve(
    appraisal: Appraisal, prepared: Prepared, *, seed: int, progress: Progress
) -> tuple[CurvePoint, ...]:
    from epsilens.valuation import addition_curve, removal_curve

    offer = prepared.candidates
    if offer is None:
        return removal_curve(appraisal, random_state=seed, progress=progress)
    return addition_curve(
        appraisal,
        offer.X,
        offer.y,
        sample_weight=offer.sample_weight,
        random_state=seed,
        progress=progress,
    )


def _document(
    appraisal: Appraisal,
    prepared: Prepared,
    frame: pd.DataFrame,
    points: tuple[CurvePoint, ...],
    *,
    settings: dict[str, object],
    seed: int,
    pay: float | None,
    seconds: float,
) -> ValueDocument:
    from dataclasses import asdict

    from epsilens.document import Provenance, ValueDocument, ValuePoint
    from epsilens.document.parts import NumberType
    from epsilens.valuation import batch_correction

    baseline = appraisal.baseline
    scores = frame["influence"].to_numpy()
    method = str(settings["method"])
    kind: NumberType = "measured" if method == "exact" else "estimated"
    types: dict[str, NumberType] = dict.fromkeys(("mean", "harmful", "total"), kind)
    types |= {"clearly_harmful": "estimated", "batch_factor": "estimated", "paid": kind}
    types |= dict.fromkeys(("loss", "accuracy", "auc", "loss_change"), "measured")
    types |= {"standard_error": "estimated", "measured_batch_factor": kind}
    expected = measured = None
    if prepared.candidates is not None:
        expected = batch_correction(baseline.problem.n_rows, len(scores), 1)
        measured = _measured_factor(float(scores.sum()), points)
    if pay is not None and not (scores > 0).any():
        pay = 0.0
    clear = frame["influence"] < -_CLEARLY * frame["standard_error"]
    return ValueDocument(
        provenance=Provenance(
            method=method,
            settings=settings,
            seed=seed,
            simulated=False,
            schema_fingerprint=prepared.schema.fingerprint,
            seconds=round(seconds, 3),
        ),
        notes=list(baseline.notes),
        number_types=types,
        baseline=baseline.numbers(),
        scored="training" if prepared.candidates is None else "candidates",
        n=len(scores),
        mean=float(scores.mean()),
        harmful=int((scores < 0).sum()),
        total=float(scores.sum()),
        clearly_harmful=int(clear.sum()),
        batch_factor=expected,
        measured_batch_factor=measured,
        paid=pay,
        curve=[ValuePoint(**asdict(point)) for point in points],
    )


def _measured_factor(total: float, points: tuple[CurvePoint, ...]) -> float | None:
    """Return the sum of the scores over the fall with all candidates; None if that is no measure."""
    for point in points:
        if point.order == "score" and point.share == 1.0 and point.loss_change is not None:
            fall, error = -point.loss_change, point.standard_error
            if error is not None and abs(fall) > _CLEARLY * error and fall * total > 0:
                return total / fall
    return None
