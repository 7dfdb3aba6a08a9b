# SPDX-License-Identifier: Apache-2.0
"""Flower's grid without Flower's processes."""

from __future__ import annotations

from flwr.app import Context, RecordDict

from epsilens.federated.flower.client_app import app


class FakeGrid:
    """Delivers each message to the real ClientApp of its site, in this process."""

    def __init__(self, folders):
        # Flower's ids are random and in no order.
        self.nodes = {1000 - 7 * i: folder for i, folder in enumerate(folders)}
        # A node's context lasts as long as the run.
        self.contexts = {
            node: Context(1, node, {"state": str(folder)}, RecordDict(), {})
            for node, folder in self.nodes.items()
        }
        self.spoil = lambda node, reply: reply
        self.types = []
        self.received = []

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):
        assert timeout is not None
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            self.types.append(message.metadata.message_type)
            reply = app(message, self.contexts[node])
            reply.metadata.__dict__["_src_node_id"] = node
            spoilt = self.spoil(node, reply)
            replies += [] if spoilt is None else [spoilt]
            self.received.append((message.metadata.message_type, node, reply.content))
        return reversed(replies)
