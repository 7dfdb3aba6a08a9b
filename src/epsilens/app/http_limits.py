# SPDX-License-Identifier: Apache-2.0
"""How large the headers of a request may be, and how slowly a request may arrive.

uvicorn limits the headers with one of its parsers only, and the time of a request with none. Here one
parser is chosen, whatever else is installed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST_HEADERS = 64 * 1024
"""Bytes of a request before its body."""
HEADER_SECONDS = 10.0
"""Seconds that the headers may take, from the connection or from their first byte."""
BODY_SECONDS = 60.0
LEAST_BYTES = 60 * 1024
"""Bytes of a body that must arrive in every `BODY_SECONDS`."""

_TOO_LARGE = b"431 Request Header Fields Too Large"
_TOO_SLOW = b"408 Request Timeout"


class LimitedProtocol(H11Protocol):
    """uvicorn's connection with the limits of this module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._is_body = False
        self._n_bytes = 0
        """Bytes of these headers, or of this body since the timer was set."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first headers."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes: of headers no more at once than they may still have."""
        while data and not self.transport.is_closing():
            n_taken = len(data)
            if self.conn.their_state is h11.IDLE:
                n_taken = min(n_taken, LARGEST_HEADERS - self._n_bytes)
                if n_taken <= 0:
                    self._refuse(_TOO_LARGE)
                    return
            self._n_bytes += n_taken
            super().data_received(data[:n_taken])
            data = data[n_taken:]
            self._watch()

    def _watch(self) -> None:
        """Set the timer if headers or a body have begun; stop it when the request is complete."""
        is_body = self.conn.their_state is h11.SEND_BODY
        is_waiting = is_body or self.conn.their_state is h11.IDLE
        if not is_waiting or self.transport.is_closing():
            self._stop_timer()
        elif self._timer is None or is_body != self._is_body:
            self._stop_timer()
            self._is_body = is_body
            seconds = BODY_SECONDS if is_body else HEADER_SECONDS
            self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _stop_timer(self) -> None:
        self._n_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        """End the connection, unless enough of a body has come or we have not read what came."""
        if self._is_body and (self._n_bytes >= LEAST_BYTES or self.flow.read_paused):
            self._stop_timer()
            self._watch()
        elif self._is_body:
            self.transport.abort()
        elif self._n_bytes:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, status: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
        self.transport.close()
