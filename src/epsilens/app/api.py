# SPDX-License-Identifier: Apache-2.0
"""The routes: each checks its message, asks the service and answers in JSON."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from epsilens import __version__
from epsilens.app.access import (
    ENTRANCE,
    ERROR_NUMBER,
    FAULT,
    OTHER_LINK,
    POLICY,
    Gate,
    Guard,
    is_longer,
)
from epsilens.app.child import StoppedError, WorkFault
from epsilens.app.database import unwritten
from epsilens.app.questions import (
    MOST_COMPARED,
    Delimiter,
    Encoding,
    Entrance,
    EntranceQuestion,
    Failure,
    GroupQuestion,
    Identifier,
    Job,
    JobKind,
    NewStudy,
    Renamed,
    Session,
    StudyView,
    Table,
    TableReading,
    Ticket,
    TicketQuestion,
)
from epsilens.app.service import PageService
from epsilens.app.store import NotKeptError
from epsilens.app.surface import FIELDS, PAGE
from epsilens.app.uploads import LeftError, StalledError, TooLargeError
from epsilens.errors import InputError, MissingAnswersError, Remedy

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure} for status in (400, 403, 404, 408, 411, 413, 422, 500, 503)
}
_META_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')

_FAULT = "the computation failed through a fault of ours; the terminal says where."
_STOPPED = (
    "the computation ended before it was done, perhaps for want of memory. Try again, or with a "
    "smaller table."
)
router = APIRouter(responses=_REFUSALS)


class NewJob(BaseModel):
    """Which work is to begin."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: JobKind


def _service(request: Request) -> PageService:
    service: PageService = request.app.state.service
    return service


TheService = Annotated[PageService, Depends(_service)]


# --- The page itself ---


@router.get("/", include_in_schema=False)
def index() -> Response:
    """Return the page."""
    return _file("index.html")


@router.get("/static/{name}", include_in_schema=False)
def static(name: str) -> Response:
    """Return a part of the page."""
    return _file(name)


def _file(name: str) -> Response:
    known = {entry.name: entry for entry in (resources.files("epsilens.app") / "static").iterdir()}
    # The page looks like the report, and reads numbers as it does.
    for shared in ("report.css", "numbers.js"):
        known[shared] = resources.files("epsilens.show") / "templates" / shared
    kind = _TYPES.get(f".{name.rpartition('.')[2]}")
    if name not in known or kind is None:
        raise HTTPException(404, "this part of the page does not exist.")
    return Response(known[name].read_bytes(), headers={"content-type": kind})


@router.post(ENTRANCE)
def enter(asked: EntranceQuestion, request: Request, response: Response) -> Entrance:
    """Give the cookie and the key for the token of the link."""
    gate: Gate = request.app.state.gate
    found = gate.exchange(asked.token)
    if found is None:
        raise HTTPException(403, OTHER_LINK)
    cookie, key = found
    response.headers["set-cookie"] = gate.cookie_header(cookie)
    return Entrance(key=key)


@router.get("/api/session")
def session(service: TheService) -> Session:
    """Return what the page must know of the server."""
    return service.session()


@router.post("/api/tickets", status_code=201)
def add_ticket(asked: TicketQuestion, request: Request) -> Ticket:
    """Return what opens a report once, for a frame, which can show no key."""
    gate: Gate = request.app.state.gate
    return Ticket(ticket=gate.ticket(asked.path))


# --- Tables ---


@router.get("/api/tables")
def list_tables(service: TheService) -> list[Table]:
    """Return the tables, the latest first."""
    return [service.view_table(table) for table in service.store.tables()]


@router.post(
    "/api/tables",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"format": "binary"}}},
        }
    },
)
async def upload_table(
    request: Request,
    service: TheService,
    name: Annotated[str, Query(min_length=1, max_length=1000)],
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> Table:
    """Take a file; its name only says its format and is shown again."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and is_longer(length, service.max_upload):
        raise TooLargeError(
            f"a file must be at most {service.max_upload / 2**20:.4g} MB, got more. Start with a larger "
            "`--max-upload`, or name the file in the command."
        )
    reading = TableReading(delimiter=delimiter, encoding=encoding)
    upload = await service.receive(request.stream(), name)
    return service.view_table(await run_in_threadpool(service.keep, upload, name, reading))


@router.post("/api/survey", status_code=201)
def add_survey(service: TheService) -> Table:
    """Keep the survey that comes with epsilens as a table, to try the page with."""
    return service.view_table(service.add_survey())


@router.get("/api/tables/{id}")
def get_table(id: Identifier, service: TheService) -> Table:
    """Return a table."""
    return service.view_table(service.store.table(id))


# FastAPI before 0.116 takes the annotation None for a body, hence `response_model`.
@router.delete("/api/tables/{id}", status_code=204, response_model=None)
def delete_table(id: Identifier, service: TheService) -> None:
    """Forget a table with its studies."""
    service.delete_table(id)


@router.post("/api/tables/{id}/schema")
def inspect_table(id: Identifier, reading: TableReading, service: TheService) -> dict[str, Any]:
    """Return the columns of a table, read as asked."""
    return service.inspect(id, reading)


# --- Studies ---


@router.get("/api/studies")
def list_studies(service: TheService) -> list[StudyView]:
    """Return the studies, the latest first."""
    return service.studies()


@router.post("/api/studies", status_code=201)
def add_study(asked: NewStudy, service: TheService) -> StudyView:
    """Ask a question of a table; a first answer is there at once."""
    return service.view_study(service.add_study(asked))


@router.get("/api/studies/{id}")
def get_study(id: Identifier, service: TheService) -> StudyView:
    """Return a study."""
    return service.view_study(service.study(id))


@router.patch("/api/studies/{id}")
def change_study(id: Identifier, change: Renamed, service: TheService) -> StudyView:
    """Give a study another name or other limits."""
    return service.view_study(service.change_study(id, change))


@router.delete("/api/studies/{id}", status_code=204, response_model=None)
def delete_study(id: Identifier, service: TheService) -> None:
    """Forget a study with all that was found."""
    service.delete_study(id)


@router.post("/api/studies/{id}/first-order")
def ask_group(id: Identifier, group: GroupQuestion, service: TheService) -> dict[str, Any]:
    """Answer to first order about any group."""
    return service.ask_group(id, group.expression)


@router.get("/api/studies/{id}/documents/{kind}")
def get_document(
    id: Identifier,
    kind: Literal["preview", "cost", "risk", "decision", "mask"],
    service: TheService,
) -> dict[str, Any]:
    """Return a document of a study."""
    return service.document(id, kind)


@router.get("/api/studies/{id}/mask")
def get_mask(
    id: Identifier, service: TheService, width: Annotated[int, Query(ge=200, le=1200)] = 560
) -> dict[str, Any]:
    """Return the columns that identify people, in sentences, a table and a chart."""
    return service.mask_answer(id, width=width)


@router.get("/api/comparison")
def compare(
    study: Annotated[list[Identifier], Query(min_length=1, max_length=20)], service: TheService
) -> list[dict[str, Any]]:
    """Return what several studies lead to, side by side."""
    return service.compare(study)


@router.get("/api/comparison/chart.{format}", response_class=Response)
def export_comparison(
    format: Literal["png", "svg"],
    study: Annotated[list[Identifier], Query(min_length=2, max_length=MOST_COMPARED)],
    service: TheService,
    width: Annotated[int, Query(ge=200, le=1200)] = 640,
    titled: bool = True,
) -> Response:
    """Return the curves of several studies on one axis as a picture."""
    kind = "image/png" if format == "png" else _TYPES[".svg"]
    content = service.comparison_chart(study, format, width=width, titled=titled)
    return _download(content, kind, f"epsilens-comparison.{format}")


# --- Jobs ---


@router.post("/api/studies/{id}/jobs", status_code=202)
def start_job(id: Identifier, job: NewJob, service: TheService) -> Job:
    """Begin the long work of a study; a job that is under way is returned."""
    return service.jobs.view(service.start_job(id, job.kind))


@router.get("/api/jobs/{id}")
def get_job(id: Identifier, service: TheService) -> Job:
    """Return how far a job has come."""
    return service.jobs.view(service.job(id))


@router.post("/api/jobs/{id}/cancel")
def cancel_job(id: Identifier, service: TheService) -> Job:
    """End a job now; it can be resumed."""
    return service.jobs.view(service.jobs.cancel(service.job(id).id))


@router.post("/api/jobs/{id}/resume", status_code=202)
def resume_job(id: Identifier, service: TheService) -> Job:
    """Go on with a job that did not get to its end."""
    return service.jobs.view(service.jobs.resume(service.job(id).id))


# --- Pages and exports ---


@router.get("/studies/{id}/page", include_in_schema=False)
def show_page(id: Identifier, service: TheService) -> Response:
    """Return the report of a study to be shown inside the page."""
    page = service.page(id)
    found = _META_POLICY.search(page)
    policy = POLICY if found is None else found[1].replace("&#39;", "'")
    return Response(
        page,
        headers={
            "content-type": _TYPES[".html"],
            # The scripts of the report are known by their hashes; only our own page may frame it.
            "content-security-policy": f"{policy}; frame-ancestors 'self'",
            "x-frame-options": "SAMEORIGIN",
        },
    )


@router.get("/api/studies/{id}/report.html", response_class=Response)
def export_report(id: Identifier, service: TheService) -> Response:
    """Return the report as one file."""
    return _download(service.page(id).encode("utf-8"), _TYPES[".html"], "epsilens-report.html")


@router.get("/api/studies/{id}/document.json", response_class=Response)
def export_document(id: Identifier, service: TheService) -> Response:
    """Return the document that the page shows."""
    text = json.dumps(service.latest_document(id), ensure_ascii=False, indent=2, allow_nan=False)
    return _download(f"{text}\n".encode(), "application/json", "epsilens.json")


@router.get("/api/studies/{id}/chart.{format}", response_class=Response)
def export_chart(id: Identifier, format: Literal["png", "svg"], service: TheService) -> Response:
    """Return the chart as a picture."""
    kind = "image/png" if format == "png" else _TYPES[".svg"]
    return _download(service.chart(id, format), kind, f"epsilens.{format}")


def _download(content: bytes, kind: str, name: str) -> Response:
    return Response(
        content,
        headers={"content-type": kind, "content-disposition": f'attachment; filename="{name}"'},
    )


# --- Refusals ---


def _failure(status: int, reason: str, remedies: Sequence[Remedy] = ()) -> JSONResponse:
    failure = Failure(error=reason, remedies=list(remedies))
    return JSONResponse(failure.model_dump(), status_code=status)


def _explain(error: RequestValidationError) -> str:
    """Say in one line what is wrong with a message, without repeating what it held."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "a question must be JSON. Ask by the page."
    parts = [str(part) for part in first["loc"] if not _is_foreign(part)]
    if parts and parts[-1] in _IN_PER_CENT:
        typed = "type a share of more than 0 and less than 100 per cent"
        return f"{PAGE.setting(parts[-1], None)} is not usable: {typed}."
    name = parts[-1] if parts else "the question"
    field = PAGE.setting(name, None) if name in FIELDS else f"`{name}`"
    return f"{field} is not usable: {_reason(first)}."


_IN_PER_CENT = frozenset({"alpha", "test_share", "max_attack_rate", "max_advantage"})
"""What is typed on the page as a hundred times what is sent."""


def _is_foreign(part: object) -> bool:
    """Say whether a part of a place was typed by somebody and is no name of ours."""
    return part in {"body", "query", "path"} or not re.fullmatch(r"[a-z_]{1,30}|\d+", str(part))


def _reason(problem: dict[str, Any]) -> str:
    """Take only what the message says by itself; patterns and limits are ours."""
    if problem["type"] == "extra_forbidden":
        return "nothing of this name belongs here"
    if problem["type"] == "string_pattern_mismatch":
        return "it has another form"
    raised = problem.get("ctx", {}).get("error")
    said = str(problem["msg"] if raised is None else raised)
    return said[:1].lower() + said[1:] if len(said) < 200 else "it has another form"


def create_app(service: PageService, gate: Gate, *, warm_up: bool = True) -> Guard:
    """Put the server together.

    Parameters
    ----------
    service : PageService
        Closed when the server ends.
    gate : Gate
    warm_up : bool
        Whether to load the libraries before the first question.

    Returns
    -------
    Guard
        An ASGI application.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if warm_up:
            service.warm_up()
        yield
        service.close()

    app = FastAPI(
        title="epsilens",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        # Newer versions report on themselves where they are asked to; older ones ignore the word.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.service = service
    app.state.gate = gate
    app.include_router(router)

    @app.exception_handler(InputError)
    async def refused(request: Request, error: InputError) -> JSONResponse:
        known = {TooLargeError: 413, StalledError: 408, LeftError: 400}
        remedies = error.remedies if isinstance(error, MissingAnswersError) else ()
        return _failure(known.get(type(error), 422), error.render(PAGE), remedies)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        # The error goes on to the outermost guard, which prints its place.
        number = request.scope[ERROR_NUMBER] = secrets.token_hex(4)
        return JSONResponse({"error": FAULT, "id": number}, status_code=500)

    answers: dict[type[Exception], Callable[[Any], tuple[int, str]]] = {
        NotKeptError: lambda error: (404, str(error)),
        sqlite3.OperationalError: lambda error: (503, unwritten(error)),
        RequestValidationError: lambda error: (422, _explain(error)),
        HTTPException: lambda error: (error.status_code, str(error.detail)),
        StoppedError: lambda _: (503, _STOPPED),
        WorkFault: lambda _: (500, _FAULT),
    }
    for kind, answer in answers.items():

        @app.exception_handler(kind)
        async def failed(request: Request, error: Exception, answer: Any = answer) -> JSONResponse:
            return _failure(*answer(error))

    return Guard(app, gate)
