# SPDX-License-Identifier: Apache-2.0
"""A site as a running program: Flower's node beside our worker, one restarted when it stops, both ended together."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from epsilens._foreign import FLOWER_ONLINE, FLOWER_REFUSALS
from epsilens.data.private_files import write_private
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.flower.keys import CA_CERTIFICATE, SITE_KEY, secret_in
from epsilens.federated.flower.services import Service, environment, free_port, last_words, locked

EXECUTION_SECRET = "execution.secret"  # noqa: S105
WHERE = "server.json"
LARGEST_INVITATION = 11 * 2**20
_REFUSALS_TO_GIVE_UP = 2
_SECONDS_BEFORE_RESTART = 2.0


@dataclass(frozen=True)
class Invitation:
    """What a site needs to know to take part, in one file from the coordinator.

    Parameters
    ----------
    site : int
        Its number.
    server : str
        Where the coordinator's server is: `HOST:PORT`.
    contract : mapping
        The schema.
    certificate : str
        Certificate of the authority that vouches for the server.
    """

    site: int
    server: str
    contract: Mapping[str, object]
    certificate: str

    def text(self) -> str:
        """Write it as JSON."""
        return json.dumps({"epsilens_invitation": 1, **asdict(self)}, ensure_ascii=False, indent=2)

    @classmethod
    def read(cls, path: str | Path) -> Invitation:
        """Read what `text` wrote.

        Raises
        ------
        InputError
            If the file holds no invitation.

        Examples
        --------
        >>> Invitation.read("nowhere.json")
        Traceback (most recent call last):
        epsilens.errors.InputError: the invitation must be a file that can be read...
        """
        try:
            with open(path, encoding="utf-8") as stream:
                given = json.loads(stream.read(LARGEST_INVITATION))
        except OSError as error:
            raise InputError(
                f"the invitation must be a file that can be read, got {type(error).__name__}."
            ) from None
        except ValueError:
            given = None
        kinds = {"site": int, "server": str, "contract": dict, "certificate": str}
        if not isinstance(given, dict) or given.pop("epsilens_invitation", None) != 1:
            raise InputError(
                "the file must be an invitation, as `epsilens federate register` writes it."
            )
        if set(given) != set(kinds) or any(type(given[k]) is not kinds[k] for k in kinds):
            raise InputError(
                "the invitation must have its own entries and no others. Ask for a new one."
            )
        FederationSchema.from_dict(given["contract"])
        return cls(**given)


def remember_server(folder: Path, *, server: str | None, certificate: bytes | None) -> str:
    """Keep where the server is and who vouches for it; return where it is.

    Parameters
    ----------
    folder : Path
        Folder of the site.
    server : str, optional
        None: as it was.
    certificate : bytes, optional
        None: as it was.
    """
    path = folder / WHERE
    if server is not None:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError(
                f"`--server` must be HOST:PORT, got {server!r}. For instance 10.0.0.5:9092."
            )
        write_private(path, json.dumps({"server": server}).encode("utf-8"))
    if certificate is not None:
        if b"BEGIN CERTIFICATE" not in certificate:
            raise InputError(
                "the server's authority must be a certificate in PEM form: the coordinator's ca.pem."
            )
        write_private(folder / CA_CERTIFICATE, certificate)
    if not path.exists() or not (folder / CA_CERTIFICATE).exists():
        raise InputError(
            "a site must know its server and who vouches for it. Give `--invitation`, or `--server` and "
            "`--root-certificates`."
        )
    found: str = json.loads(path.read_text(encoding="utf-8"))["server"]
    return found


def serve_site(
    folder: Path, server: str, *, key: Path | None = None, say: Callable[[str], None]
) -> None:
    """Take part until the program is told to end.

    Parameters
    ----------
    folder : Path
        Folder of the site.
    server : str
        `HOST:PORT`.
    key : Path, optional
        The site's private key; that of the folder unless given.
    say : callable
        Gets a sentence when something has happened.

    Raises
    ------
    InputError
        If the coordinator does not let the site in.
    """
    from epsilens.federated.flower.site_worker import SiteWorker

    taken = (
        "the site must run once, but another process serves the same folder. End that one first."
    )
    with locked(folder / "site.lock", taken=taken):
        node = _Node(folder, server, key or folder / SITE_KEY, say)
        address, secret = node.address, secret_in(folder, EXECUTION_SECRET)
        worker = SiteWorker(folder, address, secret, note=lambda kind: say(f"Answered: {kind}."))
        try:
            worker.work(node.look_after)
        finally:
            worker.close()
            node.end()


class _Node:
    """Flower's node of a site: started again when it stops, unless the coordinator refuses it."""

    def __init__(self, folder: Path, server: str, key: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        secret_in(folder, EXECUTION_SECRET)
        self._arguments = ["--superlink", server, "--host", "127.0.0.1", "--port", str(port)]
        self._arguments += ["--root-certificates", str(folder / CA_CERTIFICATE)]
        self._arguments += ["--auth-supernode-private-key", str(key), "--isolation", "process"]
        self._arguments += ["--superexec-auth-secret-file", str(folder / EXECUTION_SECRET)]
        self._refusals = 0
        self._next_start = 0.0
        self._service = self._start()

    def _start(self) -> Service:
        self._told = False
        home = self._folder / "flower"
        home.mkdir(mode=0o700, exist_ok=True)
        own, log = environment(FLWR_HOME=str(home)), self._folder / "node.log"
        return Service("supernode", self._arguments, log=log, environment=own)

    def look_after(self) -> None:
        """Say when the node is online, and start it again when it has stopped."""
        if not self._told and FLOWER_ONLINE in self._log():
            self._told = True
            self._refusals = 0
            self._say("Online: the coordinator knows this site.")
        if not self._service.has_ended:
            self._next_start = time.monotonic() + _SECONDS_BEFORE_RESTART
            return
        if time.monotonic() < self._next_start:
            return
        self._refusals += any(words in self._log() for words in FLOWER_REFUSALS)
        if self._refusals >= _REFUSALS_TO_GIVE_UP:
            raise InputError(
                "the coordinator must know this site's key, but refuses it "
                f"({last_words(self._service.log, about=FLOWER_REFUSALS)!r}). Register site.pub there, and check the address."
            )
        self._next_start = time.monotonic() + _SECONDS_BEFORE_RESTART
        self._service = self._start()

    def _log(self) -> str:
        return self._service.log.read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """End the node."""
        self._service.end()
