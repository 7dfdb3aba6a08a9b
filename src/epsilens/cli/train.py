# SPDX-License-Identifier: Apache-2.0
"""`epsilens train`: from a table to a private model that may be published, with its receipt."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from epsilens._types import Progress
from epsilens.cli.option_groups import Help, Without, choice, option, option_groups, switch
from epsilens.cli.options import (
    Data,
    Label,
    TableOptions,
    categories_of,
    comma_list,
    delimiter_from,
    mapping_of_bins,
    require_text,
)
from epsilens.cli.output import (
    Force,
    Json,
    Quiet,
    check_target,
    held_warnings,
    print_json,
    show_progress,
    typed_command,
)
from epsilens.errors import InputError, PrivacyLeakWarning, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

    from epsilens.document import EarlierRelease, ReleaseDocument, TrainingDocument
    from epsilens.models.training_rows import Declaration, TrainingRows

ProtectsChoice = Literal["answer", "record"]
"""What the claim covers."""

TRAINABLE = ("noisy-descent", "output-perturbation")
ELSEWHERE = {
    "randomised-response": "It protects answers before training: use `epsilens randomise`.",
    "randomised-response-corrected": "It protects answers before training: use `epsilens randomise`.",
    "dp-sgd": "Networks are released by Opacus, with the extra `torch`.",
    "dp-ebm": "Additive models are released by interpret-core, with the extra `trees`.",
    "synthetic-aim": "Synthetic tables are released by OpenDP, with the extra `synthetic`.",
}
_PRIVACY = "Privacy"
_NO_TOTAL = "No total can be claimed for these releases together"


@option_groups
def train(
    data: Data,
    label: Label,
    mechanism: Annotated[
        str,
        option("noisy-descent, or output-perturbation, which ridge needs.", "NAME", panel=_PRIVACY),
    ],
    epsilon: Annotated[float, option("Budget ε of the model.", "E", panel=_PRIVACY)],
    out: Annotated[
        Path, option("The model: model.json, with model.receipt.json beside it.", "FILE")
    ],
    x_bound: Annotated[
        float | None,
        option(
            "Length that longer encoded rows are shrunk to, the intercept's constant included.",
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
            "Refuse if all releases of these records together would spend more than this ε.",
            "B",
            "--budget",
            panel=_PRIVACY,
        ),
    ] = None,
    range_: Annotated[
        list[str] | None,
        option(
            "Range of a column of numbers or dates; what lies beyond is cut (repeat).",
            "COL=LOW:HIGH",
            "--range",
            panel="Reading the table",
        ),
    ] = None,
    *,
    table: Annotated[
        TableOptions,
        Without("weight", "test_share", "regularisation"),
        Help(
            categories='All possible answers of a column (repeat); one with a bar in it as "A|B". '
            "Any other answer counts as the first.",
            missing="Missing values of unprotected features: auto drops up to 5 % of the rows and "
            "refuses beyond.",
        ),
    ],
    n_steps: Annotated[
        int, option("Noisy steps of noisy-descent.", "N", panel="Model", min=1, max=100_000)
    ] = 120,
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
    from epsilens._validate import as_positive, as_share
    from epsilens.cli.release_files import (
        receipt_of,
        replaces_release,
        write_release,
    )
    from epsilens.data.atomic import replacing, target_file
    from epsilens.document import to_json
    from epsilens.document.wording import delta_text
    from epsilens.models.model_file import model_text
    from epsilens.models.training_rows import training_rows

    began = datetime.datetime.now(datetime.UTC)
    is_record = protects == "record"
    _check_mechanism(mechanism, table.model)
    as_positive(epsilon, name="epsilon")
    if delta is not None:
        as_share(delta, name="delta")
    if x_bound is not None:
        as_positive(x_bound, name="x_bound")
    limit = None if total_budget is None else as_positive(total_budget, name="budget")
    if out.is_symlink():
        out = target_file(out)
    receipt_file = receipt_of(out)
    sources: dict[str, str | Path | None] = {"the data": data, "the test data": test}
    sources |= {f"the receipt {Path(name).name!r}": name for name in after or ()}
    check_target(out, sources=sources, suffixes=(".json",))
    check_target(receipt_file, sources=sources | {"the model": out})
    replaces = not check and replaces_release(out, force=force)

    with show_progress(quiet=quiet or json) as progress:
        progress(0, 2, "reading")
        frame, written, decimal_comma = _read(data, table, is_record=is_record)
        declaration = _declaration(
            table, list(map(str, frame.columns)), protect, range_, is_record=is_record
        )
        _require_declared(
            declaration,
            written,
            x_bound=x_bound,
            delta=delta,
            is_record=is_record,
            simulated=seed is not None,
            decimal_comma=decimal_comma,
        )
        assert x_bound is not None  # noqa: S101  # refused above
        earlier = _earlier(after or (), declaration, is_record=is_record)
        progress(1, 2, "reading")
        rows = training_rows(frame, written, declaration, decimal_comma=decimal_comma)
        if check:
            _print_check(rows, written, declaration, x_bound)
            return
        progress(2, 2, "reading")
        budget = _delta(delta, len(rows.target), simulated=seed is not None)
        planned = None
        if seed is None:
            planned = _planned(data, frame, table.label, epsilon, limit)
        pipeline = _fitted(
            rows,
            declaration,
            mechanism=mechanism,
            epsilon=epsilon,
            delta=budget,
            x_bound=x_bound,
            # A protected feature moves the row itself: the noise is that of a replaced record.
            protects="record" if len(declaration.protected) > 1 else "answer",
            n_steps=n_steps,
            coef_bound=coef_bound,
            seed=seed,
            progress=progress,
        )
    document = _receipt(
        pipeline,
        rows,
        declaration,
        mechanism=mechanism,
        protects=protects,
        epsilon=epsilon,
        delta=budget,
        earlier=earlier,
        began=began,
        seed=seed,
        replaces=replaces,
    )
    text = model_text(pipeline, document)

    def write(announce: Any) -> None:
        with replacing(out, announce=announce) as scratch:
            scratch.write_bytes(text.encode("utf-8"))

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
        _echo(f"Written: {out} and {receipt_file}")


def _check_mechanism(name: str, model: str) -> None:
    """Refuse a mechanism that this command does not train, and say who does."""
    if name not in TRAINABLE:
        raise InputError(
            argument="mechanism",
            expected=f"{' or '.join(TRAINABLE)} here",
            got=repr(name),
            hint=ELSEWHERE.get(name),
        )
    if model == "ridge" and name != "output-perturbation":
        raise InputError(
            argument="mechanism",
            expected=f"output-perturbation for {setting('model', 'ridge')}",
            got=repr(name),
        )


def _read(
    data: str, table: TableOptions, *, is_record: bool
) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Return the table with its types, the table as it is written, and whether 1,5 is a number."""
    from epsilens.data.fields import read_fields

    found = read_fields(
        data,
        delimiter=delimiter_from(table.delimiter),
        encoding=table.encoding,
        detect=not is_record,
    )
    frame = found.written if is_record else found.typed()
    return frame, found.written, found.decimal_comma


def _declaration(
    table: TableOptions,
    names: Sequence[str],
    protect: Sequence[str] | None,
    ranges: Sequence[str] | None,
    *,
    is_record: bool,
) -> Declaration:
    from epsilens._validate import require_unique
    from epsilens.models.training_rows import Declaration, parse_range

    require_text(ranges, option="--range")
    if is_record and (table.missing != "auto" or table.categorical):
        raise InputError(
            "with `--protects record` nothing is learnt from the data: declare codes with "
            "`--categories`, and leave out `--missing` and `--categorical`."
        )
    parsed = [parse_range(text, names) for text in ranges or ()]
    require_unique((column.name for column in parsed), what="columns in `--range`")
    protected = {table.label, *comma_list(protect)}
    found = Declaration(
        label=table.label,
        protected=frozenset(names) if is_record else frozenset(protected),
        categories=categories_of(table.categories, protected=names),
        ranges={column.name: column for column in parsed},
        bins=mapping_of_bins(table.bins),
        drop=comma_list(table.drop),
        categorical=comma_list(table.categorical),
        positive=table.positive,
        missing=table.missing,
        is_number=table.model == "ridge",
    )
    found.check(names)
    return found


def _require_declared(
    declaration: Declaration,
    written: pd.DataFrame,
    *,
    x_bound: float | None,
    delta: float | None,
    is_record: bool,
    simulated: bool,
    decimal_comma: bool,
) -> None:
    """Refuse a claim of which something is not declared: all at once, with a command to copy.

    Whether it is refused follows from the options and the header. The command suggests a range for a
    column if most of its values are numbers; it has no value of the data.
    """
    import shlex

    import numpy as np

    from epsilens.document.wording import delta_text
    from epsilens.models.table_encoder import NumberColumn

    undeclared = declaration.undeclared(list(map(str, written.columns)))
    if simulated and not is_record and not declaration.is_number:
        # A simulation claims nothing: its classes may be observed; that warns.
        undeclared = [name for name in undeclared if name != declaration.label]
    lacking = ["--x-bound 4"] * (x_bound is None)
    if is_record and delta is None:
        lacking.append(f"--delta {delta_text(_usual_delta(len(written)))}")
    if not undeclared and not lacking:
        return
    for name in undeclared:
        numbers = NumberColumn(name, 0.0, 1.0).numbers(
            written[name].astype(str).str.replace(",", ".") if decimal_comma else written[name]
        )
        is_number = float(np.isfinite(numbers).mean()) > 0.5
        is_number = declaration.is_number if name == declaration.label else is_number
        typed = f"{name}=LOW:HIGH" if is_number else f"{name}=A|B|C"
        lacking.append(f"{'--range' if is_number else '--categories'} {shlex.quote(typed)}")
    what = [f"`{part.split()[0]}`" for part in lacking if part.startswith(("--x", "--d"))]
    what += [f"what {', '.join(map(repr, undeclared))} can hold"] * bool(undeclared)
    claim = "a record" if is_record else "the answers"
    raise InputError(
        f"to protect {claim} {' and '.join(what)} must be declared, from what is known without the "
        f"data. Complete and run: {typed_command()} {' '.join(lacking)}"
        + (" (or leave columns out with `--drop`)" if is_record and undeclared else "")
    )


def _usual_delta(n_records: int) -> float:
    """Return a power of ten well below one over the number of records."""
    return 10.0 ** -(len(str(n_records)) + 1)


def _delta(delta: float | None, n_records: int, *, simulated: bool) -> float:
    """Return the δ that is used; refuse one that would allow to publish a whole record."""
    usual = float(f"{_usual_delta(n_records):g}")
    if delta is None:
        return usual
    if delta >= 1 / n_records:
        note = Note(
            "large-delta",
            f"{setting('delta')} is not below 1/{n_records}, one over the number of training records: it "
            f"would allow to publish a whole record. Use for instance {usual:g}.",
        )
        if not simulated:
            raise InputError(note.text)
        note.warn(PrivacyLeakWarning, stacklevel=2)
    return delta


def _planned(
    data: str, frame: pd.DataFrame, label: str, epsilon: float, limit: float | None
) -> Any:
    """Find the ledger, where the ε of a model counts once for the record."""
    from epsilens.channels import Budget
    from epsilens.cli.release_files import PlannedRelease

    return PlannedRelease.of(data, frame, Budget({label: epsilon}), limit=limit)


def _fitted(
    rows: TrainingRows,
    declaration: Declaration,
    *,
    mechanism: str,
    epsilon: float,
    delta: float,
    x_bound: float,
    protects: ProtectsChoice,
    n_steps: int,
    coef_bound: float | None,
    seed: int | None,
    progress: Progress,
) -> Pipeline:
    """Return the encoder and the fitted private model."""
    import numpy as np
    from sklearn.pipeline import Pipeline

    from epsilens.models.table_encoder import TableEncoder

    encoder = TableEncoder(rows.columns)
    X = encoder.transform(rows.frame)
    if declaration.is_number:
        model = _fitted_ridge(
            X, rows, declaration, epsilon, delta, x_bound, coef_bound=coef_bound, seed=seed
        )
    else:
        from epsilens.models.private_logistic import PrivateLogisticRegression
        from epsilens.models.training_rows import class_array

        # By numbers: what kind of labels they seem to be must not depend on who gave which.
        place = {value: number for number, value in enumerate(rows.classes)}
        model = PrivateLogisticRegression(
            epsilon=epsilon,
            delta=delta,
            x_bound=x_bound,
            protects=protects,
            n_steps=n_steps,
            classes=range(len(rows.classes)),
            mechanism=mechanism,  # type: ignore[arg-type]
            random_state=seed,
        )
        add_noise, n_done = model._noisy, 0

        def counted(*values: Any) -> Any:
            nonlocal n_done
            n_done += 1
            progress(n_done, n_steps, "training")
            return add_noise(*values)

        model.__dict__["_noisy"] = counted  # counts the steps, for whoever waits
        model.fit(X, np.array([place[value] for value in rows.target]))
        del model.__dict__["_noisy"]
        model.classes, model.classes_ = list(rows.classes), class_array(rows.classes)
    return Pipeline([("encoder", encoder), ("model", model)])


def _fitted_ridge(
    X: Any,
    rows: TrainingRows,
    declaration: Declaration,
    epsilon: float,
    delta: float,
    x_bound: float,
    *,
    coef_bound: float | None,
    seed: int | None,
) -> Any:
    """Return a ridge model of the label's distance from the middle of its range."""
    from epsilens.models.ball_ridge import least_penalty
    from epsilens.models.gaussian_release import rho_of_epsilon
    from epsilens.models.private_model import SOLVER_ALLOWANCE
    from epsilens.models.private_ridge import PrivateRidge
    from epsilens.models.ridge_bounds import PENALTY_RANGE, balanced_alpha
    from epsilens.models.table_encoder import NumberColumn

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
    return model


def _earlier(
    receipts: Sequence[str], declaration: Declaration, *, is_record: bool
) -> list[EarlierRelease]:
    """Return the lines of the earlier releases; refuse receipts that cannot be added up."""
    from epsilens.document import ReleaseDocument, TrainingDocument, load_document
    from epsilens.document.training import join_lines

    sources: list[list[EarlierRelease]] = []
    for name in receipts:
        path = Path(name)
        try:
            document = load_document(path)
        except InputError:
            raise _no_receipt(path, "cannot be read as a receipt") from None
        if not isinstance(document, TrainingDocument | ReleaseDocument):
            raise _no_receipt(path, "is another document")
        if document.simulated:
            raise _no_receipt(path, "is of a simulation, which counts for nothing", "Leave it out")
        is_whole = isinstance(document, TrainingDocument) and document.protects == "record"
        if is_record and not is_whole:
            problem = "protects answers, which proves nothing of a whole record"
            raise _no_receipt(path, problem, _NO_TOTAL)
        if not is_whole and not declaration.protected <= set(document.columns):
            open_ones = sorted(declaration.protected - set(document.columns))
            problem = f"does not protect {', '.join(map(repr, open_ones))}"
            raise _no_receipt(path, problem, _NO_TOTAL)
        sources.append(_lines(document, path, declaration.protected))
    return join_lines(*sources)


def _lines(
    document: TrainingDocument | ReleaseDocument, path: Path, protected: frozenset[str]
) -> list[EarlierRelease]:
    """Return the lines of a release and of those that it has added up."""
    from epsilens.cli.release_files import identity_of
    from epsilens.document import EarlierRelease

    identity = identity_of(path, document)
    if document.kind == "training":
        own = EarlierRelease(
            receipt=identity,
            mechanism=document.mechanism,
            epsilon=document.epsilon,
            delta=document.delta,
            mu=document.mu,
        )
        return [own, *document.total.earlier]
    sizes = document.provenance.settings.get("n_categories")
    return [
        EarlierRelease(
            receipt=identity,
            mechanism="randomised-response",
            epsilon=document.epsilon[column],
            delta=0.0,
            n_categories=sizes.get(column) if isinstance(sizes, dict) else None,
        )
        for column in document.columns
        if column in protected
    ]


def _no_receipt(
    path: Path, problem: str, hint: str = "Name the receipt that stands beside the release"
) -> InputError:
    return InputError(
        f"`--after` must name receipts of releases that protect what this one does, but {path.name!r} "
        f"{problem}. {hint}."
    )


def _receipt(
    pipeline: Pipeline,
    rows: TrainingRows,
    declaration: Declaration,
    *,
    mechanism: str,
    protects: str,
    epsilon: float,
    delta: float,
    earlier: Sequence[EarlierRelease],
    began: datetime.datetime,
    seed: int | None,
    replaces: bool,
) -> TrainingDocument:
    """Return the receipt: arguments, names and counts. No time is measured that depends on records."""
    import math

    from epsilens.cli.randomise import EARLIER_RELEASE
    from epsilens.cli.release_files import new_id
    from epsilens.document import EarlierRelease, Provenance, TrainingDocument
    from epsilens.mechanisms import gaussian_advantage
    from epsilens.mechanisms._composition import compose

    model = pipeline.steps[-1][1]
    if declaration.is_number:
        rho: float | None = model.rho_
        mu: float | None = math.sqrt(2.0 * model.rho_)
        advantage = gaussian_advantage(math.sqrt(2.0 * model.rho_))
    else:
        mu, advantage = model.mu_, model.advantage_
        rho = None if mu is None else mu * mu / 2.0
    own = EarlierRelease(receipt="this", mechanism=mechanism, epsilon=epsilon, delta=delta, mu=mu)
    n_before = len({release.receipt for release in earlier})
    total = compose([own, *earlier], n_releases=n_before + 1)
    if not earlier:
        total = total.model_copy(update={"epsilon": epsilon, "advantage": advantage})
    notes = [*rows.notes, *(note for note in held_warnings() if note.code != "released-before")]
    if replaces:
        notes.append(EARLIER_RELEASE)
        EARLIER_RELEASE.warn(PrivacyLeakWarning, stacklevel=2)
    columns = sorted(declaration.protected - set(declaration.drop))
    what = "record" if protects == "record" else f"person's answers in {', '.join(columns)}"
    return TrainingDocument(
        provenance=Provenance(
            method=mechanism,
            settings={
                "label": declaration.label,
                "drop": list(declaration.drop),
                "protects": protects,
                "n_classes": len(rows.classes),
                **new_id(simulated=seed is not None),
            },
            seed=seed,
            simulated=seed is not None,
        ),
        notes=notes,
        number_types={}
        if seed is not None
        else {"epsilon": "proven", "delta": "proven", "advantage": "proven", "total": "proven"},
        mechanism=mechanism,  # type: ignore[arg-type]
        model="ridge" if declaration.is_number else "logistic",
        trust="curator",
        protects=protects,  # type: ignore[arg-type]
        neighbours=f"tables with equally many rows that differ in one {what}",
        label=declaration.label,
        columns=columns,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mu=mu,
        sigma=model.sigma_,
        advantage=advantage,
        x_bound=model.x_bound,
        n_steps=model.n_steps if mechanism == "noisy-descent" else None,
        rows=len(rows.target),
        time=f"{began:%Y-%m-%dT%H:%M:%SZ}",
        simulated=seed is not None,
        total=total.model_copy(update={"earlier": list(earlier)}),
    )


def _print_check(
    rows: TrainingRows, written: pd.DataFrame, declaration: Declaration, x_bound: float
) -> None:
    """Print what the declarations and the bound would change. For the curator alone."""
    import numpy as np

    from epsilens.models.ridge_bounds import row_norms
    from epsilens.models.table_encoder import NumberColumn, TableEncoder, category_codes

    _echo("Not private: for whoever holds the table. Nothing was trained.")
    for column in rows.columns:
        values = rows.frame[column.name]
        if isinstance(column, NumberColumn):
            numbers = column.numbers(values)
            n_other = int(np.isnan(numbers).sum())
            n_cut = 0
            if column.low is not None and column.high is not None:
                n_cut = int(((numbers < column.low) | (numbers > column.high)).sum())
            counts = f"{n_other:,} without a number, {n_cut:,} beyond the range"
        else:
            counts = f"{int((category_codes(values, column.categories) < 0).sum()):,} undeclared"
        _echo(f"  {column.name}: {counts}")
    if declaration.label in declaration.categories:
        codes = category_codes(written[declaration.label], list(rows.classes))
        _echo(f"  {declaration.label}: {int((codes < 0).sum()):,} undeclared")
    lengths = np.hypot(row_norms(TableEncoder(rows.columns).transform(rows.frame)), 1.0)
    _echo(f"  rows longer than {x_bound:g}: {float((lengths > x_bound).mean()):.1%}")


def _measured(pipeline: Pipeline, test: str, table: TableOptions, declaration: Declaration) -> str:
    """Return how good the model is on test data."""
    import numpy as np

    from epsilens.models.table_encoder import category_codes
    from epsilens.models.training_rows import read_target

    frame, written, decimal_comma = _read(test, table, is_record=False)
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
