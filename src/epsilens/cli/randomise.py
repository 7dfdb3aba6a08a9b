# SPDX-License-Identifier: Apache-2.0
"""`epsilens randomise`: the real release, with a receipt of the budget spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from epsilens.cli.option_groups import choice, option, switch
from epsilens.cli.options import (
    BinsOption,
    Categories,
    Data,
    Delimiter,
    Encoding,
    categories_of,
    comma_list,
    delimiter_from,
    mapping_of_bins,
    read_level,
)
from epsilens.cli.output import Force, Json, Quiet, check_target, held_warnings, print_json
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.channels import Budget
    from epsilens.channels.release import Release
    from epsilens.data import TableFile
    from epsilens.document import ReleaseDocument


MECHANISM = "k-ary randomised response"
EARLIER_RELEASE = Note(
    "earlier-release",
    "An earlier release was replaced. Whoever has seen it holds both draws: their budgets add up, "
    "and this receipt has the new one only.",
)
TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv")


MissingAnswersChoice = Literal["error", "drop", "category"]
"""What to do with missing answers in protected columns."""


def randomise(
    data: Data,
    out: Annotated[
        Path,
        option(
            "The released table: csv, csv.gz, tsv, parquet or arrow. "
            "The receipt goes to FILE.receipt.json.",
            "FILE",
        ),
    ],
    protect: Annotated[
        list[str] | None,
        option("The columns to randomise (repeat, or separate by commas).", "COL"),
    ] = None,
    epsilon: Annotated[
        str | None,
        option("Budget per column, at most 40 or inf: one number, or COL=E,COL=E.", "E"),
    ] = None,
    decision: Annotated[
        Path | None,
        option(
            "Decision of `epsilens decide --out FILE.json`: its columns and its budget, instead of "
            "--protect and --epsilon.",
            "FILE",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        option("Leave a column out of the release (repeat, or separate by commas).", "COL"),
    ] = None,
    categories: Categories = None,
    bins: BinsOption = None,
    missing: Annotated[
        MissingAnswersChoice,
        choice(
            MissingAnswersChoice,
            "Missing protected answers: refuse, leave the rows out, or one more category.",
        ),
    ] = "error",
    keep_order: Annotated[
        bool,
        switch(
            "--keep-order",
            "Keep the order of the rows, which shows an answer that they were sorted by. "
            "Otherwise they are shuffled.",
        ),
    ] = False,
    keep_identifiers: Annotated[
        bool,
        switch(
            "--keep-identifiers",
            "Release columns that look like identifiers, such as names and birth dates; "
            "otherwise they must be left out with --drop.",
        ),
    ] = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    seed: Annotated[
        int | None, option("Simulate, repeatably. Never for a real release.", "N", min=0)
    ] = None,
    total_budget: Annotated[
        float | None,
        option(
            "Refuse if all releases of these records together would spend more than this ε.",
            "B",
            "--budget",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Randomise columns for release, with the operating system's randomness, and write a receipt.

    All other columns are written as they are: they are not protected. Leave out with --drop what
    nobody needs. Columns that look like identifiers are released with --keep-identifiers only. Each
    release is entered in a ledger beside the data, and their budgets are added up.

    Example: [bold]epsilens randomise survey.csv --protect smokes --epsilon 1
    --categories "smokes=no|yes" --out released.csv[/bold]
    """
    from epsilens._validate import as_positive
    from epsilens.channels.release import release_table, written_release
    from epsilens.cli.release_files import (
        PlannedRelease,
        receipt_of,
        refuse_data,
        replaces_release,
        write_release,
    )
    from epsilens.data import read_table, write_table
    from epsilens.data.atomic import target_file
    from epsilens.data.files import WRITABLE_SUFFIXES
    from epsilens.document import to_json

    if decision is not None:
        if protect or epsilon is not None:
            raise InputError(
                "`--decision` has columns and budget, so `--protect` and `--epsilon` cannot be used with it. "
                "Leave them out, or leave it out."
            )
        budget = _decided_budget(decision)
    else:
        missing_options = [
            name for name, given in (("--protect", protect), ("--epsilon", epsilon)) if not given
        ]
        if missing_options:
            raise InputError(
                f"`{missing_options[0]}` must be given, got none. Name the columns and the budget, or give "
                "`--decision`."
            )
        budget = _budget(comma_list(protect), str(epsilon))
    limit = None if total_budget is None else as_positive(total_budget, name="budget")
    if out.is_symlink():  # the receipt belongs beside the table, not beside its alias
        out = target_file(out)
    receipt = receipt_of(out)
    check_target(out, sources={"the data": data}, suffixes=WRITABLE_SUFFIXES)
    check_target(receipt, sources={"the data": data, "the released table": out})
    replaces = replaces_release(out, force=force)
    given = categories_of(categories, protected=tuple(budget.per_column))
    table = read_table(data, delimiter=delimiter_from(delimiter), encoding=encoding, spelled=True)
    refuse_data(
        out,
        [str(name) for name in table.frame.columns],
        delimiter=delimiter_from(delimiter),
        encoding=encoding,
    )
    for name in budget.per_column:
        if name in table.partitions:
            raise InputError(
                f"column {name!r} must not divide the data into folders to be protected: its true "
                "answers are the names of the folders, and the rows stand in their order. Write "
                "the data into one file with the rows in another order first."
            )
    identified = _settle_open_columns(
        table,
        budget,
        comma_list(drop),
        keep_identifiers=keep_identifiers,
        keep_order=keep_order,
    )
    planned = PlannedRelease.of(data, table.frame, budget, limit=limit) if seed is None else None
    release = release_table(
        _with_written_answers(table, given),
        budget=budget,
        categories=given,
        bins=mapping_of_bins(bins),
        missing=missing,
        drop=comma_list(drop),
        keep_order=keep_order,
        random_state=seed,
    )
    if replaces:
        EARLIER_RELEASE.warn(PrivacyLeakWarning, stacklevel=2)
    document = _receipt(
        release, seed=seed, missing=missing, replaces=replaces, identified=identified
    )
    written, dialect = release.frame, None
    if out.name.lower().endswith(TEXT_SUFFIXES):
        written, dialect = written_release(table, release, categories=given, encoding=encoding)
    write_release(
        lambda announce: write_table(written, out, dialect=dialect, announce=announce),
        document,
        out=out,
        planned=planned,
        force=force,
    )
    if json:
        print_json(to_json(document))
    elif not quiet:
        # Warnings have had a line each on standard error; what is no warning is said here.
        warned = [*release.notes, *held_warnings()]
        remarks = [f"Note: {note.text}." for note in table.notes]
        if dialect is not None and dialect.encoding != table.encoding:
            remarks.append("Note: the release is written as UTF-8.")
        remarks += [note.render() for note in document.notes if note not in warned]
        _print(document, remarks, out=out, receipt=receipt)


def _decided_budget(file: Path) -> Budget:
    """Return columns and budget of a decision; refuse one that recommends another mechanism."""
    from epsilens.channels import Budget
    from epsilens.channels.release import require_drawable
    from epsilens.document import DecisionDocument, load_document
    from epsilens.document.decision import RANDOMISED

    found = load_document(file)
    if not isinstance(found, DecisionDocument):
        raise InputError(
            argument="decision",
            expected="a decision",
            got=f"a document of kind {found.kind}",
            hint="Write one with `epsilens decide --out FILE.json`.",
        )
    chosen = found.recommendation
    if chosen.mechanism not in RANDOMISED:
        raise InputError(
            f"`--decision` recommends {chosen.mechanism}, which randomises no answers. Use `epsilens train`, or "
            "decide with `--trust nobody`."
        )
    if chosen.epsilon is None:
        raise InputError("`--decision` recommends no budget. Decide again with other limits.")
    if chosen.group_epsilons is not None:
        raise InputError(
            "`--decision` recommends an ε for each group, and a release here is at one. Randomise each group's "
            "rows by themselves, with `--epsilon`."
        )
    given = found.cost.provenance.settings.get("epsilon")
    each = given if isinstance(given, dict) else dict.fromkeys(found.risk.protect, chosen.epsilon)
    budget = Budget({name: float(each[name]) for name in found.risk.protect})
    require_drawable(budget)
    return budget


def _budget(columns: Sequence[str], text: str) -> Budget:
    from epsilens.channels import Budget
    from epsilens.channels.release import require_drawable

    _refuse_overflow(text)
    several = "A release has one budget; use `epsilens whatif` to compare several."
    level = read_level(text, several=several)
    if not isinstance(level, Budget):
        budget = Budget.uniform(columns, level)
        require_drawable(budget)
        return budget
    given = level.per_column
    for name in given:
        if name not in columns:
            raise InputError(
                f"`--epsilon` must name protected columns, got {name!r}. Add it to `--protect`."
            )
    for name in columns:
        if name not in given:
            raise InputError(
                f"`--epsilon` must have a budget for every protected column, but has none for "
                f"{name!r}. Add {name}=E."
            )
    budget = Budget({name: given[name] for name in columns})
    require_drawable(budget)
    return budget


def _refuse_overflow(text: str) -> None:
    """Refuse a number that is too large to be read: it must not become infinity, no privacy."""
    import math

    from epsilens.data.typed_names import split_typed

    for part in split_typed(text):
        number = part.rpartition("=")[2].strip().lower()
        try:
            is_infinite = math.isinf(float(number))
        except ValueError:
            continue  # no number: refused with a better message where it is read
        if is_infinite and "inf" not in number:
            raise InputError(
                f"`--epsilon` must be at most 40 or inf, got {number!r}. Such a level protects "
                "nobody; use inf and say so."
            )


def _settle_open_columns(
    table: TableFile,
    budget: Budget,
    drop: Sequence[str],
    *,
    keep_identifiers: bool,
    keep_order: bool,
) -> list[Note]:
    """Refuse columns that name people or undo the shuffle, all at once; return the warning of those kept.

    The protected columns are not looked at: what a release refuses must not depend on them.
    """
    from epsilens._validate import require_column
    from epsilens.channels.order import following_columns
    from epsilens.data import infer_schema
    from epsilens.data.typed_names import typed_name

    # A name that was mistyped is refused for that, not for what it leaves open.
    for argument, names in (("protect", budget.per_column), ("drop", drop)):
        for name in names:
            require_column(name, map(str, table.frame.columns), argument=argument)
    others = [n for n in table.frame.columns if n not in budget.per_column and n not in drop]
    open_frame = table.frame[others]
    identifying = [c.name for c in infer_schema(open_frame).columns if c.identifies]
    following = [] if keep_order else following_columns(open_frame)
    refused = [] if keep_identifiers else identifying
    if refused or following:
        named = ",".join(typed_name(n) for n in others if n in refused or n in following)
        reasons = [
            f"{_listed(refused)} like {'an identifier' if len(refused) == 1 else 'identifiers'}"
        ] * bool(refused) + [
            f"{_listed(following, verb='follow')} the order of the rows, so that sorting undoes the shuffle"
        ] * bool(following)
        options = ["`--keep-identifiers`"] * bool(refused) + ["`--keep-order`"] * bool(following)
        raise InputError(
            f"a release must not show who a row belongs to, but {', and '.join(reasons)}. Use "
            f"`--drop {named}`, or {' and '.join(options)} if that may be known."
        )
    if not identifying:
        return []
    note = Note(
        "identifiers-released",
        f"Columns that look like identifiers are released: {', '.join(identifying)}. They show whose "
        "randomised answer stands in a row.",
    )
    note.warn(PrivacyLeakWarning, stacklevel=3)
    return [note]


def _listed(names: Sequence[str], *, verb: str = "look") -> str:
    """Return the names with their verb."""
    return f"{', '.join(map(repr, names))} {verb}{'s' if len(names) == 1 else ''}"


def _with_written_answers(table: TableFile, given: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the table with the text of columns whose possible answers were named.

    A text file has no types: which one a column seems to have can depend on one person's answer.
    """
    from epsilens.data.dialect import written_answers

    frame = table.frame.copy(deep=False)
    for name, possible in given.items():
        if table.spelled is not None and name in frame.columns:
            frame[name] = written_answers(
                table.spelled.column(name),
                name=name,
                possible=possible,
                decimal_comma=table.delimiter != ",",
            )
    return frame


def _receipt(
    release: Release,
    *,
    seed: int | None,
    missing: str,
    replaces: bool,
    identified: Sequence[Note],
) -> ReleaseDocument:
    """Return the receipt. It travels with the data, so it holds nothing but arguments, reports and an id.

    Not even the time taken: that depends on the true answers as well. The id is drawn at random.
    """
    from epsilens.channels import RandomizedResponse
    from epsilens.cli.release_files import new_id
    from epsilens.data import infer_schema
    from epsilens.document import Provenance, ReleaseDocument
    from epsilens.document.parts import NumberType

    budget = release.budget
    columns = list(budget.per_column)
    notes = [*identified, *release.notes]
    n_open = release.frame.shape[1] - len(columns)
    if n_open:
        notes.append(
            Note(
                "open-columns",
                f"{n_open} other {'column is' if n_open == 1 else 'columns are'} released unchanged "
                "and not protected, and may show who a record belongs to.",
            )
        )
    if replaces:
        notes.append(EARLIER_RELEASE)
    # The fingerprint of the released table: that of the true one would be a function of the true answers.
    fingerprint = infer_schema(release.frame).fingerprint
    settings: dict[str, object] = {
        "protect": columns,
        "epsilon": dict(budget.per_column),
        "missing": missing,
        "n_categories": dict(release.n_categories),
        "missing_is_category": list(release.missing_is_category),
        "keep_probability": {
            name: RandomizedResponse(release.n_categories[name], value).keep_probability
            for name, value in budget.per_column.items()
        },
        "categories_from": dict(release.origin),
        "order": "shuffled" if release.shuffled else "kept",
        "bins": {name: [b.low, b.high, b.n_bins] for name, b in release.bins.items()},
        **new_id(simulated=release.simulated),
    }
    numbers: dict[str, NumberType] = {"rows": "measured"}
    if not release.simulated:
        numbers |= {"epsilon": "proven", "record_epsilon": "proven"}
    return ReleaseDocument(
        provenance=Provenance(
            method=MECHANISM,
            settings=settings,
            seed=seed,
            simulated=release.simulated,
            schema_fingerprint=fingerprint,
        ),
        notes=notes,
        number_types=numbers,
        columns=columns,
        epsilon=dict(budget.per_column),
        record_epsilon=budget.per_record,
        rows=len(release.frame),
        simulated=release.simulated,
        mechanism=MECHANISM,
    )


def _print(document: ReleaseDocument, remarks: list[str], *, out: Path, receipt: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    from epsilens.show.terminal import release_summary

    console = Console()
    console.print(release_summary(document), soft_wrap=True)
    for remark in remarks:
        console.print(Text(remark), soft_wrap=True)
    console.print(Text(f"Written: {out} and {receipt}"), soft_wrap=True)
