# SPDX-License-Identifier: Apache-2.0
"""A matrix in clear times an encrypted vector, without a slot that says more than a product.

The vector is repeated along the slots with period P, a power of two. For b rows (a power of two that
divides P) and slot i

    w_i = Σ_{k<b} C[i mod b, (i + k) mod P] · v[(i + k) mod P]

is one product for each of b diagonals, and adding w rotated by b, 2b, …, P/2 leaves row i mod b times v in
slot i: whole sums everywhere, since everything is periodic. (Halevi and Shoup 2014, "Algorithms in
HElib", with the rotations split into small and large ones; for fewer rows than columns as in Juvekar et
al. 2018, "GAZELLE".) Rotating and adding each row by itself, as a dot product does, would leave partial
sums in the other slots, from which the key's owner reads the row.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.valuation.ckks import Ckks, CkksParameters

if TYPE_CHECKING:
    from tenseal import sealapi


ComplexArray = NDArray[np.complex128]

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
