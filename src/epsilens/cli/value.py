# SPDX-License-Identifier: Apache-2.0
"""`epsilens value`: what records are worth to a model."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens._types import Progress
from epsilens.cli.option_groups import ExplainedCommand, Without, must_exist, option_groups
from epsilens.cli.options import (
    Anonymous,
    Json,
    Label,
    Quiet,
    Test,
    comma_list,
    out_option,
    seed_option,
)
from epsilens.cli.training import TableOptions, with_notes
from epsilens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from epsilens.data import Prepared
    from epsilens.document import ValueDocument
    from epsilens.study import Study
    from epsilens.valuation import Appraisal, CurvePoint


_CHART_SUFFIXES = (".png", ".svg")
_CLEARLY = 2.0

value = typer.Typer(
    name="value",
    help="See what records are worth to a model.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class ScoreChoice(StrEnum):
    """Ways to a score."""

    exact = "exact"
    newton = "newton"
    second_order = "second-order"
    first_order = "first-order"


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
            help="The training data: csv, csv.gz, tsv, parquet, arrow; - for standard input.",
        ),
    ],
    label: Label,
    test: Test = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates",
            metavar="FILE",
            callback=must_exist,
            help="Records on offer: score these (add one) instead of TRAIN's (leave one out).",
        ),
    ] = None,
    method: Annotated[
        ScoreChoice,
        typer.Option("--method", help="exact is what training again would give."),
    ] = ScoreChoice.exact,
    pay: Annotated[
        float | None,
        typer.Option(
            "--pay",
            metavar="AMOUNT",
            help="Divide this among the records in proportion to their positive scores.",
        ),
    ] = None,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve/--no-curve",
            help="Train again without the worst records (or with the best candidates).",
        ),
    ] = True,
    chart: Annotated[
        str | None,
        typer.Option(
            "--chart",
            metavar="FILE",
            help="Draw the curve: .png or .svg.",
            rich_help_panel="Output",
        ),
    ] = None,
    *,
    table: Annotated[TableOptions, Without("categories")],
    json: Json = False,
    out: Annotated[
        str | None,
        out_option(
            "Write the scores: csv, csv.gz, tsv, parquet or arrow, one line a record, rows "
            "counted from 0. Keep it to yourself."
        ),
    ] = None,
    seed: Annotated[int, seed_option("Seed of the random split and of the random orders.")] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Score records: how much the test loss rises without each, or falls with each candidate.

    Positive helps, negative harms.

    Example: [bold]epsilens value local survey.csv --test held-out.csv --label smokes
    --out scores.csv[/bold]
    """
    import time

    from epsilens.cli.session import check_target, print_json, show_progress, withhold_names
    from epsilens.data.files import WRITABLE_SUFFIXES
    from epsilens.document import anonymise, to_json

    started = time.perf_counter()
    if anonymous:
        withhold_names()
    sources: dict[str, str | None] = {
        "the data": train,
        "the test data": test,
        "the candidates": candidates,
    }
    check_target(out, sources=sources, suffixes=WRITABLE_SUFFIXES)
    _check_chart(chart, sources=sources, curve=curve)
    _check_amount(pay)
    study = table.study(train, candidates=candidates)
    prepared, appraisal = study.prepared, _fit(study)
    with show_progress(quiet=quiet, json=json) as progress:
        frame = _scores(appraisal, prepared, method=method.value, pay=pay, progress=progress)
        points = _curve(appraisal, prepared, seed=seed, progress=progress) if curve else ()
    settings: dict[str, object] = {
        "label": label,
        "model": table.model.value,
        "regularisation": table.regularisation,
        "method": method.value,
        "missing": table.missing.value,
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
        seed=seed,
        pay=pay,
        seconds=time.perf_counter() - started,
    )
    document = with_notes(document, prepared.notes)
    if anonymous:
        document = anonymise(document)
    _write(document, frame, out=out, chart=chart)
    if json:
        print_json(to_json(document))
    else:
        _print(document, quiet=quiet, written=[name for name in (out, chart) if name])


def _check_chart(chart: str | None, *, sources: dict[str, str | None], curve: bool) -> None:
    from epsilens.cli.session import check_target

    if chart is None:
        return
    if not curve:
        raise InputError("`--chart` draws the curve, so `--no-curve` cannot be used with it.")
    check_target(chart, sources=sources, suffixes=_CHART_SUFFIXES, option="--chart")


def _check_amount(pay: float | None) -> None:
    if pay is not None and not (math.isfinite(pay) and pay > 0):
        raise InputError(
            f"`--pay` must be finite and greater than 0, got {pay}. Use for instance 100."
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


def _write(
    document: ValueDocument, frame: pd.DataFrame, *, out: str | None, chart: str | None
) -> None:
    from epsilens.data import write_table
    from epsilens.show import save_chart, value_chart

    if out is not None:
        write_table(frame, out)
    if chart is not None:
        save_chart(value_chart(document), chart)


def _print(document: ValueDocument, *, quiet: bool, written: list[str]) -> None:
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import print_notes
    from epsilens.document import view
    from epsilens.show import document_table

    console = Console()
    if not quiet and document.curve:
        console.print(document_table(document))
    if not quiet:
        print_notes(console, document.notes)
    for sentence in view(document).sentences:
        console.print(Text(sentence))
    if quiet:
        return
    console.print(
        Text(
            "Scores are functions of the raw records and not private: publishing them, or which "
            "records were dropped, leaks."
        )
    )
    if written:
        console.print(Text(f"Written: {' and '.join(written)}"), soft_wrap=True)
