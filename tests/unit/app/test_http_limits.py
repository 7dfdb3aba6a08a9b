# SPDX-License-Identifier: Apache-2.0
"""Raw connections: large headers, and requests that arrive slowly or never."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from epsilens.app import http_limits, server

# Short, so that the tests are; a busy machine is no failure, hence the long wait for an end.
SECONDS = 1.0
WAIT = 30.0


async def echo(scope, receive, send):
    """Answer with the number of bytes that came."""
    if scope["type"] != "http":
        return
    n_bytes, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        n_bytes += len(message["body"])
        more = message.get("more_body", False)
    body = str(n_bytes).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The server as `serve` sets it up, with another application and less patience."""
    import uvicorn

    made: list[uvicorn.Server] = []
    ready = threading.Event()
    changed = pytest.MonkeyPatch()
    changed.setattr(http_limits, "HEADER_SECONDS", SECONDS)
    changed.setattr(http_limits, "BODY_SECONDS", SECONDS)
    changed.setattr(http_limits, "LEAST_BYTES", 1000)
    changed.setattr("epsilens.app.api.create_app", lambda service, gate: echo)
    changed.setattr("epsilens.app.service.PageService", lambda *args, **kwargs: None)
    own = uvicorn.Server

    def keep(config: uvicorn.Config) -> uvicorn.Server:
        made.append(own(config))
        return made[0]

    changed.setattr("uvicorn.Server", keep)
    listening = server._listen(0)
    changed.setattr(server, "_listen", lambda port: listening)
    number = listening.getsockname()[1]

    def run() -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            server.run(
                None,
                port=0,
                state=folder,
                anonymous=False,
                max_upload=1,
                announce=lambda address, folder: ready.set(),
            )

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(WAIT)
    yield number
    made[0].should_exit = True
    thread.join(WAIT)
    changed.undo()


@pytest.fixture
def connection(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as made:
        yield made


def until_the_end(connection: socket.socket) -> bytes:
    """Everything that comes before the server ends the connection."""
    found = b""
    try:
        while piece := connection.recv(2**16):
            found += piece
    except ConnectionError:
        pass
    return found


def dribble(connection: socket.socket, piece: bytes) -> bytes:
    """Send a piece again and again until the server ends the connection; what it said."""
    found, begun = b"", time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() - begun < WAIT:
        try:
            connection.sendall(piece)
            answer = connection.recv(2**16)
        except TimeoutError:
            continue
        except ConnectionError:
            return found
        if not answer:
            return found
        found += answer
    pytest.fail("the connection stayed open")


def headers_of(n_bytes: int) -> bytes:
    start, end = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX: ", b"\r\n\r\n"
    return start + b"a" * (n_bytes - len(start) - len(end)) + end


def test_headers_within_the_limit_are_read(connection):
    connection.sendall(headers_of(http_limits.LARGEST_HEADERS))
    assert until_the_end(connection).startswith(b"HTTP/1.1 200")


def test_larger_headers_are_refused(connection):
    connection.sendall(headers_of(http_limits.LARGEST_HEADERS + 1))
    assert until_the_end(connection).startswith(b"HTTP/1.1 431")


def test_huge_headers_are_not_taken(connection):
    with contextlib.suppress(ConnectionError):
        connection.sendall(headers_of(2**24))
    # What was written before a reset may be lost.
    assert until_the_end(connection)[:12] in {b"HTTP/1.1 431", b""}


def test_headers_that_never_end_are_cut(connection):
    connection.sendall(b"GET / HTTP/1.1\r\n")
    assert dribble(connection, b"X: y\r\n").startswith(b"HTTP/1.1 408")


def test_headers_of_a_second_request_are_cut(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert connection.recv(2**16).startswith(b"HTTP/1.1 200")
    assert dribble(connection, b"X").startswith(b"HTTP/1.1 408")


def test_a_connection_that_says_nothing_is_closed(connection):
    assert until_the_end(connection) == b""


def test_a_body_that_dribbles_is_cut(connection):
    connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n")
    assert dribble(connection, b"x") == b""


def test_a_body_may_take_long_if_it_keeps_coming(connection):
    pieces = 12
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {pieces * 4000}\r\n"
    connection.sendall(head.encode() + b"Connection: close\r\n\r\n")
    for _ in range(pieces):
        time.sleep(SECONDS / 8)
        connection.sendall(b"x" * 4000)
    answer = until_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(str(pieces * 4000).encode())


def test_headers_and_a_body_may_come_at_once(connection):
    head = (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n"
    )
    connection.sendall(head + b"x" * 200_000)
    assert until_the_end(connection).endswith(b"200000")
