# SPDX-License-Identifier: Apache-2.0
"""How a release reaches the disk: its record precedes the data, so that no crash can understate ε."""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilens.errors import BudgetExceededError, InputError, PrivacyLeakWarning
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.channels import Budget
    from epsilens.channels.ledger import ReleaseLedger
    from epsilens.document import ReleaseDocument, TrainingDocument

    Receipt = ReleaseDocument | TrainingDocument


_PENDING = "pending"
_ID = "release_id"
_PENDING_NOTE = Note(
    "pending-release",
    "This release was being written: the table beside this receipt may be the new one or an earlier one. "
    "The budgets of both are added up here.",
)


def receipt_of(out: Path) -> Path:
    """Return where the receipt of a release is."""
    name = out.stem if out.suffix.lower() == ".json" else out.name
    return out.with_name(f"{name}.receipt.json")


def synthetic_of(out: Path) -> Path:
    """Return where the synthetic table of a model is."""
    return out.with_name(f"{out.stem}.synthetic.csv")


def new_id(*, simulated: bool) -> dict[str, str]:
    """Return the setting that tells a release from all others; none for a simulation, which is no release.

    It is drawn by the operating system, so it says nothing of the data.
    """
    return {} if simulated else {_ID: secrets.token_hex(16)}


def identity_of(receipt: Path, document: Receipt) -> str:
    """Return the id of a release; of a receipt without one, its SHA-256."""
    found = document.provenance.settings.get(_ID)
    if isinstance(found, str) and re.fullmatch("[0-9a-f]{32}", found):
        return found
    return hashlib.sha256(receipt.read_bytes()).hexdigest()


def is_pending(receipt: Path) -> bool:
    """Say whether a receipt is of a release that was stopped while it was written."""
    found = _read(receipt)
    return found is not None and found.provenance.settings.get(_PENDING) is True


def replaces_release(out: Path, *, force: bool) -> bool:
    """Say whether an earlier release is replaced; refuse that unless it was asked for."""
    receipt = receipt_of(out)
    files = (out, receipt, *([synthetic_of(out)] if out.suffix.lower() == ".json" else []))
    existing = [path for path in files if path.exists()]
    if existing == [receipt] and is_pending(receipt):
        return False  # a release that was stopped before its table appeared
    if existing and not force:
        raise InputError(
            f"`--out` must be a new file, but {existing[0].name!r} exists. Choose another name, or "
            "use `--force`; an earlier release still counts: budgets add up."
        )
    return bool(existing)


def refuse_data(
    out: Path, columns: Sequence[str], *, delimiter: str | None, encoding: str | None
) -> None:
    """Refuse to replace a table with the columns of the data that is no release.

    It may be the data, which came through a pipe or a filter, or their only copy.
    """
    from epsilens.data import read_table

    if not out.is_file() or _read(receipt_of(out)) is not None:
        return
    try:
        found = read_table(out, delimiter=delimiter, encoding=encoding).frame.columns
    except InputError:
        return
    if set(columns) <= set(found):
        raise InputError(
            f"`--force` must replace an earlier release, but {out.name!r} has the columns of the data and "
            "no receipt beside it. Choose another name."
        )


@dataclass(frozen=True)
class PlannedRelease:
    """A release that will be entered in the ledger of its data.

    Parameters
    ----------
    ledger : ReleaseLedger or None
        None: there is no place for one.
    digests : dict of str to bytes
        Digest of every column of the data.
    budget : Budget
        What is spent.
    limit : float or None
        The largest total ε of a record.
    """

    ledger: ReleaseLedger | None
    digests: dict[str, bytes]
    budget: Budget
    limit: float | None

    @classmethod
    def of(
        cls, data: str, frame: pd.DataFrame, budget: Budget, *, limit: float | None
    ) -> PlannedRelease:
        """Find the ledger, and refuse a release beyond the limit before anything is drawn."""
        from epsilens.channels.ledger import column_digests

        found = cls(_ledger_for(data), column_digests(frame), budget, limit)
        if limit is not None:
            if found.ledger is None:
                raise BudgetExceededError(
                    "`--budget` needs a ledger of earlier releases, but neither the folder of the data nor "
                    "the user's own can be written. Make one of them writable."
                )
            found.ledger.require(found.digests, budget, limit=limit)
        return found

    def enter(self, out: Path) -> None:
        """Record the release, and warn of the total if there are others of the same answers.

        The total is for the curator alone: that the answers are the same as before depends on them.
        """
        if self.ledger is None:
            Note(
                "no-ledger",
                "This release is in no ledger: neither the folder of the data nor the user's own can be "
                "written. A later release will not know of it.",
            ).warn(PrivacyLeakWarning, stacklevel=2)
            return
        limit = math.inf if self.limit is None else self.limit
        spending = self.ledger.enter(self.digests, self.budget, output=out.name, limit=limit)
        for note in spending.notes():
            note.warn(PrivacyLeakWarning, stacklevel=2)


def _ledger_for(data: str) -> ReleaseLedger | None:
    """Return the ledger in the folder of the data, else in the user's own folder."""
    from epsilens.app.folder import default_folder
    from epsilens.channels.ledger import ReleaseLedger
    from epsilens.data.private_files import make_private_folder

    folder = Path(os.path.realpath(data)).parent
    # Of data that come through a pipe or standard input no file is known to hold them.
    is_stream = data == "-" or not (os.path.isfile(data) or os.path.isdir(data))
    if not is_stream and os.access(folder, os.W_OK):
        return ReleaseLedger(folder)
    own = default_folder().with_name("epsilens-ledger")
    try:
        make_private_folder(own)
    except OSError:
        return None
    return ReleaseLedger(own) if os.access(own, os.W_OK) else None


def write_release(
    write: Callable[[Callable[[], None]], None],
    document: Receipt,
    *,
    out: Path,
    planned: PlannedRelease | None,
    force: bool,
) -> None:
    """Write table and receipt. At every instant the receipt states at least what the table beside it spent.

    The new table is first written in full under another name. Then the release is entered in the ledger, and
    a receipt that covers the earlier table and the new one takes its place. Then the table does, and last the
    final receipt. Each step is on the disk before the next begins.

    Parameters
    ----------
    write : callable
        Writes the table; calls its argument when the table is whole, before it takes the name `out`.
    document : ReleaseDocument or TrainingDocument
        The receipt.
    out : Path
        Where the table goes.
    planned : PlannedRelease or None
        None: a simulation, which is in no ledger.
    force : bool
        Whether an earlier release may be replaced.
    """
    from epsilens.data import replacing, write_text
    from epsilens.data.atomic import locked_folder
    from epsilens.document import to_json

    receipt = receipt_of(out)
    # One release at a time in a folder: table and receipt must be of the same one.
    with locked_folder(out.parent):
        replaces_release(out, force=force)
        before, old_receipt = _identity(out), receipt.read_bytes() if receipt.exists() else None
        is_announced = False

        def announce() -> None:
            nonlocal is_announced
            if planned is not None:
                planned.enter(out)
            pending = _pending(document, _read(receipt), replaces=before is not None)
            is_announced = True
            write_text(to_json(pending) + "\n", receipt)

        try:
            write(announce)
        except BaseException:
            # Only if the earlier table is in its place: a signal may come right after the renaming.
            if is_announced and _identity(out) == before:
                if old_receipt is None:
                    receipt.unlink(missing_ok=True)
                else:
                    with replacing(receipt) as scratch:
                        scratch.write_bytes(old_receipt)
            raise
        write_text(to_json(document) + "\n", receipt)


def _pending(new: Receipt, earlier: Receipt | None, *, replaces: bool) -> Receipt:
    """Return the receipt that holds for the new table and for the one that it replaces."""
    origin = new.provenance
    # The id is another: this receipt states more than the final one, and neither stands for the other.
    settings = {**origin.settings, **new_id(simulated=new.simulated), _PENDING: True}
    marked = new.model_copy(
        update={
            "provenance": origin.model_copy(update={"settings": settings}),
            "notes": [*new.notes, _PENDING_NOTE],
        }
    )
    if earlier is None and not replaces:
        return marked
    if marked.kind == "training":
        return _both_trainings(marked, earlier if earlier and earlier.kind == "training" else None)
    earlier = earlier if earlier and earlier.kind == "release" else None
    # Nothing is known of a table without a receipt.
    before = dict.fromkeys(new.columns, math.inf) if earlier is None else earlier.epsilon
    columns = list(dict.fromkeys([*new.columns, *before]))
    simulated = new.simulated or (earlier is not None and earlier.simulated)
    changes = {
        "columns": columns,
        "epsilon": {
            name: marked.epsilon.get(name, 0.0) + before.get(name, 0.0) for name in columns
        },
        "record_epsilon": marked.record_epsilon
        + (math.inf if earlier is None else earlier.record_epsilon),
        "simulated": simulated,
        "number_types": {"rows": "measured"} if simulated else new.number_types,
    }
    return marked.model_copy(update=changes)


def _both_trainings(new: TrainingDocument, earlier: TrainingDocument | None) -> TrainingDocument:
    """Return the receipt of two models, of which one may be there: budgets add up, advantages join."""
    from epsilens.document.training import join_lines
    from epsilens.mechanisms._composition import replaced_budget

    def budget(one: Any) -> tuple[float, float]:
        # A total has no mechanism, and is about a replaced record already.
        return replaced_budget(getattr(one, "mechanism", ""), one.epsilon, one.delta)

    def joined(one: Any, other: Any) -> dict[str, float]:
        # Nothing is known of a model without a receipt.
        if other is None:
            return {"epsilon": math.inf, "delta": one.delta, "advantage": 1.0}
        budgets = zip(budget(one), budget(other), strict=True)
        epsilon, delta = (math.fsum(pair) for pair in budgets)
        return {
            "epsilon": epsilon,
            "delta": min(1.0, delta),
            "advantage": 1.0 - (1.0 - one.advantage) * (1.0 - other.advantage),
        }

    n_before = 1 if earlier is None else earlier.total.n_releases
    together = joined(new.total, None if earlier is None else earlier.total)
    simulated = new.simulated or (earlier is not None and earlier.simulated)
    weaker = earlier is not None and earlier.protects == "answer"
    changes = {
        **joined(new, earlier),
        "mu": None,
        "rho": None,
        "protects": "answer" if weaker else new.protects,
        "columns": [
            name
            for name in new.columns
            if earlier is None or earlier.protects == "record" or name in earlier.columns
        ],
        "simulated": simulated,
        "number_types": {} if simulated else new.number_types,
        "total": new.total.model_copy(
            update={
                **together,
                "n_releases": new.total.n_releases + n_before,
                "earlier": join_lines(
                    new.total.earlier, [] if earlier is None else earlier.total.earlier
                ),
            }
        ),
    }
    return new.model_copy(update=changes)


def _read(receipt: Path) -> Receipt | None:
    from epsilens.document import ReleaseDocument, TrainingDocument, load_document

    try:
        found = load_document(receipt)
    except InputError:
        return None
    return found if isinstance(found, ReleaseDocument | TrainingDocument) else None


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
