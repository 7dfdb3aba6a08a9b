# SPDX-License-Identifier: Apache-2.0
"""What the page can ask for, without a word about HTTP: tables, studies, pages, exports."""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from epsilens import __version__
from epsilens.app import uploads
from epsilens.app.child import Helper
from epsilens.app.file_changes import check_unchanged, look_at
from epsilens.app.jobs import Jobs, task_of
from epsilens.app.questions import (
    Job,
    JobKind,
    ModelChoice,
    NewStudy,
    Question,
    Renamed,
    Session,
    Stage,
    StudyGroup,
    StudyView,
    Table,
    TableReading,
)
from epsilens.app.shell_command import command_for
from epsilens.app.store import NotKeptError, Store, StoredStudy, StoredTable
from epsilens.document.decision import RANDOMISED, TITLES
from epsilens.errors import InputError, setting

_PAGES_KEPT = 12
_SURVEY = f"{1:016x}"
"""The table of the survey that comes with epsilens."""


class PageService:
    """Answers the page; what takes long is done by other processes.

    Parameters
    ----------
    store : Store
    anonymous : bool
        Whether columns, groups, answers and files are shown by numbers only. Studies that were made
        with names are then not shown at all.
    max_upload : int
        The largest file, in bytes.
    data : str, optional
        A table that was named at the start.
    own_model : str, optional
        A model of the user's own, as MODULE:NAME.
    """

    def __init__(
        self,
        store: Store,
        *,
        anonymous: bool,
        max_upload: int,
        data: str | None = None,
        own_model: str | None = None,
    ) -> None:
        self.store = store
        self.anonymous = anonymous
        self.max_upload = max_upload
        self.helper = Helper(store.temporary)
        self.own_model = own_model
        self._own = {"own_model": own_model, "own_folder": str(Path.cwd())}
        self.jobs = Jobs(store, beside=self._own)
        self.given = None if data is None else self._take(data)
        self._pages: OrderedDict[tuple[object, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def _take(self, data: str) -> str:
        path = Path(data)
        if data == "-":
            raise InputError("DATA must be a file for the page, got standard input. Save it first.")
        if not path.exists():
            raise InputError(f"the data must be a file that exists, got {data!r}. Check the path.")
        table = self.store.add_table(
            name=uploads.shown_name(path.name),
            path=path.resolve(),
            format="folder" if path.is_dir() else uploads.format_of(path.name),
            size=None if path.is_dir() else path.stat().st_size,
            is_uploaded=False,
        )
        return table.id

    def warm_up(self) -> None:
        """Load the libraries before somebody waits for them."""
        threading.Thread(target=self._ready, daemon=True).start()

    def _ready(self) -> None:
        from epsilens.app.child import StoppedError

        try:
            self.helper.ask({"task": "ready"})
        except StoppedError:  # the server has been ended meanwhile
            return

    def close(self) -> None:
        """End all work; it can be resumed at the next start."""
        self.helper.close()
        self.jobs.close()
        self.store.close()

    def session(self) -> Session:
        """Return what the page must know of the server."""
        return Session(
            version=__version__,
            anonymous=self.anonymous,
            max_upload=self.max_upload,
            state="" if self.anonymous else str(self.store.folder),
            suffixes=list(uploads.SUFFIXES),
            given=self.given,
            models=self._models(),
            can_mask=find_spec("shap") is not None,
        )

    def _models(self) -> list[ModelChoice]:
        """Return the models that can be asked for; those of other packages only where they are installed."""
        absent = {name for name in ("xgboost", "lightgbm") if find_spec(name) is None}
        if self.own_model is None:
            absent.add("own")
        return [name for name in get_args(ModelChoice) if name not in absent]

    # --- Tables ---

    def _name(self, table: StoredTable) -> str:
        return table.name_for(anonymous=self.anonymous)

    def view_table(self, table: StoredTable) -> Table:
        """Return a table as the page shows it."""
        shown = table.model_dump(include=set(Table.model_fields)) | {"name": self._name(table)}
        if table.format not in uploads.FORMATS:
            shown["format"] = "text"
        return Table(**shown)

    async def receive(self, pieces: AsyncIterator[bytes], name: str) -> uploads.Upload:
        """Take a file that is sent."""
        return await uploads.receive(
            pieces, name=name, folder=self.store.folder / "tables", max_upload=self.max_upload
        )

    def keep(self, upload: uploads.Upload, name: str, reading: TableReading) -> StoredTable:
        """Keep a file that was sent, if it is a table when read as asked."""
        task = {
            "task": "check",
            "path": str(upload.path),
            "wanted": upload.format,
            "name": None if self.anonymous else uploads.shown_name(name),
            "largest": uploads.LARGEST_EXPANSION * self.max_upload,
        }
        try:
            self.helper.ask(task)
            self._inspect(upload.path, name=uploads.shown_name(name), reading=reading)
            return self.store.add_table(
                name=uploads.shown_name(name),
                path=upload.path,
                format=upload.format,
                size=upload.size,
                is_uploaded=True,
            )
        except BaseException:
            upload.path.unlink(missing_ok=True)
            raise

    def add_survey(self) -> StoredTable:
        """Keep the survey that comes with epsilens as a table; one that was deleted comes back."""
        path = self.store.folder / "tables" / f"{_SURVEY}.table"
        if path.exists():
            with suppress(NotKeptError):
                return self.store.table(_SURVEY)
        self.helper.ask({"task": "survey", "path": str(path)})
        return self.store.add_table(
            name="sample-survey.csv",
            path=path,
            format="text",
            size=path.stat().st_size,
            is_uploaded=True,
        )

    def inspect(self, table_id: str, reading: TableReading) -> dict[str, Any]:
        """Return the columns of a table, read as asked."""
        table = self.store.table(table_id)
        return self._inspect(table.path, name=self._name(table), reading=reading)

    def _inspect(self, path: Path, *, name: str, reading: TableReading) -> dict[str, Any]:
        return self.helper.ask(
            {
                "task": "inspect",
                "path": str(path),
                "name": name,
                "anonymous": self.anonymous,
                "reading": reading.model_dump(mode="json"),
            }
        )

    def delete_table(self, table_id: str) -> None:
        """Forget a table and the studies that use it."""
        path = self.store.table(table_id).path
        with self.jobs.held():
            studies = self.store.studies_of(table_id)
            if self.anonymous and not all(study.is_anonymous for study in studies):
                raise InputError(
                    "this table has studies that were made with names, which are withheld "
                    f"now. Start without {setting('anonymous')} to delete it."
                )
            for study in studies:
                self.jobs.end_all(study.id)
            self.store.delete_table(table_id)
        for study in studies:
            self._forget_pages(study.id)
        self.helper.ask({"task": "forget", "path": str(path)})

    # --- Studies ---

    def study(self, id: str) -> StoredStudy:
        """Return a study that may be shown here."""
        study = self.store.study(id)
        if self.anonymous and not study.is_anonymous:
            raise NotKeptError("this study was made with names, which are withheld now.")
        return study

    def job(self, id: str) -> Job:
        """Return a job of a study that may be shown here."""
        job = self.store.job(id)
        self.study(job.study)
        return job

    def studies(self) -> list[StudyView]:
        """Return all studies that may be shown here."""
        return [
            self.view_study(study)
            for study in self.store.studies()
            if study.is_anonymous or not self.anonymous
        ]

    def _task(self, table: StoredTable, question: Question, *, anonymous: bool) -> dict[str, Any]:
        return {**task_of(self.store, table, question, anonymous=anonymous), **self._own}

    def add_study(self, asked: NewStudy) -> StoredStudy:
        """Ask a question, answer it at a few budgets or at all, and keep both."""
        table = self.store.table(asked.table)
        # What the server alone knows is not taken from the page.
        own = self.own_model if asked.question.model == "own" else None
        beside = {"own_model": own, "has_probabilities": True}
        question = asked.question.model_copy(update=beside)
        if self.anonymous:
            # What somebody calls a group tells what it is.
            groups = [
                StudyGroup(name=f"group {place + 1}", expression=group.expression)
                for place, group in enumerate(question.groups)
            ]
            question = question.model_copy(update={"groups": groups})
        task = self._task(table, question, anonymous=self.anonymous)
        look = look_at(task["named"])
        answer = self.helper.ask({"task": "preview", **task})
        check_unchanged(task["named"], look)
        if not answer.get("has_probabilities", True):
            question = question.model_copy(update={"has_probabilities": False})
        return self.store.add_study(
            table_id=table.id,
            name="" if self.anonymous else asked.name.strip(),
            question=question,
            limits=asked.limits,
            is_anonymous=self.anonymous,
            document=answer["document"],
            kind="cost" if answer["is_cost"] else "preview",
            seen=look,
        )

    def ask_group(self, id: str, expression: str) -> dict[str, Any]:
        """Answer to first order about a group that is not kept."""
        study = self.study(id)
        groups = [StudyGroup(name="asked", expression=expression)]
        question = study.question.model_copy(update={"groups": groups})
        table = self.store.table(study.table_id)
        task = self._task(table, question, anonymous=study.is_anonymous)
        check_unchanged(task["named"], self.store.seen(id))
        document: dict[str, Any] = self.helper.ask({"task": "first-order", **task})["document"]
        return document

    def change_study(self, id: str, change: Renamed) -> StoredStudy:
        """Give a study another name or other limits."""
        limits = self.study(id).limits
        if change.limits is not None:
            limits = limits.changed(change.limits)
        name = None if self.anonymous else change.name
        return self.store.change_study(id, name=name, limits=limits)

    def start_job(self, id: str, kind: JobKind) -> Job:
        """Begin the long work of a study."""
        question = self.study(id).question
        if kind not in question.jobs and (kind == "mask" or question.identity is not None):
            expected = " or ".join(sorted(question.jobs))
            raise InputError(
                f"a job of this study must be {expected}, got {kind}. Ask another question for that."
            )
        if kind not in question.jobs:
            raise InputError(
                "an attack must have the probabilities of a model without correction to go "
                f"by. Ask for a column of answers, without {setting('correction')}."
            )
        return self.jobs.start(id, kind)

    def delete_study(self, id: str) -> None:
        """Forget a study."""
        self.study(id)
        with self.jobs.held():
            self.jobs.end_all(id)
            self.store.delete_study(id)
        self._forget_pages(id)

    def _forget_pages(self, id: str) -> None:
        with self._lock:
            for key in [key for key in self._pages if key[0] == id]:
                del self._pages[key]

    def stage(self, id: str) -> Stage:
        """Say how far the answer has come."""
        if self.study(id).question.identity is not None:
            return "mask"
        kinds = self.store.document_kinds(id)
        if {"cost", "risk"} <= kinds:
            return "decision"
        return "cost" if "cost" in kinds else "preview"

    def _unanswered(self, id: str, stage: Stage) -> str | None:
        """Say why the first answer of a study is not shown; None if it can be."""
        from epsilens.document import WhatIfDocument, load_document
        from epsilens.document.clauses import failed_check
        from epsilens.document.wording import budget_text, nearest_cell

        kinds = self.store.document_kinds(id)
        if stage == "mask":
            return None if "mask" in kinds else "Models are trained and explained first."
        if stage != "preview":
            return None
        if "preview" not in kinds:
            return "No estimate yet: this model is trained again at a few budgets."
        preview = load_document(self.document(id, "preview"))
        assert isinstance(preview, WhatIfDocument)  # noqa: S101
        cell = nearest_cell(preview.cells)
        if cell.trusted:
            return None
        return f"No estimate yet at {budget_text(cell)}: {failed_check(cell.method)}."

    def view_study(self, study: StoredStudy) -> StudyView:
        """Return a study as the page shows it."""
        question = study.question
        if self.anonymous:
            withheld = [
                StudyGroup(name=group.name, expression="withheld") for group in question.groups
            ]
            question = question.model_copy(update={"groups": withheld})
        stage = self.stage(study.id)
        return StudyView(
            id=study.id,
            name=study.name,
            table=study.table_id,
            table_name=self._name(self.store.table(study.table_id)),
            question=question,
            limits=study.limits,
            has_attack=study.question.has_attack,
            stage=stage,
            unanswered=self._unanswered(study.id, stage),
            revision=study.revision,
            jobs=[self.jobs.view(job) for job in self.store.jobs(study.id)],
            created=study.created,
        )

    # --- Pages and exports ---

    def _latest(self, study: StoredStudy) -> dict[str, Any]:
        """Return what is needed to show a study as far as it has come."""
        stage = self.stage(study.id)
        if stage == "mask":
            raise InputError(
                "a study of columns that identify people has no report and no ε. Save its chart or numbers."
            )
        table = self.store.table(study.table_id)
        cost = self.store.document(study.id, "preview" if stage == "preview" else "cost")
        if cost is None:
            raise NotKeptError("this study has no answer yet. Wait for its cost, or resume it.")
        task = self._task(table, study.question, anonymous=study.is_anonymous)
        return {
            **task,
            "limits": study.limits.model_dump(mode="json"),
            "is_preview": stage == "preview",
            "cost": cost,
            "risk": self.store.document(study.id, "risk") if stage == "decision" else None,
            "mechanisms": self.store.document(study.id, "mechanisms"),
            "command": None
            if self.anonymous
            else command_for(study.question, study.limits, table.name, test=task["test_name"]),
        }

    def page(self, id: str) -> str:
        """Return the report of a study as far as it has come."""
        study = self.study(id)
        # Where somebody looks changes nothing of the report.
        limits = study.limits.model_copy(update={"chosen_epsilon": None})
        key = (id, study.revision, limits, study.name)
        with self._lock:
            known = self._pages.get(key)
        if known is not None:
            return known
        page = str(self.helper.ask({"task": "page", **self._latest(study)})["page"])
        with self._lock:
            # It may have been deleted while its page was drawn: then nothing of it is held.
            self.study(id)
            self._pages[key] = page
            while len(self._pages) > _PAGES_KEPT:
                self._pages.popitem(last=False)
        return page

    def chart(self, id: str, format: Literal["png", "svg"]) -> bytes:
        """Return the chart of a study as a picture."""
        study = self.study(id)
        is_mask = self.stage(id) == "mask"
        drawn = {"mask": self.document(id, "mask")} if is_mask else self._latest(study)
        task = {"task": "chart", "format": format, **drawn}
        return base64.b64decode(self.helper.ask(task)["content"])

    def mask_answer(self, id: str, *, width: int) -> dict[str, Any]:
        """Return what the page shows of a mask."""
        task = {"task": "mask-answer", "mask": self.document(id, "mask"), "width": width}
        return self.helper.ask(task)

    def comparison_chart(
        self, ids: list[str], format: Literal["png", "svg"], *, width: int, titled: bool
    ) -> bytes:
        """Return the curves of several studies on one axis of budgets."""
        studies = [self.study(id) for id in ids]
        task = {
            "task": "comparison",
            "format": format,
            "width": width,
            "titled": titled,
            "studies": [{"name": study.name, "latest": self._latest(study)} for study in studies],
        }
        return base64.b64decode(self.helper.ask(task)["content"])

    def document(self, id: str, kind: str) -> dict[str, Any]:
        """Return a document of a study: preview, cost, risk, or the decision they lead to."""
        study = self.study(id)
        if kind == "decision":
            if self.stage(id) != "decision":
                raise NotKeptError("this study has no decision yet. Wait for cost and attack.")
            task = {"task": "decision", **self._latest(study)}
            found: dict[str, Any] = self.helper.ask(task)["document"]
            return found
        document = self.store.document(id, kind)
        if document is None:
            raise NotKeptError(f"this study has no {kind} yet. Wait for it, or start it.")
        return document

    def latest_document(self, id: str) -> dict[str, Any]:
        """Return the document that the page shows; the cost where it does not fit the attack."""
        stage = self.stage(id)
        if stage != "decision":
            return self.document(id, stage)
        found: dict[str, Any] = self._concluded(id)["document"]
        return found

    def _concluded(self, id: str) -> dict[str, Any]:
        return self.helper.ask({"task": "latest", **self._latest(self.study(id))})

    def compare(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return what several studies lead to, one row each, in the given order."""
        from epsilens.show.comparison import comparison_texts

        rows = []
        for id in ids:
            study = self.study(id)
            concluded = self._concluded(id)
            document, chosen = concluded["document"], concluded["recommendation"]
            is_decision = document["kind"] == "decision"
            cost = document["cost"] if is_decision else document
            at = None if chosen is None else chosen["epsilon"]
            name: Any = chosen["mechanism"] if is_decision else "randomised-response"
            curves = {
                curve["mechanism"]: curve["cells"] for curve in document.get("mechanisms", [])
            }
            alone = [cell for cell in cost["cells"] if cell["group"] == "all"]
            cells = [cell for cell in curves.get(name, alone) if cell["trusted"]]
            cell = next((cell for cell in cells if cell["epsilon"] == at), None)
            risks = document["risk"]["cells"] if is_decision and name in RANDOMISED else []
            risk = next((one for one in risks if one["epsilon"] == at), None)
            numbers = {
                "n_train": cost["baseline"]["n_train"],
                "baseline_loss": cost["baseline"]["loss"],
                "epsilon": at,
                "accuracy_change": (cell or {}).get("accuracy_change"),
                "accuracy_change_low": (cell or {}).get("accuracy_change_low"),
                "loss_change": (cell or {}).get("loss_change"),
                "loss_change_high": (cell or {}).get("loss_change_high"),
                "answer_inference_high": (risk or {}).get("answer_inference_high"),
                "advantage": (cell or {}).get("advantage"),
                "answer_inference_ceiling": (cell or {}).get("attack_rate_ceiling"),
            }
            rows.append(
                {
                    "study": id,
                    "name": study.name,
                    "stage": self.stage(id),
                    "has_attack": study.question.has_attack,
                    "protect": study.question.protected,
                    "mechanism": None if chosen is None else TITLES[name],
                    "holds": None if chosen is None else chosen["holds"],
                    "sentence": None if chosen is None else chosen["sentence"],
                    **numbers,
                    "shown": comparison_texts(numbers),
                }
            )
        return rows
