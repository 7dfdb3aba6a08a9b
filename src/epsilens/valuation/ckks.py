# SPDX-License-Identifier: Apache-2.0
"""Numbers under encryption: TenSEAL's CKKS, with the parameters that were found to be accurate.

CKKS encrypts thousands of numbers in one ciphertext, on which anybody can add and multiply without a
key. Results are approximate, and parameters that are too small give wrong ones *without an error*; hence
the self-test in `epsilens.valuation.item_exchange`. Everything goes through TenSEAL's own binding of SEAL
(`tenseal.sealapi`): its vectors would keep partial sums in slots that a curious reader decrypts too.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._scratch import scratch_folder
from epsilens._types import FloatArray
from epsilens._validate import require_extra
from epsilens.data.private_files import make_private_file
from epsilens.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType

    from tenseal import sealapi

ComplexArray = NDArray[np.complex128]

_HEADER_BYTES = 2**16
"""More than SEAL writes beside the numbers themselves."""


@dataclass(frozen=True)
class CkksParameters:
    """Size of a ciphertext and its moduli.

    Attributes
    ----------
    degree : int
        N; a ciphertext has N/2 slots.
    modulus_bits : tuple of int
        Bits of the primes: what is left after a product, what a product uses up, and the key's own. At
        N = 8192 they may have 218 bits together for 128-bit security; all are used, for with the usual
        (60, 40, 60) small scores come back with three digits.
    scale_bits : int
        Digits behind the point of what is multiplied by, in bits.
    vector_scale_bits : int
        The same of what is encrypted, and of results. Five bits more: rotating a ciphertext costs
        accuracy in proportion, and the first primes have room.

    Examples
    --------
    >>> CkksParameters().n_slots
    4096
    """

    degree: int = 8192
    modulus_bits: tuple[int, ...] = (60, 49, 49, 60)
    scale_bits: int = 49
    vector_scale_bits: int = 54

    @property
    def n_slots(self) -> int:
        """Numbers in a ciphertext."""
        return self.degree // 2

    @property
    def scale(self) -> float:
        """What factors in clear are multiplied by before they are rounded."""
        return 2.0**self.scale_bits

    @property
    def vector_scale(self) -> float:
        """What encrypted numbers are multiplied by before they are rounded."""
        return 2.0**self.vector_scale_bits

    @property
    def largest_public_key(self) -> int:
        """Bytes of a public key, and of a ciphertext, at most."""
        return 2 * 8 * self.degree * len(self.modulus_bits) + _HEADER_BYTES

    def largest_rotation_keys(self, n_rotations: int) -> int:
        """Bytes of so many rotation keys, at most."""
        return n_rotations * (len(self.modulus_bits) - 1) * self.largest_public_key


def seal() -> ModuleType:
    """Return TenSEAL's binding of SEAL.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    require_extra("secure", "computing on encrypted numbers", "tenseal")
    from tenseal import sealapi

    module: ModuleType = sealapi
    return module


class Ckks:
    """A context in which numbers are encoded, encrypted, computed with and written down.

    Parameters
    ----------
    parameters : CkksParameters

    Examples
    --------
    >>> context = Ckks(CkksParameters())
    >>> secret = context.new_secret_key()
    >>> cipher = context.encrypt_with_secret_key(np.full(4096, 0.25), secret)
    >>> context.decrypt(context.load_ciphertext(cipher, what="a test"), secret).real.round(6)[:2]
    array([0.25, 0.25])
    """

    def __init__(self, parameters: CkksParameters) -> None:
        self.parameters = parameters
        self._seal = seal()
        settings = self._seal.EncryptionParameters(self._seal.SCHEME_TYPE.CKKS)
        settings.set_poly_modulus_degree(parameters.degree)
        bits = list(parameters.modulus_bits)
        settings.set_coeff_modulus(self._seal.CoeffModulus.Create(parameters.degree, bits))
        self.context = self._seal.SEALContext(settings, True, self._seal.SEC_LEVEL_TYPE.TC128)
        if not self.context.parameters_set():
            raise InputError(
                "the parameters of the encryption must give 128-bit security, but do not: "
                f"{self.context.parameters_error_message()}."
            )
        self.encoder = self._seal.CKKSEncoder(self.context)
        self.evaluator = self._seal.Evaluator(self.context)

    # --- Keys ---

    def new_secret_key(self) -> sealapi.SecretKey:
        """Draw a secret key, from the operating system's randomness."""
        return self._seal.KeyGenerator(self.context).secret_key()

    def public_key(self, secret: sealapi.SecretKey) -> bytes:
        """Return a public key that belongs to a secret one."""
        key = self._seal.PublicKey()
        self._seal.KeyGenerator(self.context, secret).create_public_key(key)
        return self.to_bytes(key)

    def rotation_keys(self, secret: sealapi.SecretKey, steps: tuple[int, ...]) -> bytes:
        """Return keys with which the slots of a ciphertext can be rotated by some steps."""
        maker = self._seal.KeyGenerator(self.context, secret)
        return self.to_bytes(maker.create_galois_keys([self._element(k) for k in steps]))

    def _element(self, step: int) -> int:
        """Return the power of 3 by which SEAL knows a rotation to the left."""
        return pow(3, step, 2 * self.parameters.degree)

    # --- Numbers ---

    def encode(self, values: FloatArray, scale: float | None = None) -> sealapi.Plaintext:
        """Return numbers, one a slot, ready for a product."""
        plain = self._seal.Plaintext()
        self.encoder.encode(values.tolist(), scale or self.parameters.scale, plain)
        return plain

    def encode_like(
        self, values: FloatArray | ComplexArray, cipher: sealapi.Ciphertext
    ) -> sealapi.Plaintext:
        """Return numbers with the scale and the modulus of a ciphertext, ready to be added to it."""
        plain = self._seal.Plaintext()
        self.encoder.encode(values.tolist(), cipher.parms_id(), cipher.scale, plain)
        return plain

    def encrypt_with_secret_key(self, values: FloatArray, secret: sealapi.SecretKey) -> bytes:
        """Encrypt numbers; half as long as with the public key, since one half is a seed."""
        encryptor = self._seal.Encryptor(self.context, secret)
        plain = self.encode(values, self.parameters.vector_scale)
        return self.to_bytes(encryptor.encrypt_symmetric(plain))

    def encrypt_like(
        self,
        values: ComplexArray,
        cipher: sealapi.Ciphertext,
        public: sealapi.PublicKey,
    ) -> sealapi.Ciphertext:
        """Encrypt numbers afresh with the public key, ready to be added to a ciphertext."""
        fresh = self._seal.Ciphertext(self.context)
        self._seal.Encryptor(self.context, public).encrypt(self.encode_like(values, cipher), fresh)
        return fresh

    def decrypt(self, cipher: sealapi.Ciphertext, secret: sealapi.SecretKey) -> ComplexArray:
        """Return all that stands in the slots."""
        plain = self._seal.Plaintext()
        self._seal.Decryptor(self.context, secret).decrypt(cipher, plain)
        return np.array(self.encoder.decode_complex(plain), dtype=np.complex128)

    def new_ciphertext(self) -> sealapi.Ciphertext:
        """Return an empty ciphertext, for a result."""
        return self._seal.Ciphertext(self.context)

    # --- As bytes ---

    def to_bytes(self, thing: object) -> bytes:
        """Return what SEAL writes of a key or a ciphertext; never called with a secret key."""
        with scratch_folder() as folder:
            file = folder / "it"
            thing.save(str(file))  # type: ignore[attr-defined]
            return file.read_bytes()

    def load_public_key(self, data: bytes) -> sealapi.PublicKey:
        """Read a public key."""
        most = self.parameters.largest_public_key
        return self._load(self._seal.PublicKey(), data, what="the public key", most=most)

    def load_rotation_keys(self, data: bytes, steps: tuple[int, ...]) -> sealapi.GaloisKeys:
        """Read rotation keys, and see that none is missing."""
        most = self.parameters.largest_rotation_keys(len(steps))
        keys = self._load(self._seal.GaloisKeys(), data, what="the rotation keys", most=most)
        if not all(keys.has_key(self._element(step)) for step in steps):
            raise InputError(
                "the rotation keys must be for all agreed rotations, but some are missing."
            )
        return keys

    def load_ciphertext(self, data: bytes, *, what: str) -> sealapi.Ciphertext:
        """Read a ciphertext of two parts under these parameters."""
        most = self.parameters.largest_public_key
        cipher = self._load(self.new_ciphertext(), data, what=what, most=most)
        if cipher.size() != 2 or cipher.is_transparent():
            raise InputError(f"{what} must be an encryption in two parts, got something else.")
        return cipher

    def _load(self, empty: object, data: bytes, *, what: str, most: int) -> sealapi.Ciphertext:
        if not isinstance(data, bytes) or not 0 < len(data) <= most:
            size = f"{len(data):,} bytes" if isinstance(data, bytes) else type(data).__name__
            raise InputError(
                f"{what} must be at most {most:,} bytes, got {size}. Ask for it again."
            )
        with scratch_folder() as folder:
            file = folder / "it"
            file.write_bytes(data)
            return self._read(empty, file, what=what)

    def _read(self, empty: object, file: Path, *, what: str) -> sealapi.Ciphertext:
        try:
            empty.load(self.context, str(file))  # type: ignore[attr-defined]
        except (RuntimeError, ValueError, IndexError):
            # What SEAL says of it is about its own insides.
            raise InputError(
                f"{what} must be readable under the agreed parameters, but is not: damaged, or of "
                "another version. Ask for it again."
            ) from None
        return empty

    # --- The secret key's file ---

    def write_secret_key(self, file: Path) -> None:
        """Draw a secret key and write it into a new file that nobody else can read."""
        try:
            make_private_file(file)
        except OSError as error:
            raise InputError(
                f"the secret key must have a place of its own, but {file.name!r} cannot be made: "
                f"{error.strerror}."
            ) from None
        self.new_secret_key().save(str(file))

    def load_secret_key(self, file: Path) -> sealapi.SecretKey:
        """Read a secret key that was written here."""
        return self._read(self._seal.SecretKey(), file, what="the secret key")


def read_secret_key(context: Ckks, file: Path) -> tuple[sealapi.SecretKey, bytes]:
    """Return the key of a file, made if there is none yet, and a hash that stands for it.

    Raises
    ------
    InputError
        If other users of the machine can read it, or it is no key.
    """
    if not file.exists():
        context.write_secret_key(file)
    if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise InputError(
            f"the secret key in {file.name!r} must be readable by its owner only, but others can read "
            "it. Make a new key, and close the file to others."
        )
    return context.load_secret_key(file), hashlib.sha256(file.read_bytes()).digest()


# --- A matrix in clear times an encrypted vector, without a slot that says more than a product ---


LARGEST = 2.0**14
"""Largest product. All slots at once at this size have 68 bits, and the modulus that is left 109."""
MASK = 2.0**15
DITHER = 2.0**-27
"""Noise on a product, as a share of its row's length: thousands of times what CKKS itself is off by."""
_FILL = 2.0**-10
"""Size of what stands where neither a row nor a number of the vector is: SEAL refuses exact zeros."""


def power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n.

    Examples
    --------
    >>> power_of_two(495), power_of_two(8)
    (512, 8)
    """
    return 1 << (n - 1).bit_length()


@dataclass(frozen=True)
class Layout:
    """How a vector and rows lie in the slots.

    Attributes
    ----------
    n_columns : int
        Numbers of the vector.
    n_rows : int
        Products in a ciphertext: a power of two.
    period : int
    n_pieces : int
        Ciphertexts for the vector; more than one if it is longer than the slots.

    Examples
    --------
    >>> layout = Layout.of(495, 128, CkksParameters())
    >>> layout.period, layout.n_pieces, layout.rotations
    (512, 1, (1, 16, 128, 256))
    """

    n_columns: int
    n_rows: int
    period: int
    n_pieces: int

    @classmethod
    def of(cls, n_columns: int, n_rows: int, parameters: CkksParameters) -> Self:
        """Lay out a vector; `n_rows` must be a power of two."""
        period = min(max(power_of_two(n_columns), n_rows), parameters.n_slots)
        return cls(n_columns, n_rows, period, -(-n_columns // period))

    @property
    def small_steps(self) -> int:
        """Rotations by one; the others go by so many."""
        return 1 << (self.n_rows.bit_length() // 2)

    @property
    def folds(self) -> tuple[int, ...]:
        """Rotations that add up what lies a block of rows apart."""
        return tuple(self.n_rows << k for k in range((self.period // self.n_rows).bit_length() - 1))

    @property
    def rotations(self) -> tuple[int, ...]:
        """Every rotation for which a key is needed."""
        return tuple(sorted({1, self.small_steps, *self.folds}))

    def slots(self, vector: FloatArray, n_slots: int) -> list[FloatArray]:
        """Return the slots of every piece of the vector."""
        whole = np.zeros(self.n_pieces * self.period)
        whole[: self.n_columns] = vector
        return [np.tile(part, n_slots // self.period) for part in whole.reshape(-1, self.period)]


def multiply(
    context: Ckks,
    layout: Layout,
    pieces: list[sealapi.Ciphertext],
    matrix: FloatArray,
    rotation_keys: sealapi.GaloisKeys,
) -> sealapi.Ciphertext:
    """Return an encryption of matrix · vector: row r in every n_rows-th slot from r on.

    Parameters
    ----------
    context : Ckks
    layout : Layout
    pieces : list of ciphertexts
        The vector.
    matrix : array of shape (at most n_rows, n_columns)
    rotation_keys : GaloisKeys
    """
    b, period = layout.n_rows, layout.period
    full = _FILL * (2.0 * random_numbers(b * layout.n_pieces * period) - 1.0).reshape(b, -1)
    full[: len(matrix), : layout.n_columns] = matrix
    total: sealapi.Ciphertext | None = None
    for number, piece in enumerate(pieces):
        part = full[:, number * period : (number + 1) * period]
        product = _diagonals(context, layout, piece, part, rotation_keys)
        if total is None:
            total = product
        else:
            context.evaluator.add_inplace(total, product)
    for step in layout.folds:
        turned = context.new_ciphertext()
        context.evaluator.rotate_vector(total, step, rotation_keys, turned)
        context.evaluator.add_inplace(total, turned)
    context.evaluator.rescale_to_next_inplace(total)
    return total


def _diagonals(
    context: Ckks,
    layout: Layout,
    piece: sealapi.Ciphertext,
    matrix: FloatArray,
    rotation_keys: sealapi.GaloisKeys,
) -> sealapi.Ciphertext:
    """Return Σ_k diagonal_k ⊙ rotate(v, k), as Σ_j rotate(Σ_i …, j·small)."""
    evaluate, small, period = context.evaluator, layout.small_steps, layout.period
    turned = [piece]
    for _ in range(1, small):
        following = context.new_ciphertext()
        evaluate.rotate_vector(turned[-1], 1, rotation_keys, following)
        turned.append(following)
    place = np.arange(period)
    total: sealapi.Ciphertext | None = None
    for start in reversed(range(0, layout.n_rows, small)):
        inner: sealapi.Ciphertext | None = None
        for k in range(start, start + small):
            diagonal = np.roll(matrix[place % layout.n_rows, (place + k) % period], start)
            plain = context.encode(np.tile(diagonal, context.parameters.n_slots // period))
            product = context.new_ciphertext()
            evaluate.multiply_plain(turned[k - start], plain, product)
            if inner is None:
                inner = product
            else:
                evaluate.add_inplace(inner, product)
        if total is None:
            total = inner
        else:
            evaluate.rotate_vector_inplace(total, small, rotation_keys)
            evaluate.add_inplace(total, inner)
    return total


def add_mask(
    context: Ckks, products: sealapi.Ciphertext, lengths: FloatArray, public: sealapi.PublicKey
) -> None:
    """Hide, in place, all but the real parts of the first slots, and whose ciphertext it was.

    A fresh encryption is added of: random numbers in every slot beyond, random imaginary parts in every
    slot, and in the first slots a noise of 2⁻²⁷ of the row's length. It also replaces the randomness of
    the ciphertext, through which the key's owner, who drew it, would see the rows.

    Parameters
    ----------
    context : Ckks
    products : ciphertext
    lengths : array of shape (m,)
        Euclidean lengths of the rows of the first m slots.
    public : PublicKey
    """
    n, m = context.parameters.n_slots, len(lengths)
    real, imaginary = MASK * (2.0 * random_numbers(2 * n) - 1.0).reshape(2, n)
    real[:m] *= DITHER * lengths / MASK
    fresh = context.encrypt_like(real + 1j * imaginary, products, public)
    context.evaluator.add_inplace(products, fresh)


def random_numbers(n: int) -> FloatArray:
    """Return numbers in [0, 1) from the operating system: masks must not be guessed."""
    drawn = np.frombuffer(os.urandom(8 * n), dtype=np.uint64) >> np.uint64(11)
    return np.asarray(drawn * 2.0**-53, dtype=np.float64)
