# SPDX-License-Identifier: Apache-2.0
"""`epsilens whatif` on a parquet table that is too large for memory."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from epsilens._types import Progress
from epsilens.cli.options import categories_of, comma_list
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from epsilens.cli.options import TableOptions
    from epsilens.data.missing import MissingPolicy
    from epsilens.whatif import LossChangeEstimate, WhatIf


LARGEST_SHARE = 0.25
"""A parquet table that would take more than this share of the machine's memory is streamed."""


def wants_stream(
    data: str, table: TableOptions, *, asked: bool, in_memory: Mapping[str, bool]
) -> bool:
    """Say whether the table is streamed: on demand, or since it would not fit.

    Parameters
    ----------
    data : str
    table : TableOptions
    asked : bool
        Whether `--stream` was typed.
    in_memory : mapping of str to bool
        Whether other options need the table in memory.
    """
    from epsilens.data.parquet_pieces import open_parquet

    of_table = {
        "--bins": bool(table.bins),
        "--model": table.model not in {"logistic", "ridge"},
        "--positive": table.positive is not None,
        "--missing": table.missing == "category",
    }
    needing = [name for name, needs in {**in_memory, **of_table}.items() if needs]
    if asked:
        if needing:
            raise InputError(
                f"`{needing[0]}` needs the table in memory and cannot go with `--stream`. Leave one of "
                "them out."
            )
        return True
    path = Path(data)
    if needing or not data or not (path.is_dir() or path.suffix == ".parquet") or not path.exists():
        return False
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return False
    try:
        return open_parquet(path).n_bytes > LARGEST_SHARE * memory
    except InputError:
        return False  # reading it into memory may do, or says what is wrong


def ask_streamed(
    data: str,
    table: TableOptions,
    *,
    checkpoint: str | None,
    groups: Sequence[str] | None,
    question: dict[str, object],
    progress: Progress,
) -> LossChangeEstimate:
    """Fit the default model to a table on disk and answer.

    Parameters
    ----------
    data : str
    table : TableOptions
    checkpoint : str, optional
        A folder for finished passes.
    groups : sequence of str, optional
        What was typed for `--group`.
    question : mapping
        Keyword arguments of `WhatIf.estimate`.
    progress : callable
    """
    from epsilens.data.expressions import parse_group
    from epsilens.data.parquet_pieces import open_parquet
    from epsilens.models.passes import PassStore, keeping_passes

    named = dict(parse_group(text) for text in groups) if groups else None
    identity: dict[str, object] = {
        "data": [list(piece.stamp) for piece in open_parquet(data).pieces],
        "table": repr(table),
        "question": repr(sorted(question.items())),
        "groups": list(groups or ()),
    }
    kept = nullcontext() if checkpoint is None else keeping_passes(PassStore(checkpoint, identity))
    with kept:
        study, notes = _fit(data, table, progress=progress)
        result = study.estimate(
            protect=[table.label],
            groups=named,
            categories=_label_domain(table, study),
            progress=progress,
            **question,  # type: ignore[arg-type]
        )
    document = result.document
    told = document.model_copy(update={"notes": [*notes, *document.notes]})
    return replace(result, document=told)


def _fit(data: str, table: TableOptions, *, progress: Progress) -> tuple[WhatIf, tuple[Note, ...]]:
    """Fit the default model to a table on disk; return the study and what was left out."""
    from epsilens.influence.streamed_fit import fit_from_parquet, readings_of
    from epsilens.models.streamed_encoder import settle_streamed, streamed_estimator
    from epsilens.whatif import WhatIf

    drop = list(comma_list(table.drop))
    split = {"test_share": table.test_share, "seed": table.seed}
    policy: MissingPolicy = table.missing
    left_out: list[Note] = []
    while True:
        chosen = {"label": table.label, "weight": table.weight, "drop": drop}
        readings = readings_of(data, table.test, **chosen, **split)[:2]  # type: ignore[arg-type]
        # How many rows may go is asked when it is known which columns matter.
        reading, settled = settle_streamed(readings[0], policy="drop", progress=progress)
        estimator, schema = streamed_estimator(
            reading,
            model=table.model,  # type: ignore[arg-type]  # others need the table in memory
            regularisation=table.regularisation,
            categorical=comma_list(table.categorical),
            progress=progress,
        )
        # What is left out anyway costs no row when some of it is missing.
        useless = [name for name in schema.encoded_as("left out") if name in reading.complete]
        left_out += [
            Note("column-left-out", f"{column.name}: {column.note}", column.name)
            for column in schema.columns
            if column.name in useless or (not useless and column.encoding == "left out")
        ]
        if not useless:
            break
        drop += useless
    if reading.complete and policy != "drop":
        settle_streamed(readings[0], policy=policy, progress=progress)
    complete, notes = (reading.complete, reading.complete), [*settled, *left_out]
    if table.test is not None:
        test, more = settle_streamed(
            replace(readings[1], features=reading.features),
            policy=policy,
            where=" of the test data",
            progress=progress,
        )
        complete, notes = (reading.complete, test.complete), [*notes, *more]
    study = WhatIf(estimator)
    model = fit_from_parquet(
        estimator,
        data,
        table.test,
        **chosen,  # type: ignore[arg-type]
        **split,  # type: ignore[arg-type]
        schema=schema,
        complete=complete,
        progress=progress,
    )
    study.keep_streamed(model)
    return study, tuple(notes)


def _label_domain(table: TableOptions, study: WhatIf) -> dict[str, list[object]] | None:
    """Return the label's domain as it was typed, in the label's own type."""
    from epsilens.data.prepare import typed_like

    label = table.label
    given = categories_of(table.categories, protected=(label,)).get(label)
    if given is None:
        return None
    known = study.baseline_.label.categories
    is_words = known is not None and all(isinstance(value, str) for value in known)
    return {label: typed_like(given, is_number=not is_words, name=label)}
