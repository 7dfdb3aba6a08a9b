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
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from epsilens._types import FloatArray, WordArray
from epsilens._validate import as_choice, require_extra
from epsilens.errors import EstimateNotTrustworthyError, InputError, SiteError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.site import Site
from epsilens.federated.sums import SiteSums, upper_half, whole_of

if TYPE_CHECKING:
    from epsilens.federated.parties import Parties

# --- Sums as whole numbers, so that masks of whole numbers can hide them without any loss ---

BITS = 61
"""The largest sum has so many, of 64: one is the sign, and two are room for rounding."""
LARGEST_CURVATURE = 0.25
"""Largest curvature of a logistic or softmax loss: p(1 − p), and p_k p_l outside the diagonal."""
_SLACK = 1e-9
"""A sum may pass its bound by its own rounding."""


def feature_bounds(schema: FederationSchema) -> FloatArray:
    """Return the largest absolute value of each column of the design that the contract allows.

    Parameters
    ----------
    schema : FederationSchema

    Returns
    -------
    array of shape (d,)

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> feature_bounds(FederationSchema(
    ...     (DeclaredColumn("sex", ("f", "m")), DeclaredColumn("age", encoding="number", limit=8.0),
    ...      DeclaredColumn("class", ("low", "mid", "high"), "code", centre=1.0, scale=0.5)),
    ...     DeclaredColumn("smokes", ("no", "yes")), ("smokes",))).tolist()
    [1.0, 8.0, 2.0, 1.0]
    """
    bounds = [np.full(column.width, column.largest_feature) for column in schema.columns]
    if schema.intercept:
        bounds.append(np.ones(1))
    return np.concatenate(bounds)


def sum_bounds(schema: FederationSchema, theta: FloatArray, *, hessian: bool) -> FloatArray:
    """Return how much one record can add to each of a site's sums: loss, gradient, half the Hessian.

    Parameters
    ----------
    schema : FederationSchema
    theta : array of shape (p,)
    hessian : bool

    Returns
    -------
    array of shape (1 + p,) or (1 + p + p(p + 1)/2,)

    Notes
    -----
    |ℓ| ≤ log K + 2 Σ_j b_j max_k |θ_kj|, |∂ℓ/∂θ_kj| ≤ b_j and |∂²ℓ/∂θ_ki ∂θ_lj| ≤ ¼ b_i b_j, with b_j the
    bound of feature j.
    """
    own, n_outputs = feature_bounds(schema), schema.loss.n_outputs
    steepest = np.abs(theta.reshape(n_outputs, len(own))).max(axis=0)
    loss = np.log(max(n_outputs, 2)) + 2.0 * float(own @ steepest)
    gradient = np.tile(own, n_outputs)
    parts = [np.array([loss]), gradient]
    if hessian:
        parts.append(LARGEST_CURVATURE * upper_half(np.outer(gradient, gradient)))
    return np.concatenate(parts)


def flatten(sums: SiteSums) -> FloatArray:
    """Return loss, gradient and the upper half of the Hessian in one row.

    Examples
    --------
    >>> flatten(SiteSums(2, 1.0, np.array([2.0, 3.0]), np.array([[4.0, 5.0], [5.0, 6.0]]))).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    parts = [np.array([sums.loss]), sums.gradient]
    if sums.hessian is not None:
        parts.append(upper_half(sums.hessian))
    return np.concatenate(parts)


def unflatten(row: FloatArray, n: int, *, n_parameters: int, hessian: bool) -> SiteSums:
    """Return the sums that `flatten` wrote in one row.

    Examples
    --------
    >>> unflatten(np.arange(1.0, 7.0), 2, n_parameters=2, hessian=True).hessian.tolist()
    [[4.0, 5.0], [5.0, 6.0]]
    """
    gradient = row[1 : 1 + n_parameters].copy()
    if not hessian:
        return SiteSums(n, float(row[0]), gradient, None)
    whole = whole_of(row[1 + n_parameters :], n_parameters)
    return SiteSums(n, float(row[0]), gradient, whole)


@dataclass(frozen=True)
class FixedPoint:
    """Numbers within known bounds as whole numbers modulo 2⁶⁴.

    Parameters
    ----------
    bounds : array of shape (m,)
        How much one record can add to each number.
    n_records : int
        Over which the sums run in the end, all sites together.

    Examples
    --------
    >>> form = FixedPoint(np.array([0.25, 1000.0]), n_records=500)
    >>> parts = [np.array([10.0, -3e4]), np.array([-2.5, 7.0])]
    >>> total = form.encode(parts[0], n_records=200) + form.encode(parts[1], n_records=300)
    >>> form.decode(total).tolist()
    [7.5, -29993.0]
    """

    bounds: FloatArray
    n_records: int

    @property
    def unit(self) -> FloatArray:
        """The smallest step of each number."""
        step: FloatArray = self.bounds * (self.n_records / 2.0**BITS)
        return step

    def encode(self, values: FloatArray, *, n_records: int) -> WordArray:
        """Write a site's sums as whole numbers.

        Parameters
        ----------
        values : array of shape (m,)
        n_records : int
            Number of records of this site.

        Raises
        ------
        InputError
            If a value is outside its bound: it would have to be cut off.
        """
        most = self.bounds * (n_records * (1.0 + _SLACK))
        outside = int(np.count_nonzero(~(np.abs(values) <= most)))
        if outside:
            raise InputError(
                f"{outside} of {len(values)} sums are outside the bounds that the contract gives, so they "
                "cannot be masked. Declare a larger `limit` for the numbers in the contract, or leave "
                "out the records that are far off."
            )
        whole = np.rint(values / self.unit).astype(np.int64)
        return whole.view(np.uint64)

    def decode(self, total: WordArray) -> FloatArray:
        """Read a sum of encoded numbers."""
        values: FloatArray = total.view(np.int64).astype(np.float64) * self.unit
        return values


# --- Masks that two sites agree on without anybody else, and that vanish in the sum over all sites ---

_PURPOSE = b"epsilens secure aggregation 1"


def _primitives() -> SimpleNamespace:
    require_extra("federated", "secure aggregation", "cryptography")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import x25519
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return SimpleNamespace(
        hashes=hashes, x25519=x25519, Cipher=Cipher, ChaCha20=algorithms.ChaCha20, HKDF=HKDF
    )


def new_private_key() -> bytes:
    """Draw a private key (X25519) from the operating system's randomness.

    Examples
    --------
    >>> len(new_private_key())
    32
    """
    drawn: bytes = _primitives().x25519.X25519PrivateKey.generate().private_bytes_raw()
    return drawn


def public_key(private: bytes) -> bytes:
    """Return what others may know of a private key."""
    key = _primitives().x25519.X25519PrivateKey.from_private_bytes(private)
    found: bytes = key.public_key().public_bytes_raw()
    return found


def shared_secret(private: bytes, public: bytes) -> bytes:
    """Return the secret that the holder of a private key shares with the one of a public key.

    Examples
    --------
    >>> a, b = new_private_key(), new_private_key()
    >>> shared_secret(a, public_key(b)) == shared_secret(b, public_key(a))
    True
    """
    crypto = _primitives()
    own = crypto.x25519.X25519PrivateKey.from_private_bytes(private)
    try:
        point = own.exchange(crypto.x25519.X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise InputError("a site's key for the masks is no key. Nothing was sent.") from None
    both = b"".join(sorted((public_key(private), public)))
    derive = crypto.HKDF(crypto.hashes.SHA256(), 32, salt=None, info=_PURPOSE + both)
    secret: bytes = derive.derive(point)
    return secret


def add_masks(
    values: WordArray, number: int, secrets: Mapping[int, bytes], label: bytes
) -> WordArray:
    """Return numbers under the masks that a site shares with all others.

    Parameters
    ----------
    values : array of uint64, shape (m,)
    number : int
        Number of the site itself.
    secrets : mapping of site to bytes
        What it shares with each of the others.
    label : bytes
        Label of the question that is answered; never the same for two different answers.

    Returns
    -------
    array of uint64, shape (m,)
        Uniformly random to anybody without the secrets; added up over all sites, modulo 2⁶⁴, the masks
        are gone.

    Examples
    --------
    >>> keys = {i: new_private_key() for i in range(3)}
    >>> def masked(i):
    ...     others = {j: shared_secret(keys[i], public_key(keys[j])) for j in keys if j != i}
    ...     return add_masks(np.array([10 + i], dtype=np.uint64), i, others, b"first")
    >>> int(masked(0)[0]) == 10, (masked(0) + masked(1) + masked(2)).tolist()
    (False, [33])
    """
    hidden = values.copy()
    for other, secret in secrets.items():
        mask = _mask(secret, label, len(values))
        hidden = hidden + mask if number < other else hidden - mask
    return hidden


def _mask(secret: bytes, label: bytes, size: int) -> WordArray:
    """Return so many random whole numbers, the same for all who know secret and label."""
    crypto = _primitives()
    key = hmac.new(secret, label, hashlib.sha256).digest()
    # A key is used for one stream only, so its nonce may be fixed.
    stream = crypto.Cipher(crypto.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


# --- Sums over all sites of which the coordinator sees no single part ---

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
        _, total = self._total(group, what, theta, hessian=hessian, pending=pending)
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
        form, total = self._total(group, "trial", theta, keys=keys)
        parts = [trial_values(i, form, n) for i, n in group.records.items()]
        size = np.sum(np.abs(parts), axis=0)
        if not (np.abs(total - np.sum(parts, axis=0)) <= LARGEST_TRIAL_ERROR * size).all():
            raise EstimateNotTrustworthyError(
                "known numbers, added up under masks, came back wrong: some site's masks do not fit the "
                "others'. Nothing of anybody's was sent. Check the versions, and try again."
            )

    def _total(
        self,
        group: MaskedGroup,
        what: What,
        theta: FloatArray,
        *,
        hessian: bool = True,
        pending: Sequence[int] = (),
        keys: Mapping[int, bytes] | None = None,
    ) -> tuple[FixedPoint, FloatArray]:
        """Ask a group, and return the whole numbers that it answered in, and the sum of its answers."""
        question = MaskedQuestion(
            group.asked, what, theta, hessian, tuple(sorted(pending)), group.records
        )
        # Counted before it is sent: a question that got lost is not asked under the same number again.
        group.asked += 1
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
        return form, found
