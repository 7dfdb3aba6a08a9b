# SPDX-License-Identifier: Apache-2.0
"""Answers what the coordinator asks, at a site: by our installed code, never by code that a run brings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NoReturn

import httpx
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_and_inflate_object_from_tree,
)
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime import run_clientapp
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from epsilens.federated.flower.client_app import ONLY_ASKED, app
from epsilens.federated.flower.link import (
    FIRST_WAIT,
    LONGEST_WAIT,
    Heartbeat,
    acquiring_client,
    client_of,
)

log = logging.getLogger(__name__)

SECONDS_FOR_A_MESSAGE = 60.0

SHORTEST, LONGEST, GROWTH = 0.03, 0.5, 1.2
"""Seconds between two looks for something to do: short while there is, longer in quiet times."""


class SiteWorker:
    """The part of a site that works: takes messages from the node beside it and answers them.

    Parameters
    ----------
    folder : Path
        Folder of the site.
    address : str
        Address of the node, on this machine.
    secret : bytes
        By which the node knows us.
    note : callable, optional
        Called with the kind of each message that was answered.
    """

    def __init__(
        self,
        folder: Path,
        address: str,
        secret: bytes,
        *,
        note: Callable[[str], None] = lambda kind: None,
    ) -> None:
        self._address, self._note = address, note
        self._setting = {"state": str(folder), ONLY_ASKED: True}
        self._client = acquiring_client(address, secret, certificates=None)
        # The node hands a message over before it has all of it; Flower would wait a second for that.
        run_clientapp.pull_and_inflate_object_from_tree = partial(
            pull_and_inflate_object_from_tree,
            initial_backoff=FIRST_WAIT,
            backoff_cap=LONGEST_WAIT,
            max_time=SECONDS_FOR_A_MESSAGE,
        )

    def work(self, look: Callable[[], None]) -> NoReturn:
        """Answer messages; `look` is called between them, and ends the work by an exception."""
        pause = SHORTEST
        while True:
            look()
            if self._answer_next():
                pause = SHORTEST
            else:
                time.sleep(pause)
                pause = min(pause * GROWTH, LONGEST)

    def close(self) -> None:
        """Take no more messages."""
        self._client.close()

    def _answer_next(self) -> bool:
        request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        try:
            found = self._client.AcquireTask(request)
            if not found.token:
                return False
            self._answer(str(found.token))
        except (httpx.HTTPError, ObjectPullError):
            # The node is not there, yet or any longer, and whoever started it looks after it; or a
            # message has not come whole.
            return False
        return True

    def _answer(self, token: str) -> None:
        bearer = RuntimeTokenHttpInterceptor(token)
        client = client_of(RuntimeHttpClient, self._address, None, "flwr-clientapp", bearer)
        with closing(client):
            with Heartbeat(client):
                message, context, _, _ = pull_task_input(client)
                # The site's own settings, whatever the node was told.
                context.node_config = dict(self._setting)
                reply = answered(message, context)
                try:
                    push_message(client, reply, context)
                except ObjectPushError:
                    # Whoever asked waits no longer. The site goes on; what it has done is in its store.
                    push_task_output(client, context, SubStatus.FAILED, "The answer came too late.")
                    return
                push_task_output(client, context, SubStatus.COMPLETED, "")
            self._note(message.metadata.message_type)


def answered(message: Message, context: Context) -> Message:
    """Return our app's answer; what it does not know it refuses without a word of its own state.

    Parameters
    ----------
    message : flwr.app.Message
    context : flwr.app.Context
    """
    try:
        return app(message, context)
    except Exception as error:  # the text of another's error may hold data
        log.warning("a message was refused: %s", type(error).__name__)
        reason = "not a message of this federation"
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
