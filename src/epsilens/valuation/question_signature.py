# SPDX-License-Identifier: Apache-2.0
"""Who asks: a tester signs its question, so that whoever carries it can put no other in its place.

The signing key (Ed25519) is derived from the tester's secret key and has no file of its own. What people
compare, by telephone or on paper, is a fingerprint of its public half: twenty hexadecimal digits.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING

from epsilens._validate import require_extra
from epsilens.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "check_signature",
    "fingerprint_of",
    "public_half",
    "read_fingerprint",
    "signing_key",
    "together",
]

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
