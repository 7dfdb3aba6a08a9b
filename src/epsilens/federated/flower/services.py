# SPDX-License-Identifier: Apache-2.0
"""Flower's two services, started as children of ours and ended with us."""

from __future__ import annotations

import importlib.metadata
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from epsilens._validate import require_extra
from epsilens.errors import InputError, MissingExtraError

_SECONDS_TO_END = 4.0
_SECONDS_BETWEEN_LOOKS = 0.1
_BUILT_LIKE = "1.41."
"""Our services stand on parts of Flower that it may move in any version."""
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Environment variables that keep Flower from calls to the outside."""


def require_deployment() -> None:
    """Refuse, before any work, to go on without Flower, or with one that is built otherwise.

    Raises
    ------
    MissingExtraError
    """
    require_extra("federated", "a federation between machines", "flwr")
    found = importlib.metadata.version("flwr")
    if not found.startswith(_BUILT_LIKE):
        raise MissingExtraError(
            f"a federation between machines needs flwr {_BUILT_LIKE}x, but {found} is installed. Run: "
            'pip install "epsilens[federated]"'
        )
    quiet_flower()


def quiet_flower() -> None:
    """Keep Flower, in this process, from calls to the outside, and loopback from proxies."""
    import logging

    os.environ.update(OFFLINE)
    for name in ("NO_PROXY", "no_proxy"):
        given = [part for part in os.environ.get(name, "").split(",") if part]
        wanted = dict.fromkeys([*given, "127.0.0.1", "localhost"])
        os.environ[name] = ",".join(wanted)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def locked(path: Path, *, taken: str) -> Iterator[None]:
    """Be the only process that does something, as long as a block lasts.

    Parameters
    ----------
    path : Path
        Lock file; the operating system releases the lock when this process ends, however it ends.
    taken : str
        What to say if another process does it.
    """
    import fcntl

    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(taken) from None
        yield
    finally:
        os.close(descriptor)


def environment(**own: str) -> dict[str, str]:
    """Return the environment of a process of ours: without calls to the outside, and with this package."""
    import epsilens

    package = str(Path(epsilens.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return {**os.environ, **OFFLINE, "PYTHONPATH": path, **own}


class Service:
    """One of our modules that run a service of Flower's, as a process of its own.

    Parameters
    ----------
    module : {"superlink", "supernode", "launch"}
    arguments : list of str
    log : Path
        Gets what the service says, from its beginning.
    environment : mapping of str to str
    """

    def __init__(
        self, module: str, arguments: list[str], *, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.log = log
        descriptor = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        try:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", f"epsilens.federated.flower.{module}", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for us: we take everything down in order.
                start_new_session=True,
            )
        finally:
            os.close(descriptor)

    def answers(self, address: str, *, seconds: float, authority: Path | None = None) -> bool:
        """Wait until a server answers, under the certificate of its authority if it has one.

        Returns
        -------
        bool
            False if it has ended before, or has not answered within so many seconds.
        """
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if authority is not None:
            trust = ssl.create_default_context(cafile=str(authority))
            handlers.append(urllib.request.HTTPSHandler(context=trust))
        opener = urllib.request.build_opener(*handlers)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.has_ended:
            try:
                with opener.open(f"{address}/health", timeout=2):
                    return True
            except OSError as error:
                if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                    raise InputError(
                        "the server's certificate must name 127.0.0.1 and be signed by the authority, but "
                        "does not. Give other files to `--tls`."
                    ) from None
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        return False

    @property
    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self.process.poll() is not None

    def end(self) -> None:
        """Ask the process to end, and after some seconds make it."""
        if self.has_ended:
            return
        self.process.terminate()
        try:
            self.process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def last_words(log: Path, *, about: Sequence[str] = ()) -> str:
    """Return the last line of a log, or the last with one of some words, without colours and frames."""
    text = log.read_text(encoding="utf-8", errors="replace")
    plain = re.sub(r"\x1b\[[0-9;]*m|[─│╭╮╰╯]", "", text)
    said = [line.strip() for line in plain.splitlines() if re.search(r"\w", line)]
    said = [line for line in said if any(words in line for words in about)] or said
    return said[-1][:160] if said else "it said nothing"


# --- The files of our Flower app: two lines of code that name what is installed anyway ---

# Flower reads the text of a component and looks for an assignment.
_COMPONENT = """\
from epsilens.federated.flower import {module}

app = {module}.app
"""

APP_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "epsilens-federation"
version = "1.0.0"
description = "A federation whose sites may change their mind"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "epsilens"

[tool.flwr.app.components]
serverapp = "epsilens_federation.server:app"
clientapp = "epsilens_federation.client:app"

[tool.flwr.app.config]
plan = ""
""",
    "epsilens_federation/__init__.py": '"""The federation of epsilens as a Flower app."""\n',
    "epsilens_federation/server.py": _COMPONENT.format(module="server_app"),
    "epsilens_federation/client.py": _COMPONENT.format(module="client_app"),
}
"""Path and text of every file."""
