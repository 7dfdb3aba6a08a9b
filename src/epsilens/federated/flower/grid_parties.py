# SPDX-License-Identifier: Apache-2.0
"""The sites as a coordinator reaches them by Flower's messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from flwr.app import Message, RecordDict

from epsilens._types import FloatArray, WordArray
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.flower.messages import (
    Content,
    Setting,
    arrays_answered,
    pack,
    read_sums,
    unpack,
)
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.masked_sums import MaskedQuestion, flatten, sum_bounds
from epsilens.federated.parties import NoAnswerError, Parties, Summed, Traffic
from epsilens.federated.site_state import (
    LARGEST_VERSION,
    SiteDraw,
    Standing,
    Wish,
    counted_on,
    read_draw_name,
)
from epsilens.federated.sums import Penalty, SiteSums
from epsilens.federated.written import read_budget, read_ledger, wish_text

SECONDS_BETWEEN_LOOKS = 0.1
MOST_RECORDS = 2**40
"""No site has more; float64 counts them exactly."""


class MessageGrid(Protocol):
    """What is used of Flower's `Grid`."""

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are online."""
        ...

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and wait for their replies."""
        ...


class GridParties(Parties):
    """Sites behind Flower's grid.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    schema : FederationSchema
        The contract that every site must have agreed to.
    n_sites : int
        How many are expected; numbered from 0.
    timeout : float
        Seconds that the answers to one message may take.
    patience : float
        Seconds that the sites have to come online.
    masked : bool
        Whether the sites add up under masks, so that sums over all of them only are seen.

    Raises
    ------
    InputError
        If a site does not come, has another contract or another version, or takes the place of
        another.
    """

    def __init__(
        self,
        grid: MessageGrid,
        schema: FederationSchema,
        *,
        n_sites: int,
        timeout: float = 120.0,
        patience: float = 120.0,
        masked: bool = False,
    ) -> None:
        self._begin(grid, schema, timeout, masked=masked)
        nodes = self._awaited(lambda found: len(found) >= n_sites, patience)
        if len(nodes) < n_sites:
            raise InputError(
                f"{n_sites} sites must come online within {patience:g} seconds, but only "
                f"{len(nodes)} did. Check that every site runs."
            )
        self._meet(nodes)

    def _begin(
        self, grid: MessageGrid, schema: FederationSchema, timeout: float, *, masked: bool
    ) -> None:
        super().__init__(schema, masked=masked)
        self._grid, self._timeout = grid, timeout
        self.carried = Traffic()
        self._nodes: dict[int, int] = {}
        """Of the sites that take part."""
        self._standings: dict[int, Standing] = {}
        """As each site has said last, of those who left too."""
        self._ledgers: dict[int, tuple[LedgerEntry, ...]] = {}
        """As each site has reported it last, of those who left too."""
        self._earlier: dict[int, tuple[LedgerEntry, ...]] = {}
        """What sites have spent with draws before the one that they have."""

    # --- Who is there ---

    def _awaited(self, is_enough: Callable[[list[int]], bool], patience: float) -> list[int]:
        """Return the nodes that are online, once they are enough or patience is over."""
        until = time.monotonic() + patience
        while True:
            nodes = list(self._grid.get_node_ids())
            if is_enough(nodes) or time.monotonic() > until:
                return nodes
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _meet(self, nodes: Sequence[int]) -> None:
        replies = self._carry("hello", {node: self.pack(version=-1) for node in nodes})
        found: dict[int, tuple[int, Content]] = {}
        for place, node in enumerate(nodes):
            content = self._opened(
                "hello", replies.get(node), f"a site ({place + 1} of {len(nodes)})"
            )
            number = content.setting("site", int)
            if number in found:
                raise InputError(
                    f"two sites say that they are site {number}. Give each a number of its own."
                )
            found[number] = node, content
        for number in sorted(found):
            self._welcome(number, *found[number])

    def _welcome(self, number: int, node: int, content: Content) -> None:
        n, version = content.setting("n", int), content.setting("version", int)
        if not 1 <= n <= MOST_RECORDS:
            raise InputError(
                f"site {number} must have at least one record, and not beyond all number."
            )
        if not -1 <= version < LARGEST_VERSION:
            raise InputError(f"site {number} claims a version of the model that was never made.")
        draw, budget = read_draw_name(content.setting("draw", str)), self._budget(number, content)
        self.note_ledger(number, content)
        anchored, insists = content.setting("anchored", bool), content.setting("insists", bool)
        self._nodes[number] = node
        self._standings[number] = Standing(n, budget, anchored, version, draw, insists)

    def _budget(self, site: int, content: Content) -> Budget:
        budget = read_budget(content.setting("budget", str))
        if set(budget.per_column) != set(self.schema.protected):
            raise InputError(f"site {site} protects other columns than the contract names.")
        return budget

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sites that take part."""
        return tuple(self._nodes)

    def standing(self, site: int) -> Standing:
        """Return what a site has said of itself last."""
        return self._standings[site]

    def known_draws(self) -> dict[int, SiteDraw]:
        """Return by what the draw of every site that has answered is known."""
        return {
            i: SiteDraw(site.draw, len(self._earlier.get(i, ())), site.version)
            for i, site in self._standings.items()
        }

    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""
        for site in sites:
            # Asked again after an interruption, some may be gone already.
            self._nodes.pop(site, None)

    def ledger(self) -> list[LedgerEntry]:
        """Return every release of every site, as each has reported it last."""
        return [entry for site in sorted(self._ledgers) for entry in self._ledgers[site]]

    def note_ledger(self, site: int, content: Content) -> None:
        """Take note of the ledger that a site has sent with an answer."""
        entries = read_ledger(content.setting("ledger", str))
        if not entries or any(entry.site != site for entry in entries):
            raise InputError(f"site {site} sent no ledger, or that of another site.")
        self._ledgers[site] = counted_on(self._earlier.get(site, ()), entries)

    # --- How messages travel ---

    def pack(
        self, arrays: Mapping[str, FloatArray] | None = None, **settings: Setting
    ) -> RecordDict:
        """Put settings and arrays into a message under the contract."""
        return pack(self.schema.fingerprint, arrays=arrays, **settings)

    def _carry(self, action: str, contents: Mapping[int, RecordDict]) -> dict[int, Message]:
        """Send a message to each node, and return the replies that came in time."""
        messages = [
            Message(content, node, f"query.{action}", ttl=self._timeout)
            for node, content in contents.items()
        ]
        replies: dict[int, Message] = {}
        for content in contents.values():
            self._weigh(content)
        for reply in self._grid.send_and_receive(messages, timeout=self._timeout):
            replies.setdefault(reply.metadata.src_node_id, reply)
            if reply.has_content():
                self._weigh(reply.content)
        return replies

    def _weigh(self, content: RecordDict) -> None:
        self.carried.messages += 1
        # Flower's own count fails on an empty text.
        for record in content.array_records.values():
            self.carried.bytes += sum(len(array.data) for array in record.values())
        for settings in content.config_records.values():
            for value in settings.values():
                self.carried.bytes += len(value) if isinstance(value, str | bytes | list) else 8

    def _opened(self, action: str, reply: Message | None, who: str) -> Content:
        if reply is None:
            raise NoAnswerError(
                f"{who} did not answer within {self._timeout:g} seconds. Nothing was changed in the "
                "model; check that the site runs, and ask again."
            )
        if reply.has_error():
            raise NoAnswerError(
                f"{who} could not answer (Flower's error {reply.error.code}). Look at the site's own "
                "log."
            )
        return unpack(
            reply.content,
            self.schema.fingerprint,
            sender=who,
            arrays=arrays_answered(action, self.schema.n_parameters),
        )

    def _sent(self, action: str, contents: Mapping[int, RecordDict]) -> dict[int, Message]:
        """Send a message to each site, and return the replies that came in time, by site."""
        replies = self._carry(action, {self._nodes[site]: c for site, c in contents.items()})
        return {site: replies[node] for site in contents if (node := self._nodes[site]) in replies}

    def ask(self, action: str, contents: Mapping[int, RecordDict]) -> dict[int, Content]:
        """Ask sites, and return every answer or the first refusal."""
        replies = self._sent(action, contents)
        return {site: self._opened(action, replies.get(site), f"site {site}") for site in contents}

    # --- What is asked ---

    def ask_sums(
        self, query: Summed, theta: FloatArray, asked: Mapping[int, Mapping[str, bool]]
    ) -> dict[int, SiteSums]:
        """Ask sites for sums; take those that can be, each within what the contract lets it add."""
        action = "value_submit" if query == "submit" else query
        contents = {site: self.pack({"theta": theta}, **how) for site, how in asked.items()}
        answers, found = self.ask(action, contents), {}
        for site, content in answers.items():
            hessian = asked[site].get("hessian", True)
            sums = read_sums(content, self.schema.n_parameters, hessian=hessian)
            n_known = sums.n if query == "submit" else self._standings[site].n
            if sums.n > MOST_RECORDS or sums.n != n_known:
                raise _other_records(site)
            most = sums.n * sum_bounds(self.schema, theta, hessian=hessian)
            # A difference is between two sums.
            most *= 2.0 if query == "difference" else 1.0
            if not (np.abs(flatten(sums)) <= 1.01 * most).all():
                raise InputError(
                    f"site {site} must send sums within the bounds that the contract gives, got larger ones. "
                    "Nothing was changed. If its numbers are far off, declare a larger `limit` in the contract."
                )
            found[site] = sums
        return found

    def keys(self, group: str, sites: Sequence[int]) -> dict[int, bytes]:
        """Ask sites for a fresh public key each."""
        found = self.ask("mask_key", {site: self.pack(group=group) for site in sites})
        return {site: content.setting("key", bytes) for site, content in found.items()}

    def answers(
        self, group: str, question: MaskedQuestion, *, keys: Mapping[int, bytes] | None
    ) -> dict[int, WordArray]:
        """Ask the sites of a group; with their `keys` for the first time."""
        content = self.pack(
            {"theta": question.theta},
            group=group,
            number=question.number,
            what=question.what,
            hessian=question.hessian,
            pending=json.dumps(dict.fromkeys(question.pending, True)),
            records=json.dumps(dict(question.records)),
            keys=json.dumps({i: key.hex() for i, key in (keys or {}).items()}),
        )
        found = {}
        for site, answer in self.ask("masked", dict.fromkeys(question.records, content)).items():
            data = answer.setting("masked", bytes)
            # Eight bytes a number; other lengths do not fit the question and are refused there.
            found[site] = np.frombuffer(data[: len(data) // 8 * 8], dtype="<u8").astype(np.uint64)
        return found

    def ask_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, FloatArray]:
        """Ask every site to train for some steps."""
        content = self.pack(
            {"theta": theta},
            steps=steps,
            learning_rate=float(learning_rate),
            regularisation=float(penalty.strength),
        )
        found = {}
        for site, answer in self.ask("steps", dict.fromkeys(self._nodes, content)).items():
            found[site] = answer.vector("theta", self.schema.n_parameters)
            if answer.setting("n", int) != self._standings[site].n:
                raise _other_records(site)
        return found

    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""
        contents = {
            site: self.pack(wish=wish_text(wish), preview=preview) for site, wish in wishes.items()
        }
        replies = self._sent("prepare", contents)
        refused: InputError | None = None
        for site in wishes:
            try:
                content = self._opened("prepare", replies.get(site), f"site {site}")
            except InputError as error:
                refused = refused or error
                continue
            # A site that has drawn has spent, whatever the others say.
            self.note_ledger(site, content)
        if refused is not None:
            raise refused

    def _settlement(
        self, sites: Sequence[int], theta: FloatArray, version: int
    ) -> dict[int, RecordDict]:
        """Return what every site is sent of a new version."""
        for _ in self._nodes:
            self.traffic.count(theta)
        return {
            site: self.pack({"theta": theta}, version=version, changed=site in sites)
            for site in self._nodes
        }

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use."""
        for site, content in self.ask("settle", self._settlement(sites, theta, version)).items():
            self._settled(site, content, version)

    def _settled(self, site: int, content: Content, version: int) -> None:
        self._standings[site] = replace(
            self._standings[site],
            budget=self._budget(site, content),
            n=content.setting("n", int),
            anchored=content.setting("anchored", bool),
            version=version,
        )

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""
        self.ask("end_preview", {site: self.pack() for site in sites})


def _other_records(site: int) -> InputError:
    return InputError(
        f"site {site} takes part with another number of records than it has said. Nothing was changed."
    )
