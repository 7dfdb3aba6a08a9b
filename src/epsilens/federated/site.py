# SPDX-License-Identifier: Apache-2.0
"""A site of a federation: its records stay here, and it counts its own budget.

The site does not trust anybody to count for it. It draws once and keeps the draw; asked again for the
same, it answers from what it drew; what would break its budget it refuses.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import get_args

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_choice, as_count
from epsilens.channels import Budget
from epsilens.errors import InputError, PrivacyLeakWarning, SiteBudgetError, SiteError, setting
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.ledger import LedgerEntry, Mode, Operation, entry_of, spend
from epsilens.federated.randomisation import (
    EpsilonLike,
    as_budget,
    channels_between,
    degrade,
    is_stricter,
    randomise,
    relax,
)
from epsilens.federated.site_state import Draw, Pending, SiteState, Standing, Wish
from epsilens.federated.sums import Penalty, SiteSums, accepted_sums, expected_sums, site_sums

# --- How a site draws its protected answers: the first time, with more noise, or again from the true ones ---


def first_draw(
    records: Records, schema: FederationSchema, budget: Budget, *, seed: int | None, number: int
) -> Draw:
    """Return the draw with which a site begins.

    Parameters
    ----------
    records : Records
        The true ones.
    schema : FederationSchema
    budget : Budget
    seed : int or None
        None: operating-system randomness.
    number : int
        Number of the site.
    """
    with _quietly():
        drawn = randomise(records, schema, budget, random_state=_stream(seed, number, 0))
    return Draw(drawn, budget)


def degraded(state: SiteState, schema: FederationSchema, wanted: Budget) -> Draw:
    """Return the draw in use with noise added, so that it is distributed as one at a stricter level."""
    source = _stream(state.seed, state.number, state.draws)
    with _quietly():
        records = degrade(
            state.current.records, schema, state.current.budget, wanted, random_state=source
        )
    return Draw(records, wanted)


def redrawn(state: SiteState, schema: FederationSchema, truth: Records, wanted: Budget) -> Draw:
    """Draw from the true answers: afresh where stricter, together with the old draw where looser."""
    source = _stream(state.seed, state.number, state.draws)
    anchor = state.anchor
    levels = anchor.budget.per_column
    looser = {name: max(wanted.per_column[name], level) for name, level in levels.items()}
    with _quietly():
        fresh = randomise(truth, schema, wanted, random_state=source)
        coupled = relax(
            truth, anchor.records, schema, anchor.budget, Budget(looser), random_state=source
        )
    places = [
        schema.positions[name] for name, level in levels.items() if wanted.per_column[name] >= level
    ]
    records = fresh.with_codes(places, coupled.codes[:, places]) if places else fresh
    return Draw(records, wanted)


@contextmanager
def _quietly() -> Iterator[None]:
    """Draw without a warning: that a whole federation is simulated is said once, where it is shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield


def _stream(seed: int | None, number: int, draws: int) -> np.random.Generator | None:
    """Return the randomness of one draw of a simulated site; None: the operating system's."""
    return None if seed is None else np.random.default_rng([seed, number, draws])


def affordable(
    spent: Mapping[str, float],
    mode: Mode | None,
    anchor: Budget | None,
    wanted: Budget,
    *,
    number: int,
    limit: float,
) -> Mapping[str, float]:
    """Return what would be spent, or refuse what is above the limit."""
    after = spend(spent, mode=mode, anchor=anchor, wanted=wanted)
    total = math.fsum(after.values())
    # A budget that just fits must not fail by the rounding of a sum; what spends nothing never fails.
    if mode != "degrade" and total > limit * (1 + 1e-12):
        raise SiteBudgetError(
            number,
            f"would have spent epsilon = {total:g} a record, and its limit is {limit:g}. "
            "Use `degrade`, which spends nothing more, or raise the site's limit.",
        )
    return after


# --- A site of a federation: its records stay here, and it counts its own budget ---

MOST_PREVIEWS = 1000
"""Each is a line of the ledger, which must not grow without end by a coordinator's will."""


class Site:
    """One party with its own records, its own draw and its own count of the budget.

    Parameters
    ----------
    number : int
        Its place in the federation, from 0.
    schema : FederationSchema
        The contract.
    records : Records
        The true ones; see `FederationSchema.encode`.
    epsilon : float, mapping or Budget
        At which level it takes part.
    limit : float, optional
        The most that a record may spend in all, over columns and releases. None: what the first draw
        spends, so that nothing but `degrade` is possible afterwards.
    seed : int, optional
        None: operating-system randomness. With a seed the draws are simulated and protect nobody.
    offer : int
        How many of the last records stay out of the model until the coordinator accepts them (P4). They
        are drawn with the others.
    allow_as_printed : bool
        Whether the site lets the published message leave, which is computed from the true answers. No
        coordinator can set this. Without a `limit` there is none then.

    Assumptions
    -----------
    ε is local: data sets are neighbours if one protected answer differs, and a record's ε is the sum over
    its columns. Nobody but the site is trusted. Other columns, and who is in the data, are not covered.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.federated import DeclaredColumn, FederationSchema, Records, Site
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> site = Site(0, schema, Records(np.array([[0, 1], [1, 0]]), np.empty((2, 0))), epsilon=3.0)
    >>> site.sums(np.zeros(2)).n, site.total_epsilon
    (2, 3.0)
    """

    def __init__(
        self,
        number: int,
        schema: FederationSchema,
        records: Records,
        *,
        epsilon: EpsilonLike,
        limit: float | None = None,
        seed: int | None = None,
        offer: int = 0,
        allow_as_printed: bool = False,
    ) -> None:
        budget = as_budget(schema, epsilon)
        usual = math.inf if allow_as_printed else budget.per_record
        most = usual if limit is None else float(limit)
        if math.isnan(most) or most <= 0:
            raise InputError(argument="limit", expected="greater than 0", got=repr(most))
        if not 0 <= as_count(offer, name="offer", least=0) < records.n:
            raise InputError(
                f"{setting('offer')} must leave at least one of the {records.n} records in "
                f"the model, got {offer}."
            )
        self.schema = schema
        self._truth = records
        first = as_count(number, name="number", least=0)
        spent = affordable({}, None, None, budget, number=first, limit=most)
        drawn = first_draw(records, schema, budget, seed=seed, number=first)
        self._state = SiteState(
            number=first,
            limit=most,
            seed=seed,
            draws=1,
            anchor=drawn,
            current=drawn,
            spent=spent,
            offered=offer,
            allows_as_printed=allow_as_printed,
            draw_name=secrets.token_bytes(16).hex(),
        )
        self._write("train", None, budget, spent)

    @classmethod
    def restore(cls, schema: FederationSchema, records: Records, state: SiteState) -> Site:
        """Return a site as it was when `state` was taken; nothing is drawn.

        Parameters
        ----------
        schema : FederationSchema
        records : Records
            The true ones.
        state : SiteState
        """
        site = cls.__new__(cls)
        site.schema, site._truth, site._state = schema, records, state
        return site

    # --- What it is and has spent ---

    @property
    def state(self) -> SiteState:
        """What must be kept to go on later."""
        return self._state

    @property
    def number(self) -> int:
        """Its place in the federation."""
        return self._state.number

    @property
    def n(self) -> int:
        """How many records it takes part with; those on offer are not among them."""
        return self._truth.n - self._state.offered

    @property
    def offered(self) -> Records | None:
        """The draw of the records that are on offer; None if there are none."""
        records = self._state.current.records
        return records.take(slice(self.n, None)) if self._state.offered else None

    @property
    def in_use(self) -> Records:
        """The draw of the records that it takes part with."""
        return self._taking_part(self._state.current.records)

    def _taking_part(self, records: Records) -> Records:
        return records.take(slice(0, self.n)) if self._state.offered else records

    @property
    def budget(self) -> Budget:
        """The level of the draw in use."""
        return self._state.current.budget

    @property
    def is_anchored(self) -> bool:
        """Whether the draw in use is the last one that was made from the true answers."""
        return self._state.current is self._state.anchor

    @property
    def standing(self) -> Standing:
        """What a coordinator may know of it."""
        state = self._state
        return Standing(
            self.n,
            self.budget,
            self.is_anchored,
            state.version,
            state.draw_name,
            state.insists_on_masks,
        )

    @property
    def total_epsilon(self) -> float:
        """What all releases have spent of a record's budget."""
        return math.fsum(self._state.spent.values())

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every release, in order."""
        return self._state.ledger

    @property
    def wish(self) -> Wish | None:
        """The change that it asks for."""
        return self._state.wish

    def _write(
        self, operation: Operation, mode: Mode | None, wanted: Budget, spent: Mapping[str, float]
    ) -> None:
        entry = entry_of(self.number, operation, mode, wanted, spent)
        self._state = replace(self._state, spent=spent, ledger=(*self._state.ledger, entry))

    def allow(self, limit: float) -> None:
        """Set another limit on what a record may spend in all.

        Parameters
        ----------
        limit : float
            At least what has been spent.
        """
        if not limit >= self.total_epsilon:
            raise InputError(
                argument="limit",
                expected=(f"at least the {self.total_epsilon:g} that site {self.number} has spent"),
                got=f"{limit:g}",
            )
        self._state = replace(self._state, limit=float(limit))

    def insist_on_masks(self, *, insist: bool = True) -> None:
        """Let sums of this site's own leave under masks only, whatever the coordinator asks."""
        self._state = replace(self._state, insists_on_masks=insist)

    def follow_new_coordinator(self) -> None:
        """Forget which version of the model the site has; its draws and its ledger stay."""
        self._state = replace(self._state, version=-1)

    # --- What it answers ---

    def sums(self, theta: FloatArray, *, hessian: bool = True, pending: bool = False) -> SiteSums:
        """Return the sums over the randomised records at a model.

        Parameters
        ----------
        theta : array of shape (p,)
        hessian : bool
            Whether the Hessian is wanted too.
        pending : bool
            Whether the change that was prepared counts already.
        """
        state = self._state
        change = state.pending
        expected = state.preview
        if pending and expected is None and change is not None and change.drawn is None:
            expected = change.wish
        if not pending or (expected is None and change is None):
            return site_sums(self.in_use, self.schema, theta, hessian=hessian)
        if expected is None:
            drawn = self._taking_part(change.drawn.records)  # type: ignore[union-attr]
            return site_sums(drawn, self.schema, theta, hessian=hessian)
        if expected.mode == "as_printed":
            if not state.allows_as_printed and expected != state.wish:
                raise SiteError(
                    self.number,
                    "has withdrawn its wish to send the message as printed. Nothing "
                    "of it leaves any more; ask it what it wishes now.",
                )
            before, source = Budget.uniform(self.schema.protected, math.inf), self._truth
        else:
            before, source = state.current.budget, state.current.records
        channels = channels_between(self.schema, before, expected.budget)
        taking_part = self._taking_part(source)
        return expected_sums(taking_part, self.schema, theta, channels, hessian=hessian)

    def difference(self, theta: FloatArray, *, hessian: bool = True) -> SiteSums:
        """Return by how much the prepared change moves the sums: the one message (P2 Eq. 14).

        Parameters
        ----------
        theta : array of shape (p,)
        hessian : bool
        """
        after = self.sums(theta, hessian=hessian, pending=True)
        return after - self.sums(theta, hessian=hessian)

    def local_steps(
        self, theta: FloatArray, *, steps: int, learning_rate: float, penalty: Penalty
    ) -> FloatArray:
        """Return the model after some gradient steps on the site's own randomised records (FedAvg).

        Parameters
        ----------
        theta : array of shape (p,)
        steps : int
        learning_rate : float
        penalty : Penalty
        """
        records, loss, n = self.in_use, self.schema.loss, self.n
        design = self.schema.design(records)
        statistic = loss.statistic(self.schema.labels(records))
        for _ in range(steps):
            slope = loss.mean(design.predict(theta)) - statistic
            theta = theta - learning_rate * (design.pull(slope) / n + penalty.gradient(theta))
        return theta

    # --- How it changes its mind ---

    def ask_for(
        self, epsilon: EpsilonLike, *, mode: Mode = "degrade", not_private: bool = False
    ) -> Wish:
        """Note that the site wants another ε; kept until it is applied.

        Parameters
        ----------
        epsilon : float, mapping or Budget
        mode : {"degrade", "redraw", "as_printed"}
        not_private : bool
            Let the published message leave for this one wish, without any limit: it is computed from the
            true answers. Only with `as_printed`; the next wish needs it again.

        Raises
        ------
        InputError
            If `degrade` is asked for a larger ε, or `as_printed` at a site that does not allow it.
        BudgetExceededError
            If the site's own limit would be exceeded.
        """
        as_choice(mode, get_args(Mode), name="mode")
        if not_private and mode != "as_printed":
            raise InputError(
                f"{setting('not_private')} belongs to the mode `as_printed`, got `{mode}`, "
                "which protects. Leave it out."
            )
        wish = Wish(as_budget(self.schema, epsilon), mode)
        self._check(wish, not_private=not_private)
        self._state = replace(self._state, wish=wish)
        return wish

    def _check(self, wish: Wish, *, not_private: bool = False) -> Mapping[str, float]:
        """Refuse what cannot be granted; return what would be spent."""
        state = self._state
        as_budget(self.schema, wish.budget)
        # Such a wish waits here only if the site's own people have said so, for this one.
        granted = wish.mode == "as_printed" and (not_private or wish == state.wish)
        if wish.mode == "as_printed" and not granted and not state.allows_as_printed:
            raise InputError(
                "`as_printed` sends a message that is computed from the true answers, "
                f"without any privacy, and site {self.number} does not allow it. Use "
                "`degrade`; to study the published method, let the site itself say so "
                f"({setting('not_private')})."
            )
        if wish.mode == "degrade" and not is_stricter(wish.budget, state.current.budget):
            raise SiteError(
                self.number,
                "can only become stricter by `degrade`: noise cannot be taken "
                "away. Ask for `redraw` to spend more.",
            )
        return affordable(
            state.spent,
            wish.mode,
            state.anchor.budget,
            wish.budget,
            number=self.number,
            limit=math.inf if granted else state.limit,
        )

    def prepare(self, wish: Wish, *, preview: bool = False) -> None:
        """Get ready to answer for a change, and write it into the ledger.

        A change draws the new records, once: prepared again for the same wish, the site answers from
        the same draw. Prepared for another wish, the draw is given up; what it spent stays spent, and
        the next draw from the true answers is made together with it. A preview draws nothing and takes
        the mean over the noise instead (math.md 6); a draw that waits is kept.

        Parameters
        ----------
        wish : Wish
        preview : bool

        Raises
        ------
        InputError
            If the wish cannot be granted as asked.
        BudgetExceededError
            If it would exceed the site's limit.
        """
        # What comes next is about this change, not about an offer.
        self._state = replace(self._state, submitted=False)
        if preview:
            self._prepare_preview(wish)
            return
        ready = self._state.pending
        if ready is not None and ready.wish == wish:
            self._state = replace(self._state, preview=None)
            return
        spent = self._check(wish)
        pending = Pending(wish, None) if wish.mode == "as_printed" else self._drawn(wish)
        self._state = replace(self._state, pending=pending, preview=None)
        self._write("change", wish.mode, wish.budget, spent)

    def _prepare_preview(self, wish: Wish) -> None:
        if self._state.preview == wish:
            return
        if wish.mode == "redraw":
            raise InputError(
                "a preview of `redraw` would be computed from the true answers. Preview `degrade`, "
                "whose result is distributed alike."
            )
        if self._state.insists_on_masks and wish != self._state.wish:
            # At a level of the coordinator's choice a preview is what the answers themselves add.
            raise SiteError(
                self.number,
                "insists on masks, and lets nobody see the preview of a change that it has "
                "not asked for. Ask at the site: `epsilens federate request`.",
            )
        asked = sum(line.operation == "preview" for line in self.ledger)
        if wish != self._state.wish and asked >= MOST_PREVIEWS:
            raise SiteError(
                self.number,
                f"has answered {asked} previews, and now answers those only that it has asked "
                "for itself: `epsilens federate request`.",
            )
        spent = self._check(wish)
        self._state = replace(self._state, preview=wish)
        self._write("preview", wish.mode, wish.budget, spent)

    def _drawn(self, wish: Wish) -> Pending:
        """Draw, and note in the same step what the next draw must be made together with."""
        state = self._state
        if wish.mode == "redraw":
            drawn = redrawn(state, self.schema, self._truth, wish.budget)
            self._state = replace(state, draws=state.draws + 1, anchor=drawn)
        else:
            drawn = degraded(state, self.schema, wish.budget)
            self._state = replace(state, draws=state.draws + 1)
        return Pending(wish, drawn)

    def settle(self, version: int, *, changed: bool = True) -> None:
        """Take note of a new version of the model; a site that changed takes its new draw into use.

        Told twice of the same version, nothing happens the second time.

        Parameters
        ----------
        version : int
        changed : bool
            Whether this site's prepared change is part of the version.
        """
        state = self._state
        if version == state.version:
            return
        if version < state.version:
            raise SiteError(
                self.number,
                f"has version {state.version} of the model already, and was sent "
                f"{version}. The coordinator works from an old copy of its store.",
            )
        change = state.pending
        if changed and state.submitted:
            state = replace(state, offered=0)
        elif changed:
            if change is None:
                raise SiteError(self.number, "has no change that waits to be settled.")
            if change.drawn is not None:
                state = replace(state, current=change.drawn)
            # What was asked for since then still waits.
            wish = None if state.wish == change.wish else state.wish
            state = replace(state, pending=None, wish=wish)
        self._state = replace(state, version=version, submitted=False)

    # --- What its records are worth to others ---

    def submit(self, theta: FloatArray) -> SiteSums:
        """Return the sums of the records on offer, which the coordinator wants to accept.

        They come into use with the next version that says so, see `settle`.

        Parameters
        ----------
        theta : array of shape (p,)

        Raises
        ------
        InputError
            If nothing is on offer, or so little that the coordinator could solve for it.
        """
        offered = self.offered
        if offered is None:
            raise SiteError(
                self.number, "has nothing on offer: all its records are in the model already."
            )
        sums = accepted_sums(offered, self.schema, theta)
        self._state = replace(self._state, submitted=True)
        return sums

    def note_value(self) -> None:
        """Write into the ledger that scores were computed from the draw in use: nothing more is spent."""
        self._write("value", None, self.budget, self._state.spent)

    def end_preview(self) -> None:
        """Forget what a preview asked; a draw that was made for a change is kept."""
        self._state = replace(self._state, preview=None)
