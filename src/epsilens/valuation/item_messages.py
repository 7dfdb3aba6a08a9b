# SPDX-License-Identifier: Apache-2.0
"""What travels when items are scored under encryption: the tester's question and the provider's reply."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epsilens._validate import as_count, require_extra
from epsilens.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# --- Who asks: a tester signs its question, so that whoever carries it can put no other in its place ---

_PURPOSE = b"epsilens valuation: signs questions"
_GROUPS, _DIGITS = 5, 4


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """Return the key with which the owner of a secret signs.

    Parameters
    ----------
    secret : bytes
        A hash of the tester's secret key.

    Raises
    ------
    MissingExtraError
        If cryptography is not installed.
    """
    require_extra("secure", "signing questions", "cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(hmac.digest(secret, _PURPOSE, "sha256"))


def public_half(key: Ed25519PrivateKey) -> bytes:
    """Return what others check signatures with: 32 bytes."""
    return key.public_key().public_bytes_raw()


def fingerprint_of(public: bytes) -> str:
    """Return what two people compare.

    Examples
    --------
    >>> fingerprint_of(bytes(32))
    '6668-7aad-f862-bd77-6c8f'
    """
    digits = hashlib.sha256(public).hexdigest()
    return "-".join(digits[_DIGITS * i : _DIGITS * (i + 1)] for i in range(_GROUPS))


def read_fingerprint(text: str) -> str:
    """Return a fingerprint as `fingerprint_of` writes it, from what somebody has typed.

    Examples
    --------
    >>> read_fingerprint("66687AAD f862bd77 6c8f")
    '6668-7aad-f862-bd77-6c8f'
    """
    digits = "".join(c for c in text.lower() if c not in "- :")
    if len(digits) != _GROUPS * _DIGITS or not set(digits) <= set("0123456789abcdef"):
        raise InputError(
            f"a tester's fingerprint must be {_GROUPS * _DIGITS} hexadecimal digits, got {len(digits)} "
            "characters or other ones. The tester's `epsilens federate site` shows it."
        )
    return "-".join(digits[_DIGITS * i : _DIGITS * (i + 1)] for i in range(_GROUPS))


def check_signature(public: bytes, signature: bytes, parts: Iterable[bytes]) -> None:
    """Refuse a question that is not as its signer has written it.

    Parameters
    ----------
    public : bytes
        The signer's, 32 bytes.
    signature : bytes
    parts : iterable of bytes
        What was signed.

    Raises
    ------
    MissingExtraError
        If cryptography is not installed.
    InputError
        If the signature is another's, or of something else.
    """
    require_extra("secure", "checking who has asked", "cryptography")
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, together(parts))
    except (InvalidSignature, ValueError):
        raise InputError(
            "the question must be as its tester has signed it, but was changed on its way. Refused."
        ) from None


def together(parts: Iterable[bytes]) -> bytes:
    """Return a hash of several parts, each with its length: no two questions have the same."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()


# --- What travels when items are scored under encryption: the tester's question and the provider's reply ---

MOST_ROWS = 128
"""Items in a ciphertext: 128 cost a second or so and 131 kB, whatever the length of the model."""
MOST_ITEMS = 100_000
MOST_PARAMETERS = 2_000


@dataclass(frozen=True)
class EncryptedYardstick:
    """The tester's question: tester to coordinator to provider. No secret key, nothing in clear.

    Attributes
    ----------
    model : str
        Which version of the model it belongs to.
    key : str
        Which key and which test records.
    n_parameters : int
    items_per_ciphertext : int
        How many scores come back in a ciphertext: a power of two.
    public_key, rotation_keys : bytes
    pieces : tuple of bytes
        Ciphertexts of (g, vech H), one for every 4,096 numbers.
    signer, signature : bytes
        Signer's public key, and the signature that shows that nobody has changed the message since.
    """

    model: str
    key: str
    n_parameters: int
    items_per_ciphertext: int
    public_key: bytes = field(repr=False)
    rotation_keys: bytes = field(repr=False)
    pieces: tuple[bytes, ...] = field(repr=False)
    signer: bytes = field(default=b"", repr=False)
    signature: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", tuple(self.pieces))
        as_count(self.n_parameters, name="n_parameters")
        rows = as_count(self.items_per_ciphertext, name="items_per_ciphertext")
        if self.n_parameters > MOST_PARAMETERS or rows > MOST_ROWS or rows & (rows - 1):
            raise InputError(
                f"a question must be for at most {MOST_PARAMETERS:,} numbers and {MOST_ROWS} items in a "
                f"ciphertext, a power of two, got {self.n_parameters:,} and {rows}."
            )

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the signer's key, which tester and provider compare over another channel."""
        return fingerprint_of(self.signer)

    def signed_parts(self) -> tuple[bytes, ...]:
        """Return everything that the signature is about."""
        head = f"{self.model} {self.key} {self.n_parameters} {self.items_per_ciphertext}"
        return head.encode(), self.public_key, self.rotation_keys, *self.pieces

    @property
    def n_bytes(self) -> int:
        """Bytes of keys and ciphertexts."""
        return len(self.public_key) + len(self.rotation_keys) + sum(map(len, self.pieces))


@dataclass(frozen=True)
class EncryptedScores:
    """The provider's reply: provider to coordinator to tester.

    Attributes
    ----------
    model, key : str
        Model and key of the question.
    n_items : int
    ciphertexts : tuple of bytes
    """

    model: str
    key: str
    n_items: int
    ciphertexts: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ciphertexts", tuple(self.ciphertexts))
        if as_count(self.n_items, name="n_items") > MOST_ITEMS:
            raise InputError(
                argument="n_items", expected=f"at most {MOST_ITEMS:,}", got=f"{self.n_items:,}"
            )

    @property
    def n_bytes(self) -> int:
        """Bytes of the ciphertexts."""
        return sum(map(len, self.ciphertexts))
