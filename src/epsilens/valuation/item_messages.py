# SPDX-License-Identifier: Apache-2.0
"""What travels when items are scored under encryption: the tester's question and the provider's reply."""

from __future__ import annotations

from dataclasses import dataclass, field

from epsilens._validate import as_count
from epsilens.errors import InputError
from epsilens.valuation.question_signature import fingerprint_of

__all__ = ["MOST_ITEMS", "MOST_PARAMETERS", "MOST_ROWS", "EncryptedScores", "EncryptedYardstick"]

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
        By whom it was written, and the proof that nobody has changed it since.
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
        """Of whoever signed it: what tester and provider compare by another way."""
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
        Of the question.
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
            raise InputError(f"`n_items` must be at most {MOST_ITEMS:,}, got {self.n_items:,}.")

    @property
    def n_bytes(self) -> int:
        """Bytes of the ciphertexts."""
        return sum(map(len, self.ciphertexts))
