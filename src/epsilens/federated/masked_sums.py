# SPDX-License-Identifier: Apache-2.0
"""Sums over all sites of which the coordinator sees no single part.

A group of sites exchanges keys once, through the coordinator; from then on each answer is one message
under masks. The group is asked as a whole or not at all: if a site does not answer, the masks of the
others stay, and nothing can be read. That is what is wanted here, since a model without one of its sites
would be another model. A site gives one answer to a question and none to a second of the same number.

Assumptions: the coordinator relays the keys and asks as agreed; it is curious, but does not put keys of its
own in the place of a site's, and does not ask for one group and then for the same group without a site,
but when a site leaves. Numbers of records travel in clear.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from epsilens._types import FloatArray, WordArray
from epsilens._validate import as_choice
from epsilens.errors import EstimateNotTrustworthyError, InputError, SiteError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.fixed_point import FixedPoint, flatten, sum_bounds, unflatten
from epsilens.federated.pairwise_masks import add_masks, new_private_key, public_key, shared_secret
from epsilens.federated.site import Site
from epsilens.federated.sums import SiteSums

if TYPE_CHECKING:
    from epsilens.federated.parties import Parties

What: TypeAlias = Literal["trial", "sums", "difference"]

FEWEST_SITES = 2
LARGEST_TRIAL_ERROR = 1e-6
"""Relative: of the known numbers that every group adds up before anything else."""


@dataclass(frozen=True)
class MaskedQuestion:
    """What all sites of a group are asked, the same for everyone.

    Parameters
    ----------
    number : int
        Number of the question within its group: 0, 1, 2, ...
    what : {"trial", "sums", "difference"}
        Known numbers; the sums at a model; by how much prepared changes move them.
    theta : array of shape (p,)
    hessian : bool
    pending : tuple of int
        The sites whose prepared change counts.
    records : mapping of site to int
        Who is in the group, and with how many records: known to all.
    """

    number: int
    what: What
    theta: FloatArray = field(repr=False)
    hessian: bool
    pending: tuple[int, ...]
    records: Mapping[int, int]

    def __post_init__(self) -> None:
        as_choice(self.what, get_args(What), name="what")

    def label(self, schema: FederationSchema) -> bytes:
        """Return a hash of all that is asked: sites that were asked differently share no masks."""
        said = [self.number, self.what, self.hessian, sorted(self.pending)]
        text = json.dumps([*said, sorted(self.records.items()), schema.fingerprint])
        numbers = np.ascontiguousarray(self.theta, dtype="<f8").tobytes()
        return hashlib.sha256(text.encode() + numbers).digest()

    def form(self, schema: FederationSchema) -> FixedPoint:
        """Return the whole numbers that the answers are written in."""
        bounds = sum_bounds(schema, self.theta, hessian=self.hessian)
        # A difference is between two sums.
        factor = 2.0 if self.what == "difference" else 1.0
        return FixedPoint(factor * bounds, sum(self.records.values()))


@dataclass(frozen=True, repr=False)  # printed, keys would leave the site
class Masking:
    """A site's part in a group: its private key, and what it shares with each other site.

    Parameters
    ----------
    private : bytes
    shared : mapping of site to bytes
        Empty until the others are known.
    next_number : int
        Number of the next question.

    Examples
    --------
    >>> len(Masking.begin().public)
    32
    """

    private: bytes
    shared: Mapping[int, bytes] = field(default_factory=dict)
    next_number: int = 0

    @classmethod
    def begin(cls) -> Masking:
        """Return a new part with a fresh key."""
        return cls(new_private_key())

    @property
    def public(self) -> bytes:
        """The key that the others get."""
        return public_key(self.private)

    def meet(self, number: int, keys: Mapping[int, bytes]) -> Masking:
        """Return the part of a site that knows the others' keys.

        Parameters
        ----------
        number : int
            Number of the site itself.
        keys : mapping of site to bytes
            Public keys of all sites of the group.

        Raises
        ------
        InputError
            If the group is too small, has met already, or the site's own key came back changed.
        """
        if self.shared:
            raise InputError("this group of sites has met already. Begin a new one.")
        if len(keys) < FEWEST_SITES or len(set(keys.values())) < len(keys):
            raise InputError(
                f"at least {FEWEST_SITES} sites, each with its own key, must add up together, got "
                f"{len(set(keys.values()))}."
            )
        if keys.get(number) != self.public:
            raise SiteError(
                number, "is in this group under another key than its own. Nothing was sent."
            )
        shared = {i: shared_secret(self.private, key) for i, key in keys.items() if i != number}
        return replace(self, shared=shared)

    def answer(self, site: Site, question: MaskedQuestion) -> tuple[WordArray, Masking]:
        """Return a site's numbers under masks, and its part after that.

        Parameters
        ----------
        site : Site
        question : MaskedQuestion

        Raises
        ------
        InputError
            If the question came before, is for another group, or a number is outside its bound.
        """
        if set(question.records) != {*self.shared, site.number} or not self.shared:
            raise SiteError(
                site.number,
                "answers under masks only together with the whole group that "
                "exchanged keys. Begin a new group.",
            )
        if question.number < self.next_number:
            raise SiteError(
                site.number,
                f"has answered question {question.number} of this group already; "
                "a second answer under the same masks could be read. Begin a new group.",
            )
        if question.records[site.number] != site.n:
            raise SiteError(
                site.number,
                f"takes part with {site.n} records, and the question says otherwise. "
                "Ask the sites anew.",
            )
        schema, form = site.schema, question.form(site.schema)
        if question.what == "trial":
            values = trial_values(site.number, form, site.n)
        elif question.what == "sums":
            pending = site.number in question.pending
            values = flatten(site.sums(question.theta, hessian=question.hessian, pending=pending))
        elif site.number in question.pending:
            values = flatten(site.difference(question.theta, hessian=question.hessian))
        else:
            # Who does not change adds nothing, under masks like all others.
            values = np.zeros(len(form.bounds))
        encoded = form.encode(values, n_records=site.n)
        hidden = add_masks(encoded, site.number, self.shared, question.label(schema))
        return hidden, replace(self, next_number=question.number + 1)


def trial_values(number: int, form: FixedPoint, n_records: int) -> FloatArray:
    """Return numbers that everybody knows, of all sizes that a site's sums can have."""
    rng = np.random.default_rng(number)
    shares = rng.choice([-1.0, 1.0], len(form.bounds)) * 10.0 ** rng.uniform(
        -4, 0, len(form.bounds)
    )
    values: FloatArray = shares * form.bounds * n_records
    return values


@dataclass
class MaskedGroup:
    """Sites that have exchanged keys, as the coordinator knows them."""

    name: str
    records: Mapping[int, int]
    asked: int = 0


class SecureSums:
    """The coordinator's side: opens groups of sites, asks them, and adds up.

    Parameters
    ----------
    line : Parties
    schema : FederationSchema

    Examples
    --------
    See `epsilens.federated.MaskedLocalParties`.
    """

    def __init__(self, line: Parties, schema: FederationSchema) -> None:
        self._line, self._schema = line, schema
        self._groups: dict[tuple[int, ...], MaskedGroup] = {}

    def ask(
        self,
        what: What,
        theta: FloatArray,
        records: Mapping[int, int],
        *,
        hessian: bool = True,
        pending: Sequence[int] = (),
    ) -> SiteSums:
        """Return a sum over sites.

        Parameters
        ----------
        what : {"sums", "difference"}
        theta : array of shape (p,)
        records : mapping of site to int
            Who is asked, and how many records each has.
        hessian : bool
        pending : sequence of int
            The sites whose prepared change counts.

        Raises
        ------
        InputError
            If a site does not answer or refuses: then nothing can be read.
        EstimateNotTrustworthyError
            If known numbers, which a new group adds up first, come back wrong.
        """
        group = self._group(dict(records))
        question = self._question(group, what, theta, hessian, pending)
        total = self._total(group, question, None)
        return unflatten(
            total, sum(records.values()), n_parameters=self._schema.n_parameters, hessian=hessian
        )

    def _group(self, records: dict[int, int]) -> MaskedGroup:
        members = tuple(sorted(records))
        if len(members) < FEWEST_SITES:
            raise InputError(
                f"secure aggregation needs at least {FEWEST_SITES} sites, got {len(members)}: the sum of "
                "one is its own."
            )
        known = self._groups.get(members)
        if known is None or known.records != records:
            known = MaskedGroup(secrets.token_hex(8), records)
            self._try(known)
            self._groups[members] = known
        return known

    def _try(self, group: MaskedGroup) -> None:
        """Exchange keys, and add up known numbers before anybody's own."""
        keys = self._line.keys(group.name, tuple(group.records))
        theta = np.zeros(self._schema.n_parameters)
        question = self._question(group, "trial", theta, True, ())
        total = self._total(group, question, keys)
        form = question.form(self._schema)
        parts = [trial_values(i, form, n) for i, n in group.records.items()]
        size = np.sum(np.abs(parts), axis=0)
        if not (np.abs(total - np.sum(parts, axis=0)) <= LARGEST_TRIAL_ERROR * size).all():
            raise EstimateNotTrustworthyError(
                "known numbers, added up under masks, came back wrong: some site's masks do not fit the "
                "others'. Nothing of anybody's was sent. Check the versions, and try again."
            )

    def _question(
        self,
        group: MaskedGroup,
        what: What,
        theta: FloatArray,
        hessian: bool,
        pending: Sequence[int],
    ) -> MaskedQuestion:
        question = MaskedQuestion(
            group.asked, what, theta, hessian, tuple(sorted(pending)), group.records
        )
        # Counted before it is sent: a question that got lost is not asked under the same number again.
        group.asked += 1
        return question

    def _total(
        self, group: MaskedGroup, question: MaskedQuestion, keys: Mapping[int, bytes] | None
    ) -> FloatArray:
        form = question.form(self._schema)
        answers = self._line.answers(group.name, question, keys=keys)
        total = np.zeros(len(form.bounds), dtype=np.uint64)
        for i in group.records:
            if answers[i].shape != total.shape or answers[i].dtype != np.uint64:
                raise InputError(f"site {i} must send {len(total)} masked numbers, got others.")
            total += answers[i]
            if keys is None:
                self._line.traffic.count(question.theta)
                self._line.traffic.count(answers[i])
        found = form.decode(total)
        # Masks that do not cancel leave random numbers, mostly far beyond any sum.
        if not (np.abs(found) <= 1.01 * form.n_records * form.bounds).all():
            raise InputError(
                "the sum over the sites is beyond what the contract allows: some site answered another "
                "question, or sent something else. Nothing was changed; ask again."
            )
        return found
