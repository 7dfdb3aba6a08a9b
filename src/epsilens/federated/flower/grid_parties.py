# SPDX-License-Identifier: Apache-2.0
"""The sites as a coordinator reaches them by Flower's messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from flwr.app import Message, RecordDict

from epsilens._types import FloatArray
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.aggregate import Penalty
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.fixed_point import flatten, sum_bounds
from epsilens.federated.flower.messages import Content, arrays_answered, pack, read_sums, unpack
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.parties import NoAnswerError, Traffic
from epsilens.federated.site_draws import (
    LARGEST_VERSION,
    SiteDraw,
    counted_on,
    read_draw_name,
)
from epsilens.federated.site_state import Wish
from epsilens.federated.sums import SiteSums
from epsilens.federated.written import read_budget, read_ledger, wish_text

SECONDS_BETWEEN_LOOKS = 0.05
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


class GridParties:
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

    Raises
    ------
    InputError
        If a site does not come, has another contract or another version, or takes the place of
        another.
    """

    masked = False
    """Each site's sums are seen."""
    deployed = False
    """All parties are one's own."""

    def __init__(
        self,
        grid: MessageGrid,
        schema: FederationSchema,
        *,
        n_sites: int,
        timeout: float = 120.0,
        patience: float = 120.0,
    ) -> None:
        self._begin(grid, schema, timeout)
        self._meet(self._wait_for(n_sites, patience))

    def _begin(self, grid: MessageGrid, schema: FederationSchema, timeout: float) -> None:
        self._grid, self._schema, self._timeout = grid, schema, timeout
        self._traffic, self.carried = Traffic(), Traffic()
        self._ledgers: dict[int, tuple[LedgerEntry, ...]] = {}
        """As each site has reported it last, of those who left too."""
        self._nodes: dict[int, int] = {}
        self._budgets: dict[int, Budget] = {}
        self._anchored: dict[int, bool] = {}
        self._versions: dict[int, int] = {}
        self._records: dict[int, int] = {}
        self._earlier: dict[int, tuple[LedgerEntry, ...]] = {}
        """What sites have spent with draws before the one that they have."""
        self.draws: dict[int, str] = {}
        """The name of every site's draw."""
        self.requires_masks: dict[int, bool] = {}
        """Whether a site lets sums of its own leave under masks only."""

    # --- Who is there ---

    def _wait_for(self, n_sites: int, patience: float) -> list[int]:
        until = time.monotonic() + patience
        while True:
            nodes = list(self._grid.get_node_ids())
            if len(nodes) >= n_sites:
                return nodes
            if time.monotonic() > until:
                raise InputError(
                    f"{n_sites} sites must come online within {patience:g} seconds, but only "
                    f"{len(nodes)} did. Check that every site runs."
                )
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
        if not 1 <= content.setting("n", int) <= MOST_RECORDS:
            raise InputError(
                f"site {number} must have at least one record, and not beyond all number."
            )
        version = content.setting("version", int)
        if not -1 <= version < LARGEST_VERSION:
            raise InputError(f"site {number} claims a version of the model that was never made.")
        draw, budget = read_draw_name(content.setting("draw", str)), self._budget(number, content)
        self._ledgers[number] = self._ledger(number, content)
        self._anchored[number] = content.setting("anchored", bool)
        self._records[number] = content.setting("n", int)
        self._nodes[number], self._budgets[number] = node, budget
        self._versions[number], self.draws[number] = version, draw
        self.requires_masks[number] = content.setting("insists", bool)

    def _budget(self, site: int, content: Content) -> Budget:
        budget = read_budget(content.setting("budget", str))
        if set(budget.per_column) != set(self._schema.protected):
            raise InputError(f"site {site} protects other columns than the contract names.")
        return budget

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sites that take part."""
        return tuple(self._nodes)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the contract."""
        return self._schema.fingerprint

    @property
    def traffic(self) -> Traffic:
        """What was sent until now, counted as `LocalParties` counts."""
        return self._traffic

    def budgets(self) -> dict[int, Budget]:
        """Return the level of every site's present draw, as each has said last."""
        return {site: self._budgets[site] for site in self._nodes}

    def records(self) -> dict[int, int]:
        """Return how many records every site takes part with, as each has said."""
        return {site: self._records[site] for site in self._nodes}

    # --- How messages travel ---

    def pack(
        self, arrays: Mapping[str, FloatArray] | None = None, **settings: str | float | bool | bytes
    ) -> RecordDict:
        """Put settings and arrays into a message under the contract."""
        return pack(self._schema.fingerprint, arrays=arrays, **settings)

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
            self._schema.fingerprint,
            sender=who,
            arrays=arrays_answered(action, self._schema.n_parameters),
        )

    def ask(self, action: str, contents: Mapping[int, RecordDict]) -> dict[int, Content]:
        """Ask sites, and return every answer or the first refusal."""
        by_node = {self._nodes[site]: content for site, content in contents.items()}
        replies = self._carry(action, by_node)
        return {
            site: self._opened(action, replies.get(self._nodes[site]), f"site {site}")
            for site in contents
        }

    def _sums_of(
        self,
        site: int,
        content: Content,
        theta: FloatArray,
        *,
        hessian: bool,
        n: int | None = None,
        factor: float = 1.0,
    ) -> SiteSums:
        """Take sums that can be: over `n` records, unless None, each within what the contract lets it add."""
        found = read_sums(content, self._schema.n_parameters, hessian=hessian)
        if found.n > MOST_RECORDS or (n is not None and found.n != n):
            raise _other_records(site)
        most = factor * found.n * sum_bounds(self._schema, theta, hessian=hessian)
        if not (np.abs(flatten(found)) <= 1.01 * most).all():
            raise InputError(
                f"site {site} must send sums within the bounds that the contract gives, got larger ones. "
                "Nothing was changed. If its numbers are far off, declare a larger `limit` in the contract."
            )
        # A Hessian is symmetric: half of it has travelled.
        self._traffic.count(found.gradient, content.arrays.get("hessian"))
        return found

    # --- What is asked ---

    def sums(
        self, theta: FloatArray, *, hessian: bool = True, pending: Sequence[int] = ()
    ) -> dict[int, SiteSums]:
        """Ask every site for its sums."""
        return self._plain_sums(theta, self.numbers, hessian=hessian, pending=pending)

    def leaving_sums(self, theta: FloatArray, sites: Sequence[int]) -> dict[int, SiteSums]:
        """Ask those who leave for their sums."""
        return self._plain_sums(theta, sites, hessian=True, pending=())

    def _plain_sums(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool, pending: Sequence[int]
    ) -> dict[int, SiteSums]:
        contents = {}
        for site in sites:
            self._traffic.count(theta)
            contents[site] = self.pack({"theta": theta}, hessian=hessian, pending=site in pending)
        answers = self.ask("sums", contents)
        return {
            site: self._sums_of(site, content, theta, hessian=hessian, n=self._records[site])
            for site, content in answers.items()
        }

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> dict[int, tuple[FloatArray, int]]:
        """Ask every site to train for some steps."""
        contents = {}
        for site in self._nodes:
            self._traffic.count(theta)
            contents[site] = self.pack(
                {"theta": theta},
                steps=steps,
                learning_rate=float(learning_rate),
                regularisation=float(penalty.strength),
            )
        found = {}
        for site, content in self.ask("steps", contents).items():
            local = content.vector("theta", self._schema.n_parameters)
            if content.setting("n", int) != self._records[site]:
                raise _other_records(site)
            self._traffic.count(local)
            found[site] = (local, self._records[site])
        return found

    def prepare(self, wishes: Mapping[int, Wish], *, preview: bool) -> None:
        """Tell sites to get ready for a change, or for the preview of one."""
        contents = {
            self._nodes[site]: self.pack(wish=wish_text(wish), preview=preview)
            for site, wish in wishes.items()
        }
        replies = self._carry("prepare", contents)
        refused: InputError | None = None
        for site in wishes:
            try:
                content = self._opened("prepare", replies.get(self._nodes[site]), f"site {site}")
            except InputError as error:
                refused = refused or error
                continue
            # A site that has drawn has spent, whatever the others say.
            self._ledgers[site] = self._ledger(site, content)
        if refused is not None:
            raise refused

    def anchored(self) -> dict[int, bool]:
        """Say of which sites the present draw is known to be the last one from the true answers."""
        return {site: self._anchored.get(site, False) for site in self._nodes}

    def latest_version(self) -> int:
        """Return the last version of a model that a site was notified of."""
        return max((self._versions.get(site, -1) for site in self._nodes), default=-1)

    def known_draws(self) -> dict[int, SiteDraw]:
        """Return by what the draw of every site that has answered is known."""
        return {
            site: SiteDraw(name, len(self._earlier.get(site, ())), self._versions[site])
            for site, name in self.draws.items()
        }

    def differences(
        self, theta: FloatArray, sites: Sequence[int], *, hessian: bool
    ) -> dict[int, SiteSums]:
        """Ask sites for the one message of their prepared change."""
        contents = {site: self.pack({"theta": theta}, hessian=hessian) for site in sites}
        return {
            # A difference is between two sums.
            site: self._sums_of(
                site, content, theta, hessian=hessian, n=self._records[site], factor=2.0
            )
            for site, content in self.ask("difference", contents).items()
        }

    def settle(self, sites: Sequence[int], theta: FloatArray, *, version: int) -> None:
        """Send the new model to all sites; those that changed take their new draw into use."""
        contents = {}
        for site in self._nodes:
            self._traffic.count(theta)
            contents[site] = self.pack({"theta": theta}, version=version, changed=site in sites)
        for site, content in self.ask("settle", contents).items():
            self._settled(site, content, version)

    def _settled(self, site: int, content: Content, version: int) -> None:
        self._budgets[site] = self._budget(site, content)
        self._records[site] = content.setting("n", int)
        self._anchored[site] = content.setting("anchored", bool)
        self._versions[site] = version

    def end_preview(self, sites: Sequence[int]) -> None:
        """Tell sites that a preview is over."""
        self.ask("end_preview", {site: self.pack() for site in sites})

    def submission(self, theta: FloatArray, site: int) -> SiteSums:
        """Ask a site for the sums of the records that it has on offer."""
        self._traffic.count(theta)
        found = self.ask("value_submit", {site: self.pack({"theta": theta})})
        return self._sums_of(site, found[site], theta, hessian=True)

    def note_ledger(self, site: int, content: Content) -> None:
        """Take note of the ledger that a site has sent with an answer."""
        self._ledgers[site] = self._ledger(site, content)

    def leave(self, sites: Sequence[int]) -> None:
        """Let sites go; nothing is asked of them any more."""
        for site in sites:
            # Asked again after an interruption, some may be gone already.
            self._nodes.pop(site, None)
            self._budgets.pop(site, None)

    def ledger(self) -> list[LedgerEntry]:
        """Return every release of every site, as each has reported it last."""
        return [entry for site in sorted(self._ledgers) for entry in self._ledgers[site]]

    def _ledger(self, site: int, content: Content) -> tuple[LedgerEntry, ...]:
        entries = read_ledger(content.setting("ledger", str))
        if not entries or any(entry.site != site for entry in entries):
            raise InputError(f"site {site} sent no ledger, or that of another site.")
        return counted_on(self._earlier.get(site, ()), entries)


def _other_records(site: int) -> InputError:
    return InputError(
        f"site {site} takes part with another number of records than it has said. Nothing was changed."
    )
