# SPDX-License-Identifier: Apache-2.0
"""Masks that two sites agree on without anybody else, and that vanish in the sum over all sites.

The masking of secure aggregation (Bonawitz et al. 2017, protocol 0; SecAgg+ of Bell et al. 2020 without
its recovery of sites that drop out): every two sites share a secret, one adds a mask that follows from it
and the other subtracts the same. Whoever sees the masked numbers sees random ones; their sum is right.
Key agreement, key derivation and the stream of the masks come from `cryptography`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np

from epsilens._types import WordArray
from epsilens._validate import require_extra
from epsilens.errors import InputError

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
