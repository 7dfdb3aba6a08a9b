# SPDX-License-Identifier: Apache-2.0
"""The receipt of `epsilens train`: the claim, and what it adds up to with earlier receipts."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from epsilens.cli.output import held_warnings
from epsilens.errors import InputError, PrivacyLeakWarning

if TYPE_CHECKING:
    from epsilens.document import EarlierRelease, ReleaseDocument, TrainingDocument
    from epsilens.document.decision import MechanismName, Protects
    from epsilens.mechanisms._release import Released
    from epsilens.models.training_rows import Declaration, TrainingRows

_ADDED = (
    "for ε and δ: a table and the same with one record more, both trained with noise and batches planned "
    "for the number of records that is stated; for the advantage: "
)
_NO_TOTAL = "No total can be claimed for these releases together"


def earlier_lines(
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
        own = _own_line(
            identity,
            document.mechanism,
            document.epsilon,
            document.delta,
            mu=document.mu,
            advantage=document.advantage,
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


def _own_line(
    receipt: str,
    mechanism: str,
    epsilon: float,
    delta: float,
    *,
    mu: float | None,
    advantage: float,
) -> EarlierRelease:
    """Return the line of a training, about a changed answer or a replaced record."""
    from epsilens.document import EarlierRelease
    from epsilens.mechanisms._composition import replaced_budget

    if mu is not None:
        # Normal noise is added up by μ, from which ε and the advantage follow.
        return EarlierRelease(
            receipt=receipt, mechanism=mechanism, epsilon=epsilon, delta=delta, mu=mu
        )
    epsilon, delta = replaced_budget(mechanism, epsilon, delta)
    return EarlierRelease(
        receipt=receipt, mechanism=mechanism, epsilon=epsilon, delta=delta, advantage=advantage
    )


def training_receipt(
    released: Released,
    rows: TrainingRows,
    declaration: Declaration,
    *,
    mechanism: MechanismName,
    protects: Protects,
    epsilon: float,
    delta: float,
    earlier: Sequence[EarlierRelease],
    began: datetime.datetime,
    seed: int | None,
    replaces: bool,
    x_bound: float | None,
) -> TrainingDocument:
    """Return the receipt: arguments, names and counts. No time is measured that depends on records."""
    from epsilens.cli.randomise import EARLIER_RELEASE
    from epsilens.cli.release_files import new_id
    from epsilens.document import Provenance, TrainingDocument
    from epsilens.mechanisms import mechanism_class
    from epsilens.mechanisms._composition import compose
    from epsilens.models.released_model import ReleasedAdditive

    is_added = mechanism_class(mechanism).neighbours == "added or removed"
    mu, advantage = released.mu, released.advantage
    own = _own_line("this", mechanism, epsilon, delta, mu=mu, advantage=advantage)
    n_before = len({release.receipt for release in earlier})
    total = compose([own, *earlier], n_releases=n_before + 1)
    if not earlier:
        whole = total.epsilon if is_added else epsilon
        total = total.model_copy(update={"epsilon": whole, "advantage": advantage})
    notes = [*rows.notes, *(note for note in held_warnings() if note.code != "released-before")]
    if replaces:
        notes.append(EARLIER_RELEASE)
        EARLIER_RELEASE.warn(PrivacyLeakWarning, stacklevel=2)
    columns = sorted(declaration.protected - set(declaration.drop))
    kind: Literal["logistic", "ridge", "additive"] = "logistic"
    if declaration.is_number or isinstance(released.model, ReleasedAdditive):
        kind = "ridge" if declaration.is_number else "additive"
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
        mechanism=mechanism,
        model=kind,
        trust="curator",
        protects=protects,
        neighbours=f"{_ADDED if is_added else ''}tables with equally many rows that differ in one {what}",
        label=declaration.label,
        columns=columns,
        epsilon=epsilon,
        delta=delta,
        rho=released.rho,
        mu=mu,
        sigma=released.sigma,
        advantage=advantage,
        x_bound=x_bound,
        n_steps=released.n_steps,
        rows=len(rows.target),
        time=f"{began:%Y-%m-%dT%H:%M:%SZ}",
        simulated=seed is not None,
        total=total.model_copy(update={"earlier": list(earlier)}),
    )
