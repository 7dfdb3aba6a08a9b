# SPDX-License-Identifier: Apache-2.0
"""The coordinator's way to its own SuperLink: registers nodes, and carries an operation out as a run.

The operation's own process is the ServerApp. Flower would install and run whatever code a run brings;
here nobody does, neither at the coordinator nor at a site.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from flwr.app import Array, Message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import NOOP_FEDERATION_ID, NodeStatus, TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
)
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid, http_grid

from epsilens.errors import InputError
from epsilens.federated.flower.keys import CA_CERTIFICATE, public_key_bytes, secret_in
from epsilens.federated.flower.services import APP_FILES

# --- The parts of a reply as Flower carries them, checked before Flower puts them together ---

LARGEST_ARRAYS = 2**31
"""Bytes of all arrays of a reply."""


def require_readable(contents: Mapping[str, bytes]) -> None:
    """Refuse parts that cannot be put together, or that become too large.

    Parameters
    ----------
    contents : mapping of str to bytes
        The parts of a reply by their names.

    Raises
    ------
    flwr.supercore.inflatable.inflatable_utils.ObjectPullError
        Flower takes the reply for one that never came.
    """
    parts = dict(contents)
    known: dict[str, InflatableObject] = {}
    name = next(iter(parts), "")
    try:
        if sum(_array_bytes(content, parts) for content in parts.values()) > LARGEST_ARRAYS:
            raise ValueError("too large")
        for name in contents:
            inflate_object_from_contents(name, parts, keep_object_contents=True, objects=known)
    except Exception as error:  # whatever the sender has made up
        raise ObjectPullError(name, f"not readable: {type(error).__name__}") from None


def _array_bytes(content: bytes, parts: Mapping[str, bytes]) -> int:
    """Return how many bytes an array becomes; 0 for parts of another kind."""
    kind, children, _ = get_object_head_values_from_object_content(content)
    if kind != Array.__qualname__:
        return 0
    chunks = json.loads(get_object_body(content, Array))["arraychunk_ids"]
    return sum(len(parts[children[place]]) for place in chunks)


# --- The coordinator's way to its own SuperLink: registers nodes, and carries an operation out as a run ---

CONTROL_TOKEN, EXECUTION_SECRET = "control.token", "execution.secret"
WHERE = "server.json"
UNKNOWN = 404
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
SECONDS_TO_BEGIN = 20.0
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_HEARTBEATS = 15.0
FIRST_WAIT, LONGEST_WAIT = 0.03, 0.3
"""Seconds before one looks again for the rest of a message."""

_T = TypeVar("_T")
_C = TypeVar("_C", RuntimeHttpClient, ControlHttpClient)


@dataclass(frozen=True, repr=False)
class _Bearer:
    """Puts the coordinator's token on every request."""

    token: str

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.headers["authorization"] = f"Bearer {self.token}"
        response: httpx.Response = call_next(context)
        return response


def client_of(
    kind: type[_C], address: str, certificates: bytes | None, component: str, *interceptors: object
) -> _C:
    """Return a client of Flower's for a server, which takes us for one of its own components."""
    return kind.from_server_address(
        server_address=address,
        insecure=certificates is None,
        root_certificates=certificates,
        interceptors=[RuntimeVersionHttpInterceptor(component_name=component), *interceptors],
    )


def acquiring_client(
    address: str, secret: bytes, *, certificates: bytes | None
) -> RuntimeHttpClient:
    """Return a client that may take tasks: it signs with the secret of the folder."""
    signing = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE})
    return client_of(RuntimeHttpClient, address, certificates, "SuperExec", signing)


class Heartbeat:
    """Tells Flower, while a block lasts, that somebody works on a task."""

    def __init__(self, client: RuntimeHttpClient) -> None:
        self._client, self._over = client, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_HEARTBEATS):
            try:
                self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except httpx.HTTPError:
                continue  # the work itself will find out


class _Retries:
    """Tries again to reach a server that is away, for a while; Flower's own would try for ever."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until = math.inf

    def invoke(self, call: Callable[..., _T], *arguments: object, **options: object) -> _T:
        until = min(time.monotonic() + self.seconds, self.until)
        while True:
            try:
                return call(*arguments, **options)
            except httpx.TransportError:
                if time.monotonic() > until:
                    raise
                time.sleep(SECONDS_BETWEEN_LOOKS)


class _PromptGrid(HttpGrid):
    """Flower's grid, which looks for replies often and does not try for ever."""

    def __init__(self, address: str, certificates: bytes, token: str, *, patience: float) -> None:
        super().__init__(address, False, certificates, token=token)
        self._retry_invoker = _Retries(patience)
        self._until = time.monotonic() + patience
        http_grid.pull_objects = self._pull

    def _pull(
        self, object_ids: list[str], pull_object_fn: Callable[[str], bytes]
    ) -> dict[str, bytes]:
        """Fetch the parts of a reply, until the time for all replies is over.

        A reply may be announced before all of it is there; Flower waits a second at least, and for one
        whose sender has died until it gives up after minutes, one such reply after another. One that
        cannot be read counts as one that never came.
        """
        found: dict[str, bytes] = pull_objects(
            object_ids,
            pull_object_fn,
            initial_backoff=FIRST_WAIT,
            backoff_cap=LONGEST_WAIT,
            max_time=max(self._until - time.monotonic(), 0.0),
        )
        require_readable(found)
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages, and return the replies that come in time."""
        self._until = time.monotonic() + (timeout or SECONDS_TO_BEGIN)
        self._retry_invoker.until = self._until
        try:
            waiting = set(self.push_messages(list(messages)))
            found: list[Message] = []
            while waiting and time.monotonic() < self._until:
                replies = list(self.pull_messages(waiting))
                found += replies
                waiting -= {reply.metadata.reply_to_message_id for reply in replies}
                if waiting:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            self._retry_invoker.until = math.inf
        return found


class Link:
    """The SuperLink of a coordinator's folder, on this machine.

    Parameters
    ----------
    folder : Path
    port : int, optional
        None: where the running server has written it.

    Raises
    ------
    InputError
        If no server runs.
    """

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{port}"
        """By which sites reach it."""
        if port is None:
            try:
                facts = json.loads((folder / WHERE).read_text(encoding="utf-8"))
                port, self.address = int(facts["port"]), str(facts["address"])
            except (OSError, ValueError, KeyError, TypeError):
                raise self._silent() from None
        self._address = f"127.0.0.1:{port}"
        self._certificates = (folder / CA_CERTIFICATE).read_bytes()

    def _silent(self) -> InputError:
        return InputError(
            "the coordinator's server must run, but does not answer. Start it: `epsilens federate "
            f"server --state {self.folder}`."
        )

    def _control(self) -> closing[ControlHttpClient]:
        bearer = _Bearer(secret_in(self.folder, CONTROL_TOKEN).decode("ascii"))
        return closing(
            client_of(ControlHttpClient, self._address, self._certificates, "flwr CLI", bearer)
        )

    def _asked(self, call: Callable[[], _T]) -> _T:
        """Return what the server answers, or say in one line that it does not."""
        try:
            return call()
        except httpx.HTTPError as error:
            raise self._in_words(error) from None

    def _in_words(self, error: httpx.HTTPError) -> InputError:
        if not isinstance(error, httpx.HTTPStatusError):
            return self._silent()
        return InputError(
            f"the coordinator's server refused a request (status {error.response.status_code}): it may have "
            f"been restarted meanwhile. Try again, or look at {self.folder / 'server.log'}."
        )

    # --- Who may come ---

    def register(self, public_key: str) -> int:
        """Let the node with this key in, if it is not yet, and return what Flower calls it.

        Raises
        ------
        InputError
            If the key was shut out since the server was started, which Flower remembers.
        """
        key = public_key_bytes(public_key)
        with self._control() as control:
            listed = self._asked(lambda: control.ListNodes(ListNodesRequest())).nodes_info
            known = {bytes(node.public_key): node for node in listed}
            if key not in known:
                request = RegisterNodeRequest(public_key=key)
                return int(self._asked(lambda: control.RegisterNode(request)).node_id)
        if known[key].status == NodeStatus.UNREGISTERED:
            raise InputError(
                "the key must be one that was not shut out since the server was started. Let the site "
                "make a new one, or start the server again."
            )
        return int(known[key].node_id)

    def unregister(self, node: int) -> None:
        """Let a node in no longer, if it still is."""
        with self._control() as control:
            try:
                control.UnregisterNode(UnregisterNodeRequest(node_id=node))
            except httpx.HTTPError as error:
                status = getattr(getattr(error, "response", None), "status_code", None)
                if status != UNKNOWN:
                    raise self._in_words(error) from None

    def unregister_all_but(self, nodes: Iterable[int]) -> None:
        """Let in no longer whoever is not among these nodes."""
        kept = set(nodes)
        with self._control() as control:
            for node in self._asked(lambda: control.ListNodes(ListNodesRequest())).nodes_info:
                if node.node_id not in kept and node.status != NodeStatus.UNREGISTERED:
                    self.unregister(node.node_id)

    # --- A run ---

    @contextmanager
    def run(self, *, patience: float) -> Iterator[HttpGrid]:
        """Begin a run of our app, be its ServerApp for the length of a block, and finish it.

        Parameters
        ----------
        patience : float
            Seconds that the server may be silent before we give up.

        Yields
        ------
        flwr.serverapp.Grid
        """
        wanted = self._started()
        token = self._acquired(wanted)
        grid = _PromptGrid(self._address, self._certificates, token, patience=patience)
        client = grid._runtime_client
        status, details = SubStatus.FAILED, "The operation was not finished."
        try:
            with Heartbeat(client):
                given = self._asked(lambda: client.PullTaskInput(PullTaskInputRequest()))
                TaskIdentity.task_id = given.task_id
                TaskIdentity.run_id = given.run.run_id
                TaskIdentity.node_id = given.context.node_id
                grid.set_run(run_from_proto(given.run))
                try:
                    yield grid
                except httpx.HTTPError as error:
                    raise self._in_words(error) from None
            status, details = SubStatus.COMPLETED, ""
        finally:
            grid._retry_invoker.seconds = 0.0
            try:
                client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
            except httpx.HTTPError:
                pass  # the server has gone, and the run with it
            finally:
                grid.close()

    def _started(self) -> int:
        files = {name: text.encode("utf-8") for name, text in APP_FILES.items()}
        content, _ = build_fab_from_files(files)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        request = StartRunRequest(fab=fab_to_proto(fab), federation=NOOP_FEDERATION_ID)
        with self._control() as control:
            return int(self._asked(lambda: control.StartRun(request)).run_id)

    def _acquired(self, wanted: int) -> str:
        """Take the task of our run; what others have begun and left is ended on the way."""
        secret = secret_in(self.folder, EXECUTION_SECRET)
        client = acquiring_client(self._address, secret, certificates=self._certificates)
        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        until = time.monotonic() + SECONDS_TO_BEGIN
        with closing(client):
            while time.monotonic() < until:
                found = self._asked(lambda: client.AcquireTask(request))
                if not found.token:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                elif found.task.run_id == wanted:
                    return str(found.token)
                else:
                    self._end_stranger(found.token)
        raise self._silent()

    def _end_stranger(self, token: str) -> None:
        bearer = RuntimeTokenHttpInterceptor(token)
        client = client_of(
            RuntimeHttpClient, self._address, self._certificates, "flwr-serverapp", bearer
        )
        ended = PushTaskOutputRequest(sub_status=SubStatus.FAILED, details="Nobody carries it out.")
        # It may no longer be waiting.
        with closing(client), suppress(httpx.HTTPError):
            client.PullTaskInput(PullTaskInputRequest())
            client.PushTaskOutput(ended)
