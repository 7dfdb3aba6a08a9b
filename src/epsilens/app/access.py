# SPDX-License-Identifier: Apache-2.0
"""Who may come in: browsers of this machine that were given the link, from our own page."""

from __future__ import annotations

import hmac
import html
import json
import re
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from epsilens.errors import place_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = re.compile(r"^(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?$")
_SAFE = ("GET", "HEAD")
KEY_HEADER = "x-epsilens-key"
"""How the page shows the key that it was given for the link."""
ENTRANCE = "/api/enter"
"""Where the page exchanges the link's token for the cookie and the key."""
TICKET_SECONDS = 60.0
_OURS_ONLY = (
    "this browser is not let in, or the server was started again. Open the link that the terminal "
    "shows; it works as often as you like while the server runs. Nothing is lost by that."
)
OTHER_LINK = (
    "this link is of another start of the server. Open the link that the terminal shows now."
)
_NOT_BY_ITSELF = "this address cannot be opened by itself. Go to the start page."
_REFUSAL_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><title>epsilens</title>'
    '<link rel="icon" href="data:,"><link rel="stylesheet" href="/static/report.css"></head>'
    "<body><main><h1>epsilens</h1><p>{reason}</p>{way}</main></body></html>\n"
)
_LARGEST_QUESTION = 2**20
UPLOADS = "/api/tables"
ERROR_NUMBER = "epsilens_error_number"
"""Where an answer to a fault of ours leaves the number that the terminal shows."""
FAULT = "something went wrong through a fault of ours; the terminal says where."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
}


class Gate:
    """The link that is printed, and the cookie and the key that a browser gets for it.

    The link opens the page in any browser of this machine for as long as the server runs. Its token
    stands in the fragment, which browsers send to nobody; our own page sends it in the body of a
    request. A browser sends the cookie to every port of this machine, so to other programs too; the
    key is kept where only pages of our own address and port can read it. Neither is enough alone.

    Examples
    --------
    >>> gate = Gate()
    >>> cookie, key = gate.exchange(gate.token)
    >>> gate.admits(f"{gate.name}={cookie}"), gate.knows(key), gate.exchange("another")
    (True, True, None)
    >>> gate.exchange(gate.token) == (cookie, key)
    True
    >>> ticket = gate.ticket("/studies/1/page")
    >>> [gate.takes("/studies/1/page", ticket) for _ in range(2)]
    [True, False]
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._key = secrets.token_urlsafe(32)
        # Cookies do not know ports: two servers on this machine must not share a name.
        self.name = f"epsilens-{secrets.token_hex(4)}"
        self.on_exchange: Callable[[], None] = lambda: None
        self._tickets: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def link(self, base: str) -> str:
        """Return the link to the page at an address such as `http://127.0.0.1:8080`."""
        return f"{base}/#token={self.token}"

    def exchange(self, token: str) -> tuple[str, str] | None:
        """Return the cookie and the key for the token of the link, and nothing for another."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self.on_exchange()
        return self._cookie, self._key

    def cookie_header(self, cookie: str) -> str:
        """Return the header that gives a browser the cookie: not for scripts, not from other sites."""
        return f"{self.name}={cookie}; Path=/; HttpOnly; SameSite=Strict"

    def admits(self, header: str) -> bool:
        """Say whether a Cookie header holds ours."""
        # Other programs' cookies on this machine may be malformed: only ours is read.
        pairs = (pair.strip().partition("=") for pair in header.split(";"))
        found = [value.strip('"') for name, _, value in pairs if name == self.name]
        # Another program may have set one of our name, for another path.
        return any(hmac.compare_digest(one.encode(), self._cookie.encode()) for one in found)

    def knows(self, key: str) -> bool:
        """Say whether a key is ours."""
        return hmac.compare_digest(key.encode(), self._key.encode())

    def ticket(self, path: str) -> str:
        """Return what opens one path once and soon, for a frame, which can show no key."""
        now = time.monotonic()
        with self._lock:
            self._tickets = {t: known for t, known in self._tickets.items() if known[1] > now}
            made = secrets.token_urlsafe(32)
            self._tickets[made] = path, now + TICKET_SECONDS
            return made

    def takes(self, path: str, ticket: str) -> bool:
        """Say whether a ticket opens a path, and tear it up."""
        with self._lock:
            wanted, until = self._tickets.pop(ticket, ("", 0.0))
        return wanted == path and until > time.monotonic()


class Guard:
    """Stands before the application: every request is looked at, every answer gets its headers."""

    def __init__(self, app: Application, gate: Gate) -> None:
        self.app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        has_begun = False

        async def with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in _HEADERS.items()
                        if name.encode() not in given
                    ),
                ]
            await send(message)

        try:
            await self._let_in(scope, receive, with_headers)
        except Exception as error:
            # The outermost handler: nothing goes on from here, and no message of another library,
            # which may quote data, goes out.
            number = scope.get(ERROR_NUMBER) or secrets.token_hex(4)
            print(f"error {number}\n{place_of(error)}", file=sys.stderr, flush=True)  # noqa: T201
            if not has_begun:
                await _refuse(send, 500, FAULT, id=number)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        if len(headers) != len(scope["headers"]) and _doubled(
            scope, "host", "origin", "content-length", KEY_HEADER
        ):
            await _refuse(send, 400, "a request must have one Host and one Origin.")
            return
        as_page = _is_visit(scope, headers)
        if not _LOOPBACK.match(headers.get("host", "")):
            await _refuse(
                send,
                400,
                "this server answers to 127.0.0.1 and localhost only. Open the link that it printed.",
                as_page=as_page,
            )
            return
        reason = self._refusal(scope, headers, as_page=as_page)
        if reason is not None:
            await _refuse(send, *reason, as_page=as_page, way='<p><a href="/">Start page</a></p>')
            return
        await self.app(scope, receive, send)

    def _refusal(
        self, scope: Scope, headers: dict[str, str], *, as_page: bool
    ) -> tuple[int, str] | None:
        """Say why a request is not answered; the bare page, which says nothing of anybody, always is."""
        path = scope["path"]
        if as_page:
            # A visit may begin anywhere: in a terminal, in a file, on another page.
            return None if path == "/" else (403, _NOT_BY_ITSELF)
        if path == "/" or path.startswith("/static/") or path == ENTRANCE:
            return _not_ours(scope, headers)
        if path.startswith("/studies/"):
            is_shown = self._gate.takes(path, _asked(scope).get("ticket", ""))
        else:
            is_shown = self._gate.knows(headers.get(KEY_HEADER, ""))
        if not is_shown or not self._gate.admits(headers.get("cookie", "")):
            return 403, _OURS_ONLY
        return _not_ours(scope, headers)


def _is_visit(scope: Scope, headers: dict[str, str]) -> bool:
    """Say whether somebody opens an address in a browser, who must be answered by a page."""
    if "sec-fetch-dest" in headers:
        is_page = headers["sec-fetch-dest"] == "document"
    else:
        is_page = "text/html" in headers.get("accept", "")
    return is_page and scope["method"] in _SAFE


def _asked(scope: Scope) -> dict[str, str]:
    """Return the first value of each part of the query."""
    parts = parse_qs(scope["query_string"].decode("latin-1"))
    return {name: values[0] for name, values in parts.items()}


def _doubled(scope: Scope, *names: str) -> bool:
    found = [name.decode("latin-1") for name, _ in scope["headers"]]
    return any(found.count(name) > 1 for name in names)


def _not_ours(scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
    """Say what is wrong with a request that another page began, or that changes too much."""
    # Another port of this machine is the same site to a browser, and is not ours.
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        return 403, "a request must come from our own page. Open the link that the terminal shows."
    if scope["method"] in _SAFE:
        return None
    host = headers["host"]
    if headers.get("origin") not in {f"http://{host}", f"https://{host}"}:
        return 403, "a change must come from our own page. Open the link that the terminal shows."
    if scope["path"] == UPLOADS:
        return None
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal():
        return 411, "a request must say its length. Send it in one piece."
    if is_longer(length, _LARGEST_QUESTION):
        return 413, "a question must be at most 1 MB, got more. Ask for less at once."
    return None


def is_longer(length: str, most: int) -> bool:
    """Say whether a number that was sent is greater than one of ours, however many digits it has.

    Examples
    --------
    >>> is_longer("12", 11), is_longer("9" * 5000, 11), is_longer("0" * 5000, 11)
    (True, True, False)
    """
    digits = length.lstrip("0")
    return len(digits) > len(str(most)) or int(digits or "0") > most


async def _refuse(
    send: Send,
    status: int,
    reason: str,
    id: str | None = None,
    *,
    as_page: bool = False,
    way: str = "",
) -> None:
    """Answer with the reason: a page to somebody who opens an address, JSON to a script."""
    if as_page:
        said = html.escape(reason[:1].upper() + reason[1:])
        page = _REFUSAL_PAGE.format(reason=said, way=way)
        await _answer(send, status, {"content-type": "text/html; charset=utf-8"}, page.encode())
        return
    body = json.dumps({"error": reason, "id": id}, ensure_ascii=False).encode("utf-8")
    await _answer(send, status, {"content-type": "application/json"}, body)


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    all_headers = {**_HEADERS, **headers, "content-length": str(len(body))}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
